"""The primitive of `device_put` and its rules."""

from __future__ import annotations

from typing import Any

from jax._src.array_impl import aval_with_sharding
from jax._src.core import Primitive, ShapedArray, typeof
from jax._src.device_put.values import (
    ALWAYS_COPY,
    DONATE,
    check_sharding,
    device_put_value,
    memory_space_to_kind,
)
from jax._src.interpreters import ad, mlir
from jax._src.interpreters.splitting import SplitRules
from jax._src.layout import Format, Layout, get_layout_for_vmap
from jax._src.lib import Device
from jax._src.memory import MemorySpace
from jax._src.mesh import get_abstract_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding

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
    if isinstance(sharding, NamedSharding):
        _check_not_manual(sharding.spec)
    check_sharding(aval, sharding)
    return aval_with_sharding(aval.update(sharding=None), sharding)


def _check_not_manual(spec: PartitionSpec) -> None:
    """Raises ValueError if a spec splits values over axes that a shard_map around maps over."""
    manual = get_abstract_mesh().manual_axes
    for entry in spec.partitions if manual else ():
        for axis in entry if isinstance(entry, tuple) else (entry,):
            if axis in manual:
                raise ValueError(
                    f"The sharding passed to device_put has spec={spec}, but a shard_map around it"
                    f" maps over the axis {axis!r}: values there are shards, which cannot be split"
                    " over it again. Leave it out of the spec."
                )


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
    """The target of an argument's cotangent; at least in the memory space of the argument."""
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
    """The target for values with an additional dimension at `dim`."""
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


class _EachSplitRules(SplitRules):
    """Each result is one operand elsewhere."""

    def dependence(self, marked, params):
        return marked

    def dce(self, used_outputs, eqn):
        if not any(used_outputs):
            return [False] * len(eqn.invars), None
        if all(used_outputs):
            return [True] * len(eqn.invars), eqn
        kept = [i for i, used in enumerate(used_outputs) if used]
        params = {k: tuple(v[i] for i in kept) for k, v in eqn.params.items()}
        new_eqn = eqn.replace(
            invars=[eqn.invars[i] for i in kept],
            outvars=[eqn.outvars[i] for i in kept],
            params=params,
        )
        return list(used_outputs), new_eqn


device_put_p.jvp = _device_put_jvp
device_put_p.transpose = _device_put_transpose
device_put_p.axis_batch = _device_put_batch
device_put_p.split = _EachSplitRules()


def _device_put_lowering(ctx, *xs, devices, srcs, copy_semantics):
    # On CPU the compiler chooses the placement; required placements are in the types of the
    # results.
    return list(xs)


def _accelerator_device_put_lowering(ctx, *xs, devices, srcs, copy_semantics):
    if ctx.module_context.all_default_mem_kind:
        return list(xs)
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
