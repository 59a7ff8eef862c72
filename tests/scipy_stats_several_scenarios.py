"""Programs with the distributions of several variables, kernel density estimates and summaries of `jax.scipy.stats`.

A program compiles many calls together; types of results and classes of errors are those of calls that compute nothing.
"""

import functools

import numpy as np
from op_cases import Programs
from quickly import QUICKLY

import jax
import jax.numpy as jnp
import jax.scipy.stats as stats

CASES = Programs()
RANDOM = np.random.RandomState(0)
f32 = lambda *values: np.array(values, np.float32)
normal = lambda *shape: RANDOM.randn(*shape).astype(np.float32)


def together(**calls):
    """A program with the results of several calls that take no arguments, compiled at once."""
    run = jax.jit(lambda: {name: call() for name, call in calls.items()}, compiler_options=QUICKLY)
    return lambda: run()


def types(calls):
    """What each call returns, or which error it raises."""
    out = []
    for call in calls:
        try:
            made = jax.tree.leaves(jax.eval_shape(call))
            out.append([f"{x.dtype}{list(x.shape)}{' weak' * x.weak_type}" for x in made])
        except Exception as err:
            out.append(type(err).__name__)
    return out


def add(name, calls, kinds, **options):
    """Results of `calls`, which are given by name; types of calls without names."""
    CASES.add(name, together(**calls), **options)
    CASES.add(f"{name}_types", functools.partial(types, kinds))


# Distributions of several variables

ALPHA = f32(1.5, 2, 0.7)
SIMPLEX = f32([0.2, 0.3, 0.5], [0.1, 0.1, 0.8], [0, 0.5, 0.5], [0.5, 0.6, 0.5], [1, 0, 0])
for name in ("pdf", "logpdf"):
    fun = getattr(stats.dirichlet, name)
    calls = {
        "rows": lambda f=fun: [f(x, ALPHA) for x in SIMPLEX],
        "columns": lambda f=fun: f(SIMPLEX.T, ALPHA),
        "without_the_last": lambda f=fun: f(SIMPLEX[:2, :2].T, ALPHA),
        "gradients": lambda f=fun: jax.grad(f, (0, 1))(SIMPLEX[0], ALPHA),
        "jvp": lambda f=fun: jax.jvp(f, (SIMPLEX[0], ALPHA), (SIMPLEX[1], ALPHA)),
        "batch": lambda f=fun: jax.vmap(f, (0, None))(jnp.array(SIMPLEX), ALPHA),
        "batch_of_parameters": lambda f=fun: jax.vmap(f, (None, 0))(
            SIMPLEX[0], np.stack([ALPHA, 2 * ALPHA])
        ),
        "at_the_edge": lambda f=fun: f(f32(0, 0.5, 0.5), np.ones(3, np.float32)),
        "integers": lambda f=fun: f(SIMPLEX[0], np.array([1, 2, 3])),
        "outside": lambda f=fun: f(SIMPLEX[0], f32(1, -1, 2)),
    }
    kinds = [
        lambda f=fun: f([0.2, 0.8], [1, 2]),
        lambda f=fun: f(jnp.ones(3, "bfloat16"), jnp.ones(3, "bfloat16")),
        lambda f=fun: f(SIMPLEX[0], np.ones((3, 3), np.float32)),
        lambda f=fun: f(SIMPLEX[0, :2], np.ones(4, np.float32)),
    ]
    add(f"dirichlet_{name}", calls, kinds, tol=1e-5)

COUNTS, P = np.array([2, 1, 3]), f32(0.2, 0.3, 0.5)
for name in ("pmf", "logpmf"):
    fun = getattr(stats.multinomial, name)
    calls = {
        "plain": lambda f=fun: f(COUNTS, 6, P),
        "wrong_sum": lambda f=fun: f(COUNTS, 7, P),
        "negative": lambda f=fun: f(np.array([-1, 1, 6]), 6, P),
        "impossible": lambda f=fun: f(COUNTS, 6, f32(0, 0.5, 0.5)),
        "zero_probability": lambda f=fun: f(np.array([0, 3, 3]), 6, f32(0, 0.5, 0.5)),
        "large": lambda f=fun: f(np.array([400, 300, 300]), 1000, P),
        "gradient": lambda f=fun: jax.grad(lambda p: f(COUNTS, 6, p))(P),
        "batch": lambda f=fun: jax.vmap(f, (0, None, None))(np.stack([COUNTS, COUNTS[::-1]]), 6, P),
    }
    kinds = [
        lambda f=fun: f([2, 1, 3], 6, [0.2, 0.3, 0.5]),
        lambda f=fun: f(COUNTS, 6, P.astype("float16")),
        lambda f=fun: f(COUNTS + 0.5, 6, P),
        lambda f=fun: f(COUNTS, 6.5, P),
        lambda f=fun: f(COUNTS, 6, np.stack([P, P])),
    ]
    add(f"multinomial_{name}", calls, kinds, tol=1e-4)

