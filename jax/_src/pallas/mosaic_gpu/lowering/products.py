"""Products of arrays in registers, of operands that shared memory has meanwhile.

Those of matrices of 16 bits whose shapes fit are computed by the tensor cores of warps; of others each lane sums its
elements. Large matrices are for the tensor core: `plgpu.wgmma` and `plgpu.tcgen05_mma` multiply those in shared memory.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import math as math_dialect, scf
from jax._src.pallas.element_types import is_float
from jax._src.pallas.elementwise import BINARY, kind
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.layouts import FragmentedLayout, WGSplatFragLayout
from jax._src.pallas.mosaic_gpu.lowering.elementwise import convert
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    flat_registers,
    from_registers,
    layout_of,
    mapped,
    splat,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, pointer_at, unraveled
from jax._src.pallas.mosaic_gpu.lowering.kernel import GpuKernel, number, rule
from jax._src.pallas.mosaic_gpu.lowering.views import Dim, View, load, store, whole
from jax._src.pallas.mosaic_gpu.lowering.warp_products import warp_product, warp_product_layout
from jax._src.pallas.mosaic_gpu.transforms import nbytes

_float32 = np.dtype(np.float32)
_ALIGNMENT = 16
_PADDING = 8  # so that rows are in different banks of shared memory


@rule(lax.dot_general_p)
def _dot_general(
    ctx: RuleContext, a: Fragment, b: Fragment, *, dimension_numbers: Any, **_: Any
) -> Fragment:
    (out,) = ctx.avals_out
    kernel, shape = ctx.kernel, tuple(out.shape)
    (a_summed, b_summed), (a_batch, b_batch) = dimension_numbers
    a_free, b_free = _others(a, a_summed, a_batch), _others(b, b_summed, b_batch)
    of_warps = warp_product_layout(a, b, dimension_numbers)
    if of_warps is not None:
        views = zip(
            _in_memory(kernel, a, b, padding=_PADDING), ([*a_free, *a_summed], [*b_free, *b_summed])
        )
        turned = [v.replace(dims=tuple([v.dims[d] for d in order])) for v, order in views]
        total = warp_product(kernel, *turned, of_warps)
        return total.with_dtype(lambda v: convert(v, _float32, out.dtype), out.dtype)
    a_view, b_view = _in_memory(kernel, a, b)
    operands = [
        _operand(a_view, [*a_batch, *a_free, *[None] * len(b_free)], a_summed, shape),
        _operand(b_view, [*b_batch, *[None] * len(a_free), *b_free], b_summed, shape),
    ]
    layout = kernel.layouts.get(ctx.eqn.outvars[0])
    if layout is None or isinstance(layout, WGSplatFragLayout):
        layout = layout_of(shape, out.dtype)
    # Sums of narrow floats are rounded once.
    narrow = is_float(out.dtype) and dtypes.itemsize_bits(out.dtype) < 32
    dtype = _float32 if narrow else np.dtype(out.dtype)
    total = _sum(kernel, operands, layout, shape, dtype)
    return total.with_dtype(lambda v: convert(v, dtype, out.dtype), out.dtype)


def _others(x: Fragment, *used: Sequence[int]) -> list[int]:
    return [d for d in range(len(x.shape)) if not any([d in dims for dims in used])]


def _in_memory(kernel: GpuKernel, *arrays: Fragment, padding: int = 0) -> list[View]:
    """Write arrays to shared memory, with so many elements after each row, and return views of it."""
    starts, size = [], 0
    shapes = [(*x.shape[:-1], x.shape[-1] + padding) if x.shape else () for x in arrays]
    for x, shape in zip(arrays, shapes):
        starts.append(-(-size // _ALIGNMENT) * _ALIGNMENT)
        size = starts[-1] + nbytes(shape, x.dtype)
    pointer = kernel.scratch_pointer(size)
    views = [
        whole(pointer_at(pointer, start), shape, x.dtype, MemorySpace.SMEM)
        for start, shape, x in zip(starts, shapes, arrays)
    ]
    if padding:
        views = [v.part(len(x.shape) - 1, Index(), x.shape[-1]) for v, x in zip(views, arrays)]
    kernel.warpgroup_barrier()
    for view, x in zip(views, arrays):
        store(kernel, view, x)
    kernel.warpgroup_barrier()
    return views


@dataclasses.dataclass(frozen=True)
class _Operand:
    """An operand in shared memory.

    Attributes:
      view: its elements by the position in the result, but for that in the sum.
      summed: the dimensions of the sum.
    """

    view: View
    summed: tuple[Dim, ...]

    def term(self, kernel: GpuKernel, k: Index, layout: FragmentedLayout, dtype: Any) -> Fragment:
        """Return the elements that are factors of one term."""
        at = unraveled(k, [d.size for d in self.summed])
        chosen = [dataclasses.replace(d, size=1, start=i) for d, i in zip(self.summed, at)]
        x = load(kernel, self.view.replace(dropped=tuple(chosen)), layout)
        return x.with_dtype(lambda v: convert(v, x.dtype, dtype), dtype)


def _operand(
    view: View, of_result: Sequence[int | None], summed: Sequence[int], shape: Sequence[int]
) -> _Operand:
    """Return an operand, given which of its dimensions those of the result are; None for none."""
    dims = [
        Dim(n, Index(), ((n, 0),)) if d is None else view.dims[d] for d, n in zip(of_result, shape)
    ]
    return _Operand(view.replace(dims=tuple(dims)), tuple([view.dims[d] for d in summed]))


def _sum(
    kernel: GpuKernel, operands: Sequence[_Operand], layout: FragmentedLayout, shape: tuple[int, ...], dtype: Any
) -> Fragment:  # fmt: skip
    multiply, add = [BINARY[p][kind(dtype)] for p in (lax.mul_p, lax.add_p)]
    assert multiply is not None and add is not None

    def with_term(total: Any, x: Any, y: Any) -> Any:
        return math_dialect.fma(x, y, total) if is_float(dtype) else add(total, multiply(x, y))

    first = splat(number(0, dtype), shape, dtype).with_layout(layout)
    terms = math.prod([d.size for d in operands[0].summed])
    loop = scf.ForOp(integer(0), integer(terms), integer(1), flat_registers(first))
    with ir.InsertionPoint(loop.body):
        now = from_registers(first, iter(loop.inner_iter_args))
        k = Index(0, loop.induction_variable)
        factors = [o.term(kernel, k, layout, dtype) for o in operands]
        scf.yield_(flat_registers(mapped(with_term, [now, *factors], dtype)))
    return from_registers(first, iter(loop.results))
