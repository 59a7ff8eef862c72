"""Kernels for GPUs (Mosaic GPU): their types and checks, and kernels that are run without a GPU.

The expected layouts, types and errors are those of PyPI's jax.
"""

import re

import numpy as np
import pytest
from pallas_mosaic_gpu_kernels import IN_CLUSTER

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.pallas.threaded.params import LoggingMode
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.sharding import PartitionSpec as P

f16, f32, i8 = jnp.float16, jnp.float32, jnp.int8
Struct = jax.ShapeDtypeStruct
L, TL, R = plgpu.Layout, plgpu.TMEMLayout, plgpu.Replicated
SWIZZLED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

# Layouts


def fields(layout):
    return layout.tiling.tiles, layout.warp_dims, layout.lane_dims, layout.vector_dim


WGMMA = ((64, 8), (16, 8), (8, 8), (2,))
LAYOUTS = [
    (L.WGMMA, (WGMMA, (-7,), (-3, -2), -1)),
    (L.WGMMA(), (WGMMA, (-7,), (-3, -2), -1)),
    (L.TCGEN05_TMEM_NATIVE, (((128, 2), (32, 2)), (-4,), (-2,), -1)),
    (L.TCGEN05_TMEM_NATIVE(4), (((128, 4), (32, 4)), (-4,), (-2,), -1)),
    (
        L.TCGEN05_M64_COLLECTIVE(128),
        (((64, 128), (32, 64), (8, 8), (2,)), (-6, -7), (-3, -2), -1),
    ),
    (L.TCGEN05_M64_COLLECTIVE_NATIVE(128), (((64, 128), (32, 64), (1,)), (-4, -5), (-3,), -1)),
    (L.WGMMA.reduce(1), (((64,), (16,), (8,), (1,)), (-4,), (-2, R(4)), -1)),
    (L.WGMMA.reduce(0), (((8,), (2,)), (R(4),), (R(8), -2), -1)),
    (L.WGMMA_TRANSPOSED.reduce(0), (((8,), (2,), (1,)), (R(4),), (R(4), -2, -3), -1)),
    (L.WGMMA_UPCAST_2X.reduce(1), (((64,), (16,), (8,), (1,)), (-4,), (-2, R(2), R(2)), -1)),
    (
        L.TCGEN05_M64_COLLECTIVE(128).reduce(1),
        (((64,), (32,), (8,), (1,)), (R(2), -4), (-2, R(4)), -1),
    ),
    (
        L.SMEM_GMEM_COPY((64, 128), f16, 128),
        (((32, 64), (8, 64), (4, 64), (8,)), (-7,), (-3, -2), -1),
    ),
    (L.SMEM_GMEM_COPY((64, 128), f32, 64), (((32, 16), (8, 16), (4,)), (-5,), (-3, -2), -1)),
    (
        L.SMEM_GMEM_COPY((64, 128), f16, 32),
        (((32, 32), (8, 32), (8, 16), (8,)), (-7,), (-4, -3, -2), -1),
    ),
    (
        L.SMEM_GMEM_COPY((16, 128), f32, 128),
        (((16, 64), (8, 32), (4, 32), (4,)), (-7, -6), (-3, -2), -1),
    ),
    (TL.SCALES_LAYOUT, (((128, 4), (32, 1)), (R(4),), (-2,), -3)),
    (
        TL.SCALES_M64_COLLECTIVE_LAYOUT,
        (((256, 4), (128, 4), (32, 4)), (R(2), -6), (-2,), -1),
    ),
    (TL.M64_COLLECTIVE_LAYOUT(128), (((64, 128), (32, 64), (1,)), (-4, -5), (-3,), -1)),
]


def test_layouts():
    for layout, expected in LAYOUTS:
        assert fields(layout.to_mgpu()) == expected, layout
    assert L.WG_STRIDED((256,), vec_size=1) == L.WG_STRIDED((256,), vec_size=1)
    assert len({L.WG_STRIDED((256,), vec_size=1), L.WG_STRIDED((256,), vec_size=2)}) == 2
    assert (len(L), len(TL), L.TMA_INDICES_4.value) == (16, 4, 16)


TMEM_LAYOUTS = [
    (plgpu.TMEM((128, 256), f32), ((128, 1), (32, 1))),
    (plgpu.TMEM((128, 256), f16, packed=True), ((128, 2), (32, 2))),
    (plgpu.TMEM((128, 256), i8, packed=True), ((128, 4), (32, 4))),
    (plgpu.TMEM((2, 128, 256), f32), ((128, 1), (32, 1))),
    (plgpu.TMEM((64, 256), f32), ((64, 256), (16, 128), (1,))),
    (plgpu.TMEM((64, 256), f32, collective=True), ((64, 256), (32, 128), (1,))),
    (plgpu.TMEM((128, 64), i8, layout=TL.SCALES_LAYOUT), ((128, 4), (32, 1))),
]


