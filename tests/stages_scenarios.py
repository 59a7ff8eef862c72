"""`jax.stages`: what traced, lowered and compiled functions say of themselves, and calls: see op_cases.py."""

import re

import numpy as np
from op_cases import Programs

import jax
from jax import stages
from jax.experimental import serialize_executable

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass

CASES = Programs()
add = CASES.group

F = np.float32
x = np.arange(12, dtype=F).reshape(3, 4)
x8 = np.arange(8, dtype=F)


def f(x, y, n=2, *, k):
    return {"a": x @ y.T * n, "b": (k, None), "y": y + 1}


def traced(**options):
    options = {"static_argnames": "n", "donate_argnums": 1} | options
    return jax.jit(f, **options).trace(x, x, n=3, k=1.0)


def lowered(**options):
    return traced(**options).lower()


def compiled(**options):
    return lowered(**options).compile()


def attributes(stage):
    """All attributes that are not methods, as texts."""
    names = [n for n in dir(stage) if not n.startswith("_") and n not in ("lojax", "jaxpr")]
    values = {n: getattr(stage, n) for n in names}
    return {
        n: "method" if callable(v) else re.sub(r"0x[0-9a-f]+|\s+", " ", str(v))
        for n, v in values.items()
    }


add(
    "attributes",
    traced=lambda: attributes(traced()),
    lowered=lambda: attributes(lowered()),
    compiled=lambda: attributes(compiled()),
    unused=lambda: attributes(jax.jit(lambda a, b: a).lower(x, x).compile()),
    jaxpr=lambda: str(traced().jaxpr),
    kinds=lambda: [
        isinstance(a, b)
        for a, b in zip((jax.jit(f), traced(), lowered(), compiled()),
                        (stages.Wrapped, stages.Traced, stages.Lowered, stages.Compiled))
    ],
    argument=lambda: str(stages.ArgInfo(jax.core.ShapedArray((1,), np.dtype(F)), False)),
)  # fmt: skip


def text(dialect, **options):
    found = lowered().as_text(dialect, **options)
    return [found.split()[0], "loc(" in found, "metadata={" in found, "dot" in found]


for dialect in (None, "stablehlo", "hlo", "mhlo", "jaxpr", "other"):
    add(
        f"dialect_{dialect}",
        text=lambda d=dialect: text(d),
        with_debug_info=lambda d=dialect: text(d, debug_info=True),
        ir=lambda d=dialect: type(lowered().compiler_ir(d)).__name__,
    )
SIZES = "argument", "output", "alias"
add(
    "analysis",
    compiled_text=lambda: compiled().as_text().split()[0],
    cost_lowered=lambda: sorted(lowered().cost_analysis()),
    cost_compiled=lambda: sorted(compiled().cost_analysis()),
    flops=lambda: [lowered().cost_analysis()["flops"], compiled().cost_analysis()["flops"]],
    memory=lambda: [
        getattr(compiled().memory_analysis(), f"{n}_size_in_bytes") for n in SIZES
    ],
    runtime=lambda: type(compiled().runtime_executable()).__name__,
    options=lambda: lowered().compile({"xla_embed_ir_in_executable": True})(x, x, k=1.0),
    unknown_option=lambda: lowered().compile({"nonsense": 1}),
    other_platforms=lambda: traced().lower(lowering_platforms=("tpu", "cpu")).as_text().split()[0],
    other_platform_compiled=lambda: type(traced().lower(lowering_platforms=("tpu",)).compile()).__name__,
)  # fmt: skip
add(
    "call",
    plain=lambda: compiled()(x, x, k=1.0),
    static=lambda: compiled()(x, x, n=3, k=1.0),
    static_positional=lambda: compiled()(x, x, 3, k=1.0),
    dtype=lambda: compiled()(x.astype(int), x, k=1.0),
    shape=lambda: compiled()(x[:2], x, k=1.0),
    tree=lambda: compiled()(x, k=1.0),
    traced=lambda: jax.jit(lambda a: compiled()(a, x, k=1.0))(x),
    grad=lambda: jax.grad(lambda k: compiled()(x, x, k=k)["a"].sum())(1.0),
    donated=lambda: donated(),
)


def donated():
    a = jax.numpy.asarray(x8)
    result = jax.jit(lambda a: a + 1, donate_argnums=0).lower(a).compile()(a)
    return result, a.is_deleted()


def sharded(**options):
    mesh = jax.make_mesh((8,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.NamedSharding(mesh, jax.P("a"))
    return jax.jit(lambda a: (a + 1, a.sum()), in_shardings=rows, **options).lower(x8)


def reread(program):
    return serialize_executable.deserialize_and_load(*serialize_executable.serialize(program))


add(
    "shardings",
    lowered=lambda: attributes(sharded()),
    compiled=lambda: attributes(sharded().compile()),
    formats=lambda: [
        str(sharded().compile().input_formats),
        str(sharded().compile().output_formats),
    ],
    call=lambda: sharded().compile()(x8),
    serialized=lambda: [attributes(reread(sharded().compile())), reread(sharded().compile())(x8)],
)
