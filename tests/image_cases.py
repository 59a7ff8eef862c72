"""Cases of jax.image for image_test.py."""

import numpy as np
from op_cases import Case, values

import jax

METHODS = ("nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area")
IMAGE = values((7, 5), "float32", "image")


def resize(shape, method, antialias):
    return lambda x: jax.image.resize(x, shape, method, antialias=antialias)


def transform(method, antialias):
    return lambda x, s, t: jax.image.scale_and_translate(x, (8, 6), (0, 1), s, t, method, antialias)


CASES = [
    Case(f"resize_{method}_{antialias}_{shape}", resize(shape, method, antialias), [IMAGE], vmap=False, tol=2e-4)
    for method in METHODS
    for antialias, shape in [(True, (4, 9)), (False, (3, 2)), (True, (7, 5))]
] + [
    Case(
        f"transform_{method}_{antialias}",
        transform(method, antialias),
        [IMAGE, np.float32([2, 0.5]), np.float32([0.3, -1])],
        vmap=method == "linear",
        tol=5e-4,
    )
    for method in METHODS[1:]
    for antialias in (True, False)
] + [
    Case(f"dtype_{dtype}_{method}", resize((4, 9), method, True), [values((7, 5), dtype, "image")], diff="")
    for dtype in ("bool", "int8", "bfloat16", "float16", "complex64")
    for method in ("nearest", "linear")
] + [
    Case("error_shape", resize((4,), "linear", True), [IMAGE], diff="", vmap=False),
    Case("error_method", resize((4, 4), "other", True), [IMAGE], diff="", vmap=False),
    Case("error_nearest", transform("nearest", True), [IMAGE, np.ones(2), np.ones(2)], diff="", vmap=False),
    Case("stays_empty", resize((0, 5), "linear", True), [IMAGE], diff="", vmap=False),
]  # fmt: skip
