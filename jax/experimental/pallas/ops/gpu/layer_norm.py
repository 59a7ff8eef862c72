"""Layer normalization for GPUs, forward and backward."""

from jax._src.pallas.ops.gpu.normalization import (
    layer_norm as layer_norm,
    layer_norm_backward as layer_norm_backward,
    layer_norm_forward as layer_norm_forward,
    layer_norm_reference as layer_norm_reference,
)
