"""The cases in numpy_polynomial_cases.py against the reference build and NumPy; what we accept beyond it."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__)


@pytest.mark.parametrize("name", ["polyadd", "polysub", "polymul"])
@pytest.mark.parametrize("args", [(2, [1.0, 2]), ([1.0, 2], 3), (2, 3), ([], [1.0, 2])])
def test_scalars_and_nothing(name, args):
    out = getattr(jnp, name)(*[x if isinstance(x, int) else np.float32(x) for x in args])
    np.testing.assert_array_equal(out, getattr(np, name)(*args))


def test_division_of_scalars():
    for args in [([1.0, 2], 2), (2, [1.0, 2]), (2, 4)]:
        ours = jnp.polydiv(*[x if isinstance(x, int) else np.float32(x) for x in args])
        quotient, remainder = np.polydiv(*args)
        np.testing.assert_array_equal(ours[0], quotient)
        np.testing.assert_array_equal(np.trim_zeros(ours[1]), np.trim_zeros(remainder))


def test_unsigned_numbers_are_promoted_before_they_are_subtracted():
    x, y = np.array([1, 2, 3], np.int32), np.array([4, 5], np.uint8)
    assert jnp.polysub(x, y).tolist() == np.polysub(x, y).tolist() == [1, -2, -2]


class Convertible:
    """An array by its `__jax_array__` method."""

    def __init__(self, x):
        self.x = x

    def __jax_array__(self):
        return jnp.asarray(self.x)


@pytest.mark.parametrize(
    "fun",
    [
        jnp.poly, jnp.polyder, jnp.polyint, jnp.roots,
        *(lambda x, f=f: f(x, x) for f in (jnp.polyadd, jnp.polysub, jnp.polymul, jnp.polydiv, jnp.polyval)),
        lambda x: jnp.polyint(x, 3, k=x), lambda x: jnp.polyfit(x, x, 1, w=x),
    ],
)  # fmt: skip
def test_what_converts_to_arrays(fun):
    x = np.float32([1, 3, 2])
    jax.tree.map(np.testing.assert_array_equal, fun(Convertible(x)), fun(jnp.array(x)))


def test_booleans():
    x, y = np.array([True, False, False]), np.array([True])
    np.testing.assert_array_equal(jnp.polyadd(x, y), [True, False, True])


@pytest.mark.parametrize("name", ["polyder", "polyint", "polymul", "polydiv"])
def test_several_polynomials_are_refused(name):
    args = [np.ones((3, 2), np.float32)] * (2 if name in ("polymul", "polydiv") else 1)
    with pytest.raises(ValueError, match=f"{name} requires a vector.*shape \\(3, 2\\).*jax.vmap"):
        getattr(jnp, name)(*args)
    assert jax.vmap(getattr(jnp, name))(*args) is not None


def test_constants_are_no_vectors():
    for fun in (jnp.polyder, jnp.polyint, lambda p: jnp.polyval(p, 2.0)):
        with pytest.raises(TypeError, match=r"vector of coefficients, got a scalar.*atleast_1d"):
            fun(3.0)


def test_value_at_infinity():
    for p in ([1.0, 2.0], [-1.0, 2.0, 0.0], [5.0], [0.0, 0.0]):
        x = np.array([np.inf, -np.inf, np.nan, 2.0], np.float32)
        p = np.array(p, np.float32)
        with np.errstate(invalid="ignore"):
            want = np.polyval(p, x)
        np.testing.assert_array_equal(jnp.polyval(p, x), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_dtypes(dtype):
    """What the reference has no decompositions of."""
    x = jnp.arange(5, dtype=dtype)
    out = jnp.polyfit(x, 2 * x + 1, 1)
    assert out.dtype == dtype
    np.testing.assert_allclose(np.asarray(out, np.float32), [2, 1], atol=1e-2)
    roots = jnp.roots(jnp.array([1, -3, 2], dtype))
    assert roots.dtype == np.complex64
    np.testing.assert_allclose(np.sort(roots.real), [1, 2], rtol=1e-5)
    np.testing.assert_allclose(jnp.poly(jnp.array([[2, 0], [0, 3]], dtype)), [1, -5, 6], rtol=1e-5)


def test_fit_of_integers():
    x = np.arange(5)
    np.testing.assert_allclose(jnp.polyfit(x, x**2, 2), [1, 0, 0], atol=1e-4)
    np.testing.assert_allclose(jnp.polyfit(x > 2, x, 1), np.polyfit(x > 2, x, 1), rtol=1e-5)


def test_fit_where_all_coordinates_are_zero():
    np.testing.assert_allclose(jnp.polyfit(jnp.zeros(3), jnp.arange(3.0), 1), [0, 1], atol=1e-6)


def test_traced_cutoff_of_a_fit():
    x, y = np.arange(5.0), np.array([1.0, 2, 4, 3, 7])
    fit = jax.jit(lambda rcond: jnp.polyfit(x, y, 1, rcond, True))
    assert [fit(r)[2] for r in (1e-3, 0.5)] == [2, 1]


def test_unknown_covariance():
    with pytest.raises(ValueError, match="cov must be True, False or 'unscaled', got 'scaled'"):
        jnp.polyfit(jnp.arange(5.0), jnp.arange(5.0), 1, cov="scaled")


def test_known_orders_in_arrays():
    assert jnp.polyder(jnp.arange(4.0), jnp.array(2)).tolist() == [0, 2]
    assert jnp.polyint(jnp.ones(1), jnp.array(2)).tolist() == [0.5, 0, 0]
    with pytest.raises(jax.errors.ConcretizationTypeError, match="'m' argument of jnp.polyder"):
        jax.jit(jnp.polyder)(jnp.arange(4.0), 2)


def test_order_of_roots():
    """Zeros follow the others, as in NumPy; places of leading zeros follow these."""
    p = np.array([0, 0, 1, -3, 2, 0, 0], np.float32)
    out = jnp.roots(p)
    np.testing.assert_allclose(np.sort(out[:2].real), [1, 2], rtol=1e-5)
    assert out[2:].tolist() == [0, 0]
    for some in (
        jnp.roots(p, strip_zeros=False),
        jax.jit(lambda p: jnp.roots(p, strip_zeros=False))(p),
    ):
        np.testing.assert_allclose(np.sort(some[:2].real), [1, 2], rtol=1e-5)
        assert some[2:4].tolist() == [0, 0] and np.isnan(some[4:]).all()


@pytest.mark.parametrize("strip", [True, False])
@pytest.mark.parametrize("p", [[1, -3, 2], [0, 1, -3, 2, 0], [0, 0, 2, -1, -6, 1]])
def test_derivatives_of_roots(p, strip):
    """A root r moves by -r**k / p'(r) with the coefficient of power k, also beside zeros at the ends."""
    p = np.array(p, np.float32)
    roots = jnp.roots(p, strip_zeros=strip)
    derivative = jax.jacobian(lambda p: jnp.roots(p, strip_zeros=strip).real)(p)
    first = np.flatnonzero(p)[0]
    for r, row in zip(np.asarray(roots.real)[: p.size - 1 - first], derivative):
        want = -(r ** np.arange(p.size - 1, -1, -1)) / np.polyval(np.polyder(p), r)
        np.testing.assert_allclose(row[first:], want[first:], rtol=1e-3, atol=1e-4)


