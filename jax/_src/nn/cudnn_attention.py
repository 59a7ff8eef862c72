"""Fused dot-product attention by cuDNN, on NVIDIA GPUs.

The logits are never in memory as a whole (T. Dao et al., "FlashAttention", 2022). XLA takes a custom call
with a configuration in JSON, and has cuDNN compile the kernel.

There are two primitives, for the attention and for its gradient. Each is lowered to an operation that
the partitioner may split along batch and heads; the shards are computed by the custom call, which is a
primitive of its own.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes
from jax._src.custom_derivatives import custom_vjp
from jax._src.custom_partitioning import custom_partitioning
from jax._src.interpreters import batching, mlir
from jax._src.lax import lax
from jax._src.lax.parallel import psum
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec

_ELEMENT_TYPES = {np.dtype(dtypes.bfloat16): "BF16", np.dtype(np.float16): "F16"}
# What masked logits are biased by: large, but far from where the sum with a logit overflows.
_MASKED = {np.dtype(dtypes.bfloat16): -(2.0**41), np.dtype(np.float16): -(2.0**15)}
_MAX_HEAD_SIZE = 256


class Options(NamedTuple):
    """Static parameters of an attention.

    Its operands are query, key, value, a bias if it `has_bias`, the lengths of queries and of keys if it
    `has_lengths`, and the tables of pages of keys and of values if it `has_pages`. The gradient takes the
    residual, the attention and its cotangent after these.
    """

    scale: float
    mask_type: str = "NO_MASK"
    window: int = 0  # how many keys, up to its own position, a query attends to; 0 for all
    layout: str = "BTNH"  # or BNTH: the order of dimensions of query, key, value and result
    dropout_rate: float = 0.0
    seed: int = 42
    has_bias: bool = False
    has_lengths: bool = False
    has_pages: bool = False
    with_residual: bool = False

    @property
    def length_dim(self) -> int:
        return self.layout.index("T")

    @property
    def heads_dim(self) -> int:
        return self.layout.index("N")


def cudnn_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    mask: Any,
    scale: Any,
    query_lengths: Any,
    key_lengths: Any,
    *,
    is_causal: bool,
    window: tuple[int, int] | None,
    return_residual: bool,
) -> tuple[Any, Any]:
    """Returns the attention and, if asked for, the log-sum-exps of the logits, in its dtype.

    Args:
      query: array of shape (B, T, N, H), bfloat16 or float16.
      key, value: arrays of shape (B, S, K, H).
      bias, mask: arrays that broadcast to (B, N, T, S), or None.
      scale: number by which logits are multiplied.
      query_lengths, key_lengths: int32 arrays of shape (B,), or None.
      is_causal: whether a query attends only to keys up to its position.
      window: how many positions before and after its own a query attends to. cuDNN knows only the
        former; the latter is implied by `is_causal`.
      return_residual: whether to return the log-sum-exps, of shape (B, T, N). They have no gradient.

    Raises:
      NotImplementedError: if cuDNN has no kernel for the dtype, size of heads or scale.
      ValueError: if it has none for the window.
    """
    check_operands(query)
    lengths = None
    if query_lengths is not None or key_lengths is not None:
        sizes = ((query_lengths, query.shape[1]), (key_lengths, key.shape[1]))
        lengths = [
            lax.full((query.shape[0],), size, np.int32) if x is None else x for x, size in sizes
        ]
    masks = ["PADDING"] * (lengths is not None) + ["CAUSAL"] * is_causal
    options = Options(
        _number(scale),
        "_".join(masks) or "NO_MASK",
        _window_length(window, is_causal),
        with_residual=return_residual,
    )
    out, sums = attention_and_sums(query, key, value, bias, mask, lengths, None, options)
    if sums is not None:
        sums = lax.convert_element_type(lax.transpose(sums, (0, 2, 1)), out.dtype)
    return out, sums


def attention_and_sums(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    mask: Any,
    lengths: Sequence[Any] | None,
    pages: Sequence[Any] | None,
    options: Options,
) -> tuple[Any, Any]:
    """Returns the attention and, with `options.with_residual`, the log-sum-exps of the logits.

    Args:
      query: array in the layout of `options`, bfloat16 or float16.
      key, value: arrays of as many sequences or, with `pages`, of pages, which are parts of sequences.
      bias, mask: arrays that broadcast to (B, N, T, S), or None.
      lengths: those of queries and of keys, int32 arrays of shape (B,), or None.
      pages: which pages are the keys and the values of a sequence, int32 arrays of shape
        (B, 1, pages, 1), or None.
      options: static parameters, except which operands there are.

    The log-sum-exps are of shape (B, N, T) and float32, and have no gradient.
    """
    if mask is not None:
        offsets = lax.select(
            mask,
            lax.full(mask.shape, 0, query.dtype),
            lax.full(mask.shape, _MASKED[query.dtype], query.dtype),
        )
        if bias is None:
            bias = offsets
        else:
            bias = lax.convert_element_type(bias, query.dtype)
            shape = np.broadcast_shapes(bias.shape, offsets.shape)
            bias = lax.broadcast_to(bias, shape) + lax.broadcast_to(offsets, shape)
    operands = [query, key, value]
    if bias is not None:
        # cuDNN broadcasts batch and heads only.
        t, s = query.shape[options.length_dim], key.shape[options.length_dim]
        if pages is not None:
            s *= pages[0].shape[2]
        bias = lax.convert_element_type(bias, query.dtype)
        operands.append(lax.broadcast_to(bias, (*bias.shape[:2], t, s)))
    operands += [*(lengths or ()), *(pages or ())]
    with_residual = options.with_residual
    options = options._replace(
        has_bias=bias is not None,
        has_lengths=lengths is not None,
        has_pages=pages is not None,
        with_residual=False,
    )
    if not with_residual:
        return _attention(options, *operands), None
    return _with_residual(options, *operands)


def check_operands(query: Any) -> None:
    """Raises NotImplementedError if cuDNN has no kernel for the dtype or the size of heads."""
    if query.dtype not in _ELEMENT_TYPES:
        raise NotImplementedError(
            "dot_product_attention: cuDNN's attention takes bfloat16 and float16, got "
            f"{dtypes.dtype_name(query.dtype)}; convert query, key and value, or use "
            "implementation='xla'"
        )
    size = query.shape[3]
    if size > _MAX_HEAD_SIZE or size % 8:
        raise NotImplementedError(
            f"dot_product_attention: cuDNN's attention needs heads of a size up to {_MAX_HEAD_SIZE} that "
            f"is a multiple of 8, got {size}; pad the heads with zeros, or use implementation='xla'"
        )


def _number(scale: Any) -> float:
    try:
        return float(scale)
    except TypeError as error:
        raise NotImplementedError(
            "dot_product_attention: cuDNN's attention needs a scale that is one number, known when the "
            f"function is traced, got {scale}; multiply query by it, or use implementation='xla'"
        ) from error


def _window_length(window: tuple[int, int] | None, is_causal: bool) -> int:
    """Number of keys, up to its own position, that a query attends to; 0 means all."""
    if window is None:
        return 0
    before, after = window
    if before < 0 or after < 0 or (after and not is_causal):
        raise ValueError(
            "dot_product_attention: cuDNN's attention has windows (before, 0) and, with is_causal=True, "
            f"(before, after), of nonnegative sizes; got {window}. Use implementation='xla'"
        )
    return before + 1


# ---------------------------------------------------------------------------------------------------
# Derivatives


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _attention(options: Options, *operands: Any) -> Any:
    (out,) = cudnn_attention_p.bind(*operands, options=options)
    return out


def _attention_fwd(options: Options, *operands: Any) -> Any:
    if options.has_pages:
        raise NotImplementedError(
            "cuDNN's attention to pages of keys and values has no gradient: gather the pages, and use "
            "jax.nn.dot_product_attention"
        )
    t, s = [x.shape[options.length_dim] for x in operands[:2]]
    # Gradients are computed by tiles of two rows and columns.
    if t % 2 or s % 2:
        raise NotImplementedError(
            "dot_product_attention: cuDNN's gradient needs sequences of even lengths, got "
            f"{t} queries and {s} keys; pad them (see query_seq_lengths and "
            "key_value_seq_lengths), or use implementation='xla'"
        )
    out, residual = cudnn_attention_p.bind(*operands, options=options._replace(with_residual=True))
    return out, (operands, residual, out)


def _attention_bwd(options: Options, saved: Any, cotangent: Any) -> Any:
    operands, residual, out = saved
    grads = cudnn_attention_grad_p.bind(*operands, residual, cotangent, out, options=options)
    return (*grads, *[None] * (len(operands) - len(grads)))


_attention.defvjp(_attention_fwd, _attention_bwd)


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _with_residual(options: Options, *operands: Any) -> tuple[Any, Any]:
    options = options._replace(with_residual=True)
    out, residual = cudnn_attention_p.bind(*operands, options=options)
    return out, residual


def _with_residual_fwd(options: Options, *operands: Any) -> Any:
    out, saved = _attention_fwd(options, *operands)
    return (out, saved[1]), saved


def _with_residual_bwd(options: Options, saved: Any, cotangents: Any) -> Any:
    return _attention_bwd(options, saved, cotangents[0])  # none for the residual, as by XLA


_with_residual.defvjp(_with_residual_fwd, _with_residual_bwd)


# ---------------------------------------------------------------------------------------------------
# Types and batching


def _types(query, *_, options):
    out = query.update(weak_type=False)
    if not options.with_residual:
        return [out]
    order = (0, options.heads_dim, options.length_dim)
    b, n, t = [query.shape[d] for d in order]
    sharding = query._sharding
    if sharding is not None:
        batch, heads, length = [sharding.spec.partitions[d] for d in order]
        sharding = sharding.update(spec=sharding.spec.update(partitions=(batch, heads, length)))
    residual = core.ShapedArray(
        (b, n, t), np.float32, sharding=sharding, manual_axis_type=query.manual_axis_type
    )
    return [out, residual]


def _grad_types(*operands, options):
    return [aval.update(weak_type=False) for aval in operands[: 3 + options.has_bias]]


def _fold(x: Any, dim: int | None, size: int, batch: int) -> Any:
    """`x` of shape (batch or 1, ...) with a dimension to be mapped -> (size * batch, ...)."""
    if dim is None:
        x = lax.broadcast_to(lax.expand_dims(x, (0,)), (size, *x.shape))
    else:
        x = batching.moveaxis(x, dim, 0)
    if x.shape[1] != batch:
        x = lax.broadcast_to(x, (size, batch, *x.shape[2:]))
    return lax.reshape(x, (size * batch, *x.shape[2:]))


def _batch_size(x: Any, dim: int | None) -> int:
    return int((x.shape if dim is None else np.delete(x.shape, dim))[0])


def _batched(primitive, axis_data, args, dims, *, options):
    """Makes the mapped dimension part of the batch."""
    size, batch = axis_data.size, _batch_size(args[0], dims[0])
    batches = [batch] * len(args)
    if options.has_pages:
        batches[1:3] = [_batch_size(args[i], dims[i]) for i in (1, 2)]
    folded = [_fold(x, d, size, b) for x, d, b in zip(args, dims, batches)]
    if options.has_pages:
        # The pages of the mapped sequences are behind each other.
        for table, pages in ((-2, batches[1]), (-1, batches[2])):
            firsts = np.repeat(np.arange(size) * pages, batch).astype(folded[table].dtype)
            folded[table] += firsts.reshape(-1, 1, 1, 1)
    outs = primitive.bind(*folded, options=options)
    outs = [lax.reshape(x, (size, batch, *x.shape[1:])) for x in outs]
    if primitive is cudnn_attention_grad_p and options.has_bias:
        if _batch_size(args[3], dims[3]) != batch:
            outs[3] = lax.expand_dims(lax.reduce_sum(outs[3], (1,)), (1,))
    return outs, [0] * len(outs)


# ---------------------------------------------------------------------------------------------------
# Partitioning


def _specs(operands: Sequence[Any], options: Options, gradient: bool) -> list[PartitionSpec]:
    """How operands are split: along batch and heads, as query is; pages along heads only."""
    query, key = operands[:2]
    mesh = query.sharding.mesh
    spec = (*query.sharding.spec, None, None, None)
    batch, heads = spec[0], spec[options.heads_dim]
    if options.has_pages:
        batch = None  # a sequence's pages may be anywhere
    if key.shape[options.heads_dim] % math.prod([mesh.shape[name] for name in _names(heads)]):
        heads = None  # fewer heads of keys than shards
    if options.mask_type == "ALIBI":
        heads = None  # what is added depends on the number of the head
    arrays = [batch, None, None, None]
    arrays[options.heads_dim] = heads
    specs = [PartitionSpec(*arrays)] * 3
    if options.has_bias:
        sizes = operands[3].shape
        specs.append(PartitionSpec(*[a if n > 1 else None for a, n in zip((batch, heads), sizes)]))
    specs += [PartitionSpec(batch)] * (2 * options.has_lengths)
    specs += [PartitionSpec()] * (2 * options.has_pages)
    if gradient:
        specs += [PartitionSpec(batch, heads, None), specs[0], specs[0]]
    return specs


def _names(entry: Any) -> tuple[str, ...]:
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


def _partition(options: Options, mesh: Any, arg_shapes: Any, _: Any) -> Any:
    specs = _specs(arg_shapes[0], options, gradient=False)
    shardings = tuple([NamedSharding(mesh, spec) for spec in specs])
    batch, heads = specs[0][0], specs[0][options.heads_dim]
    residual = NamedSharding(mesh, PartitionSpec(batch, heads, None))
    results = (shardings[0], residual) if options.with_residual else (shardings[0],)
    return mesh, functools.partial(_attention_of_shards, options), results, (shardings,)


def _partition_grad(options: Options, mesh: Any, arg_shapes: Any, _: Any) -> Any:
    specs = _specs(arg_shapes[0], options, gradient=True)
    shardings = tuple([NamedSharding(mesh, spec) for spec in specs])

    def on_shard(operands):
        grads = list(_gradient_of_shards(options, operands))
        if options.has_bias:
            # Shards of the batch, or of the heads, share the bias.
            batch, heads = specs[0][0], specs[0][options.heads_dim]
            sizes = arg_shapes[0][3].shape
            shared = [a for a, n in zip((batch, heads), sizes) if n == 1]
            names = tuple([name for a in shared for name in _names(a)])
            if names:
                grads[3] = psum(grads[3], names)
        return tuple(grads)

    return mesh, on_shard, shardings[: 3 + options.has_bias], (shardings,)


def _sharding_rule(options: Options, operand_types: Any, gradient: bool) -> str:
    """Einsum-like text: batch and heads of all arrays are split alike."""
    shapes = [ir.RankedTensorType(t).shape for t in operand_types]

    def array(*names: str) -> str:
        return " ".join([names["BTNH".index(dim)] for dim in options.layout])

    heads = "n" if shapes[0][options.heads_dim] == shapes[1][options.heads_dim] else "k"
    query, key = array("b", "t", "n", "h"), array("b", "s", heads, "h")
    arguments = [query, key, key]
    if options.has_pages:
        arguments[1:] = [array("p", "s", heads, "h"), array("q", "r", heads, "h")]
    if options.has_bias:
        names = [name if n > 1 else f"{name}1" for name, n in zip("bn", shapes[3])]
        arguments.append(" ".join([*names, "t", "u" if options.has_pages else "s"]))
    results = [query, "b n t"] if options.with_residual else [query]
    if gradient:
        results = arguments[:]
    arguments += ["b"] * (2 * options.has_lengths)
    if options.has_pages:
        arguments += ["b i l j", "b c m d"]
    if gradient:
        arguments += ["b n t", query, query]
    return f"{', '.join(arguments)} -> {', '.join(results)}"


def _attention_of_shards(options, operands):
    return tuple(_call_p.bind(*operands, options=options))


def _gradient_of_shards(options, operands):
    return tuple(_grad_call_p.bind(*operands, options=options))


def _partitioned(function: Any, partition: Any, gradient: bool) -> custom_partitioning:
    operation = custom_partitioning(function, (0,))
    operation.def_partition(
        partition,
        lambda *args: partition(*args)[2],
        sharding_rule=lambda options, _, types, __: _sharding_rule(options, types, gradient),
    )
    return operation


# ---------------------------------------------------------------------------------------------------
# Calls of cuDNN


def _products(options: Options, gradient: bool) -> dict[str, tuple]:
    """Dimensions of the products: (lhs contracted, rhs contracted, lhs batch, rhs batch)."""
    arrays = ((0, options.heads_dim),) * 2
    logits = ((0, 1), arrays[0])  # logits, always with heads before the sequences, by an array
    length = (options.length_dim,)
    if not gradient:
        return {"bmm1": ((3,), (3,), *arrays), "bmm2": ((3,), length, *logits)}
    return {
        "bmm1_grad_gemm1": ((2,), length, *logits),
        "bmm1_grad_gemm2": ((3,), length, *logits),
        "bmm2_grad_gemm1": ((2,), length, *logits),
        "bmm2_grad_gemm2": ((3,), (3,), *arrays),
    }


def _backend_config(options: Options, query: Any, value: Any, gradient: bool) -> str:
    """XLA's message GpuBackendConfig for the call, in JSON; 64-bit integers are strings there."""
    dims = (0, options.heads_dim, options.length_dim)
    sizes = [*[query.shape[d] for d in dims], value.shape[options.length_dim]]
    invalid = "PRIMITIVE_TYPE_INVALID"
    logits = {
        "element_type": _ELEMENT_TYPES[query.dtype],
        "dimensions": [str(d) for d in sizes],
        "tuple_shapes": [],
        "layout": {
            "dim_level_types": [],
            "dim_unique": [],
            "dim_ordered": [],
            "minor_to_major": ["3", "2", "1", "0"],
            "tiles": [],
            "element_size_in_bits": "0",
            "memory_space": "0",
            "index_primitive_type": invalid,
            "pointer_primitive_type": invalid,
            "dynamic_shape_metadata_prefix_bytes": "0",
        },
        "is_dynamic_dimension": [False] * 4,
    }
    names = (
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
        "lhs_batch_dimensions",
        "rhs_batch_dimensions",
    )
    config = {
        "algorithm": {
            "algo_id": "0",
            "math_type": "TENSOR_OP_MATH",
            "tuning_knobs": {"17": "1", "24": "0"},
            "is_cudnn_frontend": True,
            "workspace_size": "0",
        },
        "fmha_scale": options.scale,
        "intermediate_tensor_shape": logits,
        "is_flash_attention": True,
        "mask_type": options.mask_type,
    }
    for product, dimensions in _products(options, gradient).items():
        config[f"{product}_dot_dimension_numbers"] = {
            name: [str(d) for d in dims] for name, dims in zip(names, dimensions)
        }
    config |= {
        "dropout_rate": options.dropout_rate,
        "seed": options.seed,
        "sliding_window_length": options.window,
        "max_seg_per_batch": 1,
        "is_paged_attention": options.has_pages,
    }
    return json.dumps({"operation_queue_id": "0", "cudnn_fmha_backend_config": config})


