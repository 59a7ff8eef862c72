"""Functions that join, split and repeat arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.core import ShapedArray
from jax._src.jit.library import eager_jit, inline_jit, nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.manipulation.shape import (
    operand,
    ravel,
)
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis

# ---------------------------------------------------------------------------------------------------
# Joining


@export
def concatenate(
    arrays: Sequence[ArrayLike] | Array, axis: int | None = 0, dtype: DTypeLike | None = None
) -> Array:
    """Joins arrays along an existing dimension.

    Args:
      arrays: sequence of arrays whose shapes are equal except along `axis`; or one array, whose
        slices along the first dimension are joined.
      axis: dimension along which to join; None joins the flattened arrays.
      dtype: dtype of the result; by default the dtypes are promoted to a common one.

    Returns:
      An array whose size along `axis` is the sum of the arrays' sizes.

    Raises:
      ValueError: if there are no arrays, they are scalars, or `axis` is out of range.
      TypeError: if the shapes are incompatible.

    >>> jnp.concatenate([jnp.ones((2, 1)), jnp.zeros((2, 2))], axis=1).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    if type(arrays) in (list, tuple) and dtype is None and type(axis) is int:
        ndim = _common_rank(arrays)
        if -ndim <= axis < ndim:
            return lax.concatenate_p.bind(*arrays, dimension=axis + ndim if axis < 0 else axis)
    return _concatenate(arrays, axis, dtype)


def _common_rank(arrays: Sequence[Any]) -> int:
    """Returns the rank of the first of `arrays` if none needs conversion to be joined, else -1."""
    if not 0 < len(arrays) <= 32:
        return -1
    first = getattr(arrays[0], "aval", None)
    if type(first) is not ShapedArray:
        return -1
    dtype, weak_type = first.dtype, first.weak_type
    for x in arrays:
        aval = getattr(x, "aval", None)
        if aval is not first and (
            type(aval) is not ShapedArray or aval.dtype != dtype or aval.weak_type != weak_type
        ):
            return -1
    return len(first.shape)


def _concatenate(arrays, axis, dtype):
    if isinstance(arrays, (Array, np.ndarray)):
        util.check_arraylike("concatenate", arrays)
        if not arrays.ndim or arrays.ndim == 1 and arrays.shape[0] and axis is not None:
            raise ValueError("Zero-dimensional arrays cannot be concatenated.")
        if arrays.ndim and arrays.shape[0]:
            return _joined_elements(operand("concatenate", arrays), axis, dtype)
    arrays = _as_sequence("concatenate", arrays)
    if not arrays:
        raise ValueError("Need at least one array to concatenate.")
    arrays = util.ensure_arraylike_tuple("concatenate", arrays)
    if axis is None:
        return concatenate([ravel(a) for a in arrays], 0, dtype)
    if not arrays[0].ndim:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    axis = canonicalize_axis(axis, arrays[0].ndim)
    arrays = _of_one_dtype("concatenate", arrays, dtype)
    # Compilers are slow on operations with very many operands, so join in groups.
    while len(arrays) > 32:
        arrays = [lax.concatenate(arrays[i : i + 32], axis) for i in range(0, len(arrays), 32)]
    return lax.concatenate(arrays, axis)


def _joined_elements(x, axis, dtype):
    """Concatenates the slices of `x` along its first dimension, with one transpose and reshape."""
    if dtype is not None:
        x = lax.convert_element_type(
            x, dtypes.check_and_canonicalize_user_dtype(dtype, "concatenate")
        )
    if axis is None:
        return ravel(x)
    axis = canonicalize_axis(axis, x.ndim - 1)
    perm = list(range(1, x.ndim))
    perm.insert(axis, 0)
    shape = list(x.shape[1:])
    shape[axis] *= x.shape[0]
    return lax.reshape(lax.transpose(x, perm), shape)


def _as_sequence(name: str, arrays: Any) -> Sequence[Any]:
    if isinstance(arrays, (list, tuple, Array, np.ndarray)):
        return arrays if not isinstance(arrays, (Array, np.ndarray)) else list(arrays)
    try:
        return list(arrays)
    except TypeError:
        raise TypeError(
            f"{name} requires a sequence of arrays, got {arrays!r} of type {type(arrays)}"
        ) from None


