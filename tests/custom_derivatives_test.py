"""`custom_jvp`, `custom_vjp` and related decorators: that the rules are used, and the programs of the table."""

import functools

import numpy as np
import pytest
from absl.testing import absltest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import core, test_util as jtu

reference, test_reference, _ = case_tests(__file__)
F = np.float32
x1 = F(1.3)


def marked_jvp(factor=2.0):
    """sin, whose derivative the rule takes `factor` times too large."""
    f = jax.custom_jvp(lambda x: jnp.sin(x))
    f.defjvp(lambda p, t: (f(*p), F(factor) * jnp.cos(p[0]) * t[0]))
    return f


def marked_vjp(factor=3.0):
    f = jax.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (F(factor) * jnp.cos(x) * g,))
    return f


class RulesAreUsedTest(jtu.JaxTestCase):
    def test_under_every_transformation(self):
        wraps = [
            lambda f: f, jax.jit, jax.checkpoint, lambda f: jax.jit(jax.jit(f)),
            lambda f: lambda x: lax.cond(x > 0, f, jnp.cos, x),
            lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
            lambda f: lambda x: jax.vmap(f)(x[None])[0],
            lambda f: lambda x: lax.fori_loop(0, 1, lambda i, c: f(c), x),
            lambda f: lambda x: lax.switch(1, [jnp.cos, f], x),
            lambda f: jax.jit(lambda x: jax.vmap(jax.jit(f))(jnp.stack([x, x]))[1]),
            lambda f: core.jaxpr_as_fun(jax.make_jaxpr(f)(x1)),
        ]  # fmt: skip
        for f, factor in ((marked_jvp(), 2), (marked_vjp(), 3)):
            for wrap in wraps:
                g = lambda x: jnp.squeeze(jnp.asarray(jax.tree.leaves(wrap(f)(x))[0]))
                expected = F(factor) * np.cos(x1)
                self.assertAllClose(g(x1), np.sin(x1))
                self.assertAllClose(jax.grad(g)(x1), expected, rtol=1e-5)
                self.assertAllClose(jax.jit(jax.grad(g))(x1), expected, rtol=1e-5)
                self.assertAllClose(
                    jax.vmap(jax.grad(g))(np.full(2, x1)), np.full(2, expected), rtol=1e-5
                )

    def test_repeated_in_scan_as_in_a_python_loop(self):
        for f in (marked_jvp(), marked_vjp()):
            xs = np.array([0.5, -1.2, 2.0], F)

            def loop(x):
                for y in xs:
                    x = f(x * y)
                return x

            scan = lambda x: lax.scan(lambda c, y: (f(c * y), None), x, xs)[0]
            self.assertAllClose(
                jax.value_and_grad(scan)(x1), jax.value_and_grad(loop)(x1), rtol=1e-5
            )
            self.assertAllClose(
                jax.grad(jax.grad(scan))(x1), jax.grad(jax.grad(loop))(x1), rtol=1e-5
            )

    def test_forward_mode_of_custom_vjp(self):
        f = marked_vjp()
        for call in (
            lambda: jax.jvp(f, (x1,), (x1,)),
            lambda: jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(x1),
            lambda: jax.jacfwd(f)(x1),
            lambda: jax.linearize(f, x1)[1](x1),
            lambda: jax.hessian(f)(x1),
        ):
            with self.assertRaisesRegex(TypeError, "forward-mode.*custom_vjp"):
                call()
            self.assertTrue(core.trace_state_clean())


