"""Eigendecomposition of Hermitian matrices by QDWH; see `jax._src.lax.linalg.spectral`."""

from __future__ import annotations

from typing import Any

from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.lax.linalg.common import columns
from jax._src.lax.linalg.eigh import check_subset, eigh as lax_eigh
from jax._src.lax.linalg.spectral import sorted_by_value, spectral_eigh
from jax._src.lax.slicing import slice_in_dim
from jax._src.numpy.util import to_array
from jax._src.typing import ArrayLike


def eigh(
    H: ArrayLike,
    *,
    precision: Any = "float32",
    termination_size: int = 256,
    n: Any = None,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
) -> tuple[Array, Array]:
    """Computes eigenvalues and eigenvectors of a Hermitian matrix.

    Args:
      H: matrix of shape (N, N), floating point or complex.
      precision: precision of the products, as for `jax.lax.dot_general`.
      termination_size: blocks of this size or smaller are decomposed by `jax.lax.linalg.eigh`.
      n: size of the leading block of `H` to decompose, which may be traced; None for N.
      sort_eigenvalues: whether eigenvalues must be in ascending order.
      subset_by_index: (start, stop) to compute only the eigenvalues with these indices.

    Returns:
      Eigenvalues of shape (d,), and eigenvectors as the columns of an array of shape (N, d), where
      d is N or the size of the subset. Eigenvalues after the first n are NaN.

    Raises:
      TypeError: if `H` is not square.
      ValueError: if the subset is empty or out of range.

    >>> from jax._src.tpu.linalg.eigh import eigh
    >>> values, vectors = eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> bool(jnp.allclose(values, jnp.array([1.0, 3.0]), atol=1e-5))
    True
    """
    h = to_array(H)
    if h.ndim != 2 or h.shape[0] != h.shape[1]:
        raise TypeError(f"eigh: H must be a square matrix, got shape {h.shape}")
    size = h.shape[0]
    if subset_by_index is not None:
        subset_by_index = tuple(map(int, subset_by_index))
        check_subset(subset_by_index, size, "eigenvalues")
        if subset_by_index[0] == subset_by_index[1]:
            raise ValueError(f"eigh: subset_by_index is empty: {subset_by_index}")

    return _eigh(
        h,
        n,
        precision=lax.canonicalize_precision(precision),
        termination_size=min(termination_size, size),
        sort_eigenvalues=sort_eigenvalues,
        subset=subset_by_index,
    )


def _eigh(
    h: Array,
    n: Any,
    *,
    precision: Any,
    termination_size: int,
    sort_eigenvalues: bool,
    subset: tuple[int, int] | None,
) -> tuple[Array, Array]:
    values, vectors = spectral_eigh(
        h,
        lambda block: lax_eigh(block, symmetrize_input=False),
        termination_size=termination_size,
        size=n,
        subset=subset,
        precision=precision,
    )
    if subset is not None:
        values, vectors = slice_in_dim(values, *subset), columns(vectors, *subset)
    return sorted_by_value(values, vectors) if sort_eigenvalues else (values, vectors)


_eigh = nested_jit(
    _eigh, static_argnames=("precision", "termination_size", "sort_eigenvalues", "subset")
)