def test_layouts_of_tensor_memory():
    for ref, tiles in TMEM_LAYOUTS:
        assert ref.layout.tiling.tiles == tiles


def test_tilings():
    t = plgpu.Tiling(((8, 4), (2,)))
    assert str(t) == "Tiling((8, 4)(2,))"
    assert t.tile_shape((16, 8)) == (2, 2, 8, 2, 2) and t.untile_shape((2, 2, 8, 2, 2)) == (16, 8)
    assert t.tile_shape((3, 16, 8)) == (3, 2, 2, 8, 2, 2)
    assert t.tile_strides((8, 1)) == (64, 4, 8, 2, 1)
    assert t.tile_indices((9, 5)) == (1, 1, 1, 0, 1) and t.untile_indices((1, 1, 1, 0, 1)) == (9, 5)
    assert t.tile_dimension(0) == (True, False, True, False, False)
    assert t.remove_dimension(0).tiles == ((4,), (2,)) and t.remove_dimension(1).tiles == ((8,),)
    canonical = lambda *tiles: plgpu.Tiling(tiles).canonicalize().tiles
    assert canonical((8, 4), (8, 2), (2,)) == ((8, 4), (8, 2))
    assert canonical((1, 4), (4,), (4,)) == ((1, 4),)
    assert canonical((8, 4), (4, 4), (1,)) == ((8, 4), (4, 4), (1,))
    nested = t.tile_nested_shape_strides
    assert nested(((4, 4), (2, 4)), ((64, 8), (4, 1))) == (
        ((2,), (2,), (2, 4), (2,), (2,)),
        ((128,), (4,), (64, 8), (2,), (1,)),
    )


def test_types():
    assert str(plgpu.SMEM((8, 64), f16, transforms=SWIZZLED).get_ref_aval()) == (
        "Ref<smem>{float16[8,64]}"
    )
    assert str(plgpu.Barrier(num_barriers=(2, 3)).get_ref_aval()) == "Ref<smem>{barrier[2,3]}"
    cluster = plgpu.ClusterBarrier(collective_axes=("x",), num_barriers=2)
    assert str(cluster.get_ref_aval()) == "Ref<smem>{cluster_barrier[2]}"
    assert str(plgpu.ACC((64, 128)).get_ref_aval()) == "Ref<regs>{float32[64,128]}"
    assert str(plgpu.SemaphoreType.REGULAR.get_ref_aval()) == "Ref<gmem>{semaphore[]}"
    union = lambda *refs: plgpu.RefUnion(*refs).shape
    half = plgpu.SMEM((16,), f16)
    assert union(plgpu.SMEM((8,), f32), half) == (32,)
    assert union(plgpu.SMEM((8,), f32), [half, half]) == (1056,)
    assert union(plgpu.TMEM((128, 16), f32), plgpu.TMEM((128, 64), f16, packed=True)) == (128, 32)
    tile = plgpu.TilingTransform((8, 32))
    ref = plgpu.SMEM((64,), f32).get_ref_aval()
    assert str(plgpu.TilingTransform((8,)).transform_type(ref)) == "Ref<smem>{float32[8,8]}"
    assert tile.undo(None).undo(None) == tile
    mesh = plgpu.Mesh(grid=(2,), grid_names=("x",), num_threads=3, thread_name="wg")
    assert dict(mesh.shape) == {"x": 2, "wg": 3} and str(mesh.default_memory_space) == "gmem"
    assert dict(plgpu.WarpMesh(axis_name="w").shape) == {"w": 4}
    params = plgpu.CompilerParams(dimension_semantics=["parallel"]).replace(approx_math=True)
    assert params.dimension_semantics == ("parallel",) and params.approx_math


