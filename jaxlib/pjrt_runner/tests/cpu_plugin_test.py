"""Runs exported programs on XLA's plugin for CPUs, and compares with what jax computes."""

import os
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import export
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

RUNNER = Path(os.environ["PJRT_RUNNER"]).absolute()
PLUGIN = Path(os.environ["PJRT_PLUGIN"]).absolute()
SIXTEEN = np.arange(16, dtype=np.float32).reshape(4, 4)


def run(*arguments, plugin=PLUGIN):
    command = [RUNNER, f"--plugin={plugin}", *arguments]
    return subprocess.run([str(a) for a in command], capture_output=True, text=True)


@pytest.fixture
def files(tmp_path):
    """Stores an exported program and its arguments, and returns their paths."""

    def store(exported, *arguments):
        module = tmp_path / "module"
        module.write_bytes(exported.serialize())
        paths = [tmp_path / f"argument_{i}.npy" for i in range(len(arguments))]
        for path, argument in zip(paths, arguments, strict=True):
            np.save(path, argument)
        return [f"--module={module}", *paths]

    return store


def outputs(folder, like):
    leaves = jax.tree.leaves(like)
    arrays = [np.load(folder / f"output_{i}.npy") for i in range(len(leaves))]
    assert len(list(folder.iterdir())) == len(leaves)
    # of bfloat16 and its like files have raw bytes
    return [
        x.view(y.dtype) if x.dtype.kind == "V" else x for x, y in zip(arrays, leaves, strict=True)
    ]


def check(files, tmp_path, fun, *arguments, platforms=("cpu",), options=()):
    exported = export.export(
        jax.jit(fun) if not hasattr(fun, "lower") else fun, platforms=platforms
    )(*arguments)
    done = run(*files(exported, *arguments), f"--output-dir={tmp_path / 'out'}", *options)
    assert done.returncode == 0, done.stderr
    wanted = exported.call(*arguments)
    for got, want in zip(outputs(tmp_path / "out", wanted), jax.tree.leaves(wanted), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got, np.asarray(want))


def test_trees_and_arguments_that_are_not_used(files, tmp_path):
    def fun(x, unused, y):
        return {"product": x @ y, "both": (y.T, x + 1), "none": None}

    check(files, tmp_path, fun, SIXTEEN, np.int32(3), SIXTEEN)


@pytest.mark.parametrize(
    "dtype",
    "bool int8 uint16 int64 float16 float64 complex64 bfloat16 float8_e4m3fn float8_e5m2 int4 uint4".split(),
)
def test_dtypes(files, tmp_path, dtype):
    # the plugin, of 2025, copies int4 of two dimensions by strides that it does not set
    shape = (6,) if "int4" in dtype else (3, 2)
    dtype = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    with jax.enable_x64(True):
        x = np.array([0, 1, 1, 3, 2, 7]).astype(dtype).reshape(shape)
        check(files, tmp_path, lambda x: (x, x.T, jnp.real(x).astype(jnp.int32)), x)


def test_orders_of_files(files, tmp_path):
    x = np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    check(files, tmp_path, lambda x: x * 2, x)
    exported = export.export(jax.jit(lambda x: x * 2), platforms=("cpu",))(x)
    arguments = files(exported, x.astype(">f4"))
    assert run(*arguments, f"--output-dir={tmp_path / 'big'}").returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "big" / "output_0.npy"), x * 2)


def test_several_platforms(files, tmp_path):
    check(files, tmp_path, lambda x: jnp.cumsum(x), SIXTEEN, platforms=("tpu", "cpu", "cuda"))


def test_empty_arrays(files, tmp_path):
    check(files, tmp_path, lambda x: (x + 1, x.sum()), np.zeros((0, 3), np.float32))


def test_keys(files, tmp_path):
    exported = export.export(jax.jit(lambda key: jax.random.bits(key, (4,))), platforms=("cpu",))(
        jax.random.key(3)
    )
    arguments = files(exported, jax.random.key_data(jax.random.key(3)))
    assert run(*arguments, f"--output-dir={tmp_path / 'out'}").returncode == 0
    wanted = jax.random.bits(jax.random.key(3), (4,))
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "output_0.npy"), wanted)


