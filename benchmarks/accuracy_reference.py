"""Writes accuracy_reference.npz: points of special functions, and the exact values there.

Run it in an environment with mpmath and numpy, after a change of the points. The points reach zeros,
poles' neighborhoods, large and small arguments and tails.
"""

import pathlib

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
}


def parts(value):
    """Splits an exact real number into two float64 numbers."""
    value = mp.re(value)
    high = float(value)
    return high, float(value - high) if np.isfinite(high) else 0.0


def main():
    out = {}
    for name, *args in points():
        for dtype in (np.float32, np.float64):
            rounded = [x.astype(dtype) for x in args]
            values = []
            for point in zip(*rounded):
                exact = EXACT[name](*[mp.mpf(float(x)) for x in point])
                values.append([parts(v) for v in (exact if isinstance(exact, tuple) else [exact])])
            key = f"{name}:{8 * np.dtype(dtype).itemsize}"
            out[f"{key}:arguments"] = np.stack(rounded)
            out[f"{key}:values"] = np.moveaxis(np.array(values), 0, -1).swapaxes(0, 1)
    np.savez_compressed(pathlib.Path(__file__).with_suffix(".npz"), **out)


if __name__ == "__main__":
    main()
