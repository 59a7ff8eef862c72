"""What the persistent compilation cache needs of the place where it keeps its entries."""

from __future__ import annotations

import abc
from typing import Any


class CacheInterface(abc.ABC):
    """A mapping from keys to bytes that outlives the process.

    Attributes:
      _path: the folder, a `pathlib.Path` or an object like it.
    """

    _path: Any

    @abc.abstractmethod
    def get(self, key: str) -> bytes | None:
        """Returns the entry of a key; None if there is none."""

    @abc.abstractmethod
    def put(self, key: str, value: bytes) -> None:
        """Keeps an entry, unless the key has one."""

    @abc.abstractmethod
    def remove(self, key: str) -> None:
        """Removes the entry of a key, if there is one."""
