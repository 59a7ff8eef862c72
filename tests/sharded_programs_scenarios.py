"""Programs on eight CPU devices, on meshes of one device, and in host memory: see op_cases.py.

Each gives the types, shardings and values of its results, or the class of the error.
"""

import warnings

import numpy as np
from op_cases import Programs
from sharded_values import placed, scenarios

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P, SingleDeviceSharding, reshard

CASES = Programs()
AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
VALUES = np.arange(128, dtype=np.float32).reshape(8, 16) % 7 + 1


def mesh_of(sizes, axis_type=EXPLICIT, **kwargs):
    names = ("x", "y")[: len(sizes)]
    return jax.make_mesh(sizes, names, axis_types=(axis_type,) * len(sizes), **kwargs)


scenario = scenarios(CASES, mesh_of)


def sharded(*spec, values=VALUES, dtype=None):
    mesh = mesh_of((2, 4))
    values = jnp.asarray(values) if dtype is None else jnp.asarray(values).astype(dtype)
    return jax.device_put(values, NamedSharding(mesh, P(*spec)))


# Meshes of one device: their shardings are kept

VECTOR = VALUES[0, :8]


def on_one(axis_type, sizes=(1,)):
    return jax.device_put(VECTOR, NamedSharding(mesh_of(sizes, axis_type), P("x")))


for axis_type in (AUTO, EXPLICIT):
    for sizes in ((1,), (1, 1)):
        for what, f in {
            "add": lambda a: a + 1,
            "jit": lambda a: jax.jit(lambda a: (a * 2, a[0], jnp.sum(a)))(a),
            "host": lambda a: jax.jit(lambda a, b: a + b)(a, np.ones(8, np.float32)),
            "sort": jnp.sort,
            "reshape": lambda a: a.reshape(2, 4),
            "copy": lambda a: a.copy(),
            "compiled": lambda a: jax.jit(lambda a: a * 2).lower(a).compile()(a),
            "text": lambda a: jax.jit(lambda a: a * 2).lower(a).as_text(),
            "out": lambda a: jax.jit(
                lambda a: a * 2, out_shardings=NamedSharding(a.sharding.mesh, P())
            )(a),
        }.items():
            scenario(
                f"one_{axis_type}_{len(sizes)}_{what}",
                lambda f=f, axis_type=axis_type, sizes=sizes: f(on_one(axis_type, sizes)),
            )
scenario("one_grad", lambda: jax.grad(lambda a: (a**2).sum())(on_one(EXPLICIT)))
scenario("one_zeros", lambda: (jnp.zeros(4), jnp.arange(3), jnp.sin(VECTOR)), mesh=(1,))


def with_mesh():
    with mesh_of((8,), AUTO):
        constrain = lambda y: lax.with_sharding_constraint(y * 2, P("x"))
        return jax.jit(constrain)(VECTOR), lax.with_sharding_constraint(VECTOR, P("x"))


scenario("specs_in_the_mesh_of_with", with_mesh, warns="`with mesh:` is deprecated")

# pjit, which uses the mesh of `with mesh:`

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from jax.experimental.pjit import pjit


def pjit_scenario(name, fun, axis_type=AUTO):
    """`fun` of a mesh (4, 2), in its `with mesh:`."""

    def run():
        with mesh_of((4, 2), axis_type) as mesh:
            return fun(mesh)

    scenario(f"pjit_{name}", run, warns="`with mesh:` is deprecated")


def double(x):
    return x * 2


def on_two_meshes(mesh):
    fun = pjit(double, in_shardings=P("x"), out_shardings=P("x"))
    with mesh_of((2,), AUTO):
        first = fun(VALUES)
    return first, fun(VALUES), fun(VALUES)


def of_types(mesh):
    fun = pjit(double, in_shardings=P("x"), out_shardings=P("y"))
    traced = fun.trace(VALUES)
    params = jax.make_jaxpr(fun)(VALUES).eqns[0].params
    lowered = traced.lower().compile()(VALUES), fun.lower(VALUES).compile()(VALUES)
    return placed(fun.eval_shape(VALUES).sharding), params["ctx_mesh"], lowered


