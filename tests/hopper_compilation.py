"""Compiles operations for a Hopper GPU that is not there, and prints their PTX: a program of its own, as that is printed to stdout."""

import sys

import ptx_printing

import jax


def main(names):
    """Print the PTX of operations, each after a line with its name."""
    from aot_programs import topology
    from pallas_hopper_operations import OPERATIONS

    sharding = jax.sharding.SingleDeviceSharding(topology("h100").devices[0])
    for name in names:
        call, args = OPERATIONS[name]
        args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
        ptx_printing.announce(name)
        jax.jit(call).lower(*args).compile()


if __name__ == "__main__":
    ptx_printing.print_ptx()
    main(sys.argv[1:])
