"""What stands around Bazel: BUILD files, wheels, shards, accelerators, how Bazel is found, lanes."""

import io
import json
import os
import re
import runpy
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent
MACROS = ROOT / "build" / "bazel"

sys.path[:0] = [str(ROOT / "build"), str(MACROS), str(ROOT / "ci")]
import accelerator_slot  # noqa: E402 (they are found through the line above)
import bazel_commands  # noqa: E402
import build_files  # noqa: E402
import count_accelerators  # noqa: E402
import environment  # noqa: E402
import pack_wheel  # noqa: E402
import processes  # noqa: E402
import pytest_main  # noqa: E402
import source_facts  # noqa: E402

# BUILD files


def test_build_files_are_what_the_sources_import():
    wanted = build_files.build_files(ROOT)
    wrong = [str(p.relative_to(ROOT)) for p, content in wanted.items() if p.read_text() != content]
    assert not wrong, "python3 build/build_files.py --write mends this"


def test_every_test_file_is_a_target():
    text = (ROOT / "tests" / "BUILD.bazel").read_text()
    assert build_files.unlisted_tests(ROOT / "tests", text) == []


def test_tables_of_cases_have_results():
    text = (ROOT / "tests" / "BUILD.bazel").read_text()
    tables = re.findall(r'cases = "(\w+)\.py"', text)
    assert tables
    assert not [t for t in tables if not (ROOT / "tests" / "testdata" / f"{t}.xz").exists()]
    for file in (ROOT / "tests").glob("*_test.py"):
        for kind in ("cases", "scenarios"):
            table = file.name.removesuffix("test.py") + kind
            if file.with_name(f"{table}.py").exists():
                assert f'"{table}.py"' in text, f"{file.name} does not get its table"


def test_modules_that_tests_share_become_libraries(tmp_path):
    (tmp_path / "one_test.py").write_text("import one_cases\nfrom shared import f\n")
    (tmp_path / "one_cases.py").write_text("import os\n")
    (tmp_path / "two_test.py").write_text("import one_cases, listed\n")
    (tmp_path / "shared.py").write_text("import deeper\n")
    for name in ("deeper", "listed"):
        (tmp_path / f"{name}.py").write_text("")
    text = (
        'jax_multiplatform_test(name = "one", cases = "one_cases.py")\n'
        'jax_multiplatform_test(name = "two")\n'
        'jax_py_library(name = "listed", srcs = ["listed.py"])\n'
    )
    facts = source_facts.SourceFacts(build_files.imports_of)
    found = build_files.unlisted_libraries(tmp_path, text, facts)
    assert [file.name for file in found] == ["deeper.py", "one_cases.py", "shared.py"]


