"""The devices that tests run on, and skipping tests that do not support them."""

import functools
import math
import os
import re
import unittest
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import jax
from jax._src import config, dtypes, xla_bridge


def device_under_test() -> str:
    """The platform tests run on: cpu, gpu or tpu."""
    return os.getenv("JAX_TEST_DUT") or jax.devices()[0].platform


def test_device_matches(device_types: Iterable[str]) -> bool:
    """Whether the tested platform is one of these (`gpu` includes cuda and rocm)."""
    platform = device_under_test()
    for t in device_types:
        if t == platform or (platform == "gpu" and t in ("cuda", "rocm") and is_device(t)):
            return True
    return False


test_device_matches.__test__ = False  # type: ignore[attr-defined]  (not a test, for pytest)


def is_device(kind: str) -> bool:
    version = getattr(jax.devices()[0].client, "platform_version", "")
    return kind in version


def is_device_cuda() -> bool:
    return device_under_test() == "gpu" and is_device("cuda")


def is_device_rocm() -> bool:
    return device_under_test() == "gpu" and is_device("rocm")


def device_supports_buffer_donation() -> bool:
    return True


def supported_dtypes() -> set:
    """The scalar types that arrays can have on this platform."""
    types = {
        np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, dtypes.bfloat16,
        np.float16, np.float32, np.complex64,
    }  # fmt: skip
    if config.enable_x64.value:
        types |= {np.int64, np.uint64, np.float64, np.complex128}
    return types


def is_optimized_build() -> bool:
    return True


def get_xla_flag(name: str, default: Any = None) -> Any:
    match = re.search(rf"--{name}=(\S+)", os.environ.get("XLA_FLAGS", ""))
    return match.group(1) if match else default


def _device_filter(predicate: Callable[[], bool], reason: Callable[[str], str]):
    def skip(test_method):
        @functools.wraps(test_method)
        def wrapper(self, *args, **kwargs):
            if not predicate():
                self.skipTest(reason(getattr(self, "_testMethodName", test_method.__name__)))
            return test_method(self, *args, **kwargs)

        return wrapper

    return skip


def skip_on_devices(*disabled_devices: str, skip_reason: str | None = None):
    """Decorator: skip a test on these platforms."""
    return _device_filter(
        lambda: not test_device_matches(disabled_devices),
        lambda name: skip_reason or f"{name} not supported on {device_under_test()}",
    )


def run_on_devices(*enabled_devices: str, skip_reason: str | None = None):
    """Decorator: run a test on these platforms only."""
    return _device_filter(
        lambda: test_device_matches(enabled_devices),
        lambda name: skip_reason or f"{name} runs on {enabled_devices} only",
    )


def skip_on_flag(flag_name: str, skip_value: Any):
    """Decorator: skip a test if a flag has a given value."""
    return _device_filter(
        lambda: getattr(config.config, flag_name) != skip_value,
        lambda name: f"{name} not supported with {flag_name}={skip_value}",
    )


def set_host_platform_device_count(nr_devices: int) -> Callable[[], None]:
    """Set the number of CPU devices; returns a function that restores the previous one."""
    flag = "--xla_force_host_platform_device_count"
    previous = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = re.sub(rf"{flag}=\S+", "", previous or "") + f" {flag}={nr_devices}"
    xla_bridge._clear_backends()

    def undo():
        if previous is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = previous
        xla_bridge._clear_backends()

    return undo


def request_cpu_devices(nr_devices: int) -> None:
    """Set the number of CPU devices at the start of a test module, before any device is used."""
    if xla_bridge.backends_are_initialized():
        xla_bridge._clear_backends()
    config.update("jax_num_cpu_devices", nr_devices)


def is_sanitized() -> bool:
    return False


def with_mesh(named_shape: Sequence[tuple[str, int]]):
    """Context manager: a mesh of the first devices, with the given names and sizes of axes."""
    names, sizes = zip(*named_shape) if named_shape else ((), ())
    return create_mesh(sizes, names)


def create_mesh(
    mesh_shape: Sequence[int], axis_names: Sequence[str], iota_order: bool = False, axis_types=None
):
    """A mesh of the first devices; skips the test if there are too few."""
    size = math.prod(mesh_shape)
    if len(jax.devices()) < size:
        raise unittest.SkipTest(
            f"Test requires {size} global devices and found {len(jax.devices())}."
        )
    devices = sorted(jax.devices(), key=lambda d: d.id)[:size]
    return jax.sharding.Mesh(
        np.array(devices).reshape(mesh_shape),
        axis_names,
        **({} if axis_types is None else {"axis_types": axis_types}),
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


def with_mesh_from_kwargs(fun):
    """Decorator: runs a test under the mesh described by its argument `mesh`, if given."""

    @functools.wraps(fun)
    def run(*args, **kwargs):
        if not kwargs.get("mesh"):
            return fun(*args, **kwargs)
        with with_mesh(kwargs["mesh"]):
            return fun(*args, **kwargs)

    return run
