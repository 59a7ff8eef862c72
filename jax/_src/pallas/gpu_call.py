"""The custom call of a program for a GPU that runs a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jax._src.core import ShapedArray
from jax._src.interpreters import mlir
from jax._src.interpreters.mlir.custom_call import custom_call
from jax._src.lib.mlir import ir


def call_kernel(
    ctx: Any, target: str, args: Sequence[Any], config: Mapping[str, Any], input_output_aliases: Any,
    zeros: Sequence[ShapedArray] = (),
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Emit the call, of arrays whose last dimension is that of neighbors; return its results, and what it makes of zeros.

    Args:
      ctx: the context of the lowering.
      target: the name of the native function that runs kernels.
      args: operands.
      config: attributes that the function is given, with the kernel among them.
      input_output_aliases: pairs of operands and results that share their memory.
      zeros: types of arrays of zeros that the kernel is given after the operands, and changes.
    """
    ins, outs = [*ctx.avals_in, *zeros], [*ctx.avals_out, *zeros]
    aliases = dict(input_output_aliases)
    for i in range(len(zeros)):
        aliases[len(args) + i] = len(ctx.avals_out) + i
    row_major = lambda avals: [list(range(a.ndim))[::-1] for a in avals]
    call = custom_call(
        target,
        result_types=[mlir.aval_to_ir_type(ctx.module_context, a) for a in outs],
        operands=[*args, *[mlir.full_like_aval(ctx, 0, a) for a in zeros]],
        operand_layouts=row_major(ins),
        result_layouts=row_major(outs),
        operand_output_aliases=aliases,
        api_version=1,
        extra_attributes={"mhlo.backend_config": ir.DictAttr.get(dict(config))},
    )
    results, n = list(call.results), len(ctx.avals_out)
    return results[:n], results[n:]
