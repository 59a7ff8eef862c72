"""Kernels for Blackwell GPUs: run by the interpreter, and their modules by a machine; and what is refused."""

import mosaic_gpu_machine
import numpy as np
import pytest
from mosaic_gpu_machine import argument, lowered
from pallas_blackwell_kernels import KERNELS, ORDERING, SMEM, SPECIALIZED, TMEM, tiles_of
from pallas_mosaic_gpu_kernels import bf16, f16, f32, in_order, like, swizzled

import jax
import jax.numpy as jnp
from jax import dtypes
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


def close(kernel, got, want):
    np.testing.assert_allclose(
        np.asarray(got).astype(np.float64),
        np.asarray(want).astype(np.float64),
        rtol=kernel.tolerance,
        atol=kernel.tolerance,
    )


@pytest.mark.parametrize("name", KERNELS)
def test_computes(name):
    kernel = KERNELS[name]
    rng = np.random.default_rng(7)
    args = [argument(rng, a) for a in kernel.args]
    module = lowered(kernel.call, *kernel.args)
    (got,) = mosaic_gpu_machine.run(module, *args, outputs=[kernel.out])
    close(kernel, got, kernel.expected(*args))


@pytest.mark.parametrize("name", [*KERNELS, "specialized"])
def test_interpreted(name):
    kernel = {**KERNELS, "specialized": SPECIALIZED}[name]
    rng = np.random.default_rng(7)
    args = [argument(rng, a) for a in kernel.args]
    options = dict(out_type=kernel.out, interpret=plgpu.InterpretParams(), **kernel.options)
    close(kernel, jax.jit(plgpu.kernel(kernel.body, **options))(*args), kernel.expected(*args))


def accumulated(a_ref, b_ref, o_ref, acc, done):
    k = pl.program_id(1)
    plgpu.tcgen05_mma(acc, a_ref, b_ref, done, accumulate=k > 0)
    plgpu.barrier_wait(done)

    @pl.when(k == pl.num_programs(1) - 1)
    def _():
        o_ref[...] = plgpu.async_load_tmem(acc)
        plgpu.wait_load_tmem()


def test_tensor_memory_of_grids_and_under_vmap():
    swizzle = swizzled(128, bf16)
    call = pl.pallas_call(
        accumulated, like(256, 64), grid=(2, 2),
        in_specs=[
            plgpu.BlockSpec((128, 64), lambda i, k: (i, k), transforms=swizzle),
            plgpu.BlockSpec((64, 64), lambda i, k: (k, 0), transforms=swizzle),
        ],
        out_specs=plgpu.BlockSpec((128, 64), lambda i, k: (i, 0)),
        scratch_shapes=[TMEM((128, 64), f32), ORDERING],
        compiler_params=in_order("parallel", "sequential"),
    )  # fmt: skip
    types = like(2, 256, 128, dtype=bf16), like(2, 128, 64, dtype=bf16)
    rng = np.random.default_rng(7)
    a, b = [argument(rng, t) for t in types]
    module = lowered(jax.vmap(call), *types)
    (got,) = mosaic_gpu_machine.run(module, a, b, outputs=[like(2, 256, 64)])
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_work_of_other_clusters_is_that_of_one_launch_of_several():
    """Each element of a batch has a launch of its own: all find the positions in its grid."""
    kernel = KERNELS["taken_over"]
    (x,) = (argument(np.random.default_rng(7), like(3, *a.shape)) for a in kernel.args)
    call = plgpu.kernel(
        kernel.body, out_type=kernel.out, interpret=plgpu.InterpretParams(), **kernel.options
    )
    close(kernel, jax.jit(jax.vmap(call))(x), 2 * x)
    module = lowered(jax.vmap(kernel.call), like(*x.shape))
    assert module.as_text().count("stablehlo.while") == 1
    (got,) = mosaic_gpu_machine.run(module, x[0], outputs=[kernel.out])  # what the loop launches
    close(kernel, got, 2 * x[0])


def test_prints_layouts_of_tensor_memory(capsys):
    def body(o_ref, ref):
        plgpu.print_layout("it is {}", ref)
        plgpu.print_layout("and {}", plgpu.async_load_tmem(ref))

    call = plgpu.kernel(body, out_type=like(128, 64), scratch_types=[TMEM((128, 64), f32)])
    lowered(call)
    memory, registers = capsys.readouterr().out.splitlines()
    assert "TMEMTiledLayout(tiling=Tiling(tiles=((128, 1), (32, 1)))" in memory
    assert "TiledLayout(tiling=Tiling(tiles=((128, 8), (32, 8), (8, 8), (2,)))" in registers


def test_warps_copy_and_multiply():
    """The interpreter runs the kernel; here are the instructions of each warp, in loops of their own."""
    module = str(mosaic_gpu_machine.module_of(lowered(SPECIALIZED.call, *SPECIALIZED.args)))
    assert module.count("scf.for") == 2
    assert module.count("tcgen05.mma") == 4 and module.count("tcgen05.commit") == 2
    assert "mosaic_gpu.arch_major = 10" in module


# What is refused


