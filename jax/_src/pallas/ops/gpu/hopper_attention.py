"""Attention on Hopper GPUs.

The algorithm is FlashAttention-3 (Shah et al., 2024, arXiv:2407.08608): one warpgroup copies keys and values, and two others,
with queries of their own, take turns at the tensor core, so that one computes exponentials while the other one multiplies.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.api import jit
from jax._src.core import ShapedArray
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.lax.parallel import axis_index
from jax._src.numpy.einsum import einsum
from jax._src.pallas.helpers import loop, when
from jax._src.pallas.mosaic_gpu.copies import (
    barrier_arrive,
    barrier_wait,
    copy_gmem_to_smem,
    wait_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import Barrier, BlockSpec, CompilerParams
from jax._src.pallas.mosaic_gpu.kernel import kernel
from jax._src.pallas.mosaic_gpu.layouts import Layout
from jax._src.pallas.mosaic_gpu.memory_operations import layout_cast
from jax._src.pallas.mosaic_gpu.pipeline import emit_pipeline_warp_specialized
from jax._src.pallas.mosaic_gpu.transforms import transpose_ref
from jax._src.pallas.ops.gpu.hopper_attention_gradient import (
    LOG2_E,
    Gradient,
    attends,
)
from jax._src.pallas.ops.gpu.warpgroups import (
    COMPUTING,
    REGISTERS_OF_COPIES,
    add_product,
    copy_or_compute,
    heads_beside_each_other,
    int32,
    product,
    rows_of_head,
    start_store,
    swizzled,
    swizzling,
    zeros,
)

traceback_util.register_exclusion(__file__)


@dataclasses.dataclass(frozen=True)
class TuningConfig:
    """How attention is divided.

    Args:
      block_q, block_kv: how many queries a warpgroup has, and how many keys a step.
      max_concurrent_steps: for how many steps there is memory.
      use_schedule_barrier: whether two warpgroups take turns at the tensor core.
      causal: whether queries attend only to keys that do not come after them.
      compute_wgs_bwd: how many warpgroups of a block compute derivatives.
      block_q_dkv, block_kv_dkv: in the derivatives by keys and values, the queries of a step and the keys of a
        warpgroup.
      block_q_dq, block_kv_dq: in the derivative by queries, the queries of a warpgroup and the keys of a step.

    Raises:
      ValueError: if a size is no multiple of 64, or only some of the last four are given.
    """

    block_q: int
    block_kv: int
    max_concurrent_steps: int
    use_schedule_barrier: bool = True
    causal: bool = False
    compute_wgs_bwd: int = 1
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None

    def __post_init__(self) -> None:
        backward = ("block_q_dkv", "block_kv_dkv", "block_q_dq", "block_kv_dq")
        for name in ("block_q", "block_kv", *backward):
            size = getattr(self, name)
            if size is not None and (size < 64 or size % 64):
                raise ValueError(f"{name}={size} must be a multiple of 64.")
        if self.max_concurrent_steps < 2:
            raise ValueError(
                f"max_concurrent_steps={self.max_concurrent_steps} must be at least 2."
            )
        if self.compute_wgs_bwd < 1:
            raise ValueError(f"compute_wgs_bwd={self.compute_wgs_bwd} must be positive.")
        if len({getattr(self, name) is None for name in backward}) > 1:
            raise ValueError(
                f"Sizes of blocks of derivatives must be all given or all None: {', '.join(backward)}."
            )

    @property
    def has_backward_blocks(self) -> bool:
        """Whether the sizes of blocks of derivatives are given."""
        return self.block_q_dkv is not None


@dataclasses.dataclass(frozen=True)
class _Forward:
    """What the kernel is made from: the options, and the sizes."""

    config: TuningConfig
    dtype: Any
    batch: int
    queries: int
    keys: int
    heads: int
    group: int  # of heads that share keys
    depth: int

    @property
    def steps(self) -> int:
        return self.keys // self.config.block_kv

    @property
    def buffers(self) -> int:
        return min(self.config.max_concurrent_steps, self.steps)

    def scratch(self) -> dict[str, Any]:
        """Return the types of references. The result is in the memory of the queries."""
        c, n = self.config, self.buffers
        return dict(
            q=swizzled((COMPUTING, c.block_q, self.depth), self.dtype),
            k=swizzled((n, c.block_kv, self.depth), self.dtype),
            v=swizzled((n, c.block_kv, self.depth), self.dtype),
            q_copied=Barrier(num_barriers=COMPUTING),
            k_copied=Barrier(num_barriers=n),
            v_copied=Barrier(num_barriers=n),
            k_consumed=Barrier(num_arrivals=COMPUTING, num_barriers=n),
            v_consumed=Barrier(num_arrivals=COMPUTING, num_barriers=n),
            turn=Barrier(num_arrivals=COMPUTING),
        )

    def run(
        self, body: Any, scratch: Any, q: Any, k: Any, v: Any, save: bool, interpret: Any
    ) -> Any:
        out_type = [ShapedArray((self.batch * self.queries, self.heads * self.depth), self.dtype)]
        if save:
            out_type.append(
                ShapedArray((self.batch, self.heads, self.queries), np.dtype(np.float32))
            )
        blocks = self.queries // (COMPUTING * self.config.block_q)
        call = kernel(
            body, out_type=out_type, scratch_types=scratch, grid=(self.heads, blocks, self.batch),
            grid_names=("head", "block", "batch"), num_threads=COMPUTING + 1, thread_name="wg",
            compiler_params=CompilerParams(approx_math=True), interpret=interpret,
        )  # fmt: skip
        out, *residuals = call(*map(heads_beside_each_other, (q, k, v)))
        out = lax.reshape(out, q.shape)
        return (out, tuple(residuals)) if save else out

    # Which keys a block of queries attends to

    def whole_steps(self, block: Any) -> Any:
        """Return how many steps have keys that all queries of a block attend to."""
        if not self.config.causal:
            return np.int32(self.steps)
        first = lax.mul(block, np.int32(COMPUTING * self.config.block_q))
        n = lax.div(lax.add(first, np.int32(1)), np.int32(self.config.block_kv))
        return lax.min(n, np.int32(self.steps))

    def all_steps(self, block: Any) -> Any:
        """Return how many steps have keys that any of them attends to."""
        if not self.config.causal:
            return np.int32(self.steps)
        end = lax.mul(lax.add(block, np.int32(1)), np.int32(COMPUTING * self.config.block_q))
        n = lax.div(
            lax.add(end, np.int32(self.config.block_kv - 1)), np.int32(self.config.block_kv)
        )
        return lax.min(n, np.int32(self.steps))


def attention_forward(
    q: Any, k: Any, v: Any, config: TuningConfig, save_residuals: bool, interpret: Any
) -> Any:
    """Return attention, with the logarithms of sums of exponentials if they are wanted."""
    f = _forward(q, k, v, config)

    def body(q_ref: Any, k_ref: Any, v_ref: Any, *refs: Any, **scratch: Any) -> None:
        out_ref, lse_ref = refs[0], refs[1] if save_residuals else None
        thread = axis_index("wg")
        copy_or_compute(
            thread,
            lambda: _copy(f, k_ref, v_ref, scratch),
            lambda: _compute(f, q_ref, out_ref, lse_ref, thread, scratch),
        )

    return f.run(body, f.scratch(), q, k, v, save_residuals, interpret)


def _forward(q: Any, k: Any, v: Any, config: TuningConfig) -> _Forward:
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4:
        raise ValueError(
            f"attention takes arrays of shape (batch, length, heads, depth), got {q.shape}, {k.shape} and {v.shape}."
        )
    names = [dtypes.dtype_name(x.dtype) for x in (q, k, v)]
    if len(set(names)) > 1 or names[0] not in ("float16", "bfloat16"):
        raise ValueError(
            f"attention takes arrays of one dtype, float16 or bfloat16, got {', '.join(names)}."
        )
    batch, queries, heads, depth = q.shape
    keys, key_heads = k.shape[1:3]
    if tuple(k.shape) != tuple(v.shape) or (k.shape[0], k.shape[3]) != (batch, depth):
        raise ValueError(
            f"Keys and values of queries of shape {q.shape} have shape {(batch, 'n', 'heads', depth)}, got {k.shape} and {v.shape}."
        )
    if not key_heads or heads % key_heads:
        raise ValueError(
            f"{heads} heads of queries cannot share {key_heads} heads of keys equally."
        )
    if depth % 64:
        raise ValueError(f"depth={depth} must be a multiple of 64.")
    if queries % (COMPUTING * config.block_q):
        raise ValueError(
            f"{queries} queries must be a multiple of twice block_q={config.block_q}, those of two warpgroups."
        )
    if not keys or keys % config.block_kv:
        raise ValueError(f"{keys} keys must be a multiple of block_kv={config.block_kv}.")
    return _Forward(config, q.dtype, batch, queries, keys, heads, heads // key_heads, depth)


# The warpgroup that copies


def _keys(f: _Forward, ref: Any, start: Any, rows: int) -> Any:
    """Return keys or values of this block's head."""
    head = lax.div(axis_index("head"), np.int32(f.group))
    return rows_of_head(ref, start, rows, f.keys, head, f.depth)


