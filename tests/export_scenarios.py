"""Exported programs: what they say of themselves, calls of them, and errors: see op_cases.py."""

import numpy as np
from export_files import read
from export_programs import GROUPS
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import export, lax
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
    SingleDeviceSharding,
)

CASES = Programs()
scenario, add = CASES.define, CASES.group

F = np.float32
x4 = np.arange(4, dtype=F)
x8 = np.arange(8, dtype=F)
Check = export.DisabledSafetyCheck

for group in GROUPS:
    CASES.add(f"files_of_the_oracle_{group}", lambda group=group: read("oracle", group))
    CASES.add(f"files_of_ours_{group}", lambda group=group: read("own", group))


def exp(fun, *args, **kwargs):
    return export.export(jax.jit(fun), **kwargs)(*args)


def reread(exported, vjp_order=0):
    return export.deserialize(exported.serialize(vjp_order=vjp_order))


def facts(e):
    """The fields of an exported program that the exchanged format has."""
    return [
        e.fun_name, str(e.in_tree), str(e.in_avals), str(e.out_tree), str(e.out_avals),
        str(e._in_named_shardings), str(e._out_named_shardings), e.nr_devices, str(e.platforms),
        str(e.ordered_effects), str(e.unordered_effects), str(e.disabled_safety_checks),
        e.calling_convention_version, str(e.module_kept_var_idx), e.uses_global_constants, e.has_vjp(),
    ]  # fmt: skip


def signature(e):
    """The type of the module's main function."""
    lines = [line for line in e.mlir_module().splitlines() if "@main(" in line]
    import re

    line = re.sub(r' loc\((#loc\d*|unknown|"[^"]*")\)', "", lines[0])
    return line.strip()


def outcome(fun, *args, **kwargs):
    try:
        return fun(*args, **kwargs)
    except Exception as err:
        return type(err).__name__


def two(x, y, *, z):
    return {"sum": x + z, "shape": y.shape[0]}, None


add(
    "facts",
    plain=lambda: facts(exp(jnp.sin, x4)),
    tree=lambda: facts(export.export(jax.jit(two))(x4, x4, z=x4)),
    read_again=lambda: facts(reread(export.export(jax.jit(two))(x4, x4, z=x4), 2)),
    weak=lambda: [facts(e) for e in (exp(jnp.sin, 1.0), reread(exp(jnp.sin, 1.0)))],
    derivative=lambda: [facts(exp(lambda a, n: (a * n, n), x4, 3).vjp()), facts(exp(jnp.sin, x4).vjp().vjp())],
    platforms=lambda: facts(exp(jnp.sin, x4, platforms=("tpu", "cpu", "cuda", "rocm"))),
    default_platforms=lambda: [facts(exp(jnp.sin, x4, platforms=())), export.default_export_platform()],
    checks=lambda: facts(reread(exp(jnp.sin, x4, disabled_checks=[Check.platform(), Check.custom_call("t")]))),
    unused=lambda: facts(exp(lambda a, b, c: b, x4, x4, x4)),
    keep_unused=lambda: facts(export.export(jax.jit(lambda a, b: b, keep_unused=True))(x4, x4)),
    static=lambda: facts(export.export(jax.jit(lambda a, n: a * n, static_argnums=1))(x4, 3)),
    key=lambda: facts(reread(exp(jax.random.split, jax.random.key(1)))),
    host=lambda: facts(reread(exp(lambda x: jax.device_put(x, jax.memory.Space.Host), x4))),
    versions=lambda: [
        export.minimum_supported_calling_convention_version, export.maximum_supported_calling_convention_version
    ],
)  # fmt: skip
add(
    "main",
    plain=lambda: signature(exp(lambda a, b: a + b, x4, x4)),
    platforms=lambda: signature(exp(lambda a: a, x4, platforms=("tpu", "cpu"))),
    donated=lambda: signature(export.export(jax.jit(lambda a: a + 1, donate_argnums=0))(x4)),
    float0=lambda: signature(exp(lambda a, b: (a, b), np.zeros(2, jax.dtypes.float0), x4)),
    key=lambda: signature(exp(lambda k: jax.random.wrap_key_data(k), np.zeros(2, np.uint32))),
)


def mesh(n=8, name="a", kind=AxisType.Auto):
    return Mesh(np.array(jax.devices()[:n]), (name,), axis_types=(kind,))


