"""Continuous distributions."""

import importlib
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.lax import lax, special as lax_special
from jax._src.numpy.util import check_arraylike, promote_dtypes_inexact
from jax._src.random.calls import (
    check_broadcast,
    check_params,
    float_dtype,
    inexact_dtype,
    keyed_jit,
    param_shape,
    shape_of,
)
from jax._src.random.uniform import between, log1p, pair, uniform_between, unit_floats


def tiny(dtype: np.dtype) -> np.ndarray:
    """Return the smallest positive normal number of `dtype`."""
    return np.array(dtypes.finfo(dtype).tiny, dtype)


def _param(x, dtype, shape):
    return lax.broadcast_to(lax.convert_element_type(x, dtype), shape)


# The normal distribution


def normal(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw from the standard normal distribution.

    The density is exp(-x**2 / 2) / sqrt(2 pi) for all real x. For complex dtypes it is
    exp(-abs(z)**2) / pi: the real and the imaginary part each have variance 1/2.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: float or complex dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.normal(jax.random.key(0), (2,)))
    [1.6226422 2.0252647]
    """
    dtype = inexact_dtype("normal", dtype)
    shape = shape_of("normal", shape)
    return _jit_normal("normal", key, shape=shape, dtype=dtype, out_sharding=out_sharding)


def normal_of(key, *, shape, dtype):
    if dtypes.issubdtype(dtype, np.complexfloating):
        key_re, key_im = pair(key)
        real_dtype = np.dtype(np.float64 if dtype == np.complex128 else np.float32)
        re = lax.convert_element_type(_real_normal(key_re, shape, real_dtype), dtype)
        im = lax.convert_element_type(_real_normal(key_im, shape, real_dtype), dtype)
        total = lax.add(re, lax.mul(np.array(1j, dtype), im))
        return lax.div(total, np.array(np.sqrt(2), dtype))
    return _real_normal(key, shape, dtype)


def _real_normal(key, shape, dtype):
    one = np.array(1.0, dtype)
    low = np.nextafter(-one, np.array(0.0, dtype), dtype=dtype)
    u = between(unit_floats(key, shape, dtype), low, one)
    return lax.mul(np.array(np.sqrt(2), dtype), lax_special.erf_inv(u))


_jit_normal = keyed_jit(normal_of, ("shape", "dtype"))


def multivariate_normal(
    key, mean, cov, shape=None, dtype: Any = None, method: str = "cholesky", *, out_sharding=None
):
    """Draw vectors from a multivariate normal distribution.

    The density is exp(-(x - mean)^T inv(cov) (x - mean) / 2) / sqrt((2 pi)**n det(cov)) on R^n.

    Args:
      key: PRNG key, typed or raw.
      mean: array of shape (..., n).
      cov: array of shape (..., n, n).
      shape: batch shape of the result; by default the batch shapes of mean and cov, broadcast.
      dtype: float dtype of the standard normal samples. The result has the promotion of this dtype
        and those of mean and cov.
      method: 'cholesky', 'eigh' or 'svd': the factorization of the covariance.
      out_sharding: sharding of the result.

    Returns:
      Array of shape (*shape, n).

    Raises:
      ValueError: if the shapes do not match, or the method is unknown.

    >>> print(jax.random.multivariate_normal(jax.random.key(0), jnp.zeros(2), jnp.eye(2)))
    [1.6226... 2.0252...]
    """
    check_arraylike("multivariate_normal", mean, cov)
    mean, cov = promote_dtypes_inexact(mean, cov)
    dtype = float_dtype("multivariate_normal", mean.dtype if dtype is None else dtype)
    if method not in {"svd", "eigh", "cholesky"}:
        raise ValueError("method must be one of {'svd', 'eigh', 'cholesky'}")
    mean_shape, cov_shape = np.shape(mean), np.shape(cov)
    if not mean_shape:
        raise ValueError("multivariate_normal requires mean.ndim >= 1, got mean.ndim == 0")
    if len(cov_shape) < 2:
        raise ValueError(
            f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {len(cov_shape)}"
        )
    n = mean_shape[-1]
    if cov_shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got "
            f"cov.shape == {cov_shape}."
        )
    if shape is None:
        shape = lax.broadcast_shapes(mean_shape[:-1], cov_shape[:-2])
    else:
        shape = shape_of("multivariate_normal", shape)
        check_broadcast("multivariate_normal", shape, mean_shape[:-1], cov_shape[:-2])
    return _jit_multivariate_normal(
        "multivariate_normal", key, mean, cov,
        shape=shape, dtype=dtype, method=method, out_sharding=out_sharding,
    )  # fmt: skip


def _multivariate_normal(key, mean, cov, *, shape, dtype, method):
    if method == "svd":
        u, s, _ = linear_algebra().svd(cov)
        factor = u * lax.sqrt(s[..., None, :])
    elif method == "eigh":
        w, v = linear_algebra().eigh(cov)
        factor = v * lax.sqrt(w[..., None, :])
    else:
        factor = linear_algebra().cholesky(cov)
    n = mean.shape[-1]
    samples = normal_of(key, shape=(*shape, n), dtype=dtype)
    mean, factor, samples = promote_dtypes_inexact(mean, factor, samples)
    # This is einsum("...ij,...j->...i", factor, samples); factor may have fewer batch dimensions.
    batch = factor.ndim - 2
    if not batch:
        if not shape:
            return lax.add(mean, lax.dot_general(factor, samples, (((1,), (0,)), ((), ()))))
        out = lax.dot_general(samples, factor, (((samples.ndim - 1,), (1,)), ((), ())))
    else:
        factor = lax.broadcast_to(factor, (*shape, n, n))
        dims = tuple(range(len(shape)))
        out = lax.dot_general(factor, samples, (((len(shape) + 1,), (len(shape),)), (dims, dims)))
    return lax.broadcast_to(mean, out.shape) + out


_jit_multivariate_normal = keyed_jit(_multivariate_normal, ("shape", "dtype", "method"))


def linear_algebra():
    """Import `jax.numpy.linalg` on first use, because most programs do not need it."""
    return importlib.import_module("jax._src.numpy.linalg")


def truncated_normal(key, lower, upper, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from the standard normal distribution truncated to an interval.

    The density is proportional to exp(-x**2 / 2) for lower < x < upper, and 0 elsewhere.

    Args:
      key: PRNG key, typed or raw.
      lower, upper: bounds, of shapes that broadcast to `shape`.
      shape: shape of the result; that of the bounds by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype, with values in the open interval (lower, upper).

    >>> print(jax.random.truncated_normal(jax.random.key(0), -1.0, 1.0, (2,)))
    [0.8618... 0.9412...]
    """
    dtype = float_dtype("truncated_normal", dtype)
    check_arraylike("truncated_normal", lower, upper)
    shape = param_shape("truncated_normal", shape, lower, upper)
    return _jit_truncated_normal(
        "truncated_normal", key, lower, upper, shape=shape, dtype=dtype, out_sharding=out_sharding
    )