def _copy(f: _Forward, k_ref: Any, v_ref: Any, refs: dict[str, Any]) -> None:
    n, size = np.int32(f.buffers), f.config.block_kv

    @loop(np.int32(0), f.all_steps(axis_index("block")))
    def _(i: Any) -> None:
        slot = lax.rem(i, n)
        for ref, name in ((k_ref, "k"), (v_ref, "v")):

            @when(lax.ge(i, n))
            def _(name: str = name) -> None:
                barrier_wait(refs[f"{name}_consumed"].at[slot])

            source = _keys(f, ref, lax.mul(i, np.int32(size)), size)
            copy_gmem_to_smem(source, refs[name].at[slot], refs[f"{name}_copied"].at[slot])


# The warpgroups that compute


def _rows(value: float, n: int) -> Any:
    return layout_cast(lax.full((n,), value, np.float32), Layout.WGMMA.reduce(1))


def _start(f: _Forward) -> Any:
    n = f.config.block_q
    return _rows(-np.inf, n), _rows(0, n), zeros(n, f.depth)


def _along_columns(x: Any, shape: tuple[int, ...]) -> Any:
    return lax.broadcast_in_dim(x, shape, (0,))


def _weights(scores: Any, greatest: Any, total: Any, mask: Any) -> Any:
    """Return the weights of keys, how much what is there already counts, and the new greatest scores and sums."""
    scores = lax.mul(scores, LOG2_E)
    if mask is not None:
        scores = lax.select(mask, scores, lax.full_like(scores, -np.inf))
    new = lax.max(greatest, lax.reduce_max(scores, (1,)))
    weights = lax.exp2(lax.sub(scores, _along_columns(new, scores.shape)))
    scale = lax.exp2(lax.sub(greatest, new))
    total = lax.add(lax.mul(total, scale), lax.reduce_sum(weights, (1,)))
    return weights, scale, new, total


