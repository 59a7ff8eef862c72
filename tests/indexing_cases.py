"""Cases for `x[...]`, `x.at[...]`, `jnp.take` and similar functions, and `jax.ops`."""

import numpy as np
from op_cases import Case, Programs, values

import jax
import jax.numpy as jnp

ALL = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]
WIDE = ["int64", "uint64", "float64", "complex128"]
EVERY = ALL + WIDE + ["int4", "uint4", "float8_e4m3fn"]
CASES: list[Case] = []


def add(name, fun, *args, dtypes=("float32",), **kwargs):
    for dtype in dtypes:
        arrays = [
            values(a, dtype, f"{name}{i}") if isinstance(a, tuple) else a
            for i, a in enumerate(args)
        ]
        modes = {} if dtype in ("float32", "complex64") else {"diff": "", "vmap": False}
        modes.update(kwargs)
        CASES.append(Case(f"{name}_{dtype}", fun, arrays, x64=dtype in WIDE, **modes))


def ints(*xs, dtype=np.int32):
    return np.array(xs if len(xs) != 1 else xs[0], dtype)


# Indices of an array of shape (4, 5, 6)
SHAPE = (4, 5, 6)
s_ = np.s_
A, B = np.array([0, 2, 3], np.int32), np.array([[1], [0]], np.int32)
M0 = np.array([True, False, True, True])
M01 = np.arange(20).reshape(4, 5) % 3 == 0
STATIC = [
    0, -1, s_[1, 2], s_[1, 2, 3], s_[-1, -2, -3], s_[:], s_[...], (), s_[1:3], s_[:, 1:], s_[..., 2:5],
    s_[::2], s_[::-1], s_[3:0:-2], s_[:, 4::-3, 1], s_[10:], s_[-10:2], s_[5:2], s_[None], s_[:, None, 1],
    s_[None, 0, ..., None, ::2], s_[1, ..., -1], s_[np.int8(2)], s_[np.array(1)], s_[np.uint8(1), ::-2, None],
]  # fmt: skip
ARRAYS = [
    A, B, s_[A, A], s_[:, A], s_[..., A], s_[A, 1:3], s_[A, :, A], s_[0, :, A], s_[A, 0], s_[:, A, 0],
    s_[A, None, B], s_[A, ::2], s_[A, ::-1], s_[::-2, A, ::2], s_[B, A, 1:4:2], s_[None, A, None, 1],
    s_[A[:0]], s_[-A - 1], M0, M01, s_[M0, A], s_[:, None, A, B], s_[1:3, A, ::-1], s_[M0, ..., 1],
    True, False, s_[True, 0], s_[:, True, A], s_[..., [0, 1], [1, 2]], s_[np.zeros((2, 0), int)],
    s_[A.astype(np.int8)], s_[A.astype(np.uint8), 1], s_[[True, False, True, False], [2, 3]], s_[1, A, ..., B],
    s_[A, B, B], s_[:, 2, A], s_[2, :, A], s_[A, 2:2], s_[np.array([4, 9, -9])],
]  # fmt: skip
for i, index in enumerate(STATIC):
    full = {} if i % 4 == 0 else {"vmap": False, "diff": ""}  # not all modes for all of them
    add(f"get_static{i}", lambda x, i=index: x[i], SHAPE, numpy=lambda x, i=index: x[i], **full)
    shape = np.zeros(SHAPE)[index].shape
    add(f"set_static{i}", lambda x, y, i=index: x.at[i].set(y), SHAPE, shape, **full)
    if i % 8 == 0:
        for op in ("add", "subtract", "multiply", "min", "max"):
            add(
                f"{op}_static{i}",
                lambda x, y, i=index, op=op: getattr(x.at[i], op)(y),
                SHAPE,
                shape,
                vmap=False,
            )
