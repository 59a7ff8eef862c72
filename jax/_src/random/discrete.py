"""Discrete distributions, choices."""

import functools
import math
from typing import Any

import numpy as np

import jax.numpy as jnp
from jax._src import core, dtypes
from jax._src.api import jit
from jax._src.lax import control_flow, lax
from jax._src.lax import special as lax_special
from jax._src.random.continuous import _shape_of, gumbel
from jax._src.random.keys import check_prng_key, split
from jax._src.random.uniform import (
    canonicalize_dtype,
    canonicalize_shape,
    check_broadcast,
    check_float_dtype,
    permutation,
    randint,
    uniform,
    with_out_sharding,
)

def choice(key, a, shape=(), replace: bool = True, p=None, axis: int = 0, mode: str | None = None):
    """Random elements of an array, or of `range(a)` for an integer.

    Args:
      key: a key.
      a: integer or array.
      shape: shape of the result.
      replace: whether elements can come more than once.
      p: probabilities of the elements; uniform by default.
      axis: axis of `a` to choose along.
      mode: 'high' or 'low', as of `gumbel`; used without replacement and with `p`.

    Returns:
      Array of that shape (in place of the axis).
    """
    key, _ = check_prng_key("choice", key)
    if not (isinstance(shape, (tuple, list)) or np.ndim(shape)):
        raise TypeError("shape argument in jax.random.choice must be iterable, got " f"{shape}")
    shape = canonicalize_shape("choice", shape)
    if np.ndim(a) not in (0,) and not hasattr(a, "dtype"):
        raise TypeError("choice requires ndarray or scalar arguments for `a`, got " f"{type(a)}")
    arr = jnp.asarray(a)
    if arr.ndim == 0:
        n_inputs = core.concrete_or_error(int, a, "The error occurred in jax.random.choice()")
    else:
        axis = axis % arr.ndim if -arr.ndim <= axis < arr.ndim else axis
        if not 0 <= axis < arr.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of dimension {arr.ndim}")
        n_inputs = arr.shape[axis]
    n_draws = math.prod(shape)
    if n_draws == 0:
        out_shape = shape if arr.ndim == 0 else arr.shape[:axis] + shape + arr.shape[axis + 1 :]
        return jnp.zeros(out_shape, dtype=arr.dtype)
    if n_inputs <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and n_draws > n_inputs:
        raise ValueError(
            f"Cannot take a larger sample (size {n_draws}) than population (size {n_inputs}) when "
            "'replace=False'"
        )
    if p is None:
        if replace:
            ind = randint(key, shape, 0, n_inputs)
            result = ind if arr.ndim == 0 else jnp.take(arr, ind, axis)
        else:
            slices = (slice(None),) * axis + (slice(n_draws),)
            shuffled = permutation(key, n_inputs if arr.ndim == 0 else arr, axis)
            result = shuffled[slices]
    else:
        from_p = jnp.asarray(p)
        if not dtypes.issubdtype(from_p.dtype, np.inexact):
            from_p = from_p.astype(dtypes.default_float_dtype())
        if from_p.shape != (n_inputs,):
            raise ValueError(
                "p must be None or a 1D vector with the same size as a.shape[axis]. p has shape "
                f"{from_p.shape} and a.shape[axis] is {n_inputs}."
            )
        if replace:
            p_cuml = jnp.cumsum(from_p)
            r = p_cuml[-1] * (1 - uniform(key, shape, dtype=p_cuml.dtype))
            ind = jnp.searchsorted(p_cuml, r).astype(int)
        else:
            g = gumbel(key, (n_inputs,), dtype=from_p.dtype, mode=mode) + jnp.log(from_p)
            ind = lax.top_k(g, k=n_draws)[1].astype(int)
        result = ind if arr.ndim == 0 else jnp.take(arr, ind, axis)
    return result.reshape(shape if arr.ndim == 0 else arr.shape[:axis] + tuple(shape) + arr.shape[axis + 1 :])


def bernoulli(key, p=0.5, shape=None, mode: str = "low", *, out_sharding=None):
    """Booleans that are true with a probability.

    Args:
      key: a key.
      p: probability; float scalar or array.
      shape: shape of the result; that of `p` by default.
      mode: 'high' for probabilities resolved to twice as many bits, 'low' for one draw.

    Returns:
      Boolean array.
    """
    if mode not in ("high", "low"):
        raise ValueError(f"got {mode=}, expected 'high' or 'low'")
    key, _ = check_prng_key("bernoulli", key)
    dtype = dtypes.canonicalize_dtype(lax.dtype(p))
    if shape is not None:
        shape = canonicalize_shape("bernoulli", shape)
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtypes.dtype_name(dtype)}.")
    p = lax.convert_element_type(p, dtype)
    shape = _shape_of("bernoulli", shape, p)
    return with_out_sharding(lambda k: _bernoulli(k, p, shape=shape, mode=mode), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "mode"))
