"""Kernels for Blackwell GPUs (Mosaic GPU): tensor memory and tcgen05, with what they compute."""

import functools
import types

import numpy as np
from pallas_mosaic_gpu_kernels import SMEM, Kernel, bf16, f16, f32, i32, like, swizzled

import jax
import jax.numpy as jnp
from jax import dtypes, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas.ops.gpu import blackwell_matmul_mgpu, blackwell_ragged_dot_mgpu

# Operations of the library


def matmul(dtype, **options):
    options = (
        dict(tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=4, collective=False) | options
    )
    config = blackwell_matmul_mgpu.TuningConfig(**options)
    call = lambda a, b: blackwell_matmul_mgpu.matmul_kernel(a, b, config)
    return types.SimpleNamespace(
        call=call, args=[like(1024, 512, dtype=dtype), like(512, 1024, dtype=dtype)]
    )


def ragged(dtype, **options):
    options = (
        dict(
            tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=4, collective=False, grid_tile_width=1,
            grid_minor_dim=blackwell_matmul_mgpu.MatmulDimension.N,
        )
        | options
    )  # fmt: skip
    config = blackwell_ragged_dot_mgpu.TuningConfig(**options)
    call = lambda a, b, sizes: blackwell_ragged_dot_mgpu.ragged_dot_kernel(a, b, sizes, config)
    args = [like(1024, 512, dtype=dtype), like(8, 512, 1024, dtype=dtype), like(8, dtype=i32)]
    return types.SimpleNamespace(call=call, args=args)


OPERATIONS = {
    "matmul": matmul(bf16),
    "matmul_pair": matmul(bf16, collective=True, grid_tile_width=4),
    "matmul_float8": matmul(jnp.float8_e4m3fn, tile_k=128),
    "ragged": ragged(f16),
    "ragged_pair": ragged(bf16, collective=True),
    "ragged_float8": ragged(jnp.float8_e4m3fn, tile_k=128),
}


def gradient(kernel):
    """The derivative by both matrices, of a sum of squares."""
    square = lambda a, b, *sizes: (kernel.call(a, b, *sizes).astype(f32) ** 2).sum()
    return types.SimpleNamespace(call=jax.grad(square, (0, 1)), args=kernel.args)


GRADIENTS = {f"{name}_gradient": gradient(kernel) for name, kernel in OPERATIONS.items()}

TMEM, L = plgpu.TMEM, plgpu.Layout
i8, e4m3, e5m2 = jnp.int8, jnp.float8_e4m3fn, jnp.float8_e5m2
SWIZZLED = swizzled(128, bf16)
ORDERING = plgpu.Barrier(orders_tensor_core=True)


def turned(ref, is_turned):
    return plgpu.transpose_ref(ref, (1, 0)) if is_turned else ref


def _product(a, b, a_turned=False, b_turned=False):
    wide = np.int32 if a.dtype.kind == "i" else np.float32
    a, b = a.astype(wide), b.astype(wide)
    return (a.T if a_turned else a) @ (b.T if b_turned else b)


def product(
    m, n, k, dtype, out=f32, swizzle=128, turns=(False, False), layout=None, right=None,
    stores=(), memory=None, tolerance=1e-4,
):  # fmt: skip
    """A product of whole matrices in shared memory; the result is read in a layout."""

    def body(a_ref, b_ref, o_ref, a, b, acc, copied, done):
        plgpu.copy_gmem_to_smem(a_ref, a, copied)
        plgpu.copy_gmem_to_smem(b_ref, b, copied)
        plgpu.barrier_wait(copied)
        operands = turned(a, turns[0]), turned(b, turns[1])
        plgpu.tcgen05_mma(acc, *operands, done, accumulate=False)
        plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(acc, layout=layout)
        plgpu.wait_load_tmem()

    right = dtype if right is None else right
    shapes = [(k, m) if turns[0] else (m, k), (n, k) if turns[1] else (k, n)]
    types = [
        SMEM(s, d, transforms=swizzled(swizzle, d)) for s, d in zip(shapes, (dtype, right))
    ]  # fmt: skip
    acc = TMEM((m, n), out, packed=False if np.dtype(out).itemsize < 4 else None)
    return Kernel(
        body, [like(*s, dtype=d) for s, d in zip(shapes, (dtype, right))], like(m, n, dtype=out),
        functools.partial(_product, a_turned=turns[0], b_turned=turns[1]),
        dict(scratch_types=[*types, acc, plgpu.Barrier(num_arrivals=2), ORDERING]),
        tolerance,
    )  # fmt: skip