def _truncated_normal(key, lower, upper, *, shape, dtype):
    lower, upper = lax.convert_element_type(lower, dtype), lax.convert_element_type(upper, dtype)
    sqrt2 = np.array(np.sqrt(2), dtype)
    a, b = lax_special.erf(lax.div(lower, sqrt2)), lax_special.erf(lax.div(upper, sqrt2))
    out = lax.mul(sqrt2, lax_special.erf_inv(uniform_between(key, a, b, shape=shape, dtype=dtype)))
    # Rounding may yield the bounds themselves; clamp to their neighbors inside the open interval.
    low = lax.nextafter(lax.stop_gradient(lower), np.array(np.inf, dtype))
    high = lax.nextafter(lax.stop_gradient(upper), np.array(-np.inf, dtype))
    return lax.min(
        lax.broadcast_to_rank(high, out.ndim), lax.max(lax.broadcast_to_rank(low, out.ndim), out)
    )


_jit_truncated_normal = keyed_jit(_truncated_normal, ("shape", "dtype"))


_ONE = np.float32(1.0)


def lognormal(key, sigma=_ONE, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from a log-normal distribution.

    The density is exp(-log(x)**2 / (2 sigma**2)) / (x sigma sqrt(2 pi)) for x > 0.

    Args:
      key: PRNG key, typed or raw.
      sigma: standard deviation of log(x); its shape broadcasts to `shape`.
      shape: shape of the result; that of `sigma` by default.
      dtype: float or complex dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.lognormal(jax.random.key(0), 0.5, (2,)))
    [2.2508... 2.7528...]
    """
    dtype = inexact_dtype("normal", dtype)
    check_params("lognormal", dtype, sigma)
    shape = param_shape("lognormal", shape, sigma)
    return _jit_lognormal(
        "lognormal", key, sigma, shape=shape, dtype=dtype, out_sharding=out_sharding
    )


def _lognormal(key, sigma, *, shape, dtype):
    normals = normal_of(key, shape=shape, dtype=dtype)
    return lax.exp(lax.mul(normals, _param(sigma, dtype, shape)))


_jit_lognormal = keyed_jit(_lognormal, ("shape", "dtype"))


# Distributions without parameters


def _simple(name: str, call, key, shape, dtype, out_sharding):
    dtype = float_dtype(name, dtype)
    return call(name, key, shape=shape_of(name, shape), dtype=dtype, out_sharding=out_sharding)


def exponential(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw from the exponential distribution of rate one.

    The density is exp(-x) for x >= 0.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.exponential(jax.random.key(0), (2,)))
    [2.950128  3.8434246]
    """
    return _simple("exponential", _jit_exponential, key, shape, dtype, out_sharding)


