"""Rules that read and write memory."""

from __future__ import annotations

from typing import Any

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lib.mlir.dialects import llvm
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.elementwise import BINARY, kind
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.lowering.devices import EVERYWHERE
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    first_of_copies,
    layout_of,
    mapped,
)
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, only, rule
from jax._src.pallas.mosaic_gpu.lowering.mma import Accumulator
from jax._src.pallas.mosaic_gpu.lowering.tensor_memory import TensorView
from jax._src.pallas.mosaic_gpu.lowering.views import (
    View,
    load,
    store,
    stores,
    transformed,
)
from jax._src.pallas.mosaic_gpu.memory_operations import atomic_p, load_p
from jax._src.pallas.mosaic_gpu.operations import operands_of
from jax._src.state.primitives import addupdate_p, get_p, swap_p
from jax._src.tree_util import tree_unflatten


def resolved(x: Any) -> Any:
    """Return the view that an operand is, whose transforms have been applied."""
    if isinstance(x, (View, Accumulator, TensorView)):
        return x
    if isinstance(x.ref, TensorView):
        return x.ref.part(x.transforms)
    return transformed(x.ref, x.transforms)


def _checked(view: Any) -> View:
    if isinstance(view, View) and view.device is EVERYWHERE:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} write to all devices at once (plgpu.multicast_ref) by plgpu.multimem_store or plgpu.copy_smem_to_gmem, and read "
            "from them by plgpu.multimem_load_reduce, not so."
        )
    if isinstance(view, View) and view.space in (MemorySpace.GMEM, MemorySpace.SMEM):
        return view
    if isinstance(view, TensorView):
        raise NotImplementedError(
            f"Kernels for {TABLE.target} read tensor memory by plgpu.async_load_tmem, and write it by plgpu.async_store_tmem, not by an index."
        )
    raise NotImplementedError(f"Kernels for {TABLE.target} cannot read and write this memory so.")


def _view(ref: Any, tree: Any, idx: Any) -> View:
    return _checked(transformed(_checked(ref), tree_unflatten(tree, idx)))


@rule(get_p)
def _get(ctx: RuleContext, ref: Any, *idx: Any, tree: Any) -> Any:
    view = _view(ref, tree, idx)
    return load(ctx.kernel, view, ctx.kernel.layouts.get(ctx.eqn.outvars[0]))


@rule(load_p)
def _load(ctx: RuleContext, *flat: Any, tree: Any, optimized: bool) -> Any:
    (source,) = operands_of(tree, flat)
    view = _checked(resolved(source))
    return load(ctx.kernel, view, ctx.kernel.layouts.get(ctx.eqn.outvars[0]))


def write(kernel: Any, view: View, x: Fragment) -> None:
    """Write an array to memory, between barriers that keep accesses of other lanes apart."""
    with kernel.between_barriers():
        store(kernel, view, x)


@rule(swap_p)
def _swap(ctx: RuleContext, ref: Any, x: Fragment, *idx: Any, tree: Any) -> Any:
    kernel = ctx.kernel
    view = _view(ref, tree, idx)
    if is_dropped(ctx):
        before = x  # nothing reads it
    else:
        before = load(kernel, view, None if x.is_splat else x.layout)
    write(kernel, view, x)
    return before


def is_dropped(ctx: RuleContext) -> bool:
    """Whether nothing uses the result of the operation."""
    return ctx.eqn.outvars[0] not in ctx.kernel.used


@rule(addupdate_p)
def _addupdate(ctx: RuleContext, ref: Any, x: Fragment, *idx: Any, tree: Any) -> Any:
    kernel = ctx.kernel
    view = _view(ref, tree, idx)
    before = load(kernel, view, None if x.is_splat else x.layout)
    add = BINARY[lax.add_p][kind(x.dtype)]
    assert add is not None
    write(kernel, view, mapped(add, [before, x], x.dtype))
    return []


_ATOMICS = {
    "add": ("fadd", "add", "add"),
    "max": ("fmax", "max", "umax"),
    "min": ("fmin", "min", "umin"),
    "and": (None, "_and", "_and"),
    "or": (None, "_or", "_or"),
    "xor": (None, "_xor", "_xor"),
}


@rule(atomic_p)
def _atomic(ctx: RuleContext, *flat: Any, tree: Any, op: str) -> Any:
    target, x = operands_of(tree, flat)
    view, kernel = _checked(resolved(target)), ctx.kernel
    bits = dtypes.itemsize_bits(view.dtype)
    if bits < 16 or (bits == 16 and not (is_float(view.dtype) and op == "add")):
        raise NotImplementedError(
            f"GPUs have no atomic_{op} of {dtypes.dtype_name(view.dtype)}: take an array of 32 bits."
        )
    names = _ATOMICS[op]
    name = names[0] if is_float(view.dtype) else names[1 if is_signed(view.dtype) else 2]
    assert name is not None
    operation = getattr(llvm.AtomicBinOp, name)
    if x.is_splat and x.shape:
        x = x.with_layout(layout_of(x.shape, x.dtype))
    with only(first_of_copies(kernel, x.layout)):
        for address, value, _ in stores(kernel, view, x, one_by_one=True):
            llvm.atomicrmw(operation, address, value, llvm.AtomicOrdering.monotonic)
    return []
