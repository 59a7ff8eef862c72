"""What lanes of GPUs do themselves in kernels of Mosaic GPU: interpreted, and run by a machine."""

import dataclasses

import mosaic_gpu_machine
import numpy as np
import pallas_literature_kernels as literature
import pytest
from mosaic_gpu_machine import argument, lowered
from pallas_mosaic_gpu_kernels import SMEM, GridKernel, f32, like
from pallas_mosaic_gpu_lane_kernels import LANE_KERNELS

import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu


def arguments(kernel):
    rng = np.random.default_rng(7)
    return [argument(rng, a) for a in kernel.args]


def check(got, kernel, args):
    want = np.asarray(kernel.expected(*args))
    got, want = (np.asarray(x).astype(np.float64) for x in (got, want))
    np.testing.assert_allclose(got, want, rtol=kernel.tolerance, atol=kernel.tolerance)


@pytest.mark.parametrize("name", LANE_KERNELS)
def test_computes(name):
    kernel = LANE_KERNELS[name]
    args = arguments(kernel)
    module = lowered(kernel.call, *kernel.args)
    (got,) = mosaic_gpu_machine.run(module, *args, outputs=[kernel.out])
    check(got, kernel, args)


@pytest.mark.parametrize(
    "name", [n for n, k in LANE_KERNELS.items() if not isinstance(k, GridKernel)]
)
def test_interpreted(name):
    kernel = LANE_KERNELS[name]
    args = arguments(kernel)
    options = dict(out_type=kernel.out, interpret=plgpu.InterpretParams(), **kernel.options)
    check(jax.jit(plgpu.kernel(kernel.body, **options))(*args), kernel, args)


def shares_columns(x_ref, o_ref, buffer, barrier):
    plgpu.copy_gmem_to_smem(x_ref.at[:, :3], buffer, barrier, collective_axes="c")


def adds_columns(x_ref, o_ref, buffer, barrier):
    plgpu.copy_smem_to_gmem(buffer, o_ref.at[:, :3], reduction_op="add")


@pytest.mark.parametrize("body", [shares_columns, adds_columns])
def test_only_the_unit_for_tensors_shares_copies_and_adds(body):
    types = [SMEM((8, 3), f32), plgpu.Barrier()]
    cluster = dict(cluster=(2,), cluster_names=("c",))
    call = plgpu.kernel(body, out_type=like(8, 6), scratch_types=types, **cluster)
    with pytest.raises(NotImplementedError, match="no multiples of 16 bytes beside each other"):
        lowered(call, like(8, 6))


# The others of the literature are compiled: aot_literature_test.py.
OF_LITERATURE = ("cross_entropy", "dense", "dynamic_tanh", "rotary", "running_sum", "softmax")


def run_by_machine(kernel, out, *args, **options):
    """A kernel over a grid as a function of arrays that the machine runs."""
    call = literature.BACKENDS["mosaic_gpu"].call(kernel, out, *args, **options)

    def run(*arrays):
        outputs = jax.tree.leaves(out)
        found = mosaic_gpu_machine.run(
            lowered(call, *arrays), *map(np.asarray, arrays), outputs=outputs
        )
        return jax.tree.unflatten(jax.tree.structure(out), list(map(jnp.asarray, found)))

    return run


@pytest.mark.parametrize("name", OF_LITERATURE)
def test_kernel_of_the_literature(name):
    backend = dataclasses.replace(literature.BACKENDS["mosaic_gpu"], call=run_by_machine)
    kernel = literature.KERNELS[name]
    args = kernel.inputs(np.random.default_rng(7))
    found = literature.value_and_gradients(kernel.make(False, backend), args)
    literature.check(kernel, found, args)
