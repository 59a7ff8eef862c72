"""Matrix decompositions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, linalg as lax_linalg
from jax._src.lax.linalg.common import columns, mH, permute_columns, rows, scale_columns
from jax._src.lax.slicing.gathers import take_along
from jax._src.numpy import util
from jax._src.numpy.linalg.common import export, inexact
from jax._src.typing import ArrayLike


@export
class EigResult(NamedTuple):
    """Result of `eig`."""

    eigenvalues: Array
    eigenvectors: Array


@export
class EighResult(NamedTuple):
    """Result of `eigh`."""

    eigenvalues: Array
    eigenvectors: Array


@export
class QRResult(NamedTuple):
    """Result of `qr`."""

    Q: Array
    R: Array


@export
class SVDResult(NamedTuple):
    """Result of `svd`."""

    U: Array
    S: Array
    Vh: Array


@export
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Cholesky decomposition of Hermitian positive definite matrices: lower L with `a = L @ L^H`.

    Args:
      a: array of shape (..., n, n).
      upper: whether to return L^H instead of L.
      symmetrize_input: whether to decompose (a + a^H) / 2, which makes derivatives symmetric. If
        False, only the lower triangle is read.

    Returns:
      Array of the same shape. It contains NaNs if `a` is not positive definite, where NumPy raises
      an error.

    >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    a = inexact("cholesky", a)
    return _cholesky(a, upper=bool(upper), symmetrize_input=bool(symmetrize_input))


def _cholesky(a, *, upper, symmetrize_input):
    out = lax_linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return mH(out) if upper else out


_cholesky.__name__ = "cholesky"
_cholesky = nested_jit(_cholesky, static_argnames=("upper", "symmetrize_input"))


@export
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and right eigenvectors of general matrices, on CPUs and GPUs.

    Args:
      a: array of shape (..., n, n).

    Returns:
      `(eigenvalues, eigenvectors)`: complex arrays of shapes (..., n) and (..., n, n), with
      eigenvectors in columns. Unlike NumPy's, they are complex even if all eigenvalues are real.
      Eigenvectors cannot be differentiated; see `jax.lax.linalg.eig`.

    >>> w, v = jnp.linalg.eig(jnp.array([[0.0, 1.0], [-1.0, 0.0]]))
    >>> w.imag.tolist()
    [1.0, -1.0]
    """
    w, v = lax_linalg.eig(inexact("eig", a), compute_left_eigenvectors=False)
    return EigResult(w, v)


@export
def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of general matrices (..., n, n), as a complex array of shape (..., n).

    Args:
      a: array of shape (..., n, n).

    >>> jnp.linalg.eigvals(jnp.array([[0.0, 1.0], [-1.0, 0.0]])).imag.tolist()
    [1.0, -1.0]
    """
    (w,) = lax_linalg.eig(
        inexact("eigvals", a), compute_left_eigenvectors=False, compute_right_eigenvectors=False
    )
    return w


@export
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices.

    Args:
      a: array of shape (..., n, n).
      UPLO: which triangle is read if the input is not symmetrized: "L" (or None) or "U".
      symmetrize_input: whether to decompose (a + a^H) / 2.

    Returns:
      `(eigenvalues, eigenvectors)`: arrays of shapes (..., n), ascending, and (..., n, n), with
      eigenvectors in columns.

    Raises:
      ValueError: if UPLO has any other value.

    >>> w, v = jnp.linalg.eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> bool(jnp.allclose(w, jnp.array([1.0, 3.0]), atol=1e-2))
    True
    """
    v, w = _eigh(inexact("eigh", a), lower=_is_lower(UPLO), symmetrize_input=bool(symmetrize_input))
    return EighResult(w, v)


def _is_lower(uplo):
    if uplo not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {uplo}")
    return uplo != "U"


def _eigh(a, *, lower, symmetrize_input):
    return lax_linalg.eigh(a, lower=lower, symmetrize_input=symmetrize_input)


_eigh.__name__ = "eigh"
_eigh = nested_jit(_eigh, static_argnames=("lower", "symmetrize_input"))