MESH = dict(grid=(2,), grid_names=("x",))
ERRORS = [
    (lambda: plgpu.SMEM((8,), f32, packed=True), "only supported for TMEM"),
    (lambda: plgpu.TMEM((128, 8), f16), "narrower than 32-bit require"),
    (lambda: plgpu.TMEM((32, 8), f32), "must have either 128 or 64 rows, but got 32"),
    (lambda: plgpu.TMEM((128, 8), i8, layout=TL.SCALES_LAYOUT, packed=True), "packed cannot be"),
    (lambda: plgpu.TMEM((128, 8), f32, transforms=SWIZZLED), "not supported for TMEM"),
    (lambda: plgpu.Barrier(num_arrivals=0), "Num arrivals must be at least 1, but got 0"),
    (lambda: plgpu.Barrier().get_array_aval(), "Barriers are not arrays"),
    (lambda: plgpu.SwizzleTransform(16), "Swizzle 16 is not supported"),
    (
        lambda: plgpu.SMEM((64, 64), f32, transforms=SWIZZLED).get_ref_aval(),
        r"Swizzle 128 requires the trailing dimension to be of size 32, .* \(8, 1, 8, 64\)",
    ),
    (lambda: plgpu.CompilerParams(profile_space=10), "Either both profile_space and profile_dir"),
    (lambda: plgpu.Mesh(grid=(2,), grid_names=()), "grid_names must have the same length as grid"),
    (lambda: plgpu.Mesh(num_threads=2, **MESH), "must be either both set or both None"),
    (lambda: plgpu.Mesh(num_threads=17, thread_name="t"), "At most 16 are supported"),
    (lambda: plgpu.ACC.init(jnp.zeros((64, 8))).get_ref_aval(), "only supported in pl.run_state"),
    (lambda: plgpu.Tiling(((2,), (4, 4))), "Tiles must have a decreasing rank"),
    (lambda: plgpu.Tiling(((8, 4),)).tile_shape((16, 7)), "does not apply to shape"),
    (lambda: plgpu.Tiling(((8, 4),)).tile_dimension(2), "Invalid dimension 2"),
    (lambda: L.WGMMA(3).to_mgpu(), "Can't instantiate Layout.WGMMA with arguments"),
    (lambda: L.WG_SPLAT((4,)).reduce(0).to_mgpu(), "Only TiledLayout supports reductions"),
    (lambda: plgpu.find_swizzle(100, "lhs"), "No valid out swizzle for lhs: minor dimension has"),
    (lambda: plgpu.broadcasted_iota(jnp.int32, (3,), 2), "iota dimension must be between 0 and"),
]  # fmt: skip


def test_errors_of_types():
    for call, message in ERRORS:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(NotImplementedError, match="must have the same memory space"):
        plgpu.RefUnion(plgpu.GMEM((8,), f32))
    with pytest.raises(NotImplementedError, match="cannot detect races"):
        plgpu.InterpretParams(detect_races=True)
    with pytest.raises(NotImplementedError, match="cannot print what a kernel does"):
        plgpu.InterpretParams(logging_mode=LoggingMode.BARRIER)
    with pytest.raises(ValueError, match="uninitialized_memory must be 'nan' or 'zero', got 'one'"):
        plgpu.InterpretParams(uninitialized_memory="one")


def test_arithmetic_of_layouts():
    assert [plgpu.find_swizzle(n) for n in (1024, 512, 256, 128, 768)] == [128, 64, 32, 16, 32]
    snake = jax.jit(lambda i, d: plgpu.planar_snake(i, (4, 6), d, 3 + d), static_argnums=1)
    rows = [tuple(map(int, snake(jnp.int32(i), 0))) for i in (0, 4, 17, 18, 23)]
    assert rows == [(0, 0), (1, 1), (2, 5), (3, 5), (3, 0)]
    columns = [tuple(map(int, snake(jnp.int32(i), 1))) for i in (0, 5, 16, 17, 23)]
    assert columns == [(0, 0), (1, 1), (3, 4), (3, 5), (0, 5)]
    meta = jnp.asarray(np.arange(128 * 32 * 2).reshape(128, 32, 2) % 4, jnp.uint2)
    for dtype, at in ((f16, (0, 0, 0, 8)), (i8, (0, 0, 0, 2))):
        out = plgpu.format_tcgen05_sparse_metadata(meta, dtype)
        assert out.shape == (1, 1, 128, 64)
        assert int(out[at]) == int(meta[8 if dtype is f16 else 0, 0 if dtype is f16 else 1, 0])


# Checks of operations

SM, B = plgpu.SMEM((64, 64), f32), plgpu.Barrier()
ACC = plgpu.ACC((64, 64))


def with_acc(f, acc=ACC):
    return lambda a, o, s, b: pl.run_scoped(lambda ref: f(ref, a, s), acc)


