"""What stands around Bazel: BUILD files, wheels, shards, slots of accelerators, how Bazel is found."""

import io
import os
import select
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent
MACROS = ROOT / "build" / "bazel"

sys.path[:0] = [str(ROOT / "build"), str(MACROS)]
import accelerator_slot  # noqa: E402 (they are found through the line above)
import bazel_commands  # noqa: E402
import build_files  # noqa: E402
import environment  # noqa: E402
import pack_wheel  # noqa: E402
import pytest_main  # noqa: E402

# BUILD files


def test_build_files_are_what_the_sources_import():
    wanted = build_files.build_files(ROOT)
    wrong = [str(p.relative_to(ROOT)) for p, content in wanted.items() if p.read_text() != content]
    assert not wrong, "python3 build/build_files.py --write mends this"


def test_every_test_file_is_a_target():
    text = (ROOT / "tests" / "BUILD.bazel").read_text()
    assert build_files.unlisted_tests(ROOT / "tests", text) == []


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


def test_shards_under_bazel(tmp_path):
    """The program that Bazel runs: each test once, in one shard; an empty shard is no failure, an empty file is one."""
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "x_test.py").write_text(
        "import sys\nfor i in range(3): exec(f'def test_{i}(): print(\"ran\", {i})')\n"
    )
    (tmp_path / "none_test.py").write_text("")

    def run(file, index, total):
        folder = tmp_path / f"scratch-{file}-{index}"
        folder.mkdir()
        status = folder / "status"
        env = os.environ | {
            "TEST_SHARD_INDEX": str(index),
            "TEST_TOTAL_SHARDS": str(total),
            "TEST_SHARD_STATUS_FILE": str(status),
            "TEST_TMPDIR": str(folder),
            "XML_OUTPUT_FILE": str(folder / "test.xml"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        command = [sys.executable, str(MACROS / "pytest_main.py"), file, "-s"]
        result = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert status.exists(), result.stderr
        return result.returncode, result.stdout

    outputs = [run("x_test.py", index, 4) for index in range(4)]
    assert [status for status, _ in outputs] == [0] * 4
    assert sorted(i for i in range(3) for _, text in outputs if f"ran {i}" in text) == [0, 1, 2]
    assert run("none_test.py", 0, 1)[0] == pytest_main.NO_TESTS


# Slots of accelerators, of pretend devices


def start(folder, *program, count=2, **variables):
    env = os.environ | {
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
    clean = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS", "ROCR_VISIBLE_DEVICES"), "")
    running = [start(tmp_path, *SHOW, JAX_ACCELERATOR_KIND=kind, **clean) for _ in range(2)]
    assert sorted(process.stdout.readline() for process in running) == ["0\n", "1\n"]
    third = start(tmp_path, *SHOW, JAX_ACCELERATOR_KIND=kind, **clean)
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


@pytest.mark.parametrize(
    ("variables", "message"),
    [
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


# How Bazel is found


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without Bazel and Debian's packages; returns a function that puts programs on its PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAX_BAZEL", raising=False)

    def program(name, text):
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{text}\n")
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
            "--version fails(.|\n)*could not download(.|\n)*JAX_BAZEL=FILE",
        ),
    ],
)
def test_a_bazel_that_will_not_do(machine, text, message):
    machine("bazel", text)
    with pytest.raises(environment.SetupError, match=message):
        bazel_commands.find_bazel()


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


@pytest.mark.parametrize("lane", sorted(path.name for path in (ROOT / "ci").glob("*.sh")))
def test_lanes(lane):
    assert subprocess.run(["bash", "-n", str(ROOT / "ci" / lane)], check=False).returncode == 0
    workflows = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    if lane not in ("common.sh", "offline_bazel.sh"):
        assert lane in workflows
        assert f"`{lane}`" in (ROOT / "ci" / "README.md").read_text()
