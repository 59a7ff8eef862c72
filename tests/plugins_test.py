"""The plugins for CUDA, ROCm and TPUs, with pretended drivers, devices, libraries and packages."""

import ctypes
import importlib
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
import types

import pytest

import jax
from jax._src import config, hardware_utils, lib, xla_bridge as xb
from jax._src.lib import triton
from jax._src.xla_bridge import clients, libraries, plugins, registry, vendors
from jax._src.xla_bridge.libraries import Library, PlatformUnavailable, WheelLibrary
from jax_plugins import cuda, rocm, tpu

ROOT = pathlib.Path(cuda.__file__).absolute().parents[2]
SERIES = ".".join(map(str, lib.version[:2]))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of packages, on sys.path."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("JAX_CUDA_LIBRARY_PATH", "JAX_ROCM_LIBRARY_PATH", "TPU_LIBRARY_PATH", "ROCM_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def install(site, distribution, version, files):
    """Pretends that a wheel is installed."""
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )
    for path, content in files.items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(content))
    importlib.invalidate_caches()


def compile_library(folder, name, source, *needs):
    """A shared library `folder/name` that defines functions of C."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise RuntimeError("the tests of plugins need a C++ compiler: set CXX, or install g++")
    folder.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(folder / name)]
    command += [f"-Wl,-soname,{name}", "-x", "none", *map(str, needs)]
    subprocess.run(command, input=f'extern "C" {{ {source} }}'.encode(), check=True)


# Libraries


WHEEL = WheelLibrary("jax-toy9-pjrt", "jax_plugins_of_tests.xla_toy9", "xla_toy.so")


def test_find_libraries(site, monkeypatch):
    file = site / "local.so"
    assert libraries.find_libraries("TOY_PATH", [WHEEL]) == []
    assert libraries.find_libraries("TOY_PATH", [WHEEL], str(file)) == []
    file.write_text("")
    assert libraries.find_libraries("TOY_PATH", [WHEEL], str(file)) == [Library(str(file))]

    # the vendor's module stays untouched
    broken = {"jax_plugins_of_tests/xla_toy9/__init__.py": "raise ValueError"}
    path = "jax_plugins_of_tests/xla_toy9/xla_toy.so"
    install(site, "jax-toy9-pjrt", "1.2.3", broken | {path: ""})
    found = libraries.find_libraries("TOY_PATH", [WHEEL], str(file))
    assert found == [Library(str(site / path), "jax-toy9-pjrt", "1.2.3"), Library(str(file))]

    monkeypatch.setenv("TOY_PATH", str(file))
    assert libraries.find_libraries("TOY_PATH", [WHEEL]) == [Library(str(file))]
    monkeypatch.setenv("TOY_PATH", "/no/such.so")
    with pytest.raises(PlatformUnavailable, match="TOY_PATH names the library /no/such.so"):
        libraries.find_libraries("TOY_PATH", [WHEEL])


def test_versions():
    libraries.check_fits_jaxlib(Library("p", "toy", f"{SERIES}.77.post1"))
    libraries.check_fits_jaxlib(Library("p"))
    with pytest.raises(PlatformUnavailable, match=rf'toy 0.1.5 does not fit.*"toy=={SERIES}.\*"'):
        libraries.check_fits_jaxlib(Library("p", "toy", "0.1.5"))
    assert libraries.version_numbers("0.10.2.dev3+x") == (0, 10, 2)


def test_preload(site):
    folder = site / "vendor" / "first" / "lib"
    compile_library(folder, "libjax_test_one.so.1", "int jax_test_one(void) { return 41; }")
    second = site / "vendor" / "second" / "lib"
    compile_library(
        second,
        "libjax_test_two.so.2",
        "int jax_test_one(void); int jax_test_two(void) { return jax_test_one() + 1; }",
        folder / "libjax_test_one.so.1",
    )
    folders = libraries.package_folders("vendor", "*/lib")
    assert folders == [str(folder), str(second)]
    assert libraries.package_folders("no_such_vendor", "*/lib") == []
    names = ["libjax_test_one.so.1", "libjax_test_two.so.2", "libjax_test_no.so.3"]
    problems = libraries.preload(names, folders)
    assert list(problems) == ["libjax_test_no.so.3"]
    assert libraries.missing_library(problems["libjax_test_no.so.3"]) == "libjax_test_no.so.3"
    # by name alone, without a path, as plugins open them
    assert ctypes.CDLL("libjax_test_two.so.2").jax_test_two() == 42


# CUDA


class Driver:
    """NVIDIA's driver."""

    def __init__(self, version=13000, init=0, capabilities=((9, 0),)):
        self.version, self.init, self.capabilities = version, init, capabilities

    def cuDriverGetVersion(self, version):
        version._obj.value = self.version
        return 0

    def cuInit(self, flags):
        return self.init

    def cuDeviceGetCount(self, count):
        count._obj.value = len(self.capabilities)
        return 0

    def cuDeviceGet(self, device, index):
        device._obj.value = index
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):
        value._obj.value = self.capabilities[device.value][attribute - 75]
        return 0

    def cuGetErrorName(self, error, name):
        name._obj.value = b"CUDA_ERROR_UNKNOWN"
        return 0


