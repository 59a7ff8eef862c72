"""Memory kinds: placement, types, programs that move values, offloading of activations: see op_cases.py."""

import functools
import itertools
import re

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P, SingleDeviceSharding

CASES = Programs()
Space = jax.memory.Space
X = np.arange(8, dtype=np.float32)


@functools.cache
def mesh(explicit=False):
    kind = AxisType.Explicit if explicit else AxisType.Auto
    return jax.make_mesh((1, 1), ("x", "y"), axis_types=(kind,) * 2)


def targets():
    """Shardings of all kinds of memory."""
    named = NamedSharding(mesh(), P("x"))
    kinds = ("device", "pinned_host", "unpinned_host")
    return {
        "named": named,
        **{kind: named.with_memory_kind(kind) for kind in kinds},
        "explicit": NamedSharding(mesh(True), P("x")),
        "explicit_host": NamedSharding(mesh(True), P("x"), memory_kind="pinned_host"),
        "single_host": SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host"),
    }


TARGETS = (
    "named",
    "device",
    "pinned_host",
    "unpinned_host",
    "explicit",
    "explicit_host",
    "single_host",
)
SPACES = dict(host=Space.Host, device=Space.Device)


def describe(*xs):
    return [
        f"{jax.typeof(x)} {type(x.sharding).__name__} {x.sharding.memory_kind} {x.committed} {x}"
        for x in xs
    ]


def attempt(fun, *args):
    try:
        out = fun(*args)
        return out if isinstance(out, str) else describe(*jax.tree.leaves(out))
    except Exception as err:
        return type(err).__name__


def add(name, fun, but=()):
    """A case for each target."""

    def scenario():
        where = targets()
        return [attempt(fun, where[name]) for name in TARGETS if name not in but]

    CASES.add(name, scenario)


def moves(fun, *args, platform="tpu", **options):
    """The memory kinds of arguments and results, and the moves between them, of a lowered program."""
    text = jax.jit(fun, **options).trace(*args).lower(lowering_platforms=(platform,)).as_text()
    main = re.search(r"func public @main\((.*)\) -> \(?(.*?)\)? \{\n", text)
    kinds = [re.findall(r'memory_kind = "(\w+)"', part) for part in main.groups()]
    placed = re.findall(r'_xla_buffer_placement = "(\w+)"}.*? : \((.*?)\)', text)
    donated = re.findall(r"tf.aliasing_output|jax.buffer_donor", text)
    return f"{kinds} {sorted(set(placed))} {donated}"


add(
    "repr",
    lambda s: (
        f"{s.memory_kind} {s == s.with_memory_kind('device')} {s.with_memory_kind('pinned_host').memory_kind}"
    ),
)
add("put", lambda s: jax.device_put(X, s))
add("put_again", lambda s: jax.device_put(jax.device_put(X, s), targets()["pinned_host"]))
add("put_host", lambda s: jax.device_put(jax.device_put(X, s), Space.Host))
add("put_device", lambda s: jax.device_put(jax.device_put(X, s), Space.Device))
add("put_copies", lambda s: jax.device_put(jnp.asarray(X), s, may_alias=False))
add("eager_operation", lambda s: jax.device_put(X, s) + 1)
OTHERS = ("explicit", "explicit_host", "single_host")  # not mixed with arrays on that mesh
add("mixed", lambda s: jax.device_put(X, s) + jax.device_put(X, targets()["pinned_host"]), OTHERS)
add("argument", lambda s: jax.jit(lambda a: a * 2)(jax.device_put(X, s)))
add("in_shardings", lambda s: jax.jit(lambda a: a * 2, in_shardings=s)(X))
add("in_shardings_of_array", lambda s: jax.jit(lambda a: a, in_shardings=s)(jnp.asarray(X)))
add("in_shardings_of_host_array", lambda s: jax.jit(lambda a: a, in_shardings=s)(
    jax.device_put(X, targets()["pinned_host"])))  # fmt: skip
add("in_shardings_and_lower", lambda s: str(jax.jit(lambda a: a, in_shardings=s).lower(
    jnp.asarray(X)).compile().input_shardings[0][0].memory_kind))  # fmt: skip
# The reference's arrays there do not have the type that device_put gives them.
UNTYPED = ("single_host",)
add("out_shardings", lambda s: jax.jit(lambda a: a * 2, out_shardings=s)(X), UNTYPED)
add("in_and_out", lambda s: jax.jit(lambda a: a, in_shardings=s, out_shardings=s)(X), UNTYPED)
add("put_in_jit", lambda s: jax.jit(lambda a: jax.device_put(a * 2, s))(X))
add("there_and_back", lambda s: jax.jit(
    lambda a: jax.device_put(jax.device_put(a * 2, s), Space.Device) * 3)(X))  # fmt: skip
