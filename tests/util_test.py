"""Sequences, caches, names, axes; source information; tracebacks; events; deprecations."""

import gc
import linecache
import sys
import textwrap
import threading
import traceback
import types
import unittest.mock
import warnings
import weakref
from functools import partial

from absl.testing import absltest, parameterized

from jax._src import (
    config,
    deprecations,
    errors,
    lib,
    monitoring,
    native_classes,
    pretty_printer as pp,
    source_info_util,
    traceback_util,
    util,
)


class SequencesTest(parameterized.TestCase):
    def test_safe_map_and_zip(self):
        self.assertEqual(util.safe_map(lambda x, y: x + y, [1, 2], [3, 4]), [4, 6])
        self.assertEqual(util.safe_zip([1, 2], [3, 4]), [(1, 3), (2, 4)])
        seen = []
        util.foreach(seen.append, [1, 2])
        self.assertEqual(seen, [1, 2])
        for f in (
            lambda: util.safe_map(lambda x, y: x, [1], [1, 2]),
            lambda: util.safe_zip([1], [1, 2]),
            lambda: util.foreach(lambda x, y: x, [1], [1, 2]),
        ):
            with self.assertRaises(ValueError):
                f()

    def test_unzip(self):
        self.assertEqual(util.unzip2([(1, 2), (3, 4)]), ((1, 3), (2, 4)))
        self.assertEqual(util.unzip2([]), ((), ()))
        self.assertEqual(util.unzip3(iter([(1, 2, 3)])), ((1,), (2,), (3,)))
        self.assertEqual(util.unzip3([]), ((), (), ()))

    def test_lists(self):
        self.assertEqual(util.split_list([1, 2, 3, 4], [1, 2]), [[1], [2, 3], [4]])
        self.assertEqual(util.split_list_checked([1, 2, 3], [1, 2]), [[1], [2, 3]])
        self.assertEqual(util.partition_list([True, False, True], [1, 2, 3]), ([2], [1, 3]))
        self.assertEqual(util.merge_lists([True, False, True], [2], [1, 3]), [1, 2, 3])
        self.assertEqual(util.subs_list([None, 1, None], "ab", "xy"), ["x", "b", "y"])
        self.assertEqual(
            util.subs_list2([None, 0, None], [1, 0, None], "a", "bc", "x"), ["c", "a", "x"]
        )
        self.assertEqual(util.concatenate([[1], (2, 3)]), [1, 2, 3])
        self.assertEqual(util.unflatten([1, 2, 3], [2, 0, 1]), [[1, 2], [], [3]])
        self.assertEqual(util.subvals([1, 2, 3], [(0, 9)]), (9, 2, 3))
        self.assertEqual(list(util.stable_unique([2, 1, 2])), [2, 1])
        for f in (
            lambda: util.split_list_checked([1], [2]),
            lambda: util.partition_list([True], [1, 2]),
            lambda: util.merge_lists([True], [1], [2]),
            lambda: util.subs_list([None], [], [1, 2]),
            lambda: util.unflatten([1], [2]),
            lambda: util.unflatten([1, 2], [1]),
        ):
            with self.assertRaises(ValueError):
                f()

    def test_tuples(self):
        self.assertEqual(util.tuple_insert((1, 2), 1, 9), (1, 9, 2))
        self.assertEqual(util.tuple_insert((1, 2), 2, 9), (1, 2, 9))
        self.assertEqual(util.tuple_delete((1, 2), 0), (2,))
        self.assertEqual(util.tuple_update((1, 2), 1, 9), (1, 9))
        for f in (
            lambda: util.tuple_insert((1,), 2, 0),
            lambda: util.tuple_delete((1,), 1),
            lambda: util.tuple_update((1,), -1, 0),
        ):
            with self.assertRaises(ValueError):
                f()

    def test_toposort(self):
        node = lambda *parents: types.SimpleNamespace(parents=list(parents))
        a = node()
        b, c = node(a), node(a)
        d = node(b, c)
        order = util.toposort([d])
        self.assertLen(order, 4)
        util.check_toposort(order)
        with self.assertRaises(ValueError):
            util.check_toposort(order[::-1])

    def test_ordered_set(self):
        s = util.OrderedSet([3, 1])
        s.update([2, 3])
        s.add(0)
        self.assertEqual(list(s), [3, 1, 2, 0])
        self.assertIn(2, s)
        s.discard(3)
        s.discard(77)
        self.assertLen(s, 3)

    def test_ceil_of_ratio(self):
        self.assertEqual([util.ceil_of_ratio(n, 3) for n in (0, 1, 3, 4)], [0, 1, 1, 2])

    def test_pprint_bytes(self):
        self.assertEqual(util.pprint_bytes(0), "0.00B")
        self.assertEqual(util.pprint_bytes(1023), "1023.00B")
        self.assertEqual(util.pprint_bytes(1.5 * 2**20), "1.50MB")


