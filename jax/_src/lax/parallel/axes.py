"""The named axes of collectives: their sizes, their groups of indices, and the types of results."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core
from jax._src.core import NamedAxisEffect, Primitive, ShapedArray
from jax._src.core.manual_axis_type import ManualAxisType, empty_mat
from jax._src.interpreters import batching
from jax._src.late_binding import late
from jax._src.lax import lax, slicing

_check_vma = config.check_vma
_context_mesh = config.abstract_mesh_context_manager


def as_axes(axis_name: Any) -> tuple[Any, ...]:
    """The names (and positions) of a collective's argument `axis_name`."""
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def distinct_axes(name: str, axis_name: Any) -> tuple[Any, ...]:
    """`as_axes` for collective `name`.

    Raises:
      ValueError: an axis is named twice.
    """
    axes = as_axes(axis_name)
    if len(axes) > 1 and len(set(axes)) < len(axes):
        twice = next(a for i, a in enumerate(axes) if a in axes[:i])
        raise ValueError(
            f"{name} over axes {axes} names axis {twice!r} twice (a repeated axis): name each axis once."
        )
    return axes


def axis_size(axis_name: Any) -> int:
    """Return the size of a named axis, or the product of the sizes of several.

    Args:
      axis_name: name of an axis that an enclosing `shard_map` or `vmap` binds, or a tuple of names.

    Returns:
      A Python int.

    Raises:
      NameError: if the axis is not bound.

    >>> print(jax.vmap(lambda x: x / jax.lax.axis_size("i"), axis_name="i")(jnp.ones(4)))
    [0.25 0.25 0.25 0.25]
    """
    env = core.get_axis_env()
    return math.prod([env.axis_size(name) for name in as_axes(axis_name)])


def manual_axes(axes: Sequence[Any]) -> tuple[Any, ...]:
    """Those of `axes` over which types say whether values vary.

    They are the manual axes of the mesh inside of `shard_map` with `check_vma=True`. An axis of
    `vmap` is not among them: its values are batched, or else the same for all its indices.
    """
    if not _check_vma.value:
        return ()
    mesh = _context_mesh.value
    if mesh is None:
        return ()
    manual = mesh.manual_axes
    if shadowed := core.get_axis_env().vmap_axis_names:
        manual = tuple([a for a in manual if a not in shadowed])
    for a in axes:
        if a not in manual:
            return tuple([a for a in axes if a in manual])
    return axes if type(axes) is tuple else tuple(axes)


def has_roles(x: ShapedArray) -> bool:
    """Whether the type `x` says how values vary over manual axes.

    Types without `check_vma` do not, and neither do those that lowering sees.
    """
    return _check_vma.value or x.manual_axis_type is not empty_mat


def check_groups(axis_index_groups: Any, axes: Sequence[Any], name: str, equal: bool = True) -> Any:
    """Check the groups of indices of a collective over `axes`; return tuples, or None.

    Args:
      equal: whether groups must have equal sizes.
    """
    if axis_index_groups is None:
        return None
    size = axis_size(axes)
    groups = tuple(
        [tuple([as_index(name, "axis_index_groups", i) for i in g]) for g in axis_index_groups]
    )
    if sorted(i for g in groups for i in g) != list(range(size)):
        raise ValueError(
            f"{name}: axis_index_groups must cover all indices exactly once, that is 0 to {size - 1} "
            f"for axis {show_axes(axes)} of size {size}, got {groups}"
        )
    if equal and len({len(g) for g in groups}) > 1:
        raise ValueError(f"{name}: axis_index_groups must all have the same size, got {groups}")
    return groups


def axes_and_groups(
    name: str, axis_name: Any, axis_index_groups: Any
) -> tuple[tuple[Any, ...], Any, int]:
    """The axes, the groups and the number of participants of a collective with equal groups."""
    axes = distinct_axes(name, axis_name)
    groups = check_groups(axis_index_groups, axes, name)
    return axes, groups, group_size(axes, groups)


def show_axes(axes: Sequence[Any]) -> str:
    return repr(axes[0]) if len(axes) == 1 else repr(tuple(axes))


def group_size(axes: Sequence[Any], groups: Any) -> int:
    return axis_size(axes) if groups is None else len(groups[0])


def as_index(name: str, argument: str, i: Any) -> int:
    """An index along an axis that an argument of a collective names, as a Python int."""
    try:
        return operator.index(i)
    except TypeError:
        raise TypeError(
            f"{name}: {argument} must consist of integers, got {i!r} of type {type(i)}"
        ) from None


def dimension(
    name: str, argument: str, axis: Any, shape: Sequence[int], error: type[Exception] = IndexError
) -> int:
    """The nonnegative dimension that an argument of a collective names.

    Raises:
      error: an operand of this shape does not have it.
    """
    i, ndim = operator.index(axis), len(shape)
    if not -ndim <= i < ndim:
        has = f"has dimensions 0 to {ndim - 1}" if ndim else "has no dimensions"
        raise error(
            f"{name}: {argument}={axis} is out of range for an operand of shape {tuple(shape)}, which "
            f"{has}"
        )
    return i % ndim


