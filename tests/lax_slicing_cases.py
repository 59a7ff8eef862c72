"""Cases for slices, dynamic slices, gathers and scatters."""

import numpy as np
from op_cases import Case, values

from jax import lax

ALL = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]
WIDE = ["int64", "uint64", "float64", "complex128"]
NARROW = ["int4", "uint4", "float8_e4m3fn", "float8_e5m2"]
EVERY = ALL + WIDE + NARROW
NUMBERS = [d for d in ALL + WIDE if d != "bool"]
CASES: list[Case] = []


def add(name, fun, *args, dtypes=("float32",), **kwargs):
    """A case for each dtype; arguments are shapes (for values of that dtype) or integer arrays."""
    for dtype in dtypes:
        arrays = [
            values(a, dtype, f"{name}{i}", ties=kwargs.get("tol") == 0)
            if isinstance(a, tuple)
            else a
            for i, a in enumerate(args)
        ]
        modes = {} if dtype in ("float32", "complex64") else {"diff": "", "vmap": False}
        modes.update(kwargs)
        CASES.append(Case(f"{name}_{dtype}", fun, arrays, x64=dtype in WIDE, **modes))


def ints(*xs, dtype=np.int32):
    return np.array(xs if len(xs) != 1 else xs[0], dtype)


# Static slices
for i, (shape, start, limit, strides) in enumerate(
    [
        ((5,), (1,), (4,), None),
        ((5,), (0,), (5,), (2,)),
        ((5,), (2,), (2,), None),
        ((4, 5), (1, 0), (3, 5), (1, 2)),
        ((4, 5), (0, 1), (4, 4), (3, 2)),
        ((0, 3), (0, 0), (0, 2), None),
        ((), (), (), None),
        ((7,), (1,), (6,), (3,)),
    ]
):
    add(
        f"slice{i}",
        lambda x, s=start, l=limit, t=strides: lax.slice(x, s, l, t),
        shape,
        dtypes=EVERY if i in (0, 3) else ["float32"],
        numpy=lambda x, s=start, l=limit, t=strides: x[
            tuple(slice(*v) for v in zip(s, l, t or (1,) * len(s)))
        ],
    )
add("slice_in_dim", lambda x: lax.slice_in_dim(x, -4, -1, 2, axis=1), (2, 5))
add("slice_in_dim_none", lambda x: lax.slice_in_dim(x, None, None, axis=-1), (2, 5))
add("index_in_dim", lambda x: lax.index_in_dim(x, -1, 1), (2, 5))
add("index_in_dim_drop", lambda x: lax.index_in_dim(x, 1, 1, keepdims=False), (2, 5))

# Dynamic slices; every operand is batched by itself and with the others
for i in (-7, -1, 0, 2, 9):
    add(f"dynamic_slice{i}", lambda x, j: lax.dynamic_slice(x, (j, 1), (2, 3)), (4, 5), ints(i))
    add(
        f"dynamic_update_slice{i}",
        lambda x, u, j: lax.dynamic_update_slice(x, u, (j, 1)),
        (4, 5),
        (2, 3),
        ints(i),
    )
add(
    "dynamic_slice_dtypes",
    lambda x, j: lax.dynamic_slice(x, (j,), (2,)),
    (5,),
    ints(2),
    dtypes=EVERY,
)
add(
    "dynamic_update_slice_dtypes",
    lambda x, u, j: lax.dynamic_update_slice(x, u, (j,)),
    (5,),
    (2,),
    ints(2),
    dtypes=EVERY,
)
for dtype in ("int8", "uint8", "int16", "uint32"):
    add(
        f"dynamic_slice_index_{dtype}",
        lambda x, j: lax.dynamic_slice(x, (j,), (2,)),
        (5,),
        ints(3, dtype=dtype),
    )
