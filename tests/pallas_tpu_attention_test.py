"""Attention by blocks for TPUs is what plain operations compute, and so are its derivatives."""

import functools

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.sharding import SingleDeviceSharding

BLOCKS = flash.BlockSizes(128, 128, 128, 1, 128, 128, 128, 128, 128, 128, 128)


def normal(*shape, dtype=jnp.float32, seed=0):
    return jnp.asarray(np.random.RandomState(seed).randn(*shape), dtype)


def plain(q, k, v, ab=None, ids=None, causal=False, sm_scale=1.0):
    q, k, v = [x.astype(jnp.float32) for x in (q, k, v)]
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * sm_scale
    s = s if ab is None else s + ab
    if ids is not None:
        s = jnp.where(ids.q[:, None, :, None] == ids.kv[:, None, None, :], s, -1e30)
    if causal:
        s = jnp.where(jnp.tri(*s.shape[2:], dtype=bool), s, -1e30)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(s, -1), v)


def segments(batch, num_q, num_kv):
    at = lambda n: jnp.broadcast_to(jnp.arange(n) // 50 % 2, (batch, n))
    return flash.SegmentIds(at(num_q), at(num_kv))


def with_derivatives(f, *args):
    @jax.jit
    def both(*args):
        out, pull = jax.vjp(f, *args)
        return out, *pull(jnp.cos(jnp.arange(out.size)).reshape(out.shape).astype(out.dtype))

    return both(*args)


def assert_close(found, wanted, dtype):
    tolerance = 5e-2 if dtype == jnp.bfloat16 else 2e-5
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        x, y = [np.asarray(z, np.float32) for z in (x, y)]
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * max(1, abs(y).max()))


def sizes(**changes):
    return flash.BlockSizes(**{**vars(BLOCKS), **changes})


# Of queries and keys: batches, heads, numbers and features.
@pytest.mark.parametrize(
    "shape, dtype, options, biased, segmented, blocks",
    [
        ((1, 2, 256, 256, 64), jnp.float32, dict(causal=True), False, False, None),
        ((2, 1, 128, 256, 32), jnp.float32, dict(sm_scale=0.5), True, True, None),
        ((2, 1, 256, 128, 32), jnp.float32, dict(causal=True, sm_scale=2), True, True, sizes(block_b=2)),
        ((1, 1, 128, 384, 8), jnp.float32, dict(causal=True), True, False, None),
        ((3, 1, 256, 512, 16), jnp.float32, dict(causal=True), False, True, sizes(block_b=2, block_q=256, block_k_major=256, block_q_major_dkv=256, block_q_dkv=64, block_k_major_dkv=256, block_k_major_dq=512)),
        ((1, 2, 256, 256, 64), jnp.bfloat16, dict(causal=True), True, False, None),
        ((1, 1, 40, 40, 24), jnp.float32, dict(causal=True), True, True, flash.BlockSizes(*[40] * 3, 1, *[40] * 7)),
    ],
)  # fmt: skip
def test_attention(shape, dtype, options, biased, segmented, blocks):
    batch, heads, num_q, num_kv, depth = shape
    q = normal(batch, heads, num_q, depth, dtype=dtype)
    k, v = [normal(batch, heads, num_kv, depth, dtype=dtype, seed=s) for s in (1, 2)]
    bias = [normal(batch, heads, num_q, num_kv, seed=3)] if biased else []
    ids = segments(batch, num_q, num_kv) if segmented else None
    call = lambda f, **options: lambda q, k, v, b=None: f(q, k, v, b, ids, **options)
    wanted = with_derivatives(call(plain, **options), q, k, v, *bias)
    with pltpu.force_tpu_interpret_mode(True):
        found = with_derivatives(
            call(flash.flash_attention, block_sizes=blocks, **options), q, k, v, *bias
        )
    assert_close(found, wanted, dtype)
    assert [x.dtype for x in found[:4]] == [dtype] * 4
    reference = with_derivatives(call(flash.mha_reference, **options), q, k, v, *bias)
    assert_close(reference, wanted, dtype)


def test_attention_where_memory_is_that_of_a_tpu():
    # 320 queries: the last block is cut off.
    q, k, v = normal(1, 1, 320, 64), normal(1, 1, 256, 64, seed=1), normal(1, 1, 256, 64, seed=2)
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams()):
        found = flash.flash_attention(q, k, v, causal=True)
    assert_close(found, plain(q, k, v, causal=True), jnp.float32)


def test_bias_of_minus_infinity():
    q, k, v = normal(1, 1, 128, 8), normal(1, 1, 256, 8, seed=1), normal(1, 1, 256, 8, seed=2)
    # No key of the first block is seen.
    bias = jnp.where(jnp.arange(256) < 150, -jnp.inf, 0.0) * jnp.ones((1, 1, 128, 1))

    def loss(attention, *args):
        return (attention(*args, bias) ** 2).sum()

    with pltpu.force_tpu_interpret_mode(True):
        found = jax.value_and_grad(loss, (1, 2, 3))(flash.flash_attention, q, k, v)
    wanted = jax.value_and_grad(loss, (1, 2, 3))(flash.mha_reference, q, k, v)
    jax.tree.map(lambda x, y: assert_close(x, y, jnp.float32), found, wanted)


