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


class Shape(NamedTuple):
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


def _divided(x: Any, size: int) -> tuple[Any, Any]:
    """Return quotients and remainders of numbers that are not negative."""
    whole = lambda n: lax.full_like(x, n)
    if size & (size - 1) == 0:
        shift = whole(size.bit_length() - 1)
        return lax.shift_right_logical(x, shift), lax.bitwise_and(x, whole(size - 1))
    return lax.div(x, whole(size)), lax.rem(x, whole(size))


class KeyBlocks:
    """The blocks of keys of a program: of a sequence, a head of keys, and a part of the keys."""

    def __init__(self, refs: dict[str, Any], s: Shape, settings: Settings, dtype: Any):
        self._refs, self._s, self._settings, self._dtype = refs, s, settings, dtype
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
        self.lower, self.upper, self._first, self._end = lower, upper, first, end

    def rows(self, i: Any) -> tuple[Any, Any]:
        """Return where the keys of a block are, and which of them are keys of the sequence, or None if all."""
        s, refs = self._s, self._refs
        positions = iota(s.block_k) + i * s.block_k
        whole = lambda n: lax.full((s.block_k,), n, int32)
        mask = None if self._end is None else lax.lt(positions, whole(self._end))
        if self._first is not None:
            later = lax.ge(positions, whole(self._first))
            mask = later if mask is None else lax.bitwise_and(mask, later)
        if "pages" not in refs:
            return ds(i * s.block_k, s.block_k), mask
        number, rest = _divided(positions, s.page_size)
        view = refs["pages"].at[number]
        pages = triton.load(view, mask=mask, other=None if mask is None else 0)
        return pages * whole(s.page_size) + rest, mask

    def elements(self, mask: Any) -> Any:
        """Return which elements of rows there are, or None if all."""
        shape = self._s.block_k, self._s.width
        inside = within(shape, (None, self._s.depth))
        if mask is None:
            return inside
        wide = along(mask, 0, shape)
        return wide if inside is None else lax.bitwise_and(inside, wide)

    def keys(self, rows: Any, mask: Any) -> Any:
        """Read the rows of keys; those that are no keys of the sequence have any values."""
        s = self._s
        # Scores are masked: only what is not in the array must not be read.
        beyond = "pages" not in self._refs and s.num_k % s.block_k
        return self.read("k", rows, mask if beyond else None)

    def read(self, name: str, rows: Any, mask: Any) -> Any:
        """Read the rows of keys or values."""
        ref, scales = self._refs[name], self._refs.get(f"{name}_scales")
        elements = self.elements(mask)
        view = ref.at[rows, ds(0, self._s.width)]
        x = triton.load(view, mask=elements, other=None if elements is None else 0)
        if scales is not None:
            factors = triton.load(scales.at[rows], mask=mask, other=None if mask is None else 0)
            x = x.astype(self._dtype) * along(factors.astype(self._dtype), 0, x.shape)
        return x

    def scores(self, q: Any, k: Any, mask: Any, factor: float = 1.0) -> tuple[Any, Any]:
        """Return scores times a factor, and the slope that their bound gives them, or None."""
        number, scale, cap = self._dtype.type, self._settings.sm_scale, self._settings.soft_cap
        scores, slope = matmul(q, k, 1, 1), None
        if cap is None:
            scores = scores * number(scale * factor)
        else:
            bounded = lax.tanh(scores * number(scale / cap))
            scores, slope = bounded * number(cap * factor), 1 - bounded * bounded
        if mask is not None:
            inside = along(mask, 1, scores.shape)
            scores = lax.select(inside, scores, lax.full_like(scores, -np.inf))
        return scores, slope


def _kernel(refs: dict[str, Any], s: Shape, settings: Settings) -> None:
    left = rows_left(s.group, s.block_h, program_id(2) * s.block_h)
    q = read(refs["q"], (0, 0), (s.block_h, s.width), (left, s.depth))
    dtype = sum_dtype(q.dtype)
    blocks = KeyBlocks(refs, s, settings, dtype)

    def step(i: Any, carry: Any) -> Any:
        out, greatest, total = carry
        rows, mask = blocks.rows(i)
        scores, _ = blocks.scores(q, blocks.keys(rows, mask).astype(q.dtype), mask, LOG2_E)
        new = base = lax.max(greatest, lax.reduce_max(scores, (1,)))
        if mask is not None:  # without any key so far, nothing is added to nothing
            base = lax.select(lax.eq(new, lax.full_like(new, -np.inf)), lax.full_like(new, 0), new)
        weights = lax.exp2(scores - along(base, 0, scores.shape))
        factor = lax.exp2(greatest - base)
        v = blocks.read("v", rows, mask).astype(q.dtype)
        out = out * along(factor, 0, out.shape) + matmul(weights.astype(v.dtype), v)
        return out, new, total * factor + lax.reduce_sum(weights, (1,))

    rows = (s.block_h,)
    carry = (
        lax.full((s.block_h, s.width), 0, dtype),
        lax.full(rows, -np.inf, dtype),
        lax.full(rows, 0, dtype),
    )
    out, greatest, total = fori_loop(blocks.lower, blocks.upper, step, carry)
    write(refs["out"], out, (left, s.depth))
    write(refs["total"], total, (left,))
    write(refs["greatest"], greatest * dtype.type(1 / LOG2_E), (left,))


