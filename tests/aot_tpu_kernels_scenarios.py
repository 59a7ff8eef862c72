"""Operations for TPUs, forward and backward, compiled for a v5e: how much vector memory each of their kernels takes.

The reference build compiles its ragged paged attention only where there is a TPU.
"""

import json
import re

from kernel_resources import Operations, like

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu import matmul
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.megablox import gmm
from jax.experimental.pallas.ops.tpu.paged_attention import (
    paged_attention,
    quantization_utils as quantization,
)
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as splash,
    splash_attention_mask as masks,
)

BF16, INT = jnp.bfloat16, jnp.int32


def resources(f, *args):
    """Vector memory, in bytes, of the kernel that takes most, and memory for what is between kernels."""
    compiled = jax.jit(f).lower(*args).compile()
    text = compiled.as_text()
    # A kernel's metadata may have lines of its own.
    kernels = re.findall(
        r'"tpu_custom_call".*?"used_scoped_memory_configs":(\[.*?\])', text, re.DOTALL
    )
    sizes = [c for k in kernels for c in json.loads(k) if c["memory_space"] == "1"]
    assert len(sizes) == text.count('custom_call_target="tpu_custom_call"')
    vmem = max(int(c["size"]) for c in sizes)
    return {"vmem": vmem, "temp": compiled.memory_analysis().temp_size_in_bytes}


CASES = Operations("v5e:2x2", resources)
case = CASES.operation


@case(*[like(2, 4, 512, 128)] * 3, derivative=True)
def flash(q, k, v):
    return flash_attention(q, k, v, causal=True)


@case(*[like(4, 512, 128)] * 3, derivative=True)
def splash_mha(q, k, v):
    mask = masks.MultiHeadMask([masks.CausalMask((512, 512))] * 4)
    names = "q kv kv_compute q_dkv kv_dkv kv_dkv_compute q_dq kv_dq".split()
    sizes = splash.BlockSizes(**{f"block_{name}": 128 for name in names})
    return splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=sizes)(q, k, v)


PAGED = like(8, 8, 128), like(8, dtype=INT), like(8, 16, dtype=INT)


@case(*[PAGED[0], *[like(2, 64, 16, 128)] * 2, *PAGED[1:]])
def paged(q, k, v, lengths, pages):
    return paged_attention(q, k, v, lengths, pages, pages_per_compute_block=4)


@case(*[PAGED[0], *[like(2, 64, 16, 128)] * 2, *PAGED[1:]])
def paged_by_grid(q, k, v, lengths, pages):
    return paged_attention(q, k, v, lengths, pages, pages_per_compute_block=4, inline_seq_dim=False)


@case(*[PAGED[0], *[like(2, 64, 32, 128, dtype=jnp.int8), like(2, 64, 32, 1, dtype=jnp.float32)] * 2, *PAGED[1:]])  # fmt: skip
def paged_quantized(q, k, k_scales, v, v_scales, lengths, pages):
    k, v = quantization.QuantizedTensor(k, k_scales), quantization.QuantizedTensor(v, v_scales)
    return paged_attention(q, k, v, lengths, pages, pages_per_compute_block=4)


@case(like(512, 256), like(4, 256, 384), like(4, dtype=INT), derivative=True)
def grouped(rows, matrices, sizes):
    return gmm(rows, matrices, sizes, BF16)


@case(like(512, 512), like(512, 512))
def product(x, y):
    return matmul.matmul(x, y, block_shape=(256, 256))
