"""Random programs on arrays with explicitly sharded types: batches and derivatives keep them."""

import numpy as np
import pytest
from random_programs import VECTOR, random_program
from random_ref_programs import random_ref_program

import jax
from jax._src import config, core, test_util as jtu, xla_bridge as xb
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

BATCH = np.stack([VECTOR, VECTOR / 2]).astype(np.float32)
PROGRAMS = [(random_program, seed) for seed in (0, 3, 5, 7)] + [
    (lambda seed, depth: random_ref_program(seed, depth)[0], seed) for seed in (1, 4)
]


@pytest.mark.parametrize("make, seed", PROGRAMS)
def test_types_and_values(make, seed):
    devices = xb.devices("cpu")
    if len(devices) < 2:
        pytest.skip("needs 2 CPU devices")
    f = make(seed, depth=2)
    total = lambda x: f(x).sum()
    of_batch = [jax.vmap(f), jax.vmap(jax.grad(total)), jax.grad(lambda b: jax.vmap(f)(b).sum())]
    mesh = jax.sharding.Mesh(np.array(devices[:2]), ("x",), (AxisType.Explicit,))
    with jax.set_mesh(mesh):
        batch = jax.device_put(BATCH, NamedSharding(mesh, P("x")))
        vector = jax.device_put(VECTOR.astype(np.float32), NamedSharding(mesh, P()))
        for g, x in [*[(g, batch) for g in of_batch], (f, vector), (jax.grad(total), vector)]:
            jaxpr = jax.make_jaxpr(g)(x)
            core.check_jaxpr(jaxpr.jaxpr)
            assert [str(a) for a in jaxpr.out_avals] == [str(jax.typeof(x))]
        got = jax.jit(jax.vmap(jax.grad(total)))(batch)
        assert got.sharding.spec[0] == "x"
    want = jax.jit(jax.vmap(jax.grad(total)))(BATCH)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    jtu.absltest.main()
