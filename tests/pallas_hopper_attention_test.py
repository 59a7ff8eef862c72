"""Attention for Hopper GPUs: interpreted, it and its derivatives are what jnp computes."""

import dataclasses

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas.ops.gpu.attention_mgpu import (
    TuningConfig,
    attention,
    attention_reference,
    attention_with_pipeline_emitter,
)

f16, bf16, f32 = jnp.float16, jnp.bfloat16, jnp.float32
BLOCKS = dict(block_q_dkv=64, block_kv_dkv=64, block_q_dq=64, block_kv_dq=64)
CONFIG = TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2, **BLOCKS)
INTERPRET = plgpu.InterpretParams()


def arguments(q, k, dtype):
    """Queries of a shape, keys and values of another one."""
    rng = np.random.default_rng(0)
    arrays = [0.3 * rng.normal(size=q), rng.normal(size=k), rng.normal(size=k)]
    return [jnp.asarray(x, dtype) for x in arrays]


def close(got, want, dtype):
    scale = float(jnp.abs(want).max())
    tolerance = 0.002 if dtype == f16 else 0.015
    np.testing.assert_allclose(got.astype(f32) / scale, want / scale, atol=tolerance)


def plain(q, k, v, causal):
    """Attention and its logarithms of sums, written down once more."""
    q, k, v = [x.astype(f32) for x in (q, k, v)]
    k, v = [jnp.repeat(x, q.shape[2] // k.shape[2], 2) for x in (k, v)]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    if causal:
        scores = jnp.where(jnp.tri(*scores.shape[2:], dtype=bool), scores, -jnp.inf)
    out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return out, jax.nn.logsumexp(scores, -1) * np.log2(np.e)


@pytest.mark.parametrize("causal", [False, True])
def test_reference(causal):
    q, k, v = arguments((2, 8, 4, 16), (2, 12, 2, 16), f16)
    out, (lse,) = attention_reference(q, k, v, causal, True)
    assert out.dtype == lse.dtype == f32
    want_out, want_lse = plain(q, k, v, causal)
    np.testing.assert_allclose(out, want_out, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-5, atol=1e-5)
    again = attention_reference(q, k, v, causal)
    np.testing.assert_allclose(again, out, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "q, k, dtype, config",
    [
        ((2, 128, 2, 64), (2, 192, 1, 64), f16, CONFIG),
        ((1, 256, 1, 64), (1, 128, 1, 64), bf16, dataclasses.replace(CONFIG, causal=True)),
        (
            (1, 256, 1, 128), (1, 256, 1, 128), bf16,
            dataclasses.replace(CONFIG, causal=True, block_q=128, block_kv=128, max_concurrent_steps=3, use_schedule_barrier=False),
        ),
    ],
)  # fmt: skip
def test_is_attention(q, k, dtype, config):
    args = arguments(q, k, dtype)
    out, (lse,) = jax.jit(lambda *x: attention(*x, config, True, INTERPRET))(*args)
    assert out.dtype == dtype and lse.dtype == f32
    want, want_lse = plain(*args, config.causal)
    close(out, want, dtype)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("save", [False, True])
def test_is_attention_in_a_pipeline(save):
    q, k, v = arguments((1, 128, 2, 64), (1, 192, 1, 64), f16)
    got = attention_with_pipeline_emitter(q, k, v, CONFIG, save, interpret=INTERPRET)
    want, want_lse = plain(q, k, v, False)
    if save:
        got, (lse,) = got
        np.testing.assert_allclose(lse, want_lse, rtol=1e-5, atol=1e-5)
    close(got, want, f16)


@pytest.mark.parametrize(
    "q, k, dtype, changes",
    [
        ((1, 128, 2, 64), (1, 128, 1, 64), f16, {}),
        ((2, 128, 1, 64), (2, 256, 1, 64), f16, dict(causal=True, compute_wgs_bwd=2)),
        ((1, 256, 2, 64), (1, 128, 1, 64), bf16, dict(causal=True, block_kv_dkv=128, block_q_dq=128)),
    ],
)  # fmt: skip
def test_derivatives(q, k, dtype, changes):
    args = arguments(q, k, dtype)
    config = dataclasses.replace(CONFIG, **changes)
    ct = jnp.asarray(np.random.default_rng(1).normal(size=q), dtype)
    got = jax.vjp(lambda *x: attention(*x, config, interpret=INTERPRET), *args)[1](ct)
    wide = [x.astype(f32) for x in args]
    want = jax.vjp(lambda *x: plain(*x, config.causal)[0], *wide)[1](ct.astype(f32))
    for g, w in zip(got, want):
        assert g.dtype == dtype
        close(g, w, dtype)


def test_derivatives_of_sums():
    args = arguments((1, 128, 1, 64), (1, 64, 1, 64), f16)

    def loss(f):
        def run(*x):
            out, lse = f(*x)
            return (out.astype(f32) ** 2).sum() + jnp.sin(lse).sum()

        return run

    def ours(*x):
        out, (lse,) = attention(*x, CONFIG, True, INTERPRET)
        return out, lse

    got = jax.grad(loss(ours), (0, 1, 2))(*args)
    wide = [x.astype(f32) for x in args]
    want = jax.grad(loss(lambda *x: plain(*x, False)), (0, 1, 2))(*wide)
    for g, w in zip(got, want):
        close(g, w, f16)


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(block_q=96), "block_q=96 must be a multiple of 64"),
        (dict(block_kv=32), "block_kv=32 must be a multiple of 64"),
        (dict(block_kv_dq=0), "block_kv_dq=0 must be a multiple of 64"),
        (dict(max_concurrent_steps=1), "max_concurrent_steps=1 must be at least 2"),
        (dict(compute_wgs_bwd=0), "compute_wgs_bwd=0 must be positive"),
        (dict(block_q_dq=None), "must be all given or all None"),
    ],
)
def test_config_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, **changes)


