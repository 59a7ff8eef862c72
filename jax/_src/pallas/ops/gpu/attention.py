"""Attention for GPUs, forward and backward.

The algorithm is FlashAttention-2 (Dao, 2023, arXiv:2307.08691): scores are computed in blocks, with running maxima and sums
of exponentials (Milakov and Gimelshein, 2018, arXiv:1805.02867), and again for the derivatives.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from jax._src.api import jit, vjp
from jax._src.core import ShapeDtypeStruct
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.lax import lax
from jax._src.nn.functions import softmax
from jax._src.numpy import reductions
from jax._src.numpy.einsum import einsum
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.ops.gpu.access import (
    DEFAULT_MASK_VALUE,
    LOG2_E,
    MIN_DOT_SIZE,
    along,
    cdiv,
    check_backward_pass_impl,
    int32,
    iota,
    loop,
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
from jax._src.pallas.triton.core import CompilerParams


@dataclasses.dataclass(frozen=True)
class BlockSizes:
    """How many queries and keys are computed at a time.

    Args:
      block_q, block_k: forward; a program of the device has one block of queries.
      block_q_dkv, block_kv_dkv: in the derivatives by keys and values, of which a program has one block.
      block_q_dq, block_kv_dq: in the derivative by queries.
    """

    block_q: int
    block_k: int
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None

    @classmethod
    def get_default(cls) -> BlockSizes:
        return cls(128, 128, 32, 32, 32, 32)

    @property
    def has_backward_blocks(self) -> bool:
        """Whether all sizes for the derivatives are known."""
        sizes = (self.block_q_dkv, self.block_kv_dkv, self.block_q_dq, self.block_kv_dq)
        return all([n is not None for n in sizes])


_DEFAULT_BLOCKS = BlockSizes.get_default()


class _Options(NamedTuple):
    sm_scale: float
    causal: bool
    block_sizes: BlockSizes
    backward_pass_impl: str
    num_warps: int | None
    num_stages: int
    grid: tuple[int, ...] | None
    interpret: bool
    debug: bool
    return_residuals: bool


class _Blocks(NamedTuple):
    """What the kernels know of the blocks they compute."""

    sm_scale: float
    causal: bool
    block_q: int
    block_k: int
    num_q: int
    num_k: int
    depth: int

    @property
    def width(self) -> int:
        return padded(self.depth, MIN_DOT_SIZE)

    def rows(self, ref: Any, start: Any, size: int, left: Any) -> Any:
        """Read queries, keys or values."""
        return read(ref, (start, 0), (size, self.width), (left, self.depth))

    def scores(self, q: Any, k: Any, q_start: Any, k_start: Any, q_ids: Any, k_ids: Any) -> Any:
        """Return scores in base two; keys that a query does not attend to have the least ones."""
        scores = matmul(q, k, 1, 1)
        scores = scores * scores.dtype.type(self.sm_scale * LOG2_E)
        shape = scores.shape
        mask = None
        if self.causal:
            rows, columns = iota(shape[0]) + q_start, iota(shape[1]) + k_start
            mask = lax.ge(along(rows, 0, shape), along(columns, 1, shape))
        if q_ids is not None:
            same = lax.eq(along(q_ids, 0, shape), along(k_ids, 1, shape))
            mask = same if mask is None else lax.bitwise_and(mask, same)
        if mask is not None:
            scores = lax.select(mask, scores, lax.full_like(scores, DEFAULT_MASK_VALUE))
        inside = within(shape, (None, rows_left(self.num_k, self.block_k, k_start)))
        if inside is not None:
            scores = lax.select(inside, scores, lax.full_like(scores, -np.inf))
        return scores

    def ids(self, ref: Any, start: Any, size: int, total: int) -> Any:
        if ref is None:
            return None
        return read(ref, (start,), (size,), (rows_left(total, size, start),))

    def keys_end(self, q_block: Any) -> Any:
        """Return the number of blocks of keys that a block of queries attends to."""
        n = cdiv(self.num_k, self.block_k)
        if not self.causal or n == 1:
            return n
        return lax.min(cdiv((q_block + 1) * self.block_q, self.block_k), int32.type(n))

    def queries_start(self, k_block: Any) -> Any:
        """Return the first block of queries that attends to a block of keys."""
        if not self.causal or self.num_q <= self.block_q:
            return 0
        return lax.div(k_block * self.block_k, int32.type(self.block_q))


def _forward_kernel(
    q_ref: Any, k_ref: Any, v_ref: Any, *refs: Any, b: _Blocks, segmented: bool, residuals: bool
) -> None:
    ids_ref = refs[0] if segmented else None
    o_ref = refs[segmented]
    block = program_id(0)
    q_start = block * b.block_q
    q_left = rows_left(b.num_q, b.block_q, q_start)
    q = b.rows(q_ref, 0, b.block_q, q_left)
    q_ids = b.ids(ids_ref, q_start, b.block_q, b.num_q)
    dtype = sum_dtype(q.dtype)

    def step(i: Any, carry: Any) -> Any:
        out, greatest, total = carry
        start = i * b.block_k
        left = rows_left(b.num_k, b.block_k, start)
        k = b.rows(k_ref, start, b.block_k, left)
        k_ids = b.ids(ids_ref, start, b.block_k, b.num_k)
        scores = b.scores(q, k, q_start, start, q_ids, k_ids)
        new = lax.max(greatest, lax.reduce_max(scores, (1,)))
        weights = lax.exp2(scores - along(new, 0, scores.shape))
        scale = lax.exp2(greatest - new)
        # First, so that the weights need not be kept until there is their product, which takes registers.
        total = total * scale + lax.reduce_sum(weights, (1,))
        v = b.rows(v_ref, start, b.block_k, left)
        out = out * along(scale, 0, out.shape) + matmul(weights.astype(v.dtype), v)
        return out, new, total

    rows = (b.block_q,)
    carry = (
        lax.full((b.block_q, b.width), 0, dtype),
        lax.full(rows, -np.inf, dtype),
        lax.full(rows, 0, dtype),
    )
    out, greatest, total = loop(0, b.keys_end(block), step, carry)
    write(o_ref, out / along(total, 0, out.shape), (q_left, b.depth))
    if residuals:
        write(refs[-1], greatest + lax.log(total) * dtype.type(LOG2_E), (q_left,))


def _probabilities_and_gradient(
    b: _Blocks, scores: Any, lse: Any, delta: Any, do: Any, v: Any, segmented: bool
) -> Any:  # fmt: skip
    """Return the weights of keys, and the derivative by scores, both for a block."""
    p = lax.exp2(scores - along(lse, 0, scores.shape))
    ds = p * (matmul(do, v, 1, 1) - along(delta, 0, p.shape)) * p.dtype.type(b.sm_scale)
    if segmented and b.num_q > b.num_k:
        # Queries beyond the keys may have none in their segment. All keys weigh the same for them, as their
        # scores do not depend on anything; beside such a score, `lse` has lost the logarithm of their number.
        none = along(lax.eq(lse, lax.full_like(lse, DEFAULT_MASK_VALUE)), 0, p.shape)
        p = lax.select(none, p * p.dtype.type(1 / b.num_k), p)
        ds = lax.select(none, lax.full_like(ds, 0), ds)
    return p, ds


def _keys_kernel(
    q_ref: Any, k_ref: Any, v_ref: Any, do_ref: Any, lse_ref: Any, delta_ref: Any, *refs: Any, b: _Blocks,
    segmented: bool,
) -> None:  # fmt: skip
    """Write the derivatives by a block of keys and values."""
    ids_ref = refs[0] if segmented else None
    dk_ref, dv_ref = refs[-2:]
    block = program_id(0)
    k_start = block * b.block_k
    k_left = rows_left(b.num_k, b.block_k, k_start)
    k, v = [b.rows(ref, 0, b.block_k, k_left) for ref in (k_ref, v_ref)]
    k_ids = b.ids(ids_ref, k_start, b.block_k, b.num_k)

    def step(i: Any, carry: Any) -> Any:
        dk, dv = carry
        start = i * b.block_q
        left = rows_left(b.num_q, b.block_q, start)
        q, do = [b.rows(ref, start, b.block_q, left) for ref in (q_ref, do_ref)]
        # Rows that are not there have no weights.
        lse = read(lse_ref, (start,), (b.block_q,), (left,), np.inf)
        delta = read(delta_ref, (start,), (b.block_q,), (left,))
        q_ids = b.ids(ids_ref, start, b.block_q, b.num_q)
        scores = b.scores(q, k, start, k_start, q_ids, k_ids)
        p, ds = _probabilities_and_gradient(b, scores, lse, delta, do, v, segmented)
        dv = dv + matmul(p.astype(do.dtype), do, 0, 0)
        return dk + matmul(ds.astype(q.dtype), q, 0, 0), dv

    zeros = lax.full((b.block_k, b.width), 0, sum_dtype(k.dtype))
    end = cdiv(b.num_q, b.block_q)
    dk, dv = loop(b.queries_start(block), end, step, (zeros, zeros))
    write(dk_ref, dk, (k_left, b.depth))
    write(dv_ref, dv, (k_left, b.depth))


def _queries_kernel(
    q_ref: Any, k_ref: Any, v_ref: Any, do_ref: Any, lse_ref: Any, delta_ref: Any, *refs: Any, b: _Blocks,
    segmented: bool,
) -> None:  # fmt: skip
    """Write the derivative by a block of queries."""
    ids_ref = refs[0] if segmented else None
    block = program_id(0)
    q_start = block * b.block_q
    q_left = rows_left(b.num_q, b.block_q, q_start)
    q, do = [b.rows(ref, 0, b.block_q, q_left) for ref in (q_ref, do_ref)]
    lse = read(lse_ref, (0,), (b.block_q,), (q_left,), np.inf)
    delta = read(delta_ref, (0,), (b.block_q,), (q_left,))
    q_ids = b.ids(ids_ref, q_start, b.block_q, b.num_q)

    def step(i: Any, dq: Any) -> Any:
        start = i * b.block_k
        left = rows_left(b.num_k, b.block_k, start)
        k, v = [b.rows(ref, start, b.block_k, left) for ref in (k_ref, v_ref)]
        k_ids = b.ids(ids_ref, start, b.block_k, b.num_k)
        scores = b.scores(q, k, q_start, start, q_ids, k_ids)
        _, ds = _probabilities_and_gradient(b, scores, lse, delta, do, v, segmented)
        return dq + matmul(ds.astype(k.dtype), k)

    zeros = lax.full((b.block_q, b.width), 0, sum_dtype(q.dtype))
    dq = loop(0, b.keys_end(block), step, zeros)
    write(refs[-1], dq, (q_left, b.depth))


class _Specs:
    """The blocks of arrays for a program of the grid (block, batch, head)."""

    def __init__(self, b: _Blocks, group: int):
        self.group = group
        self.width = b.width
        self.num_q, self.num_k = multiple(b.num_q, b.block_q), multiple(b.num_k, b.block_k)

    def heads(self, rows: int, whole: bool, of_keys: bool) -> BlockSpec:
        """Blocks of an array [batch, positions, heads, features]."""
        group = self.group if of_keys else 1
        return BlockSpec(
            (None, rows, None, self.width),
            lambda i, n, h: (n, 0 if whole else i, h // group if group > 1 else h, 0),
        )

    def numbers(self, rows: int, whole: bool) -> BlockSpec:
        """Blocks of an array [batch, heads, positions]."""
        return BlockSpec((None, None, rows), lambda i, n, h: (n, h, 0 if whole else i))

    def ids(self, ids: Any) -> list[BlockSpec]:
        if ids is None:
            return []
        return [BlockSpec((None, max(self.num_q, self.num_k)), lambda i, n, h: (n, 0))]


def _blocks(options: _Options, q: Any, k: Any, block_q: int, block_k: int) -> _Blocks:
    num_q, depth, num_k = q.shape[1], q.shape[3], k.shape[1]
    # No block is larger than its array must be.
    fit = lambda size, total: min(size, padded(total, MIN_DOT_SIZE))
    return _Blocks(
        options.sm_scale, options.causal, fit(block_q, num_q), fit(block_k, num_k), num_q, num_k, depth
    )  # fmt: skip


def _call(options: _Options, kernel: Any, name: str, grid: Any, warps: int, **specs: Any) -> Any:
    params = CompilerParams(num_warps=options.num_warps or warps, num_stages=options.num_stages)
    return pallas_call(
        kernel, grid=grid, compiler_params=params, interpret=options.interpret, debug=options.debug, name=name,
        **specs,
    )  # fmt: skip


def _attention(options: _Options, q: Any, k: Any, v: Any, ids: Any, residuals: bool) -> Any:
    """Return attention, and the logarithms to base two of the sums of exponentials if they are wanted."""
    sizes = options.block_sizes
    b = _blocks(options, q, k, sizes.block_q, sizes.block_k)
    batch, _, heads, _ = q.shape
    grid = cdiv(b.num_q, b.block_q), batch, heads
    if options.grid is not None and tuple(options.grid) != grid:
        raise ValueError(
            f"The grid has one program for each block of queries, batch and head: it is {grid}, not {options.grid}. Leave it out."
        )
    specs = _Specs(b, heads // k.shape[2])
    rows = specs.heads(b.block_q, False, False)
    keys = specs.heads(specs.num_k, True, True)
    segmented = ids is not None
    out_shape = [ShapeDtypeStruct(q.shape, q.dtype)]
    out_specs = [rows]
    if residuals:
        out_shape.append(ShapeDtypeStruct((batch, heads, b.num_q), sum_dtype(q.dtype)))
        out_specs.append(specs.numbers(b.block_q, False))
    call = _call(
        options,
        functools.partial(_forward_kernel, b=b, segmented=segmented, residuals=residuals),
        "mha_forward",
        grid,
        4 if b.depth <= 64 else 8,
        in_specs=[rows, keys, keys, *specs.ids(ids)],
        out_specs=out_specs,
        out_shape=out_shape,
    )  # fmt: skip
    return call(q, k, v, *([ids] if segmented else []))


def _derivatives(options: _Options, q: Any, k: Any, v: Any, ids: Any, out: Any, lse: Any, do: Any) -> Any:  # fmt: skip
    sizes = options.block_sizes
    dtype = sum_dtype(q.dtype)
    delta = reductions.sum(out.astype(dtype) * do.astype(dtype), axis=-1).swapaxes(1, 2)
    batch, num_q, heads, depth = q.shape
    num_k = k.shape[1]
    group = heads // k.shape[2]
    segmented = ids is not None
    more = [ids] if segmented else []
    args = (q, k, v, do, lse, delta, *more)

    b = _blocks(options, q, k, sizes.block_q_dkv, sizes.block_kv_dkv)  # type: ignore[arg-type]
    specs = _Specs(b, group)
    rows = specs.heads(specs.num_q, True, False)
    keys = specs.heads(b.block_k, False, True)
    by_head = specs.heads(b.block_k, False, False)
    numbers = specs.numbers(specs.num_q, True)
    # Heads that share keys are added up: each has derivatives of its own.
    shape = ShapeDtypeStruct((batch, num_k, heads, depth), k.dtype if group == 1 else dtype)
    dk, dv = _call(
        options,
        functools.partial(_keys_kernel, b=b, segmented=segmented),
        "mha_backward_dkv",
        (cdiv(num_k, b.block_k), batch, heads),
        4,
        in_specs=[rows, keys, keys, rows, numbers, numbers, *specs.ids(ids)],
        out_specs=[by_head, by_head],
        out_shape=[shape, shape],
    )(*args)
    if group > 1:
        grouped = (batch, num_k, heads // group, group, depth)
        dk, dv = [reductions.sum(x.reshape(grouped), axis=3).astype(k.dtype) for x in (dk, dv)]

    b = _blocks(options, q, k, sizes.block_q_dq, sizes.block_kv_dq)  # type: ignore[arg-type]
    specs = _Specs(b, group)
    rows = specs.heads(b.block_q, False, False)
    keys = specs.heads(specs.num_k, True, True)
    numbers = specs.numbers(b.block_q, False)
    dq = _call(
        options,
        functools.partial(_queries_kernel, b=b, segmented=segmented),
        "mha_backward_dq",
        (cdiv(num_q, b.block_q), batch, heads),
        4,
        in_specs=[rows, keys, keys, rows, numbers, numbers, *specs.ids(ids)],
        out_specs=rows,
        out_shape=ShapeDtypeStruct(q.shape, q.dtype),
    )(*args)
    return dq, dk, dv


@functools.partial(custom_vjp, nondiff_argnums=tuple(range(4, 14)))
@functools.partial(jit, static_argnums=tuple(range(4, 14)))
def mha(
    q: Any, k: Any, v: Any, segment_ids: Any, sm_scale: float = 1.0, causal: bool = False,
    block_sizes: BlockSizes = _DEFAULT_BLOCKS, backward_pass_impl: str = "triton",
    num_warps: int | None = None, num_stages: int = 2, grid: tuple[int, ...] | None = None,
    interpret: bool = False, debug: bool = False, return_residuals: bool = False,
) -> Any:  # fmt: skip
    """Compute attention in blocks, which are not kept.

    Args:
      q: queries, [batch, queries, heads, features].
      k, v: keys and values, [batch, keys, heads of keys, features]. The number of heads of queries is a
        multiple of that of keys.
      segment_ids: None, or integers [batch, positions]: queries attend to keys of their own segment; those
        without any get the mean of all values.
      sm_scale: a factor of the scores.
      causal: whether queries attend only to keys up to their own position.
      block_sizes: how much is computed at a time; powers of two, 16 at least.
      backward_pass_impl: `"triton"`: derivatives are kernels, too; `"xla"`: they are those of
        `mha_reference`.
      num_warps, num_stages: see `plgpu.CompilerParams`.
      grid: None, or the number of blocks of queries, of batches and of heads.
      interpret: whether to run the kernels as programs of XLA, which any device can.
      debug: whether to print the kernels.
      return_residuals: whether to return also the logarithms to base two of the sums of exponentials,
        [batch, heads, queries].

    Returns:
      [batch, queries, heads, features]; a tuple with `return_residuals`, of which there is no derivative.

    Raises:
      ValueError: if shapes do not match.
    """
    options = _Options(
        sm_scale, causal, block_sizes, backward_pass_impl, num_warps, num_stages, grid, interpret, debug,
        return_residuals,
    )  # fmt: skip
    _check(q, k, v, segment_ids)
    outs = _attention(options, q, k, v, segment_ids, return_residuals)
    return tuple(outs) if return_residuals else outs[0]


def _mha_forward(q: Any, k: Any, v: Any, segment_ids: Any, *options: Any) -> Any:
    o = _Options(*options)
    if o.return_residuals:
        raise ValueError("Kernel differentiation is not supported if return_residuals is True.")
    check_backward_pass_impl(o.backward_pass_impl)
    if o.backward_pass_impl == "triton" and not o.block_sizes.has_backward_blocks:
        raise ValueError("Backward block sizes must all be set.")
    _check(q, k, v, segment_ids)
    out, lse = _attention(o, q, k, v, segment_ids, True)
    return out, (q, k, v, segment_ids, out, lse)


def _mha_backward(*args: Any) -> Any:
    *options, residuals, do = args
    o = _Options(*options)
    q, k, v, ids, out, lse = residuals
    if o.backward_pass_impl == "xla":
        plain = lambda q, k, v: mha_reference(q, k, v, ids, o.sm_scale, o.causal).astype(q.dtype)
        return (*vjp(plain, q, k, v)[1](do), None)
    return (*_derivatives(o, q, k, v, ids, out, lse, do), None)


mha.defvjp(_mha_forward, _mha_backward)


def segment_mask(q_segment_ids: Any, kv_segment_ids: Any) -> Any:
    """Return which queries and keys are of one segment: [..., queries, keys]."""
    return q_segment_ids[..., :, None] == kv_segment_ids[..., None, :]


@functools.partial(jit, static_argnames=("sm_scale", "causal"))
def mha_reference(
    q: Any, k: Any, v: Any, segment_ids: Any, sm_scale: float = 1.0, causal: bool = False
) -> Any:
    """Compute what `mha` does, by whole arrays of scores."""
    _check(q, k, v, segment_ids)
    num_q, num_k, group = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    dtype = sum_dtype(q.dtype)
    q = q.reshape(*q.shape[:2], k.shape[2], group, q.shape[3])
    scores = einsum("bqhgc,bkhc->bhgqk", q, k, preferred_element_type=dtype) * sm_scale
    mask = None
    if segment_ids is not None:
        mask = segment_mask(segment_ids[:, :num_q], segment_ids[:, :num_k])[:, None, None]
    if causal:
        order = iota(num_q)[:, None] >= iota(num_k)
        mask = order if mask is None else mask & order
    if mask is not None:
        scores = where(mask, scores, DEFAULT_MASK_VALUE)
    out = einsum("bhgqk,bkhc->bqhgc", softmax(scores), v, preferred_element_type=dtype)
    return out.reshape(*out.shape[:2], -1, out.shape[-1])


def _check(q: Any, k: Any, v: Any, ids: Any) -> None:
    if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        raise ValueError(
            "Queries, keys and values have dimensions for batches, positions, heads and features, got shapes "
            f"{q.shape}, {k.shape} and {v.shape}."
        )
    if not q.shape[-1] == k.shape[-1] == v.shape[-1]:
        raise ValueError(
            f"Queries, keys and values have the same number of features, got {q.shape=}, {k.shape=} and {v.shape=}."
        )
    if k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[2] % k.shape[2]:
        raise ValueError(
            f"Keys and values have the same shape, and the heads of queries are a multiple of theirs, got {q.shape=}, {k.shape=} and "
            f"{v.shape=}."
        )
    if ids is not None and (
        ids.ndim != 2 or ids.shape[0] != q.shape[0] or ids.shape[1] < max(q.shape[1], k.shape[1])
    ):
        raise ValueError(
            f"Segments are known for every batch and position, got {ids.shape=} with {q.shape=} and {k.shape=}."
        )
