"""Cases for the reductions, cumulative functions and quantiles of jax.numpy."""

import numpy as np
from op_cases import Case, values

import jax
import jax.numpy as jnp

CASES: list[Case] = []
INTS = ["int8", "int32", "uint8", "uint32", "bool"]
X64 = ["int8", "int32", "int64", "uint8", "uint64", "bool", "float32", "float64", "complex128"]
SPECIAL = np.array([[0.0, 1, np.nan, -2], [np.inf, 3, -np.inf, 1], [np.nan] * 4], np.float32)


def case(name, fun, args=(), diff="", vmap=False, **kwargs):
    CASES.append(Case(name, fun, list(args), diff=diff, vmap=vmap, **kwargs))


def many(name, fun, args=(), **kwargs):
    """A case of many calls, compiled as one program."""
    case(name, fun, args, ignore=("eager",), **kwargs)


def error(name, fun, args=(), **kwargs):
    """An error of the plain call."""
    case(f"error_{name}", fun, args, ignore=("jit",), **kwargs)


def each(op):
    return lambda *xs: tuple(op(x) for x in xs)


WITH_INITIAL = "sum prod max min amax amin nansum nanprod nanmax nanmin".split()
WITH_DTYPE = "sum prod mean std var nansum nanprod nanmean nanstd nanvar".split()
VARIANCES = "std var nanstd nanvar".split()
LOGICAL = "all any count_nonzero".split()
MEDIANS = "median nanmedian".split()
WITHOUT_WHERE = ["ptp", "count_nonzero", "average", *MEDIANS]
REDUCTIONS = [*dict.fromkeys([*WITH_INITIAL, *WITH_DTYPE, *LOGICAL, "ptp", "average", *MEDIANS])]

x = values((2, 3, 4), "float32", "reductions")
mask = values((2, 3, 4), "bool", "mask")
for name in REDUCTIONS:
    op = getattr(jnp, name)
    smooth = "both" if name not in LOGICAL else ""
    case(f"{name}_all", op, [x], diff=smooth, vmap=True)
    many(
        f"{name}_axes",
        lambda x, op=op: (op(x, axis=1), op(x, axis=-1), op(x, axis=(0, 2))),
        [x],
    )
    many(
        f"{name}_keepdims",
        lambda x, op=op: (op(x, axis=1, keepdims=True), op(x, keepdims=True)),
        [x],
    )
    many(f"{name}_special", lambda x, op=op: (op(x), op(x, axis=1)), [SPECIAL])
    many(
        f"{name}_half",
        each(op),
        [x.astype(d) for d in (np.float16,)] + [values((5,), "bfloat16", name)],
    )
    many(
        f"{name}_ints",
        each(op),
        [values((5,), d, name) for d in INTS if (d, name) != ("bool", "ptp")],
    )
    many(f"{name}_x64", each(op), [values((5,), d, name) for d in X64 if (d, name) != ("bool", "ptp") and not (d[0] == "c" and name in MEDIANS)], x64=True)  # fmt: skip
    case(
        f"{name}_scalars",
        lambda op=op: (op(2), op(2.5), op(np.float32(1)), op(jnp.full((2,), 1.5))),
    )
    if name not in MEDIANS:
        case(f"{name}_complex", op, [values((2, 3), "complex64", name)], diff=smooth if name in ("sum", "prod", "mean", "average") else "")  # fmt: skip
        case(f"{name}_empty_axis", lambda x, op=op: op(x, axis=1), [np.zeros((0, 3), np.float32)])
    if name not in WITHOUT_WHERE:
        kwargs = {"initial": 2} if "max" in name or "min" in name else {}
        many(f"{name}_where", lambda x, w, op=op, k=kwargs: (op(x, where=w, **k), op(x, axis=1, where=w, **k), op(x, axis=0, where=w[0], **k)), [x, mask])  # fmt: skip
        error(f"{name}_where", lambda x, op=op: op(x, where=jnp.ones(3)), [x])
    if name in WITH_INITIAL:
        case(f"{name}_initial", lambda x, i, op=op: (op(x, initial=1), op(x, axis=1, initial=2.5), op(i, initial=2)), [x, values((5,), "int8", name)])  # fmt: skip
        error(f"{name}_initial", lambda x, op=op: op(x, initial=jnp.ones(3)), [x])
    if name in WITH_DTYPE:
        targets = (
            ("float16", "float32")
            if name in VARIANCES
            else ("int32", "int8", "float16", "complex64")
        )
        many(f"{name}_dtype", lambda x, i, op=op, t=targets: tuple(op(v, dtype=d) for d in t for v in (x, i)), [np.abs(x), values((5,), "int32", name)])  # fmt: skip
    if name in VARIANCES:
        many(
            f"{name}_ddof",
            lambda x, op=op: (op(x, ddof=1), op(x, axis=1, ddof=3), op(x, axis=0, ddof=0.5)),
            [x],
        )
        case(f"{name}_mean", lambda x, op=op: op(x, axis=1, mean=jnp.ones((2, 1, 4))), [x])
    if name != "average":  # the reference raises whatever its conversion to NumPy raises
        error(f"{name}_list", lambda op=op: op([1, 2]))
    if name not in ("mean", "var", "std"):  # the reference raises an IndexError there
        error(f"{name}_axis", lambda x, op=op: op(x, axis=3), [x])
    error(f"{name}_repeated_axis", lambda x, op=op: op(x, axis=(0, 0)), [x])
    if name != "count_nonzero" and name != "average":
        error(f"{name}_out", lambda x, op=op: op(x, out=x), [x])
