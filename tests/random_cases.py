"""Cases of `jax.random`: for the same key, every function gives the same bits as the reference build."""

import contextlib

import numpy as np
from op_cases import Case, dtype_of, values

import jax

CASES: list[Case] = []
KEY = np.array([0x1234567, 0x89ABCDEF], np.uint32)
KEY1 = np.array([0x89ABCDEF], np.uint32)
KEY4 = np.array([1, 2, 3, 4], np.uint32)
FLOATS = ("float16", "bfloat16", "float32", "float64")
SHAPES = ((), (0, 3), (2, 3, 2))


def add(
    name,
    fun,
    *args,
    key=KEY,
    impl=None,
    dtype=None,
    vmap=False,
    x64=False,
    tol=0.0,
    diff="",
    partitionable=True,
):
    """A case `fun(key, *args)`, batched too if asked; with `dtype` that is its last argument."""
    if dtype is not None:
        name, x64 = f"{name}_{dtype}", x64 or dtype in ("float64", "complex128", "uint64", "int64")

    def run(data, *args):
        with contextlib.ExitStack() as stack:
            if not partitionable:
                stack.enter_context(jax.threefry_partitionable(False))
            key = jax.random.wrap_key_data(data, impl=impl)
            call = lambda k, *xs: fun(k, *xs) if dtype is None else fun(k, *xs, dtype_of(dtype))
            out = call(key, *args)
            if not vmap:
                return out
            batch = [np.stack([a, np.roll(a, 1)]) for a in args]
            return out, jax.vmap(call)(jax.random.split(key), *batch)

    args = [key, *(np.asarray(a) for a in args)]
    CASES.append(
        Case(
            name, run, args, diff=diff, vmap=False, x64=x64, tol=tol, ignore=["jit"], optimized=True
        )
    )


R = jax.random
f32 = np.float32

# Bits, splitting

for dtype in ("uint8", "uint16", "uint32", "uint64"):
    for shape in ((0,), (2, 3)):
        for partitionable in (True, False):
            mode = "" if partitionable else "_original"
            add(
                f"bits{shape}{mode}",
                lambda k, dt, s=shape: R.bits(k, s, dt),
                dtype=dtype,
                partitionable=partitionable,
                vmap=dtype == "uint8" and shape == (2, 3),
            )
IMPLS = {
    "threefry2x32": KEY,
    "threefry4x32": KEY4,
    "philox2x32": KEY1,
    "philox4x32": KEY,
    "rbg": KEY4,
    "unsafe_rbg": KEY4,
}
for impl, key in IMPLS.items():
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        add(f"bits_{impl}", lambda k, dt: R.bits(k, (5, 3), dt), key=key, impl=impl, dtype=dtype)
    for shape in ((), (3,), (2, 3), (0,)):
        add(
            f"split{shape}_{impl}", lambda k, s=shape: R.key_data(R.split(k, s)), key=key, impl=impl
        )
    add(
        f"fold_in_{impl}", lambda k, i: R.key_data(R.fold_in(k, i)), np.int32(5), key=key, impl=impl
    )
    add(f"fold_in_const_{impl}", lambda k: R.key_data(R.fold_in(k, 7)), key=key, impl=impl)
    if impl in ("philox2x32", "rbg"):
        add(f"randint_{impl}", lambda k: R.randint(k, (3, 2), -5, 5), key=key, impl=impl)
    add(f"error_poisson_{impl}", lambda k: R.poisson(k, 1.5, (0,)), key=key, impl=impl)
    add(f"vmap_{impl}", lambda k: R.key_data(R.fold_in(k, 3)), key=key, impl=impl, vmap=True)
    add(f"bits_original_{impl}", lambda k: R.bits(k, (3,)), key=key, impl=impl, partitionable=False)
    for seed in (0, -1, 2**31 - 1):
        add(f"key{seed}_{impl}", lambda _, s=seed, i=impl: R.key_data(R.key(s, impl=i)))
    for seed in (2**40 + 5, -(2**63)):
        for x64 in (False, True):
            fun = lambda _, s=seed, i=impl: R.key_data(R.key(s, impl=i))
            add(f"key{seed}_{impl}_x64{x64}", fun, x64=x64)
    for dtype in ("int8", "uint32", "int64"):
        add(
            f"key_array_{impl}_{dtype}",
            lambda _, s, i=impl: R.key_data(R.key(s, impl=i)),
            np.array(101, dtype),
            x64="64" in dtype,
        )
