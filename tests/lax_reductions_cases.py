"""Cases for reductions, positions of extrema, scans and windows."""

import numpy as np
from op_cases import Case, values

from jax import lax

CASES: list[Case] = []
INTS = ["int8", "uint8", "int32", "uint32"]
FLOATS = ["float16", "bfloat16", "float32"]
NUMBERS = [*INTS, *FLOATS, "complex64"]
WIDE = ["int64", "uint64", "float64", "complex128"]
SHAPES = [
    ((2, 3), (0,)),
    ((2, 3), (1, 0)),
    ((2, 3, 4), (0, 2)),
    ((0, 3), (0,)),
    ((3,), ()),
    ((), ()),
]


def add(name, fun, *shapes, dtypes=("float32",), special=False, ties=False, **kwargs):
    for dtype in dtypes:
        args = [values(s, dtype, f"{name}{i}", special, ties) for i, s in enumerate(shapes)]
        modes = {} if dtype in ("float32", "complex64") else {"diff": "", "vmap": False}
        case = Case(f"{name}_{dtype}", fun, args, x64=dtype in WIDE, **{**modes, **kwargs})
        CASES.append(case)


REDUCTIONS = {
    "reduce_sum": (NUMBERS + WIDE, np.sum),
    "reduce_prod": (NUMBERS + WIDE, np.prod),
    "reduce_max": (["bool", *NUMBERS, *WIDE, "float8_e4m3fn"], None),
    "reduce_min": (["bool", *NUMBERS, *WIDE, "float8_e4m3fn"], None),
    "reduce_and": (["bool", *INTS, "int64"], None),
    "reduce_or": (["bool", *INTS, "int64"], None),
    "reduce_xor": (["bool", *INTS, "int64"], None),
}
for op, (dtypes, reference) in REDUCTIONS.items():
    fun = getattr(lax, op)
    for i, (shape, axes) in enumerate(SHAPES):
        kinds = dtypes if i == 0 else [d for d in dtypes if d in ("float32", "int32")]
        add(
            f"{op}{i}",
            lambda x, fun=fun, axes=axes: fun(x, axes),
            shape,
            dtypes=kinds,
            numpy=reference and (lambda x, axes=axes, f=reference: f(x, axis=axes)),
        )
    if "float32" in dtypes:
        kinds = [*FLOATS, "float64"]
        add(f"{op}_special", lambda x, fun=fun: fun(x, (1,)), (4, 5), dtypes=kinds, special=True,
            diff="")  # fmt: skip
        add(f"{op}_ties", lambda x, fun=fun: fun(x, (1,)), (3, 6), ties=True)
add(
    "reduce_prod_one_zero",
    lambda x: lax.reduce_prod(x * np.array([1, 0, 1], np.float32), (1,)),
    (2, 3),
)
add(
    "reduce_prod_two_zeros",
    lambda x: lax.reduce_prod(x * np.array([1, 0, 0], np.float32), (1,)),
    (2, 3),
)
add("reduce_prod_long", lambda x: lax.reduce_prod(x, (0, 1)), (5, 7))

for op in ("argmax", "argmin"):
    fun = getattr(lax, op)
    kinds = ["bool", *INTS, *FLOATS, "int64", "float64"]
    add(op, lambda x, fun=fun: fun(x, 1, "int32"), (2, 5), dtypes=kinds, ties=True)
    add(f"{op}_first", lambda x, fun=fun: fun(x, 0, np.uint8), (4, 3), dtypes=kinds, ties=True)
    add(f"{op}_special", lambda x, fun=fun: fun(x, 1, "int32"), (20, 5), special=True)
    add(f"{op}_all_inf", lambda x, fun=fun: fun(x * 0 - np.inf, 0, "int32"), (3,), diff="")
    add(f"{op}_all_minus_inf", lambda x, fun=fun: fun(x * 0 + np.inf, 0, "int32"), (3,), diff="")
    add(f"{op}_narrow_index", lambda x, fun=fun: fun(x, 0, "int8"), (300,))

    add(f"{op}_long", lambda x, fun=fun: fun(x, 1, "int32"), (3, 70), ties=True,
        dtypes=["float32", "float16", "bfloat16", "int32", "float64"])  # fmt: skip
    add(f"{op}_long_special", lambda x, fun=fun: fun(x, 0, "int16"), (70, 9), special=True)

# Any monoid
for i, (fun, init) in enumerate(
    [
        (lax.add, 0.0),
        (lax.mul, 1.0),
        (lax.max, -np.inf),
        (lax.min, np.inf),
        (lax.add, 1.0),
        (lambda x, y: x * y, np.float32(1)),
        (lambda x, y: lax.max(x, y), np.float32(-3)),
        (lambda x, y: x + y + x * y, np.float32(0)),
    ]
):
    add(f"reduce{i}", lambda x, f=fun, v=init: lax.reduce(x, v, f, (1,)), (2, 5))
    add(f"reduce_two_axes{i}", lambda x, f=fun, v=init: lax.reduce(x, v, f, (2, 0)), (2, 3, 5))