def exponential_of(key, *, shape, dtype):
    """Implement `exponential`: u lies in [0, 1), so log1p(-u) is finite."""
    return lax.neg(log1p(lax.neg(unit_floats(key, shape, dtype))))


exponential_of.__name__ = "_exponential"
_jit_exponential = keyed_jit(exponential_of, ("shape", "dtype"))


def gumbel(key, shape=(), dtype: Any = None, mode: str | None = None, *, out_sharding=None):
    """Draw from the standard Gumbel distribution.

    The density is exp(-(x + exp(-x))) for all real x.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: float dtype.
      mode: 'high' uses more random bits to resolve the tails, 'low' uses one draw; the default is
        'low', unless `jax_high_dynamic_range_gumbel` is on.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.gumbel(jax.random.key(0), (2,)))
    [2.9233... 3.8326...]
    """
    dtype = float_dtype("gumbel", dtype)
    mode = gumbel_mode(mode)
    return _jit_gumbel(
        "gumbel",
        key,
        shape=shape_of("gumbel", shape),
        dtype=dtype,
        mode=mode,
        out_sharding=out_sharding,
    )


def gumbel_mode(mode: str | None) -> str:
    """Return the mode to use, after replacing None by the configured default and checking it."""
    if mode is None:
        return "high" if config.use_high_dynamic_range_gumbel.value else "low"
    if mode not in ("high", "low"):
        raise ValueError(f"Must provide valid mode for gumbel got: {mode}")
    return mode


def gumbel_of(key, *, shape, dtype, mode):
    """Implement `gumbel`."""
    if mode == "high":
        high, low = two_floats(key, shape, dtype)
        eps = np.array(dtypes.finfo(dtype).eps, dtype)
        # Below 1/2 floats are denser than the multiples of eps drawn: refine with the second draw.
        fine = lax.add(lax.add(high, lax.mul(eps, low)), tiny(dtype))
        u = lax.select(lax.ge(high, np.array(0.5, dtype)), high, fine)
        return lax.neg(lax.log(lax.neg(log1p(lax.neg(u)))))
    u = between(unit_floats(key, shape, dtype), tiny(dtype), np.array(1.0, dtype))
    return lax.neg(lax.log(lax.neg(lax.log(u))))


gumbel_of.__name__ = "_gumbel"
_jit_gumbel = keyed_jit(gumbel_of, ("shape", "dtype", "mode"))


def two_floats(key, shape, dtype):
    """Draw two arrays of uniform numbers in [0, 1)."""
    u = unit_floats(key, (2, *shape), dtype)
    return u[0], u[1]


