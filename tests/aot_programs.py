"""Programs for many devices, and what compilers make of them: for this library and for the reference build.

The devices are absent: see jax.experimental.topologies. The vendors' compilers are in the packages of
build/requirements/aot.in.
"""

import functools
import hashlib
import math
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import io_callback, topologies
from jax.experimental.layout import Format, Layout
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

# There is no cloud to ask, and no chip that processes would have to share.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
H100 = Path(__file__).parent / "testdata" / "h100.textproto"


@functools.cache
def topology(name):
    if name == "h100":
        options = dict(target_config=H100.read_text(), topology="1x2x8")
        return topologies.get_topology_desc("h100", "cuda", **options)
    return topologies.get_topology_desc(name, "tpu")


# Topologies, and the meshes of the programs below: data (or stages, or experts), and model.
MESHES = {"v5e:2x2": (2, 2), "v5p:16x16x16": (16, 256), "h100": (2, 8)}


@functools.cache
def mesh_of(name, explicit=False):
    mesh = topologies.make_mesh(topology(name), MESHES[name], ("x", "y"))
    return Mesh(mesh.devices, mesh.axis_names, (AxisType.Explicit,) * 2) if explicit else mesh


# What there is to know about a compiled program

_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?[\w.\-]+ = (?:\(.*?\) |\S+ )([a-z][\w\-]*)\(")
_COLLECTIVES = ("all-", "reduce-scatter", "collective-", "ragged-all-to-all", "send", "recv")
_GROUPS = re.compile(
    r"(replica_groups|source_target_pairs|dimensions|split_dimension)=(\S+?)(?:, |$)"
)
_MEMORY = (
    "argument", "output", "alias", "temp", "host_argument", "host_output", "host_alias", "host_temp"
)  # fmt: skip


def facts(compiled):
    """Cost, memory, operations, collectives and shardings of a compiled program, as text."""
    text = compiled.as_text()
    operations, collectives = Counter(), Counter()
    for line in text.splitlines():
        if not (match := _INSTRUCTION.match(line)):
            continue
        name = match.group(1)
        operations[name] += 1
        if name.startswith(_COLLECTIVES):
            groups = " ".join(f"{k}={_short(v)}" for k, v in _GROUPS.findall(line))
            collectives[f"{name} {groups}"] += 1
    memory = compiled.memory_analysis()
    cost = compiled.cost_analysis() or _cost(compiled)
    wanted = ("flops", "bytes accessed", "transcendentals", "optimal_seconds")
    return {
        "cost": [f"{k}: {cost[k]!r}" for k in wanted if k in cost],
        "memory": [f"{k}: {getattr(memory, f'{k}_size_in_bytes')}" for k in _MEMORY],
        "operations": [f"{k}: {n}" for k, n in sorted(operations.items())],
        "collectives": [f"{k}: {n}" for k, n in sorted(collectives.items())],
        "shardings": [_sharding(s) for s in jax.tree.leaves(
            (compiled.input_shardings, compiled.output_shardings))],
        "layouts": [str(f.layout) for f in jax.tree.leaves(
            (compiled.input_formats, compiled.output_formats))],
    }  # fmt: skip


def _short(groups):
    if len(groups) <= 200:
        return groups
    return f"#{hashlib.sha256(groups.encode()).hexdigest()[:16]} of {len(groups)} characters"


def _cost(compiled):
    """The plugin has no estimates: those of the CPU's client for the optimized program."""
    from jaxlib import _jax

    (module,) = compiled.runtime_executable().hlo_modules()
    return _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)


def _sharding(s):
    return f"{s.spec} {s.memory_kind}" if isinstance(s, NamedSharding) else str(s)


def compiled(fun, *args, **options):
    """Compiles as for users, where other tests compile quickly."""
    quickly = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        return jax.jit(fun, **options).lower(*args).compile()
    finally:
        jax.config.update("jax_disable_most_optimizations", quickly)


def struct(mesh, shape, *spec, dtype=jnp.float32, kind=None):
    return jax.ShapeDtypeStruct(
        shape, dtype, sharding=NamedSharding(mesh, P(*spec), memory_kind=kind)
    )


# Collectives, in the body of a shard_map over "x" and "y" of a value of 8 x 128 a device

