"""The core: jaxprs and their checks, traces and their leaks, errors that name the user's line."""

import collections
import functools
import gc
import itertools
import re
import traceback
import weakref

import numpy as np
import pytest
from absl.testing import absltest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import core, effects, source_info_util, test_util as jtu, traceback_util
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax.sharding import PartitionSpec as P

F = np.float32


def line_of(marker: str) -> int:
    """The line of this file that ends with the comment `# marker`."""
    with open(__file__) as f:
        (n,) = [i for i, line in enumerate(f, 1) if line.rstrip().endswith("# " + marker)]
    return n


def on_one_device(f):
    """A `shard_map` whose axis `f` does not use."""
    return jax.shard_map(f, mesh=jax.make_mesh((1,), ("i",)), in_specs=P(), out_specs=P())


class JaxprTest(jtu.JaxTestCase):
    def test_eval_jaxpr(self):
        closed = jax.make_jaxpr(lambda x, y: (lax.add(x, y), lax.sin(x), 3))(F(1), F(2))
        outs = core.eval_jaxpr(closed.jaxpr, closed.consts, F(1), F(2))
        self.assertAllClose(outs, [F(3), np.sin(F(1)), 3], check_dtypes=False)
        self.assertAllClose(jax.jit(core.jaxpr_as_fun(closed))(F(1), F(2))[0], F(3))
        self.assertAllClose(jax.grad(lambda x: core.jaxpr_as_fun(closed)(x, x)[1])(F(0)), F(1))
        with self.assertRaisesRegex(TypeError, "expected 2 arguments, got 1"):
            core.eval_jaxpr(closed.jaxpr, closed.consts, F(1))

    def test_scalar_constants(self):
        x, scalar = jnp.ones(3), jnp.float32(2)
        text = lambda f: str(jax.make_jaxpr(f)(x))
        for two in (2, 2.0, np.int8(2), np.float64(2), np.array(2), np.float32(2)):
            self.assertEqual(
                text(lambda y: y * two),
                "{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }",
            )
        # What numpy and the compiler convert differently stays an operation.
        for bad in (np.float32("nan"), np.float32(300), np.float32(-1)):
            self.assertIn(
                "convert_element_type",
                text(lambda y: lax.convert_element_type(bad, np.uint8)),
            )
        self.assertIn("lambda a:f32[]; b:f32[3]", text(lambda y: y * scalar))

    def test_scalars_of_enclosing_traces_are_constants(self):
        """In the order of their first use, wherever they come from: branches of cond are compared."""

        def constants(scalar, other):
            closed = jax.make_jaxpr(lambda y: y * scalar + other * y + scalar)(jnp.ones(3))
            return [c.shape for c in closed.consts], str(closed)

        eager = constants(jnp.array(0), jnp.ones(3))
        self.assertEqual(eager[0], [(), (3,)])
        jax.jit(lambda x: self.assertEqual(constants(jnp.array(0), x), eager) or x)(jnp.ones(3))
        # In their own trace, conversions of scalars are no operations.
        text = str(jax.make_jaxpr(lambda y: y * jnp.array(0))(jnp.ones(3)))
        self.assertNotIn("convert_element_type", text)

    def test_long_binders_are_indented_like_equations(self):
        args = [np.ones((100, 100), F)] * 12
        inner = jax.jit(lambda *xs: lax.scan(lambda c, _: ((*c[1:], c[0]), None), xs, length=2)[0])
        lines = str(jax.make_jaxpr(inner)(*args)).splitlines()
        indent = lambda line: len(line) - len(line.lstrip())
        binders = [i for i, line in enumerate(lines) if "{ lambda" in line and "let" not in line]
        self.assertLen(binders, 3)
        for i in binders:
            body = next(j for j in range(i, len(lines)) if lines[j].endswith(". let")) + 1
            for j in range(i + 1, body):
                self.assertEqual(indent(lines[j]), indent(lines[i]) + 4)

    def test_closed_over_arrays_are_arguments(self):
        scalar = jnp.float32(2)
        f = jax.custom_jvp(lambda y: y * scalar)
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * scalar))
        g = jax.custom_vjp(lambda y: y * scalar)
        g.defvjp(lambda y: (g(y), None), lambda _, ct: (ct * scalar,))
        for fun in (f, g, jax.checkpoint(lambda y: y * scalar)):
            closed = jax.make_jaxpr(fun)(1.0)
            self.assertEqual([c is scalar for c in closed.consts], [True])
            (eqn,) = closed.eqns
            self.assertLen(eqn.invars, 2)
            self.assertEqual(closed.effects, core.no_effects)
            self.assertAllClose(jax.jit(jax.grad(fun))(3.0), F(2))

    def test_cond_stages_in_the_order_of_its_arguments(self):
        seen, (a, b) = [], (jnp.float32(2), jnp.ones(1))
        f = lambda y: (seen.append(True), y * b)[1]
        g = lambda y: (seen.append(False), y + a)[1]
        closed = jax.make_jaxpr(lambda x: lax.cond(x[0] > 0, f, g, x))(np.ones(3))
        self.assertEqual(seen, [True, False])
        self.assertEqual([c.shape for c in closed.consts], [(1,), ()])

    def test_long_jaxprs_are_named(self):
        def f(x, n):
            for _ in range(n):
                x = lax.sin(x)
            return x

        for n, named in ((10, False), (11, True)):
            text = str(jax.make_jaxpr(jax.jit(f, static_argnums=1), static_argnums=1)(1.0, n))
            self.assertEqual(text.startswith("let f = "), named)

    def test_constants(self):
        w = jnp.ones(3)
        closed = jax.make_jaxpr(lambda x: lax.add(x, lax.add(w, w)))(w)
        self.assertLen(closed.consts, 1)
        self.assertIs(closed.consts[0], w)
        self.assertLen(closed.jaxpr.constvars, 1)

    def test_make_jaxpr(self):
        f = lambda x, n, *, k: lax.mul(x, float(n + k.shape[0]))
        closed, shape = jax.make_jaxpr(f, static_argnums=1, return_shape=True)(
            jax.ShapeDtypeStruct((2,), F), 3, k=np.ones(4, F)
        )
        self.assertEqual(shape, jax.ShapeDtypeStruct((2,), F))
        self.assertLen(closed.in_avals, 2)
        self.assertEqual(closed.eqns[0].invars[1].val, 7.0)
        closed = jax.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(F(1))
        self.assertIn("psum", str(closed))
        with self.assertRaisesRegex(NameError, "unbound axis name: i"):
            jax.make_jaxpr(lambda x: lax.psum(x, "i"))(F(1))
        with self.assertRaisesRegex(TypeError, "Expected a callable"):
            jax.make_jaxpr(3)

    def test_names_of_arguments_and_results(self):
        f = jax.jit(lambda d, y: {"o": [d["a"], y]})
        info = f.trace({"a": 1.0}, 2.0).jaxpr.jaxpr.debug_info
        self.assertEqual(info.safe_arg_names(2), ("d['a']", "y"))
        self.assertEqual(info.safe_result_paths(2), ("result['o'][0]", "result['o'][1]"))
        self.assertIn("core_test.py", info.func_src_info)

    def test_dead_code_elimination(self):
        closed = jax.make_jaxpr(lambda x, y: (lax.sin(x), lax.cos(y)))(F(1), F(2))
        jaxpr, used = pe.dce_jaxpr(closed.jaxpr, [True, False])
        self.assertEqual(used, [True, False])
        self.assertEqual([e.primitive.name for e in jaxpr.eqns], ["sin"])
        jaxpr, used = pe.dce_jaxpr(closed.jaxpr, [True, False], instantiate=True)
        self.assertEqual(used, [True, True])

    def test_dead_code_in_loops(self):
        def f(x):
            loop = lax.while_loop(
                lambda c: lax.lt(c[0], 3),
                lambda c: (lax.add(c[0], 1), lax.sin(c[1]), lax.cos(c[2])),
                (0, x, x),
            )
            scan = lax.scan(
                lambda c, _: ((lax.sin(c[0]), lax.cos(c[1])), (c[0], c[1])), (x, x), None, length=2
            )
            branch = lax.cond(
                lax.lt(x, F(0)), lambda x: (lax.sin(x), lax.cos(x)), lambda x: (x, x), x
            )
            return loop[1], scan[1][0], branch[0]

        jaxpr, _ = pe.dce_jaxpr(jax.make_jaxpr(f)(F(1)).jaxpr, [True] * 3)
        self.assertNotIn("cos", str(jaxpr))
        core.check_jaxpr(jaxpr)
        self.assertAllClose(
            core.eval_jaxpr(jaxpr, (), F(1)), [np.asarray(x) for x in jax.tree.leaves(f(F(1)))]
        )

    def test_jaxprs_do_not_grow_with_nesting(self):
        def nested(depth):
            f = lambda x: lax.sin(x)
            for _ in range(depth):
                f = jax.jit(lambda x, f=f: f(x))
            return f

        def size(fun):
            return jtu.jaxpr_eqn_count(jax.make_jaxpr(fun)(F(1)))

        for transform in (
            lambda f: f,
            jax.grad,
            lambda f: jax.grad(jax.grad(f)),
            lambda f: lambda x: jax.jvp(f, (x,), (x,)),
        ):
            sizes = [size(transform(nested(n))) for n in (2, 4, 6)]
            self.assertEqual(sizes[1] - sizes[0], sizes[2] - sizes[1])

    def test_jaxprs_do_not_grow_with_repetition(self):
        f = jax.jit(lambda x: lax.sin(lax.mul(x, x)))

        def chain(n):
            def run(x):
                for _ in range(n):
                    x = f(x)
                return x

            return run

        seen = set()
        closed = jax.make_jaxpr(jax.grad(chain(6)))(F(1))
        for eqn in closed.eqns:
            seen.update(map(id, core.jaxprs_in_params(eqn.params)))
        self.assertLessEqual(len(seen), 5)  # forward and backward, and the ends

    def test_types_are_interned(self):
        a = core.ShapedArray((2, 3), np.dtype(F))
        self.assertIs(a, core.ShapedArray((2, 3), np.dtype(F)))
        self.assertIs(core.typeof(jnp.ones((2, 3))), a)
        self.assertNotEqual(a, a.update(weak_type=True))
        self.assertEqual(str(core.typeof(1.0)), "~float32[]")

    def test_unhashable_parameters(self):
        p = core.Primitive("unhashable")
        p.def_abstract_eval(lambda x, *, k: x)
        with self.assertRaisesRegex(
            TypeError, "parameter 'k' of the primitive 'unhashable' must be hashable"
        ):
            jax.make_jaxpr(lambda x: p.bind(x, k=[1]))(F(1))


