"""RMS normalization for GPUs, forward and backward."""

from jax._src.pallas.ops.gpu.normalization import (
    rms_norm as rms_norm,
    rms_norm_backward as rms_norm_backward,
    rms_norm_forward as rms_norm_forward,
    rms_norm_reference as rms_norm_reference,
)
