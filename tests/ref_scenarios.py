"""References to mutable arrays: programs whose results, jaxprs and errors must be the reference's."""

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax

CASES = Programs()
scenario = CASES.define


# of programs whose numbers are weakly typed or not depending on the path that derivatives take
with_any_weak_types = scenario(weak_types=False)


def ref(*shape):
    return jax.new_ref(jnp.arange(float(np.prod(shape))).reshape(shape) + 1)


# Indices

INDICES = {
    "int": 1,
    "negative": -1,
    "numpy_int": np.int32(2),
    "slice": slice(1, None),
    "negative_slice": slice(-2, None),
    "slice_beyond": slice(1, 100),
    "stride": slice(None, None, 2),
    "empty": slice(2, 1),
    "ellipsis": (..., 0),
    "none": (),
    "array": np.array([0, 2]),
    "array2d": np.array([[0, 1], [2, 0]]),
    "negative_array": np.array([-1, -2]),
    "array_beyond": np.array([5, -7]),
    "middle_array": (slice(None), np.array([0, 1])),
    "last_array": (..., np.array([3, 1, 1])),
    "split_arrays": (np.array([0, 1]), slice(None), np.array([1, 2])),
    "adjacent_arrays": (slice(None), np.array([0, 1]), np.array([1, 2])),
    "array_and_int": (np.array([0, 1]), slice(None), 1),
    "crossed_arrays": (np.array([[0], [1]]), np.array([[1, 2]])),
    "traced": jnp.array(2),
    "ds": (0, jax.ds(1, 2)),
    "ds_stride": (0, 0, jax.ds(0, 2, 3)),
}


def _get(index):
    return lambda: ref(3, 3, 4)[index]


def _set(index):
    def run():
        r = ref(3, 3, 4)
        r[index] = -r[index]
        jax.ref.addupdate(r, index, jnp.ones_like(r[index]))
        old = jax.ref.swap(r, index, 2 * r[index])
        return r[...], old

    return run


for _name, _index in INDICES.items():
    CASES.add(f"get_{_name}", _get(_index))
    CASES.add(f"set_{_name}", _set(_index))

for _name, _bad in {
    "beyond": 7,
    "too_many": (0, 0, 0, 0),
    "negative_step": slice(None, None, -1),
}.items():
    CASES.add(f"get_{_name}", _get(_bad))


@scenario
def traced_positions_out_of_bounds():
    r = ref(4)
    get = jax.jit(lambda r, i: (r[i], r[jax.ds(i, 2)]))
    put = jax.jit(lambda r, i: r.__setitem__(i, 9.0))
    outs = get(r, 7), get(r, -7)
    put(r, 7)
    put(r, -7)
    return outs, r[...]


@scenario
def repeated_positions_add():
    r = ref(4)
    jax.ref.addupdate(r, np.array([1, 1, 2]), jnp.ones(3))
    return r[...]


# Printed jaxprs


@scenario
def jaxpr_of_operations():
    def f(x):
        r = jax.new_ref(x)
        r[0] = 1.0
        r[1] += 3.0
        jax.ref.addupdate(r, 2, 4.0)
        y = jax.ref.swap(r, 3, 5.0)
        return jax.freeze(r), y, r.shape[0]

    return str(jax.make_jaxpr(f)(jnp.arange(4.0)))


@scenario
def jaxpr_of_indices():
    def f(r, i, ix):
        return r[0], r[-1, 1:], r[i, 2], r[ix], r[:, ix], r[jax.ds(i, 2)], r[...]

    return str(jax.make_jaxpr(f)(ref(3, 4), 1, jnp.array([0, 1])))


@scenario
def jaxpr_of_views():
    def f(r):
        s = r.at[0]
        s[1] = 2.0
        return s[...], r.at[1:, 2][0], s.at[0:2][...]

    return str(jax.make_jaxpr(f)(ref(3, 4)))


@scenario
def jaxpr_closing_over():
    r = ref(3)
    return str(jax.make_jaxpr(lambda x: r[0] + x)(1.0))


@scenario
def jaxpr_of_vmap():
    def f(x):
        r = jax.new_ref(x)
        r[...] += 1.0
        return r[...]

    return str(jax.make_jaxpr(jax.vmap(f))(jnp.arange(3.0)))


