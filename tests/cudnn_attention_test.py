"""What attention by cuDNN asks for; the numbers are the reference's."""

import json
import math
import re

import pytest

import jax
import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo as fused

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


PAGES, PAGE = 8, 16
TABLE = jax.ShapeDtypeStruct((B, 1, PAGES, 1), jnp.int32)


def in_layout(layout, b, t, n, h=H):
    return struct((b, t, n, h) if layout == "BTNH" else (b, n, t, h))


def paged(layout="BTNH", heads=N):
    key = in_layout(layout, B * PAGES, PAGE, heads)
    return in_layout(layout, B, T, N), key, key, LENGTHS, LENGTHS, TABLE, TABLE


def with_options(fun, **options):
    return lambda *args: fun(*args, **options)


def test_pages():
    fun = with_options(fused.paged_attention, scale=0.5, return_residual=True)
    ((target, operands, results, layouts, config),) = calls(fun, *paged(heads=2))
    assert target == "Softmax" and config["is_paged_attention"] is True
    pages = "16x16x2x32xbf16"
    assert operands == ["2x128x4x32xbf16", pages, pages, *["2xi32"] * 2, *["2x1x8x1xi32"] * 2]
    assert results == ["2x4x128x32xbf16", "2x4x128xf32", "0xui8"]
    assert layouts == [[3, 1, 2, 0], [2, 1, 0], [0]]
    assert (config["mask_type"], config["fmha_scale"]) == ("NO_MASK", 0.5)
    assert config["intermediate_tensor_shape"]["dimensions"] == ["2", "4", "128", "16"]


def test_pages_with_masks_and_heads_first():
    kinds, mask = fused.MaskType, struct((B, 1, T, PAGES * PAGE), jnp.bool_)
    fun = with_options(
        fused.paged_attention, mask_type=kinds.PADDING_CAUSAL, qkv_layout="BNSH",
        sliding_window_length=5, dropout_rate=0.25, seed=7,
    )  # fmt: skip
    arguments = *paged("BNTH"), struct((1, N, T, PAGES * PAGE)), mask
    ((target, operands, results, layouts, config),) = calls(fun, *arguments)
    assert target == "ScaleBiasSoftmaxDropout"
    assert operands[1] == "16x4x16x32xbf16" and operands[3] == "2x4x128x128xbf16"
    assert results == ["2x4x128x32xbf16", "0xui8"] and layouts == [[3, 2, 1, 0], [0]]
    assert (config["mask_type"], config["sliding_window_length"]) == ("PADDING_CAUSAL", 5)
    assert (config["dropout_rate"], config["seed"]) == (0.25, 7)
    products = [list(config[f"bmm{i}_dot_dimension_numbers"].values()) for i in (1, 2)]
    assert products == [
        [["3"], ["3"], ["0", "1"], ["0", "1"]],
        [["3"], ["2"], ["0", "1"], ["0", "1"]],
    ]


def test_pages_of_mapped_sequences_are_behind_each_other():
    query, key, *rest = [struct((3, *x.shape), x.dtype) for x in paged()]
    fun = jax.vmap(fused.paged_attention, (0, None, 0, 0, 0, None, 0))
    arguments = query, paged()[1], key, *rest[1:3], TABLE, rest[4]
    ((_, operands, *_),) = calls(fun, *arguments)
    assert operands[:3] == ["6x128x4x32xbf16", *["48x16x4x32xbf16"] * 2]
    assert operands[3:] == [*["6xi32"] * 2, *["6x1x8x1xi32"] * 2]
    assert [x.shape for x in jax.tree.leaves(jax.eval_shape(fun, *arguments))] == [(3, *QUERY)]
    text = jax.jit(fun).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    firsts = re.findall(
        r"dense<\[\[\[\[0\]\]\], \[\[\[0\]\]\], \[\[\[16\]\]\].*\[\[\[32\]\]\]\]>", text
    )
    assert firsts, "the second and third sequences' pages follow those of the first"


