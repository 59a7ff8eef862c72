"""Writes the piecewise polynomials of special functions: the modules in `MODULES`.

Run it in an environment with mpmath and NumPy, after a change of a function's definition, interval or degree here:

    python benchmarks/special_tables.py                  # write all modules
    python benchmarks/special_tables.py --check GAMMA  # compare tables with what is there

Each piece interpolates exact values at Chebyshev nodes. From the left, pieces are as long as the error allows: 2**-26
of the value in the tables for float32, 2**-55 in those for float64.
"""

import argparse
import functools
import pathlib
import runpy
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

mp.mp.dps = 45
M = mp.mpf
ROOT = pathlib.Path(__file__).absolute().parent.parent / "jax/_src"


# ---------------------------------------------------------------------------------------------------
# The functions. At the ends of the intervals they are continued by their limits.


def stirling_series(v, numerators):
    """Sums an asymptotic series of Bernoulli numbers for 1 / v > 100**2."""
    return sum(mp.bernoulli(2 * k) / numerators(k) * v ** (k - 1) for k in range(1, 20))


def lgamma(x):
    for zero in (1, 2):
        if abs(x - zero) < M(10) ** -15:
            x = zero + M(10) ** -12
    with mp.workdps(70):
        return mp.loggamma(x) / ((x - 1) * (x - 2))


