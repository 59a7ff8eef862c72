"""The cases in numpy_ufuncs_cases.py against the reference build and NumPy; methods it lacks against NumPy."""

import numpy as np
import pytest
from op_testing import case_tests

import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__)
X = np.array([[0.0, 1, 2, 0], [3, 0, 0, 5], [1, 1, 0, 2]], np.float32)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical_methods_have_the_dtypes_of_numpy(name):
    ours, theirs = getattr(jnp, name), getattr(np, name)
    for indices in (np.array([0, 2, 3]), np.array([2, 0, 1])):
        out, want = (f.reduceat(X, indices, axis=1) for f in (ours, theirs))
        np.testing.assert_array_equal(out, want, strict=True)
    want = X[0].copy()
    theirs.at(want, [0, 0, 2], X[1, :3])
    out = ours.at(X[0], np.array([0, 0, 2]), X[1, :3], inplace=False)
    np.testing.assert_array_equal(out, want, strict=True)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2", "maximum"])
def test_options_of_reductions(name):
    ours, theirs = getattr(jnp, name), getattr(np, name)
    for kwargs in ({"initial": 1}, {"initial": 1, "where": X > 0}, {"dtype": "float32"}):
        x = X.astype(np.float16) if "dtype" in kwargs else X
        out, want = (f.reduce(x, axis=1, **kwargs) for f in (ours, theirs))
        np.testing.assert_allclose(out, want, rtol=1e-6, strict=True)


def test_operand_of_at_is_broadcast():
    f = jnp.frompyfunc(lambda x, y: x * y + 1, 2, 1)
    out = f.at(X, np.array([0, 0, 2]), X[1], inplace=False)
    want = np.stack([(X[0] * X[1] + 1) * X[1] + 1, X[1], X[2] * X[1] + 1])
    np.testing.assert_array_equal(out, want)
