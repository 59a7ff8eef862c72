"""`block_scaled_dot`: the batched product of block-scaled matrices, a primitive.

On NVIDIA GPUs it is a custom call, for which XLA has cuDNN's kernel where the device has block-scaled
matrix units, and ordinary operations elsewhere; on AMD GPUs it is the composite of `lax.scaled_dot`.
The compilers for other devices get ordinary operations.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.custom_partitioning import custom_partitioning
from jax._src.custom_partitioning_sharding_rule import str_to_sdy_sharding_rule
from jax._src.interpreters import batching, mlir
from jax._src.lax import lax
from jax._src.lax.lax.dot import sharding_of_product
from jax._src.lax.parallel import psum
from jax._src.lax.rules import standard_primitive, with_sharding
from jax._src.lax.scaled_dot import scaled_dot
from jax._src.lib.mlir import ir
from jax._src.mesh import empty_abstract_mesh, use_abstract_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec

_ELEMENT_TYPES = {
    np.dtype(np.float32): "F32",
    np.dtype(dtypes.bfloat16): "BF16",
    np.dtype(np.float16): "F16",
}
Operands = tuple[Any, Any, Any, Any]  # lhs, rhs, and the scales of each


# ---------------------------------------------------------------------------------------------------
# Types, derivatives and batching


def _dimension_numbers(ndim: int) -> Any:
    batch = tuple(range(ndim - 2))
    return ((ndim - 1,), (ndim - 1,)), (batch, batch)


def _shape(lhs, rhs, *_, dtype):
    return (*lhs.shape[:-1], rhs.shape[-2])


def _sharding(lhs, rhs, *scales, dtype):
    if lhs._sharding is None and rhs._sharding is None:  # only a scale has a sharding
        mesh = next(a._sharding.mesh for a in scales if a._sharding is not None)
        lhs = lhs.update(sharding=NamedSharding(mesh, PartitionSpec()))
    remedy = "Replicate one of the operands first with `jax.sharding.reshard`."
    return sharding_of_product(
        "scaled_matmul", lhs, rhs, _dimension_numbers(lhs.ndim), remedy=remedy
    )


def product_of_scaled(lhs, rhs, lhs_scales, rhs_scales, *, dtype):
    """The product by ordinary operations: it is linear in each operand."""
    out = lax.dot_general(
        _scaled_up(lhs, lhs_scales),
        _scaled_up(rhs, rhs_scales),
        _dimension_numbers(lhs.ndim),
        preferred_element_type=np.float32,
    )
    return lax.convert_element_type(out, dtype)


def _scaled_up(x, scales):
    size = x.shape[-1] // scales.shape[-1]
    blocks = lax.reshape(lax.convert_element_type(x, np.float32), (*scales.shape, size))
    scales = lax.expand_dims(lax.convert_element_type(scales, np.float32), (scales.ndim,))
    return lax.reshape(lax.mul(blocks, lax.broadcast_to(scales, blocks.shape)), x.shape)


def _tangent_rule(i: int) -> Callable[..., Any]:
    def rule(tangent, out, *operands, dtype):
        return product_of_scaled(*operands[:i], tangent, *operands[i + 1 :], dtype=dtype)

    return rule


def _batch(axis_data, args, dims, *, dtype):
    """Adds a leading batch dimension."""
    args = [batching.bdim_at_front(x, d, axis_data.size) for x, d in zip(args, dims)]
    return block_scaled_dot_p.bind(*args, dtype=dtype), 0


# ---------------------------------------------------------------------------------------------------
# Partitioning of the custom call: matrices with one batch dimension


def _partition(dtype: np.dtype, mesh: Any, arg_shapes: Operands, result: Any) -> Any:
    """Splits the batch and the rows of both operands, and contracted dimensions that are split alike."""
    lhs, rhs, _, scales = arg_shapes
    used: set[str] = set()

    def free(size: int, *entries: Any) -> Any:
        """The first entry whose axes are not used and divide `size`; its axes become used."""
        for entry in entries:
            names = _names(entry)
            count = math.prod([mesh.shape[name] for name in names])
            if names and not used.intersection(names) and size % count == 0:
                used.update(names)
                return entry
        return None

    left, right, out = (_entries(x) for x in (lhs, rhs, result))
    batch = free(lhs.shape[0], left[0], right[0], out[0])
    contracted = None
    if left[2] == right[2]:
        contracted = free(scales.shape[2], left[2])  # shards have whole blocks
    wanted = [(lhs.shape[1], left[1], out[1]), (rhs.shape[1], right[1], out[2])]
    if out[2] is not None and out[2] == right[1]:  # the result is split along columns
        columns, rows = free(*wanted[1]), free(*wanted[0])
    else:
        rows, columns = free(*wanted[0]), free(*wanted[1])
    specs = [PartitionSpec(batch, d, contracted) for d in (rows, columns)]
    shardings = [NamedSharding(mesh, spec) for spec in specs]

    def on_shard(*operands):
        product = _call_p.bind(*operands, dtype=dtype)
        return product if contracted is None else psum(product, _names(contracted))

    result_sharding = NamedSharding(mesh, PartitionSpec(batch, rows, columns))
    return mesh, on_shard, result_sharding, (*shardings, *shardings)


def _entries(x: Any) -> tuple[Any, Any, Any]:
    spec = getattr(x.sharding, "spec", ())
    return (*spec, None, None, None)[:3]


def _names(entry: Any) -> tuple[str, ...]:
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


@functools.partial(custom_partitioning, static_argnums=(0,))
def _partitioned(dtype, lhs, rhs, lhs_scales, rhs_scales):
    return _call_p.bind(lhs, rhs, lhs_scales, rhs_scales, dtype=dtype)


def _sharding_rule(dtype: np.dtype, mesh: Any, operand_types: Any, _: Any) -> Any:
    """Shards of the contracted dimension have whole blocks, of c elements with a scale."""
    lhs, _, scales, _ = [ir.RankedTensorType(t).shape for t in operand_types]
    size = lhs[2] // scales[2]
    if size == 1:
        return str_to_sdy_sharding_rule("b m s, b n s, b m s, b n s -> b m n")
    return str_to_sdy_sharding_rule(
        "b m (s c), b n (s c), b m s, b n s -> b m n",
        reduction_factors=("s",),
        need_replication_factors=("c",),
        c=size,
    )


_partitioned.def_partition(
    _partition, lambda *args: _partition(*args)[2], sharding_rule=_sharding_rule
)


# ---------------------------------------------------------------------------------------------------
# Lowering


def _by_custom_call(*operands, dtype):
    """Folds the batch dimensions into the one that the call has."""
    batch = operands[0].shape[:-2]
    size = math.prod(batch)
    folded = [lax.reshape(x, (size, *x.shape[-2:])) for x in operands]
    out = _partitioned(dtype, *folded)
    return lax.reshape(out, (*batch, *out.shape[1:]))


def _by_composite(lhs, rhs, lhs_scales, rhs_scales, *, dtype):
    return scaled_dot(
        lhs,
        rhs,
        lhs_scale=lhs_scales,
        rhs_scale=rhs_scales,
        dimension_numbers=_dimension_numbers(lhs.ndim),
        preferred_element_type=dtype,
    )


def _of_blocks(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun` where a scale has several elements; the product by ordinary operations elsewhere."""

    def choose(lhs, rhs, lhs_scales, rhs_scales, *, dtype):
        has_blocks = lhs_scales.shape[-1] < lhs.shape[-1]
        return (fun if has_blocks else product_of_scaled)(
            lhs, rhs, lhs_scales, rhs_scales, dtype=dtype
        )

    return choose


