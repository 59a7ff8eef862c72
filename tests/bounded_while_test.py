"""`lax.while_loop(..., max_steps=N)`: against unrolled Python loops, under all transformations."""

import inspect

import numpy as np
from absl.testing import absltest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, test_util as jtu, xla_bridge
from jax._src.lax.control_flow.bounded import level_sizes
from jax.experimental import checkify
from jax.sharding import AxisType, PartitionSpec as P

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

F = np.float32
RNG = np.random.RandomState(0)
W, X = RNG.randn(3, 3).astype(F) / 1.3, RNG.randn(3).astype(F) / 10
# After 7, 5, 4, 0 and 0 steps the sum of squares exceeds 4.
XS = RNG.randn(5, 3).astype(F) * np.array([[0.01], [0.1], [0.5], [2], [5]], F)


def step(w, k, x):
    return k + 1, jnp.tanh(w @ x) * 1.1 + 0.3 * x + 0.001 * k.astype(x.dtype)


def loop(w, x, limit=4.0, max_steps=30):
    return lax.while_loop(
        lambda c: jnp.sum(c[1] ** 2) < limit,
        lambda c: step(w, *c),
        (jnp.int32(0), x),
        max_steps=max_steps,
    )


def num_steps(w, x, limit=4.0, max_steps=30):
    k = jnp.int32(0)
    while k < max_steps and jnp.sum(x**2) < limit:
        k, x = step(w, k, x)
    return int(k)


def unrolled(w, x, steps):
    k = jnp.int32(0)
    for _ in range(steps):
        k, x = step(w, k, x)
    return k, x


