"""JAX's interpreters, for libraries that add primitives or transformations."""

import importlib as _importlib

_modules = frozenset({"ad", "batching", "mlir", "partial_eval", "pxla", "xla"})


def __getattr__(name: str):
    if name in _modules:
        return _importlib.import_module(f"jax.interpreters.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_modules})
