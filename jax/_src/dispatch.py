"""Running primitives eagerly, placing values on devices, and what belongs to every execution.

`apply_primitive` is the default `impl` of primitives: one compiled program for each primitive and its
parameters. `device_put_p` moves values. Below them: tokens that order effects, checks for NaNs, logs.
"""

from __future__ import annotations

import atexit
import functools
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, config, core, dtypes, literals, sharding_impls
from jax._src.abstract_arrays import array_types
from jax._src.array_impl import (
    ArrayImpl,
    array_from_numpy,
    aval_with_sharding,
    default_sharding,
    device_sharding,
)
from jax._src.compiler import (
    BACKEND_COMPILE_EVENT as BACKEND_COMPILE_EVENT,
    JAXPR_TO_MLIR_MODULE_EVENT as JAXPR_TO_MLIR_MODULE_EVENT,
    JAXPR_TRACE_EVENT as JAXPR_TRACE_EVENT,
    log_elapsed_time as log_elapsed_time,
)
from jax._src.core import Primitive, ShapedArray, Tracer, eval_trace, trace_ctx, typeof
from jax._src.interpreters import ad, mlir, pxla
from jax._src.late_binding import late
from jax._src.layout import AutoLayout, Format, Layout, get_layout_for_vmap
from jax._src.lib import Device, DeviceList, _jax, array_result_handler
from jax._src.memory import SPACE_OF_KIND, MemorySpace
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.op_shardings import are_hlo_shardings_equal
from jax._src.sharding import Sharding
from jax._src.sharding_impls import GSPMDSharding, SingleDeviceSharding
from jax._src.util import register_cache

ArrayCopySemantics = _jax.ArrayCopySemantics
REUSE = ArrayCopySemantics.REUSE_INPUT
ALWAYS_COPY = ArrayCopySemantics.ALWAYS_COPY
DONATE = ArrayCopySemantics.DONATE_INPUT


# Primitives

_MAX_PROGRAMS = 4096  # of one primitive, with different parameters
_compiled_primitives: weakref.WeakSet[Primitive] = weakref.WeakSet()