@pytest.fixture
def cuda_machine(monkeypatch):
    """Makes a machine with a driver and the libraries of CUDA."""

    def make(driver=None, missing=()):
        def load():
            if isinstance(driver, Exception):
                raise driver
            return driver or Driver()

        monkeypatch.setattr(cuda, "load_driver", load)
        preload = lambda names, folders: {n: "cannot open" for n in names if n in missing}
        monkeypatch.setattr(vendors, "preload", preload)

    return make


CUDA_13 = Library("/lib.so", "jax-cuda13-pjrt", lib.version_str)
CUDA_12 = Library("/lib.so", "jax-cuda12-pjrt", lib.version_str)


@pytest.mark.parametrize(
    "driver, missing, message",
    [
        (
            OSError("libcuda.so.1: not there"),
            (),
            "No driver for NVIDIA GPUs is found .libcuda.so.1",
        ),
        (
            Driver(version=12040),
            (),
            "driver is for CUDA 12.4, but the plugin needs CUDA 13: .* 580",
        ),
        (Driver(init=100), (), "No NVIDIA GPU is found"),
        (Driver(capabilities=()), (), "No NVIDIA GPU is found .*CUDA_VISIBLE_DEVICES='7'"),
        (Driver(init=999), (), "driver does not start .CUDA_ERROR_UNKNOWN.*nvidia-smi"),
        (Driver(capabilities=((7, 0),)), (), "compute capability 7.0, but CUDA 13 needs 7.5"),
        (None, ("libcudnn.so.9",), r"libcudnn.so.9 cannot be loaded.*jax-cuda-plugin\[with-cuda\]"),
    ],
)
def test_what_is_wrong_with_cuda(cuda_machine, monkeypatch, driver, missing, message):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    cuda_machine(driver, missing)
    with pytest.raises(PlatformUnavailable, match=message) as caught:
        cuda.prepare(CUDA_13)
    assert not caught.value.expected
    assert "\n" not in str(caught.value)


def test_cuda_machines_that_work(cuda_machine):
    cuda_machine(missing=("libnccl.so.2", "libnvshmem_host.so.3"))
    cuda.prepare(CUDA_13)
    cuda_machine(Driver(12040, capabilities=((7, 0), (6, 1))))
    cuda.prepare(CUDA_12)


def test_visible_devices_of_vendors_plugins(monkeypatch):
    monkeypatch.setattr(config, "oneapi_visible_devices", types.SimpleNamespace(value="0,2"))
    assert clients._options_from_jax_configs("oneapi")["visible_devices"] == [0, 2]
    monkeypatch.setattr(config, "oneapi_visible_devices", types.SimpleNamespace(value="0;2"))
    with pytest.raises(PlatformUnavailable, match="jax_oneapi_visible_devices must be 'all' or"):
        clients._options_from_jax_configs("oneapi")


