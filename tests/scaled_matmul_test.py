"""`jax.nn.scaled_matmul` and `scaled_dot_general`: numbers beside NumPy's, and what CUDA and ROCm get.

The reference has no lowering for CPUs; the custom call and its configuration are the reference's.
"""

import json
import re

import ml_dtypes
import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

F8, E8M0, F4 = jnp.float8_e4m3fn, jnp.float8_e8m0fnu, jnp.float4_e2m1fn
BATCHED = (((2,), (2,)), ((0,), (0,)))


def struct(shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


def operands(batch=(2,), m=8, n=16, k=64, block=32, dtype=F8, scale=E8M0):
    shapes = [(*batch, d, size) for size in (k, k // block) for d in (m, n)]
    return [struct(s, dtype if i < 2 else scale) for i, s in enumerate(shapes)]


def numbers(structs, seed=0):
    rng = np.random.default_rng(seed)
    scales = lambda s: 2.0 ** rng.integers(-3, 3, s.shape)
    return [
        np.asarray(rng.normal(size=s.shape) if i < 2 else scales(s)).astype(s.dtype)
        for i, s in enumerate(structs)
    ]


def product(lhs, rhs, lhs_scales, rhs_scales):
    """The product, by NumPy in float64."""
    up = lambda x, s: x.astype(float) * s.astype(float).repeat(x.shape[-1] // s.shape[-1], -1)
    return up(lhs, lhs_scales) @ up(rhs, rhs_scales).swapaxes(-1, -2)


def lowered(fun, *args, platforms=("cuda",)):
    return jax.jit(fun).trace(*args).lower(lowering_platforms=platforms).as_text()


def calls(text):
    """(Shapes of operands, shape of the result, configuration) of each custom call."""
    found = []
    for line in re.findall(r"custom_call @__op\$block_scaled_dot.*", text):
        config = json.loads(re.search(r'backend_config = "(.*?)"', line)[1].replace(r"\22", '"'))
        layouts = re.findall(r"dense<\[([\d, ]+)\]>", line)
        assert layouts == ["2, 1, 0"] * 5
        arguments, result = line[line.rindex(" : (") :].split("->")
        shapes = re.findall(r"tensor<([^>]*)", arguments)
        found.append((shapes, re.findall(r"tensor<([^>]*)", result)[0], config))
    return found


# The product


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("formats", [(32, F8, E8M0), (16, F4, F8), (1, jnp.int8, jnp.float32)])
def test_product(formats, dtype):
    args = numbers(operands((3,), 4, 6, 64, *formats))
    out = jax.nn.scaled_matmul(*args, dtype)
    assert (out.shape, out.dtype) == ((3, 4, 6), dtype)
    bound = float(jnp.finfo(dtype).eps) * 4
    np.testing.assert_allclose(out.astype(float), product(*args), rtol=bound, atol=bound)


def test_derivatives():
    """The product is linear in each operand."""
    args = [np.float32(x) for x in numbers(operands(m=3, n=4, k=8, block=4, dtype=np.float32))]
    tangents = [
        np.float32(x) for x in numbers(operands(m=3, n=4, k=8, block=4, dtype=np.float32), 1)
    ]
    out, tangent = jax.jvp(jax.nn.scaled_matmul, args, tangents)
    parts = [product(*args[:i], t, *args[i + 1 :]) for i, t in enumerate(tangents)]
    np.testing.assert_allclose(tangent, sum(parts), rtol=1e-4, atol=1e-4)
    grads = jax.vjp(jax.nn.scaled_matmul, *args)[1](out)
    for grad, t, part in zip(grads, tangents, parts):
        np.testing.assert_allclose((grad * t).sum(), (out * part).sum(), rtol=1e-4)


def test_vmap():
    args = numbers(operands((3, 2)))
    expected = product(*args)
    mapped = jax.vmap(jax.nn.scaled_matmul, (2, 0, 0, 1), 3)
    out = mapped(np.moveaxis(args[0], 0, 2), *args[1:3], np.moveaxis(args[3], 0, 1))
    np.testing.assert_allclose(np.moveaxis(out, 3, 0), expected, rtol=1e-5, atol=1e-4)
    shared = jax.vmap(jax.nn.scaled_matmul, (0, None, 0, None))(
        args[0], args[1][1], args[2], args[3][1]
    )
    np.testing.assert_allclose(shared[1], expected[1], rtol=1e-5, atol=1e-4)


def test_errors():
    lhs, rhs, lhs_scales, rhs_scales = numbers(operands())
    with pytest.raises(TypeError, match="in .f32, bf16, f16., but got int32"):
        jax.nn.scaled_matmul(lhs, rhs, lhs_scales, rhs_scales, jnp.int32)
    with pytest.raises(ValueError, match="contract dimension 64 to be a multiple of .* 3"):
        scales = lhs_scales.repeat(2, -1)[..., :3], rhs_scales.repeat(2, -1)[..., :3]
        jax.nn.scaled_matmul(lhs, rhs, *scales)
    with pytest.raises(ValueError, match="3-dimensional"):
        jax.nn.scaled_matmul(lhs[0], rhs, lhs_scales, rhs_scales)


# Lowering


@pytest.mark.parametrize(
    "dtype, name", [(jnp.float32, "F32"), (jnp.bfloat16, "BF16"), (jnp.float16, "F16")]
)
def test_custom_call(dtype, name):
    fun = lambda *args: jax.nn.scaled_matmul(*args, dtype)
    for args, types in (
        (operands(), ("f8E4M3FN", "f8E8M0FNU")),
        (operands((1,), block=16, dtype=F4, scale=F8), ("f4E2M1FN", "f8E4M3FN")),
    ):
        ((shapes, result, config),) = calls(lowered(fun, *args))
        assert shapes == [
            f"{'x'.join(map(str, x.shape))}x{types[i // 2]}" for i, x in enumerate(args)
        ]
        assert result == f"{args[0].shape[0]}x8x16x{name.lower()}"
        assert config == {
            "scaled_dot_backend_config": {
                "lhs_batch_dimensions": [0],
                "rhs_batch_dimensions": [0],
                "dequantize_type": name,
            }
        }


def test_vmap_extends_the_batch():
    ((shapes, result, _),) = calls(
        lowered(jax.vmap(jax.vmap(jax.nn.scaled_matmul)), *operands((5, 3, 2)))
    )
    assert shapes[0] == "30x8x64xf8E4M3FN"
    assert result == "30x8x16xf32"


def test_platforms():
    """A program for several platforms has the call for CUDA only; ROCm has a composite."""
    text = lowered(jax.nn.scaled_matmul, *operands(), platforms=("cpu", "cuda"))
    assert len(calls(text)) == 1 and "dot_general" in text
    for platform in ("cpu", "tpu"):
        text = lowered(jax.nn.scaled_matmul, *operands(), platforms=(platform,))
        assert "custom_call" not in text and "dot_general" in text
    text = lowered(jax.nn.scaled_matmul, *operands(), platforms=("rocm",))
    assert '"xla.scaled_dot"' in text
    assert "dimension_numbers = [[[2], [2]], [[0], [0]]], preferred_element_type = f32" in text
    text = lowered(jax.nn.scaled_matmul, *operands(block=1), platforms=("rocm",))
    assert "composite" not in text


def test_shard_map():
    mesh = jax.make_mesh((1,), ("x",), (jax.sharding.AxisType.Auto,))
    fun = jax.shard_map(jax.nn.scaled_matmul, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    ((shapes, *_),) = calls(lowered(fun, *operands()))
    assert shapes[0] == "2x8x64xf8E4M3FN"


def test_explicit_types():
    mesh = jax.sharding.AbstractMesh((2,), ("x",), (jax.sharding.AxisType.Explicit,))
    sharded = lambda spec: [
        jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec))
        for x in operands()
    ]
    with jax.sharding.use_abstract_mesh(mesh):
        args = sharded(P("x"))
        assert jax.typeof(jax.eval_shape(jax.nn.scaled_matmul, *args)).sharding.spec == P(
            "x", None, None
        )
        with pytest.raises(Exception, match="Replicate one of the operands"):
            jax.eval_shape(jax.nn.scaled_matmul, *sharded(P(None, None, "x")))


# Quantization


def quantized(x, mode):
    """Elements and scales of x, of shape (..., K), by NumPy; x is not in the formats' last binades."""
    block, element, scale = {"mxfp8": (32, F8, E8M0), "nvfp4": (16, F4, F8)}[mode]
    blocks = np.float32(x).reshape(*x.shape[:-1], -1, block)
    scales = abs(blocks).max(-1) / np.float32(ml_dtypes.finfo(element).max)
    if mode == "mxfp8":
        scales = 2.0 ** np.ceil(np.log2(scales))
    scales = scales.astype(scale)
    bound = np.float32(ml_dtypes.finfo(element).max)
    elements = (blocks / np.float32(scales)[..., None]).clip(-bound, bound).astype(element)
    return elements.reshape(x.shape), scales


@pytest.mark.usefixtures("fusion_emitters")
@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_scaled_dot_general(mode, dtype):
    rng = np.random.default_rng(2)
    lhs, rhs = (rng.normal(size=s).astype(dtype) for s in ((2, 8, 64), (2, 6, 64)))
    scale = None if mode == "mxfp8" else jnp.array([0.5], jnp.float32)
    configs = [jax.nn.get_scaled_dot_general_config(mode, scale)] * 3
    fun = jax.jit(lambda a, b: jax.nn.scaled_dot_general(a, b, BATCHED, configs=configs))
    unit = np.float32(1 if mode == "mxfp8" else 0.5)
    (a, a_scales), (b, b_scales) = (quantized(np.float32(x) / unit, mode) for x in (lhs, rhs))
    expected = product(a, b, a_scales, b_scales) * unit**2
    np.testing.assert_allclose(fun(lhs, rhs), expected, rtol=1e-5, atol=1e-4)


def test_blocks_of_zeros():
    """They are zeros for mxfp8; for nvfp4 their scale is zero, as in the reference."""
    for mode in ("mxfp8", "nvfp4"):
        for dtype in (jnp.float32, jnp.float16, jnp.bfloat16):
            configs = [jax.nn.get_scaled_dot_general_config(mode)] * 3
            x = jnp.zeros((1, 4, 64), dtype).at[:, :, :32].set(1)
            out = jax.nn.scaled_dot_general(x, x, BATCHED, jnp.float32, configs)
            assert mode == "nvfp4" or (np.asarray(out) == 32).all(), dtype


def test_dimension_numbers():
    """Contracted dimensions are paired in the order in which they are given."""
    rng = np.random.default_rng(3)
    lhs, rhs = (jnp.float32(rng.normal(size=s)) for s in ((32, 3, 4, 32), (5, 4, 32, 3)))
    dims = (((0, 2), (2, 1)), ((1,), (3,)))
    configs = [jax.nn.get_scaled_dot_general_config("mxfp8")] * 3
    out = jax.nn.scaled_dot_general(lhs, rhs, dims, configs=configs)
    expected = jax.lax.dot_general(lhs, rhs, dims)
    assert out.shape == expected.shape
    assert abs(out - expected).max() < 0.1 * abs(expected).max()


def test_gradients():
    rng = np.random.default_rng(4)
    lhs, rhs = (jnp.asarray(rng.normal(size=(2, 32, 64)), jnp.bfloat16) for _ in range(2))
    ct = jnp.asarray(rng.normal(size=(2, 32, 32)), jnp.float32)
    exact = lambda a, b: jax.lax.dot_general(a, b, BATCHED, preferred_element_type=jnp.float32)
    expected = jax.vjp(exact, lhs, rhs)[1](ct)
    for mode, quantized in (("mxfp8", True), ("nvfp4", False)):
        configs = [jax.nn.get_scaled_dot_general_config(mode)] * 3
        fun = lambda a, b: jax.nn.scaled_dot_general(a, b, BATCHED, configs=configs)
        grads = jax.jit(lambda a, b: jax.vjp(fun, a, b)[1](ct))(lhs, rhs)
        for grad, want in zip(grads, expected):
            assert grad.dtype == jnp.bfloat16
            error = abs(jnp.float32(grad) - jnp.float32(want)).max() / abs(jnp.float32(want)).max()
            assert error < (0.1 if quantized else 0.01)
    # An element that nvfp4 cannot represent has no gradient.
    scale = jnp.array([1e-3], jnp.float32)
    configs = [jax.nn.get_scaled_dot_general_config("nvfp4", scale)] * 3
    fun = lambda a: jax.nn.scaled_dot_general(a, rhs, BATCHED, configs=configs).sum()
    grad = jax.grad(fun)(lhs.at[0, 0, 0].set(6 * 448e-3 * 1.01).at[0, 1, 0].set(6 * 448e-3 * 0.99))
    assert grad[0, 0, 0] == 0 and grad[0, 1, 0] != 0


def test_calls_of_gradient():
    """mxfp8 quantizes the products of the backward pass, nvfp4 does not; `implementation` is ignored."""
    x, y = struct((2, 32, 64), jnp.bfloat16), struct((2, 96, 64), jnp.bfloat16)
    for mode, dtype, count in (("mxfp8", "bf16", 3), ("nvfp4", "f32", 1)):
        configs = [jax.nn.get_scaled_dot_general_config(mode)] * 3

        def fun(a, b):
            out = jax.nn.scaled_dot_general(a, b, BATCHED, jnp.bfloat16, configs, "cudnn")
            return (out**2).sum().astype(jnp.float32)

        found = calls(lowered(jax.grad(fun, (0, 1)), x, y))
        assert [result.split("x")[-1] for _, result, _ in found] == [dtype] * count
