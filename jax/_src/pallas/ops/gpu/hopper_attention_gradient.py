"""The derivatives of attention on Hopper GPUs: by queries, and by keys and values.

Scores are computed again, as in FlashAttention-2 (Dao, 2023, arXiv:2307.08691): one kernel has blocks of keys, to which
derivatives are added for all queries, and another one blocks of queries.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jax._src import traceback_util
from jax._src.core import ShapedArray
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.parallel import axis_index
from jax._src.pallas.mosaic_gpu.copies import (
    barrier_wait,
    copy_gmem_to_smem,
    wait_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import Barrier, BlockSpec, CompilerParams
from jax._src.pallas.mosaic_gpu.kernel import kernel
from jax._src.pallas.mosaic_gpu.layouts import Layout
from jax._src.pallas.mosaic_gpu.memory_operations import load
from jax._src.pallas.mosaic_gpu.pipeline import emit_pipeline_warp_specialized
from jax._src.pallas.mosaic_gpu.transforms import transpose_ref
from jax._src.pallas.ops.gpu.warpgroups import (
    REGISTERS_OF_COPIES,
    add_product,
    check_divides,
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
LOG2_E = np.float32(np.log2(np.e))


@dataclasses.dataclass(frozen=True)
class Gradient:
    """What the derivatives are computed from.

    Attributes:
      config: the options of attention.
      q, k, v, out, lse: its arguments and results.
    """

    config: Any
    q: Any
    k: Any
    v: Any
    out: Any
    lse: Any

    @classmethod
    def of(cls, config: Any, q: Any, k: Any, v: Any, out: Any, lse: Any) -> Gradient:
        """Return it for arguments that blocks divide.

        Raises:
          ValueError: if they do not.
        """
        n = config.compute_wgs_bwd
        many = "" if n == 1 else " * compute_wgs_bwd"
        queries, keys = q.shape[1], k.shape[1]
        check_divides(
            ("queries", queries, f"block_q_dq{many}", n * config.block_q_dq),
            ("queries", queries, "block_q_dkv", config.block_q_dkv),
            ("keys", keys, f"block_kv_dkv{many}", n * config.block_kv_dkv),
            ("keys", keys, "block_kv_dq", config.block_kv_dq),
        )
        return cls(config, q, k, v, out, lse)

    @property
    def group(self) -> int:
        """How many heads of queries share one of keys."""
        return self.q.shape[2] // self.k.shape[2]

    def run(self, do: Any, dlse: Any, interpret: Any) -> tuple[Any, Any, Any]:
        """Return the derivatives by queries, keys and values.

        Args:
          do, dlse: the cotangents of the result, and of the logarithms of sums; None for zeros.
          interpret: how to run without a GPU.
        """
        f32 = lambda x: lax.convert_element_type(x, np.float32)
        delta = lax.reduce_sum(lax.mul(f32(do), f32(self.out)), (3,))
        delta = lax.transpose(delta, (0, 2, 1))
        if dlse is not None:  # in base two
            delta = lax.sub(delta, lax.mul(dlse, LOG2_E))
        dq = self._kernel(self._by_queries, (self.q,), do, delta, interpret)
        dk, dv = self._kernel(self._by_keys, (self.k, self.v), do, delta, interpret)
        return dq[0], dk, dv

    def _kernel(self, body: Any, outs: Any, do: Any, delta: Any, interpret: Any) -> Any:
        c = self.config
        like = outs[0]
        rows = c.block_q_dq if like is self.q else c.block_kv_dkv
        shape = (c.compute_wgs_bwd, rows, like.shape[3])
        call = kernel(
            body, out_type=[ShapedArray((x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]), x.dtype) for x in outs],
            scratch_types=[
                swizzled(shape, like.dtype), swizzled(shape, like.dtype),
                Barrier(num_arrivals=2, num_barriers=c.compute_wgs_bwd),
            ],
            grid=(like.shape[2], like.shape[1] // (c.compute_wgs_bwd * rows), like.shape[0]),
            grid_names=("head", "block", "batch"), num_threads=c.compute_wgs_bwd + 1, thread_name="wg",
            compiler_params=CompilerParams(approx_math=True), interpret=interpret,
        )  # fmt: skip
        got = call(*map(heads_beside_each_other, (self.q, self.k, self.v, do)), self.lse, delta)
        return [lax.reshape(x, like.shape) for x in got]

    def _pipeline(self, step: Any, compute: Any, steps: Any, specs: Any, rows: int) -> Any:
        c = self.config
        total = steps if isinstance(steps, int) else max(self.q.shape[1], self.k.shape[1]) // rows
        return emit_pipeline_warp_specialized(
            step, grid=(steps,), in_specs=specs, max_concurrent_steps=min(c.max_concurrent_steps, total),
            memory_registers=REGISTERS_OF_COPIES, wg_axis="wg", num_compute_wgs=c.compute_wgs_bwd,
            compute_context=compute,
        )  # fmt: skip

    def _first(self, rows: int) -> Any:
        """Return the first row of this warpgroup."""
        block = lax.mul(axis_index("block"), np.int32(self.config.compute_wgs_bwd))
        return lax.mul(lax.add(block, axis_index("wg")), np.int32(rows))

    # By queries

    def _by_queries(
        self, q_ref: Any, k_ref: Any, v_ref: Any, do_ref: Any, lse_ref: Any, delta_ref: Any, dq_ref: Any,
        q_buffer: Any, do_buffer: Any, copied: Any,
    ) -> None:  # fmt: skip
        c, thread, depth = self.config, axis_index("wg"), self.q.shape[3]
        rows, columns = c.block_q_dq, c.block_kv_dq
        start = self._first(rows)
        head, batch = axis_index("head"), axis_index("batch")
        own = lambda ref: rows_of_head(ref, start, rows, self.q.shape[1], head, depth)

        def step(indices: Any, k: Any, v: Any, carry: Any) -> Any:
            dq, lse, delta = carry
            q, do = q_buffer.at[thread], do_buffer.at[thread]
            scores = product(q, transpose_ref(k, (1, 0)), (rows, columns))
            mask = None
            if c.causal:
                k_start = lax.mul(int32(indices[0]), np.int32(columns))
                mask = attends(start, k_start, (rows, columns), 0)
            p = _probabilities(scores, lse, 0, mask)
            dp = product(do, transpose_ref(v, (1, 0)), (rows, columns))
            ds_ = lax.mul(p, lax.sub(dp, lax.broadcast_in_dim(delta, p.shape, (0,))))
            return add_product(dq, ds_, k), lse, delta

        def compute(pipeline: Any) -> None:
            q, do, barrier = q_buffer.at[thread], do_buffer.at[thread], copied.at[thread]
            copy_gmem_to_smem(own(q_ref), q, barrier)
            copy_gmem_to_smem(own(do_ref), do, barrier)
            along = Layout.WGMMA.reduce(1)
            lse, delta = [
                load(ref, (batch, head, ds(start, rows)), layout=along, optimized=False)
                for ref in (lse_ref, delta_ref)
            ]
            barrier_wait(barrier)
            dq, _, _ = pipeline((zeros(rows, depth), lse, delta))
            start_store(dq, q, own(dq_ref))
            wait_smem_to_gmem(0)

        keys = self.k.shape[1]
        steps: Any = keys // columns
        if c.causal:  # the keys that any query of the block attends to
            end = lax.mul(
                lax.add(axis_index("block"), np.int32(1)), np.int32(c.compute_wgs_bwd * rows)
            )
            steps = lax.min(_ceil_div(end, columns), np.int32(steps))
        key_head = lax.div(head, np.int32(self.group))
        block = BlockSpec(
            (columns, depth), lambda i: (i, 0), transforms=swizzling(depth, self.k.dtype)
        )
        whole = [rows_of_head(r, 0, keys, keys, key_head, depth) for r in (k_ref, v_ref)]
        self._pipeline(step, compute, steps, [block, block], columns)(*whole)

    # By keys and values

    def _by_keys(
        self, q_ref: Any, k_ref: Any, v_ref: Any, do_ref: Any, lse_ref: Any, delta_ref: Any, dk_ref: Any,
        dv_ref: Any, k_buffer: Any, v_buffer: Any, copied: Any,
    ) -> None:  # fmt: skip
        """Add up for all queries of the heads that share keys: matrices have a row for each key."""
        c, thread, depth = self.config, axis_index("wg"), self.q.shape[3]
        rows, columns = c.block_kv_dkv, c.block_q_dkv
        start = self._first(rows)
        head, batch = axis_index("head"), axis_index("batch")
        own = lambda ref: rows_of_head(ref, start, rows, self.k.shape[1], head, depth)
        of_head = self.q.shape[1] // columns  # steps
        first: Any = np.int32(0)
        if c.causal:  # the first step whose queries attend to any key of the block
            keys = lax.mul(axis_index("block"), np.int32(c.compute_wgs_bwd * rows))
            first = lax.min(lax.div(keys, np.int32(columns)), np.int32(of_head))
        left: Any = lax.sub(np.int32(of_head), first) if c.causal else of_head
        steps = lax.mul(left, np.int32(self.group)) if c.causal else of_head * self.group

        def position(i: Any) -> tuple[Any, Any]:
            """Return the head of queries of a step, and its number in the head."""
            n = lax.max(int32(left), np.int32(1))
            in_group, number = lax.div(int32(i), n), lax.rem(int32(i), n)
            return lax.add(lax.mul(head, np.int32(self.group)), in_group), lax.add(number, first)

        def step(indices: Any, q: Any, do: Any, lse: Any, delta: Any, carry: Any) -> Any:
            dk, dv = carry
            scores = product(k_buffer.at[thread], transpose_ref(q, (1, 0)), (rows, columns))
            lse, delta = [
                load(ref, (), layout=Layout.WGMMA.reduce(0), optimized=False)
                for ref in (lse, delta)
            ]
            mask = None
            if c.causal:
                q_start = lax.mul(position(indices[0])[1], np.int32(columns))
                mask = attends(q_start, start, (rows, columns), 1)
            p = _probabilities(scores, lse, 1, mask)
            dv = add_product(dv, p, do)
            dp = product(v_buffer.at[thread], transpose_ref(do, (1, 0)), (rows, columns))
            ds_ = lax.mul(p, lax.sub(dp, lax.broadcast_in_dim(delta, p.shape, (1,))))
            return add_product(dk, ds_, q), dv

        def compute(pipeline: Any) -> None:
            k, v, barrier = k_buffer.at[thread], v_buffer.at[thread], copied.at[thread]
            copy_gmem_to_smem(own(k_ref), k, barrier)
            copy_gmem_to_smem(own(v_ref), v, barrier)
            barrier_wait(barrier)
            dk, dv = pipeline((zeros(rows, depth), zeros(rows, depth)))
            start_store(dk, k, own(dk_ref))
            start_store(dv, v, own(dv_ref))
            wait_smem_to_gmem(0)

        def index(i: Any) -> Any:
            q_head, number = position(i)
            return lax.add(lax.mul(batch, np.int32(of_head)), number), q_head

        block = BlockSpec((columns, depth), index, transforms=swizzling(depth, self.q.dtype))
        numbers = BlockSpec((None, columns), position)
        pipeline = self._pipeline(step, compute, steps, [block, block, numbers, numbers], columns)
        pipeline(q_ref, do_ref, lse_ref.at[batch], delta_ref.at[batch])


def _ceil_div(x: Any, n: int) -> Any:
    return lax.div(lax.add(x, np.int32(n - 1)), np.int32(n))


def attends(q_start: Any, k_start: Any, shape: tuple[int, int], q_axis: int) -> Any:
    """Return whether queries, along an axis, attend to keys along the other one."""
    q = lax.add(lax.broadcasted_iota(np.int32, shape, q_axis), q_start)
    return lax.ge(q, lax.add(lax.broadcasted_iota(np.int32, shape, 1 - q_axis), k_start))


def _probabilities(scores: Any, lse: Any, q_axis: int, mask: Any) -> Any:
    lse = lax.broadcast_in_dim(lse, scores.shape, (q_axis,))
    p = lax.exp2(lax.sub(lax.mul(scores, LOG2_E), lse))
    return p if mask is None else lax.select(mask, p, lax.full_like(p, 0))
