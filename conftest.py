"""Settings of every test run. This file also puts the checkout on `sys.path`, for pytest on its own."""

import gc
import importlib.metadata
import importlib.util
import os
import re
import signal
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent
ORACLE = ROOT / ".oracle" / "bin" / "python"
QUICK = 40

if ORACLE.exists():
    os.environ.setdefault("JAX_ORACLE_PYTHON", str(ORACLE))
# Most of a run's time goes into compiling small programs that run once. Their machine code need not be fast; what
# XLA does before stays the same. With 0, tests are compiled as users' programs are.
QUICKLY = os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1"
# XLA's older code generation for CPUs, where there is one, takes half the time. What tables of cases compute eagerly
# goes through the newer one nevertheless, as do tests with the fixture `fusion_emitters`.
os.environ.setdefault("JAX_CPU_FUSION_EMITTERS", "0" if QUICKLY else "1")
# The jaxlib of the oracle, whose results, counts of operations and errors are stored.
JAXLIB_OF_RESULTS = "0.10.2"
HAS_JAXLIB_OF_RESULTS = JAXLIB_OF_RESULTS in {
    found.version for found in importlib.metadata.distributions(name="jaxlib")
}
# Later jaxlibs may lack the following flag, and would end the process; with Bazel, tests of the build have no jaxlib.
if HAS_JAXLIB_OF_RESULTS:
    # XLA splits programs among threads to compile them, which for small ones, with a test process per core, is a loss.
    # Given flags go last, and so count.
    os.environ["XLA_FLAGS"] = " ".join(
        ["--xla_cpu_parallel_codegen_split_count=1", *os.environ.get("XLA_FLAGS", "").split()]
    )
# Several tests need eight devices, and the file that a process happens to collect first may start the CPU.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
# In processes that tests start, warnings are errors as well,
os.environ.setdefault("PYTHONWARNINGS", "error")
# and what they import is this checkout too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    dict.fromkeys([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
)
# A shell's background jobs ignore Ctrl-C, and so would the processes that tests start, which are to be interrupted.
# A handler is not handed on.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda *_: None)


def pytest_addoption(parser):
    parser.addoption(
        "--quick", action="store_true", help="run one test in QUICK only, of every file"
    )


def pytest_collection_modifyitems(config, items):
    """Leaves out tests that need compilers, a browser or headers where there are none. With `--quick` keeps a selection.

    The selection is the same every time, whatever other tests are added or removed.
    """
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(
            f"the names of tests have addresses, so that workers collect different ones: {unstable[0]}. "
            "Give the parameters `ids`."
        )
    marks = {"browser": _has_browser, "onnxruntime_headers": _has_onnxruntime_headers}
    for mark, is_there in marks.items():
        absent = {item for item in items if mark in item.keywords}
        if absent and not is_there():
            _leave_out(absent, config, items)
    compiled = [item for item in items if "aot" in item.keywords]
    there = _compilers_here() if compiled else set()
    _leave_out({item for item in compiled if not _compilers_of(item) <= there}, config, items)
    if not config.option.quick:
        return
    chosen = {item for item in items if "slow" not in item.keywords and _drawn(item.nodeid)}
    files = {item.path for item in chosen}
    for item in items:  # of each file at least one test
        if item.path not in files and "slow" not in item.keywords:
            files.add(item.path)
            chosen.add(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _leave_out(absent, config, items):
    if absent:
        config.hook.pytest_deselected(items=[item for item in items if item in absent])
        items[:] = [item for item in items if item not in absent]


# The packages of build/requirements/aot.in, and what says of a test that it compiles with them.
COMPILERS = {
    "tpu": "libtpu",
    "cuda": "jax_plugins.xla_cuda13",
    "mosaic_gpu": "jax_cuda13_plugin",  # the runtime of kernels
}
COMPILED_FOR = {"tpu": r"tpu|v\d[ep]", "cuda": "cuda|h100|b200"}


def _compilers_here() -> set[str]:
    """The compilers for absent devices that there are, with the jaxlib of the stored results."""
    if not HAS_JAXLIB_OF_RESULTS:
        return set()
    return {name for name, package in COMPILERS.items() if _is_installed(package)}


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the package that it is in is not there
        return False


def _compilers_of(item) -> set[str]:
    """The compilers that a test needs: those that its mark names, else its own name, else both."""
    given = next((mark.args for mark in item.iter_markers("aot") if mark.args), ())
    named = {name for name, pattern in COMPILED_FOR.items() if re.search(pattern, item.name)}
    return set(given) or named or {"tpu", "cuda"}


def _has_browser() -> bool:
    from browser import chromium  # of the tests' folder, which collecting them has put on the path

    return chromium() is not None


def _has_onnxruntime_headers() -> bool:
    from onnxruntime_headers import headers

    return headers() is not None


def _drawn(nodeid: str) -> bool:
    return zlib.crc32(nodeid.encode()) % QUICK == 0


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Searches for no garbage meanwhile, nor later in what collecting made: a million objects that stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_collection_finish(session):
    """Refuses tests of a device where JAX would go on without it, on the CPU."""
    testing = sys.modules.get("jax._src.test_util.testing")
    if testing is not None:
        # Tests here also cover implicit promotion and raw keys, which `JaxTestCase` forbids.
        testing.JaxTestCase._default_thread_local_config = {"jax_enable_checks": True}
    wanted = os.environ.get("JAX_TEST_BACKEND")
    if not wanted or session.config.option.collectonly:
        return
    import jax  # here: only these runs start the backends before the tests do

    found = jax.default_backend()
    if found in {"gpu": ("gpu", "cuda", "rocm")}.get(wanted, (wanted,)):
        return
    try:
        reason = f"it has {jax.devices(os.environ.get('JAX_ACCELERATOR_KIND', wanted))}"
    except RuntimeError as error:
        reason = str(error)
    message = f"These are tests of the backend {wanted!r} (JAX_TEST_BACKEND), and JAX's default here is {found!r}"
    pytest.exit(f"{message}: {reason}", returncode=1)


@pytest.fixture
def checkout() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def jaxlib_of_results() -> bool:
    """Whether the jaxlib is that of the stored results."""
    return HAS_JAXLIB_OF_RESULTS


@pytest.fixture
def fusion_emitters():
    """Compiles by the code generation that users' programs go through.

    The older one, which other tests go through, fails to convert to float8, and scatters wrongly by indices of int8.
    """
    import jax  # here: collecting tests needs no jax

    before = jax.config.values["jax_cpu_fusion_emitters"]
    jax.config.update("jax_cpu_fusion_emitters", True)
    yield
    jax.config.update("jax_cpu_fusion_emitters", before)


@pytest.fixture
def only_new_objects():
    """Garbage is searched for among new objects: the millions that a process has after many tests take seconds each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
