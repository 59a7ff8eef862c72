"""Transfers of pytrees of arrays to devices and to the host, and waiting for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import config, core, dtypes, tree_util, xla_bridge as xb
from jax._src.array_impl import ArrayImpl
from jax._src.core import eval_trace, trace_ctx, typeof
from jax._src.device_put.agreement import check_same_value
from jax._src.device_put.held_numbers import without_held
from jax._src.device_put.primitive import device_put_p
from jax._src.device_put.values import ALWAYS_COPY, DONATE, REUSE, device_put_value
from jax._src.late_binding import late
from jax._src.layout import Format
from jax._src.lib import Device, _jax, guard_lib
from jax._src.memory import MemorySpace
from jax._src.mesh import get_concrete_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding
from jax._src.tree_util import tree_flatten, tree_leaves
from jax._src.xla_bridge import clients

_guard_state = guard_lib.thread_local_state
_ARRAY_TYPES = frozenset({ArrayImpl, np.ndarray})


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """Puts arrays on devices.

    Inside transformed functions it is part of the program; the gradient is moved back to where the
    argument was.

    Args:
      x: a pytree of arrays, NumPy arrays and scalars.
      device: where to put it: a :class:`jax.Device`, a :class:`jax.sharding.Sharding`, a
        `PartitionSpec` for the mesh of :func:`jax.set_mesh`, a `Format`, or a `jax.memory.Space`;
        or a tree prefix of `x` with these as leaves. None leaves arrays where they are, and puts
        other values on the default device.
      src: the location of `x`, for the gradient; by default it is determined. May be a tree prefix.
      donate: whether the buffers of `x` may be reused, which deletes `x`. May be a tree prefix.
      may_alias: whether the result may share the memory of `x`; False always makes a copy. May be a
        tree prefix.

    Returns:
      A pytree of arrays, which are committed unless `device` is None.

    Raises:
      ValueError: `device` is not one of these, not a prefix of `x`, or does not fit the shape.
      TypeError: a leaf of `x` is neither an array nor a number.

    Example:
      >>> x = jax.device_put(np.arange(3.), jax.devices()[0])
      >>> x, x.committed
      (Array([0., 1., 2.], dtype=float32), True)
    """
    if (
        type(x) in _ARRAY_TYPES
        and src is None
        and donate is False
        and may_alias is None
        and trace_ctx.trace is eval_trace
        and (device is None or isinstance(device, (Device, Sharding)))
    ):
        return _put_now(x, device, REUSE)
    leaves, treedef = tree_flatten(x)
    if device is None or isinstance(device, _TARGETS):
        target = _resolve(device)
        targets = [target] * len(leaves)
    else:
        targets = [_resolve(d) for d in _broadcast("device", device, x, _TARGETS)]
    copies = _copy_semantics(x, donate, may_alias, len(leaves))
    srcs = [src] * len(leaves) if src is None else _broadcast("source", src, x, _TARGETS)
    if trace_ctx.trace is eval_trace:
        return treedef.unflatten([_put_now(*args) for args in zip(leaves, targets, copies)])
    for leaf in leaves:
        typeof(leaf)  # raises an error for an invalid type before anything is traced
    return treedef.unflatten(
        device_put_p.bind(
            *leaves,
            devices=tuple(targets),
            srcs=tuple(_source(s, leaf) for s, leaf in zip(srcs, leaves)),
            copy_semantics=tuple(copies),
        )
    )


_TARGETS = (Device, Sharding, Format, MemorySpace, PartitionSpec)


def _put_now(x: Any, target: Any, copy: Any) -> Any:
    state = _guard_state()
    before = state.explicit_device_put
    state.explicit_device_put = True
    try:
        if clients.distributed_state.num_processes > 1:
            _check_same_value(x, target)
        if type(target) is NamedSharding and target.spec.unreduced:
            return _put_unreduced(x, target, copy)
        return device_put_value(x, target, copy)
    finally:
        state.explicit_device_put = before


def _check_same_value(x: Any, target: Any) -> None:
    sharding = target.sharding if isinstance(target, Format) else target
    if isinstance(sharding, Sharding) and len({d.process_index for d in sharding.device_set}) > 1:
        check_same_value(x, sharding)


def _put_unreduced(x: Any, target: NamedSharding, copy: Any) -> Any:
    """An array that is the sum of the values on the devices along the unreduced axes."""
    if type(x) is ArrayImpl and x._sharding == target:
        return device_put_value(x, None, copy)
    source = x._sharding if type(x) is ArrayImpl else None
    if type(source) is not NamedSharding or source.mesh != target.mesh:
        whole = target.update(spec=target.spec.update(unreduced=frozenset()))
        x = device_put_value(x, whole, copy)
    # What is sharded over an unreduced axis stays where it is, among zeros.
    x = late.reshard(x, NamedSharding(target.mesh.abstract_mesh, target.spec), target.mesh)
    return x._rewrap_with_aval_and_sharding(x.aval, target)


def _resolve(device: Any) -> Any:
    """Convert the user's `device` to a target of `device_put_p`."""
    if device is None or isinstance(device, (Device, Format, MemorySpace)):
        return device
    if isinstance(device, Sharding):
        if not device._is_concrete:
            raise ValueError(
                f"device_put needs a sharding with devices, got {device} over an abstract mesh. Use"
                " jax.sharding.reshard inside functions that are traced with that mesh."
            )
        return device
    if isinstance(device, PartitionSpec):
        return over_context_mesh(device, "device_put")
    raise ValueError(
        "`jax.device_put` only accepts `None`, `jax.sharding.Sharding`, `jax.Device`, `Format`,"
        " `jax.memory.Space` or a pytree of these values. Received invalid value:"
        f" {device}"
    )


