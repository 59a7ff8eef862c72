"""Indices out of bounds: how operations index, and the mode `jax.debug.bounds()`.

`first_outside` finds such an index; checkify, `jax.experimental` error checks and the debugging mode
all use it or its parts.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import config, core, dtypes, effects, source_info_util
from jax._src.core import Primitive, typeof
from jax._src.device_reports import Report, Reports, define_check
from jax._src.interpreters import mlir
from jax._src.lax import lax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

enabled = config.debug_bounds


# How operations index


class Indexing(NamedTuple):
    """How an operation indexes its operand.

    Attributes:
      indices: integer array, whose last dimension is over `axes`.
      axes: dimensions of the operand.
      sizes: the size of the window in each dimension of the operand.
    """

    indices: Any
    axes: Sequence[int]
    sizes: Sequence[int]


def indexing_of(name: str, args: Sequence[Any], params: dict[str, Any]) -> Indexing | None:
    """Return how a gather, scatter or dynamic slice indexes its operand; None if it does not."""
    ndim = typeof(args[0]).ndim
    if name == "dynamic_slice":
        starts, sizes = args[1:], params["slice_sizes"]
        return Indexing(_vector(starts), range(ndim), sizes) if starts else None
    if name == "dynamic_update_slice":
        starts, sizes = args[2:], typeof(args[1]).shape
        return Indexing(_vector(starts), range(ndim), sizes) if starts else None
    dims = params["dimension_numbers"]
    if name == "gather":
        return Indexing(args[1], dims.start_index_map, params["slice_sizes"])
    updates = typeof(args[2]).shape
    window = iter([updates[d] for d in dims.update_window_dims])
    single = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    sizes = [1 if d in single else next(window) for d in range(ndim)]
    return Indexing(args[1], dims.scatter_dims_to_operand_dims, sizes)


def keeping(dtype: Any) -> Any:
    """Context manager in which indices of this dtype can be made, also if 64 bits are disabled."""
    return config.enable_x64(True) if np.dtype(dtype).itemsize == 8 else contextlib.nullcontext()


def _vector(indices: Sequence[Any]) -> Any:
    """An array of indices that are given one by one."""
    infos = [dtypes.iinfo(typeof(i).dtype) for i in indices]
    wide = any(info.bits == 64 for info in infos)
    unsigned = all(info.bits == 32 and info.min == 0 for info in infos)
    dtype = np.int64 if wide else np.uint32 if unsigned else np.int32
    if all(isinstance(i, (int, np.generic, np.ndarray)) for i in indices):
        return np.array([int(i) for i in indices], dtype)
    with keeping(dtype):
        return lax.concatenate(
            [lax.broadcast(lax.convert_element_type(i, dtype), (1,)) for i in indices], 0
        )


# Finding an index


def outside(indices: Any, low: int, high: Any) -> Any:
    """Return which elements of an integer array are less than `low` or greater than `high`.

    `high` is a number, or an array along the last dimension of the indices.
    """
    shape, dtype = typeof(indices).shape, typeof(indices).dtype
    info = dtypes.iinfo(dtype)
    high = np.asarray(np.minimum(np.asarray(high, object), int(info.max)), dtype)
    bad = lax.gt(indices, lax.broadcast_in_dim(high, shape, (len(shape) - 1,) * high.ndim))
    if info.min < low:
        bad = lax.bitwise_or(bad, lax.lt(indices, lax.full_like(indices, low)))
    return bad


def first_outside(
    indices: Any, shape: Sequence[int], axes: Sequence[int], sizes: Sequence[int]
) -> tuple[Any, Any] | None:
    """Find the first index out of bounds; None if there are no indices.

    Args:
      indices, axes, sizes: see `Indexing`.
      shape: the shape of the operand.

    Returns:
      Whether there is one, and the int32 array [index, axis, size of the axis].
    """
    aval = typeof(indices)
    if not axes or 0 in aval.shape:
        return None
    bad = outside(indices, 0, [shape[d] - sizes[d] for d in axes])
    every = tuple(range(aval.ndim))
    # The first one, found without a change of shape, which sharded indices may not allow.
    n = math.prod(aval.shape)
    positions = lax.reshape(lax.iota(np.int32, n), aval.shape)
    first = lax.reduce_min(lax.select(bad, positions, lax.full_like(positions, n)), every)
    pred = lax.lt(first, lax.full_like(first, n))
    is_first = lax.eq(positions, lax.broadcast(first, aval.shape))
    index = lax.reduce_sum(lax.select(is_first, indices, lax.full_like(indices, 0)), every)
    which = lax.rem(first, lax.full_like(first, len(axes)))
    entry = lambda xs: _entry(np.array(xs, np.int32), which)
    parts = [
        lax.convert_element_type(index, np.int32),
        entry(axes),
        entry([shape[d] for d in axes]),
    ]
    return pred, lax.concatenate([lax.broadcast(x, (1,)) for x in parts], 0)


def _entry(table: np.ndarray, i: Any) -> Any:
    """`table[i]` of a small table."""
    out = table[0]
    if (table != out).any():
        for j, x in enumerate(table[1:], 1):
            out = lax.select(lax.eq(i, lax.full_like(i, j)), x, out)
    return out


# The debugging mode


def check(name: str, args: Sequence[Any], params: dict[str, Any]) -> None:
    """Under `jax.debug.bounds()`, look for an index out of bounds of an operation.

    Raises:
      IndexError: there is one, and its value is known.
    """
    indexing = indexing_of(name, args, params)
    if indexing is None or not indexing.axes or 0 in np.shape(indexing.indices):
        return
    bounds_check_p.bind(
        indexing.indices,
        name=name,
        operand=typeof(args[0]).str_short(),
        shape=tuple(typeof(args[0]).shape),
        axes=tuple(indexing.axes),
        sizes=tuple(indexing.sizes),
        line=source_info_util.summarize(source_info_util.current()),
    )


class BoundsEffect(effects.Effect):
    """An error if an index is out of bounds."""

    __slots__ = ()
    is_exported = False
    __str__ = lambda _: "Bounds"


_effect = BoundsEffect()
effects.allow_everywhere(BoundsEffect)

bounds_check_p = Primitive("bounds_check", multiple_results=True)
reports = Reports(IndexError)


def _lower(ctx, indices, *, shape, axes, sizes, **params):
    if ctx.module_context.lowering_parameters.for_export:
        return []  # the program that is going to run it has no such function to call

    def find_one(x):
        with keeping(typeof(x).dtype):
            return [lax.convert_element_type(first_outside(x, shape, axes, sizes)[0], np.int32)]

    find = mlir.lower_fun(find_one, multiple_results=True)
    i32 = core.ShapedArray((), np.dtype(np.int32))
    (found,) = find(ctx.replace(primitive=None, avals_out=[i32]), indices)
    case = hlo.CaseOp([], index=found, num_branches=2)
    params = dict(params, shape=shape, axes=axes, sizes=sizes)
    report = Report(reports, _problem, tuple(params.items()))
    for region, fails in zip(case.regions, (False, True)):
        with ir.InsertionPoint(region.blocks.append()):
            if fails:
                mlir.emit_python_callback(
                    ctx, report, None, [indices], ctx.avals_in, [], has_side_effect=True
                )
            hlo.return_([])
    return []


def _problem(
    indices: np.ndarray, *, name: str, operand: str, shape: tuple[int, ...], axes: tuple[int, ...],
    sizes: tuple[int, ...], line: str,
) -> str | None:  # fmt: skip
    last = np.array([shape[d] - sizes[d] for d in axes])
    bad = np.argwhere((indices < 0) | (indices > last))
    if not len(bad):
        return None
    index = indices[tuple(bad[0])]
    axis = axes[bad[0][-1]]
    size, window = shape[axis], sizes[axis]
    what = f"index {index} is out of bounds for axis {axis} of size {size}"
    if window > 1:
        what = (
            f"a slice of {window} elements from index {index} is out of bounds for axis {axis} of size "
            f"{size}: it may start at 0 to {size - window}"
        )
    elif index < 0:
        what += f" (if negative indices are counted from the end here, it was {index - size})"
    where = f"at {line}: " if line else ""
    return f"{what}\n  {where}{name} of {operand}, {len(bad)} of {indices.size} indices"


define_check(bounds_check_p, _effect, reports, _problem)
mlir.register_lowering(bounds_check_p, _lower)
