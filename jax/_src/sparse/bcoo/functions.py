"""Functions of BCOO arrays: conversions, and other layouts of the same array."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.numpy import array_constructors
from jax._src.numpy.util import select_where, to_array
from jax._src.sparse.base import SparseEfficiencyError, SparseEfficiencyWarning, check_dense
from jax._src.sparse.bcoo import convert, ordering, places
from jax._src.sparse.bcoo.array import BCOO, MODULE, as_axes, check_bcoo, with_buffers
from jax._src.sparse.util import count_stored_elements, index_type, replicated, static_nse
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import set_module


@set_module(MODULE)
def bcoo_todense(mat: BCOO) -> Array:
    """Convert a BCOO array to a dense array.

    Args:
      mat: BCOO array.

    Returns:
      Dense array of the same shape. Elements with equal indices are summed.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_todense(sparse.BCOO((jnp.ones(2), jnp.array([[1], [1]])), shape=(3,))).tolist()
    [0.0, 2.0, 0.0]
    """
    check_bcoo("bcoo_todense", mat)
    return convert.bcoo_todense_p.bind(mat.data, to_array(mat.indices), spinfo=mat._info)


@set_module(MODULE)
def bcoo_fromdense(
    mat: Array,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: DTypeLike = np.int32,
) -> BCOO:
    """Convert a dense array to a BCOO array.

    Args:
      mat: array to convert.
      nse: number of elements that each batch stores; needed under jit and vmap. By default the
        number of nonzeros. If it is larger there is padding, if smaller the last ones are dropped.
      n_batch: number of batch dimensions.
      n_dense: number of dense dimensions.
      index_dtype: integer type of the indices.

    Returns:
      BCOO array with sorted and unique indices.

    Raises:
      TypeError: if `index_dtype` is not an integer type.
      ValueError: if there are not enough dimensions, or `index_dtype` is too narrow for them.
      ConcretizationTypeError: if `mat` is traced and `nse` is not given.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_fromdense(jnp.array([[0, 7], [5, 0]])).indices.tolist()
    [[0, 1], [1, 0]]
    """
    check_dense("bcoo_fromdense", "mat", mat)
    mat = array_constructors.asarray(mat)
    if min(n_batch, n_dense) < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"bcoo_fromdense: {n_batch=} and {n_dense=} must be non-negative, and not more "
            f"together than the {mat.ndim} dimensions of the array"
        )
    if mat.dtype == bool:
        # Elements with equal indices are summed.
        mat = lax.convert_type(mat, int, weak_type=True)
    if nse is None:
        nse = count_stored_elements(mat, n_batch, n_dense)
    nse = static_nse(nse, "bcoo_fromdense")
    sizes = mat.shape[n_batch : mat.ndim - n_dense]
    index_dtype = index_type(index_dtype, "bcoo_fromdense", *[s - 1 for s in sizes])
    buffers = convert.bcoo_fromdense_p.bind(
        mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    return BCOO(buffers, shape=mat.shape, indices_sorted=True, unique_indices=True)


@set_module(MODULE)
def bcoo_extract(sparr: BCOO, arr: ArrayLike, *, assume_unique: bool | None = None) -> BCOO:
    """Read the elements of a dense array at the indices of a BCOO array.

    Args:
      sparr: BCOO array.
      arr: dense array of the same shape.
      assume_unique: whether the indices are distinct; by default `sparr.unique_indices`. If they
        are not, an element is returned at the first of equal indices, and zeros at the others.

    Returns:
      BCOO array with the indices of `sparr`.

    Raises:
      TypeError: if `sparr` is not a BCOO array.
      ValueError: if shapes differ.

    >>> from jax.experimental import sparse
    >>> pattern = sparse.BCOO.fromdense(jnp.array([0., 1., 1.]))
    >>> sparse.bcoo_extract(pattern, jnp.array([5., 6., 7.])).data.tolist()
    [6.0, 7.0]
    """
    check_bcoo("bcoo_extract", sparr, "sparr")
    check_dense("bcoo_extract", "arr", arr)
    a = array_constructors.asarray(arr)
    if a.shape != sparr.shape:
        raise ValueError(f"shape mismatch: {sparr.shape=} {a.shape=}")
    if assume_unique is None:
        assume_unique = sparr.unique_indices
    data = convert.bcoo_extract_p.bind(sparr.indices, a, assume_unique=bool(assume_unique))
    return with_buffers(sparr, data, sparr.indices)


@set_module(MODULE)
def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """Permute the dimensions of a BCOO array.

    Args:
      mat: BCOO array.
      permutation: for each dimension of the result, that of `mat`. Batch, sparse and dense
        dimensions can only be permuted among themselves.

    Returns:
      BCOO array.

    Raises:
      TypeError: if it is not a permutation.
      NotImplementedError: if it mixes kinds of dimensions.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_transpose(sparse.eye(2, 3), permutation=(1, 0))
    BCOO(float32[3, 2], nse=2)
    """
    check_bcoo("bcoo_transpose", mat)
    permutation = as_axes(permutation)
    if sorted(permutation) != list(range(mat.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, "
            f"got permutation {permutation} for shape {mat.shape}."
        )
    n_batch, n_dense = mat.n_batch, mat.n_dense
    if sorted(permutation[:n_batch]) != list(range(n_batch)):
        raise NotImplementedError(
            "transpose permutation cannot permute batch axes with non-batch axes; "
            f"got permutation {permutation}, with {n_batch=}."
        )
    if any(d < mat.ndim - n_dense for d in permutation[mat.ndim - n_dense :]):
        raise NotImplementedError(
            "transpose permutation cannot permute dense axes with non-dense axes; "
            f"got permutation {permutation}, with {n_dense=}."
        )
    buffers = convert.bcoo_transpose_p.bind(*mat._bufs, permutation=permutation, spinfo=mat._info)
    shape = tuple(mat.shape[p] for p in permutation)
    return BCOO(buffers, shape=shape, unique_indices=mat.unique_indices)


@set_module(MODULE)
def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """Sort the elements of each batch by their indices, in lexicographic order.

    Args:
      mat: BCOO array.

    Returns:
      BCOO array with the same elements.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCOO((jnp.array([1., 2.]), jnp.array([[2], [0]])), shape=(3,))
    >>> sparse.bcoo_sort_indices(M).data.tolist()
    [2.0, 1.0]
    """
    check_bcoo("bcoo_sort_indices", mat)
    data, indices = ordering.bcoo_sort_indices_p.bind(*mat._bufs, spinfo=mat._info)
    return BCOO(
        (data, indices), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices
    )


def _sparse_sizes(mat: BCOO) -> tuple[int, ...]:
    return mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse]


@set_module(MODULE)
def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Sum the elements that have equal indices.

    Args:
      mat: BCOO array.
      nse: number of elements that the result stores; needed under jit and vmap. By default the
        number of distinct indices. If it is larger there is padding, if smaller the last ones are
        dropped.

    Returns:
      BCOO array with sorted and unique indices.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCOO((jnp.ones(3), jnp.array([[2], [0], [2]])), shape=(3,))
    >>> sparse.bcoo_sum_duplicates(M).data.tolist()
    [1.0, 2.0]
    """
    check_bcoo("bcoo_sum_duplicates", mat)
    if nse is None:
        if any(isinstance(x, core.Tracer) for x in mat._bufs):
            raise ValueError(
                "bcoo_sum_duplicates: nse must be specified when using the function within "
                "jit, vmap, and other transformations requiring abstract evaluation."
            )
        nse = ordering.count_unique(mat.indices, _sparse_sizes(mat))
    nse = static_nse(nse, "bcoo_sum_duplicates")
    buffers = ordering.bcoo_sum_duplicates_p.bind(*mat._bufs, spinfo=mat._info, nse=nse)
    return BCOO(buffers, shape=mat.shape, indices_sorted=True, unique_indices=True)


