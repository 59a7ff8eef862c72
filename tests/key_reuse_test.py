"""Uses of random keys beside the reference (key_reuse_scenarios.py), and where the check is more exact."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.errors import KeyReuseError
from jax.experimental.key_reuse import _core
from jax.experimental.key_reuse._core import Forward, KeyReuseSignature, Sink, Source
from jax.sharding import Mesh, PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)

uniform, check = random.uniform, _core.check_key_reuse


@pytest.fixture
def counting():
    with jax.debug_key_reuse(True):
        yield


def key():
    return random.key(0)


def twice(k):
    return uniform(k) + uniform(k)


class TestMessages:
    def test_operation_place_and_remedy(self):
        def f(k):
            x = uniform(k)
            return x + random.normal(k)

        with pytest.raises(KeyReuseError) as info:
            check(f, key())
        text = str(info.value)
        assert "In jit, argument 0 is already consumed." in text
        first = f.__code__.co_firstlineno
        assert f"key_reuse_test.py:{first + 1}" in text and f"key_reuse_test.py:{first + 2}" in text
        assert "key<fry>[]" in text and "key, subkey = jax.random.split(key)" in text

    def test_loop(self):
        def f(k):
            return lax.scan(lambda c, _: (c, uniform(k)), 0.0, None, length=3)

        with pytest.raises(KeyReuseError, match="scan body function leads to key reuse") as info:
            check(f, key())
        assert "key constants are repeatedly consumed" in str(info.value)
        assert "fold_in(key, i)" in str(info.value) and "key_reuse_test.py" in str(info.value)

    def test_running(self, counting):
        k = key()
        random.split(k)
        with pytest.raises(KeyReuseError, match="key passed to random_split at index 0") as info:
            random.split(k)
        assert "key_reuse_test.py" in str(info.value) and "jax.random.split(key)" in str(info.value)
        with pytest.raises(KeyReuseError, match="passed to jit-compiled function at index 1"):
            jax.jit(lambda x, k: x + uniform(k))(1.0, k)


class TestSignatures:
    def test_values(self):
        mask = np.array([True, False])
        assert Sink(0) == Sink(0, np.array([True, True])) != Source(0)
        assert Sink(0, mask) == Sink(0, mask.copy()) != Sink(0)
        assert repr(Sink(1, mask)) == "Sink(1, [ True False])"
        a = KeyReuseSignature(Sink(0), Forward(0, 1))
        assert a == KeyReuseSignature(Forward(0, 1), Sink(0)) and len({a, KeyReuseSignature()}) == 2
        assert repr(a) == "KeyReuseSignature(Sink(0), Forward(0, 1))"
        assert repr(KeyReuseSignature(Sink(0))) == "KeyReuseSignature(Sink(0),)"
        with pytest.raises(AttributeError, match="cannot be changed"):
            Sink(0).idx = 1

    def test_messages_of_checks_of_calls(self):
        used = key()
        used._consumed = True
        check_call = KeyReuseSignature(Sink(0)).check_signature
        with pytest.raises(KeyReuseError, match="passed to function at index 0\n"):
            check_call(used)
        with pytest.raises(KeyReuseError, match="passed to draw at index 0 in a loop\n"):
            check_call(used, funcname="draw", context="in a loop")

    def test_operations_without_a_rule_make_new_keys(self):
        both = lambda a, b: lax.select(True, a, b)
        found = _core.function_type_signature(both, key(), key())
        assert found == KeyReuseSignature(Sink(0), Sink(1), Source(0))

    def test_rule_of_a_library(self):
        from jax.extend.core import Primitive

        assert _core.key_reuse_signatures[lax.reshape_p].forwards == [Forward(0, 0)]
        peek_p = Primitive("peek")
        peek_p.def_abstract_eval(lambda k: k)
        peek = lambda k: (peek_p.bind(k), uniform(k))[1]
        with pytest.raises(KeyReuseError):
            check(peek, key())
        _core.key_reuse_signatures[peek_p] = KeyReuseSignature(Forward(0, 0))
        check(peek, key())


class TestPrograms:
    """Beyond the reference."""

    def test_carry_that_moves(self):
        def step(carry, i):
            a, b = carry
            return (b, random.fold_in(b, i)), uniform(a)

        check(lambda a, b: lax.scan(step, (a, b), np.arange(4)), key(), key())

        def bad(carry, _):
            a, b = carry
            return (b, a), uniform(a)

        with pytest.raises(KeyReuseError):
            check(lambda a, b: lax.scan(bad, (a, b), None, length=4), key(), key())

    def test_parts_of_reshaped_keys(self):
        def f(k):
            m = k.reshape(2, 2)
            return uniform(k[0]), uniform(m[1, 1])

        check(f, random.split(key(), 4))

        def g(k):
            m = k.reshape(2, 2)
            return uniform(k[3]), uniform(m[1, 1])

        with pytest.raises(KeyReuseError):
            check(g, random.split(key(), 4))

    def test_constants(self):
        k = key()
        check(lambda: uniform(k))
        with pytest.raises(KeyReuseError):
            check(lambda: twice(k))

    def test_library(self):
        """Functions of `jax.random` use each key once."""
        draws = {
            "binomial": lambda k: random.binomial(k, 5.0, 0.3),
            "multinomial": lambda k: random.multinomial(k, 5.0, jnp.array([0.2, 0.8])),
            "poisson": lambda k: random.poisson(k, 2.0),
            "beta": lambda k: random.beta(k, 1.0, 2.0),
            "dirichlet": lambda k: random.dirichlet(k, jnp.ones(3)),
            "categorical": lambda k: random.categorical(k, jnp.ones(3)),
            "multivariate_normal": lambda k: random.multivariate_normal(
                k, jnp.zeros(2), jnp.eye(2)
            ),
            "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 1.0),
            "ball": lambda k: random.ball(k, 2),
            "orthogonal": lambda k: random.orthogonal(k, 2),
            "f": lambda k: random.f(k, 2.0, 3.0),
            "t": lambda k: random.t(k, 2.0),
            "permutation": lambda k: random.permutation(k, jnp.arange(4.0)),
            "choice": lambda k: random.choice(k, 5, (2,), p=jnp.ones(5) / 5),
            "randint": lambda k: random.randint(k, (3,), 0, 5),
        }
        for draw in draws.values():
            assert _core.function_type_signature(draw, key()) == KeyReuseSignature(Sink(0))


@pytest.mark.usefixtures("counting")
class TestRunning:
    def test_copies_share_the_state(self):
        k = random.split(key())
        jax.vmap(uniform)(k)
        with pytest.raises(KeyReuseError):
            a, _ = k
        with pytest.raises(KeyReuseError):
            jax.vmap(uniform)(jax.device_put(k))

    def test_failed_use_consumes_nothing(self):
        a, b = key(), key()
        uniform(a)
        f = jax.jit(lambda b, a: uniform(b) + uniform(a))
        with pytest.raises(KeyReuseError):
            f(b, a)
        uniform(b)

    def test_one_key_twice_in_a_call(self):
        k = key()
        with pytest.raises(KeyReuseError):
            jax.jit(lambda a, b: uniform(a) + uniform(b))(k, k)

    def test_programs_compiled_before(self):
        f = jax.jit(uniform)
        with jax.debug_key_reuse(False):
            k = key()
            for _ in range(3):
                f(k)
        k = key()
        f(k)
        for _ in range(2):
            with pytest.raises(KeyReuseError):
                f(k)
        with jax.debug_key_reuse(False):
            f(k)

    def test_shards(self):
        mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
        f = jax.shard_map(jax.vmap(uniform), mesh=mesh, in_specs=P("i"), out_specs=P("i"))
        k = random.split(key(), 2)
        f(k)
        with pytest.raises(KeyReuseError):
            f(k)
        k = random.split(key(), 1)
        jax.pmap(uniform)(k)
        with pytest.raises(KeyReuseError):
            jax.pmap(uniform)(k)

    def test_without_compilation(self):
        with jax.disable_jit():
            k = key()
            uniform(k)
            with pytest.raises(KeyReuseError):
                uniform(k)

    def test_with_other_checks(self):
        with jax.debug_nans(True), jax.enable_checks(True):
            k = key()
            uniform(k)
            with pytest.raises(KeyReuseError):
                uniform(k)


class TestAssertions:
    def test_in_programs(self):
        def f(k):
            _core.assert_unconsumed(k)
            uniform(k[0])
            _core.assert_consumed(k, np.array([True, False]))
            used = _core.consume(k[1])
            _core.assert_consumed(k)
            _core.assert_consumed(used)

        k = random.split(key())
        check(f, k)
        check(jax.jit(f), k)
        check(jax.grad(lambda x, k: (f(k), x)[1]), 1.0, k)
        jax.jit(f)(k)
        check(
            jax.vmap(lambda k: (_core.assert_unconsumed(k), uniform(k), _core.assert_consumed(k))),
            k,
        )

    @pytest.mark.parametrize(
        "f, text",
        [
            (lambda k: _core.assert_consumed(k), "key to be consumed, at .*key_reuse_test.py"),
            (lambda k: (_core.consume(k), _core.assert_unconsumed(k)), "key to not be consumed"),
            (
                lambda k: _core.assert_consumed(k, np.array([True, False])),
                r"as the mask \[True, False\] says",
            ),
        ],
    )
    def test_failures(self, f, text):
        with pytest.raises(AssertionError, match=text):
            check(f, random.split(key()))
        with jax.debug_key_reuse(True), pytest.raises(AssertionError, match=text):
            f(random.split(key()))
        f(random.split(key()))  # nothing is counted

    def test_consumed_key_cannot_be_used(self):
        with pytest.raises(KeyReuseError):
            check(lambda k: uniform(_core.consume(k)), key())
        with jax.debug_key_reuse(True), pytest.raises(KeyReuseError):
            uniform(_core.consume(key()))
