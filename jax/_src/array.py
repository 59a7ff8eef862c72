"""Making arrays from shards, and iterating over arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import basearray, config, core, dtypes, tree_util, xla_bridge as xb
from jax._src.abstract_arrays import is_masked_array
from jax._src.array_impl import (
    ArrayImpl as ArrayImpl,
    Shard as Shard,
    _reconstruct_array as _reconstruct_array,
    array_from_numpy as array_from_numpy,
    aval_with_sharding as aval_with_sharding,
    check_shards,
    default_device as default_device,
    default_sharding as default_sharding,
    device_sharding,
)
from jax._src.device_put import values as placing
from jax._src.device_put.functions import device_put, over_context_mesh
from jax._src.dlpack import to_dlpack as to_dlpack  # and the protocol's methods on arrays
from jax._src.late_binding import late
from jax._src.layout import AutoLayout, Format, Layout
from jax._src.lib import Device, _jax
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding
from jax._src.sharding_impls import (
    SingleDeviceSharding,
    local_to_global_shape,
    num_addressable_indices,
)
from jax._src.util import register_cache

Shape = tuple[int, ...]
Index = tuple[slice, ...]

_asarray = np.asarray
ShapedArray = core.ShapedArray


def make_array_from_callback(
    shape: Shape,
    sharding: Sharding | Format,
    data_callback: Callable[[Index], Any],
    dtype: Any = None,
) -> ArrayImpl:
    """Makes an array from a function that returns the data of each shard.

    Args:
      shape: the shape of the array.
      sharding: a :class:`jax.sharding.Sharding`, or a `Format` to ask for a layout as well.
      data_callback: called for each device of this process with the slices of the array that the
        device holds; returns the data of that part, as an array. It is called only once if all
        devices hold the same part.
      dtype: the dtype of the data, needed only if no device belongs to this process.

    Returns:
      A committed array.

    Raises:
      TypeError: `sharding` is not a sharding.
      ValueError: the callback returns data of a wrong shape or dtype.

    Example:
      >>> mesh = jax.make_mesh((1,), ('x',))
      >>> sharding = jax.NamedSharding(mesh, jax.P('x'))
      >>> data = np.arange(8).reshape(4, 2)
      >>> jax.make_array_from_callback((4, 2), sharding, lambda index: data[index]).shape
      (4, 2)
    """
    fun_name = "make_array_from_callback"
    sharding, layout = _split_format(sharding, "jax." + fun_name)
    shape = core.canonicalize_shape(shape)
    indices = sharding.addressable_devices_indices_map(shape)
    if sharding.is_fully_replicated and indices:
        shards = [_as_shard(data_callback(next(iter(indices.values()))), fun_name)] * len(indices)
    else:
        shards = [_as_shard(data_callback(index), fun_name) for index in indices.values()]
    dtype = _shared_dtype(shards, dtype, fun_name)
    aval = _array_aval(shape, dtype, sharding)
    check_shards(shards, sharding, aval)
    if isinstance(dtype, dtypes.ExtendedDType):
        arrays = [device_put(s, d) for s, d in zip(shards, indices)]
        make = dtypes.extended_rule(dtype, "make_sharded_array")
        return make(aval, sharding, arrays, committed=True)
    if layout is not None:
        arrays = [
            device_put(s, Format(layout, device_sharding(d))) for s, d in zip(shards, indices)
        ]
        return _jax.ArrayImpl(aval, sharding, arrays, committed=True, _skip_checks=True)
    if not shards:
        return _jax.ArrayImpl(aval, sharding, [], committed=True, _skip_checks=True)
    devices = list(indices)
    if any(isinstance(s, ArrayImpl) for s in shards):
        shards = [
            device_put(s, d) if isinstance(s, ArrayImpl) else s for s, d in zip(shards, devices)
        ]
    return placing.put_copies(aval, sharding, shards, devices)


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """Makes arrays from the part of the data that this process holds.

    Args:
      sharding: a :class:`jax.sharding.Sharding`, a :class:`jax.P` over the mesh of `jax.set_mesh`,
        or a tree prefix of `local_data` with these as leaves.
      local_data: a pytree of arrays: the part that this process holds, or the whole data.
      global_shape: the shape of the whole array, or a tree of shapes. If None, it is derived from
        the sharding: sizes of dimensions that are split over processes are multiplied accordingly.

    Returns:
      A pytree of committed arrays.

    Raises:
      ValueError: the local shape matches neither the global shape nor this process's part of it.

    Example:
      >>> sharding = jax.NamedSharding(jax.make_mesh((1,), ('batch',)), jax.P('batch'))
      >>> jax.make_array_from_process_local_data(sharding, np.ones((2, 3))).shape
      (2, 3)
    """
    leaves, treedef = tree_util.tree_flatten(local_data)
    if isinstance(sharding, (Sharding, Device, Format)):
        shardings = [sharding] * len(leaves)
    else:
        shardings = tree_util.broadcast_prefix(
            sharding, local_data, is_leaf=lambda s: isinstance(s, (Sharding, Device, Format))
        )
    if global_shape is None or _is_shape(global_shape):
        shapes = [global_shape] * len(leaves)
    else:
        shapes = tree_util.broadcast_prefix(
            global_shape, local_data, is_leaf=lambda s: s is None or _is_shape(s)
        )
    out = [_from_local_data(x, s, shape) for x, s, shape in zip(leaves, shardings, shapes)]
    return treedef.unflatten(out)


def _is_shape(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and all(
        d is None or isinstance(d, (int, np.integer)) for d in x
    )


def _from_local_data(data: Any, sharding: Any, global_shape: Any) -> ArrayImpl:
    fun_name = "make_array_from_process_local_data"
    if isinstance(sharding, Device):
        sharding = device_sharding(sharding)
    elif isinstance(sharding, PartitionSpec):
        sharding = over_context_mesh(sharding, fun_name)
    target = sharding
    sharding, _ = _split_format(sharding, "jax." + fun_name)
    if xb.process_count() == 1:
        local_shape = core.typeof(data).shape
        if global_shape is not None and tuple(global_shape) != local_shape:
            raise ValueError(
                f"When calling `{fun_name}` on a single process, global_shape should be None or equal"
                f" to local_data.shape. Got {global_shape=} and local_data.shape={local_shape}."
            )
        return device_put(data, target, may_alias=False)
    data = _as_shard(data, fun_name)
    local_shape = data.shape
    if global_shape is None:
        global_shape = local_to_global_shape(sharding, local_shape)
        if None in global_shape:
            raise ValueError(
                f"Unable to compute global_shape due to non-uniform sharding: {sharding} of local shape"
                f" {local_shape} gives {global_shape}. Specify the global shape directly."
            )
    elif None in global_shape:
        raise ValueError(f"{global_shape=} has Nones. This is not supported.")
    global_shape = tuple(global_shape)
    if len(global_shape) != len(local_shape):
        raise ValueError(
            f"The local data and the global shape must have the same rank. Got {local_shape=} and"
            f" {global_shape=}."
        )
    index_map = sharding.addressable_devices_indices_map(global_shape)
    # Per dimension: where the parts are in the local data if it is only this process's share, else
    # 0.
    offsets = []
    for dim, (size, local_size) in enumerate(zip(global_shape, local_shape)):
        if size == local_size:
            offsets.append(0)
            continue
        held = num_addressable_indices(sharding, dim, global_shape)
        if held != local_size:
            raise ValueError(
                "Invalid host data, each dimension should match either global or process shape. In"
                f" dimension {dim}, the process data has {local_size} elements. Process addresses {held}"
                f" elements and {global_shape=}."
            )
        offsets.append(_local_offsets([index[dim].indices(size) for index in index_map.values()]))

    def part(index: Index) -> Any:
        local = tuple(
            slice(*s.indices(size)[:2]) if not offset else offset[s.indices(size)[:2]]
            for s, size, offset in zip(index, global_shape, offsets)
        )
        return data[local]

    return make_array_from_callback(global_shape, target, part, data.dtype)


def _local_offsets(parts: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], slice]:
    """Maps each part of a dimension that this process holds to its position in the local data."""
    out = {}
    start = 0
    for lo, hi in sorted({part[:2] for part in parts}):
        out[lo, hi] = slice(start, start + hi - lo)
        start += hi - lo
    return out


def make_array_from_single_device_arrays(
    shape: Shape, sharding: Sharding, arrays: Sequence[Any], *, dtype: Any = None
) -> ArrayImpl:
    """Makes an array from shards that are already on their devices.

    Args:
      shape: the shape of the array.
      sharding: how it is laid out.
      arrays: a list or tuple of single-device arrays, one for each device of the sharding that
        belongs to this process, in any order. The result uses their buffers.
      dtype: the type of the elements, needed only if no device belongs to this process.

    Returns:
      A committed array.

    Raises:
      TypeError: `arrays` is not a list or tuple of arrays.
      ValueError: the number, devices, shapes or dtypes of the arrays do not match the arguments.

    Example:
      >>> sharding = jax.NamedSharding(jax.make_mesh((1,), ('x',)), jax.P('x'))
      >>> rows = [jax.device_put(np.ones((2, 3)), d) for d in sharding.device_set]
      >>> jax.make_array_from_single_device_arrays((2, 3), sharding, rows).sharding.spec
      P('x',)
    """
    fun_name = "make_array_from_single_device_arrays"
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(
            f"jax.{fun_name} `arrays` argument must be a list or tuple, but got {type(arrays)}."
        )
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"jax.{fun_name} `sharding` argument must be a jax.sharding.Sharding, but got"
            f" {sharding} of type {type(sharding)}."
        )
    for a in arrays:
        if isinstance(a, core.Tracer):
            raise ValueError(f"jax.{fun_name} requires a list of concrete arrays, but got {a}")
        if not isinstance(a, basearray.Array):
            raise TypeError(f"Unsupported type for elements in `arrays`: {type(a)}")
    shape = core.canonicalize_shape(shape)
    dtype = _shared_dtype(arrays, dtype, fun_name)
    aval = _array_aval(shape, dtype, sharding)
    if isinstance(dtype, dtypes.ExtendedDType):
        make = dtypes.extended_rule(dtype, "make_sharded_array")
        return make(aval, sharding, arrays, committed=True)
    return _jax.ArrayImpl(aval, sharding, list(arrays), committed=True)


def _array_aval(shape: Shape, dtype: Any, sharding: Sharding) -> Any:
    return aval_with_sharding(ShapedArray(shape, dtype), sharding)


def _shared_dtype(shards: Sequence[Any], dtype: Any, fun_name: str) -> Any:
    """The common dtype of this process's shards; checked against `dtype` if that is given."""
    if dtype is not None and not isinstance(dtype, dtypes.ExtendedDType):
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, fun_name)
    if not shards:
        if dtype is None:
            raise ValueError(
                "If the Array has no addressable shards, `dtype` must be provided via the `dtype`"
                f" argument to `jax.{fun_name}`."
            )
        return dtype
    found = shards[0].dtype
    if dtype is not None and dtype != found:
        raise ValueError(
            f"If `dtype` is provided to `jax.{fun_name}`, it must match the dtype of the addressable"
            f" shards. Got dtype={dtype} and shard dtype={found}."
        )
    return found


