"""Special matrices: `block_diag`, `toeplitz`, `hilbert` and so on."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.lax.control_flow import scan
from jax._src.numpy import util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.ufuncs_unary import absolute
from jax._src.scipy.linalg.common import export
from jax._src.typing import ArrayLike, DTypeLike

# ---------------------------------------------------------------------------------------------------
# Matrices made from arrays


@export
def block_diag(*arrs: ArrayLike) -> Array:
    """Makes a block diagonal matrix.

    Args:
      *arrs: the blocks; vectors count as single rows, scalars as 1x1 matrices.

    Raises:
      ValueError: if a block has more than two dimensions.

    >>> jax.scipy.linalg.block_diag(jnp.array([[1, 2]]), jnp.array([[3]])).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    blocks = util.promote_dtypes(*[asarray(a) for a in arrs]) if arrs else []
    for i, a in enumerate(blocks):
        if a.ndim > 2:
            raise ValueError(
                "Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got shape "
                f"{a.shape} at argument {i}."
            )
    return _block_diag(blocks)


def _block_diag_impl(blocks):
    if not blocks:
        return lax.full((1, 0), 0, dtypes.default_float_dtype())
    blocks = [lax.reshape(a, (1,) * (2 - a.ndim) + a.shape) for a in blocks]
    total = sum(a.shape[1] for a in blocks)
    zero = np.zeros((), blocks[0].dtype)
    out, at = [], 0
    for a in blocks:
        out.append(lax.pad(a, zero, [(0, 0, 0), (at, total - at - a.shape[1], 0)]))
        at += a.shape[1]
    return lax.concatenate(out, 0)


_block_diag_impl.__name__ = "block_diag"
_block_diag = nested_jit(_block_diag_impl)


def _vector(name: str, a: Any) -> Any:
    a = util.ensure_arraylike(name, a)
    return lax.reshape(a, (1,)) if a.ndim == 0 else a


def _joined(*parts: Any) -> Any:
    """Concatenates vectors along the last dimension; batch dimensions broadcast."""
    lead = lax.broadcast_shapes(*[p.shape[:-1] for p in parts])
    parts = tuple(util.broadcast_to(p, (*lead, p.shape[-1])) for p in parts)
    return lax.concatenate(parts, len(lead))


@export
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Makes a Toeplitz matrix, which has constant diagonals.

    Args:
      c: first column, of shape (..., n).
      r: first row, of shape (..., m), whose first element is ignored; by default the conjugate of
        `c`.

    Returns:
      Array of shape (..., n, m).

    >>> jax.scipy.linalg.toeplitz(jnp.array([1, 2]), jnp.array([0, 3, 4])).tolist()
    [[1, 3, 4], [2, 1, 3]]
    """
    c = _vector("toeplitz", c)
    if r is None:
        r = lax.conj(c) if np.iscomplexobj(c) else c
    c, r = util.promote_dtypes(c, _vector("toeplitz", r))
    n, m = c.shape[-1], r.shape[-1]
    i, j = _grid(n, m)
    return _joined(lax.rev(r[..., 1:], (r.ndim - 1,)), c)[..., max(m - 1, 0) + i - j]


@export
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Makes a Hankel matrix, which has constant antidiagonals.

    Args:
      c: first column, of shape (..., n); n > 0 unless both are empty.
      r: last row, of shape (..., m), whose first element is ignored; zeros by default.

    Returns:
      Array of shape (..., n, m).

    Raises:
      ValueError: if an argument is a scalar.

    >>> jax.scipy.linalg.hankel(jnp.array([1, 2]), jnp.array([0, 3, 4])).tolist()
    [[1, 2, 3], [2, 3, 4]]
    """
    c = util.ensure_arraylike("hankel", c)
    r = lax.full_like(c, 0) if r is None else util.ensure_arraylike("hankel", r)
    for name, x in (("c", c), ("r", r)):
        if not x.ndim:
            raise ValueError(f"hankel: {name} must be at least 1-dimensional, got a scalar.")
    c, r = util.promote_dtypes(c, r)
    i, j = _grid(c.shape[-1], r.shape[-1])
    return _joined(c, r[..., 1:])[..., i + j]


