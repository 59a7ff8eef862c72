"""The example that serves models without Python: a C++ program and a second process print the same."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnxruntime_headers import headers

EXAMPLE = Path(__file__).absolute().parent.parent / "examples" / "serve"
PROMPTS = [
    "abc",
    "The quick brown fox jumps over the lazy dog, and then goes on and on, far away: ",
]


def call(*command, code=0, **options):
    result = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, **options
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout if code == 0 else result.stderr


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The models, hardly trained."""
    folder = tmp_path_factory.mktemp("served")
    call(sys.executable, EXAMPLE / "export_models.py", "--out", folder, "--epochs", 1, "--steps", 0)
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The C++ program."""
    build = tmp_path_factory.mktemp("build")
    capi = Path(onnxruntime.__file__).parent / "capi"
    (library,) = capi.glob("libonnxruntime.so.1.*")
    assert shutil.which("make") and shutil.which("g++")
    call(
        "make", f"BUILD={build}", f"INCLUDE={headers()}", f"LIBRARY={library}", "CXXFLAGS=-O0 -Wall -Werror",
        cwd=EXAMPLE,
    )  # fmt: skip
    return build / "serve"


def in_python(*arguments):
    """What another process of Python prints, which has jax and the artifact only."""
    return call(sys.executable, EXAMPLE / "serve.py", *arguments)


def test_second_process_gives_the_same_digits(served):
    expected = "".join(map(str, np.fromfile(served / "digits.i32", np.int32)))
    assert len(set(expected)) > 5
    assert in_python("digits", served / "digits.jax", served / "images.f32").strip() == expected


@pytest.mark.onnxruntime_headers
def test_digits_without_python(served, program):
    expected = "".join(map(str, np.fromfile(served / "digits.i32", np.int32)))
    images = served / "images.f32"
    output = call(program, "digits", served / "digits.onnx", images, env={})
    assert output.strip() == expected
    one = served / "image.f32"
    one.write_bytes(images.read_bytes()[: 64 * 4])
    assert call(program, "digits", served / "digits.onnx", one, env={}).strip() == expected[0]


@pytest.mark.onnxruntime_headers
@pytest.mark.parametrize("prompt", PROMPTS, ids=["short", "long"])
def test_text_without_python(served, program, prompt):
    output = call(program, "text", served / "transformer.onnx", prompt, 5, env={})
    assert output.startswith(prompt) and len(output) == len(prompt) + 6
    assert output == in_python("text", served / "transformer.jax", prompt, 5)


@pytest.mark.onnxruntime_headers
def test_errors_of_the_program(served, program):
    assert "serve digits MODEL.onnx" in call(program, code=2)
    assert "cannot read missing" in call(
        program, "digits", served / "digits.onnx", "missing", code=1
    )
    assert "missing.onnx" in call(program, "digits", "missing.onnx", "images", code=1)
