"""Rules of reductions: in each lane, then between lanes of a warp by shuffles, then between warps."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, scf
from jax._src.pallas.element_types import is_float
from jax._src.pallas.elementwise import BINARY, kind
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.core import NUM_WARPS
from jax._src.pallas.mosaic_gpu.layouts import TiledLayout, WGStridedFragLayout
from jax._src.pallas.mosaic_gpu.lowering.elementwise import convert
from jax._src.pallas.mosaic_gpu.lowering.exchange import from_lane, scratch
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    elements,
    flat_registers,
    from_elements,
    from_registers,
    layout_of,
    mapped,
    register_shape,
    splat,
    tiled_dims,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, unraveled
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, WARP, GpuKernel, number, rule
from jax._src.pallas.mosaic_gpu.lowering.views import load, store
from jax._src.pallas.mosaic_gpu.tilings import Replicated

Combine = Callable[[Any, Any], Any]
_float32 = np.dtype(np.float32)

_COMBINED = {
    lax.reduce_sum_p: lax.add_p,
    lax.reduce_max_p: lax.max_p,
    lax.reduce_min_p: lax.min_p,
    lax.reduce_prod_p: lax.mul_p,
    lax.reduce_and_p: lax.and_p,
    lax.reduce_or_p: lax.or_p,
    lax.reduce_xor_p: lax.xor_p,
}


@rule(*_COMBINED)
def _reduce(ctx: RuleContext, x: Fragment, *, axes: Sequence[int], **_: Any) -> Fragment:
    p = _COMBINED[ctx.eqn.primitive]
    # Sums of narrow floats are rounded once.
    narrow = is_float(x.dtype) and dtypes.itemsize_bits(x.dtype) < 32
    dtype = _float32 if narrow else x.dtype
    combine = BINARY[p][kind(dtype)]
    if combine is None:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have no {ctx.eqn.primitive.name} of {dtypes.dtype_name(dtype)}."
        )
    if not axes:
        return x
    wide = x.with_dtype(lambda v: convert(v, x.dtype, dtype), dtype)
    out = reduced(ctx.kernel, wide, tuple(axes), combine, p)
    return out.with_dtype(lambda v: convert(v, dtype, x.dtype), x.dtype)


def reduced(
    kernel: GpuKernel, x: Fragment, axes: tuple[int, ...], combine: Combine, p: Any
) -> Fragment:
    """Return an array that has been reduced over axes.

    Args:
      kernel: the kernel.
      x: the array.
      axes: the axes.
      combine: the operation on values of MLIR.
      p: its primitive.
    """
    shape = tuple([n for d, n in enumerate(x.shape) if d not in axes])
    if x.is_splat:
        return _of_equal(x, math.prod([x.shape[d] for d in axes]), shape, combine, p)
    if isinstance(x.layout, TiledLayout) and not _partly_replicated(x.layout):
        return _tiled(kernel, x, axes, shape, combine)
    if len(axes) == len(x.shape) and isinstance(x.layout, WGStridedFragLayout):
        return _strided(kernel, x, combine)
    return _in_memory(kernel, x, axes, shape, combine)


def _of_equal(x: Fragment, n: int, shape: tuple[int, ...], combine: Combine, p: Any) -> Fragment:
    """Reduce an array of equal elements, by repeated doubling."""
    value = x.scalar
    if p in (lax.add_p, lax.mul_p, lax.xor_p):
        total, power = None, value
        while n:
            if n & 1:
                total = power if total is None else combine(total, power)
            n >>= 1
            if n:
                power = combine(power, power)
        value = number(int(p is lax.mul_p), x.dtype) if total is None else total
    return splat(value, shape, x.dtype)


def _partly_replicated(layout: TiledLayout) -> bool:
    groups = (layout.warp_dims, layout.lane_dims)
    return any([len(g) > 1 and any(isinstance(d, Replicated) for d in g) for g in groups])


def _fold(values: Sequence[Any], combine: Combine) -> Any:
    return functools.reduce(combine, values)


@dataclasses.dataclass(frozen=True)
class _Digit:
    """A digit of the number of a lane or warp: the number changes by `stride` with it."""

    stride: int
    size: int


def _digits(groups: Sequence[Any], dims: Sequence[Any], axes: tuple[int, ...]) -> list[_Digit]:
    """Return the digits that are positions along axes."""
    out, stride = [], 1
    for d in reversed(groups):
        if isinstance(d, Replicated):
            stride *= d.times
            continue
        if dims[d].origin in axes and dims[d].size > 1:
            out.append(_Digit(stride, dims[d].size))
        stride *= dims[d].size
    return out


def _tiled(
    kernel: GpuKernel, x: Fragment, axes: tuple[int, ...], shape: tuple[int, ...], combine: Combine
) -> Fragment:
    layout = x.layout
    assert isinstance(layout, TiledLayout)
    dims = tiled_dims(layout, x.shape)
    registers = x.registers
    for d, dim in enumerate(dims):
        if dim.origin in axes and registers.shape[d] > 1:
            parts = [registers.take([i], d) for i in range(registers.shape[d])]
            registers = functools.reduce(_each(combine), parts)
    if dims[layout.vector_dim].origin in axes:
        registers = _each(lambda r: from_elements([_fold(elements(r), combine)]))(registers)
    for digit in _digits(layout.lane_dims, dims, axes):
        registers = _each(lambda r, d=digit: _between_lanes(r, d, combine))(registers)
    warps = _digits(layout.warp_dims, dims, axes)
    if warps:
        registers = _between_warps(kernel, registers, warps, x.dtype, combine)
    if not shape:
        return splat(elements(registers.flat[0])[0], (), x.dtype)
    out = layout.reduce(axes)
    counts, _ = register_shape(out, shape)
    return Fragment(out, shape, x.dtype, registers.reshape(counts))


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of arrays of registers that applies another to each."""

    def apply(*arrays: Any) -> Any:
        out = np.empty(arrays[0].shape, dtype=object)
        for at in np.ndindex(out.shape):
            out[at] = function(*[a[at] for a in arrays])
        return out

    return apply