class Call:
    """A kernel for all sequences, heads of keys, blocks of heads and parts of keys: its grid, blocks and operands.

    Args:
      q: queries, [batch, heads, features].
      keys: keys and values.
      settings: what the kernel is the same for.

    Raises:
      ValueError: if the settings have another grid.
    """

    def __init__(self, q: Any, keys: Keys, settings: Settings):
        batch, heads, depth = q.shape
        paged = keys.pages is not None
        if paged:
            (key_heads, rows), num_k = keys.k.shape[:2], keys.pages.shape[1] * keys.page_size
        else:
            key_heads, rows = keys.k.shape[2:0:-1]
            num_k = rows
        group = heads // key_heads
        block_h = min(settings.block_h, padded(group, MIN_DOT_SIZE))
        block_k = min(settings.block_k, padded(num_k, MIN_DOT_SIZE))
        blocks = cdiv(num_k, block_k)
        steps = cdiv(blocks, settings.k_splits)
        splits = cdiv(blocks, steps)
        self.s = s = Shape(
            group, depth, num_k, rows, block_h, block_k, steps, blocks, keys.page_size, padded(depth, MIN_DOT_SIZE)
        )  # fmt: skip
        self.grid = batch, key_heads, cdiv(group, block_h), splits
        if settings.grid is not None and tuple(settings.grid) != self.grid:
            raise ValueError(
                "The grid has one program for each batch, head of keys, block of heads and part of keys: it is "
                f"{self.grid}, not {settings.grid}. Leave it out."
            )
        self.settings = settings
        self._batch, self._key_heads = batch, key_heads
        if paged:
            self.of_keys = BlockSpec((None, rows, s.width), lambda n, h, i, j: (h, 0, 0))
        else:
            size = multiple(num_k, block_k)
            self.of_keys = BlockSpec((None, size, None, s.width), lambda n, h, i, j: (n, 0, h, 0))
        self.operands: dict[str, tuple[Any, BlockSpec]] = {}
        self.add_queries("q", q)
        self.operands |= {"k": (keys.k, self.of_keys), "v": (keys.v, self.of_keys)}
        for name in ("start", "end"):
            if getattr(keys, name) is not None:
                one = BlockSpec((1,), lambda n, h, i, j: (n,))
                self.operands[name] = getattr(keys, name), one
        if paged:
            of_batch = BlockSpec((None, keys.pages.shape[1]), lambda n, h, i, j: (n, 0))
            self.operands["pages"] = keys.pages, of_batch
        for name in ("k_scales", "v_scales"):
            if getattr(keys, name) is not None:
                of_rows = BlockSpec((None, rows), lambda n, h, i, j: (h, 0))
                self.operands[name] = getattr(keys, name), of_rows

    def add_queries(self, name: str, x: Any) -> None:
        """Add an operand like queries, or one with a number for each of them."""
        s = self.s
        width = (s.width,) if x.ndim == 3 else ()
        x = x.reshape(self._batch, self._key_heads, s.group, *x.shape[2:])
        spec = BlockSpec(
            (None, None, s.block_h, *width), lambda n, h, i, j: (n, h, i, *(0 for _ in width))
        )
        self.operands[name] = x, spec

    def partial(self, dtype: Any, of_features: bool) -> tuple[Any, BlockSpec]:
        """Return the shape and blocks of a result that each part of keys has for queries."""
        s, (batch, key_heads, _, splits) = self.s, self.grid
        depth, width = ((s.depth,), (s.width,)) if of_features else ((), ())
        spec = BlockSpec(
            (None, None, None, s.block_h, *width),
            lambda n, h, i, j: (n, j, h, i, *(0 for _ in width)),
        )
        return ShapeDtypeStruct((batch, splits, key_heads, s.group, *depth), dtype), spec

    def __call__(self, kernel: Any, name: str, results: dict[str, Any], aliases: dict[str, str]) -> Any:  # fmt: skip
        """Run a kernel, which takes references by name, and what it is the same for.

        Args:
          kernel: the kernel.
          name: its name.
          results: the shape and blocks of each result.
          aliases: operands that are the first values of results.
        """
        names = [*self.operands, *results]

        def body(*refs: Any) -> None:
            kernel(dict(zip(names, refs, strict=True)), self.s, self.settings)

        shapes, specs = zip(*results.values())
        arrays, in_specs = zip(*self.operands.values())
        settings, first = self.settings, list(self.operands)
        return pallas_call(
            body,
            shapes,
            grid=self.grid,
            in_specs=in_specs,
            out_specs=specs,
            input_output_aliases={
                first.index(x): list(results).index(y) for x, y in aliases.items()
            },
            compiler_params=CompilerParams(settings.num_warps or 4, settings.num_stages),
            interpret=settings.interpret,
            debug=settings.debug,
            name=name,
        )(*arrays)


def decode(q: Any, keys: Keys, settings: Settings) -> tuple[Any, Any, Any]:
    """Return weighted sums of values, sums of weights, and the maxima of scores that weights are relative to.

    Args:
      q: queries, [batch, heads, features].
    """
    call = Call(q, keys, settings)
    dtype = sum_dtype(q.dtype)
    numbers = call.partial(dtype, False)
    results = {"out": call.partial(dtype, True), "total": numbers, "greatest": numbers}
    out, total, greatest = call(_kernel, settings.name, results, {})
    return _combined(out, total, greatest, q.shape[:2])


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