@pytest.fixture
def package(tmp_path):
    """A small package in layers: `lib`, `core`, `lax` (a folder whose parts import each other)."""
    files = {
        "jax/__init__.py": "from jax._src.lax import add\n",
        "jax/_src/__init__.py": "",
        "jax/_src/lib.py": "import os\nimport numpy as np\n",
        "jax/_src/core.py": "from jax._src import lib\n",
        "jax/_src/lax/__init__.py": "from jax._src.lax.slicing import slice\nfrom jax._src import core\n",
        "jax/_src/lax/slicing/__init__.py": "def slice(): from jax._src.lax import add\n",
        "pyproject.toml": '[[tool.importlinter.contracts]]\ntype = "layers"\n'
        'layers = ["(lax)", "core", "lib"]\n',
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.mark.parametrize("damage", ["cut", "facts", "version"])
def test_kept_facts_may_be_damaged_or_old(package, tmp_path, monkeypatch, damage):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wanted = build_files.build_files(package)
    file = source_facts.cache_file()
    kept = json.loads(file.read_text())
    assert kept["facts"] and build_files.build_files(package) == wanted
    if damage == "cut":
        file.write_text(file.read_text()[:-9])
    else:
        damaged = {key: [{}, True, "a"] for key in kept["facts"]}
        file.write_text(json.dumps(kept | {damage: damaged}))
    assert build_files.build_files(package) == wanted
    assert json.loads(file.read_text()) == kept


def test_targets_and_their_dependencies(package):
    made = build_files.build_files(package)
    text = {str(p.relative_to(package).parent): content for p, content in made.items()}
    assert (
        '    name = "lib",\n    srcs = ["lib.py"],\n    deps = ["@pypi//numpy"],'
        in text["jax/_src"]
    )
    assert '    srcs = ["core.py"],\n    deps = [":lib"],' in text["jax/_src"]
    assert 'glob(["*.py"]) + ["//jax/_src/lax/slicing:sources"]' in text["jax/_src/lax"]
    assert '    deps = ["//jax/_src:core"],' in text["jax/_src/lax"]
    assert '    actual = "//jax/_src/lax",' in text["jax/_src/lax/slicing"]
    assert '    srcs = ["__init__.py"],\n    deps = ["//jax/_src/lax"],' in text["jax"]


def test_what_is_imported_when_it_is_needed(package):
    core = package / "jax/_src/core.py"
    core.write_text(core.read_text() + 'def f(): return importlib.import_module("opt_einsum")\n')
    text = build_files.build_files(package)[package / "jax/_src/BUILD.bazel"]
    assert '":lib",\n        "@pypi//opt-einsum",' in text


@pytest.mark.parametrize(
    ("program", "needed"),
    [
        ("import numpy as np\nfrom jax import numpy as jnp\nnp.roots\nroots = jnp.ones", {"//jax/numpy"}),
        ("import jax.numpy as jnp\njnp.roots", {"//jax/numpy", "//jax/_src:polynomial"}),
        ("import jax.numpy\nname = 'roots'", {"//jax/numpy", "//jax/_src:polynomial"}),
        ("import jax.numpy\nprogram = 'jax.numpy.roots([1])'", {"//jax/numpy", "//jax/_src:polynomial"}),
        ("import jax.numpy as jnp\njnp.fft.fft", {"//jax/numpy", "//jax/numpy:fft"}),
        ("from shared import jnp\njnp.roots", {"//jax/numpy", "//jax/_src:polynomial"}),
        ("import jax.numpy as jnp\nfrom jax._src import core\njnp.ones + core.roots", {"//jax/numpy"}),
        ("import jax.numpy\nfrom jax._src import core\ndef f(core): core.roots", {"//jax/numpy", "//jax/_src:polynomial"}),
        ("from jax.numpy import roots as zeros", {"//jax/numpy", "//jax/_src:polynomial"}),
        ("import jax\njax.numpy.roots", {"//jax/numpy", "//jax/_src:polynomial"}),
        ("import jax._src.core", {"//jax/_src:core"}),
        ("import numpy as np\nnp.roots", set()),
    ],
)  # fmt: skip
def test_tests_depend_on_what_they_load(package, program, needed):
    files = {
        "jax/__init__.py": "names = {'numpy'}\ndef __getattr__(name): pass\n",
        "jax/_src/polynomial.py": "roots = 1\n",
        "jax/numpy/__init__.py": "import jax._src.core\nif TYPE_CHECKING:\n    from jax._src.polynomial import roots\n"
        "names = {'fft', 'roots'}\ndef __getattr__(name): pass\n",
        "jax/numpy/fft.py": "",
        "tests/shared.py": "from jax import numpy as jnp\n",
        "tests/area_test.py": program + "\n",
        "tests/BUILD.bazel": 'jax_multiplatform_test(\n    name = "area",\n)\n',
    }
    for name, content in files.items():
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(content)
    (package / "pyproject.toml").write_text(
        '[[tool.importlinter.contracts]]\ntype = "layers"\nlayers = ["(lax)", "(polynomial)", "core", "lib"]\n'
    )
    text = build_files.build_files(package)[package / "tests/BUILD.bazel"]
    assert set(re.findall(r'"(//jax\S*)"', text)) - {"//jax", "//jax/_src"} == needed


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("core.py", "from jax._src import lax", "jax._src.core depends on jax._src.lax, which is on a higher layer"),
        ("core.py", "import jax", "jax._src.core depends on the public jax"),
        ("lib.py", "from jax._src import core", "circle: jax._src.core, jax._src.lib"),
    ],
)  # fmt: skip
def test_wrong_dependencies(package, file, line, message):
    path = package / "jax" / "_src" / file
    path.write_text(path.read_text() + line + "\n")
    if "lax" in line:
        (package / "jax/_src/lax/__init__.py").write_text("")
        (package / "jax/_src/lax/slicing/__init__.py").write_text("")
        (package / "jax/__init__.py").write_text("")
    if line == "import jax":
        (package / "jax/__init__.py").write_text("")
    with pytest.raises(build_files.BuildError, match=message):
        build_files.build_files(package)


