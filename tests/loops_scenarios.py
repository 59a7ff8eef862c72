"""Scenarios of control flow: types of results, and what is inside of loops and what outside."""

import itertools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax

CASES = Programs()
scenario = CASES.define
F = np.float32


def text(fun, *args):
    return str(jax.make_jaxpr(fun)(*args))


# Types of results, for weakly and strongly typed arguments of several dtypes

SCALARS = dict(
    weak_float=1.0, weak_int=2, weak_complex=1j, bool=True, float32=F(1.5), float16=np.float16(1),
    int8=np.int8(1), weak_array=jnp.asarray(2.5) * 1,
)  # fmt: skip
WEAK = jax.jit(lambda: lax.broadcast(1.5, (3,)))()
SEQUENCES = dict(float32=np.arange(3, dtype=F), weak=WEAK, int16=np.arange(3, dtype=np.int16))


def types(fun, *args):
    try:
        avals = jax.make_jaxpr(fun)(*args).out_avals
    except Exception as err:
        return type(err).__name__
    return " ".join([f"{a.dtype}{list(a.shape)}{'*' if a.weak_type else ''}" for a in avals])


def add_types(name, fun, seconds=SCALARS):
    def run():
        jvp = lambda *args: jax.jvp(fun, args, tuple(map(tangent, args)))
        vjp = lambda *args: jax.vjp(fun, *args)[0]
        vmap = jax.vmap(fun, in_axes=(0, None))
        lines = []
        for (n, x), (m, y) in itertools.product(SCALARS.items(), seconds.items()):
            found = [types(fun, x, y), types(jvp, x, y), types(vjp, x, y)]
            found.append(types(vmap, jnp.broadcast_to(x, (2,)), y))
            lines.append(f"{n} {m}: {'; '.join(found)}")
        return "\n".join(lines)

    CASES.add(f"types_{name}", run)


def tangent(x):
    inexact = jnp.issubdtype(jnp.result_type(x), jnp.inexact)
    return jnp.ones_like(x) if inexact else np.zeros(np.shape(x), jax.dtypes.float0)


add_types(
    "cond",
    lambda x, y: lax.cond(jnp.real(x) > 0, lambda x, y: (x, x * 2), lambda x, y: (x, y), x, y),
)
add_types(
    "switch",
    lambda x, y: lax.switch(1, [lambda x, y: x, lambda x, y: x + 1, lambda x, y: y], x, y),
)
add_types(
    "while",
    lambda x, y: lax.while_loop(
        lambda s: s[2] < 3, lambda s: (s[0] * s[1], s[1], s[2] + 1), (x, y, 0)
    ),
)
add_types("fori", lambda x, y: lax.fori_loop(0, 3, lambda i, s: s + y, x))
add_types("fori_bound", lambda x, y: lax.fori_loop(0, y, lambda i, s: s + i, x))
add_types(
    "scan",
    lambda x, y: lax.scan(lambda c, _: (c + y, (c, y, c * y, 1.0, 2)), x, None, length=3),
)
add_types(
    "scan_sequence",
    lambda x, ys: lax.scan(lambda c, y: (c + y, (y, c, y * 2, y * 1.5, c * y, 3)), x, ys),
    SEQUENCES,
)
add_types("map", lambda x, ys: lax.map(lambda y: (y * x, x, y), ys), SEQUENCES)
add_types(
    "map_batches", lambda x, ys: lax.map(lambda y: (y * x, x, y), ys, batch_size=2), SEQUENCES
)
add_types(
    "associative_scan", lambda x, ys: lax.associative_scan(lambda a, b: a + b * x, ys), SEQUENCES
)

product = lambda x, y: (x * y, x, 1.0)
with_jvp = jax.custom_jvp(product)
with_jvp.defjvp(lambda p, t: (product(*p), (t[0] * p[1], t[0], 0.0)))
with_vjp = jax.custom_vjp(product)
with_vjp.defvjp(lambda x, y: (product(x, y), (x, y)), lambda r, g: (g[0] * r[1], g[0] * r[0]))
add_types("custom_jvp", lambda x, y: with_jvp(x, y))
add_types("custom_vjp", lambda x, y: with_vjp(x, y))
add_types("checkpoint", lambda x, y: jax.checkpoint(product)(x, y))


@scenario
def counter_of_a_loop_with_known_bounds():
    lines = []
    for lower, upper in itertools.product((0, np.int8(0), np.int32(0)), (3, np.int8(3), F(3))):
        seen = []

        def body(i, x):
            seen.append(f"{jax.typeof(i).dtype} {jax.typeof(i).weak_type}")
            return x

        try:
            jax.jit(lambda: lax.fori_loop(lower, upper, body, 0.0))()
        except TypeError:
            seen.append("TypeError")
        lines.append(f"{lower!r} {upper!r} {seen}")
    return "\n".join(lines)


# Arguments that are results

c3, w3, x53 = np.ones(3, F), np.full(3, 0.5, F), np.ones((5, 3), F)


