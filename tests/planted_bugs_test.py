"""Twenty-two planted bugs, each of which the tool meant for it finds and names at the right line.

Each program has the comment `BUG` at the line to be named.
"""

import inspect
import traceback

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, xla_bridge
from jax.experimental import checkify
from jax.sharding import AxisType, PartitionSpec as P

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

X = jnp.array([1.0, -1.0, 2.0, 0.0])
BIG = np.ones((300, 300), np.float32)
KEY_DATA = np.array([0, 7], np.uint32)


# What the tools say. A tool takes a program and returns a text.


def with_lines(err):
    """The message of an error and the lines of its traceback, and of those of its causes."""
    frames = []
    text = str(err)
    while err is not None:
        frames += traceback.extract_tb(err.__traceback__)
        err = err.__cause__ or err.__context__
    return "\n".join([text, *[f"{f.filename}:{f.lineno}:" for f in frames]])


def error_in(context):
    """The tool is a context manager in which the program raises an error."""

    def tool(program):
        with pytest.raises(Exception) as err, context():
            program()
            jax.effects_barrier()
        return with_lines(err.value)

    return tool


def checked(program):
    error, _ = checkify.checkify(program, errors=checkify.all_checks)()
    with pytest.raises(checkify.JaxRuntimeError) as err:
        error.throw()
    return with_lines(err.value)


def explained(program):
    with jax.debug.explain_cache_miss(quiet=True) as misses:
        program()
    return str([miss for miss in misses if "planted_bugs" in miss.called_at][-1])


def reported(program):
    with jax.profiler.report() as report:
        program()
    return str(report)


debug_nans = error_in(lambda: jax.debug_nans(True))
debug_infs = error_in(lambda: jax.debug_infs(True))
backward_nans = error_in(lambda: jax.debug.nans(backward=True))
bounds = error_in(jax.debug.bounds)
leaks = error_in(jax.checking_leaks)
key_reuse = error_in(lambda: jax.debug_key_reuse(True))
transfers = error_in(lambda: jax.transfer_guard("disallow"))


# NaNs and infinities


def nan_in_compiled_loss():
    @jax.jit
    def loss(x):
        y = jnp.log(x)  # BUG
        return jnp.sum(y * 2)

    loss(X)


def nan_in_scan():
    def step(carry, x):
        carry = carry + jnp.sqrt(x)  # BUG
        return carry, None

    lax.scan(step, 0.0, X)


def nan_on_one_device():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))

    def local(x):
        return x / x  # BUG

    jax.jit(jax.shard_map(local, mesh=mesh, in_specs=P("i"), out_specs=P("i")))(X)


def overflow():
    @jax.jit
    def probabilities(x):
        e = jnp.exp(100 * x)  # BUG
        return e / 2

    probabilities(X)


def nan_behind_where():
    def loss(x):
        root = jnp.sqrt(x)  # BUG
        return jnp.sum(jnp.where(x > 0, root, 0.0))

    jax.jit(jax.grad(loss))(jnp.abs(X))


def norm_of_zero():
    def loss(x):
        return jnp.linalg.norm(x - x[0])  # BUG

    jax.vmap(jax.grad(loss))(jnp.ones((2, 3)))


def division_by_zero():
    @jax.jit
    def mean(x):
        return jnp.sum(x) / jnp.sum(x > 5)  # BUG

    return mean(X)


# Indices out of bounds


def lookup_past_the_end():
    @jax.jit
    def embed(tokens):
        return BIG_TABLE[tokens]  # BUG

    embed(jnp.array([1, 300, 2]))


BIG_TABLE = jnp.asarray(BIG)


def update_past_the_end():
    def step(counts, i):
        counts = counts.at[i].add(1)  # BUG
        return counts, None

    lax.scan(step, jnp.zeros(4), jnp.arange(5))


def slice_past_the_end():
    def window(i):
        return lax.dynamic_slice(X, (i,), (2,))  # BUG

    jax.vmap(window)(jnp.arange(4))


def index_in_checked_program():
    def pick(i):
        return X[i]  # BUG

    return pick(jnp.array(4))


# Tracers that leak


def leak_into_a_list():
    seen = []

    @jax.jit
    def f(x):
        y = jnp.sin(x)  # BUG
        seen.append(y)
        return y * 2

    f(X)


