"""Key arrays: their extended dtype, and the primitives that create, split and consume keys.

A key array wraps an array of `uint32` whose trailing dimensions are the implementation's key shape.
An implementation (`PRNGImpl`) has functions of one raw key; the primitives map them over arrays.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from jax._src import config, core, dtypes, sharding_impls, wrapped_array
from jax._src.api import vmap
from jax._src.array_impl import ArrayImpl
from jax._src.core import Primitive, ShapedArray, Tracer, physical_aval
from jax._src.device_put import agreement, values as placing
from jax._src.interpreters import ad, batching, mlir, pxla
from jax._src.key_reuse.signatures import KeyReuseSignature, Sink, Source
from jax._src.lax import lax, slicing
from jax._src.lib import array_result_handler
from jax._src.numpy.util import to_array
from jax._src.random import ciphers, threefry
from jax._src.tree_util import dispatch_registry
from jax._src.wrapped_array import WrappedArray


class PRNGImpl:
    """A PRNG implementation: functions of one raw key, which is an array of shape `key_shape`.

    Args:
      key_shape: shape of the `uint32` array that represents a key.
      seed: (integer scalar) -> key.
      split: (key, shape) -> keys of shape (*shape, *key_shape).
      random_bits: (key, bit_width, shape) -> unsigned integers.
      fold_in: (key, uint32 scalar) -> key.
      name: the name to give to `jax.random.key(impl=...)`.
      tag: short name, printed in dtypes.
      random_bits_for: by the name of a consumer, functions that draw the same bits as `random_bits` in
        the form that suits it: "sort", which reads each element once, or "floats", which makes
        floating-point numbers of the same width. By default all are `random_bits`.
    """

    __slots__ = (
        "key_shape", "seed", "split", "random_bits", "random_bits_for", "fold_in", "name", "tag",
    )  # fmt: skip

    def __init__(
        self, key_shape: tuple[int, ...], seed: Callable, split: Callable, random_bits: Callable,
        fold_in: Callable, name: str = "<unnamed>", tag: str = "?",
        random_bits_for: tuple[tuple[str, Callable], ...] = (),
    ):  # fmt: skip
        self.key_shape = tuple(key_shape)
        self.seed = seed
        self.split = split
        self.random_bits = random_bits
        self.random_bits_for = tuple(random_bits_for)
        self.fold_in = fold_in
        self.name = name
        self.tag = tag

    def __repr__(self) -> str:
        return f"PRNGImpl(name={self.name!r}, tag={self.tag!r}, key_shape={self.key_shape})"

    def __str__(self) -> str:
        return self.tag

    def __reduce__(self):
        if prngs.get(self.name) is self:
            return find_impl, (self.name,)
        return the_impl, (
            self.key_shape, self.seed, self.split, self.random_bits, self.fold_in, self.name, self.tag,
            self.random_bits_for,
        )  # fmt: skip

    def call(self, name: str, *args: Any, shape: tuple[int, ...] = ()) -> Any:
        """Call the function `name`, which returns raw keys of this shape.

        Raises:
          TypeError: if it returns something else.
        """
        return self.check(name, getattr(self, name)(*args), (*shape, *self.key_shape), np.uint32)

    def check(self, name: str, out: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Raise TypeError unless `out`, which the function `name` returned, has this type."""
        aval = core.typeof(out)
        expected = ShapedArray(shape, np.dtype(dtype))
        if aval.shape != expected.shape or aval.dtype != expected.dtype:
            raise TypeError(
                f"the function {name} of the PRNG implementation {self.name!r}, whose keys have the shape "
                f"{self.key_shape}, must return {expected}, but returned {aval}"
            )
        return out


@functools.cache
def the_impl(*fields) -> PRNGImpl:
    """Return the implementation with these fields: dtypes, unpickled ones too, compare it by identity."""
    return PRNGImpl(*fields)


prngs: dict[str, PRNGImpl] = {}


def register_prng(impl: PRNGImpl) -> None:
    """Register an implementation under its name.

    Raises:
      ValueError: if the name is already registered.
    """
    if impl.name in prngs:
        raise ValueError(f"PRNG with name {impl.name!r} already registered: {prngs[impl.name]}")
    prngs[impl.name] = impl


def find_impl(name: str) -> PRNGImpl:
    """Return the implementation with this name.

    Raises:
      ValueError: if there is none; the message lists the registered names.
    """
    impl = prngs.get(name)
    if impl is None:
        known = ", ".join(f'"{n}"' for n in sorted(prngs))
        raise ValueError(
            f'unrecognized PRNG implementation "{name}". Did you mean one of: {known}?'
        )
    return impl


