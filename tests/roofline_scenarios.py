"""Costs of functions by jax.experimental.roofline: all fields of the results, and the types of outputs."""

import contextlib
import dataclasses
import importlib
import logging
import sys
import types

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, PartitionSpec as P

try:
    importlib.import_module("absl.logging")
except ImportError:  # the reference imports it, only to log
    sys.modules["absl"] = types.SimpleNamespace(logging=logging)
    sys.modules["absl.logging"] = logging

from jax.experimental.roofline import roofline, roofline_and_grad

CASES = Programs()
F, B, I = jnp.float32, jnp.bfloat16, jnp.int32
S = jax.ShapeDtypeStruct
X, Y, N = S((3, 8), F), S((8,), F), S((5,), I)
LEFT, RIGHT, SCALAR = S((4, 8), B), S((8, 16), B), S((), F)
IMAGE, KERNEL = S((2, 3, 8, 9), F), S((4, 3, 3, 3), F)


def fields(result):
    values = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    return {k: sorted(v.items()) if isinstance(v, dict) else v for k, v in values.items()}


def costs(fun, *args, **options):
    with contextlib.redirect_stdout(None):
        outs, result = roofline(fun, **options)(*args)
    return str((jax.tree.map(lambda x: (x.shape, str(x.dtype)), outs), fields(result)))


def add(prefix, /, *args, **functions):
    for name, fun in functions.items():
        CASES.add(f"{prefix}_{name}", lambda fun=fun: costs(fun, *args))


add(
    "one", X, sin=lax.sin, tanh=lax.tanh, negative=lax.neg, power=lambda x: x**3, square=jnp.square,
    round=jnp.round, finite=jnp.isfinite, erf_inv=lax.erf_inv, cast=lambda x: x.astype(B),
    twice=lambda x: lax.add(lax.sin(x), lax.cos(x)), itself=lambda x: x + x,
    number=lambda x: x + 1, compare=lambda x: x > 1, identity=lambda x: x,
    sum=jnp.sum, sum_rows=lambda x: x.sum(0), maximum=lambda x: x.max(1), prod=jnp.prod,
    reshape=lambda x: x.reshape(24), transpose=jnp.transpose, pad=lambda x: jnp.pad(x, 1),
    slice=lambda x: x[1:], cumsum=lambda x: lax.cumsum(x, 0), cummax=lambda x: lax.cummax(x, 1),
    cumlogsumexp=lambda x: lax.cumlogsumexp(x, 1), relu=jax.nn.relu, gelu=jax.nn.gelu,
    constant=lambda x: x + np.ones((3, 8), np.float32), jit=jax.jit(lax.sin),
    checkpoint=jax.checkpoint(lambda x: lax.sin(lax.sin(x))),
    scan=lambda x: lax.scan(lambda c, a: (c + a.sum(), a * 2), 0.0, x),
    grad=jax.grad(lambda x: jnp.sum(jnp.sin(x))),
    dead_code=lambda x: (lax.sin(x), jax.jit(lambda x: (lax.exp(x), lax.cos(x)))(x)[1])[1],
    fori_loop=lambda x: lax.fori_loop(0, 10, lambda i, y: lax.sin(y), x),
    callback=lambda x: jax.pure_callback(lambda a: a, x, x),
    debug_callback=lambda x: (jax.debug.callback(lambda a: None, x), x)[1],
    reduce_window=lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 2), "VALID"),
)  # fmt: skip
add(
    "two", X, X, add=lax.add, divide=lax.div, power=lax.pow, products=lambda x, y: x @ y.T,
    unused=lambda x, y: lax.sin(x), both=lambda x, y: (lax.sin(x), y),
)  # fmt: skip
add("broadcast", X, Y, add=lambda x, y: x + y, dot=lambda x, y: x @ y)
add("select", S((3, 8), jnp.bool_), X, X, of_two=lax.select_n)
add("select", S((), jnp.bool_), X, X, whole=lax.select_n)
add("matmul", LEFT, RIGHT, bfloat16=jnp.matmul, relu=lambda a, b: jax.nn.relu(a @ b))
add("matmul", S((2, 3, 4), F), S((2, 4, 5), F), batch=jnp.matmul)
for side in ("lhs", "rhs"):
    CASES.add(
        f"pinned_{side}",
        lambda side=side: costs(jnp.matmul, LEFT, RIGHT, **{f"pin_{side}_in_vmem": True}),
    )
add("scalar", SCALAR, while_loop=lambda s: lax.while_loop(lambda a: a < 3, lambda a: a + 1, s))
add("scalar", SCALAR, cond=lambda s: lax.cond(s > 0, lax.sin, lambda a: a * a + a, s))
for mode in ("clip", "fill"):
    add("gather", Y, N, **{mode: lambda y, i, mode=mode: y.at[i].get(mode=mode)})
