"""Settings of every test run. This file also puts the checkout on `sys.path`, for pytest on its own."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent
ORACLE = ROOT / ".oracle" / "bin" / "python"

if ORACLE.exists():
    os.environ.setdefault("JAX_ORACLE_PYTHON", str(ORACLE))
# Most of a run's time goes into compiling small programs that run once. Their machine code need not be fast; what
# XLA does before stays the same. With 0, tests are compiled as users' programs are.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# what a test starts in a process of its own imports this checkout too
os.environ["PYTHONPATH"] = os.pathsep.join(
    dict.fromkeys([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
)


@pytest.fixture
def checkout() -> Path:
    return ROOT
