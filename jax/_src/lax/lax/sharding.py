"""Result shardings in explicit mode, for operations that move, split, merge or drop dimensions.

Each helper takes the operand's type (`aval`, with a sharding over explicit mesh axes) and returns
the result's `NamedSharding`, or raises `ShardingTypeError` if the result's sharding is ambiguous.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.core.avals import ShapedArray
from jax._src.named_sharding import NamedSharding


def entries(aval: ShapedArray) -> tuple[Any, ...]:
    """Return the spec entry of each dimension of `aval`: mesh axes or None."""
    return aval.sharding.spec.partitions


def with_entries(aval: ShapedArray, new: Sequence[Any]) -> NamedSharding:
    """Return the sharding of `aval` with new spec entries, without unreduced and reduced axes."""
    sharding = aval.sharding
    spec = sharding.spec.update(partitions=tuple(new), unreduced=frozenset(), reduced=frozenset())
    return sharding.update(spec=spec)


def unsharded_over(aval: ShapedArray, dims: Sequence[int], what: str) -> NamedSharding:
    """Return the sharding of `aval`; raise if one of `dims` is sharded."""
    spec = entries(aval)
    if any(spec[d] is not None for d in dims):
        raise core.ShardingTypeError(
            f"{what} Got operand type {aval.str_short()} and dimension"
            f"{'s' * (len(dims) > 1)} {', '.join(map(str, dims))}. Move the dimension onto one device "
            "first with `jax.sharding.reshard`."
        )
    return with_entries(aval, spec)


def common(name: str, avals: Sequence[ShapedArray]) -> ShapedArray:
    """Return the first sharded one of `avals`; raise if their shardings differ."""
    first = next((a for a in avals if a._sharding is not None), avals[0])
    for a in avals:
        if a._sharding is None or a._sharding == first._sharding:
            continue
        if a._sharding.spec != first.sharding.spec:
            raise core.ShardingTypeError(
                f"{name}: all operands should have the same sharding, got "
                f"{', '.join(a.str_short() for a in avals)}. Make them agree with "
                "`jax.sharding.reshard`."
            )
    return first


def resized(name: str, aval: ShapedArray, shape: Sequence[Any]) -> NamedSharding:
    """Return the sharding of `aval` for another `shape`, whose sizes must divide evenly."""
    spec = entries(aval)
    for entry, old, new in zip(spec, aval.shape, shape):
        if entry is not None and old != new and new % axes_size(aval.sharding, entry):
            raise core.ShardingTypeError(
                f"{name} on sharded dims where out dim ({new}) is not divisible by mesh axes "
                f"({axes_size(aval.sharding, entry)}) with spec ({entry}) is not implemented. Got "
                f"input type={aval.str_short(short_dtypes=True)} and output shape={tuple(shape)}. "
                "Replicate the dimension first with `jax.sharding.reshard`, or say how the result is "
                "sharded: an index takes it as `x.at[...].get(out_sharding=)`."
            )
    return with_entries(aval, spec)


def axes_size(sharding: NamedSharding, entry: Any) -> int:
    """Return the number of shards for a spec's `entry`."""
    names = entry if isinstance(entry, tuple) else (entry,)
    return math.prod(sharding.mesh.shape[n] for n in names)


def reshaped(aval: ShapedArray, new_sizes: Sequence[Any], api_name: str) -> NamedSharding:
    """Return the sharding of a reshape, by groups of dimensions with equal products.

    A group that is one dimension before and after keeps its sharding. A dimension that is split
    distributes its mesh axes over its parts, in order. Dimensions that are merged must be sharded
    in their leading ones only, whose mesh axes are combined.
    """
    spec, out = entries(aval), [None] * len(new_sizes)
    for old_dims, new_dims in _groups(aval.shape, new_sizes):
        used = [spec[d] for d in old_dims]
        if all(e is None for e in used):
            continue
        parts = None
        if len(old_dims) == 1 and new_dims:
            parts = _split_entry(aval.sharding, used[0], [new_sizes[d] for d in new_dims])
        elif len(new_dims) == 1 and used[0] is not None:
            merged = [e for e in used if e is not None]
            if any(used[len(merged) :]):  # an unsharded dimension lies between sharded ones
                raise _unsupported_reshape(aval, new_sizes, api_name)
            entry = sum((e if isinstance(e, tuple) else (e,) for e in merged), ())
            if new_sizes[new_dims[0]] % axes_size(aval.sharding, entry) == 0:
                parts = [merged[0] if len(merged) == 1 else entry]
        if parts is None:
            raise _unsupported_reshape(aval, new_sizes, api_name)
        for d, entry in zip(new_dims, parts):
            out[d] = entry
    return with_entries(aval, out)


