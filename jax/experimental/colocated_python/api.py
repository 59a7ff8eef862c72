"""The functions of colocated_python."""

from jax._src.colocated_python.api import (
    colocated_cpu_devices as colocated_cpu_devices,
    colocated_python as colocated_python,
    colocated_python_class as colocated_python_class,
    make_callable as make_callable,
    wrap_class as wrap_class,
)
