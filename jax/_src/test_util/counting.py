"""Counters of traces, lowerings, compilations and transfers."""

import collections
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax._src import array_impl, compiler, config, core, dispatch, monitoring, util
from jax._src.device_put import values
from jax._src.interpreters import partial_eval as pe
from jax._src.lib import _jax


class EventThreadLocalState(threading.local):
    """What is counted in this thread."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # by event, while a counter is active
        self.nested_device_put_count = 0
        self.lower_jaxpr_to_fun_counts: collections.Counter | None = None
        self.collect_lowered_jaxprs: list | None = None


thread_local_state = EventThreadLocalState()


class NotPresent:
    """Stands for an attribute or a variable that was not there."""

    def __repr__(self) -> str:
        return "<not present>"


def event_listener(name: str, *args: Any) -> None:
    """Counts an event of this thread; called by `util.test_event`."""
    counts = thread_local_state.counts
    if name in counts:
        counts[name] += 1
    functions = thread_local_state.lower_jaxpr_to_fun_counts
    if name == "lower_jaxpr_to_fun" and functions is not None:
        functions[args[0]] += 1
    lowered = thread_local_state.collect_lowered_jaxprs
    if name == "lowered_jaxpr" and lowered is not None:
        lowered.append(args)


util.test_event_listener = event_listener


def count_events(event: str) -> Callable[[], contextlib.AbstractContextManager]:
    """Returns a context manager, which yields a function that returns the number of events.

    >>> count_lowerings = count_events("lower_jaxpr_to_module")
    >>> with count_lowerings() as count:
    ...     _ = jax.jit(lambda x: x).lower(1.0)
    >>> count()
    1
    """

    @contextlib.contextmanager
    def count_event() -> Iterator[Callable[[], int]]:
        counts = thread_local_state.counts
        outer = event in counts
        before = counts.setdefault(event, 0)
        total: list[int] = []
        try:
            yield lambda: total[0] if total else counts[event] - before
        finally:
            total.append(counts[event] - before)
            if not outer:
                del counts[event]

    return count_event


class CallCounter:
    """The number of calls of a function: `counter()`."""

    def __init__(self) -> None:
        self.value = 0

    def __call__(self) -> int:
        return self.value


@contextlib.contextmanager
def _count_calls(*functions: tuple[Any, str]) -> Iterator[CallCounter]:
    """Counts calls of functions, each given as a module and a name, in all threads."""
    counter = CallCounter()

    def counting(original: Callable) -> Callable:
        @functools.wraps(original)
        def call(*args, **kwargs):
            counter.value += 1
            return original(*args, **kwargs)

        return call

    originals = [(owner, name, getattr(owner, name)) for owner, name in functions]
    try:
        for owner, name, original in originals:
            setattr(owner, name, counting(original))
        yield counter
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def count_jit_tracing_cache_miss():
    """Count functions traced to jaxprs, by `jit` and by other code that stages out functions."""
    return _count_calls((pe, "trace_to_jaxpr_dynamic"))


def count_jit_and_pmap_lowerings():
    """Count lowered programs."""
    return count_events("lower_jaxpr_to_module")()


def count_jit_compilation_cache_miss():
    """Count programs that are compiled, or taken from the persistent cache."""
    return _count_calls((compiler, "compile_or_get_cached"))


def count_compilation_after_persistent_cache_miss():
    """Count programs that are compiled."""
    return _count_calls((compiler, "backend_compile_and_load"))


def count_primitive_compiles():
    """Count operations that are run by themselves, once for all calls with the same parameters."""
    dispatch.EagerPrograms.cache_clear()
    return count_events("operation_compiled")()


def count_pjit_cpp_cache_miss():
    """Count calls of jitted functions that the native cache has no program for."""
    return count_events("jit_cpp_cache_miss")()


def count_aot_jit_cpp_cache_miss():
    """Count calls of compiled stages that Python has to prepare."""
    return count_events("compiled_call_cache_miss")()


def count_device_put():
    """Count transfers of values to devices."""
    return _count_calls((values, "_batched_device_put"), (array_impl, "_batched_device_put"))


def count_device_put_fast_path_hit():
    """Count arrays that are moved between devices of this process, without other processes."""
    return _count_calls((values, "_move_here"))


def count_jax_array_shard_arg_calls():
    """Count arrays that are laid out on other devices, also to be arguments of programs."""
    return _count_calls((values, "_move_here"))


@contextlib.contextmanager
def count_internal_device_puts() -> Iterator[Callable[[], dict[str, int]]]:
    """Count transfers inside the runtime, by kind."""
    before = _jax.get_internal_device_put_info()
    after: list[dict[str, int]] = []

    def counts() -> dict[str, int]:
        found = after[0] if after else _jax.get_internal_device_put_info()
        return {k: n - before.get(k, 0) for k, n in found.items() if n != before.get(k, 0)}

    try:
        yield counts
    finally:
        after.append(_jax.get_internal_device_put_info())


@contextlib.contextmanager
def count_subjaxpr_to_hlo_conversion(fun_name: str) -> Iterator[Callable[[], int]]:
    """Count functions of this name in lowered programs."""
    outer = thread_local_state.lower_jaxpr_to_fun_counts
    counts = thread_local_state.lower_jaxpr_to_fun_counts = collections.Counter()
    try:
        yield lambda: counts[fun_name]
    finally:
        thread_local_state.lower_jaxpr_to_fun_counts = outer


@contextlib.contextmanager
def collect_lowered_jaxprs() -> Iterator[Sequence[tuple[core.ClosedJaxpr, Any]]]:
    """Context manager: gathers pairs of the jaxpr and the module of each lowered program."""
    outer = thread_local_state.collect_lowered_jaxprs
    pairs: list[tuple[core.ClosedJaxpr, Any]] = []
    thread_local_state.collect_lowered_jaxprs = pairs
    try:
        yield pairs
    finally:
        thread_local_state.collect_lowered_jaxprs = outer


def jaxpr_eqn_count(jaxpr: core.Jaxpr | core.ClosedJaxpr) -> int:
    """The number of equations of a jaxpr, including nested ones."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return len(jaxpr.eqns) + sum(jaxpr_eqn_count(sub) for sub in core.subjaxprs(jaxpr))


