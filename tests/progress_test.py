"""Progress bars of loops: what they report under all transformations, when, and what they show."""

import contextlib
import io
import sys

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, xla_bridge
from jax._src.hijax import Box
from jax._src.lax.control_flow import progress
from jax.experimental import io_callback
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

XS = jnp.arange(1000.0)
TENS = [*range(0, 1000, 10), (1000,)]  # the last number is that of the end


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal():
    return contextlib.redirect_stderr(Terminal())


@pytest.fixture
def reports(monkeypatch):
    """Returns the steps that a function reports, with that of the end in a tuple.

    Where the host decides how many steps are taken until the next report, these are 10.
    """
    found = []
    monkeypatch.setattr(progress, "steps_until_next", lambda bar, step: 10)
    monkeypatch.setattr(
        progress, "show", lambda _, step, final=False: found.append((step,) if final else step)
    )

    def run(fun, *args):
        found.clear()
        with on_terminal():
            jax.block_until_ready(fun(*args))
            jax.effects_barrier()
        return list(found)

    return run


def scan(carry, **options):
    return lax.scan(lambda c, x: (c * 0.9 + x, c), carry, XS, progress=True, **options)[0]


def while_loop(x, **options):
    return lax.while_loop(lambda x: x < 100.0, lambda x: x * 1.01, x, progress=True, **options)


