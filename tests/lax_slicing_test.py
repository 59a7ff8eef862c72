"""The cases in lax_slicing_cases.py against the reference build and NumPy, and what goes beyond it."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax

reference, test_reference, test_numpy = case_tests(__file__)

G, S = lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers


def numerical_vjp(fun, args, cts, eps=1e-3):
    """The cotangents of `args` by central differences in float64."""
    out = []
    for k, a in enumerate(args):
        g = np.zeros(a.shape)
        for i in np.ndindex(a.shape):
            d = np.zeros(a.shape)
            d[i] = eps
            hi, lo = (fun(*args[:k], a + s * d, *args[k + 1 :]) for s in (1, -1))
            g[i] = np.sum(np.asarray(hi - lo, np.float64) * cts) / (2 * eps)
        out.append(g)
    return out


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_scatter_mul_is_differentiable_where_indices_repeat(mode, zeros):
    index = np.array([[1], [1], [0], [1], [7]], np.int32)
    with jax.enable_x64(True):
        x, u = np.array([2.0, -3.0, 5.0]), np.array([1.5, 2.0, -1.0, 3.0, 4.0])
        u[:zeros] = 0

        def f(x, u):
            return lax.scatter_mul(x, index, u, S((), (0,), (0,)), mode=mode)

        cts = np.array([1.0, 2.0, 3.0])
        _, pull = jax.vjp(f, x, u)
        for ours, numerical in zip(pull(cts), numerical_vjp(f, [x, u], cts)):
            np.testing.assert_allclose(ours, numerical, atol=1e-8)
        tangents = (np.cos(x), np.sin(u))
        _, t = jax.jvp(f, (x, u), tangents)
        want = sum(np.sum(a * b) for a, b in zip(pull(cts), tangents))
        np.testing.assert_allclose(np.sum(t * cts), want, rtol=1e-12)


def test_scatter_apply_is_differentiable_where_indices_are_unique():
    index = np.array([[2], [0]], np.int32)
    x = np.array([0.1, 0.2, 0.3], np.float32)

    def f(x, unique=True):
        return lax.scatter_apply(
            x, index, lax.sin, S((), (0,), (0,)), update_shape=(2,), unique_indices=unique
        )

    out, tangent = jax.jvp(f, (x,), (np.array([1.0, 10.0, 100.0], np.float32),))
    np.testing.assert_allclose(out, [np.sin(0.1), 0.2, np.sin(0.3)], rtol=1e-6)
    np.testing.assert_allclose(tangent, [np.cos(0.1), 10, 100 * np.cos(0.3)], rtol=1e-6)
    with pytest.raises(NotImplementedError, match="unique_indices"):
        jax.jvp(lambda x: f(x, False), (x,), (x,))


def test_one_hot_gathers_are_those_of_mode_fill_with_zeros():
    rng = np.random.RandomState(0)
    for shape, index, dnums, sizes in [
        ((5,), [[0], [7], [4]], G((), (0,), (0,)), (1,)),
        ((4, 5), [[0, 2], [3, 4]], G((), (0, 1), (0, 1)), (1, 1)),
        ((4, 5), [[1, 2], [2, 0]], G((0, 2), (), (0, 1)), (2, 3)),
        ((4, 5), [[1], [9]], G((1,), (0,), (0,)), (1, 3)),
        ((3, 4, 5), [[1], [2], [0]], G((1,), (1,), (1,), (0,), (0,)), (1, 1, 5)),
        ((3, 4, 5), [[[1], [2], [0]], [[0], [3], [2]]], G((0, 2), (1,), (1,)), (2, 1, 5)),
    ]:
        x, index = rng.randn(*shape).astype(np.float32), np.array(index, np.int32)
        hot = lax.gather(x, index, dnums, sizes, mode="one_hot")
        fill = lax.gather(x, index, dnums, sizes, mode="fill", fill_value=0)
        np.testing.assert_allclose(hot, fill, rtol=1e-6)


def test_narrow_indices_reach_large_dimensions():
    x = np.arange(300, dtype=np.float32)
    assert lax.dynamic_slice(x, (np.int8(-1),), (1,)) == 299
    assert lax.dynamic_index_in_dim(jnp.asarray(x), jnp.int8(-2), keepdims=False) == 298


def test_negative_start_of_a_static_slice_is_an_error():
    with pytest.raises(TypeError, match="start_indices must be greater than or equal to zero"):
        lax.slice(np.zeros(5), (-1,), (1,))


def test_scatter_apply_refuses_other_dtypes_and_traced_constants():
    index, dnums = np.array([[1]], np.int32), S((), (0,), (0,))
    with pytest.raises(TypeError, match="same dtype"):
        lax.scatter_apply(np.arange(3), index, lambda v: v * 1.5, dnums, update_shape=(1,))
    with pytest.raises(NotImplementedError, match="closes over traced values"):
        jax.jit(
            lambda t: lax.scatter_apply(
                np.ones(3, np.float32), index, lambda v: v * t, dnums, update_shape=(1,)
            )
        )(2.0)


def test_jaxprs_print_as_documented():
    x, i = np.ones((4, 5), np.float32), np.ones((2, 1), np.int32)
    text = str(
        jax.make_jaxpr(lambda x, i: lax.gather(x, i, G((1,), (0,), (0,)), (1, 5), mode="clip"))(
            x, i
        )
    )
    for part in (
        "gather[",
        "dimension_numbers=GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), "
        "start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=())",
        "fill_value=None",
        "mode=GatherScatterMode.CLIP",
        "slice_sizes=(1, 5)",
    ):
        assert part in text, text
    u = np.ones((2, 5), np.float32)
    text = str(
        jax.make_jaxpr(lambda x, i, u: lax.scatter_add(x, i, u, S((1,), (0,), (0,))))(x, i, u)
    )
    assert "scatter-add[" in text and "update_jaxpr={ lambda ; e:f32[] f:f32[]. let" in text, text
