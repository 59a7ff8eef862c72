"""Sharded programs as users write them, on eight CPU devices: see op_cases.py."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Format, Layout
from jax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec as P,
    SingleDeviceSharding,
    auto_axes,
    explicit_axes,
    reshard,
    use_abstract_mesh,
)

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass

CASES = Programs()
AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
VALUES = np.arange(128, dtype=np.float32).reshape(8, 16)
UNCONSTRAINED = P.UNCONSTRAINED
constrain = lax.with_sharding_constraint


def mesh_of(axis_type=EXPLICIT, sizes=(2, 4)):
    return jax.make_mesh(sizes, ("x", "y"), axis_types=(axis_type,) * 2)


def named(*spec, axis_type=EXPLICIT, **axes):
    return NamedSharding(mesh_of(axis_type), P(*spec, **axes))


auto = functools.partial(named, axis_type=AUTO)


def sharded(*spec, values=VALUES, axis_type=EXPLICIT):
    return jax.device_put(values, named(*spec, axis_type=axis_type))


def on(device, values=VALUES):
    return jax.device_put(values, jax.devices()[device])


def show(x):
    if isinstance(x, (tuple, list)):
        return " | ".join(map(show, x))
    if isinstance(x, dict):
        return show([f"{k}: {show(v)}" for k, v in x.items()])
    if isinstance(x, jax.Array):
        values = "unreduced"
        if not (isinstance(x.sharding, NamedSharding) and x.sharding.spec.unreduced):
            values = f"{np.asarray(x, np.float64).sum():.4g}"
        return f"{jax.typeof(x)} {x.sharding} {x.committed} {values}"
    return str(x)


def scenario(name, fun, context=None, sentences=0):
    """`fun` as a scenario; in the context of a mesh of this axis type, or of these.

    Of the message of an error the first `sentences` are compared.
    """

    def run():
        try:
            if context is None:
                return show(fun())
            types = context if isinstance(context, tuple) else (context,) * 2
            with jax.set_mesh(jax.make_mesh((2, 4), ("x", "y"), axis_types=types)):
                return show(fun())
        except Exception as err:
            words = ". ".join(str(err).split(". ")[:sentences])
            return f"raises {type(err).__name__}" + (f": {words}" if words else "")

    CASES.add(name, run)


# jit: arguments that say where


def double(a):
    return a * 2


def pair(a, b):
    return a + 1, {"k": b * 2}


two = lambda a: (a * 2, a.sum())
struct = jax.ShapeDtypeStruct((8,), np.float32)
for name, fun in {
    "in_list": lambda: jax.jit(pair, in_shardings=[auto("x"), None])(VALUES, VALUES),
    "in_unconstrained": lambda: jax.jit(double, in_shardings=auto(UNCONSTRAINED, "x"))(VALUES),
    "out_unconstrained": lambda: jax.jit(double, out_shardings=auto(UNCONSTRAINED, "x"))(VALUES),
    "in_uneven": lambda: jax.jit(double, in_shardings=auto("x"))(np.ones(3)),
    "out_uneven": lambda: jax.jit(double, out_shardings=auto("x"))(np.ones(3)),
    "meshes": lambda: sharded("x") + jax.device_put(VALUES, NamedSharding(mesh_of(sizes=(4, 2)), P())),
    "constraint_uneven": lambda: jax.jit(lambda a: constrain(a, auto("x")) * 2)(np.ones((3, 4))),
    "constraint_uneven_eager": lambda: constrain(np.ones((3, 4)), auto("x")),
    "constraint_uneven_text": lambda: jax.jit(lambda a: constrain(a, auto("x"))).lower(
        np.ones((3, 4))).as_text(),
    "constraint_elsewhere": lambda: constrain(on(3), auto("x")),
    "constraint_from_one": lambda: constrain(on(3), SingleDeviceSharding(jax.devices()[2])),
    "constraint_jaxpr": lambda: jax.make_jaxpr(
        lambda a: constrain(a, auto(UNCONSTRAINED, UNCONSTRAINED)))(VALUES),
    "words_of_results": lambda: jax.jit(lambda *xs: [x * 2 for x in xs])(
        sharded("x", None, axis_type=AUTO), sharded("y", None, axis_type=AUTO)),
    "eval_shape": lambda: jax.eval_shape(jax.jit(two, out_shardings=(auto("x"), None)), VALUES),
    "eval_shape_format": lambda: jax.eval_shape(
        jax.jit(two, out_shardings=(Format(Layout((1, 0)), auto("x")), None)), VALUES),
    "format_of_lowered": lambda: str(jax.jit(
        double, out_shardings=Format(Layout((1, 0)), auto("x"))).lower(VALUES).out_info.format),
    "eval_shape_explicit": lambda: jax.eval_shape(
        jax.jit(two, out_shardings=(named("x"), named())), VALUES),
    "out_info": lambda: jax.jit(two, out_shardings=auto()).lower(VALUES).out_info,
    "out_info_explicit": lambda: jax.jit(two).lower(sharded("x")).out_info,
    "out_info_compiled": lambda: jax.jit(two).lower(sharded("x")).compile().out_info,
    "put_unconstrained": lambda: jax.device_put(VALUES, named(UNCONSTRAINED)),
    "put_source": lambda: jax.device_put((VALUES, VALUES), named("y"), src=(named("y"),)),
    "from_sharded_parts": lambda: jax.make_array_from_single_device_arrays(
        (8, 16), named("x"), [sharded("x")] * 8),
    "type_dict": lambda: jax.sharding.Mesh(jax.devices(), ("x",), {EXPLICIT: "x"}),
    "mesh_of_numbers": lambda: jax.sharding.Mesh(jax.devices(), (0,)),
}.items():  # fmt: skip
    scenario(f"jit_{name}", fun)

# Functions in which mesh axes have another type

ascending = lambda a: jnp.sin(a) + jax.typeof(a).sharding.mesh.axis_types.count(AUTO)
inner = lambda a: explicit_axes(jnp.sin, in_sharding=P("x"))(a) * 2
for name, fun in {
    "type": lambda: auto_axes(ascending, out_sharding=P("x"))(sharded("x")),
    "call": lambda: auto_axes(ascending)(sharded("x"), out_sharding=P("y")),
    "some": lambda: auto_axes(jnp.cumsum, axes="x", out_sharding=P("x"))(sharded("x", values=VALUES[0])),
    "host": lambda: auto_axes(ascending, out_sharding=P("x"))(VALUES),
    "twice": lambda: auto_axes(auto_axes(jnp.sin, out_sharding=P("x")), out_sharding=P("x"))(sharded("x")),
    "explicit": lambda: auto_axes(inner, out_sharding=P("y"))(sharded("x")),
    "jaxpr": lambda: jax.make_jaxpr(auto_axes(ascending, out_sharding=P("x")))(sharded("x", "y")),
    "text": lambda: jax.jit(auto_axes(ascending, out_sharding=P("x"))).lower(sharded("x")).as_text(),
    "vmap": lambda: jax.vmap(auto_axes(ascending, out_sharding=P("y")))(sharded("x")),
    "jvp": lambda: jax.jvp(auto_axes(ascending, out_sharding=P("y")), (sharded("x"),), (sharded("x"),)),
    "grad": lambda: jax.grad(lambda a: auto_axes(jnp.cumsum, out_sharding=P("y"))(a).sum())(
        sharded("x", values=VALUES[0])),
    "closure": lambda: (lambda c: auto_axes(lambda a: a + c, out_sharding=P("x"))(VALUES))(sharded("x")),
    "keys": lambda: jax.typeof(jax.random.key_data(
        auto_axes(lambda k: jax.random.split(k, 8), out_sharding=P("x"))(jax.random.key(0)))),
    "random": lambda: [jax.random.normal(jax.random.key(0), (8, 16), out_sharding=P("x", "y"))],
}.items():  # fmt: skip
    scenario(f"auto_axes_{name}", fun, EXPLICIT)


def twice_with_key(make, fun, **kwargs):
    """Twice, for the second call goes another way."""
    f = auto_axes(fun, **kwargs)
    return [str(jax.typeof(f(make()))) for _ in range(2)]


split_keys = lambda: jax.random.split(jax.random.key(0), 8)
for name, fun in {
    "key": lambda: twice_with_key(lambda: jax.random.key(0), lambda k: jax.random.uniform(k, (8, 16)),
        out_sharding=P("x", None)),
    "raw_key": lambda: twice_with_key(lambda: jax.random.PRNGKey(0),
        lambda k: jax.random.uniform(k, (8, 16)) + 1, out_sharding=P("x", None)),
    "keys": lambda: twice_with_key(split_keys, lambda k: k, out_sharding=P("x")),
    "fold_in": lambda: twice_with_key(split_keys, lambda k: jax.random.fold_in(k[0], 8),
        out_sharding=P()),
    "key_vmap": lambda: twice_with_key(split_keys, jax.vmap(lambda k: jax.random.normal(k, (4,))),
        out_sharding=P(None, "x")),
    "key_reshard": lambda: [str(jax.typeof(reshard(split_keys(), P("x")))) for _ in range(2)],
    "key_some": lambda: twice_with_key(lambda: jax.random.key(0), lambda k: jax.random.uniform(k, (8, 16)),
        axes="y", out_sharding=P("x", None)),
}.items():  # fmt: skip
    for types in (EXPLICIT, (EXPLICIT, AUTO), AUTO):
        scenario(f"auto_axes_{name}_{types}", fun, types)
for axes in (None, "x", "y", ("x", "y")):
    for spec in (P(), P("x"), P("y"), P("q")):
        f = auto_axes(double, axes=axes, out_sharding=spec)
        for types in (EXPLICIT, AUTO, (EXPLICIT, AUTO), (AUTO, EXPLICIT)):
            scenario(f"auto_axes_{axes}_{spec}_{types}",
                functools.partial(lambda f: str(jax.make_jaxpr(f)(VALUES)), f), types)  # fmt: skip

# einsum of more than two arrays, and of one, with a sharding of the result

SQUARE = np.arange(64, dtype=np.float32).reshape(8, 8)


def three(subscripts, spec, **kwargs):
    operands = sharded("x"), sharded(None, "y", values=VALUES.T), sharded("y", values=SQUARE)

    def f(*operands):
        return jnp.einsum(subscripts, *operands, out_sharding=spec, **kwargs)

    grads = jax.grad(lambda *xs: f(*xs).sum(), (0, 1, 2))(*operands)
    types = [str(jax.typeof(x)) for x in (jax.jit(f)(*operands), *grads)]
    return [*types, f(*operands), f(*map(np.asarray, operands))]


for name, args, kwargs in [
    ("matrix", ("ij,jk,kl->il", P("x", None)), {}),
    ("matrix_both", ("ij,jk,kl->il", P(("x", "y"))), {}),
    ("swapped", ("ij,jk,kl->li", P("y", "x")), {}),
    ("replicated", ("ij,jk,kl->il", P()), {}),
    ("scalar", ("ij,jk,kl->", P()), {}),
    ("outer", ("ij,jk,kl->ijl", P("x", None, "y")), {}),
    ("greedy", ("ij,jk,kl->il", P("x", "y")), dict(optimize="greedy")),
    ("in_order", ("ij,jk,kl->il", P("x", "y")), dict(optimize=False)),
    ("unknown", ("ij,jk,kl->il", P("q")), {}),
]:
    for types in (EXPLICIT, AUTO, (EXPLICIT, AUTO)):
        if types is EXPLICIT:
            scenario(f"einsum_{name}", functools.partial(three, *args, **kwargs), types)
        else:
            numbers = (VALUES, VALUES.T, SQUARE)
            scenario(f"einsum_{name}_{types}", functools.partial(
                jnp.einsum, args[0], *numbers, out_sharding=args[1], **kwargs), types)  # fmt: skip
for name, fun in {
    "rows": lambda: jnp.einsum("ij->i", sharded("x", "y"), out_sharding=P("y")),
    "all": lambda: jnp.einsum("ij->", sharded("x", "y"), out_sharding=P()),
    "transpose": lambda: jnp.einsum("ij->ji", sharded("x", "y"), out_sharding=P("y", "x")),
    "rows_jaxpr": lambda: jax.make_jaxpr(
        lambda a: jnp.einsum("ij->j", a, out_sharding=P("x")))(sharded("x", "y")),
}.items():  # fmt: skip
    scenario(f"einsum_one_{name}", fun, EXPLICIT)
total = lambda a: f"{np.asarray(a).sum():.4f}"
explicitly = lambda f: explicit_axes(f, in_sharding=P("x"))
for name, fun in {
    "grad": lambda: total(jax.grad(lambda a: explicitly(lambda b: jnp.sin(b).sum())(a))(VALUES)),
    "vjp_outside": lambda: _vjp_outside(),
    "mixed_grad": lambda: total(
        jax.jit(jax.grad(lambda a: explicitly(jnp.sin)(a * 2).sum()))(VALUES)
    ),
    "reshard_scalar": lambda: reshard(1.0, P()),
    "reshard_host": lambda: reshard(VALUES, P()),
    "reshard_elsewhere": lambda: reshard(on(3), P()),
    "other_mesh": lambda: sharded("x") * 2,
}.items():
    scenario(f"explicit_axes_{name}", fun, AUTO)
scenario("other_mesh_explicit", lambda: jax.jit(double)(
    jax.device_put(VALUES, NamedSharding(mesh_of(sizes=(4, 2)), P("x")))), EXPLICIT)  # fmt: skip
scenario(
    "mixed_reshard", lambda: reshard(jax.device_put(VALUES, P("x")), P(None)), (EXPLICIT, AUTO)
)
scenario("mixed_auto", lambda: auto_axes(double, out_sharding=P("x"))(
    jax.device_put(VALUES, P("x"))), (EXPLICIT, AUTO))  # fmt: skip


def _vjp_outside():
    out, pull = jax.vjp(lambda a: explicitly(jnp.sin)(a), VALUES)
    with jax.set_mesh(mesh_of(EXPLICIT, (4, 2))):
        return total(pull(out)[0])


# Loops and branches over sharded values

for name, fun in {
    "leading": lambda: lax.scan(lambda c, y: (c + y.sum(), y), 0.0, sharded("x")),
    "leading_of_tree": lambda: lax.scan(
        lambda c, y: (c, y[0]), 0.0, (sharded(None, "y"), sharded("y"))),
    "leading_of_map": lambda: lax.map(double, sharded("x")),
    "carry_from_host": lambda: lax.scan(
        lambda c, y: (c + y, y), np.zeros(16, np.float32), sharded(None, "y")),
    "carry_differs": lambda: lax.scan(lambda c, y: (c + y, y), jnp.zeros(16), sharded(None, "y")),
    "while_from_host": lambda: lax.while_loop(
        lambda c: c.sum() < 1e4, lambda c: c + sharded("x"), np.ones((8, 16), np.float32)),
    "cond_with_host": lambda: lax.cond(True, lambda: VALUES, lambda: sharded("x")).sum(),
    "set_all": lambda: sharded("x", "y").at[:].set(1.0),
    "concatenate_host": lambda: jnp.concatenate([sharded("x"), VALUES]),
    "select_host": lambda: lax.select(VALUES > 3, sharded("x"), VALUES),
    "unwrap": lambda: jnp.unwrap(sharded("x")),
    "jacrev": lambda: jax.jacrev(jnp.sin)(sharded("x", values=VALUES[0, :8])),
    "cotangent_elsewhere": lambda: jax.vjp(jnp.sin, sharded("x"))[1](sharded("y")),
    "cotangent_replicated": lambda: jax.vjp(jnp.sin, sharded("x"))[1](jnp.ones((8, 16))),
    "cotangent_host": lambda: jax.vjp(jnp.sin, sharded("x"))[1](VALUES),
    "linearize_host": lambda: jax.linearize(jnp.sin, sharded("x"))[1](VALUES),
    "embedding_grad": lambda: jax.grad(lambda w: w.at[np.array([[0, 1], [2, 3]])].get(
        out_sharding=P("x", None, None)).sum())(sharded(None, "y")),
}.items():  # fmt: skip
    scenario(f"loop_{name}", fun, EXPLICIT)

# Sums that are not reduced yet: unreduced and reduced axes

weights = lambda *spec, **axes: jax.device_put(VALUES.T[:, :8] / 100, P(*spec, **axes))
partial_product = lambda **axes: jnp.dot(
    sharded("x", "y"), weights("y"), out_sharding=P("x", **axes)
)


def squares(w):
    return ((sharded("x") @ w) ** 2).sum()


def accumulate():
    """Sums the gradients of three batches; the devices add theirs up once, at the end."""

    @jax.jit
    def summed(batches):
        w = reshard(weights(), P(None, None, reduced={"x"}))
        grads = [jax.grad(lambda w, b=b: ((b @ w) ** 2).sum())(w) for b in batches]
        return grads[0] + grads[1] + grads[2]

    grads = summed([sharded("x", values=VALUES / 10 + i) for i in range(3)])
    return grads, reshard(grads, P()), reshard(grads, P("x"))


for name, fun in {
    "dot": lambda: reshard(partial_product(unreduced={"y"}), P("x")),
    "dot_wrong": lambda: partial_product(unreduced=set()) + jnp.dot(
        sharded("x"), weights(), out_sharding=P("x", unreduced={"y"})),
    "dot_jaxpr": lambda: jax.make_jaxpr(lambda: partial_product(unreduced={"y"}))(),
    "put": lambda: reshard(jax.device_put(VALUES, P("x", unreduced={"y"})), P("x")),
    "put_again": lambda: (lambda u: jax.device_put(u, u.sharding) is u)(
        jax.device_put(VALUES, P("x", unreduced={"y"}))),
    "grad": lambda: reshard(jax.grad(squares)(weights(reduced={"x"})), P()),
    "grad_jit": lambda: jax.jit(jax.grad(squares))(weights(reduced={"x"})),
    "grad_through": lambda: jax.grad(lambda w: squares(reshard(w, P(None, None, reduced={"x"}))))(
        weights()),
    "accumulate": accumulate,
    "types": lambda: [jax.typeof(weights(reduced={"x", "y"})), jax.typeof(
        weights(reduced={"x"})).to_ct_aval()],
    "mean": lambda: weights(reduced={"x"}).mean() * 2.0,
    "relu": lambda: jax.nn.relu(weights(reduced={"x"})),
    "pad": lambda: jnp.pad(weights(reduced={"x"}), 1),
    "slice": lambda: lax.dynamic_slice(weights(reduced={"x"}), (0, 1), (2, 2)),
    "update": lambda: lax.dynamic_update_slice(weights(reduced={"x"}), weights(reduced={"x"}), (0, 0)),
}.items():  # fmt: skip
    scenario(f"unreduced_{name}", fun, EXPLICIT)

# The types of contractions of operands that are sharded over some axes and reduced over others

ABSTRACT = AbstractMesh((2, 4), ("x", "y"), (EXPLICIT,) * 2)
OPERANDS = {
    "X": P("x"), "XY": P("x", "y"), "O": P(), "OY": P(None, "y"), "rx": P(reduced={"x"}),
    "Xry": P("x", reduced={"y"}), "ux": P(unreduced={"x"}),
}  # fmt: skip
CONTRACTIONS = {
    "dot": ((((1,), (1,)), ((), ())), None),
    "dot_out": ((((1,), (1,)), ((), ())), P("x", None)),
    "dot_partial": ((((1,), (1,)), ((), ())), P("x", None, unreduced={"y"})),
    "dot_batch": ((((1,), (1,)), ((0,), (0,))), None),
}


def contraction_types(dims, out):
    def types(x, y):
        f = lambda x, y: lax.dot_general(x, y, dims, out_sharding=out)
        lines = []
        for g in (f, lambda x, y: jax.grad(lambda x, y: f(x, y).sum(), (0, 1))(x, y)):
            try:
                with use_abstract_mesh(ABSTRACT):
                    avals = jax.make_jaxpr(g)(x, y).out_avals
                lines.append(", ".join([str(a) for a in avals]))
            except Exception as err:
                lines.append(type(err).__name__)
        return ": ".join(lines)

    structs = {
        k: jax.ShapeDtypeStruct((8, 16), np.float32, sharding=NamedSharding(ABSTRACT, spec))
        for k, spec in OPERANDS.items()
    }
    return "\n".join(f"{a} {b} {types(structs[a], structs[b])}" for a in structs for b in structs)


for name, (dims, out) in CONTRACTIONS.items():
    scenario(f"types_{name}", lambda dims=dims, out=out: contraction_types(dims, out))

# Training, with tensor and data parallelism, and donated state sharded like the parameters

RNG = np.random.default_rng(0)
INPUTS, TARGETS = (RNG.normal(size=(16, n)).astype(np.float32) for n in (8, 4))
PARAMS = {
    "w1": (RNG.normal(size=(8, 32)) / 3).astype(np.float32), "b1": np.zeros(32, np.float32),
    "w2": (RNG.normal(size=(32, 4)) / 6).astype(np.float32), "b2": np.zeros(4, np.float32),
}  # fmt: skip
SPECS = {"w1": P(None, "y"), "b1": P("y"), "w2": P("y", None), "b2": P()}


def forward(p, x):
    h = jax.nn.relu(x @ p["w1"] + p["b1"])
    out = jax.typeof(h).sharding.mesh._any_axis_explicit and P("x", None)
    return jnp.dot(h, p["w2"], out_sharding=out or None) + p["b2"]


def loss(p, x, y):
    return jnp.mean((forward(p, x) - y) ** 2)


def adam(p, m, v, g):
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
    return jax.tree.map(lambda p, m, v: p - 0.1 * m / (jnp.sqrt(v) + 1e-6), p, m, v), m, v


def train(specs=SPECS, **options):
    p = jax.tree.map(jax.device_put, PARAMS, specs)
    m, v = (jax.tree.map(jnp.zeros_like, p) for _ in range(2))

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2), **options)
    def step(p, m, v, x, y):
        value, g = jax.value_and_grad(loss)(p, x, y)
        return adam(p, m, v, g), value

    x, y = jax.device_put(INPUTS, P("x")), jax.device_put(TARGETS, P("x"))
    values = []
    for _ in range(3):
        first = p["w1"]
        (p, m, v), value = step(p, m, v, x, y)
        values.append(f"{float(value):.4f}")
    return values, first.is_deleted(), [str(jax.typeof(a)) for a in jax.tree.leaves((p, m, v))], p


for axis_type in (AUTO, EXPLICIT):
    scenario(f"train_{axis_type}", train, axis_type)
    scenario(f"train_out_{axis_type}", lambda: train(
        out_shardings=((SPECS,) * 3, P())), axis_type)  # fmt: skip


def layers(remat):
    """Layers in a scan, whose weights are split over all devices and gathered one at a time."""

    def layer(h, w):
        return jnp.tanh(h @ reshard(w, P())) + h, None

    def f(w, x):
        return (lax.scan(jax.checkpoint(layer) if remat else layer, x, w)[0] ** 2).sum()

    w = jax.device_put(np.stack([np.eye(8, dtype=np.float32)] * 3) / 3, P(None, "x", "y"))
    return jax.jit(jax.value_and_grad(f))(w, jax.device_put(INPUTS, P("x")))


def restore():
    """Arrays read in parts, as the types of an initializer's results say."""
    init = jax.jit(
        lambda key: {k: jax.random.normal(key, a.shape) for k, a in PARAMS.items()},
        out_shardings=SPECS,
    )
    types = jax.eval_shape(init, jax.random.key(0))
    read = jax.tree.map(
        lambda t, a: jax.make_array_from_callback(t.shape, t.sharding, lambda i: a[i]),
        types,
        PARAMS,
    )
    return str(types), read, [[(s.device.id, s.index, s.replica_id, s.data.shape)
                               for s in a.addressable_shards] for a in read.values()]  # fmt: skip


