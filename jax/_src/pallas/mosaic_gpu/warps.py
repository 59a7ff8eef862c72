"""Functions of single warps in kernels whose threads are warpgroups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax._src import api_util, core, traceback_util
from jax._src.core import Primitive
from jax._src.interpreters import partial_eval as pe
from jax._src.lax.parallel import axis_index
from jax._src.pallas.effects import kernel_effect
from jax._src.pallas.mosaic_gpu.core import WarpMesh, later

traceback_util.register_exclusion(__file__)

# The operands are what the function closes over, of which the jaxpr is a function.
warp_map_p = Primitive("warp_map", multiple_results=True)
warp_map_p.ref_boundary = True
warp_map_p.ref_primitive = True


@warp_map_p.def_effectful_abstract_eval
def _types(*avals: Any, jaxpr: Any, mesh: WarpMesh) -> Any:
    effects = {
        e
        for e in jaxpr.effects
        if not (isinstance(e, core.NamedAxisEffect) and e.name == mesh.axis_name)
    }
    return [], effects | {kernel_effect}


def run_on_warps(mesh: WarpMesh, f: Callable[[], None]) -> None:
    """Run a function on each warp of a mesh.

    Args:
      mesh: the warps.
      f: function without arguments and results, which works on references.

    Raises:
      ValueError: if it returns a value.
    """

    def run() -> Any:
        if f() is not None:
            raise ValueError("A function of warps must return None: write results to references.")
        return []

    info = api_util.debug_info("warp_map", f, (), {})
    with mesh.tracing_context():
        closed, consts = pe.trace_to_closed(run, [], info)
    warp_map_p.bind(*consts, jaxpr=closed, mesh=mesh)


later.run_on_warps = run_on_warps


def warp_map(f: Callable[[Any], Any], /) -> Any:
    """Call a function at once on each of the four warps of this thread, with the warp's number.

    Args:
      f: function of an int32 scalar, which works on references and returns None.
    """
    name = object()
    run_on_warps(WarpMesh(axis_name=name), lambda: f(axis_index(name)))  # type: ignore[arg-type]