@pytest.mark.parametrize(
    "value, message",
    [("0,3", "names device 3, but 1 NVIDIA GPUs"), ("first", "must be 'all' or numbers.*'first'")],
)
def test_visible_devices_of_the_option(cuda_machine, monkeypatch, value, message):
    monkeypatch.setattr(config, "cuda_visible_devices", types.SimpleNamespace(value=value))
    cuda_machine()
    with pytest.raises(PlatformUnavailable, match=f"jax_cuda_visible_devices {message}"):
        cuda.prepare(CUDA_13)


def test_versions_of_cuda_libraries(cuda_machine, monkeypatch):
    cuda_machine()
    versions = types.SimpleNamespace()
    for name in cuda._LIBRARIES:
        setattr(versions, f"{name}_build_version", lambda: 90)
        setattr(versions, f"{name}_get_version", lambda: 90)
    monkeypatch.setattr(vendors, "import_kernels", lambda package, module: versions)
    cuda.prepare(CUDA_13)
    versions.cudnn_get_version = lambda: 80
    with pytest.raises(PlatformUnavailable, match=r"too old: cuDNN 80 \(at least 90 is needed\)"):
        cuda.prepare(CUDA_13)


# Registration


@pytest.fixture
def factories(monkeypatch):
    """An empty registry of platforms."""
    registered, topologies, callbacks = {}, {}, []
    monkeypatch.setattr(registry, "_backend_factories", registered)
    monkeypatch.setattr(registry, "_topology_factories", topologies)
    monkeypatch.setattr(registry, "_backends", {})
    monkeypatch.setattr(plugins, "_plugin_callbacks", callbacks)
    return registered


KERNELS = """
def ffi_types(): return {"toy_type": {"type_id": 1}}
def ffi_handlers(): return {"toy_call": 2}
def register_custom_call_target(c_api, *args): ...
def register_custom_type(c_api, *args): ...
def compile_triton_to_asm(c_api, *args): return (c_api, *args)
"""


@pytest.fixture
def client_calls(monkeypatch):
    """What is registered with jaxlib's Python."""
    calls = []
    for name in (
        "register_custom_type_handler",
        "register_custom_call_handler",
        "register_custom_type",
        "register_custom_call_target",
    ):
        record = lambda *args, name=name, **kwargs: calls.append((name, args[0], kwargs))
        monkeypatch.setattr(lib.xla_client, name, record)
    monkeypatch.setattr(triton, "_compilation_handlers", {})
    return calls


def test_a_platform_loads_its_plugin_when_it_starts(
    site, factories, client_calls, cuda_machine, monkeypatch
):
    cuda_machine()
    version = lib.version_str
    install(site, "jax-cuda13-pjrt", version, {"jax_plugins/xla_cuda13/xla_cuda_plugin.so": ""})
    sys.modules.pop("jax_cuda13_plugin", None)
    files = {"cuda_plugin_extension.py": KERNELS, "version.py": f"__version__ = {version!r}"}
    files = {f"jax_cuda13_plugin/{name}": text for name, text in files.items()}
    install(site, "jax-cuda13-plugin", version, files | {"jax_cuda13_plugin/__init__.py": ""})
    path = str(site / "jax_plugins" / "xla_cuda13" / "xla_cuda_plugin.so")

    loaded, made, seen = [], [], []
    monkeypatch.setattr(vendors, "load_plugin", lambda *args: loaded.append(args) or "c_api")
    make = lambda name, options: made.append((name, options())) or "client"
    monkeypatch.setattr(plugins, "make_pjrt_c_api_client", make)
    xb.register_plugin_callbacks(lambda c_api: seen.append(c_api))

    cuda.initialize()
    registration = factories["cuda"]
    assert (registration.priority, registration.c_api, loaded) == (500, None, [])
    try:
        assert registration.factory() == "client"
        assert registration.factory() == "client"
    finally:
        for name in [n for n in sys.modules if n.startswith("jax_cuda13_plugin")]:
            del sys.modules[name]
    assert loaded == [("cuda", path)]
    assert seen == ["c_api"]
    assert registration.c_api == "c_api"
    assert [name for name, _ in made] == ["cuda", "cuda"]
    assert made[0][1]["platform_name"] == "cuda"
    assert client_calls == [
        ("register_custom_type_handler", "CUDA", {}),
        ("register_custom_call_handler", "CUDA", {}),
        ("register_custom_type", "toy_type", {"platform": "CUDA"}),
        ("register_custom_call_target", "toy_call", {"platform": "CUDA", "api_version": 1}),
    ]
    result = triton.compile("CUDA", b"m", "sm_90", num_warps=4, num_ctas=1, num_stages=2)
    assert result == ("c_api", b"m", "sm_90", 4, 1, 2)


