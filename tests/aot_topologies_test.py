"""Topologies of absent devices, and what their programs tell and refuse."""

import subprocess
import sys

import aot_programs
import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

pytestmark = pytest.mark.aot
X = np.ones((8, 128), np.float32)


@pytest.fixture(params=["v5e:2x2", "h100"])
def mesh(request):
    return aot_programs.mesh_of(request.param)


def compiled(mesh):
    return jax.jit(lambda x: x * 2).lower(aot_programs.struct(mesh, X.shape, "x")).compile()


@pytest.mark.aot("tpu")
def test_chips():
    topo = aot_programs.topology("v5e:2x2")
    assert repr(topo) == "TopologyDescription(4 x TPU v5 lite, tpu)"
    device = topo.devices[3]
    assert isinstance(device, topologies.Device)
    assert (device.platform, device.coords, device.process_index) == ("tpu", [1, 1, 0], 0)
    assert device not in jax.devices()
    pod = aot_programs.topology("v5p:16x16x16")
    assert len(pod.devices) == 4096 and len({d.process_index for d in pod.devices}) == 1024


@pytest.mark.aot("cuda")
def test_gpus():
    gpus = aot_programs.topology("h100").devices
    assert [d.process_index for d in gpus] == [0] * 8 + [1] * 8
    mesh = aot_programs.mesh_of("h100")
    assert mesh.is_multi_process and mesh.abstract_mesh.abstract_device.num_cores == 132


@pytest.mark.parametrize(
    ("name", "platform", "options", "error", "message"),
    [
        ("v9:2x2", "tpu", {}, RuntimeError, "Invalid TPU external name"),
        ("v5e:2x2", "tpu", dict(colour=3), RuntimeError, "Unexpected arguments: colour"),
        ("v5e:2x2", "tpu", dict(colour=object()), TypeError, "the option 'colour' must be"),
        ("h100", "cuda", dict(target_config="h100"), RuntimeError, "Failed to parse"),
        pytest.param(
            *("", "rocm", {}, (RuntimeError, NotImplementedError), "rocm|ROCM"),
            marks=pytest.mark.aot("tpu"),
        ),
    ],
)
def test_unknown_hardware(name, platform, options, error, message):
    with pytest.raises(error, match=message):
        topologies.get_topology_desc(name, platform, **options)


def test_tpus_need_no_platform():
    assert topologies.get_topology_desc("v5e:2x2").devices[0].platform == "tpu"


@pytest.mark.aot("cuda")
def test_gpus_go_by_two_names():
    gpu = dict(target_config=aot_programs.H100.read_text(), topology="1x1x1")
    assert topologies.get_topology_desc("h100", "gpu", **gpu).devices[0].platform == "gpu"


def test_programs_cannot_be_called(mesh):
    program = compiled(mesh)
    with pytest.raises(jax.errors.JaxRuntimeError, match="cannot run.* absent devices of kind"):
        program(X)
    with pytest.raises(TypeError, match=r"called with float32\[3\]"):
        program(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="input pytree"):
        program()
    sharding = NamedSharding(mesh, P("x"))
    for call in (jax.jit(jnp.sin, in_shardings=sharding), jax.jit(jnp.sin, out_shardings=sharding)):
        with pytest.raises(jax.errors.JaxRuntimeError, match="absent"):
            call(X)


def test_values_cannot_be_put_there(mesh):
    for target in (NamedSharding(mesh, P("x")), mesh.devices.flat[0]):
        with pytest.raises(jax.errors.JaxRuntimeError, match="are absent .*ShapeDtypeStruct"):
            jax.device_put(X, target)


def test_what_is_known_before_and_after_compiling(mesh):
    struct = aot_programs.struct(mesh, X.shape, "x")
    lowered = jax.jit(lambda x: x * 2).lower(struct)
    assert lowered.cost_analysis() is None
    program = lowered.compile()
    assert program.input_shardings == ((struct.sharding,), {})
    assert program.output_shardings == struct.sharding
    assert program.out_info.shape == X.shape
    assert program.memory_analysis().argument_size_in_bytes == 4 * X.size // mesh.shape["x"]
    assert isinstance(program.runtime_executable().serialize(), bytes)


@pytest.mark.aot("tpu")
def test_single_chip():
    chip = topologies.get_topology_desc("v5e:1x1", "tpu", chips_per_host_bounds=(1, 1, 1))
    sharding = SingleDeviceSharding(chip.devices[0])
    program = jax.jit(jnp.sin).lower(jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=sharding))
    assert program.compile().output_shardings == sharding


def test_options_of_the_compiler(mesh):
    lowered = jax.jit(lambda x: x @ x.T).lower(aot_programs.struct(mesh, X.shape, "x"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option"):
        lowered.compile({"xla_colour": 1})


@pytest.mark.aot("cuda")
def test_functions_of_packages_that_are_absent():
    device = aot_programs.topology("h100").devices[0]
    x = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=SingleDeviceSharding(device))
    lowered = jax.jit(jax.ffi.ffi_call("a_function_of_no_package", x)).lower(x)
    with pytest.raises(jax.errors.JaxRuntimeError, match="No FFI handler") as caught:
        lowered.compile()
    assert "jax-cuda13-plugin" in caught.value.__notes__[0]


def test_explicit_meshes(mesh):
    explicit = aot_programs.mesh_of(
        "h100" if mesh.devices.flat[0].platform == "gpu" else "v5e:2x2", explicit=True
    )
    with jax.set_mesh(explicit):
        x = jax.ShapeDtypeStruct((16, 256), jnp.float32, sharding=P("x", "y"))
        program = jax.jit(lambda x: jnp.tanh(x).sum(1)).lower(x).compile()
    assert program.output_shardings.spec == P("x")
    assert program.output_shardings.mesh == explicit


@pytest.mark.aot("tpu")
def test_processes_compile_at_the_same_time_and_start_no_platform():
    program = """
from jax._src import xla_bridge
from jax.experimental import topologies
topo = topologies.get_topology_desc("v5e:2x2", "tpu")
assert not xla_bridge.backends_are_initialized()
print("ready", flush=True)
input()
print(len(topo.devices))
"""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert [p.stdout.readline() for p in running] == ["ready\n"] * 2
    assert [p.communicate("\n", timeout=60)[0] for p in running] == ["4\n"] * 2