@pytest.fixture
def settings():
    names = "jax_use_shardy_partitioner", "jax_export_calling_convention_version"
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize(("shardy", "convention"), [(True, 10), (True, 9), (False, 9)])
def test_devices(files, tmp_path, settings, shardy, convention):
    jax.config.update("jax_use_shardy_partitioner", shardy)
    jax.config.update("jax_export_calling_convention_version", convention)
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    s = lambda *axes: NamedSharding(mesh, P(*axes))
    fun = jax.jit(
        lambda a, b: (a @ b, a.sum(), b.T, a[0]),
        in_shardings=(s("x", "y"), s()),
        out_shardings=(s(None, ("x", "y")), None, s("y", "x"), s()),
    )
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    exported = export.export(fun, platforms=("cpu",))(x, x)
    arguments = files(exported, x, x)
    folder = tmp_path / "out"
    for devices in ("0,1,2,3,4,5,6,7", "7,2,1,5,0,3,6,4"):
        done = run(
            *arguments,
            "--option=cpu_device_count=8",
            f"--devices={devices}",
            f"--output-dir={folder}",
        )
        assert done.returncode == 0, done.stderr
        for got, want in zip(outputs(folder, [x] * 4), (x @ x, x.sum(), x.T, x[0]), strict=True):
            np.testing.assert_array_equal(got, want)
    few = run(*arguments, "--option=cpu_device_count=4")
    assert few.returncode == 3 and "for 8 devices, and there are 4" in few.stderr


def test_compiled_programs_in_files(files, tmp_path):
    exported = export.export(jax.jit(lambda x: x * 2 + 1), platforms=("cpu",))(SIXTEEN)
    module, argument = files(exported, SIXTEEN)
    saved = tmp_path / "executable"
    done = run(module, "--compile-only", f"--save-executable={saved}")
    assert done.returncode == 0 and "bytes on each device, arguments: 64" in done.stdout
    for more in ([], [module]):
        folder = tmp_path / f"out_{len(more)}"
        done = run(*more, argument, f"--load-executable={saved}", f"--output-dir={folder}")
        assert done.returncode == 0 and "loaded" in done.stdout, done.stderr
        np.testing.assert_array_equal(np.load(folder / "output_0.npy"), SIXTEEN * 2 + 1)
    saved.write_bytes(b"junk")
    done = run(argument, f"--load-executable={saved}")
    assert done.returncode == 1 and "PJRT_Executable_DeserializeAndLoad failed with" in done.stderr


def test_modules_of_stablehlo(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3).astype(ml_dtypes.bfloat16))
    text = jax.jit(lambda x: x + x).lower(jax.ShapeDtypeStruct((3,), jnp.bfloat16)).as_text()
    (tmp_path / "module.mlir").write_text(text)
    module = f"--module={tmp_path / 'module.mlir'}"
    done = run(module, f"bfloat16:{tmp_path / 'x.npy'}", f"--output-dir={tmp_path / 'out'}")
    assert done.returncode == 0, done.stderr
    (x,) = outputs(tmp_path / "out", [jnp.zeros(3, jnp.bfloat16)])
    assert x.tolist() == [0, 2, 4]
    done = run(module)
    assert done.returncode == 1 and "PJRT_LoadedExecutable_Execute failed with" in done.stderr


def test_errors_of_the_plugin(files, tmp_path):
    exported = export.export(jax.jit(lambda x: x), platforms=("cpu",))(SIXTEEN)
    arguments = files(exported, SIXTEEN)
    done = run(*arguments, "--compile-option=xla_no_such_option=1")
    assert done.returncode == 1
    assert "PJRT_Client_Compile failed with INVALID_ARGUMENT: No such compile option" in done.stderr
    done = run(arguments[0], "--topology=v5e:2x2")
    assert done.returncode == 1
    assert "PJRT_TopologyDescription_Create failed with UNIMPLEMENTED" in done.stderr
    # a module that no flatbuffer check can tell from a good one
    (tmp_path / "text").write_text("module {")
    done = run(f"--module={tmp_path / 'text'}")
    assert done.returncode == 1 and "PJRT_Client_Compile failed with" in done.stderr


def test_programs_that_are_refused(files, tmp_path):
    (size,) = export.symbolic_shape("b")
    symbolic = export.export(jax.jit(lambda x: x + 1), platforms=("cpu",))(
        jax.ShapeDtypeStruct((size, 4), np.float32)
    )
    done = run(*files(symbolic, SIXTEEN))
    assert done.returncode == 3 and "float32[b, 4], with symbolic dimensions" in done.stderr
    within = export.export(jax.jit(symbolic.call), platforms=("cpu",))(SIXTEEN)
    done = run(*files(within, SIXTEEN))
    assert done.returncode == 3 and "has symbolic dimensions within" in done.stderr
    other = export.export(jax.jit(lambda x: x), platforms=("tpu",))(SIXTEEN)
    done = run(*files(other, SIXTEEN))
    assert done.returncode == 3 and "for the platforms tpu, and the plugin's is cpu" in done.stderr


def test_damaged_programs(files, tmp_path):
    exported = export.export(jax.jit(lambda x: x * 2), platforms=("cpu",))(SIXTEEN)
    module, argument = files(exported, SIXTEEN)
    path = Path(module.removeprefix("--module="))
    good = bytearray(path.read_bytes())
    checked = len(good) - 10  # without the checksum and the mark before it
    for place in range(0, checked, checked // 20):
        damaged = bytearray(good)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        done = subprocess.run([RUNNER, "--describe", module], capture_output=True, text=True)
        assert done.returncode == 3 and "checksum is wrong" in done.stderr, place
