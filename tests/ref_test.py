"""References to mutable arrays: beside the reference, and what we do besides."""

import functools
import re

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, core, xla_bridge
from jax._src.state.discharge import discharge_state, run_state

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

reference, test_reference, _ = case_tests(__file__)


def ref(*shape):
    return jax.new_ref(jnp.arange(float(np.prod(shape))).reshape(shape) + 1)


def test_masks_and_lists_index():
    r = ref(3, 2)
    assert r[np.array([True, False, True])].tolist() == [[1, 2], [5, 6]]
    assert r[[0, 1]].tolist() == [[1, 2], [3, 4]]
    r[jnp.array([True, False, True]), 0] = jnp.zeros(2)
    assert r[:, 0].tolist() == [0, 3, 0]
    with pytest.raises(jax.errors.NonConcreteBooleanIndexError):
        jax.jit(lambda r, m: r[m])(r, jnp.array([True, False, True]))


@pytest.mark.parametrize("index", [1.5, True, None, "a"])
def test_what_is_no_index(index):
    with pytest.raises(TypeError, match="index"):
        if index is None:
            index = (None, 0)
        ref(3)[index]


def test_traced_slices():
    r = ref(2, 6)

    @jax.jit
    def f(r, i):
        r[0, jax.ds(i, 2, 2)] = jnp.array([8.0, 9.0])
        return r[1, jax.ds(i, 2, 3)], r[jnp.array([1, 0]), jax.ds(i, 2)]

    strided, mixed = f(r, 1)
    assert strided.tolist() == [8, 11]
    assert mixed.tolist() == [[8, 9], [8, 3]]
    assert r[0].tolist() == [1, 8, 3, 9, 5, 6]
    text = str(jax.make_jaxpr(lambda r, i: (r[0, ::2], r[1, jax.ds(i, 2, 3)]))(r, 1))
    assert "a[0,::2]" in text and "a[1,b:b+6:3]" in text


def test_views():
    def f(r):
        flat, turned, bits = r.reshape(6), r.T, r.bitcast(np.int32)
        flat[2] = 9.0
        jax.ref.addupdate(turned.at[1], 0, 1.0)
        part = r.at[0].reshape(-1, 1)
        return flat[1:3], turned[0], turned.shape, bits[0, 0], part[...], r.transpose(0, 1)[0]

    r = ref(2, 3)
    eager, want = f_eager(r), np.array([[1.0, 3.0, 9.0], [4.0, 5.0, 6.0]])
    assert eager.tolist() == [3, 9]
    assert r[...].tolist() == want.tolist()
    s = ref(2, 3)
    outs = jax.jit(f)(s)
    assert s[...].tolist() == want.tolist()
    assert outs[0].tolist() == [3, 9]
    assert outs[1].tolist() == [1, 4]
    assert outs[3] == np.float32(1).view(np.int32)
    assert outs[4].tolist() == [[1], [3], [9]]
    text = str(jax.make_jaxpr(f)(s))
    assert "a.reshape(6)[2] <- 9.0:f32[]" in text
    assert "a.transpose(1, 0)[1,:][0] += 1.0:f32[]" in text
    with pytest.raises(TypeError, match="reshape"):
        r.at[0].reshape(2, 2)


def f_eager(r):
    view = r.at[...]
    view.reshape(6)[2] = 9.0
    jax.ref.addupdate(view.T.at[1], 0, 1.0)
    return view.reshape(6)[1:3]


def test_weak_values_take_the_dtype_of_the_ref():
    r = jax.new_ref(jnp.zeros(3, jnp.bfloat16))
    r[0] = 1.5
    r[1] += 2.0
    jax.ref.addupdate(r, 2, 3)
    assert r.dtype == jnp.bfloat16 and r[...].tolist() == [1.5, 2, 3]
    small = jax.new_ref(jnp.zeros(2, jnp.int8))
    small[0] = -3
    assert small[...].tolist() == [-3, 0]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_stored_integers_take_the_dtype_of_the_ref(wrap):
    def f(value):
        r = jax.new_ref(jnp.int32(0))
        r[...] = value
        return r[...]

    for value in jnp.int8(-2), jnp.uint8(7), np.uint32(2**32 - 1):
        out = wrap(f)(value)
        assert out.dtype == jnp.int32 and out == np.asarray(value).astype(np.int32)
    for value in jnp.float32(1), jnp.bool_(True):
        with pytest.raises(ValueError, match="Invalid dtype for `swap`"):
            wrap(f)(value)
    with pytest.raises(ValueError, match="Invalid dtype for `addupdate`"):
        jax.ref.addupdate(jax.new_ref(jnp.int32(0)), ..., jnp.int8(1))


