"""Compiles kernels from the literature for devices that are not there; as a program by Mosaic GPU for a Blackwell GPU, to print their PTX."""

import sys
from pathlib import Path

import numpy as np
import pallas_literature_kernels as literature
import ptx_printing

import jax
from jax.experimental import topologies

TARGETS = {
    "mosaic_tpu": "tpu_custom_call",
    "triton": "__gpu$xla.gpu.triton",
    "mosaic_gpu": "mosaic_gpu_v2",
}


def _device(name):
    if name == "v5e":
        return topologies.get_topology_desc(f"{name}:2x2", "tpu").devices[0]
    config = (Path(__file__).parent / "testdata" / f"{name}.textproto").read_text()
    return topologies.get_topology_desc(
        name, "cuda", target_config=config, topology="1x1x1"
    ).devices[0]


def _sum_and_gradients(kernel, backend):
    function = kernel.make(False, literature.BACKENDS[backend])

    def total(*args):
        return sum(x.sum() for x in jax.tree.leaves(function(*args)))

    def run(args):
        varied = tuple(i for i, x in enumerate(args) if literature.is_float(x))
        return jax.value_and_grad(total, varied)(*args)

    return run


def calls(backend, device, names):
    """The number of calls of kernels in a program that a back end compiles for a device, of kernels and their derivatives."""
    kernels = {n: literature.KERNELS[n] for n in names}
    place = jax.sharding.SingleDeviceSharding(_device(device))

    def like(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)

    args = {n: jax.tree.map(like, k.inputs(np.random.default_rng(0))) for n, k in kernels.items()}
    runs = {n: _sum_and_gradients(k, backend) for n, k in kernels.items()}
    program = jax.jit(lambda args: {n: runs[n](xs) for n, xs in args.items()})
    return program.lower(args).compile().as_text().count(f'"{TARGETS[backend]}"')


if __name__ == "__main__":
    ptx_printing.print_ptx()
    calls("mosaic_gpu", "b200", sys.argv[1:])
