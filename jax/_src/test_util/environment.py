"""The environment of tests: versions, sanitizers, kinds of devices; marks and captured output."""

import contextlib
import functools
import io
import os
import re
import sys
import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import jax
from jax._src import config
from jax._src.api import jit
from jax._src.lib import version_str as _jaxlib_version
from jax._src.test_util.devices import test_device_matches

# `jit`, and a replacement with the same arguments that does nothing.
JIT_IMPLEMENTATION = (jit, lambda fun, *args, **kwargs: fun)
MeshSpec = list[tuple[str, int]]
ToleranceDict = dict[np.dtype, "int | float"]


def parse_version(v: str) -> tuple[int, ...]:
    """The numbers of a version: `parse_version("1.2.3rc1") == (1, 2, 3)`."""
    numbers = re.match(r"\d+(\.\d+)*", v)
    if numbers is None:
        raise ValueError(f"{v!r} is no version")
    return tuple(map(int, numbers[0].split(".")))


def numpy_version() -> tuple[int, ...]:
    return parse_version(np.__version__)


def jaxlib_version() -> tuple[int, ...]:
    return parse_version(_jaxlib_version)


def stablehlo_version_at_least(required_version: str) -> bool:
    """Whether the plugin supports this version of StableHLO; built-in backends always do."""
    plugin = getattr(jax.devices()[0].client, "stablehlo_current_version", None)
    return plugin is None or tuple(plugin) >= parse_version(required_version)


def pjrt_c_api_version_at_least(major_version: int, minor_version: int) -> bool:
    """Whether the plugin has this version of the interface; built-in backends always do."""
    client = jax.devices()[0].client
    found = [getattr(client, f"pjrt_c_api_{k}_version", None) for k in ("major", "minor")]
    return None in found or tuple(found) >= (major_version, minor_version)


def is_asan() -> bool:
    return "asan" in os.getenv("JAX_SANITIZER", "")


def is_msan() -> bool:
    return "msan" in os.getenv("JAX_SANITIZER", "")


def is_tsan() -> bool:
    return "tsan" in os.getenv("JAX_SANITIZER", "")


def is_gil_disabled() -> bool:
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def is_running_under_pytest() -> bool:
    return "pytest" in sys.modules


def runtime_environment() -> str | None:
    """The test runner: bazel, pytest, or None."""
    if os.getenv("TEST_SRCDIR") or os.getenv("BAZEL_TEST"):
        return "bazel"
    return "pytest" if is_running_under_pytest() else None


def skip_under_pytest(reason: str) -> Callable:
    """Skips a test under pytest."""
    return unittest.skipIf(is_running_under_pytest(), f"Not under pytest: {reason}")


def pytest_mark_if_available(marker: str) -> Callable:
    """Marks a test or a class for pytest, if that is installed."""

    def wrap(test):
        try:
            import pytest  # an optional dependency
        except ImportError:
            return test
        return getattr(pytest.mark, marker)(test)

    return wrap


def thread_unsafe_test(condition: bool = True) -> contextlib.AbstractContextManager:
    """Marks a test that must not run concurrently with others; here tests run one at a time."""
    return _Unmarked()


class _Unmarked(contextlib.ContextDecorator):
    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc_info: Any) -> None:
        pass


def thread_unsafe_test_class(condition: bool = True) -> Callable:
    """Marks a class of tests that must not run concurrently; see `thread_unsafe_test`."""
    return lambda cls: cls


# Devices


def pattern_search(patterns: str | Sequence[str], string: str) -> str | None:
    """The first pattern that matches in `string`."""
    patterns = (patterns,) if isinstance(patterns, str) else patterns
    return next((p for p in patterns if re.search(p, string)), None)


def device_kind_match(device_patterns: str | Sequence[str]) -> str | None:
    """The first pattern that matches in the kind of the first device."""
    return pattern_search(device_patterns, jax.devices()[0].device_kind)


def is_device_tpu(version: int | None = None, variant: str = "") -> bool:
    """Whether tests run on a TPU, of the given version (4, 5, …) and variant (e, p, …), if any."""
    if not test_device_matches(["tpu"]):
        return False
    kind = jax.devices()[0].device_kind
    if version is None:
        return True
    if variant:
        names = {"e": (" lite", "e"), "p": ("", "p")}.get(variant, (variant,))
        return any(f"v{version}{n}" in kind for n in names)
    return f"v{version}" in kind


def get_tpu_version() -> int:
    """The version of the TPU that tests run on."""
    found = re.search(r"v(\d+)", jax.devices()[0].device_kind)
    if not test_device_matches(["tpu"]) or found is None:
        raise ValueError("tests do not run on a TPU")
    return int(found[1])


def is_device_tpu_at_least(version: int) -> bool:
    return is_device_tpu() and get_tpu_version() >= version


def is_cloud_tpu() -> bool:
    return is_device_tpu() and "libtpu" in jax.devices()[0].client.platform_version


def _cuda_capability() -> tuple[int, ...] | None:
    if not test_device_matches(["cuda"]):
        return None
    return parse_version(jax.devices()[0].compute_capability)


def is_cuda_compute_capability_at_least(capability: str) -> bool:
    found = _cuda_capability()
    return found is not None and found >= parse_version(capability)


def is_cuda_compute_capability_equal(capability: str) -> bool:
    return _cuda_capability() == parse_version(capability)


class CudaArchSpecificTest:
    """A mixin that skips tests on GPUs without the required capability."""

    def skip_unless_sm90a(self):
        if not is_cuda_compute_capability_equal("9.0"):
            self.skipTest("Only works on GPU with capability sm90a")  # type: ignore[attr-defined]

    def skip_unless_sm100a(self):
        if not is_cuda_compute_capability_equal("10.0"):
            self.skipTest("Only works on GPU with capability sm100a")  # type: ignore[attr-defined]


# Environment and output


@contextlib.contextmanager
def set_env(**kwargs: str | None) -> Iterator[None]:
    """Context manager: sets environment variables, or unsets those given as None."""
    before = {name: os.environ.get(name) for name in kwargs}
    try:
        _update_environment(kwargs)
        yield
    finally:
        _update_environment(before)


def _update_environment(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def _capture_output(redirect: Callable) -> Iterator[Callable[[], str]]:
    with redirect(io.StringIO()) as text:
        yield text.getvalue


capture_stdout = functools.partial(_capture_output, contextlib.redirect_stdout)
capture_stderr = functools.partial(_capture_output, contextlib.redirect_stderr)


@contextlib.contextmanager
def thread_local_config_context(**kwds: Any) -> Iterator[None]:
    """Context manager: sets options, named as in `jax.config`, for this thread."""
    with contextlib.ExitStack() as stack:
        for name, value in kwds.items():
            stack.enter_context(config.config._value_holders[name](value))
        yield


def sanitize_test_name(s: str) -> str:
    """Replace characters of `s` that names of tests must not contain by underscores."""
    return re.sub(r"[ \"'\[\](){}<>=,._]+", "_", s)
