"""`jit`: caches, donation, stages, and what functions it takes. Arguments and errors: transforms_test."""

import functools
import gc
import logging
import weakref

import numpy as np
from absl.testing import absltest, parameterized

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import core, lib, test_util as jtu

F = np.float32


class CacheTest(jtu.JaxTestCase):
    def counts(self, fun, *args, **kwargs):
        """Traces, lowerings and compilations of a call."""
        with (
            jtu.count_jit_tracing_cache_miss() as traces,
            jtu.count_jit_and_pmap_lowerings() as lowerings,
            jtu.count_jit_compilation_cache_miss() as compilations,
        ):
            fun(*args, **kwargs)
        return traces(), lowerings(), compilations()

    def test_once_for_each_type(self):
        f = jax.jit(lambda x: lax.sin(x))
        x = jnp.ones(3)
        self.assertEqual(self.counts(f, x), (1, 1, 1))
        self.assertEqual(self.counts(f, x), (0, 0, 0))
        self.assertEqual(self.counts(f, np.ones(3, F)), (0, 0, 0))
        self.assertEqual(self.counts(f, jnp.ones(4)), (1, 1, 1))
        self.assertEqual(self.counts(f, jnp.ones(3, jnp.bfloat16)), (1, 1, 1))
        self.assertEqual(self.counts(f, 1.0), (1, 1, 1))
        self.assertEqual(self.counts(f, 2.0), (0, 0, 0))
        self.assertEqual(self.counts(f, F(1)), (1, 1, 1))  # no weak type

    def test_body_runs_once(self):
        calls = []
        f = jax.jit(lambda x: calls.append(x) or x)
        for _ in range(3):
            f(1.0)
        self.assertLen(calls, 1)

    def test_same_function_jitted_twice(self):
        def fun(x):
            return lax.cos(x)

        self.assertEqual(self.counts(jax.jit(fun), 1.0), (1, 1, 1))
        self.assertEqual(self.counts(jax.jit(fun), 1.0), (0, 0, 0))
        # Options that make no difference to the program share its trace and its module.
        self.assertEqual(self.counts(jax.jit(fun, keep_unused=True), 1.0), (0, 0, 0))
        self.assertEqual(self.counts(jax.jit(fun, donate_argnums=0), 1.0), (0, 1, 1))

    def test_jit_in_a_loop(self):
        def fun(x):
            return lax.tan(x)

        counts = self.counts(lambda: [jax.jit(fun)(1.0) for _ in range(5)])
        self.assertEqual(counts, (1, 1, 1))

    def test_copied_attributes(self):
        f = jax.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, None), lambda _, g: (3 * g,))
        self.assertEqual(jax.jit(f)(2.0), 2.0)
        self.assertEqual(jax.jit(functools.wraps(f)(lambda x: f(x) + 1))(2.0), 3.0)
        self.assertEqual(jax.jit(jax.grad(f))(2.0), 3.0)

    def test_wrappers_are_not_lowered_as_what_they_wrap(self):
        f = jax.jit(lambda x: x * x)
        f.note = "an attribute"
        methods = ("trace", "lower", "eval_shape", "clear_cache")
        for wrap in (jax.vmap, jax.grad, jax.jacfwd, jax.checkpoint, jax.custom_jvp, jax.custom_vjp,
                     jax.custom_batching.custom_vmap, lambda f: functools.wraps(f)(lambda x: -f(x))):  # fmt: skip
            wrapped = wrap(f)
            self.assertEqual(wrapped.note, "an attribute")
            self.assertEqual([name for name in methods if hasattr(wrapped, name)], [])
        self.assertEqual(jax.eval_shape(jax.vmap(jax.jit(jnp.sum)), jnp.ones((3, 4))).shape, (3,))
        with self.assertRaisesRegex(ValueError, "must be the result of `jit`"):
            jax.export.export(jax.grad(f))
        exported = jax.export.export(jax.jit(jax.grad(f)))(3.0)
        self.assertEqual(exported.call(3.0), 6.0)

    def test_static_values(self):
        f = jax.jit(lambda x, n: lax.mul(x, float(n)), static_argnums=1)
        self.assertEqual(self.counts(f, 1.0, 2), (1, 1, 1))
        self.assertEqual(self.counts(f, 1.0, 2), (0, 0, 0))
        self.assertEqual(self.counts(f, 1.0, 3), (1, 1, 1))
        self.assertEqual(f(2.0, 3), 6.0)
        self.assertEqual(f(2.0, 2), 4.0)

    def test_static_values_of_different_types(self):
        f = jax.jit(lambda n: repr(n) == "True", static_argnums=0)
        self.assertTrue(f(True))
        self.assertFalse(f(1))  # though 1 == True

    def test_static_by_name_or_position(self):
        f = jax.jit(lambda x, n=2: lax.mul(x, float(n)), static_argnames="n")
        self.assertEqual(f(3.0), 6.0)
        self.assertEqual(f(3.0, 4), 12.0)
        self.assertEqual(f(3.0, n=5), 15.0)

    def test_static_equality(self):
        class Config:
            def __init__(self, n):
                self.n = n

            def __hash__(self):
                return hash(self.n)

            def __eq__(self, other):
                return isinstance(other, Config) and self.n == other.n

        f = jax.jit(lambda c, x: lax.mul(x, float(c.n)), static_argnums=0)
        self.assertEqual(self.counts(f, Config(2), 1.0), (1, 1, 1))
        self.assertEqual(self.counts(f, Config(2), 1.0), (0, 0, 0))
        self.assertEqual(f(Config(3), 1.0), 3.0)

    def test_configuration_is_part_of_the_key(self):
        f = jax.jit(lambda x: lax.add(x, 1))
        self.assertEqual(f(1).dtype, np.int32)
        with jax.enable_x64(True):
            self.assertEqual(f(1).dtype, np.int64)
        self.assertEqual(self.counts(f, 1), (0, 0, 0))
        with jax.default_matmul_precision("float32"):
            self.assertEqual(self.counts(f, 1)[0], 1)

    def test_clear_cache(self):
        f, g = jax.jit(lambda x: lax.sin(x)), jax.jit(lambda x: lax.cos(x))
        f(1.0), g(1.0)
        f.clear_cache()
        self.assertEqual(self.counts(f, 1.0), (1, 1, 1))
        self.assertEqual(self.counts(g, 1.0), (0, 0, 0))
        jax.clear_caches()
        self.assertEqual(self.counts(g, 1.0), (1, 1, 1))

    def test_clear_caches_without_live_jitted_function(self):
        scale = 1
        f = lambda x: x * scale
        other = lambda x: x + scale
        jax.jit(f)(2.0)
        jax.jit(f, keep_unused=True)(2.0)
        live = jax.jit(other)
        live(2.0), jax.jit(other)(2.0)
        scale = 10
        jax.clear_caches()
        self.assertEqual(jax.jit(f)(2.0), 20.0)
        self.assertEqual(jax.jit(f, keep_unused=True)(2.0), 20.0)
        self.assertEqual((live(2.0), jax.jit(other)(2.0)), (12.0, 12.0))

    def test_nested_functions_are_traced_once(self):
        inner = jax.jit(lambda x: lax.sin(x))
        outer = jax.jit(lambda x: inner(inner(inner(x))))
        self.assertEqual(self.counts(outer, 1.0), (2, 1, 1))

    def test_transformed_functions_are_traced_once(self):
        inner = jax.jit(lambda x: lax.sin(lax.sin(x)))
        jax.grad(inner)(1.0)
        with (
            jtu.count_jit_tracing_cache_miss() as traces,
            jtu.count_jit_compilation_cache_miss() as compilations,
        ):
            for _ in range(3):
                jax.grad(inner)(2.0)
        self.assertEqual((traces(), compilations()), (0, 0))

    def test_exceptions_leave_no_trace(self):
        bad = [True]

        def fun(x):
            if bad[0]:
                raise RuntimeError("no")
            return lax.sin(x)

        f = jax.jit(fun)
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "no"):
                f(1.0)
            self.assertTrue(core.trace_state_clean())
        bad[0] = False
        self.assertEqual(f(0.0), 0.0)

    def test_no_tracing(self):
        f = jax.jit(lambda x: lax.sin(x))
        f(1.0)
        with jax.no_tracing(True):
            f(1.0)
            with self.assertRaisesRegex(RuntimeError, "no_tracing"):
                f(jnp.ones(3))

    def test_log_compiles(self):
        with self.assertLogs(level=logging.WARNING) as logs, jax.log_compiles(True):

            @jax.jit
            def logged_function(x):
                return lax.sin(x)

            logged_function(1.0)
        text = "\n".join(logs.output)
        self.assertIn("tracing", text)
        self.assertRegex(text, "Compiling.*logged_function")

    def test_control_flow_is_staged_once(self):
        step = lambda c, x: (lax.add(c, x), c)
        yes, no = (lambda x: lax.sin(x)), (lambda x: lax.cos(x))
        body = lambda i, x: lax.add(x, x)
        runs = [
            lambda: lax.scan(step, 0.0, np.ones(3, F)),
            lambda: lax.cond(True, yes, no, 1.0),
            lambda: lax.fori_loop(0, 3, body, 1.0),
            lambda: jax.grad(lambda c: lax.scan(step, c, np.ones(3, F))[0])(1.0),
            lambda: jax.vmap(lambda c: lax.scan(step, c, np.ones(3, F))[0])(np.ones(2, F)),
        ]
        for run in runs:
            run()
            self.assertEqual(self.counts(run), (0, 0, 0))