# ---------------------------------------------------------------------------------------------------
# Primitives and their types


def collective(name: str, types: Callable[..., Any]) -> Primitive:
    """Define a collective primitive, by the rule `(*avals, **params)` -> result type and effects."""
    p = Primitive(name)
    p.def_effectful_abstract_eval(types)
    p.def_impl(_unbound(p))
    return p


def _unbound(primitive: Primitive) -> Callable[..., Any]:
    """Return the `impl` of a collective, which raises because its axis is unbound."""

    def impl(*args, **params):
        names = params["axes"] if "axes" in params else params["axis_name"]
        axis_size(names)
        raise NameError(
            f"unbound axis name: {names}. '{primitive.name}' needs an enclosing vmap or shard_map"
        )

    return impl


def effects(axes: Sequence[Any]) -> frozenset[NamedAxisEffect]:
    return frozenset([NamedAxisEffect(a) for a in axes])


def split_axes(axis_name: Any) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The names, and the positions of dimensions, of a reduction's argument `axis_name`."""
    if type(axis_name) is str:
        return (axis_name,), ()
    axes = distinct_axes("a reduction", axis_name)
    positions = tuple([a for a in axes if isinstance(a, int)])
    return (tuple([a for a in axes if not isinstance(a, int)]) if positions else axes), positions


def check_operand(name: str, x: Any, axes: Sequence[Any]) -> None:
    """Check the type of a collective's operand, and that its axes are bound."""
    if not isinstance(x, ShapedArray):
        raise TypeError(f"{name} takes arrays, got an operand of type {x}")
    axis_size(axes)


def check_varies(name: str, x: ShapedArray, axes: Sequence[Any]) -> ManualAxisType:
    """Check that an operand varies over the manual axes among `axes`; return how it varies."""
    mat = x.manual_axis_type
    if missing := [a for a in manual_axes(axes) if a not in mat.varying]:
        raise ValueError(
            f"{name} over axis {show_axes(axes)} takes an operand that varies over it, got "
            f"{x.str_short()}, which does not vary over {show_axes(missing)}. Mark it with "
            f"`jax.lax.pcast(x, {show_axes(missing)}, to='varying')`."
        )
    return mat


def with_roles(mat: ManualAxisType, **roles: frozenset) -> ManualAxisType:
    new = mat.update(**roles)
    return new if new else empty_mat


def same_variation(name: str, x: ShapedArray, axes: Sequence[Any]) -> ManualAxisType:
    """The type over manual axes of a result that varies like the operand."""
    return check_varies(name, x, axes)


def no_variation(name: str, x: ShapedArray, axes: Sequence[Any]) -> ManualAxisType:
    """The type over manual axes of a result that is equal for all indices of `axes`."""
    mat = check_varies(name, x, axes)
    return with_roles(mat, varying=mat.varying.difference(axes)) if mat.varying else mat


def recast(
    name: str, x: ShapedArray, axes: Sequence[Any], have: str, become: str
) -> ManualAxisType:
    """The type over manual axes of a result with the role `become` for `axes`.

    Raises:
      ValueError: the operand does not have the role `have` for them.
    """
    mat = x.manual_axis_type
    if not has_roles(x):
        return mat
    roles = getattr(mat, have)
    if not roles.issuperset(axes):
        raise ValueError(
            f"{name} takes an operand that is {have} over {show_axes(axes)}, in shard_map with "
            f"check_vma=True; got {x.str_short()}"
        )
    new = {have: roles.difference(axes)}
    if become != "invarying":
        new[become] = getattr(mat, become).union(axes)
    return with_roles(mat, **new)


def common_role(name: str, x: Any, axes: tuple) -> str:
    """The role that `x` has for all manual axes in `axes`."""
    aval: Any = core.typeof(x)
    mat = aval.manual_axis_type
    if mat.varying.issuperset(axes):
        return "varying"
    roles = {
        "varying" if a in mat.varying
        else "unreduced" if a in mat.unreduced
        else "reduced" if a in mat.reduced
        else "invarying"
        for a in axes
    }  # fmt: skip
    if len(roles) > 1:
        raise ValueError(
            f"{name} over axes {show_axes(axes)} takes an operand with the same role for all of them, "
            f"got {aval.str_short()}, which is {' and '.join(sorted(roles))}. Use one {name} for each "
            f"role, or make the operand vary with `jax.lax.pcast(x, axis_name, to='varying')`."
        )
    return roles.pop() if roles else "invarying"


def entries(x: ShapedArray) -> list[Any]:
    """The mesh axes over which each dimension is sharded, on a mesh that is manual only in part."""
    return list(x._sharding.spec.partitions) if x._sharding is not None else [None] * x.ndim


def with_dims(
    x: ShapedArray, shape: Sequence[int], spec: Sequence[Any], mat: ManualAxisType
) -> ShapedArray:
    """The type `x` with other dimensions, given with their `entries`, and other manual roles."""
    sharding = x._sharding
    if sharding is not None:
        sharding = sharding.update(spec=sharding.spec.update(partitions=tuple(spec)))
    return x.update(shape=tuple(shape), sharding=sharding, manual_axis_type=mat)


