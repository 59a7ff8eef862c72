"""The gamma distribution and distributions derived from it, such as beta, Dirichlet and t."""

import functools
import math
from typing import Any

import numpy as np

from jax._src import core, xla_bridge
from jax._src.api import vmap
from jax._src.core import Primitive
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import control_flow, lax, special as lax_special
from jax._src.numpy.util import check_arraylike
from jax._src.random import prng
from jax._src.random.calls import (
    check_broadcast,
    check_params,
    float_dtype,
    keyed_jit,
    param_shape,
    shape_of,
)
from jax._src.random.continuous import exponential_of, normal_of, rademacher_of, tiny
from jax._src.random.uniform import pair, unit_floats

# Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.


def _gamma_one(key, alpha, log_space: bool):
    zero, one = (lax.const(alpha, v) for v in (0, 1))
    squeeze = lax.const(alpha, 0.0331)
    dtype = alpha.dtype
    # For alpha < 1, draw gamma(alpha + 1) and multiply it by u ** (1 / alpha).
    boost_mask = lax.ge(alpha, one)
    alpha_orig = alpha
    alpha = lax.select(boost_mask, alpha, lax.add(alpha, one))
    d = lax.sub(alpha, lax.const(alpha, 1 / 3))
    c = lax.div(lax.const(alpha, 1 / 3), lax.sqrt(d))

    def rejected(state):
        _, x, v, u = state
        return lax.bitwise_and(
            lax.ge(u, lax.sub(one, lax.mul(squeeze, lax.mul(x, x)))),
            lax.ge(
                lax.log(u),
                lax.add(
                    lax.mul(x, lax.const(alpha, 0.5)),
                    lax.mul(d, lax.add(lax.sub(one, v), lax.log(v))),
                ),
            ),
        )

    def draw(state):
        def next_kxv(kxv):
            key, subkey = pair(kxv[0])
            x = normal_of(subkey, shape=(), dtype=dtype)
            return key, x, lax.add(one, lax.mul(x, c))

        key, x_key, u_key = prng.random_split(state[0], (3,))
        init = (x_key, zero, lax.const(alpha, -1))
        _, x, v = control_flow.while_loop(lambda kxv: lax.le(kxv[2], zero), next_kxv, init)
        u = unit_floats(u_key, (), dtype)
        return key, lax.mul(x, x), lax.mul(lax.mul(v, v), v), u

    key, subkey = pair(key)
    _, _, v, _ = control_flow.while_loop(rejected, draw, (key, zero, one, lax.const(alpha, 2)))
    if log_space:
        log_samples = lax.neg(exponential_of(subkey, shape=(), dtype=dtype))
        log_boost = lax.select(
            lax.bitwise_or(boost_mask, lax.eq(log_samples, zero)),
            zero,
            lax.mul(log_samples, lax.div(one, alpha_orig)),
        )
        return lax.add(lax.add(lax.log(d), lax.log(v)), log_boost)
    samples = lax.sub(one, unit_floats(subkey, (), dtype))
    boost = lax.select(boost_mask, one, lax.pow(samples, lax.div(one, alpha_orig)))
    return lax.mul(lax.mul(d, v), boost)


def _over_elements(fun, args, shape, use_vmap: bool):
    """Apply `fun` to each element of flat arrays, by `vmap` or in a loop."""
    if use_vmap:
        out = vmap(fun)(*args)
    else:
        out = control_flow.map(lambda xs: fun(*xs), args)
    return lax.reshape(out, shape)


def _gamma_grad(sample, alpha, *, log_space):
    samples, alphas = lax.reshape(sample, (sample.size,)), lax.reshape(alpha, (alpha.size,))
    if log_space:
        # d/da log(x) = (dx/da) / x; x = exp(sample) may underflow to zero, so replace it by tiny.
        values = lax.exp(samples)
        zero = lax.full_like(values, 0)
        values = lax.select(lax.eq(values, zero), lax.full_like(values, tiny(values.dtype)), values)
        grad = lambda a, x: lax.div(lax_special.random_gamma_grad(a, x), x)
    else:
        values, grad = samples, lax_special.random_gamma_grad
    return _over_elements(
        grad, (alphas, values), alpha.shape, xla_bridge.default_backend() != "cpu"
    )


