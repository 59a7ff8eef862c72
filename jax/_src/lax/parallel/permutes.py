"""Sending values between the indices of a named axis: permutations, broadcasts, sends."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import (
    Effect,
    Primitive,
    ShapedArray,
    abstract_token,
    effects as effects_lib,
    get_axis_env,
    typeof,
)
from jax._src.dtypes import ExtendedDType, canonicalize_dtype
from jax._src.interpreters import ad, mlir
from jax._src.lax import lax, slicing
from jax._src.lax.parallel import lowering
from jax._src.lax.parallel.axes import (
    around,
    as_axes,
    as_index,
    at_front,
    axis_size,
    check_elements,
    check_operand,
    collective,
    distinct_axes,
    effects,
    gather_rows,
    same_variation,
    show_axes,
    varying_over,
    with_mesh_axes,
)
from jax._src.lax.parallel.gathers import all_gather
from jax._src.lax.parallel.index import axis_index
from jax._src.lax.parallel.sums import psum
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.mesh import get_abstract_mesh
from jax._src.tree_util import tree_map

# ---------------------------------------------------------------------------------------------------
# ppermute


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values between the indices of a named axis.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis, or a tuple of names. Indices along several mesh axes are row-major
        in the order of the mesh's axes.
      perm: pairs (source, destination); indices that are not a destination receive zeros. Negative
        indices count from the end.

    Returns:
      A pytree like `x`.

    Raises:
      NameError: if the axis is not bound.
      ValueError: if an index is a source or a destination twice, or out of range.

    >>> x = jnp.array([1., 2., 3.])
    >>> print(jax.vmap(lambda x: jax.lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(x))
    [0. 1. 2.]
    """
    axes = distinct_axes("ppermute", axis_name)
    pairs = _check_perm("ppermute", axes, perm)
    return tree_map(
        lambda v: ppermute_p.bind(varying_over("ppermute", v, axes), axis_name=axes, perm=pairs), x
    )


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Permute the values along a named axis: index i receives the value of index perm[i].

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis.
      perm: for each index, the index whose value it receives.

    Returns:
      A pytree like `x`.

    Raises:
      ValueError: if `perm` is not a permutation of the indices.

    >>> x = jnp.array([1., 2., 3.])
    >>> print(jax.vmap(lambda x: jax.lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(x))
    [3. 1. 2.]
    """
    n = axis_size(axis_name)
    if sorted(perm) != list(range(n)):
        raise ValueError(f"`perm` does not represent a permutation of an axis of size {n}: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(n))))


def _check_perm(name: str, axes: tuple, perm: Any) -> tuple[tuple[int, int], ...]:
    pairs = tuple([(as_index(name, "perm", s), as_index(name, "perm", d)) for s, d in perm])
    return _checked_pairs(name, axes, axis_size(axes), pairs)


@functools.lru_cache(1000)
def _checked_pairs(name: str, axes: tuple, n: int, pairs: tuple) -> tuple:
    given = pairs
    pairs = tuple([(s + n if s < 0 else s, d + n if d < 0 else d) for s, d in given])
    sources, targets = {s for s, _ in pairs}, {d for _, d in pairs}
    if len(sources) < len(pairs) or len(targets) < len(pairs):
        raise ValueError(f"{name} sources and destinations must be unique, got {given}")
    if any(not 0 <= i < n for i in sources | targets):
        raise ValueError(
            f"{name} indices must be in range of axis {show_axes(axes)} of size {n}, got {given}"
        )
    return pairs


def _ppermute_types(x, *, axis_name, perm):
    check_operand("ppermute", x, axis_name)
    same_variation("ppermute", x, axis_name)
    return x, effects(axis_name)


def _ppermute_batch(axis_data, args, dims, *, axis_name, perm):
    (x,), (d,) = args, dims
    name = axis_data.name
    if name not in axis_name:
        check_elements("ppermute", axis_data, axis_name, d)
        return ppermute_p.bind(x, axis_name=axis_name, perm=perm), d
    x = at_front(axis_data, x, d)
    axes = with_mesh_axes(axis_data, _in_mesh_order(axis_name))
    before, after, rest = around(axes, name)
    size = int(axis_data.size)  # an error if it is symbolic
    # Between each two indices of the mapped axis: the permutation of the other axes' indices.
    by_pair: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for s, t in perm:
        (b1, i, a1), (b2, j, a2) = (np.unravel_index(k, (before, size, after)) for k in (s, t))
        pair = (int(b1 * after + a1), int(b2 * after + a2))
        by_pair.setdefault((int(i), int(j)), []).append(pair)
    if not rest:
        return _permute_rows(x, list(by_pair), size), 0
    rows: list[Any] = [None] * size
    for (i, j), pairs in by_pair.items():
        row = slicing.index_in_dim(x, i, 0, keepdims=False)
        row = _permute(row, rest, pairs)
        if rows[j] is not None:
            receives = np.isin(np.arange(before * after), [t for _, t in pairs])
            mask = slicing.dynamic_index_in_dim(receives, axis_index(rest), 0, keepdims=False)
            row = lax.select(lax.broadcast_in_dim(mask, row.shape, ()), row, rows[j])
        rows[j] = row
    zero = lax.full_like(slicing.index_in_dim(x, 0, 0, keepdims=False), 0)
    rows = [lax.expand_dims(zero if r is None else r, (0,)) for r in rows]
    return lax.concatenate(rows, 0), 0


def _in_mesh_order(axes: Sequence[Any]) -> tuple[Any, ...]:
    """`axes` with the mesh axes among them in the order of the mesh, in the same places."""
    shadowed = get_axis_env().vmap_axis_names
    order = [a for a in get_abstract_mesh().axis_names if a in axes and a not in shadowed]
    ordered = iter(order)
    return tuple([next(ordered) if a in order else a for a in axes])


def _permute(x: Any, axes: tuple[Any, ...], pairs: Sequence[tuple[int, int]]) -> Any:
    """Send values between indices that are row-major in the order of `axes`."""
    ordered = _in_mesh_order(axes)
    if ordered != axes:
        sizes = [axis_size(a) for a in axes]
        index = np.arange(math.prod(sizes)).reshape([axis_size(a) for a in ordered])
        index = index.transpose([ordered.index(a) for a in axes]).reshape(-1)
        pairs = [(int(index[s]), int(index[t])) for s, t in pairs]
    x = varying_over("ppermute", x, ordered)
    return ppermute_p.bind(x, axis_name=ordered, perm=tuple(pairs))


def _permute_rows(x: Any, pairs: Sequence[tuple[int, int]], size: int) -> Any:
    source, receives = np.zeros(size, np.int32), np.zeros(size, np.bool_)
    for s, t in pairs:
        source[t], receives[t] = s, True
    out = gather_rows(x, source)
    if not receives.all():
        mask = lax.broadcast_in_dim(receives, out.shape, (0,))
        out = lax.select(mask, out, lax.full_like(out, 0))
    return out


def _lower_ppermute(ctx, x, *, axis_name, perm):
    pairs = lowering.source_target_pairs(ctx, axis_name, perm)
    return [hlo.collective_permute(x, pairs, channel_handle=lowering.channel())]


ppermute_p = collective("ppermute", _ppermute_types)
ppermute_p.axis_batch = _ppermute_batch
mlir.register_lowering(ppermute_p, _lower_ppermute)
ad.deflinear2(
    ppermute_p,
    lambda ct, x, *, axis_name, perm: [
        ppermute_p.bind(ct, axis_name=axis_name, perm=tuple([(d, s) for s, d in perm]))
    ],
)

# ---------------------------------------------------------------------------------------------------
# pbroadcast


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Broadcast the value of one index of a named axis to all its indices.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis, or a tuple of names.
      source: index whose value is broadcast.

    Returns:
      A pytree like `x`.

    Raises:
      NameError: if the axis is not bound.
      ValueError: if `source` is out of range.

    >>> x = jnp.array([1., 2., 3.])
    >>> print(jax.vmap(lambda x: jax.lax.pbroadcast(x, "i", 1), axis_name="i")(x))
    [2. 2. 2.]
    """
    axes = distinct_axes("pbroadcast", axis_name)
    n = axis_size(axes)
    source = as_index("pbroadcast", "source", source)
    if not 0 <= source < n:
        raise ValueError(
            f"pbroadcast: source {source} is out of range for axis {show_axes(axes)} of size {n}"
        )

    def broadcast(v):
        if not axes:
            return v
        return pbroadcast_p.bind(
            varying_over("pbroadcast", v, axes), axis_name=axis_name, source=source
        )

    axis_name = axes if isinstance(axis_name, (tuple, list)) else axis_name
    return tree_map(broadcast, x)


def _pbroadcast_types(x, *, axis_name, source):
    axes = as_axes(axis_name)
    check_operand("pbroadcast", x, axes)
    same_variation("pbroadcast", x, axes)
    return x, effects(axes)


def _only_at_source(x, *, axis_name, source):
    """Return `x` at the source, and zeros at other indices."""
    here = lax.eq(axis_index(axis_name), np.int32(source))
    mask = lax.broadcast_in_dim(here, np.shape(x), ())
    return lax.select(mask, x, lax.full_like(x, 0))


def _pbroadcast_transpose(ct, x, *, axis_name, source):
    return [_only_at_source(psum(ct, axis_name), axis_name=axis_name, source=source)]


def _pbroadcast_batch(axis_data, args, dims, *, axis_name, source):
    (x,), (d,) = args, dims
    axes, name = as_axes(axis_name), axis_data.name
    if name not in axes:
        check_elements("pbroadcast", axis_data, axes, d)
        return pbroadcast_p.bind(x, axis_name=axis_name, source=source), d
    axes = with_mesh_axes(axis_data, axes)
    before, after, rest = around(axes, name)
    b, i, a = (int(k) for k in np.unravel_index(source, (before, axis_data.size, after)))
    if d is not None:
        x = slicing.index_in_dim(x, i, d, keepdims=False)
    if rest:
        x = varying_over("pbroadcast", x, rest)
        x = pbroadcast_p.bind(x, axis_name=rest, source=b * after + a)
    return x, None


def _lower_broadcast_op(ctx, x, *, axis_name, source):
    axes = as_axes(axis_name)
    n = lowering.device_groups(ctx, axes).shape[1]
    group = (source, *[i for i in range(n) if i != source])
    groups = lowering.replica_groups(ctx, axes, (group,))
    # The bindings take one operand, newer ones several.
    op = ir.Operation.create(
        "stablehlo.collective_broadcast", [x.type], [x],
        {"replica_groups": groups, "channel_handle": lowering.channel()},
    )  # fmt: skip
    return [op.results[0]]


def _broadcast_by_sum(x, *, axis_name, source):
    """Broadcast on platforms without an op for it: sum the bits, which are zeros elsewhere."""
    dtype = typeof(x).dtype
    if isinstance(dtype, ExtendedDType):
        return slicing.index_in_dim(all_gather(x, axis_name), source, 0, keepdims=False)
    if dtypes.issubdtype(dtype, np.complexfloating):
        parts = [
            _broadcast_by_sum(part, axis_name=axis_name, source=source)
            for part in (lax.real(x), lax.imag(x))
        ]
        return lax.complex(*parts)
    if dtype == np.bool_:
        bits = lax.convert_element_type(x, np.uint8)
    elif dtypes.issubdtype(dtype, np.integer):
        bits = x
    else:
        bits = lax.bitcast_convert_type(x, np.dtype(f"uint{8 * dtype.itemsize}"))
    bits = psum(_only_at_source(bits, axis_name=axis_name, source=source), axis_name)
    if dtype == np.bool_:
        return lax.convert_element_type(bits, np.bool_)
    return bits if bits.dtype == dtype else lax.bitcast_convert_type(bits, dtype)


pbroadcast_p = collective("pbroadcast", _pbroadcast_types)
pbroadcast_p.axis_batch = _pbroadcast_batch
ad.deflinear2(pbroadcast_p, _pbroadcast_transpose)
mlir.register_lowering(pbroadcast_p, lowering.lower_fun(_broadcast_by_sum))
mlir.register_lowering(pbroadcast_p, _lower_broadcast_op, platform="gpu")

# ---------------------------------------------------------------------------------------------------
# psend, precv


class SingleSideCollectiveEffect(Effect):
    """The effect of a send or receive: its counterpart waits for it, so it must be executed."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleSideCollectiveEffect)

    def __hash__(self) -> int:
        return hash(SingleSideCollectiveEffect)

    def __repr__(self) -> str:
        return "SingleSideCollectiveEffect()"


single_side_collective_effect = SingleSideCollectiveEffect()
for _allowed in (effects_lib.lowerable_effects, effects_lib.control_flow_allowed_effects):
    _allowed.add_type(SingleSideCollectiveEffect)


def psend(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values between the indices of a named axis, without waiting for them; on GPUs only.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis, or a tuple of names.
      perm: pairs (source, destination).

    Returns:
      A token for `precv` and `lax.optimization_barrier`, which order operations by it; for a
      pytree, a tree of them.

    Raises:
      NameError: if the axis is not bound.
      ValueError: if an index is a source or a destination twice, or out of range.
    """
    axes = distinct_axes("psend", axis_name)
    pairs = _check_perm("psend", axes, perm)
    return tree_map(
        lambda v: psend_p.bind(varying_over("psend", v, axes), axis_name=axes, perm=pairs), x
    )


def precv(token: Any, out_shape: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Receive the values of a `psend` with the same `perm`; on GPUs only.

    Args:
      token: the token of the `psend`, or of `lax.create_token`.
      out_shape: an object with the attributes `shape` and `dtype` of the value.
      axis_name: name of the axis, or a tuple of names.
      perm: pairs (source, destination); indices that are not a destination receive zeros.

    Returns:
      An array of that shape and dtype.

    Raises:
      NameError: if the axis is not bound.
      ValueError: if an index is a source or a destination twice, or out of range.
    """
    axes = distinct_axes("precv", axis_name)
    pairs = _check_perm("precv", axes, perm)
    if not (hasattr(out_shape, "shape") and hasattr(out_shape, "dtype")):
        raise TypeError(
            "precv: out_shape must be one object with a shape and a dtype, such as a "
            f"jax.ShapeDtypeStruct, got {out_shape!r}. Receive several values with several calls."
        )
    aval = ShapedArray(out_shape.shape, canonicalize_dtype(out_shape.dtype))
    return precv_p.bind(token, out_shape=aval, axis_name=axes, perm=pairs)


def _psend_types(x, *, axis_name, perm):
    check_operand("psend", x, axis_name)
    same_variation("psend", x, axis_name)
    return abstract_token, effects(axis_name) | {single_side_collective_effect}


def _precv_types(token, *, out_shape, axis_name, perm):
    if token is not abstract_token:
        raise TypeError(
            f"precv takes a token, of psend or lax.create_token, got an operand of type {token}"
        )
    axis_size(axis_name)
    return out_shape, effects(axis_name) | {single_side_collective_effect}


def _no_batch(p: Primitive):
    def rule(axis_data, args, dims, **params):
        if dims[0] is None and axis_data.name not in params["axis_name"]:
            return p.bind(*args, **params), None
        raise NotImplementedError(
            f"{p.name} under vmap is not supported: its counterpart does not know the batch. "
            "Use ppermute, or move the batch dimension into the value that is sent."
        )

    return rule


def _lower_psend(ctx, x, *, axis_name, perm):
    _gpu_only(ctx, "psend")
    op = hlo.SendOp(
        [x], hlo.create_token(), lowering.channel(),
        source_target_pairs=lowering.source_target_pairs(ctx, axis_name, perm),
    )  # fmt: skip
    return [op.results[0]]


def _lower_precv(ctx, token, *, out_shape, axis_name, perm):
    _gpu_only(ctx, "precv")
    op = hlo.RecvOp(
        [lowering.result_type(ctx), hlo.TokenType.get()], token, lowering.channel(),
        source_target_pairs=lowering.source_target_pairs(ctx, axis_name, perm),
    )  # fmt: skip
    return [op.results[0]]


def _gpu_only(ctx, name: str) -> None:
    platforms = ctx.platforms or ctx.module_context.platforms
    if any(p not in ("cuda", "rocm") for p in platforms):
        raise NotImplementedError(
            f"{name} is currently only implemented on GPU, got {', '.join(platforms)}: use ppermute"
        )


psend_p = collective("psend", _psend_types)
precv_p = collective("precv", _precv_types)
psend_p.axis_batch = _no_batch(psend_p)
precv_p.axis_batch = _no_batch(precv_p)
mlir.register_lowering(psend_p, _lower_psend)
mlir.register_lowering(precv_p, _lower_precv)
