"""`build/build.py affected`: the tests that a change can affect."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent

sys.path.insert(0, str(ROOT / "build"))
import affected  # noqa: E402 (it is found through the line above)
import environment  # noqa: E402


def test_changed_files(tmp_path, monkeypatch):
    monkeypatch.setattr(affected, "ROOT", tmp_path)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for name in ("changed.py", "removed.py", "same.py"):
        (tmp_path / name).write_text("1")
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert affected.changed_files("HEAD") == []
    (tmp_path / "changed.py").write_text("2")
    (tmp_path / "removed.py").unlink()
    (tmp_path / "new name.py").write_text("1")
    assert affected.changed_files("HEAD") == ["changed.py", "new name.py", "removed.py"]
    with pytest.raises(environment.UsageError, match="affected: git says: .*no_such_revision"):
        affected.changed_files("no_such_revision")


def test_tags_have_configurations():
    settings = (ROOT / ".bazelrc").read_text()
    for names in affected.CONFIGURATIONS.values():
        for name in names:
            assert f"\ntest:{name} " in settings
    with pytest.raises(environment.UsageError, match="invalid choice: 'gpus'"):
        affected.affected(["--tag=gpus"])


@pytest.mark.parametrize(
    ("files", "targets"),
    [
        (
            ["tests/jit_test.py", "README.md"],
            'rdeps(//..., "//:README.md" + "//tests:jit_test.py")',
        ),
        (["jax/_src/lax/no_more.py"], 'rdeps(//..., "//jax/_src/lax:all")'),
        (["tests/BUILD.bazel"], 'rdeps(//..., "//tests:all")'),
        (["tests/jit_test.py", "MODULE.bazel"], "//..."),
        (["build/requirements/lock-3.11.txt"], "//..."),
        (["build/bazel/defs.bzl"], "//..."),
    ],
)
def test_targets_of_files(files, targets):
    tests = f"attr(tags, '[\\[ ]cpu[,\\]]', kind('_test rule$', {targets}))"
    manual = "attr(tags, '[\\[ ]manual[,\\]]', $tests)"
    assert affected.tests_of(files, "cpu") == f"let tests = {tests} in $tests except {manual}"
