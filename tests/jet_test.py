"""Taylor mode, beside forward mode applied again and again."""

import math

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import jet as jet_module
from jax.experimental.jet import jet

ORDER = 4


def by_jvp(fun, primals, series):
    """Derivatives by t of fun(x(t)) at 0."""

    def along(t):
        args = []
        for x, terms in zip(primals, series):
            args.append(x + sum(d * t**k / math.factorial(k) for k, d in enumerate(terms, 1)))
        return fun(*args)

    results = []
    for _ in range(len(series[0]) + 1):
        results.append(along(jnp.zeros(())))
        along = lambda t, f=along: jax.jvp(f, (t,), (jnp.ones(()),))[1]
    return results


def check(fun, *primals, order=ORDER, rtol=1e-8):
    with jax.enable_x64(True):
        rng = np.random.RandomState(0)
        primals = [jnp.asarray(x, np.result_type(x, np.float64)) for x in primals]
        series = [[rng.uniform(-1, 1, np.shape(x)) for _ in range(order)] for x in primals]
        series = [[jnp.asarray(t, x.dtype) for t in ts] for x, ts in zip(primals, series)]
        out, terms = jet(fun, tuple(primals), tuple(series))
        expected = by_jvp(fun, primals, series)
        outs, tree = jax.tree.flatten(out)
        series = tree.flatten_up_to(terms)
        for k in range(order + 1):
            ours = [ts[k - 1] for ts in series] if k else outs
            for a, b in zip(ours, jax.tree.leaves(expected[k]), strict=True):
                if getattr(b, "dtype", None) == jax.float0:
                    b = np.zeros(b.shape)
                np.testing.assert_allclose(a, b, rtol, 1e-9, err_msg=f"order {k}")


x3 = np.array([0.3, 0.8, 0.55])
m = np.array([[1.3, 0.2, -0.4], [0.1, 2.1, 0.3], [-0.2, 0.4, 1.7]])

UNARY = """abs acos acosh1 asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erf_inv
    erfc exp exp2 expm1 floor is_finite lgamma log log1p logistic neg round rsqrt sign sin sinh sqrt square tan
    tanh""".split()


@pytest.mark.parametrize("name", UNARY)
def test_elementwise(name):
    fun = getattr(lax, name.rstrip("1") if name == "acosh1" else name)
    if name == "is_finite":
        fun = lambda x: jnp.where(lax.is_finite(x), x * x, 0.0)
    order = 3 if name in ("bessel_i0e", "bessel_i1e") else ORDER
    check(fun, x3 + 1 if name == "acosh1" else x3, order=order, rtol=1e-6)


FUNCTIONS = dict(
    add=(lax.add, x3, x3),
    atan2=(lax.atan2, x3, x3 + 1),
    argument_twice=(lambda x: x * x, x3),
    broadcast=(lambda x: x[:, None] + x, x3),
    clamp=(lambda x: lax.clamp(0.4, x, 0.6), x3),
    complex=(lambda x: jnp.abs(jnp.exp(lax.complex(x, x * x))) ** 2, x3),
    complex_parts=(lambda x: (lax.real(x * x), lax.imag(x * x), lax.conj(x)), x3 + 1j * x3),
    concatenate=(lambda x, y: jnp.concatenate([x * y, y, x3]), x3, x3),
    constant=(lambda x: (x * 0 + 1, 2.0, x3), x3),
    conv=(lambda x, y: jnp.convolve(x, y), x3, x3),
    cummax=(lambda x: lax.cummax(jnp.sin(x)), x3),
    cumprod=(jnp.cumprod, x3),
    cumsum=(jnp.cumsum, x3),
    div=(lax.div, x3, x3 + 1),
    div_by=(lambda x: (2 / x, x / 3), x3),
    dot=(lambda x, y: x @ y @ x, m, m),
    dot_constant=(lambda x: m @ x, m),
    dynamic_slice=(lambda x: lax.dynamic_slice(x * x, (1,), (2,)), x3),
    fft=(lambda x: jnp.real(lax.complex(x, x) * 2), x3),
    gather=(lambda x: (x * x)[np.array([2, 0])], x3),
    hypot=(jnp.hypot, x3, x3 + 1),
    igamma=(lambda x: lax.igamma(1.5, x), x3),
    integer_pow=(lambda x: [x**2, x**5, x**-3], x3),
    integer_pow_at_zero=(lambda x: x**3, x3 * 0),
    logsumexp=(jax.nn.logsumexp, x3),
    max=(lambda x, y: jnp.maximum(x, y) * jnp.minimum(x, 0.4), x3, x3[::-1]),
    mean_and_variance=(lambda x: (x.mean(), x.var()), x3),
    mul_constant=(lambda x: 3 * x + x3 * x, x3),
    pad=(lambda x: jnp.pad(x * x, 1), x3),
    pow=(lax.pow, x3, x3 + 1),
    pow_at_zero=(lambda x: lax.pow(x, 3.0), x3 * 0),
    prod=(jnp.prod, x3),
    reduce_max=(lambda x: (x.max(), x.min()), x3),
    relu=(jax.nn.relu, x3 - 0.5),
    rem=(lambda x: lax.rem(x, 0.35), x3),
    reshape=(lambda x: (x * x).reshape(9).T, m),
    rev=(lambda x: lax.rev(x, (0,)) * x, x3),
    scatter=(lambda x, y: x.at[1].set(y[0] * x[2]).at[0].add(y[1]), x3, x3),
    select=(lambda x: jnp.where(x > 0.5, x * x, jnp.sin(x)), x3),
    softmax=(jax.nn.softmax, x3),
    softplus=(jax.nn.softplus, x3),
    sort=(lambda x: jnp.sort(x * x), x3),
    split=(lambda x: [y * x[0] for y in jnp.split(x, 3)], x3),
    stop_gradient=(lambda x: x * lax.stop_gradient(x), x3),
    tree=(lambda x, y: {"a": (x, y * y), "b": [x * y]}, x3, x3),
    where_constant=(lambda x: jnp.where(np.array([True, False, True]), x, 1.0), x3),
)


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_function(name):
    fun, *args = FUNCTIONS[name]
    if name in ("stop_gradient",):
        with jax.enable_x64(True):
            _, (first, second) = jet(fun, (x3,), ([x3, x3 * 0],))
            np.testing.assert_allclose(first, x3 * x3)
            np.testing.assert_allclose(second, 0)
        return
    check(fun, *args, order=3)


