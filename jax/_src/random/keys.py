"""Create, split and inspect keys."""

import warnings
from collections.abc import Hashable
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.array_impl import ArrayImpl
from jax._src.basearray import Array
from jax._src.core import eval_trace, trace_ctx, typeof
from jax._src.late_binding import late
from jax._src.numpy.util import lower_jax_array
from jax._src.random import prng
from jax._src.random.prng import KeyTy, PRNGImpl, PRNGKeyArray


class PRNGSpec:
    """A PRNG implementation, as `key_impl` returns it if its name is not registered."""

    __slots__ = ("_impl",)

    def __init__(self, impl: PRNGImpl):
        self._impl = impl

    def __repr__(self) -> str:
        return f"PRNGSpec({self._impl.name!r})"

    def __str__(self) -> str:
        return str(self._impl)

    def __hash__(self) -> int:
        return hash(self._impl)

    def __eq__(self, other) -> bool:
        return isinstance(other, PRNGSpec) and self._impl is other._impl


def resolve_impl(spec: Any) -> PRNGImpl:
    """Return the implementation for a name, `PRNGSpec` or key dtype, or the default for None."""
    if spec is None:
        return prng.default_prng_impl()
    if isinstance(spec, str):
        return prng.find_impl(spec)
    if isinstance(spec, PRNGImpl):
        return spec
    if isinstance(spec, (PRNGSpec, KeyTy)):
        return spec._impl
    raise TypeError(f"unrecognized type {type(spec)} for specifying PRNG implementation.")


def _one_impl(name: str, impl: Any, dtype: Any) -> PRNGImpl:
    if dtype is None:
        return resolve_impl(impl)
    if impl is not None:
        raise ValueError(f"Cannot specify both `impl` and `dtype` arguments to jax.random.{name}")
    return resolve_impl(dtype)


def _make_key(name: str, seed: Any, impl: PRNGImpl):
    if type(seed) is int:
        return prng.random_seed(seed, impl)
    seed = lower_jax_array(seed)
    dtype = getattr(seed, "dtype", None)
    if isinstance(dtype, KeyTy):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    if np.ndim(seed):
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape {np.shape(seed)} != (). Use "
            "jax.vmap for batching"
        )
    if type(seed) is bool:
        seed = int(seed)
    aval = typeof(seed)
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(
            f"PRNG key seed must be an integer; got {seed!r} of dtype {dtypes.dtype_name(aval.dtype)}"
        )
    return prng.random_seed(seed, impl)


def key(seed: int | Any, *, impl: Any = None, dtype: Any = None):
    """Create a key from an integer seed.

    Args:
      seed: integer scalar.
      impl: name of the implementation: 'threefry2x32', 'threefry4x32', 'philox2x32', 'philox4x32',
        'rbg' or 'unsafe_rbg'; the default is the value of `jax_default_prng_impl`.
      dtype: a key dtype, as an alternative to `impl`.

    Returns:
      A scalar array of a key dtype.

    Raises:
      TypeError: if the seed is a key, an array that is not a scalar, or not an integer.
      ValueError: if the implementation is unknown, or both `impl` and `dtype` are given.

    >>> jax.random.key(0)
    Array((), dtype=key<fry>) overlaying:
    [0 0]
    """
    return _make_key("key", seed, _one_impl("key", impl, dtype))


def PRNGKey(seed: int | Any, *, impl: Any = None):
    """Create a raw key, an array of `uint32`, from an integer seed.

    `jax.random.key` creates typed keys, and so does this function with `jax_enable_custom_prng`.

    Args:
      seed: integer scalar.
      impl: name of the implementation, see `jax.random.key`.

    Returns:
      Array of dtype `uint32`, of the key shape of the implementation.

    Raises:
      TypeError: if the seed is a key, an array that is not a scalar, or not an integer.
      ValueError: if the implementation is unknown.

    >>> jax.random.PRNGKey(0)
    Array([0, 0], dtype=uint32)
    """
    key = _make_key("PRNGKey", seed, resolve_impl(impl))
    return key if config.enable_custom_prng.value else prng.random_unwrap(key)


def is_typed(key: Any) -> bool:
    """Return whether `key` is an array or tracer of a key dtype."""
    return type(key) is PRNGKeyArray or isinstance(getattr(key, "dtype", None), KeyTy)


def check_prng_key(name: str, key: Any, *, allow_batched: bool = False):
    """Return a typed key for a typed or raw key, and whether it was raw.

    Raises:
      TypeError: if it is not a key.
      ValueError: if it is an array of keys and `allow_batched` is false.
    """
    wrapped = not is_typed(key)
    if wrapped:
        key = _wrap_raw(key)
    if not allow_batched and key.ndim:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {key.shape} != (). Use "
            "jax.vmap for batching."
        )
    return key, wrapped


