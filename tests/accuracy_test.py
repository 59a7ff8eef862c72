"""The errors of elementary functions at the points of benchmarks/accuracy_reference.npz.

The bounds are above the measured errors, in units of the last place, by a half of them or less; see
docs/accuracy.md.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import jax
import jax.numpy as jnp

FOLDER = Path(__file__).absolute().parent.parent / "benchmarks"
SPEC = importlib.util.spec_from_file_location("accuracy", FOLDER / "accuracy.py")
accuracy = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(accuracy)

BOUNDS = {
    "exp2": {"float32": 0.9, "float64": 1.3},
    "cbrt": {"float32": 1.1, "float64": 3},
    "sinc": {"float32": 2.5, "float64": 2},
    "expm1": {"float32": 3, "float64": 1.8, "complex64": 4, "complex128": 2.5},
    "sin": {"float32": 0.7, "float64": 0.7, "complex64": 2.6, "complex128": 4.5},
}


@pytest.mark.parametrize("name", BOUNDS)
def test_errors(name):
    reference = np.load(accuracy.REFERENCE)
    for dtype, bound in BOUNDS[name].items():
        key = f"{name}:{dtype}"
        with jax.enable_x64(dtype in ("float64", "complex128")):
            out = np.asarray(jax.jit(getattr(jnp, name))(*reference[f"{key}:arguments"]))
        assert out.dtype == dtype
        error = accuracy.smallest_errors(out[None], reference, key)
        assert error.max() < bound


def test_cosine_is_finite_where_the_hyperbolic_one_is_not():
    z = np.array([np.pi / 2 + 89j, -89j, 1.5 + 89j], np.complex64)
    exact = np.cos(z.astype(np.complex128)).astype(np.complex64)
    np.testing.assert_allclose(jax.jit(jnp.cos)(z), exact, rtol=1e-6)
    assert jnp.cos(np.complex64(-95j)) == complex(np.inf, 0)


def test_power_of_two_is_exact_at_integers():
    with jax.enable_x64(True):
        for dtype in (np.float32, np.float64):
            info = np.finfo(dtype)
            n = np.arange(info.minexp, info.maxexp, dtype=dtype)
            np.testing.assert_array_equal(jnp.exp2(n), np.exp2(n), strict=True)
            limits = np.array([-np.inf, np.inf, np.nan, info.maxexp, 2 * info.minexp], dtype)
            np.testing.assert_array_equal(jnp.exp2(limits), [0, np.inf, np.nan, np.inf, 0])


def test_sinc_is_zero_at_integers_with_any_derivative():
    x = jnp.array([1.0, 2.0, -3.0])
    np.testing.assert_array_equal(jnp.sinc(x), 0)
    np.testing.assert_allclose(jax.vmap(jax.grad(jnp.sinc))(x), [-1, 0.5, 1 / 3], rtol=1e-6)
    second = jax.vmap(jax.grad(jax.grad(jnp.sinc)))(x)
    np.testing.assert_allclose(second, [2, -0.5, 2 / 9], rtol=1e-6)