def varying_over(name: str, x: Any, axes: Sequence[Any]) -> Any:
    """Make the operand of collective `name` vary over the manual axes among `axes`."""
    manual = manual_axes(axes)
    if not manual:
        return x
    aval: Any = core.typeof(x)
    mat = aval.manual_axis_type
    missing = tuple([a for a in manual if a not in mat.varying])
    if not missing:
        return x
    for role, has, remedy in (
        ("reduced", mat.reduced, "make it vary with `jax.lax.pcast(x, axis_name, to='varying')`"),
        ("unreduced", mat.unreduced, "sum it with `jax.lax.psum(x, axis_name)`"),
    ):
        if has.intersection(missing):
            raise ValueError(
                f"{name} over axis {show_axes(axes)} does not take an operand that is {role} over it, "
                f"got {aval.str_short()}: {remedy}."
            )
    return late.pvary(x, missing) if config.auto_pcast.value else x


# ---------------------------------------------------------------------------------------------------
# Batches


def gather_rows(x: Any, rows: Any) -> Any:
    """Return the slices of `x` along dimension 0 at `rows`, a vector of indices in bounds."""
    dnums = slicing.GatherDimensionNumbers(
        offset_dims=tuple(range(1, x.ndim)), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    rows = (
        np.asarray(rows, np.int32)[:, None]
        if isinstance(rows, np.ndarray)
        else lax.expand_dims(rows, (1,))
    )
    return slicing.gather(
        x, rows, dnums, (1, *x.shape[1:]), mode=slicing.GatherScatterMode.PROMISE_IN_BOUNDS
    )


def places(groups: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """For each index along an axis: the number of its group, and its position in the group."""
    group, position = np.empty((2, sum(map(len, groups))), np.int32)
    for i, g in enumerate(groups):
        group[list(g)], position[list(g)] = i, range(len(g))
    return group, position


def reduce_groups(reduce: Callable[..., Any], x: Any, groups: Sequence[Sequence[int]]) -> Any:
    """Reduce within groups of indices of dimension 0; the result has a row for each group."""
    rows = gather_rows(x, np.array([i for g in groups for i in g]))
    size = len(groups[0])
    if all(len(g) == size for g in groups):
        return reduce(lax.reshape(rows, (len(groups), size, *x.shape[1:])), (1,))
    ends = np.cumsum([len(g) for g in groups])
    pieces = [
        slicing.slice_in_dim(rows, int(e) - len(g), int(e), axis=0) for g, e in zip(groups, ends)
    ]
    return lax.concatenate([lax.expand_dims(reduce(p, (0,)), (0,)) for p in pieces], 0)


def split_dim(x: Any, dim: int, sizes: Sequence[int]) -> Any:
    """Split dimension `dim` into dimensions of `sizes` (the last one may be -1)."""
    shape = x.shape
    return lax.reshape(x, (*shape[:dim], *_complete(shape[dim], sizes), *shape[dim + 1 :]))


def _complete(size: int, sizes: Sequence[int]) -> list[int]:
    known = math.prod(s for s in sizes if s != -1)
    return [size // known if s == -1 else s for s in sizes]


def merge_dims(x: Any, dim: int, count: int = 2) -> Any:
    """Merge `count` dimensions from `dim` on."""
    shape = x.shape
    merged = math.prod(shape[dim : dim + count])
    return lax.reshape(x, (*shape[:dim], merged, *shape[dim + count :]))


def around(axes: Sequence[Any], name: Any) -> tuple[int, int, tuple[Any, ...]]:
    """The sizes of the axes before and after `name` in `axes`, and the axes without it."""
    i = axes.index(name)
    before, after = axes[:i], axes[i + 1 :]
    return axis_size(before), axis_size(after), (*before, *after)


def with_mesh_axes(axis_data: Any, axes: Sequence[Any]) -> tuple[Any, ...]:
    """`axes` with the mesh axes over which the elements of the mapped axis are divided in front of it.

    Indices along the mapped axis are row-major along the mesh axes and the elements of one device.
    """
    i = axes.index(axis_data.name)
    return (*axes[:i], *axis_data.manual_axes, *axes[i:])


def check_elements(name: str, axis_data: Any, axes: Sequence[Any], d: int | None) -> None:
    """Raise an error if a collective over other axes than the mapped one would combine its elements.

    They are on different devices along the mesh axes over which they are divided. Without
    `check_vma` the values of a body may differ between these devices anyway.
    """
    shared = [a for a in axis_data.manual_axes if a in axes]
    if d is not None and shared and _check_vma.value:
        raise ValueError(
            f"{name} over mesh axis {show_axes(shared)} in a function that is mapped by vmap with "
            f"spmd_axis_name={show_axes(axis_data.manual_axes)}: devices along this axis have different "
            "elements of the batch. Leave out spmd_axis_name; or, to combine the elements, give vmap an "
            f"axis_name and use it in {name}."
        )


def at_front(axis_data: Any, x: Any, d: int | None) -> Any:
    return batching.bdim_at_front(x, d, axis_data.size)
