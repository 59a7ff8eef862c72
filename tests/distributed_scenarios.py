"""Programs of two processes with two devices each: see op_cases.py. Results are texts, one for each process."""

import process_testing
from op_cases import Programs

CASES = Programs()

START = """
import copy, os, pickle, sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.experimental import multihost_utils as m

me = int(os.environ["JAX_LAUNCH_PROCESS_ID"])
jax.distributed.initialize(os.environ["JAX_LAUNCH_COORDINATOR"], 2, me, initialization_timeout=60)
P = jax.P
mesh, mesh2 = jax.make_mesh((4,), ("x",)), jax.make_mesh((2, 2), ("h", "d"))
lines = []


def sharding(*spec):
    return jax.NamedSharding(mesh, P(*spec))


def describe(x):
    if not isinstance(x, (jax.Array, np.ndarray, np.generic)):
        return repr(x)
    what = [type(x).__name__, str(x.dtype), x.shape]
    if not isinstance(x, jax.Array):
        return what + [x.tolist()]
    return what + [[np.asarray(s.data).tolist() for s in x.addressable_shards], str(x.sharding)]


def show(name, fun):
    try:
        result = jax.tree.map(describe, fun())
    except Exception as e:
        result = type(e).__name__
    lines.append(f"{name}: {result}")


def rows(x, k=2):
    return jax.make_array_from_callback((4 * k,), sharding("x"), lambda i: np.asarray(x)[i])


g = rows(np.arange(8, dtype=np.float32))
"""

END = """
jax.effects_barrier()
sys.stdout.write("\\n@@" + "\\n@@".join(lines) + "\\n")
"""


def two_processes(text):
    def program():
        outputs = process_testing.run(START + text + END, 2, devices=2)
        return {
            f"process {i}": "\n".join(
                line[2:] for line in output.splitlines() if line.startswith("@@")
            )
            for i, output in enumerate(outputs)
        }

    return program


CASES.add(
    "exchange",
    two_processes("""
for name, x in dict(
    tree={"a": np.arange(3) + me, "b": me * 2.5}, array=jnp.arange(3) + me,
    bool=np.array([True, False]) ^ bool(me), empty=np.zeros((0, 2)), none=None,
    bfloat16=np.array([1.5], jnp.bfloat16) + me, uint8=np.array([255], np.uint8) - np.uint8(me),
    special=np.array([np.nan, np.inf]) + me, text="text", key=jax.random.key(me), big=2**40 + me,
    complex=np.array([1 + 2j]) * me, scalar=np.float32(me), global_=g, strings=np.array(["a"]),
    int4=np.array([3], jnp.int4), matrix=np.arange(6).reshape(2, 3) + me, flag=bool(me),
).items():
    if name != "text" and name != "strings" and name != "big" and name != "int4":
        show("broadcast " + name, lambda: m.broadcast_one_to_all(x))
    if name == "text" or name == "strings":
        show("broadcast " + name, lambda: m.broadcast_one_to_all(x))
    if name not in ("global_", "none", "int4", "big"):
        show("allgather " + name, lambda: m.process_allgather(x))
    if name != "int4" and name != "big":
        show("tiled " + name, lambda: m.process_allgather(x, tiled=True))
show("stacked", lambda: m.process_allgather(g))
show("source 1", lambda: m.broadcast_one_to_all(np.arange(3) + me, is_source=me == 1))
local = jax.NamedSharding(jax.sharding.Mesh(jax.local_devices(), "l"), P("l"))
show("local", lambda: m.process_allgather(jax.device_put(np.arange(4.0) + me, local), tiled=True))
show("replicated", lambda: m.process_allgather(jax.device_put(g, sharding()), tiled=True))
show("sync", lambda: m.sync_global_devices("here"))
show("equal", lambda: m.assert_equal({"a": np.arange(3), "b": 2.5}))
show("not equal", lambda: m.assert_equal(me, "ranks"))
show("nan", lambda: m.assert_equal(np.array([np.nan])))
show("preemption", lambda: m.reached_preemption_sync_point(1))
"""),
)

