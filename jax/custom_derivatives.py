"""Functions with custom derivative rules."""

from jax._src.custom_derivatives import (
    CustomVJPPrimal as CustomVJPPrimal,
    SymbolicZero as SymbolicZero,
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
    custom_jvp as custom_jvp,
    custom_jvp_call_p as custom_jvp_call_p,
    custom_vjp as custom_vjp,
    custom_vjp_call_p as custom_vjp_call_p,
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
    remat_opt_p as remat_opt_p,
    zero_from_primal as zero_from_primal,
)
from jax._src.transforms.linear_call import linear_call as linear_call
