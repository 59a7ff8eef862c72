"""Products, gathering and random bits of kernels for TPUs are those of plain operations and of the reference build."""

import functools

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.all_gather import all_gather, get_neighbor
from jax.experimental.pallas.ops.tpu.example_kernel import double
from jax.experimental.pallas.ops.tpu.matmul import matmul
from jax.experimental.pallas.ops.tpu.random import philox, prng_utils, threefry
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

KEY = np.array([7, 9], np.uint32)


def like(*shape, dtype=jnp.float32, sharding=None):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


@pytest.mark.parametrize(
    "m, k, n, dtypes, out_dtype",
    [
        (48, 80, 40, ("float32", "float32"), None),
        (32, 64, 32, ("bfloat16", "bfloat16"), None),
        (32, 40, 16, ("bfloat16", "float32"), "float32"),
        (32, 40, 16, ("int8", "int8"), "int32"),
        (32, 0, 16, ("float32", "float32"), None),
        (0, 40, 16, ("float32", "float32"), None),
    ],
)
def test_matmul(m, k, n, dtypes, out_dtype):
    random = np.random.RandomState(0)
    x, y = [
        jnp.asarray(random.randint(-4, 5, shape), dtype)
        for shape, dtype in zip(((m, k), (k, n)), dtypes, strict=True)
    ]
    with pltpu.force_tpu_interpret_mode(True):
        out = matmul(x, y, block_shape=(32, 16), block_k=32, out_dtype=out_dtype)
    assert out.dtype == jnp.dtype(out_dtype or dtypes[0])
    wanted = np.asarray(x, np.float32) @ np.asarray(y, np.float32)
    np.testing.assert_allclose(np.asarray(out, np.float32), wanted, rtol=1e-2)


def test_matmul_of_a_batch_and_its_derivative():
    x, y = [jax.random.normal(jax.random.key(i), (2, *n)) for i, n in enumerate([(8, 16), (16, 8)])]
    batched = jax.vmap(functools.partial(matmul, block_shape=(8, 8)))
    with pltpu.force_tpu_interpret_mode(True):
        found = jax.jvp(batched, (x, y), (x, 2 * y))
    np.testing.assert_allclose(found[0], x @ y, atol=1e-5)
    np.testing.assert_allclose(found[1], 3 * (x @ y), atol=1e-5)


@pytest.mark.parametrize("mode", [True, pltpu.InterpretParams()])
@pytest.mark.parametrize(
    "dtypes, out_dtype", [(("float32", "float32"), None), (("bfloat16", "float32"), "float32")]
)
def test_derivatives_of_matmul(mode, dtypes, out_dtype):
    shapes = (40, 300), (300, 130)
    x, y = [jax.random.normal(jax.random.key(i), s).astype(d) for i, (s, d) in enumerate(zip(shapes, dtypes))]  # fmt: skip
    blocks = dict(block_shape=(32, 128), block_k=128, out_dtype=out_dtype)
    f = lambda x, y: (matmul(x, y, **blocks) ** 2).sum() / 300
    plain = lambda x, y: (jnp.dot(*[a.astype(jnp.float32) for a in (x, y)]) ** 2).sum() / 300
    with pltpu.force_tpu_interpret_mode(mode):
        found = jax.grad(f, (0, 1))(x, y)
    for got, want in zip(found, jax.grad(plain, (0, 1))(x, y)):
        assert got.dtype == want.dtype
        tolerance = 1e-5 if got.dtype == jnp.float32 else 1e-2
        np.testing.assert_allclose(*[a.astype(jnp.float32) for a in (got, want)], rtol=tolerance, atol=1e-3)  # fmt: skip


def test_second_derivatives_of_matmul():
    x, y = [jax.random.normal(jax.random.key(i), s) for i, s in enumerate([(16, 32), (32, 8)])]
    multiply = functools.partial(matmul, block_shape=(8, 8), block_k=16)

    def second(multiply):
        first = jax.grad(lambda x, y: (multiply(x, y) ** 3).sum())
        return jax.grad(lambda x, y: jnp.sin(first(x, y)).sum(), (0, 1))(x / 9, y / 9)

    with pltpu.force_tpu_interpret_mode(True):
        found = second(multiply)
    for got, want in zip(found, second(jnp.dot)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_matmul_where_memory_has_no_values():
    x, y = [np.random.RandomState(s).randn(*s2) for s, s2 in enumerate([(200, 300), (300, 130)])]
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams()):
        out = matmul(x, y, block_shape=(128, 128))
        np.testing.assert_array_equal(double(y), 2 * y)
    np.testing.assert_allclose(out, x @ y, atol=1e-4)


