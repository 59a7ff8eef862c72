"""The devices of eager operations whose own operands do not tell them.

The type of an explicitly sharded array has a mesh without devices. A transformed function that runs
eagerly may make an array of such a type from constants alone: `where(x > 0, x, 1.)` broadcasts the
1. to the type of `x`, and a derivative may need zeros. The array belongs on the devices of the
arguments of the function that is running.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from jax._src import core
from jax._src.array_impl import ArrayImpl
from jax._src.mesh import AbstractMesh, Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.tree_util import tree_leaves


class _Running(threading.local):
    """The arguments of the functions that are running in a thread, and of those around them."""

    operands: Any = None


_running = _Running()


class operands:
    """Context manager in which a function runs that has `args`, a pytree, as its arguments."""

    __slots__ = ("args", "outer")

    def __init__(self, args: Any):
        self.args = args

    def __enter__(self) -> None:
        self.outer = _running.operands
        _running.operands = self

    def __exit__(self, *exc: object) -> None:
        _running.operands = self.outer


def on_devices_of_arguments(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the function runs in the context of its `operands`."""

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        with operands((args, kwargs)):
            return fun(*args, **kwargs)

    return call


def mesh_of_operands(abstract: Any, args: Any) -> Mesh | None:
    """Returns the mesh of devices that an abstract mesh stands for in the functions that are running.

    Args:
      abstract: the mesh of a type; None is returned for all that is not abstract.
      args: the operands of the operation, which are considered first.

    Returns:
      The mesh of the arguments of the innermost function that has arguments on such a mesh. None if
      no function has any, or if they are on several ones, which leaves it open.
    """
    if not isinstance(abstract, AbstractMesh):
        return None
    frame = operands(args)
    frame.outer = _running.operands
    while frame is not None:
        found = {_mesh_of(x, abstract) for x in tree_leaves(frame.args)} - {None}
        if found:
            return found.pop() if len(found) == 1 else None
        frame = frame.outer
    return None


def _mesh_of(x: object, abstract: AbstractMesh) -> Mesh | None:
    if isinstance(x, core.Tracer):
        x = core.to_concrete_value(x)
    if type(x) is not ArrayImpl or type(x._sharding) is not NamedSharding:
        return None
    mesh = x._sharding.mesh
    return mesh if isinstance(mesh, Mesh) and mesh.abstract_mesh == abstract else None
