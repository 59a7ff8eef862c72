"""Convolutions."""

from jax._src.lax.convolution.api import (
    ConvGeneralDilatedDimensionNumbers,
    conv,
    conv_general_dilated,
    conv_transpose,
    conv_with_general_padding,
)
from jax._src.lax.convolution.primitive import conv_general_dilated_p
from jax._src.lax.convolution.shapes import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    conv_general_permutations,
    conv_general_shape_tuple,
    conv_shape_tuple,
    conv_transpose_shape_tuple,
)
from jax._src.lax.lax.windows import padtype_to_pads
