"""The derivative of attention over pages: one kernel, which adds to the pages of derivatives."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src.core import ShapeDtypeStruct
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import zeros
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.helpers import when
from jax._src.pallas.memory import MemorySpace as AnyMemory
from jax._src.pallas.mosaic.copies import make_async_copy
from jax._src.pallas.mosaic.core import CompilerParams, MemorySpace, PrefetchScalarGridSpec
from jax._src.pallas.mosaic.semaphore_types import SemaphoreType
from jax._src.pallas.ops.tpu.paged_attention.copies import BlockCopies, Pages, Position, Sizes
from jax._src.pallas.ops.tpu.tiles import before_end, bounded, row_products, wide_product
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import program_id


def derivatives(
    queries: tuple[Any, ...], pages: list[Pages], lengths: Any, page_indices: Any, sizes: Sizes, cap: float | None,
    cores: int,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the derivatives by queries, and by the pages of keys and values in float32.

    Args:
      queries: queries, the cotangent of the result, the result, all [batch, heads, features], and the logarithms of
        sums of exponentials, [batch, heads of keys, group, 1].
      pages: the pages of keys and values.
      lengths, page_indices, cap: as for the kernel of attention.
      sizes: sizes of the arrays.
      cores: how many cores divide the heads of keys.
    """
    q, do, out, sums = queries
    shape = (sizes.batch, sizes.kv_heads, sizes.group)
    delta = row_products(out, do).reshape(*shape, 1)
    of_query, of_sum = [
        BlockSpec((None, None, sizes.group, n), lambda h, b, *_: (b, h, 0, 0))
        for n in (sizes.depth, 1)
    ]
    anywhere = BlockSpec(memory_space=AnyMemory.ANY)
    arrays = [x for p in pages for x in p.arrays]
    of_pages = ShapeDtypeStruct(arrays[0].shape, np.float32)
    scalars = [lengths, page_indices.reshape(-1)]
    operands = [q.reshape(*shape, -1), do.reshape(*shape, -1), sums, delta, *arrays]
    page = (sizes.page, sizes.depth)
    scratch = [
        *[MemorySpace.VMEM((2, *shape), dtype) for p in pages for shape, dtype in p.buffers],
        SemaphoreType.DMA((2,)),
        MemorySpace.VMEM((sizes.group, sizes.depth), np.float32),
        MemorySpace.VMEM((2, sizes.pages_per_block, *page), np.float32),
        MemorySpace.VMEM((2, *page), np.float32),
        SemaphoreType.DMA((2,)),
    ]
    spec = PrefetchScalarGridSpec(
        len(scalars),
        (sizes.kv_heads, sizes.batch),
        [of_query, of_query, of_sum, of_sum, *[anywhere] * (len(arrays) + 2)],
        [of_query, anywhere, anywhere],
        scratch,
    )
    first = len(scalars) + len(operands)
    call = pallas_call(
        functools.partial(_kernel, sizes=sizes, pages=pages, cap=cap),
        [ShapeDtypeStruct((*shape, sizes.depth), q.dtype), of_pages, of_pages],
        grid_spec=spec,
        input_output_aliases={first: 1, first + 1: 2},
        compiler_params=CompilerParams(
            dimension_semantics=("parallel" if cores > 1 else "arbitrary", "arbitrary")
        ),
        name="paged_attention_backward",
    )
    start = [zeros(of_pages.shape, np.float32) for _ in range(2)]
    dq, dk, dv = call(*scalars, *operands, *start)
    return dq.reshape(q.shape), dk, dv


def _kernel(
    lengths_ref: Any, indices_ref: Any, q_ref: Any, do_ref: Any, sums_ref: Any, delta_ref: Any, *refs: Any,
    sizes: Sizes, pages: list[Pages], cap: float | None,
) -> None:  # fmt: skip
    rest = iter(refs)
    sources = [p.take(rest) for p in pages]
    next(rest), next(rest)  # the zeros that the results have at first
    dq_ref, dk_hbm, dv_hbm = next(rest), next(rest), next(rest)
    buffers = [p.take(rest) for p in pages]
    sems, acc_ref, block_ref, page_ref, page_sems = rest
    head, sequence = program_id(0), program_id(1)
    length = lengths_ref[sequence]
    blocks = lax.div(length + (sizes.block - 1), np.int32(sizes.block))
    acc_ref[...] = zeros(acc_ref.shape, np.float32)
    copies = BlockCopies(sources, buffers, sems, indices_ref, sizes)

    def step(i: Any, _: Any) -> None:
        at, slot = Position(sequence, head, i), lax.rem(i, np.int32(2))
        when(i + 1 < blocks)(lambda: copies.start(at._replace(block=i + 1), 1 - slot))
        left = length - i * sizes.block
        # What is beyond the end of a sequence may be NaN.
        k, v = [before_end(x, left, 0) for x in copies.wait(at, slot)]
        q, do = q_ref[...], do_ref[...]
        s, slope = bounded(wide_product(q, k, (1, 1)), cap)
        inside = lax.broadcasted_iota(np.int32, s.shape, 1) < left
        p = where(inside, ufuncs.exp(s - sums_ref[...]), 0.0)
        ds = p * (wide_product(do, v, (1, 1)) - delta_ref[...])
        if slope is not None:
            ds = ds * slope
        acc_ref[...] += wide_product(ds.astype(k.dtype), k, (1, 0))
        shape = block_ref.shape[1:]
        block_ref[0] = wide_product(ds.astype(q.dtype), q, (0, 0)).reshape(shape)
        block_ref[1] = wide_product(p.astype(do.dtype), do, (0, 0)).reshape(shape)
        for n in range(sizes.pages_per_block):
            page = indices_ref[at.first_page(sizes) + n]
            when(n * sizes.page < left)(functools.partial(add, n, page))

    def add(n: int, page: Any) -> None:
        """Add derivatives to those of a page, which other sequences may have, too: no two are added at a time."""
        targets = [x.at[head, page] for x in (dk_hbm, dv_hbm)]
        add_to_pages(targets, [block_ref.at[i, n] for i in range(2)], page_ref, page_sems)

    when(blocks > 0)(lambda: copies.start(Position(sequence, head, np.int32(0)), np.int32(0)))
    fori_loop(np.int32(0), blocks, step, None)
    dq_ref[...] = acc_ref[...].astype(dq_ref.dtype)


def add_to_pages(targets: list[Any], terms: list[Any], buffers: Any, sems: Any) -> None:
    """Add to arrays in the device's memory, which are copied to buffers and back.

    Args:
      targets: the arrays, none of them twice.
      terms: what is added to each.
      buffers, sems: a buffer and a semaphore for each.
    """
    numbers = range(len(targets))
    reads = [make_async_copy(x, buffers.at[i], sems.at[i]) for i, x in enumerate(targets)]
    writes = [make_async_copy(buffers.at[i], x, sems.at[i]) for i, x in enumerate(targets)]
    for copy in reads:
        copy.start()
    for i in numbers:
        reads[i].wait()
        buffers[i] = buffers[i] + terms[i][...]
        writes[i].start()
    for copy in writes:
        copy.wait()
