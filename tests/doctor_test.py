"""`jax.print_environment_info` and `python -m jax.doctor`: each fault is found, with the command that mends it."""

import errno
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import jax
from jax._src import environment_info, hardware_utils
from jax._src.config import config
from jax._src.environment_info import devices, doctor, packages, resources
from jax._src.environment_info.findings import Level, error, note, report
from jax._src.lib import native_kernels
from jax._src.xla_bridge import plugins, registry


@pytest.fixture
def environment(monkeypatch):
    """Sets variables, or removes them if they are None."""

    def set_all(**variables):
        for name, value in variables.items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)

    set_all(**dict.fromkeys([*resources._MEMORY_VARIABLES, *resources._THREAD_VARIABLES]))
    return set_all


def problems(check):
    return [f for f in check() if f.level >= Level.WARNING]


def the_problem(check):
    (found,) = problems(check)
    return found


# The report


def test_lines_of_the_original_come_first():
    text = jax.print_environment_info(return_string=True)
    first, _, checks = text.partition("\nchecks:\n")
    names = [line.partition(":")[0] for line in first.splitlines()]
    assert names[:2] == ["jax", "jaxlib"] and "device info" in names
    assert re.search(r"^ok +devices: programs run on \w+: \d+ of", checks, re.M)
    assert re.search(r"(no problems found|\d+ problems?: \d+ errors?, \d+ warnings?)$", checks)


def test_report_counts_and_names_remedies():
    found = [error("a", "bad", "mend"), error("b", "bad"), note("c", "could be", "do")]
    assert report(found).splitlines() == [
        "error    a: bad",
        "         mend it: mend",
        "error    b: bad",
        "note     c: could be",
        "         to do so: do",
        "2 problems: 2 errors, 0 warnings",
    ]
    assert report([note("c", "could be")]).endswith("no problems found")


def test_exit_status(monkeypatch, capsys):
    for found, status, strict in (
        ([], 0, 0),
        ([note("a", "")], 0, 0),
        ([environment_info.Finding(Level.WARNING, "a", "w")], 0, 1),
        ([error("a", "e"), note("b", "n")], 1, 1),
    ):
        monkeypatch.setattr(doctor, "diagnose", lambda found=found: [note("x", "y"), *found])
        assert doctor.main([]) == status and doctor.main(["--strict"]) == strict
    capsys.readouterr()
    doctor.main(["--problems"])
    assert capsys.readouterr().out.splitlines()[0].startswith("error")


def test_a_failing_check_does_not_hide_others(monkeypatch):
    def fails():
        raise KeyError("oops")

    monkeypatch.setattr(doctor, "_CHECKS", (fails, resources.check_cache))
    first, *others = doctor.diagnose()
    assert first.level is Level.ERROR and "oops" in first.message and others


def test_a_hanging_check_of_flags_does_not_hide_others(monkeypatch):
    run = subprocess.run

    def hangs(command, **options):
        if devices._PARSE_FLAGS in command:
            raise subprocess.TimeoutExpired(command, options["timeout"])
        return run(command, **options)

    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    monkeypatch.setattr(devices.xla_bridge, "backends_are_initialized", lambda: False)
    monkeypatch.setattr(devices.subprocess, "run", hangs)
    first, *others = doctor.diagnose()
    assert "check_flags failed: TimeoutExpired" in first.message
    assert {"packages", "devices", "memory"} <= {f.topic for f in others}


@pytest.mark.slow
def test_program_with_planted_faults(tmp_path):
    """XLA would end the process at these flags; the doctor goes on without devices."""
    (tmp_path / "file").touch()
    env = os.environ | {
        "XLA_FLAGS": "--xla_nonsense=1",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "file" / "cache"),
        "JAX_ENABLE_X46": "1",
    }
    command = [sys.executable, "-m", "jax.doctor", "--problems"]
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    assert "Unknown flag in XLA_FLAGS: --xla_nonsense=1" in run.stdout
    assert "mend it: unset XLA_FLAGS" in run.stdout
    assert "cannot be a folder" in run.stdout and "is JAX_ENABLE_X64 meant?" in run.stdout
    command = [sys.executable, "-c", "import jax; jax.print_environment_info()"]
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    assert run.returncode == 0 and "device info: no backend starts" in run.stdout, run.stderr


# Packages


