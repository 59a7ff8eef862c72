"""Programs that use random keys once or twice: see op_cases.py.

Each gives how the checker describes the use of keys, or says that a key is used twice; or, of
programs that run with `jax_debug_key_reuse`, their results or the kind of error.
"""

import copy
import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.experimental.key_reuse import _core
from jax.sharding import Mesh, PartitionSpec as P

CASES = Programs()
uniform, normal, split, fold_in, clone = (
    random.uniform,
    random.normal,
    random.split,
    random.fold_in,
    random.clone,
)


def key():
    return random.key(0)


def static(f, *args):
    """What the checker says of a function: its signature, as text, or that a key is used twice."""
    try:
        s = _core.function_type_signature(f, *args)
    except jax.errors.KeyReuseError:
        return "a key is used twice"
    marks = [f"Source({x.idx})" for x in s.sources]
    marks += [f"Sink({x.idx}, {np.asarray(x.mask).tolist()})" for x in s.sinks]
    return sorted(marks + [f"Forward({x.in_idx}, {x.out_idx})" for x in s.forwards])


def running(f):
    """The result of a program that runs while uses of keys are counted, or that a key is used twice."""
    with jax.debug_key_reuse(True):
        try:
            return f()
        except jax.errors.KeyReuseError:
            return "a key is used twice"


def checked(name, f, *args):
    args = args or (key,)
    CASES.add(f"static_{name}", lambda: static(f, *[a() if callable(a) else a for a in args]))


def run(name):
    return lambda f: CASES.add(f"run_{name}", functools.partial(running, f))


def keys(n=3):
    return lambda: split(key(), n)


def both(f, g=None):
    """Uses a key in two functions."""
    return lambda *args: (f(*args), (g or f)(*args))


def nothing(*args):
    return 0.0


# Single operations

checked("nothing", nothing)
checked("bits", random.bits)
checked("uniform", uniform)
checked("split", split)
checked("fold_in", lambda k: fold_in(k, 1))
checked("clone", clone)
checked("key_data", random.key_data)
checked("wrap", lambda k: random.wrap_key_data(random.key_data(k)))
CASES.add("static_seed", lambda: static(key))
checked("eq", lambda k: k == k)
checked("returned", lambda k: k)
checked("returned_twice", lambda k: (k, k))
checked("returned_after_use", lambda k: (uniform(k), k))
checked("new_key_twice", lambda k: (lambda a: (a, a))(fold_in(k, 1)))
checked("new_key_used", lambda k: (lambda a: (a, uniform(a)))(fold_in(k, 1)))
checked("reshape", lambda k: k.reshape(1))
checked("broadcast", lambda k: jnp.broadcast_to(k, (2,)))
checked("squeeze", lambda k: jnp.squeeze(k), keys(1))
checked("row", lambda k: k[1], keys())
checked("rows", lambda k: k[:2], keys())
checked("strided", lambda k: k[::2], keys())
checked("row_used", lambda k: uniform(k[1]), keys())
checked("dynamic_row", lambda k: lax.dynamic_index_in_dim(k, 1), keys())
checked("dynamic_slice", lambda k, i: lax.dynamic_slice(k, (i,), (2,)), keys(), 1)
checked("dynamic_update", lambda k, u: lax.dynamic_update_slice(k, u, (1,)), keys(), keys(1))
checked("gather", lambda k, i: k[i], keys(), np.array([0, 2]))
checked("scatter", lambda k, u: k.at[np.array([0])].set(u), keys(), keys(1))
checked("concatenate", lambda a, b: lax.concatenate([a, b], 0), keys(), keys(1))
checked("device_put", lambda k: jax.device_put(k))
checked("legacy", both(uniform), lambda: random.PRNGKey(0))
checked("gamma", lambda k: random.gamma(k, 2.0))

# Two uses

