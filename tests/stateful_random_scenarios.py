"""Programs of `jax.experimental.random`: see op_cases.py."""

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.experimental import random

CASES = Programs()
PAIR = np.array([1.0, 2.0], np.float32)


def rng(seed=3, **options):
    return random.stateful_rng(seed, **options)


def drawn(draw):
    """Two draws, the number of draws, and the next."""
    g = rng()
    return draw(g), draw(g), g._counter[...], g.random()


def data(keys):
    return jax.random.key_data(keys)


CASES.group(
    "draws",
    key=lambda: drawn(lambda g: data(g.key())),
    keys=lambda: drawn(lambda g: (data(g.key(2)), data(g.key((2, 1))))),
    random=lambda: drawn(lambda g: (g.random(), g.random(2), g.random((2, 3), "float16"))),
    uniform=lambda: drawn(lambda g: (g.uniform(), g.uniform(PAIR, 3.0), g.uniform(size=2))),
    uniform_sized=lambda: drawn(lambda g: g.uniform(PAIR, size=(3, 2), dtype="float16")),
    normal=lambda: drawn(lambda g: (g.normal(), g.normal(1, PAIR), g.normal(size=2))),
    normal_sized=lambda: drawn(lambda g: g.normal(PAIR, size=(3, 2), dtype="float16")),
    integers=lambda: drawn(
        lambda g: (g.integers(9), g.integers(3, 9, 4), g.integers(np.array([5, 100])))
    ),
    integers_int8=lambda: drawn(lambda g: g.integers(-5, [[5], [100]], (2, 3), dtype="int8")),
    spawn=lambda: drawn(lambda g: [(data(c._base_key), c.random()) for c in g.spawn(2)]),
    split=lambda: drawn(lambda g: [data(g.split(2)._base_key), g.split((2, 1))._counter[...]]),
    vmap=lambda: drawn(lambda g: jax.vmap(lambda h, x: x + h.normal())(g.split(2), PAIR)),
)
CASES.group(
    "programs",
    rbg=lambda: rng(impl="rbg").random(2),
    jit=lambda: drawn(jax.jit(lambda g: g.random(2))),
    closure=lambda: drawn(lambda g: jax.jit(lambda: g.random(2))()),
    seed_in_jit=lambda: jax.jit(lambda s: rng(s).random(2))(3),
    scan=lambda: drawn(lambda g: jax.lax.scan(lambda c, x: (c, g.random()), 0, None, 3)),
    text=lambda: repr(rng()),
    tree=lambda: str(jax.tree.structure(rng())),
    no_seed=lambda: random.stateful_rng().random().shape,
    no_seed_in_jit=lambda: jax.jit(lambda: random.stateful_rng().random())(),
    float_seed=lambda: rng(1.5),
    key_as_seed=lambda: rng(jax.random.key(1)),
    vector_seed=lambda: rng(jnp.arange(2)),
    returned=lambda: jax.jit(lambda g: g.split(2))(rng()),
    hash=lambda: hash(rng()),
)
