"""Types under an explicit mesh, of results, derivatives and mapped results: see op_cases.py."""

import functools

import numpy as np
from op_cases import Programs

import jax
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

CASES = Programs()
MESH = AbstractMesh((2, 4, 2), ("x", "y", "z"), (AxisType.Explicit,) * 3)


def of(shape, *spec, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, P(*spec)))


def types(fun, *args):
    """The types of the results; or the class of the error."""
    try:
        with jax.sharding.use_abstract_mesh(MESH):
            jaxpr = jax.make_jaxpr(fun)(*args)
    except Exception as err:
        return f"{type(err).__name__}"
    return ", ".join([str(a) for a in jaxpr.out_avals])


def differentiable(x):
    return np.issubdtype(x.dtype, np.inexact)


def pullback(fun, *args):
    """Cotangents of the floating-point arguments, for the results as cotangents."""
    at = [i for i, a in enumerate(args) if differentiable(a)]

    def of_floats(*xs):
        full = list(args_now)
        for i, x in zip(at, xs):
            full[i] = x
        return fun(*full)

    args_now = args
    outs, pull = jax.vjp(of_floats, *[args[i] for i in at])
    return pull(outs)


def add(name, fun, *args, grad=True, vmap=True):
    def scenario():
        lines = ["type: " + types(fun, *args)]
        if grad:
            lines.append("grad: " + types(functools.partial(pullback, fun), *args))
            lines.append("jvp: " + types(lambda *xs: jax.jvp(fun, xs, xs)[1], *args))
        if vmap:
            for entry in (None, "z"):
                stacked = [of((6, *a.shape), entry, *a.sharding.spec, dtype=a.dtype) for a in args]
                lines.append(f"vmap {entry}: " + types(jax.vmap(fun), *stacked))
                if grad:
                    f = jax.vmap(functools.partial(pullback, fun))
                    lines.append(f"vmap grad {entry}: " + types(f, *stacked))
            if len(args) > 1:
                mixed = [of((6, *args[0].shape), "z", *args[0].sharding.spec, dtype=args[0].dtype)]
                f = jax.vmap(fun, (0,) + (None,) * (len(args) - 1))
                lines.append("vmap first: " + types(f, *mixed, *args[1:]))
        return "\n".join(lines)

    CASES.add(name, scenario)


MESH = AbstractMesh((2, 4, 2), ("x", "y", "z"), (AxisType.Explicit,) * 3)
XY, X0, OY, OO, YX = (
    of((8, 8), *s) for s in (("x", "y"), ("x", None), (None, "y"), (), ("y", "x"))
)
V = of((8,), "x")
V0 = of((8,), None)
S = of(())
I = of((8, 8), "x", "y", dtype=np.int32)
B = of((8, 8), "x", "y", dtype=np.bool_)
C = of((8, 8), "x", "y", dtype=np.complex64)

for name in "sin exp log tanh neg sign floor sqrt rsqrt cbrt abs logistic erf lgamma is_finite square integer_pow".split():
    if name == "integer_pow":
        add(name, lambda x: lax.integer_pow(x, 3), XY)
    else:
        add(name, getattr(lax, name), XY, grad=name != "is_finite")
for name in "add sub mul div max min pow atan2 rem nextafter".split():
    add(name, getattr(lax, name), XY, XY, grad=name != "nextafter")
    add(name + "_mixed", getattr(lax, name), XY, X0, grad=name != "nextafter")
    add(name + "_unsharded", getattr(lax, name), XY, OO, grad=name != "nextafter")
for name in "eq lt and_ or_".split():
    f = {"and_": lax.bitwise_and, "or_": lax.bitwise_or}.get(name) or getattr(lax, name)
    add(name, f, I, I, grad=False)
for name, f in dict(real=lax.real, imag=lax.imag, conj=lax.conj, abs=lax.abs).items():
    add("complex_" + name, f, C)
