"""Writes accuracy_reference.npz: points of elementwise functions, and the exact values there.

    python benchmarks/accuracy_reference.py [--filter REGEX]

Run it in an environment with mpmath, numpy and ml_dtypes, after a change of the points, which are in
accuracy_points.py; with --filter, only the functions it matches are computed anew. The values of float64
functions are sums of two numbers. As processors may flush numbers below the normal ones to zero, the
values at zero are there, too, and NaN at other points.
"""

import argparse
import itertools
import pathlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from accuracy_points import HALVES, all_points

mp.mp.dps = 40


def inverse_erfc(y):
    x = mp.sqrt(-mp.log(y)) if y < 0.3 else 1 - y
    for _ in range(60):
        e = mp.erfc(x)
        step = (mp.log(e) - mp.log(y)) * e / (2 / mp.sqrt(mp.pi) * mp.exp(-x * x))
        x += step
        if abs(step) < mp.mpf(10) ** -36 * (1 + abs(x)):
            break
    return x


def log_ndtr(x):
    if x > 1:
        return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def owens_t(h, a):
    reach = [mp.sign(a) * k / abs(h) for k in (1, 2, 4, 8, 16)]
    ends = mp.linspace(0, a, 6) if abs(a * h) < 30 else [0, *reach]
    return mp.quad(lambda x: mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x), ends) / (2 * mp.pi)


def igamma_grad_a(a, x):
    with mp.workdps(60):
        return mp.diff(lambda a: mp.gammainc(a, 0, x, regularized=True), a)


def power(x, y):
    out = mp.power(x, y)
    return out if isinstance(x, mp.mpc) else mp.re(out)


def softplus(x):
    return max(x, 0) + mp.log1p(mp.exp(-abs(x)))


def gelu(x, gate):
    # Beyond 1000 the gate is 0 or 1 to more digits than are computed.
    return x * gate(x) if abs(x) < 1000 else max(x, mp.mpf(0))


def elu(x):
    return x if x > 0 else mp.expm1(x)


GELU = mp.mpf("0.044715")
SELU_SCALE = mp.mpf("1.0507009873554804934193349852946")
SELU_ALPHA = mp.mpf("1.6732632423543772848170429916717")


def gamma_upper(a, x):
    if a < 1000:
        return mp.gammainc(a, x, mp.inf, regularized=True)
    # Within 40 standard deviations, of which mpmath's functions do not make use
    step = mp.sqrt(a) * (1 if x > a else -1)
    density = lambda t: mp.exp((a - 1) * mp.log(t) - t - mp.loggamma(a))
    tail = mp.quad(density, [t for k in range(81) if (t := x + k * step / 2) > 0])
    return tail if x > a else 1 + tail


def gamma_lower(a, x):
    return mp.gammainc(a, 0, x, regularized=True) if a < 1000 else 1 - gamma_upper(a, x)