class CheckJaxprTest(jtu.JaxTestCase):
    def jaxpr(self, fun=lambda x: lax.add(lax.sin(x), x)):
        return jax.make_jaxpr(fun)(F(1)).jaxpr

    def assert_bad(self, jaxpr, message):
        with self.assertRaisesRegex(core.JaxprTypeError, message):
            core.check_jaxpr(jaxpr)

    def test_good(self):
        for fun in (
            jax.grad(jax.jit(lambda x: lax.sin(lax.sin(x)))),
            lambda x: lax.scan(lambda c, y: (lax.mul(c, y), c), x, np.ones(3, F)),
            jax.grad(lambda x: lax.fori_loop(0, 3, lambda i, c: lax.sin(c), x)),
            lambda x: lax.while_loop(lambda c: lax.lt(c, F(3)), lambda c: lax.add(c, x), x),
            jax.grad(lambda x: lax.cond(True, lax.sin, lax.cos, x)),
            jax.grad(jax.checkpoint(lambda x: lax.sin(lax.sin(x)))),
        ):
            core.check_jaxpr(self.jaxpr(fun))
            core.check_jaxpr(jax.make_jaxpr(jax.vmap(fun))(np.ones(2, F)))

    def test_undefined_variable(self):
        jaxpr = self.jaxpr()
        self.assert_bad(
            jaxpr.replace(eqns=jaxpr.eqns[1:]), "read before it is defined(.|\n)*in equation 0"
        )
        self.assert_bad(jaxpr.replace(outvars=[core.Var(jaxpr.in_avals[0])]), "is not defined")

    def test_bound_twice(self):
        jaxpr = self.jaxpr()
        self.assert_bad(jaxpr.replace(invars=jaxpr.invars * 2), "bound twice")
        self.assert_bad(jaxpr.replace(eqns=[jaxpr.eqns[0], *jaxpr.eqns]), "bound twice")

    def test_wrong_type(self):
        jaxpr = self.jaxpr(lax.sin)
        eqn = jaxpr.eqns[0]
        wrong = core.Var(core.ShapedArray((3,), np.dtype(F)))
        bad = jaxpr.replace(eqns=[eqn.replace(outvars=[wrong])], outvars=[wrong])
        self.assert_bad(bad, r"variable of type float32\[3\] for a result of type float32\[\]")

    def test_wrong_number_of_results(self):
        jaxpr = self.jaxpr(jax.jit(lambda x: (lax.sin(x), x)))
        eqn = jaxpr.eqns[0]
        self.assert_bad(
            jaxpr.replace(eqns=[eqn.replace(outvars=eqn.outvars[:1])]), "2 results for 1"
        )

    def test_wrong_inner_jaxpr(self):
        jaxpr = self.jaxpr(jax.jit(lambda x: lax.add(lax.sin(x), x)))
        (eqn,) = jaxpr.eqns
        inner = eqn.params["jaxpr"].jaxpr
        broken = core.ClosedJaxpr(inner.replace(eqns=inner.eqns[1:]), ())
        self.assert_bad(
            jaxpr.replace(eqns=[eqn.replace(params=dict(eqn.params, jaxpr=broken))]),
            "before it is defined",
        )

    def test_wrong_constants(self):
        closed = jax.make_jaxpr(lambda x: lax.add(x, np.ones(3, F)))(np.ones(3, F))
        with self.assertRaisesRegex(core.JaxprTypeError, "constant"):
            core.check_jaxpr(core.ClosedJaxpr(closed.jaxpr, [np.ones(4, F)]))
        with self.assertRaisesRegex(ValueError, "0 constants for 1"):
            core.ClosedJaxpr(closed.jaxpr, [])

    def test_control_flow(self):
        jaxpr = self.jaxpr(lambda x: lax.scan(lambda c, y: (lax.mul(c, y), c), x, np.ones(3, F))[0])
        (eqn,) = jaxpr.eqns
        for change, message in (
            (dict(num_carry=2, num_consts=0), "scan jaxpr"),
            (dict(length=4), "sequence"),
        ):
            bad = eqn.replace(params=dict(eqn.params, **change))
            self.assert_bad(jaxpr.replace(eqns=[bad]), message)
        jaxpr = self.jaxpr(lambda x: lax.cond(lax.lt(x, F(0)), lax.sin, lax.cos, x))
        eqn = jaxpr.eqns[-1]
        bad = eqn.replace(invars=[eqn.invars[1], eqn.invars[1]])
        self.assert_bad(jaxpr.replace(eqns=[*jaxpr.eqns[:-1], bad]), "index of type")

    def test_undeclared_effects(self):
        p = effectful_primitive("undeclared")
        jaxpr = self.jaxpr(lambda x: p.bind(x))
        (eqn,) = jaxpr.eqns
        self.assert_bad(
            jaxpr.replace(eqns=[eqn.replace(effects=core.no_effects)]),
            "are not among those declared",
        )