add("complex", lax.complex, XY, XY)
add("scalar_mul", lambda x, s: lax.mul(x, lax.broadcast_in_dim(s, (8, 8), ())), XY, S)
add("scalar_full", lambda x: x * 2.0, XY)
add("convert", lambda x: lax.convert_element_type(x, np.float16), XY)
add("bitcast", lambda x: lax.bitcast_convert_type(x, np.int32), XY, grad=False)
add("bitcast_up", lambda x: lax.bitcast_convert_type(x, np.int16), XY, grad=False)
add("reduce_precision", lambda x: lax.reduce_precision(x, 5, 10), XY)
add("select", lax.select, B, XY, XY)
add("select_mixed", lax.select, B, XY, X0)
add("select_n_scalar", lax.select_n, of((), dtype=np.bool_), XY, XY)
add("clamp_scalar", lambda x: lax.clamp(0.0, x, 1.0), XY)
add("stop_gradient", lax.stop_gradient, XY)
add("copy", lambda x: lax.copy_p.bind(x), XY)
add("barrier", lax.optimization_barrier, XY)
add("exp_dims", lambda x: lax.expand_dims(x, (1,)), XY)
add("squeeze", lambda x: lax.squeeze(x, (1,)), of((8, 1, 8), "x", None, "y"))
add("broadcast", lambda x: lax.broadcast(x, (3,)), XY)
add("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (8, 3, 8), (0, 2)), XY)
add(
    "broadcast_in_dim_one", lambda x: lax.broadcast_in_dim(x, (8, 8), (0, 1)), of((1, 8), None, "y")
)
add(
    "broadcast_in_dim_out",
    lambda x: lax.broadcast_in_dim(x, (8, 8), (0,), out_sharding=P("x", "y")),
    V,
)
add(
    "broadcast_scalar_out",
    lambda x: lax.broadcast_in_dim(x, (8, 8), (), out_sharding=P("x", "y")),
    S,
)
add("reshape_merge", lambda x: lax.reshape(x, (64,)), XY)
add("reshape_merge_first", lambda x: lax.reshape(x, (64,)), X0)
add("reshape_merge_second", lambda x: lax.reshape(x, (64,)), OY)
add("reshape_split", lambda x: lax.reshape(x, (2, 4)), V)
add("reshape_split_out", lambda x: lax.reshape(x, (2, 4), out_sharding=P("x", "y")), V)
add("reshape_ones", lambda x: lax.reshape(x, (8, 1, 8, 1)), XY)
add("reshape_bad", lambda x: lax.reshape(x, (16, 4)), XY)
add("transpose", lambda x: lax.transpose(x, (1, 0)), XY)
add("rev", lambda x: lax.rev(x, (1,)), XY)
add("concatenate", lambda x, y: lax.concatenate([x, y], 1), X0, X0)
add("concatenate_sharded", lambda x, y: lax.concatenate([x, y], 1), XY, XY)
add("concatenate_mixed", lambda x, y: lax.concatenate([x, y], 1), XY, X0)
add("split", lambda x: lax.split(x, (4, 4), 1), X0)
add("split_sharded", lambda x: lax.split(x, (4, 4), 1), XY)
add("pad", lambda x: lax.pad(x, 0.0, [(0, 0, 0), (1, 3, 0)]), X0)
add("pad_sharded", lambda x: lax.pad(x, 0.0, [(0, 0, 0), (4, 4, 0)]), XY)
add("pad_sharded_bad", lambda x: lax.pad(x, 0.0, [(0, 0, 0), (1, 0, 0)]), XY)
add("slice", lambda x: lax.slice(x, (0, 2), (8, 6)), X0)
add("slice_sharded", lambda x: lax.slice(x, (0, 0), (8, 4)), XY)
add("slice_sharded_bad", lambda x: lax.slice(x, (0, 0), (8, 3)), XY)
add("slice_strided", lambda x: lax.slice(x, (0, 0), (8, 8), (1, 2)), XY)
add("dynamic_slice", lambda x: lax.dynamic_slice(x, (0, 1), (8, 4)), X0)
add(
    "dynamic_slice_traced",
    lambda x, i: lax.dynamic_slice(x, (i, i), (8, 4)),
    X0,
    of((), dtype=np.int32),
)
add(
    "dynamic_update_slice",
    lambda x, u: lax.dynamic_update_slice(x, u, (0, 0)),
    X0,
    of((8, 4), "x", None),
)
add(
    "dynamic_update_slice_mixed",
    lambda x, u: lax.dynamic_update_slice(x, u, (0, 0)),
    XY,
    of((8, 4), "x", None),
)
add("index_in_dim", lambda x: lax.index_in_dim(x, 0, 1), X0)
add("dynamic_index_in_dim", lambda x: lax.dynamic_index_in_dim(x, 0, 1), X0)
add("getitem", lambda x: x[:, 0], X0)
add("getitem_sharded", lambda x: x[0], XY)
for spec in ("XY", "X0", "OY", "OO"):
    x = globals()[spec]
    for axes in ((0,), (1,), (0, 1)):
        add(f"reduce_sum_{spec}_{axes}", lambda x, axes=axes: lax.reduce_sum(x, axes), x)
add("reduce_sum_out", lambda x: lax.reduce_sum(x, (0,), out_sharding=P("x")), XY)
add(
    "reduce_sum_unreduced",
    lambda x: lax.reduce_sum(x, (0,), out_sharding=P("y", unreduced={"x"})),
    XY,
    grad=False,
    vmap=False,
)
for name in "reduce_max reduce_min reduce_prod".split():
    add(name, lambda x, name=name: getattr(lax, name)(x, (0,)), XY)
add("reduce_and", lambda x: lax.reduce_and(x, (0,)), B, grad=False)
add("reduce", lambda x: lax.reduce(x, 0.0, lax.add, (0,)), XY)
add("reduce_general", lambda x: lax.reduce(x, 0.0, lambda a, b: a * b + a, (0,)), XY, grad=False)
add("argmax", lambda x: lax.argmax(x, 0, np.int32), XY, grad=False)
for name in "cumsum cumprod cummax cumlogsumexp".split():
    add(name, lambda x, name=name: getattr(lax, name)(x, 1), X0)
    add(name + "_sharded", lambda x, name=name: getattr(lax, name)(x, 1), XY)
add("sort_sharded", lambda x: lax.sort(x, dimension=1), XY)
add("top_k_sharded", lambda x: lax.top_k(x, 2), XY)
add("reduce_window", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2)), X0)
add(
    "reduce_window_sharded",
    lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 2), "SAME"),
    XY,
)
add("iota", lambda x: x + lax.broadcasted_iota(np.float32, (8, 8), 0, out_sharding=P("x", "y")), XY)
add("full", lambda x: x + lax.full((8, 8), 1.0, sharding=NamedSharding(MESH, P("x", "y"))), XY)
add("full_like", lambda x: lax.full_like(x, 1.0), XY, grad=False)


