"""Objects with `__jax_array__` as arguments of library functions: see op_cases.py.

Each function is traced with every argument in turn as such an object: what counts is the type of its results
or the error. Most are called eagerly with all arguments such objects as well, for the values.
"""

import itertools
import warnings

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
import jax.scipy.fft
import jax.scipy.integrate
import jax.scipy.linalg
import jax.scipy.signal
import jax.scipy.special
import jax.scipy.stats

CASES = Programs()


def one_hot(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # these are no integers
        return jax.nn.one_hot(x, 3)


F = np.float32
ARGUMENTS = {
    "V": np.array([0.5, 0.25, 0.75, 0.125], F),
    "M": np.array([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]], F),
    "T": np.arange(8, dtype=F).reshape(2, 2, 2),
    "I": np.array([2, 0, 1], np.int32),
    "B": np.array([True, False, True]),
    "S": F(0.5),
    "N": np.int32(2),
}


@jax.tree_util.register_pytree_node_class
class Wrapped:
    """An object that is an array by a method, and whose class is a pytree: jitted functions take it."""

    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return jnp.asarray(self.value)

    def tree_flatten(self):
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def outcome(call):
    """What a call gives as a text: types, or the class of an exception."""
    try:
        return call()
    except Exception as err:
        return type(err).__name__


def traced_types(fun, args, position):
    def f(*xs):
        return fun(*[Wrapped(x) if i == position else x for i, x in enumerate(xs)])

    out = jax.eval_shape(f, *args)
    return "; ".join(f"{jnp.shape(x)} {jnp.result_type(x)}" for x in jax.tree.leaves(out))


def agreement(fun, args):
    got, want = (jax.tree.leaves(fun(*xs)) for xs in (map(Wrapped, args), args))
    same = len(got) == len(want) and all(
        str(x) == str(y) if isinstance(x, (str, np.dtype)) else np.allclose(x, y, equal_nan=True)
        for x, y in zip(got, want)
    )
    return "as with arrays" if same else "another result"


def scenario(name, fun, args, values=True):
    CASES.add(
        name,
        lambda: [
            *[outcome(lambda i=i: traced_types(fun, args, i)) for i in range(len(args))],
            *([outcome(lambda: agreement(fun, args))] if values else []),
        ],
    )


def add(module, prefix, groups, values=True):
    """Scenarios of functions by the kinds of their arguments."""
    for kinds, names in groups.items():
        for name in names.split():
            args = [ARGUMENTS[k] for k in kinds.split()]
            scenario(f"{prefix}_{name}", getattr(module, name), args, values)


