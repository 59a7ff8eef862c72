"""Cases for functions of jax.numpy that reshape, join, cut, pad, edit, select and compare arrays."""

import numpy as np
from formula_cases import Formulas
from op_cases import values

import jax
import jax.numpy as jnp

CASES = Formulas()
add, same, given, error = CASES.add, CASES.same, CASES.given, CASES.error
DTYPES = ["bool", "int8", "uint8", "int32", "float16", "bfloat16", "float32", "complex64"]
X64 = ["int64", "float64", "complex128"]


# Shapes

for shape in [(4, 3), (12,), (2, -1), (-1,), (1, 12, 1)]:
    same(f"reshape_{shape}", lambda m, x, shape=shape: m.reshape(x, shape), (3, 4))
same("reshape_dtypes", lambda m, x: m.reshape(x, (4, 3)), (3, 4), dtypes=DTYPES + X64)
same("reshape_scalar", lambda m, x: m.reshape(x, (1, 1)), ())
same("reshape_to_scalar", lambda m, x: m.reshape(x, ()), (1, 1))
same("reshape_fortran", lambda m, x: m.reshape(x, (2, -1, 2), order="F"), (3, 4))
same("reshape_int", lambda m, x: m.reshape(x, 12), (3, 4))
same("reshape_empty", lambda m, x: m.reshape(x, (3, -1)), (0, 2))
same("ravel", lambda m, x: m.ravel(x), (2, 3, 2))
same("ravel_fortran", lambda m, x: m.ravel(x, order="F"), (2, 3, 2))
same("squeeze", lambda m, x: m.squeeze(x), (1, 3, 1))
same("squeeze_axis", lambda m, x: m.squeeze(x, (-1,)), (1, 3, 1))
same("expand_dims", lambda m, x: m.expand_dims(x, 1), (3, 4))
same("expand_dims_two", lambda m, x: m.expand_dims(x, (0, -1)), (3, 4))
same("broadcast_to", lambda m, x: m.broadcast_to(x, (2, 3, 4)), (3, 1))
same("broadcast_arrays", lambda m, x, y: m.broadcast_arrays(x, y), (3, 1), (4,))
same("atleast_1d", lambda m, x: m.atleast_1d(x), ())
same("atleast_2d", lambda m, x: m.atleast_2d(x), (3,))
same("atleast_3d_0", lambda m, x: m.atleast_3d(x), ())
same("atleast_3d_1", lambda m, x: m.atleast_3d(x), (3,))
same("atleast_3d_2", lambda m, x: m.atleast_3d(x), (3, 2))
same("atleast_1d_many", lambda m, x, y: m.atleast_1d(x, y), (), (2,))
same("resize_larger", lambda m, x: m.resize(x, (5, 3)), (2, 3))
same("resize_smaller", lambda m, x: m.resize(x, (2, 2)), (7,))
same("resize_empty", lambda m, x: m.resize(x, (2, 2)), (0,), vmap=False)
same("transpose", lambda m, x: m.transpose(x), (2, 3, 4), dtypes=DTYPES)
same("transpose_axes", lambda m, x: m.transpose(x, (1, -1, 0)), (2, 3, 4))
add("permute_dims", lambda x: jnp.permute_dims(x, (1, 0, 2)), (2, 3, 4))
add("matrix_transpose", lambda x: jnp.matrix_transpose(x), (2, 3, 4))
same("swapaxes", lambda m, x: m.swapaxes(x, 0, -1), (2, 3, 4))
same("moveaxis", lambda m, x: m.moveaxis(x, 0, -1), (2, 3, 4))
same("moveaxis_two", lambda m, x: m.moveaxis(x, (0, 1), (-1, 0)), (2, 3, 4))
for axis, start in [(2, 0), (0, 3), (1, -1), (-1, 1)]:
    same(f"rollaxis_{axis}_{start}", lambda m, x, a=axis, s=start: m.rollaxis(x, a, s), (2, 3, 4))