def _add_values(out: Any, scale: Any, weights: Any, v: Any) -> Any:
    return add_product(lax.mul(out, _along_columns(scale, out.shape)), weights, v)


def _first_query(f: _Forward, thread: Any) -> Any:
    """Return the first query of a warpgroup."""
    block = lax.mul(axis_index("block"), np.int32(COMPUTING))
    return lax.mul(lax.add(block, thread), np.int32(f.config.block_q))


def _own_queries(f: _Forward, q_ref: Any, start: Any, thread: Any, refs: dict[str, Any]) -> Any:
    """Copy the queries of a warpgroup, and return where they are."""
    q, copied = refs["q"].at[thread], refs["q_copied"].at[thread]
    copy_gmem_to_smem(_queries(f, q_ref, start), q, copied)
    barrier_wait(copied)
    return q


def _turns(f: _Forward, refs: dict[str, Any]) -> Callable[[], None]:
    """Return the function that leaves the tensor core to the other warpgroup, and waits for it."""

    def take_turns() -> None:
        if f.config.use_schedule_barrier:
            barrier_arrive(refs["turn"].at[0])
            barrier_wait(refs["turn"].at[0])

    return take_turns


def _compute(
    f: _Forward, q_ref: Any, out_ref: Any, lse_ref: Any, thread: Any, refs: dict[str, Any]
) -> None:
    config, block = f.config, axis_index("block")
    start = _first_query(f, thread)
    q = _own_queries(f, q_ref, start, thread, refs)
    take_turns = _turns(f, refs)

    def step(masked: bool) -> Any:
        def run(i: Any, carry: Any) -> Any:
            greatest, total, out = carry
            slot = lax.rem(int32(i), np.int32(f.buffers))
            shape = (config.block_q, config.block_kv)
            barrier_wait(refs["k_copied"].at[slot])
            scores = product(q, transpose_ref(refs["k"].at[slot], (1, 0)), shape)
            barrier_arrive(refs["k_consumed"].at[slot])
            take_turns()
            mask = None
            if masked:
                mask = attends(start, lax.mul(int32(i), np.int32(config.block_kv)), shape, 0)
            weights, scale, greatest, total = _weights(scores, greatest, total, mask)
            barrier_wait(refs["v_copied"].at[slot])
            take_turns()
            out = _add_values(out, scale, weights, refs["v"].at[slot])
            barrier_arrive(refs["v_consumed"].at[slot])
            return greatest, total, out

        return run

    # The second warpgroup is half a step behind the first one.
    when(lax.eq(thread, np.int32(1)))(take_turns)
    whole = f.whole_steps(block)
    carry = fori_loop(np.int32(0), whole, step(False), _start(f))
    if config.causal:
        carry = fori_loop(whole, f.all_steps(block), step(True), carry)
    when(lax.eq(thread, np.int32(0)))(take_turns)
    _finish(f, carry, q, out_ref, lse_ref, start)


