"""Kernels for GPUs (Mosaic GPU) that run on several devices together: for the interpreter, and compiled."""

import dataclasses
from collections.abc import Callable

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.sharding import AxisType, Mesh, PartitionSpec as P

f32, i32 = jnp.float32, jnp.int32
SHAPE = (8, 128)
SEMAPHORE = plgpu.SemaphoreType.REGULAR


def like(*shape, dtype=f32):
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def next_device(by=1):
    return lax.rem(lax.axis_index("d") + by, lax.axis_size("d"))


def meet(sem):
    """Wait until all devices have come here."""
    plgpu.semaphore_signal_multicast(sem, collective_axes="d")
    pl.semaphore_wait(sem, lax.axis_size("d"))


def to_next(x_ref, o_ref, sem):
    plgpu.remote_ref(o_ref, next_device())[...] = x_ref[...]
    pl.semaphore_signal(sem, device_id=next_device())
    pl.semaphore_wait(sem)


def from_next(x_ref, o_ref, sem):
    o_ref[...] = plgpu.remote_ref(x_ref, {"d": next_device()})[...] * 2
    pl.semaphore_signal(sem, device_id={"d": next_device()})
    pl.semaphore_wait(sem)


def copied_to_next(x_ref, o_ref, sem):
    def scope(buffer, barrier):
        plgpu.copy_gmem_to_smem(x_ref, buffer, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.commit_smem()
        there = plgpu.remote_ref(o_ref, next_device(), pl.DeviceIdType.LOGICAL)
        plgpu.copy_smem_to_gmem(buffer, there)
        plgpu.wait_smem_to_gmem(0)

    pl.run_scoped(scope, plgpu.SMEM(SHAPE, f32), plgpu.Barrier())
    plgpu.semaphore_signal(sem, 3, device_id=next_device())
    plgpu.semaphore_wait(sem, 3)


def copied_from_next(x_ref, o_ref, sem):
    def scope(buffer, barrier):
        plgpu.copy_gmem_to_smem(plgpu.remote_ref(x_ref, next_device()), buffer, barrier)
        plgpu.barrier_wait(barrier)
        o_ref[...] = buffer[...]

    pl.run_scoped(scope, plgpu.SMEM(SHAPE, f32), plgpu.Barrier())
    meet(sem)


def copied_to_all(x_ref, o_ref, sem):
    def scope(buffer, barrier):
        plgpu.copy_gmem_to_smem(x_ref, buffer, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.commit_smem()
        part = o_ref.at[lax.axis_index("d")]
        plgpu.copy_smem_to_gmem(buffer, plgpu.multicast_ref(part, "d"))
        plgpu.wait_smem_to_gmem(0)

    pl.run_scoped(scope, plgpu.SMEM(SHAPE, f32), plgpu.Barrier())
    meet(sem)


def stored_on_all(x_ref, o_ref, sem):
    plgpu.multimem_store(x_ref[...], o_ref.at[lax.axis_index("d")], "d")
    meet(sem)


def reduced(op):
    def body(x_ref, o_ref, sem):
        total = plgpu.multimem_load_reduce(x_ref, collective_axes="d", reduction_op=op)
        vec = 16 // x_ref.dtype.itemsize
        layout = plgpu.Layout.WG_STRIDED(SHAPE, vec_size=min(vec, 8))
        o_ref[...] = plgpu.layout_cast(total, layout)
        meet(sem)

    return body


def signals(x_ref, o_ref, sem, others):
    plgpu.semaphore_signal_parallel(
        plgpu.SemaphoreSignal(sem, device_id=next_device()),
        plgpu.SemaphoreSignal(others.at[1], device_id=next_device(2), inc=5),
    )
    pl.semaphore_wait(sem)
    pl.semaphore_wait(others.at[1], 5)
    o_ref[...] = x_ref[...] + lax.axis_index("d")


def blocks(x_ref, o_ref, sem):
    i = lax.axis_index("block")
    plgpu.remote_ref(o_ref.at[i], next_device())[...] = x_ref[i]
    pl.semaphore_signal(sem, device_id=next_device())
    pl.semaphore_wait(sem)


def around(x_ref, o_ref, sem):
    """Sums of what all have, passed around as in a ring."""

    def scope(buffer, passed):
        buffer[...] = x_ref[...]
        plgpu.commit_smem()
        o_ref[lax.axis_index("d")] = x_ref[...]
        for step in range(lax.axis_size("d") - 1):
            at = lax.rem(lax.axis_index("d") + lax.axis_size("d") - step, lax.axis_size("d"))
            there = plgpu.remote_ref(o_ref.at[at], next_device())
            there[...] = o_ref[at]
            pl.semaphore_signal(passed, device_id=next_device())
            pl.semaphore_wait(passed)

    pl.run_scoped(scope, plgpu.SMEM(SHAPE, f32), SEMAPHORE)
    meet(sem)


def global_semaphore(x_ref, o_ref, sem):
    shared = pl.get_global(SEMAPHORE)
    pl.semaphore_signal(shared, 2, device_id=next_device())
    pl.semaphore_wait(shared, 2)
    o_ref[...] = x_ref[...]


@dataclasses.dataclass(frozen=True)
class DevicesKernel:
    """A kernel, and what it computes.

    Attributes:
      body: function of references.
      out: the type of the result on a device.
      expected: function of the arrays of all devices, stacked, that returns the results of all.
      dtype: that of the arrays.
      shape: that of the array on a device.
      options: of plgpu.kernel.
      devices: on how many devices it runs.
    """

    body: Callable
    out: jax.ShapeDtypeStruct
    expected: Callable
    dtype: np.dtype = f32
    shape: tuple = SHAPE
    options: dict = dataclasses.field(default_factory=dict)
    devices: int = 2

    def call(self, mesh, interpret=None):
        """The function of arrays that are sharded along the first dimension, by all axes of a mesh."""
        options = dict(scratch_types=[SEMAPHORE]) | self.options

        def run(x):
            kernel = plgpu.kernel(self.body, out_type=self.out, interpret=interpret, **options)
            return kernel(x.reshape(self.shape))[None]

        spec = P(mesh.axis_names)
        return jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)

    @property
    def arg(self):
        return like(self.devices, *self.shape, dtype=self.dtype)


def mesh_of(devices, count):
    return Mesh(np.array(devices[:count]), ("d",), axis_types=(AxisType.Auto,))


def rolled(by):
    return lambda x: np.roll(x, by, 0)


def gathered(x):
    return np.broadcast_to(x, (len(x), *x.shape))


def sums(function):
    return lambda x: np.broadcast_to(function(x), x.shape)


ONE = like(*SHAPE)
ALL = [like(n, *SHAPE) for n in (2, 4)]
DEVICES_KERNELS = {
    "to_next": DevicesKernel(to_next, ONE, rolled(1)),
    "to_next_of_four": DevicesKernel(to_next, ONE, rolled(1), devices=4),
    "from_next": DevicesKernel(from_next, ONE, lambda x: 2 * np.roll(x, -1, 0), devices=4),
    "copied_to_next": DevicesKernel(copied_to_next, ONE, rolled(1)),
    "copied_from_next": DevicesKernel(copied_from_next, ONE, rolled(-1), devices=4),
    "copied_to_all": DevicesKernel(copied_to_all, ALL[0], gathered),
    "stored_on_all": DevicesKernel(stored_on_all, ALL[1], gathered, devices=4),
    "sum": DevicesKernel(reduced("add"), ONE, sums(lambda x: x.sum(0)), devices=4),
    "sum_bfloat16": DevicesKernel(
        reduced("add"), like(*SHAPE, dtype=jnp.bfloat16),
        sums(lambda x: x.astype(np.float32).sum(0).astype(x.dtype)), jnp.bfloat16,
    ),
    "max_float16": DevicesKernel(
        reduced("max"), like(*SHAPE, dtype=jnp.float16), sums(lambda x: x.max(0)), jnp.float16,
    ),
    "min_int32": DevicesKernel(
        reduced("min"), like(*SHAPE, dtype=i32), sums(lambda x: x.min(0)), i32
    ),
    "xor_int32": DevicesKernel(
        reduced("xor"), like(*SHAPE, dtype=i32), sums(np.bitwise_xor.reduce), i32, devices=4
    ),
    "signals": DevicesKernel(
        signals, ONE, lambda x: x + np.arange(4)[:, None, None],
        options=dict(scratch_types=[SEMAPHORE, SEMAPHORE(2)]), devices=4,
    ),
    "blocks": DevicesKernel(
        blocks, like(3, *SHAPE), rolled(1), shape=(3, *SHAPE),
        options=dict(grid=(3,), grid_names=("block",)),
    ),
    "around": DevicesKernel(around, ALL[1], gathered, devices=4),
    "global_semaphore": DevicesKernel(global_semaphore, ONE, rolled(0)),
}  # fmt: skip
