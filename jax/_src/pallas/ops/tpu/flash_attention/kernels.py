"""The kernels of attention by blocks: forward, and the derivatives by keys and values and by queries.

They are the algorithms of Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work
Partitioning" (2023), with the sums over keys, or over queries, along the last dimension of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src.core import ShapeDtypeStruct
from jax._src.lax import lax
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import full, zeros
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.cost_estimate import CostEstimate
from jax._src.pallas.grids import GridSpec
from jax._src.pallas.helpers import cdiv, when
from jax._src.pallas.mosaic.core import CompilerParams, MemorySpace
from jax._src.pallas.ops.tpu.tiles import column, product
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import num_programs, program_id


class Settings(NamedTuple):
    """What all kernels of an application share.

    Attributes:
      causal: whether a query sees only keys up to its own position.
      sm_scale: a factor of the products of queries and keys.
      mask_value: the score of keys that a query does not see.
      debug: whether to print the kernels.
    """

    causal: bool
    sm_scale: float
    mask_value: float
    debug: bool


class Inputs(NamedTuple):
    """What scores are computed from; of the arrays, of the blocks, or of the references.

    Attributes:
      q: queries, [batch, heads, queries, features].
      k, v: keys and values, [batch, heads, keys, features].
      bias: what is added to the scores, [batch, heads, queries, keys], or None.
      q_ids: segments of queries, [batch, queries, 1], or None.
      kv_ids: segments of keys, [batch, 1, keys], or None.
    """

    q: Any
    k: Any
    v: Any
    bias: Any = None
    q_ids: Any = None
    kv_ids: Any = None


class Residuals(NamedTuple):
    """What the derivatives need besides: numbers for each query are [batch, heads, queries, 1].

    Attributes:
      do: cotangents of the results.
      m: the greatest scores.
      l: the sums of exponentials.
      delta: the sums over features of the products of results and their cotangents.
    """

    do: Any
    m: Any
    l: Any
    delta: Any


class _Tile(NamedTuple):
    """A tile of scores: where it starts in the arrays, and its rows and columns in their blocks."""

    q_start: Any
    k_start: Any
    rows: slice
    columns: slice

    def seen(self) -> Any:
        """Whether any of its queries comes after, or at, any of its keys."""
        return self.q_start + self.rows.stop - self.rows.start > self.k_start


def _tiles(q_start: Any, k_start: Any, rows: int, row_part: int, columns: int, column_part: int):  # type: ignore[no-untyped-def]
    for r in range(0, rows, row_part):
        for c in range(0, columns, column_part):
            yield _Tile(q_start + r, k_start + c, slice(r, r + row_part), slice(c, c + column_part))


def _each_tile(settings: Settings, tiles: Any, work: Callable[[_Tile], None]) -> None:
    """Work on the tiles that hold scores which a query sees."""
    for tile in tiles:
        if settings.causal:
            when(tile.seen())(lambda tile=tile: work(tile))
        else:
            work(tile)


def _scaled(x: Any, settings: Settings) -> Any:
    return x if settings.sm_scale == 1 else x * settings.sm_scale


def _scores(refs: Inputs, at: int, tile: _Tile, settings: Settings) -> Any:
    q, k = refs.q[at, tile.rows, :], refs.k[at, tile.columns, :]
    s = _scaled(product(q, k, (1, 1)), settings)
    if refs.bias is not None:
        s = s + refs.bias[at, tile.rows, tile.columns].astype(np.float32)
    seen = None
    if refs.q_ids is not None:
        seen = refs.q_ids[at, tile.rows, :] == refs.kv_ids[at, :, tile.columns]
    if settings.causal:
        row = lax.broadcasted_iota(np.int32, s.shape, 0) + tile.q_start
        before = row >= lax.broadcasted_iota(np.int32, s.shape, 1) + tile.k_start
        seen = before if seen is None else seen & before
    return s if seen is None else where(seen, s, settings.mask_value)


def _call(
    kernel: Any, grid: tuple[int, ...], operands: Sequence[tuple[Any, BlockSpec]], out: Any, scratch: Any,
    settings: Settings, name: str, cost: CostEstimate | None = None,
) -> Any:  # fmt: skip
    out_shape, out_specs = zip(*out, strict=True)
    spec = GridSpec(grid, [s for _, s in operands], list(out_specs), scratch)
    params = CompilerParams(
        dimension_semantics=("parallel",) * (len(grid) - 1) + ("arbitrary",),
    )
    call = pallas_call(
        kernel, list(out_shape), grid_spec=spec, compiler_params=params, name=name, debug=settings.debug,
        cost_estimate=cost,
    )  # fmt: skip
    return call(*[x for x, _ in operands])


def _operands(
    inputs: Inputs, b: int, rows: int, columns: int, query_at: Any, key_at: Any
) -> list[tuple[Any, BlockSpec]]:
    """Pair the arrays that are given with their blocks, in the order of `Inputs`."""
    depth = inputs.q.shape[-1]
    head = lambda i: i[:2]
    of_queries = BlockSpec((b, None, rows, depth), lambda *i: (*head(i), query_at(*i), 0))
    of_keys = BlockSpec((b, None, columns, depth), lambda *i: (*head(i), key_at(*i), 0))
    specs = Inputs(
        of_queries,
        of_keys,
        of_keys,
        BlockSpec((b, None, rows, columns), lambda *i: (*head(i), query_at(*i), key_at(*i))),
        BlockSpec((b, rows, 1), lambda *i: (i[0], query_at(*i), 0)),
        BlockSpec((b, 1, columns), lambda *i: (i[0], 0, key_at(*i))),
    )
    return [(x, s) for x, s in zip(inputs, specs) if x is not None]


def _split(inputs: Inputs, refs: Sequence[Any]) -> tuple[Inputs, list[Any]]:
    """Give the references of a kernel the names of what is given, and return the others."""
    rest = iter(refs)
    return Inputs(*[None if x is None else next(rest) for x in inputs]), list(rest)


def forward(
    inputs: Inputs, blocks: tuple[int, int, int, int], save_residuals: bool, settings: Settings,
    cost: CostEstimate | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Compute attention.

    Args:
      inputs: the arrays.
      blocks: numbers of batches, of queries, of keys that are loaded, and of keys computed at a time.
      save_residuals: whether to return the sums of exponentials and the greatest scores, too.
      settings: see `Settings`.
      cost: an estimate for the compiler.

    Returns:
      The results, like the queries; and if asked for, [batch, heads, queries, 1] twice.
    """
    batch, heads, length, depth = inputs.q.shape
    b, bq, bk_major, bk = blocks
    grid = (cdiv(batch, b), heads, cdiv(length, bq), inputs.k.shape[2] // bk_major)

    def last_key_block(i: Any) -> Any:
        return lax.div((i + 1) * bq - 1, bk_major)

    def key_at(*index: Any) -> Any:
        i, j = index[2], index[3]
        # Blocks that no query sees are not loaded: the block stays.
        return lax.min(j, last_key_block(i)) if settings.causal else j

    def kernel(*refs: Any) -> None:
        ins, (o_ref, *rest) = _split(inputs, refs)
        acc_ref, m_ref, l_ref = rest[-3:]
        i, j, last = program_id(2), program_id(3), num_programs(3) - 1

        @when(j == 0)
        def _() -> None:
            acc_ref[...] = zeros(acc_ref.shape, np.float32)
            # Finite: scores may be -inf where the bias is.
            m_ref[...] = full(m_ref.shape, settings.mask_value, np.float32)
            l_ref[...] = zeros(l_ref.shape, np.float32)

        def work(tile: _Tile) -> None:
            for at in range(b):
                s = _scores(ins, at, tile, settings)
                m_old = m_ref[at]
                m = ufuncs.maximum(m_old, s.max(1, keepdims=True))
                p, scale = ufuncs.exp(s - m), ufuncs.exp(m_old - m)
                m_ref[at] = m
                l_ref[at] = l_ref[at] * scale + p.sum(1, keepdims=True)
                v = ins.v[at, tile.columns, :]
                acc_ref[at] = acc_ref[at] * scale + product(p.astype(v.dtype), v, (1, 0))

        _each_tile(settings, _tiles(i * bq, j * bk_major, bq, bq, bk_major, bk), work)

        @when(j == last)
        def _() -> None:
            o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)
            if save_residuals:
                rest[0][...] = l_ref[...]
                rest[1][...] = m_ref[...]

    query_at = lambda *i: i[2]
    operands = _operands(inputs, b, bq, bk_major, query_at, key_at)
    number = ShapeDtypeStruct((batch, heads, length, 1), np.float32)
    of_number = BlockSpec((b, None, bq, 1), lambda *i: (*i[:3], 0))
    out = [(ShapeDtypeStruct(inputs.q.shape, inputs.q.dtype), operands[0][1])]
    out += [(number, of_number)] * 2 * save_residuals
    scratch = [MemorySpace.VMEM((b, bq, n), np.float32) for n in (depth, 1, 1)]
    return tuple(_call(kernel, grid, operands, out, scratch, settings, "flash_attention", cost))


