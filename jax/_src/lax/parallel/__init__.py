"""Collectives: operations along named axes, which `shard_map` or `vmap(..., axis_name=...)` binds.

On devices, an axis of the mesh that is manual in `shard_map`, they communicate. Under `vmap` they
become ordinary operations along the batch dimension: the `axis_batch` rules implement this. It is an
error to use an axis that is not bound.
"""

from typing import TYPE_CHECKING

from jax._src.lax.parallel.axes import axis_size as axis_size
from jax._src.lax.parallel.sums import (
    pcast as pcast,
    pmean as pmean,
    preduced_p as preduced_p,
    psum as psum,
    psum_invariant_p as psum_invariant_p,
    psum_p as psum_p,
    pvary as pvary,
    pvary_p as pvary_p,
    reduced_vary_cast_p as reduced_vary_cast_p,
    unreduced_psum_p as unreduced_psum_p,
    vary_unreduced_cast_p as vary_unreduced_cast_p,
)
from jax._src.lazy_names import lazy_names

if TYPE_CHECKING:
    from jax._src.lax.parallel.exchanges import (
        all_to_all as all_to_all,
        all_to_all_p as all_to_all_p,
        pswapaxes as pswapaxes,
    )
    from jax._src.lax.parallel.extrema import (
        pargmax as pargmax,
        pargmin as pargmin,
        pmax as pmax,
        pmax_p as pmax_p,
        pmin as pmin,
        pmin_p as pmin_p,
    )
    from jax._src.lax.parallel.gathers import (
        all_gather as all_gather,
        all_gather_invariant_p as all_gather_invariant_p,
        all_gather_p as all_gather_p,
        all_gather_reduced_p as all_gather_reduced_p,
        all_rows as all_rows,
        own_rows as own_rows,
        psum_scatter as psum_scatter,
        reduce_scatter_p as reduce_scatter_p,
        unreduced_reduce_scatter_p as unreduced_reduce_scatter_p,
    )
    from jax._src.lax.parallel.index import axis_index as axis_index, axis_index_p as axis_index_p
    from jax._src.lax.parallel.permutes import (
        pbroadcast as pbroadcast,
        pbroadcast_p as pbroadcast_p,
        ppermute as ppermute,
        ppermute_p as ppermute_p,
        precv as precv,
        precv_p as precv_p,
        psend as psend,
        psend_p as psend_p,
        pshuffle as pshuffle,
    )
    from jax._src.lax.parallel.ragged import (
        ragged_all_to_all as ragged_all_to_all,
        ragged_all_to_all_p as ragged_all_to_all_p,
    )

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax._src.lax.parallel.exchanges": (
            "all_to_all", "all_to_all_p", "pswapaxes",
        ),
        "jax._src.lax.parallel.extrema": (
            "pargmax", "pargmin", "pmax", "pmax_p", "pmin", "pmin_p",
        ),
        "jax._src.lax.parallel.gathers": (
            "all_gather", "all_gather_invariant_p", "all_gather_p", "all_gather_reduced_p",
            "all_rows", "own_rows", "psum_scatter", "reduce_scatter_p", "unreduced_reduce_scatter_p",
        ),
        "jax._src.lax.parallel.index": (
            "axis_index", "axis_index_p",
        ),
        "jax._src.lax.parallel.permutes": (
            "pbroadcast", "pbroadcast_p", "ppermute", "ppermute_p", "precv", "precv_p",
            "psend", "psend_p", "pshuffle",
        ),
        "jax._src.lax.parallel.ragged": (
            "ragged_all_to_all", "ragged_all_to_all_p",
        ),
    },
)  # fmt: skip