TRANSFORMED = {
    "eager": scan,
    "jit": jax.jit(scan),
    "grad": jax.grad(scan),
    "jit of grad": jax.jit(jax.grad(scan)),
    "vmap": lambda c: jax.vmap(scan)(jnp.full(3, c)),
    "vmap of grad": lambda c: jax.vmap(jax.grad(scan))(jnp.full(3, c)),
    "jvp": lambda c: jax.jvp(scan, (c,), (c,)),
    "hessian": jax.hessian(scan),
    "reverse": lambda c: scan(c, reverse=True),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_scan_reports_once_at_most_100_times(name, reports):
    assert reports(TRANSFORMED[name], 1.0) == TENS


def test_unrolled_loops(reports):
    blocks = [*range(0, 1000, 12), (1000,)]  # whole iterations, which take 3 steps each
    assert reports(lambda c: scan(c, unroll=3), 1.0) == blocks
    # Those that become one iteration are no loops any more.
    for n, unroll in ((1, 1), (5, True), (5, 4)):
        short = lambda: lax.fori_loop(0, n, lambda i, x: x + i, 0, unroll=unroll, progress=True)
        assert reports(short) == reports(jax.jit(short)) == []


def test_checkpoint_shows_that_the_loop_runs_again(reports):
    assert reports(jax.grad(jax.checkpoint(scan)), 1.0) == TENS * 2


def test_results_do_not_change():
    plain = lambda c: lax.scan(lambda c, x: (c * 0.9 + x, c), c, XS)[0]
    for f in (lambda f: f, jax.grad, jax.jit):
        with on_terminal():
            got = f(scan)(1.0)
        np.testing.assert_array_equal(got, f(plain)(1.0))


def test_counted_loops(reports):
    count = lambda n, **options: lax.fori_loop(0, n, lambda i, x: x + i, 0, progress="n", **options)
    assert reports(count, 13) == [0, 10, (13,)]
    assert reports(lambda: lax.fori_loop(2, 15, lambda i, x: x + i, 0, progress=True)) == [
        0, 10, (13,),
    ]  # fmt: skip
    assert reports(count, 0) == []
    assert reports(jax.jit(count), 1000) == TENS  # the bound is not known
    square = lambda x: x * x
    assert reports(lambda: lax.map(square, XS, progress=True)) == TENS
    assert reports(lambda: lax.map(square, XS, batch_size=80, progress=True)) == [
        0, 10, (12,),
    ]  # fmt: skip


def test_while_loops(reports):
    steps = [*range(0, 463, 10), (463,)]
    assert reports(while_loop, 1.0) == steps
    xs = jnp.array([1.0, 50.0, 99.0])
    assert reports(jax.vmap(while_loop), xs) == steps
    bounded = lambda x: while_loop(x, max_steps=1000)
    assert reports(bounded, 1.0) == steps
    segments = [[*range(i, min(i + 32, 463), 10)] for i in range(0, 463, 32)]
    for f in (jax.grad(bounded), jax.jit(jax.grad(bounded))):
        assert reports(f, 1.0) == [*sum(segments, []), (463,)]
    assert reports(jax.vmap(jax.vmap(bounded)), xs[None]) == steps
    # the device decides
    found = reports(jax.vmap(jax.grad(bounded)), xs)
    assert found[:33] == [*range(32), 32] and found[-3:] == [432, 448, (463,)]


def test_conditions_with_effects_are_computed_once(reports, capsys):
    def is_small(x):
        jax.debug.print("x={x}", x=x)
        return x < 4

    loop = lambda x: lax.while_loop(is_small, lambda x: x + 1, x, progress=True)
    assert reports(jax.jit(loop), 0) == [0, 1, 2, 3, (4,)]
    assert capsys.readouterr().out.split() == [f"x={i}" for i in range(5)]


def test_without_jit(reports):
    with jax.disable_jit():
        assert reports(lambda: lax.scan(lambda c, x: (c + x, None), 0, XS[:2], progress=True)) == [
            0,
            1,
            (2,),
        ]
        assert reports(lambda: lax.fori_loop(0, 2, lambda i, x: x, 0, progress=True)) == [
            0,
            1,
            (2,),
        ]
        assert reports(while_loop, 99.0)[-1] == (2,)


def test_one_device_reports(reports):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    xs = jnp.ones(4)
    for check_vma in (True, False):
        f = jax.shard_map(
            jax.vmap(scan), mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=check_vma
        )
        assert reports(f, xs) == TENS
        assert reports(jax.jit(jax.grad(lambda x: jnp.sum(f(x)))), xs) == TENS
    assert reports(jax.pmap(scan), xs) == TENS
    sharded = jax.device_put(jnp.ones((8, 3)), NamedSharding(mesh, P("i")))
    mean = lambda x: lax.fori_loop(0, 3, lambda _, x: x - jnp.mean(x), x, progress=True)
    assert reports(jax.jit(mean), sharded) == [0, 1, 2, (3,)]  # the devices decide
    count = lambda n, x: lax.fori_loop(0, n, lambda _, x: x - jnp.mean(x), x, progress=True)
    steps = reports(jax.jit(count), 500, sharded)
    assert steps[:33] == list(range(32)) + [32] and steps[-1] == (500,)
    assert len(steps) < 32 + 16 * 5 and np.max(np.diff(steps[:-1])) == 16
    mesh = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
    f = jax.shard_map(
        jax.vmap(scan), mesh=mesh, in_specs=P("i"), out_specs=P("i"), axis_names={"i"}
    )
    assert reports(jax.jit(f), xs) == TENS


def test_the_host_decides_by_time(monkeypatch):
    clock = iter([0.0, 0.0004, 0.003, 0.1, 0.2, 0.3, 0.4])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    bar = progress.Bar("by time", None, "here")
    step, steps = 0, []
    for _ in range(6):
        steps.append(step)
        step += progress.steps_until_next(bar, step)
    assert steps == [0, 1, 17, 273, 536, 799]  # at most 16 times as many, then those of 0.1 s
    assert progress.steps_until_next(bar, 0) == 1  # the loop runs again
    progress._last.clear()
    progress._short.add(bar)  # a loop that was short begins with more steps
    monkeypatch.setattr(progress.time, "perf_counter", lambda: 0.0)
    assert progress.steps_until_next(bar, 0) == 16
    progress._last.clear(), progress._short.clear()


def test_bars():
    def nested(n):
        inner = lambda _, x: lax.fori_loop(0, 4, lambda i, x: x + i, x, progress="inner")
        return lax.fori_loop(0, n, inner, 0, progress="outer")

    with on_terminal() as terminal:
        jax.jit(nested, static_argnums=0)(2)
        jax.effects_barrier()
    text = terminal.getvalue()
    assert "outer: 100%" in text and "2/2" in text and "inner: 100%" in text, text
    assert not progress._open and not progress._last
    progress._short.clear()


def test_description_is_one_line():
    with on_terminal() as terminal:
        lax.fori_loop(0, 3, lambda i, x: x + i, 0, progress="{a}%s\nb\r\n<é>")
        jax.effects_barrier()
    assert "{a}%s b <é>: 100%" in terminal.getvalue() and terminal.getvalue().count("\n") == 1
    progress._short.clear()


@pytest.mark.parametrize("ordered", [False, True])
def test_bars_of_loops_that_fail_are_closed(ordered):
    def fail(i):
        if i == 2:
            raise ValueError("no third step")

    def run(n):
        def inner(i, x):
            io_callback(fail, None, i, ordered=ordered)
            return x + i

        outer = lambda _, x: lax.fori_loop(0, 4, inner, x, progress="inner")
        return lax.fori_loop(0, n, outer, 0, progress="outer")

    with on_terminal() as terminal:
        with pytest.raises(jax.errors.JaxRuntimeError, match="no third step"):
            jax.block_until_ready(jax.jit(run, static_argnums=0)(3))
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            jax.effects_barrier()
    assert "outer:" in terminal.getvalue() and "100%" not in terminal.getvalue()
    assert not progress._open and not progress._compiled and not progress._last
    progress._short.clear()


def test_loops_that_were_short_are_shown_at_their_end():
    outer, inner = progress.Bar("outer", 9, "here"), progress.Bar("inner", 4, "there")

    def run():
        with on_terminal() as terminal:
            for bar in (outer, inner):
                progress.show(bar, 0)
            started = "outer" in terminal.getvalue(), "inner" in terminal.getvalue()
            for bar in (inner, outer):
                progress.show(bar, bar.total, final=True)
        text = terminal.getvalue()
        assert text.count("outer: 100%") == 1 and text.endswith("\n") and not progress._open
        return *started, "inner: 100%" in text

    assert run() == (True, True, True)
    assert run() == (False, False, False)  # both were short
    progress._short.clear()


def test_nothing_is_reported_off_terminal():
    plain = lambda c: lax.scan(lambda c, x: (c * 0.9 + x, c), c, XS)[0]
    fresh = lambda c: scan(c)  # not traced before
    assert str(jax.make_jaxpr(fresh)(1.0)) == str(jax.make_jaxpr(plain)(1.0))
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        scan(1.0)
    assert stderr.getvalue() == ""


def test_errors(monkeypatch):
    for bad in (1, None, b"x"):
        with pytest.raises(TypeError, match="must be a bool or a description"):
            lax.fori_loop(0, 3, lambda i, x: x, 0, progress=bad)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with on_terminal(), pytest.raises(ImportError, match="pip install tqdm"):
        scan(1.0)


def test_loops_that_change_a_mutable_value(reports):
    box = Box(1.0)

    def body(i, x):
        box.set(box.get() * 2.0)
        return x

    assert reports(lambda: lax.fori_loop(0, 3, body, 0, progress=True)) == [0, (3,)]
    assert box.get() == 8
