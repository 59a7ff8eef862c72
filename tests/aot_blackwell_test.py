"""Kernels for GPUs compiled by Mosaic GPU for a Blackwell GPU that is not there."""

import functools
import re
from collections import Counter

import blackwell_compilation
import ptx_printing
import pytest
from aot_programs import topology
from pallas_blackwell_kernels import GRADIENTS, KERNELS, OPERATIONS
from pallas_mosaic_gpu_kernels import KERNELS as OF_HOPPER

import jax

pytestmark = pytest.mark.aot("cuda", "mosaic_gpu")

# The instructions of the tensor core, and of its memory, in what the reference build makes of the same kernels.
# Others it does not compile: it has no products of float32, or of different dtypes, and fewer layouts.
OF_REFERENCE = {
    "bfloat16": "1 commit.cta_group::1; 4 ld.16x256b.x8; 4 mma.cta_group::1.kind::f16",
    "float16": "1 commit.cta_group::1; 2 ld.16x128b.x8.pack::16b; 8 mma.cta_group::1.kind::f16",
    "turned": "1 commit.cta_group::1; 8 ld.16x256b.x8; 4 mma.cta_group::1.kind::f16",
    "left_turned": "1 commit.cta_group::1; 2 ld.16x256b.x4; 4 mma.cta_group::1.kind::f16",
    "wide": "1 commit.cta_group::1; 16 ld.16x256b.x8; 4 mma.cta_group::1.kind::f16",
    "rows_64": "1 commit.cta_group::1; 2 ld.16x256b.x8; 8 mma.cta_group::1.kind::f16",
    "rows_64_few": "1 commit.cta_group::1; 2 ld.16x256b.x2; 2 ld.16x256b.x4; 8 mma.cta_group::1.kind::f16",
    "float8_turned": "1 commit.cta_group::1; 2 ld.16x256b.x8; 4 mma.cta_group::1.kind::f8f6f4",
    "int8": "1 commit.cta_group::1; 2 ld.16x256b.x8; 4 mma.cta_group::1.kind::i8",
    "native": "1 commit.cta_group::1; 1 ld.32x32b.x16; 1 ld.32x32b.x32; 4 mma.cta_group::1.kind::f16",
    "native_float16": "1 commit.cta_group::1; 1 ld.32x32b.x32.pack::16b; 4 mma.cta_group::1.kind::f16",
    "left_copied": "1 commit.cta_group::1; 4 cp.cta_group::1.128x256b; 2 ld.16x256b.x8; 4 mma.cta_group::1.kind::f16",
    "left_copied_float8": "1 commit.cta_group::1; 4 cp.cta_group::1.128x256b; 2 ld.16x256b.x8; 4 mma.cta_group::1.kind::f8f6f4",
    "left_stored": "1 commit.cta_group::1; 2 ld.16x256b.x8; 4 mma.cta_group::1.kind::f16; 2 st.16x128b.x8",
    "pipelined": "3 commit.cta_group::1; 4 ld.16x256b.x8; 12 mma.cta_group::1.kind::f16",
    "pair": "1 commit.cta_group::2.multicast::cluster; 8 ld.16x256b.x8; 4 mma.cta_group::2.kind::f16",
    "pair_rows_64": "1 commit.cta_group::2.multicast::cluster; 2 ld.16x256b.x8; 4 mma.cta_group::2.kind::f16",
    "pair_replicated": "1 commit.cta_group::2.multicast::cluster; 4 ld.16x256b.x8; 4 mma.cta_group::2.kind::f16",
    "scaled_float8": "1 commit.cta_group::1; 4 cp.cta_group::1.32x128b.warpx4; 4 ld.16x256b.x8; 8 mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "scaled_float8_few": "1 commit.cta_group::1; 2 cp.cta_group::1.32x128b.warpx4; 2 ld.16x256b.x8; 4 mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "scaled_float8_wide": "1 commit.cta_group::1; 6 cp.cta_group::1.32x128b.warpx4; 6 ld.16x256b.x8; 8 mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "scaled_float4": "1 commit.cta_group::1; 4 cp.cta_group::1.32x128b.warpx4; 4 ld.16x256b.x8; 4 mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X",
    "scaled_float4_16": "1 commit.cta_group::1; 6 cp.cta_group::1.32x128b.warpx4; 8 ld.16x256b.x8; 2 mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X",
    "scaled_pair": "1 commit.cta_group::2.multicast::cluster; 6 cp.cta_group::2.32x128b.warpx4; 8 ld.16x256b.x8; 8 mma.cta_group::2.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "scaled_pair_float4": "1 commit.cta_group::2.multicast::cluster; 12 cp.cta_group::2.32x128b.warpx4; 8 ld.16x256b.x8; 4 mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X",
    "sparse": "1 commit.cta_group::1; 2 cp.cta_group::1.128x128b; 4 ld.16x256b.x8; 8 mma.sp.cta_group::1.kind::f16",
    "sparse_float16": "1 commit.cta_group::1; 1 cp.cta_group::1.128x128b; 2 ld.16x128b.x8.pack::16b; 4 mma.sp.cta_group::1.kind::f16",
    "sparse_float8": "1 commit.cta_group::1; 2 cp.cta_group::1.128x128b; 4 ld.16x256b.x8; 4 mma.sp.cta_group::1.kind::f8f6f4",
    "sparse_int8": "1 commit.cta_group::1; 2 cp.cta_group::1.128x128b; 4 ld.16x256b.x8; 4 mma.sp.cta_group::1.kind::i8",
    "sparse_pair": "1 commit.cta_group::2.multicast::cluster; 1 cp.cta_group::2.128x128b; 8 ld.16x256b.x8; 4 mma.sp.cta_group::2.kind::f16",
    "sparse_scaled": "1 commit.cta_group::1; 2 cp.cta_group::1.128x128b; 2 cp.cta_group::1.32x128b.warpx4; 4 ld.16x256b.x8; 4 mma.sp.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "specialized": "5 commit.cta_group::1; 4 ld.16x256b.x8; 16 mma.cta_group::1.kind::f16",
}  # fmt: skip
# Those of operations of the library, but for products and their arrivals: their loops are unrolled differently.
# It has products of groups of rows for pairs of blocks only; those of one block read as products without groups.
OPERATIONS_OF_REFERENCE = {
    "matmul": "4 ld.16x256b.x8",
    "matmul_pair": "8 ld.16x256b.x8",
    "matmul_float8": "4 ld.16x256b.x8",
    "ragged": "4 ld.16x256b.x8",
    "ragged_pair": "8 ld.16x256b.x8",
    "ragged_float8": "4 ld.16x256b.x8",
}
NAMES = [*KERNELS, *OPERATIONS, *GRADIENTS, "specialized"]


