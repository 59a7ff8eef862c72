"""Why functions are traced and compiled again: the cause, old and new, the line and the remedy of each planted miss."""

import contextlib
import dataclasses
import functools
import inspect
import logging
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import compile_summary, config
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P, SingleDeviceSharding

if not jax._src.xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

X = np.ones(3, np.float32)


def this_line() -> int:
    return inspect.currentframe().f_back.f_lineno


def explained(*calls):
    """The explanation of the miss of the last call; those before make the entries that it misses."""
    with jax.debug.explain_cache_miss(quiet=True) as misses:
        for call in calls[:-1]:
            call()
        misses.clear()
        calls[-1]()
    (miss,) = [m for m in misses if "cache_misses_test" in m.defined_at]
    return miss


def f(x, y=None, *, scale=1.0):
    return jax.tree.map(lambda x: x * scale, x)


@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float


class Opaque:
    pass


KEYS = [jax.random.key(0, impl=impl) for impl in ("threefry2x32", "rbg")]


# cause of the miss, its path, parts of old and new, and of the remedy; two calls
CASES = {
    "shape": ("shape", "x", "f32[3]", "f32[2]", "pad x to few sizes", lambda f: f(X), lambda f: f(X[:2])),
    "rank": ("shape", "x", "f32[3]", "f32[1,3]", "same number of axes", lambda f: f(X), lambda f: f(X[None])),
    "dtype": ("dtype", "x", "f32[3]", "i32[3]", 'jnp.asarray(x, "float32")', lambda f: f(X), lambda f: f(X.astype("int32"))),
    "bfloat16": ("dtype", "x", "bf16[3]", "f32[3]", '"bfloat16"', lambda f: f(X.astype(jnp.bfloat16)), lambda f: f(X)),
    "float8": ("dtype", "x", "f8_e4m3fn[3]", "f32[3]", '"float8_e4m3fn"', lambda f: f(X.astype(jnp.float8_e4m3fn)), lambda f: f(X)),
    "bool": ("dtype", "x", "bool[3]", "f32[3]", "jnp.asarray(x, bool)", lambda f: f(X > 0), lambda f: f(X)),
    "random keys": ("dtype", "y", "key<fry>[]", "key<rbg>[]", "one dtype", lambda f: f(X, KEYS[0]), lambda f: f(X, KEYS[1])),
    "number and key": ("dtype", "y", "f32[]", "key<fry>[]", "one dtype", lambda f: f(X, X[0]), lambda f: f(X, KEYS[0])),
    "leaf": ("shape", "x['w'][1]", "f32[3]", "f32[2]", "x['w'][1]", lambda f: f({"w": [X, X]}), lambda f: f({"w": [X, X[:2]]})),
    "weak type": ("weak type", "x", "f32[] (weakly typed)", "f32[]", "a Python number in one call", lambda f: f(1.0), lambda f: f(jnp.float32(1))),
    "structure": ("structure", "x['a']", "leaf", "tuple", "one structure", lambda f: f({"a": X}), lambda f: f({"a": (X,)})),
    "keys": ("structure", "x", "dict", "dict", "the same keys", lambda f: f({"a": X}), lambda f: f({"a": X, "b": X})),
    "none": ("structure", "y", "None", "leaf", "None either always or never", lambda f: f(X, None), lambda f: f(X, X)),
    "positions": ("call", "positional arguments", "1", "2", "in one way", lambda f: f(X), lambda f: f(X, X)),
    "keywords": ("call", "keyword arguments", "(none)", "(scale)", "in one way", lambda f: f(X), lambda f: f(X, scale=2.0)),
    "configuration": ("configuration", "jax_numpy_rank_promotion", "allow", "raise", "once, at the start", lambda f: f(X), lambda f: with_option(f)),
    "mesh": ("mesh", "abstract_mesh_context_manager", "None", "'a': 2", "jax.set_mesh once", lambda f: f(X), lambda f: in_mesh(f)),
    "sharding": ("sharding", "x", "f32[2]", "f32[2@a]", "one sharding", lambda f: on_mesh(f, P()), lambda f: on_mesh(f, P("a"))),
}  # fmt: skip


def with_option(f):
    with jax.numpy_rank_promotion("raise"):
        f(X)


