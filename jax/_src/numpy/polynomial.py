"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import control_flow, lax, slicing
from jax._src.numpy import linalg, util
from jax._src.numpy.editing import trim_zeros
from jax._src.numpy.manipulation.shape import operand
from jax._src.numpy.matrices import vander
from jax._src.numpy.searching import elements_at
from jax._src.numpy.statistics import convolve
from jax._src.numpy.ufuncs import add, subtract
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike


def _strong(x):
    """Makes an array strongly typed."""
    return lax.convert_element_type(x, dtypes.dtype(x))


def _zeros(x, n):
    return lax.full((n,), 0, x.dtype)


def _part(x, start, stop):
    return slicing.slice_in_dim(x, start, stop)


def _coefficients(name, x, scalars=False):
    """Checks that `x`, an array, is a vector; `scalars` are constant polynomials."""
    if x.ndim == 0 and scalars:
        return lax.reshape(x, (1,))
    if x.ndim == 0:
        raise TypeError(
            f"{name} requires a vector of coefficients, got a scalar. Use jnp.atleast_1d to make a constant "
            "polynomial of it."
        )
    if x.ndim > 1:
        raise ValueError(
            f"{name} requires a vector of coefficients, got an array of shape {x.shape}. Use jax.vmap for "
            "several polynomials."
        )
    return x


# ---------------------------------------------------------------------------------------------------
# Roots


@export
def poly(seq_of_zeros: ArrayLike) -> Array:
    """Coefficients of the monic polynomial with given roots.

    Args:
      seq_of_zeros: a vector of roots, repeated as often as their multiplicity; or a square matrix,
        for its characteristic polynomial.

    Returns:
      A vector of n + 1 coefficients for n roots, the highest power first; a scalar 1 for none.
      Those of a matrix are complex.

    Raises:
      ValueError: if `seq_of_zeros` is neither a vector nor a square matrix.

    >>> jnp.poly(jnp.array([1, 2, 3])).tolist()
    [1.0, -6.0, 11.0, -6.0]
    """
    roots = operand("poly", seq_of_zeros)
    square = roots.ndim == 2 and roots.shape[0] == roots.shape[1] != 0
    if roots.ndim > 1 and not square:
        raise ValueError(
            f"poly: input must be 1d or non-empty square 2d array, got shape {roots.shape}."
        )
    return _poly(roots)


def _poly(roots):
    (roots,) = util.promote_dtypes_inexact(roots)
    if roots.ndim == 2:
        roots = linalg.eigvals(_of_linalg(roots))
    roots = _strong(roots)
    if roots.ndim == 1 and not roots.shape[0]:
        return lax.full((), 1, roots.dtype)
    roots = lax.reshape(roots, (roots.size,))
    n = roots.shape[0]

    def times_linear_factor(coefficients, root):
        lower = lax.concatenate([_zeros(roots, 1), _part(coefficients, 0, n)], 0)
        return lax.sub(coefficients, lax.mul(root, lower)), None

    one = lax.concatenate([lax.full((1,), 1, roots.dtype), _zeros(roots, n)], 0)
    return control_flow.scan(times_linear_factor, one, roots, unroll=min(n, 8))[0]


_poly = nested_jit(_poly)


def _of_linalg(x):
    """Converts an inexact array to a dtype that the decompositions have."""
    return x.astype(np.float32) if dtypes.dtype(x).itemsize < 4 else x


