"""Reductions, windows, cumulative functions, sorting and products."""

# RUN: %python %s | %filecheck %s

import functools

from printing import print_ir

import jax.numpy as jnp
from jax import lax

# CPUs may have kernels of this project's for some of them, which is for other tests.
print_ir = functools.partial(print_ir, platform="tpu")


# CHECK-LABEL: TEST: sum_rows bfloat16[8,3]
# CHECK: %[[X:.*]] = stablehlo.convert %arg0 : (tensor<8x3xbf16>) -> tensor<8x3xf32>
# CHECK: stablehlo.reduce(%[[X]] init: %{{.*}}) applies stablehlo.add across dimensions = [1]
# CHECK: stablehlo.convert {{.*}} -> tensor<8xbf16>
@print_ir("bfloat16[8,3]")
def sum_rows(x):
    return jnp.sum(x, axis=1)


# CHECK-LABEL: TEST: maximum float32[8,3]
# CHECK: stablehlo.constant dense<0xFF800000> : tensor<f32>
# CHECK: stablehlo.reduce({{.*}}) applies stablehlo.maximum across dimensions = [0, 1]
# CHECK-SAME: -> tensor<f32>
@print_ir("float32[8,3]")
def maximum(x):
    return x.max()


# CHECK-LABEL: TEST: any_of bool[8]
# CHECK: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.or across dimensions = [0]
@print_ir("bool[8]")
def any_of(x):
    return x.any()


# The first of equal ones, and NaN before all others.
# CHECK-LABEL: TEST: position float32[8]
# CHECK: stablehlo.reduce({{.*}}) across dimensions = [0] : (tensor<8xf32>, tensor<8xi32>, tensor<f32>, tensor<i32>)
# CHECK: stablehlo.compare GT
# CHECK: stablehlo.compare NE, %[[X:.*]], %[[X]], FLOAT
# CHECK: stablehlo.compare EQ
# CHECK: stablehlo.compare LT
@print_ir("float32[8]")
def position(x):
    return jnp.argmax(x)


# CHECK-LABEL: TEST: pool float32[8,8]
# CHECK: "stablehlo.reduce_window"(%arg0
# CHECK-SAME: window_dimensions = array<i64: 2, 2>
# CHECK-SAME: window_strides = array<i64: 2, 2>
# CHECK: stablehlo.maximum
@print_ir("float32[8,8]")
def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID")


# CHECK-LABEL: TEST: running_sum float32[8]
# CHECK: call @cumsum(%arg0)
# CHECK: func.func private @cumsum
# CHECK: "stablehlo.reduce_window"{{.*}}padding = dense<{{\[}}[7, 0]]>{{.*}}window_dimensions = array<i64: 8>
@print_ir("float32[8]")
def running_sum(x):
    return lax.cumsum(x)


# Zeros are equal whatever their sign, and NaNs are last.
# CHECK-LABEL: TEST: sort_pairs float32[8] int32[8]
# CHECK: "stablehlo.sort"(%arg0, %arg1) <{dimension = 0 : i64, is_stable = true}>
# CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>):
# CHECK: stablehlo.compare EQ, %[[X]], %[[ZERO:.*]], FLOAT
# CHECK: stablehlo.compare NE, %[[X]], %[[X]], FLOAT
# CHECK: stablehlo.compare NE, %[[Y]], %[[Y]], FLOAT
# CHECK: stablehlo.compare LT, {{.*}}, TOTALORDER
@print_ir("float32[8]", "int32[8]")
def sort_pairs(x, y):
    return lax.sort((x, y), num_keys=1)


# CHECK-LABEL: TEST: best float32[8]
# CHECK: chlo.top_k(%arg0, k = 2) : tensor<8xf32> -> (tensor<2xf32>, tensor<2xi32>)
@print_ir("float32[8]")
def best(x):
    return lax.top_k(x, 2)


# CHECK-LABEL: TEST: batched_product float32[8,3] float32[8,3,2]
# CHECK: stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT]
@print_ir("float32[8,3]", "float32[8,3,2]")
def batched_product(x, y):
    return jnp.einsum("bi,bij->bj", x, y)


# CHECK-LABEL: TEST: exact_product bfloat16[4,3] bfloat16[3,2]
# CHECK: stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
# CHECK-SAME: (tensor<4x3xbf16>, tensor<3x2xbf16>) -> tensor<4x2xf32>
@print_ir("bfloat16[4,3]", "bfloat16[3,2]")
def exact_product(x, y):
    return jnp.dot(x, y, precision="highest", preferred_element_type=jnp.float32)


# CHECK-LABEL: TEST: convolution float32[1,3,8,8] float32[4,3,3,3]
# CHECK: stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]
# CHECK-SAME: stride = [1, 1], pad = {{\[}}[1, 1], [1, 1]]
# CHECK-SAME: feature_group_count = 1
@print_ir("float32[1,3,8,8]", "float32[4,3,3,3]")
def convolution(x, kernel):
    return lax.conv(x, kernel, (1, 1), "SAME")
