"""Compiles kernels for a Blackwell GPU that is not there, and prints their PTX: a program of its own.

The compiler keeps the architecture of the first kernel that it compiles, which is another one in other tests.
"""

import sys
from pathlib import Path

import ptx_printing

import jax
from jax.experimental import topologies


def b200():
    """The sharding of arrays on a Blackwell GPU that is not there."""
    config = (Path(__file__).parent / "testdata" / "b200.textproto").read_text()
    topology = topologies.get_topology_desc("b200", "cuda", target_config=config, topology="1x1x1")
    return jax.sharding.SingleDeviceSharding(topology.devices[0])


def main(names):
    """Print the PTX of kernels, each after a line with its name; of those that cannot be compiled, the error."""
    from pallas_blackwell_kernels import GRADIENTS, KERNELS, OPERATIONS, SPECIALIZED

    sharding = b200()
    for name in names:
        kernel = {**KERNELS, **OPERATIONS, **GRADIENTS, "specialized": SPECIALIZED}[name]
        args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in kernel.args]
        ptx_printing.announce(name)
        try:
            text = jax.jit(kernel.call).lower(*args).compile().as_text()
        except Exception as e:
            print(f"error: {e}")
            continue
        assert "mosaic_gpu_v2" in text


if __name__ == "__main__":
    ptx_printing.print_ptx()
    main(sys.argv[1:])