def mesh():
    return jax.make_mesh((2,), ("a",), axis_types=(AxisType.Explicit,))


def in_mesh(f):
    with jax.set_mesh(mesh()):
        f(X)


def on_mesh(f, spec):
    with jax.set_mesh(mesh()):
        f(jax.device_put(X[:2], NamedSharding(mesh(), spec)))


@pytest.mark.parametrize("name", CASES)
def test_planted_misses(name):
    kind, path, old, new, remedy, first, second = CASES[name]
    jitted = jax.jit(functools.wraps(f)(lambda *args, **kwargs: f(*args, **kwargs)))
    miss = explained(lambda: first(jitted), lambda: second(jitted))
    assert miss.kind == "traced" and miss.name == "f"
    change = miss.changes[0]
    assert (change.kind, change.path) == (kind, path)
    assert old in change.old and new in change.new
    assert remedy in miss.remedy
    assert str(miss).endswith(f"remedy: {miss.remedy}") and f"{change.old} -> {change.new}" in str(
        miss
    )


def static(value, other):
    g = jax.jit(lambda n, x: x, static_argnums=0)
    return explained(lambda: g(value, X), lambda: g(other, X))


def test_static_arguments():
    miss = static(1, 2)
    assert miss.changes == (("static argument", "n", "1", "2", ""),)
    assert "each value of n is a program" in miss.remedy
    miss = static(Settings(0.1), Settings(0.2))
    assert miss.changes[0].new == "Settings(rate=0.2)" and "each value" in miss.remedy
    assert "__eq__ and __hash__" in static(Opaque(), Opaque()).remedy
    assert "the same function for n" in static(lambda: 0, lambda: 0).remedy
    miss = static(float("nan"), float("nan"))
    assert "n: nan -> nan (nan does not equal nan)" in str(miss) and "such as None" in miss.remedy
    g = jax.jit(lambda x, y=None, *, n=1, mode="a": x, static_argnames=("n", "mode"))
    calls = lambda: g(X), lambda: g(X, X)
    for last, change in (
        (lambda: g(X, n=2), ("static argument", "n", "1", "2")),
        (lambda: g(X, mode="b"), ("static argument", "mode", "'a'", "'b'")),
        (lambda: g(X, n=1), ("call", "static arguments", "[]", "[1]")),
        (lambda: g(x=X), ("call", "positional arguments", "1", "0")),
    ):
        jax.clear_caches()
        assert explained(*calls, last).changes[0][:4] == change
    jax.clear_caches()
    g = jax.jit(lambda x, weights=np.ones(2): x, static_argnames="weights")
    # A default that cannot be compared with the value, as an array has no truth value.
    (change,) = explained(lambda: g(X), lambda: g(X, weights=2)).changes
    assert change[:2] == ("static argument", "weights") and change.new == "2"
    g = jax.jit(lambda x, *, mode: x, static_argnames="mode")
    miss = explained(lambda: g(X, mode="a"), lambda: g(X, mode="b"))
    assert miss.changes[0][:4] == ("static argument", "mode", "'a'", "'b'")


def test_methods_name_self():
    class Model:
        @functools.partial(jax.jit, static_argnums=0)
        def run(self, x):
            return x

    miss = explained(lambda: Model().run(X), lambda: Model().run(X))
    assert miss.changes[0].path == "self" and "class of self" in miss.remedy


def test_options():
    def g(x, y):
        return x

    miss = explained(lambda: jax.jit(g)(X, X), lambda: jax.jit(g, donate_argnums=1)(X, jnp.ones(3)))
    assert miss.changes == (("options", "donate_argnames", "()", "('y',)", ""),)
    assert miss.cause == "options of donate_argnames" and "jit g once" in miss.remedy


