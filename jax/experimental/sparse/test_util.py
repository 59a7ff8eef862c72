"""Utilities for tests of sparse arrays."""

from jax._src.test_util.sparse import (
    MATMUL_TOL as MATMUL_TOL,
    BatchedDotGeneralProperties as BatchedDotGeneralProperties,
    DotDimensionNumbers as DotDimensionNumbers,
    SparseLayout as SparseLayout,
    SparseTestCase as SparseTestCase,
    _rand_sparse as _rand_sparse,
    is_sparse as is_sparse,
    iter_bcsr_layouts as iter_bcsr_layouts,
    iter_sparse_layouts as iter_sparse_layouts,
    iter_subsets as iter_subsets,
    rand_bcoo as rand_bcoo,
    rand_bcsr as rand_bcsr,
    rand_sparse as rand_sparse,
)
