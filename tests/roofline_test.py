"""Costs by jax.experimental.roofline beside the reference, and where more can be analyzed here."""

import logging

import numpy as np
import pytest
from op_testing import case_tests
from roofline_scenarios import M8, B, F, S, X, Z, fields

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import core
from jax.experimental import roofline
from jax.sharding import PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)


def test_functions_with_shard_map_inside():
    inner = jax.shard_map(
        lambda x: lax.psum(lax.sin(x), "x"), mesh=M8, in_specs=P("x"), out_specs=P()
    )
    _, costs = roofline.roofline(lambda x: lax.cos(inner(x)))(Z)
    assert costs.ici_bytes == {"x": 112} and costs.unfused_flops == 16 + 16
    with (
        core.extend_axis_env([("x", 8)]),
        pytest.raises(ValueError, match="over the axes .* needs a mesh: give roofline `mesh`"),
    ):
        roofline.roofline(lambda x: lax.psum(x, "x"))(Z)


def test_memory_of_operands_that_are_used_twice():
    _, costs = roofline.roofline(lambda x: lax.concatenate([x, x], 0))(X)
    assert costs.peak_hbm_bytes == 192


def test_gradients_of_other_dtypes():
    outs, costs = roofline.roofline(lambda x: (lax.sin(x), jnp.argmax(x)), vjp=True)(X)
    assert outs[0].shape == X.shape and outs[0].dtype == F and costs.unfused_flops == 72


def test_rules_of_users(monkeypatch):
    monkeypatch.setattr(lax.tan_p, "roofline", None)
    seen = []

    @roofline.register_roofline(lax.tan_p)
    def tan_costs(ctx, x, **params):
        seen.append((ctx, x, params))
        return roofline.RooflineResult(flops=7)

    mesh = dict(mesh=M8, in_specs=P("x"), out_specs=P("x"))
    assert roofline.roofline(jnp.tan, **mesh)(Z)[1].flops == 7
    ctx, x, params = seen[0]
    assert ctx.mesh == M8 and ctx.primitive is lax.tan_p and x.shape == (1, 16)
    assert "roofline(tan)" in str(ctx.name_stack) and "accuracy" in params
    assert ctx.avals_in[0].shape == ctx.avals_out[0].shape == (1, 16)
    roofline.register_standard_roofline(lax.tan_p)
    assert fields(roofline.roofline(jnp.tan)(X)[1])["unfused_flops"] == 0


def test_primitives_without_a_rule(caplog):
    primitive = jax.extend.core.Primitive("mystery")
    primitive.def_abstract_eval(lambda x: x)
    with caplog.at_level(logging.WARNING):
        _, costs = roofline.roofline(lambda x: lax.sin(primitive.bind(x)))(X)
    assert costs.unfused_flops == 24 and "no rule for the primitive mystery" in caplog.text


def test_arguments(capsys):
    x = np.ones((3, 4), np.float32)
    out, costs = roofline.roofline(lambda x, s: x * s, print_jaxpr=True)(x, 1.5)
    assert out == S((3, 4), F) and costs.unfused_flops == 12 and "mul" in capsys.readouterr().out
    with pytest.raises(NotImplementedError, match="axis_index_groups"):
        groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
        fun = lambda x: lax.psum(x, "x", axis_index_groups=groups)
        options = dict(mesh=M8, in_specs=P("x"), out_specs=P("x"))
        roofline.roofline(fun, **options)(S((8, 4), B))
