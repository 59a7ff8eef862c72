"""Attention of one query for each sequence, whose keys and values are in pages."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from jax._src import dtypes
from jax._src.api import jit
from jax._src.core import ShapeDtypeStruct
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.lax.lax import cummin
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import arange, full, zeros
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.helpers import when
from jax._src.pallas.memory import MemorySpace as AnyMemory
from jax._src.pallas.mosaic.core import CompilerParams, MemorySpace, PrefetchScalarGridSpec
from jax._src.pallas.mosaic.semaphore_types import SemaphoreType
from jax._src.pallas.ops.tpu.paged_attention import gradient
from jax._src.pallas.ops.tpu.paged_attention.copies import BlockCopies, Pages, Position, Sizes
from jax._src.pallas.ops.tpu.paged_attention.quantization import QuantizedTensor
from jax._src.pallas.ops.tpu.tiles import (
    DEFAULT_MASK_VALUE,
    before_end,
    bounded,
    product,
    wide_product,
)
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import program_id

_MODES = ["kv_head", "batch", None]


class _Options(NamedTuple):
    """What the kernel is the same for: see `paged_attention`."""

    mask_value: float
    cap: float | None
    pages_per_block: int
    megacore_mode: str | None
    inline: bool


def _check(q: Any, k_pages: Any, v_pages: Any, lengths: Any, page_indices: Any) -> None:
    if q.ndim != 3 or k_pages.ndim != 4:
        raise ValueError(
            "q should be [batch, heads, features], and pages [heads of keys, pages, rows, features], but the shapes "
            f"are {q.shape} and {k_pages.shape}"
        )
    batch, heads, depth = q.shape
    if k_pages.shape != v_pages.shape:
        raise ValueError(
            f"k_pages and v_pages must have the same shape. Got {k_pages.shape} and {v_pages.shape}"
        )
    if heads % k_pages.shape[0]:
        raise ValueError(
            f"Number of Q heads must be divisible by number of KV heads. Got {heads} and {k_pages.shape[0]}."
        )
    if k_pages.shape[3] != depth:
        raise ValueError(
            f"head_dim of Q must be the same as that of K/V. Got {depth} and {k_pages.shape[3]}."
        )
    if lengths.shape != (batch,):
        raise ValueError("`lengths` and `q` must have the same batch size")
    if page_indices.ndim != 2 or page_indices.shape[0] != batch:
        raise ValueError("`page_indices` and `q` must have the same batch size")
    if lengths.dtype != np.int32:
        raise ValueError(f"The dtype of `lengths` must be int32. Got {lengths.dtype}")
    if not dtypes.issubdtype(page_indices.dtype, np.integer):
        raise ValueError(f"`page_indices` must be integers. Got {page_indices.dtype}")


def _cores(sizes: Sizes, megacore_mode: str | None) -> int:
    if megacore_mode not in _MODES:
        raise ValueError(f"megacore_mode must be one of {_MODES}")
    if megacore_mode == "kv_head" and sizes.kv_heads % 2:
        raise ValueError("number of KV heads must be even when megacore_mode is 'kv_head'")
    if megacore_mode == "batch" and sizes.batch % 2:
        raise ValueError("batch size must be even when megacore_mode is 'batch'")
    return 1 if megacore_mode is None else 2


@functools.partial(
    jit,
    static_argnames=(
        "pages_per_compute_block", "attn_logits_soft_cap", "mask_value", "megacore_mode", "inline_seq_dim",
    ),
)  # fmt: skip
def paged_attention(
    q: Any, k_pages: Any, v_pages: Any, lengths: Any, page_indices: Any, *,
    mask_value: float = DEFAULT_MASK_VALUE, attn_logits_soft_cap: float | None = None,
    pages_per_compute_block: int, megacore_mode: str | None = None, inline_seq_dim: bool = True,
) -> Any:  # fmt: skip
    """Compute attention of one query for each sequence, whose keys and values are in pages.

    Pages are those of Kwon et al., "Efficient Memory Management for Large Language Model Serving with
    PagedAttention" (2023, arXiv:2309.06180); the sums over blocks of keys those of FlashAttention-2. While a block is
    computed, the next one is copied, which may be the first of another head or sequence.

    Args:
      q: queries, [batch, heads, features]. They are not scaled.
      k_pages, v_pages: pages of keys and values, [heads of keys, pages, rows, features], or `QuantizedTensor`s of
        them. Each head of keys is that of heads / (heads of keys) heads.
      lengths: how many keys each sequence has, [batch], int32. The result of a sequence without keys is 0.
      page_indices: the pages of each sequence, [batch, pages], integers.
      mask_value: the score of keys after the end of a sequence.
      attn_logits_soft_cap: a bound c of the scores: they become c tanh(score / c).
      pages_per_compute_block: how many pages are copied and computed at a time; it divides the pages of a sequence.
      megacore_mode: what the two cores of a chip divide: `"kv_head"`, `"batch"`, or None where there is one core.
      inline_seq_dim: whether the kernel goes through the blocks of a sequence; else the grid has a dimension for them.

    Returns:
      [batch, heads, features]. Its derivatives by queries, pages and scales are computed by a kernel, which adds to
      pages in float32, also to those that several sequences have.

    Raises:
      ValueError: if arrays do not fit, or cores or blocks cannot be divided.
    """
    weights = [x.weight if isinstance(x, QuantizedTensor) else x for x in (k_pages, v_pages)]
    _check(q, *weights, lengths, page_indices)
    if q.shape[0] == 0:
        return q
    per_sequence = page_indices.shape[1]
    if pages_per_compute_block < 1 or per_sequence % pages_per_compute_block:
        raise ValueError(
            "pages_per_compute_block must be positive and divide the pages per sequence. "
            f"Got {pages_per_compute_block} and {per_sequence}."
        )
    options = _Options(
        mask_value, attn_logits_soft_cap, pages_per_compute_block, megacore_mode, inline_seq_dim
    )
    _cores(_sizes(q, weights[0], page_indices, options), megacore_mode)
    return _attention(q, k_pages, v_pages, lengths, page_indices.astype(np.int32), options)


def _sizes(q: Any, pages: Any, page_indices: Any, options: _Options) -> Sizes:
    batch, heads, depth = q.shape
    kv_heads, _, page, _ = pages.shape
    return Sizes(
        batch,
        kv_heads,
        heads // kv_heads,
        depth,
        page,
        page_indices.shape[1],
        options.pages_per_block,
    )


@functools.partial(custom_vjp, nondiff_argnums=(5,))
def _attention(
    q: Any, k_pages: Any, v_pages: Any, lengths: Any, page_indices: Any, options: _Options
) -> Any:
    return _forward(q, k_pages, v_pages, lengths, page_indices, options, False)[0]


def _with_residuals(
    q: Any, k_pages: Any, v_pages: Any, lengths: Any, page_indices: Any, options: _Options
) -> Any:
    out, sums = _forward(q, k_pages, v_pages, lengths, page_indices, options, True)
    return out, (q, k_pages, v_pages, lengths, page_indices, out, sums)


def _backward(options: _Options, residuals: tuple[Any, ...], do: Any) -> Any:
    q, k_pages, v_pages, lengths, page_indices, out, sums = residuals
    pages = [Pages(x, options.pages_per_block) for x in (k_pages, v_pages)]
    sizes = _sizes(q, pages[0].arrays[0], page_indices, options)
    # Cores divide heads: those that divide sequences could add to the same page at a time.
    cores = 2 if options.megacore_mode is not None and sizes.kv_heads % 2 == 0 else 1
    dq, dk, dv = gradient.derivatives(
        (q, do, out, sums), pages, lengths, page_indices, sizes, options.cap, cores
    )
    return dq, pages[0].cotangent(dk), pages[1].cotangent(dv), None, None


_attention.defvjp(_with_residuals, _backward)


def _forward(
    q: Any, k_pages: Any, v_pages: Any, lengths: Any, page_indices: Any, options: _Options, save_residuals: bool
) -> tuple[Any, Any]:  # fmt: skip
    """Return attention, and the logarithms of sums of exponentials, or None: [batch, heads of keys, group, 1]."""
    pages = [Pages(x, options.pages_per_block) for x in (k_pages, v_pages)]
    sizes = _sizes(q, pages[0].arrays[0], page_indices, options)
    batch, kv_heads, group, depth = sizes[:4]
    cores = _cores(sizes, options.megacore_mode)
    by_head = options.megacore_mode == "kv_head"
    sequences, core_heads = (batch, kv_heads // cores) if by_head else (batch // cores, kv_heads)
    grid = (cores, sequences, core_heads)
    if not options.inline:
        grid = (*grid, sizes.pages_per_sequence // sizes.pages_per_block)

    # The first sequence with keys from each one on: its copies are started early.
    following = where(lengths > 0, arange(batch, dtype=np.int32), batch)
    following = cummin(following[::-1])[::-1]
    scalars = [lengths, following.astype(np.int32), page_indices.reshape(-1)]

    def at_core(core: Any, b: Any, h: Any) -> tuple[Any, Any]:
        return (b, core * core_heads + h) if by_head else (core * sequences + b, h)

    kernel = functools.partial(
        _kernel, sizes=sizes, grid=grid, by_head=by_head, pages=pages, options=options,
        save_residuals=save_residuals,
    )  # fmt: skip
    of_query, of_sum = [
        BlockSpec((None, None, group, n), lambda c, b, h, *_: (*at_core(c, b, h), 0, 0))
        for n in (depth, 1)
    ]
    arrays = [x for p in pages for x in p.arrays]
    scratch = [
        *[MemorySpace.VMEM((2, *shape), dtype) for p in pages for shape, dtype in p.buffers],
        SemaphoreType.DMA((2,)),
        MemorySpace.SMEM((1,), np.int32),
        *[MemorySpace.VMEM((group, n), np.float32) for n in (2, depth)],
    ]
    shape = (batch, kv_heads, group)
    results = [(ShapeDtypeStruct((*shape, depth), q.dtype), of_query)]
    if save_residuals:
        results.append((ShapeDtypeStruct((*shape, 1), np.float32), of_sum))
    out_shape, out_specs = zip(*results)
    spec = PrefetchScalarGridSpec(
        len(scalars), grid, [of_query, *[BlockSpec(memory_space=AnyMemory.ANY)] * len(arrays)], out_specs, scratch
    )  # fmt: skip
    semantics = ("parallel",) + ("arbitrary",) * (len(grid) - 1)
    call = pallas_call(
        kernel, out_shape, grid_spec=spec,
        compiler_params=CompilerParams(dimension_semantics=semantics), name="paged_attention",
    )  # fmt: skip
    out, *sums = call(*scalars, q.reshape(*shape, depth), *arrays)
    return out.reshape(q.shape), sums[0] if sums else None


def _kernel(
    lengths_ref: Any, following_ref: Any, indices_ref: Any, q_ref: Any, *refs: Any, sizes: Sizes,
    grid: tuple[int, ...], by_head: bool, pages: list[Pages], options: _Options, save_residuals: bool,
) -> None:  # fmt: skip
    rest = iter(refs)
    sources = [p.take(rest) for p in pages]
    o_ref = next(rest)
    sums_ref = next(rest) if save_residuals else None
    buffers = [p.take(rest) for p in pages]
    sems, slot_ref, sums_of_block_ref, acc_ref = rest
    # Maxima of scores and sums of exponentials are columns of one array: each would fill whole lanes.
    m_ref, l_ref = [sums_of_block_ref.at[:, n : n + 1] for n in range(2)]
    core, sequence, head = program_id(0), program_id(1), program_id(2)
    step = np.int32(0) if options.inline else program_id(3)
    _, sequences, core_heads = grid[:3]
    is_first = (sequence == 0) & (head == 0) & (step == 0)
    first_sequence = np.int32(0) if by_head else core * sequences
    end_sequence = first_sequence + sequences
    sequence = first_sequence + sequence
    first_head = core * core_heads if by_head else np.int32(0)
    head = first_head + head
    length = lengths_ref[sequence]
    blocks = lax.div(length + (sizes.block - 1), np.int32(sizes.block))

    copies = BlockCopies(sources, buffers, sems, indices_ref, sizes)

    def sequence_from(number: Any) -> tuple[Any, Any]:
        """Return the first sequence with keys from a number on, and whether this core has one."""
        found = following_ref[lax.min(number, np.int32(sizes.batch - 1))]
        return found, (number < end_sequence) & (found < end_sequence)

    @when(is_first)
    def _() -> None:
        slot_ref[0] = np.int32(0)
        found, exists = sequence_from(first_sequence)
        when(exists)(lambda: copies.start(Position(found, first_head, np.int32(0)), np.int32(0)))

    @when(step == 0)
    def _() -> None:
        m_ref[...] = full(m_ref.shape, -np.inf, np.float32)
        l_ref[...] = zeros(l_ref.shape, np.float32)
        acc_ref[...] = zeros(acc_ref.shape, np.float32)

    def work(i: Any) -> None:
        slot = slot_ref[0]
        other = 1 - slot
        is_last = i == blocks - 1
        is_last_head = is_last & (head == first_head + core_heads - 1)
        found, exists = sequence_from(sequence + 1)
        following = Position(
            where(is_last_head, found, sequence),
            where(is_last_head, first_head, where(is_last, head + 1, head)),
            where(is_last, 0, i + 1),
        )
        when(~is_last_head | exists)(lambda: copies.start(following, other))
        k, v = copies.wait(Position(sequence, head, i), slot)
        left = length - i * sizes.block
        s, _ = bounded(wide_product(q_ref[...], k, (1, 1)), options.cap)
        s = where(lax.broadcasted_iota(np.int32, s.shape, 1) < left, s, options.mask_value)
        m_old = m_ref[...]
        m = ufuncs.maximum(m_old, s.max(1, keepdims=True))
        p, scale = ufuncs.exp(s - m), ufuncs.exp(m_old - m)
        m_ref[...] = m
        l_ref[...] = l_ref[...] * scale + p.sum(1, keepdims=True)
        v = before_end(v, left, 0)
        acc_ref[...] = acc_ref[...] * scale + product(p.astype(v.dtype), v, (1, 0))
        slot_ref[0] = other

    def finish() -> None:
        total = l_ref[...]
        out = acc_ref[...] / where(total == 0, 1.0, total)
        o_ref[...] = out.astype(o_ref.dtype)
        if sums_ref is not None:
            sums_ref[...] = m_ref[...] + ufuncs.log(where(total == 0, 1.0, total))

    if options.inline:
        fori_loop(np.int32(0), blocks, lambda i, _: work(i), None)
        finish()
    else:
        when(step < blocks)(lambda: work(step))
        when(step == grid[3] - 1)(finish)
