"""The cases in lax_sort_cases.py against the reference build and NumPy."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax

reference, test_reference, test_numpy = case_tests(__file__)


def test_large_unsigned_keys():
    x = np.random.RandomState(0).randint(0, 2**32, 1500, np.uint32)
    keys, order = jax.lax.sort_key_val(x, np.arange(1500))
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(keys, np.sort(x))


@pytest.mark.parametrize("find", [lax.top_k, lax.approx_max_k, lax.approx_min_k])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, jax.vmap])
def test_found_elements_are_in_a_list(find, transform):
    out = transform(lambda x: find(x, 2))(jnp.arange(12.0).reshape(3, 4))
    assert jax.tree.structure(out) == jax.tree.structure([0, 0])