def _with_residuals(
    operands: list[tuple[Any, BlockSpec]], residuals: Residuals, rows: int, query_at: Any
) -> list[tuple[Any, BlockSpec]]:
    of_number = BlockSpec((1, None, rows, 1), lambda *i: (*i[:2], query_at(*i), 0))
    specs = [operands[0][1], *[of_number] * 3]
    return [*operands, *zip(residuals, specs, strict=True)]


def _score_cotangents(
    ins: Inputs, res: Residuals, tile: _Tile, settings: Settings
) -> tuple[Any, Any]:
    """Return the weights of a tile, and the cotangents of the scores."""
    s = _scores(ins, 0, tile, settings)
    number = lambda ref: ref[0, tile.rows, :]
    p = ufuncs.exp(s - number(res.m)) / number(res.l)
    dp = product(number(res.do), ins.v[0, tile.columns, :], (1, 1))
    return p, p * (dp - number(res.delta))


def backward_keys(
    inputs: Inputs, residuals: Residuals, blocks: tuple[int, int, int, int], settings: Settings
) -> tuple[Any, Any]:
    """Compute the cotangents of keys and values.

    Args:
      inputs, residuals: the arrays.
      blocks: numbers of queries that are loaded, of queries computed at a time, and the same of keys.
      settings: see `Settings`.
    """
    batch, heads, length, depth = inputs.q.shape
    bq_major, bq, bk_major, bk = blocks
    grid = (batch, heads, inputs.k.shape[2] // bk_major, length // bq_major)
    key_at = lambda *i: i[2]

    def query_at(*index: Any) -> Any:
        j, i = index[2], index[3]
        if not settings.causal:
            return i
        # The first block of queries that see a key; none does where there are more keys than queries.
        first = lax.min(lax.div(j * bk_major, bq_major), np.int32(length // bq_major - 1))
        return lax.max(i, first)

    def kernel(*refs: Any) -> None:
        ins, rest = _split(inputs, refs)
        res = Residuals(*rest[:4])
        dk_ref, dv_ref, dk_acc, dv_acc = rest[4:]
        j, i, last = program_id(2), program_id(3), num_programs(3) - 1

        @when(i == 0)
        def _() -> None:
            dk_acc[...] = zeros(dk_acc.shape, np.float32)
            dv_acc[...] = zeros(dv_acc.shape, np.float32)

        def work(tile: _Tile) -> None:
            p, ds = _score_cotangents(ins, res, tile, settings)
            do, q = res.do[0, tile.rows, :], ins.q[0, tile.rows, :]
            dv_acc[tile.columns, :] += product(p.astype(do.dtype), do, (0, 0))
            dk_acc[tile.columns, :] += product(ds.astype(q.dtype), q, (0, 0))

        starts = i * bq_major, j * bk_major
        _each_tile(settings, _tiles(*starts, bq_major, bq, bk_major, bk), work)

        @when(i == last)
        def _() -> None:
            dk_ref[0] = _scaled(dk_acc[...], settings).astype(dk_ref.dtype)
            dv_ref[0] = dv_acc[...].astype(dv_ref.dtype)

    operands = _operands(inputs, 1, bq_major, bk_major, query_at, key_at)
    of_keys = operands[1][1]
    operands = _with_residuals(operands, residuals, bq_major, query_at)
    out = [(ShapeDtypeStruct(x.shape, x.dtype), of_keys) for x in (inputs.k, inputs.v)]
    scratch = [MemorySpace.VMEM((bk_major, depth), np.float32)] * 2
    name = "flash_attention_dkv"
    return tuple(_call(kernel, grid, operands, out, scratch, settings, name))  # type: ignore[return-value]


def backward_queries(
    inputs: Inputs, residuals: Residuals, blocks: tuple[int, int, int], settings: Settings
) -> tuple[Any, Any]:
    """Compute the cotangents of queries and of the bias; the second is None without a bias.

    Args:
      inputs, residuals: the arrays.
      blocks: numbers of queries, of keys that are loaded, and of keys computed at a time.
      settings: see `Settings`.
    """
    batch, heads, length, depth = inputs.q.shape
    bq, bk_major, bk = blocks
    grid = (batch, heads, length // bq, inputs.k.shape[2] // bk_major)
    query_at = lambda *i: i[2]

    def key_at(*index: Any) -> Any:
        i, j = index[2], index[3]
        return lax.min(j, lax.div((i + 1) * bq - 1, bk_major)) if settings.causal else j

    def kernel(*refs: Any) -> None:
        ins, rest = _split(inputs, refs)
        res = Residuals(*rest[:4])
        dq_ref, *bias_ref, acc_ref = rest[4:]
        i, j, last = program_id(2), program_id(3), num_programs(3) - 1

        @when(j == 0)
        def _() -> None:
            acc_ref[...] = zeros(acc_ref.shape, np.float32)

        if bias_ref and settings.causal:
            # Tiles that no query sees.
            bias_ref[0][...] = zeros(bias_ref[0].shape, bias_ref[0].dtype)

        def work(tile: _Tile) -> None:
            _, ds = _score_cotangents(ins, res, tile, settings)
            k = ins.k[0, tile.columns, :]
            acc_ref[...] += product(ds.astype(k.dtype), k, (1, 0))
            if bias_ref:
                bias_ref[0][0, :, tile.columns] = ds.astype(bias_ref[0].dtype)

        _each_tile(settings, _tiles(i * bq, j * bk_major, bq, bq, bk_major, bk), work)

        @when(j == last)
        def _() -> None:
            dq_ref[0] = _scaled(acc_ref[...], settings).astype(dq_ref.dtype)

    operands = _operands(inputs, 1, bq, bk_major, query_at, key_at)
    out = [(ShapeDtypeStruct(inputs.q.shape, inputs.q.dtype), operands[0][1])]
    operands = _with_residuals(operands, residuals, bq, query_at)
    if inputs.bias is not None:
        of_bias = BlockSpec((1, None, bq, bk_major), lambda *i: i)
        out.append((ShapeDtypeStruct(inputs.bias.shape, inputs.bias.dtype), of_bias))
    scratch = [MemorySpace.VMEM((bq, depth), np.float32)]
    dq, *dbias = _call(kernel, grid, operands, out, scratch, settings, "flash_attention_dq")
    return dq, dbias[0] if dbias else None


def inputs_of(q: Any, k: Any, v: Any, bias: Any, segment_ids: Any) -> Inputs:
    """Return arrays as kernels have them: segments of queries as columns, of keys as rows."""
    if segment_ids is None:
        return Inputs(q, k, v, bias)
    return Inputs(q, k, v, bias, column(segment_ids.q), lax.expand_dims(segment_ids.kv, (1,)))
