"""Operations that change or constrain shardings: `reshard` and `with_sharding_constraint`."""

from __future__ import annotations

from typing import Any

from jax._src import core, dispatch
from jax._src.array_impl import ArrayImpl, aval_with_sharding
from jax._src.core.printing import default_pp_eqn
from jax._src.device_put import values as placing
from jax._src.device_put.functions import device_put
from jax._src.errors import DuplicateSpecError
from jax._src.interpreters import ad, mlir
from jax._src.interpreters.mlir.shardings import needs_no_shardings
from jax._src.late_binding import late
from jax._src.layout import Format, Layout, get_layout_for_vmap
from jax._src.lib import Device
from jax._src.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    empty_concrete_mesh,
    get_abstract_mesh,
    get_concrete_mesh,
    thread_resources,
)
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding
from jax._src.sharding_impls import (
    SingleDeviceSharding,
    UnspecifiedValue,
    batched_sharding,
    canonicalize_sharding,
    prepare_axis_resources,
    sharding_of_shape,
)
from jax._src.tree_util import broadcast_prefix, prefix_errors, tree_flatten

# reshard: changes the sharding over Explicit mesh axes, which is part of a value's type.


def reshard(xs: Any, out_shardings: Any) -> Any:
    """Change the shardings of arrays over Explicit mesh axes.

    Args:
      xs: a pytree of arrays.
      out_shardings: a pytree prefix of ``xs`` with :class:`jax.P` (over the mesh of
        :func:`jax.set_mesh`) or :class:`jax.NamedSharding` leaves.

    Returns:
      Arrays with the same elements; their types (:func:`jax.typeof`) have the new shardings.

    Raises:
      TypeError: if a leaf of ``out_shardings`` is something else.
      ValueError: if a leaf is None or names axes that are not Explicit, a dimension does not divide
        evenly, or there is no mesh for a :class:`jax.P`.

    Example:
      >>> import jax
      >>> with jax.set_mesh(jax.make_mesh((1,), ("x",))):
      ...   print(jax.typeof(jax.sharding.reshard(jax.numpy.arange(4.0), jax.P("x"))))
      float32[4@x]
    """
    leaves, treedef = tree_flatten(xs)
    shardings = _broadcast("reshard out_shardings", out_shardings, xs)
    return treedef.unflatten([_reshard(x, s, "reshard") for x, s in zip(leaves, shardings)])


def _reshard(x, sharding, name):
    if sharding is None:
        raise ValueError(
            "Reshard should only be used with out_shardings which are non-None and have a non-empty"
            " mesh. Got sharding None."
        )
    destination = canonicalize_sharding(sharding, name, check_mesh_consistency=False)
    aval = core.typeof(x)
    destination = sharding_of_shape(destination, aval.shape)
    mesh = sharding.mesh if isinstance(sharding, NamedSharding) else None
    if isinstance(mesh, AbstractMesh):
        mesh = None
    return bind_reshard(x, destination, mesh)


def bind_reshard(x: Any, destination: NamedSharding, concrete_mesh: Any = None) -> Any:
    """Bind `reshard_p` with a `destination` over an abstract mesh."""
    return reshard_p.bind(x, dst_sharding=destination, concrete_mesh=concrete_mesh)


reshard_p = core.Primitive("reshard")


@reshard_p.def_abstract_eval
def _reshard_abstract_eval(aval, *, dst_sharding, concrete_mesh):
    return aval_with_sharding(aval.update(sharding=None), dst_sharding)