def test_dropout_and_slopes():
    arguments = [struct(s, jnp.float16) for s in (QUERY, KEY, KEY, BIAS)]
    fun = with_options(fused.dot_product_attention, dropout_rate=0.5, seed=3)
    total = lambda *args: fun(*args).astype(jnp.float32).sum()
    forward, backward = calls(jax.grad(total, (0, 1, 2, 3)), *arguments)
    assert forward[0] == "ScaleBiasSoftmaxDropout"
    assert backward[0] == "ScaleBiasSoftmaxDropoutBackward"
    assert [(c[4]["dropout_rate"], c[4]["seed"]) for c in (forward, backward)] == [(0.5, 3)] * 2
    fun = with_options(fused.dot_product_attention, mask_type=fused.MaskType.ALIBI)
    assert calls(fun, *arguments[:3])[0][4]["mask_type"] == "ALIBI"


def test_gradient_with_heads_first():
    query, key = in_layout("BNTH", B, T, N), in_layout("BNTH", B, S, 2)
    fun = with_options(fused.dot_product_attention, qkv_layout="BNTH")
    total = lambda *args: fun(*args).astype(jnp.float32).sum()
    _, (_, operands, results, layouts, config) = calls(jax.grad(total, (0, 1, 2)), query, key, key)
    wide, narrow = "2x4x128x32xbf16", "2x2x64x32xbf16"
    assert operands == [wide, narrow, narrow, "2x4x128xf32", wide, wide]
    assert results == [wide, narrow, narrow, "0xui8"] and layouts == [[3, 2, 1, 0]] * 3 + [[0]]
    products = {k[:-22]: list(v.values()) for k, v in config.items() if k.endswith("numbers")}
    heads = ["0", "1"]
    assert products == {
        "bmm1_grad_gemm1": [["2"], ["2"], heads, heads],
        "bmm1_grad_gemm2": [["3"], ["2"], heads, heads],
        "bmm2_grad_gemm1": [["2"], ["2"], heads, heads],
        "bmm2_grad_gemm2": [["3"], ["3"], heads, heads],
    }


def changed(index, replacement):
    return [replacement if i == index else x for i, x in enumerate(paged())]


@pytest.mark.parametrize(
    "error, message, arguments, options",
    [
        (ValueError, "doesn't support fp8", paged(), dict(use_fp8=True)),
        (ValueError, "sliding_window_length > 0, got 0", paged(), dict(sliding_window_length=0)),
        (ValueError, "Unsupported qkv_layout: NTBH", paged(), dict(qkv_layout="NTBH")),
        (ValueError, "Require q_seqlen and kv_seqlen", changed(3, None), {}),
        (ValueError, "Require page_table_k and page_table_v", changed(6, None), {}),
        (ValueError, "page_table_k must have a rank of 4, got 1", changed(5, LENGTHS), {}),
        (ValueError, "must be int32.*got float32", changed(6, struct(TABLE.shape, jnp.float32)), {}),
        (ValueError, "same number of blocks", changed(2, struct((3, PAGE, N, H))), {}),
        (ValueError, "Bias must have same seq length", (*paged(), struct((1, N, T, 7))), {}),
        (NotImplementedError, "multiple of 8, got 12", [
            struct((*x.shape[:3], 12)) if i < 3 else x for i, x in enumerate(paged())
        ], {}),
    ],
)  # fmt: skip
def test_errors_of_pages(error, message, arguments, options):
    with pytest.raises(error, match=message):
        jax.eval_shape(with_options(fused.paged_attention, **options), *arguments)


def test_pages_have_no_gradient():
    fun = lambda *args: fused.paged_attention(*args).astype(jnp.float32).sum()
    with pytest.raises(NotImplementedError, match="pages of keys and values has no gradient"):
        jax.eval_shape(jax.grad(fun), *paged())
