"""Which back end compiles a kernel, by the platform and the options. They are loaded when they are used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

# The module of each back end that there is: its `lower_call` is the lowering rule of `pallas_call`.
_MODULES = {
    "mosaic_gpu": "jax._src.pallas.mosaic_gpu.lowering.call",
    "mosaic_tpu": "jax._src.pallas.mosaic.lowering.call",
    "triton": "jax._src.pallas.triton.lowering",
}

# The back ends of a platform; the first is that of kernels without options.
_OF_PLATFORM = {
    "tpu": ("mosaic_tpu",),
    "cuda": ("triton", "mosaic_gpu"),
    "rocm": ("triton",),
}

platforms = tuple(_OF_PLATFORM)

# Lowering rules of back ends from outside, by the class of their options and the platform.
_registered: dict[tuple[type, str], Callable[..., Any]] = {}


def register(params_cls: type, rule: Callable[..., Any], platform: str) -> None:
    """Make a rule that of kernels with options of a class, on a platform."""
    _registered[params_cls, platform] = rule


def lowering_for(platform: str, compiler_params: Any, where: str) -> Callable[..., Any]:
    """Return the lowering rule of `pallas_call` for a platform.

    Args:
      platform: one of `platforms`, or one that a rule was registered for.
      compiler_params: options; their attribute `BACKEND` is the name of their back end.
      where: the kernel's name and line, for errors.

    Raises:
      ValueError: if the options are those of a back end for another platform.
      NotImplementedError: if the back end is not there yet.
    """
    registered = _registered.get((type(compiler_params), platform))
    if registered is not None:
        return registered
    if platform not in _OF_PLATFORM:
        raise ValueError(
            f"Only interpret mode is supported on {platform.upper()} backend. Give pallas_call interpret=True, in "
            f"the call of {where}."
        )
    backends = _OF_PLATFORM[platform]
    name = backends[0] if compiler_params is None else getattr(compiler_params, "BACKEND", None)
    if name not in backends:
        raise ValueError(
            f"compiler_params of {type(compiler_params).__module__} are not for {platform}, in the call of {where}: give those of "
            f"{' or '.join(backends)}."
        )
    if name not in _MODULES:
        raise NotImplementedError(
            f"Kernels are not compiled for {platform} ({name}) yet, only interpreted: give pallas_call "
            f"interpret=True, in the call of {where}."
        )
    rule: Callable[..., Any] = importlib.import_module(_MODULES[name]).lower_call
    return rule
