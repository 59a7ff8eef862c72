"""Lowering of jaxprs to StableHLO, for libraries that define primitives."""

from typing import Any as _Any

from jax._src.core.effects import lowerable_effects as lowerable_effects
from jax._src.interpreters.mlir import (
    DEVICE_TO_DEVICE_TYPE as DEVICE_TO_DEVICE_TYPE,
    RECV_FROM_HOST_TYPE as RECV_FROM_HOST_TYPE,
    SEND_TO_HOST_TYPE as SEND_TO_HOST_TYPE,
    ConstantHandler as ConstantHandler,
    LoweringParameters as LoweringParameters,
    LoweringResult as LoweringResult,
    LoweringRuleContext as LoweringRuleContext,
    ModuleContext as ModuleContext,
    ShapePolyLoweringState as ShapePolyLoweringState,
    TokenSet as TokenSet,
    aval_to_ir_type as aval_to_ir_type,
    aval_to_ir_types as aval_to_ir_types,
    core_call_lowering as core_call_lowering,
    dense_int_array as dense_int_array,
    dense_int_elements as dense_int_elements,
    dtype_to_ir_type as dtype_to_ir_type,
    emit_python_callback as emit_python_callback,
    flatten_ir_types as flatten_ir_types,
    flatten_ir_values as flatten_ir_values,
    i32_attr as i32_attr,
    i64_attr as i64_attr,
    ir_attribute as ir_attribute,
    ir_constant as ir_constant,
    ir_constants as ir_constants,
    ir_type_handlers as ir_type_handlers,
    jaxpr_subcomp as jaxpr_subcomp,
    lower_fun as lower_fun,
    lower_jaxpr_to_fun as lower_jaxpr_to_fun,
    lower_jaxpr_to_module as lower_jaxpr_to_module,
    make_ir_context as make_ir_context,
    merge_mlir_modules as merge_mlir_modules,
    module_to_bytecode as module_to_bytecode,
    module_to_string as module_to_string,
    register_constant_handler as register_constant_handler,
    register_lowering as register_lowering,
    shape_tensor as shape_tensor,
    token_type as token_type,
    unflatten_ir_values_like_types as unflatten_ir_values_like_types,
)
from jax._src.interpreters.mlir.types import make_ir_tree_registry as _make_ir_tree_registry
from jax._src.lib.mlir import ir as _ir
from jax._src.mesh import Mesh as Mesh
from jax._src.sharding_impls import (
    ShardingContext as ShardingContext,
    SPMDAxisContext as SPMDAxisContext,
)


def __getattr__(name: str) -> _Any:
    # These need MLIR's bindings, which are loaded on the first lowering.
    if name in ("Token", "Value"):
        return _ir.Value
    if name == "ir_tree_registry":
        return _make_ir_tree_registry()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "Token", "Value", "ir_tree_registry"})
