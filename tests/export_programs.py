"""Functions whose exported forms are exchanged with the oracle, with their arguments.

A program is (function, arguments, options); the options are `platforms`, `vjp_order`, `shardings` (specs of
the arguments over a mesh of 8 devices), `x64`, `symbolic` (shapes of all arguments, and constraints).
"""

import collections

import numpy as np

import jax
import jax.numpy as jnp
from jax import export, lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import NamedSharding, PartitionSpec as P

F = np.float32
ALL = ("cpu", "cuda", "rocm", "tpu")
Pair = collections.namedtuple("Pair", ["first", "second"])
export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")


class Scaled:
    def __init__(self, x, scale):
        self.x, self.scale = x, scale


jax.tree_util.register_pytree_node(
    Scaled, lambda s: ((s.x,), s.scale), lambda scale, xs: Scaled(*xs, scale)
)
export.register_pytree_node_serialization(
    Scaled,
    serialized_name="tests.Scaled",
    serialize_auxdata=lambda scale: str(scale).encode(),
    deserialize_auxdata=lambda data: int(data),
)


@jax.custom_vjp
def triple(v):
    return 3 * v


triple.defvjp(lambda v: (3 * v, None), lambda _, ct: (3 * ct,))

GROUPS: dict[str, dict] = collections.defaultdict(dict)


def add(group, name, fun, *args, **options):
    GROUPS[group][name] = fun, args, options


def mesh():
    return jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))


x = np.linspace(-2, 2, 12, dtype=F).reshape(3, 4)
u = np.linspace(0.1, 0.9, 12, dtype=F).reshape(3, 4)
m = np.array([[4, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]], F)
v = np.array([3, 1, 2, 5, 4], F)
i = np.array([[5, -3, 7, 0], [1, 2, -8, 9]], np.int32)
z = x + 1j * u

for name in "abs neg sign floor ceil round exp exp2 expm1 sin cos tan sinh cosh tanh atan asinh logistic square is_finite erf cbrt".split():  # fmt: skip
    add("elementwise", name, getattr(lax, name), x, vjp_order=1 if name in ("tanh", "exp") else 0)
for name in "log log1p sqrt rsqrt erf_inv asin acos atanh lgamma digamma erfc bessel_i1e bessel_i0e acosh".split():  # fmt: skip
    add("elementwise_positive", name, getattr(lax, name), u + (name == "acosh"))
for name in "add sub mul div max min pow rem atan2 eq lt nextafter complex igamma".split():
    add("binary", name, getattr(lax, name), u, u.T.reshape(3, 4).copy() + F(0.5))
for name in "bitwise_and bitwise_or bitwise_xor shift_left shift_right_logical shift_right_arithmetic".split():  # fmt: skip
    add("integers", name, getattr(lax, name), i, np.abs(i) % 7)
for name in "population_count clz bitwise_not".split():
    add("integers", name, getattr(lax, name), i)
for name in "sum prod max min argmax argmin any all cumsum cumprod cummax var median logsumexp".split():  # fmt: skip
    fun = {"logsumexp": jax.nn.logsumexp, "cummax": lax.cummax}.get(name) or getattr(jnp, name)
    add("reductions", name, lambda x, fun=fun: fun(x, axis=1), x)

add("shapes", "reshape", lambda x: x.reshape(2, 6), x)
add("shapes", "transpose", lambda x: x.T, x)
add("shapes", "broadcast", lambda x: jnp.broadcast_to(x, (2, 3, 4)), x)
add("shapes", "concatenate", lambda x, y: jnp.concatenate([x, y], 1), x, u)
add("shapes", "pad", lambda x: lax.pad(x, F(1), ((1, 0, 2), (-1, 2, 0))), x)
add("shapes", "rev", lambda x: x[::-1], x)
add("shapes", "slice", lambda x: x[1:, ::2], x)
add("shapes", "dynamic_slice", lambda x, k: lax.dynamic_slice(x, (k, k), (2, 2)), x, np.int32(1))
add("shapes", "update_slice", lambda x, k: x.at[k].set(0), x, np.int32(2))
add("shapes", "gather", lambda x, k: x[k], x, np.array([2, 0, 2]))
add("shapes", "scatter_add", lambda x, k: x.at[k].add(1.5), x, np.array([2, 0, 2]))
add("shapes", "where", lambda x: jnp.where(x > 0, x, 0), x)
add("shapes", "iota", lambda: lax.iota(np.int32, 5))
add("shapes", "sort", lambda x: jnp.sort(x, axis=0), x)
add("shapes", "argsort", jnp.argsort, v)
add("shapes", "top_k", lambda x: lax.top_k(x, 2), x)
add("shapes", "convert", lambda x: x.astype(np.int32), x)
add("shapes", "bitcast", lambda x: lax.bitcast_convert_type(x, np.int32), x)

