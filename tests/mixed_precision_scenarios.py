"""In which dtypes reductions and products compute: their equations. See op_cases.py."""

import itertools

import numpy as np
from equations import equations
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

CASES = Programs()
HALF = ("bfloat16", "float16")
FLOATS = (*HALF, "float8_e5m2", "float8_e4m3fn", "float32")
MASK = np.array([[True, False, True, True]] * 3)


def struct(shape, dtype):
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def attempt(fun, *args):
    """The equations, or the class of the error."""
    try:
        return equations(fun, *args)
    except Exception as err:
        return type(err).__name__


def each(name, cases):
    """One scenario: the equations of several programs, by name."""
    cases = dict(cases)
    CASES.add(name, lambda: {k: attempt(*case) for k, case in cases.items()})


# Reductions

OPTIONS = {
    "all": {},
    "axis": {"axis": 0},
    "keepdims": {"axis": -1, "keepdims": True},
    "float32": {"dtype": "float32"},
    "bfloat16": {"dtype": "bfloat16"},
    "float16": {"dtype": "float16", "axis": 1},
    "int32": {"dtype": "int32"},
    "where": {"where": MASK},
    "initial": {"initial": 1},
    "promote": {"promote_integers": False},
}
WITH_DTYPE = ("all", "axis", "keepdims", "float32", "bfloat16", "float16")
REDUCTIONS = {
    "sum": (*WITH_DTYPE, "int32", "where", "initial", "promote"),
    "prod": (*WITH_DTYPE, "int32", "where", "initial", "promote"),
    "mean": (*WITH_DTYPE, "int32", "where"),
    "var": (*WITH_DTYPE, "where"),
    "std": WITH_DTYPE,
    "nansum": (*WITH_DTYPE, "where"),
    "nanprod": WITH_DTYPE,
    "nanmean": (*WITH_DTYPE, "where"),
    "max": ("all", "axis", "initial"),
    "min": ("all", "axis"),
    "any": ("all", "where"),
    "argmax": ("axis",),
    "cumsum": ("axis", "float32", "bfloat16"),
    "cumprod": ("axis", "bfloat16"),
    "average": ("all", "axis", "keepdims"),
    "trace": ("all", "bfloat16", "float32"),
}
# The reference divides booleans' counts in other steps, and looks at complex numbers' real parts only.
UNLIKE = {"var": ("bool",), "std": ("bool",), "any": ("complex64",), "argmax": ("complex64",)}
for name, options in REDUCTIONS.items():
    fun = getattr(jnp, name)
    each(
        f"reduce_{name}",
        [
            (f"{dtype} {o}", (lambda x, f=fun, k=OPTIONS[o]: f(x, **k), struct((3, 4), dtype)))
            for o in options
            for dtype in (*FLOATS, "int8", "bool", "complex64")
            if dtype not in UNLIKE.get(name, ())
            and not (dtype == "complex64" and "dtype" in OPTIONS[o])
        ],
    )
each(
    "variance_dtypes",
    [
        (f"{name} {dtype} {own}", (lambda x, f=getattr(jnp, name), d=dtype: f(x, dtype=d), struct((3,), own)))
        for name in ("var", "std")
        for dtype, own in itertools.product(FLOATS, FLOATS)
    ],
)  # fmt: skip
each(
    "norms",
    [
        (f"{ord} {dtype}", (lambda x, o=ord: jnp.linalg.norm(x, o, axis=0), struct((3, 4), dtype)))
        for ord in (2, 1, np.inf, -np.inf, 0)
        for dtype in FLOATS
    ],
)

# Products: operands of different dtypes stay as they are

DTYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "int8", "int32", "bool")
PRODUCTS = {
    "dot": (jnp.dot, (2, 3), (3, 4)),
    "matmul": (jnp.matmul, (2, 3), (3, 4)),
    "einsum": (lambda x, y, **k: jnp.einsum("ij,jk->ik", x, y, **k), (2, 3), (3, 4)),
    "vdot": (jnp.vdot, (3,), (3,)),
    "inner": (jnp.inner, (2, 3), (4, 3)),
    "inner_of_scalar": (jnp.inner, (2, 3), ()),
    "tensordot": (lambda x, y, **k: jnp.tensordot(x, y, 1, **k), (2, 3), (3, 4)),
    "vecdot": (jnp.linalg.vecdot, (3,), (3,)),
    "dot_general": (lax.dot, (2, 3), (3, 4)),
    "convolve": (jnp.convolve, (5,), (3,)),
}
for name, (fun, a, b) in PRODUCTS.items():
    each(
        f"product_{name}",
        [
            (
                f"{x} {y} {preferred}",
                (
                    lambda x, y, f=fun, p=preferred: f(x, y, preferred_element_type=p),
                    struct(a, x),
                    struct(b, y),
                ),
            )
            for x, y in itertools.product(DTYPES, DTYPES)
            for preferred in (None, "float32", "bfloat16", "int32")
        ],
    )


def vjp(fun):
    return lambda x, y, ct: jax.vjp(fun, x, y)[1](ct)


