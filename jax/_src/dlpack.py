"""Memory sharing with other libraries through the DLPack protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes, xla_bridge as xb
from jax._src.abstract_arrays import canonical_dtype
from jax._src.array_impl import ArrayImpl
from jax._src.device_put.functions import device_put
from jax._src.errors import JaxRuntimeError
from jax._src.late_binding import late
from jax._src.lib import Device, _jax
from jax._src.sharding import Sharding
from jax._src.typing import Array, DLDeviceType, DTypeLike

MIN_DLPACK_VERSION = (0, 5)

SUPPORTED_DTYPES_SET = frozenset(
    {
        np.dtype(dtypes.bfloat16),
        *map(np.dtype, ("bool", "float16", "float32", "float64", "complex64", "complex128")),
        *map(np.dtype, ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
    }
)

_DL_DEVICE_TO_PLATFORM = {
    DLDeviceType.kDLCPU: "cpu",
    DLDeviceType.kDLCUDA: "cuda",
    DLDeviceType.kDLCUDAHost: "cuda",
    DLDeviceType.kDLROCM: "rocm",
}


def is_supported_dtype(dtype: DTypeLike) -> bool:
    """Whether arrays of a dtype can be exchanged.

    Args:
      dtype: a dtype, or its name.

    Example:
      >>> import jax.dlpack
      >>> jax.dlpack.is_supported_dtype('bfloat16'), jax.dlpack.is_supported_dtype('U1')
      (True, False)
    """
    if dtype is None:
        raise TypeError("Expected a type of elements, got None.")
    return np.dtype(dtype) in SUPPORTED_DTYPES_SET


def from_dlpack(
    external_array: Any, device: Device | Sharding | None = None, copy: bool | None = None
) -> Array:
    """Make an array from an array of another library, sharing its memory if possible.

    The other library must not modify shared memory.

    Args:
      external_array: an array with the methods `__dlpack__` and `__dlpack_device__`, of NumPy,
        PyTorch, CuPy, TensorFlow, ….
      device: the device for the array, or a sharding of one device; by default where the data is.
      copy: True always copies the data; False raises an error if a copy is needed; None copies only
        if needed.

    Returns:
      A committed array. 64-bit types become 32-bit types unless jax_enable_x64 is set.

    Raises:
      TypeError: `external_array` does not implement the protocol.
      ValueError: the data has to be copied and `copy` is False, or `device` is a sharding of more
        than one device.

    Example:
      >>> import jax.dlpack
      >>> jax.dlpack.from_dlpack(np.arange(3, dtype=np.float32))
      Array([0., 1., 2.], dtype=float32)
    """
    if isinstance(external_array, core.Tracer) or not (
        hasattr(external_array, "__dlpack__") and hasattr(external_array, "__dlpack_device__")
    ):
        raise TypeError(
            "The array passed to from_dlpack must have __dlpack__ and __dlpack_device__ methods, got a"
            f" value of type {type(external_array)}."
        )
    if isinstance(device, Sharding):
        if device.num_devices != 1:
            raise ValueError(
                "from_dlpack can only unpack a dlpack tensor onto a singular device, but a Sharding"
                f" with {device.num_devices} devices was provided."
            )
        [target] = device.device_set
    elif device is None or isinstance(device, Device):
        target = device
    else:
        raise ValueError(
            f"from_dlpack: the argument device must be a Device, a Sharding or None, got {device!r}."
        )
    dl_device_type, device_id = external_array.__dlpack_device__()
    try:
        platform = _DL_DEVICE_TO_PLATFORM[DLDeviceType(dl_device_type)]
    except ValueError:
        raise TypeError(
            "Array passed to from_dlpack is on unsupported device type (DLDeviceType:"
            f" {dl_device_type}, array: {external_array})"
        ) from None
    backend = xb.get_backend(platform)
    source = backend.device_from_local_hardware_id(device_id)
    if target is None:
        target = source
    elif target != source and copy is False:
        raise ValueError(_needs_copy(target, source))
    if platform == "cpu" or _is_tensorflow_tensor(external_array):
        stream = None
        capsule = external_array.__dlpack__()
    else:
        stream = source.get_stream_for_external_ready_events()
        capsule = external_array.__dlpack__(stream=stream)
    array = _import_capsule(capsule, source, stream, int(dl_device_type), copy)
    dtype = canonical_dtype(array.dtype)
    if dtype != array.dtype:
        array = late.convert_element_type(array, dtype)
        copy = None if copy else copy
    return device_put(
        array, device if isinstance(device, Sharding) else target, may_alias=False if copy else None
    )


def _import_capsule(
    capsule: Any, source: Device, stream: int | None, dl_device_type: int, copy: bool | None
) -> ArrayImpl:
    """A view of the memory where that is possible; else a copy, unless `copy` is False."""
    try:
        return _jax.dlpack_managed_tensor_to_buffer(
            capsule,
            source,
            stream,
            copy=False if copy is False else None,
            dl_device_type=dl_device_type if dl_device_type == DLDeviceType.kDLCUDAHost else None,
        )
    except JaxRuntimeError as error:
        if copy is False and "not aligned" in str(error):
            raise ValueError(
                "from_dlpack: the memory of the array is not aligned to 64 bytes, so that it has to be "
                "copied, and copy=False. Call it with copy=None or copy=True."
            ) from error
        raise


def _needs_copy(target: Device, source: Device) -> str:
    return (
        f"Specified device={target!r} which requires a copy since the source device is {source!r},"
        " however copy=False. Set copy=True or copy=None to perform the requested operation."
    )


def _is_tensorflow_tensor(x: Any) -> bool:
    # TensorFlow's `__dlpack__` takes no stream; it waits for the data itself.
    return any(c.__module__.startswith("tensorflow.") for c in type(x).__mro__)


def to_dlpack(
    x: Array,
    stream: int | Any | None = None,
    src_device: Device | None = None,
    dl_device: tuple[DLDeviceType, int] | None = None,
    max_version: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule with the data of a single-device array.

    Args:
      x: the array.
      stream: on GPUs, the consumer's stream, which waits for the data.
      src_device: the device of `x`, if it is known.
      dl_device: the requested device, as a pair of the protocol's device type and number.
      max_version: the newest version of the protocol that the consumer knows.
      copy: as for :func:`jax.dlpack.from_dlpack`.

    Raises:
      BufferError: `x` is on more than one device, or the device or the version is not supported.
      ValueError: the data has to be copied, and `copy` is False.
    """
    if not isinstance(x, ArrayImpl):
        raise TypeError(f"Argument to to_dlpack must be a jax.Array, got {type(x)}")
    x._check_if_deleted()
    if x.sharding.num_devices != 1:
        raise BufferError(
            "to_dlpack can only pack a dlpack tensor from an array on a singular device, but an array"
            f" with a Sharding over {x.sharding.num_devices} devices was provided."
        )
    if max_version is not None and tuple(max_version) < MIN_DLPACK_VERSION:
        raise BufferError(
            f"JAX supports DLPack versions from {MIN_DLPACK_VERSION}, but the consumer asks for at most"
            f" {max_version}."
        )
    if src_device is None:
        [src_device] = x.sharding.device_set
    device = src_device
    if dl_device is not None:
        dl_device_type, device_id = dl_device
        try:
            platform = _DL_DEVICE_TO_PLATFORM[DLDeviceType(dl_device_type)]
        except ValueError:
            raise BufferError(
                "The device specification passed to to_dlpack contains an unsupported device type"
                f" (DLDeviceType: {dl_device_type})"
            ) from None
        candidates = xb.get_backend(platform).local_devices()
        if not any(d == src_device and _hardware_id(d) == device_id for d in candidates):
            device = xb.get_backend(platform).device_from_local_hardware_id(device_id)
    if device != src_device:
        if copy is False:
            raise ValueError(_needs_copy(device, src_device))
        x = device_put(x, device)
    elif copy:
        x = device_put(x, may_alias=False)
    return _jax.buffer_to_dlpack_managed_tensor(x, stream=stream)


def _hardware_id(device: Device) -> int:
    return 0 if device.platform == "cpu" else device.local_hardware_id


# The protocol's methods on arrays


def _dlpack(
    self: ArrayImpl,
    *,
    stream: int | Any | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[DLDeviceType, int] | None = None,
    copy: bool | None = None,
) -> Any:
    return to_dlpack(self, stream, None, dl_device, max_version, copy)


def _dlpack_device(self: ArrayImpl) -> tuple[DLDeviceType, int]:
    self._check_if_deleted()
    if self.sharding.num_devices != 1:
        raise BufferError("__dlpack__ only supported for unsharded arrays.")
    [device] = self.sharding.device_set
    if device.platform == "cpu":
        return DLDeviceType.kDLCPU, 0
    if device.platform == "gpu":
        version = device.client.platform_version
        if "cuda" in version:
            return DLDeviceType.kDLCUDA, device.local_hardware_id
        if "rocm" in version:
            return DLDeviceType.kDLROCM, device.local_hardware_id
    raise BufferError(
        f"__dlpack__ device only supported for CPU and GPU, got platform: {device.platform}"
    )


ArrayImpl.__dlpack__ = _dlpack
ArrayImpl.__dlpack_device__ = _dlpack_device
