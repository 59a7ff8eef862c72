"""The products of groups of rows for Hopper GPUs: interpreted, they are what jnp computes."""

import dataclasses

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas.ops.gpu.ragged_dot_mgpu import GroupInfo, ragged_dot
from jax.experimental.pallas.ops.gpu.transposed_ragged_dot_mgpu import (
    ref_transposed_ragged_dot,
    transposed_ragged_dot,
)

f16, bf16, f32, i32 = jnp.float16, jnp.bfloat16, jnp.float32, jnp.int32
BLOCKS = dict(block_m=64, block_n=64, block_k=64, max_concurrent_steps=2, grid_block_n=2)
INTERPRET = plgpu.InterpretParams()

NOTHING = (0,) * 7
# Of groups of some sizes in blocks of 16: what PyPI's jax finds.
PAIRS = [
    (
        [10, 0, 17, 9],
        [
            (0, 0, 0, 0, 10, 0, 10), (1, 0, 0, 10, 10, 10, 0), (2, 0, 0, 10, 16, 10, 6), (2, 1, 16, 16, 27, 0, 11),
            (3, 1, 16, 27, 32, 11, 5), (3, 2, 32, 32, 36, 0, 4), NOTHING,
        ],
    ),
    (
        [16, 0, 0, 46, 0, 10],
        [
            (0, 0, 0, 0, 16, 0, 16), NOTHING, NOTHING, NOTHING, (3, 1, 16, 16, 32, 0, 16), (3, 2, 32, 32, 48, 0, 16),
            (3, 3, 48, 48, 62, 0, 14), (4, 3, 48, 62, 62, 14, 0), (5, 3, 48, 62, 64, 14, 2), (5, 4, 64, 64, 72, 0, 8), NOTHING,
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize("sizes, pairs", PAIRS)
def test_pairs_of_groups_and_blocks(sizes, pairs):
    for lengths in (sizes, jnp.array(sizes, i32)):
        for tid, want in enumerate(pairs):
            info = GroupInfo.create(lengths, 16, jnp.int32(tid))
            assert tuple(map(int, dataclasses.astuple(info))) == want


def arrays(dtype, *shapes):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=s), dtype) for s in shapes]


def same(got, want, dtype):
    assert got.dtype == dtype
    want = np.asarray(want, np.float32)
    tolerance = 2e-3 if dtype == f16 else 1e-2
    np.testing.assert_allclose(got.astype(f32), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "m, k, n, sizes, dtype, transposed, changes",
    [
        (192, 128, 128, [10, 0, 70, 112], f16, False, {}),
        (128, 128, 192, [64, 30, 0, 0], bf16, True, dict(block_m=128, block_k=32, max_concurrent_steps=3)),
        (200, 64, 200, [130, 20], f16, False, dict(block_n=128, load_group_sizes_to_register=False)),
        (100, 64, 64, [100], f16, True, dict(max_concurrent_steps=1, grid_block_n=1)),
    ],
)  # fmt: skip
def test_is_the_product(m, k, n, sizes, dtype, transposed, changes):
    x, y = arrays(dtype, (m, k), (len(sizes), k, n))
    options = BLOCKS | dict(transpose_rhs=transposed, interpret=INTERPRET) | changes
    given = y.swapaxes(1, 2) if transposed else y
    sizes = jnp.array(sizes)
    got = jax.jit(lambda *x: ragged_dot(*x[:2], group_sizes=x[2], **options))(x, given, sizes)
    same(got, jax.lax.ragged_dot(x.astype(f32), y.astype(f32), sizes), dtype)


@pytest.mark.parametrize(
    "k, m, n, sizes, dtype, changes",
    [
        (192, 64, 128, [10, 0, 54, 100], f16, {}),
        (100, 128, 64, [10, 20, 0, 70], bf16, dict(block_k=32, block_m=128, max_concurrent_steps=3)),
        (128, 64, 192, [128], f16, dict(max_concurrent_steps=1, grid_block_n=3)),
    ],
)  # fmt: skip
def test_is_the_transposed_product(k, m, n, sizes, dtype, changes):
    x, y = arrays(dtype, (k, m), (k, n))
    ends = np.cumsum([0, *sizes])
    wide = [np.asarray(a, np.float32) for a in (x, y)]
    want = np.stack([wide[0][i:j].T @ wide[1][i:j] for i, j in zip(ends, ends[1:])])
    sizes = jnp.array(sizes)
    options = BLOCKS | dict(interpret=INTERPRET) | changes
    got = jax.jit(lambda *x: transposed_ragged_dot(*x[:2], group_sizes=x[2], **options))(
        x, y, sizes
    )
    same(got, want, dtype)
    same(ref_transposed_ragged_dot(x, y, sizes), want, dtype)


def by_plain_products(transposed, sizes):
    """The product of groups of rows, or that of transposed ones, in float32."""
    ends = np.cumsum([0, *sizes])

    def run(x, y):
        parts = zip(ends, ends[1:])
        if transposed:
            return jnp.stack([x[i:j].T @ y[i:j] for i, j in parts])
        out = [x[i:j] @ y[number] for number, (i, j) in enumerate(parts)]
        return jnp.concatenate([*out, jnp.zeros((x.shape[0] - ends[-1], y.shape[2]))])

    return run