checked("twice", both(uniform))
checked("split_and_use", both(split, uniform))
checked("split_twice", both(split))
checked("fold_in_twice", both(lambda k: fold_in(k, 1)))
checked("use_then_fold_in", both(uniform, lambda k: fold_in(k, 1)))
checked("use_and_clone", both(uniform, lambda k: uniform(clone(k))))
checked("use_and_data", both(uniform, random.key_data))
checked("same_row", both(lambda k: uniform(k[0])), keys())
checked("other_row", both(lambda k: uniform(k[0]), lambda k: uniform(k[1])), keys())
checked("rows_overlap", both(lambda k: k[:2], lambda k: k[1:]), keys())
checked("rows_apart", both(lambda k: k[:1], lambda k: k[1:]), keys())
checked("row_then_all", both(lambda k: k[0], jax.vmap(uniform)), keys())
checked("reshaped", both(lambda k: uniform(k.reshape(1)[0]), uniform))
checked("broadcast_vmap", lambda k: jax.vmap(uniform)(jnp.broadcast_to(k, (2,))))
checked("stacked", lambda k: jnp.stack([k, k]))
checked("where", lambda k: jnp.where(True, k, k))
checked("unpacked", lambda k: [uniform(a) for a in split(k)])
checked("dynamic_rows", both(lambda k: lax.map(lambda i: fold_in(k[i], 1), np.arange(2))), keys())

# Functions in programs

checked("jit", jax.jit(both(uniform)))
checked("jit_called_twice", both(jax.jit(uniform)))
checked("jit_forwards", lambda k: (lambda a: (uniform(a), uniform(k)))(jax.jit(lambda k: k)(k)))
checked("cond", lambda k: lax.cond(True, uniform, normal, k))
checked("cond_one_branch", lambda k: lax.cond(True, uniform, nothing, k))
checked("cond_then_use", both(lambda k: lax.cond(True, uniform, nothing, k), uniform))
checked("cond_twice_in_branch", lambda k: lax.cond(True, both(uniform), lambda k: (0.0, 0.0), k))
checked("cond_split", lambda k: lax.cond(True, lambda k: split(k)[0], lambda k: split(k)[1], k))
checked("cond_keeps", lambda k: lax.cond(True, lambda k: k, lambda k: k, k))
checked("cond_may_keep", lambda k: lax.cond(True, lambda k: k, lambda k: split(k)[1], k))
checked("switch", lambda k: lax.switch(1, [uniform, normal, nothing], k))
checked("scan_const", lambda k: lax.scan(lambda c, _: (c, uniform(k)), 0.0, None, length=3))
checked("scan_const_once", lambda k: lax.scan(lambda c, _: (c, uniform(k)), 0.0, None, length=1))
checked("scan_carry", lambda k: lax.scan(lambda k, _: (k, uniform(k)), k, None, length=3))
checked(
    "scan_carry_kept", lambda k: lax.scan(lambda k, i: (k, uniform(fold_in(k, i))), k, np.arange(3))
)


def next_key(k, _):
    k, sub = split(k)
    return k, uniform(sub)