add("constraint", lambda s: jax.jit(lambda a: lax.with_sharding_constraint(a, s))(X))
add("type", lambda s: str(jax.typeof(jax.device_put(X, s))))
add("struct", lambda s: str(jax.typeof(jax.ShapeDtypeStruct((8,), np.float32, sharding=s))))
add("compiled", lambda s: jax.jit(lambda a: a * 2).lower(
    jax.ShapeDtypeStruct((8,), np.float32, sharding=s)).compile()(jax.device_put(X, s)))  # fmt: skip
add("jaxpr", lambda s: str(jax.make_jaxpr(lambda a: jax.device_put(a, s))(X).out_avals))
add("gradient", lambda s: jax.grad(
    lambda a: (jax.device_put(jax.device_put(a * a, s), Space.Device) * 2).sum())(X))  # fmt: skip
for platform in ("tpu", "cuda", "cpu"):
    lowered = functools.partial(moves, platform=platform)
    # The reference moves values there to the memory that they are in.
    but = ("explicit_host",) if platform == "cpu" else ()
    add(f"moves_{platform}", lambda s, lowered=lowered: lowered(
        lambda a: jax.device_put(jax.device_put(a * 2, s), Space.Device) * 3, X), but)  # fmt: skip
    add(f"moves_of_arguments_{platform}", lambda s, lowered=lowered: lowered(
        lambda a: a * 2, X, in_shardings=s))  # fmt: skip
    add(f"moves_of_results_{platform}", lambda s, lowered=lowered: lowered(
        lambda a: (a * 2, a), X, out_shardings=(s, None)))  # fmt: skip
    add(f"moves_of_both_{platform}", lambda s, lowered=lowered: lowered(
        lambda a: jax.device_put(a, Space.Device) * 2, X, in_shardings=s, out_shardings=s,
        donate_argnums=0))  # fmt: skip
    add(f"moves_of_structs_{platform}", lambda s, lowered=lowered: lowered(
        lambda a: jax.device_put(a, Space.Device) * 2,
        jax.ShapeDtypeStruct((8,), np.float32, sharding=s)), but)  # fmt: skip


def spaces(name, fun):
    for key, space in SPACES.items():
        CASES.add(f"{name}_{key}", lambda space=space: attempt(fun, space))


spaces("space_put", lambda m: jax.device_put(X, m))
spaces("space_in_jit", lambda m: jax.jit(lambda a: jax.device_put(a * 2, m))(X))
spaces("space_tree", lambda m: jax.jit(lambda a: jax.device_put({"a": a, "b": [a * 2]}, m))(X))
spaces("space_jaxpr", lambda m: str(jax.make_jaxpr(lambda a: jax.device_put(a * 2, m))(X)))
spaces("space_vmap", lambda m: jax.vmap(lambda a: jax.device_put(a, m))(X))
spaces("space_grad", lambda m: jax.grad(
    lambda a: jax.device_put(jax.device_put(a * a, m), Space.Device).sum())(X))  # fmt: skip
spaces("space_jvp", lambda m: jax.jvp(lambda a: jax.device_put(a * a, m), (X,), (X,)))
for p in ("tpu", "cuda"):
    spaces(f"space_moves_{p}", lambda m, p=p: moves(
        lambda a: (jax.device_put(a * 2, m), a + 1), X, platform=p))  # fmt: skip

# Functions whose derivatives keep to the memory of the argument, wherever the tangent is.
DIFFERENTIATED = dict(
    identity=lambda a: a,
    negative=lambda a: -a,
    double=lambda a: a * 2,
    increment=lambda a: a + 1,
    square=lambda a: a * a,
    sum=lambda a: a.sum(),
    composed=lambda a: jnp.sin(-a) * 2,
    jitted=lambda a: jax.jit(lax.sin)(a),
)


def derivatives(fun):
    """Memories of results and tangents, and of the Jacobian, for values in all memories."""
    lines = []
    for a, b in itertools.product(SPACES, SPACES):
        x, t = jax.device_put(X, SPACES[a]), jax.device_put(X, SPACES[b])
        lines.append(f"{a} {b}: {attempt(lambda x=x, t=t: jax.jvp(fun, (x,), (t,)))}")
    return lines


for name, fun in DIFFERENTIATED.items():
    CASES.add(f"derivatives_{name}", functools.partial(derivatives, fun))
for name in ("identity", "negative", "square"):
    spaces(f"jacobian_{name}", lambda m, fun=DIFFERENTIATED[name]: str(
        jax.typeof(jax.jacfwd(fun)(jax.device_put(X[:2], m)))))  # fmt: skip

