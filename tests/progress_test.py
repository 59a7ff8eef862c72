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
    """Returns the steps that a function reports, with that of the end in a tuple."""
    found = []
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
    "unroll": lambda c: scan(c, unroll=3),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_scan_reports_once_at_most_100_times(name, reports):
    assert reports(TRANSFORMED[name], 1.0) == TENS


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
    assert reports(count, 3) == [0, 1, 2, (3,)]
    assert reports(lambda: lax.fori_loop(2, 5, lambda i, x: x + i, 0, progress=True)) == [
        0,
        1,
        2,
        (3,),
    ]
    assert reports(count, 0) == []
    steps = reports(jax.jit(count), 5000)  # the bound is not known
    assert steps[:33] == list(range(32)) + [32] and steps[-1] == (5000,)
    assert len(steps) < 32 + 16 * 8 and np.max(np.diff(steps[:-1])) == 256
    square = lambda x: x * x
    assert reports(lambda: lax.map(square, XS, progress=True)) == TENS
    assert reports(lambda: lax.map(square, XS, batch_size=300, progress=True)) == [0, 1, 2, (3,)]


def test_while_loops(reports):
    steps = reports(while_loop, 1.0)
    assert steps[:2] == [0, 1] and steps[-1] == (463,)
    xs = jnp.array([1.0, 50.0, 99.0])
    assert reports(jax.vmap(while_loop), xs) == steps
    bounded = lambda x: while_loop(x, max_steps=1000)
    for f in (bounded, jax.grad(bounded), jax.jit(jax.grad(bounded))):
        assert reports(f, 1.0) == steps
    assert reports(jax.vmap(jax.grad(bounded)), xs) == steps


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
    assert reports(jax.jit(mean), sharded) == [0, 1, 2, (3,)]
    mesh = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
    f = jax.shard_map(
        jax.vmap(scan), mesh=mesh, in_specs=P("i"), out_specs=P("i"), axis_names={"i"}
    )
    assert reports(jax.jit(f), xs) == TENS


def test_bars():
    def nested(n):
        inner = lambda _, x: lax.fori_loop(0, 4, lambda i, x: x + i, x, progress="inner")
        return lax.fori_loop(0, n, inner, 0, progress="outer")

    with on_terminal() as terminal:
        jax.jit(nested, static_argnums=0)(2)
        jax.effects_barrier()
    text = terminal.getvalue()
    assert "outer: 100%" in text and "2/2" in text and text.count("inner: 100%") >= 2, text
    assert not progress._open


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

    assert reports(lambda: lax.fori_loop(0, 3, body, 0, progress=True)) == [0, 1, 2, (3,)]
    assert box.get() == 8
