"""Operations of the library for Hopper GPUs, with the types of their arguments."""

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu import (
    attention_mgpu,
    hopper_matmul_mgpu,
    hopper_mixed_type_matmul_mgpu,
    ragged_dot_mgpu,
    transposed_ragged_dot_mgpu,
)
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


def gradient_of(f, *numbers):
    """The derivative by some arguments, of a sum of squares."""
    return jax.grad(lambda *args: (f(*args).astype(f32) ** 2).sum(), numbers)


OPERATIONS |= {
    "matmul_gradient": (gradient_of(matmul(), 0, 1), [A, B]),
    "matmul_cluster_gradient": (gradient_of(matmul(cluster_dimension=M), 0, 1), [A, B]),
    "matmul_added_gradient": (gradient_of(matmul(), 0, 1, 2), [A, B, B]),
    "mixed_gradient": (gradient_of(mixed, 1), [like(256, 256, dtype=jnp.int8), B]),
    "mixed_float8_gradient": (
        gradient_of(mixed, 0, 1), [like(256, 256, dtype=jnp.float8_e4m3fn), like(256, 512)],
    ),
}  # fmt: skip


def attention(block=64, **options):
    config = attention_mgpu.TuningConfig(block, block, 2, **options)
    return lambda q, k, v: attention_mgpu.attention(q, k, v, config)


def in_pipeline(q, k, v):
    config = attention_mgpu.TuningConfig(64, 64, 2)
    return attention_mgpu.attention_with_pipeline_emitter(q, k, v, config)


def gradient(**options):
    blocks = dict(block_q_dkv=64, block_kv_dkv=64, block_q_dq=64, block_kv_dq=64)
    f = attention(**blocks, **options)
    return lambda q, k, v: jax.vjp(f, q, k, v)[1](q)


def gradient_in_pipeline(q, k, v):
    blocks = dict(block_q_dkv=64, block_kv_dkv=64, block_q_dq=64, block_kv_dq=64)
    config = attention_mgpu.TuningConfig(64, 64, 2, **blocks)
    f = lambda *x: attention_mgpu.attention_with_pipeline_emitter(*x, config)
    return jax.vjp(f, q, k, v)[1](q)


QKV = [like(2, 512, 4, 64), like(2, 512, 2, 64), like(2, 512, 2, 64)]
WIDE = [like(2, 512, 4, 128, dtype=bf16), *[like(2, 512, 2, 128, dtype=bf16)] * 2]
OPERATIONS |= {
    "attention": (attention(), QKV),
    "attention_unordered": (attention(use_schedule_barrier=False), QKV),
    "attention_causal": (attention(causal=True), QKV),
    "attention_wide": (attention(128), WIDE),
    "attention_pipelined": (in_pipeline, QKV),
    "attention_gradient": (gradient(), QKV),
    "attention_pipelined_gradient": (gradient_in_pipeline, QKV),
    "attention_gradient_causal": (gradient(causal=True), QKV),
    "attention_gradient_wide": (gradient(compute_wgs_bwd=2), WIDE),
}


def ragged(transposed=False, **changes):
    options = (
        dict(block_m=64, block_n=64, block_k=64, max_concurrent_steps=2, grid_block_n=2) | changes
    )
    if transposed:
        call = transposed_ragged_dot_mgpu.transposed_ragged_dot
    else:
        call = ragged_dot_mgpu.ragged_dot
    return lambda x, y, sizes: call(x, y, group_sizes=sizes, **options)


SIZES = like(4, dtype=jnp.int32)
OPERATIONS |= {
    "ragged": (ragged(), [like(512, 128), like(4, 128, 256), SIZES]),
    "ragged_turned": (ragged(transpose_rhs=True), [like(512, 128), like(4, 256, 128), SIZES]),
    "ragged_odd": (
        ragged(block_m=192, block_n=128, load_group_sizes_to_register=False),
        [like(500, 128), like(4, 128, 200), SIZES],
    ),
    "ragged_transposed": (ragged(True), [like(128, 512), like(128, 256), SIZES]),
    "ragged_transposed_wide": (
        ragged(True, block_m=128, block_n=128), [like(100, 512, dtype=bf16), like(100, 256, dtype=bf16), SIZES],
    ),
}  # fmt: skip
OPERATIONS |= {
    "ragged_gradient": (gradient_of(ragged(), 0, 1), [like(512, 128), like(4, 128, 256), SIZES]),
    "ragged_odd_gradient": (
        gradient_of(ragged(block_n=128, transpose_rhs=True), 0, 1),
        [like(500, 128), like(4, 200, 128), SIZES],
    ),
    "ragged_transposed_gradient": (
        gradient_of(ragged(True), 0, 1), [like(100, 512), like(100, 256), SIZES],
    ),
}  # fmt: skip
