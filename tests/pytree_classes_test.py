"""Pytree classes whose constructors look at their children (see pytree_classes_scenarios.py)."""

import pytest
from op_testing import case_tests
from pytree_classes_scenarios import KINDS, OURS, PROGRAMS

import jax
import jax.numpy as jnp
from jax import lax, tree_util

reference, test_reference, _ = case_tests(__file__)


@pytest.mark.parametrize("kind", ["ByShape", "KeyedConverting"])
@pytest.mark.parametrize("name", OURS)
def test_works_where_the_reference_gives_placeholders(name, kind):
    if kind == "KeyedConverting" and name.startswith("callback"):
        kind = "KeyedByShape"  # the program has a tree of types
    result = PROGRAMS[name](KINDS[kind])
    if isinstance(result, str):  # the class of an error
        wanted = "TypeError" if name.endswith(("_bad_tree", "call_mismatch")) else "ValueError"
        assert result == ("nothing" if name.endswith("_from_array") else wanted)


class Strict:
    """Notes the types of its children."""

    seen: list = []

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def unflatten(cls, _, children):
        cls.seen += [type(x).__name__ for x in children]
        return cls(*children)


tree_util.register_pytree_with_keys(
    Strict,
    lambda p: (((tree_util.GetAttrKey("a"), p.a), (tree_util.GetAttrKey("b"), p.b)), None),
    Strict.unflatten,
)
double = lambda p: jax.tree.map(lambda x: 2 * x, p)


@pytest.mark.parametrize(
    "run",
    [
        jax.jit(double, donate_argnums=0),
        jax.vmap(double, in_axes=(0,), out_axes=0),
        jax.make_jaxpr(lambda p: double(p)),  # traces of one function are shared
        lambda p: lax.scan(lambda c, _: (double(c), None), p, None, length=2),
        lambda p: lax.while_loop(lambda q: jnp.sum(q.a) < 9, double, p),
        lambda p: jax.jit(lambda b, p: lax.cond(b, double, lambda p: p, p))(True, p),
        lambda p: jax.grad(lambda p: jnp.sum(p.a * p.b))(p),
        lambda p: jax.jit(lambda p: double(p)).lower(p).as_text(debug_info=True),
    ],
)  # fmt: skip
def test_constructors_get_arrays_and_tracers_alone(run):
    Strict.seen = []
    run(Strict(jnp.ones(3), jnp.ones(3)))
    assert Strict.seen
    assert all(name == "ArrayImpl" or "Tracer" in name for name in Strict.seen), Strict.seen


def test_errors_name_children_of_classes_that_refuse_placeholders():
    with pytest.raises(TypeError, match=r"carry component c\.a has type"):
        lax.scan(lambda c, _: (jax.tree.map(jnp.sum, c), None), Strict(jnp.ones(3), 1.0), None, 2)
    cls = KINDS["KeyedByShape"]
    one = cls(jnp.ones(3), jnp.ones(3))
    with pytest.raises(TypeError, match=r"scan body output must be a pair, got KeyedByShape\("):
        lax.scan(lambda c, _: c, one, None, 2)
    with pytest.raises(TypeError, match=r"carry component c\[<flat index 0>\] has type"):
        lax.scan(lambda c, _: (jax.tree.map(jnp.sum, c), None), one, None, 2)
    with pytest.raises(jax.errors.TracerBoolConversionError, match=r"the argument p\.a"):
        jax.jit(lambda p: 1 if p.a[0] else 0)(one)


@pytest.mark.parametrize("kind", KINDS)
def test_ahead_of_time(kind):
    one = KINDS[kind](jnp.ones(3), jnp.ones(3))
    compiled = jax.jit(double, keep_unused=True).lower(one).compile()
    assert compiled.donate_argnums == ()
    assert jax.tree.leaves(compiled(one))[0].sum() == 6
    with pytest.raises(TypeError, match="now given <class 'tuple'>"):
        compiled((1.0, 1.0))