class LifetimeTest(jtu.JaxTestCase):
    def test_functions_are_let_go(self):
        refs = []
        for i in range(1000):
            f = lambda x, i=i: lax.add(x, float(i))
            jitted = jax.jit(f)
            if i % 50 == 0:
                jitted(1.0), jitted(np.ones(2, F)), jax.make_jaxpr(jitted)(1.0)
                jax.grad(jitted)(1.0), jax.vmap(jitted)(np.ones(2, F))
            refs.append(weakref.ref(f))
            del f, jitted
        gc.collect()
        self.assertEmpty([r for r in refs if r() is not None])

    def test_bodies_of_control_flow_are_let_go(self):
        refs = []

        def run():
            body = lambda i, x: lax.add(x, x)
            step = lambda c, x: (lax.add(c, x), c)
            lax.fori_loop(0, 3, body, 1.0)
            lax.scan(step, 0.0, np.ones(3, F))
            jax.grad(lambda c: lax.scan(step, c, np.ones(3, F))[0])(1.0)
            return [weakref.ref(body), weakref.ref(step)]

        for _ in range(10):
            refs += run()
        gc.collect()
        self.assertEmpty([r for r in refs if r() is not None])

    def test_jaxprs_are_let_go(self):
        refs = []

        def run(i):
            closed = jax.jit(lambda x: lax.mul(x, float(i))).trace(1.0).jaxpr
            core.jaxpr_as_fun(closed)(1.0)
            jax.jit(core.jaxpr_as_fun(closed))(1.0)
            lax.scan(lambda c, _: (core.jaxpr_as_fun(closed)(c)[0], None), 1.0, None, length=2)
            return weakref.ref(closed.jaxpr)

        for i in range(5):
            refs.append(run(i))
        gc.collect()
        self.assertEmpty([r for r in refs if r() is not None])

    def test_arguments_are_let_go(self):
        class Big:
            pass

        f = jax.jit(lambda x: x)
        x = jnp.ones(3)
        f(x), jax.grad(lambda x: f(x)[0])(x)
        ref = weakref.ref(x)
        del x
        gc.collect()
        self.assertIsNone(ref())

    def test_closed_over_tracers_are_let_go(self):
        def outer(x):
            return jax.jit(lambda y: lax.mul(x, y))(x)

        refs = []

        def keep(x):
            refs.append(weakref.ref(x))
            return outer(x)

        jax.jit(keep)(1.0), jax.grad(keep)(1.0), jax.vmap(keep)(np.ones(2, F))
        gc.collect()
        self.assertEmpty([r for r in refs if r() is not None])

    def test_bound_methods(self):
        class Model:
            def __init__(self, k):
                self.k = k

            def apply(self, x):
                return lax.mul(x, self.k)

        a, b = Model(2.0), Model(3.0)
        self.assertEqual(jax.jit(a.apply)(1.0), 2.0)
        self.assertEqual(jax.jit(b.apply)(1.0), 3.0)
        refs = weakref.ref(a), weakref.ref(b)
        del a, b
        gc.collect()
        self.assertEqual([r() for r in refs], [None, None])


