"""What hosts of devices store for objects: the objects."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class _Entry:
    """An object, which the first thread that needs it makes while others wait."""

    __slots__ = ("lock", "made", "obj")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.made = False
        self.obj: Any = None


class _ObjectStore:
    """Objects by identifier."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}

    def get_or_create(self, uid: int, initializer: Callable[[], Any]) -> Any:
        """Return an object, after making it if it does not exist.

        An error of the initializer is raised; the next call tries again.
        """
        with self._lock:
            entry = self._entries.setdefault(uid, _Entry())
        with entry.lock:
            if not entry.made:
                entry.obj = initializer()
                entry.made = True
            return entry.obj

    def remove(self, uid: int) -> None:
        """Drop an object, if it exists."""
        with self._lock:
            entry = self._entries.pop(uid, None)
        del entry  # outside of the lock, since this may run the object's `__del__`


SINGLETON_OBJECT_STORE = _ObjectStore()
