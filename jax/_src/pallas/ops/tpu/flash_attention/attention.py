"""Attention by blocks, as a function with a derivative."""

from __future__ import annotations

import functools
from typing import Any

from jax._src.api import jit
from jax._src.core import ShapeDtypeStruct
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.lax import lax
from jax._src.pallas.cost_estimate import CostEstimate, estimate_cost
from jax._src.pallas.ops.tpu.flash_attention import kernels
from jax._src.pallas.ops.tpu.flash_attention.kernels import Residuals, Settings
from jax._src.pallas.ops.tpu.flash_attention.reference import mha_reference_no_custom_vjp
from jax._src.pallas.ops.tpu.flash_attention.settings import BlockSizes, SegmentIds
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE, column, row_products

LANES = 128


@functools.partial(jit, static_argnames=("causal", "sm_scale", "block_sizes", "debug"))
def flash_attention(
    q: Any, k: Any, v: Any, ab: Any = None, segment_ids: SegmentIds | None = None, *,
    causal: bool = False, sm_scale: float = 1.0, block_sizes: BlockSizes | None = None, debug: bool = False,
) -> Any:  # fmt: skip
    """Compute attention by blocks, without the whole matrix of scores: softmax(q k' sm_scale + ab) v.

    The algorithm is that of Dao, "FlashAttention-2" (2023, arXiv:2307.08691), forward and backward.

    Args:
      q: queries, [batch, heads, queries, features].
      k, v: keys and values, [batch, heads, keys, features].
      ab: what is added to the scores, [batch, heads, queries, keys].
      segment_ids: segments of queries and keys: a query sees the keys of its own segment.
      causal: whether a query sees only keys up to its own position.
      sm_scale: a factor of the products of queries and keys.
      block_sizes: sizes of blocks; by default 128.
      debug: whether to print the kernels.

    Returns:
      [batch, heads, queries, features].

    Raises:
      ValueError: if shapes do not fit, or blocks do not divide the arrays; blocks of queries may be cut off by
        the end of the queries where no derivative is asked for.
      NotImplementedError: if values have other features than keys, or keys computed at a time are no multiple
        of 128.
    """
    _check_shapes(q, k, v, ab, segment_ids)
    if block_sizes is None:
        block_sizes = BlockSizes.get_default(*q.shape[:3], k.shape[2], q.shape[3])
    settings = Settings(causal, sm_scale, DEFAULT_MASK_VALUE, debug)
    return _attention(q, k, v, ab, segment_ids, block_sizes, settings)


def _check_shapes(q: Any, k: Any, v: Any, ab: Any, ids: SegmentIds | None) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if len(x.shape) != 4:
            raise ValueError(
                f"{name} should be [batch, heads, number, features], but has the shape {x.shape}"
            )
    batch, heads, num_q, depth = q.shape
    num_kv = k.shape[2]
    for what, at in (("Batch size", 0), ("Head count", 1)):
        sizes = [x.shape[at] for x in (q, k, v)]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"{what} mismatch: got {sizes[0]}, {sizes[1]} and {sizes[2]} (for q, k, v respectively)"
            )
    if depth != k.shape[3]:
        raise ValueError(
            f"Model dimension mismatch: got {depth} and {k.shape[3]} (for q and k respectively)"
        )
    if v.shape[3] != depth:
        raise NotImplementedError(
            f"values with another number of features ({v.shape[3]}) than keys ({depth})"
        )
    if v.shape[2] != num_kv:
        raise ValueError(f"KV sequence length mismatch: got {num_kv} and {v.shape[2]}")
    if ab is not None and ab.shape != (batch, heads, num_q, num_kv):
        raise ValueError(
            f"Attention bias shape mismatch: expected ({batch=}, {heads=}, {num_q=}, {num_kv=}), got {ab.shape}"
        )
    if ids is not None:
        for name, x, n in (("Q", ids.q, num_q), ("KV", ids.kv, num_kv)):
            if x.shape != (batch, n):
                raise ValueError(
                    f"{name} segment ids shape mismatch: expected ({batch=}, {n}), got {x.shape}"
                )


def _check_blocks(blocks: dict[str, Any], names: str, what: str, size: int, divides: bool) -> None:
    for name in names.split():
        block = blocks[name]
        if block > size:
            raise ValueError(f"{name}={block} should be smaller or equal to {what}={size}")
        if divides and size % block:
            raise ValueError(f"{what}={size} should be divisible by {name}={block}")


def _check_parts(blocks: dict[str, Any], names: str, size: int) -> None:
    """Check numbers of keys computed at a time: columns of a part of an array are whole lanes."""
    for name in names.split():
        if blocks[name] % LANES and blocks[name] != size:
            raise NotImplementedError(f"{name}={blocks[name]} should be a multiple of {LANES}")


