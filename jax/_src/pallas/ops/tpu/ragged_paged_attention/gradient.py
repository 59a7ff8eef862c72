"""The derivative of attention of ragged sequences: one kernel, which adds to the pages of derivatives."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src.core import ShapeDtypeStruct
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import zeros
from jax._src.numpy.padding import pad
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.helpers import cdiv, when
from jax._src.pallas.memory import MemorySpace as AnyMemory
from jax._src.pallas.mosaic.core import CompilerParams, MemorySpace, PrefetchScalarGridSpec
from jax._src.pallas.mosaic.semaphore_types import SemaphoreType
from jax._src.pallas.ops.tpu.paged_attention.gradient import add_to_pages
from jax._src.pallas.ops.tpu.ragged_paged_attention.blocks import (
    Block,
    Ragged,
    Settings,
    for_each_block,
    rows_of_head,
)
from jax._src.pallas.ops.tpu.tiles import product, row_products
from jax._src.pallas.pallas_call import pallas_call


def derivatives(
    queries: tuple[Any, ...], kv_pages: Any, ragged: Ragged, settings: Settings
) -> tuple[Any, Any]:
    """Return the derivatives by queries, and by pages in float32.

    Args:
      queries: queries, the cotangent of the result, the result, all [tokens, heads, features], and the logarithms of
        sums of exponentials, [blocks, heads of keys, rows, 1].
      kv_pages: the pages.
      ragged, settings: as for the kernel of attention.
    """
    q, do, out, sums = queries
    tokens, heads, depth = q.shape
    _, page, combined, _ = kv_pages.shape
    rows, kv_heads = settings.rows, combined // 2
    blocks, group = cdiv(tokens, rows), heads // kv_heads
    delta = pad(row_products(out, do), ((0, blocks * rows - tokens), (0, 0)))
    delta = delta.reshape(blocks, rows, kv_heads, group).swapaxes(1, 2).reshape(sums.shape)
    of_queries = BlockSpec((rows, heads, depth), lambda i, *_: (i, 0, 0))
    of_sums = BlockSpec((None, *sums.shape[1:]), lambda i, *_: (i, 0, 0, 0))
    anywhere = BlockSpec(memory_space=AnyMemory.ANY)
    block = (settings.pages, page, combined, depth)
    spec = PrefetchScalarGridSpec(
        len(ragged),
        (blocks,),
        [of_queries, of_queries, of_sums, of_sums, anywhere, anywhere],
        [of_queries, anywhere],
        [
            MemorySpace.VMEM((2, *block), kv_pages.dtype),
            SemaphoreType.DMA((2,)),
            MemorySpace.VMEM((kv_heads, rows * group, depth), np.float32),
            MemorySpace.VMEM(block, np.float32),
            MemorySpace.VMEM((1, *block[1:]), np.float32),
            SemaphoreType.DMA((1,)),
        ],
    )
    operands = [*ragged, q, do, sums, delta, kv_pages]
    call = pallas_call(
        functools.partial(_kernel, settings=settings),
        [ShapeDtypeStruct(q.shape, q.dtype), ShapeDtypeStruct(kv_pages.shape, np.float32)],
        grid_spec=spec,
        input_output_aliases={len(operands): 1},
        # Blocks of queries of one sequence add to the same pages.
        compiler_params=CompilerParams(
            dimension_semantics=("arbitrary",), vmem_limit_bytes=settings.vmem_limit_bytes
        ),
        name="ragged_paged_attention_backward",
    )
    dq, dkv = call(*operands, zeros(kv_pages.shape, np.float32))
    return dq, dkv


def _kernel(
    lens_ref: Any, starts_ref: Any, pages_ref: Any, first_ref: Any, after_ref: Any, q_ref: Any, do_ref: Any,
    sums_ref: Any, delta_ref: Any, kv_hbm: Any, _: Any, dq_ref: Any, dkv_hbm: Any, buffer: Any, sems: Any,
    acc_ref: Any, block_ref: Any, page_ref: Any, page_sems: Any, *, settings: Settings,
) -> None:  # fmt: skip
    rows, heads, depth = q_ref.shape
    pages, page, combined, _ = block_ref.shape
    kv_heads = combined // 2
    group = heads // kv_heads
    acc_ref[...] = zeros(acc_ref.shape, np.float32)

    def work(block: Block) -> None:
        seen, own = block.seen(group), block.of_sequence(group, depth)
        for h in range(kv_heads):
            k, v = block.keys_and_values(h, finite=True)
            # Rows of other sequences and beyond the last token may be NaN.
            q, do = [where(own, rows_of_head(x, h, group), 0.0) for x in (q_ref, do_ref)]
            s, slope = settings.scores(q, k)
            p = where(seen, ufuncs.exp(s - sums_ref[h]), 0.0)
            ds = where(seen, p * (product(do, v, (1, 1)) - delta_ref[h]), 0.0)
            if slope is not None:
                ds = ds * slope
            ds = ds * settings.sm_scale
            acc_ref[h] += product(ds, k, (1, 0))
            of_keys = product(ds, q, (0, 0)), product(p, do, (0, 0))
            for offset, (x, scale) in enumerate(zip(of_keys, settings.scales, strict=True)):
                x = x if scale is None else x * scale
                block_ref[:, :, 2 * h + offset, :] = x.reshape(pages, page, depth)
        for n in range(pages):
            when(block.key + n * page < block.length)(functools.partial(add, block, n))

    def add(block: Block, n: int) -> None:
        """Add derivatives to those of a page."""
        target = dkv_hbm.at[pages_ref[block.first_page + n]]
        add_to_pages([target], [block_ref.at[n]], page_ref, page_sems)

    refs = (lens_ref, starts_ref, pages_ref, first_ref, after_ref)
    for_each_block(refs, rows, kv_hbm, buffer, sems, settings, work)
    for h in range(kv_heads):
        dq = acc_ref[h].reshape(rows, group, depth).astype(dq_ref.dtype)
        dq_ref[:, h * group : (h + 1) * group, :] = dq