@scenario
def jaxpr_of_jvp():
    def f(x):
        r = jax.new_ref(x)
        r[...] = r[...] * jnp.sin(r[...])
        return r[...]

    return str(jax.make_jaxpr(lambda x: jax.jvp(f, (x,), (x,)))(jnp.ones(2)))


@scenario
def types():
    r = ref(2, 3)
    aval = r.aval
    return [
        str(r), str(aval), aval.str_short(True), str(jax.typeof(jax.new_ref(np.int8(3)))), str(r.shape),
        str(r.dtype), str(r.ndim), str(r.size), str(len(r)), str(isinstance(r, jax.Ref)),
        str(isinstance(r, jax.Array)), str(aval == ref(2, 3).aval), str(aval.to_tangent_aval()),
    ]  # fmt: skip


# jit


@scenario
def jit_argument():
    r = ref(3)

    @jax.jit
    def f(r, x):
        r[0] += x
        return r[...].sum()

    return f(r, 5.0), f(r, 5.0), r[...]


@scenario
def jit_closing_over():
    r = ref(3)

    @jax.jit
    def f(x):
        r[0] += x
        return r[...].sum()

    return f(5.0), f(5.0), r[...]


@scenario
def jit_nested():
    r = ref(3)

    @jax.jit
    def g(r, x):
        r[0] += x

    @jax.jit
    def f(r):
        g(r, 1.0)
        g(r, 2.0)
        return r[0]

    return f(r), r[...]


@scenario
def jit_tree_of_refs_weak():
    rs = {"a": ref(2), "b": (ref(3),)}

    @jax.jit
    def f(rs, x):
        rs["a"][0] = x
        rs["b"][0][1] = rs["a"][1]
        return x

    return f(rs, 5.0), rs["a"][...], rs["b"][0][...]


@scenario
def jit_of_keys():
    r = jax.new_ref(jax.random.key(0))

    @jax.jit
    def f():
        k, s = jax.random.split(r[...])
        r[...] = k
        return jax.random.uniform(s)

    return f(), f()


@scenario
def jit_raising_leaves_refs():
    r = ref(2)

    @jax.jit
    def f(r):
        r[0] = 3.0
        raise RuntimeError

    try:
        f(r)
    except RuntimeError:
        return r[...]


@scenario
def aot():
    r = ref(3)

    def f(r, x):
        r[0] += x
        return r[...].sum()

    compiled = jax.jit(f).lower(r, 1.0).compile()
    return compiled(r, 2.0), compiled(r, 2.0), r[...]


@scenario
def disabled_jit():
    r = ref(3)
    with jax.disable_jit():

        @jax.jit
        def f(r, x):
            r[0] += x
            lax.scan(lambda c, y: (r.__setitem__(1, r[1] + y), None), None, jnp.arange(3.0))
            return lax.cond(x > 0, lambda: r[0], lambda: r[1])

        return f(r, 1.0), r[...]


@scenario
def buffers_are_not_shared():
    x = jnp.arange(3.0)
    r = jax.new_ref(x)
    y = r[...]
    r[0] = 9.0
    return x, y, r[...]


@scenario
def shapes_of_reads():
    r = ref(3)
    return jax.eval_shape(lambda x: r[...] + x, 1.0).shape, jax.eval_shape(lambda r: r[:2], r).shape


# Control flow


@scenario
def scan_closing_over_weak():
    r = ref(3)

    def body(c, x):
        r[0] += x
        return c + r[0], r[1]

    return lax.scan(body, 0.0, jnp.arange(4.0)), r[...]


@scenario
def scan_over_refs_weak():
    r, s = ref(3), jax.new_ref(jnp.zeros(3))

    def body(c, rs):
        a, b = rs
        b[...] = a[...] * 2.0 + c
        return c + 1.0, a[...]

    return lax.scan(body, 0.0, (r, s)), r[...], s[...]


@scenario
def loops_weak():
    r = ref(3)

    def body(i, c):
        r[i] += 1.0
        return c + r[0]

    def step(i):
        r[0] += 1.0
        return i + 1

    out = lax.fori_loop(0, 3, body, 0.0), jax.jit(lambda n: lax.fori_loop(0, n, body, 0.0))(2)
    return out, lax.while_loop(lambda i: i < 3, step, 0), r[...]


