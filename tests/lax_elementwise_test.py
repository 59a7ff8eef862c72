"""The cases in lax_elementwise_cases.py against the reference build, NumPy and SciPy; and more."""

import subprocess
import sys

import numpy as np
import pytest
from op_testing import case_tests

import jax
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P


def _with_nan(theirs):
    """Later jaxlibs keep NaN, without bits for the mantissa too, in compiled programs as in eager operations."""
    (x,), weak = theirs["eager"]
    batch = [np.stack([np.roll(x, i) for i in range(3)])], weak
    return theirs | {"jit": theirs["eager"], "vmap0": batch, "vmap1": batch}


reference, test_reference, test_numpy = case_tests(
    __file__, later={"reduce_precision_1_0": _with_nan}
)

F32 = np.float32
x23 = np.arange(6, dtype=F32).reshape(2, 3)


def text(fun, *args):
    return " ".join(str(jax.make_jaxpr(fun)(*args)).split())


@pytest.mark.parametrize(
    "fun, eqn",
    [
        (lax.sin, "sin a"),
        (
            lambda x: lax.sin(x, accuracy=lax.AccuracyMode.HIGHEST),
            "sin[accuracy=AccuracyMode.HIGHEST] a",
        ),
        (lambda x: lax.integer_pow(x, 3), "integer_pow[y=3] a"),
        (lambda x: lax.mul(x, 2.0), "mul a 2.0:f32[]"),
        (lambda x: lax.round(x), "round[rounding_method=0] a"),
        (
            lambda x: lax.convert_element_type(x, np.int32),
            "convert_element_type[new_dtype=int32 weak_type=False] a",
        ),
        (
            lambda x: lax.reduce_precision(x, 5, 6),
            "reduce_precision[exponent_bits=5 mantissa_bits=6] a",
        ),
        (
            lambda x: lax.bitcast_convert_type(x, np.int32),
            "bitcast_convert_type[new_dtype=int32] a",
        ),
        (lambda x: lax.conj(x), "conj[input_dtype=float32] a"),
        (lambda x: lax.clamp(0.0, x, 1.0), "clamp 0.0:f32[] a 1.0:f32[]"),
        (lambda x: lax.select(True, x, x), "select_n True:bool[] a a"),
        (lax.stop_gradient, "stop_gradient a"),
    ],
)
def test_printing(fun, eqn):
    assert f"= {eqn} in (b,)" in text(fun, x23)


def test_conversion_to_the_same_type_is_no_operation():
    assert (
        text(lambda x: lax.convert_element_type(x, F32), x23)
        == "{ lambda ; a:f32[2,3]. let in (a,) }"
    )
    assert text(lambda: lax.convert_element_type(3, F32)) == "{ lambda ; . let in (3.0:f32[],) }"
    x = jax.device_put(x23)
    assert lax.convert_element_type(x, F32) is x


@pytest.mark.parametrize(
    "fun, args, words",
    [
        (lax.add, (x23, x23.astype(int)), ["lax.add", "float32, int32", "jnp.add"]),
        (lax.lt, (x23, x23.astype(int)), ["lax.lt", "float32, int32", "jnp.less"]),
        (lax.add, (x23, x23.T), ["add", "(2, 3), (3, 2)"]),
        (lax.add, (x23, x23[0]), ["add", "number of dimensions", "{1, 2}"]),
        (lax.sin, (1,), ["sin", "int32", "floating, complexfloating"]),
        (lax.bitwise_and, (x23, x23), ["and", "float32", "position 0", "integer"]),
        (lax.clamp, (x23[0], x23, F32(1)), ["min.shape=(3,)", "operand.shape=(2, 3)"]),
        (
            lax.complex,
            (x23, x23.astype(int)),
            ["complex", "int32", "position 1", "float32, float64"],
        ),
    ],
)
def test_error_names_operation_types_and_remedy(fun, args, words):
    with pytest.raises(TypeError) as info:
        fun(*args)
    for word in words:
        assert word in str(info.value)
    with pytest.raises(TypeError):
        jax.jit(fun)(*args)