for i, index in enumerate(ARRAYS):
    last = index is ARRAYS[-1]  # out of bounds
    add(
        f"get_array{i}",
        lambda x, i=index: x[i],
        SHAPE,
        numpy=None if last else lambda x, i=index: x[i],
        vmap=i % 3 == 0,
    )
    shape = (3, 5, 6) if last else np.zeros(SHAPE)[index].shape
    add(
        f"set_array{i}",
        lambda x, y, i=index: x.at[i].set(y),
        SHAPE,
        shape,
        vmap=i % 3 == 0,
        diff="both" if i % 3 == 0 else "",
    )
    if i % 5 == 0:
        for op in ("add", "subtract", "multiply", "min", "max"):
            add(
                f"{op}_array{i}",
                lambda x, y, i=index, op=op: getattr(x.at[i], op)(y),
                SHAPE,
                shape,
                vmap=False,
                diff="" if op == "multiply" else "both",
                tol=1e-4,
            )
add("get_dtypes", lambda x: (x[1], x[::2], x[A, 1]), (4, 3), dtypes=EVERY)
add(
    "set_dtypes",
    lambda x, y: (x.at[1].set(y), x.at[A].set(y), x.at[1:3].set(y)),
    (4, 3),
    (3,),
    dtypes=EVERY,
)

# Traced positions
for i, fun in enumerate(
    [
        lambda x, i: x[i],
        lambda x, i: x[i, 1:3],
        lambda x, i: x[:, i],
        lambda x, i: x[i, i],
        lambda x, i: x[::-1, i],
        lambda x, i: x[i, ::2],
        lambda x, i: x[:, i, None],
        lambda x, i: x[i, A],
        lambda x, i: x[i, :, A],
        lambda x, i: x[jnp.stack([i, i + 1])] if hasattr(jnp, "stack") else x[i],
    ]
):
    for position in (0, 2, -1, 7, -9):
        if position in (0, -1) or i == 0:
            add(f"get_traced{i}_{position}", fun, (4, 5, 6), ints(position), vmap=position == -1)
    add(f"set_traced{i}", lambda x, i, f=fun: x.at[i].set(1.0), (4, 5, 6), ints(i % 4))
for dtype in ("int8", "uint8", "uint32", "int16"):
    add(f"get_traced_{dtype}", lambda x, i: x[i], (4, 5), ints(2, dtype=dtype))
    add(f"get_array_{dtype}", lambda x, i: x[i], (4, 5), ints(0, 3, 1, dtype=dtype))
add("set_traced_slice", lambda x, y, i: x.at[i, 1:3].set(y), (4, 5), (2,), ints(-2))
add("set_traced_strided", lambda x, y, i: x.at[::-2, i].add(y), (4, 5), (2,), ints(-2))

# Modes
OUT = ints(4, -1, -6, 0, 9)
for mode in ("clip", "fill", "drop", "promise_in_bounds"):
    index = ints(0, 3, -1) if mode == "promise_in_bounds" else OUT
    add(
        f"get_{mode}",
        lambda x, i, m=mode: x.at[i].get(mode=m),
        (5, 2),
        index,
        dtypes=["float32", "int32", "uint8", "bool"],
    )
    add(
        f"set_{mode}",
        lambda x, i, m=mode: x.at[i].add(1, mode=m),
        (5, 2),
        index,
        dtypes=["float32", "int32"],
    )
    for position in (-7, -1, 8):
        for name, fun in {
            "get": lambda x, p=position, m=mode: x.at[p].get(mode=m),
            "set": lambda x, p=position, m=mode: x.at[p].set(7, mode=m),
        }.items():
            add(f"{name}_scalar_{mode}_{position}", fun, (5, 2), vmap=False, diff="")
for position in (-7, 3, 8):
    add(f"get_scalar_{position}", lambda x, p=position: x[p], (5, 2))
    add(f"set_scalar_{position}", lambda x, p=position: x.at[p].set(7), (5, 2))
