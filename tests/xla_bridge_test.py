"""Backends: which start, devices, plugins; compile options and the log of compilations."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
from unittest import mock

import numpy as np
from absl.testing import absltest, parameterized

from jax._src import compiler, config, hardware_utils, lib, monitoring, xla_bridge as xb
from jax._src.lib import DeviceList, _jax
from jax._src.lib.mlir import ir, jax_mlir_ext
from jax._src.lib.mlir.dialects import stablehlo
from jax._src.xla_bridge import clients, plugins, registry

PRINTED = {"PYTHONWARNINGS": "default"}  # of programs whose warnings are asserted


def run(program, *, path=(), **env):
    """Runs a program in a process of its own; returns what it printed, errors included."""
    preamble = """
    from jax._src import config, xla_bridge as xb
    def show(f):
        try:
            out = f"{f()}"
        except Exception as e:
            out = f"{type(e).__name__} {e}"
        print(out + "\\n", end="")  # at once: threads show things too
    """
    names = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS")
    environ = {k: v for k, v in os.environ.items() if k not in names} | env
    environ["PYTHONPATH"] = os.pathsep.join([*path, environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(preamble) + textwrap.dedent(program)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout + result.stderr


class DevicesTest(parameterized.TestCase):
    def test_devices(self):
        found = xb.devices("cpu")
        self.assertLen(found, xb.device_count("cpu"))
        self.assertEqual(found, xb.local_devices(backend="cpu"))
        self.assertEqual(found, xb.local_devices(0, "cpu"))
        xb.local_devices(backend="cpu").clear()  # the caller's own list
        self.assertEqual(found, xb.local_devices(backend="cpu"))
        self.assertEqual(xb.local_device_count("cpu"), len(found))
        self.assertIs(xb.get_device_backend(found[0]), xb.get_backend("cpu"))
        self.assertIs(xb.get_backend(xb.get_backend("cpu")), xb.get_backend("cpu"))
        self.assertIs(xb.local_backend("cpu"), xb.get_backend("cpu"))
        self.assertIn("cpu", xb.backends())
        self.assertEqual(xb.default_backend(), xb.devices()[0].platform)

    def test_processes(self):
        self.assertEqual(xb.process_index(), 0)
        self.assertEqual(xb.process_count(), 1)
        self.assertEqual(xb.process_indices(), [0])
        with self.assertRaisesRegex(ValueError, "Unknown process_index 1"):
            xb.local_devices(1)

    def test_former_names(self):
        for old, value in ((xb.host_id, 0), (xb.host_count, 1), (xb.host_ids, [0])):
            with self.assertWarnsRegex(UserWarning, "has been renamed to jax.process_"):
                self.assertEqual(old(), value)
        with self.assertWarnsRegex(UserWarning, "renamed to process_index"):
            xb.local_devices(host_id=0)

    def test_unknown_platform(self):
        for ask in (xb.devices, xb.get_backend, xb.device_count, xb.process_count):
            with self.assertRaisesRegex(RuntimeError, r"Unknown backend abacus. Available.*'cpu'"):
                ask("abacus")

    def test_names(self):
        self.assertEqual(xb.expand_platform_alias("gpu"), ["cuda", "rocm", "oneapi"])
        self.assertEqual(xb.expand_platform_alias("cpu"), ["cpu"])
        self.assertContainsSubset({"cpu", "gpu", "cuda", "rocm", "tpu"}, xb.known_platforms())
        self.assertTrue(xb.is_known_platform("gpu"))
        self.assertFalse(xb.is_known_platform("abacus"))
        self.assertEqual(xb.canonicalize_platform("cpu"), "cpu")
        if not {"cuda", "rocm", "oneapi"} & set(xb.backends()):
            with self.assertRaisesRegex(RuntimeError, "'gpu' requested, but no platforms.*cpu"):
                xb.canonicalize_platform("gpu")

    def test_versions(self):
        self.assertIsNone(xb.backend_xla_version("cpu"))
        self.assertIsNone(xb.backend_stablehlo_version("cpu"))
        self.assertIsNone(xb.backend_pjrt_c_api_version("cpu"))
        self.assertFalse(xb.using_pjrt_c_api("cpu"))

    def test_topologies(self):
        for name in ("abacus", "cpu"):
            with self.assertRaisesRegex(
                NotImplementedError, f"topology not implemented for {name}"
            ):
                xb.make_pjrt_topology(name)

    def test_hooks(self):
        seen = []
        xb.backends()
        xb.register_backend_initialization_hook(seen.append)
        try:
            self.assertIn(xb.get_backend("cpu"), seen)
        finally:
            xb.unregister_backend_initialization_hook(seen.append)

    def test_options_that_come_too_late(self):
        xb.backends()
        with self.assertRaisesRegex(RuntimeError, "before backends are initialized"):
            config.update("jax_num_cpu_devices", config.num_cpu_devices.value + 17)
        config.update("jax_num_cpu_devices", config.num_cpu_devices.value)


class StartTest(parameterized.TestCase):
    def test_default(self):
        out = run("show(lambda: xb.devices('cpu'))")
        self.assertEqual(out.strip(), "[CpuDevice(id=0)]")

    @parameterized.parameters(
        (dict(JAX_NUM_CPU_DEVICES="3"), 3),
        (dict(XLA_FLAGS="--xla_force_host_platform_device_count=2"), 2),
        (dict(XLA_FLAGS="--xla_force_host_platform_device_count=2", JAX_NUM_CPU_DEVICES="3"), 3),
    )
    def test_number_of_cpu_devices(self, env, expected):
        self.assertEqual(run("show(lambda: xb.device_count('cpu'))", **env).strip(), str(expected))

    def test_bad_number_of_cpu_devices(self):
        out = run("show(xb.devices)", JAX_NUM_CPU_DEVICES="0")
        self.assertIn("RuntimeError Unable to initialize backend 'cpu'", out)
        self.assertIn("jax_num_cpu_devices must be a positive number", out)

    def test_a_failed_start_can_be_repeated(self):
        out = run(
            """
            show(xb.devices)
            config.update("jax_num_cpu_devices", 2)
            show(xb.device_count)
            """,
            JAX_NUM_CPU_DEVICES="0",
        )
        self.assertEqual(out.splitlines()[-1], "2")

    @parameterized.parameters(
        ("abacus", "Unable to initialize backend 'abacus'.*list of known backends: .*'cpu'"),
        ("abacus,cpu", "Unable to initialize backend 'abacus'"),
        ("cpu,abacus", "Unable to initialize backend 'abacus'"),
        (" , ", "names no platform"),
    )
    def test_unknown_platforms(self, platforms, message):
        out = run("show(xb.devices)\nshow(lambda: xb.devices('cpu'))", JAX_PLATFORMS=platforms)
        self.assertLen(out.splitlines(), 2)
        for line in out.splitlines():
            self.assertRegex(line, f"RuntimeError.*{message}.*set JAX_PLATFORMS=''")

    def test_order_of_platforms(self):
        program = """
        import unittest.mock
        made = []
        class Client:
            def __init__(self, platform): self.platform = platform
            def device_count(self): return 1
        def factory(name):
            def make():
                made.append(name)
                if name == "broken": raise ValueError("no such hardware")
                return None if name == "absent" else Client(name)
            return make
        for name, priority in (("slow", 10), ("fast", 1000), ("broken", 2000), ("absent", 3000)):
            xb.register_backend_factory(name, factory(name), priority=priority)
        show(lambda: xb.default_backend())
        show(lambda: sorted(xb.backends()))
        show(lambda: xb.get_backend("broken"))
        print(made)
        show(lambda: xb.register_backend_factory("slow", None))
        """
        lines = run(program).splitlines()
        self.assertEqual(lines[0], "fast")
        self.assertEqual(lines[1], "['cpu', 'fast', 'slow']")
        self.assertRegex(
            lines[2], "RuntimeError Backend 'broken' failed to initialize: no such hardw"
        )
        self.assertEqual(lines[3], "['absent', 'broken', 'fast', 'slow']")
        self.assertRegex(lines[4], "RuntimeError Backend slow already initialized")
        lines = run(program, JAX_PLATFORMS="slow,cpu").splitlines()
        self.assertEqual(lines[:2], ["slow", "['cpu', 'slow']"])
        lines = run(program, JAX_PLATFORMS="cpu,broken").splitlines()
        self.assertRegex(lines[0], "RuntimeError Unable to initialize backend 'broken': no such")

    def test_vendors_that_are_not_there(self):
        out = run("show(xb.default_backend)", JAX_PLATFORMS="oneapi,cpu")
        self.assertEqual(out.splitlines()[-1], "cpu")

    def test_threads(self):
        out = run(
            """
            import threading
            made = []
            factory = xb._backend_factories["cpu"].factory
            def make():
                made.append(1)
                return factory()
            xb._backend_factories["cpu"].factory = make
            seen = []
            threads = [threading.Thread(target=lambda: seen.append(xb.get_backend("cpu"))) for _ in range(8)]
            for t in threads: t.start()
            for t in threads: t.join()
            print(len(made), len(seen), len(set(map(id, seen))))
            """
        )
        self.assertEqual(out.strip(), "1 8 1")

    def test_backends_that_ask_for_backends(self):
        out = run(
            """
            import warnings; warnings.simplefilter("always")
            xb.register_backend_factory("toy", lambda: xb.devices("cpu")[0].client, priority=9,
                                        fail_quietly=False)
            show(xb.devices)
            """
        )
        self.assertRegex(
            out, "RuntimeWarning: Unable to initialize backend 'toy': The backends are asked"
        )
        self.assertEqual(out.splitlines()[0], "[CpuDevice(id=0)]")

    def test_threads_that_ask_for_topologies(self):
        out = run(
            """
            import threading
            barrier = threading.Barrier(2)
            def topology():
                barrier.wait()
                show(lambda: xb.make_pjrt_topology("abacus"))
            other = threading.Thread(target=topology)
            from jax._src.xla_bridge import plugins
            def discover():
                barrier.wait()
                other.join(0.2)  # in which it would take a lock of its own
            plugins.discover_pjrt_plugins = discover
            other.start()
            show(xb.devices)
            other.join()
            """
        )
        self.assertCountEqual(
            out.splitlines(),
            [
                "[CpuDevice(id=0)]",
                "NotImplementedError topology not implemented for abacus: absent hardware can be"
                " described for the platforms ['tpu']",
            ],
        )

    @parameterized.parameters(
        ("toy,cpu", "RuntimeError Unable to initialize backend 'toy': No toy."),
        ("cuda,cpu", "cpu"),
        ("cuda", "RuntimeError Unable to initialize backend 'cuda': No toy."),
        ("gpu", "RuntimeError Unable to initialize backend 'cuda': No toy."),
        ("", "cpu"),
    )
    def test_platforms_that_are_not_available(self, platforms, expected):
        out = run(
            """
            from jax._src.xla_bridge import plugins
            def absent(for_devices): raise xb.PlatformUnavailable("No toy.")
            def discover():
                for name in ("toy", "cuda"):
                    xb.register_deferred_plugin(name, absent)
            plugins.discover_pjrt_plugins = discover
            show(xb.default_backend)
            """,
            JAX_PLATFORMS=platforms,
            **PRINTED,
        )
        self.assertStartsWith(out, expected)
        if expected == "cpu":
            self.assertEqual(out.count("JAX goes on without the platform 'cuda'. No toy."), 1)

    def test_fork(self):
        if not hasattr(os, "fork"):
            self.skipTest("no fork here")
        program = """
        import os, sys, warnings
        warnings.simplefilter("always")
        {}
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        """
        self.assertNotIn("RuntimeWarning", run(program.format("")))
        self.assertRegex(
            run(program.format("xb.devices()")), "RuntimeWarning: os.fork.. was called"
        )


class PluginsTest(parameterized.TestCase):
    def plugin(self, text):
        """A folder with a module of the namespace package `jax_plugins`."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        module = pathlib.Path(folder.name, "jax_plugins", "test_plugin.py")
        module.parent.mkdir()
        module.write_text(textwrap.dedent(text))
        return folder.name

    def test_discovery(self):
        path = self.plugin(
            """
            def initialize():
                from jax._src import xla_bridge as xb
                print("found")
                factory = xb._backend_factories["cpu"].factory
                xb.register_backend_factory("toy", factory, priority=500)
            """
        )
        out = run("show(lambda: sorted(xb.backends()))\nxb.backends()", path=[path])
        self.assertEqual(out.splitlines(), ["found", "['cpu', 'toy']"])

    @parameterized.parameters(
        "raise ValueError('broken')",
        "def initialize(): raise ValueError('broken')",
        "import sys; sys.exit(3)",
        "class Stop(BaseException): pass\ndef initialize(): raise Stop",
        "def initialize():\n  from jax._src import xla_bridge as xb\n"
        "  xb.register_plugin('toy', library_path='/no/such/library.so')",
    )
    def test_broken(self, text):
        out = run("show(lambda: xb.devices())", path=[self.plugin(text)], **PRINTED)
        self.assertRegex(out, "RuntimeWarning: The JAX plugin jax_plugins.test_plugin could not be")
        self.assertIn("CpuDevice", out)

    def test_client_fails(self):
        path = self.plugin(
            """
            def initialize():
                from jax._src import xla_bridge as xb
                def make(): raise ValueError("no driver")
                xb.register_backend_factory("toy", make, priority=500, fail_quietly=False)
            """
        )
        out = run("show(lambda: xb.devices())", path=[path], **PRINTED)
        self.assertRegex(out, "RuntimeWarning: Unable to initialize backend 'toy': no driver")
        self.assertIn("CpuDevice", out)
        out = run("show(lambda: xb.devices())", path=[path], JAX_PLATFORMS="toy")
        self.assertRegex(out, "RuntimeError Unable to initialize backend 'toy': no driver")

    def test_client_exits(self):
        path = self.plugin(
            """
            import sys
            from jax._src import xla_bridge as xb
            def initialize():
                xb.register_backend_factory("toy", lambda: sys.exit(3), priority=500, fail_quietly=False)
            """
        )
        out = run("show(lambda: xb.devices())", path=[path], **PRINTED)
        self.assertIn("backend 'toy': the plugin of 'toy' called sys.exit(3)", out)
        self.assertIn("CpuDevice", out)

    def test_initialize_asks_for_devices(self):
        path = self.plugin("import jax\ndef initialize(): jax.devices()")
        out = run("show(lambda: xb.devices())", path=[path], **PRINTED)
        self.assertRegex(
            out, "could not be initialized and is left out: .*asked for while they start"
        )
        self.assertEqual(out.splitlines()[0], "[CpuDevice(id=0)]")

    def test_a_module_of_a_vendor_gives_way(self):
        modules = {
            "jax_plugins.xla_cuda13": "x",
            "jax_plugins.xla_rocm7": "y",
            "jax_plugins.cuda": "z",
        }
        kept = [name for name in modules if plugins._replacement(name) not in modules]
        self.assertEqual(kept, ["jax_plugins.xla_rocm7", "jax_plugins.cuda"])

    def test_native_functions_of_plugins(self):
        toy = xb.BackendRegistration(None, 0, c_api=object())
        with (
            mock.patch.object(lib.xla_client, "register_custom_call_target") as target,
            mock.patch.object(lib.xla_client, "register_custom_type") as types,
            mock.patch.object(_jax, "register_custom_call_as_batch_partitionable") as batched,
            mock.patch.dict(registry._backend_factories, {"toy": toy}),
            mock.patch.object(plugins, "_plugin_callbacks", []),
        ):
            xb.backends()
            xb.register_custom_call_target("f", "capsule", "CUDA", traits=1)
            xb.register_custom_type("t", {}, "ROCM")
            xb.register_batch_partitionable("f")
        target.assert_called_once_with("f", "capsule", platform="CUDA", api_version=1, traits=1)
        types.assert_called_once_with("t", {}, platform="ROCM")
        self.assertEqual(batched.mock_calls, [mock.call("f"), mock.call("f", c_api=toy.c_api)])

    def test_register_plugin_arguments(self):
        for kwargs in ({}, dict(library_path="a", c_api=object())):
            with self.assertRaisesRegex(ValueError, "either library_path or c_api"):
                xb.register_plugin("toy", **kwargs)

    def test_from_the_environment(self):
        names = plugins._get_pjrt_plugin_names_and_library_paths
        sep = ";" if sys.platform == "win32" else ":"
        self.assertEqual(names(f"a{sep}p,b{sep}q"), {"a": "p", "b": "q"})
        with self.assertRaisesRegex(ValueError, "must be like"):
            names("a,b")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "plugin.json")
            file.write_text(json.dumps({"library_path": "p", "create_options": {"o": 1}}))
            self.assertEqual(plugins._get_pjrt_plugin_config(str(file)), ("p", {"o": 1}))
            file.write_text("{}")
            with self.assertRaisesRegex(ValueError, "no field library_path"):
                plugins._get_pjrt_plugin_config(str(file))
        with mock.patch.dict(os.environ, {"PJRT_NAMES_AND_LIBRARY_PATHS": f"toy{sep}/lib.so"}):
            with mock.patch.object(plugins, "register_plugin") as register:
                plugins.register_pjrt_plugin_factories_from_env()
        register.assert_called_once_with("toy", library_path="/lib.so", options=None)

    def test_callbacks(self):
        xb.backends()
        capsule, seen = object(), []
        toy = xb.BackendRegistration(None, 0, c_api=capsule)
        with mock.patch.dict(registry._backend_factories, {"toy": toy}):
            xb.register_plugin_callbacks(lambda c_api: seen.append(c_api))
        plugins._plugin_callbacks.pop()
        self.assertEqual(seen, [capsule])

    def test_options(self):
        self.assertEqual(clients._options_from_jax_configs("toy"), {})
        self.assertEqual(clients._options_from_jax_configs("cuda"), {"enable_mock_nccl": False})
        with mock.patch.object(config.cuda_visible_devices, "value", "0,2"):
            self.assertEqual(clients._options_from_jax_configs("cuda")["visible_devices"], [0, 2])
        with mock.patch.object(config.mock_gpu_topology, "value", "2x3x4"):
            options = clients._options_from_jax_configs("cuda")
        self.assertEqual(options["num_nodes"], 6)
        self.assertTrue(options["enable_mock_nccl"])
        with self.assertRaisesRegex(ValueError, "slices x hosts"):
            xb.get_num_nodes_from_gpu_topology("2x3")

    @parameterized.parameters(
        ("a:1;b:x;c:true;d:0.5", {"a": 1, "b": "x", "c": True, "d": 0.5}),
        ({"a": 1}, {"a": 1}),
        (None, {}),
    )
    def test_user_options(self, value, expected):
        with mock.patch.object(
            clients.config, "pjrt_client_create_options", mock.Mock(value=value)
        ):
            self.assertEqual(clients._user_options(), expected)


