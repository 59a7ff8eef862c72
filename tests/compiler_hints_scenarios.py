"""Programs with hints for the compiler: compute_on, metadata, scheduling, shard_alike: see op_cases.py."""

import re

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import control_deps, fused, scheduling_groups
from jax.experimental.compute_on import compute_on, compute_on2
from jax.experimental.shard_alike import shard_alike
from jax.experimental.xla_metadata import set_xla_metadata
from jax.interpreters import partial_eval as pe
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass

CASES = Programs()
DEVICE, HOST = jax.memory.Space.Device, jax.memory.Space.Host
X = np.arange(4, dtype=np.float32)
ATTRIBUTES = re.compile(r"mhlo.frontend_attributes = (\{[^}]*\})")
OPERATION = re.compile(r'(?:= |^\s*)"?(?:func\.)?(call @\w+|[a-z]+\.[a-z_]+(?: @\w+)?)')


def hints(fun, *args, **kwargs):
    """The operations of a lowered program with frontend attributes, and these; sorted."""
    text = jax.jit(fun).trace(*args).lower(**kwargs).as_text()
    found = []
    for line in text.splitlines():
        attributes = ATTRIBUTES.search(line)
        if attributes:
            name = OPERATION.search(line)
            found.append(f"{name.group(1) if name else line} {attributes.group(1)}")
    return sorted(found)


def jaxpr(fun, *args):
    return str(jax.make_jaxpr(fun)(*args))


def everything(fun, *args):
    """The jaxprs of a program's transformations, its hints and its results."""
    total = lambda *xs: sum(jnp.sum(jax.device_put(y, DEVICE)) for y in jax.tree.leaves(fun(*xs)))
    batches = [np.stack([a, a]) for a in args]
    return {
        "jaxpr": jaxpr(fun, *args),
        "jvp": jaxpr(lambda *xs: jax.jvp(fun, xs, xs), *args),
        "vmap": jaxpr(jax.vmap(fun), *batches),
        "hints": hints(fun, *args),
        "eager": jax.tree.leaves(fun(*args)),
        "result": jax.tree.leaves(jax.jit(fun)(*args)),
        "grad": jax.jit(jax.grad(total))(*args),
        "kinds": [str(y.sharding.memory_kind) for y in jax.tree.leaves(jax.jit(fun)(*args))],
    }


def in_context(kind):
    def fun(x):
        with compute_on(kind):
            y = jnp.sin(x) * 2
        return y + x

    return fun


# compute_on

for kind in ("device_host", "device", "tpu_sparsecore", "gpu_stream:1"):
    CASES.add(f"compute_on_{kind}", lambda kind=kind: hints(in_context(kind), X))
    CASES.add(
        f"compute_on2_{kind}",
        lambda kind=kind: hints(
            compute_on2(lambda x: jnp.sin(x) * 2, compute_type=kind, out_memory_spaces=DEVICE), X
        ),
    )
CASES.add("compute_on_all", lambda: everything(in_context("device_host"), X))


@compute_on("device_host")
def decorated(x):
    return jnp.cos(x)


@CASES.define
def compute_on_decorator():
    return hints(lambda x: decorated(x) + 1, X), hints(
        lambda x: decorated(jax.jit(decorated)(x)), X
    )


@CASES.define
def compute_on_nested():
    def fun(x):
        with compute_on("device_host"):
            y = jnp.sin(x)
            with compute_on("tpu_sparsecore"):
                y = jnp.cos(y)
            return jnp.tan(y)

    return hints(fun, X)


@CASES.define
def compute_on_control_flow():
    def fun(x):
        y = lax.cond(x[0] > 0, lambda x: jnp.sin(x), lambda x: jnp.cos(x), x)
        return lax.while_loop(lambda c: c[0] < 3, lambda c: jnp.exp(c), y)

    return sorted(set(hints(compute_on("device_host")(fun), X)))


@CASES.define
def compute_on_restored_after_an_error():
    def fails(x):
        with compute_on("device_host"):
            raise KeyError("no")

    try:
        jax.jit(fails)(X)
    except KeyError:
        pass
    return hints(jnp.sin, X)


def on_host(fun, spaces=DEVICE, **kwargs):
    return compute_on2(fun, compute_type="device_host", out_memory_spaces=spaces, **kwargs)


def two(x, y):
    return {"a": jnp.cos(x) * x, "b": y * 1}