def test_ended_refs():
    r = ref(3)
    assert jax.freeze(r).tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="has ended"):
        r[0]
    with pytest.raises(RuntimeError, match="has ended"):
        jax.jit(lambda r: r[0])(r)
    assert "ended" in repr(r)

    def f(x):
        r = jax.new_ref(x)
        jax.free_ref(r)
        return r[...]

    with pytest.raises(ValueError, match="`get` of a reference .* that has ended"):
        jax.jit(f)(1.0)


def test_empty_refs():
    r = jax.empty_ref(jax.ShapeDtypeStruct((3,), jnp.float32))
    r[...] = jnp.ones(3)
    assert r[0] == 1

    def f(x):
        r = jax.empty_ref(jax.typeof(x))
        r[...] = x**2
        return r[...]

    assert jax.jit(f)(3.0) == 9
    assert jax.grad(f)(3.0) == 6
    assert jax.vmap(f)(jnp.arange(3.0)).tolist() == [0, 1, 4]


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: jax.new_ref(jax.new_ref(1.0)), TypeError),
        (lambda: jax.new_ref(1.0, kind="other"), ValueError),
        (lambda: jax.freeze(jnp.ones(2)), ValueError),
        (lambda: ref(3).__setitem__(0, ref())[...], TypeError),
    ],
)
def test_refusals(make, error):
    with pytest.raises(error):
        make()


def test_one_error_class_for_what_traces_cannot_write():
    r = ref(3)

    def f(x):
        r[0] = x
        return x

    with pytest.raises(ValueError, match="differentiated value on a non-differentiated"):
        jax.grad(f)(1.0)
    with pytest.raises(ValueError, match="vmapped value on an unbatched"):
        jax.vmap(f)(jnp.ones(2))

    def count(x):
        r[0] += 1.0  # once for each element, which nothing says
        return x

    with pytest.raises(ValueError, match="unbatched"):
        jax.vmap(count)(jnp.ones(2))
    with pytest.raises(ValueError, match="addupdate .* unbatched"):
        jax.vmap(lambda x: jax.ref.addupdate(r, 0, 1.0))(jnp.ones(2))


def test_names_in_aliasing_errors():
    r = ref(3)
    with pytest.raises(ValueError, match="appeared at both a and b"):
        jax.jit(lambda a, b: 0)(r, r)
    with pytest.raises(ValueError, match="closed over and passed as the argument a"):
        jax.jit(lambda a: a[0] + r[0])(r)
    with pytest.raises(ValueError, match=re.escape("path result['a'][1]")):
        jax.jit(lambda x: {"a": (x, r)})(1.0)
    f = jax.jit(lambda a, b: a[0] + b[0])
    assert f(r, ref(3)) == 2
    with pytest.raises(ValueError, match="both a and b"):  # also where the trace is there already
        f(r, r)


def test_conditions_of_loops_read_and_write():
    @jax.jit
    def until(r):
        def step(i):
            r[0] += 1.0
            return i + 1

        return lax.while_loop(lambda i: r[0] < 5, step, 0)

    r, s = ref(3), ref(3)
    assert until(r) == 4 and r[0] == 5
    lax.while_loop(lambda i: s[0] < 5, lambda i: (s.__setitem__(0, s[0] + 1), i + 1)[1], 0)
    assert s[0] == 5

    def counting(i):
        r[1] += 1.0
        return i < 3

    assert lax.while_loop(counting, lambda i: i + 1, 0) == 3
    assert r[1] == 2 + 4  # the condition is asked once more than the body runs


def test_mapped_branches():
    def f(r, p):
        def one():
            r[0] = 9.0
            return r[1]

        def other():
            r[1] = 8.0
            return r[0]

        return lax.cond(p, one, other)

    r, s = ref(3, 2), ref(3, 2)
    assert jax.vmap(f)(r, jnp.array([True, False, True])).tolist() == [2, 3, 6]
    assert r[...].tolist() == [[9, 2], [3, 8], [9, 6]]
    assert jax.vmap(f, (0, None))(s, True).tolist() == [2, 4, 6]
    assert s[...].tolist() == [[9, 2], [9, 4], [9, 6]]


