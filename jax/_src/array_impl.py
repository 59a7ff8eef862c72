"""`ArrayImpl`: the attributes and conversions of concrete arrays.

jaxlib defines the class; shape, conversions, printing, shards and pickling are added here. Methods
that need transfers or programs are added by `jax._src.device_put.functions` and `jax._src.array`,
operators and NumPy methods by `jax._src.numpy.array_methods`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import basearray as basearray, config, core, dtypes, xla_bridge as xb
from jax._src.abstract_arrays import canonical_dtype
from jax._src.layout import Format, Layout
from jax._src.lib import Device, _jax
from jax._src.memory import SPACE_OF_KIND
from jax._src.mesh import AxisType
from jax._src.named_sharding import NamedSharding, explicit_part
from jax._src.native_classes import use_cpp_class
from jax._src.sharding import Sharding
from jax._src.sharding_impls import (
    SingleDeviceSharding,
    device_replica_id_map,
    hashed_index,
    make_single_device_sharding,
)
from jax._src.util import register_cache

Shape = tuple[int, ...]
Index = tuple[slice, ...]

_asarray = np.asarray


class Shard:
    """The part of an array on one device.

    Attributes:
      device: the device.
      index: the slices of the array that the shard holds.
      replica_id: the number of this copy among the shards with the same index, from 0.
      data: the shard as an array on `device`; None if it belongs to another process.

    Example:
      >>> [shard] = jnp.arange(3).addressable_shards
      >>> shard.index, shard.replica_id, shard.data
      ((slice(None, None, None),), 0, Array([0, 1, 2], dtype=int32))
    """

    def __init__(self, device: Device, sharding: Sharding, global_shape: Shape, data: Any = None):
        self._device = device
        self._sharding = sharding
        self._global_shape = global_shape
        self._data = data

    @property
    def device(self) -> Device:
        return self._device

    @property
    def data(self) -> Any:
        return self._data

    @property
    def index(self) -> Index:
        indices = self._sharding.devices_indices_map(tuple(self._global_shape))
        if self._device not in indices:
            raise ValueError(f"Device {self._device} is none of the devices of {self._sharding}.")
        return indices[self._device]

    @property
    def replica_id(self) -> int:
        return device_replica_id_map(self._sharding, tuple(self._global_shape))[self._device]

    def __repr__(self) -> str:
        data = None if self.data is None else str(self.data)
        return (
            f"Shard(device={self._device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={data})"
        )


@functools.lru_cache(maxsize=4096)
def _owned_shards(sharding: Sharding, shape: Shape) -> list[tuple[int, Index]]:
    """For each distinct part of the array, one addressable shard: its position and its index."""
    seen = set()
    out = []
    for i, index in enumerate(sharding.addressable_devices_indices_map(shape).values()):
        key = hashed_index(index)
        if key not in seen:
            seen.add(key)
            out.append((i, index))
    return out


@functools.lru_cache(maxsize=4096)
def _addressable_shards_cover(sharding: Sharding, shape: Shape) -> bool:
    """Whether the shards of this process alone hold the whole array."""
    parts = {hashed_index(i) for i in sharding.devices_indices_map(shape).values()}
    here = {hashed_index(i) for i in sharding.addressable_devices_indices_map(shape).values()}
    return parts == here


def _scalar(x: Any) -> Any:
    """The element of a 0-d array as a Python scalar."""
    if x.aval.shape:
        raise TypeError(
            f"Only scalar arrays can be converted to Python scalars; got arr.ndim={x.ndim}"
        )
    return _asarray(x).item()


_NOT_FETCHABLE = (
    "Fetching value for `jax.Array` that spans non-addressable (non process local) devices is not"
    " possible. Its shards of this process are `x.addressable_shards`;"
    " jax.experimental.multihost_utils.process_allgather(x) gathers all of it in every process."
)


# Native methods that are wrapped below, since they crash on deleted arrays.
_native_is_ready = _jax.ArrayImpl.is_ready
_native_clone = _jax.ArrayImpl.clone
_native_platform = _jax.ArrayImpl.platform


@use_cpp_class(_jax.ArrayImpl)
class ArrayImpl:
    """A concrete array: its type, its sharding, and a buffer on each device of this process."""

    __module__ = "jaxlib._jax"
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    if TYPE_CHECKING:  # attributes of the native class
        aval: core.ShapedArray
        _sharding: Sharding
        _committed: bool

        def __init__(
            self, aval: Any, sharding: Any, arrays: Any, committed: bool, _skip_checks: bool = False
        ) -> None: ...

    # Called by the constructor unless `_skip_checks` is set. Older jaxlibs pass the array first.
    @staticmethod
    def _check_and_rearrange(*args: Any) -> list[Any]:
        return _check_and_rearrange(*args[-3:])

    # Attributes

    shape = property(attrgetter("aval.shape"))
    dtype = property(attrgetter("aval.dtype"))
    weak_type = property(attrgetter("aval.weak_type"))
    sharding = property(attrgetter("_sharding"))
    committed = property(attrgetter("_committed"))
    is_fully_replicated = property(attrgetter("_sharding.is_fully_replicated"))
    is_fully_addressable = property(attrgetter("_sharding.is_fully_addressable"))

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return math.prod(self.aval.shape)

    @property
    def nbytes(self) -> int:
        """Total bytes consumed by the elements of the array."""
        aval = self.aval
        return math.prod(aval.shape) * aval.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Length of one array element in bytes."""
        return self.aval.dtype.itemsize

    @property
    def device(self) -> Device | Sharding:
        self._check_if_deleted()
        sharding = self._sharding
        return sharding._device if type(sharding) is SingleDeviceSharding else sharding

    def devices(self) -> set[Device]:
        """The devices that hold the array, in all processes."""
        self._check_if_deleted()
        sharding = self._sharding
        if type(sharding) is SingleDeviceSharding:
            return {sharding._device}
        return set(sharding.device_set)

    @property
    def format(self) -> Format:
        """The sharding together with the layout in the devices' memory."""
        if self.is_deleted():
            return Format(None, self._sharding)
        try:
            layout = Layout.from_pjrt_layout(self._pjrt_layout)
        except _jax.JaxRuntimeError as err:
            if "UNIMPLEMENTED" not in str(err):
                raise
            layout = None  # the platform does not report layouts
        return Format(layout, self._sharding)

    @property
    def device_buffer(self) -> Any:
        raise AttributeError("x.device_buffer is gone: use x.addressable_data(0).")

    @property
    def device_buffers(self) -> Any:
        raise AttributeError(
            "x.device_buffers is gone: use [shard.data for shard in x.addressable_shards]."
        )

    # Buffers

    def _check_if_deleted(self) -> None:
        if self.is_deleted():
            raise RuntimeError(f"Array has been deleted with shape={self.aval.str_short()}.")

    def is_ready(self) -> bool:
        """Whether the computation of the array has finished."""
        self._check_if_deleted()
        return _native_is_ready(self)

    def clone(self) -> ArrayImpl:
        """A new array that shares the buffers."""
        self._check_if_deleted()
        return _native_clone(self)

    def platform(self) -> str:
        """The platform of the devices, such as 'cpu'."""
        self._check_if_deleted()
        return _native_platform(self)

    def addressable_data(self, index: int) -> ArrayImpl:
        self._check_if_deleted()
        if self.is_fully_replicated:
            return self._fully_replicated_shard()
        return self._arrays[index]

    @property
    def addressable_shards(self) -> list[Shard]:
        self._check_if_deleted()
        sharding, shape = self._sharding, self.aval.shape
        return [Shard(a._sharding._device_assignment[0], sharding, shape, a) for a in self._arrays]

    @property
    def global_shards(self) -> list[Shard]:
        self._check_if_deleted()
        sharding = self._sharding
        if sharding.is_fully_addressable:
            return self.addressable_shards
        data = {a._sharding._device_assignment[0]: a for a in self._arrays}
        shape = self.aval.shape
        return [Shard(d, sharding, shape, data.get(d)) for d in sharding._device_assignment]

    def copy_to_host_async(self) -> None:
        self._check_if_deleted()
        if self._npy_value is not None:
            return
        sharding = self._sharding
        arrays = self._arrays
        if sharding.is_fully_replicated:
            if arrays:
                self._copy_single_device_array_to_host_async()
            return
        for i, _ in _owned_shards(sharding, self.aval.shape):
            arrays[i]._copy_single_device_array_to_host_async()

    # The value on the host

    @property
    def _value(self) -> np.ndarray:
        value = self._npy_value
        if value is not None:
            return value
        self._check_if_deleted()
        sharding = self._sharding
        if sharding.is_fully_replicated:
            if not sharding.is_fully_addressable and not self._arrays:
                raise RuntimeError(_NOT_FETCHABLE)
            value, did_copy = self._single_device_array_to_np_array_did_copy()
            value.flags.writeable = False
            if did_copy:
                self._npy_value = value
            return value
        shape = self.aval.shape
        if not sharding.is_fully_addressable and not _addressable_shards_cover(sharding, shape):
            raise RuntimeError(_NOT_FETCHABLE)
        self.copy_to_host_async()
        value = np.empty(shape, self.aval.dtype)
        arrays = self._arrays
        for i, index in _owned_shards(sharding, shape):
            value[index] = arrays[i]._single_device_array_to_np_array_did_copy()[0]
        value.flags.writeable = False
        self._npy_value = value
        return value

    def __array__(
        self, dtype: Any = None, context: Any = None, copy: bool | None = None
    ) -> np.ndarray:
        # With copy=False and another dtype, NumPy raises the error.
        value = self._value
        if copy is None:
            return value if dtype is None else _asarray(value, dtype=dtype)
        return np.array(value, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        shape = self.aval.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    def __bool__(self) -> bool:
        size = self.size
        if size != 1:
            if size == 0:
                raise ValueError(
                    "The truth value of an empty array is ambiguous. Use `array.size > 0` to check"
                    " that an array is not empty."
                )
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous."
                " Use a.any() or a.all()"
            )
        return bool(_asarray(self).item())

    def __float__(self) -> float:
        return float(_scalar(self))

    def __int__(self) -> int:
        return int(_scalar(self))

    def __complex__(self) -> complex:
        return complex(_scalar(self))

    def __index__(self) -> int:
        core.check_integer_conversion(self)
        return int(_asarray(self).item())

    def __hex__(self) -> str:
        return hex(self.__index__())

    def __oct__(self) -> str:
        return oct(self.__index__())

    def item(self, *args: Any) -> Any:
        """The element of an array of size 1, or the one at an index, as a Python scalar."""
        return _asarray(self).item(*args)

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars."""
        return _asarray(self).tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """The bytes of the elements, in the order of NumPy's argument of the same name."""
        return self._value.tobytes(order)

    # Printing

    def _has_value(self) -> bool:
        sharding = self._sharding
        if type(sharding) is NamedSharding and sharding.spec.unreduced:
            return False  # the value is a sum over devices that has not been computed
        return sharding.is_fully_addressable or _addressable_shards_cover(sharding, self.aval.shape)

    def __repr__(self) -> str:
        aval = self.aval
        rest = f"dtype={dtypes.dtype_name(aval.dtype)}" + (", weak_type=True" * aval.weak_type)
        if not self._has_value():
            return f"Array(shape={aval.shape}, {rest}, sharding={self._sharding})"
        width = np.get_printoptions()["linewidth"]
        if self.size == 0:
            text = f"[], shape={aval.shape}"
        else:
            text = np.array2string(
                self._value, prefix="Array(", suffix=",", separator=", ", max_line_width=width
            )
        last_line = len(text) - text.rfind("\n") + 1
        sep = " " if last_line + len(rest) + 2 <= width else "      "  # the documented format
        return f"Array({text},{sep}{rest})"

    def __str__(self) -> str:
        return str(self._value) if self._has_value() else repr(self)

    def __format__(self, spec: str) -> str:
        if not self._has_value():
            return format(repr(self), spec)
        value = self._value
        return format(value if value.ndim else value[()], spec)

    # Pickling

    def __reduce__(self) -> Any:
        fun, args, state = self._value.__reduce__()
        return _reconstruct_array, (fun, args, state, {"weak_type": self.aval.weak_type})


