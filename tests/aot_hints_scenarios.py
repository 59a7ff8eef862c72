"""Programs with hints and partitioning rules, compiled for TPUs and GPUs that are absent: see aot_programs.py."""

import re

import aot_programs
from aot_programs import compiled, facts, mesh_of, struct
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import scheduling_groups
from jax.experimental.compute_on import compute_on, compute_on2
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.shard_alike import shard_alike
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

CASES = Programs()
DEVICE, HOST = jax.memory.Space.Device, jax.memory.Space.Host


def on_host(fun, space=DEVICE):
    return compute_on2(fun, compute_type="device_host", out_memory_spaces=space)


def in_context(x):
    with compute_on("device_host"):
        y = x * 2
    return y + x


def product(x):
    return jnp.sin(x) @ x.T


PROGRAMS = dict(
    context=in_context,
    host=lambda x: on_host(lambda y: y * 2 + 1)(x) + 1,
    host_operand=lambda x: on_host(lambda y: y * 2 + 1)(jax.device_put(x, HOST)) + 1,
    host_result=on_host(lambda y: y * 2 + 1, HOST),
    host_grad=jax.grad(lambda x: on_host(lambda y: jnp.sin(y) * 2)(x).sum()),
    shard_alike=lambda x: shard_alike(x, jnp.ones(x.shape))[1],
    group=scheduling_groups.scheduling_group("g")(product),
    metadata=lambda x: set_xla_metadata(product(x), k="v"),
)


def add(name, key, fun):
    def scenario():
        found = compiled(fun, struct(mesh_of(name), (512, 1024), "x", "y"))
        hosts = found.as_text().count('custom_call_target="HostExecute"')
        return facts(found), hosts

    CASES.add(f"{name}_{key}", scenario)


for topology in ("v5e:2x2", "h100"):
    for key, fun in PROGRAMS.items():
        add(topology, key, fun)


# The TPU's compiler does not call rules of custom_partitioning; that of GPUs does.


def centered(x):
    return jnp.sin(x) - jnp.sin(x).mean(1, keepdims=True)


def by_rows(mesh, arg_shapes, result_shape):
    rows = NamedSharding(mesh, P("x"))
    return mesh, centered, rows, (rows,)


def with_sums(mesh, arg_shapes, result_shape):
    on_shard = lambda x: x - lax.psum(x.sum(1, keepdims=True), "y")
    return mesh, on_shard, result_shape.sharding, (arg_shapes[0].sharding,)


def partitioned(fun, partition):
    op = custom_partitioning(fun)
    op.def_partition(partition, sharding_rule="i j -> i j")
    x = struct(mesh_of("h100"), (512, 1024), "x", "y")
    found = facts(compiled(op, x))
    return found["collectives"], found["shardings"], found["memory"][:2]


CASES.add("h100_rows", lambda: partitioned(centered, by_rows))
CASES.add("h100_sums", lambda: partitioned(lambda x: x - x.sum(1, keepdims=True), with_sums))


@CASES.define
def h100_streams():
    def fun(x):
        with compute_on("gpu_stream:1"):
            y = x @ x.T
        return y + 1

    device = aot_programs.topology("h100").devices[0]
    x = jax.ShapeDtypeStruct((512, 1024), jnp.float32, sharding=SingleDeviceSharding(device))
    text = compiled(fun, x).as_text()
    return sorted(set(re.findall(r'_xla_stream_annotation="1"|execution_thread="\w+"', text)))
