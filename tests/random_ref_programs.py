"""Random functions from three numbers to three numbers that read and write references as they go.

Each is made together with the same function without references.
"""

import numpy as np
from random_programs import _constant, _leaf, _total, seed_bit

import jax
from jax import lax


def random_ref_program(seed: int, depth: int = 3):
    """A function with references, and one without that is equal to it."""
    return _function(np.random.RandomState(seed), depth)


def _function(rng, depth):
    if depth == 0:
        f = _leaf(rng)
        return f, f
    (f, f0), (g, g0) = _function(rng, depth - 1), _function(rng, rng.randint(depth))
    i = seed_bit(_constant(rng))
    makers = [
        lambda: (_read_and_write(f, g), lambda x: lax.mul(f0(x), g0(f0(x)))),
        lambda: (_add_update(f, g), lambda x: lax.add(f0(x), g0(x))),
        lambda: (_slots(f, i), lambda x: lax.concatenate(_slot_values(f0, i, x), 0)),
        lambda: (_in_scan(f), lambda x: _repeated(f0, x, 3)),
        lambda: (_counted(f, g), lambda x: lax.add(_repeated(f0, x, 2), g0(x))),
        lambda: (_unrolled(f), lambda x: _repeated(f0, x, 2)),
        lambda: (_in_cond(f, g), lambda x: lax.cond(_positive(x), f0, g0, x)),
        lambda: (_shared(f, g), lambda x: g0(f0(x))),
        lambda: (jax.jit(f), f0),
        lambda: (lambda x: f(g(x)), lambda x: f0(g0(x))),
        lambda: (_mapped(f), lambda x: f0(lax.mul(x, x))),
        lambda: (_over_slices(f, g), lambda x: _prefixes(f0, g0, x)),
        lambda: (jax.grad(lambda x: _total(f(x))), jax.grad(lambda x: _total(f0(x)))),
        lambda: (
            lambda x: jax.jvp(f, (x,), (g(x),))[1], lambda x: jax.jvp(f0, (x,), (g0(x),))[1],
        ),
    ]  # fmt: skip
    return makers[rng.randint(len(makers))]()


def _positive(x):
    return lax.lt(lax.full_like(x, 0, shape=()), _total(x))


def _repeated(f, x, count):
    for _ in range(count):
        x = lax.tanh(f(x))
    return x


def _read_and_write(f, g):
    def run(x):
        ref = jax.new_ref(x)
        ref[...] = f(ref[...])
        old = jax.ref.swap(ref, ..., g(ref[...]))
        return lax.mul(old, jax.freeze(ref))

    return run


def _add_update(f, g):
    def run(x):
        ref = jax.new_ref(f(x))
        jax.jit(lambda ref, x: jax.ref.addupdate(ref, ..., g(x)))(ref, x)
        return ref[...]

    return run


def _slots(f, i):
    def run(x):
        ref = jax.new_ref(x)
        ref[i : i + 2] = f(x)[:2]
        jax.ref.addupdate(ref, 2 * (1 - i), _total(x))
        return ref[...]

    return run


def _slot_values(f, i, x):
    """What the slots hold: one that is added to, and two that are written."""
    other = 2 * (1 - i)
    slots = [x[k : k + 1] for k in range(3)]
    slots[i], slots[i + 1] = f(x)[:1], f(x)[1:2]
    slots[other] = lax.add(slots[other], lax.broadcast(_total(x), (1,)))
    return slots


def _in_scan(f):
    def run(x):
        ref = jax.new_ref(x)

        def body(_, i):
            ref[...] = lax.tanh(f(ref[...]))
            return (), None

        lax.scan(body, (), None, length=3)
        return jax.freeze(ref)

    return run


def _counted(f, g):
    def run(x):
        ref, total = jax.new_ref(x), jax.new_ref(g(x))

        def body(i, count):
            ref[...] = lax.tanh(f(ref[...]))
            return count + 1

        lax.fori_loop(0, 2, body, 0)
        jax.ref.addupdate(total, ..., ref[...])
        return total[...]

    return run


def _unrolled(f):
    def run(x):
        ref = jax.new_ref(x)

        def body(i, _):
            ref[...] = lax.tanh(f(ref[...]))
            return i + 1, None

        lax.scan(body, 0, None, length=2, unroll=2)
        return ref[...]

    return run


def _in_cond(f, g):
    def run(x):
        ref = jax.new_ref(x)

        def write(h):
            def branch(x):
                ref[...] = h(x)

            return branch

        lax.cond(_positive(x), write(f), write(g), x)
        return ref[...]

    return run


def _shared(f, g):
    """A compiled function that uses a reference that it closes over."""

    def run(x):
        ref = jax.new_ref(f(x))

        @jax.jit
        def inner():
            ref[...] = g(ref[...])

        inner()
        return jax.freeze(ref)

    return run


def _mapped(f):
    def run(x):
        def one(a, b):
            ref = jax.new_ref(a)
            jax.ref.set(ref, ..., lax.mul(ref[...], b))
            return ref[...]

        return f(jax.vmap(one)(x, x))

    return run


def _over_slices(f, g):
    """A reference that is scanned over, by slices."""

    def run(x):
        ref = jax.new_ref(lax.concatenate([lax.expand_dims(h(x), (0,)) for h in (f, g)], 0))

        def body(carry, row):
            row[...] = lax.add(carry, row[...])
            return row[...], None

        lax.scan(body, lax.full_like(x, 0), ref)
        return ref[1]

    return run


def _prefixes(f, g, x):
    return lax.add(f(x), g(x))