class OrderedTestEffect(effects.Effect):
    def __repr__(self):
        return "OrderedTest"


class UnorderedTestEffect(effects.Effect):
    def __repr__(self):
        return "UnorderedTest"


ordered, unordered = OrderedTestEffect(), UnorderedTestEffect()
for _cls in (OrderedTestEffect, UnorderedTestEffect):
    effects.lowerable_effects.add_type(_cls)
    effects.control_flow_allowed_effects.add_type(_cls)
    effects.custom_derivatives_allowed_effects.add_type(_cls)
    effects.remat_allowed_effects.add_type(_cls)
effects.ordered_effects.add_type(OrderedTestEffect)


def effectful_primitive(name, effect=unordered):
    p = core.Primitive(name)
    p.def_effectful_abstract_eval(lambda x: (x, {effect}))

    def lower(ctx, x):
        if effect is ordered:
            ctx.set_tokens_out(ctx.tokens_in)
        return [x]

    mlir.register_lowering(p, lower)
    p.batch = lambda args, dims: (p.bind(*args), dims[0])
    p.jvp = lambda primals, tangents: (p.bind(*primals), tangents[0])
    return p


class EffectsTest(jtu.JaxTestCase):
    def test_effects_reach_the_top(self):
        p = effectful_primitive("eff")
        for fun in (
            p.bind,
            jax.jit(p.bind),
            lambda x: lax.scan(lambda c, _: (p.bind(c), None), x, None, length=2)[0],
            lambda x: lax.cond(True, p.bind, lambda x: x, x),
            lambda x: lax.while_loop(lambda c: lax.lt(c, F(3)), p.bind, x),
            jax.checkpoint(p.bind),
        ):
            closed = jax.make_jaxpr(fun)(F(1))
            self.assertEqual(closed.effects, {unordered})
            core.check_jaxpr(closed)

    def test_effects_are_not_dead_code(self):
        p = effectful_primitive("eff2")
        jaxpr = jax.make_jaxpr(lambda x: (p.bind(x), x)[1])(F(1)).jaxpr
        kept, _ = pe.dce_jaxpr(jaxpr, [True])
        self.assertLen(kept.eqns, 1)
        inner = jax.make_jaxpr(jax.jit(lambda x: (p.bind(x), x)[1]))(F(1)).jaxpr
        kept, _ = pe.dce_jaxpr(inner, [False])
        self.assertLen(kept.eqns, 1)

    def test_tokens_order_programs(self):
        p = effectful_primitive("ordered_eff", ordered)
        for fun in (
            lambda x: p.bind(p.bind(x)),
            lambda x: jax.jit(p.bind)(p.bind(x)),
            lambda x: lax.scan(lambda c, _: (p.bind(c), None), x, None, length=2)[0],
            lambda x: lax.cond(lax.lt(x, F(5)), p.bind, lambda x: x, x),
            lambda x: lax.while_loop(
                lambda c: lax.lt(c, F(3)), lambda c: p.bind(lax.add(c, F(3))), x
            ),
        ):
            lowered = jax.jit(fun).lower(F(1))
            self.assertIn("token", lowered.as_text())
            out = jax.jit(fun)(F(1))
            self.assertEqual(jnp.shape(out), ())
            self.assertAllClose(jax.jit(fun)(F(1)), out)
        jax.effects_barrier()

    def test_vmap_of_ordered_effects_in_branches(self):
        p = effectful_primitive("ordered_eff2", ordered)
        f = lambda x: lax.cond(lax.lt(x, F(0)), p.bind, lambda x: x, x)
        jaxpr = jax.make_jaxpr(jax.vmap(f))(np.ones(2, F))
        self.assertEqual(jaxpr.effects, {ordered})
        self.assertEqual(str(jaxpr).count("ordered_eff2"), 1)
        np.testing.assert_array_equal(jax.vmap(f)(np.array([-1, 1], F)), [-1, 1])

    def test_effects_not_allowed(self):
        class Forbidden(effects.Effect):
            pass

        p = effectful_primitive("forbidden", Forbidden())
        with self.assertRaisesRegex(NotImplementedError, "Effects not supported in `scan`"):
            lax.scan(lambda c, _: (p.bind(c), None), F(1), None, length=2)
        with self.assertRaisesRegex(NotImplementedError, "Effects not supported in `cond`"):
            lax.cond(True, p.bind, lambda x: x, F(1))
        with self.assertRaises((NotImplementedError, ValueError)):
            jax.jit(p.bind)(F(1))


