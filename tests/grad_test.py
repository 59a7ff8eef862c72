"""Derivatives: against finite differences, as pytrees, at kinks, into references (`jax.ad`). Arguments, errors: transforms_test."""

import numpy as np
import pytest
from absl.testing import absltest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import api, test_util as jtu
from jax.test_util import check_grads

F = np.float32


class GradTest(jtu.JaxTestCase):
    def test_orders_of_nesting(self):
        f = lambda x: jnp.tanh(x) * x
        d2 = lambda x: 2 * (1 - jnp.tanh(x) ** 2) * (1 - x * jnp.tanh(x))
        x = F(0.7)
        d1 = (jax.grad, lambda f: lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1], jax.jacfwd, jax.jacrev,
              lambda f: lambda x: jax.vjp(f, x)[1](jnp.ones_like(f(x)))[0],
              lambda f: lambda x: jax.linearize(f, x)[1](jnp.ones_like(x)))  # fmt: skip
        wraps = (lambda f: f, jax.jit, jax.checkpoint)
        for i, outer in enumerate(d1):
            for j, inner in enumerate(d1):
                wrap = wraps[(i + j) % 3]
                self.assertAllClose(
                    wrap(outer(wrap(inner(wrap(f)))))(x), d2(x), rtol=1e-5, check_dtypes=False
                )

    def test_third_order(self):
        for f, expected in (
            (lambda x: x**4, 24 * 2.0),
            (jnp.sin, -np.cos(2.0)),
            (jnp.exp, np.exp(2.0)),
        ):
            self.assertAllClose(jax.grad(jax.grad(jax.grad(f)))(2.0), F(expected), rtol=1e-5)
            self.assertAllClose(
                jax.jit(jax.grad(jax.jit(jax.grad(jax.grad(f)))))(2.0), F(expected), rtol=1e-5
            )

    def test_perturbation_confusion(self):
        f = lambda x: x * jax.grad(lambda y: x + y)(1.0)
        self.assertAllClose(jax.grad(f)(3.0), F(1))
        g = lambda x: jax.grad(lambda y: jax.grad(lambda z: x * y * z)(1.0) * y)(2.0)
        self.assertAllClose(jax.grad(g)(3.0), F(4))
        h = lambda x: jax.jvp(lambda y: x * y, (x,), (1.0,))[1]
        self.assertAllClose(jax.jvp(h, (3.0,), (1.0,))[1], F(1))

    def test_against_finite_differences(self):
        rng = self.rng()
        x, y = rng.randn(3, 4).astype(F), rng.randn(4).astype(F)
        check_grads(lambda x, y: jnp.sin(x @ y) * jnp.sum(y), (x, y), order=2, rtol=2e-2, atol=2e-2)
        check_grads(
            lambda d: {"o": jnp.tanh(d["a"]) / (1 + d["b"] ** 2)},
            ({"a": x, "b": y},),
            order=2,
            rtol=2e-2,
            atol=2e-2,
        )
        with jax.enable_x64(True):
            z = rng.randn(3) + 1j * rng.randn(3)
            check_grads(
                lambda z: jnp.real(jnp.exp(z) * jnp.conj(z)), (z,), order=2, rtol=1e-5, atol=1e-5
            )
            check_grads(lambda z: jnp.sin(z) * z, (z,), order=2, rtol=1e-5, atol=1e-5)

    def test_holomorphic(self):
        for z in (1 + 2j, -0.5j):
            self.assertAllClose(
                jax.grad(jnp.sin, holomorphic=True)(z), np.cos(z).astype(np.complex64), rtol=1e-5
            )
            self.assertAllClose(
                jax.jacfwd(jnp.exp, holomorphic=True)(z), np.exp(z).astype(np.complex64), rtol=1e-5
            )

    def test_complex_convention(self):
        # The gradient of a real function of x + iy is d/dx - i d/dy.
        grad = jax.grad(lambda z: jnp.real(z) ** 2 + 3 * jnp.imag(z))(2.0 + 1j)
        self.assertAllClose(grad, np.complex64(4 - 3j))

    def test_float0(self):
        _, f_vjp = jax.vjp(lambda n, x: x * n, 3, 2.0)
        n_ct, x_ct = f_vjp(1.0)
        self.assertEqual((n_ct.dtype, np.shape(n_ct)), (jax.float0, ()))
        self.assertEqual(x_ct, 3)
        n_ct, _ = jax.grad(lambda n, x: jnp.sum(n) * x, (0, 1), allow_int=True)(
            np.ones(4, np.int32), 2.0
        )
        self.assertEqual((n_ct.dtype, n_ct.shape), (jax.float0, (4,)))
        tangent = np.zeros((), jax.float0)
        self.assertEqual(jax.jvp(lambda n, x: x * n, (3, 2.0), (tangent, 1.0))[1], 3)
        self.assertEqual(jax.jit(jax.grad(lambda b, x: jnp.where(b, x, -x), 1))(True, 2.0), 1)

    def test_dtypes_of_gradients(self):
        for dtype in (jnp.bfloat16, np.float16, F):
            x = jnp.ones(3, dtype)
            self.assertEqual(jax.grad(lambda x: jnp.sum(jnp.sin(x)).astype(F))(x).dtype, dtype)
        with jax.enable_x64(True):
            self.assertEqual(jax.grad(jnp.sin)(np.float64(1)).dtype, np.float64)
            self.assertEqual(jax.grad(lambda x: x.astype(np.float64))(jnp.ones((), F)).dtype, F)

    def test_unhashable_and_static_data(self):
        f = lambda x, opts, name: x * opts["k"][0] if name == "a" else x
        self.assertEqual(jax.grad(f)(2.0, {"k": [3.0]}, "a"), 3)
        self.assertEqual(
            jax.grad(lambda x, *args, **kw: x * len(args) * len(kw))(1.0, "a", None, z=[]), 2
        )

    def test_auxiliary_data(self):
        value = jax.grad(
            lambda x: (x**2, {"x": x, "n": 3, "s": "text", "none": None}), has_aux=True
        )(3.0)
        self.assertEqual(value[1]["s"], "text")
        self.assertAllClose(value[1]["x"], F(3), check_dtypes=False)
        aux = jax.jit(jax.grad(lambda x: (x**2, {"y": jnp.sin(x)}), has_aux=True))(3.0)[1]
        self.assertAllClose(aux["y"], np.sin(F(3)))
        nested = jax.grad(lambda x: jax.grad(lambda y: (y * x, y * x), has_aux=True)(x)[1])(3.0)
        self.assertAllClose(nested, F(6))

    def test_argnums_errors(self):
        with self.assertRaisesRegex(TypeError, "requires at least 3 positional arguments"):
            jax.grad(lambda x, y: x, argnums=2)(1.0, 2.0)
        with self.assertRaisesRegex(ValueError, "argnums=-3"):
            jax.grad(lambda x, y: x, argnums=-3)(1.0, 2.0)
        with self.assertRaisesRegex(ValueError, "more than once"):
            jax.grad(lambda x, y: x * y, argnums=(0, 0))(1.0, 2.0)
        with self.assertRaises(TypeError):
            jax.grad(lambda x: x, argnums="x")(1.0)

    def test_unused_and_constant(self):
        self.assertAllClose(
            jax.grad(lambda x, y: x, (0, 1))(1.0, np.ones(3, F)), (F(1), np.zeros(3, F))
        )
        self.assertAllClose(jax.grad(lambda x: 3.0)(1.0), F(0))
        self.assertAllClose(jax.jacrev(lambda x: np.ones(2, F))(np.ones(3, F)), np.zeros((2, 3), F))
        self.assertAllClose(jax.jacfwd(lambda x: np.ones(2, F))(np.ones(3, F)), np.zeros((2, 3), F))
        out, tangent = jax.jvp(lambda x: 3, (1.0,), (1.0,))
        self.assertEqual(tangent.dtype, jax.float0)

    def test_same_argument_twice(self):
        x = jnp.ones(3)
        self.assertAllClose(
            jax.grad(lambda a, b: jnp.sum(a * 2 + b * 3), (0, 1))(x, x),
            (np.full(3, 2, F), np.full(3, 3, F)),
        )

    def test_empty(self):
        self.assertEqual(jax.grad(lambda x: jnp.sum(x))(jnp.ones((0, 3))).shape, (0, 3))
        self.assertEqual(jax.jacfwd(lambda x: x)(jnp.ones(0)).shape, (0, 0))

    def test_large_jacobians_have_no_large_constants(self):
        f = lambda t: (t["a"] * 2, jnp.sin(t["b"]) * t["a"][0])
        args = {"a": jnp.arange(200, dtype=F), "b": jnp.ones((80, 2), F)}
        for jacobian in (jax.jacfwd, jax.jacrev):
            (da, db), (ea, eb) = [(d["a"], d["b"]) for d in jacobian(f)(args)]
            self.assertAllClose(da, 2 * np.eye(200, dtype=F))
            self.assertAllClose(db, np.zeros((200, 80, 2), F))
            self.assertAllClose(ea[:, :, 0], np.full((80, 2), np.sin(1), F), rtol=1e-6)
            self.assertAllClose(eb, np.zeros((80, 2, 80, 2), F))
            consts = jax.make_jaxpr(jacobian(f))(args).consts
            self.assertLess(sum(np.size(c) for c in consts), 2**10)
        self.assertEqual(jax.jacrev(lambda x: x)(jnp.ones(0)).shape, (0, 0))

    def test_large_fan_out(self):
        f = lambda x: sum(x * float(i) for i in range(100))
        self.assertAllClose(jax.grad(f)(1.0), F(4950))

    def test_long_chains_do_not_recurse(self):
        def f(x):
            for _ in range(3000):
                x = lax.mul(x, F(1.0))
            return x

        self.assertAllClose(jax.grad(f)(F(2)), F(1))

    def test_residuals_are_let_go(self):
        import gc
        import weakref

        def run():
            big = jnp.ones(1000)
            _, f_vjp = jax.vjp(lambda x: jnp.sum(x * big), jnp.ones(1000))
            f_vjp(1.0)
            return weakref.ref(big)

        ref = run()
        gc.collect()
        self.assertIsNone(ref())