OPERATIONS = dict(
    add=lambda a, b: a + b,
    sin=lambda a, b: jnp.sin(a),
    dot=jnp.dot,
    where=lambda a, b: jnp.where(a > 0, a, b),
    concatenate=lambda a, b: jnp.concatenate([a, b]),
    sum=lambda a, b: a.sum(),
    reshape=lambda a, b: a.reshape(2, 4).T,
    slice=lambda a, b: a[2:4],
    gather=lambda a, b: a[jnp.array([1, 2])],
    indices=lambda a, b: a[b.astype(int)],
    update=lambda a, b: lax.dynamic_update_slice(a, b[:2], (0,)),
    broadcast=lambda a, b: jnp.broadcast_to(a, (3, 8)),
    convert=lambda a, b: a.astype(np.int32),
    scan=lambda a, b: lax.scan(lambda c, y: (c + y, y), jnp.float32(0), a),
    scan_carry=lambda a, b: lax.scan(lambda c, y: (c + y, y), a, b),
    cond=lambda a, b: lax.cond(True, lambda a: a, lambda a: a, a),
    while_loop=lambda a, b: lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, a),
    jit=lambda a, b: jax.jit(lambda a: a * 2)(a),
    sort=lambda a, b: jnp.sort(a),
    cumsum=lambda a, b: jnp.cumsum(a),
    iota=lambda a, b: a + jnp.arange(8),
    constant=lambda a, b: a + np.ones(8, np.float32),
    pad=lambda a, b: jnp.pad(a, 1),
    clamp=lambda a, b: lax.clamp(0.0, a, 1.0),
    stack=lambda a, b: jnp.stack([a, a]),
    compare=lambda a, b: a == b,
    argmax=lambda a, b: a.argmax(),
    scatter=lambda a, b: b.at[0].set(a[0]),
    checkpoint=lambda a, b: jax.checkpoint(jnp.sin)(a),
    random=lambda a, b: a + jax.random.normal(jax.random.key(0), (8,)),
    zeros_like=lambda a, b: jnp.zeros_like(a),
    full_like=lambda a, b: lax.full_like(a, 1.0),
    moved=lambda a, b: jax.device_put(a, Space.Device) + b,
    barrier=lambda a, b: lax.optimization_barrier((a, b)),
    callback=lambda a, b: jax.pure_callback(np.sin, a, a),
    vmap=lambda a, b: jax.vmap(lambda a: a + 1)(a),
    matmul=lambda a, b: a.reshape(2, 4) @ b.reshape(4, 2),
)


def types(fun):
    """The types of results, for operands in the host's memory, the device's, or both."""
    lines = []
    for a, b in itertools.product(SPACES, SPACES):
        put = lambda x, y, a=a, b=b: fun(jax.device_put(x, SPACES[a]), jax.device_put(y, SPACES[b]))
        lines.append(
            f"{a} {b}: {attempt(lambda put=put: str(jax.make_jaxpr(put)(X, X).out_avals))}"
        )
    return lines


for name, fun in OPERATIONS.items():
    CASES.add(f"types_{name}", functools.partial(types, fun))

POLICIES = dict(
    names=lambda: jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["s"], names_which_can_be_offloaded=["o"],
        offload_src="device", offload_dst="pinned_host"),
    products=lambda: jax.checkpoint_policies.offload_dot_with_no_batch_dims(
        "device", "pinned_host"),
)  # fmt: skip
W = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
INPUT = np.linspace(0, 1, 16, dtype=np.float32).reshape(2, 8)


def net(w, x):
    y = checkpoint_name(jnp.sin(x @ w), "o")
    z = checkpoint_name(jnp.cos(y @ w), "s")
    return jnp.sum(jnp.tanh(z @ w))


def layers(policy, w, x):
    def body(h, _):
        return jax.checkpoint(lambda h: checkpoint_name(jnp.sin(h @ w), "o"), policy=policy)(
            h
        ), None

    return lax.scan(body, x, None, length=3)[0].sum()


def offloaded(make):
    policy = make()
    one, many = jax.checkpoint(net, policy=policy), functools.partial(layers, policy)
    grads = [jax.grad(one, (0, 1)), jax.jit(jax.grad(one, (0, 1))), jax.grad(many, (0, 1)),
             jax.jit(jax.grad(many, (0, 1)))]  # fmt: skip
    text = []
    for f, platform in itertools.product((one, many), ("tpu", "cuda")):
        text.append(moves(jax.grad(f), W, INPUT, platform=platform))
    return [g(W, INPUT) for g in grads], text


for name, make in POLICIES.items():
    CASES.add(f"offloaded_{name}", functools.partial(offloaded, make))
