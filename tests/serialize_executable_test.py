"""Compiled functions as bytes, loaded in this process and in others."""

import os
import pickle
import subprocess
import sys
import tempfile
import unittest.mock
from pathlib import Path

import numpy as np
from absl.testing import absltest

import jax
import jax.numpy as jnp
from jax._src import config, hardware_utils, lib, test_util as jtu
from jax.experimental import serialize_executable
from jax.sharding import PartitionSpec as P

LOADING = """
import pickle, sys
import jax, numpy as np
from jax.experimental import serialize_executable

with open(sys.argv[1], "rb") as file:
    programs = pickle.load(file)
for name, serialized, args, expected in programs:
    loaded = serialize_executable.deserialize_and_load(*serialized)
    for _ in range(2):  # through Python, and natively
        jax.tree.map(np.testing.assert_array_equal, loaded(*args), expected)
    assert loaded.as_text() and loaded.cost_analysis() and loaded.memory_analysis(), name
print("done")
"""

X = np.arange(16, dtype=np.float32).reshape(4, 4)


def over_devices():
    mesh = jax.make_mesh((4, 2), ("i", "j"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    return jax.NamedSharding(mesh, P("i"))


def compiled(f, *args, **options):
    return jax.jit(f, **options).lower(*args).compile()


CONSTANT = np.linspace(0, 1, 4, dtype=np.float32)
PROGRAMS = {
    "tree": (lambda x, y: {"sum": x.sum() + y["k"], "x": x * 2}, (X, {"k": 2.0})),
    "unused argument": (lambda x, y: x + 1, (X, X)),
    "constant": (lambda x: x + jnp.asarray(CONSTANT), (X,)),
    "native functions": (lambda x: jnp.linalg.inv(x + jnp.eye(4)), (X,)),
    "random": (lambda x: x + jax.random.normal(jax.random.key(0), x.shape), (X,)),
    "key": (lambda x: jax.random.key_data(jax.random.key(3)) + x.astype(np.uint32)[0, :2], (X,)),
    "bfloat16": (lambda x: x.astype(jnp.bfloat16) / 3, (X,)),
}


class SerializeExecutableTest(absltest.TestCase):
    def test_in_another_process(self):
        stored = []
        for name, (f, args) in PROGRAMS.items():
            program = compiled(f, *args)
            expected = jax.tree.map(np.asarray, program(*args))
            stored.append((name, serialize_executable.serialize(program), args, expected))
        program = compiled(lambda x: (x @ x.T, x.sum()), X, in_shardings=over_devices())
        expected = jax.tree.map(np.asarray, program(X))
        stored.append(("devices", serialize_executable.serialize(program), (X,), expected))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "programs")
            file.write_bytes(pickle.dumps(stored))
            run = subprocess.run(
                [sys.executable, "-c", LOADING, str(file)],
                env=os.environ | {"JAX_NUM_CPU_DEVICES": "8"}, capture_output=True, text=True,
            )  # fmt: skip
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "done\n", ""))

    def test_what_is_known_of_the_program(self):
        program = compiled(lambda x, y: (x * 2, y), X, X, in_shardings=(over_devices(), None))
        loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(program))
        for name in ("args_info", "out_info", "in_tree", "out_tree", "input_shardings",
                     "output_shardings", "input_formats", "output_formats"):  # fmt: skip
            self.assertEqual(getattr(loaded, name), getattr(program, name), name)
        with self.assertRaisesRegex(
            TypeError, "Argument 'x' compiled with float32.4,4. and called"
        ):
            loaded(np.ones(3, np.float32), X)
        with self.assertRaisesRegex(TypeError, "does not match the input pytree"):
            loaded(X)

    def test_donated_arguments(self):
        program = compiled(lambda x: x + 1, jnp.asarray(X), donate_argnums=0)
        loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(program))
        x = jnp.asarray(X)
        np.testing.assert_array_equal(loaded(x), X + 1)
        self.assertTrue(x.is_deleted())

    def test_other_devices(self):
        serialized = serialize_executable.serialize(compiled(lambda x: x + 1, X))
        for device in jax.devices()[:3]:
            loaded = serialize_executable.deserialize_and_load(
                *serialized, backend="cpu", execution_devices=[device]
            )
            self.assertEqual(loaded(X).devices(), {device})
        with self.assertRaisesRegex(ValueError, "compiled for 1 devices, but .* has 2"):
            serialize_executable.deserialize_and_load(
                *serialized, execution_devices=jax.devices()[:2]
            )
        turned = serialize_executable.serialize(
            compiled(lambda x: x + 1, X, in_shardings=over_devices())
        )
        loaded = serialize_executable.deserialize_and_load(
            *turned, execution_devices=jax.devices()[::-1]
        )
        result = loaded(X)
        np.testing.assert_array_equal(result, X + 1)
        self.assertEqual(result.sharding.mesh.devices.ravel().tolist(), jax.devices()[::-1])

    def test_too_few_devices(self):
        program = compiled(lambda x: x + 1, X, in_shardings=over_devices())
        serialized = serialize_executable.serialize(program)
        client, two = jax.devices()[0].client, jax.devices()[:2]
        with unittest.mock.patch.object(type(client), "devices", lambda _: two):
            with self.assertRaisesRegex(ValueError, "no .2, 3, 4, 5, 6, 7. here. Pass 8 devices"):
                serialize_executable.deserialize_and_load(*serialized, backend=client)

    def test_functions_of_this_process(self):
        program = compiled(lambda x: jax.pure_callback(np.sin, x, x), X)
        with self.assertRaisesRegex(ValueError, "cannot be serialized, since it calls Python"):
            serialize_executable.serialize(program)

    def test_sorts(self):
        with config.native_kernels(False):
            program = compiled(lambda x: jnp.sort(x), X)
        serialized = serialize_executable.serialize(program)
        np.testing.assert_array_equal(program(X[:, ::-1]), X)
        with self.assertRaisesRegex(ValueError, "only before their first call: compile"):
            serialize_executable.serialize(program)
        loaded = serialize_executable.deserialize_and_load(*serialized)
        np.testing.assert_array_equal(loaded(X[:, ::-1]), X)

    def test_another_origin(self):
        serialized = serialize_executable.serialize(compiled(lambda x: x + 1, X))
        with unittest.mock.patch.object(lib, "version_str", "0.99.0"):
            with self.assertRaisesRegex(ValueError, "another version of jaxlib .* not '0.99.0'"):
                serialize_executable.deserialize_and_load(*serialized)
        with unittest.mock.patch.object(hardware_utils, "processor_features", lambda: frozenset()):
            with self.assertRaisesRegex(ValueError, "sets of instructions that this one lacks: "):
                serialize_executable.deserialize_and_load(*serialized)

    def test_damaged_bytes(self):
        serialized, *trees = serialize_executable.serialize(compiled(lambda x: x + 1, X))
        for bad in (b"", b"junk", pickle.dumps(1)):
            with self.assertRaisesRegex(ValueError, "The bytes are not a compiled program"):
                serialize_executable.deserialize_and_load(bad, *trees)
        for i in range(len(serialized) % 50 + 20, len(serialized), 50):
            bad = serialized[:i] + bytes([serialized[i] ^ 4]) + serialized[i + 1 :]
            for damaged in (bad, serialized[:i]):
                with self.assertRaisesRegex(ValueError, "The compiled program is damaged"):
                    serialize_executable.deserialize_and_load(damaged, *trees)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