def explicit():
    return Mesh(
        np.array(jax.devices()).reshape(4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2
    )


def over(n=8, spec=P("a"), **kw):
    return NamedSharding(mesh(n), spec, **kw)


def sharded(n=8, **kwargs):
    options = kwargs or {"in_shardings": over(n)}
    return export.export(jax.jit(lambda x: x + 1, **options))(x8)


def transposed():
    with jax.set_mesh(explicit()):
        x = jax.device_put(np.zeros((8, 4), F), P("x", "y"))
        return export.export(jax.jit(lambda x: jnp.sin(x).T))(x), x


def platforms_in_shard_map():
    def f(x):  # what follows depends on the platform
        key = jax.random.fold_in(jax.random.key(0), lax.axis_index("a"))
        return jnp.cumsum(x) + jax.random.uniform(key)

    mapped = jax.shard_map(f, mesh=mesh(), in_specs=P("a"), out_specs=P("a"))
    return reread(export.export(jax.jit(mapped), platforms=("tpu", "cpu", "cuda"))(x8))


def spec_of(a):
    return str(a.sharding.spec), str(jax.typeof(a))


add(
    "shardings",
    arguments=lambda: facts(reread(sharded())),
    results=lambda: facts(reread(sharded(out_shardings=over()))),
    one_device=lambda: facts(reread(sharded(in_shardings=SingleDeviceSharding(jax.devices()[0])))),
    one_device_mesh=lambda: facts(reread(sharded(1))),
    abstract=lambda: facts(reread(sharded(in_shardings=NamedSharding(AbstractMesh((8,), ("a",)), P("a"))))),
    of_types=lambda: facts(reread(exp(lambda x: x, jax.ShapeDtypeStruct((8,), F, sharding=over())))),
    explicit=lambda: facts(reread(transposed()[0])),
    derivative=lambda: [facts(sharded().vjp()), facts(transposed()[0].vjp())],
    in_jax=lambda: str((sharded().in_shardings_jax(mesh()), sharded().out_shardings_jax(mesh()))),
    in_jax_abstract=lambda: str(sharded().in_shardings_jax(mesh().abstract_mesh)),
    in_jax_other_names=lambda: sharded().in_shardings_jax(mesh(name="b")),
    in_jax_fewer=lambda: sharded().in_shardings_jax(mesh(4)),
    call=lambda: spec_of(sharded().call(jax.device_put(x8, over()))),
    call_one_device=lambda: sharded().call(x8),
    call_fewer=lambda: sharded().call(jax.device_put(x8, over(4))),
    call_other_mesh=lambda: spec_of(sharded().call(jax.device_put(x8, NamedSharding(mesh(name="b"), P("b"))))),
    call_replicated=lambda: spec_of(sharded().call(jax.device_put(x8, over(spec=P())))),
    call_one_on_many=lambda: spec_of(exp(lambda x: x + 1, x8).call(jax.device_put(x8, over()))),
    call_in_jit=lambda: spec_of(jax.jit(sharded().call, out_shardings=over(spec=P()))(jax.device_put(x8, over()))),
    call_explicit=lambda: spec_of(transposed()[0].call(transposed()[1])),
    grad=lambda: spec_of(jax.grad(lambda x: sharded().call(x).sum())(jax.device_put(x8, over()))),
    in_shard_map=lambda: jax.jit(jax.shard_map(
        lambda x: exp(lambda x: x + 1, x8).call(jnp.tile(x, 8))[:1], mesh=mesh(), in_specs=P("a"), out_specs=P("a")))(x8),
    platforms_in_shard_map=lambda: platforms_in_shard_map().call(jax.device_put(x8, over())),
    memory=lambda: facts(export.export(jax.jit(
        lambda x: x + 1, out_shardings=over(1, P(), memory_kind="pinned_host")))(x8)),
)  # fmt: skip

sin4 = lambda **kw: exp(jnp.sin, x4, **kw)
add(
    "call",
    nested=lambda: reread(exp(lambda x: 2 * sin4().call(x), x4)).call(x4),
    twice=lambda: jax.jit(lambda x: [sin4().call(sin4().call(x)), sin4().call(x)])(x4),
    scan=lambda: lax.scan(lambda c, _: (sin4().call(c), None), x4, None, length=3)[0],
    cond=lambda: lax.cond(True, sin4().call, lambda x: x, x4),
    grad=lambda: jax.grad(lambda x: sin4().call(x).sum())(x4),
    grad_twice=lambda: jax.grad(lambda y: jax.grad(lambda x: sin4().call(x).sum())(y).sum())(x4),
    grad_read=lambda: jax.grad(lambda x: reread(sin4(), 1).call(x).sum())(x4),
    grad_not_there=lambda: jax.grad(lambda x: reread(sin4()).call(x).sum())(x4),
    grad_twice_not_there=lambda: jax.grad(lambda y: jax.grad(lambda x: reread(sin4(), 1).call(x).sum())(y).sum())(x4),
    checkpoint=lambda: jax.grad(jax.checkpoint(lambda x: sin4().call(x).sum()))(x4),
    jvp=lambda: jax.jvp(sin4().call, (x4,), (x4,)),
    vmap=lambda: jax.vmap(sin4().call)(np.stack([x4, x4])),
    jaxpr=lambda: str(jax.make_jaxpr(sin4().call)(x4)),
    weak=lambda: [jax.typeof(f.call(2.0)).weak_type for f in (exp(jnp.sin, 1.0), exp(jnp.sin, F(1)))],
    shape=lambda: sin4().call(x8),
    rank=lambda: sin4().call(x4[None]),
    dtype=lambda: sin4().call(np.arange(4)),
    no_array=lambda: sin4().call("a"),
    more_arguments=lambda: sin4().call(x4, x4),
    other_tree=lambda: sin4().call({"x": x4}),
    by_name=lambda: sin4().call(x=x4),
    key_of_other_kind=lambda: exp(jax.random.split, jax.random.key(0)).call(jax.random.key(0, impl="rbg")),
    other_platform=lambda: sin4(platforms=["tpu"]).call(x4),
    other_platform_allowed=lambda: sin4(platforms=["tpu", "cuda"], disabled_checks=[Check.platform()]).call(x4),
    other_platform_exported=lambda: exp(sin4(platforms=["tpu"]).call, x4, platforms=["tpu", "cuda"]),
    many_platforms=lambda: sin4(platforms=("tpu", "cpu", "cuda")).call(x4),
    fewer_platforms=lambda: facts(exp(sin4(platforms=("tpu", "cpu", "cuda")).call, x4, platforms=["cuda", "cpu"])),
)  # fmt: skip


def version(v):
    before = jax.config.jax_export_calling_convention_version
    jax.config.update("jax_export_calling_convention_version", v)
    try:
        return sin4().calling_convention_version
    finally:
        jax.config.update("jax_export_calling_convention_version", before)


add(
    "errors",
    not_jitted=lambda: export.export(lambda x: x),
    pmap=lambda: export.export(jax.pmap(lambda x: x)),
    gpu=lambda: sin4(platforms=["gpu"]),
    unknown_platform=lambda: facts(sin4(platforms=["my_platform"])),
    callback=lambda: exp(lambda x: jax.pure_callback(np.sin, x, x), x4),
    debug=lambda: exp(lambda x: jax.debug.print("{}", x), x4),
    version_8=lambda: version(8),
    version_9=lambda: version(9),
    version_11=lambda: version(11),
    vjp_order=lambda: reread(sin4()).serialize(vjp_order=1),
    vjp=lambda: reread(sin4()).vjp(),
    integer_keys=lambda: exp(lambda x: {1: x}, x4).serialize(),
    unregistered=lambda: exp(lambda x: jax.tree_util.Partial(jnp.sin, x), x4).serialize(),
    custom_call=lambda: exp(lambda x: jax.ffi.ffi_call("unstable", jax.ShapeDtypeStruct((4,), F))(x), x4),
    custom_call_allowed=lambda: facts(exp(
        lambda x: jax.ffi.ffi_call("unstable", jax.ShapeDtypeStruct((4,), F))(x), x4, disabled_checks=[Check.custom_call("unstable")])),
    x64=lambda: [outcome(exp(lambda x: x, x4).call, np.zeros(4)), outcome(reread(exp(lambda x: x, x4)).call, x4)],
    checks=lambda: [str(Check.platform()), str(Check.custom_call("f")), Check.custom_call("f").is_custom_call(),
                    str(Check.platform().is_custom_call()), Check.platform() == Check.platform()],
)  # fmt: skip
