"""Special functions: gamma, zeta, error, Bessel and incomplete functions, with derivatives."""

from jax._src.lax.special.basic import (
    bessel_i0e as bessel_i0e,
    bessel_i0e_p as bessel_i0e_p,
    bessel_i1e as bessel_i1e,
    bessel_i1e_p as bessel_i1e_p,
    digamma as digamma,
    digamma_p as digamma_p,
    erf as erf,
    erf_inv as erf_inv,
    erf_inv_p as erf_inv_p,
    erf_p as erf_p,
    erfc as erfc,
    erfc_p as erfc_p,
    lgamma as lgamma,
    lgamma_p as lgamma_p,
    polygamma as polygamma,
    polygamma_p as polygamma_p,
    zeta as zeta,
    zeta_p as zeta_p,
)
from jax._src.lax.special.incomplete import (
    betainc as betainc,
    igamma as igamma,
    igamma_grad_a as igamma_grad_a,
    igamma_grad_a_p as igamma_grad_a_p,
    igamma_p as igamma_p,
    igammac as igammac,
    igammac_p as igammac_p,
    random_gamma_grad as random_gamma_grad,
    random_gamma_grad_p as random_gamma_grad_p,
    regularized_incomplete_beta_p as regularized_incomplete_beta_p,
)