class CustomJvpTest(jtu.JaxTestCase):
    def test_rules_per_argument(self):
        f = jax.custom_jvp(lambda x, y: x * y)
        f.defjvps(lambda t, out, x, y: 10 * t, None)
        self.assertAllClose(jax.grad(f, (0, 1))(2.0, 3.0), (F(10), F(0)))
        g = jax.custom_jvp(lambda n, x: x, nondiff_argnums=(0,))
        with self.assertRaisesRegex(TypeError, "nondiff_argnums"):
            g.defjvps(None)

    def test_nondiff_arguments(self):
        @functools.partial(jax.custom_jvp, nondiff_argnums=(0, 2))
        def f(g, x, n):
            return g(x) * n

        @f.defjvp
        def f_jvp(g, n, primals, tangents):
            return f(g, primals[0], n), n * 5 * tangents[0]

        self.assertAllClose(jax.grad(f, 1)(jnp.sin, x1, 3), F(15))
        self.assertAllClose(jax.jit(f, static_argnums=(0, 2))(jnp.sin, x1, 3), 3 * np.sin(x1))
        by_name = jax.custom_jvp(lambda g, x: g(x), nondiff_argnames=("g",))
        by_name.defjvp(lambda g, p, t: (g(*p), 7 * t[0]))
        self.assertAllClose(jax.grad(by_name, 1)(jnp.sin, x1), F(7))
        with self.assertRaises(ValueError):
            jax.custom_jvp(lambda x: x, nondiff_argnums=(3,))
        with self.assertRaises(ValueError):
            jax.custom_jvp(lambda x: x, nondiff_argnames=("z",))

    def test_keyword_only_defaults(self):
        f = jax.custom_jvp(lambda x, *, k=2.0: x * k)
        f.defjvp(lambda p, t: (f(*p), 9 * t[0]))
        self.assertAllClose(jax.grad(f)(1.0), F(9))
        with self.assertRaisesRegex(TypeError, r"\['k'\] could not be resolved to positions"):
            f(1.0, k=3.0)

    def test_jitted_rules(self):
        f = jax.custom_jvp(lambda x: (jnp.sin(x), x))
        f.defjvp(jax.jit(lambda p, t: ((jnp.sin(p[0]), p[0]), (2 * jnp.cos(p[0]) * t[0], t[0]))))
        g = lambda x: f(x)[0] * f(x)[1]
        expected = np.sin(x1) + x1 * 2 * np.cos(x1)
        for h in (g, jax.jit(g), jax.checkpoint(g)):
            value, grad = jax.value_and_grad(h)(x1)
            self.assertIsInstance(value, jax.Array)
            self.assertAllClose(value, x1 * np.sin(x1))
            self.assertAllClose(grad, expected, rtol=1e-5)
        out, f_jvp = jax.linearize(f, x1)
        self.assertAllClose(out, (np.sin(x1), x1))

    def test_rules_with_loops_on_values_and_tangents(self):
        def loop(x):
            return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * c[1]), (0, x))[1]

        f = jax.custom_jvp(loop)
        f.defjvp(lambda p, t: jax.jvp(loop, p, t))
        out, f_jvp = jax.linearize(f, F(1.1))
        self.assertAllClose(out, F(1.1**8), rtol=1e-5)
        self.assertAllClose(f_jvp(F(1)), F(8 * 1.1**7), rtol=1e-5)
        with self.assertRaisesRegex(ValueError, "Reverse-mode differentiation does not work"):
            jax.grad(f)(F(1.1))

    def test_batch_dimensions_of_rules(self):
        # What the function leaves unbatched, the rule may batch, also after staging.
        f = jax.custom_jvp(lambda x: (x, F(0)))
        f.defjvp(lambda p, t: ((p[0], p[0] * 0), (t[0], t[0])))
        x = np.arange(3, dtype=F)
        for g in (jax.vmap(f), jax.jit(jax.vmap(f)), jax.vmap(jax.jit(f))):
            (a, b), (da, db) = jax.jvp(g, (x,), (x + 1,))
            self.assertAllClose((a, b, da, db), (x, x * 0, x + 1, x + 1))

    def test_eager_calls_run_the_function(self):
        f = jax.custom_jvp(lambda x, y=2.0: {"product": x * y})
        with self.assertRaisesRegex(AttributeError, "No JVP defined"):
            f(x1)
        f.defjvp(lambda p, t: (f(*p), {"product": t[0]}))
        x = jnp.ones(3)
        for args in ((x,), (x, 2.0), (x, jnp.float32(2)), (np.ones(3, F),)):
            self.assertArraysEqual(f(*args)["product"], np.full(3, 2, F))
        with self.assertRaisesRegex(TypeError, "not a valid JAX type"):
            f("text", 2)
        leaked = []
        jax.jit(lambda x: leaked.append(x))(x)
        with self.assertRaises(jax.errors.UnexpectedTracerError):
            f(leaked[0])

    def test_methods(self):
        class Model:
            def __init__(self, k):
                self.k = k

            @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
            def f(self, x):
                return x * self.k

            @f.defjvp
            def f_jvp(self, primals, tangents):
                return self.f(*primals), 9 * tangents[0]

        self.assertAllClose(jax.grad(Model(3.0).f)(x1), F(9))
        self.assertAllClose(Model(3.0).f(x1), F(3) * x1)

    def test_names_in_errors(self):
        @jax.custom_jvp
        def my_function(x):
            return x

        with self.assertRaisesRegex(AttributeError, "my_function"):
            my_function(1.0)

        @my_function.defjvp
        def my_rule(primals, tangents):
            return primals[0], (tangents[0], tangents[0])

        with self.assertRaisesRegex(TypeError, "my_rule.*my_function"):
            jax.grad(my_function)(1.0)


