"""Library functions that run as one program when they are called on arrays, outside of transformations."""

import warnings

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import test_util as jtu

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)

# A call on an array, on a NumPy array and in a transformation gives the same.
CALLS = {
    "cumsum": lambda x: jnp.cumsum(x, axis=1),
    "sort": lambda x: jnp.sort(x, 0, descending=True),
    "argsort": lambda x: jnp.argsort(x, axis=None),
    "argmax": lambda x: jnp.argmax(x, keepdims=True),
    "flip": lambda x: jnp.flip(x, (0, 1)),
    "flip of a list of axes": lambda x: jnp.flip(x, [0, 1]),
    "roll": lambda x: jnp.roll(x, (1, 2), axis=(0, 1)),
    "repeat": lambda x: jnp.repeat(x, 2, axis=0),
    "repeat by an array": lambda x: jnp.repeat(x, np.array([1, 0, 2]), axis=0),
    "tile": lambda x: jnp.tile(x, [1, 2]),
    "reshape": lambda x: x.reshape(-1, 2),
    "transpose": lambda x: jnp.transpose(x, [1, 0]),
    "moveaxis": lambda x: jnp.moveaxis(x, 0, -1),
    "split": lambda x: jnp.split(x, [1], axis=1),
    "var": lambda x: jnp.var(x, 0, ddof=1, where=jnp.asarray(x) > 1),
    "clip": lambda x: jnp.clip(x, 1, max=5.0),
    "norm": lambda x: jnp.linalg.norm(x, ord=1, axis=(0, 1)),
    "softmax": lambda x: jax.nn.softmax(x, axis=(0, 1)),
    "logsumexp": lambda x: jax.nn.logsumexp(x, axis=0, return_sign=True),
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "tensordot": lambda x: jnp.tensordot(x, x, axes=[[0], [0]]),
    "astype": lambda x: jnp.asarray(x).astype(jnp.int8),
    "ones_like": lambda x: jnp.ones_like(x),
    "zeros": lambda x: jnp.zeros(x.shape, x.dtype),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_same_as_elsewhere(name):
    call = CALLS[name]
    eager = [call(jnp.asarray(X)) for _ in range(2)]
    for out in (*eager, call(X), jax.jit(call)(X)):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=3e-6, strict=True), out, eager[0]
        )


def test_is_one_program():
    x = jnp.asarray(X[:, :3])
    with jtu.count_jit_and_pmap_lowerings() as count:
        for _ in range(3):
            jnp.std(x, axis=0)
            jnp.linalg.norm(x, axis=1)
            jnp.zeros((5, 7, 11))
    assert count() == 3


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: jnp.sort(x, axis=5), ValueError, "axis 5 is out of bounds"),
        (lambda x: jnp.cumsum(x, out=x), NotImplementedError, "out"),
        (lambda x: jnp.transpose(x, (0, 0)), (TypeError, ValueError), "permutation|repeated"),
        (lambda x: jnp.split(x, 5), ValueError, "equal"),
        (lambda x: jnp.tile(x, (1, 2.0)), TypeError, "reps must be integers"),
    ],
)
def test_errors_are_those_of_the_function(call, error, message):
    x = jnp.asarray(X)
    jnp.tile(x, (1, 2))  # what is equal is not the same
    with pytest.raises(error, match=message) as raised:
        call(x)
    assert "while tracing" not in str(raised.value)


def test_warns_each_time():
    x = jnp.asarray(X)
    for call in (lambda: x.astype("int64"), lambda: jnp.cumsum(x, dtype="float64")):
        for _ in range(2):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                call()
            assert "is not available" in str(seen[0].message)


def test_programs_belong_to_the_precision():
    ones = jnp.ones(3)
    with jax.enable_x64(True):
        assert jnp.ones(3).dtype == np.float64
        assert jnp.cumsum(jnp.arange(3)).dtype == np.int64
    assert jnp.ones(3).dtype == ones.dtype == np.float32


def test_nothing_to_do_gives_the_array():
    x = jnp.asarray(X)
    assert x.reshape(3, 4) is x and x.astype(np.float32) is x


def test_nans_are_found():
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        jnp.std(jnp.array([np.inf, 1.0]))
