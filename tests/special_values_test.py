"""NaNs and infinities in results: which programs raise an error, and what it names."""

import re

import numpy as np
import pytest
from op_testing import case_tests
from special_values_scenarios import INFINITE, NAN, NANS, OPERATIONS, ZERO, log2

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, xla_bridge
from jax.sharding import AxisType, PartitionSpec as P

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 4)

reference, test_reference, _ = case_tests(__file__)

F = np.float32


def error_of(fun):
    with jax.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        jax.block_until_ready(fun())
    return str(caught.value)


@pytest.mark.parametrize("name", [k for k, (_, operation) in OPERATIONS.items() if operation])
def test_the_error_names_operation_and_line(name):
    fun, operation = OPERATIONS[name]
    text = error_of(fun)
    found = re.match(r"invalid value \(nan\) encountered in ([\w<>]+)(?:\n  at ([^\n]+))?", text)
    assert found[1] == operation, text
    if operation.startswith("<"):
        assert "An argument (x) has such a value already" in text
    else:
        assert "/special_values_scenarios.py:" in found[2] and " -> " in found[2], text


def test_the_line_is_that_of_the_present_call():
    lines = set()
    for x in (-jnp.ones(2), -jnp.ones(2) * 2):
        # The library's functions are traced by the first call only.
        first = error_of(lambda x=x: jnp.log(x))
        second = error_of(lambda x=x: jnp.log(x))
        lines |= {re.search(r"_test.py:(\d+)", text)[1] for text in (first, second)}
    assert len(lines) == 2


def test_the_error_tells_elements_and_operands():
    text = error_of(lambda: jnp.sqrt(jnp.arange(-2.0, 1.0)))
    assert "sqrt(float32[3]) -> float32[3]" in text
    assert "2 of 3 elements of the result, the first at [0]" in text and "already" not in text
    assert "operand 0 has such a value already" in error_of(lambda: jnp.negative(NANS))
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match=r"\(inf\).*in exp"):
        jnp.exp(jnp.float32(100))


def test_references_keep_their_values():
    ref, other = jax.new_ref(jnp.ones(2)), jax.new_ref(jnp.ones(2))

    @jax.jit
    def f():
        other[...] = jnp.zeros(2)
        ref[...] = jnp.log(ref[...] - 2) * other[...]

    assert "in log" in error_of(f)
    for r in (ref, other):
        np.testing.assert_array_equal(r[...], [1, 1])


def test_nothing_is_donated_while_results_are_checked():
    f = jax.jit(log2, donate_argnums=0)
    warm, x = jnp.full(8, 3.0), jnp.full(8, 3.0)
    f(warm)
    with jax.debug_nans(True):
        f(x)
    assert warm.is_deleted() and not x.is_deleted()
    f(x)
    assert x.is_deleted()


def test_arguments_that_were_donated():
    x = jnp.zeros(8)
    compiled = jax.jit(log2, donate_argnums=0).lower(x).compile()
    assert "was donated, it cannot be run again" in error_of(lambda: compiled(x))


def test_options_of_other_threads_do_not_matter():
    import threading

    results = []
    with jax.debug_nans(True):
        thread = threading.Thread(target=lambda: results.append(jnp.log(F(-1))))
        thread.start()
        thread.join()
        assert error_of(lambda: jnp.log(F(-1)))
    assert np.isnan(results[0])


def test_a_function_that_gives_numbers_when_it_runs_again():
    values = iter([NAN, ZERO, ZERO])
    f = jax.jit(lambda x: jax.pure_callback(lambda _: next(values), x, x) + 1)
    assert "gave no such value when they ran one by one" in error_of(lambda: f(ZERO))


@pytest.mark.parametrize("name", [k for k, (_, raises) in INFINITE.items() if raises])
def test_the_error_names_the_operation_of_an_infinity(name):
    with jax.debug_infs(True), pytest.raises(FloatingPointError) as caught:
        jax.block_until_ready(INFINITE[name][0]())
    assert re.match(r"invalid value \(inf\) encountered in [\w<>]+", str(caught.value))


def reciprocal(x):
    return x * (1 / (x - 3))  # the first operation with an infinity


INSIDE = {
    "jit": jax.jit(reciprocal),
    "checkpoint": jax.checkpoint(reciprocal),
    "cond": lambda x: lax.cond(True, reciprocal, lambda x: x, x),
    "cond of each device": lambda x: lax.cond(x[0] > 1, reciprocal, lambda x: x, x),
    "switch": lambda x: lax.switch(1, [jnp.sin, reciprocal], x),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, reciprocal(c[1])), (0, x))[1],
    "scan": lambda x: lax.scan(lambda c, _: (c, reciprocal(x)), x, None, length=2)[1],
    "jit of scan in cond": jax.jit(lambda x: lax.cond(x[0] > 1, lambda x: lax.map(reciprocal, x), lambda x: x, x)),
    "closure": lambda x: lax.map(lambda y: reciprocal(y) + x, x),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_operations_inside_of_functions_on_each_device(name):
    x, f = jnp.arange(4.0), INSIDE[name]
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    for run in (mapped, jax.jit(mapped), lambda x: jax.pmap(lambda x: f(x[None]))(x)):
        with jax.debug_infs(True), pytest.raises(FloatingPointError) as caught:
            jax.block_until_ready(run(x))
        text = str(caught.value)
        assert re.match(
            r"invalid value \(inf\) encountered in div\n  at \S*_test.py:\d+:\d+ \(reciprocal\)",
            text,
        ), text


def test_operations_that_need_other_devices():
    """Where operations cannot run on one device alone, the error names the operation around them."""
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    f = lambda x: lax.scan(lambda c, _: (c, reciprocal(lax.psum(x, "i") - 3)), x, None, length=2)[1]
    mapped = jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P(None, "i"))
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match="encountered in scan"):
        jax.block_until_ready(mapped(jnp.arange(4.0)))
