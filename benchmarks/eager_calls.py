"""Benchmarks of eager calls of common functions and operators, of arrays of 16 elements.

The least that an eager call can take is a call of a compiled program of the same arrays.
"""

import functools
import math
import time

from registry import measured

import jax
import jax.numpy as jnp

_CALLS = 40
_ROUNDS = 25


def _functions():
    n, nn = jnp, jax.nn
    index, mask, vector = jnp.arange(4), jnp.eye(4, dtype=bool), jnp.ones(4)
    return {
        "x + y": lambda x, y: x + y,
        "x - y": lambda x, y: x - y,
        "x * y": lambda x, y: x * y,
        "x / y": lambda x, y: x / y,
        "x @ y": lambda x, y: x @ y,
        "-x": lambda x, y: -x,
        "x < y": lambda x, y: x < y,
        "x == y": lambda x, y: x == y,
        "abs(x)": lambda x, y: abs(x),
        "x.T": lambda x, y: x.T,
        "x.sum()": lambda x, y: x.sum(),
        "x.mean()": lambda x, y: x.mean(),
        "x.max()": lambda x, y: x.max(),
        "x[index]": lambda x, y: x[index],
        "sin": lambda x, y: n.sin(x),
        "exp": lambda x, y: n.exp(x),
        "log": lambda x, y: n.log(x),
        "sqrt": lambda x, y: n.sqrt(x),
        "tanh": lambda x, y: n.tanh(x),
        "square": lambda x, y: n.square(x),
        "sign": lambda x, y: n.sign(x),
        "isnan": lambda x, y: n.isnan(x),
        "sum": lambda x, y: n.sum(x, axis=0),
        "mean": lambda x, y: n.mean(x, axis=0),
        "std": lambda x, y: n.std(x),
        "var": lambda x, y: n.var(x, axis=0),
        "any": lambda x, y: n.any(x),
        "argmax": lambda x, y: n.argmax(x, axis=-1),
        "cumsum": lambda x, y: n.cumsum(x, axis=0),
        "sort": lambda x, y: n.sort(x),
        "argsort": lambda x, y: n.argsort(x),
        "dot": lambda x, y: n.dot(x, y),
        "matmul": lambda x, y: n.matmul(x, y),
        "tensordot": lambda x, y: n.tensordot(x, y, 1),
        "outer": lambda x, y: n.outer(vector, vector),
        "norm": lambda x, y: n.linalg.norm(x),
        "where": lambda x, y: n.where(mask, x, y),
        "minimum": lambda x, y: n.minimum(x, y),
        "clip": lambda x, y: n.clip(x, y, y),
        "transpose": lambda x, y: n.transpose(x),
        "expand_dims": lambda x, y: n.expand_dims(x, 0),
        "swapaxes": lambda x, y: n.swapaxes(x, 0, 1),
        "moveaxis": lambda x, y: n.moveaxis(x, 0, 1),
        "broadcast_to": lambda x, y: n.broadcast_to(x, (2, 4, 4)),
        "repeat": lambda x, y: n.repeat(x, 2, axis=0),
        "flip": lambda x, y: n.flip(x),
        "roll": lambda x, y: n.roll(x, 1),
        "diag": lambda x, y: n.diag(x),
        "tril": lambda x, y: n.tril(x),
        "split": lambda x, y: n.split(x, 2),
        "zeros": lambda x, y: n.zeros((4, 4)),
        "ones_like": lambda x, y: n.ones_like(x),
        "gelu": lambda x, y: nn.gelu(x),
        "sigmoid": lambda x, y: nn.sigmoid(x),
        "softmax": lambda x, y: nn.softmax(x),
        "logsumexp": lambda x, y: nn.logsumexp(x),
    }


@functools.cache
def _times():
    """The fastest times of eager and of compiled calls, by function."""
    x = jnp.ones((4, 4))
    y = x + 1
    return {name: _fastest([f, jax.jit(f)], x, y) for name, f in _functions().items()}


def _fastest(calls, x, y):
    best = [math.inf] * len(calls)
    for _ in range(_ROUNDS):
        for k, call in enumerate(calls):
            call(x, y)
            start = time.perf_counter()
            for _ in range(_CALLS):
                call(x, y)
            best[k] = min(best[k], (time.perf_counter() - start) / _CALLS)
    return best


@measured("eager functions", "56 common functions, an eager call of each", "µs", mark=0.7)
def eager_calls():
    return 1e6 * sum([eager for eager, _ in _times().values()])


@measured("eager functions", "an eager call over a compiled one, mean of the 56", "×")
def eager_over_compiled():
    return math.exp(sum([math.log(a / b) for a, b in _times().values()]) / len(_times()))