CASES.group(
    "compute_on2",
    all=lambda: everything(on_host(lambda x: jnp.cos(x) * x), X),
    host=lambda: jaxpr(on_host(two, HOST), X, X),
    host_result=lambda: [str(y.sharding.memory_kind) for y in jax.jit(on_host(two, HOST))(X, X).values()],
    committed=lambda: [
        [bool(y.committed) for y in jax.tree.leaves(jax.jit(f)(X))]
        for f in (on_host(jnp.sin), lambda x: (on_host(jnp.sin, HOST)(x), x),
                  lambda x: lax.map(on_host(jnp.sin), x), jnp.sin)
    ],
    spaces=lambda: jaxpr(on_host(two, {"a": HOST, "b": DEVICE}), X, X),
    spaces_hints=lambda: sorted(set(hints(on_host(two, {"a": HOST, "b": DEVICE}), X, X))),
    options=lambda: (
        jaxpr(on_host(jnp.sin, compiler_options={"flag": True}), X),
        hints(on_host(jnp.sin, compiler_options={"flag": 1, "other": "a"}), X),
    ),
    decorator=lambda: jaxpr(compute_on2(compute_type="device", out_memory_spaces=DEVICE)(jnp.sin), X),
    closure=lambda: jaxpr(lambda x: on_host(lambda y: x + y)(x * 2), X),
    closure_grad=lambda: jax.grad(lambda x: on_host(lambda y: x * y)(x * 2).sum())(X),
    host_operand=lambda: jaxpr(lambda x: on_host(jnp.sin)(jax.device_put(x, HOST)), X),
    in_scan=lambda: jaxpr(lambda x: lax.scan(lambda c, _: (on_host(jnp.sin)(c), None), x, None, 3), X),
    remat=lambda: jax.grad(lambda x: jax.checkpoint(on_host(jnp.sin))(x).sum())(X),
    no_result=lambda: jaxpr(on_host(lambda x: ()), X),
    grad_hints=lambda: hints(jax.grad(lambda x: on_host(lambda y: jnp.cos(y) * y)(x).sum()), X),
    unused_hints=lambda: hints(lambda x: on_host(two)(x, x)["a"], X),
    two_types=lambda: hints(
        compute_on2(on_host(jnp.sin), compute_type="device", out_memory_spaces=DEVICE), X
    ),
    key=lambda: jaxpr(on_host(lambda k: jax.random.split(k)), jax.random.key(0)),
)  # fmt: skip
for name, kind in dict(number=3, none=None, unknown="bogus").items():
    CASES.add(f"compute_on_error_{name}", lambda kind=kind: in_context(kind)(X))
    CASES.add(
        f"compute_on2_error_{name}",
        lambda kind=kind: compute_on2(jnp.sin, compute_type=kind, out_memory_spaces=DEVICE)(X),
    )
CASES.add("compute_on2_error_tree", lambda: on_host(jnp.sin, (HOST, HOST))(X))
CASES.add("compute_on2_error_space", lambda: on_host(jnp.sin, 3)(X), any_error=True)
CASES.add(
    "compute_on2_error_options", lambda: on_host(jnp.sin, compiler_options={"a": object()})(X)
)
CASES.add("compute_on2_error_function", lambda: on_host(3)(X))


# Metadata


def with_metadata(x):
    with set_xla_metadata(a="b", c=3, d=True, e=2.5, g=None):
        y = jnp.sin(x)
        with set_xla_metadata(a="z", c=None):
            y = jnp.cos(y)
        with set_xla_metadata():
            y = jnp.tan(y)
        z = jax.jit(jnp.exp)(y)
    return jnp.acos(z)


def tagged(x):
    return set_xla_metadata(jnp.sin(x), a="b", n=1) * 2


@set_xla_metadata(k="v")
def tagged_function(x):
    return jnp.sin(x)


def in_derivative(x):
    def fun(x):
        with set_xla_metadata(k="v"):
            return jnp.sin(x).sum()

    return jax.grad(fun)(x)


CASES.group(
    "metadata",
    context=lambda: hints(with_metadata, X),
    context_all=lambda: everything(with_metadata, X),
    decorator=lambda: hints(lambda x: tagged_function(tagged_function(x)) + 1, X),
    value=lambda: everything(tagged, X),
    value_tree=lambda: jaxpr(lambda x: set_xla_metadata({"a": x * 2, "b": (x, 3)}, k="v"), X),
    value_argument=lambda: hints(lambda x: set_xla_metadata(x, k="v"), X),
    value_twice=lambda: hints(
        lambda x: set_xla_metadata(set_xla_metadata(jnp.sin(x), k="v"), l="w"), X
    ),
    value_call=lambda: hints(lambda x: set_xla_metadata(jax.jit(jnp.cos)(x), k="v"), X),
    value_in_context=lambda: hints(lambda x: set_xla_metadata(with_metadata(x), k="v"), X),
    value_results=lambda: hints(lambda x: set_xla_metadata(lax.top_k(x, 2), k="v"), X),
    value_number=lambda: [set_xla_metadata(3, k="v"), set_xla_metadata(np.ones(2), k="v")],
    derivative=lambda: sorted(set(hints(in_derivative, X))),
    contexts=lambda: [str(e.ctx.xla_metadata) for e in jax.make_jaxpr(with_metadata)(X).eqns],
    quoted=lambda: hints(lambda x: set_xla_metadata(jnp.sin(x), **{"a b": "c"}), X),
    error_list=lambda: set_xla_metadata(X, k=[1, 2]),
    error_context=lambda: set_xla_metadata(k=[1, 2]).__enter__(),
    error_text=lambda: set_xla_metadata("text", k="v"),
    error_function=lambda: set_xla_metadata(lambda x: x, k="v"),
)


