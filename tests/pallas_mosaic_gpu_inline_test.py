"""Functions that emit operations of MLIR into kernels for GPUs (`plgpu.inline_mgpu`), run by a machine.

What such functions are given has the types that it has in PyPI's jax.
"""

import re

import mosaic_gpu_machine
import numpy as np
import pytest
from mosaic_gpu_machine import argument, lowered
from pallas_mosaic_gpu_inline_kernels import (
    INLINE_KERNELS,
    STRIDED,
    TILED,
    R,
    inline,
    struct,
)
from pallas_mosaic_gpu_kernels import SMEM, f32, i32, like

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.mosaic import gpu as mgpu
from jax.experimental.pallas import mosaic_gpu as plgpu


@pytest.mark.parametrize("name", INLINE_KERNELS)
def test_computes(name):
    kernel = INLINE_KERNELS[name]
    rng = np.random.default_rng(7)
    args = [argument(rng, a) for a in kernel.args]
    (got,) = mosaic_gpu_machine.run(lowered(kernel.call, *kernel.args), *args, outputs=[kernel.out])
    want = kernel.expected(*args)
    np.testing.assert_allclose(got, want, rtol=kernel.tolerance, atol=kernel.tolerance)


# The types of references are those of PyPI's jax, which says where parts begin in the type.
PARTS = [
    ((64, 64), f32, (), lambda r: r, "64x64xf32"),
    ((64, 64), jnp.int8, (), lambda r: r, "64x64xi8"),
    ((64, 64), jnp.bool_, (), lambda r: r, "64x64xi1"),
    ((64, 64), jnp.float8_e5m2, (), lambda r: r, "64x64xf8E5M2"),
    ((64, 64), f32, TILED, lambda r: r, "8x2x8x32xf32"),
    ((64, 64), f32, TILED, lambda r: r.at[8:16], "1x2x8x32xf32"),
    ((64, 64), f32, TILED, lambda r: r.at[8:16, 32:], "1x1x8x32xf32, strided<[512, 256, 32, 1]>"),
    ((2, 64, 64), f32, (), lambda r: r.at[1, 8:16], "8x64xf32"),
    ((2, 64, 64), f32, TILED, lambda r: r.at[1], "8x2x8x32xf32"),
    ((64, 128), f32, (), lambda r: r.at[pl.ds(16, 16), :64], "16x64xf32, strided<[128, 1]>"),
]  # fmt: skip


@pytest.mark.parametrize("shape, dtype, transforms, part, want", PARTS)
def test_types_of_references(shape, dtype, transforms, part, want):
    found = []

    def body(x_ref, o_ref, buffer):
        inline(R(transforms))(lambda ctx, ref: found.append(str(ref.type)))(part(buffer))

    types = [SMEM(shape, dtype, transforms=transforms)]
    lowered(plgpu.kernel(body, out_type=like(64, 64), scratch_types=types), like(64, 64))
    assert found == [f"memref<{want}, #gpu.address_space<workgroup>>"]


def given(function, *arg_types, out=None, take=lambda x, o, *rest: (x[...],), scratch=()):
    def body(*refs):
        inline(*arg_types, out=out)(function)(*take(*refs))

    return plgpu.kernel(body, out_type=like(64, 64), scratch_types=scratch)


same = lambda ctx, x: x
nothing = lambda ctx, *xs: None
WIDE = plgpu.Layout.WG_STRIDED((64, 64), vec_size=4)
BAD = {
    "no_type": (lambda: inline(STRIDED.to_mgpu()), "are plgpu.RefType"),
    "no_struct": (lambda: inline(out=like(64, 64)), "has plgpu.ShapeDtypeStruct"),
    "layout": (lambda: given(same, STRIDED, out=struct(64, 64, layout=WIDE)), "vec_size=2.*vec_size=4"),
    "shape": (lambda: given(same, STRIDED, out=struct(32, 64)), r"\(64, 64\).*\(32, 64\)"),
    "dtype": (lambda: given(same, STRIDED, out=struct(64, 64, dtype=i32)), "float32.*int32"),
    "no_result": (lambda: given(nothing, STRIDED, out=struct(64, 64)), "returns .*None.* return_type"),
    "a_result": (lambda: given(same, STRIDED), "return_type is .*None"),
    "no_array": (lambda: given(lambda ctx, x: 3, STRIDED, out=struct(64, 64)), "FragmentedArrays, got 3"),
    "arguments": (lambda: given(nothing, STRIDED, R()), "arg_types"),
    "reference": (lambda: given(nothing, STRIDED, take=lambda x, o: (x,)), "takes an array"),
    "array": (lambda: given(nothing, R()), "takes a reference"),
    "transforms": (
        lambda: given(nothing, R(), take=lambda x, o, s: (s,), scratch=[SMEM((64, 64), f32, transforms=TILED)]),
        "with other transforms",
    ),
    "transposed": (
        lambda: given(nothing, R(TILED), take=lambda x, o, s: (s.at[4:12],), scratch=[SMEM((64, 64), f32, transforms=TILED)]),
        "whole tiles",
    ),
    "barrier": (
        lambda: given(nothing, R(), take=lambda x, o, s: (s,), scratch=[plgpu.Barrier()]), "no barriers",
    ),
    "sign": (
        lambda: given(lambda ctx, x: mgpu.FragmentedArray.load_strided(x), R(), take=lambda x, o, s: (s,), scratch=[SMEM((64, 64), i32)]),
        "give is_signed",
    ),
    "layouts": (
        lambda: given(lambda ctx, x, y: x + y, STRIDED, WIDE, take=lambda x, o: (x[...], x[...])), "take to_layout",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refuses(name):
    make, message = BAD[name]
    with pytest.raises(
        (TypeError, ValueError, NotImplementedError), match=re.compile(message, re.DOTALL)
    ):
        lowered(make(), like(64, 64))


def test_is_only_for_functions_of_kernels():
    with pytest.raises(RuntimeError, match=r"Only functions of plgpu\.inline_mgpu"):
        mgpu.thread_idx()


def test_keeps_its_effects():
    def body(x_ref, o_ref):
        inline(R())(nothing)(o_ref)

    jaxpr = jax.make_jaxpr(plgpu.kernel(body, out_type=like(64, 64)))(like(64, 64))
    assert "inline_mgpu" in str(jaxpr)
