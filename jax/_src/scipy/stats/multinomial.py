"""The multinomial distribution: `jax.scipy.stats.multinomial`."""

from __future__ import annotations

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import reductions, util
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.deviance import deviance, log_factorial_rest
from jax._src.typing import ArrayLike
from jax._src.util import set_module

export = set_module("jax.scipy.stats.multinomial")


@export
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Logarithm of the probability mass function of the multinomial distribution.

    Args:
      x: integer array of shape `(..., k)`: the counts.
      n: integer array of shape `(...)`: the number of trials.
      p: array of shape `(..., k)`: the probabilities, whose sum is 1.

    Returns:
      An array of shape `(...)`, -inf where the counts are negative or their sum is not `n`.

    Raises:
      ValueError: if `x` or `n` has no integer dtype.

    >>> jax.scipy.stats.multinomial.logpmf(jnp.array([1, 2]), 3, jnp.array([0.25, 0.75]))
    Array(-0.863..., dtype=float32)
    """
    x, n, p = map(util.to_array, util.arraylike("multinomial.logpmf", x, n, p))
    for name, counts in (("x", x), ("n", n)):
        if not dtypes.issubdtype(counts.dtype, np.integer):
            raise ValueError(
                f"multinomial.logpmf: x and n must be of integer type; got {name}.dtype={counts.dtype}. Convert it."
            )
    (p,) = util.promote_dtypes_inexact(p)
    if dtypes.issubdtype(p.dtype, np.complexfloating):
        raise TypeError(f"multinomial.logpmf does not accept dtype {p.dtype}. Pass real numbers.")
    return _logpmf(x, n, p)


@nested_jit
def _logpmf(x, n, p):
    dtype = p.dtype
    wide = np.dtype(np.float32) if dtypes.itemsize_bits(dtype) < 32 else dtype
    inside = reductions.all(x >= 0, axis=-1) & (reductions.sum(x, axis=-1) == n)
    valid = reductions.all((p >= 0) & (p <= 1), axis=-1)
    counts, total, p = (lax.convert_type(v, wide, False) for v in (x, n, p))
    counts, total = where(counts < 0, 0, counts), where(total < 0, 0, total)
    p = where(p >= 0, p, 0)
    means = lax.expand_dims(total, (total.ndim,)) * p
    counts, means = util.broadcast_arrays(counts, means)
    terms = log_factorial_rest(counts) + deviance(counts, means)
    # The means sum up to n only if the probabilities sum up to 1.
    excess = reductions.sum(means, axis=-1) - total
    out = log_factorial_rest(total) - reductions.sum(terms, axis=-1) + excess
    inside, valid, out = util.broadcast_arrays(inside, valid, out)
    out = where(valid, where(inside, out, -np.inf), np.nan)
    return lax.convert_element_type(out, dtype)


@export
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Probability mass function of the multinomial distribution.

    Args:
      x: integer array of shape `(..., k)`: the counts.
      n: integer array of shape `(...)`: the number of trials.
      p: array of shape `(..., k)`: the probabilities, whose sum is 1.

    Returns:
      An array of shape `(...)`.

    >>> jax.scipy.stats.multinomial.pmf(jnp.array([1, 2]), 3, jnp.array([0.25, 0.75]))
    Array(0.421..., dtype=float32)
    """
    return lax.exp(logpmf(x, n, p))
