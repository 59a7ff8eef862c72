"""Singular value decomposition by polar decomposition; see `jax._src.lax.linalg.svd`."""

from __future__ import annotations

from typing import Any

from jax._src.jit.library import nested_jit
from jax._src.lax.linalg.svd import check_svd_subset, svd_by_polar
from jax._src.numpy.util import to_array
from jax._src.typing import ArrayLike


def svd(
    a: ArrayLike,
    full_matrices: bool,
    compute_uv: bool = True,
    hermitian: bool = False,
    max_iterations: int = 10,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Computes the singular value decomposition `a = u @ diag(s) @ vh`.

    Args:
      a: matrix of shape (m, n), floating point or complex.
      full_matrices: if True, `u` is (m, m) and `vh` (n, n), else (m, k) and (k, n) with k = min(m,
        n).
      compute_uv: whether to return `u` and `vh`.
      hermitian: whether `a` is Hermitian.
      max_iterations: maximum number of iterations of the polar decomposition.
      subset_by_index: (start, stop) to compute only the singular values with these indices.

    Returns:
      `(u, s, vh)`, or `s` alone: real, in descending order.

    Raises:
      ValueError: if `a` is not a matrix, or the subset is invalid.

    >>> from jax._src.tpu.linalg.svd import svd
    >>> bool(jnp.allclose(svd(jnp.diag(jnp.array([3.0, -4.0])), False, False), jnp.array([4.0, 3.0])))
    True
    """
    x = to_array(a)
    if x.ndim != 2:
        raise ValueError(f"svd: a must be a matrix, got shape {x.shape}")
    if subset_by_index is not None:
        subset_by_index = tuple(map(int, subset_by_index))
        check_svd_subset(subset_by_index, min(x.shape), full_matrices)
    out = _svd(
        x,
        full_matrices=bool(full_matrices),
        compute_uv=bool(compute_uv),
        hermitian=bool(hermitian),
        max_iterations=max_iterations,
        subset_by_index=subset_by_index,
    )
    if not compute_uv:
        return out[0]
    s, u, vh = out
    return u, s, vh


_svd = nested_jit(
    svd_by_polar,
    static_argnames=(
        *("full_matrices", "compute_uv", "hermitian", "max_iterations", "subset_by_index"),
    ),
)
