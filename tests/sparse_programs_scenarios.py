"""Random programs of jax.experimental.sparse: see sparse_operations.py and op_cases.py."""

import functools

from op_cases import Programs, is_inexact
from sparse_operations import OPERATIONS, Random

import jax
import jax.numpy as jnp
from jax.experimental import sparse

CASES = Programs()


def is_sparse(x):
    return isinstance(x, sparse.JAXSparse)


def described(out):
    """Formats, promises and types of all results."""

    def describe(x):
        if not is_sparse(x):
            return f"{x.dtype.name}{list(x.shape)}"
        buffers, info = x.tree_flatten()
        texts = [f"{b.dtype.name}{list(b.shape)}" for b in buffers]
        return " ".join([type(x).__name__, *map(str, info.values()), *texts])

    return "; ".join(map(describe, jax.tree.leaves(out, is_leaf=is_sparse)))


def buffers_and_dense(out):
    """The arrays of all results."""
    found = []
    for x in jax.tree.leaves(out, is_leaf=is_sparse):
        found += [*x.tree_flatten()[0], x.todense()] if is_sparse(x) else [x]
    return found


def type_of(name, number):
    fun, args = OPERATIONS[name](Random(name, number))
    try:
        return described(jax.eval_shape(fun, *args))
    except Exception as error:
        return type(error).__name__


def types(name, numbers):
    return [type_of(name, number) for number in numbers]


# What a transformation of a function of arrays returns for these arrays.


def direct(fun, args):
    return fun(*args)


def forward(fun, args):
    floats = [x for x in args if is_inexact(x.dtype)]
    along = lambda *xs: [y for y in fun(*merged(args, xs)) if is_inexact(y.dtype)]
    tangents = [jnp.flip(x) + 1 for x in floats]
    return jax.jvp(along, floats, tangents)[1]


def backward(fun, args):
    floats = [x for x in args if is_inexact(x.dtype)]
    along = lambda *xs: [y for y in fun(*merged(args, xs)) if is_inexact(y.dtype)]
    outs, pullback = jax.vjp(along, *floats)
    return pullback([jnp.flip(y) + 2 for y in outs])


def mapped(fun, args):
    """Batched along the elements alone, then along all operands; the reference takes only axis 0."""
    floats = [is_inexact(x.dtype) for x in args]
    some = [jnp.stack([x, 2 * x]) if f else x for x, f in zip(args, floats)]
    both = [jnp.stack([x, 2 * x if f else x]) for x, f in zip(args, floats)]
    return [
        jax.vmap(fun, tuple(0 if f else None for f in floats))(*some),
        jax.vmap(fun)(*both),
    ]


def merged(args, floats):
    rest = iter(floats)
    return [next(rest) if is_inexact(x.dtype) else x for x in args]


def values(name, transform, numbers):
    """The results of all programs that can be traced, compiled at once."""
    programs, args = {}, {}
    for number in numbers:
        fun, operands = OPERATIONS[name](Random(name, number, float32=True))
        run = functools.partial(transform, lambda *xs, fun=fun: buffers_and_dense(fun(*xs)))
        try:
            jax.eval_shape(run, operands)
        except Exception as error:
            programs[str(number)] = type(error).__name__
        else:
            programs[str(number)], args[str(number)] = run, operands
    errors = {n: p for n, p in programs.items() if isinstance(p, str)}
    return jax.jit(lambda args: {n: programs[n](x) for n, x in args.items()})(args), errors


# Programs whose padding, which stands for nothing, is stored in another way than the reference's.
OTHER_PADDING = {
    "multiply_dense": [1],
    "multiply_sparse": [0, 2, 4, 5],
    "operators": [3],
    "spdot_general": [3],
}
# What the reference does not support, or fails at when it compiles.
UNSUPPORTED = {
    "backward_conv": range(6),
    "backward_derivatives": range(6),
    "backward_extract": range(6),
    "backward_operators": [0],
    "backward_spdot_general": [1, 3],
    "mapped_extract": range(6),
}

for _name in OPERATIONS:
    CASES.add(f"types_{_name}", functools.partial(types, _name, range(20)))
    for _transform in (direct, forward, backward, mapped):
        _key = f"{_transform.__name__}_{_name}"
        _others = {*OTHER_PADDING.get(_name, ()), *UNSUPPORTED.get(_key, ())}
        if _numbers := [n for n in range(6) if n not in _others]:
            CASES.add(_key, functools.partial(values, _name, _transform, _numbers))
