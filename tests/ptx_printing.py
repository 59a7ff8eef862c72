"""What programs print that compile kernels for GPUs that are not there: tests run them, as PTX is printed to stdout."""

import os
import subprocess
import sys

MARK = "// kernel: "


def announce(name):
    """Print a line before the PTX of a kernel."""
    print(f"{MARK}{name}", flush=True)


def print_ptx():
    """Have the compiler print the PTX of each kernel."""
    os.environ["MOSAIC_GPU_DUMP_PTX"] = "1"


def printed(program, names, timeout=600):
    """What a program prints that is given names of kernels.

    Args:
      program: the module that is run as a program.
      names: the names.
      timeout: seconds that it may take.
    """
    command = [sys.executable, program.__file__, *names]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ptx_by_name(program, names):
    """The PTX of kernels by name, of a program that announces each; see `printed`."""
    parts = [p.partition("\n") for p in printed(program, names).split(MARK)[1:]]
    return {name: ptx for name, _, ptx in parts}
