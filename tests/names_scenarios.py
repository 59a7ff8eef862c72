"""Names of operations, as profilers show them: see op_cases.py. Texts are names, sorted.

`traced` gives those of the equations of a jaxpr and of what it calls, `compiled` those of what XLA makes.
"""

import re

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax

CASES = Programs()
F = np.float32
v4 = np.arange(4, dtype=F) + 1
m44 = np.outer(v4, v4) / 16


def traced(fun, *args):
    def visit(jaxpr):
        for eqn in jaxpr.eqns:
            yield f"{eqn.primitive.name} {eqn.source_info.name_stack}"
            for param in eqn.params.values():
                for sub in param if isinstance(param, (tuple, list)) else [param]:
                    sub = getattr(sub, "jaxpr", sub)
                    if hasattr(sub, "eqns"):
                        yield from visit(sub)

    return "\n".join(sorted(visit(jax.make_jaxpr(fun)(*args).jaxpr)))


def compiled(fun, *args):
    text = jax.jit(fun).lower(*args).compile().as_text()
    names = {n for n in re.findall(r'op_name="([^"]*)"', text) if "/" in n}
    # XLA also names copies after the call that they are made for.
    return "\n".join(sorted(n for n in names if not any(m.startswith(n + "/") for m in names)))


def scoped(x):
    with jax.named_scope("foo"):
        y = jnp.sin(x)
    return jnp.sum(y * x)


def nested(x):
    with jax.named_scope("outer"), jax.named_scope("inner"):
        return jnp.cos(x) * F(2)


def under(name, fun):
    def call(*args):
        with jax.named_scope(name):
            return fun(*args)

    return call


jitted = jax.jit(nested)


def calls(x):
    return jnp.sum(jitted(x) * x)


def scan(x):
    def body(c, y):
        with jax.named_scope("step"):
            c = jnp.sin(c) * y
        return c, jnp.cos(c)

    with jax.named_scope("loop"):
        return lax.scan(body, F(2), x)


def while_(x):
    return lax.while_loop(
        lambda c: under("test", lax.lt)(c[0], 3),
        lambda c: (c[0] + 1, under("step", jnp.sin)(c[1])),
        (0, x),
    )


def fori(x):
    return lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * i, x)


def dynamic_fori(n, x):
    return lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * i, x)


def cond(p, x):
    return lax.cond(p, under("yes", jnp.sin), under("no", lambda x: jnp.cos(x) * F(2)), x)


def switch(i, x):
    return lax.switch(i, [jnp.sin, lambda x: jnp.cos(x) * x, jnp.exp], x)


custom_jvp = jax.custom_jvp(under("fun", lambda x: jnp.sin(x) * x))
custom_jvp.defjvp(under("rule", lambda p, t: (custom_jvp(p[0]), jnp.cos(p[0]) * t[0])))
custom_vjp = jax.custom_vjp(under("fun", lambda x: jnp.sin(x) * x))
custom_vjp.defvjp(
    under("fwd", lambda x: (custom_vjp(x), jnp.cos(x))), under("bwd", lambda r, ct: (r * ct,))
)


def body(x):
    y = under("once", jnp.sin)(x)
    z = jnp.dot(m44, y)
    return jnp.sum(jnp.exp(z) * y)


def total(fun):
    return lambda *args: sum(jnp.sum(x) for x in jax.tree.leaves(fun(*args)))


def add(how, name, fun, *args):
    CASES.add(f"{how.__name__}_{name}", lambda: how(fun, *args))


def vjp_elsewhere(x):
    with jax.named_scope("S"):
        y, pull = jax.vjp(scoped, x)
    with jax.named_scope("T"):
        return pull(F(1))


def linearized_elsewhere(x):
    with jax.named_scope("S"):
        y, push = jax.linearize(scoped, x)
    with jax.named_scope("T"):
        return push(x)