def test_matmul_errors():
    call = functools.partial(matmul, block_shape=(128, 128))
    with pytest.raises(TypeError, match="different input dtypes: float32, bfloat16"):
        jax.eval_shape(call, like(128, 128), like(128, 128, dtype=jnp.bfloat16))
    with pytest.raises(ValueError, match="but got"):
        jax.eval_shape(call, like(128, 128), like(100, 128))


def ring(devices, shape=(4,), names=("x",)):
    return Mesh(
        np.array(devices[:4]).reshape(shape), names, axis_types=(AxisType.Auto,) * len(names)
    )


@pytest.mark.parametrize("rows, shape", [(64, (4,)), (8, (4,)), (64, (2, 2)), (16, (4, 1))])
def test_all_gather(rows, shape):
    names = ("x", "y")[: len(shape)]
    mesh = ring(jax.devices(), shape, names)
    x = jnp.arange(rows * shape[-1] * 128.0).reshape(-1, 128)
    x = jax.device_put(x, NamedSharding(mesh, P(names[-1])))
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True)):
        out = all_gather(x, mesh=mesh, axis_name=names[-1])
    np.testing.assert_array_equal(out, x)
    assert out.sharding.is_fully_replicated


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_derivative_of_all_gather(shape):
    mesh = ring(jax.devices(), shape, ("x", "y")[: len(shape)])
    sharding = NamedSharding(mesh, P(mesh.axis_names[-1]))
    x = jax.device_put(jnp.arange(64 * 128.0).reshape(64, 128), sharding)
    weights = jax.random.normal(jax.random.key(0), x.shape)
    gather = functools.partial(all_gather, mesh=mesh, axis_name=mesh.axis_names[-1])
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams()):
        found = jax.grad(lambda x: (gather(x) * weights).sum())(x)
        _, tangent = jax.jvp(gather, (x,), (2 * x,))
    np.testing.assert_array_equal(found, weights)
    assert found.sharding.is_equivalent_to(sharding, 2)
    np.testing.assert_array_equal(tangent, 2 * x)


def test_neighbors():
    mesh = ring(jax.devices(), (2, 2), ("x", "y"))

    def neighbors():
        at = jax.lax.axis_index("y")
        left, right = [
            jnp.stack(get_neighbor(at, mesh, "y", direction=d)) for d in ("left", "right")
        ]
        return jnp.stack([left, right])[None, None]

    options = dict(mesh=mesh, in_specs=(), out_specs=P("x", "y"), check_vma=False)
    out = jax.shard_map(neighbors, **options)()
    for x in range(2):
        for y in range(2):
            assert out[x, y].tolist() == [[x, 1 - y]] * 2
    with pytest.raises(ValueError, match="'up'"):
        get_neighbor(0, mesh, "y", direction="up")
    with pytest.raises(NotImplementedError, match="Only one axis supported"):
        all_gather(jnp.ones((8, 128)), mesh=mesh, axis_name=("x", "y"))


def test_threefry():
    key = jax.random.wrap_key_data(KEY)
    with pltpu.force_tpu_interpret_mode(True):
        for shape in ((300, 300), (2, 3, 4)):
            bits = threefry.plthreefry_random_bits(KEY, 32, shape)
            np.testing.assert_array_equal(bits, jax.random.bits(key, shape, jnp.uint32))
        whole = threefry.threefry_2x32_count(KEY, (2, 16, 32), (2, 15, 30), (8, 16))
        ours = jax.random.key(3, impl="pallas_threefry2x32")
        np.testing.assert_array_equal(
            jax.random.normal(ours, (5,)), jax.random.normal(jax.random.key(3), (5,))
        )
    bits = jax.random.bits(key, (2, 15, 30), jnp.uint32)
    np.testing.assert_array_equal(whole[:, :15, :30], bits)