add("dynamic_slice_array", lambda x, j: lax.dynamic_slice(x, j, (2, 2)), (4, 5), ints(1, -2))
add("dynamic_slice_scalar", lambda x: lax.dynamic_slice(x, (), ()), ())
add("dynamic_slice_empty", lambda x, j: lax.dynamic_slice(x, (j, 0), (0, 2)), (4, 5), ints(2))
add("dynamic_slice_static", lambda x: lax.dynamic_slice(x, (1, -2), (2, 2)), (4, 5))
add(
    "dynamic_slice_not_negative",
    lambda x, j: lax.dynamic_slice(x, (j, 0), (2, 2), allow_negative_indices=False),
    (4, 5),
    ints(-1),
)
add(
    "dynamic_slice_some_negative",
    lambda x, j: lax.dynamic_slice(x, (j, j), (2, 2), allow_negative_indices=(False, True)),
    (4, 5),
    ints(-1),
)
add("dynamic_slice_in_dim", lambda x, j: lax.dynamic_slice_in_dim(x, j, 2, axis=1), (4, 5), ints(2))
add("dynamic_index_in_dim", lambda x, j: lax.dynamic_index_in_dim(x, j, 1), (4, 5), ints(-2))
add(
    "dynamic_index_in_dim_drop",
    lambda x, j: lax.dynamic_index_in_dim(x, j, -1, keepdims=False),
    (4, 5),
    ints(3),
)
add(
    "dynamic_update_slice_in_dim",
    lambda x, u, j: lax.dynamic_update_slice_in_dim(x, u, j, 1),
    (4, 5),
    (4, 2),
    ints(2),
)
add(
    "dynamic_update_index_in_dim",
    lambda x, u, j: lax.dynamic_update_index_in_dim(x, u, j, 1),
    (4, 5),
    (4, 1),
    ints(2),
)
add(
    "dynamic_update_index_in_dim_drop",
    lambda x, u, j: lax.dynamic_update_index_in_dim(x, u, j, 0),
    (4, 5),
    (5,),
    ints(-1),
)
add("dynamic_update_slice_empty", lambda x, u: lax.dynamic_update_slice(x, u, (2,)), (4,), (0,))
add(
    "index_take",
    lambda x, i, j: lax.index_take(x, (i, j), (0, 2)),
    (3, 2, 4),
    ints(0, 2, -1),
    ints(5, 1, 0),
)

# Gathers
G, S = lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers
MODES = ["clip", "fill", "promise_in_bounds"]
GATHERS = [
    # operand, indices, dimension numbers, slice sizes
    ((5,), ints([[0], [2], [4]]), G((), (0,), (0,)), (1,)),
    ((5,), ints([[0], [2]]), G((1,), (), (0,)), (2,)),
    ((4, 5), ints([[0, 2], [3, 4]]), G((), (0, 1), (0, 1)), (1, 1)),
    ((4, 5), ints([[1], [0]]), G((1,), (0,), (0,)), (1, 3)),
    ((4, 5), ints([[1], [2]]), G((0,), (1,), (1,)), (4, 1)),
    ((4, 5), ints([[1, 2], [2, 0]]), G((0, 2), (), (0, 1)), (2, 3)),
    ((4, 5), ints([[2, 1], [0, 2]]), G((0, 2), (), (1, 0)), (2, 3)),
    ((3, 4, 5), ints([[[1], [2], [0]], [[0], [3], [2]]]), G((0, 2), (1,), (1,)), (2, 1, 5)),
    ((3, 4, 5), ints([[1], [2], [0]]), G((1,), (1,), (1,), (0,), (0,)), (1, 1, 5)),
    ((3, 4, 3), ints([[[1], [2], [0]], [[0], [3], [2]]]), G((), (1,), (1,), (2,), (1,)), None),
    ((4, 5), np.zeros((0, 1), np.int32), G((1,), (0,), (0,)), (1, 5)),
    ((4,), np.zeros((2, 0), np.int32), G((1,), (), ()), (4,)),
]
for i, (shape, index, dnums, sizes) in enumerate(GATHERS):
    if sizes is None:  # the first dimension, kept whole, is an offset dimension
        dnums, sizes = dnums._replace(offset_dims=(1,)), (3, 1, 1)
    for mode in MODES:
        add(
            f"gather{i}_{mode}",
            lambda x, i, d=dnums, s=sizes, m=mode: lax.gather(x, i, d, s, mode=m),
            shape,
            index,
            dtypes=EVERY if i == 3 and mode == "fill" else ["float32"],
        )
OUT = ints([[0], [-1], [9], [4], [5], [-7]])
for mode in MODES:
    for dtype in ("int32", "int8", "uint8", "uint32"):
        add(
            f"gather_out_of_bounds_{mode}_{dtype}",
            lambda x, i, m=mode: lax.gather(x, i, G((1,), (0,), (0,)), (1, 3), mode=m),
            (5, 4),
            OUT.astype(dtype),
        )
