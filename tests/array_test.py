"""`jax.Array`: attributes, conversions, printing, shards, pickling, deleted buffers, arrays from shards."""

import copy
import gc
import operator
import pickle
import re
import subprocess
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import jax
from jax import lax
from jax._src import array, config, core, dtypes, xla_bridge
from jax._src.layout import Format, Layout
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

if not xla_bridge.backends_are_initialized():
    jax.config.update("jax_num_cpu_devices", 8)

put = jax.device_put
REAL = [np.dtype(t) for t in ("f4", "f2", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn)]
INTS = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", ml_dtypes.int4, ml_dtypes.uint4)]
ALL = [np.dtype(bool), *INTS, *REAL, np.dtype("c8")]


@pytest.fixture
def devices():
    out = jax.devices()
    if len(out) < 4:
        pytest.skip("needs 4 devices")
    return out[:4]


@pytest.fixture
def mesh(devices):
    return Mesh(np.array(devices), ("x",))


@pytest.fixture
def x():
    return put(np.array([1.0, 2.0, 3.0], np.float32))


# Attributes


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_attributes(shape, dtype):
    value = np.ones(shape, dtype)
    x = put(value)
    assert (x.shape, x.ndim, x.size, x.dtype) == (shape, len(shape), value.size, dtype)
    assert (x.itemsize, x.nbytes) == (dtype.itemsize, value.nbytes)
    assert x.weak_type is False and x.committed is False
    assert x.is_fully_replicated and x.is_fully_addressable
    assert core.typeof(x) is core.ShapedArray(shape, dtype)
    got = np.asarray(x)
    assert got.dtype == dtype and got.shape == shape and not got.flags.writeable
    np.testing.assert_array_equal(got.astype(np.complex64), value.astype(np.complex64))


def test_where_it_is(x, devices):
    assert x.devices() == {jax.local_devices()[0]} and x.device == jax.local_devices()[0]
    assert x.sharding == SingleDeviceSharding(jax.local_devices()[0])
    assert x.platform() == devices[0].platform
    y = put(x, devices[2])
    assert y.device == devices[2] and y.committed
    x.devices().clear()
    assert len(x.devices()) == 1


def test_instance_checks(x):
    assert isinstance(x, jax.Array)
    assert not isinstance(np.ones(3), jax.Array)
    seen = []
    jax.jit(lambda y: seen.append(isinstance(y, jax.Array)) or y)(x)
    assert seen == [True]
    with pytest.raises(TypeError):
        jax.Array(1)


def test_documentation_of_the_class():
    for name in (
        "shape",
        "dtype",
        "sharding",
        "committed",
        "addressable_shards",
        "addressable_data",
    ):
        assert getattr(jax.Array, name).__doc__


def test_subclasses_must_define_attributes():
    class Mine(jax.Array):
        pass

    with pytest.raises(NotImplementedError, match="Mine must define the property shape"):
        _ = Mine().shape


def test_unhashable(x):
    with pytest.raises(TypeError, match="unhashable type"):
        hash(x)
    assert weakref.ref(x)() is x


def test_no_unknown_attributes(x):
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        _ = x.foo
    with pytest.raises(AttributeError, match="addressable_data"):
        _ = x.device_buffer
    with pytest.raises(AttributeError, match="addressable_shards"):
        _ = x.device_buffers


# Conversions


@pytest.mark.parametrize("dtype", [*INTS, *REAL], ids=str)
def test_python_scalars(dtype):
    x = put(np.array(2, dtype))
    assert float(x) == 2.0 and type(float(x)) is float
    assert int(x) == 2 and type(int(x)) is int
    assert complex(x) == 2 and bool(x) is True
    assert x.item() == 2 and x.tolist() == 2


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_index(dtype):
    x = put(np.array(3, dtype))
    assert operator.index(x) == 3
    assert hex(x) == "0x3" and oct(x) == "0o3" and bin(x) == "0b11"
    assert list(range(5))[x] == 3 and "abcd"[x] == "d"


