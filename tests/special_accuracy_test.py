"""The errors of special functions at the points of benchmarks/accuracy_reference.npz, and at seams of their methods.

The bounds are above the measured errors, in units of the last place, by a half of them or less; see docs/accuracy.md.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import jax
import jax.scipy.special
from jax.scipy import special

# Errors are those of the code that users run.
pytestmark = pytest.mark.usefixtures("fusion_emitters")

FOLDER = Path(__file__).absolute().parent.parent / "benchmarks"
SPEC = importlib.util.spec_from_file_location("accuracy", FOLDER / "accuracy.py")
accuracy = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(accuracy)

BOUNDS = {
    "beta": (4.8, 8),
    "betainc": (3.2, 4.5),
    "comb": (4, 0.5),
    "erfc": (5.5, 3.7),
    "erfcx": (3.5, 7),
    "erfinv": (5, 4.5),
    "gammainc": (5.1, 2.8),  # 2.6 in float32 of parameters below 1e6
    "gammaincc": (5, 3.4),
    "hyp1f1": (1.8, 1.5),
    "ndtr": (2.6, 3.2),
    "ndtri": (3.5, 3),
    "poch": (8.5, 6),
}


@pytest.fixture(scope="module")
def reference():
    with np.load(accuracy.REFERENCE) as file:
        yield file


@pytest.mark.parametrize("name", BOUNDS)
def test_errors(name, reference):
    for dtype, bound in zip(("float32", "float64"), BOUNDS[name]):
        key = f"{name}:{dtype}"
        with jax.enable_x64(dtype == "float64"):
            function = getattr(jax.scipy.special, name)
            out = np.asarray(jax.jit(function)(*reference[f"{key}:arguments"]))
        assert out.dtype == dtype
        assert accuracy.smallest_errors(out[None], reference, key).max() < bound


def ratios_around(places):
    """Numbers next to places, and between them."""
    steps = 1 + np.array([-1e-2, -1e-4, -1e-6, 0, 1e-6, 1e-4, 1e-2])
    return (np.asarray(places)[:, None] * steps).ravel()


# Where the exponent's methods change: at parameters 3, and at powers of two times the root of two
SEAMS = ratios_around([0.5, 1, 3, 20])
RATIOS = ratios_around([2**-2.5, 0.5**0.5, 1, 2**0.5, 2**1.5])


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float64", 1e-13)])
def test_incomplete_gamma_functions_at_seams(dtype, tolerance):
    a, ratio = (v.ravel().astype(dtype) for v in np.meshgrid(SEAMS, RATIOS))
    x = a * ratio
    with jax.enable_x64(dtype == "float64"):
        for name in ("gammainc", "gammaincc"):  # SciPy's errors are up to 5e-14
            out = jax.jit(getattr(jax.scipy.special, name))(a, x)
            exact = getattr(scipy.special, name)(a.astype(float), x.astype(float))
            np.testing.assert_allclose(out, exact, rtol=tolerance)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("float64", 1e-14)])
def test_incomplete_beta_function_at_seams(dtype, tolerance):
    a, b, ratio = np.meshgrid(SEAMS, SEAMS, RATIOS)
    a, b, x = (v.ravel().astype(dtype) for v in (a, b, np.minimum(ratio * a / (a + b), 0.999)))
    with jax.enable_x64(dtype == "float64"):
        out = jax.jit(jax.scipy.special.betainc)(a, b, x)
        exact = scipy.special.betainc(a.astype(float), b.astype(float), x.astype(float))
        np.testing.assert_allclose(out, exact, rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_largest_and_smallest_parameters(dtype):
    info = np.finfo(dtype)
    with jax.enable_x64(dtype == "float64"):
        a = np.array([info.max, 1e-20, 3, 1e-20, 0.5], dtype)
        x = np.array([2, info.max, info.max, 0.5, info.tiny], dtype)
        exact = [0, 1, 1, 1, 2 * np.sqrt(float(info.tiny) / np.pi)]
        np.testing.assert_allclose(jax.scipy.special.gammainc(a, x), exact, rtol=1e-6)
        a = np.array([0.5, 0.5, 1e30, 2], dtype)
        b = np.array([0.5, 1, 2, 1e30], dtype)
        x = np.array([info.tiny, info.tiny, 0.5, 0.5], dtype)
        exact = scipy.special.betainc(*(v.astype(float) for v in (a, b, x)))
        np.testing.assert_allclose(jax.scipy.special.betainc(a, b, x), exact, rtol=1e-6)


def test_normal_distribution_next_to_its_center():
    # What is rounded twice here makes 2 - 2 * ndtr(x) of small x, as in distributions' tails, worse by far.
    x = np.float32([-0.3, *np.linspace(-0.1, 0.1, 201), 0.5])
    out = np.asarray(jax.scipy.special.ndtr(x))
    exact = scipy.special.ndtr(x.astype(np.float64))
    assert (abs(out - exact) / np.spacing(np.float32(exact))).max() < 0.75


def test_quantiles_at_the_ends():
    inf, nan = np.inf, np.nan
    x = np.array([-1, 1, 1.5, -2, nan, inf, 0], np.float32)
    exact = [-inf, inf, nan, nan, nan, nan, 0]
    np.testing.assert_array_equal(jax.jit(jax.scipy.special.erfinv)(x), exact)
    p = np.array([0, 1, 1.5, -2, nan, inf, 0.5], np.float32)
    np.testing.assert_array_equal(jax.jit(jax.scipy.special.ndtri)(p), exact)


def test_incomplete_gamma_functions_of_the_largest_numbers():
    x = np.array([1e30, 3e38, 2.0, 1e30], np.float32)
    a = np.array([1e30, 3e38, 1e38, 1e29], np.float32)
    np.testing.assert_allclose(jax.jit(special.gammainc)(a, x), [0.5, 0.5, 0, 1], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(special.gammaincc)(a, x), [0.5, 0.5, 1, 0], rtol=1e-6)


def test_owens_function_of_large_numbers():
    h, a = np.array([1e30, 1e-10, -20.5, 0, 1e30], np.float32), np.array([-3, 1e30, 1e30, 2, 1e30], np.float32)  # fmt: skip
    expected = scipy.special.owens_t(h.astype(float), a.astype(float))
    np.testing.assert_allclose(jax.jit(special.owens_t)(h, a), expected, rtol=1e-6, atol=1e-30)


def test_beta_of_a_large_and_a_negative_number():
    a = np.array([1e10, -1.5, -2.3, -0.5, -0.001, 1e20], np.float32)
    b = np.array([-0.9, 500, 1e4, 200, 1e30, -1.0001], np.float32)
    expected = scipy.special.beta(a.astype(float), b.astype(float))
    np.testing.assert_allclose(jax.jit(special.beta)(a, b), expected, rtol=2e-6)
