"""`jax.scipy.{ndimage,interpolate,integrate,cluster.vq}`, compared with the reference build and SciPy."""

import numpy as np
import pytest
import scipy.interpolate
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax.scipy.cluster.vq import vq
from jax.scipy.interpolate import RegularGridInterpolator
from jax.scipy.ndimage import map_coordinates

reference, test_reference, test_numpy = case_tests(__file__)

GRID = np.float32([0, 1, 3]), np.float32([0, 2, 4, 5])
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) ** 2


@pytest.mark.parametrize(
    "same", [("grid-constant", "constant"), ("grid-wrap", "wrap"), ("grid-mirror", "reflect")]
)
def test_modes_of_the_same_meaning(same):
    c = [np.float32([-4.2, -0.3, 1.7, 2.2, 6.6])]
    first, second = (map_coordinates(GRID[1], c, 1, mode) for mode in same)
    np.testing.assert_array_equal(first, second)


def test_boundary_value_may_be_traced():
    fun = lambda cval: map_coordinates(GRID[1], [np.float32([-0.25, 9.0])], 1, cval=cval)
    np.testing.assert_allclose(jax.jacobian(fun)(2.0), [0.25, 1.0])


def test_descending_points():
    points = np.float32([[0.5, 1], [2, 4.5], [1, 2]])
    descending = RegularGridInterpolator((GRID[0][::-1], GRID[1]), TABLE)(points)
    want = scipy.interpolate.RegularGridInterpolator((GRID[0][::-1], GRID[1]), TABLE)(points)
    np.testing.assert_allclose(descending, want, rtol=1e-6)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_grids_of_one_point_and_nan(method):
    f = RegularGridInterpolator((jnp.array([1.0]),), jnp.array([5.0]), method)
    np.testing.assert_array_equal(f(jnp.array([1.0, 2.0, np.nan])), [5.0, np.nan, np.nan])


def test_lists():
    f = RegularGridInterpolator(([0, 1], [0.0, 2.0]), [[0, 2], [1, 3]])
    np.testing.assert_allclose(f([[0.5, 1.0], [1, 0]]), [1.5, 1.0])


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda: RegularGridInterpolator(GRID, TABLE[:2]),
            "3 points in dimension 0, but values has size 2",
        ),
        (
            lambda: RegularGridInterpolator((GRID[0][[0, 2, 1]],), TABLE),
            "strictly ascending or descending",
        ),
        (
            lambda: map_coordinates(TABLE, GRID, 1, cval=GRID[0]),
            r"cval must be a number, got shape \(3,\)",
        ),
        (lambda: vq(TABLE, TABLE[:, :2]), "same number of columns"),
    ],
)
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("points", [[0, 1, 1, 2], [0, 2, 1, 3], [3, 2, 2, 1], [0, 0, 0, 0]])
def test_points_that_are_not_strictly_monotonic(points):
    """SciPy refuses them, too; the reference interpolates between some of them and gives NaN."""
    for make in (RegularGridInterpolator, scipy.interpolate.RegularGridInterpolator):
        with pytest.raises(ValueError, match="must be strictly ascending or descending"):
            make((np.float32(points),), GRID[1])


def test_interpolators_are_pytrees():
    f = RegularGridInterpolator((jnp.arange(3.0),), jnp.arange(3.0) ** 2)
    x = jnp.array([0.5])
    np.testing.assert_array_equal(jax.jit(lambda f, x: f(x))(f, x), [0.5])
    gradient = jax.grad(lambda f: f(x)[0])(f)
    np.testing.assert_array_equal(gradient.values, [0.5, 0.5, 0])
    assert [np.shape(leaf) for leaf in jax.tree.leaves(f)] == [(3,), (3,), ()]
    stack = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), f)
    np.testing.assert_array_equal(jax.vmap(lambda f: f(jnp.array([1.0])))(stack), [[1], [1]])
    doubled = jax.tree.map(lambda a: 2 * a, f)
    assert (doubled.method, doubled.bounds_error) == ("linear", False)
