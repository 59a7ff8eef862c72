"""Control flow: against Python loops, staging, errors with paths. Arguments in full: transforms_test."""

import numpy as np
from absl.testing import absltest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import core, test_util as jtu
from jax.test_util import check_grads

F = np.float32


def python_scan(f, carry, xs, reverse=False):
    ys = []
    for x in xs[::-1] if reverse else xs:
        carry, y = f(carry, x)
        ys.append(y)
    return carry, np.stack(ys[::-1] if reverse else ys)


class ScanTest(jtu.JaxTestCase):
    def test_against_python_loop(self):
        f = lambda c, x: (jnp.sin(c * x) + c, c - x)
        xs = self.rng().randn(7).astype(F)
        for reverse in (False, True):
            expected = python_scan(f, F(0.5), xs, reverse)
            grads = jax.grad(
                lambda c, xs: sum(map(jnp.sum, python_scan_traced(f, c, xs, reverse))), (0, 1)
            )(F(0.5), xs)
            for unroll in (1, 2, 3, 7, 10, True):
                scan = lambda c, xs: lax.scan(f, c, xs, reverse=reverse, unroll=unroll)
                for g in (scan, jax.jit(scan)):
                    self.assertAllClose(g(F(0.5), xs), expected, rtol=1e-5, atol=1e-5)
                got = jax.grad(lambda c, xs: sum(map(jnp.sum, scan(c, xs))), (0, 1))(F(0.5), xs)
                self.assertAllClose(got, grads, rtol=1e-4, atol=1e-5)

    def test_derivatives(self):
        w, xs = self.rng().randn(3, 3).astype(F) / 3, self.rng().randn(4, 3).astype(F)

        def f(w, c, xs):
            return lax.scan(lambda c, x: (jnp.tanh(w @ c + x), jnp.sum(c)), c, xs)

        check_grads(f, (w, xs[0], xs), order=2, rtol=3e-2, atol=3e-2)
        check_grads(jax.vmap(f, (None, 0, None)), (w, xs, xs), order=1, rtol=3e-2, atol=3e-2)

    def test_weak_types_of_cotangents(self):
        sum_of = lambda xs, init: lax.scan(lambda c, x: (c + x, None), init, xs)[0]
        cts = jax.grad(sum_of, (0, 1))(np.ones(3, F), 0.5)  # the loop makes the carry strong
        self.assertEqual([ct.weak_type for ct in cts], [False, False])
        power = lambda init: lax.scan(lambda c, _: (c * 2.0, None), init, None, length=3)[0]
        self.assertTrue(jax.grad(power)(0.5).weak_type)

    def test_length_0(self):
        f = lambda c, x: (c * x, {"y": jnp.sin(x)})
        carry, ys = lax.scan(f, F(2), np.ones((0, 3), F)[:, 0])
        self.assertEqual((float(carry), ys["y"].shape), (2, (0,)))
        grad = jax.grad(lambda c: lax.scan(f, c, np.ones(0, F))[0])(F(2))
        self.assertAllClose(grad, F(1))
        self.assertEqual(
            jax.vmap(lambda c: lax.scan(f, c, np.ones(0, F))[1]["y"])(np.ones(2, F)).shape, (2, 0)
        )

    def test_carry_keeps_trees(self):
        carry = {"a": (F(1), None), "b": [np.ones(2, F)]}
        out, _ = lax.scan(
            lambda c, _: (jax.tree.map(lambda x: x * 2, c), None), carry, None, length=3
        )
        self.assertAllClose(out["b"], [np.full(2, 8, F)])
        self.assertEqual(jax.tree.structure(out), jax.tree.structure(carry))

    def test_weak_types_give_way(self):
        out, _ = lax.scan(lambda c, x: (c + x, None), 0, np.ones(3, F))
        self.assertEqual(out.dtype, F)
        out, _ = lax.scan(lambda c, x: (c * 2, None), 1.0, None, length=2)
        self.assertTrue(out.weak_type)
        for init, step, dtype in [
            (1, jnp.int8(1), "int8"), (1, 1.5, "float32"), (1, jnp.float16(1), "float16"),
            (1.0, jnp.float16(1), "float16"), (1.0, jnp.bfloat16(1), "bfloat16"), (1, 1j, "complex64"),
        ]:  # fmt: skip
            body = lambda c: c + step
            outs = [
                lax.scan(lambda c, _: (body(c), None), init, None, length=2)[0],
                lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, body(c[1])), (0, init))[1],
                lax.fori_loop(0, 2, lambda i, c: body(c), init),
            ]
            for out in outs:
                want = init + 2 * np.asarray(step, np.complex64)
                self.assertEqual((out.dtype.name, complex(out)), (dtype, complex(want)))
                self.assertFalse(out.weak_type)
        with self.assertRaisesRegex(TypeError, "int8.*float32.*dtypes do not match"):
            lax.scan(lambda c, _: (c + 1.5, None), np.int8(1), None, length=2)

    def test_linearized_while_loops_run_once(self):
        w = np.eye(3, dtype=F)

        def f(w, x):
            step = lambda c: (c[0] + 1, jnp.sin(c[1]) @ w)
            return lax.while_loop(lambda c: c[0] < 3, step, (0, x))[1].sum()

        jaxpr = jax.make_jaxpr(lambda *args: jax.linearize(f, *args)[0])(w, w[0])
        self.assertEqual(sum(e.primitive is lax.while_p for e in jaxpr.eqns), 1)
        value, apply = jax.linearize(f, w, w[0])
        out = jax.jvp(f, (w, w[0]), (w, w[1]))
        self.assertAllClose((value, apply(w, w[1])), out)

    def test_no_residuals_of_unused_results(self):
        def f(x):
            c, (y, _) = lax.scan(lambda c, x: (c + x, (c * x, jnp.exp(c))), x, np.ones((4, 3), F))
            return y.sum()

        jaxpr = jax.make_jaxpr(jax.grad(jax.jit(f)))(np.ones(3, F))
        self.assertNotIn("exp", str(jaxpr))

    def test_branches_do_not_promote(self):
        for x, y in ((1, 1.0), (1, F(1)), (1.0, np.float16(1)), (True, 1)):
            for a, b in ((x, y), (y, x)):
                with self.assertRaisesRegex(TypeError, "(?s)true_fun is.*control_flow_test.py.*The output of true_fun has type.*dtypes"):  # fmt: skip
                    lax.cond(True, lambda: a, lambda: b)
        self.assertFalse(lax.cond(True, lambda: 1.0, lambda: F(1)).weak_type)

    def test_errors_have_paths(self):
        xs = np.ones(3, F)
        cases = [
            (lambda c, x: ({"a": c["a"], "b": np.ones(4, F)}, x), {"a": F(1), "b": xs}, TypeError, r"c\['b'\].*float32\[3\].*float32\[4\].*shapes"),
            (lambda c, x: (c.astype(int), x), F(1), TypeError, "int32.*dtypes do not match"),
            (lambda c, x: ((c, c), x), F(1), TypeError, "pytree leaf.*tuple"),
            (lambda c, x: c, F(1), TypeError, "must be a pair"),
            (lambda c, x: (c, x), object(), TypeError, "init has type <class 'object'>"),
        ]  # fmt: skip
        for f, init, error, message in cases:
            with self.assertRaisesRegex(error, f"(?s){message}"):
                lax.scan(f, init, xs)
            self.assertTrue(core.trace_state_clean())
        with self.assertRaisesRegex(ValueError, "different leading axis sizes: 3, 2"):
            lax.scan(lambda c, x: (c, x), F(1), (xs, xs[:2]))
        with self.assertRaisesRegex(ValueError, "xs is a scalar"):
            lax.scan(lambda c, x: (c, x), F(1), F(1))
        with self.assertRaisesRegex(ValueError, "unroll"):
            lax.scan(lambda c, x: (c, x), F(1), xs, unroll=-1)

    def test_residuals_that_do_not_change_are_not_stacked(self):
        w = np.ones((3, 3), F)
        f = lambda w, x: lax.scan(lambda c, _: (jnp.sin(w) @ c, None), x, None, length=5)[0].sum()
        closed = jax.make_jaxpr(jax.grad(f))(w, np.ones(3, F))
        forward = next(e for e in closed.eqns if e.primitive is lax.scan_p)
        self.assertNotIn((5, 3, 3), [v.aval.shape for v in forward.outvars])
        check_grads(f, (w, np.ones(3, F)), order=1, modes=["rev"], rtol=2e-2)

    def test_what_constants_determine_is_computed_in_the_same_program(self):
        f = lambda w, x: lax.scan(lambda c, _: (jnp.sin(w) * c, c * 2), x, None, length=5)[0]
        grad = lambda w: jax.vjp(f, w, F(1))[1](F(1))[0]
        with jtu.count_jit_and_pmap_lowerings() as count:
            got = grad(F(0.7))
        self.assertLessEqual(count(), 2)  # one loop in each direction
        self.assertAllClose(got, F(5 * np.sin(0.7) ** 4 * np.cos(0.7)), rtol=1e-5)
        with jax.disable_jit():
            self.assertAllClose(grad(F(0.7)), got)

    def test_split_transpose(self):
        w, x = np.full((3, 3), 0.3, F), np.linspace(0, 1, 12, dtype=F).reshape(4, 3)

        def loss(w, c, xs, split, reverse):
            body = lambda c, x: (jnp.tanh(w @ c + x), jnp.sin(c) * x)
            c, ys = lax.scan(body, c, xs, _split_transpose=split, reverse=reverse)
            return c.sum() + ys.sum()

        for reverse in (False, True):
            grad = jax.grad(loss, (0, 1, 2))
            args = w, np.ones(3, F), x
            got, want = grad(*args, True, reverse), grad(*args, False, reverse)
            self.assertAllClose(got, want, rtol=1e-5)
        closed = jax.make_jaxpr(lambda *a: grad(*a, True, False))(*args)
        loops = [e for e in closed.eqns if e.primitive is lax.scan_p]
        # Cotangents of carries first; then those of weights, summed, and of slices.
        self.assertEqual([e.params["num_carry"] for e in loops], [1, 1, 1])
        self.assertEqual(loops[1].outvars[0].aval.shape, (3,))
        self.assertEqual([v.aval.shape for v in loops[2].outvars], [(3, 3), (4, 3)])
        check_grads(lambda w: loss(w, *args[1:], True, False), (w,), order=2, rtol=2e-2)

    def test_map(self):
        xs = np.arange(7, dtype=F)
        for size in (None, 1, 2, 3, 7, 10):
            got = lax.map(lambda x: {"y": jnp.sin(x)}, xs, batch_size=size)
            self.assertAllClose(got, {"y": np.sin(xs)})
            grad = jax.grad(lambda xs: jnp.sum(lax.map(jnp.sin, xs, batch_size=size)))(xs)
            self.assertAllClose(grad, np.cos(xs))
        with self.assertRaisesRegex(ValueError, "batch_size must be positive"):
            lax.map(jnp.sin, xs, batch_size=0)


