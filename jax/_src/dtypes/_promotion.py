"""The promotion lattice of dtypes, and the dtype of the result of combining values."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src import config
from jax._src.config import ExplicitX64Mode, NumpyDtypePromotion
from jax._src.dtypes._scalars import (
    default_float_dtype,
    dtype,
    is_weakly_typed,
    jax_dtype,
    registered_weak_types,
    scalar_dtypes,
)
from jax._src.dtypes._types import (
    ExtendedDType,
    bfloat16_dtype,
    bits_of,
    bool_dtype,
    complex_types,
    dtype_to_32bit_dtype,
    export,
    float32_dtype,
    float64_dtype,
    float_types,
    int_types,
    intn_dtypes,
    jax_types,
    mini_float_dtypes,
    weak_types,
)
from jax._src.errors import TypePromotionError as TypePromotionError
from jax._src.typing import DType, DTypeLike
from jax._src.util import set_module

JAXType = Any  # a dtype, or `int`, `float` or `complex` for a weak type


def type_promotion_lattice(strict: bool, x64: bool) -> dict[JAXType, list[JAXType]]:
    """The direct upper bounds of each dtype. Two dtypes have one least upper bound, or none."""
    i_, f_, c_ = weak_types
    out: dict[JAXType, list[JAXType]]
    if strict:
        out = {t: [] for t in jax_types}
        out |= {
            i_: [f_, *int_types],
            f_: [c_, *float_types],
            c_: [*complex_types],
        }
        return out
    b1 = bool_dtype
    u1, u2, u4, u8 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
    i1, i2, i4, i8 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
    bf, f2, f4, f8 = bfloat16_dtype, np.dtype("float16"), float32_dtype, float64_dtype
    c4, c8 = complex_types
    out = {t: [] for t in [*mini_float_dtypes, *intn_dtypes]}
    out |= {
        b1: [i_],
        i_: [u1, i1, *intn_dtypes],
        u1: [i2, u2],
        # Without 64-bit dtypes, int32 is the result for uint32 and a signed dtype.
        u2: [i4, u4] if x64 else [u4],
        u4: [i8, u8] if x64 else [i4, u8],
        u8: [f_],
        i1: [i2],
        i2: [i4],
        i4: [i8],
        i8: [f_],
        f_: [*mini_float_dtypes, bf, f2, c_],
        bf: [f4],
        f2: [f4],
        f4: [f8, c4],
        f8: [c8],
        c_: [c4],
        c4: [c8],
        c8: [],
    }
    return out


@functools.cache
def _lattice_upper_bounds(strict: bool, x64: bool) -> dict[JAXType, set[JAXType]]:
    lattice = type_promotion_lattice(strict, x64)
    upper_bounds = {node: {node} for node in lattice}
    for bounds in upper_bounds.values():
        while True:
            more = set().union(*(lattice[b] for b in bounds)) - bounds
            if not more:
                break
            bounds |= more
    return upper_bounds


def jax_type(dtype: DType, weak_type: bool) -> JAXType:
    if weak_type and dtype != bool_dtype and not isinstance(dtype, ExtendedDType):
        return type(dtype.type(0).item())
    return dtype


@functools.cache
def least_upper_bound(strict: bool, x64: bool, *nodes: JAXType) -> JAXType:
    # The least common upper bound is the one whose upper bounds include all the others.
    first, *rest = nodes
    if any(isinstance(n, ExtendedDType) for n in nodes):
        if all(n == first for n in rest):
            return first
    bounds = _lattice_upper_bounds(strict, x64)
    for n in nodes:
        if n not in bounds:
            raise ValueError(f"dtype={n!r} is not a valid dtype for JAX type promotion.")
    common = bounds[first].intersection(*(bounds[n] for n in rest))
    least = common & set(nodes) or {c for c in common if common.issubset(bounds[c])}
    if len(least) == 1:
        return least.pop()
    for c in common:
        if common.issubset(bounds[c]):
            return c
    raise TypePromotionError(_no_promotion_message(strict, nodes))


def _no_promotion_message(strict: bool, nodes: tuple[JAXType, ...]) -> str:
    names = tuple(n.__name__ if isinstance(n, type) else str(n) for n in nodes)
    message = f"Input dtypes {names} have no available implicit dtype promotion path"
    if strict:
        return (
            f"{message} when jax_numpy_dtype_promotion=strict. Cast them to the type you want"
            " explicitly, or set jax_numpy_dtype_promotion=standard."
        )
    small = [n for n in nodes if n in mini_float_dtypes]
    if small:
        kind, example = f"{bits_of[small[0]]}-bit floats", "float32"
    else:
        kind, example = "1-bit, 2-bit and 4-bit integers", "int32"
    return (
        f"{message}. {kind} do not support implicit promotion, so that precision is not lost"
        f" unseen. Cast them explicitly to the type you want, for example x.astype('{example}')."
    )


def dtype_and_weak_type(value: Any) -> tuple[DType, bool]:
    """The dtype of `value` (or the dtype it names), and whether it is weak."""
    if isinstance(value, type):
        return dtype(value), value in registered_weak_types
    return dtype(value), is_weakly_typed(value)


def lattice_result_type(*args: Any) -> tuple[DType, bool]:
    """The dtype of combining `args` (arrays, scalars or dtypes), and whether it is weak."""
    x64 = config.enable_x64.value
    return _combine(
        config.numpy_dtype_promotion.value is NumpyDtypePromotion.STRICT,
        x64,
        x64 or config.explicit_x64_dtypes.value is ExplicitX64Mode.ALLOW,
        *[dtype_and_weak_type(arg) for arg in args],
    )


@functools.lru_cache(4096)
def _combine(
    strict: bool, x64: bool, keeps_64_bits: bool, *types: tuple[DType, bool]
) -> tuple[DType, bool]:
    first, first_is_weak = types[0]
    if len(types) == 1:
        return first, first_is_weak
    all_weak = all(weak for _, weak in types)
    if strict and all_weak:
        node = least_upper_bound(strict, x64, *dict.fromkeys(jax_type(*t) for t in types))
        return _canonical_node(node, x64, keeps_64_bits), True
    if all(t == first for t, _ in types):
        return first, all_weak
    # Weak types combined with each other are promoted like the corresponding strong dtypes.
    nodes = dict.fromkeys(jax_type(t, weak and not all_weak) for t, weak in types)
    node = least_upper_bound(strict, x64, *nodes)
    return _canonical_node(node, x64, keeps_64_bits), all_weak or isinstance(node, type)


def _canonical_node(node: JAXType, x64: bool, keeps_64_bits: bool) -> DType:
    if isinstance(node, type):
        return scalar_dtypes[node][x64]
    # Arrays of 64-bit types that were made in the context of `enable_x64` may meet others outside of it.
    return node if keeps_64_bits else dtype_to_32bit_dtype.get(node, node)


@export
def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype of the result of combining the arguments by JAX's promotion rules.

    Args:
      args: arrays, scalars and dtypes, at least one. Python scalars and their classes are weakly
        typed: they take the dtype of the others if that is of the same or a higher kind.
      return_weak_type_flag: whether to return also whether the result is weakly typed.

    Returns:
      An `np.dtype`, or (type, weak).

    Raises:
      TypePromotionError: the dtypes have no common dtype.
      ValueError: there are no arguments, or a dtype does not take part in promotion.

    Differs from NumPy: int32 and float32 give float32; see also jax_numpy_dtype_promotion.

    Example:
      >>> import jax.numpy as jnp
      >>> jnp.result_type(jnp.int32, jnp.float16), jnp.result_type(jnp.int8, 2.0)
      (dtype('float16'), dtype('float32'))
    """
    if not args:
        raise ValueError("at least one array or dtype is required")
    out, weak_type = lattice_result_type(
        *(default_float_dtype() if arg is None else arg for arg in args)
    )
    return (out, weak_type) if return_weak_type_flag else out