# Calls with metadata

grouped = scheduling_groups.scheduling_group("g")(lambda x: jnp.sin(x) * 2)


@scheduling_groups.xla_metadata_call(a="1", b="c", f=None)
def many(x, y=3.0, *, z=None):
    return {"o": x * y, "p": jnp.cos(x)}


def dce(used):
    jaxpr = jax.make_jaxpr(lambda x, y: many(x, y))(X, X).jaxpr
    new, used_ins = pe.dce_jaxpr(jaxpr, used)
    return str(new), str(list(used_ins))


def dce_eqn(used):
    eqn = jax.make_jaxpr(lambda x, y: many(x, y))(X, X).eqns[0]
    used_ins, new = scheduling_groups.dce_jaxpr_xla_metadata_rule(used, eqn)
    return str(list(used_ins)), len(new.outvars)


def printing(x):
    jax.debug.print("{}", x, ordered=True)
    return x * 2


CASES.group(
    "group",
    all=lambda: everything(grouped, X),
    grad=lambda: jaxpr(jax.grad(lambda x: grouped(x).sum()), X),
    grad_hints=lambda: hints(jax.grad(lambda x: grouped(x).sum()), X),
    arguments=lambda: jaxpr(lambda x: many(x, x, z=x), X),
    dce=lambda: [dce([True, False]), dce([False, True]), dce([False, False])],
    dce_rule=lambda: [dce_eqn([True, False]), dce_eqn([False, True])],
    twice=lambda: hints(lambda x: grouped(grouped(x)), X),
    nested=lambda: hints(scheduling_groups.scheduling_group("o")(lambda x: grouped(x) + 1), X),
    closure=lambda: jaxpr(
        lambda x: scheduling_groups.scheduling_group("o")(lambda y: x + y)(x * 2), X
    ),
    no_metadata=lambda: jaxpr(scheduling_groups.xla_metadata_call(jnp.sin), X),
    scan=lambda: hints(
        lambda x: lax.scan(lambda c, _: (grouped(c), None), x, None, length=3)[0], X
    ),
    effects=lambda: hints(scheduling_groups.scheduling_group("o")(printing), X),
    remat=lambda: jax.grad(lambda x: jax.checkpoint(grouped)(x).sum())(X),
    name=lambda: scheduling_groups.xla_metadata_call_p.name,
    error_list=lambda: scheduling_groups.xla_metadata_call(jnp.sin, k=[1])(X),
    error_argument=lambda: grouped("text"),
)


# Control dependencies and fusion


def ordered(x):
    a, b, c = jnp.sin(x), jnp.cos(x), jnp.tan(x)
    control_deps.control_dep(a, b)
    control_deps.schedule([a, b, c])
    return a + b + c


one_kernel = fused.fused(out_spaces=(DEVICE,))(lambda x: (jnp.sin(x) * 2,))
two_spaces = fused.fused(out_spaces=(HOST, DEVICE))(lambda x, y: (jnp.sin(x) * 2, y))


def fused_call(fun, *args):
    text = jax.jit(fun).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    found = re.search(r"@fused\(.*mhlo.backend_config = (\{[^}]*\})", text)
    return found.group(1), text.count("@fused(")