def _reconstruct_array(fun: Any, args: Any, arr_state: Any, aval_state: dict[str, Any]) -> Any:
    value = fun(*args)
    value.__setstate__(arr_state)
    return array_from_numpy(value, weak_type=aval_state["weak_type"])


_reconstruct_array.__module__ = "jax._src.array"  # pickles contain this name


core.pytype_aval_mappings[ArrayImpl] = attrgetter("aval")
dtypes.canonicalize_value_handlers[ArrayImpl] = lambda x: x


# The default placement of arrays


class _DefaultShardings(dict):
    """Shardings by the value of `jax_default_device`, so that the device is looked up only once."""

    def __missing__(self, setting: Any) -> SingleDeviceSharding:
        if setting is None:
            device = xb.local_devices()[0]
        elif isinstance(setting, str):
            device = xb.get_backend(setting).local_devices()[0]
        else:
            device = setting
        sharding = self[setting] = make_single_device_sharding(device)
        return sharding

    cache_clear = dict.clear


_default_shardings = _DefaultShardings()
_device_shardings = _DefaultShardings()
register_cache(_default_shardings, "default devices")
register_cache(_device_shardings, "shardings of devices")
_default_device_setting = config.default_device


def default_device() -> Device:
    """The device of uncommitted arrays: `jax_default_device`, or the first of this process."""
    return _default_shardings[_default_device_setting.value]._device


