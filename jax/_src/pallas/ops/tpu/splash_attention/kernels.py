"""The kernels of attention by blocks: forward, and the derivatives by queries and by keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src.core import ShapeDtypeStruct
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import full, zeros
from jax._src.numpy.manipulation.joining import stack
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.helpers import when
from jax._src.pallas.mosaic.core import MemorySpace, PrefetchScalarGridSpec
from jax._src.pallas.ops.tpu.splash_attention.block_tables import EMPTY, PARTIAL, BlockTable
from jax._src.pallas.ops.tpu.tiles import bounded, column, product
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import multiple_of, num_programs, program_id


class Settings(NamedTuple):
    """What the kernels are the same for: see `make_splash_mha`."""

    mask_value: float
    soft_cap: float | None
    interpret: bool
    # Whether queries, keys and values are stored with the sequence as the last dimension.
    q_minor: bool
    k_minor: bool
    v_minor: bool


class Operand(NamedTuple):
    """An operand of a kernel: the array, and its blocks."""

    array: Any
    spec: BlockSpec


def _stored(x: Any, minor: bool) -> Any:
    return x.swapaxes(-1, -2) if minor else x


def _sequence_blocks(x: Any, size: int, minor: bool, at: Any) -> Operand:
    """Blocks of queries, keys or values, [heads, sequence, features]: `at` gives the head and the block."""
    depth = x.shape[-1]
    if minor:
        return Operand(_stored(x, True), BlockSpec((None, depth, size), lambda *i: _last(*at(*i))))
    return Operand(x, BlockSpec((None, size, depth), lambda *i: (*at(*i), 0)))


def _last(head: Any, block: Any) -> tuple[Any, ...]:
    return head, 0, block


def _rows(ref: Any, minor: bool, at: Any = slice(None)) -> Any:
    """Read rows of a block of queries, keys or values."""
    return ref[:, at].T if minor else ref[at, :]


def _scores(q: Any, k: Any, settings: Settings) -> tuple[Any, Any]:
    """Return scores, and their derivative by the products of queries and keys (None for 1)."""
    return bounded(product(q, k, (1, 1)), settings.soft_cap)


def _masked(
    s: Any,
    kind: Any,
    partial_ref: Any,
    ids: tuple[Any, Any] | None,
    settings: Settings,
    columns: Any,
) -> Any:
    seen = None
    if partial_ref is not None:
        seen = (kind != PARTIAL) | (partial_ref[:, columns].astype(np.int32) != 0)
    if ids is not None:
        same = ids[0] == ids[1]
        seen = same if seen is None else seen & same
    return s if seen is None else where(seen, s, settings.mask_value)


def _call(
    kernel: Any, table: BlockTable, grid: tuple[int, ...], operands: Sequence[Operand | None],
    out_shape: Any, out_specs: Any, scratch: Any, settings: Settings, name: str,
    aliases: dict[int, int] | None = None,
) -> Any:  # fmt: skip
    """Apply a kernel whose index maps take the table; operands that are None are left out."""
    scalars = [table.block, table.kind] + ([] if table.partial is None else [table.partial])
    given = [o is not None for o in operands]
    chosen = [o for o in operands if o is not None]

    def run(*refs: Any) -> None:
        n = len(scalars)
        rest = iter(refs[n:])
        ins = [next(rest) if g else None for g in given]
        kernel(refs[1], *ins, *rest)

    spec = PrefetchScalarGridSpec(
        num_scalar_prefetch=len(scalars),
        grid=grid,
        in_specs=[o.spec for o in chosen],
        out_specs=out_specs,
        scratch_shapes=scratch,
    )
    call = pallas_call(
        run, out_shape, grid_spec=spec, interpret=settings.interpret, name=name,
        input_output_aliases=aliases or {},
    )  # fmt: skip
    return call(*scalars, *[o.array for o in chosen])


def _columns(c: Any, size: int) -> Any:
    """Keys that are computed at a time: the compiler needs to know that they start at a multiple."""
    return ds(multiple_of(c * size, size), size)


def _partial_blocks(table: BlockTable, rows: int, columns: int, at: Any) -> Operand | None:
    if table.partials is None:
        return None
    number = lambda *i: (_int(i[-1][at(*i[:-3])]), 0, 0)
    # The compiler would store booleans in words of 32 bits.
    partials = lax.convert_element_type(table.partials, np.int8)
    return Operand(partials, BlockSpec((None, rows, columns), number))


def _int(x: Any) -> Any:
    return lax.convert_element_type(x, np.int32)


def forward(
    table: BlockTable, q: Any, k: Any, v: Any, ids: Any, sinks: Any, blocks: tuple[int, int, int],
    settings: Settings, name: str, residuals: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """Compute attention, and the logarithms of the sums of exponentials if they are wanted.

    Args:
      table: blocks of [heads, blocks of queries, blocks of keys].
      q: queries, [heads, number, features].
      k, v: keys and values, [heads of keys, number, features].
      ids: segments of queries and of keys, or None.
      sinks: for each head a score that takes part in the sum only, or None.
      blocks: numbers of queries, of keys that are loaded, and of keys that are computed at a time.
      settings, name: see `Settings`.
      residuals: whether the logarithms are wanted.

    Returns:
      The results, [heads, queries, features of values], and [heads, queries] or None.
    """
    heads, length, _ = q.shape
    bq, bkv, compute = blocks
    group = heads // k.shape[0]
    depth = v.shape[-1]
    query_at = lambda h, i, w, *_: (h, i)
    key_at = lambda h, i, w, block, *_: (h // group, _int(block[h, i, w]))
    grid = (heads, length // bq, table.block.shape[-1])

    def kernel(kind_ref, q_ref, k_ref, v_ref, qid_ref, kid_ref, sink_ref, partial_ref, o_ref, *refs):  # fmt: skip
        h, i, w = program_id(0), program_id(1), program_id(2)
        (*lse_refs, sums_ref, acc_ref) = refs
        # Greatest scores and sums of exponentials: a column each of one array.
        m_ref, l_ref = [sums_ref.at[:, n : n + 1] for n in range(2)]

        @when(w == 0)
        def _():
            start = settings.mask_value if sink_ref is None else sink_ref[h].astype(np.float32)
            m_ref[...] = full(m_ref.shape, start, np.float32)
            l_ref[...] = full(l_ref.shape, 0 if sink_ref is None else 1, np.float32)
            acc_ref[...] = zeros(acc_ref.shape, np.float32)

        kind = _int(kind_ref[h, i, w])

        @when(kind != EMPTY)
        def _():
            q_block = _rows(q_ref, settings.q_minor)

            def part(c, _):
                at = _columns(c, compute)
                s, _ = _scores(q_block, _rows(k_ref, settings.k_minor, at), settings)
                pair = None if qid_ref is None else (qid_ref[...], kid_ref[:, at])
                s = _masked(s, kind, partial_ref, pair, settings, at)
                m_old = m_ref[...]
                m_new = ufuncs.maximum(m_old, s.max(1, keepdims=True))
                p = ufuncs.exp(s - m_new)
                scale = ufuncs.exp(m_old - m_new)
                l_ref[...] = l_ref[...] * scale + p.sum(1, keepdims=True)
                v_block = _rows(v_ref, settings.v_minor, at)
                change = product(p.astype(v_block.dtype), v_block, (1, 0))
                acc_ref[...] = acc_ref[...] * scale + change
                m_ref[...] = m_new

            fori_loop(0, bkv // compute, part, None)

        @when(w == num_programs(2) - 1)
        def _():
            o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)
            for lse_ref in lse_refs:
                lse_ref[...] = m_ref[...] + ufuncs.log(l_ref[...])

    operands = [
        _sequence_blocks(q, bq, settings.q_minor, query_at),
        _sequence_blocks(k, bkv, settings.k_minor, key_at),
        _sequence_blocks(v, bkv, settings.v_minor, key_at),
        *_segments(ids, bq, bkv, query_at, key_at),
        None if sinks is None else Operand(sinks, BlockSpec(memory_space=MemorySpace.SMEM)),
        _partial_blocks(table, bq, bkv, lambda h, i, w: (h, i, w)),
    ]
    widths = (depth, 1) if residuals else (depth,)
    dtypes = (q.dtype, np.dtype(np.float32))
    out_shape = [ShapeDtypeStruct((heads, length, n), d) for n, d in zip(widths, dtypes)]
    out_specs = [BlockSpec((None, bq, n), lambda h, i, *_: (h, i, 0)) for n in widths]
    scratch = [MemorySpace.VMEM((bq, n), np.float32) for n in (2, depth)]
    out, *lse = _call(kernel, table, grid, operands, out_shape, out_specs, scratch, settings, name)
    return out, lax.squeeze(lse[0], (2,)) if residuals else None


def _segments(ids: Any, bq: int, bkv: int, query_at: Any, key_at: Any) -> list[Operand | None]:
    if ids is None:
        return [None, None]
    return [
        Operand(column(ids[0]), BlockSpec((bq, 1), lambda *i: (query_at(*i)[1], 0))),
        Operand(lax.expand_dims(ids[1], (0,)), BlockSpec((1, bkv), lambda *i: (0, key_at(*i)[1]))),
    ]


def _backward_operands(
    q: Any, k: Any, v: Any, ids: Any, do: Any, lse: Any, delta: Any, bq: int, bkv: int, query_at: Any,
    key_at: Any, settings: Settings,
) -> list[Operand | None]:  # fmt: skip
    of_numbers = BlockSpec((None, bq, 2), lambda *i: (*query_at(*i), 0))
    return [
        _sequence_blocks(q, bq, settings.q_minor, query_at),
        _sequence_blocks(k, bkv, settings.k_minor, key_at),
        _sequence_blocks(v, bkv, settings.v_minor, key_at),
        *_segments(ids, bq, bkv, query_at, key_at),
        _sequence_blocks(do, bq, False, query_at),
        Operand(stack([lse, delta], axis=-1), of_numbers),
    ]


def _score_gradients(
    q: Any, k: Any, v: Any, do: Any, numbers_ref: Any, kind: Any, partial_ref: Any, pair: Any,
    settings: Settings, columns: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the weights of a block, and the cotangents of the products of queries and keys."""
    s, slope = _scores(q, k, settings)
    lse, delta = [numbers_ref[:, n : n + 1] for n in range(2)]
    p = ufuncs.exp(_masked(s, kind, partial_ref, pair, settings, columns) - lse)
    dp = product(do, v, (1, 1))
    dscores = p * (dp - delta)
    return p, dscores if slope is None else dscores * slope


