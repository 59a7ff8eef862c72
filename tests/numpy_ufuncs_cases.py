"""Cases for the elementwise functions of jax.numpy, and for the methods of those that are ufuncs."""

import numpy as np
from op_cases import Case, dtype_of, values

import jax
import jax.numpy as jnp

CASES: list[Case] = []
SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-30, 1e30, 3.7, -2.5, 100.0],
    np.float32,
)
SPECIAL_COMPLEX = np.array(
    [0, 1, 1j, -1, -1j, 1 + 1j, -2 - 3j, 2.5 - 0.5j, complex(np.inf, 0), complex(0, -np.inf)],
    np.complex64,
)
INTS = ["int8", "int32", "uint8", "uint32", "bool"]
HALF = ["float16", "bfloat16"]
X64 = ["int64", "uint64", "float64", "complex128"]


def case(name, fun, args=(), diff="", vmap=False, **kwargs):
    CASES.append(Case(name, fun, list(args), diff=diff, vmap=vmap, **kwargs))


def many(name, fun, args=(), **kwargs):
    """A case of many calls, compiled as one program."""
    case(name, fun, args, ignore=("eager",), **kwargs)


def plain(name, fun, args=(), **kwargs):
    """A case of Python numbers and the like: what a compiled program takes are arrays."""
    case(name, fun, args, ignore=("jit",), **kwargs)


def error(name, fun, args=(), **kwargs):
    """An error of the plain call."""
    plain(f"error_{name}", fun, args, **kwargs)


def each(op):
    return lambda *xs: tuple(op(x) for x in xs)


# Functions of one array: which real numbers to differentiate at, and whether they take complex ones.

REAL = dict.fromkeys(
    "exp exp2 expm1 sin cos tan sinh cosh tanh arctan arcsinh deg2rad rad2deg negative positive absolute "
    "square reciprocal floor ceil trunc rint round real imag conj isfinite isinf isnan isreal iscomplex "
    "logical_not sinc sign angle".split()
)
POSITIVE = dict.fromkeys("log log1p log2 log10 sqrt arccosh".split())
SMALL = dict.fromkeys("arcsin arccos arctanh".split())
REAL_ONLY = dict.fromkeys("cbrt fabs isposinf isneginf signbit i0 frexp modf spacing".split())
NO_COMPLEX = {"floor", "ceil", "trunc", *REAL_ONLY}
UNDIFFERENTIATED = {"spacing", "signbit", "isposinf", "isneginf", "sign"}
NO_BOOLS = ("negative", "round", "sign")
INT_ONLY = "invert bitwise_count".split()


def points(name):
    x = values((2, 3), "float32", name)
    if name in POSITIVE:
        return np.abs(x) + 1.25
    return np.tanh(x) * 0.9 if name in SMALL else x


for name in [*REAL, *POSITIVE, *SMALL, *REAL_ONLY]:
    op = getattr(jnp, name)
    differentiable = "" if name in UNDIFFERENTIATED else "both"
    case(
        f"{name}_real", op, [points(name)], diff=differentiable, vmap=True, numpy=getattr(np, name)
    )
    many(f"{name}_special", op, [SPECIAL], tol=1e-4)
    others = [points(name).astype(dtype_of(d)) for d in HALF] + [np.zeros((0, 3), np.float32)]
    if name != "fabs":
        others += [values((5,), d, name) for d in INTS if d != "bool" or name not in NO_BOOLS]
    many(f"{name}_dtypes", each(op), others)
    if name not in NO_COMPLEX:
        many(f"{name}_complex", op, [points(name) * (1 + 0.3j)], diff=differentiable and "forward")
        if name not in (
            "tan",
            "tanh",
            "square",
            "sign",
            "exp",
            "expm1",
            "exp2",
            "sinh",
            "cosh",
            "sin",
            "cos",
        ):
            many(f"{name}_complex_special", op, [SPECIAL_COMPLEX], tol=1e-4)
    else:
        error(f"{name}_complex", op, [SPECIAL_COMPLEX])
    plain(f"{name}_scalars", lambda op=op: (op(2), op(0.5), op(np.float32(0.5)), op(np.int8(1))))
    many(
        f"{name}_x64",
        lambda *xs, op=op: [op(x) for x in [*xs, 2, 0.5, np.float32(0.5)]],
        [
            np.asarray(points(name)).astype(d)
            for d in X64
            if name not in NO_COMPLEX or d != "complex128"
        ],
        x64=True,
    )
    error(f"{name}_list", lambda op=op: op([1.0]))