# The dtype


class KeyTyRules:
    """The rules that extended dtypes provide to the core, for key dtypes."""

    @staticmethod
    def physical_element_aval(dtype: "KeyTy") -> ShapedArray:
        return ShapedArray(dtype._impl.key_shape, np.dtype(np.uint32))

    @staticmethod
    def tangent_dtype(_) -> np.dtype:
        return dtypes.float0

    @staticmethod
    def zero(_):
        raise TypeError("keys have no zero: they are not numbers")

    @staticmethod
    def full(shape, fill_value, dtype: "KeyTy"):
        """Create keys that all equal `fill_value`, a key or raw key data."""
        if dtypes.issubdtype(getattr(fill_value, "dtype", None) or np.uint32, dtypes.prng_key):
            return lax.broadcast_in_dim(
                fill_value, shape, tuple(range(len(shape) - fill_value.ndim, len(shape)))
            )
        data = lax.full((*shape, *dtype._impl.key_shape), fill_value, np.uint32)
        return random_wrap(data, impl=dtype._impl)

    @staticmethod
    def physical_hlo_sharding(aval, hlo_sharding):
        return sharding_impls.physical_hlo_sharding(aval, hlo_sharding)

    @staticmethod
    def global_sharded_result_handler(aval, sharding, committed):
        """Return a handler that wraps a program's outputs in key arrays."""
        phys_sharding = sharding_impls.physical_sharding(aval, sharding)
        handler = array_result_handler(_unwrap_types(aval), phys_sharding, committed)
        impl = aval.dtype._impl
        return handler.wrap(lambda data: PRNGKeyArray._of(impl, data))

    @staticmethod
    def make_sharded_array(aval, sharding, arrays, committed):
        phys_sharding = sharding_impls.physical_sharding(aval, sharding)
        raw = [x._base_array if isinstance(x, PRNGKeyArray) else x for x in arrays]
        data = ArrayImpl(_unwrap_types(aval), phys_sharding, raw, committed=committed)
        return PRNGKeyArray(aval.dtype._impl, data)


class KeyTy(dtypes.ExtendedDType):
    """The dtype of the keys of one implementation."""

    _rules = KeyTyRules
    type = dtypes.prng_key
    __slots__ = ("_impl",)

    def __init__(self, impl: PRNGImpl):
        self._impl = impl

    @property
    def name(self) -> str:
        return f"key<{self._impl.tag}>"

    @property
    def itemsize(self) -> int:
        return int(np.prod(self._impl.key_shape)) * 4

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __eq__(self, other) -> bool:
        return type(other) is KeyTy and self._impl is other._impl

    def __hash__(self) -> int:
        return hash((KeyTy, self._impl.name))

    def __reduce__(self):
        return key_ty, (self._impl,)


@functools.cache
def key_ty(impl: PRNGImpl) -> KeyTy:
    return KeyTy(impl)


# The array