def test_operands_of_mixed_dtypes_with_out_dtype():
    f = lambda x, y: lax.mul(x, y, out_dtype=F32)
    assert f(2.0, 3) == 6.0
    x, y = x23, np.full((2, 1), 3, np.int32)
    out, pull = jax.vjp(lambda x: f(x, y), x)
    np.testing.assert_array_equal(out, x * 3)
    np.testing.assert_array_equal(pull(out)[0], x * 9)


def test_scalar_bounds_of_clamp_have_derivatives():
    def f(low, x, high):
        return lax.reduce_sum(lax.clamp(low, x, high), (0, 1))

    x = x23 + F32(0.25)
    grads = jax.grad(f, (0, 1, 2))(F32(1.0), x, F32(4.0))
    assert float(grads[0]) == 1.0 and float(grads[2]) == 2.0
    np.testing.assert_array_equal(grads[1], (x > 1) & (x < 4))
    tangent = jax.jvp(lambda low: lax.clamp(low, x, F32(4)), (F32(1),), (F32(1),))[1]
    np.testing.assert_array_equal(tangent, x < 1)


def test_derivative_of_select_n_goes_to_the_case_that_was_taken():
    which = np.array([-3, 1, 9], np.int32)
    cases = [np.full(3, i, F32) for i in range(3)]
    _, pull = jax.vjp(lambda *cs: lax.select_n(which, *cs), *cases)
    np.testing.assert_array_equal(np.stack(pull(np.ones(3, F32))), np.eye(3))


def test_size_one_dimensions_broadcast_under_vmap():
    x, y = np.ones((4, 2, 1), F32), x23
    for x_dim in range(3):
        out = jax.vmap(lax.add, (x_dim, None))(np.moveaxis(x, 0, x_dim), y)
        np.testing.assert_array_equal(out, np.broadcast_to(y + 1, (4, 2, 3)))
    out = jax.vmap(lax.mul)(np.arange(4, dtype=F32), np.broadcast_to(y, (4, 2, 3)))
    np.testing.assert_array_equal(out, np.arange(4)[:, None, None] * y)
    out = jax.vmap(lax.add, (1, 0))(y, np.ones((3, 2), F32))
    np.testing.assert_array_equal(out, y.T + 1)


@pytest.mark.parametrize(
    "a, x, expected",  # with 40 digits, by numerical differentiation of the incomplete gamma function
    [
        (40, 1.0, 0.0948607026168),
        (40, 1e-3, 0.000265233550305),
        (9, 1e-3, 0.00101782598932),
        (40, 45, 1.06447366484),
        (0.1, 45, 13.9780500277),
    ],
)
def test_random_gamma_grad(a, x, expected):
    np.testing.assert_allclose(lax.random_gamma_grad(F32(a), F32(x)), expected, rtol=1e-4)
    with jax.enable_x64(True):
        out = lax.random_gamma_grad(np.float64(a), np.float64(x))
        np.testing.assert_allclose(out, expected, rtol=1e-10)


@pytest.mark.parametrize("f", [lax.igamma, lax.igammac, lax.random_gamma_grad])
def test_elements_do_not_depend_on_their_neighbours(f):
    a = np.array([0.1, 1.0, 40.0, 3e4], F32)
    x = np.array([45.0, 0.5, 39.0, 3.01e4], F32)
    alone = [f(np.full(4, a[i]), np.full(4, x[i]))[i] for i in range(4)]
    np.testing.assert_array_equal(f(a, x), alone)


def test_keys_are_compared_and_selected():
    keys = jax.random.split(jax.random.key(0), 3)
    assert lax.eq(keys, keys).tolist() == [True] * 3
    assert lax.ne(keys, keys[0]).tolist() == [False, True, True]
    picked = lax.select(np.array([True, False, True]), keys, keys[::-1])
    assert lax.eq(picked, keys).tolist() == [True, True, True]
    assert lax.eq(lax.select(False, keys, keys[::-1]), keys).tolist() == [False, True, False]
    with pytest.raises(TypeError, match="add does not accept dtype key<fry>"):
        lax.add(keys, keys)
    with pytest.raises(ValueError, match="key_data"):
        lax.convert_element_type(keys, F32)


