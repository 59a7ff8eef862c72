"""Operations of the library compiled by Mosaic GPU for a Hopper GPU that is not there."""

import functools
import re
from collections import Counter

import hopper_compilation
import ptx_printing
import pytest
from pallas_hopper_operations import OPERATIONS

pytestmark = pytest.mark.aot("cuda", "mosaic_gpu")

# The products, and the copies that are started, in what the reference build makes of the same calls; of each of
# their kernels. It has no products of other matrices of 8 bits than int8.
OF_REFERENCE = {
    "matmul": ["4 store; 8 load; 8 m64n128k16.f32.bf16.bf16"],
    "matmul_rows": ["4 store; 8 load; 8 m64n128k16.f32.bf16.bf16"],
    "matmul_cluster": ["4 load; 4 load of cluster; 4 store; 8 m64n128k16.f32.bf16.bf16"],
    "matmul_added": ["12 load; 4 store; 8 m64n128k16.f32.bf16.bf16"],
    "attention": ["1 store; 17 load; 8 m64n64k16.f32.f16.f16"],
    "attention_causal": ["1 store; 16 m64n64k16.f32.f16.f16; 7 load"],
    "attention_pipelined": ["1 store; 17 load; 8 m64n64k16.f32.f16.f16"],
    "attention_gradient": [
        "1 store; 17 load; 8 m64n64k16.f32.f16.f16",
        "14 load; 16 m64n64k16.f32.f16.f16; 2 store",
        "1 store; 12 m64n64k16.f32.f16.f16; 18 load",  # of 20: numbers of queries are read where they are
    ],
    "ragged": ["4 load; 7 store; 8 m64n64k16.f32.f16.f16"],
    "ragged_turned": ["4 load; 7 store; 8 m64n64k16.f32.f16.f16"],
    # Of 4: the copies of the first steps are another part of the code.
    "ragged_transposed": ["1 store; 4 m64n64k16.f32.f16.f16; 6 load"],
    "mixed": ["2 store; 4 m64n128k16.f32.bf16.bf16; 8 load"],
}


@functools.cache
def compiled():
    """The PTX of the kernels of all operations by name."""
    printed = ptx_printing.ptx_by_name(hopper_compilation, OPERATIONS)
    return {name: ptx.split(".version")[1:] for name, ptx in printed.items()}


def instructions(ptx):
    """The products and copies of a kernel, counted."""
    products = re.findall(r"wgmma\.mma_async\.sync\.aligned\.(\w+\.\w+\.\w+\.\w+)", ptx)
    copies = re.findall(r"cp\.async\.bulk\.tensor\.\dd\.(\S+)", ptx)
    kinds = ["store" if c.startswith("global") else "load" for c in copies]
    names = [k + " of cluster" * ("multicast" in c) for k, c in zip(kinds, copies)]
    return "; ".join(sorted([f"{n} {k}" for k, n in Counter([*products, *names]).items()]))


@pytest.mark.parametrize("name", OPERATIONS)
def test_compiles(name):
    kernels = compiled()[name]
    assert kernels and all([".target sm_90a" in ptx for ptx in kernels])
    if name in OF_REFERENCE:
        assert [instructions(ptx) for ptx in kernels] == OF_REFERENCE[name]
