"""Covariance, correlation coefficients, and convolution and correlation of signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import convolution, lax, slicing
from jax._src.numpy import reductions, util
from jax._src.numpy.manipulation.shape import operand
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike, DTypeLike

# ---------------------------------------------------------------------------------------------------
# Covariance


@export
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Computes the covariance matrix of variables.

    Args:
      m: array of shape (variables, observations), or (observations,) for a single variable.
      y: further variables, in the same form as `m`.
      rowvar: whether rows are variables; False if columns are.
      bias: whether to normalize by the number of observations n instead of n - 1.
      ddof: normalize by `n - ddof` instead; None for `1 - bias`.
      fweights: integer vector: how often each observation occurs.
      aweights: vector of weights of the observations.
      dtype: dtype of the result, which must be inexact.

    Returns:
      Array of shape (variables, variables), or a scalar for one variable.

    Raises:
      ValueError: if an array has more than two dimensions, or `dtype` is not inexact.
      TypeError: if `fweights` are not integers.
      RuntimeError: if weights are not vectors with one entry per observation.

    >>> jnp.cov(jnp.array([[0., 1., 2.], [0., 2., 4.]])).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    if dtype is not None:
        dtype = _inexact("cov", dtype)
    if y is None:
        arrays = util.arraylike("cov", m)
    else:
        arrays = util.arraylike("cov", m, y)
    arrays = [util.to_array(a) for a in util.promote_dtypes_inexact(*arrays)]
    for name, a in zip("my", arrays):
        if a.ndim > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
    if dtype is not None:
        arrays = [lax.convert_element_type(a, dtype) for a in arrays]
    samples = _samples(arrays[0], rowvar)
    weights = []
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        w = operand("cov", w)
        if w.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if w.ndim != 1 or w.shape[0] != samples:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and not dtypes.issubdtype(w.dtype, np.integer):
            raise TypeError("fweights must be integer.")
        if name == "fweights" and core.is_concrete(w) and w.size:
            if util.known_bounds(w, "fweights")[0] < 0:
                raise ValueError("fweights cannot be negative")
        if name == "aweights":
            # Their type takes part in that of the result.
            common = dtypes.result_type(arrays[0], w)
            arrays = [lax.convert_element_type(a, common) for a in arrays]
        weights.append(w if w.dtype == np.bool_ else lax.abs(w))
    return _cov(
        arrays[0],
        arrays[1] if y is not None else None,
        weights[0] if fweights is not None else None,
        weights[-1] if aweights is not None else None,
        rowvar=bool(rowvar),
        ddof=(0 if bias else 1) if ddof is None else ddof,
    )


def _inexact(name: str, dtype: Any) -> Any:
    given, dtype = dtype, dtypes.check_and_canonicalize_user_dtype(dtype, name)
    if not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"{name}: dtype must be a subclass of float or complex; got dtype={given}")
    return dtype


def _samples(m, rowvar):
    return (
        m.shape[0] if m.ndim == 1 or (m.ndim == 2 and not rowvar) else m.shape[1] if m.ndim else 1
    )


def _cov(m, y, fweights, aweights, *, rowvar, ddof):
    x = lax.broadcast_to_rank(m, 2)
    if not rowvar and m.ndim != 1:
        x = lax.transpose(x, (1, 0))
    if x.shape[0] == 0:
        return lax.full((0, 0), 0, x.dtype)
    if y is not None:
        more = lax.broadcast_to_rank(y, 2)
        if not rowvar and more.shape[0] != 1:
            more = lax.transpose(more, (1, 0))
        x = lax.concatenate([x, more], 0)
    n = x.shape[1]
    if n == 0:  # the mean of no observations is NaN
        out = lax.full((x.shape[0], x.shape[0]), np.nan, x.dtype)
        return lax.squeeze(out, [d for d in (0, 1) if core.known_equal(out.shape[d], 1)])
    real = util.complex_elem_type(x.dtype)
    w = None
    for weights in (fweights, aweights):
        if weights is not None:
            weights = lax.convert_element_type(weights, real)
            w = weights if w is None else lax.mul(w, weights)
    if w is None:
        mean = reductions.mean(x, axis=1)
        freedom = lax.full((), n - ddof, real)
    else:
        total = lax.reduce_sum(w, axes=(0,))
        row = lax.convert_element_type(lax.expand_dims(w, (0,)), x.dtype)
        mean = lax.div(
            lax.reduce_sum(lax.mul(x, row), axes=(1,)), lax.convert_element_type(total, x.dtype)
        )
        # NumPy's normalization: the total weight minus `ddof * sum(w * aweights) / sum(w)`.
        less = lax.const(total, ddof)
        if aweights is not None and ddof != 0:
            square = lax.reduce_sum(lax.mul(w, lax.convert_element_type(aweights, real)), axes=(0,))
            less = lax.div(lax.mul(less, square), total)
        freedom = lax.sub(total, less)
    x = lax.sub(x, lax.expand_dims(mean, (1,)))
    other = x if w is None else lax.mul(x, row)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        other = lax.conj(other)
    products = lax.dot_general(x, other, (((1,), (1,)), ((), ())), preferred_element_type=x.dtype)
    out = lax.div(products, lax.convert_element_type(freedom, x.dtype))
    return lax.squeeze(out, [d for d in (0, 1) if core.known_equal(out.shape[d], 1)])


_cov = nested_jit(_cov, static_argnames=("rowvar", "ddof"))


@export
def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    dtype: DTypeLike | None = None,
) -> Array:
    """Computes the matrix of Pearson correlation coefficients.

    Args:
      x, y, rowvar, dtype: as for `cov`.

    Returns:
      A square array with a row for each variable, or a scalar for one variable.

    >>> jnp.corrcoef(jnp.array([[0., 1., 2.], [0., 2., 4.]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    util.check_arraylike("corrcoef", x)
    if dtype is not None:
        dtype = _inexact("corrcoef", dtype)
    return _corrcoef(cov(x, y, rowvar, dtype=dtype))


def _corrcoef(c):
    if not c.ndim:
        return lax.div(c, c)
    n = c.shape[0]
    if not n:
        return c
    diagonal = lax.reshape(c, (n * n,))
    diagonal = slicing.slice(diagonal, (0,), (n * n,), (n + 1,))
    is_complex = dtypes.issubdtype(c.dtype, np.complexfloating)
    deviation = lax.sqrt(lax.real(diagonal) if is_complex else diagonal)
    deviation = lax.convert_element_type(deviation, c.dtype)
    c = lax.div(lax.div(c, lax.expand_dims(deviation, (1,))), lax.expand_dims(deviation, (0,)))
    if is_complex:
        return lax.complex(_within_one(lax.real(c)), _within_one(lax.imag(c)))
    return _within_one(c)


def _within_one(x):
    return lax.min(lax.max(x, lax.const(x, -1)), lax.const(x, 1))


_corrcoef = nested_jit(_corrcoef)


# ---------------------------------------------------------------------------------------------------
# Convolution


@export
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolves two vectors.

    Args:
      a, v: vectors of sizes `m` and `n`.
      mode: size of the result: "full" for `m + n - 1`, "same" for `max(m, n)`, "valid" for
        `max(m, n) - min(m, n) + 1`.
      precision, preferred_element_type: as for `jax.numpy.dot`.

    Returns:
      A vector of the size that `mode` gives.

    Raises:
      ValueError: if an argument is empty or not a vector, or `mode` is unknown.

    >>> jnp.convolve(jnp.array([1., 2., 3.]), jnp.array([1., 1.])).tolist()
    [1.0, 3.0, 5.0, 3.0]
    """
    return _signals("convolve", a, v, mode, precision, preferred_element_type)


@export
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Cross-correlates two vectors, conjugating the second.

    Args:
      a, v, mode, precision, preferred_element_type: as for `convolve`.

    Returns:
      A vector of the size that `mode` gives.

    >>> jnp.correlate(jnp.array([1., 2., 3.]), jnp.array([0., 1.])).tolist()
    [2.0, 3.0]
    """
    return _signals("correlate", a, v, mode, precision, preferred_element_type)


def _signals(op, a, v, mode, precision, preferred):
    a, v = util.arraylike(op, a, v)
    if np.ndim(a) != 1 or np.ndim(v) != 1:
        raise ValueError(f"{op}() only support 1-dimensional inputs.")
    if np.shape(a)[0] == 0 or np.shape(v)[0] == 0:
        raise ValueError(
            f"{op}: inputs cannot be empty, got shapes {np.shape(a)} and {np.shape(v)}."
        )
    if mode not in ("full", "same", "valid"):
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    if preferred is not None:
        preferred = dtypes.check_and_canonicalize_user_dtype(preferred, op)
    return _convolve(a, v, op=op, mode=mode, precision=precision, preferred=preferred)


def _convolve(a, v, *, op, mode, precision, preferred):
    promote = util.promote_dtypes_inexact if preferred is None else util.promote_dtypes
    a, v = map(util.to_array, promote(a, v))
    # The kernel has to be the shorter vector. Swapping the operands of a correlation reverses its
    # result, which is undone at the end.
    swapped = a.shape[0] < v.shape[0]
    if op == "correlate":
        v = lax.conj(v) if dtypes.issubdtype(v.dtype, np.complexfloating) else v
        if swapped:
            a, v = v, a
    else:
        if swapped:
            a, v = v, a
        v = lax.rev(v, (0,))
    n = v.shape[0]
    pads = {"valid": (0, 0), "same": (n // 2, n - n // 2 - 1), "full": (n - 1, n - 1)}
    out = convolution.conv_general_dilated(
        lax.expand_dims(a, (0, 1)),
        lax.expand_dims(v, (0, 1)),
        (1,),
        [pads[mode]],
        precision=precision,
        preferred_element_type=preferred,
    )
    out = lax.squeeze(out, (0, 1))
    return lax.rev(out, (0,)) if op == "correlate" and swapped else out


_convolve = nested_jit(_convolve, static_argnames=("op", "mode", "precision", "preferred"))
