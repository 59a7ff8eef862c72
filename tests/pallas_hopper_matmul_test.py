"""The products of matrices for Hopper GPUs: interpreted, they are what jnp computes."""

import dataclasses

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu, hopper_mixed_type_matmul_mgpu
from jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu import MatmulDimension, TuningConfig

f16, bf16, f32, int8 = jnp.float16, jnp.bfloat16, jnp.float32, jnp.int8
M, N = MatmulDimension
CONFIG = TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2)
INTERPRET = plgpu.InterpretParams()


def options(**changes):
    return dataclasses.replace(CONFIG, **changes)


def matrix(seed, *shape, dtype):
    rng = np.random.default_rng(seed)
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.asarray(rng.integers(0 if dtype == jnp.uint8 else -8, 8, shape), dtype)
    return jnp.asarray(rng.normal(size=shape), dtype)


def same(got, want, dtype):
    assert got.dtype == dtype
    np.testing.assert_allclose(
        got.astype(f32),
        want.astype(dtype).astype(f32),
        rtol=0.01 if dtype != f32 else 1e-5,
        atol=1e-4,
    )


@pytest.mark.parametrize(
    "shape, dtype, added, config",
    [
        ((64, 192, 128), bf16, None, CONFIG),
        ((128, 128, 128), f16, f32, options(wg_dimension=M, max_concurrent_steps=3)),
        (
            (128, 64, 256), bf16, bf16,
            options(cluster_dimension=M, tile_n=128, epi_tile_n=None, epi_tile_m=None, grid_minor_dim=M, grid_tile_width=2),
        ),
        ((256, 64, 128), f16, None, options(wg_dimension=M, cluster_dimension=N, tile_m=128, tile_k=32)),
        ((64, 128, 96), f16, None, options(max_concurrent_steps=1, tile_n=48, epi_tile_n=16)),
    ],
)  # fmt: skip
def test_is_the_product(shape, dtype, added, config):
    m, k, n = shape
    a, b = matrix(0, m, k, dtype=dtype), matrix(1, k, n, dtype=dtype)
    c = None if added is None else matrix(2, m, n, dtype=added)
    run = jax.jit(lambda *x: hopper_matmul_mgpu.matmul(*x, config, interpret=INTERPRET))
    want = a.astype(f32) @ b.astype(f32) + (0 if c is None else c.astype(f32))
    same(run(a, b, c), want, added or dtype)


def test_blocks_take_several_tiles_in_turn(monkeypatch):
    monkeypatch.setattr("jax._src.pallas.ops.gpu.warpgroups.multiprocessors", lambda: 2)
    a, b = matrix(0, 192, 64, dtype=bf16), matrix(1, 64, 256, dtype=bf16)
    got = hopper_matmul_mgpu.matmul(a, b, None, CONFIG, interpret=INTERPRET)
    same(got, a.astype(f32) @ b.astype(f32), bf16)


def test_in_a_kernel_that_looks_at_each_step():
    """The kernel stores the parts of the left matrix, as one would that sends them to other devices."""
    a, b = matrix(0, 64, 128, dtype=bf16), matrix(1, 128, 128, dtype=bf16)

    def body(a_ref, b_ref, out_ref, seen_ref):
        def look(m, n, k, a_part, b_part):
            @pl.when(jax.lax.axis_index("wg") == 0)
            def _():
                seen_ref[pl.ds(m * 64, 64), pl.ds(k * 64, 64)] = a_part[...]

        hopper_matmul_mgpu.kernel(
            a_ref, b_ref, None, out_ref, CONFIG, pipeline_callback=look, delay_release=1
        )

    run = plgpu.kernel(
        body, out_type=(jax.ShapeDtypeStruct((64, 128), f32), jax.typeof(a)), grid=(1,), grid_names=("cluster_grid",),
        cluster=(1,), cluster_names=("cluster",), num_threads=3, thread_name="wg", interpret=INTERPRET,
    )  # fmt: skip
    got, seen = run(a, b)
    same(got, a.astype(f32) @ b.astype(f32), f32)
    np.testing.assert_array_equal(seen, a)


