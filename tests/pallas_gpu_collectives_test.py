"""Operations on several GPUs: interpreted and run by the machine of kernels' modules, they are what jax.lax computes."""

import functools

import mosaic_gpu_machine
import numpy as np
import pytest
from mosaic_gpu_machine import argument, lowered
from pallas_collective_operations import (
    COLLECTIVES,
    MatmulDimension,
    TuningConfig,
    gather,
    like,
    product,
    reduce,
)

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas.ops.gpu import (
    all_gather_mgpu,
    collective_matmul_mgpu,
    reduce_scatter_mgpu,
)
from jax.sharding import AxisType, PartitionSpec as P

f32, f16, bf16, i32 = jnp.float32, jnp.float16, jnp.bfloat16, jnp.int32
INTERPRET = plgpu.InterpretParams()
_OF_INTEGERS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def arguments(collective):
    rng = np.random.default_rng(3)
    return [argument(rng, a) for a in collective.args]


def by_lax(name, collective, args):
    """What jax.lax makes of the same arrays, in float32."""
    options = collective.call.keywords
    if name.startswith("product"):
        a, b = [jnp.asarray(x, f32) for x in args]
        return a @ b
    (x,) = args
    if name.startswith("gather"):
        return x
    # each device has the same array
    reduction = options.get("reduction", "add")
    parts = np.stack([x.astype(f32) if x.dtype.kind != "i" else x] * collective.devices)
    if reduction in _OF_INTEGERS:
        return _OF_INTEGERS[reduction].reduce(parts)
    return getattr(parts, {"add": "sum"}.get(reduction, reduction))(0)


def same(got, want):
    dtype = got.dtype
    rounding = 1e-6 if dtype in (f32, i32) else 2**-8 if dtype == bf16 else 2**-10
    want = np.asarray(want).astype(np.float64)
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), want, rtol=rounding, atol=rounding * abs(want).max())  # fmt: skip


OTHERS = {
    "gather_int8": gather((128, 512), jnp.int8, devices=4),
    "gather_bool": gather((128, 512), jnp.bool_),
    "gather_middle": gather((3, 16, 128), f32, 1, devices=4),
    "gather_last": gather((2, 8, 512), i32, -1),
    "gather_vector": gather((2048,), f16, num_blocks=None),
    "gather_tiles": gather((128, 256), tile_size=512, vec_size=2),
    "reduce_min": reduce((128, 256), bf16, devices=4, reduction="min"),
    "reduce_or": reduce((8, 512), i32, 1, devices=4, reduction="or"),
    "reduce_middle": reduce((3, 16, 128), f32, 1, devices=4),
    "reduce_last": reduce((2, 8, 512), f16, -1),
    "reduce_to_all_by_tiles": reduce((16, 512), bf16, None, devices=4, tile_size=1024),
}
ALL = COLLECTIVES | OTHERS


@pytest.mark.parametrize("name", ALL)
def test_interpreted(name):
    collective, args = ALL[name], arguments(ALL[name])
    call, _ = collective.on(jax.devices(), interpret=INTERPRET)
    got = jax.jit(call)(*args)
    assert got.dtype == args[0].dtype
    same(got, by_lax(name, collective, args))


@pytest.mark.parametrize("name", [n for n in ALL if not n.startswith("product")])
def test_compiled(name):
    collective, (x,) = ALL[name], arguments(ALL[name])
    call, types = collective.on(jax.devices())
    of_result = jax.NamedSharding(types[0].sharding.mesh, collective.out_specs)
    parts = lambda sharding, shape: sharding.devices_indices_map(shape).values()
    arrays = [[x[at]] for at in parts(types[0].sharding, x.shape)]
    want = by_lax(name, collective, [x])
    shape = of_result.shard_shape(want.shape)
    blocks = collective.call.keywords["num_blocks"] or 132
    outs = mosaic_gpu_machine.run_on_devices(
        lowered(call, *types), arrays, [like(*shape, dtype=x.dtype)], counters=blocks
    )
    for (out,), at in zip(outs, parts(of_result, want.shape)):
        same(out, want[at])


