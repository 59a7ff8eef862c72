"""What kernels for GPUs (Mosaic GPU) are lowered to: run by a machine of one warpgroup, and refused with reasons."""

import functools
import re

import mosaic_gpu_machine
import numpy as np
import pytest
from mosaic_gpu_machine import argument, lowered
from pallas_mosaic_gpu_kernels import KERNELS, SMEM, SPECIALIZED, f16, f32, i32, in_order, like

import jax
import jax.numpy as jnp
from jax._src import compiler
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


@pytest.mark.parametrize("name", KERNELS)
def test_computes(name):
    kernel = KERNELS[name]
    rng = np.random.default_rng(7)
    args = [argument(rng, a) for a in kernel.args]
    (got,) = mosaic_gpu_machine.run(
        lowered(kernel.call, *kernel.args), *args, outputs=[kernel.out], counters=kernel.counters
    )
    want = np.asarray(kernel.expected(*args))
    wide = got.dtype if got.dtype.kind == "b" else np.float64
    np.testing.assert_allclose(
        got.astype(wide), want.astype(wide), rtol=kernel.tolerance, atol=kernel.tolerance
    )


def test_positions_of_blocks_and_clusters():
    def body(o_ref):
        i, j, c = [jax.lax.axis_index(n) for n in "ijc"]
        o_ref[i, j, c] = jnp.full((128,), i * 100 + j * 10 + c, i32)

    call = plgpu.kernel(
        body, out_type=like(2, 3, 2, 128, dtype=i32), grid=(2, 3), grid_names=("i", "j"), cluster=(2,), cluster_names=("c",)
    )  # fmt: skip
    (out,) = mosaic_gpu_machine.run(lowered(call), outputs=[like(2, 3, 2, 128, dtype=i32)])
    i, j, c = np.indices((2, 3, 2))
    np.testing.assert_array_equal(out[..., 5], i * 100 + j * 10 + c)


BLOCK = plgpu.BlockSpec((16, 128), lambda i: (i, 0))