@set_module("jax.numpy")
def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """The dtype that two dtypes are promoted to.

    Args:
      a, b: dtypes. Python's `int`, `float` and `complex` stand for weak types.

    Raises:
      TypePromotionError: the dtypes have no common dtype.

    Differs from NumPy: see `jax.numpy.result_type`.

    Example:
      >>> import jax.numpy as jnp
      >>> jnp.promote_types("int8", "uint8"), jnp.promote_types(int, "bfloat16")
      (dtype('int16'), dtype(bfloat16))
    """
    strict = config.numpy_dtype_promotion.value is NumpyDtypePromotion.STRICT
    nodes = [
        t
        if isinstance(t, type) and t in weak_types
        else np.dtype(None)  # as NumPy has it
        if t is None
        else jax_dtype(t)
        for t in (a, b)
    ]
    node = least_upper_bound(strict, config.enable_x64.value, *nodes)
    return node if isinstance(node, ExtendedDType) else np.dtype(node)


def safe_to_cast(input_dtype_or_value: Any, output_dtype_or_value: Any) -> bool:
    """Whether promotion turns the first dtype (or the dtype of a value) into the second.

    The second is taken as strong; a weak first one may be narrowed within its kind.

    Raises:
      TypePromotionError: the dtypes have no common dtype.
    """
    input_type = dtype_and_weak_type(input_dtype_or_value)
    output_dtype = dtype(output_dtype_or_value)
    if input_type[0] == output_dtype:
        return True
    strict = config.numpy_dtype_promotion.value is NumpyDtypePromotion.STRICT
    combined, _ = _combine(strict, config.enable_x64.value, True, input_type, (output_dtype, False))
    return combined == output_dtype