KERNELS = {
    "bfloat16": product(128, 128, 64, bf16),
    "float16": product(128, 64, 128, f16, out=f16, tolerance=0.05),
    "turned": product(128, 256, 64, bf16, swizzle=32, turns=(True, True)),
    "left_turned": product(128, 32, 64, f16, swizzle=64, turns=(True, False)),
    "wide": product(128, 512, 32, bf16, swizzle=64, turns=(False, True)),
    "rows_64": product(64, 128, 64, bf16),
    "rows_64_few": product(64, 96, 64, f16, swizzle=32),
    "float8": product(128, 128, 128, e4m3, right=e5m2),
    "float8_turned": product(128, 64, 128, e4m3, turns=(False, True)),
    "int8": product(128, 64, 128, i8, out=i32, turns=(False, True)),
    "tf32": product(128, 64, 64, f32, turns=(False, True)),
    "native": product(
        128, 48, 64, bf16, swizzle=32, layout=L.TCGEN05_TMEM_NATIVE, turns=(False, True)
    ),
    "native_float16": product(
        128, 64, 64, f16, out=f16, layout=L.TCGEN05_TMEM_NATIVE(2), tolerance=0.05
    ),
    "strided": product(128, 64, 64, bf16, layout=L.WG_STRIDED((128, 64), vec_size=4)),
}


def left_in_tensor_memory(dtype, copies, layout=None):
    """A product whose left matrix is copied to tensor memory from shared memory, or from registers."""

    def body(a_ref, b_ref, o_ref, a, b, left, acc, copied, done):
        plgpu.copy_gmem_to_smem(a_ref, a, copied)
        plgpu.copy_gmem_to_smem(b_ref, b, copied)
        plgpu.barrier_wait(copied)
        if copies:
            plgpu.async_copy_smem_to_tmem(a, left)
        else:
            plgpu.async_store_tmem(left, plgpu.load(a, (), layout=layout, optimized=False))
            plgpu.commit_tmem()
        plgpu.tcgen05_mma(acc, left, plgpu.transpose_ref(b, (1, 0)), accumulate=False)
        plgpu.tcgen05_commit_arrive(done)
        plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(acc)

    k = 128 // np.dtype(dtype).itemsize
    types = [SMEM(s, dtype, transforms=swizzled(128, dtype)) for s in ((128, k), (64, k))]
    types += [TMEM((128, k), dtype, packed=None if dtype == f32 else True), TMEM((128, 64), f32)]
    return Kernel(
        body, [like(128, k, dtype=dtype), like(64, k, dtype=dtype)], like(128, 64),
        functools.partial(_product, b_turned=True),
        dict(scratch_types=[*types, plgpu.Barrier(num_arrivals=2), ORDERING]), 1e-4,
    )  # fmt: skip


def parts(x_ref, o_ref, tensor, narrow):
    """What is stored in parts of tensor memory, and read from others."""
    x = x_ref[...]
    i = lax.axis_index("i")
    for k in range(2):
        plgpu.async_store_tmem(tensor.at[i], x * (k + 1))
        plgpu.async_store_tmem(tensor.at[1 - i, :, pl.ds(k * 16, 16)], x[:, 16 * k : 16 * k + 16])
        plgpu.commit_tmem()
    plgpu.async_store_tmem(narrow.at[:, 16:32], x[:, 16:].astype(bf16))
    plgpu.async_store_tmem(narrow.at[:, :16], 3.0)
    plgpu.commit_tmem()
    y = plgpu.async_load_tmem(tensor.at[i]) + plgpu.async_load_tmem(tensor.at[1 - i])
    o_ref[i] = y + plgpu.async_load_tmem(narrow).astype(f32)
    plgpu.wait_load_tmem()


def _parts(x):
    right = x[:, 16:].astype(bf16).astype(np.float32)
    return np.stack([3 * x + np.concatenate([np.full((128, 16), 3), right], 1)] * 2)