@pytest.mark.parametrize(
    "shapes, sizes, dtype, turned, changes",
    [
        ([(192, 128), (3, 128, 64)], [10, 70, 112], f16, False, {}),
        ([(100, 64), (2, 200, 64)], [70, 20], bf16, True, dict(block_n=128, block_k=32)),
        ([(64, 64), (2, 8, 64)], [40, 20], f16, True, dict(block_n=8)),
        ([(192, 64), (192, 128)], [10, 0, 150], f16, None, {}),
        ([(40, 128), (40, 192)], [15, 20], bf16, None, dict(block_m=128, block_k=32)),
    ],
)  # fmt: skip
def test_derivatives(shapes, sizes, dtype, turned, changes):
    x, y = arrays(dtype, *shapes)
    options = BLOCKS | dict(group_sizes=jnp.array(sizes), interpret=INTERPRET) | changes
    if turned is None:
        run = lambda x, y: transposed_ragged_dot(x, y, **options)
    else:
        run = lambda x, y: ragged_dot(x, y, transpose_rhs=turned, **options)
    plain = by_plain_products(turned is None, sizes)
    of_y = lambda y: y.swapaxes(1, 2) if turned else y
    out, back = jax.vjp(run, x, y)
    _, plain_back = jax.vjp(lambda x, y: plain(x, of_y(y)), x.astype(f32), y.astype(f32))
    (g,) = arrays(dtype, out.shape)
    for got, want in zip(back(g), plain_back(g.astype(f32))):
        same(got, want, dtype)


def test_rows_of_other_groups_are_not_multiplied():
    """Not by zero either: they may be infinite."""
    x, y = arrays(f16, (64, 64), (64, 64))
    x, y = x.at[20:].set(jnp.inf), y.at[20:].set(jnp.nan)
    options = BLOCKS | dict(interpret=INTERPRET)
    got = transposed_ragged_dot(x, y, group_sizes=jnp.array([20]), **options)
    same(got[0], x[:20].astype(f32).T @ y[:20].astype(f32), f16)


def struct(*shape, dtype=f16):
    return jax.ShapeDtypeStruct(shape, dtype)


X, Y, SIZES = struct(128, 128), struct(2, 128, 256), struct(2, dtype=i32)


@pytest.mark.parametrize(
    "args, changes, message",
    [
        ((X, struct(2, 128, 256, dtype=bf16), SIZES), {}, "one dtype, bfloat16 or float16, got float16 and bfloat16"),
        ([*[struct(*a.shape, dtype=f32) for a in (X, Y)], SIZES], {}, "one dtype, .*, got float32"),
        ((X, Y, struct(2, dtype=f32)), {}, "an integer dtype, got shape .2,. of float32"),
        ((X, Y, struct(2, 1, dtype=i32)), {}, r"group_sizes of shape \(groups,\)"),
        ((X, X, SIZES), {}, r"shape \(m, k\) and \(groups, k, n\)"),
        ((X, struct(2, 64, 256), SIZES), {}, "inner dimensions and numbers of groups must agree"),
        ((X, Y, struct(3, dtype=i32)), {}, "with 3 groups: inner dimensions and numbers"),
        ((X, Y, SIZES), dict(transpose_rhs=True), r"\(transposed\)"),
        ((X, struct(2, 128, 100), SIZES), {}, "n=100 must be a multiple of 8"),
        ((X, Y, SIZES), dict(block_k=48), "k=128 must be divisible by block_k=48"),
        ((X, Y, SIZES), dict(block_m=192), "m=128 must be at least block_m=192"),
        ((X, struct(2, 128, 32), SIZES), {}, "n=32 must be at least block_n=64"),
        ((X, Y, SIZES), dict(block_m=32), "block_m=32 must be a multiple of 64"),
        ((X, Y, SIZES), dict(block_n=12), "block_n=12 must be a multiple of 8"),
        ((X, Y, SIZES), dict(max_concurrent_steps=0), "max_concurrent_steps=0 must be positive"),
        ((X, Y, SIZES), dict(grid_block_n=0), "grid_block_n=0 must be positive"),
    ],
)  # fmt: skip
def test_refuses(args, changes, message):
    options = BLOCKS | changes
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda *x: ragged_dot(*x[:2], group_sizes=x[2], **options), *args)


A, B = struct(128, 192), struct(128, 256)


@pytest.mark.parametrize(
    "args, changes, message",
    [
        ((A, struct(128, 256, dtype=bf16), SIZES), {}, "one dtype, .*, got float16 and bfloat16"),
        ((A, struct(64, 256), SIZES), {}, r"shape \(k, m\) and \(k, n\)"),
        ((struct(128, 200), B, SIZES), {}, "m=200 must be divisible by block_m=64"),
        ((A, struct(128, 200), SIZES), {}, "n=200 must be divisible by block_n=64"),
        ((A, B, SIZES), dict(block_k=24), "block_k=24 must be a multiple of 16"),
        ((A, B, SIZES), dict(grid_block_n=0), "grid_block_n=0 must be positive"),
    ],
)
def test_transposed_refuses(args, changes, message):
    options = BLOCKS | changes
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda *x: transposed_ragged_dot(*x[:2], group_sizes=x[2], **options), *args)