add(
    "reduce_int",
    lambda x: lax.reduce(x, np.int32(0), lambda a, b: a ^ b, (0,)),
    (5,),
    dtypes=["int32"],
)
add(
    "reduce_bool_and", lambda x: lax.reduce(x, True, lax.bitwise_and, (0,)), (5, 2), dtypes=["bool"]
)
add("reduce_bool_or", lambda x: lax.reduce(x, False, lax.bitwise_or, (0,)), (5, 2), dtypes=["bool"])
add("reduce_empty", lambda x: lax.reduce(x, np.float32(1), lambda a, b: a * b, (0,)), (0, 2), diff="",
    vmap=False)  # fmt: skip


def _sum_and_product(x, y):
    init = (np.float32(0), np.float32(1))
    return lax.reduce((x, y), init, lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,))


add("reduce_pair", _sum_and_product, (4, 3), (4, 3), diff="both")

# Scans
SCANS = {
    "cumsum": (NUMBERS + WIDE, lambda x, axis: np.cumsum(x, axis)),
    "cumprod": (NUMBERS + WIDE, lambda x, axis: np.cumprod(x, axis)),
    "cummax": (NUMBERS + WIDE, lambda x, axis: np.maximum.accumulate(x, axis)),
    "cummin": (NUMBERS + WIDE, lambda x, axis: np.minimum.accumulate(x, axis)),
    "cumlogsumexp": (
        ["float16", "bfloat16", "float32", "complex64", "float64", "complex128"],
        None,
    ),
}
for op, (dtypes, reference) in SCANS.items():
    fun = getattr(lax, op)
    loose = {"tol": 1e-2} if op == "cumlogsumexp" else {}
    for dtype in dtypes:
        wide = {"tol": 3e-2} if dtype in ("float16", "bfloat16") else {}
        real = "complex" not in dtype
        add(
            op,
            lambda x, fun=fun: fun(x, 1),
            (2, 7),
            dtypes=[dtype],
            numpy=(lambda x, f=reference: f(x, 1)) if reference and real and not wide else None,
            **wide,
        )
    add(f"{op}_reverse", lambda x, fun=fun: fun(x, 0, reverse=True), (6, 2))
    add(f"{op}_one", lambda x, fun=fun: fun(x), (1,))
    add(f"{op}_two", lambda x, fun=fun: fun(x), (2,))
    add(f"{op}_empty", lambda x, fun=fun: fun(x), (0, 2))
    add(f"{op}_long", lambda x, fun=fun: fun(x / 3), (300,), tol=1e-4)
    add(f"{op}_ties", lambda x, fun=fun: fun(x), (9,), ties=True)
    add(f"{op}_special", lambda x, fun=fun: fun(x, 1), (9, 5), special=True, diff="")
    add(f"{op}_large", lambda x, fun=fun: fun(x / 8, 0), (40, 300), diff="", vmap=False, tol=1e-3)
    add(f"{op}_large_reverse", lambda x, fun=fun: fun(x / 8, 1, reverse=True), (300, 40), diff="",
        vmap=False, tol=1e-3)  # fmt: skip
    add(f"{op}_large_special", lambda x, fun=fun: fun(x, 0), (40, 300), special=True, diff="",
        vmap=False, tol=1e-3)  # fmt: skip
add(
    "cumlogsumexp_very_long",
    lambda x: lax.cumlogsumexp(x, 1),
    (3, 5001),
    diff="",
    vmap=False,
    tol=1e-3,
)
add("cumprod_zero", lambda x: lax.cumprod(x * np.array([1, 0, 1, 1], np.float32)), (4,))

