"""What `dot_product_attention(implementation="cudnn")` asks cuDNN for; the numbers are the reference's."""

import json
import math
import re

import pytest

import jax
import jax.numpy as jnp

B, T, S, N, H = 2, 128, 64, 4, 32
QUERY, KEY, BIAS = (B, T, N, H), (B, S, 2, H), (1, N, T, S)
LENGTHS = jax.ShapeDtypeStruct((B,), jnp.int32)


def struct(shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


def attention(query, key, value, *rest, **options):
    return jax.nn.dot_product_attention(query, key, value, *rest, implementation="cudnn", **options)


def gradient(*args, **options):
    def total(*args):
        return attention(*args, **options).astype(jnp.float32).sum()

    return jax.grad(total, tuple(range(len(args))))(*args)


def calls(fun, *args):
    """(Target, operand shapes, result shapes, configuration) of each call of cuDNN."""
    text = jax.jit(fun).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    found = []
    for line in re.findall(r"custom_call @__cudnn.*", text):
        target = re.match(r"custom_call @__cudnn\$fmha(\w+)", line)[1]
        config = json.loads(re.search(r'backend_config = "(.*?)"', line)[1].replace(r"\22", '"'))
        arguments, results = line[line.rindex(" : (") :].split("->")
        shapes = lambda text: [s.split("<")[1] for s in re.findall(r"tensor<[^>]*", text)]
        layouts = [
            [int(i) for i in re.findall(r"\d+", x)]
            for x in re.findall(r"dense<\[?([\d, ]+)\]?>", line.split("result_layouts")[1])
        ]
        config = config["cudnn_fmha_backend_config"]
        found.append((target, shapes(arguments), shapes(results), layouts, config))
    return found


def test_forward():
    ((target, operands, results, layouts, config),) = calls(
        attention, *map(struct, (QUERY, KEY, KEY))
    )
    assert target == "Softmax"
    assert operands == ["2x128x4x32xbf16", "2x64x2x32xbf16", "2x64x2x32xbf16"]
    # Heads are before the sequence, but the memory is as if they followed it.
    assert results == ["2x4x128x32xbf16", "0xui8"]
    assert layouts == [[3, 1, 2, 0], [0]]
    assert config["fmha_scale"] == 1 / math.sqrt(H)
    assert config["is_flash_attention"] is True
    assert (config["mask_type"], config["sliding_window_length"]) == ("NO_MASK", 0)
    logits = config["intermediate_tensor_shape"]
    assert (logits["element_type"], logits["dimensions"]) == ("BF16", ["2", "4", "128", "64"])
    assert list(config["bmm2_dot_dimension_numbers"].values()) == [
        ["3"],
        ["1"],
        ["0", "1"],
        ["0", "2"],
    ]


def test_gradient():
    args = [struct(s, jnp.float16) for s in (QUERY, KEY, KEY, BIAS)]
    forward, backward = calls(gradient, *args)
    assert forward[0] == "ScaleBiasSoftmax"
    assert forward[2] == ["2x4x128x32xf16", "2x4x128xf32", "0xui8"]
    target, operands, results, layouts, config = backward
    assert target == "ScaleBiasSoftmaxBackward"
    query, key, bias = "2x128x4x32xf16", "2x64x2x32xf16", "1x4x128x64xf16"
    assert operands == [query, key, key, "2x4x128xf32", query, bias, query]
    assert results == ["2x4x128x32xf16", "2x2x64x32xf16", "2x2x64x32xf16", bias, "0xui8"]
    assert layouts == [[3, 1, 2, 0]] * 3 + [[3, 2, 1, 0], [0]]
    assert config["intermediate_tensor_shape"]["element_type"] == "F16"
    products = {k: list(v.values()) for k, v in config.items() if k.endswith("numbers")}
    assert products == {
        "bmm1_grad_gemm1_dot_dimension_numbers": [["2"], ["1"], ["0", "1"], ["0", "2"]],
        "bmm1_grad_gemm2_dot_dimension_numbers": [["3"], ["1"], ["0", "1"], ["0", "2"]],
        "bmm2_grad_gemm1_dot_dimension_numbers": [["2"], ["1"], ["0", "1"], ["0", "2"]],
        "bmm2_grad_gemm2_dot_dimension_numbers": [["3"], ["3"], ["0", "2"], ["0", "2"]],
    }


@pytest.mark.parametrize(
    "options, mask_type, window",
    [
        (dict(is_causal=True), "CAUSAL", 0),
        (dict(key_value_seq_lengths=LENGTHS), "PADDING", 0),
        (dict(query_seq_lengths=LENGTHS, is_causal=True), "PADDING_CAUSAL", 0),
        (dict(local_window_size=(10, 0)), "NO_MASK", 11),
        (dict(local_window_size=10, is_causal=True), "CAUSAL", 11),
    ],
)  # fmt: skip
def test_masks(options, mask_type, window):
    arrays = {k: v for k, v in options.items() if v is LENGTHS}
    static = {k: v for k, v in options.items() if v is not LENGTHS}

    def fun(query, key, value, lengths):
        return attention(query, key, value, **lengths, **static)

    ((_, operands, _, _, config),) = calls(fun, *map(struct, (QUERY, KEY, KEY)), arrays)
    assert (config["mask_type"], config["sliding_window_length"]) == (mask_type, window)
    # If there are lengths of one kind, the others are those of the arrays.
    assert operands[3:] == ["2xi32", "2xi32"] * bool(arrays)


def test_boolean_mask_becomes_bias():
    mask = struct((1, 1, 1, S), jnp.bool_)
    fun = lambda q, k, v, b, m: attention(q, k, v, b, m)
    for bias in (None, struct((B, N, T, S))):
        ((target, operands, *_),) = calls(fun, *map(struct, (QUERY, KEY, KEY)), bias, mask)
        assert target == "ScaleBiasSoftmax"
        assert operands[3] == ("1x1x128x64xbf16" if bias is None else "2x4x128x64xbf16")


def test_residual():
    shapes = [struct(s) for s in (QUERY, KEY, KEY)]
    fun = lambda *a: attention(*a, return_residual=True)
    residual = jax.eval_shape(fun, *shapes)[1]
    assert (residual.shape, residual.dtype) == ((B, T, N), jnp.bfloat16)
    gradients = lambda *a: jax.grad(lambda *a: fun(*a)[0].astype(jnp.float32).sum(), (0, 1, 2))(*a)
    assert [c[0] for c in calls(gradients, *shapes)] == ["Softmax", "SoftmaxBackward"]


def test_vmap_extends_the_batch():
    three = lambda shape: struct((3, *shape))
    mapped = lambda fun, *axes: jax.vmap(fun, axes)
    ((_, operands, results, *_),) = calls(
        mapped(attention, 0, None, 0, None), three(QUERY), struct(KEY), three(KEY), struct(BIAS)
    )
    assert operands == ["6x128x4x32xbf16", *["6x64x2x32xbf16"] * 2, "6x4x128x64xbf16"]
    assert results[0] == "6x4x128x32xbf16"
    # Each of the three gradients of a shared bias is a sum over its own batch.
    fun = mapped(gradient, 0, 0, 0, None)
    args = [three(QUERY), three(KEY), three(KEY), struct(BIAS)]
    shapes = [x.shape for x in jax.eval_shape(fun, *args)]
    assert shapes == [(3, *QUERY), (3, *KEY), (3, *KEY), (3, *BIAS)]
    assert calls(fun, *args)[1][2][3] == "6x4x128x64xbf16"


def test_errors():
    with pytest.raises(NotImplementedError, match="bfloat16 and float16, got float32"):
        attention(*[jnp.ones(s, jnp.float32) for s in (QUERY, KEY, KEY)])
    with pytest.raises(NotImplementedError, match="multiple of 8, got 12"):
        attention(*[jnp.ones((1, 4, 1, 12), jnp.bfloat16)] * 3)
    query, key = jnp.ones(QUERY, jnp.bfloat16), jnp.ones(KEY, jnp.bfloat16)
    with pytest.raises(NotImplementedError, match="a scale that is one number"):
        attention(query, key, key, scale=jnp.ones((1, N, 1, 1)))
    with pytest.raises(ValueError, match=r"windows \(before, 0\).*got \(3, 2\)"):
        attention(query, key, key, local_window_size=(3, 2))
    with pytest.raises(RuntimeError, match="on NVIDIA GPUs only.*platform cpu"):
        attention(query, key, key)
    odd = jnp.ones((B, 7, N, H), jnp.bfloat16)
    with pytest.raises(NotImplementedError, match="even lengths, got 7 queries and 7 keys"):
        gradient(odd, odd, odd)