def test_requirements_are_those_of_the_project():
    file = Path(__file__).absolute().parent.parent / "pyproject.toml"
    listed = dict(
        re.fullmatch(r"([\w.]+)(?:>=([\d.]+))?(?:,.*)?", line).groups()
        for line in tomllib.loads(file.read_text())["project"]["dependencies"]
    )
    del listed["jaxlib"]  # which `import jax` checks
    assert packages.REQUIREMENTS == listed


def with_packages(monkeypatch, **versions):
    names = [SimpleNamespace(metadata={"Name": n.replace("_", "-")}, version=v) for n, v in versions.items()]  # fmt: skip
    monkeypatch.setattr(packages.importlib.metadata, "distributions", lambda: names)


def test_old_and_absent_packages(monkeypatch):
    absent = packages.importlib.metadata.PackageNotFoundError

    def version(name):
        if name == "scipy":
            raise absent(name)
        return {"numpy": "1.26.4", "ml_dtypes": "0.10.1"}.get(name, "9.9")

    monkeypatch.setattr(packages.importlib.metadata, "version", version)
    old, missing = problems(packages.check_packages)
    assert "numpy is 1.26.4" in old.message and old.level is Level.ERROR
    assert old.remedy == 'pip install --upgrade "numpy>=2.0"'
    assert missing.message == "scipy is not installed" and "scipy>=1.13" in missing.remedy


def test_plugins_of_other_versions(monkeypatch):
    with_packages(
        monkeypatch, jax_cuda13_plugin="0.9.1", jax_cuda_plugin=jax.__version__, jaxtyping="1.0"
    )
    found = the_problem(packages.check_packages)
    assert "jax-cuda13-plugin is 0.9.1, and jaxlib is" in found.message
    assert found.remedy.startswith('pip install "jax-cuda13-plugin==')


def test_another_jax_is_installed(monkeypatch):
    with_packages(monkeypatch, jax="0.4.1")
    found = the_problem(packages.check_packages)
    assert "jax 0.4.1 is installed" in found.message and "pip uninstall jax" in found.remedy


def test_extension_that_does_not_fit(monkeypatch):
    monkeypatch.setattr(native_kernels, "extension", lambda: None)
    monkeypatch.setattr(native_kernels, "problem", lambda: "version 0.1 does not fit")
    found = the_problem(packages.check_packages)
    assert "version 0.1 does not fit" in found.message and "jaxlib-ext" in found.remedy


# Devices


