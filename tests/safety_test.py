"""What must not break the next call: threads, interrupts, re-entrancy, recursion, lack of memory, fork."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import compiler, config, core, test_util as jtu
from jax._src.interpreters import pxla

F = np.float32


def in_threads(n, fun):
    """The results of `fun(0), ..., fun(n - 1)`, started at once in as many threads."""
    barrier = threading.Barrier(n)

    def run(i):
        barrier.wait()
        return fun(i)

    with ThreadPoolExecutor(n) as pool:
        return [f.result(timeout=120) for f in [pool.submit(run, i) for i in range(n)]]


class ThreadsTest(jtu.JaxTestCase):
    def test_one_jitted_function(self):
        f = jax.jit(lambda x, n: lax.mul(lax.sin(x), float(n)), static_argnums=1)

        def work(i):
            return [float(f(F(i), k)) for k in range(4)] + [f(np.full(i % 3 + 1, i, F), 1).shape]

        for i, result in enumerate(in_threads(8, work)):
            expected = [np.sin(F(i)) * k for k in range(4)]
            np.testing.assert_allclose(result[:4], expected, rtol=1e-5)
            self.assertEqual(result[4], (i % 3 + 1,))

    def test_transformations_at_once(self):
        step = lambda c, x: (lax.sin(lax.mul(c, x)), c)
        xs = np.linspace(0.5, 1.5, 4, dtype=F)
        fun = jax.jit(lambda x: lax.scan(step, x, xs)[0])
        works = [
            lambda: fun(F(0.5)),
            lambda: jax.grad(fun)(F(0.5)),
            lambda: jax.vmap(fun)(xs),
            lambda: jax.jvp(fun, (F(0.5),), (F(1),))[1],
            lambda: jax.hessian(fun)(F(0.5)),
            lambda: jax.jit(jax.vmap(jax.grad(fun)))(xs),
        ]
        results = in_threads(12, lambda i: np.asarray(works[i % 6]()))
        for i, result in enumerate(results):
            np.testing.assert_allclose(result, works[i % 6](), rtol=1e-5)

    def test_traces_are_of_the_thread(self):
        inside, leave = threading.Event(), threading.Event()

        def slow(x):
            inside.set()
            self.assertTrue(leave.wait(60))
            return lax.sin(x)

        thread = threading.Thread(target=lambda: jax.jit(slow)(F(1)))
        thread.start()
        self.assertTrue(inside.wait(60))
        # While the other thread traces, this one is not under a trace.
        self.assertTrue(core.trace_state_clean())
        self.assertEqual(float(jax.jit(lambda x: lax.add(x, x))(F(2))), 4)
        self.assertIsInstance(lax.sin(F(0)), jax.Array)
        leave.set()
        thread.join(60)

    def test_configuration_is_of_the_thread(self):
        def work(i):
            with (
                jax.enable_x64(bool(i % 2)),
                jax.numpy_dtype_promotion("strict" if i % 3 else "standard"),
            ):
                for _ in range(20):
                    dtype = jax.jit(lambda: jnp.arange(3))().dtype
                    assert dtype == (np.int64 if i % 2 else np.int32)
                    assert config.numpy_dtype_promotion.value == ("strict" if i % 3 else "standard")
            return True

        self.assertTrue(all(in_threads(6, work)))
        self.assertFalse(config.enable_x64.value)

    def test_first_use_at_once(self):
        program = """
            import threading, jax, numpy as np
            from jax import lax
            barrier, results = threading.Barrier(6), []
            def work(i):
                barrier.wait()
                results.append(float(jax.jit(lambda x: lax.add(x, float(i)))(np.float32(1))))
            threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
            [t.start() for t in threads]; [t.join() for t in threads]
            assert sorted(results) == [1, 2, 3, 4, 5, 6], results
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)

    @pytest.mark.usefixtures("only_new_objects")
    def test_clearing_caches_meanwhile(self):
        stop = threading.Event()

        def clear():
            while not stop.is_set():
                jax.clear_caches()
                gc.collect()

        thread = threading.Thread(target=clear)
        thread.start()
        try:
            for i in range(10):
                self.assertEqual(float(jax.jit(lambda x: lax.add(x, F(1)))(F(i))), i + 1)
        finally:
            stop.set()
            thread.join(60)