add(jnp, "jnp", {
    "V": "abs acos acosh all amax amin angle any arccos argmax argmin argsort argwhere around array array_repr "
    "array_str asarray asin asinh atan atanh atleast_1d atleast_2d atleast_3d average block broadcast_arrays cbrt "
    "ceil column_stack conj copy corrcoef cos cosh count_nonzero cov cumprod cumsum "
    "cumulative_prod cumulative_sum deg2rad diag diagflat diff dstack ediff1d exp exp2 expm1 "
    "fabs flatnonzero flip flipud floor frexp gradient histogram histogram_bin_edges hstack i0 imag iscomplex "
    "iscomplexobj isfinite isinf isnan isneginf isposinf isreal isrealobj isscalar iterable ix_ lexsort log log10 "
    "log1p log2 logical_not max mean median meshgrid min modf nan_to_num nanargmax nanargmin nancumprod nancumsum "
    "nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar ndim negative nonzero ones_like "
    "positive prod ptp rad2deg ravel real reciprocal result_type rint round shape sign signbit sin "
    "sinc sinh size sort sort_complex spacing sqrt square squeeze stack std sum tan tanh trapezoid trim_zeros "
    "trunc unique unique_all unique_counts unique_inverse unique_values unstack unwrap vander var vstack "
    "zeros_like",
    "V V": "add allclose append arctan2 array_equal array_equiv compress convolve copysign correlate digitize divide "
    "divmod dot equal extract float_power floor_divide fmax fmin fmod full_like geomspace greater greater_equal "
    "heaviside histogram2d hypot inner intersect1d isclose isin kron less less_equal linspace logaddexp logaddexp2 "
    "logical_and logical_or logical_xor logspace matmul maximum minimum mod multiply nanpercentile nanquantile "
    "nextafter not_equal outer percentile power quantile remainder "
    "searchsorted setdiff1d setxor1d subtract union1d vdot vecdot",
    "V V V": "clip select",
    "I": "bincount bitwise_count bitwise_invert bitwise_not invert empty ones zeros",
    "I I": "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor choose delete expand_dims gcd "
    "lcm ldexp left_shift repeat right_shift take take_along_axis tile",
    "S S": "arange astype can_cast promote_types",
    "S": "kaiser bartlett blackman hamming hanning",
    "M": "concat concatenate diag_indices_from diagonal fliplr histogramdd matrix_transpose rot90 trace transpose "
    "tril triu tril_indices_from",
    "M N": "argpartition array_split partition resize",
    "M M": "cross matvec tensordot vecmat",
    "V N": "pad roll",
        "M I N": "insert",
    "M I I": "fill_diagonal",
    "N": "diag_indices eye identity tri",
    "N N": "broadcast_to full",
    "B V V": "interp",
    "V V N": "",
    "B M M": "where",
})  # fmt: skip
add(jnp.linalg, "linalg", {
    "M": "cholesky cond det diagonal eigh eigvalsh inv matrix_norm matrix_transpose pinv qr slogdet svd svdvals trace",
    "M M": "cross lstsq solve tensordot",
    "V V": "matmul outer vecdot",
    "M N": "matrix_power",
    "V": "matrix_rank norm vector_norm",
    "T": "multi_dot",
    "M I": "tensorsolve",
})  # fmt: skip
add(jnp.fft, "fft", {
    "V": "fft fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftn",
    "M": "fft2 ifft2 irfft2 rfft2",
    "N N": "fftfreq rfftfreq",
})  # fmt: skip
add(jax.lax, "lax", {
    "V": "abs acos ceil conj cumlogsumexp cummax cumsum erf exp floor is_finite lgamma log neg reciprocal round rsqrt "
    "sign sin sort sqrt square stop_gradient tanh",
    "V V": "add atan2 complex div dot eq ge max min mul ne nextafter pow rem sub zeta sort_key_val",
    "M N": "top_k",
    "M M": "batch_matmul",
    "V V V": "betainc clamp",
    "I I": "bitwise_and shift_left",
    "I": "bitwise_not population_count",
    "B M M": "select",
})  # fmt: skip
add(jax.nn, "nn", {
    "V": "celu elu gelu glu hard_sigmoid hard_silu hard_tanh identity leaky_relu log1mexp log_sigmoid log_softmax "
    "logsumexp mish relu relu6 selu sigmoid silu soft_sign softmax softplus sparse_plus sparse_sigmoid squareplus "
    "standardize tanh",
})  # fmt: skip
add(jax.scipy.linalg, "scipy_linalg", {
    "V": "block_diag toeplitz",
    "M": "cholesky det eigh expm inv lu polar qr svd",
    "M M": "solve solve_triangular",
})  # fmt: skip
stats = jax.scipy.stats
for module, prefix, groups in (
    (jax.scipy.special, "special", {
        "V": "dawsn digamma entr erf erfc erfcx erfinv exp1 expi expit factorial fresnel gamma gammaln gammasgn i0 i0e "
        "i1 i1e log_ndtr log_softmax loggamma logit logsumexp ndtr ndtri sici softmax spence wofz",
        "V V": "beta betaln boxcox boxcox1p comb expn gammainc gammaincc kl_div owens_t poch rel_entr xlog1py xlogy zeta",
        "I V": "polygamma",
        "V V V": "betainc hyp1f1",
        "V V V V": "hyp2f1",
    }),
    (stats.norm, "norm", {"V": "cdf isf logcdf logpdf logsf pdf ppf sf"}),
    (stats.t, "t", {"V V": "logpdf pdf"}),
    (stats.beta, "beta", {"V V V": "cdf logcdf logpdf logsf pdf sf"}),
    (stats.gamma, "gamma", {"V V": "cdf logcdf logpdf logsf pdf sf"}),
    (stats.poisson, "poisson", {"V": "entropy", "V V": "cdf logpmf pmf"}),
    (stats, "stats", {"V": "mode rankdata sem"}),
    (jax.scipy.linalg, "scipy_linalg", {
        "V": "circulant companion fiedler fiedler_companion hankel",
        "M": "cho_factor hessenberg lu_factor schur sqrtm",
        "V V": "leslie",
        "M M": "expm_frechet qr_multiply",
        "M M M": "solve_sylvester",
    }),
    (jax.scipy.signal, "signal", {
        "V": "detrend stft welch",
        "M": "istft",
        "V V": "convolve correlate csd fftconvolve",
        "M M": "convolve2d correlate2d",
    }),
    (jax.scipy.fft, "scipy_fft", {"V": "dct dctn idct idctn"}),
    (jax.scipy.integrate, "integrate", {"V": "trapezoid"}),
    (jax.nn, "nn", {"V": "hard_swish logmeanexp swish"}),
    (jax.lax, "lax", {
        "V": "acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt cos cosh cummin cumprod digamma erf_inv erfc exp2 "
        "expm1 log1p logistic sinh tan unstack",
        "I": "clz",
        "V V": "broadcast_like gt igamma igamma_grad_a igammac le lt polygamma random_gamma_grad",
        "I I": "bitwise_or bitwise_xor mulhi shift_right_arithmetic shift_right_logical",
        "M N": "dynamic_index_in_dim",
        "M S": "full_like",
        "B M M": "select_n",
    }),
    (jnp.linalg, "linalg", {"M": "eig eigvals"}),
):  # fmt: skip
    add(module, prefix, groups, values=False)
