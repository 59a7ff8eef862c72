"""The kernels of grouped products."""

from jax._src.pallas.ops.tpu.megablox.kernels import gmm as gmm, tgmm as tgmm
from jax._src.pallas.ops.tpu.megablox.metadata import (
    GroupMetadata as GroupMetadata,
    make_group_metadata as make_group_metadata,
)