add(
    "get_fill_value",
    lambda x, i: x.at[i].get(mode="fill", fill_value=7),
    (5, 2),
    OUT,
    dtypes=["float32", "int32", "bool"],
)
add("get_fill_slice", lambda x: x.at[1:9].get(mode="fill", fill_value=7), (5, 2))
add("get_no_wrap", lambda x, i: x.at[i].get(mode="fill", wrap_negative_indices=False), (5, 2), OUT)
add("set_no_wrap", lambda x, i: x.at[i].set(7, wrap_negative_indices=False), (5, 2), OUT)
add(
    "get_promises",
    lambda x, i: x.at[i].get(indices_are_sorted=True, unique_indices=True),
    (5, 2),
    ints(0, 2, 4),
)

# Values
for name, fun in {
    "set_scalar": lambda x: x.at[1:3].set(2),
    "set_broadcast": lambda x: x.at[:, 1:3].set(np.arange(4, dtype=np.float32)[:, None]),
    "set_list": lambda x: x.at[0, 0:2].set([1.0, 2.0]),
    "set_int": lambda x: x.at[0].set(np.arange(5)),
    "divide": lambda x: x.at[1].divide(2),
    "power": lambda x: abs(x).at[1].power(2),
    "mul": lambda x: x.at[1].mul(2),
    "apply": lambda x: x.at[A].apply(jnp.sin),
    "apply_repeated": lambda x: x.at[np.array([1, 1])].apply(lambda v: v * 3),
    "divide_unique": lambda x: x.at[A].divide(2, unique_indices=True),
    "power_unique": lambda x: (x * x + 1).at[A].power(3, unique_indices=True),
    "set_all": lambda x: x.at[...].set(3),
    "set_new": lambda x: x.at[None, 1, None].set(3),
}.items():
    diff = "" if name in ("apply", "apply_repeated") else "both"
    add(f"at_{name}", fun, (4, 5), diff=diff, dtypes=["float32"], vmap="apply" not in name)
for name, fun in {
    "divide": lambda x: x.at[1].divide(2),
    "power": lambda x: x.at[1].power(2),
}.items():
    add(f"at_{name}", fun, (4,), dtypes=["int32", "int8", "bfloat16"])
UNSAFE = "scatter inputs have incompatible types|Casting complex values to real"
for name, fun, safe, unsafe in (
    ("set_float", lambda x: x.at[1].set(2.5), ["bfloat16"], ["int32", "int8"]),
    ("add_float", lambda x: x.at[1].add(1.5), ["bfloat16"], ["int32"]),
    ("set_complex", lambda x: x.at[1].set(1j), [], ["int32", "int8", "bfloat16"]),
):
    add(f"at_{name}", fun, (4,), dtypes=safe)
    add(f"at_{name}", fun, (4,), dtypes=unsafe, warns=UNSAFE)
for op in ("min", "max", "set"):
    add(f"at_bool_{op}", lambda x, y, op=op: getattr(x.at[1:3], op)(y), (4,), (2,), dtypes=["bool"])
for name, fun in {
    "get": lambda x: x[()],
    "ellipsis": lambda x: x[...],
    "none": lambda x: x[None, ..., None],
    "true": lambda x: x[True],
    "false": lambda x: x[False],
    "set": lambda x: x.at[()].set(3),
    "set_ellipsis": lambda x: x.at[...].add(3),
    "set_true": lambda x: x.at[True].set(3),
    "set_false": lambda x: x.at[False].set(3),
}.items():
    add(f"scalar_{name}", fun, (), vmap="true" not in name and "false" not in name)
add("empty", lambda x: (x[1:], x[:, 0], x[np.zeros((0, 2), int)]), (0, 3))
add(
    "empty_set",
    lambda x: (x.at[1:].set(1), x.at[:, 0].set(1), x.at[np.zeros((0, 2), int)].set(1)),
    (0, 3),
)

