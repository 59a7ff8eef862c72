"""Memory of other blocks of a cluster, in kernels for GPUs: interpreted, and run by a machine; and what is refused."""

import mosaic_gpu_machine
import numpy as np
import pytest
from mosaic_gpu_machine import argument, lowered
from pallas_mosaic_gpu_cluster_kernels import CLUSTER, CLUSTER_KERNELS
from pallas_mosaic_gpu_kernels import SMEM, f16, f32, like

import jax
from jax.experimental.pallas import mosaic_gpu as plgpu


def arguments(kernel):
    rng = np.random.default_rng(7)
    return [argument(rng, a) for a in kernel.args]


@pytest.mark.parametrize("name", CLUSTER_KERNELS)
def test_computes(name):
    kernel = CLUSTER_KERNELS[name]
    args = arguments(kernel)
    module = lowered(kernel.call, *kernel.args)
    (got,) = mosaic_gpu_machine.run(module, *args, outputs=[kernel.out])
    np.testing.assert_array_equal(got, kernel.expected(*args))


@pytest.mark.parametrize("name", CLUSTER_KERNELS)
def test_interpreted(name):
    kernel = CLUSTER_KERNELS[name]
    args = arguments(kernel)
    options = dict(out_type=kernel.out, interpret=plgpu.InterpretParams(), **kernel.options)
    got = jax.jit(plgpu.kernel(kernel.body, **options))(*args)
    np.testing.assert_array_equal(got, kernel.expected(*args))


def stores(**options):
    def body(x_ref, o_ref, buffer, barrier):
        x = x_ref[...].astype(buffer.dtype)
        plgpu.async_store_smem(x, buffer, barrier, cluster_idx=0, **dict(cluster_dim="c") | options)

    return body


def copies(x_ref, o_ref, buffer, barrier):
    plgpu.copy_gmem_to_smem(x_ref, plgpu.cluster_ref(buffer, {"c": 0}), barrier)


@pytest.mark.parametrize(
    "body, dtype, barrier, message",
    [
        (stores(cluster_dim="d"), f32, plgpu.Barrier(), r"\['d'\] are no axes of the cluster"),
        (stores(atomic="add"), f32, plgpu.Barrier(), "atomic='add' of float32, .* 32 bits only"),
        (stores(), f32, plgpu.Barrier(orders_tensor_core=True), r"take plgpu.Barrier\(\)"),
        (copies, f32, plgpu.Barrier(), "one to another block: give collective_axes"),
    ],
)  # fmt: skip
def test_refuses(body, dtype, barrier, message):
    types = [SMEM((8, 128), dtype), barrier]
    call = plgpu.kernel(body, out_type=like(8, 128), scratch_types=types, **CLUSTER)
    with pytest.raises((NotImplementedError, ValueError), match=message):
        lowered(call, like(8, 128))


def test_refuses_single_elements_of_few_bits():
    def body(x_ref, o_ref, buffer, barrier):
        x = x_ref[...]
        plgpu.async_store_smem(x, buffer, barrier, cluster_idx=0, cluster_dim="c")

    types = [SMEM((3, 5), f16), plgpu.Barrier()]
    call = plgpu.kernel(body, out_type=like(3, 5), scratch_types=types, **CLUSTER)
    with pytest.raises(NotImplementedError, match="1 elements of float16 are beside each other"):
        lowered(call, like(3, 5, dtype=f16))


@pytest.mark.parametrize("name", ["read", "exchanged"])
def test_blocks_wait_for_each_other_where_a_scope_begins_and_ends(name):
    kernel = CLUSTER_KERNELS[name]
    module = str(mosaic_gpu_machine.module_of(lowered(kernel.call, *kernel.args)))
    assert module.count("nvvm.cluster.arrive") == module.count("nvvm.cluster.wait") == 2
