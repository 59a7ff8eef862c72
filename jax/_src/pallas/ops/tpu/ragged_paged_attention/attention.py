"""Attention of sequences with any numbers of queries, whose keys and values are in pages."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from jax._src.api import jit
from jax._src.core import ShapeDtypeStruct
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import arange, full, zeros, zeros_like
from jax._src.numpy.searching import searchsorted
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.helpers import cdiv, when
from jax._src.pallas.memory import MemorySpace as AnyMemory
from jax._src.pallas.mosaic.copies import make_async_copy
from jax._src.pallas.mosaic.core import CompilerParams, MemorySpace, PrefetchScalarGridSpec
from jax._src.pallas.mosaic.semaphore_types import SemaphoreType
from jax._src.pallas.ops.tpu.ragged_paged_attention.checks import static_validate_inputs
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE, product
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import program_id


class _Settings(NamedTuple):
    sm_scale: float
    window: int | None
    cap: float | None
    mask_value: float
    scales: tuple[float | None, float | None]
    pages: int
    pages_per_sequence: int


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
      Like q; tokens of no sequence have 0.

    Raises:
      ValueError: if arrays or options do not fit.
    """
    static_validate_inputs(
        q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs, sliding_window=sliding_window,
        soft_cap=soft_cap, num_kv_pages_per_block=num_kv_pages_per_block,
        num_queries_per_block=num_queries_per_block, vmem_limit_bytes=vmem_limit_bytes,
    )  # fmt: skip
    tokens, heads, depth = q.shape
    if tokens == 0:
        return q
    _, page, combined, _ = kv_pages.shape
    per_sequence = page_indices.shape[1]
    pages = num_kv_pages_per_block or min(per_sequence, max(1, 256 // page))
    rows = num_queries_per_block or min(32, tokens)
    settings = _Settings(
        sm_scale, sliding_window, soft_cap, DEFAULT_MASK_VALUE if mask_value is None else mask_value,
        (k_scale, v_scale), pages, per_sequence,
    )  # fmt: skip
    blocks = cdiv(tokens, rows)
    # The sequences that have queries in each block.
    count = num_seqs[0].astype(np.int32)
    number = arange(kv_lens.shape[0], dtype=np.int32)
    end = where(number < count, cu_q_lens[1:], np.iinfo(np.int32).max)
    start = where(number < count, cu_q_lens[:-1], np.iinfo(np.int32).max)
    at = arange(blocks, dtype=np.int32) * rows
    first = searchsorted(end, at, side="right").astype(np.int32)
    after = ufuncs.minimum(searchsorted(start, at + rows, side="left").astype(np.int32), count)
    scalars = [kv_lens, cu_q_lens, page_indices.reshape(-1), first, after]
    of_queries = BlockSpec((rows, heads, depth), lambda i, *_: (i, 0, 0))
    kv_heads = combined // 2
    rows_of_head = rows * heads // kv_heads
    spec = PrefetchScalarGridSpec(
        len(scalars),
        (blocks,),
        [of_queries, BlockSpec(memory_space=AnyMemory.ANY)],
        of_queries,
        [
            MemorySpace.VMEM((2, pages, page, combined, depth), kv_pages.dtype),
            SemaphoreType.DMA((2,)),
            *[MemorySpace.VMEM((kv_heads, rows_of_head, n), np.float32) for n in (1, 1, depth)],
        ],
    )
    call = pallas_call(
        functools.partial(_kernel, settings=settings), ShapeDtypeStruct(q.shape, q.dtype), grid_spec=spec,
        compiler_params=CompilerParams(
            dimension_semantics=("arbitrary",), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="ragged_paged_attention",
    )  # fmt: skip
    return call(*scalars, q, kv_pages)


def _kernel(
    lens_ref: Any, starts_ref: Any, pages_ref: Any, first_ref: Any, after_ref: Any, q_ref: Any, kv_hbm: Any,
    o_ref: Any, buffer: Any, sems: Any, m_ref: Any, l_ref: Any, acc_ref: Any, *, settings: _Settings,
) -> None:  # fmt: skip
    block = program_id(0)
    rows, heads, depth = q_ref.shape
    _, pages, page, combined, _ = buffer.shape
    kv_heads = combined // 2
    group, keys = heads // kv_heads, pages * page
    start = block * rows
    # Finite: mask_value may be -inf.
    m_ref[...] = full(m_ref.shape, DEFAULT_MASK_VALUE, np.float32)
    l_ref[...] = zeros(l_ref.shape, np.float32)
    acc_ref[...] = zeros(acc_ref.shape, np.float32)

    def sequence(i: Any, _: Any) -> None:
        length, q_start, q_end = lens_ref[i], starts_ref[i], starts_ref[i + 1]
        # The position of a token in its sequence is that in q plus this.
        shift = length - q_end
        last = lax.min(q_end, start + rows) - 1
        blocks = lax.div(last + shift, np.int32(keys)) + 1
        first = np.int32(0)
        if settings.window is not None:
            lowest = lax.max(q_start, start) + shift - (settings.window - 1)
            first = lax.div(lax.max(lowest, np.int32(0)), np.int32(keys))

        def copies(j: Any, slot: Any) -> list[Any]:
            final = lax.div(lax.max(length - 1, np.int32(0)), np.int32(page))
            out = []
            for p in range(pages):
                at = i * settings.pages_per_sequence + lax.min(j * pages + p, final)
                out.append(
                    make_async_copy(kv_hbm.at[pages_ref[at]], buffer.at[slot, p], sems.at[slot])
                )
            return out

        def begin(j: Any, slot: Any) -> None:
            for copy in copies(j, slot):
                copy.start()

        when(first < blocks)(lambda: begin(first, np.int32(0)))

        def step(j: Any, _: Any) -> None:
            slot = lax.rem(j - first, np.int32(2))
            when(j + 1 < blocks)(lambda: begin(j + 1, 1 - slot))
            for copy in copies(j, slot):
                copy.wait()
            shape = (rows * group, keys)
            token = start + lax.div(lax.broadcasted_iota(np.int32, shape, 0), np.int32(group))
            key = j * keys + lax.broadcasted_iota(np.int32, shape, 1)
            position = token + shift
            seen = (token >= q_start) & (token < q_end) & (key <= position)
            if settings.window is not None:
                seen = seen & (key > position - settings.window)
            for h in range(kv_heads):
                k, v = [_rows(buffer, slot, 2 * h + o, settings.scales[o]) for o in (0, 1)]
                q = q_ref[:, h * group : (h + 1) * group, :].astype(np.float32)
                s = product(q.reshape(rows * group, depth), k, (1, 1)) * settings.sm_scale
                if settings.cap is not None:
                    s = settings.cap * ufuncs.tanh(s / settings.cap)
                s = where(seen, s, settings.mask_value)
                m_old = m_ref[h]
                m = ufuncs.maximum(m_old, s.max(1, keepdims=True))
                p, scale = where(seen, ufuncs.exp(s - m), 0.0), ufuncs.exp(m_old - m)
                m_ref[h] = m
                l_ref[h] = l_ref[h] * scale + p.sum(1, keepdims=True)
                # Rows after the end of a sequence may have no values.
                inside = j * keys + lax.broadcasted_iota(np.int32, v.shape, 0) < length
                v = where(inside, v, zeros_like(v))
                acc_ref[h] = acc_ref[h] * scale + product(p, v, (1, 0))

        fori_loop(first, blocks, step, None)

    fori_loop(first_ref[block], after_ref[block], sequence, None)
    for h in range(kv_heads):
        total = l_ref[h]
        out = acc_ref[h] / where(total == 0, 1.0, total)
        out = out.reshape(rows, group, depth).astype(o_ref.dtype)
        o_ref[:, h * group : (h + 1) * group, :] = out


def _rows(buffer: Any, slot: Any, head: int, scale: float | None) -> Any:
    """Return the keys or values of a head in a block, [rows, features], in float32."""
    _, pages, page, _, depth = buffer.shape
    x = buffer[slot].astype(np.float32)[:, :, head, :].reshape(pages * page, depth)
    return x if scale is None else x * scale