add(
    "gather_fill_value",
    lambda x, i: lax.gather(x, i, G((1,), (0,), (0,)), (1, 3), mode="fill", fill_value=3),
    (5, 4),
    OUT,
    dtypes=ALL,
)
add(
    "gather_without_mode",
    lambda x, i: lax.gather(x, i, G((1,), (0,), (0,)), (1, 3)),
    (5, 4),
    OUT,
    dtypes=["float32", "int32"],
)
add(
    "gather_promises",
    lambda x, i: lax.gather(
        x, i, G((), (0,), (0,)), (1,), unique_indices=True, indices_are_sorted=True, mode="clip"
    ),
    (5,),
    ints([[0], [2], [4]]),
)

# Scatters
SCATTERS = [
    # operand, indices, updates, dimension numbers
    ((5,), ints([[0], [2], [4]]), (3,), S((), (0,), (0,))),
    ((5,), ints([[0], [2]]), (2, 2), S((1,), (), (0,))),
    ((4, 5), ints([[0, 2], [3, 4]]), (2,), S((), (0, 1), (0, 1))),
    ((4, 5), ints([[1], [0]]), (2, 3), S((1,), (0,), (0,))),
    ((4, 5), ints([[1], [2]]), (4, 2), S((0,), (1,), (1,))),
    ((4, 5), ints([[0, 2], [2, 0]]), (2, 2, 3), S((0, 2), (), (0, 1))),
    ((3, 4, 5), ints([[[1], [2], [0]], [[0], [3], [1]]]), (2, 2, 3, 5), S((0, 3), (1,), (1,))),
    ((3, 4, 5), ints([[1], [2], [0]]), (3, 5), S((1,), (1,), (1,), (0,), (0,))),
    ((4, 5), np.zeros((0, 1), np.int32), (0, 5), S((1,), (0,), (0,))),
]
FUNCTIONS = ["scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"]
for f in FUNCTIONS:
    for i, (shape, index, updates, dnums) in enumerate(SCATTERS):
        if i % 4 and f != "scatter_add":
            continue
        add(
            f"{f}{i}",
            lambda x, i, u, f=f, d=dnums: getattr(lax, f)(x, i, u, d, unique_indices=True),
            shape,
            index,
            updates,
        )
    for mode in MODES:
        if mode == "promise_in_bounds":
            index = ints([[0], [4], [2]])
        else:
            index = ints([[0], [7], [-2]])
        # Multiplication is differentiable here only where indices are unique, in the reference build.
        add(
            f"{f}_{mode}",
            lambda x, i, u, f=f, m=mode: getattr(lax, f)(
                x, i, u, S((1,), (0,), (0,)), mode=m, unique_indices=True
            ),
            (5, 2),
            index,
            (3, 2),
            ignore=("vjp", "jvp")
            if f in ("scatter_min", "scatter_max") and mode != "promise_in_bounds"
            else (),
        )
    # With repeated indices; float16 sums depend on the order.
    dtypes = EVERY if f == "scatter" else [d for d in NUMBERS if d != "complex64"] + ["complex64"]
    if f in ("scatter_min", "scatter_max"):
        dtypes = [d for d in EVERY if not d.startswith(("complex", "float8"))]
    add(
        f"{f}_dtypes",
        lambda x, i, u, f=f: getattr(lax, f)(x, i, u, S((), (0,), (0,))),
        (5,),
        ints([[1], [3], [0]]),
        (3,),
        dtypes=dtypes,
        diff="" if f == "scatter_mul" else "both",
        vmap=False,
    )
    add(
        f"{f}_repeated",
        lambda x, i, u, f=f: getattr(lax, f)(x, i, u, S((1,), (0,), (0,))),
        (4, 2),
        ints([[1], [3], [1], [1], [3]]),
        (5, 2),
        diff="" if f == "scatter_mul" else "both",
        tol=1e-5,
    )
for f in ("scatter_min", "scatter_max"):
    for i, (x, u) in enumerate([([1, 2, 3], [1, 1, 5, 3]), ([1, 1, 1], [1, 1, 1, 1])]):
        CASES.append(
            Case(
                f"{f}_ties{i}",
                lambda x, i, u, f=f: getattr(lax, f)(x, i, u, S((), (0,), (0,))),
                [np.array(x, np.float32), ints([[0], [0], [2], [2]]), np.array(u, np.float32)],
                vmap=False,
            )
        )
add(
    "scatter_apply",
    lambda x, i: lax.scatter_apply(x, i, lax.sin, S((), (0,), (0,)), update_shape=(3,)),
    (5,),
    ints([[1], [3], [1]]),
    diff="",
)
add(
    "scatter_apply_window",
    lambda x, i: lax.scatter_apply(
        x, i, lambda v: v * v, S((1,), (0,), (0,)), update_shape=(2, 3), unique_indices=True
    ),
    (5, 3),
    ints([[1], [3]]),
    diff="",
)