def test_different_arrays_of_devices_on_a_mesh_of_two_axes():
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    both = ("x", "y")
    x = np.random.default_rng(0).normal(size=(4, 8, 128)).astype(np.float32)

    def run(operation, expected, out_specs):
        def of_device(f, x):
            return f(x[0])

        on = functools.partial(
            jax.shard_map, mesh=mesh, in_specs=P(both), out_specs=out_specs, check_vma=False
        )
        got = on(functools.partial(of_device, operation))(x)
        np.testing.assert_allclose(got, on(functools.partial(of_device, expected))(x), rtol=1e-6)

    options = dict(axis_name=both, interpret=INTERPRET)
    run(
        functools.partial(all_gather_mgpu.all_gather, **options),
        lambda x: lax.all_gather(x, both, tiled=True), P(),
    )  # fmt: skip
    run(
        functools.partial(reduce_scatter_mgpu.reduce_scatter, **options),
        lambda x: lax.psum_scatter(x, both, tiled=True), P(both),
    )  # fmt: skip
    run(
        functools.partial(reduce_scatter_mgpu.reduce_scatter, scatter_dimension=None, **options),
        lambda x: lax.psum(x, both), P(),
    )  # fmt: skip


DIFFERENTIATED = {
    "gather": gather((128, 256)),
    "gather_columns": gather((64, 512), bf16, 1, devices=4),
    "gather_float8": gather((128, 512), jnp.float8_e4m3fn),
    "reduce": reduce((128, 256)),
    "reduce_middle": reduce((3, 16, 128), f16, 1, devices=4),
    "reduce_to_all": reduce((64, 512), f32, None),
    "reduce_max": reduce((128, 256), f16, reduction="max"),
    "reduce_min_to_all": reduce((16, 256), bf16, None, reduction="min"),
    "product": product(devices=4),
}


