"""Placement of concrete values on devices, or in shardings, memory spaces and formats."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes, literals, sharding_impls
from jax._src.abstract_arrays import array_types
from jax._src.array_impl import (
    ArrayImpl,
    aval_with_sharding,
    default_sharding,
    device_sharding,
)
from jax._src.compiler import is_compile_only
from jax._src.core import Tracer, typeof
from jax._src.late_binding import late
from jax._src.layout import AutoLayout, Format
from jax._src.lib import Device, _jax, array_result_handler
from jax._src.memory import KIND_OF_SPACE, SPACE_OF_KIND, MemorySpace
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.op_shardings import are_hlo_shardings_equal
from jax._src.sharding import IndivisibleError, Sharding
from jax._src.sharding_impls import GSPMDSharding, SingleDeviceSharding
from jax._src.util import register_cache

ArrayCopySemantics = _jax.ArrayCopySemantics
REUSE = ArrayCopySemantics.REUSE_INPUT
ALWAYS_COPY = ArrayCopySemantics.ALWAYS_COPY
DONATE = ArrayCopySemantics.DONATE_INPUT

_batched_device_put = _jax.batched_device_put
_COPY_DURING_CALL = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL

_HOST_TYPES = frozenset({*array_types, bool, int, float, complex, *literals.typed_scalar_types})

# Placement of values of other classes, such as keys: `handler(x, target, copy)`.
device_put_handlers: dict[type, Callable[[Any, Any, ArrayCopySemantics], Any]] = {}


def device_put_value(x: Any, target: Any, copy: ArrayCopySemantics) -> Any:
    """Place a concrete value on a device, or in a sharding, memory space or format, as an array.

    Args:
      x: an array, a NumPy array or a scalar.
      target: a `Device`, `Sharding`, `MemorySpace` or `Format`; None leaves an array where it is
        and puts other values on the default device.
      copy: whether the result may share the buffers of `x`, must not share them, or donates them.
    """
    if type(x) is ArrayImpl:
        if x.is_deleted():
            x._check_if_deleted()
        if target is None:
            return _copy(x) if copy is ALWAYS_COPY else x
        if isinstance(target, Device):
            _check_addressable(x)
            return _move(x, device_sharding(target), copy)
        if isinstance(target, Sharding):
            return _move(x, target, copy)
    handler = device_put_handlers.get(type(x))
    if handler is not None:
        return handler(x, target, copy)
    if isinstance(x, Tracer):
        core.check_eval_args((x,))
    aval = typeof(x)
    if type(x) not in _HOST_TYPES and type(x) is not ArrayImpl:
        if not isinstance(x, (np.ndarray, np.generic, int, float, complex)):
            raise TypeError(
                f"device_put: {x} of type {type(x)} is not a valid JAX type with a value."
            )
        x = np.asarray(x, aval.dtype)  # an instance of a subclass of a known class
    if aval.dtype == dtypes.float0:
        return x
    if isinstance(target, Format):
        return _put_format(x, aval, target, copy)
    if isinstance(target, MemorySpace):
        kind = memory_space_to_kind(target)
        if type(x) is ArrayImpl:
            return _move(x, x._sharding.with_memory_kind(kind), copy)
        sharding = default_sharding()
        return _from_host(
            x, aval, sharding if kind == "device" else sharding.with_memory_kind(kind), copy
        )
    if target is None:
        sharding = default_sharding()
        if not sharding.is_fully_addressable:
            return _elsewhere(aval, sharding, committed=False)
        return _batched_device_put(
            aval, sharding, [x], [sharding._device], False, copy is ALWAYS_COPY
        )
    return _from_host(
        x, aval, device_sharding(target) if isinstance(target, Device) else target, copy
    )


late.device_put_value = device_put_value


def _from_host(x: Any, aval: Any, sharding: Sharding, copy: ArrayCopySemantics) -> ArrayImpl:
    """A committed array from a NumPy array or a scalar."""
    force = copy is ALWAYS_COPY
    if type(sharding) is SingleDeviceSharding:
        device = sharding._device
        if sharding._memory_kind != "device":
            aval = aval_with_sharding(aval, sharding)
        if not sharding.is_fully_addressable:
            return _elsewhere(aval, sharding, committed=True)
        try:
            return _batched_device_put(aval, sharding, [x], [device], True, force)
        except _jax.JaxRuntimeError as err:
            raise _explained(err, sharding) from None
    check_sharding(aval, sharding)
    x = np.asarray(x)
    indices = sharding.addressable_devices_indices_map(x.shape)
    aval = aval_with_sharding(aval, sharding)
    if not indices:
        return _elsewhere(aval, sharding, committed=True)
    if sharding.is_fully_replicated:
        shards = [x] * len(indices)
    else:
        shards = [x[index] for index in indices.values()]
    if force:
        return put_copies(aval, sharding, shards, list(indices))
    try:
        return _batched_device_put(aval, sharding, shards, list(indices), True)
    except _jax.JaxRuntimeError as err:
        raise _explained(err, sharding) from None


def _elsewhere(aval: Any, sharding: Sharding, committed: bool) -> ArrayImpl:
    """An array whose devices all belong to other processes, which put their data there themselves."""
    return ArrayImpl(aval, sharding, [], committed=committed, _skip_checks=True)


def _explained(err: Exception, sharding: Sharding) -> Exception:
    """The error of the runtime; if the devices are absent, another one that says so."""
    if not is_compile_only(next(iter(sharding.device_set)).client):
        return err
    return _jax.JaxRuntimeError(
        f"device_put: the devices of {sharding} are absent (they belong to a topology description, see"
        " jax.experimental.topologies) and hold no data. Describe arrays there by jax.ShapeDtypeStruct."
    )


def put_copies(
    aval: core.ShapedArray, sharding: Sharding, shards: list[Any], devices: list[Device]
) -> ArrayImpl:
    """A committed array of copies of `shards`, which may be modified as soon as this returns.

    Shards are NumPy arrays, or arrays that are already on their devices.
    """
    hosted = [x.__array_interface__["data"][0] for x in shards if isinstance(x, np.ndarray)]
    if len(set(hosted)) < len(hosted):
        # The runtime fails if a single call copies the same memory twice.
        shards = [np.array(x) if isinstance(x, np.ndarray) else x for x in shards]
        return _batched_device_put(aval, sharding, shards, devices, True)
    return _batched_device_put(aval, sharding, shards, devices, True, False, _COPY_DURING_CALL)


def check_sharding(aval: Any, sharding: Sharding) -> None:
    """Raise ValueError if `sharding` cannot lay out values of type `aval`."""
    try:
        sharding.check_compatible_aval(aval.shape)
    except ValueError as err:
        raise ValueError(
            f"One of device_put args is incompatible with its sharding annotation {sharding}: {err}"
        ) from None
    try:
        sharding.shard_shape(aval.shape)  # the error names the dimension that is not divisible
    except IndivisibleError:
        # An error of the type takes precedence.
        aval_with_sharding(aval.update(sharding=None), sharding)
        raise


def _check_addressable(x: ArrayImpl) -> None:
    sharding = x._sharding
    if type(sharding) is not SingleDeviceSharding and not sharding.is_fully_addressable:
        raise ValueError(
            "When the second argument to `device_put` is a Device, the first argument must be a fully"
            " addressable array or a non-addressable array with a single device sharding. Got value"
            f" with devices {x.devices()}; put it on a sharding that spans the processes."
        )


def _copy(x: ArrayImpl) -> ArrayImpl:
    """A copy of an array in new buffers."""
    sharding = x._sharding
    if sharding.is_fully_addressable:
        return _jax.batched_copy_array_to_devices_with_sharding(
            [x], [sharding._internal_device_list], [sharding], [ALWAYS_COPY]
        )[0]
    shards = x._arrays
    if not shards:
        return x
    devices = [a._sharding._device for a in shards]
    return _batched_device_put(x.aval, sharding, shards, devices, x._committed, True)


def _commit(x: ArrayImpl, aval: Any, sharding: Sharding) -> ArrayImpl:
    """A committed array with the same buffers."""
    return array_result_handler(aval, sharding, True)(x)


def _move(x: ArrayImpl, sharding: Sharding, copy: ArrayCopySemantics) -> ArrayImpl:
    """A committed array with the elements of `x`, laid out according to `sharding`."""
    source = x._sharding
    aval = x.aval
    if type(sharding) is SingleDeviceSharding and type(source) is SingleDeviceSharding:
        if aval._sharding is not None:
            aval = aval.update(sharding=None)
        if source._memory_kind != sharding._memory_kind:
            aval = aval_with_sharding(aval, sharding)
        if source == sharding:
            if copy is ALWAYS_COPY:
                x = _copy(x)
            return x if x._committed else _commit(x, aval, sharding)
        if not (sharding.is_fully_addressable and source.is_fully_addressable):
            if source.is_fully_addressable and not x._committed:  # every process has the value
                return _elsewhere(aval, sharding, committed=True)
            return _commit(_send(x, sharding, copy), aval, sharding)
        if source._memory_kind == sharding._memory_kind and copy is not DONATE:
            return _batched_device_put(aval, sharding, [x], [sharding._device], True)
        return _commit(_send(x, sharding, copy), aval, sharding)
    check_sharding(aval, sharding)
    aval = aval_with_sharding(aval.update(sharding=None), sharding)
    if source == sharding:
        if copy is ALWAYS_COPY:
            x = _copy(x)
        return x if x._committed and x.aval is aval else _commit(x, aval, sharding)
    if source.is_fully_addressable and sharding.is_fully_addressable:
        return _move_here(x, aval, sharding, copy)
    return _move_between_processes(x, aval, sharding, copy)


def _move_here(x: ArrayImpl, aval: Any, sharding: Sharding, copy: ArrayCopySemantics) -> ArrayImpl:
    """`_move` if all devices belong to this process."""
    source = x._sharding
    if _same_parts(source, sharding, len(aval.shape)):
        return _commit(_send(x, sharding, copy), aval, sharding)
    parts = _matching_shards(x, sharding)
    if parts is None:
        if _is_accelerator(x) and source._internal_device_list == sharding._internal_device_list:
            return identity_program(sharding, (0,) if copy is DONATE else ())(x)
        parts = _slices(x, sharding)
    devices = list(sharding._device_assignment)
    if copy is ALWAYS_COPY and isinstance(parts[0], np.ndarray):
        return put_copies(aval, sharding, parts, devices)
    return _batched_device_put(aval, sharding, parts, devices, True, copy is ALWAYS_COPY)


def _move_between_processes(
    x: ArrayImpl, aval: Any, sharding: Sharding, copy: ArrayCopySemantics
) -> ArrayImpl:
    """`_move` if some devices belong to other processes, which all have to call it."""
    source = x._sharding
    if source.is_fully_addressable:  # every process has the value
        return _from_host(x._value, aval, sharding, copy)
    donated = (0,) if copy is DONATE else ()
    if source._internal_device_list == sharding._internal_device_list:
        return identity_program(sharding, donated)(x)
    devices = source._device_assignment
    if set(devices) == sharding.device_set:
        y = identity_program(_in_order_of(devices, sharding, len(aval.shape)), donated)(x)
        return _commit(_jax.reorder_shards(y, sharding, REUSE), aval, sharding)
    if len(devices) != sharding.num_devices:
        raise ValueError(
            f"device_put cannot move an array from {len(devices)} devices to {sharding.num_devices}"
            f" devices where some belong to other processes: got an array with sharding {source} for"
            f" {sharding}."
        )
    if not _same_parts(source, sharding, len(aval.shape)):
        hlo_sharding = sharding._to_xla_hlo_sharding(len(aval.shape))
        between = GSPMDSharding(devices, hlo_sharding, memory_kind=source.memory_kind)
        x, copy = identity_program(between, donated)(x), DONATE
    return _commit(_send(x, sharding, copy), aval, sharding)


def _in_order_of(devices: Sequence[Device], sharding: Sharding, ndim: int) -> Sharding:
    """An equivalent sharding for programs that number the devices in the order of `devices`."""
    position = {d: i for i, d in enumerate(devices)}
    ids = [position[d] for d in sharding._device_assignment]
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh
        mesh = Mesh(np.array(devices).reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)
        return NamedSharding(
            mesh, sharding.spec, memory_kind=sharding.memory_kind, _logical_device_ids=tuple(ids)
        )
    hlo_sharding = sharding._to_xla_hlo_sharding(ndim)
    if not hlo_sharding.is_replicated():
        proto = hlo_sharding.to_proto()
        proto.tile_assignment_devices = [ids[i] for i in hlo_sharding.tile_assignment_devices()]
        proto.iota_reshape_dims, proto.iota_transpose_perm = [], []
        hlo_sharding = type(hlo_sharding).from_proto(proto)
    return GSPMDSharding(devices, hlo_sharding, memory_kind=sharding.memory_kind)


def _send(x: ArrayImpl, sharding: Sharding, copy: ArrayCopySemantics) -> ArrayImpl:
    """Copy each shard of `x` to the device at the same position in `sharding`."""
    return _jax.batched_copy_array_to_devices_with_sharding(
        [x], [sharding._internal_device_list], [sharding], [copy]
    )[0]


def _same_parts(s1: Sharding, s2: Sharding, ndim: int) -> bool:
    """Whether devices at the same position hold the same part of an array."""
    return s1.num_devices == s2.num_devices and are_hlo_shardings_equal(
        s1._to_xla_hlo_sharding(ndim), s2._to_xla_hlo_sharding(ndim)
    )


def _is_accelerator(x: ArrayImpl) -> bool:
    return next(iter(x._sharding.device_set)).platform != "cpu"


def _matching_shards(x: ArrayImpl, sharding: Sharding) -> list[ArrayImpl] | None:
    """For each device of `sharding` a shard of `x` with its part; None if some part has none."""
    shape = x.aval.shape
    have: dict[int, dict[Device, ArrayImpl]] = {}
    source_indices = x._sharding.devices_indices_map(shape)
    for a in x._arrays:
        device = a._sharding._device
        key = sharding_impls.hashed_index(_full_index(source_indices[device], shape))
        have.setdefault(key, {})[device] = a
    out = []
    for device, index in sharding.devices_indices_map(shape).items():
        shards = have.get(sharding_impls.hashed_index(_full_index(index, shape)))
        if shards is None:
            return None
        out.append(shards[device] if device in shards else next(iter(shards.values())))
    return out


def _full_index(index: Any, shape: Any) -> tuple[slice, ...]:
    return tuple(slice(*s.indices(n)) for s, n in zip(index, shape))


def _slices(x: ArrayImpl, sharding: Sharding) -> list[Any]:
    """The part of `x` for each device of `sharding`, sliced on the device or on the host."""
    shape = x.aval.shape
    indices = [_full_index(i, shape) for i in sharding.devices_indices_map(shape).values()]
    # Where memory is the host's it is faster to slice there, but a guard has to see the transfers.
    on_device = _is_accelerator(x) or config.transfers_are_guarded()
    if type(x._sharding) is SingleDeviceSharding and on_device:
        bounds = [(tuple(s.start for s in i), tuple(s.stop for s in i)) for i in indices]
        different = tuple(dict.fromkeys(bounds))
        pieces = dict(zip(different, _multi_slice_jit(different)(x)))
        return [pieces[b] for b in bounds]
    value = x._value
    return [value[i] for i in indices]


@functools.lru_cache(maxsize=512)
def _multi_slice_jit(bounds: tuple[tuple[Any, Any], ...]) -> Callable:
    def multi_slice(x):
        return [late.slice(x, start, stop) for start, stop in bounds]

    return late.compile_eager(multi_slice, "multi_slice")


@functools.lru_cache(maxsize=512)
def identity_program(out: Any, donate_argnums: tuple[int, ...]) -> Callable:
    """A compiled program that lays out its argument according to `out`."""
    return late.compile_eager(
        lambda x: x, "device_put", out_shardings=out, donate_argnums=donate_argnums
    )


register_cache(_multi_slice_jit, "device_put slices")
register_cache(identity_program, "device_put programs")


def _put_format(x: Any, aval: Any, target: Format, copy: ArrayCopySemantics) -> Any:
    layout, sharding = target.layout, target.sharding
    if layout is AutoLayout:
        raise ValueError(
            "sharding and layout in `Format` passed to device_put should be concrete. Got"
            f" {target} for input {aval.str_short()}"
        )
    if layout is None:
        return device_put_value(x, sharding, copy)
    if not isinstance(sharding, Sharding):
        raise ValueError(
            f"device_put needs a sharding with a layout: got {target} for input {aval.str_short()}."
            " Pass a NamedSharding or SingleDeviceSharding to `Format`."
        )
    try:
        layout.check_compatible_aval(aval.shape)
    except ValueError as err:
        raise ValueError(
            f"One of device_put args is incompatible with its layout annotation {layout}: {err}"
        ) from None
    if type(x) is ArrayImpl and x._committed and copy is not ALWAYS_COPY and x.format == target:
        return x
    x = device_put_value(x, sharding, REUSE)
    return identity_program(target, (0,) if copy is DONATE else ())(x)


# Memory spaces


def memory_space_to_kind(space: MemorySpace) -> str:
    """The name that devices use for a memory space."""
    kind = KIND_OF_SPACE.get(space)
    if kind is None:
        raise ValueError(
            f"device_put cannot place a value in {space}: use Space.Device or Space.Host."
        )
    return kind


def memory_kind_to_space(kind: str) -> MemorySpace:
    """The memory space for a device's name of a kind of memory."""
    space = SPACE_OF_KIND.get(kind)
    if space is None:
        raise ValueError(f"unknown memory kind {kind!r}: expected one of {sorted(SPACE_OF_KIND)}")
    return space
