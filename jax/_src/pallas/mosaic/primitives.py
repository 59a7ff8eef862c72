"""Operations of kernels for TPUs, which also run where kernels are interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import Primitive, ShapedArray, typeof
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import lax
from jax._src.numpy.indexing.functions import take_along_axis
from jax._src.state.types import bitcast_array

traceback_util.register_exclusion(__file__)

# The operands are the array and the shift. Element i of the result along the axis is element
# i - shift - k * stride of the array, where k is the position along the other axis.
roll_p = Primitive("roll")


def roll(
    x: Any, shift: Any, axis: int, *, stride: int | None = None, stride_axis: int | None = None
) -> Any:
    """Rotate the elements of an array along an axis.

    Args:
      x: the array.
      shift: by how many places, an integer scalar that is not negative; it can be traced.
      axis: the axis, not negative.
      stride: how much further each next row is rotated.
      stride_axis: the axis along which rows are counted.

    Returns:
      An array of the shape of `x`.

    Raises:
      ValueError: if the shift or the stride is negative, or an axis is out of range.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> pltpu.roll(jnp.arange(6).reshape(2, 3), 1, 1)
    Array([[2, 0, 1],
           [5, 3, 4]], dtype=int32)
    """
    ndim = np.ndim(x)
    if isinstance(shift, (int, np.integer)):
        if shift < 0:
            raise ValueError(f"shift must be non-negative, got {shift}.")
        shift = np.int32(shift)
    aval: Any = typeof(shift)
    if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"shift must be an integer scalar, got {aval.str_short()}.")
    if not 0 <= axis < ndim:
        raise ValueError(f"axis is out of range: {axis} for an array of {ndim} dimensions.")
    if (stride is None) != (stride_axis is None):
        raise ValueError("stride and stride_axis must be both specified or not.")
    if stride is not None and stride_axis is not None:
        if stride < 0:
            raise ValueError(f"stride must be non-negative, got {stride}.")
        if not 0 <= stride_axis < ndim:
            raise ValueError(f"stride_axis is out of range: {stride_axis}.")
        if axis == stride_axis:
            raise ValueError("expected axis and stride_axis are different.")
    return roll_p.bind(x, shift, axis=axis, stride=stride, stride_axis=stride_axis)


@roll_p.def_abstract_eval
def _roll_types(x: Any, shift: Any, **_: Any) -> Any:
    return x


def _rolled(
    x: Any,
    shift: Any,
    *,
    axis: int,
    stride: int | None,
    stride_axis: int | None,
    back: bool = False,
) -> Any:
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    index = lax.reshape(lax.iota(np.int32, x.shape[axis]), shape)
    by = lax.convert_element_type(shift, np.int32)
    if stride is not None and stride_axis is not None:
        rows = [1] * x.ndim
        rows[stride_axis] = x.shape[stride_axis]
        by = lax.reshape(lax.iota(np.int32, x.shape[stride_axis]), rows) * np.int32(stride) + by
    index = index + by if back else index - by
    return take_along_axis(x, index % np.int32(max(x.shape[axis], 1)), axis)


def _roll_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (x, shift), (t, _) = primals, tangents
    return roll_p.bind(x, shift, **params), roll_p.bind(ad.instantiate_zeros(t), shift, **params)


def _roll_transpose(ct: Any, x: Any, shift: Any, **params: Any) -> Any:
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval), None]
    return [_rolled(ct, shift, back=True, **params), None]


def _roll_batch(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
    run = lambda x, shift: [_rolled(x, shift, **params)]
    if dims[1] is not None:
        return batching.batch(run, axis_data, dims, [0])(*args)[0], 0
    x = batching.moveaxis(args[0], dims[0], 0)
    moved = {k: v if v is None else v + 1 for k, v in params.items() if k != "stride"}
    return roll_p.bind(x, args[1], stride=params["stride"], **moved), 0


mlir.register_lowering(roll_p, mlir.lower_fun(_rolled, multiple_results=False))
roll_p.jvp = _roll_jvp
roll_p.transpose = _roll_transpose
roll_p.axis_batch = _roll_batch


bitcast_p = Primitive("bitcast")


def bitcast(x: Any, ty: Any) -> Any:
    """Reinterpret the bits of an array as another dtype; another width changes the number of rows.

    Args:
      x: array of at least two dimensions.
      ty: the dtype. Neighbours along the second last dimension become one element of a wider type.

    Returns:
      An array whose second last dimension has as many bits as that of `x`.

    Raises:
      ValueError: if there is no such array.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> pltpu.bitcast(jnp.ones((2, 4), jnp.float32), jnp.int16).shape
    (4, 4)
    """
    aval: Any = typeof(x)
    ty = dtypes.check_and_canonicalize_user_dtype(ty, "bitcast")
    if len(aval.shape) < 2:
        raise ValueError(f"Not implemented: bitcast 1D, of type {aval.str_short()}.")
    rows = aval.shape[-2] * dtypes.itemsize_bits(aval.dtype)
    if rows % dtypes.itemsize_bits(ty):
        raise ValueError(
            "Not implemented: the 2nd minor dim can not be perfectly packed or unpacked: "
            f"{aval.str_short()} as {dtypes.dtype_name(ty)}."
        )
    return bitcast_p.bind(x, ty=ty)


@bitcast_p.def_abstract_eval
def _bitcast_types(x: Any, *, ty: Any) -> Any:
    rows = x.shape[-2] * dtypes.itemsize_bits(x.dtype) // dtypes.itemsize_bits(ty)
    return ShapedArray((*x.shape[:-2], rows, x.shape[-1]), ty)


def _bitcast_batch(args: Any, dims: Any, *, ty: Any) -> Any:
    return bitcast_p.bind(batching.moveaxis(args[0], dims[0], 0), ty=ty), 0


mlir.register_lowering(
    bitcast_p, mlir.lower_fun(lambda x, *, ty: bitcast_array(x, ty), multiple_results=False)
)
ad.defjvp_zero(bitcast_p)
bitcast_p.batch = _bitcast_batch