def _gamma_impl(key, a, *, log_space, use_vmap: bool):
    # Each element of `a` gets its own key; the leading dimensions of `a` are those of `key`.
    n = math.prod(a.shape[key.ndim :])
    flat = lax.reshape(key, (math.prod(key.shape),))
    keys = lax.reshape(prng.random_split(flat, (n,)), (a.size,))
    one = functools.partial(_gamma_one, log_space=log_space)
    return _over_elements(one, (keys, lax.reshape(a, (a.size,))), a.shape, use_vmap)


random_gamma_p = Primitive("random_gamma")
random_gamma_p.operands_vary_alike = True


@random_gamma_p.def_abstract_eval
def _gamma_types(key, a, *, log_space):
    if a.shape[: key.ndim] != key.shape:
        raise TypeError(
            f"random_gamma: keys of shape {key.shape} for parameters of shape {a.shape}"
        )
    return a.strip_weak_type()


def _gamma_jvp(primals, tangents, *, log_space):
    key, a = primals
    _, t = tangents
    out = random_gamma_p.bind(key, a, log_space=log_space)
    if type(t) is ad.Zero:
        return out, t
    return out, lax.mul(t, _gamma_grad(out, a, log_space=log_space))


random_gamma_p.jvp = _gamma_jvp


def _gamma_batch(args, dims, *, log_space):
    size = next(x.shape[d] for x, d in zip(args, dims) if d is not None)
    key, a = (batching.bdim_at_front(x, d, size) for x, d in zip(args, dims))
    return random_gamma_p.bind(key, a, log_space=log_space), 0


random_gamma_p.batch = _gamma_batch

mlir.register_lowering(
    random_gamma_p, mlir.lower_fun(functools.partial(_gamma_impl, use_vmap=True), False)
)
# On CPU run a loop over the elements: under vmap each would wait for the slowest rejection loop.
mlir.register_lowering(
    random_gamma_p,
    mlir.lower_fun(functools.partial(_gamma_impl, use_vmap=False), False),
    platform="cpu",
)