def python_scan_traced(f, carry, xs, reverse):
    ys = []
    for i in reversed(range(len(xs))) if reverse else range(len(xs)):
        carry, y = f(carry, jnp.asarray(xs)[i])
        ys.append(y)
    return carry, jnp.stack(ys)


class CondTest(jtu.JaxTestCase):
    def test_derivatives(self):
        f = lambda p, w, x: lax.cond(p, lambda x: jnp.sin(w * x), lambda x: w + x, x)
        for p in (True, False):
            check_grads(lambda w, x: f(p, w, x), (F(0.7), F(1.3)), order=2, rtol=2e-2)
        g = jax.vmap(jax.grad(f, 1), (0, None, 0))
        self.assertAllClose(
            g(np.array([True, False]), F(2), np.ones(2, F)), np.array([np.cos(2), 1], F)
        )

    def test_only_the_taken_branch_runs(self):
        bad = lambda x: lax.while_loop(lambda c: True, lambda c: c, x)
        self.assertAllClose(lax.cond(True, lambda x: x, bad, F(1)), F(1))
        self.assertAllClose(jax.jit(lambda p: lax.cond(p, lambda x: x, bad, F(1)))(True), F(1))

    def test_no_nans_from_the_other_branch(self):
        f = lambda x: lax.cond(x > 0, jnp.log, lambda x: x * 2, x)
        x = np.array([0.0, -1.0, 2.0], F)
        self.assertAllClose(jax.vmap(jax.grad(f))(x), np.array([2, 2, 0.5], F))
        self.assertAllClose(jax.jit(jax.vmap(jax.grad(f)))(x), np.array([2, 2, 0.5], F))

    def test_transposition_of_batched_branches(self):
        preds = np.array([True, False])
        f = jax.vmap(lambda p, x: lax.cond(p, lambda x: 3 * x, lambda x: 2 * x, x), (0, 0))
        (ct,) = jax.linear_transpose(lambda x: f(preds, x), np.ones(2, F))(np.ones(2, F))
        self.assertArraysEqual(ct, np.array([3, 2], F))

    def test_switch(self):
        branches = [jnp.sin, jnp.cos, lambda x: x * x]
        for i in range(-2, 5):
            f = branches[min(max(i, 0), 2)]
            for index in (i, np.int32(i), jnp.asarray(i)):
                self.assertAllClose(lax.switch(index, branches, F(0.7)), np.asarray(f(F(0.7))))
            self.assertAllClose(
                jax.jit(lax.switch, static_argnums=1)(i, tuple(branches), F(0.7)),
                np.asarray(f(F(0.7))),
            )
        self.assertAllClose(lax.switch(np.uint8(200), branches, F(0.7)), F(0.49), rtol=1e-5)

    def test_platforms(self):
        out = lax.platform_dependent(F(1), cpu=lambda x: x + 1, default=lambda x: x + 2)
        self.assertAllClose(
            jax.jit(lambda: out)(), F(2) if jtu.device_under_test() == "cpu" else F(3)
        )

    def test_errors_have_paths(self):
        with self.assertRaisesRegex(
            TypeError, r"(?s)path \['k'\] has type float32\[\].*int32\[\].*dtypes"
        ):
            lax.cond(True, lambda x: {"k": x}, lambda x: {"k": x.astype(int)}, F(1))
        with self.assertRaisesRegex(
            TypeError, r"(?s)true_fun output\['k'\] is a tuple of length 1.*length 2"
        ):
            lax.cond(True, lambda x: {"k": (x,)}, lambda x: {"k": (x, x)}, F(1))
        with self.assertRaisesRegex(TypeError, r"(?s)branch 0.*branch 2"):
            lax.switch(0, [lambda x: x, lambda x: x, lambda x: np.ones(3, F)], F(1))
        for pred in (np.ones(2), None, "a", [True]):
            with self.assertRaises(TypeError):
                lax.cond(pred, lambda x: x, lambda x: x, F(1))


