"""Cases of `jax.nn` and its initializers."""

import numpy as np
from op_cases import Case, dtype_of, values

import jax

CASES: list[Case] = []
nn = jax.nn
f32 = np.float32
KINKS = np.array(
    [-np.inf, -1e30, -100, -7, -3, -1, -0.5, -1e-30, -0.0, 0, 1e-30, 0.5, np.log(2), 1, 3, 6, 7, 100, 1e30,
     np.inf, np.nan]
)  # fmt: skip


def add(name, fun, *args, dtypes=("float32",), **kwargs):
    """A case for each dtype, to which the floating point arguments are cast."""
    for dtype in dtypes:
        cast = [np.asarray(a) for a in args]
        with np.errstate(over="ignore"):  # of half precision, what is too large is infinite
            cast = [a.astype(dtype_of(dtype)) if a.dtype == np.float64 else a for a in cast]
        modes = {} if dtype == "float32" else {"diff": "", "vmap": False, "ignore": ("jit",)}
        CASES.append(
            Case(f"{name}_{dtype}", fun, cast, x64=dtype == "float64", **{**modes, **kwargs})
        )


ACTIVATIONS = """relu relu6 sigmoid silu softplus sparse_plus sparse_sigmoid soft_sign log_sigmoid elu
    leaky_relu hard_tanh hard_sigmoid hard_silu celu selu gelu squareplus mish log1mexp tanh identity""".split()
FLOATS = ("float32", "float16", "bfloat16", "float64")
# The reference's squareplus overflows, and its digits are lost where it is close to zero.
MODERATE = KINKS[abs(KINKS) < 10]
for name in ACTIVATIONS:
    points = MODERATE if name == "squareplus" else KINKS
    add(name, getattr(nn, name), points, dtypes=FLOATS, vmap=False)
    add(f"{name}_int", getattr(nn, name), np.arange(-3, 8), dtypes=("int32",), vmap=False)
    activation = getattr(nn, name)
    add(
        f"{name}_scalar",
        lambda x, f=activation: f(0.75) + x,
        np.zeros(2),
        vmap=False,
        diff="",
    )
X = values((3, 4, 6), "float64", "x")
W = values((3, 4, 6), "bool", "w")
add("gelu_exact", lambda x: nn.gelu(x, approximate=False), KINKS, dtypes=FLOATS, vmap=False)
add("elu_alpha", lambda x, a: nn.elu(x, a), X, np.full((6,), 2.0))
add("celu_alpha", lambda x: nn.celu(x, 0.3), X)
add("leaky_relu_slope", lambda x: nn.leaky_relu(x, 0.3), X)
add("squareplus_b", lambda x: nn.squareplus(x, 0.5), X)
for axis in (0, 1, -1):
    add(f"glu{axis}", lambda x, a=axis: nn.glu(x, a), values((2, 4, 6), "float64", "g"))
for name in ("softmax", "log_softmax", "standardize"):
    fun = getattr(nn, name)
    add(name, fun, X, dtypes=FLOATS)
    add(f"{name}_special", fun, values((8, 5), "float64", name, special=True), diff="", vmap=False)
    add(f"{name}_int", fun, np.arange(12).reshape(3, 4), dtypes=("int32",), vmap=False, diff="")
    for axis in (0, (0, 2), None, -2):
        add(f"{name}_axis{axis}", lambda x, f=fun, a=axis: f(x, a), X, vmap=axis == (0, 2), diff="")
    # At least two of a row, since the variance of one is only rounding
    add(f"{name}_where", lambda x, w, f=fun: f(x, where=w), X, W | (np.arange(6) < 2))
    add(
        f"{name}_where_none", lambda x, f=fun: f(x, where=np.zeros(6, bool)), X, vmap=False, diff=""
    )
    add(f"{name}_huge", fun, np.array([[1e4, 1e4 - 1, -1e4], [1e30, -1e30, 0]]), vmap=False)
add("standardize_stable", lambda x: nn.standardize(x, algorithm="stable"), X)
add(
    "standardize_known",
    lambda x, m, v: nn.standardize(x, mean=m, variance=v),
    X,
    X[0, 0],
    X[1, 1] ** 2,
)
add("standardize_epsilon", lambda x, e: nn.standardize(x, axis=0, epsilon=e), X, np.array(0.3))
for name in ("logsumexp", "logmeanexp"):
    fun = getattr(nn, name)
    add(name, fun, X, dtypes=FLOATS)
    add(
        f"{name}_special",
        lambda x, f=fun: f(x, 1),
        values((8, 5), "float64", name, special=True),
        vmap=False,
    )
    add(f"{name}_int", fun, np.arange(12).reshape(3, 4), dtypes=("int32",), vmap=False, diff="")
    for axis in (0, (0, 2), -2):
        add(
            f"{name}_axis{axis}",
            lambda x, f=fun, a=axis: f(x, a, keepdims=True),
            X,
            vmap=False,
            diff="",
        )
    add(f"{name}_where", lambda x, w, f=fun: f(x, axis=1, where=w), X, W)
    add(
        f"{name}_inf",
        lambda x, f=fun: f(x, 1),
        np.array([[np.inf, 0], [-np.inf, -np.inf]]),
        vmap=False,
    )
    add(f"{name}_empty", lambda x, f=fun: f(x, 1), np.zeros((2, 0)), vmap=False, diff="")
    complexes = (X + 1j * X[::-1]).astype(np.complex64)
    add(
        f"{name}_complex",
        lambda x, f=fun: f(x, 1),
        complexes,
        dtypes=("complex64",),
        vmap=False,
        diff="",
    )
