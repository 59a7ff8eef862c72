"""Products and conversions by the rows and columns of stored elements, which COO and CSR share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.ad_util import Zero
from jax._src.interpreters import batching
from jax._src.lax import lax
from jax._src.numpy import array_creation as creation, cumulative, selecting
from jax._src.numpy.util import promote_dtypes, to_array
from jax._src.sparse.primitive import buffer_primitive

# Indices are trusted to be in bounds where they are read. Where they are written, those beyond the
# end are padding.
_READ: dict[str, Any] = dict(mode="promise_in_bounds")


def multiply(data: Any, rows: Any, columns: Any, dense: Any, size: int) -> Any:
    """Sum `data * dense[columns]` by `rows`, of which there are `size`; `dense` has 1 or 2 axes."""
    out = creation.zeros((size, *dense.shape[1:]), data.dtype)
    if not dense.shape[0]:
        return out
    taken = to_array(dense).at[columns].get(**_READ)
    factors = lax.expand_dims(data, range(1, dense.ndim))
    return out.at[rows].add(factors * taken)


def elements_gradient(ct: Any, rows: Any, columns: Any, dense: Any) -> Any:
    """The gradient of `multiply` with regard to `data`."""
    if not dense.shape[0] or not ct.shape[0]:
        return creation.zeros(rows.shape, ct.dtype)
    products = fill_at(ct, rows) * to_array(dense).at[columns].get(**_READ)
    return products.sum(1) if products.ndim == 2 else products


def without_padding(data: Any, rows: Any, size: int) -> Any:
    """`data` with zeros for the elements that `multiply` adds to no row."""
    limits = np.iinfo(rows.dtype)
    kept = lax.full_like(rows, True, np.bool_)
    if core.is_symbolic_dim(size):  # it has 32 bits
        if limits.bits < 32:
            rows, limits = lax.convert_element_type(rows, np.int32), np.iinfo(np.int32)
        size = lax.convert_element_type(size, rows.dtype)
        kept &= rows < size
        return lax.select(
            kept & (rows >= -size) if limits.min < 0 else kept, data, lax.full_like(data, 0)
        )
    if size <= limits.max:
        kept &= rows < np.asarray(size, rows.dtype)
    if -size > limits.min and limits.min < 0:
        kept &= rows >= np.asarray(-size, rows.dtype)
    return lax.select(kept, data, lax.full_like(data, 0))


def scatter(data: Any, rows: Any, columns: Any, shape: tuple[int, ...]) -> Any:
    """The dense matrix of stored elements; duplicates are added."""
    return creation.zeros(shape, data.dtype).at[rows, columns].add(data)


def fill_at(array: Any, *indices: Any) -> Any:
    """Elements at indices, and zeros where these are out of bounds."""
    return to_array(array).at[indices].get(mode="fill", fill_value=0)


def nonzero(mat: Any, nse: int) -> Any:
    """Rows and columns of the elements that are not zero, in order.

    Padding has a row beyond the last, and column 0.
    """
    return selecting.nonzero(mat != 0, size=nse, fill_value=(mat.shape[0], 0))


def row_starts(rows: Any, size: int, dtype: Any) -> Any:
    """The index pointers of sorted rows: where each starts, and where the last one ends."""
    counts = creation.zeros(size, dtype).at[rows].add(np.ones((), dtype))
    return lax.concatenate([creation.zeros(1, dtype), cumulative.cumsum(counts)], 0)


def rows_of(indptr: Any, nse: int) -> Any:
    """The row of each stored element; behind the last one it is the number of rows."""
    begun = creation.zeros(nse, indptr.dtype).at[indptr].add(np.ones((), indptr.dtype))
    return cumulative.cumsum(begun) - np.ones((), indptr.dtype)


def typed_as_data(shape: Callable[..., tuple[int, ...]]) -> Callable[..., core.ShapedArray]:
    """The type of a result, by a function for its shape; its dtype is that of the elements."""

    def types(data: Any, *avals: Any, **params: Any) -> core.ShapedArray:
        return core.ShapedArray(shape(data, *avals, **params), data.dtype)

    return types


def fromdense_primitive(
    name: str,
    indices_of: Callable[..., Sequence[Any]],
    lengths: Callable[[tuple[int, ...], int], Sequence[int]],
    places: Callable[..., tuple[Any, Any]],
) -> core.Primitive:
    """Define a primitive that stores the elements of a matrix that are not zero.

    Args:
      name: name of the primitive.
      indices_of: function of the elements' rows and columns, of the number of rows and of the type
        of indices; returns the two arrays of indices.
      lengths: function of the matrix's shape and `nse`; returns the lengths of these.
      places: function of these arrays, and of the number of elements; returns rows and columns.
    """

    def impl(mat: Any, *, nse: int, index_dtype: Any) -> Any:
        rows, columns = nonzero(mat, nse)
        data = fill_at(mat, rows, columns)
        return data, *indices_of(rows, columns, mat.shape[0], np.dtype(index_dtype))

    def types(mat: Any, *, nse: int, index_dtype: Any) -> Any:
        if mat.ndim != 2:
            raise ValueError(f"{name} must have a matrix, got an array of shape {mat.shape}")
        index_dtype = np.dtype(index_dtype)
        indices = [core.ShapedArray((n,), index_dtype) for n in lengths(mat.shape, nse)]
        return [core.ShapedArray((nse,), mat.dtype), *indices]

    def stored(mat: Any, nse: int) -> Any:
        return lax.iota(np.int32, nse) < (mat != 0).sum()

    def jvp(primals: Any, tangents: Any, *, nse: int, index_dtype: Any) -> Any:
        (mat,), (tangent,) = primals, tangents
        data, *indices = p.bind(mat, nse=nse, index_dtype=index_dtype)
        out: Any = Zero.from_primal_value(data)
        if type(tangent) is not Zero:
            rows, columns = places(*indices, nse)
            taken = fill_at(tangent, rows, columns)
            # Padding depends on nothing.
            out = lax.select(stored(mat, nse), taken, lax.full_like(taken, 0))
        return [data, *indices], [out, *map(Zero.from_primal_value, indices)]

    p = buffer_primitive(name, impl, types=types, jvp=jvp, multiple_results=True)
    return p


def batch_dense(matvec_p: core.Primitive, matmat_p: core.Primitive) -> None:
    """Have `vmap` make one product with a matrix of products that differ in the dense operand only."""
    for p in (matvec_p, matmat_p):
        p.axis_batch = _dense_batch_rule(p.axis_batch, p, matmat_p)


def _dense_batch_rule(
    default: Callable[..., Any], p: core.Primitive, matmat_p: core.Primitive
) -> Callable[..., Any]:
    def rule(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
        *buffers, dense = args
        # What is sharded could not be reshaped.
        if any(d is not None for d in dims[:-1]) or core.typeof(dense)._sharding is not None:
            return default(axis_data, args, dims, **params)
        mapped = core.mapped_aval(axis_data.size, dims[-1], core.typeof(dense))
        p.abstract_eval(*map(core.typeof, buffers), mapped, **params)  # its checks
        dense = batching.moveaxis(dense, dims[-1], dense.ndim - 1)
        rows, *columns = dense.shape
        flat = lax.reshape(dense, (rows, math.prod(columns)))
        out = matmat_p.bind(*buffers, flat, **params)
        return lax.reshape(out, (out.shape[0], *columns)), len(columns)

    return rule


def operands(mat: Any, other: Any) -> tuple[Any, Any]:
    """The elements of `mat` and the dense factor in one type.

    Raises:
      NotImplementedError: if the factor is sparse or has not 1 or 2 dimensions.
    """
    if hasattr(other, "todense"):
        raise NotImplementedError("matmul between two sparse objects.")
    other = to_array(other)
    if other.ndim not in (1, 2):
        raise NotImplementedError(f"matmul with object of shape {other.shape}")
    data, other = promote_dtypes(mat.data, other)
    return data, other


def check_product(
    name: str, data: Any, indices: Sequence[Any], dense: Any, shape: Any, transpose: bool, ndim: int
) -> tuple[int, ...]:
    """Check the operands of a product and return its shape.

    Raises:
      ValueError: if shapes do not fit each other.
      TypeError: if the types of elements differ, or indices are no integers.
    """
    check_buffers(name, data, indices, shape)
    rows, columns = shape[::-1] if transpose else shape
    if dense.ndim != ndim or dense.shape[0] != columns:
        wanted = f"({columns},)" if ndim == 1 else f"({columns}, k)"
        raise ValueError(
            f"{name}: the product of a matrix of shape {(rows, columns)} needs a dense operand of"
            f" shape {wanted}, got {dense.shape}"
        )
    if dense.dtype != data.dtype:
        raise TypeError(
            f"{name}: operands must have one dtype, got {data.dtype.name} and {dense.dtype.name}"
        )
    return (rows, *dense.shape[1:])


def check_buffers(name: str, data: Any, indices: Sequence[Any], shape: Any) -> None:
    """Check the buffers of a matrix.

    Raises:
      ValueError: if they or the shape do not have the right number of dimensions.
      TypeError: if indices are no integers.
    """
    if len(shape) != 2 or data.ndim != 1 or any(i.ndim != 1 for i in indices):
        raise ValueError(
            f"{name} needs a matrix and buffers with one dimension, got the shape {tuple(shape)} and"
            f" buffers of shapes {[x.shape for x in (data, *indices)]}"
        )
    for i in indices:
        if i.dtype.kind not in "iu":
            raise TypeError(f"{name}: indices must be integers, got {i.dtype.name}")
    if data.shape != indices[0].shape:
        raise ValueError(
            f"{name}: there must be as many indices as elements, got {indices[0].shape[0]} and"
            f" {data.shape[0]}"
        )