CHECKS = [
    (lambda a, o, s, b: plgpu.copy_gmem_to_smem(s, s, b), "src must be a GMEM reference"),
    (lambda a, o, s, b: plgpu.copy_gmem_to_smem(a, o, b), "dst must be a SMEM reference"),
    (lambda a, o, s, b: plgpu.copy_gmem_to_smem(a.at[0], s, b), "one shape and dtype"),
    (lambda a, o, s, b: plgpu.copy_gmem_to_smem(a, s, s), "takes a barrier"),
    (
        lambda a, o, s, b: plgpu.copy_gmem_to_smem(
            a, s, b, leader_tracked=plgpu.CopyPartition.REPLICATED
        ),
        "`collective_axes` must be specified when `leader_tracked` is set",
    ),
    (lambda a, o, s, b: plgpu.copy_smem_to_gmem(a, o), "src must be a SMEM reference"),
    (lambda a, o, s, b: plgpu.copy_smem_to_gmem(s, o, reduction_op="mul"), "must be one of add"),
    (lambda a, o, s, b: plgpu.barrier_wait(3), "Can only call `barrier_wait` on a `Ref`: 3"),
    (lambda a, o, s, b: plgpu.wgmma(s, s, s), "plgpu.ACC"),
    (
        with_acc(lambda r, a, s: plgpu.wgmma(r, s, s), plgpu.ACC((128, 64))),
        r"Incompatible shapes for matrix multiplication: lhs=\(64, 64\)",
    ),
    (with_acc(lambda r, a, s: plgpu.wgmma(r, s, s), plgpu.ACC((64, 64), i8)), "accumulates"),
    (with_acc(lambda r, a, s: plgpu.wgmma(r, a, s)), "a must be a SMEM reference"),
    (with_acc(lambda r, a, s: r.__setitem__(..., a[...])), "only written by plgpu.wgmma"),
    (lambda a, o, s, b: plgpu.set_max_registers(41, action="decrease"), "multiple of 8"),
    (lambda a, o, s, b: plgpu.atomic_and(o, a[...]), "atomic_and is for integers"),
    (lambda a, o, s, b: plgpu.atomic_add(o, a[0]), "Invalid shape for `atomic_add`"),
    (lambda a, o, s, b: plgpu.semaphore_signal(s), "non-\\(\\)-shaped semaphore"),
    (lambda a, o, s, b: plgpu.async_load_tmem(s), "Async load only supports TMEM refs"),
    (lambda a, o, s, b: plgpu.tcgen05_mma(s, s, s, b), "Accumulator must be a TMEM Ref"),
    (lambda a, o, s, b: plgpu.tcgen05_commit_arrive(b), "must have orders_tensor_core set"),
    (lambda a, o, s, b: 3, "should return None"),
]


def test_checks_of_operations():
    x = Struct((64, 64), f32)
    for body, message in CHECKS:
        f = plgpu.kernel(body, out_type=x, scratch_types=[SM, B], **MESH)
        with pytest.raises((ValueError, TypeError), match=message):
            jax.eval_shape(f, x)


# Kernels

INTERPRET = plgpu.InterpretParams()


def run(body, out, *args, scratch=(), interpret=INTERPRET, **mesh):
    f = plgpu.kernel(body, out_type=out, scratch_types=scratch, interpret=interpret, **mesh)
    return np.asarray(f(*args))


def test_copies_and_barriers():
    def body(x_ref, o_ref, buffer, barrier):
        i = lax.axis_index("block")
        plgpu.copy_gmem_to_smem(x_ref.at[pl.ds(i * 4, 4)], buffer, barrier)
        plgpu.barrier_wait(barrier)
        buffer[...] = buffer[...] * 2
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(buffer, o_ref.at[pl.ds(i * 4, 4)])
        plgpu.wait_smem_to_gmem(0)

    x = jnp.arange(10.0)
    scratch = [plgpu.SMEM((4,), f32), B]
    # The last block is in part beyond the array: its copy reads zeros, and does not write there.
    out = run(body, x, x, scratch=scratch, grid=(3,), grid_names=("block",))
    np.testing.assert_array_equal(out, 2 * np.arange(10))
    with pytest.raises(ValueError, match="out_type or its old name"):
        plgpu.kernel(body, x, out_type=x)
    with pytest.warns(DeprecationWarning, match="use out_type"):
        plgpu.kernel(body, x)


def product(a, b, o, sa, sb, so, barrier):
    for i in range(2):
        plgpu.copy_gmem_to_smem(a.at[pl.ds(64 * i, 64)], sa, barrier.at[0])
        plgpu.copy_gmem_to_smem(b, sb, barrier.at[0])
        plgpu.barrier_wait(barrier.at[0])

        def multiply(acc):
            plgpu.wgmma(acc, sa, sb)
            plgpu.wgmma(acc, sa[...], plgpu.transpose_ref(sb, (1, 0)))
            plgpu.wgmma_wait(0)
            return plgpu.layout_cast(acc[...], L.WGMMA)

        so[...] = pl.run_scoped(multiply, ACC).astype(f16)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(so, o.at[pl.ds(64 * i, 64)])
        plgpu.wait_smem_to_gmem(0)