def test_descriptions_of_absent_gpus(site, factories, cuda_machine, monkeypatch):
    cuda_machine(OSError("no driver"))
    monkeypatch.setattr(WheelLibrary, "find", lambda self: Library("/l.so", self.package))
    monkeypatch.setattr(vendors, "load_plugin", lambda *args: "c_api")
    monkeypatch.setattr(vendors, "_register_kernels", lambda *args: None)
    monkeypatch.setattr(plugins, "_make_topology", lambda *args, **kwargs: (args, kwargs))
    cuda.initialize()
    topology = registry._topology_factories["cuda"]("1x2", target_config="t")
    assert topology == (("c_api", "1x2"), {"target_config": "t"})
    with pytest.raises(PlatformUnavailable, match="no driver"):
        factories["cuda"].factory()


def test_kernels_that_are_absent(site, factories, client_calls, cuda_machine, monkeypatch):
    cuda_machine()
    monkeypatch.setattr(WheelLibrary, "find", lambda self: Library("/l.so", self.package, None))
    monkeypatch.setattr(vendors, "import_kernels", lambda package, module: None)
    monkeypatch.setattr(vendors, "load_plugin", lambda *args: "c_api")
    monkeypatch.setattr(plugins, "make_pjrt_c_api_client", lambda name, options: "client")
    cuda.initialize()
    with pytest.warns(RuntimeWarning, match='jax_cuda13_plugin.*pip install "jax-cuda13-plugin=='):
        assert factories["cuda"].factory() == "client"
    assert client_calls == []


def test_a_library_for_an_older_cuda(site, factories, client_calls, cuda_machine, monkeypatch):
    cuda_machine(Driver(12040))
    loaded = []
    monkeypatch.setattr(
        WheelLibrary, "find", lambda self: Library(f"/{self.package}", self.package)
    )
    monkeypatch.setattr(vendors, "load_plugin", lambda *args: loaded.append(args))
    monkeypatch.setattr(vendors, "_register_kernels", lambda *args: None)
    monkeypatch.setattr(plugins, "make_pjrt_c_api_client", lambda name, options: "client")
    cuda.initialize()
    assert factories["cuda"].factory() == "client"
    assert loaded == [("cuda", "/jax-cuda12-pjrt")]
    cuda_machine(Driver(11080))
    factories.clear()
    cuda.initialize()
    with pytest.raises(PlatformUnavailable, match="needs CUDA 13"):
        factories["cuda"].factory()


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("plugin, platform", [(cuda, "cuda"), (rocm, "rocm")])
def test_no_library(site, factories, monkeypatch, plugin, platform, is_there):
    monkeypatch.setattr(WheelLibrary, "find", lambda self: None)
    monkeypatch.setattr(hardware_utils, "has_visible_nvidia_gpu", lambda: is_there)
    monkeypatch.setattr(hardware_utils, "num_available_amd_gpus", lambda stop_at=None: is_there)
    plugin.initialize()
    with pytest.raises(PlatformUnavailable, match=f"pip install jax-{platform}.*-pjrt") as caught:
        factories[platform].factory()
    assert caught.value.expected == (not is_there)


def test_a_library_that_cannot_be_loaded(site, factories, cuda_machine, monkeypatch):
    file = site / "broken.so"
    file.write_text("no library")
    monkeypatch.setenv("JAX_CUDA_LIBRARY_PATH", str(file))
    cuda_machine()
    monkeypatch.setattr(lib.plugin_support, "maybe_import_plugin_submodule", lambda *args: None)
    cuda.initialize()
    with pytest.raises(PlatformUnavailable, match="broken.so cannot be loaded: .*broken.so"):
        factories["cuda"].factory()