def _lowering(fun: Callable[..., Any]) -> Callable[..., Any]:
    lower = mlir.lower_fun(fun, multiple_results=False)

    def rule(ctx, *args, dtype):
        plain = [a.update(sharding=None) for a in ctx.avals_in]
        # The compiler propagates shardings.
        with use_abstract_mesh(empty_abstract_mesh):
            (out,) = lower(ctx.replace(avals_in=plain), *args, dtype=dtype)
        return [with_sharding(ctx, out, ctx.avals_out[0])]

    return rule


def _lower_call(ctx, *operands, dtype):
    config = {
        "lhs_batch_dimensions": [0],
        "rhs_batch_dimensions": [0],
        "dequantize_type": _ELEMENT_TYPES[dtype],
    }
    return mlir.custom_call(
        "__op$block_scaled_dot",
        result_types=[mlir.aval_to_ir_type(ctx.module_context, ctx.avals_out[0])],
        operands=operands,
        backend_config=json.dumps({"scaled_dot_backend_config": config}),
        operand_layouts=[(2, 1, 0)] * 4,
        result_layouts=[(2, 1, 0)],
    ).results


block_scaled_dot_p = standard_primitive(
    "block_scaled_dot",
    shape=_shape,
    dtype=lambda *_, dtype: dtype,
    weak_type=lambda *_, **__: False,
    sharding=_sharding,
    lower={
        None: _lowering(product_of_scaled),
        "cuda": _lowering(_by_custom_call),
        "rocm": _lowering(_of_blocks(_by_composite)),
    },
    jvp=tuple([_tangent_rule(i) for i in range(4)]),
    axis_batch=_batch,
)

# The product of a shard. A program for several platforms has it in a branch for NVIDIA GPUs.
_call_p = core.Primitive("block_scaled_dot_call")
_call_p.def_abstract_eval(
    lambda lhs, rhs, *_, dtype: lhs.update(
        shape=_shape(lhs, rhs, dtype=dtype), dtype=dtype, weak_type=False
    )
)
mlir.register_lowering(_call_p, mlir.lower_fun(product_of_scaled, multiple_results=False))
mlir.register_lowering(_call_p, _lower_call, platform="cuda")
