"""Attention of ragged sequences over pages is that of each sequence."""

import functools

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import (
    dynamic_validate_inputs,
    ragged_paged_attention,
    ref_ragged_paged_attention,
)
from jax.sharding import SingleDeviceSharding

BLOCKS = dict(num_kv_pages_per_block=2, num_queries_per_block=8)


def arguments(dtype=jnp.float32):
    """Four sequences, one of them with one query and one without; the last of five rows has no meaning."""
    random = np.random.RandomState(0)
    q = jnp.asarray(random.randn(40, 4, 128) / 3, dtype)
    pages = jnp.asarray(random.randn(20, 8, 4, 128) / 3, dtype)
    indices = jnp.asarray(random.permutation(20).reshape(5, 4), jnp.int32)
    lens = jnp.array([20, 32, 7, 30, 999], jnp.int32)
    starts = jnp.array([0, 5, 30, 30, 31, 999], jnp.int32)
    return q, pages, lens, indices, starts, jnp.array([4], jnp.int32)


def plain(q, pages, lens, indices, starts, count, sm_scale=1.0, window=None, cap=None):
    out, (heads, depth) = [], q.shape[1:]
    for i in range(int(count[0])):
        x = q[starts[i] : starts[i + 1]]
        kv = pages[indices[i]].reshape(-1, 2, 2, depth)[: int(lens[i])]
        k, v = [jnp.repeat(kv[:, :, o], heads // 2, 1) for o in (0, 1)]
        s = jnp.einsum("qhd,khd->hqk", x, k) * sm_scale
        s = s if cap is None else cap * jnp.tanh(s / cap)
        at = jnp.arange(s.shape[1])[:, None] + s.shape[2] - s.shape[1]
        key = jnp.arange(s.shape[2])[None]
        seen = (key <= at) if window is None else (key <= at) & (key > at - window)
        weights = jax.nn.softmax(jnp.where(seen, s, -1e30), -1)
        out.append(jnp.einsum("hqk,khd->qhd", weights, v))
    return jnp.concatenate(out)


@pytest.mark.parametrize(
    "options, same",
    [
        ({}, {}),
        (dict(sm_scale=0.3, sliding_window=6), dict(sm_scale=0.3, window=6)),
        (dict(soft_cap=0.5, mask_value=-float("inf")), dict(cap=0.5)),
    ],
)
def test_attention(options, same):
    args = arguments()
    wanted = plain(*args, **same)
    with pltpu.force_tpu_interpret_mode(True):
        out = ragged_paged_attention(*args, **BLOCKS, **options)
    np.testing.assert_allclose(out[:31], wanted, atol=1e-5)
    assert not out[31:].any()
    np.testing.assert_allclose(ref_ragged_paged_attention(*args, **options), wanted, atol=1e-5)


def test_no_tokens():
    q, pages, lens, indices, starts, count = arguments()
    with pltpu.force_tpu_interpret_mode(True):
        out = ragged_paged_attention(q[:0], pages, lens, indices, starts * 0, count)
    assert out.shape == (0, 4, 128)


def test_factors_and_blocks_that_do_not_divide():
    q, pages, *rest = arguments()
    args = q, pages.at[:, :, 1::2].multiply(0.5).at[:, :, ::2].multiply(2), *rest
    wanted = plain(*args)
    options = dict(k_scale=2.0, v_scale=0.5, mask_value=None)
    with pltpu.force_tpu_interpret_mode(True):
        blocks = dict(num_kv_pages_per_block=3, num_queries_per_block=7)
        out = ragged_paged_attention(q, pages, *rest, **blocks, **options)
    np.testing.assert_allclose(out[:31], wanted, atol=1e-5)
    reference = ref_ragged_paged_attention(q, pages, *rest, **options)
    np.testing.assert_allclose(reference, wanted, atol=1e-5)


def test_memory_and_copies_of_a_tpu():
    q, pages, lens, indices, starts, count = arguments(jnp.bfloat16)
    wanted = plain(q, pages, lens, indices, starts, count)
    pages = pages.at[indices[2, 0], 7:].set(jnp.nan)
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True)):
        out = ragged_paged_attention(q, pages, lens, indices, starts, count)
    assert out.dtype == jnp.bfloat16
    out, wanted = [np.asarray(x, np.float32) for x in (out[:31], wanted)]
    np.testing.assert_allclose(out, wanted, atol=2e-2)


def derivatives(f, q, pages, *rest):
    """The value and the derivatives by queries and pages along one cotangent."""
    tokens = 31
    weights = jnp.cos(jnp.arange(q[:tokens].size, dtype=jnp.float32)).reshape(tokens, *q.shape[1:])
    weights = weights.astype(jnp.bfloat16)
    total = lambda q, pages: (weights * f(q, pages, *rest)[:tokens].astype(jnp.float32)).sum()
    return jax.grad(total, (0, 1))(q, pages)


