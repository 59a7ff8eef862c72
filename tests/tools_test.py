"""Programs of jax.tools."""

import subprocess
import sys

import numpy as np
import pytest

import jax.numpy as jnp
from jax.tools import jax_to_ir

PROGRAM = """
import jax.numpy as jnp

def fn(x, y, z):
    return jnp.dot(x, y) / z
"""


def test_jax_to_hlo():
    shapes = [(name, jax_to_ir.parse_shape_str("f32[2]")) for name in ("b", "a")]
    program, text = jax_to_ir.jax_to_hlo(lambda a, b, c: c * a - b, shapes, {"c": 2.5})
    assert isinstance(program, bytes) and program
    assert "entry_computation_layout={(f32[2]{0}, f32[2]{0})->f32[2]{0}}" in text
    [first] = [line.split(" = ")[0].strip() for line in text.splitlines() if "parameter(0)" in line]
    [difference] = [line for line in text.splitlines() if "subtract(" in line]
    assert f", {first})" in difference  # `b` is the first parameter


@pytest.mark.parametrize(
    "text, shape, dtype",
    [
        ("f32[]", (), np.float32),
        ("pred[2]", (2,), np.bool_),
        ("bf16[ 1, 2 ]", (1, 2), jnp.bfloat16),
        ("s4[3]", (3,), jnp.int4),
        ("u64[0]", (0,), np.uint64),
        ("c128[2,3,4]", (2, 3, 4), np.complex128),
    ],
)
def test_types(text, shape, dtype):
    aval = jax_to_ir.parse_shape_str(text)
    assert (aval.shape, aval.dtype) == (shape, np.dtype(dtype))


@pytest.mark.parametrize(
    "text", ["", "f32", "()", "float32[3]", "f32[a]", "f32[1,2]{1,0}", "f32[-1]"]
)
def test_no_types(text):
    with pytest.raises(ValueError, match="is not the type of an array"):
        jax_to_ir.parse_shape_str(text)


def test_errors():
    shapes = [("x", jax_to_ir.parse_shape_str("f32[2]"))]
    with pytest.raises(ValueError, match="both `input_shapes` and `constants`: x"):
        jax_to_ir.jax_to_hlo(lambda x: x, shapes, {"x": 1})
    with pytest.raises(TypeError, match="'y'"):
        jax_to_ir.jax_to_hlo(lambda x, y: x, shapes)
    with pytest.raises(ValueError, match="jax2tf"):
        jax_to_ir.jax_to_ir(lambda x: x, shapes, format="TF")


def test_command_line(tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM)
    command = [
        *(sys.executable, "-m", "jax.tools.jax_to_ir", "--fn", "prog.fn"),
        *("--input_shapes", '[("y", "f32[16,32]"), ("x", "f32[8,16]")]'),
        *("--evaled_constants", '{"z": "3.25"}'),
        *("--ir_dest", "fn.pb", "--ir_human_dest", "fn.txt"),
    ]
    subprocess.run(command, check=True, cwd=tmp_path)
    text = (tmp_path / "fn.txt").read_text()
    assert "(f32[16,32]{1,0}, f32[8,16]{1,0})->f32[8,32]{1,0}" in text and "3.25" in text
    assert (tmp_path / "fn.pb").read_bytes()
