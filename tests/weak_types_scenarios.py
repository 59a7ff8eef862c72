"""Which results are weakly typed: programs of Python numbers and arrays. See op_cases.py."""

import warnings

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax

CASES = Programs()
INPUTS = {
    "float": 2.0,
    "int": 3,
    "complex": 1 + 2j,
    "bool": True,
    "weak_array": jnp.asarray(2.0),
    "weak_vector": lax.broadcast(2.0, (3,)),
    "float32": np.float32(2),
    "int32": np.int32(3),
    "bfloat16": jnp.bfloat16(2),
    "vector": np.arange(3, dtype=np.float32),
}


def types(fun, x):
    """Dtypes, shapes, weak types and shardings of the results."""
    try:
        out = jax.eval_shape(fun, x)
    except Exception as err:
        return type(err).__name__
    return str(
        [(str(y.dtype), y.shape, y.weak_type, str(y.sharding)) for y in jax.tree.leaves(out)]
    )


def program(name, fun, but=()):
    """One scenario: the types of a program's results for each input, some inputs excepted."""
    inputs = {k: x for k, x in INPUTS.items() if k not in but}
    CASES.add(name, lambda: {k: types(fun, x) for k, x in inputs.items()})


def total(fun):
    return lambda x: jnp.sum(fun(x))


FUNCTIONS = {
    "square": lambda y: y * y,
    "triple": lambda y: y * 3,
    "relu": jax.nn.relu,
    "where": lambda y: jnp.where(y > 0, y, 0.0),
    "maximum": lambda y: jnp.maximum(y, 0.0),
    "constant": lambda y: 1.0,
    "power": lambda y: y**2,
    "root": lambda y: y**2.5,
    "exponential": lambda y: 2**y,
    "identity": lambda y: y,
    "reciprocal": lambda y: 1 / y,
    "clip": lambda y: jnp.clip(y, 0, 5),
}
for name, f in FUNCTIONS.items():
    program(f"plain_{name}", f)
    program(f"jit_{name}", jax.jit(f))
    program(f"grad_{name}", lambda x, f=f: jax.grad(total(f))(x))
    program(f"grad_of_jit_{name}", lambda x, f=f: jax.grad(jax.jit(total(f)))(x))
    program(f"grad_of_checkpoint_{name}", lambda x, f=f: jax.grad(jax.checkpoint(total(f)))(x))
    program(f"jvp_{name}", lambda x, f=f: jax.jvp(f, (x,), (x,)))
    program(f"linearize_{name}", lambda x, f=f: jax.linearize(f, x)[1](x))
    program(f"vjp_{name}", lambda x, f=f: jax.vjp(f, x)[1](f(x)))
    program(f"jacfwd_{name}", lambda x, f=f: jax.jacfwd(f)(x))
    program(f"jacrev_{name}", lambda x, f=f: jax.jacrev(f)(x))
    program(f"hessian_{name}", lambda x, f=f: jax.hessian(total(f))(x))

product = lambda xs: xs[0] ** 2.5 * xs[1]
program("jacfwd_of_two", lambda x: jax.jacfwd(product)((x, np.float32(2))), but=("bfloat16",))
program("jacrev_of_two", lambda x: jax.jacrev(product)((x, np.float32(2))), but=("bfloat16",))
program("grad_real", lambda x: jax.grad(total(jnp.real))(x))
program("grad_imag", lambda x: jax.grad(total(jnp.imag))(x))
program("grad_real_of_product", lambda x: jax.grad(total(lambda y: jnp.real(y * 1j)))(x))
program("grad_holomorphic", lambda x: jax.grad(total(lambda y: y * y), holomorphic=True)(x))

# Loops and branches

