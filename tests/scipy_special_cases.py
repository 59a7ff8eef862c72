"""Cases of `jax.scipy.special`.

Where the reference is wrong or does not end, points are left out here and compared with known values in
scipy_special_test.py.
"""

import numpy as np
import scipy.special
from op_cases import Case, dtype_of

import jax
import jax.scipy.special as special
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass

REFERENCE = vars(scipy.special)
INF, NAN = np.inf, np.nan
EDGES = [0.0, -0.0, 1.0, INF, -INF, NAN]


class Functions(list[Case]):
    """Cases of a function at the same points in several dtypes, and what SciPy computes there."""

    def add(self, name, *points, diff="both", dtypes=("float32",), scipy=True, **kw):
        fun, numpy = getattr(special, name), REFERENCE[name] if scipy else None
        for dtype in dtypes:
            args = [np.asarray(p, dtype_of(dtype)) for p in points]
            full = dtype == "float32"
            modes = {"vmap": full, "diff": diff if full else "", "ignore": ("eager",)}
            double = dtype in ("float64", "complex128")
            tol = {8: 1e-9, 4: 1e-4, 2: 2e-2}[
                max(2, args[0].dtype.itemsize // (1 + (args[0].dtype.kind == "c")))
            ]
            reference = numpy if dtype in ("float64", "complex128") else None
            self.append(
                Case(
                    f"{name}_{dtype}",
                    fun,
                    args,
                    reference,
                    x64=double,
                    **{"tol": tol, **modes, **kw},
                )
            )

    def values(self, name, *points, label="edges", scipy=False, **kw):
        """Values alone, such as those at poles and infinities."""
        fun = getattr(special, name)
        args = [np.asarray(p, np.float64) for p in points]
        numpy = REFERENCE[name] if scipy else None
        kw = {"x64": True, "diff": "", "vmap": False, "tol": 1e-9, "ignore": ("eager",), **kw}
        self.append(Case(f"{name}_{label}", fun, args, numpy, **kw))

    def error(self, name, label, *args, **options):
        fun = lambda: getattr(special, name)(*args, **options)
        self.append(Case(f"error_{name}_{label}", fun, diff="", vmap=False, ignore=("jit",)))

    def sharded(self, family, axis_types=(AxisType.Auto, AxisType.Explicit), **funs):
        """Values, gradients and shardings of functions of one array, in [0.2, 0.9], on eight devices."""
        points = np.linspace(0.2, 0.9, 16, dtype=np.float32)

        def program(axis_type):
            mesh = jax.make_mesh((8,), ("x",), axis_types=(axis_type,))
            x = jax.device_put(points, NamedSharding(mesh, P("x")))

            @jax.jit
            def run(x):
                outs = {name: jax.vjp(fun, x) for name, fun in funs.items()}
                return {name: (out, pull(out)[0]) for name, (out, pull) in outs.items()}

            out = run(x)
            types = [str(jax.typeof(y)) for y in jax.tree.leaves(out)]
            return out, types, [str(y.sharding.spec) for y in jax.tree.leaves(out)]

        for axis_type in axis_types:
            self.append(
                Case(
                    f"sharded_{family}_{axis_type.name}",
                    lambda axis_type=axis_type: program(axis_type),
                    program=True,
                    tol=1e-4,
                )
            )


CASES = Functions()
add, values, error, sharded = CASES.add, CASES.values, CASES.error, CASES.sharded
ALL = ("float32", "float16", "bfloat16")

# Gamma functions
for name in ("gamma", "gammaln", "digamma"):
    add(name, [0.7, 1.3, 4.2, -1.6], dtypes=ALL)
add("gammasgn", [0.7, 1.3, -0.5, -1.6])
add("loggamma", [0.7, 1.3, 4.2, 9.5])
add("factorial", [0.7, 1.3, 4.2, 6.0])
add("poch", [0.7, 1.3, 4.2, 2.0], [0.3, 2.5, 1.2, 3.0], vmap=False)
add("comb", [5.5, 8.3, 4.2, 9.0], [1.5, 2.5, 1.2, 3.0], vmap=False)
add("beta", [0.7, 1.3, 4.2, 2.0], [0.3, 2.5, 1.2, 3.0], vmap=False)
add("beta", [0.7, 1.3, 4.2, 2.0], [0.3, 2.5, 1.2, 3.0], dtypes=ALL[1:])
add("betaln", [0.7, 1.3, 4.2, 12.0], [0.3, 2.5, 1.2, 30.0], dtypes=ALL)
add("gammainc", [0.7, 1.3, 4.2, 2.0], [0.3, 2.5, 1.2, 9.0], dtypes=ALL)
add("gammaincc", [0.7, 1.3, 4.2, 2.0], [0.3, 2.5, 1.2, 9.0], vmap=False)
CASES.append(
    Case(
        "betainc_float32",
        lambda x: special.betainc(np.float32(0.7), np.float32(2.3), x),
        [np.array([0.1, 0.3, 0.6, 0.9], np.float32)],
        tol=1e-4,
    )
)
values("betainc", [0.7, 2, 3, 0.5], [2.3, 1, 4, 0.5], [0.3, 0.6, 0.9, 0.2], scipy=True)
values("gamma", [*EDGES[2:4], NAN, 5, 10, 20.5, -1.5, -2.5], scipy=True)
values("gammaln", [*EDGES[:4], NAN, 5, 20.5, -1.5, -2.5, -3], scipy=True)
values("gammaln", [-INF], label="minus_infinity")
values("digamma", [*EDGES[2:4], NAN, 5, 20.5, -1.5, -2.5, 1e-3, 30], scipy=True)
values("factorial", [0, 1, 2, 5, 10, -1.5, 2.5, NAN], scipy=True)
values("comb", [5, 3, 2, 5.5, 5, 0, 40], [2, 5, 2, 2.5, -1, 0, 20], scipy=False)
values("poch", [1, 0, -0.5, 3, 5], [0, 1.0, 1.5, -1.5, 2], scipy=True)
values("loggamma", [1, 5, 1.5, 30, INF], scipy=True)
values("gammainc", [0, 1, -1, 1, 3, 100], [1, 0, 1, -1, INF, 90], scipy=False)
values("gammaincc", [1, -1, 1, 3, 100, 2], [0, 1, -1, INF, 90, 40], scipy=False)
for n in range(4):
    CASES.append(
        Case(
            f"polygamma_{n}",
            lambda x, n=n: special.polygamma(n, x),
            [np.array([0.7, 1.3, 4.2, 9.5], np.float32)],
            diff="both" if n else "jvp",
            tol=1e-4,
        )
    )
CASES.append(
    Case(
        "zeta_float32",
        lambda q: special.zeta(np.float32(2.5), q),
        [np.array([0.7, 1.3, 4.2, 9.5], np.float32)],
        tol=1e-4,
    )
)
values("zeta", [2, 2.5, 3, 1, 2, 4], [1, 0.5, 20, 2, 0, 1e3], scipy=True)
for d in (1, 2, 4):
    CASES.append(
        Case(
            f"multigammaln_{d}",
            lambda a, d=d: special.multigammaln(a, d),
            [np.array([2.5, 3.5, 8.0], np.float32)],
            lambda a, d=d: scipy.special.multigammaln(a, d),
            tol=1e-4,
        )
    )
z = np.array([0.5 + 1j, -1.5 + 0.3j, 3 - 2j, -2.3 - 4j, 20 + 30j, -8.2 + 0.1j])
for name in ("gamma", "loggamma"):
    CASES.append(
        Case(
            f"{name}_complex",
            getattr(special, name),
            [z],
            getattr(scipy.special, name),
            x64=True,
            tol=1e-9,
            diff="" if name == "loggamma" else "jvp",
            vmap=False,
        )
    )

# Error functions
for name in ("erf", "erfc", "erfcx", "dawsn"):
    add(name, [0.0, 0.4, -1.3, 3.5], dtypes=ALL)
    values(name, [*EDGES[:3], NAN, 6, -3, 1e-20], scipy=True)
add("erfinv", [0.0, 0.4, -0.9, 0.99], dtypes=ALL)
values("erfinv", [0, 1, -1, 2, NAN, 1e-20, 0.999999], scipy=True)
for name in ("ndtr", "log_ndtr"):
    add(name, [0.0, 0.4, -1.3, 3.5])
    values(name, [0, 1, -4, 12, -12, INF, -INF, NAN], scipy=True)
add("ndtri", [0.5, 0.4, 0.9, 0.01])
values("ndtri", [0, 1, 2, -1, NAN, 1e-20, 0.999999, 0.3], scipy=True)
add("fresnel", [0.0, 0.4, -1.3, 3.5], dtypes=ALL)
values("fresnel", [0, -1, INF, -INF, NAN, 10, 30], scipy=True, tol=1e-7)
add("wofz", [0.0, 0.4, -1.3, 3.5], diff="", scipy=True, dtypes=("float32",))
z = np.array([0.5 + 1j, -1.5 + 0.3j, 3 - 2j, -0.3 - 1j, 20 + 30j, -8.2 + 0.1j, 1j])
for name in ("wofz", "erfcx"):
    CASES.append(
        Case(
            f"{name}_complex",
            getattr(special, name),
            [z],
            getattr(scipy.special, name),
            x64=True,
            tol=1e-9,
            diff="jvp",
            vmap=False,
        )
    )
add("owens_t", [0.0, 0.4, -1.3, 2.5], [0.5, 0.3, -0.8, 3.0], dtypes=("float32",), scipy=True)
values("owens_t", [0, 1, 1, 1, 3, -1, 1], [1, 0, -2, 0.5, 0.1, 0.5, 30], tol=1e-6)

# Integrals
add("exp1", [0.3, 0.9, 1.3, 3.5], dtypes=ALL)
# The reference's result in float16 is NaN.
add("expi", [0.3, 0.9, -1.3, 3.5], dtypes=("float32", "bfloat16"))
add("sici", [0.3, 0.9, 1.3, 3.5], dtypes=ALL)
# The reference's gradient is NaN between 1 and 2.
add("spence", [0.3, 0.9, 2.7, 3.5])
# The reference does not end at 1e-30 beside other numbers.
values("exp1", [0.0, 100, 0.5, 2], scipy=True)
values("expi", [1e-30, -50, 50, 0.5, 2], scipy=True, tol=1e-8)
values("sici", [0.0, 1, 4, 30, 1000], scipy=True, tol=1e-7)
values("spence", [0, 1, 2, 0.5, 1e5, NAN, -1], scipy=True)
for n in (1, 2, 5):
    CASES.append(
        Case(
            f"expn_{n}",
            lambda x, n=n: special.expn(n, x),
            [np.array([0.3, 0.9, 1.3, 3.5], np.float32)],
            lambda x, n=n: scipy.special.expn(n, x),
            tol=1e-4,
        )
    )
values("expn", [0, 1, 2, 3, 10, 0, 1, 50], [0.5, 0.5, 0.5, 2, 3, 0, 0, 100], scipy=True)

# Elementary functions
for name in ("entr", "logit"):
    add(name, [0.1, 0.4, 0.9, 0.6], dtypes=ALL)
    values(name, [0, 1, -1, 2, NAN], scipy=True)
add("expit", [0.0, 0.4, -9.0, 3.5], dtypes=("float32", "complex64", "int32", "bfloat16"))
values("expit", EDGES, scipy=True)
for name in ("xlogy", "xlog1py", "rel_entr", "kl_div", "boxcox", "boxcox1p"):
    add(name, [0.7, 1.3, 4.2, 2.0], [0.3, 2.5, 1.2, 3.0], dtypes=ALL)
values("xlogy", [0, 0, 0, 1, 2], [0, -1, INF, 0, 3], scipy=True)
values("xlog1py", [0, 0, 1, 2], [-1, -2, -1, 3], scipy=True)
values("rel_entr", [0, 0, -1, 1, 1], [0, 1, 1, 0, -1], scipy=True)
values("kl_div", [0, 0, -1, 1, 1, NAN], [0, 1, 1, 0, -1, 1], scipy=True)
values("boxcox", [1, 2, 2, 3], [1, 0, 1e-10, 0.5], scipy=True)
values("boxcox1p", [0, 2, 1e-8, 3], [1, 1e-10, 1, 0.5], scipy=True)
for name in ("logsumexp", "softmax", "log_softmax"):
    x = np.array([[0.3, -1.0, 2.0], [0.5, 30.0, -4.0]], np.float32)
    numpy = getattr(scipy.special, name)
    for axis in (None, 0, -1, (0, 1)):
        CASES.append(
            Case(
                f"{name}_{axis}",
                lambda x, name=name, axis=axis: getattr(special, name)(x, axis=axis),
                [x],
                lambda x, numpy=numpy, axis=axis: numpy(x, axis=axis),
            )
        )

# Bessel functions, hypergeometric functions, spherical harmonics
for name in ("i0", "i0e", "i1", "i1e"):
    add(name, [0.3, -0.9, 1.3, 5.0], dtypes=ALL)
    values(name, [0, 1, -4, 30, NAN], scipy=True)
for v in (0, 3):
    CASES.append(
        Case(
            f"bessel_jn_{v}",
            lambda z, v=v: special.bessel_jn(z, v=v),
            [np.array([25.0, 27.5, 21.0], np.float32)],
            lambda z, v=v: np.stack([scipy.special.jv(n, z) for n in range(v + 1)]),
            diff="" if v == 0 else "both",
            vmap=False,
            tol=1e-4,
        )
    )
# The reference's derivatives by parameters that are negative integers are NaN.
add("hyp1f1", [0.7, 1.3, 4.2, -2.5], [1.3, 2.5, 1.2, 3.0], [0.3, -2.0, 5.0, 1.5], diff="jvp")
values("hyp1f1", [1, 0, 2, -1, 1, 0.5], [2, 2, 2, 3, 2, 1.5], [1, 1, 3, 2, 60, 20], scipy=True)
add(
    "hyp2f1",
    [0.7, 1.3, 0.2],
    [1.3, 2.5, 1.2],
    [2.3, 3.1, 1.5],
    [0.3, -0.4, 0.6],
    diff="jvp",
    vmap=False,
)
values("hyp2f1", [1, 1, 0.5], [1, 2, 0.5], [2, 3, 2], [0.5, 0, 0.95], scipy=True)


def harmonics(theta, phi):
    n, m = np.array([0, 1, 2, 3, 3, 5]), np.array([0, -1, 1, -2, 3, 0])
    return special.sph_harm_y(n, m, theta, phi, n_max=5)


angles = [np.linspace(0.3, 2.8, 6).astype(np.float32), np.linspace(-2, 4, 6).astype(np.float32)]
CASES.append(Case("sph_harm_y", harmonics, angles, diff="jvp", vmap=False, tol=1e-4))
for n in (0, 1, 10):
    CASES.append(
        Case(
            f"bernoulli_{n}",
            lambda n=n: special.bernoulli(n),
            [],
            lambda n=n: scipy.special.bernoulli(max(n, 2))[: n + 1],
            diff="",
            vmap=False,
        )
    )

# Eight devices
sharded(
    "gamma", gamma=special.gamma, loggamma=special.loggamma, digamma=special.digamma,
    betaln=lambda x: special.betaln(x, 2.5), gammainc=lambda x: special.gammainc(1.5, x),
    betainc=lambda x: special.betainc(1.5, 2.5, x), zeta=lambda x: special.zeta(2.5, x),
    polygamma=lambda x: special.polygamma(1, x),
)  # fmt: skip
sharded(
    "error", erf=special.erf, erfcx=special.erfcx, erfinv=special.erfinv, ndtr=special.ndtr,
    ndtri=special.ndtri, log_ndtr=special.log_ndtr, dawsn=special.dawsn, fresnel=special.fresnel,
    owens_t=lambda x: special.owens_t(x, 0.5), sici=special.sici,
)  # fmt: skip
# The reference fails on explicit axes.
sharded(
    "loops", axis_types=(AxisType.Auto,), exp1=special.exp1, expi=special.expi,
    spence=special.spence, expn=lambda x: special.expn(2, x),
    hyp1f1=lambda x: special.hyp1f1(0.5, 1.5, x), bessel_jn=lambda x: special.bessel_jn(20 + 5 * x, v=1),
)  # fmt: skip
sharded(
    "elementary", entr=special.entr, logit=special.logit, expit=special.expit,
    xlogy=lambda x: special.xlogy(x, x), xlog1py=lambda x: special.xlog1py(x, x),
    rel_entr=lambda x: special.rel_entr(x, 0.5), kl_div=lambda x: special.kl_div(x, 0.5),
    boxcox=lambda x: special.boxcox(x, 0.5), logsumexp=special.logsumexp,
    softmax=special.softmax, log_softmax=special.log_softmax,
)  # fmt: skip
sharded("bessel", i0=special.i0, i0e=special.i0e, i1=special.i1, i1e=special.i1e)


# The reference's owens_t is of float64 then.
UNARY = (
    "gammaln", "gammasgn", "gamma", "loggamma", "digamma", "factorial", "erf", "erfc", "erfcx", "erfinv",
    "dawsn", "fresnel", "wofz", "ndtr", "log_ndtr", "ndtri", "exp1", "expi", "sici", "spence", "entr", "logit",
    "expit", "i0", "i0e", "i1", "i1e", "logsumexp", "softmax", "log_softmax",
)  # fmt: skip
BINARY = (
    "poch", "beta", "betaln", "comb", "gammainc", "gammaincc", "xlogy", "xlog1py", "rel_entr", "kl_div",
    "boxcox", "boxcox1p", "zeta",
)  # fmt: skip


def of_all(*args):
    unary = {name: getattr(special, name)(args[0]) for name in UNARY}
    return unary | {name: getattr(special, name)(*args) for name in BINARY}


def results_of_all(dtype, x64):
    """Dtypes and weak types, of Python numbers if `dtype` is None."""
    args = (0.5, 0.5) if dtype is None else (np.full(3, 0.5, dtype),) * 2
    with jax.enable_x64(x64):
        out = jax.eval_shape(lambda: of_all(*args))
        return {
            name: [f"{y.dtype} {y.weak_type}" for y in jax.tree.leaves(out[name])] for name in out
        }


for dtype in (None, np.float32):
    for x64 in (False, True):
        CASES.append(
            Case(
                f"types_of_{dtype and dtype.__name__}_{x64}",
                lambda dtype=dtype, x64=x64: results_of_all(dtype, x64),
                program=True,
            )
        )

# Errors
ARITIES = {"betainc": 3} | dict.fromkeys(
    ("beta", "betaln", "boxcox", "comb", "gammainc", "kl_div", "owens_t", "xlogy", "zeta"), 2
)
one, many = np.float32(0.5), np.ones(3, np.float32)
for name in (
    "beta", "betainc", "betaln", "boxcox", "comb", "digamma", "entr", "erf", "erfcx", "exp1", "gamma",
    "gammainc", "gammasgn", "i0", "kl_div", "owens_t", "xlogy", "zeta",
):  # fmt: skip
    arity = ARITIES.get(name, 1)
    error(name, "list", *[[0.5]] * arity)
    if name not in ("boxcox", "erfcx", "gamma", "owens_t", "xlogy"):
        error(name, "complex", *[0.5j] * arity)
    if arity == 2:
        error(name, "shapes", many, many[:2])
for name in ("ndtr", "ndtri", "log_ndtr", "spence"):
    error(name, "half", np.float16(0.5))
    error(name, "int", np.int32(1))
error("log_ndtr", "order", one, 31)
error("log_ndtr", "negative_order", one, -1)
error("log_ndtr", "order_type", one, 2.5)
error("polygamma", "order", 1.5, one)
error("zeta", "riemann", one)
error("factorial", "exact", 5, True)
error("bernoulli", "negative", -1)
error("bernoulli", "float", 2.5)
error("bessel_jn", "order", many, v=2.5)
error("fresnel", "complex", 1j)
error("sici", "complex", 1j)
error("expn", "complex", 1j, 1j)
error("hyp1f1", "complex", 1j, 1j, 1j)
error("poch", "complex", 1j, 1j)
error("betainc", "shapes", many, many[:2], many)
error("sph_harm_y", "diff", *[np.ones(1, int)] * 4, diff_n=1)