@pytest.mark.parametrize("value", [np.float32(1), np.bool_(True), np.ones(1, np.int32)])
def test_index_needs_an_integer_scalar(value):
    for fun in (operator.index, hex, oct):
        with pytest.raises(
            TypeError, match="Only integer scalar arrays can be converted to a scalar index"
        ):
            fun(put(value))


@pytest.mark.parametrize("shape", [(1,), (1, 1), (3,)])
@pytest.mark.parametrize("fun", [float, int, complex])
def test_only_scalars_become_python_scalars(fun, shape):
    message = f"Only scalar arrays can be converted to Python scalars; got arr.ndim={len(shape)}"
    with pytest.raises(TypeError, match=message):
        fun(put(np.ones(shape, np.float32)))


def test_complex_is_not_real():
    z = put(np.complex64(1 + 2j))
    assert complex(z) == 1 + 2j
    for fun in (float, int):
        with pytest.raises(TypeError, match="not 'complex'"):
            fun(z)
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        int(put(np.float32(np.nan)))


def test_truth():
    assert bool(put(np.ones((1, 1)))) and not put(np.zeros(1))
    with pytest.raises(ValueError, match="The truth value of an empty array is ambiguous"):
        bool(put(np.zeros((0, 3))))
    with pytest.raises(ValueError, match="more than one element is ambiguous"):
        bool(put(np.zeros(2)))


def test_len_and_iteration(x):
    assert len(x) == 3 and len(put(np.ones((0, 3)))) == 0
    scalar = put(np.float32(1))
    with pytest.raises(TypeError, match=re.escape("len() of unsized object")):
        len(scalar)
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        iter(scalar)


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (100,), (101,), (250, 2), (3, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16, np.bool_], ids=str)
def test_iteration(shape, dtype):
    value = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    rows = list(put(value))
    assert len(rows) == shape[0]
    for row, want in zip(rows, value):
        assert type(row) is array.ArrayImpl and row.dtype == dtype and row.shape == shape[1:]
        np.testing.assert_array_equal(np.asarray(row), want)


def test_iteration_keeps_weak_type_and_device(devices):
    [row] = put([1.0])
    assert row.weak_type
    [a, b] = put(np.arange(2), devices[1])
    assert a.devices() == b.devices() == {devices[1]}
    assert a.committed


def test_iteration_of_sharded_arrays(mesh):
    for spec in (P("x"), P()):
        x = put(np.arange(8), NamedSharding(mesh, spec))
        assert [int(i) for i in x] == list(range(8))


def test_iteration_in_a_trace(x):
    out = jax.jit(lambda: [y for y in x])()
    assert [float(y) for y in out] == [1, 2, 3]


def test_numpy_conversion(x):
    np.testing.assert_array_equal(np.asarray(x), [1, 2, 3])
    assert np.asarray(x, dtype=np.int32).dtype == np.int32
    assert np.array(x).flags.writeable and not np.asarray(x).flags.writeable
    assert x.__array__(np.float64).dtype == np.float64
    assert not x.__array__(copy=False).flags.writeable
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.asarray(x, np.float64, copy=False)
    assert np.asarray(x).ctypes.data == x.unsafe_buffer_pointer()


def test_host_copies_outlive_the_array():
    x = put(np.full(1000, 7, np.float32))
    value = np.asarray(x)
    x.delete()
    del x
    gc.collect()
    assert value[0] == value[-1] == 7


def test_buffer_protocol(x, mesh):
    assert bytes(memoryview(x)) == np.array([1, 2, 3], np.float32).tobytes()
    assert memoryview(x).readonly
    with pytest.raises(BufferError):
        memoryview(put(np.arange(8), NamedSharding(mesh, P("x"))))


def test_item_tolist_tobytes(x):
    assert x.item(1) == 2.0 and x.tolist() == [1.0, 2.0, 3.0]
    assert x.tobytes() == np.asarray(x).tobytes()
    m = put(np.arange(6).reshape(2, 3).astype(np.int8))
    assert m.tobytes("F") == np.asarray(m).tobytes("F") and m.item(1, 2) == 5
    with pytest.raises(ValueError, match="size 1"):
        x.item()
    with pytest.raises(ValueError):
        x.item(0, 1)


