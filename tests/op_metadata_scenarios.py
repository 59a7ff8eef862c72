"""Names of scopes and transformations, and source lines, in lowered programs."""

import re

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax

CASES = Programs()
X = np.arange(8, dtype=np.float32) + 1


def scoped(x):
    with jax.named_scope("outer"):
        y = jnp.sin(x)
        with jax.named_scope("inner"):
            return jnp.cos(y) * 2


@jax.named_call
def called(x):
    return jnp.exp(x)


@jax.custom_vjp
def with_vjp(x):
    return jnp.sin(x)


def forwards(x):
    return jnp.sin(x), x


def backwards(x, g):
    return (jnp.cos(x) * g,)


with_vjp.defvjp(forwards, backwards)


def operations(fun):
    """The names of the operations of a program, and the lines of this file."""
    lowered = jax.jit(fun).lower(X)
    hlo = lowered.as_text(dialect="hlo", debug_info=True)
    names = set(re.findall(r' (\S+?)\(.*metadata=\{.*?op_name="(.*?)"', hlo))
    names = {(op, name) for op, name in names if op != "parameter"}
    text = lowered.as_text(debug_info=True)
    lines = sorted({int(n) for n in re.findall(r'op_metadata_scenarios.py":(\d+)', text)})
    return str(sorted(names)), str(lines)


def deep(x):
    return called(called(x)) + x


for name, fun in dict(
    plain=lambda x: jnp.sin(x) * 2,
    scopes=scoped,
    named_call=called,
    deep=deep,
    grad=jax.grad(lambda x: scoped(x).sum()),
    jvp=lambda x: jax.jvp(scoped, (x,), (x,)),
    vjp=lambda x: jax.vjp(scoped, x)[1](x),
    linearize=lambda x: jax.linearize(scoped, x)[1](x),
    vmap=jax.vmap(scoped),
    vmap_of_grad=jax.vmap(jax.grad(lambda v: jnp.sin(v) * v)),
    custom_vjp=with_vjp,
    grad_of_custom_vjp=jax.grad(lambda x: with_vjp(x).sum()),
    checkpoint=jax.checkpoint(scoped),
    while_loop=lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, scoped(c[1])), (0, x)
    ),
    cond=lambda x: lax.cond(x[0] > 0, jnp.sin, scoped, x),
    switch=lambda x: lax.switch(jnp.int32(x[0]), [jnp.sin, jnp.cos, scoped], x),
    product=lambda x: jnp.outer(x, x) @ x,
    index=lambda x: x[jnp.array([1, 2])],
    update=lambda x: x.at[2].set(1.0),
).items():
    CASES.add(name, lambda fun=fun: operations(fun))
