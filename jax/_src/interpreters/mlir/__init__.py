"""Lowering of jaxprs to StableHLO.

`lower_jaxpr_to_module` makes a module of a jaxpr. A primitive's lowering rule (`register_lowering`) is
called with a `LoweringRuleContext`, its operands as IR values and its parameters, and emits operations
at the insertion point.
"""

from jax._src.interpreters.mlir.constants import (
    dense_bool_array,
    dense_bool_elements,
    dense_int_array,
    dense_int_elements,
    get_attribute_handler,
    get_constant_handler,
    i32_attr,
    i64_attr,
    ir_attribute,
    ir_constant,
    ir_constants,
    ir_consts,
    numpy_array_attribute,
    register_attribute_handler,
    register_constant_handler,
)
from jax._src.interpreters.mlir.context import (
    COLLECTIVE_CHANNEL_ID,
    DEVICE_TO_DEVICE_TYPE,
    RECV_FROM_HOST_TYPE,
    SEND_TO_HOST_TYPE,
    LoweringParameters,
    LoweringRuleContext,
    ModuleContext,
    ShapePolyLoweringState,
    TokenSet,
    make_ir_context,
    upstream_dialects,
)
from jax._src.interpreters.mlir.custom_call import custom_call
from jax._src.interpreters.mlir.functions import (
    call_lowering,
    check_backend_matches,
    core_call_lowering,
    lower_called_computation,
    lower_jaxpr_inline,
    lower_jaxpr_to_fun,
    lower_jit_call,
)
from jax._src.interpreters.mlir.locations import source_info_to_location
from jax._src.interpreters.mlir.module import (
    LoweringResult,
    build_mlir_module_helper,
    dump_module_message,
    dump_module_to_file,
    lower_jaxpr_to_module,
    merge_mlir_modules,
    module_to_bytecode,
    module_to_string,
    refine_polymorphic_shapes,
    sanitize_name,
)
from jax._src.interpreters.mlir.ops import (
    add_jaxvals_lowering,
    broadcast_in_dim,
    compare_hlo,
    convert_hlo,
    dynamic_slice,
    dynamic_update_slice,
    emit,
    eval_dynamic_shape,
    eval_dynamic_shape_as_ivals,
    eval_dynamic_shape_as_tensor,
    eval_dynamic_shape_as_vals,
    full_like_aval,
    iota,
    max_hlo,
    min_hlo,
    multi_broadcast_in_dim,
    pad,
    reduce_window,
    reshape,
    shape_tensor,
    slice_op,
)
from jax._src.interpreters.mlir.rules import (
    LoweringRule,
    delegate_lowering,
    find_rules,
    jaxpr_subcomp,
    lower_fun,
    lower_per_platform,
    map_compute_type,
    outlined,
    register_lowering,
    wrap_compute_type_in_place,
    wrap_xla_metadata_in_place,
)
from jax._src.interpreters.mlir.shardings import (
    add_manual_axes,
    all_unconstrained,
    contains_unconstrained,
    get_mem_kind,
    get_sharding_attr,
    lower_with_sharding_in_types,
    replicate_trailing_dims,
    set_sharding,
    sharded_aval,
    to_ir_sharding,
    to_xla_layout,
    wrap_with_full_to_shard_op,
    wrap_with_layout_op,
    wrap_with_memory_kind,
    wrap_with_shard_to_full_op,
    wrap_with_sharding_op,
)
from jax._src.interpreters.mlir.types import (
    IrTypes,
    IrValues,
    aval_to_ir_type,
    aval_to_ir_types,
    dtype_to_ir_type,
    flatten_ir_types,
    flatten_ir_values,
    ir_type_handlers,
    len_ir_types,
    token_type,
    unflatten_ir_values_like_types,
)
from jax._src.lib.mlir import dialects, ir
from jax._src.lib.mlir.dialects import chlo, func as func_dialect, hlo, sdy
