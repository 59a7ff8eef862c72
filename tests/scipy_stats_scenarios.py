"""Programs with the distributions of `jax.scipy.stats`: values and derivatives inside of the support, types, errors.

Tails, the ends of the support and invalid parameters are compared with SciPy, in scipy_stats_test.py.
"""

import functools

import numpy as np
from op_cases import Programs
from quickly import QUICKLY

import jax
import jax.numpy as jnp
import jax.scipy.stats as stats

CASES = Programs()
DENSITIES, MASSES = ("pdf", "logpdf"), ("pmf", "logpmf")
TAILS = ("cdf", "logcdf", "sf", "logsf")
QUANTILES = ("ppf", "isf")
# Of each distribution, an argument and parameters, as columns; location and scale, where there are, come last.
CONTINUOUS = {
    "norm": [(0.3, -1.7, 2.6), (0.1, 0, -1), (1.5, 1, 0.7)],
    "expon": [(0.7, 1.9, 2.6), (0.1, 0, -1), (1.5, 1, 0.7)],
    "cauchy": [(0.3, -1.7, 2.6), (0.1, 0, -1), (1.5, 1, 0.7)],
    "laplace": [(0.3, -1.7, 2.6), (0.1, 0, -1), (1.5, 1, 0.7)],
    "logistic": [(0.3, -1.7, 2.6), (0.1, 0, -1), (1.5, 1, 0.7)],
    "uniform": [(0.3, 0.6, -0.6), (0.1, 0, -1), (1.5, 1, 0.7)],
    "gumbel_l": [(0.3, -1.7, 0.6), (0.1, 0, -1), (1.5, 1, 0.7)],
    "gumbel_r": [(0.3, -1.2, 2.6), (0.1, 0, -1), (1.5, 1, 0.7)],
    "t": [(0.3, -1.7, 2.6), (4.2, 1.5, 20), (0.1, 0, -1), (1.5, 1, 0.7)],
    "chi2": [(2.5, 1.7, 2.6), (7.3, 1.5, 3), (0.1, 0, -1), (1.5, 1, 0.7)],
    "gamma": [(2.5, 1.7, 2.6), (3.3, 0.7, 5), (0.1, 0, -1), (1.5, 1, 0.7)],
    "pareto": [(3.5, 1.7, 2.6), (2.5, 0.7, 5), (0.1, 0, -1), (1.5, 1, 0.7)],
    "beta": [(0.5, 0.7, -0.6), (3.3, 0.7, 2), (5.2, 1.5, 3), (0.1, 0, -1), (1.5, 1, 0.7)],
    "truncnorm": [(0.3, 0.7, -0.6), (-1.2, -0.5, -2), (2.5, 1.5, 3), (0.1, 0, -1), (1.5, 1, 0.7)],
    "gennorm": [(0.7, -1.2, 0.3), (1.5, 2.5, 0.8)],
    "vonmises": [(0.7, -1.2, 3), (2.5, 0.3, 9)],
    "wrapcauchy": [(0.7, 2.2, 5), (0.4, 0.1, 0.8)],
}
DISCRETE = {
    "bernoulli": [(1, 0, 1), (0.3, 0.6, 0.9)],
    "binom": [(3, 0, 20), (7, 4, 20), (0.3, 0.6, 0.9)],
    "nbinom": [(3, 0, 9), (7.5, 2, 4), (0.3, 0.6, 0.9)],
    "geom": [(3, 1, 9), (0.3, 0.6, 0.9)],
    "poisson": [(3, 0, 9), (2.5, 0.7, 6)],
    "betabinom": [(3, 0, 9), (7, 4, 12), (2.5, 0.7, 3), (4.5, 2, 0.8)],
}
# The reference has no derivatives of these tails with regard to parameters.
FIXED = ("chi2", "gamma", "beta")
# The reference fails in forward mode; scipy_stats_test.py has gradients.
UNDIFFERENTIABLE = ("gumbel_l", "gumbel_r")
# The reference does not take these in half precision.
WIDE = ("norm", "truncnorm")
COUNTS = {"binom": 2, "betabinom": 2}