def _split_format(sharding: Any, fun_name: str) -> tuple[Sharding, Layout | None]:
    layout = None
    if isinstance(sharding, Format):
        layout, sharding = sharding.layout, sharding.sharding
        if layout is AutoLayout:
            raise TypeError(
                f"`Layout.AUTO` cannot be used in place of a device-local layout when calling `{fun_name}`."
            )
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"sharding should be an instance of `jax.sharding`. Got {sharding} of type {type(sharding)}"
        )
    return sharding, layout


def _as_shard(value: Any, fun_name: str) -> Any:
    """The result of a callback as a single-device or NumPy array of a canonical dtype."""
    if isinstance(value, core.Tracer):
        raise core.UnexpectedTracerError(
            f"`{fun_name}` cannot be used with callbacks that return traced values: got {value}."
        )
    if isinstance(value, ArrayImpl):
        return value if type(value._sharding) is SingleDeviceSharding else value._value
    if is_masked_array(value) or not isinstance(value, basearray.Array):
        value = dtypes.canonicalize_value(value) if value is not None else None
        if value is None:
            raise TypeError(f"The callback of `{fun_name}` returned None in place of an array.")
        return _asarray(value, dtype=core.typeof(value).dtype)
    return value


# Iteration

_ROWS_AT_ONCE = 100


