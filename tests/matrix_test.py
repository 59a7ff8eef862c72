"""`build.py matrix`: which cells there are, what each is made of, and how interpreters are found. Runs none."""

import os
import platform
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent

sys.path.insert(0, str(ROOT / "build"))
import environment  # noqa: E402 (it is found through the line above)
import interpreters  # noqa: E402
import matrix  # noqa: E402

VERSION = environment.python_version()
LOCK = """\
jaxlib==0.10.2 \\
    --hash=sha256:1 \\
    --hash=sha256:2
ml-dtypes==0.5.4 \\
    --hash=sha256:3
numpy-more==1.0 \\
    --hash=sha256:4
"""


def test_cells():
    found = {cell.name: cell for cell in matrix.cells()}
    assert len(found) == len(matrix.cells()) == 28
    for python in matrix.PYTHONS:
        for jaxlib in ("oldest", "newest"):
            # jaxlib's newest releases are not for Python 3.11, whose only one is both
            assert (f"{python}-{jaxlib}-extension-aarch64" in found) == (
                (python, jaxlib) != ("3.11", "oldest")
            )
    oldest = re.search(r"jaxlib>=([\d.]+),", (ROOT / "pyproject.toml").read_text())[1]
    for cell in found.values():
        assert cell.lock.exists()
        if cell.jaxlib == "oldest" or cell.python == "3.11":
            assert cell.jaxlib_version == oldest
        else:
            assert cell.jaxlib_version > oldest


@pytest.mark.parametrize(
    "name", sorted(p.name for p in (ROOT / environment.LOCKS).glob("matrix-*.txt"))
)
def test_lock_files_are_those_of_the_project_but_for_jaxlib(name):
    text, project = ((ROOT / environment.LOCKS / n).read_text() for n in (name, "lock-3.13.txt"))
    pinned, ours = (dict(re.findall(r"^([\w.-]+)==(\S+)", t, re.M)) for t in (text, project))
    assert len(re.findall(r"sha256:[0-9a-f]{64}", text)) > len(pinned)
    assert pinned.keys() ^ ours.keys() <= {"typing-extensions"}
    different = {name for name in pinned.keys() & ours.keys() if pinned[name] != ours[name]}
    assert different <= {"jaxlib"}


def test_pins():
    assert matrix.pins_of(LOCK, ("jaxlib", "ml-dtypes", "numpy")) == LOCK.split("numpy")[0]


def test_the_commands_of_a_cell(tmp_path):
    cell = matrix.Cell("3.12", "newest", "x86_64", extension=True)
    command = matrix.test_command(cell, tmp_path / "python", False, ["-x"])
    assert (
        command[-1] == "-x" and "require_kernels" in command and "tests/kernels_test.py" in command
    )
    for name in command:
        assert not name.startswith("tests/") or (ROOT / name).exists(), name
    cell = matrix.Cell("3.12", "newest", "x86_64", extension=False)
    command = matrix.test_command(cell, tmp_path / "python", True, [])
    assert not [part for part in command if part.startswith("tests/") or part == "require_kernels"]


def test_wheels_of_the_extension(tmp_path):
    for tag in ("cp311-cp311-manylinux_2_27_x86_64", "cp312-abi3-manylinux_2_27_aarch64"):
        (tmp_path / f"jaxlib_ext-0.10.2-{tag}.whl").touch()
    wheel = matrix.extension_wheel(matrix.Cell("3.11", "newest", "x86_64", True), tmp_path)
    assert "cp311" in wheel.name
    wheel = matrix.extension_wheel(matrix.Cell("3.14", "oldest", "aarch64", True), tmp_path)
    assert "cp312-abi3" in wheel.name


@pytest.mark.parametrize("which", ["all", "3.13-newest-extension"])
def test_a_folder_without_the_wheels_is_refused_before_a_cell_runs(tmp_path, monkeypatch, which):
    monkeypatch.setattr(matrix, "run_cell", lambda *_: pytest.fail("it runs"))
    with pytest.raises(environment.SetupError, match="--wheels=/absent: there is no such folder"):
        matrix.matrix([which, "--wheels=/absent"])
    (tmp_path / f"jaxlib_ext-0.10.2-cp311-cp311-manylinux_2_27_{platform.machine()}.whl").touch()
    with pytest.raises(
        environment.SetupError, match=r"has no wheel .* for .*3\.1[23]-\S+-extension"
    ):
        matrix.matrix([which, f"--wheels={tmp_path}"])
    monkeypatch.setattr(matrix, "run_cell", lambda *_: "passed")
    assert matrix.matrix(["3.11-newest-extension", "3.13-newest", f"--wheels={tmp_path}"]) == 0