def laplace(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw from the standard Laplace distribution.

    The density is exp(-abs(x)) / 2 for all real x.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.laplace(jax.random.key(0), (2,)))
    [-2.2569... -3.1502...]
    """
    return _simple("laplace", _jit_laplace, key, shape, dtype, out_sharding)


def _laplace(key, *, shape, dtype):
    one = np.array(1.0, dtype)
    low = -one + np.array(dtypes.finfo(dtype).epsneg, dtype)
    u = between(unit_floats(key, shape, dtype), low, one)
    return lax.mul(lax.sign(u), log1p(lax.neg(lax.abs(u))))


_jit_laplace = keyed_jit(_laplace, ("shape", "dtype"))


def logistic(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw from the standard logistic distribution.

    The density is exp(-x) / (1 + exp(-x))**2 for all real x.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.logistic(jax.random.key(0), (2,)))
    [2.8963... 3.8217...]
    """
    return _simple("logistic", _jit_logistic, key, shape, dtype, out_sharding)


def _logistic(key, *, shape, dtype):
    x = between(unit_floats(key, shape, dtype), tiny(dtype), np.array(1.0, dtype))
    return lax.sub(lax.log(x), log1p(lax.neg(x)))


_jit_logistic = keyed_jit(_logistic, ("shape", "dtype"))


def cauchy(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw from the standard Cauchy distribution.

    The density is 1 / (pi (1 + x**2)) for all real x.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.cauchy(jax.random.key(0), (2,)))
    [ 6.0274... 14.8378...]
    """
    return _simple("cauchy", _jit_cauchy, key, shape, dtype, out_sharding)


def _cauchy(key, *, shape, dtype):
    eps = np.array(dtypes.finfo(dtype).eps, dtype)
    u = between(unit_floats(key, shape, dtype), eps, np.array(1.0, dtype))
    return lax.tan(lax.mul(np.array(np.pi, dtype), lax.sub(u, np.array(0.5, dtype))))


_jit_cauchy = keyed_jit(_cauchy, ("shape", "dtype"))


def maxwell(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw from the Maxwell distribution of scale one: the norm of a 3D standard normal vector.

    The density is sqrt(2 / pi) x**2 exp(-x**2 / 2) for x >= 0.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.maxwell(jax.random.key(0), (2,)))
    [2.6310... 0.9910...]
    """
    return _simple("maxwell", _jit_maxwell, key, shape, dtype, out_sharding)


def _maxwell(key, *, shape, dtype):
    x = _real_normal(key, (*shape, 3), dtype)
    return lax.sqrt(lax.mul(x, x).sum(-1))


_jit_maxwell = keyed_jit(_maxwell, ("shape", "dtype"))


# Distributions with parameters


def double_sided_maxwell(key, loc, scale, shape=(), dtype: Any = None):
    """Draw from a two-sided Maxwell distribution: with a random sign, scaled and shifted.

    With z = (x - loc) / scale, the density is z**2 exp(-z**2 / 2) / (scale sqrt(2 pi)) for real x.

    Args:
      key: PRNG key, typed or raw.
      loc, scale: shift and scale, of shapes that broadcast.
      shape: leading shape of the result; the broadcast shape of `loc` and `scale` follows it.
      dtype: float dtype.

    Returns:
      Array of that shape and dtype.
    """
    dtype = float_dtype("double_sided_maxwell", dtype)
    check_arraylike("double_sided_maxwell", loc, scale)
    params = lax.broadcast_shapes(np.shape(loc), np.shape(scale))
    shape = (*(shape_of("double_sided_maxwell", shape) or params), *params)
    return _jit_double_sided_maxwell(
        "double_sided_maxwell", key, loc, scale, shape=shape, dtype=dtype
    )


def _double_sided_maxwell(key, loc, scale, *, shape, dtype):
    maxwell_key, sign_key = pair(key)
    magnitude = _maxwell(maxwell_key, shape=shape, dtype=dtype)
    signs = rademacher_of(sign_key, shape=shape, dtype=dtype)
    return lax.mul(signs, magnitude) * scale + loc


