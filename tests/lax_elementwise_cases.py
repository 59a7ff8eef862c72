"""Cases for elementwise operations: arithmetic, logic, selection, conversions, special functions."""

import ml_dtypes
import numpy as np
from op_cases import Case, dtype_of

import jax
from jax import lax

INTS = ["int8", "int16", "int32", "int64"]
UINTS = ["uint8", "uint16", "uint32", "uint64"]
NARROW_INTS = ["int4", "uint4"]
REALS = ["float16", "bfloat16", "float32", "float64"]
NARROW_REALS = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"]
COMPLEX = ["complex64", "complex128"]
BOOL = ["bool"]
CASES: list[Case] = []

POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.7, 10.0, 1e-5, -0.3, 0.999, 1.5, -2.0, 7.25]
BEYOND = [np.inf, -np.inf, np.nan, 1e4, -1e4, 88.0, -90.0]


def table(dtype: str, which: str = "all") -> np.ndarray:
    """Numbers of a dtype with the special ones among them; the same length for each kind of dtype."""
    dt = dtype_of(dtype)
    if dt == np.bool_:
        return np.array([True, False, True, False])
    if dt.kind in "iu" or dtype in NARROW_INTS:
        info = ml_dtypes.iinfo(dt)
        return np.array([0, 1, 2, 3, 5, 7, info.max, info.min, info.max - 1], object).astype(dt)
    xs = np.array(POINTS if which == "finite" else POINTS + BEYOND)
    if np.issubdtype(dt, np.complexfloating):
        parts = [0.0, -0.0, 1.0, -0.5, 3.7]
        if which != "finite":
            parts += [np.inf, -np.inf, np.nan]
        return np.array([complex(a, b) for a in parts for b in parts]).astype(dt)
    with np.errstate(over="ignore"):
        return xs.astype(dt)


def off_cuts(dtype: str, which: str = "all") -> np.ndarray:
    """Complex numbers without those for which the reference has the values of a branch cut's other side.

    It takes the sign of a negative zero, and of NaN beside an infinite number, as that of a number.
    """
    z = table(dtype, which)
    return z[~(np.isnan(z) & np.isinf(z))] + 0


def pairs(dtype: str, which: str = "all") -> tuple[np.ndarray, np.ndarray]:
    """All pairs of the numbers in `table`."""
    xs = table(dtype, which)
    if len(xs) > 30:
        xs = xs[::5]
    x, y = np.meshgrid(xs, xs)
    return x, y


def seeded(shape, dtype="float32", seed=0):
    rng = np.random.RandomState(seed)
    if dtype.startswith("complex"):
        return np.asarray(rng.randn(*shape) + 1j * rng.randn(*shape)).astype(dtype)
    if "int" in dtype:
        return np.asarray(rng.randint(0, 7, shape)).astype(dtype)
    return np.asarray(rng.randn(*shape)).astype(dtype)


def each(op):
    """`op` of every operand."""
    return lambda *xs: [op(x) for x in xs]


def each_pair(op):
    """`op` of the first and second operand, of the third and fourth, and so on."""
    return lambda *xs: [op(x, y) for x, y in zip(xs[::2], xs[1::2])]


def quietly(f, n):
    """`f` of every `n` operands, without NumPy's warnings of infinities and NaN."""

    def call(*xs):
        with np.errstate(all="ignore"):
            return [f(*xs[i : i + n]) for i in range(0, len(xs), n)]

    return call


SHAPES = [(), (3,), (2, 3), (0,), (2, 0, 3)]