@set_module(MODULE)
def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """Sum the elements that have equal indices, without those that are zero.

    Args:
      mat: BCOO array.
      nse: as for `bcoo_sum_duplicates`.

    Returns:
      BCOO array with sorted and unique indices.

    >>> from jax.experimental.sparse import BCOO, bcoo
    >>> bcoo.bcoo_eliminate_zeros(BCOO((jnp.array([0., 1.]), jnp.array([[0], [2]])), shape=(3,)))
    BCOO(float32[3], nse=1)
    """
    check_bcoo("bcoo_eliminate_zeros", mat)
    data, indices = mat.data, mat.indices
    n_batch = mat.n_batch
    zero = lax.reduce_and(data == 0, tuple(range(n_batch + 1, data.ndim)))
    if mat.n_sparse:
        batch = tuple(max(a, b) for a, b in zip(data.shape[:n_batch], indices.shape[:n_batch]))
        zero, indices = places.full_batch(zero, batch), places.full_batch(indices, batch)
        fill = places.fill_row(_sparse_sizes(mat), indices)
        indices = places.masked_rows(zero, indices, fill)
    return bcoo_sum_duplicates(BCOO((data, indices), shape=mat.shape), nse=nse)


@set_module(MODULE)
def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """Store the same array with other numbers of batch and dense dimensions.

    More batch or dense dimensions need much more storage, unless they have size 0 or 1.

    Args:
      mat: BCOO array.
      n_batch: new number of batch dimensions; by default the number that `mat` has.
      n_dense: new number of dense dimensions; by default the number that `mat` has.
      on_inefficient: what to do if the result needs much more storage: `"error"`, `"warn"`, or None.

    Returns:
      BCOO array.

    Raises:
      ValueError: if the numbers are impossible.
      SparseEfficiencyError: if the result needs much more storage.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCOO.fromdense(jnp.ones((2, 3)), n_batch=1)
    >>> sparse.bcoo_update_layout(M, n_batch=0)
    BCOO(float32[2, 3], nse=6)
    """
    check_bcoo("bcoo_update_layout", mat)
    n_batch = mat.n_batch if n_batch is None else as_axes([n_batch])[0]
    n_dense = mat.n_dense if n_dense is None else as_axes([n_dense])[0]
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    if n_batch < 0:
        raise ValueError(f"n_batch must be non-negative; got {n_batch}")
    if n_dense < 0:
        raise ValueError(f"n_dense must be non-negative; got {n_dense}")
    if n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"sum of {n_batch=} and {n_dense=} cannot be larger than mat.ndim={mat.ndim}."
        )
    for name, old, new, dims in [
        ("n_batch", mat.n_batch, n_batch, mat.shape[mat.n_batch : n_batch]),
        ("n_dense", mat.n_dense, n_dense, mat.shape[mat.ndim - n_dense : mat.ndim - mat.n_dense]),
    ]:
        if new > old and math.prod(dims) > 1:
            _inefficient(
                f"For matrix of shape {mat.shape}, increasing {name} from {old} to {new} results "
                "in inefficient storage.",
                on_inefficient,
            )
    # Sparse dimensions first become more, then fewer: a dense one may become a batch dimension.
    while mat.n_batch > n_batch:
        mat = _batch_to_sparse(mat)
    while mat.n_dense > n_dense:
        mat = _dense_to_sparse(mat)
    while mat.n_batch < n_batch:
        mat = _sparse_to_batch(mat)
    while mat.n_dense < n_dense:
        mat = _sparse_to_dense(mat)
    return mat