for name in ("sum", "prod", "max", "min", "all", "any"):
    case(f"{name}_axis_list", lambda x, n=name: getattr(jnp, n)(x, axis=[0, 1]), [x])
for name in ("mean", "nanmean", "var", "nanvar"):
    error(f"{name}_bool", lambda x, n=name: getattr(jnp, n)(x, dtype=bool), [x])
case("var_of_truncated", lambda x: (jnp.var(x, dtype="int8"), jnp.nanvar(x, dtype="int32"), jnp.var(x, dtype="complex64")), [x])  # fmt: skip


def mapped(op, **kwargs):
    """The reduction over mapped axes and others; of few elements too, since compiled parts are kept."""

    def fun(x):
        by = lambda axis: lambda x: op(x, axis=axis, **kwargs)
        axes = ("i", ("i", 0), (-1, "i"))
        return [jax.vmap(by(a), axis_name="i")(v) for a in axes for v in (x, x[:1])]

    return fun


for name in "sum max min mean var std ptp nansum nanmean nanvar count_nonzero".split():
    case(f"mapped_{name}", mapped(getattr(jnp, name)), [x])
many("mapped_sum_keepdims", mapped(jnp.sum, keepdims=True), [x])
many("mapped_sum_where", mapped(jnp.sum, where=mask[0], initial=2), [x])
case("mapped_max_of_bools", mapped(jnp.max), [x > 0])
for name in "softmax log_softmax standardize logsumexp logmeanexp".split():
    case(f"mapped_{name}", mapped(getattr(jax.nn, name)), [x])
error("unmapped", lambda x: jnp.sum(x, axis="i"), [x])
for name in ("max", "min", "ptp"):
    error(f"{name}_empty", getattr(jnp, name), [np.zeros((0, 3), np.float32)])
for name in ("max", "min"):
    case(f"{name}_ties", getattr(jnp, name), [np.array([1, 3, 3, 1], np.float32)], diff="both")
    error(f"{name}_where_initial", lambda x, n=name: getattr(jnp, n)(x, where=x > 0), [x])
case("sum_small_integers", lambda a, b: (jnp.sum(a, promote_integers=False), jnp.prod(b, promote_integers=False)),
     [values((5,), "int8", "s"), values((5,), "uint16", "s")])  # fmt: skip
case("var_correction", lambda x: (jnp.var(x, correction=1), jnp.std(x, correction=1)), [x])
error("var_correction", lambda x: jnp.var(x, correction=1, ddof=1), [x])
error(
    "var_complex_dtype",
    lambda x: jnp.var(x, dtype="float32"),
    [values((3,), "complex64", "v")],
)
case("methods", lambda x: (x := jnp.asarray(x)) is None or (x.sum(0), x.mean(), x.max(1), x.std(), x.any(), x.prod(1), x.cumsum(0), x.ptp()), [x])  # fmt: skip