# Wheels

PROJECT = """
[project]
name = "Some-Thing"
description = "A thing"
license = "Apache-2.0"
requires-python = ">=3.11"
dependencies = ["numpy>=2"]
[project.optional-dependencies]
fast = ["jaxlib-ext; sys_platform == 'linux'"]
[project.entry-points.jax_plugins]
b = "two"
a = "one"
"""


@pytest.fixture
def pack(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "LICENSE").write_text("Apache License")
    (tmp_path / "source").write_text("x = 1\n")

    def pack(*paths, out="out", **options):
        command = ["--output", str(tmp_path / out), "--version", "1.2", "--top-level", "thing"]
        command += ["--pyproject", str(tmp_path / "pyproject.toml")]
        command += ["--license", str(tmp_path / "LICENSE")]
        command += [
            f"--notice=other\t{tmp_path / 'LICENSE'}",
            *options.get("arguments", ["--tag", "py3-none-any"]),
        ]
        pack_wheel.main([*command, *(f"{path}\t{tmp_path / 'source'}" for path in paths)])
        return (tmp_path / out).read_bytes()

    return pack


def test_wheel(pack):
    content = pack("thing/a.py", "thing/b.so")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == [
            "thing/a.py",
            "thing/b.so",
            "some_thing-1.2.dist-info/METADATA",
            "some_thing-1.2.dist-info/WHEEL",
            "some_thing-1.2.dist-info/entry_points.txt",
            "some_thing-1.2.dist-info/licenses/LICENSE",
            "some_thing-1.2.dist-info/licenses/LICENSE.other",
            "some_thing-1.2.dist-info/RECORD",
        ]
        metadata = archive.read("some_thing-1.2.dist-info/METADATA").decode()
        points = archive.read("some_thing-1.2.dist-info/entry_points.txt").decode()
    assert "Requires-Dist: numpy>=2\n" in metadata
    assert (
        "Requires-Dist: jaxlib-ext; (sys_platform == 'linux') and extra == \"fast\"\n" in metadata
    )
    assert "License-File: LICENSE\nLicense-File: LICENSE.other\n" in metadata
    assert points == "[jax_plugins]\na = one\nb = two\n\n"


@pytest.mark.parametrize("arguments", [["--tag", "py3-none-any"], ["--sdist"]])
def test_same_inputs_same_bytes(pack, tmp_path, monkeypatch, arguments):
    first = pack("thing/a.py", "thing/b.py", arguments=arguments)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    os.utime(tmp_path / "source", (1e9, 1e9))
    assert pack("thing/b.py", "thing/a.py", out="other", arguments=arguments) == first