@pytest.mark.parametrize(
    "left, right, out, config",
    [
        (int8, bf16, f32, CONFIG),
        (jnp.float8_e4m3fn, f16, f16, options(wg_dimension=M, max_concurrent_steps=3)),
        (jnp.uint8, f16, f32, options(cluster_dimension=M)),
    ],
)
def test_is_the_product_of_two_dtypes(left, right, out, config):
    a, b = matrix(0, 128, 128, dtype=left), matrix(1, 128, 128, dtype=right)
    run = dict(out_dtype=jnp.dtype(out), config=config, interpret=INTERPRET)
    got = jax.jit(lambda a, b: hopper_mixed_type_matmul_mgpu.mixed_matmul_kernel(a, b, **run))(a, b)
    same(got, a.astype(right).astype(f32) @ b.astype(f32), out)
    plain = hopper_mixed_type_matmul_mgpu.reference(a, b, out_dtype=jnp.dtype(out))
    same(got, plain, out)


@pytest.mark.parametrize(
    "shape, dtype, added, config",
    [
        ((64, 192, 128), bf16, None, CONFIG),
        ((128, 64, 256), bf16, f32, options(cluster_dimension=M, tile_n=128, epi_tile_n=None, epi_tile_m=None)),
        # rows of one derivative, and columns of the other, that are few
        ((64, 48, 96), f16, None, options(max_concurrent_steps=1, tile_n=48, tile_k=48, epi_tile_n=16)),
    ],
)  # fmt: skip
def test_derivatives(shape, dtype, added, config):
    m, k, n = shape
    args = [matrix(0, m, k, dtype=dtype), matrix(1, k, n, dtype=dtype)]
    args += [] if added is None else [matrix(2, m, n, dtype=added)]
    weights = matrix(3, m, n, dtype=dtype).astype(f32)

    def run(a, b, c=None):
        out = hopper_matmul_mgpu.matmul(a, b, c, config, interpret=INTERPRET)
        return (out.astype(f32) * weights).sum()

    def plain(a, b, c=0):
        return ((a @ b + c) * weights).sum()

    numbers = tuple(range(len(args)))
    got = jax.jit(jax.grad(run, numbers))(*args)
    want = jax.grad(plain, numbers)(*[x.astype(f32) for x in args])
    for x, y, arg in zip(got, want, args):
        same(x, y, arg.dtype)


def test_tangents_and_second_derivatives():
    a, b = matrix(0, 64, 64, dtype=f16), matrix(1, 64, 128, dtype=f16)
    run = lambda a, b: hopper_matmul_mgpu.matmul(a, b, None, CONFIG, interpret=INTERPRET)
    out, tangent = jax.jvp(run, (a, b), (a, 2 * b))
    np.testing.assert_allclose(tangent.astype(f32), 3 * out.astype(f32), rtol=0.01, atol=0.01)

    def second(run):
        first = jax.grad(lambda a, b: (run(a, b).astype(f32) ** 2).sum() / 64)
        return jax.grad(lambda a, b: first(a, b).astype(f32).sum(), (0, 1))(a, b)

    for x, y in zip(second(run), second(jnp.matmul)):
        np.testing.assert_allclose(x.astype(f32), y.astype(f32), rtol=0.01, atol=0.1)


@pytest.mark.parametrize("left", [int8, jnp.float8_e4m3fn])
def test_derivatives_of_two_dtypes(left):
    a, b = matrix(0, 128, 64, dtype=left), matrix(1, 64, 128, dtype=bf16)
    weights = matrix(2, 128, 128, dtype=bf16).astype(f32)
    options = dict(out_dtype=jnp.dtype(f32), config=CONFIG, interpret=INTERPRET)

    def run(a, b):
        return (hopper_mixed_type_matmul_mgpu.mixed_matmul_kernel(a, b, **options) * weights).sum()

    plain = lambda a, b: (a.astype(f32) @ b.astype(f32) * weights).sum()
    numbers = (1,) if left == int8 else (0, 1)
    for x, y in zip(jax.grad(run, numbers)(a, b), jax.grad(plain, numbers)(a, b)):
        assert x.dtype == y.dtype
        rounding = 0.01 if x.dtype == bf16 else 0.13
        np.testing.assert_allclose(x.astype(f32), y.astype(f32), rtol=rounding, atol=1e-2)


