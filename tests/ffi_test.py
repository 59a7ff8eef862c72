"""jax.ffi: native functions as operations of compiled programs."""

import ctypes
import pathlib
import subprocess
import sys

import ml_dtypes
import native
import numpy as np
import pytest

import jax
import jax.ffi
import jax.numpy as jnp
from jax.experimental.layout import Layout
from jax.interpreters import mlir

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
EPS = np.float32(1e-3)


@pytest.fixture(scope="module", autouse=True)
def library():
    library = native.load("ffi_library.cc")
    for name in ("RmsNorm", "SumAndDifference", "InMemory", "CopyWords"):
        jax.ffi.register_ffi_target(f"test_{name}", jax.ffi.pycapsule(getattr(library, name)))
    return library


def rms_norm(x, eps=EPS, **kwargs):
    kwargs.setdefault("vmap_method", "broadcast_all")
    result = jax.ShapeDtypeStruct(x.shape, np.float32)
    return jax.ffi.ffi_call("test_RmsNorm", result, **kwargs)(x, eps=eps)


def expected(x, eps=EPS):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def test_eagerly_and_compiled():
    for f in (rms_norm, jax.jit(rms_norm), jax.jit(lambda x: rms_norm(x) * 2 / 2)):
        np.testing.assert_allclose(f(jnp.asarray(X)), expected(X), rtol=1e-6)
    out = rms_norm(jnp.asarray(X), eps=np.float32(100.0))
    np.testing.assert_allclose(out, expected(X, 100.0), rtol=1e-6)


@pytest.mark.parametrize(
    "method",
    ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"],
)
def test_vmap(method):
    f = lambda x: rms_norm(x, vmap_method=method)
    np.testing.assert_allclose(jax.vmap(f)(X), expected(X), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(f, 1))(X), expected(X.T), rtol=1e-6)
    stacked = np.stack([X, X + 1])
    np.testing.assert_allclose(jax.vmap(jax.vmap(f))(stacked), expected(stacked), rtol=1e-6)


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "broadcast_all"])
def test_vmap_of_some_operands(method):
    result = jax.ShapeDtypeStruct((4,), np.float32)
    f = jax.ffi.ffi_call("test_SumAndDifference", (result, result), vmap_method=method)
    total, difference = jax.vmap(f, (None, 0))(X[0], X)
    np.testing.assert_array_equal(total, X[0] + X)
    np.testing.assert_array_equal(difference, X[0] - X)


def test_vmap_without_a_method():
    with pytest.raises(NotImplementedError, match="test_RmsNorm.*vmap_method"):
        jax.vmap(lambda x: rms_norm(x, vmap_method=None))(X)


def test_several_results():
    result = jax.ShapeDtypeStruct(X.shape, np.float32)
    out = jax.ffi.ffi_call("test_SumAndDifference", (result, result))(X, 2 * X)
    assert isinstance(out, list)
    np.testing.assert_array_equal(out[0], 3 * X)
    np.testing.assert_array_equal(out[1], -X)