@reshard_p.def_impl
def _reshard_impl(x, *, dst_sharding, concrete_mesh):
    aval = core.typeof(x)
    out_aval = _reshard_abstract_eval(aval, dst_sharding=dst_sharding, concrete_mesh=concrete_mesh)
    mesh = dst_sharding.mesh
    source = x._sharding if type(x) is ArrayImpl else None
    if type(source) is NamedSharding and source.mesh.shape_tuple == mesh.shape_tuple:
        # If only the types of the mesh's axes change, the shards stay where they are.
        spec = source.spec.update(reduced=frozenset())._normalized_spec_for_aval(aval.ndim)
        if source.spec.unreduced != dst_sharding.spec.unreduced:
            spec = PartitionSpec()
        if not mesh._any_axis_explicit:
            spec = _without_trailing_nones(spec)
        cast = NamedSharding(
            source.mesh.update(axis_types=mesh.axis_types), spec, memory_kind=source.memory_kind
        )
        if (
            source.spec.unreduced == dst_sharding.spec.unreduced
            and aval_with_sharding(aval.update(sharding=None), cast) == out_aval
        ):
            return x._rewrap_with_aval_and_sharding(out_aval, cast)
    if not mesh._any_axis_explicit:
        return _anyhow_on(mesh, x, concrete_mesh)
    if mesh._any_axis_auto:
        concrete = concrete_mesh if concrete_mesh is not None else _concrete_mesh(mesh)
        spec = dst_sharding.spec._normalized_spec_for_aval(aval.ndim)
        sharding = NamedSharding(concrete.update(axis_types=mesh.axis_types), spec)
        return placing.device_put_value(x, sharding, placing.REUSE)
    return dispatch.apply_primitive(
        reshard_p, x, dst_sharding=dst_sharding, concrete_mesh=concrete_mesh
    )


def _anyhow_on(mesh, x, concrete_mesh):
    """Put `x` on the devices of a mesh without Explicit axes, unless it is already there."""
    concrete = get_concrete_mesh() if concrete_mesh is None else concrete_mesh
    committed = type(x) is ArrayImpl and x._committed
    if committed and x._sharding.num_devices > 1:
        return x
    if concrete.empty or concrete.shape_tuple != mesh.shape_tuple:
        return placing.device_put_value(x, None, placing.REUSE)
    if committed and concrete.size > 1:
        raise ValueError(
            "Received incompatible devices for reshard: the array is on device"
            f" {[d.id for d in x._sharding.device_set]}, the mesh in context on devices"
            f" {sorted(d.id for d in concrete.devices.flat)}. Use jax.device_put to move it."
        )
    sharding = NamedSharding(concrete.update(axis_types=mesh.axis_types), PartitionSpec())
    return placing.device_put_value(x, sharding, placing.REUSE)


def _without_trailing_nones(spec):
    entries = list(spec.partitions)
    while entries and entries[-1] is None:
        entries.pop()
    return spec.update(partitions=tuple(entries))


def _concrete_mesh(abstract_mesh):
    mesh = get_concrete_mesh()
    if mesh.empty or mesh.shape_tuple != abstract_mesh.shape_tuple:
        raise ValueError(
            f"There are no devices for the mesh {abstract_mesh}. Set a mesh of its shape with"
            " jax.set_mesh, or give a NamedSharding over a concrete mesh."
        )
    return mesh


def _reshard_transpose(ct, x, *, dst_sharding, concrete_mesh):
    source = x.aval.to_ct_aval()._sharding
    if source is None:
        source = NamedSharding(_all_auto(dst_sharding.mesh), PartitionSpec())
    else:
        source = NamedSharding(source.mesh, source.spec)
    return [bind_reshard(ct, source, concrete_mesh)]


def _all_auto(mesh):
    return mesh.update(axis_types=(AxisType.Auto,) * len(mesh.axis_types))


def _reshard_batch(axis_data, args, dims, *, dst_sharding, concrete_mesh):
    (x,), (dim,) = args, dims
    aval = core.typeof(x)
    entry = axis_data.explicit_mesh_axis
    if entry is None and aval._sharding is not None:
        entry = aval._sharding.spec.partitions[dim]
    entries = dst_sharding.spec._normalized_spec_for_aval(aval.ndim - 1).partitions
    spec = dst_sharding.spec.update(partitions=(*entries[:dim], entry, *entries[dim:]))
    return bind_reshard(x, NamedSharding(dst_sharding.mesh, spec), concrete_mesh), dim


def _reshard_lower(ctx, x, *, dst_sharding, concrete_mesh):
    (aval,) = ctx.avals_in
    source = aval._sharding
    if source is not None and source.mesh == dst_sharding.mesh:
        before, after = source.spec.unreduced, dst_sharding.spec.unreduced
        if before - after and after - before:
            # XLA aborts if a single operation adds up summands over some axes and creates them over
            # others, so add them up first.
            taken = source.update(spec=source.spec.update(unreduced=before & after))
            x = mlir.lower_with_sharding_in_types(ctx, x, aval.update(sharding=taken))
    return [mlir.lower_with_sharding_in_types(ctx, x, ctx.avals_out[0])]


