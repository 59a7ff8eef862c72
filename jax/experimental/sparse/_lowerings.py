"""Products of the buffers of COO and CSR matrices, as primitives whose parameter is the shape."""

from typing import Any

import numpy as np

from jax._src.sparse.coo import COOInfo, coo_matmat_p, coo_matvec_p
from jax._src.sparse.csr import csr_matmat_p, csr_matvec_p
from jax._src.sparse.primitive import buffer_primitive

SUPPORTED_DATA_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
SUPPORTED_INDEX_DTYPES = [np.int32]


def _coo(product_p: Any) -> Any:
    def impl(data: Any, row: Any, col: Any, x: Any, *, transpose: bool, shape: Any) -> Any:
        return product_p.bind(data, row, col, x, spinfo=COOInfo(shape), transpose=transpose)

    return impl


def _csr(product_p: Any) -> Any:
    def impl(data: Any, indices: Any, indptr: Any, x: Any, *, transpose: bool, shape: Any) -> Any:
        return product_p.bind(data, indices, indptr, x, shape=shape, transpose=transpose)

    return impl


coo_spmv_p = buffer_primitive("coo_spmv", _coo(coo_matvec_p), linear=(0, 3))
coo_spmm_p = buffer_primitive("coo_spmm", _coo(coo_matmat_p), linear=(0, 3))
csr_spmv_p = buffer_primitive("csr_spmv", _csr(csr_matvec_p), linear=(0, 3))
csr_spmm_p = buffer_primitive("csr_spmm", _csr(csr_matmat_p), linear=(0, 3))
