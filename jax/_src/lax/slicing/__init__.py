"""Slicing, gather and scatter, at static and at traced indices."""

from jax._src.lax.slicing.gathers import gather, gather_p
from jax._src.lax.slicing.scatters import (
    scatter,
    scatter_add,
    scatter_add_p,
    scatter_apply,
    scatter_max,
    scatter_max_p,
    scatter_min,
    scatter_min_p,
    scatter_mul,
    scatter_mul_p,
    scatter_p,
    scatter_sub,
    scatter_sub_p,
)
from jax._src.lax.slicing.slices import (
    clamped,
    count_from_front,
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_slice_p,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    dynamic_update_slice_p,
    index_dtype,
    index_in_dim,
    index_take,
    int_range,
    slice,
    slice_in_dim,
    slice_p,
)
from jax._src.lax.slicing.types import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
