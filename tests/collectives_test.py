"""Collectives along an axis of `vmap`, against what they mean along the batch dimension."""

import numpy as np
import pytest
from absl.testing import absltest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import test_util as jtu

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
SQUARE = np.arange(9.0, dtype=np.float32).reshape(3, 3)


def over(f, x, **kwargs):
    return np.asarray(jax.vmap(f, axis_name="i", **kwargs)(x))


class ReductionTest(jtu.JaxTestCase):
    def test_sums(self):
        self.assertAllClose(over(lambda x: lax.psum(x, "i"), X), np.broadcast_to(X.sum(0), X.shape))
        self.assertAllClose(
            over(lambda x: lax.pmean(x, "i"), X), np.broadcast_to(X.mean(0), X.shape)
        )
        self.assertAllClose(over(lambda x: lax.pmax(x, "i"), X), np.broadcast_to(X.max(0), X.shape))
        self.assertAllClose(over(lambda x: lax.pmin(x, "i"), X), np.broadcast_to(X.min(0), X.shape))

    def test_constant_is_multiplied_by_the_size(self):
        self.assertEqual(jax.vmap(lambda x: lax.psum(1, "i"), axis_name="i", out_axes=None)(X), 3)
        out = jax.vmap(lambda x: lax.psum(jnp.float32(2), "i"), axis_name="i", out_axes=None)(X)
        self.assertEqual(float(out), 6.0)

    def test_groups(self):
        x = np.arange(4.0, dtype=np.float32)
        out = over(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 2], [1, 3]]), x)
        self.assertAllClose(out, np.array([2, 4, 2, 4], np.float32))

    def test_several_axes(self):
        f = jax.vmap(jax.vmap(lambda x: lax.psum(x, ("i", "j")), axis_name="i"), axis_name="j")
        self.assertAllClose(np.asarray(f(X)), np.full(X.shape, X.sum(), np.float32))

    def test_positions(self):
        self.assertEqual(float(lax.psum(jnp.arange(3.0), 0)), 3.0)

    def test_tree_and_bool(self):
        out = jax.vmap(lambda t: lax.psum(t, "i"), axis_name="i", out_axes=None)(
            {"a": X, "b": X > 3}
        )
        self.assertAllClose(out["a"], jnp.asarray(X.sum(0)))
        self.assertAllClose(out["b"], jnp.asarray((X > 3).sum(0), jnp.int32))

    def test_under_jit_scan_and_grad(self):
        x = jnp.arange(3.0)
        inner = jax.jit(lambda y: lax.psum(y, "i"))
        self.assertAllClose(over(lambda x: inner(x), x), np.full(3, 3.0, np.float32))
        by_scan = over(
            lambda x: lax.scan(lambda c, _: (c + lax.psum(x, "i"), None), 0.0, None, 2)[0], x
        )
        self.assertAllClose(by_scan, np.full(3, 6.0, np.float32))
        inside = jax.vmap(jax.grad(lambda x: lax.psum(x * x, "i")), axis_name="i")(x)
        self.assertAllClose(inside, 6 * x)
        outside = jax.grad(
            lambda x: jax.vmap(lambda x: lax.psum(x * x, "i"), axis_name="i")(x).sum()
        )(x)
        self.assertAllClose(outside, 6 * x)


class MovingTest(jtu.JaxTestCase):
    def test_axis_index(self):
        self.assertAllClose(over(lambda x: lax.axis_index("i"), X), np.arange(3, dtype=np.int32))
        self.assertEqual(jax.vmap(lambda x: lax.axis_size("i"), axis_name="i", out_axes=None)(X), 3)

    def test_ppermute(self):
        out = over(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), X)
        self.assertAllClose(out, np.stack([np.zeros(4, np.float32), X[0], X[1]]))
        self.assertAllClose(over(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), X), X[[2, 0, 1]])
        jtu.check_grads(
            lambda x: jax.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(x),
            (X,), order=1,
        )  # fmt: skip

    def test_all_gather(self):
        out = over(lambda x: lax.all_gather(x, "i"), X)
        self.assertAllClose(out, np.broadcast_to(X, (3, 3, 4)))
        out = over(lambda x: lax.all_gather(x, "i", axis=1), X)
        self.assertAllClose(out, np.broadcast_to(X.T, (3, 4, 3)))
        out = over(lambda x: lax.all_gather(x, "i", tiled=True), X)
        self.assertAllClose(out, np.broadcast_to(X.reshape(-1), (3, 12)))

    def test_gather_transposes_to_scatter(self):
        def f(x):
            return jax.vmap(lambda x: jnp.sin(lax.all_gather(x, "i")).sum(0), axis_name="i")(x)

        jtu.check_grads(f, (X,), order=1)

    def test_psum_scatter(self):
        out = over(lambda x: lax.psum_scatter(x, "i"), SQUARE)
        self.assertAllClose(out, SQUARE.sum(0))
        out = over(lambda x: lax.psum_scatter(x, "i", tiled=True), SQUARE)
        self.assertAllClose(out, SQUARE.sum(0)[:, None])

    def test_all_to_all(self):
        self.assertAllClose(over(lambda x: lax.all_to_all(x, "i", 0, 0), SQUARE), SQUARE.T)
        self.assertAllClose(over(lambda x: lax.pswapaxes(x, "i", 0), SQUARE), SQUARE.T)
        out = over(
            lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
            np.arange(18.0).reshape(3, 6).astype("f"),
        )
        want = np.arange(18.0, dtype=np.float32).reshape(3, 3, 2).swapaxes(0, 1).reshape(3, 6)
        self.assertAllClose(out, want)

    def test_pbroadcast(self):
        self.assertAllClose(
            over(lambda x: lax.pbroadcast(x, "i", 1), X), np.broadcast_to(X[1], X.shape)
        )


class ErrorTest(jtu.JaxTestCase):
    def test_unbound_axis(self):
        for f in (
            lambda: lax.psum(jnp.ones(3), "k"),
            lambda: lax.axis_index("k"),
            lambda: jax.jit(lambda x: lax.pmax(x, "k"))(1.0),
            lambda: jax.vmap(lambda x: lax.psum(x, "k"), axis_name="i")(X),
        ):
            with self.assertRaisesRegex(NameError, "unbound axis name: k"):
                f()
        self.assertAllClose(jnp.ones(3) + 1, jnp.full(3, 2.0))

    def test_arguments(self):
        with self.assertRaisesRegex(ValueError, "must be unique"):
            over(lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), X)
        with self.assertRaisesRegex(ValueError, "permutation"):
            over(lambda x: lax.pshuffle(x, "i", [0, 0, 1]), X)
        with self.assertRaisesRegex(ValueError, "split_axis"):
            over(lambda x: lax.all_to_all(x, "i", 0, 0), X)
        with self.assertRaisesRegex(ValueError, "exactly once"):
            over(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1]]), X)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(n, reverse):
    x = np.random.RandomState(n).randn(2, n).astype(np.float32)
    out = lax.associative_scan(jnp.add, jnp.asarray(x), reverse=reverse, axis=1)
    want = np.flip(np.cumsum(np.flip(x, 1), 1), 1) if reverse else np.cumsum(x, 1)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