def unary(
    name, op, dtypes, numpy=None, diff=("float32", "complex64"), tol=None, domain=None, cuts=False
):
    """Adds the cases of a function; `cuts` are those of complex functions that are discontinuous along lines."""
    values = [off_cuts(d) if cuts and d in COMPLEX else table(d) for d in dtypes]
    CASES.append(
        Case(name, each(op), values, diff="", vmap=False, x64=True, tol=tol, ignore=("eager",))
    )
    if numpy is not None:
        reals = [d for d in dtypes if d in ("float32", "float64", "int32", "uint8", "bool")]
        CASES.append(
            Case(
                f"{name}_numpy",
                each(op),
                [table(d, "finite") if domain is None else domain.astype(d) for d in reals],
                numpy=quietly(lambda x: np.asarray(numpy(x)).astype(numpy_dtype(x, op)), 1),
                diff="",
                vmap=False,
                x64=True,
                ignore=("eager", "jit"),
                tol=tol or 3e-5,
            )
        )
    shapes = [
        seeded(s, _first(dtypes, "float32", "complex64", "int32"), i) for i, s in enumerate(SHAPES)
    ]
    CASES.append(Case(f"{name}_shapes", each(op), shapes, diff="", vmap=False, ignore=("eager",)))
    example = seeded((2, 3), _first(dtypes, "float32", "complex64", "int32"), 5)
    CASES.append(Case(f"{name}_vmap", op, [example], diff="", ignore=("jit", "vmap0")))
    for d in diff:
        if d in dtypes:
            CASES.append(
                Case(
                    f"{name}_derivative_{d}",
                    op,
                    [off_cuts(d, "finite") if cuts and d in COMPLEX else table(d, "finite")],
                    vmap=False,
                    tol=1e-4,
                    ignore=("eager", "jit"),
                )
            )


def _first(dtypes, *preferred):
    return next(d for d in (*preferred, *dtypes) if d in dtypes)


def numpy_dtype(x, op):
    """The dtype of the result, known from the operation's abstract evaluation."""
    with jax.enable_x64(True):
        return jax.eval_shape(op, x).dtype


def scalar_numpy(f):
    """A SciPy function, imported when called."""

    def call(*xs):
        import scipy.special

        return getattr(scipy.special, f)(*[x.astype(np.float64) for x in xs])

    return call


FLOATS = REALS + NARROW_REALS
INEXACT = FLOATS + COMPLEX
ALL_INTS = INTS + UINTS + NARROW_INTS
NUMERIC = ALL_INTS + INEXACT

unary("neg", lax.neg, NUMERIC, np.negative)
unary("sign", lax.sign, NUMERIC, np.sign)
unary("floor", lax.floor, FLOATS, np.floor)
unary("ceil", lax.ceil, FLOATS, np.ceil)
unary("round", lax.round, FLOATS, lambda x: np.trunc(x + np.copysign(0.5, x)))
unary("round_even", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), FLOATS, np.round)
unary("is_finite", lax.is_finite, FLOATS, np.isfinite)
unary("abs", lax.abs, INTS + INEXACT, np.abs)
unary("square", lax.square, NUMERIC, np.square)
unary("exp", lax.exp, INEXACT, np.exp)
# The reference's of float16 and bfloat16 are not precise: 2**10 is 1000 there.
unary("exp2", lax.exp2, ["float32", "float64"], np.exp2)
# Of complex numbers it is NaN where a part is infinite.
finite = [table(d, "finite") for d in COMPLEX]
CASES.append(Case("exp2_complex", each(lax.exp2), finite, diff="", vmap=False, x64=True))
unary("expm1", lax.expm1, INEXACT, np.expm1)
unary("log", lax.log, INEXACT, np.log)
unary("log1p", lax.log1p, INEXACT, np.log1p)
unary("logistic", lax.logistic, INEXACT, lambda x: 1 / (1 + np.exp(-x)))
unary("sqrt", lax.sqrt, INEXACT, np.sqrt, cuts=True)
unary("rsqrt", lax.rsqrt, INEXACT, lambda x: 1 / np.sqrt(x))
unary("cbrt", lax.cbrt, FLOATS, np.cbrt)
unary("sin", lax.sin, INEXACT, np.sin)
unary("cos", lax.cos, INEXACT, np.cos)
unary("tan", lax.tan, INEXACT, np.tan)
# Of complex numbers the reference's derivatives of asin, acos and acosh have the wrong sign on cuts, or left of them.
unary("asin", lax.asin, INEXACT, np.arcsin, diff=("float32",), cuts=True)
unary("acos", lax.acos, INEXACT, np.arccos, diff=("float32",), cuts=True)
unary("atan", lax.atan, INEXACT, np.arctan, cuts=True)
unary("sinh", lax.sinh, INEXACT, np.sinh)
unary("cosh", lax.cosh, INEXACT, np.cosh)
unary("tanh", lax.tanh, INEXACT, np.tanh)
unary("asinh", lax.asinh, INEXACT, np.arcsinh, cuts=True)
unary("acosh", lax.acosh, INEXACT, np.arccosh, diff=("float32",), cuts=True)
unary("atanh", lax.atanh, INEXACT, np.arctanh, cuts=True)
unary("reciprocal", lax.reciprocal, INEXACT, np.reciprocal)
unary("real", lax.real, COMPLEX)
unary("imag", lax.imag, COMPLEX)
unary("conj", lax.conj, ["float32", "float64", *COMPLEX], np.conj)
unary("bitwise_not", lax.bitwise_not, ALL_INTS + BOOL, np.invert)
unary("population_count", lax.population_count, ALL_INTS)
unary("clz", lax.clz, ALL_INTS)
for y in (0, 1, 2, 3, 5, -1, -2, -3):
    unary(f"integer_pow{y}", lambda x, y=y: lax.integer_pow(x, y), NUMERIC if y >= 0 else INEXACT)