@pytest.mark.parametrize(
    ("options", "path", "old", "new"),
    [
        (dict(static_argnums=1), "static_argnames", "()", "('n',)"),
        (dict(keep_unused=True), "keep_unused", "False", "True"),
        (dict(inline=True), "inline", "False", "True"),
        (dict(compiler_options={"xla_cpu_enable_fast_math": True}), "compiler_options", "{}", "True}"),
        (dict(in_shardings=SingleDeviceSharding(jax.devices()[0])), "in_shardings", "unspecified", "CpuDevice"),
        (dict(out_shardings=(None, None)), "out_shardings", "unspecified", "(None, None)"),
    ],
)  # fmt: skip
def test_options_by_name(options, path, old, new):
    def g(x, n):
        return x, n

    miss = explained(lambda: jax.jit(g)(X, 2), lambda: jax.jit(g, **options)(X, 2))
    (change,) = miss.changes
    assert miss.kind == "traced"  # and no further one, "compiled"
    assert (change.kind, change.path, change.old) == ("options", path, old) and new in change.new


def test_options_of_traced_functions():
    def g(x):
        return x + 1

    jax.jit(g)(X)
    donating = jax.jit(g, donate_argnums=0)
    donating.trace(jnp.ones(3))
    miss = explained(lambda: None, lambda: donating(jnp.ones(3)))  # its trace is not new
    assert miss.kind == "compiled" and miss.changes[0].path == "donated_invars"


# Functions that are defined anew


def test_new_function():
    def call():
        return jax.jit(lambda x: x + 1)(X)

    miss = explained(call, call)
    assert miss.kind == "new function" and "define <lambda> once" in miss.remedy
    assert not miss.changes and miss.cause == "new function"


def test_closures():
    class Model:
        def __repr__(self):
            raise AssertionError("what is captured is not printed at each trace")

    def call(k, model=Model(), a=X):
        return jax.jit(lambda x: (k, model) and x * a[0])(X)

    miss = explained(lambda: call(1), lambda: call(2))
    assert miss.changes == (("closure", "k", "1", "2", ""),)
    assert "make k an argument of <lambda>" in miss.remedy
    miss = explained(lambda: call(1.5), lambda: call(None))
    assert miss.changes[0][1:4] == ("k", "1.5", "None")
    miss = explained(lambda: call(1), lambda: call(1, a=X.astype(np.float16)))
    assert miss.changes[0][1:4] == ("a", "f32[3]", "f16[3]")


def test_partial():
    def g(n, x):
        return x * n

    call = lambda n: jax.jit(functools.partial(g, n))(X)
    miss = explained(lambda: call(1), lambda: call(2))
    assert miss.changes[0][:4] == ("closure", "argument 0 of partial", "1", "2")


def test_methods_that_are_jitted_in_each_call():
    class Model:
        def run(self, x):
            return x

    model = Model()
    miss = explained(lambda: jax.jit(model.run)(X), lambda: jax.jit(model.run)(X))
    assert miss.kind == "new function" and "self.run = jax.jit(self.run)" in miss.remedy


def test_cleared_caches():
    g = jax.jit(lambda x: x)
    g(X)
    miss = explained(lambda: g(X[:1]), g.clear_cache, lambda: g(X))
    assert miss.kind == "cleared" and "clear_cache" in miss.remedy


# Programs that are only compiled again


def test_placement():
    g = jax.jit(lambda x, y: x + y)
    x = jnp.ones(8)
    devices = jax.make_mesh((4,), ("a",), axis_types=(AxisType.Auto,))
    split = jax.device_put(x, NamedSharding(devices, P("a")))
    whole = jax.device_put(x, NamedSharding(devices, P()))
    miss = explained(lambda: g(whole, split), lambda: g(split, split))
    assert miss.kind == "compiled" and "put x on the same devices" in miss.remedy
    assert miss.changes[0][:2] == ("placement", "x")
    assert miss.changes[0][2:4] == ("P() on mesh {'a': 4}", "P('a',) on mesh {'a': 4}")
    with jax.debug.explain_cache_miss(quiet=True) as misses:
        g(whole, split)
        g(split, split)
    assert misses == []  # both are there


# Lines


def test_lines():
    def inner(x):
        return jnp.sum(x)

    inner, defined = jax.jit(inner), this_line() - 3
    inner(X)

    def outer():
        return inner(X[:2])

    call = this_line() - 2
    miss = explained(outer)
    assert miss.called_at.partition(" (")[0].startswith(f"{__file__}:{call}")
    assert "outer" in miss.called_at
    assert miss.defined_at == f"{__file__}:{defined}"