scenario("layers", lambda: layers(False), EXPLICIT)
scenario("layers_remat", lambda: layers(True), EXPLICIT)
for axis_type in (AUTO, EXPLICIT):
    scenario(f"restore_{axis_type}", restore, axis_type)


def solve(a_spec, b_spec, b_shape=(4, 8), **kwargs):
    a = np.triu(np.arange(16, dtype=np.float32).reshape(4, 4) / 8 + 1) + 2 * np.eye(
        4, dtype=np.float32
    )
    b = np.linspace(1, 2, 32, dtype=np.float32).reshape(b_shape)

    def f(a, b):
        x = lax.linalg.triangular_solve(a, b, **kwargs)
        return (x**2).sum(), x

    grads, x = jax.grad(f, (0, 1), has_aux=True)(
        jax.device_put(a, P(*a_spec)), jax.device_put(b, P(*b_spec))
    )
    return [(str(jax.typeof(y)), y) for y in (x, *grads)]


left, right = dict(left_side=True), dict(left_side=False, b_shape=(8, 4))
for name, args, kwargs in [
    ("columns", ((), (None, "x")), left),
    ("columns_transposed", ((), (None, "x")), left | dict(transpose_a=True)),
    ("contracted", ((), ("x",)), left),
    ("right_rows", ((), ("x",)), right),
    ("right_contracted", ((), (None, "x")), right),
    ("matrix_contracted", ((None, "x"), ()), left),
]:
    scenario(f"solve_{name}", functools.partial(solve, *args, **kwargs), EXPLICIT)