unary("lgamma", lax.lgamma, FLOATS, scalar_numpy("gammaln"))
unary(
    "digamma",
    lax.digamma,
    FLOATS,
    scalar_numpy("digamma"),
    domain=np.array([0.5, 1, 3, 10.5, -0.3]),
)
unary("erf", lax.erf, FLOATS, scalar_numpy("erf"))
unary("erfc", lax.erfc, REALS, scalar_numpy("erfc"))
unary("erf_inv", lax.erf_inv, FLOATS, scalar_numpy("erfinv"))
unary("bessel_i0e", lax.bessel_i0e, FLOATS, scalar_numpy("i0e"))
unary("bessel_i1e", lax.bessel_i1e, REALS, scalar_numpy("i1e"))


SHAPE_PAIRS = [
    ((), ()),
    ((3,), (3,)),
    ((2, 3), ()),
    ((), (2, 3)),
    ((2, 1), (2, 3)),
    ((2, 1), (1, 3)),
    ((0, 3), (1, 3)),
    ((0,), ()),
]


def binary(
    name, op, dtypes, numpy=None, diff=("float32", "complex64"), tol=None, both="both", points=None
):
    values = [v for d in dtypes for v in (points(d) if points else pairs(d))]
    CASES.append(
        Case(name, each_pair(op), values, diff="", vmap=False, x64=True, tol=tol, ignore=("eager",))
    )
    if numpy is not None:
        reals = [d for d in dtypes if d in ("float32", "float64")]
        values = [v for d in reals for v in (points(d) if points else pairs(d, "finite"))]
        CASES.append(
            Case(
                f"{name}_numpy",
                each_pair(op),
                values,
                numpy=quietly(numpy, 2),
                diff="",
                vmap=False,
                x64=True,
                ignore=("eager", "jit"),
                tol=tol or 3e-5,
            )
        )
    d = _first(dtypes, "float32", "complex64", "int32")

    def operand(shape, seed):
        x = seeded(shape, d, seed)
        return np.abs(x) + x.dtype.type(0.5) if points or d in REALS else x

    args = [
        operand(s, i)
        for i, pair in enumerate(SHAPE_PAIRS[3 if points else 0 :: 3 if points else 1])
        for s in pair
    ]
    CASES.append(
        Case(
            f"{name}_shapes",
            each_pair(op),
            args,
            diff=both,
            vmap=False,
            tol=1e-4,
            ignore=("eager",),
        )
    )
    # Programs with loops take long to compile.
    ignore = ("jit", "vmap0", "eager", "vmap1")[: 4 if points else 2]
    for shapes in (((2, 3), (2, 3)), ((), (2, 3)))[: 1 if points else 2]:
        args = [operand(s, i) for i, s in enumerate(shapes)]
        CASES.append(Case(f"{name}_vmap{len(shapes[0])}", op, args, diff="", ignore=ignore))
    for d in diff:
        if d in dtypes:
            args = list(points(d) if points else pairs(d, "finite"))
            CASES.append(
                Case(
                    f"{name}_derivative_{d}",
                    op,
                    args,
                    vmap=False,
                    diff=both,
                    tol=1e-4,
                    ignore=("eager", "jit"),
                )
            )


