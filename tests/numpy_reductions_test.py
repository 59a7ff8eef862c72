"""The cases in numpy_reductions_cases.py against the reference build and NumPy; what it lacks against itself."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__)
X = np.arange(-5.0, 13, dtype=np.float32).reshape(2, 3, 3)


@pytest.mark.parametrize("name", "prod any all nanmax nanmin average".split())
def test_mapped_axes_the_reference_does_not_reduce(name):
    op = getattr(jnp, name)
    out = jax.vmap(lambda x: op(x, axis=("i", 1)), axis_name="i", out_axes=None)(X)
    np.testing.assert_allclose(out, op(X, axis=(0, 2)), rtol=1e-6)


@pytest.mark.parametrize("name", "nansum nanmean nanstd count_nonzero median nanmedian".split())
def test_lists_of_axes(name):
    op = getattr(jnp, name)
    np.testing.assert_array_equal(op(X, axis=[0, 2]), op(X, axis=(0, 2)))


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_axis_out_of_range(name):
    with pytest.raises(ValueError, match="axis 3 is out of bounds for array of dimension 3"):
        getattr(jnp, name)(X, axis=3)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_quantiles_of_empty_batches(dtype):
    x = np.zeros((0, 3), dtype)
    for name in ("median", "nanmedian"):
        out = getattr(jnp, name)(x, axis=1, keepdims=True)
        assert (out.shape, out.dtype) == ((0, 1), np.float32)
    for name in ("quantile", "nanquantile"):
        for method in ("linear", "inverted_cdf"):
            weights = np.ones(3, np.float32) if method == "inverted_cdf" else None
            out = getattr(jnp, name)(
                x, np.array([0.1, 0.5]), axis=1, method=method, weights=weights
            )
            assert (out.shape, out.dtype) == ((2, 0), np.float32)


def test_quantiles_of_scalars_and_of_nothing():
    """A scalar has no axis to keep, as in NumPy; quantiles of nothing are NaN, as `nanquantile`'s there."""
    for name in ("quantile", "nanquantile"):
        for q in (0.5, np.array([0.1, 0.5], np.float32)):
            out = getattr(jnp, name)(np.float32(2.5), q, keepdims=True)
            assert out.shape == np.shape(q) and (out == 2.5).all()
            out = getattr(jnp, name)(np.zeros((0, 3), np.int8), q, axis=0)
            assert out.shape == (*np.shape(q), 3) and jnp.isnan(out).all()


@pytest.mark.parametrize(
    "dtype, weights_dtype, expected",
    [
        ("float16", "float32", "float32"),
        ("bfloat16", "float16", "float32"),
        ("float32", "float16", "float32"),
        ("int8", "float16", "float16"),
        ("int8", "int32", "float32"),
        ("float16", "int32", "float16"),
    ],
)
def test_weights_promote_quantiles(dtype, weights_dtype, expected):
    x, weights = jnp.arange(4).astype(dtype), jnp.array([1, 1, 0, 1], weights_dtype)
    for name in ("quantile", "nanquantile"):
        out = getattr(jnp, name)(x, jnp.float16(0.6), weights=weights, method="inverted_cdf")
        assert out.dtype == expected and out == 1
