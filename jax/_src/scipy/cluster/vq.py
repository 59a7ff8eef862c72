"""Vector quantization: the implementation of `jax.scipy.cluster.vq`."""

from __future__ import annotations

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import reductions, util
from jax._src.numpy.sorting import argmin
from jax._src.typing import ArrayLike
from jax._src.util import set_module


@set_module("jax.scipy.cluster.vq")
def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Assigns to each observation the nearest code of a code book.

    Args:
      obs: array of shape (m, n), of m observations, or (m,).
      code_book: array of shape (k, n), of k codes, or (k,).
      check_finite: has no effect: SciPy rejects values that are not finite, but whether there are any
        is not known while tracing. Observations with NaN get NaN as their distance.

    Returns:
      The number of the nearest code, and the distance from it, of each observation, of shape (m,). Of
      several nearest codes the first is taken.

    Raises:
      ValueError: if the arguments differ in rank or in the number of columns, have another rank than 1 or
        2, or `code_book` is empty.

    >>> codes, distances = jax.scipy.cluster.vq.vq(jnp.array([1.0, 5.0]), jnp.array([0.0, 4.5]))
    >>> print(codes, distances)
    [0 1] [1.  0.5]
    """
    del check_finite
    util.check_arraylike("jax.scipy.cluster.vq.vq", obs, code_book)
    obs, code_book = map(util.to_array, util.promote_dtypes_inexact(obs, code_book))
    shapes = f"got shapes {obs.shape} and {code_book.shape}"
    if obs.ndim != code_book.ndim:
        raise ValueError(f"Observation and code_book should have the same rank, {shapes}.")
    if obs.ndim not in (1, 2):
        raise ValueError(
            f"jax.scipy.cluster.vq.vq: ndim different than 1 or 2 are not supported, {shapes}."
        )
    if obs.shape[1:] != code_book.shape[1:]:
        raise ValueError(f"obs and code_book should have the same number of columns, {shapes}.")
    if not code_book.shape[0]:
        raise ValueError(
            f"jax.scipy.cluster.vq.vq: code_book has to have at least one code, {shapes}."
        )
    return _vq(obs, code_book)


def _vq_impl(obs, code_book):
    if obs.ndim == 1:
        obs, code_book = lax.expand_dims(obs, (1,)), lax.expand_dims(code_book, (1,))
    difference = lax.expand_dims(obs, (1,)) - lax.expand_dims(code_book, (0,))
    if dtypes.issubdtype(difference.dtype, np.complexfloating):
        squares = lax.real(difference) ** 2 + lax.imag(difference) ** 2
    else:
        squares = lax.square(difference)
    distances = lax.sqrt(reductions.sum(squares, axis=-1))
    return argmin(distances, axis=-1), reductions.min(distances, axis=-1)


_vq_impl.__name__ = "vq"
_vq = nested_jit(_vq_impl)
