"""Sums over named axes, and casts between the ways in which values vary over manual mesh axes.

Inside of `shard_map` a value has one of four roles for each manual axis: invariant (equal on all
devices along the axis), varying, unreduced (its sum along the axis is meant) or reduced (invariant,
with an unreduced cotangent). Each cast between roles is the transpose of another one or of a sum:

    invariant -> varying    pvary                 transpose: psum_invariant
    invariant -> reduced    preduced              transpose: unreduced_psum
    varying   -> unreduced  vary_unreduced_cast   transpose: reduced_vary_cast

Without checks (`check_vma=False`), and for axes of `vmap`, there are no roles: `psum` is its own
transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src.core import Primitive, Tracer, typeof
from jax._src.dtypes import ExtendedDType, float0
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax import lax, parallel
from jax._src.lax.lax import monoids
from jax._src.lax.parallel import lowering
from jax._src.lax.parallel.axes import (
    as_axes,
    axis_size,
    check_elements,
    check_groups,
    check_operand,
    collective,
    common_role,
    effects,
    gather_rows,
    group_size,
    has_roles,
    manual_axes,
    no_variation,
    places,
    recast,
    reduce_groups,
    show_axes,
    split_axes,
    varying_over,
    with_mesh_axes,
)
from jax._src.tree_util import tree_flatten, tree_map, tree_unflatten

# ---------------------------------------------------------------------------------------------------
# Functions


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Sum over a named axis.

    Args:
      x: array or pytree of arrays; Python numbers are multiplied by the axis size at trace time.
        Booleans are converted to integers.
      axis_name: name of the axis, or a tuple of names and positions of dimensions.
      axis_index_groups: groups of axis indices to sum within; lists that together have each index
        once.

    Returns:
      A pytree like `x`, equal for all indices of the axis (of the group).

    Raises:
      NameError: if the axis is not bound.
      ValueError: for groups that do not partition the axis, or if `x` varies over some of the axes
        and is invariant over others.

    >>> print(jax.vmap(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")(jnp.array([1., 3.])))
    [0.25 0.75]
    """
    named, positions = split_axes(axis_name)
    groups = check_groups(axis_index_groups, named, "psum", equal=False)
    if positions and groups is not None:
        raise ValueError("axis_index_groups only supported for sums over just named axes")
    leaves, tree = tree_flatten(x)
    return tree_unflatten(tree, [_psum(v, named, positions, groups) for v in leaves])