CASES.add(
    "local_arrays",
    two_processes("""
def ltg(x, mesh, spec):
    return m.host_local_array_to_global_array(x, mesh, spec)


def gtl(x, mesh, spec):
    return m.global_array_to_host_local_array(x, mesh, spec)


four = np.arange(4) + 10 * me
show("split", lambda: ltg(four, mesh, P("x")))
show("tree", lambda: ltg({"a": four, "b": np.ones((2, 4)) * me}, mesh2,
                         {"a": P("h"), "b": P(None, ("h", "d"))}))
show("whole", lambda: ltg(np.arange(4), mesh, P()))
show("none", lambda: ltg(four, mesh, None))
show("global", lambda: ltg(g, mesh, P("x")))
show("one spec", lambda: ltg((four, np.arange(8.0)), mesh2, P("h")))
show("not divisible", lambda: ltg(np.arange(3), mesh, P("x")))
show("over devices", lambda: ltg(jnp.arange(4), mesh2, P("d")))
show("specs", lambda: ltg([four, four], mesh2, [P("h")]))
show("back", lambda: gtl(g, mesh, P("x")))
show("back whole", lambda: gtl(g, mesh, P()))
show("back tree", lambda: gtl({"a": g}, mesh, {"a": P("x")}))
x = np.arange(8.0)
show("back h", lambda: gtl(jax.device_put(x, jax.NamedSharding(mesh2, P("h"))), mesh2, P("h")))
show("back d", lambda: gtl(jax.device_put(x, jax.NamedSharding(mesh2, P("d"))), mesh2, P("d")))
show("back local", lambda: gtl(jnp.arange(8.0), mesh, P("x")))
for name, f, a in (
    ("jaxpr", lambda x: ltg(x, mesh, P("x")), np.arange(4.0)),
    ("jaxpr back", lambda x: gtl(x, mesh, P("x")), np.arange(8.0)),
    ("vmap", jax.vmap(lambda x: ltg(x, mesh, P("x"))), np.arange(8.0).reshape(2, 4)),
    ("vmap 1", jax.vmap(lambda x: ltg(x, mesh, P("x")), 1, 1), np.arange(8.0).reshape(4, 2)),
):
    lines.append(f"{name} {jax.make_jaxpr(f)(a)}".replace("\\n", "\\n@@"))
show("jit", lambda: jax.jit(lambda x: ltg(x, mesh, P("x")))(g))
three = jax.sharding.Mesh(np.array(jax.devices()[:3]), "y")
uneven = np.arange((2 - me) * 3.0)
show("uneven", lambda: (y := ltg(uneven, three, P("y")), gtl(y, three, P("y"))))
show("jit whole", lambda: jax.jit(lambda x: ltg(x, mesh, P()))(g))
lines.append(str(mesh.local_mesh))
lines.append(str([mesh.is_multi_process, mesh.local_devices, mesh2.local_mesh]))
"""),
)

CASES.add(
    "arrays",
    two_processes("""
for name in ("__array__", "item", "tolist", "__bool__", "__int__", "copy", "copy_to_host_async"):
    show(name, getattr(g, name))
show("value", lambda: g._value)
show("get", lambda: jax.device_get(g))
show("pickle", lambda: pickle.dumps(g))
show("shard", lambda: g.addressable_data(0))
show("sum", lambda: float(g.sum()))
show("index", lambda: g[0])
show("repr of deleted", lambda: ((y := g + 1).delete(), len(repr(y)) > 0))
eight = np.arange(8.0)
show("put", lambda: jax.device_put(eight, sharding("x")))
show("put local", lambda: jax.device_put(jnp.arange(8.0), sharding("x")))
show("put replicated", lambda: jax.device_put(g, sharding()))
show("put other values", lambda: jax.device_put(np.full(4, me), sharding()))
show("put other rows", lambda: jax.device_put(eight + me, sharding("x")))
show("put global on device", lambda: jax.device_put(g, jax.devices()[0]))
local = jax.local_devices()
show("process local", lambda: jax.make_array_from_process_local_data(sharding("x"), eight[:4] + me))
for name, x in dict(shape=eight[:4], whole=eight, wrong=eight[:3]).items():
    show(name, lambda: jax.make_array_from_process_local_data(sharding("x"), x, (8,)))
ones = [jax.device_put(np.ones(1) * me, d) for d in local]
show("shards", lambda: jax.make_array_from_single_device_arrays((4,), sharding("x"), ones))
show("shard missing", lambda: jax.make_array_from_single_device_arrays((4,), sharding("x"), ones[:1]))
show("no shard here", lambda: jax.make_array_from_callback(
    (2,), jax.NamedSharding(jax.sharding.Mesh(jax.devices()[:2], "x"), P("x")), lambda i: eight[:2][i],
    dtype=np.float32,
).shape)
show("devices", lambda: [(d.id, d.process_index) for d in jax.devices()])
show("processes", lambda: (jax.process_index(), jax.process_count(), jax.process_indices()))
show("of other", lambda: jax.local_devices(process_index=1 - me))
show("of nobody", lambda: jax.local_devices(5))
show("counts", lambda: (jax.device_count(), jax.local_device_count(), len(jax.live_arrays()) > 0))
"""),
)