def struct(*shape, dtype=bf16):
    return jax.ShapeDtypeStruct(shape, dtype)


X, Y = struct(128, 256), struct(256, 256)


@pytest.mark.parametrize(
    "args, changes, message",
    [
        ((X, X, None), {}, r"takes matrices \(m, k\) and \(k, n\)"),
        ((struct(128), Y, None), {}, r"takes matrices \(m, k\) and \(k, n\)"),
        ((X, struct(256, 256, dtype=f16), None), {}, "one dtype, .*, got bfloat16 and float16"),
        ((struct(128, 256, dtype=f32), struct(256, 256, dtype=f32), None), {}, "bfloat16 or float16, got float32"),
        ((X, Y, struct(256, 256)), {}, r"adds c of shape \(128, 256\) .* got shape \(256, 256\)"),
        ((struct(100, 256), Y, None), {}, "m=100 must be divisible by 64, the rows"),
        ((X, Y, None), dict(tile_n=96), "n=256 must be divisible by 192, the columns of two warpgroups along N"),
        ((X, Y, None), dict(wg_dimension=M, cluster_dimension=M), "m=128 must be divisible by 256, .* two blocks along M"),
        ((X, Y, None), dict(tile_k=96), "k=256 must be divisible by tile_k=96"),
        ((X, Y, None), dict(tile_k=8), "have 16 bytes, which must be a multiple of 32"),
        ((X, Y, None), dict(tile_m=32), "tile_m=32 must be a multiple of 64"),
        ((X, Y, None), dict(tile_n=12), "tile_n=12 must be a multiple of 8"),
        ((X, Y, None), dict(epi_tile_n=48), "tile_n=64 must be divisible by epi_tile_n=48"),
        ((X, Y, None), dict(epi_tile_m=32), "epi_tile_m=32 must be a multiple of 64"),
        ((X, Y, None), dict(max_concurrent_steps=0), "max_concurrent_steps must be greater than delay_release"),
        ((X, Y, None), dict(grid_tile_width=0), "grid_tile_width=0 must be positive"),
    ],
)  # fmt: skip
def test_refuses(args, changes, message):
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda *x: hopper_matmul_mgpu.matmul(*x, options(**changes)), *args)


@pytest.mark.parametrize(
    "left, right, out, message",
    [
        (bf16, bf16, bf16, "two dtypes, got bfloat16 of both: take hopper_matmul_mgpu.matmul"),
        (f16, bf16, bf16, "a left matrix of int8, .*, got float16"),
        (int8, f32, f32, "a right one of bfloat16 or float16, got int8 and float32"),
        (int8, bf16, int8, "out_dtype .* is bfloat16, float16, float32, got int8"),
    ],
)
def test_refuses_dtypes(left, right, out, message):
    run = lambda a, b: hopper_mixed_type_matmul_mgpu.mixed_matmul_kernel(
        a, b, out_dtype=jnp.dtype(out), config=CONFIG
    )
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(run, struct(128, 128, dtype=left), struct(128, 128, dtype=right))


def test_kernel_checks_the_cluster():
    def body(a_ref, b_ref, out_ref):
        hopper_matmul_mgpu.kernel(a_ref, b_ref, None, out_ref, options(cluster_dimension=M))

    run = plgpu.kernel(
        body, out_type=struct(128, 256), grid=(1,), grid_names=("cluster_grid",), cluster=(1,),
        cluster_names=("cluster",), num_threads=3, thread_name="wg",
    )  # fmt: skip
    with pytest.raises(ValueError, match="takes clusters of 2 blocks along 'cluster', got 1"):
        jax.eval_shape(run, X, Y)
