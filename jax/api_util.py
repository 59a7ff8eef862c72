"""Helpers for transformations that are implemented outside of JAX.

Functions to transform are passed as `WrappedFun`s, which `jax.extend.linear_util.wrap_init` makes.
"""

from jax._src.api_util import (
    debug_info as debug_info,
    donation_vector as donation_vector,
    flatten_axes as flatten_axes,
    rebase_donate_argnums as rebase_donate_argnums,
    shaped_abstractify as shaped_abstractify,
)
from jax._src.linear_util import (
    argnums_partial as argnums_partial,
    flatten_fun as flatten_fun,
    flatten_fun_nokwargs as flatten_fun_nokwargs,
)
from jax._src.util import safe_map as safe_map
