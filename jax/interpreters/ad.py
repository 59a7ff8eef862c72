"""Automatic differentiation: traces and rules of primitives."""

from jax._src.interpreters.ad import (
    JVPTrace as JVPTrace,
    JVPTracer as JVPTracer,
    UndefinedPrimal as UndefinedPrimal,
    Zero as Zero,
    add_jaxvals as add_jaxvals,
    add_tangents as add_tangents,
    defbilinear as defbilinear,
    defjvp as defjvp,
    defjvp2 as defjvp2,
    deflinear as deflinear,
    deflinear2 as deflinear2,
    get_primitive_transpose as get_primitive_transpose,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
    jvp as jvp,
    primitive_jvps as primitive_jvps,
    primitive_transposes as primitive_transposes,
    zeros_like_aval as zeros_like_aval,
)
from jax._src.interpreters.ad._compat import linearize as linearize
from jax._src.lax.lax import add_any_p as add_jaxvals_p