class PrimitiveTest(jtu.JaxTestCase):
    """Primitives as other libraries define them."""

    def make(self, name="third_party_double"):
        p = core.Primitive(name)
        p.def_impl(lambda x, *, k: np.asarray(x) * k)
        p.def_abstract_eval(lambda x, *, k: core.ShapedArray(x.shape, x.dtype))
        ad.deflinear2(p, lambda ct, x, *, k: [p.bind(ct, k=k)])
        batching.primitive_batchers[p] = lambda args, dims, *, k: (p.bind(*args, k=k), dims[0])
        mlir.register_lowering(
            p,
            mlir.lower_fun(lambda x, *, k: lax.mul(x, lax.full_like(x, k)), multiple_results=False),
        )
        return p

    def test_all_rules(self):
        p = self.make()
        f = lambda x: lax.mul(p.bind(x, k=3), x)
        self.assertAllClose(p.bind(F(2), k=3), F(6))
        self.assertAllClose(jax.jit(f)(F(2)), F(12))
        self.assertAllClose(jax.grad(f)(F(2)), F(12))
        self.assertAllClose(jax.jit(jax.grad(f))(F(2)), F(12))
        self.assertAllClose(jax.vmap(f)(np.arange(3, dtype=F)), np.array([0, 3, 12], F))
        self.assertAllClose(jax.jvp(f, (F(2),), (F(1),))[1], F(12))
        self.assertAllClose(jax.hessian(f)(F(2)), F(6))
        self.assertIn(p, ad.primitive_transposes)

    def test_traced_shapes_are_traced_back(self):
        with self.assertRaisesRegex(TypeError, "depends on the value of the argument n"):
            jax.jit(lambda n: lax.full((n,), 0.0))(3)

    def test_missing_rules_are_named(self):
        p = core.Primitive("ruleless")
        x = F(1)
        with self.assertRaisesRegex(
            NotImplementedError, "Abstract evaluation for 'ruleless' not implemented"
        ):
            jax.jit(p.bind)(x)
        with self.assertRaisesRegex(
            NotImplementedError, "Evaluation rule for 'ruleless' not implemented"
        ):
            p.bind(x)
        p.def_abstract_eval(lambda x: x)
        with self.assertRaisesRegex(NotImplementedError, "rule for primitive 'ruleless' not found"):
            jax.jit(p.bind)(x)
        with self.assertRaisesRegex(
            NotImplementedError,
            "Differentiation rule for 'ruleless' not implemented.*jax.custom_jvp",
        ):
            jax.grad(p.bind)(x)
        with self.assertRaisesRegex(
            NotImplementedError, "Batching rule for 'ruleless' not implemented.*custom_vmap"
        ):
            jax.vmap(p.bind)(np.ones(2, F))
        ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
        p.def_impl(lambda x: x)
        with self.assertRaisesRegex(
            NotImplementedError,
            r"Transpose rule \(for reverse-mode differentiation\) for 'ruleless'.*jax.custom_vjp",
        ):
            jax.grad(p.bind)(x)

    def test_call_like_primitive(self):
        """One whose rule computes results and tangents by one call."""
        call_p = core.Primitive("third_party_call", multiple_results=True)

        def call(fun, *args):
            closed = jax.make_jaxpr(fun)(*args)
            return call_p.bind(*args, jaxpr=closed)

        call_p.def_impl(lambda *args, jaxpr: core.jaxpr_as_fun(jaxpr)(*args))
        call_p.def_abstract_eval(lambda *_, jaxpr: jaxpr.out_avals)
        mlir.register_lowering(
            call_p,
            mlir.lower_fun(
                lambda *args, jaxpr: core.jaxpr_as_fun(jaxpr)(*args), multiple_results=True
            ),
        )

        def jvp(primals, tangents, *, jaxpr):
            nonzeros = [type(t) is not ad.Zero for t in tangents]
            both, nonzero_outs = ad.jvp_jaxpr(jaxpr, nonzeros, True)
            self.assertTrue(all(nonzero_outs))
            outs = call_p.bind(
                *primals, *[t for t in tangents if type(t) is not ad.Zero], jaxpr=both
            )
            n = len(jaxpr.out_avals)
            return outs[:n], outs[n:]

        def transpose(cts, *args, jaxpr):
            cts_in = ad.backward_pass(jaxpr.jaxpr, False, jaxpr.consts, args, cts)
            return cts_in

        ad.primitive_jvps[call_p] = jvp
        ad.primitive_transposes[call_p] = transpose
        f = lambda x: call(lambda x: lax.sin(lax.mul(x, x)), x)[0]
        g = lambda x: lax.sin(lax.mul(x, x))
        x = F(1.3)
        self.assertAllClose(jax.value_and_grad(f)(x), jax.value_and_grad(g)(x))
        self.assertAllClose(jax.jit(jax.value_and_grad(f))(x), jax.value_and_grad(g)(x))
        self.assertAllClose(jax.linearize(f, x)[0], g(x))
        self.assertAllClose(jax.linearize(f, x)[1](F(2)), jax.jvp(g, (x,), (F(2),))[1])
        self.assertAllClose(jax.jvp(f, (x,), (F(2),)), jax.jvp(g, (x,), (F(2),)))
        loss = lambda f: lambda x: lax.mul(f(x), lax.cos(f(x)))
        self.assertAllClose(jax.grad(loss(f))(x), jax.grad(loss(g))(x), rtol=1e-5)
        self.assertAllClose(jax.grad(jax.grad(f))(x), jax.grad(jax.grad(g))(x), rtol=1e-5)


