"""Taylor-mode automatic differentiation: propagates truncated Taylor series through a function."""

from jax._src.jet import elementary, higher_order
from jax._src.jet.trace import (
    JetTrace,
    JetTracer,
    ZeroSeries,
    ZeroTerm,
    call_param_updaters,
    def_comp,
    def_deriv,
    deflinear,
    defzero,
    deriv_prop,
    fact,
    jet,
    jet_rules,
    linear_prop,
    zero_prop,
    zero_series,
    zero_term,
)