CASES.add(
    "copies",
    two_processes("""
def apart(x, y):
    pairs = zip(x.addressable_shards, y.addressable_shards, strict=True)
    return all(a.data.unsafe_buffer_pointer() != b.data.unsafe_buffer_pointer() for a, b in pairs)


whole = jax.device_put(np.arange(8.0), sharding(None))
for name, x in dict(rows=g, replicated=whole).items():
    for how, y in dict(
        copy=copy.copy(x), deep=copy.deepcopy(x), method=x.copy(),
        put=jax.device_put(x, x.sharding, may_alias=False),
    ).items():
        show(f"{how} of {name}", lambda: (y, apart(x, y)))
"""),
)

CASES.add(
    "elsewhere",
    two_processes("""
last = jax.devices()[3]
three = np.arange(3, dtype=np.float32)
x = jax.device_put(three, last)
whole = jax.device_put(three, jax.NamedSharding(jax.sharding.Mesh(jax.devices()[2:], "y"), P()))
for name, f in dict(
    put=lambda: [jax.device_put([three, 1], last), jax.device_put(jnp.ones(3), last)],
    committed=lambda: jax.device_put(jax.device_put(three, jax.local_devices()[0]), last),
    moved=lambda: jax.device_put(x, jax.devices()[2]), left=lambda: jax.device_put(x),
    copied=lambda: copy.copy(x), compute=lambda: [x + 1, x * x, x[0], x + jnp.ones(3), x + three],
    jit=lambda: jax.jit(lambda x: x @ x)(x), grad=lambda: jax.grad(lambda x: (x * x).sum())(x),
    random=lambda: jax.random.uniform(jax.device_put(jax.random.key(0), last), (2,)),
    creation=lambda: [jnp.zeros(2, device=last), jnp.array([1, 2], device=last), jnp.arange(3, device=last)],
    to_device=lambda: jnp.ones(2).to_device(last), float=lambda: float(jax.device_put(1.0, last)),
    get=lambda: jax.device_get(x), pickle=lambda: len(pickle.dumps(x)) > 0, mean=lambda: bool(whole.sum()),
    closure=lambda: jax.jit(lambda y: y + whole)(whole), async_=whole.copy_to_host_async,
    properties=lambda: (x.is_fully_addressable, x.is_fully_replicated, len(x.addressable_shards), x.devices()),
    deleted=lambda: ((y := x + 1).delete(), y.is_deleted()),
).items():
    show(name, f)
with jax.default_device(last):
    show("default", lambda: [jnp.arange(3.0) + 1, jnp.array([1.0]), jnp.float32(2), jax.jit(jnp.sin)(three)])
    show("default is not committed", lambda: jnp.ones(2).committed)
"""),
)

CASES.add(
    "sizes_that_depend_on_values",
    two_processes("""
auto = jax.sharding.Mesh(np.array(jax.devices()), "x")
x = jax.device_put(np.arange(8) % 5, jax.NamedSharding(auto, P("x")))
for name, f in dict(
    where=lambda: jnp.where(x > 3), nonzero=lambda: jnp.nonzero(x), argwhere=lambda: jnp.argwhere(x > 2),
    flatnonzero=lambda: jnp.flatnonzero(x), bincount=lambda: jnp.bincount(x),
    trim=lambda: jnp.trim_zeros(x), choose=lambda: jnp.choose(x % 2, [x, x + 1]),
    choose_wrong=lambda: jnp.choose(x, [x, x + 1]), unique=lambda: jnp.unique(x),
    ravel=lambda: jnp.ravel_multi_index((x, x), (5, 6)), segments=lambda: jax.ops.segment_sum(x, x),
    ravel_wrong=lambda: jnp.ravel_multi_index((x, x), (4, 6)), mask=lambda: x[x > 3],
    weights=lambda: jnp.cov(x, fweights=x),
).items():
    show(name, lambda: jax.tree.map(np.asarray, f()))
"""),
)

