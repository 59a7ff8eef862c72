"""Collectives of the library compiled by Mosaic GPU for Hopper GPUs that are not there."""

import functools
import re
from collections import Counter

import collectives_compilation
import ptx_printing
import pytest
from pallas_collective_operations import COLLECTIVES, GRADIENTS

pytestmark = pytest.mark.aot("cuda", "mosaic_gpu")

# The operations on the memory of other devices, and those that load and store here, in what the reference build makes of the
# same calls.
OF_REFERENCE = {
    "gather": "1 multimem.red.add.u32; 8 ld.v4.b32; 8 multimem.st.v4.f32",
    "gather_of_four": "1 multimem.red.add.u32; 8 ld.v4.b32; 8 multimem.st.v4.f32",
    "gather_bfloat16": "1 multimem.red.add.u32; 8 ld.v4.b32; 8 multimem.st.v4.f32",
    "gather_columns": "1 multimem.red.add.u32; 8 ld.v4.b32; 8 multimem.st.v4.f32",
    "reduce": "1 multimem.red.add.u32; 8 multimem.ld_reduce.add.v4.f32; 8 st.v4.b32",
    # There with sums that are rounded after each number, without .acc::f32.
    "reduce_bfloat16": "1 multimem.red.add.u32; 8 multimem.ld_reduce.add.acc::f32.v4.bf16x2; 8 st.v4.b32",
    "reduce_max": "1 multimem.red.add.u32; 8 multimem.ld_reduce.max.v4.f16x2; 8 st.v4.b32",
    # There with 32 stores.
    "reduce_and": "1 multimem.red.add.u32; 32 multimem.ld_reduce.and.b32; 8 st.v4.b32",
    "reduce_columns": "1 multimem.red.add.u32; 8 multimem.ld_reduce.add.acc::f32.v4.bf16x2; 8 st.v4.b32",
    # There each device loads all: 8 st.v4.b32.
    "reduce_to_all": "1 multimem.red.add.u32; 8 multimem.ld_reduce.add.v4.f32; 8 multimem.st.v4.f32",
    # There of two copies of the code, for the first product and for the others: 3 stores, 8 products.
    "product": "1 red.add.u32; 16 load; 2 store; 4 m64n64k16.f32.f16.f16",
}  # fmt: skip


@functools.cache
def compiled():
    """The PTX of the kernels of all operations by name."""
    return ptx_printing.ptx_by_name(collectives_compilation, [*COLLECTIVES, *GRADIENTS])


def instructions(ptx):
    """The instructions that exchange data, counted."""
    found = re.findall(
        r"^\s*(?:@%\w+ )?((?:multimem|red|ld\.global\.v|ld\.global\.b32|st\.global)[\w.:]*) ",
        ptx,
        re.M,
    )
    kinds = [re.sub(r"\.(?:release|relaxed|sys|global)(?=\.|$)", "", f) for f in found]
    kinds += re.findall(r"wgmma\.mma_async\.sync\.aligned\.(\w+\.\w+\.\w+\.\w+)", ptx)
    copies = re.findall(r"cp\.async\.bulk\.tensor\.\dd\.(\S+)", ptx)
    kinds += ["store" if c.startswith("global") else "load" for c in copies]
    return "; ".join(sorted([f"{n} {k}" for k, n in Counter(kinds).items()]))


@pytest.mark.parametrize("name", COLLECTIVES)
def test_compiles(name):
    ptx = compiled()[name]
    assert ptx.count(".target sm_90a") == 1
    assert instructions(ptx) == OF_REFERENCE.get(name, instructions(ptx))


@pytest.mark.parametrize("name", GRADIENTS)
def test_derivatives_compile(name):
    """Kernels of derivatives that are those of other operations are not compiled again."""
    kernels = compiled()[name].split(".version")[1:]
    assert all([".target sm_90a" in ptx for ptx in kernels])
    if name == "product_gradient":
        assert "wgmma.mma_async" in compiled()[name]
