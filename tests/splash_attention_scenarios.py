"""Attention by the blocks of a mask: programs whose results must be the reference's."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as kernel,
    splash_attention_mask as masks,
    splash_attention_mask_info as mask_info,
)

CASES = Programs()
M = masks


def random(*shape):
    seed = np.random.RandomState(len(shape) + shape[0])
    return jnp.asarray(seed.randn(*shape) * 0.3, jnp.float32)


q, k, v = random(2, 256, 128), random(2, 256, 128) + 0.1, random(2, 256, 128) - 0.1


def sample(out):
    """Some of the rows and features of arrays in a tree, to keep the table small."""
    return jax.tree.map(lambda x: x[..., ::9, ::11] if x.ndim > 2 else x, out)


causal = M.MultiHeadMask([M.CausalMask((256, 256)) for _ in range(2)])
make = functools.partial(kernel.make_splash_mha, head_shards=1, q_seq_shards=1, interpret=True)
make_mqa = functools.partial(kernel.make_splash_mqa, head_shards=1, q_seq_shards=1, interpret=True)


def gradients(attention, q, k, v, *rest):
    loss = lambda q, k, v: jnp.sum(attention(q, k, v, *rest) * jnp.cos(jnp.arange(v.shape[-1])))
    return jax.jit(jax.grad(loss, (0, 1, 2)))(q, k, v)


ids = kernel.SegmentIds(jnp.arange(256) // 100, jnp.arange(256) // 100)
local = M.MultiHeadMask([M.LocalMask((256, 256), (40, 20), 0) for _ in range(2)])
CASES.group(
    "attention",
    causal=lambda: sample(make(causal)(q, k, v)),
    local_capped=lambda: sample(make(local, attn_logits_soft_cap=2.0)(q, k, v)),
    shared_keys=lambda: sample(make_mqa(causal)(q, k[0], v[0])),
    grouped=lambda: sample(make(causal)(q, k[:1], v[:1])),
    residuals=lambda: sample(make(causal, save_residuals=True)(q, k, v)),
    sinks=lambda: sample(make(causal)(q, k, v, sinks=jnp.array([0.5, -1.0]))),
    gradients=lambda: sample(gradients(make(causal), q, k, v, ids)),
    vmap=lambda: sample(jax.vmap(make(causal))(q[None], k[None], v[None])),
    reference=lambda: kernel.attention_reference(causal[0:1, :, :][0], q[0], k[0], v[0], None)[
        ::9, ::11
    ],
)
whole = lambda mask: mask[:, :]
CASES.group(
    "mask",
    causal=lambda: whole(M.CausalMask((4, 6), 1)),
    local=lambda: [whole(M.LocalMask((4, 4), w, o)) for w in ((1, 0), (None, 1), (0, None)) for o in (0, 1)],
    chunked=lambda: whole(M.ChunkedCausalMask((6, 6), 3)),
    full=lambda: whole(M.FullMask((2, 3))),
    combined=lambda: whole(M.CausalMask((4, 4)) & M.LocalMask((4, 4), (1, 0), 0) | M.CausalMask((4, 4), -2)),
    several=lambda: M.MultiHeadMask([M.CausalMask((4, 4))] * 3)[0:2, 0:2, 0:2],
    arrays=lambda: (
        M.make_causal_mask((3, 4), -1), M.make_local_attention_mask((3, 4), (1, 1)), M.make_chunk_attention_mask((4, 4), 2)
    ),
    names=lambda: [
        kernel.get_kernel_name(a, b, c, p) for a in (True, False) for b, p in ((True, "fwd"), (False, "dq")) for c in (True, False)
    ],
)  # fmt: skip


def random_mask(seed):
    """A mask with empty, partial and full blocks."""
    rng = np.random.RandomState(seed)
    seen = np.kron(rng.randint(0, 2, (4, 6)), np.ones((4, 4))).astype(bool)
    seen[rng.randint(0, 16, 3), rng.randint(0, 24, 3)] ^= True
    return seen


def blocks_of(heads, is_dkv=False, shape=(4, 4), **options):
    """The blocks of a mask, without the function that computes it."""
    process = mask_info.process_mask_dkv if is_dkv else mask_info.process_mask
    info, function = process(M.MultiHeadMask(heads), shape, **options)
    return tuple([x for x in info if x is not None]), function is not None


def dynamic_blocks(is_dkv=False, **options):
    process = mask_info.process_dynamic_mask_dkv if is_dkv else mask_info.process_dynamic_mask
    mask = jnp.stack([jnp.asarray(random_mask(i)) for i in range(2)])
    return process(mask, (4, 8), **options)[0][:4]


RANDOM = [M.NumpyMask(random_mask(i)) for i in range(2)]
BY_POSITION = [M.CausalMask((16, 16))] * 2, [M.LocalMask((16, 16), (3, 1), 0)] * 2
CASES.group(
    "mask_info",
    causal=lambda: [blocks_of(BY_POSITION[0], d) for d in (False, True)],
    local=lambda: [blocks_of(BY_POSITION[1], d) for d in (False, True)],
    whole_grid=lambda: [blocks_of(BY_POSITION[1], d, shrink_grid=False) for d in (False, True)],
    full=lambda: blocks_of([M.FullMask((16, 16))]),
    one=lambda: [blocks_of(RANDOM[:1], d, (4, 8)) for d in (False, True)],
    different=lambda: [blocks_of(RANDOM, d, (8, 4)) for d in (False, True)],
    queries_divided=lambda: [blocks_of(RANDOM[:1] * 2, d, q_seq_shards=2) for d in (False, True)],
    heads_divided=lambda: [blocks_of([RANDOM[0]] * 2 + [RANDOM[1]] * 2, d, head_shards=2) for d in (False, True)],
    wide_integers=lambda: blocks_of(RANDOM, downcast_smem_data=False),
    by_position_and_not=lambda: blocks_of([M.CausalMask((16, 24)), RANDOM[0]]),
    dynamic=lambda: [dynamic_blocks(d) for d in (False, True)],
    dynamic_divided=lambda: [dynamic_blocks(d, head_shards=2, q_seq_shards=2) for d in (False, True)],
)  # fmt: skip