program("scan_carry", lambda x: lax.scan(lambda c, _: (c + 1, c), x, None, length=3))
program("scan_carry_float", lambda x: lax.scan(lambda c, _: (c * 1.5, c), x, None, length=3))
program("scan_constant_ys", lambda x: lax.scan(lambda c, _: (c, 2), x, None, length=3))
program("scan_xs", lambda x: lax.scan(lambda c, y: (c + y, c), 0, jnp.atleast_1d(x)))
program("scan_xs_float", lambda x: lax.scan(lambda c, y: (c + y, y * 2), 0.0, jnp.atleast_1d(x)))
program("scan_grad", lambda x: jax.grad(total(lambda x: lax.scan(lambda c, _: (c * 2, c), x, None, length=3)[1]))(x))  # fmt: skip
program("scan_jvp", lambda x: jax.jvp(lambda x: lax.scan(lambda c, _: (c * 2, c), x, None, length=3), (x,), (x,)))  # fmt: skip
program("while", lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)))  # fmt: skip
program("while_sum", lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, x + c[1]), (0, 0)))  # fmt: skip
program("fori", lambda x: lax.fori_loop(0, 3, lambda i, c: c + i, x))
program("fori_sum", lambda x: lax.fori_loop(0, np.int32(3), lambda i, c: c + x, 0))
program("fori_bound", lambda x: lax.fori_loop(0, x, lambda i, c: c + i, 0))
program("fori_from", lambda x: lax.fori_loop(x, 7, lambda i, c: c + i, 0))
program("cond", lambda x: lax.cond(True, lambda y: y, lambda y: 0 * y + 1.0, x))
program("cond_constant", lambda x: lax.cond(True, lambda y: 1.0, lambda y: y, x))
program("switch", lambda x: lax.switch(1, [lambda y: y, lambda y: y + 1, lambda y: y * 2], x))
program("map", lambda x: lax.map(lambda y: y * 2, jnp.atleast_1d(x)))
program("vmap_constants", lambda x: jax.vmap(lambda y: (1.0, 2, y))(jnp.atleast_1d(x)))

# Refs


def updated(start, step):
    def fun(x):
        ref = jax.new_ref(start if start is not None else x)

        def body(i, carry):
            ref[...] = step(ref[...], x)
            return carry

        lax.fori_loop(0, 3, body, None)
        return ref[...], jax.freeze(ref)

    return fun


program("ref_of_zero", updated(0, lambda r, x: r + 1))
program("ref_of_zero_jit", jax.jit(updated(0, lambda r, x: r + 1)))
program("ref_of_input", updated(None, lambda r, x: r * 2))
program("ref_of_input_jit", jax.jit(updated(None, lambda r, x: r * 2)))

# Calls and structure

program("nested_jits", lambda x: jax.jit(lambda y: jax.jit(lambda z: (z, z + 1, 3))(y))(x))
program("checkpoint", lambda x: jax.checkpoint(lambda y: (y * 2, 1, 2.0))(x))
program("device_put", lambda x: (jax.device_put(x), lax.optimization_barrier(x)))
program("update_slice", lambda x: lax.dynamic_update_slice(jnp.atleast_1d(x), jnp.atleast_1d(x), (0,)))  # fmt: skip
program("stack", lambda x: (jnp.stack([x, x]), jnp.concatenate([jnp.atleast_1d(x)] * 2)))
program("dot", lambda x: jnp.dot(x, 2.0))


def structs():
    """Nested jits of ShapeDtypeStructs, whose results have no sharding."""
    x = jax.ShapeDtypeStruct((3,), np.float32)
    f = jax.jit(lambda x: jax.jit(lambda y: {"a": y * 2, "b": jnp.sum(y)})(x))
    once = jax.eval_shape(f, x)
    again = jax.eval_shape(f, once["a"])
    return str((once, again, f.eval_shape(x), f.lower(x).out_info))


CASES.add("structs", structs)

# Updates that the array's dtype cannot hold are computed in a common dtype

for _name in ("set", "add", "subtract", "multiply", "divide", "power", "min", "max"):
    for _dtype in ("bool", "int8", "uint8"):
        for _value in (1.5, np.float32(2.5)):
            CASES.add(
                f"at_{_name}_{_dtype}_{type(_value).__name__}",
                lambda n=_name, d=_dtype, v=_value: [
                    (out := getattr(jnp.array([1, 0, 1], d).at[np.array([0, 1])], n)(v)),
                    str((out.dtype, out.weak_type)),
                ],
                warns="scatter inputs have incompatible types",
            )
