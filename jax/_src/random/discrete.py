"""Discrete distributions and random choices."""

import math
import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.core import typeof
from jax._src.lax import control_flow, lax, slicing, special as lax_special
from jax._src.numpy.indexing import take
from jax._src.numpy.searching import searchsorted
from jax._src.numpy.util import (
    arraylike,
    check_arraylike,
    lower_jax_array,
    promote_dtypes_inexact,
    to_array,
)
from jax._src.random import prng
from jax._src.random.calls import (
    any_dtype,
    check_broadcast,
    float_dtype,
    keyed_jit,
    param_shape,
    shape_of,
)
from jax._src.random.continuous import gumbel_mode, gumbel_of, rademacher_of, two_floats
from jax._src.random.keys import check_prng_key, is_typed
from jax._src.random.uniform import log1p, pair, permutation, randint, unit_floats


def choice(key, a, shape=(), replace: bool = True, p=None, axis: int = 0, mode: str | None = None):
    """Choose random elements of an array, or of `range(a)` for an integer `a`.

    Element i is chosen with probability p[i] / sum(p), or with equal probability without `p`.

    Args:
      key: PRNG key, typed or raw.
      a: integer or array.
      shape: shape of the result.
      replace: whether an element may be chosen more than once.
      p: probabilities of the elements, of shape (n,); uniform by default.
      axis: axis of `a` to choose along.
      mode: 'high' or 'low', see `gumbel`; used only with `p` and without replacement.

    Returns:
      Array whose shape is that of `a` with the axis replaced by `shape`.

    Raises:
      TypeError: if `shape` is not a sequence.
      ValueError: if more elements are drawn without replacement than there are, if `a` is empty, if
        `axis` is out of bounds, or if `p` does not have shape (n,).

    >>> print(jax.random.choice(jax.random.key(0), 5, (3,), replace=False))
    [0 1 4]
    """
    key, _ = check_prng_key("choice", key)
    if not isinstance(shape, (tuple, list)) and not np.ndim(shape):
        raise TypeError(f"shape argument of jax.random.choice must be a sequence, got {shape}")
    shape = shape_of("choice", shape)
    if not core.is_symbolic_dim(a):
        (a,) = arraylike("choice", a)
    ndim = np.ndim(a)
    if not ndim:
        n_inputs = core.concrete_dim_or_error(int, a, "The error occurred in jax.random.choice()")
        out_shape = shape
        out_dtype = dtypes.default_int_dtype()
    else:
        a = a if is_typed(a) else to_array(a)
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
        axis %= ndim
        n_inputs = a.shape[axis]
        out_shape = (*a.shape[:axis], *shape, *a.shape[axis + 1 :])
        out_dtype = a.dtype
    n_draws = math.prod(shape)
    if n_draws == 0:
        return lax.full(out_shape, 0, out_dtype)
    if n_inputs <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and n_draws > n_inputs:
        raise ValueError(
            f"Cannot take a larger sample (size {n_draws}) than population (size {n_inputs}) when "
            "'replace=False'"
        )
    if p is not None:
        (p,) = promote_dtypes_inexact(*arraylike("choice", p))
        if np.shape(p) != (n_inputs,):
            raise ValueError(
                "p must be None or a 1D vector with the same size as a.shape[axis]. p has shape "
                f"{np.shape(p)} and a.shape[axis] is {n_inputs}."
            )
    if p is None and replace:
        indices = randint(key, shape, 0, n_inputs)
    elif p is None:
        shuffled = permutation(key, a if ndim else n_inputs, axis)
        drawn = slicing.slice_in_dim(shuffled, 0, n_draws, axis=axis)
        return lax.reshape(drawn, out_shape)
    elif replace:
        indices = _jit_choose("choice", key, p, shape=shape)
    else:
        indices = _jit_choose_distinct("choice", key, p, shape=shape, mode=gumbel_mode(mode))
    return take(a, indices, axis) if ndim else indices


def _choose(key, p, *, shape):
    sums = lax.cumsum(p, 0)
    u = unit_floats(key, shape, p.dtype)
    r = lax.mul(lax.broadcast_to(sums[-1], shape), lax.sub(np.array(1, p.dtype), u))
    return searchsorted(sums, r).astype(dtypes.default_int_dtype())


