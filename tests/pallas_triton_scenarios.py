"""Kernels for GPUs: the operations of their Triton modules must be the reference's.

Modules are compared after MLIR's simplifications, and without what computes addresses, which need not be the same.
"""

import collections
import functools

from jaxlib.mlir import ir, passmanager
from jaxlib.triton import dialect
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

CASES = Programs()

# Numbers of these depend on how addresses are computed, and on where constants are.
ADDRESSES = {
    "arith.constant",
    "tt.splat",
    "tt.make_range",
    "tt.expand_dims",
    "tt.broadcast",
    "tt.addptr",
}
# So do those of integers of the type of addresses.
INTEGERS = {"arith.addi", "arith.muli", "arith.remui", "arith.divui"}


def like(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def operations(call, *args, platform="cuda"):
    """The simplified Triton module of the first kernel that a function applies, and its parameters."""
    lowered = jax.jit(call).trace(*args).lower(lowering_platforms=(platform,))
    found = []

    def visit(op):
        if op.name == "stablehlo.custom_call" and "triton" in str(
            op.attributes["call_target_name"]
        ):
            found.append(op)
        return ir.WalkResult.ADVANCE

    lowered.compiler_ir().operation.walk(visit)
    config = {a.name: a.attr for a in ir.DictAttr(found[0].attributes["mhlo.backend_config"])}
    code = ir.StringAttr(config.pop("ir")).value_bytes
    with ir.Context() as context:
        dialect.register_dialect(context)
        context.load_all_available_dialects()
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(code)
        passes = "builtin.module(canonicalize,cse,canonicalize,loop-invariant-code-motion,cse)"
        passmanager.PassManager.parse(passes).run(module.operation)
        counts = collections.Counter()
        module.operation.walk(lambda op: _count(op, counts))
    return dict(sorted(counts.items())), {k: str(v) for k, v in sorted(config.items())}


def _count(op, counts):
    name = op.name
    if name == "tt.extern_elementwise":
        name += str(op.attributes["symbol"])
    elif name == "tt.atomic_rmw":
        name += str(op.attributes["atomic_rmw_op"])
    elif name == "arith.cmpf" or name == "arith.cmpi":
        name += str(op.attributes["predicate"])
    elif name == "tt.dot":
        name += f" {op.operands[0].type} {op.results[0].type} {op.attributes['inputPrecision']}"
    kind = str(op.results[0].type) if len(op.results) == 1 else ""
    address = (name in INTEGERS and "i32" in kind) or (name == "tt.bitcast" and "ptr" in kind)
    if not address and name not in ADDRESSES:
        counts[name] += 1
    return ir.WalkResult.ADVANCE


def applied(function, *args, **options):
    """The operations of a kernel that applies a function to whole arrays."""
    n = len(args)

    def kernel(*refs):
        refs[n][...] = function(*[r[...] for r in refs[:n]])

    out = jax.eval_shape(function, *args)
    params = plgpu.CompilerParams()
    return operations(pl.pallas_call(kernel, out, compiler_params=params), *args, **options)[0]


def kernel_of(kernel, out, *args, num_warps=None, num_stages=None, **options):
    params = plgpu.CompilerParams(num_warps=num_warps, num_stages=num_stages)
    return operations(pl.pallas_call(kernel, out, compiler_params=params, **options), *args)


def scenario(make):
    return CASES.define(make)


# Of narrower types, the reference uses functions of which some do not compile.
UNARY = dict(
    exp=lax.exp, exp2=lax.exp2, log=lax.log, log1p=lax.log1p, expm1=lax.expm1, sqrt=lax.sqrt, rsqrt=lax.rsqrt,
    cbrt=lax.cbrt, sin=lax.sin, cos=lax.cos, tan=lax.tan, asin=lax.asin, acos=lax.acos, atan=lax.atan, sinh=lax.sinh,
    cosh=lax.cosh, tanh=lax.tanh, asinh=lax.asinh, acosh=lax.acosh, atanh=lax.atanh, logistic=lax.logistic,
    floor=lax.floor, ceil=lax.ceil, is_finite=lax.is_finite, neg=lax.neg, abs=lax.abs, sign=lax.sign,
    square=lax.square, cube=lambda x: lax.integer_pow(x, 3), inverse=lambda x: lax.integer_pow(x, -2),
    approx_tanh=plgpu.approx_tanh, power=lambda x: lax.pow(x, x), remainder=lambda x: lax.rem(x, x + 1),
    larger=lambda x: lax.max(x, x + 1), atan2=lambda x: lax.atan2(x, x + 1), next=lambda x: lax.nextafter(x, x + 1),
    quotient=lambda x: lax.div(x, x + 1), less=lambda x: x < x * x, differ=lambda x: x != x * x,
    chosen=lambda x: jnp.where(x > 1, x, 0), clamped=lambda x: lax.clamp(0.0, x, x * x),
)  # fmt: skip


@scenario
def functions_of_float32():
    return {name: applied(f, like(16)) for name, f in UNARY.items()}


@scenario
def functions_of_float32_for_rocm():
    names = ["exp", "tanh", "abs", "power", "atan2", "rsqrt", "floor", "next", "approx_tanh"]
    return {name: applied(UNARY[name], like(16), platform="rocm") for name in names}


INTEGER = dict(
    add=lambda x: x + x, product=lambda x: x * x, quotient=lambda x: lax.div(x, x + 1), rest=lambda x: lax.rem(x, x + 1),
    neg=lambda x: -x, abs=jnp.abs, sign=jnp.sign, larger=lambda x: jnp.maximum(x, x + 1), smaller=lambda x: jnp.minimum(x, x + 1),
    invert=lax.bitwise_not, bits=lax.population_count, zeros=lax.clz, both=lambda x: x & (x + 1), any=lambda x: x | (x + 1),
    odd=lambda x: x ^ (x + 1), left=lambda x: x << x, right=lambda x: lax.shift_right_logical(x, x),
    arithmetic=lambda x: lax.shift_right_arithmetic(x, x), less=lambda x: x < x + 1,
)  # fmt: skip


@scenario
def functions_of_integers():
    types = [jnp.int32, jnp.uint8, jnp.int16]
    return {
        f"{name} {jnp.dtype(t).name}": applied(f, like(16, dtype=t))
        for name, f in INTEGER.items()
        for t in types
        # The reference's do not compile for narrow integers.
        if t is jnp.int32 or name not in ("bits", "zeros")
    }


@scenario
def conversions():
    types = [
        "float32",
        "bfloat16",
        "float16",
        "int32",
        "uint32",
        "int8",
        "bool",
        "float8_e4m3fn",
        "float8_e5m2",
    ]
    eights = {"float8_e4m3fn", "float8_e5m2"}
    floats = {"float32", "bfloat16", "float16"} | eights
    # The reference has none between eight-bit floats and integers.
    pairs = [
        (a, b)
        for a in types
        for b in types
        if a != b and (a in floats and b in floats or not eights & {a, b})
    ]
    pairs = [p for p in pairs if not eights.issuperset(p)]
    return {
        f"{a} {b}": applied(lambda x, b=b: lax.convert_element_type(x, b), like(16, dtype=a))
        for a, b in pairs
    }


@scenario
def reductions():
    x = like(32, 64)
    half, integer = like(32, 64, dtype=jnp.bfloat16), like(32, 64, dtype=jnp.int16)
    return {
        "sum": applied(lambda x: x.sum(1), x),
        "max": applied(lambda x: x.max(0), x),
        "sum of halves": applied(lambda x: x.sum(1), half),
        "max of halves": applied(lambda x: x.max(1), half),
        "max of integers": applied(lambda x: x.max(1), integer),
        "argmax": applied(lambda x: jnp.argmax(x, 1), x),
        "argmin": applied(lambda x: jnp.argmin(x, 1), integer),
        "cumsum": applied(lambda x: jnp.cumsum(x, 1), x),
        "softmax": applied(jax.nn.softmax, x),
    }


@scenario
def shapes():
    x = like(32, 64)
    return {
        "transpose": applied(lambda x: x.T, x),
        "reshape": applied(lambda x: x.reshape(64, 32), x),
        "stack": applied(lambda x: jnp.stack([x, x + 1], -1), x),
        "split": applied(lambda x: jnp.split(x, 2, 1)[1], x),
        "outer": applied(lambda x: x[:, None] * x[None], like(64)),
        "iota": applied(lambda x: x + lax.broadcasted_iota(jnp.float32, (32, 64), 1), x),
        "bits": applied(lambda x: lax.bitcast_convert_type(x, jnp.int32), x),
    }


@scenario
def products():
    out = {}
    for t in ("float32", "bfloat16", "float8_e4m3fn"):
        for precision in (None, lax.Precision.HIGHEST):
            dot = functools.partial(
                lax.dot, precision=precision, preferred_element_type=jnp.float32
            )
            out[f"{t} {precision}"] = applied(dot, like(32, 32, dtype=t), like(32, 32, dtype=t))
    for preset in (
        "F16_F16_F32", "F16_F16_F16", "TF32_TF32_F32", "TF32_TF32_F32_X3", "BF16_BF16_F32", "BF16_BF16_F32_X3",
        "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "F32_F32_F32", "BF16_BF16_BF16",
    ):  # fmt: skip
        dot = functools.partial(lax.dot, precision=lax.DotAlgorithmPreset[preset])
        out[preset] = applied(dot, like(32, 32), like(32, 32))
    out["transposed"] = applied(
        functools.partial(plgpu.dot, trans_a=True, trans_b=True), like(16, 32), like(64, 16)
    )
    out["exact"] = applied(
        functools.partial(plgpu.dot, allow_tf32=False), like(32, 16), like(16, 32)
    )
    return out


@scenario
def memory():
    x, i = like(32, 16), like(8, dtype=jnp.int32)

    def masked(x_ref, o_ref):
        inside = jnp.arange(16) < 5
        x = plgpu.load(
            x_ref.at[pl.ds(0, 16)],
            mask=inside,
            other=1.0,
            eviction_policy="evict_first",
            volatile=True,
        )
        plgpu.store(o_ref.at[pl.ds(0, 16)], x, mask=inside, eviction_policy="evict_last")

    def at(index):
        def kernel(x_ref, i_ref, o_ref):
            o_ref[...] = index(x_ref, i_ref[...])

        return kernel

    def boolean(x_ref, o_ref):
        o_ref[...] = ~x_ref[...]

    def half_bytes(x_ref, o_ref):
        o_ref[...] = x_ref[...].astype(jnp.float32)

    return [
        kernel_of(masked, like(16), like(16)),
        kernel_of(at(lambda x, i: x[i, :]), like(8, 16), x, i),
        kernel_of(at(lambda x, i: x[3, pl.ds(1, 4, 2)]), like(4), x, i),
        kernel_of(at(lambda x, i: x[i[:, None], i[None, :]]), like(8, 8), x, i),
        kernel_of(boolean, like(16, dtype=jnp.bool_), like(16, dtype=jnp.bool_)),
        kernel_of(half_bytes, like(16), like(16, dtype=jnp.int4)),
    ]


@scenario
def atomics():
    out = {}
    for name in ("add", "max", "min", "xchg", "and", "or", "xor"):
        for t in (jnp.float32, jnp.int32, jnp.uint32):
            # The reference adds integers as if they were floats.
            if (
                t is jnp.float32
                if name in ("and", "or", "xor")
                else name == "add" and t is not jnp.float32
            ):
                continue

            def kernel(x_ref, o_ref, name=name, t=t):
                atomic = getattr(plgpu, f"atomic_{name}")
                if name in ("max", "min"):  # which the reference has of scalars only
                    atomic(o_ref, (3,), x_ref[3])
                else:
                    atomic(o_ref, (pl.ds(0, 16),), x_ref[...], mask=jnp.arange(16) < 3)

            out[f"{name} {jnp.dtype(t).name}"] = kernel_of(
                kernel, like(16, dtype=t), like(16, dtype=t)
            )

    def swap(x_ref, o_ref):
        o_ref[...] = plgpu.atomic_cas(x_ref, 0, 1)

    out["cas"] = kernel_of(swap, like(dtype=jnp.int32), like(dtype=jnp.int32))
    return out


@scenario
def control_flow():
    x = like(16)

    def known(x_ref, o_ref):
        o_ref[...] = lax.fori_loop(0, 10, lambda i, c: c + x_ref[i], jnp.zeros(()))

    def unknown(x_ref, n_ref, o_ref):
        o_ref[...] = lax.fori_loop(0, n_ref[...], lambda i, c: c + x_ref[i], jnp.zeros(()))

    def general(x_ref, o_ref):
        step = lambda c: (c[0] * 2, c[1] + x_ref[...])
        o_ref[...] = lax.while_loop(lambda c: c[0] < 10, step, (jnp.int32(1), jnp.zeros(16)))[1]

    def branches(x_ref, o_ref):
        o_ref[...] = lax.cond(x_ref[0] > 0, lambda v: v + 1, lambda v: v - 1, x_ref[...])

    def more(x_ref, o_ref):
        i = x_ref[0].astype(jnp.int32)
        o_ref[...] = lax.switch(i, [lambda v: v + 1, lambda v: v - 1, lambda v: v * 2], x_ref[...])

    def when(x_ref, o_ref):
        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def _():
            o_ref[...] = x_ref[...]

    def calls(x_ref, o_ref):
        o_ref[...] = (
            jax.jit(jnp.sin)(x_ref[...]) + jax.nn.relu(x_ref[...]) + jax.nn.gelu(x_ref[...])
        )

    return [
        kernel_of(known, like(), x),
        kernel_of(unknown, like(), x, like(dtype=jnp.int32)),
        kernel_of(general, x, x),
        kernel_of(branches, x, x),
        kernel_of(more, x, x),
        kernel_of(when, x, x, grid=(3,)),
        kernel_of(calls, x, x),
    ]


@scenario
def device():
    def hints(x_ref, o_ref):
        i = pl.multiple_of(x_ref[0], 8)
        o_ref[...] = plgpu.max_contiguous(jnp.arange(16, dtype=jnp.int32) + i, 8)
        plgpu.debug_barrier()

    def assembly(x_ref, o_ref):
        (o_ref[...],) = plgpu.elementwise_inline_asm(
            "add.f32 $0, $1, 1;",
            args=[x_ref[...]],
            constraints="=f,f",
            pack=1,
            result_shape_dtypes=[like(16)],
        )

    integers = like(16, dtype=jnp.int32)
    return [
        kernel_of(hints, integers, integers),
        kernel_of(assembly, like(16), like(16)),
    ]


@scenario
def grids():
    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = like(64, 64)
    block = lambda at: pl.BlockSpec((16, 16), at)
    last = block(lambda *_: (0, 0))
    out = [
        kernel_of(
            copy,
            like(16, 16),
            x,
            grid=(4, 4),
            in_specs=[block(lambda i, j: (i, j))],
            out_specs=last,
        ),
        kernel_of(
            copy,
            like(16, 16),
            x,
            grid=(4, 4, 2, 3),
            in_specs=[block(lambda i, j, k, l: (i, j))],
            out_specs=last,
        ),
        kernel_of(
            copy, x, x, input_output_aliases={0: 0}, num_warps=8, num_stages=1, name="copied"
        ),
        kernel_of(copy, x, x, metadata={"a": "b"}),
    ]
    apply = pl.pallas_call(copy, like(16), compiler_params=plgpu.CompilerParams())
    return [*out, operations(jax.vmap(apply), like(8, 16))]


@scenario
def product_of_blocks():
    def kernel(x_ref, y_ref, o_ref):
        def step(k, total):
            x = x_ref[:, pl.ds(k * 32, 32)]
            return total + jnp.dot(x, y_ref[pl.ds(k * 32, 32), :])

        total = lax.fori_loop(0, 4, step, jnp.zeros((64, 64), jnp.float32))
        o_ref[...] = total.astype(o_ref.dtype)

    return kernel_of(
        kernel, like(256, 256, dtype=jnp.float16), like(256, 128), like(128, 256), grid=(4, 4),
        in_specs=[pl.BlockSpec((64, 128), lambda i, j: (i, 0)), pl.BlockSpec((128, 64), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((64, 64), lambda i, j: (i, j)), num_warps=8, num_stages=4,
    )  # fmt: skip
