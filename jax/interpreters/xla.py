"""Names that remain from direct lowering to XLA, for libraries that still use them."""

from jax._src.dispatch import apply_primitive as apply_primitive
from jax._src.dtypes import canonicalize_value_handlers as canonicalize_dtype_handlers
from jax._src.lib import Client as Backend