def default_sharding() -> SingleDeviceSharding:
    """The sharding of uncommitted arrays."""
    return _default_shardings[_default_device_setting.value]


def device_sharding(device: Device) -> SingleDeviceSharding:
    """The sharding on one device; the same object at each call."""
    return _device_shardings[device]


# Arrays from host data

_batched_device_put = _jax.batched_device_put
_COPY_DURING_CALL = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
ShapedArray = core.ShapedArray


def array_from_numpy(
    x: Any, dtype: Any = None, weak_type: bool = False, *, copy: bool = True
) -> ArrayImpl:
    """An uncommitted array on the default device from a NumPy array or a scalar.

    Args:
      x: a NumPy array or scalar, or a Python scalar.
      dtype: a canonical dtype; by default that of `x`, canonicalized.
      weak_type: whether the dtype of the array is weak.
      copy: False allows the array to share the memory of `x`, which must then not change.

    Raises:
      TypeError: the dtype of `x` is not supported by arrays.
    """
    if type(x) is not np.ndarray:
        x = _asarray(x)
    if dtype is None:
        dtype = canonical_dtype(x.dtype)
    if x.dtype != dtype:
        x = x.astype(dtype)
    sharding = _default_shardings[_default_device_setting.value]
    aval = ShapedArray(x.shape, dtype, weak_type)
    if copy:
        return _batched_device_put(
            aval, sharding, [x], [sharding._device], False, False, _COPY_DURING_CALL
        )
    return _batched_device_put(aval, sharding, [x], [sharding._device], False)


