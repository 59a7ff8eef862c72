"""Random numbers and units for products in kernels for TPUs: interpreted, lowered, refused."""

import re

import numpy as np
import pallas_tpu_lowering_scenarios as scenarios
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl, topologies
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import SingleDeviceSharding

SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
TPU = pltpu.InterpretParams()
KEY = jax.random.key(0)


def like(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def with_key(draw, dtype=jnp.uint32, **options):
    def kernel(key_ref, o_ref):
        o_ref[...] = draw(key_ref[...])

    return pl.pallas_call(kernel, like(8, 128, dtype=dtype), in_specs=[SMEM], **options)


def seeded(draw, dtype=jnp.uint32, **options):
    def kernel(s_ref, o_ref):
        pltpu.prng_seed(s_ref[0])
        o_ref[...] = draw()

    return pl.pallas_call(kernel, like(8, 128, dtype=dtype), in_specs=[SMEM], **options)


def test_pallas_keys():
    """The words of keys are those of PyPI's build."""
    data = lambda key: np.asarray(jax.random.key_data(key)).tolist()
    key = pltpu.to_pallas_key(KEY)
    assert data(key) == [[4070199207, 4202968722]]
    assert data(pltpu.to_pallas_key(jnp.zeros(2, jnp.uint32))) == data(key)
    several = [[[3617712097, 783310428]], [[31327077, 89727312]], [[3875991361, 3918267949]]]
    assert data(pltpu.to_pallas_key(jax.random.split(KEY, 3))) == several
    assert data(jax.random.key(-1, impl="pallas_tpu")) == [[2**32 - 1] * 2]
    assert pltpu.to_pallas_key(key) is key
    with pytest.raises(NotImplementedError, match="Cannot split a Pallas key. Use fold_in"):
        jax.random.split(key)
    with pytest.raises(NotImplementedError, match="pltpu.InterpretParams"):
        jax.random.bits(key)


def test_keys_that_are_interpreted():
    bits = lambda k: jax.random.bits(k, (8, 128))
    for draw in (
        bits,
        lambda k: bits(jax.random.fold_in(k, 3)),
        lambda k: bits(jax.random.split(k)[1]),
    ):
        want = draw(KEY)
        for interpret in (True, TPU):
            np.testing.assert_array_equal(with_key(draw, interpret=interpret)(KEY), want)
    key = pltpu.to_pallas_key(KEY)
    run = with_key(bits, interpret=TPU)
    np.testing.assert_array_equal(run(key), run(key))
    assert (run(key) != run(jax.random.fold_in(key, 1))).mean() > 0.9
    folded = with_key(lambda k: bits(jax.random.fold_in(k, 1)), interpret=TPU)
    np.testing.assert_array_equal(folded(key), run(jax.random.fold_in(key, 1)))


def test_stateful_samplers():
    def draw():
        first, second = pltpu.stateful_uniform((8, 128)), pltpu.stateful_uniform((8, 128))
        return jnp.where(first == second, 2.0, first)

    u = seeded(draw, jnp.float32, interpret=TPU)(jnp.ones(1, jnp.int32))
    assert 0 <= u.min() < 0.01 and 0.99 < u.max() < 1
    normal = seeded(lambda: pltpu.stateful_normal((8, 128)), jnp.float32, interpret=TPU)
    assert abs(normal(jnp.ones(1, jnp.int32)).std() - 1) < 0.1
    true = seeded(lambda: pltpu.stateful_bernoulli(0.3, (8, 128)), jnp.bool_, interpret=TPU)
    assert abs(true(jnp.ones(1, jnp.int32)).mean() - 0.3) < 0.05


def lowered(call, *args):
    ((_, config, module),) = scenarios.lowered(call, *args)
    return config["custom_call_config"], str(module)


def test_lowered_keys():
    """The operations are those of PyPI's build."""
    key = pltpu.to_pallas_key(KEY)
    fold = lambda k: jax.random.bits(jax.random.fold_in(k, 3), (8, 128))
    text = lowered(with_key(fold), key)[1]
    found = re.findall(r"tpu\.prng\w+|arith\.(?!constant|overflow)\w+|memref\.load", text)
    assert found == [
        "memref.load", "memref.load", "arith.addi", "arith.addi", "arith.shli", "arith.shrui", "arith.ori",
        "arith.xori", "tpu.prng_set_seed_32", "tpu.prng_random_bits",
    ]  # fmt: skip
    assert "memref<1x2xi32, #tpu.memory_space<smem>>" in text

    def block(key_ref, o_ref):
        size = (16, 128), (8, 128), (64, 256)
        o_ref[...] = pltpu.sample_block(jax.random.uniform, key_ref[...], *size)

    out = pl.BlockSpec((16, 128), lambda i, j: (i, j))
    call = pl.pallas_call(block, like(64, 256), grid=(4, 2), in_specs=[SMEM], out_specs=out)
    text = lowered(call, key)[1]
    assert text.count("tpu.prng_random_bits") == 2
    assert "window_bounds = array<i64: 1, 2>" in text
    text = lowered(seeded(lambda: pltpu.stateful_bits((8, 128))), like(1, dtype=jnp.int32))[1]
    assert text.count("tpu.prng_set_seed_32") == text.count("tpu.prng_random_bits") == 1
    for draw, message in (
        (lambda k: jax.random.bits(k, (8, 128), jnp.uint8).astype(jnp.uint32), "of 32 bits"),
        (lambda k: jnp.zeros((8, 128), jnp.uint32) + jax.random.bits(k), "at least two dimensions"),
        (lambda k: jax.random.bits(jax.random.split(k)[0], (8, 128)), "Cannot split"),
    ):
        with pytest.raises(NotImplementedError, match=message):
            lowered(with_key(draw), key)
    with pytest.raises(NotImplementedError, match="pltpu.to_pallas_key"):
        lowered(with_key(lambda k: jax.random.bits(k, (8, 128))), KEY)


def test_sample_block():
    sample = lambda size, *index, total=(8, 8): pltpu.sample_block(
        jax.random.uniform, KEY, size, (2, 2), total, index, minval=1.0, maxval=2.0
    )
    whole = sample((8, 8), 0, 0)
    for i, j in ((0, 1), (1, 1)):
        at = np.s_[4 * i : 4 * i + 4, 4 * j : 4 * j + 4]
        np.testing.assert_array_equal(sample((4, 4), i, j), whole[at])
    tile = jax.random.uniform(jax.random.fold_in(KEY, 6), (2, 2), minval=1.0, maxval=2.0)
    np.testing.assert_array_equal(sample((2, 2), 1, 1, total=(9, 9)), tile)
    for sizes, message in (
        (((4, 4), (2,), (8, 8)), "must have the same length"),
        (((4, 4), (3, 2), (8, 8)), "must divide"),
    ):
        with pytest.raises(ValueError, match=message):
            pltpu.sample_block(jax.random.uniform, KEY, *sizes, (0, 0))
    with pytest.raises(ValueError, match="2 dimensions"):
        pltpu.sample_block(jax.random.uniform, KEY, (4, 4), (2, 2), (8, 8), (0,))


def products(x_ref, y_ref, o_ref):
    pltpu.matmul_push_rhs(y_ref[...], 1, 1, transpose=True)
    pltpu.matmul_acc_lhs(0, x_ref[...], 1, load_staged_rhs=1)
    pltpu.matmul_acc_lhs(2, x_ref[...], 1)
    o_ref[...] = pltpu.matmul_pop(0, o_ref.shape, jnp.float32, 1)


def test_units_for_products():
    x = jax.random.normal(jax.random.key(1), (32, 256)).astype(jnp.bfloat16)
    y = jax.random.normal(jax.random.key(2), (256, 256)).astype(jnp.bfloat16)
    out = pl.pallas_call(products, like(48, 256), interpret=TPU)(x, y)
    once = x.astype(jnp.float32) @ y.astype(jnp.float32).T
    want = jnp.pad(once, ((0, 16), (0, 0))) + jnp.pad(once, ((16, 0), (0, 0)))
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-4)
    text = lowered(pl.pallas_call(products, like(48, 256)), x, y)[1]
    assert re.findall(r"tpu\.matmul\w+ [^{:]*\{[^}]*\}", re.sub(r"%\d+", "%", text)) == [
        "tpu.matmul_push_rhs % {mxu_index = 1 : i32, staging_register = 1 : i32, transpose = true}",
        "tpu.matmul_acc_lhs 0, % {load_staged_rhs = 1 : i32, mxu_index = 1 : i32}",
        "tpu.matmul_acc_lhs 2, % {mxu_index = 1 : i32}",
        "tpu.matmul_pop 0 {mxu_index = 1 : i32}",
    ]