def test_immutable(x):
    with pytest.raises(TypeError):
        x[0] = 1.0


# Printing

PRINTED = [
    (np.array([1.0, 2.0], np.float32), "Array([1., 2.], dtype=float32)"),
    (1.0, "Array(1., dtype=float32, weak_type=True)"),
    (1, "Array(1, dtype=int32, weak_type=True)"),
    (True, "Array(True, dtype=bool)"),
    (1j, "Array(0.+1.j, dtype=complex64, weak_type=True)"),
    (np.zeros((0, 3), np.float32), "Array([], shape=(0, 3), dtype=float32)"),
    (np.array([1, -2], ml_dtypes.bfloat16), "Array([1, -2], dtype=bfloat16)"),
    (np.array([1, -2], ml_dtypes.int4), "Array([1, -2], dtype=int4)"),
    (np.arange(10000), "Array([   0,    1,    2, ..., 9997, 9998, 9999], dtype=int32)"),
    (np.eye(2, dtype=np.float32), "Array([[1., 0.],\n       [0., 1.]], dtype=float32)"),
    (
        np.full(8, 0.12345678, np.float32),
        "Array([0.12345678, 0.12345678, 0.12345678, 0.12345678, 0.12345678,\n"
        "       0.12345678, 0.12345678, 0.12345678], dtype=float32)",
    ),
]


@pytest.mark.parametrize("value, text", PRINTED, ids=[t.split("\n")[0] for _, t in PRINTED])
def test_repr(value, text):
    assert repr(put(value)) == text


def test_print_options(x):
    with np.printoptions(precision=2, linewidth=30):
        assert repr(put(np.float32(1.23456))) == "Array(1.23, dtype=float32)"
        assert repr(x) == "Array([1., 2., 3.], dtype=float32)"
    # What does not fit into the last line goes far to the right of it.
    with np.printoptions(linewidth=20):
        assert repr(x) == "Array([1., 2., 3.],      dtype=float32)"


def test_str_and_format(x):
    assert str(x) == f"{x}" == "[1. 2. 3.]"
    assert f"{put(np.float32(1.234567)):.2f}" == "1.23"
    assert f"{put(3):5d}" == "    3" and f"{put(3)}" == "3"
    with pytest.raises(TypeError, match="unsupported format string"):
        format(x, ">30")


# Copies and pickling


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_pickle(dtype):
    x = put(np.arange(6).reshape(2, 3).astype(dtype))
    y = pickle.loads(pickle.dumps(x))
    assert type(y) is type(x) and y.dtype == x.dtype and not y.weak_type
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x))


def test_pickle_keeps_weak_types_and_not_shardings(mesh):
    assert pickle.loads(pickle.dumps(put(1.0))).weak_type
    y = pickle.loads(pickle.dumps(put(np.arange(8), NamedSharding(mesh, P("x")))))
    assert y.sharding == SingleDeviceSharding(jax.local_devices()[0])
    assert y.tolist() == list(range(8))


@pytest.mark.parametrize("fun", [copy.copy, copy.deepcopy])
def test_copies(fun, x, devices, mesh):
    y = fun(x)
    assert y is not x and y.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    assert not y.committed and y.tolist() == x.tolist()
    assert fun(put(x, devices[1])).devices() == {devices[1]}
    sharding = NamedSharding(mesh, P("x"))
    assert fun(put(np.arange(8), sharding)).sharding == sharding
    assert fun(put(1.0)).weak_type
    assert fun({"a": x}).keys() == {"a"}


# Deleted arrays

