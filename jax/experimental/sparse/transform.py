"""Functions of dense arrays applied to sparse ones."""

# Also names of helpers, which the original's module has too.
from jax import lax as lax, numpy as jnp  # noqa: F401
from jax._src.custom_derivatives.jvp import lift_jvp as lift_jvp
from jax._src.sparse.bcoo.array import BCOO as BCOO
from jax._src.sparse.bcoo.products import (
    bcoo_multiply_dense as bcoo_multiply_dense,
    bcoo_multiply_sparse as bcoo_multiply_sparse,
)
from jax._src.sparse.bcsr import BCSR as BCSR
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
from jax._src.tree_util import (
    tree_flatten as tree_flatten,
    tree_map as tree_map,
    tree_unflatten as tree_unflatten,
)
from jax._src.util import safe_map as safe_map, safe_zip as safe_zip, split_list as split_list
from jax.experimental import sparse as sparse

# The original's module keeps the last values of the variables of its loops.
method = "__getitem__"
impl = BCSR.__getitem__
bcoo_impl = sparse.bcoo_squeeze
bcsr_impl = lambda *a, **k: sparse.bcsr_concatenate(*a, **k)
prim = lax.concatenate_p

del _control_flow