COLLECTING = """
import gc, signal, jax
signal.signal(signal.SIGALRM, signal.default_int_handler)
objects = [[] for _ in range(500_000)]
for _ in range(5):
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        for _ in range(100):
            gc.collect()
        print("lost")
    except KeyboardInterrupt:
        print("interrupted")
"""


class InterruptTest(jtu.JaxTestCase):
    """Ctrl-C at chosen moments; then the same call works, from sound caches."""

    def setUp(self):
        super().setUp()
        # a shell's background jobs are started deaf to Ctrl-C
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, handler)

    def interrupted(self, call, expected, interrupt=contextlib.nullcontext):
        with interrupt(), self.assertRaises(KeyboardInterrupt):
            call()
        self.assertTrue(core.trace_state_clean())
        self.assertIs(core.trace_ctx.trace, core.eval_trace)
        np.testing.assert_allclose(call(), expected, rtol=1e-6)
        np.testing.assert_allclose(call(), expected, rtol=1e-6)

    def flaky(self, fun):
        """`fun`, interrupted in its first call."""
        calls = []

        def run(*args):
            if not calls:
                calls.append(None)
                signal.raise_signal(signal.SIGINT)
            return fun(*args)

        return run

    def test_while_collecting_garbage(self):
        """What a callback of the collector raises would be ignored."""
        done = subprocess.run([sys.executable, "-c", COLLECTING], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("interrupted\n" * 5, ""))

    def test_while_tracing(self):
        f = jax.jit(self.flaky(lambda x: lax.sin(x)))
        self.interrupted(lambda: f(F(1)), np.sin(1))

    def test_while_tracing_under_transformations(self):
        flaky = self.flaky
        square = lambda x: lax.mul(x, x)
        calls = [
            (lambda f: lambda: jax.grad(f)(F(3)), 6),
            (lambda f: lambda: jax.vmap(f)(np.arange(3, dtype=F)), [0, 1, 4]),
            (lambda f: lambda: jax.jvp(f, (F(3),), (F(1),))[1], 6),
            (lambda f: lambda: jax.jit(jax.grad(jax.jit(f)))(F(3)), 6),
            (lambda f: lambda: jax.grad(jax.checkpoint(f))(F(3)), 6),
            (
                lambda f: (
                    lambda: jax.vmap(lambda x: x, axis_name="i")(
                        jax.vmap(f, axis_name="j")(np.arange(2, dtype=F))
                    )
                ),
                [0, 1],
            ),
            (lambda f: lambda: jax.eval_shape(f, F(1)).shape, ()),
            (lambda f: lambda: jax.linearize(f, F(3))[1](F(1)), 6),
        ]
        for make, expected in calls:
            self.interrupted(make(flaky(square)), expected)

    def test_while_staging_control_flow(self):
        flaky = self.flaky
        xs = np.arange(3, dtype=F)
        add = flaky(lambda c, x: (lax.add(c, x), None))
        self.interrupted(lambda: lax.scan(add, F(0), xs)[0], 3)
        body = flaky(lambda x: lax.add(x, F(1)))
        self.interrupted(lambda: lax.while_loop(lambda x: lax.lt(x, F(4)), body, F(0)), 4)
        yes = flaky(lambda x: lax.add(x, F(1)))
        self.interrupted(lambda: lax.cond(True, yes, lambda x: x, F(0)), 1)
        step = flaky(lambda i, x: lax.add(x, F(1)))
        self.interrupted(lambda: jax.grad(lambda x: lax.fori_loop(0, 3, step, x))(F(1)), 1)

    def test_in_rules_of_custom_derivatives(self):
        f = jax.custom_jvp(lambda x: lax.sin(x))
        f.defjvp(self.flaky(lambda p, t: (lax.sin(p[0]), lax.mul(F(2), t[0]))))
        self.interrupted(lambda: jax.grad(f)(F(1)), 2)
        for place in ("fwd", "bwd"):
            fwd, bwd = (lambda x: (lax.sin(x), x)), (lambda r, g: (lax.mul(g, F(3)),))
            g = jax.custom_vjp(lambda x: lax.sin(x))
            g.defvjp(
                self.flaky(fwd) if place == "fwd" else fwd,
                self.flaky(bwd) if place == "bwd" else bwd,
            )
            self.interrupted(lambda: jax.jit(jax.grad(g))(F(1)), 3)

    @contextlib.contextmanager
    def patched(self, owner, name):
        original, calls = getattr(owner, name), []

        def run(*args, **kwargs):
            if not calls:
                calls.append(None)
                signal.raise_signal(signal.SIGINT)
            return original(*args, **kwargs)

        with mock.patch.object(owner, name, run):
            yield

    def test_while_lowering(self):
        f = jax.jit(lambda x: lax.sin(lax.mul(x, F(2))))
        self.interrupted(lambda: f(F(1)), np.sin(2), lambda: self.patched(pxla, "lower"))

    def test_inside_a_lowering_rule(self):
        rule = lax.sin_p.lowerings[None]
        f = jax.jit(lambda x: lax.sin(lax.mul(x, F(4))))
        self.addCleanup(lax.sin_p.lowerings.__setitem__, None, rule)
        lax.sin_p.lowerings[None] = self.flaky_rule(rule)
        self.interrupted(lambda: f(F(1)), np.sin(4))

    def flaky_rule(self, rule):
        calls = []

        def run(*args, **kwargs):
            if not calls:
                calls.append(None)
                signal.raise_signal(signal.SIGINT)
            return rule(*args, **kwargs)

        return run

    def test_while_compiling(self):
        f = jax.jit(lambda x: lax.sin(lax.mul(x, F(3))))
        interrupt = lambda: self.patched(compiler, "backend_compile_and_load")
        self.interrupted(lambda: f(F(1)), np.sin(3), interrupt)
        self.interrupted(lambda: jax.vmap(f)(np.ones(2, F)), [np.sin(3)] * 2, interrupt)

    def test_configuration_is_put_back(self):
        with self.assertRaises(KeyboardInterrupt):
            with jax.enable_x64(True), jax.disable_jit(), jax.named_scope("s"):
                signal.raise_signal(signal.SIGINT)
        self.assertFalse(config.enable_x64.value)
        self.assertFalse(config.disable_jit.value)

    def test_at_any_moment(self):
        # From another thread, after ever longer times: wherever it strikes, the next call is right.
        def call():
            f = jax.jit(
                lambda x: lax.scan(lambda c, y: (lax.sin(lax.add(c, y)), None), x, np.ones(3, F))[0]
            )
            return jax.grad(lambda x: jax.vmap(f)(x)[0])(np.zeros(2, F))

        expected = call()
        main = threading.get_ident()
        for delay in np.linspace(0.001, 0.06, 12):
            timer = threading.Timer(delay, signal.pthread_kill, (main, signal.SIGINT))
            try:
                timer.start()
                call()
                timer.join()
                threading.Event().wait(0.05)  # let a late signal strike here
            except KeyboardInterrupt:
                pass
            timer.join()
            self.assertTrue(core.trace_state_clean())
            self.assertAllClose(call(), expected)


