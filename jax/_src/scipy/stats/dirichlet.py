"""The Dirichlet distribution: `jax.scipy.stats.dirichlet`."""

from __future__ import annotations

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import reductions, util
from jax._src.numpy.manipulation import concatenate
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.deviance import deviance, likelihood, log_factorial_rest, scaled_shares
from jax._src.typing import ArrayLike
from jax._src.util import set_module

export = set_module("jax.scipy.stats.dirichlet")


@export
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Logarithm of the probability density function of the Dirichlet distribution.

    Args:
      x: array of shape `(n, ...)` of points of the simplex, or `(n - 1, ...)` without their last coordinate.
      alpha: array of shape `(n,)`, positive: the concentrations.

    Returns:
      An array of shape `(...)`, -inf for points that are not inside of the simplex.

    Raises:
      ValueError: if the shapes do not match.

    >>> jax.scipy.stats.dirichlet.logpdf(jnp.array([0.25, 0.25, 0.5]), jnp.array([1.0, 2.0, 3.0]))
    Array(1.321..., dtype=float32)
    """
    return _log_density(*_operands("logpdf", x, alpha))


@export
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Probability density function of the Dirichlet distribution.

    Args:
      x: array of shape `(n, ...)` of points of the simplex, or `(n - 1, ...)` without their last coordinate.
      alpha: array of shape `(n,)`, positive: the concentrations.

    Returns:
      An array of shape `(...)`.

    >>> jax.scipy.stats.dirichlet.pdf(jnp.array([0.25, 0.25, 0.5]), jnp.array([1.0, 2.0, 3.0])).round(4)
    Array(3.75, dtype=float32)
    """
    return _density(*_operands("pdf", x, alpha))


def _operands(name, x, alpha):
    name = f"dirichlet.{name}"
    x, alpha = map(util.to_array, util.promote_dtypes_inexact(*util.arraylike(name, x, alpha)))
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise TypeError(f"{name} does not accept dtype {x.dtype}. Pass real numbers.")
    shapes = f"got x.shape={x.shape}, alpha.shape={alpha.shape}"
    if alpha.ndim != 1:
        raise ValueError(f"{name}: `alpha` must be one-dimensional; {shapes}")
    if x.ndim < 1 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            f"{name}: `x` must have either the same number of entries as `alpha` or one entry fewer; {shapes}"
        )
    return x, alpha


@nested_jit
def _log_density(x, alpha):
    inside, p, alpha, constant = _parts(x, alpha)
    mean, rest, excess = _means(p, alpha)
    terms = deviance(alpha, mean, rest) + lax.log(p)
    out = constant - reductions.sum(terms, axis=0) + excess
    return lax.convert_element_type(where(inside, out, -np.inf), x.dtype)


@nested_jit
def _density(x, alpha):
    inside, p, alpha, constant = _parts(x, alpha)
    mean, rest, excess = _means(p, alpha)
    factors = likelihood(util.broadcast_to(alpha, p.shape), mean, rest) / p
    out = reductions.prod(factors, axis=0) * lax.exp(constant + excess)
    return lax.convert_element_type(where(inside, out, 0), x.dtype)


def _parts(x, alpha):
    """Returns whether points are inside of the simplex, arguments that are positive, and the constant terms."""
    dtype = x.dtype
    wide = np.dtype(np.float32) if dtypes.itemsize_bits(dtype) < 32 else dtype
    x, alpha = (lax.convert_type(v, wide, False) for v in (x, alpha))
    if x.shape[0] != alpha.shape[0]:
        x = concatenate([x, 1 - reductions.sum(x, axis=0, keepdims=True)], axis=0)
    alpha = lax.expand_dims(alpha, tuple(range(1, x.ndim)))
    tolerance = max(1e-6, float(dtypes.finfo(dtype).eps)) if wide != np.float64 else 1e-6
    simplex = abs(reductions.sum(x, axis=0) - 1) < tolerance
    inside = simplex & reductions.all(x > 0, axis=0) & reductions.all(alpha > 0, axis=0)
    alpha = where(alpha > 0, alpha, 1)
    total = reductions.sum(alpha, axis=0)
    # As in the multinomial distribution, without the cancellation of the logarithms of gamma functions.
    constant = log_factorial_rest(total) - lax.log(total)
    constant = constant - reductions.sum(log_factorial_rest(alpha) - lax.log(alpha), axis=0)
    return inside, where(x > 0, x, 1), alpha, constant


def _means(p, alpha):
    total = util.broadcast_to(reductions.sum(alpha, axis=0), p.shape[1:])
    return scaled_shares(p, total, axis=0)
