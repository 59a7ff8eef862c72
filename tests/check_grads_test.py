"""At which points `check_grads` evaluates functions, beside the reference build, and arguments without derivatives."""

import numpy as np
import pytest
from op_testing import case_tests

import jax.numpy as jnp
import jax.test_util as jtu

reference, test_reference, _ = case_tests(__file__)


@pytest.mark.parametrize("x", [1.0, 1.0 + 2.0j])
def test_points_of_python_numbers_are_not_rounded(x):
    points = []

    def f(y):
        if isinstance(y, (float, complex)):
            points.append(y)
        return y * 2

    jtu.check_grads(f, (x,), order=1, modes="fwd")
    step = 1e-4 * complex(*np.random.RandomState(0).randn(2))
    step = step if isinstance(x, complex) else step.real
    assert points == [x, x + step, x - step]


@pytest.mark.parametrize("order", [1, 2])
def test_integers_have_no_derivatives(order):
    jtu.check_grads(lambda x, n: x * n, (np.ones(2, np.float32), 2), order)
    jtu.check_grads(lambda x: (x * 2, jnp.arange(2)), (1.0,), order)
    jtu.check_grads(lambda x: x * 2, (jnp.array([1, 2]),), order)
