"""Random programs with `dot_product_attention`: shapes, masks, lengths, windows, and derivatives; many in a compilation."""

import functools

import numpy as np
from op_cases import Programs
from quickly import QUICKLY

import jax
import jax.numpy as jnp

CASES = Programs()
PROGRAMS, BATCH = 48, 12


def arguments(seed):
    """Query, key, value and bias; the options; whether to batch the program."""
    rng = np.random.RandomState(seed)
    some = lambda p: rng.rand() < p
    normal = lambda shape: rng.randn(*shape).astype(np.float32)
    b, t, k, h = (int(rng.choice(n)) for n in ([1, 2, 3], [1, 4, 5], [1, 2], [1, 2, 8]))
    s, n = int(rng.choice([t, 3, 6])), k * int(rng.choice([1, 2, 3]))
    lead = (b,) if some(0.8) else ()
    b = b if lead else 1
    part = lambda: tuple(1 if some(p) else d for p, d in zip((0.5, 0.5, 0.3, 0.3), (b, n, t, s)))
    arrays = [normal((*lead, *shape)) for shape in ((t, n, h), (s, k, h), (s, k, h))]
    options = {}
    if some(0.4):
        options["mask"] = rng.rand(*part()) < 0.7
    if some(0.3):
        options["is_causal"] = True
    if some(0.3):
        options["scale"] = float(rng.rand())
    if some(0.3):
        options["query_seq_lengths"] = rng.randint(0, t + 1, b).astype(np.int32)
    if some(0.3):
        options["key_value_seq_lengths"] = rng.randint(1, s + 1, b).astype(np.int32)
    if some(0.3):
        before, after = rng.randint(0, 4, 2).tolist()
        options["local_window_size"] = before if some(0.5) else (before, after)
    if some(0.2):
        options["return_residual"] = True
    if some(0.2):
        options["implementation"] = "xla"
    return [*arrays, normal(part()) if some(0.4) else None], options, some(0.3)


def one(seed):
    (query, key, value, bias), options, batched = arguments(seed)

    def fun(query, key, value, bias):
        return jax.nn.dot_product_attention(query, key, value, bias, **options)

    args = [x for x in (query, key, value, bias) if x is not None]
    if bias is None:
        fun = functools.partial(fun, bias=None)
    out, pullback = jax.vjp(fun, *args)
    wave = lambda x: jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape)
    results = [out, pullback(jax.tree.map(wave, out)), jax.jvp(fun, args, args)[1]]
    if batched:
        axes = [0] + [None] * (len(args) - 1)
        results.append(jax.vmap(fun, axes)(jnp.stack([query, -query]), *args[1:]))
    return results


def program(seeds):
    return jax.jit(lambda: [one(seed) for seed in seeds], compiler_options=QUICKLY)()


for start in range(0, PROGRAMS, BATCH):
    seeds = range(start, start + BATCH)
    CASES.add(f"programs_{start}", functools.partial(program, seeds), tol=2e-5)


def types():
    """Types of results in 16 bits."""
    out = []
    for dtype in ("bfloat16", "float16"):
        x = jnp.ones((1, 2, 2, 4), dtype)
        for options in ({}, {"bias": jnp.ones((1, 1, 2, 2))}, {"return_residual": True}):
            made = jax.eval_shape(lambda: jax.nn.dot_product_attention(x, x, x, **options))
            out += [f"{y.dtype}{list(y.shape)}" for y in jax.tree.leaves(made)]
    return out


CASES.define(types)