def shares(x_ref, o_ref, union):
    """References to the same tensor memory: of two arrays beside each other, and of one."""
    (first, second), whole = union
    plgpu.async_store_tmem(first, x_ref[...])
    plgpu.async_store_tmem(second, x_ref[:, :16].astype(f16))
    plgpu.commit_tmem()
    o_ref[...] = plgpu.async_load_tmem(first) + plgpu.async_load_tmem(second)[:, :1].astype(f32)
    plgpu.wait_load_tmem()
    plgpu.async_store_tmem(whole, jnp.zeros((128, 64), f32))
    plgpu.commit_tmem()


def sums_of_rows(x_ref, o_ref, tensor):
    plgpu.async_store_tmem(tensor, x_ref[...])
    plgpu.commit_tmem()
    x = plgpu.async_load_tmem(tensor)
    o_ref[...] = x - x.max(1, keepdims=True)


def pipelined(a_ref, b_ref, o_ref, acc, done, out):
    """A product of tiles by a pipeline over the inner dimension, with an epilogue through shared memory."""
    i, j = lax.axis_index("i"), lax.axis_index("j")

    def step(indices, a, b):
        (k,) = indices
        plgpu.tcgen05_mma(acc, a, b, done, accumulate=k > 0)
        plgpu.barrier_wait(done)

    plgpu.emit_pipeline(
        step,
        grid=(3,),
        in_specs=[
            plgpu.BlockSpec((128, 64), lambda k: (i, k), transforms=SWIZZLED),
            plgpu.BlockSpec((64, 128), lambda k: (k, j), transforms=SWIZZLED),
        ],
        max_concurrent_steps=2,
    )(a_ref, b_ref)
    out[...] = plgpu.async_load_tmem(acc).astype(bf16)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(out, o_ref.at[pl.ds(i * 128, 128), pl.ds(j * 128, 128)])
    plgpu.wait_smem_to_gmem(0)


KERNELS |= {
    "left_copied": left_in_tensor_memory(bf16, True),
    "left_copied_float8": left_in_tensor_memory(e4m3, True),
    "left_stored": left_in_tensor_memory(f16, False, L.TCGEN05),
    "left_stored_float8": left_in_tensor_memory(e5m2, False),
    "left_stored_tf32": left_in_tensor_memory(f32, False, L.TCGEN05_TMEM_NATIVE(4)),
    "parts": Kernel(
        parts, [like(128, 32)], like(2, 128, 32), _parts,
        dict(
            grid=(2,), grid_names=("i",),
            scratch_types=[TMEM((2, 128, 32), f32), TMEM((128, 32), bf16, packed=True)],
        ),
    ),
    "shares": Kernel(
        shares, [like(128, 32)], like(128, 32), lambda x: x + x[:, :1].astype(np.float16),
        dict(
            scratch_types=[
                plgpu.RefUnion(
                    (TMEM((128, 32), f32), TMEM((128, 16), f16, packed=True)), TMEM((128, 64), f32)
                )
            ]
        ),
    ),
    "sums_of_rows": Kernel(
        sums_of_rows, [like(128, 64)], like(128, 64), lambda x: x - x.max(1, keepdims=True),
        dict(scratch_types=[TMEM((128, 64), f32)]),
    ),
    "pipelined": Kernel(
        pipelined, [like(256, 192, dtype=bf16), like(192, 256, dtype=bf16)], like(256, 256, dtype=bf16), _product,
        dict(
            grid=(2, 2), grid_names=("i", "j"),
            scratch_types=[
                TMEM((128, 128), f32), ORDERING, SMEM((128, 128), bf16, transforms=SWIZZLED),
            ],
        ),
        tolerance=0.02,
    ),
}  # fmt: skip


# Products with scales, and of sparse matrices

e8m0, e2m1, u2 = jnp.float8_e8m0fnu, jnp.float4_e2m1fn, jnp.uint2
SCALES, POSITIONS = plgpu.TMEMLayout.SCALES_LAYOUT, plgpu.TMEMLayout.SPARSE_METADATA_LAYOUT


