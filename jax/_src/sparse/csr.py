"""Matrices in compressed sparse row and column format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, tree_util
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.numpy import array_creation as creation
from jax._src.numpy.util import to_array
from jax._src.sparse import product_kernels, products
from jax._src.sparse.base import JAXSparse, as_buffers, check_dense, check_format
from jax._src.sparse.primitive import buffer_primitive
from jax._src.sparse.util import count_stored_elements, index_type, static_nse
from jax._src.typing import DTypeLike
from jax._src.util import set_module

_MODULE = "jax.experimental.sparse.csr"


class _Compressed(JAXSparse):
    """What CSR and CSC share: the elements of a row, or of a column, are neighbors."""

    data: Array
    indices: Array
    indptr: Array
    nse = property(lambda self: self.data.size)
    dtype = property(lambda self: self.data.dtype)
    _bufs = property(lambda self: (self.data, self.indices, self.indptr))
    # The axis whose indices are compressed.
    _axis: int

    def __init__(self, args: tuple[Array, Array, Array], *, shape: Sequence[int]):
        names = ("data", "indices", "indptr")
        self.data, self.indices, self.indptr = as_buffers(type(self).__name__, names, args)
        super().__init__(args, shape=tuple(shape))

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: DTypeLike | None = None,
        index_dtype: DTypeLike = "int32",
    ) -> Any:
        """A matrix of zeros, which stores nothing."""
        shape = tuple(shape)
        if len(shape) != 2:
            raise ValueError(f"{cls.__name__} must have ndim=2; got {shape=}")
        indptr = creation.zeros(shape[cls._axis] + 1, index_dtype)
        return cls((creation.empty(0, dtype), creation.empty(0, index_dtype), indptr), shape=shape)

    @classmethod
    def _eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: DTypeLike | None = None,
        index_dtype: DTypeLike = "int32",
    ) -> Any:
        """A matrix with ones in diagonal `k`."""
        rows, skip = (M, -k) if cls._axis else (N, k)
        size = max(0, min(N + min(k, 0), M - max(k, 0)))
        index_dtype = np.dtype(index_dtype)
        indices = lax.iota(index_dtype, size) + np.asarray(max(skip, 0), index_dtype)
        starts = np.clip(np.arange(rows + 1) - max(-skip, 0), 0, size).astype(index_dtype)
        return cls((creation.ones(size, dtype), indices, to_array(starts)), shape=(N, M))

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
        return (self.data, self.indices, self.indptr), {"shape": self.shape}

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Any:
        # Children may be anything, which the constructor would refuse.
        obj = object.__new__(cls)
        obj.data, obj.indices, obj.indptr = children
        if aux_data.keys() != {"shape"}:
            raise ValueError(f"{cls.__name__}.tree_unflatten: invalid {aux_data=}")
        obj.shape = aux_data["shape"]
        return obj

    def _times(self, other: Any, shape: tuple[int, ...], transpose: bool) -> Array:
        if isinstance(other, JAXSparse):
            raise NotImplementedError("matmul between two sparse objects.")
        data, other = products.operands(self, other)
        p = csr_matvec_p if other.ndim == 1 else csr_matmat_p
        return p.bind(data, self.indices, self.indptr, other, shape=shape, transpose=transpose)


@set_module(_MODULE)
@tree_util.register_pytree_node_class
class CSR(_Compressed):
    """A matrix in compressed sparse row format.

    Args:
      args: the elements row by row, of shape `[nse]`; their columns, of shape `[nse]`; and where
        each row starts and the last one ends, of shape `[m + 1]`. Elements behind are padding.
      shape: the shape of the matrix, `[m, n]`.

    >>> from jax.experimental import sparse
    >>> M = sparse.CSR.fromdense(jnp.array([[0., 2.], [3., 4.]]))
    >>> M, M.indices, M.indptr
    (CSR(float32[2, 2], nse=3), Array([1, 0, 1], dtype=int32), Array([0, 1, 3], dtype=int32))
    >>> M @ jnp.array([1., 10.])
    Array([20., 43.], dtype=float32)
    """

    _axis = 0

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: DTypeLike = np.int32
    ) -> CSR:
        """Store the elements of a matrix that are not zero: see `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    def todense(self) -> Array:
        return csr_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        """The matrix with its axes swapped, of the same buffers."""
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return CSC(self._bufs, shape=self.shape[::-1])

    def __matmul__(self, other: Any) -> Array:
        return self._times(other, self.shape, transpose=False)


@set_module(_MODULE)
@tree_util.register_pytree_node_class
class CSC(_Compressed):
    """A matrix in compressed sparse column format.

    Args:
      args: the elements column by column, of shape `[nse]`; their rows, of shape `[nse]`; and where
        each column starts and the last one ends, of shape `[n + 1]`. Elements behind are padding.
      shape: the shape of the matrix, `[m, n]`.

    >>> from jax.experimental import sparse
    >>> M = sparse.CSC.fromdense(jnp.array([[0., 2.], [3., 4.]]))
    >>> M.data, M.indices
    (Array([3., 2., 4.], dtype=float32), Array([1, 0, 1], dtype=int32))
    >>> M.T
    CSR(float32[2, 2], nse=3)
    """

    _axis = 1

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: DTypeLike = np.int32
    ) -> CSC:
        """Store the elements of a matrix that are not zero, column by column."""
        mat = to_array(mat)
        return csr_fromdense(mat.T, nse=nse, index_dtype=index_dtype).transpose()

    def todense(self) -> Array:
        return csr_todense(self.T).T

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """The matrix with its axes swapped, of the same buffers."""
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return CSR(self._bufs, shape=self.shape[::-1])

    def __matmul__(self, other: Any) -> Array:
        return self._times(other, self.shape[::-1], transpose=True)


def _check_pointers(name: str, indptr: Any, shape: Any) -> None:
    if indptr.shape != (shape[0] + 1,):
        raise ValueError(
            f"{name}: a matrix of {shape[0]} rows needs {shape[0] + 1} index pointers, got"
            f" {indptr.shape}"
        )


def _shape(name: str, ndim: int) -> Any:
    def result(
        data: Any, indices: Any, indptr: Any, dense: Any, *, shape: Any, transpose: bool
    ) -> Any:
        buffers = (indices, indptr)
        out = products.check_product(name, data, buffers, dense, shape, transpose, ndim)
        _check_pointers(name, indptr, shape)
        return out

    return result


def _places(indices: Any, indptr: Any, transpose: bool) -> tuple[Any, Any]:
    rows = products.rows_of(indptr, indices.shape[0])
    return (indices, rows) if transpose else (rows, indices)


def _product(
    data: Any, indices: Any, indptr: Any, dense: Any, *, shape: Any, transpose: bool
) -> Any:
    rows, columns = _places(indices, indptr, transpose)
    return products.multiply(data, rows, columns, dense, shape[transpose])


def _data_gradient(
    ct: Any, data: Any, indices: Any, indptr: Any, dense: Any, *, shape: Any, transpose: bool
) -> Any:
    return products.elements_gradient(ct, *_places(indices, indptr, transpose), dense)


def _product_p(name: str, ndim: int) -> core.Primitive:
    def dense_gradient(
        ct: Any, data: Any, indices: Any, indptr: Any, dense: Any, *, shape: Any, transpose: bool
    ) -> Any:
        if transpose:
            data = products.without_padding(data, indices, shape[1])
        else:
            # Elements behind the last row are padding.
            kept = lax.iota(indptr.dtype, data.shape[0]) < indptr[-1]
            data = lax.select(kept, data, lax.full_like(data, 0))
        return p.bind(data, indices, indptr, ct, shape=shape, transpose=not transpose)

    p = buffer_primitive(
        name,
        _product,
        types=products.typed_as_data(_shape(name, ndim)),
        linear={0: _data_gradient, 3: dense_gradient},
        lower={"cpu": product_kernels.lowering(product_kernels.CSR, _product)},
    )
    return p


csr_matvec_p = _product_p("csr_matvec", 1)
csr_matmat_p = _product_p("csr_matmat", 2)
products.batch_dense(csr_matvec_p, csr_matmat_p)


def _todense_shape(data: Any, indices: Any, indptr: Any, *, shape: Any) -> Any:
    products.check_buffers("csr_todense", data, (indices, indptr), shape)
    _check_pointers("csr_todense", indptr, shape)
    return shape


def _todense(data: Any, indices: Any, indptr: Any, *, shape: Any) -> Any:
    return products.scatter(data, *_places(indices, indptr, False), shape)


def _todense_gradient(ct: Any, data: Any, indices: Any, indptr: Any, *, shape: Any) -> Any:
    return products.fill_at(ct, *_places(indices, indptr, False))


csr_todense_p = buffer_primitive(
    "csr_todense",
    _todense,
    types=products.typed_as_data(_todense_shape),
    linear={0: _todense_gradient},
)


def _indices_of(row: Any, col: Any, rows: int, dtype: Any) -> tuple[Any, Any]:
    return col.astype(dtype), products.row_starts(row, rows, dtype)


csr_fromdense_p = products.fromdense_primitive(
    "csr_fromdense",
    _indices_of,
    lambda shape, nse: (nse, shape[0] + 1),
    lambda indices, indptr, nse: _places(indices, indptr, False),
)


@set_module(_MODULE)
def csr_fromdense(mat: Array, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> CSR:
    """Store the elements of a matrix that are not zero, row by row.

    Args:
      mat: array of shape `[m, n]`.
      nse: how many elements to store: the first ones; where there are fewer, padding follows. By
        default as many as there are, which must be known.
      index_dtype: the type of columns and index pointers.

    Returns:
      A CSR matrix.

    Raises:
      TypeError: if `index_dtype` is not an integer type.
      ValueError: if `mat` is no matrix, or `index_dtype` is too narrow.
      ConcretizationTypeError: under transformations if `nse` is not given.

    >>> from jax.experimental import sparse
    >>> sparse.csr_fromdense(jnp.eye(3), nse=2).indptr
    Array([0, 1, 2, 2], dtype=int32)
    """
    check_dense("csr_fromdense", "mat", mat)
    mat = to_array(mat)
    nse = count_stored_elements(mat) if nse is None else nse
    nse = static_nse(nse, "csr_fromdense")
    dtype = index_type(index_dtype, "csr_fromdense", *[s - 1 for s in mat.shape], nse)
    buffers = csr_fromdense_p.bind(mat, nse=nse, index_dtype=dtype)
    return CSR(tuple(buffers), shape=mat.shape)


@set_module(_MODULE)
def csr_todense(mat: CSR) -> Array:
    """The dense array of a CSR matrix.

    Args:
      mat: CSR matrix of shape `[m, n]`.

    Returns:
      Array of shape `[m, n]`.

    >>> from jax.experimental import sparse
    >>> sparse.csr_todense(sparse.CSR.fromdense(jnp.eye(2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_format("csr_todense", "mat", mat, CSR)
    return csr_todense_p.bind(mat.data, mat.indices, mat.indptr, shape=mat.shape)


@set_module(_MODULE)
def csr_matvec(mat: CSR, v: Array, transpose: bool = False) -> Array:
    """The product of a CSR matrix and a vector.

    On CPUs a kernel of `jaxlib-ext` computes it where that is installed.

    Args:
      mat: CSR matrix of shape `[m, n]`.
      v: vector of shape `[n]`, or `[m]` with `transpose`.
      transpose: whether to multiply by the transposed matrix.

    Returns:
      Vector of shape `[m]`, or `[n]` with `transpose`.

    Raises:
      ValueError: if the shapes do not fit.

    >>> from jax.experimental import sparse
    >>> M = sparse.CSR.fromdense(jnp.array([[0., 2.], [3., 4.]]))
    >>> sparse.csr_matvec(M, jnp.ones(2), transpose=True)
    Array([3., 6.], dtype=float32)
    """
    check_format("csr_matvec", "mat", mat, CSR)
    data, v = products.operands(mat, v)
    buffers = (data, mat.indices, mat.indptr, v)
    return csr_matvec_p.bind(*buffers, shape=mat.shape, transpose=transpose)


@set_module(_MODULE)
def csr_matmat(mat: CSR, B: Array, *, transpose: bool = False) -> Array:
    """The product of a CSR matrix and a dense one.

    On CPUs a kernel of `jaxlib-ext` computes it where that is installed.

    Args:
      mat: CSR matrix of shape `[m, n]`.
      B: matrix of shape `[n, k]`, or `[m, k]` with `transpose`.
      transpose: whether to multiply by the transposed matrix.

    Returns:
      Matrix of shape `[m, k]`, or `[n, k]` with `transpose`.

    Raises:
      ValueError: if the shapes do not fit.

    >>> from jax.experimental import sparse
    >>> M = sparse.CSR.fromdense(jnp.array([[0., 2.], [3., 4.]]))
    >>> sparse.csr_matmat(M, jnp.eye(2), transpose=True)
    Array([[0., 3.],
           [2., 4.]], dtype=float32)
    """
    check_format("csr_matmat", "mat", mat, CSR)
    data, B = products.operands(mat, B)
    buffers = (data, mat.indices, mat.indptr, B)
    return csr_matmat_p.bind(*buffers, shape=mat.shape, transpose=transpose)
