"""Lowering of jaxprs to StableHLO.

`lower_jaxpr_to_module` lowers a jaxpr to a module. The lowering rule of a primitive
(`register_lowering`) is called with a `LoweringRuleContext`, the operands as IR values and the
parameters. It emits operations at the insertion point and returns the results.
"""

from typing import TYPE_CHECKING

from jax._src.interpreters.mlir.constants import (
    ConstantHandler as ConstantHandler,
    dense_bool_array as dense_bool_array,
    dense_bool_elements as dense_bool_elements,
    dense_int_array as dense_int_array,
    dense_int_elements as dense_int_elements,
    get_attribute_handler as get_attribute_handler,
    get_constant_handler as get_constant_handler,
    i32_attr as i32_attr,
    i64_attr as i64_attr,
    ir_attribute as ir_attribute,
    ir_constant as ir_constant,
    ir_constants as ir_constants,
    ir_consts as ir_consts,
    numpy_array_attribute as numpy_array_attribute,
    register_attribute_handler as register_attribute_handler,
    register_constant_handler as register_constant_handler,
)
from jax._src.interpreters.mlir.context import (
    COLLECTIVE_CHANNEL_ID as COLLECTIVE_CHANNEL_ID,
    DEVICE_TO_DEVICE_TYPE as DEVICE_TO_DEVICE_TYPE,
    RECV_FROM_HOST_TYPE as RECV_FROM_HOST_TYPE,
    SEND_TO_HOST_TYPE as SEND_TO_HOST_TYPE,
    LoweringParameters as LoweringParameters,
    LoweringRuleContext as LoweringRuleContext,
    ModuleContext as ModuleContext,
    ShapePolyLoweringState as ShapePolyLoweringState,
    TokenSet as TokenSet,
    ir_context_class as ir_context_class,
    make_ir_context as make_ir_context,
    upstream_dialects as upstream_dialects,
)
from jax._src.interpreters.mlir.custom_call import custom_call as custom_call
from jax._src.interpreters.mlir.locations import source_info_to_location as source_info_to_location
from jax._src.interpreters.mlir.ops import (
    add_jaxvals_lowering as add_jaxvals_lowering,
    broadcast_in_dim as broadcast_in_dim,
    compare_hlo as compare_hlo,
    convert_hlo as convert_hlo,
    dynamic_slice as dynamic_slice,
    dynamic_update_slice as dynamic_update_slice,
    emit as emit,
    eval_dynamic_shape as eval_dynamic_shape,
    eval_dynamic_shape_as_ivals as eval_dynamic_shape_as_ivals,
    eval_dynamic_shape_as_tensor as eval_dynamic_shape_as_tensor,
    eval_dynamic_shape_as_vals as eval_dynamic_shape_as_vals,
    full_like_aval as full_like_aval,
    iota as iota,
    max_hlo as max_hlo,
    min_hlo as min_hlo,
    multi_broadcast_in_dim as multi_broadcast_in_dim,
    pad as pad,
    reduce_window as reduce_window,
    reshape as reshape,
    shape_tensor as shape_tensor,
    slice_op as slice_op,
)
from jax._src.interpreters.mlir.rules import (
    LoweringRule as LoweringRule,
    compute_type_attributes as compute_type_attributes,
    delegate_lowering as delegate_lowering,
    find_rules as find_rules,
    jaxpr_subcomp as jaxpr_subcomp,
    lower_fun as lower_fun,
    lower_per_platform as lower_per_platform,
    map_compute_type as map_compute_type,
    metadata_attributes as metadata_attributes,
    outlined as outlined,
    register_lowering as register_lowering,
    update_frontend_attributes as update_frontend_attributes,
    wrap_compute_type_in_place as wrap_compute_type_in_place,
    wrap_xla_metadata_in_place as wrap_xla_metadata_in_place,
)
from jax._src.interpreters.mlir.shardings import (
    add_manual_axes as add_manual_axes,
    all_unconstrained as all_unconstrained,
    contains_unconstrained as contains_unconstrained,
    get_mem_kind as get_mem_kind,
    get_sharding_attr as get_sharding_attr,
    is_single_device as is_single_device,
    lower_with_sharding_in_types as lower_with_sharding_in_types,
    replicate_trailing_dims as replicate_trailing_dims,
    set_sharding as set_sharding,
    sharded_aval as sharded_aval,
    to_ir_sharding as to_ir_sharding,
    to_xla_layout as to_xla_layout,
    wrap_with_full_to_shard_op as wrap_with_full_to_shard_op,
    wrap_with_layout_op as wrap_with_layout_op,
    wrap_with_memory_kind as wrap_with_memory_kind,
    wrap_with_shard_to_full_op as wrap_with_shard_to_full_op,
    wrap_with_sharding_op as wrap_with_sharding_op,
)
from jax._src.interpreters.mlir.types import (
    IrTypes as IrTypes,
    IrValues as IrValues,
    aval_to_ir_type as aval_to_ir_type,
    aval_to_ir_types as aval_to_ir_types,
    dtype_to_ir_type as dtype_to_ir_type,
    flatten_ir_types as flatten_ir_types,
    flatten_ir_values as flatten_ir_values,
    ir_type_handlers as ir_type_handlers,
    len_ir_types as len_ir_types,
    token_type as token_type,
    unflatten_ir_values_like_types as unflatten_ir_values_like_types,
)
from jax._src.lazy_names import lazy_names
from jax._src.lib.mlir import dialects as dialects, ir as ir
from jax._src.lib.mlir.dialects import chlo as chlo, func as func_dialect, hlo as hlo, sdy as sdy

