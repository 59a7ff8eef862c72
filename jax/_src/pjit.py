"""Parts of `jit`, under the module name that libraries import; see `jax._src.jit`."""

from jax._src import mesh as mesh_lib
from jax._src.api_util import debug_info
from jax._src.jit.jitted import make_jit
from jax._src.jit.primitive import jit_p, pjit_p
from jax._src.sharding_impls import UNSPECIFIED, UnspecifiedValue