def test_mapped_scans():
    def body(c, x):
        x[...] = x[...] * 2
        return c + x[...], None

    r = ref(3, 2)
    assert jax.vmap(lambda r: lax.scan(body, 0.0, r)[0])(r).tolist() == [6, 14, 22]
    assert r[...].tolist() == [[2, 4], [6, 8], [10, 12]]

    def add(r, x):
        return lax.scan(lambda c, y: (r.__setitem__(0, r[0] + y * x), r[0]), None, jnp.arange(4.0))

    s = ref(2, 3)
    jax.vmap(add, (1, 0))(s, jnp.arange(3.0))
    assert s[...].tolist() == [[1, 8, 15], [4, 5, 6]]


def test_mapped_views_and_slices():
    r = ref(2, 3, 4)

    def f(r):
        view = r.at[1]
        view[0] = 5.0
        return view[...], r.at[:, 1:3][2], r.reshape(12)[3:5], r.T[0]

    outs = jax.vmap(f)(r)
    x = np.arange(24.0).reshape(2, 3, 4) + 1
    x[:, 1, 0] = 5
    for got, want in zip(outs, (x[:, 1], x[:, 2, 1:3], x.reshape(2, 12)[:, 3:5], x[:, :, 0])):
        assert got.tolist() == want.tolist()
    s = ref(2, 4)
    jax.vmap(lambda r, i, x: r.__setitem__(jax.ds(i, 2), x))(
        s, jnp.array([1, 2]), jnp.array([[7.0, 8.0], [9.0, 10.0]])
    )
    assert s[...].tolist() == [[1, 7, 8, 4], [5, 6, 9, 10]]


def test_derivatives_through_what_changes_refs():
    def steps(x):  # x, x^2, x^3, x^4
        r = jax.new_ref(jnp.zeros(4))
        r[0] = x
        lax.fori_loop(0, 3, lambda i, _: r.__setitem__(i + 1, r[i] * x), None)
        return r[...].sum()

    slope = 1 + 4 + 12 + 32
    for g in (jax.grad(steps), jax.jit(jax.grad(steps)), jax.grad(jax.jit(steps))):
        assert g(2.0) == slope
    assert jax.jvp(steps, (2.0,), (1.0,)) == (30, slope)
    assert jax.grad(jax.grad(steps))(2.0) == 2 + 12 + 48

    def over_rows(x):
        r = jax.new_ref(x)
        lax.scan(lambda c, row: (row.__setitem__(..., row[...] * c), c + 1)[1:] * 2, 2.0, r)
        return (r[...] ** 2).sum()

    assert jax.grad(over_rows)(jnp.arange(3.0)).tolist() == [0, 18, 64]

    def branching(x, p):
        r = jax.new_ref(jnp.array([x, 2 * x]))
        lax.cond(p, lambda: r.__setitem__(0, r[1] ** 2), lambda: r.__setitem__(1, r[1] * 3))
        return r[...].sum()

    assert jax.grad(branching)(0.5, True) == 8 * 0.5 + 2
    assert jax.grad(branching)(0.5, False) == 7

    def recomputed(x):
        r = jax.new_ref(x)

        @jax.checkpoint
        def step(c, y):
            r[...] = r[...] ** 2 * y
            return c, None

        lax.scan(step, 0.0, jnp.arange(1.0, 3.0))
        return r[...]

    assert jax.grad(recomputed)(2.0) == 2 * 4 * 2**3  # 2 x^4


def test_derivatives_beside_integers():
    def f(x):
        n, r = jax.new_ref(np.int32(0)), jax.new_ref(x)

        def body(c, _):
            n[...] += 1
            r[...] = r[...] * x * n[...]
            return c, None

        lax.scan(body, None, None, length=3)
        return r[...] * n[...]  # 18 x^4

    assert jax.jvp(f, (2.0,), (1.0,)) == (288, 576)
    assert jax.grad(f)(2.0) == jax.jit(jax.grad(f))(2.0) == 576


def test_gradients_by_what_refs_hold():
    r = ref(3)
    assert jax.grad(lambda r: (r[...] ** 2).sum())(r).tolist() == [2, 4, 6]
    y, f_vjp = jax.vjp(lambda r, x: (r.__setitem__(0, x), (r[...] * x).sum())[1], r, 2.0)
    r_bar, x_bar = f_vjp(1.0)
    assert y == 14 and r_bar.tolist() == [0, 2, 2] and x_bar == 9


