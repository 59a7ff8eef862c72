"""Maxima and minima over named axes, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src.core import Primitive, typeof
from jax._src.dtypes import ExtendedDType
from jax._src.interpreters import mlir
from jax._src.lax import lax
from jax._src.lax.lax import monoids
from jax._src.lax.parallel import lowering
from jax._src.lax.parallel.axes import (
    check_groups,
    check_operand,
    collective,
    effects,
    manual_axes,
    no_variation,
    same_variation,
    split_axes,
    varying_over,
)
from jax._src.lax.parallel.index import axis_index
from jax._src.lax.parallel.sums import reduction_batch
from jax._src.tree_util import tree_map


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Take the maximum over a named axis; the arguments are those of `psum`.

    Returns:
      A pytree like `x`. It has no derivatives.

    >>> print(jax.vmap(lambda x: x == jax.lax.pmax(x, "i"), axis_name="i")(jnp.array([1., 3.])))
    [False  True]
    """
    return _reduce(pmax_p, x, axis_name, axis_index_groups, lax.reduce_max)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Take the minimum over a named axis; the arguments and the result are those of `pmax`.

    >>> print(jax.vmap(lambda x: x == jax.lax.pmin(x, "i"), axis_name="i")(jnp.array([1., 3.])))
    [ True False]
    """
    return _reduce(pmin_p, x, axis_name, axis_index_groups, lax.reduce_min)


def _reduce(p: Primitive, x: Any, axis_name: Any, axis_index_groups: Any, positional: Callable):
    named, positions = split_axes(axis_name)
    groups = check_groups(axis_index_groups, named, p.name, equal=False)
    if positions and groups is not None:
        raise ValueError(f"axis_index_groups only supported for {p.name} over just named axes")

    def reduce(v):
        if isinstance(typeof(v).dtype, ExtendedDType):
            raise TypeError(
                f"{p.name} takes numbers, got an operand of type {typeof(v).str_short()}"
            )
        if positions:
            v = positional(v, positions)
        if not named:
            return v
        return p.bind(varying_over(p.name, v, named), axes=named, axis_index_groups=groups)

    return tree_map(reduce, x)


def pargmax(x: Any, axis_name: Any) -> Any:
    """Return, for each element, the first index along a named axis at which it is the maximum.

    Args:
      x: array.
      axis_name: the name of one axis.

    Returns:
      An int32 array of the shape of `x`.
    """
    return _index_of(pmax, "pargmax", x, axis_name)


def pargmin(x: Any, axis_name: Any) -> Any:
    """Return, for each element, the first index along a named axis at which it is the minimum."""
    return _index_of(pmin, "pargmin", x, axis_name)


def _index_of(best: Callable[..., Any], name: str, x: Any, axis_name: Any) -> Any:
    if isinstance(axis_name, (tuple, list)):
        raise TypeError(f"{name} only accepts a single axis, got {axis_name}")
    index = axis_index(axis_name)
    found = lax.eq(best(x, axis_name), x)
    index = lax.broadcast_in_dim(index, np.shape(x), ())
    return pmin(lax.select(found, index, lax.full_like(index, np.iinfo(np.int32).max)), axis_name)


def _types(name: str) -> Callable[..., Any]:
    def types(x, *, axes, axis_index_groups):
        check_operand(name, x, axes)
        # Indices of different groups have different results.
        rule = no_variation if axis_index_groups is None else same_variation
        weak_type = x.weak_type and bool(manual_axes(axes))
        return x.update(weak_type=weak_type, manual_axis_type=rule(name, x, axes)), effects(axes)

    return types


def _extremum(
    name: str, function: Callable[..., Any], monoid: monoids.Monoid, reduce: Callable[..., Any]
) -> Primitive:
    def lower(ctx, x, *, axes, axis_index_groups):
        return lowering.all_reduce(ctx, x, axes, axis_index_groups, monoid)

    p = collective(name, _types(name))
    p.axis_batch = reduction_batch(p, function, reduce, lambda x, n: x)
    mlir.register_lowering(p, lower)
    return p


pmax_p = _extremum("pmax", pmax, monoids.max_monoid, lax.reduce_max)
pmin_p = _extremum("pmin", pmin, monoids.min_monoid, lax.reduce_min)
