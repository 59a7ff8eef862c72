"""Cases for operations that change shapes, join, split, pad and create arrays."""

import numpy as np
from op_cases import Case, product, values

from jax import lax

ALL = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]
WIDE = ["int64", "uint64", "float64", "complex128"]
NARROW = ["int4", "uint4", "float8_e4m3fn", "float8_e5m2"]
CASES: list[Case] = []


def add(name, fun, *shapes, dtypes=("float32",), **kwargs):
    for dtype in dtypes:
        args = [values(s, dtype, f"{name}{i}") for i, s in enumerate(shapes)]
        x64 = dtype in WIDE
        # One dtype goes through all modes; the others are there for their lowering.
        modes = {} if dtype in ("float32", "complex64") else {"diff": "", "vmap": False}
        CASES.append(Case(f"{name}_{dtype}", fun, args, x64=x64, **modes, **kwargs))


EVERY = ALL + WIDE + NARROW

# Broadcasting
add("broadcast", lambda x: lax.broadcast(x, (2, 4)), (3, 2), dtypes=EVERY)
add("broadcast_scalar", lambda x: lax.broadcast(x, (2,)), ())
add("broadcast_none", lambda x: lax.broadcast(x, ()), (3,))
add("broadcast_empty", lambda x: lax.broadcast(x, (0, 2)), (3,))
for i, (shape, out, dims) in enumerate(
    [
        ((2, 3), (2, 3), (0, 1)),
        ((), (2, 3), ()),
        ((3,), (2, 3), (1,)),
        ((1, 3), (4, 2, 3), (1, 2)),
        ((2, 1), (4, 2, 3), (1, 2)),
        ((1, 1), (1, 3), (0, 1)),
        ((0, 1), (0, 3), (0, 1)),
        ((2,), (2, 0), (0,)),
    ]
):
    add(
        f"broadcast_in_dim{i}",
        lambda x, out=out, dims=dims: lax.broadcast_in_dim(x, out, dims),
        shape,
    )
add("broadcast_to_rank", lambda x: lax.broadcast_to_rank(x, 4), (2, 3), dtypes=ALL)

# Reshaping
for i, (shape, new, dims) in enumerate(
    [
        ((2, 3), (6,), None),
        ((2, 3), (3, 2), (1, 0)),
        ((2, 3), (6,), (0, 1)),
        ((6,), (2, 1, 3), None),
        ((2, 3, 4), (4, 6), (2, 0, 1)),
        ((), (1, 1), None),
        ((1,), (), None),
        ((0, 3), (3, 0, 2), None),
        ((2, 3), (2, 3), None),
    ]
):
    add(
        f"reshape{i}",
        lambda x, new=new, dims=dims: lax.reshape(x, new, dims),
        shape,
        dtypes=EVERY if i == 1 else ["float32"],
    )
add("squeeze", lambda x: lax.squeeze(x, (0, -1)), (1, 3, 1), dtypes=EVERY)
add("squeeze_none", lambda x: lax.squeeze(x, ()), (1, 3))
add("expand_dims", lambda x: lax.expand_dims(x, (0, -1)), (2, 3), dtypes=EVERY)
add("collapse", lambda x: lax.collapse(x, 1), (2, 3, 4))
add("collapse_part", lambda x: lax.collapse(x, -3, -1), (2, 3, 4))
add("collapse_nothing", lambda x: lax.collapse(x, 1, 1), (2, 3))

# Reordering
add("transpose", lambda x: lax.transpose(x, (2, 0, 1)), (2, 3, 4), dtypes=EVERY)
add("transpose_numpy", lambda x: lax.transpose(x, np.array([1, 0])), (2, 3))
add("transpose_scalar", lambda x: lax.transpose(x, ()), ())
add("transpose_empty", lambda x: lax.transpose(x, (1, 0)), (0, 3))
add("rev", lambda x: lax.rev(x, (0, 2)), (2, 3, 4), dtypes=EVERY)
add("rev_none", lambda x: lax.rev(x, ()), (2, 3))
add("rev_empty", lambda x: lax.rev(x, (0,)), (0, 3))
add("tile", lambda x: lax.tile(x, (2, 1, 3)), (2, 3, 1), dtypes=EVERY)
add("tile_zero", lambda x: lax.tile(x, (0, 2)), (2, 3))
add("tile_scalar", lambda x: lax.tile(x, ()), ())
add("copy", lambda x: lax.copy_p.bind(x), (2, 3), dtypes=EVERY)
add("optimization_barrier", lambda x, y: lax.optimization_barrier({"x": x, "y": y}), (2,), (3, 1))