late.reshard = bind_reshard
ad.deflinear2(reshard_p, _reshard_transpose)
reshard_p.axis_batch = _reshard_batch
mlir.register_lowering(reshard_p, _reshard_lower)
# The result's type shows the sharding, so the parameters need not be printed.
reshard_p.pp = lambda eqn, context, settings: default_pp_eqn(eqn, context, settings, params=[])


# with_sharding_constraint: tells the compiler how to shard over Auto mesh axes.


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Constrain how the compiler shards values inside ``jax.jit``.

    It is a constraint over Auto mesh axes, for the value and for its cotangent. If all axes of the
    mesh are Explicit, it asserts that the values already have these shardings.

    Args:
      x: a pytree of arrays.
      shardings: a pytree prefix of ``x`` whose leaves are :class:`jax.sharding.Sharding`,
        :class:`jax.P` (over the mesh of :func:`jax.set_mesh`) or ``Format`` objects. With a mesh in
        context, None is ``P()``: not split.

    Returns:
      Arrays with the same elements.

    Raises:
      TypeError: if a leaf of ``shardings`` is something else.
      ValueError: if a leaf is None without a mesh, needs a higher rank, or names axes that are not Auto; outside
        of ``jax.jit`` also if it does not divide a dimension evenly, or if the array is committed
        to other devices.
      RuntimeError: if there is no mesh for a :class:`jax.P`.
      AssertionError: if all axes are Explicit, and a value has another sharding.

    Example:
      >>> import jax
      >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ("x",))
      >>> sharding = jax.NamedSharding(mesh, jax.P("x"))
      >>> f = jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, sharding))
      >>> f(jax.numpy.arange(4.0)).shape
      (4,)
    """
    name = "with_sharding_constraint"
    leaves, treedef = tree_flatten(x)
    layouts, given = [], []
    has_mesh = not (get_abstract_mesh().empty and thread_resources.env.physical_mesh.empty)
    for s in _broadcast(f"{name} shardings", shardings, x):
        layout, s = _split_format(PartitionSpec() if s is None and has_mesh else s)
        layouts.append(layout)
        given.append(s)
    given = prepare_axis_resources(given, "shardings", allow_unconstrained_dims=True)
    return treedef.unflatten(
        [_constrain(*args, name, "shardings") for args in zip(leaves, given, layouts, strict=True)]
    )


def _split_format(s):
    return (s.layout, s.sharding) if isinstance(s, Format) else (None, s)


def _constrain(x, sharding, layout, name, argument):
    if sharding is None or isinstance(sharding, UnspecifiedValue):
        raise ValueError(
            f"One of {name} arguments got sharding {sharding} which is not allowed. Please only pass"
            " `jax.sharding.Sharding` instances."
        )
    context_mesh = get_abstract_mesh()
    if isinstance(sharding, PartitionSpec):
        mesh: Mesh | AbstractMesh = context_mesh
        if mesh.empty:
            mesh = thread_resources.env.physical_mesh  # the mesh of `with mesh:`
        if mesh.empty:
            raise RuntimeError(
                f"{name} requires a non-empty mesh in context if you are passing `PartitionSpec`s to"
                f" {argument}. You can define a context mesh via `jax.set_mesh(mesh)`. Alternatively,"
                f" provide `Sharding`s to {argument}: then no mesh in context is needed."
            )
        sharding = NamedSharding(mesh, sharding)
    aval = core.typeof(x)
    try:
        sharding.check_compatible_aval(aval.shape)
    except ValueError as e:
        raise ValueError(
            f"One of {name} arguments is incompatible with its sharding annotation {sharding}: {e}"
        ) from e
    if isinstance(layout, Layout):
        layout.check_compatible_aval(aval.shape)
    unconstrained = frozenset()
    if isinstance(sharding, NamedSharding):
        mesh, spec = sharding.mesh, sharding.spec
        if mesh.are_all_axes_explicit and mesh.abstract_mesh is context_mesh:
            return _assert_sharding(x, aval, spec)
        _refuse_mapped_axes(name, spec, context_mesh, "Auto")
        for axis in _axes_of(spec):
            if mesh._name_to_type.get(axis, AxisType.Auto) is not AxisType.Auto:
                raise ValueError(
                    f"The spec of NamedSharding passed to {name} can only refer to Auto axes of"
                    f" the mesh. Got spec={spec} and mesh={mesh.abstract_mesh}. You probably meant"
                    " to use the `jax.sharding.reshard` API."
                )
        unconstrained = frozenset(
            i for i, entry in enumerate(spec.partitions) if entry is PartitionSpec.UNCONSTRAINED
        )
    return sharding_constraint_p.bind(
        x,
        sharding=sharding,
        layout=layout,
        context_mesh=empty_concrete_mesh if context_mesh.empty else context_mesh,
        unconstrained_dims=unconstrained,
    )


def _axes_of(spec):
    for entry in spec.partitions:
        yield from entry if isinstance(entry, tuple) else (entry,)


def _refuse_mapped_axes(name, spec, context_mesh, kind):
    for axis in _axes_of(spec):
        if axis in context_mesh.manual_axes:
            raise ValueError(
                f"The spec of NamedSharding passed to {name} can only refer to {kind} axes of the"
                f" mesh. Got spec={spec}, but a shard_map around it maps over the axis {axis!r}:"
                " values there are shards, which cannot be split over it again. Leave it out of the"
                " spec."
            )


def _assert_sharding(x, aval, spec):
    has = aval.sharding.spec._normalized_spec_for_aval(aval.ndim)
    if has != spec._normalized_spec_for_aval(aval.ndim):
        raise AssertionError(
            "`with_sharding_constraint` acts as an assert when all axes of mesh are of type"
            f" `Explicit`. The array sharding: {has} did not match the sharding provided:"
            f" {spec._normalized_spec_for_aval(aval.ndim)}. Please use `jax.sharding.reshard` to shard"
            " your input to the sharding you want."
        )
    return x


sharding_constraint_p = core.Primitive("sharding_constraint")


@sharding_constraint_p.def_abstract_eval
def _constraint_abstract_eval(aval, *, sharding, layout, context_mesh, unconstrained_dims):
    return aval


@sharding_constraint_p.def_impl
def _constraint_impl(x, *, sharding, layout, context_mesh, unconstrained_dims):
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh
        if isinstance(mesh, AbstractMesh):
            mesh = _concrete_mesh(mesh)
        spec = sharding.spec
        if unconstrained_dims:  # any sharding of these dimensions is valid
            spec = spec._normalized_spec_for_aval(core.typeof(x).ndim)
        sharding = NamedSharding(mesh, spec, memory_kind=sharding.memory_kind)
        sharding = _with_explicit_axes(sharding, core.typeof(x))
    sharding.shard_shape(core.typeof(x).shape)  # raises an error that names the dimension
    if type(x) is ArrayImpl and x._committed:
        source = x._sharding
        if source.device_set != sharding.device_set:
            raise ValueError(
                "Received incompatible devices for with_sharding_constraint: the array is on devices"
                f" {sorted(d.id for d in source.device_set)}, the sharding {sharding} on devices"
                f" {sorted(d.id for d in sharding.device_set)}. Use jax.device_put to move it."
            )
        if layout is None and source.is_equivalent_to(sharding, x.ndim):
            return x
    target = sharding if layout is None else Format(layout, sharding)
    return placing.device_put_value(x, target, placing.REUSE)


def _constraint_lower(ctx, x, *, sharding, layout, context_mesh, unconstrained_dims):
    (aval,) = ctx.avals_out
    out = x
    if not isinstance(sharding, SingleDeviceSharding) and not needs_no_shardings(
        ctx.module_context
    ):
        sharding = _with_explicit_axes(sharding, aval)
        ir_sharding = mlir.to_ir_sharding(aval, sharding)
        out = mlir.wrap_with_sharding_op(ctx, out, aval, ir_sharding, set(unconstrained_dims))
    if layout is not None:
        out = mlir.wrap_with_layout_op(ctx, out, aval, layout, aval)
    return [out]


def _with_explicit_axes(sharding, aval):
    """Combine the constraint with the sharding over Explicit axes that is part of the type."""
    typed = aval._sharding
    if typed is None or not isinstance(sharding, NamedSharding):
        return sharding
    if typed.mesh is not sharding.mesh.abstract_mesh:
        return sharding
    entries = []
    unconstrained = PartitionSpec.UNCONSTRAINED
    given = sharding.spec.partitions + (None,) * (aval.ndim - len(sharding.spec))
    for ours, theirs in zip(typed.spec.partitions, given, strict=True):
        if ours is None or theirs is None or theirs is unconstrained:
            entries.append(theirs if ours is None else ours)
        else:
            both = [*(ours if isinstance(ours, tuple) else (ours,))]
            both += theirs if isinstance(theirs, tuple) else (theirs,)
            entries.append(tuple(both))
    return sharding.update(spec=sharding.spec.update(partitions=entries))


def _constraint_batch(axis_data, args, dims, *, sharding, layout, context_mesh, unconstrained_dims):
    (x,), (dim,) = args, dims
    entry = PartitionSpec.UNCONSTRAINED
    named = axis_data.spmd_name is not None or axis_data.explicit_mesh_axis is not None
    shifted = {d + (d >= dim) for d in unconstrained_dims} | (set() if named else {dim})
    if isinstance(layout, Layout):
        layout = get_layout_for_vmap(dim, layout)
    try:
        sharding = batched_sharding(sharding, dim, axis_data, entry)
    except DuplicateSpecError as err:
        # PyPI's build raises a ValueError here, and the former for shardings of jit.
        raise ValueError(err.message) from None
    out = sharding_constraint_p.bind(
        x,
        sharding=sharding,
        layout=layout,
        context_mesh=context_mesh,
        unconstrained_dims=frozenset(shifted),
    )
    return out, dim


ad.deflinear2(
    sharding_constraint_p, lambda ct, _, **params: [sharding_constraint_p.bind(ct, **params)]
)
sharding_constraint_p.axis_batch = _constraint_batch
mlir.register_lowering(sharding_constraint_p, _constraint_lower)


# Placement: implements the arguments `device` and `out_sharding` of library functions.


def place(x: Any, where: Any, name: str, may_alias: bool | None = None) -> Any:
    """Place `x` on a device or in a sharding; in a traced function, constrain its computation.

    Args:
      x: array.
      where: a device, a sharding, or a PartitionSpec over the mesh in context.
      name: the function that the user called, for errors.
      may_alias: see `device_put`; it applies to arrays that are not traced.

    Returns:
      The placed array.
    """
    if not isinstance(x, core.Tracer):
        return device_put(x, where, may_alias=may_alias)
    if isinstance(where, Device):
        where = SingleDeviceSharding(where)
    context_mesh = get_abstract_mesh()
    mesh = where.mesh if isinstance(where, NamedSharding) else context_mesh
    if isinstance(where, (NamedSharding, PartitionSpec)) and mesh._any_axis_explicit:
        if isinstance(where, NamedSharding):
            _refuse_mapped_axes(name, where.spec, context_mesh, "Explicit")
            if context_mesh.manual_axes and context_mesh.shape_tuple == mesh.shape_tuple:
                where = where.update(mesh=context_mesh)  # the same mesh, as it is in a shard_map
        if mesh is context_mesh or where.mesh._any_axis_explicit:
            return _reshard(x, where, name)
    layout, where = _split_format(where)
    (where,) = prepare_axis_resources([where], f"{name} device", allow_unconstrained_dims=True)
    return _constrain(x, where, layout, name, "device")


def _broadcast(name: str, prefix: Any, x: Any) -> list[Any]:
    """Broadcast a pytree prefix to one leaf for each leaf of `x`; None is a leaf."""

    def is_leaf(s):
        return s is None or isinstance(s, (Sharding, PartitionSpec, Format))

    try:
        return broadcast_prefix(prefix, x, is_leaf=is_leaf)
    except ValueError:
        if not (errors := prefix_errors(prefix, x, is_leaf=is_leaf)):
            raise
        details = "\n".join(str(error(name)) for error in errors)
    raise ValueError(
        f"{name} specification must be a tree prefix of the corresponding value;\n"
        f"Mismatch details ({len(errors)} found):\n{details}"
    )
