"""What jax.debug.print prints under transformations: in order if ordered, otherwise as a sorted list."""

import contextlib
import functools
import io
import logging

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name, checkpoint_policies as policies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

with contextlib.suppress(RuntimeError):  # devices exist already
    jax.config.update("jax_num_cpu_devices", 8)

CASES = Programs()
X = np.arange(2, dtype=np.float32) + 1


def printed(fun, ordered):
    out = io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(out):
            jax.block_until_ready(fun())
            jax.effects_barrier()
    finally:
        logging.disable(logging.NOTSET)
    lines = out.getvalue().splitlines()
    return "\n".join(lines if ordered else sorted(lines))


class Functions:
    """Functions that print, ordered or not."""

    def __init__(self, ordered):
        self.print = functools.partial(jax.debug.print, ordered=ordered)
        self.jvp = jax.custom_jvp(self)
        self.jvp.defjvp(lambda p, t: (self(*p), self.tell("tangent", *t)))
        self.vjp = jax.custom_vjp(self)
        self.vjp.defvjp(lambda x: (self(x), x), lambda x, g: (self.tell("cotangent", g) * x,))

    def tell(self, name, x):
        self.print(name + " {}", x)
        return x

    def __call__(self, x):
        self.print("x {}", x)
        y = jnp.sin(x) * 0 + x * 2
        self.print("y {}", y)
        return y

    def sum(self, x):
        return self(x).sum()


def mesh():
    return Mesh(np.array(jax.devices()[:2]), "x", (AxisType.Auto,))


def while_of(f):
    return lambda x: lax.while_loop(lambda c: c < 5, f, x)


def scan_of(f):
    return lambda x: lax.scan(lambda c, a: (f(c) * a, None), x, X)[0]


def grad_of_checkpoint(f, policy):
    @functools.partial(jax.checkpoint, policy=policy)
    def loss(x):
        y = checkpoint_name(f(jnp.sin(x)), "y")
        f.tell("named", y)
        return f.tell("loss", jnp.sin(y).sum())

    return jax.grad(loss)(X)


def grad_of_checkpoint_of(f, policy=None):
    """The gradient where the results of a function are needed, but not its derivative."""

    def loss(x):
        return (f(lax.stop_gradient(x)) * jnp.sin(x)).sum()

    return jax.jit(jax.grad(jax.checkpoint(loss, policy=policy)))(X)


def counting(f):
    return lambda x: lax.fori_loop(0, 2, lambda i, c: f(c), x)


def linear_solve(f):
    return lambda b: lax.custom_linear_solve(
        lambda v: v * 2, b, lambda _, b: f(b) / 4, lambda _, b: b
    )


def known(f):
    """A function of which a part is known in partial evaluation."""

    def of(x):
        return jax.grad(lambda y: (f.tell("known", x), f.tell("unknown", y), (y * x).sum())[2])(x)

    return of


