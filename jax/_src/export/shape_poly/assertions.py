"""The entry point of a module with symbolic shapes: it computes the dimension variables and checks.

`main`, which takes the variables as leading arguments, becomes a private function; the new `main`
gets the variables from the shapes of its arguments, with an assertion for each condition. XLA
replaces all of it by constants when the shapes are known, and fails if an assertion does not hold.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jax._src.export.shape_poly.solving import Check, Dimension, DimensionSolver
from jax._src.export.shape_poly.values import IrAlgebra
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect, hlo

WRAPPED_MAIN = "_wrapped_jax_export_main"
_MAX_SHOWN = 32  # XLA's limit for the values in a message


def add_shape_assertions(
    module: Any, avals: Sequence[Any], names: Sequence[str], num_leading: int, num_tokens: int
) -> None:
    """Replaces `main` by one that computes and checks its dimension variables.

    Args:
      module: the module; `main` takes the platform index, if there are several platforms, then the
        dimension variables in alphabetical order, tokens, and the arguments.
      avals: types of the arguments.
      names: names of the arguments for messages.
      num_leading: 1 if there is a platform index, else 0.
      num_tokens: the number of tokens.

    Raises:
      ValueError: if the shapes of the arguments do not determine the variables.
    """
    solver = DimensionSolver(avals, names)
    num_dims = len(solver.variables)
    with module.context, ir.Location.unknown(module.context):
        symbols = ir.SymbolTable(module.operation)
        wrapped = symbols["main"]
        types = list(wrapped.type.inputs)
        kept = [*range(num_leading), *range(num_leading + num_dims, len(types))]
        main = func_dialect.FuncOp(
            "main",
            ir.FunctionType.get([types[i] for i in kept], wrapped.type.results),
            ip=ir.InsertionPoint.at_block_begin(module.body),
        )
        main.attributes["sym_visibility"] = ir.StringAttr.get("public")
        _move_attributes(wrapped, main, kept)
        symbols.set_symbol_name(wrapped, _free_name(symbols))
        wrapped.attributes["sym_visibility"] = ir.StringAttr.get("private")
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            arguments = list(block.arguments)
            leading, rest = arguments[:num_leading], arguments[num_leading:]
            values = _assign(solver, rest[num_tokens:])
            call = func_dialect.CallOp(
                wrapped, [*leading, *[values[v] for v in solver.variables], *rest]
            )
            func_dialect.ReturnOp(call.results)


def _free_name(symbols: Any) -> str:
    """A name for the old `main`; exported programs that it calls have such functions too."""
    if WRAPPED_MAIN not in symbols:
        return WRAPPED_MAIN
    return next(n for i in itertools.count() if (n := f"{WRAPPED_MAIN}_{i}") not in symbols)


def _move_attributes(wrapped: Any, main: Any, kept: Sequence[int]) -> None:
    """Gives `main` the attributes of arguments and results; they apply to entry points only."""
    if "arg_attrs" in wrapped.attributes:
        attrs = list(wrapped.arg_attrs)
        main.arg_attrs = ir.ArrayAttr.get([attrs[i] for i in kept])
        dims = [a if i not in kept else ir.DictAttr.get({}) for i, a in enumerate(attrs)]
        wrapped.arg_attrs = ir.ArrayAttr.get(dims)
    if "res_attrs" in wrapped.attributes:
        main.attributes["res_attrs"] = wrapped.attributes["res_attrs"]


def _assign(solver: DimensionSolver, arguments: Sequence[Any]) -> dict[str, Any]:
    def size_of(d: Dimension) -> Any:
        return hlo.get_dimension_size(arguments[d.argument], mlir.i64_attr(d.axis))

    return solver.assign(IrAlgebra, size_of, _assert)


def _assert(check: Check, env: Mapping[str, Any]) -> None:
    ops = IrAlgebra(env)
    condition = mlir.compare_hlo(
        ops.size(check.left), ops.size(check.right), check.relation, "SIGNED"
    )
    shown = [ops.size(x) for x in check.shown[:_MAX_SHOWN]]
    call = hlo.CustomCallOp(
        [],
        [condition, *shown],
        call_target_name=ir.StringAttr.get("shape_assertion"),
        has_side_effect=ir.BoolAttr.get(True),
        api_version=mlir.i32_attr(2),
    )
    # XLA takes what is in braces for values to show; in names of arguments they are doubled.
    message = re.sub(r"\{(?!\d+\})", "{{", check.message)
    call.attributes["error_message"] = ir.StringAttr.get(message)
