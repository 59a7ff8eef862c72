"""Grouped products, with their derivatives."""

from jax._src.pallas.ops.tpu.megablox.ops import gmm as gmm
from jax.experimental.pallas.ops.tpu.megablox import gmm as backend  # noqa: F401