class BoundedWhileTest(jtu.JaxTestCase):
    def check_close(self, got, expected, tol=1e-5):
        self.assertAllClose(got, expected, rtol=tol, atol=tol)

    def test_gradients_and_bounds(self):
        for n, limit in [
            (0, 3),
            (1, 3),
            (7, 3),
            (7, 1e9),
            (16, 1e9),
            (17, 1e9),
            (50, 1e9),
            (5000, 3),
        ]:
            steps = num_steps(W, X, limit, n)
            self.check_close(loop(W, X, limit, n), unrolled(W, X, steps))
            grads = [
                jax.jit(jax.grad(lambda w, x: jnp.sum(jnp.sin(f(w, x)[1])), (0, 1)))(W, X)
                for f in (lambda w, x: loop(w, x, limit, n), lambda w, x: unrolled(w, x, steps))
            ]
            self.check_close(*grads)

    def test_higher_derivatives_in_all_orders(self):
        steps = num_steps(W, X)
        f = lambda x: jnp.sum(loop(W, x)[1] ** 2)
        g = lambda x: jnp.sum(unrolled(W, x, steps)[1] ** 2)
        hessian = jax.hessian(g)(X)
        for first in (jax.jacfwd, jax.jacrev):
            for second in (jax.jacfwd, jax.jacrev):
                self.check_close(jax.jit(second(first(f)))(X), hessian, 1e-4)
        third = lambda f: jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: jax.grad(f)(x) @ x)(x), x))
        self.check_close(third(f)(X), third(g)(X), 1e-3)

    def test_vmap_with_a_batched_condition(self):
        loss = lambda w, x: jnp.sum(loop(w, x)[1] ** 2)
        each = [
            jax.grad(lambda w, x: jnp.sum(unrolled(w, x, n)[1] ** 2), (0, 1))(W, x)
            for x, n in ((x, num_steps(W, x)) for x in XS)
        ]
        grad_w, grad_x = np.stack([g[0] for g in each]), np.stack([g[1] for g in each])
        self.check_close(jax.vmap(jax.grad(loss, (0, 1)), (None, 0))(W, XS), (grad_w, grad_x))
        total = lambda w, xs: jnp.sum(jax.vmap(loss, (None, 0))(w, xs))
        self.check_close(jax.grad(total, (0, 1))(W, XS), (grad_w.sum(0), grad_x))
        # A batch of functions that were linearized one by one has a batch of numbers of steps.
        _, pulls = jax.vmap(lambda x: jax.vjp(lambda x: loop(W, x)[1], x))(XS)
        got = jax.vmap(lambda pull, ct: pull(ct)[0])(pulls, XS)
        pull = lambda x, n: jax.vjp(lambda x: unrolled(W, x, n)[1], x)[1](x)[0]
        self.check_close(got, np.stack([pull(x, num_steps(W, x)) for x in XS]))

    def test_other_transformations(self):
        steps = num_steps(W, X)
        f, g = lambda x: loop(W, x)[1], lambda x: unrolled(W, x, steps)[1]
        self.check_close(jax.jvp(f, (X,), (X,)), jax.jvp(g, (X,), (X,)))
        _, pushed = jax.linearize(f, X)
        self.check_close(pushed(X), jax.jvp(g, (X,), (X,))[1])
        pulled = jax.linear_transpose(lambda t: jax.jvp(f, (X,), (t,))[1], X)(X)[0]
        self.check_close(pulled, jax.vjp(g, X)[1](X)[0])
        remat = jax.grad(jax.checkpoint(lambda w: jnp.sum(loop(w, X)[1] ** 2)))(W)
        self.check_close(remat, jax.grad(lambda w: jnp.sum(unrolled(w, X, steps)[1] ** 2))(W))
        with jax.disable_jit():
            self.check_close(loop(W, X), unrolled(W, X, steps))
            self.check_close(loop(W, X, 1e9, 2), unrolled(W, X, 2))

    def test_complex_carry(self):
        f = lambda z: lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * z), (0, z), max_steps=40
        )[1]
        self.check_close(
            jax.grad(lambda z: jnp.abs(f(z)))(1 + 2j), jax.grad(lambda z: jnp.abs(z**4))(1 + 2j)
        )

    def test_no_step_runs_after_the_end_or_prints_twice(self):
        lines = []

        def f(x):
            def body(c):
                jax.debug.callback(lambda k: lines.append(f"body {k}"), c[0])
                return c[0] + 1, jnp.sin(c[1])

            def cond(c):
                jax.debug.callback(lambda k: lines.append(f"cond {k}"), c[0])
                return c[0] < 2

            return lax.while_loop(cond, body, (0, x), max_steps=1000)[1]

        for g in (f, jax.grad(f), jax.jit(jax.grad(f))):
            lines.clear()
            g(1.0)
            jax.effects_barrier()
            self.assertEqual(sorted(lines), ["body 0", "body 1", "cond 0", "cond 1", "cond 2"])

    def test_backward_steps_are_those_of_the_forward_pass(self):
        count = []

        @jax.custom_vjp
        def sine(x):
            return jnp.sin(x)

        def pull(x, ct):
            jax.debug.callback(lambda: count.append(1))
            return (jnp.cos(x) * ct,)

        sine.defvjp(lambda x: (jnp.sin(x), x), pull)
        f = lambda x: lax.while_loop(
            lambda c: c[0] < 5, lambda c: (c[0] + 1, sine(c[1])), (0, x), max_steps=10_000
        )[1]
        jax.jit(jax.grad(f))(1.0)
        jax.effects_barrier()
        self.assertLen(count, 5)

    def test_references_and_checkify(self):
        def f(x):
            ref = jax.new_ref(jnp.zeros(()))

            def body(c):
                ref[...] += c[1] ** 2
                return c[0] + 1, jnp.sin(c[1])

            lax.while_loop(lambda c: c[0] < 5, body, (0, x), max_steps=50)
            return ref[...]

        def g(x):
            total = 0.0
            for _ in range(5):
                total, x = total + x**2, jnp.sin(x)
            return total

        self.check_close(jax.grad(f)(1.0), jax.grad(g)(1.0))
        log = lambda x: lax.while_loop(
            lambda c: c[0] < 5, lambda c: (c[0] + 1, jnp.log(c[1] - 1)), (0, x), max_steps=20
        )[1]
        for h in (log, jax.grad(log), jax.jit(jax.grad(log))):
            error, _ = checkify.checkify(h, errors=checkify.nan_checks)(3.0)
            self.assertIn("nan generated by primitive", error.get())

        batched = lambda xs: jnp.sum(
            jax.vmap(
                lambda x: lax.while_loop(lambda x: x > 1, lambda x: jnp.log(x), x, max_steps=20)
            )(xs)
        )
        with self.assertRaisesRegex(ValueError, "checkify-of-vmap-of-while"):
            checkify.checkify(jax.grad(batched), errors=checkify.nan_checks)(XS[:, 0])

    def test_devices_with_different_numbers_of_steps(self):
        mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
        shards = lambda f: jax.shard_map(
            lambda w, x: f(w, x[0])[None], mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i")
        )
        total = lambda f: lambda w, x: jnp.sum(f(w, x) ** 2)
        f = lambda w, x: loop(w, x)[1]
        got = jax.jit(jax.grad(total(shards(f)), (0, 1)))(W, XS[:4])
        self.check_close(got, jax.grad(total(jax.vmap(f, (None, 0))), (0, 1))(W, XS[:4]))

        def inner(w, x):
            body = lambda x: lax.fori_loop(0, 3, lambda _, x: jnp.tanh(w @ x), x)
            return lax.while_loop(lambda x: jnp.sum(x**2) > 0.1, body, x, max_steps=40)

        shards(inner)(W, XS[:4])
        with self.assertRaisesRegex(ValueError, r"f.*32\[3,3\].*pcast\(x, \('i',\), to='varying'"):
            jax.grad(total(shards(inner)))(W, XS[:4])
        varying = lambda w, x: inner(lax.pcast(w, ("i",), to="varying"), x)
        got = jax.grad(total(shards(varying)))(W, XS[:4])
        self.check_close(got, jax.grad(total(jax.vmap(inner, (None, 0))))(W, XS[:4]), 1e-4)

    def test_explicit_sharding(self):
        mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Explicit,))
        loss = lambda xs: jnp.sum(jax.vmap(lambda x: loop(W, x)[1])(xs) ** 2)
        expected = jax.grad(loss)(XS[:4])
        with jax.set_mesh(mesh):
            got = jax.grad(loss)(jax.device_put(XS[:4], P("i", None)))
            self.assertEqual(jax.typeof(got).sharding.spec, P("i", None))
            self.check_close(np.asarray(got), np.asarray(expected))

    def test_memory_grows_with_the_logarithm(self):
        def carries(n):
            f = lambda w, x: jnp.sum(
                lax.while_loop(
                    lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1] * w)), (0, x), max_steps=n
                )[1]
            )
            args = [jax.ShapeDtypeStruct((1000,), F)] * 2
            compiled = jax.jit(jax.grad(f, (0, 1))).lower(*args).compile()
            return compiled.memory_analysis().temp_size_in_bytes / 4000

        self.assertLess(carries(4096), 4 * 64)
        self.assertLess(carries(64**3), 6 * 64)
        for n in (1, 16, 17, 1000, 4096, 4097, 10**6, 2**31 - 1):
            sizes = level_sizes(n)
            self.assertGreaterEqual(np.prod(sizes, dtype=object), n)
            self.assertLessEqual(max(sizes), 64)

    def test_errors(self):
        f = lambda n: lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3, max_steps=n)
        self.assertEqual([int(f(n)) for n in (0, 2, np.int32(10))], [3, 12, 192])
        for bad in (1.5, "3", jnp.float32(2)):
            with self.assertRaisesRegex(TypeError, "max_steps must be an integer"):
                f(bad)
        with self.assertRaisesRegex(TypeError, "compare a counter with it in cond_fun"):
            jax.jit(f)(3)
        for bad in (-1, 2**31):
            with self.assertRaisesRegex(ValueError, "max_steps must be at least 0"):
                f(bad)
        with self.assertRaisesRegex(ValueError, "max_steps=N"):
            jax.grad(lambda x: lax.while_loop(lambda x: x < 100, lambda x: x * 2, x))(3.0)

    def test_loops_without_a_bound_and_the_signature_are_unchanged(self):
        jaxpr = jax.make_jaxpr(lambda x: lax.while_loop(lambda x: x < 9, lambda x: x * 2, x))(1)
        self.assertNotIn("max_steps", jaxpr.eqns[0].params)
        names = list(inspect.signature(lax.while_loop).parameters)
        self.assertEqual(names, ["cond_fun", "body_fun", "init_val"])


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
