"""What functions and their transformations are traced to."""

# RUN: env JAX_NUM_CPU_DEVICES=8 %python %s | %filecheck %s

from printing import print_jaxpr

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


# CHECK-LABEL: TEST: gradient float32[]
# CHECK: { lambda ; [[X:.]]:f32[]. let
# CHECK: [[COS:.]]:f32[] = cos [[X]]
# CHECK: mul {{.*}} [[COS]]
# CHECK: [[SUM:.]]:f32[] = add_any
# CHECK: in ([[SUM]],) }
@print_jaxpr("float32[]")
def gradient(x):
    return jax.grad(lambda y: jnp.sin(y) * y)(x)


# CHECK-LABEL: TEST: tangent float32[]
# CHECK: [[Y:.]]:f32[] = tanh [[X:.]]
# CHECK: sub 1.0:f32[] [[Y]]
@print_jaxpr("float32[]")
def tangent(x):
    return jax.jvp(jnp.tanh, (x,), (x,))


# CHECK-LABEL: TEST: batched_product float32[3,4]
# CHECK: dot_general[
# CHECK-NEXT: dimension_numbers=(([1], [1]), ([0], [0]))
@print_jaxpr("float32[3,4]")
def batched_product(x):
    return jax.vmap(lambda row: row @ row)(x)


# CHECK-LABEL: TEST: scan float32[4]
# CHECK: [[LAST:.]]:f32[] [[OUTS:.]]:f32[4] = scan[
# CHECK: length=4
# CHECK-NEXT: num_carry=1
# CHECK-NEXT: num_consts=0
# CHECK: in ([[LAST]], [[OUTS]]) }
@print_jaxpr("float32[4]")
def scan(xs):
    return lax.scan(lambda c, x: (c + x, c * x), 0.0, xs)


# CHECK-LABEL: TEST: while_loop float32[]
# CHECK: while[
# CHECK-NEXT: body_jaxpr={ lambda ; {{.*}} mul
# CHECK-NEXT: body_nconsts=0
# CHECK-NEXT: cond_jaxpr={ lambda ; {{.*}} lt
@print_jaxpr("float32[]")
def while_loop(x):
    return lax.while_loop(lambda c: c < 3, lambda c: c * 2, x)


# The branch of a true condition is the second.
# CHECK-LABEL: TEST: cond bool[] float32[]
# CHECK: cond[
# CHECK-NEXT: branches=(
# CHECK-NEXT: { lambda ; [[X:.]]:f32[]. let in ([[X]],) }
# CHECK-NEXT: {{.*}} sin
@print_jaxpr("bool[]", "float32[]")
def cond(p, x):
    return lax.cond(p, jnp.sin, lambda y: y, x)


# CHECK-LABEL: TEST: jitted float32[2,3]
# CHECK: jit[
# CHECK-NEXT: name=transposed
# CHECK: transpose[permutation=(1, 0)]
@print_jaxpr("float32[2,3]")
def jitted(x):
    @jax.jit
    def transposed(y):
        return y.T

    return transposed(x)


# CHECK-LABEL: TEST: custom_rule float32[]
# CHECK: custom_vjp_call[
# CHECK-NEXT: name=clipped
@print_jaxpr("float32[]")
def custom_rule(x):
    @jax.custom_vjp
    def clipped(x):
        return jnp.sin(x)

    clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (jnp.clip(ct, -1, 1),))
    return clipped(x)


# CHECK-LABEL: TEST: shard_map float32[8,8]
# CHECK: [[OUT:.]]:f32[2,8] = shard_map[
# CHECK: in_specs=(P('x', 'y'),)
# CHECK: c:f32[2,4]{V:(x,y)}
# CHECK-NEXT: d:f32[2,4]{V:y} = psum_invariant[axes=('x',)] c
@print_jaxpr("float32[8,8]")
def shard_map(x):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    @jax.shard_map(mesh=mesh, in_specs=P("x", "y"), out_specs=P(None, "y"))
    def run(x):
        return lax.psum(x, "x")

    return run(x)


# CHECK-LABEL: TEST: refs float32[4]
# CHECK: [[REF:.]]:Ref{f32[4]} = new_ref
# CHECK-NEXT: [[REF]][1] <- 3.0:f32[]
# CHECK-NEXT: [[OLD:.]]:f32[2] <- [[REF]][2:]
# CHECK-NEXT: [[NEW:.]]:f32[2] = add [[OLD]] 1.0:f32[]
# CHECK-NEXT: [[REF]][2:] <- [[NEW]]
@print_jaxpr("float32[4]")
def refs(x):
    ref = jax.new_ref(x)
    ref[1] = 3.0
    ref[2:] += 1
    return ref[...]


# CHECK-LABEL: TEST: effects float32[]
# CHECK: debug_print[
# CHECK-NEXT: fmt=x is {}
# CHECK: ] a
@print_jaxpr("float32[]")
def effects(x):
    jax.debug.print("x is {}", x)
    return x
