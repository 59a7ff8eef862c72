"""Attention by the blocks of a mask, as a function with a derivative."""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any, NamedTuple

import numpy as np

from jax._src.ad_checkpoint.names import checkpoint_name
from jax._src.api import jit
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.named_sharding import NamedSharding
from jax._src.numpy import reductions, ufuncs
from jax._src.numpy.array_constructors import asarray
from jax._src.pallas.ops.tpu.splash_attention import block_tables, kernels
from jax._src.pallas.ops.tpu.splash_attention.block_tables import BlockTable
from jax._src.pallas.ops.tpu.splash_attention.masks import MultiHeadMask
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE, row_products
from jax._src.partition_spec import PartitionSpec
from jax._src.tree_util import register_pytree_node_class, tree_map


class SegmentIds(NamedTuple):
    """Segments of concatenated sequences: a query sees the keys of its own segment.

    Every query must see a key: rows of scores without any have no softmax.

    Attributes:
      q: the segment of each query, integers.
      kv: the segment of each key.
    """

    q: Any
    kv: Any


class QKVLayout(enum.IntEnum):
    """Which dimension of queries, keys or values is stored last."""

    HEAD_DIM_MINOR = enum.auto()
    SEQ_MINOR = enum.auto()


def from_head_minor(vals: tuple[Any, ...], layout: QKVLayout) -> tuple[Any, ...]:
    """Return sizes or indices for arrays whose last dimension is the features, in another layout."""
    if layout == QKVLayout.HEAD_DIM_MINOR:
        return vals
    return (*vals[:-2], vals[-1], vals[-2])


@dataclasses.dataclass(frozen=True)
class BlockSizes:
    """Numbers of queries and keys in the blocks of the kernels.

    Args:
      block_q, block_kv: of the forward kernel.
      block_kv_compute: the number of keys that are computed at a time; None for block_kv.
      block_q_dkv, block_kv_dkv, block_kv_dkv_compute: of the kernel for cotangents of keys and values.
      block_q_dq, block_kv_dq: of the kernel for cotangents of queries.
      use_fused_bwd_kernel: whether one kernel computes all cotangents.
      q_layout, k_layout, v_layout: how the arrays are stored.
    """

    block_q: int
    block_kv: int
    block_kv_compute: int | None = None
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_kv_dkv_compute: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None
    use_fused_bwd_kernel: bool = False
    q_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    k_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    v_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR

    def __post_init__(self) -> None:
        if self.block_kv_compute is None:
            object.__setattr__(self, "block_kv_compute", self.block_kv)
        if self.block_kv_dkv_compute is None:
            object.__setattr__(self, "block_kv_dkv_compute", self.block_kv_dkv)
        if self.use_fused_bwd_kernel and (self.block_q_dq or self.block_kv_dq):
            raise ValueError("Block sizes for dq kernel are not needed with a fused kernel.")

    @property
    def has_backward_blocks(self) -> bool:
        """Whether the sizes for the derivative are given."""
        sizes = [self.block_q_dkv, self.block_kv_dkv, self.block_kv_dkv_compute]
        if not self.use_fused_bwd_kernel:
            sizes += [self.block_q_dq, self.block_kv_dq]
        return all(s is not None for s in sizes)

    @classmethod
    def get_default(cls) -> BlockSizes:
        """Return blocks of 128."""
        return cls(128, 128, 128, 128, 128, 128, 128, 128)


@dataclasses.dataclass(frozen=True)
class _Options:
    block_sizes: BlockSizes
    is_mqa: bool
    save_residuals: bool
    residual_checkpoint_name: str | None
    settings: kernels.Settings

    def name(self, phase: str, segmented: bool) -> str:
        return get_kernel_name(self.is_mqa, self.save_residuals, segmented, phase)


def get_kernel_name(is_mqa: bool, save_residuals: bool, is_segmented: bool, phase: str) -> str:
    """Return the name of one of the kernels, as profiles have it."""
    parts = ["splash", "mqa" if is_mqa else "mha", phase]
    parts += ["segmented"] * is_segmented + ["residuals" if save_residuals else "no_residuals"]
    return "_".join(parts)


