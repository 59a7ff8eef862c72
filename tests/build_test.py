"""build/build.py: its command line, its stamps, and what it says when something is wrong."""

import csv
import errno
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent
BUILD = ROOT / "build"

sys.path.insert(0, str(BUILD))
import environment  # noqa: E402 (it is found through the line above)
import front_door  # noqa: E402

VERSION = environment.python_version()


def call(*arguments, **options):
    command = [sys.executable, str(BUILD / "build.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


# The command line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say which command"),
        (["frobnicate"], "there is no command 'frobnicate'"),
        (["run"], "say which program"),
        (["run", "-m"], "say which module"),
        (["run", "--fast", "x.py"], "the program comes before its flags, got --fast"),
        (["run", "no_such_program.py"], "there is no program no_such_program.py"),
        (["run", "examples"], "examples is a folder"),
        (["oracle", "--now"], "oracle takes --update, --verify or --check, got --now"),
    ],
)
def test_wrong_usage(arguments, message):
    result = call(*arguments)
    assert result.returncode == 2
    assert message in result.stderr.splitlines()[0]
    assert "usage:" in result.stderr
    assert result.stdout == ""
    # of the command that was given alone, if there is one
    known = arguments[:1] and arguments[0] in front_door.COMMANDS
    assert ("  bench [ARGS]" in result.stderr) != bool(known)


@pytest.mark.parametrize("flag", ["-h", "--help", "help"])
def test_help(flag):
    result = call(flag)
    assert result.returncode == 0
    for command in front_door.COMMANDS:
        assert re.search(rf"^  {command}\b", result.stdout, re.M)


def test_old_python_is_told_so():
    """The file that is run first parses everywhere and says what is missing, before it imports anything of ours."""
    source = (BUILD / "build.py").read_text()
    gate = source.index("if sys.version_info")
    assert gate < source.index("import front_door")
    assert 'f"' not in source[:gate]
    program = (
        "import sys, runpy; sys.version_info = (3, 10, 1); sys.argv = ['build/build.py', 'test'];"
        f"runpy.run_path({str(BUILD / 'build.py')!r}, run_name='__main__')"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "this is Python 3.10" in result.stderr
    assert "needs 3.11 or newer" in result.stderr
    assert re.search(r"  python3\.11 \S*build/build\.py test", result.stderr)


def test_program_is_found_from_here_and_from_the_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    assert front_door._program(["mine.py", "-x"]) == [str(tmp_path / "mine.py"), "-x"]
    assert front_door._program(["build/build.py"]) == [str(BUILD / "build.py")]
    assert front_door._program(["-m", "doctest", "-v"]) == ["-m", "doctest", "-v"]


def test_pytest_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_test.py").touch()
    assert front_door._from_here("a_test.py::test_b[c]") == f"{tmp_path}/a_test.py::test_b[c]"
    assert [front_door._from_here(a) for a in ("-k", "name", "")] == ["-k", "name", ""]
    assert front_door._chooses_workers(["-x", "-n", "0"])
    assert front_door._chooses_workers(["--pdb"])
    assert not front_door._chooses_workers(["-x", "-k", "name", "tests"])


def test_the_programs_surroundings(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PYTHONHOME", "/wrong")
    variables = front_door._variables(JAX_ORACLE_PYTHON=Path("/oracle/python"))
    assert variables["PYTHONPATH"] == f"{ROOT}{os.pathsep}/elsewhere"
    assert variables["JAX_ORACLE_PYTHON"] == "/oracle/python"
    assert "PYTHONHOME" not in variables


# Lock files


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("name", ["lock", "oracle"])
def test_lock_files_pin_everything_with_hashes(name, version):
    text = (BUILD / "requirements" / f"{name}-{version}.txt").read_text()
    requirements = text.replace("\\\n", " ").splitlines()
    assert requirements
    for requirement in requirements:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", requirement)
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.M))
    if name == "oracle":
        assert pinned["jax"] == pinned["jaxlib"] == "0.10.2"
    else:
        assert pinned["jaxlib"] == ("0.10.2" if version == "3.11" else "0.12.0")
        assert "jax" not in pinned
        wanted = (BUILD / "requirements" / "lock.in").read_text()
        names = {environment._canonical(n) for n in re.findall(r"^([\w.-]+)", wanted, re.M)}
        assert names <= {environment._canonical(n) for n in pinned}