@export
def circulant(c: ArrayLike) -> Array:
    """Makes a circulant matrix: each column is the previous one shifted down by one, cyclically.

    Args:
      c: first column, of shape (..., n).

    Returns:
      Array of shape (..., n, n).

    >>> jax.scipy.linalg.circulant(jnp.array([1, 2, 3])).tolist()
    [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    c = _vector("circulant", c)
    n = c.shape[-1]
    i, j = _grid(n, n)
    return c[..., (i - j) % max(n, 1)]


def _grid(n: Any, m: Any) -> tuple[Any, Any]:
    """The indices of rows and columns, of sizes that may be symbolic."""
    if core.is_constant_shape((n, m)):
        i, j = np.ogrid[:n, :m]
        return i, j
    return lax.iota(np.int32, n)[:, None], lax.iota(np.int32, m)[None]


@export
def companion(a: ArrayLike) -> Array:
    """Makes the companion matrix of a polynomial, whose eigenvalues are the polynomial's roots.

    Args:
      a: coefficients in descending order, of shape (..., n) with n >= 2; the first must not be 0.

    Returns:
      Array of shape (..., n - 1, n - 1).

    Raises:
      ValueError: if there are fewer than two coefficients.

    >>> jax.scipy.linalg.companion(jnp.array([1.0, -3.0, 2.0])).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    (a,) = util.promote_dtypes_inexact(_vector("companion", a))
    n = a.shape[-1] - 1
    if core.definitely_greater(1, n):
        raise ValueError(
            f"The length of `a` along the last axis must be at least 2; got shape {a.shape}."
        )
    i, j = _grid(n, n)
    row = lax.expand_dims(lax.neg(a[..., 1:] / a[..., :1]), (a.ndim - 1,))
    return util.select_where(i == 0, row, (i == j + 1).astype(a.dtype))


@export
def fiedler(a: ArrayLike) -> Array:
    """Makes the symmetric matrix of distances `abs(a[i] - a[j])` from an array of shape (..., n).

    Args:
      a: array of shape (..., n).

    Returns:
      Array of shape (..., n, n).

    >>> jax.scipy.linalg.fiedler(jnp.array([1, 4])).tolist()
    [[0, 3], [3, 0]]
    """
    a = _vector("fiedler", a)
    d = a.ndim
    return absolute(lax.expand_dims(a, (d,)) - lax.expand_dims(a, (d - 1,)))