# Joining and splitting
add("concatenate", lambda x, y: lax.concatenate([x, y, x], 1), (2, 3), (2, 1), dtypes=EVERY)
add("concatenate_one", lambda x: lax.concatenate([x], 0), (2, 3))
add("concatenate_array", lambda x: lax.concatenate(x, 0), (2, 3))
add("concatenate_empty", lambda x, y: lax.concatenate([x, y], 0), (0, 2), (3, 2))
add("concatenate_many", lambda x: lax.concatenate([x] * 40, 0), (3,))
add("stack", lambda x, y: lax.stack([x, y], 1), (2, 3), (2, 3), dtypes=EVERY)
add("stack_last", lambda x, y: lax.stack([x, y], -1), (2, 3), (2, 3))
add("split", lambda x: lax.split(x, (1, 0, 2), 1), (2, 3), dtypes=EVERY)
add("split_first", lambda x: lax.split(x, (1, 2), -2)[0], (3, 2))
add("unstack", lambda x: lax.unstack(x, 1), (2, 3, 2), dtypes=EVERY)
add("unstack_first", lambda x: lax.unstack(x, -1)[0], (2, 3))
add("unstack_empty", lambda x: lax.unstack(x, 0), (0, 3))

# Padding
for i, (shape, config) in enumerate(
    [
        ((3,), [(1, 2, 0)]),
        ((3,), [(0, 0, 2)]),
        ((3, 4), [(-1, 0, 0), (0, -2, 1)]),
        ((3, 4), [(1, -1, 0), (-1, 0, 2)]),
        ((2, 3), [(-3, 1, 0), (0, 0, 1)]),
        ((2, 3), [(-2, 0, 0), (0, 0, 0)]),
        ((0, 3), [(1, 1, 1), (0, 0, 0)]),
        ((), []),
        ((3,), [(-2, -1, 1)]),
        ((3,), [(-3, 4, 1)]),
    ]
):
    add(
        f"pad{i}",
        lambda x, v, config=config: lax.pad(x, v, config),
        shape,
        (),
        dtypes=[d for d in EVERY if d not in NARROW or i < 2] if i in (0, 3) else ["float32"],
    )
add("pad_python_scalar", lambda x: lax.pad(x, 0.0, [(1, 1, 0)]), (2,))

# Creation
for kw in product(
    dtype=["int32", "uint8", "float32", "bfloat16", "complex64", "int4", "float8_e5m2"]
):
    CASES.append(Case(f"iota_{kw['dtype']}", lambda d=kw["dtype"]: lax.iota(d, 5), []))
    CASES.append(
        Case(f"broadcasted_iota_{kw['dtype']}",
             lambda d=kw["dtype"]: lax.broadcasted_iota(d, (2, 3, 2), 1), [])
    )  # fmt: skip
    CASES.append(Case(f"full_{kw['dtype']}", lambda d=kw["dtype"]: lax.full((2, 3), 1, d), []))
CASES += [
    Case("iota_empty", lambda: lax.iota("int32", 0), []),
    Case("iota_python_int", lambda: lax.iota(int, 3), []),
    Case("iota_x64", lambda: lax.iota("int64", 3), [], x64=True),
    Case("full_weak_float", lambda: lax.full((2,), 1.5), []),
    Case("full_weak_int", lambda: lax.full((2,), 3), []),
    Case("full_bool", lambda: lax.full((2,), True), []),
    Case("full_numpy", lambda: lax.full((2,), np.float32(1.5)), []),
    Case("full_int_shape", lambda: lax.full(2, 1.5, "float32"), []),
    Case("full_scalar", lambda: lax.full((), 2.0), []),
    Case("full_wraps", lambda: lax.full((2,), -1, "uint32"), []),
    Case("full_wraps8", lambda: lax.full((2,), 300, "uint8"), []),
    Case("full_truncates", lambda: lax.full((2,), 1.5, "int32"), []),
    Case("full_nan_int", lambda: lax.full((2,), np.nan, "int32"), [], ignore=["jit"]),
    Case("full_int_bool", lambda: lax.full((2,), 2, "bool"), []),
    Case("empty", lambda: lax.empty((2, 3), "float32"), []),
    Case("empty_int_shape", lambda: lax.empty(3, "int8"), []),
]
add("full_traced", lambda x: lax.full((2, 3), x), (), dtypes=ALL + WIDE)
add("full_like", lambda x: lax.full_like(x, 2), (2, 3), dtypes=EVERY)
add("full_like_dtype", lambda x: lax.full_like(x, 2, "int8"), (2, 3))
add("full_like_shape", lambda x: lax.full_like(x, 2, shape=(4,)), (2, 3))
add("full_like_traced", lambda x, v: lax.full_like(x, v), (2, 3), ())


# Bits
for algorithm in ("RNG_DEFAULT", "RNG_PHILOX", "RNG_THREE_FRY"):
    for bits in ("uint8", "uint16", "uint32"):
        CASES.append(
            Case(
                f"rng_bit_generator_{algorithm}_{bits}",
                lambda k, a=algorithm, b=bits: lax.rng_bit_generator(
                    k, (5,), b, getattr(lax.RandomAlgorithm, a)
                ),
                [np.arange(4, dtype=np.uint32)],
            )
        )
CASES.append(
    Case(
        "rng_bit_generator_x64",
        lambda k: lax.rng_bit_generator(k, (5,), "uint64"),
        [np.arange(2, dtype=np.uint64)],
        x64=True,
    )
)