class WhileTest(jtu.JaxTestCase):
    def test_batched_predicates_stop_one_by_one(self):
        f = lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, 1))
        self.assertAllClose(
            jax.vmap(f)(np.array([0, 3, 1])),
            (np.array([0, 3, 1]), np.array([1, 8, 2])),
            check_dtypes=False,
        )

    def test_values_after_the_end_do_not_spread(self):
        # Finished elements must not be computed into infinities that poison their derivatives.
        f = lambda x: lax.while_loop(lambda c: c < 100, lambda c: c * c, x)
        x = np.array([2.0, 1e10], F)
        out, tangent = jax.jvp(jax.vmap(f), (x,), (np.ones(2, F),))
        self.assertAllClose(out, np.array([256, 1e10], F))
        self.assertAllClose(tangent, np.array([8 * 2.0**7, 1], F))

    def test_forward_mode(self):
        f = lambda w, x: lax.while_loop(lambda c: jnp.sum(c) < 10, lambda c: c * w + x, x)
        check_grads(f, (F(1.5), np.ones(2, F)), order=2, modes=["fwd"], rtol=2e-2)

    def test_reverse_mode_says_what_to_do(self):
        f = lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x)
        for g in (jax.grad(f), jax.jit(jax.grad(f)), jax.grad(jax.jit(f))):
            with self.assertRaisesRegex(ValueError, "lax.scan"):
                g(F(1))
        # A loop that no cotangent reaches is fine.
        h = lambda x: x * lax.stop_gradient(f(x))
        self.assertAllClose(jax.grad(h)(F(1)), F(16))

    def test_fori_loop(self):
        body = lambda i, x: x + i
        self.assertEqual(lax.fori_loop(2, 6, body, 0), 14)
        self.assertEqual(lax.fori_loop(6, 2, body, 7), 7)
        self.assertEqual(jax.jit(lambda a, b: lax.fori_loop(a, b, body, 0))(2, 6), 14)
        for dtype in (np.int8, np.uint8, np.int16, np.uint32):
            out = lax.fori_loop(dtype(0), dtype(4), body, dtype(0))
            self.assertEqual((int(out), out.dtype), (6, dtype))
        with jax.enable_x64(True):
            self.assertEqual(lax.fori_loop(0, 4, body, np.int64(0)).dtype, np.int64)
            self.assertEqual(
                lax.fori_loop(np.int32(0), np.int32(4), body, np.int32(0)).dtype, np.int32
            )
        with self.assertRaisesRegex(TypeError, "must have equal types, got float32 and int32"):
            lax.fori_loop(0.0, 3, body, 0)
        with self.assertRaisesRegex(TypeError, "lower bound must be a real number"):
            lax.fori_loop(0j, 3j, body, 0)

    def test_fori_bounds_that_are_no_integers(self):
        types = []

        def body(i, x):
            types.append((i.dtype, i.weak_type))
            return x + 1

        for bounds, count in (((0.0, 3.5), 3), ((0.7, 3.2), 3), ((False, True), 1)):
            for unroll in (1, 2):
                self.assertEqual(lax.fori_loop(*bounds, body, 0, unroll=unroll), count)
        self.assertEqual(set(types), {(np.dtype(np.int32), True)})
        types.clear()
        self.assertEqual(jax.jit(lambda n: lax.fori_loop(0.0, n, body, 0))(3.5), 4)
        self.assertEqual(set(types), {(np.dtype(np.float32), True)})
        self.assertEqual(
            jax.grad(lambda x: lax.fori_loop(0.0, 3.0, lambda i, y: y * x, x))(2.0), 32
        )

    def test_errors(self):
        with self.assertRaisesRegex(TypeError, r"boolean scalar, but got output type"):
            lax.while_loop(lambda x: x, lambda x: x, F(1))
        with self.assertRaisesRegex(TypeError, "boolean scalar, but got pytree"):
            lax.while_loop(lambda x: (True,), lambda x: x, F(1))
        with self.assertRaisesRegex(TypeError, r"(?s)x\['k'\].*float32\[\].*float32\[3\]"):
            lax.while_loop(lambda x: True, lambda x: {"k": np.ones(3, F)}, {"k": F(1)})