def multiplies(a_type, b_type, acc_type, axis=None, turns=False, **options):
    def body(o_ref, a, b, acc):
        right = plgpu.transpose_ref(b, (1, 0)) if turns else b
        plgpu.tcgen05_mma(acc, a, right, accumulate=False, collective_axis=axis)

    return body, dict(scratch_types=[a_type, b_type, acc_type], **options)


def of_memory(body, *types, **options):
    return body, dict(scratch_types=types, **options)


def tiled(shape, dtype, swizzle=128):
    return SMEM(shape, dtype, transforms=swizzled(swizzle, dtype))


A, B, ACC = tiled((128, 64), bf16), tiled((64, 64), bf16), TMEM((128, 64), f32)
PAIR = dict(cluster=(2,), cluster_names=("x",))


def reads(part=lambda ref: ref):
    def body(o_ref, ref):
        plgpu.async_load_tmem(part(ref))

    return body


def writes_by_index(o_ref, ref):
    ref[...] = jnp.zeros(ref.shape, ref.dtype)


def loads_in_a_warp(o_ref, ref):
    plgpu.warp_map(lambda warp: plgpu.wait_load_tmem())


def arrives(o_ref, barrier):
    plgpu.tcgen05_commit_arrive(barrier)


def copies(copy):
    def body(o_ref, smem, tmem):
        copy(smem, tmem)

    return body


def scales(m, n, dtype=jnp.float8_e8m0fnu):
    return TMEM((m, n), dtype, layout=plgpu.TMEMLayout.SCALES_LAYOUT)


def positions(m, n):
    return TMEM((m, n), jnp.uint2, layout=plgpu.TMEMLayout.SPARSE_METADATA_LAYOUT)