def _of_one_dtype(name: str, arrays: Sequence[Any], dtype: Any) -> list[Any]:
    if dtype is None:
        return util.promote_dtypes(*arrays)
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    return [lax.convert_element_type(a, dtype) for a in arrays]


@export
def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Joins arrays along an existing dimension; the Array API's name for `concatenate`.

    >>> jnp.concat([jnp.arange(2), jnp.arange(3)]).tolist()
    [0, 1, 0, 1, 2]
    """
    util.check_arraylike("concat", *arrays)
    return concatenate(arrays, axis=axis)


@export
def stack(
    arrays: Sequence[ArrayLike] | Array,
    axis: int = 0,
    out: None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Joins arrays of equal shape along a new dimension.

    Args:
      arrays: sequence of arrays, or one array whose slices along the first dimension are stacked.
      axis: position of the new dimension in the result.
      out: must be None.
      dtype: dtype of the result; by default the dtypes are promoted to a common one.

    Returns:
      An array with one more dimension, of the number of arrays.

    Raises:
      ValueError: if there are no arrays, the shapes differ, or `axis` is out of range.

    >>> jnp.stack([jnp.zeros(2), jnp.ones(2)], axis=1).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.stack is not supported.")
    if type(arrays) in (list, tuple) and dtype is None and type(axis) is int:
        ndim = _common_rank(arrays) + 1
        if ndim and -ndim <= axis < ndim:
            shape = arrays[0].shape
            for a in arrays:
                if a.shape != shape:
                    break
            else:
                return lax.stack_p.bind(*arrays, axis=axis + ndim if axis < 0 else axis)
    if isinstance(arrays, (Array, np.ndarray)):
        x = operand("stack", arrays)
        if x.ndim and x.shape[0]:
            axis = canonicalize_axis(axis, x.ndim)
            if dtype is not None:
                x = lax.convert_element_type(
                    x, dtypes.check_and_canonicalize_user_dtype(dtype, "stack")
                )
            perm = list(range(1, x.ndim))
            perm.insert(axis, 0)
            return lax.transpose(x, perm)
    arrays = _as_sequence("stack", arrays)
    if not len(arrays):
        raise ValueError("Need at least one array to stack.")
    arrays = util.ensure_arraylike_tuple("stack", arrays)
    shape = arrays[0].shape
    axis = canonicalize_axis(axis, len(shape) + 1)
    for a in arrays:
        if len(a.shape) != len(shape):
            raise ValueError(
                f"Cannot stack arrays with different numbers of dimensions: got {shape}, {a.shape}."
            )
        if a.shape != shape:
            raise ValueError(
                "All input arrays must have the same shape: jnp.stack got "
                f"{', '.join(str(a.shape) for a in arrays)}."
            )
    arrays = _of_one_dtype("stack", arrays, dtype)
    if len(arrays) > 32:
        return _concatenate([lax.expand_dims(a, (axis,)) for a in arrays], axis, None)
    return lax.stack(arrays, axis)


@export
def vstack(tup: Sequence[ArrayLike] | Array, dtype: DTypeLike | None = None) -> Array:
    """Joins arrays along the first dimension; vectors are treated as rows.

    Args:
      tup: sequence of arrays whose shapes are equal except along the first dimension.
      dtype: dtype of the result; by default the dtypes are promoted to a common one.

    >>> jnp.vstack([jnp.arange(2), jnp.ones((1, 2), int)]).tolist()
    [[0, 1], [1, 1]]
    """
    return _joined("vstack", tup, 0, dtype)


@export
def hstack(tup: Sequence[ArrayLike] | Array, dtype: DTypeLike | None = None) -> Array:
    """Joins arrays along the second dimension, or vectors along their only one.

    Args:
      tup: sequence of arrays whose shapes are equal except along the joined dimension.
      dtype: dtype of the result; by default the dtypes are promoted to a common one.

    >>> jnp.hstack([jnp.arange(2), jnp.ones(1, int)]).tolist()
    [0, 1, 1]
    """
    return _joined("hstack", tup, 1, dtype)


@export
def dstack(tup: Sequence[ArrayLike] | Array, dtype: DTypeLike | None = None) -> Array:
    """Joins arrays along the third dimension; vectors become `(1, n, 1)` and matrices `(m, n, 1)`.

    Args:
      tup: sequence of arrays whose shapes are equal except along the third dimension.
      dtype: dtype of the result; by default the dtypes are promoted to a common one.

    >>> jnp.dstack([jnp.arange(2), jnp.arange(2)]).shape
    (1, 2, 2)
    """
    return _joined("dstack", tup, 2, dtype)


@export
def column_stack(tup: Sequence[ArrayLike] | Array) -> Array:
    """Joins vectors and matrices as the columns of a matrix.

    Args:
      tup: sequence of arrays of shapes `(n,)` or `(n, m)`.

    Returns:
      An array of shape `(n, k)`, where k is the total number of columns.

    >>> jnp.column_stack([jnp.arange(2), jnp.ones((2, 1), int)]).tolist()
    [[0, 1], [1, 1]]
    """
    return _joined("column_stack", tup, 1, None)


# The dimensions that each function adds to scalars, to vectors and to matrices.
_ADDED_DIMENSIONS = {
    "hstack": [(0,)],
    "vstack": [(0, 1), (0,)],
    "dstack": [(0, 1, 2), (0, 2), (2,)],
    "column_stack": [(0, 1), (1,)],
}


def _joined(name, tup, axis, dtype):
    def added(ndim):
        dimensions = _ADDED_DIMENSIONS[name]
        return dimensions[ndim] if ndim < len(dimensions) else ()

    if isinstance(tup, (Array, np.ndarray)) and tup.ndim and tup.shape[0]:
        x = operand(name, tup)
        x = lax.expand_dims(x, [d + 1 for d in added(x.ndim - 1)])
        return _joined_elements(x, min(axis, x.ndim - 2), dtype)
    arrays = util.ensure_arraylike_tuple(name, _as_sequence(name, tup))
    arrays = [lax.expand_dims(x, added(x.ndim)) for x in arrays]
    return concatenate(arrays, min(axis, arrays[0].ndim - 1) if arrays else axis, dtype)


@export
def block(arrays: Any) -> Array:
    """Assembles an array from nested lists of blocks.

    Args:
      arrays: nested lists of arrays. The innermost lists are joined along the last dimension, the
        lists containing them along the one before it, and so on.

    Returns:
      An array of the rank of the blocks, or the depth of the lists if that is greater.

    Raises:
      ValueError: if a list is empty, or lists are nested to different depths.
      TypeError: if the shapes are incompatible.

    >>> jnp.block([[jnp.ones((1, 1)), jnp.zeros((1, 2))], [jnp.ones((1, 3))]]).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    _check_blocks(arrays)
    return _join_blocks(arrays)


