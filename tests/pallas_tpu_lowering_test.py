"""Kernels are lowered for TPUs as by the reference build, and refused with the line and the remedy."""

import re

import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

reference, test_reference, _ = case_tests(__file__)


def like(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def lower(kernel, *args, out=None, **options):
    call = pl.pallas_call(kernel, args[0] if out is None else out, **options)
    return jax.jit(call).trace(*args).lower(lowering_platforms=("tpu",))


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def spec(*shape, at=lambda i: (i, 0), **options):
    return pl.BlockSpec(shape, at, **options)


X, ANY = like(16, 128), pl.BlockSpec(memory_space=pl.ANY)


@pytest.mark.parametrize(
    "args, options, message",
    [
        ([X], dict(in_specs=[spec(2, 128)], out_specs=spec(2, 128)), "divisible by 8 and 128"),
        ([like(16, 256)], dict(in_specs=[spec(8, 64)], out_specs=spec(8, 64)), "args[0] in pallas_call copy"),
        ([like(512)], dict(in_specs=[pl.BlockSpec((64,), lambda i: i)], out_specs=pl.BlockSpec((64,), lambda i: i)), "rank 1"),
        ([like()], {}, "rank >= 1"),
        ([X], dict(in_specs=[spec(8, 128, memory_space=pl.ANY)], out_specs=spec(8, 128)), "give no block shape"),
        ([X], dict(in_specs=[ANY], out_specs=ANY, out=like(16, 128)), "pltpu.sync_copy"),
        ([X], dict(grid=(), in_specs=[spec(8, 128, at=lambda: (1, 0))], out_specs=spec(8, 128, at=lambda: (0, 0))), "grid-free"),
        (
            [X],
            dict(in_specs=[spec(8, 128, pipeline_mode=pl.Buffered(3))], out_specs=spec(8, 128)),
            "pltpu.emit_pipeline",
        ),
        ([X], dict(compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",) * 2)), "len(grid)=1"),
        ([X], dict(compiler_params=pltpu.CompilerParams(collective_id=1)), "custom barrier"),
        ([X], dict(compiler_params=pltpu.CompilerParams(flags={"a": "b"})), "invalid flag value"),
        ([like(16, 128, dtype=jnp.complex64)], {}, "complex"),
    ],
)  # fmt: skip
def test_refused_calls(args, options, message):
    options = dict(grid=(2,)) | options
    with pytest.raises((ValueError, NotImplementedError), match=re.escape(message)):
        lower(copy, *args, **options)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: jnp.sort(x, 1), "cannot have sort"),
        (lambda x: x[::2], "ref[pl.ds(start, size, stride)]"),
        (lambda x: lax.dot(x, x.T, precision="high"), "DEFAULT or HIGHEST"),
        (lambda x: lax.scan(lambda c, y: (c, y), 0.0, x)[1], "lax.fori_loop"),
        (lambda x: lax.bitcast_convert_type(x, jnp.int16)[..., 0], "pltpu.bitcast"),
    ],
)
def test_refused_operations(function, message):
    def kernel(x_ref, o_ref):
        o_ref[...] = function(x_ref[...])

    with pytest.raises(NotImplementedError, match=re.escape(message)) as e:
        lower(kernel, X, out=jax.eval_shape(function, X))
    assert "pallas_tpu_lowering_test.py" in str(e.value) + "".join(
        getattr(e.value, "__notes__", ())
    )


def test_refused_references():
    def scalar_to_vmem(x_ref, o_ref):
        o_ref[0, 0] = 1.0

    def array_from_smem(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def array_index(x_ref, o_ref):
        o_ref[...] = x_ref[jnp.arange(16)]

    def transposed(x_ref, o_ref):
        o_ref[...] = x_ref.T[...].T

    smem = [pl.BlockSpec(memory_space=pltpu.SMEM)]
    for kernel, specs, message in [
        (scalar_to_vmem, None, "Cannot store scalars to VMEM"),
        (array_from_smem, smem, "Can only load scalars from SMEM"),
        (array_index, None, "jnp.take_along_axis"),
        (transposed, None, "transpose the array"),
    ]:
        options = {} if specs is None else dict(in_specs=specs)
        with pytest.raises((ValueError, NotImplementedError), match=re.escape(message)):
            lower(kernel, X, **options)


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("name", ["v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2"])
def test_compiled(name):
    from pallas_tpu_lowering_scenarios import product

    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    device = topologies.get_topology_desc(name, "tpu").devices[0]
    x = jax.ShapeDtypeStruct((256, 256), jnp.float32, sharding=SingleDeviceSharding(device))
    blocks = [
        pl.BlockSpec((128, 128), at)
        for at in (lambda i, j, k: (i, k), lambda i, j, k: (k, j), lambda i, j, k: (i, j))
    ]
    call = pl.pallas_call(
        product, like(256, 256), grid=(2, 2, 2), in_specs=blocks[:2], out_specs=blocks[2]
    )
    assert "tpu_custom_call" in jax.jit(call).lower(x, x).compile().as_text()
