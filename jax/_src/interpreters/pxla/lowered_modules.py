"""What was lowered before: modules are found again for the same program on other devices of the same kind.

A module says nothing of its devices but how many there are, so it is found by the meshes' shapes. A jaxpr
has its modules, but only the latest of all are kept, since each takes half a megabyte or more. What is
compiled from a module is found again for as long as somebody has it.
"""

from __future__ import annotations

import collections
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
    """A lowered module, while it is kept, and the programs that were compiled from it."""

    __slots__ = ("result", "executables", "__weakref__")

    def __init__(self) -> None:
        self.result: mlir.LoweringResult | None = None
        self.executables: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


def find_or_lower(
    closed: core.ClosedJaxpr,
    devices: object,
    in_shardings: Sequence[Any],
    out_shardings: Sequence[Any],
    choices: tuple[Any, ...],
    lower: Callable[[], mlir.LoweringResult],
) -> tuple[LoweredModule, mlir.LoweringResult]:
    """The module of a jaxpr, and what lowering gave.

    Args:
      closed: the jaxpr, in whose cache the module is kept.
      devices: where the program is to run; None if that is not known.
      in_shardings, out_shardings: of its arguments and results.
      choices: whatever else decides about the module; hashable.
      lower: makes it.
    """
    concrete = jaxpr_shardings(closed.jaxpr)  # they name devices
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
        if not (result.keepalive or result.host_callbacks):  # callbacks hold on to users' objects
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
    """A sharding as a module has it."""
    if type(sharding) is NamedSharding and isinstance(sharding.mesh, Mesh):
        mesh = sharding.mesh.abstract_mesh
        return mesh, sharding.spec, sharding.memory_kind, sharding._logical_device_ids
    if type(sharding) is SingleDeviceSharding:
        return SingleDeviceSharding, sharding.memory_kind
    return sharding
