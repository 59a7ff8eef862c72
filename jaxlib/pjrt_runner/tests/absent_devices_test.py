"""Compiles exported programs for TPUs and GPUs that are not there, with the vendors' plugins."""

import importlib.util
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import export
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

RUNNER = Path(os.environ["PJRT_RUNNER"]).absolute()
H100 = Path(os.environ["H100"]).absolute()
X = np.ones((8, 8), np.float32)


def library(package, name):
    return Path(importlib.util.find_spec(package).submodule_search_locations[0]) / name


PLUGINS = {
    "tpu": (library("libtpu", "libtpu.so"), ["--topology=v5e:2x2"]),
    "cuda": (
        library("jax_plugins.xla_cuda13", "xla_cuda_plugin.so"),
        ["--topology=h100", f"--option=target_config=@{H100}", "--option=topology=1x1x4"],
    ),
}


@pytest.fixture(params=PLUGINS)
def platform(request):
    return request.param


def run(platform, *arguments):
    plugin, _ = PLUGINS[platform]
    command = [str(a) for a in (RUNNER, f"--plugin={plugin}", *arguments)]
    variables = os.environ | {"TPU_SKIP_MDS_QUERY": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=variables)


def compile_for(platform, tmp_path, exported, *arguments):
    (tmp_path / "module").write_bytes(exported.serialize())
    topology = PLUGINS[platform][1]
    return run(platform, f"--module={tmp_path / 'module'}", *topology, *arguments)


def test_version(platform):
    done = run(platform, "--version")
    assert done.returncode == 0 and "stablehlo_current_version: [1," in done.stdout, done.stderr


def test_topology(platform):
    done = run(platform, "--list-devices", *PLUGINS[platform][1])
    assert done.returncode == 0, done.stderr
    assert f"platform {platform}, 4 devices" in done.stdout


def test_compiling(platform, tmp_path):
    exported = export.export(jax.jit(lambda x: jnp.tanh(x @ x)), platforms=(platform,))(X)
    saved = tmp_path / "executable"
    done = compile_for(platform, tmp_path, exported, f"--save-executable={saved}")
    assert done.returncode == 0, done.stderr
    assert "for 1 devices" in done.stdout and saved.stat().st_size > 1000


def test_several_devices_and_platforms(platform, tmp_path):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    rows, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    fun = jax.jit(lambda x: x @ x, in_shardings=rows, out_shardings=whole)
    exported = export.export(fun, platforms=("cuda", "tpu"))(X)
    done = compile_for(platform, tmp_path, exported)
    assert done.returncode == 0, done.stderr
    assert "for 4 devices" in done.stdout


def test_errors(platform, tmp_path):
    exported = export.export(jax.jit(lambda x: x), platforms=("rocm",))(X)
    done = compile_for(platform, tmp_path, exported)
    assert done.returncode == 3 and "is for the platforms rocm" in done.stderr
    done = run(platform, "--list-devices")
    assert done.returncode == 1 and "PJRT_Client_Create failed with" in done.stderr
    done = run(platform, "--list-devices", "--topology=nothing")
    assert done.returncode == 1 and "PJRT_TopologyDescription_Create failed with" in done.stderr
