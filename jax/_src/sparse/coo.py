"""Matrices in coordinate format: stored elements with their rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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
from jax._src.typing import DTypeLike, Shape
from jax._src.util import set_module

_MODULE = "jax.experimental.sparse.coo"


@set_module(_MODULE)
class COOInfo(NamedTuple):
    """What is known of a COO matrix besides its buffers: a static parameter of primitives."""

    shape: Shape
    rows_sorted: bool = False
    cols_sorted: bool = False


@set_module(_MODULE)
@tree_util.register_pytree_node_class
class COO(JAXSparse):
    """A matrix in coordinate format.

    Elements whose row or column is beyond the end are padding. Those of one place are added.

    Args:
      args: elements, rows and columns: three arrays of shape `[nse]`.
      shape: the shape of the matrix.
      rows_sorted, cols_sorted: whether the elements are in order of rows, or of columns.

    >>> from jax.experimental import sparse
    >>> M = sparse.COO.fromdense(jnp.array([[0., 2.], [3., 0.]]))
    >>> M, M.row, M.col
    (COO(float32[2, 2], nse=2), Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
    >>> M @ jnp.array([1., 10.])
    Array([20.,  3.], dtype=float32)
    """

    data: Array
    row: Array
    col: Array
    nse = property(lambda self: self.data.size)
    dtype = property(lambda self: self.data.dtype)
    _info = property(
        lambda self: COOInfo(
            shape=self.shape, rows_sorted=self._rows_sorted, cols_sorted=self._cols_sorted
        )
    )
    _bufs = property(lambda self: (self.data, self.row, self.col))
    _rows_sorted: bool
    _cols_sorted: bool

    def __init__(
        self,
        args: tuple[Array, Array, Array],
        *,
        shape: Shape,
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ):
        self.data, self.row, self.col = as_buffers("COO", ("data", "row", "col"), args)
        self._rows_sorted = rows_sorted
        self._cols_sorted = cols_sorted
        super().__init__(args, shape=tuple(shape))

    @classmethod
    def fromdense(
        cls, mat: Array, *, nse: int | None = None, index_dtype: DTypeLike = np.int32
    ) -> COO:
        """Store the elements of a matrix that are not zero: see `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: DTypeLike | None = None,
        index_dtype: DTypeLike = "int32",
    ) -> COO:
        """A matrix of zeros, which stores nothing."""
        shape = tuple(shape)
        if len(shape) != 2:
            raise ValueError(f"COO must have ndim=2; got {shape=}")
        indices = creation.empty(0, index_dtype)
        buffers = (creation.empty(0, dtype), indices, indices)
        return cls(buffers, shape=shape, rows_sorted=True, cols_sorted=True)

    @classmethod
    def _eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: DTypeLike | None = None,
        index_dtype: DTypeLike = "int32",
    ) -> COO:
        """A matrix with ones in diagonal `k`."""
        size = max(0, min(N + min(k, 0), M - max(k, 0)))
        index_dtype = np.dtype(index_dtype)
        starts = [np.asarray(max(start, 0), index_dtype) for start in (-k, k)]
        row, col = (lax.iota(index_dtype, size) + start for start in starts)
        if not size:
            return cls._empty((N, M), dtype=dtype, index_dtype=index_dtype)
        buffers = (creation.ones(size, dtype), row, col)
        return cls(buffers, shape=(N, M), rows_sorted=True, cols_sorted=True)

    def _sort_indices(self) -> COO:
        """A copy whose elements are in order of rows, and in each of columns."""
        if self._rows_sorted:
            return self
        row, col, data = lax.sort((self.row, self.col, self.data), num_keys=2)
        return self.__class__((data, row, col), shape=self.shape, rows_sorted=True)

    def todense(self) -> Array:
        return coo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """The matrix with its axes swapped, of the same buffers."""
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self._cols_sorted,
            cols_sorted=self._rows_sorted,
        )

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
        return (self.data, self.row, self.col), self._info._asdict()

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> COO:
        # Children may be anything, which the constructor would refuse.
        obj = object.__new__(cls)
        obj.data, obj.row, obj.col = children
        if aux_data.keys() != {"shape", "rows_sorted", "cols_sorted"}:
            raise ValueError(f"COO.tree_unflatten: invalid {aux_data=}")
        obj.shape = aux_data["shape"]
        obj._rows_sorted = aux_data["rows_sorted"]
        obj._cols_sorted = aux_data["cols_sorted"]
        return obj

    def __matmul__(self, other: Any) -> Array:
        if isinstance(other, JAXSparse):
            raise NotImplementedError("matmul between two sparse objects.")
        data, other = products.operands(self, other)
        p = coo_matvec_p if other.ndim == 1 else coo_matmat_p
        return p.bind(data, self.row, self.col, other, spinfo=self._info, transpose=False)


def _shape(name: str, ndim: int) -> Any:
    def shape(
        data: Any, row: Any, col: Any, dense: Any, *, spinfo: COOInfo, transpose: bool
    ) -> Any:
        _check_indices(name, row, col)
        return products.check_product(name, data, (row, col), dense, spinfo.shape, transpose, ndim)

    return shape


def _check_indices(name: str, row: Any, col: Any) -> None:
    if row.shape != col.shape:
        raise ValueError(
            f"{name}: there must be as many rows as columns, got {row.shape} and {col.shape}"
        )


def _product(data: Any, row: Any, col: Any, dense: Any, *, spinfo: COOInfo, transpose: bool) -> Any:
    rows, columns = (col, row) if transpose else (row, col)
    return products.multiply(data, rows, columns, dense, spinfo.shape[transpose])


def _data_gradient(
    ct: Any, data: Any, row: Any, col: Any, dense: Any, *, spinfo: COOInfo, transpose: bool
) -> Any:
    rows, columns = (col, row) if transpose else (row, col)
    return products.elements_gradient(ct, rows, columns, dense)


def _product_p(name: str, ndim: int) -> core.Primitive:
    def dense_gradient(
        ct: Any, data: Any, row: Any, col: Any, dense: Any, *, spinfo: COOInfo, transpose: bool
    ) -> Any:
        data = products.without_padding(data, col if transpose else row, spinfo.shape[transpose])
        return p.bind(data, row, col, ct, spinfo=spinfo, transpose=not transpose)

    p = buffer_primitive(
        name,
        _product,
        types=products.typed_as_data(_shape(name, ndim)),
        linear={0: _data_gradient, 3: dense_gradient},
        lower={"cpu": product_kernels.lowering(product_kernels.COO, _product)},
    )
    return p


coo_matvec_p = _product_p("coo_matvec", 1)
coo_matmat_p = _product_p("coo_matmat", 2)
products.batch_dense(coo_matvec_p, coo_matmat_p)


def _todense_shape(data: Any, row: Any, col: Any, *, spinfo: COOInfo) -> Any:
    _check_indices("coo_todense", row, col)
    products.check_buffers("coo_todense", data, (row, col), spinfo.shape)
    return spinfo.shape


coo_todense_p = buffer_primitive(
    "coo_todense",
    lambda data, row, col, *, spinfo: products.scatter(data, row, col, spinfo.shape),
    types=products.typed_as_data(_todense_shape),
    linear={0: lambda ct, data, row, col, *, spinfo: products.fill_at(ct, row, col)},
)


def _indices_of(row: Any, col: Any, rows: int, dtype: Any) -> tuple[Any, Any]:
    row = lax.select(row < rows, row, lax.full_like(row, 0))
    return row.astype(dtype), col.astype(dtype)


coo_fromdense_p = products.fromdense_primitive(
    "coo_fromdense", _indices_of, lambda shape, nse: (nse, nse), lambda row, col, nse: (row, col)
)


@set_module(_MODULE)
def coo_fromdense(mat: Array, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> COO:
    """Store the elements of a matrix that are not zero.

    Args:
      mat: array of shape `[m, n]`.
      nse: how many elements to store: the first ones in order of rows; where there are fewer, zeros
        in row and column 0 follow. By default as many as there are, which must be known.
      index_dtype: the type of rows and columns.

    Returns:
      A COO matrix whose rows are sorted.

    Raises:
      TypeError: if `index_dtype` is not an integer type.
      ValueError: if `mat` is no matrix, or `index_dtype` is too narrow.
      ConcretizationTypeError: under transformations if `nse` is not given.

    >>> from jax.experimental import sparse
    >>> sparse.coo_fromdense(jnp.eye(3), nse=2).row
    Array([0, 1], dtype=int32)
    """
    check_dense("coo_fromdense", "mat", mat)
    mat = to_array(mat)
    nse = count_stored_elements(mat) if nse is None else nse
    nse = static_nse(nse, "coo_fromdense")
    dtype = index_type(index_dtype, "coo_fromdense", *[s - 1 for s in mat.shape])
    buffers = coo_fromdense_p.bind(mat, nse=nse, index_dtype=dtype)
    return COO(tuple(buffers), shape=mat.shape, rows_sorted=True)


@set_module(_MODULE)
def coo_todense(mat: COO) -> Array:
    """The dense array of a COO matrix.

    Args:
      mat: COO matrix of shape `[m, n]`.

    Returns:
      Array of shape `[m, n]`.

    >>> from jax.experimental import sparse
    >>> sparse.coo_todense(sparse.COO.fromdense(jnp.eye(2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_format("coo_todense", "mat", mat, COO)
    return coo_todense_p.bind(mat.data, mat.row, mat.col, spinfo=mat._info)


@set_module(_MODULE)
def coo_matvec(mat: COO, v: Array, transpose: bool = False) -> Array:
    """The product of a COO matrix and a vector.

    Args:
      mat: COO matrix of shape `[m, n]`.
      v: vector of shape `[n]`, or `[m]` with `transpose`.
      transpose: whether to multiply by the transposed matrix.

    Returns:
      Vector of shape `[m]`, or `[n]` with `transpose`.

    Raises:
      ValueError: if the shapes do not fit.

    >>> from jax.experimental import sparse
    >>> M = sparse.COO.fromdense(jnp.array([[0., 2.], [3., 4.]]))
    >>> sparse.coo_matvec(M, jnp.ones(2), transpose=True)
    Array([3., 6.], dtype=float32)
    """
    check_format("coo_matvec", "mat", mat, COO)
    data, v = products.operands(mat, v)
    return coo_matvec_p.bind(data, mat.row, mat.col, v, spinfo=mat._info, transpose=transpose)


@set_module(_MODULE)
def coo_matmat(mat: COO, B: Array, *, transpose: bool = False) -> Array:
    """The product of a COO matrix and a dense one.

    Args:
      mat: COO matrix of shape `[m, n]`.
      B: matrix of shape `[n, k]`, or `[m, k]` with `transpose`.
      transpose: whether to multiply by the transposed matrix.

    Returns:
      Matrix of shape `[m, k]`, or `[n, k]` with `transpose`.

    Raises:
      ValueError: if the shapes do not fit.

    >>> from jax.experimental import sparse
    >>> M = sparse.COO.fromdense(jnp.array([[0., 2.], [3., 4.]]))
    >>> sparse.coo_matmat(M, jnp.eye(2), transpose=True)
    Array([[0., 3.],
           [2., 4.]], dtype=float32)
    """
    check_format("coo_matmat", "mat", mat, COO)
    data, B = products.operands(mat, B)
    return coo_matmat_p.bind(data, mat.row, mat.col, B, spinfo=mat._info, transpose=transpose)
