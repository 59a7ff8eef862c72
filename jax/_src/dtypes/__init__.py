"""Types of array elements: which there are, what Python's scalars become, how types combine.

Three ideas:

- Canonical types. Unless `jax_enable_x64` is on, values of 64-bit types become 32-bit ones.
- Weak types. A Python scalar has a weak type: it takes the type of what it meets, if that is of the
  same kind or a greater one (`bool` < `int` < `float` < `complex`).
- Promotion. Types and weak types form a lattice; a result's type is the least upper bound.
"""

from jax._src.dtypes._promotion import (
    TypePromotionError as TypePromotionError,
)
from jax._src.dtypes._promotion import (
    _dtype_and_weaktype as _dtype_and_weaktype,
)
from jax._src.dtypes._promotion import (
    _jax_type as _jax_type,
)
from jax._src.dtypes._promotion import (
    _least_upper_bound as _least_upper_bound,
)
from jax._src.dtypes._promotion import (
    _type_promotion_lattice as _type_promotion_lattice,
)
from jax._src.dtypes._promotion import (
    lattice_result_type as lattice_result_type,
)
from jax._src.dtypes._promotion import (
    promote_types as promote_types,
)
from jax._src.dtypes._promotion import (
    result_type as result_type,
)
from jax._src.dtypes._promotion import (
    safe_to_cast as safe_to_cast,
)
from jax._src.dtypes._scalars import (
    InvalidInputException as InvalidInputException,
)
from jax._src.dtypes._scalars import (
    _canonicalize_dtype as _canonicalize_dtype,
)
from jax._src.dtypes._scalars import (
    _registered_weak_types as _registered_weak_types,
)
from jax._src.dtypes._scalars import (
    canonicalize_dtype as canonicalize_dtype,
)
from jax._src.dtypes._scalars import (
    canonicalize_value as canonicalize_value,
)
from jax._src.dtypes._scalars import (
    canonicalize_value_handlers as canonicalize_value_handlers,
)
from jax._src.dtypes._scalars import (
    check_and_canonicalize_user_dtype as check_and_canonicalize_user_dtype,
)
from jax._src.dtypes._scalars import (
    check_user_dtype_supported as check_user_dtype_supported,
)
from jax._src.dtypes._scalars import (
    check_valid_dtype as check_valid_dtype,
)
from jax._src.dtypes._scalars import (
    coerce_to_array as coerce_to_array,
)
from jax._src.dtypes._scalars import (
    default_complex_dtype as default_complex_dtype,
)
from jax._src.dtypes._scalars import (
    default_float_dtype as default_float_dtype,
)
from jax._src.dtypes._scalars import (
    default_int_dtype as default_int_dtype,
)
from jax._src.dtypes._scalars import (
    default_scalar_dtype as default_scalar_dtype,
)
from jax._src.dtypes._scalars import (
    default_types as default_types,
)
from jax._src.dtypes._scalars import (
    default_uint_dtype as default_uint_dtype,
)
from jax._src.dtypes._scalars import (
    dtype as dtype,
)
from jax._src.dtypes._scalars import (
    is_weakly_typed as is_weakly_typed,
)
from jax._src.dtypes._scalars import (
    is_weakly_typed_scalar as is_weakly_typed_scalar,
)
from jax._src.dtypes._scalars import (
    isdtype as isdtype,
)
from jax._src.dtypes._scalars import (
    jax_dtype as jax_dtype,
)
from jax._src.dtypes._scalars import (
    python_scalar_dtypes as python_scalar_dtypes,
)
from jax._src.dtypes._scalars import (
    python_scalar_types as python_scalar_types,
)
from jax._src.dtypes._scalars import (
    python_scalar_types_to_dtypes as python_scalar_types_to_dtypes,
)
from jax._src.dtypes._scalars import (
    register_python_scalar_type as register_python_scalar_type,
)
from jax._src.dtypes._scalars import (
    register_type_whose_dtype_should_not_be_canonicalized as register_type_whose_dtype_should_not_be_canonicalized,  # noqa: E501
)
from jax._src.dtypes._scalars import (
    register_weak_scalar_type as register_weak_scalar_type,
)
from jax._src.dtypes._scalars import (
    scalar_type_of as scalar_type_of,
)
from jax._src.dtypes._scalars import (
    scalar_type_to_dtype as scalar_type_to_dtype,
)
from jax._src.dtypes._scalars import (
    to_complex_dtype as to_complex_dtype,
)
from jax._src.dtypes._scalars import (
    to_floating_dtype as to_floating_dtype,
)
from jax._src.dtypes._scalars import (
    to_inexact_dtype as to_inexact_dtype,
)
from jax._src.dtypes._scalars import (
    to_numeric_dtype as to_numeric_dtype,
)
from jax._src.dtypes._types import (
    ExtendedDType as ExtendedDType,
)
from jax._src.dtypes._types import (
    _bool_types as _bool_types,
)
from jax._src.dtypes._types import (
    _complex_types as _complex_types,
)
from jax._src.dtypes._types import (
    _custom_float_dtypes as _custom_float_dtypes,
)
from jax._src.dtypes._types import (
    _custom_float_scalar_types as _custom_float_scalar_types,
)
from jax._src.dtypes._types import (
    _dtype_kinds as _dtype_kinds,
)
from jax._src.dtypes._types import (
    _dtype_to_32bit_dtype as _dtype_to_32bit_dtype,
)
from jax._src.dtypes._types import (
    _float4_dtypes as _float4_dtypes,
)
from jax._src.dtypes._types import (
    _float6_dtypes as _float6_dtypes,
)
from jax._src.dtypes._types import (
    _float8_dtypes as _float8_dtypes,
)
from jax._src.dtypes._types import (
    _float_types as _float_types,
)
from jax._src.dtypes._types import (
    _int_types as _int_types,
)
from jax._src.dtypes._types import (
    _intn_dtypes as _intn_dtypes,
)
from jax._src.dtypes._types import (
    _issubclass as _issubclass,
)
from jax._src.dtypes._types import (
    _jax_dtype_set as _jax_dtype_set,
)
from jax._src.dtypes._types import (
    _jax_types as _jax_types,
)
from jax._src.dtypes._types import (
    _signed_types as _signed_types,
)
from jax._src.dtypes._types import (
    _unsigned_types as _unsigned_types,
)
from jax._src.dtypes._types import (
    _weak_types as _weak_types,
)
from jax._src.dtypes._types import (
    bfloat16 as bfloat16,
)
from jax._src.dtypes._types import (
    bit_width as bit_width,
)
from jax._src.dtypes._types import (
    dtype_name as dtype_name,
)
from jax._src.dtypes._types import (
    dtype_to_string as dtype_to_string,
)
from jax._src.dtypes._types import (
    extended as extended,
)
from jax._src.dtypes._types import (
    finfo as finfo,
)
from jax._src.dtypes._types import (
    float0 as float0,
)
from jax._src.dtypes._types import (
    float4_e2m1fn as float4_e2m1fn,
)
from jax._src.dtypes._types import (
    float6_e2m3fn as float6_e2m3fn,
)
from jax._src.dtypes._types import (
    float6_e3m2fn as float6_e3m2fn,
)
from jax._src.dtypes._types import (
    float8_e3m4 as float8_e3m4,
)
from jax._src.dtypes._types import (
    float8_e4m3 as float8_e4m3,
)
from jax._src.dtypes._types import (
    float8_e4m3b11fnuz as float8_e4m3b11fnuz,
)
from jax._src.dtypes._types import (
    float8_e4m3fn as float8_e4m3fn,
)
from jax._src.dtypes._types import (
    float8_e4m3fnuz as float8_e4m3fnuz,
)
from jax._src.dtypes._types import (
    float8_e5m2 as float8_e5m2,
)
from jax._src.dtypes._types import (
    float8_e5m2fnuz as float8_e5m2fnuz,
)
from jax._src.dtypes._types import (
    float8_e8m0fnu as float8_e8m0fnu,
)
from jax._src.dtypes._types import (
    iinfo as iinfo,
)
from jax._src.dtypes._types import (
    int2 as int2,
)
from jax._src.dtypes._types import (
    int4 as int4,
)
from jax._src.dtypes._types import (
    issubdtype as issubdtype,
)
from jax._src.dtypes._types import (
    itemsize_bits as itemsize_bits,
)
from jax._src.dtypes._types import (
    ml_dtypes_has_int1 as ml_dtypes_has_int1,
)
from jax._src.dtypes._types import (
    prng_key as prng_key,
)
from jax._src.dtypes._types import (
    short_dtype_name as short_dtype_name,
)
from jax._src.dtypes._types import (
    string_dtype as string_dtype,
)
from jax._src.dtypes._types import (
    supports_inf as supports_inf,
)
from jax._src.dtypes._types import (
    uint2 as uint2,
)
from jax._src.dtypes._types import (
    uint4 as uint4,
)

if ml_dtypes_has_int1:
    from jax._src.dtypes._types import int1 as int1
    from jax._src.dtypes._types import uint1 as uint1