def _inefficient(message: str, on_inefficient: str | None) -> None:
    if on_inefficient == "error":
        raise SparseEfficiencyError(
            f"{message} To disable this error, set the on_inefficient argument of "
            "bcoo_update_layout to 'warn' or None."
        )
    if on_inefficient == "warn":
        warnings.warn(
            f"{message} To disable this warning, set the on_inefficient argument of "
            "bcoo_update_layout to None.",
            category=SparseEfficiencyWarning,
            stacklevel=3,
        )
    elif on_inefficient is not None:
        raise ValueError(f"{on_inefficient=} is not one of 'error', 'warn', None")


def full_buffers(mat: BCOO) -> tuple[Any, Any]:
    """The buffers with all batch dimensions at their full sizes."""
    batch = mat.shape[: mat.n_batch]
    return places.full_batch(mat.data, batch), places.full_batch(mat.indices, batch)


def _batch_to_sparse(mat: BCOO) -> BCOO:
    """The last batch dimension becomes the first sparse one."""
    at, nse = mat.n_batch - 1, mat.nse
    data, indices = (replicated(x, [at]) for x in full_buffers(mat))
    shape = (*indices.shape[:-1], 1)
    sharding = core.typeof(indices)._sharding
    number = lax.broadcasted_iota(indices.dtype, shape, at, out_sharding=sharding)
    indices = lax.concatenate([number, indices], indices.ndim - 1)
    merge = lambda x: lax.reshape(x, (*x.shape[:at], x.shape[at] * nse, *x.shape[at + 2 :]))
    return BCOO((merge(data), merge(indices)), shape=mat.shape)


def _dense_to_sparse(mat: BCOO) -> BCOO:
    """The first dense dimension becomes the last sparse one."""
    data, indices = full_buffers(mat)
    at = mat.n_batch
    nse, size = mat.nse, data.shape[at + 1]
    wide = (*indices.shape[: at + 1], size, indices.shape[-1])
    indices = lax.broadcast_in_dim(indices, wide, (*range(at + 1), at + 2))
    number = lax.broadcasted_iota(indices.dtype, (*wide[:-1], 1), at + 1)
    indices = lax.concatenate([indices, number], at + 2)
    merge = lambda x: lax.reshape(x, (*x.shape[:at], nse * size, *x.shape[at + 2 :]))
    return BCOO((merge(data), merge(indices)), shape=mat.shape)


