"""Shardings as part of types: reshard, with_sharding_constraint, auto_axes, explicit_axes."""

import math

import numpy as np
from absl.testing import absltest, parameterized

import jax
from jax import lax
from jax._src import config, xla_bridge as xb
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
    SingleDeviceSharding,
    auto_axes,
    explicit_axes,
    reshard,
)

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

AUTO, EXPLICIT, MANUAL = AxisType
X = np.arange(16, dtype=np.float32).reshape(8, 2)


def mesh(*axis_types, shape=(4, 2)):
    found = xb.devices("cpu")
    if math.prod(shape) > len(found):
        raise absltest.SkipTest(f"needs {math.prod(shape)} CPU devices")
    return Mesh(np.array(found[: math.prod(shape)]).reshape(shape), ("x", "y"), axis_types)


def explicit():
    return mesh(EXPLICIT, EXPLICIT)


def auto():
    return mesh(AUTO, AUTO)


def mixed():
    return mesh(EXPLICIT, AUTO)


def put(the_mesh, spec):
    return jax.device_put(X, NamedSharding(the_mesh, spec))


class ReshardTest(parameterized.TestCase):
    @parameterized.parameters((P(),), (P("x"),), (P(None, "y"),), (P(("x", "y")),), (P("y", None),))
    def test_values_and_types(self, spec):
        with jax.set_mesh(explicit()):
            for x in (X, put(explicit(), P("x")), put(explicit(), P("y", None))):
                for f in (reshard, jax.jit(reshard, static_argnums=1)):
                    out = f(x, spec)
                    np.testing.assert_array_equal(out, X)
                    self.assertEqual(
                        jax.typeof(out).sharding.spec, spec._normalized_spec_for_aval(2)
                    )
                    self.assertTrue(
                        out.sharding.is_equivalent_to(NamedSharding(explicit(), spec), 2)
                    )

    def test_without_a_mesh_in_context(self):
        y = put(explicit(), P("x"))
        out = reshard(y, NamedSharding(explicit(), P("y")))
        self.assertEqual(str(jax.typeof(out)), "float32[8@y,2]")
        with self.assertRaisesRegex(ValueError, "not under a mesh context"):
            reshard(y, P("x"))
        out = jax.jit(lambda x: reshard(x, NamedSharding(explicit(), P("y"))))(X)
        self.assertEqual(str(jax.typeof(out)), "float32[8@y,2]")

    def test_trees(self):
        with jax.set_mesh(explicit()):
            out = reshard({"a": X, "b": [X, X]}, {"a": P("x"), "b": P("y")})
            specs = jax.tree.map(lambda x: jax.typeof(x).sharding.spec[0], out)
            self.assertEqual(specs, {"a": "x", "b": ["y", "y"]})
            with self.assertRaisesRegex(ValueError, "must be a tree prefix"):
                reshard([X, X], [P("x")])

    def test_scalars(self):
        with jax.set_mesh(explicit()):
            self.assertEqual(str(jax.typeof(reshard(2, P()))), "~int32[]")

    def test_jaxpr(self):
        with jax.set_mesh(explicit()):
            jaxpr = jax.make_jaxpr(lambda x: reshard(x, P(None, "y")))(put(explicit(), P("x")))
        self.assertEqual(
            str(jaxpr), "{ lambda ; a:f32[8@x,2]. let b:f32[8,2@y] = reshard a in (b,) }"
        )

    def test_lowering(self):
        with jax.set_mesh(explicit()):
            text = (
                jax.jit(lambda x: reshard(x, P(None, "y"))).lower(put(explicit(), P("x"))).as_text()
            )
        self.assertIn('sdy.sharding_constraint %arg0 <@mesh, [{}, {"y"}]>', text)

    def test_derivatives(self):
        with jax.set_mesh(explicit()):
            y = put(explicit(), P("x"))
            f = lambda x: reshard(lax.mul(x, x), P(None, "y"))
            out, tangent = jax.jvp(f, (y,), (y,))
            self.assertEqual(str(jax.typeof(tangent)), "float32[8,2@y]")
            np.testing.assert_array_equal(tangent, 2 * X * X)
            (ct,) = jax.vjp(f, y)[1](out)
            self.assertEqual(str(jax.typeof(ct)), "float32[8@x,2]")
            np.testing.assert_array_equal(ct, 2 * X * X * X)
            (ct,) = jax.vjp(f, jax.device_put(X))[1](out)  # no sharding in this type
            self.assertEqual(str(jax.typeof(ct)), "float32[8,2]")
            np.testing.assert_array_equal(ct, 2 * X * X * X)

    def test_vmap(self):
        with jax.set_mesh(explicit()):
            jaxpr = jax.make_jaxpr(jax.vmap(lambda x: reshard(x, P("y"))))(put(explicit(), P("x")))
            self.assertIn("f32[8@x,2@y] = reshard", str(jaxpr))
            out = jax.vmap(lambda x: reshard(x, P("y")), in_axes=1, out_axes=1)(X)
            self.assertEqual(str(jax.typeof(out)), "float32[8@y,2]")
            np.testing.assert_array_equal(out, X)

    @parameterized.parameters(
        (None, ValueError, "Got sharding None"),
        (P("z"), ValueError, "Resource axis: z"),
        (P("x", None, "y"), ValueError, "rank at least 3"),
        (P(None, "x"), ValueError, "axis 1 is partitioned 4 times"),
    )
    def test_errors(self, spec, error, message):
        with jax.set_mesh(explicit()):
            with self.assertRaisesRegex(error, message):
                reshard(X, spec)

    def test_more_errors(self):
        with jax.set_mesh(explicit()):
            with self.assertRaisesRegex(TypeError, "`out_sharding` argument of reshard"):
                reshard(X, SingleDeviceSharding(xb.devices("cpu")[0]))
        with jax.set_mesh(auto()):
            with self.assertRaisesRegex(ValueError, "axis name: x of type: AxisType.Auto"):
                reshard(X, P("x"))


