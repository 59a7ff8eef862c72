"""Derivatives with respect to the stored elements of sparse arrays."""

# Also names of helpers, which the original's module has too.
from jax import tree_util as tree_util
from jax._src.sparse.ad import (
    flatten_fun_for_sparse_ad as flatten_fun_for_sparse_ad,
    grad as grad,
    is_sparse as is_sparse,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
    value_and_grad as value_and_grad,
)
from jax._src.sparse.base import JAXSparse as JAXSparse
from jax._src.traceback_util import api_boundary as api_boundary
from jax._src.util import safe_zip as safe_zip, split_list as split_list, wraps as wraps