EXACT = {
    "gamma": mp.gamma,
    "gammaln": lambda x: mp.re(mp.loggamma(x)),
    "loggamma": mp.loggamma,
    "digamma": mp.digamma,
    "factorial": mp.factorial,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
    "erfinv": lambda y: mp.sign(y) * inverse_erfc(1 - abs(y)),
    "dawsn": lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x),
    "ndtr": lambda x: mp.erfc(-x / mp.sqrt(2)) / 2,
    "ndtri": lambda p: -mp.sqrt(2) * inverse_erfc(2 * p),
    "log_ndtr": log_ndtr,
    "fresnel": lambda x: (mp.fresnels(x), mp.fresnelc(x)),
    "exp1": mp.e1,
    "expi": mp.ei,
    "sici": lambda x: (mp.si(x), mp.ci(x)),
    "spence": lambda x: mp.re(mp.polylog(2, 1 - x)),
    "expn": mp.expint,
    "gammainc": gamma_lower,
    "gammaincc": gamma_upper,
    "betainc": lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
    "beta": mp.beta,
    "betaln": lambda a, b: mp.log(abs(mp.beta(a, b))),
    "poch": mp.rf,
    "comb": mp.binomial,
    "zeta": mp.zeta,
    "polygamma": lambda n, x: mp.polygamma(int(n), x),
    "i0": lambda x: mp.besseli(0, x),
    "i1": lambda x: mp.besseli(1, x),
    "i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x),
    "i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
    "owens_t": owens_t,
    "hyp1f1": mp.hyp1f1,
    "hyp2f1": mp.hyp2f1,
    "entr": lambda x: -x * mp.log(x),
    "xlogy": lambda x, y: x * mp.log(y),
    "xlog1py": lambda x, y: x * mp.log1p(y),
    "rel_entr": lambda p, q: p * mp.log(p / q),
    "kl_div": lambda p, q: p * mp.log(p / q) - p + q,
    "boxcox": lambda x, y: mp.expm1(y * mp.log(x)) / y,
    "boxcox1p": lambda x, y: mp.expm1(y * mp.log1p(x)) / y,
    "logit": lambda p: mp.log(p) - mp.log1p(-p),
    "expit": lambda x: 1 / (1 + mp.exp(-x)),
    "wofz": lambda z: mp.exp(-z * z) * mp.erfc(mp.mpc(z.imag, -z.real)),
    "gammasgn": lambda x: mp.sign(mp.gamma(x)),
    "multigammaln": lambda a: (
        mp.log(mp.pi) * 1.5 + mp.loggamma(a) + mp.loggamma(a - 0.5) + mp.loggamma(a - 1)
    ),
    "erf_inv": lambda y: mp.sign(y) * inverse_erfc(1 - abs(y)),
    "igamma_grad_a": igamma_grad_a,
    "random_gamma_grad": lambda a, x: (
        -igamma_grad_a(a, x) * mp.exp(mp.loggamma(a) + x - (a - 1) * mp.log(x))
    ),
    "bernoulli": lambda n: mp.bernoulli(int(n)),
    "bessel_jn": lambda x: tuple(mp.besselj(n, x) for n in range(5)),
    "sph_harm_y": lambda n, m, theta, phi: mp.spherharm(int(n), int(m), theta, phi),
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "expm1": mp.expm1,
    "log": mp.log,
    "log2": lambda x: mp.log(x) / mp.log(2),
    "log10": lambda x: mp.log(x) / mp.log(10),
    "log1p": mp.log1p,
    "sqrt": mp.sqrt,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "asinh": mp.asinh,
    "acosh": mp.acosh,
    "atanh": mp.atanh,
    "sinc": mp.sincpi,
    "hypot": mp.hypot,
    "atan2": mp.atan2,
    "power": power,
    "float_power": power,
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
    "logaddexp2": lambda x, y: mp.log(mp.power(2, x) + mp.power(2, y)) / mp.log(2),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "integer_pow": lambda x: x**7,
    "integer_pow_negative": lambda x: x**-3,
    "deg2rad": mp.radians,
    "rad2deg": mp.degrees,
    "absolute": abs,
    "angle": mp.arg,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "fmod": lambda x, y: x - y * (mp.floor(x / y) if x * y > 0 else mp.ceil(x / y)),
    "remainder": lambda x, y: x - y * mp.floor(x / y),
    "floor_divide": lambda x, y: mp.floor(x / y),
    "ldexp": mp.ldexp,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "gelu": lambda x: gelu(x, lambda x: (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + GELU * x**3))) / 2),
    "gelu_exact": lambda x: gelu(x, lambda x: mp.erfc(-x / mp.sqrt(2)) / 2),
    "mish": lambda x: x * mp.tanh(softplus(x)),
    "elu": elu,
    "celu": elu,
    "selu": lambda x: SELU_SCALE * (x if x > 0 else SELU_ALPHA * mp.expm1(x)),
    "leaky_relu": lambda x: x if x > 0 else x / 100,
    "hard_sigmoid": lambda x: min(max(x + 3, 0), 6) / 6,
    "hard_silu": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "sparse_plus": lambda x: 0 if x <= -1 else x if x >= 1 else (x + 1) ** 2 / 4,
    "sparse_sigmoid": lambda x: min(max(x + 1, 0), 2) / 2,
    "glu": lambda x, y: x / (1 + mp.exp(-y)),
    "soft_sign": lambda x: x / (1 + abs(x)),
    "squareplus": lambda x: (x + mp.sqrt(x * x + 4)) / 2,
    "log1mexp": lambda x: mp.log(-mp.expm1(-x)),
    "logsumexp": lambda *x: mp.log(sum(map(mp.exp, x))),
    "logmeanexp": lambda *x: mp.log(sum(map(mp.exp, x)) / len(x)),
    "softmax": lambda *x: mp.exp(x[0]) / sum(map(mp.exp, x)),
    "log_softmax": lambda *x: x[0] - mp.log(sum(map(mp.exp, x))),
    "softplus": softplus,
    "log_sigmoid": lambda x: min(x, 0) - mp.log1p(mp.exp(-abs(x))),
    "silu": lambda x: x / (1 + mp.exp(-x)),
}