_jit_double_sided_maxwell = keyed_jit(_double_sided_maxwell, ("shape", "dtype"))


def rademacher_of(key, *, shape, dtype):
    """Draw -1 or 1 with equal probability: implements `rademacher`."""
    float_ = dtypes.default_float_dtype()
    heads = lax.lt(unit_floats(key, shape, float_), np.array(0.5, float_))
    two, one = np.array(2, dtype), np.array(1, dtype)
    if dtype == np.bool_:
        return lax.full(shape, True, np.bool_)
    return lax.sub(lax.mul(two, lax.convert_element_type(heads, dtype)), one)


rademacher_of.__name__ = "_rademacher"


def weibull_min(key, scale, concentration, shape=(), dtype: Any = None):
    """Draw from the Weibull distribution of minima.

    With z = x / scale and c the concentration, the density is (c / scale) z**(c - 1) exp(-z**c) for
    x >= 0.

    Args:
      key: PRNG key, typed or raw.
      scale, concentration: parameters, of shapes that broadcast with `shape`.
      shape: shape of the underlying exponential samples.
      dtype: float dtype.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.weibull_min(jax.random.key(0), 1.0, 2.0, (2,)))
    [1.7175... 1.9604...]
    """
    dtype = float_dtype("weibull_min", dtype)
    check_arraylike("weibull_min", scale, concentration)
    shape = shape_of("weibull_min", shape)
    return _jit_weibull_min("weibull_min", key, scale, concentration, shape=shape, dtype=dtype)


def _weibull_min(key, scale, concentration, *, shape, dtype):
    e = exponential_of(key, shape=shape, dtype=dtype)
    return e ** (1.0 / concentration) * scale


_jit_weibull_min = keyed_jit(_weibull_min, ("shape", "dtype"))


def pareto(key, b, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from a Pareto distribution.

    The density is b / x**(b + 1) for x >= 1.

    Args:
      key: PRNG key, typed or raw.
      b: shape parameter of the distribution.
      shape: shape of the result; that of `b` by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.pareto(jax.random.key(0), 2.0, (2,)))
    [4.3713... 6.8326...]
    """
    dtype = float_dtype("pareto", dtype)
    check_params("pareto", dtype, b)
    shape = param_shape("pareto", shape, b)
    return _jit_pareto("pareto", key, b, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _pareto(key, b, *, shape, dtype):
    e = exponential_of(key, shape=shape, dtype=dtype)
    return lax.exp(lax.div(e, _param(b, dtype, shape)))


_jit_pareto = keyed_jit(_pareto, ("shape", "dtype"))


def rayleigh(key, scale, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from a Rayleigh distribution.

    The density is (x / scale**2) exp(-x**2 / (2 scale**2)) for x >= 0.

    Args:
      key: PRNG key, typed or raw.
      scale: scale parameter.
      shape: shape of the result; that of `scale` by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.rayleigh(jax.random.key(0), 2.0, (2,)))
    [0.6557... 0.4162...]
    """
    dtype = float_dtype("rayleigh", dtype)
    check_params("rayleigh", dtype, scale)
    shape = param_shape("rayleigh", shape, scale)
    return _jit_rayleigh(
        "rayleigh", key, scale, shape=shape, dtype=dtype, out_sharding=out_sharding
    )


def _rayleigh(key, scale, *, shape, dtype):
    log_u = lax.log(unit_floats(key, shape, dtype))
    return lax.mul(_param(scale, dtype, shape), lax.sqrt(lax.mul(log_u, np.array(-2, dtype))))


_jit_rayleigh = keyed_jit(_rayleigh, ("shape", "dtype"))