def copied(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def test_vmap():
    kernel = KERNELS["double"]
    x = np.random.default_rng(0).normal(size=(128, 3, 64)).astype(np.float32)
    call = jax.vmap(kernel.call, in_axes=1)
    (out,) = mosaic_gpu_machine.run(lowered(call, like(128, 3, 64)), x, outputs=[like(3, 128, 64)])
    np.testing.assert_array_equal(out, 2 * x.transpose(1, 0, 2))


def test_vmap_over_a_grid():
    kernel = KERNELS["grid_steps"]
    x = np.random.default_rng(0).normal(size=(32, 3, 128)).astype(np.float32)
    call = jax.vmap(kernel.call, in_axes=1)
    (out,) = mosaic_gpu_machine.run(lowered(call, like(32, 3, 128)), x, outputs=[like(3, 32, 128)])
    np.testing.assert_allclose(out, np.stack([kernel.expected(x[:, i]) for i in range(3)]))


def over_grid(body=copied, out=like(32, 128), **options):
    options = dict(grid=2, in_specs=[BLOCK], out_specs=BLOCK) | options
    params = options.pop("params", plgpu.CompilerParams())
    return pl.pallas_call(body, out, compiler_params=params, **options)


def specs(*shape, **options):
    return [plgpu.BlockSpec(shape or (16, 128), lambda i: (i, 0), **options)]


REFUSED_GRIDS = {
    "semantics": (dict(params=in_order("parallel", "parallel")), "for each dimension of the grid"),
    "word": (dict(params=in_order("arbitrary")), "'parallel' or 'sequential'"),
    "cluster": (dict(in_specs=specs(collective_axes=("x",))), "no collective_axes for args"),
    "buffers": (dict(in_specs=specs(pipeline_mode=pl.Buffered(2))), "set max_concurrent_steps"),
    "memory": (dict(in_specs=specs(memory_space=plgpu.TMEM)), "shared or global memory, not in tmem"),
    "padding": (dict(in_specs=specs(pl.Element(16, (1, 1)), 128)), "cannot have blocks of Element"),
    "delay": (
        dict(in_specs=specs(delay_release=2), params=in_order("sequential")), "less than max_concurrent",
    ),
    "traced": (dict(grid=jnp.int32(2)), "grids of known sizes"),
    "dimensions": (dict(in_specs=specs(transforms=(plgpu.TilingTransform((8, 48)),))), "48"),
    "no_dimension": (
        dict(out=like(), in_specs=[None], out_specs=None), "without dimensions: .*memory_space=plgpu.GMEM",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_GRIDS)
def test_refuses_grids(name):
    options, message = REFUSED_GRIDS[name]
    with pytest.raises((NotImplementedError, ValueError), match=message):
        lowered(over_grid(**options), like() if name == "no_dimension" else like(32, 128))


def test_warp_specialization_gives_registers_to_the_threads_that_compute():
    module = mosaic_gpu_machine.module_of(lowered(SPECIALIZED.call, *SPECIALIZED.args))
    text = str(module)
    assert text.count("nvvm.setmaxregister") == 2
    assert "threads(%arg5, %arg6, %arg7) in (%arg11 = %c256" in text


def sorts(x_ref, o_ref):
    o_ref[...] = jnp.sort(x_ref[...])


def copies_columns(x_ref, o_ref, buffer, barrier):
    plgpu.copy_gmem_to_smem(x_ref.at[:, ::2], buffer, barrier)


def too_much(x_ref, o_ref, buffer):
    buffer[...] = jnp.zeros(buffer.shape, buffer.dtype)


def copies_in_cluster(x_ref, o_ref, buffer, barrier, axes=("c",), **options):
    plgpu.copy_gmem_to_smem(x_ref.at[:2], buffer, barrier, collective_axes=axes, **options)


def with_cluster(size, rows=2, barrier=None):
    types = [SMEM((rows, 8), f32), plgpu.Barrier() if barrier is None else barrier]
    return dict(cluster=(size,), cluster_names=("c",), scratch_types=types)


def signals_device(x_ref, o_ref, sem):
    plgpu.semaphore_signal(sem, 1, device_id=1)


def arrays_of_warps(x_ref, o_ref):
    @plgpu.warp_map
    def _(warp):
        o_ref[...] = x_ref[...]


def scopes_of_warps(x_ref, o_ref):
    plgpu.warp_map(lambda warp: pl.run_scoped(lambda barrier: None, plgpu.Barrier()))


def asks_barrier(x_ref, o_ref, barrier):
    plgpu.barrier_test(barrier)


REFUSED = {
    "warp_arrays": (arrays_of_warps, {}, r"no arrays in functions of single warps, .*py:\d+"),
    "warp_scopes": (scopes_of_warps, {}, "no run_scoped in functions of single warps"),
    "test": (
        asks_barrier, dict(scratch_types=[plgpu.Barrier()]), "barrier_test is for functions of single warps",
    ),
    "share": (copies_in_cluster, with_cluster(4), "in 4 shares for the blocks of a cluster"),
    "cluster_axis": (
        functools.partial(copies_in_cluster, axes=("d",)), with_cluster(2), r"\['d'\] are no axes of the cluster",
    ),
    "leader": (
        functools.partial(copies_in_cluster, leader_tracked=plgpu.CopyPartition.REPLICATED),
        with_cluster(4), "Blocks copy or multiply in pairs",
    ),
    "cluster_barrier": (
        copies_in_cluster, with_cluster(2, barrier=plgpu.ClusterBarrier(collective_axes=("c",))),
        "with a barrier of the cluster",
    ),
    "device": (
        signals_device, dict(scratch_types=[plgpu.SemaphoreType.REGULAR]), "another device, but is compiled for one",
    ),
    "primitive": (sorts, {}, r"cannot have sort of \(float32\[128,8\]\), at .*py.*:\d+.*in sorts"),
    "stride": (
        copies_columns, dict(scratch_types=[SMEM((128, 4), f32), plgpu.Barrier()]), "with strides",
    ),
    "memory": (too_much, dict(scratch_types=[SMEM((64, 1024), f32)]), "bytes of shared memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    body, options, message = REFUSED[name]
    call = plgpu.kernel(body, out_type=like(128, 8), **options)
    with pytest.raises((NotImplementedError, ValueError), match=message):
        lowered(call, like(128, 8))


def reducing(op, dtype):
    def body(x_ref, o_ref, buffer, barrier):
        plgpu.copy_gmem_to_smem(x_ref, buffer, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.copy_smem_to_gmem(buffer, o_ref, reduction_op=op)

    x = like(8, 128, dtype=dtype)
    call = plgpu.kernel(body, out_type=x, scratch_types=[SMEM(x.shape, dtype), plgpu.Barrier()])
    return lowered(call, x)


@pytest.mark.parametrize(
    "op, dtype, code",
    [
        ("add", "int32", 3), ("max", "int32", 9), ("max", "uint32", 3), ("inc", "int32", 3), ("min", "int64", 10),
        ("xor", "uint64", 4), ("min", "bfloat16", 7), ("add", "float32", 6),
    ],
)  # fmt: skip
def test_reductions_of_copies_compare_integers_with_their_signs(op, dtype, code):
    with jax.enable_x64(True):
        module = str(mosaic_gpu_machine.module_of(reducing(op, jnp.dtype(dtype))))
    calls = re.findall(r"call @mosaic_gpu_init_tma_desc\(%\w+, %\w+, %c(\d+)_i64", module)
    unsigned = {9: 3, 10: 4}.get(code, code)
    assert [int(c) for c in calls] == [unsigned, code]


@pytest.mark.parametrize("op, dtype", [("max", "float32"), ("add", "float64"), ("inc", "int64"), ("add", "int8")])  # fmt: skip
def test_refuses_reductions_that_the_device_does_not_have(op, dtype):
    with jax.enable_x64(True), pytest.raises(NotImplementedError, match=f"'{op}' of {dtype}"):
        reducing(op, jnp.dtype(dtype))


def test_compiling_without_the_runtime_names_its_package():
    class Backend:
        def compile_and_load(self, *args, **options):
            raise jax.errors.JaxRuntimeError(
                "INTERNAL: Failed to lookup host symbol: Failed to materialize symbols: { (main, { add_mosaic_gpu_init }) }"
            )

    with pytest.raises(jax.errors.JaxRuntimeError) as info:
        compiler.backend_compile_and_load(Backend(), None, None, None, ())
    assert "jax-cuda13-plugin" in "".join(info.value.__notes__)


def test_matrix_that_the_tensor_core_cannot_read():
    def body(a_ref, o_ref, a, b):
        def multiply(acc):
            plgpu.wgmma(acc, a, b)
            return acc[...]

        o_ref[...] = pl.run_scoped(multiply, plgpu.ACC((64, 64)))

    types = [SMEM((64, 64), f16), SMEM((64, 64), f16)]
    call = plgpu.kernel(body, out_type=like(64, 64), scratch_types=types)
    with pytest.raises(NotImplementedError, match="SwizzleTransform"):
        lowered(call, like(64, 64, dtype=f16))


def test_same_kernels_are_the_same_call():
    text = [lowered(KERNELS["add"].call, *KERNELS["add"].args).as_text() for _ in range(2)]
    assert text[0] == text[1]
    assert "mosaic_gpu_v2" in text[0]