class AxesTest(parameterized.TestCase):
    @parameterized.parameters((0, 3, 0), (-1, 3, 2), (2, 3, 2), (-3, 3, 0))
    def test_canonicalize(self, axis, ndim, expected):
        self.assertEqual(util.canonicalize_axis(axis, ndim), expected)

    @parameterized.parameters((3, 2), (-3, 2), (0, 0))
    def test_out_of_bounds(self, axis, ndim):
        with self.assertRaisesRegex(
            ValueError, f"axis {axis} is out of bounds for array of dimension {ndim}"
        ):
            util.canonicalize_axis(axis, ndim)

    def test_tuples(self):
        self.assertEqual(util.canonicalize_axis_tuple(None, 3), (0, 1, 2))
        self.assertEqual(util.canonicalize_axis_tuple(-1, 3), (2,))
        self.assertEqual(util.canonicalize_axis_tuple((0, -1), 3), (0, 2))
        self.assertEqual(util.canonicalize_axis_tuple((0, 0), 3, allow_duplicate=True), (0, 0))
        with self.assertRaisesRegex(ValueError, "repeated axis"):
            util.canonicalize_axis_tuple((0, -3), 3)
        with self.assertRaises(TypeError):
            util.canonicalize_axis(1.5, 3)

    def test_moveaxis(self):
        self.assertEqual(util.moveaxis_permutation(0, 2, 3), (1, 2, 0))
        self.assertEqual(util.moveaxis_permutation((0, 1), (-1, -2), 3), (2, 1, 0))
        with self.assertRaisesRegex(ValueError, "source has 1 axes and destination 2"):
            util.moveaxis_permutation(0, (1, 2), 3)


class FunctionsTest(parameterized.TestCase):
    def test_names(self):
        def f():
            pass

        class Callable:
            def __call__(self):
                pass

        self.assertEqual(util.fun_name(f), "f")
        self.assertEqual(util.fun_name(partial(partial(f))), "f")
        self.assertEqual(util.fun_name(Callable()), "<unnamed function>")
        self.assertEqual(util.fun_name(Callable(), "call"), "call")
        self.assertEndsWith(util.fun_qual_name(partial(f)), "test_names.<locals>.f")
        self.assertEqual(util.wrap_name("vmap", "f"), "vmap(f)")

    def test_wraps(self):
        def f(x: int) -> int:
            """Doc of f."""
            return x

        f.tag = 1

        @util.wraps(f, namestr="jit_{fun}", docstr="Of {fun}. {doc}{more}", more="!")
        def g(*args):
            return f(*args)

        self.assertEqual(g.__name__, "jit_f")
        self.assertEqual(g.__doc__, "Of f. Doc of f.!")
        self.assertEqual(g.tag, 1)
        self.assertIs(g.__wrapped__, f)

        @util.wraps(partial(f, 1))
        def h():
            pass

        self.assertEqual(h.__name__, "f")

    def test_hashable_function(self):
        make = lambda c: util.HashableFunction(lambda x: x + c, closure=c)
        self.assertEqual(make(1), make(1))
        self.assertEqual(hash(make(1)), hash(make(1)))
        self.assertNotEqual(make(1), make(2))
        self.assertEqual(make(3)(4), 7)

        def f(x, y):
            return x - y

        self.assertEqual(util.HashablePartial(f, 1), util.HashablePartial(f, 1))
        self.assertNotEqual(util.HashablePartial(f, 1), util.HashablePartial(f, 2))
        self.assertEqual(util.HashablePartial(f, 1, y=2)(), -1)

    def test_hashable_boxes(self):
        x = []
        self.assertEqual(util.WrapHashably(x), util.WrapHashably(x))
        self.assertNotEqual(util.WrapHashably(x), util.WrapHashably([]))
        self.assertEqual(util.WrapHashably((1,)), util.WrapHashably((1,)))
        self.assertNotEqual(util.HashableWrapper(x), util.HashableWrapper([]))
        self.assertEqual(util.HashableWrapper("a"), util.HashableWrapper("a"))

    def test_strict_abc(self):
        class Base(util.StrictABC):
            pass

        class Derived(Base):
            pass

        self.assertIsInstance(Derived(), Base)
        with self.assertRaises(NotImplementedError):
            Base.register(int)

    def test_maybe_named_axis(self):
        self.assertEqual(util.maybe_named_axis(1, lambda i: i, str), 1)
        self.assertEqual(util.maybe_named_axis("i", lambda i: i, lambda n: n * 2), "ii")