class Model:
    def step(self, carry, x):
        self.last = carry + x  # BUG
        return self.last, None


def leak_into_an_attribute():
    model = Model()
    lax.scan(model.step, 0.0, X)


# Random keys


def key_used_twice():
    key = jax.random.wrap_key_data(KEY_DATA)
    jax.random.normal(key, (3,))
    jax.random.uniform(key, (3,))  # BUG


def key_used_in_each_step():
    key = jax.random.wrap_key_data(KEY_DATA)

    def step(_, x):
        return x + jax.random.normal(key)  # BUG

    jax.jit(lambda: lax.fori_loop(0, 3, step, 0.0))()


# Programs that are compiled again


@jax.jit
def update(x, rate=1.0):
    return x * rate


def another_size_in_each_step():
    for n in (3, 4, 5):
        update(jnp.ones(n))  # BUG


def another_function_in_each_step():
    for scale in (1.0, 2.0):
        jax.jit(lambda x: x * scale)(X)  # BUG


def number_in_place_of_an_array():
    update(X, jnp.float32(2))
    update(X, 2.0)  # BUG


# Transfers


def numpy_array_in_each_step():
    with jax.transfer_guard("allow"):
        update(np.ones(4, np.float32))
    update(np.ones(4, np.float32))  # BUG


def constant_on_the_host():
    with jax.transfer_guard("allow"):
        x = X + np.float32(3)
    x + np.ones(4, np.float32)  # BUG


# Memory


def captured_constant():
    @jax.jit
    def project(x):
        return x @ BIG  # BUG

    project(jnp.ones(300))


def values_kept_for_the_backward_pass():
    w = jnp.ones((300, 300))

    def loss(x):
        y = jnp.sin(x @ w)  # BUG
        return jnp.sum(jnp.cos(y))

    jax.block_until_ready(jax.jit(jax.grad(loss))(w))


# The tool for each bug, and parts of what it says besides the line.
BUGS = {
    nan_in_compiled_loss: (debug_nans, "invalid value (nan) encountered in log"),
    nan_in_scan: (debug_nans, "encountered in sqrt"),
    nan_on_one_device: (debug_nans, "encountered in div"),
    overflow: (debug_infs, "invalid value (inf) encountered in exp"),
    nan_behind_where: (backward_nans, "the backward pass of sqrt makes nan from finite numbers"),
    norm_of_zero: (backward_nans, "the backward pass of sqrt makes inf from finite numbers"),
    division_by_zero: (checked, "division by zero"),
    lookup_past_the_end: (bounds, "index 300 is out of bounds for axis 0 of size 300"),
    update_past_the_end: (bounds, "index 4 is out of bounds for axis 0 of size 4"),
    slice_past_the_end: (bounds, "a slice of 2 elements from index 3"),
    index_in_checked_program: (checked, "index 4 is out of bounds for axis 0 with size 4"),
    leak_into_a_list: (leaks, "seen[0]"),
    leak_into_an_attribute: (leaks, "model.last"),
    key_used_twice: (key_reuse, "key"),
    key_used_in_each_step: (key_reuse, "key"),
    another_size_in_each_step: (explained, "x: f32[4] -> f32[5] (shape)"),
    another_function_in_each_step: (explained, "scale"),
    number_in_place_of_an_array: (explained, "weak type"),
    numpy_array_in_each_step: (transfers, "host-to-device transfer"),
    constant_on_the_host: (transfers, "host-to-device transfer"),
    captured_constant: (reported, "360 kB  dot_general  project"),
    values_kept_for_the_backward_pass: (reported, "f32[300,300]"),
}


def line_of(program) -> int:
    """The line with the comment in a program, or in the class that it uses."""
    if program is leak_into_an_attribute:
        program = Model
    lines, start = inspect.getsourcelines(program)
    (at,) = [i for i, line in enumerate(lines) if "# BUG" in line]
    return start + at


def test_there_are_enough_bugs():
    assert len(BUGS) >= 20


@pytest.mark.parametrize("program", BUGS, ids=lambda f: f.__name__)
def test_bug_is_found_at_its_line(program):
    tool, what = BUGS[program]
    text = tool(program)
    assert what in text, text
    assert f"planted_bugs_test.py:{line_of(program)}:" in text, text
