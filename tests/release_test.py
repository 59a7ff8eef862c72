"""`build.py release`: versions, changes, tags, bytes, the table. Builds and installs nothing: ci/release.sh does."""

import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent

sys.path.insert(0, str(ROOT / "build"))
import environment  # noqa: E402 (it is found through the line above)
import interpreters  # noqa: E402
import release  # noqa: E402
import versions  # noqa: E402

VERSION = versions.project_version(ROOT)
CHANGES = """\
# Changes

## 0.10.20 (unreleased)

### Added

## 0.10.2 (2026-11-28)

- One.
- Two.
"""


@pytest.fixture
def checkout(tmp_path):
    for file, _ in versions.PLACES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, tmp_path / file)
    return tmp_path


def test_one_version_everywhere():
    assert {text for _, text in versions.found(ROOT)} == {VERSION}
    ((check, _, problem, remark),) = release.check_versions(ROOT, VERSION)
    assert (check, problem, remark) == ("versions", None, VERSION)


def test_another_version_is_named(checkout):
    path = checkout / "jax_plugins/tpu/pyproject.toml"
    path.write_text(path.read_text().replace(f'"{VERSION}"', '"0.9.0"'))
    (checkout / "jax/version.py").write_text("")
    ((_, _, problem, _),) = release.check_versions(checkout, VERSION)
    assert problem == "jax/version.py has none; jax_plugins/tpu/pyproject.toml has 0.9.0"


def test_nightly_versions(checkout):
    nightly = versions.nightly(VERSION, date(2026, 1, 5))
    assert nightly == f"{VERSION}.dev20260105"
    versions.check(nightly)
    before = {path: path.read_text() for path in checkout.rglob("*.*") if path.is_file()}
    versions.rewrite(checkout, nightly)
    assert {text for _, text in versions.found(checkout)} == {nightly}
    for kind in ("cuda", "rocm", "tpu"):
        text = (checkout / f"jax_plugins/{kind}/pyproject.toml").read_text()
        assert f'"jax>={nightly},<' in text  # which does not take in the nightly build otherwise
    versions.rewrite(checkout, VERSION)
    assert before == {path: path.read_text() for path in before}


@pytest.mark.parametrize("version", ["0.10", "v0.10.2", "0.10.2.dev3", "0.10.2+local", "nightly-1"])
def test_no_versions(version):
    with pytest.raises(environment.UsageError, match="is no version"):
        release.release([f"--version={version}"])


@pytest.mark.parametrize(
    ("version", "tagged", "problem"),
    [
        ("0.10.2", None, None),
        ("0.10.2", "abc", None),
        ("0.10.2.dev20260101", None, None),
        ("0.10.20", None, "there is nothing under ## 0.10.20 (unreleased)"),
        ("0.10", None, "it has no heading ## 0.10"),
        ("1.0.0", None, "it has no heading ## 1.0.0"),
    ],
)
def test_changes(version, tagged, problem):
    assert release.check_changelog(CHANGES, version, tagged)[2] == problem


def test_changes_of_a_tag_have_a_date_and_none_is_to_be_written():
    text = "## 0.10.2 (unreleased)\n\n- `jax.lax.f`: TODO.\n"
    assert "an entry is to be written" in release.check_changelog(text, "0.10.2", None)[2]
    text = text.replace("TODO", "more")
    assert release.check_changelog(text, "0.10.2", None)[2] is None
    assert "its heading no date" in release.check_changelog(text, "0.10.2", "abc")[2]


def test_tags(tmp_path, monkeypatch):
    def git(*arguments):
        who = ["-c", "user.name=A", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "One")
    for module in (release, sys.modules["bazel_commands"]):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    assert release.check_tag("1.0.0") == ("tag", "jax-v1.0.0", None, "not there yet")
    git("tag", "-a", "jax-v1.0.0", "-m", "It")
    assert release.check_tag("1.0.0")[2:] == (None, "is this commit")
    (tmp_path / "file").write_text("2")
    assert "files differ from it: M file" in release.check_tag("1.0.0")[2]
    git("commit", "-a", "-m", "Two")
    assert re.match(r"it is \w{9}, and this is \w{9}$", release.check_tag("1.0.0")[2])


def test_same_bytes(tmp_path):
    (tmp_path / "again").mkdir()
    files = [tmp_path / name for name in ("a.whl", "b.whl", "c.whl")]
    for path in files:
        path.write_text(path.name)
    (tmp_path / "again/a.whl").write_text("a.whl")
    (tmp_path / "again/b.whl").write_text("other")
    problems = [row[2] for row in release.same_bytes(files, tmp_path / "again")]
    assert problems[0] is None
    assert problems[1].startswith("the second build has other bytes")
    assert problems[2] == "the second build has no such file"


