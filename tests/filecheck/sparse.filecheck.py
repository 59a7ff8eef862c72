"""Sparse arrays: their own operations, and what they are lowered to."""

# RUN: %python %s | %filecheck %s

from printing import print_ir, print_jaxpr

import jax.numpy as jnp
from jax.experimental import sparse

matrix = sparse.BCOO.fromdense(jnp.eye(3)[:2])


# CHECK-LABEL: TEST: bcoo_product float32[3]
# CHECK: bcoo_dot_general[
# CHECK-NEXT: dimension_numbers=(((1,), (0,)), ((), ()))
# CHECK-NEXT: lhs_spinfo=SparseInfo(shape=(2, 3), indices_sorted=True, unique_indices=True)
@print_jaxpr("float32[3]")
def bcoo_product(x):
    return matrix @ x


# CHECK-LABEL: TEST: bcoo_product_lowered float32[3]
# CHECK: "stablehlo.gather"(%arg0
# CHECK: "stablehlo.scatter"
# CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>):
# CHECK-NEXT: stablehlo.add %[[X]], %[[Y]]
@print_ir("float32[3]")
def bcoo_product_lowered(x):
    return matrix @ x


# CHECK-LABEL: TEST: bcoo_conversion float32[3,3]
# CHECK: [[DATA:.]]:f32[4] [[INDICES:.]]:i32[4,2] = bcoo_fromdense[
# CHECK: :f32[3,3] = bcoo_todense[
# CHECK: ] [[DATA]] [[INDICES]]
@print_jaxpr("float32[3,3]")
def bcoo_conversion(x):
    return sparse.BCOO.fromdense(x, nse=4).todense()


# CHECK-LABEL: TEST: bcsr_product float32[3,3] float32[3]
# CHECK: [[DATA:.]]:f32[4] [[INDICES:.]]:i32[4] [[ROWS:.]]:i32[4] = bcsr_fromdense[
# CHECK: bcsr_dot_general[
# CHECK: ] [[DATA]] [[INDICES]] [[ROWS]]
@print_jaxpr("float32[3,3]", "float32[3]")
def bcsr_product(x, y):
    return sparse.BCSR.fromdense(x, nse=4) @ y


# CHECK-LABEL: TEST: csr_product float32[3,3] float32[3]
# CHECK: [[DATA:.]]:f32[4] [[INDICES:.]]:i32[4] [[ROWS:.]]:i32[4] = csr_fromdense[index_dtype=int32 nse=4]
# CHECK-NEXT: csr_matvec[shape=(3, 3) transpose=False] [[DATA]] [[INDICES]] [[ROWS]]
@print_jaxpr("float32[3,3]", "float32[3]")
def csr_product(x, y):
    return sparse.CSR.fromdense(x, nse=4) @ y
