"""Kernels for GPUs (Mosaic GPU) that several devices run together: interpreted, compiled, and refused with reasons."""

import re

import mosaic_gpu_machine
import numpy as np
import pytest
from mosaic_gpu_machine import argument, lowered
from pallas_mosaic_gpu_devices_kernels import (
    DEVICES_KERNELS,
    SEMAPHORE,
    SHAPE,
    DevicesKernel,
    f32,
    like,
    mesh_of,
    to_next,
)

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.sharding import AxisType, PartitionSpec as P

INTERPRET = plgpu.InterpretParams()


@pytest.mark.parametrize("name", DEVICES_KERNELS)
def test_interpreted(name):
    kernel = DEVICES_KERNELS[name]
    x = argument(np.random.default_rng(0), kernel.arg)
    out = jax.jit(kernel.call(mesh_of(jax.devices(), kernel.devices), INTERPRET))(x)
    np.testing.assert_allclose(
        np.asarray(out).astype(np.float64), kernel.expected(x).astype(np.float64), rtol=1e-6
    )


def lowered_kernel(kernel):
    return lowered(kernel.call(mesh_of(jax.devices(), kernel.devices)), kernel.arg)


@pytest.mark.parametrize("name", DEVICES_KERNELS)
def test_compiled(name):
    kernel = DEVICES_KERNELS[name]
    x = argument(np.random.default_rng(0), kernel.arg)
    counters = 8
    outs = mosaic_gpu_machine.run_on_devices(
        lowered_kernel(kernel), [[part] for part in x], [kernel.out], counters
    )
    got = np.stack([out for (out,) in outs])
    np.testing.assert_allclose(
        got.astype(np.float64), kernel.expected(x).astype(np.float64), rtol=1e-6
    )


def in_scope(x_ref, o_ref, sem):
    def scope(buffer):
        plgpu.remote_ref(buffer, 0)[...] = x_ref[...]

    pl.run_scoped(scope, plgpu.SMEM(SHAPE, f32))


def everywhere(x_ref, o_ref, sem):
    plgpu.multicast_ref(o_ref, "d")[...] = x_ref[...]


def from_everywhere(x_ref, o_ref, sem):
    def scope(buffer, barrier):
        plgpu.copy_gmem_to_smem(plgpu.multicast_ref(x_ref, "d"), buffer, barrier)

    pl.run_scoped(scope, plgpu.SMEM(SHAPE, f32), plgpu.Barrier())


def adds_everywhere(x_ref, o_ref, sem):
    def scope(buffer):
        plgpu.copy_smem_to_gmem(buffer, plgpu.multicast_ref(o_ref, "d"), reduction_op="add")

    pl.run_scoped(scope, plgpu.SMEM(SHAPE, f32))


def signals_everywhere(x_ref, o_ref, sem):
    pl.semaphore_signal(plgpu.multicast_ref(sem, "d"))


def to(device_id, **options):
    def body(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, device_id=device_id, **options)

    return body


def stores_along(axes):
    return lambda x_ref, o_ref, sem: plgpu.multimem_store(x_ref[...], o_ref, axes)


def store_of(dtype, vec_size):
    def body(x_ref, o_ref, sem):
        layout = plgpu.Layout.WG_STRIDED(SHAPE, vec_size=vec_size)
        x = plgpu.layout_cast(x_ref[...].astype(dtype), layout)
        plgpu.multimem_store(x, o_ref, "d")

    return body, like(*SHAPE, dtype=dtype)


BF16 = store_of(jnp.bfloat16, 1)
ONE = like(*SHAPE)
# A body, the type of its result, and the messages of both, interpreted and compiled.
REFUSED = {
    "shared": (in_scope, ONE, "is in other memory", "to arguments, results and semaphores"),
    "write": (everywhere, ONE, "written by plgpu.multimem_store", "by plgpu.multimem_store or"),
    "read": (
        from_everywhere, ONE, "read by plgpu.multimem_load_reduce", "read by plgpu.multimem_load_reduce",
    ),
    "reduction": (adds_everywhere, ONE, None, "with reduction_op, to all devices at once"),
    "axis": (to({"z": 0}), ONE, r"has axes \['z'\]", r"has axes \['z'\], the mesh has \['d'\]"),
    "coordinates": (to((0, 1)), ONE, "2 coordinates, but the mesh has 1", "2 coordinates, but the"),
    "number": (to(5), ONE, "There is no device at {'d': 5}", None),
    "core": (to(0, core_index=1), ONE, "have no cores", "have no cores"),
    "axes": (stores_along("z"), ONE, "collective_axes are .'z'", "is for all devices of the mesh"),
    "twice": (stores_along(("d", "d")), ONE, "name all of the mesh's axes", "is for all devices"),
    "signal": (signals_everywhere, ONE, "counted by plgpu.semaphore_signal_multicast", "by plgpu.semaphore_signal_multicast"),
    "narrow": (*BF16, None, "have 2 bytes of bfloat16 beside each other"),
}  # fmt: skip


def sharded(body, out, mesh, interpret=None):
    return DevicesKernel(body, out, None).call(mesh, interpret)


@pytest.mark.parametrize("name", [n for n, r in REFUSED.items() if r[2]])
def test_refuses_interpreted(name):
    body, out, message, _ = REFUSED[name]
    call = sharded(body, out, mesh_of(jax.devices(), 2), INTERPRET)
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.compile(message, re.DOTALL)):
        jax.block_until_ready(call(jnp.zeros((2, *SHAPE))))


