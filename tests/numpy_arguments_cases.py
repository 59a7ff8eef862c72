"""Cases of unusual arguments of jax.numpy functions: what they give, or which error they raise."""

import numpy as np
from op_cases import Case, values

import jax
import jax.numpy as jnp

CASES: list[Case] = []
X = values((3, 4), "float32", "arguments")
MASK = np.array([True, False, True])


def case(name, fun, args=(), ignore=(), **kwargs):
    """A case without derivatives; what has no arguments is of plain calls only."""
    ignore = ignore or (() if args else ("jit",))
    CASES.append(Case(name, fun, list(args), diff="", vmap=False, ignore=ignore, **kwargs))


def error(name, fun, args=(), **kwargs):
    """An error of the plain call."""
    case(f"error_{name}", fun, args, ignore=("jit",), **kwargs)


# Axes

for name in "take take_along_axis round split".split():
    call = {
        "take": lambda x: jnp.take(x, np.array([0]), axis=1.5),
        "take_along_axis": lambda x: jnp.take_along_axis(x, np.zeros((3, 1), int), axis=1.0),
        "round": lambda x: jnp.round(x, 1.5),
        "split": lambda x: jnp.split(x, [1.0, 2.0]),
    }[name]
    error(f"{name}_float", call, [X])
error("take_axis_str", lambda x: jnp.take(x, np.array([0]), axis="i"), [X])
error("split_float_array", lambda x: jnp.split(x, np.array([1.0, 2.0])), [X])
case("axis_of_arrays", lambda x: (jnp.ptp(x, axis=jnp.array(0)), jnp.std(x, axis=np.array(1)), jnp.sum(x, axis=np.int8(1))), [X], ignore=("jit",))  # fmt: skip
case("expand_dims_array", lambda x: jnp.expand_dims(x, np.array([0, 2])), [X])
case(
    "roll_array",
    lambda x: (jnp.roll(x, np.array([1, 2]), (0, 1)), jnp.roll(x, [1, 2], (0, 1))),
    [X],
)
error("roll_matrix", lambda x: jnp.roll(x, np.ones((2, 2), int)), [X])
error("roll_nested", lambda x: jnp.roll(x, [[1]], 0), [X])
error("tile", lambda x: jnp.tile(x, np.ones(2, np.float16) * 0.5), [X])

# Dtypes

case("trace_bool", lambda x: jnp.trace(x, dtype=bool), [X])
case("gcd_of_bools", lambda x: (jnp.gcd(x, True), jnp.lcm(np.ones(4, bool), x)), [np.arange(4, dtype=np.int8)])  # fmt: skip
error("gcd_of_bools", lambda: jnp.gcd(True, True))
case("spaces_of_small_integers", lambda: (jnp.linspace(0, 3, 4, dtype="int4"), jnp.logspace(0, 0.5, 3, dtype="uint4"), jnp.geomspace(1, 4, 3, dtype="int4")))  # fmt: skip
case("nan_to_num_weak", lambda: (jnp.nan_to_num(1), jnp.nan_to_num(2.5), jnp.nan_to_num(True), jnp.nan_to_num(np.int8(1))))  # fmt: skip
for fill in (True, np.uint32(3), 2.5, np.float16(2), 1j):
    case(
        f"nonzero_fill_{type(fill).__name__}",
        lambda x, v=fill: (
            jnp.nonzero(x, size=4, fill_value=v),
            jnp.argwhere(x, size=4, fill_value=v),
        ),
        [np.array([[1.0, 0], [0, 1]], np.float32)],
    )
case("argwhere_fills", lambda x: jnp.argwhere(x, size=9, fill_value=(1, 2.5)), [X[:2, :3] * 0])
for dtype in ("float32", "bool"):
    error(
        f"ravel_multi_index_{dtype}",
        lambda d=dtype: jnp.ravel_multi_index((np.array([0]), np.array([1])), (2, 3), dtype=d),
    )
case("scalar_type_of_str", lambda: (jnp.float32("1.5"), jnp.int32("7"), jnp.float16("nan")))
case("frombuffer_of_array", lambda: jnp.frombuffer(np.arange(3, dtype=np.int16), dtype=np.int16, count=2, offset=2))  # fmt: skip