def mlp(x):
    for _ in range(3):
        x = jnp.tanh(m @ x)
    return x.sum()


INNER = dict(
    jit=jax.jit(lambda x: (jnp.sin(x) * x, 3, x3)),
    nested_jit=jax.jit(lambda x: jax.jit(jnp.sin)(x) + 1),
    checkpoint=jax.checkpoint(lambda x: jnp.sin(jnp.exp(x))),
    cond=lambda x: lax.cond(x[0] < 1, lambda x: (jnp.sin(x), x3), lambda x: (x3, x), x),
    switch=lambda x: lax.switch(1, [jnp.sin, jnp.cos, lambda x: x3], x),
    scan=lambda x: lax.scan(lambda c, y: (jnp.sin(c) * y, (c, y)), x, np.arange(1.0, 4.0)),
    scan_over=lambda x: lax.scan(lambda c, y: (c * y + x[0], c), 1.0, x),
    scan_unvarying_carry=lambda x: lax.scan(lambda c, y: (c + 1, c * y), 0, x),
    scan_late_carry=lambda x: lax.scan(
        lambda c, _: ((c[1], c[2], c[2] * x), None), (x3, x3, x3), None, length=4
    ),
    while_loop=lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * jnp.sin(x)), (0, x)
    ),
    fori_loop=lambda x: lax.fori_loop(0, 3, lambda i, c: c * c + i, x),
    vmap=jax.vmap(lambda x: jnp.sin(x) * x),
    vmap_of_cond=jax.vmap(lambda x: lax.cond(x < 0.5, jnp.sin, jnp.cos, x)),
    grad=jax.grad(lambda x: jnp.sum(jnp.sin(x) * x[0])),
    grad_of_scan=jax.grad(
        lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=3)[0].sum()
    ),
    jacobian=jax.jacobian(lambda x: jnp.sin(x) * x[0]),
    mlp=mlp,
    jvp=lambda x: jax.jvp(jnp.sin, (x,), (x * x,)),
    jet_inside=lambda x: jet(jnp.sin, (x,), ([x, x * x],)),
    linearize=lambda x: jax.linearize(jnp.sin, x)[1](x),
)


@pytest.mark.parametrize("name", list(INNER))
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_inside(name, wrap):
    check(wrap(INNER[name]), x3, order=2, rtol=1e-7)


def test_outside():
    """Transformations of `jet`."""
    terms = lambda x: jet(lambda x: jnp.sin(x) * x, (x,), ([jnp.ones_like(x), x],))[1][1]
    with jax.enable_x64(True):
        expected = jax.vmap(terms)(x3)
        np.testing.assert_allclose(jax.jit(terms)(x3), expected, rtol=1e-12)
        numeric = (terms(x3 + 1e-6) - terms(x3 - 1e-6)) / 2e-6
        np.testing.assert_allclose(jax.vmap(jax.grad(terms))(x3), numeric, rtol=1e-7)
        np.testing.assert_allclose(jax.jacfwd(terms)(x3).diagonal(), numeric, rtol=1e-7)