def _choose_distinct(key, p, *, shape, mode):
    # Gumbel top-k: the k largest log p + Gumbel noise are a sample without replacement.
    noise = gumbel_of(key, shape=p.shape, dtype=p.dtype, mode=mode)
    _, indices = lax.top_k(lax.add(noise, lax.log(p)), math.prod(shape))
    return lax.reshape(indices.astype(dtypes.default_int_dtype()), shape)


_choose.__name__ = _choose_distinct.__name__ = "_choice"
_jit_choose = keyed_jit(_choose, ("shape",))
_jit_choose_distinct = keyed_jit(_choose_distinct, ("shape", "mode"))


def bernoulli(key, p: Any = 0.5, shape=None, mode: str = "low", *, out_sharding=None):
    """Draw booleans from a Bernoulli distribution.

    The result is True with probability p and False with probability 1 - p.

    Args:
      key: PRNG key, typed or raw.
      p: probability of True; float scalar or array.
      shape: shape of the result; that of `p` by default.
      mode: 'high' resolves the probability to twice as many bits; 'low' uses one draw.
      out_sharding: sharding of the result.

    Returns:
      Boolean array.

    >>> print(jax.random.bernoulli(jax.random.key(0), 0.5, (3,)))
    [False False  True]
    """
    if mode not in ("high", "low"):
        raise ValueError(f"got {mode=}, expected 'high' or 'low'")
    if type(p) is not float:
        check_arraylike("bernoulli", p)
        dtype = typeof(p).dtype
        if not dtypes.issubdtype(dtype, np.floating):
            raise TypeError(
                f"bernoulli probability `p` must have a floating dtype, got {dtypes.dtype_name(dtype)}."
            )
    shape = param_shape("bernoulli", shape, p)
    return _jit_bernoulli("bernoulli", key, p, shape=shape, mode=mode, out_sharding=out_sharding)


def _bernoulli(key, p, *, shape, mode):
    dtype = p.dtype
    p = lax.broadcast_to(p, shape)
    if mode == "high":
        # u1 + eps * u2 has twice the bits: u2 decides where u1 alone is too coarse to compare to p.
        u1, u2 = two_floats(key, shape, dtype)
        return lax.lt(lax.mul(u2, np.array(dtypes.finfo(dtype).eps, dtype)), lax.sub(p, u1))
    return lax.lt(unit_floats(key, shape, dtype), p)


_jit_bernoulli = keyed_jit(_bernoulli, ("shape", "mode"))


