"""The options of transfers and of arrays freed by the garbage collector.

jaxlib's guards keep a thread-local state of their own, which these options write to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jax._src.config._state import optional_enum_state
from jax._src.lib import guard_lib

_TRANSFER_LEVELS = {
    "allow": guard_lib.TransferGuardLevel.ALLOW,
    "log": guard_lib.TransferGuardLevel.LOG,
    "disallow": guard_lib.TransferGuardLevel.DISALLOW,
    "log_explicit": guard_lib.TransferGuardLevel.LOG_EXPLICIT,
    "disallow_explicit": guard_lib.TransferGuardLevel.DISALLOW_EXPLICIT,
}
_COLLECTION_LEVELS = {
    "allow": guard_lib.GarbageCollectionGuardLevel.ALLOW,
    "log": guard_lib.GarbageCollectionGuardLevel.LOG,
    "fatal": guard_lib.GarbageCollectionGuardLevel.FATAL,
}


def _set_guard(state: Any, key: str, levels: dict[str, Any], value: str | None) -> None:
    setattr(state, key, None if value is None else levels[value])


def _guard_state(name: str, key: str, levels: dict[str, Any], help: str):
    return optional_enum_state(
        name,
        list(levels),
        # A guard cannot be unset globally: None stands for jaxlib's default, 'allow'.
        None,
        help,
        update_global_hook=lambda value: _set_guard(guard_lib.global_state(), key, levels, value),
        update_thread_local_hook=lambda value: _set_guard(
            guard_lib.thread_local_state(), key, levels, value
        ),
    )


transfer_guard_host_to_device = _guard_state(
    "jax_transfer_guard_host_to_device",
    "host_to_device",
    _TRANSFER_LEVELS,
    "What happens on transfers from host to device.",
)
transfer_guard_device_to_device = _guard_state(
    "jax_transfer_guard_device_to_device",
    "device_to_device",
    _TRANSFER_LEVELS,
    "What happens on transfers from device to device.",
)
transfer_guard_device_to_host = _guard_state(
    "jax_transfer_guard_device_to_host",
    "device_to_host",
    _TRANSFER_LEVELS,
    "What happens on transfers from device to host.",
)


def _update_all_transfer_guards(value: str | None) -> None:
    for guard in _transfer_guards:
        guard._set(value)


_transfer_guards = (
    transfer_guard_host_to_device,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
)
_transfer_guard = optional_enum_state(
    "jax_transfer_guard",
    list(_TRANSFER_LEVELS),
    None,
    "What happens on transfers of all three directions.",
    update_global_hook=_update_all_transfer_guards,
)


@contextlib.contextmanager
def transfer_guard(new_val: str) -> Iterator[None]:
    """A context manager that sets what happens on transfers between hosts and devices.

    Args:
      new_val: 'allow', 'log', 'disallow', 'log_explicit' or 'disallow_explicit'. The last two also
        apply to explicit transfers (`jax.device_put`, `jax.device_get`).

    Raises:
      ValueError: `new_val` is not one of these.

    Example:
      >>> import jax
      >>> with jax.transfer_guard("allow"):
      ...   pass
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_transfer_guard(new_val))
        for guard in _transfer_guards:
            stack.enter_context(guard(new_val))
        yield


def transfers_are_guarded() -> bool:
    """Whether transfers of some direction are logged or disallowed."""
    return any(guard.value not in (None, "allow") for guard in _transfer_guards)


@contextlib.contextmanager
def explicit_device_put_scope() -> Iterator[None]:
    """Marks transfers to devices inside the context as explicit."""
    state = guard_lib.thread_local_state()
    previous = state.explicit_device_put
    state.explicit_device_put = True
    try:
        yield
    finally:
        state.explicit_device_put = previous


array_garbage_collection_guard = _guard_state(
    "jax_array_garbage_collection_guard",
    "garbage_collect_array",
    _COLLECTION_LEVELS,
    "What happens when the garbage collector, not a reference count, frees an array.",
)