@functools.partial(custom_vjp, nondiff_argnums=(5, 6))
def _attention(
    q: Any, k: Any, v: Any, ab: Any, ids: SegmentIds | None, block_sizes: BlockSizes, settings: Settings
) -> Any:  # fmt: skip
    return _forward(q, k, v, ab, ids, block_sizes, settings, False)[0]


def _forward(
    q: Any, k: Any, v: Any, ab: Any, ids: SegmentIds | None, block_sizes: BlockSizes, settings: Settings,
    save_residuals: bool,
) -> tuple[Any, ...]:  # fmt: skip
    sizes = vars(block_sizes)
    num_kv = k.shape[2]
    _check_blocks(sizes, "block_b", "batch", q.shape[0], False)
    _check_blocks(sizes, "block_q", "q_seq_len", q.shape[2], False)
    _check_blocks(sizes, "block_k_major", "kv_seq_len", num_kv, True)
    _check_parts(sizes, "block_k", num_kv)
    b = block_sizes
    blocks = b.block_b, b.block_q, b.block_k_major, b.block_k
    cost = _cost(q, k, v, ab, ids, settings, save_residuals)
    inputs = kernels.inputs_of(q, k, v, ab, ids)
    return kernels.forward(inputs, blocks, save_residuals, settings, cost)


def _cost(
    q: Any, k: Any, v: Any, ab: Any, ids: SegmentIds | None, settings: Settings, save_residuals: bool
) -> CostEstimate:  # fmt: skip
    """Estimate the cost of attention: the operations of the plain function, without its intermediate arrays."""
    shapes = [None if x is None else ShapeDtypeStruct(x.shape, x.dtype) for x in (q, k, v, ab)]
    ids = ids and SegmentIds(*[ShapeDtypeStruct(x.shape, x.dtype) for x in ids])
    plain = functools.partial(
        mha_reference_no_custom_vjp, causal=settings.causal, sm_scale=settings.sm_scale
    )
    estimate = estimate_cost(plain, *shapes, ids)
    read = [x for x in (q, k, v, ab, *(ids or ())) if x is not None]
    moved = sum(x.size * x.dtype.itemsize for x in [*read, q])
    moved += 2 * 4 * q.shape[0] * q.shape[1] * q.shape[2] * save_residuals
    return CostEstimate(estimate.flops, estimate.transcendentals, moved)


def _with_residuals(
    q: Any, k: Any, v: Any, ab: Any, ids: SegmentIds | None, block_sizes: BlockSizes, settings: Settings
) -> tuple[Any, Any]:  # fmt: skip
    if not block_sizes.has_backward_blocks:
        raise ValueError(
            "Program is being differentiated, but not all backward blocks are specified"
        )
    out, total, greatest = _forward(q, k, v, ab, ids, block_sizes, settings, True)
    return out, (q, k, v, ab, ids, out, total, greatest)


def _backward(
    block_sizes: BlockSizes, settings: Settings, residuals: tuple[Any, ...], do: Any
) -> tuple[Any, ...]:
    q, k, v, ab, ids, out, total, greatest = residuals
    b, sizes = block_sizes, vars(block_sizes)
    num_kv = k.shape[2]
    _check_blocks(sizes, "block_q_major_dkv block_q_dkv block_q_dq", "q_seq_len", q.shape[2], True)
    _check_blocks(sizes, "block_k_major_dkv block_k_major_dq", "kv_seq_len", num_kv, True)
    _check_parts(sizes, "block_k_dkv block_k_dq", num_kv)
    delta = column(row_products(out, do))
    inputs = kernels.inputs_of(q, k, v, ab, ids)
    more = Residuals(do, greatest, total, delta)
    blocks = b.block_q_major_dkv, b.block_q_dkv, b.block_k_major_dkv, b.block_k_dkv
    dk, dv = kernels.backward_keys(inputs, more, blocks, settings)  # type: ignore[arg-type]
    blocks = b.block_q_dq, b.block_k_major_dq, b.block_k_dq
    dq, dab = kernels.backward_queries(inputs, more, blocks, settings)  # type: ignore[arg-type]
    return dq, dk, dv, dab, None


_attention.defvjp(_with_residuals, _backward)


def below_or_on_diag(r: Any, r_blk_size: int, c: Any, c_blk_size: int) -> Any:
    """Return whether the last row of a block of a matrix comes after, or at, its first column.

    Args:
      r, c: indices of the block.
      r_blk_size, c_blk_size: numbers of rows and of columns in blocks.
    """
    return lax.gt((r + 1) * r_blk_size, c * c_blk_size)