def plain(name, collective):
    """The same function of the arrays of a device, of jax.lax."""
    options = collective.call.keywords

    def run(*args):
        if name == "product":
            a, b = args
            return lax.all_gather(a, "x", tiled=True) @ b
        (x,) = args
        dimension = options.get("gather_dimension", options.get("scatter_dimension"))
        reduction = options.get("reduction", "add")
        if name.startswith("gather"):
            return lax.all_gather(x, "x", axis=dimension, tiled=True)
        if reduction == "add":
            if dimension is None:
                return lax.psum(x, "x")
            return lax.psum_scatter(x, "x", scatter_dimension=dimension, tiled=True)
        out = getattr(jnp, reduction)(lax.all_gather(x, "x"), 0)
        if dimension is None:
            return out
        size = x.shape[dimension] // collective.devices
        return lax.dynamic_slice_in_dim(out, lax.axis_index("x") * size, size, dimension)

    return run


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives(name):
    """Devices have arrays of their own, so that all devices' cotangents differ."""
    collective = DIFFERENTIATED[name]
    rng = np.random.default_rng(5)
    n = collective.devices
    shard = lambda spec, a: tuple(
        d // n if i < len(spec) and spec[i] == "x" else d for i, d in enumerate(a.shape)
    )
    shapes = [shard(s, a) for s, a in zip(collective.in_specs, collective.args)]
    dtype = collective.args[0].dtype
    args = [jnp.asarray(rng.normal(size=(n, *s)), dtype) for s in shapes]
    mesh = jax.make_mesh((n,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:n])

    def gradients(call, args):
        def of_device(*args):
            out, back = jax.vjp(call, *[a[0] for a in args])
            weights = jnp.arange(out.size).reshape(out.shape) % 7 + lax.axis_index("x")
            return tuple(g[None] for g in back((weights / 4).astype(out.dtype)))

        on = jax.shard_map(of_device, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        return jax.jit(on)(*args)

    got = gradients(functools.partial(collective.call, interpret=INTERPRET), args)
    want = gradients(plain(name, collective), [a.astype(f32) for a in args])
    for x, y in zip(got, want):
        assert x.dtype == dtype
        same(x, y.astype(jnp.float8_e4m3fn) if name == "gather_float8" else y)


M = MatmulDimension.M
REFUSED = {
    "dimension": (gather((128, 256), f32, 2), "gather_dimension 2 is no dimension of"),
    "scatter": (reduce((128, 256), f32, -3), "scatter_dimension -3 is no dimension of"),
    "divides": (reduce((3, 256)), r"shape \(3, 256\) among 2 devices, which do not divide it"),
    "few": (gather((6, 10)), "moves multiples of 128 elements of each device.*got 30 elements"),
    "narrow": (gather((128, 256), bf16, vec_size=1), "vec_size 2, 4, 8, for 4, 8 or 16 bytes"),
    "tile": (gather((128, 256), tile_size=1000), "tile_size must be a multiple of 512"),
    "small_tile": (reduce((128, 256), tile_size=64), "into tiles of 64"),
    "blocks": (gather((128, 256), num_blocks=0), "num_blocks must be positive, got 0"),
    "reduction": (reduce((128, 256), reduction="mul"), "no reduction mul of float32"),
    "min": (reduce((128, 256), reduction="min"), "no reduction min of float32"),
    "and": (reduce((128, 256), reduction="and"), "no reduction and of float32"),
    "int8": (reduce((128, 256), jnp.int8), "no reduction add of int8"),
    "float32": (product(dtype=f32), "for dtype float16 or bfloat16, got float32"),
    "cluster": (product(cluster_dimension=M), "has no clusters"),
    "steps": (product(max_concurrent_steps=1), "at least 2, got 1"),
    "rows": (product(rows=96), "m=96 must be divisible by 64"),
    "columns": (product(columns=96), "n=96 must be divisible by 128"),
    "k": (product(k=96), "k=96 must be divisible by tile_k=64"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    collective, message = REFUSED[name]
    call, types = collective.on(jax.devices(), interpret=INTERPRET)
    with pytest.raises((ValueError, NotImplementedError), match=message):
        jax.eval_shape(call, *types)


def test_product_refuses_other_dtypes_and_shapes():
    config = TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2)

    def call(a, b):
        run = lambda a, b: collective_matmul_mgpu.all_gather_lhs_matmul(a, b, "x", config=config)
        mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
        on = jax.shard_map(run, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
        return jax.eval_shape(on, a, b)

    a, b = like(128, 64, dtype=bf16), like(64, 128, dtype=f16)
    with pytest.raises(ValueError, match="dtype=float16, got bfloat16 and float16: give dtype"):
        call(a, b)
    with pytest.raises(ValueError, match=r"\(m, k\) and \(k, n\), got shapes \(128, 64\) and \(32"):
        call(a, like(32, 128, dtype=bf16))


def test_nvshmem(monkeypatch):
    flag = "--xla_gpu_experimental_enable_nvshmem"
    for flags, want in [("", False), (flag, True), (f"--a=1 {flag}=true", True), (f"{flag}=false", False)]:  # fmt: skip
        monkeypatch.setenv("XLA_FLAGS", flags)
        assert collective_matmul_mgpu.is_nvshmem_used() is want


def test_one_device():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    on = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
    x = np.random.default_rng(0).normal(size=(128, 64)).astype(f16)
    config = TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2)
    multiply = lambda a, b: collective_matmul_mgpu.all_gather_lhs_matmul(
        a, b, "x", config=config, interpret=INTERPRET
    )
    got = on(multiply, in_specs=P(), out_specs=P())(x, x.T)
    same(got, x.astype(f32) @ x.T.astype(f32))
