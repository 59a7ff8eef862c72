"""`jax.export.to_onnx`: models give onnxruntime the numbers that jit gives."""

import functools
import re
import sys
import tempfile
import zipfile

import export_programs
import numpy as np
import onnx
import onnxruntime
import pytest
from export_files import archive
from onnx_programs import GROUPS, SIZES

import jax
import jax.numpy as jnp
from jax import export, lax, nn

NAMES = [f"{group}/{name}" for group, g in GROUPS.items() for name in g.functions]


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path, arrays):
    """The results of a model."""
    sess = session(path)
    return sess.run(
        None, {i.name: np.asarray(a) for i, a in zip(sess.get_inputs(), arrays, strict=True)}
    )


def plain(x):
    """bfloat16, which NumPy lacks, as float32."""
    x = jnp.asarray(x)
    return x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x


@functools.cache
def results(name):
    """What onnxruntime and jit give for the functions of a group, for each size of the batch."""
    group = GROUPS[name]
    with jax.enable_x64(group.x64), tempfile.TemporaryDirectory() as folder:
        (b,) = export.symbolic_shape("b")
        specs = [
            jax.ShapeDtypeStruct([b if n == "b" else n for n in shape], dtype)
            for dtype, shape, _ in group.arguments.values()
        ]

        def together(*args):
            return {k: jax.tree.map(plain, f(*args)) for k, f in group.functions.items()}

        exported = export.export(jax.jit(together))(*specs)
        path = f"{folder}/model.onnx"
        export.to_onnx(exported, path)
        found = []
        for size in SIZES if group.symbolic() else SIZES[:1]:
            arrays = group.values(size)
            got = jax.tree.unflatten(exported.out_tree, run(path, arrays))
            found.append((got, jax.tree.map(np.asarray, exported.call(*arrays))))
        return found


@pytest.mark.parametrize("name", NAMES)
def test_same_numbers(name):
    group, function = name.split("/")
    tolerance = 1e-2 if "float16" in function else GROUPS[group].tolerance
    for got, want in results(group):
        for a, b in zip(
            jax.tree.leaves(got[function]), jax.tree.leaves(want[function]), strict=True
        ):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            if a.dtype.kind == "f":
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(a, b)


# The file and its names


def affine(params, x):
    return {"y": x @ params["w"] + params["b"], "size": x.shape[0]}


def exported_affine():
    (b,) = export.symbolic_shape("b")
    params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    x = jax.ShapeDtypeStruct((b, 3), np.float32)
    return export.export(jax.jit(affine))(params, x)


def types(values):
    return [(v.name, v.type, v.shape) for v in values]


def test_names_and_sizes_of_inputs_and_outputs(tmp_path):
    export.to_onnx(exported_affine(), tmp_path / "affine.onnx")
    sess = session(tmp_path / "affine.onnx")
    assert types(sess.get_inputs()) == [
        ("params['b']", "tensor(float)", [2]),
        ("params['w']", "tensor(float)", [3, 2]),
        ("x", "tensor(float)", ["b", 3]),
    ]
    assert types(sess.get_outputs()) == [
        ("result['size']", "tensor(int32)", []),
        ("result['y']", "tensor(float)", ["b", 2]),
    ]


def test_given_names(tmp_path):
    path = tmp_path / "affine.onnx"
    export.to_onnx(exported_affine(), path, input_names=["b", "w", "x"], output_names=["size", "y"])
    sess = session(path)
    assert [v.name for v in sess.get_inputs()] == ["b", "w", "x"]
    assert [v.name for v in sess.get_outputs()] == ["size", "y"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"input_names": ["b", "w"]}, "input_names must be 3 distinct names"),
        ({"output_names": ["y", "y"]}, "output_names must be 2 distinct names"),
        ({"output_names": ["x", "y"]}, "must differ from the names of inputs, got ['x']"),
        ({"input_names": "bwx"}, "input_names must be 3 distinct names"),
    ],
)
def test_bad_names(tmp_path, names, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        export.to_onnx(exported_affine(), tmp_path / "affine.onnx", **names)
    assert not list(tmp_path.iterdir())


def test_unused_arguments_are_inputs(tmp_path):
    exported = export.export(jax.jit(lambda x, unused, y: x - y))(1.0, 2, 3.0)
    assert len(exported.module_kept_var_idx) == 2
    export.to_onnx(exported, tmp_path / "f.onnx")
    sess = session(tmp_path / "f.onnx")
    assert [v.name for v in sess.get_inputs()] == ["x", "args[1]", "y"]
    assert run(tmp_path / "f.onnx", [np.float32(1), np.int32(0), np.float32(3)]) == [-2]


def test_programs_from_bytes_and_for_several_platforms(tmp_path):
    exported = export.export(jax.jit(lambda x: jnp.cumsum(nn.softmax(x))), platforms=("tpu", "cpu"))
    exported = exported(np.arange(4, dtype=np.float32))
    export.to_onnx(export.deserialize(exported.serialize()), tmp_path / "f.onnx")
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(run(tmp_path / "f.onnx", [x])[0], exported.call(x), rtol=1e-6)


def test_weights_in_a_file_of_their_own(tmp_path):
    weights = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    exported = export.export(jax.jit(lambda x: x @ weights))(np.ones((2, 64), np.float32))
    path = tmp_path / "model.onnx"
    export.to_onnx(exported, path, external_data=True)
    assert {p.name for p in tmp_path.iterdir()} == {"model.onnx", "model.onnx.data"}
    assert path.stat().st_size < 4096
    x = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(run(path, [x])[0], x @ weights, rtol=1e-5, atol=1e-5)


def test_constants_of_all_types(tmp_path):
    kinds = [jnp.bfloat16, jnp.float8_e4m3fn, jnp.float16, np.uint8, np.bool_, np.int16]
    constants = [(np.arange(6) * 0.75 - 2).astype(k) for k in kinds]
    exported = export.export(jax.jit(lambda x: [x + c.astype(np.float32) for c in constants]))(
        np.zeros(6, np.float32)
    )
    export.to_onnx(exported, tmp_path / "f.onnx")
    for got, constant in zip(run(tmp_path / "f.onnx", [np.zeros(6, np.float32)]), constants):
        np.testing.assert_array_equal(got, constant.astype(np.float32))


FLOATS = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
]


