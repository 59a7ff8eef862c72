"""Primitives that call functions, partial evaluation of functions, and passes of one's own."""

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core, xla
from jax.extend.core import primitives
from jax.extend.core.primitives import call_p, closed_call_p
from jax.extend.linear_util import wrap_init
from jax.interpreters import batching, mlir
from jax.interpreters.partial_eval import (
    JaxprTracer,
    PartialVal,
    custom_partial_eval_rules,
    dce_jaxpr_call_rule,
    dce_rules,
    partial_eval_jaxpr_custom_rules,
    trace_to_jaxpr_nounits,
)
from jax.test_util import check_grads


def body(x, y):
    return [jnp.sin(x) * y, y + 1]


def calls(p):
    return lambda x, y: p.bind(x, y, subfuns=(wrap_init(body),), name="foo")


def names_in(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


@pytest.fixture(params=["call", "closed_call", "mine"])
def primitive(request):
    if request.param != "mine":
        return {"call": call_p, "closed_call": closed_call_p}[request.param]
    p = core.CallPrimitive("mine")
    p.def_impl(core.call_impl)
    mlir.register_lowering(p, mlir.core_call_lowering)
    return p


def test_every_transformation(primitive):
    f = calls(primitive)
    x, y = jnp.array([0.5, 1.0]), jnp.array([2.0, 3.0])
    expected = body(x, y)
    closed = jax.make_jaxpr(f)(x, y)
    assert names_in(closed) == [primitive.name]
    for out in (f(x, y), jax.jit(f)(x, y), jax.vmap(f)(x, y), jax.jit(jax.vmap(f))(x, y),
                core.jaxpr_as_fun(closed)(x, y)):  # fmt: skip
        for a, b in zip(out, expected):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    for g in (f, jax.jit(f)):
        check_grads(lambda *xs: g(*xs)[0], (x, y), order=2, modes=["fwd", "rev"])
    grad = jax.make_jaxpr(jax.grad(lambda x: f(x, y)[0].sum()))(x)
    assert names_in(grad).count(primitive.name) == 2  # forward and backward
    assert "name=foo" in str(grad)
    assert names_in(jax.make_jaxpr(jax.vmap(f))(x, y)) == [primitive.name]
    rebound = primitive.get_bind_params(closed.eqns[0].params)
    np.testing.assert_allclose(primitive.bind(x, y, **rebound)[0], expected[0], rtol=1e-6)


def test_values_closed_over_are_operands():
    def f(x, y):
        return call_p.bind(x, subfuns=(wrap_init(lambda x: [x * y]),), name="inner")[0]

    jaxpr = jax.make_jaxpr(f)(2.0, 3.0)
    assert len(jaxpr.eqns[0].invars) == 2 and not jaxpr.eqns[0].params["call_jaxpr"].constvars
    assert jax.jit(jax.grad(f, 1))(2.0, 3.0) == 2.0


def test_dead_results_of_calls():
    eqn = jax.make_jaxpr(calls(call_p))(1.0, 2.0).eqns[0]
    used, new = dce_jaxpr_call_rule([False, True], eqn)
    assert used == [False, True] and len(new.params["call_jaxpr"].eqns) == 1
    assert dce_jaxpr_call_rule([False, False], eqn) == ([False, False], None)


def test_bound_to_no_function():
    with pytest.raises(TypeError, match="one function, subfuns"):
        call_p.bind(1.0, name="foo")
    with pytest.raises(NotImplementedError, match="def_impl"):
        calls(core.CallPrimitive("silent"))(1.0, 2.0)


@jax.custom_vjp
def scaled(x, n):
    return x * n


scaled.defvjp(lambda x, n: (x * n, n), lambda n, g: (7 * g, None))


def partial(f, known, unknown, **kwargs):
    pvals = [PartialVal.known(jnp.float32(known)), PartialVal.unknown(jax.typeof(jnp.float32(0)))]
    jaxpr, outs, consts = trace_to_jaxpr_nounits(wrap_init(f), pvals, **kwargs)
    values = iter(core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, consts))(jnp.float32(unknown)))
    full = [p.get_known() if p.is_known() else next(values) for p in outs]
    for a, b in zip(full, f(jnp.float32(known), jnp.float32(unknown))):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    return jaxpr, outs, consts


def test_partial_evaluation():
    def f(x, y):
        z = jnp.sin(x)
        return [z, z * y, jnp.cos(y), x]

    jaxpr, outs, consts = partial(f, 2.0, 3.0)
    assert [p.is_known() for p in outs] == [True, False, False, True]
    assert names_in(jaxpr) == ["mul", "cos"] and len(consts) == 1
    jaxpr, outs, consts = partial(f, 2.0, 3.0, instantiate=True)
    assert not any(p.is_known() for p in outs) and len(jaxpr.outvars) == 4
    with pytest.raises(ValueError, match="instantiate has 1 entries"):
        partial(f, 2.0, 3.0, instantiate=[True])