def _wrap_raw(key: Any):
    if not isinstance(key, (Array, np.ndarray, np.generic)):
        raise TypeError(
            f"unexpected PRNG key type {type(key)}: give a key made by jax.random.key, or an array of uint32"
        )
    mode = config.legacy_prng_key.value
    if mode != "allow":
        text = (
            "Legacy uint32 key array passed as key to jax.random function. Please create keys using "
            "jax.random.key(). If use of a raw key array was intended, set jax_legacy_prng_key='allow'."
        )
        if mode == "error":
            raise ValueError(text)
        warnings.warn(text, stacklevel=4)
    impl = prng.default_prng_impl()
    if type(key) is ArrayImpl and trace_ctx.trace is eval_trace:
        return PRNGKeyArray(impl, key)
    return prng.random_wrap(key, impl=impl)


def return_like(key, wrapped: bool):
    """Unwrap a result key if the argument was raw."""
    return prng.random_unwrap(key) if wrapped else key


def split(key, num: int | tuple[int, ...] = 2):
    """Split a key into new keys.

    Args:
      key: PRNG key, typed or raw.
      num: number of new keys: an int, or a shape.

    Returns:
      An array of keys of that shape, typed if `key` is.

    Raises:
      TypeError: if `num` is negative.

    >>> key, subkey = jax.random.split(jax.random.key(0))
    """
    typed, wrapped = check_prng_key("split", key)
    if type(num) is int and num >= 0:
        shape: tuple[int, ...] = (num,)
    else:
        shape = core.canonicalize_shape(num if np.ndim(num) or isinstance(num, tuple) else (num,))
        if any(s < 0 for s in shape if isinstance(s, int)):
            raise TypeError(f"split: num must not be negative, got {num}")
    return return_like(prng.random_split_p.bind(typed, shape=shape), wrapped)


def fold_in(key, data: int | Any):
    """Derive a new key from a key and an integer.

    Args:
      key: PRNG key, typed or raw.
      data: integer scalar; arrays are taken modulo 2**32, a Python integer must lie in [0, 2**32).

    Returns:
      A key, typed if `key` is.

    Raises:
      TypeError: if `data` is not a scalar, or is complex.

    >>> print(jax.random.key_data(jax.random.fold_in(jax.random.key(0), 1)))
    [ 928981903 3453687069]
    """
    typed, wrapped = check_prng_key("fold_in", key)
    if type(data) is not int:
        data = lower_jax_array(data)
        if np.ndim(data):
            raise TypeError(
                f"fold_in accepts a scalar, but was given an array of shape {np.shape(data)} != (). "
                "Use jax.vmap for batching."
            )
        if isinstance(data, (bool, float)):
            data = int(data)
        elif dtypes.issubdtype(typeof(data).dtype, np.complexfloating):
            raise TypeError(f"fold_in accepts an integer, but was given {data}")
    return return_like(prng.random_fold_in(typed, data), wrapped)


def key_data(keys):
    """Return the raw data of keys.

    Args:
      keys: keys, typed or raw.

    Returns:
      Array of dtype `uint32` and shape (*keys.shape, *key_shape).

    >>> print(jax.random.key_data(jax.random.key(7)))
    [0 7]
    """
    typed, _ = check_prng_key("key_data", keys, allow_batched=True)
    return prng.random_unwrap(typed)


def wrap_key_data(key_bits_array, *, impl: Any = None, dtype: Any = None):
    """Create typed keys from raw data.

    Args:
      key_bits_array: array of `uint32` whose shape ends with the implementation's key shape.
      impl: name of the implementation.
      dtype: a key dtype, as an alternative to `impl`.

    Returns:
      An array of keys, of the shape of `key_bits_array` without the trailing key shape.

    >>> print(jax.random.wrap_key_data(jnp.array([0, 7], jnp.uint32)) == jax.random.key(7))
    True
    """
    return prng.random_wrap(key_bits_array, impl=_one_impl("wrap_key_data", impl, dtype))


def key_impl(keys) -> Hashable:
    """Return the implementation of keys: its name, or a `PRNGSpec` if it is not registered.

    >>> print(jax.random.key_impl(jax.random.key(0)))
    threefry2x32
    """
    typed, _ = check_prng_key("key_impl", keys, allow_batched=True)
    impl = typed.dtype._impl
    return impl.name if prng.prngs.get(impl.name) is impl else PRNGSpec(impl)


def key_dtype(impl_spec: Any = None) -> KeyTy:
    """Return the key dtype of an implementation: a name, a key dtype, or None for the default."""
    return prng.key_ty(resolve_impl(impl_spec))


def clone(key):
    """Copy a key, so that the copy may be used where reuse is checked (`jax_debug_key_reuse`)."""
    return prng.random_clone(key)


def _use_keys(params: dict[str, Any], args: Any) -> Any:
    from jax._src.key_reuse.runtime import use_keys  # loaded only if uses are counted

    return use_keys(params, args)


late.use_keys = _use_keys
