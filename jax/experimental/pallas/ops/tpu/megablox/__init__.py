"""Products of the rows of groups with a matrix for each group."""

from jax.experimental.pallas.ops.tpu.megablox import common as common, ops as ops

# The function, not the module of the same name.
from jax.experimental.pallas.ops.tpu.megablox.ops import gmm as gmm