# jax.ds: slices of a static size
DS = {
    "first": lambda i: jax.ds(i, 2), "second": lambda i: s_[1, jax.ds(i, 3)], "last": lambda i: s_[..., jax.ds(i, 2)],
    "two": lambda i: s_[jax.ds(i, 2), None, jax.ds(0, 3), 1], "stepped": lambda i: jax.ds(i, 2, 2),
    "beside_steps": lambda i: s_[::2, jax.ds(i, 2)], "beside_reverse": lambda i: s_[::-1, jax.ds(i, 2)],
    "beside_array": lambda i: s_[A, jax.ds(i, 2)], "between_arrays": lambda i: s_[A, jax.ds(i, 2), A],
    "beside_mask": lambda i: s_[jax.ds(i, 2), M01[0]], "whole": lambda i: jax.ds(i, 4), "none": lambda i: s_[jax.ds(None), jax.ds(i, 0)],
}  # fmt: skip
for name, make in DS.items():
    for start in (1, 3, -2, 9):
        traced = lambda x, i, make=make: (
            x[make(i)],
            x.at[make(i)].get(mode="fill"),
            x.at[make(i)].set(7),
            x.at[make(i)].mul(3, mode="clip"),
            x.at[make(i)].get(wrap_negative_indices=False),
        )
        apply = lambda x, i, make=make: x.at[make(i)].apply(jnp.sin)
        some = {"diff": "both" if start == 1 else "", "vmap": name in ("first", "stepped")}
        add(f"ds_{name}_{start}", lambda x, f=traced, i=start: f(x, i), SHAPE, diff="", vmap=False)
        add(f"ds_{name}_traced_{start}", traced, SHAPE, np.int8(start), **some)
        add(f"ds_{name}_apply_{start}", apply, SHAPE, np.int8(start), diff="", vmap=False)
for name, fun in {
    "too_large": lambda x: x[jax.ds(0, 7)],
    "in_list": lambda x: x[[jax.ds(1, 2)]],
    "too_many": lambda x: x[jax.ds(0, 1), 0, 0, 0],
}.items():
    add(f"error_ds_{name}", fun, SHAPE, vmap=False, diff="")

# Masks without elements, and positions along dimensions without any
NO_ROWS = np.zeros((0, 4), bool)
for name, index in {
    "mask": NO_ROWS, "mask_of_rows": NO_ROWS[:, 0], "mask_and_int": s_[NO_ROWS[:, 0], 1], "columns": s_[:, np.zeros(4, bool)],
    "mask_and_new": s_[None, NO_ROWS], "array": s_[:, A], "empty_array": np.zeros((0, 3), int), "false": False, "flag": np.array(True),
}.items():  # fmt: skip
    add(
        f"empty_{name}",
        lambda x, i=index: (x[i], x.at[i].set(1), x.at[i].get(mode="fill"), x.at[i].apply(jnp.sin)),
        (0, 4),
        vmap=False,
        diff="",
    )
for name, fun in {
    "set": lambda x: x.at[0].set(1),
    "add": lambda x: x.at[jnp.array(0), 1].add(1),
    "fill": lambda x: x.at[0].get(mode="fill"),
    "mask_shape": lambda x: x[np.zeros((0, 3), bool)],
}.items():
    add(f"error_empty_{name}", fun, (0, 4), vmap=False, diff="")

# jnp.take, take_along_axis, put, put_along_axis
for mode in (None, "fill", "clip", "wrap"):
    add(
        f"take_{mode}",
        lambda x, i, m=mode: jnp.take(x, i, mode=m),
        (3, 4),
        ints([[0, 7], [-1, 20], [-30, 11]]),
        dtypes=["float32", "int32", "uint8", "bool"],
    )
    add(
        f"take_axis_{mode}",
        lambda x, i, m=mode: jnp.take(x, i, axis=1, mode=m),
        (3, 4, 2),
        ints(0, 7, -1),
    )
    add(
        f"take_scalar_{mode}",
        lambda x, i, m=mode: jnp.take(x, i, axis=-1, mode=m),
        (3, 4),
        ints(-2),
    )
add("take_fill_value", lambda x, i: jnp.take(x, i, fill_value=7), (5,), OUT)
add("take_0d", lambda x: jnp.take(x, ints(0, 1)), ())
add("take_empty", lambda x: jnp.take(x, np.zeros((0,), np.int32), axis=0), (0, 2))
add("take_uint", lambda x, i: jnp.take(x, i), (5,), ints(1, 200, dtype=np.uint8))
for mode in (None, "clip", "promise_in_bounds"):
    index = (
        ints([[0, 1], [3, -1], [2, 2]])
        if mode == "promise_in_bounds"
        else ints([[0, 9], [-9, -1], [4, 3]])
    )
    add(
        f"take_along_axis_{mode}",
        lambda x, i, m=mode: jnp.take_along_axis(x, i, 1, mode=m),
        (3, 4),
        index,
    )