def struct(*shape, dtype=f16):
    return jax.ShapeDtypeStruct(shape, dtype)


Q, K = struct(2, 256, 4, 64), struct(2, 256, 2, 64)
WITHOUT_BLOCKS = TuningConfig(64, 64, 2)


def gradient(config):
    return lambda *x: jax.grad(lambda *x: attention(*x, config).astype(f32).sum())(*x)


@pytest.mark.parametrize(
    "args, run, message",
    [
        ((struct(256, 4, 64), K, K), None, "arrays of shape .batch, length, heads, depth."),
        ((Q, K, struct(2, 256, 2, 64, dtype=bf16)), None, "one dtype, float16 or bfloat16, got float16, float16, bfloat16"),
        ([struct(*x.shape, dtype=f32) for x in (Q, K, K)], None, "one dtype, float16 or bfloat16, got float32"),
        ((Q, K, struct(2, 128, 2, 64)), None, "Keys and values of queries of shape"),
        ((Q, struct(1, 256, 2, 64), struct(1, 256, 2, 64)), None, "Keys and values of queries of shape"),
        ((struct(2, 256, 3, 64), K, K), None, "3 heads of queries cannot share 2 heads of keys"),
        ((struct(2, 256, 4, 48), struct(2, 256, 2, 48), struct(2, 256, 2, 48)), None, "depth=48 must be a multiple of 64"),
        ((struct(2, 192, 4, 64), K, K), None, "192 queries must be a multiple of twice block_q=64"),
        ((Q, struct(2, 100, 2, 64), struct(2, 100, 2, 64)), None, "100 keys must be a multiple of block_kv=64"),
        ((Q, K, K), gradient(WITHOUT_BLOCKS), "need sizes of blocks: give block_q_dkv"),
        ((Q, K, K), gradient(dataclasses.replace(CONFIG, compute_wgs_bwd=3)), r"queries=256 must be divisible by block_q_dq . compute_wgs_bwd=192"),
        ((Q, K, K), gradient(dataclasses.replace(CONFIG, block_kv_dkv=192)), "keys=256 must be divisible by block_kv_dkv=192"),
    ],
)  # fmt: skip
def test_refuses(args, run, message):
    run = run or (lambda q, k, v: attention(q, k, v, CONFIG))
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(run, *args)


def test_no_causal_attention_in_a_pipeline():
    config = dataclasses.replace(CONFIG, causal=True)
    with pytest.raises(NotImplementedError, match="take attention_mgpu.attention"):
        jax.eval_shape(lambda q, k, v: attention_with_pipeline_emitter(q, k, v, config), Q, K, K)