def test_what_is_built(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(release, "call", lambda command, folder: commands.append(command[2:]) or 0)
    release.make(ROOT, tmp_path / "dist", ["--disk_cache=/x", "--jobs=2"], tmp_path / "first")
    assert [c[1].removeprefix("--wheels=") for c in commands] == ["all", *["jaxlib-ext"] * 3]
    assert all("--bazel_options=--disk_cache=/x" in c for c in commands)
    names = ["jax-1.0-py3-none-any.whl", "jax_tpu_plugin-1.0-py3-none-any.whl", "jax-1.0.tar.gz"]
    names += ["jaxlib_ext-1.0-cp312-abi3-manylinux_2_27_aarch64.whl"]
    commands.clear()
    again = tmp_path / "second"
    again.mkdir()
    release.make(ROOT, tmp_path, ["--disk_cache=/x"], again, [Path(name) for name in names])
    *builds, end = commands
    assert [c[1] for c in builds] == ["--wheels=jax,jax-tpu-plugin", "--wheels=jaxlib-ext"]
    assert ["--sdist" in c for c in builds] == [True, False]
    assert {"--python_version=3.12", "--config=aarch64"} <= {*builds[1]}
    for command in builds:
        assert f"--bazel_startup_options=--output_base={again}" in command
        assert "--bazel_options=--disk_cache=/x" not in command
    assert end == ["bazel", f"--output_base={again}", "shutdown"]
    monkeypatch.setattr(release, "call", lambda command, folder: 1)
    with pytest.raises(environment.SetupError, match=r"all cannot be built for Python 3\.11"):
        release.make(ROOT, tmp_path, [], again)


def test_all_files_of_a_release_are_there():
    names = [
        f"{name}-1.0-py3-none-any.whl"
        for name in ("jax", *(f"jax_{k}_plugin" for k in ("cuda", "rocm", "tpu")))
    ]
    for tag in ("cp311-cp311", "cp312-abi3"):
        names += [f"jaxlib_ext-1.0-{tag}-manylinux_2_27_{m}.whl" for m in ("aarch64", "x86_64")]
    names.append("jax-1.0.tar.gz")
    files = [Path(name) for name in names]
    assert release.check_complete(files) == ("complete", "9 files", None, "9 are there")
    for path in files:
        problem = release.check_complete([other for other in files if other != path])[2]
        (pattern,) = re.fullmatch(r"there is no (\S+)", problem).groups()
        assert path.match(pattern)
    assert release.check_complete([])[2].count("no ") == 9


def test_wheels_of_each_python():
    names = ["jax-1.0-py3-none-any.whl", "jaxlib_ext-1.0-cp311-cp311-manylinux_2_27_x86_64.whl"]
    names += [f"jaxlib_ext-1.0-cp312-abi3-manylinux_2_27_{m}.whl" for m in ("aarch64", "x86_64")]
    files = [Path(name) for name in [*names, "jax-1.0.tar.gz"]]
    assert release.wheel_of("jax", "3.14", files) == files[0]
    assert release.wheel_of("jaxlib-ext", "3.11", files) == files[1]
    assert release.wheel_of("jaxlib-ext", "3.14", files) == files[3]
    assert release.wheel_of("jax-tpu-plugin", "3.11", files) is None


def test_what_does_not_install_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreters, "pinned_uv", lambda: Path("uv"))
    monkeypatch.setattr(interpreters, "find", {"3.12": "/python"}.get)

    def install(uv, interpreter, python, folder, wheels):
        if "jax_tpu_plugin-1.0-py3-none-any.whl" in map(str, wheels):
            raise environment.SetupError("no room")

    monkeypatch.setattr(release, "install", install)
    monkeypatch.setattr(interpreters, "run", lambda command: "")
    monkeypatch.setattr(release, "api", lambda folder: (None, "7 of 7 names"))
    files = [Path(f"{name}-1.0-py3-none-any.whl") for name in ("jax", "jax_tpu_plugin")]
    rows = {row[1]: row for row in release.check_installs(files, "1.0", tmp_path, None)}
    assert rows["jax with Python 3.12"][2:] == (None, "7 of 7 names")
    assert rows["jax-tpu-plugin with Python 3.12"][2] == "no room"
    assert rows["jaxlib-ext with Python 3.12"][2] == "there is no wheel for it"
    with pytest.raises(environment.UsageError, match=r"no python3\.11 here"):
        list(release.check_installs(files, "1.0", tmp_path, ["3.11"]))


def test_another_version_is_not_built(monkeypatch, capsys):
    monkeypatch.setattr(release, "make", lambda *args, **kwargs: pytest.fail("it builds"))
    assert release.release(["--version=9.9.9"]) == 1
    assert re.search(r"^versions +13 places +failed", capsys.readouterr().out, re.M)
    for python in ("3.10", "3.99"):
        with pytest.raises(environment.UsageError, match=f"no python{python} here"):
            release.release([f"--version={VERSION}", f"--python={python}"])


def test_one_table(tmp_path, monkeypatch, capsys):
    (tmp_path / "jax-9.9.9-py3-none-any.whl").touch()
    rows = [("metadata", "a.whl", None, "twine"), ("metadata", "b.whl", "no summary", "")]
    monkeypatch.setattr(release, "check_files", lambda folder, version: rows)
    skipped = [f"--skip={name}" for name in ("changelog", "tag", "reproducible", "installs")]
    status = release.release(["--version=9.9.9", f"--wheels={tmp_path}", *skipped])
    output = capsys.readouterr()
    assert status == 1
    lines = output.out.splitlines()
    assert re.search(r"^versions +13 places +failed +MODULE.bazel has ", output.out, re.M)
    assert re.fullmatch(
        r"complete +9 files +failed +there is no jax_cuda_plugin-\S+, .*", lines[-3]
    ), lines[-3]
    assert re.fullmatch(r"metadata +a\.whl +ok +twine", lines[-2])
    assert re.fullmatch(r" +b\.whl +failed  no summary", lines[-1])
    assert "9.9.9: 3 checks failed; nothing was uploaded" in output.err
    with pytest.raises(environment.SetupError, match=r"has nothing of version 9\.9\.8"):
        release.release(["--version=9.9.8", f"--wheels={tmp_path}", *skipped])