@export
def fiedler_companion(a: ArrayLike) -> Array:
    """Makes a pentadiagonal companion matrix, whose eigenvalues are the roots of a polynomial.

    Fiedler, "A note on companion matrices" (2003).

    Args:
      a: coefficients in descending order, of shape (..., n) with n >= 1; the first must not be 0.

    Returns:
      Array of shape (..., n - 1, n - 1).

    Raises:
      ValueError: if there are no coefficients.

    >>> jax.scipy.linalg.fiedler_companion(jnp.array([1.0, -3.0, 2.0])).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    (a,) = util.promote_dtypes_inexact(_vector("fiedler_companion", a))
    if not a.shape[-1]:
        raise ValueError(
            "fiedler_companion requires the last axis of 'a' to have nonzero length, but got an array of "
            f"shape {a.shape}."
        )
    n = a.shape[-1] - 1
    if core.definitely_equal(n, 0):
        return lax.full((*a.shape[:-1], 0, 0), 0, a.dtype)
    i, j = _grid(n, n)
    # Coefficient k + 2 is next to the diagonal, in row or column k; ones two off the diagonal link
    # every second row.
    beside = ((j == i + 1) & (i % 2 == 0)) | ((i == j + 1) & (j % 2 == 1))
    link = ((j == i + 2) & (i % 2 == 0)) | ((i == j + 2) & (j % 2 == 1)) | ((i == 1) & (j == 0))
    corner = (i == 0) & (j == 0)
    which = corner + (i * (i < j) + j * (j < i) + 2) * beside
    coefficients = lax.neg(a / a[..., :1])
    return util.select_where(which > 0, coefficients[..., which], link.astype(a.dtype))


@export
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Makes the Leslie matrix of an age-structured population.

    Args:
      f: fecundities, which form the first row, of shape (..., n) with n >= 2.
      s: survival rates, which form the first subdiagonal, of shape (..., n - 1).

    Returns:
      Array of shape (..., n, n).

    Raises:
      ValueError: if n < 2 or the sizes do not match.

    >>> jax.scipy.linalg.leslie(jnp.array([1.0, 2.0]), jnp.array([0.5])).tolist()
    [[1.0, 2.0], [0.5, 0.0]]
    """
    f, s = util.promote_dtypes(_vector("leslie", f), _vector("leslie", s))
    n = f.shape[-1]
    if s.shape[-1] != n - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less than the "
            f"length of f; got f shape {f.shape} and s shape {s.shape}."
        )
    if core.definitely_greater(2, n):
        raise ValueError(
            f"The length of f along the last axis must be at least 2; got shape {f.shape}."
        )
    i, j = _grid(n, n)
    which = (i == 0) * (1 + j) + (i == j + 1) * (n + 1 + j)
    zero = np.zeros((1,), f.dtype)
    return _joined(util.to_array(zero), f, s)[..., which]


@export
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """Makes the matrix of convolution with `a`: its product with v is `jnp.convolve(a, v, mode)`.

    Args:
      a: array of shape (..., m) with m >= 1.
      n: number of columns, which is the size of v.
      mode: "full", "same" or "valid".

    Returns:
      Array of shape (..., k, n), where k is the size of the convolution.

    Raises:
      ValueError: if a size or `mode` is invalid.

    >>> jax.scipy.linalg.convolution_matrix(jnp.array([1, 2]), 2).tolist()
    [[1, 0], [2, 1], [0, 2]]
    """
    n = _index(n, "convolution_matrix")
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    a = _vector("convolution_matrix", a)
    m = a.shape[-1]
    if not m:
        raise ValueError(f"convolution_matrix: a must not be empty; got shape {a.shape}.")
    trim = 0 if mode == "full" else core.min_dim(m, n) - 1
    top = trim // 2 if mode == "same" else trim
    bottom = trim - top if mode == "same" else trim
    i, j = _grid(m + n - 1 - bottom - top, n)
    index = i + top - j
    inside = (index >= 0) & (index < m)
    return util.select_where(inside, a[..., index * inside], np.zeros((), a.dtype))


# ---------------------------------------------------------------------------------------------------
# Matrices of a given size


def _size(n: Any, name: str) -> int:
    return core.max_dim(_index(n, name), 0)


def _binomials(n: Any) -> Array:
    """`comb(i, j)` for a symbolic size, in floating point: each row is made of the one before."""

    def next_row(row, _):
        return row + lax.pad(row, lax.const(row, 0), ((1, -1, 0),)), row

    first = _as_float(lax.iota(np.int32, n) == 0)
    return scan(next_row, first, None, length=n)[1]


def _product(a: Array, b: Array) -> Array:
    return lax.dot(a, b, precision=lax.Precision.HIGHEST)


def _as_float(x: Any) -> Array:
    if isinstance(x, Array):
        return lax.convert_element_type(x, dtypes.default_float_dtype())
    return asarray(np.array(x, np.float64).astype(dtypes.default_float_dtype()))