class StagingTest(jtu.JaxTestCase):
    def test_disable_jit(self):
        seen = []
        keep = lambda x: seen.append(x) or x
        with jax.disable_jit():
            lax.scan(lambda c, x: (keep(c) + x, x), F(0), np.ones(2, F))
            lax.fori_loop(0, 2, lambda i, x: keep(x) + i, F(0))
            lax.while_loop(lambda x: x < 2, lambda x: keep(x) + 1, jnp.float32(0))
            lax.cond(True, keep, lambda x: x, jnp.float32(0))
            lax.switch(0, [keep, lambda x: x], jnp.float32(0))
        self.assertLen(seen, 8)
        self.assertFalse([x for x in seen if isinstance(x, core.Tracer)])
        with jax.disable_jit():
            self.assertAllClose(
                jax.grad(lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=2)[0])(
                    F(0)
                ),
                F(1),
            )

    def test_bodies_are_traced_once(self):
        calls = []

        def body(c, x):
            calls.append(None)
            return c + x, c

        scan = lambda c: lax.scan(body, c, np.ones(3, F))[0]
        (
            scan(F(0)),
            jax.grad(scan)(F(0)),
            jax.vmap(scan)(np.ones(2, F)),
            jax.jit(scan)(F(0)),
            jax.hessian(scan)(F(0)),
        )
        self.assertLen(calls, 1)

    def test_jaxprs_of_transformed_loops_are_checked(self):
        f = lambda x: lax.scan(
            lambda c, y: lax.cond(c > 0, lambda c: (c * y, c), lambda c: (c + y, y), c),
            x,
            np.ones(3, F),
        )
        g = lambda x: f(x)[0] + f(x)[1].sum()
        for h in (
            g,
            jax.grad(g),
            jax.grad(jax.grad(g)),
            lambda x: jax.jvp(g, (x,), (x,)),
            jax.jit(jax.grad(jax.checkpoint(g))),
        ):
            core.check_jaxpr(jax.make_jaxpr(h)(F(1)))
            core.check_jaxpr(jax.make_jaxpr(jax.vmap(h))(np.ones(2, F)))


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())


def test_while_condition_with_unused_results_of_values_that_never_change():
    def fun(x):
        cond = lambda c: (jnp.sin(c[0]), c[1] < 3)[1]
        return lax.while_loop(cond, lambda c: (c[0], c[1] + 1), (x, 0))

    x = jnp.arange(3.0)
    for y, n in (fun(x), jax.jit(fun)(x)):
        np.testing.assert_array_equal(y, x)
        assert n == 3
    assert "sin" not in str(jax.make_jaxpr(fun)(x))
