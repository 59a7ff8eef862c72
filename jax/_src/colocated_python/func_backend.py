"""What hosts of devices store for functions: results that wait for a second call."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any


class _ResultStore:
    """Results of calls, by identifier, until they are fetched."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._storage: dict[int, Sequence[Any]] = {}

    def push(self, uid: int, out: Sequence[Any]) -> None:
        with self._lock:
            if uid in self._storage:
                raise ValueError(f"uid {uid} already exists")
            self._storage[uid] = out

    def pop(self, uid: int) -> Sequence[Any]:
        with self._lock:
            if uid not in self._storage:
                raise ValueError(f"uid {uid} is not found")
            return self._storage.pop(uid)


SINGLETON_RESULT_STORE = _ResultStore()