def _check_blocks(xs):
    if isinstance(xs, tuple):
        raise ValueError(f"jax.numpy.block does not allow tuples, got {xs}")
    if isinstance(xs, list):
        if not xs:
            raise ValueError("jax.numpy.block does not allow empty list arguments")
        for x in xs:
            _check_blocks(x)
    else:
        util.check_arraylike("block", xs)


def _block(xs):
    if not isinstance(xs, list):
        return util.to_array(xs), 1
    parts, depths = zip(*map(_block, xs))
    if any(d != depths[0] for d in depths):
        raise ValueError("Mismatched list depths in jax.numpy.block")
    depth = depths[0]
    rank = max(depth, *[x.ndim for x in parts])
    parts = [lax.broadcast_to_rank(x, rank) for x in parts]
    return concatenate(parts, -depth), depth + 1


def _join_blocks(arrays):
    out, _ = _block(arrays)
    return out


_join_blocks = nested_jit(_join_blocks)


@export
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Joins two arrays along a dimension.

    Args:
      arr, values: arrays whose shapes are equal except along `axis`.
      axis: dimension along which to join; None joins the flattened arrays.

    Returns:
      An array; a vector if `axis` is None.

    >>> jnp.append(jnp.arange(3), 7).tolist()
    [0, 1, 2, 7]
    """
    if axis is None:
        return concatenate([ravel(operand("append", arr)), ravel(operand("append", values))], 0)
    return concatenate([arr, values], axis)


# ---------------------------------------------------------------------------------------------------
# Splitting


@export
@eager_jit("indices_or_sections", "axis")
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Splits an array into subarrays.

    Args:
      ary: array.
      indices_or_sections: the number of equal parts; or the positions along `axis` at which to
        split, in ascending order.
      axis: dimension along which to split.

    Returns:
      A list of arrays.

    Raises:
      ValueError: if the parts would have unequal or negative sizes, or `axis` is out of range.

    >>> [p.tolist() for p in jnp.split(jnp.arange(6), 3)]
    [[0, 1], [2, 3], [4, 5]]
    >>> [p.tolist() for p in jnp.split(jnp.arange(4), [1, 3])]
    [[0], [1, 2], [3]]
    """
    return _split("split", ary, indices_or_sections, axis)