class CustomVjpTest(jtu.JaxTestCase):
    def test_residuals_of_interleaved_calls(self):
        f = jax.custom_vjp(lambda x, y: x * y)

        def fwd(x, y):  # residuals depend on what is perturbed
            out = x.value * y.value
            return out, (y.value,) if not y.perturbed else (x.value, y.value)

        f.defvjp(fwd, lambda res, ct: (res[-1] * ct, res[0] * ct), symbolic_zeros=True)
        g = jax.jit(f)
        _, first = jax.vjp(lambda x: g(x, F(2)), x1)
        _, second = jax.vjp(g, x1, F(2))
        self.assertAllClose(first(F(3)), (F(6),))
        self.assertAllClose(second(F(3)), (F(6), 3 * x1))
        self.assertAllClose(first(F(1)), (F(2),))

    def test_symbolic_zeros(self):
        seen = []
        f = jax.custom_vjp(lambda x, y: (x * y, x))

        def fwd(x, y):
            seen.append((x.perturbed, y.perturbed))
            return (x.value * y.value, x.value), y.value

        def bwd(y, cts):
            seen.append([isinstance(ct, jax.custom_derivatives.SymbolicZero) for ct in cts])
            return y * cts[0], None

        f.defvjp(fwd, bwd, symbolic_zeros=True)
        self.assertAllClose(jax.grad(lambda x: f(x, F(2))[0])(x1), F(2))
        self.assertEqual(seen, [(True, False), [False, True]])
        self.assertAllClose(
            jax.jit(jax.vmap(jax.grad(lambda x: f(x, F(2))[0])))(np.ones(2, F)), np.full(2, 2, F)
        )

    def test_other_precisions(self):
        f = jax.custom_vjp(lambda x: x.astype(jnp.bfloat16))
        f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
        grad = jax.grad(lambda x: f(x).astype(F) + x)(x1)
        self.assertAllClose(grad, F(2))

    def test_cotangents_get_the_type_of_the_argument(self):
        for ct in (3, np.int8(3), np.float16(3), True, np.float64(3)):
            f = jax.custom_vjp(lambda x: x)
            f.defvjp(lambda x: (x, None), lambda _, g, ct=ct: (ct,))
            for grad in (jax.grad(f), jax.jit(jax.grad(f))):
                self.assertArraysEqual(grad(x1), F(ct))
        f.defvjp(lambda x: (x, None), lambda _, g: (3j,))
        with self.assertRaisesRegex(ValueError, "expected float32.* but got complex64"):
            jax.grad(f)(x1)

    def test_none_stands_for_zeros(self):
        f = jax.custom_vjp(lambda d, y: d["a"] * y)
        f.defvjp(lambda d, y: (f(d, y), None), lambda _, ct: (None, ct))
        grads = jax.grad(f, (0, 1))({"a": x1, "b": np.ones(2, F)}, F(2))
        self.assertAllClose(grads, ({"a": F(0), "b": np.zeros(2, F)}, F(1)))

    def test_closing_over_traced_values(self):
        def make(x):
            f = jax.custom_vjp(lambda y: y * x)
            f.defvjp(lambda y: (y * x, x), lambda r, g: (g * r,))
            return f

        bodies = [
            lambda x: jax.grad(make(x))(F(2)),
            lambda x: jax.grad(jax.jit(make(x)))(F(2)),
            lambda x: jax.grad(
                lambda y: lax.scan(lambda c, _: (make(x)(c), None), y, None, length=1)[0]
            )(F(2)),
            lambda x: jax.grad(lambda y: lax.cond(True, make(x), lambda y: y, y))(F(2)),
            lambda x: jax.grad(jax.checkpoint(make(x)))(F(2)),
        ]
        for body in bodies:
            self.assertAllClose(jax.jit(body)(x1), x1)
            self.assertAllClose(jax.vmap(body)(np.arange(3, dtype=F)), np.arange(3, dtype=F))
            if (
                body is not bodies[-1]
            ):  # which applies the function too, for a value that nobody uses
                self.assertAllClose(jax.grad(body)(x1), F(1))

    def test_derivatives_by_closed_over_values(self):
        def f(x):
            g = jax.custom_vjp(lambda y: y * x)
            g.defvjp(lambda y: (y * x, x), lambda r, ct: (ct * r,))
            return jax.jit(g)(F(2))

        with self.assertRaisesRegex(Exception, "closed-over value"):
            jax.grad(f)(x1)

    def test_errors(self):
        f = jax.custom_vjp(lambda x, y: x * y)
        cases = [
            (lambda x, y: x, lambda r, g: (g, g), TypeError, "must produce a pair"),
            (lambda x, y: ((x, y), None), lambda r, g: (g, g), TypeError, "first element had|scalar-output"),
            (lambda x, y: (x * y, None), lambda r, g: (g,), TypeError, "tuple of length 2"),
            (lambda x, y: (x * y, None), lambda r, g: (np.ones(3, F), g), ValueError, r"args\[0\].*float32\[\].*float32\[3\]"),
        ]  # fmt: skip
        for fwd, bwd, error, message in cases:
            f.defvjp(fwd, bwd)
            with self.assertRaisesRegex(error, f"(?s){message}"):
                jax.grad(f)(x1, F(2))
            self.assertTrue(core.trace_state_clean())

    def test_custom_gradient(self):
        @jax.custom_gradient
        def f(x, y):
            return x * y, lambda ct: (7 * ct, jnp.sin(x) * ct)

        self.assertAllClose(f(x1, F(2)), 2 * x1)
        for g in (f, jax.jit(f), jax.checkpoint(f)):
            self.assertAllClose(jax.grad(g, (0, 1))(x1, F(2)), (F(7), np.sin(x1)))
        self.assertAllClose(
            jax.vmap(jax.grad(f, 1))(np.full(2, x1), np.ones(2, F)), np.full(2, np.sin(x1))
        )

    def test_closure_convert(self):
        def f(x):
            converted, consts = jax.closure_convert(lambda y: jnp.sin(x) * y, F(2))
            self.assertLen(consts, 1)
            return converted(F(2), *consts)

        self.assertAllClose(jax.grad(f)(x1), 2 * np.cos(x1))
        converted, consts = jax.closure_convert(lambda d: {"o": d["a"]}, {"a": x1})
        self.assertEqual((converted({"a": x1}), consts), ({"o": x1}, []))
        with self.assertRaisesRegex(TypeError, "structure"):
            converted(x1)