# No elements, and masks

EMPTY = np.zeros((0, 3), np.float32)
case("take_of_no_indices", lambda x: jnp.take(x, np.array([]), axis=1), [X])
error("take_of_floats", lambda x: jnp.take(x, np.array([0.0])), [X])
case("partition_empty", lambda x: jnp.partition(x, 1, axis=1), [EMPTY])
case("extract_empty", lambda x: (jnp.extract(np.zeros((0, 3), bool), x), jnp.compress(np.zeros(0, bool), x, axis=0)), [EMPTY], ignore=("jit",))  # fmt: skip
case("known_masks", lambda x: (jnp.compress(MASK, x, axis=0), jnp.compress(np.array([True, False, True, False, False]), x, axis=1), jnp.extract(np.eye(3, 4) > 0, x)), [X], ignore=("jit",))  # fmt: skip
error("compress_beyond", lambda x: jnp.compress(np.ones(5, bool), x, axis=1), [X])
case("reduce_of_nothing", lambda x: jnp.frompyfunc(lambda a, b: a * b, 2, 1, identity=1).reduce(x), [EMPTY])  # fmt: skip

# Other arguments

case("piecewise_of_rows", lambda x: jnp.piecewise(x, [x[0] > 0, x[0] < -1], [1.0, 2.0]), [X])
case("piecewise_numbers", lambda x: jnp.piecewise(x, [x > 0], [1.5]), [X])
case("like_on_device", lambda x: (jnp.zeros_like(x, device=jax.devices()[0]), jnp.full_like(x, 2, device=jax.devices()[0]), jnp.zeros(3, device=jax.devices()[0])), [X])  # fmt: skip
error("accumulate_axis", lambda x: jnp.frompyfunc(lambda a, b: a - b, 2, 1).accumulate(x, axis=None), [X])  # fmt: skip
case("accumulate_flat", lambda x: jnp.add.accumulate(x, axis=None), [X])
error("at_without_operand", lambda x: jnp.frompyfunc(lambda a, b: a - b, 2, 1).at(x, 0, inplace=False), [X])  # fmt: skip

# Arrays, and traced arrays, where numbers are common

I8 = np.array([[2, 0, -1]], np.int8)
case("linspace_of_arrays", lambda a, b: (jnp.linspace(a, b, 4, axis=1), jnp.linspace(a, 2, np.array(3)), jnp.logspace(a, b, 3), jnp.linspace(a, b, 3, retstep=True)), [X[0], X[1]])  # fmt: skip
case("tri_traced", lambda k: (jnp.tri(3, 4, k), jnp.tri(3, k=k, dtype=int), jnp.eye(3, k=k)), [np.int32(1)])  # fmt: skip
case("tri_traced_int8", lambda k: jnp.tri(3, 4, k), [np.int8(-1)])
case("tri_batched", lambda k: jax.vmap(lambda k: jnp.tri(3, k=k))(k), [np.arange(-1, 2)])
error("tri_traced", lambda k: jax.jit(lambda k: jnp.tri(3, k=k))(k), [np.arange(2)])
case("grids_of_nothing", lambda: (jnp.mgrid[()], list(jnp.ogrid[()]), len(jnp.ogrid[()])))
case("unravel_index_traced", lambda i, s: (jnp.unravel_index(i, s), jnp.unravel_index(i, (s[0], 3))), [np.array([5, -4, 0, 90, -90]), np.array([2, 3])])  # fmt: skip
case("unravel_index_kinds", lambda i, s: jnp.unravel_index(i, s), [np.uint8(5), np.array([2, 3], np.uint8)])  # fmt: skip
case("unravel_index_shapes", lambda: [jnp.unravel_index(5, s) for s in ((2, 3), np.array([2, 3]), (np.int64(2), 3), jnp.array(6), (2.0, 3), np.array([2, 3], np.int8), 6, iter((2, 3)))])  # fmt: skip
case("unravel_index_of_floats", lambda i: jnp.unravel_index(i, (2, 3)), [np.array([5.0, -4.0, 90.0], np.float32)])  # fmt: skip
error("unravel_index_matrix", lambda: jnp.unravel_index(5, np.array([[2, 3]])))
case("axes_of_arrays", lambda x: (jnp.sum(x, axis=(np.array(0), 1)), jnp.any(x, axis=(jnp.array(0),)), jnp.max(x, (np.int8(1), np.array(0)))), [X], ignore=("jit",))  # fmt: skip
case("axes_in_arrays", lambda x: (jnp.squeeze(x[None], jnp.array([0])), jnp.moveaxis(x, jnp.array([0, 1]), np.array([1, 0])), jnp.flip(x, jnp.array([0, 1])), jnp.roll(x, (1, 2), jnp.array([0, 1]))), [X], ignore=("jit",))  # fmt: skip
case("trapezoid_steps", lambda y, d: (jnp.trapezoid(y, dx=d), jnp.trapezoid(y, dx=d[:2, None], axis=0), jnp.trapezoid(y, dx=[1.0, 2.0, 3.0])), [X, np.array([1, 2, 4], np.float32)])  # fmt: skip
case("trapezoid_ranks", lambda y, x: (jnp.trapezoid(y[0], x), jnp.trapezoid(y, x[0]), jnp.trapezoid(y[None], x, axis=-1), jnp.trapezoid(y, x[:, 0], axis=0)), [X, X**2])  # fmt: skip
case("take_along_small", lambda x, i: (jnp.take_along_axis(x, i, 1), jnp.take_along_axis(x, i, 1, mode="fill"), jnp.take_along_axis(x.astype(np.int8), i, 1)), [X, I8])  # fmt: skip
for dtype in ("int8", "int32", "uint16", "float32", "float16", "bfloat16", "bool"):
    case(f"byteswap_{dtype}", lambda x: jnp.asarray(x).byteswap(), [values((2, 3), dtype, "swap")])
