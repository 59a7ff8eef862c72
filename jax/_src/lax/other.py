"""Operations built on convolutions: patch extraction and unshared convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jax._src import core
from jax._src.basearray import Array
from jax._src.lax import convolution, lax
from jax._src.typing import ArrayLike, DTypeLike


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: convolution.ConvGeneralDilatedDimensionNumbers | None = None,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Extract the patches that a convolution's kernel is applied to, as features of the result.

    Args:
      lhs: input, of rank `n + 2`.
      filter_shape: spatial shape of the kernel, `n` sizes.
      window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision,
        preferred_element_type: see `conv_general_dilated`.

    Returns:
      An array of rank `n + 2` with `C * prod(filter_shape)` features for `C` input channels. Among
      the features the channel varies slowest, followed by the spatial dimensions of the patch.

    >>> x = jnp.arange(4.).reshape(1, 1, 4)
    >>> lax.conv_general_dilated_patches(x, (2,), (1,), "VALID").tolist()
    [[[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]]
    """
    shape = np.shape(lhs)
    dtype = core.typeof(lhs).dtype
    filter_shape = core.canonicalize_shape(filter_shape)
    dnums = convolution.conv_dimension_numbers(shape, (1, 1, *filter_shape), dimension_numbers)
    lhs_spec, rhs_spec, _ = dnums
    size, channels = math.prod(filter_shape), shape[lhs_spec[1]]
    eye = lax.broadcast_in_dim(lax.eye(dtype, (size, size)), (channels, size, size), (1, 2))
    kernel = lax.reshape(eye, (channels * size, 1, *filter_shape))
    order = [rhs_spec.index(d) for d in range(len(rhs_spec))]
    if order != sorted(order):
        kernel = lax.transpose(kernel, order)
    return convolution.conv_general_dilated(
        lhs,
        kernel,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=dnums,
        feature_group_count=channels,
        precision=precision if precision is None else _exact_kernel(precision),
        preferred_element_type=preferred_element_type,
    )


def _exact_kernel(precision):
    """Use the lowest precision for the kernel, which has only zeros and ones."""
    if isinstance(precision, lax.Precision):
        return (precision, lax.Precision.DEFAULT)
    return precision


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: convolution.ConvGeneralDilatedDimensionNumbers | None = None,
    precision: lax.PrecisionLike = None,
) -> Array:
    """Convolve with a different kernel at each position (an unshared convolution).

    Args:
      lhs: input, of rank `n + 2`.
      rhs: kernels, of rank `n + 2`. Its dimensions are output features, `C * prod(filter_shape)`
        input features in the order of `conv_general_dilated_patches`, and the result's spatial
        dimensions.
      window_strides, padding, filter_shape, lhs_dilation, rhs_dilation, dimension_numbers: see
        `conv_general_dilated_patches`.
      precision: see `dot_general`.

    Returns:
      An array of rank `n + 2`.

    >>> x, k = jnp.arange(4.).reshape(1, 1, 4), jnp.ones((1, 2, 3))
    >>> lax.conv_general_dilated_local(x, k, (1,), "VALID", (2,)).tolist()
    [[[1.0, 3.0, 5.0]]]
    """
    pair = lax.canonicalize_precision(precision)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=dimension_numbers,
        precision=pair[0] if type(pair) is tuple else pair,
    )
    shape = np.shape(lhs)
    dnums = convolution.conv_dimension_numbers(shape, (1, 1, *filter_shape), dimension_numbers)
    _, rhs_spec, out_spec = dnums
    # The patches have the result's layout, so its spatial dimensions are the batch dimensions here.
    out = lax.dot_general(
        patches,
        rhs,
        (((out_spec[1],), (rhs_spec[1],)), (out_spec[2:], rhs_spec[2:])),
        precision=pair,
    )
    n = len(filter_shape)
    at = [n, n + 1, *range(n)]  # positions of batch, features, and spatial dimensions in `out`
    return lax.transpose(out, [at[out_spec.index(d)] for d in range(n + 2)])
