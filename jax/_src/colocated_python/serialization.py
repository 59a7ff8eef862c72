"""Pickles of functions and specifications, for other hosts with the same versions of packages.

Devices are written as their ids. The receiver replaces them by its own CPU devices.
"""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from jax._src import dtypes, xla_bridge as xb
from jax._src.array import make_array_from_single_device_arrays
from jax._src.core import ShapeDtypeStruct
from jax._src.device_put.functions import device_put
from jax._src.lib import Device, DeviceList
from jax._src.mesh import AxisType, Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding_impls import SingleDeviceSharding
from jax._src.tree_util import PyTreeDef

cloudpickle: ModuleType | None
try:
    import cloudpickle
except ImportError:
    cloudpickle = None


def get_cpu_device_map() -> dict[int, Device]:
    """Return the CPU devices by their ids."""
    found: dict[int, Device] = {}
    for client in xb.backends().values():
        for device in client.devices():
            if device.device_kind == "cpu":
                found.setdefault(device.id, device)
    return found


def lookup_cpu_device(cpu_device_map: dict[int, Device], device_id: int) -> Device:
    device = cpu_device_map.get(device_id)
    if device is None:
        raise ValueError(
            f"Invalid device ID {device_id}. Device list must contain only CPU devices."
        )
    return device


# How objects that contain devices are written: a function and its arguments


def reduce_mesh(mesh: Mesh) -> tuple[Callable[..., Mesh], Any]:
    ids = np.vectorize(lambda d: d.id, otypes=[int])(mesh.devices)
    return _unreduce_mesh, (ids, mesh.axis_names, mesh.axis_types)


def _unreduce_mesh(mesh_device_ids: np.ndarray, axis_names: Any, axis_types: Any) -> Mesh:
    devices = get_cpu_device_map()
    look_up = lambda i: lookup_cpu_device(devices, i)
    return Mesh(np.vectorize(look_up, otypes=[object])(mesh_device_ids), axis_names, axis_types)


def reduce_device_list(device_list: DeviceList) -> tuple[Callable[..., DeviceList], Any]:
    return _unreduce_device_list, (tuple([d.id for d in device_list]),)


def _unreduce_device_list(device_ids: Sequence[int]) -> DeviceList:
    devices = get_cpu_device_map()
    return DeviceList(tuple([lookup_cpu_device(devices, i) for i in device_ids]))


def reduce_named_sharding(sharding: NamedSharding) -> tuple[Callable[..., NamedSharding], Any]:
    # The mesh is written once, even if it is that of several shardings.
    return _unreduce_named_sharding, (sharding.mesh, sharding.spec, sharding.memory_kind)


def _unreduce_named_sharding(mesh: Mesh, spec: Any, memory_kind: Any) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


def reduce_single_device_sharding(
    sharding: SingleDeviceSharding,
) -> tuple[Callable[..., SingleDeviceSharding], Any]:
    (device,) = sharding.device_set
    return _unreduce_single_device_sharding, (device.id, sharding.memory_kind)


def _unreduce_single_device_sharding(
    device_id: int, memory_kind: str | None
) -> SingleDeviceSharding:
    device = lookup_cpu_device(get_cpu_device_map(), device_id)
    return SingleDeviceSharding(device, memory_kind=memory_kind)


_REDUCERS = (
    (Mesh, reduce_mesh),
    (NamedSharding, reduce_named_sharding),
    (DeviceList, reduce_device_list),
    (SingleDeviceSharding, reduce_single_device_sharding),
)


@functools.cache
def _pickler_class() -> Any:
    base: Any = _cloudpickle().CloudPickler

    class Pickler(base):  # type: ignore[misc]
        """Writes functions by value where other processes cannot import them."""

        def reducer_override(self, obj: Any) -> Any:
            for cls, reduce in _REDUCERS:
                if type(obj) is cls:
                    return reduce(obj)  # type: ignore[operator]
            return super().reducer_override(obj)

    return Pickler


def _cloudpickle() -> ModuleType:
    if cloudpickle is None:
        raise ModuleNotFoundError(
            'No module named "cloudpickle": colocated_python needs it to send functions to other'
            " processes. Install it with `pip install cloudpickle`."
        )
    return cloudpickle


def serialize(obj: Any) -> bytes:
    """Pickle functions and specifications.

    Raises:
      ModuleNotFoundError: the package cloudpickle is not installed.
    """
    pickler_class = _pickler_class()
    with io.BytesIO() as file:
        pickler_class(file).dump(obj)
        return file.getvalue()


def deserialize(serialized: bytes) -> Any:
    """Load what `serialize` has returned; do so only with data from a trusted source."""
    return _cloudpickle().loads(serialized)


# Specifications of results as an array of text, which devices can return


def make_specs_for_serialized_specs(devices: DeviceList) -> ShapeDtypeStruct:
    mesh = Mesh(np.array(tuple(devices)), ("x",), (AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec())
    return ShapeDtypeStruct((), dtypes.string_dtype, sharding=sharding)


def serialize_specs(
    specs_treedef: PyTreeDef, specs_leaves: tuple[ShapeDtypeStruct, ...], devices: DeviceList
) -> Any:
    """Return specifications as an array with one text, on the given devices."""
    if dtypes.string_dtype is None:
        raise NotImplementedError(
            "colocated_python needs arrays of text: install NumPy 2.0 or a later version."
        )
    text = base64.b64encode(serialize((specs_treedef, specs_leaves))).decode("ascii")
    value = np.array(text, dtype=dtypes.string_dtype)
    sharding = make_specs_for_serialized_specs(devices).sharding
    # The runtime cannot copy one array of text to several devices.
    shards = [device_put(value, device) for device in devices.addressable_device_list]
    return make_array_from_single_device_arrays((), sharding, shards, dtype=dtypes.string_dtype)


def deserialize_specs(serialized_specs: Any) -> tuple[PyTreeDef, tuple[ShapeDtypeStruct, ...]]:
    shard = serialized_specs.addressable_shards[0].data
    specs: tuple[PyTreeDef, tuple[ShapeDtypeStruct, ...]]
    specs = deserialize(base64.b64decode(np.asarray(shard).item().encode("ascii")))
    return specs