class Distribution(NamedTuple):
    """A distribution of location 0 and scale 1."""

    pdf: Callable[..., Any]
    cdf: Callable[..., Any]
    sf: Callable[..., Any]
    ppf: Callable[..., Any]
    isf: Callable[..., Any]


def quantile(p):
    return -mp.sqrt(2) * inverse_erfc(2 * p) if p < 0.5 else mp.sqrt(2) * inverse_erfc(2 * (1 - p))


def normal_tail(z):
    return mp.erfc(z / mp.sqrt(2)) / 2


def cauchy_tail(z):
    return mp.atan2(1, z) / mp.pi


DISTRIBUTIONS = {
    "cauchy": Distribution(
        lambda z: 1 / (mp.pi * (1 + z * z)), lambda z: cauchy_tail(-z), cauchy_tail,
        lambda p: -1 / mp.tan(mp.pi * p), lambda p: 1 / mp.tan(mp.pi * p),
    ),
    "expon": Distribution(
        lambda z: mp.exp(-z) if z >= 0 else 0, lambda z: -mp.expm1(-z) if z >= 0 else 0,
        lambda z: mp.exp(-z) if z >= 0 else 1, lambda p: -mp.log1p(-p), lambda p: -mp.log(p),
    ),
    "gumbel_l": Distribution(
        lambda z: mp.exp(z - mp.exp(z)), lambda z: -mp.expm1(-mp.exp(z)), lambda z: mp.exp(-mp.exp(z)),
        lambda p: mp.log(-mp.log1p(-p)), lambda p: mp.log(-mp.log(p)),
    ),
    "gumbel_r": Distribution(
        lambda z: mp.exp(-z - mp.exp(-z)), lambda z: mp.exp(-mp.exp(-z)), lambda z: -mp.expm1(-mp.exp(-z)),
        lambda p: -mp.log(-mp.log(p)), lambda p: -mp.log(-mp.log1p(-p)),
    ),
    "laplace": Distribution(
        lambda z: mp.exp(-abs(z)) / 2, lambda z: mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2,
        lambda z: mp.exp(-z) / 2 if z > 0 else 1 - mp.exp(z) / 2, None, None,
    ),
    "logistic": Distribution(
        lambda z: 1 / (2 + mp.exp(z) + mp.exp(-z)), lambda z: 1 / (1 + mp.exp(-z)), lambda z: 1 / (1 + mp.exp(z)),
        lambda p: mp.log(p / (1 - p)), lambda p: mp.log((1 - p) / p),
    ),
    "norm": Distribution(
        lambda z: mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi), lambda z: normal_tail(-z), normal_tail,
        quantile, lambda p: -quantile(p),
    ),
    "uniform": Distribution(
        lambda z: 1 if 0 <= z <= 1 else 0, lambda z: min(max(z, 0), 1), lambda z: 1 - min(max(z, 0), 1),
        lambda p: p, lambda p: 1 - p,
    ),
}  # fmt: skip
PARETO = Distribution(
    lambda x, b: b * x ** (-b - 1) if x >= 1 else 0,
    lambda x, b: -mp.expm1(-b * mp.log(x)) if x >= 1 else 0,
    lambda x, b: x**-b if x >= 1 else 1,
    lambda p, b: (1 - p) ** (-1 / b),
    lambda p, b: p ** (-1 / b),
)


