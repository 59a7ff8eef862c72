"""Cases of `jax.scipy.fft`; what the reference does not have is compared with SciPy."""

import itertools

import numpy as np
import scipy.fft
from op_cases import Case, values

import jax.scipy.fft as fft

CASES = []


def add(name, label, shape, dtype="float32", **options):
    fun, numpy = getattr(fft, name), getattr(scipy.fft, name)
    double = dtype in ("float64", "complex128")
    narrow = dtype in ("float16", "bfloat16", "bool") or "int" in dtype
    CASES.append(
        Case(
            f"{name}_{label}",
            lambda x: fun(x, **options),
            [values(shape, dtype, label)],
            None if narrow else lambda x: numpy(x, **options),
            x64=double,
            tol=1e-13 if double else 3e-6,
            diff="both"
            if dtype in ("float32", "complex64") and label not in ("large", "ortho", "axes")
            else "",
            vmap=label in ("axis", "norm_ortho", "sizes"),
        )
    )


for name, norm in itertools.product(("dct", "idct"), (None, "backward", "ortho")):
    add(name, f"norm_{norm}", (6,), norm=norm)
for name in ("dct", "idct"):
    for n in (1, 2, 3, 8, 11):
        add(name, f"n_{n}", (7,), n=n)
    for size in (1, 2, 5):
        add(name, f"size_{size}", (size,))
    add(name, "axis", (3, 4), axis=0)
    if name == "dct":
        add(name, "float16", (5,), "float16")  # whose inverse the reference scales in float16
    add(name, "axis_n", (3, 4, 2), axis=-2, n=5)
    add(name, "large", (1000,), norm="ortho")
    for dtype in ("float64", "complex64", "complex128", "int32", "bool"):
        add(name, dtype, (5,), dtype)
for name in ("dctn", "idctn"):
    add(name, "all", (3, 4))
    add(name, "ortho", (2, 3, 4), norm="ortho")
    add(name, "axes", (2, 3, 4), axes=(0, -1))
    add(name, "axis", (3, 4), axes=0)
    add(name, "sizes", (3, 4), s=(5, 2))
    add(name, "sizes_last", (3, 4), s=(5,))
    add(name, "size", (3, 4), s=3)
    add(name, "sizes_axes", (3, 4), s=(5,), axes=(-2,))
    add(name, "float64", (3, 4), "float64")
CASES.append(Case("dctn_no_axes", lambda x: fft.dctn(x, axes=()), [values((2, 3), "float32", "x")]))


def error(label, fun):
    CASES.append(Case(f"error_{label}", fun, diff="", vmap=False, any_error=True, ignore=("jit",)))


X = np.ones((3, 4), np.float32)
error("norm", lambda: fft.dct(X, norm="bad"))
error("n", lambda: fft.idct(X, n=-1))
error("empty", lambda: fft.dct(X[:, :0]))
error("axis", lambda: fft.dct(X, axis=2))
error("scalar", lambda: fft.dct(np.float32(1)))
error("list", lambda: fft.dct([1.0, 2.0]))
error("axes", lambda: fft.dctn(X, axes=(0, 0)))
