"""Kernels for GPUs (Mosaic GPU) of one warpgroup, with what they compute."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

f16, bf16, f32, i32 = jnp.float16, jnp.bfloat16, jnp.float32, jnp.int32
SMEM = plgpu.SMEM


def like(*shape, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype)


def swizzled(bytes_, dtype):
    columns = bytes_ // np.dtype(dtype).itemsize
    return (plgpu.TilingTransform((8, columns)), plgpu.SwizzleTransform(bytes_))


SWIZZLED = swizzled(128, f16)


@dataclasses.dataclass
class Kernel:
    """A kernel, the types of its arguments and result, options, and the function that it computes."""

    body: Callable
    args: list
    out: Any
    expected: Callable
    options: dict = dataclasses.field(default_factory=dict)
    tolerance: float = 1e-5
    counters: int = 0  # the semaphores of all blocks

    def __post_init__(self):
        self.call = plgpu.kernel(self.body, out_type=self.out, **self.options)


# Arithmetic


def add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def functions(x_ref, o_ref):
    o_ref[...] = _functions(x_ref[...])


def _functions(x):
    y = jnp.tanh(x) + jnp.exp(x) / jnp.sqrt(jnp.abs(x)) * jax.nn.sigmoid(x)
    y += (
        x.astype(i32).astype(x.dtype)
        + jnp.expm1(x)
        + lax.rem(x, y.dtype.type(0.75))
        - lax.rsqrt(x * x)
        + x**3
        + jnp.sign(x)
    )
    return jnp.where(y > 0, y, jnp.maximum(x, 1).astype(bf16).astype(x.dtype))


def integers(x_ref, y_ref, o_ref):
    o_ref[...] = _integers(x_ref[...], y_ref[...])


def _integers(x, y):
    mask = (x > y) ^ (x & 1 == 0)
    return jnp.where(mask, x // 3 * (y | 5), lax.rem(x, jnp.int32(7)) - (y >> 2)) + ~x


def narrow_floats(x_ref, o_ref):
    """Conversions to eight bits and back, also of what is beyond their largest numbers."""
    x = x_ref[...] * 200
    y = x.astype(jnp.float8_e4m3fn).astype(bf16).astype(f32)
    z = (x * 200).astype(f16).astype(jnp.float8_e5m2).astype(f32)
    o_ref[...] = jnp.where(y == y, y, 1000) + jnp.where(jnp.abs(z) < 1e6, z, jnp.sign(z) * 1e6)


def _narrow_floats(x):
    x = np.float32(x) * np.float32(200)
    y = x.astype(jnp.float8_e4m3fn).astype(np.float32)
    with np.errstate(over="ignore"):
        z = (x * np.float32(200)).astype(np.float16).astype(jnp.float8_e5m2).astype(np.float32)
    return np.where(y == y, y, 1000) + np.where(np.abs(z) < 1e6, z, np.sign(z) * 1e6)


def booleans(x_ref, o_ref):
    o_ref[...] = (x_ref[...] > 0) | (x_ref[...] < -1)


def rows(x_ref, o_ref):
    i = lax.axis_index("row")
    total = lax.fori_loop(0, 4, lambda k, acc: acc + x_ref[i, k], jnp.zeros((256,), f32))
    o_ref[i] = total * plgpu.broadcasted_iota(f32, (256,), 0)


def branches(x_ref, o_ref):
    i = lax.axis_index("row")
    x = x_ref[i]
    y = lax.cond(i % 2 == 0, lambda: x * 2, lambda: x + 1)
    z = lax.switch(i, [lambda: y, lambda: y - 3, lambda: y * y])

    @pl.when(i != 1)
    def _():
        o_ref[i] = z

    @pl.when(i == 1)
    def _():
        steps = lambda s: (s[0] + 1, s[1] + x)
        o_ref[i] = lax.while_loop(lambda s: s[0] < 3, steps, (jnp.int32(0), z))[1]


def _branches(x):
    two = (x[1] + 1 - 3) + 3 * x[1]
    return np.stack([x[0] * 2, two, (x[2] * 2) ** 2])


def atomics(x_ref, o_ref, total):
    total[...] = jnp.zeros((128,), i32)
    for _ in range(2):
        plgpu.atomic_add(total, x_ref[...])
    plgpu.atomic_max(total.at[3], 7)
    o_ref[...] = total[...]


def _atomics(x):
    out = 2 * x
    out[3] = max(out[3], 7)
    return out


# Copies


def double(x_ref, o_ref, buffer, barrier):
    part = pl.ds(lax.axis_index("block") * 64, 64)
    plgpu.copy_gmem_to_smem(x_ref.at[part], buffer, barrier)
    plgpu.barrier_wait(barrier)
    buffer[...] = buffer[...] * 2
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(buffer, o_ref.at[part])
    plgpu.wait_smem_to_gmem(0)


def doubled(dtype, transforms=()):
    return Kernel(
        double,
        [like(128, 64, dtype=dtype)],
        like(128, 64, dtype=dtype),
        lambda x: x * 2,
        dict(
            grid=(2,), grid_names=("block",),
            scratch_types=[SMEM((64, 64), dtype, transforms=transforms), plgpu.Barrier()],
        ),
    )  # fmt: skip


def turned(x_ref, o_ref, buffer, barriers):
    for i in range(2):
        plgpu.copy_gmem_to_smem(x_ref.at[i], buffer.at[i], barriers.at[i])
    for i in range(2):
        plgpu.barrier_wait(barriers.at[i])
    whole = plgpu.transpose_ref(buffer, (0, 2, 1))
    o_ref[...] = whole[...].reshape(2, 32, 64)


# Products


def matmul(a_ref, b_ref, o_ref, a, b, o, barrier):
    part = pl.ds(lax.axis_index("m") * 64, 64)
    plgpu.copy_gmem_to_smem(a_ref.at[part], a, barrier)
    plgpu.copy_gmem_to_smem(b_ref, b, barrier)
    plgpu.barrier_wait(barrier)

    def multiply(acc):
        plgpu.wgmma(acc, a, b)
        plgpu.wgmma_wait(0)
        return acc[...]

    o[...] = pl.run_scoped(multiply, plgpu.ACC((64, 128))).astype(o.dtype)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o, o_ref.at[part])
    plgpu.wait_smem_to_gmem(0)


def _product(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


MATMUL = Kernel(
    matmul,
    [like(128, 64, dtype=f16), like(64, 128, dtype=f16)],
    like(128, 128, dtype=f16),
    _product,
    dict(
        grid=(2,), grid_names=("m",),
        scratch_types=[
            SMEM((64, 64), f16, transforms=SWIZZLED), SMEM((64, 128), f16, transforms=SWIZZLED),
            SMEM((64, 128), f16, transforms=SWIZZLED), plgpu.Barrier(num_arrivals=2),
        ],
    ),
    tolerance=1e-3,
)  # fmt: skip


def pipelined(transposed, dtype):
    """A product with a pipeline over its inner dimension; the right matrix may be given transposed."""

    def body(a_ref, b_ref, o_ref):
        def multiply(acc):
            def step(indices, a, b):
                plgpu.wgmma(acc, a, plgpu.transpose_ref(b, (1, 0)) if transposed else b)
                plgpu.wgmma_wait(0)

            shape, index = ((64, 64), lambda k: (k, 0))
            if transposed:
                index = lambda k: (0, k)
            plgpu.emit_pipeline(
                step,
                grid=(3,),
                in_specs=[
                    plgpu.BlockSpec((64, 64), lambda k: (0, k), transforms=swizzled(128, dtype)),
                    plgpu.BlockSpec(shape, index, transforms=swizzled(128, dtype)),
                ],
                max_concurrent_steps=2,
            )(a_ref, b_ref)
            return acc[...]

        o_ref[...] = pl.run_scoped(multiply, plgpu.ACC((64, 64)))

    right = like(64, 192, dtype=dtype) if transposed else like(192, 64, dtype=dtype)
    expected = (lambda a, b: _product(a, b.T)) if transposed else _product
    return Kernel(body, [like(64, 192, dtype=dtype), right], like(64, 64), expected)


def from_registers(a_ref, b_ref, o_ref, b, barrier):
    plgpu.copy_gmem_to_smem(b_ref, b, barrier)
    plgpu.barrier_wait(barrier)
    a = plgpu.load(a_ref, (), layout=plgpu.Layout.WGMMA, optimized=False)

    def multiply(acc):
        plgpu.wgmma(acc, a * 2, b)
        plgpu.wgmma_wait(0)
        return acc[...]

    o_ref[...] = pl.run_scoped(multiply, plgpu.ACC((64, 64)))


KERNELS = {
    "add": Kernel(add, [like(256), like(256)], like(256), np.add),
    "add_of_few": Kernel(add, [like(3, 5), like(3, 5)], like(3, 5), np.add),
    "functions": Kernel(functions, [like(256)], like(256), _functions),
    "functions_bfloat16": Kernel(
        functions, [like(2, 128, dtype=bf16)], like(2, 128, dtype=bf16), _functions, tolerance=0.05
    ),
    "integers": Kernel(
        integers, [like(512, dtype=i32), like(512, dtype=i32)], like(512, dtype=i32), _integers
    ),
    "narrow_floats": Kernel(narrow_floats, [like(512)], like(512), _narrow_floats),
    "booleans": Kernel(booleans, [like(128)], like(128, dtype=bool), lambda x: (x > 0) | (x < -1)),
    "rows": Kernel(
        rows, [like(2, 4, 256)], like(2, 256), lambda x: x.sum(1) * np.arange(256),
        dict(grid=(2,), grid_names=("row",)),
    ),
    "branches": Kernel(
        branches, [like(3, 128)], like(3, 128), _branches, dict(grid=(3,), grid_names=("row",))
    ),
    "atomics": Kernel(
        atomics, [like(128, dtype=i32)], like(128, dtype=i32), _atomics,
        dict(scratch_types=[SMEM((128,), i32)]),
    ),
    "double": doubled(f32),
    "double_tiled": doubled(f16, (plgpu.TilingTransform((8, 64)),)),
    "double_swizzled_128": doubled(f16, swizzled(128, f16)),
    "double_swizzled_64": doubled(f32, swizzled(64, f32)),
    "double_swizzled_32": doubled(bf16, swizzled(32, bf16)),
    "turned": Kernel(
        turned, [like(2, 64, 32)], like(2, 32, 64), lambda x: x.transpose(0, 2, 1),
        dict(scratch_types=[SMEM((2, 64, 32), f32), plgpu.Barrier(num_barriers=2)]),
    ),
    "matmul": MATMUL,
    "pipelined": pipelined(False, f16),
    "pipelined_transposed": pipelined(True, bf16),
    "from_registers": Kernel(
        from_registers, [like(64, 64, dtype=f16), like(64, 64, dtype=f16)], like(64, 64),
        lambda a, b: _product(2 * a, b),
        dict(scratch_types=[SMEM((64, 64), f16, transforms=SWIZZLED), plgpu.Barrier()]),
    ),
}  # fmt: skip


# Reductions, broadcasts, and other layouts


def softmax(x_ref, o_ref):
    o_ref[...] = jax.nn.softmax(x_ref[...], axis=-1)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalized(x_ref, g_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = (x - x.mean(0)) * g_ref[...] + x.sum()


def reductions(x_ref, o_ref):
    x = x_ref[...]
    o_ref[0] = x.max(1)[0]
    o_ref[1] = jnp.min(x, (0, 1)) + jnp.any(x > 3, axis=0).astype(f32)[1]


def _reductions(x):
    first = x.max(1)[0]
    return np.stack([first, x.min((0, 1)) + np.any(x > 3, axis=0).astype(np.float32)[1]])


def layouts(x_ref, o_ref):
    x = plgpu.layout_cast(x_ref[...] * 2, plgpu.Layout.WGMMA)
    y = plgpu.layout_cast(x + 1, plgpu.Layout.WG_STRIDED((64, 64), vec_size=2))
    o_ref[...] = (y.T + x).reshape(32, 128)


def parts(x_ref, y_ref, o_ref):
    """Rotary embedding of rows: halves that are exchanged, and joined again."""
    x, y = x_ref[...], y_ref[...]
    first, second = jnp.split(x, 2, axis=1)
    turned = jnp.concatenate([-second, first], axis=1)
    o_ref[...] = x * jnp.cos(y) + turned * jnp.sin(y)


def _parts(x, y):
    return x * np.cos(y) + np.concatenate([-x[:, 64:], x[:, :64]], 1) * np.sin(y)


def tiles(x_ref, o_ref):
    """Parts of an array that are whole tiles of its layout, and others."""
    x = plgpu.layout_cast(x_ref[...] * 2, plgpu.Layout.WGMMA)
    o_ref[...] = x[64:, 16:48] + x[:64, 40:72] + x[32:96, 1:33]


def cumulative(x_ref, y_ref, o_ref):
    x, y = x_ref[...], y_ref[...]
    sums = lax.cumsum(x, axis=0) + lax.cumsum(x, axis=1, reverse=True)
    o_ref[...] = sums + lax.cummax(x, axis=1) * lax.cumprod(x, axis=0, reverse=True)
    o_ref[0, :] = lax.cummin(y, axis=0).astype(f32)[:32] + lax.cumsum(jnp.ones((32,), bf16)).astype(
        f32
    )


def _cumulative(x, y):
    sums = np.cumsum(x, 0) + np.cumsum(x[:, ::-1], 1)[:, ::-1]
    out = sums + np.maximum.accumulate(x, 1) * np.cumprod(x[::-1], 0)[::-1]
    out[0] = np.minimum.accumulate(y)[:32] + np.arange(1, 33)
    return out


def narrow_sum(x_ref, o_ref):
    o_ref[...] = jnp.broadcast_to(x_ref[...].sum(), (128,))


def attention(q_ref, k_ref, v_ref, o_ref, k, v, barriers):
    """Attention over blocks of keys, with a maximum and a sum for each row that are carried."""
    q = plgpu.load(q_ref, (), layout=plgpu.Layout.WGMMA, optimized=False)
    rows = plgpu.Layout.WGMMA.reduce(1)
    full = lambda x: plgpu.layout_cast(jnp.full((64,), x, f32), rows)
    out = plgpu.layout_cast(jnp.zeros((64, 64), f32), plgpu.Layout.WGMMA)

    def step(i, carry):
        biggest, total, out = carry
        part = pl.ds(i * 64, 64)
        plgpu.copy_gmem_to_smem(k_ref.at[part], k, barriers.at[0])
        plgpu.copy_gmem_to_smem(v_ref.at[part], v, barriers.at[1])
        plgpu.barrier_wait(barriers.at[0])

        def scores(acc):
            plgpu.wgmma(acc, q, plgpu.transpose_ref(k, (1, 0)))
            return acc[...]

        s = pl.run_scoped(scores, plgpu.ACC((64, 64))) * 0.125
        new = jnp.maximum(biggest, s.max(1))
        scale = jnp.exp(biggest - new)
        p = jnp.exp(s - lax.broadcast_in_dim(new, (64, 64), [0]))
        total = total * scale + p.sum(1)
        plgpu.barrier_wait(barriers.at[1])
        out = out * lax.broadcast_in_dim(scale, (64, 64), [0])

        def weighted(acc):
            plgpu.wgmma(acc, p.astype(f16), v)

        return new, total, pl.run_state(weighted)(plgpu.ACC.init(out))

    _, total, out = lax.fori_loop(0, 2, step, (full(-1e30), full(0.0), out))
    o_ref[...] = out / lax.broadcast_in_dim(total, (64, 64), [0])


def _attention(q, k, v):
    q, k, v = [x.astype(np.float32) for x in (q, k, v)]
    return _softmax(q @ k.T * 0.125) @ v


KERNELS |= {
    "softmax": Kernel(softmax, [like(64, 32)], like(64, 32), _softmax),
    "normalized": Kernel(
        normalized, [like(128, 16), like(16)], like(128, 16),
        lambda x, g: (x - x.mean(0)) * g + x.sum(), tolerance=1e-4,
    ),
    "reductions": Kernel(reductions, [like(3, 5, 128)], like(2, 128), _reductions),
    "layouts": Kernel(
        layouts, [like(64, 64)], like(32, 128), lambda x: ((2 * x + 1).T + 2 * x).reshape(32, 128)
    ),
    "parts": Kernel(parts, [like(8, 128), like(8, 128)], like(8, 128), _parts),
    "tiles": Kernel(
        tiles, [like(128, 72)], like(64, 32),
        lambda x: 2 * (x[64:, 16:48] + x[:64, 40:72] + x[32:96, 1:33]),
    ),
    "cumulative": Kernel(
        cumulative, [like(12, 32), like(128, dtype=i32)], like(12, 32), _cumulative, tolerance=1e-4
    ),
    "narrow_sum": Kernel(
        narrow_sum, [like(4, 128, dtype=bf16)], like(128, dtype=bf16),
        lambda x: np.full(128, x.astype(np.float32).sum()), tolerance=0.01,
    ),
    "attention": Kernel(
        attention, [like(64, 64, dtype=f16), like(128, 64, dtype=f16), like(128, 64, dtype=f16)],
        like(64, 64), _attention, tolerance=5e-3,
        options=dict(
            scratch_types=[
                SMEM((64, 64), f16, transforms=SWIZZLED), SMEM((64, 64), f16, transforms=SWIZZLED),
                plgpu.Barrier(num_barriers=2),
            ]
        ),
    ),
}  # fmt: skip


# Blocks of a grid


@dataclasses.dataclass
class GridKernel(Kernel):
    """A kernel over a grid: the options are those of `pl.pallas_call`."""

    def __post_init__(self):
        options = dict(compiler_params=plgpu.CompilerParams()) | self.options
        self.call = pl.pallas_call(self.body, out_shape=self.out, **options)


def in_order(*semantics, steps=2):
    return plgpu.CompilerParams(dimension_semantics=semantics, max_concurrent_steps=steps)


def numbered(x_ref, o_ref):
    number = (pl.program_id(0) * 10 + pl.program_id(1)) * pl.num_programs(1)
    o_ref[...] = x_ref[...] + number.astype(f32)


def _numbered(x):
    number = np.arange(4)[:, None] * 10 + np.arange(2)
    return x + 2 * np.repeat(np.repeat(number, 8, 0)[: len(x)], 64, 1)


def numbered_over(rows, params):
    block = plgpu.BlockSpec((8, 64), lambda i, j: (i, j))
    options = dict(grid=(4, 2), in_specs=[block], out_specs=block, compiler_params=params)
    return GridKernel(numbered, [like(rows, 128)], like(rows, 128), _numbered, options)


def named(x_ref, scale_ref, all_ref, o_ref, buffer):
    i = lax.axis_index("i")
    buffer[...] = x_ref[...] * scale_ref[...]

    @pl.when(i == 1)
    def _():
        buffer[...] = buffer[...] + i.astype(f32)

    o_ref[...] = buffer[...] + all_ref[2, 0] + scale_ref[...]


def summed(x_ref, o_ref):
    o_ref[...] = jnp.where(pl.program_id(1) == 0, 0, o_ref[...]) + x_ref[...]


def multiplied(a_ref, b_ref, o_ref, acc):
    plgpu.wgmma(acc, a_ref, b_ref)
    plgpu.wgmma_wait(0)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc[...]


KERNELS |= {
    "grid": numbered_over(29, plgpu.CompilerParams()),
    "grid_steps": numbered_over(32, in_order("parallel", "sequential")),
    "grid_all_steps": numbered_over(32, in_order("sequential", "sequential", steps=3)),
    "grid_named": GridKernel(
        named, [like(4, 16, 32), like(), like(4, 16, 32)], like(4, 16, 32),
        lambda x, scale, whole: x * scale + np.array([0, 1, 0, 0])[:, None, None] + whole[:, 2:3, :1] + scale,
        dict(
            grid=(("i", 4),),
            in_specs=[
                plgpu.BlockSpec((None, 16, 32), lambda i: (i, 0, 0)),
                pl.BlockSpec(memory_space=pl.ANY),
                plgpu.BlockSpec((None, 16, 32), lambda i: (i, 0, 0), memory_space=plgpu.GMEM),
            ],
            out_specs=plgpu.BlockSpec((None, 16, 32), lambda i: (i, 0, 0)),
            scratch_shapes=[SMEM((16, 32), f32)],
        ),
    ),
    "grid_summed": GridKernel(
        summed, [like(32, 96)], like(32, 32), lambda x: x.reshape(32, 3, 32).sum(1),
        dict(
            grid=(2, 3), in_specs=[plgpu.BlockSpec((16, 32), lambda i, j: (i, j))],
            out_specs=plgpu.BlockSpec((16, 32), lambda i, j: (i, 0)),
            compiler_params=in_order("parallel", "sequential"),
        ),
    ),
    "grid_whole": GridKernel(add, [like(16, 32), like(16, 32)], like(16, 32), np.add),
    "grid_multiplied": GridKernel(
        multiplied, [like(128, 192, dtype=f16), like(192, 64, dtype=f16)], like(128, 64), _product,
        dict(
            grid=(2, 1, 3), scratch_shapes=[plgpu.ACC((64, 64))],
            in_specs=[
                plgpu.BlockSpec((64, 64), lambda i, j, k: (i, k), transforms=SWIZZLED, delay_release=1),
                plgpu.BlockSpec((64, 64), lambda i, j, k: (k, j), transforms=SWIZZLED),
            ],
            out_specs=plgpu.BlockSpec((64, 64), lambda i, j, k: (i, j)),
            compiler_params=in_order("parallel", "parallel", "sequential"),
        ),
    ),
}  # fmt: skip


# Clusters and semaphores


def multicast(x_ref, o_ref, buffer, loaded, free):
    """Blocks of a cluster copy parts of what all along an axis get, and wait until all have used it."""
    i, j = lax.axis_index("a"), lax.axis_index("b")
    for step in range(3):
        plgpu.copy_gmem_to_smem(x_ref.at[step, j], buffer, loaded, collective_axes="a")
        plgpu.barrier_wait(loaded)
        o_ref[step, i, j] = buffer[...] + i.astype(buffer.dtype)
        plgpu.barrier_arrive(free)
        plgpu.barrier_wait(free)


def multicast_to_all(x_ref, o_ref, buffer, loaded, both):
    axes = ("b", "a")
    i, j = lax.axis_index("a"), lax.axis_index("b")
    plgpu.copy_gmem_to_smem(x_ref, buffer, loaded, collective_axes=axes)
    plgpu.barrier_wait(loaded)
    o_ref[i, j] = buffer[...]
    plgpu.barrier_arrive(both.at[1])

    @pl.when((i == 0) & (j == 0))
    def _():
        plgpu.barrier_wait(both.at[1])


CLUSTER = dict(cluster=(2, 2), cluster_names=("a", "b"))


def _multicast(x):
    return x[:, None] + np.arange(2, dtype=x.dtype)[:, None, None, None]


def counts(x_ref, o_ref, own, more):
    every = pl.get_global(plgpu.SemaphoreType.REGULAR(2))
    i = lax.axis_index("row")
    pl.semaphore_wait(every.at[1], i, decrement=False)
    pl.semaphore_signal(own, 3 + i)
    plgpu.semaphore_wait(own, 2, memory_scope="gpu")
    plgpu.semaphore_signal(more.at[1, 0], 4, memory_scope="gpu")
    pl.semaphore_wait(more.at[1, 0], 2)
    plgpu.semaphore_signal(every.at[1])
    read = [
        pl.semaphore_read(s) for s in (own, every.at[1], every.at[0], more.at[1, 0], more.at[0, 1])
    ]
    digits = 0
    for n in read:
        digits = digits * 10 + n
    o_ref[i] = x_ref[i] + digits


def counted_steps(x_ref, o_ref, sem):
    pl.semaphore_signal(sem)
    o_ref[...] = x_ref[...] + pl.semaphore_read(sem)


def _counts(x):
    i = np.arange(3, dtype=np.int32)
    return x + (((1 + i) * 10 + i + 1) * 1000 + 20)[:, None]


SEMAPHORE = plgpu.SemaphoreType.REGULAR
KERNELS |= {
    "multicast": Kernel(
        multicast, [like(3, 2, 16, 32)], like(3, 2, 2, 16, 32), _multicast,
        CLUSTER | dict(
            scratch_types=[
                SMEM((16, 32), f32), plgpu.Barrier(), plgpu.ClusterBarrier(collective_axes=("a", "b")),
            ]
        ),
    ),
    "multicast_to_all": Kernel(
        multicast_to_all, [like(32, 64, dtype=f16)], like(2, 2, 32, 64, dtype=f16),
        lambda x: np.broadcast_to(x, (2, 2, 32, 64)),
        CLUSTER | dict(
            scratch_types=[
                SMEM((32, 64), f16, transforms=SWIZZLED), plgpu.Barrier(),
                plgpu.ClusterBarrier(collective_axes=(("a", "b"),), num_barriers=2, leader_tracked=True),
            ]
        ),
    ),
    "counts": Kernel(
        counts, [like(3, 128, dtype=i32)], like(3, 128, dtype=i32), _counts,
        dict(grid=(3,), grid_names=("row",), scratch_types=[SEMAPHORE, SEMAPHORE((2, 2))]),
        counters=2 + 3 * 5,
    ),
    "grid_counts": GridKernel(
        counted_steps, [like(2, 3, 128, dtype=i32)], like(2, 3, 128, dtype=i32),
        lambda x: x + np.arange(1, 4, dtype=np.int32)[:, None],
        dict(
            grid=(2, 3), scratch_shapes=[SEMAPHORE], compiler_params=in_order("parallel", "sequential"),
            in_specs=[plgpu.BlockSpec((None, None, 128), lambda i, j: (i, j, 0))],
            out_specs=plgpu.BlockSpec((None, None, 128), lambda i, j: (i, j, 0)),
        ),
        counters=2,
    ),
}  # fmt: skip


# Single warps, memory that references share, and prefetches


def warps(x_ref, o_ref, first, numbers, loaded, ready, done):
    @pl.core_map(plgpu.WarpMesh(axis_name="warp"))
    def _():
        warp = lax.axis_index("warp")

        @pl.when(warp == 1)
        def _():
            plgpu.copy_gmem_to_smem(x_ref.at[0], first, loaded)

        @pl.when(warp == 2)
        def _():
            numbers[0] = x_ref[1, 5] * 2
            plgpu.barrier_arrive(ready)
            lax.while_loop(lambda found: ~found, lambda _: plgpu.barrier_test(ready), False)

    @plgpu.warp_map
    def _(warp):
        numbers[1 + warp] = lax.fori_loop(
            0, warp, lambda i, total: total + x_ref[1, i], jnp.float32(0)
        )
        plgpu.barrier_arrive(done)

    plgpu.barrier_wait(loaded)
    plgpu.barrier_wait(done)
    first[...] = first[...] + numbers[0] + numbers[4]
    plgpu.commit_smem()

    @plgpu.warp_map
    def _(warp):
        plgpu.copy_smem_to_gmem(first.at[pl.ds(warp * 32, 32)], o_ref.at[pl.ds(warp * 32, 32)])
        plgpu.wait_smem_to_gmem(0)


def shares_memory(a_ref, b_ref, o_ref, memory, barrier):
    """The product of matrices, whose memory is then that of another array."""
    (a, b), (numbers, _), again = memory
    plgpu.async_prefetch(b_ref)
    plgpu.copy_gmem_to_smem(a_ref, a, barrier)
    plgpu.copy_gmem_to_smem(b_ref, b, barrier)
    plgpu.barrier_wait(barrier)

    def multiply(acc):
        plgpu.wgmma(acc, a, b)
        return acc[...]

    product = pl.run_scoped(multiply, plgpu.ACC((64, 64)))
    again[...] = product
    total = again[...] * 2
    numbers[...] = total[0]
    o_ref[...] = total + lax.broadcast_in_dim(numbers[...], (64, 64), [1])


def _shares_memory(a, b):
    product = 2 * _product(a, b)
    return product + product[0]


KERNELS |= {
    "warps": Kernel(
        warps, [like(2, 128)], like(128), lambda x: x[0] + 2 * x[1, 5] + x[1, :3].sum(),
        dict(
            scratch_types=[
                SMEM((128,), f32), SMEM((8,), f32), plgpu.Barrier(), plgpu.Barrier(), plgpu.Barrier(num_arrivals=4),
            ]
        ),
    ),
    "shares_memory": Kernel(
        shares_memory, [like(64, 64, dtype=f16), like(64, 64, dtype=f16)], like(64, 64), _shares_memory,
        dict(
            scratch_types=[
                plgpu.RefUnion(
                    [SMEM((64, 64), f16, transforms=SWIZZLED), SMEM((64, 64), f16, transforms=SWIZZLED)],
                    [SMEM((64,), f32), SMEM((8, 16), f32)], SMEM((64, 64), f32),
                ),
                plgpu.Barrier(num_arrivals=2),
            ]
        ),
        tolerance=1e-3,
    ),
}  # fmt: skip


# Several warpgroups


def specialized(a_ref, b_ref, o_ref):
    """A product with a pipeline whose copies another warpgroup starts."""

    def compute(pipeline):
        o_ref[...] = pipeline(plgpu.layout_cast(jnp.zeros((64, 64), f32), plgpu.Layout.WGMMA))

    def step(indices, a, b, total):
        multiply = lambda acc: plgpu.wgmma(acc, a, b)
        return pl.run_state(multiply)(plgpu.ACC.init(total))

    plgpu.emit_pipeline_warp_specialized(
        step,
        grid=(4,),
        memory_registers=40,
        max_concurrent_steps=2,
        num_compute_wgs=1,
        wg_axis="wg",
        compute_context=compute,
        in_specs=[
            plgpu.BlockSpec((64, 64), lambda k: (0, k), transforms=SWIZZLED),
            plgpu.BlockSpec((64, 64), lambda k: (k, 0), transforms=SWIZZLED),
        ],
    )(a_ref, b_ref)


SPECIALIZED = Kernel(
    specialized, [like(64, 256, dtype=f16), like(256, 64, dtype=f16)], like(64, 64), _product,
    dict(num_threads=2, thread_name="wg"),
)  # fmt: skip


def specialized_in_cluster(a_ref, b_ref, o_ref):
    """Each block of a cluster has its rows of the product, and all get the blocks of the right matrix."""
    row = lax.axis_index("m")
    part = o_ref.at[pl.ds(row * 64, 64)]

    def compute(pipeline):
        part[...] = pipeline(plgpu.layout_cast(jnp.zeros((64, 64), f32), plgpu.Layout.WGMMA))

    def step(indices, a, b, total):
        return pl.run_state(lambda acc: plgpu.wgmma(acc, a, b))(plgpu.ACC.init(total))

    plgpu.emit_pipeline_warp_specialized(
        step,
        grid=(4,),
        memory_registers=40,
        num_compute_wgs=1,
        wg_axis="wg",
        compute_context=compute,
        in_specs=[
            plgpu.BlockSpec((64, 64), lambda k: (row, k), transforms=SWIZZLED),
            plgpu.BlockSpec(
                (64, 64), lambda k: (k, 0), transforms=SWIZZLED, collective_axes=("m",)
            ),
        ],
    )(a_ref, b_ref)


IN_CLUSTER = Kernel(
    specialized_in_cluster, [like(128, 256, dtype=f16), like(256, 64, dtype=f16)], like(128, 64), _product,
    dict(cluster=(2,), cluster_names=("m",), num_threads=2, thread_name="wg"),
)  # fmt: skip
