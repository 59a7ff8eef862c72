"""Concrete arrays of extended dtypes: jax.experimental.EArray."""

import copy
import pickle

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import EArray, primal_tangent_dtype
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

Q = primal_tangent_dtype(jnp.int8, jnp.bfloat16, "q")
DATA = np.arange(12, dtype=np.int8).reshape(4, 3)


def array(data=DATA):
    data = jnp.asarray(data)
    return EArray(jax.core.ShapedArray(data.shape, Q), data)


def numbers(x):
    assert isinstance(x, EArray) and isinstance(x, jax.Array) and x.dtype == Q
    return np.asarray(lax.convert_element_type(x, jnp.int8))


def test_attributes():
    x = array()
    assert (x.shape, x.ndim, x.size, len(x), x.nbytes) == ((4, 3), 2, 12, 4, 12)
    assert str(jax.typeof(x)) == "q[4,3]" and not x.weak_type and not x.committed
    assert x.devices() == {jax.devices()[0]} and x.is_fully_addressable and x.is_fully_replicated
    assert repr(array(DATA[0])) == "EArray([0, 1, 2], dtype=int8)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(TypeError, match="convert it to numbers"):
        np.asarray(x)


@pytest.mark.parametrize(
    "fun, expected",
    [
        (lambda x: x, DATA),
        (lambda x: x.T, DATA.T),
        (lambda x: x[1:3, 0], DATA[1:3, 0]),
        (lambda x: x.reshape(6, 2), DATA.reshape(6, 2)),
        (lambda x: jnp.concatenate([x, x]), np.concatenate([DATA, DATA])),
        (lambda x: lax.scan(lambda c, r: (c, r), 0, x)[1], DATA),
        (lambda x: lax.cond(True, lambda y: y, lambda y: y, x), DATA),
        (jax.vmap(lambda r: r[::-1]), DATA[:, ::-1]),
        (lambda x: jnp.where(DATA > 5, x, x[::-1]), np.where(DATA > 5, DATA, DATA[::-1])),
        (lambda x: x.at[0].set(x[1]), np.concatenate([DATA[1:2], DATA[1:]])),
    ],
)
def test_functions(fun, expected):
    np.testing.assert_array_equal(numbers(jax.jit(fun)(array())), expected)
    np.testing.assert_array_equal(numbers(fun(array())), expected)


def test_derivatives():
    out, pullback = jax.vjp(lambda x: x.T, array())
    (ct,) = pullback(jnp.ones((3, 4), jnp.bfloat16))
    assert ct.shape == (4, 3) and ct.dtype == jnp.bfloat16
    np.testing.assert_array_equal(numbers(out), DATA.T)


def test_copies():
    for same in (
        copy.copy,
        copy.deepcopy,
        lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: x.copy(),
    ):
        x = array()
        y = same(x)
        x.delete()
        assert x.is_deleted()
        np.testing.assert_array_equal(numbers(y.block_until_ready()), DATA)
    for row, expected in zip(array(), DATA, strict=True):
        np.testing.assert_array_equal(numbers(row), expected)


def test_sharded():
    mesh = Mesh(np.array(jax.devices()[:4]), ("x",))
    x = jax.device_put(array(), NamedSharding(mesh, P("x")))
    assert x.sharding.spec == P("x") and x.committed
    assert [s.data.shape for s in x.addressable_shards] == [(1, 3)] * 4
    np.testing.assert_array_equal(numbers(x.addressable_data(2)), DATA[2:3])
    y = jax.jit(lambda x: x[:, ::-1])(x)
    assert y.sharding.is_equivalent_to(x.sharding, 2)
    np.testing.assert_array_equal(numbers(y), DATA[:, ::-1])


def test_constants():
    x = array()
    np.testing.assert_array_equal(jax.jit(lambda: lax.convert_element_type(x, jnp.int8))(), DATA)


def test_wrong_data():
    with pytest.raises(
        ValueError, match=r"type q\[7\] is represented by .*int8\[7\].*, got data of shape \(4, 3\)"
    ):
        EArray(jax.core.ShapedArray((7,), Q), jnp.asarray(DATA))
    with pytest.raises(ValueError, match="dtype float32"):
        EArray(jax.core.ShapedArray((4, 3), Q), jnp.asarray(DATA, jnp.float32))
