"""The class BCOO."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.sparse.base import as_buffers, check_format
from jax._src.sparse.batched import BatchedSparse, map_over_batch
from jax._src.sparse.bcoo import places
from jax._src.tree_util import register_pytree_node_class
from jax._src.typing import DTypeLike
from jax._src.util import set_module

MODULE = "jax.experimental.sparse.bcoo"


@set_module(MODULE)
class BCOOProperties(NamedTuple):
    """The layout of a BCOO array."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def layout(data: Any, indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """The layout that the buffers have for an array of this shape.

    Raises:
      TypeError: if indices are not integers.
      ValueError: if the shapes do not fit together.
    """
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise TypeError(f"BCOO indices must be integers, got {indices.dtype}")
    if indices.ndim < 2:
        raise ValueError(
            "BCOO indices must have the shape (*batch, nse, n_sparse), got the shape "
            f"{indices.shape}"
        )
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    nse = indices.shape[-2]
    n_dense = len(shape) - n_batch - n_sparse
    if n_dense < 0:
        raise ValueError(
            f"BCOO indices of shape {indices.shape} have {n_batch} batch and {n_sparse} sparse "
            f"dimensions, more than an array of shape {tuple(shape)} has"
        )
    for name, buffer in (("indices", indices), ("data", data)):
        batch = buffer.shape[:n_batch]
        if len(batch) != n_batch or any(b not in (1, s) for b, s in zip(batch, shape)):
            raise ValueError(
                f"{name} batch dimensions not compatible for {name}.shape={buffer.shape}, "
                f"shape={tuple(shape)}"
            )
    if data.shape[n_batch:] != (nse, *shape[n_batch + n_sparse :]):
        raise ValueError(
            f"Invalid data.shape={data.shape} for nse={nse}, n_batch={n_batch}, n_dense={n_dense}: "
            f"for shape={tuple(shape)} and indices.shape={indices.shape} it must end in "
            f"{(nse, *shape[n_batch + n_sparse :])}"
        )
    return BCOOProperties(n_batch, n_sparse, n_dense, nse)


@set_module(MODULE)
@register_pytree_node_class
class BCOO(BatchedSparse):
    """Sparse array in the batched coordinate format.

    The first `n_batch` dimensions are batch dimensions: every batch has `nse` elements of its own.
    The next `n_sparse` dimensions are those that indices name. Of the last `n_dense` dimensions,
    all elements are stored. Elements with equal indices are summed; an index out of bounds is
    padding.

    Args:
      args: `data` of shape `(*batch, nse, *dense)`, and `indices` of shape
        `(*batch, nse, n_sparse)`. Batch dimensions of size 1 are broadcast.
      shape: the shape of the array.
      indices_sorted: a promise that indices of each batch are in lexicographic order.
      unique_indices: a promise that indices within bounds are distinct.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCOO((jnp.array([2., 1., 4.]), jnp.array([[0, 1], [1, 0], [1, 2]])), shape=(2, 3))
    >>> M
    BCOO(float32[2, 3], nse=3)
    >>> M.todense().tolist()
    [[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]
    >>> (M @ jnp.ones(3)).tolist()
    [2.0, 5.0]
    """

    data: Array
    indices: Array
    shape: tuple[int, ...]
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self,
        args: tuple[Array, Array],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        self.data, self.indices = as_buffers("BCOO", self._buffer_names, args)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=tuple(shape))
        layout(self.data, self.indices, self.shape)

    @property
    def nse(self) -> int:
        """The number of elements that each batch stores."""
        return self.indices.shape[-2]

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.data.dtype

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse dimensions."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions."""
        return self.data.ndim - 1 - self.n_batch

    _buffer_names = ("data", "indices")

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: DTypeLike | None = None,
        index_dtype: DTypeLike = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCOO:
        shape = tuple(shape)
        n_sparse = len(shape) - n_dense - n_batch
        if min(n_sparse, n_dense, n_batch, nse) < 0:
            raise ValueError(f"Invalid inputs: {shape=}, {n_dense=}, {n_batch=}, {nse=}")
        batch, sparse, dense = (
            shape[:n_batch],
            shape[n_batch:][:n_sparse],
            shape[n_batch + n_sparse :],
        )
        data = lax.full(
            (*batch, nse, *dense), 0, dtypes.check_and_canonicalize_user_dtype(dtype or float)
        )
        indices = lax.full((*batch, nse, n_sparse), 0, np.dtype(index_dtype))
        if n_sparse:
            indices = places.fill_row(sparse, indices)
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: DTypeLike | None = None,
        index_dtype: DTypeLike = "int32",
        n_batch: int = 0,
        n_dense: int = 0,
    ) -> BCOO:
        n_sparse = 2 - n_batch - n_dense
        if min(n_sparse, n_batch, n_dense) < 0:
            raise ValueError(f"Invalid inputs: shape={(N, M)}, {n_dense=}, {n_batch=}")
        length = max(0, min(N, M - k) if k >= 0 else min(N + k, M))
        if not length:
            return cls._empty(
                (N, M), dtype=dtype, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
            )
        # On the host: the array is static, and small in the number of its elements.
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype or float)
        rows = np.arange(length) + max(-k, 0)
        cols = rows + k
        if n_sparse == 2:
            data, indices = np.ones(length), np.stack([rows, cols], 1)
        elif n_batch == 1 and n_sparse == 1:
            data = ((np.arange(N) >= rows[0]) & (np.arange(N) <= rows[-1]))[:, None]
            indices = np.where(data, (np.arange(N) + k)[:, None], M)[:, :, None]
        elif n_sparse == 1:
            data, indices = np.eye(N, M, k)[rows], rows[:, None]
        else:
            data = np.expand_dims(np.eye(N, M, k), n_batch)
            indices = np.zeros((*(N, M)[:n_batch], 1, 0))
        return cls(
            (data.astype(dtype), indices.astype(index_dtype)),
            shape=(N, M),
            indices_sorted=True,
            unique_indices=True,
        )

    # Defined by the modules `functions` and `operators`, which are made of operations on BCOO
    # arrays; these are abstract in the base class.
    def todense(self) -> Array:
        """The dense array that this one stands for."""
        raise NotImplementedError

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The array with its axes permuted; see `bcoo_transpose`."""
        raise NotImplementedError


map_over_batch(BCOO)


def with_buffers(mat: BCOO, data: Any, indices: Any) -> BCOO:
    """`mat` with other buffers, and the same shape and promises about its indices."""
    return BCOO(
        (data, indices),
        shape=mat.shape,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def check_bcoo(function: str, mat: Any, argument: str = "mat") -> None:
    """Raise a TypeError, which says how to convert `mat`, unless it is a BCOO array."""
    check_format(function, argument, mat, BCOO)


def as_axes(axes: Any) -> tuple[int, ...]:
    """A sequence of integers as a tuple of ints."""
    return tuple(operator.index(a) for a in axes)