def _queries(f: _Forward, ref: Any, start: Any) -> Any:
    head = axis_index("head")
    return rows_of_head(ref, start, f.config.block_q, f.queries, head, f.depth)


def _finish(f: _Forward, carry: Any, buffer: Any, out_ref: Any, lse_ref: Any, start: Any) -> None:
    """Store the result, by way of a buffer in shared memory."""
    greatest, total, out = carry
    out = lax.div(out, _along_columns(total, out.shape))
    start_store(out, buffer, _queries(f, out_ref, start))
    if lse_ref is not None:
        rows = ds(start, f.config.block_q)
        lse = lax.add(greatest, lax.mul(lax.log(total), LOG2_E))
        lse_ref[axis_index("batch"), axis_index("head"), rows] = lse
    wait_smem_to_gmem(0)


@functools.partial(custom_vjp, nondiff_argnums=(3, 4, 5))
def attention(
    q: Any, k: Any, v: Any, config: TuningConfig, save_residuals: bool = False, interpret: Any = None
) -> Any:  # fmt: skip
    """Return attention on a Hopper GPU, forward and backward: softmax(q kᵀ) v, of each head.

    Scores are not scaled: scale the queries.

    Args:
      q: array of queries, of shape (batch, length, heads, depth), float16 or bfloat16.
      k, v: arrays of keys and values, of shape (batch, length, heads, depth) and the same dtype. Several heads of
        queries can share a head of keys.
      config: how it is divided.
      save_residuals: whether to return the logarithms of the sums of exponentials as well, in base two.
      interpret: `plgpu.InterpretParams()` to run it without a GPU.

    Returns:
      An array of the shape and dtype of `q`; with `save_residuals` a pair of that, and of a tuple of one float32
      array of shape (batch, heads, length).

    Raises:
      ValueError: if shapes, dtypes and blocks do not match; for derivatives, if the config has no blocks for them.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> from jax.experimental.pallas.ops.gpu.attention_mgpu import TuningConfig, attention
    >>> q, k = jnp.ones((1, 128, 1, 64), jnp.float16), jnp.ones((1, 64, 1, 64), jnp.float16)
    >>> config = TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2)
    >>> attention(q, k, k, config, interpret=plgpu.InterpretParams()).shape
    (1, 128, 1, 64)
    """
    return attention_forward(q, k, v, config, save_residuals, interpret)


def _with_residuals(
    forward: Callable[..., Any], q: Any, k: Any, v: Any, config: TuningConfig, save_residuals: bool, interpret: Any
) -> Any:  # fmt: skip
    """Return attention by a forward pass, and what its derivatives need."""
    out, (lse,) = forward(q, k, v, config, True, interpret)
    return ((out, (lse,)) if save_residuals else out), (q, k, v, out, lse)


def _backward(
    config: TuningConfig, save_residuals: bool, interpret: Any, res: Any, cotangents: Any
) -> Any:
    if not config.has_backward_blocks:
        raise ValueError(
            "Derivatives of attention need sizes of blocks: give block_q_dkv, block_kv_dkv, block_q_dq and block_kv_dq of TuningConfig."
        )
    do, dlse = (cotangents[0], cotangents[1][0]) if save_residuals else (cotangents, None)
    return Gradient.of(config, *res).run(do, dlse, interpret)


attention.defvjp(functools.partial(_with_residuals, attention_forward), _backward)


@functools.partial(jit, static_argnames=("config", "save_residuals", "interpret"))
def attention_with_pipeline_emitter(
    q: Any, k: Any, v: Any, config: TuningConfig, save_residuals: bool = False, *, interpret: Any = None
) -> Any:  # fmt: skip
    """Return attention on a Hopper GPU, like `attention`, from a kernel made by `plgpu.emit_pipeline_warp_specialized`.

    Derivatives are those of `attention`.

    Args:
      q, k, v, config, save_residuals, interpret: as for `attention`; the warpgroups do not take turns if there is only
        one step.

    Raises:
      NotImplementedError: for causal attention.
      ValueError: if shapes, dtypes and blocks do not match.
    """
    if config.causal:
        raise NotImplementedError(
            "attention_with_pipeline_emitter has no causal attention: take attention_mgpu.attention."
        )
    return _pipelined(q, k, v, config, save_residuals, interpret)


