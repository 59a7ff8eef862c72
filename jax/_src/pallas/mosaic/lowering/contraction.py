"""Rules of Mosaic's lowering: products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import ShapedArray
from jax._src.lax import lax
from jax._src.lib.mlir import ir
from jax._src.lib.mosaic import tpu
from jax._src.pallas.element_types import is_float
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic.lowering.arithmetic import converted
from jax._src.pallas.mosaic.lowering.kernel import reshaped, rule


@rule(lax.dot_general_p)
def _dot_general(
    ctx: RuleContext, x: Any, y: Any, *, dimension_numbers: Any, precision: Any,
    preferred_element_type: Any, **_: Any,
) -> Any:  # fmt: skip
    (x_aval, y_aval), (out,), kernel = ctx.avals_in, ctx.avals_out, ctx.kernel
    (x_contracted, y_contracted), (x_batch, y_batch) = dimension_numbers
    x_free = _others(x_aval, x_contracted, x_batch)
    y_free = _others(y_aval, y_contracted, y_batch)
    # The unit for products has matrices: a vector is one of a row, or of a column.
    x, x_aval, x_free = _with_free(kernel, x, x_aval, x_free)
    y, y_aval, y_free = _with_free(kernel, y, y_aval, y_free)
    batch = [x_aval.shape[i] for i in x_batch]
    shape = (*batch, *[x_aval.shape[i] for i in x_free], *[y_aval.shape[i] for i in y_free])
    # It adds up in 32 bits.
    total = np.dtype(np.float32 if is_float(out.dtype) else np.int32)
    order = [v for i in x_batch for v in (0, i)]
    order += [v for i in x_free for v in (0, i)] + [v for i in y_free for v in (1, i)]
    lists = (x_contracted, y_contracted, x_free, y_free, order, x_batch, y_batch)
    numbers = ", ".join(["[" + ", ".join(map(str, dims)) + "]" for dims in lists])
    product = tpu.matmul(
        kernel.vector_type(shape, total), x, y, kernel.splat(0, shape, total), False,
        precision=_precision(ctx, precision, x_aval, y_aval),
        dimension_numbers=ir.Attribute.parse(f"#tpu.dot_dimension_numbers<{numbers}>"),
    )  # fmt: skip
    product = reshaped(kernel, product, shape, out.shape, total)
    return converted(kernel, product, ShapedArray(out.shape, total), out.dtype)


def _others(aval: Any, contracted: Sequence[int], batch: Sequence[int]) -> list[int]:
    return [i for i in range(len(aval.shape)) if i not in contracted and i not in batch]


def _with_free(kernel: Any, x: Any, aval: Any, free: list[int]) -> Any:
    if free:
        return x, aval, free
    shape = (*aval.shape, 1)
    wide = reshaped(kernel, x, aval.shape, shape, aval.dtype)
    return wide, ShapedArray(shape, aval.dtype), [len(aval.shape)]


_BF16, _FP32 = "bf16", "fp32"
_ALGORITHMS = {
    lax.DotAlgorithmPreset.DEFAULT: None,
    lax.DotAlgorithmPreset.BF16_BF16_F32: _BF16,
    lax.DotAlgorithmPreset.F32_F32_F32: _FP32,
}


def _precision(ctx: RuleContext, precision: Any, x_aval: Any, y_aval: Any) -> Any:
    if isinstance(precision, lax.DotAlgorithmPreset):
        if precision not in _ALGORITHMS:
            raise NotImplementedError(
                f"Kernels for TPUs have no products by the algorithm {precision}: use one of {[str(a) for a in _ALGORITHMS]}."
            )
        name = _ALGORITHMS[precision]
    else:
        asked = set(precision) if isinstance(precision, (tuple, list)) else {precision}
        if lax.Precision.HIGH in asked:
            raise NotImplementedError(
                f"Kernels for TPUs have no products of precision HIGH, here of {x_aval.str_short()} and {y_aval.str_short()}: "
                "use DEFAULT or HIGHEST."
            )
        wide = all([dtypes.itemsize_bits(a.dtype) == 32 for a in (x_aval, y_aval)])
        name = _FP32 if lax.Precision.HIGHEST in asked and wide else None
    return None if name is None else ir.Attribute.parse(f"#tpu.contract_precision<{name}>")
