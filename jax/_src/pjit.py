"""Parts of `jit`, under the module name that libraries import; see `jax._src.jit`."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax._src import mesh as mesh_lib, traceback_util
from jax._src.api_util import check_callable, debug_info
from jax._src.jit import jitted
from jax._src.jit.primitive import jit_p, pjit_p, staging_rule
from jax._src.lib import _jax
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding_impls import UNSPECIFIED, UnspecifiedValue, canonicalize_jit_sharding
from jax._src.sharding_impls.meshes import use_concrete_mesh

traceback_util.register_exclusion(__file__)


@contextlib.contextmanager
def _mesh_of_with() -> Iterator[None]:
    """Make the mesh of `with mesh:`, if there is one, the mesh in context, outside of shard_map."""
    mesh = mesh_lib.thread_resources.env.physical_mesh
    if mesh.empty or mesh_lib.get_abstract_mesh().manual_axes:
        yield
        return
    with mesh_lib.use_abstract_mesh(mesh.abstract_mesh), use_concrete_mesh(mesh):
        yield


class _Pjit(jitted.Jitted):
    """The Python side of one function of `pjit`."""

    transform = "pjit"
    static_options = "static_argnums or static_argnames parameters of jax.experimental.pjit.pjit"

    def __init__(self, fun: Callable, options: jitted.Options):
        super().__init__(fun, options)
        options.key = options.key._replace(of_transform=("pjit",))  # shares no programs with `jit`

    @traceback_util.api_boundary
    def trace(self, *args, **kwargs):
        with _mesh_of_with():
            return super().trace(*args, **kwargs)

    @traceback_util.api_boundary
    def lower(self, *args, **kwargs):
        with _mesh_of_with():
            return super().lower(*args, **kwargs)

    @traceback_util.api_boundary
    def cache_miss(self, *args, **kwargs):
        with _mesh_of_with():
            return super().cache_miss(*args, **kwargs)

    @staticmethod
    def canonicalize(sharding: Any, name: str) -> Any:
        """Convert a sharding; in `with mesh:`, None is that of a replicated value."""
        mesh = mesh_lib.thread_resources.env.physical_mesh
        if sharding is None and not (mesh.empty or mesh_lib.get_abstract_mesh().manual_axes):
            return NamedSharding(mesh, PartitionSpec())
        return canonicalize_jit_sharding(sharding, name)


def pjit(
    fun: Callable, in_shardings: Any = UNSPECIFIED, out_shardings: Any = UNSPECIFIED,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None, keep_unused: bool = False,
    device: Any = None, backend: str | None = None, inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
):  # fmt: skip
    """The deprecated form of :func:`jax.jit` with positional options.

    It uses the mesh of ``with mesh:``, which `jax.jit` does not: specs refer to its axes, and None
    is a value that is replicated on its devices. Otherwise it is `jax.jit`.

    Args:
      fun: the function.
      in_shardings, out_shardings, static_argnums, static_argnames, donate_argnums,
        donate_argnames, keep_unused, device, backend, inline, compiler_options: as for `jax.jit`.
    """
    check_callable(fun)
    return jitted.make_jit(
        fun, _Pjit, in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
        static_argnames=static_argnames, donate_argnums=donate_argnums,
        donate_argnames=donate_argnames, keep_unused=keep_unused, device=device, backend=backend,
        inline=inline, compiler_options=compiler_options,
    )  # fmt: skip


# Names that outside code imports

pjit_staging_rule = staging_rule


def make_jit_cpp_cache(capacity: int) -> Any:
    """A cache of compiled functions for the native callables of `jit`."""
    return _jax.PjitFunctionCache(capacity=capacity)
