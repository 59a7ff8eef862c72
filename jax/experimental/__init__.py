"""Experimental features, which may change; import the submodules explicitly."""

from jax._src.callback import io_callback as io_callback
from jax._src.core import cur_qdd as cur_qdd
from jax._src.dtypes import primal_tangent_dtype as primal_tangent_dtype
from jax._src.earray import EArray as EArray


def __getattr__(name: str):
    # What the original imports with `jax`, programs reach without an import of their own.
    if name == "compilation_cache":
        import jax.experimental.compilation_cache as module

        return module
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}; a submodule is to be imported"
    )