def gamma(key, a, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from a gamma distribution of rate one.

    The density is x**(a - 1) exp(-x) / Gamma(a) for x > 0.

    Args:
      key: PRNG key, typed or raw.
      a: shape parameter of the distribution.
      shape: shape of the result; that of `a` by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype; differentiable with respect to `a`.

    >>> print(jax.random.gamma(jax.random.key(0), 2.0))
    1.5897877
    """
    return _gamma_call("gamma", key, a, shape, dtype, out_sharding, log_space=False)


def loggamma(key, a, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw the logarithm of a gamma variate, which is accurate where the variate is tiny.

    The density of y = log(x) is exp(a y - exp(y)) / Gamma(a) for all real y.

    Args:
      key: PRNG key, typed or raw.
      a: shape parameter of the distribution.
      shape: shape of the result; that of `a` by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.
    """
    return _gamma_call("loggamma", key, a, shape, dtype, out_sharding, log_space=True)


def _gamma_call(name, key, a, shape, dtype, out_sharding, *, log_space):
    dtype = float_dtype(name, dtype)
    check_arraylike(name, a)
    shape = param_shape(name, shape, a)
    return _jit_gamma(
        name, key, a, shape=shape, dtype=dtype, log_space=log_space, out_sharding=out_sharding
    )


def _gamma(key, a, *, shape, dtype, log_space):
    a = lax.broadcast_to(lax.convert_element_type(a, dtype), shape)
    return random_gamma_p.bind(key, a, log_space=log_space)


_jit_gamma = keyed_jit(_gamma, ("shape", "dtype", "log_space"))


def beta(key, a, b, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from a beta distribution.

    The density is x**(a - 1) (1 - x)**(b - 1) Gamma(a + b) / (Gamma(a) Gamma(b)) for 0 < x < 1.

    Args:
      key: PRNG key, typed or raw.
      a, b: shape parameters of the distribution, of shapes that broadcast.
      shape: shape of the result; that of the parameters by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.
    """
    dtype = float_dtype("beta", dtype)
    check_params("beta", dtype, a, b)
    shape = param_shape("beta", shape, a, b)
    return _jit_beta("beta", key, a, b, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _beta(key, a, b, *, shape, dtype):
    key_a, key_b = pair(key)
    log_a = _gamma(key_a, a, shape=shape, dtype=dtype, log_space=True)
    log_b = _gamma(key_b, b, shape=shape, dtype=dtype, log_space=True)
    log_max = lax.max(log_a, log_b)
    gamma_a, gamma_b = lax.exp(lax.sub(log_a, log_max)), lax.exp(lax.sub(log_b, log_max))
    return lax.div(gamma_a, lax.add(gamma_a, gamma_b))


_jit_beta = keyed_jit(_beta, ("shape", "dtype"))


def dirichlet(key, alpha, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw vectors from a Dirichlet distribution.

    The density is proportional to prod_i x[i]**(alpha[i] - 1), for x[i] > 0 that sum to 1.

    Args:
      key: PRNG key, typed or raw.
      alpha: parameters, of shape (..., n).
      shape: batch shape of the result; that of `alpha` by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of shape (*shape, n).

    >>> print(jax.random.dirichlet(jax.random.key(0), jnp.ones(3)))
    [0.3647... 0.4282... 0.2069...]
    """
    dtype = float_dtype("dirichlet", dtype)
    check_arraylike("dirichlet", alpha)
    alpha_shape = np.shape(alpha)
    if not alpha_shape:
        raise ValueError("dirichlet requires alpha.ndim >= 1, got alpha.ndim == 0")
    if shape is None:
        shape = alpha_shape[:-1]
    else:
        shape = shape_of("dirichlet", shape)
        check_broadcast("dirichlet", shape, alpha_shape[:-1])
    return _jit_dirichlet(
        "dirichlet", key, alpha, shape=shape, dtype=dtype, out_sharding=out_sharding
    )


def _dirichlet(key, alpha, *, shape, dtype):
    full = (*shape, alpha.shape[-1])
    log_samples = _gamma(key, alpha, shape=full, dtype=dtype, log_space=True)
    # Scale so that the largest sample is one, otherwise all might underflow to zero.
    largest = lax.stop_gradient(lax.reduce_max(log_samples, (len(shape),)))
    exps = lax.exp(lax.sub(log_samples, lax.expand_dims(largest, (len(shape),))))
    return lax.div(exps, exps.sum(-1, keepdims=True))


_jit_dirichlet = keyed_jit(_dirichlet, ("shape", "dtype"))


def chisquare(key, df, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from a chi-square distribution.

    The density is x**(df/2 - 1) exp(-x / 2) / (2**(df/2) Gamma(df / 2)) for x > 0.

    Args:
      key: PRNG key, typed or raw.
      df: degrees of freedom.
      shape: shape of the result; that of `df` by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.
    """
    dtype = float_dtype("chisquare", dtype)
    check_params("chisquare", dtype, df)
    shape = param_shape("chisquare", shape, df)
    return _jit_chisquare("chisquare", key, df, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _chisquare(key, df, *, shape, dtype):
    two = np.array(2, dtype)
    half = lax.div(lax.convert_element_type(df, dtype), two)
    return lax.mul(lax.exp(_gamma(key, half, shape=shape, dtype=dtype, log_space=True)), two)


_jit_chisquare = keyed_jit(_chisquare, ("shape", "dtype"))


def t(key, df, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from Student's t distribution.

    The density is proportional to (1 + x**2 / df)**(-(df + 1) / 2) for all real x.

    Args:
      key: PRNG key, typed or raw.
      df: degrees of freedom.
      shape: shape of the result; that of `df` by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.
    """
    dtype = float_dtype("t", dtype)
    check_params("t", dtype, df)
    shape = param_shape("t", shape, df)
    return _jit_t("t", key, df, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _t(key, df, *, shape, dtype):
    half = lax.div(lax.convert_element_type(df, dtype), np.array(2, dtype))
    key_n, key_g = pair(key)
    n = normal_of(key_n, shape=shape, dtype=dtype)
    g = _gamma(key_g, half, shape=shape, dtype=dtype, log_space=False)
    return lax.mul(n, lax.sqrt(lax.div(lax.broadcast_to(half, shape), g)))


_jit_t = keyed_jit(_t, ("shape", "dtype"))


def f(key, dfnum, dfden, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from an F distribution.

    The density is proportional to
    x**(dfnum/2 - 1) (1 + x dfnum / dfden)**(-(dfnum + dfden) / 2) for x > 0.

    Args:
      key: PRNG key, typed or raw.
      dfnum, dfden: degrees of freedom of the numerator and the denominator; their shapes broadcast.
      shape: shape of the result; that of the parameters by default.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.
    """
    dtype = float_dtype("f", dtype)
    check_params("f", dtype, dfnum, dfden)
    shape = param_shape("f", shape, dfnum, dfden)
    return _jit_f("f", key, dfnum, dfden, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _f(key, dfnum, dfden, *, shape, dtype):
    dfnum, dfden = lax.convert_element_type(dfnum, dtype), lax.convert_element_type(dfden, dtype)
    key_den, key_num = pair(key)
    num = _chisquare(key_num, dfnum, shape=shape, dtype=dtype)
    den = _chisquare(key_den, dfden, shape=shape, dtype=dtype)
    num = lax.div(num, lax.broadcast_to(dfnum, shape))
    den = lax.div(den, lax.broadcast_to(dfden, shape))
    return lax.div(num, den)


_jit_f = keyed_jit(_f, ("shape", "dtype"))


def generalized_normal(key, p, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw from a generalized normal distribution.

    The density is proportional to exp(-abs(x)**p) for all real x.

    Args:
      key: PRNG key, typed or raw.
      p: exponent, of a shape that broadcasts to `shape`.
      shape: shape of the result.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.
    """
    dtype = float_dtype("generalized_normal", dtype)
    check_arraylike("generalized_normal", p)
    shape = param_shape("generalized_normal", shape_of("generalized_normal", shape), p)
    return _jit_generalized_normal(
        "generalized_normal", key, p, shape=shape, dtype=dtype, out_sharding=out_sharding
    )


def _generalized_normal(key, p, *, shape, dtype):
    key_g, key_s = pair(key)
    g = _gamma(key_g, 1 / p, shape=shape, dtype=dtype, log_space=False)
    return rademacher_of(key_s, shape=shape, dtype=dtype) * g ** (1 / p)


_jit_generalized_normal = keyed_jit(_generalized_normal, ("shape", "dtype"))


def ball(key, d: int, p: float = 2, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw uniformly from the unit ball of the p-norm.

    The density is constant where sum_i abs(x[i])**p <= 1, and 0 elsewhere.

    Args:
      key: PRNG key, typed or raw.
      d: dimension.
      p: exponent of the norm.
      shape: batch shape of the result.
      dtype: float dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of shape (*shape, d).
    """
    dtype = float_dtype("ball", dtype)
    check_arraylike("ball", p)
    shape = shape_of("ball", shape)
    d = core.concrete_or_error(core.canonicalize_dim, d, "The error occurred in jax.random.ball()")
    return _jit_ball("ball", key, p, shape=shape, dtype=dtype, d=d, out_sharding=out_sharding)


def _ball(key, p, *, shape, dtype, d):
    k1, k2 = pair(key)
    g = _generalized_normal(k1, p, shape=(*shape, d), dtype=dtype)
    e = exponential_of(k2, shape=shape, dtype=dtype)
    return g / (((abs(g) ** p).sum(-1) + e) ** (1 / p))[..., None]


_jit_ball = keyed_jit(_ball, ("shape", "dtype", "d"))