def test_vmap_of_the_derivative():
    q, k, v = normal(2, 1, 1, 128, 8), normal(1, 1, 128, 8, seed=1), normal(1, 1, 2, 128, 8, seed=2)

    def loss(attention, *args):
        return (attention(*args) ** 2).sum()

    def batched(attention):
        derivative = jax.value_and_grad(functools.partial(loss, attention), (0, 1, 2))
        return jax.vmap(derivative, (0, None, 2))(q, k, v)

    with pltpu.force_tpu_interpret_mode(True):
        found = batched(flash.flash_attention)
    wanted = batched(lambda q, k, v: flash.mha_reference(q, k, v, None))
    jax.tree.map(lambda x, y: assert_close(x, y, jnp.float32), found, wanted)


def test_queries_without_keys_have_the_mean_of_values():
    q, k, v = [normal(1, 1, 128, 8, seed=s) for s in range(3)]
    ids = flash.SegmentIds(
        jnp.zeros((1, 128), jnp.int32).at[:, 5].set(7), jnp.zeros((1, 128), jnp.int32)
    )
    with pltpu.force_tpu_interpret_mode(True):
        out = flash.flash_attention(q, k, v, None, ids)
    assert_close(out[0, 0, 5], v[0, 0].mean(0), jnp.float32)
    assert_close(flash.mha_reference(q, k, v, None, ids)[0, 0, 5], v[0, 0].mean(0), jnp.float32)


X = jax.ShapeDtypeStruct((1, 2, 128, 64), jnp.float32)


def like(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


@pytest.mark.parametrize(
    "args, blocks, error, message",
    [
        ((X, like(2, 2, 128, 64), X), None, ValueError, "Batch size mismatch: got 1, 2 and 1"),
        ((X, X, like(1, 1, 128, 64)), None, ValueError, "Head count mismatch"),
        ((X, like(1, 2, 128, 32), X), None, ValueError, "Model dimension mismatch: got 64 and 32"),
        ((X, X, like(1, 2, 128, 32)), None, NotImplementedError, "number of features"),
        ((X, X, like(1, 2, 256, 64)), None, ValueError, "KV sequence length mismatch"),
        ((like(2, 128, 64), X, X), None, ValueError, "q should be"),
        ((X, X, X, like(1, 2, 128, 64)), None, ValueError, "Attention bias shape mismatch"),
        ((X, X, X, None, flash.SegmentIds(like(1, 64), like(1, 128))), None, ValueError, "Q segment ids"),
        ((X, X, X, None, flash.SegmentIds(like(1, 128), like(1, 64))), None, ValueError, "KV segment ids"),
        ((X, like(1, 2, 200, 64), like(1, 2, 200, 64)), None, ValueError, "kv_seq_len=200 should be divisible"),
        ((X, X, X), dict(block_q=256), ValueError, "block_q=256 should be smaller or equal to q_seq_len=128"),
        ((X, X, X), dict(block_b=2), ValueError, "block_b=2 should be smaller or equal to batch=1"),
        ((X, X, X), dict(block_k=64), NotImplementedError, "block_k=64 should be a multiple of 128"),
        ((X, X, X), dict(block_q_dq=None), ValueError, "not all backward blocks"),
        ((X, X, X), dict(block_k_major_dq=256), ValueError, "block_k_major_dq=256 should be smaller"),
        ((like(1, 2, 192, 64), X, X), None, ValueError, "q_seq_len=192 should be divisible by block_q_major_dkv"),
    ],
)  # fmt: skip
def test_errors(args, blocks, error, message):
    attention = functools.partial(flash.flash_attention, block_sizes=blocks and sizes(**blocks))
    with pytest.raises(error, match=message):
        jax.eval_shape(jax.grad(lambda *args: attention(*args).sum()), *args)


def test_block_sizes():
    assert flash.BlockSizes.get_default(1, 2, 128, 128, 64) == BLOCKS
    assert not flash.BlockSizes(128, 128, 128, 1).has_backward_blocks
    with pytest.raises(ValueError, match="block_k=256 should be smaller than block_k_major=128"):
        sizes(block_k=256)
    with pytest.raises(ValueError, match="block_k=128 should divide block_k_major=192"):
        sizes(block_k_major=192)
    assert flash.below_or_on_diag(0, 128, 1, 64) and not flash.below_or_on_diag(0, 128, 2, 64)


def attention_for(sharding):
    x = jax.ShapeDtypeStruct((1, 2, 512, 128), jnp.bfloat16, sharding=sharding)
    ab = jax.ShapeDtypeStruct((1, 2, 512, 512), jnp.float32, sharding=sharding)
    ids = flash.SegmentIds(*[jax.ShapeDtypeStruct((1, 512), jnp.int32, sharding=sharding)] * 2)
    blocks = sizes(block_q=256, block_k_major=256, block_q_major_dkv=256, block_k_major_dkv=256)

    def loss(q, k, v, ab, ids):
        out = flash.flash_attention(q, k, v, ab, ids, causal=True, block_sizes=blocks)
        return out.astype(jnp.float32).sum()

    return jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3))), (x, x, x, ab, ids)


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("name", ["v5e:2x2", "v6e:2x2"])
def test_attention_compiled(name):
    device = topologies.get_topology_desc(name, "tpu").devices[0]
    fun, args = attention_for(SingleDeviceSharding(device))
    assert fun.lower(*args).compile().as_text().count("tpu_custom_call") == 3
