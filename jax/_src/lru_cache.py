"""A folder of entries of which those used least recently are removed when it grows too large.

An entry `key` is the file `key-cache`. If the folder has a limit, `key-atime` beside it is the time of
its last use, in nanoseconds as an integer of 8 bytes, and whoever reads or writes holds a lock on
`.lockfile`, as several processes may use the folder. PyPI's jax uses the same files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import time
import uuid
import warnings
from collections.abc import Iterator
from typing import Any

from jax._src.compilation_cache_interface import CacheInterface

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_CACHE_SUFFIX = "-cache"
_ATIME_SUFFIX = "-atime"
_UNFINISHED_SUFFIX = "-unfinished"
_LOCK_FILE = ".lockfile"
_LONGEST_WRITE_SECS = 3600


class LRUCache(CacheInterface):
    """Entries in a folder, up to a number of bytes.

    Args:
      path: the folder, or a URL such as `gs://bucket/folder` (which takes the package `etils[epath]`).
        It is made if it does not exist.
      max_size: the greatest sum of the entries' sizes, in bytes; 0 keeps nothing, -1 has no limit.
      lock_timeout_secs: how long to wait for other processes; None for as long as it takes.

    Raises:
      ValueError: if there is a limit, and the folder is not on a local or network file system.
      OSError: if the folder cannot be made.
    """

    def __init__(self, path: str, *, max_size: int, lock_timeout_secs: float | None = 10):
        self.max_size = max_size
        self.lock_timeout_secs = lock_timeout_secs
        self.eviction_enabled = max_size != -1
        if self.eviction_enabled and (fcntl is None or not _is_local_filesystem(path)):
            raise ValueError(
                f"The folder {path} cannot have a limit of {max_size} bytes, since processes cannot lock"
                " it against each other. Use a folder of a file system, or jax_compilation_cache_max_size=-1."
            )
        self._path = self.path = _folder(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._remove_unfinished()

    def get(self, key: str) -> bytes | None:
        """Returns the entry of a key, and makes it the last one to be removed; None if there is none.

        Raises:
          TimeoutError: if another process holds the lock for too long.
        """
        with self._locked():
            try:
                value: bytes = (self.path / f"{_name(key)}{_CACHE_SUFFIX}").read_bytes()
            except FileNotFoundError:
                logger.debug("Cache miss for key: %r", key)
                return None
            logger.debug("Cache hit for key: %r", key)
            if self.eviction_enabled:
                with contextlib.suppress(PermissionError):  # others may have made the folder
                    self._touch(key)
            return value

    def put(self, key: str, value: bytes) -> None:
        """Keeps an entry, unless the key has one. An entry that exceeds the limit is not kept.

        Raises:
          TimeoutError: if another process holds the lock for too long.
        """
        file = self.path / f"{_name(key)}{_CACHE_SUFFIX}"
        if self.eviction_enabled and len(value) > self.max_size:
            warnings.warn(
                f"Cache value for key {key!r} of size {len(value)} bytes exceeds the maximum cache size of"
                f" {self.max_size} bytes: it is not kept. Raise jax_compilation_cache_max_size.",
                stacklevel=2,
            )
            return
        with self._locked():
            if file.exists():
                return
            if self.eviction_enabled:
                self._evict_if_needed(additional_size=len(value))
            _write(file, value)
            if self.eviction_enabled:
                self._touch(key)

    def remove(self, key: str) -> None:
        """Removes the entry of a key, if there is one."""
        with self._locked():
            self._remove(_name(key))

    def clear(self) -> None:
        """Removes all entries."""
        with self._locked():
            for entry in list(self.path.glob(f"*{_CACHE_SUFFIX}")):
                self._remove(entry.name.removesuffix(_CACHE_SUFFIX))

    def _evict_if_needed(self, *, additional_size: int = 0) -> None:
        """Removes entries, from the one used least recently, so that `additional_size` bytes more fit."""
        entries = []
        for file in self.path.glob(f"*{_CACHE_SUFFIX}"):
            key = file.name.removesuffix(_CACHE_SUFFIX)
            # An entry that vanishes is being removed by a person or a program without a limit.
            with contextlib.suppress(FileNotFoundError):
                status = file.stat()
                entries.append((self._last_use(key, status.st_mtime_ns), key, status.st_size))
        total = sum(size for _, _, size in entries)
        for _, key, size in sorted(entries):
            if total + additional_size <= self.max_size:
                break
            target = self.max_size - additional_size
            logger.debug(
                "Evicting cache entry %r: file size %d bytes, target cache size %d bytes", key, size, target
            )  # fmt: skip
            self._remove(key)
            total -= size

    def _remove_unfinished(self) -> None:
        """Removes what processes left that were killed while they wrote."""
        if not isinstance(self.path, pathlib.Path):
            return
        for file in self.path.glob(f".*{_UNFINISHED_SUFFIX}"):
            with contextlib.suppress(OSError):
                if time.time() - file.stat().st_mtime > _LONGEST_WRITE_SECS:
                    file.unlink()

    def _last_use(self, key: str, written: int) -> int:
        """The time of an entry's last use; that of its writing where nothing better is known."""
        try:
            data = (self.path / f"{key}{_ATIME_SUFFIX}").read_bytes()
        except FileNotFoundError:
            return written
        return int.from_bytes(data, "little") if len(data) == 8 else written

    def _touch(self, key: str) -> None:
        _write(self.path / f"{key}{_ATIME_SUFFIX}", time.time_ns().to_bytes(8, "little"))

    def _remove(self, key: str) -> None:
        for suffix in (_CACHE_SUFFIX, _ATIME_SUFFIX):
            (self.path / f"{key}{suffix}").unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if not self.eviction_enabled:
            yield
            return
        # Closing the file releases the lock, also where the process is killed.
        with (self.path / _LOCK_FILE).open("wb") as file:
            self._wait_for_lock(file.fileno())
            yield

    def _wait_for_lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + (self.lock_timeout_secs or 0)
        pause = 0.001
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self.lock_timeout_secs is not None and time.monotonic() > deadline:
                    raise TimeoutError(
                        f"Another process has held the lock {self.path / _LOCK_FILE} for"
                        f" {self.lock_timeout_secs} seconds."
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.05)


def _name(key: str) -> str:
    """A key, which is going to be part of a file's name."""
    if not key or "/" in key or "\0" in key:
        raise ValueError(f"key must be a name of a file, got {key!r}")
    return key


def _folder(path: str) -> Any:
    if "://" not in str(path):
        return pathlib.Path(path).expanduser()
    try:
        from etils import epath
    except ImportError as error:
        raise ValueError(
            f"The folder {path} takes a package that reads and writes URLs: pip install 'etils[epath]'"
        ) from error
    return epath.Path(path)


def _is_local_filesystem(path: str) -> bool:
    """Whether a path is one of a file system, rather than a URL of another service."""
    return "://" not in str(path) or str(path).startswith("file://")


def _write(file: Any, value: bytes) -> None:
    """Writes a file as a whole: others see the old contents, or the new ones."""
    if not isinstance(file, pathlib.Path):  # object stores write as a whole
        file.write_bytes(value)
        return
    unfinished = file.with_name(f".{uuid.uuid4().hex}{_UNFINISHED_SUFFIX}")
    try:
        unfinished.write_bytes(value)
        os.replace(unfinished, file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