class ReentrancyTest(jtu.JaxTestCase):
    def test_jit_inside_hash_and_eq(self):
        f = jax.jit(lambda x: lax.add(x, x))

        class Static:
            def __hash__(self):
                return int(f(F(2)))

            def __eq__(self, other):
                return float(f(F(1))) == 2

        g = jax.jit(lambda s, x: lax.mul(x, x), static_argnums=0)
        self.assertEqual(float(g(Static(), F(3))), 9)
        self.assertEqual(float(g(Static(), F(4))), 16)

    def test_jit_inside_flatten(self):
        f = jax.jit(lambda x: lax.add(x, x))

        class Node:
            def __init__(self, x):
                self.x = x

        jax.tree_util.register_pytree_node(
            Node, lambda n: ((f(n.x),), None), lambda _, c: Node(c[0])
        )
        self.assertEqual(float(jax.jit(lambda n: n.x)(Node(F(2)))), 4)

    def test_the_function_itself_while_traced(self):
        def fun(x, depth):
            return lax.mul(f(x, depth - 1), F(2)) if depth else x

        f = jax.jit(fun, static_argnums=1)
        self.assertEqual(float(f(F(1), 6)), 64)

    def test_endless_recursion(self):
        f = jax.jit(lambda x: f(lax.add(x, F(1))))
        for _ in range(2):
            with self.assertRaises(RecursionError):
                f(F(1))
            self.assertTrue(core.trace_state_clean())
        self.assertEqual(float(jax.jit(lambda x: lax.add(x, x))(F(2))), 4)

    def test_deep_nesting(self):
        f = lambda x: lax.sin(x)
        for _ in range(25):
            f = jax.jit(lambda x, f=f: f(x))
        self.assertAllClose(jax.grad(f)(F(0.5)), np.cos(F(0.5)))

    @pytest.mark.usefixtures("only_new_objects")
    def test_garbage_collection_while_tracing(self):
        def fun(x):
            for _ in range(5):
                x = lax.sin(x)
                gc.collect()
            return x

        self.assertTrue(np.isfinite(jax.jit(jax.grad(jax.jit(fun)))(F(1))))

    def test_generators_and_exceptions_between_traces(self):
        def values():
            with contextlib.suppress(ZeroDivisionError):
                yield jax.jit(lambda x: lax.add(x, x))(F(1))
                1 / 0  # noqa: B018
            yield jax.grad(lambda x: lax.mul(x, x))(F(3))

        self.assertEqual([float(v) for v in values()], [2, 6])