def over_context_mesh(spec: PartitionSpec, fun_name: str) -> NamedSharding:
    """`spec` over the concrete mesh in context; the error names `fun_name`."""
    mesh = get_concrete_mesh()
    if mesh is None or mesh.empty:
        raise ValueError(
            f"Please set a mesh via `jax.set_mesh` if a PartitionSpec is passed to {fun_name}"
        )
    return NamedSharding(mesh, spec)


def _broadcast(what: str, prefix: Any, x: Any, leaf_types: Any = ()) -> list[Any]:
    """Broadcast `prefix` to one entry for each leaf of `x`; None is an entry."""

    def is_leaf(t):
        return t is None or isinstance(t, leaf_types)

    try:
        return tree_util.broadcast_prefix(prefix, x, is_leaf=is_leaf)
    except ValueError:
        errors = tree_util.prefix_errors(prefix, x, is_leaf=is_leaf)
        if not errors:
            raise
        details = "\n".join(str(error(f"device_put {what}")) for error in errors)
        raise ValueError(
            f"device_put {what} specification must be a tree prefix of the corresponding value;\n"
            f"Mismatch details ({len(errors)} found):\n{details}"
        ) from None


def _copy_semantics(x: Any, donate: Any, may_alias: Any, count: int) -> list[Any]:
    if (donate is False or donate is None) and may_alias is None:
        return [REUSE] * count
    donates = [donate] * count if isinstance(donate, bool) else _broadcast("donate", donate, x)
    aliases = [may_alias] * count
    if may_alias is not None and not isinstance(may_alias, bool):
        aliases = _broadcast("may_alias", may_alias, x)
    return [_copy_semantic(d, a) for d, a in zip(donates, aliases)]


def _copy_semantic(donate: Any, may_alias: Any) -> Any:
    if donate and may_alias:
        raise ValueError("may_alias and donate cannot be True at the same time.")
    if donate:
        return DONATE
    return ALWAYS_COPY if may_alias is False else REUSE


def _source(src: Any, x: Any) -> Any:
    """The location of an argument, to which its cotangent is moved back."""
    if src is not None:
        return src
    value = core.to_concrete_value(x)
    if type(value) is ArrayImpl:
        return value._sharding
    if isinstance(x, core.Tracer) and getattr(x.aval, "_sharding", None) is not None:
        return x.aval.sharding
    return None


