"""Triangles and diagonals of matrices, the indices of their elements, and `vander`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import eager_jit, nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import reductions, util
from jax._src.numpy.array_creation import user_dtype
from jax._src.numpy.selecting import nonzero
from jax._src.numpy.ufuncs_binary import power
from jax._src.numpy.util import (
    check_arraylike,
    ensure_arraylike,
    export,
    reject_out,
)
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis

# Triangles


@export
def tri(N: int, M: int | None = None, k: int | Array = 0, dtype: DTypeLike | None = None) -> Array:
    """Makes a matrix with ones on and below a diagonal and zeros above it.

    Args:
      N: number of rows.
      M: number of columns; None for N.
      k: which diagonal: positive for one above the main diagonal, negative below. It may be traced.
      dtype: dtype of the result; by default the default float.

    Returns:
      An array of shape `(N, M)`.

    Raises:
      TypeError: if `k` is not an integer scalar.

    >>> jnp.tri(2, 3, dtype=int).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    dtype = user_dtype(dtype, "tri")
    rows = _size(N, "'N' argument of jnp.tri()")
    columns = rows if M is None else _size(M, "'M' argument of jnp.tri()")
    if isinstance(k, core.Tracer):
        if k.ndim or not dtypes.issubdtype(k.dtype, np.integer):
            raise TypeError(f"jnp.tri: the argument `k` must be an integer, got {k}")
        return lax.tri(dtype, (rows, columns), lax.convert_element_type(k, np.int32))
    return lax.tri(dtype, (rows, columns), _offset(k, "tri"))


def _size(n: Any, context: str) -> Any:
    return core.canonicalize_shape((n,), context)[0]


def _offset(k: Any, name: str) -> Any:
    k = core.concrete_dim_or_error(operator.index, k, f"'k' argument of jnp.{name}")
    if core.is_symbolic_dim(k):
        return k
    return min(max(k, -(2**30)), 2**30)  # far outside of any matrix, and fits int32


@export
@eager_jit("k")
def tril(m: ArrayLike, k: int = 0) -> Array:
    """Sets the elements of matrices above a diagonal to zero.

    Args:
      m: array of shape `(..., M, N)`.
      k: which diagonal: positive for one above the main diagonal, negative below.

    Returns:
      An array of the shape of `m`.

    Raises:
      ValueError: if `m` has fewer than two dimensions.

    >>> jnp.tril(jnp.ones((2, 3), int)).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    check_arraylike("tril", m)
    return _tril(m, k=_offset(k, "tril"))


@export
@eager_jit("k")
def triu(m: ArrayLike, k: int = 0) -> Array:
    """Sets the elements of matrices below a diagonal to zero; takes the arguments of `tril`.

    >>> jnp.triu(jnp.ones((2, 3), int)).tolist()
    [[1, 1, 1], [0, 1, 1]]
    """
    check_arraylike("triu", m)
    return _triu(m, k=_offset(k, "triu"))


def _tril_impl(m, *, k):
    m, mask = _triangle("tril", m, k)
    return lax.select_n(mask, lax.full_like(m, 0), m)


def _triu_impl(m, *, k):
    m, mask = _triangle("triu", m, k - 1)
    return lax.select_n(mask, m, lax.full_like(m, 0))


def _triangle(name, m, k):
    m = ensure_arraylike(name, m)
    if m.ndim < 2:
        raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D, got shape {m.shape}")
    mask = lax.tri(np.bool_, m.shape[-2:], k)
    return m, lax.broadcast(mask, m.shape[:-2], out_sharding=core.typeof(m)._sharding)


_tril_impl.__name__, _triu_impl.__name__ = "tril", "triu"
_tril = nested_jit(_tril_impl, static_argnames=("k",))
_triu = nested_jit(_triu_impl, static_argnames=("k",))


def _triangle_indices(name: str, upper: bool, n: Any, m: Any, k: Any) -> tuple[Array, Array]:
    n = _size(n, f"n argument of jnp.{name}")
    k = core.concrete_or_error(operator.index, k, f"k argument of jnp.{name}")
    m = n if m is None else _size(m, f"m argument of jnp.{name}")
    if not core.is_constant_shape((n, m)):
        count = _elements_below(m, n, -k) if upper else _elements_below(n, m, k)
        mask = lax.tri(np.bool_, (n, m), k - upper)
        if upper:
            mask = lax.bitwise_not(mask)
        rows, columns = nonzero(mask, size=count)
        return rows, columns
    rows, columns = np.nonzero((np.triu if upper else np.tril)(np.ones((n, m), bool), k))
    dtype = dtypes.default_int_dtype()
    return util.to_array(rows.astype(dtype)), util.to_array(columns.astype(dtype))


def _elements_below(n: Any, m: Any, k: int) -> Any:
    """The number of a matrix's elements on and below a diagonal, for symbolic sizes."""

    def sum_to(p):  # 1 + 2 + ... + p
        p = core.max_dim(p, 0)
        return (p * p + p) // 2

    # Row i has as many as i + k + 1, limited to the range from 0 to m.
    if type(n) is int and n + k <= 0:
        return 0
    if type(m) is int and k + 1 >= m:
        return n * m
    count = sum_to(n + k) - sum_to(k) - sum_to(n + k - m) + sum_to(k - m)
    return core.max_dim(count, 0)  # it never is negative, which is not always decided


