"""Paths of files that may be in cloud storage: a module that outside code imports."""

from __future__ import annotations

import os
import pathlib
from typing import Any

try:
    from etils import epath
except ImportError:
    epath = None

epath_installed = epath is not None
# `etils.epath.Path`, which knows cloud storage too, if that package is installed.
Path: Any = pathlib.Path if epath is None else epath.Path


def make_jax_dump_dir(out_dir_name: str) -> Any:
    """Creates the folder of dumps of this name.

    Args:
      out_dir_name: a path; "sponge" means the folder in `TEST_UNDECLARED_OUTPUTS_DIR`, and "" none.

    Returns:
      The path, or None.

    Raises:
      ValueError: if the name is "sponge", and the variable is not set.
    """
    if not out_dir_name:
        return None
    if out_dir_name == "sponge":
        out_dir_name = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", "")
        if not out_dir_name:
            raise ValueError(
                "Got output directory (e.g., via JAX_DUMP_IR_TO) 'sponge' but "
                "TEST_UNDECLARED_OUTPUTS_DIR is not defined."
            )
    folder = Path(out_dir_name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
