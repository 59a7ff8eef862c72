"""NumPy's functions for arrays of ours.

They follow NumPy where they can: arrays are immutable, dtypes promote as `jax.numpy.promote_types` says,
and sizes of results must be known when a function is traced.
"""

from importlib import import_module as _import_module

import numpy as _np

from jax._src.numpy.array_constructors import (
    array as array,
    asarray as asarray,
    from_dlpack as from_dlpack,
    frombuffer as frombuffer,
    fromfile as fromfile,
    fromiter as fromiter,
    fromstring as fromstring,
)
from jax._src.numpy.array_creation import (
    arange as arange,
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    fromfunction as fromfunction,
    full as full,
    full_like as full_like,
    geomspace as geomspace,
    identity as identity,
    indices as indices,
    linspace as linspace,
    logspace as logspace,
    meshgrid as meshgrid,
    ones as ones,
    ones_like as ones_like,
    zeros as zeros,
    zeros_like as zeros_like,
)
from jax._src.numpy.cumulative import (
    cumprod as cumprod,
    cumsum as cumsum,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
    nancumprod as nancumprod,
    nancumsum as nancumsum,
)
from jax._src.numpy.comparing import (
    allclose as allclose,
    array_equal as array_equal,
    array_equiv as array_equiv,
    isclose as isclose,
    nan_to_num as nan_to_num,
)
from jax._src.numpy.einsum import (
    einsum as einsum,
    einsum_path as einsum_path,
)
from jax._src.numpy.manipulation import (
    append as append,
    array_split as array_split,
    astype as astype,
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    block as block,
    broadcast_arrays as broadcast_arrays,
    broadcast_shapes as broadcast_shapes,
    broadcast_to as broadcast_to,
    column_stack as column_stack,
    concat as concat,
    concatenate as concatenate,
    copy as copy,
    dsplit as dsplit,
    dstack as dstack,
    expand_dims as expand_dims,
    flip as flip,
    fliplr as fliplr,
    flipud as flipud,
    hsplit as hsplit,
    hstack as hstack,
    matrix_transpose as matrix_transpose,
    moveaxis as moveaxis,
    permute_dims as permute_dims,
    ravel as ravel,
    repeat as repeat,
    reshape as reshape,
    resize as resize,
    roll as roll,
    rollaxis as rollaxis,
    rot90 as rot90,
    split as split,
    squeeze as squeeze,
    stack as stack,
    swapaxes as swapaxes,
    tile as tile,
    transpose as transpose,
    unstack as unstack,
    vsplit as vsplit,
    vstack as vstack,
)
from jax._src.numpy.selecting import (
    argwhere as argwhere,
    choose as choose,
    clip as clip,
    compress as compress,
    extract as extract,
    flatnonzero as flatnonzero,
    nonzero as nonzero,
    piecewise as piecewise,
    place as place,
    select as select,
    where as where,
)
from jax._src.numpy.tensor_products import (
    cross as cross,
    dot as dot,
    inner as inner,
    kron as kron,
    matmul as matmul,
    matvec as matvec,
    outer as outer,
    tensordot as tensordot,
    vdot as vdot,
    vecdot as vecdot,
    vecmat as vecmat,
)
from jax._src.numpy.matrices import (
    diag as diag,
    diag_indices as diag_indices,
    diag_indices_from as diag_indices_from,
    diagflat as diagflat,
    diagonal as diagonal,
    mask_indices as mask_indices,
    trace as trace,
    tri as tri,
    tril as tril,
    tril_indices as tril_indices,
    tril_indices_from as tril_indices_from,
    triu as triu,
    triu_indices as triu_indices,
    triu_indices_from as triu_indices_from,
    vander as vander,
)
from jax._src.numpy.reductions import (
    all as all,
    amax as amax,
    amin as amin,
    any as any,
    average as average,
    count_nonzero as count_nonzero,
    max as max,
    mean as mean,
    min as min,
    nanmax as nanmax,
    nanmean as nanmean,
    nanmin as nanmin,
    nanprod as nanprod,
    nanstd as nanstd,
    nansum as nansum,
    nanvar as nanvar,
    prod as prod,
    ptp as ptp,
    std as std,
    sum as sum,
    var as var,
)
from jax._src.numpy.scalar_types import (
    bfloat16 as bfloat16,
    bool_ as bool_,
    cdouble as cdouble,
    complex128 as complex128,
    complex64 as complex64,
    complex_ as complex_,
    csingle as csingle,
    double as double,
    float16 as float16,
    float32 as float32,
    float4_e2m1fn as float4_e2m1fn,
    float64 as float64,
    float6_e2m3fn as float6_e2m3fn,
    float6_e3m2fn as float6_e3m2fn,
    float8_e3m4 as float8_e3m4,
    float8_e4m3 as float8_e4m3,
    float8_e4m3b11fnuz as float8_e4m3b11fnuz,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e8m0fnu as float8_e8m0fnu,
    float_ as float_,
    int16 as int16,
    int2 as int2,
    int32 as int32,
    int4 as int4,
    int64 as int64,
    int8 as int8,
    int_ as int_,
    single as single,
    uint as uint,
    uint16 as uint16,
    uint2 as uint2,
    uint32 as uint32,
    uint4 as uint4,
    uint64 as uint64,
    uint8 as uint8,
)
from jax._src.numpy import ufuncs as _ufuncs
from jax._src.numpy.ufuncs import *  # noqa: F403
from jax._src.numpy import array_methods as _array_methods

# Loaded on first use.
_LAZY = {
    "delete": "editing",
    "insert": "editing",
    "pad": "padding",
    "trim_zeros": "editing",
}


def __getattr__(name):
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'jax.numpy' has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module("jax._src.numpy." + module), name)
    return value


def __dir__():
    return sorted({*globals(), *_LAZY})
