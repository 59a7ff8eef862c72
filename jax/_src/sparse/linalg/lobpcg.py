"""Largest eigenvalues of matrices that are known by their products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jax._src import api, dtypes
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.lax.control_flow import while_loop
from jax._src.numpy import linalg
from jax._src.numpy.util import to_array
from jax._src.sparse.base import JAXSparse
from jax._src.tree_util import Partial
from jax._src.typing import ArrayLike
from jax._src.util import set_module


@set_module("jax.experimental.sparse.linalg")
def lobpcg_standard(
    A: Any, X: ArrayLike, m: int = 100, tol: ArrayLike | None = None
) -> tuple[Array, Array, Array]:
    """Find the largest eigenvalues of a Hermitian matrix by the LOBPCG method.

    The locally optimal block conjugate gradient method (A. V. Knyazev, "Toward the optimal
    preconditioned eigensolver", 2001), without a preconditioner. Each iteration solves the problem in
    the space of the approximations, their residuals and the last directions. Of that space there is
    always an orthonormal basis (J. A. Duersch et al., "A robust and efficient implementation of
    LOBPCG", 2018), here by Householder's QR factorization, which also replaces directions that depend
    on others. An iteration takes one product of `A` and a matrix of shape `[n, 3k]`.

    Args:
      A: Hermitian matrix of shape `[n, n]`, dense or sparse, or a function that multiplies it by a
        matrix of shape `[n, j]`.
      X: start of the search, of shape `[n, k]` where `0 < 5 k < n`, of the dtype of `A X`.
      m: largest number of iterations.
      tol: the solver stops when for all eigenpairs the norm of `A v - theta v` is below
        `10 n tol (theta + norm(A v))`; by default the machine epsilon of the dtype.

    Returns:
      `theta, U, i`: the eigenvalues, of shape `[k]`, the largest first; orthonormal eigenvectors, of
      shape `[n, k]`; and the number of iterations. Of negative eigenvalues the criterion is never
      met, so that there are `m` iterations.

    Raises:
      ValueError: if shapes or dtypes do not fit, or they are not floating point.

    >>> from jax.experimental.sparse.linalg import lobpcg_standard
    >>> A = jnp.diag(jnp.arange(1., 101.))
    >>> theta, U, i = lobpcg_standard(A, jax.random.normal(jax.random.key(0), (100, 2)))
    >>> theta.round(2).tolist(), U.shape
    ([100.0, 99.0], (100, 2))
    """
    X = to_array(X)
    if not callable(A) and not isinstance(A, JAXSparse):
        A = to_array(A)
    _check(A, X)
    if isinstance(A, Array) and A.dtype != X.dtype:
        A = A.astype(X.dtype)
    if tol is None:
        tol = float(dtypes.finfo(X.dtype).eps)
    if callable(A) and not isinstance(A, Partial):
        return _iterate(A, None, X, m, tol)
    return _iterate(None, A, X, m, tol)


def _check(A: Any, X: Any) -> None:
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix of search directions, got shape {X.shape}")
    n, k = X.shape
    if k == 0:
        raise ValueError(f"must have search dim > 0, got {k}")
    if k * 5 >= n:
        raise ValueError(f"expected search dim * 5 < matrix dim (got {k * 5}, {n})")
    if not dtypes.issubdtype(X.dtype, np.inexact):
        raise ValueError(f"data type {X.dtype} not inexact")
    if not callable(A) and A.shape != (n, n):
        raise ValueError(f"A must be ({n}, {n}) matrix A, got shape {A.shape}")
    out = api.eval_shape(A if callable(A) else lambda x: A @ x, X)
    if not hasattr(out, "dtype") or not hasattr(out, "shape"):
        raise ValueError(f"A must return an array, got {type(out)}")
    if out.dtype != X.dtype:
        raise ValueError(f"A, X must have same dtypes (were {out.dtype}, {X.dtype})")
    if callable(A) and out.shape != (n, k):
        raise ValueError(f"A must be ({n}, {n}) matrix A, got output {out.shape}")


def _dot(x: Any, y: Any) -> Any:
    return lax.dot(x, y, precision=lax.Precision.HIGHEST)


def _adjoint(x: Any) -> Any:
    return x.T.conj()


class _State(NamedTuple):
    i: Any
    theta: Any  # [k]
    X: Any  # [n, k] approximations
    R: Any  # [n, k] their residuals
    P: Any  # [n, k] the last directions
    done: Any  # bool


def _iterate_impl(function: Callable[..., Any] | None, A: Any, X: Any, m: Any, tol: Any) -> Any:
    k = X.shape[1]
    eps = lax.convert_element_type(tol, dtypes.finfo(X.dtype).dtype)

    def times(x: Any) -> Any:
        if function is not None:
            return function(x)
        return A(x) if callable(A) else A @ x if isinstance(A, JAXSparse) else _dot(A, x)

    def best(basis: Any) -> Any:
        """The best `k` eigenpairs in the space of an orthonormal basis, their residuals, and all
        coefficients, the best first."""
        product = times(basis)
        theta, W = linalg.eigh(_dot(_adjoint(basis), product))
        theta, W = theta[::-1][:k], W[:, ::-1]
        AX = _dot(product, W[:, :k])
        X = _dot(basis, W[:, :k])
        residual = AX - X * theta.astype(X.dtype)
        bound = eps * 10 * X.shape[0] * (theta + linalg.norm(AX, axis=0))
        return theta, X, residual, W, (linalg.norm(residual, axis=0) < bound).all()

    def step(state: _State) -> _State:
        S, _ = linalg.qr(lax.concatenate([state.X, state.R, state.P], 1))
        theta, X, R, W, done = best(S)
        # The old approximations' part that is orthogonal to the new ones.
        C, _ = linalg.qr(_adjoint(W[:k, k:]))
        return _State(state.i + 1, theta, X, R, _dot(S, _dot(W[:, k:], C)), done)

    X, _ = linalg.qr(X)
    theta, X, R, _, _ = best(X)
    start = _State(0, theta, X, R, times(R), np.False_)
    end = while_loop(lambda s: (s.i < m) & ~s.done, step, start)
    return end.theta, end.X, end.i


_iterate = api.jit(_iterate_impl, static_argnums=0)