class LeaksTest(jtu.JaxTestCase):
    def test_checking_leaks(self):
        kept = []

        def leaky(x):
            kept.append(lax.sin(x))  # leaked
            return x

        runs = [
            lambda: jax.jit(leaky)(F(1)),
            lambda: jax.grad(leaky)(F(1)),
            lambda: jax.vmap(leaky)(np.ones(2, F)),
            lambda: jax.jvp(leaky, (F(1),), (F(1),)),
            lambda: lax.scan(lambda c, x: (leaky(c), None), F(1), np.ones(2, F)),
            lambda: jax.make_jaxpr(leaky)(F(1)),
        ]
        for run in runs:
            kept.clear()
            with jax.checking_leaks(), self.assertRaisesRegex(Exception, "Leaked"):
                run()
            kept.clear()
            jax.clear_caches()
            self.assertTrue(core.trace_state_clean())

    def test_lines_of_leaks(self):
        def leaky(x):
            kept.append(lax.sin(x))  # leaked here
            return x

        kept = []
        line = rf"created on line:?\s+\S*core_test.py:{line_of('leaked here')}:\d+ [^@]*\n  It is kept as .* kept\[0\]"
        batch = np.ones(2, F)
        for run in (
            lambda: jax.jit(leaky)(F(1)),
            lambda: jax.vmap(leaky)(batch),
            lambda: jax.vmap(jax.vmap(leaky))(batch[None]),
            lambda: jax.jit(jax.vmap(leaky))(batch),
            lambda: jax.vmap(jax.grad(leaky))(batch),
            lambda: jax.grad(lambda x: jax.vmap(leaky)(x).sum())(batch),
            lambda: jax.vmap(lambda x: lax.map(leaky, x[None]))(batch),
            lambda: jax.vmap(lambda x: lax.cond(x > 0, leaky, lax.cos, x))(batch),
            lambda: jax.grad(leaky)(F(1)),
            lambda: jax.linearize(leaky, F(1)),
            lambda: jax.jvp(leaky, (F(1),), (F(1),)),
            lambda: jax.jacfwd(leaky)(F(1)),
            lambda: on_one_device(leaky)(F(1)),
        ):
            with jax.checking_leaks(), self.assertRaisesRegex(Exception, line):
                run()
            kept.clear()
            jax.clear_caches()

    def test_who_refers_to_leaks(self):
        class Model:
            pass

        def keep_closure(x):
            y = lax.sin(x)
            kept.function = lambda: y
            return x

        def keep_exception(x):
            try:
                raise ValueError
            except ValueError as err:
                kept.error = err
            return x

        def keep_generator(x):
            def steps(y):
                yield y

            kept.steps = steps(lax.sin(x))
            next(kept.steps)
            return x

        def keep(fun):
            def run(x):
                fun(lax.sin(x))
                return x

            return run

        kept = Model()
        kept.queue = collections.deque()
        kept.items, kept.layers = [], {"a": [0]}
        cases = [
            (keep(kept.items.append), r"kept\.items\[0\]"),
            (keep(lambda x: kept.layers["a"].append(x)), r"kept\.layers\['a'\]\[1\]"),
            (keep(lambda x: setattr(kept, "x", x)), r"kept\.x"),
            (keep(lambda x: setattr(kept, "p", functools.partial(max, x))), r"kept\.p\.args\[0\]"),
            (keep_closure, r"kept\.function \(y: closed over by .*keep_closure"),
            (keep_exception, r"kept\.error\.__traceback__: variable x of .*keep_exception"),
            (keep_generator, r"kept\.steps variable y of .*steps"),
            (keep(kept.queue.append), r"kept\.queue\[0\]"),
            (keep(lambda x: setattr(Model, "cls", x)), r"Model\.cls"),
            (keep(lambda x: globals().update(leaked=x)), "core_test.leaked"),
        ]
        transforms = itertools.cycle([jax.jit, jax.vmap, jax.grad, on_one_device])
        for (fun, path), transform in zip(cases, transforms):
            with (
                jax.checking_leaks(),
                self.assertRaisesRegex(Exception, f"kept as .*{path}[^@]*core_test.py:"),
            ):
                transform(fun)(jnp.ones(2) if transform is jax.vmap else F(1))
            (
                kept.items.clear(),
                kept.queue.clear(),
                kept.layers.update(a=[0]),
                globals().pop("leaked", None),
            )
            kept.x = kept.p = kept.function = kept.error = kept.steps = Model.cls = None

    def test_frozen_globals_refer_to_leaks(self):
        self.addCleanup(globals().pop, "leaked", None)
        self.addCleanup(gc.unfreeze)
        gc.freeze()
        with (
            jax.checking_leaks(),
            self.assertRaisesRegex(Exception, r"kept as core_test\.leaked\n"),
        ):
            jax.vmap(lambda x: globals().update(leaked=lax.sin(x)))(jnp.ones(2))

    @pytest.mark.usefixtures("only_new_objects")
    def test_no_leaks_in_sound_programs(self):
        w = jnp.ones(3)
        with jax.checking_leaks():
            f = jax.jit(lambda x: lax.scan(lambda c, y: (lax.mul(c, y), lax.sin(c)), x, w)[0])
            jax.grad(f)(F(1)), jax.vmap(f)(w), jax.hessian(f)(F(1)), jax.jvp(f, (F(1),), (F(1),))
            jax.grad(jax.checkpoint(lambda x: lax.cond(True, f, lax.sin, x)))(F(1))
            jax.jit(lambda x: jax.jit(lambda y: lax.mul(x, y))(x))(F(1))
            jax.jit(lambda x: lax.scan(lambda c, _: (lax.mul(c, x), None), x, None, length=2))(F(1))
            jax.grad(lambda x: jax.jit(lambda y: lax.mul(x, y))(F(2)))(F(1))
            cj = jax.custom_jvp(lambda x: lax.sin(x))
            cj.defjvp(lambda p, t: (cj(*p), lax.mul(lax.cos(p[0]), t[0])))
            jax.jit(jax.vmap(jax.grad(cj)))(w)
            on_one_device(jax.vmap(jax.grad(f)))(w)
            jax.grad(lambda x: on_one_device(f)(x))(F(1))
            with self.assertRaises(ZeroDivisionError):
                on_one_device(lambda x: 1 / 0)(w)

    def escaped(self, run):
        kept = []

        def keep(x):
            kept.append(lax.sin(x))  # escaped
            return x

        run(keep)
        return kept[0]

    def test_escaped_tracers(self):
        runs = dict(
            jit=lambda keep: jax.jit(keep)(F(1)),
            grad=lambda keep: jax.grad(keep)(F(1)),
            vmap=lambda keep: jax.vmap(keep)(np.ones(2, F)),
            jvp=lambda keep: jax.jvp(keep, (F(1),), (F(1),)),
            scan=lambda keep: lax.scan(lambda c, x: (keep(c), None), F(1), np.ones(2, F)),
        )
        for name, run in runs.items():
            tracer = self.escaped(run)
            uses = [
                lambda: lax.add(tracer, F(1)),
                lambda: jax.jit(lambda x: x)(tracer),
                lambda: jax.jit(lambda: lax.add(tracer, F(1)))(),
                lambda: jnp.sin(tracer),
                lambda: jax.device_put(tracer),
            ]
            for use in uses:
                with self.assertRaisesRegex(
                    jax.errors.UnexpectedTracerError, r"intermediate value with type float32\[\]"
                ):
                    use()
            self.assertAllClose(jax.jit(lambda x: lax.add(x, x))(F(1)), F(2))
            if name == "jit":
                with self.assertRaisesRegex(
                    jax.errors.UnexpectedTracerError, f"core_test.py:{line_of('escaped')}"
                ):
                    uses[0]()

    def test_tracers_die_with_their_trace(self):
        refs = []

        def keep(x):
            refs.append(weakref.ref(x))
            return lax.sin(x)

        jax.jit(keep)(F(1)), jax.grad(keep)(F(1)), jax.vmap(keep)(np.ones(2, F))
        gc.collect()
        self.assertEmpty([r for r in refs if r() is not None])


