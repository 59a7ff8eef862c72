"""Sorting, partial sorting, and the indices of extreme elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import eager_jit, inline_jit, nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.manipulation.shape import operand, ravel
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis

# ---------------------------------------------------------------------------------------------------
# Sorting


@export
@eager_jit("axis", "kind", "order", "stable", "descending")
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Sorts an array along a dimension; NaNs come last.

    Args:
      a: array.
      axis: dimension along which to sort; None sorts the flattened array.
      kind, order: must be None.
      stable: whether equal elements keep their order.
      descending: whether to sort from greatest to smallest, with NaNs first.

    Returns:
      An array of the shape and dtype of `a`; a vector if `axis` is None.

    Raises:
      TypeError: if `kind` or `order` is given.
      ValueError: if `axis` is out of range.

    >>> jnp.sort(jnp.array([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    a = operand("sort", a)
    _reject("sort", kind, order)
    if axis is None:
        a, axis = ravel(a), 0
    dimension = canonicalize_axis(axis, a.ndim)
    (out,) = lax.sort_p.bind(a, dimension=dimension, is_stable=bool(stable), num_keys=1)
    return lax.rev(out, (dimension,)) if descending else out


def _reject(name: str, kind: Any, order: Any) -> None:
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to specify sort "
            "stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")


@export
@eager_jit("axis", "kind", "order", "stable", "descending")
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """Returns the indices that sort an array along a dimension; see `sort`.

    Args:
      a, axis, kind, order, stable, descending: as for `sort`.
      dtype: dtype of the indices; None for the default integer.

    Returns:
      An integer array of the shape of `a`; a vector if `axis` is None.

    >>> jnp.argsort(jnp.array([30, 10, 20])).tolist()
    [1, 2, 0]
    """
    a = operand("argsort", a)
    _reject("argsort", kind, order)
    if axis is None:
        a, axis = ravel(a), 0
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "argsort")
    return _argsort(
        a,
        dimension=canonicalize_axis(axis, a.ndim),
        stable=bool(stable),
        descending=bool(descending),
        dtype=dtype,
    )


def _argsort(a, *, dimension, stable, descending, dtype=None):
    if dtype is None:
        use_64 = type(a.shape[dimension]) is int and a.shape[dimension] >= 2**31
        dtype = dtypes.canonicalize_dtype(np.int64 if use_64 else dtypes.default_int_dtype())
    places = lax.broadcasted_iota(dtype, a.shape, dimension, out_sharding=core.typeof(a)._sharding)
    # The final reversal also reverses ties, so a stable descending sort reverses its input first.
    if descending and stable:
        a, places = lax.rev(a, (dimension,)), lax.rev(places, (dimension,))
    _, out = lax.sort((a, places), dimension=dimension, is_stable=stable, num_keys=1)
    return lax.rev(out, (dimension,)) if descending else out


_argsort = nested_jit(_argsort, static_argnames=("dimension", "stable", "descending", "dtype"))


@export
def sort_complex(a: ArrayLike) -> Array:
    """Sorts along the last dimension by real, then imaginary part; the result is complex.

    Args:
      a: array of at least one dimension.

    >>> jnp.sort_complex(jnp.array([2., 1.]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    a = operand("sort_complex", a)
    out = sort(a)
    return lax.convert_element_type(
        out, dtypes.canonicalize_dtype(dtypes.to_complex_dtype(out.dtype))
    )


@export
def lexsort(keys: Array | np.ndarray | Sequence[ArrayLike], axis: int = -1) -> Array:
    """Returns the indices that sort by several keys, of which the last is the primary one.

    Args:
      keys: sequence of arrays of equal shape.
      axis: dimension along which to sort.

    Returns:
      An integer array of the shape of a key.

    Raises:
      TypeError: if there are no keys.
      ValueError: if the shapes differ.

    >>> jnp.lexsort((jnp.array([5, 4, 3]), jnp.array([1, 2, 1]))).tolist()
    [2, 0, 1]
    """
    keys = tuple(keys)
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    keys = util.ensure_arraylike_tuple("lexsort", keys)
    if len({k.shape for k in keys}) > 1:
        raise ValueError("all keys need to be the same shape")
    if not keys[0].ndim:
        return lax.full((), 0, dtypes.default_int_dtype())
    return _lexsort(*keys, axis=canonicalize_axis(axis, keys[0].ndim))


def _lexsort(*keys, axis):
    sharding = core.typeof(keys[0])._sharding
    dtype = dtypes.default_int_dtype()
    places = lax.broadcasted_iota(dtype, keys[0].shape, axis, out_sharding=sharding)
    return lax.sort((*keys[::-1], places), dimension=axis, num_keys=len(keys))[-1]


_lexsort = nested_jit(_lexsort, static_argnames=("axis",))


# ---------------------------------------------------------------------------------------------------
# Partial sorting


@export
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Partitions an array around the element that sorting puts at index `kth`.

    Elements before it are not greater, elements after it are not smaller.

    Args:
      a: array.
      kth: index of the element in sorted order.
      axis: dimension along which to partition.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: if `kth` or `axis` is out of range.
      NotImplementedError: if `a` is complex.

    The order within the two parts may differ from NumPy's. NaNs are placed last.

    >>> jnp.partition(jnp.array([3, 1, 4, 2]), 1).tolist()[:2]
    [1, 2]
    """
    a, kth, axis = _partition_arguments("partition", a, kth, axis)
    return _partition(a, kth=kth, axis=axis)


def _partition_arguments(name, a, kth, axis):
    a = operand(name, a)
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        raise NotImplementedError(f"jnp.{name} for complex dtype is not implemented.")
    axis = canonicalize_axis(axis, a.ndim)
    return a, canonicalize_axis(kth, a.shape[axis]), axis


def _descending(x):
    """Maps numbers to keys of the opposite order, with NaNs as the smallest key."""
    if dtypes.issubdtype(x.dtype, np.integer) or x.dtype == np.bool_:
        return lax.bitwise_not(x)
    # Sorting places NaNs of either sign after all numbers.
    nan = lax.full_like(x, -np.inf if dtypes.supports_inf(x.dtype) else dtypes.finfo(x.dtype).min)
    return lax.select(lax.ne(x, x), nan, lax.neg(x))


def _smallest(a, kth):
    """Returns the indices of the `kth + 1` smallest elements along the last dimension, in order."""
    key = _descending(a)
    if key.dtype == np.bool_:
        key = lax.convert_element_type(key, np.int8)
    _, places = lax.top_k(key, kth + 1)
    return places


def _partition(a, *, kth, axis):
    n = a.shape[axis]
    if a.size == 0:
        return a
    if not core.is_constant_dim(n):
        return lax.sort(a, dimension=axis)  # how many are above is not known
    perm = [*[d for d in range(a.ndim) if d != axis], axis]
    moved = lax.transpose(a, perm)
    last = a.ndim - 1
    parts = [_take_along(moved, _smallest(moved, kth), last)]
    if kth < n - 1:
        key = lax.convert_element_type(moved, np.int8) if a.dtype == np.bool_ else moved
        greatest, _ = lax.top_k(key, n - kth - 1)
        parts.append(lax.convert_element_type(greatest, a.dtype))
    return lax.transpose(lax.concatenate(parts, last), _inverse(perm))


def _inverse(perm):
    back = [0] * len(perm)
    for i, d in enumerate(perm):
        back[d] = i
    return back


def _take_along(a, places, axis):
    batch = tuple([d for d in range(a.ndim) if d != axis])
    return slicing.gather(
        a,
        lax.expand_dims(places, (a.ndim,)),
        slicing.GatherDimensionNumbers((), (axis,), (axis,), batch, batch),
        (1,) * a.ndim,
        mode=slicing.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


_partition = nested_jit(_partition, static_argnames=("kth", "axis"))


@export
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Returns the indices that partition an array; takes the arguments of `partition`.

    >>> jnp.argpartition(jnp.array([30, 10, 40, 20]), 1).tolist()[:2]
    [1, 3]
    """
    a, kth, axis = _partition_arguments("argpartition", a, kth, axis)
    return _argpartition(a, kth=kth, axis=axis)


def _argpartition(a, *, kth, axis):
    n = a.shape[axis]
    perm = [*[d for d in range(a.ndim) if d != axis], axis]
    moved = lax.transpose(a, perm)
    low = _smallest(moved, kth)
    # The indices not in `low`, in ascending order: a stable sort of the marks brings them to the
    # front.
    flat = lax.reshape(low, (math.prod(low.shape[:-1]), kth + 1))
    rows = lax.broadcasted_iota(np.int32, flat.shape, 0)
    marks = slicing.scatter(
        lax.full((flat.shape[0], n), True, np.bool_),
        lax.stack([rows, flat], 2),
        lax.full(flat.shape, False, np.bool_),
        slicing.ScatterDimensionNumbers((), (0, 1), (0, 1)),
        unique_indices=True,
        mode=slicing.GatherScatterMode.PROMISE_IN_BOUNDS,
    )
    places = lax.broadcasted_iota(np.int32, marks.shape, 1)
    _, order = lax.sort(
        (lax.convert_element_type(lax.bitwise_not(marks), np.int8), places), num_keys=1
    )
    rest = slicing.slice_in_dim(order, 0, n - kth - 1, axis=1)
    out = lax.concatenate([flat, rest], 1)
    return lax.transpose(lax.reshape(out, moved.shape), _inverse(perm))


_argpartition = nested_jit(_argpartition, static_argnames=("kth", "axis"))


# ---------------------------------------------------------------------------------------------------
# Indices of the greatest and smallest elements


@export
@eager_jit("axis", "out", "keepdims")
def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Returns the index of the greatest element: the first of equal ones, or the first NaN.

    Args:
      a: real array.
      axis: dimension to search; None searches the flattened array.
      out: must be None.
      keepdims: whether the result keeps the dimension, with size 1.

    Returns:
      An integer array of the shape of `a` without `axis`.

    Raises:
      ValueError: if the searched dimension is empty, or `axis` is out of range.

    >>> jnp.argmax(jnp.array([[1, 9], [7, 3]]), axis=1).tolist()
    [1, 0]
    """
    return _arg("argmax", lax.argmax_p, a, axis, out, keepdims)


@export
@eager_jit("axis", "out", "keepdims")
def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Returns the index of the smallest element: the first of equal ones, or the first NaN.

    Args:
      a, axis, out, keepdims: as for `argmax`.

    Returns:
      An integer array of the shape of `a` without `axis`.

    >>> jnp.argmin(jnp.array([3, 1, 2])).item()
    1
    """
    return _arg("argmin", lax.argmin_p, a, axis, out, keepdims)


def _arg(name, primitive, a, axis, out, keepdims):
    a = operand(name, a)
    util.reject_out(name, out)
    shape = a.shape
    if axis is None:
        if 0 in shape:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        if len(shape) == 1 and not keepdims:
            axis = 0
        else:
            return _arg_of_all(a, primitive=primitive, keepdims=bool(keepdims))
    axis = canonicalize_axis(axis, len(shape))
    if core.definitely_equal(shape[axis], 0):
        raise ValueError(f"attempt to get {name} of an empty sequence")
    result = primitive.bind(a, axes=(axis,), index_dtype=dtypes.default_int_dtype())
    return lax.expand_dims(result, (axis,)) if keepdims else result


def _arg_of_all(a, *, primitive, keepdims):
    result = primitive.bind(ravel(a), axes=(0,), index_dtype=dtypes.default_int_dtype())
    return lax.expand_dims(result, tuple(range(a.ndim))) if keepdims else result


_arg_of_all = inline_jit(_arg_of_all, static_argnames=("primitive", "keepdims"))


@export
def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Returns the index of the greatest element, ignoring NaNs; -1 if all elements are NaN.

    Args:
      a, axis, out, keepdims: as for `argmax`.

    >>> jnp.nanargmax(jnp.array([1., jnp.nan, 3.])).item()
    2
    """
    util.reject_out("nanargmax", out)
    return _nanarg("nanargmax", argmax, -np.inf, a, axis, keepdims)


@export
def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Returns the index of the smallest element, ignoring NaNs; -1 if all elements are NaN.

    Args:
      a, axis, out, keepdims: as for `argmax`.

    >>> jnp.nanargmin(jnp.array([1., jnp.nan, 3.])).item()
    0
    """
    util.reject_out("nanargmin", out)
    return _nanarg("nanargmin", argmin, np.inf, a, axis, keepdims)


def _nanarg(name, fun, lowest, a, axis, keepdims):
    a = operand(name, a)
    if not dtypes.issubdtype(a.dtype, np.floating):
        return fun(a, axis, keepdims=keepdims)
    if axis is None:
        axes = tuple(range(a.ndim))
        if not a.size:
            raise ValueError(
                "attempt to get {} of an empty sequence".format(name.removeprefix("nan"))
            )
    else:
        axes = (canonicalize_axis(axis, a.ndim),)
    return _nanarg_program(
        a, fun=fun, lowest=lowest, axis=None if axis is None else axes[0], axes=axes,
        keepdims=bool(keepdims),
    )  # fmt: skip


def _nanarg_program(a, *, fun, lowest, axis, axes, keepdims):
    missing = lax.ne(a, a)
    finite = lax.select(missing, lax.full_like(a, lowest), a)
    none = lax.reduce_and(missing, axes=axes)
    if keepdims:
        none = lax.expand_dims(none, axes)
    found = fun(finite, axis, keepdims=keepdims)
    return lax.select(none, lax.full_like(found, -1), found)


_nanarg_program = nested_jit(
    _nanarg_program, static_argnames=("fun", "lowest", "axis", "axes", "keepdims")
)