add("logsumexp_b", lambda x, b: nn.logsumexp(x, 0, b), X, np.abs(X))
add("logsumexp_b_negative", lambda x, b: nn.logsumexp(x, 0, b), X, X, diff="")
add("logsumexp_b_sign", lambda x, b: nn.logsumexp(x, 0, b, return_sign=True), X, X)
add("logsumexp_b_zero", lambda x, b: nn.logsumexp(x, b=b, return_sign=True), X, X * 0, diff="")
add("logsumexp_b_int", lambda x, b: nn.logsumexp(x, 1, b), X, np.arange(6))
add("logsumexp_sign", lambda x: nn.logsumexp(x, 1, return_sign=True, keepdims=True), X)
add(
    "logsumexp_complex_sign",
    lambda x: nn.logsumexp(x, 1, return_sign=True),
    complexes,
    dtypes=("complex64",),
    diff="",
    vmap=False,
)
for axis in (0, 1, 2, -1):
    add(
        f"one_hot{axis}", lambda x, a=axis: nn.one_hot(x, 5, axis=a), np.arange(-1, 7).reshape(2, 4)
    )
for dtype in ("bool", "int32", "bfloat16"):
    add(
        f"one_hot_{dtype}",
        lambda x, d=dtype: nn.one_hot(x, 3, dtype=dtype_of(d)),
        np.arange(4),
        vmap=False,
    )
add(
    "one_hot_float",
    lambda x: nn.one_hot(x, 3),
    np.array([0.0, 0.5, 2]),
    diff="",
    vmap=False,
    warns="should be integer",
)
add("one_hot_empty", lambda x: nn.one_hot(x, 0), np.arange(4), vmap=False)
add(
    "one_hot_named",
    lambda x: jax.vmap(lambda _: nn.one_hot(x, 3, axis="i"), axis_name="i")(np.zeros(3)),
    np.arange(4),
    vmap=False,
)

# Attention

QUERY = values((2, 5, 4, 8), "float64", "q")
KEY, VALUE = values((2, 6, 2, 8), "float64", "k"), values((2, 6, 2, 8), "float64", "v")
BIAS, MASK = values((2, 1, 5, 6), "float64", "b"), values((1, 4, 1, 6), "bool", "m")
LENGTHS = np.array([3, 4], np.int32)
attention = nn.dot_product_attention
DIFF = {"tol": 1e-4, "vmap": False}
PLAIN = {**DIFF, "diff": ""}
add(
    "attention",
    attention,
    QUERY,
    KEY,
    VALUE,
    dtypes=("float32", "float16", "bfloat16", "float64"),
    **DIFF,
)
add("attention_same_heads", attention, KEY, KEY, VALUE, **PLAIN)
add("attention_one_head", attention, QUERY, KEY[:, :, :1], VALUE[:, :, :1], **PLAIN)
add("attention_no_batch", attention, QUERY[0], KEY[0], VALUE[0], **PLAIN)
add(
    "attention_vmap",
    lambda q, k, v: attention(q, k, v, is_causal=True),
    QUERY,
    KEY,
    VALUE,
    tol=1e-4,
    diff="",
)
add("attention_bias", attention, QUERY, KEY, VALUE, BIAS, **DIFF)
add("attention_bias_2d", attention, QUERY, KEY, VALUE, BIAS[0, 0], **PLAIN)
add(
    "attention_mask", lambda q, k, v, m: attention(q, k, v, mask=m), QUERY, KEY, VALUE, MASK, **DIFF
)
add(
    "attention_masked_rows",
    lambda q, k, v: attention(q, k, v, mask=np.zeros((5, 6), bool)),
    QUERY, KEY, VALUE, **PLAIN,
)  # fmt: skip
add(
    "attention_causal",
    lambda q, k, v: attention(q, k, v, is_causal=True),
    QUERY,
    KEY,
    VALUE,
    **PLAIN,
)
add("attention_scale", lambda q, k, v: attention(q, k, v, scale=0.3), QUERY, KEY, VALUE, **PLAIN)
for window in (1, (2, 1), (0, 0)):
    add(
        f"attention_window{window}",
        lambda q, k, v, w=window: attention(q, k, v, local_window_size=w),
        QUERY, KEY, VALUE, **PLAIN,
    )  # fmt: skip
add(
    "attention_lengths",
    lambda q, k, v: attention(q, k, v, query_seq_lengths=LENGTHS, key_value_seq_lengths=LENGTHS + 1),
    QUERY, KEY, VALUE, **DIFF,
)  # fmt: skip
add(
    "attention_all",
    lambda q, k, v, b, m: attention(
        q, k, v, b, m, scale=0.3, is_causal=True, query_seq_lengths=LENGTHS, local_window_size=(3, 2),
        return_residual=True, implementation="xla",
    ),
    QUERY, KEY, VALUE, BIAS, MASK, **DIFF,
)  # fmt: skip

