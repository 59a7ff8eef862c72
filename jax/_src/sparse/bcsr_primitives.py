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
from jax._src.sparse import csr_kernels, products
from jax._src.sparse.base import SparseInfo
from jax._src.sparse.bcoo import contraction, convert
from jax._src.sparse.csr import csr_matmat_p, csr_matvec_p
from jax._src.sparse.primitive import buffer_primitive, to_front, with_batch
from jax._src.sparse.util import nfold_vmap, remaining
from jax._src.transforms.derivatives import linear_transpose


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


def _is_matrix_product(data: Any, dimension_numbers: Any) -> bool:
    """Whether the product is one of a matrix, of which one dimension is contracted."""
    (contract, _), (batch, _) = dimension_numbers
    return data.ndim == 1 and len(contract) == 1 and not batch


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
    rest = remaining(range(rhs.ndim), [rhs_axis])
    sizes = [rhs.shape[d] for d in rest]
    dense = lax.transpose(rhs, [rhs_axis, *rest])
    dense = lax.pad(dense, np.zeros((), dense.dtype), [(0, 1, 0)] + [(0, 0, 0)] * len(rest))
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
        _is_matrix_product(data, params["dimension_numbers"])
        and params["preferred_element_type"] in (None, dtype)
        and csr_kernels.has_type(dtype)
        and csr_kernels.can_multiply(ctx)
    )
    rule = _lower_csr_product if use_kernel else _lower_default
    return rule(ctx, *operands, **params)


def _transposed(position: int) -> Any:
    """The cotangent of an operand, by the transpose of the definition."""

    def cotangent(ct: Any, *args: Any, **params: Any) -> Any:
        fun = lambda x: _dot_general(*args[:position], x, *args[position + 1 :], **params)
        return linear_transpose(fun, args[position].aval)(ct)[0]

    return cotangent


def _dense_cotangent(
    ct: Any, data: Any, indices: Any, indptr: Any, rhs: Any, *, dimension_numbers: Any,
    lhs_spinfo: SparseInfo, preferred_element_type: Any,
) -> Any:  # fmt: skip
    params = dict(lhs_spinfo=lhs_spinfo, preferred_element_type=preferred_element_type)
    same = data.dtype == rhs.aval.dtype == ct.dtype
    if not _is_matrix_product(data, dimension_numbers) or not same:
        general = _transposed(3)
        return general(
            ct, data, indices, indptr, rhs, dimension_numbers=dimension_numbers, **params
        )
    ((axis,), (rhs_axis,)), _ = dimension_numbers
    # The product with the transposed matrix, whose first dimension goes where the contracted one was.
    numbers = (((1 - axis,), (0,)), ((), ()))
    out = bcsr_dot_general_p.bind(data, indices, indptr, ct, dimension_numbers=numbers, **params)
    order = list(range(1, out.ndim))
    order.insert(rhs_axis, 0)
    return lax.transpose(out, order)


bcsr_dot_general_p = buffer_primitive(
    "bcsr_dot_general",
    _dot_general,
    linear={0: _transposed(0), 3: _dense_cotangent},
    batch=contraction.dot_general_batch,
    lower={"cpu": _lower_cpu},
)
