"""Programs of several devices: shardings, and collectives of shard_map."""

# RUN: env JAX_NUM_CPU_DEVICES=8 %python %s | %filecheck %s

from printing import print_ir

import jax
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


# CHECK-LABEL: TEST: constraint float32[8,8]
# CHECK: mhlo.num_partitions = 8
# CHECK: sdy.mesh @mesh = <["x"=4, "y"=2]>
# CHECK: sdy.sharding_constraint %{{.*}} <@mesh, {{\[}}{"x"}, {}]> : tensor<8x8xf32>
@print_ir("float32[8,8]")
def constraint(x):
    return lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("x", None)))


# CHECK-LABEL: TEST: shardings_of_jit float32[8,8]
# CHECK: func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, {{\[}}{"y"}, {}]>}) -> (tensor<8x8xf32>
# CHECK-SAME: sdy.sharding = #sdy.sharding<@mesh, {{\[}}{}, {"x", "y"}]>
@print_ir(
    "float32[8,8]",
    in_shardings=NamedSharding(mesh, P("y")),
    out_shardings=NamedSharding(mesh, P(None, ("x", "y"))),
)
def shardings_of_jit(x):
    return x


# CHECK-LABEL: TEST: psum float32[8,8]
# CHECK: sdy.manual_computation(%arg0)
# CHECK-SAME: in_shardings=[<@mesh, {{\[}}{"x"}, {"y"}]>] out_shardings=[<@mesh, {{\[}}{}, {"y"}]>] manual_axes={"x", "y"}
# CHECK-SAME: (%[[SHARD:.*]]: tensor<2x4xf32>)
# CHECK-NEXT: "stablehlo.all_reduce"(%[[SHARD]])
# CHECK-SAME: replica_groups = dense<{{\[}}[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids
# CHECK: stablehlo.add
@print_ir("float32[8,8]")
def psum(x):
    @jax.shard_map(mesh=mesh, in_specs=P("x", "y"), out_specs=P(None, "y"))
    def run(x):
        return lax.psum(x, "x")

    return run(x)


# CHECK-LABEL: TEST: partly_manual float32[8]
# CHECK: sdy.manual_computation{{.*}}manual_axes={"x"}
# CHECK: "stablehlo.all_gather"
# CHECK-SAME: all_gather_dim = 0
@print_ir("float32[8]")
def partly_manual(x):
    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P(), axis_names={"x"}, check_vma=False)
    def run(x):
        return lax.all_gather(x, "x", tiled=True)

    return run(x)


# CHECK-LABEL: TEST: ring float32[8]
# CHECK: "stablehlo.collective_permute"
# CHECK-SAME: source_target_pairs = dense<{{\[}}[0, 2], [2, 4], [4, 6], [6, 0], [1, 3], [3, 5], [5, 7], [7, 1]]>
@print_ir("float32[8]")
def ring(x):
    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def run(x):
        return lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)])

    return run(x)


# CHECK-LABEL: TEST: all_to_all float32[8,8]
# CHECK: "stablehlo.all_to_all"
# CHECK-SAME: concat_dimension = 0 : i64
# CHECK-SAME: split_count = 4 : i64, split_dimension = 1 : i64
@print_ir("float32[8,8]")
def all_to_all(x):
    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P(None, "x"))
    def run(x):
        return lax.all_to_all(x, "x", split_axis=1, concat_axis=0, tiled=True)

    return run(x)


# The transpose of a sum is a broadcast: no device sends anything.
# CHECK-LABEL: TEST: gradient_of_psum float32[8]
# CHECK: sdy.manual_computation
# CHECK-NOT: all_reduce
# CHECK: return
@print_ir("float32[8]")
def gradient_of_psum(x):
    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P())
    def run(x):
        return lax.psum(x.sum(), "x")

    return jax.grad(run)(x)
