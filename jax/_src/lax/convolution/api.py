"""Public convolution functions."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.errors import InconclusiveDimensionOperation
from jax._src.lax import lax
from jax._src.lax.convolution.primitive import conv_general_dilated_p
from jax._src.lax.convolution.shapes import (
    ConvDimensionNumbers,
    check_window,
    conv_dimension_numbers,
    integers,
    pairs,
    transpose_padding,
    unknown_padding,
)
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.typing import DTypeLike

ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding=None,
) -> Array:
    """Convolve over `n` spatial dimensions, with strides, padding, dilation and groups.

    The kernel is not flipped (this is a cross-correlation).

    Args:
      lhs: input, of rank `n + 2`.
      rhs: kernel, of rank `n + 2` and the same dtype.
      window_strides: `n` positive integers.
      padding: `"VALID"`, `"SAME"` or `"SAME_LOWER"`, or `n` pairs (low, high); negative padding
        crops. "SAME" makes the result's size that of the input divided by the strides, rounded up.
        If the total padding is odd, "SAME" adds the larger part after, "SAME_LOWER" before.
      lhs_dilation: `n` positive integers `d`: `d - 1` zeros are inserted between input elements.
      rhs_dilation: the same for the kernel (atrous convolution).
      dimension_numbers: None for `("NCHW", "OIHW", "NCHW")` with any number of spatial dimensions,
        three such strings, or a `ConvDimensionNumbers`.
      feature_group_count: number of groups that input features are split into. Each group computes
        its own part of the output features. With one feature per group it is a depthwise
        convolution.
      batch_group_count: number of groups that the batch is split into. Each group computes its own
        part of the output features.
      precision, preferred_element_type, out_sharding: see `dot_general`.

    Returns:
      An array of rank `n + 2`.

    Raises:
      TypeError, ValueError: if shapes, dtypes or parameters are inconsistent.

    >>> x, k = jnp.ones((1, 1, 4)), jnp.ones((1, 1, 3))
    >>> lax.conv_general_dilated(x, k, (1,), "SAME").tolist()
    [[[2.0, 3.0, 3.0, 2.0]]]
    """
    lhs_shape, rhs_shape = np.shape(lhs), np.shape(rhs)
    dnums = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    n = len(lhs_shape) - 2
    strides = integers("window_strides", window_strides)
    lhs_dilation = (1,) * n if lhs_dilation is None else integers("lhs_dilation", lhs_dilation)
    rhs_dilation = (1,) * n if rhs_dilation is None else integers("rhs_dilation", rhs_dilation)
    if isinstance(padding, str):
        if any(d != 1 for d in lhs_dilation):
            raise ValueError(
                "String padding is not implemented for transposed convolution using this op. Please either "
                "exactly specify the required padding or use conv_transpose."
            )
        check_window("conv_general_dilated", n, strides, lhs_dilation, rhs_dilation)
        spatial = [lhs_shape[d] for d in dnums.lhs_spec[2:]]
        window = [
            core.dilate_dim(rhs_shape[d], k) for d, k in zip(dnums.rhs_spec[2:], rhs_dilation)
        ]
        padding = lax.padtype_to_pads(spatial, window, strides, padding)
    else:
        padding = pairs(padding)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_and_canonicalize_user_dtype(
            preferred_element_type, "conv_general_dilated"
        )
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=tuple(padding),
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=dnums,
        feature_group_count=_group_count(feature_group_count, "feature_group_count"),
        batch_group_count=_group_count(batch_group_count, "batch_group_count"),
        precision=lax.canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
        out_sharding=canonicalize_sharding(out_sharding, "conv_general_dilated"),
    )


def conv(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolve arrays with dimensions in the order batch, features, space.

    Args:
      lhs: input, of rank `n + 2`.
      rhs: kernel, of rank `n + 2`.
      window_strides, padding, precision, preferred_element_type: see `conv_general_dilated`.

    Returns:
      An array of rank `n + 2`.

    >>> lax.conv(jnp.ones((1, 1, 4, 4)), jnp.ones((2, 1, 3, 3)), (1, 1), "VALID").shape
    (1, 2, 2, 2)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolve arrays with dimensions in the order batch, features, space, with dilation.

    Args:
      lhs: input, of rank `n + 2`.
      rhs: kernel, of rank `n + 2`.
      window_strides, padding, lhs_dilation, rhs_dilation, precision, preferred_element_type: see
        `conv_general_dilated`.

    Returns:
      An array of rank `n + 2`.

    >>> x, k = jnp.ones((1, 1, 4)), jnp.ones((1, 1, 2))
    >>> lax.conv_with_general_padding(x, k, (1,), [(0, 0)], None, (2,)).shape
    (1, 1, 2)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_transpose(
    lhs: Array,
    rhs: Array,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Transposed convolution ("deconvolution"), which upsamples by the strides.

    Args:
      lhs: input, of rank `n + 2`.
      rhs: kernel, of rank `n + 2`.
      strides: `n` positive integers.
      padding: "SAME" makes the result's size that of the input times the strides; "VALID" makes it
        the input size for which a "VALID" convolution returns the size of `lhs`; or `n` pairs
        (low, high).
      rhs_dilation: `n` positive integers.
      dimension_numbers: see `conv_general_dilated`; None means channels last, `("NHWC", "HWIO",
        "NHWC")`.
      transpose_kernel: whether to flip the kernel's spatial dimensions and to swap its feature
        dimensions, so that the result is the gradient of `conv_general_dilated` with that kernel.
      precision, preferred_element_type: see `dot_general`.
      use_consistent_padding: whether explicit `padding` is that of the convolution being
        transposed, instead of that of the dilated convolution that computes the result.

    Returns:
      An array of rank `n + 2`.

    >>> lax.conv_transpose(jnp.ones((1, 4, 2)), jnp.ones((3, 2, 5)), (2,), "SAME").shape
    (1, 8, 5)
    """
    ndim = np.ndim(lhs)
    if ndim < 2:
        raise ValueError(f"conv_transpose takes arrays of at least two dimensions, got {ndim}")
    n = ndim - 2
    if dimension_numbers is None:
        if n == 0:
            dnums = ConvDimensionNumbers((0, 1), (1, 0), (0, 1))
        else:
            space = tuple(range(1, n + 1))
            out_spec = (0, n + 1, *space)
            dnums = ConvDimensionNumbers(out_spec, (n + 1, n, *range(n)), out_spec)
    elif isinstance(dimension_numbers, ConvDimensionNumbers):
        dnums = dimension_numbers
    else:
        dnums = conv_dimension_numbers(np.shape(lhs), np.shape(rhs), dimension_numbers)
    strides = integers("strides", strides)
    dilation = (1,) * n if rhs_dilation is None else integers("rhs_dilation", rhs_dilation)
    sizes = [core.dilate_dim(np.shape(rhs)[d], k) for d, k in zip(dnums.rhs_spec[2:], dilation)]
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise unknown_padding(padding)
        pads = [transpose_padding(k, s, padding.upper()) for k, s in zip(sizes, strides)]
    else:
        pads = pairs(padding)
        if use_consistent_padding:
            pads = [(k - 1 - lo, k - 1 - hi) for (lo, hi), k in zip(pads, sizes)]
    if transpose_kernel:
        rhs = lax.rev(rhs, dnums.rhs_spec[2:])
        o, i, *space = dnums.rhs_spec
        dnums = dnums._replace(rhs_spec=(i, o, *space))
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * n,
        pads,
        lhs_dilation=strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=dnums,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _group_count(count: int, what: str) -> int:
    if core.is_symbolic_dim(count):
        raise InconclusiveDimensionOperation(
            f"convolution: {what}, the number of groups, must be constant, got the symbolic size {count}"
        )
    return operator.index(count)
