"""Contraction of two labelled arrays as one `dot_general`, the basis of `einsum` and `matmul`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes
from jax._src.lax import lax
from jax._src.sharding_impls import canonicalize_sharding

Labels = tuple[Any, ...]  # one label per dimension


class Plan(NamedTuple):
    """Describes how to contract two arrays.

    Attributes:
      lhs, rhs: for each operand the axes to sum over first, then the axes of size 1 to drop.
      swap: whether to exchange the operands.
      dims: dimension numbers of the dot product.
      permutation: transposition of the dot product's result, or None.
    """

    lhs: tuple[tuple[int, ...], tuple[int, ...]]
    rhs: tuple[tuple[int, ...], tuple[int, ...]]
    swap: bool
    dims: Any
    permutation: tuple[int, ...] | None


@functools.lru_cache(4096)
def plan(lhs: Labels, lhs_shape: tuple, rhs: Labels, rhs_shape: tuple, out: Labels) -> Plan:
    """Plans the contraction of operands with labels `lhs` and `rhs` to a result with labels `out`.

    No operand may repeat a label. Labels that are not in `out` are summed over. A dimension of size
    1 broadcasts against the other operand's dimension of the same label.
    """
    lhs_sum, lhs_drop, rhs_sum, rhs_drop = [], [], [], []
    lhs_left, rhs_left = dict(zip(lhs, lhs_shape)), dict(zip(rhs, rhs_shape))
    for label in lhs:
        if label in rhs_left:
            m, n = lhs_left[label], rhs_left[label]
            if m is not n and not core.definitely_equal(m, n):
                if core.definitely_equal(m, 1):
                    lhs_drop.append(label)
                elif core.definitely_equal(n, 1):
                    rhs_drop.append(label)
    for label in lhs_drop:
        del lhs_left[label]
    for label in rhs_drop:
        del rhs_left[label]
    for mine, other, total in ((lhs_left, rhs_left, lhs_sum), (rhs_left, lhs_left, rhs_sum)):
        for label in list(mine):
            if label not in other and label not in out:
                total.append(label)
    for label in lhs_sum:
        del lhs_left[label]
    for label in rhs_sum:
        del rhs_left[label]
    batch = [label for label in out if label in lhs_left and label in rhs_left]
    contracted = [label for label in lhs_left if label in rhs_left and label not in out]
    shared = {*batch, *contracted}
    lhs_free = [label for label in lhs_left if label not in shared]
    rhs_free = [label for label in rhs_left if label not in shared]
    # Exchange the operands if that avoids a transpose of the result.
    swap = tuple([*batch, *rhs_free, *lhs_free]) == out and bool(lhs_free and rhs_free)
    result = [*batch, *rhs_free, *lhs_free] if swap else [*batch, *lhs_free, *rhs_free]
    first, second = (rhs_left, lhs_left) if swap else (lhs_left, rhs_left)
    first, second = list(first), list(second)
    dims = (
        (tuple(map(first.index, contracted)), tuple(map(second.index, contracted))),
        (tuple(map(first.index, batch)), tuple(map(second.index, batch))),
    )
    permutation = None if tuple(result) == out else tuple(map(result.index, out))
    return Plan(
        _axes(lhs, lhs_sum, lhs_drop), _axes(rhs, rhs_sum, rhs_drop), swap, dims, permutation
    )


def _axes(labels, total, drop):
    kept = [label for label in labels if label not in total]
    return tuple(map(labels.index, total)), tuple(map(kept.index, drop))


def contract(
    lhs: Any,
    rhs: Any,
    p: Plan,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
    dot_general: Callable[..., Any] | None = None,
) -> Any:
    """Contracts two arrays according to a plan."""
    if p.lhs != _NOTHING:
        lhs = _reduced(lhs, *p.lhs)
    if p.rhs != _NOTHING:
        rhs = _reduced(rhs, *p.rhs)
    if p.swap:
        lhs, rhs = rhs, lhs
    if out_sharding is not None and p.permutation is not None:
        out_sharding = before_transpose(out_sharding, p.permutation)
    if dot_general is None:
        out = lax.dot_general(
            lhs, rhs, p.dims, precision, preferred_element_type, out_sharding=out_sharding
        )
    else:
        kwargs = {} if out_sharding is None else {"out_sharding": out_sharding}
        out = dot_general(
            lhs, rhs, p.dims, precision, preferred_element_type=preferred_element_type, **kwargs
        )
    return out if p.permutation is None else lax.transpose(out, p.permutation)


def before_transpose(sharding, permutation):
    """Returns the sharding of an array whose transpose by `permutation` has `sharding`."""
    sharding = canonicalize_sharding(sharding, "dot_general")
    entries = [None] * len(permutation)
    for d, entry in zip(permutation, tuple(sharding.spec)):
        entries[d] = entry
    return sharding.update(spec=sharding.spec.update(partitions=tuple(entries)))


_NOTHING = ((), ())


def _reduced(x, axes, drop):
    if axes:
        x = total(x, axes)
    return lax.squeeze(x, drop) if drop else x


def total(x: Any, axes: Sequence[int], out_sharding: Any = None) -> Any:
    """Sums over `axes`, with the result sharded as `out_sharding`; for booleans, computes "any"."""
    axes = tuple(axes)
    if dtypes.dtype(x) == np.bool_:
        return lax.reduce_or(x, axes=axes)
    return lax.reduce_sum(x, axes=axes, out_sharding=out_sharding)