def _between_lanes(register: Any, digit: _Digit, combine: Combine) -> Any:
    values = elements(register)
    step = 1
    while step < digit.size:
        values = [combine(v, from_lane(v, step * digit.stride)) for v in values]
        step *= 2
    return from_elements(values)


def _between_warps(
    kernel: GpuKernel, registers: Any, digits: Sequence[_Digit], dtype: Any, combine: Combine
) -> Any:
    flat = [e for r in registers.flat for e in elements(r)]
    memory = scratch(kernel, (NUM_WARPS, WARP, len(flat)), dtype)
    whole = lambda warp, e: memory.at([warp, Index(0, kernel.lane), Index(e)])
    kernel.warpgroup_barrier()
    for e, value in enumerate(flat):
        store(kernel, whole(Index(0, kernel.warp), e), splat(value, (), dtype))
    kernel.warpgroup_barrier()
    base = kernel.warp
    for d in digits:
        digit = arith.remui(arith.divui(kernel.warp, integer(d.stride)), integer(d.size))
        base = arith.subi(base, arith.muli(digit, integer(d.stride)))
    totals = []
    for e in range(len(flat)):
        parts = []
        for at in itertools.product(*[range(d.size) for d in digits]):
            offset = sum([i * d.stride for i, d in zip(at, digits)])
            parts.append(load(kernel, whole(Index(offset, base), e)).scalar)
        totals.append(_fold(parts, combine))
    return _regrouped(registers, totals)


def _regrouped(registers: Any, values: Sequence[Any]) -> Any:
    (n,) = ir.VectorType(registers.flat[0].type).shape
    out = np.empty(registers.shape, dtype=object)
    for i, at in enumerate(np.ndindex(out.shape)):
        out[at] = from_elements(values[i * n : (i + 1) * n])
    return out


def _strided(kernel: GpuKernel, x: Fragment, combine: Combine) -> Fragment:
    """Reduce an array over all axes."""
    register = _fold(list(x.registers.flat), combine)
    total = from_elements([_fold(elements(register), combine)])
    total = _between_lanes(total, _Digit(1, WARP), combine)
    registers = np.empty((1,), dtype=object)
    registers[0] = total
    digits = [_Digit(1, NUM_WARPS)]
    registers = _between_warps(kernel, registers, digits, x.dtype, combine)
    return splat(elements(registers[0])[0], (), x.dtype)


def _in_memory(
    kernel: GpuKernel, x: Fragment, axes: tuple[int, ...], shape: tuple[int, ...], combine: Combine
) -> Fragment:
    """Reduce an array through shared memory: each lane reads all elements of those of its results."""
    memory = scratch(kernel, x.shape, x.dtype)
    kernel.warpgroup_barrier()
    store(kernel, memory, x)
    kernel.warpgroup_barrier()
    kept = [d for d in range(len(x.shape)) if d not in axes]
    order = [*kept, *axes]
    view = memory.replace(dims=tuple([memory.dims[d] for d in order]))
    sizes = [x.shape[d] for d in axes]
    layout = layout_of(shape, x.dtype)

    def part(k: Index) -> Fragment:
        at = unraveled(k, sizes)
        dropped = tuple(
            [dataclasses.replace(d, size=1, start=i) for d, i in zip(view.dims[len(kept) :], at)]
        )
        return load(kernel, view.replace(dims=view.dims[: len(kept)], dropped=dropped), layout)

    first = part(Index())
    loop = scf.ForOp(integer(1), integer(math.prod(sizes)), integer(1), flat_registers(first))
    with ir.InsertionPoint(loop.body):
        now = from_registers(first, iter(loop.inner_iter_args))
        new = mapped(combine, [now, part(Index(0, loop.induction_variable))], x.dtype)
        scf.yield_(flat_registers(new))
    return from_registers(first, iter(loop.results))
