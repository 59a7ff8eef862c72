"""Rules of Mosaic's lowering for SparseCores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lax.lax import cumulative
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, vector
from jax._src.lib.mosaic import tpu
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic.lowering.kernel import TABLE, MemRef, TpuKernel, static_operands
from jax._src.pallas.mosaic.lowering.memory import Access, access, as_i32, squeezed, view
from jax._src.pallas.mosaic.sparse_core import loops, memory, vectors
from jax._src.state.indexing import NDIndexer
from jax._src.state.primitives import addupdate_p
from jax._src.tree_util import tree_unflatten

rule = functools.partial(TABLE.rule, semantics="SparseCore")


def _no_such(*primitives: Any) -> None:
    """Refuse what TensorCores have, and SparseCores have not."""

    def refuse(ctx: RuleContext, *_: Any, **__: Any) -> Any:
        p = ctx.eqn.primitive.name
        types = ", ".join([a.str_short() for a in ctx.avals_in])
        raise NotImplementedError(f"Kernels for SparseCores cannot have {p} of ({types}).")

    rule(*primitives)(refuse)


_no_such(lax.dot_general_p)


def _reduction_kind(name: str) -> Any:
    return ir.Attribute.parse(f"#tpu.reduction_kind<{name}>")


def _type(kernel: TpuKernel, aval: Any) -> Any:
    return kernel.type_of(aval)


@rule(lax.iota_p)
def _iota(ctx: RuleContext, *_: Any, dimension: int, **__: Any) -> Any:
    kernel, (aval,) = ctx.kernel, ctx.avals_out
    if dtypes.itemsize_bits(aval.dtype) != 32:
        raise NotImplementedError(f"SparseCores count in 32 bits, not {aval.str_short()}.")
    counts = tpu.iota(kernel.vector_type(aval.shape, np.dtype(np.int32)), [dimension])
    return arith.sitofp(kernel.type_of(aval), counts) if is_float(aval.dtype) else counts


# Scans


# Newer versions of the dialect tell apart maxima of floats, and of integers with a sign and without.
_KINDS_HAVE_TYPES = hasattr(tpu.ReductionKind, "kMaxUI")


def _scan(kernel: TpuKernel, kind: str, x: Any, aval: Any, mask: Any = None) -> Any:
    """Return cumulative sums, maxima or minima of a vector of 32 bits."""
    if len(aval.shape) != 1 or dtypes.itemsize_bits(aval.dtype) != 32:
        raise NotImplementedError(
            f"SparseCores scan and reduce vectors of 32 bits, not {aval.str_short()}."
        )
    if mask is None:
        mask = kernel.splat(True, aval.shape, np.dtype(np.bool_))
    # Integers are compared as if they had no sign.
    flip = kind != "sum" and is_signed(aval.dtype)
    sign = kernel.splat(-(2**31), aval.shape, np.dtype(np.int32)) if flip else None
    x = arith.xori(x, sign) if flip else x
    # Newer versions of the dialect scan along any dimension.
    dimension = {"dimension": 0} if hasattr(tpu.ScanOp, "dimension") else {}
    if kind != "sum" and _KINDS_HAVE_TYPES:
        kind += "f" if is_float(aval.dtype) else "ui"
    out = tpu.scan(x.type, x, _reduction_kind(kind), mask=mask, **dimension)
    return arith.xori(out, sign) if flip else out


@rule(vectors.masked_cumsum_p)
def _masked_cumsum(ctx: RuleContext, x: Any, mask: Any) -> Any:
    return _scan(ctx.kernel, "sum", x, ctx.avals_in[0], mask)


@rule(vectors.masked_cummax_p)
def _masked_cummax(ctx: RuleContext, x: Any, mask: Any) -> Any:
    return _scan(ctx.kernel, "max", x, ctx.avals_in[0], mask)


def _cumulative(kind: str) -> Callable[..., Any]:
    def run(ctx: RuleContext, x: Any, *, reverse: bool, **_: Any) -> Any:
        if reverse:
            raise NotImplementedError(f"Kernels for SparseCores have no reversed {ctx.eqn.primitive.name}.")  # fmt: skip
        return _scan(ctx.kernel, kind, x, ctx.avals_in[0])

    return run


rule(cumulative.cumsum_p)(_cumulative("sum"))
rule(cumulative.cummax_p)(_cumulative("max"))
rule(cumulative.cummin_p)(_cumulative("min"))


def _reduction(kind: str) -> Callable[..., Any]:
    def run(ctx: RuleContext, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
        (aval,) = ctx.avals_in
        if not axes:
            return x
        scanned = _scan(ctx.kernel, kind, x, aval)
        return vector.extract(scanned, [], [aval.shape[0] - 1])

    return run


rule(lax.reduce_sum_p)(_reduction("sum"))
rule(lax.reduce_max_p)(_reduction("max"))
rule(lax.reduce_min_p)(_reduction("min"))


@rule(vectors.scan_count_p)
def _scan_count(ctx: RuleContext, x: Any, mask: Any) -> list[Any]:
    last, counts = tpu.scan_count(mask, x)
    return [counts, last]


# Sorting


def _sorted(ctx: RuleContext, keys: Any, values: Any, mask: Any, descending: bool) -> list[Any]:
    valid, keys, values = tpu.sort(
        mask.type, keys.type, values.type, keys, values, mask=mask, descending=descending
    )
    return [keys, values, valid]


@rule(vectors.masked_sort_p)
def _masked_sort(ctx: RuleContext, keys: Any, values: Any, mask: Any, *, descending: bool) -> Any:
    return _sorted(ctx, keys, values, mask, descending)


@rule(lax.sort_p)
def _sort(ctx: RuleContext, *xs: Any, num_keys: int, **_: Any) -> list[Any]:
    aval = ctx.avals_in[0]
    if len(xs) > 2 or num_keys != 1 or len(aval.shape) != 1:
        raise NotImplementedError(
            f"SparseCores sort a vector, and one more with it, by one key, not {', '.join([a.str_short() for a in ctx.avals_in])}."
        )
    mask = ctx.kernel.splat(True, aval.shape, np.dtype(np.bool_))
    return _sorted(ctx, xs[0], xs[-1], mask, False)[: len(xs)]


# Reductions of masks


def _all_reduce(kind: str) -> Callable[..., Any]:
    def run(ctx: RuleContext, x: Any, *, reduce: int) -> Any:
        return tpu.all_reduce(_type(ctx.kernel, ctx.avals_out[0]), x, 0, _reduction_kind(kind))

    return run


rule(vectors.all_reduce_ffs_p)(_all_reduce("find_first_set"))
rule(vectors.all_reduce_population_count_p)(_all_reduce("sum"))


# Narrower and wider elements


@rule(vectors.bitcast_p)
def _bitcast(ctx: RuleContext, x: Any, *, dtype: Any) -> Any:
    return vector.bitcast(_type(ctx.kernel, ctx.avals_out[0]), x)


def _format(format: vectors.PackFormat) -> Any:
    return ir.Attribute.parse(f"#tpu.pack_format<{format.value}>")


@rule(vectors.pack_p)
def _pack(ctx: RuleContext, a: Any, b: Any, *, format: Any, dtype: Any) -> Any:
    return tpu.pack_subelements(
        _type(ctx.kernel, ctx.avals_out[0]), [a, b], [0, 1], _format(format)
    )


@rule(vectors.unpack_p)
def _unpack(ctx: RuleContext, ab: Any, *, format: Any, dtype: Any) -> list[Any]:
    ty = _type(ctx.kernel, ctx.avals_out[0])
    return [tpu.unpack_subelements(ty, ab, i, _format(format)) for i in (0, 1)]


# Memory


def _ref(ctx: RuleContext, ref: MemRef, transforms: Any) -> MemRef:
    found = squeezed(ctx.kernel, view(ctx.kernel, ref, transforms))
    if found.space != "vmem":
        raise ValueError(
            f"{ctx.eqn.primitive.name} is of references in VMEM, this one of shape {found.shape} is in {found.space.upper()}."
        )
    return found


def _parts(ctx: RuleContext, args: Sequence[Any], tree: Any) -> Any:
    return tree_unflatten(tree, static_operands(ctx, args, 1))


@rule(memory.load_at_p)
def _load_at(ctx: RuleContext, ref: MemRef, *args: Any, tree: Any) -> Any:
    transforms, indices, _, mask = _parts(ctx, args, tree)
    ty = _type(ctx.kernel, ctx.avals_out[0])
    if indices is not None:
        return tpu.vector_load_idx(ty, _ref(ctx, ref, transforms).value, list(indices), mask=mask)
    return Access(ctx, ref, transforms).load(ctx.avals_out[0], mask)


@rule(memory.store_at_p)
def _store_at(ctx: RuleContext, ref: MemRef, *args: Any, tree: Any, add: bool) -> list[Any]:
    transforms, indices, x, mask = _parts(ctx, args, tree)
    if indices is not None:
        target = _ref(ctx, ref, transforms).value
        tpu.vector_store_idx(x, target, list(indices), mask=mask, add=add or None)
        return []
    aval = tree_unflatten(tree, ctx.avals_in[1:])[2]
    Access(ctx, ref, transforms).store(x, aval, mask, add)
    return []


@rule(addupdate_p)
def _addupdate(ctx: RuleContext, ref: MemRef, x: Any, *args: Any, tree: Any) -> list[Any]:
    part, aval = access(ctx, ref, tree, args, 2), ctx.avals_in[1]
    if part.scalar:
        old = part.load(aval)
        part.store(arith.addf(old, x) if is_float(aval.dtype) else arith.addi(old, x), aval)
    else:
        part.store(x, aval, add=True)
    return []


# Other subcores, and loops


@rule(memory.fetch_and_add_p)
def _fetch_and_add(
    ctx: RuleContext, ref: MemRef, value: Any, subcore: Any, *args: Any, tree: Any
) -> Any:
    kernel = ctx.kernel
    transforms = tree_unflatten(tree, static_operands(ctx, args, 3))
    if not transforms or not isinstance(transforms[-1], NDIndexer):
        raise NotImplementedError(
            "SparseCores have fetch_and_add of a number at an index, such as ref.at[0]."
        )
    *before, last = transforms
    found = squeezed(kernel, view(kernel, ref, before))
    at = [as_i32(kernel, i) for i in last.indices]
    return tpu.fetch_and_add_sync(found.value, at, value, subcore)


@rule(memory.subcore_barrier_p)
def _barrier(ctx: RuleContext) -> list[Any]:
    tpu.barrier(ctx.kernel.index(0))
    return []


@rule(loops.parallel_rounds_p)
def _parallel_rounds(ctx: RuleContext, *, unroll: int) -> list[Any]:
    loop = ir.InsertionPoint.current.block.owner
    i64 = ir.IntegerType.get_signless(64)
    loop.attributes["sc.parallel_access"] = ir.UnitAttr.get()
    loop.attributes["sc.loop_unroll_factor"] = ir.IntegerAttr.get(i64, unroll)
    return []


@TABLE.rule(loops.parallel_rounds_p)
def _rounds(ctx: RuleContext, *, unroll: int) -> list[Any]:
    return []
