"""Cases of `jax.lax.fft` and `jax.numpy.fft`."""

import numpy as np
from op_cases import Case, values

import jax.numpy as jnp
from jax import lax


def cases():
    x = values((2, 4, 5), "float32", "x")
    z = values((2, 4, 5), "complex64", "z")
    wide = values((2, 4, 6), "float64", "x")
    for kind, arg in (("FFT", z), ("IFFT", z), ("RFFT", x)):
        for n in (1, 2, 3):
            yield Case(
                f"lax_{kind}_{n}",
                lambda a, kind=kind, n=n: lax.fft(a, kind, a.shape[a.ndim - n :]),
                [arg],
                vmap=n == 1,
                tol=2e-4,
            )
    for last in (8, 9):
        for n in (1, 2):
            yield Case(
                f"lax_IRFFT_{last}_{n}",
                lambda a, n=n, last=last: lax.fft(a, "irfft", (*a.shape[a.ndim - n : -1], last)),
                [z],
                vmap=n == 1,
                tol=2e-4,
            )
    yield Case("lax_double", lambda a: lax.fft(a, "RFFT", (6,)), [wide], x64=True)
    yield Case("lax_no_batch", lambda a: lax.fft(a, "FFT", (5,)), [z[:0]], diff="", vmap=False)
    yield Case("lax_none", lambda a: lax.fft(a, "FFT", ()), [z], diff="", vmap=False)

    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        fun = getattr(jnp.fft, name)
        arg = x if name in ("rfft", "ihfft") else z
        np_fun = getattr(np.fft, name)
        yield Case(name, fun, [arg], np_fun, tol=2e-4)
        for n, axis, norm in (
            (3, 0, "ortho"),
            (7, -2, "forward"),
            (4, 1, "backward"),
            (6, 2, "ortho"),
        ):
            kw = dict(n=n, axis=axis, norm=norm)
            yield Case(
                f"{name}_{n}_{axis}",
                lambda a, f=fun, kw=kw: f(a, **kw),
                [arg],
                lambda a, f=np_fun, kw=kw: f(a, **kw),
                diff="both" if n == 7 else "",
                vmap=False,
                tol=2e-4,
            )
        yield Case(f"{name}_int", fun, [np.arange(6)], np_fun, diff="", vmap=False, tol=2e-4)
        yield Case(f"{name}_bool", fun, [np.arange(6) > 2], diff="", vmap=False, tol=2e-4)
    four = values((2, 3, 2, 4, 3), "float32", "four")
    for name in ("fft", "ifft", "rfft", "irfft"):
        fun, np_fun = getattr(jnp.fft, name + "n"), getattr(np.fft, name + "n")
        arg = x if name == "rfft" else z
        for s, axes, norm in (
            (None, None, None),
            (None, (2, 0), "ortho"),
            ((3, 4), None, "forward"),
            ((3, 4, 7), (1, 0, 2), None),
            (None, (1,), "ortho"),
            (None, (), None),
        ):
            kw = dict(s=s, axes=axes, norm=norm)
            yield Case(
                f"{name}n_{s}_{axes}",
                lambda a, f=fun, kw=kw: f(a, **kw),
                [arg],
                diff="both" if axes == (2, 0) else "",
                vmap=axes == (2, 0),
                tol=2e-4,
            )
        many = four if name == "rfft" else four.astype(np.complex64)
        yield Case(f"{name}n_many", fun, [many], np_fun, diff="", vmap=False, tol=5e-4)
        yield Case(
            f"{name}n_four_axes",
            lambda a, f=fun: f(a, axes=(0, 4, 2, 1)),
            [many],
            diff="",
            vmap=False,
            tol=5e-4,
        )
        fun2 = getattr(jnp.fft, name + "2")
        yield Case(f"{name}2", fun2, [arg], getattr(np.fft, name + "2"), vmap=False, tol=2e-4)

    for n in (0, 1, 4, 5):
        yield Case(
            f"frequencies_{n}",
            lambda d, n=n: (jnp.fft.fftfreq(n), jnp.fft.fftfreq(n, d), jnp.fft.rfftfreq(n, d)),
            [np.float32(0.5)],
            diff="",
            vmap=False,
        )
    yield Case(
        "shifts",
        lambda a: (
            jnp.fft.fftshift(a),
            jnp.fft.ifftshift(a),
            jnp.fft.fftshift(a, axes=1),
            jnp.fft.ifftshift(a, axes=(0, -1)),
        ),
        [x],
    )

    def error(name, fun, *args):
        return Case(f"error_{name}", fun, args, diff="", vmap=False, ignore=("jit",))

    yield error("kind", lambda a: lax.fft(a, "foo", (5,)), z)
    yield error("lengths", lambda a: lax.fft(a, "FFT", (4,)), z)
    yield error("rank", lambda a: lax.fft(a, "FFT", (2, 4, 5)), z[0])
    yield error("rfft_complex", lambda a: lax.fft(a, "RFFT", (5,)), z)
    yield error("rfft_half", lambda a: lax.fft(a, "RFFT", (5,)), x.astype(np.float16))
    yield error("length_int", lambda a: lax.fft(a, "RFFT", 5), x)
    yield error("norm", lambda a: jnp.fft.fft(a, norm="x"), x)
    yield error("n", lambda a: jnp.fft.fft(a, n=0), x)
    yield error("axis", lambda a: jnp.fft.fft(a, axis=3), x)
    yield error("axes", lambda a: jnp.fft.fft(a, axis=(0, 1)), x)
    yield error("repeated", lambda a: jnp.fft.fftn(a, axes=(0, 0)), x)
    yield error("sizes", lambda a: jnp.fft.fftn(a, s=(2,), axes=(0, 1)), x)
    yield error("two", lambda a: jnp.fft.fft2(a, axes=(0,)), x)
    yield error("real", jnp.fft.rfft, z)
    yield error("frequency_n", lambda a: jnp.fft.fftfreq([1, 2]), x)
    yield error("frequency_d", lambda a: jnp.fft.fftfreq(2, [1, 2]), x)


CASES = list(cases())
