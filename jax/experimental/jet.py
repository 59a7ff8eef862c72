"""Taylor-mode automatic differentiation."""

from jax import api_util as api_util, lax as lax, numpy as jnp
from jax._src.jet import (
    JetTrace as JetTrace,
    JetTracer as JetTracer,
    ZeroSeries as ZeroSeries,
    ZeroTerm as ZeroTerm,
    call_param_updaters as call_param_updaters,
    def_comp as def_comp,
    def_deriv as def_deriv,
    deflinear as deflinear,
    defzero as defzero,
    deriv_prop as deriv_prop,
    fact as fact,
    jet as jet,
    jet_rules as jet_rules,
    linear_prop as linear_prop,
    zero_prop as zero_prop,
    zero_series as zero_series,
    zero_term as zero_term,
)
from jax._src.jet.elementary import logistic_taylor as _logistic_taylor
from jax._src.tree_util import (
    register_pytree_node as register_pytree_node,
    tree_flatten as tree_flatten,
    tree_structure as tree_structure,
    tree_unflatten as tree_unflatten,
    treedef_is_leaf as treedef_is_leaf,
)
from jax._src.util import (
    safe_zip as safe_zip,
    unzip2 as unzip2,
    weakref_lru_cache as weakref_lru_cache,
)
