"""The environment of tests: versions, sanitizers, kinds of devices; marks and captured output."""

import contextlib
import datetime
import io
import os
import re
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import numpy as np

import jax
from jax._src import config
from jax._src.api import jit
from jax._src.lib import version_str as _jaxlib_version
from jax._src.test_util.devices import test_device_matches


def _NOOP_JIT_IMPLEMENTATION(x, *args, **kwargs):
    return x


# `jit`, and a replacement with the same arguments that does nothing.
JIT_IMPLEMENTATION = (jit, _NOOP_JIT_IMPLEMENTATION)
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


def is_sanitized() -> bool:
    return is_asan() or is_msan() or is_tsan()


def is_gil_disabled() -> bool:
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def is_running_under_pytest() -> bool:
    return "pytest" in sys.modules


def runtime_environment() -> str | None:
    """Whose Python runs: "bazel" if it is one that Bazel has built, else "pytest"; None if it is not known.

    The result does not say whether pytest runs the tests: see `is_running_under_pytest`.
    """
    if sys.executable is None:
        return None
    return "bazel" if "bazel-out" in sys.executable else "pytest"


def is_running_under_bazel() -> bool:
    """Whether Bazel runs the tests, with its own Python or another one."""
    return bool(os.getenv("TEST_SRCDIR") or os.getenv("BAZEL_TEST"))


def is_test_rbe() -> bool:
    """Whether a remote worker runs the tests, which sets the variable TEST_RBE."""
    return os.getenv("TEST_RBE") is not None


def skip_under_pytest(reason: str) -> Callable:
    """Skips a test under pytest."""
    return unittest.skipIf(is_running_under_pytest(), f"Running under pytest: {reason}")


def pytest_mark_if_available(marker: str) -> Callable:
    """Marks a test or a class for pytest, if that is installed."""

    def wrap(test):
        try:
            import pytest  # an optional dependency
        except ImportError:
            return test
        return getattr(pytest.mark, marker)(test)

    return wrap


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
        raise ValueError("Device is not TPU")
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


def is_cuda_version_at_least(major: int, minor: int) -> bool:
    """Whether tests run on a GPU with this version of CUDA, or a later one."""
    found = re.search(r"cuda\s+(\d+)", jax.devices()[0].client.platform_version)
    if not test_device_matches(["cuda"]) or found is None:
        return False
    version = int(found[1])  # 12040 is 12.4
    return (version // 1000, version % 1000 // 10) >= (major, minor)


def get_cuda_nonportable_max_cluster_size() -> int:
    """The greatest number of blocks in a cluster, on GPUs whose kernels may ask for it."""
    # Thor and the GPUs of desktops have half as many as those of data centers.
    return 8 if device_kind_match(("GB10", "Thor")) else 16


running_in_cloud_tpu_vm = any(os.path.exists(f"/dev/{name}") for name in ("accel0", "vfio/0"))


def is_cloud_tpu_at_least(year: int, month: int, day: int) -> bool:
    """Whether the TPU library was built on this date or later; true on other devices."""
    if not is_cloud_tpu():
        return True
    found = re.search(r"Built on (\w+ +\d+ \d+)", jax.devices()[0].client.platform_version)
    if found is None:
        return False
    built = datetime.datetime.strptime(found[1], "%b %d %Y").date()
    return built >= datetime.date(year, month, day)


# Shared memory that kernels in tests may use on each supported GPU, in bytes.
_SMEM_SIZE_BOUND_FOR_TESTS = 99 * 1024


class CudaArchSpecificTest:
    """A mixin that skips tests on GPUs without the required capability."""

    def skip_unless_sm90a(self):
        """Skips the test unless the GPU is of capability 9.0."""
        if not is_cuda_compute_capability_equal("9.0"):
            self.skipTest("Only works on GPU with capability sm90a")  # type: ignore[attr-defined]

    def skip_unless_tcgen05(self):
        """Skips the test unless the GPU has the fifth generation of tensor cores."""
        if not test_device_matches(["cuda"]):
            self.skipTest("Only works on GPU")  # type: ignore[attr-defined]
        if (_cuda_capability() or (0,))[0] not in (10, 11):
            self.skipTest("Only works on GPU with tcgen05 support")  # type: ignore[attr-defined]

    def skip_unless_tcgen05_int8(self):
        """Skips the test unless these tensor cores multiply 8-bit integers, as 10.3 does not."""
        self.skip_unless_tcgen05()
        if is_cuda_compute_capability_equal("10.3"):
            self.skipTest("Does not work on GPU with capability 10.3")  # type: ignore[attr-defined]


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
def _capture_output(fp: TextIO) -> Iterator[Callable[[], str]]:
    """Context manager: captures what Python and native code write to a file.

    Yields:
      A function that returns the text; called after the context.
    """
    text: list[str] = []
    if not _has_descriptor(fp):  # such as what pytest replaces the standard output by
        name = "stdout" if fp is sys.stdout else "stderr" if fp is sys.stderr else None
        if name is None:
            raise ValueError(f"{fp} has no file descriptor, and is not a standard stream")
        redirect = getattr(contextlib, f"redirect_{name}")
        with redirect(io.StringIO()) as buffer:
            yield lambda: "".join(text)
        text.append(buffer.getvalue())
        return
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8") as file:
        fp.flush()
        original = os.dup(fp.fileno())
        try:
            os.dup2(file.fileno(), fp.fileno())
            yield lambda: "".join(text)
        finally:
            fp.flush()
            os.dup2(original, fp.fileno())
            os.close(original)
        file.seek(0)
        text.append(file.read())


def _has_descriptor(fp: TextIO) -> bool:
    try:
        fp.fileno()
    except (AttributeError, OSError):  # io.UnsupportedOperation is an OSError
        return False
    return True


def capture_stdout() -> contextlib.AbstractContextManager[Callable[[], str]]:
    """Context manager: captures the standard output; see `_capture_output`."""
    return _capture_output(sys.stdout)


def capture_stderr() -> contextlib.AbstractContextManager[Callable[[], str]]:
    """Context manager: captures the standard error stream; see `_capture_output`."""
    return _capture_output(sys.stderr)


@contextlib.contextmanager
def thread_local_config_context(**kwds: Any) -> Iterator[None]:
    """Context manager: sets options, named as in `jax.config`, for this thread."""
    with contextlib.ExitStack() as stack:
        for name, value in kwds.items():
            stack.enter_context(config.config._value_holders[name](value))
        yield


kSanitizeNameRE = re.compile(r"[ \"'\[\](){}<>=,._]+")


def sanitize_test_name(s: str) -> str:
    """Replace characters of `s` that names of tests must not contain by underscores."""
    return kSanitizeNameRE.sub("_", s)
