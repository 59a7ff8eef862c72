"""Arrays of numbers that operators meet again: the results are those of the numbers, and nobody sees the arrays."""

import math
import operator

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src.device_put import held_numbers
from jax._src.device_put.held_numbers import HeldNumbers

OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.eq, operator.lt, operator.ge,
]  # fmt: skip
NUMBERS = [
    2.5,
    -0.1,
    1e-40,
    1e-300,
    3.4e38,
    1e39,
    math.inf,
    math.nan,
    0.0,
    -0.0,
    1.0,
    1,
    True,
    0,
    -7,
    2**31 - 1,
    -(2**31),
]
DTYPES = ["float32", "bfloat16", "float16", "int32", "uint8", "bool", "complex64"]


def held(number):
    return number in held_numbers.held_numbers(type(number))


@pytest.fixture(autouse=True)
def nothing_held():
    jax.clear_caches()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_results_are_those_of_numbers(op, dtype):
    x = jnp.asarray([0, 1, 3], dtype)
    for number in NUMBERS:
        for call in (lambda n=number: op(x, n), lambda n=number: op(n, x)):
            try:
                first = call()
            except TypeError:  # of complex numbers there is no order or remainder
                for _ in range(3):
                    with pytest.raises(TypeError):
                        call()
                continue
            for again in (call(), call(), call()):
                assert (again.dtype, again.weak_type) == (first.dtype, first.weak_type)
                assert np.asarray(again).tobytes() == np.asarray(first).tobytes()


def test_what_is_held():
    x = jnp.ones(3)
    for number in (2.5, 3):
        x * number
        assert not held(number)
        number * x
        assert held(number)
    for number in (0.0, -0.0, 1e39, math.inf, 2**31 - 1, True):
        for _ in range(3):
            x * number
    assert not any(map(held, (0.0, 1e39, math.inf)))
    assert held(2**31 - 1)
    assert held_numbers.held_numbers(bool) is None


def test_signs_of_zeros():
    x = jnp.float32(1)
    for _ in range(3):
        assert not np.signbit(x * 0.0) and np.signbit(x * -0.0)


def test_nothing_is_compiled_or_traced_again():
    x = jnp.ones(3)
    events = []
    x * 2.5
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
    try:
        for _ in range(3):
            x * 2.5
    finally:
        jax.monitoring.clear_event_listeners()
    assert held(2.5) and not events


def test_arrays_are_not_listed():
    x = jnp.ones(3)
    before = len(jax.live_arrays())
    for _ in range(3):
        x * 2.5
    assert held(2.5) and len(jax.live_arrays()) == before


def test_arrays_that_somebody_deleted():
    x = jnp.ones(3)
    for _ in range(3):
        x * 2.5
    array = held_numbers.held_numbers(float)[2.5]
    # Whoever deletes all arrays of the device's client deletes this one.
    assert any(a is array for a in x.sharding._device.client.live_arrays())
    array.delete()
    for _ in range(3):
        np.testing.assert_array_equal(x * 2.5, [2.5] * 3)
    assert held(2.5)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x * 2.5


def test_traced_programs_have_literals():
    x = jnp.ones(3)
    for _ in range(3):
        x * 2.5
    program = jax.make_jaxpr(lambda y: x * 2.5 + y)(x)
    assert held(2.5) and "2.5:f32[]" in str(program) and len(program.consts) == 1
    np.testing.assert_array_equal(jax.grad(lambda y: (x * 2.5 * y).sum())(x), [2.5] * 3)


def test_other_types_devices_and_guards():
    x = jnp.ones(3)
    for _ in range(3):
        x * 2.5
    with jax.enable_x64(True):
        assert (np.float64(1) / jnp.ones(3) * 2.5).dtype == np.float64
        for _ in range(3):
            assert (jnp.ones(3) * 0.1)[0] == 0.1
    device = jax.devices()[1]
    with jax.default_device(device):
        assert (jnp.ones(3) * 2.5).devices() == {device}
    on_device = jax.device_put(x, device)
    assert [(on_device * 2.5).devices() for _ in range(3)] == [{device}] * 3
    with (
        jax.transfer_guard("disallow"),
        pytest.raises(RuntimeError, match="Disallowed host-to-device transfer"),
    ):
        x * 2.5


def test_transfers_that_are_allowed():
    x = jnp.ones(3)
    with jax.transfer_guard("allow"):
        for _ in range(2):
            x * 2.5
    assert held(2.5)
    with jax.transfer_guard("log"):
        for _ in range(2):
            x * 3.5
    assert not held(3.5)


def test_too_many_are_forgotten(monkeypatch):
    monkeypatch.setattr(HeldNumbers, "_capacity", 4)
    x = jnp.ones(3)
    for number in range(2, 12):
        for _ in range(3):
            np.testing.assert_array_equal(x * number, [number] * 3)
    assert len(held_numbers.held_numbers(int)) <= 4


def test_clear_caches():
    x = jnp.ones(3)
    for _ in range(3):
        x * 2.5
    jax.clear_caches()
    assert not held(2.5)


def test_methods_are_described():
    x = jnp.ones(3)
    assert "__mul__" in dir(x) and x.__mul__(2).dtype == x.dtype
    assert x.__mul__("a") is NotImplemented
    with pytest.raises(TypeError, match="unsupported operand"):
        x * [1]
