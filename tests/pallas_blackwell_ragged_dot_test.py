"""The product of groups of rows for Blackwell GPUs: interpreted, it is what jnp computes."""

import dataclasses

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas.ops.gpu.blackwell_matmul_mgpu import MatmulDimension
from jax.experimental.pallas.ops.gpu.blackwell_ragged_dot_mgpu import (
    TuningConfig,
    ragged_dot_kernel,
    ragged_dot_reference,
    sample_group_sizes,
)

f16, bf16, f32, i32 = jnp.float16, jnp.bfloat16, jnp.float32, jnp.int32
M, N = MatmulDimension
CONFIG = TuningConfig(
    tile_m=128, tile_n=64, tile_k=64, max_concurrent_steps=2, collective=False, grid_tile_width=1,
    grid_minor_dim=N,
)  # fmt: skip
PAIR = dataclasses.replace(CONFIG, collective=True, epilogue_tile_n=32)
INTERPRET = plgpu.InterpretParams()


def arrays(dtype, *shapes):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=s) / np.sqrt(s[-1]), dtype) for s in shapes]


@pytest.mark.parametrize(
    "m, k, n, sizes, dtype, config",
    [
        (384, 128, 128, [10, 0, 250, 124], f16, CONFIG),
        (256, 64, 192, [128, 0, 0, 40, 0], bf16, dataclasses.replace(CONFIG, max_concurrent_steps=3)),
        (
            256, 128, 128, [1, 126, 2], f16,
            dataclasses.replace(CONFIG, grid_minor_dim=M, grid_tile_width=2, tile_k=32, epilogue_tile_n=32),
        ),
        (512, 128, 128, [100, 50, 0, 270], bf16, PAIR),
        (512, 64, 256, [512], f16, dataclasses.replace(PAIR, grid_tile_width=3, grid_minor_dim=M)),
        (128, 128, 64, [0, 0], f16, CONFIG),
        (256, 128, 64, [70, 100], jnp.float8_e4m3fn, dataclasses.replace(CONFIG, tile_k=128)),
    ],
)  # fmt: skip
def test_is_the_product(m, k, n, sizes, dtype, config):
    a, b = arrays(dtype, (m, k), (len(sizes), k, n))
    got = jax.jit(lambda *x: ragged_dot_kernel(*x, config, interpret=INTERPRET))(
        a, b, jnp.array(sizes, i32)
    )
    assert got.dtype == dtype
    wide = [np.asarray(x, np.float32) for x in (a, b)]
    ends = np.cumsum([0, *sizes])
    want = np.zeros((m, n), np.float32)
    for i, (start, end) in enumerate(zip(ends, ends[1:])):
        want[start:end] = wide[0][start:end] @ wide[1][i]
    want = jnp.asarray(want).astype(dtype).astype(f32)
    rtol, atol = {f16: (2e-3, 2e-3), bf16: (1e-2, 1e-2)}.get(dtype, (0.13, 1e-2))
    np.testing.assert_allclose(got.astype(f32), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "m, k, n, sizes, dtype, config",
    [
        (256, 128, 64, [10, 0, 150, 64], f16, CONFIG),
        (256, 64, 96, [256, 0], bf16, dataclasses.replace(CONFIG, tile_n=32, tile_k=32, epilogue_tile_n=32)),
        (256, 256, 128, [100, 50], bf16, PAIR),
    ],
)  # fmt: skip
def test_derivatives(m, k, n, sizes, dtype, config):
    a, b, g = arrays(dtype, (m, k), (len(sizes), k, n), (m, n))
    run = lambda a, b: ragged_dot_kernel(a, b, jnp.array(sizes, i32), config, interpret=INTERPRET)
    got = jax.vjp(run, a, b)[1](g)
    wide = [np.asarray(x, np.float32) for x in (a, b, g)]
    ends = np.cumsum([0, *sizes])
    want = [np.zeros(x.shape, np.float32) for x in (a, b)]
    for i, (start, end) in enumerate(zip(ends, ends[1:])):
        want[0][start:end] = wide[2][start:end] @ wide[1][i].T
        want[1][i] = wide[0][start:end].T @ wide[2][start:end]
    for x, y in zip(got, want):
        assert x.dtype == dtype
        np.testing.assert_allclose(x.astype(f32), y, rtol=1e-2, atol=1e-2)


