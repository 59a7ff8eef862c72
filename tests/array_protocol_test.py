"""Arrays and tracers as Python and other libraries meet them."""

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import test_util as jtu

jtu.request_cpu_devices(8)

X = np.arange(3, dtype=np.float32)


def test_round_without_digits_gives_integers():
    assert round(jnp.float32(2.5)).dtype == np.int32
    assert round(jnp.float32(2.57), 1).dtype == np.float32
    assert round(jnp.array([1.5, -2.5]), 0).tolist() == [2, -2]
    assert jax.jit(round)(2.7).dtype == np.int32


@pytest.mark.parametrize("x, y", [(np.arange(3), 1.5), (np.array([True]), 1), (1.5, np.arange(1))])
def test_floor_division_keeps_weak_types(x, y):
    x, y = (jnp.asarray(v) if isinstance(v, np.ndarray) else v for v in (x, y))
    assert (x // y).weak_type and divmod(x, y)[0].weak_type and divmod(x, y)[1].weak_type


@pytest.mark.parametrize(
    "operation",
    [
        lambda k: k + 1,
        lambda k: np.arange(3) + k,
        lambda k: k == 1,
        lambda k: divmod(k, 2),
        lambda k: 2**k,
        lambda k: k * True,
        abs,
    ],
)
def test_arithmetic_of_keys_is_a_type_error(operation):
    key = jax.random.key(0)
    for call in (operation, jax.jit(operation)):
        with pytest.raises(TypeError, match=r"does not accept dtypes? .*key<fry>"):
            call(key)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_other_libraries_may_ask_tracers_for_protocols(transform):
    def f(x):
        for name in ("__cuda_array_interface__", "device", "sharding", "block_until_ready"):
            assert not hasattr(x, name)
            with pytest.raises(AttributeError, match=f"{name}' attribute is not available on"):
                getattr(x, name)
        return jax.block_until_ready(x)

    assert transform(f)(X).tolist() == X.tolist()


def test_values_that_are_differentiated_can_be_waited_for():
    assert jax.grad(lambda x: (x * x).block_until_ready())(jnp.float32(3)) == 6


def test_objects_with_jax_array():
    class Wrapped:
        def __jax_array__(self):
            return jnp.asarray(X)

    assert jnp.asarray(Wrapped()).tolist() == X.tolist()
    assert (jnp.asarray(X) + Wrapped()).tolist() == (2 * X).tolist()
    for call in (jax.typeof, lax.sin, jax.jit(lambda x: x), jax.grad(lambda x: x)):
        with pytest.raises(ValueError, match="__jax_array__"):
            call(Wrapped())


def test_backward_rules_get_arrays():
    seen = []

    @jax.custom_vjp
    def f(x):
        return x * 2

    def bwd(_, g):
        seen.append(g)
        return (g.at[()].multiply(2),)

    f.defvjp(lambda x: (f(x), None), bwd)
    assert jax.grad(f)(1.0) == 2 and jax.grad(f)(np.float32(1)) == 2
    assert jax.vjp(f, X)[1](X)[0].tolist() == (2 * X).tolist()
    assert all(isinstance(g, jax.Array) for g in seen)


def test_unused_arguments_may_be_anywhere():
    a, b = (jax.device_put(np.float32(1), d) for d in jax.devices()[:2])
    first = jax.jit(lambda x, y: x + 1)
    assert first(a, b).devices() == a.devices()
    assert first(b, a).devices() == b.devices()
    assert not first(np.float32(1), b).committed
    with pytest.raises(ValueError, match="incompatible devices"):
        jax.jit(lambda x, y: x + 1, keep_unused=True)(a, b)