class PRNGKeyArray(WrappedArray):
    """An array of keys, which wraps an array of raw key data."""

    __slots__ = ("_impl", "_consumed", "_aval", "_rank")

    def __init__(self, impl: PRNGImpl, key_data: Any):
        check_key_data(impl, key_data)
        self._impl = impl
        self._base_array = key_data
        self._consumed: Any = False
        self._aval: Any = None
        self._rank = len(impl.key_shape)

    @classmethod
    def _of(cls, impl: PRNGImpl, data: ArrayImpl) -> "PRNGKeyArray":
        """Wrap data that is known to be valid, without checks."""
        self = object.__new__(cls)
        self._impl = impl
        self._base_array = data
        self._consumed = False
        self._aval = None
        self._rank = len(impl.key_shape)
        return self

    @property
    def aval(self) -> ShapedArray:
        if self._aval is None:
            # Derived from the data's aval, so that its sharding and varying manual axes carry over.
            self._aval = _wrap_types(self._base_array.aval, impl=self._impl)
        return self._aval

    @property
    def shape(self):
        data_shape = self._base_array.shape
        return data_shape[: len(data_shape) - len(self._impl.key_shape)]

    @property
    def dtype(self) -> KeyTy:
        return key_ty(self._impl)

    @property
    def nbytes(self) -> int:
        return self.itemsize * self.size

    def _part(self, data: Any) -> "PRNGKeyArray":
        return PRNGKeyArray(self._impl, data)

    def copy(self) -> "PRNGKeyArray":
        new = PRNGKeyArray(self._impl, self._base_array.copy())
        new._consumed = self._consumed
        return new

    def __reduce__(self):
        return _unpickle_key, (self._impl, np.asarray(self._base_array))

    def __hash__(self):
        raise TypeError("JAX array with PRNGKey dtype is not hashable")

    def __iter__(self):
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        if config.debug_key_reuse.value:
            return (self[i] for i in range(self.shape[0]))
        return (PRNGKeyArray._of(self._impl, row) for row in self._base_array)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use "
            "jax.random.key_data(arr) if you wish to extract the underlying integer array."
        )

    def __bool__(self):
        raise TypeError("key array cannot be converted to boolean.")

    def _no_number(self, *args, **kwargs):
        raise NotImplementedError(
            "keys are not numbers: jax.random.key_data gives the integers that they consist of."
        )

    real = imag = property(_no_number)
    all = any = max = min = argmax = argmin = ptp = nonzero = _no_number
    sum = prod = mean = std = var = cumsum = cumprod = trace = dot = _no_number
    sort = argsort = argpartition = searchsorted = choose = _no_number
    conj = conjugate = clip = round = byteswap = item = _no_number

    # Keys convert only to the dtype that they have.

    def astype(self, dtype, copy=False, device=None):
        if dtype != self.dtype:
            self._no_number()
        return super().astype(dtype, copy=copy, device=device)

    def view(self, dtype=None, type=None):
        if dtype is not None and dtype != self.dtype:
            self._no_number()
        return super().view(dtype, type)

    def __repr__(self) -> str:
        return f"Array({self.shape}, dtype={self.dtype.name}) overlaying:\n{self._base_array}"

    __str__ = __repr__


def _unpickle_key(impl: PRNGImpl | str, data: np.ndarray) -> PRNGKeyArray:
    # Older pickles have the implementation's name.
    return PRNGKeyArray(find_impl(impl) if isinstance(impl, str) else impl, to_array(data))


def check_key_data(impl: PRNGImpl, data: Any) -> None:
    """Raise TypeError unless `data` is valid raw data of keys."""
    n = len(impl.key_shape)
    if not all(hasattr(data, attr) for attr in ("ndim", "shape", "dtype")):
        raise TypeError(
            "JAX encountered invalid PRNG key data: expected key_data to have ndim, shape, and dtype "
            f"attributes. Got {data}"
        )
    if data.ndim < n:
        raise TypeError(
            f"JAX encountered invalid PRNG key data: expected key_data.ndim >= {n}; got ndim={data.ndim}"
        )
    if tuple(data.shape[data.ndim - n :]) != impl.key_shape:
        raise TypeError(
            "JAX encountered invalid PRNG key data: expected key_data.shape to end with "
            f"{impl.key_shape}; got shape={tuple(data.shape)} for impl={impl!r}"
        )
    if data.dtype not in (np.uint32, dtypes.float0):
        raise TypeError(
            "JAX encountered invalid PRNG key data: expected key_data.dtype = uint32; got "
            f"dtype={dtypes.dtype_name(data.dtype)}"
        )


core.pytype_aval_mappings[PRNGKeyArray] = lambda x: x.aval

# The C++ jit dispatch flattens key arrays to their data; in all other pytrees they are leaves.
dispatch_registry.register_node(
    PRNGKeyArray,
    lambda keys: ((keys._base_array,), keys._impl),
    lambda impl, data: PRNGKeyArray._of(impl, data[0]),
)


pxla.shard_arg_handlers[PRNGKeyArray] = wrapped_array.shard_args
dtypes.canonicalize_value_handlers[PRNGKeyArray] = lambda x: x
mlir.register_constant_handler(
    PRNGKeyArray, lambda keys, _: mlir.ir_constant(keys._base_array, aval=keys._base_array.aval)
)


def _put_keys(keys, target, copy_semantics):
    data = wrapped_array.put_data(keys, target, copy_semantics)
    put = PRNGKeyArray._of(keys._impl, data)
    put._consumed = keys._consumed
    return put


placing.device_put_handlers[PRNGKeyArray] = _put_keys
agreement.underlying_arrays[PRNGKeyArray] = lambda keys: keys._base_array


def is_key_array(x: Any) -> bool:
    """Return whether `x` is an array or a tracer of keys."""
    return isinstance(x, PRNGKeyArray) or (
        isinstance(x, Tracer) and isinstance(getattr(x.aval, "dtype", None), KeyTy)
    )


