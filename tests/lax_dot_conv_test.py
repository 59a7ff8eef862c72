"""The cases in lax_dot_conv_cases.py against the reference build and NumPy, and what goes beyond it."""

import itertools

import numpy as np
import pytest
from op_cases import dtype_of
from op_testing import case_tests

import jax
from jax import lax

reference, test_reference, test_numpy = case_tests(__file__)


def test_results_of_mixed_products_have_the_higher_dtype():
    order = (
        "bool uint2 int2 uint4 int4 uint8 int8 uint16 int16 uint32 int32 float8_e3m4 float8_e4m3fn "
        "float16 bfloat16 float32 complex64"
    ).split()
    dims = (((), ()), ((), ()))
    for a, b in itertools.combinations(order, 2):
        x, y = (jax.ShapeDtypeStruct((), dtype_of(d)) for d in (a, b))
        out = jax.eval_shape(lambda x, y: lax.dot_general(x, y, dims), x, y)
        assert out.dtype == dtype_of(b), (a, b, out)


def test_precision_names():
    x = np.ones((2, 2), np.float32)
    for name, want in [("bfloat16", "DEFAULT"), ("tensorfloat32", "HIGH"), ("float32", "HIGHEST")]:
        text = str(jax.make_jaxpr(lambda x, name=name: lax.dot(x, x, precision=name))(x))
        assert f"precision=(Precision.{want}, Precision.{want})" in text
        with jax.default_matmul_precision(name):
            assert str(jax.make_jaxpr(lambda x: lax.dot(x, x))(x)) == text
        assert lax.Precision(name) is lax.Precision[want]
    with jax.default_matmul_precision("F32_F32_F32"):
        assert "precision=F32_F32_F32" in str(jax.make_jaxpr(lambda x: lax.dot(x, x))(x))
    assert repr(lax.Precision.HIGH) == "Precision.HIGH" and str(lax.Precision.HIGH) == "HIGH"


def test_dot_general_prints_what_is_set():
    x = np.ones((2, 2), np.float32)
    text = str(jax.make_jaxpr(lambda x: lax.dot(x, x))(x))
    assert "dot_general[dimension_numbers=(([1], [0]), ([], []))] a a" in text
    text = str(jax.make_jaxpr(lambda x: lax.dot(x, x, preferred_element_type=np.float32))(x))
    assert "preferred_element_type=float32" in text


@pytest.mark.parametrize(
    "axes", [(0, 0, 0), (1, None, None), (None, 2, None), (None, None, 0), (0, None, 1)]
)
@pytest.mark.parametrize("ragged", [0, 1])
def test_ragged_dot_vmap(axes, ragged):
    rng = np.random.RandomState(0)
    if ragged == 0:
        shapes, dims = [(6, 4), (3, 4, 2)], None
    else:
        shapes = [(4, 6), (6, 2)]
        dims = lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [1], [])
    args = [rng.randn(*s).astype(np.float32) for s in shapes] + [np.array([2, 1, 3], np.int32)]
    batched = [
        a if d is None else np.stack([np.roll(a, k) for k in range(5)], d)
        for a, d in zip(args, axes)
    ]

    def f(x, y, s):
        return lax.ragged_dot(x, y, s) if dims is None else lax.ragged_dot_general(x, y, s, dims)

    out = jax.vmap(f, axes)(*batched)
    for k in range(5):
        one = [np.roll(a, k) if d is not None else a for a, d in zip(args, axes)]
        np.testing.assert_allclose(out[k], f(*one), rtol=1e-5)


def test_ragged_dot_group_offset():
    rng = np.random.RandomState(0)
    x, w = rng.randn(8, 4).astype(np.float32), rng.randn(4, 4, 2).astype(np.float32)
    sizes = np.array([1, 3, 2, 2], np.int32)
    full = lax.ragged_dot(x, w, sizes)
    part = lax.ragged_dot(x, w[1:3], sizes, group_offset=np.array([1], np.int32))
    np.testing.assert_allclose(part[1:6], full[1:6], rtol=1e-6)
    np.testing.assert_array_equal(part[:1], 0)
    np.testing.assert_array_equal(part[6:], 0)