@scenario
def cond_closing_over():
    r = ref(3)

    def add(x):
        r[0] += x
        return r[1]

    def sub(x):
        r[1] -= x
        return r[0]

    return lax.cond(True, add, sub, 3.0), lax.cond(False, add, sub, 3.0), r[...]


@scenario
def cond_of_refs():
    r = ref(3)

    def add(r, x):
        r[0] += x
        return r[1]

    return lax.cond(True, add, lambda r, x: r[0], r, 3.0), r[...]


@scenario
def switch_closing_over():
    r = ref(3)
    lax.switch(1, [lambda i=i: r.__setitem__(i, 9.0) for i in range(3)])
    return r[...]


@scenario
def refs_inside_cond_weak():
    return lax.cond(True, lambda x: jax.freeze(jax.new_ref(x)), lambda x: x, 3.0)


# vmap


@scenario
def vmap_of_refs():
    r, s = ref(3, 2), ref(3, 2)

    def f(r, x):
        r[0] += x
        return r[...].sum()

    return jax.vmap(f)(r, jnp.arange(3.0)), r[...], jax.vmap(f, (1, 0))(s, jnp.arange(2.0)), s[...]


@scenario
def vmap_reads():
    r, s = ref(3), ref(2, 3)
    i = jnp.array([2, 0])
    return (
        jax.vmap(lambda i: r[i])(i),
        jax.vmap(lambda r, i: r[i], (None, 0))(r, i),
        jax.vmap(lambda r, i: r[i])(s, i),
    )


@scenario
def vmap_writes_at_mapped_positions():
    r = ref(2, 3)

    def f(r, i, x):
        r[i] = x
        jax.ref.addupdate(r, i, 10.0)
        return jax.ref.swap(r, 0, -1.0)

    return jax.vmap(f)(r, jnp.array([1, 2]), jnp.array([7.0, 8.0])), r[...]


@scenario
def vmap_of_arrays_of_positions():
    r, ix = ref(2, 3, 4), np.array([0, 2])
    return (
        jax.vmap(lambda r: r[ix])(r),
        jax.vmap(lambda r: r[:, ix], in_axes=1)(r),
        jax.vmap(lambda r: r[ix % 2, :][0], in_axes=2)(r),
        jax.vmap(lambda r: r[1, jax.ds(1, 2)])(r),
    )


@scenario
def vmap_of_loops():
    r, s = ref(3, 2), ref(3, 2)

    def scanned(r, x):
        def body(c, y):
            r[0] += y * x
            return c + r[0], r[1]

        return lax.scan(body, jnp.float32(0), jnp.arange(4.0))

    def counted(r, n):
        def step(i):
            r[0] += 1.0
            return i + 1

        return lax.while_loop(lambda i: i < n, step, np.int32(0))

    return (
        jax.vmap(scanned)(r, jnp.arange(3.0)), r[...],
        jax.vmap(counted)(s, jnp.array([1, 3, 2])), s[...],
    )  # fmt: skip


@scenario
def vmap_of_jit():
    r = ref(3, 2)

    @jax.jit
    def g(r, x):
        r[0] += x
        return r[1] * x

    return jax.vmap(lambda r, x: g(r, x))(r, jnp.arange(3.0)), r[...]


@scenario
def vmap_refs_inside_weak():
    def f(x):
        r = jax.new_ref(jnp.zeros(3))
        lax.fori_loop(0, 3, lambda i, _: r.__setitem__(i, x * i), None)
        return r[...]

    xs = jnp.arange(2.0)
    total = lambda x: f(x).sum()
    return (
        jax.vmap(f)(xs), jax.jit(jax.vmap(f))(xs), jax.vmap(jax.grad(total))(xs),
        jax.grad(lambda xs: jax.vmap(f)(xs).sum())(xs),
    )  # fmt: skip


@scenario
def vmap_named():
    r = ref(3)

    def f(r, x):
        r[...] = lax.psum(x, "i")
        return r[...]

    return jax.vmap(f, axis_name="i")(r, jnp.arange(3.0)), r[...]


# Derivatives


def _all_derivatives(f, x):
    total = lambda x: jnp.sum(f(x))
    tangent = jax.jvp(f, (x,), (jnp.ones_like(x),))
    return jax.grad(total)(x), jax.jit(jax.grad(total))(x), tangent, jax.jacrev(f)(x)


