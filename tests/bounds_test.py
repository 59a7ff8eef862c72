"""`jax.debug.bounds()`: indices out of bounds are named with their axis, its size and the line."""

import inspect
import re
import threading

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import export, lax
from jax._src import config, device_reports, xla_bridge
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

X, M = jnp.arange(5.0), jnp.arange(12.0).reshape(3, 4)
I, IS = jnp.array(7), jnp.array([0, 7, 1])


def hunt(fun, *args):
    with pytest.raises(IndexError) as err, jax.debug.bounds():
        fun(*args)
    return str(err.value)


# What is reported for each operation, and the operation.
OPERATIONS = {
    "x[i]": (lambda i: X[i], I, "index 7", "dynamic_slice of float32[5], 1 of 1"),
    "x[is]": (lambda i: X[i], IS, "index 7", "gather of float32[5], 1 of 3"),
    "x[-i]": (lambda i: X[-i], I, r"index -2 .*it was -7", "dynamic_slice"),
    "x[1, i]": (lambda i: M[1, i], I, "index 7 .* axis 1 of size 4", "dynamic_slice of float32[3,4]"),
    "x[:, is]": (lambda i: M[:, i], IS, "index 7 .* axis 1 of size 4", "gather"),
    "set": (lambda i: X.at[i].set(1.0), I, "index 7 .* axis 0 of size 5", "scatter of float32[5]"),
    "add": (lambda i: X.at[i].add(1.0), IS, "index 7", "scatter-add of float32[5], 1 of 3"),
    "multiply": (lambda i: X.at[i].mul(2.0), IS, "index 7", "scatter-mul"),
    "min": (lambda i: X.at[i].min(2.0), IS, "index 7", "scatter-min"),
    "apply": (lambda i: X.at[i].apply(jnp.sin), IS, "index 7", "scatter_apply"),
    "take": (lambda i: jnp.take(M, i, axis=1), IS, "index 7 .* axis 1 of size 4", "gather"),
    "take_along_axis": (
        lambda i: jnp.take_along_axis(M, i[:, None], axis=1), IS, "index 7 .* axis 1 of size 4", "gather"),
    "dynamic_slice": (
        lambda i: lax.dynamic_slice(X, (i - 4,), (3,)), I, "a slice of 3 elements from index 3", "dynamic_slice"),
    "dynamic_update_slice": (
        lambda i: lax.dynamic_update_slice(X, X[:3], (i - 4,)), I, "3 elements from index 3",
        "dynamic_update_slice"),
    "dynamic_index_in_dim": (lambda i: lax.dynamic_index_in_dim(M, i, 1), I, "index 7", "dynamic_slice"),
    "scan": (
        lambda i: lax.scan(lambda c, j: (c + X[j], None), 0.0, jnp.arange(7))[0], I, "index 5", "dynamic_slice"),
    "while_loop": (
        lambda i: lax.while_loop(lambda c: c[0] < i, lambda c: (c[0] + 1, c[1] + X[c[0]]), (0, 0.0)), I,
        "index 5", "dynamic_slice"),
    "cond": (lambda i: lax.cond(i > 3, lambda: X[i], lambda: 0.0), I, "index 7", "dynamic_slice"),
    "grad": (jax.grad(lambda x: jnp.sum(x[IS])), X, "index 7", "gather"),
    "grad of set": (jax.grad(lambda x: jnp.sum(x.at[IS].set(0.0))), X, "index 7", "scatter"),
    "checkpoint": (jax.grad(jax.checkpoint(lambda x: jnp.sum(x[IS] ** 2))), X, "index 7", "gather"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_eager_and_compiled(name):
    fun, arg, what, operation = OPERATIONS[name]
    for f in (fun, jax.jit(fun)):
        text = hunt(f, arg)
        assert re.search(what, text), text
        assert operation in text and re.search(r"at .*bounds_test.py:\d+:\d+ \(", text), text


def lookup(table, i):
    return table[i]


LINE = inspect.getsourcelines(lookup)[1] + 1


def test_line_shape_and_number():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    shards = jax.shard_map(lambda i: lookup(X, i), mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    four = jnp.array([0, 1, 9, 2])
    for f, arg, bad in [
        (lambda i: lookup(X, i), I, 7),
        (jax.jit(lambda i: lookup(X, i)), I, 7),
        (jax.vmap(lambda i: lookup(X, i)), IS, 7),
        (jax.jit(jax.vmap(lookup, (0, None))), (M, I), 7),
        (shards, four, 9),
        (jax.jit(shards), four, 9),
        (jax.pmap(lambda i: lookup(X, i)), four, 9),
        (jax.jit(lambda i: lookup(X, i)), jax.device_put(four, NamedSharding(mesh, P("i"))), 9),
    ]:
        text = hunt(f, *(arg if isinstance(arg, tuple) else (arg,)))
        assert re.match(rf"index {bad} is out of bounds for axis 0 of size [45]\n", text), text
        assert re.search(rf"bounds_test.py:{LINE}:\d+ \(lookup\): ", text), text


def test_negative_indices():
    """Which `lax.gather` takes as they are, and `x[i]` counts from the end."""
    dims = lax.GatherDimensionNumbers((), (0,), (0,))
    for f, i in ((lambda i: X[i], -6), (lambda i: lax.gather(X, i[None], dims, (1,)), -1)):
        text = hunt(f, jnp.array(i))
        assert "index -1 is out of bounds" in text, text
        assert "(if negative indices are counted from the end here, it was -6)" in text, text


BIG, BIGS = jnp.array(4_294_967_295, jnp.uint32), jnp.array([0, 4_294_967_295], jnp.uint32)
UNSIGNED = {
    "x[i]": (lambda i: X[i], BIG),
    "x[is]": (lambda i: X[i], BIGS),
    "set": (lambda i: X.at[i].set(1.0), BIGS),
    "add": (lambda i: X.at[i].add(1.0), BIG),
    "x[i, 1]": (lambda i: M[i, 1], BIG),
    "x[is, js]": (lambda i: M[i, jnp.array([1, -2])], BIGS),
    "x[is, j]": (lambda i: M.at[i, jnp.array(-1)].set(0.0), BIGS),
    "take": (lambda i: jnp.take(X, i), BIGS),
    "take_along_axis": (lambda i: jnp.take_along_axis(X, i, 0), BIGS),
    "dynamic_slice": (lambda i: lax.dynamic_slice(M, (i, i - i), (1, 2)), BIG),
    "dynamic_update_slice": (lambda i: lax.dynamic_update_slice(X, X[:1], (i,)), BIG),
    "dynamic_index_in_dim": (lambda i: lax.dynamic_index_in_dim(X, i), BIG),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_indices(name):
    fun, i = UNSIGNED[name]
    for f in (fun, jax.jit(fun)):
        assert hunt(f, i).startswith("index 4294967295 is out of bounds for axis 0 of size ")


def test_numbers_known_in_advance():
    for f in (lambda x: x[7], jax.jit(lambda x: x[7])):
        assert "index 7 out of bounds for axis 0 with size 5" in hunt(f, X)
    assert "from index 3 is out of bounds" in hunt(lambda: lax.dynamic_slice(X, (3,), (3,)))


SOUND = {
    "in bounds": lambda: X[I - 7] + X[-5] + X.at[I - 3].set(1.0)[4] + jnp.take(X, -5),
    "clip": lambda: (X.at[IS].get(mode="clip"), X.at[I].get(mode="clip"), jnp.take(X, IS, mode="clip")),
    "fill": lambda: (X.at[IS].get(mode="fill"), jnp.take(X, I, mode="fill")),
    "drop": lambda: X.at[IS].add(1.0, mode="drop"),
    "branch not taken": lambda: lax.cond(I < 5, lambda: X[I], lambda: 0.0),
    "library": lambda: (
        jnp.nonzero(X, size=9), jnp.unique(X, size=9), jnp.bincount(IS, length=3), jnp.repeat(X, 2),
        jax.ops.segment_sum(X, jnp.array([0, 1, 9, 2, 3]), 3), jnp.median(X), jnp.searchsorted(X, 9.0),
        jnp.interp(9.0, X, X), jnp.histogram(X), jnp.insert(X, 2, 1.0), jnp.sort(X), jnp.roll(X, 2),
        jax.nn.one_hot(IS, 3), jax.random.permutation(jax.random.key(0), X),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_reported(name):
    expected = SOUND[name]()
    with jax.debug.bounds():
        got = SOUND[name](), jax.jit(SOUND[name])()
    for g in got:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), g, expected)


def test_outside_of_the_context_nothing_changes():
    f = jax.jit(lambda i: X[i])
    before = str(jax.make_jaxpr(f)(7))
    assert float(f(7)) == 4.0 and "index 7" in hunt(f, 7) and float(f(7)) == 4.0
    assert str(jax.make_jaxpr(lambda i: f(i))(7)).count("bounds_check") == 0
    assert "bounds_check" not in before
    with jax.debug.bounds():  # what was found before is not found again
        assert "bounds_check" in str(jax.make_jaxpr(lambda i: X[i])(7))


def test_lines_of_calls_with_one_program():
    lines = {re.search(r"py:(\d+)", hunt(f, IS))[1] for f in (lambda i: X[i],
                                                              lambda i: X[i])}  # fmt: skip
    assert len(lines) == 2
    lines = {re.search(r"py:(\d+)", hunt(f, IS))[1] for f in (lambda i: jnp.take(X, i),
                                                              lambda i: jnp.take(X, i))}  # fmt: skip
    assert len(lines) == 2


def test_export():
    """Exported programs have no checks: where they run there is nothing to call."""
    f = lambda x, i: x[i]
    sizes = export.symbolic_shape("a,b")
    for n, m in ((5, 2), sizes):
        types = jax.ShapeDtypeStruct((n,), np.float32), jax.ShapeDtypeStruct((m,), np.int32)
        with jax.debug.bounds():
            exported = export.export(jax.jit(f))(*types)
            exported = export.deserialize(exported.serialize())
            np.testing.assert_array_equal(
                exported.call(np.arange(5.0, dtype=np.float32), np.array([1, 7], np.int32)), [1, 4]
            )


def test_nested_use_of_one_context():
    f = jax.jit(lambda i: jnp.take(X, i))
    context = jax.debug.bounds()
    with pytest.raises(IndexError, match="index 77 is out of bounds"):
        with context:
            with context:
                f(1)
            f(77)
    assert not config.debug_bounds.value
    assert np.isnan(f(78))


def test_threads():
    """Each thread raises the error of its own program, in whatever order their contexts end."""
    f = jax.jit(lambda i: jnp.take(X, i))
    all_failed = threading.Barrier(4, timeout=60)
    found = {}

    def call(index):
        try:
            with jax.debug.bounds():
                try:
                    jax.block_until_ready(f(index))
                finally:
                    all_failed.wait()
        except IndexError as err:
            found[index] = str(err).partition(" is ")[0]

    threads = [threading.Thread(target=call, args=(i,)) for i in (70, 71, 1, 72)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: f"index {i}" for i in (70, 71, 72)}


def test_interrupted_wait(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(device_reports.runtime_tokens, "block_until_ready", interrupt)
    with pytest.raises(KeyboardInterrupt):
        with jax.debug.bounds():
            pass
    assert not config.debug_bounds.value


def test_failed_programs_of_several_devices_leave_nothing_behind():
    f = jax.pmap(lambda x, i: lax.psum(x[i], "i"), axis_name="i")
    with pytest.raises(IndexError, match="index 2 is out of bounds"), jax.debug.bounds():
        jax.block_until_ready(f(jnp.ones((2, 2)), jnp.array([0, 2])))
    jax.effects_barrier()