COLLECTIVES = {
    "psum": lambda x: lax.psum(x, "x"),
    "psum_both": lambda x: lax.psum(x, ("x", "y")),
    "psum_int": lambda x: lax.psum(x.astype(jnp.int32), "y"),
    "pmax": lambda x: lax.pmax(x, "y"),
    "pmin": lambda x: lax.pmin(x, "x"),
    "pmean": lambda x: lax.pmean(x, "y"),
    "psum_scatter": lambda x: lax.psum_scatter(x, "x", tiled=True),
    "psum_scatter_dim1": lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
    "all_gather": lambda x: lax.all_gather(x, "x"),
    "all_gather_tiled": lambda x: lax.all_gather(x, "y", axis=1, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "x", ring(lax.axis_size("x"))),
    "pshuffle": lambda x: lax.pshuffle(x, "x", list(range(lax.axis_size("x")))[::-1]),
    "axis_index": lambda x: x + lax.axis_index(("x", "y")).astype(x.dtype),
    "grad_psum": lambda x: jax.grad(lambda x: lax.psum(jnp.sum(x * x), ("x", "y")))(x),
    "grad_all_gather": lambda x: jax.grad(
        lambda x: jnp.sum(jnp.sin(lax.all_gather(x, "x", tiled=True)))
    )(x),
    "psum_bfloat16": lambda x: lax.psum(x.astype(jnp.bfloat16), "y"),
    "psum_groups": lambda x: lax.psum(x, "y", axis_index_groups=halves(lax.axis_size("y"))),
    "pmax_both": lambda x: lax.pmax(x, ("x", "y")),
    "pbroadcast": lambda x: lax.pbroadcast(x, "y", 0),
    "pswapaxes": lambda x: lax.pswapaxes(x.reshape(lax.axis_size("x"), -1), "x", 0),
    "psum_scatter_stacked": lambda x: lax.psum_scatter(x.reshape(lax.axis_size("x"), -1), "x"),
    "psum_scatter_groups": lambda x: lax.psum_scatter(
        x, "y", scatter_dimension=1, tiled=True, axis_index_groups=halves(lax.axis_size("y"))
    ),
    "all_gather_both": lambda x: lax.all_gather(x[:1], ("x", "y"), tiled=True),
    "all_gather_groups": lambda x: lax.all_gather(
        x, "y", axis_index_groups=halves(lax.axis_size("y"))
    ),
    "all_to_all_groups": lambda x: lax.all_to_all(
        x.reshape(2, -1), "y", 0, 0, axis_index_groups=pairs(lax.axis_size("y"))
    ),
    "all_to_all_int": lambda x: lax.all_to_all(x.astype(jnp.int32), "x", 1, 1, tiled=True),
    "ragged_all_to_all": lambda x: ragged(x),
    "ppermute_partial": lambda x: lax.ppermute(x, "y", [(0, 1)]),
    "grad_ppermute": lambda x: jax.grad(
        lambda x: jnp.sum(jnp.sin(lax.ppermute(x, "y", ring(lax.axis_size("y")))))
    )(x),
    "grad_all_to_all": lambda x: jax.grad(
        lambda x: jnp.sum(jnp.sin(lax.all_to_all(x, "x", 1, 0, tiled=True)))
    )(x),
    "grad_psum_scatter": lambda x: jax.grad(
        lambda x: jnp.sum(jnp.sin(lax.psum_scatter(x, "x", tiled=True)))
    )(x),
    "loop_psum": lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sin(lax.psum(x, "x")), x),
    "vmap_psum": lambda x: jax.vmap(lambda r: lax.psum(r, "y"))(x),
    "vmap_all_to_all": lambda x: jax.vmap(
        lambda r: lax.all_to_all(r.reshape(lax.axis_size("x"), -1), "x", 0, 0)
    )(x),
}  # fmt: skip


def ring(n):
    return [(i, (i + 1) % n) for i in range(n)]