def rademacher(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw -1 or 1 with equal probability.

    Each of -1 and 1 has probability 1/2.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: dtype of the result; int by default.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.rademacher(jax.random.key(0), (4,)))
    [-1 -1  1  1]
    """
    dtype = any_dtype("rademacher", dtype, int)
    shape = shape_of("rademacher", shape)
    return _jit_rademacher("rademacher", key, shape=shape, dtype=dtype, out_sharding=out_sharding)


_jit_rademacher = keyed_jit(rademacher_of, ("shape", "dtype"))


def categorical(
    key,
    logits,
    axis: int = -1,
    shape=None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding=None,
):
    """Draw category indices, given the log probabilities of the categories.

    Category i has probability exp(logits[i]) / sum_j exp(logits[j]), for i = 0, ..., n - 1.

    Args:
      key: PRNG key, typed or raw.
      logits: unnormalized log probabilities.
      axis: axis of the categories.
      shape: shape of the result; it must end with the shape of `logits` without `axis`, which is
        the default.
      replace: whether a category may be drawn more than once for the same batch element.
      mode: 'high' or 'low', see `gumbel`.
      out_sharding: sharding of the result.

    Returns:
      Integer array of that shape, with values in [0, n).

    Raises:
      IndexError: if `axis` is out of bounds.
      ValueError: if `logits` is not of a float dtype, if `shape` does not match, or if more
        categories are drawn without replacement than there are.

    >>> print(jax.random.categorical(jax.random.key(0), jax.numpy.zeros((2, 3))))
    [1 1]
    """
    (logits,) = arraylike("categorical", logits)
    logits_shape = np.shape(logits)
    ndim = len(logits_shape)
    if type(axis) is not int:
        axis = core.concrete_or_error(
            operator.index, axis, "The axis argument of jax.random.categorical."
        )
    if not -ndim <= axis < ndim:
        raise IndexError(
            f"categorical: axis {axis} is out of bounds for logits of shape {logits_shape}"
        )
    axis %= ndim
    dtype = typeof(logits).dtype
    if not dtypes.issubdtype(dtype, np.floating):
        raise ValueError(
            f"categorical: logits must have a float dtype, got {dtypes.dtype_name(dtype)}"
        )
    batch_shape = (*logits_shape[:axis], *logits_shape[axis + 1 :])
    if shape is None:
        shape = batch_shape
    else:
        shape = shape_of("categorical", shape)
        check_broadcast("categorical", shape, batch_shape)
    if not replace:
        draws = math.prod(shape[: len(shape) - len(batch_shape)])
        if draws > logits_shape[axis]:
            raise ValueError(
                f"Number of samples without replacement ({draws}) cannot exceed number of categories "
                f"({logits_shape[axis]})."
            )
    return _jit_categorical(
        "categorical", key, logits,
        axis=axis, shape=shape, replace=bool(replace), mode=gumbel_mode(mode), out_sharding=out_sharding,
    )  # fmt: skip


def _categorical(key, logits, *, axis, shape, replace, mode):
    num_prefix = len(shape) - logits.ndim + 1
    if replace:
        full = list(shape)
        full.insert(num_prefix + axis, logits.shape[axis])
        noise = gumbel_of(key, shape=tuple(full), dtype=logits.dtype, mode=mode)
        scores = lax.add(noise, lax.broadcast_to(logits, tuple(full)))
        return lax.argmax(scores, num_prefix + axis, dtypes.default_int_dtype())
    scores = lax.add(logits, gumbel_of(key, shape=logits.shape, dtype=logits.dtype, mode=mode))
    if axis != logits.ndim - 1:
        order = [d for d in range(logits.ndim) if d != axis]
        scores = lax.transpose(scores, (*order, axis))
    _, indices = lax.top_k(scores, math.prod(shape[:num_prefix]))
    last = indices.ndim - 1
    return lax.reshape(indices, shape, (last, *range(last)))


_jit_categorical = keyed_jit(_categorical, ("axis", "shape", "replace", "mode"))


def geometric(key, p, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw the number of trials until the first success, from a geometric distribution.

    The probability of k is (1 - p)**(k - 1) p, for k = 1, 2, ...

    Args:
      key: PRNG key, typed or raw.
      p: probability of success.
      shape: shape of the result; that of `p` by default.
      dtype: integer dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.geometric(jax.random.key(0), 0.25, (4,)))
    [1 1 4 3]
    """
    dtype = any_dtype("geometric", dtype, int)
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(
            f"dtype argument to `geometric` must be an int dtype, got {dtypes.dtype_name(dtype)}"
        )
    check_arraylike("geometric", p)
    shape = param_shape("geometric", shape, p)
    (p,) = promote_dtypes_inexact(p)
    return _jit_geometric("geometric", key, p, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _geometric(key, p, *, shape, dtype):
    one = np.array(1, p.dtype)
    u = unit_floats(key, shape, p.dtype)
    # u lies in [0, 1): replace 0 by 1, so that the logarithm is finite.
    u = lax.select(lax.eq(u, lax.full_like(u, 0)), lax.full_like(u, 1), u)
    ratio = lax.div(lax.log(u), lax.broadcast_to(log1p(lax.neg(p)), shape))
    return lax.convert_element_type(lax.add(lax.floor(ratio), one), dtype)


_jit_geometric = keyed_jit(_geometric, ("shape", "dtype"))


# Poisson: Knuth's multiplication method for small rates, Hörmann's transformed rejection (PTRS) for
# large ones. W. Hörmann, "The transformed rejection method for generating Poisson random
# variables", 1993.


def poisson(key, lam, shape=None, dtype: Any = None, *, out_sharding=None):
    """Draw from a Poisson distribution; needs a key of the threefry2x32 implementation.

    The probability of k is exp(-lam) lam**k / k!, for k = 0, 1, ...

    Args:
      key: PRNG key, typed or raw.
      lam: rate.
      shape: shape of the result; that of `lam` by default.
      dtype: integer dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype; -1 where the rate is negative or NaN.

    Raises:
      NotImplementedError: for keys of another implementation.
      ValueError: if `dtype` is not an integer dtype.

    >>> print(jax.random.poisson(jax.random.key(0), 4.0, (4,)))
    [0 1 5 5]
    """
    key, _ = check_prng_key("poisson", key)
    dtype = any_dtype("poisson", dtype, int)
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(
            f"dtype argument to `poisson` must be an int dtype, got {dtypes.dtype_name(dtype)}"
        )
    impl = key.dtype._impl
    if impl.name != "threefry2x32":
        raise NotImplementedError(
            f"`poisson` is only implemented for the threefry2x32 RNG, not {impl}"
        )
    (lam,) = arraylike("poisson", lam)
    shape = param_shape("poisson", shape, lam)
    return _jit_poisson("poisson", key, lam, shape=shape, dtype=dtype, out_sharding=out_sharding)


_MAX_ITERATIONS = int(np.iinfo(np.int32).max)


def _carry(example, *values):
    """A counter and the initial values of a loop, which vary over mesh axes alike, like `example`."""
    return (0, *core.vary_alike([*values, example])[:-1])


def _poisson_knuth(key, lam, shape, dtype):
    # Multiply uniforms until the product falls below exp(-lam), after k + 1 factors. The product is
    # kept as a logarithm.
    def body(carry):
        i, k, key, log_prod = carry
        key, subkey = pair(key)
        k = lax.select(log_prod > -lam, k + 1, k)
        return i + 1, k, key, log_prod + lax.log(unit_floats(subkey, shape, np.dtype(np.float32)))

    def cond(carry):
        i, _, _, log_prod = carry
        return (log_prod > -lam).any() & (i < _MAX_ITERATIONS)

    init = _carry(lam, lax.full(shape, 0, dtype), key, lax.full(shape, 0.0, np.float32))
    return control_flow.while_loop(cond, body, init)[1] - 1


def _poisson_rejection(key, lam, shape, dtype):
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inv_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def body(carry):
        i, k_out, accepted, key = carry
        key, key_u, key_v = prng.random_split(key, (3,))
        u = unit_floats(key_u, shape, lam.dtype) - 0.5
        v = unit_floats(key_v, shape, lam.dtype)
        us = 0.5 - abs(u)
        k = lax.floor((2 * a / us + b) * u + lam + 0.43)
        s = lax.log(v * inv_alpha / (a / (us * us) + b))
        t = -lam + k * log_lam - lax_special.lgamma(k + 1)
        reject = (k < 0) | ((us < 0.013) & (v > us))
        accept = ((us >= 0.07) & (v <= v_r)) | (~reject & (s <= t))
        return i + 1, lax.select(accept, k, k_out), accepted | accept, key

    def cond(carry):
        i, _, accepted, _ = carry
        return (~accepted).any() & (i < _MAX_ITERATIONS)

    init = _carry(lam, lax.full_like(lam, -1), lax.full(shape, False, np.bool_), key)
    return lax.convert_element_type(control_flow.while_loop(cond, body, init)[1], dtype)


def _poisson(key, lam, *, shape, dtype):
    lam = lax.broadcast_to(lax.convert_element_type(lam, np.float32), shape)
    # Both methods run for all elements; each gets a harmless rate where the other's result is used.
    use_knuth = (lam != lam) | (lam < 10)
    small = lax.select(use_knuth, lam, lax.full_like(lam, 0.0))
    large = lax.select(use_knuth, lax.full_like(lam, 1e5), lam)
    result = lax.select(
        use_knuth,
        _poisson_knuth(key, small, shape, dtype),
        _poisson_rejection(prng.random_clone(key), large, shape, dtype),
    )
    return lax.select(lam == 0, lax.full_like(result, 0), result)


_jit_poisson = keyed_jit(_poisson, ("shape", "dtype"))


# Binomial: sums of geometric variates if few successes are expected, otherwise Hörmann's
# transformed rejection (BTRS). W. Hörmann, "The generation of binomial random variates", 1993.


def binomial(key, n, p, shape=None, dtype: Any = None):
    """Draw the number of successes in n trials, from a binomial distribution.

    The probability of k is n! / (k! (n - k)!) p**k (1 - p)**(n - k), for k = 0, ..., n.

    Args:
      key: PRNG key, typed or raw.
      n: number of trials; it is rounded down.
      p: probability of success.
      shape: shape of the result; that of the parameters by default.
      dtype: float dtype of the result; the computation uses that of `p`.

    Returns:
      Array of that shape and dtype; NaN where the parameters are not valid.

    >>> print(jax.random.binomial(jax.random.key(0), 10, 0.5, (4,)))
    [6. 7. 5. 6.]
    """
    dtype = float_dtype("binomial", dtype)
    check_arraylike("binomial", n, p)
    n, p = lower_jax_array(n), lower_jax_array(p)
    if any(dtypes.issubdtype(typeof(x).dtype, np.complexfloating) for x in (n, p)):
        raise TypeError(f"binomial: n and p must be real, got {typeof(n)} and {typeof(p)}")
    shape = param_shape("binomial", shape, n, p)
    return _jit_binomial("binomial", key, n, p, shape=shape, dtype=dtype)


def _stirling_tail(k):
    """Return the error of Stirling's approximation of log(k!)."""
    table = np.array(
        [0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650,
         0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
         0.00925546218271273, 0.00833056343336287], dtype=k.dtype
    )  # fmt: skip
    small = k <= 9
    k = lax.clamp(np.array(0, k.dtype), k, np.array(9, k.dtype))
    square = (k + 1) * (k + 1)
    approximation = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    exact = (
        to_array(table)
        .at[lax.convert_element_type(lax.floor(k), np.int32)]
        .get(mode="promise_in_bounds")
    )
    return lax.select(small, exact, approximation)


def _binomial_inversion(key, count, prob):
    log_q = log1p(-prob)

    def body(carry):
        i, num_geom, geom_sum, key = carry
        subkey, key = pair(key)
        num_geom = lax.select(geom_sum <= count, num_geom + 1, num_geom)
        u = unit_floats(subkey, count.shape, count.dtype)
        return i + 1, num_geom, geom_sum + lax.ceil(lax.log(u) / log_q), key

    def cond(carry):
        i, _, geom_sum, _ = carry
        return (geom_sum <= count).any() & (i < _MAX_ITERATIONS)

    zeros = lax.full_like(count, 0)
    init = _carry(lax.add(count, prob), zeros, zeros, key)
    return control_flow.while_loop(cond, body, init)[1] - 1


def _binomial_rejection(key, count, prob):
    stddev = lax.sqrt(count * prob * (1 - prob))
    b = 1.15 + 2.53 * stddev
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c = count * prob + 0.5
    v_r = 0.92 - 4.2 / b
    r = prob / (1 - prob)
    alpha = (2.83 + 5.1 / b) * stddev
    m = lax.floor((count + 1) * prob)

    def body(carry):
        i, k_out, accepted, key = carry
        key, key_u, key_v = prng.random_split(key, (3,))
        u = unit_floats(key_u, count.shape, count.dtype)
        v = unit_floats(key_v, count.shape, count.dtype)
        u = u - 0.5
        us = 0.5 - abs(u)
        accept1 = (us >= 0.07) & (v <= v_r)
        k = lax.floor((2 * a / us + b) * u + c)
        reject = (k < 0) | (k > count)
        v = lax.log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * lax.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * lax.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * lax.log(r * (count - k + 1) / (k + 1))
            + _stirling_tail(m) + _stirling_tail(count - m) - _stirling_tail(k) - _stirling_tail(count - k)
        )  # fmt: skip
        accept = accept1 | (~reject & (v <= bound))
        return i + 1, lax.select(accept, k, k_out), accepted | accept, key

    def cond(carry):
        i, _, accepted, _ = carry
        return (~accepted).any() & (i < _MAX_ITERATIONS)

    init = _carry(m, lax.full_like(count, -1), lax.full(count.shape, False, np.bool_), key)
    return control_flow.while_loop(cond, body, init)[1]


