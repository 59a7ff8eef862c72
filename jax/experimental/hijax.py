"""High types: values that arrays represent, in traced functions. See docs/hijax.md."""

from jax._src.ad_util import Zero as Zero
from jax._src.core import (
    AbstractRef as AbstractRef,
    AbstractValue as AbstractValue,
    AvalMutableQDD as AvalMutableQDD,
    AvalQDD as AvalQDD,
    ShapedArray as ShapedArray,
    aval_method as aval_method,
    aval_property as aval_property,
    control_flow_allowed_effects as control_flow_allowed_effects,
)
from jax._src.hijax import (
    HiPrimitive as HiPrimitive,
    HiPspec as HiPspec,
    HiType as HiType,
    MutableHiType as MutableHiType,
    VJPHiPrimitive as VJPHiPrimitive,
    register_hitype as register_hitype,
)
from jax._src.interpreters.ad import (
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
)
from jax._src.state.types import TransformedRef as TransformedRef