def test_sdist(pack):
    with tarfile.open(fileobj=io.BytesIO(pack("thing/a.py", arguments=["--sdist"]))) as archive:
        names = archive.getnames()
    assert {
        "some_thing-1.2/thing/a.py",
        "some_thing-1.2/pyproject.toml",
        "some_thing-1.2/PKG-INFO",
    } <= set(names)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("other/a.py", "other/a.py is not under thing"),
        ("thing/BUILD.bazel", "thing/BUILD.bazel has no place in a wheel"),
        ("thing/__pycache__/a.pyc", "has no place in a wheel"),
        ("thing/.hidden", "has no place in a wheel"),
    ],
)
def test_stray_files(pack, path, message):
    with pytest.raises(SystemExit, match=message):
        pack(path)


# Shards


@pytest.mark.parametrize("total", [1, 3, 20])
def test_shards_split_the_tests(total):
    class Hook:
        def pytest_deselected(self, items):
            self.left_out = items

    class Config:
        hook = Hook()

    seen = []
    for index in range(total):
        items = list(range(10))
        pytest_main.Shard(index, total).pytest_collection_modifyitems(Config, items)
        assert sorted(items + Config.hook.left_out) == list(range(10))
        seen += items
    assert sorted(seen) == list(range(10))


@pytest.fixture
def run_shard(tmp_path):
    """Runs the program that Bazel runs; returns its exit status, what it prints, and whether it ended too early."""
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")

    def run(file, text, index=0, total=1, **variables):
        (tmp_path / file).write_text(text)
        folder = tmp_path / f"scratch-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        status, running = folder / "status", folder / "running"
        env = os.environ | {
            "TEST_SHARD_INDEX": str(index),
            "TEST_TOTAL_SHARDS": str(total),
            "TEST_SHARD_STATUS_FILE": str(status),
            "TEST_PREMATURE_EXIT_FILE": str(running),
            "TEST_TMPDIR": str(folder),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "XML_OUTPUT_FILE": str(folder / "test.xml"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **variables,
        }
        command = [sys.executable, str(MACROS / "pytest_main.py"), file, "-s"]
        result = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert status.exists(), result.stderr
        return result.returncode, result.stdout, running.exists()

    return run


THREE = "for i in range(3): exec(f'def test_{i}(): print(\"ran\", {i})')\n"


def ran(outputs):
    return [int(i) for _, text, _ in outputs for i in re.findall(r"ran (\d)", text)]


def test_shards_under_bazel(run_shard):
    """Each test runs once, in one shard; an empty shard is no failure, an empty file is one."""
    outputs = [run_shard("x_test.py", THREE, index, 4) for index in range(4)]
    assert [(status, early) for status, _, early in outputs] == [(0, False)] * 4
    assert sorted(ran(outputs)) == [0, 1, 2]
    assert run_shard("none_test.py", "")[0] == pytest_main.NO_TESTS


def test_a_filter_chooses_before_shards_do(run_shard):
    chosen = {"TESTBRIDGE_TEST_ONLY": "test_1 or test_2"}
    assert ran([run_shard("x_test.py", THREE, 1, 2, **chosen)]) == [2]
    status, text, _ = run_shard("x_test.py", THREE, 1, 2, TESTBRIDGE_TEST_ONLY="nosuchname")
    assert status == pytest_main.NO_TESTS
    assert "No test of x_test.py has a name that the filter 'nosuchname' chooses." in text


def test_a_test_that_ends_the_process_is_seen(run_shard):
    text = THREE + "def test_ends(): import os; os._exit(0)\n"
    status, text, early = run_shard("x_test.py", text)
    assert (status, early) == (1, True)
    assert "A test ended the whole process" in text


@pytest.mark.parametrize(
    ("wanted", "found", "passes"),
    [("gpu", "cuda", True), ("gpu", "cpu", False)],
)
def test_tests_of_a_device_do_not_go_on_with_the_cpu(run_shard, tmp_path, wanted, found, passes):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "jax.py").write_text(
        f"def default_backend(): return {found!r}\n"
        "def devices(kind): raise RuntimeError(f'{kind} has no driver')\n"
    )
    status, text, early = run_shard(
        "x_test.py", THREE, JAX_TEST_BACKEND=wanted, JAX_ACCELERATOR_KIND="cuda"
    )
    said = f"backend {wanted!r} (JAX_TEST_BACKEND), and JAX's default here is {found!r}: cuda has no driver"
    assert (status == 0, ran([(status, text, early)]) == [0, 1, 2], said not in text) == (
        passes,
    ) * 3


