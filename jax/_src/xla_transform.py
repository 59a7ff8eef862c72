"""Custom passes in XLA's compilation pipeline."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax._src import lib, xla_bridge as xb


class PipelineStage(enum.Enum):
    """When a pass runs: before or after instructions are scheduled."""

    PRE_SCHEDULER = 0
    POST_SCHEDULER = 1


def register_hlo_module_transformation(
    callback: Callable[[bytes], bytes | None],
    *,
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> None:
    """Registers a custom pass over the programs that XLA compiles from now on.

    Passes of a stage run in the order of their registration.

    Args:
      callback: takes a serialized `HloModuleProto` and returns another one, or None to leave the
        program unchanged. If it raises an exception, the compilation fails.
      name: a name for the pass.
      stage: when it runs.
      platforms: the platform or platforms it applies to; None for all available ones.

    Raises:
      TypeError: `callback` is not callable, or `stage` is not a PipelineStage.
      RuntimeError: a platform does not exist.

    >>> from jax.extend import xla
    >>> sizes = []
    >>> xla.register_hlo_module_transformation(lambda proto: sizes.append(len(proto)), name='sizes')
    >>> _ = jax.jit(lambda x: x * 21 + 4)(2.)
    >>> xla.clear_hlo_module_transformation('sizes'), len(sizes) > 0
    (True, True)
    """
    if not callable(callback):
        raise TypeError(f"callback must be a function of bytes, got {callback!r}.")
    _check(stage)
    for client in _clients(platforms):
        if client is None:
            lib.xla.register_xla_transform(name, stage.value, callback)
        else:
            lib.xla.register_xla_transform_c_api(client, name, stage.value, callback)


def clear_hlo_module_transformation(
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> bool:
    """Removes the passes registered under a name; returns whether there were any.

    Args:
      name: the name of the pass.
      stage: when it runs.
      platforms: the platform or platforms to remove it from; None for all.

    Raises:
      TypeError: `stage` is not a PipelineStage.
      RuntimeError: a platform does not exist.
    """
    _check(stage)
    found = False
    for client in _clients(platforms):
        if client is None:
            found |= lib.xla.clear_xla_transform(name, stage.value)
        else:
            found |= lib.xla.clear_xla_transform_c_api(client, name, stage.value)
    return found


def _check(stage: Any) -> None:
    if not isinstance(stage, PipelineStage):
        raise TypeError(f"stage must be a PipelineStage enum, got {type(stage)}")


def _clients(platforms: Sequence[str] | str | None) -> Iterator[Any]:
    """The plugin clients of these platforms; None stands for the built-in compiler for CPUs."""
    if platforms is None:
        clients = list(xb.backends().values())
    else:
        names = (platforms,) if isinstance(platforms, str) else platforms
        clients = [xb.get_backend(p) for p in names]
    seen = set()
    for client in clients:
        if id(client) not in seen:
            seen.add(id(client))
            yield None if client.platform == "cpu" else client