def test_machine_code(tmp_path):
    for number, name in ((62, "a.so"), (183, "b.so.1"), (40, "c.so")):
        head = b"\x7fELF" + bytes(14) + number.to_bytes(2, "little")
        (tmp_path / name).write_bytes(head + bytes(40))
    (tmp_path / "text.so").write_text("INPUT(libx.so.1)")
    found = {str(path): machine for path, machine in matrix.machine_code(tmp_path)}
    assert found == {"a.so": "x86_64", "b.so.1": "aarch64", "c.so": "machine 40"}


def test_the_list(capsys, monkeypatch):
    monkeypatch.setattr(interpreters, "find", {"3.12": "/opt/python3.12"}.get)
    assert matrix.matrix([]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["3.12-newest"].endswith(" /opt/python3.12")
    assert lines["3.14-oldest"].endswith("none here: uv fetches one, if it can")
    with pytest.raises(environment.UsageError, match=r"there is no cell 3\.9"):
        matrix.matrix(["3.9"])


def test_a_cell_that_cannot_be_made_is_a_failure(capsys, monkeypatch):
    def run_cell(cell, options, more):
        assert more == ["-x"]
        if cell.extension:
            raise environment.SetupError("no wheel")
        return "passed"

    monkeypatch.setattr(matrix, "run_cell", run_cell)
    assert matrix.matrix(["3.12-newest", "3.12-newest-extension", "--", "-x"]) == 1
    output = capsys.readouterr()
    assert re.search(r"^3\.12-newest +passed in 0 s$", output.out, re.M)
    assert re.search(r"^3\.12-newest-extension +cannot be made in 0 s$", output.out, re.M)
    assert "no wheel" in output.err
    assert matrix.matrix(["3.12-newest", "--", "-x"]) == 0


# Interpreters


@pytest.fixture
def only(tmp_path, monkeypatch):
    """A machine that has no interpreter but this one."""
    for name, folder in (("PYENV_ROOT", "pyenv"), ("UV_PYTHON_INSTALL_DIR", "uv"), ("PATH", "bin")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
    interpreters.find.cache_clear()
    yield tmp_path
    interpreters.find.cache_clear()


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_interpreters_are_found(only):
    assert interpreters.find(VERSION) == os.path.realpath(sys._base_executable)
    assert interpreters.find("3.98") is None
    program(only / "bin/python3.97", "exit 127")  # a shim of pyenv's for one that is not chosen
    program(only / "pyenv/versions/3.97.9/bin/python3.97", "echo 3.97 /pyenv/9")
    program(only / "pyenv/versions/3.97.10/bin/python3.97", "echo 3.96 /pyenv/10")
    program(only / "uv/cpython-3.96.1-linux/bin/python3.96", "echo 3.96 /uv/1")
    assert interpreters.find("3.97") == "/pyenv/9"
    assert interpreters.find("3.96") == "/uv/1"


def test_interpreters_are_fetched(only):
    uv = only / "uv-program"
    target = only / "uv" / "cpython-3.95.2-linux" / "bin"
    line = f"mkdir -p {target}; printf '#!/bin/sh\\necho 3.95 /uv/2\\n' >{target}/python3.95; /bin/chmod +x {target}/python3.95"
    program(uv, f"PATH=/usr/bin:/bin; {line}")
    assert interpreters.get("3.95", uv) == "/uv/2"
    program(uv, "echo 'error: dns error' >&2; exit 2")
    with pytest.raises(environment.SetupError, match=r"no python3\.94 .*\n    error: dns error"):
        interpreters.get("3.94", uv)


def test_a_failing_program_is_quoted():
    with pytest.raises(environment.SetupError, match=r"-c .*failed with exit status 1\n    oh"):
        interpreters.run([sys.executable, "-c", "import sys; sys.exit('oh')"])
    assert interpreters.run([sys.executable, "-c", "print(1)"]) == "1\n"
