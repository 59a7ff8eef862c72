"""Objects that live beside devices."""

from jax._src.colocated_python.obj import (
    SINGLETON_INSTANCE_REGISTRY as SINGLETON_INSTANCE_REGISTRY,
    wrap_class as wrap_class,
)

# Names of helpers, which the original's module has too.
from jax._src.traceback_util import api_boundary as api_boundary
from jax._src.util import register_cache as register_cache
from jax.experimental.colocated_python import func as func, obj_backend as obj_backend
