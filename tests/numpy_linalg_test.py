"""`jax.numpy.linalg`, compared with the reference build."""

import numpy as np
from op_testing import case_tests

import jax
import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__)


def test_memory_of_long_matrices():
    # What is long in one dimension needs no matrix that is long in both: that would have 100 GB.
    x = np.random.RandomState(0).randn(2, 160_000).astype(np.float32)
    for fun in (
        jnp.linalg.pinv,
        lambda x: jnp.linalg.lstsq(x, np.ones(len(x), x.dtype))[0],
        lambda x: jnp.linalg.svd(x, full_matrices=False),
        jnp.linalg.cond,
    ):
        for a in (x, x.T):
            out, vjp = jax.vjp(fun, a)
            (grad,) = vjp(out)
            assert np.isfinite(grad).all()
    assert jnp.linalg.matrix_rank(x) == jnp.linalg.matrix_rank(x.T) == 2
    np.testing.assert_allclose(x @ jnp.linalg.pinv(x), np.eye(2), atol=1e-5)


def test_signs_of_the_svd_of_hermitian_matrices_are_those_of_numpy():
    x = np.random.RandomState(0).randn(2, 3, 3)
    x = x + x.swapaxes(1, 2)
    assert (np.linalg.eigvalsh(x) < 0).any()
    with jax.enable_x64(True):
        for ours, numpys in zip(*[m.linalg.svd(x, hermitian=True) for m in (jnp, np)]):
            np.testing.assert_allclose(ours, numpys, rtol=1e-9)
