"""Callbacks that write into buffers: results, what they see, modules and jaxprs."""

import re

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.buffer_callback import buffer_callback

CASES = Programs()
F = np.float32
X = np.arange(3, dtype=F)
S = jax.ShapeDtypeStruct
VECTOR, SCALAR = S((3,), F), S((), F)


def group(prefix, /, **functions):
    for name, fun in functions.items():
        CASES.add(f"{prefix}_{name}", fun)


def double(ctx, out, x):
    np.asarray(out)[...] = np.asarray(x) * 2


def add(ctx, out, a, b):
    np.asarray(out)[...] = np.asarray(a) + np.asarray(b)


def seen(method=None):
    """The buffers that a callback gets, and the result."""
    buffers = []

    def callback(ctx, out, a, b):
        buffers.append([(x.shape, str(x.dtype), x.ndim, x.writeable) for x in (out, a, b)])
        add(ctx, out, a, b)

    f = buffer_callback(callback, VECTOR if method is None else SCALAR, vmap_method=method)
    result = f(X, X) if method is None else jax.vmap(f, (0, None))(X, F(2))
    return np.asarray(result), str(buffers)


def trees(ctx, out, x, *, scale):
    np.asarray(out["a"])[...] = np.asarray(x[0]) * np.asarray(scale)
    np.from_dlpack(out["b"])[...] = np.from_dlpack(x[1])


group(
    "call",
    eager=lambda: buffer_callback(double, VECTOR)(X),
    jit=lambda: jax.jit(lambda x: buffer_callback(double, VECTOR)(x) + 1)(X),
    buffers=seen,
    trees=lambda: buffer_callback(trees, {"a": VECTOR, "b": VECTOR})((X, X + 5), scale=F(3)),
    number=lambda: buffer_callback(double, SCALAR)(1.5),
    bfloat16=lambda: buffer_callback(double, S((3,), jnp.bfloat16))(X.astype(jnp.bfloat16)),
    booleans=lambda: buffer_callback(
        lambda ctx, out, x: np.copyto(np.asarray(out), np.asarray(x) > 0), S((3,), np.bool_)
    )(X),
    float64=lambda: buffer_callback(double, S((3,), np.float64))(X),
    nothing=lambda: buffer_callback(lambda ctx, out: None, ())(),
    scan=lambda: lax.scan(lambda c, _: (buffer_callback(double, SCALAR)(c), None), F(1), None, 4)[
        0
    ],
    grad=lambda: jax.grad(lambda x: buffer_callback(double, VECTOR)(x).sum())(X),
    raises=lambda: buffer_callback(lambda ctx, out, x: 1 / 0, VECTOR)(X),
    returns=lambda: buffer_callback(lambda ctx, out, x: 5, VECTOR)(X),
    stage=lambda: buffer_callback(
        lambda ctx, out: np.copyto(np.asarray(out), ctx.stage.name == "EXECUTE"), S((), np.bool_)
    )(),
)
methods = "sequential sequential_unrolled expand_dims broadcast_all legacy_vectorized".split()
group("vmap", **{m: lambda m=m: seen(m) for m in methods})
CASES.add("vmap_none", lambda: jax.vmap(buffer_callback(double, SCALAR))(X))
group(
    "aliases",
    input_out_of_range=lambda: buffer_callback(double, VECTOR, input_output_aliases={3: 0})(X),
    output_out_of_range=lambda: buffer_callback(double, VECTOR, input_output_aliases={0: 5})(X),
    shapes=lambda: buffer_callback(double, S((4,), F), input_output_aliases={0: 0})(X),
)


def unused(**options):
    calls = []
    f = buffer_callback(lambda *_: calls.append(1), VECTOR, **options)
    jax.block_until_ready(jax.jit(lambda x: (f(x), x)[1])(X))
    jax.effects_barrier()
    return len(calls)


group("unused", pure=unused, effect=lambda: unused(has_side_effect=True))


def module(*platforms, **options):
    f = jax.jit(buffer_callback(double, VECTOR, **options))
    lowered = f.trace(X).lower(lowering_platforms=platforms or None)
    text = lowered.as_text()
    return re.findall(
        r"custom_call (@\w+)|(has_side_effect = true)|(output_operand_alias<.*?>)", text
    )


group(
    "module",
    cpu=lambda: str(module()),
    effect=lambda: str(module(has_side_effect=True)),
    aliases=lambda: str(module(input_output_aliases={0: 0})),
    cuda=lambda: str(module("cuda")),
    cuda_commands=lambda: str(module("cuda", command_buffer_compatible=True)),
    rocm=lambda: str(module("rocm")),
    tpu=lambda: str(module("tpu")),
    jaxpr=lambda: re.sub(
        "<function.*?>", "F", str(jax.make_jaxpr(buffer_callback(double, VECTOR))(X))
    ),
)
