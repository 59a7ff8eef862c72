"""Kernels for GPUs (Mosaic GPU) whose blocks use the shared memory of other blocks of their cluster."""

import numpy as np
from pallas_mosaic_gpu_kernels import SMEM, Kernel, bf16, f16, f32, i32, like, swizzled

import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

CLUSTER = dict(cluster=(2,), cluster_names=("c",))


def exchanged(shape, dtype, layout=None, transforms=()):
    """Each block stores what it has in the memory of the other one."""

    def body(x_ref, o_ref, buffer, barrier):
        c = lax.axis_index("c")
        x = x_ref[c] if layout is None else plgpu.load(x_ref, (c,), layout=layout, optimized=False)
        plgpu.async_store_smem(x, buffer, barrier, cluster_idx=1 - c, cluster_dim="c")
        plgpu.barrier_wait(barrier)
        o_ref[c] = buffer[...]

    types = [SMEM(shape, dtype, transforms=transforms), plgpu.Barrier()]
    x = like(2, *shape, dtype=dtype)
    return Kernel(body, [x], x, lambda x: x[::-1], CLUSTER | dict(scratch_types=types))


def added(x_ref, o_ref, buffer, barrier, all_cleared):
    c = lax.axis_index("c")
    buffer[...] = jnp.full(buffer.shape, c, i32)
    plgpu.barrier_arrive(all_cleared)
    plgpu.barrier_wait(all_cleared)
    for k in range(2):
        plgpu.async_store_smem(
            x_ref[c] * (k + 1), buffer, barrier, cluster_idx=1 - c, cluster_dim="c", atomic="add"
        )
    plgpu.barrier_wait(barrier)
    o_ref[c] = buffer[...]


def read(x_ref, o_ref, buffer, all_written):
    """Each block reads what the other one has, and writes a part of it."""
    c = lax.axis_index("c")
    other = plgpu.cluster_ref(buffer, {"c": 1 - c})
    buffer[...] = x_ref[c]

    def wait_for_all():
        plgpu.barrier_arrive(all_written)
        plgpu.barrier_wait(all_written)

    wait_for_all()
    x = other[...]
    wait_for_all()
    other.at[3][...] = x[3] * 2
    wait_for_all()
    o_ref[c] = x + buffer[...]


def _read(x):
    own = x.copy()
    own[:, 3] *= 2
    return x[::-1] + own


ALL = plgpu.ClusterBarrier(collective_axes=("c",))
CLUSTER_KERNELS = {
    "exchanged": exchanged((16, 64), f32),
    "exchanged_few": exchanged((3, 5), f32),
    "exchanged_swizzled": exchanged((64, 64), f16, plgpu.Layout.WGMMA, swizzled(128, f16)),
    "exchanged_wide": exchanged((64, 32), bf16, transforms=swizzled(64, bf16)),
    "added": Kernel(
        added, [like(2, 128, dtype=i32)], like(2, 128, dtype=i32),
        lambda x: 3 * x[::-1] + np.arange(2, dtype=np.int32)[:, None],
        CLUSTER | dict(scratch_types=[SMEM((128,), i32), plgpu.Barrier(num_arrivals=2), ALL]),
    ),
    "read": Kernel(
        read, [like(2, 8, 128)], like(2, 8, 128), _read,
        CLUSTER | dict(scratch_types=[SMEM((8, 128), f32), ALL]),
    ),
}  # fmt: skip
