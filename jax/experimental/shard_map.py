"""The former place of `jax.shard_map`."""

from collections.abc import Callable
from typing import Any

from jax._src import deprecations as _deprecations_module
from jax._src.shard_map import shard_map as _jax_shard_map


def _shard_map(
    f: Callable, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True
) -> Callable:
    """Use `jax.shard_map`, whose argument `check_vma` replaces `check_rep`.

    >>> mesh = jax.make_mesh((1,), ("x",), (jax.sharding.AxisType.Auto,))
    >>> f = jax.shard_map(lambda x: x + 1, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))
    >>> print(f(jnp.arange(3)))
    [1 2 3]
    """
    return _jax_shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)


_shard_map.__name__ = _shard_map.__qualname__ = "shard_map"
__getattr__ = _deprecations_module.deprecation_getattr(
    __name__,
    {
        "shard_map": (
            "jax.experimental.shard_map.shard_map is deprecated: use jax.shard_map.", _shard_map
        )
    },
)  # fmt: skip