COV, MEAN, POINTS = f32([2, 0.3], [0.3, 1]), f32(0.1, -0.2), normal(4, 2)
for name in ("pdf", "logpdf"):
    fun = getattr(stats.multivariate_normal, name)
    calls = {
        "point": lambda f=fun: f(POINTS[0], MEAN, COV),
        "points": lambda f=fun: f(POINTS, MEAN, COV),
        "numbers": lambda f=fun: f(0.3, 0.1, 2.0),
        "variance": lambda f=fun: f(POINTS, MEAN, np.float32(2)),
        "of_numbers": lambda f=fun: f(POINTS[:, 0], np.float32(0.1), np.float32(2)),
        "means": lambda f=fun: f(POINTS[0], POINTS, COV),
        "covariances": lambda f=fun: f(POINTS[:2], MEAN, np.stack([COV, 2 * COV])),
        "three_dimensions": lambda f=fun: f(np.stack([POINTS, -POINTS]), MEAN, COV),
        "one_number": lambda f=fun: f(np.ones((3, 1)), np.zeros(1), np.ones((1, 1))),
        "indefinite": lambda f=fun: f(POINTS, MEAN, -COV),
        "nan": lambda f=fun: f(POINTS * np.nan, MEAN, COV),
        "integers": lambda f=fun: f(np.array([1, 2]), np.array([0, 0]), np.eye(2, dtype=int)),
        "gradients": lambda f=fun: jax.grad(f, (0, 1, 2))(POINTS[0], MEAN, COV),
        "jvp": lambda f=fun: jax.jvp(f, (POINTS[0], MEAN, COV), (MEAN, MEAN, COV)),
        "hessian": lambda f=fun: jax.hessian(f)(POINTS[0], MEAN, COV),
        "batch": lambda f=fun: jax.vmap(f, (0, None, 0))(POINTS, MEAN, np.stack([COV] * 4)),
        "regular": lambda f=fun: f(POINTS, MEAN, COV, allow_singular=False),
    }
    kinds = [
        lambda f=fun: f([1.0, 2], [0.0, 0], [[1.0, 0], [0, 1]]),
        lambda f=fun: f(POINTS, MEAN, np.eye(3)),
        lambda f=fun: f(POINTS, np.ones(3), COV),
        lambda f=fun: f(POINTS, MEAN, f32(1, 2)),
        lambda f=fun: f(POINTS, MEAN, COV, allow_singular=True),
        lambda f=fun: f(POINTS, MEAN),
    ]
    add(f"multivariate_normal_{name}", calls, kinds, tol=1e-4)

# Kernel density estimates

LINE, PLANE, WEIGHTS = normal(12), normal(2, 12), RANDOM.rand(12).astype(np.float32)
NEAR = normal(2, 5)
ESTIMATES = {
    "line": (LINE,),
    "plane": (PLANE,),
    "silverman": (PLANE, "silverman"),
    "scott": (PLANE, "scott"),
    "factor": (PLANE, 0.3),
    "chosen": (PLANE, lambda kde: kde.neff ** (-1 / 3)),
    "weighted": (PLANE, None, WEIGHTS),
    "weighted_line": (LINE, 0.5, WEIGHTS),
}


def estimates(make, points):
    kde = make()
    out = {
        "pdf": kde.pdf(points),
        "call": kde(points),
        "evaluate": kde.evaluate(points[:, 0]),
        "logpdf": kde.logpdf(points),
        "attributes": (kde.d, kde.n, kde.neff, kde.covariance, kde.inv_cov, kde.weights, kde.dataset),
        "gaussian": kde.integrate_gaussian(points[:, 0], 0.5 * np.eye(len(points))),
        "kde": kde.integrate_kde(kde),
        "gradient": jax.grad(lambda x: kde.logpdf(x).sum())(points),
        "batch": jax.vmap(kde.pdf, 1)(points[..., None]),
        "leaves": jax.tree.leaves(kde),
    }  # fmt: skip
    if kde.d == 1:
        out["box"] = kde.integrate_box_1d(-0.5, 1.0), kde.integrate_box_1d(-jnp.inf, jnp.inf)
    return out


