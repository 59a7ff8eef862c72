"""Random programs in `shard_map` agree with the same programs in `vmap`, also when differentiated."""

import numpy as np
import pytest
from random_programs import VECTOR, random_program
from random_ref_programs import random_ref_program

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, core, test_util as jtu, xla_bridge as xb
from jax.sharding import AxisType, PartitionSpec as P

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

ROWS = (np.stack([VECTOR * s for s in (1.0, 0.5, -0.3, 0.8)])).astype(np.float32)
PROGRAMS = [(random_program, seed) for seed in (0, 3, 5)] + [
    (lambda seed, depth: random_ref_program(seed, depth)[0], seed) for seed in (1,)
]


def needs_reverse_mode(err):
    return "forward-mode" in str(err)


@pytest.mark.parametrize("make, seed", PROGRAMS)
def test_programs_with_collectives(make, seed):
    devices = xb.devices("cpu")
    if len(devices) < 8:
        pytest.skip("needs 8 CPU devices")
    f = make(seed, depth=2)

    def body(x):
        """A program on one row, of which each device has one."""
        y = f(x - lax.pmean(x, "x") / 4)
        z = f(lax.ppermute(y, "x", [(i, (i + 1) % 4) for i in range(4)]) / 2)
        return y + lax.psum(jnp.sin(z), "x") * lax.axis_index("x")

    mesh = jax.sharding.Mesh(np.array(devices[:8]).reshape(4, 2), ("x", "y"), (AxisType.Auto,) * 2)

    def mapped(**options):
        return jax.shard_map(
            lambda x: body(x[0])[None], mesh=mesh, in_specs=P("x"), out_specs=P("x"), **options
        )

    want = jax.vmap(body, axis_name="x")
    total = lambda g: lambda x: jnp.sum(jnp.sin(g(x)))

    def results(g):
        return lambda x: [
            g(x),
            jax.grad(total(g))(x),
            jax.grad(total(jax.checkpoint(g)))(x),
            jax.vjp(jax.vmap(g), jnp.stack([x, x / 2]))[1](jnp.ones((2, 4, 3)))[0],
        ]

    expected = jax.jit(results(want))(ROWS)
    for options in ({}, {"check_vma": False, "axis_names": {"x"}}):
        g = mapped(**options)
        jaxpr = jax.make_jaxpr(jax.grad(total(g)))(ROWS)
        core.check_jaxpr(jaxpr.jaxpr)
        for got, reference in zip(jax.jit(results(g))(ROWS), expected):
            np.testing.assert_allclose(got, reference, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(mapped()(ROWS), expected[0], rtol=2e-4, atol=2e-5)
    try:
        tangents = jax.jit(lambda x: jax.jvp(want, (x,), (x,))[1])(ROWS)
    except TypeError as err:  # a `custom_vjp` function
        assert needs_reverse_mode(err), err
        return
    got = jax.jit(lambda x: jax.jvp(mapped(), (x,), (x,))[1])(ROWS)
    np.testing.assert_allclose(got, tangents, rtol=2e-4, atol=2e-5)


if __name__ == "__main__":
    jtu.absltest.main()
