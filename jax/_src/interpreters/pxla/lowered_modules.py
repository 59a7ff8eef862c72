"""A cache of lowered modules, so that a program is not lowered again for other devices of its kind.

A module depends on the number of its devices, not on which they are, so the key has only the shapes
of meshes. Modules are cached on their jaxprs. Only the most recent ones are kept, since each takes
half a megabyte or more. Programs compiled from a module are cached for as long as they are in use.
"""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jax._src import config, core
from jax._src.interpreters import mlir
from jax._src.interpreters.pxla.placement import jaxpr_shardings
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.sharding_impls import SingleDeviceSharding

if TYPE_CHECKING:
    from jax._src.sharding import Sharding

_MAX_KEPT = 64
_latest: collections.deque[weakref.ref[LoweredModule]] = collections.deque()


class LoweredModule:
    """A lowered module, while it is kept, and the programs compiled from it.

    Attributes:
      compiling: a lock to be held by who compiles it. The compiler changes the module's context, which
        has no locks of its own.
    """

    __slots__ = ("result", "executables", "compiling", "__weakref__")

    def __init__(self) -> None:
        self.result: mlir.LoweringResult | None = None
        self.executables: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        self.compiling = threading.RLock()


def find_or_lower(
    closed: core.ClosedJaxpr,
    devices: object,
    in_shardings: Sequence[Any],
    out_shardings: Sequence[Any],
    choices: tuple[Any, ...],
    lower: Callable[[], mlir.LoweringResult],
) -> tuple[LoweredModule, mlir.LoweringResult]:
    """Returns the cached module of a jaxpr, lowering it on a miss; and the result of lowering.

    Args:
      closed: the jaxpr, whose cache keeps the module.
      devices: where the program is to run; None if unknown.
      in_shardings, out_shardings: shardings of its arguments and results.
      choices: everything else that the module depends on; hashable.
      lower: lowers the jaxpr.
    """
    concrete = jaxpr_shardings(closed.jaxpr)  # these make the module depend on devices
    key = (
        find_or_lower,
        tuple([_without_devices(s) for s in in_shardings]),
        tuple([_without_devices(s) for s in out_shardings]),
        devices if concrete else None,
        choices,
        config.include_full_tracebacks_in_locations.value,
        config.traceback_in_locations_limit.value,
        config.hlo_source_file_canonicalization_regex.value,
        config.native_kernels.value,
        config.trace_context(),
    )
    module: LoweredModule = closed._cache.get(key) or LoweredModule()
    result = module.result
    if result is None:
        result = lower()
        if not (result.keepalive or result.host_callbacks):  # callbacks keep users' objects alive
            closed._cache[key] = module
            _keep(module, result)
    return module, result


def _keep(module: LoweredModule, result: mlir.LoweringResult) -> None:
    module.result = result
    _latest.append(weakref.ref(module))
    if len(_latest) > _MAX_KEPT:
        oldest = _latest.popleft()()
        if oldest is not None:
            oldest.result = None


def _without_devices(sharding: Sharding | None) -> Any:
    """Returns what the module contains of a sharding."""
    if type(sharding) is NamedSharding and isinstance(sharding.mesh, Mesh):
        mesh = sharding.mesh.abstract_mesh
        return mesh, sharding.spec, sharding.memory_kind, sharding._logical_device_ids
    if type(sharding) is SingleDeviceSharding:
        return SingleDeviceSharding, sharding.memory_kind
    return sharding