def test_derivatives_of_derivatives():
    def f(x):
        r = jax.new_ref(x)
        r[1:] = r[:-1] * r[1:]
        old = jax.ref.swap(r, np.array([2, 0]), r[0:2])
        jax.ref.addupdate(r, np.array([1, 1]), old)
        return (r[...] * x).sum()

    def pure(x):
        a, b, c = x
        return (b * a) * a + (a * b + b * c + a) * b + a * c

    x = jnp.array([0.5, 1.5, -1.0])
    np.testing.assert_allclose(jax.grad(jax.jit(f))(x), jax.grad(pure)(x), rtol=1e-6)
    np.testing.assert_allclose(jax.jacrev(jax.grad(f))(x), jax.hessian(pure)(x), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.hessian(f))(x), jax.hessian(pure)(x), rtol=1e-6)


def test_jacobians():
    def f(x):
        r = jax.new_ref(x)
        r[0] = r[0] * r[1]
        r[1] += jnp.sin(r[0])
        return r[...]

    x = jnp.array([0.5, 1.5])
    np.testing.assert_allclose(jax.jacfwd(f)(x), jax.jacrev(f)(x), rtol=1e-6)
    pure = lambda x: (x[0] * x[1]) ** 2 + (x[1] + jnp.sin(x[0] * x[1])) ** 2
    hessian = jax.hessian(lambda x: (f(x) ** 2).sum())(x)
    np.testing.assert_allclose(hessian, jax.hessian(pure)(x), rtol=1e-5)


def test_linear_parts():
    def f(x):
        r = jax.new_ref(x)
        r[...] = r[...] ** 2
        return r[...] * x

    y, push = jax.linearize(f, 2.0)
    assert y == 8 and push(1.0) == 12
    _, pull = jax.jit(lambda x: jax.vjp(f, x))(2.0)
    assert pull(1.0)[0] == 12

    def double(x):
        r = jax.new_ref(jnp.zeros(2))
        r[0] = x
        jax.ref.addupdate(r, 1, r[0])
        return r[...].sum()

    assert jax.linear_transpose(double, 1.0)(3.0)[0] == 6


def test_cotangents_noted_in_branches():
    @jax.custom_vjp
    def noting(x, r):
        return x

    noting.defvjp(lambda x, r: (x, r), lambda r, g: (r.__setitem__(..., g), (g, None))[1])
    r = jax.new_ref(0.0)

    def f(x, p):
        return lax.cond(p, lambda: 3.0 * noting(x, r), lambda: x * 2.0)

    assert jax.grad(f)(0.5, False) == 2 and r[...] == 0
    assert jax.grad(f)(0.5, True) == 3 and r[...] == 3
    assert jax.jit(jax.grad(f))(0.5, True) == 3


def test_run_state():
    def f(refs):
        a, b = refs
        b[...] = a[...] * 2
        a[0] += 1.0

    args = (jnp.arange(3.0), jnp.zeros(3))
    assert "run_state[" in str(jax.make_jaxpr(run_state(f))(args))
    total = lambda x: run_state(f)((x, jnp.zeros(3)))[1].sum()
    assert jax.grad(total)(args[0]).tolist() == [2, 2, 2]
    assert jax.grad(jax.jit(total))(args[0]).tolist() == [2, 2, 2]
    batch = jnp.arange(6.0).reshape(2, 3)
    assert jax.vmap(run_state(f))((batch, batch))[1].tolist() == (batch * 2).tolist()
    with pytest.raises(ValueError, match="must return None"):
        run_state(lambda r: r[...])(1.0)


def test_discharge():
    def f(r, s, x):
        r[0] = x
        return s[1]

    closed = jax.make_jaxpr(f)(ref(3), ref(3), 1.0)
    assert {type(e).__name__ + str(e.input_index) for e in closed.effects} == {
        "WriteEffect0",
        "ReadEffect1",
    }
    pure = discharge_state(closed)
    assert not pure.effects and len(pure.out_avals) == 3
    outs = core.eval_jaxpr(pure.jaxpr, pure.consts, jnp.zeros(3), jnp.arange(3.0), 5.0)
    assert [np.asarray(x).tolist() for x in outs] == [1, [5, 0, 0], [0, 1, 2]]
    half = discharge_state(closed, should_discharge=[False, True, False])
    assert type(half.in_avals[0]) is core.AbstractRef and half.effects == {core.WriteEffect(0)}