@export
def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Roots of a polynomial.

    They are the eigenvalues of its companion matrix.

    Args:
      p: vector of coefficients, the highest power first.
      strip_zeros: whether the number of roots depends on that of leading zeros in `p`, which must
        not be traced then. If False, each leading zero adds a root NaN at the end.

    Returns:
      A complex vector, with roots of zero after the others.

    Raises:
      ValueError: if `p` is not a vector.
      ConcretizationTypeError: if `p` is traced and `strip_zeros` is not False.

    >>> jnp.roots(jnp.array([1., -3., 2.])).round(3).real.tolist()
    [2.0, 1.0]
    >>> bool(jnp.isnan(jnp.roots(jnp.array([0., 2., 4.]), strip_zeros=False)[1]))
    True
    """
    p = operand("roots", p)
    if p.ndim > 1:
        raise ValueError(f"roots: Input must be a rank-1 array, got shape {p.shape}.")
    p = lax.reshape(p, (p.size,))
    if not strip_zeros:
        return _all_roots(p)
    if p.size < 2:
        return _all_roots(_part(p, 0, 0))
    nonzero = core.concrete_or_error(
        np.flatnonzero,
        p,
        "The error occurred in the jnp.roots() function, whose result depends in size on the leading "
        "zeros. To use it within a JIT-compiled context, pass strip_zeros=False: leading zeros then add "
        "roots NaN.",
    )
    if not len(nonzero):
        return _all_roots(_part(p, 0, 0))
    # A single trailing zero stays, since its root has a derivative; those of more are at zero.
    zeros = max(p.shape[0] - 2 - int(nonzero[-1]), 0)
    out = _nonzero_roots(_part(p, int(nonzero[0]), p.shape[0] - zeros))
    return lax.concatenate([out, _zeros(out, zeros)], 0) if zeros else out


def _companion(p):
    """Companion matrix of a vector whose first element is not zero."""
    n = p.shape[0] - 1
    first = lax.neg(lax.div(_part(p, 1, n + 1), util.broadcast_to(_part(p, 0, 1), (n,))))
    below = lax.full_like(first, 1, shape=(n, n))
    i, j = (lax.broadcasted_iota(np.int32, (n, n), d) for d in (0, 1))
    below = lax.select(lax.eq(i, lax.add(j, lax.full_like(j, 1))), below, lax.full_like(below, 0))
    row = lax.broadcast_in_dim(first, (n, n), (1,))
    return lax.select(lax.eq(i, lax.full_like(i, 0)), row, below)


def _nonzero_roots(p):
    (p,) = util.promote_dtypes_inexact(p)
    p = _strong(_of_linalg(p))
    if p.shape[0] < 2:
        return lax.full((0,), 0, dtypes.to_complex_dtype(p.dtype))
    return _zeros_last(linalg.eigvals(_companion(p)))


def _zeros_last(x):
    is_zero = lax.convert_element_type(lax.eq(x, lax.full_like(x, 0)), np.int32)
    _, order = lax.sort_key_val(is_zero, lax.iota(np.int32, x.shape[0]))
    return elements_at(x, order)


_nonzero_roots = nested_jit(_nonzero_roots)


def _all_roots(p):
    (p,) = util.promote_dtypes_inexact(p)
    p = _strong(_of_linalg(p))
    n = p.shape[0] - 1
    if n < 1:
        return lax.full((0,), 0, dtypes.to_complex_dtype(p.dtype))
    place = lax.iota(np.int32, n + 1)
    empty = lax.eq(p, lax.full_like(p, 0))
    size = lax.full_like(place, n + 1)
    leading = lax.reduce_min(lax.select(empty, size, place), (0,))
    last = lax.reduce_max(lax.select(empty, lax.full_like(place, -1), place), (0,))
    # Move the polynomial to the front, where zeros follow it. What comes after its first trailing
    # zero is separated from the companion matrix: eigenvalues of zero, which are exact and have
    # finite derivatives.
    moved = lax.add(place, lax.broadcast(leading, (n + 1,)))
    within = lax.lt(moved, size)
    p = elements_at(p, lax.select(within, moved, lax.full_like(moved, n)))
    first = lax.eq(place, lax.full_like(place, 0))
    p = lax.select(within, p, lax.select(first, lax.full_like(p, 1), lax.full_like(p, 0)))
    degree = lax.sub(lax.min(lax.add(last, np.int32(1)), np.int32(n)), leading)
    matrix = _companion(p)
    row = lax.broadcasted_iota(np.int32, (n, n), 0)
    kept = lax.lt(row, lax.broadcast(lax.max(degree, np.int32(1)), (n, n)))
    out = _zeros_last(linalg.eigvals(lax.select(kept, matrix, lax.full_like(matrix, 0))))
    valid = lax.lt(lax.iota(np.int32, n), lax.broadcast(lax.sub(np.int32(n), leading), (n,)))
    return lax.select(valid, out, lax.full_like(out, complex(np.nan, np.nan)))


_all_roots = nested_jit(_all_roots)


# ---------------------------------------------------------------------------------------------------
# Values, and fits to them


@export
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """Evaluates a polynomial by Horner's rule.

    Args:
      p: coefficients along the first axis, the highest power first; other axes broadcast with `x`.
      x: array of any shape.
      unroll: number of steps of the loop over coefficients in one iteration, as for
        `jax.lax.scan`.

    Returns:
      An array of the common dtype; zeros if there are no coefficients.

    Raises:
      TypeError: if `p` is a scalar.
      ValueError: if shapes do not broadcast, or `unroll` is negative.

    >>> jnp.polyval(jnp.array([1, 0, 2]), jnp.array([1, 2, 3])).tolist()
    [3, 6, 11]
    """
    p, x = util.ensure_arraylike("polyval", p, x)
    if p.ndim == 0:
        _coefficients("polyval", p)
    unroll = core.concrete_or_error(operator.index, unroll, "'unroll' argument of jnp.polyval()")
    return _polyval(p, x, unroll=unroll)


def _polyval(p, x, *, unroll):
    p, x = map(_strong, util.promote_dtypes(p, x))
    shape = lax.broadcast_shapes(p.shape[1:], x.shape)
    x = util.broadcast_to(x, shape)
    times, plus = (lax.mul, lax.add) if x.dtype != np.bool_ else (lax.bitwise_and, lax.bitwise_or)

    def step(y, coefficient):
        return plus(times(y, x), util.broadcast_to(coefficient, shape)), None

    # As in NumPy the first step is 0 * x, which makes values at infinity NaN.
    return control_flow.scan(step, lax.full_like(x, 0), p, unroll=unroll)[0]


_polyval = nested_jit(_polyval, static_argnames=("unroll",))


@export
def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False,
    w: ArrayLike | None = None, cov: bool | str = False,
) -> Array | tuple[Array, ...]:  # fmt: skip
    """Fits a polynomial to samples by least squares.

    Args:
      x: vector of m coordinates.
      y: samples: of shape (m,), or (m, k) for k fits.
      deg: degree of the polynomial.
      rcond: singular values below `rcond` times the largest one are treated as zero; None for m
        times the dtype's machine epsilon.
      full: whether to return details of the solution; `cov` has no effect then.
      w: vector of m weights of the residuals, before they are squared.
      cov: whether to return the covariance of the coefficients, scaled by the sum of squared
        residuals over the degrees of freedom; "unscaled" for weights that are reciprocal standard
        deviations.

    Returns:
      The coefficients, the highest power first: of shape (deg + 1,) or (deg + 1, k). With `full`, a
      tuple `(coefficients, residuals, rank, singular_values, rcond)`, see `jax.numpy.linalg.lstsq`.
      With `cov`, a pair of the coefficients and the covariance: of shape (deg + 1, deg + 1), or
      (deg + 1, deg + 1, k), where k is 1 if it is unscaled.

    Raises:
      TypeError: if the arguments' shapes do not match, or `x` is empty.
      ValueError: if `deg` is negative, or there are too few samples for a covariance.

    >>> x = jnp.arange(4.)
    >>> jnp.polyfit(x, 2 * x + 1, 1).round(3).tolist()
    [2.0, 1.0]
    """
    x, y = util.ensure_arraylike("polyfit", x, y)
    deg = core.concrete_or_error(int, deg, "'deg' argument of jnp.polyfit()")
    if deg < 0:
        raise ValueError(f"polyfit: expected deg >= 0, got {deg}")
    if x.ndim != 1:
        raise TypeError(f"polyfit: expected 1D vector for x, got shape {x.shape}")
    if not x.size:
        raise TypeError("polyfit: expected non-empty vector for x")
    if y.ndim not in (1, 2):
        raise TypeError(f"polyfit: expected 1D or 2D array for y, got shape {y.shape}")
    if x.shape[0] != y.shape[0]:
        raise TypeError(
            f"polyfit: expected x and y to have same length, got shapes {x.shape} and {y.shape}"
        )
    if w is not None:
        util.check_arraylike("polyfit", x, y, w)
        w = util.to_array(w)
        if w.ndim != 1:
            raise TypeError(f"polyfit: expected a 1-d array for weights, got shape {w.shape}")
        if w.shape[0] != y.shape[0]:
            raise TypeError(
                f"polyfit: expected w and y to have the same length, got shapes {w.shape} and {y.shape}"
            )
    if isinstance(cov, str) and cov != "unscaled":
        raise ValueError(f"polyfit: cov must be True, False or 'unscaled', got {cov!r}")
    kind = "full" if full else cov if isinstance(cov, str) else "cov" if cov else ""
    if kind == "cov" and x.shape[0] <= deg + 1:
        raise ValueError(
            "polyfit: the number of data points must exceed order to scale the covariance matrix, got "
            f"{x.shape[0]} points for {deg + 1} coefficients. Pass cov='unscaled' instead."
        )
    if isinstance(rcond, (int, str)):
        rcond = float(rcond)
    return _polyfit(x, y, rcond, w, order=deg + 1, kind=kind)


def _polyfit(x, y, rcond, w, *, order, kind):
    x, y = map(_strong, util.promote_dtypes_inexact(x, y))
    dtype = x.dtype
    x, y = _of_linalg(x), _of_linalg(y)
    real = dtypes.finfo(x.dtype).dtype
    if rcond is None:
        rcond = x.shape[0] * float(dtypes.finfo(real).eps)
    matrix = vander(x, order)
    if w is not None:
        x, matrix, y, w = util.promote_dtypes(x, matrix, y, w)
        matrix = lax.mul(matrix, lax.broadcast_in_dim(w, matrix.shape, (0,)))
        y = lax.mul(y, lax.broadcast_in_dim(w, y.shape, (0,)))
    # Columns of equal norm improve the condition.
    norms = lax.sqrt(lax.reduce_sum(lax.square(lax.abs(matrix)), (0,)))
    norms = lax.select(lax.eq(norms, lax.full_like(norms, 0)), lax.full_like(norms, 1), norms)
    norms = lax.convert_element_type(norms, matrix.dtype)
    matrix = lax.div(matrix, lax.broadcast_in_dim(norms, matrix.shape, (1,)))
    out, residuals, rank, s = linalg.lstsq(matrix, y, rcond)
    out = lax.div(out, lax.broadcast_in_dim(norms, out.shape, (0,)))
    out = lax.convert_element_type(out, dtypes.result_type(dtype, out) if w is not None else dtype)
    if kind == "full":
        return out, residuals, rank, s, util.to_array(rcond)
    if not kind:
        return out
    gram = linalg.inv(linalg.matmul(lax.conj(matrix.T) if np.iscomplexobj(x) else matrix.T, matrix))
    gram = lax.div(gram, linalg.outer(norms, norms))
    if y.ndim == 2:
        gram = lax.expand_dims(gram, (2,))
    if kind == "cov":
        scale = lax.div(residuals, lax.full_like(residuals, x.shape[0] - order))
        if y.ndim == 1:
            scale = lax.broadcast(lax.squeeze(scale, (0,)), gram.shape)
        else:
            shape = (order, order, y.shape[1])
            gram, scale = util.broadcast_to(gram, shape), util.broadcast_to(scale, shape)
        gram = lax.mul(gram, lax.convert_element_type(scale, gram.dtype))
    return out, lax.convert_element_type(gram, out.dtype)


_polyfit = nested_jit(_polyfit, static_argnames=("order", "kind"))


# ---------------------------------------------------------------------------------------------------
# Arithmetic


def _pair(name, a, b):
    a, b = util.ensure_arraylike(name, a, b)
    return _coefficients(name, a, scalars=True), _coefficients(name, b, scalars=True)


def _terms(name, a, b):
    """Converts two arrays of coefficients, along the first axis, to one dtype and size."""
    a, b = (lax.reshape(x, (1,)) if not x.ndim else x for x in util.ensure_arraylike(name, a, b))
    if a.ndim != b.ndim:
        raise ValueError(
            f"{name} requires coefficients of equal rank, got shapes {a.shape} and {b.shape}."
        )
    return _padded(a, b)


def _padded(a, b):
    n = max(a.shape[0], b.shape[0])
    return [
        lax.pad(
            x, lax.full_like(x, 0, shape=()), [(n - x.shape[0], 0, 0)] + [(0, 0, 0)] * (x.ndim - 1)
        )
        for x in util.promote_dtypes(a, b)
    ]


_padded = nested_jit(_padded)


@export
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Adds polynomials.

    Args:
      a1, a2: coefficients along the first axis, the highest power first; or scalars.

    Returns:
      An array of the size of the longer one.

    Raises:
      ValueError: if the ranks differ, or other axes do not broadcast.

    >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([1, 0, 3])).tolist()
    [1, 1, 5]
    """
    return add(*_terms("polyadd", a1, a2))