case("byteswap_complex", lambda x: jnp.asarray(x).byteswap().byteswap(), [values((3,), "complex64", "swap")])  # fmt: skip
case("contains", lambda: [v in jnp.arange(3) for v in (1, 4, 1.5, 1j, True, np.int8(2), jnp.array(2))])  # fmt: skip
for name, value in dict(
    vector=np.array([0]), str="a", none=None, object=object(), list=[1]
).items():
    error(f"contains_{name}", lambda v=value: v in jnp.arange(3))
error("contains_matrix", lambda x: 1 in jnp.asarray(x), [X])
error("contains_scalar", lambda: 1 in jnp.array(1))
case("cov_of_nothing", lambda x: (jnp.cov(x), jnp.cov(x.T), jnp.cov(x[:, 0]), jnp.cov(x.T, bias=True), jnp.cov(x.astype("complex64").T), jnp.corrcoef(x)), [EMPTY])  # fmt: skip
case("cov_kinds", lambda m, u: (jnp.cov(m), jnp.cov(u), jnp.cov(u, m), jnp.cov(u, aweights=m), jnp.corrcoef(m, u)), [MASK, np.array([1, 200, 7], np.uint8)])  # fmt: skip
case("frexp_weak", lambda: (jax.grad(lambda x: jnp.frexp(x)[0])(3.0), jax.grad(lambda x: jnp.ldexp(x, 3))(3.0)))  # fmt: skip
case("frexp_derivative", lambda x: jax.jvp(lambda x: jnp.frexp(x)[0], (x,), (jnp.ones_like(x),)), [np.array([0, -3, 0.5, 4, 1e38], np.float32)])  # fmt: skip
case("cumulative_of_bools", lambda x: (jnp.cumulative_sum(x), jnp.cumulative_sum(x, include_initial=True), jnp.cumulative_prod(x), jnp.cumsum(x, dtype=bool)), [MASK])  # fmt: skip

# One element as a number, several axes in an array

