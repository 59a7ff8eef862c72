"""Arrays to and from other libraries through DLPack."""

import gc

import ml_dtypes
import numpy as np
import pytest

import jax
from jax._src import config, dlpack, xla_bridge
from jax._src.typing import DLDeviceType
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

if not xla_bridge.backends_are_initialized():
    jax.config.update("jax_num_cpu_devices", 8)

put = jax.device_put
from_dlpack = dlpack.from_dlpack
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "float32",
    "complex64",
]


@pytest.fixture
def devices():
    out = jax.devices("cpu")
    if len(out) < 2:
        pytest.skip("needs 2 devices")
    return out


@pytest.fixture
def x():
    return put(np.arange(6, dtype=np.float32).reshape(2, 3))


def aligned(shape):
    size = int(np.prod(shape)) * 4
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(np.float32).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (2, 3)])
def test_round_trips(dtype, shape):
    value = np.ones(shape, dtype)
    x = from_dlpack(value)
    assert x.dtype == value.dtype and x.committed
    np.testing.assert_array_equal(np.asarray(x), value)
    back = np.from_dlpack(put(value))
    assert back.dtype == value.dtype
    np.testing.assert_array_equal(back, value)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_types_that_numpy_does_not_know(dtype):
    y = from_dlpack(put(np.ones(2, dtype)))
    assert y.dtype == dtype and y.tolist() == [1, 1]


def test_types_without_equivalent():
    with pytest.raises(RuntimeError, match="no DLPack equivalent"):
        put(np.ones(2, ml_dtypes.int4)).__dlpack__()


def test_64_bit_types():
    assert from_dlpack(np.arange(3.0)).dtype == np.float32
    assert from_dlpack(np.arange(3)).dtype == np.int32
    with config.enable_x64(True):
        assert from_dlpack(np.arange(3.0)).dtype == np.float64


def test_memory_is_shared(x):
    assert from_dlpack(x).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert np.from_dlpack(x).ctypes.data == x.unsafe_buffer_pointer()
    assert not np.from_dlpack(x).flags.writeable
    value = aligned((4, 4))
    assert from_dlpack(value).unsafe_buffer_pointer() == value.ctypes.data
    y = from_dlpack(aligned((64,)))
    gc.collect()
    assert not np.asarray(y).any()


def test_transposes(x):
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(np.asarray(from_dlpack(value.T)), value.T)
    with pytest.raises(RuntimeError, match="compact"):
        from_dlpack(value[:, ::2])


def test_copies(x, devices):
    value = aligned((8,))
    assert from_dlpack(value, copy=True).unsafe_buffer_pointer() != value.ctypes.data
    assert from_dlpack(value, copy=False).unsafe_buffer_pointer() == value.ctypes.data
    assert from_dlpack(x, copy=True).unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match="requires a copy"):
        from_dlpack(x, device=devices[1], copy=False)
    with pytest.raises(ValueError, match="not aligned"):
        from_dlpack(aligned((9,))[1:], copy=False)
    misaligned = aligned((9,))[1:]
    assert from_dlpack(misaligned).unsafe_buffer_pointer() != misaligned.ctypes.data


def test_copies_to_numpy(x):
    assert np.from_dlpack(x, copy=False).ctypes.data == x.unsafe_buffer_pointer()
    assert np.from_dlpack(x, copy=True).ctypes.data != x.unsafe_buffer_pointer()
    assert np.asarray(x, copy=False).ctypes.data == x.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)


def test_devices(x, devices):
    assert from_dlpack(x, device=devices[1]).devices() == {devices[1]}
    assert from_dlpack(x, device=SingleDeviceSharding(devices[1])).devices() == {devices[1]}
    assert from_dlpack(x).devices() == {devices[0]}
    with pytest.raises(ValueError, match="singular device"):
        from_dlpack(x, device=NamedSharding(Mesh(np.array(devices[:2]), ("x",)), P()))
    with pytest.raises(ValueError, match="device"):
        from_dlpack(x, device="cpu")


@pytest.mark.parametrize("value", [1, [1], np.float32(1)])
def test_not_an_array(value):
    with pytest.raises(TypeError, match="must have __dlpack__ and __dlpack_device__ methods"):
        from_dlpack(value)


def test_capsules_and_tracers_are_refused(x):
    with pytest.raises(TypeError, match="must have __dlpack__"):
        from_dlpack(x.__dlpack__())
    with pytest.raises(TypeError):
        jax.jit(from_dlpack)(x)
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(lambda y: y.__dlpack__())(x)


def test_read_only_memory():
    value = np.arange(3, dtype=np.float32)
    value.flags.writeable = False
    with pytest.raises(BufferError):
        from_dlpack(value)


def test_unknown_devices():
    class Foreign:
        def __dlpack__(self, **kwargs):
            raise AssertionError("not asked for")

        def __dlpack_device__(self):
            return 99, 0

    with pytest.raises(TypeError, match="unsupported device type"):
        from_dlpack(Foreign())


def test_protocol(x, devices):
    assert x.__dlpack_device__() == (DLDeviceType.kDLCPU, 0)
    for kwargs in (
        {},
        {"max_version": (1, 0)},
        {"max_version": (0, 5)},
        {"dl_device": (1, 0)},
        {"dl_device": (1, 1)},
        {"copy": True},
        {"copy": False},
    ):
        assert "dltensor" in repr(x.__dlpack__(**kwargs))
    with pytest.raises(BufferError, match="versions"):
        x.__dlpack__(max_version=(0, 4))
    with pytest.raises(BufferError, match="unsupported device type"):
        x.__dlpack__(dl_device=(7, 1))
    with pytest.raises(ValueError, match="requires a copy"):
        x.__dlpack__(dl_device=(1, 1), copy=False)
    with pytest.raises(RuntimeError, match="Unknown backend|Backend 'cuda' failed to initialize"):
        x.__dlpack__(dl_device=(2, 0))


def test_only_arrays_on_one_device(devices):
    y = put(np.arange(8), NamedSharding(Mesh(np.array(devices[:2]), ("x",)), P("x")))
    for method in (y.__dlpack__, y.__dlpack_device__):
        with pytest.raises(BufferError):
            method()


def test_supported_types():
    assert jax.dlpack.is_supported_dtype(np.bool_) and jax.dlpack.is_supported_dtype("bfloat16")
    assert not jax.dlpack.is_supported_dtype("U1")
    with pytest.raises(TypeError):
        jax.dlpack.is_supported_dtype(None)