def pulled_in_batches(x):
    with jax.named_scope("S"):
        y, pull = jax.vjp(nested, x)
    with jax.named_scope("T"):
        return jax.vmap(pull)(m44)


add(traced, "vmap_of_custom_vjp", jax.vmap(custom_vjp), m44)
for how in (traced, compiled):
    for name, fun in dict(
        scoped=scoped, grad=jax.grad(scoped), grad_in_scope=under("S", jax.grad(scoped)),
        vjp=vjp_elsewhere, linearize=linearized_elsewhere, pull=pulled_in_batches,
        jvp=under("S", lambda x: jax.jvp(nested, (x,), (x,))),
        jvp_of_grad=under("S", lambda x: jax.jvp(jax.grad(scoped), (x,), (x,))),
        grad_of_grad=lambda x: jax.grad(lambda x: jnp.sum(jax.grad(scoped)(x)))(x),
        linear_transpose=under("S", jax.linear_transpose(under("Q", lambda x: F(2) * x), v4)),
        calls=calls, grad_of_calls=jax.grad(calls), jvp_of_calls=lambda x: jax.jvp(calls, (x,), (x,)),
        scan=scan, grad_of_scan=jax.grad(lambda x: scan(x)[0]),
        jvp_of_scan=lambda x: jax.jvp(scan, (x,), (x,)),
        while_=while_, jvp_of_while=lambda x: jax.jvp(while_, (x,), (x,)), fori=fori,
        cond=lambda x: cond(x[0] > 0, x), switch=lambda x: switch(x[0].astype(int), x),
        jvp_of_cond=lambda x: jax.jvp(lambda x: cond(x[0] > 0, x), (x,), (x,)),
        map=lambda x: lax.map(lambda y: jnp.sin(y) * F(2), x),
        map_in_batches=lambda x: lax.map(lambda y: jnp.sin(y) * F(2), x, batch_size=2),
        associative=lambda x: lax.associative_scan(jnp.add, x),
        custom_jvp=custom_jvp, jvp_of_custom_jvp=lambda x: jax.jvp(custom_jvp, (x,), (x,)),
        grad_of_jitted_custom_jvp=jax.grad(total(jax.jit(custom_jvp))),
        custom_vjp=custom_vjp, grad_of_custom_vjp=jax.grad(total(custom_vjp)),
        grad_of_jitted_custom_vjp=jax.grad(total(jax.jit(custom_vjp))),
        remat=jax.checkpoint(body), jvp_of_remat=lambda x: jax.jvp(jax.checkpoint(body), (x,), (x,)),
        grad_of_jitted_remat=jax.grad(jax.jit(jax.checkpoint(body))),
        named_call=jax.named_call(scoped, name="called"),
        call_in_scan=lambda x: lax.scan(lambda c, y: (jitted(c), c[0]), x, m44)[0],
        cond_in_scan=lambda x: lax.scan(lambda c, y: (cond(y > 2, c), None), x, x)[0],
    ).items():  # fmt: skip
        add(how, name, fun, v4)
    for name, fun in dict(
        vmap=jax.vmap(nested), vmap_of_vmap=jax.vmap(jax.vmap(nested)), vmap_of_calls=jax.vmap(calls),
        vmap_of_grad=jax.vmap(jax.grad(total(nested))),
        grad_of_vmap=jax.grad(total(jax.vmap(nested))), vmap_of_scan=jax.vmap(scan),
        vmap_of_while=jax.vmap(while_), vmap_of_custom_jvp=jax.vmap(custom_jvp),
        vmap_of_remat=jax.vmap(jax.checkpoint(nested)),
        vmap_of_cond=jax.vmap(lambda x: cond(True, x)),
    ).items():  # fmt: skip
        add(how, name, fun, m44)
    add(how, "dynamic_fori", dynamic_fori, 3, v4)
    add(how, "vmap_of_dynamic_fori", jax.vmap(dynamic_fori, (None, 0)), 3, m44)