CASES.group(
    "control",
    jaxpr=lambda: jaxpr(ordered, X),
    result=lambda: jax.jit(ordered)(X),
    eager=lambda: (
        ordered(X),
        str(control_deps.control_dep(X, X)),
        str(control_deps.schedule([X, X])),
    ),
    one=lambda: jaxpr(lambda x: (control_deps.schedule([x]), control_deps.schedule([])), X),
    scan=lambda: jax.jit(lambda x: lax.scan(lambda c, _: (ordered(c), None), x, None, length=3)[0])(
        X
    ),
    error_jvp=lambda: jax.jvp(ordered, (X,), (X,)),
    error_vmap=lambda: jax.vmap(ordered)(X),
    error_tuple=lambda: control_deps.control_dep((X, X), X),
    error_text=lambda: control_deps.schedule(["a", X]),
)
CASES.group(
    "fused",
    jaxpr=lambda: jaxpr(two_spaces, X, X),
    jvp=lambda: jaxpr(lambda x: jax.jvp(two_spaces, (x, x), (x, x)), X),
    grad=lambda: jaxpr(jax.grad(lambda x: one_kernel(x)[0].sum()), X),
    vmap=lambda: jaxpr(jax.vmap(one_kernel), np.ones((2, 3), np.float32)),
    nested=lambda: jaxpr(fused.fused(out_spaces=(DEVICE,))(lambda x: one_kernel(x)), X),
    any=lambda: jaxpr(fused.fused(out_spaces=(jax.memory.Space.Any,))(lambda x: x), X),
    empty=lambda: jaxpr(fused.fused(out_spaces=())(lambda x: ()), X),
    lowered=lambda: [fused_call(two_spaces, X, X), fused_call(one_kernel, X)],
    name=lambda: fused.fused_p.name,
    error_cpu=lambda: one_kernel(X),
    error_platform=lambda: jax.jit(one_kernel).trace(X).lower(lowering_platforms=("tpu",)),
    error_number=lambda: fused.fused(out_spaces=(DEVICE, DEVICE))(jnp.sin)(X),
    error_space=lambda: fused.fused(out_spaces=3)(jnp.sin)(X),
    error_closure=lambda: jax.jit(lambda x: fused.fused(out_spaces=(DEVICE,))(lambda y: x * y)(x))(
        X
    ),
)


# shard_alike


def sharded(axis_type=AxisType.Auto):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(axis_type,) * 2)
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    return jax.device_put(value, NamedSharding(mesh, P("x", "y")))


def alike(x):
    return shard_alike(x * 2, jnp.ones((8, 8)))


def groups(fun, *args):
    """How many groups there are in a module, and the members of each."""
    text = jax.jit(fun).lower(*args).as_text()
    found = re.findall(r"group_id=(\d+)", text)
    return sorted(found.count(g) for g in set(found))


def specs(arrays):
    return [str(x.sharding.spec) for x in arrays]


def alike_in_loop(x):
    return lax.scan(lambda c, _: (shard_alike(c, c * 2)[1], None), x, None, length=3)[0]


CASES.group(
    "shard_alike",
    jaxpr=lambda: jaxpr(alike, sharded()),
    groups=lambda: groups(alike, sharded()),
    result=lambda: (specs(jax.jit(alike)(sharded())), jax.jit(alike)(sharded())),
    eager=lambda: specs(shard_alike(sharded(), jnp.ones((8, 8)))),
    jvp=lambda: jaxpr(lambda x: jax.jvp(alike, (x,), (x,)), sharded()),
    jvp_zero=lambda: jaxpr(lambda x: jax.jvp(lambda y: shard_alike(x, x)[0] * y, (x,), (x,)), sharded()),
    grad=lambda: jax.jit(jax.grad(lambda x: sum(y.sum() for y in shard_alike(x, x * 2))))(sharded()),
    grad_one=lambda: jax.jit(jax.grad(lambda x: shard_alike(x, x * 2)[0].sum()))(sharded()),
    vmap=lambda: jaxpr(jax.vmap(shard_alike), sharded(), sharded()),
    vmap_axes=lambda: jax.vmap(shard_alike, in_axes=(0, 1))(sharded(), sharded()),
    vmap_none=lambda: jax.vmap(shard_alike, in_axes=(0, None))(sharded(), np.ones(8, np.float32)),
    tree=lambda: jaxpr(shard_alike, {"a": X, "b": (X,)}, {"a": X, "b": (X,)}),
    dtypes=lambda: jaxpr(shard_alike, X, X.astype(np.int32)),
    numbers=lambda: shard_alike(1.0, 2),
    explicit=lambda: jaxpr(lambda x: shard_alike(x, jnp.ones((8, 8))), sharded(AxisType.Explicit)),
    scan=lambda: (groups(alike_in_loop, sharded()), jax.jit(alike_in_loop)(sharded())),
    keys=lambda: jaxpr(shard_alike, *[jax.random.split(jax.random.key(0), 8)] * 2),
    error_tree=lambda: shard_alike({"a": X, "b": X}, {"a": X}),
    error_shape=lambda: shard_alike(X, X[:2]),
    error_text=lambda: shard_alike("a", "b"),
)  # fmt: skip
