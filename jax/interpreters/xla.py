"""What remains of lowering straight to XLA, for libraries that ask for it here."""

from jax._src.dispatch import apply_primitive as apply_primitive
from jax._src.dtypes import canonicalize_value_handlers as canonicalize_dtype_handlers
from jax._src.lib import Client as Backend