def _call(ctx, operands: Sequence[Any], num_arrays: int, options: Options, gradient: bool):
    """Emits the custom call, whose first `num_arrays` results have heads before the sequence."""
    query, _, value = ctx.avals_in[:3]
    order = [0, options.heads_dim, options.length_dim, 3]
    avals = [
        aval.update(shape=tuple([aval.shape[d] for d in order]), sharding=None)
        if i < num_arrays
        else aval
        for i, aval in enumerate(ctx.avals_out)
    ]
    avals.append(core.ShapedArray((0,), np.uint8))  # workspace: XLA gives it its size
    layouts = [tuple([order[d] for d in (3, 2, 1, 0)])] * num_arrays
    layouts += [tuple(reversed(range(aval.ndim))) for aval in avals[num_arrays:]]
    bias = "ScaleBias" if options.has_bias else ""
    dropout = "Dropout" if options.dropout_rate > 0 else ""
    results = mlir.custom_call(
        f"__cudnn$fmha{bias}Softmax{dropout}{'Backward' if gradient else ''}",
        result_types=[mlir.aval_to_ir_type(ctx.module_context, a) for a in avals],
        operands=operands,
        backend_config=_backend_config(options, query, value, gradient),
        operand_layouts=[tuple(reversed(range(aval.ndim))) for aval in ctx.avals_in],
        result_layouts=layouts,
    ).results
    results = list(results)[:-1]
    if options.layout == "BNTH":
        return results
    inverse = mlir.dense_int_array(order)
    return [hlo.transpose(x, inverse) if i < num_arrays else x for i, x in enumerate(results)]


