"""Compiles collectives for Hopper GPUs that are not there, and prints their PTX: a program of its own, as that is printed to stdout."""

import sys

import ptx_printing

import jax


def main(names):
    """Print the PTX of operations, each after a line with its name."""
    from aot_programs import topology
    from pallas_collective_operations import COLLECTIVES, GRADIENTS

    for name in names:
        call, args = (COLLECTIVES | GRADIENTS)[name].on(topology("h100").devices)
        ptx_printing.announce(name)
        jax.jit(call).lower(*args).compile()


if __name__ == "__main__":
    ptx_printing.print_ptx()
    main(sys.argv[1:])
