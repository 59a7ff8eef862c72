"""XLA's representation of shardings."""

from jax._src.op_shardings import (
    get_hlo_sharding_from_serialized_proto as get_hlo_sharding_from_serialized_proto,
    get_op_sharding_from_serialized_proto as get_op_sharding_from_serialized_proto,
    get_serialized_proto_from_hlo_sharding as get_serialized_proto_from_hlo_sharding,
)
from jax._src.sharding_impls import GSPMDSharding as GSPMDSharding
