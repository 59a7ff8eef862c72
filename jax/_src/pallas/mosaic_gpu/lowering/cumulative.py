"""Rules of cumulative sums, products, maxima and minima: elements are combined with those 1, 2, 4, ... before them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lax.lax import cumulative
from jax._src.pallas.element_types import is_float
from jax._src.pallas.elementwise import BINARY, kind
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.lowering.elementwise import convert
from jax._src.pallas.mosaic_gpu.lowering.exchange import fill, scratch
from jax._src.pallas.mosaic_gpu.lowering.fragments import Fragment, layout_of, mapped
from jax._src.pallas.mosaic_gpu.lowering.indices import Index
from jax._src.pallas.mosaic_gpu.lowering.kernel import number, rule
from jax._src.pallas.mosaic_gpu.lowering.views import load, store

_COMBINED = {
    cumulative.cumsum_p: lax.add_p,
    cumulative.cumprod_p: lax.mul_p,
    cumulative.cummax_p: lax.max_p,
    cumulative.cummin_p: lax.min_p,
}


def _identity(p: Any, dtype: Any) -> Any:
    if p in (lax.add_p, lax.mul_p):
        return int(p is lax.mul_p)
    if is_float(dtype):
        return -np.inf if p is lax.max_p else np.inf
    info = dtypes.iinfo(dtype)
    return info.min if p is lax.max_p else info.max


@rule(*_COMBINED)
def _cumulative(ctx: RuleContext, x: Fragment, *, axis: int, reverse: bool) -> Fragment:
    kernel, p, dtype = ctx.kernel, _COMBINED[ctx.eqn.primitive], x.dtype
    if x.is_splat:
        x = x.with_layout(kernel.layouts.get(ctx.eqn.outvars[0]) or layout_of(x.shape, dtype))
    # Sums of narrow numbers are those of float32.
    wide = np.dtype(np.float32) if is_float(dtype) and dtypes.itemsize_bits(dtype) < 32 else dtype
    x = x.with_dtype(lambda v: convert(v, dtype, wide), wide)
    combine = BINARY[p][kind(wide)]
    assert combine is not None
    n = x.shape[axis]
    steps = [2**i for i in range((n - 1).bit_length())]
    if steps:
        # Where elements end, there are as many more that change nothing.
        padding = steps[-1]
        shape = list(x.shape)
        shape[axis] = n + padding
        whole = scratch(kernel, tuple(shape), wide)
        own = 0 if reverse else padding
        kernel.warpgroup_barrier()
        fill(
            kernel,
            whole.part(axis, Index(n if reverse else 0), padding),
            number(_identity(p, wide), wide),
        )
    for step in steps:
        store(kernel, whole.part(axis, Index(own), n), x)
        kernel.warpgroup_barrier()
        there = Index(own + (step if reverse else -step))
        others = load(kernel, whole.part(axis, there, n), x.layout)
        x = mapped(combine, [others, x], wide)
        kernel.warpgroup_barrier()
    return x.with_dtype(lambda v: convert(v, wide, dtype), dtype)
