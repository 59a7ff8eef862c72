"""The benchmarks of debugging modes: what they cost while they are off, and while they are on.

PyPI's jax has no such modes; its side runs the same program without them.
"""

import contextlib

import numpy as np
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


def nothing():
    return contextlib.nullcontext()


def backward_nans():
    return jax.debug.nans(backward=True) if hasattr(jax.debug, "nans") else nothing()


@timed("debugging", "an eager gradient", mark=1.0)
def eager_gradient():
    return in_context(nothing, compiled=False)


@timed("debugging", "an eager gradient in debug.nans(backward=True) (oracle: without)")
def eager_gradient_checked():
    return in_context(backward_nans, compiled=False)


@timed("debugging", "a compiled gradient", mark=1.0)
def compiled_gradient():
    return in_context(nothing, compiled=True)


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
    return jax.debug.bounds() if hasattr(jax.debug, "bounds") else nothing()


@timed("debugging", "eager lookups", mark=1.0)
def eager_lookups():
    return many_lookups(nothing, compiled=False)


@timed("debugging", "eager lookups in debug.bounds() (oracle: without)")
def eager_lookups_checked():
    return many_lookups(bounds, compiled=False)


@timed("debugging", "compiled lookups", mark=1.0)
def compiled_lookups():
    return many_lookups(nothing, compiled=True)


@timed("debugging", "compiled lookups in debug.bounds() (oracle: without)")
def compiled_lookups_checked():
    return many_lookups(bounds, compiled=True)