w = np.abs(values((2, 3), "float32", "weights"))
a = values((2, 3), "float32", "average")
case("average_weights", lambda a, w: jnp.average(a, weights=w), [a, w], diff="both")
case("average_axis", lambda a, w: jnp.average(a, axis=1, weights=w[0], returned=True), [a, w])
many(
    "average_weighted_axes",
    lambda a, w: jnp.average(a, axis=(1, 0), weights=w.T, keepdims=True),
    [a, w],
)
case("average_returned", lambda a: jnp.average(a, axis=1, returned=True, keepdims=True), [a])
error("average_shape", lambda a: jnp.average(a, weights=jnp.ones(3)), [a])
error("average_size", lambda a: jnp.average(a, axis=1, weights=jnp.ones(2)), [a])

for name in "cumsum cumprod nancumsum nancumprod".split():
    op = getattr(jnp, name)
    case(
        f"{name}_axis",
        lambda x, op=op: (op(x), op(x, axis=1), op(x, axis=-1)),
        [a],
        diff="both",
        vmap=True,
    )
    many(f"{name}_ints", each(op), [values((5,), d, name) for d in INTS])
    many(f"{name}_x64", each(op), [values((5,), d, name) for d in X64], x64=True)
    many(f"{name}_special", op, [SPECIAL])
    many(
        f"{name}_dtype",
        lambda x, op=op: (op(x, dtype=int), op(x, dtype="float16"), op(x > 0, dtype=bool)),
        [a],
    )
    case(f"{name}_scalar", lambda op=op: (op(2), op(2.5), op(jnp.full((2,), 1.5))))
    error(f"{name}_list", lambda op=op: op([1]))
    error(f"{name}_axis", lambda x, op=op: op(x, axis=5), [a])
for name in "cumulative_sum cumulative_prod".split():
    op = getattr(jnp, name)
    many(f"{name}_ints", each(op), [values((5,), d, name) for d in INTS])
    case(
        f"{name}_initial",
        lambda x, op=op: (op(x, axis=1, include_initial=True), op(x, axis=0, dtype=int)),
        [a],
    )
    error(f"{name}_scalar", lambda op=op: op(1))
    error(f"{name}_axis", lambda x, op=op: op(x), [a])

q = np.array([0.0, 0.2, 0.5, 1.0], np.float32)
for method in "linear lower higher midpoint nearest inverted_cdf".split():
    for name in ("quantile", "nanquantile"):
        op = getattr(jnp, name)
        case(f"{name}_{method}", lambda x, q, op=op, m=method: (op(x, q, method=m), op(x, q, axis=1, method=m), op(x, 0.3, axis=(0, 2), keepdims=True, method=m)), [x, q])  # fmt: skip
        many(
            f"{name}_{method}_special",
            lambda x, q, op=op, m=method: op(x, q, axis=1, method=m),
            [SPECIAL, q],
        )
case("quantile_derivative", lambda x: jnp.quantile(x, 0.3, axis=1), [x], diff="both", vmap=True)
many("quantile_half", lambda x, i: (jnp.quantile(x, 0.3), jnp.quantile(i, 0.3), jnp.percentile(i, 30.0)), [x.astype(np.float16), values((5,), "int32", "q")])  # fmt: skip
case("percentile", lambda x: (jnp.percentile(x, 30), jnp.percentile(x, jnp.array([10.0, 90.0]), axis=1), jnp.nanpercentile(x, 30.0)), [x])  # fmt: skip
case("quantile_weights", lambda a, w: (jnp.quantile(a, 0.3, weights=w, method="inverted_cdf"), jnp.quantile(a, 0.3, axis=1, weights=w[0], method="inverted_cdf")), [a, w])  # fmt: skip
error("quantile_method", lambda a: jnp.quantile(a, 0.5, method="foo"), [a])
error("quantile_q", lambda a: jnp.quantile(a, jnp.ones((2, 2))), [a])
error("quantile_complex", lambda a: jnp.quantile(a, 0.5), [values((3,), "complex64", "q")])
error("quantile_weights", lambda a, w: jnp.quantile(a, 0.5, weights=w), [a, w])