def test_derivatives():
    with pytest.raises(ValueError, match="'test_RmsNorm' cannot be differentiated"):
        jax.grad(lambda x: rms_norm(x).sum())(X)

    @jax.custom_jvp
    def f(x):
        return rms_norm(x)

    reference = lambda x: x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPS)
    f.defjvp(lambda primals, tangents: (f(*primals), jax.jvp(reference, primals, tangents)[1]))
    ours = jax.vmap(jax.grad(lambda x: f(x)[0]))(X)
    theirs = jax.vmap(jax.grad(lambda x: reference(x)[0]))(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_side_effects(library):
    calls = ctypes.c_int64.in_dll(library, "rms_norm_calls")
    for has_side_effect in (False, True):
        f = jax.jit(lambda x: (rms_norm(x, has_side_effect=has_side_effect), x + 1)[1])
        before = calls.value
        jax.block_until_ready(f(X))
        assert calls.value - before == has_side_effect


def test_effects_in_control_flow(library):
    calls = ctypes.c_int64.in_dll(library, "rms_norm_calls")

    @jax.jit
    def f(x):
        def body(carry, _):
            rms_norm(carry, has_side_effect=True)
            return carry + 1, None

        return jax.lax.scan(body, x, length=5)[0]

    before = calls.value
    jax.block_until_ready(f(X))
    assert calls.value - before == 5


def test_layouts():
    def in_memory(x, layout_in, layout_out):
        result = jax.ShapeDtypeStruct(x.shape, np.float32)
        f = jax.ffi.ffi_call(
            "test_InMemory",
            result,
            input_layouts=[layout_in],
            output_layouts=layout_out,
            vmap_method="broadcast_all",
        )
        return f(x)

    columns = np.ascontiguousarray(X.T).reshape(X.shape)
    for order in ((1, 0), Layout((1, 0))):
        np.testing.assert_array_equal(in_memory(X, None, None), X)
        np.testing.assert_array_equal(in_memory(X, order, order), X)
        np.testing.assert_array_equal(in_memory(X, order, None), columns)
    stacked = np.stack([X, 2 * X])
    batched = jax.vmap(lambda x: in_memory(x, (1, 0), None))(stacked)
    np.testing.assert_array_equal(batched, np.stack([columns, 2 * columns]))


def test_aliases():
    f = jax.jit(lambda x: rms_norm(x, input_output_aliases={0: 0}), donate_argnums=0)
    np.testing.assert_allclose(f(jnp.asarray(X)), expected(X), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(f)(jnp.asarray(X)), expected(X), rtol=1e-6)


S = jax.ShapeDtypeStruct((3, 4), np.float32)


@pytest.mark.parametrize(
    "error, match, make",
    [
        (ValueError, "input_layouts.*1 inputs, but 2", lambda: ({"input_layouts": [None, None]}, {})),
        (ValueError, r"input_layouts\[0\].*permutation", lambda: ({"input_layouts": [(0, 0)]}, {})),
        (ValueError, r"output_layouts\[0\].*permutation", lambda: ({"output_layouts": (0,)}, {})),
        (ValueError, "1:0.*input number 1", lambda: ({"input_output_aliases": {1: 0}}, {})),
        (ValueError, "0:2.*output number 2", lambda: ({"input_output_aliases": {0: 2}}, {})),
        (ValueError, "vmap_method.*'bad'", lambda: ({"vmap_method": "bad"}, {})),
        (ValueError, "version < 4", lambda: ({"legacy_backend_config": "a"}, {})),
        (TypeError, "string", lambda: ({"legacy_backend_config": {}, "custom_call_api_version": 1}, {})),
        (TypeError, r"attribute eps.*got \[1\]", lambda: ({}, {"eps": [1]})),
        (TypeError, r"attribute a\['b'\]", lambda: ({}, {"a": {"b": [1]}})),
        (TypeError, "attribute", lambda: ({}, {"eps": object()})),
    ],
)  # fmt: skip
def test_errors(error, match, make):
    options, attributes = make()
    with pytest.raises(error, match=match):
        jax.ffi.ffi_call("test_RmsNorm", S, **options)(X, **attributes)


def test_errors_of_results_and_targets():
    with pytest.raises(ValueError, match="'shape' and 'dtype'.*position 1"):
        jax.ffi.ffi_call("test_RmsNorm", [S, 3])
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_target"):
        jax.ffi.ffi_call("no_such_target", S)(X)
    with pytest.raises(jax.errors.JaxRuntimeError, match="must have a dimension"):
        jax.ffi.ffi_call("test_RmsNorm", jax.ShapeDtypeStruct((), np.float32))(
            np.float32(1), eps=EPS
        )
    with pytest.raises(jax.errors.JaxRuntimeError):
        jax.ffi.register_ffi_target("test_nothing", 3)
    with pytest.raises(ValueError, match="register_ffi_type"):
        jax.ffi.register_ffi_type_id("test_type", None)


def test_attributes_of_different_types_are_different_programs():
    call = jax.ffi.ffi_call("target", S)
    lower = lambda n: jax.jit(lambda x: call(x, n=n)).lower(X).as_text()
    assert "1 : i64" in lower(1)
    assert "true" in lower(True)
    assert ": f64" in lower(1.0)
    one, true = (jax.make_jaxpr(lambda x: call(x, n=n))(X).eqns[0].params for n in (1, True))
    assert one["attributes"] != true["attributes"]
    nested = lower({"b": {"c": np.int32(7)}, "d": (1, 2.5)})
    assert "c = 7 : i32" in nested and "[1, 2.5" in nested


def test_attributes_of_every_kind():
    """As text, since nothing is called: what XLA hands to the native function."""
    kinds = {
        "a": (True, "true"),
        "b": (np.int8(-3), "-3 : i8"),
        "c": (np.uint64(2**64 - 1), "18446744073709551615 : ui64"),
        "d": (ml_dtypes.bfloat16(1), "1.000000e+00 : bf16"),
        "e": (np.arange(3, dtype=np.int16), "dense<[0, 1, 2]> : tensor<3xi16>"),
        "f": (np.zeros((0,), np.float32), "dense<> : tensor<0xf32>"),
        "g": (
            np.ones(2, np.complex64),
            "dense<(1.000000e+00,0.000000e+00)> : tensor<2xcomplex<f32>>",
        ),
        "h": ("text", '"text"'),
        "i": (b"bytes", '"bytes"'),
        "j": (np.dtype("float32"), "f32"),
        "k": ((1, "a", (2.5,)), '[1, "a", [2.500000e+00]]'),
        "l": ({"x": np.float16(1)}, "{x = 1.000000e+00 : f16}"),
        "m": ((), "[]"),
        "n": (float("inf"), "0x7FF0000000000000 : f64"),
    }
    call = jax.ffi.ffi_call("target", S)
    attributes = {key: value for key, (value, _) in kinds.items()}
    text = jax.jit(lambda x: call(x, **attributes)).lower(X).as_text()
    for key, (_, expected) in kinds.items():
        assert f"{key} = {expected}" in text, key
    with pytest.raises(OverflowError, match="attribute n is 9223372036854775808.*np.uint64"):
        call(X, n=2**63)


def test_64_bit_results_without_64_bit_types():
    call = jax.ffi.ffi_call("target", jax.ShapeDtypeStruct((3,), np.float64))
    assert jax.eval_shape(call, X).dtype == np.float64


def test_keys():
    """Operands and results of an extended dtype are the arrays that represent them."""
    keys = jax.random.split(jax.random.key(0), (2, 3))
    result = jax.ShapeDtypeStruct(keys.shape, keys.dtype)
    copy = lambda keys, **kwargs: jax.ffi.ffi_call(
        "test_CopyWords", result, vmap_method="broadcast_all", **kwargs
    )(keys)
    for f in (copy, jax.jit(copy), lambda keys: copy(keys, input_output_aliases={0: 0})):
        out = f(keys)
        assert out.dtype == keys.dtype
        np.testing.assert_array_equal(jax.random.key_data(out), jax.random.key_data(keys))
    out = jax.vmap(copy)(jnp.stack([keys, keys]))
    np.testing.assert_array_equal(jax.random.key_data(out[1]), jax.random.key_data(keys))
    out = copy(keys, input_layouts=[(1, 0)], output_layouts=(1, 0))
    np.testing.assert_array_equal(jax.random.key_data(out), jax.random.key_data(keys))


@pytest.mark.parametrize("routine", ["spotrf", "sgetrf"])
def test_lapack_is_registered_for_direct_calls(routine):
    """In a new process, where nothing else has loaded LAPACK."""
    result = subprocess.run(
        [sys.executable, "-c", LAPACK_PROGRAM, routine], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


LAPACK_PROGRAM = """
import sys, numpy as np, jax
S, x = jax.ShapeDtypeStruct, np.array([[4, 1], [1, 3]], np.float32)
more = [S((2,), np.int32)] if sys.argv[1] == "sgetrf" else []
results = [S((2, 2), np.float32), *more, S((), np.int32)]
layouts = [(1, 0)] + [None] * (len(results) - 1)
attributes = {} if more else {"uplo": np.uint8(ord("L"))}
call = jax.ffi.ffi_call(f"lapack_{sys.argv[1]}_ffi", results, input_layouts=[(1, 0)], output_layouts=layouts)
factor, *_, info = call(x, **attributes)
assert info == 0
np.testing.assert_allclose(factor[1, 0], 0.25 if more else 0.5)
"""


def test_lowering_rule_of_a_primitive():
    p = jax.extend.core.Primitive("test_rms_norm")
    p.def_abstract_eval(lambda x, *, eps: jax.core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, jax.ffi.ffi_lowering("test_RmsNorm"), platform="cpu")
    np.testing.assert_allclose(jax.jit(lambda x: p.bind(x, eps=EPS))(X), expected(X), rtol=1e-6)


def test_include_dir():
    assert (pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "ffi.h").is_file()