for name in INT_ONLY:
    op = getattr(jnp, name)
    many(f"{name}_ints", each(op), [values((5,), d, name) for d in INTS], vmap=True)
    plain(f"{name}_scalars", lambda op=op: (op(2), op(True)))
    error(f"{name}_float", op, [SPECIAL])
for decimals in (-1, 1, 3):
    case(
        f"round_{decimals}",
        lambda x, d=decimals: jnp.round(x, d),
        [values((7,), "float32", "r") * 13],
    )
    case(
        f"round_half_{decimals}",
        lambda x, d=decimals: jnp.round(x, d),
        [values((7,), "float16", "r") * 13],
    )
case("round_complex_decimals", lambda x: jnp.round(x, 1), [values((7,), "complex64", "r")])
error("round_int", lambda x: jnp.round(x, -1), [values((7,), "int32", "r")])
error("round_out", lambda x: jnp.round(x, 1, x), [values((7,), "float32", "r")])
case("angle_deg", lambda x: jnp.angle(x, deg=True), [values((7,), "complex64", "r")])

# Functions of two arrays

ARITHMETIC = "add subtract multiply divide maximum minimum fmax fmin power".split()
FLOATS = "float_power logaddexp logaddexp2 arctan2 hypot copysign heaviside nextafter".split()
QUOTIENTS = "floor_divide remainder mod fmod divmod".split()
COMPARISONS = "equal not_equal less less_equal greater greater_equal".split()
LOGIC = "logical_and logical_or logical_xor".split()
BITS = "bitwise_and bitwise_or bitwise_xor".split()
SHIFTS = "left_shift right_shift".split()
INT_OPS = [getattr(jnp, n) for n in BITS + SHIFTS]
REAL_PAIRS = {
    "arctan2",
    "hypot",
    "copysign",
    "heaviside",
    "nextafter",
    "ldexp",
    *QUOTIENTS,
}
POSITIVE_BASE = {"power", "float_power"}
CROSS = [("int8", "uint8"), ("int32", "float16"), ("uint32", "int32"),
         ("float16", "bfloat16"), ("bool", "float32"), ("float32", "complex64")]  # fmt: skip


def pair(name, dtypes, shape=(4,)):
    x, y = [values(shape, d, f"{name}{i}") for i, d in enumerate(dtypes)]
    if name in POSITIVE_BASE and x.dtype.kind != "b":
        x = np.abs(x) + x.dtype.type(1)
        y = np.abs(y) if y.dtype.kind in "iu" else y
    if name in QUOTIENTS and np.all([v.dtype.kind in "biu" for v in (x, y)]):
        y = np.where(y == 0, 1, y).astype(y.dtype)
    return [x, y]