def _bernoulli(key, p, *, shape, mode):
    dtype = lax.dtype(p)
    if mode == "high":
        # Two draws: the second decides among the values the first cannot tell from p.
        k1, k2 = split(key)
        u1, u2 = uniform(k1, shape, dtype), uniform(k2, shape, dtype)
        u2 = u2 * lax._const(u2, dtypes.finfo(dtype).eps)
        return u2 < p - u1
    return lax.lt(uniform(key, shape, dtype), jnp.broadcast_to(p, shape))


def rademacher(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Minus one or one with equal probability.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: dtype; int by default.
    """
    key, _ = check_prng_key("rademacher", key)
    dtype = canonicalize_dtype(dtype, int, "rademacher")
    shape = canonicalize_shape("rademacher", shape)
    return with_out_sharding(lambda k: _rademacher(k, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _rademacher(key, *, shape, dtype):
    heads = bernoulli(key=key, p=0.5, shape=shape)
    return (2 * heads - 1).astype(dtype)


def categorical(
    key, logits, axis: int = -1, shape=None, replace: bool = True, mode: str | None = None, *, out_sharding=None
):
    """Categories drawn by their log probabilities.

    Args:
      key: a key.
      logits: unnormalized log probabilities.
      axis: axis of the categories.
      shape: shape of the result; that of `logits` without the axis by default.
      replace: whether categories can come more than once in a batch element.
      mode: as of `gumbel`.

    Returns:
      Integer array.
    """
    key, _ = check_prng_key("categorical", key)
    if not hasattr(logits, "dtype"):
        raise TypeError(f"categorical requires ndarray or scalar arguments, got {type(logits)} at position 0.")
    logits = jnp.asarray(logits)
    axis = axis + logits.ndim if axis < 0 else axis
    batch_shape = tuple(np.delete(logits.shape, axis))
    batch_shape = tuple(int(d) for d in batch_shape)
    if shape is None:
        shape = batch_shape
    else:
        shape = canonicalize_shape("categorical", shape)
        check_broadcast("categorical", shape, batch_shape)
    prefix = shape[: len(shape) - len(batch_shape)]
    if replace:
        logits_shape = list(shape[len(shape) - len(batch_shape) :])
        logits_shape.insert(axis % len(logits.shape), logits.shape[axis])
        noise = gumbel(key, (*prefix, *logits_shape), logits.dtype, mode=mode)
        logits = lax.expand_dims(logits, tuple(range(len(prefix))))
        return jnp.argmax(noise + logits, axis=axis + len(prefix) if axis >= 0 else axis)
    logits = logits + gumbel(key, logits.shape, logits.dtype, mode=mode)
    k = math.prod(prefix)
    if k > logits.shape[axis]:
        raise ValueError(
            f"Number of samples without replacement ({k}) cannot exceed number of categories "
            f"({logits.shape[axis]})."
        )
    _, indices = lax.top_k(jnp.moveaxis(logits, axis, -1), k)
    order = (indices.ndim - 1, *range(indices.ndim - 1))
    return lax.reshape(lax.transpose(indices, order), shape)


def geometric(key, p, shape=None, dtype: Any = None, *, out_sharding=None):
    """Geometrically distributed integers: trials until the first success.

    Args:
      key: a key.
      p: probability of success.
      shape: shape of the result; that of `p` by default.
      dtype: integer dtype.
    """
    key, _ = check_prng_key("geometric", key)
    dtype = canonicalize_dtype(dtype, int, "geometric")
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"dtype argument to `geometric` must be an int dtype, got {dtypes.dtype_name(dtype)}")
    shape = _shape_of("geometric", shape, p)
    return with_out_sharding(lambda k: _geometric(k, p, shape=shape, dtype=dtype), key, out_sharding, shape)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _geometric(key, p, *, shape, dtype):
    (p,) = [jnp.asarray(p)]
    p = p.astype(dtypes.to_inexact_dtype(p.dtype))
    u = uniform(key, shape, p.dtype)
    log_u, log_one_minus_p = jnp.log(u), jnp.log1p(-p)
    log_one_minus_p = jnp.broadcast_to(log_one_minus_p, shape)
    return jnp.floor(lax.div(log_u, log_one_minus_p)).astype(dtype) + lax._const(jnp.zeros((), dtype), 1)


# Poisson: Knuth's multiplication for small rates, Hörmann's transformed rejection (PTRS) for large ones.
# W. Hörmann, "The transformed rejection method for generating Poisson random variables", 1993.


def poisson(key, lam, shape=None, dtype: Any = None, *, out_sharding=None):
    """Poisson distributed integers; for the default implementation of keys only.

    Args:
      key: a key of the threefry2x32 implementation.
      lam: rate.
      shape: shape of the result; that of `lam` by default.
      dtype: integer dtype.
    """
    key, _ = check_prng_key("poisson", key)
    dtype = canonicalize_dtype(dtype, int, "poisson")
    impl = key.dtype._impl
    if impl.name != "threefry2x32":
        raise NotImplementedError(f"`poisson` is only implemented for the threefry2x32 RNG, not {impl}")
    shape = _shape_of("poisson", shape, lam)
    lam = jnp.broadcast_to(lam, shape)
    lam = lax.convert_element_type(lam, np.float32)
    return with_out_sharding(lambda k: _poisson(k, lam, shape=shape, dtype=dtype), key, out_sharding, shape)


def _poisson_knuth(key, lam, shape, dtype, max_iters):
    # The product of uniforms falls below exp(-lam) after k + 1 factors; in logarithms.
    def body(carry):
        i, k, rng, log_prod = carry
        rng, subkey = split(rng)
        k = lax.select(log_prod > -lam, k + 1, k)
        u = uniform(subkey, shape, np.float32)
        return i + 1, k, rng, log_prod + jnp.log(u)

    def cond(carry):
        i, _, _, log_prod = carry
        return (log_prod > -lam).any() & (i < max_iters)

    zeros = lax.full_like(lam, 0, dtype, shape)
    log_prod = lax.full_like(lam, 0, np.float32, shape)
    k = control_flow.while_loop(cond, body, (0, zeros, key, log_prod))[1]
    return (k - 1).astype(dtype)


def _poisson_rejection(key, lam, shape, dtype, max_iters):
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inv_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def body(carry):
        i, k_out, accepted, key = carry
        key, subkey_0, subkey_1 = split(key, 3)
        u = uniform(subkey_0, shape, lam.dtype) - 0.5
        v = uniform(subkey_1, shape, lam.dtype)
        u_shifted = 0.5 - abs(u)
        k = lax.floor((2 * a / u_shifted + b) * u + lam + 0.43)
        s = lax.log(v * inv_alpha / (a / (u_shifted * u_shifted) + b))
        t = -lam + k * log_lam - lax_special.lgamma(k + 1)
        accept1 = (u_shifted >= 0.07) & (v <= v_r)
        reject = (k < 0) | ((u_shifted < 0.013) & (v > u_shifted))
        accept = accept1 | (~reject & (s <= t))
        k_out = lax.select(accept, k, k_out)
        return i + 1, k_out, accepted | accept, key

    def cond(carry):
        i, _, accepted, _ = carry
        return (~accepted).any() & (i < max_iters)

    k_init = lax.full_like(lam, -1, lam.dtype, shape)
    accepted = lax.full_like(lam, False, np.bool_, shape)
    k = control_flow.while_loop(cond, body, (0, k_init, accepted, key))[1]
    return k.astype(dtype)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _poisson(key, lam, *, shape, dtype, max_iters=np.iinfo(np.int32).max):
    # Rates below 10 by multiplication, others by rejection; both on safe values everywhere.
    use_knuth = lam < 10
    lam_knuth = lax.select(use_knuth, lam, lax.full_like(lam, 0.0))
    lam_rejection = lax.select(use_knuth, lax.full_like(lam, 1e5), lam)
    result = lax.select(
        use_knuth,
        _poisson_knuth(key, lam_knuth, shape, dtype, max_iters),
        _poisson_rejection(key, lam_rejection, shape, dtype, max_iters),
    )
    return lax.select(lam == 0, jnp.zeros_like(result), result)


# Binomial: inversion for few expected successes, Hörmann's transformed rejection (BTRS) for many.
# W. Hörmann, "The generation of binomial random variates", 1993.


def binomial(key, n, p, shape=None, dtype: Any = None):
    """Binomially distributed numbers.

    Args:
      key: a key.
      n: number of trials.
      p: probability of success.
      shape: shape of the result; that of the parameters by default.
      dtype: float dtype of the result.
    """
    key, _ = check_prng_key("binomial", key)
    dtype = check_float_dtype("binomial", dtype)
    shape = _shape_of("binomial", shape, n, p)
    return _binomial(key, n, p, shape=shape, dtype=dtype)


def _stirling_tail(k):
    """The error of Stirling's approximation of log(k!)."""
    table = jnp.array(
        [0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650,
         0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
         0.00925546218271273, 0.00833056343336287], dtype=k.dtype
    )  # fmt: skip
    small = k <= 9
    k1 = jnp.clip(k, 0, 9)
    kp1sq = (k + 1) * (k + 1)
    approx = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / kp1sq) / kp1sq) / (k + 1)
    return jnp.where(small, table[k1.astype(np.int32)], approx)


