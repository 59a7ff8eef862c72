"""Operations for GPUs, forward and backward, compiled by Triton for two generations."""

from pathlib import Path

import pytest

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.experimental.pallas.ops.gpu import (
    attention,
    decode_attention,
    layer_norm,
    paged_attention,
    softmax,
)

pytestmark = pytest.mark.aot("cuda")

BLOCKS = attention.BlockSizes(16, 16, 16, 16, 16, 16)


def like(*shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


def derivatives(f):
    return jax.grad(lambda *args: f(*args).astype(jnp.float32).sum(), (0, 1, 2))


def mha(q, k, v):
    ids = jnp.arange(q.shape[1])[None] // 16
    return attention.mha(q, k, v, ids, causal=True, block_sizes=BLOCKS)


def decode(q, k, v):
    return decode_attention.gqa(q, k, v, 3, 35, block_k=16, k_splits=2)


def page(q, k, v):
    tables = jnp.zeros((1, 4), jnp.int32)
    return paged_attention.paged_attention(
        q, k, v, tables, jnp.full(1, 50), pages_per_compute_block=1, attn_logits_soft_cap=2.0
    )


OPERATIONS = {
    "attention": (derivatives(mha), [like(1, 40, 2, 16), *[like(1, 40, 1, 16)] * 2], 3),
    "layer_norm": (derivatives(layer_norm.layer_norm), [like(3, 100), like(100), like(100)], 3),
    "decoding": (decode, [like(1, 2, 16), *[like(1, 40, 1, 16)] * 2], 1),
    "paging": (page, [like(1, 2, 16), *[like(1, 3, 16, 16)] * 2], 1),
    "derivative of decoding": (derivatives(decode), [like(1, 2, 16), *[like(1, 40, 1, 16)] * 2], 2),
    "derivative of paging": (derivatives(page), [like(1, 2, 16), *[like(1, 3, 16, 16)] * 2], 2),
    "softmax": (softmax.softmax, [like(3, 100)], 1),
}


@pytest.mark.parametrize(
    "name, device", [*[(n, "h100") for n in OPERATIONS], ("attention", "a100")]
)
def test_compiles(name, device):
    config = (Path(__file__).parent / "testdata" / f"{device}.textproto").read_text()
    topology = topologies.get_topology_desc(device, "cuda", target_config=config, topology="1x1x1")
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    f, args, kernels = OPERATIONS[name]
    args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
    lowered = jax.jit(f).lower(*args)
    assert lowered.as_text().count("stablehlo.custom_call @__gpu$xla.gpu.triton") == kernels
    assert lowered.compile().memory_analysis().output_size_in_bytes > 0