class MemoryTest(jtu.JaxTestCase):
    def test_sizes_beyond_memory(self):
        n = 1 << 24
        for call in (
            lambda: jax.jit(lambda: lax.full((n, n), F(1)))(),
            lambda: lax.full((n, n), F(1)),
            lambda: jax.jit(lambda x: lax.broadcast_in_dim(x, (n, n), (0,)))(np.ones(n, F)),
        ):
            with self.assertRaisesRegex(
                (jax.errors.JaxRuntimeError, ValueError, MemoryError), "(?i)memory|exceed|RESOURCE"
            ):
                call().block_until_ready()
            self.assertEqual(float(jax.jit(lambda x: lax.add(x, x))(F(2))), 4)

    def test_sizes_beyond_integers(self):
        with self.assertRaises((ValueError, OverflowError, TypeError, jax.errors.JaxRuntimeError)):
            lax.full((1 << 62, 1 << 62), F(1))
        self.assertEqual(float(lax.add(F(1), F(1))), 2)


class ForkTest(jtu.JaxTestCase):
    def test_child_without_jax(self):
        # Forking after computing is dangerous, and said so; a child that does not compute is fine.
        float(jax.jit(lambda x: lax.add(x, x))(F(1)))
        with jtu.ignore_warning():
            pid = os.fork()
            if pid == 0:
                os._exit(7)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)
        self.assertEqual(float(jax.jit(lambda x: lax.mul(x, x))(F(3))), 9)

    def test_fork_before_the_first_use(self):
        program = """
            import os, sys, jax
            import jax.numpy as jnp
            pid = os.fork()
            ok = float(jax.jit(jnp.sin)(0.)) == 0
            if pid == 0:
                os._exit(0 if ok else 1)
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or not ok)
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)

    def test_warning(self):
        program = """
            import os, warnings, jax
            import jax.numpy as jnp
            jnp.ones(3).block_until_ready()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                os.waitpid(pid, 0)
            assert any("fork" in str(w.message) for w in caught), caught
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