@pytest.mark.parametrize(
    "text, status, found",
    [
        ("import sys\nsys.exit(0)", 0, "could not be initialized and is left out: SystemExit(0)"),
        ("import os\ndef initialize(): os.abort()", 1, "ends each program that starts it, with signal 6"),
    ],
)  # fmt: skip
def test_plugin_that_ends_the_process(tmp_path, text, status, found):
    folder = tmp_path / "jax_plugins"
    folder.mkdir()
    (folder / "ending.py").write_text(text)
    paths = [str(tmp_path), *filter(None, sys.path)]
    child = subprocess.run(
        [sys.executable, "-m", "jax.doctor", "--problems"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert child.returncode == status, child.stderr
    assert "JAX plugin jax_plugins.ending " in child.stdout and found in child.stdout, child.stdout
    assert f"mv {folder}/ending.py {folder}/ending.py.disabled" in child.stdout, child.stdout


def test_plugin_that_waits_for_ever(monkeypatch):
    start = 'print("jax_plugins.ok\\njax_plugins.waiting", flush=True); import threading; threading.Event().wait()'
    monkeypatch.setattr(devices, "_START_PLUGINS", start)
    monkeypatch.setattr(devices, "PLUGIN_SECONDS", 1)
    monkeypatch.setattr(devices.xla_bridge, "backends_are_initialized", lambda: False)
    monkeypatch.setattr(plugins, "find_plugins", lambda: [("jax_plugins.waiting", None)])
    found = the_problem(devices.check_plugins)
    assert "the JAX plugin jax_plugins.waiting does not start within 1 s" in found.message
    assert doctor._would_end([found])  # devices are not looked for: that would not end


def test_plugin_that_does_not_start(monkeypatch):
    jax.devices()
    monkeypatch.setitem(registry._backend_errors, "cuda", "the driver is too old")
    monkeypatch.setattr(devices, "_hardware", lambda platform: False)
    assert not problems(devices.check_devices)  # nobody misses it
    monkeypatch.setattr(devices, "_hardware", lambda platform: platform == "cuda")
    found = the_problem(devices.check_devices)
    assert found.message == "the platform cuda does not start: the driver is too old"


def test_hardware_that_nothing_uses(monkeypatch):
    jax.devices()
    monkeypatch.setattr(registry, "_backend_errors", {})
    monkeypatch.setattr(hardware_utils, "num_available_amd_gpus", lambda stop_at=None: 2)
    factories = {k: v for k, v in registry._backend_factories.items() if k != "rocm"}
    monkeypatch.setattr(registry, "_backend_factories", factories)
    found = the_problem(devices.check_devices)
    assert "An AMD GPU is there" in found.message and found.remedy == 'pip install "jax[rocm]"'


@pytest.mark.parametrize("driver, level", [("570.86.15", Level.ERROR), ("580.95.05", Level.OK)])
def test_nvidia_driver(monkeypatch, tmp_path, driver, level):
    file = tmp_path / "version"
    file.write_text(
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Jan 7\nGCC 12\n"
    )
    monkeypatch.setattr(devices, "_NVIDIA_DRIVER", file)
    monkeypatch.setattr(plugins, "find_plugins", lambda: [("jax_plugins.xla_cuda13", None)])
    (found,) = devices._check_nvidia_driver()
    assert found.level is level and driver in found.message


def test_backends_that_do_not_start(monkeypatch, environment):
    def fails(text):
        def devices():
            raise RuntimeError(text)

        return devices

    for text, variables, remedy in (
        ("no such platform", dict(JAX_PLATFORMS="gpu"), "unset JAX_PLATFORMS"),
        ("no such platform", dict(JAX_PLATFORMS=None), None),
        ("jax_num_cpu_devices must", dict(JAX_NUM_CPU_DEVICES="-3"), "unset JAX_NUM_CPU_DEVICES"),
        ("jax_num_cpu_devices must", dict(JAX_NUM_CPU_DEVICES=None), None),
    ):
        environment(**variables)
        monkeypatch.setattr(devices.xla_bridge, "devices", fails(text))
        found = the_problem(devices.check_devices)
        assert found.message == f"no backend starts: {text}" and found.remedy == remedy


def test_packages_of_broken_plugins(monkeypatch):
    """A module's name is not that of its package, and another package of that name may be anything."""
    entry = SimpleNamespace(group="jax_plugins", module="own.plugin")
    cuda = SimpleNamespace(
        metadata={"Name": "jax-cuda13-plugin"}, entry_points=(),
        files=[Path("jax_plugins/xla_cuda13/__init__.py")],
    )  # fmt: skip
    own = SimpleNamespace(metadata={"Name": "own-plugin"}, entry_points=[entry], files=None)
    monkeypatch.setattr(packages.importlib.metadata, "distributions", lambda: [cuda, own])
    for module, remedy in (
        ("jax_plugins.xla_cuda13", "pip install --upgrade jax-cuda13-plugin"),
        ("own.plugin", "pip install --upgrade own-plugin"),
        ("jax_plugins.unknown", None),
    ):
        message = f"The JAX plugin {module} could not be initialized and is left out: ..."
        assert devices._reinstall(message) == remedy


# Caches


@pytest.fixture
def cache_folder(tmp_path):
    before = config.jax_compilation_cache_dir
    yield lambda folder: config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_compilation_cache_dir", before)


def test_cache(cache_folder, tmp_path, monkeypatch):
    folder = tmp_path / "new" / "cache"
    cache_folder(folder)
    (found,) = resources.check_cache()
    assert found.level is Level.OK and "0 files, 0 GB" in found.message
    assert not folder.exists()  # looking changes nothing
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(bytes(2_000_000))
    (found,) = resources.check_cache()
    assert "1 files, 0.002 GB" in found.message
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**8))
    assert "0.1 GB are free" in the_problem(resources.check_cache).message
    assert [file.name for file in folder.iterdir()] == ["a"]

    def fails(dir):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(resources.tempfile, "TemporaryFile", fails)
    found = the_problem(resources.check_cache)
    assert found.level is Level.ERROR and found.message.endswith("to: Read-only file system")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_cache_in_a_folder_that_takes_no_files(cache_folder):
    """Root seems to have the permission."""
    cache_folder("/proc/cache")
    assert "/proc/cache cannot be written to" in the_problem(resources.check_cache).message


def test_cache_that_is_a_file(cache_folder, tmp_path):
    file = tmp_path / "file"
    file.touch()
    cache_folder(file)
    found = the_problem(resources.check_cache)
    assert found.level is Level.ERROR and "is a file" in found.message


