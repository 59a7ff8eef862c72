"""`auto_axes` and `explicit_axes`: functions that change the types of mesh axes inside them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from jax._src import core
from jax._src.lax.resharding import bind_reshard, reshard
from jax._src.mesh import (
    AbstractMesh,
    AxisType,
    get_abstract_mesh,
    get_concrete_mesh,
    use_abstract_mesh,
)
from jax._src.named_sharding import NamedSharding, explicit_part
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding_impls import use_concrete_mesh
from jax._src.tree_util import tree_leaves, tree_map


def auto_axes(f: Callable | None = None, /, *, axes=None, out_sharding=None) -> Callable:
    """Let the compiler decide the shardings within a function.

    Args:
      f: the function; without it, returns a decorator.
      axes: names of the mesh axes that become Auto within ``f``; all by default.
      out_sharding: shardings of the results: a tree prefix of :class:`jax.P` or
        :class:`jax.NamedSharding`. It can also be passed as a keyword argument of the call.

    Returns:
      A function of the same arguments. Inside, types do not contain shardings over ``axes``.

    Raises:
      TypeError: ``out_sharding`` is given neither here nor in the call.
      ValueError: the mesh has no such axis.

    Example:
      >>> import jax
      >>> with jax.set_mesh(jax.make_mesh((1,), ("x",))):
      ...   f = jax.sharding.auto_axes(lambda x: x * 2, out_sharding=jax.P("x"))
      ...   print(jax.typeof(f(jax.numpy.arange(4.0))))
      float32[4@x]
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    @functools.wraps(f)
    def decorator(*args, **kwargs):
        shardings = kwargs.pop("out_sharding", None) if out_sharding is None else out_sharding
        if shardings is None:
            raise TypeError("Missing required keyword argument: 'out_sharding'")
        mesh = _mesh_of(shardings)
        if mesh.empty:
            return f(*args, **kwargs)
        names = _axis_names(mesh, axes, "auto_axes")
        if {*names} == {*mesh.auto_axes}:  # the compiler decides already
            return f(*args, **kwargs)
        new_mesh = mesh.update_axis_types(dict.fromkeys(names, AxisType.Auto))
        args, kwargs = tree_map(functools.partial(_cast, new_mesh), (args, kwargs))
        with _use_mesh(new_mesh):
            out = f(*args, **kwargs)
        with _use_mesh(mesh):
            return reshard(out, shardings)

    return decorator


def explicit_axes(f: Callable | None = None, /, *, axes=None, in_sharding=None) -> Callable:
    """Make shardings part of the types within a function.

    Args:
      f: the function; without it, returns a decorator.
      axes: names of the mesh axes that become Explicit within ``f``; all by default.
      in_sharding: shardings of the arguments: a tree prefix of the tuple of arguments, of
        :class:`jax.P` or :class:`jax.NamedSharding`. It can also be passed as a keyword argument of
        the call.

    Returns:
      A function of the same arguments. Inside, types contain shardings over ``axes``.

    Raises:
      TypeError: ``in_sharding`` is given neither here nor in the call.
      ValueError: there is no mesh in context, or it has no such axis.

    Example:
      >>> import jax
      >>> mesh = jax.make_mesh((1,), ("x",), (jax.sharding.AxisType.Auto,))
      >>> with jax.set_mesh(mesh):
      ...   f = jax.sharding.explicit_axes(
      ...       lambda x: print(jax.typeof(x)), in_sharding=jax.P("x"))
      ...   f(jax.numpy.arange(4.0))
      float32[4@x]
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @functools.wraps(f)
    def decorator(*args, **kwargs):
        shardings = kwargs.pop("in_sharding", None) if in_sharding is None else in_sharding
        if shardings is None:
            raise TypeError("Missing required keyword argument: 'in_sharding'")
        mesh = get_abstract_mesh()
        if mesh.empty:
            raise ValueError(
                "Context mesh cannot be empty. Please use `jax.set_mesh` API to enter into a mesh"
                " context when using `explicit_axes` API."
            )
        names = _axis_names(mesh, axes, "explicit_axes")
        new_mesh = mesh.update_axis_types(dict.fromkeys(names, AxisType.Explicit))
        with _use_mesh(new_mesh):
            if args:
                # A single sharding applies to all arguments; a tuple has one for each.
                args = reshard(args, shardings)
            kwargs = tree_map(functools.partial(_cast, new_mesh), kwargs)
            out = f(*args, **kwargs)
        with _use_mesh(mesh):
            return tree_map(functools.partial(_cast, mesh), out)

    return decorator


def _mesh_of(shardings) -> AbstractMesh:
    """The mesh in context, or else the mesh of the first NamedSharding."""
    mesh = get_abstract_mesh()
    if mesh.empty:
        for s in tree_leaves(shardings):
            if isinstance(s, NamedSharding):
                return s.mesh.abstract_mesh
    return mesh


def _axis_names(mesh: AbstractMesh, axes, name: str) -> tuple:
    """The mesh axes that were passed to the function `name`; by default all."""
    axes = mesh.axis_names if axes is None else axes
    axes = tuple(axes) if isinstance(axes, (tuple, list, set, frozenset)) else (axes,)
    if unknown := [a for a in axes if a not in mesh.axis_names]:
        raise ValueError(f"{name}: axes={unknown} are not axes of the mesh {mesh}.")
    return axes


def _cast(mesh: AbstractMesh, x: Any) -> Any:
    """`x` with its type resharded over `mesh`: only axes that are Explicit in `mesh` are kept."""
    aval = core.typeof(x)
    spec = PartitionSpec() if aval._sharding is None else aval._sharding.spec
    return bind_reshard(x, explicit_part(mesh, spec))


@contextlib.contextmanager
def _use_mesh(mesh: AbstractMesh) -> Iterator[None]:
    """Sets the abstract mesh, and sets its axis types on the concrete mesh, if there is one."""
    concrete = get_concrete_mesh()
    if concrete.empty or concrete.shape_tuple != mesh.shape_tuple:
        with use_abstract_mesh(mesh):
            yield
        return
    with (
        use_abstract_mesh(mesh),
        use_concrete_mesh(concrete.update(axis_types=mesh.axis_types)),
    ):
        yield