if TYPE_CHECKING:
    from jax._src.interpreters.mlir.callbacks import emit_python_callback as emit_python_callback
    from jax._src.interpreters.mlir.ffi import (
        build_ffi_lowering_function as build_ffi_lowering_function,
        ffi_lowering as ffi_lowering,
    )
    from jax._src.interpreters.mlir.functions import (
        call_lowering as call_lowering,
        check_backend_matches as check_backend_matches,
        core_call_lowering as core_call_lowering,
        lower_call_with_attributes as lower_call_with_attributes,
        lower_called_computation as lower_called_computation,
        lower_jaxpr_inline as lower_jaxpr_inline,
        lower_jaxpr_to_fun as lower_jaxpr_to_fun,
        lower_jit_call as lower_jit_call,
    )
    from jax._src.interpreters.mlir.module import (
        LoweringResult as LoweringResult,
        _platforms_with_donation as _platforms_with_donation,
        build_mlir_module_helper as build_mlir_module_helper,
        dump_jaxpr_to_file as dump_jaxpr_to_file,
        dump_module_message as dump_module_message,
        dump_module_to_file as dump_module_to_file,
        lower_jaxpr_to_module as lower_jaxpr_to_module,
        merge_mlir_modules as merge_mlir_modules,
        module_from_bytecode as module_from_bytecode,
        module_to_bytecode as module_to_bytecode,
        module_to_string as module_to_string,
        refine_polymorphic_shapes as refine_polymorphic_shapes,
        sanitize_name as sanitize_name,
    )


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax._src.interpreters.mlir.callbacks": (
            "emit_python_callback",
        ),
        "jax._src.interpreters.mlir.ffi": (
            "build_ffi_lowering_function", "ffi_lowering",
        ),
        "jax._src.interpreters.mlir.functions": (
            "call_lowering", "check_backend_matches", "core_call_lowering",
            "lower_call_with_attributes",
            "lower_called_computation", "lower_jaxpr_inline", "lower_jaxpr_to_fun",
            "lower_jit_call",
        ),
        "jax._src.interpreters.mlir.module": (
            "LoweringResult", "build_mlir_module_helper", "dump_jaxpr_to_file",
            "dump_module_message", "dump_module_to_file", "lower_jaxpr_to_module",
            "merge_mlir_modules", "module_from_bytecode", "module_to_bytecode", "module_to_string",
            "refine_polymorphic_shapes", "sanitize_name",
            "_platforms_with_donation",  # a name that outside code imports
        ),
    },
)  # fmt: skip
