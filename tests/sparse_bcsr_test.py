"""BCSR arrays: products, conversions and their derivatives beside dense arrays."""

import functools

import numpy as np
from absl.testing import absltest, parameterized

import jax
import jax.numpy as jnp
from jax._src import test_util as jtu
from jax.experimental import sparse

jax.config.parse_flags_with_absl()

# Name, shape, n_batch, n_dense, and stored elements beside those that are not zero.
_LAYOUTS = [
    ("matrix", (3, 4), 0, 0, 0),
    ("padded", (3, 4), 0, 0, 3),
    ("batched", (2, 3, 4), 1, 0, 2),
    ("dense", (3, 4, 2), 0, 1, 1),
    ("batched_dense", (2, 3, 4, 2), 1, 1, 1),
    ("no_rows", (0, 4), 0, 0, 2),
    ("no_columns", (3, 0), 0, 0, 0),
]


def _array(shape, dtype=np.float32):
    rng = np.random.default_rng(sum(shape))
    return (rng.integers(-4, 5, shape) * (rng.random(shape) < 0.5)).astype(dtype)


class BCSRTest(jtu.JaxTestCase):
    @parameterized.named_parameters(*_LAYOUTS)
    def test_conversions(self, shape, n_batch, n_dense, padding):
        x = _array(shape)
        M = sparse.BCSR.fromdense(x, n_batch=n_batch, n_dense=n_dense)
        layout = dict(nse=M.nse + padding, n_batch=n_batch, n_dense=n_dense)
        M = sparse.BCSR.fromdense(x, **layout)
        self.assertEqual((M.n_batch, M.n_dense, M.nse), (n_batch, n_dense, layout["nse"]))

        @jax.jit
        def everything(M, x):
            bcoo = M.to_bcoo()
            again = sparse.bcsr_extract(M.indices, M.indptr, x)
            summed = M.sum_duplicates(nse=M.nse).todense()
            back = sparse.BCSR.from_bcoo(bcoo)
            return M.todense(), bcoo.todense(), back.todense(), summed, again

        *dense, again = everything(M, x)
        for y in dense:
            self.assertArraysEqual(y, jnp.asarray(x))
        self.assertArraysEqual(again, M.data)

    @parameterized.named_parameters(*_LAYOUTS)
    def test_derivatives(self, shape, n_batch, n_dense, padding):
        x = _array(shape)
        M = sparse.BCSR.fromdense(x, n_batch=n_batch, n_dense=n_dense)
        layout = dict(nse=M.nse + padding, n_batch=n_batch, n_dense=n_dense)
        M = sparse.BCSR.fromdense(x, **layout)
        stored = jnp.asarray(x != 0)
        if n_dense:
            stored = jnp.broadcast_to(stored.any(-1, keepdims=True), shape)
        t = jnp.arange(1.0, x.size + 1).reshape(shape)
        there = lambda y: sparse.BCSR.fromdense(y, **layout).todense()
        out, tangent = jax.jvp(there, (x,), (t,))
        self.assertArraysEqual(out, jnp.asarray(x))
        self.assertArraysEqual(tangent, jnp.where(stored, t, 0))
        (back,) = jax.vjp(there, x)[1](t)
        self.assertArraysEqual(back, jnp.where(stored, t, 0))
        mapped = jax.vmap(there)(jnp.stack([x, 2 * x]))
        self.assertArraysEqual(mapped, jnp.stack([x, 2 * x]))

    @parameterized.parameters(np.float32, np.int32, np.complex64, jnp.bfloat16)
    def test_products(self, dtype):
        x, y = _array((2, 3, 4), dtype), _array((2, 4, 5), dtype)
        M = sparse.BCSR.fromdense(x, n_batch=1)
        one = sparse.BCSR.fromdense(x[0])
        transposed = functools.partial(
            sparse.bcsr_dot_general, dimension_numbers=(((0,), (0,)), ((), ()))
        )
        out = jax.jit(
            lambda M, one, y: (
                M @ y,
                jax.vmap(lambda m, v: m @ v)(M, y),
                one @ y[0],
                one @ y[0, :, 0],
                transposed(one, y[0, :3]),
                jax.vmap(lambda v: one @ v, 1, 1)(y[0]),
            )
        )(M, one, y)
        expected = [x @ y, x @ y, x[0] @ y[0], x[0] @ y[0, :, 0], x[0].T @ y[0, :3]]
        for a, b in zip(out[:5], expected[:5]):
            # NumPy multiplies bfloat16 in float32; the sums are small integers, which both represent.
            self.assertArraysEqual(a, jnp.asarray(b, dtype))
        self.assertArraysEqual(out[5], out[2])

    def test_gradients_of_products(self):
        x, v = _array((3, 4)), _array((4,)) + 1
        M = sparse.BCSR.fromdense(x, nse=8)
        f = lambda data, v: sparse.BCSR((data, M.indices, M.indptr), shape=M.shape) @ v
        ct = jnp.array([1.0, 2.0, 3.0])
        of_data, of_v = jax.vjp(f, M.data, v)[1](ct)
        dense = jnp.outer(ct, v)
        self.assertArraysEqual(of_data, sparse.bcsr_extract(M.indices, M.indptr, dense))
        self.assertArraysEqual(of_v, x.T @ ct)
        jtu.check_grads(f, (M.data, v), order=2, rtol=1e-2, atol=1e-2)
        grad = sparse.grad(lambda M: (M @ v).sum())(M)
        self.assertIsInstance(grad, sparse.BCSR)

    def test_shapes(self):
        x = _array((3, 4))
        M = sparse.BCSR.fromdense(x)
        wide = sparse.bcsr_broadcast_in_dim(M, shape=(2, 3, 4), broadcast_dimensions=(1, 2))
        self.assertArraysEqual(wide.todense(), jnp.stack([x, x]))
        for axis in (0, 1):
            joined = sparse.bcsr_concatenate([M, M], dimension=axis)
            self.assertArraysEqual(joined.todense(), jnp.concatenate([x, x], axis))
        self.assertEqual(M[None].shape, (1, 3, 4))
        self.assertArraysEqual(M[:].todense(), jnp.asarray(x))
        eye = sparse.eye(3, 4, k=1, sparse_format="bcsr")
        self.assertArraysEqual(eye.todense(), jnp.eye(3, 4, k=1))
        self.assertArraysEqual(
            sparse.empty((2, 3), sparse_format="bcsr").todense(), jnp.zeros((2, 3))
        )

    def test_duplicates(self):
        buffers = jnp.array([1.0, 2, 3, 0]), jnp.array([1, 1, 0, 2]), jnp.array([0, 3, 4])
        M = sparse.BCSR(buffers, shape=(2, 3))
        # The oracle's answers.
        summed = M.sum_duplicates()
        self.assertEqual((summed.indices.tolist(), summed.indptr.tolist()), ([0, 1], [0, 2, 2]))
        kept = M.sum_duplicates(remove_zeros=False)
        self.assertEqual((kept.data.tolist(), kept.indptr.tolist()), ([3, 3, 0], [0, 2, 3]))

    def test_errors(self):
        M = sparse.BCSR.fromdense(jnp.eye(2))
        with self.assertRaisesRegex(NotImplementedError, "Transpose is not implemented"):
            _ = M.T
        with self.assertRaisesRegex(NotImplementedError, "BCSR lhs and ndarray rhs"):
            _ = M @ M
        with self.assertRaisesRegex(NotImplementedError, "BCSR lhs and ndarray rhs"):
            _ = jnp.ones((2, 2)) @ M
        with self.assertRaisesRegex(ValueError, "2 sparse dimensions"):
            sparse.BCSR.fromdense(jnp.ones(3))
        with self.assertRaisesRegex(ValueError, "indptr shape"):
            sparse.BCSR((jnp.ones(1), jnp.array([0]), jnp.array([0, 1])), shape=(2, 2))
        with self.assertRaisesRegex(NotImplementedError, "indexing"):
            _ = M[0]


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
