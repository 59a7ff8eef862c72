"""Registration of native functions with the CPU's runtime and with those of plugins."""

from __future__ import annotations

import functools
from typing import Any

from jax._src import lib
from jax._src.lib import _jax
from jax._src.xla_bridge.plugins import register_plugin_callbacks


def register_custom_call_target(
    name: str, handler: Any, platform: str, api_version: int = 1, **kwargs: Any
) -> None:
    """Registers a function that programs call by name.

    Args:
      name: the name.
      handler: a capsule, or a dict of such by stage.
      platform: XLA's name of the platform: "Host", "CUDA", "ROCM". That of a plugin may be absent: its
        functions are kept until it is loaded.
      api_version: 1 for handlers of the typed FFI, 0 for the older calling convention.
      kwargs: passed on to jaxlib, such as `traits`.
    """
    register = _jax if platform == "Host" else lib.xla_client
    register.register_custom_call_target(
        name, handler, platform=platform, api_version=api_version, **kwargs
    )


def register_custom_type(name: str, registration: Any, platform: str) -> None:
    """Registers a type of state of functions, like `register_custom_call_target`.

    Args:
      name: the name of the type.
      registration: a dict with the capsules "type_id" and, if there is one, "type_info".
      platform: XLA's name of the platform.
    """
    if platform == "Host":
        _jax.register_custom_type(name, registration)
    else:
        lib.xla_client.register_custom_type(name, registration, platform=platform)


def register_batch_partitionable(name: str) -> None:
    """Says to all runtimes that a function treats the leading dimensions of its operands one by one."""
    register = _jax.register_custom_call_as_batch_partitionable
    register(name)
    register_plugin_callbacks(functools.partial(register, name))
