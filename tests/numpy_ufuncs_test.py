"""The cases in numpy_ufuncs_cases.py against the reference build and NumPy; methods it lacks against NumPy."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp

# Later jaxlibs multiply subnormal numbers in the program of all modes as in one of their own.
LATER = {"frexp_subnormal": lambda theirs: theirs | {"jit": theirs["eager"]}}
reference, test_reference, test_numpy = case_tests(__file__, later=LATER)
X = np.array([[0.0, 1, 2, 0], [3, 0, 0, 5], [1, 1, 0, 2]], np.float32)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical_methods_have_the_dtypes_of_numpy(name):
    ours, theirs = getattr(jnp, name), getattr(np, name)
    for indices in (np.array([0, 2, 3]), np.array([2, 0, 1])):
        out, want = (f.reduceat(X, indices, axis=1) for f in (ours, theirs))
        np.testing.assert_array_equal(out, want, strict=True)
    want = X[0].copy()
    theirs.at(want, [0, 0, 2], X[1, :3])
    out = ours.at(X[0], np.array([0, 0, 2]), X[1, :3], inplace=False)
    np.testing.assert_array_equal(out, want, strict=True)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2", "maximum"])
def test_options_of_reductions(name):
    ours, theirs = getattr(jnp, name), getattr(np, name)
    for kwargs in ({"initial": 1}, {"initial": 1, "where": X > 0}, {"dtype": "float32"}):
        x = X.astype(np.float16) if "dtype" in kwargs else X
        out, want = (f.reduce(x, axis=1, **kwargs) for f in (ours, theirs))
        np.testing.assert_allclose(out, want, rtol=1e-6, strict=True)


def test_operand_of_at_is_broadcast():
    f = jnp.frompyfunc(lambda x, y: x * y + 1, 2, 1)
    out = f.at(X, np.array([0, 0, 2]), X[1], inplace=False)
    want = np.stack([(X[0] * X[1] + 1) * X[1] + 1, X[1], X[2] * X[1] + 1])
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "logical_or"])
def test_booleans_at_indices(name):
    x, y = np.array([True, False, False, True]), np.array([False, True, False])
    want = x.copy()
    getattr(np, name).at(want, [0, 2, 3], y)
    out = getattr(jnp, name).at(x, np.array([0, 2, 3]), y, inplace=False)
    np.testing.assert_array_equal(out, want, strict=True)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "subtract", "logaddexp"])
def test_no_slices(name):
    fun, none = getattr(jnp, name), np.zeros(0, np.int32)
    assert fun.reduceat(X, none).shape == (0, 4)
    assert fun.reduceat(X, none, axis=1).shape == (3, 0)
    assert fun.reduceat(X[:0], none).shape == (0, 4)
    with pytest.raises(
        IndexError, match=f"{name}.reduceat: axis 0 has no elements, but .* 2 slices"
    ):
        fun.reduceat(X[:0], np.array([0, 1]))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "subtract", "logaddexp"])
def test_axes_of_accumulations(name):
    fun = getattr(jnp, name)
    np.testing.assert_allclose(
        fun.accumulate(X, axis=-1), getattr(np, name).accumulate(X, axis=-1), rtol=1e-6
    )
    for x, axis in ((X, 2), (X, -3), (np.float32(2), 0)):
        with pytest.raises(ValueError, match=f"axis {axis} is out of bounds"):
            fun.accumulate(x, axis=axis)


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "multiply",
        "maximum",
        "minimum",
        "subtract",
        "logaddexp",
    ],
)
def test_methods_as_in_numpy(name):
    ours, theirs = getattr(jnp, name), getattr(np, name)
    x = np.array([[3.5, 1, 2], [0.25, 5, 4]], np.float32)
    assert (ours.nin, ours.nout) == (theirs.nin, theirs.nout)
    assert ours.identity == theirs.identity or theirs.identity is None
    calls = [
        lambda f: f.reduce(x), lambda f: f.reduce(x, axis=-1, keepdims=True), lambda f: f.accumulate(x, axis=1),
        lambda f: f.outer(x[0], x), lambda f: f.reduceat(x, np.array([0, 2, 1]), axis=1),
    ]  # fmt: skip
    if name != "subtract":
        where = x > 1
        calls += [
            lambda f: f.reduce(x, axis=None), lambda f: f.reduce(x, axis=None, keepdims=True),
            lambda f: f.reduce(x, axis=1, initial=2), lambda f: f.reduce(x, axis=1, initial=1, where=where),
        ]  # fmt: skip
    for call in calls:
        np.testing.assert_allclose(call(ours), call(theirs), rtol=2e-5)


def test_dtypes_of_64_bits():
    with jax.enable_x64(True):
        one = {d: jnp.ones(2, d) for d in ("bool", "int8", "uint8", "int32", "int64", "uint64")}
        # The dtype of ldexp is that of its first argument.
        for name, want in {
            "bool": "float32",
            "uint8": "float32",
            "int32": "float32",
            "int64": "float64",
        }.items():
            for exponent in ("int8", "int64", "uint64"):
                assert jnp.ldexp(one[name], one[exponent]).dtype == want, (name, exponent)
        out = jnp.ldexp(-2, one["uint8"])
        assert out.dtype == np.float64 and not out.weak_type
        for x, y in (("int64", "uint64"), ("uint64", "int8")):
            out = jnp.power(one[x], one[y])
            assert out.dtype == np.float64 and out.weak_type == jnp.add(one[x], one[y]).weak_type


def test_atan2_wraps_integers():
    x = jnp.ones(2, np.int8)
    np.testing.assert_array_equal(jnp.atan2(300, x), jnp.arctan2(np.int8(44), x))
    np.testing.assert_allclose(jnp.arctan2(300, x), np.arctan2(300.0, [1, 1]), rtol=1e-6)


def test_what_numpy_answers_and_the_reference_does_not():
    """Booleans divided by zero, and truth of imaginary scalars."""
    assert int(jnp.fmod(True, False)) == 0
    np.testing.assert_array_equal(jnp.fmod(np.array([True, True]), np.array([True, False])), 0)
    for f, g in ((jnp.any, np.any), (jnp.all, np.all)):
        for x in (1j, 0j, 2 + 0j, np.complex64(3j)):
            assert bool(f(x)) == g(x) and bool(f(jnp.array([x]))) == g([x])


def test_positions_stay_integers_where_nothing_is_filled_in():
    for x in (np.zeros(0), np.zeros(3)):
        (found,) = jnp.nonzero(x, fill_value=1.5)
        assert found.dtype == jnp.zeros(0, int).dtype and not found.weak_type


def test_scalars_have_no_trapezoids():
    with pytest.raises(ValueError, match="at least one dimension"):
        jnp.trapezoid(1.0)


def test_i0_takes_a_keyword():
    np.testing.assert_array_equal(jnp.i0(x=X), jnp.i0(X))


# Operators that change nothing


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex64"])
def test_operations_that_change_nothing_give_the_array(dtype):
    x = jnp.array([1, 2, 3], dtype)
    assert x**1 is x and +x is x and x.astype(dtype) is x and x.astype(x.dtype) is x
    assert x.astype(x.dtype, copy=True) is not x
    assert "integer_pow[y=1]" in str(jax.make_jaxpr(lambda x: x**1)(x))


def test_operations_that_only_seem_to_change_nothing():
    assert (jnp.array([True]) ** 1).dtype == np.int32
    weak = jnp.asarray(2.0)
    assert weak.weak_type and (weak**1).weak_type and not weak.astype(weak.dtype).weak_type
    with jax.enable_x64(True):
        wide = jnp.array([1.0, 2.0])
        assert wide.dtype == np.float64 and wide.astype(wide.dtype) is wide
    with pytest.warns(UserWarning, match="float64"):
        assert wide.astype(wide.dtype).dtype == np.float32