def test_partial_evaluation_of_calls_and_control_flow():
    def f(x, y):
        a, b = jax.jit(lambda x, y: (jnp.sin(x), jnp.sin(x) * y))(x, y)
        c = lax.cond(x > 0, lambda: y, lambda: x)
        d, _ = lax.scan(lambda c, _: (c * x, None), y, None, length=2)
        e = call_p.bind(x, y, subfuns=(wrap_init(lambda x, y: [jnp.exp(x), y * x]),), name="n")
        return [a, b, c, d, *e, jax.nn.relu(y), scaled(y, x)]

    jaxpr, outs, _ = partial(f, 2.0, 3.0)
    assert [p.is_known() for p in outs] == [True, *[False] * 3, True, *[False] * 3]
    text = str(jaxpr)
    assert "sin" not in text and "exp" not in text
    assert {"call", "custom_jvp_call", "custom_vjp_call", "scan", "cond"} <= set(names_in(jaxpr))
    g = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, trace_consts(f)))
    assert jax.grad(lambda y: g(y)[-1])(jnp.float32(3.0)) == 7.0  # by its own rule


def trace_consts(f):
    pvals = [PartialVal.known(jnp.float32(2)), PartialVal.unknown(jax.typeof(jnp.float32(0)))]
    return trace_to_jaxpr_nounits(f, pvals)[2]


def test_tracers_and_rules_of_partial_evaluation():
    seen = []

    def rule(trace, x, **params):
        seen.append((type(x), x.is_known(), x.pval.get_aval(), len(x.parents)))
        return lax.neg(x)

    custom_partial_eval_rules[primitives.cos_p] = rule
    try:
        pvals = [PartialVal.unknown(jax.typeof(1.0))]
        jaxpr, _, _ = trace_to_jaxpr_nounits(lambda x: [lax.cos(x * 2)], pvals)
    finally:
        del custom_partial_eval_rules[primitives.cos_p]
    assert names_in(jaxpr) == ["mul", "neg"]
    assert seen == [(JaxprTracer, False, jax.typeof(1.0), 1)]


def test_known_and_unknown_operands():
    with pytest.raises(TypeError, match="a type or None first"):
        PartialVal((1, 2))
    with pytest.raises(TypeError, match="known or unknown"):
        PartialVal((jax.typeof(1.0), 2.0))
    known = PartialVal.known(2.0)
    assert (known.is_known(), known.get_known(), known.get_aval()) == (True, 2.0, jax.typeof(2.0))


def test_batching_rules_of_the_older_form():
    p = core.Primitive("twice_indexed")
    p.def_abstract_eval(lambda x: x)
    seen = []

    def rule(axis_size, axis_name, trace_type, args, dims):
        seen.append((axis_size, axis_name, dims))
        return args[0] * 2, dims[0]

    batching.axis_primitive_batchers[p] = rule
    np.testing.assert_array_equal(jax.vmap(p.bind, axis_name="i")(jnp.ones(3)), [2, 2, 2])
    assert seen == [(3, "i", (0,))]


def test_scalars_have_types_in_derivative_rules():
    kinds = []

    @jax.custom_vjp
    def f(x, n):
        return x * n

    def fwd(x, n):
        kinds.append((x.dtype, n.dtype, jnp.shape(n)))
        return x * n, n

    f.defvjp(fwd, lambda n, g: (g * n, None))
    for g in (f, jax.jit(f), lambda x, n: jax.jit(lambda x: f(x, 3))(x)):
        assert jax.grad(g)(2.0, 3) == 3.0
    assert set(kinds) == {(np.dtype(np.float32), np.dtype(np.int32), ())}


def test_passes_of_the_compiler():
    sizes = []
    xla.register_hlo_module_transformation(lambda proto: sizes.append(len(proto)), name="sizes")
    try:
        assert jax.jit(lambda x: x * 17 + 3)(2.0) == 37
        assert sizes
    finally:
        assert xla.clear_hlo_module_transformation("sizes")
    assert not xla.clear_hlo_module_transformation("sizes")
    with pytest.raises(TypeError, match="PipelineStage"):
        xla.register_hlo_module_transformation(len, name="sizes", stage=1)
    with pytest.raises(TypeError, match="function of bytes"):
        xla.register_hlo_module_transformation(3, name="sizes")


def test_division_of_calls():
    @jax.jit
    def f(x, y):
        c = jnp.cos(x)
        return c, c * y, x, 3.0

    eqn = jax.make_jaxpr(f)(1.0, 2.0).eqns[0]
    known, rest = eqn.primitive.split.divide(eqn, [False, True], False)
    assert (
        known.outvars[:3] == [eqn.outvars[i] for i in (0, 2, 3)] and known.invars == eqn.invars[:1]
    )
    assert rest.outvars == [eqn.outvars[1]] and rest.invars == [known.outvars[3], eqn.invars[1]]
    whole = jax.make_jaxpr(jax.jit(jnp.multiply))(1.0, 2.0).eqns[0]
    assert eqn.primitive.split.is_whole([False, True], whole.params)
    assert eqn.primitive.split.divide(whole, [False, True], False) == (None, whole)


def test_registries_are_views_of_the_rules_for_splitting():
    p, rule = core.Primitive("registered"), lambda used, eqn: (list(used), eqn)
    assert p not in dce_rules
    dce_rules[p] = rule
    assert p.split.dce is rule and dce_rules[p] is rule and p in list(dce_rules)
    del dce_rules[p]
    assert p.split.dce is not rule and p not in list(dce_rules)
    assert dce_rules[primitives.scan_p] == primitives.scan_p.split.dce
    assert p not in partial_eval_jaxpr_custom_rules