for axis_type in (AUTO, EXPLICIT):
    kind = axis_type.name.lower()
    for name, options in {
        "out": dict(out_shardings=P("y")),
        "both": dict(in_shardings=P("x"), out_shardings=(P("x", "y"))),
        "replicated": dict(in_shardings=P("x"), out_shardings=None),
        "unspecified": {},
        "of_other_axes": dict(in_shardings=P("z")),
    }.items():
        pjit_scenario(f"{name}_{kind}", lambda m, kw=options: pjit(double, **kw)(VALUES), axis_type)
pjit_scenario("none_is_replicated", lambda mesh: pjit(double, None)(jax.device_put(VALUES, P("x"))))
pjit_scenario("on_two_meshes", on_two_meshes)
pjit_scenario("of_types", of_types)
pjit_scenario("in_jit", lambda mesh: jax.jit(pjit(double, P("x"), P("y")))(VALUES))
pjit_scenario("vmap", lambda mesh: jax.vmap(pjit(double, P("x"), P("x")), 1)(VALUES))
pjit_scenario(
    "grad", lambda mesh: jax.grad(lambda x: pjit(double, P("x"), P("x"))(x).sum())(VALUES)
)
pjit_scenario("jit", lambda mesh: jax.jit(double, out_shardings=P("x"))(VALUES))
scenario("pjit_without_a_mesh", lambda: pjit(double, out_shardings=P("x"))(VALUES))

# Where the results of library functions are put in a traced function


def at(f):
    return lambda: jax.jit(lambda y: f(y, jax.devices()[1]))(np.ones(3, np.float32))


scenario("asarray_device", at(lambda y, d: jnp.asarray(y, device=d) + 1))
scenario("array_device", at(lambda y, d: jnp.array([1, 2], device=d)))
scenario("astype_device", at(lambda y, d: jnp.astype(y, jnp.int32, device=d)))
scenario("linspace_device", at(lambda y, d: jnp.linspace(0, 3, 4, device=d)))
scenario(
    "asarray_elsewhere",
    lambda: jax.jit(lambda y: jnp.asarray(y, device=jax.devices()[1]))(
        jax.device_put(np.ones(3), jax.devices()[2])
    ),
)
# One device is that of the program, for constants whose elements are equal; `f` gets a sharding, too.
CREATIONS = dict(
    zeros=lambda d: jnp.zeros(8, device=d), full=lambda d: jnp.full(8, 2.0, device=d),
    like=lambda d: jnp.ones_like(VECTOR, device=d), full_like=lambda d: jnp.full_like(VECTOR, 2, device=d),
    lax_full=lambda d: lax.full((8,), 2.0, sharding=d), eye=lambda d: jnp.eye(8, device=d)[0],
    rows=lambda d: jnp.full((2, 8), VECTOR, device=d)[0], arange=lambda d: jnp.arange(8.0, device=d),
    lax_like=lambda d: lax.full_like(VECTOR, 2.0, sharding=d),
    empty_like=lambda d: jnp.empty_like(VECTOR, device=d) * 0,
)  # fmt: skip


def over_eight(*spec, **kwargs):
    return NamedSharding(mesh_of((8,), AUTO), P(*spec), **kwargs)


def created(f, where, transformed):
    """The results of a creation function in programs on one device and on eight, and in transformations."""
    programs = dict(
        jit=lambda: jax.jit(lambda: f(where))(),
        of_eight=lambda: jax.jit(lambda y: y + f(where))(jax.device_put(VECTOR, over_eight("x"))),
    )
    transformations = dict(
        vmap=lambda: jax.vmap(lambda y: y + f(where))(np.ones((2, 8), np.float32)),
        grad=lambda: jax.grad(lambda y: (y * f(where)).sum())(VECTOR),
        jit_of_grad=lambda: jax.jit(jax.grad(lambda y: (y * f(where)).sum()))(VECTOR),
        scan=lambda: lax.scan(lambda y, _: (y + f(where), None), VECTOR, length=2)[0],
        shard_map=lambda: jax.jit(
            jax.shard_map(
                lambda y: y + f(where), mesh=mesh_of((8,), AUTO), in_specs=P(), out_specs=P()
            )
        )(VECTOR),
    )
    out = {}
    for name, run in {**programs, **(transformations if transformed else {})}.items():
        try:
            y = run()
            out[name] = f"{jax.typeof(y)} {y.weak_type} {placed(y.sharding)} {y.committed} {y}"
        except Exception as err:
            out[name] = type(err).__name__
    return out