# Data of this process, by a spec over the mesh in context

local = jax.make_array_from_process_local_data
for name, spec in {
    "rows": P("x"),
    "both": P("x", "y"),
    "replicated": P(),
    "together": P(("x", "y")),
    "reduced": P(reduced={"x"}),
    "unknown": P("q"),
}.items():
    for types in (EXPLICIT, AUTO, (EXPLICIT, AUTO), None):
        scenario(f"local_{name}_{types}", functools.partial(local, spec, VALUES), types)
scenario("local_tree", lambda: local({"a": P("x"), "b": P(None, "y")},
    {"a": VALUES, "b": VALUES}, (8, 16)), EXPLICIT)  # fmt: skip

# Values that devices have to add

summands = lambda spec: jax.device_put(sharded("x", None), spec)
for name, fun in {
    "repr": lambda: repr(summands(P(None, None, unreduced={"x"}))),
    "str": lambda: str(summands(P(None, None, unreduced={"x"}))),
    "add": lambda: reshard(summands(P(unreduced={"x"})) + summands(P(unreduced={"x"})), P("x")),
}.items():
    scenario(f"unreduced_{name}", fun, EXPLICIT)

# Sums are taken and split where they are; each device's summand is compared.

LINE = np.arange(8, dtype=np.float32)
shards = lambda x: (str(jax.typeof(x)), x.sharding, [s.data for s in x.addressable_shards])
summed = lambda spec: jax.jit(lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=spec))(
    sharded(None, "x"), sharded("x", None, values=VALUES.T))  # fmt: skip
