"""Random bits from XLA's own generators."""

from __future__ import annotations

import enum

import numpy as np

from jax._src import core, dtypes
from jax._src.interpreters import batching, mlir
from jax._src.lax.lax.joining import concatenate, split
from jax._src.lax.lax.shape import expand_dims, squeeze
from jax._src.lax.rules import ZERO, dtype_name, standard_primitive
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.sharding_impls import canonicalize_sharding


class RandomAlgorithm(enum.IntEnum):
    """The algorithm of `rng_bit_generator`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


def rng_uniform(a, b, shape):
    """Draw stateful random numbers, uniform in `[a, b)`; not reproducible, so prefer `jax.random`.

    Args:
      a, b: scalars of one dtype.
      shape: shape of the result.

    Returns:
      An array of that shape and dtype.

    Raises:
      ValueError: if `a` or `b` is not a scalar, or their dtypes differ.
    """
    return rng_uniform_p.bind(a, b, shape=core.canonicalize_shape(shape))


def _rng_uniform_shape(a, b, *, shape):
    if a.shape or b.shape:
        raise ValueError(
            f"Arguments to rng_uniform must be scalars; got shapes {a.shape} and {b.shape}."
        )
    return shape


def _rng_uniform_dtype(a, b, *, shape):
    if a.dtype != b.dtype:
        raise ValueError(
            "Arguments to rng_uniform must have identical dtypes, got "
            f"{dtype_name(a.dtype)} and {dtype_name(b.dtype)}."
        )
    return a.dtype


def _rng_uniform_lower(ctx, a, b, *, shape):
    (aval_out,) = ctx.avals_out
    dims = mlir.ir_constant(np.array(aval_out.shape, np.int64))
    return [hlo.rng(a, b, dims, hlo.RngDistributionAttr.get("UNIFORM"))]


rng_uniform_p = standard_primitive(
    "rng_uniform",
    shape=_rng_uniform_shape,
    dtype=_rng_uniform_dtype,
    lower=_rng_uniform_lower,
)


def rng_bit_generator(
    key,
    shape,
    dtype=np.uint32,
    algorithm=RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding=None,
):
    """Draw random bits from a key by XLA's generator. Prefer `jax.random`.

    Args:
      key: four uint32 or two uint64 numbers.
      shape: shape of the bits.
      dtype: dtype of the bits: uint8, uint16, uint32 or uint64.
      algorithm: a `RandomAlgorithm`; with the default the bits depend on the device.
      out_sharding: sharding of the bits, in explicit mode.

    Returns:
      The next key, and the bits.

    Raises:
      TypeError: if the key or the dtype is invalid.
    """
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    shape = core.canonicalize_shape(shape)
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "rng_bit_generator")
    if dtype not in _BITS:
        raise TypeError(
            f"rng_bit_generator: unsupported dtype {dtype_name(dtype)}, expected one of "
            f"{', '.join(d.name for d in _BITS)}"
        )
    sharding = canonicalize_sharding(out_sharding, "rng_bit_generator")
    return tuple(
        rng_bit_generator_p.bind(
            key,
            shape=shape,
            dtype=dtype,
            algorithm=RandomAlgorithm(algorithm),
            out_sharding=sharding,
        )
    )


_BITS = tuple(np.dtype(d) for d in ("uint8", "uint16", "uint32", "uint64"))


def _rng_bit_generator_shape(key, *, shape, dtype, algorithm, out_sharding):
    if (key.shape, key.dtype) not in (((4,), np.uint32), ((2,), np.uint64)):
        raise TypeError(
            f"rng_bit_generator key must be of type uint32[4] or uint64[2], got {key.str_short()}"
        )
    if any(d < 0 for d in shape):
        raise TypeError(f"rng_bit_generator shape must be nonnegative, got {shape}.")
    return [key.shape, shape]


def _rng_bit_generator_sharding(key, *, out_sharding, **_):
    return [key._sharding, out_sharding]


def _rng_bit_generator_lower(ctx, key, *, shape, dtype, algorithm, out_sharding):
    (key_aval,), (_, aval_out) = ctx.avals_in, ctx.avals_out
    bits_type = mlir.aval_to_ir_type(ctx.module_context, aval_out)
    state, state_type = key, key.type
    if key_aval.dtype == np.uint32:  # XLA's generator state is two uint64 numbers
        u64 = ir.IntegerType.get_unsigned(64)
        pairs = hlo.reshape(ir.RankedTensorType.get([2, 2], ir.IntegerType.get_unsigned(32)), key)
        state_type = ir.RankedTensorType.get([2], u64)
        state = hlo.bitcast_convert(state_type, pairs)
    name = {0: "DEFAULT", 1: "THREE_FRY", 2: "PHILOX"}[int(algorithm)]
    attribute = hlo.RngAlgorithmAttr.get(name)
    if core.is_constant_shape(shape):
        op = hlo.RngBitGeneratorOp(state_type, bits_type, attribute, state)
    else:  # a call that the compiler turns into the operation, when it refines shapes
        op = hlo.CustomCallOp(
            [state_type, bits_type],
            [state, mlir.eval_dynamic_shape_as_tensor(ctx, shape)],
            call_target_name=ir.StringAttr.get("stablehlo.dynamic_rng_bit_generator"),
        )
        op.attributes["rng_algorithm"] = attribute
    new_state, bits = op.results
    if key_aval.dtype == np.uint32:
        pairs = hlo.bitcast_convert(
            ir.RankedTensorType.get([2, 2], ir.IntegerType.get_unsigned(32)), new_state
        )
        new_state = hlo.reshape(key.type, pairs)
    if aval_out._sharding is not None:
        bits = mlir.lower_with_sharding_in_types(ctx, bits, aval_out)
    return [new_state, bits]


def _rng_bit_generator_batch(args, bdims, *, shape, dtype, algorithm, out_sharding):
    # The first key generates the bits of the whole batch; the other keys are returned unchanged.
    (keys,), (bdim,) = args, bdims
    keys = batching.moveaxis(keys, bdim, 0)
    size = keys.shape[0]
    first, rest = split(keys, (1, size - 1))
    new_key, bits = rng_bit_generator_p.bind(
        squeeze(first, (0,)),
        shape=(size, *shape),
        dtype=dtype,
        algorithm=algorithm,
        out_sharding=out_sharding,
    )
    return [concatenate([expand_dims(new_key, (0,)), rest], 0), bits], [0, 0]


rng_bit_generator_p = standard_primitive(
    "rng_bit_generator",
    shape=_rng_bit_generator_shape,
    dtype=lambda key, *, dtype, **_: [key.dtype, dtype],
    weak_type=lambda *_, **__: [False, False],
    sharding=_rng_bit_generator_sharding,
    lower=_rng_bit_generator_lower,
    multiple_results=True,
    jvp=ZERO,
    batch=_rng_bit_generator_batch,
)
