"""Reading elements: `x[...]` and `x.at[...].get()`.

Eager reads run compiled programs that take positions as operands, so that there is one program for
each kind of index instead of each position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.array import ArrayImpl
from jax._src.device_put.functions import device_put
from jax._src.jit.library import Programs, inline_jit
from jax._src.lax import lax, slicing
from jax._src.lax.slicing import GatherDimensionNumbers, GatherScatterMode
from jax._src.lax.slicing.gathers import default_fill_value
from jax._src.named_sharding import NamedSharding
from jax._src.numpy.checks import check_bounds, checks_bounds
from jax._src.numpy.indexing.lower import (
    empty_axis_error,
    make_plan,
    take_slice,
)
from jax._src.numpy.indexing.parse import (
    GAP,
    Entry,
    Flag,
    Position,
    Positions,
    Slice,
    is_eager_array,
    parse_index,
    whole,
)
from jax._src.numpy.util import to_array
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding_impls import canonicalize_sharding, without_mesh
from jax._src.transforms.explicit_sharding import auto_axes

_PROMISE = GatherScatterMode.PROMISE_IN_BOUNDS
_trace_ctx = core.trace_ctx
_eval_trace = core.eval_trace
_checked = config.check_static_indices
_bounds = config.debug_bounds


def getitem(x: Any, idx: Any) -> Any:
    """Implements `x[idx]`, with fast paths for the most common eager reads."""
    if type(x) is ArrayImpl and _trace_ctx.trace is _eval_trace and not _checked.value:
        t = type(idx)
        if t is int:
            shape = x.shape
            if shape:
                size = shape[0]
                # Clamp out-of-bounds integers, like the general path does.
                if idx < 0:
                    idx += size
                    if idx < 0:
                        idx = 0
                elif idx >= size:
                    idx = size - 1
                if size:
                    if type(x._sharding) is NamedSharding:
                        row = _row_of_one_device(x, idx)
                        if row is not None:
                            return row
                    return _take_row(x, idx)
                raise empty_axis_error(0)
        elif t is slice:
            shape = x.shape
            if shape:
                start, stop, step = idx.indices(shape[0])
                if step == 1:
                    if stop - start >= shape[0]:
                        return x
                    if stop > start:
                        return _row_programs[stop - start](x, start)
        elif t is ArrayImpl:
            shape, dtype = x.shape, idx.dtype
            if shape and shape[0] and dtype.kind in "iu" and not checks_bounds():
                return _take_at(x, idx)
    return rewriting_take(x, idx)


def rewriting_take(
    arr: Any,
    idx: Any,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    fill_value: Any = None,
    normalize_indices: bool = True,
    out_sharding: Any = None,
) -> Any:
    """Implements `arr[idx]` with the arguments of `arr.at[idx].get()`.

    Args:
      arr: array or tracer.
      idx: the index, as written between brackets.
      indices_are_sorted, unique_indices: promises about index arrays.
      mode: treatment of out-of-bounds indices; None promises that there are none.
      fill_value: value for out-of-bounds indices in mode "fill"; None for the default.
      normalize_indices: whether negative indices count from the end.
      out_sharding: sharding of the result, in explicit mode.
    """
    gather_mode = _PROMISE if mode is None else GatherScatterMode.from_any(mode)
    if gather_mode is GatherScatterMode.FILL_OR_DROP and fill_value is not None:
        fill_value = _static_scalar(fill_value)
    else:
        fill_value = None
    entries = parse_index(idx, arr.shape, normalize_indices)
    if gather_mode is _PROMISE and config.check_static_indices.value:
        _check_static_indices(entries, arr.shape, normalize_indices)
    if gather_mode is _PROMISE and checks_bounds():
        check_bounds(_indices(entries, arr.shape))
    flags = (gather_mode, fill_value, bool(indices_are_sorted), bool(unique_indices))
    if out_sharding is not None:
        sharding = canonicalize_sharding(out_sharding, "x.at[...].get")
        skeleton, leaves = split(entries, arr.shape)
        return auto_axes(_programs[skeleton, flags], out_sharding=sharding)(arr, *leaves)
    if is_eager_array(arr) and not _bounds.value:  # a program has the line of its first call
        if not _changes(arr.shape, entries):
            return arr
        skeleton, leaves = split(entries, arr.shape)
        return _programs[skeleton, flags](arr, *leaves)
    return take_entries(arr, entries, *flags)


def _check_static_indices(entries: list[Entry], shape, normalized: bool) -> None:
    axis = 0
    for e in entries:
        if type(e) is Position and type(e.index) is int:
            i, size = e.index, shape[axis]
            if not 0 <= i < size:
                given = i - size if i < 0 and normalized else i
                raise IndexError(
                    f"index {given} out of bounds for axis {axis} with size {size}"
                    f" (normalize_indices={normalized})"
                )
        axis += type(e) in _ALONG_AXIS


def _indices(entries: list[Entry], shape) -> list[tuple[Any, bool, int]]:
    """Returns the arrays among the entries, whether they wrap, and the sizes that they index."""
    indices, axis = [], 0
    for e in entries:
        if type(e) is Positions:
            indices.append((to_array(e.array), e.wrap, shape[axis]))
        elif type(e) is Position and type(e.index) is not int and not e.inside:
            indices.append((to_array(e.index), e.wrap, shape[axis]))
        axis += type(e) in _ALONG_AXIS
    return indices


_ALONG_AXIS = (Position, Positions, Slice)


def _static_scalar(fill_value: Any) -> Any:
    if isinstance(fill_value, (bool, int, float, complex)):
        return np.nan if fill_value != fill_value else fill_value  # one NaN, for cache keys
    value = core.concrete_or_error(
        None, fill_value, "The `fill_value` of an indexed get() must be static."
    )
    if np.ndim(value):
        raise ValueError("fill_value argument to indexed get() must be a scalar")
    return np.asarray(value).item()


def take_entries(x, entries, mode, fill_value, is_sorted, unique):
    """Indexes `x` by parsed entries with lax operations."""
    explicit = mode is GatherScatterMode.CLIP and _bounds.value  # which a slice could not tell
    if not explicit and _can_slice(x.shape, entries, mode):
        return take_slice(x, entries)
    plan = make_plan(x.shape, entries)
    shape = plan.result_shape
    if plan.is_empty:
        return lax.full(shape, 0, x.dtype)
    if plan.empty_axis is not None:
        if mode is not GatherScatterMode.FILL_OR_DROP:
            raise TypeError(
                f"arrays of indices cannot be in bounds: axis {plan.empty_axis} of the array of shape "
                f"{x.shape} has size 0; .at[...].get(mode='fill') gives fill values there"
            )
        fill = default_fill_value(x.dtype) if fill_value is None else fill_value
        return lax.full(shape, fill, x.dtype)
    out = slicing.gather(
        x,
        plan.indices,
        GatherDimensionNumbers(plan.offset_dims, plan.collapsed, plan.axes),
        plan.sizes,
        unique_indices=unique or plan.unique,
        indices_are_sorted=is_sorted or plan.unique,
        mode=mode,
        fill_value=fill_value,
    )
    if plan.reverse:
        out = lax.rev(out, plan.reverse)
    return lax.expand_dims(out, plan.new) if plan.new else out


def _can_slice(shape, entries, mode) -> bool:
    """Tests whether a slice, which is clamped as a whole, treats bad indices as `mode` asks."""
    fills = mode is GatherScatterMode.FILL_OR_DROP or mode is GatherScatterMode.ONE_HOT
    moves = strided = False
    axis = 0
    for e in entries:
        if type(e) is Slice:
            moves = moves or not e.inside
            strided = strided or e.step != 1
        elif type(e) is Position:
            if fills and not (e.inside or (type(e.index) is int and 0 <= e.index < shape[axis])):
                return False
        elif type(e) is Positions or type(e) is Flag:
            return False
        axis += type(e) in _ALONG_AXIS
    return not moves or not (fills or strided)


def _changes(shape, entries) -> bool:
    axis = 0
    for e in entries:
        if type(e) is Slice:
            if e.step != 1 or e.reverse or e.size != shape[axis]:
                return True
            axis += 1
        elif e is not GAP:
            return True
    return False


# ---------------------------------------------------------------------------------------------------
# Compiled programs


def split(entries: list[Entry], shape) -> tuple[tuple[Entry, ...], list[Any]]:
    """Splits entries into a hashable skeleton and the positions, operands of a compiled program.

    In the skeleton, None stands for positions.
    """
    skeleton: list[Entry] = []
    leaves: list[Any] = []
    axis = 0
    for e in entries:
        t = type(e)
        if t is Position:
            i = e.index
            if type(i) is not int:
                skeleton.append(Position(None, e.wrap))
            elif 0 <= i < shape[axis]:
                skeleton.append(_INSIDE)
            else:  # the mode decides what an out-of-bounds index gives
                skeleton.append(_ANYWHERE)
                i = min(max(i, -1), shape[axis])
            leaves.append(i)
            axis += 1
        elif t is Slice:
            if e.inside and (e.size == 0 or (e.step == 1 and e.size == shape[axis])):
                skeleton.append(e)
            else:
                start, size, step, _, reverse, inside, wrap = e
                if not inside and type(start) is int:  # starts beyond either end are equivalent
                    start = min(max(start, -(shape[axis] + e.span + 1)), shape[axis])
                skeleton.append(Slice(None, size, step, None, reverse, inside, wrap))
                leaves.append(start)
            axis += 1
        elif t is Positions:
            skeleton.append(Positions(None, e.wrap))
            leaves.append(e.array)
            axis += 1
        else:
            skeleton.append(e)
    return tuple(skeleton), leaves


_INSIDE, _ANYWHERE = Position(None, False, True), Position(None)


def join(skeleton: tuple[Entry, ...], leaves) -> list[Entry]:
    """Puts positions back into a skeleton; the inverse of `split`."""
    leaves = iter(leaves)
    return [
        e._replace(**{e._fields[0]: next(leaves)}) if type(e) in _ALONG_AXIS and e[0] is None else e
        for e in skeleton
    ]


def _take_of(key: Any) -> Callable:
    skeleton, flags = key

    def take(x, *leaves):
        return take_entries(x, join(skeleton, leaves), *flags)

    return take


_programs = Programs(_take_of)  # by skeleton and flags


@inline_jit
def _take_row(x, i):
    return take_slice(x, [Position(i, False, True), *map(whole, x.shape[1:])])


def _row_of_one_device(x: ArrayImpl, i: int) -> Any:
    """`x[i]` if the rows are divided over a mesh of one axis, as by `pmap`; else None.

    The device that has the row sends it to the others. A program would gather all rows, and many
    of them in a row, as for a tree of parameters, make the CPU client run out of threads.
    """
    sharding = x._sharding
    mesh, spec = sharding.mesh, sharding.spec
    entries = spec.partitions
    if (
        len(mesh.axis_names) != 1
        or mesh.size == 1
        or not entries
        or entries[0] != mesh.axis_names[0]
        or any(entries[1:])
        or spec.unreduced
        or spec.reduced
        or sharding.memory_kind not in (None, sharding._internal_device_list.default_memory_kind)
        or not mesh.are_all_axes_auto
        or x.weak_type
        or x.is_deleted()
        or not x.is_fully_addressable
    ):
        return None
    rows = x.shape[0] // mesh.size
    with without_mesh():
        row = _take_row(x._arrays[i // rows], i % rows)
    replicated = NamedSharding(mesh, PartitionSpec(), memory_kind=sharding.memory_kind)
    with config.transfer_guard_device_to_device("allow"):
        return device_put(row, replicated)


def _take_rows_of(size: int) -> Callable:
    def take(x, start):
        return take_slice(x, [Slice(start, size), *map(whole, x.shape[1:])])

    return take


_row_programs = Programs(_take_rows_of)  # by the length of a slice; its start is an operand


@inline_jit
def _take_at(x, i):
    wrap = dtypes.issubdtype(i.dtype, np.signedinteger)
    entry = Positions(i, wrap) if i.ndim else Position(i, wrap)
    entries = [entry, *map(whole, x.shape[1:])]
    return take_entries(x, entries, _PROMISE, None, False, False)