def device_get(x: Any) -> Any:
    """Copies arrays to the host.

    Args:
      x: a pytree. Arrays become NumPy arrays; other leaves are returned unchanged.

    Returns:
      The pytree with read-only NumPy arrays, which may share the memory of arrays on the CPU.

    Raises:
      jax.errors.TracerArrayConversionError: inside a transformed function.

    Example:
      >>> jax.device_get([jnp.arange(3), 'a'])
      [array([0, 1, 2], dtype=int32), 'a']
    """
    state = _guard_state()
    before = state.explicit_device_get
    state.explicit_device_get = True
    try:
        if type(x) is ArrayImpl:
            return x._value
        leaves, treedef = tree_flatten(x)
        if len(leaves) > 1:
            for leaf in leaves:  # start all copies before waiting for the first
                if type(leaf) is ArrayImpl:
                    leaf.copy_to_host_async()
        return treedef.unflatten([_get(leaf) for leaf in leaves])
    finally:
        state.explicit_device_get = before


def _get(x: Any) -> Any:
    if type(x) is ArrayImpl:
        return x._value
    if isinstance(getattr(x, "dtype", None), dtypes.ExtendedDType):
        return x  # NumPy has no type for keys
    to_array = getattr(x, "__array__", None)
    return x if to_array is None else to_array()


def block_until_ready(x: Any) -> Any:
    """Waits until the computations of arrays have finished.

    Computations run in the background; this call raises their errors.

    Args:
      x: a pytree; leaves that are not arrays are ignored.

    Returns:
      `x`.

    Example:
      >>> jax.block_until_ready(jnp.arange(3) * 2)
      Array([0, 2, 4], dtype=int32)
    """
    if type(x) is ArrayImpl:
        return x.block_until_ready()
    leaves = tree_leaves(x)
    arrays = [leaf for leaf in leaves if type(leaf) is ArrayImpl]
    for leaf in leaves:
        if type(leaf) is not ArrayImpl and hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    if len(arrays) == 1:
        arrays[0].block_until_ready()
    elif arrays:
        _jax.batched_block_until_ready(arrays)
    return x


def copy_to_host_async(x: Any) -> Any:
    """Starts to copy arrays to the host without waiting for the copies.

    Args:
      x: a pytree; leaves that are not arrays are ignored.

    Returns:
      `x`.

    Example:
      >>> jax.copy_to_host_async({'a': jnp.arange(3)})
      {'a': Array([0, 1, 2], dtype=int32)}
    """
    for leaf in tree_leaves(x):
        copy = getattr(leaf, "copy_to_host_async", None)
        if copy is not None:
            copy()
    return x


def live_arrays(platform: str | None = None) -> list[ArrayImpl]:
    """All arrays on the devices of a platform that are still referenced.

    Args:
      platform: a platform's name; by default the preferred one.

    Raises:
      RuntimeError: the platform does not exist.

    Example:
      >>> x = jnp.arange(3)
      >>> any(a is x for a in jax.live_arrays())
      True
    """
    return without_held(xb.get_backend(platform).live_arrays())


# Methods of arrays


def _to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array moved to a device or a sharding.

    Args:
      device: a :class:`jax.Device` or :class:`jax.sharding.Sharding`.
      stream: must be None.

    Returns:
      A committed array.
    """
    if stream is not None:
        raise NotImplementedError(
            f"Array.to_device: the argument stream is not supported, got {stream!r}; pass None."
        )
    return device_put(self, device)


def _copy(self: ArrayImpl) -> ArrayImpl:
    if config.transfers_are_guarded():  # nothing leaves its device
        with config.transfer_guard_device_to_device("allow"):
            return device_put_value(self, None, ALWAYS_COPY)
    return device_put_value(self, None, ALWAYS_COPY)


def _deepcopy(self: ArrayImpl, memo: Any) -> ArrayImpl:
    return _copy(self)


ArrayImpl.to_device = _to_device
core.Tracer.to_device = _to_device
ArrayImpl.__copy__ = _copy
ArrayImpl.__deepcopy__ = _deepcopy


late.device_put = device_put