# The primitives. Each is lowered as `raw(*arrays, impl=, **params)`, a function of raw key data.


def _over_keys(fun: Callable, ndim: int, operands: int = 1) -> Callable:
    for _ in range(ndim):
        fun = vmap(fun, in_axes=(0,) * operands)
    return fun


def _over_array(fun: Callable, impl: PRNGImpl, data: Any) -> Any:
    return _over_keys(fun, data.ndim - len(impl.key_shape))(data)


def _lower_raw(raw: Callable) -> Callable:
    lowered = mlir.lower_fun(raw, multiple_results=False)

    def rule(ctx, *args, **params):
        if "impl" not in params:
            params["impl"] = getattr(ctx.avals_in[0].dtype, "_impl", None)
        # Each key is processed alone, so the keys' sharding must not constrain the inner code.
        plain = lambda avals: [physical_aval(a).update(sharding=None) for a in avals]
        inner = ctx.replace(avals_in=plain(ctx.avals_in), avals_out=plain(ctx.avals_out))
        return lowered(inner, *args, **params)

    return rule


def _primitive(
    name: str, types: Callable, raw: Callable, batch: Callable | None = None
) -> Primitive:
    p = Primitive(name)
    p.operands_vary_alike = True
    p.def_abstract_eval(types)
    p.batch = batch or (lambda args, dims, **params: _front_batch(p, args, dims, params))
    p.jvp = functools.partial(ad.zero_jvp, p)
    mlir.register_lowering(p, _lower_raw(raw))
    return p


def _front_batch(p, args, dims, params):
    (x,), (d,) = args, dims
    return p.bind(batching.moveaxis(x, d, 0), **params), 0


def _with_dims(aval: ShapedArray, extra: tuple[int, ...], dtype: Any) -> ShapedArray:
    """Return `aval` with new trailing dimensions, which are not sharded, and another dtype."""
    out = ShapedArray((*aval.shape, *extra), dtype, manual_axis_type=aval.manual_axis_type)
    if aval._sharding is None:
        return out
    spec = (*aval.sharding.spec, *(None,) * len(extra))
    return out.update(sharding=aval.sharding.update(spec=spec))


def _check_keys(name: str, aval) -> None:
    if not isinstance(getattr(aval, "dtype", None), KeyTy):
        raise TypeError(f"{name} expects a key array, got {aval}. Make keys with jax.random.key.")


# seed


def _seed_raw(seeds, *, impl):
    return _over_keys(functools.partial(impl.call, "seed"), seeds.ndim)(seeds)


random_seed_p = _primitive(
    "random_seed", lambda seeds, *, impl: _with_dims(seeds, (), key_ty(impl)), _seed_raw
)


def random_seed(seeds: Any, impl: PRNGImpl) -> Any:
    """Create keys from integer seeds."""
    if type(seeds) is int:
        if not -(2**31) <= seeds < 2**31:
            # Without x64 the seed keeps its low 32 bits, as arrays do.
            seeds = np.int64(seeds)
            if not config.enable_x64.value:
                seeds = seeds.astype(np.int32)
    elif not isinstance(seeds, Tracer):
        seeds = to_array(seeds)
    if offset := config.random_seed_offset.value:
        seeds = to_array(seeds) + offset
    return random_seed_p.bind(seeds, impl=impl)


# split


def _split_types(keys, *, shape):
    _check_keys("random_split", keys)
    return _with_dims(keys, shape, keys.dtype)


def _split_raw(data, *, impl, shape):
    return _over_array(lambda k: impl.call("split", k, shape, shape=shape), impl, data)


random_split_p = _primitive("random_split", _split_types, _split_raw)


def random_split(keys, shape: tuple[int, ...]):
    """Split keys, into an array of shape (*keys.shape, *shape)."""
    return random_split_p.bind(keys, shape=tuple(shape))


# fold_in


def _fold_in_types(keys, msgs):
    _check_keys("random_fold_in", keys)
    if keys.shape == msgs.shape:
        return _with_dims(keys if keys._sharding is not None else msgs, (), keys.dtype)
    shape = lax.broadcast_shapes(keys.shape, msgs.shape)
    out = ShapedArray(shape, keys.dtype, manual_axis_type=keys.manual_axis_type)
    split = [a for a in (keys, msgs) if a._sharding is not None]
    if not split:
        return out
    spec: list[Any] = [None] * len(shape)
    for a in split:
        for i, entry in enumerate(reversed(a.sharding.spec), start=1):
            spec[-i] = spec[-i] or entry
    return out.update(sharding=split[0].sharding.update(spec=tuple(spec)))


