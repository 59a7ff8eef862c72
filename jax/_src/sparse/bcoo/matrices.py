"""Products of a matrix and a dense array: by the kernel of `jaxlib-ext` on CPU, if that is installed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.ffi import ffi_call
from jax._src.interpreters import mlir
from jax._src.lax import lax, native_calls
from jax._src.numpy.util import promote_dtypes
from jax._src.sparse import product_kernels
from jax._src.sparse.base import SparseInfo
from jax._src.sparse.util import remaining

_KERNEL = "jaxlib_ext_bcoo_product"


def is_product(data: Any, n_sparse: int, dimension_numbers: Any) -> bool:
    """Whether a product is one of a matrix, of which one dimension is contracted."""
    (contract, _), (batch, _) = dimension_numbers
    return data.ndim == 1 and n_sparse == 2 and len(contract) == 1 and not batch


def dense_cotangent(product: Callable[..., Any], ct: Any, dimension_numbers: Any) -> Any:
    """The cotangent of the dense operand of a product of a matrix.

    Args:
      product: function of a dense array and dimension numbers: the product with the matrix.
      ct: cotangent of the result.
      dimension_numbers: those of the product.
    """
    ((axis,), (rhs_axis,)), _ = dimension_numbers
    # The product with the transposed matrix, whose first dimension goes where the contracted one was.
    out = product(ct, (((1 - axis,), (0,)), ((), ())))
    order = list(range(1, out.ndim))
    order.insert(rhs_axis, 0)
    return lax.transpose(out, order)


def contracted_first(rhs: Any, axis: int) -> tuple[Any, list[int]]:
    """The dense operand with the contracted dimension in front, and the sizes of the others."""
    rest = remaining(range(rhs.ndim), [axis])
    return lax.transpose(rhs, [axis, *rest]), [rhs.shape[d] for d in rest]


def _by_kernel(
    data: Any, indices: Any, rhs: Any, *, dimension_numbers: Any, lhs_spinfo: SparseInfo, **_: Any
) -> Any:
    ((axis,), (rhs_axis,)), _ = dimension_numbers
    data, rhs = promote_dtypes(data, rhs)
    dense, sizes = contracted_first(rhs, rhs_axis)
    kept = lhs_spinfo.shape[1 - axis]
    shape = (kept,)
    if len(sizes) > 1:
        dense = lax.reshape(dense, (dense.shape[0], math.prod(sizes)))
    if sizes:
        shape += dense.shape[1:]
    call = ffi_call(_KERNEL, core.ShapedArray(shape, data.dtype))
    out = call(data, indices, dense, transpose=np.int64(axis == 0))
    return lax.reshape(out, (kept, *sizes))


def lower_cpu(definition: Callable[..., Any]) -> Callable[..., Any]:
    """A lowering rule that calls the kernel for matrices, or else lowers `definition`."""
    default = mlir.lower_fun(definition, multiple_results=False)
    by_kernel = mlir.lower_fun(_by_kernel, multiple_results=False)

    def lower(ctx: Any, *operands: Any, **params: Any) -> Any:
        return (by_kernel if _has_kernel(ctx, **params) else default)(ctx, *operands, **params)

    return lower


def _has_kernel(
    ctx: Any, *, dimension_numbers: Any, lhs_spinfo: SparseInfo, preferred_element_type: Any, **_: Any
) -> bool:  # fmt: skip
    data, indices, rhs = ctx.avals_in
    if not is_product(data, indices.shape[-1], dimension_numbers):
        return False
    dtype = dtypes.promote_types(data.dtype, rhs.dtype)
    return (
        preferred_element_type in (None, dtype)
        and product_kernels.has_type(dtype)
        and indices.dtype.name in ("int32", "int64")
        and core.is_constant_shape(lhs_spinfo.shape)
        and max(lhs_spinfo.shape) <= np.iinfo(indices.dtype).max
        and native_calls.can_call_whole(ctx, _KERNEL)
    )