def halves(n):
    return [list(range(n // 2)), list(range(n // 2, n))]


def pairs(n):
    return [[i, i + 1] for i in range(0, n, 2)]


def ragged(x):
    """One row for each device along "x"."""
    n = lax.axis_size("x")
    ones, rows = jnp.ones(n, jnp.int32), jnp.arange(n, dtype=jnp.int32)
    offsets = jnp.full(n, lax.axis_index("x"), jnp.int32)
    rows_of_x = jnp.broadcast_to(x[:1], (n, x.shape[1]))
    empty = jnp.zeros_like(rows_of_x)
    return lax.ragged_all_to_all(rows_of_x, empty, rows, ones, offsets, ones, axis_name="x")


def collective(name, body):
    mesh = mesh_of(name)
    rows, cols = 16 * mesh.shape["x"], 128 * mesh.shape["y"]
    run = jax.shard_map(
        lambda x: body(x).reshape(-1), mesh=mesh, in_specs=P("x", "y"), out_specs=P(("x", "y")),
        check_vma=False,
    )  # fmt: skip
    return facts(compiled(run, struct(mesh, (rows, cols), "x", "y")))


# Shard maps with checked types, with axes left to the compiler, and nested ones

SHARD_MAPS = {
    "sum": (lambda x: lax.psum(jnp.sin(x), "x"), P("x", "y"), P(None, "y"), {}),
    "mean": (lambda x: lax.pmean(jnp.mean(x), ("x", "y")), P("x", "y"), P(), {}),
    "gathered": (lambda x: lax.all_gather(x, "x", tiled=True), P("x", "y"), P(("x", "y")), {}),
    "loss": (
        lambda x: jax.value_and_grad(lambda x: lax.pmean(jnp.mean(x**2), ("x", "y")))(x),
        P("x", "y"), (P(), P("x", "y")), {},
    ),
    "shared": (  # the gradient of a value that is the same everywhere is a sum
        lambda x: jax.grad(lambda w: lax.pmean(jnp.mean(jnp.sin(w * x)), ("x", "y")))(
            jnp.float32(2)
        ), P("x", "y"), P(), {},
    ),
    "scan": (
        lambda x: lax.scan(
            lambda c, _: (lax.pmean(jnp.sin(c + x), "x"), None), lax.pmean(x, "x"), None, length=3
        )[0],
        P("x", "y"), P(None, "y"), {},
    ),
    "partial": (lambda x: lax.psum(x @ x.T, "x"), P("x"), P(), dict(axis_names={"x"})),
}  # fmt: skip


def shard_mapped(name, body, in_spec, out_specs, options):
    mesh = mesh_of(name)
    rows, cols = 16 * mesh.shape["x"], 128 * mesh.shape["y"]
    run = jax.shard_map(body, mesh=mesh, in_specs=in_spec, out_specs=out_specs, **options)
    return facts(compiled(run, struct(mesh, (rows, cols), "x", "y")))


# Train steps: each returns a function and its arguments


def mlp_loss(params, x, y):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return jnp.mean((x @ w + b - y) ** 2)


def sgd(loss):
    def step(params, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), value

    return step


def sizes(mesh):
    batch, width = 8 * math.prod(mesh.shape.values()), 128 * mesh.shape["y"]
    return batch, width


def data_parallel(mesh):
    """The batch is split, the parameters are not."""
    batch, _ = sizes(mesh)
    params = [(struct(mesh, (256, 256)), struct(mesh, (256,))) for _ in range(2)]
    data = [struct(mesh, (batch, 256), ("x", "y")) for _ in range(2)]
    return sgd(mlp_loss), (params, *data)


def tensor_parallel(mesh):
    """Parameters are split alternately by columns and rows, the batch is split as well."""
    batch, width = sizes(mesh)
    params = [
        (struct(mesh, (256, width), None, "y"), struct(mesh, (width,), "y")),
        (struct(mesh, (width, 256), "y", None), struct(mesh, (256,))),
    ]
    data = [struct(mesh, (batch, 256), "x") for _ in range(2)]
    return sgd(mlp_loss), (params, *data)


def fully_sharded(mesh):
    """Parameters, in whose dimensions the batch is split too, are gathered where they are used."""
    batch, width = sizes(mesh)
    params = [
        (struct(mesh, (512, width), "x", "y"), struct(mesh, (width,), ("x", "y"))),
        (struct(mesh, (width, 512), "y", "x"), struct(mesh, (512,))),
    ]
    data = [struct(mesh, (batch, 512), ("x", "y")) for _ in range(2)]

    def loss(params, x, y):
        gathered = jax.tree.map(
            lambda p: lax.with_sharding_constraint(p, NamedSharding(mesh, P())), params
        )
        return mlp_loss(gathered, x, y)

    out = jax.tree.map(lambda p: p.sharding, params)
    return sgd(loss), (params, *data), dict(out_shardings=(out, None))


def attention_block(p, x):
    """A transformer block: x has dimensions batch, time, features."""

    def norm(x):
        return (x - jnp.mean(x, -1, keepdims=True)) * lax.rsqrt(
            jnp.var(x, -1, keepdims=True) + 1e-5
        )

    h = norm(x)
    q, k, v = (jnp.tensordot(h, p[n], 1).transpose(0, 2, 1, 3) for n in "qkv")
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((x.shape[1],) * 2, bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
    x = x + jnp.tensordot((weights @ v).transpose(0, 2, 1, 3), p["o"], 2)
    return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]


def transformer_params(mesh, features=128, head=128, kind=None):
    """Heads and hidden units are split over "y"."""
    heads, hidden = mesh.shape["y"], 512 * mesh.shape["y"]
    part = functools.partial(struct, mesh, kind=kind)
    return {
        **{n: part((features, heads, head), None, "y") for n in "qkv"},
        "o": part((heads, head, features), "y"),
        "up": part((features, hidden), None, "y"),
        "down": part((hidden, features), "y"),
    }


def transformer(mesh):
    batch = 2 * mesh.shape["x"]
    loss = lambda p, x: jnp.mean(attention_block(p, x) ** 2)
    return sgd(loss), (transformer_params(mesh), struct(mesh, (batch, 64, 128), "x"))


def pipeline(mesh):
    """Each stage, a device along "x", has one layer; microbatches go from stage to stage."""
    stages, features, micro = mesh.shape["x"], 128, 8
    steps = 2 * stages

    def body(w, xs):
        stage = lax.axis_index("x")

        def tick(carry, t):
            state, out = carry
            x = jnp.where(stage == 0, xs[jnp.minimum(t, stages - 1)], state)
            y = jnp.tanh(x @ w[0])
            out = jnp.where(stage == stages - 1, y, out)
            return (lax.ppermute(y, "x", ring(stages)), out), None

        zero = lax.pcast(jnp.zeros((micro, features)), ("x", "y"), to="varying")
        (_, out), _ = lax.scan(tick, (zero, zero), jnp.arange(steps))
        return lax.pmean(jnp.mean(out**2), ("x", "y"))

    run = jax.shard_map(body, mesh=mesh, in_specs=(P("x"), P(None, "y")), out_specs=P())
    w = struct(mesh, (stages, features, features), "x")
    xs = struct(mesh, (stages, micro * mesh.shape["y"], features), None, "y")
    return sgd(run), (w, xs)


def expert_parallel(mesh):
    """Tokens go to the experts along "x" and come back."""
    experts, tokens, features = mesh.shape["x"], 16, 128

    def body(w, x):
        chosen = jnp.argmax(x[:, :experts], axis=-1)
        place = jax.nn.one_hot(chosen, experts, dtype=x.dtype)
        sent = place.T[:, :, None] * x
        received = lax.all_to_all(sent, "x", 0, 0)
        worked = jax.nn.gelu(received @ w[0])
        back = lax.all_to_all(worked, "x", 0, 0)
        return lax.pmean(jnp.mean(jnp.sum(place.T[:, :, None] * back, 0) ** 2), ("x", "y"))

    run = jax.shard_map(body, mesh=mesh, in_specs=(P("x"), P(("x", "y"))), out_specs=P())
    w = struct(mesh, (experts, features, features), "x")
    n = tokens * math.prod(mesh.shape.values())
    return sgd(run), (w, struct(mesh, (n, features), ("x", "y")))


TRAIN_STEPS = dict(
    data_parallel=data_parallel,
    tensor_parallel=tensor_parallel,
    fully_sharded=fully_sharded,
    transformer=transformer,
    pipeline=pipeline,
    expert_parallel=expert_parallel,
)


# Callbacks, for TPUs: those for GPUs need another package

CALLBACKS = {
    "pure": lambda x: jax.pure_callback(np.sin, x, x),
    "two": lambda x: jax.pure_callback(
        lambda x, y: (y, x), (jax.ShapeDtypeStruct((3,), np.int32), x), x, jnp.arange(3)
    ),
    "ordered": lambda x: io_callback(
        np.sin, x, io_callback(np.sin, x, x, ordered=True), ordered=True
    ),
    "without_operands": lambda x: x + io_callback(lambda: np.ones(x.shape, np.float32), x),
    "empty": lambda x: jax.pure_callback(
        lambda x: np.zeros((0, 3), np.float32), jax.ShapeDtypeStruct((0, 3), np.float32), x
    ),
    "debug": lambda x: (jax.debug.print("{}", x), x * 2)[1],
    "scan": lambda x: lax.scan(
        lambda c, _: (jax.pure_callback(np.sin, x, c), None), x, None, length=3
    )[0],
}


def callback(name, fun):
    return facts(compiled(fun, struct(mesh_of(name), (16, 256), "x", "y")))


def callback_of_shards(name):
    spec = P("x", "y")
    return callback(name, jax.shard_map(
        lambda x: jax.pure_callback(np.sin, x, x), mesh=mesh_of(name), in_specs=spec, out_specs=spec
    ))  # fmt: skip


# Memory of the host, and layouts that the compiler chooses


def host_parameters(mesh):
    """Parameters and momentum stay in the host's memory, and are on the devices while they are used."""
    params = transformer_params(mesh, kind="pinned_host")
    x = struct(mesh, (2 * mesh.shape["x"], 64, 128), "x")

    def step(params, momentum, x):
        here = jax.device_put(params, jax.memory.Space.Device)
        value, grads = jax.value_and_grad(lambda p, x: jnp.mean(attention_block(p, x) ** 2))(
            here, x
        )
        momentum = jax.device_put(momentum, jax.memory.Space.Device)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        params = jax.tree.map(lambda p, m: p - 0.01 * m, here, momentum)
        return *jax.device_put((params, momentum), jax.memory.Space.Host), value

    out = jax.tree.map(lambda p: p.sharding, params)
    return step, (params, params, x), dict(out_shardings=(out, out, None), donate_argnums=(0, 1))


def layers(mesh, policy):
    """The gradient of a scan over layers, whose activations the policy moves."""
    w = struct(mesh, (4, 256, 256), None, None, "y")
    x = struct(mesh, (16 * mesh.shape["x"], 256), "x")

    def loss(w, x):
        def body(h, w):
            h = checkpoint_name(h, "input")
            h = checkpoint_name(jnp.sin(h @ w), "product")
            return jnp.tanh(h), None

        return jnp.mean(lax.scan(jax.checkpoint(body, policy=policy), x, w)[0] ** 2)

    return jax.value_and_grad(loss), (w, x)


def offloaded_names(mesh):
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["product"], names_which_can_be_offloaded=["input"],
        offload_src="device", offload_dst="pinned_host",
    )  # fmt: skip
    return layers(mesh, policy)


def offloaded_products(mesh):
    return layers(
        mesh, jax.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")
    )


def put_by_sharding(mesh):
    x = struct(mesh, (16 * mesh.shape["x"], 128), "x")
    on_host = x.sharding.with_memory_kind("pinned_host")

    def run(x):
        stored = jax.device_put(x * 2, on_host)
        back = jax.device_put(stored, on_device)
        return back + 1, stored

    on_device = x.sharding
    return run, (x,), dict(out_shardings=(None, on_host))


def results_on_host(mesh):
    x = struct(mesh, (16 * mesh.shape["x"], 128), "x")
    out = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    return lambda x: (jnp.sin(x), jnp.cos(x)), (x,), dict(out_shardings=(out, None))


def arguments_on_host(mesh):
    x = struct(mesh, (16 * mesh.shape["x"], 128), "x", kind="pinned_host")
    return lambda x: jax.device_put(x, jax.memory.Space.Device) * 2, (x,)


def chosen_layouts(mesh):
    auto = Format(Layout.AUTO)
    x, w = struct(mesh, (256, 512), "x"), struct(mesh, (1024, 512), "y")
    run = lambda x, w: (x @ w.T, w.T[:3])
    return run, (x, w), dict(in_shardings=auto, out_shardings=auto)


def given_layouts(mesh):
    x = struct(mesh, (256, 512), "x")
    columns = Format(Layout((1, 0)), x.sharding)
    x = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=columns)
    return lambda x: (x * 2, x.T), (x,), dict(in_shardings=columns, out_shardings=(columns, None))


MEMORY = dict(
    host_parameters=host_parameters,
    offloaded_names=offloaded_names,
    offloaded_products=offloaded_products,
    put_by_sharding=put_by_sharding,
    results_on_host=results_on_host,
    arguments_on_host=arguments_on_host,
    chosen_layouts=chosen_layouts,
    given_layouts=given_layouts,
)


def program(name, make):
    fun, args, *options = make(mesh_of(name))
    return facts(compiled(fun, *args, **(options[0] if options else {})))


def add_all(cases, name):
    """Adds all programs, for a topology, to a table."""
    for key, body in COLLECTIVES.items():
        if key != "pbroadcast" or name == "h100":  # the reference has none for TPUs
            cases.add(f"collective_{key}", functools.partial(collective, name, body))
    for key, (body, *rest) in SHARD_MAPS.items():
        cases.add(f"shard_map_{key}", functools.partial(shard_mapped, name, body, *rest))
    for key, make in TRAIN_STEPS.items():
        cases.add(f"train_{key}", functools.partial(program, name, make))
    for key, make in MEMORY.items():
        cases.add(f"memory_{key}", functools.partial(program, name, make))
    if name == "v5e:2x2":
        for key, fun in CALLBACKS.items():
            cases.add(f"callback_{key}", functools.partial(callback, name, fun))
        cases.add("callback_shards", functools.partial(callback_of_shards, name))
