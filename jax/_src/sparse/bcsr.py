"""BCSR, the batched compressed sparse row format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.numpy import array_constructors
from jax._src.numpy.util import to_array
from jax._src.sparse import bcsr_primitives as primitives
from jax._src.sparse.base import JAXSparse, as_buffers, check_dense, check_format
from jax._src.sparse.batched import BatchedSparse, map_over_batch
from jax._src.sparse.bcoo import shapes
from jax._src.sparse.bcoo.array import BCOO
from jax._src.sparse.bcoo.functions import bcoo_eliminate_zeros, bcoo_sum_duplicates
from jax._src.sparse.bcoo.operators import matmul
from jax._src.sparse.bcoo.products import (
    bcoo_dot_general,
    canonical_type,
    check_dot,
    check_layout,
    static_numbers,
)
from jax._src.sparse.util import (
    count_stored_elements,
    index_type,
    replicated,
    static_nse,
    with_out_sharding,
)
from jax._src.tree_util import register_pytree_node_class
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import set_module

MODULE = "jax.experimental.sparse.bcsr"


@set_module(MODULE)
class BCSRProperties(NamedTuple):
    """The layout of a BCSR array."""

    n_batch: int
    n_dense: int
    nse: int


def _layout(indices: Any, indptr: Any, shape: Sequence[int]) -> BCSRProperties:
    """The layout that indices have for an array of this shape.

    Raises:
      TypeError: if they are not integers.
      ValueError: if the shapes do not fit together.
    """
    for name, x in (("indices", indices), ("indptr", indptr)):
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise TypeError(f"BCSR {name} must be integers, got {x.dtype}")
    n_batch = indices.ndim - 1
    n_dense = len(shape) - n_batch - 2
    if n_batch < 0 or n_dense < 0:
        raise ValueError(f"BCSR indices of shape {indices.shape} do not fit shape={tuple(shape)}")
    for name, x in (("indices", indices), ("indptr", indptr)):
        _check_batch(name, x, n_batch, shape)
    if indptr.shape[n_batch:] != (shape[n_batch] + 1,):
        raise ValueError(
            f"indptr shape must match the matrix shape plus 1. Got indptr.shape={indptr.shape} for "
            f"{shape[n_batch]} rows of shape={tuple(shape)}; it must end in {shape[n_batch] + 1}."
        )
    return BCSRProperties(n_batch, n_dense, indices.shape[-1])


def _check_batch(name: str, x: Any, n_batch: int, shape: Sequence[int]) -> None:
    batch = x.shape[:n_batch]
    if len(batch) != n_batch or any(b not in (1, s) for b, s in zip(batch, shape)):
        raise ValueError(
            f"{name} batch dimensions not compatible for {name}.shape={x.shape}, "
            f"shape={tuple(shape)}"
        )


@set_module(MODULE)
@register_pytree_node_class
class BCSR(BatchedSparse):
    """Sparse array in the batched compressed sparse row format.

    The first `n_batch` dimensions are batch dimensions, the next two are rows and columns, and of
    the last `n_dense` dimensions all elements are stored.

    Args:
      args: `data` of shape `(*batch, nse, *dense)`, row by row; `indices`, their columns, of shape
        `(*batch, nse)`; and `indptr`, where each row starts and the last one ends, of shape
        `(*batch, rows + 1)`. Elements behind are padding. Batch dimensions of size 1 are broadcast.
      shape: the shape of the array.
      indices_sorted: a promise that the columns of each row are in order.
      unique_indices: a promise that the columns of each row are distinct.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCSR.fromdense(jnp.array([[0., 2.], [3., 4.]]))
    >>> M, M.indices.tolist(), M.indptr.tolist()
    (BCSR(float32[2, 2], nse=3), [1, 0, 1], [0, 1, 3])
    >>> M @ jnp.array([1., 10.])
    Array([20., 43.], dtype=float32)
    """

    data: Array
    indices: Array
    indptr: Array
    indices_sorted: bool
    unique_indices: bool

    nse = property(lambda self: self.indices.shape[-1])
    dtype = property(lambda self: self.data.dtype)
    n_batch = property(lambda self: self.indices.ndim - 1)
    n_sparse = property(lambda _: 2)
    n_dense = property(lambda self: self.data.ndim - self.indices.ndim)
    _buffer_names = ("data", "indices", "indptr")

    def __init__(
        self,
        args: tuple[Array, Array, Array],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        self.data, self.indices, self.indptr = as_buffers("BCSR", self._buffer_names, args)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=tuple(shape))
        n_batch, n_dense, nse = _layout(self.indices, self.indptr, self.shape)
        _check_batch("data", self.data, n_batch, self.shape)
        if self.data.shape[n_batch:] != (nse, *self.shape[n_batch + 2 :]):
            raise ValueError(
                f"Invalid data.shape={self.data.shape} for {nse=}, {n_batch=}, {n_dense=}: for "
                f"shape={self.shape} it must end in {(nse, *self.shape[n_batch + 2 :])}"
            )

    @property
    def _sparse_shape(self) -> tuple[int, ...]:
        return self.shape[self.n_batch : self.n_batch + 2]

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
    ) -> BCSR:
        shape = tuple(shape)
        if min(n_dense, n_batch, nse) < 0:
            raise ValueError(f"Invalid inputs: {shape=}, {n_dense=}, {n_batch=}, {nse=}")
        if len(shape) - n_dense - n_batch != 2:
            raise ValueError("BCSR sparse.empty: must have 2 sparse dimensions.")
        layout = dict(n_dense=n_dense, n_batch=n_batch, nse=nse)
        return cls.from_bcoo(BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype, **layout))

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: DTypeLike = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """Store the elements of a dense array that are not zero: see `bcsr_fromdense`."""
        return bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """The array of a matrix of `scipy.sparse`."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR from_scipy_sparse with nonzero n_dense/n_batch.")
        mat = mat.tocsr()
        indices, indptr = (
            to_array(x.astype(index_dtype or np.int32)) for x in (mat.indices, mat.indptr)
        )
        return cls((to_array(mat.data), indices, indptr), shape=mat.shape)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The same array in this format; it must have two sparse dimensions."""
        check_format("BCSR.from_bcoo", "arr", arr, BCOO)
        if arr.n_sparse != 2:
            raise NotImplementedError(
                f"BCSR.from_bcoo requires n_sparse=2; got arr.n_sparse={arr.n_sparse}"
            )
        if not arr.indices_sorted:
            arr = arr.sort_indices()
        indices, indptr = primitives.compressed(arr.indices, arr.shape[arr.n_batch])
        return cls((arr.data, indices, indptr), shape=arr.shape)

    def to_bcoo(self) -> BCOO:
        """The same array in the format BCOO."""
        return BCOO(
            (self.data, primitives.coordinates(self.indices, self.indptr)), shape=self.shape
        )

    def todense(self) -> Array:
        """The dense array that this one stands for."""
        return bcsr_todense(self)

    def transpose(self, *args: Any, **kwargs: Any) -> Any:
        """Not implemented: the result would be compressed by columns."""
        raise NotImplementedError("Transpose is not implemented.")

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The array with sorted and distinct indices; `nse` is as for `bcsr_sum_duplicates`.

        Elements that are zero are not stored unless `remove_zeros` is false.
        """
        function = bcsr_eliminate_zeros if remove_zeros else bcsr_sum_duplicates
        return function(self, nse)

    def _squeeze(self, axes: Sequence[int]) -> BCSR:
        return BCSR.from_bcoo(shapes.bcoo_squeeze(self.to_bcoo(), dimensions=axes))

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other, bcsr_dot_general, BCSR)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self, bcsr_dot_general, BCSR)