checked("scan_carry_split", lambda k: lax.scan(next_key, k, None, length=3))
checked("scan_carry_returned", lambda k: (lax.scan(next_key, k, None, length=3)[0], k))
checked("scan_xs", lambda k: lax.scan(lambda c, k: (c, uniform(k)), 0.0, k), keys())
checked("scan_xs_twice_in_body", lambda k: lax.map(both(uniform), k), keys())
checked("scan_xs_twice", both(lambda k: lax.map(uniform, k)), keys())
checked("scan_ys", lambda k: lax.map(lambda i: fold_in(k, i), np.arange(3)))
checked("scan_xs_returned", lambda k: lax.map(lambda k: k, k), keys())
checked(
    "while_carry",
    lambda k: lax.while_loop(
        lambda c: c[0] < 3.0, lambda c: (c[0] + uniform(c[1]), c[1]), (0.0, k)
    ),
)
checked("while_const", lambda k: lax.while_loop(lambda c: c < 3.0, lambda c: c + uniform(k), 0.0))
checked("while_condition", lambda k: lax.while_loop(lambda c: uniform(k) > c, lambda c: c + 1, 0.0))
checked(
    "while_split",
    lambda k: lax.while_loop(lambda c: c[1] < 3.0, lambda c: next_key(c[0], 0), (k, 0.0)),
)
checked(
    "while_kept", lambda k: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, k))
)
checked("fori_fold_in", lambda k: lax.fori_loop(0, 3, lambda i, c: c + uniform(fold_in(k, i)), 0.0))
checked("vmap", jax.vmap(uniform), keys())
checked("vmap_twice", jax.vmap(both(uniform)), keys())
checked("vmap_unmapped", lambda k: jax.vmap(lambda x: x + uniform(k))(np.ones(2, np.float32)))
checked("remat", jax.checkpoint(uniform))
checked("remat_twice", jax.checkpoint(both(uniform)))
checked("grad", jax.grad(lambda x, k: x * uniform(k)), 1.0, key)
checked("grad_twice", jax.grad(lambda x, k: x * uniform(k) + uniform(k)), 1.0, key)
checked("grad_remat", jax.grad(jax.checkpoint(lambda x, k: jnp.sin(x * uniform(k)))), 1.0, key)
checked(
    "value_and_grad_scan",
    jax.grad(lambda x, k: lax.scan(lambda c, k: (c * uniform(k), None), x, k)[0]),
    1.0,
    keys(),
)


@jax.custom_jvp
def scaled(x, k):
    return x * uniform(k)


scaled.defjvp(lambda p, t: (scaled(*p), t[0]))


@jax.custom_vjp
def drawn(x, k):
    return x * uniform(k)


drawn.defvjp(lambda x, k: (x * uniform(k), None), lambda _, ct: (ct, None))

checked("custom_jvp", scaled, 1.0, key)
checked("custom_jvp_then_use", lambda k: (scaled(1.0, k), uniform(k)))
checked("custom_vjp", drawn, 1.0, key)
checked("custom_vjp_then_use", lambda k: (drawn(1.0, k), uniform(k)))


def mapped(f, out=P("i")):
    def call(*args):
        mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
        return jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=out)(*args)

    return call


checked("shard_map", mapped(lambda k: jax.vmap(uniform)(k)), keys())
checked("shard_map_twice", mapped(both(lambda k: jax.vmap(uniform)(k))), keys())
checked("shard_map_then_use", both(mapped(lambda k: jax.vmap(uniform)(k))), keys())
checked("shuffle", lambda k: random.permutation(k, 5))
checked("choice", lambda k: random.choice(k, 5, (3,), replace=False))
checked("poisson", lambda k: random.poisson(k, 2.0))


# Programs that run


@run("twice")
def _():
    k = key()
    return uniform(k), uniform(k)


@run("equal_keys")
def _():
    return uniform(key()), uniform(key())


@run("split_then_use")
def _():
    k = key()
    split(k)
    return uniform(k)


@run("fold_in")
def _():
    k = key()
    return uniform(fold_in(k, 0)), uniform(fold_in(k, 1)), uniform(k), uniform(fold_in(k, 2))


@run("same_row")
def _():
    k = split(key(), 3)
    return uniform(k[0]), uniform(k[1]), uniform(k[0])


@run("other_rows")
def _():
    k = split(key(), 3)
    return uniform(k[0]), uniform(k[1]), uniform(k[2])


@run("row_twice")
def _():
    row = split(key(), 3)[0]
    return uniform(row), uniform(row)


@run("all_then_row")
def _():
    k = split(key(), 3)
    return jax.vmap(uniform)(k), uniform(k[0])


@run("clone")
def _():
    k = key()
    return uniform(k), uniform(clone(k))


@run("jit")
def _():
    return jax.jit(both(uniform))(key())


@run("jit_twice")
def _():
    f, k = jax.jit(uniform), key()
    return f(k), f(k)


@run("jit_returns_used")
def _():
    _, k = jax.jit(lambda k: (uniform(k), k))(key())
    return uniform(k)


