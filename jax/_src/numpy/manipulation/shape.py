"""Functions that change an array's shape or rearrange its elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.errors import InconclusiveDimensionOperation
from jax._src.jit.library import eager_jit, inline_jit
from jax._src.lax import lax, slicing
from jax._src.lax.resharding import place
from jax._src.numpy import util
from jax._src.numpy.util import export
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis, canonicalize_axis_tuple

Tracer = core.Tracer


def operand(name: str, x: Any) -> Any:
    """Converts an array argument of the function `name` to an array or tracer."""
    if type(x) is ArrayImpl or isinstance(x, Tracer):
        return x
    return util.ensure_arraylike(name, x)


# ---------------------------------------------------------------------------------------------------
# Changing the shape


@export
def reshape(
    a: ArrayLike,
    shape: Any,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """Gives an array a new shape with the same elements.

    Args:
      a: array of any shape.
      shape: an int or a sequence of ints; one entry may be -1, which is inferred from the others.
      order: "C" reads and writes elements with the last index changing fastest, "F" with the first.
      copy: whether a NumPy array is copied; has no effect on other arrays, which are immutable.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of the given shape. Without `out_sharding`, the result for a NumPy array is a NumPy
      array, also in traced functions, where it is a constant that Python code can look at.

    Raises:
      TypeError: if the number of elements differs or `shape` contains something other than
        integers.
      ValueError: if the number of elements of a NumPy array differs.

    >>> jnp.reshape(jnp.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    >>> jnp.reshape(jnp.arange(6), (2, 3), order="F").tolist()
    [[0, 2, 4], [1, 3, 5]]
    """
    if isinstance(a, np.ndarray | np.generic) and out_sharding is None:
        out = a.reshape(shape, order=order)
        return out.copy() if copy and np.may_share_memory(out, a) else out
    a = operand("reshape", a)
    old = a.shape
    new = new_shape(old, shape)
    if order == "C":
        if out_sharding is None:
            if new == old:
                return a
            if type(a) is ArrayImpl and core.trace_ctx.trace is core.eval_trace:
                return _reshaped(a, shape=new)
            return lax.reshape_p.bind(a, new_sizes=new, dimensions=None, sharding=None)
        sharding = canonicalize_sharding(out_sharding, "reshape")
        return lax.reshape_p.bind(a, new_sizes=new, dimensions=None, sharding=sharding)
    if order == "F":
        backwards = tuple(range(len(old)))[::-1]
        out = lax.reshape(a, new[::-1], backwards)
        out = lax.transpose(out, tuple(range(len(new)))[::-1])
        return out if out_sharding is None else reshape(out, new, out_sharding=out_sharding)
    raise _bad_order("np.reshape", order)


def _reshaped_impl(a, *, shape):
    return lax.reshape_p.bind(a, new_sizes=shape, dimensions=None, sharding=None)


_reshaped = inline_jit(_reshaped_impl, static_argnames=("shape",))


def _bad_order(name: str, order: Any) -> Exception:
    if order == "A":
        return NotImplementedError(f"{name} order=A is not implemented.")
    return ValueError(f"Unexpected value for 'order' argument: {order}.")


def new_shape(old: tuple, shape: Any) -> tuple:
    """Returns the shape that `reshape` gives an array of shape `old`, with -1 replaced by its size.

    Raises:
      TypeError: if the number of elements differs.
    """
    if type(shape) is int or isinstance(shape, np.integer) or core.is_symbolic_dim(shape):
        sizes: tuple = (shape,)
    else:
        try:
            sizes = tuple(shape)
        except TypeError:
            sizes = (shape,)
    # Fast path: plain ints with at most one -1. Everything else, errors included, takes the slow
    # path.
    unknown, total, plain = -1, 1, True
    for i, d in enumerate(sizes):
        if type(d) is not int:
            plain = False
            break
        if d == -1:
            if unknown >= 0:
                plain = False
                break
            unknown = i
        else:
            total *= d
    if plain:
        size = math.prod(old)
        if unknown < 0:
            if total == size:
                return sizes
        elif total > 0 and type(size) is int and size % total == 0:
            return (*sizes[:unknown], size // total, *sizes[unknown + 1 :])
    return _general_new_shape(old, shape, sizes)


def _general_new_shape(old: tuple, given: Any, sizes: tuple) -> tuple:
    sizes = core.canonicalize_shape([d if core.is_symbolic_dim(d) else _index(d) for d in sizes])
    size = math.prod(old)
    what = f"cannot reshape array of shape {old} (size {size}) into shape {given}"
    unknown = [i for i, d in enumerate(sizes) if type(d) is int and d == -1]
    if len(unknown) > 1:
        raise TypeError(f"can only specify one unknown axis size with a `-1` value, got {given}")
    if not unknown:
        if not core.same_shape_sizes(old, sizes) or any(type(d) is int and d < 0 for d in sizes):
            raise TypeError(f"{what} (size {math.prod(sizes)})")
        return sizes
    known = math.prod(d for i, d in enumerate(sizes) if i != unknown[0])
    if core.definitely_equal(known, 0):
        raise TypeError(
            f"{what}: the size of the axis given as -1 is ambiguous, because another axis has size 0"
        )
    if type(known) is int and type(size) is int and (known < 0 or size % known):
        raise TypeError(
            f"{what} because the product of specified axis sizes ({known}) does not evenly divide "
            f"{size}"
        )
    if size % known != 0:
        raise InconclusiveDimensionOperation(
            f"{what}: Cannot divide evenly the size {size} by {known}, which leaves the remainder "
            f"{size % known}. If it always is 0, state it when the dimensions are made: "
            f"jax.export.symbolic_shape(..., constraints=['{size % known} == 0'])."
        )
    return (*sizes[: unknown[0]], size // known, *sizes[unknown[0] + 1 :])


def _index(d: Any) -> Any:
    if hasattr(d, "__index__") and not isinstance(d, Tracer):
        return operator.index(d)
    return d


@export
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Flattens an array to one dimension.

    Args:
      a: array of any shape.
      order: "C" reads elements with the last index changing fastest, "F" with the first.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of shape `(a.size,)`.

    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]), order="F").tolist()
    [1, 3, 2, 4]
    """
    a = operand("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    shape = a.shape
    if len(shape) == 1 and order == "C" and out_sharding is None:
        return a
    return reshape(a, math.prod(shape), order, out_sharding=out_sharding)


@export
def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Removes dimensions of size 1.

    Args:
      a: array.
      axis: dimension or dimensions to remove; None for all of size 1.

    Returns:
      An array without the given dimensions.

    Raises:
      ValueError: if a dimension to remove does not have size 1, or `axis` is out of range.

    >>> jnp.squeeze(jnp.ones((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    a = operand("squeeze", a)
    if axis is None:
        dims = tuple([i for i, d in enumerate(a.shape) if core.known_equal(d, 1)])
    else:
        dims = canonicalize_axis_tuple(axis, a.ndim, allow_duplicate=True)
    return lax.squeeze_p.bind(a, dimensions=dims) if dims else a


@export
@eager_jit("axis")
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Inserts dimensions of size 1.

    Args:
      a: array.
      axis: position or positions of the new dimensions in the result.

    Returns:
      An array with the new dimensions inserted.

    Raises:
      ValueError: if a position is out of range or repeated.

    >>> jnp.expand_dims(jnp.ones(3), (0, 2)).shape
    (1, 3, 1)
    """
    a = operand("expand_dims", a)
    if np.ndim(axis) == 0:
        axis = (operator.index(axis),)
    return lax.expand_dims(a, tuple(map(operator.index, axis)))


@export
@eager_jit("shape", "out_sharding")
def broadcast_to(array: ArrayLike, shape: Any, *, out_sharding: Any = None) -> Array:
    """Broadcasts an array to a shape: repeats it along new dimensions and those of size 1.

    Args:
      array: array of a shape that broadcasts to `shape`.
      shape: shape of the result.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of the given shape.

    Raises:
      ValueError: if the shapes are incompatible.

    >>> jnp.broadcast_to(jnp.array([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return util.broadcast_to(
        array, shape, sharding=canonicalize_sharding(out_sharding, "broadcast_to")
    )


@export
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Broadcasts arrays to a common shape.

    Raises:
      ValueError: if the shapes are incompatible.

    >>> x, y = jnp.broadcast_arrays(jnp.ones((2, 1)), jnp.ones(3))
    >>> x.shape, y.shape
    ((2, 3), (2, 3))
    """
    return util.broadcast_arrays(*args)


@export
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Returns the shape that arrays of the given shapes broadcast to.

    Raises:
      ValueError: if the shapes are incompatible.

    >>> jnp.broadcast_shapes((2, 1), (3,), 1)
    (2, 3)
    """
    if not shapes:
        return ()
    as_tuples = [(s,) if np.ndim(s) == 0 and not isinstance(s, tuple) else tuple(s) for s in shapes]
    return lax.broadcast_shapes(*as_tuples)


@export
def atleast_1d(*arys: ArrayLike) -> Any:
    """Converts inputs to arrays of at least one dimension: scalars get shape `(1,)`.

    Returns:
      An array, or a list of arrays for more than one argument.

    >>> jnp.atleast_1d(3.).shape
    (1,)
    """
    return _each("atleast_1d", arys, lambda x: x if x.ndim else lax.expand_dims(x, (0,)))


@export
def atleast_2d(*arys: ArrayLike) -> Any:
    """Converts inputs to arrays of at least two dimensions; new ones are prepended.

    Returns:
      An array, or a list of arrays for more than one argument.

    >>> jnp.atleast_2d(jnp.ones(3)).shape
    (1, 3)
    """

    def raised(x):
        return x if x.ndim >= 2 else lax.expand_dims(x, tuple(range(2 - x.ndim)))

    return _each("atleast_2d", arys, raised)


@export
def atleast_3d(*arys: ArrayLike) -> Any:
    """Converts inputs to at least three dimensions.

    A vector `(n,)` becomes `(1, n, 1)` and a matrix `(m, n)` becomes `(m, n, 1)`.

    Returns:
      An array, or a list of arrays for more than one argument.

    >>> jnp.atleast_3d(jnp.ones(3)).shape
    (1, 3, 1)
    """
    new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    return _each(
        "atleast_3d", arys, lambda x: x if x.ndim >= 3 else lax.expand_dims(x, new[x.ndim])
    )


def _each(name: str, arys: tuple, fun: Callable) -> Any:
    if len(arys) == 1:
        return fun(operand(name, arys[0]))
    return [fun(x) for x in util.ensure_arraylike_tuple(name, arys)]


@export
def resize(a: ArrayLike, new_shape: Any) -> Array:
    """Gives an array a new shape; its elements are repeated in order or cut off to fill it.

    Args:
      a: array.
      new_shape: shape of the result.

    Returns:
      An array of shape `new_shape`; zeros if `a` is empty.

    Raises:
      ValueError: if a size is negative.

    >>> jnp.resize(jnp.array([1, 2, 3]), (2, 2)).tolist()
    [[1, 2], [3, 1]]
    """
    a = operand("resize", a)
    shape = core.canonicalize_shape(
        (new_shape,) if isinstance(new_shape, (int, np.integer)) else new_shape
    )
    if any(core.definitely_greater(0, d) for d in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    size, old = math.prod(shape), a.size
    if core.definitely_equal(old, 0) or core.definitely_equal(size, 0):
        return lax.full(shape, 0, a.dtype)
    flat = ravel(a)
    if not core.definitely_greater(old + 1, size):
        flat = lax.tile(flat, (-(-size // old),))
    return reshape(slicing.slice_in_dim(flat, 0, size), shape)


# ---------------------------------------------------------------------------------------------------
# Reordering the dimensions


@export
@eager_jit("axes")
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Permutes the dimensions of an array.

    Args:
      a: array.
      axes: entry i is the dimension of `a` that becomes dimension i; None reverses the order.

    Returns:
      An array whose dimension i is dimension `axes[i]` of `a`.

    Raises:
      TypeError: if `axes` is not a permutation.
      ValueError: if an axis is out of range.

    >>> jnp.transpose(jnp.ones((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    a = operand("transpose", a)
    ndim = len(a.shape)
    if axes is None:
        if ndim < 2:
            return a
        return lax.transpose_p.bind(a, permutation=tuple(range(ndim))[::-1])
    return lax.transpose(a, tuple([canonicalize_axis(i, ndim) for i in axes]))


@export
def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """Permutes the dimensions of an array; the Array API's name for `transpose`.

    Args:
      a: array.
      axes: entry i is the dimension of `a` that becomes dimension i.

    >>> jnp.permute_dims(jnp.ones((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    return transpose(operand("permute_dims", a), axes)


@export
@eager_jit()
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Exchanges the last two dimensions.

    Args:
      x: array of shape `(..., m, n)`.

    Returns:
      An array of shape `(..., n, m)`.

    Raises:
      ValueError: if `x` has fewer than two dimensions.

    >>> jnp.matrix_transpose(jnp.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = operand("matrix_transpose", x)
    ndim = x.ndim
    if ndim < 2:
        raise ValueError(
            f"x must be at least two-dimensional for matrix_transpose; got ndim={ndim}"
        )
    return lax.transpose_p.bind(x, permutation=(*range(ndim - 2), ndim - 1, ndim - 2))


@export
@eager_jit("axis1", "axis2")
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Exchanges two dimensions.

    Args:
      a: array.
      axis1, axis2: the dimensions to exchange.

    Raises:
      ValueError: if an axis is out of range.

    >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    a = operand("swapaxes", a)
    perm = list(range(a.ndim))
    i, j = canonicalize_axis(axis1, a.ndim), canonicalize_axis(axis2, a.ndim)
    perm[i], perm[j] = j, i
    return lax.transpose(a, perm)


@export
@eager_jit("source", "destination")
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Moves dimensions to new positions; the others keep their order.

    Args:
      a: array.
      source: dimensions to move.
      destination: their positions in the result.

    Returns:
      An array with the same dimensions in the new order.

    Raises:
      ValueError: if an axis is out of range or repeated, or the two have different lengths.

    >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = operand("moveaxis", a)
    ndim = a.ndim
    src = canonicalize_axis_tuple(source, ndim, allow_duplicate=True)
    dst = canonicalize_axis_tuple(destination, ndim, allow_duplicate=True)
    if len(src) != len(dst):
        raise ValueError(f"Inconsistent number of elements: {len(src)} vs {len(dst)}")
    for what, dims in (("source", src), ("destination", dst)):
        if len(set(dims)) != len(dims):
            raise ValueError(f"repeated axis in `{what}` argument of moveaxis: {dims}")
    perm = [i for i in range(ndim) if i not in src]
    for d, s in sorted(zip(dst, src)):
        perm.insert(d, s)
    return lax.transpose(a, perm)


@export
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Moves a dimension to just before the dimension `start`; prefer `moveaxis` in new code.

    Args:
      a: array.
      axis: the dimension to move.
      start: the dimension before which to place it.

    Raises:
      ValueError: if an axis is out of range.

    >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2, 1).shape
    (2, 4, 3)
    """
    a = operand("rollaxis", a)
    start, ndim = operator.index(start), a.ndim
    if not -ndim <= start <= ndim:
        raise ValueError(f"start={start} must satisfy {-ndim}<=start<={ndim}")
    if start < 0:
        start += ndim
    axis = canonicalize_axis(axis, ndim)
    return moveaxis(a, axis, start - (start > axis))


# ---------------------------------------------------------------------------------------------------
# Reordering the elements


def _converted_impl(x, *, dtype):
    return lax.convert_type(x, dtype, warn_on_complex_to_real_cast=False)


_converted = inline_jit(_converted_impl, static_argnames=("dtype",))


@export
def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: Any = None
) -> Array:
    """Converts an array to another dtype.

    Args:
      x: array.
      dtype: dtype of the result; None for the default float.
      copy: whether the result must be a new array.
      device: device or sharding of the result.

    Returns:
      An array of the shape of `x`.

    Raises:
      TypeError: if `dtype` is not a valid array dtype.

    >>> jnp.astype(jnp.array([0.5, 2.7]), int)
    Array([0, 2], dtype=int32)
    """
    if type(x) is ArrayImpl and x.dtype is dtype and not (x.weak_type or copy) and device is None:
        if dtype not in dtypes.dtype_to_32bit_dtype:
            return x  # a common case, with nothing to check
    x = operand("astype", x)
    if dtype is None:
        dtype = dtypes.default_float_dtype()
    if not isinstance(dtype, dtypes.ExtendedDType):
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "astype")
        if dtypes.issubdtype(x.dtype, np.complexfloating) and dtype.kind not in "cb":
            util.user_warning(
                "Casting from complex to real dtypes will soon raise a ValueError. Please first use "
                "jnp.real or jnp.imag to take the real/imaginary component of your input.",
                DeprecationWarning,
            )
        if type(x) is ArrayImpl and core.trace_ctx.trace is core.eval_trace:
            out = x if x.dtype == dtype and not x.weak_type else _converted(x, dtype=dtype)
        else:
            out = lax.convert_type(x, dtype, warn_on_complex_to_real_cast=False)
    else:
        out = lax.convert_element_type(x, dtype)
    if device is not None:
        return place(out, device, "jnp.astype", may_alias=not copy)
    if copy and out is x:
        return lax.copy_p.bind(out)
    return out


@export
def copy(a: ArrayLike, order: str | None = None) -> Array:
    """Copies an array.

    Args:
      a: array.
      order: None or "K"; the compiler chooses memory layouts.

    Returns:
      A new array equal to `a`.

    Raises:
      NotImplementedError: for any other order.

    >>> x = jnp.arange(3)
    >>> jnp.copy(x) is x
    False
    """
    if order is not None and order != "K":
        raise NotImplementedError("Only implemented for order='K'")
    if isinstance(a, Array):
        return lax.copy_p.bind(a)
    return util.ensure_arraylike("copy", a)
