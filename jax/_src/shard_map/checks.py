"""Checks of the arguments of `shard_map`, and its errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NoReturn

from jax._src import core
from jax._src.core import ShapedArray, typeof
from jax._src.errors import DuplicateSpecError
from jax._src.mesh import AbstractMesh, AxisType, Mesh, get_abstract_mesh
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map.specs import (
    entry_axes,
    explicit_spec,
    lo_specs,
    part_over,
    spec_axes,
)
from jax._src.sharding import divisibility_hint
from jax._src.tree_util import (
    keystr,
    prefix_errors,
    tree_flatten_with_path,
    tree_leaves_with_path,
)
from jax._src.util import fun_name


def check_callable(f: Any, api_name: str) -> None:
    if not callable(f):
        raise TypeError(
            f"{api_name} requires a callable for its first argument, but got {f} of type {type(f)}."
        )


# The mesh


def mesh_of_call(mesh: Any, api_name: str) -> Any:
    """The given mesh, or the one in context; they must agree."""
    context = get_abstract_mesh()
    if mesh is None:
        if context.empty and api_name == "smap":
            raise ValueError(
                "The context mesh cannot be empty, since smap takes its mesh from there. Set one with "
                "`jax.set_mesh(mesh)`."
            )
        if context.empty:
            raise ValueError(
                "The context mesh cannot be empty when shard_map is called without `mesh`. Set one with"
                " `jax.set_mesh(mesh)`, or pass `mesh` to `jax.shard_map`."
            )
        return context
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(
            "shard_map requires a `jax.sharding.Mesh` or a `jax.sharding.AbstractMesh` as `mesh`, but"
            f" got {mesh} of type {type(mesh)}."
        )
    if not context.empty and mesh.abstract_mesh != context:
        hint = ""
        if context._any_axis_manual:
            hint = " Inside a shard_map, leave out `mesh`, and name the axes in `axis_names`."
        raise ValueError(
            f"The context mesh {context} should match the mesh passed to shard_map {mesh}.{hint}"
        )
    return mesh


def manual_axes_of_call(axis_names: Any, mesh: Any, api_name: str) -> frozenset[Any]:
    """The axes that become Manual: those given, without those that are Manual already."""
    if not isinstance(axis_names, (frozenset, set)):
        raise TypeError(
            "`axis_names` argument of shard_map should be of type `frozenset` or `set`. Got type:"
            f" {type(axis_names)}"
        )
    known = frozenset(mesh.axis_names)
    if not axis_names:
        axis_names = known - core.get_axis_env().explicit_mesh_axis_names
    if not known.issuperset(axis_names):
        if api_name == "smap":
            raise ValueError(
                f"smap axis_name {next(iter(axis_names))!r} is not an axis of the mesh in context: its "
                f"axes are {_set(known)}."
            )
        raise ValueError(
            f"shard_map requires axis_names={_set(axis_names)} to be a subset of the mesh's axes "
            f"{_set(known)}."
        )
    return frozenset(axis_names) - frozenset(mesh.manual_axes)


def _set(names: Any) -> str:
    return "{" + ", ".join(sorted(map(repr, names))) + "}"


# Specs


def check_specs(name: str, specs: Any, manual_axes: frozenset[Any], mesh: Any) -> None:
    """Raise an error for leaves that are no specs, or that name other axes."""
    leaves = tree_leaves_with_path(specs)
    leaves = [
        (p, s) for p, x in leaves for s in (x.to_lo() if isinstance(x, core.HiPspec) else (x,))
    ]
    bad = [(p, x) for p, x in leaves if not isinstance(x, PartitionSpec)]
    if bad:
        where = "".join(f"\n  {name}{keystr(p)} is {x} of type {type(x).__name__}" for p, x in bad)
        raise TypeError(
            f"shard_map {name} argument must be a pytree of `jax.sharding.PartitionSpec` instances,"
            f" but:\n{where}\n\nCheck the {name} values passed to shard_map."
        )
    unknown = []
    already = set()
    for path, spec in leaves:
        names = [n for n in spec_axes(spec) if n not in manual_axes]
        names += [n for n in (*spec.unreduced, *spec.reduced) if n not in manual_axes]
        unknown += [f"\n  {name}{keystr(path)} refers to {n!r}" for n in names]
        already.update(set(names) & set(mesh.manual_axes))
    if unknown:
        hint = "the mapped axes are those in `axis_names`."
        if already:
            hint = (
                f"an enclosing shard_map maps over {_set(already)} already, so values here are shards "
                "over these axes, which cannot be split over them again: leave them out of the specs."
            )
        raise ValueError(
            f"shard_map {name} argument must refer to an axis marked as manual "
            f"({_set(manual_axes)}), but:\n{''.join(unknown)}\n\nThe mesh is {mesh}; {hint}"
        )
    for path, spec in leaves:
        axes = [*spec_axes(spec), *spec.unreduced, *spec.reduced]
        twice = [n for i, n in enumerate(axes) if n in axes[:i]]
        if twice:
            raise DuplicateSpecError(
                f"shard_map {name}{keystr(path)} is {spec}, which names mesh axis {twice[0]!r} twice:"
                " a spec has duplicate entries, but can name each mesh axis once.",
                mesh,
                spec,
            )
        for what in ("unreduced", "reduced"):
            if getattr(spec, what) and any(
                t is not AxisType.Explicit and n in getattr(spec, what)
                for n, t in zip(mesh.axis_names, mesh.axis_types)
            ):
                raise ValueError(
                    f"{what} in {name} {spec} can only be used when the mesh passed to shard_map "
                    f"contains axis names all of type `Explicit`. Got mesh {mesh}"
                )


def check_can_infer(specs: Any, manual_axes: frozenset[Any], mesh: Any) -> None:
    """Raise TypeError unless all mapped axes are Explicit."""
    types = {n: mesh._name_to_type[n] for n in mesh.axis_names if n in manual_axes}
    if all(t is AxisType.Explicit for t in types.values()):
        return
    what = "in_axes" if specs.api_name == "smap" else "in_specs"
    raise TypeError(
        f"{specs.api_name} {what} argument was not specified, so it would be inferred from the types of"
        f" the arguments, but they have no shardings over axes of type Auto: the mapped axes are "
        f"{', '.join(f'{n!r} ({t.name})' for n, t in types.items())}. Pass `{what}`."
    )


def check_axes(in_axes: Any, out_axes: Any, axis_name: Any, infer: Any) -> None:
    """Raise TypeError for arguments of `smap` of wrong types."""
    if isinstance(axis_name, (list, tuple, set, frozenset)) or not isinstance(axis_name, Hashable):
        raise TypeError(f"smap axis_name should be the name of one mesh axis, got {axis_name!r}")
    if in_axes is not infer:
        if not (in_axes is None or isinstance(in_axes, (int, tuple))) or not _all_ints(in_axes):
            raise TypeError(
                "smap in_axes must be an int, None, jax.sharding.Infer, or a tuple of entries "
                "corresponding to the positional arguments passed to the function, but got "
                f"{in_axes!r}."
            )
    if not _all_ints(out_axes):
        raise TypeError(
            "smap out_axes must be an int, None, or (nested) container with those types as leaves, but"
            f" got {out_axes!r}."
        )


def _all_ints(axes: Any) -> bool:
    return all(isinstance(x, int) for _, x in tree_leaves_with_path(axes))


def raise_not_prefix(name: str, prefix: Any, tree: Any, is_leaf: Any) -> NoReturn:
    """Raise ValueError that says where `prefix` is not a tree prefix of `tree`."""
    errors = prefix_errors(prefix, tree, is_leaf)
    what = "the tuple of arguments" if name == "in_specs" else "the result"
    raise ValueError(
        f"shard_map {name} must be a tree prefix of {what}. {errors[0](f'shard_map {name}')}"
    ) from None


# Arguments


def check_not_mutable(avals: Iterable[Any]) -> None:
    """Raise TypeError if there is a mutable value among values of these types."""
    for aval in avals:
        if aval.has_qdd:
            raise TypeError(
                f"shard_map does not divide mutable values of type {aval}: return what they would hold."
            )


def parts_of_high(specs: Any, avals: Any, names: Callable[[], Sequence[str]]) -> Any:
    """The specs, types and names of the arrays that represent values of high types, instead of them.

    Raises:
      TypeError: a value of a high type has another spec than a `HiPspec`, or an array has one; or a
        value is mutable.
    """
    if not core.high_types_in_use.value:
        return specs, avals, names
    check_not_mutable(avals)
    is_high = [isinstance(s, core.HiPspec) for s in specs]
    if not any(is_high) and not any([a.is_high and a.lo_ty() != [a] for a in avals]):
        return specs, avals, names
    types, index = [], []
    for i, (spec, aval, high) in enumerate(zip(specs, avals, is_high)):
        if high is not (aval.is_high and type(aval) is not core.AbstractRef):
            raise TypeError(
                f"shard_map was given the spec {spec} for {names()[i]} of type {aval.str_short()}: a"
                " value of a high type needs a `HiPspec`, any other a `PartitionSpec`."
            )
        parts = aval.lo_ty() if high else [aval]
        types += parts
        index += [i] * len(parts)
    return lo_specs(specs), types, lambda: [names()[i] for i in index]


def check_arguments(
    f: Callable, specs: Sequence[PartitionSpec], avals: Sequence[Any], mesh: Any,
    names: Callable[[], Sequence[str]],
) -> None:  # fmt: skip
    """Raise ValueError unless each spec fits the rank and the sizes of its argument."""
    specs, avals, names = parts_of_high(specs, avals, names)
    for i, (spec, aval) in enumerate(zip(specs, avals)):
        shape = getattr(aval, "shape", ())
        if len(spec) > len(shape):
            raise ValueError(
                f"shard_map applied to the function '{fun_name(f)}' was given an in_specs entry which is "
                f"too long to be compatible with the corresponding input value: {spec} has length "
                f"{len(spec)}, but argument {names()[i]} has type {aval.str_short()}, which has rank "
                f"{len(shape)} (and {len(shape)} < {len(spec)}). A spec has at most one entry for each "
                "dimension."
            )
        for dim, entry in enumerate(spec.partitions):
            axes = entry_axes(entry)
            if not axes:
                continue
            parts = math.prod([mesh.shape[n] for n in axes])
            if parts > 1 and shape[dim] % parts != 0:
                label = f"axis {axes[0]!r} (of size" if len(axes) == 1 else f"axes {axes} (of size"
                raise ValueError(
                    f"shard_map applied to the function '{fun_name(f)}' was given argument arrays with "
                    "axis sizes that are not evenly divisible by the corresponding mesh axis sizes: "
                    f"argument {names()[i]} of type {aval.str_short()} has the spec {spec}, which maps "
                    f"its dimension {dim} (of size {shape[dim]}) to mesh {label} {parts}), but "
                    f"{parts} does not evenly divide {shape[dim]}. The mesh has shape "
                    f"{dict(mesh.shape)}. Pad the argument, or choose another spec or mesh"
                    f"{divisibility_hint(shape[dim], parts)}."
                )


def check_explicit(
    specs: Sequence[PartitionSpec], avals: Sequence[Any], mesh: Any, manual_axes: frozenset[Any],
    names: Callable[[], Sequence[str]],
) -> None:  # fmt: skip
    """Raise ValueError unless specs agree with the types, if all axes are Explicit and mapped.

    On other meshes, arguments get the shardings that the specs ask for.
    """
    explicit = frozenset(mesh.explicit_axes)
    if not explicit or explicit & manual_axes != frozenset(mesh.axis_names):
        return
    for i, (spec, aval) in enumerate(zip(specs, avals)):
        if not isinstance(aval, ShapedArray):
            continue
        has, asked = explicit_spec(aval, explicit), part_over(spec, explicit, aval.ndim)
        if has != asked:
            raise ValueError(
                f"in_specs passed to shard_map: {asked} does not match the specs of the input: {has} for"
                f" arg: {aval.str_short()}, argument {names()[i]}. Leave out `in_specs`, so that they are"
                " those of the arguments, or change the argument's sharding before the call with "
                "`jax.sharding.reshard`."
            )


def check_devices(f: Callable, args: Sequence[Any], mesh: Any, names: Callable[[], Any]) -> None:
    """Raise ValueError if an array is committed to other devices than those of the mesh."""
    if not isinstance(mesh, Mesh):
        return
    devices = tuple(mesh.devices.flat)
    for i, x in enumerate(args):
        if getattr(x, "_committed", False) and tuple(x.sharding._device_assignment) != devices:
            ids = [d.id for d in x.sharding._device_assignment]
            raise ValueError(
                f"Received incompatible devices: argument {names()[i]} of type {typeof(x).str_short()},"
                f" given to the shard_map of '{fun_name(f)}', is on devices with ids {ids}, and the mesh"
                f" has those with ids {[d.id for d in devices]}. Move it with jax.device_put."
            ) from None


# Results


def types_of_results(f: Callable, outs: Sequence[Any], result: Any) -> list[Any]:
    avals = []
    for i, x in enumerate(outs):
        try:
            avals.append(typeof(x))
        except TypeError:
            raise TypeError(
                f"{path_of_result(f, result, i)}, a result of the function that shard_map maps, is {x!r} of type "
                f"{type(x)}, which is not a valid JAX type: return arrays, numbers or pytrees of them."
            ) from None
        if type(avals[-1]) is core.AbstractRef:
            raise ValueError(
                f"{path_of_result(f, result, i)}, a result of the function that shard_map maps, is a "
                f"mutable array reference of type {avals[-1].str_short()}, but mutable array references "
                "cannot be returned. Return what it holds (ref[...], or jax.freeze(ref) of one made "
                "inside)."
            )
    return avals


def path_of_result(f: Callable, result: Any, i: int) -> str:
    path, _ = tree_flatten_with_path(result)[0][i]
    return f"{fun_name(f)}(*args){keystr(path)}"


def _check_reduction(
    spec: PartitionSpec, aval: ShapedArray, manual_axes: frozenset[Any], where: Callable[[], str]
) -> None:
    """Raise ValueError unless a spec tells over which axes a result is unreduced or reduced."""
    mat = aval.manual_axis_type
    extra = (mat.unreduced & manual_axes).difference(spec.unreduced)
    if extra:
        raise ValueError(
            f"{where()} of type {aval.str_short()} is unreduced over mesh axes {_set(extra)}, but its "
            f"spec in out_specs is {spec}. Sum it with `jax.lax.psum`, or name these axes in the "
            "`unreduced` of the spec."
        )
    extra = (mat.reduced & manual_axes).difference(spec.reduced, spec_axes(spec))
    if extra:
        raise ValueError(
            f"{where()} of type {aval.str_short()} is reduced over mesh axes {_set(extra)}, but its spec"
            f" in out_specs is {spec}. Name these axes in the `reduced` of the spec."
        )
    extra = spec.reduced - mat.reduced
    if extra:
        raise ValueError(
            f"{where()} of type {aval.str_short()} is not reduced over mesh axes {_set(extra)}, but its "
            f"spec in out_specs is {spec}. Leave these axes out of the `reduced` of the spec, or apply "
            f"`jax.lax.pcast(..., {tuple(sorted(extra, key=str))}, to='reduced')`."
        )


def check_results(
    f: Callable, specs: Sequence[PartitionSpec], avals: Sequence[Any], result: Any, mesh: Any,
    manual_axes: frozenset[Any], check_vma: bool, api_name: str,
) -> None:  # fmt: skip
    """Raise ValueError unless each spec fits the rank of its result, and names the axes it varies over."""
    where = lambda: [path_of_result(f, result, i) for i in range(len(given))]
    given = avals
    specs, avals, where = parts_of_high(specs, avals, where)
    for i, (spec, aval) in enumerate(zip(specs, avals)):
        shape = getattr(aval, "shape", ())
        if len(spec) > len(shape):
            hint = ""
            if not shape:
                hint = (
                    " For a scalar that is the same on all devices use `P()`; give one that differs a "
                    "dimension of size 1 (`x[None]`), along which the devices' values are concatenated."
                )
            raise ValueError(
                f"shard_map applied to the function '{fun_name(f)}' was given an out_specs entry which is"
                f" too long to be compatible with the corresponding output value: {spec} has length "
                f"{len(spec)}, but {where()[i]} has type {aval.str_short()}, which has rank "
                f"{len(shape)} (and {len(shape)} < {len(spec)}).{hint}"
            )
    if not check_vma:
        return
    lines = []
    for i, (spec, aval) in enumerate(zip(specs, avals)):
        if not isinstance(aval, ShapedArray):
            continue
        if aval.manual_axis_type or spec.reduced:
            _check_reduction(spec, aval, manual_axes, lambda i=i: where()[i])
        extra = (aval.vma & manual_axes).difference(spec_axes(spec), spec.unreduced)
        if extra:
            lines.append(
                f"\n  {where()[i]} of type {aval.str_short()} has the spec {spec}, which implies"
                f" that it is replicated across mesh axes {_set(extra)}, but it was inferred to be "
                f"possibly varying over {_set(aval.vma & manual_axes)}"
            )
    if lines:
        if api_name == "smap":
            what = "out_axes"
            differ, unchecked = (
                "give out_axes an integer",
                "use `jax.shard_map` with check_vma=False",
            )
        else:
            what = "out_specs"
            differ, unchecked = (
                "name these axes in out_specs",
                "pass check_vma=False to `jax.shard_map`",
            )
        raise ValueError(
            f"{api_name} applied to the function '{fun_name(f)}' was given {what} which require "
            "replication which can't be statically inferred given the mesh of shape "
            f"{dict(mesh.shape)}:\n{''.join(lines)}\n\nIf the shards differ, {differ}. If they should "
            "be equal, combine them, for example with `jax.lax.psum`. If they are equal but this cannot"
            f" be inferred, {unchecked}."
        )


# Batches


def check_spmd_axes(names: Sequence[Any], params: dict[str, Any], size: int) -> None:
    """Raise ValueError unless a batch of this size can be sharded over the mesh axes `names`."""
    mesh = params["mesh"]
    for n in names:
        if n not in mesh.shape:
            raise ValueError(
                f"vmap spmd_axis_name {n!r} is not an axis of the shard_map's mesh {mesh}"
            )
        for kind in ("in_specs", "out_specs"):
            used = [s for s in params[kind] if n in spec_axes(s)]
            if used:
                raise ValueError(
                    f"vmap spmd_axis_name {n!r} cannot appear in shard_map {kind}, but is in {used[0]}: the"
                    " mesh axis can shard only one of the batch and the other dimensions."
                )
    parts = math.prod([mesh.shape[n] for n in names])
    if size % parts:
        raise ValueError(
            f"vmap over an axis of size {size} with spmd_axis_name {tuple(names)}: the size must be "
            f"divisible by that of the mesh axes, {parts}."
        )