binary("add", lax.add, NUMERIC, np.add)
binary("sub", lax.sub, NUMERIC, np.subtract)
binary("mul", lax.mul, NUMERIC, np.multiply)
binary("div", lax.div, NUMERIC, np.divide)
binary("rem", lax.rem, ALL_INTS + FLOATS, np.fmod)
binary("max", lax.max, NUMERIC + BOOL, np.maximum)
binary("min", lax.min, NUMERIC + BOOL, np.minimum)
binary("pow", lax.pow, INEXACT, np.power)
binary("atan2", lax.atan2, INEXACT, np.arctan2, diff=("float32",))
binary("nextafter", lax.nextafter, FLOATS, np.nextafter, diff=(), both="")
binary("complex", lax.complex, ["float32", "float64"])
binary("bitwise_and", lax.bitwise_and, ALL_INTS + BOOL)
binary("bitwise_or", lax.bitwise_or, ALL_INTS + BOOL)
binary("bitwise_xor", lax.bitwise_xor, ALL_INTS + BOOL)
binary("shift_left", lax.shift_left, INTS + UINTS)
binary("shift_right_arithmetic", lax.shift_right_arithmetic, INTS + UINTS)
binary("shift_right_logical", lax.shift_right_logical, INTS + UINTS)
binary("mulhi", lax.mulhi, INTS + UINTS)
# the reference cannot compile it where the operands are transposed; primitives_test.py batches it so
CASES[-2].ignore += ("vmap1",)
for op in ("eq", "ne"):
    binary(op, getattr(lax, op), NUMERIC + BOOL)
for op in ("lt", "le", "gt", "ge"):
    binary(op, getattr(lax, op), ALL_INTS + FLOATS + BOOL)
for op in ("eq_to_p", "lt_to_p", "le_to_p"):
    binary(op, getattr(lax, op).bind, INTS + UINTS + REALS + BOOL)


# Special functions of two and three operands


def grid(dtype, xs, ys):
    x, y = np.meshgrid(np.array(xs), np.array(ys))
    return x.astype(dtype_of(dtype)), y.astype(dtype_of(dtype))


A = [0.1, 0.5, 1.0, 2.5, 9.0, 40.0]
X = [1e-3, 0.3, 1.0, 2.0, 4.0, 11.0, 45.0]
TWO = ["float32", "float64"]
for op, ref in (("igamma", "gammainc"), ("igammac", "gammaincc")):
    binary(
        op,
        getattr(lax, op),
        TWO,
        scalar_numpy(ref),
        points=lambda d: grid(d, A, X),
        diff=TWO[:1],
        tol=2e-4,
    )
    edges = [-1.0, 0.0, 1.0, np.inf, np.nan]
    CASES.append(
        Case(
            f"{op}_edges",
            getattr(lax, op),
            list(grid("float32", edges[:3] + edges[4:], edges)),
            diff="",
            vmap=False,
        )
    )
    CASES.append(
        Case(
            f"{op}_limits",
            getattr(lax, op),
            list(grid("float32", edges[3:], edges[:3])),
            numpy=scalar_numpy(ref),
            diff="",
            vmap=False,
            ignore=("eager", "jit"),
        )
    )
    CASES.append(
        Case(f"{op}_half", each_pair(getattr(lax, op)), [*grid("bfloat16", A, X), *grid("float16", A, X)],
             diff="", vmap=False)
    )  # fmt: skip
for op in ("igamma_grad_a", "random_gamma_grad"):
    binary(
        op, getattr(lax, op), TWO, points=lambda d: grid(d, A[:-1], X), diff=(), both="", tol=5e-4
    )