class ConstraintTest(parameterized.TestCase):
    def test_in_jit(self):
        s = NamedSharding(auto(), P("x"))
        f = jax.jit(lambda x: lax.with_sharding_constraint(x, s))
        out = f(X)
        np.testing.assert_array_equal(out, X)
        self.assertTrue(out.sharding.is_equivalent_to(s, 2))
        self.assertIn('sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {}]>', f.lower(X).as_text())
        open_dim = NamedSharding(auto(), P("x", P.UNCONSTRAINED))
        text = jax.jit(lambda x: lax.with_sharding_constraint(x, open_dim)).lower(X).as_text()
        self.assertIn('[{"x"}, {?}]', text)

    def test_eager(self):
        s = NamedSharding(auto(), P("x"))
        self.assertEqual(lax.with_sharding_constraint(X, s).sharding, s)
        y = jax.device_put(X, s)
        self.assertIs(lax.with_sharding_constraint(y, s), y)
        one = SingleDeviceSharding(xb.devices("cpu")[0])
        self.assertEqual(lax.with_sharding_constraint(X, one).sharding, one)
        with self.assertRaisesRegex(ValueError, "incompatible devices"):
            lax.with_sharding_constraint(y, one)
        out = lax.with_sharding_constraint({"a": X, "b": X}, {"a": s, "b": one})
        self.assertEqual(out["a"].sharding, s)
        with jax.set_mesh(auto()):
            out = lax.with_sharding_constraint(y, P(None, "y"))
            self.assertTrue(out.sharding.is_equivalent_to(NamedSharding(auto(), P(None, "y")), 2))

    def test_derivatives(self):
        s = NamedSharding(auto(), P("x"))
        f = lambda x: lax.with_sharding_constraint(lax.mul(x, x), s)
        np.testing.assert_array_equal(jax.vjp(f, X)[1](X)[0], 2 * X * X)
        jaxpr = jax.make_jaxpr(lambda x: jax.vjp(f, x)[1](x))(X)
        self.assertEqual(str(jaxpr).count("= sharding_constraint"), 2)

    def test_vmap(self):
        s = NamedSharding(auto(), P("x"))
        f = lambda x: lax.with_sharding_constraint(x, s)
        x = np.ones((2, 8), np.float32)
        self.assertIn("spec=P(UNCONSTRAINED, 'x')", str(jax.make_jaxpr(jax.vmap(f))(x)))
        out = jax.jit(jax.vmap(f, spmd_axis_name="y"))(x)
        self.assertTrue(out.sharding.is_equivalent_to(NamedSharding(auto(), P("y", "x")), 2))
        with self.assertRaisesRegex(ValueError, "spmd_axis_name"):
            jax.vmap(f, spmd_axis_name="x")(np.ones((4, 8), np.float32))

    def test_explicit_axes(self):
        y = put(explicit(), P("x"))
        with jax.set_mesh(explicit()):
            self.assertIs(lax.with_sharding_constraint(y, P("x")), y)
            with self.assertRaisesRegex(AssertionError, "acts as an assert.*P\\('y', None\\)"):
                lax.with_sharding_constraint(y, P("y"))
        with self.assertRaisesRegex(ValueError, "can only refer to Auto axes"):
            lax.with_sharding_constraint(X, NamedSharding(explicit(), P("x")))

    def test_some_axes_explicit(self):
        y = put(mixed(), P("x"))
        with jax.set_mesh(mixed()):
            f = lambda x: lax.with_sharding_constraint(x, P(None, "y"))
            self.assertIn('[{"x"}, {"y"}]', jax.jit(f).lower(y).as_text())
            for out in (f(y), jax.jit(f)(y)):
                self.assertEqual(str(jax.typeof(out)), "float32[8@x,2]")
                self.assertTrue(
                    out.sharding.is_equivalent_to(NamedSharding(mixed(), P("x", "y")), 2)
                )
            with self.assertRaisesRegex(ValueError, "can only refer to Auto axes"):
                lax.with_sharding_constraint(y, P("x"))

    def test_errors(self):
        constrain = lax.with_sharding_constraint
        with self.assertRaisesRegex(ValueError, "got sharding None"):
            constrain(X, None)
        with self.assertRaisesRegex(TypeError, "shardings leaf specifications"):
            constrain(X, "x")
        with self.assertRaisesRegex(RuntimeError, "non-empty mesh in context"):
            constrain(X, P("x"))
        with self.assertRaisesRegex(ValueError, "axis 0 is partitioned 4 times"):
            constrain(np.ones(7), NamedSharding(auto(), P("x")))
        with self.assertRaisesRegex(ValueError, "incompatible with its sharding annotation"):
            constrain(np.ones(8), NamedSharding(auto(), P("x", "y")))
        with self.assertRaisesRegex(ValueError, "must be a tree prefix"):
            constrain([X, X], [NamedSharding(auto(), P("x"))])


