"""Continuous distributions."""

import functools
import math
from typing import Any

import numpy as np

import jax.numpy as jnp
from jax._src import config, core, dtypes
from jax._src.api import jit, vmap
from jax._src.core import Primitive, ShapedArray
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import control_flow, lax
from jax._src.lax import special as lax_special
from jax._src.random import prng
from jax._src.random.keys import check_prng_key, split
from jax._src.random.uniform import (
    canonicalize_dtype,
    canonicalize_shape,
    check_broadcast,
    check_float_dtype,
    uniform,
    with_out_sharding,
)


def _shape_of(name: str, shape: Any, *params: Any) -> tuple[int, ...]:
    """The result's shape: as given, or that of the parameters broadcast together."""
    if shape is None:
        return np.broadcast_shapes(*map(np.shape, params))
    shape = canonicalize_shape(name, shape)
    check_broadcast(name, shape, *map(np.shape, params))
    return shape


def _tiny(dtype):
    return dtypes.finfo(dtype).tiny


def normal(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Standard normal numbers; for complex dtypes real and imaginary parts have variance 1/2.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: float or complex dtype.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.normal(jax.random.key(0), (2,)))
    [1.6226422 2.0252647]
    """
    key, _ = check_prng_key("normal", key)
    dtype = canonicalize_dtype(dtype, float, "normal")
    if not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(
            "dtype argument to `normal` must be a float or complex dtype, got " f"{dtypes.dtype_name(dtype)}"
        )
    shape = canonicalize_shape("normal", shape)
    return with_out_sharding(lambda k: _normal(k, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _normal(key, *, shape, dtype):
    if dtypes.issubdtype(dtype, np.complexfloating):
        key_re, key_im = split(key)
        real_dtype = np.dtype(np.float64 if dtype == np.complex128 else np.float32)
        re = _normal_real(key_re, shape=shape, dtype=real_dtype)
        im = _normal_real(key_im, shape=shape, dtype=real_dtype)
        return lax.mul(lax.complex(re, im), np.array(1 / np.sqrt(2), dtype))
    return _normal_real(key, shape=shape, dtype=dtype)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _normal_real(key, *, shape, dtype):
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    u = uniform(key, shape, dtype, low, np.array(1.0, dtype))
    return lax.mul(np.array(np.sqrt(2), dtype), lax.erf_inv(u))


def multivariate_normal(
    key, mean, cov, shape=None, dtype: Any = None, method: str = "cholesky", *, out_sharding=None
):
    """Multivariate normal vectors.

    Args:
      key: a key.
      mean: array of shape (..., n).
      cov: array of shape (..., n, n).
      shape: batch shape of the result; that of mean and cov by default.
      dtype: float dtype.
      method: 'cholesky', 'eigh' or 'svd': how the covariance is factored.

    Returns:
      Array of shape (*shape, n).
    """
    key, _ = check_prng_key("multivariate_normal", key)
    mean, cov = jnp.asarray(mean), jnp.asarray(cov)
    dtype = check_float_dtype("multivariate_normal", dtype or jnp.promote_types(*_inexact(mean, cov)))
    if method not in {"svd", "eigh", "cholesky"}:
        raise ValueError("method must be one of {'svd', 'eigh', 'cholesky'}")
    if mean.ndim < 1:
        raise ValueError(f"multivariate_normal requires mean.ndim >= 1, got mean.ndim == {mean.ndim}")
    if cov.ndim < 2:
        raise ValueError(f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {cov.ndim}")
    n = mean.shape[-1]
    if cov.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got {cov.shape=}."
        )
    if shape is None:
        shape = np.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    else:
        shape = canonicalize_shape("multivariate_normal", shape)
        check_broadcast("normal", shape, mean.shape[:-1], cov.shape[:-2])
    mean, cov = mean.astype(dtype), cov.astype(dtype)
    if method == "svd":
        u, s, _ = jnp.linalg.svd(cov)
        factor = u * jnp.sqrt(s[..., None, :])
    elif method == "eigh":
        w, v = jnp.linalg.eigh(cov)
        factor = v * jnp.sqrt(w[..., None, :])
    else:
        factor = jnp.linalg.cholesky(cov)
    samples = normal(key, (*shape, n), dtype)
    return mean + jnp.einsum("...ij,...j->...i", factor, samples)


def _inexact(*xs):
    return [dtypes.to_inexact_dtype(x.dtype) for x in xs]


def truncated_normal(key, lower, upper, shape=None, dtype: Any = None, *, out_sharding=None):
    """Standard normal numbers between two bounds.

    Args:
      key: a key.
      lower, upper: bounds, of shapes that broadcast to `shape`.
      shape: shape of the result; that of the bounds by default.
      dtype: float dtype.

    Returns:
      Array of that shape and dtype, with values in the open interval (lower, upper).
    """
    key, _ = check_prng_key("truncated_normal", key)
    dtype = check_float_dtype("truncated_normal", dtype)
    shape = _shape_of("truncated_normal", shape, lower, upper)
    return with_out_sharding(
        lambda k: _truncated_normal(k, lower, upper, shape=shape, dtype=dtype), key, out_sharding, shape
    )


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _truncated_normal(key, lower, upper, *, shape, dtype):
    lower, upper = lax.convert_element_type(lower, dtype), lax.convert_element_type(upper, dtype)
    sqrt2 = np.array(np.sqrt(2), dtype)
    a, b = lax.erf(lax.div(lower, sqrt2)), lax.erf(lax.div(upper, sqrt2))
    u = uniform(key, shape, dtype, minval=a, maxval=b)
    out = lax.mul(sqrt2, lax.erf_inv(u))
    # Rounding must not bring values onto the bounds.
    return jnp.clip(
        out,
        lax.nextafter(lax.stop_gradient(lower), np.array(np.inf, dtype)),
        lax.nextafter(lax.stop_gradient(upper), np.array(-np.inf, dtype)),
    )


def _simple(name: str, key, shape, dtype, out_sharding, body):
    """A distribution without parameters: `body(key, shape=, dtype=)` is jitted."""
    key, _ = check_prng_key(name, key)
    dtype = check_float_dtype(name, dtype)
    shape = canonicalize_shape(name, shape)
    return with_out_sharding(lambda k: body(k, shape=shape, dtype=dtype), key, out_sharding, shape)


def exponential(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Exponentially distributed numbers of rate one.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: float dtype.
    """
    return _simple("exponential", key, shape, dtype, out_sharding, _exponential)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _exponential(key, *, shape, dtype):
    u = uniform(key, shape, dtype)
    # u is in [0, 1), so that log1p(-u) is finite.
    return lax.neg(lax.log1p(lax.neg(u)))