# Contractions
def dot(dims, **kw):
    return lambda x, y: lax.dot_general(x, y, dims, **kw)


mm = (((1,), (0,)), ((), ()))
add("dot_x_y", dot(mm), X0, OY)
add("dot_unsharded", dot(mm), OO, OO)
add("dot_left", dot(mm), X0, OO)
add("dot_contracted", dot(mm), OY, of((8, 8), "y", None))
add("dot_contracted_out", dot(mm, out_sharding=P("x", None)), XY, of((8, 8), "y", None))
add("dot_contracted_left", dot(mm), OY, OO)
add("dot_conflict", dot(mm), X0, of((8, 8), None, "x"))
add("dot_conflict_out", dot(mm, out_sharding=P("x", None)), X0, of((8, 8), None, "x"))
bm = (((2,), (1,)), ((0,), (0,)))
add("dot_batch", dot(bm), of((8, 4, 4), "x", "y", None), of((8, 4, 4), "x", None, None))
add("dot_batch_mixed", dot(bm), of((8, 4, 4), "x", None, None), of((8, 4, 4), "y", None, None))
add("dot_preferred", dot(mm, preferred_element_type=np.float32), X0, OY)
add("matmul", lambda x, y: x @ y, X0, OY)
add("einsum", lambda x, y: jax.numpy.einsum("ab,bc->ac", x, y), X0, OY)
add(
    "conv",
    lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME"),
    of((8, 2, 8), "x", None, None),
    of((4, 2, 3)),
)
add(
    "conv_sharded",
    lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME"),
    of((8, 2, 8), None, None, "x"),
    of((4, 2, 3)),
)
# Indexing
idx = of((4, 1), dtype=np.int32)
idxx = of((4, 1), "x", None, dtype=np.int32)
gd = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
add("gather", lambda x, i: lax.gather(x, i, gd, (1, 8)), OO, idx)
add("gather_offset", lambda x, i: lax.gather(x, i, gd, (1, 8)), OY, idx)
add("gather_operand", lambda x, i: lax.gather(x, i, gd, (1, 8)), X0, idx)
sd = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
add("scatter", lambda x, i, u: lax.scatter_add(x, i, u, sd), OO, idx, of((4, 8)))
add("scatter_window", lambda x, i, u: lax.scatter_add(x, i, u, sd), OY, idx, of((4, 8), None, "y"))
add("scatter_sharded", lambda x, i, u: lax.scatter_add(x, i, u, sd), X0, idx, of((4, 8)))
# Structure
add("jit", jax.jit(lambda x: x * 2), XY)
add("scan", lambda c, x: lax.scan(lambda c, y: (c * y, c), c, x), V, of((4, 8), None, "x"))
add(
    "while",
    lambda x: lax.while_loop(lambda c: lax.reduce_sum(c, (0, 1)) < 3, lambda c: c * 2, x),
    XY,
    grad=False,
)
add("fori", lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), XY)
add("cond", lambda p, x: lax.cond(p, lambda y: y * 2, lambda y: y, x), of((), dtype=np.bool_), XY)
add(
    "cond_mixed",
    lambda p, x, y: lax.cond(p, lambda x, y: x, lambda x, y: y, x, y),
    of((), dtype=np.bool_),
    XY,
    X0,
)
add(
    "switch",
    lambda i, x: lax.switch(i, [lambda y: y * 2, lambda y: y], x),
    of((), dtype=np.int32),
    XY,
)
add("map", lambda x: lax.map(lambda y: y * 2, x), OY)
add("checkpoint", jax.checkpoint(lambda x: lax.sin(x * 2)), XY)
cj = jax.custom_jvp(lambda x: lax.sin(x))
cj.defjvp(lambda p, t: (cj(*p), t[0] * 2))
cv = jax.custom_vjp(lambda x: lax.sin(x))
cv.defvjp(lambda x: (cv(x), x), lambda r, g: (g * r,))
add("custom_jvp", lambda x: cj(x), XY)
add("custom_vjp", lambda x: cv(x), XY)
add(
    "custom_linear_solve",
    lambda b: lax.custom_linear_solve(lambda x: x * 2, b, lambda _, b: b / 2, symmetric=True),
    XY,
)
add("associative_scan", lambda x: lax.associative_scan(lax.add, x, axis=1), X0)
add("reshard", lambda x: jax.sharding.reshard(x, P("y", "x")), XY)
add("vmap_inner", lambda x: jax.vmap(lambda r: r * 2)(x), XY)
add("vmap_inner_1", lambda x: jax.vmap(lambda r: r * 2, in_axes=1, out_axes=0)(x), XY)
add("vmap_sum", lambda x: jax.vmap(lambda r: lax.reduce_sum(r, (0,)))(x), XY)
add("vmap_unmapped_out", lambda x, y: jax.vmap(lambda r: y, out_axes=0)(x), X0, V0)
add("vmap_unmapped_out_1", lambda x, y: jax.vmap(lambda r: y, out_axes=1)(x), X0, V0)
add(
    "vmap_outer_product",
    lambda x, y: jax.vmap(lambda a: jax.vmap(lambda b: a * b)(y))(x),
    V,
    of((8,), "y"),
)
add("vmap_closed_over", lambda x, y: jax.vmap(lambda a: a * y)(x), V, of((8,), "y"))
add("grad_sum", lambda x: jax.grad(lambda v: lax.reduce_sum(v * v, (0, 1)))(x), XY)
add(
    "hessian",
    lambda x: jax.hessian(lambda v: lax.reduce_sum(v * v, (0,)))(x),
    V0,
    grad=False,
    vmap=False,
)
add("jacfwd", lambda x: jax.jacfwd(lambda v: v * v)(x), V0, grad=False, vmap=False)
add("linearize", lambda x: jax.linearize(lambda v: v * v, x)[1](x), XY)
add("regularized", lambda x: lax.igamma(x, x), XY, grad=False)
add("betainc", lambda x: lax.betainc(x, x, x), XY, grad=False)
add("linalg_like_mul", lambda x: lax.mul(x, lax.transpose(x, (1, 0))), OO)
add("mul_transposed", lambda x: lax.mul(x, lax.transpose(x, (1, 0))), XY)