def _binomial(key, n, p, *, shape, dtype):
    (p,) = promote_dtypes_inexact(to_array(p))
    n, p = (lax.broadcast_to(lax.convert_element_type(x, p.dtype), shape) for x in (n, p))
    p_is_small = p < 0.5
    q = lax.select(p_is_small, p, 1.0 - p)
    bad_n = (n != n) | (n < 0)
    infinite = lax.eq(abs(n), lax.full_like(n, np.inf))
    q_nan, q_negative = q != q, q < 0
    q = lax.select(q_nan | q_negative, lax.full_like(q, 0.01), q)
    use_inversion = bad_n | (n * q <= 10)
    # Both methods run for all elements; each gets harmless parameters where the other's result is
    # used.
    count = lax.floor(n)
    few = lax.select(use_inversion, count, lax.full_like(count, 0.0))
    many = lax.select(use_inversion, lax.full_like(count, 1e4), count)
    q_many = lax.select(use_inversion, lax.full_like(q, 0.5), q)
    samples = lax.select(
        use_inversion,
        _binomial_inversion(key, few, q),
        _binomial_rejection(prng.random_clone(key), many, q_many),
    )
    samples, count = (lax.convert_element_type(x, dtype) for x in (samples, count))
    invalid = q_negative | q_nan | bad_n
    samples = lax.select(invalid, lax.full_like(samples, np.nan), samples)
    samples = lax.select(infinite & ~invalid, lax.full_like(samples, np.inf), samples)
    return lax.select(p_is_small | bad_n | q_nan | infinite, samples, count - samples)