class ErrorsTest(jtu.JaxTestCase):
    def test_concrete_control_flow_outside_jit(self):
        f = lambda x: lax.sin(x) if x > 0 else lax.cos(x)
        self.assertAllClose(jax.grad(f)(F(1)), np.cos(F(1)))
        self.assertAllClose(jax.jvp(f, (F(-1),), (F(1),))[1], -np.sin(F(-1)))
        self.assertAllClose(jax.grad(jax.grad(f))(F(1)), -np.sin(F(1)))
        self.assertAllClose(
            jax.vmap(lambda x, y: x if y > 0 else -x, (0, None))(np.ones(2, F), F(1)), np.ones(2, F)
        )
        with self.assertRaises(jax.errors.ConcretizationTypeError):  # its derivative would be lost
            jax.grad(lambda x: lax.mul(x, float(x)))(F(3))
        self.assertEqual(jax.grad(lambda x: x * [1.0, 2.0, 3.0][int(x)])(F(2)), 3)

    def test_conversions_say_why(self):
        cases = [
            (
                lambda x: bool(x),
                jax.errors.TracerBoolConversionError,
                "depends on the value of the argument x",
            ),
            (
                lambda x: 1 if x else 2,
                jax.errors.TracerBoolConversionError,
                "shape bool|shape float32",
            ),
            (lambda x: int(x), jax.errors.ConcretizationTypeError, "astype"),
            (
                lambda x: float(x),
                jax.errors.ConcretizationTypeError,
                "depends on the value of the argument x",
            ),
            (lambda x: complex(x), jax.errors.ConcretizationTypeError, "complex"),
            (lambda x: np.asarray(x), jax.errors.TracerArrayConversionError, "argument x"),
            (
                lambda x: [1, 2][lax.convert_element_type(x, np.int32)],
                jax.errors.TracerIntegerConversionError,
                "argument x",
            ),
            (lambda x: x.item(), jax.errors.ConcretizationTypeError, "item"),
            (lambda x: x.tolist(), jax.errors.ConcretizationTypeError, "tolist"),
            (lambda x: hash(x), TypeError, "unhashable"),
            (
                lambda x: lax.full((lax.convert_element_type(x, np.int32),), F(0)),
                TypeError,
                "static_argnums|concrete",
            ),
        ]
        for fun, error, message in cases:
            with self.assertRaisesRegex(error, message):
                jax.jit(fun)(F(1))
            with self.assertRaisesRegex(error, "(?s).*"):
                lax.scan(lambda c, x, fun=fun: (c, fun(x)), F(1), np.ones(2, F))
            self.assertTrue(core.trace_state_clean())

    def test_results_of_constants_name_their_lines(self):
        def f():
            x = lax.iota(np.int32, 3)  # constant
            return 1 if x[0] > 1 else 2

        with self.assertRaisesRegex(
            jax.errors.TracerBoolConversionError, f"core_test.py:{line_of('constant')}"
        ):
            jax.jit(f)()

    def test_compile_time_evaluation(self):
        @jax.jit
        def f(x):
            with jax.ensure_compile_time_eval():
                n = jnp.sum(jnp.arange(4))
                self.assertIsInstance(n, jax.Array)
                self.assertNotIsInstance(n, core.Tracer)
                assert n == 6
            return x * int(n)

        self.assertEqual(f(2.0), 12.0)
        self.assertAllClose(jax.grad(f)(2.0), F(6))

    def frames(self, err):
        return [f for f in traceback.extract_tb(err.__traceback__)]

    def test_tracebacks_leave_internal_frames_out(self):
        def user_function(x):
            return lax.add(x, np.ones(3, np.int32))  # broken

        for call in (
            lambda: jax.jit(user_function)(np.ones(3, F)),
            lambda: jax.grad(user_function)(F(1)),
            lambda: jax.vmap(user_function)(np.ones((2, 3), F)),
            lambda: lax.scan(lambda c, x: (user_function(c), x), np.ones(3, F), np.ones(2, F)),
            lambda: jax.grad(jax.jit(jax.vmap(user_function)))(np.ones((2, 3), F)),
        ):
            try:
                call()
            except TypeError as err:
                frames = self.frames(err)
                self.assertFalse([f for f in frames if "/jax/_src/" in f.filename], frames)
                self.assertIn("user_function", [f.name for f in frames])
                self.assertEqual(
                    [f.lineno for f in frames if f.name == "user_function"], [line_of("broken")]
                )
            else:
                self.fail("no error")

    def test_tracebacks_in_full(self):
        with jax._src.config.traceback_filtering("off"):
            try:
                jax.jit(lambda x: lax.add(x, np.ones(3, np.int32)))(np.ones(3, F))
            except TypeError as err:
                self.assertTrue([f for f in self.frames(err) if "/jax/_src/" in f.filename])
            else:
                self.fail("no error")

    def test_errors_of_the_user_pass_unchanged(self):
        class Mine(Exception):
            pass

        def fail(x):
            raise Mine("text")

        for call in (
            lambda: jax.jit(fail)(F(1)),
            lambda: jax.grad(jax.vmap(jax.jit(fail)))(np.ones(2, F)),
            lambda: lax.cond(True, fail, fail, F(1)),
            lambda: lax.while_loop(lambda x: True, fail, F(1)),
            lambda: jax.eval_shape(fail, F(1)),
        ):
            with self.assertRaisesRegex(Mine, "^text$"):
                call()
            self.assertTrue(core.trace_state_clean())

    def test_source_lines(self):
        def f(x):
            return lax.sin(x)  # the sine

        for fun in (f, jax.jit(f), jax.grad(f)):
            text = jax.make_jaxpr(fun)(F(1)).pretty_print(source_info=True)
            self.assertIn(f"core_test.py:{line_of('the sine')}", text)
        hlo = jax.jit(f).lower(F(1)).as_text(debug_info=True)
        self.assertIn(f'core_test.py":{line_of("the sine")}', hlo)

    def test_transposed_operations_know_their_line(self):
        def f(x):
            return lax.reduce_sum(lax.mul(x, np.arange(3, dtype=F)), (0,))  # product

        closed = jax.make_jaxpr(jax.grad(f))(np.ones(3, F))
        lines = [
            source_info_util.summarize(e.source_info)
            for e in closed.eqns
            if e.primitive is lax.mul_p
        ]
        self.assertTrue(
            all(re.search(rf"core_test.py:{line_of('product')}", line) for line in lines), lines
        )


