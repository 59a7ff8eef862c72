"""The multivariate normal distribution: `jax.scipy.stats.multivariate_normal`."""

from __future__ import annotations

import math

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, linalg
from jax._src.numpy import reductions, util
from jax._src.typing import ArrayLike
from jax._src.util import set_module

export = set_module("jax.scipy.stats.multivariate_normal")

_LOG_2PI = math.log(2 * math.pi)


@export
def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """Logarithm of the probability density function of the multivariate normal distribution.

    Args:
      x: array of shape `(..., n)` of points.
      mean: array of shape `(..., n)`; a scalar for the normal distribution of each number.
      cov: array of shape `(..., n, n)`, positive definite, or a scalar, the variance of independent coordinates.
      allow_singular: None. Singular covariances are not supported.

    Returns:
      An array of the shape `(...)` that the arguments' leading dimensions broadcast to, NaN where `cov` is not
      positive definite.

    Raises:
      ValueError: if `cov` does not match `mean`.

    >>> jax.scipy.stats.multivariate_normal.logpdf(jnp.array([1.0, 2.0]), jnp.zeros(2), jnp.eye(2))
    Array(-4.337..., dtype=float32)
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "multivariate_normal.logpdf: allow_singular is not implemented. Pass a positive definite `cov`."
        )
    args = util.promote_dtypes_inexact(*util.arraylike("multivariate_normal.logpdf", x, mean, cov))
    x, mean, cov = map(util.to_array, args)
    n = mean.shape[-1] if mean.ndim else None
    if n is not None and cov.ndim and (cov.ndim < 2 or cov.shape[-2:] != (n, n)):
        raise ValueError(
            "multivariate_normal.logpdf got incompatible shapes: the last two dimensions of cov have to be the last "
            f"of mean, got x.shape={x.shape}, mean.shape={mean.shape}, cov.shape={cov.shape}."
        )
    return _logpdf(x, mean, cov)


@nested_jit
def _logpdf(x, mean, cov):
    dtype = x.dtype
    weak = x.aval.weak_type and mean.aval.weak_type and cov.aval.weak_type
    wide = np.dtype(np.float32) if dtypes.itemsize_bits(dtype) < 32 else dtype
    x, mean, cov = (lax.convert_type(v, wide, False) for v in (x, mean, cov))
    distance = x - mean
    if not mean.ndim:
        out = -0.5 * (distance * distance / cov + lax.log(cov) + _LOG_2PI)
    elif not cov.ndim:
        squares = reductions.sum(distance * distance, axis=-1) / cov
        out = -0.5 * (squares + mean.shape[-1] * (lax.log(cov) + _LOG_2PI))
    else:
        out = _with_matrix(distance, cov)
    return lax.convert_type(out, dtype, weak)


def _with_matrix(distance, cov):
    n = distance.shape[-1]
    batch = lax.broadcast_shapes(distance.shape[:-1], cov.shape[:-2])
    factor = linalg.cholesky(cov)
    diagonal = util.to_array(factor).diagonal(axis1=-2, axis2=-1)
    log_root = reductions.sum(lax.log(diagonal), axis=-1)
    factor = util.broadcast_to(factor, (*batch, n, n))
    distance = util.broadcast_to(distance, (*batch, n))
    y = linalg.triangular_solve(
        factor, lax.expand_dims(distance, (distance.ndim,)), left_side=True, lower=True
    )
    squares = reductions.sum(y * y, axis=(-2, -1))
    return -0.5 * squares - 0.5 * n * _LOG_2PI - log_root


@export
def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Probability density function of the multivariate normal distribution.

    Args:
      x: array of shape `(..., n)` of points.
      mean: array of shape `(..., n)`, or a scalar.
      cov: array of shape `(..., n, n)`, positive definite, or a scalar.

    Returns:
      An array of the shape `(...)` that the arguments' leading dimensions broadcast to.

    >>> jax.scipy.stats.multivariate_normal.pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))
    Array(0.159..., dtype=float32)
    """
    return lax.exp(logpdf(x, mean, cov))