def gumbel(key, shape=(), dtype: Any = None, mode: str | None = None, *, out_sharding=None):
    """Gumbel distributed numbers.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: float dtype.
      mode: 'high' for more random bits, hence better tails; 'low' by default, as
        `jax_use_high_dynamic_range_gumbel` says.
    """
    key, _ = check_prng_key("gumbel", key)
    dtype = check_float_dtype("gumbel", dtype)
    shape = canonicalize_shape("gumbel", shape)
    if mode is None:
        mode = "high" if config.use_high_dynamic_range_gumbel.value else "low"
    if mode not in ("high", "low"):
        raise ValueError("Must provide valid mode for gumbel got: " f"{mode}")
    return with_out_sharding(
        lambda k: _gumbel(k, shape=shape, dtype=dtype, mode=mode), key, out_sharding, shape
    )


@functools.partial(jit, static_argnames=("shape", "dtype", "mode"))
def _gumbel(key, *, shape, dtype, mode):
    if mode == "high":
        high, low = _uniform_two(key, shape, dtype)
        # -log(-log(u)) with u = high + low * eps, from the complement for large u.
        x = lax.log1p(lax.neg(high))
        del low
        return lax.neg(lax.log(lax.neg(x)))
    u = uniform(key, shape, dtype, minval=_tiny(dtype), maxval=np.array(1.0, dtype))
    return lax.neg(lax.log(lax.neg(lax.log(u))))