# Jitted, so that calls of one kernel stage it once.
@functools.partial(jit, static_argnums=(0, 7))
def _attention(
    options: _Options, tables: Any, q: Any, k: Any, v: Any, ids: Any, sinks: Any, residuals: bool = True
) -> Any:  # fmt: skip
    b = options.block_sizes
    blocks = b.block_q, b.block_kv, b.block_kv_compute
    name = options.name("fwd", ids is not None)
    return kernels.forward(
        tables[0], q, k, v, ids, sinks, blocks, options.settings, name, residuals
    )


def _differentiable(
    options: _Options, tables: Any, q: Any, k: Any, v: Any, ids: Any, sinks: Any
) -> Any:
    return _attention(options, tables, q, k, v, ids, sinks, False)[0]


_with_derivative = custom_vjp(_differentiable, nondiff_argnums=(0,))


def _forward(options: _Options, tables: Any, q: Any, k: Any, v: Any, ids: Any, sinks: Any) -> Any:
    if not options.block_sizes.has_backward_blocks:
        raise ValueError(
            "Need to specify backward blocks: give BlockSizes block_q_dkv and block_kv_dkv, and without "
            "use_fused_bwd_kernel block_q_dq and block_kv_dq."
        )
    out, lse = _attention(options, tables, q, k, v, ids, sinks)
    if options.residual_checkpoint_name is not None:
        out = checkpoint_name(out, options.residual_checkpoint_name)
        lse = checkpoint_name(lse, options.residual_checkpoint_name)
    return out, (tables, q, k, v, ids, sinks, out, lse)


@functools.partial(jit, static_argnums=0)
def _backward(options: _Options, residuals: Any, do: Any) -> Any:
    tables, q, k, v, ids, sinks, out, lse = residuals
    b, settings = options.block_sizes, options.settings
    delta = row_products(out, do)
    shared = (q, k, v, ids, do, lse, delta)
    segmented = ids is not None
    outs = kernels.backward_keys(
        tables[2], *shared, (b.block_q_dkv, b.block_kv_dkv, b.block_kv_dkv_compute),
        b.use_fused_bwd_kernel, settings, options.name("dkv", segmented),
    )  # fmt: skip
    if b.use_fused_bwd_kernel:
        dk, dv, dq = outs
    else:
        dk, dv = outs
        dq = kernels.backward_queries(
            tables[1], *shared, (b.block_q_dq, b.block_kv_dq), settings, options.name("dq", segmented)
        )  # fmt: skip
    dsinks = None
    if sinks is not None:
        weight = ufuncs.exp(sinks.astype(np.float32)[:, None] - lse)
        dsinks = -reductions.sum(weight * delta, axis=1).astype(sinks.dtype)
    return None, dq, dk, dv, None, dsinks


_with_derivative.defvjp(_forward, _backward)


@register_pytree_node_class
class SplashAttentionKernel:
    """Attention by the blocks of a mask: a function of queries, keys and values.

    It is a pytree, so that `shard_map` can divide its tables; see `manual_sharding_spec`. Made by
    `make_splash_mha` and `make_splash_mqa`.
    """

    def __init__(self, tables: Any, options: _Options):
        self.tables = tables
        self.options = options

    def __call__(
        self, q: Any, k: Any, v: Any, segment_ids: SegmentIds | None = None, sinks: Any = None
    ) -> Any:
        """Compute attention.

        Args:
          q: queries, [heads, queries, features]. Scores are not scaled: scale the queries.
          k, v: keys and values, [heads of keys, keys, features]; without heads for `make_splash_mqa`.
            The number of heads of queries is a multiple of that of keys.
          segment_ids: segments of queries and keys.
          sinks: for each head a score that takes part in the sum of exponentials only.

        Returns:
          [heads, queries, features of values]; if the kernel saves residuals also the logarithms of the
          sums of exponentials, [heads, queries], in a tuple.

        Raises:
          ValueError: if shapes do not match.
        """
        if self.options.is_mqa:
            k, v = k[None], v[None]
        _check_shapes(q, k, v, segment_ids, sinks, self.tables[0], self.options.block_sizes)
        if self.options.save_residuals:
            out, lse = _residuals(self.options, self.tables, q, k, v, segment_ids, sinks)
            return out, (lse,)
        return _with_derivative(self.options, self.tables, q, k, v, segment_ids, sinks)

    def manual_sharding_spec(self, sharding: NamedSharding) -> SplashAttentionKernel:
        """Return what `shard_map` takes as the kernel's `in_specs`.

        Args:
          sharding: how heads and queries are divided: its spec has two entries.
        """
        spec = PartitionSpec(*sharding.spec)
        known = lambda x, s: None if x is None else s
        tables = [
            None
            if t is None
            else BlockTable(spec, spec, known(t.partial, spec), known(t.partials, PartitionSpec()))
            for t in self.tables
        ]
        return SplashAttentionKernel(tuple(tables), self.options)

    def tree_flatten(self) -> Any:
        return (self.tables,), self.options

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> SplashAttentionKernel:
        return cls(children[0], aux)