@scenario
def derivatives_of_writes_weak():
    def f(x):
        r = jax.new_ref(jnp.zeros(3))
        r[0] = x[0]
        r[1] = r[0] * x[1]
        jax.ref.addupdate(r, 2, r[1] * x[0])
        r[0] += jnp.sin(r[2])
        return jax.freeze(r)

    return _all_derivatives(f, jnp.array([0.5, 1.5]))


@scenario
def derivatives_of_slices_weak():
    def f(x):
        r = jax.new_ref(x)
        r[1:] = r[:-1] * r[1:]
        old = jax.ref.swap(r, np.array([2, 0]), r[0:2])
        jax.ref.addupdate(r, np.array([1, 1]), old)
        return r[...] * x

    return _all_derivatives(f, jnp.array([0.5, 1.5, -1.0]))


@scenario
def derivatives_of_scan_weak():
    def f(x):
        r = jax.new_ref(x)

        def body(c, a):
            r[0] = jnp.sin(r[0]) * a
            r[1] += r[0]
            return c, None

        lax.scan(body, 0.0, jnp.arange(1.0, 4.0))
        return r[...]

    x = jnp.array([0.5, 1.5])
    total = lambda x: jnp.sum(f(x))
    return jax.grad(total)(x), jax.jit(jax.grad(total))(x), jax.jvp(f, (x,), (x,))


@scenario
def derivatives_of_while_weak():
    def f(x):
        r = jax.new_ref(x)

        def step(i):
            r[...] = jnp.sin(r[...])
            return i + 1

        lax.while_loop(lambda i: i < 3, step, 0)
        return r[...] * x

    return jax.jvp(f, (0.5,), (1.0,))


@scenario
def reverse_of_while():
    def f(x):
        r = jax.new_ref(x)
        lax.while_loop(lambda i: i < 3, lambda i: (r.__setitem__(..., r[...] * 2), i + 1)[1], 0)
        return r[...]

    return jax.grad(f)(0.5)


@scenario
def derivatives_of_cond_weak():
    def f(x):
        r = jax.new_ref(x)
        lax.cond(x > 0, lambda: r.__setitem__(..., jnp.sin(r[...])), lambda: None)
        return r[...] * x

    return jax.grad(f)(0.5), jax.grad(f)(-0.5)


@with_any_weak_types
def derivatives_of_jit_weak():
    def f(x):
        r = jax.new_ref(x)

        @jax.jit
        def g(r, y):
            r[...] = jnp.sin(r[...]) * y
            return r[...] + y

        return r[...] * g(r, x)

    return jax.grad(f)(0.5), jax.jvp(f, (0.5,), (1.0,))


@scenario
def derivatives_of_remat_weak():
    @jax.checkpoint
    def f(x):
        r = jax.new_ref(x)
        r[...] = jnp.sin(r[...]) * x
        return r[...]

    return jax.grad(f)(0.5)


@scenario
def other_refs_are_constants_weak():
    r, s = ref(3), ref(3)

    def f(x, r):
        s[0] = lax.stop_gradient(x) * 2
        return x * r[1] * s[0]

    return jax.grad(f)(2.0, r), s[...]


@scenario
def tangents_of_refs():
    r, t = ref(3), jax.new_ref(jnp.ones(3))

    def f(r):
        r[...] = jnp.sin(r[...])
        return r[0]

    return jax.jvp(f, (r,), (t,)), r[...], t[...]


@scenario
def tangents_of_refs_in_loops_weak():
    r, t = ref(3), jax.new_ref(jnp.ones(3))

    def f(r, x):
        def step(i):
            r[0] = r[0] * x + r[1]
            return i + 1

        lax.while_loop(lambda i: i < 3, step, 0)
        return r[0]

    return jax.jvp(f, (r, 2.0), (t, 1.0)), r[...], t[...]


@scenario
def refs_without_gradients_weak():
    r = jax.new_ref(jnp.zeros(()), kind="no_grad_no_remat")

    def f(x):
        r[...] = x * 2
        return r[...] * x

    return jax.grad(f)(3.0), r[...], jax.jvp(f, (3.0,), (1.0,))


@scenario
def refs_without_remat_weak():
    r = jax.new_ref(jnp.zeros(()), kind="no_grad_no_remat")

    @jax.checkpoint
    def f(x):
        r[...] += x * 2
        return jnp.sin(x)

    return jax.grad(f)(3.0), r[...]


