"""The directory of a checkpoint: it holds the previous checkpoint until the new one is whole.

A local checkpoint is written to a directory beside its place and then exchanged with the previous
one in one operation of the file system. An object store has no such operation: there the tree
structure, without which nothing is loaded, is removed first and written last.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import pathlib
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, cast

from jax._src.array_serialization import specs
from jax._src.array_serialization.ts import tensorstore as ts

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

STRUCTURE_FILE = "pytreedef.json"
ARRAYS_FOLDER = "array_store"
_MANIFEST = f"{ARRAYS_FOLDER}/manifest.ocdbt"
_UNFINISHED = f"{STRUCTURE_FILE}.unfinished"
_PARTS = {STRUCTURE_FILE, ARRAYS_FOLDER}
_ARRAYS_PATTERN = re.compile(r"manifest\..*|d|process_\d+")
_EFFECTIVE_IDS = os.access in os.supports_effective_ids
_LONGEST_NAME = 200  # in bytes; a longer one leaves no room for what is added to it


class Version(NamedTuple):
    """A checkpoint as it was found at some time.

    No two saves have equal versions, since the names of the data files are random and the database
    has them. So if a directory has equal versions before and after it was read, what was read is of
    one checkpoint.
    """

    path: str
    structure: bytes
    database: bytes | None

    @property
    def array_store(self) -> str:
        return f"{self.path}/{ARRAYS_FOLDER}"


def checkpoint_directory(path: str | os.PathLike[str]) -> LocalDirectory | RemoteDirectory:
    """The directory with a path of the local file system, or a URL ``gs://`` or ``s3://``."""
    text = os.fspath(path)
    if isinstance(text, str) and text.startswith(specs.REMOTE_PREFIXES):
        return RemoteDirectory(text)
    if isinstance(text, str) and (url := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text)):
        raise ValueError(
            f"checkpoints are not stored at URLs {url[0]}: got {text!r}. Pass a path of the local"
            f" file system, or a URL {' or '.join(specs.REMOTE_PREFIXES)}."
        )
    given = pathlib.Path(text).expanduser()
    try:
        return LocalDirectory(given.absolute())
    except FileNotFoundError as err:
        raise FileNotFoundError(
            f"the working directory of this program, to which the path {text!r} is relative, no"
            " longer exists. Pass an absolute path."
        ) from err