def test_settings_of_test_runs_take_no_jaxlib(monkeypatch):
    """A target has the packages that its tests import, and no others."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    without = [path for path in sys.path if not list(Path(path).glob("jaxlib-*.dist-info"))]
    monkeypatch.setattr(sys, "path", without)
    assert "pytest_addoption" in runpy.run_path(str(ROOT / "conftest.py"))


# Slots of accelerators, of pretend devices

NAMES = [name for names in accelerator_slot.VARIABLES.values() for name in names]


def start(folder, *program, count=2, **variables):
    env = {k: v for k, v in os.environ.items() if k not in NAMES} | {
        "JAX_ACCELERATOR_COUNT": str(count),
        "JAX_ACCELERATOR_LOCKS": str(folder),
        **variables,
    }
    command = [sys.executable, accelerator_slot.__file__, *program]
    return subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


SHOW = (
    "sh",
    "-c",
    'echo "$CUDA_VISIBLE_DEVICES$TPU_VISIBLE_CHIPS$ROCR_VISIBLE_DEVICES"; read line',
)


@pytest.mark.parametrize("kind", list(accelerator_slot.VARIABLES))
def test_each_gets_a_device_of_its_own_and_frees_it(tmp_path, kind):
    running = [start(tmp_path, *SHOW, JAX_ACCELERATOR_KIND=kind) for _ in range(2)]
    assert sorted(process.stdout.readline() for process in running) == ["0\n", "1\n"]
    third = start(tmp_path, *SHOW, JAX_ACCELERATOR_KIND=kind)
    assert not select.select([third.stdout], [], [], 0.5)[0]  # it waits
    freed = running[0]
    freed.kill()  # however a test ends, its device is free
    freed.communicate()
    assert third.stdout.readline() in ("0\n", "1\n")
    for process in (running[1], third):
        process.communicate("done\n")
        assert process.returncode == 0


def test_a_device_may_be_shared(tmp_path):
    taken = [start(tmp_path, *SHOW, JAX_TESTS_PER_ACCELERATOR="2") for _ in range(4)]
    assert sorted(process.stdout.readline() for process in taken) == ["0\n", "0\n", "1\n", "1\n"]
    for process in taken:
        process.communicate("done\n")


def test_devices_are_those_that_were_given(tmp_path):
    given = {"CUDA_VISIBLE_DEVICES": "5,GPU-8f"}
    taken = [start(tmp_path, *SHOW, **given) for _ in range(2)]
    assert sorted(process.stdout.readline() for process in taken) == ["5\n", "GPU-8f\n"]
    # others, with another list, wait for the same lock
    third = start(tmp_path, *SHOW, count=1, CUDA_VISIBLE_DEVICES="5")
    assert not select.select([third.stdout], [], [], 0.5)[0]
    for process in (*taken, third):
        process.communicate("done\n")
        assert process.returncode == 0


@pytest.mark.parametrize(
    ("kind", "variables", "given"),
    [
        ("cuda", {}, None),
        ("cuda", {"CUDA_VISIBLE_DEVICES": " 4, 6,-1,7"}, ["4", "6"]),
        ("rocm", {"HIP_VISIBLE_DEVICES": "2"}, ["2"]),
        ("rocm", {"ROCR_VISIBLE_DEVICES": "4,6,7", "HIP_VISIBLE_DEVICES": "0,2"}, ["4", "7"]),
        ("tpu", {"TPU_VISIBLE_CHIPS": "3", "TPU_VISIBLE_DEVICES": "1"}, ["3"]),
        ("tpu", {"TPU_VISIBLE_DEVICES": "1"}, ["1"]),
    ],
)
def test_what_a_process_was_given(kind, variables, given):
    assert accelerator_slot.allocated(kind, variables) == given


ONE = {"JAX_ACCELERATOR_COUNT": "1"}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (ONE | {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES is '', which hides all"),
        (
            {"JAX_ACCELERATOR_COUNT": "2", "CUDA_VISIBLE_DEVICES": "5"},
            "JAX_ACCELERATOR_COUNT is 2, and of them 5 may be used here",
        ),
        (
            ONE
            | {
                "JAX_ACCELERATOR_KIND": "rocm",
                "ROCR_VISIBLE_DEVICES": "4",
                "HIP_VISIBLE_DEVICES": "1",
            },
            "HIP_VISIBLE_DEVICES is '1', and ROCR_VISIBLE_DEVICES names 1",
        ),
        ({}, "JAX_ACCELERATOR_COUNT is not set"),
        (
            {"JAX_ACCELERATOR_COUNT": "0"},
            "JAX_ACCELERATOR_COUNT is '0': it should be a positive number",
        ),
        (
            {"JAX_ACCELERATOR_COUNT": "1", "JAX_TESTS_PER_ACCELERATOR": "x"},
            "JAX_TESTS_PER_ACCELERATOR is 'x'",
        ),
        ({"JAX_ACCELERATOR_KIND": "npu"}, "should be one of cuda, rocm, tpu"),
    ],
)
def test_wrong_settings_of_slots(variables, message):
    with pytest.raises(accelerator_slot.SlotError, match=message):
        accelerator_slot.settings(variables)


def test_accelerators_of_lanes_are_counted(machine, monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit, match="no nvidia-smi"):
        count_accelerators.main("cuda")
    machine("nvidia-smi", "printf 'GPU 0\\nGPU 1\\nGPU 2\\n'")
    assert count_accelerators.main("cuda") == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert count_accelerators.main("cuda") == 2
    # device files under /dev do not count: vfio serves devices of other kinds
    hardware = {
        "num_available_tpu_chips_and_device_id": lambda: (4, None),
        "num_available_amd_gpus": lambda: 0,
    }
    monkeypatch.setattr(runpy, "run_path", lambda _: hardware)
    assert count_accelerators.main("tpu") == 4
    with pytest.raises(SystemExit, match="no AMD GPU"):
        count_accelerators.main("rocm")


# How Bazel is found


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without Bazel and Debian's packages; returns a function that puts programs on its PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAX_BAZEL", raising=False)

    def program(name, text):
        file = tmp_path / name
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)
        return str(file)

    return program


VERSION = (ROOT / ".bazelversion").read_text().strip()


def test_bazel_on_the_path(machine):
    bazel = machine("bazel", f"echo bazel {VERSION}")
    assert bazel_commands.find_bazel()[0] == [bazel]
    bazelisk = machine("bazelisk", f"echo bazel {VERSION}")
    command, variables = bazel_commands.find_bazel()
    assert command == [bazelisk]
    assert variables["JAX_BAZEL_PYTHON_VERSION"] == environment.python_version()
    assert Path(variables["JAX_BAZEL_PYTHON"]).exists()
    other = machine("mine", f"echo bazel {VERSION}")
    assert bazel_commands.find_bazel(other)[0] == [other]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo bazel 4.2.3", f"is Bazel 4.2.3, and this project is built with {VERSION}"),
        (
            "echo could not download >&2; exit 1",
            "--version fails \\(if it is Bazelisk(.|\n)*could not download",
        ),
    ],
)
def test_a_bazel_that_will_not_do(machine, tmp_path, monkeypatch, capsys, text, message):
    """Named, it is an error; found on PATH, it is left out with a word, and what comes next is used."""
    wrong = machine("bazelisk", text)
    with pytest.raises(environment.SetupError, match=message + "(.|\n)*JAX_BAZEL=FILE"):
        bazel_commands.find_bazel(wrong)
    with pytest.raises(
        environment.SetupError, match="no Bazel here that will do, and(.|\n)*apt-get"
    ):
        bazel_commands.find_bazel()
    assert re.search(message + "(.|\n)*: it is left out", capsys.readouterr().err)
    machine("bazel", text)
    (tmp_path / "later").mkdir()
    good = machine("later/bazel", f"echo bazel {VERSION}")
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), str(tmp_path / "later")]))
    assert bazel_commands.find_bazel()[0] == [good]


def test_a_kill_of_build_py_stops_bazel(machine, tmp_path):
    """It does not wait for Bazel to finish the work."""
    program = f"""\
