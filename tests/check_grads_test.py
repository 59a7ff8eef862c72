"""At which points `check_grads` evaluates functions, beside the reference build, and arguments without derivatives."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
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
def test_integer_results_have_no_derivatives(order):
    jtu.check_grads(lambda x: (x * 2, jnp.arange(2)), (1.0,), order)


@pytest.mark.parametrize("modes", ["fwd", "rev", ("fwd", "rev")])
def test_arguments_without_derivatives_are_refused(modes):
    """As with the reference, which fails on them."""
    tree = {"a": 1.0, "b": jnp.arange(2)}
    for args in ((2,), (True,), (jnp.arange(3),), (1.0, np.int32(2)), (tree,)):
        with pytest.raises(TypeError, match="one of type (int32|bool).*close over it"):
            jtu.check_grads(lambda *xs: xs, args, 1, modes)
    for args in ((), (None,)):
        with pytest.raises(TypeError, match="no arguments to differentiate by"):
            jtu.check_grads(lambda *_: 1.0, args, 1, modes)
    with pytest.raises(TypeError, match="close over it"):
        jtu.check_jvp(lambda x: x * 2, lambda xs, ts: jax.jvp(lambda x: x * 2, xs, ts), (2,))
    with pytest.raises(TypeError, match="close over it"):
        jtu.check_vjp(lambda x: x * 2, lambda x: jax.vjp(lambda x: x * 2, x), (2,))


def test_modes():
    """A mode that is not known would check nothing: the reference accepts it."""
    checked = jax.custom_jvp(lambda x: x)
    checked.defjvp(lambda xs, ts: (xs[0], 2 * ts[0]))
    for modes in ("fwd", "rev", "fwdrev", "fwd,rev", ["rev"]):
        with pytest.raises(AssertionError):
            jtu.check_grads(checked, (1.0,), 1, modes)
    for modes in ("both", ("fwd", "x"), ["forward"]):
        with pytest.raises(ValueError, match="must be 'fwd' and 'rev'"):
            jtu.check_grads(checked, (1.0,), 1, modes)


def test_results_that_are_arguments():
    """Literals of a traced program are of types of their own."""
    same = jax.custom_jvp(lambda x: x)
    same.defjvp(lambda xs, ts: (xs[0], ts[0]))
    for x in (1.0, 1.0 + 2.0j):
        jtu.check_grads(same, (x,), 2)