for name, fun in {"dot": jnp.dot, "dot_general": lax.dot}.items():
    cases = {}
    for x, y in itertools.product(FLOATS, FLOATS):
        for p in (None, "float32"):
            f = lambda x, y, f=fun, p=p: f(x, y, preferred_element_type=p)
            args = (struct((2, 3), x), struct((3, 4), y))
            try:
                ct = jax.eval_shape(f, *args)
            except Exception:
                continue
            cases[f"{x} {y} {p} vjp"] = (vjp(f), *args, ct)
            cases[f"{x} {y} {p} jvp"] = (lambda x, y, f=f: jax.jvp(f, (x, y), (x, y)), *args)
    each(f"derivatives_of_{name}", cases)


def weak(value):
    return lax.broadcast(jnp.asarray(value), (3, 3))


for name, fun in {"dot": jnp.dot, "einsum": lambda x, y: jnp.einsum("ij,jk", x, y)}.items():
    each(
        f"weakly_typed_{name}",
        [
            (f"{dtype} {value}", (lambda x, f=fun, v=value: (f(x, weak(v)), f(weak(v), x)), struct((3, 3), dtype)))
            for dtype in ("bfloat16", "float32", "int8", "int32", "complex64")
            for value in (2.0, 2, 1j)
        ],
    )  # fmt: skip
each(
    "einsum_of_python_numbers",
    [
        (
            f"{dtype} {value}",
            (lambda x, v=value: jnp.einsum("ij,->ij", x, v), struct((3, 3), dtype)),
        )
        for dtype in ("bfloat16", "float32", "int8")
        for value in (2.0, 2, 1j)
    ],
)


def values():
    """What the CPU computes of operands of different dtypes."""
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    pairs = itertools.product(("bfloat16", "float16", "float32", "float8_e5m2", "int8"), repeat=2)
    return [
        lax.dot(jnp.asarray(x * 3, a), jnp.asarray(x.T * 5, b), preferred_element_type=p)
        for a, b in pairs
        for p in (None, "float32")
    ]


CASES.add("values", values)

# Precision

PRECISIONS = {
    "none": None, "default": "default", "high": "high", "highest": "highest", "fastest": "fastest",
    "tensorfloat32": "tensorfloat32", "enum": lax.Precision.HIGHEST, "pair": ("high", "default"),
    "enums": (lax.Precision.HIGH, None), "text": "BF16_BF16_F32", "unknown": "nope", "number": 0,
    "preset": lax.DotAlgorithmPreset.BF16_BF16_F32, "equal": ("high", "high"),
}  # fmt: skip


def printed(fun, *args):
    try:
        return str(jax.make_jaxpr(fun)(*args))
    except Exception as err:
        return type(err).__name__


def under_precision(precision):
    try:
        with jax.default_matmul_precision(precision):
            return printed(lambda x: jnp.dot(x, x), struct((2, 2), "float32"))
    except Exception as err:
        return type(err).__name__


x33 = struct((3, 3), "float32")
for name, precision in PRECISIONS.items():
    CASES.add(
        f"precision_{name}",
        lambda p=precision: (
            printed(lambda x: lax.dot(x, x, precision=p), x33),
            printed(jax.grad(lambda x: jnp.dot(x, x, precision=p).sum()), x33),
            printed(lambda x: jnp.einsum("ij,jk", x, x, precision=p), x33),
            under_precision(p),
        ),
    )

# Values that `checkpoint` stores, and the function uses, are rounded to their dtype first


def _roundings(policy, body, dtype):
    """The dtypes and parameters of roundings in the gradient of a checkpointed function, and its results."""
    fun = jax.checkpoint(body, policy=policy)
    total = lambda x: jnp.sum(fun(x).astype("float32"))
    x = jnp.linspace(-1, 1, 16).reshape(4, 4).astype(dtype)
    closed = jax.make_jaxpr(jax.value_and_grad(total))(x)
    found = [e for e in closed.jaxpr.eqns if e.primitive.name == "reduce_precision"]
    rounded = [
        (str(e.outvars[0].aval), e.params["exponent_bits"], e.params["mantissa_bits"])
        for e in found
    ]
    return str(rounded), jax.jit(jax.grad(total))(x).astype("float32")


def _add_roundings():
    policies = jax.checkpoint_policies
    name = checkpoint_name
    bodies = {
        "dots": (policies.dots_saveable, lambda x: jnp.sin(x @ x)),
        "dot_alone": (policies.dots_saveable, lambda x: x @ x),
        "dot_and_more": (policies.dots_saveable, lambda x: (x @ x) + jnp.sin(x @ x)),
        "names": (
            policies.save_only_these_names("a"),
            lambda x: jnp.sin(name(jnp.cos(x), "a")),
        ),
        "two_names": (
            policies.save_only_these_names("a", "b"),
            lambda x: jnp.sin(name(name(jnp.cos(x), "a") * 2, "b")),
        ),
        "argument": (policies.save_only_these_names("a"), lambda x: jnp.sin(name(x, "a"))),
        "jitted": (policies.dots_saveable, lambda x: jax.jit(lambda x: jnp.sin(x @ x))(x) * 2),
        "everything": (policies.everything_saveable, lambda x: jnp.sin(jnp.cos(x))),
        "nothing": (policies.nothing_saveable, lambda x: jnp.sin(jnp.cos(x))),
    }
    for key, (policy, body) in bodies.items():
        for dtype in ("bfloat16", "float16", "float32"):
            CASES.add(
                f"rounded_{key}_{dtype}",
                lambda p=policy, b=body, d=dtype: _roundings(p, b, d),
            )


_add_roundings()
