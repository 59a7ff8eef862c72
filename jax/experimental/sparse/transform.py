"""Functions of dense arrays applied to sparse ones."""

from jax._src.sparse.transform import control_flow as _control_flow
from jax._src.sparse.transform.interpreter import (
    SparseTrace as SparseTrace,
    SparseTracer as SparseTracer,
    eval_sparse as eval_sparse,
    sparse_rules_bcoo as sparse_rules_bcoo,
    sparse_rules_bcsr as sparse_rules_bcsr,
    sparsify as sparsify,
    sparsify_fun as sparsify_fun,
    sparsify_raw as sparsify_raw,
)
from jax._src.sparse.transform.values import (
    SparsifyEnv as SparsifyEnv,
    SparsifyValue as SparsifyValue,
    arrays_to_spvalues as arrays_to_spvalues,
    spvalues_to_arrays as spvalues_to_arrays,
    spvalues_to_avals as spvalues_to_avals,
)

del _control_flow
