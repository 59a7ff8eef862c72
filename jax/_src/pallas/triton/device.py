"""Rules of what is about the device: the grid, hints to the compiler, assembly, barriers, printing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jax._src import debugging
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import gpu
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.element_types import is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.primitives import multiple_of_p, num_programs_p, program_id_p
from jax._src.pallas.triton.conversions import convert
from jax._src.pallas.triton.elementwise import extern
from jax._src.pallas.triton.kernel import Constant, rule, rules
from jax._src.pallas.triton.primitives import (
    approx_tanh_p,
    debug_barrier_p,
    elementwise_inline_asm_p,
    max_contiguous_p,
)

_int32 = np.dtype(np.int32)
_float32 = np.dtype(np.float32)


@rules.rule(program_id_p)
def _program_id(ctx: RuleContext, *, axis: int) -> Any:
    return ctx.kernel.program_ids[axis]


@rules.rule(num_programs_p)
def _num_programs(ctx: RuleContext, *, axis: int) -> Any:
    return Constant(ctx.kernel.grid[axis], _int32)


@rules.rule(multiple_of_p)
def _multiple_of(ctx: RuleContext, x: Any, *, values: Any) -> Any:
    return _hint(x, "tt.divisibility", values)


@rules.rule(max_contiguous_p)
def _max_contiguous(ctx: RuleContext, x: Any, *, values: Any) -> Any:
    return _hint(x, "tt.contiguity", values)


def _hint(x: Any, name: str, values: Any) -> Any:
    # Triton reads hints from the operation that made the value; arguments of blocks have none.
    if type(x) is not Constant and isinstance(x.owner, ir.Operation | ir.OpView):
        operation = x.owner if isinstance(x.owner, ir.Operation) else x.owner.operation
        operation.attributes[name] = ir.DenseIntElementsAttr.get(np.asarray(values, np.int32))
    return x


@rule(elementwise_inline_asm_p)
def _assembly(
    ctx: RuleContext, *args: Any, asm: str, constraints: str, pack: int, result_avals: Any
) -> Any:
    targets = [ctx.kernel.type_of(a.shape, a.dtype) for a in result_avals]
    op = tt.ElementwiseInlineAsmOp(targets, asm, constraints, True, pack, args)
    return list(op.results)


@rule(approx_tanh_p)
def _approx_tanh(ctx: RuleContext, x: Any) -> Any:
    (aval,) = ctx.avals_in
    kernel, shape = ctx.kernel, aval.shape
    if kernel.platform != "cuda":
        wide = convert(kernel, x, shape, aval.dtype, _float32)
        symbol = "__triton_hip_fast_tanhf"
        out = extern(kernel.type_of(shape, _float32), [wide], symbol, "libdevice")
        return convert(kernel, out, shape, _float32, aval.dtype)
    if aval.dtype == np.float32:
        suffix, constraint = "f32", "f"
    else:
        suffix, constraint = ("f16" if aval.dtype == np.float16 else "bf16"), "h"
    target = kernel.type_of(shape, aval.dtype)
    asm = f"tanh.approx.{suffix} $0, $1;"
    op = tt.ElementwiseInlineAsmOp([target], asm, f"={constraint},{constraint}", True, 1, [x])
    return op.results[0]


@rules.rule(debug_barrier_p)
def _barrier(ctx: RuleContext) -> Any:
    gpu.barrier()
    return []


_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_UNNAMED = re.compile(r"\{(:[^{}]*)?\}")


@rule(debugging.debug_print_p)
def _print(ctx: RuleContext, *args: Any, fmt: str, static_args: Any, in_tree: Any, **_: Any) -> Any:
    texts = _PLACEHOLDER.split(fmt)
    found = _PLACEHOLDER.findall(fmt)
    named = not all([_UNNAMED.fullmatch(spec) for spec in found])
    if static_args or named or (found and len(found) != len(args)):
        raise NotImplementedError(
            f"Kernels for {rules.target} print arrays in the order of a format with one placeholder, {{}}, for each, not {fmt!r}."
        )
    if not found:
        _print_operation(ctx, fmt, args, ctx.avals_in)
        return []
    for text, spec, x, aval in zip(texts, found, args, ctx.avals_in):
        _print_operation(ctx, text, [x], [aval], spec.endswith("x}"))
    if texts[-1].strip():
        _print_operation(ctx, texts[-1], [], [])
    return []


def _print_operation(ctx: RuleContext, text: str, args: Any, avals: Any, hexadecimal: bool = False) -> None:  # fmt: skip
    signed = [int(is_signed(a.dtype)) for a in avals]
    tt.print_(f" {text} ", hexadecimal, args, signed)