AFTER_DELETION = {
    "repr": repr,
    "str": str,
    "asarray": np.asarray,
    "iter": list,
    "tolist": lambda x: x.tolist(),
    "tobytes": lambda x: x.tobytes(),
    "item": lambda x: x.item(0),
    "devices": lambda x: x.devices(),
    "device": lambda x: x.device,
    "shards": lambda x: x.addressable_shards,
    "global_shards": lambda x: x.global_shards,
    "data": lambda x: x.addressable_data(0),
    "is_ready": lambda x: x.is_ready(),
    "platform": lambda x: x.platform(),
    "clone": lambda x: x.clone(),
    "copy_to_host_async": lambda x: x.copy_to_host_async(),
    "copy": copy.copy,
    "pickle": pickle.dumps,
    "device_put": jax.device_put,
    "device_get": jax.device_get,
    "to_device": lambda x: x.to_device(jax.devices()[0]),
    "dlpack": lambda x: x.__dlpack__(),
    "dlpack_device": lambda x: x.__dlpack_device__(),
    "add": lambda x: lax.add(x, x),
    "jit": lambda x: jax.jit(lambda y: y)(x),
}


@pytest.mark.parametrize("name", AFTER_DELETION)
def test_deleted(name, x):
    x.delete()
    with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[3\]\."):
        AFTER_DELETION[name](x)


def test_what_is_known_of_deleted_arrays(x):
    assert not x.is_deleted()
    x.delete()
    x.delete()
    assert x.is_deleted() and x.shape == (3,) and x.dtype == np.float32 and len(x) == 3
    assert x.sharding.num_devices == 1 and not x.committed and x.format.layout is None
    with pytest.raises(RuntimeError):
        x.block_until_ready()


# Waiting


def test_waiting(x):
    assert x.block_until_ready() is x and x.is_ready()
    assert x.copy_to_host_async() is None
    assert x.on_device_size_in_bytes() == 12
    assert x.clone() is not x and x.clone().unsafe_buffer_pointer() == x.unsafe_buffer_pointer()


# Shards


def test_shards_of_one_device(x):
    [shard] = x.addressable_shards
    assert shard.device == x.device and shard.index == (slice(None),) and shard.replica_id == 0
    assert shard.data.tolist() == [1, 2, 3]
    assert repr(shard).startswith("Shard(device=CpuDevice(id=0), index=(slice(None, None, None),)")
    assert x.addressable_data(0).tolist() == [1, 2, 3]


def test_shards(devices):
    mesh = Mesh(np.array(devices).reshape(2, 2), ("x", "y"))
    value = np.arange(16).reshape(4, 4)
    x = put(value, NamedSharding(mesh, P(None, "y")))
    assert not x.is_fully_replicated
    assert [s.replica_id for s in x.addressable_shards] == [0, 0, 1, 1]
    assert [s.device for s in x.addressable_shards] == devices
    for shard in x.global_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), value[shard.index])
        assert shard.data.devices() == {shard.device}
    np.testing.assert_array_equal(np.asarray(x), value)
    assert x.addressable_data(1).shape == (4, 2)
    with pytest.raises(IndexError):
        x.addressable_data(9)
    assert x.device == x.sharding and x.devices() == set(devices)
    y = put(value, NamedSharding(mesh, P()))
    assert y.is_fully_replicated and y.addressable_data(9).shape == (4, 4)
    with pytest.raises(RuntimeError, match="unsharded"):
        x.unsafe_buffer_pointer()


def test_shard_of_a_foreign_device(devices):
    shard = jax.Shard(devices[3], SingleDeviceSharding(devices[0]), (2,))
    assert shard.data is None
    with pytest.raises(ValueError, match="none of the devices"):
        _ = shard.index


def test_format(x, mesh):
    assert x.format.layout.major_to_minor == (0,) and x.format.sharding == x.sharding
    y = put(np.ones((4, 2)), NamedSharding(mesh, P("x")))
    assert y.format.layout.major_to_minor == (0, 1) and y.format.sharding == y.sharding


# Arrays of shards


def shards_of(value, devices):
    return [put(part, d) for part, d in zip(np.split(value, len(devices)), devices)]