@pytest.mark.parametrize(
    "blocks, options, same",
    [
        (BLOCKS, dict(sm_scale=0.3, sliding_window=6), dict(sm_scale=0.3, window=6)),
        ((3, 7), dict(soft_cap=0.5, mask_value=-float("inf")), dict(cap=0.5)),
    ],
)
def test_derivatives(blocks, options, same):
    q, pages, lens, indices, *rest = arguments()
    # Two sequences share pages, and one has a page twice.
    indices = indices.at[3, :2].set(indices[1, :2]).at[0, 2].set(indices[0, 1])
    args = q, pages, lens, indices, *rest
    wanted = derivatives(functools.partial(plain, **same), *args)
    if blocks is not BLOCKS:
        blocks = dict(num_kv_pages_per_block=blocks[0], num_queries_per_block=blocks[1])
    with pltpu.force_tpu_interpret_mode(True):
        found = derivatives(functools.partial(ragged_paged_attention, **blocks, **options), *args)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, atol=2e-5)


def test_derivatives_by_scaled_pages_of_a_tpu():
    q, pages, lens, indices, *rest = arguments(jnp.bfloat16)
    wide = q.astype(jnp.float32), pages.astype(jnp.float32), lens, indices, *rest
    twice = lambda q, pages, *more: plain(q, 2 * pages.at[:, :, 1::2].multiply(0.25), *more)
    wanted = derivatives(twice, *wide)
    scaled = functools.partial(ragged_paged_attention, k_scale=2.0, v_scale=0.5, **BLOCKS)
    nan = q.at[31:].set(jnp.nan), pages.at[indices[2, 0], 7:].set(jnp.nan), lens, indices, *rest
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True)):
        found = derivatives(scaled, *nan)
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == jnp.bfloat16
        np.testing.assert_allclose(np.asarray(x, np.float32), y, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    "change, options, message",
    [
        ({0: (40, 5, 128)}, {}, "num_q_heads=5 must be divisible by num_kv_heads=2"),
        ({0: (40, 4, 64)}, {}, "Q head_dim 64 must be the same as that of K/V 128"),
        ({0: (4, 128)}, {}, "q should be"),
        ({1: (20, 8, 3, 128)}, {}, "in turn"),
        ({2: (3,)}, {}, r"Expected kv_lens.shape=\(3,\)"),
        ({4: (3,)}, {}, r"Expected cu_q_lens.shape=\(3,\)"),
        ({5: ()}, {}, r"must be \(1,\)"),
        ({}, dict(sliding_window=0), "sliding_window=0 must be positive"),
        ({}, dict(soft_cap=0.0), "soft_cap=0.0 must not be 0.0"),
        ({}, dict(num_kv_pages_per_block=5), r"must be in range \(0, 4\]"),
        ({}, dict(num_queries_per_block=0), "num_queries_per_block=0 must be positive"),
        ({}, dict(vmem_limit_bytes=0), "vmem_limit_bytes=0 must be positive"),
    ],
)
def test_errors(change, options, message):
    args = jax.eval_shape(arguments)
    args = [jax.ShapeDtypeStruct(change.get(i, x.shape), x.dtype) for i, x in enumerate(args)]
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(functools.partial(ragged_paged_attention, **options), *args)


def test_errors_of_lengths():
    q, pages, lens, indices, starts, count = arguments()
    dynamic_validate_inputs(q, pages, lens, indices, starts, count)
    for changed, message in (
        ((lens.at[0].set(33), indices, starts, count), "min_pages_per_seq"),
        ((lens.at[0].set(3), indices, starts, count), "at sequence 0"),
        ((lens, indices, starts, count + 2), "must be less or equal to max_num_seqs=5"),
        ((lens, indices, starts.at[4].set(50), count), "Total q tokens 50"),
        ((lens.astype(jnp.int16), indices, starts, count), "must be int32"),
    ):
        with pytest.raises(ValueError, match=message):
            dynamic_validate_inputs(q, pages, *changed)


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("name", ["v5e:2x2", "v6e:2x2"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_compiled(name, dtype):
    device = topologies.get_topology_desc(name, "tpu").devices[0]
    args = jax.eval_shape(functools.partial(arguments, dtype))
    sharding = SingleDeviceSharding(device)
    args = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding) for x in args]
    call = functools.partial(ragged_paged_attention, **BLOCKS)
    for f, calls in ((call, 1), (functools.partial(derivatives, call), 2)):
        compiled = jax.jit(f).lower(*args).compile()
        assert compiled.as_text().count('custom_call_target="tpu_custom_call"') == calls
