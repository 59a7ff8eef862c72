"""`custom_vmap`, `custom_root`, `custom_linear_solve`, beside the reference (custom_batching_scenarios.py)."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap, sequential_vmap
from jax.interpreters import ad, batching

reference, test_reference, _ = case_tests(__file__)

F = np.float32
v3 = np.array([0.3, -1.2, 2.1], F)


def make(rule, fun=lambda x, y: x * y):
    f = custom_vmap(fun)
    f.def_vmap(rule)
    return f


class TestReverseMode:
    """Which the reference does not have: derivatives are those of the rule, for each element."""

    f = make(lambda n, batched, x, y: (jnp.sin(x) * y**2, any(batched)), lambda x, y: x * y)

    def test_outside_vmap_the_function_counts(self):
        assert jax.grad(self.f)(F(2), F(3)) == 3
        assert jax.jit(jax.grad(self.f, 1))(F(2), F(3)) == 2
        assert jax.grad(jax.grad(self.f))(F(2), F(3)) == 0

    @pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
    @pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
    def test_inside_vmap_the_rule_counts(self, axes, wrap):
        args = [v3 if a == 0 else F(1.7) for a in axes]
        plain = lambda x, y: jnp.sin(x) * y**2
        ours = jax.vmap(wrap(jax.grad(self.f, (0, 1))), axes)(*args)
        expected = jax.vmap(jax.grad(plain, (0, 1)), axes)(*args)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), ours, expected)

    def test_second_order_and_checkpoint(self):
        g = jax.grad(jax.grad(jax.checkpoint(sequential_vmap(jnp.sin))))
        np.testing.assert_allclose(jax.vmap(g)(v3), -np.sin(v3), rtol=1e-6)

    def test_linear_transpose(self):
        scale = make(lambda n, b, x: (3 * x, b[0]), lambda x: 2 * x)
        transpose = lambda ct: jax.linear_transpose(scale, F(1))(ct)[0]
        assert transpose(F(1)) == 2
        np.testing.assert_array_equal(jax.vmap(transpose)(v3), 3 * v3)

    def test_vjp_by_one_of_several(self):
        out, vjp = jax.vjp(lambda y: jax.vmap(self.f, (0, None))(v3, y), F(2))
        np.testing.assert_allclose(out, np.sin(v3) * 4, rtol=1e-6)
        np.testing.assert_allclose(vjp(v3)[0], np.sum(np.sin(v3) * 4 * v3), rtol=1e-6)


class TestErrors:
    def test_result_is_no_pair(self):
        with pytest.raises(TypeError, match="must return a pair"):
            jax.vmap(make(lambda n, b, x, y: x))(v3, v3)

    @pytest.mark.parametrize(
        "result", [lambda x: (x[:2], True), lambda x: (x, False), lambda x: (x.astype(int), True)]
    )
    def test_result_of_wrong_type(self, result):
        with pytest.raises(TypeError, match="returned .* as leaf 0 of its result"):
            jax.vmap(make(lambda n, b, x, y: result(x)))(v3, v3)

    def test_closure_over_batched(self):
        with pytest.raises(NotImplementedError, match="closes over a value that is batched"):
            jax.vmap(lambda z: sequential_vmap(lambda x: x * z)(F(2)))(v3)

    def test_closure_over_differentiated(self):
        scale = lambda z, x: make(lambda n, b, x: (x * 2, True), lambda x: x * z)(x)
        assert jax.grad(scale)(F(3), F(4)) == 4
        with pytest.raises(NotImplementedError, match="differentiated by"):
            jax.jvp(lambda z: jax.vmap(lambda x: jax.jvp(lambda z: scale(z, x), (z,), (x,)))(v3), (F(3),), (F(1),))  # fmt: skip

    def test_not_callable(self):
        with pytest.raises(TypeError, match="callable"):
            custom_vmap(3)

    def test_positional_only_resolution(self):
        f = make(lambda n, b, x: (x, b[0]), lambda *, x: x)
        with pytest.raises(TypeError, match="could not be resolved to positional-only"):
            f(x=F(1))


class TestCustomVmap:
    def test_traced_once(self):
        count = []
        f = make(lambda n, b, x: (x, b[0]), lambda x: (count.append(1), x)[1])
        for _ in range(3):
            f(F(1))
        assert len(count) == 1

    def test_results_are_arrays(self):
        assert isinstance(make(lambda n, b: (2.0, False), lambda: 2.0)(), jax.Array)


class TestSolves:
    def test_root_of_other_type_than_guess(self):
        f = lambda x: lax.custom_root(lambda y: y - x, 1.0, lambda f, y: jnp.ones(2), lambda g, y: y)  # fmt: skip
        assert f(F(1)).shape == (2,)
        with pytest.raises(TypeError, match="root of other types than those of initial_guess"):
            jax.grad(lambda x: f(x).sum())(F(1))

    def test_closure_over_custom_jvp_tracers(self):
        def f(x):
            scaled = jax.custom_jvp(lambda y: y)
            scaled.defjvp(lambda p, t: (p[0], t[0] * x))
            matvec = lambda y: scaled(y) * 2
            return lax.custom_linear_solve(matvec, x, lambda f, b: b / 2, symmetric=True)

        assert jax.jvp(jax.jit(f), (F(3),), (F(1),))[1] == 0.5


class TestPlatformDependent:
    def f(self, x):
        return lax.platform_dependent(x, cuda=only_on_cuda.bind, cpu=jnp.sin, default=jnp.cos)

    @pytest.mark.parametrize("wrap", [jax.vmap, jax.jit, jax.grad, lambda f: jax.jit(jax.vmap(f))])
    def test_other_platforms_are_not_lowered_for(self, wrap):
        x = F(0.5) if wrap is jax.grad else v3
        np.testing.assert_allclose(wrap(self.f)(x), wrap(jnp.sin)(x), rtol=1e-6)

    def test_several_platforms(self):
        text = lambda *platforms: jax.jit(self.f).trace(v3).lower(lowering_platforms=platforms).as_text()  # fmt: skip
        two = text("cpu", "tpu")
        assert "stablehlo.sine" in two and "stablehlo.cosine" in two and "case" in two
        assert "case" not in text("tpu") and "cosine" in text("tpu")
        with pytest.raises(NotImplementedError, match="only_on_cuda"):
            text("cuda")

    def test_errors(self):
        with pytest.raises(ValueError, match="'cuda' and 'rocm'"):
            lax.platform_dependent(v3, gpu=jnp.sin, default=jnp.cos)
        with pytest.raises(NotImplementedError, match="not found for platform cpu"):
            lax.platform_dependent(v3, cuda=jnp.sin)


only_on_cuda = jax.extend.core.Primitive("only_on_cuda")
only_on_cuda.def_abstract_eval(lambda x: x)
ad.defjvp(only_on_cuda, lambda t, x: t)
batching.defvectorized(only_on_cuda)


def test_methods_of_wrapped_functions():
    f = custom_vmap(jax.custom_jvp(lambda x: 2 * x))
    f.defjvp(lambda p, t: (2 * p[0], 5 * t[0]))
    f.def_vmap(lambda n, batched, x: (x + 100, True))
    assert jax.jvp(f, (1.0,), (1.0,)) == (2, 5)
    with pytest.raises(AttributeError, match="nothing"):
        f.nothing  # noqa: B018