def functions(name):
    distribution = getattr(stats, name)
    # In 64-bit mode the reference's quantiles of `norm` are float64 for float32 numbers.
    quantiles = () if name == "norm" else QUANTILES
    return [f for f in (*DENSITIES, *MASSES, *TAILS, *quantiles) if hasattr(distribution, f)]


def distribution(name, columns):
    """Values of all functions, and their derivatives in a direction, in batches."""
    find = lambda fun: getattr(getattr(stats, name), fun)
    counts = COUNTS.get(name, 1) if name in DISCRETE else 0

    def along(fun, x):
        """The value, and the derivative along a line of all arguments but whole numbers."""
        if name in UNDIFFERENTIABLE:
            return find(fun)(*x)
        moving = slice(counts, 1 if fun in TAILS and name in FIXED else None)
        steps = [0.0] * len(x)
        steps[moving] = [1.0 + i / 2 for i in range(len(x))][moving]
        still = [i for i, step in enumerate(steps) if not step]

        def line(s):
            return find(fun)(*[v if i in still else v + s * steps[i] for i, v in enumerate(x)])

        return jax.jvp(line, [jnp.zeros((), x[0].dtype)], [jnp.ones((), x[0].dtype)])

    @functools.partial(jax.jit, compiler_options=QUICKLY)
    def program(x):
        quantile = [abs(x[0]) / 4, *x[1:]]
        return {
            fun: jax.vmap(functools.partial(along, fun))(quantile if fun in QUANTILES else x)
            for fun in functions(name)
        }

    return program(list(np.array(columns, np.float32)))


for name, columns in {**CONTINUOUS, **DISCRETE}.items():
    CASES.add(name, functools.partial(distribution, name, columns), tol=2e-5)


# ---------------------------------------------------------------------------------------------------
# Types and shapes, without computing anything

FIRST = {
    "bool": lambda: True,
    "int": lambda: 1,
    "float": lambda: 0.5,
    "bools": lambda: np.array([True]),
    "ints": lambda: jnp.arange(2),
    "bytes": lambda: np.uint8([1]),
    "float16": lambda: jnp.ones((2, 1), jnp.float16),
    "bfloat16": lambda: jnp.ones((2, 1), jnp.bfloat16),
    "float32": lambda: np.ones(3, np.float32),
    "float64": lambda: np.ones(3),
    "weak": lambda: jnp.asarray(0.5),
    "weak_array": lambda: jnp.broadcast_to(0.5, (2,)),
    "empty": lambda: np.ones((0, 3), np.float32),
    "list": lambda: [1.0],
}
PARAMETERS = {
    "numbers": lambda p: p,
    "strong": lambda p: tuple(map(np.float32, p)),
    "half": lambda p: tuple(jnp.float16(v) for v in p),
    "rows": lambda p: (np.full((2, 1), p[0], np.float32), *p[1:]) if p else (),
}


def types(name):
    """What each function returns for a first argument and parameters of several types, or which error it raises."""
    columns = {**CONTINUOUS, **DISCRETE}[name]
    shapes = columns[
        1 : -2 if name in CONTINUOUS and name not in ("gennorm", "vonmises", "wrapcauchy") else None
    ]
    parameters = tuple(column[0] for column in shapes)
    out = {}
    firsts, parameters_of = dict(FIRST), dict(PARAMETERS)
    if name in WIDE:
        for kind in ("float16", "bfloat16"):
            del firsts[kind]
        for kind in ("half", "rows"):
            del parameters_of[kind]
    for fun in functions(name):
        call = getattr(getattr(stats, name), fun)
        for kind, first in firsts.items():
            for others, make in parameters_of.items():
                try:
                    made = jax.eval_shape(lambda: call(first(), *make(parameters)))
                    text = f"{made.dtype}{list(made.shape)}{' weak' * made.weak_type}"
                except Exception as err:
                    text = type(err).__name__
                out.setdefault(fun, []).append(f"{kind}/{others}: {text}")
    return {fun: "\n".join(lines) for fun, lines in out.items()}


for name in (*CONTINUOUS, *DISCRETE):
    CASES.add(f"types_{name}", functools.partial(types, name))
    if name in ("norm", "beta", "poisson", "gumbel_r"):
        CASES.add(f"types_x64_{name}", functools.partial(types, name), x64=True)