for source in ((), ("x",), ("y",), (("x", "y"),)):
    for target, parts in {"x": {"x"}, "y": {"y"}}.items():
        for rest in ((), ("y",) if target == "x" else ("x",)):
            spec = P(*rest, unreduced=parts)
            scenario(f"summands_of_{source}_{spec}", lambda source=source, spec=spec: shards(
                jax.device_put(sharded(*source, values=LINE), spec)), EXPLICIT)  # fmt: skip
half = P(None, None, unreduced={"x"})
for name, fun in {
    "put_other_axis": lambda: shards(jax.device_put(summed(half), P(None, None, unreduced={"y"}))),
    "put_sharded": lambda: shards(jax.device_put(summed(half), P("y", unreduced={"x"}))),
    "put_reduced": lambda: jax.device_put(summed(half), P()),
    "read": lambda: np.asarray(summed(half)),
    "where": lambda: shards(jnp.where(True, summed(half), summed(half))),
    "sin": lambda: jnp.sin(summed(half)),
    "scan": lambda: shards(lax.scan(lambda c, _: (c + c, c), summed(half), length=3)),
    "while": lambda: shards(lax.fori_loop(0, 3, lambda i, c: c + c, summed(half))),
    "cond": lambda: shards(lax.cond(VALUES[0, 0] < 1, lambda a: a + a, lambda a: a, summed(half))),
    "switch_added": lambda: shards(jax.jit(lambda i, a: (lambda v: v + v)(
        lax.switch(i, [lambda a: a + a, lambda a: a, lambda a: a + a + a], a)))(2, summed(half))),
    "divided": lambda: summed(half) / 2,
    "power": lambda: summed(half) ** 3,
    "grad_number": lambda: shards(
        jax.grad(lambda a: (2 * a * 3).sum())(jax.device_put(LINE, P(reduced={"x"})))),
    "grad_scan": lambda: shards(jax.grad(
        lambda a: lax.scan(lambda c, _: (c * 2.0, None), a, length=3)[0].sum())(
            jax.device_put(LINE, P(reduced={"x"})))),
}.items():  # fmt: skip
    scenario(f"unreduced_{name}", fun, EXPLICIT)