for shape in ((3,), (2, 3)):
    add(f"split{shape}_original", lambda k, s=shape: R.key_data(R.split(k, s)), partitionable=False)
add("fold_in_original", lambda k: R.key_data(R.fold_in(k, 9)), partitionable=False)
add("many_keys", lambda k: jax.vmap(lambda q: R.normal(q, (2,)))(R.split(k, (5,))), vmap=True)
add(
    "scan_of_keys",
    lambda k: jax.lax.scan(lambda c, q: (R.fold_in(c, 1), R.bits(q)), k, R.split(k, 4))[1],
    vmap=True,
)

# Floats

SIMPLE = "uniform normal exponential gumbel laplace logistic cauchy maxwell".split()
for name in SIMPLE:
    fun = getattr(R, name)
    for dtype in FLOATS:
        add(name, lambda k, dt, f=fun: f(k, (37,), dt), dtype=dtype)
for name, fun in (("uniform", R.uniform), ("normal", R.normal)):
    for shape in SHAPES:
        add(f"{name}{shape}", lambda k, f=fun, s=shape: f(k, s), vmap=shape == ())
    add(f"{name}_original", lambda k, f=fun: f(k, (5,)), partitionable=False)
    add(f"{name}_many", lambda k, f=fun: f(k, (10007,)))
for dtype in ("float8_e4m3fn", "float8_e5m2"):
    add("uniform", lambda k, dt: R.uniform(k, (17,), dt), dtype=dtype)
    add("normal", lambda k, dt: R.normal(k, (17,), dt), dtype=dtype)
for dtype in ("complex64", "complex128"):
    add("normal", lambda k, dt: R.normal(k, (17,), dt), dtype=dtype)
for dtype in FLOATS:
    add("gumbel_high", lambda k, dt: R.gumbel(k, (17,), dt, mode="high"), dtype=dtype)
    add(
        "uniform_bounds",
        lambda k, a, b, dt: R.uniform(k, (4, 3), dt, a, b),
        values((3,), dtype, "a"),
        f32(3),
        dtype=dtype,
    )
    add("truncated_normal", lambda k, dt: R.truncated_normal(k, -2.0, 1.5, (17,), dt), dtype=dtype)
    add("rademacher", lambda k, dt: R.rademacher(k, (7,), dt), dtype=dtype)
add("uniform_int_bounds", lambda k: R.uniform(k, (4,), minval=-3, maxval=7), vmap=True)
add("uniform_empty_range", lambda k: R.uniform(k, (4,), minval=3.0, maxval=-7.0))
add(
    "truncated_normal_far",
    lambda k, a: R.truncated_normal(k, a, 40.0),
    np.array([-50, 0, 3, 8, 40], f32),
)
add(
    "truncated_normal_array",
    lambda k, a, b: R.truncated_normal(k, a, b, (2, 3)),
    np.array([-1, 0, 1], f32),
    np.array([[1], [2]], f32),
    vmap=True,
)
for dtype in ("int8", "int32", "uint16", "bool", "complex64"):
    add("rademacher", lambda k, dt: R.rademacher(k, (7,), dt), dtype=dtype)
P = np.array([0.5, 1.0, 2.5], f32)
Q = np.array([[0.3], [1.7]], f32)
add("double_sided_maxwell", lambda k, a, b: R.double_sided_maxwell(k, a, b), P, Q, vmap=True)
add("double_sided_maxwell_scalar", lambda k: R.double_sided_maxwell(k, 1.0, 2.0, (4,)))
add("weibull_min", lambda k, a, b: R.weibull_min(k, a, b, (2, 3)), P, Q, vmap=True)
add("weibull_min_scalar", lambda k: R.weibull_min(k, 2.0, 1.5, (5,)))
add("lognormal", lambda k, s: R.lognormal(k, s, (2, 3)), P, vmap=True)
add("lognormal_default", lambda k: R.lognormal(k, shape=(5,)))
for name in (
    "pareto",
    "rayleigh",
    "wald",
    "chisquare",
    "t",
    "gamma",
    "loggamma",
    "generalized_normal",
):
    fun = getattr(R, name)
    add(name, lambda k, p, f=fun: f(k, p, (2, 3)), P, vmap=name != "loggamma")
    if name in ("pareto", "wald", "gamma", "loggamma"):
        half = "float16" if name in ("pareto", "loggamma") else "bfloat16"
        add(f"{name}_scalar", lambda k, dt, f=fun: f(k, 2.0, (5,), dt), dtype=half)
    for dtype in ("float16", "bfloat16"):
        if name not in ("gamma", "loggamma", "generalized_normal"):
            add(f"error_{name}", lambda k, p, dt, f=fun: f(k, p, (2, 3), dt), P, dtype=dtype)
    if name in ("wald", "gamma"):
        add(name, lambda k, p, dt, f=fun: f(k, p, (2, 3), dt), P, dtype="float64")
        add(f"{name}_default", lambda k, p, f=fun: f(k, p), Q)
