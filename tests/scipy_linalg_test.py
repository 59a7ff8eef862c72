"""`jax.scipy.linalg`, compared with the reference build."""

import numpy as np
from op_testing import case_tests

import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg
from jax import test_util

reference, test_reference, test_numpy = case_tests(__file__)


def test_derivatives_of_rsf2csf():
    form = np.array([[0.5, -2.0, 0.3], [1.0, 0.5, -0.7], [0.0, 0.0, 1.5]])
    mask = form != 0  # what is zero in a Schur form stays so
    with jax.enable_x64(True):
        parts = lambda T: jnp.stack(
            [f(x) for x in linalg.rsf2csf(T * mask, np.eye(3)) for f in (jnp.real, jnp.imag)]
        )
        test_util.check_grads(parts, (form,), 1, modes=("fwd", "rev"), rtol=1e-4, atol=1e-5)
        # Where nothing is turned there is nothing to differentiate but the copy.
        out, vjp = jax.vjp(parts, np.triu(form))
        (grad,) = vjp(jnp.ones_like(out))
    np.testing.assert_array_equal(np.triu(grad), np.triu(np.ones((3, 3))))
    assert np.isfinite(grad).all()


def test_many_triangles_for_one_matrix():
    triangle = np.array([[2.0, 0.5, -1.0], [0.0, 1.5, 0.3], [0.0, 0.0, 3.0]], np.float32)
    b = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]], np.float32)
    many = np.stack([triangle, 2 * triangle])
    for solve in (
        lambda a, b: linalg.cho_solve((a, False), b),
        linalg.solve_triangular,
        lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b),
    ):
        each = np.stack([solve(a, b) for a in many])
        np.testing.assert_allclose(solve(many, b), each, rtol=1e-5)
        gradient = jax.grad(lambda b: solve(many, b).sum())(b)
        expected = sum(jax.grad(lambda b, a=a: solve(a, b).sum())(b) for a in many)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_expm_keeps_single_precision_where_double_is_enabled():
    with jax.enable_x64(True):
        out = linalg.expm(np.diag(np.arange(3, dtype=np.float32)))
    assert out.dtype == np.float32
    np.testing.assert_allclose(np.diagonal(out), np.exp(np.arange(3)), rtol=1e-6)


def test_schur_returns_a_list():
    assert jax.tree.structure(linalg.schur(np.eye(2))) == jax.tree.structure([0, 0])


def test_empty_matrices():
    """PyPI's build raises errors for functions of them, and returns zeros as permutations."""
    assert linalg.sqrtm(np.zeros((2, 0, 0))).shape == (2, 0, 0)
    assert linalg.funm(np.zeros((0, 0)), jnp.sin).shape == (0, 0)
    _, _, permutation = linalg.qr(np.zeros((0, 3)), pivoting=True)
    np.testing.assert_array_equal(permutation, np.arange(3))
