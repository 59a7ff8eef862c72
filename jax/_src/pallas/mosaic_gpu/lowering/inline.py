"""The rule of `inline_mgpu`: what its functions are given and return; and what they emit operations with."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Iterator
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.core import NUM_WARPS
from jax._src.pallas.mosaic_gpu.lowering.arrays import FragmentedArray, current_kernel, in_kernel
from jax._src.pallas.mosaic_gpu.lowering.fragments import Fragment
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    GpuKernel,
    is_first,
    only,
    rule,
    shared_memory_fence,
)
from jax._src.pallas.mosaic_gpu.lowering.memory import resolved
from jax._src.pallas.mosaic_gpu.lowering.memrefs import to_memref
from jax._src.pallas.mosaic_gpu.lowering.views import View
from jax._src.pallas.mosaic_gpu.memory_operations import RefType, inline_mgpu_p
from jax._src.pallas.mosaic_gpu.operations import operands_of
from jax._src.tree_util import tree_flatten, tree_unflatten


@dataclasses.dataclass(frozen=True)
class InlineContext:
    """The first argument of a function of `inline_mgpu`: what it can ask about the kernel.

    Attributes:
      cluster_size: how many blocks a cluster has along each of its axes.
      num_threads: how many warpgroups a block has.
      kernel_name: the kernel's name and line.
    """

    cluster_size: tuple[int, ...]
    num_threads: int
    kernel_name: str


@rule(inline_mgpu_p)
def _inline(
    ctx: RuleContext, *flat: Any, tree: Any, fun: Any, arg_types: Any, args_tree: Any, out_types: Any, out_tree: Any
) -> Any:  # fmt: skip
    kernel: GpuKernel = ctx.kernel
    if kernel.is_warp:
        raise NotImplementedError("Functions of single warps have no inline_mgpu.")
    operands = operands_of(tree, flat)
    given = [_given(x, t) for x, t in zip(operands, arg_types, strict=True)]
    context = InlineContext(tuple(kernel.cluster.sizes.values()), kernel.threads, kernel.name)
    with in_kernel(kernel):
        outs = fun(context, *tree_unflatten(args_tree, given))
    found, found_tree = tree_flatten(outs)
    if found_tree != out_tree:
        raise ValueError(
            f"A function of inline_mgpu returns {found_tree}, but its return_type is {out_tree}."
        )
    return [_returned(x, t) for x, t in zip(found, out_types)]


def _given(x: Any, t: Any) -> Any:
    """Return what stands for an argument."""
    if not isinstance(t, RefType):
        return FragmentedArray.of(x)
    view = resolved(x)
    if not isinstance(view, View):
        raise NotImplementedError(
            "inline_mgpu takes references to arrays in global and shared memory, no barriers, accumulators or tensor memory."
        )
    return to_memref(view, t.transforms)


def _returned(x: Any, t: Any) -> Fragment:
    if not isinstance(x, FragmentedArray):
        raise TypeError(f"A function of inline_mgpu returns FragmentedArrays, got {x!r}.")
    layout = t.layout.to_mgpu()
    if (x.shape, x.dtype, x.layout) != (tuple(t.shape), np.dtype(t.dtype), layout):
        raise ValueError(
            f"A function of inline_mgpu returns {x}, but its return_type has an array of shape {tuple(t.shape)} and dtype "
            f"{dtypes.dtype_name(np.dtype(t.dtype))} in the layout {layout}."
        )
    return x.fragment


class ThreadSubset(enum.IntEnum):
    """The lanes of which one does something: those of a warp, of a warpgroup, or of a block."""

    WARP = 1
    WARPGROUP = 2
    BLOCK = 3


def c(val: float, ty: Any) -> Any:
    """Return a constant of a type of MLIR."""
    if isinstance(ty, ir.FloatType):
        return arith.constant(ty, ir.FloatAttr.get(ty, float(val)))
    return arith.constant(ty, ir.IntegerAttr.get(ty, int(val)))


def thread_idx() -> Any:
    """Return the number of the lane in its block, an i32."""
    return current_kernel().thread_id


def warp_idx() -> Any:
    """Return the number of the warp in its block, an i32."""
    kernel = current_kernel()
    warps = arith.muli(kernel.warpgroup, c(NUM_WARPS, kernel.i32))
    return arith.addi(warps, kernel.warp)


def warpgroup_idx() -> Any:
    """Return the number of the warpgroup in its block, an i32."""
    return current_kernel().warpgroup


def warpgroup_barrier() -> None:
    """Emit a point that all lanes of the warpgroup reach before any of them goes on."""
    current_kernel().warpgroup_barrier()


def commit_shared() -> None:
    """Emit what makes shared memory that lanes have written be seen by copies and by the tensor core."""
    shared_memory_fence()
    warpgroup_barrier()


@contextlib.contextmanager
def single_thread(scope: ThreadSubset = ThreadSubset.BLOCK) -> Iterator[None]:
    """Context manager of what one lane does for all of a warp, of a warpgroup, or of the block."""
    kernel = current_kernel()
    number = {
        ThreadSubset.WARP: kernel.lane,
        ThreadSubset.WARPGROUP: kernel.in_warpgroup,
        ThreadSubset.BLOCK: kernel.thread_id,
    }[scope]
    with only(is_first(number)):
        yield
