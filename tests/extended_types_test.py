"""Extended types and float0, beside the reference build; texts of their errors."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import dtypes

reference, test_reference, _ = case_tests(__file__)

FIXED = dtypes.primal_tangent_dtype("int8", "float32", "fixed8")


@pytest.mark.parametrize(
    "fun, message",
    [
        (
            lambda x: lax.convert_element_type(x, FIXED),
            "represents it, but not from float32 to fixed8",
        ),
        (lambda x: lax.convert_element_type(x, jax.random.key(0).dtype), "wrap_key_data"),
        (lambda x: lax.sin(np.zeros(3, jax.float0)), "Called sin with a float0 at position 0"),
        (lambda x: lax.add(x, np.zeros(3, jax.float0)), "Called add with a float0 at position 1"),
        (lambda x: lax.dot(x, np.zeros(3, jax.float0)), "Called dot_general with a float0"),
        (lambda x: lax.sort(np.zeros(3, jax.float0)), "Called sort with a float0"),
        (lambda x: lax.bitcast_convert_type(x, FIXED), "elements of fixed8 have no bits"),
    ],
)
def test_errors(fun, message):
    with pytest.raises((TypeError, ValueError), match=message):
        jax.eval_shape(fun, jnp.zeros(3))


def test_missing_rules_are_named(monkeypatch):
    # jax.experimental, which another test may have imported, has the rule
    rules = dtypes.PrimalTangentDType._rules
    monkeypatch.delattr(rules, "global_sharded_result_handler", raising=False)
    up = lambda x: lax.convert_element_type(x, FIXED)
    with pytest.raises(AttributeError, match="fixed8 have no 'global_sharded_result_handler'"):
        jax.jit(up)(jnp.zeros(3, jnp.int8))
    with pytest.raises(AttributeError, match="fixed8 have no 'full'"):
        jnp.zeros(3, FIXED)


def test_batch_dimension_among_those_of_an_element():
    class Rules:
        allow_conversion = True

        @staticmethod
        def physical_element_aval(_):
            return jax.core.ShapedArray((2,), np.dtype("float32"))

        @staticmethod
        def tangent_dtype(_):
            return np.dtype("float32")

    class Pair(dtypes.ExtendedDType):
        _rules, type, name = Rules, jax.dtypes.extended, "pair"

        def __repr__(self):
            return "pair"

    pair = Pair()
    back = lambda x: lax.convert_element_type(lax.convert_element_type(x, pair), "float32")
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jax.jit(jax.vmap(back, in_axes=1))(x), x.T)


def test_padding_with_batched_values():
    fixed = lambda x: lax.convert_element_type(x, FIXED)
    pad = lambda x, v: lax.pad(fixed(x), fixed(v), [(1, 2, 0)])
    plain = lambda x, v: lax.pad(x, v, [(1, 2, 0)])
    x, v = jnp.arange(6, dtype=jnp.int8).reshape(2, 3), jnp.array([7, 8], jnp.int8)
    out = jax.jit(lambda x, v: lax.convert_element_type(jax.vmap(pad)(x, v), "int8"))(x, v)
    np.testing.assert_array_equal(out, jax.vmap(plain)(x, v))
