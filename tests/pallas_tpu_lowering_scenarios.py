"""Kernels lowered for TPUs: what Mosaic's modules have of operations, windows and options, and what XLA is told of them."""

import base64
import functools
import json
import re
from collections import Counter

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager
from jaxlib.mosaic.python import tpu
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

CASES = Programs()
# What modules may differ in: how constants are made, and which of two ways gives a vector another shape.
NOT_COUNTED = (
    "arith.constant",
    "vector.broadcast",
    "vector.shape_cast",
    "tpu.trace_start",
    "tpu.trace_stop",
)
f32, bf16, i32, i8, u8, b1 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.int8, jnp.uint8, jnp.bool_


def like(*shape, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype)


def lowered(fun, *args):
    """The custom calls of kernels: their attributes, configurations and modules."""
    lowering = jax.jit(fun).trace(*args).lower(lowering_platforms=("tpu",))
    calls = []
    _find(lowering.compiler_ir("stablehlo").operation, calls)
    return [(call, *_parsed(call)) for call in calls]


def _find(op, calls):
    for region in op.regions:
        for block in region:
            for inner in block:
                if inner.operation.name == "stablehlo.custom_call":
                    calls.append(inner)
                _find(inner.operation, calls)


def _parsed(call):
    config = json.loads(call.attributes["backend_config"].value)
    body = base64.b64decode(config["custom_call_config"].pop("body"))
    context = ir.Context()
    with context:
        tpu.register_dialect(context)
        context.load_all_available_dialects()
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(body)
        passes = "builtin.module(mosaic-serde{serialize=false},canonicalize,cse,canonicalize)"
        PassManager.parse(passes).run(module.operation)
    return config, module


def operations(op, counts):
    for region in op.regions:
        for block in region:
            for inner in block:
                counts[inner.operation.name] += 1
                operations(inner.operation, counts)
    return counts


def facts(fun, *args):
    out = []
    for call, config, module in lowered(fun, *args):
        counts = operations(module.operation, Counter())
        text = module.operation.get_asm(enable_debug_info=False)
        (header,) = re.findall(r"\{(dimension_semantics.*)\} : \(\)", text)
        out.append(
            dict(
                operations={k: n for k, n in sorted(counts.items()) if k not in NOT_COUNTED},
                function=header,
                config=json.dumps(config, sort_keys=True),
                call=[
                    str(call.attributes[name])
                    for name in ("has_side_effect", "operand_layouts", "mhlo.frontend_attributes")
                ],
                results=[str(r.type) for r in call.results],
            )
        )
    return out


def scenario(*args, out=None, **options):
    """A decorator that adds a kernel: a function of references."""

    def decorate(kernel):
        result = args[0] if out is None else out
        call = lambda *xs: pl.pallas_call(kernel, result, **options)(*xs)
        CASES.add(kernel.__name__, functools.partial(facts, call, *args))
        return kernel

    return decorate


def values(name, fun, *args):
    """Adds a kernel that applies a function to arrays."""

    def kernel(*refs):
        refs[-1][...] = fun(*[r[...] for r in refs[:-1]])

    call = lambda *xs: pl.pallas_call(kernel, jax.eval_shape(fun, *args))(*xs)
    CASES.add(name, functools.partial(facts, call, *args))


X = like(16, 128)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
BLOCKS = pl.BlockSpec((16, 128), lambda i, j: (i, j))
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)


# Grids, blocks, options


@scenario(like(64, 256), grid=(4, 2), in_specs=[BLOCKS], out_specs=BLOCKS)
def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1.0


