"""Loops and branches, and functions that are called."""

# RUN: %python %s | %filecheck %s

from printing import print_ir

import jax
import jax.numpy as jnp
from jax import lax


# CHECK-LABEL: TEST: while_loop float32[]
# CHECK: stablehlo.while(%[[X:.*]] = %arg0) : tensor<f32>
# CHECK-NEXT: cond {
# CHECK: stablehlo.compare LT, %[[X]], {{.*}}, FLOAT
# CHECK: } do {
# CHECK: stablehlo.multiply %[[X]]
@print_ir("float32[]")
def while_loop(x):
    return lax.while_loop(lambda c: c < 3, lambda c: c * 2, x)


# What the body reads is no part of what it passes on.
# CHECK-LABEL: TEST: fori_loop float32[]
# CHECK: stablehlo.while({{.*}}, %[[C:.*]] = %arg0)
# CHECK: stablehlo.multiply %[[C]], %arg0 : tensor<f32>
@print_ir("float32[]")
def fori_loop(x):
    return lax.fori_loop(0, 3, lambda i, c: c * x, x)


# CHECK-LABEL: TEST: scan float32[4]
# CHECK: %[[LOOP:.*]]:3 = stablehlo.while(%[[I:[^ ]*]] = %{{[^,]*}}, %[[SUM:[^ ]*]] = %{{[^,]*}}, %[[OUT:[^ ]*]] = %{{.*}}) : tensor<i32>, tensor<f32>, tensor<4xf32>
# CHECK: stablehlo.constant dense<4> : tensor<i32>
# CHECK: } do {
# CHECK: stablehlo.dynamic_slice %arg0, %[[I]], sizes = [1]
# CHECK: stablehlo.add %[[SUM]]
# CHECK: stablehlo.dynamic_update_slice %[[OUT]]
# CHECK: return %[[LOOP]]#1, %[[LOOP]]#2
@print_ir("float32[4]")
def scan(xs):
    return lax.scan(lambda c, x: (c + x, c * x), 0.0, xs)


# CHECK-LABEL: TEST: cond bool[] float32[]
# CHECK: %[[INDEX:.*]] = stablehlo.convert %arg0 : (tensor<i1>) -> tensor<i32>
# CHECK-NEXT: "stablehlo.case"(%[[INDEX]]) ({
# CHECK-NEXT: stablehlo.cosine %arg1
# CHECK: }, {
# CHECK-NEXT: stablehlo.sine %arg1
@print_ir("bool[]", "float32[]")
def cond(p, x):
    return lax.cond(p, jnp.sin, jnp.cos, x)


# A batched condition has both branches computed.
# CHECK-LABEL: TEST: batched_cond bool[3] float32[3]
# CHECK-NOT: stablehlo.case
# CHECK: stablehlo.select %{{.*}} : tensor<3xi1>, tensor<3xf32>
@print_ir("bool[3]", "float32[3]")
def batched_cond(p, x):
    return jax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))(p, x)


# A jitted function is lowered once, however often it is called.
# CHECK-LABEL: TEST: calls float32[4]
# CHECK: module @jit_calls
# CHECK: %[[ONCE:.*]] = call @double(%arg0)
# CHECK-NEXT: call @double(%[[ONCE]])
# CHECK: func.func private @double
# CHECK-NOT: func.func private
@print_ir("float32[4]")
def calls(x):
    @jax.jit
    def double(y):
        return y * 2

    return double(double(x))


# CHECK-LABEL: TEST: inlined float32[4]
# CHECK-NOT: call @
# CHECK: stablehlo.multiply
@print_ir("float32[4]")
def inlined(x):
    return jax.jit(lambda y: y * 2, inline=True)(x)


# CHECK-LABEL: TEST: donates float32[4] float32[4]
# CHECK: func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>)
@print_ir("float32[4]", "float32[4]", donate_argnums=0)
def donates(x, y):
    return x + y


# What the backward pass computes again stays apart from the forward pass.
# CHECK-LABEL: TEST: checkpoint float32[4]
# CHECK: stablehlo.optimization_barrier %arg0
# CHECK: stablehlo.cosine
@print_ir("float32[4]")
def checkpoint(x):
    return jax.grad(lambda x: jax.checkpoint(jnp.sin)(x).sum())(x)