# Arrays from shards


@functools.lru_cache(maxsize=4096)
def aval_with_sharding(aval: Any, sharding: Sharding | None) -> Any:
    """The type of an array of type `aval` once it has the given sharding.

    The type includes explicit mesh axes, and the memory space if the sharding specifies one.
    """
    if type(aval) is not ShapedArray:
        return aval
    space = SPACE_OF_KIND.get(getattr(sharding, "memory_kind", None), aval.memory_space)
    if space is not aval.memory_space:
        aval = aval.update(memory_space=space)
    if type(sharding) is not NamedSharding:
        return aval
    mesh = sharding.mesh.abstract_mesh
    if AxisType.Explicit not in mesh.axis_types:
        return aval
    return aval.update(sharding=explicit_part(mesh, sharding.spec))


def _check_and_rearrange(arrays: Sequence[Any], sharding: Sharding, aval: Any) -> list[Any]:
    """The shards in the order of the sharding's devices.

    Raises:
      ValueError: the number, devices, shapes or dtypes of the shards do not match.
    """
    devices = sharding._addressable_device_assignment
    if len(arrays) != len(devices):
        raise ValueError(
            f"Expected {len(devices)} per-device arrays (this is how many devices are addressable by"
            f" the sharding), but got {len(arrays)}"
        )
    for a in arrays:
        if a._sharding.num_devices != 1:
            raise ValueError(
                "When making an array from single-device arrays the input arrays must have one shard"
                f" each. An argument array had {a._sharding.num_devices} shard(s)."
            )
    ids = [device.id for a in arrays for device in a._sharding.device_set]
    by_device = {device: a for a in arrays for device in a._sharding.device_set}
    if len(by_device) != len(arrays):
        raise ValueError(
            "When making an array from single-device arrays, the input arrays must be from distinct"
            f" devices, but got device IDs {ids}"
        )
    if by_device.keys() != set(devices):
        missing = sorted(d.id for d in set(devices) - by_device.keys())
        extra = sorted(d.id for d in by_device.keys() - set(devices))
        raise ValueError(
            "Addressable devices and per-device arrays devices do not match: devices with the IDs"
            f" {missing} of the sharding have no array, and there are arrays on devices with the IDs"
            f" {extra}, which are not in the sharding."
        )
    check_shards(arrays, sharding, aval)
    return [by_device[d] for d in devices]


def check_shards(arrays: Sequence[Any], sharding: Sharding, aval: Any) -> None:
    expected = sharding.shard_shape(aval.shape)
    for a in arrays:
        if a.dtype != aval.dtype:
            raise ValueError(
                f"Input buffers to `Array` must have matching dtypes. Got {a.dtype}, expected"
                f" {aval.dtype} for buffer: {a}"
            )
        if a.shape != expected:
            raise ValueError(
                f"Expected shard shape {expected} doesn't match the single device array shape"
                f" {a.shape}. Shape of Array is {aval.str_short()} with sharding {sharding}"
            )