def _lower_call(ctx, *operands, options):
    return _call(ctx, operands, 1, options, gradient=False)


def _lower_grad_call(ctx, *operands, options):
    # The kernel takes the residual, the cotangent, the bias, the attention and the lengths in this order.
    count = 3 + options.has_bias
    operands, order = list(operands), [0, 1, 2]
    last = len(operands) - 3
    order += [last, last + 1, *range(3, count), last + 2, *range(count, last)]
    ctx = ctx.replace(avals_in=[ctx.avals_in[i] for i in order])
    operands = [operands[i] for i in order]
    return _call(ctx, operands, 3, options, gradient=True)


def _unsupported(ctx, *_, **__):
    raise RuntimeError(
        "dot_product_attention: cuDNN is on NVIDIA GPUs only, but the program is for the platform "
        f"{', '.join(ctx.module_context.platforms)}: use implementation='xla' or None there."
    )


cudnn_attention_p = core.Primitive("cudnn_attention")
cudnn_attention_grad_p = core.Primitive("cudnn_attention_grad")
_call_p = core.Primitive("cudnn_attention_call")
_grad_call_p = core.Primitive("cudnn_attention_grad_call")

for _primitive, _rule in (
    (cudnn_attention_p, _types),
    (cudnn_attention_grad_p, _grad_types),
    (_call_p, _types),
    (_grad_call_p, _grad_types),
):
    _primitive.multiple_results = True
    _primitive.def_abstract_eval(_rule)

for _primitive, _operation in (
    (cudnn_attention_p, _partitioned(_attention_of_shards, _partition, False)),
    (cudnn_attention_grad_p, _partitioned(_gradient_of_shards, _partition_grad, True)),
):
    _primitive.axis_batch = functools.partial(_batched, _primitive)
    mlir.register_lowering(
        _primitive,
        mlir.lower_fun(
            functools.partial(
                lambda operation, *operands, options: operation(options, operands), _operation
            )
        ),
    )

for _primitive, _rule in ((_call_p, _lower_call), (_grad_call_p, _lower_grad_call)):
    mlir.register_lowering(_primitive, _unsupported)
    mlir.register_lowering(_primitive, _rule, platform="cuda")
