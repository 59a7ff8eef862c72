"""Attention of one query for each sequence, to keys that are in order or in pages.

Keys are divided among programs, whose results are combined at the end: Flash-Decoding (Dao et al., 2023). Heads that share keys
are the rows of one block of queries (Shazeer, 2019, arXiv:1911.02150; Ainslie et al., 2023, arXiv:2305.13245).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jax._src.core import ShapeDtypeStruct
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.numpy import reductions, ufuncs
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.ops.gpu.access import (
    LOG2_E,
    MIN_DOT_SIZE,
    along,
    cdiv,
    int32,
    iota,
    matmul,
    multiple,
    padded,
    read,
    rows_left,
    sum_dtype,
    within,
    write,
)
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import program_id
from jax._src.pallas.triton import primitives as triton
from jax._src.pallas.triton.core import CompilerParams


class Settings(NamedTuple):
    """What the kernel is the same for: see `gqa` and `paged_attention`."""

    sm_scale: float
    block_h: int
    block_k: int
    k_splits: int
    num_warps: int | None
    num_stages: int
    grid: tuple[int, ...] | None
    interpret: bool
    debug: bool
    soft_cap: float | None = None
    name: str = "decode_attention"


class Keys(NamedTuple):
    """Keys and values of all sequences.

    Args:
      k, v: [batch, keys, heads, features], or with `pages` [heads, rows, features].
      start, end: None, or the first key of each sequence, and the one after the last, [batch].
      pages: None, or the pages of each sequence, [batch, pages].
      page_size: how many rows a page has.
      k_scales, v_scales: None, or a factor for each row, [heads, rows].
    """

    k: Any
    v: Any
    start: Any = None
    end: Any = None
    pages: Any = None
    page_size: int = 1
    k_scales: Any = None
    v_scales: Any = None


class _Shape(NamedTuple):
    """What the kernel knows of its blocks."""

    group: int
    depth: int
    num_k: int
    rows: int
    block_h: int
    block_k: int
    # How many blocks of keys a program has at most, and all have.
    steps: int
    blocks: int
    page_size: int
    width: int


def _kernel(refs: dict[str, Any], s: _Shape, settings: Settings) -> None:
    left = rows_left(s.group, s.block_h, program_id(2) * s.block_h)
    q = read(refs["q"], (0, 0), (s.block_h, s.width), (left, s.depth))
    dtype = sum_dtype(q.dtype)
    scale = dtype.type(settings.sm_scale)
    split = program_id(3)
    lower, upper = split * s.steps, lax.min((split + 1) * s.steps, int32.type(s.blocks))
    first = refs["start"][0] if "start" in refs else None
    end = refs["end"][0] if "end" in refs else None
    if first is not None:
        lower = lax.max(lower, lax.div(first, int32.type(s.block_k)))
    if end is not None:
        end = lax.min(end, int32.type(s.num_k))
        upper = lax.min(upper, cdiv(end, s.block_k))
    elif s.num_k % s.block_k:
        end = int32.type(s.num_k)

    def rows_of(ref: Any, scales: Any, at: Any, row_mask: Any, start: Any) -> Any:
        """Read keys or values at positions."""
        mask = within((s.block_k, s.width), (None, s.depth))
        if row_mask is not None:
            wide = along(row_mask, 0, (s.block_k, s.width))
            mask = wide if mask is None else lax.bitwise_and(mask, wide)
        rows = ds(start, s.block_k) if at is None else at
        view = ref.at[rows, ds(0, s.width)]
        x = triton.load(view, mask=mask, other=None if mask is None else 0)
        if scales is not None:
            factors = triton.load(
                scales.at[rows], mask=row_mask, other=None if row_mask is None else 0
            )
            x = x.astype(dtype) * along(factors.astype(dtype), 0, x.shape)
        return x.astype(q.dtype)

    def step(i: Any, carry: Any) -> Any:
        out, greatest, total = carry
        start = i * s.block_k
        positions = iota(s.block_k) + start
        row_mask = None if end is None else lax.lt(positions, lax.full((s.block_k,), end, int32))
        if first is not None:
            later = lax.ge(positions, lax.full((s.block_k,), first, int32))
            row_mask = later if row_mask is None else lax.bitwise_and(row_mask, later)
        at = None
        if "pages" in refs:
            size = lax.full((s.block_k,), s.page_size, int32)
            pages = triton.load(
                refs["pages"].at[lax.div(positions, size)],
                mask=row_mask,
                other=None if row_mask is None else 0,
            )
            at = pages * size + lax.rem(positions, size)
        k = rows_of(refs["k"], refs.get("k_scales"), at, row_mask, start)
        scores = matmul(q, k, 1, 1) * scale
        if settings.soft_cap is not None:
            cap = dtype.type(settings.soft_cap)
            scores = lax.tanh(scores / cap) * cap
        if row_mask is not None:
            inside = along(row_mask, 1, scores.shape)
            scores = lax.select(inside, scores, lax.full_like(scores, -np.inf))
        new = lax.max(greatest, lax.reduce_max(scores, (1,)))
        # Without any key so far, nothing is added to nothing.
        base = lax.select(lax.eq(new, lax.full_like(new, -np.inf)), lax.full_like(new, 0), new)
        weights = lax.exp2((scores - along(base, 0, scores.shape)) * dtype.type(LOG2_E))
        factor = lax.exp2((greatest - base) * dtype.type(LOG2_E))
        v = rows_of(refs["v"], refs.get("v_scales"), at, row_mask, start)
        out = out * along(factor, 0, out.shape) + matmul(weights.astype(v.dtype), v)
        return out, new, total * factor + lax.reduce_sum(weights, (1,))

    rows = (s.block_h,)
    carry = (
        lax.full((s.block_h, s.width), 0, dtype),
        lax.full(rows, -np.inf, dtype),
        lax.full(rows, 0, dtype),
    )
    out, greatest, total = fori_loop(lower, upper, step, carry)
    write(refs["out"], out, (left, s.depth))
    write(refs["total"], total, (left,))
    write(refs["greatest"], greatest, (left,))


def decode(q: Any, keys: Keys, settings: Settings) -> tuple[Any, Any, Any]:
    """Return weighted sums of values, sums of weights, and the maxima of scores that weights are relative to.

    Args:
      q: queries, [batch, heads, features].
    """
    batch, heads, depth = q.shape
    paged = keys.pages is not None
    key_heads, rows = (keys.k.shape[0], keys.k.shape[1]) if paged else keys.k.shape[2:0:-1]
    num_k = keys.pages.shape[1] * keys.page_size if paged else rows
    group = heads // key_heads
    block_h = min(settings.block_h, padded(group, MIN_DOT_SIZE))
    block_k = min(settings.block_k, padded(num_k, MIN_DOT_SIZE))
    blocks = cdiv(num_k, block_k)
    steps = cdiv(blocks, settings.k_splits)
    splits = cdiv(blocks, steps)
    s = _Shape(
        group, depth, num_k, rows, block_h, block_k, steps, blocks, keys.page_size, padded(depth, MIN_DOT_SIZE)
    )  # fmt: skip
    grid = batch, key_heads, cdiv(group, block_h), splits
    if settings.grid is not None and tuple(settings.grid) != grid:
        raise ValueError(
            "The grid has one program for each batch, head of keys, block of heads and part of keys: it is "
            f"{grid}, not {settings.grid}. Leave it out."
        )
    operands: dict[str, tuple[Any, BlockSpec]] = {
        "q": (
            q.reshape(batch, key_heads, group, depth),
            BlockSpec((None, None, block_h, s.width), lambda n, h, i, j: (n, h, i, 0)),
        )
    }
    if paged:
        whole = BlockSpec((None, rows, s.width), lambda n, h, i, j: (h, 0, 0))
    else:
        size = multiple(num_k, block_k)
        whole = BlockSpec((None, size, None, s.width), lambda n, h, i, j: (n, 0, h, 0))
    operands["k"], operands["v"] = (keys.k, whole), (keys.v, whole)
    one = BlockSpec((1,), lambda n, h, i, j: (n,))
    for name in ("start", "end"):
        if getattr(keys, name) is not None:
            operands[name] = getattr(keys, name), one
    if paged:
        of_batch = BlockSpec((None, keys.pages.shape[1]), lambda n, h, i, j: (n, 0))
        operands["pages"] = keys.pages, of_batch
    for name in ("k_scales", "v_scales"):
        if getattr(keys, name) is not None:
            operands[name] = getattr(keys, name), BlockSpec((None, rows), lambda n, h, i, j: (h, 0))
    names = [*operands, "out", "total", "greatest"]

    def kernel(*refs: Any) -> None:
        _kernel(dict(zip(names, refs, strict=True)), s, settings)

    shape = (batch, splits, key_heads, group)
    numbers = ShapeDtypeStruct(shape, sum_dtype(q.dtype))
    numbers_spec = BlockSpec((None, None, None, block_h), lambda n, h, i, j: (n, j, h, i))
    out_spec = BlockSpec((None, None, None, block_h, s.width), lambda n, h, i, j: (n, j, h, i, 0))
    out, total, greatest = pallas_call(
        kernel,
        (ShapeDtypeStruct((*shape, depth), numbers.dtype), numbers, numbers),
        grid=grid,
        in_specs=[spec for _, spec in operands.values()],
        out_specs=(out_spec, numbers_spec, numbers_spec),
        compiler_params=CompilerParams(settings.num_warps or 4, settings.num_stages),
        interpret=settings.interpret,
        debug=settings.debug,
        name=settings.name,
    )(*[x for x, _ in operands.values()])
    return _combined(out, total, greatest, (batch, heads))


def _combined(out: Any, total: Any, greatest: Any, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Add up what programs have for parts of the keys, dimension 1."""
    of_all = reductions.max(greatest, axis=1, keepdims=True)
    factor = where(greatest == -np.inf, 0, ufuncs.exp(greatest - of_all))
    out = reductions.sum(out * factor[..., None], axis=1)
    total = reductions.sum(total * factor, axis=1)
    return out.reshape(*shape, -1), total.reshape(shape), of_all.reshape(shape)


def normalized(out: Any, total: Any) -> Any:
    """Return weighted sums divided by the sums of weights; zeros where there are no keys."""
    return out / where(total == 0, 1, total)[..., None]