@scenario(X)
def without_grid(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0


@scenario(like(16, 128, dtype=b1))
def booleans(x_ref, o_ref):
    o_ref[...] = x_ref[...]


@scenario(
    like(256, 256), like(256, 256), grid=(2, 2, 2),
    in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
    out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
    compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
)  # fmt: skip
def product(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] @ y_ref[...]


@scenario(
    like(4, dtype=i32), like(64, 256), out=like(64, 256),
    grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(4, 2),
        in_specs=[pl.BlockSpec((16, 128), lambda i, j, s: (s[i], j))],
        out_specs=pl.BlockSpec((16, 128), lambda i, j, s: (i, j)),
        scratch_shapes=[pltpu.VMEM((16, 128), f32), pltpu.SMEM((4, 4), i32)],
    ),
)  # fmt: skip
def prefetched(s_ref, x_ref, o_ref, scratch, numbers):
    scratch[...] = x_ref[...]
    numbers[1, 2] = s_ref[0]
    o_ref[...] = scratch[...] * numbers[1, 2].astype(f32)


@scenario(
    like(4, 16, 128), grid=(4,), in_specs=[pl.BlockSpec((None, 16, 128), lambda i: (i, 0, 0))],
    out_specs=pl.BlockSpec((None, 16, 128), lambda i: (i, 0, 0)),
)  # fmt: skip
def squeezed_blocks(x_ref, o_ref):
    o_ref[...] = x_ref[...] + x_ref[0:1]


@scenario(
    like(64, 256), out=like(32, 256), grid=(4, 2),
    in_specs=[pl.BlockSpec((pl.Element(8, (0, 8)), pl.Element(128)), lambda i, j: (i * 8, j * 128))],
    out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j)),
)  # fmt: skip
def element_blocks(x_ref, o_ref):
    o_ref[...] = x_ref[...]


@scenario(
    X, X, like(2, 2), out=X, grid=(2,), out_specs=ROWS,
    in_specs=[ROWS, pl.BlockSpec(memory_space=pl.ANY), SMEM],
)  # fmt: skip
def memory_spaces(x_ref, y_ref, z_ref, o_ref):
    o_ref[...] = x_ref[...] * z_ref[1, 0]


@scenario(
    X, grid=(2,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1))], out_specs=ROWS,
    input_output_aliases={0: 0}, cost_estimate=pl.CostEstimate(1, 2, 3, 4), name="some name", metadata={"a": "b"},
    compiler_params=pltpu.CompilerParams(
        vmem_limit_bytes=12345678, has_side_effects=True, flags={"a": 1, "b": True, "c": 2.0}, allow_input_fusion=[True],
        internal_scratch_in_bytes=1000, disable_bounds_checks=True, disable_semaphore_checks=True, skip_device_barrier=True,
        shape_invariant_numerics=False, allow_collective_id_without_custom_barrier=True, collective_id=3,
    ),
)  # fmt: skip
def options(x_ref, o_ref):
    o_ref[...] = x_ref[...]


@CASES.define
def dynamic_grid():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * pl.num_programs(0).astype(f32)

    def call(n, x):
        return pl.pallas_call(
            kernel, like(64, 256), grid=(n, 2), in_specs=[BLOCKS], out_specs=BLOCKS
        )(x)

    return facts(call, like(dtype=i32), like(64, 256))


@CASES.define
def batched():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1.0

    call = pl.pallas_call(kernel, like(64, 256), grid=(4, 2), in_specs=[BLOCKS], out_specs=BLOCKS)
    return facts(jax.vmap(lambda x: call(x)), like(3, 64, 256))


# References


@scenario(like(4, 16, 128), like(2, dtype=i32), out=like(8, 128), in_specs=[pl.BlockSpec(), SMEM])
def indexed(x_ref, s_ref, o_ref):
    o_ref[...] = x_ref[3, 0:8] + x_ref[s_ref[0], pl.ds(pl.multiple_of(s_ref[1] * 8, 8), 8)]
    o_ref[...] += x_ref[s_ref[0], pl.ds(1, 8, 2)]


@scenario(like(8, 128), out=like(16, 128))
def strided_store(x_ref, o_ref):
    o_ref[pl.ds(1, 8, 2)] = x_ref[...]


