"""Every primitive in an exported module, for the four platforms at once."""

import numpy as np
import pytest
from absl.testing import absltest
from export_rows import PLATFORMS, arguments, is_refused, is_run
from primitive_rows import ROWS

import jax
from jax import export
from jax._src import test_util as jtu

jtu.request_cpu_devices(8)


def data(a):
    return np.asarray(jax.random.key_data(a) if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key) else a)  # fmt: skip


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
