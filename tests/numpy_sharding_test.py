"""`device` and `out_sharding` arguments of jax.numpy, and of `x.at[...]`, in explicit mode."""

import numpy as np
from absl.testing import absltest, parameterized

import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
from jax._src import config, xla_bridge as xb
from jax.scipy.interpolate import RegularGridInterpolator
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

X = np.arange(32.0, dtype=np.float32).reshape(4, 8)
ROWS = np.array([0, 2])


def mesh():
    found = xb.devices("cpu")
    if len(found) < 4:
        raise absltest.SkipTest("needs 4 CPU devices")
    return Mesh(np.array(found[:4]).reshape(2, 2), ("x", "y"), (AxisType.Explicit,) * 2)


UPDATES = {
    "row": lambda x, **kw: x.at[0].set(1, **kw),
    "rows": lambda x, **kw: x.at[ROWS].add(jnp.arange(8.0), **kw),
    "slice": lambda x, **kw: x.at[1:3].multiply(2.0, **kw),
    "column": lambda x, **kw: x.at[:, 2].max(9.0, **kw),
    "mask": lambda x, **kw: x.at[np.array([True, False, False, True])].divide(2.0, **kw),
}
READS = {
    "rows": lambda x, **kw: x.at[ROWS].get(**kw),
    "slice": lambda x, **kw: x.at[0:2].get(**kw),
    "pairs": lambda x, **kw: x.at[ROWS[:, None], ROWS].get(**kw),
    "fill": lambda x, **kw: x.at[np.array([1, 7])].get(mode="fill", fill_value=3.0, **kw),
}


class AtTest(parameterized.TestCase):
    @parameterized.product(name=list(UPDATES), spec=[P("x", "y"), P(None, "y"), P("y")])
    def test_update(self, name, spec):
        update = UPDATES[name]
        with jax.set_mesh(mesh()):
            x = jax.device_put(X, P("x", "y"))
            for run in (update, jax.jit(update, static_argnames="out_sharding")):
                out = run(x, out_sharding=spec)
                self.assertEqual(jax.typeof(out).sharding.spec, P(*spec, *[None] * (2 - len(spec))))
                np.testing.assert_allclose(out, update(jnp.asarray(X)), rtol=1e-6)
            grad = jax.grad(lambda x: update(x, out_sharding=spec).sum())(x)
            self.assertEqual(jax.typeof(grad).sharding.spec, P("x", "y"))
        want = jax.grad(lambda x: update(x).sum())(X)
        np.testing.assert_allclose(grad, want, rtol=1e-6)

    @parameterized.product(name=list(READS), spec=[P("x", "y"), P(None, "x")])
    def test_read(self, name, spec):
        read = READS[name]
        with jax.set_mesh(mesh()):
            out = read(jax.device_put(X, P("x", "y")), out_sharding=spec)
            self.assertEqual(jax.typeof(out).sharding.spec, spec)
        np.testing.assert_array_equal(out, read(jnp.asarray(X)))

    def test_ambiguous_update(self):
        with jax.set_mesh(mesh()), self.assertRaisesRegex(Exception, "out_sharding"):
            UPDATES["rows"](jax.device_put(X, P("x", "y")))

    def test_wrong_sharding(self):
        x = jnp.asarray(X)
        with self.assertRaisesRegex(TypeError, "only supports instances of `NamedSharding`"):
            x.at[0].set(1.0, out_sharding="x")
        with self.assertRaisesRegex(ValueError, "mesh"):
            x.at[0].set(1.0, out_sharding=P("x"))


MAKE = {
    "zeros": lambda d: jnp.zeros((4, 2), device=d),
    "full": lambda d: jnp.full((4, 2), 1.5, device=d),
    "full_of_array": lambda d: jnp.full((4, 2), np.ones(2), device=d),
    "ones_like": lambda d: jnp.ones_like(np.zeros((4, 2)), device=d),
    "arange": lambda d: jnp.arange(4, device=d),
    "asarray": lambda d: jnp.asarray(np.ones((4, 2)), device=d),
    "eye": lambda d: jnp.eye(4, device=d),
    "linspace": lambda d: jnp.linspace(0, 1, 4, device=d),
}


class DeviceTest(parameterized.TestCase):
    @parameterized.parameters(*MAKE)
    def test_named_sharding_of_explicit_mesh(self, name):
        sharding = NamedSharding(mesh(), P("x"))
        plain = MAKE[name](None)
        out = MAKE[name](sharding)
        self.assertTrue(out.sharding.is_equivalent_to(sharding, out.ndim))
        np.testing.assert_array_equal(out, plain)
        with jax.set_mesh(sharding.mesh):
            self.assertTrue(MAKE[name](sharding).sharding.is_equivalent_to(sharding, out.ndim))

    @parameterized.parameters(*MAKE)
    def test_mesh_of_one_device(self, name):
        one = Mesh(np.array(xb.devices("cpu")[:1]), ("x",), (AxisType.Explicit,))
        with jax.set_mesh(one):
            self.assertEqual(MAKE[name](None).devices(), {xb.devices("cpu")[0]})
            self.assertEqual((MAKE[name](None) + 1).sharding.mesh, one)

    @parameterized.parameters(*MAKE)
    def test_device(self, name):
        device = xb.devices("cpu")[-1]
        self.assertEqual(MAKE[name](device).devices(), {device})
        np.testing.assert_array_equal(jax.jit(lambda: MAKE[name](device))(), MAKE[name](None))

    @parameterized.parameters(*MAKE)
    def test_no_device(self, name):
        with self.assertRaisesRegex((TypeError, ValueError), "'cpu'|cpu"):
            MAKE[name]("cpu")


# Functions of rows, which keep the sharding of their first dimension.
BY_ROW = {
    "searchsorted": lambda x: jnp.searchsorted(ROWS * 7.5, x),
    "searchsorted_right": lambda x: jnp.searchsorted(ROWS * 7.5, x, side="right"),
    "digitize": lambda x: jnp.digitize(x, ROWS * 7.5),
    "interp": lambda x: jnp.interp(x, ROWS * 7.5, ROWS + 1.0),
    "interpolator": lambda x: RegularGridInterpolator([ROWS * 7.5], ROWS + 1.0)(x[:, :1] / 3),
    "rankdata": lambda x: stats.rankdata(x % 5, axis=1),
    "rankdata_dense": lambda x: stats.rankdata(x % 5, axis=1, method="dense"),
    "mode": lambda x: stats.mode(x % 5, axis=1),
}


class ByRowTest(parameterized.TestCase):
    @parameterized.parameters(*BY_ROW)
    def test_keeps_the_sharding(self, name):
        fun = jax.jit(BY_ROW[name])
        with jax.set_mesh(mesh()):
            found = jax.tree.leaves(fun(jax.device_put(X, P("x"))))
        for out, want in zip(found, jax.tree.leaves(fun(X)), strict=True):
            self.assertEqual(jax.typeof(out).sharding.spec[0], "x")
            np.testing.assert_allclose(out, want, rtol=1e-6)


if __name__ == "__main__":
    absltest.main()
