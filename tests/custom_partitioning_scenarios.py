"""Operations with partitioning rules, and Shardy's rules alone: see op_cases.py."""

import functools
import re

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import custom_partitioning_sharding_rule as rules
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
    custom_partitioning_p,
)
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass

CASES = Programs()

# Rules as text, and what they are for operations of given shapes

TEXTS = [
    "i j -> i j", "i j->j i", " i j -> i j ", "i, j -> i j", "i k, k j -> i j", "-> i", "i ->", "->", "", "i",
    "i -> j -> k", "...i -> ...i", "... i -> ... i", "...i j, ...j k -> ...i k", "(i j) k -> i j k", "(i) -> i",
    "() -> i", "((i j) k) -> i", "(i j -> i", "i j) -> i", "i ... -> i", ".. i -> i", "i. -> i", "1 -> i", "i 1 -> i",
    "i1 -> i1", "i_a -> i_a", "_a -> i", "I -> I", "i, -> i", ",i -> i", "i,,j -> i", "i -> i,", "i -> i, j",
    "i->i;", "a-b -> a", "(i ... ) -> i", "(... i) -> i", "i i -> i", "......i -> i", "...1 i -> ...1 i",
    "...12 i -> ...12 i", "...b i -> ...b i", "…i -> …i", "...", 3, None, "i\nj -> i\tj", "(i j) -> (j i)",
    "i j -> i (j k)", "...1 ...2 i -> i", "...1 i, ...2 i -> ...1 i",
]  # fmt: skip


def parsed(text, **options):
    rule = rules.str_to_sdy_sharding_rule(text, **options)
    kinds = rule.reduction_factors, rule.need_replication_factors, rule.permutation_factors
    return str((rule.operand_mappings, rule.result_mappings, rule.factor_sizes, kinds)), str(rule)


for text in TEXTS:
    CASES.add(f"text_{text}", lambda text=text: parsed(text))
OPTIONS = dict(
    reduction=("i j -> i", dict(reduction_factors=("j",))),
    all_kinds=(
        "i j k -> i",
        dict(reduction_factors=("j",), need_replication_factors=("i",), permutation_factors=("k",)),
    ),
    sizes=("(i j) -> k", dict(i=2, j=3)),
    one_size=("(i j) -> i", dict(j=3)),
    missing_size=("(i j) -> k", dict(j=3)),
    redundant_size=("i->i", dict(i=2)),
    unknown_size=("i->i", dict(foo=2)),
    unknown_factor=("i j -> i", dict(reduction_factors=("z",))),
    twice=("i j -> i", dict(reduction_factors=("j", "j"))),
    two_kinds=("i j -> i", dict(reduction_factors=("j",), need_replication_factors=("j",))),
    text=("i j -> i", dict(reduction_factors="j")),
    list=("i j -> i", dict(need_replication_factors=["j"])),
)
for name, (text, options) in OPTIONS.items():
    CASES.add(f"options_{name}", lambda text=text, options=options: parsed(text, **options))

MAPPINGS = [
    (), ("a",), (BATCHING, "a"), ("a", BATCHING), (1,), ("1",), ("a b",), ("a_b1",), ("_a",), ("a", "a"),
    (BATCHING, BATCHING), (BATCHING + "1",), (("a", "b"),), (None,),
]  # fmt: skip
for dims in MAPPINGS:
    CASES.add(f"mapping_{dims}", lambda dims=dims: str(ArrayMapping(*dims)))
for dims in [(), ("a",), ("a", "b"), ("a", 1), ("a", BATCHING), ("1", "2"), ("a", "a")]:
    CASES.add(f"compound_{dims}", lambda dims=dims: str(CompoundFactor(*dims)))
CASES.add("mapping_empty_name", lambda: ArrayMapping(""), any_error=True)
CASES.add("rule_text", lambda: SdyShardingRule((ArrayMapping("a"),), "a"))
CASES.add("batching", lambda: (BATCHING, custom_partitioning_p.name))


def lowered(text, operands, results, **options):
    with mlir.make_ir_context(), ir.Location.unknown():
        types = [
            [ir.RankedTensorType.get(shape, ir.F32Type.get()) for shape in shapes]
            for shapes in (operands, results)
        ]
        rule = rules.str_to_sdy_sharding_rule(text, **options)
        return str(rules.sdy_sharding_rule_to_mlir(rule, *types))