@scenario
def forwarded_by_scan():
    def body(s, x):
        return (s[0], s[1] + x * s[0] * jnp.sin(w3[0])), (s[0], x, 2.0)

    first = text(lambda c, w, xs: lax.scan(body, (w, c), xs), c3, w3, x53)
    swap = lambda c, w, xs: lax.scan(lambda s, x: ((s[1], s[0]), x), (w, c), xs, reverse=True)
    return first + text(swap, c3, w3, x53)


@scenario
def forwarded_by_loops():
    loop = lambda c, w, n: lax.while_loop(
        lambda s: s[0][0] < n[0], lambda s: (s[0] + s[1] + w, s[1], s[2]), (c, w, n)
    )
    fori = lambda c, w, n: lax.fori_loop(0, n, lambda i, s: (s[0] + 1, s[1]), (c, w))
    known = lambda c, w: jax.grad(
        lambda c, w: jnp.sum(lax.fori_loop(0, 3, lambda i, s: (s[0] * s[1], s[1]), (c, w))[0])
    )(c, w)
    return text(loop, c3, w3, w3) + text(fori, c3, w3, 3) + text(known, c3, w3)


@scenario
def forwarded_by_cond():
    branches = lambda c, w: (c, w, w), lambda c, w: (c, w, c + 1)
    return text(lambda p, c, w: lax.cond(p, *branches, c, w), True, c3, w3)


# What loops that are differentiated compute in each step: how many equations there are


def equations(jaxpr, depth=0, counts=None):
    counts = {} if counts is None else counts
    for eqn in jaxpr.eqns:
        inner = [getattr(p, "jaxpr", p) for q in eqn.params.values() for p in _sequence(q)]
        inner = [j for j in inner if hasattr(j, "eqns")]
        for j in inner:
            equations(j, depth + (eqn.primitive.name in ("scan", "while")), counts)
        if not inner and depth:
            counts[depth] = counts.get(depth, 0) + 1
    return counts


def _sequence(x):
    return x if isinstance(x, (tuple, list)) else [x]


def add_loop(name, body, **params):
    def fun(w, c, xs):
        c, ys = lax.scan(lambda c, x: body(w, c, x), c, xs, **params)
        return sum(jnp.sum(x) for x in jax.tree.leaves((c, ys)))

    def run():
        args = w3, c3, x53
        lines = []
        for which in (0, 1, (0, 1, 2)):
            grad = jax.grad(fun, which)
            lines.append(f"grad {which}: {equations(jax.make_jaxpr(grad)(*args).jaxpr)}")
        jit = jax.make_jaxpr(jax.grad(jax.jit(fun)))(*args)
        primal = jax.make_jaxpr(lambda *a: jax.linearize(fun, *a)[0])(*args)
        lines += [str(equations(jit.jaxpr)), str(equations(primal.jaxpr))]
        return "\n".join(lines), *jax.grad(fun, (0, 1, 2))(*args)

    CASES.add(f"loop_{name}", run)


inner = jax.jit(lambda w: jnp.sin(w) * 2)
add_loop("constants", lambda w, c, x: (c * jnp.sin(w) + x, jnp.cos(w) * c))
add_loop("chain", lambda w, c, x: (jnp.tanh(c * jnp.exp(jnp.tanh(w) * 2.0) + x), None))
add_loop("stop_gradient", lambda w, c, x: (c * jnp.sin(lax.stop_gradient(w)) + x, None))
add_loop("jit", lambda w, c, x: (c * inner(w) + x, None))
add_loop("result", lambda w, c, x: (c + x, jnp.sin(w)))
add_loop("unrolled", lambda w, c, x: (c * jnp.sin(w) + x, jnp.cos(w) * c), unroll=2, reverse=True)
add_loop("slices", lambda w, c, x: (jnp.sin(c) * jnp.sin(w) * jnp.sin(x), None))
add_loop(
    "checkpoint",
    lambda w, c, x: jax.checkpoint(lambda c, x: (jnp.tanh(c * jnp.sin(w) + x), None))(c, x),
)
add_loop(
    "nested",
    lambda w, c, x: lax.scan(lambda c, _: (jnp.sin(c) * jnp.exp(w) + x, None), c, None, length=3),
)
add_loop(
    "fori",
    lambda w, c, x: (lax.fori_loop(0, 4, lambda i, c: jnp.sin(c) * jnp.exp(w), c), x),
)
add_loop("jit_body", jax.jit(lambda w, c, x: (jnp.tanh(c * jnp.sin(w) + x), None)))
add_loop(
    "cond",
    lambda w, c, x: (
        lax.cond(x[0] > 0, lambda c: c * jnp.sin(w), lambda c: c * jnp.cos(w), c), None
    ),
)  # fmt: skip


@scenario
def loop_carry_that_never_changes():
    def fun(w, c, xs):
        (_, c), _ = lax.scan(lambda s, x: ((s[0], s[1] * jnp.sin(s[0]) + x), None), (w, c), xs)
        return jnp.sum(c)

    args = w3, c3, x53
    return str(equations(jax.make_jaxpr(jax.grad(fun))(*args).jaxpr)), jax.grad(fun)(*args)
