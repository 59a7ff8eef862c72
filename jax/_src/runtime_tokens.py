"""Tokens: they order the effects of programs that run one after another."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, host_functions
from jax._src.array_impl import ArrayImpl, device_sharding
from jax._src.device_put.values import REUSE, device_put_value
from jax._src.late_binding import late
from jax._src.lib import Device
from jax._src.sharding_impls import GSPMDSharding


class RuntimeTokenSet(threading.local):
    """Per thread: the newest token of each ordered effect, and of each device with other ones."""

    def __init__(self) -> None:
        self.current_tokens: dict[Any, core.Token] = {}
        self.output_runtime_tokens: dict[Device, Any] = {}

    def get_token_input(self, effect: Any, devices: Sequence[Device]) -> core.Token:
        """The token for the next program with the effect, on that program's devices."""
        token = self.current_tokens.get(effect)
        if token is None:
            return core.Token(_replicate(np.zeros((0,), np.bool_), devices))
        buf = token._buf
        if tuple(devices) != tuple(buf._sharding._device_assignment):
            token = core.Token(_replicate(buf, devices))
            self.current_tokens[effect] = token
        return token

    def set_token_result(self, effect: Any, token: core.Token) -> None:
        """Store the token returned by a program with the effect."""
        self.current_tokens[effect] = token

    def set_output_runtime_token(self, device: Device, token: Any) -> None:
        """Store the token of a program with unordered effects."""
        self.output_runtime_tokens[device] = token

    def clear(self) -> None:
        self.current_tokens = {}
        self.output_runtime_tokens = {}

    def block_until_ready(self) -> None:
        """Wait for all programs with effects; raises the first of their errors."""
        tokens = [*self.current_tokens.values(), *self.output_runtime_tokens.values()]
        self.clear()  # even if a program has failed, so that later programs do not raise its error
        failure = None
        for token in tokens:
            try:
                token.block_until_ready()
            except Exception as err:
                failure = failure or err
        if failure is not None:
            raise failure


def _replicate(value: Any, devices: Sequence[Device]) -> ArrayImpl:
    if len(devices) == 1:
        return device_put_value(value, device_sharding(devices[0]), REUSE)
    return device_put_value(value, GSPMDSharding.get_replicated(tuple(devices)), REUSE)


runtime_tokens: RuntimeTokenSet = RuntimeTokenSet()
late.runtime_tokens = runtime_tokens


def wait_for_tokens() -> None:
    """Wait for all programs with effects."""
    runtime_tokens.block_until_ready()


def effects_barrier() -> None:
    """Waits until all effects (callbacks, prints) of programs started so far have happened.

    Example:
      >>> jax.effects_barrier()
    """
    wait_for_tokens()


@atexit.register
def _at_exit() -> None:
    try:
        wait_for_tokens()
    finally:
        host_functions.wait_for_pure_functions()