@pytest.mark.parametrize("name", [n for n, r in REFUSED.items() if r[3]])
def test_refuses_compiled(name):
    body, out, _, message = REFUSED[name]
    call = sharded(body, out, mesh_of(jax.devices(), 2))
    with pytest.raises((NotImplementedError, ValueError), match=message) as error:
        lowered(call, like(2, *SHAPE))
    assert "pallas_mosaic_gpu_devices_test.py" in "".join(error.value.__notes__)


def test_refuses_meshes():
    x = like(2, *SHAPE)
    backwards = mesh_of(jax.devices()[1::-1], 2)
    with pytest.raises(NotImplementedError, match=r"devices \[1, 0\]: XLA knows"):
        lowered(sharded(to_next, ONE, backwards), x)
    with pytest.raises(ValueError, match="is compiled for one: call it in jax.shard_map"):
        lowered(plgpu.kernel(to(1), out_type=ONE, scratch_types=[SEMAPHORE]), ONE)
    mesh = jax.make_mesh((2, 2), ("d", "e"), axis_types=(AxisType.Auto,) * 2)

    def of_one(x):
        kernel = plgpu.kernel(to_next, out_type=ONE, scratch_types=[SEMAPHORE])
        return kernel(x.reshape(SHAPE))[None]

    call = jax.shard_map(
        of_one, mesh=mesh, in_specs=P("d"), out_specs=P("d"), axis_names={"d"}, check_vma=False
    )
    with pytest.raises(NotImplementedError, match=r"axes \['e'\] are not manual"):
        lowered(call, x)
    with pytest.raises(ValueError, match="already"):
        lowered(sharded(lambda x, o, s: plgpu.remote_ref(plgpu.remote_ref(x, 0), 0), ONE, mesh), like(4, *SHAPE))  # fmt: skip


def test_devices_of_a_mesh_with_two_axes():
    def along_one(x_ref, o_ref, sem):
        there = {"e": 1 - lax.axis_index("e")}
        plgpu.remote_ref(o_ref, there)[...] = x_ref[...] + 10 * lax.axis_index("d")
        pl.semaphore_signal(sem, device_id=there)
        pl.semaphore_wait(sem)

    def to_all(x_ref, o_ref, sem):
        x = plgpu.multimem_load_reduce(x_ref, collective_axes=("e", "d"), reduction_op="add")
        o_ref[...] = x
        plgpu.semaphore_signal_multicast(sem, collective_axes=("d", "e"))
        pl.semaphore_wait(sem, 4)

    def to_opposite(x_ref, o_ref, sem):
        d, e = lax.axis_index("d"), lax.axis_index("e")
        plgpu.remote_ref(o_ref, (1 - d, 1 - e))[...] = x_ref[...]
        logical = 2 * (1 - d) + 1 - e
        pl.semaphore_signal(sem, device_id=logical, device_id_type=pl.DeviceIdType.LOGICAL)
        pl.semaphore_signal(sem, device_id={("d", "e"): logical})
        pl.semaphore_wait(sem, 2)

    mesh = jax.make_mesh((2, 2), ("d", "e"), axis_types=(AxisType.Auto,) * 2)
    x = np.random.default_rng(0).normal(size=(4, *SHAPE)).astype(np.float32)
    cases = [
        (along_one, x[[1, 0, 3, 2]] + 10 * np.array([0, 0, 1, 1])[:, None, None]),
        (to_all, np.broadcast_to(x.sum(0), x.shape)),
        (to_opposite, x[::-1]),
    ]
    for body, want in cases:
        out = sharded(body, ONE, mesh, INTERPRET)(x)
        np.testing.assert_allclose(out, want, rtol=1e-6)
        outs = mosaic_gpu_machine.run_on_devices(
            lowered(sharded(body, ONE, mesh), like(4, *SHAPE)), [[part] for part in x], [ONE], 1
        )
        np.testing.assert_allclose(np.stack([o for (o,) in outs]), want, rtol=1e-6)


def test_compiler_is_told_what_is_reached_on_all_devices():
    text = lowered_kernel(DEVICES_KERNELS["stored_on_all"]).as_text()
    assert 'multimem_parameters = "0,0,1,1"' in text
    assert 'xla_replica_ids = "0,1,2,3"' in text
    assert "uses_xla_collective_metadata = true" in text
    text = lowered_kernel(DEVICES_KERNELS["to_next"]).as_text()
    assert "multimem_parameters" not in text and 'xla_replica_ids = "0,1"' in text


def test_position_of_the_device_alone():
    def body(x_ref, o_ref, sem):
        o_ref[...] = x_ref[...] + lax.axis_index("d")

    mesh = mesh_of(jax.devices(), 2)
    x = np.zeros((2, *SHAPE), np.float32)
    low = lowered(sharded(body, ONE, mesh), like(2, *SHAPE))
    outs = mosaic_gpu_machine.run_on_devices(low, [[part] for part in x], [ONE], 1)
    for i, (out,) in enumerate(outs):
        np.testing.assert_array_equal(out, x[i] + i)


def test_semaphore_of_a_block_is_not_that_of_another():
    def body(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 1 + lax.axis_index("block"))
        o_ref[lax.axis_index("block")] = pl.semaphore_read(sem)

    x = jnp.zeros(3, jnp.int32)
    options = dict(scratch_types=[SEMAPHORE], grid=(3,), grid_names=("block",))
    out = plgpu.kernel(body, out_type=x, interpret=INTERPRET, **options)(x)
    np.testing.assert_array_equal(out, [1, 2, 3])
