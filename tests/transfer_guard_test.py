"""Transfer guards beside the reference, and where fewer transfers are made here."""

import numpy as np
from op_testing import case_tests
from transfer_guard_scenarios import logged, put, sharding

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)


def test_what_needs_no_transfer():
    x, shards, i = put(), put(sharding("x")), jnp.arange(2)
    f = jax.shard_map(lambda a: a + 1, mesh=shards.sharding.mesh, in_specs=P("x"), out_specs=P("x"))
    programs = (lambda: x[i], lambda: jnp.eye(3), lambda: f(shards))
    for run in programs:
        run()
    with jax.transfer_guard("disallow_explicit"):
        assert [logged(run) for run in programs] == ["", "", ""]


def test_callbacks():
    x = put()
    f = lambda x: jax.pure_callback(lambda a: np.asarray(a), x, x)
    f(x)
    with jax.transfer_guard("disallow"):
        np.testing.assert_array_equal(f(x), x)
        jax.debug.callback(lambda a: None, x)