# Functions that others call


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: jax.lax.scan(lambda c, x: (f(c), x), 1.0, x),
        lambda f, x: jax.lax.while_loop(lambda c: c.sum() < 0, lambda c: f(c), x),
        lambda f, x: jax.lax.fori_loop(0, 2, lambda i, c: f(c), x),
        lambda f, x: jax.lax.cond(True, lambda c: f(c), lambda c: c, x),
        lambda f, x: jax.checkpoint(lambda c: f(c))(x),
    ],
    ids=["scan", "while_loop", "fori_loop", "cond", "checkpoint"],
)
def test_bodies_and_branches(call):
    first, second = [explained_all(lambda: call(lambda c: c * 2.0, X)) for _ in range(2)]
    assert {m.kind for m in first} == {"first"} and not any(m.is_within for m in first)
    assert {m.kind for m in second} == {"new function"}
    assert all("cache_misses_test" in m.defined_at for m in second)


def explained_all(call):
    with jax.debug.explain_cache_miss(quiet=True) as misses:
        call()
    return misses


def test_bodies_that_are_defined_once():
    step = lambda c, x: (c + x.sum(), c)
    miss = explained(
        lambda: jax.lax.scan(step, 0.0, np.ones((3, 2))), lambda: jax.lax.scan(step, 0.0, np.ones((3, 4)))
    )  # fmt: skip
    assert (miss.kind, miss.name) == ("traced", "<lambda>")
    assert miss.changes[0][:2] == ("shape", "x") and "pad x" in miss.remedy
    # another tree of arguments
    miss = explained(
        lambda: jax.lax.fori_loop(0, 2, lambda i, c: c, X),
        lambda: jax.lax.scan(step, 0.0, np.ones(3)), lambda: jax.lax.scan(step, jnp.ones(2), np.ones(3)),
    )  # fmt: skip
    assert miss.changes[0].path == "c"
    keep = jax.checkpoint(lambda c, n: jax.tree.map(lambda c: c * n, c), static_argnums=1)
    miss = explained(lambda: keep(X, 2), lambda: keep(X, 3))
    assert miss.changes[0].kind == "static argument"
    miss = explained(lambda: keep(X, 3), lambda: keep({"a": X}, 3))
    assert miss.changes[0].kind == "structure"


def test_parts_of_another_functions_trace():
    outer = jax.jit(lambda x: jax.jit(lambda x: x * 2)(x))
    with jax.debug.explain_cache_miss(quiet=True) as misses:
        outer(X)
        outer(X[:1])
    assert [(m.kind, m.is_within) for m in misses[2:]] == [
        ("traced", False),
        ("new function", True),
    ]
    assert "as part of the trace of another function" in str(misses[3])


def test_two_functions_of_one_line():
    with jax.debug.explain_cache_miss(quiet=True) as misses:
        jax.lax.cond(True, lambda c: c + 1, lambda c: c + 2, X)
    assert [m.kind for m in misses] == ["first", "first"]


# The context manager


def test_output_and_nesting(capsys, caplog):
    g = jax.jit(lambda x: x)
    with jax.debug.explain_cache_miss() as outer:
        g(X)
        with jax.debug.explain_cache_miss(quiet=True) as inner:
            g(X[:1])
            g(X[:1])
    assert [m.kind for m in outer] == ["first", "traced"] and inner == outer[1:]
    err = capsys.readouterr().err
    assert "was traced for the first time" in err and "x: f32[3] -> f32[1] (shape)" in err
    assert outer.counts == {"<lambda>": {"first": 1, "shape of x": 1}}
    assert str(outer).endswith("<lambda>: 2 cache misses (first: 1, shape of x: 1)")
    assert str(type(outer)()) == "no cache misses"
    assert not caplog.records  # the option logs, not the context manager
    g(X[:2])
    assert len(outer) == 2  # nothing after the block
    assert not config.explain_cache_misses.value


def test_failed_traces():
    def fails(x):
        raise ZeroDivisionError

    with jax.debug.explain_cache_miss(quiet=True) as misses:
        with pytest.raises(ZeroDivisionError):
            jax.jit(fails)(X)
    assert [m.kind for m in misses] == ["first"]


# The log