for name, f in CREATIONS.items():
    if not name.startswith("lax"):
        scenario(
            f"created_{name}_on_device",
            lambda f=f, more=name == "zeros": created(f, jax.devices()[3], more),
        )
    scenario(
        f"created_{name}_on_sharding",
        lambda f=f, more=name == "lax_full": created(
            f, SingleDeviceSharding(jax.devices()[3]), more
        ),
    )
for name in ("lax_full", "lax_like"):  # jnp's functions constrain the compiler
    scenario(
        f"created_{name}_on_eight",
        lambda f=CREATIONS[name]: created(f, over_eight("x"), False),
    )
for name in ("arange", "eye"):
    scenario(f"created_{name}_in_host_memory", lambda f=CREATIONS[name]: jax.typeof(jax.jit(
        lambda: f(over_eight(memory_kind="pinned_host")))()))  # fmt: skip
scenario("created_zeros_in_shard_map", lambda: jax.jit(jax.shard_map(
    lambda y: y + jnp.zeros(8, device=over_eight("x")), mesh=mesh_of((8,), AUTO), in_specs=P(),
    out_specs=P()))(VECTOR))  # fmt: skip
for spec in (P(), P("x")):
    scenario(f"asarray_out_{spec}", lambda spec=spec: jax.jit(
        lambda y: jnp.asarray(y, out_sharding=spec))(VECTOR), mesh=(8,))  # fmt: skip

# Memory spaces are part of the types of arrays


def host(values=VECTOR):
    return jax.device_put(values, jax.memory.Space.Host)


for what, f in {
    "put": lambda: host(),
    "kind": lambda: jax.device_put(
        VECTOR, SingleDeviceSharding(jax.devices()[1], memory_kind="pinned_host")
    ),
    "add": lambda: (host() + 1, 1 - host(), host() > 3, host() ** 2),
    "mixed": lambda: host() + jnp.ones(8),
    "functions": lambda: (jnp.sum(host()), host()[0], host()[:2], jnp.sin(host()), host() @ host()),
    "methods": lambda: (host().copy(), host().reshape(2, 4), host().astype(np.int32)),
    "set": lambda: host().at[0].set(1),
    "vjp": lambda: jax.vjp(lambda h: h * 2, host())[1](host()),
    "vjp_of_device_values": lambda: jax.vjp(lambda h: h * 2, host())[1](VECTOR),
    "vjp_of_host_values": lambda: jax.vjp(lambda x: x * 2, VECTOR)[1](host()),
    "set_in_jit": lambda: jax.jit(lambda h: (h.at[0].set(1.0), h.at[:2].multiply(2)))(host()),
    "add_at": lambda: host().at[jnp.array([0, 1])].add(jnp.ones(2)),
    "add_to_device": lambda: jax.jit(lambda h: jnp.zeros(8).at[0].add(h[1]))(host()),
    "out": lambda: jax.jit(lambda y: jax.device_put(y + 1, jax.memory.Space.Host))(VECTOR),
    "back": lambda: jax.jit(lambda y: jax.device_put(y, jax.memory.Space.Device) + 1)(host()),
    "same": lambda: jax.jit(lambda y: y)(host()),
    "jaxpr": lambda: jax.make_jaxpr(lambda h: lax.clamp(0.0, h * 2, 1.0))(host()),
    "called": lambda: jax.jit(lambda x: x * 2).lower(host()).compile()(jnp.asarray(VECTOR)),
}.items():
    scenario(f"host_{what}", f)


def sharded_host():
    sharding = NamedSharding(mesh_of((8,)), P("x"), memory_kind="pinned_host")
    return jax.device_put(VECTOR, sharding)


scenario("host_sharded", lambda: (sharded_host(), sharded_host() * 2))
scenario("host_shards", lambda: [s.data for s in sharded_host().addressable_shards][:2])

# Explicit types of operations on dimensions over one axis, two, or none