for name in [*ARITHMETIC, *FLOATS, *QUOTIENTS, *COMPARISONS, *LOGIC, *BITS, *SHIFTS]:
    op = getattr(jnp, name)
    takes_floats = name not in BITS + SHIFTS
    smooth = name in ARITHMETIC + FLOATS and name not in ("heaviside", "nextafter")
    if takes_floats:
        x = values((2, 1, 3), "float32", name)
        y = values((4, 1), "float32", name + "y")
        if name in POSITIVE_BASE:
            x = np.abs(x) + 0.5
        case(
            f"{name}_real",
            op,
            [x, y],
            diff="both" if smooth else "",
            vmap=name in ARITHMETIC + FLOATS,
            numpy=getattr(np, name),
        )
        many(f"{name}_scalar_operand", lambda x, op=op: (op(x, 2), op(x, 2.5), op(3, x), op(x, np.float64(2)), op(x, True)), [np.abs(x)], diff="forward" if smooth else "")  # fmt: skip
        many(f"{name}_special", lambda x, y, op=op: op(x[:, None], y), [SPECIAL, SPECIAL], tol=1e-4)
        many(
            f"{name}_half",
            lambda *a, op=op: (op(*a[:2]), op(*a[2:4]), op(a[4], 1)),
            [*(v for d in HALF for v in pair(name, (d, d))), np.zeros((0, 3), np.float32)],
        )
        error(f"{name}_shapes", op, [np.ones((2, 3), np.float32), np.ones(4, np.float32)])
        error(
            f"{name}_same_rank",
            op,
            [np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)],
        )
        if name not in REAL_PAIRS:
            many(f"{name}_complex", op, pair(name, ("complex64", "complex64")), diff="both" if smooth and "fm" not in name and "imum" not in name else "")  # fmt: skip
        else:
            error(f"{name}_complex", op, pair(name, ("complex64", "complex64")))
    operands = []
    for a, b in CROSS:
        floats = a[0] in "fb" and a != "bool" or b[0] in "fc"
        if floats and not takes_floats or b == "complex64" and name in REAL_PAIRS:
            continue
        if not takes_floats and "int8" in (a, b) and a != b:
            continue  # the compiler fails on the conversion of such vectors
        operands += pair(name, (a, b))
    many(
        f"{name}_promotion",
        lambda *a, op=op: [op(*a[i : i + 2]) for i in range(0, len(a), 2)],
        operands,
    )
    dtypes = [d for d in INTS if (d, name) != ("bool", "subtract")]
    many(
        f"{name}_ints",
        lambda *a, op=op: [
            f(*a[i : i + 2]) for i in range(0, len(a), 2) for f in (op, lambda x, y: op(2, x))
        ],
        [x for d in dtypes for x in pair(name, (d, d))],
    )
    plain(f"{name}_python", lambda op=op: (op(1, 2), op(True, 3), *([op(1.5, 2), op(2, 0.5)] if op not in INT_OPS else [])))  # fmt: skip
    many(f"{name}_numpy_operand", lambda x, op=op: (op(x, np.int8(2)), op(np.arange(4), x)), [pair(name, ("int32", "int32"))[0]])  # fmt: skip
    many(f"{name}_x64", lambda *a, op=op: (op(*a[:2]), op(a[0], a[2]), op(a[0], 2), op(a[3], a[2])),
         [*pair(name, ("int64", "int64")), pair(name, ("int32", "int32"))[1], pair(name, ("uint32", "int8"))[0]], x64=True)  # fmt: skip
    if takes_floats:
        many(f"{name}_x64_floats", lambda *a, op=op: (op(*a[:2]), op(a[0], a[2]), op(a[2], 2.5), op(2, 0.5)),
             [*pair(name, ("float64", "float64")), pair(name, ("float32", "float32"))[1]], x64=True)  # fmt: skip
    error(f"{name}_list", lambda x, op=op: op(x, [1]), [np.ones(1, np.int32)])
    error(f"{name}_none", lambda x, op=op: op(None, x), [np.ones(1, np.int32)])


for dtypes in [("int32", "int32"), ("uint8", "uint8"), ("int8", "int8"), ("int32", "uint8")]:
    for name in ("gcd", "lcm"):
        x, y = (values((9,), d, name + d) * 6 for d in dtypes)
        case(f"{name}_{dtypes}", getattr(jnp, name), [x, y[:, None]], vmap=dtypes[0] == "uint8")
for name in ("gcd", "lcm"):
    plain(
        f"{name}_scalars",
        lambda n=name: (getattr(jnp, n)(12, 18), getattr(jnp, n)(0, 0), getattr(jnp, n)(-4, 6)),
    )
    error(f"{name}_float", getattr(jnp, name), [np.ones(2, np.float32), np.ones(2, np.int32)])
case(
    "ldexp",
    jnp.ldexp,
    [values((3, 4), "float32", "l"), values((4,), "int32", "l")],
    diff="both",
    vmap=True,
)
case("ldexp_large", jnp.ldexp, [SPECIAL, np.array([100] * 7 + [-100] * 7, np.int32)])
many("ldexp_half", jnp.ldexp, [values((4,), "float16", "l"), values((4,), "int32", "l")])
many(
    "ldexp_ints",
    lambda x: (jnp.ldexp(x, x), jnp.ldexp(2, x), jnp.ldexp(0.5, 3)),
    [values((4,), "int32", "l")],
)
error("ldexp", jnp.ldexp, [np.ones(2, np.float32), np.ones(2, np.float32)])
error("ldexp_complex", jnp.ldexp, [np.ones(2, np.complex64), np.ones(2, np.int32)])
case("frexp_subnormal", jnp.frexp, [np.array([1e-40, -1e-44, 1e-38, 2.0**127], np.float32)])
case(
    "power_integers",
    lambda x, y: (x**y, 2**y, y**3, y**0),
    [values((6,), "int32", "p"), np.arange(6, dtype=np.int32)],
)
case("power_integer_exponent", lambda x: (x**2, x**-2, x**0, x ** np.int32(3), x ** np.array(2), x**True, x ** jnp.array(3)),
     [values((6,), "float32", "p")], diff="both", vmap=True)  # fmt: skip