class OptimizeRematTest(jtu.JaxTestCase):
    """The forward pass runs the function where nobody needs residuals, else the forward rule."""

    def setUp(self):
        super().setUp()
        self.f = self.make()

    def make(self, **kwargs):
        f = jax.custom_vjp(
            lambda x, y: jnp.tanh(x) * y
        )  # another function than the rule's, to see which runs

        def fwd(x, y):
            if kwargs:
                x, y = x.value, y.value
            return jnp.sin(x) * y, (jnp.cos(x), y)

        f.defvjp(fwd, lambda r, g: (7 * r[0] * g * r[1], None), optimize_remat=True, **kwargs)
        return f

    def assert_runs(self, fun, name):
        """Which of the two the compiled program runs."""
        text = jax.jit(fun).lower(x1).as_text()
        self.assertEqual(("sine" in text, "tanh" in text), (name == "fwd", name == "fun"), text)

    def test_derivatives(self):
        y = F(2)
        for f in (self.f, self.make(symbolic_zeros=True)):
            g = jax.grad(f)
            want = 7 * np.cos(x1) * y
            for run in (g, jax.jit(g), jax.grad(jax.jit(f)), jax.grad(jax.checkpoint(f))):
                self.assertAllClose(run(x1, y), want)
            ones = np.full(3, x1)
            self.assertAllClose(jax.vmap(g, (0, None))(ones, y), np.full(3, want))
            summed = lambda x: jax.checkpoint(jax.vmap(f, (0, None)))(x, y).sum()
            self.assertAllClose(jax.grad(summed)(ones), np.full(3, want))
            second = -7 * np.sin(x1) * y
            self.assertAllClose(jax.grad(g)(x1, y), second)
            self.assertAllClose(jax.jit(jax.grad(jax.jit(g)))(x1, y), second)
            self.assertAllClose(jax.jvp(lambda x: g(x, y), (x1,), (F(1),))[1], second)
            loop = lambda f: jax.grad(
                lambda x: lax.scan(lambda c, _: (f(c, y), None), x, None, length=3)[0]
            )
            self.assertAllClose(loop(jax.jit(f))(x1), loop(f)(x1))

    def test_which_runs(self):
        f = lambda x: self.f(x, F(2))
        self.assert_runs(f, "fun")
        self.assert_runs(jax.grad(f), "fwd")
        self.assert_runs(lambda x: jax.vjp(f, x)[0], "fun")
        self.assert_runs(lambda x: jax.vjp(jax.checkpoint(f), x)[0], "fun")
        self.assert_runs(lambda x: jax.vjp(jax.vmap(jax.checkpoint(f)), x[None])[0], "fun")
        self.assert_runs(lambda x: jax.vjp(jax.checkpoint(lambda x: lax.cond(x > 0, f, f, x)), x)[0],
                         "fun")  # fmt: skip
        jvp_of = lambda h: lambda x: jax.jvp(lambda x: jax.vjp(h, x)[0], (x,), (x,))[0]
        self.assert_runs(jvp_of(f), "fun")

    def test_equation(self):
        jaxpr = jax.make_jaxpr(jax.grad(self.f))(x1, F(2))
        (eqn,) = [e for e in jaxpr.eqns if e.primitive is jax.custom_derivatives.remat_opt_p]
        self.assertEqual(eqn.params["num_res"], 1)  # y is forwarded, not returned
        self.assertLen(eqn.outvars, 2)
        core.check_jaxpr(jaxpr)

    def test_closing_over_traced_values(self):
        def outer(z):
            f = jax.custom_vjp(lambda x: jnp.tanh(x) * z)
            f.defvjp(
                lambda x: (jnp.sin(x) * z, jnp.cos(x) * z),
                lambda r, g: (g * r,),
                optimize_remat=True,
            )
            return jax.value_and_grad(jax.checkpoint(f))(x1)

        z = np.array([1, 2], F)
        values, grads = jax.vmap(outer)(z)
        self.assertAllClose(values, np.tanh(x1) * z)
        self.assertAllClose(grads, np.cos(x1) * z)
        self.assertAllClose(jax.jit(outer)(F(2))[1], np.cos(x1) * F(2))

    def test_refs_inside(self):
        f = jax.custom_vjp(lambda x: x * 2)

        def fwd(x):
            r = jax.new_ref(x)
            r[...] *= 2.0
            return r[...], jnp.cos(x)

        f.defvjp(fwd, lambda r, g: (r * g,), optimize_remat=True)
        for g in (f, jax.jit(f), jax.checkpoint(f)):
            self.assertAllClose(jax.jit(jax.value_and_grad(g))(x1), (x1 * 2, np.cos(x1)))
            self.assertAllClose(jax.value_and_grad(g)(x1), (x1 * 2, np.cos(x1)))