# Initializers: the same bits

initializers = nn.initializers
RAW = np.array([3, 7], np.uint32)


def add_init(name, init, shape, dtypes=("float32",), tol=0.0):
    for dtype in dtypes:

        def run(data, init=init, dtype=dtype):
            return init(jax.random.wrap_key_data(data), shape, dtype_of(dtype))

        x64 = dtype in ("float64", "complex128")
        CASES.append(
            Case(f"{name}_{dtype}", run, [RAW], vmap=False, x64=x64, tol=tol, ignore=("jit",))
        )


NUMBERS = ("float32", "float16", "bfloat16", "float64", "complex64")
add_init("init_zeros", initializers.zeros, (2, 3), ("float32", "int32"))
add_init("init_ones", initializers.ones, (2, 3), ("float32", "int32"))
add_init("init_constant", initializers.constant(2.5), (2, 3), ("float32", "int32", "complex64"))
add_init("init_constant_array", initializers.constant(np.arange(3.0)), (2, 3))
add_init("init_uniform", initializers.uniform(0.3), (40, 3), NUMBERS[:4])
add_init("init_normal", initializers.normal(0.3), (40, 3), NUMBERS)
add_init(
    "init_truncated_normal", initializers.truncated_normal(0.3, lower=-1), (40, 3), NUMBERS[:4]
)
for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
    for distribution in ("truncated_normal", "normal", "uniform"):
        init = initializers.variance_scaling(2.0, mode, distribution)
        add_init(
            f"init_{mode}_{distribution}",
            init,
            (3, 4, 5),
            NUMBERS if mode == "fan_in" else NUMBERS[:1],
        )
init = initializers.variance_scaling(
    0.7, "fan_avg", "normal", in_axis=(0, 1), out_axis=(2,), batch_axis=3
)
add_init("init_axes", init, (2, 3, 4, 5))
init = initializers.variance_scaling(0.7, "fan_out", "uniform", in_axis=0, out_axis=0)
add_init("init_same_axes", init, (2, 3, 4))
for (
    name
) in """glorot_normal glorot_uniform he_normal he_uniform lecun_normal lecun_uniform kaiming_normal
    kaiming_uniform xavier_normal xavier_uniform""".split():
    add_init(f"init_{name}", getattr(initializers, name)(), (6, 5))
    add_init(
        f"init_{name}_bf16_default", getattr(initializers, name)(dtype=dtype_of("bfloat16")), (6, 5)
    )

# Errors

BAD = {
    "attention_rank": lambda x: attention(x, KEY, VALUE),
    "attention_heads": lambda x: attention(QUERY[:, :, :3], KEY, VALUE),
    "attention_value": lambda x: attention(QUERY, KEY, VALUE[:, :3]),
    "attention_mask": lambda x: attention(QUERY, KEY, VALUE, mask=np.ones((5, 6), f32)),
    "attention_lengths": lambda x: attention(QUERY, KEY, VALUE, query_seq_lengths=np.ones(2, f32)),
    "attention_implementation": lambda x: attention(QUERY, KEY, VALUE, implementation="foo"),
    "attention_cudnn": lambda x: attention(*[jax.numpy.ones((1, 4, 2, 8), "bfloat16")] * 3, implementation="cudnn"),
    "softmax_list": lambda x: nn.softmax([1.0, 2.0]),
    "softmax_axis": lambda x: nn.softmax(x, axis=7),
    "relu_list": lambda x: nn.relu([1.0]),
    "one_hot_axis": lambda x: nn.one_hot(np.arange(3), 4, axis=5),
    "one_hot_size": lambda x: nn.one_hot(np.arange(3), 4.5),
    "standardize_algorithm": lambda x: nn.standardize(x, algorithm="foo"),
    "logsumexp_list": lambda x: nn.logsumexp([1.0]),
    "config": lambda x: nn.get_scaled_dot_general_config("foo"),
    "init_mode": lambda x: initializers.variance_scaling(1.0, "foo", "normal")(jax.random.key(0), (2, 3)),
    "init_distribution": lambda x: initializers.variance_scaling(1.0, "fan_in", "foo")(jax.random.key(0), (2, 3)),
    "init_1d": lambda x: initializers.glorot_normal()(jax.random.key(0), (3,)),
    "init_int": lambda x: initializers.glorot_normal()(jax.random.key(0), (3, 2), np.int32),
    "orthogonal_1d": lambda x: initializers.orthogonal()(jax.random.key(0), (3,)),
    "delta_orthogonal_2d": lambda x: initializers.delta_orthogonal()(jax.random.key(0), (3, 2)),
    "delta_orthogonal_fans": lambda x: initializers.delta_orthogonal()(jax.random.key(0), (3, 5, 4)),
}  # fmt: skip
for name, fun in BAD.items():
    CASES.append(
        Case(f"error_{name}", fun, [np.zeros(3, f32)], vmap=False, diff="", ignore=("jit",))
    )