add("gather", X, N, rows=lambda x, i: x.at[i].get(mode="clip"))
add(
    "scatter", Y, N, set=lambda y, i: y.at[i].set(1.0), add=lambda y, i: y.at[i].add(1.0),
    multiply=lambda y, i: y.at[i].multiply(2.0),
)  # fmt: skip
dimensions = [(1, 1), (2, 1)]
conv = lambda **options: lambda a, k: lax.conv_general_dilated(a, k, (1, 1), dimensions, **options)
add(
    "convolution", IMAGE, KERNEL, plain=conv(), lhs_dilation=conv(lhs_dilation=(2, 1)),
    rhs_dilation=conv(rhs_dilation=(2, 3)), batch_groups=conv(batch_group_count=2),
    strides=lambda a, k: lax.conv_general_dilated(
        a, k, (2, 3), [(3, 0), (2, 1)], lhs_dilation=(2, 3)
    ),
)  # fmt: skip
add("convolution", IMAGE, S((6, 1, 3, 3), F), groups=conv(feature_group_count=3))

# Shards

M8, M42 = AbstractMesh((8,), ("x",)), AbstractMesh((4, 2), ("x", "y"))
Z = S((8, 16), F)


def of_shards(prefix, mesh, axes, **functions):
    for name, (fun, out) in functions.items():
        CASES.add(
            f"{prefix}_{name}",
            lambda fun=fun, out=out: costs(fun, Z, mesh=mesh, in_specs=P(axes), out_specs=out),
        )


def collectives(axes, n):
    return dict(
        psum=(lambda x: lax.psum(x, axes), P()),
        pmean=(lambda x: lax.pmean(x, axes), P()),
        pmax=(lambda x: lax.pmax(x, axes), P()),
        all_gather=(lambda x: lax.all_gather(x, axes, tiled=True), P(axes)),
        psum_scatter=(
            lambda x: lax.psum_scatter(x, axes, scatter_dimension=1, tiled=True), P(axes),
        ),
        all_to_all=(lambda x: lax.all_to_all(x, axes, 1, 0, tiled=True), P(axes)),
        ppermute=(lambda x: lax.ppermute(x, axes, [(i, (i + 3) % n) for i in range(n)]), P(axes)),
        reverse=(lambda x: lax.ppermute(x, axes, [(i, n - 1 - i) for i in range(n)]), P(axes)),
        no_permutation=(lambda x: lax.ppermute(x, axes, []), P(axes)),
    )  # fmt: skip


of_shards("ring", M8, "x", **collectives("x", 8))
of_shards("torus", M42, ("x", "y"), **collectives(("x", "y"), 8))
of_shards("column", M42, ("x", "y"), psum=(lambda x: lax.psum(lax.psum(x, "x"), "y"), P()))
of_shards("two_devices", AbstractMesh((2,), ("x",)), "x", **collectives("x", 2))
of_shards(
    "one_device", AbstractMesh((1, 8), ("x", "y")), "x", psum=(lambda x: lax.psum(x, "x"), P())
)
for sizes in ((3,), (2, 8), (3, 5), (2, 2, 4), (4, 4, 4)):

    def all_to_all(sizes=sizes):
        names, n = tuple("xyz"[: len(sizes)]), int(np.prod(sizes))
        f = lambda x: lax.all_to_all(x, names, 1, 0, tiled=True)
        specs = dict(in_specs=P(names), out_specs=P(names))
        return costs(f, S((n, 11520), F), mesh=AbstractMesh(sizes, names), **specs)

    CASES.add("all_to_all_" + "_".join(map(str, sizes)), all_to_all)

product = lambda a, b: lax.psum(a @ b, "x")
specs = dict(mesh=M8, in_specs=(P(None, "x"), P("x")), out_specs=P())
CASES.add("sharded_matmul", lambda: costs(product, LEFT, RIGHT, **specs))

# Gradients

CASES.add("vjp_matmul", lambda: costs(jnp.matmul, LEFT, RIGHT, vjp=True))
CASES.add("vjp_sin", lambda: costs(lax.sin, S((8,), B), vjp=True))
CASES.add("vjp_sharded", lambda: costs(product, LEFT, RIGHT, vjp=True, **specs))


@CASES.define
def and_grad():
    outs, forwards, gradient = roofline_and_grad(product, **specs)(LEFT, RIGHT)
    return str((outs.shape, fields(forwards), fields(gradient)))


@CASES.define
def types_of_results():
    from jax.experimental.roofline import RooflineResult, RooflineShape

    a = RooflineResult(flops=1, peak_hbm_bytes=5, ici_bytes={"x": 1})
    b = RooflineResult(flops=2, peak_hbm_bytes=3, ici_bytes={"x": 2, "y": 3})
    shape = RooflineShape.from_aval(jax.core.ShapedArray((3, 4), np.dtype(B)))
    total = RooflineShape.total_bytes([jax.core.ShapedArray((3, 4), np.dtype(F))] * 2)
    return str((fields(a + b), fields(RooflineResult.zeros()), shape.size, shape.bytes, total))