class TestRulesArguments:
    def make(self, bwd):
        f = jax.custom_vjp(lambda n, x: x, nondiff_argnums=(0,))
        f.defvjp(lambda n, x: (x, (2.0, 3)), bwd)
        return f

    @pytest.mark.parametrize("wrap", [lambda n: n, lambda n: {"a": [n]}], ids=["value", "tree"])
    def test_traced_nondiff_arguments_are_refused(self, wrap):
        f = self.make(lambda n, r, g: (g,))
        for run in (jax.jit, jax.grad, jax.vmap):
            with pytest.raises(jax.errors.UnexpectedTracerError, match="nondiff_argnums"):
                run(lambda n: f(wrap(n), 1.0))(np.ones(2, np.float32) if run is jax.vmap else 1.0)

    def test_residuals_that_are_numbers_have_types(self):
        f = self.make(lambda n, r, g: (g * r[0].dtype.itemsize + r[1].dtype.itemsize,))
        assert jax.grad(f, 1)(0, 1.0) == 8

    def test_booleans_stay_booleans(self):
        """Libraries keep which arguments are perturbed as a residual, and branch on it."""
        seen = []
        f = jax.custom_vjp(lambda x, flag: x)
        f.defvjp(lambda x, flag: (x, (flag, True)), lambda r, g: (seen.append(r) or g, None))
        assert jax.grad(f)(1.0, False) == 1
        jax.jit(jax.grad(lambda x: f(x, False)))(1.0)
        assert [[type(x) for x in r] for r in seen] == [[bool, bool]] * 2

    def test_one_cotangent_for_a_subtree(self):
        f = jax.custom_vjp(lambda x: x["a"])
        f.defvjp(lambda x: (x["a"], None), lambda r, g: (3 * g,))
        assert jax.grad(f)({"a": 1.0, "b": 2.0}) == {"a": 3, "b": 3}


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())