ONE, HALF = np.array([3]), np.array([0.5], np.float32)
MASK4 = np.array([True, False, True, True])
case("fft_frequencies_of_arrays", lambda d: (jnp.fft.fftfreq(5, d), jnp.fft.rfftfreq(4, d[None]), jnp.fft.fftfreq(3, [2.0, 4.0, 8.0] * d)), [HALF])  # fmt: skip
case("error_fft_frequencies_of_lists", lambda: jnp.fft.fftfreq(5, [2.0]))
case("vector_norm_of_arrays", lambda x: [jnp.linalg.vector_norm(x, axis=a, ord=o) for a in (np.array([1]), np.array([0, 1]), [0], jnp.array(1), None) for o in (jnp.array([2]), np.array([np.inf]), np.array(0))] + [jnp.linalg.vector_norm(x, axis=1, ord=ONE)], [X], ignore=("jit",))  # fmt: skip
case("error_vector_norm_of_orders", lambda x: jnp.linalg.vector_norm(x, ord=np.array([2, 2])), [X])
case("softmax_axes_in_arrays", lambda x: (jax.nn.softmax(x, np.array([1])), jax.nn.softmax(x, jnp.array([0, 1])), jax.nn.logsumexp(x, np.array([0, 1])), jax.nn.logsumexp(x, np.array([1]))), [X], ignore=("jit",))  # fmt: skip
case("shift_axes_in_arrays", lambda x: (jnp.fft.fftshift(x, np.array([1])), jnp.fft.ifftshift(x, np.array([0, 1])), jnp.fft.fftshift(x, [0, 1])), [X])  # fmt: skip
case("pinv_of_arrays", lambda x, r: (jnp.linalg.pinv(x, r), jnp.linalg.pinv(jnp.stack([x, 2 * x]), r[:, None]), jnp.linalg.pinv(x, rtol=[0.1])), [X, np.array([0.01, 0.9], np.float32)], tol=1e-4)  # fmt: skip
case("lstsq_of_arrays", lambda x, r: (jnp.linalg.lstsq(x.T, x[0], rcond=r)[0], jnp.linalg.lstsq(x.T, x.T, rcond=jnp.array([0.01, 0.01, 0.01]))[0]), [X, HALF / 50], tol=1e-4)  # fmt: skip
case("unwrap_periods", lambda x, p: (jnp.unwrap(9 * x, period=p[:1]), jnp.unwrap(9 * x, period=p), jnp.unwrap(9 * x, period=p[:, None], discont=p[:1]), jnp.unwrap(np.arange(4) * 3, period=np.array([4]))), [X, np.array([4, 5, 6], np.float32)])  # fmt: skip
case("error_unwrap_periods", lambda x: jnp.unwrap(x, period=np.ones(4)), [X])
case("compress_filled_with_arrays", lambda x, v: (jnp.compress(MASK4, x, axis=1, size=4, fill_value=v), jnp.compress(MASK4, x, axis=1, size=3, fill_value=v[:1]), jnp.compress(MASK, x, axis=1, size=3, fill_value=v), jnp.extract(MASK4, x[0], size=4, fill_value=v[:1])), [X, np.array([7, 8, 9], np.float32)])  # fmt: skip
case("error_compress_filled_with_arrays", lambda x: jnp.compress(MASK4, x, axis=1, size=4, fill_value=np.ones(4)), [X])  # fmt: skip
case("roll_of_floats", lambda x, k: (jnp.roll(x, k), jnp.roll(x, -k, 0), jnp.roll(x, jnp.stack([k, -2 * k]), (0, 1)), jnp.roll(x, 1.9), jnp.roll(x, -0.5, 0), jnp.roll(x, (1.5, -1.5), (0, 1)), jnp.roll(x, [1.5, 0.5])), [X, np.float32(1.7)])  # fmt: skip
case("roll_traced_in_tuple", lambda x, k: (jnp.roll(x, (k, 2), (0, 1)), jnp.roll(x, [1, k], (0, 1)), jnp.roll(x, (k, k)), jnp.roll(x, (1.5, k), (0, 1))), [X, np.int32(1)])  # fmt: skip
case("einsum_of_numpy_text", lambda x: (jnp.einsum(np.str_("ij->i"), x), jnp.einsum(np.str_("ij,kj"), x, x, optimize=np.str_("greedy"))), [X])  # fmt: skip
case("broadcast_shapes_of_arrays", lambda: [jnp.zeros(f(*s)) for f in (jnp.broadcast_shapes, jax.lax.broadcast_shapes) for s in ((np.array([3, 1]), (1, 4)), ((3, 1), jnp.array([1, 4])), ([3, 1],), (jnp.array([2]), np.array([1])))])  # fmt: skip
case("qr_of_no_halves", lambda x: [jnp.linalg.qr(y, mode=m) for y in (x, x.T, x[:, :0], jnp.zeros((2, 3, 0), "bfloat16")) for m in ("complete", "reduced")], [EMPTY.astype(np.float16)])  # fmt: skip
case("orthogonal_of_no_halves", lambda: jax.nn.initializers.orthogonal(dtype="float16")(jax.random.key(0), (0, 3)))  # fmt: skip
Q4 = values((2, 3, 4, 5), "float32", "queries")
case("attention_scales", lambda q, c: [jax.nn.dot_product_attention(q, q, q, scale=s) for s in (c, c[0], [0.5], np.array([0.5, 1.0, 2.0]), np.ones((2, 4, 1, 1), np.float32))], [Q4, HALF])  # fmt: skip
case("attention_windows_of_arrays", lambda q: [jax.nn.dot_product_attention(q, q, q, local_window_size=w) for w in (jnp.array([1, 0]), (np.array(1), jnp.array(2)), [0, 1])], [Q4], ignore=("jit",))  # fmt: skip