def _split(name, ary, indices_or_sections, axis, equal=True):
    ary = operand(name, ary)
    if not ary.ndim:
        raise ValueError(f"{name} requires an array of at least one dimension, got a scalar")
    axis = canonicalize_axis(
        core.concrete_or_error(operator.index, axis, f"in jax.numpy.{name} argument `axis`"),
        ary.ndim,
    )
    size = ary.shape[axis]
    context = f"in jax.numpy.{name} argument `indices_or_sections`"
    if isinstance(indices_or_sections, (tuple, list)):
        cuts = [core.concrete_or_error(_to_index, i, context) for i in indices_or_sections]
        sizes = _diff([0, *cuts, size])
    elif np.ndim(indices_or_sections) > 0:
        cuts = core.concrete_or_error(np.asarray, indices_or_sections, context)
        cuts = [operator.index(i) for i in cuts]
        sizes = _diff([0, *cuts, size])
    else:
        n = core.concrete_or_error(_to_int, indices_or_sections, context)
        if type(n) is int and n <= 0:
            raise ValueError(f"{name}: the number of sections must be larger than 0, got {n}")
        if equal and type(size) is int and size % n:
            raise ValueError(
                f"array split does not result in an equal division: rest is {size % n}"
            )
        if type(n) is not int:
            int(n)  # says that a constant is required
        part, rest = divmod(size, n)
        cuts = [i * part + (core.min_dim(i, rest) if not equal else 0) for i in range(n)]
        sizes = _diff([*cuts, size]) if not equal else [part] * n
    sizes = [d if core.is_symbolic_dim(d) else int(d) for d in sizes]
    negative = [d for d in sizes if type(d) is int and d < 0]
    if negative:
        # For positions out of order or past the end NumPy returns empty parts. lax.split cannot:
        # the sizes of its parts must add up to the size of the operand.
        raise ValueError(f"Sizes passed to split must be nonnegative, got {sizes}")
    return list(lax.split(ary, sizes, axis=axis))


def _to_index(n: Any) -> Any:
    return n if core.is_symbolic_dim(n) else operator.index(n)


def _to_int(n: Any) -> Any:
    try:
        return _to_index(n)
    except TypeError:
        i = int(n)
        if i != n:
            raise TypeError(
                f"split: positions and numbers of sections are integers, got {n!r}"
            ) from None
        return i


def _diff(cuts):
    return [b - a for a, b in zip(cuts, cuts[1:])]