def test_dead_uses_go():
    def f(x):
        a, b = jax.new_ref(x), jax.new_ref(x)
        a[...] = x * 2
        b[...] = x * 3
        a[...]
        return b[...]

    from jax._src.interpreters import partial_eval as pe

    closed = jax.make_jaxpr(f)(1.0)
    jaxpr, _ = pe.dce_jaxpr(closed.jaxpr, [True])
    assert [e.primitive.name for e in jaxpr.eqns].count("new_ref") == 1
    text = jax.jit(f).lower(1.0).as_text()
    assert text.count("multiply") == 1


def test_buffers_are_reused():
    r = ref(1024)
    f = jax.jit(lambda r: r.__setitem__(0, 5.0))
    f(r)
    address = r.unsafe_buffer_pointer()
    f(r)
    assert r.unsafe_buffer_pointer() == address
    r[1] = 3.0
    assert r.unsafe_buffer_pointer() == address
    assert "tf.aliasing_output" in f.lower(r).as_text()
    assert "aliasing" not in jax.jit(lambda r: r[0]).lower(r).as_text()


def test_reads_can_be_donated():
    r = ref(4)
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    r[...] = step(r[...])
    assert r[...].tolist() == [2, 3, 4, 5]
    assert jax.jit(lambda r: r[0], donate_argnums=0)(r) == 2
    assert r[0] == 2


def test_as_a_sequence():
    r = ref(2, 2)
    assert [x.tolist() for x in r] == [[1, 2], [3, 4]]
    assert np.asarray(r).tolist() == [[1, 2], [3, 4]]
    assert jax.jit(lambda r: sum(x[0] for x in r))(r) == 4
    with pytest.raises(TypeError):
        r += 1


def test_sharded_refs():
    if len(jax.devices()) < 2:
        pytest.skip("needs several devices")
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.NamedSharding(mesh, jax.P("x"))
    r = jax.new_ref(jax.device_put(jnp.arange(4.0), sharding))
    r[0] = 7.0
    jax.jit(lambda r: r.__setitem__(1, r[0] + 1))(r)
    assert r.sharding == sharding and r[...].tolist() == [7, 8, 2, 3]


def marked(kind, symbolic_zeros):
    """2 x, which writes to two references; the rule takes 5 for its derivative."""
    f = getattr(jax, kind)(lambda r, n, x: (change(r, n, x), x * 2)[1])

    def change(r, n, x):
        r[...] = jnp.sin(x) * r[...]
        n[...] += 1

    is_zero = lambda t: isinstance(t, jax.custom_derivatives.SymbolicZero)
    if kind == "custom_jvp":
        rule = lambda p, t: (f(*p), jnp.zeros(()) if is_zero(t[2]) else 5.0 * t[2])
        f.defjvp(rule, symbolic_zeros=symbolic_zeros)
    else:
        fwd = lambda *args: (f(*[a.value for a in args] if symbolic_zeros else args), None)
        bwd = lambda _, g: (None, None, 0.0 if is_zero(g) else 5 * g)
        f.defvjp(fwd, bwd, symbolic_zeros=symbolic_zeros)
    return f


