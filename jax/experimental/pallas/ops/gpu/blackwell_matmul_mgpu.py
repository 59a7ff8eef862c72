"""Products of matrices for Blackwell GPUs, by Mosaic GPU."""

from jax._src.pallas.ops.gpu.blackwell_matmul import (
    MatmulDimension as MatmulDimension,
    TuningConfig as TuningConfig,
    matmul_kernel as matmul_kernel,
)