def test_products():
    a, b = np.random.RandomState(0).randn(2, 128, 64).astype(np.float16) / 8
    b = b[:64]
    half = plgpu.SMEM((64, 64), f16, transforms=SWIZZLED)
    scratch = [half] * 3 + [plgpu.Barrier(num_arrivals=2)]
    out = run(product, Struct((128, 64), f16), a, b, scratch=scratch)
    wide = a.astype(np.float32) @ (b + b.T).astype(np.float32)
    np.testing.assert_allclose(out, wide, rtol=2e-3, atol=2e-3)

    def with_first_value(x_ref, o_ref, s):
        s[...] = x_ref[...]
        double = pl.run_state(lambda acc: plgpu.wgmma(acc, s, s))
        o_ref[...] = double(plgpu.ACC.init(jnp.ones((64, 64))))

    out = run(with_first_value, Struct((64, 64), f32), b, scratch=[plgpu.SMEM((64, 64), f16)])
    wide = b.astype(np.float32)
    np.testing.assert_allclose(out, wide @ wide + 1, rtol=1e-5, atol=1e-5)


def test_products_of_tensor_memory():
    def body(a, o, acc, scaled, sa, sb, loaded, done):
        plgpu.copy_gmem_to_smem(a, sa, loaded)
        plgpu.copy_gmem_to_smem(a.at[pl.ds(0, 64)], sb, loaded)
        plgpu.barrier_wait(loaded)
        plgpu.async_copy_smem_to_tmem(sa, scaled)
        plgpu.tcgen05_mma(acc, sa, sb, accumulate=False)
        plgpu.tcgen05_mma(acc, scaled, sb, done)
        plgpu.barrier_wait(done)
        x = plgpu.async_load_tmem(acc, layout=L.TCGEN05)
        plgpu.wait_load_tmem()
        plgpu.async_store_tmem(acc, x * 2)
        plgpu.commit_tmem()
        o[...] = plgpu.async_load_tmem(acc)

    a = np.random.RandomState(0).randn(128, 64).astype(np.float16)
    scratch = dict(
        acc=plgpu.TMEM((128, 64), f32),
        scaled=plgpu.TMEM((128, 64), f16, packed=True),
        sa=plgpu.SMEM((128, 64), f16, transforms=SWIZZLED),
        sb=plgpu.SMEM((64, 64), f16, transforms=SWIZZLED),
        loaded=plgpu.Barrier(num_arrivals=2),
        done=plgpu.Barrier(orders_tensor_core=True),
    )
    out = run(body, Struct((128, 64), f32), a, scratch=scratch)
    wide = a.astype(np.float32)
    np.testing.assert_allclose(out, 4 * wide @ wide[:64], rtol=1e-4, atol=1e-4)


x32 = jnp.arange(64.0).reshape(8, 8)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_pipelines(steps):
    spec = plgpu.BlockSpec((4, 4), lambda i, j: (i, j), delay_release=int(steps > 1))
    whole = plgpu.BlockSpec(memory_space=plgpu.GMEM)
    column = plgpu.BlockSpec((4, None), lambda i, j: (i, j))

    def body(x_ref, y_ref, o_ref, total_ref):
        def step(indices, x, y, z, o, total):
            o[...] = x[...] + y[pl.ds(indices[0] * 4, 4), :4] + z[...][:, None]
            return total + x[0, 0]

        pipeline = plgpu.emit_pipeline(
            step, grid=(2, 2), in_specs=[spec, whole, column], out_specs=[spec],
            max_concurrent_steps=steps, init_carry=jnp.float32(0),
        )  # fmt: skip
        total_ref[...] = pipeline(x_ref, y_ref, y_ref, o_ref)

    f = plgpu.kernel(body, out_type=(x32, Struct((), f32)), interpret=INTERPRET)
    out, total = f(x32, x32)
    left = np.concatenate([x32[:, :4]] * 2, axis=1)
    np.testing.assert_array_equal(out, x32 + left + np.repeat(x32[:, :2], 4, axis=1))
    assert float(total) == float(x32[::4, ::4].sum())


