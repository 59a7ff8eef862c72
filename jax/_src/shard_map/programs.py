"""Compiled programs of eager `shard_map`s, found by the structure of their bodies."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, special_values
from jax._src.array_impl import ArrayImpl
from jax._src.core import ClosedJaxpr, Jaxpr, Literal
from jax._src.jit.jitted import make_primitive_call
from jax._src.memory import MemorySpace
from jax._src.mesh import Mesh, get_concrete_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map.primitive import shard_map_p
from jax._src.util import register_cache


class _Programs:
    """The least recently used programs are forgotten."""

    max_size = 1024

    def __init__(self) -> None:
        self.entries: collections.OrderedDict[Any, Callable] = collections.OrderedDict()

    def get(self, key: Any) -> Callable | None:
        call = self.entries.get(key)
        if call is not None:
            try:
                self.entries.move_to_end(key)
            except KeyError:  # removed by another thread
                pass
        return call

    def put(self, key: Any, call: Callable) -> None:
        self.entries[key] = call
        while len(self.entries) > self.max_size:
            self.entries.popitem(last=False)

    def cache_clear(self) -> None:
        self.entries.clear()


_programs = _Programs()
register_cache(_programs, "eager shard_map programs")


def run(params: dict[str, Any], args: Sequence[Any], cached: bool = True) -> list[Any]:
    """Run an application with these parameters on arrays, as a compiled program."""
    mesh = concrete_mesh(params["mesh"], args)
    if not cached:
        return list(_compiled(params, mesh)(*args))
    try:
        others = tuple([v for k, v in params.items() if k != "jaxpr"])
        key = (structure_of(params["jaxpr"]), others, mesh, config.trace_context())
        call = _programs.get(key)
    except TypeError:  # a parameter of an equation is not hashable
        key = call = None
    if call is None:
        call = _compiled(params, mesh)
        if key is not None:
            _programs.put(key, call)
    if config.disable_jit.value:
        return _run_compiled(call, args)
    results: list[Any] = call(*args)
    return results


def _run_compiled(call: Callable, args: Sequence[Any]) -> list[Any]:
    """Run a program although `jax_disable_jit` is set: it is a single operation for the user.

    Raises:
      FloatingPointError: a result has NaNs or infinities, and checks for them are enabled.
    """
    with config.disable_jit(False), config.debug_nans(False), config.debug_infs(False):
        results: list[Any] = call(*args)
    special_values.check_results("shard_map", args, results)
    return results


def _compiled(params: dict[str, Any], mesh: Mesh) -> Callable:
    def shard_map(*args: Any) -> list[Any]:
        outs: list[Any] = shard_map_p.bind(*args, **params)
        return outs

    shard_map._apply_primitive = True  # type: ignore[attr-defined]
    options = {}
    avals = params["jaxpr"].out_avals
    whole = params["newly_manual_axes"].issuperset(mesh.axis_names)
    if whole and all(getattr(a, "memory_space", None) is MemorySpace.Device for a in avals):
        # XLA replicates results without elements, whatever sharding they should have.
        specs = [
            PartitionSpec() if 0 in getattr(a, "shape", ()) else s
            for a, s in zip(avals, params["out_specs"])
        ]
        options["out_shardings"] = [NamedSharding(mesh, s) for s in specs]
    return make_primitive_call(shard_map, "shard_map", **options)


def concrete_mesh(mesh: Any, args: Sequence[Any]) -> Mesh:
    """The mesh with its devices: the one in context, or that of the arguments, if it is abstract.

    Raises:
      ValueError: nothing tells which devices an abstract mesh stands for.
    """
    if isinstance(mesh, Mesh):
        return mesh
    found = [get_concrete_mesh()]
    found += [
        x._sharding.mesh
        for x in args
        if isinstance(x, ArrayImpl) and isinstance(x._sharding, NamedSharding)
    ]
    for m in found:
        if m.shape_tuple == mesh.shape_tuple and not m.empty:
            return m.update(axis_types=mesh.axis_types)
    raise ValueError(
        f"shard_map over the abstract mesh {mesh} is called on arrays that are not on such a mesh of "
        "devices. Please pass `jax.Array`s with a `NamedSharding` over one, call it within "
        "`jax.set_mesh(mesh)`, or pass a `jax.sharding.Mesh`."
    )


# The structure of a jaxpr: equal for jaxprs that compute the same in the same way


class _Same:
    """An object that is equal only to itself."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any):
        self.obj = obj

    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and self.obj is other.obj

    def __hash__(self) -> int:
        return id(self.obj)


class _Structure:
    """A tuple with its hash."""

    __slots__ = ("parts", "hash")

    def __init__(self, parts: tuple[Any, ...]):
        self.parts = parts
        self.hash = hash(parts)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is _Structure and self.hash == other.hash and self.parts == other.parts
        )

    def __hash__(self) -> int:
        return self.hash


def structure_of(jaxpr: Jaxpr) -> _Structure:
    """A key of a jaxpr that does not depend on its variables and source lines.

    Raises:
      TypeError: a parameter of an equation is not hashable.
    """
    found: _Structure | None = jaxpr._cache.get(structure_of)
    if found is None:
        found = jaxpr._cache[structure_of] = _Structure(tuple(_parts(jaxpr)))
    return found


def _parts(jaxpr: Jaxpr) -> list[Any]:
    number: dict[Any, int] = {}
    for v in (*jaxpr.constvars, *jaxpr.invars):
        number[v] = len(number)
    parts: list[Any] = [len(jaxpr.constvars), *[v.aval for v in number]]
    for eqn in jaxpr.eqns:
        parts.append((eqn.primitive, eqn.ctx, len(eqn.invars), len(eqn.outvars)))
        parts += [_literal(v) if type(v) is Literal else number[v] for v in eqn.invars]
        if eqn.params:
            parts += [(k, _param(v)) for k, v in eqn.params.items()]
        for v in eqn.outvars:
            number[v] = len(number)
            parts.append(v.aval)
    parts += [_literal(v) if type(v) is Literal else number[v] for v in jaxpr.outvars]
    return parts


def _literal(v: Literal) -> Any:
    val = v.val
    return (v.aval, type(val), np.asarray(val).tobytes())


def _param(v: Any) -> Any:
    if isinstance(v, Jaxpr):
        return structure_of(v)
    if isinstance(v, ClosedJaxpr):
        return (structure_of(v.jaxpr), *map(_Same, v.consts))
    if isinstance(v, (tuple, list)):
        return (type(v), *map(_param, v))
    if isinstance(v, (bool, int, float, complex, np.generic)):
        return (type(v), repr(v))
    return v
