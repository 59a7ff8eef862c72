"""Pickles of functions and specifications."""

# Names that Orbax imports, which writes such pickles too.
from jax._src.colocated_python.serialization import (
    DeviceList as DeviceList,
    get_cpu_device_map as _get_cpu_device_map,  # noqa: F401
    reduce_device_list as _reduce_device_list,  # noqa: F401
    reduce_mesh as _reduce_mesh,  # noqa: F401
    reduce_single_device_sharding as _reduce_single_device_sharding,  # noqa: F401
    xb as xb,
)