def _series(ratio):
    """Sums positive terms, of which the first is 1, and each one of `ratio` times the one before."""
    total = term = mp.mpf(1)
    n = 0
    while term > total * mp.eps or ratio(n) >= 1:
        term *= ratio(n)
        total += term
        n += 1
    return total


def beta_density(x, a, b):
    return x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b)


def beta_tail(x, a, b):
    """Integrates the beta density from 0 to x, by the series 8.17.8 of dlmf.nist.gov."""
    first = x * (1 - x) * beta_density(x, a, b) / a
    if x > 0.5:
        with mp.workdps(mp.mp.dps + 10 + int(max(0, -mp.log10(first)))):
            return 1 - beta_tail(1 - x, b, a)
    return first * _series(lambda n: (a + b + n) / (a + 1 + n) * x)


def gamma_density(x, a):
    return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


def gamma_tail(x, a):
    """Integrates the gamma density from 0 to x, by the series 8.7.1 of dlmf.nist.gov."""
    return x * gamma_density(x, a) / a * _series(lambda n: x / (a + 1 + n))


def gamma_upper_tail(x, a):
    """Integrates the gamma density from x on, with the digits that the difference cancels."""
    deviance = x - a - a * mp.log(x / a) if x > a else 0
    with mp.workdps(mp.mp.dps + 40 + int(deviance / 2)):
        return 1 - gamma_tail(x, a)


def t_density(x, df):
    constant = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2
    return mp.exp(constant - (df + 1) / 2 * mp.log1p(x * x / df))


def normal_mass(a, b):
    return normal_tail(a) - normal_tail(b) if a > 0 else normal_tail(-b) - normal_tail(-a)


def truncated(x, a, b):
    return min(max(x, a), b)


def generalized_tail(x, beta):
    return gamma_upper_tail(abs(x) ** beta, 1 / beta) / 2


def binomial_mass(k, n, p):
    return mp.binomial(n, k) * p**k * (1 - p) ** (n - k)


def poisson_mass(k, mu):
    return mp.exp(k * mp.log(mu) - mu - mp.loggamma(k + 1))


def poisson_entropy(mu):
    total, mass, log_mass = mp.mpf(0), mp.exp(-mu), -mu
    for k in range(int(mu + 60 + 30 * mp.sqrt(mu))):
        total -= mass * log_mass
        ratio = mu / (k + 1)
        mass, log_mass = mass * ratio, log_mass + mp.log(ratio)
    return total


def multinomial_mass(*args):
    counts, probabilities = args[:3], args[3:]
    out = mp.factorial(sum(counts))
    for k, p in zip(counts, probabilities, strict=True):
        out *= p**k / mp.factorial(k)
    return out


def dirichlet_density(*args):
    x, alpha = args[:3], args[3:]
    out = mp.gamma(sum(alpha))
    for p, a in zip(x, alpha, strict=True):
        out *= p ** (a - 1) / mp.gamma(a)
    return out


def bivariate_normal_density(x, y, mean_x, mean_y, xx, xy, yy):
    x, y, determinant = x - mean_x, y - mean_y, xx * yy - xy * xy
    squares = (yy * x * x - 2 * xy * x * y + xx * y * y) / determinant
    return mp.exp(-squares / 2) / (2 * mp.pi * mp.sqrt(determinant))