def test_log_is_that_of_the_original_with_a_remedy(caplog):
    def f(x):
        return x

    g = jax.jit(f)
    with jax.explain_cache_misses(True), caplog.at_level(logging.WARNING):
        g(X)
        g(X[:2])
    first, second = [r for r in caplog.records if "cache_misses_test" in r.getMessage()]
    assert (first.name, first.levelname) == ("jax._src.interpreters.partial_eval", "WARNING")
    assert re.fullmatch(
        r"TRACING CACHE MISS at \S+:\d+:\d+ \(test_\w+\):\n  never seen function:\n    f id=\d+ defined at \S+:\d+",
        first.getMessage(),
    )
    lines = second.getMessage().splitlines()
    assert lines[1].startswith("  for f defined at ")
    assert lines[2:5] == [
        "  all previously seen cache keys differ. For the closest previous key:",
        "  different input types:",
        "  * at x, now f32[2] and before f32[3]",
    ]
    assert lines[5].startswith("  remedy: ")


# The summary


@pytest.fixture
def summary():
    compile_summary.clear()
    yield compile_summary.text
    compile_summary.clear()


def test_summary(summary, caplog):
    def f(x):
        return x + 1

    g = jax.jit(f)
    with jax.log_compiles("summary"), caplog.at_level(logging.WARNING):
        for n in (1, 2, 3, 3):
            g(X[:n])
        with contextlib.suppress(TypeError):
            g("not an array")
    assert not caplog.records
    heading, names, *rows = summary().splitlines()
    assert re.match(r"jax made programs of \d+ functions in [\d.]+ (s|ms)$", heading)
    assert names.split()[:4] == ["function", "traced", "lowered", "compiled"]
    (row,) = [row for row in rows if row.startswith("f ")]
    assert re.search(r"3x \S+ \S+ +3x \S+ \S+ +3x \S+ \S+ +\S+:\d+ +shape of x: 2, first: 1$", row)


def test_values_of_the_option():
    with jax.log_compiles():
        assert config.log_compiles.value is True
    before = config.log_compiles.value
    for value in ("summary", True, "0"):
        jax.config.update("jax_log_compiles", value)
        assert config.log_compiles.value == (False if value == "0" else value)
    jax.config.update("jax_log_compiles", before)
    with pytest.raises(ValueError, match="'summary'"):
        jax.log_compiles("sumary")


@pytest.mark.slow
def test_summary_at_exit():
    program = "import jax\nf = jax.jit(lambda x: x)\nfor x in (1, 2., 3.): f(x)"
    env = os.environ | {"JAX_LOG_COMPILES": "summary"}
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert run.returncode == 0 and not run.stdout
    assert "dtype of x: 1, first: 1" in run.stderr or "first: 1, dtype of x: 1" in run.stderr
    program = "import jax"  # nothing to tell
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert run.stderr == ""


def test_make_jaxpr_and_eval_shape():
    f = lambda x, n=2: x * n
    with jax.debug.explain_cache_miss(quiet=True) as misses:
        jax.make_jaxpr(f)(X)
        jax.make_jaxpr(f)(X)
        jax.eval_shape(f, X[:2])
        jax.make_jaxpr(f, static_argnums=1)(X, 3)
        jax.make_jaxpr(f, static_argnums=1)(X, 4)
        jax.jit(f)(X)
    found = [(miss.kind, *[change[:2] for change in miss.changes]) for miss in misses]
    assert found[:2] == [("first",), ("traced", ("shape", "x"))]
    assert found[3] == ("traced", ("static argument", "n"))
    assert len(found) == 4  # `jit` uses the trace of `make_jaxpr`


def test_jit_after_make_jaxpr():
    f = lambda x: x * 2
    jax.make_jaxpr(f)(X)
    with jax.debug.explain_cache_miss(quiet=True) as misses:
        jax.jit(f)(X[:2])
    assert [(miss.kind, miss.changes[0][:2]) for miss in misses] == [("traced", ("shape", "x"))]


def test_other_threads():
    f = jax.jit(lambda x: x + 1)
    with jax.debug.explain_cache_miss(quiet=True) as misses:
        thread = threading.Thread(target=lambda: [f(X[:n]) for n in (1, 2)])
        thread.start()
        thread.join()
    assert [miss.kind for miss in misses] == ["first", "traced"]
    f(X)
    assert len(misses) == 2