same("flip", lambda m, x: m.flip(x), (2, 3))
same("flip_axes", lambda m, x: m.flip(x, (0, 2)), (2, 3, 2))
same("fliplr", lambda m, x: m.fliplr(x), (2, 3))
same("flipud", lambda m, x: m.flipud(x), (2, 3))
for k in range(-1, 4):
    same(f"rot90_{k}", lambda m, x, k=k: m.rot90(x, k), (2, 3))
same("rot90_axes", lambda m, x: m.rot90(x, 1, (2, 0)), (2, 3, 4))
for shift in [2, -1, 9]:
    same(f"roll_{shift}", lambda m, x, s=shift: m.roll(x, s), (2, 3))
same("roll_axis", lambda m, x: m.roll(x, 1, 1), (2, 3))
same("roll_axes", lambda m, x: m.roll(x, (1, -2), (0, 1)), (2, 3))
same("roll_axes_one_shift", lambda m, x: m.roll(x, 1, (0, 1)), (2, 3))
same("roll_empty", lambda m, x: m.roll(x, 1), (0,), vmap=False)
given("roll_traced", lambda x, s: jnp.roll(x, s, 1), values((2, 5), "float32", "r"), np.int32(-7))
given("roll_traced_axes", lambda x, s: jnp.roll(x, s, (0, 1)), values((2, 5), "float32", "r"), [1, 7],
      vmap=False)  # fmt: skip
given("roll_traced_flat", lambda x, s: jnp.roll(x, s), values((2, 5), "float32", "r"), np.int32(3))
for dtype in ["int32", "bool", "float16", "complex64"]:
    add(f"astype_{dtype}", lambda x, d=dtype: jnp.astype(x, d), (2, 3), dtypes=["float32", "int32", "bool"],
        diff="")  # fmt: skip
add("astype_copy", lambda x: jnp.astype(x, "float32", copy=True), (2,))
add("copy", lambda x: jnp.copy(x), (2, 3))

error("reshape_size", lambda x: jnp.reshape(jnp.asarray(x), (5,)), np.zeros((3, 4)))
error("reshape_unknown", lambda x: jnp.reshape(jnp.asarray(x), (-1, -1)), np.zeros((3, 4)))
error("reshape_divide", lambda x: jnp.reshape(jnp.asarray(x), (5, -1)), np.zeros((3, 4)))
error("reshape_negative", lambda x: jnp.reshape(jnp.asarray(x), (-2, 6)), np.zeros((3, 4)))
error("reshape_float", lambda x: jnp.reshape(x, (4.0, 3)), np.zeros((3, 4)))
error("reshape_order", lambda x: jnp.reshape(x, (4, 3), order="K"), np.zeros((3, 4)))
error("reshape_list", lambda: jnp.reshape([1, 2], (2, 1)))
error("squeeze_size", lambda x: jnp.squeeze(x, 0), np.zeros((3, 1)))
error("expand_dims_repeated", lambda x: jnp.expand_dims(x, (0, 0)), np.zeros(3))
error("broadcast_to", lambda x: jnp.broadcast_to(x, (2, 2)), np.zeros(3))
error("transpose_axes", lambda x: jnp.transpose(x, (0, 0)), np.zeros((2, 3)))
error("matrix_transpose_vector", lambda x: jnp.matrix_transpose(x), np.zeros(3))
error("moveaxis_count", lambda x: jnp.moveaxis(x, (0, 1), (1,)), np.zeros((2, 3)))
error("rollaxis_start", lambda x: jnp.rollaxis(x, 0, 4), np.zeros((2, 3)))
error("rot90_axes", lambda x: jnp.rot90(x, 1, (1, 1)), np.zeros((2, 3)))
error("roll_shifts", lambda x: jnp.roll(x, (1, 2, 3), (0, 1)), np.zeros((2, 3)))

# Joining, cutting, repeating

