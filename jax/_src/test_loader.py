"""Loading tests by name, and running them in several threads."""

import contextlib
import os
import re
import threading
import unittest
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from absl.testing import absltest

from jax._src import config, test_warning_util

_TEST_TARGETS = config.string_flag(
    "test_targets",
    os.getenv("JAX_TEST_TARGETS", ""),
    "Regular expression for the names of tests that run, as Class.test_name; empty for all tests.",
)
_EXCLUDE_TEST_TARGETS = config.string_flag(
    "exclude_test_targets",
    os.getenv("JAX_EXCLUDE_TEST_TARGETS", ""),
    "Regular expression for the names of tests that do not run, as Class.test_name.",
)
TEST_NUM_THREADS = config.int_flag(
    "jax_test_num_threads",
    int(os.getenv("JAX_TEST_NUM_THREADS", "0")),
    "Number of threads that run tests; 0 runs them one at a time in the main thread.",
)


class _ReadWriteLock:
    """A lock that several readers hold at once, or one writer, who may take it again."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers: dict[int, int] = {}  # by thread
        self._writer: int | None = None
        self._depth = 0

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._condition:
            self._condition.wait_for(lambda: self._writer in (None, me))
            self._readers[me] = self._readers.get(me, 0) + 1
        try:
            yield
        finally:
            with self._condition:
                self._readers[me] -= 1
                if not self._readers[me]:
                    del self._readers[me]
                self._condition.notify_all()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Wait for the others; what this thread reads already does not count, nor does any thread
        that waits here for the same, since it does nothing meanwhile."""
        me = threading.get_ident()
        with self._condition:
            held = self._readers.pop(me, 0)
            self._condition.notify_all()
            self._condition.wait_for(
                lambda: self._writer == me or (self._writer is None and not self._readers)
            )
            self._writer = me
            self._depth += 1
        try:
            yield
        finally:
            with self._condition:
                self._depth -= 1
                if not self._depth:
                    self._writer = None
                if held:
                    self._readers[me] = held
                self._condition.notify_all()


_test_rwlock = _ReadWriteLock()


@contextlib.contextmanager
def thread_unsafe_test(condition: bool = True) -> Iterator[None]:
    """Decorator and context manager: no other test runs at the same time.

    `setUp` and `tearDown` of the test are not part of it; see `thread_unsafe_test_class`.

    Args:
      condition: False leaves the test as it is.
    """
    if not condition:
        yield
        return
    with _test_rwlock.writing():
        yield


def thread_unsafe_test_class(condition: bool = True) -> Callable[[type], type]:
    """Class decorator: no other test runs at the same time as one of these.

    Args:
      condition: False leaves the class as it is.
    """

    def decorate(cls: type) -> type:
        if not issubclass(cls, unittest.TestCase):
            raise TypeError(f"thread_unsafe_test_class decorates classes of tests, got {cls}")
        cls.thread_hostile = condition  # type: ignore[attr-defined]
        return cls

    return decorate


class ThreadSafeTestResult:
    """Hands what happens in one test on to a `unittest.TestResult` in one piece, under a lock."""

    def __init__(self, lock: Any, result: unittest.TestResult) -> None:
        self.lock = lock
        self.test_result = result
        self.failfast = getattr(
            result, "failfast", False
        )  # whether a subtest's failure ends a test
        self.actions: list[Callable[[], Any]] = []

    def startTest(self, test: unittest.TestCase) -> None:
        self.actions.append(lambda: self.test_result.startTest(test))

    def stopTest(self, test: unittest.TestCase) -> None:
        self.actions.append(lambda: self.test_result.stopTest(test))
        with self.lock:
            for action in self.actions:
                action()
        self.actions = []

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.actions.append(lambda: self.test_result.addSuccess(test))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.actions.append(lambda: self.test_result.addSkip(test, reason))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.actions.append(lambda: self.test_result.addError(test, err))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.actions.append(lambda: self.test_result.addFailure(test, err))

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.actions.append(lambda: self.test_result.addExpectedFailure(test, err))

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.actions.append(lambda: self.test_result.addUnexpectedSuccess(test))

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        self.actions.append(lambda: self.test_result.addSubTest(test, subtest, err))

    def addDuration(self, test: unittest.TestCase, elapsed: float) -> None:  # from Python 3.12
        add = getattr(self.test_result, "addDuration", None)
        if add is not None:
            self.actions.append(lambda: add(test, elapsed))


def _run_one_test(test: unittest.TestCase, result: ThreadSafeTestResult) -> None:
    hostile = getattr(test.__class__, "thread_hostile", False)
    with _test_rwlock.writing() if hostile else _test_rwlock.reading():
        if result.test_result.shouldStop:  # after a failure, if that is to end the run
            return
        test(result)  # type: ignore[arg-type]


class JaxTestSuite(unittest.TestSuite):
    """Runs tests in threads if the option `jax_test_num_threads` is positive.

    Then `setUpClass` and `setUpModule` are not called.
    """

    def run(self, result: unittest.TestResult, debug: bool = False) -> unittest.TestResult:
        if TEST_NUM_THREADS.value <= 0:
            return super().run(result, debug)
        lock = threading.Lock()
        # One handler for all threads: what one test installs, the end of another would remove.
        with warnings.catch_warnings(), ThreadPoolExecutor(TEST_NUM_THREADS.value) as pool:
            test_warning_util.install_threadsafe_warning_handlers()
            for one in [pool.submit(_run_one_test, t, r) for t, r in self._cases(result, lock)]:
                one.result()
        return result

    def _cases(self, result: unittest.TestResult, lock: Any) -> Iterator[tuple[Any, Any]]:
        for test in self:
            if isinstance(test, JaxTestSuite):
                yield from test._cases(result, lock)
            else:
                yield test, ThreadSafeTestResult(lock, result)


class JaxTestLoader(absltest.TestLoader):
    """Loads tests, by name if the options `test_targets` and `exclude_test_targets` are set.

    A method whose name starts with `Test` is an error: it would never run.
    """

    suiteClass = JaxTestSuite

    def getTestCaseNames(self, testCaseClass):
        names = list(super().getTestCaseNames(testCaseClass))

        def matches(pattern: str, name: str) -> bool:
            return re.search(pattern, f"{testCaseClass.__name__}.{name}") is not None

        if _TEST_TARGETS.value:
            names = [n for n in names if matches(_TEST_TARGETS.value, n)]
        if _EXCLUDE_TEST_TARGETS.value:
            names = [n for n in names if not matches(_EXCLUDE_TEST_TARGETS.value, n)]
        return names
