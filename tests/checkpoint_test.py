"""`checkpoint`: what is stored and what is computed again; policies, in the table."""

import contextlib
import io

import numpy as np
import pytest
from absl.testing import absltest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import core, test_util as jtu
from jax._src.interpreters import ad, mlir, partial_eval as pe
from jax.ad_checkpoint import checkpoint_name, print_saved_residuals

reference, test_reference, _ = case_tests(__file__)
F = np.float32
policies = jax.checkpoint_policies


def count(jaxpr, name):
    """How often a primitive occurs, nested jaxprs included."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    own = sum(e.primitive.name == name for e in jaxpr.eqns)
    return own + sum(count(sub, name) for sub in jax._src.core.subjaxprs(jaxpr))


def grad_count(fun, name, *args):
    return count(jax.make_jaxpr(jax.grad(fun))(*args), name)


class CheckpointTest(jtu.JaxTestCase):
    def test_same_values_and_derivatives(self):
        f = lambda x, y: jnp.sum(jnp.sin(x @ y) * jnp.cos(x))
        x, y = self.rng().randn(3, 3).astype(F), self.rng().randn(3, 3).astype(F)
        g = jax.checkpoint(f)
        for h in (
            lambda f: f,
            jax.jit,
            lambda f: jax.grad(f, (0, 1)),
            lambda f: jax.jit(jax.grad(f)),
            jax.jacfwd,
        ):
            self.assertAllClose(h(g)(x, y), h(f)(x, y), rtol=1e-4, atol=1e-5)
        self.assertAllClose(jax.hessian(g)(x, y), jax.hessian(f)(x, y), rtol=1e-3, atol=1e-4)
        batched = np.stack([x, y])
        self.assertAllClose(jax.vmap(g)(batched, batched), jax.vmap(f)(batched, batched), rtol=1e-4)
        summed = lambda f: jax.grad(lambda a: jnp.sum(jax.vmap(f)(a, batched)))(batched)
        self.assertAllClose(summed(g), summed(f), rtol=1e-4, atol=1e-5)
        self.assertAllClose(
            jax.vmap(jax.grad(g))(batched, batched),
            jax.vmap(jax.grad(f))(batched, batched),
            rtol=1e-4,
            atol=1e-5,
        )

    def test_recomputes(self):
        f = lambda x: jnp.sin(jnp.sin(jnp.sin(x)))
        self.assertEqual(grad_count(f, "sin", F(1)), 3)
        self.assertGreaterEqual(grad_count(jax.checkpoint(f), "sin", F(1)), 5)
        saved = jax.checkpoint(f, policy=policies.everything_saveable)
        self.assertLessEqual(grad_count(saved, "sin", F(1)), 3)

    def test_policies(self):
        w, x = np.ones((3, 3), F), np.ones(3, F)

        def f(w):
            return jnp.sum(jnp.sin(w @ jnp.sin(w @ x)))

        dots = lambda **kw: grad_count(jax.checkpoint(f, **kw), "dot_general", w)
        stored = dots(policy=policies.dots_saveable)
        self.assertLess(stored, dots())
        self.assertEqual(stored, grad_count(f, "dot_general", w))
        self.assertEqual(dots(policy=policies.nothing_saveable), dots())
        self.assertEqual(dots(policy=policies.dots_with_no_batch_dims_saveable), stored)

    def test_names(self):
        def f(x):
            y = checkpoint_name(jnp.sin(x), "y")
            return jnp.sin(checkpoint_name(jnp.cos(y), "z"))

        counts = {
            names: grad_count(
                jax.checkpoint(f, policy=policies.save_only_these_names(*names)), "cos", F(1)
            )
            for names in ((), ("y",), ("z",), ("y", "z"))
        }
        self.assertLess(counts[("z",)], counts[()])
        for policy in (policies.save_only_these_names("y"), policies.save_any_names_but_these("z"),
                       policies.save_anything_except_these_names("z")):  # fmt: skip
            self.assertAllClose(
                jax.grad(jax.checkpoint(f, policy=policy))(F(1)), jax.grad(f)(F(1)), rtol=1e-5
            )
        with self.assertRaisesRegex(ValueError, "should not intersect"):
            policies.save_and_offload_only_these_names(
                names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"],
                offload_src="device", offload_dst="pinned_host",
            )  # fmt: skip
        tree = checkpoint_name({"a": F(1), "b": np.ones(2, F)}, "n")
        self.assertAllClose(tree, {"a": F(1), "b": np.ones(2, F)})

    def test_in_scan(self):
        def body(c, x):
            return jnp.sin(jnp.sin(c * x)), None

        xs = np.array([0.5, 1.5, -1.0], F)
        plain = lambda c: lax.scan(body, c, xs)[0]
        remat = lambda c: lax.scan(jax.checkpoint(body, prevent_cse=False), c, xs)[0]
        self.assertAllClose(
            jax.value_and_grad(remat)(F(1)), jax.value_and_grad(plain)(F(1)), rtol=1e-5
        )

        def stacked(fun):
            closed = jax.make_jaxpr(jax.grad(fun))(F(1))
            forward = next(e for e in closed.eqns if e.primitive is lax.scan_p)
            return len(forward.outvars)

        self.assertLess(stacked(remat), stacked(plain))

    def test_static_arguments(self):
        f = lambda x, n, *, flag=False: x * float(n) if n > 1 and not flag else x
        self.assertAllClose(jax.grad(jax.checkpoint(f, static_argnums=1))(F(1), 3), F(3))
        self.assertAllClose(jax.grad(jax.checkpoint(f, static_argnums=-1))(F(1), 3), F(3))
        both = jax.checkpoint(f, static_argnums=1, static_argnames="flag")
        self.assertAllClose(jax.grad(both)(F(1), 3, flag=True), F(1))
        with self.assertRaises(jax.errors.TracerBoolConversionError):
            jax.checkpoint(f)(F(1), 3)
        with self.assertRaisesRegex(NotImplementedError, "static_argnums"):
            jax.checkpoint(f, concrete=True)

    def test_saved_residuals(self):
        w = np.ones((3, 3), F)

        def lines(fun):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                print_saved_residuals(fun, w)
            return out.getvalue().splitlines()

        f = lambda w: jnp.sum(jnp.sin(checkpoint_name(jnp.sin(w), "inner")))
        self.assertTrue(any("from the argument w" in line for line in lines(jax.checkpoint(f))))
        self.assertLen([line for line in lines(jax.checkpoint(f)) if "f32[3,3]" in line], 1)
        self.assertGreaterEqual(len([line for line in lines(f) if "f32[3,3]" in line]), 2)
        stored = lines(jax.checkpoint(f, policy=policies.save_only_these_names("inner")))
        self.assertTrue(
            any("f32[3,3]" in line and "argument" not in line for line in stored), stored
        )

    def test_barrier_against_merging(self):
        f = lambda x: jnp.sin(jnp.sin(x))
        text = lambda **kw: jax.jit(jax.grad(jax.checkpoint(f, **kw))).lower(F(1)).as_text()
        self.assertIn("optimization_barrier", text())
        self.assertNotIn("optimization_barrier", text(prevent_cse=False))

    def test_only_what_is_needed_is_stored(self):
        f = jax.checkpoint(lambda x, y: jnp.sin(x) + y, policy=policies.nothing_saveable)
        jaxpr = jax.make_jaxpr(jax.grad(lambda x, y: f(x, y).sum()))(np.ones(3, F), np.ones(3, F))
        (remat,) = [e for e in jaxpr.eqns if e.primitive.name == "remat2"]
        self.assertLen(remat.invars, 2)  # x and the cotangent, not y

    def test_policies_hold_inside_jitted_functions_and_loops(self):
        name = jax.jit(lambda x: checkpoint_name(jnp.sin(x), "kept"))
        step = lambda c, _: (jnp.cos(name(c)), None)
        loop = lambda x: lax.scan(step, x, None, length=4)[0]
        policy = policies.save_only_these_names("kept")
        for f in (lambda x: jnp.cos(name(x)), loop):
            with self.subTest(f.__name__):
                grad = jax.grad(jax.checkpoint(f, policy=policy))
                self.assertAllClose(jax.jit(grad)(F(0.3)), jax.grad(f)(F(0.3)))
        saved = jax._src.ad_checkpoint.saved_residuals(jax.checkpoint(loop, policy=policy), F(0.3))
        self.assertIn((4,), [aval.shape for aval, _ in saved])

    def test_policies_look_into_functions(self):
        kept = lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "kept"))
        calls = dict(
            cond=lambda x: lax.cond(x > 0, kept, jnp.cos, x),
            nested=lambda x: lax.cond(x > 0, lambda x: lax.cond(x < 2, kept, jnp.cos, x), kept, x),
            switch=lambda x: lax.switch(1, [jnp.cos, kept, jnp.tanh], x),
            jit=jax.jit(kept),
            jit_cond=jax.jit(lambda x: lax.cond(x > 0, kept, jnp.cos, x)),
            scan=lambda x: lax.scan(lambda c, _: (kept(c), None), x, None, length=3)[0],
            scan_cond=lambda x: lax.scan(
                lambda c, y: (lax.cond(y, kept, jnp.cos, c), None), x, np.array([True, False])
            )[0],
        )
        policy = policies.save_only_these_names("kept")
        for name, f in calls.items():
            with self.subTest(name):
                g = jax.checkpoint(f, policy=policy)
                self.assertAllClose(jax.grad(g)(F(0.7)), jax.grad(f)(F(0.7)), rtol=1e-5)
                self.assertAllClose(jax.jit(jax.grad(g))(F(0.7)), jax.grad(f)(F(0.7)), rtol=1e-5)
                saved = [w for _, w in jax._src.ad_checkpoint.saved_residuals(g, F(0.7))]
                self.assertLen([w for w in saved if "output" in w], 1, saved)
                # Of the operations only those after the stored value are repeated.
                once = lambda policy: grad_count(jax.checkpoint(f, policy=policy), "sin", F(0.7))
                self.assertLess(once(policy), once(None))

    def test_calls_stay_calls(self):
        @jax.jit
        def double_sine(x):
            return jnp.sin(checkpoint_name(jnp.sin(x), "kept"))

        def f(x):
            for _ in range(4):
                x = double_sine(x)
            return x

        policy = policies.save_only_these_names("kept")
        closed = jax.make_jaxpr(jax.grad(jax.checkpoint(f, policy=policy)))(F(1))
        forward = [e.params["jaxpr"] for e in closed.eqns if e.primitive.name == "jit"]
        self.assertLen(forward, 4)
        self.assertLen(set(map(id, forward)), 1)
        text = jax.jit(jax.grad(jax.checkpoint(f))).lower(F(1)).as_text()
        self.assertLessEqual(text.count("func.func"), 6)
        (line,) = {
            w for _, w in jax._src.ad_checkpoint.saved_residuals(jax.checkpoint(f, policy=policy), F(1))
            if "argument" not in w
        }  # fmt: skip
        self.assertRegex(line, "output of jitted function 'double_sine' from .*checkpoint_test.py")

    def test_stored_once_for_all_steps(self):
        def f(x):
            step = lambda c, _: (c * jnp.sin(checkpoint_name(jnp.cos(x), "kept")) + c, None)
            return lax.scan(step, x, None, length=4)[0].sum()

        g = jax.checkpoint(f, policy=policies.save_only_these_names("kept"))
        x = np.ones(3, F)
        self.assertAllClose(jax.grad(g)(x), jax.grad(f)(x), rtol=1e-5)
        shapes = {a.shape for a, _ in jax._src.ad_checkpoint.saved_residuals(g, x)}
        self.assertEqual(shapes, {(3,)})

    def test_donated_arguments_of_functions_inside(self):
        f = jax.jit(lambda x: jnp.sin(x) * x, donate_argnums=0)
        x = jnp.ones(3)
        for policy in (None, policies.everything_saveable):
            g = jax.grad(jax.checkpoint(lambda x: f(f(x)).sum(), policy=policy))
            self.assertAllClose(g(x), jax.grad(lambda x: f(f(x)).sum())(x + 0))

    def test_refs_and_policies(self):
        def f(x):
            r = jax.new_ref(x)

            def step(c, _):
                r[...] = jnp.sin(r[...] * checkpoint_name(jnp.cos(c), "kept"))
                return lax.cond(c[0] > 0, lambda: r[...] * c, lambda: c), None

            return (lax.scan(step, x, None, length=3)[0] * r[...]).sum()

        x = np.array([0.5, 1.5], F)
        for policy in (None, policies.everything_saveable, policies.save_only_these_names("kept"),
                       lambda prim, *_, **__: prim.name in ("get", "swap")):  # fmt: skip
            g = jax.grad(jax.checkpoint(f, policy=policy))
            self.assertAllClose(g(x), jax.grad(f)(x), rtol=1e-5)
            self.assertAllClose(jax.jit(g)(x), jax.grad(f)(x), rtol=1e-5)

    def test_offloading_within_branches_and_loops(self):
        policy = policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["away"],
            offload_src="device", offload_dst="pinned_host",
        )  # fmt: skip

        def f(x):
            away = lambda c: jnp.sin(checkpoint_name(jnp.sin(c), "away"))
            step = lambda c, y: (lax.cond(y, away, jnp.cos, c), None)
            return lax.scan(step, jax.jit(away)(x), np.array([True, False]))[0]

        g = jax.grad(jax.checkpoint(f, policy=policy))
        text = str(jax.make_jaxpr(g)(F(1)))
        self.assertIn("<host>[2]", text)
        self.assertAllClose(g(F(1)), jax.grad(f)(F(1)), rtol=1e-5)

    def test_equal_policies(self):
        for make in (policies.save_only_these_names, policies.save_any_names_but_these,
                     policies.save_anything_except_these_names):  # fmt: skip
            self.assertEqual(make("a", "b"), make("b", "a"))
            self.assertNotEqual(make("a"), make("b"))
        self.assertIn("SaveOnlyTheseNames", str(policies.save_only_these_names("a")))

    def test_rules_of_outside_code(self):
        p = core.Primitive("test_checkpoint_rule")
        p.def_impl(lambda x: jnp.sin(x))
        p.def_abstract_eval(lambda x: x)
        ad.defjvp(p, lambda t, x: jnp.cos(x) * t)
        mlir.register_lowering(p, mlir.lower_fun(jnp.sin, multiple_results=False))
        asked = []

        def rule(saveable, unknown, instantiated, eqn):
            asked.append((unknown, instantiated))
            return eqn, None, [False], [False], []

        pe.partial_eval_jaxpr_custom_rules[p] = rule
        f = jax.checkpoint(lambda x: jnp.sin(p.bind(x)))
        self.assertAllClose(jax.grad(f)(F(1)), np.cos(np.sin(F(1))) * np.cos(F(1)), rtol=1e-5)
        self.assertEqual(asked, [([False], [True])])
        self.assertEqual(grad_count(f, p.name, F(1)), 1)

    def test_static_arguments_by_name_and_position(self):
        f = jax.checkpoint(lambda x, up: x * x if up else -x, static_argnames="up")
        for call in (lambda x: f(x, True), lambda x: f(x, up=True), lambda x: f(up=True, x=x)):
            self.assertAllClose(jax.grad(call)(F(3)), F(6))
        g = jax.checkpoint(lambda x, scale: x * scale[0], static_argnums=1)
        self.assertAllClose(jax.grad(g)(F(3), [5.0]), F(5))  # not hashable: traced each time

    def test_metadata(self):
        @jax.checkpoint
        def named(x):
            """Text."""
            return x

        self.assertEqual((named.__name__, named.__doc__), ("named", "Text."))
        self.assertEqual(jax.remat(named)(2.0), 2.0)
        with self.assertRaises(TypeError):  # an older name, without newer arguments
            jax.remat(named, static_argnames="x")


class TestSavedResiduals:
    def test_order_and_names(self, capsys):
        @jax.jit
        def inner(x):
            return jnp.sin(x) * x

        def f(x, w):
            return jnp.sum(checkpoint_name(jnp.sin(x @ w), "y") * inner(x))

        print_saved_residuals(f, np.ones((3, 3), F), np.ones((3, 3), F))
        lines = capsys.readouterr().out.splitlines()
        assert lines[:2] == ["f32[3,3] from the argument x", "f32[3,3] from the argument w"]
        assert any(line.startswith("f32[3,3] named 'y' from ") for line in lines)
        assert any(line.startswith("f32[3,3] output of jitted function 'inner'") for line in lines)

    def test_both_policies_are_bools(self):
        policy = policies.save_from_both_policies(
            policies.dots_saveable,
            policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
        )
        with pytest.raises(ValueError, match="must return booleans"):
            jax.grad(jax.checkpoint(lambda x: (x @ x).sum(), policy=policy))(np.ones((2, 2), F))


def test_effects_in_the_body_of_a_scan(capfd):
    def step(c, _):
        y = jnp.sin(c)
        jax.debug.print("{}", y)
        return jnp.sin(y), None

    f = lambda x: jax.lax.scan(step, x, None, length=2)[0]
    np.testing.assert_allclose(jax.grad(jax.checkpoint(f))(1.0), jax.grad(f)(1.0), rtol=1e-6)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("0.84147") == 3


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
