"""At which points `check_grads` evaluates functions, and what it compares. See op_cases.py."""

import re

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import test_util

CASES = Programs()
X = np.linspace(0.2, 1.3, 3)


def recorded(fun, points):
    """The function, which also appends its arguments to a list."""

    def run(*args):
        out = fun(*args)
        jax.debug.callback(
            lambda *xs: points.extend(np.asarray(x) for x in xs), *jax.tree.leaves(args)
        )
        return out

    return run


def outcome(check, fun, args, **kwargs):
    """The points of evaluation, and tolerances and names in the error."""
    points = []
    try:
        check(recorded(fun, points), args, **kwargs)
        text = "passed"
    except AssertionError as err:
        text = re.match(r"\s*Not equal to tolerance (.*?)\s+Mismatched", str(err), re.S)[1]
    jax.effects_barrier()
    wide = [p.astype(np.complex64) for p in points]
    return " ".join(text.split()), len(points), wide


def check_jvp(fun, args, **kwargs):
    test_util.check_jvp(fun, lambda p, t: jax.jvp(fun, p, t), args, **kwargs)


def check_vjp(fun, args, **kwargs):
    test_util.check_vjp(fun, lambda *xs: jax.vjp(fun, *xs), args, **kwargs)


@jax.custom_jvp
def wrong(x):
    return jnp.sin(x)


wrong.defjvp(lambda p, t: (jnp.sin(p[0]), 2 * t[0]))
FUNCTIONS = {
    "sin": (jnp.sin, lambda v: (v,)),
    "product": (lambda a, b: a * b + jnp.cos(a), lambda v: (v, v)),
    "tree": (
        lambda d: {"o": d["a"] * d["b"], "s": d["a"].sum()},
        lambda v: ({"a": v, "b": 2 * v},),
    ),
    "wrong": (wrong, lambda v: (v,)),
}
OPTIONS = {
    "first": {"order": 1},
    "second": {"order": 2},
    "third": {"order": 3, "modes": ["rev", "fwd"]},
    "forward": {"order": 1, "modes": "fwd"},
    "eps": {"order": 2, "modes": ("rev",), "eps": 0.01},
    "tolerances": {"order": 1, "atol": 0.1, "rtol": 0.2, "eps": 0.1},
}
for dtype in ("float32", "float16", "bfloat16", "complex64"):
    value = jnp.asarray(X + 1j * X[::-1] if dtype == "complex64" else X).astype(dtype)
    for name, (fun, arguments) in FUNCTIONS.items():
        args = arguments(value)
        for key, options in OPTIONS.items():
            if (key, dtype) == ("third", "complex64"):
                # With the default step the error is as large as the tolerance.
                options = options | {"eps": 0.1}
            CASES.add(
                f"{name}_{key}_{dtype}",
                lambda f=fun, a=args, o=options: outcome(test_util.check_grads, f, a, **o),
            )
        CASES.add(f"{name}_jvp_{dtype}", lambda f=fun, a=args: outcome(check_jvp, f, a))
        CASES.add(f"{name}_vjp_{dtype}", lambda f=fun, a=args: outcome(check_vjp, f, a))


def inner_tangents():
    """What the functions of higher orders are differentiated by."""
    seen = []
    fun = jax.custom_jvp(lambda x: x * x)

    @fun.defjvp
    def _(primals, tangents):
        jax.debug.callback(lambda t: seen.append(np.asarray(t)), tangents[0])
        return fun(primals[0]), 2 * primals[0] * tangents[0]

    test_util.check_grads(fun, (jnp.full((2,), 0.5),), order=3, modes=["fwd"], atol=1, rtol=1)
    jax.effects_barrier()
    return seen


CASES.add("inner_tangents", inner_tangents)


def doubles():
    """float64 is compared as such."""
    with jax.enable_x64(True):
        test_util.check_close(np.float64(1), np.float64(1) + 1e-9, atol=1e-12, rtol=1e-12)


CASES.add("doubles", doubles)
