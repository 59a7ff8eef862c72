"""Vectors of TPUs in kernels: masked writes, packed elements, stochastic rounding, random bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import Primitive, ReadEffect, ShapedArray, WriteEffect, typeof
from jax._src.debugging import debug_effect
from jax._src.interpreters import batching, mlir
from jax._src.lax import lax
from jax._src.state.primitives import apply_transforms, ref_get, ref_set, update_view
from jax._src.state.types import ref_and_transforms, transform_type
from jax._src.tree_util import tree_flatten, tree_unflatten

traceback_util.register_exclusion(__file__)

# Masked reads and writes. The operands are the reference, the value of a write, the mask, and the leaves of views.

masked_load_p = Primitive("masked_load")
masked_store_p = Primitive("masked_store", multiple_results=True)
masked_store_p.ref_primitive = True


def _checked_mask(ref: Any, mask: Any, name: str) -> Any:
    ref, transforms = ref_and_transforms(ref, name)
    aval = transform_type(transforms, typeof(ref).inner_aval)  # type: ignore[attr-defined]
    mask_aval: Any = typeof(mask)
    if mask_aval.dtype != np.bool_ or mask_aval.shape != aval.shape:
        raise ValueError(
            f"{name} takes a mask of booleans of the reference's shape {aval.shape}, got {mask_aval.str_short()}."
        )
    return ref, tree_flatten(transforms), aval


def load(ref: Any, *, mask: Any = None) -> Any:
    """Read from a reference.

    Args:
      ref: reference, or a view of one.
      mask: booleans of its shape that say which elements are read; others have no meaningful value.

    Raises:
      ValueError: if the mask is of another shape or type.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def kernel(x_ref, o_ref):
    ...   o_ref[...] = pltpu.load(x_ref.at[2:])
    >>> pl.pallas_call(kernel, jax.ShapeDtypeStruct((2,), jnp.float32), interpret=True)(jnp.arange(4.))
    Array([2., 3.], dtype=float32)
    """
    if mask is None:
        return ref_get(ref)
    ref, (flat, tree), _ = _checked_mask(ref, mask, "load")
    return masked_load_p.bind(ref, mask, *flat, tree=tree)


def store(ref: Any, val: Any, *, mask: Any = None) -> None:
    """Write to a reference.

    Args:
      ref: reference, or a view of one.
      val: array of its shape and dtype.
      mask: booleans of its shape that say which elements are written.

    Raises:
      ValueError: if the mask or the array is of another shape or type.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def kernel(x_ref, o_ref):
    ...   o_ref[...] = jnp.zeros(4)
    ...   pltpu.store(o_ref, x_ref[...], mask=x_ref[...] > 1)
    >>> x = jnp.arange(4.)
    >>> pl.pallas_call(kernel, x, interpret=True)(x)
    Array([0., 0., 2., 3.], dtype=float32)
    """
    if mask is None:
        ref_set(ref, None, val)
        return
    ref, (flat, tree), aval = _checked_mask(ref, mask, "store")
    val_aval: Any = typeof(val)
    if (val_aval.shape, val_aval.dtype) != (aval.shape, aval.dtype):
        raise ValueError(
            f"store takes an array of the reference's type {aval.str_short()}, got {val_aval.str_short()}."
        )
    masked_store_p.bind(ref, val, mask, *flat, tree=tree)


@masked_load_p.def_effectful_abstract_eval
def _load_types(ref: Any, mask: Any, *flat: Any, tree: Any) -> Any:
    aval = transform_type(tree_unflatten(tree, flat), ref.inner_aval)
    return ShapedArray(aval.shape, aval.dtype), {ReadEffect(0)}


@masked_store_p.def_effectful_abstract_eval
def _store_types(*avals: Any, tree: Any) -> Any:
    return [], {WriteEffect(0)}


def _load_discharge(
    should: Any, ins: Any, outs: Any, x: Any, mask: Any, *flat: Any, tree: Any
) -> Any:
    return (None,) * (2 + len(flat)), [apply_transforms(x, tree_unflatten(tree, flat))]


def _store_discharge(
    should: Any, ins: Any, outs: Any, x: Any, val: Any, mask: Any, *flat: Any, tree: Any
) -> Any:
    transforms = tree_unflatten(tree, flat)
    new = lax.select(mask, val, apply_transforms(x, transforms))
    return (update_view(x, transforms, new), *[None] * (2 + len(flat))), []


masked_load_p.discharge = _load_discharge
masked_store_p.discharge = _store_discharge


# Packed elements


def _bits(dtype: Any) -> int:
    return int(dtypes.itemsize_bits(dtype))


def _unsigned(bits: int) -> Any:
    return np.dtype(f"uint{bits}")


pack_elementwise_p = Primitive("pack_elementwise")


def pack_elementwise(xs: Sequence[Any], *, packed_dtype: Any) -> Any:
    """Convert arrays to a narrower type, and put elements at the same place into one integer.

    Args:
      xs: arrays of one shape and dtype, as many as elements fit; the first has the lowest bits.
      packed_dtype: the narrower type. Of integers the lowest bits are kept.

    Returns:
      Unsigned integers, as wide as the elements of the arrays.

    Raises:
      ValueError: if there are more or fewer arrays, or of several types.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> pltpu.pack_elementwise([jnp.int32([1]), jnp.int32([2])], packed_dtype=jnp.int16)
    Array([131073], dtype=uint32)
    """
    packed = dtypes.check_and_canonicalize_user_dtype(packed_dtype, "pack_elementwise")
    avals: list[Any] = [typeof(x) for x in xs]
    if not avals or any([(a.shape, a.dtype) != (avals[0].shape, avals[0].dtype) for a in avals]):
        raise ValueError(
            f"pack_elementwise takes arrays of one type, got {[a.str_short() for a in avals]}."
        )
    if len(xs) * _bits(packed) != _bits(avals[0].dtype):
        raise ValueError(
            f"pack_elementwise takes {_bits(avals[0].dtype) // _bits(packed)} arrays of {avals[0].str_short()} for elements of "
            f"{dtypes.dtype_name(packed)}, got {len(xs)}."
        )
    floating = lambda d: dtypes.issubdtype(d, np.floating)
    if floating(packed) != floating(avals[0].dtype):
        raise ValueError(
            f"pack_elementwise takes floating-point numbers for {dtypes.dtype_name(packed)}, or integers for integers, got "
            f"{avals[0].str_short()}."
        )
    return pack_elementwise_p.bind(*xs, packed_dtype=packed)


@pack_elementwise_p.def_abstract_eval
def _pack_types(*avals: Any, packed_dtype: Any) -> Any:
    return ShapedArray(avals[0].shape, _unsigned(_bits(avals[0].dtype)))


def _pack(*xs: Any, packed_dtype: Any) -> Any:
    bits = _bits(packed_dtype)
    wide = _unsigned(_bits(xs[0].dtype))
    out = None
    for i, x in enumerate(xs):
        word = _word(lax.convert_element_type(x, packed_dtype), packed_dtype, wide)
        word = lax.shift_left(word, lax.full_like(word, i * bits))
        out = word if out is None else lax.bitwise_or(out, word)
    return out


def _word(x: Any, dtype: Any, wide: Any) -> Any:
    bits = _bits(dtype)
    if bits >= 8:
        return lax.convert_element_type(lax.bitcast_convert_type(x, _unsigned(bits)), wide)
    mask = np.asarray((1 << bits) - 1, wide)
    return lax.bitwise_and(lax.convert_element_type(x, wide), lax.broadcast(mask, x.shape))


unpack_elementwise_p = Primitive("unpack_elementwise")


def unpack_elementwise(x: Any, *, index: int, packed_dtype: Any, unpacked_dtype: Any) -> Any:
    """Take one of several elements from each integer that `pack_elementwise` has made.

    Args:
      x: array of integers.
      index: which element, 0 for that in the lowest bits.
      packed_dtype: the type of the element.
      unpacked_dtype: the type of the result, as wide as the integers.

    Raises:
      ValueError: if there is no such element.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> x = jnp.array([131073], jnp.uint32)
    >>> pltpu.unpack_elementwise(x, index=1, packed_dtype=jnp.int16, unpacked_dtype=jnp.int32)
    Array([2], dtype=int32)
    """
    packed = dtypes.check_and_canonicalize_user_dtype(packed_dtype, "unpack_elementwise")
    unpacked = dtypes.check_and_canonicalize_user_dtype(unpacked_dtype, "unpack_elementwise")
    aval: Any = typeof(x)
    if not dtypes.issubdtype(aval.dtype, np.integer) or _bits(aval.dtype) != _bits(unpacked):
        raise ValueError(
            f"unpack_elementwise takes integers as wide as {dtypes.dtype_name(unpacked)}, got {aval.str_short()}."
        )
    count = _bits(aval.dtype) // _bits(packed)
    if not 0 <= index < count:
        raise ValueError(f"unpack_elementwise: index {index} of {count} elements.")
    return unpack_elementwise_p.bind(x, index=index, packed_dtype=packed, unpacked_dtype=unpacked)


@unpack_elementwise_p.def_abstract_eval
def _unpack_types(x: Any, *, unpacked_dtype: Any, **_: Any) -> Any:
    return ShapedArray(x.shape, unpacked_dtype)


def _unpack(x: Any, *, index: int, packed_dtype: Any, unpacked_dtype: Any) -> Any:
    bits = _bits(packed_dtype)
    words = lax.bitcast_convert_type(x, _unsigned(_bits(x.dtype)))
    words = lax.shift_right_logical(words, lax.full_like(words, index * bits))
    if bits >= 8:
        narrow = lax.convert_element_type(words, _unsigned(bits))
        element = lax.bitcast_convert_type(narrow, packed_dtype)
    else:
        element = lax.convert_element_type(words, packed_dtype)
    return lax.convert_element_type(element, unpacked_dtype)


stochastic_round_p = Primitive("stochastic_round")


def stochastic_round(x: Any, random_bits: Any, *, target_dtype: Any) -> Any:
    """Round to one of the two neighbours in a narrower type, the nearer the more likely.

    Args:
      x: array of float32.
      random_bits: array of uint32 of the same shape.
      target_dtype: the narrower floating-point type; bfloat16 where kernels are interpreted.

    Raises:
      ValueError: if types or shapes are others.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> pltpu.stochastic_round(jnp.float32([1.]), jnp.uint32([7]), target_dtype=jnp.bfloat16)
    Array([1], dtype=bfloat16)
    """
    target = dtypes.check_and_canonicalize_user_dtype(target_dtype, "stochastic_round")
    x_aval: Any = typeof(x)
    bits_aval: Any = typeof(random_bits)
    if (
        x_aval.dtype != np.float32
        or bits_aval.dtype != np.uint32
        or x_aval.shape != bits_aval.shape
    ):
        raise ValueError(
            "stochastic_round takes float32 numbers and as many random bits as uint32, got "
            f"{x_aval.str_short()} and {bits_aval.str_short()}."
        )
    if not dtypes.issubdtype(target, np.floating) or _bits(target) >= 32:
        raise ValueError(
            f"stochastic_round rounds to a narrower type, got {dtypes.dtype_name(target)}."
        )
    return stochastic_round_p.bind(x, random_bits, target_dtype=target)


@stochastic_round_p.def_abstract_eval
def _round_types(x: Any, random_bits: Any, *, target_dtype: Any) -> Any:
    return ShapedArray(x.shape, target_dtype)


def _stochastically_rounded(x: Any, random_bits: Any, *, target_dtype: Any) -> Any:
    if dtypes.dtype_name(target_dtype) != "bfloat16":
        raise NotImplementedError(
            f"stochastic_round to {dtypes.dtype_name(target_dtype)} in a kernel that is interpreted: use bfloat16."
        )
    word = lax.bitcast_convert_type(x, np.uint32)
    low, high = [lax.full_like(word, m) for m in (0xFFFF, 0xFFFF0000)]
    moved = lax.bitwise_and(lax.add(word, lax.bitwise_and(random_bits, low)), high)
    rounded = lax.bitcast_convert_type(moved, np.float32)
    return lax.convert_element_type(lax.select(lax.is_finite(x), rounded, x), target_dtype)


for _p, _f in (
    (pack_elementwise_p, _pack),
    (unpack_elementwise_p, _unpack),
    (stochastic_round_p, _stochastically_rounded),
):
    mlir.register_lowering(_p, mlir.lower_fun(_f, multiple_results=False))
    batching.defvectorized(_p)


# Random bits of the device: kernels that are compiled have them only.

prng_seed_p = Primitive("prng_seed", multiple_results=True)
prng_random_bits_p = Primitive("prng_random_bits")


def prng_seed(*seeds: Any) -> None:
    """Set the state of the device's generator of random bits.

    Args:
      *seeds: int32 scalars, which are mixed.
    """
    prng_seed_p.bind(*[lax.convert_element_type(s, np.int32) for s in seeds])


@prng_seed_p.def_effectful_abstract_eval
def _seed_types(*_: Any) -> Any:
    return [], {debug_effect}


def prng_random_bits(shape: Sequence[int]) -> Any:
    """Return random bits of the device's generator, as an int32 array.

    Args:
      shape: its shape.
    """
    return prng_random_bits_p.bind(shape=tuple(shape))


@prng_random_bits_p.def_effectful_abstract_eval
def _bits_types(*, shape: tuple[int, ...]) -> Any:
    return ShapedArray(shape, np.dtype(np.int32)), {debug_effect}
