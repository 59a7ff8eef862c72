"""SciPy's functions on JAX arrays. Submodules are imported when first accessed."""

from importlib import import_module as _import_module

_MODULES = frozenset(
    {
        "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse",
        "spatial", "special", "stats",
    }
)  # fmt: skip


def __getattr__(name):
    if name in _MODULES:
        try:
            return _import_module(f"jax.scipy.{name}")
        except ModuleNotFoundError as err:
            if err.name != f"jax.scipy.{name}":
                raise
    raise AttributeError(f"module 'jax.scipy' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_MODULES})
