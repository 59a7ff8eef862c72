"""Exported programs that this jax and the oracle have written: a promise to read them later.

    PYTHON tests/export_files.py write NAME      tests/testdata/exported_NAME.zip: `own` with this jax,
                                                 `oracle` with .oracle/bin/python
    PYTHON tests/export_files.py digests NAME    a line for each program: its results, as a checksum

The checksums of both on one machine are the same, to the last bit. export_scenarios.py reads both files.
"""

import hashlib
import pathlib
import sys
import zipfile

import numpy as np

import jax
from jax import export

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass

from export_programs import GROUPS, exported, run

TESTDATA = pathlib.Path(__file__).absolute().parent / "testdata"
_EPOCH = (2026, 1, 1, 0, 0, 0)


def archive(name):
    return TESTDATA / f"exported_{name}.zip"


def write(name):
    with zipfile.ZipFile(archive(name), "w", zipfile.ZIP_DEFLATED) as file:
        for group, programs in GROUPS.items():
            for program, (fun, args, options) in programs.items():
                data = exported(fun, args, options).serialize(options.get("vjp_order", 0))
                info = zipfile.ZipInfo(f"{group}/{program}", _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                file.writestr(info, bytes(data))


def read(name, group):
    """The results of all programs of a group, by name."""
    with zipfile.ZipFile(archive(name)) as file:
        return {
            program: run(export.deserialize(file.read(f"{group}/{program}")), args, options)
            for program, (_, args, options) in GROUPS[group].items()
        }


def digests(name):
    for group in GROUPS:
        for program, results in read(name, group).items():
            leaves, tree = jax.tree.flatten(results)
            hashed = hashlib.sha256(str(tree).encode())
            for a in map(np.asarray, leaves):
                hashed.update(f"{a.dtype}{a.shape}".encode() + a.tobytes())
            print(group, program, hashed.hexdigest())


if __name__ == "__main__":
    {"write": write, "digests": digests}[sys.argv[1]](sys.argv[2])