def test_dce_sink_keeps_its_operand():
    def f(x):
        lax.dce_sink({"a": lax.sin(x)})
        return lax.cos(x)

    assert "dce_sink[prevent_mlir_dce=False]" in text(f, 1.0)
    assert "dce_sink" in text(jax.grad(f), 1.0)
    np.testing.assert_allclose(jax.jit(f)(1.0), np.cos(1.0), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(f)(x23[0]), np.cos(x23[0]), rtol=1e-6)


def test_accuracy_is_part_of_the_program():
    def lowered(accuracy):
        return jax.jit(lambda x: lax.exp(x, accuracy=accuracy)).lower(1.0).as_text()

    assert "result_accuracy" not in lowered(None)
    assert "HIGHEST" in lowered(lax.AccuracyMode.HIGHEST)
    assert "ulps = 3" in lowered(lax.Tolerance(ulps=3))
    assert lax.Tolerance(atol=1e-3) == lax.Tolerance(atol=1e-3) != lax.Tolerance(rtol=1e-3)
    with pytest.raises(TypeError, match="accuracy"):
        lax.exp(1.0, accuracy=5)


# Explicit sharding: types only, over a mesh of no devices

MESH = AbstractMesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)


def sharded_type(fun, *specs, shape=(8, 8), dtype=F32):
    args = [
        jax.ShapeDtypeStruct(
            tuple(8 if s != 1 else 1 for s in shape), dtype, sharding=NamedSharding(MESH, s)
        )
        for s in specs
    ]
    with jax.sharding.use_abstract_mesh(MESH):
        (out,) = jax.make_jaxpr(fun)(*args).out_avals
    return out.str_short(short_dtypes=True)


@pytest.mark.parametrize(
    "fun, specs, expected",
    [
        (lax.sin, [P("x", "y")], "f32[8@x,8@y]"),
        (lax.add, [P("x", "y"), P("x", None)], "f32[8@x,8@y]"),
        (lax.add, [P("x", None), P(None, "y")], "f32[8@x,8@y]"),
        (lambda x: lax.add(x, 1.0), [P("x", "y")], "f32[8@x,8@y]"),
        (lambda x: lax.convert_element_type(x, np.int32), [P("x", "y")], "i32[8@x,8@y]"),
        (lambda x: lax.bitcast_convert_type(x, np.int8), [P("x", "y")], "i8[8@x,8@y,4]"),
        (lambda x: lax.select(lax.gt(x, 0.0), x, x), [P("x", "y")], "f32[8@x,8@y]"),
        (lambda low, x: lax.clamp(low, x, 2.0), [P("x", None), P("x", "y")], "f32[8@x,8@y]"),
        (lambda x: lax.reduce_precision(x, 5, 3), [P("x", "y")], "f32[8@x,8@y]"),
        (jax.grad(lambda x: lax.reduce_sum(lax.mul(x, x), (0, 1))), [P("x", "y")], "f32[8@x,8@y]"),
        (lambda x: jax.jvp(lax.max, (x, x), (x, x))[1], [P("x", "y")], "f32[8@x,8@y]"),
        (jax.vmap(lax.add), [P(None, "y"), P(None, "y")], "f32[8,8@y]"),
    ],
)
def test_explicit_sharding(fun, specs, expected):
    assert sharded_type(fun, *specs) == expected


@pytest.mark.parametrize(
    "fun, specs",
    [
        (lax.add, [P("x", "y"), P("y", "x")]),
        (lax.add, [P("x", None), P(None, "x")]),
        (lambda x, y: lax.select(lax.gt(x, 0.0), x, y), [P("x", "y"), P("x", None)]),
        (lambda x, y: lax.select(lax.gt(y, 0.0), x, x), [P("x", "y"), P("y", "x")]),
    ],
)
def test_shardings_that_do_not_fit(fun, specs):
    with pytest.raises(Exception, match="reshard") as info:
        sharded_type(fun, *specs)
    assert type(info.value).__name__ == "ShardingTypeError"


def test_import_loads_no_dialects():
    code = "import sys, jax.lax; print([m for m in sys.modules if 'mlir.dialects._' in m or m == 'scipy'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


