"""Functions that run beside devices."""

from jax._src.colocated_python.func import (
    FunctionInfo as FunctionInfo,
    Specialization as Specialization,
    is_prng_key_dtype as is_prng_key_dtype,
    make_callable as make_callable,
    make_prng_wrapped_fun as _make_prng_wrapped_fun,  # noqa: F401 (Orbax imports it)
)

# Names of helpers, which the original's module has too.
from jax._src.sharding_impls import physical_sharding as physical_sharding
from jax._src.traceback_util import api_boundary as api_boundary
from jax._src.util import (
    register_cache as jax_register_backend_cache,  # noqa: F401
    wraps as wraps,
)
from jax.experimental.colocated_python import func_backend as func_backend