# Dimensions that mesh axes do not divide, and axes that types cannot tell

ODD, SIX = P(None, "y"), np.ones((6, 8), np.float32)
A, B = np.ones((3, 8), np.float32), np.ones((8, 6), np.float32)
for name, fun in {
    "zeros": lambda: jnp.zeros((3, 6), out_sharding=ODD),
    "full": lambda: jnp.full((3, 6), 1.0, out_sharding=ODD),
    "arange": lambda: jnp.arange(6, out_sharding=P("y")),
    "eye": lambda: jnp.eye(6, out_sharding=ODD),
    "array": lambda: jnp.array(np.zeros((3, 6)), out_sharding=ODD),
    "array_replicated": lambda: jnp.array(np.zeros((3, 6)), out_sharding=P()),
    "zeros_like": lambda: jnp.zeros_like(SIX, out_sharding=P("y")),
    "iota": lambda: lax.broadcasted_iota(np.int32, (3, 6), 1, out_sharding=ODD),
    "broadcast": lambda: lax.broadcast(1.0, (3, 6), out_sharding=ODD),
    "reshape": lambda: jnp.reshape(SIX, (8, 6), out_sharding=ODD),
    "dot": lambda: lax.dot(A, B, out_sharding=ODD),
    "einsum": lambda: jnp.einsum("ij,jk->ik", A, B, out_sharding=ODD),
    "reshard": lambda: reshard(SIX, P("y")),
    "reshard_two": lambda: reshard(SIX, P(("x", "y"))),
    "reshard_traced": lambda: jax.jit(lambda a: reshard(a, P("y")))(SIX),
    "put": lambda: jax.device_put(jnp.asarray(SIX), P("y")),
    "put_numpy": lambda: jax.device_put(SIX, P("y")),
    "normal": lambda: jax.random.normal(jax.random.key(0), (3, 6), out_sharding=ODD),
    "struct": lambda: jax.eval_shape(double, jax.ShapeDtypeStruct(
        (3, 6), np.float32, sharding=named(None, "y"))),
    "get": lambda: jnp.zeros((6, 8)).at[np.arange(3)].get(out_sharding=P("y")),
    "auto_axes": lambda: auto_axes(lambda a: a[:3], out_sharding=P("y"))(SIX),
    "explicit_axes": lambda: explicit_axes(double, in_sharding=P("y"))(SIX),
    "in_shardings": lambda: jax.jit(double, in_shardings=P("y"))(jnp.asarray(SIX)),
    "out_shardings": lambda: jax.jit(double, out_shardings=P("y"))(jnp.asarray(SIX)),
    "shard_shape": lambda: named("y").shard_shape((6, 8)),
    "nested_in": lambda: jax.jit(lambda a: jax.jit(double, in_shardings=P("y"))(a))(SIX),
    "nested_out": lambda: jax.jit(lambda a: jax.jit(double, out_shardings=P("y"))(a))(SIX),
    "nested_tree": lambda: jax.jit(
        lambda a: jax.jit(two, in_shardings=None, out_shardings=(P("y"), None))(a))(SIX),
    "nested_in_scan": lambda: lax.scan(
        lambda c, _: (jax.jit(double, in_shardings=P("y"))(c), None), SIX, length=2)[0],
    "in_of_eval_shape": lambda: jax.eval_shape(jax.jit(double, in_shardings=P("y")), SIX),
    "out_of_eval_shape": lambda: jax.eval_shape(jax.jit(double, out_shardings=P("y")), SIX),
    "out_of_jaxpr": lambda: jax.make_jaxpr(jax.jit(double, out_shardings=P("y")))(SIX),
    "in_of_trace": lambda: jax.jit(double, in_shardings=P("y")).trace(SIX).jaxpr,
}.items():  # fmt: skip
    for types in (EXPLICIT, AUTO, (EXPLICIT, AUTO)):
        worded = types is EXPLICIT and "out" not in name
        scenario(f"uneven_{name}_{types}", fun, types, sentences=int(worded))