def stirling(v):
    if v == 0:
        return M(1) / 12
    with mp.workdps(80):
        x = 1 / mp.sqrt(v)
        if x > 100:
            return stirling_series(v, lambda k: 2 * k * (2 * k - 1))
        return x * (mp.loggamma(x) - (x - M(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


with mp.workdps(60):
    DIGAMMA_ZERO = mp.findroot(mp.digamma, M("1.4616321449683623412626595423257213"))


def digamma(x):
    with mp.workdps(70):
        if abs(x - DIGAMMA_ZERO) < M(10) ** -20:
            return mp.polygamma(1, x)
        return mp.digamma(x) / (x - DIGAMMA_ZERO)


def digamma_tail(v):
    if v == 0:
        return M(1) / 12
    with mp.workdps(80):
        x = 1 / mp.sqrt(v)
        if x > 100:
            return stirling_series(v, lambda k: 2 * k)
        return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x


def quantile(p):
    """Solves ndtr(x) = p by Newton's method for the logarithms."""
    x = (p - M(1) / 2) * M("2.5")
    if p < 0.1:
        x = -mp.sqrt(-2 * mp.log(p))
        for _ in range(3):
            x = -mp.sqrt(max(M("0.1"), -2 * mp.log(p) - mp.log(2 * mp.pi) - 2 * mp.log(-x)))
    for _ in range(12):
        value = mp.erfc(-x / mp.sqrt(2)) / 2
        density = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)
        step = (mp.log(value) - mp.log(p)) * value / density
        x -= step
        if abs(step) < M(10) ** -38:
            break
    return x


def ndtri_central(y):
    if y == 0:
        return mp.sqrt(2 * mp.pi)
    q = mp.sqrt(y)
    return -quantile(M(1) / 2 - q) / q


def ndtri_tail(r):
    return -quantile(mp.exp(-r * r / 2)) / r


def asymptotic(terms):
    """Sums a series until its terms are negligible, or grow."""
    total, last = M(0), None
    for term in terms:
        if last is not None and abs(term) > abs(last):
            break
        total, last = total + term, term
        if abs(term) < M(10) ** -42:
            break
    return total


def erfcx(u):
    if u == 0:
        return 2 / mp.sqrt(mp.pi)
    x = 4 / u - 4
    if x < 25:
        value = mp.exp(x * x) * mp.erfc(x)
    else:
        terms = ((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(400))
        value = asymptotic(terms) / (x * mp.sqrt(mp.pi))
    return (1 + 2 * x) * value


def erfcx_centered(t):
    y = 4 / (1 + t) - 2
    return erfcx(4 / (4 + y)) / (1 + 2 * y) * (1 + y / 2)


def dawson(x):
    return M(1) if x == 0 else mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x) / x


def dawson_tail(v):
    if v > 1 / M(150):
        return 2 / v * dawson(1 / mp.sqrt(v))
    return asymptotic(mp.fac2(2 * k - 1) * (v / 2) ** k for k in range(200))


def fresnel_small(fun, at_zero, power):
    def value(w):
        x = w ** (M(1) / 4)
        return at_zero if w == 0 else fun(x) / x**power

    return value


def fresnel_auxiliary(which):
    """The auxiliary functions f and g of DLMF 7.2(iv), times the leading power of x, of 1 / x**4."""

    def value(v):
        if v == 0:
            return M(1)
        x = v ** (-M(1) / 4)
        with mp.workdps(70):
            a = mp.pi * x * x / 2
            c, s = M(1) / 2 - mp.fresnelc(x), M(1) / 2 - mp.fresnels(x)
            f, g = s * mp.cos(a) - c * mp.sin(a), c * mp.cos(a) + s * mp.sin(a)
        return mp.pi * x * f if which == "f" else mp.pi**2 * x**3 * g

    return value


def without_zero(fun, zero):
    """(fun(x) - log(x / zero)) / (x - zero)"""

    def value(x):
        if x == 0:
            return -(mp.euler + mp.log(zero)) / zero
        if abs(x - zero) < M(10) ** -15:
            x = zero + M(10) ** -13
        with mp.workdps(80):
            return (fun(x) - mp.log(x / zero)) / (x - zero)

    return value


def exponential_large(fun, sign):
    """x exp(-sign x) fun(x) of 1 / x"""
    return lambda v: M(1) if v == 0 else mp.exp(-sign / v) * fun(1 / v) / v


def sici_oscillation(which):
    """Modulus and phase of Ci(x) - i (Si(x) - pi / 2), of 1 / (x + 5): x times the first, and what the phase lacks."""

    def value(u):
        x = 1 / max(u, M(10) ** -12) - 5
        with mp.workdps(90):
            c, s = mp.ci(x), mp.si(x) - mp.pi / 2
            f, g = c * mp.sin(x) - s * mp.cos(x), -c * mp.cos(x) - s * mp.sin(x)
            return x * mp.hypot(f, g) if which == "modulus" else x * x * (x * mp.atan2(g, f) - 1)

    return value


EI_ZERO = mp.findroot(mp.ei, 0.3725)
CI_ZERO = mp.findroot(mp.ci, 0.6165)


class Table(NamedTuple):
    """A function on an interval.

    `degrees` are those for float32, None if that does not use the table, and for float64. Errors are relative to `scale`, or to the value if it is None.
    """

    text: str
    fun: Callable[[Any], Any]
    low: Any
    high: Any
    degrees: tuple[int, int]
    scale: Any = None


class Rational(NamedTuple):
    """A function on [low, high], for float32 only, as a polynomial or a quotient of two.

    `degrees` are those of numerator and denominator, which are equal or the second is 0. Errors are relative to
    `scale(x)`, or to the value if it is None. Of quotients, half of the points are below `middle`.
    """

    text: str
    fun: Callable[[Any], Any]
    low: float
    high: float
    degrees: tuple[int, int]
    middle: float = 0
    scale: Callable[[Any], Any] | None = None


def ndtri_ratio(u):
    """ndtri(p) / (p - 1/2) of u = -log2(4 p (1 - p))"""
    if u == 0:
        return mp.sqrt(2 * mp.pi)
    distance = mp.sqrt(-mp.expm1(-u * mp.log(2))) / 2
    p = M(2) ** -u / (2 + 4 * distance)
    return -quantile(p) / distance


TABLES = {
    "LGAMMA": Table("lgamma(x) / ((x - 1) (x - 2)) for x in [0.5, 3]", lgamma, M("0.5"), M(3), (8, 15)),
    "STIRLING": Table(
        "x (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2) of 1 / x**2 in [0, 1/9]",
        stirling, M(0), M(1) / 9, (3, 12),
    ),
    "GAMMA": Table("gamma(x) for x in [1, 2]", mp.gamma, M(1), M(2), (10, 15)),
    "DIGAMMA": Table(
        "digamma(x) / (x - x0) for x in [1, 10]; x0 is the positive zero", digamma, M(1), M(10), (9, 15)
    ),
    "DIGAMMA_TAIL": Table(
        "x**2 (log(x) - 1 / (2 x) - digamma(x)) of 1 / x**2 in [0, 0.01]",
        digamma_tail, M(0), M(1) / 100, (2, 6),
    ),
    "LOG2": Rational(
        "log2(1 + x) / x for x in [-0.3, 0.42], of absolute error 2**-25 / x",
        lambda x: 1 / mp.log(2) if x == 0 else mp.log1p(x) / x / mp.log(2),
        -0.2929, 0.4143, (7, 0), scale=lambda x: 1 / abs(x),
    ),
    "SINE": Table(
        "sin(pi x) / x of x**2 in [0, 1/4]",
        lambda v: mp.pi * mp.sinc(mp.pi * mp.sqrt(v)), M(0), M(1) / 4, (5, 9),
    ),
    "TANGENT": Table(
        "tan(pi x) / x of x**2 in [0, 1/16]",
        lambda v: mp.pi if v == 0 else mp.tan(mp.pi * mp.sqrt(v)) / mp.sqrt(v), M(0), M(1) / 16, (6, 13),
    ),
    "NDTRI_CENTRAL": Table(
        "ndtri(p) / (p - 1/2) of (p - 1/2)**2 in [0, 9/64]", ndtri_central, M(0), M(9) / 64, (None, 12)
    ),
    "NDTRI_TAIL": Table(
        "-ndtri(p) / r of r = sqrt(-2 log(p)) in [2, 39]", ndtri_tail, M(2), M(39), (None, 15)
    ),
    "NDTRI_RATIO": Rational(
        "ndtri(p) / (p - 1/2) of -log2(4 p (1 - p)) in [0, 128.5]", ndtri_ratio, 0, 128.5, (8, 8), 10
    ),
    "ERFINV_RATIO": Rational(
        "erfinv(x) / x of -log2(1 - x**2) in [0, 24]",
        lambda u: ndtri_ratio(u) / mp.sqrt(8), 0, 24, (5, 5), 8,
    ),
    "ERFCX": Table("(1 + 2 x) erfcx(x) of 4 / (4 + x) in [0, 1]", erfcx, M(0), M(1), (None, 15)),
    "ERFCX_SINGLE": Rational(
        "(1 + y / 2) erfcx(y) of 4 / (2 + y) - 1 in [-1, 1]",
        erfcx_centered, -1, 1, (10, 0),
    ),
    "DAWSON": Table("dawsn(x) / x for x in [0, 6]", dawson, M(0), M(6), (8, 15)),
    "DAWSON_TAIL": Table("2 x dawsn(x) of 1 / x**2 in [0, 1/36]", dawson_tail, M(0), M(1) / 36, (4, 13)),
    "FRESNEL_C": Table(
        "C(x) / x of x**4 in [0, 6]", fresnel_small(mp.fresnelc, M(1), 1), M(0), M(6), (6, 11), M(1)
    ),
    "FRESNEL_S": Table(
        "S(x) / x**3 of x**4 in [0, 6]",
        fresnel_small(mp.fresnels, mp.pi / 6, 3), M(0), M(6), (6, 11), M(1) / 3,
    ),
    "FRESNEL_F": Table(
        "pi x f(x) of 1 / x**4 in [0, 1/6]; DLMF 7.2(iv)", fresnel_auxiliary("f"), M(0), M(1) / 6, (5, 12)
    ),
    "FRESNEL_G": Table(
        "pi**2 x**3 g(x) of 1 / x**4 in [0, 1/6]; DLMF 7.2(iv)",
        fresnel_auxiliary("g"), M(0), M(1) / 6, (5, 12),
    ),
    "EI_SMALL": Table(
        "(Ei(x) - log(x / x0)) / (x - x0) for x in [0, 6]; x0 is the zero",
        without_zero(mp.ei, EI_ZERO), M(0), M(6), (8, 15),
    ),
    "EI_LARGE": Table(
        "x exp(-x) Ei(x) of 1 / x in [0, 1/6]", exponential_large(mp.ei, 1), M(0), M(1) / 6, (7, 14)
    ),
    "E1_SMALL": Table(
        "E1(x) + log(x) for x in [0, 1]",
        lambda x: -mp.euler if x == 0 else mp.e1(x) + mp.log(x), M(0), M(1), (7, 14), M(1) / 5,
    ),
    "E1_LARGE": Table(
        "x exp(x) E1(x) of 1 / x in [0, 1]", exponential_large(mp.e1, -1), M(0), M(1), (7, 14)
    ),
    "SI_SMALL": Table(
        "Si(x) / x of x**2 in [0, 4]",
        lambda y: M(1) if y == 0 else mp.si(mp.sqrt(y)) / mp.sqrt(y), M(0), M(4), (5, 9),
    ),
    "CI_SMALL": Table(
        "(Ci(x) - log(x / x0)) / (x - x0) for x in [0, 2]; x0 is the first zero",
        without_zero(mp.ci, CI_ZERO), M(0), M(2), (8, 15), M(1) / 10,
    ),
    "SICI_MODULUS": Table(
        "x M(x) of 1 / (x + 5) for x >= 2, with Ci(x) = M sin(x - phase) and Si(x) = pi / 2 - M cos(x - phase)",
        sici_oscillation("modulus"), M(0), M(1) / 7, (9, 20),
    ),
    "SICI_PHASE": Table(
        "x**2 (x phase(x) - 1) of 1 / (x + 5) for x >= 2", sici_oscillation("phase"), M(0), M(1) / 7, (12, 30),
        M(8),
    ),
}  # fmt: skip

MODULES = {
    "lax/special/gamma_tables.py": (
        "gamma functions", "LGAMMA STIRLING GAMMA DIGAMMA DIGAMMA_TAIL LOG2 SINE TANGENT",
    ),
    "lax/special/error_tables.py": (
        "the scaled complementary error function", "ERFCX ERFCX_SINGLE",
    ),
    "lax/special/normal_tables.py": (
        "the quantile function of the normal distribution", "NDTRI_CENTRAL NDTRI_TAIL NDTRI_RATIO ERFINV_RATIO",
    ),
    "scipy/special/error_tables.py": (
        "functions of normal integrals",
        "DAWSON DAWSON_TAIL FRESNEL_C FRESNEL_S FRESNEL_F FRESNEL_G",
    ),
    "scipy/special/integral_tables.py": (
        "exponential and trigonometric integrals",
        "EI_SMALL EI_LARGE E1_SMALL E1_LARGE SI_SMALL CI_SMALL SICI_MODULUS SICI_PHASE",
    ),
}  # fmt: skip
HEADER = '''"""Piecewise polynomials for {}, by the precision of the result.

On each piece, Chebyshev interpolation of values of 45 digits, of relative error below 2**-26 or 2**-55. A table has,
for both precisions, the ends of its pieces and their coefficients, in powers of a variable from -1 to 1. Made by
benchmarks/special_tables.py.
"""

# fmt: off

'''


# ---------------------------------------------------------------------------------------------------
# Interpolation


def interpolate(fun, low, high, degree):
    """Coefficients, in powers of a variable from -1 to 1, of the polynomial through the Chebyshev nodes."""
    n = degree + 1
    angles = [mp.pi * (2 * k + 1) / (2 * n) for k in range(n)]
    values = [fun((low + high) / 2 + (high - low) / 2 * mp.cos(a)) for a in angles]
    out = [M(0)] * n
    before, here = [M(0)], [M(1)]  # Chebyshev polynomials
    for j in range(n):
        weight = M(1 if j == 0 else 2) / n
        c = weight * sum(v * mp.cos(j * a) for v, a in zip(values, angles))
        for i, t in enumerate(here):
            out[i] += c * t
        after = [M(0), *[(1 if j == 0 else 2) * t for t in here]]
        for i, t in enumerate(before):
            after[i] -= t
        before, here = here, after
    return out


def error(fun, low, high, polynomial, scale):
    """The largest error at the ends and between the nodes."""
    n, worst = 2 * len(polynomial), M(0)
    for k in range(n + 1):
        t = mp.cos(mp.pi * k / n)
        exact = fun((low + high) / 2 + (high - low) / 2 * t)
        difference = abs(mp.polyval(polynomial[::-1], t) - exact)
        worst = max(worst, difference / (abs(exact) if scale is None else scale))
    return worst


def pieces(fun, low, high, degree, tolerance, scale):
    """The ends of pieces, short binary fractions, and their polynomials."""
    ends, rows = [low], []
    while low < high:
        width = high - low
        while True:
            end = min(low + width, high)
            if end != high:
                fraction, exponent = mp.frexp(M(float(end)) - low)
                steps = 8 if low == 0 else 16
                end = low + mp.ldexp(mp.floor(fraction * steps) / steps, exponent)
            polynomial = interpolate(fun, low, end, degree)
            if error(fun, low, end, polynomial, scale) < tolerance:
                break
            width = (end - low) * M("0.8")
        ends.append(end)
        rows.append(tuple(map(float, polynomial)))
        low = end
    return tuple(map(float, ends)), tuple(rows)


def rational(table):
    """Coefficients, from the constant one upwards, of the numerator and, unless it is 1, of the denominator.

    By linear least squares, weighted in turns so that the largest error falls (Lawson's method).
    """
    t = np.cos(np.pi * (np.arange(600) + 0.5) / 600)
    n, m = table.degrees
    low, high, c = table.low, table.high, table.middle
    if m:  # points are evenly spread in x / (x + c)
        low, high = low / (low + c), high / (high + c)
    x = (low + high) / 2 + (high - low) / 2 * t
    x = c * x / (1 - x) if m else x
    exact = np.array([float(table.fun(M(float(value)))) for value in x])
    scale = np.abs(
        exact if table.scale is None else np.array([float(table.scale(value)) for value in x])
    )
    basis = np.polynomial.chebyshev.chebvander(t, max(n, m))
    below, weight, best = np.ones(t.size), np.ones(t.size), (np.inf,)
    for _ in range(150):
        columns = [basis[:, : n + 1], -basis[:, 1 : m + 1] * exact[:, None]]
        factor = np.sqrt(weight) / (below * scale)
        solution = np.linalg.lstsq(np.hstack(columns) * factor[:, None], exact * factor, 1e-17)[0]
        above, below = solution[: n + 1], np.append(1, solution[n + 1 :])
        error = np.abs(basis[:, : n + 1] @ above / (basis[:, : m + 1] @ below) - exact) / scale
        if np.max(error) < best[0]:
            best = np.max(error), above, below
        below = basis[:, : m + 1] @ below
        weight = weight * (error / np.max(error) + 0.01)
        weight, below = weight / np.sum(weight), below / np.median(below)
    print(f"largest error 2**{np.log2(best[0]):.1f}")
    # The Chebyshev series are in t = above / below, polynomials of x; both are multiplied by below**n.
    above = np.array([-(low + high) * c, 2 - low - high] if m else [-(low + high), 2]) / (
        high - low
    )
    below = np.array([c, 1] if m else [1])
    parts = [in_powers(part, above, below, n) for part in best[1:]]
    parts = [part / parts[1][0] for part in parts] if m else parts[:1]
    return tuple(tuple(float(number(a, 32)) for a in part) for part in parts)


def in_powers(series, above, below, degree):
    """A Chebyshev series of a quotient of polynomials, times the denominator's power, as a polynomial."""
    multiply, power = np.polynomial.polynomial.polymul, np.polynomial.polynomial.polypow
    out = np.zeros(1)
    for k, a in enumerate(np.polynomial.chebyshev.cheb2poly(series)):
        term = multiply(power(above, k), power(below, degree - k))
        out = np.polynomial.polynomial.polyadd(out, a * term)
    return out


def compute(name):
    """The table of a name, as it is in the module."""
    table = TABLES[name]
    if isinstance(table, Rational):
        return rational(table)
    fun = functools.cache(table.fun)
    out = {}
    for bits, degree, error in zip((32, 64), table.degrees, (26, 55)):
        if degree is not None:
            ends, rows = pieces(fun, table.low, table.high, degree, M(2) ** -error, table.scale)
            out[bits] = ends, tuple(tuple(float(number(c, bits)) for c in row) for row in rows)
    return out


def number(x, bits):
    if bits == 64:
        return repr(x)
    single = np.float32(x)
    if abs(x) < 1e-3 or abs(x) > 1e6:
        return np.format_float_scientific(single, unique=True, trim="0")
    return repr(float(str(single)))


def text(name, table):
    lines = [f"# {TABLES[name].text}"]
    if isinstance(TABLES[name], Rational):
        rows = [", ".join(number(x, 32) for x in row) for row in table]
        rows = [
            textwrap.fill(f"({row}),", 112, initial_indent="    ", subsequent_indent="     ")
            for row in rows
        ]
        return "\n".join([*lines, f"{name} = (", *rows, ")\n"])
    lines.append(f"{name} = {{")
    for bits, (ends, rows) in table.items():
        lines.append(f"    {bits}: (({', '.join(map(repr, ends))}), (")
        for row in rows:
            numbers = ", ".join(number(x, bits) for x in row)
            wrapped = textwrap.fill(numbers, 112, initial_indent=" " * 9, subsequent_indent=" " * 9)
            lines.append(f"        ({wrapped.strip()}),")
        lines.append("    )),")
    return "\n".join([*lines, "}\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", nargs="*", metavar="NAME", help="tables to compare; none for all"
    )
    options = parser.parse_args()
    if options.check is None:
        for path, (subject, names) in MODULES.items():
            tables = [text(name, compute(name)) for name in names.split()]
            (ROOT / path).write_text(HEADER.format(subject) + "".join(tables))
        return 0
    stored = {}
    for path in MODULES:
        stored |= runpy.run_path(str(ROOT / path))
    changed = [name for name in options.check or TABLES if compute(name) != stored[name]]
    print(f"changed: {', '.join(changed)}" if changed else "nothing has changed")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