@functools.cache
def compiled():
    """The PTX of all kernels by name."""
    return ptx_printing.ptx_by_name(blackwell_compilation, NAMES)


def instructions(ptx):
    found = re.findall(r"\btcgen05\.((?:ld|st|mma|cp|commit)\.[\w:.]+)", ptx)
    short = [
        re.sub(r"\.sync\.aligned|\.mbarrier::arrive::one\.shared::cluster|\.b(32|64)$", "", n)
        for n in found
    ]
    return "; ".join([f"{n} {name}" for name, n in sorted(Counter(short).items())])


@pytest.mark.parametrize("name", NAMES)
def test_compiles(name):
    ptx = compiled()[name]
    assert ".target sm_100a" in ptx, ptx
    if name in OF_REFERENCE:
        assert instructions(ptx) == OF_REFERENCE[name]
    elif name in OPERATIONS_OF_REFERENCE:
        kept = [i for i in instructions(ptx).split("; ") if not re.match(r"\d+ (mma|commit)", i)]
        assert kept == [OPERATIONS_OF_REFERENCE[name]]
        assert "clusterlaunchcontrol.try_cancel" in ptx
    else:
        assert "error" not in ptx


@pytest.mark.parametrize(
    "sharding, kernel, message",
    [
        (
            lambda: jax.sharding.SingleDeviceSharding(topology("h100").devices[0]), KERNELS["bfloat16"],
            "has tensor memory, .*compiled for NVIDIA H100.*take plgpu.wgmma",
        ),
        (
            blackwell_compilation.b200, OF_HOPPER["matmul"],
            "has wgmma, .*compiled for NVIDIA B200.*take plgpu.tcgen05_mma",
        ),
    ],
)  # fmt: skip
def test_refuses_the_tensor_core_of_other_generations(sharding, kernel, message):
    device = sharding()
    args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=device) for a in kernel.args]
    with pytest.raises(ValueError, match=message):
        jax.jit(kernel.call).lower(*args)
