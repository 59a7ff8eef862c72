"""Products of a matrix whose rows are divided among devices, over NVLink, by Mosaic GPU."""

from jax._src.pallas.ops.gpu.hopper_collective_matmul import (
    all_gather_lhs_matmul as all_gather_lhs_matmul,
    is_nvshmem_used as is_nvshmem_used,
)
from jax._src.pallas.ops.gpu.hopper_matmul import (
    MatmulDimension as MatmulDimension,
    TuningConfig as TuningConfig,
)