def backward_queries(
    table: BlockTable, q: Any, k: Any, v: Any, ids: Any, do: Any, lse: Any, delta: Any,
    blocks: tuple[int, int], settings: Settings, name: str,
) -> Any:  # fmt: skip
    """Compute the cotangents of the queries.

    Args:
      table, q, k, v, ids, settings, name: as in `forward`.
      do: cotangents of the results.
      lse: logarithms of sums of exponentials.
      delta: sums of the products of results and their cotangents, [heads, queries].
      blocks: numbers of queries and of keys in a block.
    """
    heads, length, depth = q.shape
    bq, bkv = blocks
    group = heads // k.shape[0]
    query_at = lambda h, i, w, *_: (h, i)
    key_at = lambda h, i, w, block, *_: (h // group, _int(block[h, i, w]))
    grid = (heads, length // bq, table.block.shape[-1])

    def kernel(kind_ref, q_ref, k_ref, v_ref, qid_ref, kid_ref, do_ref, numbers_ref, partial_ref, dq_ref, acc_ref):  # fmt: skip
        h, i, w = program_id(0), program_id(1), program_id(2)

        @when(w == 0)
        def _():
            acc_ref[...] = zeros(acc_ref.shape, np.float32)

        kind = _int(kind_ref[h, i, w])

        @when(kind != EMPTY)
        def _():
            k_block = _rows(k_ref, settings.k_minor)
            pair = None if qid_ref is None else (qid_ref[...], kid_ref[...])
            _, ds_block = _score_gradients(
                _rows(q_ref, settings.q_minor), k_block, _rows(v_ref, settings.v_minor), do_ref[...],
                numbers_ref, kind, partial_ref, pair, settings, slice(None),
            )  # fmt: skip
            acc_ref[...] += product(ds_block.astype(k_block.dtype), k_block, (1, 0))

        @when(w == num_programs(2) - 1)
        def _():
            dq_ref[...] = acc_ref[...].astype(dq_ref.dtype)

    operands = [
        *_backward_operands(q, k, v, ids, do, lse, delta, bq, bkv, query_at, key_at, settings),
        _partial_blocks(table, bq, bkv, lambda h, i, w: (h, i, w)),
    ]
    out_spec = BlockSpec((None, bq, depth), lambda h, i, *_: (h, i, 0))
    scratch = [MemorySpace.VMEM((bq, depth), np.float32)]
    out = ShapeDtypeStruct(q.shape, q.dtype)
    return _call(kernel, table, grid, operands, out, out_spec, scratch, settings, name)


def backward_keys(
    table: BlockTable, q: Any, k: Any, v: Any, ids: Any, do: Any, lse: Any, delta: Any,
    blocks: tuple[int, int, int], with_queries: bool, settings: Settings, name: str,
) -> tuple[Any, ...]:  # fmt: skip
    """Compute the cotangents of keys and values, and if asked for of the queries.

    Args:
      table: blocks of [heads, devices, blocks of keys, blocks of queries]; here there is one device.
      q, k, v, ids, settings, name: as in `forward`.
      do, lse, delta: as in `backward_queries`.
      blocks: numbers of queries, of keys that are loaded, and of keys that are computed at a time.
      with_queries: whether to compute the cotangents of queries in the same run.

    Returns:
      Cotangents of keys and of values, and of queries if asked for.
    """
    heads, _, depth = q.shape
    kv_heads, length, depth_v = v.shape
    bq, bkv, compute = blocks
    if with_queries and not settings.interpret:
        raise NotImplementedError(
            "use_fused_bwd_kernel is for attention that is interpreted: compiled kernels do not read what their results hold before. "
            "Give BlockSizes block_q_dq and block_kv_dq instead."
        )
    group = heads // kv_heads
    query_at = lambda h, j, w, block, *_: (h, _int(block[h, 0, j, w]))
    key_at = lambda h, j, w, *_: (h // group, j)
    num = length // bkv
    grid = (heads, num, table.block.shape[-1])

    def kernel(kind_ref, q_ref, k_ref, v_ref, qid_ref, kid_ref, do_ref, numbers_ref, partial_ref, *refs):  # fmt: skip
        zeros_ref, dk_ref, dv_ref, dq_ref = refs[:4] if with_queries else (None, *refs[:2], None)
        dk_acc, dv_acc = refs[-2:]
        h, j, w = program_id(0), program_id(1), program_id(2)

        @when(w == 0)
        def _():
            dk_acc[...] = zeros(dk_acc.shape, np.float32)
            dv_acc[...] = zeros(dv_acc.shape, np.float32)

        kind = _int(kind_ref[h, 0, j, w])

        @when(kind != EMPTY)
        def _():
            q_block, do_block = _rows(q_ref, settings.q_minor), do_ref[...]

            def part(c, _):
                at = _columns(c, compute)
                k_block = _rows(k_ref, settings.k_minor, at)
                pair = None if qid_ref is None else (qid_ref[...], kid_ref[:, at])
                p, ds_block = _score_gradients(
                    q_block, k_block, _rows(v_ref, settings.v_minor, at), do_block,
                    numbers_ref, kind, partial_ref, pair, settings, at,
                )  # fmt: skip
                dv_acc[at, :] += product(p.astype(do_block.dtype), do_block, (0, 0))
                ds_block = ds_block.astype(q_block.dtype)
                dk_acc[at, :] += product(ds_block, q_block, (0, 0))
                if dq_ref is not None:
                    dq_ref[...] += product(ds_block, k_block, (1, 0))

            fori_loop(0, bkv // compute, part, None)

        @when(w == num_programs(2) - 1)
        def _():
            dk_ref[...] = dk_acc[...].astype(dk_ref.dtype)
            dv_ref[...] = dv_acc[...].astype(dv_ref.dtype)

    operands = [
        *_backward_operands(q, k, v, ids, do, lse, delta, bq, bkv, query_at, key_at, settings),
        _partial_blocks(table, bq, bkv, lambda h, j, w: (h, 0, j, w)),
    ]
    out_shape = [
        ShapeDtypeStruct((heads, length, d), x.dtype) for d, x in ((depth, k), (depth_v, v))
    ]
    out_specs = [BlockSpec((None, bkv, d), lambda h, j, *_: (h, j, 0)) for d in (depth, depth_v)]
    aliases = {}
    if with_queries:
        # Each block of keys has cotangents of queries of its own, which are added up afterwards.
        part_at = BlockSpec(
            (None, None, bq, depth), lambda h, j, *rest: (j, *query_at(h, j, *rest), 0)
        )
        initial = Operand(zeros((num, *q.shape), np.float32), part_at)
        operands.append(initial)
        out_shape.append(ShapeDtypeStruct(initial.array.shape, np.float32))
        out_specs.append(part_at)
        scalars = 2 + (table.partial is not None)
        aliases = {scalars + sum(o is not None for o in operands) - 1: 2}
    scratch = [MemorySpace.VMEM((bkv, d), np.float32) for d in (depth, depth_v)]
    outs = _call(
        kernel, table, grid, operands, out_shape, out_specs, scratch, settings, name, aliases
    )
    dk, dv = [x.reshape(kv_heads, group, *x.shape[1:]).sum(1) for x in outs[:2]]
    if not with_queries:
        return dk, dv
    return dk, dv, outs[2].sum(0).astype(q.dtype)