# Errors: the class is the reference's.
def error(name, fun, *args):
    CASES.append(Case(f"error_{name}", fun, [np.asarray(a) for a in args], diff="", vmap=False))


f23 = np.zeros((2, 3), np.float32)
error("broadcast_negative", lambda x: lax.broadcast(x, (-1,)), f23)
error("broadcast_dims_length", lambda x: lax.broadcast_in_dim(x, (2, 3), (0,)), f23)
error("broadcast_dims_size", lambda x: lax.broadcast_in_dim(x, (2, 3), (1, 0)), f23)
error("broadcast_dims_range", lambda x: lax.broadcast_in_dim(x, (2, 3), (0, 2)), f23)
error("broadcast_rank", lambda x: lax.broadcast_in_dim(x, (2,), (0, 1)), f23)
error("reshape_negative", lambda x: lax.reshape(x, (-1,)), f23)
error("reshape_size", lambda x: lax.reshape(x, (5,)), f23)
error("reshape_dimensions", lambda x: lax.reshape(x, (6,), (0,)), f23)
error("reshape_float", lambda x: lax.reshape(x, (6.0,)), f23)
error("squeeze_size", lambda x: lax.squeeze(x, (1,)), f23)
error("squeeze_range", lambda x: lax.squeeze(x, (4,)), f23)
error("squeeze_twice", lambda x: lax.squeeze(x, (0, 0)), f23[:1])
error("expand_dims_twice", lambda x: lax.expand_dims(x, (0, 0)), f23)
error("transpose_twice", lambda x: lax.transpose(x, (1, 1)), f23)
error("transpose_short", lambda x: lax.transpose(x, (1,)), f23)
error("rev_twice", lambda x: lax.rev(x, (1, 1)), f23)
error("rev_range", lambda x: lax.rev(x, (3,)), f23)
error("rev_negative", lambda x: lax.rev(x, (-1,)), f23)
error("tile_length", lambda x: lax.tile(x, (1,)), f23)
error("collapse_order", lambda x: lax.collapse(x, 2, 1), f23)
error("concatenate_none", lambda: lax.concatenate([], 0))
error("concatenate_shapes", lambda x: lax.concatenate([x, x[:1]], 1), f23)
error("concatenate_ranks", lambda x: lax.concatenate([x, x[0]], 1), f23)
error("concatenate_dimension", lambda x: lax.concatenate([x, x], 2), f23)
error("concatenate_negative", lambda x: lax.concatenate([x, x], -1), f23)
error("concatenate_dtypes", lambda x, y: lax.concatenate([x, y], 0), f23, f23.astype(np.int32))
error("stack_shapes", lambda x: lax.stack([x, x[:1]]), f23)
error("stack_axis", lambda x: lax.stack([x, x], 5), f23)
error("split_sum", lambda x: lax.split(x, (1, 1), 1), f23)
error("split_negative", lambda x: lax.split(x, (-1, 4), 1), f23)
error("split_axis", lambda x: lax.split(x, (1, 1), 4), f23)
error("unstack_axis", lambda x: lax.unstack(x, 3), f23)
error("unstack_scalar", lambda x: lax.unstack(x, 0), np.float32(1))
error("pad_length", lambda x: lax.pad(x, 0.0, [(1, 1, 0)]), f23)
error("pad_dtype", lambda x: lax.pad(x, np.int32(0), [(1, 1, 0)] * 2), f23)
error("pad_int_value", lambda x: lax.pad(x, 0, [(1, 1, 0)] * 2), f23)
error("pad_interior", lambda x: lax.pad(x, 0.0, [(1, 1, -1)] * 2), f23)
error("pad_vector", lambda x: lax.pad(x, np.zeros(2, np.float32), [(1, 1, 0)] * 2), f23)
error("pad_too_much_cut", lambda x: lax.pad(x, 0.0, [(-3, 0, 0), (0, 0, 0)]), f23)
error("pad_pairs", lambda x: lax.pad(x, 0.0, [(0, 0), (0, 0)]), f23)
error("iota_dimension", lambda: lax.broadcasted_iota("int32", (3, 4), 2))
error("iota_bool", lambda: lax.iota("bool", 3))
error("iota_negative", lambda: lax.iota("int32", -3))
error("rng_dtype", lambda k: lax.rng_bit_generator(k, (3,), "int32"), np.arange(4, dtype=np.uint32))
error("rng_uniform_dtypes", lambda: lax.rng_uniform(np.float32(0), np.int32(1), (3,)))
error("rng_uniform_vectors", lambda: lax.rng_uniform(f23[0], f23[0], (3,)))
error("full_vector", lambda: lax.full((2,), np.ones(2)))
error("full_negative", lambda: lax.full((-2,), 1.0))
error("full_traced_shape", lambda x: __import__("jax").jit(lambda n: lax.full((n,), 1.0))(x), 3)
error("full_complex_float", lambda: lax.full((2,), 1.5j, "float32"))
