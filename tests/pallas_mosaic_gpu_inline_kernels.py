"""Kernels for GPUs (Mosaic GPU) with functions that emit operations of MLIR (`plgpu.inline_mgpu`)."""

import numpy as np
from pallas_mosaic_gpu_kernels import SMEM, Kernel, f16, f32, like, swizzled

import jax.numpy as jnp
from jax import lax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, memref
from jax.experimental.mosaic import gpu as mgpu
from jax.experimental.pallas import mosaic_gpu as plgpu

STRIDED = plgpu.Layout.WG_STRIDED((64, 64), vec_size=2)
SPLAT = plgpu.Layout.WG_SPLAT
TILED = swizzled(128, f32)
R = plgpu.RefType


def inline(*arg_types, out=None):
    return plgpu.inline_mgpu(arg_types=arg_types, return_type=out)


def struct(*shape, dtype=f32, layout=STRIDED):
    return plgpu.ShapeDtypeStruct(shape, dtype, layout=layout)


@inline(R(), R(TILED), [R(), STRIDED], SPLAT, out={"y": struct(64, 64)})
def combine(ctx, plain, tiled, rest, factor):
    source, x = rest
    y = mgpu.FragmentedArray.load_strided(plain, vec_size=2)
    z = mgpu.FragmentedArray.load_tiled(tiled, 128, layout=x.layout)
    w = mgpu.FragmentedArray.load_untiled(source, layout=x.layout)
    scale = mgpu.FragmentedArray.splat(factor.registers[()], x.shape)
    return {"y": (x + y - 2 * z) * scale + w.max(0.0)}


def combines(x_ref, o_ref, plain, tiled):
    plain[...] = x_ref[...] * 2
    tiled[...] = x_ref[...] * 3
    o_ref[...] = combine(plain, tiled, [x_ref, x_ref[...]], jnp.float32(0.5))["y"]


def _combines(x):
    return (x + 2 * x - 6 * x) * 0.5 + np.maximum(x, 0)


@inline(R(), R())
def reverse(ctx, source, target):
    """Operations of dialects, on references."""
    index = ir.IndexType.get()
    at = arith.index_cast(index, mgpu.thread_idx())
    back = arith.subi(arith.constant(index, 127), at)
    memref.store(memref.load(source, [at]), target, [back])
    mgpu.warpgroup_barrier()
    with mgpu.single_thread():
        memref.store(mgpu.c(7, ir.F32Type.get()), target, [arith.constant(index, 3)])


def reverses(x_ref, o_ref):
    reverse(x_ref.at[lax.axis_index("row")], o_ref.at[lax.axis_index("row")])


def _reverses(x):
    out = x[:, ::-1].copy()
    out[:, 3] = 7
    return out


WGMMA = plgpu.Layout.WGMMA


@inline(
    WGMMA, R(swizzled(128, f16)),
    out=(struct(64, 64, dtype=f16, layout=WGMMA), struct(64, layout=WGMMA.reduce(1))),
)  # fmt: skip
def compute(ctx, x, tiled):
    """Arithmetic of arrays."""
    i = mgpu.FragmentedArray.broadcasted_iota(x.mlir_dtype, (64, 64), 1, x.layout)
    y = (-x.abs() < 0) & ~(x > 1.0)
    z = y.select(x.exp(), (i % 3.0) / 2.0)
    n = x.astype(ir.IntegerType.get_signless(32), is_signed=True) & 3
    z = z + n.astype(ir.F32Type.get()) - (1.0 - x)
    z.astype(ir.F16Type.get()).store_tiled(tiled, 128)
    mgpu.commit_shared()
    return mgpu.FragmentedArray.load_tiled(tiled, 128), z.reduce("add", 1)


def computes(x_ref, o_ref, tiled):
    x, total = compute(x_ref[...], tiled)
    o_ref[...] = x.astype(f32) + total[:, None]


def _computes(x):
    i = np.arange(64, dtype=np.float32)
    z = np.where(x > 1, i % 3 / 2, np.exp(x)) + (x.astype(np.int32) & 3) - (1 - x)
    return z.astype(np.float16).astype(np.float32) + z.sum(1, keepdims=True)


INLINE_KERNELS = {
    "combines": Kernel(
        combines, [like(64, 64)], like(64, 64), _combines,
        dict(scratch_types=[SMEM((64, 64), f32), SMEM((64, 64), f32, transforms=TILED)]),
    ),
    "reverses": Kernel(
        reverses, [like(2, 128)], like(2, 128), _reverses, dict(grid=(2,), grid_names=("row",))
    ),
    "computes": Kernel(
        computes, [like(64, 64)], like(64, 64), _computes,
        dict(scratch_types=[SMEM((64, 64), f16, transforms=swizzled(128, f16))]), tolerance=2e-3,
    ),
}  # fmt: skip
