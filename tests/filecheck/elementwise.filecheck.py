"""Elementwise functions, which become one operation each, and operands of different shapes and types."""

# RUN: %python %s | %filecheck %s

from printing import print_ir

import jax
import jax.numpy as jnp
from jax import lax

for function in (lax.neg, lax.sin, lax.exp, lax.log1p, lax.erf, lax.bessel_i1e, lax.is_finite):
    print_ir("float32[7]")(function)
# CHECK-LABEL: TEST: neg float32[7]
# CHECK: func.func public @main(%arg0: tensor<7xf32>) -> (tensor<7xf32>
# CHECK-NEXT: %0 = stablehlo.negate %arg0 : tensor<7xf32>
# CHECK-NEXT: return %0
# CHECK-LABEL: TEST: sin float32[7]
# CHECK: %0 = stablehlo.sine %arg0 : tensor<7xf32>
# CHECK-LABEL: TEST: exp float32[7]
# CHECK: stablehlo.exponential
# CHECK-LABEL: TEST: log1p float32[7]
# CHECK: stablehlo.log_plus_one
# CHECK-LABEL: TEST: erf float32[7]
# CHECK: chlo.erf %arg0 : tensor<7xf32> -> tensor<7xf32>
# CHECK-LABEL: TEST: bessel_i1e float32[7]
# CHECK: chlo.bessel_i1e %arg0
# CHECK-LABEL: TEST: is_finite float32[7]
# CHECK: stablehlo.is_finite %arg0 : (tensor<7xf32>) -> tensor<7xi1>

for function in (lax.add, lax.div, lax.max, lax.bitwise_xor, lax.shift_right_logical, lax.lt):
    print_ir("int32[7]", "int32[7]")(function)
# CHECK-LABEL: TEST: add int32[7] int32[7]
# CHECK: stablehlo.add %arg0, %arg1 : tensor<7xi32>
# CHECK-LABEL: TEST: div int32[7] int32[7]
# CHECK: stablehlo.divide %arg0, %arg1 : tensor<7xi32>
# CHECK-LABEL: TEST: max int32[7] int32[7]
# CHECK: stablehlo.maximum %arg0, %arg1 : tensor<7xi32>
# CHECK-LABEL: TEST: bitwise_xor int32[7] int32[7]
# CHECK: stablehlo.xor %arg0, %arg1 : tensor<7xi32>
# CHECK-LABEL: TEST: shift_right_logical int32[7] int32[7]
# CHECK: stablehlo.shift_right_logical %arg0, %arg1 : tensor<7xi32>
# CHECK-LABEL: TEST: lt int32[7] int32[7]
# CHECK: stablehlo.compare LT, %arg0, %arg1, SIGNED


# CHECK-LABEL: TEST: add_rows float32[2,3] float32[3]
# CHECK: %[[ROW:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
# CHECK-NEXT: %[[ROWS:.*]] = stablehlo.broadcast_in_dim %[[ROW]], dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
# CHECK-NEXT: stablehlo.add %arg0, %[[ROWS]] : tensor<2x3xf32>
@print_ir("float32[2,3]", "float32[3]")
def add_rows(x, y):
    return x + y


# CHECK-LABEL: TEST: promote bfloat16[3] float32[3]
# CHECK: %[[X:.*]] = stablehlo.convert %arg0 : (tensor<3xbf16>) -> tensor<3xf32>
# CHECK-NEXT: stablehlo.multiply %[[X]], %arg1 : tensor<3xf32>
@print_ir("bfloat16[3]", "float32[3]")
def promote(x, y):
    return x * y


# A Python number takes the array's type.
# CHECK-LABEL: TEST: weak bfloat16[3]
# CHECK: stablehlo.constant dense<2.000000e+00> : tensor<bf16>
# CHECK-NOT: stablehlo.convert
# CHECK: stablehlo.multiply %arg0, {{.*}} : tensor<3xbf16>
@print_ir("bfloat16[3]")
def weak(x):
    return x * 2.0


# CHECK-LABEL: TEST: choose bool[3] float32[3]
# CHECK: %[[ZEROS:.*]] = stablehlo.broadcast_in_dim {{.*}} -> tensor<3xf32>
# CHECK: stablehlo.select %arg0, %arg1, %[[ZEROS]] : tensor<3xi1>, tensor<3xf32>
@print_ir("bool[3]", "float32[3]")
def choose(p, x):
    return jnp.where(p, x, 0)


# CHECK-LABEL: TEST: bits float32[3]
# CHECK: stablehlo.bitcast_convert %arg0 : (tensor<3xf32>) -> tensor<3xi32>
@print_ir("float32[3]")
def bits(x):
    return lax.bitcast_convert_type(x, jnp.int32)


# CHECK-LABEL: TEST: slope float32[3]
# CHECK: stablehlo.cosine %arg0 : tensor<3xf32>
# CHECK-NOT: stablehlo.sine
# CHECK: return
@print_ir("float32[3]")
def slope(x):
    return jax.vjp(jnp.sin, x)[1](x)
