"""Calls of native code from lowered modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.interpreters.mlir.constants import i32_attr
from jax._src.interpreters.mlir.shardings import dense_index_elements
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo


def custom_call(
    call_target_name: str,
    *,
    result_types: Sequence[Any],
    operands: Sequence[Any],
    backend_config: str | bytes | dict[str, Any] = "",
    has_side_effect: bool = False,
    result_shapes: Sequence[Any] | None = None,
    called_computations: Sequence[str] = (),
    api_version: int = 2,
    operand_output_aliases: dict[int, int] | None = None,
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    extra_attributes: dict[str, Any] | None = None,
) -> Any:
    """Emits a `stablehlo.custom_call`.

    Args:
      call_target_name: the name under which the native function is registered.
      result_types: IR types of the results.
      operands: IR values.
      backend_config: configuration passed to the function: a string or, for typed calls
        (`api_version` 4), a dict of attributes.
      has_side_effect: whether to keep the call even if its results are not used.
      result_shapes: 1-d tensors with the shapes of the results, for shapes known at run time.
      called_computations: names of functions of the module that it calls.
      api_version: XLA's calling convention.
      operand_output_aliases: from operand numbers to results that share their buffers.
      operand_layouts, result_layouts: for each value, its dimensions from minor to major.
      extra_attributes: other attributes of the operation.

    Returns:
      The operation.

    Raises:
      ValueError: if the form of `backend_config` does not fit `api_version`.
    """
    operands = list(operands)
    if backend_config is None:
        backend_config_attr = ir.StringAttr.get("")
    elif isinstance(backend_config, (str, bytes)):
        backend_config_attr = ir.StringAttr.get(backend_config)
    elif isinstance(backend_config, dict):
        # Dictionaries are supported since version 4.
        backend_config_attr = ir.DictAttr.get(backend_config)
        if api_version < 4:
            raise ValueError(
                f"custom_call {call_target_name}: a dict as backend_config needs api_version 4, got "
                f"{api_version}"
            )
    else:
        raise ValueError(
            f"custom_call {call_target_name}: backend_config must be a string, bytes or a dict of "
            f"attributes, got {type(backend_config)}"
        )
    attributes: dict[str, Any] = dict(
        call_target_name=ir.StringAttr.get(call_target_name),
        has_side_effect=ir.BoolAttr.get(has_side_effect),
        backend_config=backend_config_attr,
        api_version=i32_attr(api_version),
        called_computations=ir.ArrayAttr.get(
            [ir.FlatSymbolRefAttr.get(name) for name in called_computations]
        ),
    )
    if operand_output_aliases is not None:
        single = len(result_types) == 1
        attributes["output_operand_aliases"] = ir.ArrayAttr.get(
            [
                hlo.OutputOperandAlias.get(
                    output_tuple_indices=[] if single else [output],
                    operand_index=operand,
                    operand_tuple_indices=[],
                )
                for operand, output in operand_output_aliases.items()
            ]
        )
    if extra_attributes is not None:
        attributes.update(extra_attributes)
    if result_shapes is not None:
        # Result shapes are passed as additional operands, which XLA's shape refinement removes.
        attributes["indices_of_shape_operands"] = ir.DenseIntElementsAttr.get(
            np.arange(len(operands), len(operands) + len(result_shapes), dtype=np.int64)
        )
        if operand_layouts is not None:
            operand_layouts = [*operand_layouts, *([[0]] * len(result_shapes))]
        operands += result_shapes
    if operand_layouts is not None:
        attributes["operand_layouts"] = ir.ArrayAttr.get(
            [dense_index_elements(x) for x in operand_layouts]
        )
        if result_layouts is None:
            raise ValueError(
                f"custom_call {call_target_name}: operand_layouts is given without result_layouts"
            )
    if result_layouts is not None:
        if operand_layouts is None:
            raise ValueError(
                f"custom_call {call_target_name}: result_layouts is given without operand_layouts"
            )
        attributes["result_layouts"] = ir.ArrayAttr.get(
            [dense_index_elements(x) for x in result_layouts]
        )
    return hlo.CustomCallOp.build_generic(
        results=result_types, operands=operands, attributes=attributes
    )