class VjpTest(jtu.JaxTestCase):
    def test_called_many_times(self):
        _, f_vjp = jax.vjp(lambda x, y: x * jnp.sin(y), 2.0, 3.0)
        for ct in (1.0, 2.0):
            self.assertAllClose(f_vjp(ct), (F(ct * np.sin(3)), F(ct * 2 * np.cos(3))))

    def test_trees(self):
        out, f_vjp = jax.vjp(lambda d: (d["a"] * 2, [d["b"]]), {"a": 1.0, "b": np.ones(2, F)})
        self.assertEqual(jax.tree.structure(f_vjp(out)), jax.tree.structure(({"a": 0, "b": 0},)))
        with self.assertRaisesRegex(ValueError, r"result\[1\] was a <class 'list'>"):
            f_vjp((1.0, np.ones(2, F)))
        with self.assertRaisesRegex(
            ValueError, r"at path \[1\]\[0\]: got float32\[3\], but expected float32\[2\]"
        ):
            f_vjp((1.0, [np.ones(3, F)]))

    def test_as_pytree(self):
        f = lambda x, y: jnp.sin(x) * y
        out, f_vjp = jax.vjp(f, F(1.2), F(3))
        expected = f_vjp(F(1))
        leaves, tree = jax.tree.flatten(f_vjp)
        self.assertAllClose(jax.tree.unflatten(tree, leaves)(F(1)), expected)
        self.assertAllClose(jax.jit(lambda v, ct: v(ct))(f_vjp, F(1)), expected)
        self.assertAllClose(jax.jit(lambda x: jax.vjp(f, x, F(3)))(F(1.2))[1](F(1)), expected)
        many = jax.vmap(lambda x: jax.vjp(f, x, F(3))[1])(np.full(2, 1.2, F))
        self.assertAllClose(
            jax.vmap(lambda v: v(F(1)))(many), jax.tree.map(lambda x: jnp.stack([x, x]), expected)
        )
        scanned = lax.scan(lambda c, x: (c, jax.vjp(f, x, c)[1]), F(3), np.full(2, 1.2, F))[1]
        self.assertAllClose(jax.vmap(lambda v: v(F(1)))(scanned)[0], np.full(2, expected[0], F))

    def test_attributes(self):
        w, x = jnp.float32(3), jnp.float32(2)
        _, f_vjp = jax.vjp(lambda w, x: jnp.sin(w * x), w, x)
        self.assertIsInstance(f_vjp, api.VJP)
        self.assertEqual(f_vjp.in_tree, jax.tree.structure((0, 0)))
        self.assertEqual(f_vjp.out_tree, jax.tree.structure(0))
        self.assertIs(f_vjp.args_res[0], w)
        self.assertIs(f_vjp.args_res[1], x)
        self.assertLen(f_vjp.opaque_residuals, 1)
        self.assertLen(f_vjp.jaxpr.invars, 2)
        cos = np.cos(F(6))
        self.assertAllClose(f_vjp(F(1)), (2 * cos, 3 * cos))
        f_vjp.args_res[1] = jnp.float32(5)
        self.assertAllClose(f_vjp(F(1)), (5 * cos, 3 * cos))
        _, sin_vjp = jax.vjp(jnp.sin, x)
        self.assertEqual(repr(sin_vjp.args_res), "[NotNeeded()]")
        self.assertIn("VJP", repr(sin_vjp))

    def test_integer_cotangents(self):
        _, f_vjp = jax.vjp(lambda x: (x * 2, x.astype(int)), jnp.float32(1))
        for ct in (np.zeros((), jax.float0), np.int32(5)):
            self.assertAllClose(f_vjp((F(1), ct)), (F(2),))

    def test_after_the_trace(self):
        kept = []
        jax.jit(lambda x: kept.append(jax.vjp(jnp.sin, x)[1]) or x)(F(1))
        with self.assertRaises(jax.errors.UnexpectedTracerError):
            kept[0](F(1))

    def test_under_transformations(self):
        def f(x):
            _, f_vjp = jax.vjp(lambda y: jnp.sin(y) * x, x)
            return f_vjp(x)[0]

        expected = lambda x: x * x * jnp.cos(x)
        x = F(0.8)
        self.assertAllClose(f(x), expected(x))
        self.assertAllClose(jax.grad(f)(x), jax.grad(expected)(x))
        self.assertAllClose(
            jax.jit(jax.vmap(jax.grad(f)))(np.full(2, x)),
            jax.vmap(jax.grad(expected))(np.full(2, x)),
        )


