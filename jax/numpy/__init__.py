"""NumPy's functions on JAX arrays.

They follow NumPy where possible. Arrays are immutable, dtypes promote as described by
`jax.numpy.result_type`, and under tracing the shapes of results must not depend on values.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

import numpy as _np

# isort: off
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
from jax._src.numpy.dtype_utils import (
    character as character,
    complexfloating as complexfloating,
    flexible as flexible,
    floating as floating,
    generic as generic,
    get_printoptions as get_printoptions,
    inexact as inexact,
    integer as integer,
    iscomplexobj as iscomplexobj,
    isrealobj as isrealobj,
    isscalar as isscalar,
    issubdtype as issubdtype,
    load as load,
    ndim as ndim,
    number as number,
    object_ as object_,
    printoptions as printoptions,
    result_type as result_type,
    set_printoptions as set_printoptions,
    shape as shape,
    signedinteger as signedinteger,
    size as size,
    unsignedinteger as unsignedinteger,
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
    bool_ as bool_,
    bool_ as bool,
)
from jax._src.numpy.ufunc_api import (
    frompyfunc as frompyfunc,
    ufunc as ufunc,
)
from jax._src.numpy.ufunc_objects import (
    add as add,
    bitwise_and as bitwise_and,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    logaddexp as logaddexp,
    logaddexp2 as logaddexp2,
    logical_and as logical_and,
    logical_or as logical_or,
    logical_xor as logical_xor,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    negative as negative,
    subtract as subtract,
)
from jax._src.numpy.ufuncs import (
    abs as abs,
    absolute as absolute,
    acos as acos,
    acosh as acosh,
    angle as angle,
    arccos as arccos,
    arccosh as arccosh,
    arcsin as arcsin,
    arcsinh as arcsinh,
    arctan as arctan,
    arctan2 as arctan2,
    arctanh as arctanh,
    around as around,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    bitwise_count as bitwise_count,
    bitwise_invert as bitwise_invert,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not,
    bitwise_right_shift as bitwise_right_shift,
    cbrt as cbrt,
    ceil as ceil,
    conj as conj,
    conjugate as conjugate,
    cos as cos,
    cosh as cosh,
    deg2rad as deg2rad,
    degrees as degrees,
    divide as divide,
    divmod as divmod,
    equal as equal,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    fabs as fabs,
    float_power as float_power,
    floor as floor,
    floor_divide as floor_divide,
    fmod as fmod,
    greater as greater,
    greater_equal as greater_equal,
    imag as imag,
    invert as invert,
    iscomplex as iscomplex,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    isneginf as isneginf,
    isposinf as isposinf,
    isreal as isreal,
    left_shift as left_shift,
    less as less,
    less_equal as less_equal,
    log as log,
    log10 as log10,
    log1p as log1p,
    log2 as log2,
    logical_not as logical_not,
    mod as mod,
    nextafter as nextafter,
    not_equal as not_equal,
    positive as positive,
    pow as pow,
    power as power,
    rad2deg as rad2deg,
    radians as radians,
    real as real,
    reciprocal as reciprocal,
    remainder as remainder,
    right_shift as right_shift,
    rint as rint,
    round as round,
    sign as sign,
    signbit as signbit,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    tan as tan,
    tanh as tanh,
    true_divide as true_divide,
    trunc as trunc,
)
from jax._src.numpy.indexing import (
    put as put,
    put_along_axis as put_along_axis,
    take as take,
    take_along_axis as take_along_axis,
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
from jax._src.numpy.sorting import (
    argmax as argmax,
    argmin as argmin,
    argpartition as argpartition,
    argsort as argsort,
    lexsort as lexsort,
    nanargmax as nanargmax,
    nanargmin as nanargmin,
    partition as partition,
    sort as sort,
    sort_complex as sort_complex,
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
from jax._src.numpy import array_methods as _array_methods
from jax._src.basearray import Array as ndarray
from jax._src.dtypes import (
    finfo as finfo,
    iinfo as iinfo,
    isdtype as isdtype,
    ml_dtypes_has_int1 as _has_int1,
    promote_types as promote_types,
)
# isort: on

if _has_int1:
    from jax._src.numpy.scalar_types import int1 as int1, uint1 as uint1

dtype = _np.dtype
can_cast = _np.can_cast
iterable = _np.iterable
array_repr = _np.array_repr
array_str = _np.array_str
save = _np.save
savez = _np.savez
index_exp = _np.index_exp
s_ = _np.s_
ComplexWarning = _np.exceptions.ComplexWarning

e = _np.e
euler_gamma = _np.euler_gamma
inf = _np.inf
nan = _np.nan
newaxis = None
pi = _np.pi

# Of the Python array API standard; see `__array_namespace_info__`.
__array_api_version__ = "2024.12"

if _TYPE_CHECKING:
    from jax._src.numpy.array_api_metadata import (
        __array_namespace_info__ as __array_namespace_info__,
    )
    from jax._src.numpy.bits import (
        packbits as packbits,
        unpackbits as unpackbits,
    )
    from jax._src.numpy.calculus import (
        diff as diff,
        ediff1d as ediff1d,
        gradient as gradient,
        interp as interp,
        trapezoid as trapezoid,
        unwrap as unwrap,
    )
    from jax._src.numpy.comparing import (
        allclose as allclose,
        array_equal as array_equal,
        array_equiv as array_equiv,
        isclose as isclose,
        nan_to_num as nan_to_num,
    )
    from jax._src.numpy.editing import (
        delete as delete,
        insert as insert,
        trim_zeros as trim_zeros,
    )
    from jax._src.numpy.einsum import (
        einsum as einsum,
        einsum_path as einsum_path,
    )
    from jax._src.numpy.functional import (
        apply_along_axis as apply_along_axis,
        apply_over_axes as apply_over_axes,
    )
    from jax._src.numpy.index_tricks import (
        c_ as c_,
        ix_ as ix_,
        mgrid as mgrid,
        ogrid as ogrid,
        r_ as r_,
    )
    from jax._src.numpy.matrices import (
        diag as diag,
        diag_indices as diag_indices,
        diag_indices_from as diag_indices_from,
        diagflat as diagflat,
        diagonal as diagonal,
        fill_diagonal as fill_diagonal,
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
    from jax._src.numpy.padding import (
        pad as pad,
    )
    from jax._src.numpy.polynomial import (
        poly as poly,
        polyadd as polyadd,
        polyder as polyder,
        polydiv as polydiv,
        polyfit as polyfit,
        polyint as polyint,
        polymul as polymul,
        polysub as polysub,
        polyval as polyval,
        roots as roots,
    )
    from jax._src.numpy.positions import (
        ravel_multi_index as ravel_multi_index,
        unravel_index as unravel_index,
    )
    from jax._src.numpy.quantiles import (
        median as median,
        nanmedian as nanmedian,
        nanpercentile as nanpercentile,
        nanquantile as nanquantile,
        percentile as percentile,
        quantile as quantile,
    )
    from jax._src.numpy.searching import (
        bincount as bincount,
        digitize as digitize,
        histogram as histogram,
        histogram2d as histogram2d,
        histogram_bin_edges as histogram_bin_edges,
        histogramdd as histogramdd,
        searchsorted as searchsorted,
    )
    from jax._src.numpy.setops import (
        intersect1d as intersect1d,
        isin as isin,
        setdiff1d as setdiff1d,
        setxor1d as setxor1d,
        union1d as union1d,
        unique as unique,
        unique_all as unique_all,
        unique_counts as unique_counts,
        unique_inverse as unique_inverse,
        unique_values as unique_values,
    )
    from jax._src.numpy.statistics import (
        convolve as convolve,
        corrcoef as corrcoef,
        correlate as correlate,
        cov as cov,
    )
    from jax._src.numpy.ufuncs_special import (
        copysign as copysign,
        fmax as fmax,
        fmin as fmin,
        frexp as frexp,
        gcd as gcd,
        heaviside as heaviside,
        hypot as hypot,
        i0 as i0,
        lcm as lcm,
        ldexp as ldexp,
        modf as modf,
        sinc as sinc,
        spacing as spacing,
    )
    from jax._src.numpy.vectorize import (
        vectorize as vectorize,
    )
    from jax._src.numpy.window_functions import (
        bartlett as bartlett,
        blackman as blackman,
        hamming as hamming,
        hanning as hanning,
        kaiser as kaiser,
    )

# Less common functions, with their modules, which are imported on first access.
_LAZY = {
    "__array_namespace_info__": "array_api_metadata",
    "allclose": "comparing",
    "apply_along_axis": "functional",
    "apply_over_axes": "functional",
    "array_equal": "comparing",
    "array_equiv": "comparing",
    "bartlett": "window_functions",
    "bincount": "searching",
    "blackman": "window_functions",
    "c_": "index_tricks",
    "convolve": "statistics",
    "copysign": "ufuncs_special",
    "corrcoef": "statistics",
    "correlate": "statistics",
    "cov": "statistics",
    "delete": "editing",
    "diag": "matrices",
    "diag_indices": "matrices",
    "diag_indices_from": "matrices",
    "diagflat": "matrices",
    "diagonal": "matrices",
    "diff": "calculus",
    "digitize": "searching",
    "ediff1d": "calculus",
    "einsum": "einsum",
    "einsum_path": "einsum",
    "fill_diagonal": "matrices",
    "fmax": "ufuncs_special",
    "fmin": "ufuncs_special",
    "frexp": "ufuncs_special",
    "gcd": "ufuncs_special",
    "gradient": "calculus",
    "hamming": "window_functions",
    "hanning": "window_functions",
    "heaviside": "ufuncs_special",
    "histogram": "searching",
    "histogram2d": "searching",
    "histogram_bin_edges": "searching",
    "histogramdd": "searching",
    "hypot": "ufuncs_special",
    "i0": "ufuncs_special",
    "insert": "editing",
    "interp": "calculus",
    "intersect1d": "setops",
    "isclose": "comparing",
    "isin": "setops",
    "ix_": "index_tricks",
    "kaiser": "window_functions",
    "lcm": "ufuncs_special",
    "ldexp": "ufuncs_special",
    "mask_indices": "matrices",
    "median": "quantiles",
    "mgrid": "index_tricks",
    "modf": "ufuncs_special",
    "nan_to_num": "comparing",
    "nanmedian": "quantiles",
    "nanpercentile": "quantiles",
    "nanquantile": "quantiles",
    "ogrid": "index_tricks",
    "packbits": "bits",
    "pad": "padding",
    "percentile": "quantiles",
    "poly": "polynomial",
    "polyadd": "polynomial",
    "polyder": "polynomial",
    "polydiv": "polynomial",
    "polyfit": "polynomial",
    "polyint": "polynomial",
    "polymul": "polynomial",
    "polysub": "polynomial",
    "polyval": "polynomial",
    "quantile": "quantiles",
    "r_": "index_tricks",
    "ravel_multi_index": "positions",
    "roots": "polynomial",
    "searchsorted": "searching",
    "setdiff1d": "setops",
    "setxor1d": "setops",
    "sinc": "ufuncs_special",
    "spacing": "ufuncs_special",
    "trace": "matrices",
    "trapezoid": "calculus",
    "tri": "matrices",
    "tril": "matrices",
    "tril_indices": "matrices",
    "tril_indices_from": "matrices",
    "trim_zeros": "editing",
    "triu": "matrices",
    "triu_indices": "matrices",
    "triu_indices_from": "matrices",
    "union1d": "setops",
    "unique": "setops",
    "unique_all": "setops",
    "unique_counts": "setops",
    "unique_inverse": "setops",
    "unique_values": "setops",
    "unpackbits": "bits",
    "unravel_index": "positions",
    "unwrap": "calculus",
    "vander": "matrices",
    "vectorize": "vectorize",
}


_LAZY_MODULES = frozenset({"fft", "linalg"})


def __getattr__(name):
    if name in _LAZY_MODULES:
        return _import_module(f"jax.numpy.{name}")
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'jax.numpy' has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(f"jax._src.numpy.{module}"), name)
    return value


def __dir__():
    return sorted({*globals(), *_LAZY, *_LAZY_MODULES})


__all__ = [_name for _name in __dir__() if not _name.startswith("_")]