def test_remainder_of_an_exact_division():
    """Coefficients that the division removes are zeros, without the rounding of their product."""
    u = np.float32(np.random.RandomState(0).randn(9))
    _, remainder = jax.jit(jnp.polydiv)(u, np.float32([0.3, 0.7, 0.1]))
    assert remainder[:7].tolist() == [0] * 7
    for q, r in [jnp.polydiv(np.float32([1, 2, 3]), np.float32([0, 1]))]:
        assert not np.isfinite(q).any() and not np.isfinite(r).any()


def test_tracers_cannot_be_trimmed():
    for fun in (jnp.polymul, jnp.polydiv):
        with pytest.raises(jax.errors.ConcretizationTypeError, match="depends on"):
            jax.jit(lambda x, fun=fun: fun(x, x, trim_leading_zeros=True))(jnp.ones(3))
    with pytest.raises(jax.errors.ConcretizationTypeError, match="pass strip_zeros=False"):
        jax.jit(jnp.roots)(jnp.ones(3))


@pytest.mark.parametrize(
    "p", [True, 1, 2.5, 1j, np.int8(2), np.float16(2), np.ones((2, 2), "f"), [True]]
)
def test_no_derivative_and_no_integral_are_the_polynomial(p):
    """Of any shape; weakly typed as operands of a sum are, with the constants of integration."""
    m = np.int64(0)
    p = jnp.asarray(p) if isinstance(p, list) else p
    want = p + jnp.zeros((), bool) if isinstance(p, (bool, list)) else jnp.asarray(p)
    with_constant = p + jnp.asarray(2.5)
    for out, like in ((jnp.polyder(p, m), want), (jnp.polyint(p, m, 2.5), with_constant)):
        inexact = jnp.result_type(like, 1.0)
        assert (out.dtype, out.shape) == (inexact, np.shape(p))
        assert out.weak_type == like.weak_type
        np.testing.assert_array_equal(out, np.asarray(p))
    assert jnp.polyint(p, m).dtype == jnp.polyder(p, m).dtype


def test_no_integral_takes_constants_into_account_for_the_dtype():
    weak = jnp.asarray(2)
    assert jnp.polyint(weak, 0).weak_type and jnp.polyint(True, 0).weak_type
    assert not jnp.polyint(weak, 0, jnp.array([1], jnp.int8)).weak_type
    assert jnp.polyint(jnp.float16(1), 0, 1j).dtype == np.complex64
