"""Core types of traced programs: abstract values, tracers, traces and jaxprs.

Libraries that implement transformations find more in `jax.extend.core`.
"""

from typing import Any as _Any

from jax._src import (
    active_traces as _active_traces,
    core as _core,
    deprecations as _deprecations_module,
)
from jax._src.core import (
    AbstractValue as AbstractValue,
    Atom as Atom,
    ShapedArray as ShapedArray,
    Trace as Trace,
    Tracer as Tracer,
    ensure_compile_time_eval as ensure_compile_time_eval,
    eval_context as eval_context,
    eval_jaxpr as eval_jaxpr,
    max_dim as max_dim,
    min_dim as min_dim,
)

ParamDict = dict[str, _Any]
Value = _Any

# Names that moved to jax.extend.core or jax.errors; accessing them here is deprecated.
_moved = dict.fromkeys(
    (
        "DebugInfo", "DropVar", "Effect", "Effects", "check_jaxpr", "concrete_or_error",
        "find_top_trace", "gensym", "get_opaque_trace_state", "jaxprs_in_params", "new_jaxpr_eqn",
        "no_effects", "primal_dtype_to_tangent_dtype", "valid_jaxtype",
    ),
    "jax.extend.core",
) | dict.fromkeys(("InconclusiveDimensionOperation", "JaxprTypeError"), "jax.errors")  # fmt: skip
# Deprecated names without a replacement.
_going = (
    "JaxprPpContext", "JaxprPpSettings", "abstract_token", "aval_mapping_handlers",
    "custom_typechecks", "is_concrete", "is_constant_dim", "is_constant_shape", "literalable_types",
    "no_axis_name", "pytype_aval_mappings", "trace_ctx",
)  # fmt: skip
_going_questions = (
    "nonempty_axis_env_DO_NOT_USE", "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE",
)  # fmt: skip
_gone = {name: f"jax.extend.core.{name}" for name in (
    "AbstractToken", "TraceTag", "mapped_aval", "set_current_trace", "subjaxprs",
    "take_current_trace", "unmapped_aval",
)} | {"get_aval": "jax.typeof", "traverse_jaxpr_params": "jax.extend.core.jaxprs_in_params"}  # fmt: skip

_deprecations = (
    {
        name: (f"jax.core.{name} is deprecated: use {place}.{name}.", getattr(_core, name))
        for name, place in _moved.items()
    }
    | {name: (f"jax.core.{name} is deprecated.", getattr(_core, name)) for name in _going}
    | {
        name: (f"jax.core.{name} is deprecated.", getattr(_active_traces, name))
        for name in _going_questions
    }
    | {name: (f"jax.core.{name} was removed: use {place}.", None) for name, place in _gone.items()}
)
__getattr__ = _deprecations_module.deprecation_getattr(__name__, _deprecations)
