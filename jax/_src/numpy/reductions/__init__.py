"""Reductions over axes: sums, products, extrema and means, with variants that ignore NaN."""

from jax._src.numpy.reductions.basic import (
    all as all,
    amax as amax,
    amin as amin,
    any as any,
    count_nonzero as count_nonzero,
    max as max,
    min as min,
    prod as prod,
    ptp as ptp,
    sum as sum,
)
from jax._src.numpy.reductions.engine import (
    Axis as Axis,
    Reduction as Reduction,
    canonical_axes as canonical_axes,
    element_count as element_count,
    hashable_axis as hashable_axis,
    promote_integer_dtype as promote_integer_dtype,
    split_axes as split_axes,
)
from jax._src.numpy.reductions.ignoring_nan import (
    nanmax as nanmax,
    nanmean as nanmean,
    nanmin as nanmin,
    nanprod as nanprod,
    nanstd as nanstd,
    nansum as nansum,
    nanvar as nanvar,
)
from jax._src.numpy.reductions.means import (
    average as average,
    mean as mean,
    std as std,
    var as var,
)