class LocalDirectory:
    """A checkpoint in a local file system.

    Args:
      path: an absolute path. Its symbolic links are followed.
    """

    def __init__(self, path: pathlib.Path):
        self._given = path
        self._final = path.resolve()
        self.path = str(self._final)
        self._staging: pathlib.Path | None = None
        self._file: BinaryIO | None = None  # becomes the structure's; its lock is that of the save

    # Saving

    def prepare(self, overwrite: bool) -> str:
        """Makes an empty directory for a new checkpoint; leaves the previous one as it is.

        Returns:
          The path of the new directory.

        Raises:
          ValueError: there is a checkpoint and `overwrite` is False.
          RuntimeError: the directory has other files, or cannot be replaced.
          OSError: its parent is missing or read-only, it is a file, or its name is too long.
        """
        final, previous = self._final, _previous(self._final)
        if os.path.ismount(final):
            raise RuntimeError(
                f"{final} is a mount point, which cannot be replaced by a new checkpoint. Save to a"
                f" directory in it, such as {final / 'checkpoint'}."
            )
        self._check_not_in_use()
        with self._explained_errors():
            leftovers = _leftovers(final)
            if previous in leftovers and not _exists(final):  # a crash between two renames
                previous.rename(final)
            if _exists(final):
                self._check_replaceable()
                if any(final.iterdir()) and not overwrite:
                    raise ValueError(
                        f"Files already exist at path: `{final}`, but you specified"
                        " `overwrite=False`"
                    )
            for path in leftovers:
                _remove_if_interrupted(path)
            while self._file is None:
                self._staging = _hidden(final, f".saving{secrets.token_hex(8)}")
                self._staging.mkdir()
                self._file = _locked(self._staging / _UNFINISHED, "xb")
        return str(self._staging)

    def _check_not_in_use(self) -> None:
        """Refuses the working directory: the program would be left in one that is removed."""
        with contextlib.suppress(FileNotFoundError):  # it was removed already
            working = pathlib.Path.cwd()
            if self._final in (working, *working.parents):
                raise RuntimeError(
                    f"{self._final} is, or contains, the working directory of this program, and a"
                    " new checkpoint replaces the whole directory. Save to a directory in it, such"
                    f" as {self._final / 'checkpoint'}."
                )

    def _check_replaceable(self) -> None:
        """Refuses a directory that is no checkpoint or that could not be removed."""
        final = self._final
        if strangers := _strangers(final):
            raise RuntimeError(
                "Refusing to work on a directory that is not a previous checkpoint. Unrecognized"
                f" paths: {strangers}. Remove them manually if you're sure you want to use"
                f" {final} as the checkpoint directory."
            )
        for folder, _, _ in os.walk(final):
            if not os.access(folder, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE_IDS):
                raise PermissionError(
                    errno.EACCES,
                    f"the previous checkpoint {final} could not be removed after the save: no"
                    " permission to write to the directory",
                    folder,
                )

    @contextlib.contextmanager
    def _explained_errors(self) -> Iterator[None]:
        """Adds to an error of the file system what it was about."""
        final, parent = self._final, self._final.parent
        try:
            yield
        except FileNotFoundError as err:
            if parent.is_dir():
                raise
            raise FileNotFoundError(
                err.errno,
                f"cannot save to {final}: there is no directory {parent}. Make it first, with"
                f" os.makedirs({str(parent)!r}, exist_ok=True)",
            ) from err
        except NotADirectoryError as err:
            place = final if parent.is_dir() else parent
            raise NotADirectoryError(
                err.errno, f"cannot save to {final}: {place} is not a directory"
            ) from err
        except OSError as err:
            if err.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            if err.filename not in (str(parent), str(self._staging)):
                raise
            raise OSError(
                err.errno,
                f"cannot save to {final}: the new checkpoint is first written to a directory beside"
                f" it, which cannot be made in {parent}: {err.strerror}",
            ) from err

    def commit(self, structure: bytes) -> None:
        """Puts the new checkpoint in the place of the previous one."""
        final = self._final
        try:
            previous = self._replace(structure)
        except FileNotFoundError as err:
            raise RuntimeError(
                f"what was written for the new checkpoint {final} is not there any more. If another"
                " program saves to the same path, let each save to a path of its own."
            ) from err
        _sync(final.parent)
        if self._file is not None:
            self._file.close()
        if previous is not None:
            try:
                _remove(previous)
            except OSError as err:
                err.add_note(f"The new checkpoint {final} is whole. The old one is in {previous}.")
                raise

    def _replace(self, structure: bytes) -> pathlib.Path | None:
        """Returns where the previous checkpoint is now, if there is one."""
        final, staging = self._final, self._staging
        assert staging is not None and self._file is not None
        self._file.write(structure)
        self._file.flush()
        os.fsync(self._file.fileno())
        os.rename(staging / _UNFINISHED, staging / STRUCTURE_FILE)
        for folder, _, _ in os.walk(staging):
            _sync(folder)
        if not _exists(final):
            staging.rename(final)
            return None
        self._check_replaceable()  # somebody may have put files there in the meantime
        if _exchange(staging, final):
            return staging
        previous = _previous(final)
        final.rename(previous)
        staging.rename(final)
        return previous

    def abandon(self) -> None:
        """Removes what was written of a new checkpoint."""
        previous = _previous(self._final)
        with contextlib.suppress(OSError):  # there is an error already
            if previous.exists() and not _exists(self._final):
                previous.rename(self._final)
            if self._staging is not None:
                _remove(self._staging)
        if self._file is not None:
            self._file.close()

    # Loading

    def find(self) -> Version:
        """The checkpoint that is there now.

        Raises:
          FileNotFoundError: there is none.
          NotADirectoryError: there is a file.
        """
        while True:
            final = self._given.resolve()
            before = _changed(final.parent)
            # It may move from one place to the other while we look.
            for place in (final, _previous(final), final):
                if version := _version(place):
                    return version
            if _changed(final.parent) == before:
                break
        if final.is_dir():
            reason = f"it is not a checkpoint, which would have the file {STRUCTURE_FILE}"
        elif _exists(final):
            raise NotADirectoryError(f"there is no checkpoint to load at {final}: it is a file")
        else:
            reason = "there is no such directory"
        raise FileNotFoundError(f"there is no checkpoint to load at {final}: {reason}")


def _version(path: pathlib.Path) -> Version | None:
    try:
        structure = (path / STRUCTURE_FILE).read_bytes()
        with contextlib.suppress(FileNotFoundError):
            return Version(str(path), structure, (path / _MANIFEST).read_bytes())
        return Version(str(path), structure, None)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _changed(directory: pathlib.Path) -> int | None:
    """When an entry of a directory was last added, removed or renamed; None if it is missing."""
    try:
        return directory.stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None


