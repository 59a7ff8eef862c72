"""`vmap`: against loops in Python, with names of axes, errors. Arguments in full: transforms_test."""

import numpy as np
from absl.testing import absltest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import core, test_util as jtu

F = np.float32


class VmapTest(jtu.JaxTestCase):
    def check_against_loop(self, fun, *args, in_axes=0):
        """`vmap` gives what applying the function to the slices one by one gives."""
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        size = next(np.shape(a)[d] for a, d in zip(args, axes) if d is not None)
        slices = [
            [
                jnp.asarray(a if d is None else np.take(np.asarray(a), i, d))
                for a, d in zip(args, axes)
            ]
            for i in range(size)
        ]
        expected = jax.tree.map(lambda *xs: np.stack(xs), *[fun(*s) for s in slices])
        for mapped in (
            jax.vmap(fun, in_axes),
            jax.jit(jax.vmap(fun, in_axes)),
            jax.vmap(jax.jit(fun), in_axes),
        ):
            self.assertAllClose(mapped(*args), expected, rtol=1e-5, atol=1e-5)

    def test_programs(self):
        rng = self.rng()
        x, y = jnp.asarray(rng.randn(3, 4), F), jnp.asarray(rng.randn(3, 4), F)
        functions = [
            lambda x, y: jnp.dot(x, y) * x,
            lambda x, y: jnp.sort(x)[jnp.argmax(y)],
            lambda x, y: lax.scan(lambda c, v: (c * v + 1, c), x[0], y),
            lambda x, y: lax.cond(jnp.sum(x) > 0, lambda x: x * 2, jnp.sin, y),
            lambda x, y: lax.while_loop(
                lambda c: c[0] < jnp.abs(x[0]), lambda c: (c[0] + 0.25, c[1] * 0.5), (F(0), y)
            ),
            lambda x, y: lax.switch(jnp.argmax(x), [jnp.sin, jnp.cos, jnp.tanh, jnp.exp], y),
            lambda x, y: jax.grad(lambda x: jnp.sum(jnp.sin(x) * y))(x),
            lambda x, y: jax.hessian(lambda x: jnp.sum(x**3 * y))(x),
            lambda x, y: {"a": jnp.concatenate([x, y]), "b": (x.reshape(2, 2) @ y.reshape(2, 2),)},
            lambda x, y: x.at[jnp.argmin(y)].set(y[0]),
            lambda x, y: jnp.cumsum(x)[::-1] + y[jnp.array([0, 2, 1, 3])],
            lambda x, y: jax.vmap(lambda a: a * jnp.sum(y))(x),
        ]
        for f in functions:
            self.check_against_loop(f, x, y)
            self.check_against_loop(f, x, y[0], in_axes=(0, None))
            self.check_against_loop(f, x[0], y, in_axes=(None, 0))
            self.check_against_loop(f, x.T, y, in_axes=(1, 0))

    def test_axes(self):
        x = np.arange(24, dtype=F).reshape(2, 3, 4)
        for i in range(-3, 3):
            for o in range(-3, 3):
                got = jax.vmap(lambda a: a * 2, i, o)(x)
                self.assertAllClose(got, np.moveaxis(x * 2, i, o))

    def test_nested(self):
        a, b = np.arange(6, dtype=F).reshape(2, 3), np.arange(12, dtype=F).reshape(3, 4)
        matmul = jax.vmap(jax.vmap(jnp.vdot, (None, 1)), (0, None))
        self.assertAllClose(matmul(a, b), a @ b)
        self.assertAllClose(jax.jit(jax.jacfwd(matmul))(a, b).shape, (2, 4, 2, 3))

    def test_names_of_axes(self):
        x = np.arange(6, dtype=F).reshape(2, 3)
        f = jax.vmap(jax.vmap(lambda x: x / lax.psum(x, ("i", "j")), axis_name="j"), axis_name="i")
        self.assertAllClose(f(x), x / x.sum(), rtol=1e-6)
        center = jax.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")
        self.assertAllClose(
            jax.jacrev(center)(np.arange(3, dtype=F)), (np.eye(3) - 1 / 3).astype(F), rtol=1e-6
        )
        shadowed = jax.vmap(
            lambda r: jax.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(r), axis_name="i"
        )
        self.assertAllClose(shadowed(x), np.repeat(x.sum(1, keepdims=True), 3, 1))
        with self.assertRaisesRegex(NameError, "unbound axis name: k"):
            jax.vmap(lambda x: lax.psum(x, "k"), axis_name="i")(x)
        self.assertFalse(core.nonempty_axis_env())

    def test_names_inside_rules_of_custom_derivatives(self):
        f = jax.custom_jvp(lambda x: x)
        f.defjvp(lambda p, t: (p[0], lax.psum(t[0], "i")))
        g = jax.custom_vjp(lambda x: x)
        g.defvjp(lambda x: (x, None), lambda _, ct: (lax.psum(ct, "i"),))
        x = np.arange(3, dtype=F)
        self.assertAllClose(jax.jvp(jax.vmap(f, axis_name="i"), (x,), (x,))[1], np.full(3, 3, F))
        for h in (g, jax.jit(g)):
            for m in (jax.vmap(h, axis_name="i"), jax.jit(jax.vmap(h, axis_name="i"))):
                self.assertAllClose(jax.vjp(m, x)[1](x)[0], np.full(3, 3, F))

    def test_unmapped_results_are_computed_once(self):
        closed = jax.make_jaxpr(jax.vmap(lambda x, y: (x, jnp.sin(y)), (0, None), (0, None)))(
            np.ones(3, F), F(1)
        )
        (sin,) = [e for e in closed.eqns if e.primitive is lax.sin_p]
        self.assertEqual(sin.outvars[0].aval.shape, ())

    def test_no_batching_of_what_is_not_mapped(self):
        f = lambda x, w: lax.scan(lambda c, _: (jnp.sin(c), None), w, None, length=3)[0] + x
        closed = jax.make_jaxpr(jax.vmap(f, (0, None)))(np.ones(5, F), F(1))
        (scan,) = [e for e in closed.eqns if e.primitive is lax.scan_p]
        self.assertEqual(scan.outvars[0].aval.shape, ())

    def test_errors_name_the_argument(self):
        f = lambda x, d: x
        cases = [
            (lambda: jax.vmap(f)(np.ones(3), {"a": np.ones(4)}), r"axis 0 of argument d\['a'\] of type float32\[4\]"),
            (lambda: jax.vmap(f, (0, 1))(np.ones(3), np.ones(3)), r"axis 1.*rank.*at least 2.*only 1.*argument d"),
            (lambda: jax.vmap(f, (0, 0, 0))(np.ones(3), np.ones(3)), r"len\(in_axes\)=3, len\(args\)=2"),
            (lambda: jax.vmap(f, ({"a": 0}, 0))({"b": np.ones(3)}, np.ones(3)), "tree prefix"),
            (lambda: jax.vmap(f, None)(np.ones(3), np.ones(3)), "at least one non-None value"),
            (lambda: jax.vmap(f, out_axes=None)(np.ones(3), np.ones(3)), "out_axes is None"),
            (lambda: jax.vmap(lambda x: {"k": x}, out_axes={"k": None})(np.ones(3)), r"result\['k'\]"),
            (lambda: jax.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(np.ones(3)), "out_axes.*tree prefix"),
            (lambda: jax.vmap(lambda x: x, axis_size=4)(np.ones(3)), "axis_size"),
            (lambda: jax.vmap(lambda: 1)(), "at least one argument"),
        ]  # fmt: skip
        for call, message in cases:
            with self.assertRaisesRegex(ValueError, message):
                call()
            self.assertTrue(core.trace_state_clean())

    def test_concrete_values_of_what_is_not_mapped(self):
        f = lambda x, n: x if n > 1 else -x
        self.assertAllClose(jax.vmap(f, (0, None))(np.ones(2, F), 3), np.ones(2, F))
        with self.assertRaises(jax.errors.TracerBoolConversionError):
            jax.vmap(f)(np.ones(2, F), np.ones(2, F))

    def test_errors_tell_the_line_of_staged_values(self):
        f = jax.jit(jax.vmap(lambda x: 1 if x > 0 else 2))
        with self.assertRaisesRegex(
            jax.errors.TracerBoolConversionError,
            r"BatchTracer .* was created on line:\n  .*vmap_test",
        ):
            f(np.ones(2, F))

    def test_errors_name_collected_keyword_arguments(self):
        choose = lambda **options: 1 if options["a"]["b"] > options["c"] else 2
        text = r"arguments options\['a'\]\['b'\] and options\['c'\]"
        with self.assertRaisesRegex(jax.errors.TracerBoolConversionError, text):
            jax.jit(choose)(a={"b": 1.0}, c=2.0)

    def test_empty_axis(self):
        self.assertEqual(jax.vmap(jnp.sin)(np.ones((0, 3), F)).shape, (0, 3))
        self.assertEqual(jax.vmap(jax.grad(jnp.sin))(np.ones(0, F)).shape, (0,))


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