def _uniform_two(key, shape, dtype):
    k1, k2 = split(key)
    return uniform(k1, shape, dtype), uniform(k2, shape, dtype)


def laplace(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Laplace distributed numbers.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: float dtype.
    """
    return _simple("laplace", key, shape, dtype, out_sharding, _laplace)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _laplace(key, *, shape, dtype):
    eps = dtypes.finfo(dtype).eps
    u = uniform(key, shape, dtype, minval=lax.add(np.array(-1.0, dtype), np.array(eps, dtype)), maxval=1.0)
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


def logistic(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Logistically distributed numbers.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: float dtype.
    """
    return _simple("logistic", key, shape, dtype, out_sharding, _logistic)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _logistic(key, *, shape, dtype):
    x = uniform(key, shape, dtype, minval=dtypes.finfo(dtype).eps, maxval=1.0)
    return lax.log(lax.div(x, lax.sub(lax._const(x, 1), x)))


def cauchy(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Cauchy distributed numbers.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: float dtype.
    """
    return _simple("cauchy", key, shape, dtype, out_sharding, _cauchy)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _cauchy(key, *, shape, dtype):
    u = uniform(key, shape, dtype, minval=dtypes.finfo(dtype).eps, maxval=1.0)
    return lax.tan(lax.mul(lax._const(u, np.pi), lax.sub(u, lax._const(u, 0.5))))


def maxwell(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Numbers of the Maxwell distribution with scale one.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: float dtype.
    """
    return _simple("maxwell", key, shape, dtype, out_sharding, _maxwell)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _maxwell(key, *, shape, dtype):
    return jnp.linalg.norm(normal(key, (*shape, 3), dtype), axis=-1)


def double_sided_maxwell(key, loc, scale, shape=(), dtype: Any = None):
    """Numbers of the Maxwell distribution with a random sign, shifted and scaled.

    Args:
      key: a key.
      loc, scale: shift and scale.
      shape: shape of the result, before that of `loc` and `scale`.
      dtype: float dtype.
    """
    key, _ = check_prng_key("double_sided_maxwell", key)
    dtype = check_float_dtype("double_sided_maxwell", dtype)
    shape = canonicalize_shape("double_sided_maxwell", shape)
    return _double_sided_maxwell(key, loc, scale, shape=shape, dtype=dtype)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _double_sided_maxwell(key, loc, scale, *, shape, dtype):
    params = np.broadcast_shapes(np.shape(loc), np.shape(scale))
    shape = shape or params
    maxwell_key, rademacher_key = split(key)
    magnitude = maxwell(maxwell_key, shape, dtype)
    signs = bernoulli_signs(rademacher_key, shape, dtype)
    return magnitude * signs * scale + loc


def bernoulli_signs(key, shape, dtype):
    """Minus one or one with equal probability."""
    heads = uniform(key, shape) < 0.5
    return (2 * heads - 1).astype(dtype)


def weibull_min(key, scale, concentration, shape=(), dtype: Any = None):
    """Numbers of the Weibull distribution of minima.

    Args:
      key: a key.
      scale, concentration: parameters.
      shape: shape of the result.
      dtype: float dtype.
    """
    key, _ = check_prng_key("weibull_min", key)
    dtype = check_float_dtype("weibull_min", dtype)
    shape = canonicalize_shape("weibull_min", shape)
    return _weibull_min(key, scale, concentration, shape=shape, dtype=dtype)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _weibull_min(key, scale, concentration, *, shape, dtype):
    u = uniform(key, shape, dtype)
    return jnp.power(-jnp.log1p(-u), 1.0 / concentration) * scale


def lognormal(key, sigma=np.float32(1.0), shape=None, dtype: Any = None, *, out_sharding=None):
    """Log-normal numbers.

    Args:
      key: a key.
      sigma: standard deviation of the logarithm.
      shape: shape of the result; that of `sigma` by default.
      dtype: float dtype.
    """
    key, _ = check_prng_key("lognormal", key)
    dtype = check_float_dtype("lognormal", dtype)
    shape = _shape_of("lognormal", shape, sigma)
    return with_out_sharding(
        lambda k: _lognormal(k, sigma, shape=shape, dtype=dtype), key, out_sharding, shape
    )


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _lognormal(key, sigma, *, shape, dtype):
    sigma = jnp.broadcast_to(lax.convert_element_type(sigma, dtype), shape)
    return lax.exp(normal(key, shape, dtype) * sigma)


def pareto(key, b, shape=None, dtype: Any = None, *, out_sharding=None):
    """Pareto distributed numbers.

    Args:
      key: a key.
      b: shape parameter of the distribution.
      shape: shape of the result; that of `b` by default.
      dtype: float dtype.
    """
    key, _ = check_prng_key("pareto", key)
    dtype = check_float_dtype("pareto", dtype)
    shape = _shape_of("pareto", shape, b)
    return with_out_sharding(lambda k: _pareto(k, b, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _pareto(key, b, *, shape, dtype):
    b = jnp.broadcast_to(lax.convert_element_type(b, dtype), shape)
    return lax.exp(exponential(key, shape, dtype) / b)


def rayleigh(key, scale, shape=None, dtype: Any = None, *, out_sharding=None):
    """Rayleigh distributed numbers.

    Args:
      key: a key.
      scale: scale parameter.
      shape: shape of the result; that of `scale` by default.
      dtype: float dtype.
    """
    key, _ = check_prng_key("rayleigh", key)
    dtype = check_float_dtype("rayleigh", dtype)
    shape = _shape_of("rayleigh", shape, scale)
    return with_out_sharding(lambda k: _rayleigh(k, scale, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _rayleigh(key, scale, *, shape, dtype):
    u = uniform(key, shape, dtype)
    scale = jnp.broadcast_to(scale.astype(dtype), shape)
    return scale * jnp.sqrt(-2 * jnp.log1p(-u))


def wald(key, mean, shape=None, dtype: Any = None, *, out_sharding=None):
    """Wald (inverse Gaussian) distributed numbers.

    Args:
      key: a key.
      mean: mean of the distribution.
      shape: shape of the result; that of `mean` by default.
      dtype: float dtype.
    """
    key, _ = check_prng_key("wald", key)
    dtype = check_float_dtype("wald", dtype)
    shape = _shape_of("wald", shape, mean)
    return with_out_sharding(lambda k: _wald(k, mean, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _wald(key, mean, *, shape, dtype):
    k1, k2 = split(key)
    mean = jnp.broadcast_to(mean.astype(dtype), shape)
    v = normal(k1, shape, dtype)
    z = uniform(k2, shape, dtype)
    y = v * v
    y_sq, mean_sq = y * y, mean * mean
    sqrt_term = jnp.sqrt(4 * mean * y + mean_sq * y_sq)
    x = mean + mean_sq * y / 2 - mean / 2 * sqrt_term
    return jnp.where(z <= mean / (mean + x), x, mean_sq / x)


def triangular(key, left, mode, right, shape=None, dtype: Any = None, *, out_sharding=None):
    """Numbers of a triangular distribution.

    Args:
      key: a key.
      left, mode, right: where the density starts, peaks and ends.
      shape: shape of the result; that of the parameters by default.
      dtype: float dtype.
    """
    key, _ = check_prng_key("triangular", key)
    dtype = check_float_dtype("triangular", dtype)
    shape = _shape_of("triangular", shape, left, mode, right)
    return with_out_sharding(
        lambda k: _triangular(k, left, mode, right, shape=shape, dtype=dtype), key, out_sharding, shape
    )


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _triangular(key, left, mode, right, *, shape, dtype):
    left, mode, right = (jnp.broadcast_to(lax.convert_element_type(x, dtype), shape) for x in (left, mode, right))
    fc = (mode - left) / (right - left)
    u = uniform(key, shape, dtype)
    low = left + jnp.sqrt(u * (right - left) * (mode - left))
    high = right - jnp.sqrt((1 - u) * (right - left) * (right - mode))
    return jnp.where(u < fc, low, high)


def generalized_normal(key, p, shape=(), dtype: Any = None, *, out_sharding=None):
    """Numbers whose density is proportional to exp(-|x|^p).

    Args:
      key: a key.
      p: exponent.
      shape: shape of the result.
      dtype: float dtype.
    """
    key, _ = check_prng_key("generalized_normal", key)
    dtype = check_float_dtype("generalized_normal", dtype)
    shape = canonicalize_shape("generalized_normal", shape)
    return with_out_sharding(
        lambda k: _generalized_normal(k, p, shape=shape, dtype=dtype), key, out_sharding, shape
    )


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _generalized_normal(key, p, *, shape, dtype):
    keys = split(key)
    g = gamma(keys[0], 1 / p, shape, dtype)
    r = bernoulli_signs(keys[1], shape, dtype)
    return r * g ** (1 / p)


def ball(key, d: int, p: float = 2, shape=(), dtype: Any = None, *, out_sharding=None):
    """Points of the unit ball of the p-norm.

    Args:
      key: a key.
      d: dimension.
      p: exponent of the norm.
      shape: batch shape of the result.
      dtype: float dtype.

    Returns:
      Array of shape (*shape, d).
    """
    key, _ = check_prng_key("ball", key)
    dtype = check_float_dtype("ball", dtype)
    shape = canonicalize_shape("ball", shape)
    d = core.concrete_or_error(int, d, "The error occurred in jax.random.ball()")
    return with_out_sharding(lambda k: _ball(k, p, shape=shape, dtype=dtype, d=d), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype", "d"))
def _ball(key, p, *, shape, dtype, d):
    k1, k2 = split(key)
    g = generalized_normal(k1, p, (*shape, d), dtype)
    e = exponential(k2, shape, dtype)
    return g / (((jnp.abs(g) ** p).sum(-1) + e) ** (1 / p))[..., None]


def orthogonal(key, n: int, shape=(), dtype: Any = None, m: int | None = None, *, out_sharding=None):
    """Random orthogonal (or unitary) matrices, uniformly distributed.

    Args:
      key: a key.
      n: number of rows.
      shape: batch shape of the result.
      dtype: float or complex dtype.
      m: number of columns; n by default.

    Returns:
      Array of shape (*shape, n, m).
    """
    key, _ = check_prng_key("orthogonal", key)
    shape = canonicalize_shape("orthogonal", shape)
    dtype = canonicalize_dtype(dtype, float, "orthogonal")
    if not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"dtype argument to `orthogonal` must be a float or complex dtype, got {dtypes.dtype_name(dtype)}")
    n = core.concrete_or_error(int, n, "The error occurred in jax.random.orthogonal()")
    m = n if m is None else core.concrete_or_error(int, m, "The error occurred in jax.random.orthogonal()")
    return _orthogonal(key, shape=shape, dtype=dtype, n=n, m=m)


@functools.partial(jit, static_argnames=("shape", "dtype", "n", "m"))
def _orthogonal(key, *, shape, dtype, n, m):
    z = normal(key, (*shape, max(n, m), min(n, m)), dtype)
    q, r = jnp.linalg.qr(z)
    d = jnp.linalg.diagonal(r)
    q = q * jnp.expand_dims(jnp.sign(d), -2)
    return jnp.matrix_transpose(q) if n < m else q


# Gamma and its kin. Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.


def _gamma_one(key, alpha, log_space: bool):
    zero, one = (lax._const(alpha, v) for v in (0, 1))
    squeeze = lax._const(alpha, 0.0331)
    dtype = alpha.dtype
    # For alpha < 1: gamma(alpha) is gamma(alpha + 1) * u ** (1 / alpha).
    boost_mask = lax.ge(alpha, one)
    alpha_orig = alpha
    alpha = lax.select(boost_mask, alpha, lax.add(alpha, one))
    d = lax.sub(alpha, lax._const(alpha, 1 / 3))
    c = lax.div(lax._const(alpha, 1 / 3), lax.sqrt(d))

    def rejected(state):
        _, x, v, u = state
        return lax.bitwise_and(
            lax.ge(u, lax.sub(one, lax.mul(squeeze, lax.mul(x, x)))),
            lax.ge(
                lax.log(u),
                lax.add(
                    lax.mul(x, lax._const(alpha, 0.5)),
                    lax.mul(d, lax.add(lax.sub(one, v), lax.log(v))),
                ),
            ),
        )

    def draw(state):
        def next_kxv(kxv):
            key, subkey = split(kxv[0])
            x = normal(subkey, (), dtype=dtype)
            return key, x, lax.add(one, lax.mul(x, c))

        key, x_key, u_key = split(state[0], 3)
        init = (x_key, zero, lax._const(alpha, -1))
        _, x, v = control_flow.while_loop(lambda kxv: lax.le(kxv[2], zero), next_kxv, init)
        u = uniform(u_key, (), dtype=dtype)
        return key, lax.mul(x, x), lax.mul(lax.mul(v, v), v), u

    key, subkey = split(key)
    _, _, v, _ = control_flow.while_loop(rejected, draw, (key, zero, one, lax._const(alpha, 2)))
    if log_space:
        log_samples = lax.neg(exponential(subkey, (), dtype=dtype))
        log_boost = lax.select(
            lax.bitwise_or(boost_mask, lax.eq(log_samples, zero)),
            zero,
            lax.mul(log_samples, lax.div(one, alpha_orig)),
        )
        return lax.add(lax.add(lax.log(d), lax.log(v)), log_boost)
    samples = lax.sub(one, uniform(subkey, (), dtype=dtype))
    boost = lax.select(boost_mask, one, lax.pow(samples, lax.div(one, alpha_orig)))
    return lax.mul(lax.mul(d, v), boost)


def _gamma_grad(sample, a, *, log_space):
    samples, alphas = lax.reshape(sample, (sample.size,)), lax.reshape(a, (a.size,))
    if log_space:
        # d/da log(x) = (dx/da) / x, and x = exp(sample) may underflow to zero.
        values = lax.exp(samples)
        tiny = lax.full_like(values, _tiny(a.dtype))
        values = lax.select(lax.eq(values, lax.full_like(values, 0)), tiny, values)
        grads = lax.div(lax_special.random_gamma_grad(alphas, values), values)
    else:
        grads = lax_special.random_gamma_grad(alphas, samples)
    return lax.reshape(grads, a.shape)


def _gamma_impl(key, a, *, log_space, use_vmap: bool):
    # key is an array of keys of the leading shape of a; one sample for each element of a.
    a_shape = a.shape
    # Split each key into one key for each of its elements.
    n = math.prod(a_shape[key.ndim :])
    flat = lax.reshape(key, (math.prod(key.shape),))
    keys = vmap(lambda k: prng.random_split(k, (n,)))(flat)
    keys = lax.reshape(keys, (a.size,))
    alphas = lax.reshape(a, (a.size,))
    one = functools.partial(_gamma_one, log_space=log_space)
    if use_vmap:
        samples = vmap(one)(keys, alphas)
    else:
        samples = control_flow.map(lambda args: one(*args), (keys, alphas))
    return lax.reshape(samples, a_shape)


random_gamma_p = Primitive("random_gamma")


def _gamma_types(key, a, *, log_space):
    if a.shape[: key.ndim] != key.shape:
        raise TypeError(f"random_gamma: keys of shape {key.shape} for parameters of shape {a.shape}")
    return ShapedArray(a.shape, a.dtype)


random_gamma_p.def_abstract_eval(_gamma_types)


def _gamma_jvp(primals, tangents, *, log_space):
    key, a = primals
    _, t = tangents
    out = random_gamma_p.bind(key, a, log_space=log_space)
    if type(t) is ad.Zero:
        return out, ad.zero_of(out)
    return out, lax.mul(t, _gamma_grad(out, a, log_space=log_space))


random_gamma_p.jvp = _gamma_jvp


def _gamma_batch(args, dims, *, log_space):
    k, a = args
    bk, ba = dims
    size = next(x.shape[d] for x, d in zip(args, dims) if d is not None)
    k = batching.bdim_at_front(k, bk, size)
    a = batching.bdim_at_front(a, ba, size)
    return random_gamma_p.bind(k, a, log_space=log_space), 0


random_gamma_p.batch = _gamma_batch


def _gamma_lowering(use_vmap: bool):
    def fun(key, a, *, log_space):
        return _gamma_impl(key, a, log_space=log_space, use_vmap=use_vmap)

    return mlir.lower_fun(fun, multiple_results=False)


mlir.register_lowering(random_gamma_p, _gamma_lowering(True))
# On a CPU, elements that are done should not wait for those that are not.
mlir.register_lowering(random_gamma_p, _gamma_lowering(False), platform="cpu")


def gamma(key, a, shape=None, dtype: Any = None, *, out_sharding=None):
    """Gamma distributed numbers of rate one.

    Args:
      key: a key.
      a: shape parameter of the distribution.
      shape: shape of the result; that of `a` by default.
      dtype: float dtype.

    Returns:
      Array of that shape and dtype; differentiable by `a`.
    """
    key, _ = check_prng_key("gamma", key)
    dtype = check_float_dtype("gamma", dtype)
    shape = _shape_of("gamma", shape, a)
    return with_out_sharding(
        lambda k: _gamma(k, a, shape=shape, dtype=dtype, log_space=False), key, out_sharding, shape
    )


def loggamma(key, a, shape=None, dtype: Any = None, *, out_sharding=None):
    """Logarithms of gamma distributed numbers, accurate where the numbers are tiny; as `gamma`."""
    key, _ = check_prng_key("loggamma", key)
    dtype = check_float_dtype("loggamma", dtype)
    shape = _shape_of("loggamma", shape, a)
    return with_out_sharding(
        lambda k: _gamma(k, a, shape=shape, dtype=dtype, log_space=True), key, out_sharding, shape
    )


@functools.partial(jit, static_argnames=("shape", "dtype", "log_space"))
def _gamma(key, a, *, shape, dtype, log_space):
    a = lax.convert_element_type(a, dtype)
    if a.shape != shape:
        a = jnp.broadcast_to(a, shape)
    return random_gamma_p.bind(key, a, log_space=log_space)


def beta(key, a, b, shape=None, dtype: Any = None, *, out_sharding=None):
    """Beta distributed numbers.

    Args:
      key: a key.
      a, b: parameters.
      shape: shape of the result; that of the parameters by default.
      dtype: float dtype.
    """
    key, _ = check_prng_key("beta", key)
    dtype = check_float_dtype("beta", dtype)
    shape = _shape_of("beta", shape, a, b)
    return with_out_sharding(lambda k: _beta(k, a, b, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _beta(key, a, b, *, shape, dtype):
    a, b = (jnp.broadcast_to(lax.convert_element_type(x, dtype), shape) for x in (a, b))
    key_a, key_b = split(key)
    log_a, log_b = loggamma(key_a, a, shape, dtype), loggamma(key_b, b, shape, dtype)
    log_max = lax.max(log_a, log_b)
    gamma_a, gamma_b = jnp.exp(log_a - log_max), jnp.exp(log_b - log_max)
    return gamma_a / (gamma_a + gamma_b)


def dirichlet(key, alpha, shape=None, dtype: Any = None, *, out_sharding=None):
    """Dirichlet distributed vectors.

    Args:
      key: a key.
      alpha: parameters, of shape (..., n).
      shape: batch shape of the result; that of `alpha` by default.
      dtype: float dtype.

    Returns:
      Array of shape (*shape, n).
    """
    key, _ = check_prng_key("dirichlet", key)
    dtype = check_float_dtype("dirichlet", dtype)
    if np.ndim(alpha) < 1:
        raise ValueError(f"dirichlet requires alpha.ndim >= 1, got alpha.ndim == {np.ndim(alpha)}")
    shape = np.shape(alpha)[:-1] if shape is None else canonicalize_shape("dirichlet", shape)
    check_broadcast("dirichlet", shape, np.shape(alpha)[:-1])
    return with_out_sharding(lambda k: _dirichlet(k, alpha, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _dirichlet(key, alpha, *, shape, dtype):
    alpha = lax.convert_element_type(alpha, dtype)
    log_samples = loggamma(key, alpha, (*shape, alpha.shape[-1]), dtype)
    unnormalized = jnp.exp(log_samples - lax.stop_gradient(log_samples.max(-1, keepdims=True)))
    return unnormalized / unnormalized.sum(-1, keepdims=True)


def chisquare(key, df, shape=None, dtype: Any = None, *, out_sharding=None):
    """Chi-square distributed numbers.

    Args:
      key: a key.
      df: degrees of freedom.
      shape: shape of the result; that of `df` by default.
      dtype: float dtype.
    """
    key, _ = check_prng_key("chisquare", key)
    dtype = check_float_dtype("chisquare", dtype)
    shape = _shape_of("chisquare", shape, df)
    return with_out_sharding(lambda k: _chisquare(k, df, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _chisquare(key, df, *, shape, dtype):
    df = lax.convert_element_type(df, dtype)
    two = lax._const(df, 2)
    half_df = lax.div(df, two)
    log_g = loggamma(key, a=half_df, shape=shape, dtype=dtype)
    return lax.mul(jnp.exp(log_g), two)


def t(key, df, shape=None, dtype: Any = None, *, out_sharding=None):
    """Numbers of Student's t distribution.

    Args:
      key: a key.
      df: degrees of freedom.
      shape: shape of the result; that of `df` by default.
      dtype: float dtype.
    """
    key, _ = check_prng_key("t", key)
    dtype = check_float_dtype("t", dtype)
    shape = _shape_of("t", shape, df)
    return with_out_sharding(lambda k: _t(k, df, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _t(key, df, *, shape, dtype):
    df = jnp.broadcast_to(lax.convert_element_type(df, dtype), shape)
    key_n, key_g = split(key)
    n = normal(key_n, shape, dtype)
    half_df = lax.div(df, lax._const(df, 2))
    g = gamma(key_g, half_df, shape, dtype)
    return n * jnp.sqrt(half_df / g)


def f(key, dfnum, dfden, shape=None, dtype: Any = None, *, out_sharding=None):
    """Numbers of the F distribution.

    Args:
      key: a key.
      dfnum, dfden: degrees of freedom of numerator and denominator.
      shape: shape of the result; that of the parameters by default.
      dtype: float dtype.
    """
    key, _ = check_prng_key("f", key)
    dtype = check_float_dtype("f", dtype)
    shape = _shape_of("f", shape, dfnum, dfden)
    return with_out_sharding(lambda k: _f(k, dfnum, dfden, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _f(key, dfnum, dfden, *, shape, dtype):
    dfnum, dfden = (jnp.broadcast_to(lax.convert_element_type(x, dtype), shape) for x in (dfnum, dfden))
    key_num, key_den = split(key)
    num = lax.div(chisquare(key_num, dfnum, shape, dtype), dfnum)
    den = lax.div(chisquare(key_den, dfden, shape, dtype), dfden)
    return lax.div(num, den)


