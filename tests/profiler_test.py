"""Traces, marks in them, the server, profiles of memory, and the link to the Perfetto viewer."""

import contextlib
import functools
import gzip
import io
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import types
import unittest.mock
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
from absl.testing import absltest

import jax
import jax.experimental.profiler
import jax.numpy as jnp
from jax._src import profiler as _profiler, test_util as jtu
from jax._src.profiler import collecting, perfetto
from jax.sharding import PartitionSpec as P


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class TraceTest(absltest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def files(self, pattern):
        return sorted(self.folder.glob(f"plugins/profile/*/{pattern}"))

    def data(self):
        (file,) = self.files("*.xplane.pb")
        return jax.profiler.ProfileData.from_file(str(file))

    def events(self, *names):
        lines = [line for plane in self.data().planes for line in plane.lines]
        return {e.name: dict(e.stats) for line in lines for e in line.events if e.name in names}

    def test_marks(self):
        f = jax.jit(lambda x: (x @ x).sum())

        @jax.profiler.annotate_function
        def compute(x):
            """Computes."""
            return f(x).block_until_ready()

        @functools.partial(jax.profiler.annotate_function, name="renamed", size=4)
        def other(x):
            return x

        x = jnp.ones((50, 50))
        with jax.profiler.trace(self.folder):
            with jax.profiler.TraceAnnotation("mark", size=3):
                pass
            with jax.profiler.StepTraceAnnotation("train", step_num=5):
                self.assertEqual(compute(x), 125000)
            self.assertEqual(other(2), 2)
        self.assertEqual((compute.__name__, compute.__doc__), ("compute", "Computes."))
        name = "TraceTest.test_marks.<locals>.compute"
        found = self.events("mark", "train", name, "renamed")
        self.assertEqual(found["mark"], {"size": 3})
        self.assertEqual(found["train"]["step_num"], 5)
        self.assertEqual(found["renamed"], {"size": 4})
        self.assertIn(name, found)
        self.assertLen(self.files("*.trace.json.gz"), 1)
        metadata = dict(self.data().find_plane_with_name("/host:metadata").stats)
        self.assertEqual(metadata["jax_version"], jax.__version__)

    def test_python_functions_only_if_asked_for(self):
        def some_function():
            return None

        for level in (0, 1):
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = level
            with jax.profiler.trace(self.folder, profiler_options=options):
                some_function()
            (file,) = self.files("*.xplane.pb")
            self.assertEqual(b"some_function" in file.read_bytes(), bool(level))
            shutil.rmtree(self.folder / "plugins")

    def test_several_devices(self):
        mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
        x = jax.device_put(np.ones((8, 4), np.float32), jax.NamedSharding(mesh, P("i")))
        with jax.profiler.trace(self.folder):
            jax.jit(lambda x: x.sum())(x).block_until_ready()
        self.assertLen(self.files("*.xplane.pb"), 1)

    def test_one_trace_at_a_time(self):
        with self.assertRaisesRegex(RuntimeError, "No profile started"):
            jax.profiler.stop_trace()
        jax.profiler.start_trace(str(self.folder))
        with self.assertRaisesRegex(RuntimeError, "Only one profile may be run at a time"):
            jax.profiler.start_trace(self.folder)
        jax.profiler.stop_trace()
        self.assertLen(self.files("*.xplane.pb"), 1)

    def test_metadata(self):
        def recorded(*names, clear=False):
            with tempfile.TemporaryDirectory() as folder:
                with jax.profiler.trace(folder):
                    if clear:
                        _profiler.clear_metadata()
                    for name in names:
                        _profiler.set_metadata(name, "value")
                (file,) = Path(folder).glob("plugins/profile/*/*.xplane.pb")
                data = jax.profiler.ProfileData.from_file(str(file))
                stats = data.find_plane_with_name("/host:metadata").stats
                return {name for name, _ in stats} - {"process_id"}

        versions = {"jax_version", "jaxlib_version", "cpu_version"}
        _profiler.set_metadata("before", "value")
        self.assertEqual(recorded("mine"), versions | {"mine"})
        self.assertEqual(recorded("mine", clear=True), {"mine"})
        self.assertEqual(recorded(), versions)

    def test_name_of_session(self):
        options = jax.profiler.ProfileOptions()
        options.session_id = "mine"
        for _ in range(2):  # the second one replaces the first
            with jax.profiler.trace(
                self.folder, create_perfetto_trace=True, profiler_options=options
            ):
                pass
        (folder,) = (self.folder / "plugins" / "profile").iterdir()
        self.assertEqual(folder.name, "mine")
        self.assertLen(list(folder.iterdir()), 3)

    def test_wrong_options_start_nothing(self):
        with self.assertRaisesRegex(TypeError, "must be a jax.profiler.ProfileOptions, got 3"):
            jax.profiler.start_trace(self.folder, profiler_options=3)
        with self.assertRaises(TypeError):
            jax.profiler.start_trace(3)
        options = jax.profiler.ProfileOptions()
        for name in ("a/b", ".."):
            options.session_id = name
            with self.assertRaisesRegex(ValueError, "session_id must be the name of a folder"):
                jax.profiler.start_trace(self.folder, profiler_options=options)
        with jax.profiler.trace(self.folder):
            pass

    def test_trace_is_written_after_an_error(self):
        with self.assertRaisesRegex(ValueError, "mine"), jax.profiler.trace(self.folder):
            raise ValueError("mine")
        self.assertLen(self.files("*.xplane.pb"), 1)

    def test_perfetto_trace(self):
        with jax.profiler.trace(self.folder, create_perfetto_trace=True):
            with jax.profiler.TraceAnnotation("mark"):
                pass
        (file,) = self.files("perfetto_trace.json.gz")
        trace = json.loads(gzip.decompress(file.read_bytes()))
        self.assertEqual(set(trace), {"displayTimeUnit", "traceEvents"})
        self.assertIn("mark", [event.get("name") for event in trace["traceEvents"]])
        (whole,) = self.files("*.trace.json.gz")  # as a trace that another process has collected
        whole.unlink()
        perfetto.write_perfetto_trace(str(self.folder))
        trace = json.loads(gzip.decompress(file.read_bytes()))
        (mark,) = [event for event in trace["traceEvents"] if event["name"] == "mark"]
        self.assertEqual(mark["ph"], "X")
        with self.assertRaisesRegex(FileNotFoundError, "There is no trace in the folder"):
            perfetto.write_perfetto_trace(str(self.folder / "empty"))

    def test_perfetto_link(self):
        with unittest.mock.patch.object(perfetto, "PORT", free_port()):
            printed = io.StringIO()
            loaded = []

            def trace():
                with contextlib.redirect_stdout(printed):
                    with jax.profiler.trace(self.folder, create_perfetto_link=True):
                        pass
                loaded.append(True)

            thread = threading.Thread(target=trace)
            thread.start()
            while "perfetto_trace.json.gz" not in printed.getvalue():
                thread.join(0.01)
            link = printed.getvalue().split()[-1]
            self.assertStartsWith(link, "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:")
            url = link.partition("url=")[2]
            for other in ("/", "/etc/passwd", "/../" + __file__):
                with self.assertRaises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(url.rpartition("/")[0] + other)
                self.assertEqual(caught.exception.code, 404)
                caught.exception.close()
            self.assertEmpty(loaded)
            with urllib.request.urlopen(url) as answer:
                self.assertEqual(
                    answer.headers["Access-Control-Allow-Origin"], "https://ui.perfetto.dev"
                )
                json.loads(gzip.decompress(answer.read()))
            thread.join()
        self.assertEqual(loaded, [True])

    def test_profile_for_the_compiler(self):
        _profiler.start_trace(self.folder)
        jax.jit(lambda x: x + 1)(1.0).block_until_ready()
        self.assertIsInstance(_profiler.stop_and_get_fdo_profile(), bytes)
        with jax.profiler.trace(self.folder):
            jax.jit(lambda x: x + 2)(1.0).block_until_ready()
        (file,) = self.files("*.xplane.pb")
        profile = jax.experimental.profiler.get_profiled_instructions_proto(str(file.parent))
        self.assertIsInstance(profile, bytes)


class ServerTest(absltest.TestCase):
    def test_server(self):
        with self.assertRaisesRegex(ValueError, "No active profiler server"):
            jax.profiler.stop_server()
        jax.profiler.start_server(free_port())
        try:
            with self.assertRaisesRegex(ValueError, "Only one profiler server can be active"):
                jax.profiler.start_server(free_port())
        finally:
            jax.profiler.stop_server()
        jax.profiler.start_server(free_port(), requires_backend=False)
        jax.profiler.stop_server()

    def test_subprocess(self):
        port = free_port()
        program = f"import jax; jax.profiler.start_server({port}, requires_backend=False); print(); input()"
        command = [sys.executable, "-c", program]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            other.stdout.readline()  # its server is there
            for _ in range(2):  # what has ended can begin anew
                end = jax.profiler.register_subprocess(other.pid, port)
                with self.assertRaisesRegex(RuntimeError, f"{other.pid}.*already registered"):
                    jax.profiler.register_subprocess(other.pid, port)
                end()
            other.communicate(b"\n")
        self.assertEqual(other.returncode, 0)


class CollectingTest(absltest.TestCase):
    def run_command(self, *arguments):
        calls = []
        client = types.SimpleNamespace(trace=lambda *args: calls.append(args))
        with unittest.mock.patch.object(collecting, "_client", lambda: client):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                collecting.main(arguments)
        return calls, printed.getvalue()

    def test_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            calls, printed = self.run_command(
                "9999", "500", "--log_dir", folder, "--no_perfetto_link", "--host=other",
                "--python_tracer_level=0", "--tpu_trace_mode=full",
            )  # fmt: skip
            options = {"host_tracer_level": 2, "device_tracer_level": 1,
                       "python_tracer_level": 0, "tpu_trace_mode": "full"}  # fmt: skip
            self.assertEqual(calls, [("other:9999", folder, "", True, 500, 3, options)])
            self.assertEqual(printed, f"Dumped profiling information in: {folder}\n")

    def test_wrong_option(self):
        with contextlib.redirect_stderr(io.StringIO()) as printed, self.assertRaises(SystemExit):
            collecting.main(["9999", "500", "--level"])
        self.assertIn(
            "--level: options of the tracer have the form --NAME=VALUE", printed.getvalue()
        )

    def test_help(self):
        run = subprocess.run(
            [sys.executable, "-m", "jax.collect_profile", "--help"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        self.assertIn("usage: python -m jax.collect_profile", run.stdout)


class MemoryProfileTest(absltest.TestCase):
    def test_lines_that_allocated(self):
        f = jax.jit(lambda x: x + 1)
        # Programs are in profiles, too, by the line that has compiled them.
        f(np.ones(1000, np.float32))

        def allocate_here():
            return f(np.ones(1000, np.float32))

        x = allocate_here()
        profile = gzip.decompress(jax.profiler.device_memory_profile())
        self.assertIn(b"allocate_here", profile)
        del x
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "memory.prof")
            jax.profiler.save_device_memory_profile(file, backend="cpu")
            self.assertNotIn(b"allocate_here", gzip.decompress(file.read_bytes()))
        with self.assertRaisesRegex(RuntimeError, "abacus"):
            jax.profiler.device_memory_profile("abacus")


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
