"""The scenarios in random_keys_scenarios.py against the reference build, and what we do otherwise."""

import pickle

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax._src.random import prng
from jax.extend.random import define_prng_impl

reference, test_reference, _ = case_tests(__file__)

NOT_FOR_KEYS = {
    "sum": lambda k: jnp.sum(k),
    "astype": lambda k: jnp.astype(k, "uint32"),
    "cumsum": lambda k: jnp.cumsum(k),
    "sort": lambda k: jnp.sort(k),
    "bitcast": lambda k: jax.lax.bitcast_convert_type(k, "uint32"),
    "from number": lambda k: jnp.array(0, k.dtype),
    "from data": lambda k: jnp.array([jax.random.key_data(k)], k.dtype),
    "from data and keys": lambda k: jnp.asarray([jax.random.key_data(k[0, 0]), k[0]], k.dtype),
    "at add": lambda k: k.at[0].add(k[1]),
    "at set": lambda k: k.at[0].set(1),
    "pad": lambda k: jax.lax.pad(k, k[0, 0], [(1, 0, 0), (0, 1, 0)]),
}


@pytest.mark.parametrize("name", list(NOT_FOR_KEYS))
def test_not_for_keys(name):
    # The reference raises errors of other classes for some.
    with pytest.raises((TypeError, ValueError)):
        NOT_FOR_KEYS[name](jax.random.split(jax.random.key(0), (2, 3)))


METHODS_OF_NUMBERS = {
    "astype": lambda k: k.astype("uint32"),
    "view": lambda k: k.view("uint32"),
    "byteswap": lambda k: k.byteswap(),
    "item": lambda k: k[0, 0].item(),
    "sum": lambda k: k.sum(axis=0),
    "mean": lambda k: k.mean(),
    "max": lambda k: k.max(),
    "argmax": lambda k: k.argmax(),
    "sort": lambda k: k.sort(),
    "clip": lambda k: k.clip(),
    "round": lambda k: k.round(),
    "dot": lambda k: k.dot(k),
    "conj": lambda k: k.conj(),
    "real": lambda k: k.real,
}


@pytest.mark.parametrize("name", list(METHODS_OF_NUMBERS))
def test_methods_of_numbers(name):
    with pytest.raises(NotImplementedError, match="jax.random.key_data"):
        METHODS_OF_NUMBERS[name](jax.random.split(jax.random.key(0), (2, 3)))


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_clone_is_a_copy(make, transform):
    key = make(0)
    clone = transform(jax.random.clone)(key)
    jax.jit(lambda k: k, donate_argnums=0)(clone)
    assert clone.is_deleted() and not key.is_deleted()


def test_methods_that_are_fine():
    # The reference has them in functions, or for tracers, alone.
    keys = jax.random.split(jax.random.key(0), (2, 3))
    data = np.asarray(jax.random.key_data(keys))
    same = lambda k, d: np.testing.assert_array_equal(jax.random.key_data(k), d)
    same(keys.mT, data.transpose(1, 0, 2))
    same(keys.repeat(2, axis=0), data.repeat(2, axis=0))
    same(keys.astype(keys.dtype), data)
    same(keys.view(), data)
    assert keys[0, 1] in keys[0]


def test_shards_are_of_keys():
    (shard,) = jax.random.split(jax.random.key(0), 4).addressable_shards
    assert shard.index == (slice(None),) and shard.data.shape == (4,)


def weyl_seed(seed):
    return jnp.stack([seed.astype(jnp.uint32), jnp.uint32(1), jnp.uint32(0)])


def weyl_split(key, shape):
    numbers = jnp.arange(np.prod(shape), dtype=jnp.uint32).reshape(shape)
    return key.at[1].mul(3) + jnp.expand_dims(numbers, -1)


def weyl_bits(key, bit_width, shape):
    numbers = jnp.arange(np.prod(shape), dtype=jnp.uint32).reshape(shape)
    words = (key[0] + numbers + key[2]) * jnp.uint32(2654435761) ^ key[1]
    return (words >> np.uint32(32 - bit_width)).astype(f"uint{bit_width}")


def weyl_fold_in(key, data):
    return key.at[0].set(key[0] ^ data)


WEYL = dict(
    key_shape=(3,), seed=weyl_seed, split=weyl_split, random_bits=weyl_bits, fold_in=weyl_fold_in,
    name="weyl", tag="weyl",
)  # fmt: skip


def test_pickled_keys_of_an_implementation_without_registered_name():
    impl = define_prng_impl(**WEYL)
    assert define_prng_impl(**WEYL) is impl
    keys = jax.random.split(jax.random.key(7, impl=impl), 2)
    loaded = pickle.loads(pickle.dumps(keys))
    assert loaded.dtype == keys.dtype and (loaded == keys).all()
    assert jax.random.normal(loaded[1]) == jax.random.normal(keys[1])


WRONG = {
    "seed": lambda seed: jnp.zeros(2, jnp.uint32),
    "split": lambda key, shape: jnp.zeros((*shape, 3), jnp.int32),
    "random_bits": lambda key, bit_width, shape: jnp.zeros((1, *shape), jnp.uint32),
    "fold_in": lambda key, data: jnp.zeros((), jnp.uint32),
}


@pytest.mark.parametrize("name", list(WRONG))
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_functions_of_an_implementation_must_return_keys_or_bits(name, transform):
    impl = define_prng_impl(**{**WEYL, name: WRONG[name], "name": "broken"})

    def use():
        key = jax.random.key(0, impl=impl)
        calls = {
            "split": lambda: jax.random.split(key),
            "random_bits": lambda: jax.vmap(lambda _: jax.random.bits(key, (4,)))(jnp.ones(2)),
            "fold_in": lambda: jax.random.fold_in(key, 1),
        }
        return jax.random.key_data(key) if name == "seed" else calls[name]()

    expected = f"the function {name} of the PRNG implementation 'broken'.*must return uint32"
    with pytest.raises(TypeError, match=expected):
        transform(use)()


@pytest.mark.parametrize("partitionable", [True, False])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("consumer", ["sort", "floats"])
def test_bits_for_a_consumer(impl, consumer, partitionable):
    with jax.threefry_partitionable(partitionable):
        keys = jax.random.split(jax.random.key(1, impl=impl), 2)
        for width in (8, 32, 64):
            draw = lambda key, **how: prng.random_bits(key, width, (3, 5), **how)
            with jax.enable_x64(True):
                np.testing.assert_array_equal(
                    jax.jit(lambda keys: jax.vmap(lambda k: draw(k, consumer=consumer))(keys))(
                        keys
                    ),
                    jax.jit(lambda keys: jax.vmap(draw)(keys))(keys),
                )
