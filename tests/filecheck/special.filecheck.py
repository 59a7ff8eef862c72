"""Special functions, sorting, windows and products of narrow numbers."""

# RUN: %python %s | %filecheck %s

import functools

from printing import print_ir, print_jaxpr

import jax
import jax.numpy as jnp
from jax import lax

print_ir = functools.partial(print_ir, platform="tpu")


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID").sum()


for function in (lax.bessel_i0e, lax.erf_inv):
    print_ir("float32[7]")(function)
# CHECK-LABEL: TEST: bessel_i0e float32[7]
# CHECK: stablehlo.abs %arg0
# CHECK-LABEL: TEST: erf_inv float32[7]
# CHECK: chlo.erf_inv %arg0 : tensor<7xf32> -> tensor<7xf32>


# CHECK-LABEL: TEST: zeta float32[7] float32[7]
# CHECK: chlo.zeta %arg0, %arg1 : tensor<7xf32>, tensor<7xf32> -> tensor<7xf32>
print_ir("float32[7]", "float32[7]")(lax.zeta)


# CHECK-LABEL: TEST: igamma float32[7] float32[7]
# CHECK: :f32[7] = igamma {{.}} {{.}}
print_jaxpr("float32[7]", "float32[7]")(lax.igamma)


# CHECK-LABEL: TEST: sort_pairs float32[8] int32[8]
# CHECK: "stablehlo.sort"(%arg0, %arg1) <{dimension = 0 : i64, is_stable = false}>
# CHECK-NEXT: ^bb0(%{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>):
# CHECK: stablehlo.compare LT, {{.*}}, TOTALORDER
@print_ir("float32[8]", "int32[8]")
def sort_pairs(keys, values):
    return lax.sort((keys, values), num_keys=1, is_stable=False)


# CHECK-LABEL: TEST: top_k float32[3,8]
# CHECK: chlo.top_k(%arg0, k = 2) : tensor<3x8xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
@print_ir("float32[3,8]")
def top_k(x):
    return lax.top_k(x, 2)


# CHECK-LABEL: TEST: gradient_of_pool float32[8,8]
# CHECK: :f32[4,4] = reduce_window_max[
# CHECK: :f32[8,8] = select_and_scatter_add[
@print_jaxpr("float32[8,8]")
def gradient_of_pool(x):
    return jax.grad(pool)(x)


# CHECK-LABEL: TEST: gradient_of_pool_lowered float32[8,8]
# CHECK: "stablehlo.select_and_scatter"(%arg0
# CHECK-SAME: window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>
# CHECK: stablehlo.compare GE
# CHECK: stablehlo.add
@print_ir("float32[8,8]")
def gradient_of_pool_lowered(x):
    return jax.grad(pool)(x)


# CHECK-LABEL: TEST: depthwise float32[1,8,8,4] float32[3,3,1,8]
# CHECK: stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]
# CHECK-SAME: stride = [2, 2], pad = {{\[}}[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [2, 1]
# CHECK-SAME: feature_group_count = 4
@print_ir("float32[1,8,8,4]", "float32[3,3,1,8]")
def depthwise(x, kernel):
    return lax.conv_general_dilated(
        x,
        kernel,
        (2, 2),
        "VALID",
        rhs_dilation=(2, 1),
        feature_group_count=4,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


# CHECK-LABEL: TEST: gradient_of_convolution float32[1,3,8,8] float32[4,3,3,3]
# CHECK: :f32[4,3,3,3] = conv_general_dilated[
# CHECK: dimension_numbers=ConvDimensionNumbers(lhs_spec=(1, 0, 2, 3), rhs_spec=(1, 0, 2, 3), out_spec=(1, 0, 2, 3))
@print_jaxpr("float32[1,3,8,8]", "float32[4,3,3,3]")
def gradient_of_convolution(x, kernel):
    return jax.grad(lambda k: lax.conv(x, k, (1, 1), "SAME").sum())(kernel)


# CHECK-LABEL: TEST: groups float32[6,4] float32[2,4,3] int32[2]
# CHECK: stablehlo.select
# CHECK: stablehlo.dot_general {{.*}}, %arg1, contracting_dims = [2, 0] x [1, 0], {{.*}} -> tensor<6x3xf32>
@print_ir("float32[6,4]", "float32[2,4,3]", "int32[2]")
def groups(x, y, sizes):
    return lax.ragged_dot(x, y, sizes)


# CHECK-LABEL: TEST: gradient_of_gather float32[8] int32[3]
# CHECK: :f32[3] = gather[
# CHECK: :f32[8] = scatter-add[
@print_jaxpr("float32[8]", "int32[3]")
def gradient_of_gather(x, i):
    return jax.grad(lambda x: x[i].sum())(x)
