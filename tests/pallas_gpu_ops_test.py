"""Operations for GPUs, interpreted: they are what plain functions of whole arrays compute, and so are their derivatives."""

import functools

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu import (
    attention,
    decode_attention,
    layer_norm,
    paged_attention,
    rms_norm,
    softmax,
)

BLOCKS = attention.BlockSizes(16, 32, 32, 16, 16, 32)


def normal(*shape, dtype=jnp.float32, seed=0):
    return jnp.asarray(np.random.RandomState(seed).randn(*shape), dtype)


def cast(tree):
    return jax.tree.map(lambda x: np.asarray(x, np.float32), tree)


def assert_close(found, wanted, dtype=jnp.float32):
    narrow = jnp.dtype(dtype).itemsize < 4
    for x, y in zip(jax.tree.leaves(cast(found)), jax.tree.leaves(cast(wanted)), strict=True):
        np.testing.assert_allclose(
            x, y, rtol=2e-2 if narrow else 2e-5, atol=5e-2 if narrow else 5e-5
        )


def with_derivatives(f, *args):
    """The value of f, and the derivatives by all arguments along one cotangent."""

    @jax.jit
    def both(*args):
        out, pull = jax.vjp(f, *args)
        return out, pull(
            jnp.cos(jnp.arange(out.size, dtype=jnp.float32)).reshape(out.shape).astype(out.dtype)
        )

    return both(*args)


# Of queries and keys: numbers, heads and features.
@pytest.mark.parametrize(
    "num_q, num_k, heads, key_heads, depth, dtype, causal, segmented",
    [
        (64, 64, 2, 2, 32, jnp.float32, True, False),
        (40, 40, 2, 1, 24, jnp.float32, True, True),
        (20, 50, 2, 2, 16, jnp.float32, False, True),
        (50, 20, 1, 1, 8, jnp.float32, True, False),
        (64, 64, 2, 2, 32, jnp.bfloat16, True, False),
        (32, 48, 2, 1, 16, jnp.float16, False, False),
    ],
)
def test_attention(num_q, num_k, heads, key_heads, depth, dtype, causal, segmented):
    q = normal(2, num_q, heads, depth, dtype=dtype)
    k, v = [normal(2, num_k, key_heads, depth, dtype=dtype, seed=i) for i in (1, 2)]
    ids = jnp.arange(2 * max(num_q, num_k)).reshape(2, -1) // 17 if segmented else None
    if segmented and not causal:
        # All queries have keys.
        ids %= 2
    f = lambda q, k, v: attention.mha(q, k, v, ids, 0.25, causal, BLOCKS, interpret=True)
    wanted = lambda q, k, v: attention.mha_reference(q, k, v, ids, 0.25, causal).astype(dtype)
    assert_close(with_derivatives(f, q, k, v), with_derivatives(wanted, q, k, v), dtype)


