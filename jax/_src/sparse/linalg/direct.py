"""Direct solution of sparse linear systems."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import lax
from jax._src.lax.control_flow import scans
from jax._src.lax.linalg import kernels
from jax._src.sparse import products
from jax._src.sparse.csr import csr_matvec_p
from jax._src.util import set_module

_REORDERINGS = (0, 1, 2, 3)


@set_module("jax.experimental.sparse.linalg")
def spsolve(
    data: Array, indices: Array, indptr: Array, b: Array, tol: float = 1e-6, reorder: int = 1
) -> Array:
    """Solve a sparse linear system `A x = b`.

    On CUDA devices cuSOLVER does it by a QR factorization, on CPUs SciPy by an LU factorization
    (SuperLU: J. W. Demmel et al., "A supernodal approach to sparse partial pivoting", 1999).
    Derivatives of any order with regard to `data` and `b` are further solves. Under `vmap` it solves
    one system after another.

    Args:
      data, indices, indptr: buffers of the square matrix `A` in CSR format, of shapes `[nse]`,
        `[nse]` and `[n + 1]`. On CPUs rows may be unsorted, and elements may be there twice.
      b: right-hand side, of shape `[n]` and the dtype of `data`.
      tol: below which pivots cuSOLVER finds the matrix singular.
      reorder: how cuSOLVER reduces fill-in: 0 not at all, 1 by symrcm, 2 by symamd, 3 by csrmetisnd.

    Returns:
      The solution, of shape `[n]`. On CPUs it is NaN if the matrix is singular, with a warning.

    Raises:
      ValueError: if shapes, dtypes or `reorder` do not fit.
      JaxRuntimeError: on CPUs, if indices are out of bounds.

    >>> from jax.experimental import sparse
    >>> from jax.experimental.sparse.linalg import spsolve
    >>> A = sparse.CSR.fromdense(jnp.array([[2., 0.], [1., 4.]]))
    >>> spsolve(A.data, A.indices, A.indptr, jnp.array([2., 9.])).tolist()
    [1.0, 2.0]
    """
    if reorder not in _REORDERINGS:
        raise ValueError(f"{reorder=} not valid, must be one of {list(_REORDERINGS)}")
    return spsolve_p.bind(data, indices, indptr, b, tol=float(tol), reorder=operator.index(reorder))


spsolve_p = core.Primitive("spsolve")


@spsolve_p.def_abstract_eval
def _shape(data: Any, indices: Any, indptr: Any, b: Any, *, tol: float, reorder: int) -> Any:
    if not data.ndim == indices.ndim == indptr.ndim == b.ndim == 1:
        raise ValueError(
            f"Arrays must be one-dimensional. Got {data.shape=} {indices.shape=} {indptr.shape=}"
            f" {b.shape=}"
        )
    if indices.shape != data.shape or indptr.shape[0] != b.shape[0] + 1:
        raise ValueError(
            f"Invalid CSR buffer sizes: {data.shape=} {indices.shape=} {indptr.shape=} {b.shape=}"
        )
    if not all(dtypes.issubdtype(x.dtype, np.integer) for x in (indices, indptr)):
        raise ValueError(
            f"index arrays must be integer typed; got {indices.dtype=} {indptr.dtype=}"
        )
    if data.dtype != b.dtype:
        raise ValueError(f"data types do not match: {data.dtype=} {b.dtype=}")
    return b.update(weak_type=False)


# ---------------------------------------------------------------------------------------------------
# Lowering


def _solve_on_host(data: Any, indices: Any, indptr: Any, b: Any) -> tuple[np.ndarray]:
    # SciPy takes long to import.
    import scipy.sparse
    import scipy.sparse.linalg

    n = b.size
    if not n:
        return (np.zeros(0, b.dtype),)
    used = indptr[-1]
    # SuperLU has four types. SciPy sorts rows and adds duplicates in place, hence the copy.
    kind = b.dtype if b.dtype.char in "fdFD" else np.dtype("float64")
    matrix = scipy.sparse.csr_array(
        (data[:used].astype(kind), indices[:used], indptr), shape=(n, n), copy=True
    )
    # SuperLU trusts indices.
    matrix.check_format(full_check=True)
    matrix.sum_duplicates()
    x = scipy.sparse.linalg.spsolve(matrix, b.astype(kind))
    # Of singular matrices of integers the solution is not representable.
    with np.errstate(invalid="ignore"):
        return (x.astype(b.dtype),)


def _lower_cpu(ctx: Any, *operands: Any, tol: float, reorder: int) -> Any:
    results, _, _ = mlir.emit_python_callback(
        ctx, _solve_on_host, None, operands, ctx.avals_in, ctx.avals_out, has_side_effect=False
    )
    return results


def _lower_cuda(ctx: Any, *operands: Any, tol: float, reorder: int) -> Any:
    kernels.register_gpu_kernels()
    rule = mlir.ffi_lowering("cusolver_csrlsvqr_ffi")
    return rule(ctx, *operands, tol=np.float64(tol), reorder=np.int32(reorder))


mlir.register_lowering(spsolve_p, _lower_cpu, platform="cpu")
mlir.register_lowering(spsolve_p, _lower_cuda, platform="cuda")


# ---------------------------------------------------------------------------------------------------
# Derivatives


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    data, indices, indptr, b = primals
    d_data, _, _, d_b = tangents
    x = spsolve_p.bind(*primals, **params)
    # A dx = db - dA x takes one solve.
    right = d_b
    if type(d_data) is not Zero:
        shape = (b.shape[0],) * 2
        moved = csr_matvec_p.bind(d_data, indices, indptr, x, shape=shape, transpose=False)
        right = ad.add_tangents(right, lax.neg(moved))
    if type(right) is Zero:
        return x, Zero.from_primal_value(x)
    return x, spsolve_p.bind(data, indices, indptr, right, **params)


def _transposed(data: Any, indices: Any, indptr: Any) -> tuple[Any, Any, Any]:
    """The buffers of the transposed matrix."""
    n = indptr.shape[0] - 1
    rows = products.rows_of(indptr, data.shape[0]).astype(indices.dtype)
    # Padding, whose row is `n`, stays behind the last element.
    columns = lax.select(rows < n, indices, lax.full_like(indices, n))
    columns, rows, data = lax.sort((columns, rows, data), num_keys=2)
    return data, rows, products.row_starts(columns, n, indptr.dtype)


def _transpose(ct: Any, data: Any, indices: Any, indptr: Any, b: Any, **params: Any) -> Any:
    if ad.is_undefined_primal(data):
        raise NotImplementedError("spsolve transpose with respect to data")
    if type(ct) is Zero:
        return None, None, None, Zero(b.aval)
    buffers = _transposed(data, indices, indptr)
    return None, None, None, spsolve_p.bind(*buffers, ct, **params)


def _batch(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
    """Solve one system after another: the solvers take one matrix and one right side."""
    fixed = [x if dim is None else None for x, dim in zip(args, dims)]
    mapped = [batching.moveaxis(x, d, 0) for x, d in zip(args, dims) if d is not None]

    def solve(values: Any) -> Any:
        rest = iter(values)
        return spsolve_p.bind(*[next(rest) if x is None else x for x in fixed], **params)

    return scans.map(solve, mapped), 0


spsolve_p.jvp = _jvp
spsolve_p.axis_batch = _batch
spsolve_p.transpose = _transpose
