"""Rules of Mosaic's lowering: what only TPUs have, waiting, and printing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.debugging import debug_print_p
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import memref, vector
from jax._src.lib.mosaic import tpu
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic.hints import touch_p, trace_value_p
from jax._src.pallas.mosaic.lowering.kernel import rule
from jax._src.pallas.mosaic.lowering.shapes import bitcast
from jax._src.pallas.mosaic.matrix_units import (
    matmul_acc_lhs_p,
    matmul_pop_p,
    matmul_push_rhs_p,
)
from jax._src.pallas.mosaic.packing import (
    pack_elementwise_p,
    prng_random_bits_p,
    prng_seed_p,
    stochastic_round_p,
    unpack_elementwise_p,
)
from jax._src.pallas.mosaic.primitives import bitcast_p, roll_p
from jax._src.pallas.primitives import delay_p


@rule(roll_p)
def _roll(ctx: RuleContext, x: Any, shift: Any, *, axis: int, stride: Any, stride_axis: Any) -> Any:
    attribute = lambda n: (
        None if n is None else ir.IntegerAttr.get(ir.IntegerType.get_signed(32), n)
    )
    return tpu.dynamic_rotate(
        x, shift, axis, stride=attribute(stride), stride_dimension=attribute(stride_axis)
    )


@rule(bitcast_p)
def _bitcast(ctx: RuleContext, x: Any, *, ty: Any) -> Any:
    return bitcast(ctx, x, ctx.avals_in[0], ctx.avals_out[0])


@rule(pack_elementwise_p)
def _pack(ctx: RuleContext, *xs: Any, packed_dtype: Any) -> Any:
    kernel = ctx.kernel
    target = ir.TypeAttr.get(kernel.element_type(packed_dtype))
    return tpu.pack_elementwise(kernel.type_of(ctx.avals_out[0]), list(xs), target)


@rule(unpack_elementwise_p)
def _unpack(ctx: RuleContext, x: Any, *, index: int, packed_dtype: Any, unpacked_dtype: Any) -> Any:
    kernel = ctx.kernel
    source = ir.TypeAttr.get(kernel.element_type(packed_dtype))
    return tpu.unpack_elementwise(kernel.type_of(ctx.avals_out[0]), x, source, index)


@rule(stochastic_round_p)
def _stochastic_round(ctx: RuleContext, x: Any, random_bits: Any, *, target_dtype: Any) -> Any:
    return tpu.stochastic_convert(ctx.kernel.type_of(ctx.avals_out[0]), x, random_bits)


@rule(prng_seed_p)
def _prng_seed(ctx: RuleContext, *seeds: Any) -> list[Any]:
    tpu.prng_set_seed_32(list(seeds))
    return []


@rule(prng_random_bits_p)
def _prng_random_bits(ctx: RuleContext, *, shape: Any) -> Any:
    if len(shape) < 2:
        raise NotImplementedError(
            f"Kernels for TPUs make random bits of at least two dimensions, not {shape}: reshape them."
        )
    return tpu.prng_random_bits(ctx.kernel.type_of(ctx.avals_out[0]))


@rule(matmul_push_rhs_p)
def _matmul_push_rhs(ctx: RuleContext, rhs: Any, **params: Any) -> list[Any]:
    tpu.matmul_push_rhs(rhs, **params)
    return []


@rule(matmul_acc_lhs_p)
def _matmul_acc_lhs(ctx: RuleContext, lhs: Any, *, acc_addr: int, **params: Any) -> list[Any]:
    tpu.matmul_acc_lhs(acc_addr, lhs, **params)
    return []


@rule(matmul_pop_p)
def _matmul_pop(ctx: RuleContext, *, acc_addr: int, mxu_index: int, **_: Any) -> Any:
    return tpu.matmul_pop(ctx.kernel.type_of(ctx.avals_out[0]), acc_addr, mxu_index)


@rule(delay_p)
def _delay(ctx: RuleContext, nanos: Any) -> list[Any]:
    tpu.delay(nanos)
    return []


@rule(touch_p)
def _touch(ctx: RuleContext, ref: Any) -> list[Any]:
    return []


@rule(trace_value_p)
def _trace_value(ctx: RuleContext, x: Any, *, label: str) -> list[Any]:
    tpu.trace_value(x, label)
    return []


@rule(debug_print_p)
def _debug_print(
    ctx: RuleContext, *args: Any, fmt: str, has_placeholders: bool, **_: Any
) -> list[Any]:
    avals = ctx.avals_in
    if all([not a.shape for a in avals]):
        _log_numbers(ctx, fmt, args)
        return []
    if len(args) != 1 or not re.fullmatch(r"[^{}]*(\{\})?", fmt):
        raise NotImplementedError(
            f"Kernels for TPUs print either numbers or one array, after a text: {fmt!r} with "
            f"{', '.join([a.str_short() for a in avals])}."
        )
    (x,), (aval,), kernel = args, avals, ctx.kernel
    if dtypes.itemsize_bits(aval.dtype) != 32:
        raise NotImplementedError(
            f"Kernels for TPUs print arrays of 32 bits, not {aval.str_short()}: convert it before."
        )
    op = tpu.RegionOp([])
    with ir.InsertionPoint(op.body):
        buffer = memref.alloca(kernel.memref_type(aval.shape, aval.dtype, "vmem"), [], [])
        vector.store(x, buffer, [kernel.index(0)] * len(aval.shape))
        tpu.log_buffer(buffer, aval.shape, fmt.replace("{}", ""))
        tpu.yield_([])
    return []


def _log_numbers(ctx: RuleContext, fmt: str, args: Any) -> None:
    placeholders = re.findall(r"\{[^{}]*\}", fmt)
    if not placeholders:
        tpu.log(list(args), fmt)
        return
    for aval in ctx.avals_in:
        if aval.dtype not in (np.dtype(np.int32), np.dtype(np.uint32)):
            raise TypeError(
                f"Kernels for TPUs print 32-bit integers at placeholders, not {aval.str_short()}, in {fmt!r}: remove the "
                "placeholders, or convert it."
            )
    numbers = iter(range(len(placeholders)))
    tpu.log(list(args), re.sub(r"\{[^{}]*\}", lambda _: f"${next(numbers)}", fmt), formatted=True)