for name, kinds in {
    "beta": "V V", "binomial": "V V", "categorical": "V", "chisquare": "V", "dirichlet": "V", "f": "V V", "gamma": "V",
    "geometric": "V", "loggamma": "V", "pareto": "V", "poisson": "V", "rayleigh": "V", "t": "V", "triangular": "V V V",
    "truncated_normal": "V V", "wald": "V", "weibull_min": "V V",
}.items():  # fmt: skip
    fun = lambda *args, name=name: getattr(jax.random, name)(jax.random.key(0), *args)
    scenario(f"random_{name}", fun, [ARGUMENTS[k] for k in kinds.split()], values=False)
for name, call in {
    "bits": jax.random.bits, "fold_in": lambda k: jax.random.fold_in(k, 1), "key_data": jax.random.key_data,
    "normal": jax.random.normal, "split": jax.random.split,
    "wrap": lambda k: jax.random.key_data(jax.random.wrap_key_data(k)),
    "randint": lambda k: jax.random.randint(k, (2,), 0, 3),
}.items():  # fmt: skip
    scenario(f"key_{name}", call, [np.array([0, 1], np.uint32)], values=False)
for name, call in {
    "concatenate": jnp.concatenate, "stack": jnp.stack, "hstack": jnp.hstack, "vstack": jnp.vstack,
    "dstack": jnp.dstack, "column_stack": jnp.column_stack, "block": jnp.block, "array": jnp.array,
    "asarray": jnp.asarray, "multi_dot": jnp.linalg.multi_dot, "meshgrid": lambda x: jnp.meshgrid(*x),
    "broadcast_arrays": lambda x: jnp.broadcast_arrays(*x), "lexsort": jnp.lexsort, "sum": jnp.sum,
    "choose": lambda x: jnp.choose(np.array([0, 1, 0]), x), "ix_": lambda x: jnp.ix_(x[0][0], x[1][0]),
    "histogramdd": lambda x: jnp.histogramdd(x[0], x), "select": lambda x: jnp.select(x, x),
    "where": lambda x: jnp.where(*x), "einsum": lambda x: jnp.einsum("ij,jk", *x),
    "piecewise": lambda x: jnp.piecewise(x[0], x, [1.0, 2.0]),
}.items():  # fmt: skip
    M = ARGUMENTS["M"]
    scenario(f"list_{name}", lambda x, y, f=call: f([x, y]), [M, M])