binary(
    "zeta", lax.zeta, TWO, scalar_numpy("zeta"), points=lambda d: grid(d, [1.5, 2.0, 7.0], X), diff=(),
    both="", tol=1e-5,
)  # fmt: skip
CASES.append(
    Case(
        "polygamma",
        each_pair(lax.polygamma),
        [*grid("float32", [0, 1, 2, 5], X), *grid("float64", [0, 1, 2, 5], X)],
        numpy=lambda *xs: [scalar_numpy("polygamma")(n, x) for n, x in zip(xs[::2], xs[1::2])],
        diff="",
        vmap=False,
        x64=True,
        tol=1e-4,
    )
)
CASES.append(
    Case(
        "polygamma_derivative", lambda x: lax.polygamma(np.float32(1), x), [np.float32(X)], tol=1e-4
    )
)
P = [0.0, 0.01, 0.3, 0.5, 0.77, 1.0]
_a, _b, _x = (t.astype(np.float64) for t in np.meshgrid([0.2, 1.0, 3.0, 20.0], [0.5, 1.0, 7.0], P))
for dtype in TWO:
    CASES.append(
        Case(
            f"betainc_{dtype}",
            lax.betainc,
            [_a.astype(dtype), _b.astype(dtype), _x.astype(dtype)],
            numpy=scalar_numpy("betainc"),
            diff="",
            vmap=False,
            x64=True,
            tol=1e-5,
        )
    )
CASES.append(
    Case(
        "betainc_derivative",
        lambda x: lax.betainc(np.float32(2.5), np.float32(1.5), x),
        [np.float32([0.01, 0.3, 0.5, 0.9])],
        tol=1e-4,
    )
)
CASES.append(
    Case("betainc_transforms", lambda x: lax.betainc(2.0, 3.0, x), [np.float32([0.2, 0.9])])
)
CASES.append(
    Case(
        "betainc_vmap", lax.betainc, [np.float32([0.5, 2])] * 2 + [np.float32([0.2, 0.9])], diff=""
    )
)

# Selection

which = np.array([[True, False, True], [False, False, True]])
for d in ("float32", "complex64", "bfloat16", "int32", "bool", "float8_e5m2"):
    x, y = (np.asarray(seeded((2, 3), "float32", i) * 3).astype(dtype_of(d)) for i in (1, 2))
    if d == "complex64":
        x = x * np.complex64(1 + 2j)
    CASES.append(
        Case(f"select_{d}", lax.select, [which, x, y], diff="both" if d != "float8_e5m2" else "")
    )
    CASES.append(
        Case(
            f"select_scalar_{d}",
            lax.select,
            [np.array(True), x, y],
            diff="both" if d != "float8_e5m2" else "",
        )
    )
three = [seeded((2, 3), "float32", i) for i in range(3)]
for d in ("int32", "uint8", "int8"):
    index = np.array([[0, 1, 2], [2, 5, -1 if d != "uint8" else 200]]).astype(d)
    CASES.append(Case(f"select_n_{d}", lax.select_n, [index, *three], diff=""))
    CASES.append(Case(f"select_n_derivative_{d}", lax.select_n, [index % 3, *three], vmap=False))
    CASES.append(Case(f"select_n_scalar_{d}", lax.select_n, [np.array(1, d), *three]))
CASES.append(Case("select_n_one", lax.select_n, [np.array([0, 3, 1]), seeded((3,))], diff=""))
CASES.append(
    Case("select_n_bool_one", lax.select_n, [np.array([True, False, True]), seeded((3,))], diff="")
)
CASES.append(
    Case("select_empty", lax.select, [np.zeros((0, 2), bool)] + [np.zeros((0, 2), "float32")] * 2)
)
for d in ("float32", "int32", "bfloat16", "uint8", "bool"):
    x = np.asarray(np.arange(-6, 9).reshape(5, 3)).astype(dtype_of(d))
    low, high = np.array(1).astype(x.dtype), np.array(4).astype(x.dtype)
    CASES.append(Case(f"clamp_{d}", lax.clamp, [low, x, high], diff=""))
    CASES.append(Case(f"clamp_arrays_{d}", lax.clamp, [np.full_like(x, 1), x, np.full_like(x, 4)]))
    CASES.append(Case(f"clamp_mixed_{d}", lax.clamp, [np.full_like(x, 1), x, high], diff=""))