def test_queries_without_keys_in_their_segment_weigh_all_keys_equally():
    q, (k, v) = normal(1, 50, 2, 16), [normal(1, 20, 2, 16, seed=i) for i in (1, 2)]
    ids = (jnp.arange(50) // 15)[None]
    for causal in (False, True):
        f = lambda q, k, v: attention.mha(q, k, v, ids, 0.25, causal, BLOCKS, interpret=True)
        wanted = lambda q, k, v: attention.mha_reference(q, k, v, ids, 0.25, causal)
        found = with_derivatives(f, q, k, v)
        assert_close(found, with_derivatives(wanted, q, k, v))
        assert_close(found[0][:, 30:], jnp.broadcast_to(v.mean(1, keepdims=True), (1, 20, 2, 16)))
        assert not found[1][0][:, 30:].any()


def test_residuals_of_attention_are_logarithms_to_base_two():
    q, k, v = [normal(1, 20, 2, 16, seed=i) for i in range(3)]
    out, lse = attention.mha(
        q, k, v, None, block_sizes=BLOCKS, interpret=True, return_residuals=True
    )
    scores = jnp.einsum("bqhc,bkhc->bhqk", q, k)
    assert_close(lse, jax.nn.logsumexp(scores, axis=-1) / np.log(2))
    assert_close(out, jnp.einsum("bhqk,bkhc->bqhc", jax.nn.softmax(scores), v))


def test_errors_of_attention():
    q = k = v = jnp.ones((1, 16, 2, 16))
    apply = functools.partial(attention.mha, interpret=True)
    plain = attention.BlockSizes(16, 16)
    gradient = lambda **options: jax.grad(lambda q: apply(q, k, v, None, **options).sum())(q)
    with pytest.raises(ValueError, match="Backward block sizes must all be set"):
        gradient(block_sizes=plain)
    with pytest.raises(ValueError, match="Invalid backward pass implementation: zz"):
        gradient(backward_pass_impl="zz")
    with pytest.raises(ValueError, match="differentiation is not supported if return_residuals"):
        jax.grad(lambda q: apply(q, k, v, None, return_residuals=True)[0].sum())(q)
    with pytest.raises(ValueError, match="same number of features"):
        apply(q, k, v[..., :8], None)
    with pytest.raises(ValueError, match="heads of queries are a multiple"):
        apply(q[:, :, :1], k, v, None)
    with pytest.raises(ValueError, match="Segments are known for every"):
        apply(q, k, v, jnp.zeros((1, 8), jnp.int32))
    with pytest.raises(ValueError, match=r"it is \(1, 1, 2\), not \(2, 1, 2\)"):
        apply(q, k, v, None, grid=(2, 1, 2))


def test_derivative_of_attention_by_xla():
    q, k, v = [normal(1, 16, 1, 16, seed=i) for i in range(3)]
    f = lambda impl: (
        lambda q, k, v: attention.mha(
            q, k, v, None, block_sizes=BLOCKS, backward_pass_impl=impl, interpret=True
        )
    )
    assert_close(with_derivatives(f("xla"), q, k, v), with_derivatives(f("triton"), q, k, v))


def test_softmax():
    for shape, axis, dtype in [
        ((3, 5), -1, jnp.float32),
        ((2, 6, 3), 1, jnp.bfloat16),
        ((4,), 0, jnp.float16),
    ]:
        x = normal(*shape, dtype=dtype)
        f = functools.partial(softmax.softmax, axis=axis, interpret=True)
        wanted = functools.partial(jax.nn.softmax, axis=axis)
        assert_close(with_derivatives(f, x), with_derivatives(wanted, x), dtype)
    assert softmax.softmax(jnp.zeros((0, 3)), interpret=True).shape == (0, 3)
    with pytest.raises(TypeError, match="floating-point type, got int32"):
        softmax.softmax(jnp.arange(4), interpret=True)
    with pytest.raises(ValueError, match="axis 2, which it lacks"):
        softmax.softmax(jnp.ones((4, 4)), axis=2, interpret=True)


NORMS = {
    "layer": (layer_norm.layer_norm, layer_norm.layer_norm_reference),
    "rms": (rms_norm.rms_norm, rms_norm.rms_norm_reference),
}


@pytest.mark.parametrize("name", NORMS)
def test_normalization(name):
    f, reference = NORMS[name]
    cases = [
        ((2, 3, 10), jnp.float32),
        ((40, 200), jnp.float32),
        ((7,), jnp.bfloat16),
        ((2, 16640), jnp.float32),
    ]
    for shape, dtype in cases:
        x = normal(*shape, dtype=dtype)
        w, b = [normal(shape[-1], dtype=dtype, seed=i) for i in (1, 2)]
        found = with_derivatives(functools.partial(f, interpret=True), x, w, b)
        wanted = with_derivatives(lambda *args: reference(*args).astype(dtype), x, w, b)
        assert_close(found, wanted, dtype)
        assert [d.dtype for d in found[1]] == [dtype] * 3
    by_xla = functools.partial(f, interpret=True, backward_pass_impl="xla")
    assert_close(with_derivatives(by_xla, x, w, b), found)
    empty = f(jnp.ones((0, 4)), jnp.ones(4), jnp.ones(4), interpret=True)
    assert empty.shape == (0, 4)
    with pytest.raises(ValueError, match="Invalid backward pass implementation: zz"):
        jax.grad(lambda x: f(x, w, b, interpret=True, backward_pass_impl="zz").sum())(x)
    with pytest.raises(ValueError, match="size of the operand's last dimension"):
        f(x, w[:3], b, interpret=True)


def test_decode_attention():
    q, k, v = normal(3, 6, 24), *[normal(3, 77, 2, 24, seed=i) for i in (1, 2)]
    bounds = [(None, None), (3, 50), (jnp.array([3, 40, 60]), jnp.array([30, 77, 61])), (None, 200)]
    for start, end in bounds:
        apply = functools.partial(decode_attention.gqa, block_k=16, k_splits=3, interpret=True)
        for more in ({}, dict(return_residuals=True, normalize_output=False)):
            wanted = decode_attention.gqa_reference(q, k, v, start, end, **more)
            assert_close(apply(q, k, v, start, end, **more), wanted)
    narrow = [x.astype(jnp.bfloat16) for x in (q, k[:, :, 0], v[:, :, 0])]
    found = decode_attention.mqa(*narrow, sm_scale=0.5, interpret=True)
    assert found.dtype == jnp.bfloat16
    assert_close(found, decode_attention.mqa_reference(*narrow, sm_scale=0.5), jnp.bfloat16)
    by_head = decode_attention.mha_reference(q[:, :2], k, v)
    assert_close(by_head, decode_attention.gqa(q[:, :2], k, v, interpret=True))
    assert not apply(q, k, v, None, 0).any()
    with pytest.raises(ValueError, match="multiple of those of keys"):
        apply(q[:, :5], k, v)
    with pytest.raises(ValueError, match=r"it is \(3, 2, 1, 3\), not \(1,\)"):
        apply(q, k, v, grid=(1,))


def test_derivatives_of_decode_attention():
    q, k, v = normal(3, 6, 24), *[normal(3, 77, 2, 24, seed=i) for i in (1, 2)]
    options = dict(block_k=16, k_splits=3, interpret=True)
    bounds = jnp.array([3, 40, 60]), jnp.array([30, 77, 61])
    for start, end in ((None, None), bounds):
        f = lambda q, k, v: decode_attention.gqa(q, k, v, start, end, **options)
        wanted = lambda q, k, v: decode_attention.gqa_reference(q, k, v, start, end)
        found = with_derivatives(f, q, k, v)
        assert_close(found, with_derivatives(wanted, q, k, v))
    many = normal(3, 40, 24)
    shared = lambda q, k, v: decode_attention.mqa(
        q, k[:, :, 0], v[:, :, 0], *bounds, interpret=True
    )
    wanted = lambda q, k, v: decode_attention.mqa_reference(q, k[:, :, 0], v[:, :, 0], *bounds)
    assert_close(with_derivatives(shared, many, k, v), with_derivatives(wanted, many, k, v))
    narrow = [x.astype(jnp.bfloat16) for x in (q, k, v)]
    found = with_derivatives(functools.partial(decode_attention.gqa, **options), *narrow)
    wanted = with_derivatives(decode_attention.gqa_reference, *narrow)
    assert_close(found, wanted, jnp.bfloat16)
    assert [x.dtype for x in found[1]] == [jnp.bfloat16] * 3
    none = with_derivatives(lambda *x: decode_attention.gqa(*x, None, 0, **options), q, k, v)
    assert not any([x.any() for x in none[1]])


def test_derivatives_of_sums_of_decode_attention():
    q, k, v = normal(2, 4, 16), *[normal(2, 40, 2, 16, seed=i) for i in (1, 2)]
    more = dict(return_residuals=True, normalize_output=False, sm_scale=0.5)

    def all_of(f, **options):
        def flat(q, k, v):
            out, (total, greatest) = f(q, k, v, 3, 30, **more, **options)
            return jnp.concatenate([out.ravel(), total.ravel(), greatest.ravel()])

        return with_derivatives(flat, q, k, v)

    assert_close(
        all_of(decode_attention.gqa, interpret=True), all_of(decode_attention.gqa_reference)
    )


def test_derivatives_of_paged_attention():
    q = normal(3, 6, 20)
    k, v = [normal(2, 9, 12, 20, seed=i) for i in (1, 2)]
    # Sequences share pages, and one has a page twice.
    tables = jnp.array([[3, 1, 4, 1, 5], [3, 1, 2, 6, 0], [7, 3, 8, 0, 0]], jnp.int32)
    lengths = jnp.array([60, 31, 13])
    in_order = lambda x: jnp.moveaxis(x[:, tables], 0, 3).reshape(3, 60, 2, *x.shape[3:])
    apply = functools.partial(
        paged_attention.paged_attention, pages_per_compute_block=1, k_splits=2, interpret=True
    )
    for cap in (None, 1.5):
        f = lambda q, k, v: apply(q, k, v, tables, lengths, attn_logits_soft_cap=cap)
        wanted = lambda q, k, v: paged_attention.paged_attention_reference(
            q, in_order(k), in_order(v), lengths, attn_logits_soft_cap=cap
        )
        assert_close(with_derivatives(f, q, k, v), with_derivatives(wanted, q, k, v))
    k8, v8 = [jnp.round(3 * x).astype(jnp.int8) for x in (k, v)]
    scales = [jnp.abs(normal(2, 9, 12, seed=i)) / 3 for i in (4, 5)]
    f = lambda q, ks, vs: apply(q, k8, v8, tables, lengths, ks, vs)
    wide = lambda x, s: in_order(x * s[..., None])
    wanted = lambda q, ks, vs: paged_attention.paged_attention_reference(
        q, wide(k8, ks), wide(v8, vs), lengths
    )
    assert_close(with_derivatives(f, q, *scales), with_derivatives(wanted, q, *scales))


def test_paged_attention():
    q = normal(2, 6, 20)
    k, v = [normal(2, 9, 12, 20, seed=i) for i in (1, 2)]
    tables = jnp.asarray(np.random.RandomState(3).randint(0, 9, (2, 5)), jnp.int32)
    in_order = lambda x: jnp.moveaxis(x[:, tables], 0, 3).reshape(2, 60, 2, 20)
    apply = functools.partial(
        paged_attention.paged_attention, pages_per_compute_block=1, k_splits=2, interpret=True
    )
    for lengths in (None, jnp.array([13, 60])):
        for cap in (None, 1.5):
            wanted = paged_attention.paged_attention_reference(
                q, in_order(k), in_order(v), lengths, attn_logits_soft_cap=cap
            )
            assert_close(apply(q, k, v, tables, lengths, attn_logits_soft_cap=cap), wanted)
    scales = [jnp.abs(normal(2, 9, 12, seed=i)) for i in (4, 5)]
    k8, v8 = [jnp.round(20 * x).astype(jnp.int8) for x in (k, v)]
    wide = [in_order(x * s[..., None]) for x, s in zip((k8, v8), scales)]
    wanted = paged_attention.paged_attention_reference(q / 20, *wide, lengths)
    assert_close(apply(q / 20, k8, v8, tables, lengths, *scales), wanted, jnp.float16)
    assert not apply(q, k, v, tables, jnp.array([0, 0])).any()
    default = apply(q, k, v, tables, lengths)
    assert_close(apply(q, k, v, tables, lengths, mask_value=-np.inf), default)
    for value in (0.0, -100.0, np.nan):
        with pytest.raises(ValueError, match="mask_value is at most -1e"):
            apply(q, k, v, tables, lengths, mask_value=value)
    with pytest.raises(ValueError, match="has a row of pages"):
        apply(q, k, v, tables[:1], None)
    with pytest.raises(ValueError, match="has a length"):
        apply(q, k, v, tables, lengths[:1])
    with pytest.raises(ValueError, match="for v_scales_pages"):
        apply(q, k, v, tables, None, scales[0], scales[1][0])
