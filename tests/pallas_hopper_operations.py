"""Operations of the library for Hopper GPUs, with the types of their arguments."""

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu, hopper_mixed_type_matmul_mgpu
from jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu import MatmulDimension, TuningConfig

f16, bf16, f32 = jnp.float16, jnp.bfloat16, jnp.float32
M, N = MatmulDimension


def like(*shape, dtype=f16):
    return jax.ShapeDtypeStruct(shape, dtype)


def matmul(**options):
    config = TuningConfig(tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=4, **options)
    return lambda a, b, c=None: hopper_matmul_mgpu.matmul(a, b, c, config)


def mixed(a, b):
    config = TuningConfig(tile_m=64, tile_n=128, tile_k=64, max_concurrent_steps=4)
    out = dict(out_dtype=b.dtype, config=config)
    return hopper_mixed_type_matmul_mgpu.mixed_matmul_kernel(a, b, **out)


A, B, C = like(256, 256, dtype=bf16), like(256, 512, dtype=bf16), like(256, 512, dtype=f32)
OPERATIONS = {
    "matmul": (matmul(), [A, B]),
    "matmul_rows": (matmul(wg_dimension=M), [A, B]),
    "matmul_cluster": (matmul(cluster_dimension=M), [A, B]),
    "matmul_added": (matmul(), [A, B, B]),
    "mixed": (mixed, [like(256, 256, dtype=jnp.int8), B]),
    "mixed_float8": (mixed, [like(256, 256, dtype=jnp.float8_e4m3fn), like(256, 512)]),
    "mixed_uint8": (mixed, [like(256, 256, dtype=jnp.uint8), B]),
}