def wald(key, mean, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from a Wald (inverse Gaussian) distribution with shape parameter one.

    The density is exp(-(x - mean)**2 / (2 mean**2 x)) / sqrt(2 pi x**3) for x > 0.

    Args:
      key: PRNG key, typed or raw.
      mean: mean of the distribution.
      shape: shape of the result; that of `mean` by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.
    """
    dtype = float_dtype("wald", dtype)
    check_params("wald", dtype, mean)
    shape = param_shape("wald", shape, mean)
    return _jit_wald("wald", key, mean, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _wald(key, mean, *, shape, dtype):
    # Michael, Schucany and Haas, 1976: y is chi-square with one degree of freedom, and x and
    # mean**2 / x are the two values that y corresponds to.
    k1, k2 = pair(key)
    mean = _param(mean, dtype, shape)
    y = _real_normal(k1, shape, dtype) ** 2
    z = unit_floats(k2, shape, dtype)
    y_sq, mean_sq = y**2, mean**2
    root = lax.sqrt(4 * mean * y + mean_sq * y_sq)
    x = mean + mean_sq * y / 2 - mean / 2 * root
    return lax.select(z <= mean / (mean + x), x, mean_sq / x)


_jit_wald = keyed_jit(_wald, ("shape", "dtype"))


def triangular(key, left, mode, right, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from a triangular distribution.

    The density rises linearly from 0 at `left` to 2 / (right - left) at `mode`, and falls to 0 at
    `right`.

    Args:
      key: PRNG key, typed or raw.
      left, mode, right: where the density starts, peaks and ends.
      shape: shape of the result; that of the parameters by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.triangular(jax.random.key(0), 0.0, 1.0, 3.0, (2,)))
    [2.4396... 2.6415...]
    """
    dtype = float_dtype("triangular", dtype)
    check_params("triangular", dtype, left, mode, right)
    shape = param_shape("triangular", shape, left, mode, right)
    return _jit_triangular(
        "triangular", key, left, mode, right, shape=shape, dtype=dtype, out_sharding=out_sharding
    )


def _triangular(key, left, mode, right, *, shape, dtype):
    left, mode, right = (_param(x, dtype, shape) for x in (left, mode, right))
    fc = (mode - left) / (right - left)
    u = unit_floats(key, shape, dtype)
    low = left + lax.sqrt(u * (right - left) * (mode - left))
    high = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return lax.select(u < fc, low, high)


_jit_triangular = keyed_jit(_triangular, ("shape", "dtype"))


def orthogonal(
    key, n: int, shape=(), dtype: Any = None, m: int | None = None, *, out_sharding=None
):
    """Draw random orthogonal (for complex dtypes unitary) matrices.

    The distribution is uniform (Haar measure): multiplication by an orthogonal matrix preserves it.

    Args:
      key: PRNG key, typed or raw.
      n: number of rows.
      shape: batch shape of the result.
      dtype: float or complex dtype.
      m: number of columns; n by default.
      out_sharding: sharding of the result.

    Returns:
      Array of shape (*shape, n, m); its rows or its columns, whichever are fewer, are orthonormal.

    >>> print(jax.random.orthogonal(jax.random.key(0), 2))
    [[ 0.9661... 0.2581...]
     [-0.2581... 0.9661...]]
    """
    shape = shape_of("orthogonal", shape)
    dtype = inexact_dtype("normal", dtype)
    n = core.concrete_or_error(
        core.canonicalize_dim, n, "The error occurred in jax.random.orthogonal()"
    )
    if m is None:
        m = n
    else:
        m = core.concrete_or_error(
            core.canonicalize_dim, m, "The error occurred in jax.random.orthogonal()"
        )
    if n < 0 or m < 0:
        raise ValueError(f"orthogonal: n and m must not be negative, got {n} and {m}")
    return _jit_orthogonal(
        "orthogonal", key, shape=shape, dtype=dtype, n=n, m=m, out_sharding=out_sharding
    )


def _orthogonal(key, *, shape, dtype, n, m):
    z = normal_of(key, shape=(*shape, max(n, m), min(n, m)), dtype=dtype)
    q, r = linear_algebra().qr(z)
    # QR alone does not give Haar measure; multiply by the signs of R's diagonal to make it unique.
    d = linear_algebra().diagonal(r)
    x = q * lax.expand_dims(lax.sign(d), (d.ndim - 1,))
    return x.mT if n < m else x


_jit_orthogonal = keyed_jit(_orthogonal, ("shape", "dtype", "n", "m"))