class HardwareTest(absltest.TestCase):
    def test_probes(self):
        count, version = hardware_utils.num_available_tpu_chips_and_device_id()
        self.assertEqual(count == 0, version is None)
        self.assertGreaterEqual(hardware_utils.num_available_amd_gpus(), 0)
        self.assertEqual(hardware_utils.num_available_amd_gpus(stop_at=0), 0)
        self.assertIsInstance(hardware_utils.transparent_hugepages_enabled(), bool)
        self.assertGreaterEqual(hardware_utils.get_shm_size_in_mb(), 0)
        with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="-1"):
            self.assertFalse(hardware_utils.has_visible_nvidia_gpu())
        self.assertLess(hardware_utils.TpuVersion.v3, hardware_utils.TpuVersion.v4)


MODULE = """
module @jit_double {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


class CompilerTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        self.module = self.parse()
        self.backend = xb.get_backend("cpu")
        self.devices = self.backend.local_devices()[:1]

    def parse(self):
        context = ir.Context()
        dialects = ir.DialectRegistry()
        jax_mlir_ext.register_dialects(dialects)
        context.append_dialect_registry(dialects)
        context.load_all_available_dialects()
        stablehlo.register_dialect(context)
        with context, ir.Location.unknown():
            return ir.Module.parse(MODULE)

    def compile(self, module=None, **options):
        return compiler.compile_or_get_cached(
            self.backend,
            self.module if module is None else module,
            np.array(self.devices),
            compiler.get_compile_options(1, 1, self.devices, **options),
            [],
            DeviceList(tuple(self.devices)),
        )

    def test_compile(self):
        self.assertLen(self.compile().hlo_modules(), 1)
        self.compile(env_options_overrides={"xla_backend_optimization_level": "0"})

    def test_unknown_option(self):
        with self.assertRaisesRegex(_jax.JaxRuntimeError, "No such compile option: 'no_such'"):
            self.compile(env_options_overrides={"no_such": 1})

    def test_error_handlers(self):
        compiler.register_xla_runtime_error_handler(
            lambda e: KeyError("better") if "no_such" in str(e) else None
        )
        try:
            with self.assertRaisesRegex(KeyError, "better") as cm:
                self.compile(env_options_overrides={"no_such": 1})
            self.assertIsInstance(cm.exception.__cause__, _jax.JaxRuntimeError)
        finally:
            compiler._XLA_RUNTIME_ERROR_HANDLERS.pop()

    def test_options(self):
        options = compiler.get_compile_options(
            1, 2, [[0, 1]], {"a": True, "b": np.int32(3)}, fdo_profile=b"p", detailed_logging=False
        )
        self.assertEqual((options.num_replicas, options.num_partitions), (1, 2))
        self.assertEqual(options.device_assignment.computation_count(), 2)
        self.assertEqual(options.env_option_overrides, [("a", True), ("b", 3)])
        build = options.executable_build_options
        self.assertTrue(build.use_spmd_partitioning)
        self.assertEqual(build.use_shardy_partitioner, config.use_shardy_partitioner.value)
        self.assertEqual(build.fdo_profile, b"p")
        self.assertEqual(build.memory_fitting_level, 29)
        self.assertFalse(build.debug_options.xla_detailed_logging)
        with config.optimization_level("O1"):
            build = compiler.get_compile_options(1, 1).executable_build_options
            self.assertEqual(build.optimization_level, 19)
        with mock.patch.object(config.disable_most_optimizations, "value", True):
            debug = compiler.get_compile_options(1, 1).executable_build_options.debug_options
            self.assertEqual(debug.xla_backend_optimization_level, 0)

    def test_bad_options(self):
        with self.assertRaisesRegex(ValueError, r"device_assignment has shape \(1, 1\)"):
            compiler.get_compile_options(1, 2, [[0]])
        with self.assertRaisesRegex(TypeError, "compiler option 'a' must be a str"):
            compiler.get_compile_options(1, 1, env_options_overrides={"a": [1]})

    def test_log_and_events(self):
        events = []
        listener = lambda event, duration, **kw: events.append((event, kw))
        monitoring.register_event_duration_secs_listener(listener)
        try:
            with config.log_compiles(True):
                with self.assertLogs("jax._src.dispatch", level="WARNING") as logs:
                    self.compile()
            with self.assertNoLogs("jax._src.dispatch", level="WARNING"):
                self.compile()
        finally:
            monitoring.unregister_event_duration_listener(listener)
        self.assertRegex(logs.output[0], r"Finished XLA compilation of jit_double in [0-9.]+ sec")
        self.assertEqual(events, [(compiler.BACKEND_COMPILE_EVENT, {"fun_name": "jit_double"})] * 2)

    def test_elapsed_time_of_what_fails(self):
        with config.log_compiles(True):
            with self.assertNoLogs("jax._src.dispatch", level="WARNING"):
                with self.assertRaises(ZeroDivisionError):
                    with compiler.log_elapsed_time("{fun_name} {elapsed_time}", "f", "/event"):
                        1 / 0  # noqa: B018

    def test_detailed_logging(self):
        self.assertEqual(compiler.count_operations(self.module.operation, 100), 3)
        self.assertEqual(compiler.count_operations(self.module.operation, 2), 2)
        with mock.patch.object(config.compiler_detailed_logging_min_ops, "value", 3):
            self.assertTrue(compiler.use_detailed_logging(self.module))
        with mock.patch.object(config.compiler_detailed_logging_min_ops, "value", 4):
            self.assertFalse(compiler.use_detailed_logging(self.module))

    def test_compile_in_threads(self):
        # a module belongs to one thread at a time, as the lowering makes one for each program
        out = []
        modules = [self.parse() for _ in range(4)]
        threads = [
            threading.Thread(target=lambda m=m: out.append(self.compile(m))) for m in modules
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertLen(out, 4)


if __name__ == "__main__":
    absltest.main()
