"""The events that say whether programs may be kept in the persistent compilation cache."""

from __future__ import annotations

import threading

from jax._src import config, monitoring

_lock = threading.Lock()
_told = False


def tell() -> None:
    """Record whether programs may be kept, for the first one that is compiled, and each that may be."""
    global _told
    is_allowed = config.enable_compilation_cache.value
    with _lock:
        is_first, _told = not _told, True
    if is_first:
        name = "tasks_using_cache" if is_allowed else "task_disabled_cache"
        monitoring.record_event(f"/jax/compilation_cache/{name}")
    if is_allowed:
        monitoring.record_event("/jax/compilation_cache/compile_requests_use_cache")


def forget() -> None:
    """Let `tell` record again whether programs may be kept."""
    global _told
    _told = False