_jit_binomial = keyed_jit(_binomial, ("shape", "dtype"))


def multinomial(key, n, p, *, shape=None, dtype: Any = None, unroll: int | bool = 1):
    """Draw counts from a multinomial distribution.

    The probability of counts k >= 0 that sum to n is n! prod_i p[i]**k[i] / k[i]!.

    Args:
      key: PRNG key, typed or raw.
      n: number of trials, of shape (...).
      p: probabilities, of shape (..., k).
      shape: shape of the result, (..., k); that of the parameters by default.
      dtype: dtype of the result; the computation uses the dtype of the parameters.
      unroll: see `lax.scan`.

    Returns:
      Array of that shape and dtype; the counts sum to n.

    >>> print(jax.random.multinomial(jax.random.key(0), 10, jnp.array([0.2, 0.3, 0.5])))
    [1. 1. 8.]
    """
    dtype = any_dtype("multinomial", dtype, float)
    check_arraylike("multinomial", n, p)
    n_shape, p_shape = np.shape(n), np.shape(p)
    if not p_shape:
        raise ValueError("multinomial requires p.ndim >= 1, got p.ndim == 0")
    if shape is None:
        shape = (*lax.broadcast_shapes(n_shape, p_shape[:-1]), p_shape[-1])
    else:
        shape = shape_of("multinomial", shape)
        check_broadcast("multinomial", shape, p_shape)
        check_broadcast("multinomial", shape[:-1], n_shape)
    return _jit_multinomial("multinomial", key, n, p, shape=shape, dtype=dtype, unroll=unroll)


def _multinomial(key, n, p, *, shape, dtype, unroll):
    n, p = promote_dtypes_inexact(n, p)
    n, p = lax.broadcast_to(n, shape[:-1]), lax.broadcast_to(p, shape)
    last = len(shape) - 1
    # Category i gets a binomial share p[i] / sum(p[i:]) of the trials that are left.
    rest = lax.cumsum(p, last, reverse=True)
    shares = p / lax.select(rest == 0, lax.full_like(rest, 1), rest)

    def step(remainder, share_key):
        share, key = share_key
        share = lax.clamp(np.array(0, p.dtype), share, np.array(1, p.dtype))
        count = _binomial(key, remainder, share, shape=remainder.shape, dtype=p.dtype)
        return remainder - count, count

    keys = prng.random_split(key, (shape[-1],))
    shares = lax.transpose(shares, (last, *range(last)))
    n, shares, keys = core.vary_alike([n, shares, keys])
    _, counts = control_flow.scan(step, n, (shares, keys), unroll=unroll)
    return lax.convert_element_type(lax.transpose(counts, (*range(1, last + 1), 0)), dtype)


_jit_multinomial = keyed_jit(_multinomial, ("shape", "dtype", "unroll"))