def test_make_array_from_single_device_arrays(devices, mesh):
    sharding = NamedSharding(mesh, P("x"))
    value = np.arange(8, dtype=np.float32)
    arrays = shards_of(value, devices)
    make = jax.make_array_from_single_device_arrays
    for order in (arrays, tuple(arrays), arrays[::-1]):
        x = make((8,), sharding, order)
        np.testing.assert_array_equal(np.asarray(x), value)
        assert x.committed and x.sharding == sharding
    assert make((8,), sharding, arrays, dtype=np.float32).dtype == np.float32
    assert x.addressable_data(1).unsafe_buffer_pointer() == arrays[1].unsafe_buffer_pointer(), (
        "no copies"
    )

    def fails(error, text, *args, **kwargs):
        with pytest.raises(error, match=re.escape(text)):
            make(*args, **kwargs)

    fails(ValueError, "Expected 4 per-device arrays", (8,), sharding, arrays[:2])
    fails(ValueError, "must be from distinct devices", (8,), sharding, [arrays[0]] * 4)
    fails(ValueError, "Expected shard shape (4,)", (16,), sharding, arrays)
    fails(ValueError, "the dimension size is 9", (9,), sharding, arrays)
    fails(ValueError, "must match the dtype", (8,), sharding, arrays, dtype=np.int32)
    fails(ValueError, "`dtype` must be provided", (8,), sharding, [])
    fails(TypeError, "must be a list or tuple", (8,), sharding, arrays[0])
    fails(TypeError, "Unsupported type", (8,), sharding, [value] * 4)
    fails(TypeError, "`sharding` argument", (8,), devices[0], arrays)
    mixed = [arrays[0], put(np.arange(2), devices[1]), *arrays[2:]]
    fails(ValueError, "matching dtypes. Got int32, expected float32", (8,), sharding, mixed)
    one = SingleDeviceSharding(devices[1])
    fails(ValueError, "devices do not match", (2,), one, arrays[:1])


def test_constructor_checks_too(devices):
    aval = core.ShapedArray((2,), np.float32)
    sharding = SingleDeviceSharding(devices[0])
    x = put(np.ones(2, np.float32), devices[0])
    assert array.ArrayImpl(aval, sharding, [x], committed=True).tolist() == [1, 1]
    with pytest.raises(ValueError, match="Expected 1 per-device"):
        array.ArrayImpl(aval, sharding, [x, x], committed=True)
    with pytest.raises(TypeError):
        array.ArrayImpl(aval, sharding, [np.ones(2)], committed=True)


@pytest.mark.parametrize("spec", [P("x"), P(), P(None, "x"), P("x", None)])
def test_make_array_from_callback(spec, mesh):
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    calls = []

    def data(index):
        calls.append(index)
        return value[index]

    sharding = NamedSharding(mesh, spec)
    x = jax.make_array_from_callback((8, 4), sharding, data)
    np.testing.assert_array_equal(np.asarray(x), value)
    assert x.committed and x.sharding == sharding
    assert len(calls) == (1 if spec == P() else 4)
    y = jax.make_array_from_callback((8, 4), sharding, lambda index: put(value[index]))
    np.testing.assert_array_equal(np.asarray(y), value)


def test_make_array_from_callback_copies(mesh):
    value = np.zeros(64, np.float32)
    x = jax.make_array_from_callback((64,), NamedSharding(mesh, P("x")), lambda i: value[i])
    value[:] = 1
    assert not np.any(x)


def test_make_array_from_callback_errors(mesh, devices):
    make = jax.make_array_from_callback
    sharding = NamedSharding(mesh, P("x"))
    n = np.arange(8, dtype=np.float32)

    def fails(error, text, *args, **kwargs):
        with pytest.raises(error, match=re.escape(text)):
            make(*args, **kwargs)

    fails(ValueError, "Expected shard shape (2,)", (8,), sharding, lambda i: n[:3])
    fails(ValueError, "must match the dtype", (8,), sharding, lambda i: n[i], np.int32)
    fails(ValueError, "the dimension size is 9", (9,), sharding, lambda i: n[i])
    fails(TypeError, "should be an instance of `jax.sharding`", (8,), devices[0], lambda i: n[i])
    fails(TypeError, "returned None", (8,), sharding, lambda i: None)
    fails(Exception, "not a valid JAX type", (8,), sharding, lambda i: "a")
    fails(TypeError, "Shapes must be 1D sequences", 8, sharding, lambda i: n[i])
    fails(TypeError, "Shapes must be 1D sequences", (8.0,), sharding, lambda i: n[i])
    assert make((), NamedSharding(mesh, P()), lambda i: 1.0).dtype == np.float32