# Windows
WINDOWS = [
    ((6,), (2,), (1,), "VALID", None, None),
    ((5, 6), (2, 3), (1, 2), "SAME", None, None),
    ((5, 6), (2, 3), (2, 1), "SAME_LOWER", None, None),
    ((5, 6), (3, 2), (2, 2), [(1, 2), (0, 1)], None, None),
    ((4, 5), (2, 2), (1, 2), [(1, 0), (0, 1)], (2, 1), None),
    ((5, 6), (2, 2), (1, 1), "VALID", None, (2, 3)),
    ((3, 4), (2, 2), (1, 1), "SAME", (1, 2), (2, 1)),
    ((3,), (5,), (1,), "VALID", None, None),
    ((), (), (), "VALID", None, None),
    ((0, 3), (1, 2), (1, 1), "VALID", None, None),
]
MONOIDS = {
    "add": (lax.add, 0),
    "max": (lax.max, -np.inf),
    "min": (lax.min, np.inf),
    "mul": (lax.mul, 1),
}
for op, (fun, init) in MONOIDS.items():
    for i, (shape, *window) in enumerate(WINDOWS):
        # The reference does not differentiate some of these.
        no_vjp = op == "mul" or (op in ("max", "min") and (window[4] or shape == ()))
        vmap = not (op == "mul" and shape == ())
        add(
            f"reduce_window_{op}{i}",
            lambda x, f=fun, v=init, w=window: lax.reduce_window(x, np.array(v, x.dtype), f, *w),
            shape,
            diff="jvp" if no_vjp else "both",
            vmap=vmap,
        )
    kinds = ["float16", "bfloat16", "complex64", "float64"]
    if op in ("add", "mul"):
        kinds += ["int32", "uint8", "int64"]
    add(
        f"reduce_window_{op}",
        lambda x, f=fun, v=init: lax.reduce_window(x, np.array(v, x.dtype), f, (3,), (2,), "SAME"),
        (7,),
        dtypes=kinds,
        diff="",
    )
    add(
        f"reduce_window_ties_{op}",
        lambda x, f=fun, v=init: lax.reduce_window(x, np.float32(v), f, (3,), (1,), "SAME"),
        (12,),
        ties=True,
        diff="jvp" if op == "mul" else "both",
    )
add(
    "reduce_window_from_two",
    lambda x: lax.reduce_window(x, 2.0, lax.add, (2, 2), (1, 2), [(1, 1), (0, 0)], (1, 2), (2, 1)),
    (2, 3),
    diff="",
)
add(
    "reduce_window_pair",
    lambda x, y: lax.reduce_window(
        (x, y),
        (np.float32(0), np.float32(1)),
        lambda a, b: (a[0] + b[0], a[1] * b[1]),
        (2,),
        (1,),
        "SAME",
    ),
    (5,),
    (5,),
    diff="jvp",
)


# Errors
def error(name, fun, *args):
    CASES.append(Case(f"error_{name}", fun, [np.asarray(a) for a in args], diff="", vmap=False))


f23 = np.zeros((2, 3), np.float32)
for op in REDUCTIONS:
    fun = getattr(lax, op)
    x = f23.astype(np.int32)
    error(f"{op}_negative", lambda x, f=fun: f(x, (-1,)), x)
    error(f"{op}_twice", lambda x, f=fun: f(x, (1, 1)), x)
    if op not in ("reduce_and", "reduce_or", "reduce_xor"):  # an IndexError in the reference
        error(f"{op}_range", lambda x, f=fun: f(x, (2,)), x)
error("reduce_sum_bool", lambda x: lax.reduce_sum(x, (0,)), f23 > 0)
error("reduce_prod_bool", lambda x: lax.reduce_prod(x, (0,)), f23 > 0)
error("reduce_and_float", lambda x: lax.reduce_and(x, (0,)), f23)
error("argmax_negative", lambda x: lax.argmax(x, -1, "int32"), f23)
error("argmax_range", lambda x: lax.argmax(x, 2, "int32"), f23)
error("argmax_float_index", lambda x: lax.argmax(x, 1, "float32"), f23)
error("argmax_empty", lambda x: lax.argmax(x, 0, "int32"), f23[:0])
error("argmax_complex", lambda x: lax.argmax(x, 0, "int32"), f23.astype(np.complex64))
error("reduce_trees", lambda x: lax.reduce((x, x), 0.0, lax.add, (0,)), f23)
error("reduce_vector_init", lambda x: lax.reduce(x, f23[0], lambda a, b: a, (0,)), f23)
error("reduce_init_dtype", lambda x: lax.reduce(x, np.int32(0), lambda a, b: a, (0,)), f23)
error("cumsum_bool", lambda x: lax.cumsum(x), f23 > 0)
error("cumsum_negative", lambda x: lax.cumsum(x, -1), f23)
error("cumsum_range", lambda x: lax.cumsum(x, 2), f23)
error("cumsum_scalar", lambda x: lax.cumsum(x), np.float32(1))
window = lambda *args: lambda x: lax.reduce_window(x, 0.0, lax.add, *args)
error("window_rank", window((2,)), f23)
error("window_zero", window((2, 0)), f23)
error("window_zero_stride", window((2, 1), (0, 1)), f23)
error("window_strides_rank", window((2, 1), (1,)), f23)
error("window_zero_dilation", window((2, 1), (1, 1), [(0, 0)] * 2, (0, 1)), f23)
error("window_dilation_rank", window((2, 1), (1, 1), [(0, 0)] * 2, (1, 1), (1,)), f23)