def _exists(path: pathlib.Path) -> bool:
    """Whether there is anything at a path; unlike in `os.path`, other errors are raised."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _hidden(final: pathlib.Path, suffix: str) -> pathlib.Path:
    """A path beside that of a checkpoint."""
    name = os.fsencode(final.name)
    if len(name) > _LONGEST_NAME:
        return final.parent / f".{hashlib.sha256(name).hexdigest()[:32]}{suffix}"
    return final.parent / f".{final.name}{suffix}"


def _previous(final: pathlib.Path) -> pathlib.Path:
    """Where the previous checkpoint is between two renames."""
    return _hidden(final, ".previous")


def _leftovers(final: pathlib.Path) -> list[pathlib.Path]:
    """What interrupted saves have left beside a checkpoint."""
    pattern = re.escape(_hidden(final, ".saving").name) + "[0-9a-f]+"
    found = [path for path in final.parent.iterdir() if re.fullmatch(pattern, path.name)]
    return [path for path in (*found, _previous(final)) if path.is_dir() and not _strangers(path)]


def _strangers(folder: pathlib.Path) -> list[str]:
    """What is in a directory and is no part of a checkpoint."""
    entries = {entry.name: entry for entry in folder.iterdir()}
    parts = {name for name in (STRUCTURE_FILE, _UNFINISHED) if name in entries}
    parts = {name for name in parts if not entries[name].is_dir()}
    found = [entry for name, entry in entries.items() if name not in parts]
    arrays = entries.get(ARRAYS_FOLDER)
    if arrays is not None and arrays.is_dir():
        found.remove(arrays)
        if not parts:  # a folder that happens to have the name?
            found += [e for e in arrays.iterdir() if not _ARRAYS_PATTERN.fullmatch(e.name)]
    return sorted(map(str, found))


def _locked(path: pathlib.Path, mode: str) -> BinaryIO | None:
    """Opens a file that other programs then cannot lock; None if one has locked or removed it."""
    try:
        file = cast(BinaryIO, open(path, mode))
    except FileNotFoundError:
        return None
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            removed = not os.path.samestat(os.fstat(file.fileno()), path.stat())
        except (BlockingIOError, FileNotFoundError):
            removed = True
        except OSError:  # the file system has no locks: then only one program may save
            removed = False
        if removed:
            file.close()
            return None
    return file


def _remove_if_interrupted(folder: pathlib.Path) -> None:
    """Removes what a save has left, unless the save goes on in another program."""
    for name in (_UNFINISHED, STRUCTURE_FILE):  # a save renames the one to the other
        if (folder / name).exists():
            if (file := _locked(folder / name, "r+b")) is not None:
                with file:
                    _remove(folder)
            return
    if (folder / ARRAYS_FOLDER).exists():  # a save that goes on has one of the files as well
        _remove(folder)
    else:
        with contextlib.suppress(OSError):  # it has just been made, and is not empty any more
            folder.rmdir()


def _remove(folder: pathlib.Path) -> None:
    """Removes a directory, also if another program does so at the same time."""
    for path, folders, files in os.walk(folder, topdown=False):
        for name in files:
            _remove_one(os.unlink, os.path.join(path, name))
        for name in folders:
            entry = os.path.join(path, name)
            _remove_one(os.unlink if os.path.islink(entry) else os.rmdir, entry)
    _remove_one(os.rmdir, folder)


def _remove_one(function: Callable[[Any], None], path: str | pathlib.Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        function(path)


def _sync(directory: str | pathlib.Path) -> None:
    """Makes renames and new files of a directory outlast a crash of the machine."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# What errors of renameat2 say that the file system or the kernel cannot exchange.
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def _exchange(path1: pathlib.Path, path2: pathlib.Path) -> bool:
    """Exchanges two directories at once; False if the file system cannot do it."""
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):  # an older C library
        return False
    at_cwd, exchange = -100, 2
    names = os.fsencode(path1), os.fsencode(path2)
    if library.renameat2(at_cwd, names[0], at_cwd, names[1], exchange):
        code = ctypes.get_errno()
        if code in _NO_EXCHANGE:
            return False
        raise OSError(code, os.strerror(code), str(path1), None, str(path2))
    return True


class RemoteDirectory:
    """A checkpoint in an object store, or in any key-value store of tensorstore."""

    def __init__(self, path: str):
        self.path = path.rstrip("/")
        self._kvstore = specs.base_kvstore(self.path + "/")
        self._open_store: Any = None

    @property
    def _store(self) -> Any:
        if self._open_store is None:
            self._open_store = ts.KvStore.open(self._kvstore).result()
        return self._open_store

    def prepare(self, overwrite: bool) -> str:
        """Removes the previous checkpoint, its tree structure first; returns the path."""
        store = self._store
        keys = [key.decode(errors="replace") for key in store.list().result()]
        if strangers := sorted(k for k in keys if k.split("/")[0] not in _PARTS):
            raise RuntimeError(
                "Refusing to work on a directory that is not a previous checkpoint. Unrecognized"
                f" paths: {strangers[:10]}. Remove them manually if you're sure you want to use"
                f" {self.path} as the checkpoint directory."
            )
        if keys and not overwrite:
            raise ValueError(
                f"Files already exist at path: `{self.path}`, but you specified `overwrite=False`"
            )
        store.write(STRUCTURE_FILE, None).result()
        store.delete_range(ts.KvStore.KeyRange()).result()
        return self.path

    def commit(self, structure: bytes) -> None:
        self._store.write(STRUCTURE_FILE, structure).result()

    def abandon(self) -> None:
        """Leaves what was written: without a tree structure it is no checkpoint."""

    def find(self) -> Version:
        """The checkpoint that is there now; raises FileNotFoundError if there is none."""
        structure = self._read(STRUCTURE_FILE)
        if structure is None:
            raise FileNotFoundError(f"there is no checkpoint to load at {self.path}")
        return Version(self.path, structure, self._read(_MANIFEST))

    def _read(self, key: str) -> bytes | None:
        found = self._store.read(key).result()
        return bytes(found.value) if found.state == "value" else None