def test_make_array_from_callback_with_layout(mesh):
    value = np.arange(16, dtype=np.float32).reshape(4, 4)
    fmt = Format(Layout((1, 0)), NamedSharding(mesh, P("x")))
    x = jax.make_array_from_callback((4, 4), fmt, lambda i: value[i])
    np.testing.assert_array_equal(np.asarray(x), value)
    assert x.format.layout.major_to_minor == (1, 0)
    with pytest.raises(TypeError, match="AUTO"):
        auto = Format(Layout.AUTO, NamedSharding(mesh, P("x")))
        jax.make_array_from_callback((4, 4), auto, lambda i: value[i])


def test_make_array_from_process_local_data(mesh, devices):
    make = jax.make_array_from_process_local_data
    sharding = NamedSharding(mesh, P("x"))
    n = np.arange(8, dtype=np.float32)
    for shape in (None, (8,)):
        x = make(sharding, n, shape)
        np.testing.assert_array_equal(np.asarray(x), n)
        assert x.sharding == sharding
    tree = make({"a": sharding, "b": NamedSharding(mesh, P())}, {"a": n, "b": n})
    assert tree["b"].is_fully_replicated and not tree["a"].is_fully_replicated
    assert make(sharding, [n, n], [(8,), None])[1].shape == (8,)
    assert make(devices[1], n).devices() == {devices[1]}
    assert make(sharding, n.astype(np.float64)).dtype == np.float32
    replicated = NamedSharding(mesh, P())
    for data, weak in ((3.0, True), (put(3.0, devices[1]), True), (np.float32(3), False)):
        assert make(replicated, data).weak_type is weak
    with pytest.raises(ValueError, match="on a single process"):
        make(sharding, n, (16,))
    with pytest.raises(ValueError):
        make({"a": sharding}, {"a": n, "b": n})
    with pytest.raises(ValueError, match="rank"):
        make(sharding, 1.0)


# Specs of arrays


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_specs_of_keys_have_an_entry_for_each_dimension(devices, axis_type):
    mesh = Mesh(np.array(devices), ("x",), axis_types=(axis_type,))
    keys = jax.random.split(jax.random.key(0), 8)

    def specs(spec):
        x = put(keys, NamedSharding(mesh, spec))
        made = x, jax.jit(lambda k: k)(x), jax.vmap(jax.random.split)(x), jax.random.key_data(x)
        return [y.sharding.spec for y in made]

    assert specs(P("x")) == [P("x"), P("x"), P("x", None), P("x", None)]
    assert specs(P(None)) == [P(None), P(None), P(None, None), P(None, None)]
    assert specs(P())[:3] == [P(None), P(None), P(None, None)]


def test_results_have_the_specs_of_their_types(devices):
    mesh = Mesh(np.array(devices), ("x",), axis_types=(AxisType.Explicit,))
    sharding = NamedSharding(mesh, P("x", None))
    untyped = np.ones((8, 2), np.float32)
    f = jax.jit(lambda x: (x, x + 1, x.T), in_shardings=sharding)
    expected = [P("x"), P("x"), P(None, "x")]  # no type says more than the compiler does
    assert [y.sharding.spec for y in f(untyped)] == expected
    expected = [P("x", None), P("x", None), P(None, "x")]
    assert [y.sharding.spec for y in f(put(untyped, sharding))] == expected


# Explicit sharding is part of the type