def apply_primitive(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Compute the results of a primitive for concrete arguments, as a compiled program."""
    call = primitive.eager_program(params)
    if call is None:
        call = _compile_primitive(primitive, params)
    return call(*args)


def _compile_primitive(primitive: Primitive, params: dict[str, Any]) -> Callable:
    def run(*args):
        if (
            trace_ctx.trace is eval_trace
        ):  # with jax_disable_jit; a primitive is compiled all the same
            with config.disable_jit(False):
                return call(*args)
        return primitive.bind(*args, **params)

    run.__name__ = run.__qualname__ = primitive.name
    run._apply_primitive = True  # type: ignore[attr-defined]
    owner = next(iter(core.jaxprs_in_params(params)), None)
    if owner is not None:  # the program goes when the jaxpr goes
        key = (apply_primitive, primitive, tuple(params.items()))
        call = owner._cache.get(key)
        if call is None:
            run = api_util.with_own_traces(run)
            call = owner._cache[key] = late.compile_eager(run, primitive.name)
        return call
    call = late.compile_eager(run, primitive.name)
    cache = primitive.eager_cache
    if len(cache) >= _MAX_PROGRAMS:
        cache.pop(next(iter(cache)), None)
    cache[tuple(params.items())] = call
    _compiled_primitives.add(primitive)
    return call


class _EagerPrograms:
    @staticmethod
    def cache_clear() -> None:
        for primitive in list(_compiled_primitives):
            primitive.eager_cache.clear()
        _compiled_primitives.clear()


register_cache(_EagerPrograms, "eager primitives")

late.apply_primitive = apply_primitive


def xla_primitive_callable(primitive: Primitive, **params: Any) -> Callable:
    """The compiled program of a primitive with these parameters."""
    call = primitive.eager_program(params)
    return _compile_primitive(primitive, params) if call is None else call


def simple_impl(primitive: Primitive) -> None:
    """Let a primitive compute its results as a compiled program."""
    primitive.def_impl(functools.partial(apply_primitive, primitive))


# Tokens: what orders the effects of programs that run one after another


class RuntimeTokenSet(threading.local):
    """Of this thread: the newest token of each ordered effect, and of each device with others."""

    def __init__(self) -> None:
        self.current_tokens: dict[Any, core.Token] = {}
        self.output_runtime_tokens: dict[Device, Any] = {}

    def get_token_input(self, effect: Any, devices: Sequence[Device]) -> core.Token:
        """The token that the next program with the effect takes, on its devices."""
        token = self.current_tokens.get(effect)
        if token is None:
            return core.Token(_replicate(np.zeros((0,), np.bool_), devices))
        buf = token._buf
        if tuple(devices) != tuple(buf._sharding._device_assignment):
            token = core.Token(_replicate(buf, devices))
            self.current_tokens[effect] = token
        return token

    def set_token_result(self, effect: Any, token: core.Token) -> None:
        """Remember the token that a program with the effect has returned."""
        self.current_tokens[effect] = token

    def set_output_runtime_token(self, device: Device, token: Any) -> None:
        """Remember the token of a program with unordered effects."""
        self.output_runtime_tokens[device] = token

    def clear(self) -> None:
        self.current_tokens = {}
        self.output_runtime_tokens = {}

    def block_until_ready(self) -> None:
        """Wait for all programs with effects; raises the first error of theirs."""
        tokens = [*self.current_tokens.values(), *self.output_runtime_tokens.values()]
        self.clear()  # also where one has failed: later programs have nothing to do with it
        failure = None
        for token in tokens:
            try:
                token.block_until_ready()
            except Exception as err:
                failure = failure or err
        if failure is not None:
            raise failure


def _replicate(value: Any, devices: Sequence[Device]) -> ArrayImpl:
    if len(devices) == 1:
        return device_put_value(value, device_sharding(devices[0]), REUSE)
    return device_put_value(value, GSPMDSharding.get_replicated(tuple(devices)), REUSE)


runtime_tokens: RuntimeTokenSet = RuntimeTokenSet()


def wait_for_tokens() -> None:
    """Wait for all programs with effects."""
    runtime_tokens.block_until_ready()


@atexit.register
def _at_exit() -> None:
    wait_for_tokens()


# Logs

logger = logging.getLogger(__name__)

LogElapsedTimeContextManager = log_elapsed_time


def should_tuple_args(num_args: int, platform: str) -> bool:
    """Whether a program takes its arguments as one tuple: TPUs limit how many there can be."""
    return platform == "tpu" and num_args > 2000


def jaxpr_has_primitive(jaxpr: Any, prim_name: str) -> bool:
    """Whether a primitive of this name occurs in a jaxpr or inside its equations."""
    if any(prim_name in eqn.primitive.name for eqn in jaxpr.eqns):
        return True
    return any(jaxpr_has_primitive(sub, prim_name) for sub in core.subjaxprs(jaxpr))


# NaNs and infinities


class InternalFloatingPointError(Exception):
    """A result has a NaN or an infinity, where jax_debug_nans or jax_debug_infs looks for them."""

    def __init__(self, name: str, ty: str):
        super().__init__(name, ty)
        self.name = name
        self.ty = ty

    def __str__(self) -> str:
        return f"invalid value ({self.ty}) encountered in {self.name}"


def needs_check_special() -> bool:
    """Whether results are checked for NaNs or infinities."""
    return config.debug_nans.value or config.debug_infs.value


def check_special(name: str, bufs: Sequence[Any]) -> None:
    """Raise InternalFloatingPointError if a result of `name` has a NaN (or an infinity) in it."""
    if needs_check_special():
        for buf in bufs:
            check_special_array(name, buf)


def check_special_array(name: str, arr: Any) -> Any:
    """As `check_special` for one array, which is handed back."""
    dtype = getattr(arr, "dtype", None)
    if dtype is None or isinstance(dtype, dtypes.ExtendedDType):
        return arr
    if dtypes.issubdtype(dtype, np.inexact):
        shards = [s.data for s in arr.addressable_shards] if isinstance(arr, ArrayImpl) else [arr]
        for value in map(np.asarray, shards):
            if config.debug_nans.value and np.any(np.isnan(value)):
                raise InternalFloatingPointError(name, "nan")
            if config.debug_infs.value and np.any(np.isinf(value)):
                raise InternalFloatingPointError(name, "inf")
    return arr


# Placing concrete values

_batched_device_put = _jax.batched_device_put
_COPY_DURING_CALL = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL

_HOST_TYPES = frozenset({*array_types, bool, int, float, complex, *literals.typed_scalar_types})

# Values of other classes, such as keys: `handler(x, target, copy)` places one.
device_put_handlers: dict[type, Callable[[Any, Any, ArrayCopySemantics], Any]] = {}


def device_put_value(x: Any, target: Any, copy: ArrayCopySemantics) -> Any:
    """A concrete value as an array, on a device or in a sharding, memory space or format.

    Args:
      x: an array, a NumPy array or a scalar.
      target: a `Device`, `Sharding`, `MemorySpace` or `Format`; None for the default device, or
        where an array is already.
      copy: whether the result may share, must not share, or takes over the buffers of `x`.
    """
    if type(x) is ArrayImpl:
        if x.is_deleted():
            x._check_if_deleted()
        if target is None:
            return _copy(x) if copy is ALWAYS_COPY else x
        if isinstance(target, Device):
            _check_addressable(x, target)
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
        x = np.asarray(x, aval.dtype)  # of a class derived from a known one
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
        return _batched_device_put(
            aval, sharding, [x], [sharding._device], False, copy is ALWAYS_COPY
        )
    return _from_host(
        x, aval, device_sharding(target) if isinstance(target, Device) else target, copy
    )


late.device_put_value = device_put_value
late.runtime_tokens = runtime_tokens


def _from_host(x: Any, aval: Any, sharding: Sharding, copy: ArrayCopySemantics) -> ArrayImpl:
    """A committed array from a NumPy array or a scalar."""
    force = copy is ALWAYS_COPY
    if type(sharding) is SingleDeviceSharding:
        device = sharding._device
        if not sharding.is_fully_addressable:
            raise ValueError(
                f"device_put: {device} belongs to process {device.process_index}, but this is process"
                f" {device.client.process_index()}. Put data on a device of this process, or on a"
                " sharding that spans processes."
            )
        if sharding._memory_kind != "device":
            aval = aval_with_sharding(aval, sharding)
        return _batched_device_put(aval, sharding, [x], [device], True, force)
    check_sharding(aval, sharding)
    x = np.asarray(x)
    indices = sharding.addressable_devices_indices_map(x.shape)
    aval = aval_with_sharding(aval, sharding)
    if not indices:
        return ArrayImpl(aval, sharding, [], committed=True, _skip_checks=True)
    if sharding.is_fully_replicated:
        shards = [x] * len(indices)
    else:
        shards = [x[index] for index in indices.values()]
    if force:
        return put_copies(aval, sharding, shards, list(indices))
    return _batched_device_put(aval, sharding, shards, list(indices), True)


def put_copies(
    aval: core.ShapedArray, sharding: Sharding, shards: list[Any], devices: list[Device]
) -> ArrayImpl:
    """A committed array of copies of NumPy arrays (or of arrays on their devices), which may be changed as soon as this returns."""
    hosted = [x.__array_interface__["data"][0] for x in shards if isinstance(x, np.ndarray)]
    if len(set(hosted)) < len(hosted):
        # the runtime fails when it is to copy the same memory twice in one call
        shards = [np.array(x) if isinstance(x, np.ndarray) else x for x in shards]
        return _batched_device_put(aval, sharding, shards, devices, True)
    return _batched_device_put(aval, sharding, shards, devices, True, False, _COPY_DURING_CALL)


def check_sharding(aval: Any, sharding: Sharding) -> None:
    """Raise ValueError if values of type `aval` cannot be laid out as `sharding` says."""
    try:
        sharding.check_compatible_aval(aval.shape)
    except ValueError as err:
        raise ValueError(
            f"One of device_put args is incompatible with its sharding annotation {sharding}: {err}"
        ) from None
    sharding.shard_shape(aval.shape)  # explains which dimension does not divide


def _check_addressable(x: ArrayImpl, device: Device) -> None:
    sharding = x._sharding
    if type(sharding) is not SingleDeviceSharding and not sharding.is_fully_addressable:
        raise ValueError(
            "When the second argument to `device_put` is a Device, the first argument must be a fully"
            " addressable array or a non-addressable array with a single device sharding. Got value"
            f" with devices {x.devices()}; put it on a sharding that spans the processes."
        )


def _copy(x: ArrayImpl) -> ArrayImpl:
    """The same array in new buffers."""
    sharding = x._sharding
    return _jax.batched_copy_array_to_devices_with_sharding(
        [x], [sharding._internal_device_list], [sharding], [ALWAYS_COPY]
    )[0]


def _commit(x: ArrayImpl, aval: Any, sharding: Sharding) -> ArrayImpl:
    """The same buffers as a committed array."""
    return array_result_handler(aval, sharding, True)(x)


def _move(x: ArrayImpl, sharding: Sharding, copy: ArrayCopySemantics) -> ArrayImpl:
    """A committed array with the elements of `x`, laid out as `sharding` says."""
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
    """`_move` where all devices belong to this process."""
    source = x._sharding
    if _same_parts(source, sharding, len(aval.shape)):
        return _commit(_send(x, sharding, copy), aval, sharding)
    parts = _matching_shards(x, sharding)
    if parts is None:
        if _is_accelerator(x) and source._internal_device_list == sharding._internal_device_list:
            return _identity_jit(sharding, (0,) if copy is DONATE else ())(x)
        parts = _slices(x, sharding)
    devices = list(sharding._device_assignment)
    return _batched_device_put(aval, sharding, parts, devices, True, copy is ALWAYS_COPY)


def _move_between_processes(
    x: ArrayImpl, aval: Any, sharding: Sharding, copy: ArrayCopySemantics
) -> ArrayImpl:
    """`_move` where some devices belong to other processes: all processes have to call it."""
    source = x._sharding
    donated = (0,) if copy is DONATE else ()
    if source._internal_device_list == sharding._internal_device_list:
        return _identity_jit(sharding, donated)(x)
    devices = source._device_assignment
    if set(devices) == sharding.device_set:
        y = _identity_jit(_in_order_of(devices, sharding, len(aval.shape)), donated)(x)
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
        x, copy = _identity_jit(between, donated)(x), DONATE
    return _commit(_send(x, sharding, copy), aval, sharding)


def _in_order_of(devices: Sequence[Device], sharding: Sharding, ndim: int) -> Sharding:
    """The same parts on the same devices, for programs that number the devices in another order."""
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
    """Each shard of `x` on the device at the same position of `sharding`."""
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
    """For each device of `sharding` a shard of `x` that is what it needs, if there are such shards."""
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
    """What each device of `sharding` needs of `x`, cut out on the device or on the host."""
    shape = x.aval.shape
    indices = [_full_index(i, shape) for i in sharding.devices_indices_map(shape).values()]
    if type(x._sharding) is SingleDeviceSharding and _is_accelerator(x):
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
def _identity_jit(out: Any, donate_argnums: tuple[int, ...]) -> Callable:
    return late.compile_eager(
        lambda x: x, "device_put", out_shardings=out, donate_argnums=donate_argnums
    )


register_cache(_multi_slice_jit, "device_put slices")
register_cache(_identity_jit, "device_put programs")


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
    return _identity_jit(target, (0,) if copy is DONATE else ())(x)


# Memory spaces

_KIND_OF_SPACE = {MemorySpace.Device: "device", MemorySpace.Host: "pinned_host"}


def memory_space_to_kind(space: MemorySpace) -> str:
    """What devices call a memory space."""
    kind = _KIND_OF_SPACE.get(space)
    if kind is None:
        raise ValueError(
            f"device_put cannot place a value in {space}: use Space.Device or Space.Host."
        )
    return kind


def memory_kind_to_space(kind: str) -> MemorySpace:
    """The memory space of a kind of memory."""
    space = SPACE_OF_KIND.get(kind)
    if space is None:
        raise ValueError(f"unknown memory kind {kind!r}: expected one of {sorted(SPACE_OF_KIND)}")
    return space


# The primitive

device_put_p = Primitive("device_put", multiple_results=True)


@device_put_p.def_impl
def _device_put_impl(*xs, devices, srcs, copy_semantics):
    return [device_put_value(x, d, c) for x, d, c in zip(xs, devices, copy_semantics)]


@device_put_p.def_abstract_eval
def _device_put_types(*avals, devices, srcs, copy_semantics):
    return [placed_aval(a, d) for a, d in zip(avals, devices)]


def placed_aval(aval: Any, target: Any) -> Any:
    """The type of a value of type `aval` after `device_put` to `target`."""
    if target is None or not isinstance(aval, ShapedArray):
        return aval
    if isinstance(target, MemorySpace):
        memory_space_to_kind(target)
        return aval.update(memory_space=target)
    sharding = target.sharding if isinstance(target, Format) else target
    if isinstance(sharding, Device):
        return aval if aval._sharding is None else aval.update(sharding=None)
    if sharding is None:
        return aval
    check_sharding(aval, sharding)
    return aval_with_sharding(aval.update(sharding=None), sharding)


def _device_put_jvp(primals, tangents, *, devices, srcs, copy_semantics):
    outs = device_put_p.bind(*primals, devices=devices, srcs=srcs, copy_semantics=copy_semantics)
    live = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]
    out_tangents = [ad.Zero(typeof(out).to_tangent_aval()) for out in outs]
    if live:
        moved = device_put_p.bind(
            *[tangents[i] for i in live],
            devices=tuple(devices[i] for i in live),
            srcs=tuple(srcs[i] for i in live),
            copy_semantics=tuple(copy_semantics[i] for i in live),
        )
        for i, t in zip(live, moved):
            out_tangents[i] = t
    return outs, out_tangents


def _device_put_transpose(cts, *args, devices, srcs, copy_semantics):
    results = [ad.Zero(x.aval.to_ct_aval()) if ad.is_undefined_primal(x) else None for x in args]
    live = [
        i for i, x in enumerate(args) if ad.is_undefined_primal(x) and type(cts[i]) is not ad.Zero
    ]
    if any(copy_semantics[i] is DONATE for i in live):
        raise ValueError(
            "device_put with donate=True cannot be transposed: the cotangent's buffer may be in use."
            " Call it without donation where you differentiate."
        )
    if live:
        moved = device_put_p.bind(
            *[cts[i] for i in live],
            devices=tuple(_source_of(args[i].aval, srcs[i], devices[i]) for i in live),
            srcs=tuple(devices[i] for i in live),
            copy_semantics=(ALWAYS_COPY,) * len(live),
        )
        for i, ct in zip(live, moved):
            results[i] = ct
    return results


def _source_of(aval: Any, src: Any, dst: Any) -> Any:
    """Where a cotangent of an argument goes; back to its memory space at least."""
    if src is None and placed_aval(aval, dst).memory_space is not aval.memory_space:
        return aval.memory_space
    return src


def _device_put_batch(axis_data, args, dims, *, devices, srcs, copy_semantics):
    outs = device_put_p.bind(
        *args,
        devices=tuple(_batched_target(t, d, axis_data) for t, d in zip(devices, dims)),
        srcs=tuple(_batched_target(t, d, axis_data) for t, d in zip(srcs, dims)),
        copy_semantics=copy_semantics,
    )
    return outs, list(dims)


def _batched_target(target: Any, dim: int | None, axis_data: Any) -> Any:
    """The target of values with one more dimension, at `dim`."""
    if dim is None:
        return target
    if isinstance(target, Format) and isinstance(target.layout, Layout):
        layout = get_layout_for_vmap(dim, target.layout)
        return Format(layout, _batched_target(target.sharding, dim, axis_data))
    if isinstance(target, NamedSharding):
        entries = list(target.spec.partitions)
        if dim >= len(entries) and axis_data.spmd_name is None:
            return target
        entries += [None] * (dim - len(entries))
        entries.insert(dim, axis_data.spmd_name)
        return target.update(spec=target.spec.update(partitions=tuple(entries)))
    return target


def _device_put_dce(used_outputs, eqn):
    if not any(used_outputs):
        return [False] * len(eqn.invars), None
    if all(used_outputs):
        return [True] * len(eqn.invars), eqn
    kept = [i for i, used in enumerate(used_outputs) if used]
    params = {k: tuple(v[i] for i in kept) for k, v in eqn.params.items()}
    new_eqn = eqn.replace(
        invars=[eqn.invars[i] for i in kept], outvars=[eqn.outvars[i] for i in kept], params=params
    )
    return list(used_outputs), new_eqn


device_put_p.jvp = _device_put_jvp
device_put_p.transpose = _device_put_transpose
device_put_p.axis_batch = _device_put_batch
device_put_p.dce = _device_put_dce


def _device_put_lowering(ctx, *xs, devices, srcs, copy_semantics):
    # On CPU the compiler places values; what must be is in the types of the results.
    return list(xs)


def _accelerator_device_put_lowering(ctx, *xs, devices, srcs, copy_semantics):
    return [_placed_ir(ctx, x, t, aval) for x, t, aval in zip(xs, devices, ctx.avals_out)]


def _placed_ir(ctx, x, target, aval):
    if isinstance(target, Format):
        target = target.sharding
    if isinstance(target, MemorySpace):
        return mlir.wrap_with_memory_kind(ctx, x, memory_space_to_kind(target), aval)
    if not isinstance(target, Sharding) or target.memory_kind is None:
        return x
    if isinstance(target, NamedSharding) and target.num_devices > 1:
        x = mlir.wrap_with_sharding_op(ctx, x, aval, mlir.to_ir_sharding(aval, target))
    return mlir.wrap_with_memory_kind(ctx, x, target.memory_kind, aval)


mlir.register_lowering(device_put_p, _device_put_lowering)
for _platform in ("tpu", "gpu"):
    mlir.register_lowering(device_put_p, _accelerator_device_put_lowering, _platform)
