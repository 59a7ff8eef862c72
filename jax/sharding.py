"""Shardings, which describe how arrays are distributed over devices."""

from jax._src.core import ManualAxisType as ManualAxisType
from jax._src.lax.resharding import reshard as reshard
from jax._src.mesh import (
    AbstractDevice as AbstractDevice,
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
    get_abstract_mesh as get_abstract_mesh,
    use_abstract_mesh as use_abstract_mesh,
)
from jax._src.named_sharding import NamedSharding as NamedSharding
from jax._src.partition_spec import PartitionSpec as PartitionSpec
from jax._src.sharding import Sharding as Sharding
from jax._src.sharding_impls import (
    SingleDeviceSharding as SingleDeviceSharding,
    get_mesh as get_mesh,
    make_single_device_sharding as make_single_device_sharding,
    set_mesh as set_mesh,
)
from jax._src.transforms.explicit_sharding import (
    auto_axes as auto_axes,
    explicit_axes as explicit_axes,
)