@export
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Subtracts polynomials.

    Args:
      a1, a2: coefficients along the first axis, the highest power first; or scalars.

    Returns:
      An array of the size of the longer one.

    Raises:
      ValueError: if the ranks differ, or other axes do not broadcast.
      TypeError: if both are boolean.

    >>> jnp.polysub(jnp.array([1, 2]), jnp.array([1, 0, 3])).tolist()
    [-1, 1, -1]
    """
    return subtract(*_terms("polysub", a1, a2))


@export
def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Multiplies polynomials.

    Args:
      a1, a2: vectors of coefficients, the highest power first; or scalars.
      trim_leading_zeros: whether to remove leading zeros of the arguments first, which must not be
        traced then.

    Returns:
      A vector of floating-point or complex coefficients.

    Raises:
      ValueError: if an argument has several dimensions.

    >>> jnp.polymul(jnp.array([1., 2.]), jnp.array([1., 0., 3.])).tolist()
    [1.0, 2.0, 3.0, 6.0]
    """
    factors = _pair("polymul", a1, a2)
    if trim_leading_zeros:
        factors = [trim_zeros(x, "f") for x in factors]
    factors = [x if x.shape[0] else _zeros(x, 1) for x in factors]
    return convolve(*factors, precision="highest")


@export
def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Divides polynomials.

    Args:
      u, v: dividend and divisor: vectors of coefficients, the highest power first; or scalars. The
        first coefficient of `v` must not be zero.
      trim_leading_zeros: whether to remove leading coefficients of the remainder up to the root of
        the machine epsilon, so that its size depends on values, and the arguments must not be
        traced.

    Returns:
      `(quotient, remainder)`: floating-point or complex vectors. The remainder has the size of `u`
      unless it is trimmed.

    Raises:
      ValueError: if an argument has several dimensions.
      IndexError: if `v` is empty.

    >>> q, r = jnp.polydiv(jnp.array([1., 3., 3., 2.]), jnp.array([1., 1.]))
    >>> q.tolist(), r.tolist()
    ([1.0, 2.0, 1.0], [0.0, 0.0, 0.0, 1.0])
    """
    u, v = _pair("polydiv", u, v)
    if not v.shape[0]:
        raise IndexError("polydiv: the divisor is empty. For a constant, pass its coefficient.")
    quotient, remainder = _polydiv(u, v)
    if trim_leading_zeros:
        value = core.concrete_or_error(
            np.asarray,
            remainder,
            "Error arose in polydiv() with trim_leading_zeros=True: the size of the remainder depends on "
            "values. Pass trim_leading_zeros=False in compiled functions.",
        )
        tolerance = math.sqrt(dtypes.finfo(value.dtype).eps)
        large = np.flatnonzero(~(np.abs(value) <= tolerance))
        remainder = _part(remainder, large[0] if len(large) else len(value), len(value))
    return quotient, remainder


def _polydiv(u, v):
    u, v = map(_strong, util.promote_dtypes_inexact(u, v))
    steps, n = u.shape[0] - v.shape[0] + 1, v.shape[0] - 1
    if steps < 1:
        return _zeros(u, 1), u
    first, rest = slicing.index_in_dim(v, 0, keepdims=False), _part(v, 1, n + 1)
    scale = lax.div(lax.full_like(first, 1), first)

    def step(window, coefficient):
        """Long division: takes in the next coefficient of the dividend."""
        window = lax.concatenate([window, lax.reshape(coefficient, (1,))], 0)
        head = slicing.index_in_dim(window, 0, keepdims=False)
        q = lax.mul(scale, head)
        zero = lax.sub(q, q)  # NaN unless q is finite
        return lax.sub(_part(window, 1, n + 1), lax.mul(q, rest)), (q, zero)

    init = _part(u, 0, n)
    last, (quotient, zeros) = control_flow.scan(
        step, init, _part(u, n, u.shape[0]), unroll=min(steps, 8)
    )
    return quotient, lax.concatenate([zeros, last], 0)


_polydiv = nested_jit(_polydiv)


# ---------------------------------------------------------------------------------------------------
# Calculus


def _order(name, kind, m):
    m = core.concrete_or_error(operator.index, m, f"'m' argument of jnp.{name}")
    if m < 0:
        raise ValueError(f"{name}: Order of {kind} must be positive, got m={m}")
    return m


def _falling(n: Any, m: int, dtype: Any) -> Any:
    """For the powers n - 1, ..., 0: the product of the numbers from one above it to `m` above it."""
    if core.is_symbolic_dim(n):
        power = lax.rev(lax.iota(dtype, n), (0,))
        return math.prod([lax.add(power, lax.const(power, i)) for i in range(1, m + 1)])
    products = [math.prod(range(k + 1, k + m + 1)) for k in reversed(range(n))]
    return lax.convert_element_type(np.array(products, float), dtype)


@export
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Differentiates a polynomial.

    Args:
      p: vector of coefficients, the highest power first.
      m: how often.

    Returns:
      A vector of floating-point or complex coefficients, shorter by `m`. For m = 0 `p`, of any shape.

    Raises:
      TypeError, ValueError: if `p` is not a vector, or `m` is negative.

    >>> jnp.polyder(jnp.array([1., 2., 3.])).tolist()
    [2.0, 2.0]
    """
    p = operand("polyder", p)
    m = _order("polyder", "derivative", m)
    if not m:
        return util.promote_dtypes_inexact(p)[0]
    return _polyder(_coefficients("polyder", p), m=m)