add("lognormal", lambda k, dt: R.lognormal(k, 0.5, (3,), dt), dtype="complex64")
for name in ("beta", "f", "lognormal", "triangular"):
    params = [P] if name == "lognormal" else [P, P + 1, P + 2] if name == "triangular" else [P, P]
    fun = getattr(R, name)
    add(f"error_{name}", lambda k, *p, f=fun: f(k, *p[:-1], dtype=p[-1]), *params, dtype="float16")
add(
    "gamma_edges",
    lambda k, a: R.gamma(k, a),
    np.array([0, -1, np.nan, np.inf, 1e-30, 1e10, 1], f32),
)
add("loggamma_edges", lambda k, a: R.loggamma(k, a), np.array([0, 1e-30, 1e10, 1], f32))
add("gamma_x64", lambda k, a: R.gamma(k, a), np.array([0.1, 2.0]), x64=True)
for dtype in ("float32", "float64"):
    a = np.array([0.02, 0.5, 1, 3, 90], dtype)
    name, fun = ("gamma", R.gamma) if dtype == "float32" else ("loggamma", R.loggamma)
    add(
        f"{name}_grad",
        lambda k, a, f=fun: f(k, a),
        a,
        diff="both",
        tol=None,
        x64=dtype == "float64",
    )
for name in ("pareto", "wald"):
    fun = getattr(R, name)
    add(f"{name}_grad", lambda k, p, f=fun: f(k, p), P, diff="forward", tol=None)
add("normal_scaled_grad", lambda k, s: R.normal(k, (3,)) * s, P, diff="both", tol=None)
add(
    "truncated_normal_grad",
    lambda k, a, b: R.truncated_normal(k, a, b),
    P,
    P + 1,
    diff="both",
    tol=None,
)
add("uniform_grad", lambda k, a, b: R.uniform(k, (3,), f32, a, b), P, P + 1, diff="both", tol=None)
add("triangular", lambda k, a, b: R.triangular(k, a, b, 4.0, (2, 3)), P, Q + 1, vmap=True)
add("triangular_scalar", lambda k: R.triangular(k, 1.0, 2.0, 4.0))
add("beta", lambda k, a, b: R.beta(k, a, b), P / 50, Q)
add("f", lambda k, a, b: R.f(k, a, b), P, Q[0])
add("dirichlet_small", lambda k: R.dirichlet(k, np.full(4, 1e-4, f32)))
add(
    "dirichlet_batch",
    lambda k, a, dt: R.dirichlet(k, a, None, dt),
    np.stack([P, 2 * P]),
    dtype="bfloat16",
)
add("dirichlet_grad", lambda k, a: R.dirichlet(k, a), P, diff="both", tol=1e-4)
add("ball", lambda k, dt: R.ball(k, 3, 0.5, (4,), dt), dtype="bfloat16")

# Integers

for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
    info = np.iinfo(dtype)
    top = min(info.max, 2**31 - 1) if dtype not in ("int64", "uint64") else min(info.max, 2**62)
    add("randint", lambda k, dt: R.randint(k, (9,), 3, 11, dt), dtype=dtype)
    add(
        "randint_all",
        lambda k, dt, i=info, t=top: R.randint(k, (9,), max(i.min, -(2**31)), t, dt),
        dtype=dtype,
    )
    if dtype in ("int8", "uint32", "int64"):
        add(
            "randint_array_bounds",
            lambda k, a, b, dt: R.randint(k, (2, 3), a, b, dt),
            np.array([0, 5, 100], dtype),
            np.array([[50], [127]], dtype),
            dtype=dtype,
        )
    if info.bits < 32:
        add(
            "randint_top",
            lambda k, dt, i=info: R.randint(k, (9,), i.max - 2, i.max + 1, dt),
            dtype=dtype,
        )
        add(
            "randint_whole",
            lambda k, dt, i=info: R.randint(k, (9,), i.min, i.max + 1, dt),
            dtype=dtype,
        )
        add("randint_wide", lambda k, dt: R.randint(k, (9,), -(2**20), 2**20, dt), dtype=dtype)
