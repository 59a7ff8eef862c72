"""Products of matrices of two dtypes for Hopper GPUs, by Mosaic GPU."""

from jax._src.pallas.ops.gpu.hopper_matmul import (
    MatmulDimension as MatmulDimension,
    TuningConfig as TuningConfig,
)
from jax._src.pallas.ops.gpu.hopper_mixed_type_matmul import (
    mixed_matmul_kernel as mixed_matmul_kernel,
    reference as reference,
)