case("power_integer_array", lambda x, y: jnp.power(x, y), [np.abs(values((6,), "float32", "p")), np.arange(6, dtype=np.int32)], diff="both")  # fmt: skip
case(
    "power_of_bools",
    lambda x, y: (x**y, x**2, jnp.power(y, 2.0)),
    [values((6,), "bool", "p"), values((6,), "bool", "q")],
)
error("power_negative", lambda x: x**-1, [np.arange(3, dtype=np.int32)])
case("power_zero", lambda x: x**2.0, [np.zeros(3, np.float32)], diff="both")
case("sinc_zero", jax.grad(jax.grad(jax.grad(jnp.sinc))), [np.float32(0)])
case("logaddexp_infinite", lambda x, y: (jnp.logaddexp(x, y), jnp.logaddexp2(x, y)),
     [np.array([-np.inf, -np.inf, np.inf, 0], np.float32), np.array([-np.inf, 1, np.inf, -np.inf], np.float32)], diff="both")  # fmt: skip
case("hypot_zero", jnp.hypot, [np.zeros(3, np.float32), np.ones(3, np.float32)], diff="both")

ALIASES = "radians degrees conjugate abs acos acosh asin asinh atan atanh around bitwise_not bitwise_invert"
for name in ALIASES.split():
    x = np.arange(4, dtype=np.int32) if "bitwise" in name else np.full(3, 0.5, np.float32)
    case(name, lambda x, op=getattr(jnp, name): (op(x), op(x[0])), [x])
    error(f"{name}_list", lambda op=getattr(jnp, name): op([1.0]))
for name in "true_divide pow atan2 bitwise_left_shift bitwise_right_shift".split():
    x = np.arange(1, 4, dtype=np.int32)
    case(name, lambda x, op=getattr(jnp, name): (op(x, x), op(x, 2)), [x])
    error(f"{name}_list", lambda x, op=getattr(jnp, name): op(x, [1, 2, 3]), [x])

# Operators

OPERATORS = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y, "floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y,
    "divmod": lambda x, y: divmod(x, y), "pow": lambda x, y: x**y, "matmul": lambda x, y: x @ y,
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip
for name, op in OPERATORS.items():
    x, y = (
        np.abs(values((3, 3), "float32", name)) + 1,
        np.abs(values((3, 3), "float32", name + "y")) + 1,
    )
    case(
        f"operator_{name}",
        lambda x, y, op=op: op(jnp.asarray(x), jnp.asarray(y)),
        [x, y],
        vmap=name != "matmul",
    )
    case(
        f"operator_{name}_reflected",
        lambda x, y, op=op: (op(y, jnp.asarray(x)), op(np.ones((3, 3)), jnp.asarray(x))),
        [x, y],
    )
    if name != "matmul":
        plain(f"operator_{name}_python", lambda x, op=op: (op(jnp.asarray(x), 2), op(3, jnp.asarray(x)), op(jnp.asarray(x), 2.5), op(np.float32(2), jnp.asarray(x))), [x])  # fmt: skip
    for other in ([1.0, 2.0, 3.0], (1.0,), {"a": 1}):
        error(
            f"operator_{name}_{type(other).__name__}",
            lambda x, op=op, o=other: op(jnp.asarray(x), o),
            [x],
        )
    if name not in ("eq", "ne"):
        error(f"operator_{name}_str", lambda x, op=op: op(jnp.asarray(x), "a"), [x])
case("operator_bits", lambda x, y: (x & y, x | y, x ^ y, x << 1, x >> 1, ~x, 5 & x, 5 | x, 5 ^ x, 1 << y, 64 >> y),
     [np.arange(6, dtype=np.int32), np.arange(6, dtype=np.int32)[::-1].copy()])  # fmt: skip
case("operator_unary", lambda x: (-jnp.asarray(x), +jnp.asarray(x), abs(jnp.asarray(x)), round(jnp.asarray(x)), round(jnp.asarray(x), 1)),
     [values((4,), "float32", "u")], diff="both")  # fmt: skip
error("operator_iadd_list", lambda x: jnp.asarray(x).__iadd__([1]), [np.ones(3, np.float32)])
error("setitem", lambda x: jnp.asarray(x).__setitem__(0, 1), [np.ones(3, np.float32)])

# Methods of ufuncs

