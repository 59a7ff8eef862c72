"""Functions and objects that live beside devices, and how they are sent to other hosts."""

import gc
import operator
import threading
import types

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import xla_bridge as xb
from jax._src.colocated_python import func as implementation, serialization
from jax._src.lib import DeviceList
from jax.experimental import colocated_python as colocated
from jax.experimental.colocated_python import colocated_python, colocated_python_class
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass


@pytest.fixture
def devices():
    return xb.devices("cpu")


@pytest.fixture
def mesh(devices):
    return Mesh(np.array(devices[:8]).reshape(4, 2), ("x", "y"), (AxisType.Auto,) * 2)


@pytest.fixture
def x(mesh):
    return jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("x")))


class Worker:
    """A runtime that loads programs from their pickles and executes them, as a remote host does."""

    def __init__(self):
        self.programs = []

    def load(self, name, serialized, devices, in_specs, out_specs):
        self.programs.append(name)
        fun, in_tree, ins, out_tree, outs, _ = serialization.deserialize(serialized)
        assert [s.dtype for s in ins] == [s.dtype for s in in_specs]

        def execute_sharded(arrays, with_tokens):
            args, kwargs = jax.tree.unflatten(in_tree, arrays)
            results, tree = jax.tree.flatten(fun(*args, **kwargs))
            assert tree == out_tree and len(outs) == len(out_specs)
            shards = [[s.data for s in y.addressable_shards] for y in results]
            consume = lambda handlers: [h(s) for h, s in zip(handlers, shards)]
            return types.SimpleNamespace(consume_with_handlers=consume)

        return types.SimpleNamespace(execute_sharded=execute_sharded)


@pytest.fixture(params=["local", "worker"])
def worker(request, monkeypatch):
    """Both ways to run functions: in this process, and as programs of a runtime."""
    if request.param == "local":
        return None
    worker = Worker()
    monkeypatch.setattr(implementation, "_load_program", worker.load)
    return worker


def test_functions(worker, x):
    @colocated_python
    def add(x, *, y):
        """Adds."""
        return {"sum": x + y, "devices": (x,)}

    out = add(x, y=x)
    np.testing.assert_array_equal(out["sum"], 2 * np.arange(8))
    assert out["sum"].sharding == x.sharding and out["devices"][0].committed
    np.testing.assert_array_equal(add(x, y=x * 2)["sum"], 3 * np.arange(8))
    assert add.__name__ == "add" and add.__doc__ == "Adds."
    if worker is not None:
        assert worker.programs == ["add_output_specs_and_push_result", "add_pop_result", "add"]


def test_each_type_of_arguments_has_its_own_program(worker, x):
    double = colocated_python(lambda x: x * 2)
    np.testing.assert_array_equal(double(x), 2 * np.arange(8))
    np.testing.assert_array_equal(double(x.astype(np.int32)), 2 * np.arange(8))
    np.testing.assert_array_equal(double(x[None]), 2 * np.arange(8)[None])
    if worker is not None:
        assert len(worker.programs) == 9
        double(x)
        assert len(worker.programs) == 9
        jax.clear_caches()
        double(x)
        assert len(worker.programs) == 12


def test_specializations(worker, x, devices):
    spec = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
    f = colocated_python(lambda x: x + 1)
    np.testing.assert_array_equal(f.specialize(out_specs_fn=lambda s: s)(x), np.arange(8) + 1)
    np.testing.assert_array_equal(f.specialize(in_specs=((spec,), {}))(x), np.arange(8) + 1)
    made = colocated_python(lambda: jnp.arange(3)).specialize(devices=devices[:1])()
    np.testing.assert_array_equal(made, np.arange(3))
    assert colocated_python(lambda: None).specialize(devices=devices)() is None
    if worker is not None:
        assert worker.programs[0] == "<lambda>"  # the types of results were known
    for given in (
        dict(devices=devices),
        dict(out_specs_fn=lambda s: s),
        dict(in_specs=((spec,), {})),
    ):
        with pytest.raises(ValueError, match=f"{next(iter(given))} already specified"):
            f.specialize(**given).specialize(**given)


def test_random_keys(worker):
    key = jax.device_put(jax.random.key(3), xb.devices("cpu")[0])
    split = colocated_python(lambda k: {"keys": jax.random.split(k), "bits": jax.random.bits(k)})
    out = split(key)
    assert out["keys"].dtype == key.dtype and out["keys"].shape == (2,)
    assert (jax.random.key_data(out["keys"]) == jax.random.key_data(jax.random.split(key))).all()
    assert split(key)["bits"] == jax.random.bits(key)


