"""The product of matrices for Blackwell GPUs: interpreted, it is what jnp computes."""

import dataclasses

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas.ops.gpu.blackwell_matmul_mgpu import (
    MatmulDimension,
    TuningConfig,
    matmul_kernel,
)

CONFIG = TuningConfig(tile_m=128, tile_n=64, tile_k=64, max_concurrent_steps=2, collective=False)
PAIR = dataclasses.replace(CONFIG, collective=True, epilogue_tile_n=32)


def matrices(m, n, k, dtype):
    rng = np.random.default_rng(0)
    cast = lambda *shape: jnp.asarray(rng.normal(size=shape) / np.sqrt(k), dtype)
    return cast(m, k), cast(k, n)


@pytest.mark.parametrize(
    "shape, dtype, config",
    [
        ((384, 128, 192), jnp.bfloat16, CONFIG),
        ((256, 256, 64), jnp.float16, dataclasses.replace(CONFIG, max_concurrent_steps=3)),
        (
            (256, 256, 128), jnp.float16,
            dataclasses.replace(CONFIG, grid_minor_dim=MatmulDimension.M, grid_tile_width=2, tile_k=32),
        ),
        ((512, 256, 256), jnp.bfloat16, PAIR),
        ((256, 128, 128), jnp.float8_e4m3fn, dataclasses.replace(CONFIG, tile_k=128)),
    ],
)  # fmt: skip
def test_is_the_product(shape, dtype, config):
    a, b = matrices(*shape, dtype)
    run = jax.jit(lambda a, b: matmul_kernel(a, b, config, interpret=plgpu.InterpretParams()))
    want = jnp.dot(a.astype(jnp.float32), b.astype(jnp.float32)).astype(dtype)
    got = run(a, b)
    assert got.dtype == want.dtype
    narrow = dtype == jnp.float8_e4m3fn
    np.testing.assert_allclose(
        got.astype(jnp.float32), want.astype(jnp.float32), rtol=0.13 if narrow else 1e-2, atol=1e-2
    )


@pytest.mark.parametrize(
    "shape, dtype, config",
    [
        ((256, 128, 64), jnp.bfloat16, CONFIG),
        ((256, 64, 160), jnp.float16, dataclasses.replace(CONFIG, tile_k=32)),
        ((256, 256, 256), jnp.bfloat16, PAIR),
    ],
)
def test_derivatives(shape, dtype, config):
    a, b = matrices(*shape, dtype)
    run = lambda a, b: matmul_kernel(a, b, config, interpret=plgpu.InterpretParams())
    out, back = jax.vjp(run, a, b)
    g = jnp.asarray(np.random.default_rng(1).normal(size=out.shape), dtype)
    wide = [x.astype(jnp.float32) for x in (a, b, g)]
    for got, want in zip(back(g), (wide[2] @ wide[1].T, wide[0].T @ wide[2])):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.astype(jnp.float32), want, rtol=1e-2, atol=1e-2)


X = jax.ShapeDtypeStruct((256, 128), jnp.bfloat16)
Y = jax.ShapeDtypeStruct((128, 256), jnp.bfloat16)


@pytest.mark.parametrize(
    "a, b, changes, message",
    [
        (X, X, {}, r"takes matrices \(m, k\) and \(k, n\)"),
        (X, jax.ShapeDtypeStruct((128, 256), jnp.float16), {}, "one dtype of .*, got bfloat16 and float16"),
        (X, Y, dict(tile_m=64), "tile_m=64 must be 128"),
        (jax.ShapeDtypeStruct((250, 128), jnp.bfloat16), Y, {}, "m=250 must be divisible by tile_m=128"),
        (X, Y, dict(tile_n=96), "n=256 must be divisible by tile_n=96"),
        (X, Y, dict(tile_k=48), "k=128 must be divisible by tile_k=48"),
        (X, Y, dict(epilogue_tile_n=48), "must be divisible by epilogue_tile_n=48"),
        (X, jax.ShapeDtypeStruct((128, 512), jnp.bfloat16), dict(tile_n=256, collective=True), "more than 256 columns"),
    ],
)  # fmt: skip
def test_refuses(a, b, changes, message):
    config = dataclasses.replace(CONFIG, **changes)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda a, b: matmul_kernel(a, b, config), a, b)
