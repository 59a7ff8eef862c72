"""Making, splitting and inspecting keys."""

from collections.abc import Hashable
from typing import Any

import numpy as np

import jax.numpy as jnp
from jax._src import config, core, dtypes
from jax._src.core import typeof
from jax._src.random import prng
from jax._src.random.prng import KeyTy, PRNGImpl, PRNGKeyArray


class PRNGSpec:
    """An implementation, as `key_impl` gives for those without a registered name."""

    __slots__ = ("_impl",)

    def __init__(self, impl: PRNGImpl):
        self._impl = impl

    def __repr__(self) -> str:
        return f"PRNGSpec({self._impl.name!r})"

    def __str__(self) -> str:
        return str(self._impl)

    def __hash__(self) -> int:
        return hash(self._impl.name)

    def __eq__(self, other) -> bool:
        return isinstance(other, PRNGSpec) and self._impl is other._impl


def resolve_impl(spec: Any) -> PRNGImpl:
    """The implementation meant by a name, a `PRNGSpec`, a key dtype or None for the default."""
    if spec is None:
        return prng.default_prng_impl()
    if isinstance(spec, PRNGImpl):
        return spec
    if isinstance(spec, PRNGSpec):
        return spec._impl
    if isinstance(spec, str):
        return prng.find_impl(spec)
    if isinstance(spec, KeyTy):
        return spec._impl
    if isinstance(spec, Hashable):
        raise TypeError(f"unrecognized type {type(spec)} for specifying PRNG implementation.")
    raise TypeError(f"PRNG implementation must be given by name or `PRNGSpec`, got {spec!r}")


def _make_key(name: str, seed: Any, impl: PRNGImpl):
    if isinstance(seed, PRNGKeyArray) or isinstance(getattr(seed, "dtype", None), KeyTy):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    if np.ndim(seed):
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape {np.shape(seed)} != (). Use "
            "jax.vmap for batching"
        )
    aval = typeof(seed)
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(
            f"PRNG key seed must be an integer; got {seed!r} of dtype {dtypes.dtype_name(aval.dtype)}"
        )
    return prng.random_seed(seed, impl=impl)


def key(seed: int | Any, *, impl: Any = None, dtype: Any = None):
    """A key from an integer seed.

    Args:
      seed: integer scalar.
      impl: name of the implementation: 'threefry2x32', 'rbg', 'unsafe_rbg'; default as
        `jax_default_prng_impl` says.
      dtype: a key dtype, instead of `impl`.

    Returns:
      A scalar array of a key dtype.

    >>> jax.random.key(0)
    Array((), dtype=key<fry>) overlaying:
    [0 0]
    """
    if dtype is not None:
        if impl is not None:
            raise TypeError("jax.random.key: give `impl` or `dtype`, not both")
        if not isinstance(dtype, KeyTy):
            raise TypeError(f"jax.random.key: dtype must be a key dtype, got {dtype}")
        impl = dtype
    return _make_key("key", seed, resolve_impl(impl))


def PRNGKey(seed: int | Any, *, impl: Any = None):  # noqa: N802
    """A raw key, an array of `uint32`, from an integer seed; `jax.random.key` makes typed keys.

    >>> jax.random.PRNGKey(0)
    Array([0, 0], dtype=uint32)
    """
    return prng.random_unwrap(_make_key("PRNGKey", seed, resolve_impl(impl)))


def check_prng_key(name: str, key: Any, *, allow_batched: bool = False):
    """A typed key for a typed or raw one, and whether it was raw.

    Raises:
      TypeError, ValueError: if it is neither, or an array of keys where one is wanted.
    """
    if isinstance(key, PRNGKeyArray):
        wrapped = False
    elif isinstance(getattr(key, "dtype", None), KeyTy):
        wrapped = False
    elif hasattr(key, "shape") and hasattr(key, "dtype") and not isinstance(key, type):
        impl = prng.default_prng_impl()
        mode = config.legacy_prng_key.value
        mode = getattr(mode, "value", mode)
        if mode == "error":
            raise ValueError(
                "Legacy uint32 key array passed as key to jax.random function. Please create keys using "
                "jax.random.key(). If use of a raw key array was intended, set jax_legacy_prng_key='allow'."
            )
        key = prng.random_wrap(key, impl=impl)
        wrapped = True
    else:
        raise TypeError(f"unexpected PRNG key type {type(key)}: make keys with jax.random.key")
    if not allow_batched and key.ndim:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {key.shape} != (). Use "
            "jax.vmap for batching."
        )
    return key, wrapped


def return_like(key, wrapped: bool):
    """A result key, raw if the argument was."""
    return prng.random_unwrap(key) if wrapped else key


def split(key, num: int | tuple[int, ...] = 2):
    """New keys from a key.

    Args:
      key: a key.
      num: how many, an int or a shape.

    Returns:
      An array of keys of that shape.
    """
    typed, wrapped = check_prng_key("split", key)
    shape = tuple(num) if not np.ndim(num) == 0 or isinstance(num, tuple) else (num,)
    shape = core.canonicalize_shape(shape)
    if any(s < 0 for s in shape):
        raise ValueError(f"split: num must not be negative, got {num}")
    return return_like(prng.random_split(typed, shape), wrapped)


def fold_in(key, data: int | Any):
    """A new key from a key and an integer.

    Args:
      key: a key.
      data: integer scalar.

    Returns:
      A key.
    """
    typed, wrapped = check_prng_key("fold_in", key)
    if np.ndim(data):
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {np.shape(data)} != (). Use "
            "jax.vmap for batching."
        )
    return return_like(prng.random_fold_in(typed, jnp.uint32(data)), wrapped)


def key_data(keys):
    """The raw data of keys, an array of `uint32`."""
    if not (isinstance(keys, PRNGKeyArray) or isinstance(getattr(keys, "dtype", None), KeyTy)):
        prng.check_key_data(prng.default_prng_impl(), keys)
        keys, _ = check_prng_key("key_data", keys, allow_batched=True)
    return prng.random_unwrap(keys)


def wrap_key_data(key_bits_array, *, impl: Any = None, dtype: Any = None):
    """Keys from raw data.

    Args:
      key_bits_array: array of `uint32` whose shape ends with the implementation's key shape.
      impl: name of the implementation.
      dtype: a key dtype, instead of `impl`.
    """
    if dtype is not None:
        impl = dtype
    return prng.random_wrap(key_bits_array, impl=resolve_impl(impl))


def key_impl(keys) -> Hashable:
    """The implementation of keys: its name, or a `PRNGSpec` if it is not registered."""
    typed, _ = check_prng_key("key_impl", keys, allow_batched=True)
    impl = typed.dtype._impl
    return impl.name if prng.prngs.get(impl.name) is impl else PRNGSpec(impl)


def key_dtype(impl_spec: Any = None) -> KeyTy:
    """The dtype of keys of an implementation."""
    return prng.key_ty(resolve_impl(impl_spec))


def clone(key):
    """A key equal to another, which may be used again where reuse is checked (`jax_debug_key_reuse`)."""
    typed, wrapped = check_prng_key("clone", key, allow_batched=True)
    return return_like(prng.random_clone(typed), wrapped)