same("concatenate", lambda m, x, y: m.concatenate([x, y]), (2, 3), (1, 3), dtypes=DTYPES + X64)
same("concatenate_last", lambda m, x, y: m.concatenate((x, y), axis=-1), (2, 3), (2, 1))
same("concatenate_flat", lambda m, x, y: m.concatenate([x, y], axis=None), (2, 3), (2,))
same("concatenate_array", lambda m, x: m.concatenate(x, axis=1), (2, 3, 4))
same("concatenate_empty", lambda m, x, y: m.concatenate([x, y]), (0,), (3,), vmap=False)
add("concatenate_dtype", lambda x, y: jnp.concatenate([x, y], dtype="float16"), (2,), (3,))
given("concatenate_mixed", lambda x, y: jnp.concatenate([x, y]), values((2,), "int32", "m"),
      values((3,), "float16", "m"))  # fmt: skip
add("concatenate_many", lambda x: jnp.concatenate([x] * 70), (2,))
given(
    "concatenate_weak",
    lambda x: jnp.concatenate([jnp.atleast_1d(1.0), x]),
    values((2,), "bfloat16", "w"),
)
add("concat", lambda x, y: jnp.concat([x, y], axis=1), (2, 1), (2, 2))
same("stack", lambda m, x, y: m.stack([x, y], axis=1), (2, 3), (2, 3), dtypes=DTYPES)
same("stack_last", lambda m, x, y: m.stack([x, y], axis=-1), (2, 3), (2, 3))
same("stack_array", lambda m, x: m.stack(x, axis=1), (2, 3))
add("stack_dtype", lambda x, y: jnp.stack([x, y], dtype="int8"), (2,), (2,), diff="")
same("vstack", lambda m, x, y: m.vstack([x, y]), (3,), (2, 3))
same("hstack", lambda m, x, y: m.hstack([x, y]), (2, 1), (2, 3))
same("hstack_vectors", lambda m, x, y: m.hstack([x, y]), (2,), (3,))
same("dstack", lambda m, x, y: m.dstack([x, y]), (2, 3), (2, 3))
same("dstack_vectors", lambda m, x, y: m.dstack([x, y]), (3,), (3,))
same("column_stack", lambda m, x, y: m.column_stack([x, y]), (3,), (3, 2))
same("block", lambda m, x, y, z: m.block([[x, y], [z]]), (2, 1), (2, 3), (1, 4))
same("block_vectors", lambda m, x, y: m.block([x, y]), (2,), (3,))
same("append", lambda m, x, y: m.append(x, y), (2, 3), (2,))
same("append_axis", lambda m, x, y: m.append(x, y, axis=0), (2, 3), (1, 3))
same("split", lambda m, x: m.split(x, 2, axis=1), (3, 4))
same("split_places", lambda m, x: m.split(x, [1, 3], axis=1), (3, 4))
same("array_split", lambda m, x: m.array_split(x, 3), (7,))
same("array_split_more", lambda m, x: m.array_split(x, 4), (3,))
same("vsplit", lambda m, x: m.vsplit(x, 2), (4, 2))
same("hsplit", lambda m, x: m.hsplit(x, 2), (4, 2))
same("hsplit_vector", lambda m, x: m.hsplit(x, 2), (4,))
same("dsplit", lambda m, x: m.dsplit(x, 2), (1, 2, 4))
add("unstack", lambda x: jnp.unstack(x, axis=1), (2, 3))
for reps in [2, (2, 1), (2, 1, 3), (), (0, 1)]:
    same(f"tile_{reps}", lambda m, x, r=reps: m.tile(x, r), (2, 3), vmap=reps != (0, 1))
