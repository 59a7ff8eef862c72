"""The rows of primitives in exported modules: their arguments, and which are refused."""

import os
import zlib

import numpy as np

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
# Primitives that call native functions without a stability promise.
UNSTABLE_ON_CPU = {"layout_constraint", "geqp3", "ormqr"}
UNSTABLE = UNSTABLE_ON_CPU | {
    "block_scaled_dot", "cholesky_update", "tridiagonal_solve", "symmetric_product"
}  # fmt: skip
# Primitives that not every platform has.
ABSENT = {"geqp3", "eig", "hessenberg", "schur", "tridiagonal"}
RUN_ONE_IN = int(os.environ.get("EXPORT_RUN_ONE_IN", "8"))  # 1: the results of all are checked


def arguments(row):
    narrow = lambda a: a.astype(np.float32) if a.dtype == np.float64 else a
    return [narrow(np.asarray(a)) for a in row.args]


def is_run(row):
    return zlib.crc32(row.name.encode()) % RUN_ONE_IN == 0


def is_refused(row, platforms):
    if len(platforms) == 1:
        return row.name in UNSTABLE_ON_CPU
    return row.name in UNSTABLE | ABSENT
