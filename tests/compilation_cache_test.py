"""The persistent compilation cache: keys, entries, limits, damage, and several processes."""

import collections
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings
import zlib
from pathlib import Path

import numpy as np
from absl.testing import absltest, parameterized

import jax
import jax.numpy as jnp
from jax._src import cache_key, compilation_cache, compiler, config, test_util as jtu, user_cache
from jax._src.lru_cache import LRUCache
from jax.experimental.compilation_cache import compilation_cache as public
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import PartitionSpec as P

PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax._src import compilation_cache

jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
total = 0.0
for n in map(int, sys.argv[1:]):
    f = jax.jit(lambda x: jnp.sum(jnp.sin(x) + n))
    total += float(f(np.arange(4, dtype=np.float32)))
counts = compilation_cache.counts
print(total, counts.hits, counts.misses, counts.written)
"""


class Folder(absltest.TestCase):
    """Gives each test an empty folder for the cache, without a minimum of time."""

    def setUp(self):
        super().setUp()
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name, value in (
            ("jax_compilation_cache_dir", str(self.folder)),
            ("jax_persistent_cache_min_compile_time_secs", 0),
        ):
            self.set(name, value)
        compilation_cache.reset_cache()
        self.addCleanup(compilation_cache.reset_cache)
        jax.clear_caches()

    def set(self, name, value):
        self.addCleanup(config.config.update, name, config.config.read(name))
        config.config.update(name, value)

    def entries(self):
        return sorted(self.folder.glob("*-cache"))

    def run_twice(self, f, *args):
        """The results of a function of which only the source and the folder are kept in between."""
        first = jax.jit(f)(*args)
        jax.clear_caches()
        return first, jax.jit(f)(*args)


class KeysTest(Folder):
    """Names that other libraries call. What counts, and what does not, is as in the reference."""

    def key(self, *args, flags=None):
        environment = {} if flags is None else {"XLA_FLAGS": flags}
        with (
            unittest.mock.patch.object(sys, "argv", ["program", *args]),
            unittest.mock.patch.dict(os.environ, environment),
        ):
            device = jax.devices()[0]
            options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
            module = jax.jit(lambda x: x + 1).lower(1.0).compiler_ir()
            return cache_key.get(module, np.array([device]), options, device.client)

    def test_flags(self):
        self.addCleanup(cache_key.clear_flag_prefixes)
        plain = self.key()
        self.assertEqual(plain, self.key("--foo=1", "foo", "--xla_dump_to=x"))
        self.assertNotEqual(plain, self.key("--xla_foo=1"))
        cache_key.add_flag_prefixes(["--foo"])
        cache_key.add_flag_prefixes(["--bar"])
        self.assertEqual(cache_key.get_flag_prefixes(), ["--foo", "--bar"])
        self.assertLen({plain, self.key("--foo=1"), self.key("--foo=2"), self.key("--bar")}, 4)
        self.assertEqual(plain, self.key("foo", "--xla_dump_to=x"))
        cache_key.clear_flag_prefixes()
        self.assertEqual(cache_key.get_flag_prefixes(), [])
        self.assertEqual(plain, self.key("--foo=1"))

    def test_excluded_flags(self):
        plain, flags = self.key(), os.environ.get("XLA_FLAGS", "")
        self.assertEqual(plain, self.key(flags=f"{flags} --xla_dump_to=x"))
        self.assertNotEqual(plain, self.key(flags=f"{flags} --xla_mine=x"))
        with unittest.mock.patch.object(
            cache_key, "xla_flags_to_exclude_from_cache_key",
            [*cache_key.xla_flags_to_exclude_from_cache_key, "--xla_mine"],
        ):  # fmt: skip
            self.assertEqual(plain, self.key(flags=f"{flags} --xla_mine=x"))
        self.assertIn("xla_dump_to", cache_key.env_override_flags_to_exclude_from_cache_key)

    def test_earlier_names(self):
        compilation_cache.initialize_cache(self.folder / "other")
        self.assertEqual(jax.config.jax_compilation_cache_dir, str(self.folder / "other"))
        self.assertTrue(compilation_cache.is_initialized())
        self.assertEqual(compilation_cache.default_min_cache_entry_size(), 0)


class CompilationCacheTest(Folder):
    def test_a_program_is_found_again(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        first, second = self.run_twice(lambda x: {"y": jnp.sin(x) @ x.T, "n": x.sum()}, x)
        jax.tree.map(np.testing.assert_array_equal, first, second)
        np.testing.assert_allclose(second["y"], np.sin(x) @ x.T, rtol=1e-6)
        self.assertLen(self.entries(), 1)
        counts = compilation_cache.counts
        self.assertEqual((counts.hits, counts.misses, counts.written), (1, 1, 1))

    def test_events(self):
        seen = collections.Counter()

        def listen(event, *_, **__):
            if event.startswith("/jax/compilation_cache/"):
                seen[event.rpartition("/")[2]] += 1

        jax.monitoring.register_event_listener(listen)
        self.addCleanup(jax.monitoring.unregister_event_listener, listen)
        jax.monitoring.register_event_duration_secs_listener(listen)
        self.addCleanup(jax.monitoring.unregister_event_duration_listener, listen)
        self.run_twice(lambda x: x + 1, np.float32(1))
        self.assertEqual(
            seen,
            {"tasks_using_cache": 1, "compile_requests_use_cache": 2, "cache_misses": 1,
             "cache_hits": 1, "compile_time_saved_sec": 1, "cache_retrieval_time_sec": 1},
        )  # fmt: skip

    def test_events_of_whether_programs_may_be_cached(self):
        """Those of the reference, which also tells them where there is no folder."""
        seen = []
        listen = lambda event, **_: seen.append(event.rpartition("/")[2])
        jax.monitoring.register_event_listener(listen)
        self.addCleanup(jax.monitoring.unregister_event_listener, listen)
        self.set("jax_compilation_cache_dir", None)
        requests = ["compile_requests_use_cache"] * 2
        for allowed, expected in (
            (True, ["tasks_using_cache", *requests]),
            (False, ["task_disabled_cache"]),
        ):
            self.set("jax_enable_compilation_cache", allowed)
            public.reset_cache()
            seen.clear()
            self.run_twice(lambda x: x - 1, np.float32(1))
            self.assertEqual(seen, expected)

    def test_native_functions_and_random_numbers(self):
        def f(x):
            noise = jax.random.normal(jax.random.key(0), x.shape)
            return jnp.linalg.inv(x + 9 * jnp.eye(4)) + jnp.sort(x + noise)

        first, second = self.run_twice(f, np.arange(16, dtype=np.float32).reshape(4, 4))
        np.testing.assert_array_equal(first, second)
        self.assertEqual(compilation_cache.counts.hits, 1)

    def test_shardings_and_donation(self):
        mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
        sharding = jax.NamedSharding(mesh, P("i"))
        make = lambda: jax.device_put(np.arange(16.0, dtype=np.float32), sharding)
        results = []
        for _ in range(2):
            jax.clear_caches()
            f = jax.jit(lambda x: (x * 2, x.sum()), donate_argnums=0)
            x = make()
            results.append((*f(x), x.is_deleted()))
        (a, b, was_deleted), (c, d, is_deleted) = results
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)
        self.assertEqual((a.sharding, b.sharding), (c.sharding, d.sharding))
        self.assertTrue(was_deleted and is_deleted)
        self.assertEqual(compilation_cache.counts.hits, 1)

    def test_one_entry_for_all_devices(self):
        for device in jax.devices()[:3]:
            x = jax.device_put(np.float32(3), device)
            self.assertEqual(jax.jit(lambda x: x * 2)(x).devices(), {device})
        self.assertLen(self.entries(), 1)

    def test_other_processes(self):
        environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(self.folder)}
        run = lambda: subprocess.run(
            [sys.executable, "-c", PROGRAM, "1", "2"],
            env=environment, check=True, capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        first, second = run(), run()
        self.assertEqual(first[1:], ["0", "2", "2"])
        self.assertEqual(second, [first[0], "2", "0", "0"])

    def test_many_processes_at_once(self):
        self.set("jax_compilation_cache_max_size", 20_000)
        environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": str(self.folder),
            "JAX_COMPILATION_CACHE_MAX_SIZE": "20000",  # about eight programs
        }
        numbers = [str(n) for n in range(12)]
        started = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *numbers[i:], *numbers[:i]],
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for i in (0, 4, 8)
        ]  # fmt: skip
        results = [process.communicate() for process in started]
        expected = sum(np.sum(np.sin(np.arange(4))) + 4 * n for n in range(12))
        for process, (out, err) in zip(started, results):
            self.assertEqual((process.returncode, err), (0, ""))
            self.assertAlmostEqual(float(out.split()[0]), expected, places=3)
        self.assertLess(sum(f.stat().st_size for f in self.entries()), 20_001)
        self.assertEmpty(list(self.folder.glob("*-unfinished")))

    def auto(self):
        """Has `auto` stand for a folder of this test; returns it."""
        patch = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder))
        self.enterContext(patch)
        self.set("jax_compilation_cache_dir", "auto")
        return Path(config.compilation_cache_dir.value)

    @unittest.skipUnless(sys.platform == "linux", "the folders of Linux")
    def test_a_folder_of_the_user(self):
        folder = self.auto()
        self.assertEqual(folder, self.folder / "jax" / "compiled")
        self.assertFalse(folder.exists())
        self.assertEqual(float(jax.jit(lambda x: x + 7)(1.0)), 8)
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        self.assertLen([p for p in folder.iterdir() if p.name.endswith("-cache")], 1)
        self.assertEqual(compilation_cache._get_cache(None).max_size, 4 << 30)
        self.set("jax_compilation_cache_max_size", 10**6)
        self.assertEqual(compilation_cache._get_cache(None).max_size, 10**6)

    @unittest.skipUnless(sys.platform == "linux", "the folders of Linux")
    def test_a_folder_that_others_may_write_to_is_not_used(self):
        folder = self.auto()
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        with self.assertWarnsRegex(UserWarning, "may be written to by others"):
            self.assertEqual(float(jax.jit(lambda x: x + 7)(1.0)), 8)
        self.assertEmpty(list(folder.iterdir()))

    @unittest.skipUnless(sys.platform == "linux", "the folders of Linux")
    def test_a_relative_folder_of_the_environment_is_ignored(self):
        with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME="here", HOME="/home/me"):
            self.assertEqual(user_cache.folder(), "/home/me/.cache/jax/compiled")

    def test_a_user_without_a_home(self):
        self.enterContext(unittest.mock.patch.object(Path, "home", side_effect=RuntimeError))
        self.enterContext(unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=""))
        self.assertEqual(float(jax.jit(lambda x: x + 7)(1.0)), 8)
        self.assertLen(self.entries(), 1)

    def test_too_quick_or_too_small(self):
        self.set("jax_persistent_cache_min_compile_time_secs", 100)
        jax.jit(lambda x: x + 1)(1.0)
        self.set("jax_persistent_cache_min_compile_time_secs", 0)
        self.set("jax_persistent_cache_min_entry_size_bytes", 10**6)
        jax.jit(lambda x: x + 2)(1.0)
        self.assertEmpty(self.entries())
        self.set("jax_persistent_cache_min_entry_size_bytes", -1)
        jax.jit(lambda x: x + 3)(1.0)
        self.assertLen(self.entries(), 1)

    def test_settings_are_read_at_each_compilation(self):
        with config.enable_compilation_cache(False):
            jax.jit(lambda x: x + 1)(1.0)
        self.assertEmpty(self.entries())
        other = self.folder / "other"
        public.set_cache_dir(other)
        jax.jit(lambda x: x + 2)(1.0)
        self.assertEmpty(self.entries())
        self.assertLen(list(other.glob("*-cache")), 1)
        public.set_cache_dir(self.folder)
        jax.jit(lambda x: x + 3)(1.0)
        self.assertLen(self.entries(), 1)
        public.reset_cache()
        self.assertEqual(compilation_cache.counts, compilation_cache.Counts())

    def test_functions_of_this_process_are_not_kept(self):
        f = lambda x: jax.pure_callback(lambda x: np.asarray(x) * 2, x, x) + 1
        first, second = self.run_twice(f, np.float32(3))
        self.assertEqual((float(first), float(second)), (7, 7))
        self.assertEmpty(self.entries())

    def test_what_the_compiler_cannot_serialize(self):
        error = jax.errors.JaxRuntimeError("UNIMPLEMENTED: not on this platform")
        put = unittest.mock.Mock(side_effect=error)
        with unittest.mock.patch.object(compilation_cache, "put_executable_and_time", put):
            self.assertEqual(float(jax.jit(lambda x: x + 1)(np.float32(1))), 2)  # without a warning
        put.assert_called_once()

    def test_custom_partitioning(self):
        mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
        x = jax.device_put(np.arange(16.0, dtype=np.float32), jax.NamedSharding(mesh, P("i")))

        def program(factor):
            @custom_partitioning
            def f(x):
                return x * factor

            f.def_partition(
                partition=lambda mesh, args, result: (
                    mesh, lambda x: x * factor, result.sharding, tuple(a.sharding for a in args),
                ),
                sharding_rule="i -> i",
            )  # fmt: skip
            return jax.jit(lambda x: f(x) + 1)

        # The two functions look alike to the compiler until it calls them.
        np.testing.assert_array_equal(program(2.0)(x), 2 * np.arange(16.0) + 1)
        np.testing.assert_array_equal(program(3.0)(x), 3 * np.arange(16.0) + 1)
        self.assertEmpty(self.entries())
        self.set("jax_remove_custom_partitioning_ptr_from_cache_key", True)
        np.testing.assert_array_equal(program(2.0)(x), 2 * np.arange(16.0) + 1)
        jax.clear_caches()
        np.testing.assert_array_equal(program(2.0)(x), 2 * np.arange(16.0) + 1)
        self.assertEqual(compilation_cache.counts.hits, 1)

    def test_contents_are_checked(self):
        self.set("jax_compilation_cache_check_contents", True)
        first, second = self.run_twice(lambda x: jnp.tanh(x) @ x, np.eye(3, dtype=np.float32))
        np.testing.assert_array_equal(first, second)
        one = np.float32(1)
        with unittest.mock.patch.object(cache_key, "get", lambda *_: "one key for all"):
            jax.jit(lambda x: x / 3)(one)
            with self.assertRaisesRegex(
                compilation_cache.CacheVerificationError, "one key for all"
            ):
                jax.jit(lambda x: x * 7)(one)

    def test_xla_caches(self):
        def folders():
            options = jax._src.compiler.get_compile_options(1, 1)
            debug = options.executable_build_options.debug_options
            return debug.xla_gpu_per_fusion_autotune_cache_dir, debug.xla_gpu_kernel_cache_file

        autotuning = f"{self.folder}/xla_gpu_per_fusion_autotune_cache_dir"
        kernels = f"{self.folder}/xla_gpu_kernel_cache_file"
        self.assertEqual(folders(), (autotuning, ""))
        for value, expected in (
            ("none", ("", "")),
            ("all", (autotuning, kernels)),
            ("xla_gpu_kernel_cache_file", ("", kernels)),
        ):
            with config.persistent_cache_enable_xla_caches(value):
                self.assertEqual(folders(), expected)
        with config.persistent_cache_enable_xla_caches("everything"):
            with self.assertRaisesRegex(ValueError, "must be 'all', 'none', or some of"):
                folders()

    def test_environment_info_shows_counts(self):
        self.run_twice(lambda x: x + 1, np.float32(1))
        info = jax.print_environment_info(return_string=True)
        self.assertIn(f"{self.folder}: 1 hits, 1 misses, 1 programs written", info)


class DamageTest(Folder):
    def damage(self, change):
        jax.clear_caches()
        f = lambda x: jnp.sin(x) + 1
        expected = float(jax.jit(f)(np.float32(2)))
        (entry,) = self.entries()
        change(entry)
        jax.clear_caches()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(float(jax.jit(f)(np.float32(2))), expected)
        self.assertLen(caught, 1)
        message = str(caught[0].message)
        self.assertRegex(
            message, "Error reading persistent compilation cache entry for 'jit__lambda'"
        )
        self.assertIn("is damaged, or is another program's", message)
        self.assertLen(self.entries(), 1)
        compilation_cache.reset_cache()
        jax.clear_caches()
        self.assertEqual(float(jax.jit(f)(np.float32(2))), expected)  # without a warning
        self.assertEqual(compilation_cache.counts.hits, 1)

    def test_damaged_entries_are_replaced(self):
        self.damage(lambda entry: entry.write_bytes(b""))
        self.damage(lambda entry: entry.write_bytes(b"garbage"))
        self.damage(lambda entry: entry.write_bytes(entry.read_bytes()[:-20]))
        self.damage(lambda entry: entry.write_bytes(entry.read_bytes()[:200] + b"!" * 50))
        self.damage(lambda entry: entry.write_bytes(zlib.compress(b"another program's file")))

    def test_entry_of_another_key(self):
        jax.jit(lambda x: x - 5)(np.float32(2))
        (other,) = self.entries()
        contents = other.read_bytes()
        other.unlink()
        self.damage(lambda entry: entry.write_bytes(contents))

    def test_each_flipped_byte_is_noticed(self):
        jax.jit(lambda x: x - 5)(np.float32(2))
        (entry,) = self.entries()
        good, key = entry.read_bytes(), entry.name.removesuffix("-cache")
        compilation_cache._unpacked(key, good)
        for i in range(0, len(good), 7):
            bad = bytearray(good)
            bad[i] ^= 1 << (i % 8)
            with self.assertRaisesRegex(ValueError, "checksum"):
                compilation_cache._unpacked(key, bytes(bad))

    def test_other_files_are_left_alone(self):
        (self.folder / "notes.txt").write_text("mine")
        (self.folder / "a-cache").mkdir()
        first, second = self.run_twice(lambda x: x + 1, np.float32(1))
        self.assertEqual(first, second)
        self.assertEqual(compilation_cache.counts.hits, 1)
        self.assertEqual((self.folder / "notes.txt").read_text(), "mine")

    def test_folder_that_cannot_be_made(self):
        file = self.folder / "file"
        file.write_text("")
        self.set("jax_compilation_cache_dir", str(file / "folder"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for n in range(3):
                self.assertEqual(float(jax.jit(lambda x: x + n)(np.float32(1))), 1 + n)
        self.assertLen(caught, 1)
        with config.raise_persistent_cache_errors(True), self.assertRaises(OSError):
            jax.jit(lambda x: x + 9)(np.float32(1))

    def test_url_without_the_package_for_it(self):
        self.set("jax_compilation_cache_dir", "gs://bucket/folder")
        previous = sys.modules.get("etils")
        sys.modules["etils"] = None  # an import fails
        try:
            with self.assertWarnsRegex(UserWarning, r"pip install 'etils\[epath\]'"):
                self.assertEqual(float(jax.jit(lambda x: x + 1)(np.float32(1))), 2)
        finally:
            del sys.modules["etils"]
            if previous is not None:
                sys.modules["etils"] = previous


class ModuleTest(absltest.TestCase):
    def test_programs_need_not_import_it(self):
        module = jax.experimental.__getattr__("compilation_cache")
        self.assertIs(module, sys.modules["jax.experimental.compilation_cache"])
        with self.assertRaisesRegex(AttributeError, "no attribute 'mesh_util'"):
            _ = jax.experimental.mesh_util


class KeyTest(Folder):
    def key(self, f, *args, devices=None, **options):
        lowered = jax.jit(f).lower(*args)
        module = lowered.compiler_ir("stablehlo")
        devices = np.array(devices or jax.devices()[:1]).reshape(1, -1)
        compile_options = jax._src.compiler.get_compile_options(
            1, devices.size, device_assignment=devices, env_options_overrides=options
        )
        backend = devices.flat[0].client
        return compilation_cache.get_cache_key(module, devices, compile_options, backend)

    def test_what_a_key_depends_on(self):
        def f(x):
            return x + 1

        x = np.float32(1)
        key = self.key(f, x)
        self.assertRegex(key, "^jit_f-[0-9a-f]{64}$")
        same = {"a": self.key(f, x), "dump": self.key(f, x, xla_dump_max_hlo_modules=3),
                "device": self.key(f, x, devices=jax.devices()[3:4])}  # fmt: skip
        flags = os.environ.get("XLA_FLAGS", "")
        with unittest.mock.patch.dict(
            os.environ, XLA_FLAGS=f"{flags} --xla_dump_to=/tmp/somewhere"
        ):
            same["flag"] = self.key(f, x)
        with config.compilation_cache_dir("/tmp/elsewhere"):
            same["folder"] = self.key(f, x)
        self.assertEqual(set(same.values()), {key}, same)
        other = [
            self.key(lambda x: x + 1, x),  # its name
            self.key(f, np.int32(1)),
            self.key(f, np.ones(2, np.float32)),
            self.key(f, x, xla_cpu_enable_fast_math=True),
            self.key(f, x, devices=jax.devices()[:2]),
        ]
        with unittest.mock.patch.dict(os.environ, XLA_FLAGS="--xla_cpu_enable_fast_math=true"):
            other.append(self.key(f, x))
        with unittest.mock.patch.object(cache_key, "custom_hook", lambda: "mine"):
            other.append(self.key(f, x))
        with unittest.mock.patch.object(cache_key.hardware_utils, "processor_name", lambda: "Z80"):
            other.append(self.key(f, x))
        with unittest.mock.patch.object(cache_key.lib, "version_str", "0.10.99"):
            other.append(self.key(f, x))
        self.assertLen({key, *other}, 1 + len(other))

    def test_lines_and_scopes_count_only_if_asked_for(self):
        def make(scope):
            def f(x):
                with jax.named_scope(scope):
                    return jnp.sin(x)

            return f

        keys = lambda: {self.key(make(scope), 1.0) for scope in "ab"}
        self.assertLen(keys(), 1)
        with config.compilation_cache_include_metadata_in_key(True):
            self.assertLen(keys(), 2)

    def test_long_and_odd_names(self):
        def f(x):
            return x

        f.__name__ = "näme/with " + "x" * 300
        jax.jit(f)(1.0)
        self.assertLen(self.entries(), 1)

    def test_key_is_the_same_in_another_process(self):
        program = (
            "import jax, numpy as np, sys; sys.path.insert(0, 'tests')\n"
            "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
            "jax.jit(lambda x: x * 3)(np.float32(1))"
        )
        jax.jit(lambda x: x * 3)(np.float32(1))
        environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(self.folder)}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        self.assertLen(self.entries(), 1)


class LRUCacheTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def keys(self):
        return sorted(f.name.removesuffix("-cache") for f in self.folder.glob("*-cache"))

    @parameterized.parameters(-1, 1000)
    def test_get_and_put(self, max_size):
        cache = LRUCache(str(self.folder), max_size=max_size)
        self.assertIsNone(cache.get("a"))
        cache.put("a", b"one")
        cache.put("a", b"two")
        self.assertEqual(cache.get("a"), b"one")
        cache.remove("a")
        self.assertIsNone(cache.get("a"))
        cache.remove("a")
        for key in ("", "a/b"):
            with self.assertRaisesRegex(ValueError, "key must be"):
                cache.put(key, b"")

    def test_least_recently_used_entries_are_removed(self):
        cache = LRUCache(str(self.folder), max_size=100)
        for key in "abc":
            cache.put(key, key.encode() * 30)
        cache.get("a")
        cache.put("d", b"d" * 30)
        self.assertEqual(self.keys(), ["a", "c", "d"])
        cache.put("e", b"e" * 65)
        self.assertEqual(self.keys(), ["d", "e"])
        with self.assertWarnsRegex(UserWarning, "exceeds the maximum cache size of 100 bytes"):
            cache.put("f", b"f" * 101)
        self.assertEqual(self.keys(), ["d", "e"])
        cache.clear()
        self.assertEqual(self.keys(), [])

    def test_entries_from_before_the_limit(self):
        unlimited = LRUCache(str(self.folder), max_size=-1)
        for age, key in enumerate("abc"):
            unlimited.put(key, b"x" * 30)
            os.utime(self.folder / f"{key}-cache", (time.time() - age, time.time() - age))
        LRUCache(str(self.folder), max_size=100).put("d", b"x" * 30)
        self.assertEqual(self.keys(), ["a", "b", "d"])

    def test_lock_of_another_process(self):
        cache = LRUCache(str(self.folder), max_size=100, lock_timeout_secs=0.05)
        other = LRUCache(str(self.folder), max_size=100)
        with other._locked(), self.assertRaisesRegex(TimeoutError, "Another process has held"):
            cache.get("a")
        self.assertIsNone(cache.get("a"))

    def test_waits_for_the_lock(self):
        cache = LRUCache(str(self.folder), max_size=100, lock_timeout_secs=None)
        cache.put("a", b"a")
        with cache._locked():
            thread = threading.Thread(target=cache.put, args=("b", b"b"))
            thread.start()
            self.assertEqual(self.keys(), ["a"])
        thread.join()
        self.assertEqual(self.keys(), ["a", "b"])

    def test_what_killed_processes_left_is_removed(self):
        old, new = self.folder / ".1-unfinished", self.folder / ".2-unfinished"
        for file in (old, new):
            file.write_bytes(b"half")
        os.utime(old, (0, 0))
        LRUCache(str(self.folder), max_size=-1)
        self.assertFalse(old.exists())
        self.assertTrue(new.exists())

    def test_limit_needs_a_file_system(self):
        with self.assertRaisesRegex(ValueError, "cannot have a limit"):
            LRUCache("gs://bucket/folder", max_size=100)


class NamesForOutsideCodeTest(Folder):
    def test_entries_by_key(self):
        backend = jax.devices()[0].client
        compiled = jax.jit(lambda x: x + 1).lower(np.float32(1)).compile()
        executable = compiled.runtime_executable()
        self.assertTrue(compilation_cache.is_cache_used(backend))
        compilation_cache.put_executable_and_time("k", "name", executable, backend, 7)
        self.assertTrue(compilation_cache.is_executable_in_cache(backend, "k"))
        self.assertFalse(compilation_cache.is_executable_in_cache(backend, "none"))
        devices = jax._src.lib.DeviceList((jax.devices()[0],))
        options = jax._src.compiler.get_compile_options(
            1, 1, device_assignment=np.array([[jax.devices()[0]]])
        )
        found, seconds = compilation_cache.get_executable_and_time("k", options, backend, devices)
        self.assertEqual(seconds, 7)
        self.assertEqual(found.get_hlo_text(), executable.get_hlo_text())
        self.assertEqual(
            compilation_cache.get_executable_and_time("none", options, backend, devices),
            (None, None),
        )

    def test_verification_cache(self):
        cache, _ = compilation_cache.get_file_cache(str(self.folder))
        checked = compilation_cache.VerificationCache(cache)
        checked.put("a", b"1")
        checked.put("a", b"1")
        self.assertIsNone(checked.get("a"))
        with self.assertRaises(compilation_cache.CacheVerificationError):
            checked.put("a", b"2")
        checked.clear()
        self.assertIsNone(cache.get("a"))


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
