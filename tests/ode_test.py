"""`jax.experimental.ode` beside the reference (ode_scenarios.py), and where it does more."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.flatten_util
import jax.numpy as jnp
from jax.experimental import ode

reference, test_reference, _ = case_tests(__file__)

T = np.linspace(0, 1, 3, dtype=np.float32)


def decay(y, t, a=1):
    return -a * y


def test_decreasing_times():
    ys = ode.odeint(decay, 1.0, -T)
    np.testing.assert_allclose(ys, np.exp(T), rtol=1e-6)
    grad = jax.grad(lambda y, t, a: ode.odeint(decay, y, t, a)[-1], (0, 1, 2))(1.0, -T, 1.0)
    want = np.exp(1), [np.exp(1), 0, -np.exp(1)], np.exp(1)
    for g, w in zip(grad, want):
        np.testing.assert_allclose(g, w, atol=1e-4)


def test_equal_times():
    ys = ode.odeint(decay, 1.0, np.array([0, 0, 1, 1], np.float32))
    np.testing.assert_allclose(ys, np.exp([0, 0, -1, -1]), rtol=1e-6)


def test_gradients_beside_integers():
    def solve(a, n):
        return ode.odeint(lambda y, t, n: -a * n * y, 1.0, T, n)[-1]

    np.testing.assert_allclose(jax.grad(solve)(2.0, 3), -3 * np.exp(-6), rtol=1e-3)


def test_arrays_as_options():
    got = ode.odeint(decay, 1.0, T, rtol=jnp.array(1e-3), hmax=np.float32(0.1))
    np.testing.assert_array_equal(got, ode.odeint(decay, 1.0, T, rtol=1e-3, hmax=0.1))


def test_is_compiled_once():
    traces = []

    def func(y, t):
        traces.append(1)
        return -y

    first = ode.odeint(func, 1.0, T)
    n = len(traces)
    np.testing.assert_array_equal(ode.odeint(func, 1.0, T), first)
    assert len(traces) - n <= 1  # the check of the derivative's type


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ode.odeint(decay, 1.0, [0.0, 1.0]), r"jnp\.asarray\(t\)"),
        (lambda: ode.odeint(decay, 1, T), r"y0 must have floating-point.*int32\[\]"),
        (lambda: ode.odeint(decay, 1.0, T, jnp.sin), "Close over"),
        (lambda: ode.odeint(lambda y, t: (y, y), 1.0, T), r"float32\[\], but returned \("),
        (lambda: ode.odeint(decay, 1.0, T, rtol=np.ones(2)), r"rtol must be a number.*\(2,\)"),
        (
            lambda: jax.jit(lambda h: ode.odeint(decay, 1.0, T, hmax=h))(1.0),
            "hmax must be a number that is known.*static",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_ravel_first_arg():
    flat, unravel = jax.flatten_util.ravel_pytree((np.ones(2), 1.0))
    info = jax.api_util.debug_info("test", jnp.add, (), {})
    f = ode.ravel_first_arg(lambda y, a: (y[1], a * y[0]), unravel, info)
    np.testing.assert_array_equal(f.call_wrapped(flat, 3.0), [1, 3, 3])
