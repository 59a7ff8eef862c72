"""Writes accuracy_reference.npz: points of special functions, and the exact values there.

    python benchmarks/accuracy_reference.py [--filter REGEX]

Run it in an environment with mpmath and numpy, after a change of the points; with --filter, only the
functions it matches are computed anew. The points reach zeros, poles' neighborhoods, large and small
arguments and tails; those of elementary functions reach the edges of dtypes and numbers below the
normal ones. As processors may flush these to zero, the values at zero are there, too.
"""

import argparse
import pathlib
import re

import mpmath as mp
import numpy as np

mp.mp.dps = 40
N = 40
rng = np.random.default_rng(1)


def near(low, high, n=N):
    """Numbers between two, evenly spread."""
    return rng.uniform(low, high, n)


def across(low, high, n=N):
    """Numbers of all magnitudes between two positive ones."""
    return np.exp(rng.uniform(np.log(low), np.log(high), n))


def both(x):
    return np.concatenate([x, -x])


def points():
    """Yields functions' names and their arguments."""
    join = lambda *parts: np.concatenate(parts)
    zero = 1.4616321449683622
    yield "gamma", join(near(-30, 35), near(0.5, 3), across(1e-30, 1))
    at_zeros = join(1 + across(1e-6, 0.1), 2 - across(1e-6, 0.1))
    yield "gammaln", join(near(-10, 35), near(0.5, 3), across(1e-30, 1e30), at_zeros)
    yield "loggamma", join(near(0.5, 3), across(1e-10, 1e10))
    yield "digamma", join(near(-10, 20), across(1e-20, 1e20), zero + both(across(1e-6, 0.1)))
    yield "factorial", join(np.arange(0, 30.0), near(0, 30))
    yield "erf", both(across(1e-30, 6))
    yield "erfc", join(near(-5, 9), both(across(1e-10, 1)))
    yield "erfcx", join(near(-6, 20), across(1e-20, 1e4))
    yield "erfinv", join(near(-1, 1), 1 - across(1e-7, 0.1), across(1e-20, 0.1))
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
    for name in ("gammainc", "gammaincc"):
        a = across(0.05, 200)
        yield name, a, a * np.exp(near(-1.5, 1.5))
    a, b = across(0.1, 100), across(0.1, 100)
    yield "betainc", a, b, np.clip(a / (a + b) * np.exp(near(-1, 0.5)), 0, 0.999)
    yield "beta", join(across(0.1, 30), near(-5, 5)), join(across(0.1, 30), near(-5, 5))
    yield "betaln", across(0.01, 1e4), across(0.01, 1e4)
    yield "poch", join(across(0.1, 20), near(-5, 5)), join(near(0, 5), near(-3, 5))
    yield "comb", np.floor(near(20, 40)), np.floor(near(0, 20))
    yield "zeta", join(near(1.1, 20), 1 + across(1e-3, 1)), across(0.1, 50, 2 * N)
    yield "polygamma", np.tile(np.arange(1.0, 6), 8), across(0.1, 30)
    for name in ("i0", "i1", "i0e", "i1e"):
        yield name, both(across(1e-10, 80))
    yield "owens_t", both(near(0, 6)), join(near(-1, 1), across(1e-3, 1e3))
    yield "hyp1f1", near(0.1, 10), near(0.1, 10), across(0.01, 40) * rng.choice([-1, 1], N)
    x = join(near(-5, 0.9, N // 2), 1 - across(1e-4, 0.2, N // 2))
    yield "hyp2f1", near(0.1, 4), near(0.1, 4), near(0.1, 6), x
    yield "entr", across(1e-30, 1e10)
    yield "xlogy", near(-5, 5), across(1e-30, 1e10)
    yield "xlog1py", near(-5, 5), across(1e-20, 1e10)
    yield "rel_entr", across(0.01, 10), across(0.01, 10)
    yield "kl_div", join(across(0.01, 10), near(1, 1.1)), join(across(0.01, 10), near(1, 1.1))
    powers = join(near(-3, 3, N // 2), across(1e-6, 0.1, N // 2))
    yield "boxcox", across(1e-3, 1e3), powers
    yield "boxcox1p", across(1e-6, 1e3), powers
    yield "logit", join(near(0, 1), across(1e-30, 0.1), 0.5 + both(across(1e-6, 0.1)))
    yield "expit", join(near(-80, 80), near(-2, 2))


def elementary(dtype):
    """Yields elementary functions' names and their arguments, which reach the edges of the dtype."""
    rng = np.random.default_rng(2)
    info = np.finfo(dtype)
    tiny, big = float(info.tiny), float(info.max)
    join = lambda *parts: np.concatenate(parts)
    near = lambda low, high, n=N: rng.uniform(low, high, n)
    across = lambda low, high, n=N: np.exp(rng.uniform(np.log(low), np.log(high), n))
    subnormal = tiny * np.array([2.0**-20, 2.0**-9, 1 / 3, 1 / 2, 1 - 2.0**-10])
    positive = join(across(tiny, big), subnormal, [tiny, big])
    everywhere = both(positive)
    in_one = join(both(across(tiny, 1)), near(-1, 1), both(subnormal), [1, -1])
    low, high = np.log(tiny), np.log(big)
    exponents = join(near(low, high), near(-2, 2), everywhere, high + near(-1, 1, 10))
    yield "exp", exponents
    yield "exp2", join(exponents / np.log(2), np.arange(info.minexp, info.maxexp, 11.0))
    yield "expm1", exponents
    around_one = join(positive, near(0.5, 2), 1 + both(across(float(info.eps), 0.1)))
    for name in ("log", "log2", "log10", "sqrt"):
        yield name, around_one
    yield "cbrt", join(everywhere, near(-8, 8))
    yield "log1p", join(everywhere[everywhere > -1], near(-1, 2), across(float(info.eps), 0.1) - 1)
    turns = np.arange(1, 40) * np.pi / 2
    for name in ("sin", "cos", "tan"):
        yield name, join(everywhere, near(-20, 20), turns)
    for name in ("asin", "acos", "atanh"):
        yield name, join(in_one, both(1 - across(float(info.eps), 0.1)))
    for name in ("atan", "asinh"):
        yield name, join(everywhere, near(-3, 3))
    yield "acosh", join(across(1, big), near(1, 3), 1 + across(float(info.eps), 0.1))
    for name in ("sinh", "cosh", "tanh"):
        yield name, join(near(-high, high), near(-3, 3), everywhere, high + near(0, 1, 10))
    yield (
        "sinc",
        join(near(-10, 10), both(across(tiny, 1e4)), np.arange(0, 9) + across(1e-6, 0.1, 9)),
    )
    sign = lambda n: rng.choice([-1.0, 1.0], n)
    n = len(positive)
    yield (
        "hypot",
        join(positive, across(0.01, 100)) * sign(n + N),
        join(rng.permutation(positive), across(0.01, 100)),
    )
    yield (
        "atan2",
        join(positive, across(0.01, 100)) * sign(n + N),
        join(rng.permutation(positive), across(0.01, 100)) * sign(n + N),
    )
    yield (
        "power",
        join(across(1e-3, 1e3), across(tiny, big), 1 + both(across(1e-5, 0.1)), near(-3, 0)),
        join(near(-12, 12), near(-1.5, 1.5), near(-900, 900, 2 * N), np.floor(near(-30, 30))),
    )
    p = across(1e-6, 0.5)
    yield (
        "logaddexp",
        join(near(-100, 100), near(-5, 5), across(tiny, big), np.log(p)),
        join(near(-100, 100), near(-5, 5), across(tiny, big), np.log1p(-p)),
    )
    for name in ("softplus", "log_sigmoid", "silu"):
        yield name, join(near(low, -low), near(-5, 5), everywhere)


def complex_elementary(dtype):
    """Yields functions' names and arguments of all magnitudes of a dtype's parts, and directions."""
    rng = np.random.default_rng(3)
    info = np.finfo(dtype)
    tiny, big = 4 * float(info.tiny), float(info.max) / 4
    sign = lambda n: rng.choice([-1.0, 1.0], n)
    across = lambda low, high, n=N: sign(n) * np.exp(rng.uniform(np.log(low), np.log(high), n))
    near = lambda low, high, n=N: rng.uniform(low, high, n)
    join = lambda *parts: np.concatenate(parts)
    z = join(near(-3, 3), across(1e-4, 1e4), across(tiny, big)) + 1j * join(
        near(-3, 3), across(1e-4, 1e4), across(tiny, big)
    )
    circle = np.exp(1j * near(-3, 3, 10)) * (1 + across(float(info.eps), 0.1, 10))
    ones = sign(10) + across(float(info.eps), 0.1, 10) + 1j * across(float(info.eps), 0.1, 10)
    edge = sign(N) * (np.log(float(info.max)) + near(-1, 1)) + 1j * near(-20, 20)
    for name in ("log", "sqrt", "asin", "acosh", "atan"):
        yield name, join(z, circle, ones)
    yield "log1p", join(z, circle - 1, ones - 1)
    # exp(z) has no digits where the imaginary part is large; these points have moderate ones.
    moderate = join(near(-3, 3), across(tiny, 80)) + 1j * join(near(-20, 20), across(tiny, 80))
    for name in ("exp", "expm1", "tanh"):
        yield name, join(moderate, edge)
    yield "sin", join(moderate, edge.imag + 1j * edge.real)


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
    "gammainc": lambda a, x: mp.gammainc(a, 0, x, regularized=True),
    "gammaincc": lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True),
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
    "power": lambda x, y: mp.re(mp.power(x, y)),
    "logaddexp": lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
    "softplus": lambda x: max(x, 0) + mp.log1p(mp.exp(-abs(x))),
    "log_sigmoid": lambda x: min(x, 0) - mp.log1p(mp.exp(-abs(x))),
    "silu": lambda x: x / (1 + mp.exp(-x)),
}


def parts(value):
    """Splits an exact real number into two float64 numbers."""
    try:
        high = float(value)
    except OverflowError:
        high = float(mp.sign(value)) * np.inf
    return high, float(value - high) if np.isfinite(high) else 0.0


def values(name, arguments):
    """Returns exact values as an array (2, results, points): float64 numbers and what they lack."""
    out = []
    for point in zip(*arguments):
        convert = mp.mpc if np.iscomplexobj(point[0]) else mp.mpf
        point = [convert(x.item()) for x in point]
        try:
            exact = EXACT[name](*point)
        except (ValueError, ZeroDivisionError):  # at a pole
            exact = mp.inf
        if convert is mp.mpc:
            exact = mp.mpc(exact)
            exact = exact.real, exact.imag
        exact = exact if isinstance(exact, tuple) else (mp.re(exact),)
        out.append([parts(value) for value in exact])
    return np.moveaxis(np.array(out), 0, -1).swapaxes(0, 1)


def all_points():
    """Yields functions' names, their arguments in a dtype, and the digits to compute with."""
    dtypes = {np.float32: np.complex64, np.float64: np.complex128}
    for name, *args in points():
        for dtype in dtypes:
            yield name, np.stack([x.astype(dtype) for x in args]), 40
    # So many digits that no sum of a float64 number and its square loses one.
    for dtype, complex_dtype in dtypes.items():
        with np.errstate(over="ignore"):
            for name, *args in elementary(dtype):
                yield name, np.stack([np.asarray(x, dtype) for x in args]), 700
            for name, *args in complex_elementary(dtype):
                yield name, np.stack([np.asarray(x, complex_dtype) for x in args]), 700


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="REGEX", help="functions to compute anew")
    pattern = parser.parse_args().filter
    path = pathlib.Path(__file__).with_suffix(".npz")
    old = dict(np.load(path)) if pattern else {}
    out = {}
    for name, arguments, digits in all_points():
        key = f"{name}:{arguments.dtype}"
        if not re.search(pattern, key):
            out |= {k: v for k, v in old.items() if k.startswith(f"{key}:")}
            continue
        finite = np.isfinite(arguments).all(0)
        arguments = arguments[:, finite]
        out[f"{key}:arguments"] = arguments
        with mp.workdps(digits):
            out[f"{key}:values"] = values(name, arguments)
            tiny = np.abs(arguments) < np.finfo(arguments.dtype).tiny
            if tiny.any() and not np.iscomplexobj(arguments):
                flushed = np.where(tiny, np.copysign(0, arguments), arguments)
                out[f"{key}:flushed"] = values(name, flushed)
    np.savez_compressed(path, **out)


if __name__ == "__main__":
    main()