def test_options_from_the_environment(monkeypatch):
    environment = {
        "XLA_CLIENT_MEM_FRACTION": "0.25",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_ALLOCATOR": "platform",
        "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB": "3",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    options = vendors.gpu_options("ROCM")
    assert options["platform_name"] == "ROCM"
    assert options["memory_fraction"] == 0.25
    assert options["preallocate"] is False
    assert options["allocator"] == "platform"
    assert options["collective_memory_size"] == 3 * 2**20
    for name, value in (
        ("XLA_CLIENT_MEM_FRACTION", "much"),
        ("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "-1"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "mine"),
    ):
        with monkeypatch.context() as wrong:
            wrong.setenv(name, value)
            with pytest.raises(ValueError, match=f"{name}.*{value}"):
                vendors.gpu_options("CUDA")


# ROCm


@pytest.fixture
def rocm_machine(site, monkeypatch):
    """Makes a machine with AMD GPUs."""

    def make(count=2, driver=True, access=True):
        file = site / "kfd"
        if driver:
            file.write_text("")
        monkeypatch.setattr(rocm, "_DRIVER", str(file))
        monkeypatch.setattr(os, "access", lambda path, mode: access)
        monkeypatch.setattr(hardware_utils, "num_available_amd_gpus", lambda stop_at=None: count)

    return make


@pytest.mark.parametrize(
    "machine, environment, message",
    [
        (dict(driver=False), {}, "No driver for AMD GPUs is found .*kfd does not exist"),
        (dict(access=False), {}, "may not be used .*groups render and video"),
        (dict(count=0), {}, "No AMD GPU is found[.]"),
        ({}, {"HIP_VISIBLE_DEVICES": "-1"}, "No AMD GPU is found .*HIP_VISIBLE_DEVICES='-1'"),
        ({}, {"ROCR_VISIBLE_DEVICES": ""}, "No AMD GPU is found .*ROCR_VISIBLE_DEVICES=''"),
        ({}, {"ROCR_VISIBLE_DEVICES": "2"}, "No AMD GPU is found .*ROCR_VISIBLE_DEVICES='2'"),
    ],
)
def test_what_is_wrong_with_rocm(rocm_machine, monkeypatch, machine, environment, message):
    for name in rocm._VISIBLE:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    rocm_machine(**machine)
    with pytest.raises(PlatformUnavailable, match=message):
        rocm.prepare(Library("/lib.so"))


@pytest.mark.parametrize(
    "rocr, hip, option, count",
    [
        ("0", None, "1", 1),
        ("GPU-1f3a", None, "0,1", 1),
        ("3,1,0", "2,1", "2", 2),
        ("0,9,1", None, "1", 1),
        (None, "1,1", "1", 1),
    ],
)
def test_devices_that_the_environment_hides(rocm_machine, monkeypatch, rocr, hip, option, count):
    for name, value in zip(rocm._VISIBLE, (rocr, hip, None), strict=True):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(config, "rocm_visible_devices", types.SimpleNamespace(value=option))
    rocm_machine(count=4)
    with pytest.raises(PlatformUnavailable, match=f"names device {count}, but {count} AMD GPUs"):
        rocm.prepare(Library("/lib.so"))


def test_versions_of_rocm(rocm_machine, site, monkeypatch):
    rocm_machine()
    monkeypatch.setattr(vendors, "preload", lambda names, folders: {})
    monkeypatch.setattr(rocm, "_installations", lambda: [str(site / "old"), str(site / "unknown")])
    (site / "old" / ".info").mkdir(parents=True)
    (site / "old" / ".info" / "version").write_text("6.4.1-83\n")
    with pytest.raises(
        PlatformUnavailable, match="needs ROCm 7, but finds 6.4.1-83 in .*old: inst"
    ):
        rocm.prepare(Library("/lib.so"))
    (site / "old" / ".info" / "version").unlink()
    rocm.prepare(Library("/lib.so"))  # nothing is known
    (site / "old" / ".info" / "version").write_text("6.4.1-83")
    install(site, "rocm-sdk-core", "7.1.0", {})
    rocm.prepare(Library("/lib.so"))


def test_folders_of_rocm(rocm_machine, site, monkeypatch):
    rocm_machine()
    names = ("_rocm_sdk_core/lib", "_rocm_sdk_libraries_gfx1100/lib", "somewhere/lib")
    folders = [site / name for name in names]
    for folder in folders:
        folder.mkdir(parents=True)
    importlib.invalidate_caches()
    monkeypatch.setenv("ROCM_PATH", str(site / "somewhere"))
    assert [pathlib.Path(f) for f in rocm.rocm_folders()][:3] == folders
    loaded = []
    monkeypatch.setattr(vendors, "preload", lambda names, folders: loaded.extend(folders))
    rocm.prepare(Library("/lib.so"))
    assert loaded == rocm.rocm_folders()


# TPUs


@pytest.fixture
def tpu_machine(site, monkeypatch):
    """Makes a machine with TPU chips, and with libtpu."""

    def make(chips=4, version="0.0.42", files=("/dev/accel0",), access=True):
        for name in (*libraries._TPU_VARIABLES, *tpu._VISIBLE):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(
            hardware_utils, "num_available_tpu_chips_and_device_id", lambda: (chips, None)
        )
        monkeypatch.setattr(libraries, "tpu_device_files", lambda: list(files))
        library = version and Library("/libtpu.so", "libtpu", version)
        monkeypatch.setattr(WheelLibrary, "find", lambda self: library)
        monkeypatch.setattr(os, "access", lambda path, mode: access)
        monkeypatch.setattr(tpu, "make_tpu_client", lambda path: f"client of {path}")

    return make


@pytest.mark.parametrize(
    "machine, environment, message",
    [
        (dict(chips=0, files=()), {}, "No TPU is found"),
        (dict(version="0.0.9"), {}, 'libtpu 0.0.9 is too old.*"libtpu>=0.0.42"'),
        (dict(access=False), {}, "/dev/accel0 cannot be opened"),
        ({}, {"TPU_VISIBLE_CHIPS": "a"}, "TPU_VISIBLE_CHIPS must be numbers of chips.*'a'"),
        (
            {},
            {"TPU_VISIBLE_CHIPS": "0,4"},
            "TPU_VISIBLE_CHIPS='0,4' names a chip that is not there",
        ),
    ],
)
def test_what_is_wrong_with_tpus(tpu_machine, monkeypatch, machine, environment, message):
    tpu_machine(**machine)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PlatformUnavailable, match=message) as caught:
        tpu.make_client()
    assert not caught.value.expected


def test_tpu_machines_that_work(tpu_machine, factories, monkeypatch):
    tpu_machine()
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "0,3")
    tpu.initialize()
    assert factories["tpu"].factory() == "client of /libtpu.so"
    tpu_machine(chips=0, files=())
    monkeypatch.setenv("JAX_FORCE_TPU_INIT", "1")
    assert tpu.make_client() == "client of /libtpu.so"
    monkeypatch.delenv("JAX_FORCE_TPU_INIT")
    monkeypatch.setattr(config, "jax_platforms", types.SimpleNamespace(value="tpu,cpu"))
    assert tpu.make_client() == "client of /libtpu.so"
    tpu_machine(version=None)
    assert tpu.make_client() == "client of None"