@export
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Eigenvalues of Hermitian matrices in ascending order; takes the arguments of `eigh`.

    >>> want = jnp.array([1.0, 3.0])
    >>> bool(jnp.allclose(jnp.linalg.eigvalsh(jnp.array([[2.0, 1.0], [1.0, 2.0]])), want, atol=1e-2))
    True
    """
    a = inexact("eigvalsh", a)
    return _eigh(a, lower=_is_lower(UPLO), symmetrize_input=bool(symmetrize_input))[1]


_FULL_MATRICES = {"reduced": False, "r": False, "full": False, "complete": True}


@export
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """QR decomposition `a = Q @ R`: Q has orthonormal columns, R is upper triangular.

    Args:
      a: array of shape (..., m, n); k is min(m, n).
      mode: "reduced" for Q (..., m, k) and R (..., k, n); "complete" for Q (..., m, m) and
        R (..., m, n); "r" for R alone; "raw" for the transposed Householder vectors (..., n, m) and
        their scalar factors (..., k).

    Returns:
      `(Q, R)`, or R in mode "r".

    Raises:
      ValueError: if `mode` is unknown.

    >>> q, r = jnp.linalg.qr(jnp.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> bool(jnp.allclose(jnp.abs(r), jnp.array([[5.0, 2.2], [0.0, 0.4]]), atol=1e-2))
    True
    """
    a = inexact("qr", a)
    if mode == "raw":
        h, taus = lax_linalg.geqrf(a)
        return QRResult(util.to_array(h).mT, taus)
    if mode not in _FULL_MATRICES:
        raise ValueError(
            f"Unsupported QR decomposition mode {mode!r}: known are 'reduced', 'complete', 'r' and 'raw'."
        )
    q, r = lax_linalg.qr(a, full_matrices=_FULL_MATRICES[mode])
    return r if mode == "r" else QRResult(q, r)


@export
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular value decomposition `a = U @ diag(S) @ Vh`; U has orthonormal columns, Vh rows.

    Args:
      a: array of shape (..., m, n); k is min(m, n).
      full_matrices: if True, U is (..., m, m) and Vh (..., n, n), else (..., m, k) and (..., k, n).
      compute_uv: whether to return U and Vh.
      hermitian: whether `a` is Hermitian, which allows a faster algorithm.
      subset_by_index: `(start, stop)` to return only the singular values with these indices; it
        excludes `full_matrices`.

    Returns:
      `(U, S, Vh)`, or S alone. S has shape (..., k) and is in descending order.

    Raises:
      ValueError: if `subset_by_index` is invalid.

    >>> jnp.linalg.svd(jnp.array([[3.0, 0.0], [0.0, -4.0]]), compute_uv=False).tolist()
    [4.0, 3.0]
    """
    a = inexact("svd", a)
    if subset_by_index is not None:
        subset_by_index = tuple(map(int, subset_by_index))
    if hermitian:
        out = _hermitian_svd(a, compute_uv=bool(compute_uv), subset_by_index=subset_by_index)
        return SVDResult(*out) if compute_uv else out
    out = lax_linalg.svd(
        a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
    )
    return SVDResult(*out) if compute_uv else out


def _hermitian_svd(a, *, compute_uv, subset_by_index):
    # The singular values of a Hermitian matrix are its eigenvalues' absolute values; the rows of Vh
    # take their signs, as in NumPy.
    v, w = lax_linalg.eigh(a)
    s = lax.abs(w)
    order = lax.broadcasted_iota(np.int32, s.shape, s.ndim - 1)
    _, order = lax.sort([lax.neg(s), order], dimension=s.ndim - 1, num_keys=1)
    s = take_along(s, order, s.ndim - 1)
    w = take_along(w, order, s.ndim - 1)
    v = permute_columns(v, order)
    start, stop = (0, s.shape[-1]) if subset_by_index is None else subset_by_index
    s = columns(s, start, stop)
    if not compute_uv:
        return s
    sign = lax.select(lax.lt(w, lax.full_like(w, 0)), lax.full_like(w, -1), lax.full_like(w, 1))
    vh = rows(mH(scale_columns(v, sign)), start, stop)
    return columns(v, start, stop), s, vh


_hermitian_svd.__name__ = "svd"
_hermitian_svd = nested_jit(_hermitian_svd, static_argnames=("compute_uv", "subset_by_index"))


@export
def svdvals(x: ArrayLike, /) -> Array:
    """Singular values of matrices (..., m, n) in descending order, of shape (..., min(m, n)).

    Args:
      x: array of shape (..., m, n).

    >>> jnp.linalg.svdvals(jnp.array([[3.0, 0.0], [0.0, -4.0]])).tolist()
    [4.0, 3.0]
    """
    return lax_linalg.svd(inexact("svdvals", x), compute_uv=False)
