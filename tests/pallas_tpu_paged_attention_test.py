"""Attention over pages is that over the keys and values in them."""

import functools

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.paged_attention import (
    paged_attention,
    quantization_utils as quantization,
    util,
)
from jax.sharding import SingleDeviceSharding

HEADS, KV_HEADS, DEPTH, PAGE, PAGES = 8, 2, 128, 16, 4
LENGTHS = [0, 5, 40, 0, 64, 16]


def normal(*shape, dtype=jnp.float32, seed=0):
    return jnp.asarray(np.random.RandomState(seed).randn(*shape) / 3, dtype)


def arguments(dtype=jnp.float32, lengths=LENGTHS, quantized=False):
    batch = len(lengths)
    q = normal(batch, HEADS, DEPTH, dtype=dtype)
    pages = [normal(KV_HEADS, batch * PAGES, PAGE, DEPTH, dtype=dtype, seed=s) for s in (1, 2)]
    if quantized:
        pages = [quantization.quantize_to_int8(x.astype(jnp.float32)) for x in pages]
    order = np.random.RandomState(3).permutation(batch * PAGES).reshape(batch, PAGES)
    return q, *pages, jnp.array(lengths, jnp.int32), jnp.asarray(order, jnp.int32)


def plain(q, k, v, lengths, indices, cap=None):
    gathered = lambda x: x[:, indices].swapaxes(0, 1).reshape(q.shape[0], KV_HEADS, -1, x.shape[-1])
    k, v = [jax.tree.map(gathered, x) for x in (k, v)]
    out = util.grouped_query_attention_reference(q, k, v, lengths, soft_cap=cap)
    return jnp.where(lengths[:, None, None] > 0, out, 0)


@pytest.mark.parametrize(
    "mode, inline, lengths",
    [
        (None, True, [0, 0, 7, 0]),
        (None, False, LENGTHS),
        ("kv_head", True, LENGTHS),
        ("batch", True, LENGTHS),
        ("batch", False, [0, 0, 0, 64]),
    ],
)
def test_attention(mode, inline, lengths):
    args = arguments(lengths=lengths)
    with pltpu.force_tpu_interpret_mode(True):
        out = paged_attention(
            *args, pages_per_compute_block=2, megacore_mode=mode, inline_seq_dim=inline
        )
    np.testing.assert_allclose(out, plain(*args), atol=1e-5)


@pytest.mark.parametrize(
    "dtype, quantized, cap, tolerance",
    [(jnp.bfloat16, False, None, 1e-2), (jnp.float32, True, None, 1e-5), (jnp.float32, False, 0.5, 1e-5)],
)  # fmt: skip
def test_types(dtype, quantized, cap, tolerance):
    args = arguments(dtype, quantized=quantized)
    with pltpu.force_tpu_interpret_mode(True):
        out = paged_attention(*args, pages_per_compute_block=2, attn_logits_soft_cap=cap)
    assert out.dtype == dtype
    f32 = functools.partial(np.asarray, dtype=np.float32)
    np.testing.assert_allclose(f32(out), f32(plain(*args, cap)), atol=tolerance)


@pytest.mark.parametrize("inline", [True, False])
def test_memory_and_copies_of_a_tpu(inline):
    # Races and waits that do not end are errors; what is after the end of a sequence has no value.
    q, k, v, lengths, indices = arguments(lengths=[0, 5, 40])
    wanted = plain(q, k, v, lengths, indices)
    page = indices[1, 0]
    k, v = k.at[:, page, 5:].set(jnp.nan), v.at[:, page, 5:].set(jnp.nan)
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True)):
        out = paged_attention(
            q, k, v, lengths, indices, pages_per_compute_block=2, inline_seq_dim=inline
        )
    np.testing.assert_allclose(out, wanted, atol=1e-5)


def derivatives(f, args, cap=None):
    """The derivatives by queries and pages, or by their scales, along one cotangent."""
    q, *rest = args
    weights = jnp.cos(jnp.arange(q.size, dtype=jnp.float32)).reshape(q.shape).astype(jnp.bfloat16)
    out = lambda *arrays: f(*arrays, *rest[2:]).astype(jnp.float32)
    total = lambda *arrays: (weights * out(*arrays)).sum()
    found = jax.grad(total, (0, 1, 2), allow_int=True)(*args[:3])
    return [x for x in jax.tree.leaves(found) if x.dtype != jax.dtypes.float0]


