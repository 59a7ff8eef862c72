"""Every primitive through every transformation: the rows are in primitive_rows.py."""

import ml_dtypes
import numpy as np
import pytest
from primitive_rows import ROWS, Row

import jax
import jax.extend
import jax.numpy as jnp
from jax._src import config, core, test_util as jtu, xla_bridge
from jax._src.interpreters import partial_eval as pe
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def rows(*, where=lambda row: True):
    return pytest.mark.parametrize("row", [r for r in ROWS if where(r)], ids=lambda row: row.name)


def primitives_of(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in core.jaxprs_in_params(eqn.params):
            yield from primitives_of(inner)


def leaves(tree):
    return jax.tree.leaves(tree)


def assert_close(xs, ys, dtype=np.float64):
    xs, ys = leaves(xs), leaves(ys)
    assert len(xs) == len(ys)
    tol = {8: 1e-9, 4: 1e-4, 2: 5e-2, 1: 0.5}[np.dtype(dtype).itemsize]
    for x, y in zip(xs, ys):
        assert x.shape == y.shape and x.dtype == y.dtype, (jax.typeof(x), jax.typeof(y))
        x, y = (np.asarray(a) for a in (x, y))
        if x.dtype == jax.float0:
            continue
        wide = np.complex128 if np.issubdtype(x.dtype, np.complexfloating) else np.float64
        np.testing.assert_allclose(x.astype(wide), y.astype(wide), rtol=tol, atol=tol)


def is_inexact(x):
    return jnp.issubdtype(x.dtype, np.inexact)


@rows()
def test_eager_jit_and_jaxpr(row: Row):
    """The values are the same eagerly, compiled, and from the jaxpr, which checks and prints."""
    closed = jax.make_jaxpr(row.call)(*row.args)
    core.check_jaxpr(closed.jaxpr)
    if row.axis:
        examples = [x[0] for x in row.args]
        bound = jax.make_jaxpr(row.fun, axis_env=[(row.axis, len(row.args[0]))])(*examples)
    else:
        bound = closed
    assert row.name in set(primitives_of(bound.jaxpr)), bound
    assert row.name in str(bound)
    out = row.call(*row.args)
    assert [(x.shape, x.dtype) for x in leaves(out)] == [
        (a.shape, a.dtype) for a in closed.out_avals
    ]
    assert_close(jax.jit(row.call)(*row.args), out)
    assert_close(core.eval_jaxpr(closed.jaxpr, closed.consts, *row.args), leaves(out))


@rows()
def test_unused_equations_are_removed(row: Row):
    closed = jax.make_jaxpr(row.call)(*row.args)
    unused, _ = pe.dce_jaxpr(closed.jaxpr, [False] * len(closed.out_avals))
    assert not unused.eqns
    for i in range(len(closed.out_avals)):
        kept = [j == i for j in range(len(closed.out_avals))]
        jaxpr, used = pe.dce_jaxpr(closed.jaxpr, kept)
        args = [x for x, u in zip(row.args, used) if u]
        (out,) = core.eval_jaxpr(jaxpr, closed.consts, *args)
        assert_close(out, leaves(row.call(*row.args))[i])


@rows(where=lambda row: row.diff > 0)
def test_derivatives(row: Row):
    """Both modes agree with numerical derivatives, to second order."""
    where = [i for i, x in enumerate(row.args) if is_inexact(x)]

    def f(*xs):
        args = list(row.args)
        for i, x in zip(where, xs):
            args[i] = x
        return [y for y in leaves(row.call(*args)) if is_inexact(y)]

    xs = [row.args[i] for i in where]
    jtu.check_grads(jax.jit(f), xs, order=row.diff, modes=row.modes, atol=2e-4, rtol=2e-4)
    if "fwd" not in row.modes:
        return
    tangents = [
        np.cos(np.arange(x.size) + i).reshape(x.shape).astype(x.dtype) for i, x in enumerate(xs)
    ]
    out, out_tangent = jax.jvp(f, xs, tangents)
    linear_out, f_lin = jax.linearize(f, *xs)
    assert_close(linear_out, out)
    assert_close(f_lin(*tangents), out_tangent)
    if "rev" not in row.modes:
        return
    cts = [np.sin(np.arange(y.size) + 1).reshape(y.shape).astype(y.dtype) for y in out]
    from_linear = jax.linear_transpose(lambda *t: f_lin(*t), *xs)(cts)
    assert_close(from_linear, jax.vjp(f, *xs)[1](cts))


@rows()
def test_vmap(row: Row):
    """Each operand alone, all together along other axes, and two levels, against a loop."""
    mapped = range(len(row.args)) if row.vmap is None else row.vmap
    if not mapped:
        return
    choices = [tuple(0 if i == j else None for i in range(len(row.args))) for j in mapped]
    choices.append(tuple(-1 if i in mapped else None for i in range(len(row.args))))
    for axes in choices:
        args = [x if a is None else np.stack([x, varied(x)], a) for x, a in zip(row.args, axes)]
        out = jax.jit(jax.vmap(row.call, axes))(*args)
        each = [
            row.call(*(x if a is None else np.take(x, i, a) for x, a in zip(args, axes)))
            for i in range(2)
        ]
        assert_close(out, jax.tree.map(lambda *xs: jnp.stack(xs), *each))
    twice = jax.vmap(jax.vmap(row.call, choices[0]), choices[-1])
    args = [x if a is None else np.stack([x, varied(x)], a) for x, a in zip(row.args, choices[0])]
    args = [x if a is None else np.stack([x, x], a) for x, a in zip(args, choices[-1])]
    inner = jax.vmap(row.call, choices[0])
    each = [
        inner(*(x if a is None else np.take(x, i, a) for x, a in zip(args, choices[-1])))
        for i in range(2)
    ]
    assert_close(jax.jit(twice)(*args), jax.tree.map(lambda *xs: jnp.stack(xs), *each))


def varied(x):
    """Another argument of the same kind: the same values in another order."""
    return x[::-1].copy() if np.ndim(x) and x.shape != (3, 3) else x


@rows(where=lambda row: row.dtypes)
def test_dtypes(row: Row):
    """It runs on every type that it is for, and a compiled program agrees with eager calls."""
    kinds = np.inexact if any(map(is_inexact, row.args)) else np.generic

    def cast(dtype):
        return [x.astype(dtype) if np.issubdtype(x.dtype, kinds) else x for x in row.args]

    arguments = [cast(getattr(ml_dtypes, name, name)) for name in row.dtypes]
    compiled = jax.jit(lambda arguments: [row.call(*args) for args in arguments])(arguments)
    for name, args, result in zip(row.dtypes, arguments, compiled):
        out = row.call(*args)
        assert [(x.shape, x.dtype) for x in leaves(out)] == [
            (a.shape, a.dtype) for a in leaves(jax.eval_shape(row.call, *args))
        ]
        dtype = jnp.dtype(name)
        precision = dtype if jnp.issubdtype(dtype, np.inexact) else np.float64
        try:
            assert_close(result, out, np.empty(0, precision).real.dtype)
        except AssertionError as err:
            raise AssertionError(f"{row.name} of {name}: {err}") from None


@rows(where=lambda row: row.sharded)
def test_explicit_sharding(row: Row):
    """On operands sharded along the first dimension: the same values, of the type that was inferred."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",), axis_types=(AxisType.Explicit,))
    plain = row.call(*row.args)
    with jax.set_mesh(mesh):
        args = [
            jax.device_put(
                x, NamedSharding(mesh, P("x") if np.ndim(x) and x.shape[0] % 2 == 0 else P())
            )
            for x in row.args
        ]
        types = jax.eval_shape(row.call, *args)
        out = row.call(*args)
        for x, y, t in zip(leaves(out), leaves(plain), leaves(types)):
            assert jax.typeof(x).sharding.spec == t.sharding.spec
            assert [*x.sharding.spec, *[None] * (x.ndim - len(x.sharding.spec))] == [
                *t.sharding.spec
            ]
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-9, atol=1e-9)
        if row.diff and "rev" in row.modes:
            where = [i for i, x in enumerate(args) if is_inexact(x)]
            total = lambda *xs: sum(
                jnp.sum(jnp.abs(y)) for y in leaves(row.call(*xs)) if is_inexact(y)
            )
            for i, grad in zip(where, jax.jit(jax.grad(total, where))(*args)):
                assert jax.typeof(grad).sharding.spec == jax.typeof(args[i]).sharding.spec