def all_kinds_of_bits(dtype):
    """All numbers of a narrow type; of another one, any, all powers of two and what is beside them."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    if dtype.itemsize <= 2:
        return np.arange(1 << 8 * dtype.itemsize).astype(unsigned)
    info = jnp.finfo(dtype)
    exponents = np.arange(info.minexp - info.nmant, info.maxexp)
    powers = np.ldexp(dtype.type(1), exponents).view(unsigned)
    numbers = np.array([np.inf, np.nan, 1.5, 0.1], dtype).view(unsigned)
    some = np.random.default_rng(0).integers(0, np.iinfo(unsigned).max, 5000, unsigned)
    positive = np.concatenate(
        [powers, powers + unsigned.type(1), powers - unsigned.type(1), numbers]
    )
    return np.concatenate([some, positive, positive ^ (1 << 8 * dtype.itemsize - 1)])


@pytest.mark.parametrize("name", FLOATS)
def test_casts_of_bits(tmp_path, name):
    """There and back, without the operator that few runtimes have."""
    dtype = jnp.dtype(name)
    bits = all_kinds_of_bits(dtype)

    def f(bits):
        x = lax.bitcast_convert_type(bits, dtype)
        return x.astype(np.float64), lax.bitcast_convert_type(x, bits.dtype)

    with jax.enable_x64(True):
        export.to_onnx(export.export(jax.jit(f))(bits), tmp_path / "f.onnx")
    numbers, back = run(tmp_path / "f.onnx", [bits])
    with np.errstate(invalid="ignore"):
        want = bits.view(dtype).astype(np.float64)
    np.testing.assert_array_equal(numbers, want)
    np.testing.assert_array_equal(np.signbit(numbers)[want == 0], np.signbit(want)[want == 0])
    np.testing.assert_array_equal(back[~np.isnan(want)], bits[~np.isnan(want)])
    assert np.isnan(back.view(dtype)[np.isnan(want)].astype(np.float32)).all()


def test_numbers_without_their_low_bits(tmp_path):
    """What is computed from numbers rather than bits."""
    x = all_kinds_of_bits(np.dtype(np.float32)).view(np.float32)
    x = x[~np.isnan(x)]

    def f(x):
        bits = lax.bitcast_convert_type(x, np.int32)
        return [lax.bitcast_convert_type(bits & (-1 << k), np.float32) for k in (1, 12, 22)]

    export.to_onnx(export.export(jax.jit(f))(x), tmp_path / "f.onnx")
    for got, want in zip(run(tmp_path / "f.onnx", [x]), f(x), strict=True):
        np.testing.assert_array_equal(got, want)
    assert "Log" not in [n.op_type for n in onnx.load(tmp_path / "f.onnx").graph.node]


def test_tails_of_error_functions(tmp_path):
    """Relative to the results, which are much less than 1."""
    x = np.concatenate([np.linspace(-9, 9, 2001), [np.inf, -np.inf, np.nan]]).astype(np.float32)

    def f(x):
        return lax.erfc(x), nn.gelu(-x, approximate=False)

    export.to_onnx(export.export(jax.jit(f))(x), tmp_path / "f.onnx")
    for got, want in zip(run(tmp_path / "f.onnx", [x]), f(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-30)


def test_numbers_beyond_those_of_eight_bits(tmp_path):
    x = np.array([1e9, -1e9, np.inf, 448, 464, 57344], np.float32)

    def f(x):
        return [x.astype(k).astype(np.float32) for k in (jnp.float8_e4m3fn, jnp.float8_e5m2)]

    export.to_onnx(export.export(jax.jit(f))(x), tmp_path / "f.onnx")
    for got, want in zip(run(tmp_path / "f.onnx", [x]), f(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_of_scans_are_joined_once(tmp_path, reverse):
    """Not copied in each iteration, which takes quadratic time."""

    def f(x):
        return lax.scan(lambda c, row: (c + row, (c, row.sum())), x[0], x, reverse=reverse)

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    export.to_onnx(export.export(jax.jit(f))(x), tmp_path / "f.onnx")
    (loop,) = [n for n in onnx.load(tmp_path / "f.onnx").graph.node if n.op_type == "Loop"]
    body = loop.attribute[0].g
    assert len(body.output) == 1 + 2 + 2  # condition; counter and carry; rows
    assert len(body.input) == 2 + 2
    for got, want in zip(run(tmp_path / "f.onnx", [x]), jax.tree.leaves(f(x)), strict=True):
        np.testing.assert_array_equal(got, want)


# Programs of the oracle that have another form than ours
ORACLE_PROGRAMS = {
    "elementwise_positive": ("erfc", "lgamma", "erf_inv"),
    "integers": ("population_count", "clz"),
    "numpy": ("interp", "searchsorted", "histogram"),
    "sharded": ("rows", "dot"),
}


def test_programs_of_the_oracle(tmp_path):
    with zipfile.ZipFile(archive("oracle")) as file:
        for group, programs in ORACLE_PROGRAMS.items():
            for program in programs:
                fun, args, _ = export_programs.GROUPS[group][program]
                exported = export.deserialize(file.read(f"{group}/{program}"))
                export.to_onnx(exported, tmp_path / "f.onnx")
                got, want = run(tmp_path / "f.onnx", jax.tree.leaves(args)), fun(*args)
                for a, b in zip(got, jax.tree.leaves(want), strict=True):
                    np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_a_function_without_results(tmp_path):
    exported = export.export(jax.jit(lambda x: ()))(1.0)
    with pytest.raises(ValueError, match="it has no results"):
        export.to_onnx(exported, tmp_path / "f.onnx")


# What is refused


def test_everything_unsupported_is_listed_before_anything_is_written(tmp_path):
    def f(x, key):
        y = jnp.linalg.cholesky(x)  # line 1
        z = jnp.fft.fft(x)  # line 2
        return lax.cond(x[0, 0] > 0, lambda: y + jax.random.normal(key), lambda: abs(z))  # line 3

    jax.clear_caches()  # lines of operations are those of the first program that has them
    exported = export.export(jax.jit(f))(np.eye(3, dtype=np.float32), jax.random.PRNGKey(0))
    with pytest.raises(NotImplementedError) as error:
        export.to_onnx(exported, tmp_path / "f.onnx")
    message = str(error.value)
    first = f.__code__.co_firstlineno
    assert "to_onnx cannot convert 'f'" in message and "nothing was written" in message
    for line, what in enumerate(("cholesky", "fft", "random"), 1):
        assert re.search(rf"{what}.* at .*onnx_test.py:{first + line}", message), (what, message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("f", "argument", "message"),
    [
        (lambda x: x + 1j, np.ones(2, np.float32), "complex"),
        (jnp.abs, np.ones(2, np.complex64), "the argument x: arrays of complex64"),
        (
            lambda k: jax.random.uniform(k),
            jax.random.PRNGKey(0),
            "random numbers are not converted",
        ),
        (
            lambda x: jnp.abs(jnp.fft.rfft(x)),
            np.ones(4, np.float32),
            f"fft (stablehlo.fft) at {__file__}:LINE: arrays of complex<f32> have no form that runtimes "
            "compute with; split complex numbers into real and imaginary parts",
        ),
        (
            lambda x: x @ jnp.array([[1, -2], [3, 4]], jnp.int4).astype(np.float32),
            np.ones(2, np.float32),
            f"convert_element_type (stablehlo.constant) at {__file__}:LINE: arrays of i4 have no form",
        ),
        (jnp.linalg.inv, np.eye(2, dtype=np.float32), "native function 'lapack_sgetrf_ffi'"),
    ],
)
def test_unsupported(tmp_path, f, argument, message):
    exported = export.export(jax.jit(f))(argument)
    with pytest.raises(NotImplementedError, match=re.escape(message).replace("LINE", r"\d+")):
        export.to_onnx(exported, tmp_path / "f.onnx")
    assert not list(tmp_path.iterdir())


def test_an_exported_function_is_needed(tmp_path):
    with pytest.raises(TypeError, match=r"takes an Exported, got .*: export the function first"):
        export.to_onnx(jax.jit(jnp.sin), tmp_path / "f.onnx")


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install jax\[onnx\]"):
        export.to_onnx(exported_affine(), tmp_path / "affine.onnx")
