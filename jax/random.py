"""Random number generation: pure functions of explicit keys.

>>> key = jax.random.key(0)
>>> key, subkey = jax.random.split(key)
>>> print(jax.random.normal(subkey, (2,)))
[-2.4424558 -2.0356805]
"""

from jax._src.random.continuous import (
    cauchy as cauchy,
    double_sided_maxwell as double_sided_maxwell,
    exponential as exponential,
    gumbel as gumbel,
    laplace as laplace,
    logistic as logistic,
    lognormal as lognormal,
    maxwell as maxwell,
    multivariate_normal as multivariate_normal,
    normal as normal,
    orthogonal as orthogonal,
    pareto as pareto,
    rayleigh as rayleigh,
    triangular as triangular,
    truncated_normal as truncated_normal,
    wald as wald,
    weibull_min as weibull_min,
)
from jax._src.random.discrete import (
    bernoulli as bernoulli,
    binomial as binomial,
    categorical as categorical,
    choice as choice,
    geometric as geometric,
    multinomial as multinomial,
    poisson as poisson,
    rademacher as rademacher,
)
from jax._src.random.gamma import (
    ball as ball,
    beta as beta,
    chisquare as chisquare,
    dirichlet as dirichlet,
    f as f,
    gamma as gamma,
    generalized_normal as generalized_normal,
    loggamma as loggamma,
    random_gamma_p as random_gamma_p,
    t as t,
)
from jax._src.random.keys import (
    PRNGKey as PRNGKey,
    clone as clone,
    fold_in as fold_in,
    key as key,
    key_data as key_data,
    key_dtype as key_dtype,
    key_impl as key_impl,
    split as split,
    wrap_key_data as wrap_key_data,
)
from jax._src.random.uniform import (
    bits as bits,
    permutation as permutation,
    randint as randint,
    uniform as uniform,
)