@pytest.mark.parametrize(
    "use, error, message",
    [
        (lambda x: pltpu.matmul_push_rhs(x[0], 0, 0), ValueError, "two dimensions"),
        (lambda x: pltpu.matmul_acc_lhs(0, x[:4], 0), ValueError, "a multiple of 8 rows"),
        (lambda x: pltpu.matmul_acc_lhs(-1, x, 0), ValueError, "acc_addr must not be negative"),
        (lambda x: pltpu.matmul_acc_lhs(x[0, 0], x, 0), TypeError, "an integer that is known"),
        (lambda x: pltpu.matmul_pop(0, (8, 256), jnp.bfloat16, 0), ValueError, "Only float32 and int32"),
        (lambda x: pltpu.matmul_pop(0, (7, 256), jnp.float32, 0), ValueError, "a multiple of 8 rows"),
        (lambda x: pltpu.matmul_acc_lhs(0, x, 0), Exception, "has loaded no right operand"),
        (lambda x: pltpu.matmul_acc_lhs(0, x, 0, 1), Exception, "register 1 is empty"),
        (lambda x: [pltpu.matmul_push_rhs(x, 0, 0) for _ in "ab"], Exception, "was not loaded"),
    ],
)  # fmt: skip
def test_refused_products(use, error, message):
    def kernel(x_ref, o_ref):
        use(x_ref[...])
        o_ref[...] = x_ref[...]

    x = jnp.ones((8, 256))
    with pytest.raises(error, match=message):
        jax.block_until_ready(pl.pallas_call(kernel, x, interpret=TPU)(x))


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def test_memory_of_operands_and_results():
    x, vmem = like(16, 128), pl.BlockSpec(memory_space=pltpu.VMEM)

    def given(space):
        constrained = lambda x: pltpu.with_memory_space_constraint(x * 2, space)
        found = lowered(lambda x: pl.pallas_call(copy, x)(constrained(x)) + 1, x)[0]
        return found.get("input_memory_space_colors")

    def made(space):
        call = pl.pallas_call(copy, space((16, 128), jnp.float32), out_specs=vmem)
        return lowered(lambda x: call(x) + 1, x)[0].get("output_memory_space_colors")

    assert [given(s) for s in (pltpu.HBM, pltpu.VMEM, pltpu.SMEM, pl.ANY)] == [
        [dict(operand_index=0, color=0)],
        [dict(operand_index=0, color=1)],
        None,
        None,
    ]
    spaces = (pltpu.HBM, pltpu.VMEM, pltpu.SMEM, pltpu.CMEM, pl.ANY)
    assert [made(s) for s in spaces] == [*[[dict(color=c)] for c in (0, 1, 4)], None, None]
    two = pl.pallas_call(lambda x, o, p: None, (x, pltpu.HBM((16, 128), jnp.float32)))
    assert lowered(two, x)[0]["output_memory_space_colors"] == [dict(color=0, shape_index=[1])]

    @jax.jit
    def interpreted(x):
        x = jax.vmap(lambda x: pltpu.with_memory_space_constraint(x, pltpu.VMEM))(x)
        return pl.pallas_call(copy, pltpu.HBM((2, 3), jnp.float32), interpret=True)(x) + 1

    np.testing.assert_array_equal(interpreted(jnp.ones((2, 3))), np.full((2, 3), 2))
    with pytest.raises(NotImplementedError, match="only supports HBM, VMEM and SMEM"):
        given(pltpu.CMEM)
    with pytest.raises(ValueError, match="Cannot eagerly run"):
        pltpu.with_memory_space_constraint(jnp.ones(2), pltpu.HBM)