# Text

case("printing", lambda: [np.frombuffer(s.encode(), np.uint8) for s in _texts()])
VECTORIZED = jnp.vectorize(lambda a, b: a @ b, signature="(n,m),(m)->(n)")
case("vectorize", lambda x: (VECTORIZED(jnp.stack([x, x]), x[0]), VECTORIZED(x, jnp.stack([x[0], x[1]]))), [X])  # fmt: skip
error("vectorize_core", lambda x: VECTORIZED(x, x[0, :2]), [X])
error("vectorize_rank", lambda x: VECTORIZED(x[0], x[0]), [X])
error("vectorize_count", lambda x: VECTORIZED(x), [X])
error("vectorize_out", lambda x: jnp.vectorize(lambda a: (a, a), signature="(n)->(n)")(x), [X])
error("vectorize_excluded", lambda x: jnp.vectorize(lambda a: a, excluded={-1})(x), [X])
case("vectorize_excluded", lambda x: jnp.vectorize(lambda a, b: a + len(b), excluded={1})(x, "abc"), [X])  # fmt: skip
case("vectorize_none", lambda x: jnp.vectorize(lambda a, b: a if b is None else a + b)(x, None), [X])  # fmt: skip


def _texts():
    x = jnp.arange(6.0).reshape(2, 3) / 3
    with jnp.printoptions(precision=1, threshold=4):
        yield repr(x)
        yield str(x)
    yield jnp.array_repr(x, max_line_width=20, precision=2)
    yield jnp.array_str(x, precision=2, suppress_small=True)
    for y in (jnp.zeros((0, 3)), jnp.zeros(2000), jnp.array(1), jnp.asarray(1.0), jnp.array([1], jnp.bfloat16)):  # fmt: skip
        yield repr(y)
    yield f"{jnp.array(1.5):.3f}"


# Types and shapes of results that random calls found to differ

