"""Primitives on the buffers of BCSR arrays, made of those of BCOO and CSR."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.ad_util import Zero
from jax._src.interpreters import mlir
from jax._src.lax import lax, slicing
from jax._src.numpy.util import promote_dtypes
from jax._src.sparse import product_kernels, products
from jax._src.sparse.base import SparseInfo
from jax._src.sparse.bcoo import contraction, convert, matrices
from jax._src.sparse.csr import csr_matmat_p, csr_matvec_p
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


def _by_csr_product(
    data: Any, indices: Any, indptr: Any, rhs: Any, *, dimension_numbers: Any,
    lhs_spinfo: SparseInfo, preferred_element_type: Any,
) -> Any:  # fmt: skip
    """The product of a matrix and a dense array by the primitives of CSR, which have a kernel.

    Elements behind the last row become a row more, and places out of bounds are in a column more:
    of the dense array these are zeros, and of the result they are dropped.
    """
    ((axis,), (rhs_axis,)), _ = dimension_numbers
    rows, columns = lhs_spinfo.shape
    data, rhs = promote_dtypes(data, rhs)
    dense, sizes = matrices.contracted_first(rhs, rhs_axis)
    dense = lax.pad(dense, np.zeros((), dense.dtype), [(0, 1, 0)] + [(0, 0, 0)] * len(sizes))
    end = lax.full((1,), data.shape[0], indptr.dtype)
    params = dict(shape=(rows + 1, columns + 1), transpose=axis == 0)
    buffers = data, indices, lax.concatenate([indptr, end], 0)
    if rhs.ndim == 1:
        out = csr_matvec_p.bind(*buffers, dense, **params)
    else:
        flat = lax.reshape(dense, (dense.shape[0], math.prod(sizes)))
        out = csr_matmat_p.bind(*buffers, flat, **params)
    kept = columns if axis == 0 else rows
    return lax.reshape(slicing.slice_in_dim(out, 0, kept), (kept, *sizes))


_lower_default = mlir.lower_fun(_dot_general, multiple_results=False)
_lower_csr_product = mlir.lower_fun(_by_csr_product, multiple_results=False)


def _lower_cpu(ctx: Any, *operands: Any, **params: Any) -> Any:
    data, _, _, rhs = ctx.avals_in
    dtype = dtypes.promote_types(data.dtype, rhs.dtype)
    use_kernel = (
        matrices.is_product(data, 2, params["dimension_numbers"])
        and params["preferred_element_type"] in (None, dtype)
        and product_kernels.has_type(dtype)
        and product_kernels.can_multiply(ctx, product_kernels.CSR)
    )
    rule = _lower_csr_product if use_kernel else _lower_default
    return rule(ctx, *operands, **params)


def _dense_cotangent(
    ct: Any, data: Any, indices: Any, indptr: Any, rhs: Any, *, dimension_numbers: Any, **params: Any
) -> Any:  # fmt: skip
    same = data.dtype == rhs.aval.dtype == ct.dtype
    if not matrices.is_product(data, 2, dimension_numbers) or not same:
        params["dimension_numbers"] = dimension_numbers
        return contraction.transposed(_dot_general, 3)(ct, data, indices, indptr, rhs, **params)

    def product(dense: Any, numbers: Any) -> Any:
        buffers = data, indices, indptr
        return bcsr_dot_general_p.bind(*buffers, dense, dimension_numbers=numbers, **params)

    return matrices.dense_cotangent(product, ct, dimension_numbers)


bcsr_dot_general_p = buffer_primitive(
    "bcsr_dot_general",
    _dot_general,
    linear={0: contraction.transposed(_dot_general, 0), 3: _dense_cotangent},
    batch=contraction.dot_general_batch,
    lower={"cpu": _lower_cpu},
)