@custom_vjp
def _not_differentiable(x: Any) -> Any:
    return x


def _refuse(*_: Any) -> Any:
    raise NotImplementedError(
        "Attention that saves residuals is not differentiable: make the kernel with save_residuals=False."
    )


_not_differentiable.defvjp(_refuse, _refuse)


def _residuals(options: _Options, tables: Any, *args: Any) -> Any:
    return tree_map(_not_differentiable, _attention(options, tables, *args))


def _check_shapes(
    q: Any, k: Any, v: Any, ids: Any, sinks: Any, table: BlockTable, b: BlockSizes
) -> None:
    if q.ndim != 3 or k.ndim != 3 or v.ndim != 3:
        raise ValueError(
            f"Queries, keys and values have dimensions for heads, positions and features, got shapes {q.shape}, "
            f"{k.shape} and {v.shape}. Use jax.vmap for batches."
        )
    if k.shape[:2] != v.shape[:2]:
        raise ValueError(
            f"Expected 'key' {k.shape} and 'value' {v.shape} to have the same leading dimensions."
        )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"Expected 'query' {q.shape} and 'key' {k.shape} to have the same number of features."
        )
    if q.shape[0] % k.shape[0]:
        raise ValueError(
            f"In MHA, expected number of 'query' heads ({q.shape[0]}) to be a multiple of the number of 'key' heads "
            f"({k.shape[0]})"
        )
    rows = table.block.shape[1] * b.block_q
    if (q.shape[0], q.shape[1]) != (table.block.shape[0], rows):
        raise ValueError(
            f"The mask has {table.block.shape[0]} heads and {rows} queries, but 'query' has the shape {q.shape}."
        )
    if ids is not None:
        for what, x, n in (("q", ids.q, q.shape[1]), ("kv", ids.kv, k.shape[1])):
            if x.shape != (n,):
                raise ValueError(
                    f"Invalid shape for {what} segment_ids: {x.shape}. Expected: {(n,)}"
                )
    if sinks is not None and sinks.shape != (q.shape[0],):
        raise ValueError(f"Invalid shape for sinks: {sinks.shape}. Expected: {(q.shape[0],)}")