add("take_along_axis0", lambda x, i: jnp.take_along_axis(x, i, 0), (3, 4), ints([[0, 1, 2, 0]]))
add(
    "take_along_axis_last",
    lambda x, i: jnp.take_along_axis(x, i),
    (3, 4, 2),
    np.zeros((3, 1, 3), np.int32),
)
add(
    "take_along_axis_broadcast",
    lambda x, i: jnp.take_along_axis(x, i, 1),
    (1, 4, 2),
    np.ones((3, 2, 2), np.int32),
)
add(
    "take_along_axis_none", lambda x, i: jnp.take_along_axis(x, i, None), (3, 4), ints(0, 5, -1, 99)
)
add(
    "take_along_axis_fill",
    lambda x, i: jnp.take_along_axis(x, i, 0, fill_value=3),
    (3,),
    ints(0, 5, -1),
)
add(
    "take_along_axis_no_wrap",
    lambda x, i: jnp.take_along_axis(x, i, 0, wrap_negative_indices=False),
    (3,),
    ints(0, 5, -1),
)
for mode in (None, "clip", "wrap"):
    add(
        f"put_{mode}",
        lambda x, i, v, m=mode: jnp.put(x, i, v, mode=m, inplace=False),
        (3, 4),
        ints([[0, 17, -2]]),
        (3,),
        vmap=False,
        diff="jvp",
    )
add(
    "put_short",
    lambda x, i, v: jnp.put(x, i, v, inplace=False),
    (3, 4),
    ints(0, 1, 2, 3, 4),
    (2, 1),
    vmap=False,
    diff="",
)
add(
    "put_long",
    lambda x, i, v: jnp.put(x, i, v, inplace=False),
    (3, 4),
    ints(0, 1),
    (2, 2),
    vmap=False,
    diff="",
)
add("put_dtypes", lambda x, i: jnp.put(x, i, True, inplace=False), (3,), ints(0, 2), dtypes=ALL)
add(
    "put_along_axis",
    lambda x, i, v: jnp.put_along_axis(x, i, v, 1, inplace=False),
    (3, 4),
    ints([[0], [3], [1]]),
    (3, 1),
    diff="",
)
add(
    "put_along_axis_broadcast",
    lambda x, i: jnp.put_along_axis(x, i, 7.0, 1, inplace=False),
    (3, 4),
    ints([[0, 2]]),
    diff="",
)
add(
    "put_along_axis_none",
    lambda x, i: jnp.put_along_axis(x, i, 7.0, None, inplace=False),
    (3, 4),
    ints(0, 7, 40),
    diff="",
)
add(
    "put_along_axis_clip",
    lambda x, i: jnp.put_along_axis(x, i, 7.0, 0, inplace=False, mode="clip"),
    (3,),
    ints(0, 7),
    diff="",
)

# jax.ops
IDS = ints(0, 2, 1, 2, 7, -1)
for op in ("sum", "prod", "max", "min"):
    f = getattr(jax.ops, f"segment_{op}")
    diff = "" if op == "prod" else "both"
    kinds = ["float32", "int32", "uint8", "bfloat16"] + (["bool"] if op in ("max", "min") else [])
    add(
        f"segment_{op}",
        lambda x, i, f=f: f(x, i, 4),
        (6, 2),
        IDS,
        dtypes=kinds,
        diff=diff,
        ignore=("vjp",) if op in ("max", "min") else (),
    )
    add(
        f"segment_{op}_concrete",
        lambda x, f=f: f(x, IDS[:4]),
        (4,),
        diff="",
        vmap=False,
        ignore=("jit",),
    )
    add(
        f"segment_{op}_bucket",
        lambda x, i, f=f: f(x, i, 4, bucket_size=2),
        (6,),
        IDS,
        diff="jvp" if op == "sum" else "",
    )
    for name, shape in {"scalar": (), "one": (1,), "row": (1, 3)}.items():
        add(f"segment_{op}_{name}", lambda x, i, f=f: f(x, i, 4), shape, IDS, diff="")
    add(f"segment_{op}_clip", lambda x, i, f=f: f(x, i, 4, mode="clip"), (6,), IDS, diff="")
    add(
        f"segment_{op}_sorted",
        lambda x, i, f=f: f(x, i, 4, indices_are_sorted=True),
        (3,),
        ints(0, 0, 2),
        diff="",
    )