@export
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Returns the indices of a matrix's elements on and below a diagonal.

    Args:
      n: number of rows.
      k: which diagonal; see `tril`.
      m: number of columns; None for n.

    Returns:
      A tuple of row indices and column indices.

    >>> [x.tolist() for x in jnp.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle_indices("tril_indices", False, n, m, k)


@export
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Returns the indices of a matrix's elements on and above a diagonal; see `tril_indices`.

    >>> [x.tolist() for x in jnp.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle_indices("triu_indices", True, n, m, k)


@export
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Returns the indices of elements of `arr` on and below a diagonal; see `tril_indices`.

    >>> [x.tolist() for x in jnp.tril_indices_from(jnp.ones((2, 2)))]
    [[0, 1, 1], [0, 0, 1]]
    """
    n, m = _matrix_shape("tril_indices_from", arr)
    return tril_indices(n, k=k, m=m)


@export
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Returns the indices of elements of `arr` on and above a diagonal; see `tril_indices`.

    >>> [x.tolist() for x in jnp.triu_indices_from(jnp.ones((2, 2)))]
    [[0, 0, 1], [0, 1, 1]]
    """
    n, m = _matrix_shape("triu_indices_from", arr)
    return triu_indices(n, k=k, m=m)


def _matrix_shape(name, arr):
    check_arraylike(name, arr)
    shape = np.shape(util.lower_jax_array(arr))
    if len(shape) != 2:
        raise ValueError(f"Only 2-D inputs are accepted by jnp.{name}, got shape {shape}")
    return shape


@export
def mask_indices(
    n: int, mask_func: Callable, k: int = 0, *, size: int | None = None
) -> tuple[Array, Array]:
    """Returns the indices of the elements of an n×n matrix that a mask function keeps.

    Args:
      n: number of rows and columns.
      mask_func: called as `mask_func(matrix, k)`; returns the matrix with zeros in place of
        elements to leave out, like `jnp.triu`.
      k: second argument of `mask_func`.
      size: static number of indices to return; see `jnp.nonzero`.

    Returns:
      A tuple of row indices and column indices.

    >>> [x.tolist() for x in jnp.mask_indices(2, jnp.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    mask = mask_func(lax.full((n, n), 1, dtypes.default_int_dtype()), k)
    return _nonzero(mask, size)


def _nonzero(mask, size):
    if size is None:
        value = core.concrete_or_error(np.asarray, mask, "mask_indices without `size`")
        dtype = dtypes.default_int_dtype()
        return tuple(util.to_array(i.astype(dtype)) for i in np.nonzero(value))
    flat = lax.reshape(lax.ne(mask, lax.zero(mask)), (mask.size,))
    counts = lax.cumsum(lax.convert_element_type(flat, np.int32), 0)
    # Index i is the number of positions up to and including which at most i elements are set.
    wanted = lax.broadcasted_iota(np.int32, (size, mask.size), 0)
    below = lax.le(lax.broadcast_in_dim(counts, (size, mask.size), (1,)), wanted)
    position = lax.reduce_sum(lax.convert_element_type(below, np.int32), (1,))
    exists = lax.lt(lax.iota(np.int32, size), counts[-1] if mask.size else np.int32(0))
    position = util.select_where(exists, position, np.int32(0))
    columns = lax.const(position, mask.shape[1])
    dtype = dtypes.default_int_dtype()
    return (
        lax.convert_element_type(lax.div(position, columns), dtype),
        lax.convert_element_type(lax.rem(position, columns), dtype),
    )


# Diagonals


@export
def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Returns the indices of the main diagonal of an array with equal sizes.

    Args:
      n: size of each dimension.
      ndim: number of dimensions.

    Returns:
      A tuple of `ndim` index vectors of size `n`.

    Raises:
      ValueError: if an argument is negative.

    >>> jnp.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n = _size(n, "'n' argument of jnp.diag_indices()")
    ndim = core.concrete_or_error(operator.index, ndim, "'ndim' argument of jnp.diag_indices()")
    if core.definitely_greater(0, n):
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {ndim}")
    return (lax.iota(dtypes.default_int_dtype(), n),) * ndim


@export
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Returns the indices of the main diagonal of `arr`; see `diag_indices`.

    Raises:
      ValueError: if the sizes differ, or there are fewer than two dimensions.

    >>> jnp.diag_indices_from(jnp.ones((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    check_arraylike("diag_indices_from", arr)
    shape = np.shape(util.lower_jax_array(arr))
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ValueError(f"All dimensions of input must be of equal length, got shape {shape}")
    return diag_indices(shape[0], ndim=len(shape))


@export
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Extracts diagonals of matrices.

    Args:
      a: array of at least two dimensions.
      offset: which diagonal: positive for one above the main diagonal, negative below.
      axis1, axis2: the axes of the matrices.

    Returns:
      An array of the remaining axes, followed by one for the diagonals.

    Raises:
      ValueError: if `a` has fewer than two dimensions, or the axes are equal or out of range.

    >>> jnp.diagonal(jnp.arange(6).reshape(2, 3), offset=1)
    Array([1, 5], dtype=int32)
    """
    check_arraylike("diagonal", a)
    offset = core.concrete_or_error(operator.index, offset, "'offset' argument of jnp.diagonal()")
    axis1 = core.concrete_or_error(operator.index, axis1, "'axis1' argument of jnp.diagonal()")
    axis2 = core.concrete_or_error(operator.index, axis2, "'axis2' argument of jnp.diagonal()")
    return _diagonal(a, offset=offset, axis1=axis1, axis2=axis2)


def _diagonal_impl(a, *, offset, axis1, axis2):
    a = ensure_arraylike("diagonal", a)
    if a.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    a = _matrix_axes_last(a, axis1, axis2)
    *batch, rows, columns = a.shape
    size = core.min_dim(rows + min(offset, 0), columns - max(offset, 0))
    size = core.max_dim(size, 0)
    if core.definitely_equal(size, 0):
        return lax.full((*batch, 0), 0, a.dtype)
    if not core.is_constant_shape((rows, columns)):
        i = lax.iota(np.int32, size)
        return a[..., i + max(-offset, 0), i + max(offset, 0)]
    # Elements of a diagonal are columns + 1 apart in the flattened matrix.
    first = max(offset, 0) - min(offset, 0) * columns
    flat = lax.reshape(a, (*batch, rows * columns))
    n = len(batch)
    last = first + (size - 1) * (columns + 1) + 1
    return slicing.slice(flat, (*[0] * n, first), (*batch, last), (*[1] * n, columns + 1))


def _matrix_axes_last(a, axis1, axis2):
    axis1, axis2 = canonicalize_axis(axis1, a.ndim), canonicalize_axis(axis2, a.ndim)
    if axis1 == axis2:
        raise ValueError(f"axis1 and axis2 must be different, got {axis1} twice")
    rest = [i for i in range(a.ndim) if i not in (axis1, axis2)]
    return lax.transpose(a, [*rest, axis1, axis2])


_diagonal_impl.__name__ = "diagonal"
_diagonal = nested_jit(_diagonal_impl, static_argnames=("offset", "axis1", "axis2"))


@export
@eager_jit("k")
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Extracts a diagonal from a matrix, or makes a matrix from a diagonal.

    Args:
      v: a matrix, or a vector of diagonal elements; the matrix made from it is zero elsewhere.
      k: which diagonal: positive for one above the main diagonal, negative below.

    Returns:
      A vector for a matrix `v`; for a vector of size n a matrix of size `n + abs(k)`.

    Raises:
      ValueError: if `v` has neither one nor two dimensions.

    >>> jnp.diag(jnp.array([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    (v,) = util.arraylike("diag", v)
    return _diag(v, k=core.concrete_or_error(operator.index, k, "'k' argument of jnp.diag()"))


def _diag_impl(v, *, k):
    v = ensure_arraylike("diag", v)
    if v.ndim == 2:
        return _diagonal_impl(v, offset=k, axis1=0, axis2=1)
    if v.ndim != 1:
        raise ValueError(f"diag input must be 1d or 2d, got shape {v.shape}")
    padded = lax.pad(v, lax.zero(v), [(max(-k, 0), max(k, 0), 0)])
    n = v.shape[0] + abs(k)
    mask = lax.eye(np.bool_, (n, n), k)
    spread = lax.broadcast_in_dim(padded, (n, n), (0,))
    return lax.select(mask, spread, lax.full_like(spread, 0))


_diag_impl.__name__ = "_diag"
_diag = nested_jit(_diag_impl, static_argnames=("k",))


@export
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Makes a matrix with the elements of the flattened `v` on a diagonal; see `diag`.

    >>> jnp.diagflat(jnp.array([[1, 2]])).tolist()
    [[1, 0], [0, 2]]
    """
    v = ensure_arraylike("diagflat", v)
    return diag(lax.reshape(v, (v.size,)), k)


@export
def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """Replaces the elements on the main diagonal of an array.

    Args:
      a: array of two dimensions, or of more dimensions of equal size.
      val: scalar, or an array whose elements are repeated as needed.
      wrap: must be False.
      inplace: must be False, since arrays are immutable.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      NotImplementedError: if `inplace` or `wrap` is True.
      ValueError: if `a` has fewer than two dimensions or unequal sizes.

    >>> jnp.fill_diagonal(jnp.zeros((2, 2), int), 7, inplace=False).tolist()
    [[7, 0], [0, 7]]
    """
    if inplace:
        raise NotImplementedError("JAX arrays are immutable, must use inplace=False")
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    a, val = ensure_arraylike("fill_diagonal", a, val)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError(f"All dimensions of input must be of equal length, got shape {a.shape}")
    n = functools.reduce(core.min_dim, a.shape)
    val = lax.convert_type(val, a.dtype, False, warn_on_complex_to_real_cast=False)
    if val.ndim == 0:
        val = lax.broadcast(val, (n,))
    else:
        val = lax.reshape(val, (val.size,))
        repeats = -(-n // val.size) if val.size else 0
        val = slicing.slice_in_dim(lax.tile(val, (core.max_dim(repeats, 1),)), 0, n)
    on_diagonal = lax.delta(np.bool_, a.shape, tuple(range(a.ndim)))
    # A position along the first axis identifies an element of the diagonal, so it is enough to
    # broadcast the values along the others.
    padded = lax.pad(val, np.zeros((), a.dtype), [(0, a.shape[0] - n, 0)])
    spread = lax.broadcast_in_dim(padded, a.shape, (0,))
    return lax.select_n(on_diagonal, a, spread)


@export
def trace(
    a: ArrayLike,
    offset: int | ArrayLike = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Sums the diagonals of matrices.

    Args:
      a: array of at least two dimensions.
      offset: which diagonal; it may be traced.
      axis1, axis2: the axes of the matrices.
      dtype: dtype of the result; by default that of `jnp.sum`.
      out: must be None.

    Returns:
      An array without the two axes.

    >>> jnp.trace(jnp.arange(4).reshape(2, 2))
    Array(3, dtype=int32)
    """
    check_arraylike("trace", a)
    reject_out("trace", out)
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "trace")
    axis1 = core.concrete_or_error(operator.index, axis1, "'axis1' argument of jnp.trace()")
    axis2 = core.concrete_or_error(operator.index, axis2, "'axis2' argument of jnp.trace()")
    return _trace(a, offset, axis1=axis1, axis2=axis2, dtype=dtype)


def _trace_impl(a, offset, *, axis1, axis2, dtype):
    a = ensure_arraylike("trace", a)
    if a.ndim < 2:
        raise ValueError("trace requires an array of at least two dimensions.")
    a = _matrix_axes_last(a, axis1, axis2)
    shape = a.shape[-2:]
    rows = lax.broadcasted_iota(np.int32, shape, 0)
    columns = lax.broadcasted_iota(np.int32, shape, 1)
    mask = lax.eq(lax.add(rows, lax.convert_element_type(offset, np.int32)), columns)
    mask = lax.broadcast(mask, a.shape[:-2])
    kept = lax.select_n(mask, lax.full_like(a, 0), a)
    return reductions.sum(kept, (a.ndim - 2, a.ndim - 1), dtype)


_trace_impl.__name__ = "trace"
_trace = nested_jit(_trace_impl, static_argnames=("axis1", "axis2", "dtype"))


@export
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Makes the Vandermonde matrix of a vector, whose columns are powers of it.

    Args:
      x: one-dimensional array.
      N: number of columns; None for the length of `x`.
      increasing: whether the exponents increase from left to right.

    Returns:
      An array of shape `(len(x), N)`.

    Raises:
      ValueError: if `x` is not one-dimensional, or `N` is negative.

    >>> jnp.vander(jnp.array([2, 3]), 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    check_arraylike("vander", x)
    x = util.lower_jax_array(x)
    if N is None:
        N = np.shape(x)[0] if np.ndim(x) == 1 else 0
    N = core.concrete_dim_or_error(operator.index, N, "'N' argument of jnp.vander()")
    return _vander(x, N=N, increasing=bool(increasing))


def _vander_impl(x, *, N, increasing):
    x = ensure_arraylike("vander", x)
    if x.ndim != 1:
        raise ValueError(f"x must be a one-dimensional array, got shape {x.shape}")
    if N < 0:
        raise ValueError(f"N must be nonnegative, got {N}")
    exponents = lax.iota(x.dtype if x.dtype != np.bool_ else np.int32, N)
    if not increasing:
        exponents = lax.sub(lax.const(exponents, N - 1), exponents)
    return power(lax.expand_dims(x, (1,)), lax.expand_dims(exponents, (0,)))


_vander_impl.__name__ = "vander"
_vander = nested_jit(_vander_impl, static_argnames=("N", "increasing"))
