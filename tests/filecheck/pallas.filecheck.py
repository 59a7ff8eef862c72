"""Kernels: the calls of them, and the programs that they are for each compiler."""

# RUN: %python %s | %filecheck %s

from printing import print_ir, print_jaxpr

from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu, triton as plgpu


def scale(x_ref, y_ref):
    y_ref[...] = 2 * x_ref[...] + pl.program_id(0)


rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
options = {"grid": (4,), "in_specs": [rows], "out_specs": rows}


# CHECK-LABEL: TEST: call float32[32,128]
# CHECK: pallas_call[
# CHECK: grid_mapping=GridMapping(grid=(4,)
# CHECK: [[X:.]]:f32[8,128] <- {{.}}[...]
# CHECK: mul 2.0:f32[] [[X]]
# CHECK: program_id[axis=0]
# CHECK: name=scale
@print_jaxpr("float32[32,128]")
def call(x):
    return pl.pallas_call(scale, out_shape=x, name="scale", **options)(x)


# CHECK-LABEL: TEST: interpreted float32[32,128]
# CHECK: stablehlo.while
# CHECK: stablehlo.compare LT, %[[I:.*]], %{{.*}}, SIGNED
# CHECK: stablehlo.dynamic_slice %arg0, {{.*}}, sizes = [8, 128]
# CHECK: stablehlo.multiply
# CHECK: stablehlo.dynamic_update_slice {{.*}} : (tensor<32x128xf32>, tensor<8x128xf32>
@print_ir("float32[32,128]")
def interpreted(x):
    return pl.pallas_call(scale, out_shape=x, interpret=True, **options)(x)


# CHECK-LABEL: TEST: of_a_tpu float32[32,128]
# CHECK: stablehlo.custom_call @tpu_custom_call(%arg0)
# CHECK-SAME: custom_call_config
@print_ir("float32[32,128]", platform="tpu")
def of_a_tpu(x):
    params = pltpu.CompilerParams(dimension_semantics=("parallel",))
    return pl.pallas_call(scale, out_shape=x, name="scale", compiler_params=params, **options)(x)


# CHECK-LABEL: TEST: of_triton float32[32,128]
# CHECK: stablehlo.custom_call @__gpu$xla.gpu.triton(%arg0)
# CHECK-SAME: grid_x = 4 : i32, grid_y = 1 : i32, grid_z = 1 : i32
@print_ir("float32[32,128]", platform="cuda")
def of_triton(x):
    params = plgpu.CompilerParams(num_warps=2, num_stages=3)
    return pl.pallas_call(scale, out_shape=x, name="scale", compiler_params=params, **options)(x)
