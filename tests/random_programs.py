"""Random functions from three numbers to three numbers, built of all transformations in all orders."""

import numpy as np

import jax
from jax import lax

VECTOR = np.array([0.6, -0.4, 0.9])


def random_program(seed: int, depth: int = 4):
    """A smooth, bounded function of an array of three floats; the same for the same seed."""
    return _function(np.random.RandomState(seed), depth)


def _total(x):
    return lax.reduce_sum(x, (0,))


def _constant(rng):
    return rng.uniform(-1, 1, 3).round(2)


def _leaf(rng):
    c = _constant(rng)
    like = lambda x: lax.convert_element_type(c, x.dtype)
    return [
        lambda x: lax.sin(lax.mul(x, like(x))),
        lambda x: lax.tanh(lax.add(x, like(x))),
        lambda x: lax.mul(lax.cos(x), lax.rev(x, (0,))),
        lambda x: lax.div(x, lax.add(lax.full_like(x, 2), lax.mul(x, x))),
        lambda x: lax.broadcast_in_dim(lax.sin(lax.dot(x, like(x))), (3,), ()),
    ][rng.randint(5)]


def _function(rng, depth):
    if depth == 0:
        return _leaf(rng)
    f, g = _function(rng, depth - 1), _function(rng, rng.randint(depth))
    c = _constant(rng)
    makers = [
        lambda: lambda x: f(g(x)),
        lambda: lambda x: lax.mul(f(x), g(x)),
        lambda: jax.jit(f),
        lambda: jax.checkpoint(f),
        lambda: (
            lambda x: lax.scan(
                lambda s, y: (lax.tanh(lax.add(f(s), g(lax.broadcast(y, (3,))))), None),
                x,
                lax.sin(x),
            )[0]
        ),
        lambda: (
            lambda x: lax.scan(
                lambda s, _: (lax.tanh(f(s)), _total(s)),
                x,
                None,
                length=3,
                reverse=bool(seed_bit(c)),
            )[1]
        ),
        lambda: lambda x: lax.cond(lax.lt(_total(x), lax.full_like(x, 0.1, shape=())), f, g, x),
        lambda: lambda x: lax.switch(1, [g, f, lax.neg], x),
        lambda: (
            lambda x: lax.reduce_sum(
                jax.vmap(lambda s: f(lax.mul(x, lax.broadcast(s, (3,)))))(lax.cos(x)), (0,)
            )
        ),
        lambda: lambda x: jax.vmap(lambda s: _total(f(lax.add(x, lax.broadcast(s, (3,))))))(x),
        lambda: lambda x: jax.jvp(f, (x,), (lax.sin(x),))[1],
        lambda: lambda x: jax.vjp(f, x)[1](g(x))[0],
        lambda: jax.grad(lambda x: _total(f(x))),
        lambda: lambda x: jax.linearize(f, x)[1](g(x)),
        lambda: lambda x: lax.fori_loop(0, 2, lambda i, s: lax.tanh(lax.add(f(s), lax.sin(x))), x),
        lambda: _custom_jvp(f),
        lambda: _custom_vjp(f),
        lambda: jax.jit(lambda x: jax.checkpoint(g)(f(x))),
        lambda: lambda x: lax.map(lambda s: _total(f(lax.broadcast(s, (3,)))), x),
        lambda: (
            lambda x: jax.vmap(lambda i: lax.switch(i, [f, g], x))(np.array([1, 0]))[seed_bit(c)]
        ),
        lambda: jax.checkpoint(f, policy=lambda prim, *_, **__: prim.name in ("sin", "scan")),
        lambda: lambda x: _closing_over(f, lax.sin(x))(x),
        lambda: jax.custom_gradient(lambda x: (f(x), lambda ct: jax.vjp(f, x)[1](ct)[0])),
        lambda: (
            lambda x: jax.linear_transpose(lambda t: jax.jvp(f, (x,), (t,))[1], x)(lax.cos(x))[0]
        ),
        lambda: lambda x: lax.associative_scan(lax.mul, lax.expand_dims(f(x), (1,)))[:, 0],
        lambda: (
            lambda x: jax.jit(lambda tree: tree["a"] + f(tree["b"][0]))({"a": g(x), "b": (x, None)})
        ),
    ]
    return makers[rng.randint(len(makers))]()


def seed_bit(c):
    return int(abs(c[0]) * 100) % 2


def _custom_jvp(f):
    h = jax.custom_jvp(f)
    h.defjvp(lambda p, t: jax.jvp(f, p, t))
    return h


def _closing_over(f, y):
    """A compiled function of x that uses the traced value y."""
    return jax.jit(lambda x: lax.mul(f(y), jax.checkpoint(lambda x: lax.add(x, y))(x)))


def _custom_vjp(f):
    h = jax.custom_vjp(f)
    h.defvjp(lambda x: (f(x), x), lambda x, ct: jax.vjp(f, x)[1](ct))
    return h
