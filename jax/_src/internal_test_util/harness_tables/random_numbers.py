"""Harnesses of random numbers."""

import numpy as np

import jax
from jax import lax
from jax._src import test_util as jtu
from jax._src.internal_test_util.harness_tables.harness import (
    Harness,
    RandArg,
    StaticArg,
    wrap_and_split,
)
from jax._src.internal_test_util.harness_tables.naming import named, shaped
from jax._src.random import threefry

_SHAPES = ((), (5, 4), (32,))


def keyed():
    """Distributions and splits of keys."""
    for dtype in (np.float32, np.float64):
        for shape in ((), (3,)):
            yield Harness(
                "random_gamma",
                f"shape={shaped(shape, dtype)}",
                jax.jit(lambda operand: jax.random.gamma(jax.random.key(42), operand)),
                [RandArg(shape, dtype)],
                dtype=dtype,
            )
    yield Harness("random_split", "", jax.jit(wrap_and_split), [], dtype=np.uint32)
    for dtype in jtu.dtypes.all_floating:
        for shape, axis in (((8,), 0), ((5, 4), 0), ((5, 4), 1)):
            yield Harness(
                "random_categorical",
                f"shape={shaped(shape, dtype)}_axis={axis}",
                lambda logits, axis: jax.random.categorical(jax.random.key(1337), logits, axis),
                [RandArg(shape, dtype), StaticArg(axis)],
                dtype=dtype,
                axis=axis,
            )
    for dtype in jtu.dtypes.all_floating:
        for shape in _SHAPES:
            yield Harness(
                "random_uniform",
                f"shape={shaped(shape, dtype)}",
                lambda shape, dtype: jax.random.uniform(jax.random.key(42), shape, dtype),
                [StaticArg(shape), StaticArg(dtype)],
                dtype=dtype,
            )
    for dtype in jtu.dtypes.all_integer:
        for shape in _SHAPES:
            yield Harness(
                "random_randint",
                f"shape={shaped(shape, dtype)}",
                lambda *arguments: jax.random.randint(jax.random.key(42), *arguments),
                [*map(StaticArg, (shape, -5, 5, dtype))],
                dtype=dtype,
            )


def bits():
    algorithms = lax.RandomAlgorithm
    for algorithm in (
        algorithms.RNG_THREE_FRY,
        algorithms.RNG_PHILOX,
        algorithms.RNG_DEFAULT,
    ):
        for dtype in (np.uint32, np.uint64):
            for shape in ((), (5, 7), (100, 100)):
                for key_shape, key_dtype in (((4,), np.uint32), ((2,), np.uint64)):
                    if key_dtype in jtu.dtypes.all and dtype in jtu.dtypes.all:
                        yield _bits_case(algorithm, dtype, shape, key_shape, key_dtype)


def _bits_case(algorithm, dtype, shape, key_shape, key_dtype):
    return Harness(
        "rng_bit_generator",
        named(f"key_dtype={key_dtype}", shape=shaped(shape, dtype), algorithm=repr(algorithm)),
        lambda key, shape, dtype, algorithm: lax.rng_bit_generator(
            key, shape, dtype=dtype, algorithm=algorithm
        ),
        [RandArg(key_shape, key_dtype), *map(StaticArg, (shape, dtype, algorithm))],
        dtype=dtype,
        shape=shape,
        algorithm=algorithm,
    )


def counters():
    """The numbers of elements, as words, which the generator encrypts."""
    for shape in ((3,), (5, 7, 4), (100, 100)):
        yield Harness(
            "iota_2x32_shape",
            f"shape={shape}",
            threefry.counters,
            [StaticArg(shape)],
            dtype=np.uint32,
            shape=shape,
        )