@pytest.mark.parametrize("manual", [False, True])
def test_warp_specialized_pipelines(manual):
    spec = plgpu.BlockSpec((4, 4), lambda i, j: (i, j))

    def body(x_ref, o_ref, total_ref):
        def step(indices, x, o, *rest):
            *consumed, total = rest
            rows = pl.ds(lax.axis_index("wg") * 2, 2)
            o[rows] = x[rows] * 2
            for barrier in consumed:
                plgpu.barrier_arrive(barrier)
            return total + x[0, 0]

        def context(pipeline):
            total = pipeline(jnp.float32(0))
            total_ref[lax.axis_index("wg")] = total

        options = dict(
            grid=(2, 2), memory_registers=40, wg_axis="wg", num_compute_wgs=2, in_specs=[spec],
            out_specs=[spec], manual_consumed_barriers=manual, compute_context=context,
        )  # fmt: skip
        pipelines = [
            plgpu.emit_pipeline_warp_specialized(step, pipeline_state=s, **options)
            for s in (plgpu.PipelinePipeline.START, plgpu.PipelinePipeline.STOP)
        ]

        def in_sequence(allocations):
            for p in pipelines:
                p(x_ref, o_ref, allocations=allocations)

        if manual:
            types = pipelines[0].get_allocations(x_ref, o_ref)
            pl.run_scoped(in_sequence, types, collective_axes="wg")
        else:
            plgpu.emit_pipeline_warp_specialized(step, **options)(x_ref, o_ref)

    f = plgpu.kernel(
        body,
        out_type=(x32, Struct((2,), f32)),
        interpret=INTERPRET,
        num_threads=3,
        thread_name="wg",
    )
    out, total = f(x32)
    np.testing.assert_array_equal(out, 2 * x32)
    np.testing.assert_array_equal(total, [float(x32[::4, ::4].sum())] * 2)


def test_blocks_of_a_cluster():
    def body(x_ref, o_ref, mine, both, loaded, met, stored):
        c = lax.axis_index("c")
        plgpu.copy_gmem_to_smem(x_ref, both, loaded, collective_axes="c")
        plgpu.barrier_wait(loaded)
        mine[...] = x_ref[c]
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        o_ref[c, 0] = plgpu.cluster_ref(mine, {"c": 1 - c})[...] + both[0]
        plgpu.async_store_smem(
            x_ref[c], mine, stored, cluster_idx=1 - c, cluster_dim="c", atomic="add"
        )
        plgpu.barrier_wait(stored)
        o_ref[c, 1] = mine[...]

    x = jnp.arange(8.0).reshape(2, 4)
    scratch = [
        plgpu.SMEM((4,), f32), plgpu.SMEM((2, 4), f32), B,
        plgpu.ClusterBarrier(collective_axes=("c",)), B,
    ]  # fmt: skip
    cluster = dict(cluster=(2,), cluster_names=("c",))
    out = run(body, Struct((2, 2, 4), f32), x, scratch=scratch, **cluster)
    np.testing.assert_array_equal(out[:, 0], x[::-1] + x[0])
    np.testing.assert_array_equal(out[:, 1], np.stack([x.sum(0)] * 2))

    def parts(x_ref, o_ref, part, loaded):
        c = lax.axis_index("c")
        tracked = plgpu.CopyPartition.PARTITIONED(0)
        plgpu.copy_gmem_to_smem(x_ref, part, loaded, collective_axes="c", leader_tracked=tracked)

        @pl.when(c == 0)
        def _():
            plgpu.barrier_wait(loaded)
            o_ref[...] = part[...]

    out = run(parts, Struct((1, 4), f32), x, scratch=[plgpu.SMEM((1, 4), f32), B], **cluster)
    np.testing.assert_array_equal(out, x[:1])


def test_loops_over_grids():
    def body(x_ref, o_ref, count_ref):
        @plgpu.nd_loop((3, 4), collective_axes="x", tiling=(1, 2), init_carry=jnp.int32(0))
        def count(info, carry):
            o_ref[info.index] = x_ref[info.index] + info.local_index
            return carry + 1

        count_ref[lax.axis_index("x")] = count

    x = jnp.zeros((3, 4), jnp.int32)
    out_type = (x, Struct((5,), jnp.int32))
    kernel = plgpu.kernel(
        body, out_type=out_type, grid=(5,), grid_names=("x",), interpret=INTERPRET
    )
    out, counts = kernel(x)
    np.testing.assert_array_equal(out, [[0, 0, 0, 0], [0, 1, 1, 1], [1, 1, 2, 2]])
    np.testing.assert_array_equal(counts, [3, 3, 2, 2, 2])

    def dynamic(x_ref, o_ref, order_ref):
        @plgpu.dynamic_scheduling_loop(("x",), thread_axis="wg", init_carry=jnp.int32(0))
        def _(info, carry):
            (i,) = info.index
            o_ref[i, lax.axis_index("wg")] = x_ref[i] * 2
            order_ref[i] = info.local_index
            return carry + 1

    x = jnp.arange(5)
    out_type = (Struct((5, 2), jnp.int32), x)
    threads = dict(grid=(5,), grid_names=("x",), num_threads=2, thread_name="wg")
    out, order = plgpu.kernel(dynamic, out_type=out_type, interpret=INTERPRET, **threads)(x)
    np.testing.assert_array_equal(out, np.stack([2 * np.arange(5)] * 2, axis=1))
    np.testing.assert_array_equal(order, np.arange(5))  # the first cluster does all


