"""Attention by the blocks of a mask: programs whose results must be the reference's."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as kernel,
    splash_attention_mask as masks,
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
