"""Every primitive in an exported module, for the four platforms at once."""

import zlib

import numpy as np
import pytest
from absl.testing import absltest
from primitive_rows import ROWS

import jax
from jax import export
from jax._src import test_util as jtu

jtu.request_cpu_devices(8)

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
# Primitives that call native functions without a stability promise.
UNSTABLE_ON_CPU = {"layout_constraint", "geqp3", "ormqr"}
UNSTABLE = UNSTABLE_ON_CPU | {
    "block_scaled_dot", "cholesky_update", "tridiagonal_solve", "symmetric_product"
}  # fmt: skip
# Primitives that not every platform has.
ABSENT = {"geqp3", "eig", "hessenberg", "schur", "tridiagonal"}
RUN_ONE_IN = 8


def arguments(row):
    narrow = lambda a: a.astype(np.float32) if a.dtype == np.float64 else a
    return [narrow(np.asarray(a)) for a in row.args]


def data(a):
    return np.asarray(jax.random.key_data(a) if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key) else a)  # fmt: skip


def is_run(row):
    return zlib.crc32(row.name.encode()) % RUN_ONE_IN == 0


def is_refused(row, platforms):
    if len(platforms) == 1:
        return row.name in UNSTABLE_ON_CPU
    return row.name in UNSTABLE | ABSENT


@pytest.mark.parametrize("platforms", [PLATFORMS, ("cpu",)], ids=len)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_primitive(row, platforms):
    args = arguments(row)
    exporting = lambda: export.export(jax.jit(row.call), platforms=platforms)(*args)
    if is_refused(row, platforms):
        with pytest.raises((ValueError, NotImplementedError)):
            exporting()
        return
    program = export.deserialize(exporting().serialize())
    assert program.platforms == platforms
    if is_run(row):
        found, expected = map(jax.tree.leaves, (program.call(*args), jax.jit(row.call)(*args)))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(data(a), data(b), rtol=2e-5, atol=1e-5)


if __name__ == "__main__":
    absltest.main()