add("products", "dot", jnp.dot, x, u.T.copy(), vjp_order=1)
add("products", "einsum", lambda x, y: jnp.einsum("bij,bjk->bik", x, y), np.stack([m, m]), np.stack([m, m.T]))  # fmt: skip
add("products", "preferred", lambda x: lax.dot(x, x.T, preferred_element_type=F), x.astype(jnp.bfloat16))  # fmt: skip
add("products", "conv", lambda x, w: lax.conv(x, w, (1, 1), "SAME"), np.ones((1, 2, 5, 5), F) * v[None, None, :, None], np.ones((3, 2, 2, 2), F))  # fmt: skip
add("products", "reduce_window", lambda x: lax.reduce_window(x, F(0), lax.add, (2, 2), (1, 1), "VALID"), x)  # fmt: skip
add("products", "fft", jnp.fft.fft, z)
add("products", "rfft", lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), x)
add("products", "softmax", jax.nn.softmax, x, vjp_order=1)

add("linalg", "cholesky", jnp.linalg.cholesky, m)
add("linalg", "solve", jnp.linalg.solve, m, v[:3], vjp_order=1)
add("linalg", "triangular_solve", lambda a, b: jax.scipy.linalg.solve_triangular(a, b), m, v[:3])
add("linalg", "lu", lambda a: jax.scipy.linalg.lu(a)[2], m)
add("linalg", "qr", lambda a: jnp.abs(jnp.linalg.qr(a)[1]), m)
add("linalg", "eigh", lambda a: jnp.linalg.eigh(a)[0], m)
add("linalg", "svd", lambda a: jnp.linalg.svd(a, compute_uv=False), m)
add("linalg", "det", jnp.linalg.det, m)
add("linalg", "inv", jnp.linalg.inv, m)
add("linalg", "eigvals", lambda a: jnp.sort(jnp.linalg.eigvals(a).real), m)

key_data = np.array([1, 2], np.uint32)
add("random", "key_data", lambda d: jax.random.key_data(jax.random.split(jax.random.wrap_key_data(d))), key_data)  # fmt: skip
add("random", "uniform", lambda d: jax.random.uniform(jax.random.wrap_key_data(d), (5,)), key_data)
add("random", "normal", lambda d: jax.random.normal(jax.random.wrap_key_data(d), (5,)), key_data)
add("random", "randint", lambda d: jax.random.randint(jax.random.wrap_key_data(d), (5,), 0, 9), key_data)  # fmt: skip
add("random", "permutation", lambda d: jax.random.permutation(jax.random.wrap_key_data(d), 5), key_data)  # fmt: skip
add("random", "bits_of_key", lambda k: jax.random.bits(k, (3,)), "key")
add("random", "fold_in", lambda k: jax.random.key_data(jax.random.fold_in(k, 3)), "key")
add("random", "key_of_rbg", lambda k: jax.random.key_data(k), "key of rbg")
add("random", "rbg", lambda d: jax.random.key_data(jax.random.wrap_key_data(d, impl="rbg")), np.arange(4, dtype=np.uint32))  # fmt: skip

add("control", "cond", lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), np.bool_(True), x, vjp_order=1)  # fmt: skip
add("control", "switch", lambda n, x: lax.switch(n, [jnp.sin, jnp.cos, jnp.tanh], x), np.int32(2), x)  # fmt: skip
add("control", "while", lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 1.5 + 1, x), x)  # fmt: skip
add("control", "fori", lambda x: lax.fori_loop(0, 5, lambda k, c: c + k, x), x)
add("control", "scan", lambda c, xs: lax.scan(lambda c, x: (c + x, c * x), c, xs), x[0], x, vjp_order=2)  # fmt: skip
add("control", "map", lambda x: lax.map(jnp.sum, x), x)
add("control", "jit", lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.sin)(2 * x), x)
add("control", "checkpoint", jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))), x, vjp_order=2)
add("control", "vmap", jax.vmap(lambda x: x @ m[:, :3] @ x), x[:, :3])
add("control", "associative_scan", lambda x: lax.associative_scan(jnp.add, x), x)

for name in "bfloat16 float16 int8 uint8 int16 uint16 bool complex64 int4 uint4 float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz".split():  # fmt: skip
    add("dtypes", name, lambda x: (x[::-1], x.astype(np.float32) if x.dtype != np.complex64 else x * 2), np.array([1, 0, 1, 2]).astype(jnp.dtype(name)))  # fmt: skip