@pytest.mark.parametrize("chips", [0, 4])
def test_libtpu_of_the_system(tpu_machine, monkeypatch, chips):
    """The system's loader looks for it where the package is not installed."""
    tpu_machine(chips, version=None, files=())
    loaded = []

    def load(*args):
        loaded.append(args)
        raise lib._jax.JaxRuntimeError("libtpu.so: cannot open")

    monkeypatch.setattr(lib._jax, "load_pjrt_plugin", load)
    monkeypatch.setattr(tpu, "make_tpu_client", clients.make_tpu_client)
    message = "libtpu.so cannot be loaded .*pip install libtpu.*TPU_LIBRARY_PATH"
    with pytest.raises(PlatformUnavailable, match=message if chips else "No TPU is") as caught:
        tpu.make_client()
    assert caught.value.expected == (not chips)
    assert loaded == [("tpu", "libtpu.so", None)] * bool(chips)


def test_tpus_without_the_plugin(tpu_machine, monkeypatch):
    """libtpu takes minutes to find out that there is no TPU, so that it is not asked."""
    tpu_machine(chips=0, files=())
    monkeypatch.setattr(config, "jax_platforms", types.SimpleNamespace(value=""))
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "")
    with pytest.raises(PlatformUnavailable, match="No TPU is found") as caught:
        clients.make_tpu_client()
    assert caught.value.expected


