"""Attention of sequences with any numbers of queries, whose keys and values are in pages."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src.api import jit
from jax._src.core import ShapeDtypeStruct
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import full, zeros
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.helpers import cdiv
from jax._src.pallas.memory import MemorySpace as AnyMemory
from jax._src.pallas.mosaic.core import CompilerParams, MemorySpace, PrefetchScalarGridSpec
from jax._src.pallas.mosaic.semaphore_types import SemaphoreType
from jax._src.pallas.ops.tpu.ragged_paged_attention.blocks import (
    Block,
    Ragged,
    Settings,
    for_each_block,
    rows_of_head,
    sequences_of_blocks,
)
from jax._src.pallas.ops.tpu.ragged_paged_attention.checks import static_validate_inputs
from jax._src.pallas.ops.tpu.ragged_paged_attention.gradient import derivatives
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE, product
from jax._src.pallas.pallas_call import pallas_call


@functools.partial(
    jit,
    static_argnames=(
        "sm_scale", "mask_value", "num_kv_pages_per_block", "num_queries_per_block", "vmem_limit_bytes",
        "sliding_window", "soft_cap", "k_scale", "v_scale",
    ),
)  # fmt: skip
def ragged_paged_attention(
    q: Any, kv_pages: Any, kv_lens: Any, page_indices: Any, cu_q_lens: Any, num_seqs: Any, *,
    sm_scale: float = 1.0, sliding_window: int | None = None, soft_cap: float | None = None,
    mask_value: float | None = DEFAULT_MASK_VALUE, k_scale: float | None = None, v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None, num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> Any:  # fmt: skip
    """Compute causal attention of sequences, each with any number of queries at its end.

    Pages are those of Kwon et al., "PagedAttention" (2023, arXiv:2309.06180), sums those of FlashAttention-2. A block of
    queries goes through the sequences that have queries in it, and through their blocks of keys.

    Args:
      q: the queries of all sequences, one after the other, [tokens, heads, features].
      kv_pages: pages of keys and values, [pages, rows, 2 heads of keys, features]: of each head first the key.
      kv_lens: how many keys each sequence has, [sequences], int32.
      page_indices: the pages of each sequence, [sequences, pages], int32.
      cu_q_lens: where the queries of each sequence start, and the end of the last, [sequences + 1], int32.
      num_seqs: how many sequences there are, [1]; what follows in the other arrays has no meaning.
      sm_scale: a factor of the scores.
      sliding_window: how many keys up to its own position a query sees; by default all.
      soft_cap: a bound c of the scores: they become c tanh(score / c).
      mask_value: the score of keys that a query does not see; their weight is 0 whatever it is.
      k_scale, v_scale: factors of keys and values.
      num_kv_pages_per_block, num_queries_per_block: how many pages and queries are computed at a time.
      vmem_limit_bytes: how much vector memory the kernel may use.

    Returns:
      Like q; tokens of no sequence have 0. Its derivatives by queries and pages are computed by a kernel, which adds to
      pages in float32, also to those that several sequences have.

    Raises:
      ValueError: if arrays or options do not fit.
    """
    static_validate_inputs(
        q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs, sliding_window=sliding_window,
        soft_cap=soft_cap, num_kv_pages_per_block=num_kv_pages_per_block,
        num_queries_per_block=num_queries_per_block, vmem_limit_bytes=vmem_limit_bytes,
    )  # fmt: skip
    tokens = q.shape[0]
    if tokens == 0:
        return q
    page = kv_pages.shape[1]
    per_sequence = page_indices.shape[1]
    pages = num_kv_pages_per_block or min(per_sequence, max(1, 256 // page))
    rows = num_queries_per_block or min(32, tokens)
    settings = Settings(
        sm_scale, sliding_window, soft_cap, DEFAULT_MASK_VALUE if mask_value is None else mask_value,
        (k_scale, v_scale), pages, per_sequence, rows, vmem_limit_bytes,
    )  # fmt: skip
    ragged = sequences_of_blocks(q, kv_lens, page_indices, cu_q_lens, num_seqs, rows)
    return _attention(q, kv_pages, ragged, settings)


@functools.partial(custom_vjp, nondiff_argnums=(3,))
def _attention(q: Any, kv_pages: Any, ragged: Ragged, settings: Settings) -> Any:
    return _forward(q, kv_pages, ragged, settings, False)[0]


def _with_residuals(q: Any, kv_pages: Any, ragged: Ragged, settings: Settings) -> Any:
    out, sums = _forward(q, kv_pages, ragged, settings, True)
    return out, (q, kv_pages, ragged, out, sums)


def _backward(settings: Settings, residuals: tuple[Any, ...], do: Any) -> Any:
    q, kv_pages, ragged, out, sums = residuals
    dq, dkv = derivatives((q, do, out, sums), kv_pages, ragged, settings)
    return dq, dkv.astype(kv_pages.dtype), None


_attention.defvjp(_with_residuals, _backward)


def _forward(
    q: Any, kv_pages: Any, ragged: Ragged, settings: Settings, save_residuals: bool
) -> tuple[Any, Any]:
    """Return attention, and the logarithms of sums of exponentials, or None: [blocks, heads of keys, rows, 1]."""
    tokens, heads, depth = q.shape
    _, page, combined, _ = kv_pages.shape
    rows, kv_heads = settings.rows, combined // 2
    blocks, rows_of_head = cdiv(tokens, rows), rows * heads // kv_heads
    of_queries = BlockSpec((rows, heads, depth), lambda i, *_: (i, 0, 0))
    results = [(ShapeDtypeStruct(q.shape, q.dtype), of_queries)]
    if save_residuals:
        sums = ShapeDtypeStruct((blocks, kv_heads, rows_of_head, 1), np.float32)
        results.append((sums, BlockSpec((None, *sums.shape[1:]), lambda i, *_: (i, 0, 0, 0))))
    out_shape, out_specs = zip(*results)
    spec = PrefetchScalarGridSpec(
        len(ragged),
        (blocks,),
        [of_queries, BlockSpec(memory_space=AnyMemory.ANY)],
        out_specs,
        [
            MemorySpace.VMEM((2, settings.pages, page, combined, depth), kv_pages.dtype),
            SemaphoreType.DMA((2,)),
            *[MemorySpace.VMEM((kv_heads, rows_of_head, n), np.float32) for n in (1, 1, depth)],
        ],
    )
    call = pallas_call(
        functools.partial(_kernel, settings=settings, save_residuals=save_residuals), out_shape, grid_spec=spec,
        compiler_params=CompilerParams(
            dimension_semantics=("arbitrary",), vmem_limit_bytes=settings.vmem_limit_bytes
        ),
        name="ragged_paged_attention",
    )  # fmt: skip
    out, *sums = call(*ragged, q, kv_pages)
    return out, sums[0] if sums else None


def _kernel(
    lens_ref: Any, starts_ref: Any, pages_ref: Any, first_ref: Any, after_ref: Any, q_ref: Any, kv_hbm: Any,
    o_ref: Any, *refs: Any, settings: Settings, save_residuals: bool,
) -> None:  # fmt: skip
    sums_ref = refs[0] if save_residuals else None
    buffer, sems, m_ref, l_ref, acc_ref = refs[-5:]
    rows, heads, depth = q_ref.shape
    kv_heads = buffer.shape[3] // 2
    group = heads // kv_heads
    # Finite: mask_value may be -inf.
    m_ref[...] = full(m_ref.shape, DEFAULT_MASK_VALUE, np.float32)
    l_ref[...] = zeros(l_ref.shape, np.float32)
    acc_ref[...] = zeros(acc_ref.shape, np.float32)

    def work(block: Block) -> None:
        seen = block.seen(group)
        for h in range(kv_heads):
            k, v = block.keys_and_values(h)
            s, _ = settings.scores(rows_of_head(q_ref, h, group), k)
            s = where(seen, s, settings.mask_value)
            m_old = m_ref[h]
            m = ufuncs.maximum(m_old, s.max(1, keepdims=True))
            p, scale = where(seen, ufuncs.exp(s - m), 0.0), ufuncs.exp(m_old - m)
            m_ref[h] = m
            l_ref[h] = l_ref[h] * scale + p.sum(1, keepdims=True)
            acc_ref[h] = acc_ref[h] * scale + product(p, v, (1, 0))

    refs = (lens_ref, starts_ref, pages_ref, first_ref, after_ref)
    for_each_block(refs, rows, kv_hbm, buffer, sems, settings, work)
    for h in range(kv_heads):
        total = l_ref[h]
        total = where(total == 0, 1.0, total)
        out = (acc_ref[h] / total).reshape(rows, group, depth).astype(o_ref.dtype)
        o_ref[:, h * group : (h + 1) * group, :] = out
        if sums_ref is not None:
            sums_ref[h] = m_ref[h] + ufuncs.log(total)
