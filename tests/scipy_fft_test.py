"""`jax.scipy.fft`, compared with the reference build and SciPy."""

import numpy as np
import pytest
import scipy.fft
from op_testing import case_tests

import jax
import jax.numpy as jnp
import jax.scipy.fft as fft

reference, test_reference, test_numpy = case_tests(__file__)


@pytest.mark.parametrize("name", ["dct", "idct", "dctn", "idctn"])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_types_that_the_reference_does_not_have(name, norm):
    x = np.random.RandomState(0).randn(4, 5)
    fun = jax.jit(lambda x: [getattr(fft, name)(x, type=t, norm=norm) for t in (1, 2, 3, 4)])
    with jax.enable_x64(True):
        double = fun(x)
    for t, y, z in zip((1, 2, 3, 4), double, fun(x.astype(np.float32))):
        want = getattr(scipy.fft, name)(x, type=t, norm=norm)
        np.testing.assert_allclose(y, want, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(z, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_inverse(kind):
    x = jnp.array([0.3, -2.0, 1.0, 4.0, 0.5])
    np.testing.assert_allclose(fft.idct(fft.dct(x, kind), kind), x, atol=1e-6)


def test_factors_that_are_not_constants():
    n = (1 << 15) + 2
    x = np.random.RandomState(0).randn(n).astype(np.float32)
    for fun, want in ((fft.dct, scipy.fft.dct), (fft.idct, scipy.fft.idct)):
        y = fun(x, norm="ortho")
        np.testing.assert_allclose(y, want(x.astype(float), norm="ortho"), atol=5e-6)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda x: fft.dct(x, 5), "type must be 1, 2, 3 or 4, got 5"),
        (
            lambda x: fft.dct(x, 1, n=1),
            r"at least 2 elements, got 1 along axis 1 of shape \(3, 4\)",
        ),
        (lambda x: fft.dctn(x, s=(1, 2, 3)), "more sizes than x"),
        (lambda x: fft.dctn(x, s=(1, 2), axes=0), "s and axes must have the same length"),
        (lambda x: fft.idct(x, norm="up"), "It must be None, 'backward', 'ortho'"),
    ],
)
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call(np.ones((3, 4)))