def test_type_of_explicitly_sharded_arrays(devices):
    explicit = Mesh(np.array(devices), ("x",), axis_types=(AxisType.Explicit,))
    auto = Mesh(np.array(devices), ("x",))
    x = put(np.arange(8.0), NamedSharding(explicit, P("x")))
    assert str(jax.typeof(x)) == "float32[8@x]"
    assert str(jax.typeof(put(x, NamedSharding(auto, P("x"))))) == "float32[8]"
    assert str(jax.typeof(put(x, devices[1]))) == "float32[8]"
    value = np.arange(8.0)
    made = jax.make_array_from_callback((8,), x.sharding, lambda i: value[i])
    assert jax.typeof(made) == jax.typeof(x)


# Types of values that are not arrays

TYPES = [
    (1, "int32[]", True),
    (1.0, "float32[]", True),
    (1j, "complex64[]", True),
    (True, "bool[]", False),
    (np.float64(1), "float32[]", False),
    (np.int64(2**40), "int32[]", False),
    (np.ones(3), "float32[3]", False),
    (ml_dtypes.bfloat16(1), "bfloat16[]", False),
    (np.zeros(2, dtypes.float0), "float0[2]", False),
    (type("I", (int,), {})(2), "int32[]", True),
    (np.ones(2).view(type("A", (np.ndarray,), {})), "float32[2]", False),
]


@pytest.mark.parametrize("value, name, weak", TYPES)
def test_typeof(value, name, weak):
    aval = jax.typeof(value)
    assert (aval.str_short(), aval.weak_type) == (name, weak)


def test_typeof_with_64_bit_types():
    with config.enable_x64(True):
        assert jax.typeof(2**40).str_short() == "int64[]"
        assert jax.typeof(1.0).str_short() == "float64[]"
        assert jax.typeof(np.ones(3)).str_short() == "float64[3]"
        with pytest.raises(OverflowError, match="too large to convert to int64"):
            jax.typeof(2**63)


@pytest.mark.parametrize(
    "value, error, text",
    [
        (2**31, OverflowError, "Python int 2147483648 too large to convert to int32"),
        (-(2**31) - 1, OverflowError, "too large to convert to int32"),
        ("a", TypeError, "is not a valid JAX type"),
        (None, TypeError, "is not a valid JAX type"),
        (object(), TypeError, "is not a valid JAX type"),
        (np.array("a"), TypeError, "Only arrays of numeric types are supported"),
        (np.array([1], "M8[s]"), TypeError, "Only arrays of numeric types are supported"),
        (np.ones(2).astype(">f4"), TypeError, "Only arrays of numeric types are supported"),
        (np.longdouble(1), TypeError, "is not a valid JAX type"),
    ],
)
def test_no_type(value, error, text):
    with pytest.raises(error, match=text):
        jax.typeof(value)


def test_masked_arrays_are_refused():
    masked = np.ma.ones(2, np.float32)
    for fun in (jax.device_put, jax.typeof, lax.neg, jax.jit(lambda x: x)):
        with pytest.raises(ValueError, match="masked arrays are not supported"):
            fun(masked)


def test_arrays_of_numpy_are_converted_without_loading_masked_arrays():
    program = "import sys, numpy, jax; jax.numpy.array(numpy.arange(3)); assert 'numpy.ma' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_threads():
    out = [None] * 8
    barrier = threading.Barrier(8)

    def work(i):
        barrier.wait()
        for k in range(50):
            x = put(np.full(100, i * 1000 + k, np.int32))
            assert [int(v) for v in x][-1] == i * 1000 + k
        out[i] = True

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(out)


@pytest.mark.parametrize("spec", [P(), P("x"), P("x", "y"), P(None, "y")])
@pytest.mark.parametrize("shape", [(8, 2), (0, 2)])
def test_devices_that_share_a_part_get_copies(devices, spec, shape):
    sharding = NamedSharding(Mesh(np.array(devices).reshape(2, 2), ("x", "y")), spec)
    data = np.ones(shape, np.float32)
    made = [
        jax.make_array_from_process_local_data(sharding, data),
        jax.make_array_from_callback(shape, sharding, lambda index: data[index]),
        jax.device_put(data, sharding, may_alias=False),
        jax.numpy.array(data, device=sharding),
    ]
    data[:] = 0
    for made_array in made:
        np.testing.assert_array_equal(made_array, np.ones(shape))