class NativeClassesTest(parameterized.TestCase):
    def test_attributes_move_but_for_marked_methods(self):
        class Native:
            """Native."""

            def f(self):
                return "native"

            g = h = f

        @native_classes.use_cpp_class(Native)
        class Python:
            number = 3

            def f(self):
                return "python"

            @native_classes.use_cpp_method()
            def g(self):
                return "python"

            @native_classes.use_cpp_method(False)
            def h(self):
                return "python"

            @property
            @native_classes.use_cpp_method()
            def p(self):
                return "python"

        self.assertIs(Python, Native)
        self.assertEqual(Python.__doc__, "Native.")
        x = Python()
        self.assertEqual((x.f(), x.g(), x.h(), x.number), ("python", "native", "python", 3))
        self.assertFalse(hasattr(x, "p"))


class CachesTest(parameterized.TestCase):
    def test_cache(self):
        calls = []

        @util.cache()
        def f(x, *, y=0):
            """Doc."""
            calls.append(x)
            return x + y

        self.assertEqual([f(1), f(1), f(1, y=2)], [1, 1, 3])
        self.assertLen(calls, 2)
        self.assertEqual(f.__name__, "f")
        with config.enable_x64(True):
            f(1)
        self.assertLen(calls, 3)
        f(1)
        self.assertLen(calls, 3)
        util.clear_all_caches()
        self.assertEqual(f.cache_info().currsize, 0)
        f(1)
        self.assertLen(calls, 4)
        with config.checking_leaks():
            f(1)
            f(1)
        self.assertLen(calls, 6)

    def test_cache_without_context(self):
        calls = []

        @util.cache(trace_context_in_key=False)
        def f(x):
            calls.append(x)

        f(1)
        with config.enable_x64(True):
            f(1)
        self.assertLen(calls, 1)

    def test_cache_keeps_nothing_of_errors(self):
        outcomes = [ValueError("no"), 5]

        @util.cache()
        def f():
            out = outcomes.pop(0)
            if isinstance(out, Exception):
                raise out
            return out

        with self.assertRaises(ValueError):
            f()
        self.assertEqual(f(), 5)

    def test_weakref_lru_cache(self):
        class Key:
            pass

        calls = []

        @util.weakref_lru_cache
        def f(key, x):
            calls.append(x)
            return object()

        key = Key()
        first = f(key, 1)
        self.assertIs(f(key, 1), first)
        with config.enable_x64(True):
            self.assertIsNot(f(key, 1), first)
        self.assertLen(calls, 2)
        self.assertEqual(f.cache_info().currsize, 2)
        gone = weakref.ref(key)
        del key
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(f.cache_info().currsize, 0)
        key = Key()
        f(key, 1)
        util.clear_all_caches()
        self.assertEqual(f.cache_info().currsize, 0)

    def test_multi_weakref_lru_cache(self):
        class Key:
            pass

        util.weakref_cache_key_types.add(Key)
        calls = []
        f = util.multi_weakref_lru_cache(lambda *args: calls.append(args) or len(calls))
        a, b = Key(), Key()
        self.assertEqual([f(a, 1), f(a, 1), f(b, 1)], [1, 1, 2])
        calls.clear()
        del a
        gc.collect()
        self.assertEqual(f.cache_info().currsize, 1)
        util.weakref_cache_key_types.discard(Key)

    def test_test_event(self):
        seen = []
        with unittest.mock.patch.object(util, "test_event_listener", None):
            util.test_event("nobody listens")
            util.test_event_listener = lambda *args: seen.append(args)
            util.test_event("traced", 3)
        self.assertEqual(seen, [("traced", 3)])

    def test_distributed_debug_log(self):
        with config.distributed_debug(True):
            with self.assertLogs("jax._src.util", "WARNING") as logs:
                util.distributed_debug_log(("name", 1), ("other", "x"))
        self.assertIn("name: 1", logs.output[0])


