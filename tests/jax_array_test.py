"""Objects with `__jax_array__` in library functions, beside the reference build (see jax_array_scenarios.py).

What the reference accepts is accepted here with the same results; we may accept more.
"""

from pathlib import Path

import numpy as np
import op_cases
import oracle_results
import pytest

import jax
import jax.numpy as jnp

MODULE = Path(__file__.replace("_test.py", "_scenarios.py"))
CASES = {case.name: case for case in op_cases.load(MODULE)}


@pytest.fixture(scope="module")
def reference():
    return oracle_results.read(MODULE)


@pytest.mark.parametrize("name", list(CASES))
def test_accepts_objects_with_jax_array(name, reference):
    ours = CASES[name].fun()
    theirs, *_ = reference[name]["call"]
    for x, y in zip(ours, theirs, strict=True):
        assert x == y or y.endswith("Error"), f"ours: {ours}\nreference: {theirs}"


class Holder:
    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_holders_are_what_they_hold(kind):
    x, one = kind(np.array([[4.0, 1.0], [1.0, 3.0]], np.float32)), kind(np.int32(1))
    key = jax.random.key(0)
    for f in (
        jnp.std,
        jnp.var,
        jnp.ptp,
        jnp.diag,
        jnp.isscalar,
        lambda v: jnp.ptp(v, axis=0, keepdims=True),
        lambda v: jnp.einsum("ij,jk", v, v),
        lambda v: jnp.einsum(v, [0, 1]),
        lambda v: jnp.array([v, 2 * x]),
        lambda v: jnp.clip(x, min=v, max=v),
        lambda v: jax.random.categorical(key, v),
    ):
        np.testing.assert_array_equal(f(Holder(x)), f(x))
        if f is not jnp.isscalar:
            np.testing.assert_allclose(jax.jit(lambda v, f=f: f(Holder(v)))(x), f(x), rtol=1e-6)
    for g in (
        jax.random.PRNGKey,
        jnp.isscalar,
        lambda k: jax.random.key_data(jax.random.key(k)),
        lambda k: jax.random.key_data(jax.random.fold_in(key, k)),
        lambda k: jnp.eye(3, k=k),
        lambda k: jnp.array([[k, 3]]),
    ):
        np.testing.assert_array_equal(g(Holder(one)), g(one))


@pytest.mark.parametrize(
    "name",
    [
        "sin",
        "square",
        "sum",
        "max",
        "cumsum",
        "mean",
        "sort",
        "argmax",
        "ravel",
        "unwrap",
        "diff",
        "gradient",
        "roots",
    ],
)
def test_eager_functions_convert_their_arguments(name):
    """The reference's compiled functions accept such objects only where they are traced."""
    fun, x = getattr(jnp, name), np.array([4.0, 1.0, 3.0], np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(fun(Holder(x)), fun(x))
        np.testing.assert_array_equal(fun(Holder(jnp.asarray(x))), fun(x))


@pytest.mark.parametrize(
    "name", ["add", "divide", "arctan2", "power", "logaddexp", "dot", "matmul", "where", "less"]
)
def test_eager_functions_of_two_arrays_convert_their_arguments(name):
    fun, x = getattr(jnp, name), np.array([4.0, 1.0, 3.0], np.float32)
    if name == "where":
        fun = lambda x, y: jnp.where(x, x, y)
    scalar = [] if name in ("dot", "matmul") else [(Holder(x), 2.0)]
    for args in ((Holder(x), x), (x, Holder(x)), (Holder(x), Holder(x)), *scalar):
        plain = [a.value if isinstance(a, Holder) else a for a in args]
        np.testing.assert_array_equal(fun(*args), fun(*plain))
        np.testing.assert_array_equal(fun(*args), fun(*map(jnp.asarray, plain)))


@pytest.mark.parametrize(
    "name", ["add", "multiply", "maximum", "subtract", "logaddexp", "logical_xor"]
)
def test_methods_of_ufuncs_convert_their_arguments(name):
    fun, x = getattr(jnp, name), np.array([[4.0, 1, 3], [2, 5, 6]], np.float32)
    for call in (
        lambda x, i, v, m: fun.reduce(x),
        lambda x, i, v, m: fun.reduce(x, axis=1, initial=v, where=m),
        lambda x, i, v, m: fun.accumulate(x),
        lambda x, i, v, m: fun.outer(x, x),
        lambda x, i, v, m: fun.at(x, i, v, inplace=False),
        lambda x, i, v, m: fun.reduceat(x, i),
    ):
        plain = x, np.array([0, 1]), np.float32(2), x > 2
        np.testing.assert_array_equal(call(*map(Holder, plain)), call(*map(jnp.asarray, plain)))


def test_binomial():
    key, n, p = jax.random.key(0), np.float32(7), np.array([0.25, 0.5], np.float32)
    got = jax.random.binomial(key, Holder(n), Holder(p))
    np.testing.assert_array_equal(got, jax.random.binomial(key, n, p))