@export
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Splits like `split`, but the parts may be unequal: the first ones are larger by one.

    Args:
      ary, indices_or_sections, axis: as for `split`.

    Returns:
      A list of arrays.

    >>> [p.tolist() for p in jnp.array_split(jnp.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    return _split("array_split", ary, indices_or_sections, axis, equal=False)


@export
def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Splits an array along the first dimension; see `split`.

    >>> [p.shape for p in jnp.vsplit(jnp.ones((4, 3)), 2)]
    [(2, 3), (2, 3)]
    """
    return _split("vsplit", ary, indices_or_sections, 0)


@export
def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Splits an array along the second dimension, or a vector along its only one; see `split`.

    >>> [p.shape for p in jnp.hsplit(jnp.ones((4, 3)), 3)]
    [(4, 1), (4, 1), (4, 1)]
    """
    ary = operand("hsplit", ary)
    return _split("hsplit", ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


@export
def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Splits an array along the third dimension; see `split`.

    >>> [p.shape for p in jnp.dsplit(jnp.ones((4, 3, 2)), 2)]
    [(4, 3, 1), (4, 3, 1)]
    """
    return _split("dsplit", ary, indices_or_sections, 2)


@export
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Returns a tuple of the slices of an array along a dimension, without that dimension.

    Args:
      x: array of at least one dimension.
      axis: the axis to unstack.

    Raises:
      ValueError: if `axis` is out of range.

    >>> [r.tolist() for r in jnp.unstack(jnp.array([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    x = operand("unstack", x)
    if not x.ndim:
        raise ValueError(
            "Unstack requires arrays with rank > 0, however a scalar array was passed."
        )
    return lax.unstack(x, axis)


# ---------------------------------------------------------------------------------------------------
# Repeating


@export
def tile(A: ArrayLike, reps: Any) -> Array:
    """Repeats an array along its dimensions by copying it as a whole.

    Args:
      A: array.
      reps: number of copies along each dimension. If `reps` and `A` differ in length and rank, the
        shorter one is padded with ones in front.

    Returns:
      An array of rank `max(A.ndim, len(reps))`.

    Raises:
      TypeError: if a number of copies is not an integer.
      ValueError: if a number of copies is negative.

    >>> jnp.tile(jnp.array([1, 2]), 2).tolist()
    [1, 2, 1, 2]
    >>> jnp.tile(jnp.array([1, 2]), (2, 1)).tolist()
    [[1, 2], [1, 2]]
    """
    A = operand("tile", A)
    try:
        reps = tuple(reps)
    except TypeError:
        reps = (reps,)
    context = "jnp.tile: reps must be concrete"
    reps = tuple(
        [
            d if core.is_symbolic_dim(d) else core.concrete_or_error(_copies, d, context)
            for d in reps
        ]
    )
    if any(type(d) is int and d < 0 for d in reps):
        raise ValueError(f"jnp.tile: reps must not be negative, got {reps}")
    return _tiled(A, reps)


@eager_jit("reps")
def _tiled(A: Any, reps: tuple[Any, ...]) -> Any:
    rank = max(A.ndim, len(reps))
    A = lax.broadcast_to_rank(A, rank)
    reps = (1,) * (rank - len(reps)) + reps
    if all(type(d) is int and d == 1 for d in reps):
        return A
    return lax.tile(A, reps)


def _copies(n: Any) -> int:
    try:
        return operator.index(n)
    except TypeError:
        raise TypeError(f"jnp.tile: reps must be integers, got {n!r}") from None


@export
@eager_jit("repeats", "axis", "total_repeat_length", "out_sharding")
def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Repeats each element of an array along a dimension.

    Args:
      a: array.
      repeats: number of repetitions: an integer, or one for each element along `axis`.
      axis: dimension along which to repeat; None repeats the elements of the flattened array.
      total_repeat_length: size of the result along `axis`: a longer result is cut off, a shorter
        one is padded with the last element, if there is any. It is required if `repeats` is traced.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of the rank of `a`, or a vector if `axis` is None.

    Raises:
      ValueError: if the shapes are incompatible or `axis` is out of range.
      ConcretizationTypeError: if `repeats` is traced and `total_repeat_length` is None.

    >>> jnp.repeat(jnp.array([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    >>> jnp.repeat(jnp.array([1, 2, 3]), jnp.array([0, 2, 1]), total_repeat_length=5).tolist()
    [2, 2, 3, 3, 3]
    """
    a = operand("repeat", a)
    if not core.is_symbolic_dim(repeats):
        util.check_arraylike("repeat", repeats)
    if axis is None:
        a, axis = ravel(a), 0
    elif not a.ndim:
        a = ravel(a)
    axis = canonicalize_axis(
        core.concrete_or_error(operator.index, axis, "'axis' argument of jnp.repeat()"), a.ndim
    )
    out = _repeat(a, repeats, axis, total_repeat_length)
    if out_sharding is not None:
        out = lax.reshape(out, out.shape, out_sharding=out_sharding)
    return out


def _repeat(a, repeats, axis, total_repeat_length):
    if core.is_symbolic_dim(repeats):
        if total_repeat_length is not None:
            raise ValueError(
                "jnp.repeat with a symbolic `repeats` is supported only when `total_repeat_length` is None. "
                f"Got {repeats=} {total_repeat_length=}"
            )
        return _repeat_each(a, n=repeats, axis=axis)
    size = a.shape[axis]
    if total_repeat_length is None:
        repeats = core.concrete_or_error(
            np.asarray,
            repeats,
            "When jit-compiling jnp.repeat, the total number of repeats must be static. To fix this, either "
            "specify a static value for `repeats`, or pass a static value to `total_repeat_length`.",
        )
        if repeats.dtype.kind not in "iub":
            raise TypeError(f"jnp.repeat requires integer `repeats`, got {repeats.dtype}")
        if (repeats < 0).any():
            raise ValueError(f"jnp.repeat: repeats must not be negative, got {repeats}")
        if repeats.size == 1:
            return _repeat_each(a, n=int(repeats.reshape(())), axis=axis)
        repeats = repeats.ravel()
        _check_repeats(repeats.shape, size, axis)
        if not size:
            return a
        positions = np.repeat(np.arange(size), repeats)
        return _take(a, positions.astype(np.int32)[:, None], axis)
    total = core.concrete_dim_or_error(
        operator.index, total_repeat_length, "jnp.repeat argument `total_repeat_length`"
    )
    repeats = util.to_array(repeats)
    if not dtypes.issubdtype(repeats.dtype, np.integer) and repeats.dtype != np.bool_:
        raise TypeError(f"jnp.repeat requires integer `repeats`, got {repeats.dtype}")
    if repeats.size != 1:
        _check_repeats(repeats.shape, size, axis)
    if not size:
        return a
    if not total:
        shape = (*a.shape[:axis], total, *a.shape[axis + 1 :])
        return lax.full(shape, 0, a.dtype)
    return _repeat_to(a, repeats, axis=axis, total=total)


def _check_repeats(shape, size, axis):
    if shape != (size,):
        raise ValueError(
            f"jnp.repeat: repeats of shape {shape} must be a scalar, or a vector with one entry for each of "
            f"the {size} elements along axis {axis}"
        )


def _repeat_each(a, *, n, axis):
    shape = a.shape
    if type(n) is int and n == 1:
        return a
    dims = tuple([d if d <= axis else d + 1 for d in range(len(shape))])
    out = lax.broadcast_in_dim(a, (*shape[: axis + 1], n, *shape[axis + 1 :]), dims)
    return lax.reshape(out, (*shape[:axis], shape[axis] * n, *shape[axis + 1 :]))


_repeat_each = inline_jit(_repeat_each, static_argnames=("n", "axis"))


def _take(a, positions, axis):
    """Gathers `a` along `axis` at `positions`, in-bounds sorted indices of shape `(n, 1)`."""
    kept = tuple([d for d in range(a.ndim) if d != axis])
    return slicing.gather(
        a,
        positions,
        slicing.GatherDimensionNumbers(kept, (axis,), (axis,)),
        (*a.shape[:axis], 1, *a.shape[axis + 1 :]),
        indices_are_sorted=True,
        mode=slicing.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _repeat_to(a, repeats, *, axis, total):
    size = a.shape[axis]
    repeats = lax.convert_element_type(repeats, np.int32)
    if repeats.size == 1:
        repeats = lax.broadcast_in_dim(lax.reshape(repeats, ()), (size,), ())
    # Output position p copies element i where i is the number of elements whose copies end at or
    # before p: mark those ends and count them with a cumulative sum.
    ends = lax.cumsum(repeats)
    ones = lax.full((size,), 1, np.int32)
    marks = slicing.scatter_add(
        lax.full((total,), 0, np.int32),
        lax.expand_dims(ends, (1,)),
        ones,
        slicing.ScatterDimensionNumbers((), (0,), (0,)),
        mode=slicing.GatherScatterMode.FILL_OR_DROP,
    )
    positions = lax.cumsum(marks)
    positions = lax.min(positions, lax.const(positions, size - 1))
    return _take(a, lax.expand_dims(positions, (1,)), axis)


_repeat_to = nested_jit(_repeat_to, static_argnames=("axis", "total"))
