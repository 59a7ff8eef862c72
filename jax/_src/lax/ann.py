"""Approximate top-k, which is fast on TPUs: https://arxiv.org/abs/2206.14286."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.lax import rules
from jax._src.lax.lax import monoids, sharding as shardings
from jax._src.lax.rules import standard_primitive
from jax._src.lax.slicing import gathers
from jax._src.lib import _jax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func, hlo
from jax._src.util import canonicalize_axis


def approx_max_k(
    operand: Array,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """Find approximately the `k` largest elements along a dimension, and their indices.

    Args:
      operand: floating-point array.
      k: number of elements to find.
      reduction_dimension: dimension to search along.
      recall_target: expected fraction of the true top `k` among those found.
      reduction_input_size_override: if positive, the total number of elements to assume for the
        recall; use it if `operand` is a part of a larger array.
      aggregate_to_topk: whether to reduce the candidates to `k`, in descending order. If false,
        there are `k` or more unsorted candidates, depending on the device.

    Returns:
      A list of values and int32 indices. The result is exact on devices other than TPUs.

    Raises:
      ValueError: if the operand is not floating-point, or `k` is out of range.

    >>> values, indices = lax.approx_max_k(jnp.array([1., 5., 3.]), 2)
    >>> values.tolist(), indices.tolist()
    ([5.0, 3.0], [1, 2])
    """
    return _approx_top_k(
        operand,
        k,
        reduction_dimension,
        recall_target,
        True,
        reduction_input_size_override,
        aggregate_to_topk,
    )


def approx_min_k(
    operand: Array,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """Find approximately the `k` smallest elements along a dimension; see `approx_max_k`.

    >>> values, indices = lax.approx_min_k(jnp.array([1., 5., 3.]), 2)
    >>> values.tolist(), indices.tolist()
    ([1.0, 3.0], [0, 2])
    """
    return _approx_top_k(
        operand,
        k,
        reduction_dimension,
        recall_target,
        False,
        reduction_input_size_override,
        aggregate_to_topk,
    )


def _approx_top_k(operand, k, dimension, recall_target, is_max_k, size_override, aggregate):
    return approx_top_k_p.bind(
        operand,
        k=core.canonicalize_dim(k),
        reduction_dimension=canonicalize_axis(dimension, np.ndim(operand)),
        recall_target=float(recall_target),
        is_max_k=is_max_k,
        reduction_input_size_override=operator.index(size_override),
        aggregate_to_topk=bool(aggregate),
    )


def _shape(x, *, k, reduction_dimension, recall_target, reduction_input_size_override,
           aggregate_to_topk, **_):  # fmt: skip
    if k <= 0:
        raise ValueError(f"k must be positive, got {k}")
    if not 0 < recall_target <= 1:
        raise ValueError(f"recall_target must be above 0 and at most 1, got {recall_target}")
    if not dtypes.issubdtype(x.dtype, np.floating):
        raise ValueError(f"operand must be a floating type, got {rules.dtype_name(x.dtype)}")
    shape = list(x.shape)
    size = shape[reduction_dimension]
    if size < k:
        raise ValueError(f"k must be smaller than the size of reduction_dim {size}, got {k}")
    shape[reduction_dimension] = k
    if not aggregate_to_topk:
        if not core.is_constant_shape((size, k)):
            raise NotImplementedError(
                f"approx_max_k and approx_min_k with aggregate_to_topk=False need a constant size and k, got {size} and {k}"
            )
        shape[reduction_dimension], _ = _jax.approx_top_k_reduction_output_size(
            size, len(shape), k, recall_target, aggregate_to_topk, reduction_input_size_override
        )
    return [tuple(shape)] * 2


def _jvp(primals, tangents, *, reduction_dimension, **params):
    (x,), (t,) = primals, tangents
    values, indices = approx_top_k_p.bind(x, reduction_dimension=reduction_dimension, **params)
    if type(t) is Zero:
        t_out = Zero.from_primal_value(values)
    else:
        t_out = gathers.take_along(t, indices, reduction_dimension)
    return [values, indices], [t_out, Zero.from_primal_value(indices)]


def _batch(args, bdims, *, reduction_dimension, **params):
    (x,), (bdim,) = args, bdims
    dim = reduction_dimension + (reduction_dimension >= bdim)
    return approx_top_k_p.bind(x, reduction_dimension=dim, **params), [bdim, bdim]


def _sharding(x, *, reduction_dimension, **_):
    what = "approx_top_k: the input should be unsharded over the reduction dimension."
    return [shardings.unsharded_over(x, (reduction_dimension,), what)] * 2


def _comparator(ctx, dtype, is_max_k) -> Any:
    """Add a function to the module that compares (value, index) pairs by value."""
    scalar = ir.RankedTensorType.get([], mlir.dtype_to_ir_type(dtype))
    index = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    bool_type = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    direction = "GT" if is_max_k else "LT"
    comparator = func.FuncOp(
        f"top_k_{direction.lower()}_{scalar.element_type}_comparator",
        ir.FunctionType.get([scalar, scalar, index, index], [bool_type]),
        ip=ctx.module_context.ip,
    )
    ctx.module_context.symbol_table.insert(comparator)
    block = comparator.add_entry_block()
    with ir.InsertionPoint(block):
        x, y, *_ = block.arguments
        hlo.return_([mlir.compare_hlo(x, y, direction)])
    return comparator


def _lower(ctx, x, *, k, reduction_dimension, recall_target, is_max_k,
           reduction_input_size_override, aggregate_to_topk, fallback):  # fmt: skip
    (aval,) = ctx.avals_in
    identity = monoids.max_identity if is_max_k else monoids.min_identity
    indices = mlir.iota(
        ctx, core.ShapedArray(aval.shape, np.dtype(np.int32)), dimension=reduction_dimension
    )
    i64, f32 = ir.IntegerType.get_signless(64), ir.F32Type.get()
    config = {
        "reduction_dim": ir.IntegerAttr.get(i64, reduction_dimension),
        "recall_target": ir.FloatAttr.get(f32, recall_target),
        "aggregate_to_topk": ir.BoolAttr.get(aggregate_to_topk),
        "reduction_input_size_override": ir.IntegerAttr.get(i64, reduction_input_size_override),
    }
    if fallback:
        config["is_fallback"] = ir.BoolAttr.get(True)
    operands = [
        x,
        indices,
        monoids.constant(identity(aval.dtype)),
        monoids.constant(np.array(-1, np.int32)),
    ]
    if core.is_constant_dim(k):
        target = "ApproxTopK"
        config["top_k"] = ir.IntegerAttr.get(i64, k)
    else:  # a call that the compiler turns into the other, when it refines shapes
        target = "stablehlo.dynamic_approx_top_k"
        operands += mlir.eval_dynamic_shape_as_vals(ctx, (k,))
    comparator = _comparator(ctx, aval.dtype, is_max_k)
    shapes = None
    if not core.is_constant_shape(ctx.avals_out[0].shape):
        shapes = [mlir.eval_dynamic_shape_as_tensor(ctx, a.shape) for a in ctx.avals_out]
    op = mlir.custom_call(
        target,
        result_types=[mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out],
        operands=operands,
        called_computations=[comparator.name.value],
        api_version=1,
        result_shapes=shapes,
        extra_attributes={"mhlo.backend_config": ir.DictAttr.get(config)},
    )
    return [rules.with_sharding(ctx, r, a) for r, a in zip(op.results, ctx.avals_out)]


approx_top_k_p = standard_primitive(
    "approx_top_k",
    shape=_shape,
    dtype=lambda x, **_: [x.dtype, np.dtype(np.int32)],
    weak_type=lambda x, **_: [x.weak_type, False],
    sharding=_sharding,
    lower={None: partial(_lower, fallback=True), "tpu": partial(_lower, fallback=False)},
    multiple_results=True,
    jvp=_jvp,
    batch=_batch,
)
