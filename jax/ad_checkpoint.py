"""Names and policies for `jax.checkpoint`, which decide what to save from the forward pass."""

from jax._src import deprecations as _deprecations_module
from jax._src.ad_checkpoint import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
    checkpoint_name as checkpoint_name,
    checkpoint_policies as checkpoint_policies,
    print_saved_residuals as print_saved_residuals,
)

_deprecations = {
    name: (f"jax.ad_checkpoint.{name} was removed: use jax.{name}.", None)
    for name in ("checkpoint", "remat")
}
__getattr__ = _deprecations_module.deprecation_getattr(__name__, _deprecations)
