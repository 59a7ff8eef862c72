"""Operations of kernels for one vendor's devices, and functions of one vendor's library."""

# RUN: %python %s | %filecheck %s

from printing import print_jaxpr

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plmgpu, tpu as pltpu, triton as plgpu
from jax.experimental.sparse import linalg


# CHECK-LABEL: TEST: rolled float32[8,128]
# CHECK: [[X:.]]:f32[8,128] <- {{.}}[...]
# CHECK-NEXT: roll[axis=1 stride=None stride_axis=None] [[X]] 3:i32[]
@print_jaxpr("float32[8,128]")
def rolled(x):
    def kernel(x_ref, y_ref):
        y_ref[...] = pltpu.roll(x_ref[...], 3, 1)

    return pl.pallas_call(kernel, out_shape=x, name="rolled")(x)


# CHECK-LABEL: TEST: copied float32[8,128]
# CHECK: [[FROM:.]]:Ref<any>{f32[8,128]} [[TO:.]]:Ref<any>{f32[8,128]} [[DONE:.]]:Ref<semaphore_mem>{dma_sem[]}
# CHECK-NEXT: dma_start [[FROM]][...] -> [[TO]][...] [[DONE]][...]
# CHECK-NEXT: dma_wait [[TO]][...] [[DONE]][...]
@print_jaxpr("float32[8,128]")
def copied(x):
    def kernel(x_ref, y_ref, semaphore):
        copy = pltpu.make_async_copy(x_ref, y_ref, semaphore)
        copy.start()
        copy.wait()

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    scratch = [pltpu.SemaphoreType.DMA]
    return pl.pallas_call(
        kernel,
        out_shape=x,
        in_specs=[anywhere],
        out_specs=anywhere,
        scratch_shapes=scratch,
        name="copied",
    )(x)


# CHECK-LABEL: TEST: counted float32[128]
# CHECK: [[X:.]]:f32[] <- {{.}}[0]
# CHECK-NEXT: atomic_rmw[
# CHECK-NEXT: kind=Atomic.ADD
@print_jaxpr("float32[128]")
def counted(x):
    def kernel(x_ref, y_ref):
        plgpu.atomic_add(y_ref, (0,), x_ref[0])

    return pl.pallas_call(kernel, out_shape=x, name="counted")(x)


# CHECK-LABEL: TEST: laid_out bfloat16[64,64]
# CHECK: [[X:.]]:bf16[64,64] <- {{.}}[...]
# CHECK-NEXT: layout_cast[new_layout=Layout.WGMMA] [[X]]
@print_jaxpr("bfloat16[64,64]")
def laid_out(x):
    def kernel(x_ref, y_ref):
        y_ref[...] = plmgpu.layout_cast(x_ref[...], plmgpu.Layout.WGMMA)

    return plmgpu.kernel(kernel, out_type=x)(x)


# CHECK-LABEL: TEST: attention bfloat16[2,8,4,64] bfloat16[2,8,4,64] bfloat16[2,8,4,64]
# CHECK: cudnn_attention[
# CHECK-NEXT: options=Options(scale=0.125, mask_type='NO_MASK'
@print_jaxpr("bfloat16[2,8,4,64]", "bfloat16[2,8,4,64]", "bfloat16[2,8,4,64]")
def attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, implementation="cudnn")


# CHECK-LABEL: TEST: spsolve float32[4] int32[4] int32[5] float32[4]
# CHECK: :f32[4] = spsolve[reorder=1 tol=1e-06]
@print_jaxpr("float32[4]", "int32[4]", "int32[5]", "float32[4]")
def spsolve(data, indices, rows, b):
    return linalg.spsolve(data, indices, rows, b)