class LinearizeTest(jtu.JaxTestCase):
    def test_linear_part_runs_alone(self):
        calls = []

        def f(x):
            calls.append(x)
            return jnp.sin(x)

        out, f_jvp = jax.linearize(f, 1.0)
        self.assertAllClose(f_jvp(2.0), F(2 * np.cos(1)))
        self.assertAllClose(
            jax.vmap(f_jvp)(np.arange(3, dtype=F)), np.arange(3, dtype=F) * F(np.cos(1))
        )
        self.assertAllClose(jax.jit(f_jvp)(2.0), F(2 * np.cos(1)))
        self.assertLen(calls, 1)
        transpose = jax.linear_transpose(f_jvp, 1.0)
        self.assertAllClose(transpose(2.0), (F(2 * np.cos(1)),))

    def test_is_a_pytree(self):
        _, f_jvp = jax.linearize(lambda x: jnp.sin(x) * x, 1.0)
        self.assertAllClose(jax.jit(lambda f, t: f(t))(f_jvp, 1.0), f_jvp(1.0))

    def test_constants_and_integers(self):
        out, f_jvp = jax.linearize(lambda x, n: (x * 2, 3, n), 1.0, 5)
        tangents = f_jvp(1.0, np.zeros((), jax.float0))
        self.assertEqual([getattr(t, "dtype", None) for t in tangents[1:]], [jax.float0] * 2)

    def test_linear_transpose(self):
        a = self.rng().randn(3, 4).astype(F)
        f = lambda x, y: [jnp.asarray(a) @ x, y * 2]
        t = jax.linear_transpose(f, np.zeros(4, F), F(0))
        cts = t([np.ones(3, F), F(1)])
        self.assertAllClose(cts, (a.T @ np.ones(3, F), F(2)))
        back = jax.linear_transpose(lambda cts: t(cts), [np.ones(3, F), F(1)])
        self.assertAllClose(back((np.ones(4, F), F(1)))[0], [a @ np.ones(4, F), F(2)])
        for fun in (
            lambda x: lax.scan(lambda c, _: (c * 2, c), x, None, length=3)[0],
            lambda x: lax.cond(True, lambda x: x * 3, lambda x: x, x),
            lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, x),
            jax.checkpoint(lambda x: x * 2),
            jax.vmap(lambda x: x * 2),
        ):
            x = np.ones(2, F)
            self.assertAllClose(jax.linear_transpose(fun, x)(x)[0], jax.vjp(fun, x)[1](x)[0])


