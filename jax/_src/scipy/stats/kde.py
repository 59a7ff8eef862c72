"""Estimation of densities by Gaussian kernels: `jax.scipy.stats.gaussian_kde`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.linalg import cholesky, inv
from jax._src.numpy.manipulation.shape import atleast_1d, atleast_2d
from jax._src.numpy.statistics import cov as covariance_of
from jax._src.ops.special import logsumexp
from jax._src.random import continuous, discrete, keys
from jax._src.scipy import linalg, special
from jax._src.scipy.special.common import where
from jax._src.tree_util import register_pytree_node_class
from jax._src.typing import ArrayLike
from jax._src.util import set_module

Bandwidth = None | str | ArrayLike | Callable[[Any], ArrayLike]


@set_module("jax.scipy.stats")
@register_pytree_node_class
@dataclasses.dataclass(frozen=True, init=False, slots=True)
class gaussian_kde:
    """Density of which a data set is a sample: a sum of normal distributions around the points of the data set.

    It is a tree of arrays: functions that are compiled, differentiated or batched take and return it.

    Args:
      dataset: real array of n points: of shape (n,), or (d, n) for points in d dimensions.
      bw_method: the bandwidth: "scott" (as None) for neff ** (-1 / (d + 4)), "silverman" for
        (neff * (d + 2) / 4) ** (-1 / (d + 4)), a number, or a function of this object to a number.
      weights: array of n numbers, the points' weights; None for equal ones.

    Attributes:
      neff: the effective number of points, 1 / sum(weights**2).
      dataset: array of shape (d, n).
      weights: array of shape (n,), whose sum is one.
      covariance: array of shape (d, d), that of each of the normal distributions.
      inv_cov: its inverse.

    Raises:
      NotImplementedError: for complex arguments.
      ValueError: if there are less than two numbers in the data set, or a shape is wrong.

    Source: Scott, "Multivariate Density Estimation" (1992); Silverman, "Density Estimation" (1986).

    >>> density = jax.scipy.stats.gaussian_kde(jnp.array([0.0, 1.0, 1.5, 4.0]))
    >>> density(jnp.array([1.0, 10.0])).round(3)
    Array([0.231, 0.   ], dtype=float32)
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self, dataset: ArrayLike, bw_method: Bandwidth = None, weights: ArrayLike | None = None
    ) -> None:
        name = "jax.scipy.stats.gaussian_kde"
        given = [dataset] if weights is None else [dataset, weights]
        arrays = _reals(name, *given)
        points = atleast_2d(arrays[0])
        if points.ndim != 2 or points.size < 2:
            raise ValueError(
                f"{name} needs a dataset of shape (n,) or (d, n) with at least two elements, got shape {np.shape(dataset)}."
            )
        n = points.shape[1]
        if weights is None:
            weight = lax.full((n,), 1 / n, points.dtype)
        else:
            weight = atleast_1d(arrays[1])
            if weight.shape != (n,):
                raise ValueError(
                    f"{name} needs weights of shape ({n},), one for each point of the dataset of shape "
                    f"{np.shape(dataset)}, got shape {np.shape(weights)}."
                )
            weight = weight / weight.sum()
        # Functions that give the bandwidth use these attributes.
        self._set("dataset", points)
        self._set("weights", weight)
        self._set("neff", 1 / (weight * weight).sum())
        factor = lax.convert_element_type(self._factor(bw_method), points.dtype)
        data_covariance = atleast_2d(covariance_of(points, bias=False, aweights=weight))
        self._set("covariance", data_covariance * factor**2)
        self._set("inv_cov", inv(data_covariance) / factor**2)

    def _set(self, name, value):
        object.__setattr__(self, name, value)

    def _factor(self, bw_method):
        if callable(bw_method):
            bw_method = bw_method(self)
        if bw_method is None or (isinstance(bw_method, str) and bw_method == "scott"):
            return self.neff ** (-1 / (self.d + 4))
        if isinstance(bw_method, str) and bw_method == "silverman":
            return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))
        if isinstance(bw_method, str) or not util.is_arraylike(bw_method) or np.shape(bw_method):
            raise ValueError(
                "jax.scipy.stats.gaussian_kde: `bw_method` should be 'scott', 'silverman', a number, or a function that "
                f"returns one, got {bw_method!r}."
            )
        return _reals("jax.scipy.stats.gaussian_kde", bw_method)[0]

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Sequence[Any]) -> gaussian_kde:
        kde = object.__new__(cls)
        for field, child in zip(dataclasses.fields(cls), children, strict=True):
            kde._set(field.name, child)
        return kde

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points in the data set."""
        return self.dataset.shape[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points.

        Args:
          points: array of shape (d, m), also (m,) if d is one, or (d,) for one point otherwise.

        Returns:
          Array of shape (m,).

        Raises:
          NotImplementedError: for complex points.
          ValueError: if the shape is wrong.
        """
        return lax.exp(self._log_density("evaluate", points))

    def __call__(self, points: ArrayLike) -> Array:
        """The density at points, see `evaluate`."""
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """The density at points, see `evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at points, which are as for `evaluate`; also where the density underflows."""
        return self._log_density("logpdf", x)

    def _log_density(self, name, points):
        (x,) = _reals(f"gaussian_kde.{name}", points)
        x = atleast_2d(x)
        if x.ndim == 2 and x.shape[0] == 1 and x.shape[1] == self.d:
            x = lax.reshape(x, (self.d, 1))
        if x.ndim != 2 or x.shape[0] != self.d:
            raise ValueError(
                f"gaussian_kde.{name}: points have shape {np.shape(points)}, but for a dataset of shape "
                f"{self.dataset.shape} they have dimension {self.d}. Pass an array of shape ({self.d}, m)."
            )
        arrays = util.promote_dtypes_inexact(x, self.dataset, self.weights, self.covariance)
        return _log_density_at(*arrays)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the product with the density of a normal distribution.

        Args:
          mean: array of shape (d,), or a number if d is one.
          cov: covariance, array of shape (d, d), or a number if d is one.

        Returns:
          Array without dimensions.

        Raises:
          ValueError: if a shape is wrong.
        """
        center, matrix = _reals("gaussian_kde.integrate_gaussian", mean, cov)
        if center.size != self.d or center.ndim > 2:
            raise ValueError(
                f"gaussian_kde.integrate_gaussian needs a mean of shape ({self.d},), got {np.shape(mean)}."
            )
        if atleast_2d(matrix).shape != (self.d, self.d):
            raise ValueError(
                f"gaussian_kde.integrate_gaussian needs a covariance of shape ({self.d}, {self.d}), got {np.shape(cov)}."
            )
        center = lax.reshape(center, (self.d, 1))
        center, matrix, data, weights, own = util.promote_dtypes_inexact(
            center, atleast_2d(matrix), self.dataset, self.weights, self.covariance
        )
        return lax.exp(_log_density_at(center, data, weights, own + matrix))[0]

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The integral between two numbers, if d is one.

        Args:
          low: number, also -inf.
          high: number, also inf; if it is lower than `low`, the result is negative.

        Returns:
          Array without dimensions.

        Raises:
          ValueError: if d is not one, or a limit is not a number.
        """
        if self.d != 1:
            raise ValueError(
                f"gaussian_kde.integrate_box_1d needs one dimension, the dataset has shape {self.dataset.shape}."
            )
        limits = _reals("gaussian_kde.integrate_box_1d", low, high)
        if any(x.ndim for x in limits):
            raise ValueError(
                f"gaussian_kde.integrate_box_1d: limits must be scalars, got shapes {np.shape(low)} and {np.shape(high)}."
            )
        return _box(
            *util.promote_dtypes_inexact(*limits, self.dataset, self.weights, self.covariance)
        )

    def integrate_box(
        self, low_bounds: ArrayLike, high_bounds: ArrayLike, maxpts: int | None = None
    ) -> NoReturn:
        """Raises NotImplementedError: only `integrate_box_1d` is implemented."""
        raise NotImplementedError(
            "gaussian_kde.integrate_box is not implemented. Use integrate_box_1d for one dimension, or the means of samples."
        )

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product with another density.

        Args:
          other: estimate in the same number of dimensions.

        Returns:
          Array without dimensions.

        Raises:
          TypeError: if `other` is not a `gaussian_kde`.
          ValueError: if the numbers of dimensions differ.
        """
        if not isinstance(other, gaussian_kde):
            raise TypeError(
                f"gaussian_kde.integrate_kde takes a jax.scipy.stats.gaussian_kde, got {type(other).__name__}."
            )
        if other.d != self.d:
            raise ValueError(
                "gaussian_kde.integrate_kde: the numbers of dimensions differ, for datasets of shapes "
                f"{self.dataset.shape} and {other.dataset.shape}."
            )
        points, other_weights, data, weights, own, others = util.promote_dtypes_inexact(
            other.dataset,
            other.weights,
            self.dataset,
            self.weights,
            self.covariance,
            other.covariance,
        )
        return (lax.exp(_log_density_at(points, data, weights, own + others)) * other_weights).sum()

    def resample(self, key: ArrayLike, shape: Sequence[int] = ()) -> Array:
        """Random points of the distribution.

        Args:
          key: random key.
          shape: shape of the batch of points.

        Returns:
          Array of shape `(d, *shape)`.
        """
        index_key, noise_key = keys.split(key)
        nearest = discrete.choice(index_key, self.n, shape, p=self.weights)
        shape = nearest.shape
        # In reverse order, as PyPI's build has it for one and two batch dimensions.
        noise = continuous.multivariate_normal(
            noise_key,
            lax.full((self.d,), 0, self.dataset.dtype),
            self.covariance,
            shape[::-1],
            self.dataset.dtype,
        )
        centres = self.dataset[:, nearest]  # each point is near one of the dataset
        return centres + noise.transpose()

    def set_bandwidth(self, bw_method: Bandwidth = None) -> NoReturn:
        """Raises NotImplementedError: estimates are immutable."""
        raise NotImplementedError(
            "gaussian_kde.set_bandwidth is not implemented: estimates are immutable. Make a new one with `bw_method`."
        )


def _reals(name, *args):
    """Converts arguments to real arrays of one dtype, which has at least single precision."""
    arrays = [util.to_array(x) for x in util.promote_dtypes_inexact(*util.arraylike(name, *args))]
    dtype = arrays[0].dtype
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise NotImplementedError(f"{name} does not support complex numbers, got dtype {dtype}.")
    dtype = dtypes.promote_types(dtype, np.float32)
    return [lax.convert_type(x, dtype, False) for x in arrays]


def _log_density_impl(points, dataset, weights, covariance):
    """Log density of shape (m,) of a mixture with one covariance, at points of shape (d, m)."""
    factor = cholesky(covariance)
    # Of large numbers, the differences are exact, but not those of their products.
    center = lax.stop_gradient(dataset.mean(axis=1, keepdims=True))
    x, y = (
        linalg.solve_triangular(factor, z - center, lower=True)
        if len(factor) > 1
        else (z - center) / factor
        for z in (points, dataset)
    )
    difference = x[:, None, :] - y[:, :, None]
    energy = 0.5 * (difference * difference).sum(axis=0)
    log_norm = lax.log(factor.diagonal()).sum() + 0.5 * len(factor) * math.log(2 * math.pi)
    return logsumexp(-energy, b=weights[:, None], axis=0) - log_norm


_log_density_at = nested_jit(_log_density_impl)


def _box_impl(low, high, dataset, weights, covariance):
    sigma = lax.sqrt(covariance[0, 0])
    low, high = (low - dataset[0]) / sigma, (high - dataset[0]) / sigma
    # In the upper tail, 1 - ndtr(x) = ndtr(-x) does not cancel.
    upper = (low > 0) & (high > 0)
    low, high = where(upper, -high, low), where(upper, -low, high)
    return ((special.ndtr(high) - special.ndtr(low)) * weights).sum()


_box = nested_jit(_box_impl)
