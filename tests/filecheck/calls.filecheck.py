"""Operations that call functions, or mark values and functions for transformations, the compiler or the devices."""

# RUN: env JAX_NUM_CPU_DEVICES=8 %python %s | %filecheck %s

import numpy as np
from printing import print_ir, print_jaxpr

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import checkify, xla_metadata
from jax.experimental.compute_on import compute_on
from jax.experimental.custom_partitioning import custom_partitioning as partitioned
from jax.experimental.layout import Layout, with_layout_constraint
from jax.experimental.shard_alike import shard_alike
from jax.sharding import AxisType, PartitionSpec as P


# CHECK-LABEL: TEST: checkpoint float32[3]
# CHECK: remat2[
# CHECK: [[WAVE:.]]:f32[3] = sin
# CHECK-NEXT: name[name=wave] [[WAVE]]
# CHECK: prevent_cse=True
@print_jaxpr("float32[3]")
def checkpoint(x):
    return jax.checkpoint(lambda y: checkpoint_name(jnp.sin(y), "wave"))(x)


# CHECK-LABEL: TEST: batching_rule float32[3]
# CHECK: custom_vmap_call[
# CHECK-NEXT: call={ lambda ; {{.*}} mul 2.0:f32[]
@print_jaxpr("float32[3]")
def batching_rule(x):
    @jax.custom_batching.custom_vmap
    def doubled(y):
        return 2 * y

    doubled.def_vmap(lambda size, batched, y: (doubled(y), True))
    return doubled(x)


# CHECK-LABEL: TEST: transposed_call float32[3]
# CHECK: linear_call[
# CHECK: num_res=1
@print_jaxpr("float32[3]")
def transposed_call(x):
    return jax.custom_derivatives.linear_call(lambda r, y: r * y, lambda r, ct: r * ct, 2.0, x)


# CHECK-LABEL: TEST: top_k float32[4]
# CHECK: stablehlo.custom_call @ApproxTopK(%arg0
# CHECK-SAME: called_computations = {{\[}}@[[ORDER:.*]]], mhlo.backend_config = {aggregate_to_topk = true
# CHECK: func.func @[[ORDER]](
# CHECK: stablehlo.compare GT
@print_ir("float32[4]")
def top_k(x):
    return lax.approx_max_k(x, 2)


# CHECK-LABEL: TEST: composite float32[3]
# CHECK: stablehlo.composite "jax.wave" %arg0
# CHECK-SAME: scale = 2.000000e+00 : f32
# CHECK-SAME: version = 1
@print_ir("float32[3]")
def composite(x):
    return lax.composite(lambda y, scale: jnp.sin(y) * scale, "jax.wave", version=1)(
        x, scale=np.float32(2)
    )


# CHECK-LABEL: TEST: layout float32[4,4]
# CHECK: stablehlo.custom_call @LayoutConstraint(
# CHECK-SAME: result_layouts = [dense<[0, 1]> : tensor<2xindex>]
@print_ir("float32[4,4]")
def layout(x):
    return with_layout_constraint(x * 2, Layout((1, 0)))


# CHECK-LABEL: TEST: alike float32[4] float32[4]
# CHECK: sdy.sharding_group %arg0 group_id=[[ID:.*]] : tensor<4xf32>
# CHECK-NEXT: sdy.sharding_group %arg1 group_id=[[ID]] : tensor<4xf32>
@print_ir("float32[4]", "float32[4]")
def alike(x, y):
    return shard_alike(x, y)


# CHECK-LABEL: TEST: on_the_host float32[4]
# CHECK: stablehlo.add %arg0, {{.*}} {mhlo.frontend_attributes = {_xla_compute_type = "host"}}
@print_ir("float32[4]")
def on_the_host(x):
    return compute_on("device_host")(jax.jit(lambda y: y + 1))(x)


# CHECK-LABEL: TEST: metadata float32[4]
# CHECK: stablehlo.sine %arg0 {mhlo.frontend_attributes = {kind = "a"}}
@print_ir("float32[4]")
def metadata(x):
    with xla_metadata.set_xla_metadata(kind="a"):
        return jnp.sin(x)


# CHECK-LABEL: TEST: check float32[4]
# CHECK: [[FAILS:.]]:bool[] = not
# CHECK-NEXT: check[debug=False] [[FAILS]] 0:i32[]
@print_jaxpr("float32[4]")
def check(x):
    checkify.check(x[0] > 0, "negative: {}", x[0])
    return x


# CHECK-LABEL: TEST: callbacks float32[4]
# CHECK: debug_callback[
# CHECK: pure_callback[
@print_jaxpr("float32[4]")
def callbacks(x):
    jax.debug.callback(lambda y: None, x)
    return jax.pure_callback(np.sin, x, x)


# CHECK-LABEL: TEST: moved float32[4]
# CHECK: %[[X:.*]] = stablehlo.multiply
# CHECK-NEXT: return %[[X]]
@print_ir("float32[4]")
def moved(x):
    return jax.device_put(x * 2, jax.devices()[0])


# CHECK-LABEL: TEST: partitioned_call float32[4]
# CHECK: stablehlo.sine %arg0
@print_ir("float32[4]")
def partitioned_call(x):
    call = partitioned(lambda y: jnp.sin(y))
    call.def_partition(
        partition=lambda mesh, args, out: (mesh, jnp.sin, args[0].sharding, (args[0].sharding,)),
        infer_sharding_from_operands=lambda mesh, args, out: args[0].sharding,
        sharding_rule="i -> i",
    )
    return call(x)


exported = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((3,), "float32"))


# CHECK-LABEL: TEST: call_exported float32[3]
# CHECK: call @call_exported_sin(%arg0)
# CHECK: func.func private @call_exported_sin
# CHECK: stablehlo.sine
@print_ir("float32[3]")
def call_exported(x):
    return exported.call(x)


# CHECK-LABEL: TEST: positions float32[3] float32[2]
# CHECK: = scan[
# CHECK: length=2
@print_jaxpr("float32[3]", "float32[2]")
def positions(x, y):
    return jnp.searchsorted(x, y)


mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))


# CHECK-LABEL: TEST: reshard float32[8]
# CHECK: :f32[8@x] = reshard
@print_jaxpr("float32[8]")
def reshard(x):
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        return jax.sharding.reshard(x, P("x"))
