"""Tracing functions to jaxprs, and partial evaluation of jaxprs."""

from jax._src.interpreters.jaxpr_trace import (
    JaxprTracer as JaxprTracer,
    PartialVal as PartialVal,
    custom_partial_eval_rules as custom_partial_eval_rules,
    stage_wrapped_fun as trace_to_jaxpr_dynamic,
    trace_to_jaxpr_nounits as trace_to_jaxpr_nounits,
)
from jax._src.interpreters.partial_eval import (
    DynamicJaxprTracer as DynamicJaxprTracer,
    dce_jaxpr as dce_jaxpr,
    dce_jaxpr_consts as dce_jaxpr_consts,
    dce_rules as dce_rules,
    partial_eval_jaxpr_custom_rules as partial_eval_jaxpr_custom_rules,
)
from jax._src.interpreters.split_rules import (
    dce_jaxpr_call_rule as dce_jaxpr_call_rule,
    dce_jaxpr_closed_call_rule as dce_jaxpr_closed_call_rule,
)