# Environments: a small one, made by a stand-in for pip


@pytest.fixture
def small(tmp_path, monkeypatch):
    """An environment of two packages that are made here, and the list of what was made."""
    folder = tmp_path / environment.LOCKS
    folder.mkdir(parents=True)
    (folder / f"lock-{VERSION}.txt").write_text("one==1.0 \\\n    --hash=sha256:0\ntwo==2.0\n")
    made = []

    def make_venv(folder):
        made.append(folder)
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to(sys.executable)
        (folder / "bin" / "tool").write_text(f"#!{folder}/bin/python\n")
        (folder / "pyvenv.cfg").touch()

    def install(_, folder):
        packages = folder / "lib" / f"python{VERSION}" / "site-packages"
        for name, version in (("one", "1.0"), ("two", "2.0")):
            (packages / name).mkdir(parents=True)
            (packages / name / "__init__.py").write_text("x = 1\n")
            info = packages / f"{name}-{version}.dist-info"
            info.mkdir()
            with open(info / "RECORD", "w", newline="") as file:
                rows = [(f"{name}/__init__.py", "", 6), (f"{info.name}/RECORD", "", "")]
                csv.writer(file).writerows([*rows, ("../../../bin/tool", "", 1)])

    monkeypatch.setattr(environment, "_make_venv", make_venv)
    monkeypatch.setattr(environment, "_install", install)
    monkeypatch.setattr(environment, "_compile", lambda *_: None)
    result = environment.Environment(tmp_path, ".venv", "lock", gigabytes=0.001)
    return result, made


def packages_of(env):
    return env.folder / "lib" / f"python{VERSION}" / "site-packages"


def test_made_once(small):
    env, made = small
    assert environment.problem(env) == "not there yet"
    assert environment.prepare(env) == env.folder / "bin" / "python"
    assert environment.prepare(env) == env.folder / "bin" / "python"
    assert len(made) == 1
    assert environment.problem(env) is None
    assert (env.folder / "bin" / "tool").read_text() == f"#!{env.folder}/bin/python\n"
    assert sorted(path.name for path in env.root.iterdir()) == [".venv", ".venv.lock", "build"]


def remove_file(env):
    (packages_of(env) / "two" / "__init__.py").unlink()


def cut_file(env):
    (packages_of(env) / "two" / "__init__.py").write_text("x")


def remove_package(env):
    for path in (packages_of(env) / "one-1.0.dist-info").iterdir():
        path.unlink()


def remove_python(env):
    (env.folder / "bin" / "python").unlink()
    (env.folder / "bin" / "python").symlink_to("/no/such/python")


def garble_stamp(env):
    (env.folder / environment.STAMP).write_text("{")


def change_lock(env):
    env.lock_file.write_text("one==1.0\n" + env.lock_file.read_text().splitlines()[-1] + "\n\n")


def change_place(env):
    stamp = json.loads((env.folder / environment.STAMP).read_text())
    (env.folder / environment.STAMP).write_text(json.dumps(stamp | {"folder": "/elsewhere/.venv"}))


def change_python(env):
    stamp = json.loads((env.folder / environment.STAMP).read_text())
    (env.folder / environment.STAMP).write_text(json.dumps(stamp | {"python": "cpython 3.9"}))


@pytest.mark.parametrize(
    ("harm", "trouble"),
    [
        (remove_file, "damaged: two/__init__.py is missing"),
        (cut_file, "damaged: two/__init__.py has changed its size"),
        (remove_package, "damaged: one is missing"),
        (remove_python, "damaged: .venv/bin/python cannot be run"),
        (garble_stamp, "its stamp cannot be read"),
        (change_lock, "made for another lock file"),
        (change_place, "made for another place"),
        (change_python, "made for another Python"),
    ],
)
def test_damage_is_seen_and_repaired(small, capsys, harm, trouble):
    env, made = small
    environment.prepare(env)
    harm(env)
    assert environment.problem(env) == trouble
    environment.prepare(env)
    assert trouble in capsys.readouterr().err
    assert len(made) == 2
    assert environment.problem(env) is None