case $1 in --version) echo bazel {VERSION}; exit ;; esac
trap ': >{tmp_path}/stopped; exit 0' TERM
echo works
for i in {{1..30}}; do read -t 1 line <>{tmp_path}/nothing; done"""
    os.mkfifo(tmp_path / "nothing")
    machine("bazel", program)
    command = [sys.executable, str(ROOT / "build" / "build.py"), "bazel", "build", "//..."]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "works\n"
    process.terminate()
    assert process.wait(timeout=10) == 128 + signal.SIGTERM
    process.stdout.close()
    assert (tmp_path / "stopped").exists()


def test_a_kill_while_a_program_starts_stops_it(monkeypatch):
    started = []

    def popen(*args, **kwargs):
        process = start(*args, **kwargs)
        started.append(process)
        os.kill(os.getpid(), signal.SIGTERM)  # before the caller has the handle
        return process

    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        processes.call(["sleep", "60"])
    assert started[0].returncode == -signal.SIGTERM


def test_no_bazel_at_all(machine):
    with pytest.raises(
        environment.SetupError,
        match="without apt-get(.|\n)*Bazelisk(.|\n)*ci/offline_bazel.sh prepare",
    ):
        bazel_commands.find_bazel()
    with pytest.raises(environment.SetupError, match="/no/bazel cannot be run"):
        bazel_commands.find_bazel("/no/bazel")


def test_the_offline_root_cannot_be_made(tmp_path):
    """Nothing is left that looks like a root, and a sentence says what is missing."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("cat", "dirname", "flock", "mkdir", "sha256sum"):
        (programs / name).symlink_to(shutil.which(name))
    variables = {"PATH": str(programs), "JAX_BAZEL_ROOT": str(tmp_path / "bazel-root")}
    command = [shutil.which("bash"), str(bazel_commands.OFFLINE), "bazel", "version"]
    result = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == (
        "offline_bazel: error: there is no apt-get, which fetches Debian's packages.\n"
    )
    assert not (tmp_path / "bazel-root").exists()


