"""Factorizations and solvers, which are functions of each platform's libraries."""

# RUN: %python %s | %filecheck %s

from printing import print_ir, print_jaxpr

import jax
import jax.numpy as jnp
from jax.lax import linalg


# CHECK-LABEL: TEST: eigh float32[3,3]
# CHECK: %[[OUT:.*]]:3 = stablehlo.custom_call @lapack_ssyevd_ffi(%arg0)
# CHECK-SAME: mode = 86 : ui8, uplo = 76 : ui8
# CHECK: stablehlo.compare EQ, %[[OUT]]#2
# CHECK: stablehlo.constant dense<0x7FC00000>
# CHECK: stablehlo.select {{.*}}, %[[OUT]]#0
# CHECK: stablehlo.select {{.*}}, %[[OUT]]#1
@print_ir("float32[3,3]")
def eigh(x):
    return linalg.eigh(x, symmetrize_input=False)


# CHECK-LABEL: TEST: eigh_of_a_gpu float32[3,3]
# CHECK: custom_call @cusolver_syevd_ffi(%arg0){{.*}}lower = true
# CHECK-NOT: lapack
@print_ir("float32[3,3]", platform="cuda")
def eigh_of_a_gpu(x):
    return linalg.eigh(x, symmetrize_input=False)


# CHECK-LABEL: TEST: eig float32[3,3]
# CHECK: %[[OUT:.*]]:5 = stablehlo.custom_call @lapack_sgeev_ffi(%arg0)
# CHECK-SAME: compute_left = 86 : ui8, compute_right = 86 : ui8
# CHECK-NEXT: stablehlo.complex %[[OUT]]#0, %[[OUT]]#1 : tensor<3xcomplex<f32>>
@print_ir("float32[3,3]")
def eig(x):
    return linalg.eig(x)


# CHECK-LABEL: TEST: lu float32[4,3]
# CHECK: %[[OUT:.*]]:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%arg0)
# CHECK: %[[ONE:.*]] = stablehlo.broadcast_in_dim {{.*}} -> tensor<3xi32>
# CHECK-NEXT: stablehlo.subtract %[[OUT]]#1, %[[ONE]] : tensor<3xi32>
# CHECK: stablehlo.while
@print_ir("float32[4,3]")
def lu(x):
    return linalg.lu(x)


# CHECK-LABEL: TEST: qr float32[4,3]
# CHECK: %[[OUT:.*]]:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%arg0)
# CHECK: stablehlo.custom_call @lapack_sorgqr_ffi(%[[OUT]]#0, %[[OUT]]#1)
# CHECK: stablehlo.slice %[[OUT]]#0 [0:3, 0:3]
# CHECK: stablehlo.select
@print_ir("float32[4,3]")
def qr(x):
    return linalg.qr(x, full_matrices=False)


# CHECK-LABEL: TEST: svd float32[4,3]
# CHECK: stablehlo.custom_call @lapack_sgesdd_ffi(%arg0)
# CHECK-SAME: mode = 83 : ui8
# CHECK-SAME: -> (tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3x3xf32>, tensor<i32>)
@print_ir("float32[4,3]")
def svd(x):
    return linalg.svd(x, full_matrices=False)


# CHECK-LABEL: TEST: qr_of_a_tpu float32[4,3]
# CHECK: %[[OUT:.*]]:2 = stablehlo.custom_call @Qr(%arg0)
# CHECK-NEXT: stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%[[OUT]]#0, %[[OUT]]#1)
@print_ir("float32[4,3]", platform="tpu")
def qr_of_a_tpu(x):
    return linalg.qr(x, full_matrices=False)


# CHECK-LABEL: TEST: triangular_solve float32[3,3] float32[3,2]
# CHECK: "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}>
@print_ir("float32[3,3]", "float32[3,2]", platform="tpu")
def triangular_solve(a, b):
    return linalg.triangular_solve(a, b, left_side=True, lower=True)


# CHECK-LABEL: TEST: schur float32[3,3]
# CHECK: stablehlo.custom_call @lapack_sgees_ffi(%arg0){{.*}}mode = 86 : ui8, sort = 78 : ui8
@print_ir("float32[3,3]")
def schur(x):
    return linalg.schur(x)


# CHECK-LABEL: TEST: hessenberg float32[3,3]
# CHECK: stablehlo.custom_call @lapack_sgehrd_ffi(%arg0){{.*}}high = 3 : i32, low = 1 : i32
@print_ir("float32[3,3]")
def hessenberg(x):
    return linalg.hessenberg(x)


# CHECK-LABEL: TEST: tridiagonal_solve float32[4] float32[4] float32[4] float32[4,2]
# CHECK: stablehlo.custom_call @lapack_sgtsv_ffi(%arg0, %arg1, %arg2, %arg3)
@print_ir("float32[4]", "float32[4]", "float32[4]", "float32[4,2]")
def tridiagonal_solve(dl, d, du, b):
    return linalg.tridiagonal_solve(dl, d, du, b)


# CHECK-LABEL: TEST: solve float32[3,3] float32[3]
# CHECK: [[LU:.]]:f32[3,3] {{.}}:i32[3] [[ORDER:.]]:i32[3] = lu
# CHECK: [[LOWER:.]]:f32[3,1] = triangular_solve[
# CHECK: unit_diagonal=True
# CHECK-NEXT: ] [[LU]]
# CHECK: triangular_solve[
# CHECK: unit_diagonal=False
# CHECK-NEXT: ] [[LU]] [[LOWER]]
@print_jaxpr("float32[3,3]", "float32[3]")
def solve(a, b):
    return jnp.linalg.solve(a, b)


# CHECK-LABEL: TEST: gradient_of_cholesky float32[3,3]
# CHECK: :f32[3,3] = cholesky
# CHECK: triangular_solve[
# CHECK: transpose_a=True
# CHECK: triangular_solve[
# CHECK: left_side=False
# CHECK: add_any
@print_jaxpr("float32[3,3]")
def gradient_of_cholesky(x):
    return jax.vjp(linalg.cholesky, x)[1](x)
