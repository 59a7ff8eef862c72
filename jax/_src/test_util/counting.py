"""Counters of traces, lowerings, compilations and transfers."""

import collections
import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import jax
from jax._src import config, core, dtypes, monitoring, util
from jax._src.device_put import values
from jax._src.interpreters import partial_eval as pe


class EventCounter:
    """A counter of events; `count()` is their number."""

    def __init__(self) -> None:
        self.value = 0
        self.keys: collections.Counter = collections.Counter()

    def __call__(self) -> int:
        return self.value

    def __getitem__(self, key) -> int:
        return self.keys[key]


@contextlib.contextmanager
def count_events(name: str) -> Iterator[EventCounter]:
    """Count the events `name` reported by `util.test_event` in this thread."""
    counter, thread = EventCounter(), threading.get_ident()
    previous = util.test_event_listener

    def listen(event, *args):
        if event == name and threading.get_ident() == thread:
            counter.value += 1
            if args:
                counter.keys[args[0]] += 1
        if previous is not None:
            previous(event, *args)

    util.test_event_listener = listen
    try:
        yield counter
    finally:
        util.test_event_listener = previous


@contextlib.contextmanager
def _count_calls(owner: Any, name: str) -> Iterator[EventCounter]:
    original = getattr(owner, name)
    counter = EventCounter()

    @functools.wraps(original)
    def counting(*args, **kwargs):
        counter.value += 1
        return original(*args, **kwargs)

    setattr(owner, name, counting)
    try:
        yield counter
    finally:
        setattr(owner, name, original)


def count_jit_tracing_cache_miss():
    """Count functions traced to jaxprs, by `jit` and by other code that stages out functions."""
    return _count_calls(pe, "trace_to_jaxpr_dynamic")


def count_jit_and_pmap_lowerings():
    """Count lowered programs."""
    return _count_calls(jax._src.interpreters.mlir, "lower_jaxpr_to_module")


def count_jit_compilation_cache_miss():
    """Count compiled programs."""
    return _count_calls(jax._src.compiler, "backend_compile_and_load")


count_primitive_compiles = count_jit_compilation_cache_miss


def count_device_put():
    """Count transfers of values to devices."""
    return _count_calls(values, "_batched_device_put")


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
        raise AssertionError(f"expected {times} compilations, got {count()}")


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


# Counters that outside code imports


def count_pjit_cpp_cache_miss():
    """Count calls of jitted functions that the native cache has no program for."""
    return count_events("jit_cpp_cache_miss")


@contextlib.contextmanager
def count_subjaxpr_to_hlo_conversion(fun_name: str) -> Iterator[Any]:
    """Count functions of this name in lowered programs: `with ... as count: ...; count()`."""
    with count_events("lower_jaxpr_to_fun") as counter:
        yield lambda: counter[fun_name]


@contextlib.contextmanager
def register_event_duration_listener(callback: Any) -> Iterator[None]:
    """Report durations to `callback(event, seconds, **metadata)` inside the context."""
    monitoring.register_event_duration_secs_listener(callback)
    try:
        yield
    finally:
        monitoring.unregister_event_duration_listener(callback)


def check_dtypes_match(xs: Any, ys: Any) -> None:
    """Checks that two trees of arrays and numbers have the same dtypes, leaf by leaf."""

    def check(x: Any, y: Any) -> None:
        found = tuple([dtypes.canonicalize_dtype(dtypes.dtype(v)) for v in (x, y)])
        if found[0] != found[1]:
            raise AssertionError(f"dtypes differ: {found[0]} != {found[1]}")

    jax.tree.map(check, xs, ys)
