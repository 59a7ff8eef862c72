"""Registration of native functions with the CPU runtime and with the runtimes of plugins."""

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
      handler: a capsule, or a dict of capsules by stage.
      platform: XLA's name of the platform: "Host", "CUDA", "ROCM". If its plugin is not loaded, the
        functions are kept until it is.
      api_version: 1 for handlers of the typed FFI, 0 for the older calling convention.
      kwargs: passed to jaxlib, for example `traits`.
    """
    register = _jax if platform == "Host" else lib.xla_client
    register.register_custom_call_target(
        name, handler, platform=platform, api_version=api_version, **kwargs
    )


def register_custom_type(name: str, registration: Any, platform: str) -> None:
    """Registers a type of the state of functions; see `register_custom_call_target`.

    Args:
      name: the name of the type.
      registration: a dict with the capsules "type_id" and, optionally, "type_info".
      platform: XLA's name of the platform.
    """
    if platform == "Host":
        _jax.register_custom_type(name, registration)
    else:
        lib.xla_client.register_custom_type(name, registration, platform=platform)


def register_batch_partitionable(name: str) -> None:
    """Registers a function, with all runtimes, as independent along leading dimensions."""
    register = _jax.register_custom_call_as_batch_partitionable
    register(name)
    register_plugin_callbacks(functools.partial(register, name))


def register_partitioner(name: str, propagate: Any, partition: Any, infer: Any) -> None:
    """Registers the functions that partition calls of a name, with all runtimes.

    Args:
      name: the name.
      propagate: `(result sharding, result shape, backend config)` -> a better result sharding.
      partition: `(operand shapes, operand shardings, result shape, result sharding, backend
        config)` -> the bytecode of a module for one device, the operands' shardings and the
        result's sharding.
      infer: `(operand shapes, operand shardings, result shape, backend config)` -> the result's
        sharding.
    """
    # Unlike the others, the first and the last must not raise: XLA would end the process.
    register = functools.partial(
        _jax.register_custom_call_partitioner,
        name,
        propagate,
        partition,
        infer,
        can_side_effecting_have_replicated_sharding=True,
    )
    register()
    register_plugin_callbacks(lambda c_api: register(c_api=c_api))