CASES.append(
    Case("clamp_crossed", lax.clamp, [np.float32(5), np.float32([1, 3, 7]), np.float32(2)], diff="")
)
CASES.append(
    Case(
        "clamp_nan",
        lax.clamp,
        [np.float32([np.nan, 0, 0]), np.float32([1, np.nan, np.inf]), np.float32([2, 2, np.nan])],
        diff="",
    )
)

# Conversions

EVERY = [*BOOL, *ALL_INTS, *FLOATS, *COMPLEX]


def _convertible(old, new):
    """The numbers of a dtype whose conversion is defined, so that programs agree on it."""
    x = table(old)
    if np.issubdtype(dtype_of(new), np.complexfloating) or new == "bool":
        return x
    if np.issubdtype(x.dtype, np.complexfloating):
        x = x[np.isfinite(x)]
    return x


DISCARDED = "discards the imaginary part"
for new in EVERY:
    olds = [d for d in EVERY if not (new == "bool" and d in COMPLEX)]
    CASES.append(
        Case(
            f"convert_element_type_{new}",
            each(lambda x, new=new: lax.convert_element_type(x, dtype_of(new))),
            [_convertible(d, new) for d in olds],
            diff="",
            vmap=False,
            x64=True,
            ignore=("eager",),
            warns="" if new in [*BOOL, *COMPLEX] else DISCARDED,
        )
    )
