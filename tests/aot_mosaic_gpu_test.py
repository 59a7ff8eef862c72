"""Kernels for GPUs compiled by Mosaic GPU for a Hopper GPU that is not there."""

import pytest
from aot_programs import topology
from pallas_mosaic_gpu_cluster_kernels import CLUSTER_KERNELS
from pallas_mosaic_gpu_devices_kernels import DEVICES_KERNELS, mesh_of
from pallas_mosaic_gpu_inline_kernels import INLINE_KERNELS
from pallas_mosaic_gpu_kernels import IN_CLUSTER, KERNELS, SPECIALIZED
from pallas_mosaic_gpu_lane_kernels import LANE_KERNELS

import jax
from jax.experimental.pallas import mosaic_gpu as plgpu

pytestmark = pytest.mark.aot("cuda", "mosaic_gpu")

COMPILED = (
    "add_of_few", "narrow_floats", "functions", "functions_bfloat16", "integers", "booleans", "branches", "atomics", "double_swizzled_64",
    "turned", "matmul", "pipelined_transposed", "from_registers", "normalized", "reductions", "attention", "specialized",
    "grid", "grid_steps", "grid_named", "grid_multiplied", "multicast", "multicast_to_all", "counts", "grid_counts",
    "in_cluster", "warps", "shares_memory", "cumulative", *CLUSTER_KERNELS, *LANE_KERNELS, *INLINE_KERNELS,
)  # fmt: skip
ALL = {
    **KERNELS,
    **CLUSTER_KERNELS,
    **LANE_KERNELS,
    **INLINE_KERNELS,
    "specialized": SPECIALIZED,
    "in_cluster": IN_CLUSTER,
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiles(name):
    kernel = ALL[name]
    sharding = jax.sharding.SingleDeviceSharding(topology("h100").devices[0])
    args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in kernel.args]
    assert "mosaic_gpu_v2" in jax.jit(kernel.call).lower(*args).compile().as_text()


@pytest.mark.parametrize("name", DEVICES_KERNELS)
def test_compiles_for_several(name):
    kernel = DEVICES_KERNELS[name]
    mesh = mesh_of(topology("h100").devices, kernel.devices)
    sharding = jax.sharding.NamedSharding(mesh, jax.P("d"))
    x = jax.ShapeDtypeStruct(kernel.arg.shape, kernel.arg.dtype, sharding=sharding)
    lowered = jax.jit(kernel.call(mesh)).lower(x)
    text = lowered.compile().as_text()
    assert "mosaic_gpu_v2" in text
    # Arrays are in memory that is reached on all devices at once if they have to be.
    assert ("S(1)" in text) == ("multimem_parameters" in lowered.as_text())


@pytest.mark.parametrize("scope", plgpu.TraceScope)
def test_compiles_profiled(scope):
    def body(x_ref, o_ref):
        with jax.named_scope("load"):
            x = x_ref[...]
        for _ in range(2):
            with jax.named_scope("store"):
                o_ref[...] = x + 1

    sharding = jax.sharding.SingleDeviceSharding(topology("h100").devices[0])
    x = jax.ShapeDtypeStruct((128, 128), "float32", sharding=sharding)
    params = plgpu.CompilerParams(profile_space=4, profile_dir="traces", profile_trace_scope=scope)
    threads = dict(num_threads=2, thread_name="t")
    call = plgpu.kernel(body, out_type=x, compiler_params=params, **threads)
    text = jax.jit(call).lower(x).compile().as_text()
    recorders = 8 if scope is plgpu.TraceScope.WARP else 2
    assert "mosaic_gpu_v2" in text and f"u32[{recorders},24]" in text
    assert "xla_ffi_python_gpu_callback" in text