LOWERED = [
    ("i j -> i j", [(8, 4)], [(8, 4)]), ("i k, k j -> i j", [(8, 4), (4, 2)], [(8, 2)]),
    ("i k, k j -> i j", [(8, 4), (5, 2)], [(8, 2)]), ("i j -> i j", [(8,)], [(8,)]),
    ("i j -> i j", [(8, 4), (8, 4)], [(8, 4)]), ("i j -> i j", [(8, 4)], []),
    ("i j -> i j", [(8, 4)], [(8, 4), (8, 4)]), ("...i -> ...i", [(8, 4)], [(8, 4)]),
    ("...i -> ...i", [(8,)], [(8,)]), ("...i -> ...i", [(2, 3, 4, 8)], [(2, 3, 4, 8)]),
    ("...i -> ...i", [(2, 3, 8)], [(3, 8)]), ("...i -> ...i", [()], [()]), ("... -> ...", [(2, 3)], [(2, 3)]),
    ("... -> ...", [()], [()]), ("...i, ...j -> ...i", [(2, 3), (5, 4)], [(2, 3)]),
    ("...i, ...j -> ...i", [(2, 3), (2, 4)], [(2, 3)]), ("...i -> i", [(2, 3)], [(3,)]),
    ("(i j) k -> i j k", [(8, 4)], [(2, 4, 4)]), ("(i j) k -> i j k", [(8, 4)], [(2, 3, 4)]),
    ("i i -> i", [(4, 4)], [(4,)]), ("i i -> i", [(4, 5)], [(4,)]), ("i -> i", [(1,)], [(4,)]),
    ("i -> i", [(4,)], [(1,)]), ("-> i", [()], [(4,)]), ("->", [()], [()]), ("i, j -> i j", [(2,), (3,)], [(2, 3)]),
    ("i -> j", [(2,)], [(3,)]), ("i, -> i", [(2,), ()], [(2,)]),
    ("...1 i, ...2 i -> ...1 i, ...2 i", [(2, 3, 4), (3, 4)], [(2, 3, 4), (3, 4)]), ("abc d -> d abc", [(2, 3)], [(3, 2)]),
]  # fmt: skip
for case in LOWERED:
    CASES.add(f"lowered_{case}", lambda case=case: lowered(*case))
MATMUL = "i k, k j -> i j", [(8, 4), (4, 2)], [(8, 2)]
CASES.group(
    "lowered_options",
    reduction=lambda: lowered(*MATMUL, reduction_factors=("k",)),
    all=lambda: lowered(
        *MATMUL,
        reduction_factors=("k",),
        need_replication_factors=("i",),
        permutation_factors=("j",),
    ),
    sizes=lambda: lowered("(i j) -> k", [(6,)], [(3,)], i=2, j=3),
    wrong_sizes=lambda: lowered("(i j) -> k", [(7,)], [(3,)], i=2, j=3),
    replicated=lambda: lowered(
        "i (j k) -> i", [(5, 6)], [(5,)], j=2, k=3, need_replication_factors=("j", "k")
    ),
    batched=lambda: lowered("...i j -> ...i", [(2, 3, 4)], [(2, 3)], reduction_factors=("j",)),
)


# Operations


def make_mesh(axis_type=AxisType.Auto):
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=(axis_type,) * 2)


VALUES = np.arange(64, dtype=np.float32).reshape(8, 8)


def sharded(*spec, axis_type=AxisType.Auto):
    return jax.device_put(VALUES, NamedSharding(make_mesh(axis_type), P(*spec)))


def shardings_of(shapes):
    return jax.tree.map(lambda x: x.sharding, shapes)


def operation(
    fun=jnp.sin, static_argnums=(), rule="i j -> i j", partition=None, log=None, **options
):
    """An operation that runs the function on shards, as they are; `log` gets what the rule is called with."""
    op = custom_partitioning(fun, static_argnums=static_argnums)

    def as_is(*args):
        *statics, mesh, arg_shapes, result_shape = args
        if log is not None:
            # The text of an OrderedDict depends on the version of Python.
            shape = type(mesh.shape), list(mesh.shape.items())
            log.append(str((*statics, shape, arg_shapes, result_shape)))
        on_shards = lambda *xs: fun(*xs, *statics)
        return mesh, on_shards, shardings_of(result_shape), shardings_of(arg_shapes)

    op.def_partition(partition or as_is, sharding_rule=rule, **options)
    return op


def given(log):
    return sorted(set(log))


def show(y):
    return str(jax.typeof(y)), str(y.sharding.spec), np.asarray(y)


def ran(op, *args):
    return jax.tree.leaves(jax.tree.map(show, jax.jit(op)(*args)))


def attributes(op, *args):
    text = jax.jit(op).lower(*args).as_text()
    return re.findall(
        r"sdy.sharding_rule = (#.*?>), custom>", text
    ), "CustomSPMDPartitioning" in text


