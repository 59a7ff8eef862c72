"""Primitives between dense arrays and the buffers of BCOO arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.ad_util import Zero
from jax._src.lax import lax
from jax._src.numpy import selecting
from jax._src.sparse.base import SparseInfo
from jax._src.sparse.bcoo import ordering, places
from jax._src.sparse.primitive import buffer_primitive, to_front, with_batch
from jax._src.sparse.util import nfold_vmap

# Dense arrays of buffers


def _todense(data: Any, indices: Any, *, spinfo: SparseInfo) -> Any:
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    batch, sizes = spinfo.shape[:n_batch], spinfo.shape[n_batch : n_batch + n_sparse]
    data, indices = places.full_batch(data, batch), places.full_batch(indices, batch)
    return places.scatter_at(data, indices, range(n_batch), range(n_sparse), sizes)


def _todense_batch(size: int, args: Any, dims: Any, *, spinfo: SparseInfo) -> Any:
    return map(to_front, args, dims), {"spinfo": with_batch(spinfo, size)}


bcoo_todense_p = buffer_primitive("bcoo_todense", _todense, linear=(0,), batch=_todense_batch)


# Elements of a dense array at given indices


def _extract(indices: Any, mat: Any, *, assume_unique: bool) -> Any:
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    indices = places.full_batch(indices, mat.shape[:n_batch])
    mat = places.full_batch(mat, indices.shape[:n_batch])
    along = {d: d for d in range(n_batch)}
    data = places.gather_at(mat, indices, along, {n_batch + c: c for c in range(n_sparse)})
    if assume_unique:
        return data
    again = lax.bitwise_not(ordering.first_occurrences(indices))
    return places.masked_rows(again, data, 0)


def _extract_batch(size: int, args: Any, dims: Any, *, assume_unique: bool) -> Any:
    indices, mat = map(to_front, args, dims)
    return (indices, mat), {"assume_unique": assume_unique}


bcoo_extract_p = buffer_primitive("bcoo_extract", _extract, linear=(1,), batch=_extract_batch)


# Buffers of dense arrays


def _fromdense(mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any) -> Any:
    n_sparse = mat.ndim - n_batch - n_dense
    mask = lax.ne(mat, lax.full_like(mat, 0))
    if n_dense:
        mask = lax.reduce_or(mask, tuple(range(mat.ndim - n_dense, mat.ndim)))
    shape = mask.shape[n_batch:]
    if n_sparse:
        find = lambda m: selecting.nonzero(m, size=nse, fill_value=shape)
        found = nfold_vmap(find, n_batch, broadcasted=False)(mask)
        found = [lax.expand_dims(i, (n_batch + 1,)) for i in found]
        indices = lax.concatenate(found, n_batch + 1)
    else:
        indices = lax.full((*mask.shape, nse, 0), 0, np.int32)
    data = _extract(indices, mat, assume_unique=True)
    if not n_sparse and nse > 1:
        # The only element is stored once.
        again = lax.broadcasted_iota(np.int32, data.shape[: n_batch + 1], n_batch) > 0
        data = places.masked_rows(again, data, 0)
    return data, lax.convert_element_type(indices, index_dtype)


def _fromdense_batch(size: int, args: Any, dims: Any, *, n_batch: int, **params: Any) -> Any:
    return map(to_front, args, dims), dict(params, n_batch=n_batch + 1)


def _fromdense_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (mat,), (tangent,) = primals, tangents
    data, indices = bcoo_fromdense_p.bind(mat, **params)
    out: Any = Zero.from_primal_value(data)
    if type(tangent) is not Zero:
        out = bcoo_extract_p.bind(indices, tangent, assume_unique=True)
    return [data, indices], [out, Zero.from_primal_value(indices)]


bcoo_fromdense_p = buffer_primitive(
    "bcoo_fromdense",
    _fromdense,
    jvp=_fromdense_jvp,
    batch=_fromdense_batch,
    multiple_results=True,
)


# Permutations of dimensions


def _transpose(data: Any, indices: Any, *, permutation: Any, spinfo: SparseInfo) -> Any:
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    first_dense = n_batch + n_sparse
    batch = permutation[:n_batch]
    dense = [d - n_sparse + 1 for d in permutation[first_dense:]]
    columns = [d - n_batch for d in permutation[n_batch:first_dense]]
    data = lax.transpose(data, (*batch, n_batch, *dense))
    indices = lax.transpose(indices, (*batch, n_batch, n_batch + 1))
    return data, places.columns_of(indices, columns)


def _transpose_batch(
    size: int, args: Any, dims: Any, *, permutation: Any, spinfo: SparseInfo
) -> Any:
    permutation = (0, *(d + 1 for d in permutation))
    params = {"permutation": permutation, "spinfo": with_batch(spinfo, size)}
    return map(to_front, args, dims), params


bcoo_transpose_p = buffer_primitive(
    "bcoo_transpose", _transpose, linear=(0,), batch=_transpose_batch, multiple_results=True
)