add("randint_wrap", lambda k, b: R.randint(k, (9,), -5, b, np.int32), np.int64(2**40), x64=True)
add("randint_u32_from_i32", lambda k: R.randint(k, (9,), -5, 7, np.uint32))
add("randint_empty", lambda k: R.randint(k, (9,), 5, 2), vmap=True)
add("randint_float_bounds", lambda k: R.randint(k, (9,), 0.5, 7.9))
add("randint_scalar", lambda k: R.randint(k, (), 0, 1000000))
add("randint_x64", lambda k: R.randint(k, (5,), 0, 2**45), x64=True)
for x64 in (False, True):
    add(f"permutation_range_x64{x64}", lambda k: R.permutation(k, 37), x64=x64)
add("permutation_0", lambda k: R.permutation(k, 0))
add("permutation_many", lambda k: R.permutation(k, 5000))
X = np.arange(24, dtype=f32).reshape(4, 3, 2)
for axis in (0, -1):
    for independent in (False, True):
        fun = lambda k, x, a=axis, i=independent: R.permutation(k, x, a, i)
        add(f"permutation_axis{axis}{independent}", fun, X)
add("permutation_1d", lambda k, x: R.permutation(k, x), X[:, 0, 0], vmap=True)
add("permutation_last", lambda k: R.permutation(k, 5, axis=-1))
add("permutation_keys", lambda k: R.key_data(R.permutation(k, R.split(k, (3, 2)))))
for replace in (True, False):
    tag = "" if replace else "_distinct"
    add(f"choice{tag}", lambda k, r=replace: R.choice(k, 10, (2, 3), r))
    add(f"choice_scalar{tag}", lambda k, r=replace: R.choice(k, 10, (), r))
    add(f"choice_array{tag}", lambda k, x, r=replace: R.choice(k, x, (2,), r, axis=1), X)
    add(f"choice_neg_axis{tag}", lambda k, x, r=replace: R.choice(k, x, (2, 1), r, axis=-1), X)
    add(f"choice_p{tag}", lambda k, p, r=replace: R.choice(k, 3, (2,), r, p), P / 4)
    add(f"choice_p_x64{tag}", lambda k, p, r=replace: R.choice(k, 3, (2,), r, p), P / 4.0, x64=True)
    add(f"choice_array_p{tag}", lambda k, x, p, r=replace: R.choice(k, x, (3,), r, p, axis=1), X, P)
add("choice_p_int", lambda k: R.choice(k, 3, (5,), p=np.array([1, 2, 3])))
add("choice_p_high", lambda k: R.choice(k, 3, (2,), False, P, mode="high"), vmap=True)
add("choice_keys", lambda k: R.key_data(R.choice(k, R.split(k, 3), (2,))))
for mode in ("low", "high"):
    for p in (0.5, 0.0, 1.0):
        add(
            f"bernoulli{p}_{mode}",
            lambda k, p=p, m=mode: R.bernoulli(k, p, (50,), m),
            vmap=p == 0.5,
        )
    for dtype in FLOATS:
        add(
            f"bernoulli_{mode}_{dtype}",
            lambda k, p, m=mode: R.bernoulli(k, p, (2, 3), m),
            np.array([0.1, 0.5, 0.9], dtype_of(dtype)),
            x64=dtype == "float64",
            vmap=dtype == "float32" and mode == "low",
        )
add("bernoulli_default", lambda k: R.bernoulli(k), vmap=True)
L = values((4, 3), "float32", "logits")
for mode in ("low", "high"):
    for axis in (0, 1, -1):
        add(
            f"categorical{axis}_{mode}",
            lambda k, x, a=axis, m=mode: R.categorical(k, x, a, mode=m),
            L,
        )
    shape, distinct = (2, 4), lambda k, x, m=mode: R.categorical(k, x, -1, (2, 4), False, m)
    add(
        f"categorical_shape_{mode}", lambda k, x, m=mode: R.categorical(k, x, -1, (5, 4), mode=m), L
    )
    add(f"categorical_distinct_{mode}", distinct, L)