@pytest.mark.parametrize(
    ("version", "error", "message"),
    [
        ("311", environment.UsageError, "it should be like 3.11"),
        ("3.99", environment.SetupError, "no packages are pinned for Python 3.99"),
    ],
)
def test_python_versions(version, error, message):
    with pytest.raises(error, match=message):
        bazel_commands.find_python(version)


def test_requirements_are_resolved_by_a_pinned_program(monkeypatch):
    commands = []
    monkeypatch.setattr(bazel_commands, "_checked", lambda command, _: commands.append(command))
    assert bazel_commands.requirements_update(["--python_version=3.12"]) == 0
    assert commands[1][-3:] == ["--require-hashes", "--requirement", "uv.txt"]
    pinned = (ROOT / environment.LOCKS / "uv.txt").read_text()
    assert re.match(r"uv==[\d.]+( \\\n +--hash=sha256:[0-9a-f]{64})+\n$", pinned)
    written = [command[-1] for command in commands[2:]]
    names = ("lock", "oracle", "bazel", "plugins", "aot", "libraries", "torch", "remote", "release")
    assert written == [f"{name}-3.12.txt" for name in (*names, "matrix-oldest")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--wheels"),
        (
            ["--wheels=jax,numpy"],
            "there is no wheel 'numpy'; there are jax, jaxlib-ext, jax-cuda-plugin",
        ),
    ],
)
def test_wrong_usage_of_build(arguments, message):
    with pytest.raises(environment.UsageError, match=message):
        bazel_commands.build(arguments)


