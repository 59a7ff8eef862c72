"""Functions with custom derivative rules: `custom_jvp`, `custom_vjp`, `custom_gradient`."""

from jax._src.ad_util import SymbolicZero
from jax._src.custom_derivatives.common import resolve_kwargs
from jax._src.custom_derivatives.gradient import (
    closure_convert,
    custom_gradient,
    zero_from_primal,
)
from jax._src.custom_derivatives.jvp import custom_jvp, custom_jvp_call_p
from jax._src.custom_derivatives.remat_opt import remat_opt_p
from jax._src.custom_derivatives.vjp import (
    CustomVJPException,
    CustomVJPPrimal,
    custom_vjp,
    custom_vjp_call_p,
    custom_vjp_primal_tree_values,
)
