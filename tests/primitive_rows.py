"""The table of primitives: for each an example, which primitives_test.py takes through every transformation.

A row gives a function of arrays that binds the primitive, and arguments in double precision (or of the types
that the primitive takes). A primitive of the library without a row fails the tests.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import ad_checkpoint, ad_util
from jax._src.lax import lax as lax_internal, windowed_reductions
from jax._src.lax.linalg.qr import geqp3, geqrf
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core.primitives import call_p, closed_call_p
from jax.lax import linalg

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4")
BOOL = ("bool",)
INEXACT = FLOATS + COMPLEX
REAL = FLOATS + INTS
NUMBERS = INEXACT + INTS
ALL = NUMBERS + BOOL


@dataclass(frozen=True)
class Row:
    """How to exercise one primitive.

    Attributes:
      name: the primitive's name.
      fun: a function of arrays, whose jaxpr has the primitive.
      args: the arguments.
      diff: orders of derivatives to check: 2, 1 or 0; of functions of inexact arguments.
      modes: the derivatives that are defined, "fwd" and "rev".
      dtypes: types that all the inexact arguments can be converted to; the others stay as they are.
      vmap: operands that can be mapped, None for all.
      sharded: whether it runs on arrays that are sharded along their first dimension.
      axis: the name of an axis that the function is mapped over.
    """

    name: str
    fun: Callable[..., Any]
    args: Sequence[np.ndarray]
    diff: int = 2
    modes: Sequence[str] = ("fwd", "rev")
    dtypes: Sequence[str] = ()
    vmap: Sequence[int] | None = None
    sharded: bool = True
    axis: str | None = None

    @property
    def call(self) -> Callable[..., Any]:
        return jax.vmap(self.fun, axis_name=self.axis) if self.axis else self.fun


def numbers(*shape: int, low: float = -1.5, high: float = 1.5, seed: int = 0) -> np.ndarray:
    """Distinct numbers, none of them at a kink of the usual functions."""
    size = int(np.prod(shape, dtype=int))
    spread = np.linspace(low, high, size + 2)[1:-1] + 0.013 + 0.01 * seed
    return np.random.RandomState(seed).permutation(spread).reshape(shape)


def ints(*shape: int, low: int = 0, high: int = 7, seed: int = 0, dtype: Any = np.int32):
    return np.random.RandomState(seed).randint(low, high, shape).astype(dtype)


def bools(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape) % 3 > 0


X = numbers(4, 3)
Y = numbers(4, 3, seed=1)
POSITIVE = numbers(4, 3, low=0.3, high=2.5)
UNIT = numbers(4, 3, low=-0.9, high=0.9)
FRACTION = numbers(4, 3, low=0.1, high=0.9)
I, J = ints(4, 3, low=1), ints(4, 3, low=1, seed=1)
B = bools(4, 3)
SYMMETRIC = numbers(3, 3) + numbers(3, 3).T + 4 * np.eye(3)
UPPER = np.triu(numbers(3, 3)) + np.diag([1.0, 2.0, 4.0])
KEY = np.array([1, 2], np.uint32)


def unary(name, x=X, dtypes=INEXACT, diff=2, fun=None, **options):
    return Row(name, fun or getattr(lax, name), [x], diff, dtypes=dtypes, **options)


def binary(name, x=X, y=Y, dtypes=NUMBERS, diff=2, fun=None, **options):
    return Row(name, fun or getattr(lax, name), [x, y], diff, dtypes=dtypes, **options)


def compare(name, fun=None):
    return binary(name, dtypes=REAL, diff=0, fun=fun)


def bitwise(name, fun=None):
    return Row(name, fun, [I, J], 0, dtypes=INTS)


def matrix(name, fun, args, diff=2, dtypes=("float32", "complex64"), **options):
    return Row(name, fun, args, diff, dtypes=dtypes, sharded=False, **options)


def of_eigenvectors(v, w):
    """Without the signs, which are not determined."""
    return w, v @ jnp.diag(w**2) @ v.T.conj()


def of_singular_vectors(u, s, vh):
    return s, (u * s**2) @ vh


def scan_step(c, x):
    return jnp.sin(c * x) + c, c * 2


@jax.custom_jvp
def sine(x):
    return jnp.sin(x)


sine.defjvp(lambda p, t: (sine(p[0]), t[0] * jnp.cos(p[0])))


@jax.custom_vjp
def cosine(x):
    return jnp.cos(x)


cosine.defvjp(lambda x: (cosine(x), x), lambda x, ct: (-ct * jnp.sin(x),))

optimized = jax.custom_vjp(lambda x: jnp.cos(x) * x)
optimized.defvjp(
    lambda x: (jnp.cos(x) * x, jnp.sin(x)), lambda res, ct: (ct * res,), optimize_remat=True
)


@jax.custom_batching.custom_vmap
def triple(x):
    return x * 3


@triple.def_vmap
def triple_vmap(size, mapped, x):
    return triple(x), mapped[0]


def replicated():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("device",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


WINDOW = {"window_dimensions": (1, 2), "window_strides": (1, 2), "padding": ((0, 0), (0, 0))}


def gather(x, i):
    dnums = lax.GatherDimensionNumbers((1,), (0,), (0,))
    return lax.gather(x, i[:, None], dnums, (1, 3), mode="clip")


def scatter(function):
    dnums = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return lambda x, i, u: function(x, i[:, None], u, dnums, mode="clip")


SCATTER = [X, np.array([3, 0], np.int32), numbers(2, 3, seed=3)]
IMAGE, KERNEL = numbers(2, 2, 5), numbers(3, 2, 2, seed=1)


def conv(x, k):
    return lax.conv_general_dilated(x, k, (1,), "SAME")


ROWS = [
    # Elementwise, of one operand
    unary("abs"), unary("acos", UNIT), unary("acosh", POSITIVE + 1), unary("asin", UNIT),
    unary("asinh"), unary("atan", UNIT), unary("atanh", UNIT), unary("cbrt", POSITIVE, FLOATS),
    unary("cos"), unary("cosh"), unary("exp"), unary("exp2"), unary("expm1"), unary("log", POSITIVE),
    unary("log1p", POSITIVE), unary("logistic"), unary("neg", dtypes=NUMBERS), unary("rsqrt", POSITIVE),
    unary("sign", diff=1), unary("sin"), unary("sinh"), unary("sqrt", POSITIVE), unary("square", dtypes=NUMBERS),
    unary("tan"), unary("tanh"), unary("ceil", dtypes=FLOATS, diff=1), unary("floor", dtypes=FLOATS, diff=1),
    unary("round", dtypes=FLOATS, diff=1), unary("is_finite", dtypes=FLOATS, diff=0),
    unary("bessel_i0e", dtypes=FLOATS), unary("bessel_i1e", dtypes=FLOATS),
    unary("digamma", POSITIVE, FLOATS), unary("lgamma", POSITIVE, FLOATS), unary("erf", dtypes=FLOATS),
    unary("erfc", dtypes=FLOATS), unary("erf_inv", UNIT, FLOATS),
    unary("integer_pow", dtypes=NUMBERS, fun=lambda x: lax.integer_pow(x, 3)),
    unary("real", X + 1j * Y, COMPLEX), unary("imag", X + 1j * Y, COMPLEX), unary("conj", X + 1j * Y, COMPLEX),
    unary("not", I, INTS, diff=0, fun=lax.bitwise_not), unary("clz", I, INTS, diff=0),
    unary("population_count", I, INTS, diff=0),
    unary("reduce_precision", diff=1, dtypes=FLOATS, fun=lambda x: lax.reduce_precision(x, 8, 23)),
    unary("convert_element_type", dtypes=ALL, fun=lambda x: lax.convert_element_type(x, np.complex128)),
    unary("bitcast_convert_type", X, diff=0, dtypes=(), fun=lambda x: lax.bitcast_convert_type(x, np.int64)),
    unary("copy", dtypes=ALL, fun=lambda x: lax.copy_p.bind(x)),
    unary("optimization_barrier", dtypes=ALL, fun=lax.optimization_barrier),
    unary("stop_gradient", diff=0, dtypes=ALL, fun=lambda x: lax.stop_gradient_p.bind(x))
    if hasattr(lax, "stop_gradient_p") else None,
    unary("name", dtypes=ALL, fun=lambda x: ad_checkpoint.checkpoint_name(x, "a")),
    # Elementwise, of several operands
    binary("add"), binary("sub"), binary("mul"), binary("div", X, POSITIVE), binary("max", dtypes=NUMBERS),
    binary("min"), binary("pow", POSITIVE, Y, INEXACT), binary("rem", X, POSITIVE, REAL), binary("atan2", dtypes=FLOATS),
    binary("nextafter", diff=0, dtypes=("float32", "float64")), binary("complex", dtypes=("float32", "float64")),
    binary("add_any", fun=ad_util.add_jaxvals),
    compare("eq"), compare("ne"), compare("lt"), compare("le"), compare("gt"), compare("ge"),
    compare("eq_to", lambda x, y: lax_internal.eq_to_p.bind(x, y)),
    compare("lt_to", lambda x, y: lax_internal.lt_to_p.bind(x, y)),
    compare("le_to", lambda x, y: lax_internal.le_to_p.bind(x, y)),
    bitwise("or", lax.bitwise_or), bitwise("xor", lax.bitwise_xor),
    Row("and", lax.bitwise_and, [I, J], 0, dtypes=[t for t in INTS if t not in ("int8", "int4", "uint4")]),
    bitwise("shift_left", lax.shift_left), bitwise("shift_right_logical", lax.shift_right_logical),
    bitwise("shift_right_arithmetic", lax.shift_right_arithmetic),
    Row("mulhi", lax.mulhi, [I, J], 0, dtypes=("int32", "uint32", "int64", "uint64")),
    Row("clamp", lax.clamp, [X - 0.5, Y, X + 0.5], dtypes=REAL),
    Row("select_n", lax.select_n, [B, X, Y], dtypes=ALL),
    binary("igamma", POSITIVE, POSITIVE + 0.1, FLOATS, diff=1), binary("igammac", POSITIVE, POSITIVE + 0.1, FLOATS, diff=1),
    binary("igamma_grad_a", POSITIVE, POSITIVE + 0.1, FLOATS, diff=0),
    binary("random_gamma_grad", POSITIVE, POSITIVE + 0.1, FLOATS, diff=0),
    binary("polygamma", np.full((4, 3), 2.0), POSITIVE, FLOATS, diff=0),
    binary("zeta", POSITIVE + 1.5, POSITIVE, FLOATS, diff=0),
    Row("regularized_incomplete_beta", lax.betainc, [POSITIVE, POSITIVE + 0.2, FRACTION], 0, dtypes=FLOATS),
    # Shapes
    unary("broadcast_in_dim", dtypes=ALL, fun=lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (0, 2))),
    unary("reshape", dtypes=ALL, fun=lambda x: lax.reshape(x, (12,))),
    unary("squeeze", numbers(4, 1, 3), ALL, fun=lambda x: lax.squeeze(x, (1,))),
    unary("transpose", dtypes=ALL, fun=lambda x: lax.transpose(x, (1, 0))),
    unary("rev", dtypes=ALL, fun=lambda x: lax.rev(x, (1,))),
    unary("tile", dtypes=ALL, fun=lambda x: lax.tile(x, (1, 2))),
    unary("split", dtypes=ALL, fun=lambda x: lax.split(x, (1, 2), 1)),
    unary("unstack", dtypes=ALL, fun=lambda x: lax.unstack(x, 1)),
    binary("concatenate", dtypes=ALL, fun=lambda x, y: lax.concatenate([x, y], 1)),
    binary("stack", dtypes=ALL, fun=lambda x, y: lax.stack([x, y], 1)),
    Row("pad", lambda x, v: lax.pad(x, v, [(0, 0, 0), (1, 2, 1)]), [X, np.float64(0.5)], dtypes=ALL),
    Row("iota", lambda x: x + lax.broadcasted_iota(x.dtype, (4, 3), 1), [X], dtypes=REAL),
    Row("empty", lambda x: x + 0 * lax.empty((4, 3), x.dtype).astype(bool), [X], dtypes=("float32",)),
    # Reductions
    unary("reduce_sum", dtypes=NUMBERS, fun=lambda x: lax.reduce_sum(x, (1,))),
    unary("reduce_max", dtypes=REAL, fun=lambda x: lax.reduce_max(x, (1,))),
    unary("reduce_min", dtypes=REAL, fun=lambda x: lax.reduce_min(x, (1,))),
    unary("reduce_prod", dtypes=NUMBERS, fun=lambda x: lax.reduce_prod(x, (1,))),
    unary("reduce_and", B, BOOL + INTS, 0, fun=lambda x: lax.reduce_and(x, (1,))),
    unary("reduce_or", B, BOOL + INTS, 0, fun=lambda x: lax.reduce_or(x, (1,))),
    unary("reduce_xor", B, BOOL + INTS, 0, fun=lambda x: lax.reduce_xor(x, (1,))),
    unary("argmax", dtypes=REAL, diff=0, fun=lambda x: lax.argmax(x, 1, np.int32)),
    unary("argmin", dtypes=REAL, diff=0, fun=lambda x: lax.argmin(x, 1, np.int32)),
    Row("reduce", lambda x: lax.reduce(x, np.zeros((), x.dtype), lambda a, b: a + b * 1, (1,)), [X], 1, dtypes=FLOATS),
    unary("cumsum", dtypes=NUMBERS, fun=lambda x: lax.cumsum(x, 1)),
    unary("cumprod", dtypes=NUMBERS, fun=lambda x: lax.cumprod(x, 1)),
    unary("cummax", dtypes=REAL, fun=lambda x: lax.cummax(x, 1)),
    unary("cummin", dtypes=REAL, fun=lambda x: lax.cummin(x, 1)),
    unary("cumlogsumexp", dtypes=FLOATS, fun=lambda x: lax.cumlogsumexp(x, 1)),
    unary("sort", dtypes=REAL, fun=lambda x: lax.sort(x, dimension=1)),
    unary("top_k", dtypes=REAL, fun=lambda x: lax.top_k(x, 2)),
    unary("approx_top_k", dtypes=FLOATS, fun=lambda x: lax.approx_max_k(x, 2)),
    unary("reduce_window_sum", dtypes=NUMBERS,
          fun=lambda x: lax.reduce_window(x, np.zeros((), x.dtype), lax.add, (1, 2), (1, 1), "VALID")),
    unary("reduce_window_max", dtypes=("float32", "float64", "int32"),
          fun=lambda x: lax.reduce_window(x, lowest(x), lax.max, (1, 2), (1, 1), "VALID")),
    unary("reduce_window_min", dtypes=("float32", "float64", "int32"),
          fun=lambda x: lax.reduce_window(x, highest(x), lax.min, (1, 2), (1, 1), "VALID")),
    Row("reduce_window", lambda x: lax.reduce_window(x, np.float64(1), lambda a, b: a * b, (1, 2), (1, 1), "VALID"), [X], 1),
    Row("select_and_scatter_add", lambda x, s: lax.select_and_scatter_add_p.bind(
        s, x, select_prim=lax.ge_p, **WINDOW), [numbers(4, 4), numbers(4, 2)], 1, dtypes=("float32",)),
    Row("select_and_gather_add", lambda t, x: windowed_reductions.select_and_gather_add_p.bind(
        t, x, select_prim=lax.ge_p, **WINDOW, base_dilation=(1, 1), window_dilation=(1, 1)),
        [numbers(4, 4, seed=2), numbers(4, 4)], 1, dtypes=("float32",)),
    Row("select_and_scatter", lambda x, s: windowed_reductions.select_and_scatter(
        x, lambda a, b: a > b, (1, 2), (1, 2), "VALID", s, np.float64(0), lambda a, b: a + b),
        [numbers(4, 4), numbers(4, 2)], 0),
    # Slices and indices
    unary("slice", dtypes=ALL, fun=lambda x: lax.slice(x, (0, 1), (4, 3), (1, 2))),
    Row("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (0, i), (4, 2)), [X, np.int32(1)], dtypes=ALL),
    Row("dynamic_update_slice", lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i)),
        [X, numbers(4, 2, seed=2), np.int32(1)], dtypes=ALL),
    Row("gather", gather, [X, np.array([3, 0, 1], np.int32)], dtypes=ALL, sharded=False),
    Row("scatter", scatter(lax.scatter), SCATTER, dtypes=ALL, sharded=False),
    Row("scatter-add", scatter(lax.scatter_add), SCATTER, dtypes=NUMBERS, sharded=False),
    Row("scatter-sub", scatter(lax.scatter_sub), SCATTER, dtypes=NUMBERS, sharded=False),
    Row("scatter-mul", scatter(lax.scatter_mul), SCATTER, dtypes=NUMBERS, sharded=False),
    Row("scatter-min", scatter(lax.scatter_min), SCATTER, dtypes=REAL, sharded=False),
    Row("scatter-max", scatter(lax.scatter_max), SCATTER, dtypes=REAL, sharded=False),
    # Products
    binary("dot_general", X, numbers(3, 2, seed=1), fun=lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())))),
    Row("ragged_dot_general", lambda x, y, n: lax.ragged_dot(x, y, n),
        [numbers(6, 3), numbers(2, 3, 2, seed=1), np.array([2, 4], np.int32)], vmap=(0, 1), sharded=False),
    Row("scaled_dot", lambda x, y, a: lax.scaled_dot(x, y, lhs_scale=a, preferred_element_type=np.float32),
        [numbers(2, 4), numbers(4, 3), POSITIVE[:2, :2]], 0, dtypes=("float32", "bfloat16")),
    Row("block_scaled_dot", jax.nn.scaled_matmul,
        [numbers(2, 3, 4), numbers(2, 5, 4, seed=1), numbers(2, 3, 2, seed=2), numbers(2, 5, 2, seed=3)],
        1, dtypes=("float32", "bfloat16")),
    Row("conv_general_dilated", conv, [IMAGE, KERNEL], dtypes=("float32", "float64", "bfloat16")),
    # Control flow and calls
    Row("cond", lambda p, x: lax.cond(p, lambda x: x * 2, jnp.sin, x), [np.bool_(True), X]),
    Row("scan", lambda c, xs: lax.scan(scan_step, c, xs), [X, numbers(3)], dtypes=INEXACT),
    Row("while", lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1], [X],
        modes=("fwd",)),
    Row("bounded_scan", lambda x: jax.vjp(lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x), max_steps=20)[1], x)[1](x)[0], [X]),
    Row("jit", jax.jit(lambda x: jnp.sin(x) * 2), [X], dtypes=INEXACT),
    Row("remat2", jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), [X]),
    Row("custom_jvp_call", sine, [X]),
    Row("custom_vjp_call", cosine, [X], modes=("rev",)),
    Row("remat_opt", lambda x: jax.vjp(optimized, x)[0], [X]),
    Row("custom_vmap_call", triple, [X]),
    Row("platform_index", lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), [X]),
    Row("custom_linear_solve", lambda b: lax.custom_linear_solve(
        lambda x: x * 3, b, lambda _, b: b / 3, symmetric=True), [X]),
    Row("custom_root", lambda a: lax.custom_root(
        lambda x: x**3 - a, jnp.ones_like(a), lambda f, x: jnp.cbrt(a), lambda g, y: y / g(jnp.ones_like(y))), [POSITIVE],
        vmap=()),
    Row("linear_call", lambda x: jax.custom_derivatives.linear_call(
        lambda r, x: r * x, lambda r, ct: r * ct, 3.0, x), [X]),
    # Along named axes
    *(Row(name, fun, [X], diff, sharded=False, axis="i") for name, fun, diff in [
        ("psum", lambda x: lax.psum(x, "i"), 2), ("pmax", lambda x: lax.pmax(x, "i"), 0),
        ("pmin", lambda x: lax.pmin(x, "i"), 0), ("ppermute", lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 3), (3, 0)]), 2),
        ("all_gather", lambda x: lax.all_gather(x, "i"), 2), ("reduce_scatter", lambda x: lax.psum_scatter(jnp.tile(x, 4).reshape(4, 3), "i"), 2),
        ("all_to_all", lambda x: lax.all_to_all(jnp.tile(x, 4).reshape(4, 3), "i", 0, 0), 2),
        ("axis_index", lambda x: x * lax.axis_index("i"), 2),
        ("pbroadcast", lambda x: lax.pbroadcast(x, "i", 2), 2),
        ("all_gather_invariant", lambda x: lax.all_gather(x, "i", to="invarying"), 2),
        ("ragged_all_to_all", lambda x: lax.ragged_all_to_all(
            jnp.tile(x, 2), jnp.tile(x, 3), np.array([0, 2, 3, 4]), np.array([2, 1, 1, 1]), lax.axis_index("i") * 2 + np.zeros(4, int),
            jnp.array([2, 1, 1, 1])[lax.axis_index("i")] + np.zeros(4, int), axis_name="i"), 0),
    ]),
    # Placement and markers
    *(binary(p.name, fun=lambda x, y, p=p: p.bind(x, y, subfuns=(lambda x, y: [jnp.sin(x) * y],), name="f")[0],
        dtypes=("float32", "complex64")) for p in (call_p, closed_call_p)),
    # The check's second order hands results of this layout on as cotangents, where PyPI's build goes wrong as well.
    unary("layout_constraint", dtypes=ALL, fun=lambda x: with_layout_constraint(x, Layout((1, 0))), sharded=False, diff=1),
    unary("device_put", dtypes=ALL, fun=lambda x: jax.device_put(x, jax.devices()[0]), sharded=False),
    unary("sharding_constraint", dtypes=ALL, fun=lambda x: lax.with_sharding_constraint(x, replicated()), sharded=False),
    unary("composite", dtypes=FLOATS, fun=lax.composite(lambda x: jnp.sin(x) * 2, "my.op"), diff=0,
          vmap=()),  # opaque on purpose
    # Random numbers
    Row("rng_uniform", lambda x: 0 * lax.rng_uniform(np.float64(0), np.float64(1), (4, 3)) + x, [X], 0),
    Row("threefry2x32", lambda k, x: jax.extend.random.threefry_2x32(k, x), [KEY, np.arange(6, dtype=np.uint32)], 0, vmap=(1,), sharded=False),
    Row("rng_bit_generator", lambda k: lax.rng_bit_generator(k, (4,)), [np.arange(4, dtype=np.uint32)], 0, sharded=False,
        vmap=()),  # a batch draws all its numbers from the first key
    Row("random_seed", lambda s: jax.random.key_data(jax.random.key(s)), [np.int32(3)], 0),
    Row("random_wrap", lambda k: jax.random.key_data(jax.random.wrap_key_data(k)), [KEY], 0, sharded=False),
    Row("random_unwrap", lambda k: jax.random.key_data(jax.random.wrap_key_data(k)), [KEY], 0, sharded=False),
    Row("random_split", lambda k: jax.random.key_data(jax.random.split(jax.random.wrap_key_data(k))), [KEY], 0, sharded=False),
    Row("random_fold_in", lambda k, i: jax.random.key_data(jax.random.fold_in(jax.random.wrap_key_data(k), i)),
        [KEY, np.uint32(5)], 0, sharded=False),
    Row("random_clone", lambda k: jax.random.key_data(jax.random.clone(jax.random.wrap_key_data(k))), [KEY], 0, sharded=False),
    Row("random_bits", lambda k: jax.random.bits(jax.random.wrap_key_data(k), (3,)), [KEY], 0, sharded=False),
    Row("random_gamma", lambda k, a: jax.random.gamma(jax.random.wrap_key_data(k), a), [KEY, POSITIVE], 0, sharded=False),
    # Linear algebra
    matrix("cholesky", linalg.cholesky, [SYMMETRIC]),
    matrix("det_3x3", jnp.linalg.det, [numbers(3, 3)]),
    matrix("cholesky_update", linalg.cholesky_update, [np.triu(SYMMETRIC), numbers(3)], 2, dtypes=("float32",)),
    matrix("triangular_solve", lambda a, b: linalg.triangular_solve(a, b, left_side=True, lower=True),
           [np.tril(SYMMETRIC), numbers(3, 2)]),
    matrix("lu", lambda x: linalg.lu(x)[0], [SYMMETRIC]),
    matrix("lu_pivots_to_permutation", lambda p: linalg.lu_pivots_to_permutation(p, 3), [np.array([1, 2, 2], np.int32)], 0, dtypes=()),
    matrix("qr", lambda x: linalg.qr(x, full_matrices=False), [numbers(4, 3)]),
    matrix("geqrf", geqrf, [numbers(4, 3)], 0),
    matrix("geqp3", geqp3, [numbers(4, 3), np.zeros(3, np.int32)], 0),
    matrix("householder_product", linalg.householder_product, [numbers(4, 3), FRACTION[0]], 2),
    matrix("ormqr", linalg.ormqr, [numbers(4, 3), FRACTION[0], numbers(4, 2, seed=1)], 2),
    matrix("eigh", lambda x: of_eigenvectors(*linalg.eigh(x)), [SYMMETRIC]),
    matrix("eig", lambda x: linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False), [UPPER], 1),
    matrix("svd", lambda x: of_singular_vectors(*linalg.svd(x, full_matrices=False)), [numbers(4, 3)]),
    matrix("hessenberg", linalg.hessenberg, [SYMMETRIC], 0),
    matrix("schur", linalg.schur, [UPPER], 0),
    matrix("tridiagonal", linalg.tridiagonal, [SYMMETRIC], 0),
    matrix("tridiagonal_solve", linalg.tridiagonal_solve,
           [np.array([0, 0.3, 0.5]), np.array([2.0, 3.0, 2.5]), np.array([0.4, 0.2, 0.0]), numbers(3, 2)]),
    matrix("symmetric_product", lambda a, c: linalg.symmetric_product(a, c, beta=0.5, symmetrize_output=True),
           [numbers(3, 2), SYMMETRIC], dtypes=("float32",)),
    unary("fft", X + 1j * Y, COMPLEX, fun=lambda x: lax.fft(x, lax.FftType.FFT, (3,)), sharded=False),
]  # fmt: skip
ROWS = [row for row in ROWS if row is not None]


def lowest(x):
    return np.array(
        -np.inf if jnp.issubdtype(x.dtype, np.floating) else np.iinfo(x.dtype).min, x.dtype
    )


def highest(x):
    return np.array(
        np.inf if jnp.issubdtype(x.dtype, np.floating) else np.iinfo(x.dtype).max, x.dtype
    )


# Not bound by themselves, and why there is no row.
WITHOUT_ROW = {
    "cudnn_fusion": "a call that CUDA compiles as one kernel: outside_names_test.py",
    "after_all": "joins tokens, which carry no values",
    "cumulative_loop": "emitted by the lowering of cumsum and related functions, and by nothing else",
    "check": "has no result: checkify_test.py",
    "assert_consumed_value": "asserts something of a random key: key_reuse_test.py",
    "consume": "takes a random key: key_reuse_test.py",
    "custom_lin": "the linear part of a custom_vjp until it is transposed: the row of custom_vjp_call",
    "dce_sink": "has no result",
    "empty2": "a scalar without a specified value, in a memory space",
    "ffi_call": "needs a native function: ffi_test.py",
    **dict.fromkeys(
        ("debug_callback", "debug_print", "io_callback", "pure_callback", "inspect_sharding"),
        "call Python functions: callback_test.py",
    ),
    **dict.fromkeys(("progress", "progress_report"), "have no result: progress_test.py"),
    "buffer_callback": "calls a Python function with buffers: buffer_callback_test.py",
    "call_exported": "needs an exported program: export_test.py",
    "dim_as_value": "is the value of a symbolic dimension: export_shapes_test.py",
    **dict.fromkeys(
        (
            "box_get",
            "box_set",
            "call_hi_primitive",
            "call_hi_primitive_linearized",
            "log_extend",
            "log_read",
            "new_box",
            "new_log",
        ),
        "work on high-level types: hijax_test.py",
    ),
    **dict.fromkeys(
        (
            "pallas_call",
            "program_id",
            "num_programs",
            "multiple_of",
            "reciprocal",
            "delay",
            "run_scoped",
            "roll",
            "bitcast",
        ),
        "apply kernels, or are for kernels: pallas_test.py",
    ),
    **dict.fromkeys(
        (
            "approx_tanh",
            "atomic_cas",
            "atomic_rmw",
            "debug_barrier",
            "elementwise_inline_asm",
            "max_contiguous",
        ),
        "are for kernels for GPUs: pallas_triton_test.py",
    ),
    **dict.fromkeys(
        (
            "async_copy_smem_to_tmem",
            "async_load_tmem",
            "async_prefetch",
            "async_store_smem",
            "async_store_tmem",
            "barrier_arrive",
            "barrier_test",
            "barrier_wait",
            "commit_group",
            "commit_smem",
            "commit_tmem",
            "copy_gmem_to_smem",
            "copy_smem_to_gmem",
            "griddepcontrol_launch_dependents",
            "griddepcontrol_wait",
            "inline_mgpu",
            "layout_cast",
            "load",
            "mgpu_atomic_store",
            "multimem_load_reduce",
            "multimem_store",
            "print_layout",
            "query_cluster_cancel",
            "semaphore_signal_multicast",
            "set_max_registers",
            "tcgen05_commit_arrive",
            "tcgen05_mma",
            "try_cluster_cancel",
            "wait_load_tmem",
            "wait_smem_to_gmem",
            "warp_map",
            "grid_step",
            "wgmma",
            "wgmma_accumulator_load",
            "wgmma_wait",
        ),
        "are for kernels for GPUs over warpgroups: pallas_mosaic_gpu_test.py",
    ),
    **dict.fromkeys(
        (
            "custom_fusion",
            "fusible",
        ),
        "are for kernels with what surrounds them: pallas_fuser_test.py",
    ),
    **dict.fromkeys(
        (
            "dma_start",
            "dma_wait",
            "get_barrier_semaphore",
            "interpreted_kernel",
            "masked_load",
            "masked_store",
            "pack_elementwise",
            "prng_random_bits",
            "prng_seed",
            "stochastic_round",
            "touch",
            "trace_value",
            "unpack_elementwise",
        ),
        "are for kernels for TPUs: pallas_tpu_lowering_test.py, pallas_tpu_interpret_test.py",
    ),
    **dict.fromkeys(
        (
            "matmul_acc_lhs",
            "matmul_pop",
            "matmul_push_rhs",
            "with_memory_space_constraint",
        ),
        "are for kernels for TPUs, and for their operands: pallas_tpu_random_test.py",
    ),
    **dict.fromkeys(
        (
            "all_reduce_ffs",
            "all_reduce_population_count",
            "fetch_and_add",
            "load_at",
            "masked_cummax",
            "masked_cumsum",
            "masked_sort",
            "pack",
            "parallel_rounds",
            "scan_count",
            "store_at",
            "subcore_barrier",
            "unpack",
        ),
        "are for kernels for SparseCores: pallas_sparse_core_test.py",
    ),
    **dict.fromkeys(
        (
            "get_global",
            "semaphore_read",
            "semaphore_signal",
            "semaphore_wait",
        ),
        "are for kernels over cores and devices: pallas_cores_test.py",
    ),
    "bounds_check": "made under jax.debug.bounds(): bounds_test.py",
    **dict.fromkeys(
        ("backward_check", "backward_check_report", "checked_linear"),
        "made under jax.debug.nans(backward=True): backward_nans_test.py",
    ),
    **dict.fromkeys(
        ("addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "run_state", "swap"),
        "read and write mutable arrays: ref_test.py",
    ),
    **dict.fromkeys(("to_edtype", "from_edtype"), "need an extended dtype: extended_types_test.py"),
    **dict.fromkeys(
        (
            "pvary",
            "preduced",
            "reduced_vary_cast_p",
            "vary_unreduced_cast_p",
            "psum_invariant",
            "unreduced_psum",
            "all_gather_reduced",
            "unreduced_reduce_scatter",
        ),
        "need the axes of a shard_map: collectives_test.py",
    ),
    **dict.fromkeys(("psend", "precv"), "are for GPUs: collectives_test.py"),
    **dict.fromkeys(
        ("compute_on", "fused_call", "shard_alike", "xla_metadata_call", "xla_metadata_value"),
        "are hints for the compiler: compiler_hints_test.py",
    ),
    "custom_partitioning": "needs a mesh: custom_partitioning_test.py",
    "shard_map": "needs a mesh: shard_map_test.py",
    **dict.fromkeys(
        ("global_array_to_host_local_array", "host_local_array_to_global_array"),
        "convert between arrays of a process and of all processes",
    ),
    "reshard": "needs a mesh with explicit axes: explicit_sharding_test.py",
    "stage": "is an operation only where nothing is staged: it is the identity in a jaxpr",
    "create_token": "makes a token, which carries no value",
    **dict.fromkeys(
        (
            "bcoo_dot_general",
            "bcoo_dot_general_sampled",
            "bcoo_extract",
            "bcoo_fromdense",
            "bcoo_sort_indices",
            "bcoo_spdot_general",
            "bcoo_sum_duplicates",
            "bcoo_todense",
            "bcoo_transpose",
            "todense",
        ),
        "need valid indices of elements: sparse_bcoo_test.py",
    ),
    **dict.fromkeys(
        (
            "coo_fromdense",
            "coo_matmat",
            "coo_matvec",
            "coo_todense",
            "csr_fromdense",
            "csr_matmat",
            "csr_matvec",
            "csr_todense",
        ),
        "need valid indices of elements: sparse_coo_test.py",
    ),
    **dict.fromkeys(
        ("bcsr_dot_general", "bcsr_extract", "bcsr_fromdense", "bcsr_todense"),
        "need valid indices of elements: sparse_bcsr_test.py",
    ),
    "spsolve": "needs valid indices of elements: sparse_linalg_test.py",
    **dict.fromkeys(("rnn_fwd", "rnn_bwd"), "are for GPUs: rnn_test.py"),
    **dict.fromkeys(
        (
            "cudnn_attention",
            "cudnn_attention_call",
            "cudnn_attention_grad",
            "cudnn_attention_grad_call",
        ),
        "are for GPUs: cudnn_attention_test.py",
    ),
    **dict.fromkeys(
        ("tiled_attention", "tiled_attention_tangent", "tiled_attention_gradient"),
        "have static parameters of attention: tiled_attention_test.py",
    ),
    "block_scaled_dot_call": "is for GPUs: scaled_matmul_test.py",
    "erfinv": "is of scipy.special: scipy_special_test.py, numeric_kernels_test.py",
    "positive_beta": "takes positive numbers only: the beta function in scipy_special_test.py, special_accuracy_test.py",
    "bisect": "has static parameters of searchsorted: numpy_sorting_test.py, numeric_kernels_test.py",
    "threefry_bits": "takes words of keys: random_test.py, numeric_kernels_test.py",
}