same("tile_scalar", lambda m, x: m.tile(x, (2, 2)), ())
same("repeat", lambda m, x: m.repeat(x, 2), (2, 3))
same("repeat_axis", lambda m, x: m.repeat(x, 2, axis=1), (2, 3), dtypes=DTYPES)
same("repeat_each", lambda m, x: m.repeat(x, np.array([1, 0, 3]), axis=1), (2, 3))
same("repeat_none", lambda m, x: m.repeat(x, 0, axis=1), (2, 3), vmap=False)
for total in [2, 4, 7]:
    given(f"repeat_total_{total}", lambda x, r, n=total: jnp.repeat(x, r, axis=0, total_repeat_length=n),
          values((3, 2), "float32", "r"), [1, 0, 3])  # fmt: skip
given(
    "repeat_total_one",
    lambda x, r: jnp.repeat(x, r, total_repeat_length=8),
    values((3,), "float32", "r"),
    2,
)

error("concatenate_none", lambda: jnp.concatenate([]))
error("concatenate_scalars", lambda x: jnp.concatenate([x, x]), np.float32(1))
error("concatenate_axis", lambda x: jnp.concatenate([x, x], axis=2), np.zeros((2, 3)))
error("concatenate_shapes", lambda x: jnp.concatenate([x, x.T]), np.zeros((2, 3)))
error("concatenate_ranks", lambda x: jnp.concatenate([x, x[0]]), np.zeros((2, 3)))
error("concatenate_list", lambda x: jnp.concatenate([x, [1.0]]), np.zeros(3))
error("stack_shapes", lambda x: jnp.stack([x, x[0]]), np.zeros((2, 3)))
error("stack_none", lambda: jnp.stack([]))
error("stack_axis", lambda x: jnp.stack([x, x], axis=3), np.zeros((2, 3)))
error("block_empty", lambda: jnp.block([]))
error("block_tuple", lambda x: jnp.block((x, x)), np.zeros(3))
error("block_depth", lambda x: jnp.block([[x], x]), np.zeros(3))
error("split_unequal", lambda x: jnp.split(x, 2), np.zeros(3))
error("split_order", lambda x: jnp.split(x, [2, 1]), np.zeros(3))
error("repeat_axis", lambda x: jnp.repeat(x, 2, axis=2), np.zeros((2, 3)))
error("unstack_scalar", lambda x: jnp.unstack(x), np.float32(1))

# Padding

for mode in [
    "constant",
    "edge",
    "reflect",
    "symmetric",
    "wrap",
    "linear_ramp",
    "maximum",
    "minimum",
    "mean",
]:
    same(f"pad_{mode}", lambda m, x, mode=mode: m.pad(x, ((1, 2), (0, 3)), mode=mode), (3, 4))
    same(f"pad_{mode}_many", lambda m, x, mode=mode: m.pad(x, 9, mode=mode), (4,))
add(
    "pad_median",
    lambda x: jnp.pad(x, 2, mode="median"),
    (3, 4),
    numpy=lambda x: np.pad(x, 2, mode="median"),
)
same("pad_dtypes", lambda m, x: m.pad(x, 1), (2, 2), dtypes=DTYPES)
same("pad_edge_dtypes", lambda m, x: m.pad(x, 1, mode="edge"), (2, 2), dtypes=DTYPES)
same("pad_mean_int", lambda m, x: m.pad(x, 1, mode="mean"), (3, 4), dtypes=["int32"])
same("pad_value", lambda m, x: m.pad(x, 2, constant_values=3), (3, 4), dtypes=["float32", "int32"])
same("pad_values", lambda m, x: m.pad(x, 2, constant_values=((1, 2), (3, 4))), (3, 4))
given("pad_traced_value", lambda x, v: jnp.pad(x, 2, constant_values=v), values((3,), "float32", "p"),
      np.float32(7))  # fmt: skip
same(
    "pad_ramp_ends",
    lambda m, x: m.pad(x, 3, mode="linear_ramp", end_values=((1, 2), (3, 4))),
    (3, 4),
)
for mode in ["reflect", "symmetric"]:
    for n in [2, 7]:
        same(f"pad_{mode}_odd_{n}", lambda m, x, mode=mode, n=n: m.pad(x, n, mode=mode, reflect_type="odd"),
             (3, 4))  # fmt: skip