def iter_eqns(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """The equations of a jaxpr, each followed by the equations nested in it."""
    for eqn in jaxpr.eqns:
        yield eqn
        for sub in core.jaxprs_in_params(eqn.params):
            yield from iter_eqns(getattr(sub, "jaxpr", sub))


def fwd_bwd_jaxprs(f, *example_args) -> tuple[core.ClosedJaxpr, core.ClosedJaxpr]:
    """The jaxprs of the forward and the backward pass of `f`."""
    fwd, (out_shape, residuals) = jax.make_jaxpr(
        lambda *args: jax.vjp(f, *args), return_shape=True
    )(*example_args)
    return fwd, jax.make_jaxpr(lambda res, outs: res(outs))(residuals, out_shape)


@contextlib.contextmanager
def assert_num_jit_and_pmap_compilations(times: int) -> Iterator[None]:
    """Check the number of programs compiled inside the context."""
    with count_jit_compilation_cache_miss() as count:
        yield
    if count() != times:
        raise AssertionError(f"Expected exactly {times} XLA compilations, but executed {count()}")


@contextlib.contextmanager
def assert_global_configs_unchanged() -> Iterator[None]:
    """Check that no global value of an option changes inside the context."""
    before = {name: h.get_global() for name, h in _states()}
    yield
    changed = {n: (before[n], h.get_global()) for n, h in _states() if h.get_global() != before[n]}
    if changed:
        raise AssertionError(f"options that were changed and not restored: {changed}")


def _states() -> list[tuple[str, config.State]]:
    holders = config.config._value_holders.items()
    return [(name, h) for name, h in holders if isinstance(h, config.State)]


def assert_dot_precision(expected_precision: Any, fun, *args) -> None:
    """Checks the precision of every matrix product and convolution in `fun`."""
    for eqn in iter_eqns(jax.make_jaxpr(fun)(*args).jaxpr):
        if "precision" in eqn.params and eqn.params["precision"] != expected_precision:
            raise AssertionError(
                f"precision {eqn.params['precision']} != {expected_precision} in {eqn}"
            )


def assert_dot_preferred_element_type(expected: Any, fun, *args, **kwargs) -> None:
    """Checks the preferred element type of every matrix product in `fun`."""
    jaxpr = jax.make_jaxpr(functools.partial(fun, **kwargs))(*args)
    for eqn in iter_eqns(jaxpr.jaxpr):
        found = eqn.params.get("preferred_element_type", expected)
        if found != expected:
            raise AssertionError(f"preferred element type {found} != {expected} in {eqn}")


@contextlib.contextmanager
def register_event_duration_listener(callback: Any) -> Iterator[None]:
    """Report durations to `callback(event, seconds, **metadata)` inside the context."""
    monitoring.register_event_duration_secs_listener(callback)
    try:
        yield
    finally:
        monitoring.unregister_event_duration_listener(callback)
