"""The benchmarks of debugging modes: what they cost while they are off, and while they are on.

Where PyPI's jax has no such mode, its side runs the same program without it.
"""

import contextlib

import numpy as np
import suite
from registry import timed

import jax
import jax.numpy as jnp


def deep_gradient():
    w = jnp.asarray(np.linspace(-0.2, 0.2, 4096, dtype=np.float32).reshape(64, 64))
    x = jnp.ones((64, 64))

    def loss(w):
        y = x
        for _ in range(8):
            y = jnp.tanh(y @ w) * jnp.sqrt(1 + y * y)
        return jnp.sum(y)

    return jax.grad(loss), w


def in_context(enter, compiled: bool):
    f, w = deep_gradient()
    f = jax.jit(f) if compiled else f

    def run():
        with enter():
            return jax.block_until_ready(f(w))

    return run


def backward_nans():
    return jax.debug.nans(backward=True) if hasattr(jax.debug, "nans") else contextlib.nullcontext()


@timed("debugging", "an eager gradient", mark=1.0)
def eager_gradient():
    return in_context(contextlib.nullcontext, compiled=False)


@timed("debugging", "an eager gradient in debug.nans(backward=True) (oracle: without)")
def eager_gradient_checked():
    return in_context(backward_nans, compiled=False)


@timed("debugging", "a compiled gradient", mark=1.0)
def compiled_gradient():
    return in_context(contextlib.nullcontext, compiled=True)


@timed("debugging", "a compiled gradient in debug.nans(backward=True) (oracle: without)")
def compiled_gradient_checked():
    return in_context(backward_nans, compiled=True)


def many_lookups(enter, compiled: bool):
    table = jnp.arange(1024.0)
    indices = jnp.asarray(np.arange(0, 1024, 16))

    def lookups(i):
        total = 0.0
        for _ in range(8):
            total += jnp.sum(table[i]) + table.at[i].add(1.0)[i[3]]
        return total

    f = jax.jit(lookups) if compiled else lookups

    def run():
        with enter():
            return jax.block_until_ready(f(indices))

    return run


def bounds():
    return jax.debug.bounds() if hasattr(jax.debug, "bounds") else contextlib.nullcontext()


@timed("debugging", "eager lookups", mark=1.0)
def eager_lookups():
    return many_lookups(contextlib.nullcontext, compiled=False)


@timed("debugging", "eager lookups in debug.bounds() (oracle: without)")
def eager_lookups_checked():
    return many_lookups(bounds, compiled=False)


@timed("debugging", "compiled lookups", mark=1.0)
def compiled_lookups():
    return many_lookups(contextlib.nullcontext, compiled=True)


@timed("debugging", "compiled lookups in debug.bounds() (oracle: without)")
def compiled_lookups_checked():
    return many_lookups(bounds, compiled=True)


# Checks for NaNs, callbacks and the roofline


@timed("debugging", "an array of a number", mark=1.0)
def array_of_number():
    return lambda: jnp.asarray(1.5)


@timed("debugging", "a call of a program compiled ahead of time", mark=1.0)
def compiled_ahead_of_time():
    x = jnp.ones(8)
    program = jax.jit(lambda x: jnp.sin(x) * 2).lower(x).compile()
    return lambda: program(x)


@timed("debugging", "a compiled call in debug_nans", mark=1.0)
def call_with_checks():
    f, x = jax.jit(lambda x: jnp.sin(x) * 2), jnp.ones(8)

    def call():
        with jax.debug_nans(True):
            return f(x)

    return call


@timed("debugging", "an eager pure_callback", mark=1.0)
def eager_callback():
    x = jnp.ones(8)
    return lambda: jax.pure_callback(lambda a: a, x, x)


@timed("debugging", "the roofline of a gradient of an MLP", mark=1.0)
def roofline_of_gradient():
    try:
        from jax.experimental.roofline import roofline
    except ImportError:  # PyPI's needs absl to log
        import logging
        import sys
        import types

        sys.modules["absl"] = types.SimpleNamespace(logging=logging)
        from jax.experimental.roofline import roofline
    gradient, arguments = jax.grad(suite.MLP.new()), suite.MLP.arguments()
    return lambda: roofline(gradient)(*arguments)[1]