def _unsupported_reshape(aval: ShapedArray, new_sizes: Sequence[Any], api_name: str) -> Exception:
    return core.ShardingTypeError(
        "This reshape is not supported. Please specify the sharding of the output via the `out_sharding` "
        f"argument of {api_name}. Got operand type: {aval.str_short()}, new sizes: {tuple(new_sizes)}"
    )


def _split_entry(sharding: NamedSharding, entry: Any, sizes: Sequence[Any]) -> list[Any] | None:
    """Distribute the mesh axes of a split dimension over its parts; None if impossible."""
    axes = list(entry) if isinstance(entry, tuple) else [entry]
    parts: list[Any] = []
    for size in sizes:
        taken = []
        while axes and size % sharding.mesh.shape[axes[0]] == 0:
            size //= sharding.mesh.shape[axes[0]]
            taken.append(axes.pop(0))
        if axes and size != 1:
            return None
        parts.append((taken[0] if len(taken) == 1 else tuple(taken)) if taken else None)
    return None if axes else parts


def _groups(old: Sequence[Any], new: Sequence[Any]):
    """Yield the smallest runs of dimensions with equal products, skipping dimensions of size 1."""
    old_dims = [i for i, d in enumerate(old) if d != 1]
    new_dims = [i for i, d in enumerate(new) if d != 1]
    i = j = 0
    while i < len(old_dims) and j < len(new_dims):
        i0, j0 = i, j
        p, q = old[old_dims[i]], new[new_dims[j]]
        i, j = i + 1, j + 1
        while p != q and (i < len(old_dims) or j < len(new_dims)):
            if (p < q and i < len(old_dims)) or j >= len(new_dims):
                p, i = p * old[old_dims[i]], i + 1
            else:
                q, j = q * new[new_dims[j]], j + 1
        yield old_dims[i0:i], new_dims[j0:j]


def batched(sharding: NamedSharding | None, operand: Any, bdim: int, at: int = 0):
    """Batch a `sharding` parameter: insert the spec entry of the batch dimension at `at`."""
    if sharding is None:
        return None
    aval = core.typeof(operand)
    entry = None if aval._sharding is None else entries(aval)[bdim]
    spec = sharding.spec.partitions
    return sharding.update(spec=sharding.spec.update(partitions=(*spec[:at], entry, *spec[at:])))


def same_unreduced(pairs, *avals: ShapedArray, **_) -> tuple[frozenset, frozenset]:
    """Unreduced rule of linear operations: operands have the same unreduced and reduced axes."""
    on_mesh = [pair for pair, a in zip(pairs, avals) if a._sharding is not None] or pairs
    first = on_mesh[0]
    if any(pair != first for pair in on_mesh):
        raise core.ShardingTypeError(
            "Operands should be unreduced and reduced over the same mesh axes, got "
            f"{', '.join(map(str, avals))}. Reduce them first with `jax.sharding.reshard`."
        )
    return first


def dropping(*param: str) -> Callable[..., NamedSharding]:
    """Return a sharding rule for operations that drop the dimensions listed in a parameter."""

    def rule(*avals, **params):
        aval = avals[0]
        dims = params[param[0]]
        return with_entries(aval, [e for i, e in enumerate(entries(aval)) if i not in dims])

    return rule