add("categorical_distinct_0", lambda k, x: R.categorical(k, x, 0, (2, 2, 3), False), L)
add("categorical_broadcast", lambda k, x: R.categorical(k, x, -1, (2, 4)), L[:1], vmap=True)
add("categorical_x64", lambda k, x: R.categorical(k, x), L.astype(np.float64), x64=True)
add("categorical_bf16", lambda k, x: R.categorical(k, x), L.astype(dtype_of("bfloat16")))
add("geometric", lambda k, p: R.geometric(k, p, (2, 3)), np.array([0.1, 0.5, 1.0], f32))
add("geometric_scalar", lambda k: R.geometric(k, 0.3, (50,)))
add("geometric_edges", lambda k: R.geometric(k, np.array([0.0, 1.0, np.nan, 1e-9], f32)))
for dtype in ("uint8", "int64"):
    add("geometric", lambda k, dt: R.geometric(k, 0.2, (5,), dt), dtype=dtype)
add(
    "poisson_rates",
    lambda k, r: R.poisson(k, r),
    np.array([0, 0.1, 2, 9.9, 10, 11, 50, 1e6, -1, np.nan, np.inf, 1e30], f32),
)
add(
    "poisson_batch",
    lambda k, r, dt: R.poisson(k, r, (2,), dt),
    np.array([3, 30], f32),
    dtype="uint8",
    vmap=True,
)
N = np.array([0, 1, 5, 7.5, 20, 100, 1e6, np.nan, -1, np.inf, 1, 9, 90, 99], f32)
Q = np.array([0.3] * 10 + [np.nan, -1, 2, 0.6], f32)
add("binomial", lambda k, n, p: R.binomial(k, n, p), N, Q)
add(
    "binomial_batch",
    lambda k, p: R.binomial(k, 100, p),
    np.array([0, 1e-3, 0.5, 1], f32),
    vmap=True,
)
for dtype in ("bfloat16", "float64"):
    p = np.array([0.4, 0.1], dtype_of(dtype))
    add(f"binomial_of_{dtype}", lambda k, p: R.binomial(k, 60, p), p, x64=dtype == "float64")
add("binomial", lambda k, dt: R.binomial(k, 60, 0.4, (6,), dt), dtype="bfloat16")
V = np.array([0.2, 0.5, 0.3], f32)
for dtype in ("int32",):
    add("multinomial", lambda k, p, dt: R.multinomial(k, 60, p, dtype=dt), V, dtype=dtype)
W = np.array([[0.1, 0.4, 0.5], [0.0, 0.0, 1.0]], f32)
add(
    "multinomial_batch",
    lambda k, n, p: R.multinomial(k, n, p, shape=(1, 2, 3)),
    np.array([4, 60], f32),
    W,
    vmap=True,
)

# With linear algebra

C = np.array([[2, 0.5], [0.5, 1]], f32)
for method in ("cholesky", "eigh", "svd"):
    add(
        f"multivariate_normal_{method}",
        lambda k, m, c, method=method: R.multivariate_normal(k, m, c, (3,), method=method),
        P[:2],
        C,
        tol=1e-6,
    )
add(
    "multivariate_normal",
    lambda k, m, c: R.multivariate_normal(k, m, c),
    np.ones((3, 2), f32),
    C[None],
    vmap=True,
    tol=1e-6,
)
add(
    "multivariate_normal_small",
    lambda k, dt: R.multivariate_normal(k, P[:2], C, (2,), dt),
    dtype="bfloat16",
    tol=1e-6,
)
add(
    "multivariate_normal_grad",
    lambda k, m, c: R.multivariate_normal(k, m, c),
    P[:2],
    C,
    diff="both",
    tol=None,
)
for dtype in ("float32", "complex64", "float64"):
    add("orthogonal", lambda k, dt: R.orthogonal(k, 3, (2,), dt), dtype=dtype, tol=1e-6)
add("orthogonal_tall", lambda k: R.orthogonal(k, 4, (), m=2), tol=1e-6)
add("orthogonal_wide", lambda k: R.orthogonal(k, 2, (2,), m=4), vmap=True, tol=1e-6)
add("orthogonal_empty", lambda k: R.orthogonal(k, 0))
add("error_orthogonal", lambda k: R.orthogonal(k, -1))
add("error_multivariate_normal", lambda k, m, c: R.multivariate_normal(k, m, c), P, C)
add("error_multivariate_normal_shape", lambda k, c: R.multivariate_normal(k, C, c, (3,)), C)
add("error_method", lambda k, c: R.multivariate_normal(k, P[:2], c, method="lu"), C)
