"""Dtypes of array elements: the valid ones, those of Python scalars, and type promotion.

Three concepts:

- Canonical dtypes. Unless `jax_enable_x64` is set, 64-bit dtypes become 32-bit ones.
- Weak types. A Python scalar is weakly typed: it takes the dtype of the other operand, if that is
  of the same or a higher kind (`bool` < `int` < `float` < `complex`).
- Promotion. Dtypes and weak types form a lattice; a result's dtype is the least upper bound.
"""

from numpy import bool_ as bool_  # a name that outside code imports

from jax._src.dtypes._extended import (
    PrimalTangentDType as PrimalTangentDType,
    extended_rule as extended_rule,
    primal_tangent_dtype as primal_tangent_dtype,
    primal_tangent_dtype_scalar as primal_tangent_dtype_scalar,
)
from jax._src.dtypes._promotion import (
    TypePromotionError as TypePromotionError,
    dtype_and_weak_type as dtype_and_weak_type,
    jax_type as jax_type,
    lattice_result_type as lattice_result_type,
    least_upper_bound as least_upper_bound,
    promote_types as promote_types,
    result_type as result_type,
    safe_to_cast as safe_to_cast,
    type_promotion_lattice as type_promotion_lattice,
)
from jax._src.dtypes._scalars import (
    InvalidInputException as InvalidInputException,
    canonical_dtype_for as canonical_dtype_for,
    canonicalize_dtype as canonicalize_dtype,
    canonicalize_value as canonicalize_value,
    canonicalize_value_handlers as canonicalize_value_handlers,
    check_and_canonicalize_user_dtype as check_and_canonicalize_user_dtype,
    check_user_dtype_supported as check_user_dtype_supported,
    check_valid_dtype as check_valid_dtype,
    coerce_to_array as coerce_to_array,
    default_complex_dtype as default_complex_dtype,
    default_float_dtype as default_float_dtype,
    default_int_dtype as default_int_dtype,
    default_scalar_dtype as default_scalar_dtype,
    default_types as default_types,
    default_uint_dtype as default_uint_dtype,
    dtype as dtype,
    is_weakly_typed as is_weakly_typed,
    is_weakly_typed_scalar as is_weakly_typed_scalar,
    isdtype as isdtype,
    jax_dtype as jax_dtype,
    python_scalar_dtypes as python_scalar_dtypes,
    python_scalar_types as python_scalar_types,
    python_scalar_types_to_dtypes as python_scalar_types_to_dtypes,
    register_python_scalar_type as register_python_scalar_type,
    register_type_whose_dtype_should_not_be_canonicalized as register_type_whose_dtype_should_not_be_canonicalized,
    register_weak_scalar_type as register_weak_scalar_type,
    registered_weak_types as registered_weak_types,
    scalar_type_of as scalar_type_of,
    scalar_type_to_dtype as scalar_type_to_dtype,
    to_complex_dtype as to_complex_dtype,
    to_floating_dtype as to_floating_dtype,
    to_inexact_dtype as to_inexact_dtype,
    to_numeric_dtype as to_numeric_dtype,
)
from jax._src.dtypes._types import (
    DType as DType,
    ExtendedDType as ExtendedDType,
    bfloat16 as bfloat16,
    bit_width as bit_width,
    bool_types as bool_types,
    complex_types as complex_types,
    custom_float_dtypes as custom_float_dtypes,
    custom_float_scalar_types as custom_float_scalar_types,
    dtype_kinds as dtype_kinds,
    dtype_name as dtype_name,
    dtype_to_32bit_dtype as dtype_to_32bit_dtype,
    dtype_to_string as dtype_to_string,
    extended as extended,
    finfo as finfo,
    float0 as float0,
    float4_dtypes as float4_dtypes,
    float4_e2m1fn as float4_e2m1fn,
    float6_dtypes as float6_dtypes,
    float6_e2m3fn as float6_e2m3fn,
    float6_e3m2fn as float6_e3m2fn,
    float8_dtypes as float8_dtypes,
    float8_e3m4 as float8_e3m4,
    float8_e4m3 as float8_e4m3,
    float8_e4m3b11fnuz as float8_e4m3b11fnuz,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e8m0fnu as float8_e8m0fnu,
    float_types as float_types,
    iinfo as iinfo,
    int2 as int2,
    int4 as int4,
    int_types as int_types,
    intn_dtypes as intn_dtypes,
    is_subclass as is_subclass,
    issubdtype as issubdtype,
    itemsize_bits as itemsize_bits,
    jax_dtype_set as jax_dtype_set,
    jax_types as jax_types,
    ml_dtypes_has_int1 as ml_dtypes_has_int1,
    prng_key as prng_key,
    short_dtype_name as short_dtype_name,
    signed_types as signed_types,
    string_dtype as string_dtype,
    supports_inf as supports_inf,
    uint2 as uint2,
    uint4 as uint4,
    unsigned_types as unsigned_types,
    weak_types as weak_types,
)

if ml_dtypes_has_int1:
    from jax._src.dtypes._types import int1 as int1, uint1 as uint1

# Private names that libraries import.
_jax_types = jax_types
_jax_dtype_set = jax_dtype_set
_dtype_kinds = dtype_kinds