@pytest.mark.parametrize("symbolic_zeros", [False, True])
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_functions_with_rules_that_write_to_differentiated_refs(kind, symbolic_zeros):
    f = marked(kind, symbolic_zeros)
    scan = lambda r, n, x: lax.scan(lambda c, _: (f(r, n, c), None), x, None, length=2)[0]
    calls = dict(
        plain=f,
        jit=jax.jit(f),
        remat=jax.checkpoint(f),
        cond=lambda r, n, x: lax.cond(x > 0, lambda: f(r, n, x), lambda: x),
        nested=jax.jit(jax.checkpoint(lambda r, n, x: lax.cond(x > 0, jax.jit(f), f, r, n, x))),
        scan=scan,
        jit_scan=jax.jit(scan),
    )
    # What the function writes has no derivative: after it the tangent of r is what it was before, 1.
    want = dict.fromkeys(calls, (2 * 1.5 + 5 * np.sin(1.5) * 1.5) * 2)
    want["scan"] = want["jit_scan"] = (4 * 1.5 + 25 * np.sin(3.0) * np.sin(1.5) * 1.5) * 3
    for name, call in calls.items():

        def outer(x):
            r, n = jax.new_ref(x), jax.new_ref(0)
            y = call(r, n, x)
            return y * r[...] * (1.0 + n[...])

        for grad in (jax.grad(outer), jax.jit(jax.grad(outer))):
            np.testing.assert_allclose(grad(1.5), want[name], rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(
            jax.vmap(jax.grad(outer))(jnp.array([1.5])), want[name], rtol=1e-5
        )


def test_residuals_that_are_differentiated_refs():
    @jax.custom_vjp
    def f(r, x):
        return r[...] * x

    f.defvjp(lambda r, x: (f(r, x), r), lambda r, g: (None, r[...] * g))
    with pytest.raises(NotImplementedError, match="no_grad_no_remat"):
        jax.grad(lambda x: jax.jit(f)(jax.new_ref(x), x))(1.0)


def test_solves_with_refs():
    def root(x):
        r = jax.new_ref(x)

        def square(y):
            s = jax.new_ref(y)
            s[...] *= y
            return s[...] - r[...]

        return lax.custom_root(square, x, lambda f, _: jnp.sqrt(r[...]), lambda g, y: y / g(1.0))

    def solution(x):
        r = jax.new_ref(x)

        def matvec(y):
            s = jax.new_ref(y)
            s[...] *= r[...]
            return s[...]

        return lax.custom_linear_solve(matvec, 1.0, lambda _, b: b / r[...], symmetric=True)

    for f, value, grad in ((root, 2.0, 0.25), (solution, 0.25, -1 / 16)):
        for g in (f, jax.jit(f)):
            assert jax.value_and_grad(g)(4.0) == (value, grad)
            assert jax.vmap(jax.grad(g))(jnp.array([4.0])) == grad
        assert jax.jvp(f, (4.0,), (2.0,)) == (value, 2 * grad)
    outer = jax.new_ref(4.0)
    assert jax.jit(lambda: lax.custom_root(
        lambda y: y**2 - outer[...], 1.0, lambda *_: jnp.sqrt(outer[...]), lambda g, y: y / g(1.0)
    ))() == 2  # fmt: skip

    def counted(x):
        """A root whose solver counts its calls."""

        def solve(f, guess):
            outer[...] += 1.0
            return jnp.sqrt(x)

        return lax.custom_root(lambda y: y**2 - x, 1.0, solve, lambda g, y: y / g(1.0))

    assert (counted(9.0), jax.jit(counted)(9.0), outer[...]) == (3, 3, 6)

    def writes(x):
        r = jax.new_ref(x)
        return lax.custom_root(
            lambda y: y - x, 1.0, lambda *_: r.swap(3.0), lambda g, y: y / g(1.0)
        )

    with pytest.raises(NotImplementedError, match="writes to a mutable array"):
        jax.grad(writes)(1.0)


def test_linear_calls_with_refs():
    def times(k, x):
        r = jax.new_ref(x)
        r[...] *= k
        return r[...]

    f = lambda x: jax.custom_derivatives.linear_call(times, times, 3.0, x)
    for g in (f, jax.jit(f), jax.checkpoint(f)):
        assert jax.value_and_grad(g)(2.0) == (6, 3)
        assert jax.linear_transpose(g, 1.0)(2.0) == (6,)


@pytest.mark.parametrize(
    "name, fun",
    [
        ("sin", jnp.sin),
        ("add", lambda ref: jnp.add(ref, 1)),
        ("sum", jnp.sum),
        ("dot", lambda ref: jnp.dot(ref, jnp.arange(3.0))),
        ("concatenate", lambda ref: jnp.concatenate([ref, ref[...]])),
        ("sort", jnp.sort),
        ("sin", jax.jit(jnp.sin)),
    ],
)
def test_functions_of_arrays_refuse_refs_by_name(name, fun):
    with pytest.raises(TypeError, match=rf"^{name} requires .*Ref{{float32\[3\]}}"):
        fun(jax.new_ref(jnp.arange(3.0)))


def test_operations_refuse_refs_by_name():
    with pytest.raises(ValueError, match="^sin got an operand of type Ref"):
        lax.sin(jax.new_ref(1.0))


def test_effects_name_variables():
    def double(ref):
        ref[...] = ref[...] * 2
        return ref[0]

    jaxpr = jax.make_jaxpr(lambda ref, y: double(ref) + y)(jax.new_ref(jnp.arange(3.0)), 1.0)
    text = jaxpr.pretty_print(print_effects=True)
    assert ": { Read<a>, Write<a> } }" in text
    ref = jax.new_ref(jnp.arange(3.0))
    text = jax.make_jaxpr(lambda: double(ref))().pretty_print(print_effects=True)
    assert "{ lambda a:Ref" in text and ": { Read<a>, Write<a> } }" in text


def test_run_state_inside_control_flow():
    def start_with_five(ref):
        ref[0] = 5.0

    def fun(x):
        return lax.cond(x[1] > 0, run_state(start_with_five), lambda x: x, x)

    x = jnp.arange(3.0)
    np.testing.assert_array_equal(jax.jit(fun)(x), [5.0, 1.0, 2.0])
    np.testing.assert_array_equal(jax.jit(fun)(-x), -x)
    np.testing.assert_array_equal(jax.vmap(fun)(jnp.stack([x, -x])), [[5.0, 1.0, 2.0], -x])


_CLOSING_OVER = {  # calls of the function that `run_state` returns, once
    "itself": lambda fun, x: fun(x),
    "jit": lambda fun, x: jax.jit(fun)(x),
    "cond": lambda fun, x: lax.cond(x[1] > -9, fun, lambda x: x, x),
    "scan": lambda fun, x: lax.scan(lambda c, _: (fun(c), None), x, length=1)[0],
    "while": lambda fun, x: lax.fori_loop(0, 1, lambda i, c: fun(c), x),
    "remat": lambda fun, x: jax.checkpoint(fun)(x),
    "run_state": lambda fun, x: run_state(lambda r: r.__setitem__(..., fun(r[...])))(x),
}


@pytest.mark.parametrize("where", _CLOSING_OVER)
def test_run_state_closing_over_references(where):
    def fun(x):
        outer = jax.new_ref(x * 2)

        def body(ref):
            ref[...] += jnp.sin(outer[...])
            outer[0] = ref[1] * x[2]

        y = _CLOSING_OVER[where](run_state(body), x)
        return y * outer[...], outer[...]

    def arrays(x):
        y = x + jnp.sin(x * 2)
        outer = (x * 2).at[0].set(y[1] * x[2])
        return y * outer, outer

    x = jnp.arange(3.0) / 2
    transformed = [
        lambda f: f(x),
        lambda f: jax.jvp(f, (x,), (x + 1,)),
        lambda f: jax.jacrev(f)(x),
        lambda f: jax.vmap(f)(jnp.stack([x, -x])),
        lambda f: jax.vmap(jax.jacfwd(f))(jnp.stack([x, -x])),
    ]
    for transform in transformed:
        expected = transform(arrays)
        for f in (fun, jax.jit(fun)):
            assert_allclose = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
            jax.tree.map(assert_allclose, transform(f), expected)


@pytest.mark.parametrize("should", [(True, False), (False, True), (True, True)])
def test_run_state_closing_over_references_partly_discharged(should):
    def fun(a, b, x):
        def body(ref):
            lax.cond(x[0] > 0, lambda: ref.__setitem__(..., a[...]), lambda: b.__setitem__(..., x))
            a[...] += ref[...] + b[...]

        return run_state(body)(x)

    make = lambda: [jax.new_ref(jnp.ones(3)), jax.new_ref(jnp.full(3, 2.0))]
    x = jnp.arange(3.0)
    a, b = make()
    expected = fun(a, b, x)
    closed = discharge_state(jax.make_jaxpr(fun)(a, b, x), should_discharge=[*should, False])
    refs = make()
    args = [r[...] if s else r for r, s in zip(refs, should)]
    y, *finals = core.eval_jaxpr(closed.jaxpr, closed.consts, *args, x)
    np.testing.assert_array_equal(y, expected)
    for i, s in enumerate(should):
        if s:
            refs[i][...] = finals.pop(0)
    np.testing.assert_array_equal(refs[0][...], a[...])
    np.testing.assert_array_equal(refs[1][...], b[...])


def test_printed_writes_name_their_result_in_nested_jaxprs():
    def write(ref, x):
        ref[...] = x
        jnp.sin(x)

    r, x = jax.new_ref(jnp.zeros(3)), jnp.arange(3.0)
    outer = str(jax.make_jaxpr(write)(r, x))
    assert "a[...] <- b" in outer and "_:f32[3] = sin b" in outer
    inner = str(jax.make_jaxpr(jax.jit(write))(r, x))
    assert "c:f32[3], a[...] <- a[...], b" in inner and "d:f32[3] = sin b" in inner