# Threads, memory, variables


def test_threads(environment, monkeypatch, tmp_path):
    assert not problems(resources.check_threads)
    environment(OMP_NUM_THREADS="64")
    monkeypatch.setattr(hardware_utils, "num_cores_in_affinity", lambda: 4)
    found = the_problem(resources.check_threads)
    assert "more threads than cores" in found.message and found.remedy == "export OMP_NUM_THREADS=4"
    environment(OMP_NUM_THREADS="many")
    assert "not a number" in the_problem(resources.check_threads).message
    environment(OMP_NUM_THREADS="3")
    monkeypatch.setattr(hardware_utils, "cpu_quota", lambda: 1.5)
    notes = [f.message for f in resources.check_threads()]
    assert "the container's limit is 1.5 cores" in notes
    assert any("4 of" in n and "XLA makes 2 threads" in n for n in notes)
    assert the_problem(resources.check_threads).remedy == "export OMP_NUM_THREADS=2"
    environment(OMP_NUM_THREADS=None)
    monkeypatch.setattr(resources.config, "cpu_num_threads", SimpleNamespace(value=5))
    found = the_problem(resources.check_threads)
    assert found.remedy == "export JAX_CPU_NUM_THREADS=2" and "more threads" in found.message


@pytest.mark.parametrize(
    "variables, message",
    [
        (dict(XLA_PYTHON_CLIENT_MEM_FRACTION="3"), "not a fraction"),
        (dict(XLA_CLIENT_MEM_FRACTION="half"), "not a number"),
        (dict(XLA_CLIENT_MEM_FRACTION="0.5", XLA_PYTHON_CLIENT_MEM_FRACTION="0.5"), "both set"),
        (dict(XLA_PYTHON_CLIENT_ALLOCATOR="malloc"), "none of default"),
        (dict(XLA_PYTHON_CLIENT_PREALLOCATE="no"), "counts as true"),
    ],
)
def test_memory_variables(environment, variables, message):
    environment(**variables)
    found = the_problem(resources.check_memory)
    assert message in found.message and found.remedy


def test_memory_variables_that_are_fine(environment):
    environment(XLA_PYTHON_CLIENT_PREALLOCATE="false", XLA_CLIENT_MEM_FRACTION="0.9")
    assert not problems(resources.check_memory)


@pytest.mark.parametrize(
    "pages, library, tunables, remedy",
    [
        ("always [madvise] never", "glibc 2.36", None, "glibc.malloc.hugetlb=1"),
        ("always [madvise] never", "glibc 2.36", "a.b=c", "a.b=c:glibc.malloc.hugetlb=1"),
        ("always [madvise] never", "glibc 2.36", "glibc.malloc.hugetlb=1", None),
        ("always [madvise] never", "glibc 2.31", None, None),
        ("always [madvise] never", None, None, None),
        ("[always] madvise never", "glibc 2.36", None, None),
        ("always madvise [never]", "glibc 2.36", None, None),
    ],
)
def test_huge_pages(environment, monkeypatch, tmp_path, pages, library, tunables, remedy):
    if jax.default_backend() != "cpu":
        pytest.skip("huge pages are for programs on CPUs")
    environment(GLIBC_TUNABLES=tunables)
    (tmp_path / "enabled").write_text(pages)
    monkeypatch.setattr(hardware_utils, "HUGE_PAGES", tmp_path / "enabled")
    monkeypatch.setattr(os, "confstr", lambda name: library)
    found = [f for f in resources.check_memory() if "huge pages" in f.message]
    assert [f.remedy for f in found] == ([f"export GLIBC_TUNABLES={remedy}"] if remedy else [])
    assert all(f.level is Level.NOTE for f in found)


def test_misspelled_variables(environment):
    environment(JAX_ENABLE_X46="1", XLA_PYTHON_CLIENT_PREALOCATE="0", JAX_MY_OWN="1")
    messages = [f.message for f in problems(resources.check_variables)]
    assert sorted(m for m in messages if "X46" in m or "PREALOCATE" in m) == [
        "nothing reads JAX_ENABLE_X46: is JAX_ENABLE_X64 meant?",
        "nothing reads XLA_PYTHON_CLIENT_PREALOCATE: is XLA_PYTHON_CLIENT_PREALLOCATE meant?",
    ]
    assert not any("MY_OWN" in m for m in messages)