def logged(op, log, *args):
    return ran(op, *args), given(log)


def jaxpr(fun, *args):
    text = str(jax.make_jaxpr(fun)(*args))
    return re.sub(r"<function.*?>", "<function>", text)


@CASES.define
def partitioned():
    return logged(operation(log=(log := [])), log, sharded("x", "y"))


@CASES.define
def partitioned_without_decoding():
    log = []
    out = ran(operation(log=log, decode_shardings=False), sharded("x", "y"))
    return out, [re.sub(r"memory_kind=\w+", "", text) for text in given(log)]


@CASES.define
def partitioned_with_static_arguments():
    op = operation(lambda x, s, t: x * s, static_argnums=(1, 2), log=(log := []))
    return logged(lambda x: op(x, 3, "t"), log, sharded("x"))


@CASES.define
def partitioned_in_mesh():
    with jax.set_mesh(make_mesh()):
        return logged(operation(log=(log := [])), log, sharded("y"))


@CASES.define
def several_arguments_and_results():
    def fun(x, y):
        return {"a": x @ y, "b": (x * 2,)}

    op = operation(
        fun, rule="i k, k j -> i j, i k", need_replication_factors=("k",), log=(log := [])
    )
    return logged(op, log, sharded("x"), sharded(None, "y"))


def to_rows(mesh, arg_shapes, result_shape):
    rows = NamedSharding(mesh, P("x"))
    return mesh, lambda x: x - x.mean(axis=1, keepdims=True), rows, (rows,)


def centered(x):
    return x - x.mean(axis=1, keepdims=True)


@CASES.define
def definition_as_decorator():
    @custom_partitioning
    def double(x):
        return x * 2

    @functools.partial(double.def_partition, sharding_rule="i j -> i j")
    def partition(mesh, arg_shapes, result_shape):
        sharding = arg_shapes[0].sharding
        return mesh, lambda x: x * 2, sharding, (sharding,)

    return partition.__name__, ran(double, sharded("x", "y"))


@CASES.define
def resharded():
    op = operation(centered, partition=to_rows, need_replication_factors=("j",))
    text = jax.jit(op).lower(sharded("x", "y")).compile().as_text()
    return ran(op, sharded("x", "y")), "all-gather" in text


@CASES.define
def other_mesh_axes():
    def swap(mesh, arg_shapes, result_shape):
        swapped = NamedSharding(mesh, P("y", "x"))
        return mesh, jnp.sin, swapped, (swapped,)

    return ran(operation(partition=swap), sharded("x", "y"))


@CASES.define
def collectives():
    def with_sum(mesh, arg_shapes, result_shape):
        cols = NamedSharding(mesh, P(None, "y"))

        def on_shards(x):
            return lax.psum(x, "x") + lax.axis_index("y").astype(x.dtype)

        return mesh, on_shards, cols, (NamedSharding(mesh, P("x", "y")),)

    fun = lambda x: x[:2] * 1
    op = operation(fun, rule="i j -> k j", partition=with_sum)
    return ran(op, sharded("x", "y"))


@CASES.define
def constants_of_the_shard_function():
    def partition(mesh, args, result):
        return mesh, lambda x: x + np.arange(4, dtype="float32"), *map(shardings_of, (result, args))

    return ran(operation(partition=partition), sharded("x", "y"))


@CASES.define
def rules_by_function():
    seen = []

    def by_text(*args):
        seen.append(str(args[:-2]) + str([str(t) for types in args[-2:] for t in types]))
        return "i j -> i j"

    def by_object(*args):
        return SdyShardingRule((ArrayMapping("a", "b"),), (ArrayMapping("a", "b"),))

    op = operation(lambda x, s: x * s, static_argnums=(1,), rule=by_text)
    found = attributes(lambda x: op(x, 3), sharded("x"))
    return found, seen, attributes(operation(rule=by_object), sharded("x"))