for _dtype in ("int8", "int16", "int32", "uint8", "uint32"):
    CASES.add(
        f"fori_bounds_{_dtype}",
        lambda d=_dtype: [
            outcome(lambda i: str(lax.fori_loop(0, i(3), lambda i, c: i, 0)), np.dtype(d).type),
            outcome(lambda i: str(lax.fori_loop(i(0), 3, lambda i, c: c + 1, 0)), np.dtype(d).type),
            outcome(lambda i: str(lax.fori_loop(i(0), i(3), lambda i, c: c, 0)), np.dtype(d).type),
        ],
    )


def outcome(fun, *args):
    """The result, or the class of the exception."""
    try:
        return fun(*args)
    except Exception as err:
        return type(err).__name__


program("trapezoid", lambda x: (jnp.trapezoid(x), jnp.trapezoid(x, dx=0.5), jnp.trapezoid(x, x)))
program("trapezoid_float32", lambda x: (jnp.trapezoid(x, dx=np.float32(2)), jnp.trapezoid(x, dx=x)))


def printed(name, fun, *args, **options):
    CASES.add(f"jaxpr_{name}", lambda: str(jax.make_jaxpr(fun)(*args)), **options)


printed("grad_of_sum", jax.grad(lambda x: jnp.sum(x * 2.0)), 2.0)
printed("broadcast_number", lambda: (lax.broadcast_in_dim(1.0, (), ()), jnp.broadcast_to(1, ())))
printed("full_like", lambda x: (lax.full_like(x, 1), jnp.ones_like(x)), 1.0)
printed(
    "complex_astype",
    lambda x, y: (jnp.astype(x, "float32"), jnp.astype(y, "int32")),
    np.ones(3, np.complex64),
    1j,
    warns="Casting from complex to real|discards the imaginary",
)


def outside(fun):
    """Types and values of programs of 64-bit arrays that were made in the context of `enable_x64`, outside of it."""
    with jax.enable_x64(True):
        wide = jnp.arange(1.0, 4.0), jnp.arange(3), jnp.array([2j, 1 + 2j, 3])
    narrow = jnp.ones(3)

    def result(x):
        try:
            with warnings.catch_warnings():
                # The original warns of types that nobody asked for.
                warnings.filterwarnings("ignore", "Explicitly requested")
                out = fun(x, narrow)
        except Exception as err:
            return type(err).__name__
        return [(str(y.dtype), y.weak_type, np.asarray(y)) for y in jax.tree.leaves(out)]

    return {str(x.dtype): result(x) for x in wide}


for _name, _fun in {
    "number": lambda x, _: (x * 0.1, 7 + x, x == 0.5, x * 2j),
    "other_types": lambda x, y: (x * y, y - x, x * np.float64(2), x + np.arange(3), x * x),
    "traced_number": lambda x, y: jax.jit(lambda a, b: (a * 0.1, 2 + a, a * b))(x, y),
    "batched": lambda x, _: jax.vmap(lambda a: a * 0.1 + 7)(x),
    "branches": lambda x, _: lax.cond(True, lambda a: a * 0.1, lambda a: a * 0.2, x),
    "selected": lambda x, y: (jnp.where(y > 0, x, 0.0), jnp.where(y > 0, x, y)),
    "joined": lambda x, y: (jnp.concatenate([x, y]), jnp.stack([x, x])),
    "powers": lambda x, _: (x**2, x**0.5),
    "inexact": lambda x, _: (x / 2, 2.0 / x),
}.items():
    CASES.add(f"outside_{_name}", lambda fun=_fun: outside(fun), tol=1e-6)


class Number(int):
    """A whole number of a class of its own."""


CASES.add(
    "powers_of_subclasses",
    lambda: [
        [(y.weak_type, y) for y in (x ** Number(3), x ** np.bool_(True))]
        for x in (jnp.asarray(3), jnp.asarray(2.0), jnp.arange(3))
    ],
)
