"""Special functions: the implementation of `jax.scipy.special`."""

from jax._src.ops.special import logsumexp as logsumexp
from jax._src.scipy.special.bessel import (
    bessel_jn as bessel_jn,
    i0 as i0,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
    zeta as zeta,
)
from jax._src.scipy.special.elementary import (
    boxcox as boxcox,
    boxcox1p as boxcox1p,
    entr as entr,
    expit as expit,
    kl_div as kl_div,
    log_softmax as log_softmax,
    logit as logit,
    rel_entr as rel_entr,
    softmax as softmax,
    xlog1py as xlog1py,
    xlogx as _xlogx,  # a name that outside code imports
    xlogy as xlogy,
)
from jax._src.scipy.special.error import (
    dawsn as dawsn,
    erf as erf,
    erfc as erfc,
    erfcx as erfcx,
    erfinv as erfinv,
    fresnel as fresnel,
    log_ndtr as log_ndtr,
    ndtr as ndtr,
    ndtri as ndtri,
    owens_t as owens_t,
    wofz as wofz,
)
from jax._src.scipy.special.gamma import (
    beta as beta,
    betainc as betainc,
    betaln as betaln,
    comb as comb,
    digamma as digamma,
    factorial as factorial,
    gamma as gamma,
    gammainc as gammainc,
    gammaincc as gammaincc,
    gammaln as gammaln,
    gammasgn as gammasgn,
    loggamma as loggamma,
    multigammaln as multigammaln,
    poch as poch,
    polygamma as polygamma,
)
from jax._src.scipy.special.hypergeometric import hyp1f1 as hyp1f1, hyp2f1 as hyp2f1
from jax._src.scipy.special.integrals import (
    exp1 as exp1,
    expi as expi,
    expn as expn,
    sici as sici,
    spence as spence,
)
from jax._src.scipy.special.orthogonal import bernoulli as bernoulli, sph_harm_y as sph_harm_y
