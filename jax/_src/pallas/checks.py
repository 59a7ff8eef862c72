"""Checks in kernels: only those that use them import what they need."""

from __future__ import annotations

from typing import Any

from jax._src import config
from jax._src.checkify.errors import debug_check as debug_check_of_checkify


def debug_check(condition: Any, message: str) -> None:
    """Check a condition in a kernel, if `pl.enable_debug_checks` is set; otherwise do nothing.

    Args:
      condition: boolean scalar.
      message: what the error says.

    >>> def kernel(x_ref, o_ref):
    ...   pl.debug_check(x_ref[0] > 0, "not positive")
    ...   o_ref[...] = x_ref[...]
    >>> x = jnp.arange(4.)
    >>> _ = pl.pallas_call(kernel, x, interpret=True)(x)
    """
    if config.pallas_enable_debug_checks.value:
        debug_check_of_checkify(condition, message)
