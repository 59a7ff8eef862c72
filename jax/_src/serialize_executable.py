"""Compiled functions (`jax.stages.Compiled`) as bytes, for other processes on machines of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src.interpreters.pxla.serialization import dump_executable, load_executable
from jax._src.lax.linalg import kernels as linalg_kernels
from jax._src.lib import native_kernels
from jax._src.stages import Compiled
from jax._src.tree_util import PyTreeDef


def serialize(compiled: Compiled) -> tuple[bytes, PyTreeDef, PyTreeDef]:
    """Returns a compiled function as bytes, and the trees of its arguments and results.

    Trees may contain nodes of any class, so it is up to the caller to save them, by `pickle` for instance.

    Args:
      compiled: what `jax.jit(f).lower(*args).compile()` returns.

    Raises:
      ValueError: if the function calls Python functions of this process, such as `jax.debug.print`, or
        is compiled for absent devices.

    >>> import jax
    >>> from jax.experimental import serialize_executable
    >>> compiled = jax.jit(lambda x: 2 * x).lower(1.0).compile()
    >>> serialized, in_tree, out_tree = serialize_executable.serialize(compiled)
    >>> loaded = serialize_executable.deserialize_and_load(serialized, in_tree, out_tree)
    >>> print(loaded(3.0))
    6.0
    """
    serialized = dump_executable(compiled._executable, (compiled._infos, compiled._consts))
    return serialized, compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    backend: Any = None,
    execution_devices: Sequence[Any] | None = None,
) -> Compiled:
    """Returns the compiled function that `serialize` made bytes of.

    The bytes contain machine code, and are read by `pickle`: whoever has written them can run any code
    in this process. Load only what comes from a source that you trust.

    Args:
      serialized, in_tree, out_tree: what `serialize` returned, in a process with the same version of jaxlib
        on a machine of the same kind.
      backend: the platform that is to run the function, or its client; by default the one that it was
        compiled for.
      execution_devices: the devices that are to run it, as many as it was compiled for; by default those
        with the same numbers.

    Raises:
      ValueError: if the bytes are damaged, or the function was compiled for another platform, version
        of jaxlib, processor or number of devices.
    """
    executable, (infos, consts) = load_executable(serialized, backend, execution_devices, _register)
    return Compiled(executable, in_tree, infos, out_tree, consts)


def _register(platform: str, native_functions: Sequence[str]) -> None:
    """Registers native functions that tracing and lowering would have registered."""
    if any(name.startswith("jaxlib_ext") for name in native_functions):
        native_kernels.extension()
    if native_functions and platform in ("cuda", "rocm", "gpu"):
        linalg_kernels.register_gpu_kernels()
    for name in native_functions:
        if name.startswith("lapack_"):
            linalg_kernels.prepare_lapack_target(name)
