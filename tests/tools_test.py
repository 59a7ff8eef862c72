"""Programs of jax.tools."""

import subprocess
import sys

import numpy as np
import pytest

import jax.numpy as jnp
from jax.tools import jax_to_ir, pgo_nsys_converter

PROGRAM = """
import jax.numpy as jnp

def fn(x, y, z):
    return jnp.dot(x, y) / z
"""


def test_jax_to_hlo():
    shapes = [(name, jax_to_ir.parse_shape_str("f32[2]")) for name in ("b", "a")]
    program, text = jax_to_ir.jax_to_hlo(lambda a, b, c: c * a - b, shapes, constants={"c": 2.5})
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
        jax_to_ir.jax_to_hlo(lambda x: x, shapes, constants={"x": 1})
    with pytest.raises(TypeError, match="'y'"):
        jax_to_ir.jax_to_hlo(lambda x, y: x, shapes)
    for convert in (jax_to_ir.jax_to_ir, jax_to_ir.jax_to_hlo):
        with pytest.raises(ValueError, match="jax2tf"):
            convert(lambda x: x, shapes, format="TF")


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


# Profiles of Nsight Systems

KERNELS = """\
NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Kernel Name
":XlaModule:#hlo_module=jit_f,program_id=3#",PushPop,1,1,1,2,3000,1500.0,1500.0,k
"TSL:Thunk:#hlo_op=all-reduce-start.1#",PushPop,1,1,2,2,5000,2500.0,2500.0,ncclKernel
"TSL:Thunk:#name=x,hlo_op=fusion.12#",PushPop,1,1,2,2,9000,4500.0,2000.0,fusion_12
"TSL:Thunk:#name=x,hlo_op=fusion.12#",PushPop,1,1,2,2,4000,2000.0,2000.0,fusion_12_1
"TSL:Thunk:#hlo_op=dot.3,hlo_module=jit_f#",PushPop,1,1,2,2,7000,3600.0,3500.0,gemm
"""
NSYS = """#!/bin/sh
if [ "$2" = --help-reports ]; then echo "  nvtx_kern_sum[:base] -- NVTX GPU Kernel Summary"; exit; fi
[ -s "$8" ] || exit 3
touch "${8%.nsys-rep}.sqlite"
cp "$8" "${10}_$7.csv"
"""


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """Returns the path of a profile with these kernels, which a program in nsys's place reads."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "nsys").write_text(NSYS)
    (programs / "nsys").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    def write(kernels):
        path = tmp_path / "p.nsys-rep"
        path.write_text(kernels)
        return path

    return write


def test_latencies_of_nsys(profile, tmp_path, capsys):
    path, output = profile(KERNELS), tmp_path / "latencies.pbtxt"
    for options in ([], ["--post_process"]):
        pgo_nsys_converter.main(
            ["--profile_path", str(path), "--pgle_output_path", str(output), *options]
        )
        assert output.read_text().splitlines() == [
            'costs { name: "all-reduce-start.1" cost_us: 2.5 }',
            'costs { name: "fusion.12" cost_us: 4.5 }',
            'costs { name: "dot.3" cost_us: 3.6 }',
        ]
    assert "latencies of 3 operations" in capsys.readouterr().out
    assert not path.with_suffix(".sqlite").exists()
    path.with_suffix(".sqlite").touch()
    pgo_nsys_converter.convert(str(path), str(output))
    assert path.with_suffix(".sqlite").exists()  # it was there before


def test_profiles_that_cannot_be_converted(profile, tmp_path, monkeypatch):
    path, output = profile(KERNELS.splitlines(keepends=True)[0]), str(tmp_path / "out")
    with pytest.raises(ValueError, match="no kernels of XLA's operations"):
        pgo_nsys_converter.convert(str(path), output)
    with pytest.raises(subprocess.CalledProcessError):
        pgo_nsys_converter.convert(str(profile("")), output)
    with pytest.raises(FileNotFoundError, match="no profile"):
        pgo_nsys_converter.convert("absent", output)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="install NVIDIA Nsight Systems"):
        pgo_nsys_converter.main(["--profile_path", str(path), "--pgle_output_path", output])
    assert not (tmp_path / "out").exists()