BINARY = "add multiply subtract maximum minimum bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor logaddexp logaddexp2".split()  # fmt: skip
for name in BINARY:
    op = getattr(jnp, name)
    dtype = "int32" if "bitwise" in name else "float32"
    x = values((3, 4), dtype, name)
    many(f"{name}_reduce", lambda x, op=op: (op.reduce(x), op.reduce(x, axis=1), op.reduce(x, axis=-1, keepdims=True), op.reduce(x, axis=None)), [x])  # fmt: skip
    logical, log = "logical" in name, "logadd" in name
    if not log:  # the reference fails there, as it does on some dtypes of the next ones
        many(f"{name}_reduce_initial", lambda x, op=op: op.reduce(x, initial=1), [x])
    if not log and not logical:
        case(
            f"{name}_reduce_where",
            lambda x, w, op=op: op.reduce(x, axis=1, initial=1, where=w),
            [x, values((3, 4), "bool", "w")],
        )
    if not log and not logical and name != "maximum":
        case(
            f"{name}_reduce_dtype",
            lambda x, op=op, d=dtype: op.reduce(x, dtype=d),
            [x.astype(np.int8 if dtype == "int32" else np.float16)],
        )
    many(f"{name}_accumulate", lambda x, op=op: (op.accumulate(x), op.accumulate(x, axis=1)), [x])
    case(f"{name}_outer", lambda x, y, op=op: op.outer(x, y), [x, x[0]])
    if not logical:  # whose dtypes are NumPy's here
        many(
            f"{name}_at",
            lambda x, op=op: (op.at(x, 0, 1, inplace=False), op.at(x, (0, 1), 2, inplace=False)),
            [x],
        )
        case(
            f"{name}_at_repeated",
            lambda x, op=op: op.at(x[0], jnp.array([0, 0, 2]), x[1, :3], inplace=False),
            [x],
        )
        many(
            f"{name}_reduceat",
            lambda x, op=op: (
                op.reduceat(x[0], jnp.array([0, 2])),
                op.reduceat(x, jnp.array([2, 0, 1]), axis=1),
            ),
            [x],
        )
    case(
        f"{name}_properties",
        lambda op=op: (op.nin, op.nout, op.nargs, op.identity is None or op.identity),
    )
    error(f"{name}_at", lambda x, op=op: op.at(x, 0, 1), [x])
    error(f"{name}_out", lambda x, op=op: op(x, x, out=x), [x])
many(
    "negative_at",
    lambda x: jnp.negative.at(x, jnp.array([0, 0, 1]), inplace=False),
    [values((3, 4), "float32", "n")],
)
error("negative_reduce", lambda x: jnp.negative.reduce(x), [values((3, 4), "float32", "n")])


def affine(x, y):
    return x * y + 1


USER = jnp.frompyfunc(affine, 2, 1, identity=1)
case("frompyfunc", lambda x, y: (USER(x, y), USER(x, 2), USER.outer(x[0], x[1])), [values((3, 4), "float32", "f"), values((4,), "float32", "g")], diff="both", vmap=True)  # fmt: skip
many("frompyfunc_reduce", lambda x: (USER.reduce(x), USER.reduce(x, axis=1, keepdims=True), USER.reduce(x, initial=5.0)), [values((3, 4), "float32", "f")], diff="both")  # fmt: skip
case(
    "frompyfunc_where",
    lambda x, w: USER.reduce(x, where=w),
    [values((3, 4), "float32", "f"), values((3, 4), "bool", "f")],
)
many(
    "frompyfunc_accumulate",
    lambda x: (USER.accumulate(x), USER.accumulate(x, axis=1)),
    [values((3, 4), "float32", "f")],
)
many(
    "frompyfunc_at",
    lambda x: USER.at(x, jnp.array([0, 0, 2]), x, inplace=False),
    [values((3, 4), "float32", "f")],
)
many(
    "frompyfunc_reduceat",
    lambda x: USER.reduceat(x, jnp.array([0, 2, 1])),
    [values((3, 4), "float32", "f")],
)
case(
    "frompyfunc_two",
    lambda x: jnp.frompyfunc(lambda v: (v, v + 1), 1, 2)(x),
    [values((3, 4), "float32", "f")],
)
error(
    "reduce_tuple",
    lambda x: jnp.subtract.reduce(x, axis=(0, 1)),
    [values((3, 4), "float32", "f")],
)
error(
    "reduce_where",
    lambda x: jnp.subtract.reduce(x, where=x > 0),
    [values((3, 4), "float32", "f")],
)
error("reduce_empty", lambda x: jnp.subtract.reduce(x), [np.zeros((0, 3), np.float32)])
case("reduce_empty", lambda x: (USER.reduce(x), USER.accumulate(x)), [np.zeros((0, 3), np.float32)])