# Functions of distributions with parameters of shape
SHAPED = {
    "beta.pdf": beta_density,
    "beta.cdf": beta_tail,
    "beta.sf": lambda x, a, b: beta_tail(1 - x, b, a),
    "gamma.pdf": gamma_density,
    "gamma.cdf": gamma_tail,
    "gamma.sf": gamma_upper_tail,
    "chi2.pdf": lambda x, df: gamma_density(x / 2, df / 2) / 2,
    "chi2.cdf": lambda x, df: gamma_tail(x / 2, df / 2),
    "chi2.sf": lambda x, df: gamma_upper_tail(x / 2, df / 2),
    "t.pdf": t_density,
    "truncnorm.pdf": lambda x, a, b: (
        mp.npdf(x) / normal_mass(a, b) if x == truncated(x, a, b) else 0
    ),
    "truncnorm.cdf": lambda x, a, b: normal_mass(a, truncated(x, a, b)) / normal_mass(a, b),
    "truncnorm.sf": lambda x, a, b: normal_mass(truncated(x, a, b), b) / normal_mass(a, b),
    "gennorm.pdf": lambda x, beta: mp.exp(-(abs(x) ** beta)) / (2 * mp.gamma(1 + 1 / beta)),
    "gennorm.cdf": lambda x, beta: (
        generalized_tail(x, beta) if x < 0 else 1 - generalized_tail(x, beta)
    ),
    "vonmises.pdf": lambda x, kappa: mp.exp(kappa * mp.cos(x)) / (2 * mp.pi * mp.besseli(0, kappa)),
    "wrapcauchy.pdf": lambda x, c: (
        (1 - c * c) / (2 * mp.pi * (1 + c * c - 2 * c * mp.cos(x))) if x <= 2 * mp.pi else 0
    ),
    "bernoulli.pmf": lambda k, p: p if k else 1 - p,
    "binom.pmf": binomial_mass,
    "nbinom.pmf": lambda k, n, p: binomial_mass(n, n + k, p) * n / (n + k),
    "poisson.pmf": poisson_mass,
    "poisson.cdf": lambda k, mu: gamma_upper_tail(mu, k + 1),
    "poisson.entropy": poisson_entropy,
    "geom.pmf": lambda k, p: p * (1 - p) ** (k - 1),
    "betabinom.pmf": lambda k, n, a, b: (
        mp.binomial(n, k) * mp.beta(k + a, n - k + b) / mp.beta(a, b)
    ),
    "multinomial.pmf": multinomial_mass,
    "dirichlet.pdf": dirichlet_density,
    "multivariate_normal.pdf": bivariate_normal_density,
}


_OTHER_TAIL = {"cdf": "sf", "sf": "cdf"}


def of_distribution(name):
    """Returns the exact function of the name of one in jax.scipy.stats, such as norm.logpdf."""
    distribution, function = name.split(".")
    is_log = function.startswith("log")
    base = function.removeprefix("log")

    def exact(x, *args):
        if shaped := SHAPED.get(f"{distribution}.{base}"):
            out = shaped(x, *args)
            if is_log and base in _OTHER_TAIL and out > 0.5:
                return mp.log1p(-SHAPED[f"{distribution}.{_OTHER_TAIL[base]}"](x, *args))
        elif distribution == "pareto":
            out = getattr(PARETO, base)(x, *args)
        else:
            loc, scale = args
            fun = getattr(DISTRIBUTIONS[distribution], base)
            if base in ("ppf", "isf"):
                return loc + scale * fun(x)
            out = fun((x - loc) / scale)
            out = out / scale if base == "pdf" else out
        return (mp.log(out) if out else -mp.inf) if is_log else mp.mpf(out)

    return exact


