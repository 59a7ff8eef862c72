"""Choosing the devices of a program by the shardings of arguments, results and operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jax._src import core, source_info_util, xla_bridge as xb
from jax._src.array_impl import ArrayImpl, default_device
from jax._src.layout import AutoLayout
from jax._src.memory import KIND_OF_SPACE, MemorySpace
from jax._src.mesh import AbstractMesh, Mesh, get_abstract_mesh, get_concrete_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.sharding import IndivisibleError, Sharding
from jax._src.sharding_impls import UNSPECIFIED, UnspecifiedValue
from jax._src.xla_bridge.clients import distributed_state

if TYPE_CHECKING:
    from jax._src.core.avals import AbstractValue


class Placement(NamedTuple):
    """The devices on which a program runs.

    Attributes:
      devices: tuple of the devices in order; None if only their number is known (abstract meshes).
      num_devices: the number of devices.
      backend: the client; None if there are no devices.
      committed: whether the results are committed to the devices.
      mesh: a mesh of the devices, if some sharding has one.
      more_meshes: other meshes of the same devices in the program.
    """

    devices: Any
    num_devices: int
    backend: Any
    committed: bool
    mesh: Any
    more_meshes: tuple[Mesh, ...] = ()


class Source(NamedTuple):
    """A sharding and where it comes from, for error messages."""

    sharding: Any
    kind: str  # "arg", "out", "op"
    index: Any  # the index of the argument or result, or the equation


def arg_sharding(arg: object) -> Any:
    """Returns the sharding that an argument (a value or a type) is committed to, or None."""
    if isinstance(arg, ArrayImpl):
        return arg._sharding if arg._committed else None
    if isinstance(arg, (core.Tracer, core.AbstractValue)):
        return None
    sharding = getattr(arg, "sharding", None)
    if sharding is None or not isinstance(sharding, Sharding):
        return None
    return sharding if getattr(arg, "_committed", True) else None


def placement_key(args: Sequence[Any]) -> tuple[Any, ...]:
    """Returns a hashable key of the properties of `args` that determine where a program runs."""
    key: list[Any] = []
    for arg in args:
        if type(arg) is ArrayImpl:
            if arg._committed:
                key.append((arg._sharding, _custom_layout(arg)))
            else:
                key.append(None)
        elif isinstance(arg, np.ndarray) and distributed_state.client is not None:
            key.append(np.ndarray)  # unlike an array on the default device: see _check_split
        else:
            key.append(arg_sharding(arg))
    return (tuple(key), get_concrete_mesh(), get_abstract_mesh())


def _custom_layout(arg: Any) -> Any:
    return None if arg.aval.ndim < 2 else arg.format.layout


def resolve_in_shardings(
    args: Sequence[Any],
    in_shardings: Sequence[Any],
    in_avals: Sequence[Any],
    api_name: str,
    names: Callable[[], Sequence[str | None]],
) -> tuple[Any, ...]:
    """Resolves the shardings of arguments: as requested, or else as committed.

    Raises:
      ValueError: if an argument is committed to another sharding than requested, is in another memory,
        or is a NumPy array of this process that is requested to be split over several.
    """
    out = []
    for i, (arg, asked, aval) in enumerate(zip(args, in_shardings, in_avals, strict=True)):
        has = arg_sharding(arg)
        if isinstance(asked, UnspecifiedValue):
            out.append(asked if has is None else has)
            continue
        if asked is None:
            out.append(UNSPECIFIED)
            continue
        if isinstance(arg, ArrayImpl):
            _check_memory(arg, asked, aval, api_name, names, i)
        if (
            has is not None
            and isinstance(arg, ArrayImpl)
            and has is not asked
            # An array on one device may be moved to another device.
            and not (has.num_devices == 1 and asked.num_devices == 1)
            and not has.is_equivalent_to(asked, aval.ndim)
        ):
            asked.shard_shape(aval.shape)  # raises an error first if the sharding does not fit
            name = names()[i]
            raise ValueError(
                f"Sharding passed to {api_name} does not match the sharding on the respective arg. Got "
                f"{api_name} sharding: {asked},\narg sharding: {has} for arg type: "
                f"{aval.str_short()}" + (f", argument {name}." if name else ".")
            )
        if isinstance(arg, np.ndarray):
            _check_split(arg, asked, api_name, names()[i])
        out.append(asked)
    return tuple(out)


def _check_memory(
    arg: ArrayImpl,
    asked: Sharding,
    aval: Any,
    api_name: str,
    names: Callable[[], Sequence[str | None]],
    i: int,
) -> None:
    """Rejects an array in another memory than requested, whose type is that of its memory."""
    has, wanted = arg.sharding.memory_kind, asked.memory_kind
    if has == wanted or has is None or wanted is None:
        return
    name = names()[i]
    raise ValueError(
        f"Memory kinds passed to {api_name} does not match memory kind on the respective arg. Got "
        f"{api_name} memory kind: {wanted}, arg memory kind: {has} for arg type: {aval.str_short()}"
        + (f", argument {name}." if name else ".")
        + " Move it with `jax.device_put`."
    )


def _check_split(arg: np.ndarray, asked: Sharding, api_name: str, name: str | None) -> None:
    """Rejects a NumPy array that would be split over processes: is it a part, or all of the data?"""
    if (
        isinstance(asked, NamedSharding)
        and isinstance(asked.mesh, AbstractMesh)
        or asked.is_fully_addressable
        or asked.is_fully_replicated
        or xb.process_count() == 1  # the devices are those of a topology description
    ):
        return
    raise ValueError(
        "Passing non-trivial shardings for numpy inputs is not allowed where they split an array over"
        f" several processes. Got {api_name} sharding: {asked} for arg type:"
        f" {core.typeof(arg).str_short()}" + (f", argument {name}" if name else "") + ". If each"
        " process has another part of the data, make an array of them with"
        " `jax.make_array_from_process_local_data(sharding, x)`; if each has all of it, with"
        " `jax.device_put(x, sharding)`."
    )


def resolve_in_layouts(
    args: Sequence[Any],
    in_layouts: Sequence[Any],
    in_avals: Sequence[Any],
    api_name: str,
) -> tuple[Any, ...]:
    """Resolves the layouts of arguments: as requested, or else those of committed arguments.

    Raises:
      ValueError: if a committed argument has another layout than requested.
    """
    out: list[Any] = []
    for arg, asked, aval in zip(args, in_layouts, in_avals, strict=True):
        has = None
        if isinstance(arg, ArrayImpl):
            if asked is None and (not arg._committed or aval.ndim < 2):
                out.append(None)  # the default layout, or the only possible one
                continue
            has = arg.format.layout
        elif getattr(arg, "format", None) is not None and not isinstance(arg, core.Tracer):
            has = arg.format.layout
        if asked is None:
            out.append(None if has is None or _is_default(has) else has)
            continue
        if has is not None and isinstance(arg, ArrayImpl) and arg._committed:
            auto = asked is AutoLayout
            if auto or not layouts_equal(asked, has):
                extra = (
                    " The layout given to `jax.jit` is `Layout.AUTO` but the corresponding argument "
                    "passed is a `jax.Array` with a concrete layout. Consider passing a "
                    "`jax.ShapeDtypeStruct` instead of `jax.Array` as an argument to the jitted "
                    "function when using `Layout.AUTO`."
                )
                raise ValueError(
                    f"Layout passed to {api_name} does not match the layout on the respective arg. Got "
                    f"{api_name} layout: {asked},\narg layout: {has} for arg type: {aval.str_short()}."
                    + (extra if auto else "")
                )
        out.append(asked)
    return tuple(out)


def layouts_equal(asked: Any, has: Any) -> bool:
    """Whether a requested layout matches the actual one; a layout without tiling matches any."""
    if asked is None or has is None:
        return asked is has
    if asked is AutoLayout or has is AutoLayout:
        return bool(asked == has)
    return bool(
        asked.major_to_minor == has.major_to_minor
        and (asked.tiling is None or has.tiling is None or asked.tiling == has.tiling)
    )


def _is_default(layout: Any) -> bool:
    return tuple(layout.major_to_minor) == tuple(range(len(layout.major_to_minor))) and not getattr(
        layout, "sub_byte_element_size_in_bits", 0
    )


def concretize(shardings: Sequence[Any], mesh: Mesh) -> tuple[Any, ...]:
    """Replaces abstract meshes in shardings by `mesh`, if the shapes are equal."""
    if not isinstance(mesh, Mesh):
        return tuple(shardings)
    return tuple(
        s.update(mesh=mesh.update(axis_types=s.mesh.axis_types))
        if isinstance(s, NamedSharding)
        and isinstance(s.mesh, AbstractMesh)
        and s.mesh.shape_tuple == mesh.shape_tuple
        else s
        for s in shardings
    )


def check_divisible(
    shardings: Sequence[Any], avals: Sequence[Any], what: str, names: Callable[..., Any]
) -> None:
    """Raises IndivisibleError if a sharding does not split the dimensions of its value evenly."""
    for i, (s, aval) in enumerate(zip(shardings, avals, strict=True)):
        if isinstance(s, UnspecifiedValue) or not isinstance(aval, core.ShapedArray):
            continue
        try:
            s.shard_shape(aval.shape)
        except IndivisibleError as err:
            name = names()[i]
            path = f" with pytree key path {name}" if name else ""
            raise IndivisibleError(f"{err}. It is that of one of {what}{path}.") from None


# Shardings in a jaxpr

_PARAM_NAMES = (
    "sharding", "shardings", "in_shardings", "out_shardings", "out_sharding", "mesh", "concrete_mesh",
    "devices",
)  # fmt: skip
# From primitives to the names of parameters that may contain shardings, and jaxprs.
_param_names: dict[core.Primitive, tuple[tuple[str, ...], tuple[str, ...]]] = {}


def ignore_shardings_of(primitive: core.Primitive) -> None:
    """Excludes shardings in the parameters of a primitive from determining the devices."""
    _param_names[primitive] = ((), ())


def _interesting_params(eqn: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = _param_names.get(eqn.primitive)
    if names is None:
        shardings = tuple(n for n in eqn.params if n in _PARAM_NAMES)
        jaxprs = tuple(
            n for n, v in eqn.params.items() if any(True for _ in core.jaxprs_in_params({n: v}))
        )
        names = _param_names[eqn.primitive] = (shardings, jaxprs)
    return names


def jaxpr_shardings(jaxpr: core.Jaxpr) -> tuple[Source, ...]:
    """Returns the shardings over devices in the equations of a jaxpr, including nested jaxprs."""
    found = jaxpr._cache.get(jaxpr_shardings)
    if found is None:
        found = jaxpr._cache[jaxpr_shardings] = tuple(_find_shardings(jaxpr))
    return found


def _find_shardings(jaxpr: core.Jaxpr) -> Iterator[Source]:
    for eqn in jaxpr.eqns:
        names, jaxprs = _param_names.get(eqn.primitive) or _interesting_params(eqn)
        for name in names:
            value = eqn.params[name]
            if value is None:
                continue
            for s in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(s, Mesh):
                    if not s.empty:
                        yield Source(s, "op", eqn)
                elif isinstance(s, Sharding):
                    if not (isinstance(s, NamedSharding) and isinstance(s.mesh, AbstractMesh)):
                        yield Source(s, "op", eqn)
        for name in jaxprs:
            for inner in core.jaxprs_in_params({name: eqn.params[name]}):
                yield from jaxpr_shardings(inner)


def jaxpr_memory_kinds(jaxpr: core.Jaxpr) -> frozenset[str]:
    """Returns the memory kinds to which a jaxpr moves values, including nested jaxprs."""
    found: frozenset[str] | None = jaxpr._cache.get(jaxpr_memory_kinds)
    if found is None:
        kinds: set[str] = set()
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "device_put":
                kinds.update(filter(None, map(_memory_kind, eqn.params["devices"])))
            elif eqn.primitive.name == "compute_on":
                kinds.update(filter(None, map(_memory_kind, eqn.params["out_memory_spaces"])))
            names = _param_names.get(eqn.primitive) or _interesting_params(eqn)
            for name in names[1]:
                for inner in core.jaxprs_in_params({name: eqn.params[name]}):
                    kinds |= jaxpr_memory_kinds(inner)
        found = jaxpr._cache[jaxpr_memory_kinds] = frozenset(kinds)
    return found


def _memory_kind(target: Any) -> str | None:
    if isinstance(target, MemorySpace):
        return KIND_OF_SPACE.get(target)
    kind: str | None = getattr(getattr(target, "sharding", target), "memory_kind", None)
    return kind


# Devices


def find_placement(
    jaxpr: core.Jaxpr,
    in_shardings: Sequence[Any],
    out_shardings: Sequence[Any],
    ctx_mesh: Any,
    fun_name: str,
    names: Callable[[], Sequence[str | None]],
) -> Placement:
    """Determines the devices that a program runs on.

    Args:
      jaxpr: the program.
      in_shardings, out_shardings: resolved shardings, or unspecified.
      ctx_mesh: the current mesh.
      fun_name: the name of the function, for errors.
      names: returns the names of arguments, for errors.

    Raises:
      ValueError: if two shardings are over different devices; the message says where they are used.
    """
    concrete_mesh = None
    if isinstance(ctx_mesh, Mesh) and not ctx_mesh.empty:
        concrete_mesh = ctx_mesh
    base = concrete_mesh if concrete_mesh is not None and _mesh_is_set() else None
    first: Source | None = None
    abstract = None
    for kind, shardings in (("arg", in_shardings), ("out", out_shardings)):
        for i, s in enumerate(shardings):
            if isinstance(s, UnspecifiedValue) or s is None:
                continue
            if isinstance(s, NamedSharding) and isinstance(s.mesh, AbstractMesh):
                abstract = abstract or s.mesh
                continue
            if first is None:
                first = Source(s, kind, i)
            elif s is not first.sharding and _devices(s) != _devices(first.sharding):
                raise _mismatch(base, first, Source(s, kind, i), jaxpr, fun_name, names)
    for source in jaxpr_shardings(jaxpr):
        if first is None:
            first = source
        elif _devices(source.sharding) != _devices(first.sharding):
            raise _mismatch(base, first, source, jaxpr, fun_name, names)

    if first is None:
        if concrete_mesh is not None and (abstract is not None or base is not None):
            devices = tuple(concrete_mesh._flat_devices_tuple)
            backend = xb.get_device_backend(devices[0])
            return Placement(devices, len(devices), backend, True, concrete_mesh)
        if abstract is not None and abstract.size > 1:
            return Placement(None, abstract.size, None, True, abstract)
        device = default_device()
        if abstract is not None:  # an abstract mesh of size 1 fits any device
            grid = np.array([device]).reshape(abstract.axis_sizes)
            made = Mesh(grid, abstract.axis_names, abstract.axis_types)
            return Placement((device,), 1, device.client, True, made)
        committed = bool(jaxpr_memory_kinds(jaxpr)) or any(
            _is_in_host_memory(v.aval) for v in jaxpr.outvars
        )
        return Placement((device,), 1, device.client, committed, None)

    devices = tuple(_devices(first.sharding))
    if base is not None and tuple(base._flat_devices_tuple) != devices:
        if len(devices) > 1 or first.kind != "arg" or base.size > 1:
            raise _differs_from_mesh(base, first, jaxpr, fun_name, names)
    used = [source.sharding for source in jaxpr_shardings(jaxpr)]
    shardings = (first.sharding, *in_shardings, *out_shardings, *used)
    meshes = dict.fromkeys([m for m in map(_mesh_of, shardings) if m is not None])
    mesh, *more = meshes or (concrete_mesh,)
    return Placement(devices, len(devices), devices[0].client, True, mesh, tuple(more))


def _is_in_host_memory(aval: AbstractValue) -> bool:
    return getattr(aval, "memory_space", None) is MemorySpace.Host


def _mesh_is_set() -> bool:
    # `jax.set_mesh` also sets the abstract mesh; a mesh set by `with mesh:` does not determine
    # devices.
    return not get_abstract_mesh().empty


def _mesh_of(s: object) -> Any:
    if isinstance(s, Mesh):
        return s
    if isinstance(s, NamedSharding) and isinstance(s.mesh, Mesh):
        return s.mesh
    return None


def _devices(s: Any) -> Any:
    return s._internal_device_list


def _platform(devices: Sequence[Any]) -> str:
    return str(next(iter(devices)).platform).upper()


def _describe(source: Source, jaxpr: core.Jaxpr, fun_name: str, names: Callable[..., Any]) -> str:
    devices = _devices(source.sharding)
    where = f"with device ids {[d.id for d in devices]} on platform {_platform(devices)}"
    if source.kind == "arg":
        aval = jaxpr.in_avals[source.index]
        name = names()[source.index]
        qualname = jaxpr.debug_info.func_name or fun_name
        what = f"argument {name}" if name else f"argument number {source.index}"
        return f"{what} of {qualname} with shape {aval.str_short()} and {where}"
    if source.kind == "out":
        return f"explicit output sharding {where}"
    eqn = source.index
    at = source_info_util.summarize(eqn.source_info)
    return f"{eqn.primitive.name} inside jit {where} at {at}"


def _mismatch(
    base: Mesh | None, a: Source, b: Source, jaxpr: core.Jaxpr, fun_name: str, names: Any
) -> ValueError:
    if base is not None:  # the one that differs from the mesh set by the user is at fault
        odd = b if tuple(_devices(a.sharding)) == base._flat_devices_tuple else a
        return _differs_from_mesh(base, odd, jaxpr, fun_name, names)
    return ValueError(
        "Received incompatible devices for jitted computation. Got "
        f"{_describe(a, jaxpr, fun_name, names)} and {_describe(b, jaxpr, fun_name, names)}"
    )


def _differs_from_mesh(
    mesh: Mesh, odd: Source, jaxpr: core.Jaxpr, fun_name: str, names: Any
) -> ValueError:
    devices = mesh._flat_devices_tuple
    both = [
        _describe(odd, jaxpr, fun_name, names),
        f"jit's context mesh with device ids {[d.id for d in devices]} on platform"
        f" {_platform(devices)}",
    ]
    if odd.kind != "arg":
        both.reverse()
    return ValueError(
        f"Received incompatible devices for jitted computation. Got {both[0]} and {both[1]}"
    )
