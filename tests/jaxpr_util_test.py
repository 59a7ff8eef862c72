"""`jax._src.jaxpr_util`: counts of equations, and reports. The counts are the reference's."""

import gzip

import pytest

import jax
import jax.numpy as jnp
from jax._src import jaxpr_util
from jax.extend import core


def f(x, y):
    z = jax.lax.scan(lambda c, _: (jnp.sin(c) * y, c), x, None, length=3)[0]
    return jnp.sum(z) + y


@pytest.fixture(scope="module")
def jaxpr():
    return jax.make_jaxpr(jax.jit(f))(jnp.ones(3), 2.0).jaxpr


def names(eqns):
    return [eqn.primitive.name for eqn in eqns]


def test_counts(jaxpr):
    counts = {"jit": 1, "scan": 1, "reduce_sum": 1, "convert_element_type": 2, "add": 1}
    assert jaxpr_util.primitives(jaxpr) == counts | {"sin": 1, "mul": 1}
    assert jaxpr_util.primitives_by_shape(jaxpr) == {
        "jit :: float32[]": 1,
        "scan :: float32[3] float32[3,3]": 1,
        "reduce_sum :: float32[]": 1,
        "convert_element_type :: float32[]": 2,
        "add :: float32[]": 1,
        "sin :: float32[3]": 1,
        "mul :: float32[3]": 1,
    }
    lines = jaxpr_util.source_locations(jaxpr)
    (body,) = [where for where in lines if "f.<locals>.<lambda>" in where]
    assert lines[body] == 3 and f"{__file__}:" in body
    assert jaxpr_util.primitives_by_source(jaxpr)[f"sin @ {body}"] == 1
    assert jaxpr_util.histogram(jaxpr, lambda e: len(e.invars), str) == {"2": 4, "1": 4}
    assert names(jaxpr_util.collect_eqns(jaxpr, lambda e: 0)[0])[:2] == ["jit", "scan"]


def test_inner_jaxprs_are_visited_once_on_request():
    g = jax.jit(jnp.sin)
    twice = jax.make_jaxpr(lambda x: g(g(x)))(1.0).jaxpr
    eqns = lambda *args: names(eqn for _, eqn in jaxpr_util.all_eqns(twice, *args))
    assert eqns() == ["jit", "jit", "sin", "sin"] and eqns(False) == ["jit", "jit", "sin"]
    assert jaxpr_util.count_eqns(twice) == jaxpr_util.count_eqns(jax.make_jaxpr(g)(1.0)) * 2 == 4


def test_uses_of_variables(jaxpr):
    x, y = jaxpr.invars
    assert names(jaxpr_util.eqns_using_var(jaxpr, x)) == ["sin"]
    assert names(jaxpr_util.eqns_using_var(jaxpr, y)) == ["convert_element_type"] * 2
    ((eqn, index),) = jaxpr_util.eqns_using_var_with_invar_index(jaxpr, y)
    assert eqn is jaxpr.eqns[0] and index == 1
    ((inner, var),) = jaxpr_util.jaxpr_and_binder_in_params(eqn.params, 1)
    assert var is inner.invars[1]
    with pytest.raises(RuntimeError, match="operand 2"):
        list(jaxpr_util.jaxpr_and_binder_in_params(eqn.params, 2))
    (outer, variables), (inside, _) = jaxpr_util.var_defs_and_refs(jaxpr)
    assert outer is jaxpr and inside[0] is inner
    assert [(v, d, refs) for v, d, refs in variables] == [
        (x, None, [eqn]), (y, None, [eqn]), (jaxpr.outvars[0], eqn, [None]),
    ]  # fmt: skip


def fields(message):
    """The fields of a protocol buffer: pairs of a number and an int or bytes."""

    def varint():
        n = shift = 0
        while True:
            byte = next(it)
            n |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return n

    it = iter(message)
    out = []
    while (tag := next(it, None)) is not None:
        out.append(
            (tag >> 3, varint() if tag & 7 == 0 else bytes([next(it) for _ in range(varint())]))
        )
    return out


def test_pprof(jaxpr):
    profile = fields(gzip.decompress(jaxpr_util.pprof_equation_profile(jaxpr)))
    strings = [value.decode() for number, value in profile if number == 6]
    assert strings[0] == "" and {"equations", "count", "primitive", "scan", "sin"} < set(strings)
    assert __file__ in strings and "f.<locals>.<lambda>" in strings
    samples = [dict(fields(value)) for number, value in profile if number == 2]
    assert sum(s[2][0] for s in samples) == len(list(jaxpr_util.all_eqns(jaxpr)))
    labels = [strings[dict(fields(s[3]))[2]] for s in samples]
    sin = samples[labels.index("sin")]
    locations = {fields(v)[0][1]: dict(fields(v)) for number, v in profile if number == 4}
    functions = {fields(v)[0][1]: dict(fields(v)) for number, v in profile if number == 5}
    line = dict(fields(locations[sin[1][0]][4]))  # of the innermost frame
    assert strings[functions[line[1]][2]] == "f.<locals>.<lambda>"
    assert line[2] == f.__code__.co_firstlineno + 1
    root = __file__.rpartition("/")[0]
    qualified = gzip.decompress(jaxpr_util.pprof_equation_profile(jaxpr, workspace_root=root))
    assert b"jaxpr_util_test.f.<locals>.<lambda>" in qualified


def test_reports(jaxpr, tmp_path):
    page = jaxpr_util.jaxpr_to_html(jaxpr)
    assert "<html" in page and "reduce_sum" in page
    assert jaxpr_util.maybe_dump_jaxpr_to_file("f", jaxpr) is None
    with_constant = core.Jaxpr(jaxpr.invars[:1], jaxpr.invars[1:], jaxpr.outvars, jaxpr.eqns)
    assert "reduce_sum" in jaxpr_util.jaxpr_to_html(with_constant)
    jax.config.update("jax_dump_ir_to", str(tmp_path))
    jax.config.update("jax_dump_ir_modes", "jaxpr")
    try:
        name = jaxpr_util.maybe_dump_jaxpr_to_file("f", jaxpr)
    finally:
        jax.config.update("jax_dump_ir_to", "")
        jax.config.update("jax_dump_ir_modes", "stablehlo")
    assert "scan" in (tmp_path / name).read_text()
