"""Types over manual axes beside the reference; and every primitive in shard_map gives the values of the whole program."""

import numpy as np
import pytest
from op_testing import case_tests
from primitive_rows import ROWS, Row

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, xla_bridge as xb
from jax.sharding import AxisType, PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)


@pytest.fixture(scope="module")
def mesh():
    if len(xb.devices("cpu")) < 4:
        pytest.skip("needs 4 CPU devices")
    return jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


# Primitives that do not take shards, and why.
WITHOUT = {
    "device_put": "places whole arrays",
    "shard_map": "would be nested: shard_map_test.py",
    "sharding_constraint": "constrains whole arrays",
    "custom_partitioning": "divides whole arrays",
    "layout_constraint": "constrains whole arrays",
}
# Loops, whose initial values must vary if the body makes them vary.
LOOPS = ("scan", "while", "cumulative_loop")
HERE = [row for row in ROWS if row.name not in WITHOUT]
TOGETHER = 10  # to compile few programs


def variants(row: Row):
    """Which operands vary: none, all, or one."""
    n = len(row.args)
    yield (False,) * n
    yield (True,) * n
    if n > 1 and row.name not in LOOPS:
        for i in range(n):
            yield tuple(i == j for j in range(n))


def on_all_devices(y):
    missing = tuple({"x", "y"} - jax.typeof(y).vma)
    return (lax.pcast(y, missing, to="varying") if missing else y)[None]


def as_numbers(y):
    if jnp.issubdtype(y.dtype, jax.dtypes.prng_key):
        y = jax.random.key_data(y)
    y = np.asarray(y)
    kind = np.complex128 if np.issubdtype(y.dtype, np.complexfloating) else np.float64
    return y if y.dtype == jax.float0 else y.astype(kind)


@pytest.mark.parametrize("start", range(0, len(HERE), TOGETHER))
def test_every_primitive(start, mesh):
    """Values are those of the whole program, and vary where an operand does, at most."""
    rows = HERE[start : start + TOGETHER]
    varies = {}

    def run(all_args):
        outs = []
        for row, args in zip(rows, all_args):
            for marks in variants(row):
                xs = [lax.pcast(x, "x", to="varying") if v else x for x, v in zip(args, marks)]
                results = jax.tree.leaves(row.call(*xs))
                varies[row.name, marks] = [jax.typeof(y).vma for y in results]
                outs.append([on_all_devices(y) for y in results])
        return outs

    with jax.enable_x64(True):
        args = [list(row.args) for row in rows]
        f = jax.shard_map(run, mesh=mesh, in_specs=P(), out_specs=P(("x", "y")))
        outs = jax.jit(f)(args)
        wants = jax.jit(lambda args: [jax.tree.leaves(r.call(*a)) for r, a in zip(rows, args)])(
            args
        )
    by_name = {row.name: want for row, want in zip(rows, wants)}
    for ((name, marks), vmas), results in zip(varies.items(), outs):
        where = f"{name}, operands that vary: {marks}"
        assert all(vma <= ({"x"} if any(marks) else set()) for vma in vmas), where
        assert len(results) == len(by_name[name]), where
        for y, w in zip(results, by_name[name]):
            assert y.shape == (4, *w.shape) and y.dtype == w.dtype, where
            y, w = as_numbers(y), as_numbers(w)
            if w.dtype != jax.float0:
                w = np.broadcast_to(w, y.shape)
                np.testing.assert_allclose(y, w, rtol=1e-12, atol=1e-12, err_msg=where)


def program(x, w):
    """A value of each device, through loops, branches and calls that use both arguments."""
    y, _ = lax.scan(lambda c, r: (jnp.sin(c * w) + r, c), x * w, jnp.stack([x, w, x]))
    y = lax.cond(w.sum() > 0, lambda: y * w, lambda: y - x)
    y = jax.checkpoint(lambda y: jnp.tanh(y * w))(y)
    y = y + jax.jit(lambda x: lax.map(lambda r: r * w, x))(y).sum(0)
    y = jax.vmap(lambda r, u: r + u.at[0].set(2 * u[1]), (None, 0))(y, jnp.outer(x, w)).sum(0)
    return lax.fori_loop(0, 2, lambda i, c: c * w + x[i], y) * jnp.linalg.solve(jnp.diag(2 + w), x)


@pytest.mark.parametrize("specs", [(P("x"), P()), (P(), P("x")), (P("x"), P("x")), (P(), P())])
def test_derivatives_of_programs(specs, mesh):
    """Cotangents of values that do not vary are summed over the devices, once."""
    args = [np.linspace(0.3, 0.9, 3), np.linspace(0.8, 0.5, 3)]
    args = [np.stack([a, a + 0.2]) if s == P("x") else a for a, s in zip(args, specs)]
    at = lambda d, xs: [x[d] if s == P("x") else x for x, s in zip(xs, specs)]

    def body(*xs):
        y = program(*at(0, xs))
        return (y if jax.typeof(y).vma else lax.pcast(y, "x", to="varying"))[None]

    mapped = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("x"))
    whole = lambda *xs: jnp.stack([program(*at(d, xs)) for d in range(2)])
    with jax.enable_x64(True):
        weights = np.array([[1.0, 2.0, -1.0], [0.5, -3.0, 1.5]])

        def derivatives(f):
            out, pull = jax.vjp(f, *args)
            return out, pull(weights), jax.jvp(f, args, [np.cos(a) for a in args])[1]

        got, want = (jax.jit(lambda f=f: derivatives(f))() for f in (mapped, whole))
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-12)
