"""The benchmarks of what loops of this jax can do beyond PyPI's, and of what that costs when unused.

Where PyPI's jax lacks an argument, its side runs what its users write instead.
"""

import contextlib
import io

import numpy as np
from registry import timed

import jax
import jax.numpy as jnp
from jax import lax

STEPS = 500


class Terminal(io.StringIO):
    def isatty(self):
        return True


def solver(**options):
    """A loop that ends after half of the steps that it may take."""
    w = jnp.asarray(np.linspace(-0.4, 0.4, 256, dtype=np.float32).reshape(16, 16))

    def loop(x, w):
        return lax.while_loop(
            lambda c: c[0] < STEPS // 2, lambda c: (c[0] + 1, jnp.tanh(w @ c[1])), (0, x), **options
        )[1]

    return loop, jnp.ones((16, 16)), w


def differentiable_solver():
    """The same by max_steps, or else by a scan in which steps after the end do nothing."""
    try:
        loop, x, w = solver(max_steps=STEPS)
        loop(x, w)
        return loop, x, w
    except TypeError:
        pass

    def masked(x, w):
        def step(c, _):
            new = c[0] + 1, jnp.tanh(w @ c[1])
            return lax.cond(c[0] < STEPS // 2, lambda: new, lambda: c), None

        return lax.scan(step, (0, x), None, length=STEPS)[0][1]

    return masked, x, w


@timed("loops", "a while_loop of 250 steps", mark=1.0)
def while_loop():
    loop, x, w = solver()
    f = jax.jit(loop)
    return lambda: f(x, w)


@timed("loops", "a while_loop of 250 steps, at most 500", mark=1.0)
def bounded_while_loop():
    loop, x, w = differentiable_solver()
    f = jax.jit(loop)
    return lambda: f(x, w)


@timed("loops", "its gradient", mark=1.0)
def bounded_while_loop_gradient():
    loop, x, w = differentiable_solver()
    f = jax.jit(jax.grad(lambda x, w: jnp.sum(loop(x, w)), (0, 1)))
    return lambda: f(x, w)


@timed("loops", "4,000 steps of 10 µs", mark=1.0)
def plain_loop():
    return long_loop()


@timed("loops", "4,000 steps of 10 µs, with progress (oracle: without)", mark=1.03)
def loop_with_progress():
    try:
        return long_loop(progress="steps")
    except TypeError:
        return long_loop()


@timed("loops", "a while_loop of 4,000 steps of 10 µs, with progress (oracle: without)", mark=1.03)
def while_loop_with_progress():
    def loop(step, x, **options):
        body = lambda c: (c[0] + 1, step(c[0], c[1]))
        return lax.while_loop(lambda c: c[0] < 4000, body, (0, x), **options)[1]

    try:
        return long_loop(loop, progress="steps")
    except TypeError:
        return long_loop(loop)


def counted(step, x, **options):
    return lax.fori_loop(0, 4000, step, x, **options)


def long_loop(loop=counted, **options):
    w = jnp.asarray(np.linspace(-0.4, 0.4, 16384, dtype=np.float32).reshape(128, 128))
    step = lambda _, x: lax.fori_loop(0, 10, lambda _, x: jnp.tanh(w @ x), x)
    f = jax.jit(lambda x: loop(step, x, **options))
    x = jnp.ones(128)

    def run():
        with contextlib.redirect_stderr(Terminal()):
            out = jax.block_until_ready(f(x))
            jax.effects_barrier()
            return out

    run()
    return run