@scenario
def remat_runs_again_weak():
    r = jax.new_ref(jnp.ones(()))

    @jax.checkpoint
    def f(x, r):
        r[...] += 1.0
        return jnp.sin(x)

    return f(1.0, r), r[...], jax.grad(f)(1.0, r), r[...]


# Rules of the user's own


@jax.custom_vjp
def noting(x, r):
    return x


noting.defvjp(lambda x, r: (x, r), lambda r, g: (r.__setitem__(..., r[...] + g**2), (g, None))[1])


@scenario
def cotangents_noted_weak():
    def f(x, r):
        return jnp.sin(noting(jnp.sin(x), r))

    out = []
    for g in (jax.grad(f), jax.jit(jax.grad(f)), jax.grad(jax.jit(f)), jax.grad(jax.checkpoint(f))):
        r = jax.new_ref(0.0)
        out.append((g(0.5, r), r[...]))
    return out


@scenario
def cotangents_noted_in_scan_weak():
    def f(x, r):
        return lax.scan(lambda c, _: (jnp.sin(noting(c, r)), None), x, None, length=3)[0]

    out = []
    for g in (jax.grad(f), jax.jit(jax.grad(f)), jax.grad(jax.jit(f))):
        r = jax.new_ref(0.0)
        out.append((g(0.5, r), r[...]))
    return out


@scenario
def rules_that_write_weak():
    @jax.custom_vjp
    def f(x, r):
        r[...] = x
        return x * 2

    f.defvjp(lambda x, r: ((r.__setitem__(..., x + 1), x * 2)[1], None), lambda _, g: (g * 2, None))
    r = jax.new_ref(jnp.zeros(()))
    return f(1.0, r), r[...], jax.grad(f)(1.0, r), r[...], jax.jit(f)(5.0, r), r[...]


@with_any_weak_types
def refs_inside_custom_vjp_weak():
    @jax.custom_vjp
    def f(x):
        r = jax.new_ref(x)
        r[...] = jnp.sin(r[...])
        return r[...]

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * 7,))
    return (
        f(1.0), jax.jit(f)(1.0), jax.grad(f)(1.0), jax.jit(jax.grad(f))(1.0),
        jax.grad(jax.jit(f))(1.0), jax.vmap(f)(jnp.arange(2.0)),
    )  # fmt: skip


@scenario
def accumulated_gradients():
    g = jax.new_ref(jnp.zeros(3))

    def body(c, x):
        _, f = jax.vjp(lambda w: jnp.sum(w * x), jnp.ones(3))
        f.with_refs(g)(1.0)
        return c, None

    lax.scan(body, 0.0, jnp.arange(12.0).reshape(4, 3))
    return g[...]


@scenario
def accumulated_by_hand():
    def loss(w, x):
        return jnp.sum(jnp.sin(w * x))

    @jax.jit
    def total(w, xs):
        g = jax.new_ref(jnp.zeros_like(w))

        def body(c, x):
            value, f = jax.vjp(loss, w, x)
            jax.ref.addupdate(g, ..., f(jnp.float32(1))[0])
            return c + value, None

        return lax.scan(body, jnp.float32(0), xs)[0], jax.freeze(g)

    return total(jnp.ones(3), jnp.arange(6.0).reshape(2, 3))


# Discharge


@scenario
def run_state():
    from jax._src.state.discharge import run_state

    def f(refs):
        a, b = refs
        b[...] = a[...] * 2
        a[0] += 1.0

    return run_state(f)((jnp.arange(3.0), jnp.zeros(3)))


def _closing_over(outer):
    """A function from arrays to arrays: run_state of one that reads and writes `outer`, too."""
    from jax._src.state.discharge import run_state

    def body(x):
        x[...] += outer[...]
        outer[...] = x[...] * 2

    return run_state(body)


@scenario
def run_state_closing_over_arguments():
    outer = ref(3)
    return jax.jit(lambda outer, x: _closing_over(outer)(x))(outer, jnp.arange(3.0)), outer[...]


def _in_control_flow(name, make):
    """Rows with the function inside control flow, which gets it and its argument."""

    def created():
        def fun(x):
            outer = jax.new_ref(x * 2)
            return make(_closing_over(outer), x), outer[...]

        return jax.jit(fun)(jnp.arange(3.0))

    def closed_over():
        outer = ref(3)
        return jax.jit(lambda x: make(_closing_over(outer), x))(jnp.arange(3.0)), outer[...]

    CASES.add(f"run_state_closing_over_{name}", created)
    CASES.add(f"run_state_closing_over_{name}_outside", closed_over)


