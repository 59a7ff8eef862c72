"""Events and durations that `jax.monitoring` records, for programs."""

import collections
import contextlib
import tempfile

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import monitoring
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import AxisType, Mesh, PartitionSpec as P

CASES = Programs()
X = np.arange(4, dtype=np.float32)


def recorded(run):
    """How often each event is recorded, with the names of what it tells."""
    events = collections.Counter()

    def listener(kind):
        return lambda event, *values, **tags: events.update([(kind, event, *sorted(tags))])

    kinds = dict(
        event=(monitoring.register_event_listener, monitoring.unregister_event_listener),
        duration=(
            monitoring.register_event_duration_secs_listener,
            monitoring.unregister_event_duration_listener,
        ),
        scalar=(monitoring.register_scalar_listener, monitoring.unregister_scalar_listener),
        span=(
            monitoring.register_event_time_span_listener,
            monitoring.unregister_event_time_span_listener,
        ),
    )
    listeners = {kind: listener(kind) for kind in kinds}
    for kind, (register, _) in kinds.items():
        register(listeners[kind])
    try:
        jax.block_until_ready(run())
    finally:
        for kind, (_, unregister) in kinds.items():
            unregister(listeners[kind])
    # This one is recorded once a process.
    events.pop(("event", "/jax/compilation_cache/tasks_using_cache"), None)
    return str(sorted(events.items()))


def add(**programs):
    """Add programs: each is a function that prepares, and returns what is recorded."""
    for name, prepare in programs.items():
        CASES.add(name, lambda prepare=prepare: recorded(prepare()))


def called(fun, *args):
    fun(*args)
    return fun


def sharded():
    mesh = Mesh(np.array(jax.devices()[:1]), "x", (AxisType.Auto,))
    return jax.jit(jax.shard_map(jnp.sin, mesh=mesh, in_specs=P("x"), out_specs=P("x")))


def lambda_of(number):
    return lambda x: x * number


add(
    first_call=lambda: lambda f=jax.jit(lambda_of(2)): f(X),
    second_call=lambda: lambda f=called(jax.jit(lambda_of(3)), X): f(X),
    other_shape=lambda: lambda f=called(jax.jit(lambda_of(4)), X): f(X[:2]),
    nested=lambda: lambda f=jax.jit(lambda x: jax.jit(lambda_of(5))(x) + 1): f(X),
    trace=lambda: lambda f=jax.jit(lambda_of(6)): f.trace(X).out_info.dtype.type(0),
    lower=lambda: lambda f=jax.jit(lambda_of(7)): (f.lower(X), X)[1],
    compile=lambda: lambda f=jax.jit(lambda_of(8)).lower(X): (f.compile(), X)[1],
    compiled_call=lambda: lambda f=jax.jit(lambda_of(9)).lower(X).compile(): f(X),
    jit_of_grad=lambda: lambda f=jax.jit(jax.grad(lambda x: (x**2).sum())): f(X),
    jit_of_vmap=lambda: lambda f=jax.jit(jax.vmap(lambda_of(10))): f(X),
    pmap=lambda: lambda f=jax.pmap(lambda_of(11)): f(X[None]),
    shard_map=lambda: lambda f=sharded(): f(X),
    callback=lambda: lambda f=jax.jit(lambda x: jax.pure_callback(lambda a: a, x, x)): f(X),
    make_jaxpr=lambda: lambda: (jax.make_jaxpr(lambda_of(12))(X), X)[1],
    device_put=lambda: lambda: jax.device_put(X),
)


@contextlib.contextmanager
def cache():
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: jax.config.values[name] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, value in zip(names, (folder, 0, 0)):
                jax.config.update(name, value)
            compilation_cache.reset_cache()
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)
            compilation_cache.reset_cache()


@CASES.define
def compilation_cache_miss_and_hit():
    fun = lambda x: x * 13
    with cache():
        miss = recorded(lambda: jax.jit(fun)(X))
        jax.clear_caches()
        return miss, recorded(lambda: jax.jit(fun)(X))