BF, C3 = "bfloat16", np.array([1, 1 + 1j, 2], np.complex64)
case("diag_of_bools", lambda m: (jnp.diag(m), jnp.diagflat(m, -1), jnp.diag(m[:0]), jnp.diag(jnp.diag(m))), [MASK])  # fmt: skip
case("isin_of_numbers", lambda: (jnp.isin(1.0, 2.0), jnp.isin(1j, np.ones(1, int), invert=True)))
case("frequencies_of_types", lambda: [jnp.fft.fftfreq(5, 0.1, dtype=d) for d in (int, bool, complex, "float16", "int8")])  # fmt: skip
case("fft_of_all_axes", lambda x: (jnp.fft.fft(x, axis=None), jnp.fft.irfft(x, axis=None), jnp.fft.rfft(x, n=2, axis=None)), [X])  # fmt: skip
case("irfft_of_nothing", lambda x: (jnp.fft.irfft(x.T, n=3), jnp.fft.hfft(x.T, n=1), jnp.fft.irfftn(x.T, s=(4, 2))), [EMPTY])  # fmt: skip
case("fft_of_scalars", lambda: (jnp.fft.rfftn(2.0), jnp.fft.rfftn(np.uint8(3)), jnp.fft.fftn(2.0), jnp.fft.irfftn(2.0)))  # fmt: skip
case("cov_of_half_weights", lambda x, w: (jnp.cov(x.astype(BF), aweights=w), jnp.cov(x, aweights=w.astype(BF))), [X, np.array([1, 2, 1, 3], np.float32)])  # fmt: skip
case("linspace_types", lambda: [jnp.linspace(np.array(2, a), jnp.array(3, b), 3, retstep=True, dtype=d) for a, b, d in (("float16", BF, None), ("float16", "float16", "int8"), ("int8", "float16", "int8"), ("int8", "float16", None), ("float32", "float32", "float16"), ("float32", "float8_e5m2", float))])  # fmt: skip
case("linspace_of_narrow_integers", lambda: (jnp.linspace(jnp.array(2, "int4"), jnp.array(3, "int4"), 3), jnp.logspace(jnp.array(0, "int4"), jnp.array(1, "int4"), 2), jnp.geomspace(np.float16(1), np.float16(4), 3, dtype="int8")))  # fmt: skip
case("compress_cut_off", lambda m, x: (jnp.compress(m, x[:2], size=2, axis=0), jnp.extract(m, x[0, :1], size=1)), [MASK, X])  # fmt: skip
case("roots_of_constants", lambda x: (jnp.roots(x[:1]), jnp.roots(x[:0])), [X[0]])
case("array_equiv_without_promotion", lambda: (jnp.array_equiv(np.ones(3, np.int16), jnp.ones(3, "int4")), jnp.array_equiv(np.float32(1), jnp.ones(3, "float8_e5m2"))))  # fmt: skip
case("digitize_complex", lambda b, x: (jnp.digitize(b, b), jnp.digitize(x, b[::-1], right=True)), [C3, X])  # fmt: skip
case("parity", lambda x, i, m: (jnp.logical_xor.reduce(x, axis=(0, 1)), jnp.logical_xor.reduce(i, initial=2), jnp.logical_xor.reduce(x, axis=1, keepdims=True, where=m[:, None], initial=True), jnp.logical_xor.reduce(x, dtype="int8")), [np.round(X), np.arange(6).reshape(2, 3), MASK])  # fmt: skip
case("log_sums_of_integers", lambda i: (jnp.logaddexp.reduce(i, dtype="int8"), jnp.logaddexp2.reduce(i, dtype=bool), jnp.logaddexp.reduce(i, axis=None)), [np.arange(6).reshape(2, 3)])  # fmt: skip
case("norms_of_integers", lambda i: (jnp.linalg.vector_norm(i), jnp.linalg.vector_norm(i > 1, axis=1), jnp.argpartition(i, 1)), [np.arange(6, dtype=np.int8).reshape(2, 3)], x64=True)  # fmt: skip
case("concatenated_elements", lambda x: (jnp.concatenate(x[0], axis=None), jnp.concat(x[0], axis=None), jnp.concatenate(x, axis=None, dtype="float16")), [X])  # fmt: skip
case("real_frequencies_of_types", lambda: [jnp.fft.rfftfreq(n, dtype=d) for n, d in ((5, int), (4, "int8"), (4, complex), (0, int), (-1, None), (-3, int))])  # fmt: skip
case("frequencies_of_floats", lambda: (jnp.fft.fftfreq(4.0), jnp.fft.rfftfreq(np.float32(3)), jnp.fft.fftfreq(0)))  # fmt: skip
for name in ("hfft", "ihfft"):
    error(f"{name}_axis_none", lambda x, name=name: getattr(jnp.fft, name)(x, axis=None), [X])
case("repeat_of_nothing", lambda x, r: [jnp.repeat(x, 2, total_repeat_length=3), jnp.repeat(x.T, r, axis=0), jnp.repeat(x.T, r, axis=0, total_repeat_length=2), jnp.repeat(x, r, axis=1, total_repeat_length=2)], [EMPTY, np.zeros(0, np.int32)], ignore=("jit",))  # fmt: skip