class TestCustomDerivatives:
    def test_custom_jvp_counts(self):
        f = jax.custom_jvp(jnp.sin)
        f.defjvp(lambda p, t: (f(*p), 5 * p[0] * t[0]))
        for g in (f, jax.jit(f)):
            _, terms = jet(g, (0.5,), ([1.0, 0.0, 0.0],))
            np.testing.assert_allclose(terms, [2.5, 5, 0])

    def test_custom_jvp_symbolic_zeros(self):
        f = jax.custom_jvp(lambda x, y: (x * y, y))

        def rule(primals, tangents):
            (x, y), (t, zero) = primals, tangents
            assert type(zero) is jax.custom_derivatives.SymbolicZero
            return f(x, y), (t * y, zero)

        f.defjvp(rule, symbolic_zeros=True)
        out, terms = jet(lambda x: f(x, 3.0), (0.5,), ([1.0, 4.0],))
        assert out == (1.5, 3) and terms == ([3, 12], [0, 0])

    def test_custom_vjp_function_counts(self):
        f = jax.custom_vjp(lambda x: x**3)
        f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
        for g in (f, jax.jit(f)):
            np.testing.assert_allclose(jet(g, (2.0,), ([1.0, 0.0],))[1], [12, 12])


class TestArguments:
    def test_coefficients(self):
        derivatives = jet(jnp.exp, (0.5,), ([1.0, 0.0, 0.0],))[1]
        coefficients = jet(jnp.exp, (0.5,), ([1.0, 0.0, 0.0],), factorial_scaled=False)[1]
        np.testing.assert_allclose(derivatives, np.array(coefficients) * [1, 2, 6], rtol=1e-6)
        np.testing.assert_allclose(derivatives, [math.exp(0.5)] * 3, rtol=1e-6)

    def test_order_zero_and_no_arguments(self):
        assert jet(lambda x: x + 1, (2.0,), ([],)) == (3, [])
        assert jet(lambda: 2.0, (), ()) == (2, [])

    def test_terms_take_dtype_and_shape(self):
        _, (t,) = jet(lambda x: x * 2, (jnp.ones(3, jnp.bfloat16),), ([1],))
        assert t.dtype == jnp.bfloat16 and t.shape == (3,)

    @pytest.mark.parametrize(
        "error,text,args",
        [
            (ValueError, "inconsistent lengths", ((1.0, 1.0), ([1.0], [1.0, 2.0]))),
            (ValueError, "position 0 is not an array", (([1.0],), ([1.0],))),
            (ValueError, "2 primals but 1 series", ((1.0, 1.0), ([1.0],))),
            (ValueError, "must have its shape", ((1.0,), ([jnp.ones(2)],))),
            (TypeError, "floating-point", ((1,), ([1.0],))),
            (TypeError, "must be a tuple or a list", (1.0, ([1.0],))),
            (TypeError, "not a valid JAX type", (("a",), ([1.0],))),
        ],
    )
    def test_errors(self, error, text, args):
        with pytest.raises(error, match=text):
            jet(lambda *xs: xs[0], *args)


class TestOwnRules:
    @pytest.fixture
    def primitive(self):
        p = jax.extend.core.Primitive("cube")
        p.def_impl(lambda x: x**3)
        p.def_abstract_eval(lambda x: x)
        yield p
        jet_module.jet_rules.pop(p, None)

    def terms(self, p):
        return np.array(jet(lambda x: p.bind(x * 1.0), (2.0,), ([1.0, 0.0, 0.0],))[1])

    def test_missing(self, primitive):
        with pytest.raises(NotImplementedError, match="no rule for the primitive 'cube'"):
            self.terms(primitive)

    def test_def_deriv(self, primitive):
        jet_module.def_deriv(primitive, lambda x: 3 * x * x)
        np.testing.assert_allclose(self.terms(primitive), [12, 12, 6])

    def test_def_comp(self, primitive):
        jet_module.def_comp(primitive, lambda x: x * x * x)
        np.testing.assert_allclose(self.terms(primitive), [12, 12, 6])

    def test_deflinear_and_defzero(self, primitive):
        jet_module.deflinear(primitive)
        np.testing.assert_allclose(self.terms(primitive), [1, 0, 0])
        jet_module.defzero(primitive)
        np.testing.assert_allclose(self.terms(primitive), [0, 0, 0])

    def test_rule(self, primitive):
        def rule(primals, series):
            (x,), (terms,) = primals, series
            return x, [t * 2 for t in terms]

        jet_module.jet_rules[primitive] = rule
        np.testing.assert_allclose(self.terms(primitive), [2, 0, 0])


def test_names():
    assert jet_module.fact(5) == 120
    np.testing.assert_allclose(jet_module.fact(np.arange(4.0)), [1, 1, 2, 6], rtol=1e-5)
    assert isinstance(jet_module.zero_term, jet_module.ZeroTerm)
    assert isinstance(jet_module.zero_series, jet_module.ZeroSeries)


def test_cost_grows_slowly():
    """A chain of functions without recurrences of their own costs no more than quadratically."""

    def eqns(order):
        series = ([1.0] + [0.0] * (order - 1),)
        jaxpr = jax.make_jaxpr(lambda x: jet(lambda x: lax.asin(lax.log1p(x)), (x,), series))(0.3)
        return len(jaxpr.eqns)

    assert eqns(8) < 10 * eqns(4)