def _fold_in_raw(data, msgs, *, impl):
    # Do not map over dimensions of size one that broadcast: under vmap `unsafe_rbg` draws different
    # bits for copies of one key.
    shapes = data.shape[: data.ndim - len(impl.key_shape)], msgs.shape
    full = lax.broadcast_shapes(*shapes)
    fun = functools.partial(impl.call, "fold_in")
    for i in range(1, len(full) + 1):
        axes = tuple(0 if len(s) >= i and s[-i] == full[-i] else None for s in shapes)
        fun = vmap(fun, in_axes=axes)
    operands = []
    for x, s in zip((data, msgs), shapes):
        ones = [d for d in range(len(s)) if s[d] != full[d + len(full) - len(s)]]
        operands.append(lax.squeeze(x, ones) if ones else x)
    return fun(*operands)


def _fold_in_batch(args, dims):
    ranks = [x.ndim - (d is not None) for x, d in zip(args, dims)]
    operands = []
    for x, d, rank in zip(args, dims, ranks):
        ones = max(ranks) - rank
        if d is not None:
            x = lax.expand_dims(batching.moveaxis(x, d, 0), range(1, 1 + ones))
        elif rank:
            x = lax.expand_dims(x, range(1 + ones))
        operands.append(x)
    return random_fold_in_p.bind(*operands), 0


random_fold_in_p = _primitive("random_fold_in", _fold_in_types, _fold_in_raw, _fold_in_batch)


def random_fold_in(keys, msgs):
    """Derive keys from keys and integers, which broadcast."""
    if type(msgs) is int:
        return random_fold_in_p.bind(keys, np.uint32(msgs))
    return random_fold_in_p.bind(keys, lax.convert_element_type(msgs, np.uint32))


# bits

_UINTS = {
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}


def _bits_types(keys, *, bit_width, shape, consumer=None):
    _check_keys("random_bits", keys)
    if bit_width not in _UINTS:
        raise TypeError(f"random_bits: bit_width must be 8, 16, 32 or 64, got {bit_width}")
    return _with_dims(keys, shape, _UINTS[bit_width])


def _bits_raw(data, *, impl, bit_width, shape, consumer=None):
    bits = dict(impl.random_bits_for).get(consumer, impl.random_bits)
    dtype = _UINTS[bit_width]

    def draw(key):
        return impl.check("random_bits", bits(key, bit_width, shape), shape, dtype)

    return _over_array(draw, impl, data)


random_bits_p = _primitive("random_bits", _bits_types, _bits_raw)


def random_bits(
    keys,
    bit_width: int,
    shape: tuple[int, ...],
    *,
    consumer: Literal["sort", "floats"] | None = None,
):
    """Draw unsigned integers of `bit_width` bits, of shape (*keys.shape, *shape).

    What `consumer` says the bits are for does not change them, but how they are computed: see
    `PRNGImpl`.
    """
    how = {} if consumer is None else {"consumer": consumer}
    return random_bits_p.bind(keys, bit_width=bit_width, shape=shape, **how)


# wrap, unwrap, clone


def _wrap_types(data, *, impl):
    check_key_data(impl, data)
    ndim = data.ndim - len(impl.key_shape)
    out = ShapedArray(data.shape[:ndim], key_ty(impl), manual_axis_type=data.manual_axis_type)
    if data._sharding is None:
        return out
    return out.update(sharding=data.sharding.update(spec=tuple(data.sharding.spec)[:ndim]))


def _unwrap_types(keys):
    _check_keys("random_unwrap", keys)
    return _with_dims(keys, keys.dtype._impl.key_shape, np.dtype(np.uint32))


random_wrap_p = _primitive("random_wrap", _wrap_types, lambda data, *, impl: data)
random_wrap_p.def_impl(lambda data, *, impl: PRNGKeyArray(impl, to_array(data)))
random_unwrap_p = _primitive("random_unwrap", _unwrap_types, lambda data, *, impl: data)
random_unwrap_p.def_impl(lambda keys: keys._base_array)
random_clone_p = _primitive("random_clone", lambda keys: keys, lambda data, *, impl: data)
random_clone_p.def_impl(
    lambda keys: (
        PRNGKeyArray._of(keys._impl, lax.copy_p.bind(keys._base_array))
        if type(keys) is PRNGKeyArray
        else lax.copy_p.bind(to_array(keys))
    )
)