@functools.partial(custom_vjp, nondiff_argnums=(3, 4, 5))
def _pipelined(
    q: Any, k: Any, v: Any, config: TuningConfig, save_residuals: bool, interpret: Any
) -> Any:
    f = _forward(q, k, v, config)

    def body(q_ref: Any, k_ref: Any, v_ref: Any, *refs: Any, **scratch: Any) -> None:
        _run_pipeline(f, q_ref, k_ref, v_ref, refs[0], refs[1] if save_residuals else None, scratch)

    scratch = {name: f.scratch()[name] for name in ("q", "q_copied", "turn")}
    return f.run(body, scratch, q, k, v, save_residuals, interpret)


_pipelined.defvjp(functools.partial(_with_residuals, _pipelined), _backward)


def _run_pipeline(
    f: _Forward, q_ref: Any, k_ref: Any, v_ref: Any, out_ref: Any, lse_ref: Any, refs: dict[str, Any]
) -> None:  # fmt: skip
    config, thread = f.config, axis_index("wg")
    start, take_turns = _first_query(f, thread), _turns(f, refs)

    def step(indices: Any, k: Any, v: Any, k_read: Any, v_read: Any, carry: Any) -> Any:
        greatest, total, out = carry
        shape = (config.block_q, config.block_kv)
        scores = product(refs["q"].at[thread], transpose_ref(k, (1, 0)), shape)
        barrier_arrive(k_read)
        take_turns()
        weights, scale, greatest, total = _weights(scores, greatest, total, None)
        take_turns()
        out = _add_values(out, scale, weights, v)
        barrier_arrive(v_read)
        return greatest, total, out

    def compute(pipeline: Any) -> None:
        q = _own_queries(f, q_ref, start, thread, refs)
        when(lax.eq(thread, np.int32(1)))(take_turns)
        carry = pipeline(_start(f))
        when(lax.eq(thread, np.int32(0)))(take_turns)
        _finish(f, carry, q, out_ref, lse_ref, start)

    block = BlockSpec(
        (config.block_kv, f.depth), lambda i: (i, 0), transforms=swizzling(f.depth, f.dtype)
    )
    whole = [_keys(f, ref, 0, f.keys) for ref in (k_ref, v_ref)]
    emit_pipeline_warp_specialized(
        step, grid=(f.steps,), in_specs=[block, block], max_concurrent_steps=config.max_concurrent_steps,
        memory_registers=REGISTERS_OF_COPIES, wg_axis="wg", num_compute_wgs=COMPUTING,
        manual_consumed_barriers=True, compute_context=compute,
    )(*whole)  # fmt: skip


@functools.partial(jit, static_argnames=("causal", "save_residuals"))
def attention_reference(
    q: Any, k: Any, v: Any, causal: bool = False, save_residuals: bool = False
) -> Any:
    """Return attention by XLA, in float32.

    Args:
      q, k, v: as for `attention`.
      causal: whether queries attend only to keys that do not come after them.
      save_residuals: whether to return the logarithms of the sums of exponentials as well, in base two.
    """
    q, k, v = [lax.convert_element_type(x, np.float32) for x in (q, k, v)]
    batch, queries, heads, depth = q.shape
    keys, key_heads = k.shape[1:3]
    grouped = lax.reshape(q, (batch, queries, key_heads, heads // key_heads, depth))
    scores = einsum("bqhgd,bkhd->bhgqk", grouped, k)
    if causal:
        mask = attends(np.int32(0), np.int32(0), (queries, keys), 0)
        mask = lax.broadcast_in_dim(mask, scores.shape, (3, 4))
        scores = lax.select(mask, scores, lax.full_like(scores, -np.inf))
    greatest = lax.reduce_max(scores, (4,))
    along = lambda x: lax.broadcast_in_dim(x, scores.shape, (0, 1, 2, 3))
    weights = lax.exp(lax.sub(scores, along(greatest)))
    total = lax.reduce_sum(weights, (4,))
    out = lax.reshape(einsum("bhgqk,bkhd->bqhgd", lax.div(weights, along(total)), v), q.shape)
    if not save_residuals:
        return out
    lse = lax.mul(lax.add(greatest, lax.log(total)), LOG2_E)
    return out, (lax.reshape(lse, (batch, heads, queries)),)