def _getitem(
    arr: BCSR,
    idx: Any,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCSR:
    """The array with new dimensions of size 1, or without some, by None and whole slices."""
    if mode is not None or fill_value is not None:
        raise NotImplementedError("indexing of a sparse array with mode or fill_value")
    items = idx if isinstance(idx, tuple) else (idx,)
    whole = slice(None)
    if sum(x is Ellipsis for x in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    n_items = sum(x is not None and x is not Ellipsis for x in items)
    if n_items > arr.ndim:
        raise IndexError(
            f"Too many indices: array is {arr.ndim}-dimensional, but {n_items} were indexed"
        )
    if not all(x is None or x is Ellipsis or isinstance(x, slice) for x in items):
        raise NotImplementedError("indexing of a BCSR array with numbers or arrays")
    out = arr.to_bcoo()[idx]
    sizes = [s for s in out.shape if s != 1]
    same = sizes == [s for s in arr.shape if s != 1]
    if not same or any(isinstance(x, slice) and x != whole and (x.step or 1) != 1 for x in items):
        raise NotImplementedError("indexing of a BCSR array with a part of a dimension")
    return BCSR.from_bcoo(out)


BCSR.__getitem__ = _getitem  # type: ignore[method-assign]
map_over_batch(BCSR)


@set_module(MODULE)
def bcsr_fromdense(
    mat: ArrayLike,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: DTypeLike = np.int32,
) -> BCSR:
    """Convert a dense array to a BCSR array.

    Args:
      mat: array with two dimensions besides the batch and dense ones.
      nse: number of elements that each batch stores; by default the number of nonzeros.
      n_batch: number of batch dimensions.
      n_dense: number of dense dimensions.
      index_dtype: integer type of the indices.

    Returns:
      BCSR array.

    Raises:
      TypeError: if `index_dtype` is not an integer type.
      ValueError: if there are not two sparse dimensions, or `index_dtype` is too narrow.
      ConcretizationTypeError: if `mat` is traced and `nse` is not given.

    >>> from jax.experimental import sparse
    >>> sparse.bcsr_fromdense(jnp.array([[0, 7], [5, 0]]), nse=3).indices.tolist()
    [1, 0, 2]
    """
    check_dense("bcsr_fromdense", "mat", mat)
    mat = array_constructors.asarray(mat)
    if min(n_batch, n_dense) < 0 or mat.ndim - n_batch - n_dense != 2:
        raise ValueError("bcsr_fromdense: must have 2 sparse dimensions.")
    if mat.dtype == bool:
        # Elements with equal indices are summed.
        mat = lax.convert_type(mat, int, weak_type=True)
    nse = count_stored_elements(mat, n_batch, n_dense) if nse is None else nse
    nse = static_nse(nse, "bcsr_fromdense")
    sizes = [s - 1 for s in mat.shape[n_batch : n_batch + 2]]
    index_dtype = index_type(index_dtype, "bcsr_fromdense", *sizes, nse)
    buffers = primitives.bcsr_fromdense_p.bind(
        mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    return BCSR(tuple(buffers), shape=mat.shape)


@set_module(MODULE)
def bcsr_todense(mat: BCSR) -> Array:
    """Convert a BCSR array to a dense array of the same shape.

    >>> from jax.experimental import sparse
    >>> sparse.bcsr_todense(sparse.BCSR.fromdense(jnp.eye(2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_format("bcsr_todense", "mat", mat, BCSR)
    return primitives.bcsr_todense_p.bind(*mat._bufs, spinfo=mat._info)


@set_module(MODULE)
def bcsr_extract(indices: ArrayLike, indptr: ArrayLike, mat: ArrayLike) -> Array:
    """Read the elements of a dense array at BCSR indices.

    Args:
      indices: columns, of shape `(*batch, nse)`.
      indptr: index pointers, of shape `(*batch, rows + 1)`.
      mat: array of shape `(*batch, rows, columns, *dense)`.

    Returns:
      Elements, of shape `(*batch, nse, *dense)`; those of padding are zeros.

    Raises:
      TypeError: if indices are not integers.
      ValueError: if the shapes do not fit together.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCSR.fromdense(jnp.eye(2))
    >>> sparse.bcsr_extract(M.indices, M.indptr, jnp.array([[5., 6.], [7., 8.]])).tolist()
    [5.0, 8.0]
    """
    check_dense("bcsr_extract", "mat", mat)
    indices, indptr, mat = (array_constructors.asarray(x) for x in (indices, indptr, mat))
    _layout(indices, indptr, mat.shape)
    return primitives.bcsr_extract_p.bind(indices, indptr, mat)


@set_module(MODULE)
def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Sum the elements that have equal indices.

    Args:
      mat: BCSR array.
      nse: number of elements that the result stores; needed under jit and vmap. By default the
        number of distinct indices.

    Returns:
      BCSR array with sorted and distinct indices.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCSR((jnp.ones(2), jnp.array([1, 1]), jnp.array([0, 2])), shape=(1, 2))
    >>> sparse.bcsr_sum_duplicates(M).data.tolist()
    [2.0]
    """
    check_format("bcsr_sum_duplicates", "mat", mat, BCSR)
    return BCSR.from_bcoo(bcoo_sum_duplicates(mat.to_bcoo(), nse=nse))


@set_module(MODULE)
def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """Sum the elements that have equal indices, without those that are zero.

    >>> from jax.experimental.sparse import BCSR, bcsr
    >>> M = BCSR((jnp.array([0., 1.]), jnp.array([0, 1]), jnp.array([0, 2])), shape=(1, 2))
    >>> bcsr.bcsr_eliminate_zeros(M)
    BCSR(float32[1, 2], nse=1)
    """
    check_format("bcsr_eliminate_zeros", "mat", mat, BCSR)
    return BCSR.from_bcoo(bcoo_eliminate_zeros(mat.to_bcoo(), nse=nse))


@set_module(MODULE)
def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """Broadcast a BCSR array; new dimensions must be batch or dense ones.

    The arguments are those of `bcoo_broadcast_in_dim`.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCSR.fromdense(jnp.eye(2))
    >>> sparse.bcsr_broadcast_in_dim(M, shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCSR(float32[3, 2, 2], nse=2, n_batch=1)
    """
    check_format("bcsr_broadcast_in_dim", "mat", mat, BCSR)
    out = shapes.bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions, sharding=sharding
    )
    return BCSR.from_bcoo(out)


@set_module(MODULE)
def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Concatenate BCSR arrays of one layout along a batch or sparse dimension.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCSR.fromdense(jnp.eye(2))
    >>> sparse.bcsr_concatenate([M, M], dimension=1)
    BCSR(float32[2, 4], nse=4)
    """
    for i, mat in enumerate(operands):
        check_format("bcsr_concatenate", f"operands[{i}]", mat, BCSR)
    return BCSR.from_bcoo(
        shapes.bcoo_concatenate([mat.to_bcoo() for mat in operands], dimension=dimension)
    )


def _has_sharded_batch(mat: BCSR) -> bool:
    """Whether batch dimensions of `mat` are sharded over Explicit axes."""
    shardings = [core.typeof(x)._sharding for x in mat._bufs]
    return any(s is not None and any(s.spec.partitions[: mat.n_batch]) for s in shardings)


@set_module(MODULE)
def bcsr_dot_general(
    lhs: BCSR | Array,
    rhs: Array,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Contract dimensions of a BCSR array and a dense one.

    Args:
      lhs: BCSR or dense array.
      rhs: dense array.
      dimension_numbers: as for `jax.lax.dot_general`.
      precision: for two dense operands.
      preferred_element_type: the type of the result.
      out_sharding: sharding of the result over Explicit axes of a mesh. With it, operands that are
        sharded over such axes are first copied to all devices; without it, batch dimensions stay
        sharded, and only the other dimensions are copied.

    Returns:
      Dense array.

    Raises:
      TypeError: if shapes do not fit together.
      NotImplementedError: if `rhs` is sparse, or the layout of `lhs` does not allow it.

    >>> from jax.experimental import sparse
    >>> M, numbers = sparse.BCSR.fromdense(jnp.eye(2)), (((1,), (0,)), ((), ()))
    >>> sparse.bcsr_dot_general(M, jnp.arange(2.), dimension_numbers=numbers).tolist()
    [0.0, 1.0]
    """
    numbers = static_numbers(dimension_numbers)
    if not isinstance(lhs, JAXSparse) and not isinstance(rhs, JAXSparse):
        return lax.dot_general(
            lhs, rhs, numbers, precision=precision,
            preferred_element_type=preferred_element_type, out_sharding=out_sharding,
        )  # fmt: skip
    if isinstance(lhs, JAXSparse) and isinstance(rhs, JAXSparse):
        check_dot(lhs, rhs, numbers)
    if not isinstance(lhs, BCSR) or not isinstance(rhs, (Array, np.ndarray)):
        raise NotImplementedError(
            "bcsr_dot_general currently implemented for BCSR lhs and ndarray rhs."
        )
    rhs = to_array(rhs)
    preferred = canonical_type(preferred_element_type)
    check_dot(lhs, rhs, numbers, preferred)
    check_layout("bcsr_dot_general", lhs, numbers)
    if out_sharding is None and _has_sharded_batch(lhs):
        parts = [replicated(x, range(lhs.n_batch, x.ndim)) for x in lhs._bufs]
        rhs = replicated(rhs, [d for d in range(rhs.ndim) if d not in numbers[1][1]])
        mat = BCSR(parts, shape=lhs.shape).to_bcoo()
        return bcoo_dot_general(
            mat, rhs, dimension_numbers=numbers, preferred_element_type=preferred
        )
    out = primitives.bcsr_dot_general_p.bind(
        *map(replicated, (*lhs._bufs, rhs)),
        dimension_numbers=numbers,
        lhs_spinfo=lhs._info,
        preferred_element_type=preferred,
    )
    return with_out_sharding(out, out_sharding)