def _polyder(p, *, m):
    (p,) = util.promote_dtypes_inexact(p)
    p = _strong(p)
    n = core.max_dim(p.shape[0] - m, 0)
    return lax.mul(_part(p, 0, n), _falling(n, m, p.dtype))


_polyder = nested_jit(_polyder, static_argnames=("m",))


@export
def polyint(p: ArrayLike, m: int = 1, k: int | ArrayLike | None = None) -> Array:
    """Integrates a polynomial.

    Args:
      p: vector of coefficients, the highest power first.
      m: how often.
      k: constants of integration: a vector of `m`, of which the first belongs to the first
        integration, or one for all; None for zeros.

    Returns:
      A vector of floating-point or complex coefficients, longer by `m`. For m = 0 `p`, of any shape.

    Raises:
      TypeError, ValueError: if `p` is not a vector, `m` is negative, or `k` has another size.

    >>> jnp.polyint(jnp.array([3., 2., 1.]), k=5).tolist()
    [1.0, 1.0, 1.0, 5.0]
    """
    k = 0 if k is None else k
    p, k = util.ensure_arraylike("polyint", p, k)
    m = _order("polyint", "integral", m)
    if k.size not in (1, m):
        raise ValueError(
            f"polyint: k must be a scalar or a rank-1 array of length 1 or m, got shape {k.shape} and {m=}"
        )
    if not m:
        return util.promote_dtypes_inexact(p, k)[0]
    return _polyint(_coefficients("polyint", p), k, m=m)


def _polyint(p, k, *, m):
    p, k = map(_strong, util.promote_dtypes_inexact(p, k))
    n = p.shape[0]
    k = lax.reshape(k, (k.size,))
    k = util.broadcast_to(k, (m,))
    terms = lax.div(p, _falling(n, m, p.dtype))
    # The constant of integration i is integrated m - 1 - i more times.
    factorials = np.array([math.factorial(m - 1 - i) for i in range(m)], float)
    constants = lax.div(k, lax.convert_element_type(factorials, p.dtype))
    return lax.concatenate([terms, constants], 0)


_polyint = nested_jit(_polyint, static_argnames=("m",))