# All together, in processes of their own


def run(program, site, **environment):
    names = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_CUDA_LIBRARY_PATH")
    environ = {k: v for k, v in os.environ.items() if k not in names} | environment
    environ["PYTHONPATH"] = os.pathsep.join([str(site), str(ROOT), environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout + result.stderr


def test_jax_goes_on_without_cuda(site):
    files = {
        "jax_plugins/xla_cuda13/__init__.py": "print('the module of the vendor is imported')",
        "jax_plugins/xla_cuda13/xla_cuda_plugin.so": "",
    }
    install(site, "jax-cuda13-pjrt", lib.version_str, files)
    info = next(site.glob("jax_cuda13_pjrt*"))
    (info / "entry_points.txt").write_text("[jax_plugins]\nxla_cuda13 = jax_plugins.xla_cuda13\n")
    program = """
    import jax, jax_plugins.cuda
    def load_driver(): raise OSError("no libcuda")
    jax_plugins.cuda.load_driver = load_driver
    for platform in (None, "cpu", "cuda"):
        try:
            print(jax.devices(platform)[0].platform)
        except RuntimeError as e:
            print(e)
    """
    sentence = r"No driver for NVIDIA GPUs is found \(no libcuda\)"
    for platforms in ("", "cuda,cpu"):
        out = run(program, site, JAX_PLATFORMS=platforms, PYTHONWARNINGS="default")
        assert out.count("JAX goes on without the platform 'cuda'") == 1
        assert out.splitlines()[:2] == ["cpu", "cpu"]
        assert re.search(f"Backend 'cuda' failed to initialize: {sentence}", out)
        assert "vendor is imported" not in out
    out = run(program, site, JAX_PLATFORMS="cuda")
    assert re.match(f"Unable to initialize backend 'cuda': {sentence}", out)
    out = run(program, site, JAX_PLATFORMS="cpu")
    assert out.splitlines()[:2] == ["cpu", "cpu"]
    assert "NVIDIA" not in out


def test_what_is_expected_to_be_absent_is_only_logged(caplog):
    reason = PlatformUnavailable("It is not there.", expected=True)
    with caplog.at_level(logging.INFO, "jax._src.xla_bridge"):
        registry._go_on_without("toy", reason)
    assert caplog.messages == ["The platform 'toy' is left out: It is not there."]


# Packages


@pytest.mark.parametrize("plugin, name", [(cuda, "cuda"), (rocm, "rocm"), (tpu, "tpu")])
def test_packages(plugin, name):
    folder = ROOT / "jax_plugins" / name
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == f"jax-{name}-plugin"
    assert project["version"] == jax.__version__
    assert project["entry-points"]["jax_plugins"] == {name: plugin.__name__}
    wheels = getattr(plugin, "_WHEELS", [libraries.LIBTPU])
    required = {re.split("[<>=;]", r)[0] for r in project["dependencies"]}
    assert {"jax", wheels[0].package} <= required


def test_extras_of_jax():
    """`pip install jax[cuda13]` brings the plugin of this release, and with it what the vendor publishes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    files = ["jaxlib", *(f"jax_plugins/{name}" for name in ("cuda", "rocm", "tpu"))]
    packages = {
        package["name"]: package.get("optional-dependencies", {})
        for file in files
        for package in [tomllib.loads((ROOT / file / "pyproject.toml").read_text())["project"]]
    }
    assert {"cpu", "cuda", "cuda13", "cuda13-local", "rocm", "rocm7-local", "tpu"} <= set(extras)
    for extra in sorted(set(extras) - {"cpu", "checkpoints", "export", "onnx"}):
        (requirement,) = extras[extra]
        name, options, version = re.fullmatch(
            r"([a-z-]+)(?:\[([a-z-]+)\])?==([0-9.]+)", requirement
        ).groups()
        assert version == jax.__version__, extra
        assert options is None or options in packages[name], extra


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
