"""Stores to the shared memory of other blocks of a cluster, which arrive at a barrier there."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, vector
from jax._src.pallas.element_types import is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.copies import async_store_smem_p
from jax._src.pallas.mosaic_gpu.lowering import barriers
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    elements,
    first_of_copies,
    from_elements,
    layout_of,
    register_shape,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import integer
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, GpuKernel, asm, only, rule
from jax._src.pallas.mosaic_gpu.lowering.memory import resolved
from jax._src.pallas.mosaic_gpu.lowering.views import View, in_block, index_of, stores, transformed
from jax._src.pallas.mosaic_gpu.operations import operands_of
from jax._src.pallas.mosaic_gpu.transforms import ClusterRef

_WORD = 4  # bytes
_WORDS = (1, 2, 4)  # of one store
_COMPLETES = "shared::cluster.mbarrier::complete_tx::bytes"


def _refused(why: str) -> NotImplementedError:
    return NotImplementedError(
        f"Kernels for {TABLE.target} cannot store in the shared memory of another block so (async_store_smem): {why}."
    )


@rule(async_store_smem_p)
def _store(
    ctx: RuleContext, *flat: Any, tree: Any, cluster_dim: Any, optimized: bool, atomic: str | None
) -> Any:
    x, target, at, position = operands_of(tree, flat)
    kernel = ctx.kernel
    barrier = barriers.barriers_of(at)
    if barrier.dtype.collective_axes is not None or barrier.dtype.orders_tensor_core:
        raise _refused("with a barrier of the cluster or of the tensor core: take plgpu.Barrier()")
    view = transformed(resolved(target), [ClusterRef((cluster_dim,), (position,))])
    number = kernel.cluster.number({cluster_dim: index_of(position)}).value(kernel.i32)
    pointer = in_block(barrier.pointer(kernel), number)
    if x.is_splat and x.shape:
        x = x.with_layout(layout_of(x.shape, x.dtype))
    own = first_of_copies(kernel, x.layout)
    if own is None:
        _expect_and_store(kernel, view, x, pointer, atomic)
        return []
    # All lanes arrive; those that have copies of what others have store nothing.
    with only(own):
        _expect_and_store(kernel, view, x, pointer, atomic)
    with only(arith.xori(own, integer(1, own.type))):
        _expect(pointer, 0)
    return []


def _expect(pointer: Any, size: int) -> None:
    code = "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [$0], $1;"
    asm(code, "l,r", [pointer, integer(size)])


def _expect_and_store(
    kernel: GpuKernel, view: View, x: Fragment, pointer: Any, atomic: str | None
) -> None:
    """Emit the arrival of a lane, and its stores, each of so many words that it completes."""
    bits = dtypes.itemsize_bits(x.dtype)
    total = x.registers.size * (1 if not x.shape else register_shape(x.layout, x.shape)[1])
    _expect(pointer, total * bits // 8)
    for address, value, _ in stores(kernel, view, x, one_by_one=atomic is not None):
        words = _words(value, x.dtype)
        operation = _of_words(len(words)) if atomic is None else _of_atomic(atomic, x.dtype)
        names = ", ".join([f"${i + 1}" for i in range(len(words))])
        values = f"{{{names}}}" if len(words) > 1 else names
        code = f"{operation} [$0], {values}, [${1 + len(words)}];"
        asm(code, ",".join(["l", *["r"] * len(words), "l"]), [address, *words, pointer])


def _words(value: Any, dtype: Any) -> list[Any]:
    """Return elements that are stored together as numbers of 32 bits."""
    i32 = ir.IntegerType.get_signless(32)
    if not isinstance(value.type, ir.VectorType):
        value = from_elements([value])
    (n,) = ir.VectorType(value.type).shape
    count, rest = divmod(n * max(8, dtypes.itemsize_bits(dtype)) // 8, _WORD)
    if rest or count not in _WORDS:
        raise _refused(
            f"{n} elements of {dtypes.dtype_name(dtype)} are beside each other, but stores are of 4, 8 or 16 bytes: give the array another layout, or "
            "the reference other transforms"
        )
    words = vector.bitcast(ir.VectorType.get([count], i32), value)
    return elements(words)


def _of_words(n: int) -> str:
    vectors = f".v{n}" if n > 1 else ""
    return f"st.async.weak.{_COMPLETES}{vectors}.b32"


def _of_atomic(op: str, dtype: Any) -> str:
    if dtypes.itemsize_bits(dtype) != 32 or not dtypes.issubdtype(dtype, np.integer):
        raise _refused(
            f"with atomic='{op}' of {dtypes.dtype_name(dtype)}, which GPUs have for integers of 32 bits only"
        )
    kind = "b32" if op in ("and", "or", "xor") else "s32" if is_signed(dtype) else "u32"
    return f"red.async.relaxed.cluster.{_COMPLETES}.{op}.{kind}"
