"""`packbits` and `unpackbits`."""

from __future__ import annotations

import operator

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy.manipulation.shape import operand, ravel
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis


def _shifts(bitorder: str) -> np.ndarray:
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")
    places = np.arange(8, dtype=np.uint8)
    return places if bitorder == "little" else places[::-1]


@export
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Packs groups of eight booleans into bytes.

    Args:
      a: boolean or integer array; nonzero elements are ones.
      axis: axis along which to pack; None for the flattened array. The last byte is padded with
        zeros.
      bitorder: whether the first element is the most ("big") or least ("little") significant bit.

    Returns:
      A uint8 array, with an eighth of the size along `axis`, rounded up.

    Raises:
      TypeError: if `a` is neither boolean nor integer.
      ValueError: if `bitorder` is unknown.

    >>> jnp.packbits(jnp.array([1, 0, 0, 0, 0, 0, 1, 1])).tolist()
    [131]
    """
    a = operand("packbits", a)
    if not (dtypes.issubdtype(a.dtype, np.integer) or a.dtype == np.bool_):
        raise TypeError("Expected an input array of integer or boolean data type")
    _shifts(bitorder)
    if axis is None:
        a, axis = ravel(a), 0
    return _packbits(a, axis=canonicalize_axis(axis, a.ndim), bitorder=bitorder)


def _packbits(a, *, axis, bitorder):
    bits = lax.convert_element_type(
        lax.ne(a, lax.const(a, 0)) if a.dtype != np.bool_ else a, np.uint8
    )
    n = bits.shape[axis]
    count = (n + 7) // 8
    config = [(0, 0, 0)] * a.ndim
    config[axis] = (0, 8 * count - n, 0)
    bits = lax.pad(bits, np.uint8(0), config)
    shape = (*a.shape[:axis], count, 8, *a.shape[axis + 1 :])
    bits = lax.reshape(bits, shape)
    shifts = lax.broadcast_in_dim(_shifts(bitorder), shape, (axis + 1,))
    return lax.reduce_sum(lax.shift_left(bits, shifts), axes=(axis + 1,))


_packbits = nested_jit(_packbits, static_argnames=("axis", "bitorder"))


@export
def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Unpacks bytes into their bits.

    Args:
      a: uint8 array.
      axis: axis along which to unpack; None for the flattened array.
      count: number of bits to return, padded with zeros; a negative number drops as many at the
        end.
      bitorder: whether the most ("big") or least ("little") significant bit comes first.

    Returns:
      A uint8 array of zeros and ones, with eight times the size along `axis`, or `count`.

    Raises:
      TypeError: if `a` is not a uint8 array.
      ValueError: if `bitorder` is unknown.

    >>> jnp.unpackbits(jnp.array([131], dtype="uint8")).tolist()
    [1, 0, 0, 0, 0, 0, 1, 1]
    """
    a = operand("unpackbits", a)
    if a.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    _shifts(bitorder)
    if axis is None:
        a, axis = ravel(a), 0
    if count is not None:
        count = core.concrete_dim_or_error(operator.index, count, "count argument of unpackbits")
    return _unpackbits(a, axis=canonicalize_axis(axis, a.ndim), count=count, bitorder=bitorder)


def _unpackbits(a, *, axis, count, bitorder):
    n = a.shape[axis]
    shape = (*a.shape[: axis + 1], 8, *a.shape[axis + 1 :])
    kept = tuple([d for d in range(len(shape)) if d != axis + 1])
    shifts = lax.broadcast_in_dim(_shifts(bitorder), shape, (axis + 1,))
    bits = lax.shift_right_logical(lax.broadcast_in_dim(a, shape, kept), shifts)
    bits = lax.bitwise_and(bits, np.uint8(1))
    bits = lax.reshape(bits, (*a.shape[:axis], 8 * n, *a.shape[axis + 1 :]))
    if count is None:
        return bits
    if count < 0:
        return slicing.slice_in_dim(bits, 0, max(8 * n + count, 0), axis=axis)
    config = [(0, 0, 0)] * a.ndim
    config[axis] = (0, count - 8 * n, 0)
    return lax.pad(bits, np.uint8(0), config)


_unpackbits = nested_jit(_unpackbits, static_argnames=("axis", "count", "bitorder"))
