"""The old name of `jax.jit`."""

from jax._src import deprecations as _deprecations_module
from jax._src.pjit import pjit as _deprecated_pjit

_deprecations = {
    "pjit": (
        "jax.experimental.pjit.pjit has been deprecated. Please use `jax.jit` instead.",
        _deprecated_pjit,
    )
}
__getattr__ = _deprecations_module.deprecation_getattr(__name__, _deprecations)