def _psum(x: Any, axes: tuple, positions: tuple, groups: Any) -> Any:
    if type(x) in (int, float, complex) and not positions:
        if groups is None or len({len(g) for g in groups}) == 1:
            return x * group_size(axes, groups)
    aval = typeof(x)
    if isinstance(aval.dtype, ExtendedDType) or aval.dtype == float0:
        raise TypeError(f"psum takes numbers, got an operand of type {aval.str_short()}")
    if aval.dtype == np.bool_ and (axes or positions):
        x = lax.convert_element_type(x, np.int32)
    if positions:
        x = lax.reduce_sum(x, positions)
    if not axes:
        return x
    if not isinstance(x, Tracer) and groups is None:  # a constant
        n = axis_size(axes)
        if isinstance(x, (np.ndarray, np.generic)):
            with np.errstate(over="ignore"):
                return x * x.dtype.type(n)
        return lax.mul(x, lax.const(x, n))
    manual = manual_axes(axes)
    if not manual:
        return psum_p.bind(x, axes=axes, axis_index_groups=groups)
    if groups is not None:
        return psum_p.bind(varying_over("psum", x, axes), axes=axes, axis_index_groups=groups)
    role = common_role("psum", x, manual)
    if len(manual) < len(axes):
        others = tuple([a for a in axes if a not in manual])
        x = psum_p.bind(x, axes=others, axis_index_groups=None)
    if role == "unreduced":
        return unreduced_psum_p.bind(x, axes=manual)
    if role != "varying":
        x = varying_over("psum", x, manual)
    return psum_invariant_p.bind(x, axes=manual)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Average over a named axis; the arguments are those of `psum`.

    Returns:
      A pytree like `x`; averages of integers are floating-point numbers.

    >>> print(jax.vmap(lambda x: jax.lax.pmean(x, "i"), axis_name="i")(jnp.array([1., 3.])))
    [2. 2.]
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    n = psum(1, axis_name, axis_index_groups=axis_index_groups)
    return tree_map(lambda v: v / n, total)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Change the role of values for manual mesh axes, without communication.

    Args:
      x: array or pytree of arrays.
      axis_name: name of a manual axis of `shard_map`, or a tuple of names.
      to: the new role. "varying": from invariant or reduced values. "unreduced": from varying
        values, whose sum along the axis is then meant. "reduced": from invariant values, whose
        cotangents are then unreduced.

    Returns:
      A pytree like `x`, of the same values. With `check_vma=False` types have no roles; the result
      is `x`.

    Raises:
      NameError: if the axis is not bound.
      ValueError: for another role, or values that cannot be cast to it.

    >>> mesh = jax.make_mesh((1,), ("i",))
    >>> f = lambda x: jax.typeof(jax.lax.pcast(x, "i", to="varying"))
    >>> with jax.set_mesh(mesh):
    ...     out = jax.shard_map(lambda x: (print(f(x)), x)[1], out_specs=jax.P())(jnp.ones(2))
    float32[2]{V:i}
    """
    if to not in _CASTS:
        raise ValueError(
            f"Got unexpected `to` value {to!r} for pcast. Allowed `to` values are: "
            f"{', '.join(sorted(_CASTS))}. To sum over an axis use `jax.lax.psum`."
        )
    axis_size(axis_name)
    axes = as_axes(axis_name)
    manual = manual_axes(axes)
    if not manual and (to != "unreduced" or not axes):
        return x
    leaves, tree = tree_flatten(x)
    return tree_unflatten(tree, [_pcast(v, axes, manual, to) for v in leaves])


def _pcast(x: Any, axes: tuple, manual: tuple, to: str) -> Any:
    if not manual:
        raise ValueError(
            f"Unsupported pcast to='unreduced' of {typeof(x).str_short()}, which is not varying "
            f"over {show_axes(axes)}: this needs shard_map with check_vma=True."
        )
    role = common_role("pcast", x, manual)
    primitive = _CASTS[to].get(role)
    if primitive is None:
        raise ValueError(
            f"Unsupported pcast from={role}, to={to!r}: got {typeof(x).str_short()} for axis "
            f"{show_axes(manual)}. pcast makes varying values of invarying or reduced ones, unreduced "
            "values of varying ones, and reduced values of invarying ones."
        )
    return primitive.bind(x, axes=manual)


def pvary(x: Any, axis_name: Any) -> Any:
    """Mark values as varying over manual mesh axes; `pcast` with `to="varying"`."""
    return pcast(x, axis_name, to="varying")


# ---------------------------------------------------------------------------------------------------
# Casts


def _cast(name: str, source: str, target: str) -> Primitive:
    """Define the cast from one role to another; None of the four changes values."""

    def types(x, *, axes):
        if not has_roles(x):
            return x
        mat = x.manual_axis_type
        if source == "invarying":
            roles = mat.vur.intersection(axes)
            if roles:
                raise ValueError(
                    f"{name} takes an operand that is invarying over {show_axes(axes)}, got "
                    f"{x.str_short()}. A reduced operand becomes varying by `jax.lax.pcast(x, "
                    "axis_name, to='varying')`, an unreduced one invarying by `jax.lax.psum`."
                )
            mat = mat.update(**{target: getattr(mat, target).union(axes)})
        else:
            mat = recast(name, x, axes, source, target)
        return x.update(manual_axis_type=mat)

    p = Primitive(name)
    p.def_impl(lambda x, *, axes: x)
    p.def_abstract_eval(types)
    batching.defvectorized(p)
    mlir.register_lowering(p, lambda ctx, x, *, axes: [x])
    return p


pvary_p = _cast("pvary", "invarying", "varying")
preduced_p = _cast("preduced", "invarying", "reduced")
vary_unreduced_cast_p = _cast("vary_unreduced_cast_p", "varying", "unreduced")
reduced_vary_cast_p = _cast("reduced_vary_cast_p", "reduced", "varying")
_CASTS = {
    "varying": {"invarying": pvary_p, "reduced": reduced_vary_cast_p},
    "unreduced": {"varying": vary_unreduced_cast_p},
    "reduced": {"invarying": preduced_p},
}


def _with_role(x: Any, axes: tuple, role: str = "varying") -> Any:
    """Give `x` a role for manual axes; for roles other than varying it must be invariant."""
    if role == "reduced":
        return preduced_p.bind(x, axes=axes)
    if role == "unreduced":
        return vary_unreduced_cast_p.bind(pvary_p.bind(x, axes=axes), axes=axes)
    mat = typeof(x).manual_axis_type
    reduced = tuple([a for a in axes if a in mat.reduced])
    if reduced:
        x = reduced_vary_cast_p.bind(x, axes=reduced)
        axes = tuple([a for a in axes if a not in reduced])
    return pvary_p.bind(x, axes=axes) if axes else x


late.pvary = _with_role


# The type of a value of a high type may not say over which axes its arrays vary. So an operand that
# was computed from such a value may vary already when there are only arrays any more.


def _varies_already(aval: Any, *, axes: tuple) -> bool:
    return aval.is_high or not aval.vma.isdisjoint(axes)


def _vary_over_others(x: Any, *, axes: tuple) -> Any:
    axes = tuple([a for a in axes if a not in typeof(x).vma])
    return pvary_p.bind(x, axes=axes) if axes else x


pvary_p.is_high = _varies_already  # type: ignore[method-assign]
pvary_p.to_lojax = _vary_over_others  # type: ignore[method-assign]

# ---------------------------------------------------------------------------------------------------
# Sums


def _psum_types(x, *, axes, axis_index_groups):
    check_operand("psum", x, axes)
    x = x.strip_weak_type()
    if axis_index_groups is None and x.manual_axis_type:
        x = x.update(manual_axis_type=no_variation("psum", x, axes))
    return x, effects(axes)


def _psum_invariant_types(x, *, axes):
    check_operand("psum", x, axes)
    return x.update(manual_axis_type=no_variation("psum", x, axes)), effects(axes)


def _unreduced_psum_types(x, *, axes):
    check_operand("psum", x, axes)
    mat = recast("unreduced_psum", x, axes, "unreduced", "invarying")
    return x.update(manual_axis_type=mat), effects(axes)


psum_p = collective("psum", _psum_types)
psum_invariant_p = collective("psum_invariant", _psum_invariant_types)
unreduced_psum_p = collective("unreduced_psum", _unreduced_psum_types)


def reduction_batch(
    p: Primitive, function: Callable[..., Any], reduce: Callable[..., Any],
    of_equal: Callable[..., Any],
) -> Any:  # fmt: skip
    """Return the batching rule of a reduction over named axes.

    Args:
      function: the reduction, `(x, axes) -> array`.
      reduce: the reduction of dimensions, `(x, dims) -> array`.
      of_equal: `(x, n)` -> the reduction of n equal values.
    """

    def rule(axis_data, args, dims, *, axes, axis_index_groups):
        (x,), (d,) = args, dims
        name = axis_data.name
        if name not in axes:
            check_elements(p.name, axis_data, axes, d)
            return p.bind(x, axes=axes, axis_index_groups=axis_index_groups), d
        if axis_index_groups is not None:
            axes = with_mesh_axes(axis_data, axes)
            x = reduce_groups(reduce, parallel.all_rows(axis_data, axes, x, d), axis_index_groups)
            group, _ = places(axis_index_groups)
            return gather_rows(x, parallel.own_rows(axis_data, axes, group)), 0
        x = of_equal(x, axis_data.size) if d is None else reduce(x, (d,))
        if axis_data.manual_axes:
            x = function(x, axis_data.manual_axes)
        rest = tuple([a for a in axes if a != name])
        return (p.bind(x, axes=rest, axis_index_groups=None) if rest else x), None

    return rule


psum_p.axis_batch = reduction_batch(
    psum_p, psum, lax.reduce_sum, lambda x, n: lax.mul(x, lax.const(x, n))
)


def _mesh_axes_batch(p: Primitive) -> Any:
    """Return the batching rule of a sum whose axes are all mesh axes."""

    def rule(axis_data, args, dims, *, axes):
        check_elements("psum", axis_data, axes, dims[0])
        return p.bind(*args, axes=axes), dims[0]

    return rule


psum_invariant_p.axis_batch = _mesh_axes_batch(psum_invariant_p)
unreduced_psum_p.axis_batch = _mesh_axes_batch(unreduced_psum_p)


def _lower_sum(ctx, x, *, axes, axis_index_groups=None):
    return lowering.all_reduce(ctx, x, axes, axis_index_groups, monoids.sum_monoid)


for _p in (psum_p, psum_invariant_p, unreduced_psum_p):
    mlir.register_lowering(_p, _lower_sum)

ad.deflinear2(psum_p, lambda ct, x, **params: [psum_p.bind(ct, **params)])
ad.deflinear2(psum_invariant_p, lambda ct, x, *, axes: [pvary_p.bind(ct, axes=axes)])
ad.deflinear2(unreduced_psum_p, lambda ct, x, *, axes: [preduced_p.bind(ct, axes=axes)])
ad.deflinear2(pvary_p, lambda ct, x, *, axes: [psum_invariant_p.bind(ct, axes=axes)])
ad.deflinear2(preduced_p, lambda ct, x, *, axes: [unreduced_psum_p.bind(ct, axes=axes)])
ad.deflinear2(
    vary_unreduced_cast_p, lambda ct, x, *, axes: [reduced_vary_cast_p.bind(ct, axes=axes)]
)
ad.deflinear2(
    reduced_vary_cast_p, lambda ct, x, *, axes: [vary_unreduced_cast_p.bind(ct, axes=axes)]
)
