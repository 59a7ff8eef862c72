"""Matrix products of block-scaled narrow floating point numbers (the MX formats and NVFP4).

Blocks of consecutive elements along the contracted dimension share a scale.
"""

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np

from jax._src import dtypes
from jax._src.custom_derivatives import custom_vjp
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.nn.block_scaled_dot import block_scaled_dot_p
from jax._src.numpy.util import check_arraylike, to_array
from jax._src.typing import Array, ArrayLike
from jax._src.util import set_module

export = set_module("jax.nn")
_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


@dataclasses.dataclass(slots=True)
class BlockScaleConfig:
    """Describes how to quantize an operand.

    Attributes:
      mode: 'mxfp8' or 'nvfp4'.
      block_size: number of consecutive elements that share a scale.
      data_type: dtype of the quantized elements.
      scale_type: dtype of the scales.
      global_scale: scale of all elements, for nvfp4.
      infer_only: whether gradients are not needed.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any = None
    infer_only: bool = False


@export
def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """Returns the standard configuration of a format, for `scaled_dot_general`.

    Args:
      mode: 'mxfp8' for blocks of 32 float8_e4m3fn elements with power-of-two scales; 'nvfp4' for
        blocks of 16 float4_e2m1fn elements with float8_e4m3fn scales.
      global_scale: float32 array of one element, for 'nvfp4'; by default 1.

    Raises:
      ValueError: if `mode` is unknown.
    """
    if mode == "nvfp4":
        if global_scale is None:
            global_scale = lax.full((1,), 1.0, np.float32)
        return BlockScaleConfig(
            mode, 16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, global_scale
        )
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu)
    raise ValueError(f"Unsupported mode: {mode}")


@export
def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: Any = np.float32,
) -> Array:
    """Batched matrix product of block-scaled numbers: (scaled lhs) @ (scaled rhs).T.

    Args:
      lhs: array of shape (B, M, K).
      rhs: array of shape (B, N, K).
      lhs_scales: array of shape (B, M, K / block).
      rhs_scales: array of shape (B, N, K / block).
      preferred_element_type: dtype of the result: float32, bfloat16 or float16.

    Returns:
      Array of shape (B, M, N).

    Raises:
      ValueError: if the shapes are incompatible.
      TypeError: if `preferred_element_type` is not supported.
    """
    check_arraylike("scaled_matmul", lhs, rhs, lhs_scales, rhs_scales)
    arrays = [to_array(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    a, b, a_scales, b_scales = (x.shape for x in arrays)
    if not all(len(s) == 3 for s in (a, b, a_scales, b_scales)):
        raise ValueError("scaled_matmul requires all inputs to be 3-dimensional arrays")
    if a[0] != b[0] or a[2] != b[2]:
        raise ValueError(
            "scaled_matmul requires inputs a and b to have matching batch (B) and contract (K) "
            f"dimensions, but got shapes {a} and {b}"
        )
    if a_scales[:2] != a[:2] or b_scales[:2] != b[:2]:
        raise ValueError(
            "scaled_matmul requires scales to match non-contract dimensions of inputs, but got shapes "
            f"a: {a}, b: {b}, a_scales: {a_scales}, b_scales: {b_scales}"
        )
    if a_scales[2] != b_scales[2]:
        raise ValueError(
            "scaled_matmul requires scales to have matching batch (B) and contract (K) dimensions, but "
            f"got shapes {a_scales} and {b_scales}"
        )
    if not a_scales[2] or a[2] % a_scales[2]:
        raise ValueError(
            f"scaled_matmul requires the contract dimension {a[2]} to be a multiple of the number of "
            f"scales along it, {a_scales[2]}"
        )
    return _scaled_matmul(*arrays, dtype=_result_dtype(preferred_element_type))


def _result_dtype(dtype: Any) -> np.dtype:
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "preferred_element_type")
    if dtype not in (np.float32, ml_dtypes.bfloat16, np.float16):
        raise TypeError(
            "Only support preferred_element_type in (f32, bf16, f16), but got "
            f"{dtypes.dtype_name(dtype)}"
        )
    return dtype


def _scaled_matmul_impl(lhs, rhs, lhs_scales, rhs_scales, *, dtype):
    return block_scaled_dot_p.bind(lhs, rhs, lhs_scales, rhs_scales, dtype=dtype)


_scaled_matmul_impl.__name__ = "_scaled_matmul"
_scaled_matmul = nested_jit(_scaled_matmul_impl, static_argnames=("dtype",))


def quantize(x: Any, config: BlockScaleConfig) -> tuple[Any, Any]:
    """Quantizes `x`, of shape (..., K), to narrow elements and the scales of their blocks.

    Raises:
      ValueError: if K is not a multiple of the block size.
    """
    size = config.block_size
    if not x.shape[-1] or x.shape[-1] % size:
        raise ValueError(
            f"{config.mode} needs contracted dimensions that are multiples of the block size {size}, "
            f"got an operand of shape {x.shape}"
        )
    blocks = lax.reshape(x, (*x.shape[:-1], x.shape[-1] // size, size))
    if config.mode == "nvfp4":
        scale = to_array(config.global_scale)
        blocks = lax.convert_element_type(blocks, dtypes.promote_types(blocks.dtype, scale.dtype))
        blocks = blocks / _like(scale, blocks)
    largest = abs(blocks).max(-1, keepdims=True)
    bound = dtypes.finfo(config.data_type).max.astype(np.float32).astype(blocks.dtype)
    scales = largest / bound
    if np.dtype(config.scale_type) == _E8M0:
        scales, wide = _power_of_two_above(scales)
    else:
        top = dtypes.finfo(config.scale_type).max.astype(np.float32)
        scales = scales.clip(0, top).astype(config.scale_type)
        # A block of tiny elements has scale zero; the compiler must not optimize that rounding
        # away.
        scales = lax.optimization_barrier(scales)
        wide = scales.astype(np.float32)
    blocks = blocks / wide.astype(blocks.dtype)
    narrow = lax.clamp(-bound, blocks, bound).astype(config.data_type)
    return lax.reshape(narrow, x.shape), lax.squeeze(scales, (scales.ndim - 1,))


def _like(scale, x):
    return lax.broadcast_to(lax.convert_element_type(to_array(scale).reshape(()), x.dtype), x.shape)


def _power_of_two_above(x):
    """Returns the least power of two not below `x`, as float8_e8m0fnu and as float32.

    The latter is one for zero: by 2 ** -127, which is zero in float16 and where subnormal numbers
    are flushed to zero, a block of zeros must not be divided.
    """
    bits = lax.bitcast_convert_type(x.astype(np.float32), np.uint32)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    # The smallest float8_e8m0fnu is 2 ** -127, half of float32's smallest normal number.
    fits = (exponent == 0) & (mantissa <= 0x400000)
    exponent = exponent + ((mantissa > 0) & (exponent != 254) & ~fits).astype(np.uint32)
    exponent = exponent.astype(np.uint8)
    wide = lax.bitcast_convert_type(exponent.astype(np.uint32) << 23, np.float32)
    wide = lax.select(wide == 0.0, lax.full_like(wide, 2.0**-127), wide)
    wide = lax.select(x == 0.0, lax.full_like(wide, 1.0), wide)
    return lax.bitcast_convert_type(exponent, ml_dtypes.float8_e8m0fnu), wide


@export
def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: list[BlockScaleConfig] | None = None,
    implementation: str | None = None,
) -> Array:
    """Computes `lax.dot_general` with operands quantized to block-scaled narrow numbers.

    Args:
      lhs, rhs: arrays.
      dimension_numbers: as for `lax.dot_general`.
      preferred_element_type: dtype of the result: float32, bfloat16 or float16.
      configs: configurations for lhs, rhs and the cotangent; None to quantize nothing.
      implementation: deprecated and ignored, as in the original: the kernels depend on the device.

    Returns:
      The result of `lax.dot_general`. It is differentiable: with mxfp8 the products of the backward
      pass are quantized as well; with nvfp4 they are not, and out-of-range elements have zero
      gradient.

    Raises:
      ValueError: if a contracted size is not a multiple of the block size.
      TypeError: if `preferred_element_type` is not supported.
    """
    check_arraylike("scaled_dot_general", lhs, rhs)
    lhs, rhs = to_array(lhs), to_array(rhs)
    dtype = _result_dtype(preferred_element_type)
    if configs is None:
        return lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=dtype)
    if not isinstance(configs, (list, tuple)) or len(configs) != 3:
        raise ValueError(
            f"scaled_dot_general: configs must be three configurations (lhs, rhs, cotangents), got {configs!r}"
        )
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    a, a_free = _as_matrices(lhs, lhs_contract, lhs_batch)
    b, b_free = _as_matrices(rhs, rhs_contract, rhs_batch)
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[2]:
        # dot_general raises the error that names the dimensions.
        return lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=dtype)
    out = _scaled_dot(a, b, configs, dtype)
    return lax.reshape(out, (*[lhs.shape[d] for d in lhs_batch], *a_free, *b_free))


def _as_matrices(x, contract, batch):
    """Reshapes `x` to (batch, free, contracted); also returns the sizes of the free dimensions."""
    free = [d for d in range(x.ndim) if d not in contract and d not in batch]
    shape = [int(np.prod([x.shape[d] for d in dims])) for dims in (batch, free, contract)]
    matrices = lax.reshape(lax.transpose(x, (*batch, *free, *contract)), shape)
    return matrices, [x.shape[d] for d in free]


def _scaled_dot(a, b, configs, dtype):
    a_config, b_config, ct_config = configs

    def product(x, x_config, y, y_config):
        operands = _interleave(quantize(x, x_config), quantize(y, y_config))
        if x_config.mode != "nvfp4":
            return scaled_matmul(*operands, dtype)
        out = scaled_matmul(*operands, np.float32)
        scale = to_array(x_config.global_scale) * to_array(y_config.global_scale)
        return lax.convert_element_type(out * _like(scale, out), dtype)

    @custom_vjp
    def scaled_dot_general_fn(a, b):
        return product(a, a_config, b, b_config)

    def forward(a, b):
        return scaled_dot_general_fn(a, b), (a, b)

    def backward(residuals, ct):
        a, b = residuals
        # With nvfp4 the gradient is a straight-through estimate: it is not quantized.
        if ct_config.mode == "nvfp4":
            dims = (((2,), (1,)), ((0,), (0,)))
            ct_a = lax.dot_general(ct, b.astype(ct.dtype), dims, preferred_element_type=dtype)
            ct_b = lax.dot_general(ct.mT, a.astype(ct.dtype), dims, preferred_element_type=dtype)
            ct_a, ct_b = _in_range(ct_a, a, a_config), _in_range(ct_b, b, b_config)
        else:
            ct_a = product(ct, ct_config, b.mT, b_config)
            ct_b = product(ct.mT, ct_config, a.mT, a_config)
        return ct_a.astype(a.dtype), ct_b.astype(b.dtype)

    scaled_dot_general_fn.defvjp(forward, backward)
    return scaled_dot_general_fn(a, b)


def _interleave(x, y):
    return x[0], y[0], x[1], y[1]


def _in_range(ct, x, config):
    limit = to_array(config.global_scale)
    for t in (config.data_type, config.scale_type):
        limit = limit * float(dtypes.finfo(t).max.astype(np.float32))
    size = lax.convert_element_type(abs(x), dtypes.promote_types(x.dtype, limit.dtype))
    return lax.select(size <= _like(limit, size), ct, lax.full_like(ct, 0))
