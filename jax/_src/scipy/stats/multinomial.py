"""The multinomial distribution: `jax.scipy.stats.multinomial`."""

from __future__ import annotations

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import reductions, util
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.deviance import deviance, likelihood, log_factorial_rest, scaled_shares
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
    return _log_mass(*_operands("logpmf", x, n, p))


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
    return _mass(*_operands("pmf", x, n, p))


def _operands(name, x, n, p):
    name = f"multinomial.{name}"
    x, n, p = map(util.to_array, util.arraylike(name, x, n, p))
    for argument, counts in (("x", x), ("n", n)):
        if not dtypes.issubdtype(counts.dtype, np.integer):
            raise ValueError(
                f"{name}: x and n must be of integer type; got {argument}.dtype={counts.dtype}. Convert it."
            )
    (p,) = util.promote_dtypes_inexact(p)
    if dtypes.issubdtype(p.dtype, np.complexfloating):
        raise TypeError(f"{name} does not accept dtype {p.dtype}. Pass real numbers.")
    return x, n, p


@nested_jit
def _log_mass(x, n, p):
    counts, means, rest, constant = _parts(x, n, p)
    out = constant - reductions.sum(deviance(counts, means, rest), axis=-1)
    return _finish(x, n, p, out, -np.inf)


@nested_jit
def _mass(x, n, p):
    counts, means, rest, constant = _parts(x, n, p)
    out = reductions.prod(likelihood(counts, means, rest), axis=-1) * lax.exp(constant)
    return _finish(x, n, p, out, 0)


def _parts(x, n, p):
    """Returns the counts, their means, which are doubled numbers, and the terms that are not deviances."""
    wide = np.dtype(np.float32) if dtypes.itemsize_bits(p.dtype) < 32 else p.dtype
    counts, total, p = (lax.convert_type(v, wide, False) for v in (x, n, p))
    counts, total = where(counts < 0, 0, counts), where(total < 0, 0, total)
    counts, p = util.broadcast_arrays(counts, where(p >= 0, p, 0))
    # The means sum up to n only if the probabilities sum up to 1.
    means, rest, excess = scaled_shares(p, util.broadcast_to(total, p.shape[:-1]), axis=-1)
    rests = reductions.sum(log_factorial_rest(counts), axis=-1)
    return counts, means, rest, log_factorial_rest(total) - rests + excess


def _finish(x, n, p, out, nothing):
    inside = reductions.all(x >= 0, axis=-1) & (reductions.sum(x, axis=-1) == n)
    valid = reductions.all((p >= 0) & (p <= 1), axis=-1)
    inside, valid, out = util.broadcast_arrays(inside, valid, out)
    out = where(valid, where(inside, out, nothing), np.nan)
    return lax.convert_element_type(out, p.dtype)
