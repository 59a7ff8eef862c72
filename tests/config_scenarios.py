"""The options with their defaults, and which of them are traced: config_test.py compares those that the oracle has."""

import os
import subprocess
import sys

from op_cases import Case

PROGRAM = """
import json, jax
from jax._src import config
values = config.config.values
print(json.dumps({k: str(v) for k, v in values.items()}))
print(json.dumps(sorted({n for n in config.trace_context_names() if n in values})))
"""


def options():
    """In a process of its own, where no test has changed one."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "PYTHON"))}
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-P", "-c", PROGRAM]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


CASES = [Case("options", options, program=True)]