def _binomial_inversion(key, count, prob):
    log1mprob = jnp.log1p(-prob)

    def body(carry):
        i, num_geom, geom_sum, key = carry
        subkey, key = split(key)
        num_geom = lax.select(geom_sum <= count, num_geom + 1, num_geom)
        u = uniform(subkey, (), prob.dtype)
        geom_sum = geom_sum + jnp.ceil(jnp.log(u) / log1mprob)
        return i + 1, num_geom, geom_sum, key

    def cond(carry):
        i, _, geom_sum, _ = carry
        return (geom_sum <= count) & (i < count.astype(np.int32) + 2)

    zero = lax._const(prob, 0)
    _, num_geom, _, _ = control_flow.while_loop(cond, body, (0, zero, zero, key))
    return num_geom - 1


def _binomial_rejection(key, count, prob):
    stddev = jnp.sqrt(count * prob * (1 - prob))
    b = 1.15 + 2.53 * stddev
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c = count * prob + 0.5
    v_r = 0.92 - 4.2 / b
    r = prob / (1 - prob)
    alpha = (2.83 + 5.1 / b) * stddev
    m = jnp.floor((count + 1) * prob)

    def body(carry):
        i, _, _, key = carry
        key, k0, k1 = split(key, 3)
        u = uniform(k0, (), prob.dtype) - 0.5
        v = uniform(k1, (), prob.dtype)
        us = 0.5 - jnp.abs(u)
        accept1 = (us >= 0.07) & (v <= v_r)
        k = jnp.floor((2 * a / us + b) * u + c)
        reject = (k < 0) | (k > count)
        v = jnp.log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * jnp.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * jnp.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * jnp.log(r * (count - k + 1) / (k + 1))
            + _stirling_tail(m) + _stirling_tail(count - m) - _stirling_tail(k) - _stirling_tail(count - k)
        )  # fmt: skip
        accept = accept1 | (~reject & (v <= bound))
        return i + 1, k, accept, key

    def cond(carry):
        return ~carry[2]

    _, k, _, _ = control_flow.while_loop(cond, body, (0, lax._const(prob, -1), False, key))
    return k


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _binomial(key, n, p, *, shape, dtype):
    n = jnp.broadcast_to(lax.convert_element_type(jnp.asarray(n), dtype), shape).reshape(-1)
    p = jnp.broadcast_to(lax.convert_element_type(jnp.asarray(p), dtype), shape).reshape(-1)

    def one(key, n, p):
        q = jnp.where(p < 0.5, p, 1 - p)
        use_inversion = n * q <= 10
        bad = ~(jnp.isfinite(n) & (n >= 0) & (p >= 0) & (p <= 1))
        trivial = bad | (n == 0) | (q == 0)
        safe_n, safe_q = jnp.where(trivial, 1.0, n).astype(dtype), jnp.where(trivial, 0.5, q).astype(dtype)
        k = control_flow.cond(
            use_inversion | trivial, _binomial_inversion, _binomial_rejection, key, safe_n, safe_q
        )
        k = jnp.where(trivial, 0.0, k)
        k = jnp.where(p < 0.5, k, n - k)
        return jnp.where(bad, jnp.nan, k).astype(dtype)

    keys = split(key, n.shape[0])
    return control_flow.map(lambda args: one(*args), (keys, n, p)).reshape(shape)


