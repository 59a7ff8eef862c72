"""The cases in numpy_arguments_cases.py against the reference build; files; what we accept beyond it."""

import io

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64"])
def test_save_and_load(dtype):
    x = jnp.arange(4).astype(dtype)
    file = io.BytesIO()
    jnp.save(file, x)
    file.seek(0)
    out = jnp.load(file)
    assert isinstance(out, jnp.ndarray) and out.dtype == dtype
    np.testing.assert_array_equal(out, x)


def test_load_what_is_no_jax_array():
    file = io.BytesIO()
    jnp.save(file, jnp.arange(3).astype("float8_e4m3fn"))
    file.seek(0)
    out = jnp.load(file)
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out.view("float8_e4m3fn").astype(int), [0, 1, 2])


def test_vectorized_function_gets_keywords():
    f = jnp.vectorize(lambda a, *, b=2: a * b)
    np.testing.assert_array_equal(f(jnp.arange(3), b=3), [0, 3, 6])


def test_known_masks_of_traced_arrays():
    x, mask = np.arange(12.0).reshape(3, 4), np.array([True, False, True])
    rows = jax.jit(lambda x: jnp.compress(mask, x, axis=0))(x)
    np.testing.assert_array_equal(rows, x[mask])
    np.testing.assert_array_equal(jax.jit(lambda x: jnp.extract(x_large, x))(x), x[x_large])
    with pytest.raises(jax.errors.NonConcreteBooleanIndexError):
        jax.jit(lambda m: jnp.compress(m, x, axis=0))(mask)


x_large = np.arange(12).reshape(3, 4) > 6


def test_device_is_no_name():
    with pytest.raises(TypeError, match="zeros: device must be a jax.Device"):
        jnp.zeros(3, device="cpu")


def test_bounds_of_geomspace_are_exact():
    out = jnp.geomspace(3.0, 7.0, 5)
    assert out[0] == 3 and out[-1] == 7
    assert jnp.geomspace(1, 1000, 4, dtype=int).tolist()[-1] == 1000


def test_cumulative_booleans_of_fractions():
    for values in ([0.5, 0.25, 0.0], [0.0, 0.5, np.nan]):
        x = np.array(values, np.float32)
        for name in ("cumsum", "cumprod"):
            out, want = (getattr(module, name)(x, dtype=bool) for module in (jnp, np))
            np.testing.assert_array_equal(out, want, strict=True)


def test_frequencies_need_an_integer():
    with pytest.raises(ValueError, match=r"fftfreq only takes an int. Got n = 2.5"):
        jnp.fft.fftfreq(2.5)


def test_reshape_of_numpy_arrays():
    x = np.arange(6.0).reshape(2, 3)
    results = []

    @jax.jit
    def reshaped():
        results.extend([jnp.reshape(x, (3, -1)), jnp.reshape(x, -1, order="F")])
        results.extend([jnp.reshape(x, 6, copy=True), jnp.reshape(np.bool_(True), (1,))])
        assert results[3].all()  # a value, also where a function is traced
        return results[0]

    assert isinstance(reshaped(), jax.Array)
    for out, expected in zip(results, [x.reshape(3, 2), x.T.ravel(), x.ravel(), [True]]):
        assert type(out) is np.ndarray
        np.testing.assert_array_equal(out, expected)
    assert np.may_share_memory(results[0], x) and not np.may_share_memory(results[2], x)
    with pytest.raises(ValueError, match="size 6"):
        jnp.reshape(x, (4, 2))