for name, fun in {
    "sharding": lambda: named(UNCONSTRAINED, "x"),
    "constraint": lambda: jax.jit(lambda a: constrain(a, P(UNCONSTRAINED)))(VALUES),
    "constraint_eager": lambda: constrain(VALUES, P(UNCONSTRAINED, "y")),
    "zeros": lambda: jnp.zeros((4, 8), out_sharding=P(UNCONSTRAINED)),
    "auto_axes": lambda: auto_axes(double, out_sharding=P(UNCONSTRAINED))(VALUES),
    "vmap": lambda: jax.vmap(lambda a: constrain(a, P(None)))(VALUES),
}.items():
    scenario(f"unconstrained_{name}", fun, EXPLICIT, sentences=2)

for name, fun in {
    "leaf": lambda: jax.jit(lambda a: constrain({"a": a, "b": a}, {"a": P("x"), "b": None}))(
        VALUES
    ),
    "jaxpr": lambda: jax.make_jaxpr(lambda a: constrain(a, None))(VALUES),
    "of_sharded": lambda: jax.jit(lambda a: constrain(a, None))(jax.device_put(VALUES, P("x"))),
}.items():
    for types in (EXPLICIT, AUTO, None):
        scenario(f"constraint_none_{name}_{types}", fun, types)

