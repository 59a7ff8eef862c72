"""Primitives on the buffers of BCSR arrays, made of those of BCOO and CSR."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.ad_util import Zero
from jax._src.lax import lax
from jax._src.sparse import products
from jax._src.sparse.base import SparseInfo
from jax._src.sparse.bcoo import contraction, convert
from jax._src.sparse.primitive import buffer_primitive, to_front, with_batch
from jax._src.sparse.util import nfold_vmap


def coordinates(indices: Any, indptr: Any) -> Any:
    """The BCOO indices, rows and columns, of all elements; padding is beyond the last row."""

    def of_matrix(columns: Any, pointers: Any) -> Any:
        rows = lax.convert_element_type(products.rows_of(pointers, columns.shape[0]), columns.dtype)
        return lax.concatenate([lax.expand_dims(x, (1,)) for x in (rows, columns)], 1)

    return nfold_vmap(of_matrix, indices.ndim - 1)(indices, indptr)


def compressed(coords: Any, rows: int) -> tuple[Any, Any]:
    """The columns and index pointers of sorted BCOO indices."""

    def of_matrix(pairs: Any) -> Any:
        row = lax.max(pairs[:, 0], np.zeros((), pairs.dtype))
        return pairs[:, 1], products.row_starts(row, rows, pairs.dtype)

    return nfold_vmap(of_matrix, coords.ndim - 2, broadcasted=False)(coords)


def _todense(data: Any, indices: Any, indptr: Any, *, spinfo: SparseInfo) -> Any:
    return convert.bcoo_todense_p.bind(data, coordinates(indices, indptr), spinfo=spinfo)


def _todense_batch(size: int, args: Any, dims: Any, *, spinfo: SparseInfo) -> Any:
    return map(to_front, args, dims), {"spinfo": with_batch(spinfo, size)}


bcsr_todense_p = buffer_primitive("bcsr_todense", _todense, linear=(0,), batch=_todense_batch)


def _extract(indices: Any, indptr: Any, mat: Any) -> Any:
    return convert.bcoo_extract_p.bind(coordinates(indices, indptr), mat, assume_unique=True)


def _extract_batch(size: int, args: Any, dims: Any) -> Any:
    return map(to_front, args, dims), {}


bcsr_extract_p = buffer_primitive("bcsr_extract", _extract, linear=(2,), batch=_extract_batch)


def _fromdense(mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any) -> Any:
    data, coords = convert.bcoo_fromdense_p.bind(
        mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    return data, *compressed(coords, mat.shape[n_batch])


def _fromdense_batch(size: int, args: Any, dims: Any, *, n_batch: int, **params: Any) -> Any:
    return map(to_front, args, dims), dict(params, n_batch=n_batch + 1)


def _fromdense_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (mat,), (tangent,) = primals, tangents
    data, *indices = bcsr_fromdense_p.bind(mat, **params)
    out: Any = Zero.from_primal_value(data)
    if type(tangent) is not Zero:
        out = bcsr_extract_p.bind(*indices, tangent)
    return [data, *indices], [out, *map(Zero.from_primal_value, indices)]


bcsr_fromdense_p = buffer_primitive(
    "bcsr_fromdense",
    _fromdense,
    jvp=_fromdense_jvp,
    batch=_fromdense_batch,
    multiple_results=True,
)


def _dot_general(data: Any, indices: Any, indptr: Any, rhs: Any, **params: Any) -> Any:
    coords = coordinates(indices, indptr)
    return contraction.bcoo_dot_general_p.bind(data, coords, rhs, precision=None, **params)


bcsr_dot_general_p = buffer_primitive(
    "bcsr_dot_general", _dot_general, linear=(0, 3), batch=contraction.dot_general_batch
)
