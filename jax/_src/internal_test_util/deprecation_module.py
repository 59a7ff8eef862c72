"""A module with a deprecated name, `y`, and one that was removed, `z`."""

from jax._src.deprecations import deprecation_getattr

x = 42
deprecated_y = 101
_deprecations = {"y": ("Please use x", deprecated_y), "z": ("Please do not use z", None)}
__getattr__ = deprecation_getattr(__name__, _deprecations)