class AxesTest(parameterized.TestCase):
    @parameterized.parameters(False, True)
    def test_auto_axes(self, jit):
        seen = []

        def f(x, k=None):
            seen.append((str(jax.typeof(x)), jax.sharding.get_abstract_mesh().axis_types))
            return lax.mul(x, x)

        maybe_jit = jax.jit if jit else (lambda f: f)
        y = put(explicit(), P("x"))
        with jax.set_mesh(explicit()):
            for g in (
                auto_axes(f, out_sharding=P("y")),
                lambda x: auto_axes(f)(x, out_sharding=P("y")),
                auto_axes(out_sharding=NamedSharding(explicit(), P("y")))(f),
                lambda x: auto_axes(f, out_sharding=P("y"))(x, k=x),
            ):
                seen.clear()
                out = maybe_jit(g)(y)
                np.testing.assert_array_equal(out, X * X)
                self.assertEqual(str(jax.typeof(out)), "float32[8@y,2]")
                self.assertEqual(out.sharding.mesh, explicit())
                self.assertEqual(seen, [("float32[8,2]", (AUTO, AUTO))])
            seen.clear()
            out = maybe_jit(auto_axes(f, axes="y", out_sharding=P("x")))(y)
            self.assertEqual(str(jax.typeof(out)), "float32[8@x,2]")
            self.assertEqual(seen, [("float32[8@x,2]", (EXPLICIT, AUTO))])
            self.assertEqual(jax.sharding.get_mesh(), explicit())

    def test_auto_axes_derivatives(self):
        with jax.set_mesh(explicit()):
            y = put(explicit(), P("x"))
            g = auto_axes(lambda x: lax.mul(x, x), out_sharding=P("x"))
            (ct,) = jax.vjp(g, y)[1](y)
            np.testing.assert_array_equal(ct, 2 * X * X)
            self.assertEqual(str(jax.typeof(ct)), "float32[8@x,2]")
            self.assertEqual(str(jax.typeof(jax.jvp(g, (y,), (y,))[1])), "float32[8@x,2]")

    def test_auto_axes_trees_and_constants(self):
        with jax.set_mesh(explicit()):
            out = auto_axes(lambda t: {"a": t[0], "b": 3.0}, out_sharding={"a": P("y"), "b": P()})(
                (put(explicit(), P("x")), X)
            )
            self.assertEqual(str(jax.typeof(out["a"])), "float32[8@y,2]")
            self.assertEqual(float(out["b"]), 3.0)

    @parameterized.parameters(False, True)
    def test_explicit_axes(self, jit):
        seen = []

        def f(x, y):
            seen.append((str(jax.typeof(x)), str(jax.typeof(y))))
            return lax.add(x, y)

        maybe_jit = jax.jit if jit else (lambda f: f)
        z = put(auto(), P("x"))
        with jax.set_mesh(auto()):
            for g in (
                explicit_axes(f, in_sharding=P("x")),
                explicit_axes(f, in_sharding=(P("x"), P("x"))),
                lambda x, y: explicit_axes(f)(x, y, in_sharding=P("x")),
                explicit_axes(axes=("x",), in_sharding=P("x"))(f),
            ):
                seen.clear()
                out = maybe_jit(g)(z, z)
                np.testing.assert_array_equal(out, X + X)
                self.assertEqual(str(jax.typeof(out)), "float32[8,2]")
                self.assertEqual(out.sharding.mesh, auto())
                self.assertEqual(seen, [("float32[8@x,2]", "float32[8@x,2]")])
            with self.assertRaisesRegex(Exception, "incompatible shardings"):
                explicit_axes(f, in_sharding=(P("x"), P("y")))(z, z)

    def test_errors(self):
        with jax.set_mesh(explicit()):
            with self.assertRaisesRegex(TypeError, "Missing required keyword argument: 'out_sh"):
                auto_axes(lambda x: x)(X)
            with self.assertRaisesRegex(ValueError, r"axes=\['q'\] are not axes"):
                auto_axes(lambda x: x, axes="q", out_sharding=P())(X)
            with self.assertRaises(ZeroDivisionError):
                auto_axes(lambda x: 1 / 0, out_sharding=P())(X)
            self.assertEqual(jax.sharding.get_abstract_mesh(), explicit().abstract_mesh)
            self.assertEqual(jax.sharding.get_mesh(), explicit())
        with jax.set_mesh(auto()):
            with self.assertRaisesRegex(TypeError, "'in_sharding'"):
                explicit_axes(lambda x: x)(X)
        with self.assertRaisesRegex(ValueError, "Context mesh cannot be empty"):
            explicit_axes(lambda x: x, in_sharding=P("x"))(X)

    def test_an_abstract_mesh_is_enough_for_tracing(self):
        abstract = AbstractMesh((4, 2), ("x", "y"), (EXPLICIT, EXPLICIT))
        with jax.sharding.use_abstract_mesh(abstract):
            jaxpr = jax.make_jaxpr(lambda x: reshard(x, P("x")))(X)
        self.assertIn("f32[8@x,2] = reshard", str(jaxpr))

    def test_bwd_rules_keep_shardings(self):
        f = jax.custom_vjp(lambda x: x * 2.0)
        f.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (reshard(ct, P(None, "y")),))
        with jax.set_mesh(explicit()):
            x = jax.device_put(X, P("x", None))
            with self.assertRaisesRegex(ValueError, r"expected .*8@x,2\] but got .*8,2@y\]"):
                jax.grad(lambda x: f(x).sum())(x)


if __name__ == "__main__":
    absltest.main()
