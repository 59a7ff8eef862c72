"""Products of matrices for Hopper GPUs, by Mosaic GPU."""

from jax._src.pallas.ops.gpu.hopper_matmul import (
    MatmulDimension as MatmulDimension,
    TuningConfig as TuningConfig,
    kernel as kernel,
    matmul as matmul,
)
