"""The example that the README starts with."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).absolute().parent.parent / "examples" / "digits_classifier.py"

sys.path.insert(0, str(PROGRAM.parent))
import digits_classifier  # noqa: E402 (it is found through the line above)


def call(*arguments, folder):
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "cnn"], "invalid choice: 'cnn'"),
        (["--epochs", "0"], "--epochs: must be a whole number, 1 or more; got '0'"),
        (["--epochs", "many"], "--epochs: must be a whole number, 1 or more; got 'many'"),
        (["--batch-size", "1438"], "--batch-size: must be a whole number, between 1 and 1437"),
        (["--seed", "-1"], "--seed: must be a whole number, between 0 and 4294967295; got '-1'"),
        (["--fast"], "unrecognized arguments: --fast"),
        (["--out", "file/below"], "--out: cannot write to 'file/below': Not a directory"),
    ],
)
def test_bad_arguments(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["digits_classifier.py", *arguments])
    with pytest.raises(SystemExit) as exit:
        digits_classifier.main()
    assert exit.value.code == 2
    assert message in capsys.readouterr().err


def test_error_comes_before_any_work(tmp_path):
    result = call("--out", "/dev/null/folder", folder=tmp_path)
    assert result.returncode == 2
    assert "cannot write to '/dev/null/folder'" in result.stderr
    assert "Traceback" not in result.stderr
    assert "epoch/s" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(("model", "epochs", "least"), [("mlp", 8, 0.95), ("conv", 4, 0.9)])
def test_short_run(tmp_path, model, epochs, least):
    result = call("--model", model, "--epochs", epochs, "--out", "new/folder", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    accuracy = re.fullmatch(r"test accuracy: (0\.\d{4}|1\.0000)", result.stdout.splitlines()[-1])
    assert float(accuracy[1]) >= least
    for name in ("learning_curve", "confusion_matrix"):
        picture = (tmp_path / "new" / "folder" / f"{model}_{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 5000


def test_seed_decides_everything(tmp_path):
    runs = [call("--epochs", 1, "--seed", seed, folder=tmp_path) for seed in (3, 3)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert runs[0].stdout == runs[1].stdout