class LibTest(parameterized.TestCase):
    def test_version_check(self):
        self.assertEqual(lib.check_jaxlib_version("0.10.2"), (0, 10, 2))
        self.assertEqual(lib.check_jaxlib_version("0.12.1.dev20260101+cuda"), (0, 12, 1))
        for bad in ("0.10.1", "0.4.30", "0.13.0", "1.0"):
            with self.assertRaisesRegex(RuntimeError, f"jaxlib {bad} .*pip install"):
                lib.check_jaxlib_version(bad)
        with self.assertRaisesRegex(ValueError, "version"):
            lib.check_jaxlib_version("unknown")

    def test_lazy_names(self):
        self.assertIs(lib.xla_client.Client, lib.Client)
        with self.assertRaisesRegex(AttributeError, "nothing"):
            _ = lib.nothing

    def test_mlir(self):
        from jax._src.lib.mlir import ir
        from jax._src.lib.mlir.dialects import hlo

        self.assertTrue(issubclass(hlo.AddOp, object))
        self.assertIn("Context", dir(ir))
        with self.assertRaises(AttributeError):
            _ = ir.NoSuchThing


class SourceInfoTest(parameterized.TestCase):
    def test_name_stack(self):
        stack = source_info_util.NameStack
        self.assertEqual(str(stack()), "")
        self.assertEqual(str(source_info_util.new_name_stack("a")), "a")
        self.assertEqual(str(stack().extend("a").transform("jvp").extend("b")), "a/jvp(b)")
        self.assertEqual(
            str(stack().transform("transpose").transform("jvp").extend("b").extend("c")),
            "transpose(jvp(b))/c",
        )
        self.assertEqual(str(stack().extend("x").transform("vmap")), "x/vmap()")
        both = stack().extend("a") + stack().extend("b")
        self.assertEqual((str(both), len(both)), ("a/b", 2))
        self.assertEqual(both[1:], stack().extend("b"))
        self.assertEqual(hash(both), hash(stack().extend("a").extend("b")))
        self.assertEqual(str(both.extend("c").relative_to(both)), "c")
        mapped = stack().transform("vmap")
        self.assertEqual(str(mapped.within("while/body").extend("b")), "vmap()/while/body/b")
        self.assertEqual(str(mapped.within().extend("b")), "vmap()/b")
        self.assertEqual(str(stack().within()), "")

    def test_contexts(self):
        name = lambda: str(source_info_util.current_name_stack())
        with source_info_util.extend_name_stack("outer"):
            with source_info_util.transform_name_stack("vmap"):
                with source_info_util.extend_name_stack("inner"):
                    self.assertEqual(name(), "outer/vmap(inner)")
                    self.assertEqual(
                        str(source_info_util.current().name_stack), "outer/vmap(inner)"
                    )
                with source_info_util.reset_name_stack():
                    self.assertEqual(name(), "")
            seen = []
            thread = threading.Thread(target=lambda: seen.append(name()))
            thread.start()
            thread.join()
            self.assertEqual(seen, [""])
        with self.assertRaises(KeyError):
            with source_info_util.extend_name_stack("outer"):
                raise KeyError
        self.assertEqual(name(), "")

    def test_user_frame(self):
        info = source_info_util.current()
        frame = source_info_util.user_frame(info.traceback)
        self.assertEqual(frame.file_name, __file__)
        self.assertEndsWith(frame.function_name, "SourceInfoTest.test_user_frame")
        self.assertIn("source_info_util.current()", linecache.getline(__file__, frame.start_line))
        self.assertRegex(
            source_info_util.summarize(info), r"util_test.py:\d+:\d+ \(.*test_user_frame\)$"
        )
        self.assertLen(source_info_util.summarize(info, num_frames=2).splitlines(), 2)
        self.assertEqual(source_info_util.summarize(source_info_util.new_source_info()), "")
        self.assertIsNone(source_info_util.user_frame(None))

    def test_exclusion(self):
        self.assertFalse(source_info_util.is_user_filename(source_info_util.__file__))
        self.assertFalse(source_info_util.is_user_filename(traceback.__file__))
        self.assertTrue(source_info_util.is_user_filename("/home/me/model.py"))
        self.assertTrue(source_info_util.is_user_filename("<stdin>"))
        source_info_util.register_exclusion("/home/library")
        source_info_util.register_inclusion("/home/library/examples")
        self.assertFalse(source_info_util.is_user_filename("/home/library/core.py"))
        self.assertTrue(source_info_util.is_user_filename("/home/library/examples/a.py"))
        self.assertTrue(source_info_util.is_user_filename("/home/library/core_test.py"))

    def test_canonical_file_names(self):
        with config.hlo_source_file_canonicalization_regex(".*/tests/"):
            self.assertStartsWith(
                source_info_util.summarize(source_info_util.current()), "util_test.py:"
            )

    def test_user_context(self):
        def written_here():
            return source_info_util.current()

        info = written_here()
        with source_info_util.user_context(
            info.traceback, name_stack=source_info_util.new_name_stack("there")
        ):
            self.assertIs(source_info_util.current().traceback, info.traceback)
            self.assertEqual(str(source_info_util.current().name_stack), "there")
        self.assertIsNot(source_info_util.current().traceback, info.traceback)
        with self.assertRaisesRegex(ValueError, "wrong") as raised:
            with source_info_util.user_context(info.traceback):
                with source_info_util.user_context(info.traceback):
                    raise ValueError("wrong")
        cause = raised.exception.__cause__
        self.assertIsInstance(cause, source_info_util.JaxStackTraceBeforeTransformation)
        self.assertTrue(source_info_util.has_user_context(raised.exception))
        self.assertIn("wrong", str(cause))
        self.assertEqual(traceback.extract_tb(cause.__traceback__)[-1].name, "written_here")
        self.assertIsNone(cause.__cause__)

    def test_replace(self):
        info = source_info_util.current()
        other = info.replace(name_stack=source_info_util.new_name_stack("x"))
        self.assertIs(other.traceback, info.traceback)
        self.assertEqual(str(other.name_stack), "x")
        self.assertIsNone(info.replace(traceback=None).traceback)


