"""High types: `jax.experimental.hijax`."""

from jax._src.core import (
    AbstractRef as AbstractRef,
    ShapedArray as ShapedArray,
    aval_method as _aval_method,
    high_types_in_use as _high_types_in_use,
)
from jax._src.hijax import refs as _refs, tracers as _tracers
from jax._src.hijax.boxes import (
    Box as Box,
    BoxEffect as BoxEffect,
    BoxGet as BoxGet,
    BoxSet as BoxSet,
    BoxTy as BoxTy,
    BoxTypeState as BoxTypeState,
    Log as Log,
    LogExtend as LogExtend,
    LogTy as LogTy,
    NewBox as NewBox,
    NewLog as NewLog,
    ReadLog as ReadLog,
    box_effect as box_effect,
    box_get as box_get,
    box_get_p as box_get_p,
    box_set as box_set,
    box_set_p as box_set_p,
    log_append as log_append,
    log_effect as log_effect,
    log_extend as log_extend,
    log_extend_p as log_extend_p,
    log_read as log_read,
    log_read_p as log_read_p,
    new_box as new_box,
    new_box_p as new_box_p,
    new_log as new_log,
    new_log_p as new_log_p,
)
from jax._src.hijax.custom_vjp import custom_vjp3 as custom_vjp3
from jax._src.hijax.primitives import HiPrimitive as HiPrimitive
from jax._src.hijax.types import (
    QDD as QDD,
    AxisName as AxisName,
    HiPspec as HiPspec,
    HiType as HiType,
    HiVal as HiVal,
    LoType as LoType,
    LoVal as LoVal,
    MappingSpec as MappingSpec,
    MutableHiType as MutableHiType,
    PyTreeOfAvals as PyTreeOfAvals,
    Ty as Ty,
    register_hitype as register_hitype,
)
from jax._src.hijax.vjp_primitives import (
    VJPHiPrimitive as VJPHiPrimitive,
    VmapOf as VmapOf,
    call_hi_primitive_linearized_p as call_hi_primitive_linearized_p,
    call_hi_primitive_p as call_hi_primitive_p,
)
from jax._src.lax.control_flow import high_types as _high_types

_high_types_in_use.value = True

# A name that outside code imports: methods of traced values are made by one decorator.
hijax_method = _aval_method