CUT_FUNCTIONS = "sqrt log log1p asin acos atan asinh acosh atanh".split()
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
NUMPY_NAMES |= {f"{name}h": f"{numpy_name}h" for name, numpy_name in NUMPY_NAMES.items()}
SIDES = [complex(a, b) for a in (-2.0, -0.5, 0.5, 2.0) for b in (0.0, -0.0)]
SIDES += [complex(z.imag, z.real) for z in SIDES]


@pytest.mark.parametrize("name", CUT_FUNCTIONS)
def test_complex_functions_on_both_sides_of_branch_cuts(name):
    function, exact = getattr(lax, name), getattr(np, NUMPY_NAMES.get(name, name))
    with jax.enable_x64(True):
        limits = np.array(
            SIDES + [0, -0.0, 1, -1, 1j, -1j, complex(np.inf, -0.0), complex(-np.inf, -0.0)]
        )
        for dtype in (np.complex64, np.complex128):
            z = limits.astype(dtype)
            with np.errstate(all="ignore"):
                want = exact(z)
            out = np.asarray(jax.jit(function)(z))
            np.testing.assert_allclose(out, want, rtol=8 * np.finfo(dtype).eps)
            for ours, theirs in ((out.real, want.real), (out.imag, want.imag)):
                np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))
        # Differences along the cut; a sum of complex numbers would lose the sign of the zero.
        z, h = np.array(SIDES + [2 + 1j, -2 + 1j, -2 - 1j, -0.5 + 2j]), 1e-6
        step = np.where(z.real == 0, 1j * h, h)
        moved = [z.copy(), z.copy()]
        for end, sign in zip(moved, (1, -1)):
            end.real[z.real != 0] += sign * h
            end.imag[z.real == 0] += sign * h
        want = (exact(moved[0]) - exact(moved[1])) / (2 * step)
        slopes = jax.vmap(jax.grad(function, holomorphic=True))(z)
        np.testing.assert_allclose(slopes, want, rtol=1e-7)


def test_stop_gradient_of_values_that_are_not_arrays_gives_them_their_dtype():
    """They stay numbers and NumPy arrays, which are not weakly typed where they were not."""
    values = {"int": 3, "float": 1.5, "complex": 1j, "numpy": np.arange(2), "scalar": np.float64(2)}
    out = lax.stop_gradient(values)
    dtypes = dict(
        int="int32", float="float32", complex="complex64", numpy="int32", scalar="float32"
    )
    assert {name: str(x.dtype) for name, x in out.items()} == dtypes
    assert not any(isinstance(x, jax.Array) for x in out.values())
    assert isinstance(out["int"], int) and isinstance(out["float"], float)
    assert (out["int"], out["float"], out["complex"]) == (3, 1.5, 1j)
    assert lax.stop_gradient(True) is True and lax.stop_gradient(None) is None
    x = jax.numpy.ones(2)
    assert lax.stop_gradient(x) is x
    assert (lax.stop_gradient(2) * jax.numpy.ones(2, "bfloat16")).dtype == "bfloat16"


def test_stop_gradient_of_integers_is_in_the_jaxpr():
    assert "= stop_gradient a in (b,)" in text(lax.stop_gradient, np.arange(3))
    assert "stop_gradient 3:i32[]" in text(lambda: lax.stop_gradient(3))
    zeros = np.zeros(2, jax.dtypes.float0)
    np.testing.assert_array_equal(jax.jit(lax.stop_gradient)(zeros), zeros)
    grad = jax.jit(jax.grad(lambda x: x * lax.stop_gradient(x > 0) * lax.stop_gradient(2)))
    assert grad(2.0) == 2
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(lax.stop_gradient))(jax.numpy.arange(3)), [0, 1, 2]
    )


def test_conjugates_of_primitives_without_the_type():
    x = np.array([1, -2], F32)
    for params in ({}, {"input_dtype": F32}):
        y = jax.jit(lambda x, params=params: lax.conj_p.bind(x, **params))(x)
        np.testing.assert_array_equal(y, np.array([1, -2], np.complex64))
