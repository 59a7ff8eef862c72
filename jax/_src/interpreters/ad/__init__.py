"""Differentiation: forward mode, linearization onto a tape, and transposition.

In forward mode, `JVPTrace` pairs each value with its tangent. Reverse mode starts with
linearization: `LinearizeTrace` computes primal values in the parent trace, while a `TapeTrace`
  records operations on
tangents as a list of linear operations (`TapeEqn`) with their residuals. Walking the tape backwards
computes cotangents. A tape is turned into a jaxpr only if one is requested.
"""

from jax._src.ad_util import (
    SymbolicZero as SymbolicZero,
    Zero as Zero,
    add_cotangents as add_cotangents,
    add_jaxvals as add_jaxvals,
    add_tangents as add_tangents,
    instantiate as instantiate,
    replace_internal_symbolic_zeros as replace_internal_symbolic_zeros,
    replace_rule_output_symbolic_zeros as replace_rule_output_symbolic_zeros,
    zeros_like_aval as zeros_like_aval,
)
from jax._src.interpreters.ad.custom_linear import (
    CustomVJPException as CustomVJPException,
    custom_lin_p as custom_lin_p,
    custom_vjp_linearize as custom_vjp_linearize,
    raise_custom_vjp_error_on_jvp as raise_custom_vjp_error_on_jvp,
)
from jax._src.interpreters.ad.forward import (
    JVPTrace as JVPTrace,
    JVPTracer as JVPTracer,
    TangentTrace as TangentTrace,
    TangentTracer as TangentTracer,
    jvp as jvp,
    jvp_jaxpr as jvp_jaxpr,
)
from jax._src.interpreters.ad.linearize import (
    LinearizedJaxpr as LinearizedJaxpr,
    LinearizeTrace as LinearizeTrace,
    LinearizeTracer as LinearizeTracer,
    linearize as linearize,
    linearize_jaxpr as linearize_jaxpr,
    linearize_trace as linearize_trace,
    vjp as vjp,
)
from jax._src.interpreters.ad.rules import (
    bilinear_transpose as bilinear_transpose,
    defbilinear as defbilinear,
    defjvp as defjvp,
    defjvp2 as defjvp2,
    defjvp_zero as defjvp_zero,
    deflinear as deflinear,
    deflinear2 as deflinear2,
    get_primitive_transpose as get_primitive_transpose,
    linear_jvp as linear_jvp,
    operand_jvp as operand_jvp,
    replacing as replacing,
    standard_jvp as standard_jvp,
    standard_jvp2 as standard_jvp2,
    zero_jvp as zero_jvp,
)
from jax._src.interpreters.ad.tape import (
    Linearized as Linearized,
    TapeEqn as TapeEqn,
    TapeTrace as TapeTrace,
    TapeTracer as TapeTracer,
)
from jax._src.interpreters.ad.transpose import (
    backward_pass as backward_pass,
    transpose_jaxpr as transpose_jaxpr,
)
from jax._src.interpreters.ad.values import (
    UndefinedPrimal as UndefinedPrimal,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
    p2cz as p2cz,
    p2tz as p2tz,
    primitive_jvps as primitive_jvps,
    primitive_linearizations as primitive_linearizations,
    primitive_transposes as primitive_transposes,
    zero_of as zero_of,
)
