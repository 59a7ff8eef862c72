"""Fusing what surrounds a kernel into it: functions of blocks from functions of arrays."""

from jax._src.pallas.fuser.custom import custom_fusion as custom_fusion
from jax._src.pallas.fuser.fusing import evaluate as evaluate, fuse as fuse, fusible as fusible
from jax._src.pallas.fuser.fusion import Fusion as Fusion
from jax._src.pallas.fuser.pull import pull_block_spec as pull_block_spec
from jax._src.pallas.fuser.push import push_block_spec as push_block_spec
from jax._src.pallas.fuser.transforms import BlockIndexTransform as BlockIndexTransform
from jax._src.pallas.fuser.values import (
    get_fusion_values as get_fusion_values,
    get_stateful_input_fusion_values as get_stateful_input_fusion_values,
    get_stateful_output_fusion_values as get_stateful_output_fusion_values,
    make_scalar_prefetch_handler as make_scalar_prefetch_handler,
)