for name in "float64 int64 uint64 complex128".split():
    add("dtypes", name, lambda x: x + x, np.array([1, 2, 3], name), x64=True)
add("dtypes", "float0", lambda x, y: (x, 2 * y), np.zeros((2,), jax.dtypes.float0), v)

add("trees", "nested", lambda d, t: {"sum": d["a"] + t[0], "rest": [t[1], None, ()]}, {"a": v, "b": v}, (v, v))  # fmt: skip
add("trees", "namedtuple", lambda p: Pair(p.second, p.first), Pair(v, u))
add("trees", "custom", lambda s: Scaled(s.x * s.scale, s.scale + 1), Scaled(v, 3))
add("trees", "ordered", lambda d: collections.OrderedDict(b=d["a"], a=d["b"]), collections.OrderedDict(a=v, b=u))  # fmt: skip
add("trees", "unused", lambda a, b, c: b * 2, v, u, v, vjp_order=1)
add("trees", "no_results", lambda a: None, v)
add("trees", "integers", lambda a, n: (a * n, n + 1), v, np.int32(3), vjp_order=1)
add("trees", "constants", lambda a: a + np.arange(5, dtype=F), v)

for name, fun, args in [
    ("sin", jnp.sin, (x,)), ("cumsum", jnp.cumsum, (v,)), ("normal", lambda d: jax.random.normal(jax.random.wrap_key_data(d), (3,)), (key_data,)),
    ("cholesky", jnp.linalg.cholesky, (m,)), ("dot", jnp.dot, (m, m)), ("platform", lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), (x,)),
]:  # fmt: skip
    add("platforms", name, fun, *args, platforms=ALL, vjp_order=1 if name in ("sin", "dot") else 0)
add("platforms", "two", lambda x: jnp.cumsum(x), v, platforms=("tpu", "cpu"))

for name in (
    "relu gelu silu elu selu softplus log_sigmoid hard_tanh leaky_relu celu glu relu6 mish".split()
):
    add("nn", name, getattr(jax.nn, name), x, vjp_order=1 if name in ("gelu", "mish") else 0)
add("nn", "one_hot", lambda k: jax.nn.one_hot(k, 5), np.array([1, 4]))
add("nn", "attention", lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True), (np.arange(48, dtype=F).reshape(1, 4, 3, 4) - 24) / 20, vjp_order=1)  # fmt: skip
add("nn", "standardize", lambda x: jax.nn.standardize(x), x)
add("nn", "batch_norm", lambda x, s: (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1e-5) * s, x, u[0], vjp_order=2)  # fmt: skip
for name, fun in {
    "interp": lambda v: jnp.interp(np.linspace(0, 5, 7), np.arange(5.0), v), "searchsorted": lambda v: jnp.searchsorted(jnp.sort(v), v + 0.5),
    "histogram": lambda v: jnp.histogram(v, 3)[0], "percentile": lambda v: jnp.percentile(v, 30), "roll": lambda v: jnp.roll(v, 2),
    "diff": jnp.diff, "outer": lambda v: jnp.outer(v, v), "kron": lambda v: jnp.kron(v, v[:2]), "convolve": lambda v: jnp.convolve(v, v[:3]),
    "trapezoid": jnp.trapezoid, "polyval": lambda v: jnp.polyval(v, 0.5), "tril": lambda v: jnp.tril(jnp.outer(v, v)),
    "unravel": lambda v: jnp.stack(jnp.unravel_index(v.astype(int), (2, 4))), "nonzero": lambda v: jnp.nonzero(v > 2, size=5, fill_value=-1)[0],
    "clip": lambda v: jnp.clip(v, 2, 4), "bincount": lambda v: jnp.bincount(v.astype(int), length=7), "nan": lambda v: jnp.nan_to_num(jnp.log(v - 3)),
    "cross": lambda v: jnp.cross(v[:3], v[2:]), "split": lambda v: jnp.split(v, [2, 3]), "tile": lambda v: jnp.tile(v, (2, 2)),
    "scatter_max": lambda v: v.at[np.array([0, 1, 0])].max(4.0), "reduce_precision": lambda v: lax.reduce_precision(v / 3, 5, 7), "custom_vjp": triple, "select_n": lambda v: lax.select_n(v.astype(int) % 3, v, 2 * v, 3 * v), "clamp": lambda v: lax.clamp(F(2), v, F(4)),
}.items():  # fmt: skip
    add("numpy", name, fun, v)

