"""Conversion between multi-dimensional indices and positions in flattened arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import ufuncs, util
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike, DTypeLike


@export
def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Converts positions in a flattened array to indices along each dimension.

    Args:
      indices: integers; negative ones count from the end, out-of-bounds ones are clipped.
      shape: shape of the array: an int, a sequence of ints, or an array, which may be traced.

    Returns:
      A tuple with an array of the shape of `indices` for each dimension.

    Raises:
      ValueError: if `shape` has more than one dimension.

    >>> i, j = jnp.unravel_index(jnp.array([1, 5]), (2, 3))
    >>> i.tolist(), j.tolist()
    ([0, 1], [1, 2])
    """
    indices = util.ensure_arraylike("unravel_index", indices)
    if isinstance(shape, Iterable) and not isinstance(shape, (np.ndarray, Array)):
        shape = tuple(shape)
    elif np.ndim(shape) == 0:
        shape = (shape,)
    if any(np.ndim(d) for d in shape):
        raise ValueError("unravel_index: shape should be a scalar or 1D sequence.")
    known = all(type(d) is int for d in shape)
    if known and dtypes.issubdtype(indices.dtype, np.integer):
        return _unravel_index(indices, shape=shape)
    # Symbolic sizes may be 0, by which the compiler must not divide.
    shape = [core.max_dim(d, 1) if core.is_symbolic_dim(d) else d for d in shape]
    return _unravel_by_sizes(indices, *shape)


def _unravel_by_sizes(indices, *sizes):
    """Unravels with sizes that are not Python ints, whose dtypes take part in promotion."""
    rest, out = indices, []
    for size in reversed(sizes):
        rest, index = ufuncs.divmod(rest, size)
        out.append(index)
    above = ufuncs.greater(rest, 0)
    if dtypes.issubdtype(rest.dtype, np.unsignedinteger):
        below = np.bool_(False)
    else:
        below = ufuncs.less(rest, -1)
    return tuple([
        util.select_where(above, ufuncs.subtract(size, 1), util.select_where(below, 0, index))
        for size, index in zip(sizes, reversed(out))
    ])  # fmt: skip


_unravel_by_sizes.__name__ = "unravel_index"
_unravel_by_sizes = nested_jit(_unravel_by_sizes)


def _unravel_index(indices, *, shape):
    total = int(np.prod(shape))
    if total == 0:
        return tuple([lax.full_like(indices, 0)] * len(shape))
    if dtypes.iinfo(indices.dtype).max < total:
        indices = lax.convert_element_type(indices, np.int32 if total < 2**31 else np.int64)
    size = lax.const(indices, total)
    if dtypes.issubdtype(indices.dtype, np.signedinteger):
        low, high = lax.const(indices, -total), lax.const(indices, total - 1)
        indices = lax.clamp(low, indices, high)
        indices = lax.select(
            lax.lt(indices, lax.const(indices, 0)), lax.add(indices, size), indices
        )
    else:
        indices = lax.min(indices, lax.const(indices, total - 1))
    out = []
    for d in reversed(shape):
        n = lax.const(indices, d)
        out.append(lax.rem(indices, n))
        indices = lax.div(indices, n)
    return tuple(out[::-1])


_unravel_index = nested_jit(_unravel_index, static_argnames=("shape",))


@export
def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Converts indices along each dimension to positions in the flattened array.

    Args:
      multi_index: an integer array for each dimension; they broadcast.
      dims: shape of the array.
      mode: treatment of out-of-bounds indices: "raise" (not possible for traced ones), "wrap",
        "clip", or "ignore".
      order: "C" if the last index changes fastest, "F" if the first does.
      dtype: dtype of the result; by default the common dtype of the indices.

    Returns:
      An integer array of the broadcast shape of the indices.

    Raises:
      ValueError: if indices are not integers, are out of bounds in mode "raise", or their number is
        not that of `dims`.

    >>> jnp.ravel_multi_index((jnp.array([0, 1]), jnp.array([1, 2])), (2, 3)).tolist()
    [1, 5]
    """
    if len(multi_index) != len(dims):
        raise ValueError(f"ravel_multi_index: {len(multi_index)=} != {len(dims)=}")
    dims = tuple(
        [core.concrete_dim_or_error(operator.index, d, "dims of ravel_multi_index") for d in dims]
    )
    arrays = util.ensure_arraylike_tuple("ravel_multi_index", multi_index)
    for x in arrays:
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise ValueError(f"dtype={x.dtype!r} is not an integer type.")
    if mode not in ("raise", "wrap", "clip", "ignore"):
        raise ValueError(f"invalid {mode=}. Expected 'raise', 'wrap', 'clip', or 'ignore'.")
    if order not in ("C", "F"):
        raise ValueError(f"invalid {order=}. Expected 'C' or 'F'")
    if mode == "raise":
        context = (
            "The error occurred because ravel_multi_index was jit-compiled with mode='raise'. Use "
            "mode='wrap', mode='clip' or mode='ignore' instead."
        )
        for x, n in zip(arrays, dims):
            least, most = util.known_bounds(x, context) if x.size else (0, -1)
            if least < 0 or most >= n:
                raise ValueError("invalid entry in coordinates array")
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "ravel_multi_index")
        if not dtypes.issubdtype(dtype, np.integer):
            raise ValueError(f"{dtype=} is not an integer type.")
    return _ravel_multi_index(*arrays, dims=dims, mode=mode, order=order, dtype=dtype)


def _ravel_multi_index(*arrays, dims, mode, order, dtype):
    if dtype is None:
        dtype = dtypes.result_type(*arrays) if arrays else dtypes.default_int_dtype()
    arrays = util.broadcast_arrays(*arrays)
    if not arrays:
        return lax.full((), 0, dtype)
    total = math.prod(dims)
    wide = np.dtype(np.int64 if core.is_constant_dim(total) and total >= 2**31 else np.int32)
    out, stride = None, 1
    pairs = list(zip(arrays, dims))
    for x, n in pairs if order == "F" else pairs[::-1]:
        if mode == "wrap" and x.dtype == np.uint32:
            x = lax.rem(x, lax.const(x, n))
        clips = mode == "clip" and wide == np.int32
        x = lax.convert_element_type(slicing.clamped(x) if clips else x, wide)
        if mode == "wrap":
            x = lax.rem(lax.add(lax.rem(x, lax.const(x, n)), lax.const(x, n)), lax.const(x, n))
        elif mode == "clip":
            x = lax.clamp(lax.const(x, 0), x, lax.const(x, n - 1))
        term = lax.mul(x, lax.const(x, stride))
        out = term if out is None else lax.add(out, term)
        stride *= n
    return lax.convert_element_type(out, dtype)


_ravel_multi_index = nested_jit(
    _ravel_multi_index, static_argnames=("dims", "mode", "order", "dtype")
)