def test_wheels_are_where_bazel_says(tmp_path, monkeypatch):
    made = tmp_path / "root/bazel-out/bin/build/wheels"
    made.mkdir(parents=True)
    for name in ("a.whl", "b.whl"):
        (made / name).write_text(name)
        (made / name).chmod(0o400)
    files = [[{"name": f"build/wheels/{n}.whl", "pathPrefix": ["bazel-out", "bin"]}] for n in "ab"]
    events = [
        {"id": {"workspace": {}}, "workspaceInfo": {"localExecRoot": str(tmp_path / "root")}},
        {"id": {"namedSet": {"id": "0"}}, "namedSetOfFiles": {"files": files[0]}},
        {"id": {"namedSet": {"id": "1"}}, "namedSetOfFiles": {"files": files[1]}},
    ]
    for index, name in enumerate(["jax", "jaxlib_ext"]):
        label = {"label": f"//build/wheels:{name}"}
        sets = [
            {"name": "default", "fileSets": [{"id": str(index)}]},
            {"name": "validation", "fileSets": [{"id": "9"}]},
        ]
        events.append({"id": {"targetCompleted": label}, "completed": {"outputGroup": sets}})

    def call(command, variables, folder):
        (option,) = [a for a in command if a.startswith("--build_event_json_file=")]
        Path(option.partition("=")[2]).write_text("\n".join(map(json.dumps, events)))
        return 0

    monkeypatch.setattr(bazel_commands, "find_bazel", lambda *_: (["bazel"], {"JAX_BAZEL_PYTHON_VERSION": "3.11"}))  # fmt: skip
    monkeypatch.setattr(bazel_commands, "call", call)
    output = tmp_path / "dist"
    for _ in range(2):  # over what is there
        arguments = ["--wheels=jax,jaxlib-ext", f"--output_path={output}"]
        assert bazel_commands.build(arguments) == 0
        assert {p.name: p.read_text() for p in output.iterdir()} == {n: n for n in ("a.whl", "b.whl")}  # fmt: skip
    monkeypatch.setattr(bazel_commands, "call", lambda *_: 5)
    assert bazel_commands.build(arguments) == 5


@pytest.mark.parametrize("lane", sorted(path.name for path in (ROOT / "ci").glob("*.sh")))
def test_lanes(lane):
    assert subprocess.run(["bash", "-n", str(ROOT / "ci" / lane)], check=False).returncode == 0
    workflows = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    if lane not in ("common.sh", "environments.sh", "offline_bazel.sh", "onnxruntime_headers.sh"):
        assert lane in workflows
        assert f"`{lane}`" in (ROOT / "ci" / "README.md").read_text()


def test_a_lane_takes_a_python_that_packages_are_pinned_for(machine, tmp_path):
    """Not the first that is new enough."""
    newer = (
        f'exec {sys.executable} -c "import sys; sys.version_info = (3, 99); exec(sys.argv[1])" "$2"'
    )
    machine("python3", newer)
    mine = f"python{environment.python_version()}"
    for lock in (ROOT / environment.LOCKS).glob("lock-*.txt"):
        other = f"python{lock.stem.removeprefix('lock-')}"
        if other != mine:
            machine(other, "exit 1")  # in place of one that there may be
    (tmp_path / mine).symlink_to(sys.executable)
    result = subprocess.run(
        ["bash", "-c", f". {ROOT}/ci/common.sh; need_python; echo $python"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stdout, result.stderr) == (f"{mine}\n", "")
