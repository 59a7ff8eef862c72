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