def parts(value):
    """Splits an exact real number into two float64 numbers."""
    if isinstance(value, mp.mpf):  # its exponent may be of another type, which mpmath rejects
        sign, digits, exponent, count = value._mpf_
        value = mp.make_mpf((sign, digits, int(exponent), count))
    if abs(value) > mp.mpf(2) ** 1024:
        return float(mp.sign(value)) * np.inf, 0.0
    high = _float(value)
    return high, _float(value - high) if np.isfinite(high) else 0.0


def _float(value):
    """Converts a number, which may be far below float64's range."""
    return float(value) if abs(value) > mp.mpf(2) ** -1100 else 0.0


def exact_number(x):
    """The number of a point; zeros beside branch cuts have a side, as mpmath's have no sign."""
    if not np.iscomplexobj(x):
        return mp.mpf(x.item())
    shift = mp.mpf(10) ** (-mp.mp.dps - 100)
    return mp.mpc(*[mp.mpf(p.item()) or shift * np.copysign(1, p).item() for p in (x.real, x.imag)])


def values(name, arguments):
    """Returns exact values as an array (2, results, points): float64 numbers and what they lack."""
    out = []
    function = of_distribution(name) if "." in name else EXACT[name.removesuffix("_at_cuts")]
    for point in zip(*arguments):
        try:
            exact = function(*map(exact_number, point))
        except (ValueError, ZeroDivisionError):  # at a pole
            sign = np.prod(np.copysign(1, np.real(point))).item()
            exact = mp.mpc(mp.inf) if np.iscomplexobj(arguments) else sign * mp.inf
        out.append(exact if isinstance(exact, tuple) else (exact,))
    if any(isinstance(value, mp.mpc) for exact in out for value in exact):
        out = [[mp.mpc(exact[0]).real, mp.mpc(exact[0]).imag] for exact in out]
    out = [[parts(value) for value in exact] for exact in out]
    return np.moveaxis(np.array(out), 0, -1).swapaxes(0, 1)


def flushed(arguments, tiny):
    """Yields arguments with some of their numbers below the normal ones as zeros."""
    if np.iscomplexobj(arguments):
        parts = arguments.view(arguments.real.dtype)
        is_tiny = (np.abs(parts) < tiny) & (parts != 0)
        if is_tiny.any():
            yield np.where(is_tiny, np.copysign(0, parts), parts).view(arguments.dtype)
        return
    is_tiny = (np.abs(arguments) < tiny) & (arguments != 0)
    rows = range(len(arguments))
    for count in range(1, len(arguments) + 1):
        for some in itertools.combinations(rows, count):
            zeros = is_tiny & np.isin(rows, some)[:, None]
            if zeros.any():
                yield np.where(zeros, np.copysign(0, arguments), arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="REGEX", help="functions to compute anew")
    pattern = parser.parse_args().filter
    path = pathlib.Path(__file__).with_suffix(".npz")
    old = dict(np.load(path)) if pattern else {}
    out = {}
    for name, dtype, arguments, digits in all_points():
        key = f"{name}:{dtype}"
        if not re.search(pattern, key):
            out |= {k: v for k, v in old.items() if k.startswith(f"{key}:")}
            continue
        arguments = np.ascontiguousarray(arguments[:, np.isfinite(arguments).all(0)])
        out[f"{key}:arguments"] = arguments
        info = HALVES[dtype] if dtype in HALVES else np.finfo(dtype)
        with mp.workdps(digits):
            # A float64 number is exact enough for narrower dtypes.
            count = 2 if dtype in ("float64", "complex128") else 1
            out[f"{key}:values"] = values(name, arguments)[:count]
            for i, zeros in enumerate(flushed(arguments, float(info.tiny))):
                differs = (zeros != arguments).any(0)
                others = np.full_like(out[f"{key}:values"], np.nan)
                others[..., differs] = values(name, zeros[:, differs])[:count]
                out[f"{key}:flushed{i}"] = others
    np.savez_compressed(path, **out)


if __name__ == "__main__":
    main()
