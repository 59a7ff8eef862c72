"""The cases in lax_reductions_cases.py against the reference build and NumPy."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.lax import windowed_reductions

reference, test_reference, test_numpy = case_tests(__file__)


# What the reference does not differentiate


def numerical_grad(fun, x, eps=1e-4):
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = eps
        out[i] = (fun(x + step) - fun(x - step)) / (2 * eps)
    return out


WINDOWS = {
    "plain": ((2, 2), (1, 1), "VALID", None, None),
    "strided": ((2, 3), (2, 1), "SAME", None, None),
    "dilated": ((2, 2), (1, 2), [(1, 0), (0, 1)], (2, 1), (1, 2)),
}
MONOIDS = {
    "mul": (lambda x, y: x * y, 1.0),
    "lambda": (lambda x, y: x + y + x * y, 0.0),
    "max": (lax.max, -np.inf),
    "min": (lax.min, np.inf),
}


@pytest.mark.parametrize("window", list(WINDOWS))
@pytest.mark.parametrize("monoid", list(MONOIDS))
def test_reduce_window_grad(monoid, window):
    fun, init = MONOIDS[monoid]
    x = np.random.RandomState(0).randn(4, 5)
    with jax.enable_x64(True):

        def total(x):
            out = lax.reduce_window(x, np.float64(init), fun, *WINDOWS[window])
            finite = lax.select(lax.is_finite(out), out, lax.full_like(out, 0))
            return lax.reduce_sum(lax.sin(finite), (0, 1))

        want = numerical_grad(lambda x: float(total(x)), x)
        np.testing.assert_allclose(jax.grad(total)(x), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jax.jit(jax.grad(total))(x), want, rtol=1e-5, atol=1e-6)
        forward = jax.jvp(total, (x,), (np.ones_like(x),))[1]
        np.testing.assert_allclose(forward, want.sum(), rtol=1e-5)


def test_reduce_grad_of_initial_value():
    def f(init):
        return lax.reduce(np.array([2.0, 3.0], np.float32), init, lambda x, y: x * y, (0,))

    assert jax.grad(f)(np.float32(1)) == 6


def test_batched_initial_values():
    inits = np.array([1.0, 2.0], np.float32)
    x = np.array([3.0, 4.0, 5.0], np.float32)
    fun = lambda x, y: x * y
    out = jax.vmap(lambda v: lax.reduce(x, v, fun, (0,)))(inits)
    np.testing.assert_array_equal(out, [60, 120])
    out = jax.vmap(lambda v: lax.reduce_window(x, v, fun, (2,)))(inits)
    np.testing.assert_array_equal(out, [[12, 20], [24, 40]])


def test_computation_is_checked():
    x = np.ones(3, np.float32)
    with pytest.raises(TypeError, match="must return scalars of the types it takes"):
        lax.reduce(x, np.float32(0), lambda a, b: a > b, (0,))
    with pytest.raises(TypeError, match="must return a pytree like"):
        lax.reduce(x, np.float32(0), lambda a, b: (a, b), (0,))
    with pytest.raises(ValueError, match="traced value of an enclosing function"):
        jax.jit(lambda c: lax.reduce(x, np.float32(0), lambda a, b: a + b * c, (0,)))(np.float32(2))


def test_select_and_scatter():
    x = np.array([[1, 5, 2, 4]], np.float32)
    source = np.array([[10, 20]], np.float32)
    args = ((1, 2), (1, 2), "VALID", source, np.float32(0), lax.add)
    for select in (lax.ge, lambda a, b: a >= b):
        out = windowed_reductions.select_and_scatter(x, select, *args)
        np.testing.assert_array_equal(out, [[0, 10, 0, 20]])
        batched = jax.vmap(lambda x, f=select: windowed_reductions.select_and_scatter(x, f, *args))
        np.testing.assert_array_equal(
            batched(np.stack([x, -x])), [[[0, 10, 0, 20]], [[10, 0, 20, 0]]]
        )


def test_long_scans_in_few_bits():
    ones = np.ones((1000, 300), jnp.bfloat16)
    np.testing.assert_allclose(
        np.asarray(lax.cumsum(ones))[:, 0].astype(np.float32), np.arange(1, 1001), rtol=1e-2
    )


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("start", [float, np.float32, jnp.float32])
def test_max_and_min_of_integers_start_from_infinities(dtype, start):
    x = np.array([1, 0, 1], dtype)
    for op, numpy_op, sign in ((lax.max, np.max, -1), (lax.min, np.min, 1)):
        init = start(sign * np.inf)
        assert lax.reduce(x, init, op, (0,)) == numpy_op(x)
        windows = lax.reduce_window(x, init, op, (2,), (1,), "VALID")
        assert windows.dtype == dtype
        np.testing.assert_array_equal(windows, [numpy_op(x[:2]), numpy_op(x[1:])])
        with pytest.raises(TypeError, match="int32|uint8|bool"):
            lax.reduce(x, -init, op, (0,))


def test_an_initial_value_is_converted_also_without_promotion():
    x = jnp.arange(14).reshape(1, 14)
    with jax.numpy_dtype_promotion("strict"):
        out = lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 3), "VALID")
        assert lax.reduce(x, 0, lax.add, (0, 1)) == 91
    assert out.tolist() == [[1, 4, 7, 10, 13]]


def test_windows_of_booleans_have_primitives():
    x = np.array([[1, 0, 1], [0, 0, 1]], bool)
    for fun, init, name, want in (
        (lax.max, False, "reduce_window_max", [[True, True]]),
        (lax.min, True, "reduce_window_min", [[False, False]]),
    ):
        windows = jax.jit(lambda x, fun=fun, init=init: lax.reduce_window(x, init, fun, (2, 2)))
        assert windows.trace(x).jaxpr.eqns[0].primitive.name == name
        np.testing.assert_array_equal(windows(x), want)
        np.testing.assert_array_equal(jax.vmap(windows)(np.stack([x, x])), [want, want])