def test_options_are_replaced():
    params = pltpu.CompilerParams(vmem_limit_bytes=1).replace(collective_id=2)
    assert (params.vmem_limit_bytes, params.collective_id) == (1, 2)
    assert issubclass(pltpu.LoweringException, Exception)


@pytest.mark.aot("tpu")
def test_compiled():
    def on(name, call, *args):
        device = topologies.get_topology_desc(name, "tpu").devices[0]
        place = lambda x: jax.ShapeDtypeStruct(
            x.shape, x.dtype, sharding=SingleDeviceSharding(device)
        )
        assert "tpu_custom_call" in jax.jit(call).lower(*map(place, args)).compile().as_text()

    key = pltpu.to_pallas_key(KEY)
    uniform = with_key(
        lambda k: jax.random.uniform(jax.random.fold_in(k, 3), (8, 128)), jnp.float32
    )
    for name in ("v5e:2x2", "v5p:2x2x1", "v6e:2x2"):
        on(name, uniform, key)
    x, y = like(32, 256, dtype=jnp.bfloat16), like(256, 256, dtype=jnp.bfloat16)

    def product(x_ref, y_ref, o_ref):
        pltpu.matmul_push_rhs(y_ref[...], 0, 0)
        pltpu.matmul_acc_lhs(0, x_ref[...], 0, load_staged_rhs=0)
        o_ref[...] = pltpu.matmul_pop(0, (32, 256), jnp.float32, 0)

    on("tpu7x:2x2x1", pl.pallas_call(product, like(32, 256)), x, y)
