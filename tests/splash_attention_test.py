"""Attention by the blocks of a mask: beside the reference, and beside plain operations."""

import numpy as np
import pytest
import splash_attention_scenarios as s
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax._src import test_util as jtu
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

kernel, M = s.kernel, s.masks
reference, test_reference, _ = case_tests(__file__)
SIZE = 64


def masks_of_heads():
    seen = M.make_random_mask((SIZE, SIZE), 0.5, 0) | np.eye(SIZE, dtype=bool)
    causal = M.CausalMask((SIZE, SIZE))
    return [
        causal,
        M.FullMask((SIZE, SIZE)),
        M.LocalMask((SIZE, SIZE), (20, 5), 0),
        M.NumpyMask(seen),
    ]


def blocks(**options):
    if not options.get("use_fused_bwd_kernel"):
        options |= dict(block_q_dq=32, block_kv_dq=16)
    return kernel.BlockSizes(
        block_q=16, block_kv=32, block_kv_compute=16, block_q_dkv=32, block_kv_dkv=32, block_kv_dkv_compute=16, **options
    )  # fmt: skip


minor = kernel.QKVLayout.SEQ_MINOR


@pytest.mark.parametrize(
    "options, cap",
    [
        ({}, 2.0),
        (dict(use_fused_bwd_kernel=True), None),
        (dict(q_layout=minor, k_layout=minor, v_layout=minor), None),
    ],
    ids=["apart", "fused", "minor"],
)
def test_gradients(options, cap):
    mask = M.MultiHeadMask(masks_of_heads())
    ours = s.make(mask, block_sizes=blocks(**options), attn_logits_soft_cap=cap)
    plain = kernel.make_masked_mha_reference(mask, attn_logits_soft_cap=cap)
    q, k, v = s.random(4, SIZE, 16), s.random(2, SIZE, 16), s.random(2, SIZE, 24)
    ids = kernel.SegmentIds(jnp.arange(SIZE) // 24, jnp.arange(SIZE) // 24)
    sinks = jnp.array([0.1, -0.2, 0.3, 1.0])
    np.testing.assert_allclose(ours(q, k, v, ids, sinks), plain(q, k, v, ids, sinks), atol=1e-5)

    def gradients(f):
        weight = jnp.cos(jnp.arange(24.0))
        loss = lambda q, k, v, sinks: jnp.sum(f(q, k, v, ids, sinks) * weight)
        return jax.jit(jax.grad(loss, (0, 1, 2, 3)))(q, k, v, sinks)

    for x, y in zip(gradients(ours), gradients(plain)):
        np.testing.assert_allclose(x, y, atol=3e-5)


def test_kernels_are_compiled_once():
    attention = s.make(s.causal)
    gradient = jax.grad(lambda q: attention(q, s.k, s.v).sum())
    gradient(attention(s.q, s.k, s.v))
    with jtu.count_jit_compilation_cache_miss() as count:
        gradient(attention(s.q, s.k, s.v))
    assert count() == 0


def test_empty_blocks_are_left_out():
    table = s.make(s.causal).tables[0]
    np.testing.assert_array_equal(table.kind[0], [[1, 0], [2, 1]])
    assert table.partials.shape == (1, 128, 128) and table.block.dtype == jnp.int8
    assert s.make(s.local).tables[0].block.shape == (2, 2, 2)


def test_traced_masks_and_checkpoints():
    mask = np.asarray(s.causal[:, :, :])
    q, k, v = s.q, s.k, s.v
    found = jax.jit(lambda m: s.gradients(s.make(m), q, k, v))(mask)
    for x, y in zip(found, s.gradients(s.make(s.causal), q, k, v)):
        np.testing.assert_allclose(x, y, atol=1e-5)
    policy = jax.checkpoint_policies.save_only_these_names("kept")
    kept = jax.checkpoint(s.make(s.causal, residual_checkpoint_name="kept"), policy=policy)
    np.testing.assert_allclose(s.gradients(kept, q, k, v)[0], found[0], atol=1e-5)


def test_shards():
    mesh = jax.make_mesh((2, 2), ("heads", "queries"), axis_types=(AxisType.Auto,) * 2)
    ours = kernel.make_splash_mha(s.causal, head_shards=2, q_seq_shards=2, interpret=True)
    spec = ours.manual_sharding_spec(NamedSharding(mesh, P("heads", "queries")))
    q_spec, k_spec = P("heads", "queries"), P("heads")

    def attention(q, k, v):
        run = jax.shard_map(
            lambda f, q, k, v: f(q, k, v),
            mesh=mesh, in_specs=(spec, q_spec, k_spec, k_spec), out_specs=q_spec, check_vma=False,
        )  # fmt: skip
        return run(ours, q, k, v)

    whole = s.make(s.causal)
    np.testing.assert_allclose(attention(s.q, s.k, s.v), whole(s.q, s.k, s.v), atol=1e-6)
    for x, y in zip(s.gradients(attention, s.q, s.k, s.v), s.gradients(whole, s.q, s.k, s.v)):
        np.testing.assert_allclose(x, y, atol=1e-5)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: s.make(s.causal)(s.q[:1], s.k, s.v), "'query' heads .1. to be a multiple of the number of 'key' heads .2."),
        (lambda: s.make(s.causal)(s.q[:, :128], s.k, s.v), "2 heads and 256 queries, but 'query'"),
        (lambda: s.make(s.causal)(s.q, s.k[:, :128], s.v), "the same leading dimensions"),
        (lambda: s.make(s.causal)(s.q, s.k[..., :64], s.v), "the same number of features"),
        (lambda: s.make(s.causal)(s.q[None], s.k, s.v), "jax.vmap"),
        (lambda: s.make(s.causal)(s.q, s.k, s.v, kernel.SegmentIds(jnp.zeros(8), jnp.zeros(256))), "q segment_ids: .8,.. Expected: .256"),
        (lambda: s.make(s.causal)(s.q, s.k, s.v, sinks=jnp.zeros(3)), "sinks: .3"),
        (lambda: s.make(np.ones((256, 256), bool)), "Unexpected mask shape"),
        (lambda: s.make(M.MultiHeadMask([M.CausalMask((200, 200))])), "q_block_size=128 should divide q_seq_len=200"),
        (lambda: kernel.make_splash_mha(s.causal, head_shards=3, q_seq_shards=1), "head_shards=3"),
        (lambda: s.gradients(s.make(s.causal, block_sizes=kernel.BlockSizes(128, 128)), s.q, s.k, s.v), "Need to specify backward blocks"),
        (lambda: M.CausalMask((6, 4), shard_count=4), r"squared \(16\) must divide"),
        (lambda: M.ChunkedCausalMask((6, 6), 0), "must be positive"),
        (lambda: M.MultiHeadMask([]), "empty tuple"),
        (lambda: M.MultiHeadMask([M.FullMask((4, 4)), M.FullMask((4, 5))]), "Unexpected mask shape"),
        (lambda: M.FullMask((4, 4)) | M.FullMask((4, 5)), "Invalid shape for other"),
        (lambda: M.NumpyMask(np.ones((2, 2))), "boolean array"),
    ],
)  # fmt: skip
def test_errors(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_refusals():
    with pytest.raises(NotImplementedError, match="save_residuals=False"):
        jax.grad(lambda q: s.make(s.causal, save_residuals=True)(q, s.k, s.v)[0].sum())(s.q)
    with pytest.raises(NotImplementedError, match="Conversion to bool"):
        bool(M.FullMask((2, 2)))
    with pytest.raises(NotImplementedError, match="two slices"):
        M.FullMask((2, 2))[0, 0]
    assert M.LocalMask((4, 4), (1, 0), 0) == M.LocalMask((4, 4), (1, 0), 0) != M.CausalMask((4, 4))


def test_blocks_of_masks_without_any():
    none, function = s.mask_info.process_mask(
        M.MultiHeadMask([M.NumpyMask(np.zeros((8, 8), bool))]), (4, 4)
    )
    assert none.block_mask.tolist() == [[[0], [0]]] and none.mask_next is None
    assert function is None


@pytest.mark.parametrize(
    "block, options, message",
    [
        ((5, 4), {}, "q_block_size=5 should divide q_seq_len=16"),
        ((4, 5), {}, "kv_block_size=5 should divide kv_seq_len=24"),
        ((4, 4), dict(head_shards=2), "head_shards=2 should divide head_count=1"),
        ((4, 4), dict(q_seq_shards=3), "q_seq_shards=3 should divide q_seq_len=16"),
        ((8, 4), dict(q_seq_shards=4), "q_block_size=8 should divide"),
    ],
)
def test_blocks_that_do_not_divide_a_mask(block, options, message):
    with pytest.raises(ValueError, match=message):
        s.mask_info.process_mask(M.MultiHeadMask(s.RANDOM[:1]), block, **options)


def test_function_of_a_mask():
    mask = M.MultiHeadMask(s.BY_POSITION[1])
    info, function = s.mask_info.process_mask(mask, (4, 4))
    at = info.q_sequence
    np.testing.assert_array_equal(function(at[:, None], at[None]), mask.masks[0][:, :])
