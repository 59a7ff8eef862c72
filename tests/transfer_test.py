"""Transfers of arrays within a process and between two."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import xla_bridge as xb
from jax.errors import JaxRuntimeError
from jax.experimental import transfer
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass


HERE = "127.0.0.1:0"


@pytest.fixture(scope="module")
def devices():
    return xb.devices("cpu")


@pytest.fixture(scope="module")
def server(devices):
    return transfer.start_transfer_server(devices[0].client, HERE, [HERE])


@pytest.fixture
def connection(server):
    return server.connect(server.address())


@pytest.fixture(scope="module")
def mesh(devices):
    return Mesh(np.array(devices[:8]).reshape(4, 2), ("x", "y"), (AxisType.Auto,) * 2)


def spec(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def test_trees(server, connection, devices):
    values = {
        "a": np.arange(3, dtype=np.int8),
        "b": [np.ones((2, 2), ml_dtypes.bfloat16), np.array(True)],
        "c": (np.zeros((0, 3), np.float32),),
    }
    arrays = jax.device_put(values, devices[1])
    server.await_pull(1, arrays)
    out = connection.pull(1, jax.tree.map(spec, arrays))
    jax.tree.map(np.testing.assert_array_equal, out, values)
    assert out["a"].dtype == np.int8 and out["a"].sharding == SingleDeviceSharding(devices[1])
    assert out["a"].committed


def test_sharded_arrays(server, connection, mesh):
    x = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    array = jax.device_put(x, NamedSharding(mesh, P("x", "y")))
    server.await_pull(2, [array])
    (out,) = connection.pull(2, [array])  # arrays tell their types, too
    np.testing.assert_array_equal(out, x)
    assert out.sharding == array.sharding


def test_pull_before_the_array_is_offered(server, connection, devices):
    x = jax.device_put(np.arange(4), devices[0])
    out = connection.pull(3, spec(x))
    server.await_pull(3, x)
    np.testing.assert_array_equal(out, np.arange(4))


def test_random_keys(server, connection, devices):
    key = jax.device_put(jax.random.split(jax.random.key(1), 3), devices[0])
    server.await_pull(4, key)
    out = connection.pull(4, spec(key))
    assert out.dtype == key.dtype and (jax.random.key_data(out) == jax.random.key_data(key)).all()


def test_nothing(server, connection):
    server.await_pull(5, [])
    assert connection.pull(5, []) == []


def test_other_size_than_offered(server, connection, devices):
    x = jax.device_put(np.arange(10.0), devices[0])
    server.await_pull(6, x)
    small = jax.ShapeDtypeStruct((3,), x.dtype, sharding=x.sharding)
    with pytest.raises(JaxRuntimeError, match="Invalid slicing"):
        jax.block_until_ready(connection.pull(6, small))


def test_bad_arguments(server, connection, devices):
    for bad in (np.ones(3), 3, "text"):
        with pytest.raises(TypeError, match="await_pull takes a pytree of arrays"):
            server.await_pull(7, bad)
        with pytest.raises(TypeError, match="pull takes a pytree of jax.ShapeDtypeStruct"):
            connection.pull(7, bad)
    with pytest.raises(TypeError, match="outside of transformations"):
        jax.jit(lambda x: server.await_pull(7, x))(1.0)
    with pytest.raises(TypeError, match="with shardings"):
        connection.pull(7, jax.ShapeDtypeStruct((3,), np.float32))
    x = jax.device_put(1.0, devices[0])
    with pytest.raises(ValueError, match="uint64"):
        server.await_pull(-1, x)
    with pytest.raises(JaxRuntimeError, match="missing colon"):
        server.connect("nonsense")


def test_error_arrays(devices):
    sharding = SingleDeviceSharding(devices[1])
    kind = jax.ShapeDtypeStruct((3,), np.float32, sharding=sharding)
    array = transfer.make_error_array(kind, ValueError("lost"))
    assert array.shape == (3,) and array.sharding == sharding
    with pytest.raises(JaxRuntimeError, match="lost"):
        array.block_until_ready()
    with pytest.raises(JaxRuntimeError, match="lost"):
        (array + 1).block_until_ready()
    for bad in (3, jax.ShapeDtypeStruct((3,), np.float32)):
        with pytest.raises(TypeError, match="a type with a sharding"):
            transfer.make_error_array(bad, "lost")


OTHER_PROCESS = """
import jax, sys
import jax.numpy as jnp
from jax.experimental import transfer

device = jax.devices("cpu")[0]
server = transfer.start_transfer_server(device.client, "127.0.0.1:0", ["127.0.0.1:0"])
connection = server.connect(sys.argv[1])
sharding = jax.sharding.SingleDeviceSharding(device)
x = connection.pull(11, jax.ShapeDtypeStruct((8,), jnp.float32, sharding=sharding))
server.await_pull(12, x * 2)
print(server.address(), flush=True)
sys.stdin.readline()
"""


def test_two_processes(server, devices):
    x = jax.device_put(np.arange(8, dtype=np.float32), devices[3])
    server.await_pull(11, x)
    command = [sys.executable, "-W", "error", "-c", OTHER_PROCESS, server.address()]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        address = other.stdout.readline().strip()
        connection = server.connect(address)
        out = connection.pull(12, spec(x))
        np.testing.assert_array_equal(out, 2 * np.arange(8))
        never = connection.pull(13, spec(x))  # the other process ends before it offers this
        other.stdin.write("done\n")
        other.stdin.close()
        assert other.wait() == 0
    with pytest.raises(JaxRuntimeError, match="[Cc]onnection closed"):
        never.block_until_ready()
    assert jnp.sum(x) == 28.0  # this process goes on