def test_functions_run_as_copies(worker, x):
    calls = []

    def count(x):
        calls.append(1)
        return x

    colocated_python(count)(x)
    assert calls == []


def test_errors_of_functions(worker, x):
    def fails(x):
        raise KeyError("from the function")

    for _ in range(2):
        with pytest.raises(KeyError, match="from the function"):
            colocated_python(fails)(x)


def test_results_must_keep_their_types(x):
    state = types.ModuleType("state")
    state.calls = 0
    f = colocated_python(lambda x: x)
    specialized = f.specialize(out_specs_fn=lambda s: (s, s))
    with pytest.raises(ValueError, match="but its specification is"):
        specialized(x)
    with pytest.raises(ValueError, match="but its in_specs are"):
        f.specialize(in_specs=((jax.ShapeDtypeStruct((4,), np.float32),), {}))(x)


def test_bad_arguments(x, devices):
    f = colocated_python(lambda x, *_: x)
    a, b = [jax.device_put(1.0, d) for d in devices[:2]]
    for bad in (np.ones(3), 1, "text"):
        with pytest.raises(ValueError, match="only supports jax.Array as input and output"):
            f(bad)
        with pytest.raises(ValueError, match="only supports jax.Array as input and output"):
            colocated_python(lambda x: bad)(a)
    with pytest.raises(ValueError, match="All arguments must use the same device list"):
        f(a, b)
    with pytest.raises(ValueError, match="cannot be called while JAX traces"):
        jax.jit(f)(x)
    with pytest.raises(ValueError, match=r"specialize\(devices=...\)"):
        colocated_python(lambda: None)()
    with pytest.raises(TypeError, match="cannot pickle"):
        lock = threading.Lock()
        colocated_python(lambda x: (lock, x)[1])(a)
    with pytest.raises(TypeError, match="takes a function"):
        colocated_python(3)
    with pytest.raises(TypeError, match="takes a class"):
        colocated_python_class(3)


deleted = []


class Values:
    """Numbers."""

    def __init__(self, start, *, step=1):
        if start < 0:
            raise ValueError("negative start")
        self.value, self.step = start, step

    def add(self, x):
        self.value += x * self.step
        return jax.tree.map(lambda v: v, self.value)

    def get(self):
        return self.value

    def nothing(self, x):
        pass

    @staticmethod
    def twice(x):
        return x * 2

    def __del__(self):
        deleted.append(1)


def test_objects(worker, devices):
    one = jax.device_put(np.float32(1), devices[0])
    values = colocated_python_class(Values)(3, step=2)
    assert float(values.add(one)) == 5.0 and float(values.add(one)) == 7.0
    assert float(values.get.specialize(devices=devices[:1])()) == 7.0
    assert values.nothing(one) is None and float(values.twice(one)) == 2.0
    assert values.add.__name__ == "add" and type(values).__name__ == "Values"
    assert type(values).__doc__ == "Numbers."
    with pytest.raises(ValueError, match="No devices found"):
        values.get()
    with pytest.raises(AttributeError):
        operator.attrgetter("value")(values)
    deleted.clear()
    del values
    gc.collect()
    assert deleted == [1]


def test_temporary_objects(worker, devices):
    one = jax.device_put(np.float32(1), devices[0])
    assert float(colocated_python_class(Values)(3).add(one)) == 4.0


def test_unused_objects_are_never_made(devices):
    wrapper = colocated_python_class(Values)(-1)
    deleted.clear()
    del wrapper
    gc.collect()
    assert deleted == []


def test_errors_of_constructors(worker, devices):
    values = colocated_python_class(Values)(-1)
    for _ in range(2):
        with pytest.raises(ValueError, match="negative start"):
            values.add(jax.device_put(np.float32(1), devices[0]))


def test_errors_say_where_functions_are(x):
    def scale(x, factor):
        return x * factor

    here = r"scale at .*colocated_python_test.py:\d+"
    fun = colocated_python(scale)
    with pytest.raises(TypeError, match=rf"{here} cannot be called .* argument: 'factor'"):
        fun(x)
    specs = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), ((x, x), {}))
    with pytest.raises(ValueError, match=rf"The arguments of .* {here} are"):
        fun.specialize(in_specs=specs)(x, x[:1])

    @colocated_python_class
    class Empty:
        def method(self):
            return 0

    with pytest.raises(ValueError, match=r"No devices .* method at .*py:\d+ \(a method of .*Empty"):
        Empty().method()