class KinksTest(jtu.JaxTestCase):
    """The documented choices at points without a derivative."""

    def test_choices(self):
        cases = [
            (jnp.abs, 0.0, 1.0), (lambda x: jnp.maximum(x, 0.0), 0.0, 0.5), (lambda x: jnp.minimum(x, 0.0), 0.0, 0.5),
            (jax.nn.relu, 0.0, 0.0), (jnp.sign, 0.0, 0.0), (jnp.floor, 1.0, 0.0), (lambda x: jnp.clip(x, 0.0, 1.0), 2.0, 0.0),
            (lambda x: jnp.where(x > 0, x, -x), 0.0, -1.0), (lambda x: x**2, 0.0, 0.0), (lambda x: jnp.power(x, 3), 0.0, 0.0),
            (lambda x: jnp.max(jnp.stack([x, x])), 1.0, 1.0),
        ]  # fmt: skip
        for f, x, expected in cases:
            self.assertAllClose(jax.grad(f)(x), F(expected), check_dtypes=False)
            self.assertAllClose(jax.jit(jax.grad(f))(x), F(expected), check_dtypes=False)

    def test_nans_do_not_spread_through_where(self):
        safe = lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0)
        self.assertAllClose(jax.grad(safe)(-1.0), F(0))
        branch = lambda x: lax.cond(x > 0, jnp.log, lambda x: 0.0 * x, x)
        self.assertAllClose(jax.grad(branch)(0.0), F(0))
        self.assertAllClose(
            jax.vmap(jax.grad(branch))(np.array([0.0, 2.0], F)), np.array([0, 0.5], F)
        )


class TestWithRefs:
    def vjp(self):
        return jax.vjp(lambda x, t: x * t["a"], F(3), {"a": F(4)})[1]

    def test_values_and_what_is_not_wanted(self):
        value, dont = jax.ad.GradValue(), jax.ad.DontWant()
        assert self.vjp().with_refs(value, {"a": value})(F(1)) == (4, {"a": 3})
        assert self.vjp().with_refs(dont, {"a": value})(F(1)) == (jax.ad.DidntWant(), {"a": 3})
        assert jax.tree.leaves(jax.ad.DidntWant()) == jax.tree.leaves(jax.ad.GradRef()) == []

    def test_mutable_arrays(self):
        ref = jax.new_ref(jnp.zeros(()))
        call = self.vjp().with_refs(ref, {"a": jax.ad.DontWant()})
        for _ in range(2):
            assert call(F(1)) == (jax.ad.GradRef(), {"a": jax.ad.DidntWant()})
        assert ref[...] == 8

    @pytest.mark.parametrize("wanted", [(1.0, {"a": 2.0}), (jax.ad.GradValue(),), (None, {"a": 1})])
    def test_errors(self, wanted):
        with pytest.raises(TypeError, match="with_refs takes"):
            self.vjp().with_refs(*wanted)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
