"""Kin of the transformations: `jax.ad`, stages called natively, residuals, explained cache misses."""

import logging

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name, checkpoint_policies, print_saved_residuals

F = np.float32
x3 = np.arange(3, dtype=F)


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


class TestCompiled:
    compiled = jax.jit(lambda x, *, k: {"a": x + k}).lower(x3, k=F(1)).compile()

    def test_calls(self):
        for _ in range(3):
            np.testing.assert_array_equal(self.compiled(x3, k=F(2))["a"], x3 + 2)
        with jax.disable_jit():
            np.testing.assert_array_equal(self.compiled(x3, k=F(2))["a"], x3 + 2)

    @pytest.mark.parametrize(
        "text,args,kwargs",
        [
            ("at kwargs, seen", (x3,), {}),
            ("at args, seen tuple of length 1", (x3, x3), {"k": F(1)}),
            (r"at args\[0\], seen pytree leaf", ((x3,),), {"k": F(1)}),
            ("float32", (np.arange(3),), {"k": F(1)}),
            (r"float32\[4\]", (np.arange(4, dtype=F),), {"k": F(1)}),
        ],
    )
    def test_errors(self, text, args, kwargs):
        for _ in range(2):
            with pytest.raises(TypeError, match=text):
                self.compiled(*args, **kwargs)

    def test_transformations(self):
        with pytest.raises(TypeError, match="Cannot apply JAX transformations"):
            jax.grad(lambda x: self.compiled(x, k=F(1))["a"].sum())(x3)

    def test_wrapped(self):
        assert isinstance(jax.jit(jnp.sin), jax.stages.Wrapped)
        assert not isinstance(len, jax.stages.Wrapped)


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
        policy = checkpoint_policies.save_from_both_policies(
            checkpoint_policies.dots_saveable,
            checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
        )
        with pytest.raises(ValueError, match="must return booleans"):
            jax.grad(jax.checkpoint(lambda x: (x @ x).sum(), policy=policy))(np.ones((2, 2), F))


def test_explained_misses_are_of_user_functions_and_name_the_closest_call(caplog):
    f = jax.jit(lambda x, y: x)
    x4 = np.ones(4, F)
    with jax.explain_cache_misses(True), caplog.at_level(logging.WARNING):
        f(x3, 1.0)
        f(1.0, x3)
        f(x4, 1.0)
        jax.lax.while_loop(lambda c: c[0] < 0, lambda c: c, jax.lax.exp(np.ones(7, F)))
    misses = caplog.messages
    assert not any("_src" in m for m in misses), misses
    assert "* at x, now f32[4] and before f32[3]" in misses[2]
    assert "at y" not in misses[2]


def test_explained_misses_name_static_arguments(caplog):
    f = jax.jit(lambda x, s=1, *, k=2: x * s * k, static_argnums=1, static_argnames="k")
    f(x3, 1, k=2)
    with jax.explain_cache_misses(True), caplog.at_level(logging.WARNING):
        f(x3, 2, k=2)
        f(x3, 1, k=3)
        f(x3, k=2)
    assert "now 2 and before 1" in caplog.text
    assert "now 3 and before 2 for 'k'" in caplog.text
    assert "different static arguments: now [2] and before [" in caplog.text