def library(source, name="/some/library/inside.py"):
    """Functions of a file whose frames are filtered from tracebacks."""
    if name not in traceback_util._exclude_paths:
        traceback_util.register_exclusion("/some/library/")
    scope = {}
    exec(compile(textwrap.dedent(source), name, "exec"), scope)
    return types.SimpleNamespace(**scope)


class TracebackTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        inside = library(
            """
            def call(f):
                return f()

            def fail():
                raise ValueError("inside")
            """
        )
        self.call = traceback_util.api_boundary(inside.call)
        self.fail_inside = traceback_util.api_boundary(inside.fail)

    def frames(self, f, *args):
        try:  # assertRaises would take the traceback away
            f(*args)
        except ValueError as err:
            return err, [f.name for f in traceback.extract_tb(err.__traceback__)]
        self.fail("no error")

    def user_function(self):
        raise ValueError("mine")

    def test_off(self):
        with config.traceback_filtering("off"):
            error, names = self.frames(lambda: self.call(self.user_function))
        self.assertIn("call", names)
        self.assertFalse(hasattr(error, "__notes__"))

    @parameterized.parameters("quiet_remove_frames", "remove_frames", "auto")
    def test_removed(self, mode):
        with config.traceback_filtering(mode):
            error, names = self.frames(lambda: self.call(self.user_function))
        self.assertEqual(names[-2:], ["<lambda>", "user_function"])
        self.assertNotIn("call", names)
        self.assertNotIn("reraise_with_filtered_traceback", names)
        if mode == "remove_frames":
            cause = error.__cause__
            self.assertIsInstance(cause, traceback_util.UnfilteredStackTrace)
            names = [f.name for f in traceback.extract_tb(cause.__traceback__)]
            self.assertIn("call", names)
            self.assertIn("test_removed", names)
        else:
            self.assertIn("JAX_TRACEBACK_FILTERING=off", error.__notes__[0])

    def test_only_the_outermost_boundary_filters(self):
        with config.traceback_filtering("quiet_remove_frames"):
            error, names = self.frames(
                lambda: self.call(lambda: self.call(lambda: self.call(self.user_function)))
            )
        self.assertEqual(names[-4:], ["<lambda>"] * 3 + ["user_function"])
        self.assertLen(error.__notes__, 1)

    def test_error_inside(self):
        with config.traceback_filtering("quiet_remove_frames"):
            _, names = self.frames(lambda: self.fail_inside())
        self.assertEqual(names[-1], "<lambda>")

    def test_tracebackhide(self):
        with config.traceback_filtering("tracebackhide"):
            error, _ = self.frames(lambda: self.call(self.user_function))
        hidden = {
            tb.tb_frame.f_code.co_name: "__tracebackhide__" in tb.tb_frame.f_locals
            for tb in traceback_util._walk(error.__traceback__)
        }
        self.assertTrue(hidden["call"])
        self.assertTrue(hidden["reraise_with_filtered_traceback"])
        self.assertFalse(hidden["user_function"])

    def test_causes_are_kept(self):
        def f():
            try:
                raise KeyError("first")
            except KeyError as err:
                raise ValueError("second") from err

        for mode in ("quiet_remove_frames", "remove_frames"):
            with config.traceback_filtering(mode):
                error, _ = self.frames(lambda: self.call(f))
            text = "".join(traceback.format_exception(error))
            self.assertIn("first", text)
            self.assertIn("second", text)

    def test_interrupts_pass(self):
        def interrupt():
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt) as raised:
            self.call(interrupt)
        self.assertFalse(hasattr(raised.exception, "__notes__"))

    def test_boundary_keeps_name_and_result(self):
        def f(x, *, y):
            """Doc."""
            return x + y

        g = traceback_util.api_boundary(f)
        self.assertEqual((g.__name__, g.__doc__, g(1, y=2)), ("f", "Doc.", 3))

    def test_user_stacklevel(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            library(
                """
                import warnings
                from jax._src import traceback_util

                def outer():
                    inner()

                def inner():
                    warnings.warn("x", stacklevel=traceback_util.user_stacklevel())
                """
            ).outer()
        self.assertEqual(seen[0].filename, __file__)


class FakeTracer:
    aval = "bool[3]"

    def _error_repr(self):
        return "traced array with shape bool[3]"

    def _origin_msg(self):
        return "\nThe function f at model.py:3 was traced for jit."


class ErrorsTest(parameterized.TestCase):
    @parameterized.parameters(
        (errors.ConcretizationTypeError, TypeError),
        (errors.TracerBoolConversionError, errors.ConcretizationTypeError),
        (errors.TracerArrayConversionError, errors.JAXTypeError),
        (errors.TracerIntegerConversionError, errors.JAXTypeError),
        (errors.NonConcreteBooleanIndexError, IndexError),
    )
    def test_of_tracers(self, cls, base):
        error = cls(FakeTracer())
        self.assertIsInstance(error, base)
        self.assertIn("bool[3]", str(error))
        self.assertIn("model.py:3", str(error))
        self.assertEndsWith(
            str(error), f"https://docs.jax.dev/en/latest/errors.html#jax.errors.{cls.__name__}"
        )
        self.assertEqual(cls.__module__, "jax.errors")
        self.assertIn("Remed", cls.__doc__)
        self.assertIn(">>>", cls.__doc__)

    def test_others(self):
        self.assertIn("#jax.errors.KeyReuseError", str(errors.KeyReuseError("twice")))
        self.assertIn("leaked", str(errors.UnexpectedTracerError("leaked")))
        self.assertIn("because", str(errors.ConcretizationTypeError(FakeTracer(), "because")))
        self.assertTrue(issubclass(errors.JaxRuntimeError, RuntimeError))
        self.assertTrue(issubclass(errors.JaxprTypeError, TypeError))


class MonitoringTest(parameterized.TestCase):
    def tearDown(self):
        monitoring.clear_event_listeners()
        super().tearDown()

    def test_all_kinds(self):
        seen = []

        def listen(*args, **kwargs):
            seen.append((*args, kwargs))

        monitoring.register_event_listener(listen)
        monitoring.register_event_duration_secs_listener(listen)
        monitoring.register_event_time_span_listener(listen)
        monitoring.register_scalar_listener(listen)
        for kind in ("event", "event_duration", "event_time_span", "scalar"):
            listeners = getattr(monitoring, f"get_{kind}_listeners")()
            self.assertIn(listen, listeners)
            listeners.clear()  # a copy
        monitoring.record_event("/a", x=1)
        monitoring.record_event_duration_secs("/b", 0.5)
        monitoring.record_event_time_span("/c", 1.0, 2.0)
        monitoring.record_scalar("/d", 7, y="z")
        self.assertEqual(
            seen,
            [("/a", {"x": 1}), ("/b", 0.5, {}), ("/c", 1.0, 2.0, {}), ("/d", 7, {"y": "z"})],
        )
        monitoring.unregister_event_listener(listen)
        monitoring.unregister_event_duration_listener(listen)
        monitoring.unregister_event_time_span_listener(listen)
        monitoring.unregister_scalar_listener(listen)
        monitoring.record_event("/a")
        self.assertLen(seen, 4)
        with self.assertRaisesRegex(ValueError, "not registered"):
            monitoring.unregister_event_listener(listen)


class DeprecationsTest(parameterized.TestCase):
    def test_names_of_a_module(self):
        module = types.ModuleType("jax_old_module")
        module.__getattr__ = deprecations.deprecation_getattr(
            "jax_old_module", {"going": ("going is going", 1), "gone": ("gone is gone", None)}
        )
        with self.assertWarnsRegex(DeprecationWarning, "going is going") as w:
            self.assertEqual(module.going, 1)
        self.assertEqual(w.filename, __file__)
        with self.assertRaisesRegex(AttributeError, "gone is gone"):
            _ = module.gone
        with self.assertRaisesRegex(AttributeError, "has no attribute 'other'"):
            _ = module.other
        deprecations.accelerate_getattr_deprecation(module, "going")
        with self.assertRaisesRegex(AttributeError, "going is going"):
            _ = module.going

    def test_behaviour(self):
        deprecations.register("test-behaviour")
        with self.assertWarnsRegex(DeprecationWarning, "soon"):
            deprecations.warn("test-behaviour", "soon", stacklevel=1)
        deprecations.accelerate("test-behaviour")
        with self.assertRaisesRegex(TypeError, "soon"):
            deprecations.warn("test-behaviour", "soon", 1, error_class=TypeError)
        deprecations.unregister("test-behaviour")
        with self.assertRaisesRegex(ValueError, "not registered"):
            deprecations.accelerate("test-behaviour")


class PrettyPrinterTest(parameterized.TestCase):
    def test_layout(self):
        doc = pp.group(pp.nest(2, pp.concat([pp.text("hello"), pp.brk(), pp.text("world")])))
        self.assertEqual(str(doc), "hello world")
        self.assertEqual(doc.format(width=5), "hello\n  world")
        self.assertEqual(str(pp.join(pp.text(", "), [pp.text("a")] * 3)), "a, a, a")
        self.assertEqual(str(pp.text("a") + pp.text("b")), "ab")
        self.assertEqual(str(pp.nil()), "")

    def test_color(self):
        doc = pp.color(pp.text("a"), foreground=pp.Color.RED)
        self.assertEqual(doc.format(use_color=False), "a")
        self.assertEqual(doc.format(use_color=True), "\x1b[31ma\x1b[39m")
        with config.pprint_use_color(False):
            self.assertEqual(doc.format(), "a")
        self.assertIn("a", pp.type_annotation(pp.text("a")).format(use_color=True))
        self.assertEqual(pp.can_use_color(), sys.stdout.isatty())


if __name__ == "__main__":
    absltest.main()
