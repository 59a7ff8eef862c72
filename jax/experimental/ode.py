"""Ordinary differential equations."""

# Also names of helpers, which the original's module has too.
from jax import (
    api_util as api_util,
    custom_derivatives as custom_derivatives,
    lax as lax,
    numpy as jnp,
)
from jax._src.flatten_util import ravel_pytree as ravel_pytree
from jax._src.numpy.util import promote_dtypes_inexact as promote_dtypes_inexact
from jax._src.ode import (
    abs2 as abs2,
    fit_4th_order_polynomial as fit_4th_order_polynomial,
    initial_step_size as initial_step_size,
    interp_fit_dopri as interp_fit_dopri,
    mean_error_ratio as mean_error_ratio,
    odeint as odeint,
    optimal_step_size as optimal_step_size,
    ravel_first_arg as ravel_first_arg,
    runge_kutta_step as runge_kutta_step,
)
from jax._src.tree_util import tree_leaves as tree_leaves, tree_map as tree_map
from jax._src.util import safe_map as safe_map, safe_zip as safe_zip

map, zip = safe_map, safe_zip
