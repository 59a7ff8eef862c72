"""The rows of primitive_rows.py are of all primitives."""

import json
import subprocess
import sys

from primitive_rows import ROWS, WITHOUT_ROW

LIST_PRIMITIVES = """
import gc, importlib, json, pkgutil
import jax, jax._src
from jax._src import core
for module in pkgutil.walk_packages(jax._src.__path__, "jax._src."):
    importlib.import_module(module.name)
print(json.dumps(sorted({p.name for p in gc.get_objects() if isinstance(p, core.Primitive)})))
"""


def test_every_primitive_has_a_row():
    result = subprocess.run(
        [sys.executable, "-c", LIST_PRIMITIVES], capture_output=True, text=True, check=True
    )
    rows = {row.name for row in ROWS}
    names = set(json.loads(result.stdout.splitlines()[-1]))
    missing = sorted(names - rows - set(WITHOUT_ROW))
    assert not missing, f"{missing} need rows in tests/primitive_rows.py"
    assert not set(WITHOUT_ROW) & rows