# Errors
def error(name, fun, shape=(5,), **kwargs):
    add(f"error_{name}", fun, shape, diff="", vmap=False, ignore=("jit",), **kwargs)


for name, fun in {
    "too_many": lambda x: x[0, 1],
    "too_many_at": lambda x: x.at[0, 1].set(2),
    "ellipses": lambda x: x[..., ...],
    "list": lambda x: x[[0, 1]],
    "nested_list": lambda x: x[[[0, 1], [1, 2]]],
    "float": lambda x: x[1.0],
    "float_array": lambda x: x[np.array([1.0])],
    "string": lambda x: x["a"],
    "slice_float": lambda x: x[0:1.5],
    "slice_zero": lambda x: x[::0],
    "mask_shape": lambda x: x[np.array([True, False])],
    "object": lambda x: x[{}],
    "set_shape": lambda x: x.at[0:3].set(np.ones(2)),
    "set_rank": lambda x: x.at[0:3].set(np.ones((3, 3))),
    "mode": lambda x: x.at[np.array([7])].set(9, mode="wrap"),
    "get_mode": lambda x: x.at[np.array([7])].get(mode="bogus"),
    "fill_value": lambda x: x.at[np.array([7])].get(mode="fill", fill_value=jnp.arange(3)),
    "broadcast": lambda x: x.reshape(5, 1)[np.arange(3), np.arange(2)],
    "empty_axis": lambda x: x[:0][0],
    "traced_slice": lambda x: jax.jit(lambda i: x[i : i + 1])(0),
    "traced_mask": lambda x: jax.jit(lambda x: x[x > 1])(x),
    "take_raise": lambda x: jnp.take(x, 0, mode="raise"),
    "take_out": lambda x: jnp.take(x, 0, out=x),
    "take_axis": lambda x: jnp.take(x, 0, axis=3),
    "take_float": lambda x: jnp.take(x, 0.5),
    "take_empty": lambda x: jnp.take(x[:0], np.array([0])),
    "take_list": lambda x: jnp.take([1, 2], [0]),
    "take_mode": lambda x: jnp.take(x, 0, mode="one_hot"),
    "take_along_rank": lambda x: jnp.take_along_axis(x, np.zeros((4, 1), int), 0),
    "take_along_float": lambda x: jnp.take_along_axis(x, np.zeros(4), 0),
    "take_along_axis": lambda x: jnp.take_along_axis(x, np.zeros(4, int), 5),
    "take_along_mode": lambda x: jnp.take_along_axis(x, np.zeros(4, int), 0, mode="wrap"),
    "put_inplace": lambda x: jnp.put(x, np.array([0]), 1),
    "put_raise": lambda x: jnp.put(x, np.array([0]), 1, inplace=False, mode="raise"),
    "put_mode": lambda x: jnp.put(x, np.array([0]), 1, inplace=False, mode="bogus"),
    "put_along_inplace": lambda x: jnp.put_along_axis(x, np.array([0]), 1, 0),
    "put_along_rank": lambda x: jnp.put_along_axis(x, np.array([[0]]), 1, 0, inplace=False),
    "segment_traced": lambda x: jax.jit(jax.ops.segment_sum)(x, np.zeros(5, int)),
    "segment_negative": lambda x: jax.ops.segment_sum(x, np.zeros(5, int), -2),
    "segment_shape": lambda x: jax.ops.segment_sum(x, np.zeros(4, int), 2),
    "at_apply_shape": lambda x: x.at[0, 1, 2].apply(jnp.sin),
    "set_none": lambda x: x.at[0].set(None),
}.items():
    error(name, fun)


