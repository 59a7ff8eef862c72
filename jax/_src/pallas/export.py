"""Export of functions that apply kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from jax._src.api import jit
from jax._src.export._export import export
from jax._src.pallas.pallas_call import symbolic_blocks


@contextlib.contextmanager
def pallas_export_experimental(dynamic_shapes: bool) -> Iterator[None]:
    """Return a context in which kernels are compiled for export.

    Args:
      dynamic_shapes: whether blocks of compiled kernels may have symbolic sizes. Kernels can only copy from
        and to such blocks. Sizes of the grid, and of arrays with blocks of static sizes, may be symbolic
        without it.
    """
    before = symbolic_blocks.swap_local(dynamic_shapes)
    try:
        yield
    finally:
        symbolic_blocks.swap_local(before)


def lower_as_mlir(
    f: Any, *args: Any, dynamic_shapes: bool = False, device: Any = None,
    static_argnames: Sequence[str] = (), platforms: Sequence[str] | None = None, **kwargs: Any,
) -> str:  # fmt: skip
    """Return the StableHLO module that a function is lowered to, as text.

    Unlike what `jax.export` makes, it need not be valid for later versions.

    Args:
      f: the function.
      *args, **kwargs: its arguments, arrays or `jax.ShapeDtypeStruct`.
      dynamic_shapes: the option of `pallas_export_experimental`.
      device: the device to lower it for.
      static_argnames: names of arguments that are static.
      platforms: the platforms to lower it for; the default one if None.

    >>> "stablehlo.add" in pl.lower_as_mlir(lambda x: x + 1, jnp.ones(3))
    True
    """
    jitted = jit(f, device=device, static_argnames=static_argnames)
    with pallas_export_experimental(dynamic_shapes):
        exported = export(jitted, platforms=platforms)(*args, **kwargs)
    return exported.mlir_module()