def tiles_of(dtype, swizzle=128):
    bits = dtypes.itemsize_bits(dtype)
    return (plgpu.TilingTransform((8, swizzle * 8 // bits)), plgpu.SwizzleTransform(swizzle))


def scales_in_order(scales):
    """Scales by rows and blocks, given those in the order in which they are copied."""
    m, n, *_ = scales.shape
    split = scales.astype(np.float32).reshape(m, n, 32, 4, 4)
    return split.transpose(0, 3, 2, 1, 4).reshape(m * 128, n * 4)


def multiplied_by(x, scales):
    factors = scales_in_order(scales)
    return x.astype(np.float32) * np.repeat(factors, x.shape[1] // factors.shape[1], 1)[: len(x)]


def positions_in_order(meta, bits):
    """Which two of four elements are there, given the order of the tensor core, in that of elements."""
    m, n, *_ = meta.shape
    at = np.arange(m * n * 128 * 64).reshape(m * 128, n * 32, 2)
    # What arranges positions arranges numbers of four values one after the other.
    digits = [at // 4**i % 4 for i in range(8)]
    dtype = np.int8 if bits == 8 else np.float16
    moved = [plgpu.format_tcgen05_sparse_metadata(d.astype(u2), dtype) for d in digits]
    source = sum([np.asarray(d).astype(np.int64) * 4**i for i, d in enumerate(moved)])
    out = np.zeros(at.size, np.int64)
    out[source.reshape(-1)] = meta.astype(np.int64).reshape(-1)
    return out.reshape(m * 128, n * 64)


def dense(x, positions):
    out = np.zeros((x.shape[0], 2 * x.shape[1]), np.float32)
    columns = np.arange(x.shape[1]) // 2 * 4 + positions
    np.put_along_axis(out, columns, x.astype(np.float32), 1)
    return out


def special(
    m,
    n,
    k,
    dtype,
    scale=None,
    is_sparse=False,
    block=32,
    out=f32,
    swizzle=128,
    axis=None,
    right=None,
):
    """A product with scales, or of a sparse matrix, or both; of two blocks if an axis is given."""

    def body(*refs):
        arrays, (o_ref, *rest) = refs[:count], refs[count:]
        buffers, (acc, *others) = rest[:count], rest[count:]
        *tensors, copied, done, all_done = others
        c = None if axis is None else lax.axis_index(axis)
        for i, (array, buffer) in enumerate(zip(arrays, buffers)):
            if axis is None:
                plgpu.copy_gmem_to_smem(array, buffer, copied)
                continue
            whole = i == 3 if scale is not None else False
            how = plgpu.CopyPartition.REPLICATED if whole else plgpu.CopyPartition.PARTITIONED(0)
            plgpu.copy_gmem_to_smem(array, buffer, copied, collective_axes=axis, leader_tracked=how)

        def multiply():
            plgpu.barrier_wait(copied)
            named = dict(zip(names, tensors))
            for name, buffer in zip(names, buffers[2:]):
                copy = (
                    plgpu.async_copy_sparse_metadata_to_tmem
                    if "sparse" in name
                    else plgpu.async_copy_scales_to_tmem
                )
                copy(buffer, named[name], collective_axis=axis)
            b = plgpu.transpose_ref(buffers[1], (1, 0))
            plgpu.tcgen05_mma(
                acc, buffers[0], b, done, accumulate=False, collective_axis=axis, **named
            )

        multiply() if axis is None else pl.when(c == 0)(multiply)
        plgpu.barrier_wait(done)
        part = slice(None) if axis is None else pl.ds(c * m, m)
        o_ref[part] = plgpu.async_load_tmem(acc)
        plgpu.wait_load_tmem()
        if axis is not None:
            plgpu.barrier_arrive(all_done)
            plgpu.barrier_wait(all_done)

    pair = 1 if axis is None else 2
    right = dtype if right is None else right
    width = k // 2 if is_sparse else k
    shapes, kinds = [(m, width), (n // pair, k)], [dtype, right]
    names, memory = [], []
    if scale is not None:
        names = ["a_scale", "b_scale"]
        wide = -(-n // 128)
        shapes += [(1, width // block // 4, 32, 16), (wide, width // block // 4, 32, 16)]
        kinds += [scale] * 2
        memory = [
            TMEM((rows, width // block), scale, layout=SCALES, collective=pair > 1)
            for rows in (m, 128 * wide)
        ]
    if is_sparse:
        names.append("a_sparse_metadata")
        shapes.append((1, k // 128, 128, 64))
        kinds.append(u2)
        memory.append(TMEM((m, width), u2, layout=POSITIONS, collective=pair > 1))
    count = len(shapes)
    in_shared = [
        SMEM(s, d, transforms=tiles_of(d, swizzle) if i < 2 else ())
        for i, (s, d) in enumerate(zip(shapes, kinds))
    ]
    both = [
        s if scale is not None and i == 3 else (pair * s[0], *s[1:]) for i, s in enumerate(shapes)
    ]

    def expected(a, b, *more):
        more = dict(zip(names, more))
        if scale is not None:
            a, b = multiplied_by(a, more["a_scale"]), multiplied_by(b, more["b_scale"])
        if is_sparse:
            a = dense(a, positions_in_order(more["a_sparse_metadata"], dtypes.itemsize_bits(dtype)))
        return a.astype(np.float32) @ b.astype(np.float32).T

    options = {} if axis is None else dict(cluster=(2,), cluster_names=(axis,))
    narrow = None if np.dtype(out).itemsize == 4 else False
    return Kernel(
        body, [like(*s, dtype=d) for s, d in zip(both, kinds)], like(pair * m, n, dtype=out), expected,
        dict(
            scratch_types=[
                *in_shared, TMEM((m, n), out, collective=pair > 1, packed=narrow), *memory,
                plgpu.Barrier(num_arrivals=count), ORDERING,
                plgpu.ClusterBarrier(collective_axes=(axis,), orders_tensor_core=True) if axis else plgpu.Barrier(),
            ],
            **options,
        ),
        tolerance=1e-3 if np.dtype(out).itemsize == 4 else 0.05,
    )  # fmt: skip


KERNELS |= {
    "scaled_float8": special(128, 128, 256, e4m3, e8m0),
    "scaled_float8_few": special(128, 64, 128, e5m2, e8m0),
    "scaled_float8_wide": special(128, 192, 256, e4m3, e8m0),
    "scaled_float8_mixed": special(128, 128, 128, e4m3, e8m0, right=e5m2),
    "scaled_float4": special(128, 128, 256, e2m1, e8m0),
    "scaled_float4_16": special(128, 256, 128, e2m1, jnp.float8_e4m3fn, block=16, swizzle=64),
    "scaled_pair": special(128, 256, 256, e4m3, e8m0, axis="x"),
    "scaled_pair_float4": special(128, 256, 256, e2m1, jnp.float8_e4m3fn, block=16, axis="x"),
    "sparse": special(128, 128, 256, bf16, is_sparse=True),
    "sparse_float16": special(128, 64, 128, f16, is_sparse=True, out=f16, swizzle=64),
    "sparse_float8": special(128, 128, 256, e4m3, is_sparse=True),
    "sparse_int8": special(128, 128, 256, i8, is_sparse=True, out=i32),
    "sparse_pair": special(128, 256, 128, bf16, is_sparse=True, axis="x"),
    "sparse_scaled": special(128, 128, 256, e4m3, e8m0, is_sparse=True),
}


# Pairs of blocks


def pair(m, n, replicated=False):
    """A product that two blocks compute together: each has half of the rows, and half of the right matrix."""

    def body(a_ref, b_ref, o_ref, a, b, acc, copied, done, all_done):
        c = lax.axis_index("x")
        part = plgpu.CopyPartition.PARTITIONED
        if replicated:  # a copy of its own each
            mine = a_ref.at[pl.ds(c * m, m)]
            plgpu.copy_gmem_to_smem(
                mine, a, copied, collective_axes="x", leader_tracked=plgpu.CopyPartition.REPLICATED
            )
        else:
            plgpu.copy_gmem_to_smem(a_ref, a, copied, collective_axes="x", leader_tracked=part(0))
        plgpu.copy_gmem_to_smem(b_ref, b, copied, collective_axes="x", leader_tracked=part(1))

        @pl.when(c == 0)
        def _():
            plgpu.barrier_wait(copied)
            plgpu.tcgen05_mma(acc, a, b, done, accumulate=False, collective_axis="x")

        plgpu.barrier_wait(done)
        o_ref[pl.ds(c * m, m)] = plgpu.async_load_tmem(acc)
        plgpu.wait_load_tmem()
        plgpu.barrier_arrive(all_done)
        plgpu.barrier_wait(all_done)

    return Kernel(
        body, [like(2 * m, 64, dtype=bf16), like(64, n, dtype=bf16)], like(2 * m, n), _product,
        dict(
            cluster=(2,), cluster_names=("x",),
            scratch_types=[
                SMEM((m, 64), bf16, transforms=SWIZZLED), SMEM((64, n // 2), bf16, transforms=SWIZZLED),
                TMEM((m, n), f32, collective=True), plgpu.Barrier(num_arrivals=2), ORDERING,
                plgpu.ClusterBarrier(collective_axes=("x",), orders_tensor_core=True),
            ],
        ),
        tolerance=1e-4,
    )  # fmt: skip


KERNELS |= {
    "pair": pair(128, 256),
    "pair_rows_64": pair(64, 128),
    "pair_replicated": pair(128, 128, True),
}


# Warps that copy, that multiply, and that read results at the same time: for several steps of each block


def specialized(a_ref, b_ref, o_ref, a, b, acc, out, copied, consumed, done):
    steps, buffers = 4, 2
    i = lax.axis_index("i")

    @plgpu.warp_map
    def _(warp):
        @pl.when(warp == 0)
        def _():
            @pl.loop(0, steps)
            def _(k):
                slot = lax.rem(k, buffers)

                @pl.when(k >= buffers)
                def _():
                    plgpu.barrier_wait(consumed.at[slot])

                part = pl.ds(k * 64, 64)
                rows = a_ref.at[pl.ds(i * 128, 128), part]
                plgpu.copy_gmem_to_smem(rows, a.at[slot], copied.at[slot])
                plgpu.copy_gmem_to_smem(b_ref.at[part], b.at[slot], copied.at[slot])

        @pl.when(warp == 1)
        def _():
            @pl.loop(0, steps)
            def _(k):
                slot = lax.rem(k, buffers)
                plgpu.barrier_wait(copied.at[slot])
                plgpu.tcgen05_mma(
                    acc, a.at[slot], b.at[slot], consumed.at[slot], accumulate=k > 0
                )  # fmt: skip

            plgpu.tcgen05_commit_arrive(done)

    plgpu.barrier_wait(done)
    out[...] = plgpu.async_load_tmem(acc).astype(bf16)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(out, o_ref.at[pl.ds(i * 128, 128)])
    plgpu.wait_smem_to_gmem(0)


SPECIALIZED = Kernel(
    specialized, [like(256, 256, dtype=bf16), like(256, 128, dtype=bf16)], like(256, 128, dtype=bf16), _product,
    dict(
        grid=(2,), grid_names=("i",),
        scratch_types=[
            SMEM((2, 128, 64), bf16, transforms=SWIZZLED), SMEM((2, 64, 128), bf16, transforms=SWIZZLED),
            TMEM((128, 128), f32), SMEM((128, 128), bf16, transforms=SWIZZLED),
            plgpu.Barrier(num_arrivals=2, num_barriers=2),
            plgpu.Barrier(num_barriers=2, orders_tensor_core=True), ORDERING,
        ],
    ),
    tolerance=0.02,
)  # fmt: skip


# Work of clusters that have not been started


def taken_over(x_ref, o_ref):
    @plgpu.dynamic_scheduling_loop(("i", "j"), cluster_axes=("c",), init_carry=jnp.float32(0))
    def steps(info, carry):
        i, j = info.index
        c = lax.axis_index("c")
        o_ref[i, j, c] = x_ref[i, j, c] * 2 + info.local_index.astype(f32) * 0
        return carry + 1


KERNELS |= {
    "taken_over": Kernel(
        taken_over, [like(4, 3, 2, 128)], like(4, 3, 2, 128), lambda x: 2 * x,
        dict(grid=(4, 3), grid_names=("i", "j"), cluster=(2,), cluster_names=("c",)),
    )
}  # fmt: skip