def multinomial(key, n, p, *, shape=None, dtype: Any = None, unroll: int | bool = 1):
    """Multinomially distributed counts.

    Args:
      key: a key.
      n: number of trials, of shape (...).
      p: probabilities, of shape (..., k).
      shape: shape of the result, (..., k); that of the parameters by default.
      dtype: float dtype of the result.
      unroll: as of `lax.scan`.
    """
    key, _ = check_prng_key("multinomial", key)
    dtype = check_float_dtype("multinomial", dtype)
    n, p = jnp.asarray(n).astype(dtype), jnp.asarray(p).astype(dtype)
    if shape is None:
        shape = np.broadcast_shapes(n.shape, p.shape[:-1]) + p.shape[-1:]
    shape = canonicalize_shape("multinomial", shape)
    n, p = jnp.broadcast_to(n, shape[:-1]), jnp.broadcast_to(p, shape)
    remaining_p = jnp.flip(jnp.cumsum(jnp.flip(p, -1), axis=-1), -1)
    ratios = jnp.clip(p / jnp.where(remaining_p == 0, 1, remaining_p), 0, 1)

    def step(remainder, ratio_key):
        ratio, k = ratio_key
        count = binomial(k, remainder, ratio, dtype=remainder.dtype)
        return remainder - count, count

    keys = split(key, shape[-1])
    _, counts = control_flow.scan(step, n, (jnp.moveaxis(ratios, -1, 0), keys), unroll=unroll)
    return jnp.moveaxis(counts, 0, -1)