R = lax.RaggedDotDimensionNumbers


@pytest.mark.parametrize(
    "a, b, dims",
    [
        ((4, 6), (6, 2), R((((1,), (0,)), ((), ())), [1], [])),
        ((5, 4, 6), (6, 5, 2), R((((2,), (0,)), ((0,), (1,))), [2], [])),
        ((3, 6, 4), (4, 6, 2), R((((1, 2), (1, 0)), ((), ())), [1], [])),
        ((5, 4, 6), (5, 6, 2), R((((2,), (1,)), ((0,), (0,))), [0], [])),
        ((6, 4), (3, 4, 2), R((((1,), (1,)), ((), ())), [0], [0])),
        ((7, 6, 4, 5), (5, 2, 4, 3), R((((2, 3), (2, 0)), ((), ())), [1], [3])),
    ],
)
def test_ragged_dot_cotangents_agree_with_tangents(a, b, dims):
    rng = np.random.RandomState(0)
    x, y, dx, dy = (rng.randn(*s) for s in (a, b, a, b))
    sizes = np.array([2, 0, 3], np.int32)
    with jax.enable_x64(True):

        def f(x, y):
            return lax.ragged_dot_general(x, y, sizes, dims)

        out, tangent = jax.jvp(f, (x, y), (dx, dy))
        ct = rng.randn(*out.shape)
        gx, gy = jax.vjp(f, x, y)[1](ct)
    assert gx.shape == a and gy.shape == b
    gx, gy, tangent = (np.asarray(v) for v in (gx, gy, tangent))
    want = np.sum(tangent * ct)
    np.testing.assert_allclose(np.sum(gx * dx) + np.sum(gy * dy), want, rtol=1e-10)


def test_algorithms_that_the_cpu_has():
    x = np.ones((2, 2), np.float32)
    algorithm = lax.DotAlgorithm(np.float32, np.float32, np.float32)
    np.testing.assert_array_equal(lax.dot(x, x, precision=algorithm), 2 * x)
    with pytest.raises(ValueError, match="not supported by dot_general on CPU"):
        lax.dot(x, x, precision=algorithm._replace(num_primitive_operations=7))


def test_complex_products_cannot_be_asked_for_as_real():
    x = np.ones((2, 2), np.complex64)
    with pytest.raises(TypeError, match="must be complex"):
        lax.dot(x, x, preferred_element_type=np.float32)


def test_vmap_of_a_convolution_over_nothing():
    x, k = np.ones((0, 2, 3, 8), np.float32), np.ones((4, 3, 3), np.float32)
    assert jax.vmap(lambda x: lax.conv(x, k, (1,), "VALID"))(x).shape == (0, 2, 4, 6)
    assert jax.vmap(lambda x: lax.conv(x, k, (0 + 1,), "VALID"), axis_size=0)(x).shape == (
        0,
        2,
        4,
        6,
    )


def test_zero_strides_are_an_error():
    with pytest.raises(TypeError, match="strides must be positive"):
        lax.conv(np.ones((1, 1, 4)), np.ones((1, 1, 2)), (0,), "SAME")


def test_ragged_dot_dimension_numbers_are_values():
    dims = (((1,), (0,)), ((), ()))
    a, b = (lax.RaggedDotDimensionNumbers(dims, d, []) for d in ([1], (1,)))
    assert a == b and hash(a) == hash(b)
    assert repr(a) == (
        "RaggedDotDimensionNumbers(dot_dimension_numbers=(((1,), (0,)), ((), ())), "
        "lhs_ragged_dimensions=(1,), rhs_group_dimensions=())"
    )
