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
