"""Checkpoints that this jax and the oracle have written, and what is read from them.

`PYTHON tests/checkpoint_files.py NAME` writes tests/testdata/checkpoints_NAME.zip: `own` with this
jax, `oracle` with `.oracle/bin/python`. array_serialization_scenarios.py reads both with both.
"""

import collections
import pathlib
import sys
import tempfile
import zipfile

import numpy as np

import jax
import jax.numpy as jnp
from jax.experimental.array_serialization import pytree_serialization, serialization
from jax.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass

TESTDATA = pathlib.Path(__file__).absolute().parent / "testdata"
DTYPES = (
    "bool int2 int4 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8_e3m4 float8_e4m3fn"
    " float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn"
    " float16 bfloat16 float32 float64 complex64 complex128"
).split()
WIDE = ("int64", "uint64", "float64", "complex128")


def named(sizes, *spec):
    axes = ("x", "y")[: len(sizes)]
    devices = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
    return NamedSharding(jax.sharding.Mesh(devices, axes), P(*spec))


def single(device=0):
    return SingleDeviceSharding(jax.devices()[device])


def matrix(*spec, sizes=(4, 2), shape=(8, 8)):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return jax.device_put(values, named(sizes, *spec))


def tree():
    return {
        "sharded": matrix("x", "y"),
        "replicated in part": matrix(None, "x"),
        "nested": [None, (jnp.float32(1.5), jnp.zeros((0, 3)), [], {})],
        "ordered": collections.OrderedDict(b=jnp.arange(3), a=jnp.arange(4, dtype=jnp.bfloat16)),
    }


def write(folder):
    """Writes checkpoints in all the formats there are."""
    pytree_serialization.save(tree(), folder / "tree")
    with jax.enable_x64(True):
        types = {dtype: jnp.asarray([0, 1, 1], dtype) for dtype in DTYPES}
        pytree_serialization.save(types, folder / "types")
    for driver in ("zarr", "zarr3"):
        for ocdbt in (False, True):
            path = folder / f"{driver}{ocdbt}" / "x"
            spec = serialization.get_tensorstore_spec(str(path), ocdbt=ocdbt, driver=driver)
            serialization.run_serialization([matrix("x", "y")], [spec])
    manager = serialization.GlobalAsyncCheckpointManager()
    manager.serialize_with_paths([matrix("y"), jnp.int32(3)], [f"{folder}/m/a", f"{folder}/m/b"])
    manager.wait_until_finished()


def read(folder):
    """What there is in the checkpoints that `write` has written."""
    found = [pytree_serialization.load(folder / "tree", single())]
    with jax.enable_x64(True):
        types = pytree_serialization.load(folder / "types", single())
    # The oracle loads in a thread, which does not know of this context.
    narrow = {name: x for name, x in types.items() if name not in WIDE}
    values = {name: np.asarray(x).astype("complex64") for name, x in types.items()}
    found += [values, {name: str(x.dtype) for name, x in narrow.items()}]
    for driver in ("zarr", "zarr3"):
        for ocdbt in (False, True):
            path = folder / f"{driver}{ocdbt}" / "x"
            spec = serialization.get_tensorstore_spec(str(path), ocdbt=ocdbt, driver=driver)
            found += serialization.run_deserialization([named((2, 4), "y")], [spec])
    manager = serialization.GlobalAsyncCheckpointManager()
    paths = [f"{folder}/m/a", f"{folder}/m/b"]
    found += manager.deserialize_with_paths([single(), named((8,))], paths)
    return found


def read_archive(name):
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(TESTDATA / f"checkpoints_{name}.zip") as archive:
            archive.extractall(folder)
        return read(pathlib.Path(folder))


def write_archive(name):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write(root)
        with zipfile.ZipFile(
            TESTDATA / f"checkpoints_{name}.zip", "w", zipfile.ZIP_DEFLATED
        ) as archive:
            for path in sorted(root.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(root))


if __name__ == "__main__":
    write_archive(sys.argv[1])