def test_semaphores_atomics_and_warps():
    def body(x_ref, o_ref, sum_ref, of_block):
        sem = pl.get_global(plgpu.SemaphoreType.REGULAR)  # of all blocks
        plgpu.semaphore_signal(of_block, 2)
        plgpu.semaphore_wait(of_block, 2)
        i = lax.axis_index("x")
        sum_ref[...] = jnp.zeros(2, jnp.int32)

        @pl.when(i == 0)
        def _():
            plgpu.semaphore_wait(sem, 3)

            @plgpu.warp_map
            def _(w):
                o_ref[w] = x_ref[w] + w

        @pl.when(i > 0)
        def _():
            plgpu.semaphore_signal(sem)

        plgpu.atomic_max(sum_ref.at[0], i)
        plgpu.atomic_or(sum_ref.at[1], 1 << i)
        plgpu.print_layout("{}", plgpu.load(x_ref, (pl.ds(0, 2),), optimized=False))
        plgpu.set_max_registers(40, action="decrease")

    out_type = (Struct((4,), f32), Struct((2,), jnp.int32))
    scratch = [plgpu.SemaphoreType.REGULAR]
    kernel = plgpu.kernel(
        body, out_type=out_type, scratch_types=scratch, grid=(4,), grid_names=("x",), interpret=True
    )
    out, (largest, bits) = kernel(jnp.arange(4.0))
    np.testing.assert_array_equal(out, [0, 2, 4, 6])
    # The first block waits before its updates; each block clears what those before have left.
    assert (int(largest), int(bits)) == (3, 9)


def test_warps_and_their_thread_wait_for_the_same_barrier_in_turn():
    def body(x_ref, o_ref, buffer, barrier):
        def on_warps():
            plgpu.copy_gmem_to_smem(x_ref.at[0], buffer, barrier)
            plgpu.warp_map(lambda w: plgpu.barrier_wait(barrier))

        on_warps()
        plgpu.copy_gmem_to_smem(x_ref.at[1], buffer, barrier)
        plgpu.barrier_wait(barrier)
        o_ref[0] = buffer[...]
        on_warps()
        o_ref[1] = buffer[...]

    x = jnp.arange(8.0).reshape(2, 4)
    out = run(body, x, x, scratch=[plgpu.SMEM((4,), f32), plgpu.Barrier()])
    np.testing.assert_array_equal(out, x[::-1])

    def stuck(x_ref, o_ref, barrier):
        plgpu.warp_map(lambda w: plgpu.barrier_wait(barrier))

    with pytest.raises(Exception, match=r"warp 0 of thread \(\) waits for barrier"):
        run(stuck, x, x, scratch=[plgpu.Barrier()])


def test_memory_that_references_share():
    def body(x_ref, o_ref, union):
        whole, [first, second] = union
        whole[...] = x_ref[...]
        o_ref[...] = whole[...]
        first[...] = x_ref[:4]
        second[...] = x_ref[4:].astype(f16)
        o_ref[:4] = first[...] + second[...].astype(f32)

    halves = [plgpu.SMEM((4,), f32), plgpu.SMEM((4,), f16)]
    union = plgpu.RefUnion(plgpu.SMEM((8,), f32), halves)
    out = run(body, Struct((8,), f32), jnp.arange(8.0), scratch=[union])
    np.testing.assert_array_equal(out, [4, 6, 8, 10, 4, 5, 6, 7])


