"""Products of matrices by blocks."""

from jax._src.pallas.ops.tpu.matmul import matmul as matmul