def test_numpy_arguments_have_the_dtype_of_computations():
    seen = []

    def f(x):
        seen.append(x.dtype)
        return x

    vjp, jvp = jax.custom_vjp(f), jax.custom_jvp(f)
    vjp.defvjp(lambda x: (f(x), None), lambda _, g: (g,))
    jvp.defjvp(lambda p, t: (f(p[0]), t[0]))
    for g in (vjp, jvp, lambda x: vjp((x,)[0])):
        assert g(np.arange(3)).dtype == np.int32
    assert jax.vjp(vjp, np.arange(3.0))[0].dtype == np.float32
    assert set(map(str, seen)) == {"int32", "float32"}


def test_the_tangent_of_frexp_has_the_type_of_the_mantissa():
    for x in (1.0, np.float32(1), jnp.float32(1)):
        (mantissa, _), (tangent, _) = jax.jvp(jnp.frexp, (x,), (1.0,))
        assert jax.typeof(mantissa) == jax.typeof(tangent)


def test_jvp_returns_tangents_as_the_rule_does():
    square = jax.custom_jvp(lambda x: x**2)
    square.defjvp(lambda p, t: (p[0] ** 2, t[0] ** 2))
    out, tangent = jax.jvp(square, (2.0,), (3.0,))
    assert (type(out), out) == (float, 4.0)
    assert (type(tangent), tangent) == (float, 9.0)
    square.defjvp(lambda p, t: (p[0] ** 2, t[0]))
    assert type(jax.jvp(square, (2.0,), (3.0,))[1]) is float
    assert type(jax.jvp(lambda x: (x, 1.0), (2.0,), (3.0,))[1][1]) is not float


def test_linearized_functions_return_arrays():
    constant = jax.custom_jvp(lambda x: x)
    constant.defjvp(lambda p, t: (p[0], np.float64(3)))
    tangent = jax.linearize(constant, 2.0)[1](1.0)
    assert isinstance(tangent, jax.Array) and tangent.dtype == np.float32


def test_functions_of_an_equation_have_call_wrapped():
    f = marked_jvp()
    (eqn,) = jax.make_jaxpr(f)(x1).eqns
    fun, rule = eqn.primitive.get_bind_params(eqn.params)["subfuns"]
    assert fun.call_wrapped(x1) == fun(x1)
    np.testing.assert_allclose(rule.call_wrapped(x1, x1)[1], 2 * np.cos(x1) * x1, rtol=1e-6)
