"""The devices that tests run on, and skipping tests that do not support them."""

import contextlib
import functools
import math
import os
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import jax
from jax._src import config, xla_bridge
from jax._src.interpreters import mlir

_TEST_DUT = config.string_flag(
    "jax_test_dut",
    os.getenv("JAX_TEST_DUT", ""),
    "The platform that tests run on: cpu, gpu or tpu; by default that of the first device.",
)


def device_under_test() -> str:
    """The platform tests run on: cpu, gpu or tpu."""
    return _TEST_DUT.value or jax.devices()[0].platform


def _get_device_tags() -> set[str]:
    """What the tested platform is called: its name, and that of the GPUs' vendor."""
    platform = device_under_test()
    return {platform, *(kind for kind in ("cuda", "rocm") if platform == "gpu" and is_device(kind))}


def test_device_matches(device_types: Iterable[str]) -> bool:
    """Whether the tested platform is one of these (`gpu` includes cuda and rocm)."""
    if isinstance(device_types, str):
        raise TypeError(f"test_device_matches takes a list of names, got {device_types!r}")
    return not _get_device_tags().isdisjoint(device_types)


test_device_matches.__test__ = False  # type: ignore[attr-defined]  (not a test, for pytest)


def is_device(kind: str) -> bool:
    version = getattr(jax.devices()[0].client, "platform_version", "")
    return kind in version


def is_device_cuda() -> bool:
    return device_under_test() == "gpu" and is_device("cuda")


def is_device_rocm() -> bool:
    return device_under_test() == "gpu" and is_device("rocm")


def device_supports_buffer_donation():
    """Decorator: run a test on platforms that support the donation of buffers."""
    return _device_filter(
        lambda: test_device_matches(sorted(mlir._platforms_with_donation)),
        "Buffer donation is not supported on this platform.",
    )


def supported_dtypes() -> set:
    """The scalar types that arrays can have on this platform."""
    types = {
        np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32,
        ml_dtypes.bfloat16, np.float16, np.float32, np.complex64, ml_dtypes.int4, ml_dtypes.uint4,
    }  # fmt: skip
    if config.enable_x64.value:
        types |= {np.int64, np.uint64, np.float64, np.complex128}
    return types


def is_optimized_build() -> bool:
    return True


def _device_filter(predicate: Callable[[], bool], skip_reason: str | None = None):
    def decorate(test_method):
        @functools.wraps(test_method)
        def wrapper(self, *args, **kwargs):
            if not predicate():
                name = getattr(self, "_testMethodName", test_method.__name__)
                tags = _get_device_tags()
                self.skipTest(skip_reason or f"{name} not supported on device with tags {tags}.")
            return test_method(self, *args, **kwargs)

        return wrapper

    return decorate


def skip_on_devices(*disabled_devices: str, skip_reason: str | None = None):
    """Decorator: skip a test on these platforms."""
    return _device_filter(
        lambda: not test_device_matches(disabled_devices),
        skip_reason or "Skipped on devices with tags: " + ", ".join(disabled_devices),
    )


def run_on_devices(*enabled_devices: str, skip_reason: str | None = None):
    """Decorator: run a test on these platforms only."""
    return _device_filter(
        lambda: test_device_matches(enabled_devices),
        skip_reason or "Skipped unless running on devices with tags: " + ", ".join(enabled_devices),
    )


def skip_on_flag(flag_name: str, skip_value: Any):
    """Decorator: skip a test if a flag has a given value."""

    def decorate(test_method):
        @functools.wraps(test_method)
        def wrapper(self, *args, **kwargs):
            if getattr(config.config, flag_name) == skip_value:
                name = getattr(self, "_testMethodName", test_method.__name__)
                self.skipTest(f"{name} not supported when FLAGS.{flag_name} is {skip_value}")
            return test_method(self, *args, **kwargs)

        return wrapper

    return decorate


def request_cpu_devices(nr_devices: int) -> None:
    """Set the number of CPU devices at the start of a test module, before any device is used."""
    if xla_bridge.backends_are_initialized():
        xla_bridge._clear_backends()
    config.update("jax_num_cpu_devices", nr_devices)


@contextlib.contextmanager
def with_mesh(named_shape: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Context manager: a mesh of the first devices, with the given names and sizes of axes."""
    names, sizes = zip(*named_shape) if named_shape else ((), ())
    with create_mesh(sizes, names):
        yield


def create_mesh(
    mesh_shape: Sequence[int], axis_names: Sequence[str], iota_order: bool = False, axis_types=None
):
    """A mesh of the first devices; skips the test if there are too few.

    `iota_order` places the devices in the order of their numbers, whatever their topology.
    """
    size = math.prod(mesh_shape)
    if len(jax.devices()) < size:
        raise unittest.SkipTest(
            f"Test requires {size} global devices and found {len(jax.devices())}."
        )
    if axis_types is None:
        axis_types = (jax.sharding.AxisType.Auto,) * len(axis_names)
    if not iota_order:
        return jax.make_mesh(mesh_shape, axis_names, axis_types=axis_types)
    devices = sorted(jax.devices(), key=lambda d: d.id)[:size]
    return jax.sharding.Mesh(
        np.array(devices).reshape(mesh_shape), axis_names, axis_types=axis_types
    )


def with_explicit_mesh(
    sizes: Sequence[int], names: Sequence[str], axis_types=None, iota_order: bool = False
):
    """Decorator: runs a test under a mesh, by default with explicit axes, passed as `mesh`."""
    if axis_types is None:
        axis_types = (jax.sharding.AxisType.Explicit,) * len(names)

    def decorator(fun):
        @functools.wraps(fun)
        def with_mesh(*args, **kwargs):
            mesh = create_mesh(sizes, names, iota_order, axis_types=axis_types)
            with jax.set_mesh(mesh):
                return fun(*args, **kwargs, mesh=mesh)

        # pytest must not take `mesh` for a fixture.
        del with_mesh.__wrapped__
        return with_mesh

    return decorator


def with_mesh_from_kwargs(f):
    """Decorator: runs a test under the mesh that its keyword argument `mesh` describes."""

    @functools.wraps(f)
    def run(*args, **kwargs):
        with with_mesh(kwargs["mesh"]):
            return f(*args, **kwargs)

    return run
