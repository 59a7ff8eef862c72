"""What the tools cost that look inside of programs: when they are not used, and when they are.

Like suite.py, this runs on both sides. Where PyPI's jax has no such tool, its side runs the program without one.
"""

import itertools
import logging
import subprocess
import sys
import tempfile

import suite
from registry import timed

import jax
import jax.numpy as jnp

# Explanations of cache misses: of a function that is traced for a new shape in each call


def trace_new_shapes(explain):
    def model(x):
        for _ in range(10):
            x = jnp.sin(x) * 2
        return x

    f = jax.jit(model)
    sizes = itertools.count(1)

    def call():
        with jax.explain_cache_misses(explain):
            return f.trace(jax.ShapeDtypeStruct((next(sizes),), jnp.float32)).out_info

    return call


@timed("tools", "a trace for a new shape, not explained", mark=1.0)
def trace_unexplained():
    return trace_new_shapes(False)


@timed("tools", "a trace for a new shape, explained", mark=1.0)
def trace_explained():
    logger = logging.getLogger("jax._src.interpreters.partial_eval")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return trace_new_shapes(True)


# The page of a jaxpr: PyPI's jax makes and prints the jaxpr


@timed("tools", "the jaxpr of a 50-layer MLP's gradient, without its page", mark=1.0)
def jaxpr_of_gradient():
    gradient, arguments = jax.grad(suite.MLP.new()), suite.MLP.arguments()
    # a new function in each call, which is traced again
    return lambda: jax.make_jaxpr(lambda *args: gradient(*args))(*arguments)


@timed("tools", "the page of the jaxpr of a 50-layer MLP's gradient", mark=None)
def view_gradient():
    gradient, arguments = jax.grad(suite.MLP.new()), suite.MLP.arguments()
    jaxpr = jax.make_jaxpr(gradient)(*arguments)
    try:
        from jax.tools import view
    except ImportError:
        return lambda: str(jaxpr)
    return lambda: view(jaxpr).html


# The doctor


@timed("tools", "start a process and its devices, without the doctor", mark=1.0)
def start_process():
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    # the current folder may contain a jax
    return lambda: subprocess.run(command, check=True, cwd=tempfile.gettempdir())


@timed("tools", "print_environment_info, with the doctor's checks", mark=None)
def describe_environment():
    jax.devices()
    return lambda: jax.print_environment_info(return_string=True)


# Reports of time and memory. The last rows: the report that they start goes on.


def new_function():
    x = jnp.ones(3)

    def call():
        return jax.jit(lambda x: jnp.sin(x) * 2)(x)

    return call


@timed("tools", "the first call of a function, not reported", mark=1.0)
def call_unreported():
    return new_function()


@timed("tools", "the first call of a function, in a report", mark=None)
def call_reported():
    start_report()
    return new_function()


@timed("tools", "jit call, one array, in a report", mark=None)
def jit_call_reported():
    x = jnp.arange(8.0)
    f = jax.jit(lambda x: x + 1)
    start_report()
    return lambda: f(x)


def start_report():
    """Starts a report that never ends, in this jax; PyPI's has none."""
    import jax.profiler

    if hasattr(jax.profiler, "report"):
        jax.profiler.report().__enter__()