@export
def hilbert(n: int) -> Array:
    """Makes the Hilbert matrix, with elements `1 / (i + j + 1)`.

    Args:
      n: number of rows and columns.

    >>> jax.scipy.linalg.hilbert(2)[1].round(2).tolist() == jnp.array([1 / 2, 1 / 3]).round(2).tolist()
    True
    """
    n = _index(n, "hilbert")
    if core.definitely_greater(0, n):
        raise TypeError(f"hilbert: n must not be negative, got {n}")
    i, j = _grid(n, n)
    return _as_float(1.0 / (i + j + 1))


def _index(n, name):
    return core.concrete_dim_or_error(
        operator.index, n, f"The argument 'n' of jax.scipy.linalg.{name}."
    )


@export
def invhilbert(n: int) -> Array:
    """Makes the inverse of `hilbert(n)`.

    Unlike the original's, it is exact up to one rounding, unless the size is symbolic.

    Args:
      n: number of rows and columns.

    >>> jax.scipy.linalg.invhilbert(2).tolist()
    [[4.0, -6.0], [-6.0, 12.0]]
    """
    n = _size(n, "invhilbert")
    if core.is_symbolic_dim(n):
        return _invhilbert_of_symbolic_size(n)

    def element(i, j):
        size = (i + j + 1) * math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1)
        return (-1) ** (i + j) * size * math.comb(i + j, i) ** 2

    return _as_float(
        [[float(element(i, j)) for j in range(n)] for i in range(n)] or np.zeros((0, 0))
    )


def _invhilbert_of_symbolic_size(n: Any) -> Array:
    i, j = _grid(n, n)
    k = _as_float(lax.iota(np.int32, n))
    size = _as_float(asarray(n))
    # p[k] / p[k - 1] for elements p[i] p[j] / (i + j + 1).
    steps = lax.select(k == 0, k * 0 + size, (k - size) * (k + size) / lax.max(k * k, k * 0 + 1))
    p = lax.cumprod(steps)
    return p[:, None] * p[None] / _as_float(i + j + 1)


_KINDS = ["symmetric", "lower", "upper"]


def _kind(kind):
    kind = "symmetric" if kind is None else kind
    if kind not in _KINDS:
        raise ValueError(f"Expected kind to be one of: {_KINDS}; got {kind}")
    return kind


@export
def pascal(n: int, kind: str | None = None) -> Array:
    """Makes the Pascal matrix of binomial coefficients.

    Args:
      n: number of rows and columns.
      kind: "lower" for `comb(i, j)`, "upper" for its transpose, "symmetric" (or None) for
        `comb(i + j, i)`.

    Returns:
      Floating-point array; unlike the original's, its elements are exact up to one rounding,
      unless the size is symbolic.

    Raises:
      ValueError: if `kind` is unknown.

    >>> jax.scipy.linalg.pascal(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    kind, n = _kind(kind), _size(n, "pascal")
    if core.is_symbolic_dim(n):
        triangle = _binomials(n)
        if kind == "symmetric":
            return _product(triangle, triangle.T)
        return triangle if kind == "lower" else triangle.T
    pick = {
        "symmetric": lambda i, j: math.comb(i + j, i),
        "lower": math.comb,
        "upper": lambda i, j: math.comb(j, i),
    }[kind]
    return _as_float([[float(pick(i, j)) for j in range(n)] for i in range(n)] or np.zeros((0, 0)))


@export
def invpascal(n: int, kind: str | None = None) -> Array:
    """Makes the inverse of `pascal(n, kind)`, exact up to one rounding unless the size is symbolic.

    Args:
      n, kind: as for `pascal`.

    >>> jax.scipy.linalg.invpascal(2).tolist()
    [[2.0, -1.0], [-1.0, 1.0]]
    """
    kind, n = _kind(kind), _size(n, "invpascal")
    if core.is_symbolic_dim(n):
        i, j = _grid(n, n)
        triangle = _binomials(n) * (1 - 2 * ((i + j) % 2))
        if kind == "symmetric":
            return _product(triangle.T, triangle)
        return triangle if kind == "lower" else triangle.T
    lower = [
        [(-1) ** (i - j) * math.comb(i, j) if i >= j else 0 for j in range(n)] for i in range(n)
    ]
    if kind == "lower":
        out = lower
    elif kind == "upper":
        out = [list(column) for column in zip(*lower)]
    else:
        out = [
            [sum(lower[k][i] * lower[k][j] for k in range(n)) for j in range(n)] for i in range(n)
        ]
    return _as_float([[float(x) for x in row] for row in out] or np.zeros((0, 0)))


@export
def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Makes a Hadamard matrix by Sylvester's construction: orthogonal rows of ones and minus ones.

    Args:
      n: number of rows and columns, a power of 2.
      dtype: dtype of the result.

    Returns:
      Array of shape (n, n).

    Raises:
      ValueError: if `n` is not a power of 2.

    >>> jax.scipy.linalg.hadamard(2).tolist()
    [[1, 1], [1, -1]]
    """
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "hadamard")
    if not isinstance(n, (int, np.integer)) or n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    out = np.ones((1, 1))
    while len(out) < n:
        out = np.block([[out, out], [out, -out]])
    return asarray(out.astype(dtype))