def _make_splash_attention(
    mask: np.ndarray | MultiHeadMask | Any, *, block_sizes: BlockSizes | None = None, is_mqa: bool,
    save_residuals: bool = False, mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None, downcast_smem_data: bool = True, head_shards: int,
    q_seq_shards: int, residual_checkpoint_name: str | None = None, interpret: bool = False,
) -> SplashAttentionKernel:  # fmt: skip
    """Make attention for a mask: blocks of scores that it leaves out are not computed.

    Args:
      mask: a `MultiHeadMask`, or an array of booleans, [heads, queries, keys], which can be traced.
      block_sizes: sizes of blocks; by default 128.
      is_mqa: whether all heads share keys and values, which then have no dimension for heads.
      save_residuals: whether to return the logarithms of sums of exponentials, too.
      mask_value: the score of what the mask leaves out, in blocks that it leaves in partly.
      attn_logits_soft_cap: a bound c of the scores: they become c tanh(score / c).
      downcast_smem_data: whether the tables of blocks have the smallest integer type.
      head_shards, q_seq_shards: among how many devices heads and queries are divided.
      residual_checkpoint_name: the name that a policy of `jax.checkpoint` keeps residuals by.
      interpret: whether to run the kernels as programs of XLA, which any device can.

    Returns:
      The function, a `SplashAttentionKernel`.

    Raises:
      ValueError: if blocks do not divide the mask, or devices the heads or queries.
    """
    sizes = BlockSizes.get_default() if block_sizes is None else block_sizes
    heads = block_tables.heads_of(mask)
    num_heads, num_q, num_kv = mask.shape
    _check_sizes(
        sizes, num_heads, num_q // max(q_seq_shards, 1), num_q, num_kv, head_shards, q_seq_shards
    )
    if heads is None and q_seq_shards > 1:
        raise NotImplementedError("a traced mask whose queries are divided among devices")

    def table(rows: Any, columns: Any) -> BlockTable:
        if heads is None:
            return block_tables.traced_block_table(mask, rows, columns)
        return block_tables.block_table(heads, rows, columns, downcast_smem_data)

    def transposed(rows: Any, columns: Any) -> BlockTable:
        if heads is None:
            return block_tables.transposed_traced_block_table(mask, rows, columns)
        return block_tables.transposed_block_table(
            heads, rows, columns, q_seq_shards, downcast_smem_data
        )

    tables: list[BlockTable | None] = [table(sizes.block_q, sizes.block_kv), None, None]
    if sizes.has_backward_blocks:
        if not sizes.use_fused_bwd_kernel:
            tables[1] = table(sizes.block_q_dq, sizes.block_kv_dq)
        tables[2] = transposed(sizes.block_q_dkv, sizes.block_kv_dkv)
    minor = [x == QKVLayout.SEQ_MINOR for x in (sizes.q_layout, sizes.k_layout, sizes.v_layout)]
    settings = kernels.Settings(mask_value, attn_logits_soft_cap, interpret, *minor)
    options = _Options(sizes, is_mqa, save_residuals, residual_checkpoint_name, settings)
    arrays = tuple(None if t is None else _as_arrays(t) for t in tables)
    return SplashAttentionKernel(arrays, options)


def _as_arrays(t: BlockTable) -> BlockTable:
    return BlockTable(*[None if x is None else asarray(x) for x in t])


def _check_sizes(
    b: BlockSizes, heads: int, shard: int, num_q: int, num_kv: int, head_shards: int, q_shards: int
) -> None:
    if heads % head_shards:
        raise ValueError(f"head_shards={head_shards} should divide the number of heads {heads}.")
    if num_q % q_shards:
        raise ValueError(f"q_seq_shards={q_shards} should divide q_seq_len={num_q}.")
    sizes = [
        ("q_block_size", b.block_q, "q_seq_len", shard),
        ("kv_block_size", b.block_kv, "kv_seq_len", num_kv),
    ]
    if b.has_backward_blocks:
        sizes += [
            ("block_q_dkv", b.block_q_dkv, "q_seq_len", shard),
            ("block_kv_dkv", b.block_kv_dkv, "kv_seq_len", num_kv),
        ]
        if not b.use_fused_bwd_kernel:
            sizes += [
                ("block_q_dq", b.block_q_dq, "q_seq_len", shard),
                ("block_kv_dq", b.block_kv_dq, "kv_seq_len", num_kv),
            ]
    for what, size, of, total in sizes:
        if total % size:
            raise ValueError(f"{what}={size} should divide {of}={total}.")
    parts = [(b.block_kv, b.block_kv_compute)]
    if b.has_backward_blocks:
        parts.append((b.block_kv_dkv, b.block_kv_dkv_compute))
    for size, part in parts:
        if size % part:
            raise ValueError(
                f"the number of keys computed at a time, {part}, should divide {size}."
            )


make_splash_mha = functools.partial(_make_splash_attention, is_mqa=False)
make_splash_mqa = functools.partial(_make_splash_attention, is_mqa=True)
make_splash_mha_single_device = functools.partial(make_splash_mha, head_shards=1, q_seq_shards=1)
make_splash_mqa_single_device = functools.partial(make_splash_mqa, head_shards=1, q_seq_shards=1)
