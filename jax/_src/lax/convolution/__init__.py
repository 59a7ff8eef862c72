"""Convolutions."""

from jax._src.lax.convolution.api import (  # noqa: F401
    ConvGeneralDilatedDimensionNumbers,
    conv,
    conv_general_dilated,
    conv_transpose,
    conv_with_general_padding,
)
from jax._src.lax.convolution.primitive import conv_general_dilated_p  # noqa: F401
from jax._src.lax.convolution.shapes import (  # noqa: F401
    ConvDimensionNumbers,
    conv_dimension_numbers,
    conv_general_permutations,
    conv_general_shape_tuple,
    conv_shape_tuple,
    conv_transpose_shape_tuple,
)
from jax._src.lax.lax.windows import padtype_to_pads  # noqa: F401
