"""The options with which all kernels are interpreted, whatever their own say."""

from __future__ import annotations

from typing import Any

from jax._src.config import context_config

# None, or the options of an interpreter.
forced_interpret = context_config("pallas_forced_interpret", None)


def interpret_option(interpret: Any) -> Any:
    """Return how a kernel with the option `interpret` is run where it is staged."""
    forced = forced_interpret.value
    return interpret if forced is None else forced
