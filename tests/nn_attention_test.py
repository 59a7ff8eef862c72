"""The programs in nn_attention_scenarios.py against the reference build, and attention of arrays with explicit shardings."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)

LENGTHS = np.array([3, 5])
OPTIONS = {
    "causal": dict(is_causal=True),
    "masked": dict(is_causal=True, mask=np.arange(8) != 3),
    "biased": dict(is_causal=True, bias=np.arange(4.0, dtype=np.float32)[:, None, None]),
    "window": dict(local_window_size=2),
    "lengths": dict(query_seq_lengths=LENGTHS, key_value_seq_lengths=LENGTHS),
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("spec", [P("b"), P(None, None, "h"), P("b", "s", "h")])
def test_masks_with_explicit_shardings(name, spec):
    mesh = jax.make_mesh((2, 2, 2), ("b", "h", "s"), axis_types=(AxisType.Explicit,) * 3)
    rng = np.random.default_rng(0)
    q, k, v = [rng.normal(size=(2, 8, 4, 16)).astype(np.float32) for _ in range(3)]
    dims = {"mask": (1, 1, 1, 8), "bias": (1, 4, 1, 1)}
    options = {
        n: jnp.asarray(x).reshape(dims.get(n, np.shape(x))) if isinstance(x, np.ndarray) else x
        for n, x in OPTIONS[name].items()
    }

    @jax.jit
    def run(q, k, v):
        def loss(*x):
            out = jax.nn.dot_product_attention(*x, **options)
            return (out**2).sum(), out

        (_, out), grads = jax.value_and_grad(loss, (0, 1, 2), has_aux=True)(q, k, v)
        return out, *grads

    expected = run(q, k, v)
    of_keys = P(*[None if n == "s" else n for n in spec])
    with jax.set_mesh(mesh):
        args = [jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip((q, k, v), (spec, of_keys, of_keys))]  # fmt: skip
        found = run(*args)
        assert jax.typeof(found[0]).sharding.spec == P(*spec, *[None] * (4 - len(spec)))
    for x, y in zip(found, expected):
        np.testing.assert_allclose(x, y, atol=2e-5)