matrix = np.arange(64, dtype=F).reshape(8, 8)
add("sharded", "rows", lambda x: x + 1, matrix, shardings=[P("x")])
add("sharded", "both", lambda x: x.T, matrix, shardings=[P("x", "y")], vjp_order=1)
add("sharded", "together", lambda x: x.sum(0), matrix, shardings=[P(("x", "y"), None)])
add("sharded", "dot", jnp.dot, matrix, matrix, shardings=[P("x", None), P(None, "y")], vjp_order=1)
add("sharded", "constraint", lambda x: lax.with_sharding_constraint(x + 1, NamedSharding(mesh(), P("y"))), matrix, shardings=[P("x")])  # fmt: skip
add("sharded", "shard_map", lambda x: jax.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh(), in_specs=P("x"), out_specs=P())(x), matrix, shardings=[P("x")])  # fmt: skip

# Primitives that none of the above has, for four platforms where these have them.
windows = lambda f, init: lambda x: lax.reduce_window(x, init, f, (2, 2), (1, 1), "SAME")
largest = windows(lax.max, -np.inf)
twice = jax.custom_batching.custom_vmap(lambda x: 2 * x)
twice.def_vmap(lambda size, batched, x: (2 * x, batched[0]))
columns = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
for name, platforms, fun, *args in [
    ("special", ALL, lambda x, y: (lax.igammac(x, y), lax.igamma_grad_a(x, y), lax.random_gamma_grad(x, y), lax.betainc(x, y, y), lax.zeta(x + 1, y), lax.polygamma(F(1), x)), u, u + F(0.3)),
    ("numbers", ALL, lambda k, z: (lax.mulhi(k, k), lax.conj(z), lax.imag(z), lax.optimization_barrier(k), jnp.copy(k)), i, z),
    ("reductions", ALL, lambda x: (lax.cumlogsumexp(x), lax.cummin(x), lax.reduce(x, F(0), lambda a, b: jnp.hypot(a, b), (0,)), lax.reduce_xor(x > 0, axes=(0,))), x),
    ("windows", ALL, lambda x: (windows(lax.min, np.inf)(x), windows(lax.mul, F(1))(x), jax.grad(lambda x: (x * largest(x)).sum())(x), jax.jvp(largest, (x,), (x,))[1]), x),
    ("scatters", ALL, lambda x, k: (x.at[k].min(0.1), x.at[k].multiply(3), x.at[k].max(0.3), lax.scatter_sub(x, jnp.stack([k, k], 1), k.astype(F), columns), lax.dynamic_update_slice(x, x[:1], (k[0], 0))), x, np.array([2, 0, 1], np.int32)),
    ("ragged_dot", ALL, lambda x, y, n: lax.ragged_dot(x, y, n), x, np.stack([m @ x, x]).transpose(0, 2, 1), np.array([1, 2], np.int32)),
    ("approx_top_k", ALL, lambda x: lax.approx_max_k(x, 2), x),
    ("solvers", ALL, lambda b: (lax.custom_linear_solve(lambda x: 2 * x, b, lambda f, b: b / 2), lax.custom_root(lambda x: x - b, b, lambda f, x0: b, lambda g, y: y)), v),
    ("functions", ALL, lambda x: (jax.vmap(twice)(x), jax.custom_derivatives.linear_call(lambda r, x: x * r, lambda r, ct: ct * r, 3.0, x), jax.checkpoint(lambda x: checkpoint_name(jnp.sin(x), "s"))(x)), x),
    ("random", ALL, lambda n: (jax.random.bits(jax.random.key(n)), jax.random.gamma(jax.random.clone(jax.random.key(n)), 2.0, (3,)), lax.rng_bit_generator(jnp.stack([n] * 4).astype(np.uint32), (3,))), np.int32(5)),
    ("composite", ("cpu",), lambda x: lax.composite(lambda x: x + 1, name="tests.more")(x), x),
    ("factors", ("cpu",), lambda a: (lax.linalg.hessenberg(a), lax.linalg.schur(a), lax.linalg.tridiagonal(a), lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(a)[1], 3)), m),
    ("solves", ("cpu",), lambda a: (lax.linalg.tridiagonal_solve(a[0], a[1] + 5, a[2], a), lax.linalg.symmetric_product(a, a, symmetrize_output=True), lax.linalg.qr(a)), m),
]:  # fmt: skip
    add("primitives", name, fun, *args, platforms=platforms)

