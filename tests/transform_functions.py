"""Functions that tables of transformations have in common."""

import numpy as np

import jax
from jax import lax

F = np.float32
x1 = F(1.3)
v3 = np.array([0.3, -1.2, 2.1], F)
m23 = np.arange(6, dtype=F).reshape(2, 3) / 4 - 0.5


def total(x):
    return lax.reduce_sum(x, tuple(range(np.ndim(x))))


def text(fun, *args):
    return str(jax.make_jaxpr(fun)(*args))


# Functions used by many

cube = lambda x: lax.mul(x, lax.mul(x, x))
poly = lambda x, y: lax.add(lax.mul(x, lax.sin(y)), lax.mul(x, x))


def make_custom_jvp():
    f = jax.custom_jvp(lambda x: lax.sin(x))
    f.defjvp(lambda p, t: (f(*p), lax.mul(lax.mul(F(2), lax.cos(p[0])), t[0])))
    return f


def make_custom_vjp():
    f = jax.custom_vjp(lambda x: lax.sin(x))
    f.defvjp(lambda x: (f(x), lax.cos(x)), lambda r, g: (lax.mul(lax.mul(F(3), r), g),))
    return f


def make_sine():
    """A rule that agrees with the function, so that how often it is applied does not matter."""
    f = jax.custom_jvp(lambda x: lax.sin(x))
    f.defjvp(lambda p, t: (f(*p), lax.mul(lax.cos(p[0]), t[0])))
    return f


cj, cv, sine = make_custom_jvp(), make_custom_vjp(), make_sine()
scan_sin = lambda x: lax.scan(lambda c, y: (lax.sin(lax.mul(c, y)), lax.add(c, y)), x, v3)
loop3 = lambda x: lax.fori_loop(0, 3, lambda i, c: lax.sin(lax.add(c, x)), x)
branch = lambda x: lax.cond(lax.gt(x, F(0)), lax.sin, lambda x: lax.mul(x, x), x)
until10 = lambda x: lax.while_loop(
    lambda c: lax.lt(c, F(10)), lambda c: lax.add(lax.mul(c, c), F(1)), x
)
remat_sin = jax.checkpoint(lambda x: lax.sin(lax.sin(x)))
FUNCTIONS = dict(
    cube=cube, jitted=jax.jit(cube), jitted_jitted=jax.jit(lambda x: jax.jit(cube)(lax.sin(x))), custom_jvp=cj,
    scan=lambda x: scan_sin(x)[0], scan_ys=lambda x: total(scan_sin(x)[1]), fori=loop3, cond=branch,
    switch=lambda x: lax.switch(2, [lax.sin, lax.cos, cube], x), remat=remat_sin,
    scan_cond=lambda x: lax.scan(lambda c, y: (branch(lax.mul(c, y)), None), x, v3)[0],
    cond_scan=lambda x: lax.cond(True, lambda x: scan_sin(x)[0], cube, x),
    scan_scan=lambda x: lax.scan(lambda c, y: (lax.mul(scan_sin(c)[0], y), None), x, v3)[0],
    scan_remat=lambda x: lax.scan(lambda c, y: (remat_sin(lax.mul(c, y)), None), x, v3)[0],
    remat_scan=jax.checkpoint(lambda x: scan_sin(x)[0]),
    scan_jitted=lambda x: lax.scan(lambda c, y: (jax.jit(cube)(lax.mul(c, y)), None), x, v3)[0],
    scan_custom=lambda x: lax.scan(lambda c, y: (sine(lax.mul(c, y)), None), x, v3)[0],
    vmap=lambda x: total(jax.vmap(lambda y: lax.sin(lax.mul(x, y)))(v3)),
    vmap_scan=lambda x: total(jax.vmap(lambda y: scan_sin(lax.mul(x, y))[0])(v3)),
    vmap_cond=lambda x: total(jax.vmap(lambda y: branch(lax.mul(x, y)))(v3)),
    map=lambda x: total(lax.map(lambda y: cube(lax.mul(x, y)), v3)),
    jvp=lambda x: jax.jvp(cube, (x,), (lax.sin(x),))[1],
    grad=jax.grad(cube), grad_scan=jax.grad(lambda x: scan_sin(x)[0]), grad_jitted=jax.jit(jax.grad(loop3)),
    unrolled=lambda x: lax.scan(lambda c, y: (lax.sin(lax.mul(c, y)), None), x, v3, unroll=2)[0],
    reverse=lambda x: lax.scan(lambda c, y: (lax.sin(lax.mul(c, y)), None), x, v3, reverse=True)[0],
    inline=jax.jit(cube, inline=True), closure=lambda x: jax.jit(lambda y: lax.mul(y, lax.sin(x)))(x),
    scan_closure=lambda x: lax.scan(lambda c, y: (lax.mul(lax.sin(x), c), None), x, v3)[0],
    while_jitted=lambda x: lax.while_loop(lambda c: lax.lt(c[0], 3), lambda c: (lax.add(c[0], 1), cube(c[1])), (0, x))[1],
)  # fmt: skip
REVERSE = {k: f for k, f in FUNCTIONS.items() if k != "while_jitted"}