for name, arguments in ESTIMATES.items():
    make = functools.partial(stats.gaussian_kde, *arguments)
    points = NEAR[:1] if "line" in name else NEAR
    CASES.add(f"kde_{name}", together(**{"": functools.partial(estimates, make, points)}), tol=1e-4)
    CASES.add(
        f"kde_{name}_samples",
        together(
            given=lambda m=make: m().resample(jax.random.key(0), (3,)),
            others=lambda m=make: m().resample(jax.random.key(1), shape=(2, 2)),
            all=lambda m=make: m().resample(jax.random.key(2)),
        ),
        tol=1e-4,
    )
CASES.add(
    "kde_gradient_of_data",
    together(
        data=lambda: jax.grad(lambda d: stats.gaussian_kde(d).logpdf(NEAR).sum())(PLANE),
        weights=lambda: jax.grad(lambda w: stats.gaussian_kde(PLANE, weights=w).logpdf(NEAR).sum())(
            WEIGHTS
        ),
    ),
    tol=1e-4,
)
KDE_ERRORS = [
    lambda: stats.gaussian_kde(np.ones(1)).d,
    lambda: stats.gaussian_kde(LINE, weights=WEIGHTS[:3]).d,
    lambda: stats.gaussian_kde(LINE, weights=np.ones((12, 2))).d,
    lambda: stats.gaussian_kde(LINE, "x").d,
    lambda: stats.gaussian_kde(3.0).d,
    lambda: stats.gaussian_kde(LINE + 1j).d,
    lambda: stats.gaussian_kde([1.0, 2, 3]).d,
    lambda: stats.gaussian_kde(LINE).integrate_kde(stats.gaussian_kde(PLANE)),
    lambda: stats.gaussian_kde(PLANE).integrate_gaussian(np.ones(5), np.eye(5)),
    lambda: stats.gaussian_kde(PLANE).pdf(np.ones((3, 4))),
    lambda: stats.gaussian_kde(PLANE).integrate_box_1d(0, 1),
    lambda: stats.gaussian_kde(PLANE).integrate_box([0, 0], [1, 1]),
    lambda: stats.gaussian_kde(PLANE).set_bandwidth(0.3),
    lambda: stats.gaussian_kde(LINE, jnp.ones(2)).covariance,
    lambda: stats.gaussian_kde(np.arange(5)).pdf(f32(1, 2)),
]
CASES.add("kde_errors", functools.partial(types, KDE_ERRORS))

# Summaries

WHOLE = RANDOM.randint(0, 4, (4, 5))
GAPS = WHOLE.astype(np.float32)
GAPS[1, 2] = np.nan
DATA = {
    "whole": WHOLE,
    "gaps": GAPS,
    "line": WHOLE[0],
    "number": np.float32(3),
    "truths": WHOLE > 1,
    "bytes": WHOLE.astype(np.uint8),
    "block": RANDOM.randint(0, 3, (2, 3, 4)),
}
AXES = [{}, {"axis": 1}, {"axis": None}, {"axis": -1, "keepdims": True}, {"keepdims": True}]
POLICIES = [{"nan_policy": p} for p in ("propagate", "omit", "raise", "x")]
CHOICES = {
    "mode": AXES + POLICIES,
    "rankdata": [{"method": m} for m in ("average", "min", "max", "dense", "ordinal", "x")]
    + [{"axis": 0}, {"axis": 1, "method": "min"}, {"axis": -1, "method": "dense"}, *POLICIES],
    "sem": [*AXES, {"ddof": 0}, {"ddof": 3}, {"axis": 1, "nan_policy": "omit"}, *POLICIES],
}  # fmt: skip


def summaries(name):
    """The results of calls that raise no error, in one program, and the classes of the errors."""
    fun, calls, errors = getattr(stats, name), {}, []
    for kind, x in DATA.items():
        for choice in CHOICES[name]:
            call = functools.partial(fun, x, **choice)
            try:
                jax.eval_shape(call)
                calls[f"{kind} {choice}"] = call
            except (
                IndexError
            ):  # what the reference raises for a wrong axis; NumPy's is a ValueError
                pass
            except Exception as err:
                errors.append(f"{kind} {choice}: {type(err).__name__}")
    calls["batch"] = lambda: jax.vmap(fun)(GAPS)
    if name == "sem":
        calls["gradient"] = lambda: jax.grad(lambda x: fun(x).sum())(GAPS)
        errors = [e for e in errors if not e.startswith("number") and "'axis': 1" not in e]
    return together(**calls)(), errors


for name in CHOICES:
    CASES.add(name, functools.partial(summaries, name), tol=1e-5)