# Symbolic shapes.
for name, shapes, fun, *args in [
    ("elementwise", "a, b", lambda x: jnp.sin(x) * x.shape[0] + x.shape[1] // 2, x),
    ("products", ("a, b", "a, b"), lambda x, y: (x @ y.T, jnp.einsum("ij,ij->i", x, y)), x, u),
    ("shapes", "a, b", lambda x: (x.reshape(-1), x[::-1, 1:], jnp.concatenate([x, x]), jnp.pad(x, 1), x.T, jnp.broadcast_to(x, (2, *x.shape))), x),
    ("reductions", "a, b", lambda x: (x.mean(0), x.argmax(1), jnp.cumsum(x, 0), jax.nn.softmax(x), lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "SAME")), x),
    ("sorts", "a, b", lambda x: (jnp.sort(x), jnp.argsort(x, 0), lax.top_k(x, x.shape[1])), x),
    ("indices", ("a, b", "a"), lambda x, k: (x[k], x.at[k].add(1), lax.dynamic_slice_in_dim(x, k[0], 1)), x, np.array([2, 0, 1])),
    ("loops", "a, b", lambda x: (lax.scan(lambda c, r: (c + r, c), x[0], x), lax.fori_loop(0, x.shape[0], lambda k, c: c + k, x)), x),
    ("random", "a", lambda v: (jax.random.normal(jax.random.key(1), v.shape), jax.random.bits(jax.random.key(1, impl="rbg"), v.shape)), v),
    ("linalg", "a, a", lambda a: (jnp.linalg.cholesky(a), jnp.linalg.solve(a, a[0]), jnp.linalg.eigh(a)[0]), m),
    ("conv", "1, 1, a, b", lambda x: lax.conv(x, np.ones((2, 1, 2, 2), F), (1, 1), "SAME"), x[None, None]),
    ("expressions", ("2*a + 1", "a, max(a, 2)"), lambda v, x: (v[::2].sum() + x, jnp.zeros(v.shape[0] - 1)), v, x[:2, :2]),
]:  # fmt: skip
    add("symbolic", name, fun, *args, symbolic=(shapes, ()))
add("symbolic", "constraints", lambda x: x[: x.shape[1]] @ x.T, x.T, symbolic=("a, b", ("a >= b", "mod(a, 2) == 0")))  # fmt: skip
add("symbolic", "derivatives", lambda x: jnp.tanh(x @ x.T).sum(), x, symbolic=("a, b", ()), vjp_order=2)  # fmt: skip
add("symbolic", "platforms", lambda x: jnp.cumsum(x, 1), x, symbolic=("a, b", ()), platforms=ALL)


def arguments(args):
    """The arguments, in which random keys are called "key" and "key of rbg"."""
    key = lambda name: jax.random.key(7, impl=name[7:] or None)
    return tuple([key(a) if isinstance(a, str) else a for a in args])


def exported(fun, args, options):
    shardings = options.get("shardings")
    kwargs = {}
    if shardings is not None:
        kwargs["in_shardings"] = tuple([NamedSharding(mesh(), s) for s in shardings])
    with jax.enable_x64(options.get("x64", False)):
        jitted = jax.jit(fun, **kwargs)
        args = arguments(args)
        if "symbolic" in options:
            shapes, constraints = options["symbolic"]
            given = args if isinstance(shapes, tuple) else args[0]
            specs = export.symbolic_args_specs(given, shapes, constraints)
            args = specs if isinstance(shapes, tuple) else (specs,)
        return export.export(jitted, platforms=options.get("platforms"))(*args)


def run(program, args, options):
    """The results of an exported program, and of as many derivatives as it has."""
    args = arguments(args)
    shardings = options.get("shardings")
    if shardings is not None:
        args = [jax.device_put(a, s) for a, s in zip(args, program.in_shardings_jax(mesh()))]
    with jax.enable_x64(options.get("x64", False)):
        results = {"call": program.call(*args)}
        if options.get("vjp_order"):
            results["grad"] = gradient(program, args)
        if options.get("vjp_order") == 2:
            second = lambda *args: sum_of(gradient(program, args))
            results["grad2"] = jax.grad(second, allow_int=True)(*args)
    return jax.tree.map(plain, results, is_leaf=lambda x: isinstance(x, Scaled))


def gradient(program, args):
    numbers = tuple(range(len(args)))
    return jax.grad(lambda *args: sum_of(program.call(*args)), numbers, allow_int=True)(*args)


def sum_of(tree):
    leaves = [a for a in jax.tree.leaves(tree) if jnp.issubdtype(a.dtype, jnp.floating)]
    return sum(jnp.sum(a * F(0.5)) for a in leaves)


def plain(a):
    """A result as an array that can be stored."""
    if isinstance(a, Scaled):
        return {"x": plain(a.x), "scale": np.int32(a.scale)}
    if a.dtype == jax.dtypes.float0:
        return np.zeros(a.shape, bool)
    return np.asarray(jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a)
