"""The folder of a user's compiled programs, which nobody else may write to: what is loaded from it is run."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# Where an option has no limit: some thousand programs of usual sizes.
MAX_BYTES = 4 << 30


def folder() -> str:
    """The folder, by the system's conventions; it need not exist."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        # A relative path is to be ignored, by the XDG Base Directory Specification.
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        base = base if base.is_absolute() else Path.home() / ".cache"
    return str(base / "jax" / "compiled")


def is_folder(path: str) -> bool:
    """Whether a path is that of the folder."""
    try:
        return path == folder()
    except RuntimeError:  # this user has no home
        return False


def make(path: Path) -> None:
    """Makes the folder, for this user alone.

    Raises:
      PermissionError: it is there, and others own it or may write to it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    if not hasattr(os, "geteuid"):
        return
    found = path.stat()
    if found.st_uid != os.geteuid() or found.st_mode & _WRITTEN_BY_OTHERS:
        raise PermissionError(
            f"{path} may be written to by others than this user, and compiled programs are run. `chmod go-w {path}`, "
            "or set jax_compilation_cache_dir to another folder."
        )