SPECS = [("x", "y"), ("x", None), (None, "y"), (("x", "y"), None), (None, ("y", "x")), ("y", "x")]
OPERATIONS = {
    "argsort": lambda a: jnp.argsort(a, 0),
    "set_row": lambda a: a.at[0].set(1.0),
    "add_rows": lambda a: a.at[np.array([1, 2])].add(2.0),
    "set_sharded_row": lambda a: reshard(a, P(None, "y")).at[0].set(sharded("y", values=VALUES[0])),
    "fft": lambda a: jnp.fft.fft(a).real,
    "fft_first": lambda a: jnp.fft.fft(a, axis=0).imag,
    "triu": lambda a: (jnp.triu(a), jnp.tril(a)),
    "where": lambda a: jnp.where(jnp.ones((8, 16), bool), a, 0),
    "where_row": lambda a: jnp.where(sharded("y", values=VALUES[0]) > 3, a, 0),
    "select": lambda a: lax.select(jnp.ones((8, 16), bool), a, a),
    "masked_sum": lambda a: jnp.sum(a, 0, where=jnp.ones((8, 16), bool)),
    "take_along_axis": lambda a: jnp.take_along_axis(a, jnp.zeros((8, 1), int), 1),
}
for name, fun in OPERATIONS.items():
    for spec in SPECS[:3] if name in ("set_sharded_row", "where_row") else SPECS:
        scenario(f"{name}_{spec}", lambda f=fun, spec=spec: f(sharded(*spec)), mesh=(2, 4))
scenario("log_softmax_at", lambda: jax.grad(lambda a: -jnp.take_along_axis(
    jax.nn.log_softmax(a), jnp.zeros((8, 1), int), 1).mean())(sharded("x")), mesh=(2, 4))  # fmt: skip
for shape, spec, sizes in [
    ((16,), (("x", "y"),), (2, 8)), ((16,), (("x", "y"),), (2, 4, 2)), ((16,), (("x", "y"),), (4, 4)),
    ((16,), (("y", "x"),), (4, 4)), ((16,), (("x", "y"),), (1, 2, 4, 2, 1)), ((64,), (("x", "y"),), (2, 32)),
    ((32,), (("x", "y"),), (4, 8)), ((2, 4, 2), ("x", "y", None), (16,)), ((4, 4, 2), ("x", "y", None), (32,)),
    ((2, 4, 2), ("x", None, None), (16,)), ((2, 4, 2), (None, "y", None), (16,)), ((2, 8), ("x", "y"), (16,)),
    ((4, 2, 3), ("y", "x", None), (24,)), ((2, 4, 2), ("x", None, None), (8, 2)), ((12,), ("x",), (3, 4)),
]:  # fmt: skip
    scenario(f"reshape_{shape}_{spec}_{sizes}", lambda shape=shape, spec=spec, sizes=sizes: sharded(
        *spec, values=np.arange(float(np.prod(shape))).reshape(shape)).reshape(sizes), mesh=(2, 4))  # fmt: skip


def scaled_dot(left, right, scaled):
    f8, e8 = jnp.float8_e4m3fn, jnp.float8_e8m0fnu
    big = np.arange(256.0).reshape(8, 32) % 5 + 1
    x, y = sharded(*left, values=big, dtype=f8), sharded(*right, values=big.T, dtype=f8)
    scales = [
        sharded(*left, values=big[:, :4], dtype=e8),
        sharded(*right, values=big[:, :4].T, dtype=e8),
    ]
    kwargs = dict(zip(("lhs_scale", "rhs_scale"), scales if scaled else scales[:1]))
    return lax.scaled_dot(x, y, preferred_element_type=jnp.float32, **kwargs)


for left in ((None, None), ("x", None), (None, "y"), ("x", "y")):
    for right in ((None, "y"), ("y", None), ("x", "y")):
        scenario(f"scaled_dot_{left}_{right}", lambda left=left, right=right: scaled_dot(
            left, right, True), mesh=(2, 4))  # fmt: skip
scenario("scaled_dot_one_scale", lambda: scaled_dot(("x", None), (None, "y"), False), mesh=(2, 4))
for axis_type in (AUTO, EXPLICIT):
    scenario(
        f"zeros_{axis_type}",
        lambda axis_type=axis_type: jax.device_get(_zeros(axis_type)).tolist(),
    )


def _zeros(axis_type):
    with jax.set_mesh(mesh_of((2, 4), axis_type)):
        return jnp.zeros((2, 4), out_sharding=P())
