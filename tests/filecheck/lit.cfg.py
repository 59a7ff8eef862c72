"""How lit runs the files of this folder: each prints programs, and FileCheck compares them with its comments."""

import os
import sys
from pathlib import Path

import lit.formats

config.name = "filecheck"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".filecheck.py"]  # noqa: F821
config.test_source_root = str(Path(__file__).parent)  # noqa: F821
config.environment.update(os.environ)  # noqa: F821
config.substitutions += [  # noqa: F821
    ("%python", sys.executable),
    ("%filecheck", f"{sys.executable} -m filecheck"),
]
