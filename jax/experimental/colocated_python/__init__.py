"""Python functions and objects that live beside devices, possibly on other hosts."""

from jax._src.colocated_python.api import (
    colocated_cpu_devices as colocated_cpu_devices,
    colocated_python as colocated_python,
    colocated_python_class as colocated_python_class,
)
from jax.experimental.colocated_python import (
    api as api,
    func as func,
    func_backend as func_backend,
    obj as obj,
    obj_backend as obj_backend,
    serialization as serialization,
)