for old, new in (
    ("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "complex64"), ("complex64", "float32"),
    ("float32", "int32"), ("complex64", "complex64"), ("int32", "float32"), ("float32", "bool"),
):  # fmt: skip
    CASES.append(
        Case(
            f"convert_transforms_{old}_{new}",
            lambda x, new=new: lax.convert_element_type(x, dtype_of(new)),
            [seeded((2, 3), "float32" if old == "bfloat16" else old).astype(dtype_of(old))],
            warns=DISCARDED if (old, new) == ("complex64", "float32") else "",
        )
    )
for old, new in (
    ("float32", "int32"), ("float32", "uint8"), ("float32", "bfloat16"), ("bfloat16", "int16"),
    ("int32", "float16"), ("uint64", "float64"), ("float64", "int32"), ("float8_e5m2", "int8"),
    ("int8", "float8_e4m3fn"), ("int8", "int4"), ("complex64", "complex64"), ("bool", "bool"),
):  # fmt: skip
    CASES.append(
        Case(
            f"bitcast_{old}_{new}",
            lambda x, new=new: lax.bitcast_convert_type(x, dtype_of(new)),
            [np.stack([table(old)[:3], table(old)[1:4]])],
            x64=True,
            diff="",
        )
    )
CASES.append(
    Case("bitcast_merge", lambda x: lax.bitcast_convert_type(x, np.int32), [np.arange(24, dtype=np.int8).reshape(2, 3, 4)], ignore=("vmap1",))
)  # fmt: skip
CASES.append(
    Case(
        "bitcast_derivative",
        lambda x: lax.bitcast_convert_type(x, np.int32),
        [seeded((3,))],
        diff="jvp",
    )
)
for e, m in ((5, 10), (8, 7), (4, 3), (1, 0), (11, 52)):
    CASES.append(
        Case(
            f"reduce_precision_{e}_{m}",
            lambda x, e=e, m=m: lax.reduce_precision(x, e, m),
            [table("float32")],
        )
    )
CASES.append(
    Case("reduce_precision_half", lambda x: lax.reduce_precision(x, 4, 3), [table("bfloat16")])
)
CASES.append(Case("stop_gradient", lambda x: lax.mul(lax.stop_gradient(x), x), [seeded((2, 3))]))
CASES.append(
    Case(
        "stop_gradient_tree",
        lambda x: lax.stop_gradient({"a": x, "b": (x, None)}),
        [seeded((2, 3))],
    )
)

# Arguments of their own

CASES.append(
    Case("mul_out_dtype", lambda x, y: lax.mul(x, y, out_dtype=ml_dtypes.bfloat16), [seeded((2, 3)), seeded((2, 3), seed=1)])
)  # fmt: skip
CASES.append(
    Case(
        "mul_out_dtype_int", lambda x: lax.mul(x, x, out_dtype=np.float32), [seeded((3,), "int32")]
    )
)
for d in ("int32", "int8"):
    CASES.append(
        Case(
            f"pow_{d}",
            lambda x, y: lax.pow(x, y),
            [table("float32", "finite"), np.resize(np.array([0, 1, 2, 3, -1]), 16).astype(d)],
            tol=1e-4,
        )
    )
    CASES.append(
        Case(
            f"pow_complex_{d}",
            lax.pow,
            [seeded((3,), "complex64"), np.array([0, 2, 3], d)],
            tol=1e-4,
        )
    )
CASES.append(Case("pow_scalar_int", lambda x: lax.pow(x, 3), [seeded((2, 3))]))
for op in ("exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "tanh", "sqrt",
           "rsqrt", "cbrt"):  # fmt: skip
    CASES.append(
        Case(
            f"accuracy_{op}",
            lambda x, op=op: getattr(lax, op)(x, accuracy=lax.AccuracyMode.HIGHEST),
            [np.abs(seeded((3,)))],
        )
    )
    CASES.append(
        Case(
            f"tolerance_{op}",
            lambda x, op=op: getattr(lax, op)(x, accuracy=lax.Tolerance(rtol=1e-2)),
            [np.abs(seeded((3,)))],
            diff="",
            tol=1e-2,
        )
    )

# Python numbers and weak types

for name, f in {
    "add": lambda: lax.add(1, 2),
    "mul": lambda: lax.mul(1.5, 2.0),
    "mul_out_dtype": lambda: lax.mul(2, 3, out_dtype="float32"),
    "complex": lambda: lax.complex(1.0, 2.0),
    "eq": lambda: lax.eq(1.0, 2.0),
    "is_finite": lambda: lax.is_finite(1.0),
    "select": lambda: lax.select(True, 1.0, 2.0),
    "select_int": lambda: lax.select_n(-5, 1, 2, 3),
    "clamp": lambda: lax.clamp(1.0, 2.0, 3.0),
    "convert": lambda: lax.convert_element_type(1.0, "float32"),
    "convert_python": lambda: lax.convert_element_type(1.0, float),
    "convert_large": lambda: lax.convert_element_type(2**40, "float32"),
    "convert_wraps": lambda: lax.convert_element_type(300, "int8"),
    "convert_negative": lambda: lax.convert_element_type(-1, "uint8"),
    "convert_nan": lambda: lax.convert_element_type(float("nan"), "int32"),
    "bitcast": lambda: lax.bitcast_convert_type(1.0, "int32"),
    "integer_pow": lambda: lax.integer_pow(2.0, 3),
    "abs": lambda: lax.abs(1j),
    "reduce_precision": lambda: lax.reduce_precision(1.1, 5, 6),
    "array_and_python": lambda: lax.add(np.ones(3, np.float32), 1.0),
    "numpy_scalar": lambda: lax.add(np.float32(1), 2.0),
    "shift": lambda: lax.shift_left(np.ones((2, 3), np.int32), 2),
    "weak_jit": lambda: jax.jit(lambda x: lax.mul(x, x))(2.0),
    "weak_grad": lambda: jax.grad(lambda x: lax.sin(lax.mul(x, x)))(2.0),
}.items():
    # What a constant NaN becomes as an integer depends on who folds the constant.
    CASES.append(Case(f"python_{name}", f, [], ignore=("jit",) if name == "convert_nan" else ()))

# Errors

f23, i23 = np.ones((2, 3), np.float32), np.ones((2, 3), np.int32)
for name, f in {
    "dtypes": lambda: lax.add(f23, i23),
    "shapes": lambda: lax.add(f23, np.ones((3, 2), np.float32)),
    "ranks": lambda: lax.add(f23, np.ones(3, np.float32)),
    "int_and_float": lambda: lax.add(1, 2.0),
    "string": lambda: lax.add("a", f23),
    "list": lambda: lax.add([1.0], f23),
    "none": lambda: lax.sin(None),
    "int_sin": lambda: lax.sin(i23),
    "float_and": lambda: lax.bitwise_and(f23, f23),
    "float_not": lambda: lax.bitwise_not(f23),
    "bool_neg": lambda: lax.neg(which),
    "bool_add": lambda: lax.add(which, which),
    "complex_lt": lambda: lax.lt(f23 + 1j, f23 + 1j),
    "int_pow": lambda: lax.pow(i23, 2),
    "mixed_pow": lambda: lax.pow(f23, np.float16(2)),
    "bool_pow": lambda: lax.pow(f23, which),
    "float_integer_pow": lambda: lax.integer_pow(f23, 2.5),
    "negative_integer_pow": lambda: lax.integer_pow(i23, -1),
    "bfloat16_complex": lambda: lax.complex(*[ml_dtypes.bfloat16(1)] * 2),
    "float_real": lambda: lax.real(f23),
    "bool_abs": lambda: lax.abs(which),
    "unsigned_abs": lambda: lax.abs(np.uint8(3)),
    "rounding": lambda: lax.round(f23, 5),
    "float_which": lambda: lax.select(f23, f23, f23),
    "select_dtypes": lambda: lax.select(which, f23, i23),
    "select_shapes": lambda: lax.select(which, f23, f23[0]),
    "select_which": lambda: lax.select(which[0], f23, f23),
    "select_none": lambda: lax.select_n(which),
    "select_bool_three": lambda: lax.select_n(which, f23, f23, f23),
    "clamp_dtypes": lambda: lax.clamp(0, f23, 1),
    "clamp_shapes": lambda: lax.clamp(np.zeros(3, np.float32), f23, np.float32(1)),
    "convert_name": lambda: lax.convert_element_type(f23, "foo"),
    "convert_none": lambda: lax.convert_element_type(f23, None),
    "convert_list": lambda: lax.convert_element_type([1.0, 2.0], float),
    "bitcast_size": lambda: lax.bitcast_convert_type(f23.astype("int8"), np.int16),
    "bitcast_scalar": lambda: lax.bitcast_convert_type(np.int8(3), np.int16),
    "bitcast_complex": lambda: lax.bitcast_convert_type(f23 + 1j, np.int32),
    "bitcast_bool": lambda: lax.bitcast_convert_type(which, np.int8),
    "exponent_bits": lambda: lax.reduce_precision(f23, 0, 3),
    "mantissa_bits": lambda: lax.reduce_precision(f23, 5, -3),
    "reduce_precision_int": lambda: lax.reduce_precision(i23, 5, 3),
    "reduce_precision_float": lambda: lax.reduce_precision(f23, 5.5, 3),
    "broadcast_shapes": lambda: lax.broadcast_shapes((2, 3), (3, 2)),
    "shift": lambda: lax.shift_left(f23, f23),
    "clz": lambda: lax.clz(f23),
    "is_finite": lambda: lax.is_finite(i23),
    "tolerance_negative": lambda: lax.Tolerance(atol=-1),
    "tolerance_none": lambda: lax.Tolerance(),
    "mulhi": lambda: lax.mulhi(f23, f23),
    "reciprocal": lambda: lax.reciprocal(i23),
    "stop_gradient": lambda: lax.stop_gradient("a"),
    "igamma": lambda: lax.igamma(1, f23),
    "nextafter_derivative": lambda: jax.jvp(lambda x: lax.nextafter(x, x), (1.0,), (1.0,)),
    "polygamma_order": lambda: jax.grad(lambda m: lax.polygamma(m, 1.0))(1.0),
    "betainc_ab": lambda: jax.grad(lambda a: lax.betainc(a, 1.0, 0.5))(1.0),
    "out_dtype": lambda: lax.mul(f23, f23, out_dtype="foo"),
}.items():
    CASES.append(Case(f"error_{name}", f, []))
for name, f in {
    "convert_string": lambda: lax.convert_element_type("a", float),
    "dtype": lambda: lax.dtype("a"),
}.items():  # NumPy has a dtype of this name
    CASES.append(Case(f"error_{name}", f, [], warns="alias 'a' was deprecated"))