def freed(use) -> bool:
    """Whether an array goes with what `use` makes of it, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        x = jnp.arange(7.0) + 1
        ref = weakref.ref(x)
        kept = use(x)
        del x, kept
        return ref() is None
    finally:
        gc.enable()


def called(f):
    f(2.0)
    return f


CLOSURES = {
    "jit": lambda x: called(jax.jit(lambda y: x * y)),
    "lower": lambda x: jax.jit(lambda y: x * y).lower(1.0),
    "compile": lambda x: called(jax.jit(lambda y: x * y).lower(1.0).compile()),
    "nested": lambda x: called(jax.jit(lambda y: jax.jit(lambda z: x * z)(y))),
    "grad": lambda x: called(jax.grad(lambda y: (x * y).sum())),
    "grad_of_jit": lambda x: called(jax.grad(jax.jit(lambda y: (x * jnp.sin(y)).sum()))),
    "jit_of_grad": lambda x: called(jax.jit(jax.grad(lambda y: (x * jnp.sin(y)).sum()))),
    "hessian": lambda x: called(jax.jit(jax.hessian(lambda y: (x * jnp.sin(y)).sum()))),
    "vjp": lambda x: jax.vjp(jax.jit(lambda y: x * jnp.sin(y)), 1.0),
    "linearize": lambda x: jax.linearize(jax.jit(lambda y: x * jnp.sin(y)), 1.0)[1](1.0),
    "vmap": lambda x: jax.vmap(jax.jit(lambda y: x * jnp.sin(y)))(jnp.ones(2)),
    "scan": lambda x: called(
        jax.jit(lambda y: lax.scan(lambda c, _: (c * x, None), x * y, None, length=2))
    ),
    "scan_of_jit": lambda x: called(
        jax.jit(lambda y: lax.scan(jax.jit(lambda c, _: (c * x, None)), x * y, None, length=2))
    ),
    "grad_of_scan": lambda x: called(
        jax.grad(lambda y: lax.scan(lambda c, _: (c * x, None), x * y, None, 2)[0].sum())
    ),
    "while": lambda x: called(
        jax.jit(lambda y: lax.while_loop(lambda c: c.sum() < x.sum(), lambda c: c + x, y * x))
    ),
    "checkpoint": lambda x: called(
        jax.jit(jax.grad(jax.checkpoint(lambda y: jnp.sin(x * y).sum())))
    ),
}


class ClosuresTest(parameterized.TestCase):
    @parameterized.parameters(*CLOSURES)
    def test_arrays_go_with_their_functions(self, name):
        self.assertTrue(freed(CLOSURES[name]))


class CheckedArgumentsTest(parameterized.TestCase):
    @parameterized.parameters("static_argnames", "donate_argnames")
    def test_names(self, option):
        def f(x, /, y, *args):
            return y

        for name in ("x", "args"):
            with self.assertRaisesRegex(ValueError, f"{name}.* These are positional-only"):
                jax.jit(f, **{option: name})
        with self.assertRaisesRegex(ValueError, "Function does not take these args"):
            jax.jit(f, **{option: "z"})
        jax.jit(f, **{option: "y"})

    def test_both(self):
        def f(x, y):
            return y

        for options in (
            dict(static_argnums=0, donate_argnums=0),
            dict(static_argnames="x", donate_argnames=("x", "y")),
        ):
            with self.assertRaisesRegex(ValueError, "cannot intersect"):
                jax.jit(f, **options)

    def test_no_signature(self):
        with self.assertRaisesRegex(ValueError, "Pass donate_argnums instead"):
            jax.jit(max, donate_argnames="x")

    def test_functions_that_cannot_be_keys(self):
        class NoWeakReference:
            __slots__ = ()

            def __call__(self, x):
                return x

        class NoHash:
            __hash__ = None

            def __call__(self, x):
                return x

        for transform in (jax.jit, jax.checkpoint):
            with self.assertRaisesRegex(TypeError, "cannot create weak reference"):
                transform(NoWeakReference())(1.0)
            with self.assertRaisesRegex(TypeError, "unhashable type"):
                transform(NoHash())(1.0)

    def test_positions_from_the_end(self):
        with self.assertRaisesRegex(ValueError, "-2 for len\\(args\\) == 1"):
            jax.jit(lambda *args: args, static_argnums=-2)(1.0)

    @parameterized.parameters(
        {"optimization_level": 2}, {"memory_fitting_level": 1},
        {"exec_time_optimization_effort": 0.5, "memory_fitting_effort": -0.5},
    )  # fmt: skip
    def test_compiler_options(self, **options):
        if "effort" in str(options) and not lib.has_efforts:
            with self.assertRaisesRegex(ValueError, "no compiler option"):
                jax.jit(lax.sin, compiler_options=options)(1.0)
        else:
            self.assertEqual(jax.jit(lambda x: x + 1, compiler_options=options)(1.0), 2.0)
        with self.assertRaisesRegex(TypeError, "must be of type"):
            jax.jit(lax.sin, compiler_options=dict.fromkeys(options, "O1"))(1.0)


class LoweredOnceTest(jtu.JaxTestCase):
    def test_lowered_and_compiled_again(self):
        f = jax.jit(lambda x: lax.sin(x))
        with (
            jtu.count_jit_and_pmap_lowerings() as lowerings,
            jtu.count_jit_compilation_cache_miss() as compilations,
        ):
            f(1.0)
            compiled = f.lower(1.0).compile()
            f.lower(1.0).compile()
        self.assertEqual((lowerings(), compilations()), (1, 1))
        self.assertEqual(compiled(0.0), 0.0)

    def test_eval_shape_and_make_jaxpr_share_traces(self):
        calls = []

        def f(x):
            calls.append(1)
            return lax.sin(x)

        jax.eval_shape(f, 1.0)
        jax.make_jaxpr(f)(1.0)
        jax.jit(f)(1.0)
        jax.jit(f, donate_argnums=0)(1.0)
        self.assertLen(calls, 1)


class FunctionsTest(jtu.JaxTestCase):
    def test_methods_and_descriptors(self):
        class A:
            @functools.partial(jax.jit, static_argnums=0)
            def method(self, x):
                return lax.mul(x, 2.0)

            @staticmethod
            @jax.jit
            def static(x):
                return lax.mul(x, 3.0)

        self.assertEqual(A().method(2.0), 4.0)
        self.assertEqual(A.static(2.0), 6.0)

    def test_pytree_self(self):
        @jax.tree_util.register_pytree_node_class
        class P:
            def __init__(self, w):
                self.w = w

            def tree_flatten(self):
                return (self.w,), None

            @classmethod
            def tree_unflatten(cls, _, children):
                return cls(*children)

            @jax.jit
            def __call__(self, x):
                return lax.mul(self.w, x)

        self.assertEqual(P(2.0)(3.0), 6.0)
        self.assertEqual(jax.grad(lambda p: p(3.0))(P(2.0)).w, 3.0)

    def test_callables(self):
        class C:
            def __call__(self, x):
                return lax.mul(x, 2.0)

        for c in (
            C(),
            functools.partial(lax.mul, 2.0),
            functools.partial(lax.mul, y=2.0),
        ):
            self.assertEqual(jax.jit(c)(4.0), 8.0)
            self.assertEqual(jax.jit(c)(4.0), 8.0)

    def test_metadata(self):
        @jax.jit
        def named(x: int) -> int:
            """Its text."""
            return x

        self.assertEqual((named.__name__, named.__doc__), ("named", "Its text."))
        self.assertEqual(named.__wrapped__(3), 3)
        self.assertIn("named", named.lower(1).as_text())

    def test_functions_of_the_library_get_arrays_while_jit_is_disabled(self):
        """Also of numbers and of NumPy arrays of wider types, eagerly and in traces."""
        key = jax.random.key(0)
        for fun in (
            lambda: jax.random.bernoulli(key, 0.3, (4,)),
            lambda: jax.random.geometric(key, 0.3, (4,)),
            lambda: jax.random.categorical(key, np.arange(3.0), shape=(4,)),
        ):
            want = fun()
            with jax.disable_jit():
                self.assertArraysEqual(fun(), want)
                self.assertEqual(jax.eval_shape(fun).dtype, want.dtype)

    def test_disable_jit(self):
        calls = []
        f = jax.jit(lambda x: calls.append(type(x)) or lax.sin(x))
        with jax.disable_jit():
            f(jnp.float32(1))
            f(jnp.float32(1))
            with jax.disable_jit(False):
                f(jnp.float32(1))
        self.assertLen(calls, 3)
        self.assertIs(calls[0], type(jnp.ones(1)))

    def test_inline(self):
        f = jax.jit(lambda x: lax.sin(x), inline=True)
        jaxpr = jax.make_jaxpr(lambda x: f(f(x)))(1.0)
        self.assertEqual([e.primitive.name for e in jaxpr.eqns], ["sin", "sin"])
        self.assertAllClose(jax.jit(lambda x: jax.grad(f)(x))(0.0), F(1))

    def test_keep_unused(self):
        f = lambda x, y: lax.sin(x)
        dropped = jax.jit(f).lower(1.0, np.ones(5, F)).as_text()
        kept = jax.jit(f, keep_unused=True).lower(1.0, np.ones(5, F)).as_text()
        self.assertNotIn("tensor<5xf32>", dropped)
        self.assertIn("tensor<5xf32>", kept)

    def test_weak_types(self):
        f = jax.jit(lambda x: x)
        self.assertTrue(f(1.0).weak_type)
        self.assertFalse(f(F(1)).weak_type)
        self.assertEqual(jnp.add(f(1.0), np.float16(1)).dtype, np.float16)

    def test_recursion(self):
        @jax.jit
        def power(x, n: int = 3):
            return x

        def power(x, n):  # noqa: F811
            return lax.mul(x, jitted(x, n - 1)) if n > 1 else x

        jitted = jax.jit(power, static_argnums=1)
        self.assertEqual(jitted(2.0, 5), 32.0)

    def test_devices(self):
        device = jax.devices()[0]
        sharding = jax.sharding.SingleDeviceSharding(device)
        x = np.ones(3, F)
        for options in (
            dict(in_shardings=sharding),
            dict(out_shardings=sharding),
            dict(in_shardings=(sharding,), out_shardings=None),
        ):
            out = jax.jit(lambda x: lax.sin(x), **options)(x)
            self.assertEqual(out.devices(), {device})
        with jax.default_device(device):
            self.assertEqual(jax.jit(lambda: jnp.ones(3))().devices(), {device})

    def test_names_of_operations(self):
        def f(x):
            with jax.named_scope("outer"):
                return jax.named_call(lambda y: lax.sin(y), name="inner")(x)

        text = jax.jit(f).lower(1.0).as_text(debug_info=True)
        self.assertIn("outer/inner/sin", text)
        decorated = jax.named_scope("deco")(lambda x: lax.cos(x))
        self.assertIn("deco/cos", jax.jit(decorated).lower(1.0).as_text(debug_info=True))
        grads = jax.jit(jax.grad(f)).lower(1.0).as_text(debug_info=True)
        self.assertRegex(grads, r"transpose\(.*\).*mul")


class DonationTest(jtu.BufferDonationTestCase):
    def test_donated_arguments_are_deleted(self):
        f = jax.jit(lambda x, y: lax.add(x, y), donate_argnums=0)
        x, y = jnp.ones(3), jnp.ones(3)
        out = f(x, y)
        self.assertDeleted(x)
        self.assertNotDeleted(y)
        with self.assertRaisesRegex((RuntimeError, ValueError), "deleted"):
            f(x, y)
        with self.assertRaisesRegex(RuntimeError, "deleted"):
            np.asarray(x)
        self.assertAllClose(f(out, y), np.full(3, 3, F))

    def test_by_name_and_in_trees(self):
        f = jax.jit(lambda d, y: {"o": lax.add(d["a"], y)}, donate_argnames="d")
        d, y = {"a": jnp.ones(3)}, jnp.ones(3)
        f(d, y=y)
        self.assertDeleted(d["a"])
        self.assertNotDeleted(y)
        d = {"a": jnp.ones(3)}
        f(d=d, y=y)
        self.assertDeleted(d["a"])

    def test_numpy_arguments_survive(self):
        f = jax.jit(lambda x: lax.add(x, x), donate_argnums=0)
        x = np.ones(3, F)
        f(x)
        self.assertAllClose(f(x), np.full(3, 2, F))

    def test_donated_twice(self):
        f = jax.jit(lambda x, y: lax.add(x, y), donate_argnums=0)
        x = jnp.ones(3)
        with self.assertRaises((RuntimeError, ValueError)):
            f(x, x)

    def test_differentiation_keeps_what_it_needs(self):
        f = jax.jit(lambda x: lax.mul(x, lax.sin(x)), donate_argnums=0)
        out, f_vjp = jax.vjp(f, jnp.ones(3))
        (ct,) = f_vjp(out)
        self.assertAllClose(ct, np.full(3, np.sin(1) * (np.sin(1) + np.cos(1)), F))
        self.assertAllClose(jax.jit(jax.grad(lambda x: f(x)[0]))(jnp.ones(3))[1], F(0))

    def test_unused_donated_argument(self):
        f = jax.jit(lambda x, y: y, donate_argnums=0)
        x = jnp.ones(3)
        f(x, jnp.ones(4))  # dropped from the program, so nothing is donated and nothing warns
        self.assertFalse(x.is_deleted())

    def test_donated_argument_of_another_type_than_the_results(self):
        f = jax.jit(lambda x, y: lax.mul(y, x[0]), donate_argnums=0)
        x = jnp.ones(3)
        with self.assertWarnsRegex(UserWarning, "Some donated buffers"):
            f(x, jnp.ones(4))
        self.assertFalse(x.is_deleted())


class StagesTest(jtu.JaxTestCase):
    def test_traced_lowered_compiled(self):
        f = jax.jit(lambda x, *, y: {"o": lax.add(x, y)}, donate_argnames="y")
        traced = f.trace(jnp.ones(3), y=jnp.ones(3))
        lowered = traced.lower()
        compiled = lowered.compile()
        for stage in (traced, lowered, compiled):
            self.assertEqual(stage.in_tree.num_leaves, 2)
            self.assertEqual(stage.out_tree, jax.tree.structure({"o": 0}))
            self.assertEqual(stage.donate_argnums, (1,))
            self.assertEqual(stage.args_info[0][0].shape, (3,))
            self.assertTrue(stage.args_info[1]["y"].donated)
            self.assertEqual(stage.out_info["o"].shape, (3,))
        self.assertIn("stablehlo.add", lowered.as_text())
        self.assertIn("HloModule", lowered.as_text("hlo"))
        self.assertIn("add", compiled.as_text())
        self.assertGreater(compiled.cost_analysis()["flops"], 0)
        self.assertIsNotNone(compiled.memory_analysis())
        self.assertAllClose(compiled(np.ones(3, F), y=np.ones(3, F))["o"], np.full(3, 2, F))

    def test_abstract_arguments(self):
        lowered = jax.jit(lambda x: lax.sin(x)).lower(jax.ShapeDtypeStruct((2,), F))
        self.assertAllClose(lowered.compile()(np.zeros(2, F)), np.zeros(2, F))

    def test_closed_over_values(self):
        w = jnp.ones(3)
        compiled = jax.jit(lambda x: lax.add(x, w)).lower(np.ones(3, F)).compile()
        self.assertAllClose(compiled(np.ones(3, F)), np.full(3, 2, F))

    def test_static_arguments_are_not_passed_again(self):
        compiled = (
            jax.jit(lambda x, n: lax.mul(x, float(n)), static_argnums=1).lower(1.0, 3).compile()
        )
        self.assertEqual(compiled(2.0), 6.0)
        with self.assertRaisesRegex(TypeError, "lengths do not match"):
            compiled(2.0, 3)

    def test_errors_name_the_argument(self):
        compiled = jax.jit(lambda d: d["a"]).lower({"a": F(1)}).compile()
        with self.assertRaisesRegex(TypeError, r"d\['a'\]"):
            compiled({"a": np.int32(1)})
        with self.assertRaisesRegex(TypeError, "float32.*int32"):
            compiled({"a": np.int32(1)})
        self.assertEqual(compiled({"a": F(2)}), 2)

    def test_shardings_and_formats(self):
        compiled = jax.jit(lambda x, y: lax.add(x, y)).lower(np.ones(3, F), np.ones(3, F)).compile()
        ((s, _), kwargs) = compiled.input_shardings
        self.assertIsInstance(s, jax.sharding.Sharding)
        self.assertEqual(kwargs, {})
        self.assertIsInstance(compiled.output_shardings, jax.sharding.Sharding)
        self.assertIsNotNone(compiled.output_formats.layout)

    def test_deleted_compiled_arguments(self):
        compiled = jax.jit(lambda x: lax.add(x, x), donate_argnums=0).lower(jnp.ones(3)).compile()
        x = jnp.ones(3)
        compiled(x)
        self.assertTrue(x.is_deleted())
        with self.assertRaisesRegex((RuntimeError, ValueError), "deleted"):
            compiled(x)

    def test_functions_of_the_library(self):
        x = np.ones(3, F)
        self.assertIn("module @jit_sin", jnp.sin.lower(x).as_text())
        self.assertEqual(jnp.sin.eval_shape(x).shape, (3,))
        self.assertEqual(jnp.sin.trace(x).jaxpr.eqns[0].primitive, lax.sin_p)
        self.assertAllClose(jnp.clip.lower(x, 0, 2).compile()(x, 0, 2), x)
        jnp.sin.clear_cache()
        self.assertAllClose(jnp.sin(x), np.sin(x))


class DebugTest(jtu.JaxTestCase):
    def test_nans_name_the_operation(self):
        f = jax.jit(lambda x: lax.add(lax.log(x), 1.0))
        with jax.debug_nans(True):
            self.assertAllClose(f(1.0), F(1))
            with self.assertRaisesRegex(FloatingPointError, "nan.*log"):
                f(-1.0)
            with self.assertRaisesRegex(FloatingPointError, "nan"):
                jax.grad(lambda x: lax.sqrt(lax.sub(x, x)))(0.0) * 0 + lax.log(-1.0)
            self.assertAllClose(f(1.0), F(1))
        self.assertTrue(np.isnan(f(-1.0)))

    def test_infs(self):
        f = jax.jit(lambda x: lax.div(1.0, x))
        with jax.debug_infs(True), self.assertRaisesRegex(FloatingPointError, "inf.*div"):
            f(0.0)

    def test_nans_inside_scan_and_nested_jit(self):
        g = jax.jit(lambda x: jax.jit(lambda y: lax.log(y))(lax.neg(x)))
        with jax.debug_nans(True), self.assertRaises(FloatingPointError):
            g(1.0)
        with jax.debug_nans(True), self.assertRaises(FloatingPointError):
            lax.scan(lambda c, x: (lax.log(c), x), -1.0, np.ones(3, F))


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
