"""The points of accuracy_reference.npz: names of functions, and arrays of their arguments.

They reach zeros, poles' neighborhoods, large and small arguments and tails; those of elementary
functions reach the edges of dtypes, numbers below the normal ones, and both sides of branch cuts.
"""

import ml_dtypes
import numpy as np

N = 40
HALVES = {"float16": np.finfo(np.float16), "bfloat16": ml_dtypes.finfo(ml_dtypes.bfloat16)}


def join(*parts):
    return np.concatenate(parts)


def both(x):
    """Numbers and their negatives."""
    return np.concatenate([x, -x])


class Sampler:
    """Random numbers from a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def near(self, low, high, n=N):
        """Numbers between two, evenly spread."""
        return self.rng.uniform(low, high, n)

    def across(self, low, high, n=N):
        """Numbers of all magnitudes between two positive ones."""
        return np.exp(self.rng.uniform(np.log(low), np.log(high), n))

    def sign(self, n=N):
        return self.rng.choice([-1.0, 1.0], n)


def special():
    """Yields special functions of real numbers."""
    sampler = Sampler(1)
    near, across = sampler.near, sampler.across
    zero = 1.4616321449683622
    poles = -np.floor(near(0, 20, 20))
    near_poles = poles + both(across(1e-6, 0.1, 10))
    yield "gamma", join(near(-30, 35), near(0.5, 3), across(1e-30, 1), near_poles)
    at_zeros = join(1 + across(1e-6, 0.1), 2 - across(1e-6, 0.1))
    yield (
        "gammaln",
        join(near(-10, 35), near(0.5, 3), across(1e-30, 1e30), at_zeros, near_poles),
    )
    yield "gammasgn", join(near(-30, 35), across(1e-30, 1e10), near_poles)
    yield "loggamma", join(near(0.5, 3), across(1e-10, 1e10))
    at_zeros = zero + both(across(1e-6, 0.1))
    yield "digamma", join(near(-10, 20), across(1e-20, 1e20), at_zeros, near_poles)
    yield "multigammaln", join(near(1.1, 20), across(2, 1e10))
    yield "factorial", join(np.arange(0, 30.0), near(0, 30))
    yield "erf", both(across(1e-30, 6))
    yield "erfc", join(near(-5, 9), both(across(1e-10, 1)), near(9, 27, 10))
    yield "erfcx", join(near(-6, 20), across(1e-20, 1e4))
    for name in ("erfinv", "erf_inv"):
        yield name, join(near(-1, 1), 1 - across(1e-7, 0.1), across(1e-20, 0.1))
    yield "dawsn", join(both(near(0, 10)), across(1e-20, 50))
    yield "ndtr", join(near(-13, 8), both(across(1e-10, 1)))
    yield "ndtri", join(near(0, 1), across(1e-37, 0.1), 0.5 + both(across(1e-6, 0.1)))
    yield "log_ndtr", join(near(-40, 12), -across(1, 500), across(1e-10, 1))
    yield "fresnel", join(both(near(0, 10)), across(1e-8, 1e3))
    yield "exp1", join(across(1e-30, 80), near(0, 5))
    yield "expi", join(across(1e-30, 80), near(-20, 20), 0.3725 + both(across(1e-4, 0.1)))
    yield "sici", join(across(1e-20, 1e4), near(0, 20), 0.6165 + both(across(1e-4, 0.1)))
    yield "spence", join(across(1e-20, 1e10), near(0, 4), 1 + both(across(1e-5, 0.3)))
    x = join(across(1e-3, 1, 6), across(1, 50, 6))
    yield "expn", np.repeat(np.arange(0, 12.0), 12), np.tile(x, 12)
    large = Sampler(8)
    for name in ("gammainc", "gammaincc"):
        a, b = across(0.05, 200), large.across(200, 1e12)
        x = a * np.exp(near(-1.5, 1.5))
        yield name, join(a, b), join(x, b + np.sqrt(b) * large.near(-6, 6))
    for name in ("igamma_grad_a", "random_gamma_grad"):
        a = across(0.05, 100)
        yield name, a, a * np.exp(near(-1, 1))
    a, b = across(0.1, 100), across(0.1, 100)
    yield "betainc", a, b, np.clip(a / (a + b) * np.exp(near(-1, 0.5)), 0, 0.999)
    yield "beta", join(across(0.1, 30), near(-5, 5)), join(across(0.1, 30), near(-5, 5))
    yield "betaln", across(0.01, 1e4), across(0.01, 1e4)
    yield "poch", join(across(0.1, 20), near(-5, 5)), join(near(0, 5), near(-3, 5))
    yield "comb", np.floor(near(20, 40)), np.floor(near(0, 20))
    yield "zeta", join(near(1.1, 20), 1 + across(1e-3, 1)), across(0.1, 50, 2 * N)
    yield "polygamma", np.tile(np.arange(1.0, 6), 8), across(0.1, 30)
    yield "bernoulli", np.arange(0, 31.0)
    for name in ("i0", "i1", "i0e", "i1e"):
        yield name, both(across(1e-10, 80))
    yield "bessel_jn", join(near(0.1, 20), across(1e-3, 1))
    degree = np.floor(near(0, 6))
    order = np.floor(near(0, 1) * (degree + 1))
    yield "sph_harm_y", degree, order, near(0.1, 3), near(-3, 3)
    yield "owens_t", both(near(0, 6)), join(near(-1, 1), across(1e-3, 1e3))
    yield "hyp1f1", near(0.1, 10), near(0.1, 10), across(0.01, 40) * sampler.sign()
    x = join(near(-5, 0.9, N // 2), 1 - across(1e-4, 0.2, N // 2))
    yield "hyp2f1", near(0.1, 4), near(0.1, 4), near(0.1, 6), x
    yield "entr", across(1e-30, 1e10)
    yield "xlogy", near(-5, 5), join(across(1e-30, 1e10, 20), 1 + both(across(1e-5, 0.1, 10)))
    yield "xlog1py", near(-5, 5), across(1e-20, 1e10)
    yield "rel_entr", across(0.01, 10), across(0.01, 10)
    yield "kl_div", join(across(0.01, 10), near(1, 1.1)), join(across(0.01, 10), near(1, 1.1))
    powers = join(near(-3, 3, N // 2), across(1e-6, 0.1, N // 2))
    yield "boxcox", across(1e-3, 1e3), powers
    yield "boxcox1p", across(1e-6, 1e3), powers
    yield "logit", join(near(0, 1), across(1e-30, 0.1), 0.5 + both(across(1e-6, 0.1)))
    yield "expit", join(near(-80, 80), near(-2, 2))


def distributions():
    """Yields functions of distributions whose values are elementary, with their location and scale."""
    sampler = Sampler(6)
    near, across = sampler.near, sampler.across
    loc, scale = near(-2, 2, 2 * N), across(0.1, 10, 2 * N)
    both_sides = join(near(-3, 3), sampler.sign() * across(3, 80))
    above = join(across(1e-6, 1), across(1, 80))
    # Of the standard distribution; the doubly exponential tails end at about 4.
    values = {
        "cauchy": join(near(-3, 3), sampler.sign() * across(3, 1e6)),
        "expon": above,
        "gumbel_l": join(near(-60, 4), near(-3, 3)),
        "gumbel_r": join(near(-4, 60), near(-3, 3)),
        "laplace": both_sides,
        "logistic": both_sides,
        "norm": join(near(-3, 3), sampler.sign() * across(3, 12)),
        "uniform": near(0, 1, 2 * N),
    }
    probabilities = join(near(0, 1), across(1e-30, 0.1))
    functions = {name: "logpdf pdf cdf logcdf sf logsf ppf" for name in values}
    functions |= {"laplace": "logpdf pdf cdf", "logistic": "logpdf pdf cdf sf ppf isf"}
    functions |= {"uniform": "logpdf pdf cdf ppf"}
    for name in ("cauchy", "norm"):
        functions[name] += " isf"
    for name, z in values.items():
        for function in functions[name].split():
            x = probabilities if function in ("ppf", "isf") else loc + scale * z
            yield f"{name}.{function}", x, loc, scale
    shape = across(0.1, 10, 2 * N)
    for function in "logpdf pdf cdf logcdf sf logsf".split():
        yield f"pareto.{function}", 1 + above, shape
    few = across(1e-9, 0.5)
    yield "pareto.ppf", join(probabilities, few), join(shape, few * across(0.02, 100))


def shaped_distributions():
    """Yields functions of distributions with parameters of shape, of location 0 and scale 1."""
    sampler = Sampler(7)
    near, across, sign = sampler.near, sampler.across, sampler.sign
    tails = "logpdf pdf cdf logcdf sf logsf"

    def each(distribution, functions, *args):
        for function in functions.split():
            yield f"{distribution}.{function}", *args

    def shapes():
        return join(across(0.1, 50), across(1e-12, 0.1, 10), across(50, 1e4, 10))

    n = len(shapes())
    # Around the mean, and anywhere
    a, b = shapes(), sampler.rng.permutation(shapes())
    mean, deviation = a / (a + b), np.sqrt(a * b / (a + b + 1)) / (a + b)
    x = np.where(near(0, 1, n) < 0.7, mean + deviation * near(-5, 5, n), near(0, 1, n))
    yield from each("beta", tails, np.where((x > 0) & (x < 1), x, near(0, 1, n)), a, b)
    x = a + np.sqrt(a) * near(-5, 8, n)
    x = np.where(x > 0, x, a * across(1e-3, 1, n))
    yield from each("gamma", tails, join(x, across(10, 500)), join(a, across(0.1, 30)))
    yield from each("chi2", tails, 2 * join(x, across(10, 500)), 2 * join(a, across(0.1, 30)))
    df = join(across(0.1, 50), across(1e-6, 0.1, 10), across(50, 1e10, 10))
    yield from each("t", "logpdf pdf", sign(n) * across(1e-3, 30, n), df)
    low = join(near(-5, 3), near(-30, 28, 20))
    high = low + join(across(0.01, 8), across(1e-3, 3, 20))
    yield from each("truncnorm", tails, low + (high - low) * near(0, 1, n), low, high)
    beta = join(across(0.3, 8), across(0.05, 0.3, 10), across(8, 100, 10))
    yield from each("gennorm", "logpdf pdf cdf", sign(n) * across(1e-3, 30, n) ** (1 / beta), beta)
    kappa = join(across(1e-3, 50), across(1e-20, 1e-3, 10), across(50, 1e5, 10))
    angles = join(near(-np.pi, np.pi, n // 2), sign(n // 2) * across(1e-6, 1, n // 2))
    yield from each("vonmises", "logpdf pdf", angles, kappa)
    c = join(near(0, 1), across(1e-20, 1e-3, 10), 1 - across(1e-4, 0.1, 10))
    yield from each("wrapcauchy", "logpdf pdf", abs(angles), c)
    yield from _counts(sampler, shapes(), sampler.rng.permutation(shapes()))
    x = near(0.05, 0.5, n), near(0.05, 0.45, n)
    x = *x, 1 - x[0].astype(np.float32) - x[1].astype(np.float32)
    yield from each("dirichlet", "logpdf pdf", *x, *[across(0.1, 30, n) for _ in x])
    # Two numbers, their means, and the covariance of correlated ones
    means, scales = near(-3, 3, (2, n)), across(0.1, 10, (2, n))
    x = means + scales * near(-4, 4, (2, n))
    covariance = scales[0] ** 2, scales[0] * scales[1] * near(-0.9, 0.9, n), scales[1] ** 2
    yield from each("multivariate_normal", "logpdf pdf", *x, *means, *covariance)


def _counts(sampler, a, b):
    """Yields distributions of counts; a and b are positive numbers of all sizes."""
    near, across = sampler.near, sampler.across
    n = len(a)
    p = join(near(0, 1), across(1e-12, 1e-2, 10), 1 - across(1e-4, 1e-2, 10))
    trials = np.floor(join(near(1, 50), across(50, 1e5, 20)))
    spread = np.sqrt(trials * p * (1 - p)) + 1
    k = np.clip(np.round(trials * p + spread * near(-4, 4, n)), 0, trials)
    mu = join(across(0.1, 50), across(1e-12, 0.1, 10), across(50, 1e4, 10))
    events = np.maximum(np.round(mu + np.sqrt(mu) * near(-4, 4, n)), 0)
    fails = np.floor(across(1, 1000, n))
    first, second = np.floor(near(0, 1, n) * 20), np.floor(across(1, 100, n))
    probabilities = near(0.05, 0.5, n), near(0.05, 0.45, n)
    parts = *probabilities, 1 - probabilities[0] - probabilities[1]
    for kind in ("logpmf", "pmf"):
        yield f"bernoulli.{kind}", np.floor(near(0, 2, n)), p
        yield f"binom.{kind}", k, trials, p
        yield f"nbinom.{kind}", np.floor(fails * near(0, 1, n)), a, p
        yield f"poisson.{kind}", events, mu
        yield f"geom.{kind}", fails, p
        yield f"betabinom.{kind}", np.floor(trials * near(0, 1, n)), trials, a, b
        yield f"multinomial.{kind}", first, second, np.floor(near(0, 30, n)), *parts
    yield "poisson.cdf", events, mu
    yield "poisson.entropy", join(across(0.01, 50), across(1e-8, 0.01, 10), across(50, 400, 10))


class Edges(Sampler):
    """Random numbers of a real dtype, or of the parts of a complex one, out to its edges."""

    def __init__(self, seed, info, n=N):
        super().__init__(seed)
        self.n = n
        self.tiny, self.big, self.eps = float(info.tiny), float(info.max), float(info.eps)
        self.minexp, self.maxexp = int(info.minexp), int(info.maxexp)
        self.low, self.high = np.log(self.tiny), np.log(self.big)
        self.subnormal = self.tiny * np.array([2.0**-5, 2.0**-4, 1 / 3, 1 / 2, 1 - self.eps * 4])
        magnitudes = self.across(self.tiny, self.big)
        self.positive = join(magnitudes, self.subnormal, [self.tiny, self.big * (1 - self.eps)])
        self.everywhere = both(self.positive)

    def near(self, low, high, n=None):
        return super().near(low, high, n or self.n)

    def across(self, low, high, n=None):
        return super().across(low, high, n or self.n)


def elementary(info, n=N):
    """Yields elementary functions of a real dtype."""
    edges = Edges(2, info, n)
    near, across, everywhere, positive = edges.near, edges.across, edges.everywhere, edges.positive
    eps, tiny, big, high = edges.eps, edges.tiny, edges.big, edges.high
    exponents = join(near(edges.low, high), near(-2, 2), everywhere, high + near(-1, 1, 10))
    yield "exp", exponents
    yield "exp2", join(exponents / np.log(2), np.arange(edges.minexp, edges.maxexp, 11.0))
    yield "expm1", exponents
    around_one = join(positive, near(0.5, 2), 1 + both(across(eps, 0.1)))
    for name in ("log", "log2", "log10", "sqrt", "rsqrt"):
        yield name, around_one
    for name in ("cbrt", "square", "reciprocal", "deg2rad", "rad2deg"):
        yield name, join(everywhere, near(-8, 8))
    for name in ("integer_pow", "integer_pow_negative"):
        yield name, join(near(-5, 5), both(across(tiny, big)), 1 + both(across(eps, 0.1)))
    yield (
        "log1p",
        join(everywhere[everywhere > -1], near(-1, 2), near(-0.5, -0.2), across(eps, 0.1) - 1),
    )
    turns = np.arange(1, 40) * np.pi / 2
    for name in ("sin", "cos", "tan"):
        yield name, join(everywhere, near(-20, 20), turns)
    in_one = join(both(across(tiny, 1)), near(-1, 1), both(edges.subnormal), [1, -1])
    smallest = both(tiny * np.array([1.25, 1.75, 3.5]))
    for name in ("asin", "acos", "atanh"):
        yield name, join(in_one, both(1 - across(eps, 0.1)), smallest)
    for name in ("atan", "asinh"):
        yield name, join(everywhere, near(-3, 3))
    yield "acosh", join(across(1, big), near(1, 3), 1 + across(eps, 0.1))
    for name in ("sinh", "cosh", "tanh"):
        yield name, join(near(-high, high), near(-3, 3), everywhere, high + near(0, 1, 10))
    at_zeros = np.arange(0, 9) + across(1e-6, 0.1, 9)
    yield "sinc", join(near(-10, 10), both(across(tiny, min(1e4, big))), at_zeros)
    yield from _of_two(edges)


def _of_two(edges):
    near, across, positive = edges.near, edges.across, edges.positive
    n, tiny, big = edges.n, edges.tiny, edges.big
    signed = lambda x: x * edges.sign(len(x))
    for name in ("hypot", "atan2", "divide"):
        # No quotients of two numbers that may both be flushed to zero.
        others = np.roll(positive, n // 2) if name == "divide" else edges.rng.permutation(positive)
        yield name, *[signed(join(x, across(0.01, 100))) for x in (positive, others)]
    y = signed(join(across(tiny, big), across(0.01, 100)))
    x = join(across(tiny, big), near(-300, 300)) * np.sign(y)
    for name in ("fmod", "remainder", "floor_divide"):
        # Quotients that fit the dtype's digits, as the others have no digits to compare.
        yield name, np.clip(y * np.fmod(x, 1 / edges.eps / 4), -big, big), y
    for name in ("power", "float_power"):
        yield (
            name,
            join(across(1e-3, 1e3), across(tiny, big), 1 + both(across(1e-5, 0.1)), near(-3, 0)),
            join(near(-12, 12), near(-1.5, 1.5), near(-900, 900, 2 * n), np.floor(near(-30, 30))),
        )
    yield (
        "ldexp",
        join(near(-2, 2), edges.subnormal),
        np.floor(near(edges.minexp, edges.maxexp, n + 5)),
    )
    p = across(1e-6, 0.5)
    for name, unit in (("logaddexp", 1.0), ("logaddexp2", np.log(2))):
        yield (
            name,
            join(near(-100, 100), near(-5, 5), across(tiny, big), np.log(p) / unit),
            join(near(-100, 100), near(-5, 5), across(tiny, big), np.log1p(-p) / unit),
        )


def activations(info, n=N):
    """Yields functions of jax.nn in a real dtype."""
    edges = Edges(4, info, n)
    near, across = edges.near, edges.across
    low = edges.low
    x = join(near(low, -low), near(-5, 5), edges.everywhere)
    smooth = ("softplus", "log_sigmoid", "sigmoid", "silu", "gelu", "gelu_exact", "mish")
    pieces = ("elu", "celu", "selu", "leaky_relu", "hard_sigmoid", "hard_silu")
    sparse = ("sparse_plus", "sparse_sigmoid")
    for name in (*smooth, *pieces, *sparse, "soft_sign", "squareplus"):
        yield name, x
    yield "glu", x, np.roll(x, n // 2)
    yield "log1mexp", join(across(edges.tiny, -low), near(0, 3))
    for name in ("logsumexp", "softmax", "log_softmax", "logmeanexp"):
        yield name, *[join(near(-20, 20), near(-1, 1), near(-300, 300)) for _ in range(3)]


def complex_elementary(info):
    """Yields functions of complex numbers with parts of all magnitudes, and near branch points."""
    edges = Edges(3, info)
    sign, near = edges.sign, edges.near
    across = lambda low, high, n=N: sign(n) * edges.across(low, high, n)
    tiny, big, eps = 4 * edges.tiny, edges.big / 4, edges.eps
    z = join(near(-3, 3), across(1e-4, 1e4), across(tiny, big)) + 1j * join(
        near(-3, 3), across(1e-4, 1e4), across(tiny, big)
    )
    circle = np.exp(1j * near(-3, 3, 10)) * (1 + across(eps, 0.1, 10))
    ones = sign(10) + across(eps, 0.1, 10) + 1j * across(eps, 0.1, 10)
    # Both sides of branch cuts, which are on the axes: zeros have signs.
    axis = join(across(0.01, 100, 20), across(tiny, big, 20))
    zeros = both(np.zeros(20))
    cuts = join(_complex(axis, zeros), _complex(zeros, axis))
    small = join(
        _complex(both(edges.subnormal), near(-3, 3, 10)),
        _complex(near(-3, 3, 10), both(edges.subnormal)),
    )
    at_cuts = join(cuts, small)
    points = join(z, circle, ones)
    for name in ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "square"):
        yield name, points
    for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "absolute", "angle"):
        yield name, points
    yield "log1p", join(z, circle - 1, ones - 1)
    with_cuts = ("log", "log1p", "sqrt", "rsqrt", "asin", "acos", "atan", "asinh", "acosh", "atanh")
    for name in with_cuts:
        yield f"{name}_at_cuts", at_cuts
    # exp(z) has no digits where the imaginary part is large; these points have moderate ones.
    high = edges.high
    moderate = join(near(-3, 3), across(tiny, 80)) + 1j * join(near(-20, 20), across(tiny, 80))
    edge = sign(N) * (high + near(-1, 1)) + 1j * near(-20, 20)
    across_axis = join(moderate, edge, small)
    for name in ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "sigmoid"):
        yield name, across_axis
    turned = join(moderate, edge.imag + 1j * edge.real, small)
    for name in ("sin", "cos", "tan"):
        yield name, turned
    yield "sinc", join(near(-3, 3), across(1e-4, 10)) + 1j * join(near(-3, 3), across(1e-4, 10))
    w = edges.rng.permutation(z)
    for name in ("multiply", "divide"):
        yield name, z, w
    few = near(-3, 3) + 1j * near(-3, 3)
    yield "power", z[:N], few
    yield "logaddexp", z[:N], few
    yield "logaddexp2", z[:N], few


def _complex(real, imag):
    """Complex numbers of two parts; a sum would lose signs of zeros."""
    out = np.empty(len(real), complex)
    out.real, out.imag = real, imag
    return out


def complex_special():
    """Yields special functions of complex numbers."""
    sampler = Sampler(5)
    near, across = sampler.near, sampler.across
    z = near(-8, 8) + 1j * near(-8, 8)
    turn = np.exp(1j * near(-3, 3))
    for name in ("gamma", "loggamma"):
        yield name, join(z, across(1e-6, 1) * turn)
    for name in ("erfcx", "wofz"):
        yield name, join(0.7 * z, across(1e-6, 100) * turn)
    yield "expit", z
    yield "logit", join(z, across(1e-6, 1) * turn, 0.5 + across(1e-6, 0.1) * turn)
    yield "xlogy", z, across(1e-3, 1e3) * turn
    yield "xlog1py", z, across(1e-6, 1e3) * turn
    yield "boxcox", across(1e-3, 1e3) * turn, 0.3 * z
    yield "boxcox1p", across(1e-3, 1e3) * turn, 0.3 * z


def all_points():
    """Yields functions' names, dtypes' names, their arguments, and the digits to compute with."""
    with np.errstate(over="ignore"):
        for name, *args in special():
            for dtype in (np.float32, np.float64):
                yield name, np.dtype(dtype).name, np.stack([x.astype(dtype) for x in args]), 40
        for name, *args in (*distributions(), *shaped_distributions()):
            for dtype in (np.float32, np.float64):
                yield name, np.dtype(dtype).name, np.stack([x.astype(dtype) for x in args]), 80
        for name, *args in complex_special():
            for dtype in (np.complex64, np.complex128):
                yield name, np.dtype(dtype).name, np.stack([x.astype(dtype) for x in args]), 60
        # So many digits that no sum of a float64 number and its square loses one.
        for real, complex_dtype in ((np.float32, np.complex64), (np.float64, np.complex128)):
            info = np.finfo(real)
            for group in (elementary, activations):
                for name, *args in group(info):
                    yield name, info.dtype.name, np.stack([x.astype(real) for x in args]), 700
            for name, *args in complex_elementary(info):
                stacked = np.stack([x.astype(complex_dtype) for x in args])
                yield name, stacked.dtype.name, stacked, 700
        for dtype, info in HALVES.items():
            for group in (elementary, activations):
                for name, *args in group(info, 12):
                    # NumPy's files have no bfloat16, so its numbers are stored as float32.
                    args = [x.astype(np.float32).astype(info.dtype) for x in args]
                    yield name, dtype, np.stack(args).astype(np.float32), 120