# Index expressions that become the same equations

PROGRAMS = Programs()
F32, X34, I3 = np.float32(2), np.zeros((3, 4), np.float32), np.array([0, -2, 1], np.int32)


def equations(fun, *args):
    return str([str(e.primitive) for e in jax.make_jaxpr(fun)(*args).eqns])


_index_expressions = dict(
    int=0, negative=-1, pair=s_[1, -2], numpy=np.int64(1), unsigned=np.uint8(2), all=s_[:], slice=s_[1:],
    middle=s_[:, 1:3], step=s_[::2, ::3], outside=s_[5:], ellipsis=s_[..., 0], nothing=(), no_elements=s_[3:1],
)  # fmt: skip
for _name, _i in _index_expressions.items():
    PROGRAMS.group(
        f"jaxpr_{_name}",
        get=lambda i=_i: str(jax.make_jaxpr(lambda x: x[i])(X34)),
        set=lambda i=_i: str(jax.make_jaxpr(lambda x: x.at[i].set(2))(X34)),
        add=lambda i=_i: str(jax.make_jaxpr(lambda x, y: x.at[i].add(y, mode="clip"))(X34, F32)),
        grad=lambda i=_i: equations(jax.grad(lambda x: x[i].sum()), X34),
    )
PROGRAMS.group(
    "jaxpr",
    new=lambda: str(jax.make_jaxpr(lambda x: x[None, 0])(X34)),
    reverse=lambda: str(jax.make_jaxpr(lambda x: x[::-1])(X34)),
    backwards=lambda: str(jax.make_jaxpr(lambda x: x[2:0:-1])(X34)),
)
for _name, _i in dict(array=I3, unsigned=I3[::2].astype(np.uint32), column=I3[:, None]).items():
    PROGRAMS.group(
        f"jaxpr_traced_{_name}",
        get=lambda i=_i: str(jax.make_jaxpr(lambda x, i: x[i])(X34, i)),
        second=lambda i=_i: str(jax.make_jaxpr(lambda x, i: x[:, i])(X34, i)),
        fill=lambda i=_i: str(jax.make_jaxpr(lambda x, i: x.at[i].get(mode="fill"))(X34, i)),
        set=lambda i=_i: str(jax.make_jaxpr(lambda x, i: x.at[i].set(2))(X34, i)),
    )
for _name, _i in dict(nothing=(), ellipsis=...).items():
    PROGRAMS.group(
        f"jaxpr_scalar_{_name}",
        set=lambda i=_i: str(jax.make_jaxpr(lambda x: x.at[i].set(2))(F32)),
        multiply=lambda i=_i: jax.value_and_grad(lambda x: jnp.asarray(x).at[i].multiply(3 * x))(2.0),
        max=lambda i=_i: jax.value_and_grad(lambda x: jnp.asarray(x).at[i].max(3 * x))(2.0),
        gradient=lambda i=_i: jax.grad(lambda x: jnp.asarray(x).at[i].set(x * x))(2.0),
        mapped=lambda i=_i: jax.vmap(lambda x: x.at[i].add(x))(jnp.arange(3.0)),
        mapped_gradient=lambda i=_i: jax.vmap(jax.grad(lambda x: x.at[i].add(x * x)))(jnp.arange(3.0)),
    )  # fmt: skip
PROGRAMS.group(
    "empty_axis",
    array=lambda: jnp.zeros((0, 3))[np.array([0])],
    traced=lambda: jax.jit(lambda x, i: x[i])(np.zeros((0, 3)), I3),
    update=lambda: jnp.zeros((0, 3)).at[I3].set(1),
    update_shape=lambda: jnp.zeros((0, 3)).at[I3].set(np.ones(4)),
)
CASES += PROGRAMS