# How often keys are used: see `jax._src.key_reuse`.
random_bits_p.key_use, random_unwrap_p.key_use = KeyReuseSignature(Sink(0)), KeyReuseSignature()
random_split_p.key_use = KeyReuseSignature(Sink(0), Source(0))
for _p in (random_seed_p, random_fold_in_p, random_wrap_p, random_clone_p):
    _p.key_use = KeyReuseSignature(Source(0))


def random_wrap(data, *, impl: PRNGImpl):
    """Wrap raw data in keys."""
    check_key_data(impl, data)
    return random_wrap_p.bind(data, impl=impl)


def random_unwrap(keys):
    """Return the raw data of keys."""
    if not is_key_array(keys):
        raise TypeError(f"random_unwrap takes key array operand, got {type(keys)}")
    return random_unwrap_p.bind(keys)


def random_clone(keys):
    """Copy keys, typed or raw, so that the copy may be used once more."""
    return random_clone_p.bind(keys)


# Implementations

threefry_prng_impl = PRNGImpl(
    (2,), threefry.seed, threefry.split, threefry.random_bits, threefry.fold_in,
    name="threefry2x32", tag="fry",
    random_bits_for=(("sort", threefry.bits_to_sort), ("floats", threefry.bits_of_floats)),
)  # fmt: skip
register_prng(threefry_prng_impl)


def _rbg_seed(seed):
    half = threefry.seed(seed)
    return lax.concatenate([half, half], 0)


def _rbg_split(key, shape):
    halves = lax.reshape(key, (2, 2))
    split = vmap(lambda k: threefry.split(k, shape), out_axes=len(shape))(halves)
    return lax.reshape(split, (*shape, 4))


def _rbg_fold_in(key, data):
    halves = lax.reshape(key, (2, 2))
    return lax.reshape(vmap(lambda k: threefry.fold_in(k, data))(halves), (4,))


def _rbg_bits(key, bit_width, shape):
    _, bits = lax.rng_bit_generator(key, shape, dtype=_UINTS[bit_width])
    return bits


rbg_prng_impl = PRNGImpl(
    (4,), _rbg_seed, _rbg_split, _rbg_bits, _rbg_fold_in, name="rbg", tag="rbg"
)
register_prng(rbg_prng_impl)


def _unsafe_rbg_split(key, shape):
    num = int(np.prod(shape, dtype=np.int64))
    _, keys = lax.rng_bit_generator(key, (10 * num, 4), dtype=np.uint32)
    rows = slicing.slice(keys, (0, 0), keys.shape, (10, 1))
    return lax.reshape(rows, (*shape, 4))


def _unsafe_rbg_fold_in(key, data):
    _, bits = lax.rng_bit_generator(_rbg_seed(data), (10, 4), dtype=np.uint32)
    return lax.bitwise_xor(key, slicing.index_in_dim(bits, 9, 0, keepdims=False))


unsafe_rbg_prng_impl = PRNGImpl(
    (4,),
    _rbg_seed,
    _unsafe_rbg_split,
    _rbg_bits,
    _unsafe_rbg_fold_in,
    name="unsafe_rbg",
    tag="urbg",
)
register_prng(unsafe_rbg_prng_impl)


for _name, _tag in (("threefry4x32", "fry4"), ("philox2x32", "phx2"), ("philox4x32", "phx4")):
    register_prng(PRNGImpl(*getattr(ciphers, _name), name=_name, tag=_tag))


def default_prng_impl() -> PRNGImpl:
    """Return the implementation named by `jax_default_prng_impl`."""
    return find_impl(config.default_prng_impl.value)


def seed_with_impl(impl: PRNGImpl, seed: Any):
    return random_seed(seed, impl=impl)


def define_prng_impl(
    *, key_shape: tuple[int, ...], seed: Callable, split: Callable, random_bits: Callable,
    fold_in: Callable, name: str = "<unnamed>", tag: str = "?",
) -> PRNGImpl:  # fmt: skip
    """Define a PRNG implementation, to give to `jax.random.key(impl=...)`.

    Args:
      key_shape: shape of the `uint32` array that represents a key.
      seed: (integer scalar) -> key.
      split: (key, shape) -> keys of shape (*shape, *key_shape).
      random_bits: (key, bit_width, shape) -> unsigned integers.
      fold_in: (key, uint32 scalar) -> key.
      name: shown in messages; the implementation is not registered under it.
      tag: short name, printed in dtypes.

    Returns:
      The implementation.
    """
    return the_impl(tuple(key_shape), seed, split, random_bits, fold_in, name, tag, ())
