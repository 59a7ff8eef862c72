"""Kernels of the package `jaxlib-ext`, which speed up programs on CPUs where it is installed."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from jax._src.lib import _jax

# Which handlers there are, and what they are called with: raised with every change to either.
INTERFACE_VERSION = 1


@functools.cache
def extension() -> Any | None:
    """The module `jaxlib_ext`, its kernels registered with XLA; None if it is not installed or does not fit."""
    try:
        import jaxlib_ext
    except ModuleNotFoundError as err:
        if err.name != "jaxlib_ext":
            raise
        return None
    if jaxlib_ext.INTERFACE_VERSION != INTERFACE_VERSION:
        warnings.warn(
            f"jaxlib-ext {jaxlib_ext.__version__} is installed, but it does not fit this version of jax, which "
            "goes on without it. Install the two in the same version: pip install --upgrade jax jaxlib-ext",
            stacklevel=2,
        )
        return None
    for name, handler in jaxlib_ext.handlers().items():
        _jax.register_custom_call_target(name, handler, platform="Host", api_version=1)
    for name in jaxlib_ext.batch_partitionable_targets():
        _jax.register_custom_call_as_batch_partitionable(name)
    return jaxlib_ext