@run("jit_returns_new")
def _():
    _, k = jax.jit(lambda k: (uniform(k), clone(k)))(key())
    return uniform(k)


@run("legacy")
def _():
    k = random.PRNGKey(0)
    return uniform(k), uniform(k)


@run("unpack")
def _():
    a, b = split(key())
    return uniform(a), uniform(b)


@run("key_data")
def _():
    k = key()
    return uniform(k), random.key_data(k)


@run("new_axis")
def _():
    k = key()
    return uniform(k), lax.map(uniform, k[None])


@run("grad")
def _():
    k = key()
    return jax.grad(lambda x: x * uniform(k))(1.0), uniform(k)


@run("scan")
def _():
    k = key()
    return lax.scan(lambda c, _: (c, uniform(k)), 0.0, None, length=2)


@run("cond")
def _():
    k = key()
    return lax.cond(True, uniform, nothing, k), uniform(k)


@run("copy_used")
def _():
    k = key()
    uniform(k)
    return uniform(copy.copy(k))


@run("print_used")
def _():
    k = key()
    uniform(k)
    return str(k), k == k


@run("vmap")
def _():
    k = keys()()
    return jax.vmap(uniform)(k), jax.vmap(uniform)(k)


@run("used_before")
def _():
    k = key()
    with jax.debug_key_reuse(False):
        uniform(k)
    return uniform(k)


@run("closed_over")
def _():
    k = key()
    f = jax.jit(lambda x: x + uniform(k))
    return f(1.0), f(2.0)


# Signatures, applied to calls


def keys_used(used=False, shape=()):
    k = split(key(), shape) if shape else key()
    k._consumed = used
    return k


MASKS = {
    "all": True,
    "none": False,
    "first": np.array([True, False, False]),
    "others": np.array([False, True, True]),
}


def check_call(sink, used):
    k = keys_used(used, 3)
    try:
        _core.KeyReuseSignature(_core.Sink(0, sink)).check_signature(k)
    except jax.errors.KeyReuseError:
        return "a key is used twice"


@CASES.define
def checks_of_calls():
    return {f"{s} {u}": check_call(MASKS[s], MASKS[u]) for s in MASKS for u in MASKS}


@CASES.define
def checks_of_other_arguments():
    consumes = _core.KeyReuseSignature(_core.Sink(0)).check_signature
    consumes(1.0), consumes(random.PRNGKey(0)), consumes(key(), keys_used(True))
    _core.KeyReuseSignature(_core.Forward(0, 0), _core.Source(0)).check_signature(keys_used(True))


def updated(marks, ins, outs):
    _core.KeyReuseSignature(*marks).update_consumption(ins, outs)
    states = [getattr(x, "_consumed", None) for x in (*ins, *outs)]
    return [None if x is None else np.asarray(x) for x in states]


@CASES.define
def consumption_after_calls():
    sink, source, forward = _core.Sink, _core.Source, _core.Forward(0, 0)
    used, new, some = (lambda: keys_used(True)), keys_used, (lambda u: keys_used(MASKS[u], 3))
    return [
        updated([], [new(), used()], [new(), used(), 1.0]),
        updated([sink(0), source(1)], [new()], [new(), used()]),
        updated([forward], [used()], [new()]) + updated([forward], [new()], [used()]),
        updated([sink(0), forward], [new()], [new()]),
        updated([sink(0)], [1.0], [jnp.ones(2)]),
        [updated([sink(0, MASKS[s])], [some(u)], [some(u)]) for s in MASKS for u in MASKS],
        [updated([source(0, MASKS[s])], [], [some("first")]) for s in MASKS],
        updated([forward], [some("first")], [some("none")]),
    ]


@CASES.define
def texts_of_signatures():
    signature, some = _core.KeyReuseSignature, MASKS["first"]
    parts = _core.Sink(0), _core.Sink(2, False), _core.Source(1, some), _core.Forward(0, 1)
    block = _core.Source(0, np.eye(2, dtype=bool))
    return [repr(signature()), str(signature(parts[0])), repr(signature(*parts)), repr(block)]