for mode in ["maximum", "minimum", "mean", "median"]:
    same(
        f"pad_{mode}_length", lambda m, x, mode=mode: m.pad(x, 2, mode=mode, stat_length=2), (3, 4)
    )
same("pad_length_each", lambda m, x: m.pad(x, 2, mode="mean", stat_length=((1, 2), (3, 4))), (3, 4))
same("pad_one_reflect", lambda m, x: m.pad(x, 3, mode="reflect"), (1,))
add("pad_function", lambda x: jnp.pad(x, 2, lambda row, width, axis, kwargs: row.at[: width[0]].set(kwargs["v"]),
                                      v=5.0), (2, 3))  # fmt: skip
error("pad_shape", lambda x: jnp.pad(x, ((1,), (2,))), np.zeros((2, 3)))
error("pad_negative", lambda x: jnp.pad(x, -1), np.zeros((2, 3)))
error("pad_float", lambda x: jnp.pad(x, 1.5), np.zeros((2, 3)))
error("pad_mode", lambda x: jnp.pad(x, 1, mode="foo"), np.zeros((2, 3)))
error("pad_keyword", lambda x: jnp.pad(x, 1, mode="edge", constant_values=1), np.zeros((2, 3)))
error("pad_empty", lambda x: jnp.pad(x, 1, mode="edge"), np.zeros((0, 3)))
error("pad_stat_length", lambda x: jnp.pad(x, 1, mode="maximum", stat_length=0), np.zeros((2, 3)))

# Selecting

MASK = np.array([[True, False, True], [False, False, True]])
given(
    "where",
    lambda c, x, y: jnp.where(c, x, y),
    MASK,
    values((2, 3), "float32", "w"),
    values((3,), "float32", "v"),
)
given("where_numbers", lambda c: jnp.where(c, 1, 2.0), MASK)
given("where_weak", lambda c, x: jnp.where(c, x, 0), MASK, values((2, 3), "bfloat16", "w"))
given("where_mixed", lambda c, x, y: jnp.where(c, x, y), MASK, values((2, 3), "int32", "w"),
      values((2, 3), "float16", "v"))  # fmt: skip
given("where_scalar", lambda c, x, y: jnp.where(c, x, y), True, values((2, 3), "float32", "w"),
      values((2, 3), "float32", "v"))  # fmt: skip
add("where_float", lambda x: jnp.where(x, x, 7.0), (2, 3), ties=True)
for number in (0, 1, False, 0.0, -0.0, np.inf, -np.inf):
    for dtype in ("int8", "float32"):
        given(
            f"where_else_{number!r}_{dtype}",
            lambda c, x, n=number: (y := jnp.where(c, x, n), 1 / y.astype(float)),
            MASK,
            np.full((2, 3), 2, dtype),
        )
given("where_one", lambda c: jnp.where(c, size=4, fill_value=-1), MASK)
given("nonzero", lambda c: jnp.nonzero(c), MASK, vmap=False)
for size in [0, 2, 5]:
    given(f"nonzero_{size}", lambda c, n=size: jnp.nonzero(c, size=n), MASK)
given("nonzero_fill", lambda c: jnp.nonzero(c, size=5, fill_value=(7, -8)), MASK)
add("nonzero_dtypes", lambda x: jnp.nonzero(x, size=6), (2, 4), dtypes=DTYPES, ties=True, diff="")
given("flatnonzero", lambda c: jnp.flatnonzero(c, size=4, fill_value=9), MASK)
given("argwhere", lambda c: jnp.argwhere(c, size=4, fill_value=9), MASK)
given("argwhere_scalar", lambda c: jnp.argwhere(c, size=1), np.float32(1), vmap=False)
add("select", lambda x: jnp.select([x > 1, x > 0], [x, 3 * x], default=7), (3, 4))
given("select_mixed", lambda x, i: jnp.select([x > 1, i > 0], [x, i]), values((3,), "float32", "s"),
      values((3,), "int32", "s"))  # fmt: skip