def test_transformations_and_blocks():
    def body(x_ref, o_ref):
        o_ref[lax.axis_index("x")] = jnp.sin(x_ref[lax.axis_index("x")])

    kernel = plgpu.kernel(body, out_type=Struct((2,), f32), interpret=INTERPRET, **MESH)
    x = jnp.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(jax.jit(jax.vmap(kernel))(x), np.sin(x), rtol=1e-6)
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))

    def on_device(x):
        def add(x_ref, o_ref):
            o_ref[...] = x_ref[...] @ x_ref[...] + lax.axis_index("d")

        return plgpu.kernel(add, out_type=Struct((256, 256), f32), interpret=INTERPRET)(x)

    sharded = jax.shard_map(
        on_device, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False
    )
    # The programs of a kernel run also while the callbacks of all devices take their threads.
    out = np.asarray(sharded(jnp.ones((8 * 256, 256))))
    np.testing.assert_array_equal(out[::256, 0], 256 + np.arange(8))
    block = pl.BlockSpec((2, 4), lambda i: (i, 0))
    add_index = lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + pl.program_id(0))
    y = jnp.zeros((5, 4), jnp.int32)
    f = pl.pallas_call(
        add_index, y, grid=3, in_specs=[block], out_specs=block, interpret=INTERPRET,
        compiler_params=plgpu.CompilerParams(),
    )  # fmt: skip
    np.testing.assert_array_equal(f(y), np.repeat([0, 0, 1, 1, 2], 4).reshape(5, 4))
    in_memory = plgpu.BlockSpec((2, 4), lambda i: (i, 0), memory_space=plgpu.GMEM)
    f = pl.pallas_call(
        add_index, y[:4], grid=2, in_specs=[in_memory], out_specs=in_memory, interpret=INTERPRET,
        compiler_params=plgpu.CompilerParams(),
    )  # fmt: skip
    np.testing.assert_array_equal(f(y[:4])[:, 0], [0, 0, 1, 1])


@pytest.mark.parametrize("specialized", [False, True])
def test_result_that_all_steps_of_a_pipeline_have_keeps_what_they_leave(specialized):
    def step(indices, x_ref, o_ref):
        o_ref[...] = x_ref[...] + jnp.where(indices[0] == 0, 0, o_ref[...])

    options = dict(
        grid=(5,), in_specs=[plgpu.BlockSpec((2, 4), lambda i: (i, 0))],
        out_specs=[plgpu.BlockSpec((2, 4), lambda i: (0, 0))], max_concurrent_steps=2,
    )  # fmt: skip
    if specialized:
        options |= dict(memory_registers=40, wg_axis="wg", num_compute_wgs=1)
    emit = plgpu.emit_pipeline_warp_specialized if specialized else plgpu.emit_pipeline
    threads = dict(num_threads=2, thread_name="wg") if specialized else {}
    x = jnp.arange(40.0).reshape(10, 4)
    kernel = plgpu.kernel(
        emit(step, **options), out_type=x[:2], interpret=INTERPRET, **threads
    )  # fmt: skip
    np.testing.assert_array_equal(kernel(x), x.reshape(5, 2, 4).sum(0))


def test_pipeline_whose_copies_a_cluster_shares():
    rng = np.random.default_rng(0)
    a, b = [rng.normal(size=x.shape).astype(x.dtype) for x in IN_CLUSTER.args]
    options = IN_CLUSTER.options | dict(out_type=IN_CLUSTER.out, interpret=INTERPRET)
    out = plgpu.kernel(IN_CLUSTER.body, **options)(a, b)
    np.testing.assert_allclose(out, IN_CLUSTER.expected(a, b), rtol=1e-3, atol=1e-3)


FAILURES = [
    (lambda x, o, b: plgpu.barrier_wait(b), r"All threads of .* wait.*barrier .*0 of 1 arrivals"),
    (lambda x, o, b: o.__setitem__(0, x[9 + lax.axis_index("x")]), "element 9 of dimension 0 of"),
    (
        lambda x, o, b: plgpu.inline_mgpu(arg_types=(plgpu.RefType(),))(lambda ctx, ref: None)(x),
        "Code of the back end .* run the kernel on a GPU",
    ),
    (
        lambda x, o, b: o.__setitem__(0, plgpu.remote_ref(x, 1)[0]),
        "another device, but runs on one: call it in jax.shard_map",
    ),
]


def test_failures_say_where_and_why():
    x = jnp.arange(8.0)
    for body, message in FAILURES:
        with pytest.raises(jax.errors.JaxRuntimeError, match=re.compile(message, re.DOTALL)):
            run(body, x, x, scratch=[B], grid=(1,), grid_names=("x",))
    with pytest.raises(ValueError, match="Only interpret mode is supported on CPU backend"):
        plgpu.kernel(FAILURES[0][0], out_type=x, scratch_types=[B])(x)