class TraceStateTest(jtu.JaxTestCase):
    def test_opaque_state(self):
        outside = core.get_opaque_trace_state()
        self.assertEqual(outside, core.get_opaque_trace_state())
        inside = []
        jax.jit(
            lambda x: (
                inside.append((core.get_opaque_trace_state(), core.get_opaque_trace_state())) or x
            )
        )(F(1))
        self.assertEqual(*inside[0])
        self.assertNotEqual(inside[0][0], outside)

    def test_axes(self):
        names = []
        jax.vmap(lambda x: names.append(core.unsafe_get_axis_names()) or x, axis_name="i")(
            np.ones(2, F)
        )
        self.assertEqual(names, [["i"]])
        self.assertFalse(core.nonempty_axis_env())

    def test_eval_context(self):
        seen = []

        def f(x):
            with core.eval_context():
                seen.append(lax.add(F(1), F(2)))
            return x

        jax.jit(jax.vmap(f))(np.ones(2, F))
        self.assertIsInstance(seen[0], jax.Array)
        self.assertNotIsInstance(seen[0], core.Tracer)

    def test_tracers_look_like_arrays(self):
        seen = []

        def f(x):
            seen.append(
                (
                    isinstance(x, jax.Array),
                    x.shape,
                    x.dtype,
                    x.ndim,
                    x.size,
                    len(x),
                    str(jax.typeof(x)),
                )
            )
            return x

        expected = (True, (3,), np.dtype(F), 1, 3, 3, "float32[3]")
        (
            jax.jit(f)(np.ones(3, F)),
            jax.vmap(f)(np.ones((2, 3), F)),
            jax.jvp(f, (np.ones(3, F),), (np.ones(3, F),)),
        )
        jax.vjp(f, np.ones(3, F))
        self.assertEqual(seen, [expected] * 4)

    def test_filtering_helpers(self):
        self.assertFalse(traceback_util.include_filename(core.__file__))
        self.assertTrue(traceback_util.include_filename(__file__))


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
