"""What programs and libraries of users do (see user_programs_scenarios.py), and better than the reference."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
from jax import lax
from jax._src import test_util as jtu

reference, test_reference, _ = case_tests(__file__)

A = np.array([0.3, 1.5, 3.0, 20.0, 8.0, 2.0])
X = np.array([0.2, 2.0, 1.0, 25.0, 0.5, 30.0])


@pytest.mark.parametrize("fun", [lax.random_gamma_grad, lax.igamma_grad_a])
def test_derivatives_of_derivatives_by_the_shape_of_gamma_distributions(fun):
    with jax.enable_x64(True):
        jtu.check_grads(fun, (A, X), order=1, modes=["fwd", "rev"], atol=1e-5, rtol=1e-5)
    narrow = jax.jvp(fun, (A.astype(np.float16), X.astype(np.float16)), (A.astype(np.float16),) * 2)
    assert all(x.dtype == np.float16 and np.isfinite(x).all() for x in narrow)
