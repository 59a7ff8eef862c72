"""`jnp.linalg.solve` and `inv` of many small matrices, which do not call LAPACK."""

import numpy as np
import pytest

import jax
from jax import numpy as jnp

COUNT = 1024
DTYPES = ("float32", "float64", "complex64", "complex128")


def draw(random, shape, dtype):
    x = random.standard_normal(shape)
    return (x + 1j * random.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def backward_errors(a, x, b):
    a, x, b = (np.asarray(v, np.complex128) for v in (a, x, b))
    sizes = [np.abs(v).max((1, 2)) for v in (a @ x - b, a, x, b)]
    return sizes[0] / (sizes[1] * sizes[2] + sizes[3])


def by_lapack(a, b):
    """Solves fewer systems at once than are solved without LAPACK."""
    half = a.shape[0] // 2
    return np.concatenate([jnp.linalg.solve(a[s], b[s]) for s in (np.s_[:half], np.s_[half:])])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_solutions(n, dtype):
    """The residuals are as small as LAPACK's, also with batches of two dimensions."""
    random = np.random.default_rng(n)
    with jax.enable_x64(True):
        a, b = draw(random, (COUNT, n, n), dtype), draw(random, (COUNT, n, 1), dtype)
        x = jnp.linalg.solve(a, b)
        assert x.dtype == dtype and "lu" not in str(jax.make_jaxpr(jnp.linalg.solve)(a, b))
        errors, theirs = backward_errors(a, x, b), backward_errors(a, by_lapack(a, b), b)
        eps = np.finfo(dtype).eps
        assert errors.mean() <= theirs.mean() * 1.1 and errors.max() < 4 * n * eps
        inverse = jnp.linalg.inv(a.reshape(2, COUNT // 2, n, n)).reshape(a.shape)
        identity = np.broadcast_to(np.eye(n), a.shape)
        assert backward_errors(a, inverse, identity).max() < 4 * n * eps


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_singular_matrices(dtype):
    """Infinities and NaNs are where LAPACK's pivots lead to them."""
    random = np.random.default_rng(0)
    with jax.enable_x64(True):
        a = random.integers(-1, 2, (COUNT, 3, 3)).astype(dtype)
        b = random.integers(-1, 2, (COUNT, 3, 2)).astype(dtype)
        found, expected = np.asarray(jnp.linalg.solve(a, b)), by_lapack(a, b)
        assert not np.isfinite(expected).all((1, 2)).all()
        if dtype[0] == "c":
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
        a[np.arange(COUNT), random.integers(0, 3, COUNT), random.integers(0, 3, COUNT)] = np.nan
        assert np.isnan(jnp.linalg.solve(a, b)).any((1, 2)).all()


def test_transformations():
    random = np.random.default_rng(1)
    a, b = draw(random, (COUNT, 3, 3), "float32"), draw(random, (3, 2), "float32")
    a += 4 * np.eye(3, dtype=np.float32)
    ones = np.ones_like(a)
    x, dx = jax.jvp(lambda a: jnp.linalg.solve(a, b), (a,), (ones,))
    y, dy = jax.vmap(lambda a, t: jax.jvp(lambda a: jnp.linalg.solve(a, b), (a,), (t,)))(a, ones)
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dx, dy, rtol=1e-4, atol=1e-5)
    gradient = jax.grad(lambda a: jnp.linalg.inv(a).sum())(a)
    inverse = np.linalg.inv(a)
    expected = -np.swapaxes(inverse @ np.ones((3, 3)) @ inverse, 1, 2)
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(x, inverse @ b, rtol=1e-4, atol=1e-5)