CASES.group(
    "operation",
    jaxpr=lambda: jaxpr(operation(), VALUES),
    jaxpr_static=lambda: jaxpr(lambda x: operation(lambda x, s: x * s, (1,))(x, 3), VALUES),
    jaxpr_explicit=lambda: jaxpr(operation(), sharded("x", "y", axis_type=AxisType.Explicit)),
    explicit=lambda: ran(operation(), sharded("x", "y", axis_type=AxisType.Explicit)),
    eager=lambda: show(operation()(sharded("x", "y"))),
    one_device=lambda: (operation()(VALUES), jax.jit(operation())(VALUES), attributes(operation(), VALUES)),
    keyword=lambda: operation(lambda x, y: x - y, rule="i j, i j -> i j")(y=VALUES, x=VALUES * 3),
    defaults=lambda: operation(lambda x, y=2.0: x * y, rule="i j, -> i j")(x=VALUES),
    in_scan=lambda: ran(lambda x: lax.scan(lambda c, _: (operation()(c), None), x, None, 2)[0], sharded("x")),
    in_cond=lambda: ran(lambda x: lax.cond(x[0, 0] > 0, operation(), jnp.cos, x), sharded("x", "y")),
    attributes=lambda: attributes(operation(), sharded("x", "y")),
    shard_map=lambda: ran(
        jax.shard_map(operation(), mesh=make_mesh(), in_specs=P("x", "y"), out_specs=P("x", "y")), sharded("x")
    ),
    partly_manual=lambda: ran(
        jax.shard_map(operation(), mesh=make_mesh(), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}),
        sharded("x", "y"),
    ),
    object_rule=lambda: ran(
        operation(rule=SdyShardingRule((ArrayMapping("a", "b"),), (ArrayMapping("a", "b"),))), sharded("x")
    ),
)  # fmt: skip


@CASES.define
def custom_derivative():
    f = jax.custom_vjp(operation())
    f.defvjp(lambda x: (operation()(x), x), lambda x, g: (g * operation(jnp.cos)(x),))
    return show(jax.jit(jax.grad(lambda x: f(x).sum()))(sharded("x", "y")))


# Errors

BAD_PARTITIONS = dict(
    error=lambda mesh, args, result: {}["missing"],
    none=lambda mesh, args, result: None,
    three=lambda mesh, args, result: (mesh, jnp.sin, result.sharding),
    in_function=lambda mesh, args, result: (
        mesh, lambda x: 1 / 0, result.sharding, shardings_of(args)
    ),
    arguments=lambda mesh, args, result: (
        mesh, jnp.sin, result.sharding, (args[0].sharding, args[0].sharding)
    ),
    no_tuple=lambda mesh, args, result: (mesh, jnp.sin, result.sharding, args[0].sharding),
    results=lambda mesh, args, result: (mesh, jnp.sin, (result.sharding,), shardings_of(args)),
    no_sharding=lambda mesh, args, result: (mesh, jnp.sin, P("x"), shardings_of(args)),
    dtype=lambda mesh, args, result: (
        mesh, lambda x: x.astype(int), result.sharding, shardings_of(args)
    ),
    shape=lambda mesh, args, result: (mesh, jnp.sum, result.sharding, shardings_of(args)),
    number=lambda mesh, args, result: (
        mesh, lambda x: (x, x), result.sharding, shardings_of(args)
    ),
    mesh=lambda mesh, args, result: (None, jnp.sin, result.sharding, shardings_of(args)),
)  # fmt: skip
for name, bad in BAD_PARTITIONS.items():
    CASES.add(
        f"error_partition_{name}",
        lambda bad=bad: jax.jit(operation(partition=bad))(sharded("x", "y")),
    )
CASES.group(
    "error",
    undefined=lambda: custom_partitioning(lambda x: x)(VALUES),
    jvp=lambda: jax.jvp(operation(), (VALUES,), (VALUES,)),
    grad=lambda: jax.grad(lambda x: operation()(x).sum())(VALUES),
    vmap=lambda: jax.vmap(operation(rule="i -> i"))(VALUES),
    static_missing=lambda: operation(lambda x, s: x, (1,))(VALUES),
    static_unhashable=lambda: jax.jit(lambda x: operation(lambda x, s: x, (1,))(x, [3]))(VALUES),
    static_tracer=lambda: jax.jit(lambda x: operation(lambda x, s: x, (1,))(x, x))(VALUES),
    rule_number=lambda: operation(rule=3),
    rule_rank=lambda: jax.jit(operation(rule="i -> i")).lower(sharded("x")),
    rule_operands=lambda: jax.jit(operation(rule="i j, i -> i j")).lower(sharded("x")),
    rule_function=lambda: jax.jit(operation(rule=lambda *_: 3)).lower(sharded("x")),
    rule_function_raises=lambda: jax.jit(operation(rule=lambda *_: 1 / 0)).lower(sharded("x")),
    options_unknown=lambda: operation(reduction_factors=("q",)),
    options_function=lambda: operation(
        rule=lambda *_: "i j -> i j", need_replication_factors=("j",)
    ),
    options_object=lambda: operation(
        rule=SdyShardingRule((ArrayMapping("a", "b"),), (ArrayMapping("a", "b"),)), a=3
    ),
    options_none=lambda: operation(rule=None, reduction_factors=("q",)),
    no_rule=lambda: operation(rule=None, infer_sharding_from_operands=lambda *_: None)(VALUES),
)
