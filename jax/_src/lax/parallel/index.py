"""The index along a named axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.core import ShapedArray
from jax._src.core.manual_axis_type import ManualAxisType, empty_mat
from jax._src.interpreters import mlir
from jax._src.lax import lax
from jax._src.lax.parallel import lowering
from jax._src.lax.parallel.axes import axis_size, collective, effects, manual_axes


def axis_index(axis_name: Any) -> Any:
    """Return the index along a named axis, or the row-major index along several.

    The argument is that of `axis_size`.

    Returns:
      An int32 scalar.

    >>> print(jax.vmap(lambda x: jax.lax.axis_index("i"), axis_name="i")(jnp.ones(3)))
    [0 1 2]
    """
    if not isinstance(axis_name, (tuple, list)):
        return axis_index_p.bind(axis_name=axis_name)
    if not axis_name:
        return lax.full((), 0)
    index = axis_index_p.bind(axis_name=axis_name[0])
    for name in axis_name[1:]:
        index = lax.mul(index, np.int32(axis_size(name)))
        index = lax.add(index, axis_index_p.bind(axis_name=name))
    return index


_INT32 = np.dtype(np.int32)


def _types(*, axis_name):
    axis_size(axis_name)
    manual = manual_axes((axis_name,))
    mat = ManualAxisType(varying=frozenset(manual)) if manual else empty_mat
    return ShapedArray((), _INT32, manual_axis_type=mat), effects((axis_name,))


def _batch(axis_data, args, dims, *, axis_name):
    if axis_name != axis_data.name:
        return axis_index_p.bind(axis_name=axis_name), None
    index = lax.iota(np.int32, axis_data.size)
    if axis_data.manual_axes:
        first = lax.mul(axis_index(axis_data.manual_axes), np.int32(axis_data.size))
        index = lax.add(index, lax.broadcast_in_dim(first, index.shape, ()))
    return index, 0


axis_index_p = collective("axis_index", _types)
axis_index_p.axis_batch = _batch
mlir.register_lowering(
    axis_index_p, lambda ctx, *, axis_name: [lowering.axis_index(ctx, axis_name)]
)
