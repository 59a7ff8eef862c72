"""Kernels for GPUs (Mosaic GPU) of what lanes do themselves: copies of small parts, products, padding, and what others compute."""

import numpy as np
import scipy.special
from pallas_mosaic_gpu_kernels import (
    SMEM,
    GridKernel,
    Kernel,
    bf16,
    f16,
    f32,
    i32,
    in_order,
    like,
    swizzled,
)

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

# Copies


def columns(x_ref, y_ref, z_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...].astype(f32) * z_ref[0, 0]


def _columns(x, y, z):
    return x + y * z


def over_rows(block, rows, n, params=None):
    """Blocks whose rows are no multiples of 16 bytes, the last ones beyond the arrays."""
    spec = plgpu.BlockSpec((block, n), lambda i: (i, 0))
    options = dict(
        grid=-(-rows // block), in_specs=[spec, spec, plgpu.BlockSpec((1, 1), lambda i: (0, 0))], out_specs=spec
    )  # fmt: skip
    if params is not None:
        options["compiler_params"] = params
    args = [like(rows, n), like(rows, n, dtype=jnp.int8), like(1, 1)]
    return GridKernel(columns, args, like(rows, n), _columns, options)


def swizzled_rows(x_ref, o_ref, buffer, barrier):
    """Swizzled memory for a part of an array whose rows begin anywhere."""
    plgpu.copy_gmem_to_smem(x_ref.at[:, 3:131], buffer, barrier)
    plgpu.barrier_wait(barrier)
    o_ref[...] = jnp.zeros((32, 192), f16)
    buffer[...] = buffer[...] * 2
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(buffer, o_ref.at[:, 8:136])
    plgpu.wait_smem_to_gmem(0)


def _swizzled_rows(x):
    out = np.zeros((32, 192), np.float16)
    out[:, 8:136] = x[:, 3:] * 2
    return out


def chosen(x_ref, o_ref, buffer, barrier):
    """Copies of single elements by a warp, and back if a condition holds."""
    o_ref[...] = jnp.zeros((8,), i32)

    @plgpu.warp_map
    def _(warp):
        @pl.when(warp == 1)
        def _():
            plgpu.copy_gmem_to_smem(x_ref.at[2:5], buffer, barrier)

    plgpu.barrier_wait(barrier)
    for i in range(2):
        plgpu.copy_smem_to_gmem(buffer, o_ref.at[pl.ds(4 * i, 3)], predicate=x_ref[i] > 0)
    plgpu.wait_smem_to_gmem(0)


def _chosen(x):
    out = np.zeros(8, np.int32)
    for i in range(2):
        if x[i] > 0:
            out[4 * i : 4 * i + 3] = x[2:5]
    return out


# Products


def multiplies(a_ref, b_ref, o_ref):
    o_ref[...] = lax.dot(a_ref[...], b_ref[...], preferred_element_type=o_ref.dtype)


def batches(a_ref, b_ref, o_ref):
    """Sums over two dimensions, which the operands have in different orders."""
    dims = (((3, 1), (0, 3)), ((0,), (1,)))
    o_ref[...] = lax.dot_general(a_ref[...], b_ref[...], dims)


def scores(a_ref, b_ref, o_ref):
    """What is multiplied is not in memory, and one operand has equal elements."""
    a = jnp.exp(a_ref[...])
    ones = jnp.ones((32,), f32)
    x = a @ b_ref[...].T
    o_ref[...] = x - x.max(1, keepdims=True) + (a @ ones)[:, None] + jnp.vdot(ones, ones)


def _scores(a, b):
    a = np.exp(a)
    x = a @ b.T
    return x - x.max(1, keepdims=True) + a.sum(1, keepdims=True) + 32


def turned_product(a_ref, b_ref, o_ref):
    """Both operands are transposed, and the result is used."""
    x = lax.dot_general(
        a_ref[...], b_ref[...], (((0,), (1,)), ((), ())), preferred_element_type=f32
    )
    o_ref[...] = x * 2


def product(m, k, n, dtype, result, tolerance=1e-5):
    expected = lambda a, b: a.astype(np.float32) @ b.astype(np.float32)
    args = [like(m, k, dtype=dtype), like(k, n, dtype=dtype)]
    return Kernel(multiplies, args, like(m, n, dtype=result), expected, tolerance=tolerance)


# Padding


def pads(x_ref, o_ref):
    x = x_ref[...]
    y = lax.pad(x, x[0, 0], [(1, -1, 0), (-3, 4, 1)])
    o_ref[...] = jnp.where(lax.pad(x > 0, True, [(2, -2, 0), (0, 1, 1)]), y, 0.0)


def _pads(x):
    y, mask = np.full((17, 67), x[0, 0]), np.ones((18, 64), bool)
    y[1:, :63:2] = x
    mask[2:, :63:2] = x > 0
    return np.where(mask[:16], y[:16, 3:], 0)


# What other operations, and CUDA's library, compute


def composes(x_ref, o_ref):
    x = x_ref[...]
    row = lax.broadcasted_iota(i32, x.shape, 0)
    some_equal = jnp.where(row == 3, jnp.nan, jnp.floor(x))
    first = lax.argmax(some_equal, 1, i32) * 64 + lax.argmin(x, 1, i32)
    a, b = lax.unstack(x[:2])
    pairs = lax.stack([b, a], 1).reshape(1, 128)
    o_ref[...] = lax.tile(x, (1, 2)) + first[:, None].astype(f32) + lax.tile(pairs, (8, 1))


def _composes(x):
    some_equal = np.floor(x)
    some_equal[3] = np.nan
    first = some_equal.argmax(1) * 64 + x.argmin(1)
    return np.tile(x, (1, 2)) + first[:, None] + np.stack([x[1], x[0]], 1).reshape(128)


def of_library(x_ref, o_ref):
    x = x_ref[...]
    y = lax.erf_inv(0.9 * jnp.tanh(x)) + lax.lgamma(jnp.abs(x) + 0.5)
    o_ref[...] = y + lax.nextafter(x, jnp.full_like(x, 2))


def _of_library(x):
    y = scipy.special.erfinv(0.9 * np.tanh(x)) + scipy.special.gammaln(np.abs(x) + 0.5)
    return y + np.nextafter(x, np.float32(2))


# Parts of arrays


def reverses(x_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = lax.rev(x, (0,)) + lax.rev(lax.rev(x, (1,))[:8], (0, 1))[0]


def parts_at(x_ref, i_ref, o_ref):
    """Parts that begin where a number says, the last of them beyond the array."""
    x, i = x_ref[...], i_ref[0]
    y = lax.dynamic_slice(x, (i, jnp.int32(40)), (4, 32)) * 2
    o_ref[...] = lax.dynamic_update_slice(x, y, (2 * i, i + 100))


def _parts_at(x, i):
    i = int(i[0])
    first = min(max(i, 0), 12)
    out = x.copy()
    at = min(max(2 * i, 0), 12), min(max(i + 100, 0), 32)
    out[at[0] : at[0] + 4, at[1] : at[1] + 32] = 2 * x[first : first + 4, 32:64]
    return out


def parities(x_ref, o_ref):
    x = x_ref[...]
    pairs = lax.reduce_xor(jnp.full((3, 2), 5, i32), (0, 1))
    o_ref[...] = lax.reduce_xor(x, (1,)) + pairs + lax.reduce_xor(x > 0, (0, 1)).astype(i32)


def _parities(x):
    return np.bitwise_xor.reduce(x, 1) + np.int32((x > 0).sum() % 2)


LANE_KERNELS = {
    "reverses": Kernel(
        reverses, [like(16, 64)], like(16, 64), lambda x: x[::-1] + x[7],
    ),
    "parts_at": Kernel(parts_at, [like(16, 64), like(1, dtype=i32)], like(16, 64), _parts_at),
    "parities": Kernel(parities, [like(16, 64, dtype=i32)], like(16, dtype=i32), _parities),
    "columns": over_rows(8, 12, 3),
    "few_rows": over_rows(5, 12, 3),
    "few_rows_in_order": over_rows(5, 22, 1, in_order("sequential")),
    "swizzled_rows": Kernel(
        swizzled_rows, [like(32, 131, dtype=f16)], like(32, 192, dtype=f16), _swizzled_rows,
        dict(scratch_types=[SMEM((32, 128), f16, transforms=swizzled(128, f16)), plgpu.Barrier()]),
    ),
    "chosen": Kernel(
        chosen, [like(5, dtype=i32)], like(8, dtype=i32), _chosen,
        dict(scratch_types=[SMEM((3,), i32), plgpu.Barrier()]),
    ),
    "product": product(16, 24, 64, f32, f32),
    "product_of_rows": product(64, 20, 24, f16, f32),
    "product_bfloat16": product(8, 32, 16, bf16, bf16, tolerance=1e-2),
    "product_of_warps": product(128, 48, 24, f16, f32),
    "product_of_pairs_of_warps": product(32, 16, 48, bf16, bf16, tolerance=1e-2),
    "product_of_columns": product(16, 64, 64, bf16, f32),
    "product_turned": Kernel(
        turned_product, [like(32, 64, dtype=bf16), like(16, 32, dtype=bf16)], like(64, 16),
        lambda a, b: a.astype(np.float32).T @ b.astype(np.float32).T * 2,
    ),
    "product_int8": product(16, 32, 16, jnp.int8, i32),
    "batches": Kernel(
        batches, [like(2, 4, 16, 5), like(5, 2, 8, 4)], like(2, 16, 8),
        lambda a, b: np.einsum("bqmk,kbnq->bmn", a, b),
    ),
    "scores": Kernel(scores, [like(16, 32), like(16, 32)], like(16, 16), _scores),
    "composes": Kernel(composes, [like(8, 64)], like(8, 128), _composes),
    "of_library": Kernel(of_library, [like(256)], like(256), _of_library, tolerance=1e-4),
    "pads": Kernel(pads, [like(16, 32)], like(16, 64), _pads),
}  # fmt: skip