for name, call in {
    "swapaxes": lambda x: jnp.swapaxes(x, 0, 1), "moveaxis": lambda x: jnp.moveaxis(x, 0, 1),
    "reshape": lambda x: jnp.reshape(x, (9,)), "split": lambda x: jnp.split(x, 3), "hsplit": lambda x: jnp.hsplit(x, 3),
    "permute_dims": lambda x: jnp.permute_dims(x, (1, 0)), "rollaxis": lambda x: jnp.rollaxis(x, 1),
    "apply_along_axis": lambda x: jnp.apply_along_axis(jnp.sum, 0, x), "percentile": lambda x: jnp.percentile(x, 50),
    "apply_over_axes": lambda x: jnp.apply_over_axes(jnp.sum, x, [0]), "unstack": jnp.unstack,
    "put_along_axis": lambda x: jnp.put_along_axis(x, np.zeros((1, 3), int), 1.0, 0, inplace=False),
    "place": lambda x: jnp.place(x, np.eye(3) > 0, np.ones(1, F), inplace=False),
    "put": lambda x: jnp.put(x, np.array([1]), np.ones(1, F), inplace=False),
    "vectorize": lambda x: jnp.vectorize(jnp.sin)(x), "ufunc_reduce": lambda x: jnp.add.reduce(x),
    "ufunc_outer": lambda x: jnp.add.outer(x, x), "ufunc_accumulate": lambda x: jnp.add.accumulate(x),
    "ufunc_at": lambda x: jnp.add.at(x, np.array([0]), 1.0, inplace=False), "fill_value": lambda x: jnp.full((3, 3), x),
    "average_weights": lambda x: jnp.average(np.ones((3, 3), F), weights=x), "sum_initial": lambda x: jnp.sum(x, initial=1.0),
    "sum_where": lambda x: jnp.sum(np.ones((3, 3), F), where=x > 0 if hasattr(x, "dtype") else x),
    "pad_array": lambda x: jnp.pad(x, 1), "pad_values": lambda x: jnp.pad(np.ones((2, 2), F), 1, constant_values=x),
    "gradient_two": lambda x: jnp.gradient(x, 2.0), "operator_add": lambda x: jnp.ones((3, 3)) + x,
    "operator_radd": lambda x: x @ jnp.ones((3, 3)), "operator_lt": lambda x: jnp.ones((3, 3)) < x,
    "at_set": lambda x: jnp.ones((3, 3)).at[:].set(x), "method_dot": lambda x: jnp.ones((3, 3)).dot(x),
    "index_update": lambda x: jnp.ones((3, 3)).at[0].add(x), "trapezoid_x": lambda x: jnp.trapezoid(np.ones((3, 3), F), x=x),
    "diff_append": lambda x: jnp.diff(np.ones((3, 3), F), append=x), "isin_two": lambda x: jnp.isin(np.ones(2, F), x),
    "unique_axis": lambda x: jnp.unique(x, axis=0), "random_choice": lambda x: jax.random.choice(jax.random.key(0), x),
    "random_permutation": lambda x: jax.random.permutation(jax.random.key(0), x),
    "random_bernoulli": lambda x: jax.random.bernoulli(jax.random.key(0), x),
    "one_hot": one_hot, "softmax_where": lambda x: jax.nn.softmax(x, where=np.eye(3) > 0),
    "logsumexp_b": lambda x: jax.nn.logsumexp(np.ones((3, 3), F), b=x), "top_k": lambda x: jax.lax.top_k(x, 2),
    "lax_reshape": lambda x: jax.lax.reshape(x, (9,)), "lax_transpose": lambda x: jax.lax.transpose(x, (1, 0)),
    "lax_slice": lambda x: jax.lax.slice(x, (0, 0), (1, 1)), "lax_reduce": lambda x: jax.lax.reduce_max(x, (0,)),
    "lax_cumsum": lambda x: jax.lax.cumsum(x, 0), "lax_broadcast": lambda x: jax.lax.broadcast(x, (2,)),
    "lax_dynamic_slice": lambda x: jax.lax.dynamic_slice(x, (0, 0), (1, 1)), "lax_rev": lambda x: jax.lax.rev(x, (0,)),
    "lax_concatenate": lambda x: jax.lax.concatenate([x, x], 0), "lax_pad": lambda x: jax.lax.pad(x, F(0), [(0, 0, 0)] * 2),
    "segment_sum": lambda x: jax.ops.segment_sum(x, np.array([0, 1, 0])), "device_put": jax.device_put,
    "squared_norm": lambda x: jnp.linalg.norm(x, axis=0), "image_resize": lambda x: jax.image.resize(x, (2, 2), "linear"),
}.items():  # fmt: skip
    scenario(f"call_{name}", call, [ARGUMENTS["M"]])
for name, kind in itertools.product(("index", "index_tuple", "index_at"), "IBN"):
    scenario(
        f"{name}_{kind}",
        {
            "index": lambda i: jnp.arange(3.0)[i],
            "index_tuple": lambda i: jnp.eye(3)[:, i],
            "index_at": lambda i: jnp.eye(3).at[i].set(2.0),
        }[name],
        [ARGUMENTS[kind]],
    )