@scenario(like(2, 16, 128), out=like(4, 128))
def views(x_ref, o_ref):
    o_ref[...] = x_ref.at[1].reshape(4, 4, 128)[2] + x_ref.at[0, 8:16].at[4:8][...]


@scenario(X, out=like(32, 128, dtype=jnp.int16))
def reinterpreted(x_ref, o_ref):
    o_ref[...] = x_ref.bitcast(jnp.int16)[...]


@scenario(X, out=like(4, 4, dtype=b1), in_specs=[SMEM], out_specs=SMEM)
def scalars(x_ref, o_ref):
    o_ref[1, 2] = x_ref[0, 1] > 0


@scenario(X)
def scoped(x_ref, o_ref):
    def body(a_ref, b_ref):
        a_ref[...] = x_ref[...]
        b_ref[0] = 1
        o_ref[...] = a_ref[...] * b_ref[0]

    pl.run_scoped(body, pltpu.VMEM((16, 128), f32), pltpu.SMEM((1,), i32))


# Operations


for name in "abs floor ceil round exp exp2 log log1p sin cos tan tanh logistic erf rsqrt sqrt square is_finite".split():
    values(name, getattr(lax, name), X)
for name in "add sub mul max min div rem pow atan2".split():
    values(name, getattr(lax, name), X, X)
for (
    name
) in "add max div rem lt shift_left shift_right_logical shift_right_arithmetic bitwise_and".split():
    values(f"{name}_int32", getattr(lax, name), *[like(16, 128, dtype=i32)] * 2)
    values(f"{name}_uint32", getattr(lax, name), *[like(16, 128, dtype=jnp.uint32)] * 2)
values("eq_bool", lax.eq, *[like(16, 128, dtype=b1)] * 2)
for old, new in [
    (f32, bf16),
    (bf16, f32),
    (f32, i8),
    (u8, f32),
    (i8, i32),
    (i32, u8),
    (b1, bf16),
    (b1, i32),
    (bf16, b1),
]:
    cast = functools.partial(lax.convert_element_type, new_dtype=new)
    values(f"convert_{old.dtype.name}_{new.dtype.name}", cast, like(32, 128, dtype=old))
values("integer_pow", lambda x: x**5, X)
values("clamp", lambda x: lax.clamp(0.0, x, 1.0), X)
values("select", lambda x, y: lax.select(x < y, x, y), X, X)
values("iota", lambda: lax.broadcasted_iota(i32, (16, 128), 1))
values("transpose", lambda x: x.T, X)
values("concatenate", lambda x, y: jnp.concatenate([x, y], 1), X, X)
values("split", lambda x: jnp.split(x, 2, 1)[1], like(16, 256))
values("pad", lambda x: jnp.pad(x, ((0, 8), (0, 128)), constant_values=1.0), X)
values("take_along_axis", lambda x, i: lax_gather(x, i), X, like(16, 128, dtype=i32))
values("bitcast", lambda x: pltpu.bitcast(x, bf16), X)
values("roll", lambda x: pltpu.roll(x, 3, 1, stride=1, stride_axis=0), X)
values("reciprocal", lambda x: pl.reciprocal(x, approx=True), X)
for name in ("sum", "max", "min", "argmax", "argmin"):
    values(f"{name}_rows", functools.partial(getattr(jnp, name), axis=1, keepdims=True), X)
values("sum_bfloat16", lambda x: jnp.sum(x, 1, keepdims=True), like(16, 128, dtype=bf16))
values("sum_all", lambda x: jnp.sum(x)[None, None], X)
values("softmax", jax.nn.softmax, X)
values("gelu", jax.nn.gelu, X)


def lax_gather(x, i):
    dims = lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    return lax.gather(x, i[..., None], dims, (1, 1), mode="promise_in_bounds")


def contraction(x, y, dims, precision=None, out=f32):
    return lax.dot_general(x, y, (dims, ((), ())), precision=precision, preferred_element_type=out)