@pytest.mark.parametrize(
    "dtype, quantized, cap, tolerance",
    [(jnp.float32, False, 0.5, 1e-5), (jnp.float32, True, None, 1e-5), (jnp.bfloat16, False, None, 1e-2)],
)  # fmt: skip
def test_derivatives(dtype, quantized, cap, tolerance):
    *arrays, lengths, indices = arguments(dtype, quantized=quantized)
    # Pages that two sequences have, one that a sequence has twice, and indices after the end.
    indices = indices.at[2].set(indices[4]).at[4, 3].set(indices[4, 2]).at[1, 1:].set(0)
    args = *arrays, lengths, indices
    call = functools.partial(
        paged_attention, pages_per_compute_block=2, attn_logits_soft_cap=cap, megacore_mode="batch"
    )
    with pltpu.force_tpu_interpret_mode(True):
        found = derivatives(call, args)
    assert [x.dtype for x in found] == [dtype] * 3
    wide = lambda x: x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x
    wanted = derivatives(functools.partial(plain, cap=cap), jax.tree.map(wide, args))
    for x, y in zip(found, wanted, strict=True):
        x = np.asarray(x, np.float32)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def test_memory_and_copies_of_the_derivative():
    q, k, v, lengths, indices = arguments(lengths=[0, 5, 40])
    indices = indices.at[1].set(indices[2])
    wanted = derivatives(plain, (q, k, v, lengths, indices))
    k, v = [x.at[:, indices[2, 2], 8:].set(jnp.nan) for x in (k, v)]
    call = functools.partial(paged_attention, pages_per_compute_block=2)
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True)):
        found = derivatives(call, (q, k, v, lengths, indices))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_derivative_of_a_batch():
    args = arguments(lengths=[5, 40])
    several = [jnp.stack([x, x / 2]) for x in args[:3]]
    call = functools.partial(paged_attention, pages_per_compute_block=2)
    pull = lambda f: lambda *arrays: derivatives(f, (*arrays, *args[3:]))
    with pltpu.force_tpu_interpret_mode(True):
        found = jax.vmap(pull(call))(*several)
    for x, y in zip(found, jax.vmap(pull(plain))(*several), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_quantization():
    x = normal(5, 8)
    q = quantization.quantize_to_int8(x)
    assert q.weight.dtype == jnp.int8 and q.scales.shape == (5, 1)
    np.testing.assert_array_equal(q.scales[:, 0], abs(x).max(1))
    np.testing.assert_allclose(quantization.unquantize_from_int8(q, jnp.float32), x, atol=8e-3)
    assert quantization.unquantize_from_int8(q).dtype == jnp.float32
    found = quantization.to_int8(jnp.array([[1.0, -1.0, 0.5, 0.003, 2.0]]), jnp.array([[1.0]]))
    np.testing.assert_array_equal(found, [[127, -128, 64, 0, 127]])
    assert not quantization.to_int8(jnp.zeros((1, 2)), jnp.zeros((1, 1))).any()


def test_reference():
    q, k = normal(2, HEADS, DEPTH), normal(2, KV_HEADS, 32, DEPTH, seed=1)
    lengths = jnp.array([0, 9])
    out = util.grouped_query_attention_reference(q, k, k, lengths, soft_cap=2.0)
    s = 2 * jnp.tanh(jnp.einsum("bhgd,bhkd->bhgk", q.reshape(2, KV_HEADS, -1, DEPTH), k) / 2)
    weights = jax.nn.softmax(s[1, ..., :9])
    wanted = jnp.einsum("hgk,hkd->hgd", weights, k[1, :, :9]).reshape(HEADS, DEPTH)
    np.testing.assert_allclose(out[1], wanted, atol=1e-5)
    np.testing.assert_allclose(out[0, 0], k[0, 0].mean(0), atol=1e-5)


@pytest.mark.parametrize(
    "change, options, message",
    [
        ({}, dict(pages_per_compute_block=3), "Got 3 and 4"),
        ({}, dict(pages_per_compute_block=0), "Got 0 and 4"),
        ({}, dict(megacore_mode="both"), "megacore_mode must be one of"),
        ({2: (2, 24, 8, 128)}, {}, "must have the same shape"),
        ({0: (6, 7, 128)}, {}, "Number of Q heads must be divisible by number of KV heads. Got 7 and 2"),
        ({0: (6, 8, 64)}, {}, "head_dim of Q must be the same as that of K/V. Got 64 and 128"),
        ({0: (8, 128)}, {}, "q should be"),
        ({3: (5,)}, {}, "`lengths` and `q`"),
        ({4: (5, 4)}, {}, "`page_indices` and `q`"),
        ({0: (6, 1, 128), 1: (1, 24, 16, 128), 2: (1, 24, 16, 128)}, dict(megacore_mode="kv_head"), "KV heads must be even"),
        ({0: (5, 8, 128), 3: (5,), 4: (5, 4)}, dict(megacore_mode="batch"), "batch size must be even"),
    ],
)  # fmt: skip
def test_errors(change, options, message):
    shapes = [(6, 8, 128), (2, 24, 16, 128), (2, 24, 16, 128), (6,), (6, 4)]
    dtypes = [jnp.float32] * 3 + [jnp.int32] * 2
    args = [
        jax.ShapeDtypeStruct(change.get(i, s), d)
        for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    call = functools.partial(paged_attention, **{"pages_per_compute_block": 2, **options})
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(call, *args)


def test_no_sequences():
    q, k, v, lengths, indices = arguments()
    with pltpu.force_tpu_interpret_mode(True):
        out = paged_attention(q[:0], k, v, lengths[:0], indices[:0], pages_per_compute_block=2)
    assert out.shape == (0, *q.shape[1:])


def test_lengths_and_indices_are_integers():
    q, k, v, lengths, indices = arguments()
    with pytest.raises(ValueError, match="must be int32. Got int16"):
        paged_attention(q, k, v, lengths.astype(jnp.int16), indices, pages_per_compute_block=2)
    with pytest.raises(ValueError, match="must be integers. Got float32"):
        paged_attention(q, k, v, lengths, indices.astype(jnp.float32), pages_per_compute_block=2)


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("name", ["v5e:2x2", "v6e:2x2"])
@pytest.mark.parametrize("quantized, inline", [(False, True), (True, True), (False, False)])
def test_compiled(name, quantized, inline):
    device = topologies.get_topology_desc(name, "tpu").devices[0]
    sharding = SingleDeviceSharding(device)
    args = jax.eval_shape(functools.partial(arguments, jnp.bfloat16, quantized=quantized))
    args = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), args)
    call = functools.partial(paged_attention, pages_per_compute_block=2, inline_seq_dim=inline)
    for f, calls in ((call, 1), (lambda *args: derivatives(call, args), 2)):
        compiled = jax.jit(f).lower(*args).compile()
        assert compiled.as_text().count('custom_call_target="tpu_custom_call"') == calls