# Errors: name, function, shapes
def error(name, fun, *args):
    add(f"error_{name}", fun, *args, diff="", vmap=False, ignore=("jit",))


ix = ints([[0], [1]])
error("slice_limit", lambda x: lax.slice(x, (0,), (9,)), (5,))
error("slice_order", lambda x: lax.slice(x, (3,), (1,)), (5,))
error("slice_strides", lambda x: lax.slice(x, (0,), (3,), (1, 1)), (5,))
error("index_in_dim", lambda x: lax.index_in_dim(x, 9), (5,))
error("slice_in_dim", lambda x: lax.slice_in_dim(x, 0, 9), (5,))
error("dynamic_slice_rank", lambda x: lax.dynamic_slice(x, (0, 0), (1, 1)), (5,))
error("dynamic_slice_size", lambda x: lax.dynamic_slice(x, (0,), (9,)), (5,))
error("dynamic_slice_negative", lambda x: lax.dynamic_slice(x, (0,), (-1,)), (5,))
error("dynamic_slice_float", lambda x: lax.dynamic_slice(x, (0.0,), (1,)), (5,))
error("dynamic_update_slice_rank", lambda x, u: lax.dynamic_update_slice(x, u, (0,)), (5,), (2, 2))
error("dynamic_update_slice_size", lambda x, u: lax.dynamic_update_slice(x, u, (0,)), (5,), (9,))
error(
    "dynamic_update_slice_dtype",
    lambda x, u: lax.dynamic_update_slice(x, u, (0,)),
    (5,),
    ints(1, 2),
)
for name, dnums, sizes in [
    ("offset_sorted", G((2, 1), (0,), (0,)), (1, 3, 4)),
    ("offset_distinct", G((1, 1), (0,), (0,)), (1, 3, 4)),
    ("offset_range", G((1, 9), (0,), (0,)), (1, 3, 4)),
    ("map_length", G((1, 2), (0,), (0, 1)), (1, 3, 4)),
    ("map_range", G((1, 2), (0,), (7,)), (1, 3, 4)),
    ("collapsed_range", G((1, 2), (7,), (0,)), (1, 3, 4)),
    ("collapsed_sorted", G((1,), (1, 0), (0,)), (1, 1, 4)),
    ("collapsed_size", G((1, 2), (0,), (0,)), (2, 3, 4)),
    ("sizes_length", G((1, 2), (0,), (0,)), (1, 3)),
    ("sizes_range", G((1, 2), (0,), (0,)), (1, 3, 5)),
    ("offset_count", G((1,), (0,), (0,)), (1, 3, 4)),
    ("batching_sizes", G((1,), (0,), (0,), (1,), (0,)), (1, 1, 4)),
]:
    error(f"gather_{name}", lambda x, i, d=dnums, s=sizes: lax.gather(x, i, d, s), (2, 3, 4), ix)
error(
    "gather_mode", lambda x, i: lax.gather(x, i, G((1,), (0,), (0,)), (1, 5), mode="x"), (4, 5), ix
)
error("gather_float", lambda x, i: lax.gather(x, i, G((1,), (0,), (0,)), (1, 5)), (4, 5), (2, 1))
error("gather_scalar", lambda x, i: lax.gather(x, i, G((1,), (0,), (0,)), (1, 5)), (4, 5), ints(0))
for name, dnums, updates in [
    ("updates_rank", S((1,), (0,), (0,)), (2, 5, 1)),
    ("updates_batch", S((1,), (0,), (0,)), (3, 5)),
    ("updates_window", S((1,), (0,), (0,)), (2, 6)),
    ("window_range", S((2,), (0,), (0,)), (2, 5)),
    ("inserted_range", S((1,), (2,), (0,)), (2, 5)),
    ("inserted_missing", S((1,), (), (0,)), (2, 5)),
    ("map_length", S((1,), (0,), (0, 1)), (2, 5)),
    ("map_range", S((1,), (0,), (4,)), (2, 5)),
]:
    error(f"scatter_{name}", lambda x, i, u, d=dnums: lax.scatter(x, i, u, d), (4, 5), ix, updates)
error(
    "scatter_dtype",
    lambda x, i, u: lax.scatter_add(x, i, u, S((1,), (0,), (0,))),
    (4, 5),
    ix,
    np.zeros((2, 5), np.int32),
)