Y = like(128, 128)
values("dot", lambda x, y: contraction(x, y, ((1,), (0,))), X, Y)
values("dot_transposed", lambda x, y: contraction(x, y, ((1,), (1,))), X, Y)
values("dot_transposed_left", lambda x, y: contraction(x, y, ((0,), (1,))), like(128, 16), Y)
values("dot_highest", lambda x, y: contraction(x, y, ((1,), (0,)), "highest"), X, Y)
values(
    "dot_bfloat16",
    lambda x, y: contraction(x, y, ((1,), (0,))),
    like(16, 128, dtype=bf16),
    like(128, 128, dtype=bf16),
)
values(
    "dot_int8",
    lambda x, y: contraction(x, y, ((1,), (0,)), out=i32),
    like(32, 128, dtype=i8),
    like(128, 128, dtype=i8),
)
values(
    "dot_batched",
    lambda x, y: jnp.einsum("bij,bjk->bik", x, y),
    like(2, 16, 128),
    like(2, 128, 128),
)


# Control flow


values("cond", lambda x: lax.cond(x[0, 0] > 0, lambda x: x + 1, lambda x: x * 2, x), X)
values(
    "switch",
    lambda x, i: lax.switch(i[0, 0], [lambda x: x + 1, lambda x: x * 3, lambda x: x], x),
    X,
    like(8, 128, dtype=i32),
)
values("fori_loop", lambda x: lax.fori_loop(0, 4, lambda i, x: x * i, x), X)
values("while_loop", lambda x: lax.while_loop(lambda c: c[0, 0] < 5.0, lambda c: c * 2, x), X)
values("jit", lambda x: jax.jit(lambda x: x + 1)(x), X)
values("custom_jvp", jax.nn.relu, X)


@scenario(X)
def loop_over_references(x_ref, o_ref):
    @pl.loop(0, 2)
    def _(i):
        o_ref[pl.ds(i * 8, 8)] = x_ref[pl.ds(i * 8, 8)]


@scenario(X)
def printing(x_ref, o_ref):
    pl.debug_print("text")
    pl.debug_print("number {}", x_ref[0, 0].astype(i32))
    pl.debug_print("array {}", x_ref[...])
    pl.delay(10)
    o_ref[...] = x_ref[...]


# Packed elements, random bits


values("pack_elementwise", lambda x, y: pltpu.pack_elementwise([x, y], packed_dtype=bf16), X, X)
values(
    "unpack_elementwise",
    lambda x: pltpu.unpack_elementwise(x, index=1, packed_dtype=bf16, unpacked_dtype=f32),
    like(16, 128, dtype=jnp.uint32),
)
values(
    "stochastic_round",
    lambda x, y: pltpu.stochastic_round(x, y, target_dtype=bf16),
    X,
    like(16, 128, dtype=jnp.uint32),
)


@scenario(like(1, dtype=i32), out=like(16, 128, dtype=i32), in_specs=[SMEM])
def random_bits(s_ref, o_ref):
    pltpu.prng_seed(s_ref[0], 3)
    o_ref[...] = pltpu.prng_random_bits((16, 128))


# Copies and semaphores

ANY = pl.BlockSpec(memory_space=pl.ANY)


@scenario(X, in_specs=[ANY], out_specs=ANY, scratch_shapes=[pltpu.SemaphoreType.DMA])
def copy_whole(x_ref, o_ref, sem):
    copy = pltpu.make_async_copy(x_ref, o_ref, sem)
    copy.start()
    copy.wait()


@scenario(X, out=like(4, dtype=i32), out_specs=SMEM, scratch_shapes=[pltpu.SemaphoreType.REGULAR])
def semaphores(x_ref, o_ref, sem):
    pl.semaphore_signal(sem, 2)
    pl.semaphore_wait(sem, 2)
    o_ref[0] = pl.semaphore_read(sem)