def test_philox():
    word = np.uint32
    # From the authors' table of known answers, and from the reference build.
    zero = philox.philox_4x32(*[word(0)] * 6)
    assert [hex(int(x)) for x in zero] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    found = philox.philox_4x32(*[word(i) for i in range(1, 7)])
    assert [int(x) for x in found] == [3234347452, 2291959749, 1637377849, 759571408]
    found = philox.philox_4x32(*[word(i) for i in range(1, 7)], rounds=7)
    assert [int(x) for x in found] == [3437986699, 2495141035, 991524236, 236622596]
    x = np.array([0xFFFFFFFF, 123456789, 0x12345678], np.uint32)
    y = np.array([0xFFFFFFFF, 987654321, 0x9ABCDEF0], np.uint32)
    high, low = philox.mul32_hi_lo(jnp.asarray(x), jnp.asarray(y))
    product = x.astype(np.uint64) * y.astype(np.uint64)
    np.testing.assert_array_equal(high, product >> np.uint64(32))
    np.testing.assert_array_equal(low, product.astype(np.uint32))
    with pltpu.force_tpu_interpret_mode(True):
        bits = philox.philox_4x32_count(KEY, (300, 300))
        assert bits[:2, :3].tolist() == [
            [1503098884, 498479641, 2060315844],
            [3062479316, 1725103579, 378948215],
        ]
        assert int(bits[299, 299]) == 1270409398
        assert int(philox.philox_4x32_count(KEY, ())) == 1503098884
        np.testing.assert_array_equal(
            philox.philox_4x32_count(KEY, (2, 3, 4)).ravel(), bits.ravel()[:24]
        )
        later = philox.philox_4x32_count(KEY, (3,), offset=5)
        np.testing.assert_array_equal(later, [3066635331, 3038295975, 4054614055])
        two = [[2009011884, 2206792848, 1824450626], [774401704, 2654916233, 376636550]]
        assert philox.philox_4x32_count(KEY, (3,), fuse_output=False).tolist() == two
        assert philox.philox_split(KEY, (3,)).T.tolist() == two
        assert philox.philox_random_bits(KEY, 32, (2,)).tolist() == [1503098884, 498479641]
        key = jax.random.key(3, impl="pallas_philox4x32")
        assert jax.random.split(key, (2, 3)).shape == (2, 3)
        assert jax.random.uniform(jax.random.fold_in(key, 2), (3,)).shape == (3,)
    assert philox.philox_fold_in(KEY, 3).tolist() == [855913335, 3605148558]


def test_positions():
    assert prng_utils.round_up(5, 8) == 8
    assert prng_utils.blocked_iota((2, 3), (4, 6)).tolist() == [[0, 1, 2], [6, 7, 8]]
    assert prng_utils.compute_scalar_offset((1, 2), (4, 6), (2, 3)) == 18
    assert prng_utils.compute_scalar_offset((1, 0, 1), (4, 6, 8), (2, 3, 4)) == 100


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: philox.philox_random_bits(KEY, 16, (2,)), "Only 32-bit"),
        (lambda: threefry.plthreefry_random_bits(KEY, 64, (2,)), "Only 32-bit"),
        (lambda: philox.philox_4x32_kernel(KEY, (300, 256), (300, 256), (256, 256)), "must be divisible by"),
        (lambda: philox.philox_4x32_kernel(KEY, (256,), (256,), (256, 256)), "must be divisible by"),
        (lambda: threefry.threefry_2x32_count(KEY, (2**17, 2**16), (2**17, 2**16), (256, 256)), "Shape too large"),
    ],
)  # fmt: skip
def test_errors_of_random_bits(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("name", ["v5e:2x2", "v6e:2x2"])
def test_compiled(name):
    devices = topologies.get_topology_desc(name, "tpu").devices
    one = SingleDeviceSharding(devices[0])
    x = like(256, 300, dtype=jnp.bfloat16, sharding=one)
    y = like(300, 256, dtype=jnp.bfloat16, sharding=one)
    key = like(2, dtype=jnp.uint32, sharding=one)
    multiply = functools.partial(matmul, block_shape=(128, 128))
    for fun, *args in (
        (multiply, x, y),
        (jax.grad(lambda x, y: (multiply(x, y) ** 2).sum(dtype=jnp.float32), (0, 1)), x, y),
        (lambda key: threefry.threefry_2x32_count(key, *[(2, 8, 128)] * 2, (8, 128)), key),
        (lambda key: philox.philox_4x32_kernel(key, *[(2, 8, 128)] * 2, (8, 128)), key),
    ):
        assert "tpu_custom_call" in jax.jit(fun).lower(*args).compile().as_text()
    mesh = ring(devices)
    x = like(256, 128, sharding=NamedSharding(mesh, P("x")))
    gather = functools.partial(all_gather, mesh=mesh, axis_name="x")
    assert "tpu_custom_call" in jax.jit(gather).lower(x).compile().as_text()
    text = jax.jit(jax.grad(lambda x: (gather(x) ** 2).sum())).lower(x).compile().as_text()
    assert text.count(" custom-call(") == 1 and "tpu_custom_call" in text
