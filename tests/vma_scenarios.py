"""Types over the manual axes of shard_map: over which axes results of programs vary; see op_cases.py."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P

CASES = Programs()
X = np.arange(1, 9, dtype=np.float32).reshape(4, 2) / 8
S = np.float32(0.5)
I = np.array([1, 0], np.int32)


MESH = AbstractMesh((2, 2), ("i", "j"), (AxisType.Auto,) * 2)


def vary(x, axes="i"):
    return lax.pcast(x, axes, to="varying")


def typed(fun, *args):
    """The types of the results in the body of a shard_map; or the class of the error."""
    found = []

    def body(*xs):
        found.append(", ".join([str(jax.typeof(y)) for y in jax.tree.leaves(fun(*xs))]))
        return jnp.zeros(())

    try:
        jax.make_jaxpr(jax.shard_map(body, mesh=MESH, in_specs=P(), out_specs=P()))(*args)
    except Exception as err:
        return type(err).__name__
    return found[0]


def pulled(fun, *args):
    """Results, and cotangents of the arguments for cotangents of ones."""
    outs, pull = jax.vjp(fun, *args)
    return outs, pull(jax.tree.map(ones_ct, outs))


def ones_ct(y):
    return vary_like(jnp.ones(y.shape, y.dtype), y)


def vary_like(x, y):
    varies = "V:" in str(jax.typeof(y))
    axes = [a for a in ("i", "j") if varies and a in str(jax.typeof(y)).split("V:")[1]]
    return vary(x, tuple(axes)) if axes else x


def add(name, fun, *args, grad=True, without=()):
    """Adds the types of `fun` where no operand varies, one of them does, and all do; and of its derivatives.

    Without the variants in which the oracle's type of a result does not vary over an axis although an operand does.
    """
    n = len(args)
    choices = {"none": [()] * n, "all": [("i",)] * n}
    if n > 1:
        choices |= {str(k): [("i",) if k == m else () for m in range(n)] for k in range(n)}
        choices["both"] = [("i",), ("j",), *[()] * (n - 2)]
    choices = {label: axes for label, axes in choices.items() if label not in without}

    def scenario():
        lines = []
        for label, axes in choices.items():
            mark = lambda *xs, axes=axes: [vary(x, a) if a else x for x, a in zip(xs, axes)]
            lines.append(f"{label}: " + typed(lambda *xs: fun(*mark(*xs)), *args))
            if grad:
                lines.append(f"{label} grad: " + typed(lambda *xs: pulled(fun, *mark(*xs)), *args))
                lines.append(
                    f"{label} jvp: "
                    + typed(lambda *xs: jax.jvp(fun, *[tuple(mark(*xs))] * 2)[1], *args)
                )
        return "\n".join(lines)

    CASES.add(name, scenario)


# Control flow

add("scan", lambda c, x: lax.scan(lambda c, x: (c * x, c), c, x), S, X[0])
add("scan_consts", lambda c, w: lax.scan(lambda c, _: (c * 2, c * w), c, None, length=3), S, S)
add("scan_remedy", lambda c, x: lax.scan(
    lambda c, x: (c * x, c), vary_like(c, x), x), S, X[0])  # fmt: skip
add("scan_no_carry", lambda x, w: lax.scan(lambda _, x: ((), x * w), (), x), X, S)
add("map", lambda x, w: lax.map(lambda x: x * w, x), X, S)
add("while", lambda x, n: lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] * 2, c[1] + 1), (x, 0)), S, np.int32(3), grad=False)  # fmt: skip
add("while_const", lambda x, w: lax.while_loop(lambda c: c < 3, lambda c: c + w, x), S, S, grad=False)  # fmt: skip
add("while_pred_closure", lambda x, w: lax.while_loop(lambda c: c < w, lambda c: c + 1, x), S, S, grad=False)  # fmt: skip
add("fori", lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), S)
add("fori_index", lambda x: lax.fori_loop(0, 3, lambda i, c: c + x[i], 0.0), X[0])
add("fori_bound", lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 2, x), S, np.int32(3), grad=False)  # fmt: skip
add("cond", lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x), S, S)
add("cond_closure", lambda p, x: lax.cond(p > 0, lambda: x * 2, lambda: x), S, S)
add("cond_constant", lambda p, x: lax.cond(p > 0, lambda: x * 2, lambda: 1.0), S, S)
add("cond_two", lambda p, x, y: lax.cond(p > 0, lambda: (x, y), lambda: (y, x)), S, S, S)
add("switch", lambda k, x: lax.switch(k, [jnp.sin, jnp.cos, jnp.exp], x), np.int32(1), S, grad=False)  # fmt: skip
add("associative_scan", lambda x: lax.associative_scan(jnp.add, x), X)
add("cumsum", lambda x: lax.cumsum(x), X)
add("custom_root", lambda a: lax.custom_root(
    lambda x: x * x - a, a, lambda f, x: jnp.sqrt(a), lambda g, y: y / g(jnp.ones_like(y))), S)  # fmt: skip
add("custom_linear_solve", lambda a, b: lax.custom_linear_solve(
    lambda x: a * x, b, lambda f, b: b / a, symmetric=True), S, S, grad=False)  # fmt: skip

# Calls and custom rules

add("jit", lambda x, y: jax.jit(lambda x, y: (x * y, x + 1))(x, y), S, S)
add("jit_closure", lambda x, y: jax.jit(lambda x: x * y)(x), S, S)
add("checkpoint", lambda x, y: jax.checkpoint(lambda x, y: jnp.sin(x) * y)(x, y), S, S)
add("checkpoint_closure", lambda x, y: jax.checkpoint(lambda x: jnp.sin(x) * y)(x), S, S)


@jax.custom_jvp
def sine(x, w):
    return jnp.sin(x) * w


@sine.defjvp
def _sine_jvp(primals, tangents):
    (x, w), (t, u) = primals, tangents
    return sine(x, w), t * jnp.cos(x) * w + u * jnp.sin(x)


@jax.custom_jvp
def constant_tangent(x):
    return x * 2


constant_tangent.defjvp(lambda p, t: (constant_tangent(p[0]), jnp.ones_like(p[0])))


@jax.custom_jvp
def invariant_tangent(x):
    return x * 2


invariant_tangent.defjvp(lambda p, t: (invariant_tangent(p[0]), jnp.ones(())))


@jax.custom_vjp
def product(x, w):
    return x * w


product.defvjp(lambda x, w: (x * w, (x, w)), lambda res, ct: (ct * res[1], ct * res[0]))


@jax.custom_vjp
def zero_ct(x, w):
    return x * w


zero_ct.defvjp(lambda x, w: (x * w, None), lambda res, ct: (ct, jnp.zeros(())))


@jax.custom_vjp
def none_ct(x, w):
    return x * w


none_ct.defvjp(lambda x, w: (x * w, None), lambda res, ct: (ct, None))


@jax.custom_vjp
def summed_ct(x, w):
    return x * w


def _summed_bwd(res, ct):
    x, w = res

    def to(g, like):
        axes = set("ij") & set(str(jax.typeof(g)).partition("V:")[2])
        kept = set("ij") & set(str(jax.typeof(like)).partition("V:")[2])
        extra = tuple(sorted(axes - kept))
        return lax.psum(g, extra) if extra else g

    return to(ct * w, x), to(ct * x, w)


summed_ct.defvjp(lambda x, w: (x * w, (x, w)), _summed_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def applied(f, x):
    return f(x)


applied.defvjp(lambda f, x: (f(x), x), lambda f, x, ct: (ct * 2,))

add("custom_jvp", sine, S, S)
add("custom_jvp_ones", constant_tangent, S)
add("custom_jvp_invariant", invariant_tangent, S)
add("custom_vjp", product, S, S)
add("custom_vjp_zero", zero_ct, S, S)
add("custom_vjp_none", none_ct, S, S)
add("custom_vjp_summed", summed_ct, S, S)
add("custom_vjp_nondiff", lambda x: applied(lambda x: x * 3, x), S)
add("custom_gradient", lambda x: jax.custom_gradient(lambda x: (x * 2, lambda ct: ct * 3))(x), S)
add("closure_convert", lambda x, w: jax.closure_convert(lambda y: y * w, x)[0](x), S, S)
add("linear_call", lambda r, x: jax.custom_derivatives.linear_call(
    lambda r, x: r * x, lambda r, ct: r * ct, r, x), S, S, grad=False)  # fmt: skip
add("custom_vmap", lambda x, w: jax.custom_batching.custom_vmap(lambda x, w: x * w)(x, w), S, S, grad=False)  # fmt: skip
add("stop_gradient", lambda x, w: lax.stop_gradient(x) * w, S, S)
add("linearize", lambda x, w: jax.linearize(lambda x: jnp.sin(x) * w, x)[1](x), S, S, grad=False)
add("second", lambda x, w: jax.grad(lambda x: jnp.sin(x) * w)(x), S, S)
add("vmap", lambda x, w: jax.vmap(lambda x: x * w)(x), X, S)
add("vmap_other", lambda x, w: jax.vmap(lambda w: x * w)(w), S, X)
add("vmap_out_none", lambda x, w: jax.vmap(lambda x: w * 2, out_axes=None)(x), X, S)
add("jacobians", lambda x: (jax.jacfwd(jnp.sin)(x), jax.jacrev(jnp.sin)(x)), X[0], grad=False)
add("hessian", lambda x, w: jax.hessian(lambda x: (jnp.sin(x) * w).sum())(x), X[0], S, grad=False)

# Effects: callbacks, references, debugging

RESULT = jax.ShapeDtypeStruct((), np.float32)
add("pure_callback", lambda x, w: jax.pure_callback(lambda x, w: x * w, RESULT, x, w), S, S, grad=False)  # fmt: skip
add("pure_callback_no_args", lambda x: jax.pure_callback(lambda: S, RESULT) + x, S, grad=False)
add("debug_print", lambda x, w: (jax.debug.print("{} {}", x, w), x)[1], S, S, grad=False)
add("debug_callback", lambda x: (jax.debug.callback(lambda x: None, x), x)[1], S, grad=False)


def with_ref(f):
    def run(x, y):
        ref = jax.new_ref(x)
        f(ref, y)
        return ref[...]

    return run


add("ref_set", with_ref(lambda r, y: r.__setitem__(Ellipsis, y)), X, X, grad=False)
add("ref_addupdate", with_ref(lambda r, y: jax.ref.addupdate(r, ..., y)), X, X, grad=False)
add("ref_get", lambda x, k: jax.new_ref(x)[k], X, np.int32(1), grad=False, without=("both",))
add("ref_swap", lambda x, y: jax.ref.swap(jax.new_ref(x), ..., y), X, X, grad=False)
add("ref_in_scan", lambda x, y: with_ref(
    lambda r, y: lax.scan(lambda c, k: (r.__setitem__(k, r[k] * y), None)[::-1], None, np.arange(4)))(x, y),
    X, S, grad=False)  # fmt: skip

# Others

add("optimization_barrier", lambda x: lax.optimization_barrier(x * 2), X)
add("full_like", lambda x: (lax.full_like(x, 0), jnp.zeros_like(x), jnp.ones_like(x), jnp.full_like(x, 3)), X, grad=False)  # fmt: skip
add("full_like_shape", lambda x: lax.full_like(x, 0, shape=(2,)), X, grad=False)
add("full", lambda x: jnp.full((2,), x), S)
add("constants", lambda x: (jnp.zeros(3), jnp.arange(3), jnp.eye(2), jnp.asarray(X), jnp.linspace(0, x, 3)), S, grad=False)  # fmt: skip
add("key", lambda s: jax.random.key_data(jax.random.key(s)), np.int32(1), grad=False)
add("fold_in", lambda s, k: jax.random.normal(jax.random.fold_in(jax.random.key(s), k), (2,)), np.int32(1), np.int32(2), grad=False)  # fmt: skip
add("uniform", lambda s, x: jax.random.uniform(jax.random.key(s), (2,), minval=x, maxval=2.0), np.int32(1), S, grad=False)  # fmt: skip
add("rng_bit_generator", lambda k: lax.rng_bit_generator(k, (4,))[0], np.arange(4, dtype=np.uint32), grad=False)  # fmt: skip
add("where", lambda c, x, y: jnp.where(c > 0, x, y), X, X, X)
add("index", lambda x, k: x[k], X, I, grad=False)
add("at_set", lambda x, k, y: x.at[k].set(y), X, I, X[:2], grad=False)
add("at_add", lambda x, k, y: x.at[k].add(y), X, I, X[:2], grad=False)
add("dynamic_slice", lambda x, k: lax.dynamic_slice(x, (k, 0), (1, 2)), X, np.int32(1), grad=False)
add("dynamic_update_slice", lambda x, y, k: lax.dynamic_update_slice(x, y, (k, 0)), X, X[:1], np.int32(1), grad=False)  # fmt: skip
add("einsum", lambda x, y: jnp.einsum("ij,kj->ik", x, y), X, X)
add("softmax", lambda x, w: jax.nn.softmax(x * w), X, S)
add("logsumexp", lambda x, y: jax.nn.logsumexp(x, b=y), X, X)
add("layer", lambda x, w, b: jax.nn.relu(x @ w + b), X, X.T, S)
add("composite", lambda x, w: lax.composite(lambda x, w: x * w, "my.product")(x, w), S, S)
add("platform_dependent", lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), S)
add("reduce", lambda x, i: lax.reduce(x, i, lambda a, b: a * b + 1, (0,)), X, S, grad=False, without=("1", "both"))  # fmt: skip
add("reduce_precision", lambda x: lax.reduce_precision(x, 5, 10), X)
add("clamp", lambda lo, x, hi: lax.clamp(lo, x, hi), S, X, S, grad=False)
add("dot_preferred", lambda x, y: lax.dot(x, y, preferred_element_type=np.float32), X, X.T)
add("device_put", lambda x: jax.device_put(x), X)
add("numbers", lambda x: (x + 1, 2 * x, x**2, x > 0, -x, x // 2, abs(x)), S, grad=False)
add("scan_less", lambda c: lax.scan(lambda c, _: (jnp.zeros(()), None), c, None, length=2), S)
add("while_less", lambda c: lax.while_loop(lambda c: c < 3, lambda c: jnp.full((), 4.0), c), S, grad=False)  # fmt: skip