CASES.add(
    "programs",
    two_processes("""
def double(x):
    return x * 2


show("numpy", lambda: jax.jit(lambda x, y: x + y)(g, np.arange(8.0)))
show("uncommitted", lambda: jax.jit(lambda x, y: x + y)(g, jnp.arange(8.0)))
one = jax.device_put(jnp.arange(8.0), jax.local_devices()[0])
show("committed", lambda: jax.jit(lambda x, y: x + y)(g, one))
split = jax.jit(double, in_shardings=jax.NamedSharding(jax.sharding.Mesh(jax.devices(), "x"), P("x")))
show("split uncommitted", lambda: split(jnp.arange(8.0)))
show("split numpy", lambda: split(np.arange(8.0)))
show("split in gradient", lambda: jax.grad(lambda x: split(x).sum())(np.arange(8.0)))
show("split ahead of time", lambda: split.lower(np.arange(8.0)))
whole = jax.jit(double, in_shardings=jax.NamedSharding(jax.sharding.Mesh(jax.devices(), "x"), P()))
show("replicated numpy", lambda: [whole(np.arange(8.0)), whole(3.0), whole(np.float32(2))])
show("eager", lambda: [g + 1, g + g, jnp.sin(g), g.sum()])
show("grad", lambda: jax.jit(jax.grad(lambda x: (x * x).sum()))(g))
show("vmap", lambda: jax.jit(jax.vmap(double))(g))
show("scan", lambda: jax.jit(lambda x: lax.scan(lambda c, _: (c * 2, None), x, None, 3)[0])(g))
show("matmul", lambda: jax.jit(lambda x: jnp.dot(x, x))(g))
normal = jax.jit(lambda k: jax.random.normal(k, (4,)), out_shardings=sharding("x"))
show("random", lambda: normal(jax.random.key(0)))
show("uniform", lambda: jax.random.uniform(jax.random.key(1), (4,)))
keys = jax.jit(lambda k: jax.random.split(k, 4), out_shardings=sharding("x"))
show("keys", lambda: [s.data for s in jax.random.key_data(keys(jax.random.key(3))).addressable_shards])
seen = []
shape = jax.ShapeDtypeStruct((8,), np.float32)
show("callback", lambda: jax.jit(
    lambda x: jax.pure_callback(lambda x: np.asarray(x) * 2, shape, x), out_shardings=sharding("x")
)(g))
show("debug callback", lambda: jax.jit(
    lambda x: (jax.debug.callback(lambda v: seen.append(float(v)), x.sum()), x)[1]
)(g))
show("debug print", lambda: jax.jit(lambda x: (jax.debug.print("@@printed {}", x), x)[1])(g))
jax.effects_barrier()
lines.append(str(seen))


def mapped(f, out=P("x")):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=out))


show("psum", lambda: mapped(lambda x: lax.psum(x, "x"), P())(g))
show("permute", lambda: mapped(lambda x: lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)]))(g))
show("gather", lambda: mapped(lambda x: lax.all_gather(x, "x").sum(0) + x)(g))
show("scatter", lambda: mapped(lambda x: lax.psum_scatter(jnp.tile(x, 2), "x", tiled=True))(g))
show("all to all", lambda: mapped(lambda x: lax.all_to_all(jnp.tile(x, 2), "x", 0, 0, tiled=True))(g))
show("index", lambda: mapped(lambda x: x * 0 + lax.axis_index("x"))(g))
show("eager map", lambda: jax.shard_map(double, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(g))
with jax.set_mesh(mesh2):
    show("context", lambda: jax.jit(lambda x: jax.sharding.reshard(x, P("d")))(np.arange(8.0)))
"""),
)