def test_pickles_replace_devices_by_ids(mesh, devices):
    sharding = NamedSharding(mesh, P("x"))
    listed = DeviceList(tuple(devices[:2]))
    single = SingleDeviceSharding(devices[3])
    data = serialization.serialize((mesh, sharding, listed, single))
    found = serialization.deserialize(data)
    assert found == (mesh, sharding, listed, single)
    assert found[0] is found[1].mesh
    for value, reduce in (
        (mesh, serialization.reduce_mesh),
        (sharding, serialization.reduce_named_sharding),
        (listed, serialization.reduce_device_list),
        (single, serialization.reduce_single_device_sharding),
    ):
        restore, args = reduce(value)
        assert restore(*args) == value
    with pytest.raises(ValueError, match="must contain only CPU devices"):
        serialization.lookup_cpu_device({}, 7)


def test_names_that_orbax_imports():
    exported = colocated.serialization
    for name in (
        "get_cpu_device_map",
        "reduce_device_list",
        "reduce_mesh",
        "reduce_single_device_sharding",
    ):
        assert getattr(exported, "_" + name) is getattr(serialization, name)
    assert exported.DeviceList is DeviceList and exported.xb is xb
    assert colocated.func._make_prng_wrapped_fun is implementation.make_prng_wrapped_fun


def test_specifications_as_arrays(mesh, devices):
    tree = jax.tree.structure({"a": 1})
    spec = jax.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(mesh, P("x")))
    listed = DeviceList(tuple(devices[:2]))
    array = serialization.serialize_specs(tree, (spec,), listed)
    assert array.shape == () and array.sharding.device_set == set(devices[:2])
    assert serialization.make_specs_for_serialized_specs(listed).sharding == array.sharding
    found_tree, (found,) = serialization.deserialize_specs(array)
    assert found_tree == tree and found == spec


def test_cloudpickle_is_named_if_it_is_missing(monkeypatch, x):
    monkeypatch.setattr(serialization, "cloudpickle", None)
    serialization._pickler_class.cache_clear()
    with pytest.raises(ModuleNotFoundError, match="pip install cloudpickle"):
        colocated_python(lambda x: x)(x)


def test_cpu_devices_beside_devices(mesh, devices):
    assert colocated.colocated_cpu_devices(devices) == devices
    assert colocated.colocated_cpu_devices(tuple(devices[1:3])) == devices[1:3]
    assert colocated.colocated_cpu_devices(mesh) == mesh
    for bad in ([], [3], 3):
        with pytest.raises(TypeError, match="one or more devices"):
            colocated.colocated_cpu_devices(bad)


class OtherDevice:
    """An accelerator of a process."""

    platform, device_kind = "tpu", "TPU v5e"

    def __init__(self, process, client):
        self.process_index, self.client = process, client


def test_cpu_devices_beside_accelerators(devices, monkeypatch):
    from jax._src.colocated_python import api

    all_devices = []
    client = types.SimpleNamespace(devices=lambda: all_devices)
    all_devices += [OtherDevice(0, client) for _ in range(4)]
    monkeypatch.setattr(api, "Device", (OtherDevice, api.Device))
    found = colocated.colocated_cpu_devices(all_devices[::-1])
    assert found == devices[:4][::-1]
    all_devices += [OtherDevice(0, client) for _ in range(5)]
    with pytest.raises(ValueError, match="but only 8 CPU devices: set the option jax_num_cpu"):
        colocated.colocated_cpu_devices(all_devices)


def test_stores():
    store = colocated.func_backend.SINGLETON_RESULT_STORE
    store.push(-1, [1])
    with pytest.raises(ValueError, match="already exists"):
        store.push(-1, [2])
    assert store.pop(-1) == [1]
    with pytest.raises(ValueError, match="not found"):
        store.pop(-1)
    objects = colocated.obj_backend.SINGLETON_OBJECT_STORE
    made = []

    def make():
        made.append(1)
        return object()

    found = [None] * 4
    threads = [
        threading.Thread(
            target=lambda i=i: operator.setitem(found, i, objects.get_or_create(-1, make))
        )
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(set(map(id, found))) == 1
    objects.remove(-1)
    assert objects.get_or_create(-1, make) is not found[0]
    objects.remove(-1)
