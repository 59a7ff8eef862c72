"""The benchmarks of kernels in Python (Pallas), interpreted and lowered for TPUs and GPUs."""

import functools
import subprocess
import sys
import tempfile

import numpy as np
from registry import timed

import jax
import jax.numpy as jnp


def blocked_product(x, y, size=128):
    from jax.experimental import pallas as pl

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] @ y_ref[...]

    block = lambda at: pl.BlockSpec((size, size), at)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype),
        grid=(x.shape[0] // size, y.shape[1] // size, x.shape[1] // size),
        in_specs=[block(lambda i, j, k: (i, k)), block(lambda i, j, k: (k, j))],
        out_specs=block(lambda i, j, k: (i, j)),
        interpret=True,
    )(x, y)


def flash_attention(q, k, v, size=128):
    """The algorithm of FlashAttention (Dao et al., 2022, arXiv:2205.14135)."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(q_ref, k_ref, v_ref, o_ref, max_ref, sum_ref, out_ref):
        j = pl.program_id(2)

        @pl.when(j == 0)
        def _():
            max_ref[...] = jnp.full_like(max_ref, -1e30)
            sum_ref[...] = jnp.zeros_like(sum_ref)
            out_ref[...] = jnp.zeros_like(out_ref)

        scores = q_ref[...] @ k_ref[...].T
        greatest = jnp.maximum(max_ref[...], scores.max(-1, keepdims=True))
        weights, scale = jnp.exp(scores - greatest), jnp.exp(max_ref[...] - greatest)
        sum_ref[...] = sum_ref[...] * scale + weights.sum(-1, keepdims=True)
        out_ref[...] = out_ref[...] * scale + weights @ v_ref[...]
        max_ref[...] = greatest

        @pl.when(j == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = out_ref[...] / sum_ref[...]

    heads, length, depth = q.shape
    queries = pl.BlockSpec((None, size, depth), lambda h, i, j: (h, i, 0))
    keys = pl.BlockSpec((None, size, depth), lambda h, i, j: (h, j, 0))
    scratch = [pltpu.VMEM((size, n), jnp.float32) for n in (1, 1, depth)]
    return pl.pallas_call(
        kernel,
        out_shape=q,
        grid=(heads, length // size, length // size),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        scratch_shapes=scratch,
        interpret=True,
    )(q, k, v)


def random(*shape):
    return jnp.asarray(np.random.RandomState(0).randn(*shape), jnp.float32)


PROGRAMS = {
    "a product in 64 blocks": (blocked_product, ((512, 512),) * 2),
    "a product in 64 blocks of 2x2": (functools.partial(blocked_product, size=2), ((8, 8),) * 2),
    "flash attention in 64 blocks": (flash_attention, ((4, 512, 64),) * 3),
}


def compiled_call(fun, shapes):
    jitted, args = jax.jit(fun), [random(*s) for s in shapes]
    return lambda: jitted(*args)


def lowering(fun, shapes):
    args = [random(*s) for s in shapes]
    return lambda: jax.jit(lambda *xs: fun(*xs)).lower(*args)


def lower_derivative(attention, x, platform):
    derivative = jax.grad(lambda q, k, v: attention(q, k, v).sum(), (0, 1, 2))
    return jax.jit(derivative).trace(x, x, x).lower(lowering_platforms=(platform,))


for _name, (_fun, _shapes) in PROGRAMS.items():
    timed("kernels", _name, mark=0.3)(functools.partial(compiled_call, _fun, _shapes))
timed("kernels", "trace and lower flash attention", mark=0.5)(
    functools.partial(lowering, *PROGRAMS["flash attention in 64 blocks"])
)


@timed("kernels", "trace and lower splash attention and its derivative for TPUs", mark=0.5)
def lower_splash_attention():
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel as splash,
        splash_attention_mask as masks,
    )

    mask = masks.MultiHeadMask([masks.CausalMask((1024, 1024))] * 4)
    names = "q kv kv_compute q_dkv kv_dkv kv_dkv_compute q_dq kv_dq".split()
    sizes = splash.BlockSizes(**{f"block_{name}": 128 for name in names})
    attention = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=sizes)
    x = jax.ShapeDtypeStruct((4, 1024, 128), jnp.float32)
    return functools.partial(lower_derivative, attention, x, "tpu")


@timed("kernels", "trace and lower flash attention and its derivative for GPUs", mark=0.5)
def lower_attention_for_gpus():
    from jax.experimental.pallas.ops.gpu.attention import BlockSizes, mha

    sizes = BlockSizes(*[64] * 6)
    attention = functools.partial(mha, segment_ids=None, causal=True, block_sizes=sizes)
    x = jax.ShapeDtypeStruct((2, 1024, 4, 64), jnp.bfloat16)
    return functools.partial(lower_derivative, attention, x, "cuda")


@timed("kernels", "import jax and jax.experimental.pallas", mark=0.6)
def import_pallas():
    def call():
        with tempfile.TemporaryDirectory() as elsewhere:
            program = "import jax.experimental.pallas"
            subprocess.run([sys.executable, "-c", program], cwd=elsewhere, check=True)

    return call