for mode in ["wrap", "clip"]:
    given(f"choose_{mode}", lambda a, x, y, m=mode: jnp.choose(a, [x, y], mode=m), [0, 5, -1, 1],
          values((4,), "float32", "a"), values((4,), "float32", "b"))  # fmt: skip
add("choose_raise", lambda x, y: jnp.choose(np.array([0, 1, 1]), [x, y]), (3,), (3,), diff="", vmap=False,
    ignore=["jit"])  # fmt: skip
add(
    "piecewise", lambda x: jnp.piecewise(x, [x < 0, x > 1], [jnp.sin, 3.0, lambda v: v * v]), (3, 4)
)
add(
    "piecewise_default",
    lambda x: jnp.piecewise(x, [x < 0], [lambda v, k, q=1: v * k * q], 3, q=2),
    (4,),
)
add(
    "clip", lambda x: jnp.clip(x, -1, 1), (3, 4), dtypes=["float32", "int32", "bfloat16", "float64"]
)
add("clip_arrays", lambda x, lo, hi: jnp.clip(x, lo, hi), (3, 4), (4,), (3, 1), diff="jvp")
add("clip_special", lambda x: jnp.clip(x, -1, 1), (3, 9), special=True, diff="")
add("clip_one", lambda x: (jnp.clip(x, min=0.5), jnp.clip(x, max=0.5), jnp.clip(x)), (4,))
given("clip_promote", lambda x: jnp.clip(x, 0.5, 1.5), values((5,), "int32", "c"))
given("compress", lambda c, x: jnp.compress(c, x, axis=0), [True, False], values((2, 3), "float32", "c"),
      vmap=False, ignore=["jit", "jvp", "vjp"])  # fmt: skip
given("compress_size", lambda c, x: jnp.compress(c, x, axis=1, size=3, fill_value=9), [True, False, True],
      values((2, 3), "float32", "c"))  # fmt: skip
given("extract_size", lambda c, x: jnp.extract(c, x, size=2), MASK, values((2, 3), "float32", "c"))
given(
    "place",
    lambda c, x, v: jnp.place(x, c, v, inplace=False),
    MASK,
    values((2, 3), "float32", "p"),
    [1.5, 2.5],
)
error("where_two", lambda c, x: jnp.where(c, x), MASK, np.zeros((2, 3)))
error("where_size", lambda c, x: jnp.where(c, x, 0, size=3), MASK, np.zeros((2, 3)))
error("where_shapes", lambda c, x: jnp.where(c, x, 0), MASK, np.zeros((2, 2)))
error("nonzero_scalar", lambda x: jnp.nonzero(x), np.float32(1))
error("nonzero_jit", lambda x: jax.jit(jnp.nonzero)(x), MASK)
error("nonzero_fill", lambda x: jnp.nonzero(x, size=2, fill_value=(1, 2, 3)), MASK)
error("select_count", lambda x: jnp.select([x > 0, x < 0], [x]), np.zeros(3))
error("select_none", lambda: jnp.select([], []))
error("choose_bounds", lambda x: jnp.choose(np.array([0, 7]), [x, x]), np.zeros(2))
error("choose_float", lambda x: jnp.choose(x, [x, x], mode="clip"), np.zeros(2))
error("piecewise_count", lambda x: jnp.piecewise(x, [x < 0, x > 0], [1]), np.zeros(2))
error("clip_complex", lambda x: jnp.clip(x, 0, 1), np.zeros(2, np.complex64))
error("clip_none", lambda: jnp.clip())
error("compress_matrix", lambda c, x: jnp.compress(c, x), MASK, np.zeros((2, 3)))
error("place_inplace", lambda x: jnp.place(x, x > 0, x), np.zeros(2))

# Editing