struct = functools.partial(jax.ShapeDtypeStruct, dtype=np.float32)
for name, fun in {
    "rank": lambda: struct((8,), sharding=named("x", "y")),
    "rank_abstract": lambda: struct(
        (), sharding=NamedSharding(mesh_of().abstract_mesh, P("x"))),
    "rank_spec": lambda: struct((8,), sharding=P("x", "y")),
    "rank_update": lambda: struct((8, 8), sharding=named("x", "y")).update(shape=(8,)),
    "unknown_axis": lambda: struct((8,), sharding=P("z")),
    "size": lambda: str(struct((7,), sharding=named("x"))),
    "device": lambda: struct((8,), sharding=jax.devices()[0]),
    "number": lambda: struct((8,), sharding=3),
    "layout": lambda: struct((8,), sharding=Layout((0,))),
    "automatic": lambda: struct((8,), sharding=Format(Layout.AUTO, named("x"))),
    "format": lambda: str(struct((8,), sharding=Format(None, named("x"))).sharding),
}.items():  # fmt: skip
    scenario(f"struct_{name}", fun, EXPLICIT)

sub = lambda: NamedSharding(
    jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y")), P("x")
)
for name, fun in {
    "argument": lambda: jax.jit(double)(on(0)),
    "second": lambda: jax.jit(pair)(sharded("x", axis_type=AUTO), on(0)),
    "result": lambda: jax.jit(double, out_shardings=SingleDeviceSharding(jax.devices()[1]))(
        sharded("x", axis_type=AUTO)),
    "submesh": lambda: jax.jit(pair)(sharded("x", axis_type=AUTO), jax.device_put(VALUES, sub())),
}.items():  # fmt: skip
    for types in (AUTO, None):
        scenario(f"devices_{name}_{types}", fun, types, sentences=2)