def _sparse_to_batch(mat: BCOO) -> BCOO:
    """The first sparse dimension becomes the last batch one: each batch has all elements, masked."""
    data, indices = full_buffers(mat)
    at, size = mat.n_batch, mat.shape[mat.n_batch]

    def repeat(x: Any) -> Any:
        dims = (*range(at), *range(at + 1, x.ndim + 1))
        return lax.broadcast_in_dim(x, (*x.shape[:at], size, *x.shape[at:]), dims)

    data, indices = repeat(data), repeat(indices)
    first = lax.squeeze(places.columns_of(indices, [0]), [at + 2])
    mine = lax.eq(first, lax.broadcasted_iota(indices.dtype, first.shape, at))
    data = places.masked_rows(lax.bitwise_not(mine), data, 0)
    indices = places.columns_of(indices, range(1, mat.n_sparse))
    return BCOO((data, indices), shape=mat.shape)


def _sparse_to_dense(mat: BCOO) -> BCOO:
    """The last sparse dimension becomes the first dense one: an element becomes a row with zeros."""
    data, indices = full_buffers(mat)
    at, n_sparse = mat.n_batch, mat.n_sparse
    size = mat.shape[at + n_sparse - 1]
    last = lax.squeeze(places.columns_of(indices, [n_sparse - 1]), [at + 1])
    wide = (*data.shape[: at + 1], size, *data.shape[at + 1 :])
    data = lax.broadcast_in_dim(data, wide, (*range(at + 1), *range(at + 2, len(wide))))
    last = lax.broadcast_in_dim(last, wide, tuple(range(at + 1)))
    here = lax.eq(last, lax.broadcasted_iota(indices.dtype, wide, at + 1))
    data = select_where(here, data, lax.full_like(data, 0))
    indices = places.columns_of(indices, range(n_sparse - 1))
    return BCOO((data, indices), shape=mat.shape)


# Methods


def _from_scipy_sparse(
    cls: Any, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0
) -> BCOO:
    """Convert a SciPy sparse array; `index_dtype` is by default that of SciPy's indices."""
    if n_dense or n_batch:
        raise NotImplementedError("BCOO.fromscipy with nonzero n_dense/n_batch")
    mat = mat.tocoo()
    indices = np.column_stack((mat.row, mat.col))
    return cls(
        (
            array_constructors.asarray(mat.data),
            array_constructors.asarray(indices, index_dtype or np.int32),
        ),
        shape=mat.shape,
    )


def _fromdense(
    cls: Any,
    mat: Array,
    *,
    nse: int | None = None,
    index_dtype: DTypeLike = np.int32,
    n_dense: int = 0,
    n_batch: int = 0,
) -> BCOO:
    """Convert a dense array; see `bcoo_fromdense`."""
    return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)


def _transpose(self: BCOO, axes: Sequence[int] | None = None) -> BCOO:
    """The array with its axes permuted; see `bcoo_transpose`."""
    permutation = as_axes(range(self.ndim)[::-1] if axes is None else axes)
    out = bcoo_transpose(self, permutation=permutation)
    is_sparse = lambda d: self.n_batch <= d < self.ndim - self.n_dense
    sparse_order = list(filter(is_sparse, permutation))
    # Elements stay sorted where the order of the sparse dimensions does not change.
    out.indices_sorted = self.indices_sorted and sparse_order == sorted(sparse_order)
    return out


def _sum_duplicates(self: BCOO, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
    """The array with sorted and unique indices; see `bcoo_sum_duplicates`.

    With `remove_zeros`, elements that are zero are not stored.
    """
    return bcoo_eliminate_zeros(self, nse) if remove_zeros else bcoo_sum_duplicates(self, nse)


def _sort_indices(self: BCOO) -> BCOO:
    """The array with sorted indices; see `bcoo_sort_indices`."""
    return bcoo_sort_indices(self)


def _todense(self: BCOO) -> Array:
    """The dense array that this one stands for."""
    return bcoo_todense(self)


def _update_layout(
    self: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str = "error",
) -> BCOO:
    """The same array with other numbers of batch and dense dimensions; see `bcoo_update_layout`."""
    return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)


for _name, _method in {
    "from_scipy_sparse": classmethod(_from_scipy_sparse),
    "fromdense": classmethod(_fromdense),
    "sort_indices": _sort_indices,
    "sum_duplicates": _sum_duplicates,
    "todense": _todense,
    "transpose": _transpose,
    "update_layout": _update_layout,
}.items():
    setattr(BCOO, _name, _method)