def multiplies_scaled(dtype, of_a, of_b, shape=(128, 64, 128), left=None, acc=f32):
    """A product with scales, of a right matrix whose columns are beside each other."""
    m, n, k = shape

    def body(o_ref, a, b, acc, a_scale, b_scale):
        right = plgpu.transpose_ref(b, (1, 0))
        plgpu.tcgen05_mma(acc, a, right, accumulate=False, a_scale=a_scale, b_scale=b_scale)

    transforms = tiles_of(dtype, k * dtypes.itemsize_bits(dtype) // 8)
    memory = [SMEM(s, dtype, transforms=transforms) for s in ((m, k), (n, k))]
    packed = None if np.dtype(acc).itemsize == 4 else False
    types = [
        memory[0] if left is None else left,
        memory[1],
        TMEM((m, n), acc, packed=packed),
        of_a,
        of_b,
    ]
    return body, dict(scratch_types=types)


def multiplies_sparse(metadata, a, b, acc=ACC):
    def body(o_ref, a, b, acc, metadata):
        right = plgpu.transpose_ref(b, (1, 0))
        plgpu.tcgen05_mma(acc, a, right, accumulate=False, a_sparse_metadata=metadata)

    return body, dict(scratch_types=[a, b, acc, metadata])


e8m0, e4m3, e2m1 = jnp.float8_e8m0fnu, jnp.float8_e4m3fn, jnp.float4_e2m1fn
SPECIAL = {
    "dtype": (multiplies_scaled(bf16, scales(128, 4), scales(128, 4), (128, 64, 64)), "bfloat16 with scales of float8_e8m0fnu"),
    "two_kinds": (
        multiplies_scaled(e2m1, scales(128, 4), scales(128, 8, e4m3)), "blocks of as many elements, got float8_e8m0fnu for .* float8_e4m3fn",
    ),
    "result": (multiplies_scaled(e4m3, scales(128, 4), scales(128, 4), acc=f16), "in float32, not in float16"),
    "rows": (multiplies_scaled(e4m3, scales(128, 4), scales(128, 4), (64, 64, 128)), "products of 128 rows"),
    "inner": (multiplies_scaled(e4m3, scales(128, 4), scales(128, 4), (128, 64, 64)), "a multiple of 128 elements"),
    "scales": (
        multiplies_scaled(e4m3, scales(128, 4), scales(128, 8)),
        r"b_scale has shape \(128, 8\), .* accumulator of shape \(128, 64\) and 128 elements .* blocks of 32, it is \(128, 4\)",
    ),
    "layout": (
        multiplies_scaled(e4m3, TMEM((128, 4), e8m0, packed=True), scales(128, 4)), "layout=plgpu.TMEMLayout.SCALES_LAYOUT",
    ),
    "left_of_4_bits": (
        multiplies_scaled(e2m1, scales(128, 4), scales(128, 4), left=TMEM((128, 128), e2m1, packed=True)),
        "float4_e2m1fn from shared memory only",
    ),
    "copied_scales": (
        of_memory(copies(plgpu.async_copy_scales_to_tmem), SMEM((128, 4), e8m0), scales(128, 4)),
        r"shape \(1, 1, 32, 16\) and .*, got float8_e8m0fnu\[128,4\]",
    ),
    "copied_layout": (
        of_memory(copies(plgpu.async_copy_scales_to_tmem), SMEM((1, 1, 32, 16), e8m0), TMEM((128, 4), e8m0, packed=True)),
        "a layout of their own, .*SCALES_LAYOUT",
    ),
    "copied_tiles": (
        of_memory(
            copies(plgpu.async_copy_scales_to_tmem), SMEM((1, 1, 32, 16), e8m0, transforms=(plgpu.TilingTransform((8, 16)),)),
            scales(128, 4),
        ),
        "give its plgpu.SMEM.* no transforms",
    ),
    "copied_positions": (
        of_memory(copies(plgpu.async_copy_sparse_metadata_to_tmem), SMEM((1, 2, 128, 64), jnp.uint2), positions(128, 64)),
        r"shape \(1, 1, 128, 64\)",
    ),
    "positions": (
        multiplies_sparse(positions(128, 128), A, tiled((64, 128), bf16)), r"of shape \(128, 128\) for a sparse matrix of shape \(128, 64\)",
    ),
    "positions_layout": (
        multiplies_sparse(TMEM((128, 64), jnp.uint2, packed=True), A, tiled((64, 128), bf16)), "layout=plgpu.TMEMLayout.SPARSE_METADATA_LAYOUT",
    ),
    "sparse_dtype": (
        multiplies_sparse(positions(128, 64), tiled((128, 64), f32), tiled((64, 128), f32)), "of 8 and 16 bits, not of float32",
    ),
    "sparse_swizzle": (
        multiplies_sparse(positions(128, 64), A, tiled((64, 128), bf16, 32)), r"reads 64 bytes .*SwizzleTransform\(64\)",
    ),
}  # fmt: skip


REFUSED = {
    "columns": (of_memory(reads(), TMEM((128, 520), f32)), "520 columns of tensor memory, .* at most 512"),
    "kinds": (
        of_memory(lambda o, *_: None, ACC, TMEM((128, 64), f32, collective=True), **PAIR),
        "with and without collective=True",
    ),
    "no_pair": (of_memory(lambda o, _: None, TMEM((128, 64), f32, collective=True)), r"give .*cluster=\(2,\)"),
    "rows": (of_memory(reads(lambda r: r.at[pl.ds(0, 64)]), ACC), "all 128 rows .* slice its columns only"),
    "halves": (
        of_memory(reads(lambda r: r.at[:, pl.ds(0, 32)]), TMEM((64, 64), f32)), "all 64 columns of an array of 64 rows",
    ),
    "column": (
        of_memory(reads(lambda r: r.at[:, pl.ds(1, 32)]), TMEM((128, 64), f16, packed=True)), "all 2 that share 32 bits",
    ),
    "matrices": (of_memory(reads(), TMEM((2, 128, 64), f32)), r"choose one of shape \(128, 64\)"),
    "bytes": (of_memory(reads(), TMEM((128, 64), jnp.int8, packed=False)), "packed=True"),
    "index": (of_memory(writes_by_index, ACC), "by plgpu.async_store_tmem, not by an index"),
    "warp": (of_memory(loads_in_a_warp, ACC), "no wait_load_tmem in functions of single warps"),
    "arrival": (of_memory(arrives, ORDERING), "which has no tensor memory"),
    "swizzle": (multiplies(SMEM((128, 64), bf16), B, ACC), r"SwizzleTransform\(128\)"),
    "result": (multiplies(A, B, TMEM((128, 64), f16, packed=False)), "of bfloat16 and bfloat16 in float16"),
    "packed": (
        multiplies(tiled((128, 64), f16), tiled((64, 64), f16), TMEM((128, 64), f16, packed=True)),
        "packed=False, not packed=True, for float16",
    ),
    "shape": (multiplies(A, tiled((8, 64), bf16), TMEM((128, 8), f32), turns=True), "a multiple of 16 columns"),
    "tile": (
        multiplies(tiled((64, 64), bf16), tiled((64, 48), bf16, 32), TMEM((64, 48), f32)), "from 24 on .* no tile of 16 begins",
    ),
    "inner": (
        multiplies(tiled((128, 64), f32, 32), tiled((64, 64), f32, 32), ACC), "the right one's: transpose it",
    ),
    "left": (
        multiplies(TMEM((128, 64), bf16, packed=False), B, ACC), "whose elements fill columns",
    ),
    "axis": (
        multiplies(A, tiled((64, 64), bf16), TMEM((128, 128), f32, collective=True), "y", cluster=(2, 2), cluster_names=("y", "x")),
        "must be the last of the cluster's axes",
    ),
    "not_together": (
        multiplies(A, tiled((64, 64), bf16), TMEM((128, 128), f32), "x", **PAIR), "got collective_axis='x'",
    ),
    "wide_pair": (
        multiplies(A, tiled((64, 256), bf16), TMEM((128, 512), f32, collective=True), "x", **PAIR), "32 columns, at most 256",
    ),
}  # fmt: skip


REFUSED |= {f"special_{name}": case for name, case in SPECIAL.items()}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    (body, options), message = REFUSED[name]
    call = plgpu.kernel(body, out_type=like(128, 64), **options)
    with pytest.raises((NotImplementedError, ValueError), match=message):
        lowered(call)