def test_packages_with_a_file_of_the_same_name(small):
    env, _ = small
    environment.prepare(env)
    for name, size in (("one-1.0", 3), ("two-2.0", 4)):  # the second was installed last
        with open(packages_of(env) / f"{name}.dist-info" / "RECORD", "a") as file:
            file.write(f"docs.py,sha256=0,{size}\n")
    (packages_of(env) / "docs.py").write_text("x=2\n")
    assert environment.problem(env) is None
    (packages_of(env) / "docs.py").write_text("x")
    assert environment.problem(env) == "damaged: docs.py has changed its size"


def test_interrupted(small, monkeypatch):
    env, made = small
    with monkeypatch.context() as patch:
        patch.setattr(environment, "_compile", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            environment.prepare(env)
    assert not env.folder.exists()
    # what a process leaves that was killed on the spot
    for name in (".venv.partial-1", ".venv.old-1"):
        (env.root / name / "bin").mkdir(parents=True)
    environment.prepare(env)
    assert sorted(path.name for path in env.root.iterdir()) == [".venv", ".venv.lock", "build"]


def test_failure_keeps_the_old_environment(small, monkeypatch):
    env, _ = small
    environment.prepare(env)
    change_lock(env)

    def fail(*_):
        raise environment.SetupError("no network")

    monkeypatch.setattr(environment, "_install", fail)
    with pytest.raises(environment.SetupError, match="no network"):
        environment.prepare(env)
    assert (packages_of(env) / "one" / "__init__.py").exists()


def test_two_at_once(small):
    env, made = small
    threads = [threading.Thread(target=environment.prepare, args=(env,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert environment.problem(env) is None


def test_what_somebody_made_by_hand_is_not_deleted(small):
    env, made = small
    (env.folder / "bin").mkdir(parents=True)
    (env.folder / "precious").touch()
    with pytest.raises(environment.SetupError, match="was not made by build.py and cannot be used"):
        environment.prepare(env)
    assert (env.folder / "precious").exists()
    # one that works is brought up to date where it is
    (env.folder / "bin" / "python").symlink_to(sys.executable)
    environment.prepare(env)
    assert (env.folder / "precious").exists()
    assert environment.problem(env) is None
    assert made == []


def test_full_disk_before_anything_is_made(small):
    env, made = small
    env = environment.Environment(env.root, env.name, env.lock_prefix, gigabytes=1e9)
    with pytest.raises(environment.SetupError, match=r"disk is too full.*takes 1000000000\.0 GB"):
        environment.prepare(env)
    assert made == []


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "/x cannot be written"),
        (errno.EACCES, "/x cannot be written"),
        (errno.EIO, "cannot be made"),
    ],
)
def test_system_errors(small, monkeypatch, number, message):
    env, _ = small

    def fail(_):
        raise OSError(number, os.strerror(number), "/x")

    monkeypatch.setattr(environment, "_make_venv", fail)
    with pytest.raises(environment.SetupError, match=message):
        environment.prepare(env)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("ERROR: [Errno 28] No space left on device", "the disk is full"),
        ("Failed to establish a new connection: [Errno -3]", "PyPI cannot be reached"),
        (
            "ProxyError('Cannot connect')\nERROR: No matching distribution found for a",
            "cannot be reached",
        ),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "not the one that is pinned"),
        ("ERROR: No matching distribution found for a==1", "no build for this machine"),
        ("something new\nin two lines", "pip install failed:\n    something new\n    in two lines"),
    ],
)
def test_failures_of_pip_are_explained(output, message):
    assert message in environment._explain_failure("pip install", output)


def test_unknown_python_version(tmp_path):
    env = environment.Environment(tmp_path, ".venv", "lock", gigabytes=0)
    with pytest.raises(environment.SetupError, match="is this a whole checkout"):
        environment.prepare(env)
    env.lock_file.parent.mkdir(parents=True)
    for version in ("3.100", "3.99"):
        (env.lock_file.parent / f"lock-{version}.txt").touch()
    with pytest.raises(environment.SetupError, match=r"pinned packages are for 3\.99, 3\.100"):
        environment.prepare(env)