_in_control_flow("jit", lambda fun, x: jax.jit(fun)(x))
_in_control_flow("cond", lambda fun, x: lax.cond(x[1] > 0, fun, lambda x: x, x))
_in_control_flow("not_cond", lambda fun, x: lax.cond(x[1] < 0, fun, lambda x: x, x))
_in_control_flow("scan", lambda fun, x: lax.scan(lambda c, _: (fun(c), c), x, length=3))
_in_control_flow("while", lambda fun, x: lax.while_loop(lambda c: c[0] < 3.5, fun, x + 1))
_in_control_flow("fori", lambda fun, x: lax.fori_loop(0, 3, lambda i, c: fun(c), x))


@scenario
def run_state_closing_over_discharged():
    from jax._src.state.discharge import discharge_state

    closed = jax.make_jaxpr(lambda outer, x: _closing_over(outer)(x))(ref(3), jnp.arange(3.0))
    pure = discharge_state(closed, should_discharge=[True, False])
    return jax.core.eval_jaxpr(pure.jaxpr, pure.consts, jnp.ones(3), jnp.arange(3.0))


# Errors


@scenario
def error_returned():
    return jax.jit(lambda r: r)(ref(3))


@scenario
def error_returned_new():
    return jax.jit(lambda x: jax.new_ref(x))(1.0)


@scenario
def error_returned_closed_over():
    r = ref(3)
    return jax.jit(lambda x: {"a": (x, r)})(1.0)


@scenario
def error_twice():
    r = ref(3)
    return jax.jit(lambda a, b: a[0] + b[0])(r, r)


@scenario
def error_argument_and_closed_over():
    r = ref(3)
    return jax.jit(lambda a: a[0] + r[0])(r)


@scenario
def error_inner_twice():
    inner = jax.jit(lambda a, b: a[0] + b[0])
    return jax.jit(lambda r: inner(r, r))(ref(3))


@scenario
def error_inner_argument_and_closed_over():
    return jax.jit(lambda r: jax.jit(lambda a: a[0] + r[0])(r))(ref(3))


@scenario
def error_vmap_twice():
    r = ref(3)
    return jax.vmap(lambda a, b: a[...] + b[...])(r, r)


@scenario
def error_scan_argument_and_closed_over():
    r = ref(3)
    return lax.scan(lambda c, x: (c, x[...] + r[0]), 0.0, r)


@scenario
def error_cond_twice():
    r = ref(3)
    f = lambda a, b: a[0] + b[0]
    return lax.cond(True, f, f, r, r)


@scenario
def error_carried():
    return lax.scan(lambda c, x: (c, c[0]), ref(3), jnp.arange(4.0))


@scenario
def error_stacked():
    r = ref(3)
    return lax.scan(lambda c, x: (c, r), 0.0, jnp.arange(4.0))


@scenario
def error_while_carried():
    return lax.while_loop(lambda c: c[0] < 3.0, lambda c: c, ref(3))


@scenario
def error_cond_returned():
    r = ref(3)
    return lax.cond(True, lambda r: r, lambda r: r, r)


@scenario
def error_remat_returned():
    r = ref(3)
    return jax.checkpoint(lambda x: r)(1.0)


@scenario
def error_shape():
    ref(3)[...] = 1.0


@scenario
def error_dtype():
    ref(3)[0] = jnp.int32(1)


@scenario
def error_fraction_into_integers():
    jax.new_ref(jnp.arange(3))[0] = 1.5


@scenario
def error_not_a_ref():
    return jax.ref.get(jnp.arange(3.0), 0)


@scenario
def error_arithmetic():
    return ref(3) + 1


@scenario
def error_as_an_array():
    return jnp.sin(ref(3))


@scenario
def error_leaked():
    leaked = []
    jax.jit(lambda x: leaked.append(jax.new_ref(x)))(1.0)
    return leaked[0][...]


@scenario
def error_new_of_list():
    return jax.new_ref([1, 2])


@scenario
def error_gradient_is_a_ref():
    r = ref(3)
    return jax.grad(lambda x: r)(1.0)