def _iter(self: ArrayImpl) -> Iterator[Any]:
    """Iterates over the array's slices along its first dimension."""
    shape = self.aval.shape
    if not shape:
        raise TypeError("iteration over a 0-d array")
    self._check_if_deleted()
    if self.is_fully_replicated:
        return _rows(self, shape[0])
    if self.is_fully_addressable:
        # On one device a single program returns many rows; on several, each row would be gathered.
        aval = self.aval
        with config.explicit_device_put_scope():  # guards do not take that for a mistake
            whole = array_from_numpy(self._value, aval.dtype, aval.weak_type)
        return _rows(whole, shape[0])
    return (self[i] for i in range(shape[0]))


def _rows(x: ArrayImpl, count: int) -> Iterator[Any]:
    if count <= _ROWS_AT_ONCE:
        yield from _unstack_program(count)(x)
        return
    for start in range(0, count, _ROWS_AT_ONCE):
        rows = min(_ROWS_AT_ONCE, count - start)
        # Two programs: in a single one, each row would compute the start index again.
        yield from _unstack_program(rows)(_rows_at_program(rows)(x, np.int32(start)))


@functools.cache
def _unstack_program(count: int) -> Callable:
    def unstack(x):
        return [late.index_in_dim(x, i, 0) for i in range(count)]

    return late.compile_eager(unstack, "unstack")


@functools.cache
def _rows_at_program(count: int) -> Callable:
    def rows_at(x, start):
        return late.dynamic_slice_in_dim(x, start, count, 0)

    return late.compile_eager(rows_at, "rows_at")


register_cache(_unstack_program, "iteration")
register_cache(_rows_at_program, "iteration")
ArrayImpl.__iter__ = _iter