@export
def helmert(n: int, full: bool = False) -> Array:
    """Makes the Helmert matrix: orthonormal contrasts of n observations.

    Args:
      n: positive int.
      full: whether to prepend a row of equal elements, which makes the matrix orthogonal.

    Returns:
      Array of shape (n - 1, n), or (n, n) if `full`.

    Raises:
      ValueError: if `n` is not positive.

    >>> jax.scipy.linalg.helmert(3, full=True).shape
    (3, 3)
    """
    size = _index(n, "helmert")
    if core.definitely_greater(1, size):
        raise ValueError(f"n must be a positive integer; got {n}.")
    k, j = _grid(size - 1, size)
    k = k + 1
    elements = 1.0 * (j < k) - k * (j == k)
    if core.is_symbolic_dim(size):
        out = elements / lax.sqrt(_as_float(k) * _as_float(k + 1))
        first = lax.broadcast(lax.rsqrt(_as_float(asarray(size))), (1, size))
        return lax.concatenate([first, out], 0) if full else out
    out = elements / np.sqrt(k * (k + 1))
    if full:
        out = np.concatenate([np.full((1, size), 1 / np.sqrt(size)), out])
    return _as_float(out)


@export
def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Makes the matrix of the discrete Fourier transform: `dft(n) @ x` is `jnp.fft.fft(x)`.

    Args:
      n: number of rows and columns.
      scale: factor: None for 1, "sqrtn" for `1 / sqrt(n)`, "n" for `1 / n`.
      dtype: complex dtype of the result.

    Returns:
      Complex array of shape (n, n).

    Raises:
      ValueError: if `scale` is unknown or `dtype` is not complex.

    >>> jax.scipy.linalg.dft(2).real.tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    if dtype is None:
        dtype = dtypes.default_complex_dtype()
    else:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "dft")
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise ValueError(f"dtype must be a complex floating-point type; got {dtype}.")
    n = _size(n, "dft")
    if core.is_symbolic_dim(n):
        return _symbolic_dft(n, scale, dtype)
    k = np.outer(np.arange(n), np.arange(n)) % max(n, 1)
    out = np.exp(-2j * np.pi * k / max(n, 1))
    if scale is not None:
        out = out / (np.sqrt(n) if scale == "sqrtn" else n)
    return asarray(out.astype(dtype))


def _symbolic_dft(n, scale, dtype):
    i, j = _grid(n, n)
    real = dtypes.finfo(dtype).dtype
    size = lax.convert_element_type(n, real)
    angle = lax.convert_element_type(i * j % n, real) * (-2 * np.pi) / size
    out = lax.complex(lax.cos(angle), lax.sin(angle))
    if scale is not None:
        out = out / (lax.sqrt(size) if scale == "sqrtn" else size)
    return out
