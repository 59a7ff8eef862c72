"""Kernels from the literature, with their derivatives, compiled for TPUs by Mosaic and for GPUs by Triton."""

from pathlib import Path

import numpy as np
import pallas_literature_kernels as literature
import pytest

import jax
from jax.experimental import topologies

# Programs of several kernels are compiled in less time than as many of one each.
GROUP = 16
CASES = [
    (platform, device, start)
    for platform, devices in (("tpu", ("v5e",)), ("cuda", ("h100",)))
    for device in devices
    for start in range(0, len(literature.KERNELS), GROUP)
]


def _device(platform, name):
    if platform == "tpu":
        return topologies.get_topology_desc(f"{name}:2x2", "tpu").devices[0]
    config = (Path(__file__).parent / "testdata" / f"{name}.textproto").read_text()
    return topologies.get_topology_desc(
        name, "cuda", target_config=config, topology="1x1x1"
    ).devices[0]


def _sum_and_gradients(kernel):
    function = kernel.make(False)

    def total(*args):
        return sum(x.sum() for x in jax.tree.leaves(function(*args)))

    def run(args):
        varied = tuple(i for i, x in enumerate(args) if literature.is_float(x))
        return jax.value_and_grad(total, varied)(*args)

    return run


@pytest.mark.parametrize(
    "platform, device, start", [pytest.param(*c, marks=pytest.mark.aot(c[0])) for c in CASES]
)
def test_compiles(platform, device, start):
    names = list(literature.KERNELS)[start : start + GROUP]
    names = [n for n in names if platform in literature.KERNELS[n].targets]
    kernels = {n: literature.KERNELS[n] for n in names}
    place = jax.sharding.SingleDeviceSharding(_device(platform, device))

    def like(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)

    args = {n: jax.tree.map(like, k.inputs(np.random.default_rng(0))) for n, k in kernels.items()}
    runs = {n: _sum_and_gradients(k) for n, k in kernels.items()}
    program = jax.jit(lambda args: {n: runs[n](xs) for n, xs in args.items()})
    text = program.lower(args).compile().as_text()
    target = "tpu_custom_call" if platform == "tpu" else "__gpu$xla.gpu.triton"
    assert text.count(f'"{target}"') >= 2 * len(names)