programs = dict(
    eager=lambda f: f(X),
    numbers=lambda f: f.tell("list", [1, 2.0, True, X]),
    keys=lambda f: f.tell("keys", [jax.random.key(0), jax.random.split(jax.random.key(1))]),
    jit_of_keys=lambda f: jax.jit(lambda k: f.tell("key", k))(jax.random.key(0)),
    jit=lambda f: jax.jit(f)(X),
    nested=lambda f: jax.jit(lambda x: jax.jit(f)(x) + 1)(X),
    unused=lambda f: jax.jit(lambda x: (f(x), x)[1])(X),
    jvp=lambda f: jax.jvp(f, (X,), (X,)),
    linearize=lambda f: jax.linearize(f, X)[1](X),
    vjp=lambda f: jax.vjp(f, X)[1](X),
    grad=lambda f: jax.grad(f.sum)(X),
    jit_of_grad=lambda f: jax.jit(jax.grad(f.sum))(X),
    grad_of_jit=lambda f: jax.grad(jax.jit(f.sum))(X),
    hessian=lambda f: jax.hessian(lambda x: (f(x) ** 2).sum())(X[:1]),
    jacfwd=lambda f: jax.jacfwd(f)(X),
    jacrev=lambda f: jax.jacrev(f)(X),
    known=lambda f: jax.jit(known(f))(X),
    vmap=lambda f: jax.vmap(f)(X),
    jit_of_vmap=lambda f: jax.jit(jax.vmap(f))(X),
    vmap_of_vmap=lambda f: jax.vmap(jax.vmap(f))(X[None]),
    vmap_of_unmapped=lambda f: jax.vmap(lambda a, c: f(c) + a, (0, None))(X, 2.0),
    checkpoint=lambda f: jax.checkpoint(f)(X),
    grad_of_checkpoint=lambda f: jax.grad(jax.checkpoint(f.sum))(X),
    grad_of_checkpoint_all=lambda f: grad_of_checkpoint(f, policies.everything_saveable),
    grad_of_checkpoint_name=lambda f: grad_of_checkpoint(f, policies.save_only_these_names("y")),
    grad_of_checkpoint_offloading=lambda f: grad_of_checkpoint(
        f, policies.offload_dot_with_no_batch_dims("device", "pinned_host")
    ),
    grad_of_checkpoint_sin=lambda f: grad_of_checkpoint(f, lambda prim, *_, **__: prim.name == "sin"),
    grad_of_checkpoint_of_custom_jvp=lambda f: jax.grad(jax.checkpoint(lambda x: f.jvp(x).sum()))(X),
    grad_of_checkpoint_of_custom_vjp=lambda f: jax.grad(jax.checkpoint(lambda x: f.vjp(x).sum()))(X),
    checkpoint_of_known=lambda f: grad_of_checkpoint_of(f),
    checkpoint_of_known_custom_jvp=lambda f: grad_of_checkpoint_of(f.jvp),
    checkpoint_of_known_custom_vjp=lambda f: grad_of_checkpoint_of(f.vjp),
    checkpoint_of_known_linear_solve=lambda f: grad_of_checkpoint_of(linear_solve(f)),
    checkpoint_of_known_while=lambda f: grad_of_checkpoint_of(counting(f)),
    checkpoint_of_stored_while=lambda f: grad_of_checkpoint_of(
        counting(f), policies.everything_saveable
    ),
    checkpoint_of_checkpoint=lambda f: jax.grad(
        jax.checkpoint(lambda x: jax.checkpoint(f)(jnp.sin(f(x))).sum())
    )(X),
    jit_of_grad_of_checkpoint=lambda f: jax.jit(jax.grad(jax.checkpoint(f.sum)))(X),
    scan=lambda f: scan_of(f)(np.float32(1)),
    grad_of_scan=lambda f: jax.grad(scan_of(f))(np.float32(1)),
    vmap_of_scan=lambda f: jax.vmap(scan_of(f))(X),
    grad_of_scan_of_checkpoint=lambda f: jax.grad(scan_of(jax.checkpoint(f)))(np.float32(1)),
    vmap_of_grad_of_scan=lambda f: jax.jit(jax.vmap(jax.grad(scan_of(f))))(X),
    map=lambda f: lax.map(f, X),
    fori_loop=lambda f: lax.fori_loop(0, 2, lambda i, c: f(c), 1.0),
    while_loop=lambda f: while_of(f)(1.0),
    vmap_of_while=lambda f: jax.vmap(while_of(f))(X * 2),
    while_condition=lambda f: lax.while_loop(lambda c: f.tell("c", c) < 5, lambda c: c + 2, 1.0),
    vmap_of_while_condition=lambda f: jax.vmap(
        lambda v: lax.while_loop(lambda c: f.tell("c", c) < 5, lambda c: c + 2, v)
    )(X),
    cond=lambda f: lax.cond(True, f, lambda x: x, X),
    vmap_of_cond=lambda f: jax.vmap(lambda v: lax.cond(v > 1, f, lambda x: x, v))(X),
    grad_of_cond=lambda f: jax.grad(lambda v: lax.cond(v[0] > 0, f, lambda x: x, v).sum())(X),
    switch=lambda f: lax.switch(1, [lambda x: x, f], X),
    custom_jvp=lambda f: f.jvp(X),
    jvp_of_custom_jvp=lambda f: jax.jvp(f.jvp, (X,), (X,)),
    grad_of_custom_jvp=lambda f: jax.grad(lambda x: f.jvp(x).sum())(X),
    jit_of_custom_jvp=lambda f: jax.jit(jax.grad(lambda x: f.jvp(x).sum()))(X),
    vmap_of_custom_jvp=lambda f: jax.vmap(f.jvp)(X),
    custom_vjp=lambda f: f.vjp(X),
    grad_of_custom_vjp=lambda f: jax.grad(lambda x: f.vjp(x).sum())(X),
    jit_of_custom_vjp=lambda f: jax.jit(jax.grad(lambda x: f.vjp(x).sum()))(X),
    vmap_of_custom_vjp=lambda f: jax.vmap(jax.grad(f.vjp))(X),
    eval_shape=lambda f: jax.eval_shape(f, X).dtype.type(0),
    shard_map=lambda f: jax.jit(
        jax.shard_map(
            lambda x: f.tell("shard", x), mesh=mesh(), in_specs=P("x"), out_specs=P("x")
        )
    )(X),
    pmap=lambda f: jax.pmap(lambda x: f.tell("shard", x))(X),
    sharded=lambda f: jax.jit(lambda x: f.tell("whole", x))(
        jax.device_put(X, NamedSharding(mesh(), P("x")))
    ),
)  # fmt: skip
for name, fun in programs.items():
    for ordered in (False, True):
        CASES.add(
            f"{name}{'_ordered' * ordered}",
            lambda fun=fun, ordered=ordered: printed(lambda: fun(Functions(ordered)), ordered),
        )
# The order is that of the elements.
del CASES[[case.name for case in CASES].index("vmap_of_grad_of_scan_ordered")]