def test_second_derivatives():
    a, b = arrays(f16, (128, 64), (2, 64, 64))
    sizes = jnp.array([40, 80])

    def second(run):
        first = jax.grad(lambda b: (run(a, b) ** 2).astype(f32).sum())
        return jax.jit(jax.grad(lambda b: (first(b) * b).astype(f32).sum()))(b)

    found = second(lambda a, b: ragged_dot_kernel(a, b, sizes, CONFIG, interpret=INTERPRET))
    plain = second(lambda a, b: jax.lax.ragged_dot(a.astype(f32), b.astype(f32), sizes))
    np.testing.assert_allclose(found.astype(f32), plain.astype(f32), rtol=2e-2, atol=2e-2)


def test_rows_of_other_groups_do_no_harm():
    a, b = arrays(f16, (128, 64), (2, 64, 64))
    a, b = a.at[20:].set(jnp.nan), b.at[1].set(jnp.nan)
    got = ragged_dot_kernel(a, b, jnp.array([20, 108]), CONFIG, interpret=INTERPRET)
    want = a[:20].astype(f32) @ b[0].astype(f32)
    np.testing.assert_allclose(got[:20].astype(f32), want, rtol=2e-3, atol=2e-3)
    assert np.isnan(got[20:]).all()


def test_many_groups_of_random_sizes():
    sizes = sample_group_sizes(jax.random.key(1), 12, 384, 1.0)
    a, b = arrays(bf16, (384, 64), (12, 64, 64))
    got = ragged_dot_kernel(a, b, sizes, CONFIG, interpret=INTERPRET)
    want = ragged_dot_reference(a, b, sizes)
    assert want.dtype == f16  # as that of PyPI's
    np.testing.assert_allclose(got.astype(f32), want.astype(f32), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    "alpha, sizes",
    [(10.0, [60, 42, 76, 61, 118, 67, 44, 44]), (1.0, [70, 15, 148, 104, 62, 55, 3, 55])],
)
def test_sizes_are_those_of_pypi(alpha, sizes):
    got = sample_group_sizes(jax.random.key(0), 8, 512, alpha)
    assert got.dtype == i32
    assert got.tolist() == sizes


def struct(*shape, dtype=f16):
    return jax.ShapeDtypeStruct(shape, dtype)


A, B, SIZES = struct(256, 128), struct(2, 128, 256), struct(2, dtype=i32)


@pytest.mark.parametrize(
    "args, changes, message",
    [
        ((A, A, SIZES), {}, r"shape \(m, k\) and \(groups, k, n\)"),
        ((A, struct(2, 64, 256), SIZES), {}, "ragged_dot_kernel takes matrices .*k=128 is not 64"),
        (
            (A, struct(2, 128, 256, dtype=bf16), SIZES),
            {},
            "one dtype of .*, got float16 and bfloat16",
        ),
        ((A, B, struct(3, dtype=i32)), {}, r"of 2 matrices takes group_sizes of shape \(2,\)"),
        ((A, B, struct(2, dtype=f32)), {}, "an integer dtype, got shape .2,. of float32"),
        ((struct(250, 128), B, SIZES), {}, "m=250 must be divisible by tile_m=128"),
        ((A, B, SIZES), dict(tile_n=96), "n=256 must be divisible by tile_n=96"),
        ((A, B, SIZES), dict(tile_k=48), "k=128 must be divisible by tile_k=48"),
        ((A, B, SIZES), dict(epilogue_tile_n=48), "must be divisible by epilogue_tile_n=48"),
    ],
)
def test_refuses(args, changes, message):
    config = dataclasses.replace(CONFIG, **changes)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda *x: ragged_dot_kernel(*x, config), *args)