same("insert", lambda m, x: m.insert(x, 1, 9), (4,))
same("insert_end", lambda m, x: m.insert(x, -1, 9), (4,))
same("insert_row", lambda m, x, v: m.insert(x, 1, v, axis=0), (3, 4), (4,))
same("insert_column", lambda m, x, v: m.insert(x, 1, v, axis=1), (3, 4), (3,))
same("insert_many", lambda m, x, v: m.insert(x, np.array([3, 1]), v), (4,), (2,))
same("insert_columns", lambda m, x, v: m.insert(x, np.array([0, 4]), v, axis=1), (3, 4), (3, 2))
same("insert_slice", lambda m, x: m.insert(x, slice(0, 2), 7, axis=1), (3, 4))
given("insert_traced", lambda x, i: jnp.insert(x, i, 9.0), values((4,), "float32", "i"), 2)
same("delete", lambda m, x: m.delete(x, 1), (4,))
same("delete_row", lambda m, x: m.delete(x, -1, axis=0), (3, 4))
same("delete_many", lambda m, x: m.delete(x, np.array([2, 0, 2]), axis=1), (3, 4))
same("delete_slice", lambda m, x: m.delete(x, slice(None, None, 2), axis=1), (3, 4))
same("delete_mask", lambda m, x: m.delete(x, np.array([True, False, True, False])), (4,))
given("delete_traced", lambda x, i: jnp.delete(x, i, assume_unique_indices=True), values((5,), "float32", "d"),
      [3, 0], vmap=False)  # fmt: skip
for trim in ["f", "b", "fb"]:
    given(f"trim_zeros_{trim}", lambda x, t=trim: jnp.trim_zeros(x, t), [0, 0, 1, 0, 2, 0], vmap=False,
          ignore=["jit"])  # fmt: skip
given(
    "trim_zeros_2d",
    lambda x: jnp.trim_zeros(x),
    [[0, 0, 0], [0, 1, 2], [0, 0, 0]],
    vmap=False,
    ignore=["jit"],
)
error("insert_axis", lambda x: jnp.insert(x, 1, 5, axis=3), np.zeros((2, 3)))
error("insert_float", lambda x: jnp.insert(x, jnp.array([1.5]), 5), np.zeros(3))
error("delete_bounds", lambda x: jnp.delete(x, 9), np.zeros(3))
error("delete_mask", lambda x: jnp.delete(x, np.array([True, False])), np.zeros(3))

# Comparing

same("isclose", lambda m, x, y: m.isclose(x, y, rtol=0.5, atol=0.1), (3, 4), (4,), dtypes=["float32", "complex64"],
     diff="")  # fmt: skip
for equal_nan in [False, True]:
    same(f"isclose_special_{equal_nan}", lambda m, x, y, e=equal_nan: m.isclose(x, y, equal_nan=e), (5, 9), (5, 9),
         special=True, ties=True, diff="")  # fmt: skip
    same(f"array_equal_nan_{equal_nan}", lambda m, x, e=equal_nan: m.array_equal(x, x, equal_nan=e), (9,),
         special=True, diff="")  # fmt: skip
same(
    "isclose_int",
    lambda m, x, y: m.isclose(x, y, atol=1),
    (9,),
    (9,),
    dtypes=["int32", "uint8", "bool"],
    diff="",
)
same("allclose", lambda m, x: m.allclose(x, x * 1.000001), (3, 4), diff="")
same("array_equal", lambda m, x, y: m.array_equal(x, y), (2,), (3,), diff="", vmap=False)
add("array_equiv", lambda x: jnp.array_equiv(x, jnp.stack([x, x])), (3,), diff="")
same("nan_to_num", lambda m, x: m.nan_to_num(x), (3, 9), dtypes=["float32", "float16", "int32", "complex64"],
     special=True, diff="")  # fmt: skip
add(
    "nan_to_num_values",
    lambda x: jnp.nan_to_num(x, nan=1, posinf=2, neginf=3),
    (3, 9),
    special=True,
    diff="",
)
error("isclose_shapes", lambda x: jnp.isclose(x, x[0]), np.zeros((3, 4))[:, :2].T)
