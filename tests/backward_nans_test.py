"""`jax.debug.nans`: the operation whose derivative is not finite is named, on every path."""

import inspect
import re

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, xla_bridge
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

X = jnp.array([1.0, 0.0, 2.0, 4.0])


def guarded_outside(x):
    return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))


LINE = inspect.getsourcelines(guarded_outside)[1] + 1
both = jnp.stack([X + 1, X])
grad = jax.grad(guarded_outside)


def hunt(fun, *args):
    with pytest.raises(FloatingPointError) as err, jax.debug.nans(backward=True):
        fun(*args)
    return str(err.value)


def on_mesh(fun, specs):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    return jax.shard_map(fun, mesh=mesh, in_specs=specs, out_specs=P("i"))


ROOTS = {
    "eager": (grad, X),
    "jit of grad": (jax.jit(grad), X),
    "grad of jit": (jax.grad(jax.jit(guarded_outside)), X),
    "vjp": (lambda x: jax.vjp(guarded_outside, x)[1](1.0), X),
    "vmap of grad": (jax.vmap(grad), both),
    "jit of vmap of grad": (jax.jit(jax.vmap(grad)), both),
    "grad of vmap": (jax.grad(lambda x: jnp.sum(jax.vmap(guarded_outside)(x))), both),
    "checkpoint": (jax.grad(jax.checkpoint(guarded_outside)), X),
    "value_and_grad": (jax.value_and_grad(guarded_outside), X),
    "scan": (jax.grad(lambda xs: lax.scan(lambda c, x: (c + guarded_outside(x), None), 0.0, xs)[0]), X),
    "while_loop": (
        jax.grad(lambda x: lax.while_loop(
            lambda c: c[0] < 2, lambda c: (c[0] + 1, guarded_outside(c[1] * 0)), (0, x), max_steps=9)[1]),
        1.0,
    ),
    "cond": (jax.grad(lambda x: lax.cond(x > 5, jnp.sin, guarded_outside, x)), 0.0),
    "shard_map": (
        jax.grad(lambda x: jnp.sum(on_mesh(lambda x: guarded_outside(x)[None], P("i"))(x))), X),
    "jit of shard_map": (
        jax.jit(jax.grad(lambda x: jnp.sum(on_mesh(lambda x: guarded_outside(x)[None], P("i"))(x)))), X),
    "pmap": (jax.pmap(jax.grad(guarded_outside)), X),
}  # fmt: skip


@pytest.mark.parametrize("name", ROOTS)
def test_operation_line_and_remedy(name):
    text = hunt(*ROOTS[name])
    assert text.startswith("the backward pass of sqrt makes nan from finite numbers"), text
    assert re.search(rf"forward at .*backward_nans_test.py:{LINE}:\d+ ", text), text
    assert "operand 0 is 0.0" in text and "cotangent of the result is 0.0" in text
    assert "jnp.where(ok, f(jnp.where(ok, x, 1.0)), 0.0)" in text


def test_message():
    text = hunt(jax.jit(grad), X).splitlines()
    assert text[2] == "  1 of 4 elements of a cotangent float32[4], the first at [1], where"
    assert re.fullmatch(r"  forward at .*\(guarded_outside\): sqrt\(float32\[4\]\)", text[1])
    text = hunt(jax.grad(jnp.log), 0.0)
    assert "makes inf from finite numbers" in text and "log(float32[])" in text
    assert "derivative is not finite there" in text


@jax.custom_vjp
def with_vjp(x):
    return jnp.sin(x)


with_vjp.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct / x,))


@jax.custom_jvp
def with_jvp(x):
    return jnp.sin(x)


with_jvp.defjvp(lambda p, t: (jnp.sin(*p), t[0] / p[0]))

OPERATIONS = {
    "pow": (lambda x: x**0.5, "pow"),
    "div": (lambda x: jnp.where(x == 0, 0.0, 1 / x), "div"),
    "acos": (jnp.arccos, "acos"),
    "atan2": (lambda x: jnp.arctan2(x, x), "atan2"),
    "norm": (lambda x: jnp.linalg.norm(x * 0), "sqrt"),
    "std": (lambda x: jnp.std(x * 0), "sqrt"),
    "complex": (lambda x: jnp.abs(jnp.sqrt(x + 0j)), "sqrt"),
    "bfloat16": (lambda x: jnp.sqrt(x.astype(jnp.bfloat16)).astype(jnp.float32), "sqrt"),
    "custom_vjp": (with_vjp, "custom_vjp with_vjp"),
    "custom_jvp": (with_jvp, "custom_jvp with_jvp"),
    "jit of custom_vjp": (jax.jit(with_vjp), "custom_vjp with_vjp"),
    "jit of custom_jvp": (jax.jit(with_jvp), "custom_jvp with_jvp"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    fun, operation = OPERATIONS[name]
    text = hunt(jax.grad(lambda x: jnp.sum(fun(x))), X)
    assert text.startswith(f"the backward pass of {operation} makes "), text


H, F, EYE, ONES = jnp.float16, jnp.float32, jnp.eye(3), jnp.ones((3, 3))
svd, eigh = jnp.linalg.svd, jnp.linalg.eigh
OVERFLOW, EQUAL, RANK = (
    "astype(jnp.float32)  # for ",
    "1 of the matrix are equal",
    "rank 1 instead of 3",
)
WHERE = "jnp.where(ok, f(jnp.where(ok, x, 1.0)), 0.0)"

# A function, its argument, the operation, and words of the remedy.
REMEDIES = {
    "mul": (lambda x: (x * x).astype(F) * 1e3, jnp.full(3, 200, H), "mul makes inf", OVERFLOW + "the operands of mul"),
    "exp": (lambda x: jnp.exp(x).astype(F) * 1e3, jnp.full(3, 10, H), "exp makes inf", OVERFLOW),
    "matmul": (lambda x: (x @ x).astype(F) * 600, jnp.full((3, 3), 60, H), "dot_general makes inf", OVERFLOW),
    "cumsum": (lambda x: jnp.cumsum(x).astype(F) * 3e4, jnp.full(9, 0.05, H), "cumsum makes inf", OVERFLOW),
    "cast": (lambda x: x.astype(F) * 1e6, jnp.ones(3, H), "convert_element_type makes inf", OVERFLOW),
    "uses": (
        lambda x: 4e4 * x.astype(F) + 4e4 * x.astype(F), jnp.ones(3, H), "used several times makes inf",
        OVERFLOW + "a value that is used"),
    "uses in a scan": (
        lambda x: lax.scan(lambda c, _: (c + 4e4 * x.astype(F), None), 0.0, None, length=3)[0], jnp.ones((), H),
        "used several times makes inf", OVERFLOW),
    "bfloat16": (lambda x: x.astype(F) * x.astype(F) * 1e30, jnp.full(3, 1e10, jnp.bfloat16), "mul makes inf",
        "out of the range of float32, whose largest is 3.40282e+38"),
    "small divisor": (lambda x: 1 / x, jnp.full(3, 1e-25), "div makes inf", "jnp.where(jnp.abs(x) > eps, x, eps)"),
    "no divisor": (lambda x: 1 / x, jnp.zeros(3), "div makes inf", WHERE),
    "outside": (lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0), -jnp.ones(3), "sqrt makes nan", WHERE),
    "exponent": (lambda y: F(-2.0) ** y, F(2.0), "pow makes nan", "logarithm of the base, which is negative"),
    "svd": (lambda a: svd(a)[0], EYE, "svd makes nan", f"singular values 0 and {EQUAL}"),
    "svd, a batch": (jax.vmap(lambda a: svd(a)[0]), jnp.stack([jnp.diag(jnp.arange(1.0, 4)), EYE]), "svd makes nan",
        f"singular values 0 and {EQUAL}, 1: "),
    "svd, rank": (lambda a: svd(a, full_matrices=False)[0], ONES[:, :2], "svd makes nan", "which is not square, is zero"),
    "eigh": (lambda a: eigh(a)[1], EYE, "eigh makes nan", "jnp.linalg.eigvalsh(a)  # the values have a derivative"),
    "qr": (lambda a: jnp.linalg.qr(a)[0], ONES, "qr makes nan", RANK),
    "cholesky": (jnp.linalg.cholesky, ONES, "cholesky makes nan", RANK),
    "inverse": (jnp.linalg.inv, ONES, "linear_solve makes nan", RANK),
    "slogdet": (lambda a: jnp.linalg.slogdet(a)[1], ONES, "slogdet_by_lu makes nan", RANK),
    "rule": (with_vjp, X, "custom_vjp with_vjp makes inf", "The function's own rule (bwd) computes it"),
}  # fmt: skip


@pytest.mark.parametrize("name", REMEDIES)
def test_remedy(name):
    fun, arg, operation, words = REMEDIES[name]
    grad = jax.grad(lambda x: jnp.sum(fun(x).astype(F)))
    for text in (hunt(grad, arg), hunt(jax.jit(grad), arg)):
        assert text.splitlines()[0].endswith(f"{operation} from finite numbers"), text
        assert words in text and (WHERE in text) == (words == WHERE), text
        assert re.search(r"forward at .*backward_nans_test.py:\d+", text), text


def test_second_derivative():
    twice = jax.grad(jax.grad(lambda x: x**1.5))
    for f in (twice, jax.jit(twice)):
        assert "backward pass of pow makes inf" in hunt(f, 0.0)


def test_sharded_arrays():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    x = jax.device_put(X, NamedSharding(mesh, P("i")))
    assert "the first at [1]" in hunt(jax.jit(jax.grad(lambda x: jnp.sum(jnp.sqrt(x)))), x)
    assert "the first at [1]" in hunt(grad, x)


SOUND = {
    "guarded inside": lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0),
    "masked softmax": lambda x: jax.nn.softmax(jnp.where(x > 0, x, -jnp.inf)) ** 2,
    "masked logsumexp": lambda x: jax.nn.logsumexp(jnp.where(x > 0, x, -jnp.inf)),
    "activations": lambda x: jax.nn.relu(x) + jax.nn.gelu(x) + jax.nn.softplus(x),
    "bad value in the forward pass": lambda x: jnp.log(x - 5),
}


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_found_and_results_are_the_same(name):
    f = jax.grad(lambda x: jnp.sum(SOUND[name](x)))
    expected = f(X)
    with jax.debug.nans(backward=True):
        eager, compiled, batched = f(X), jax.jit(f)(X), jax.jit(jax.vmap(f))(X[None])[0]
    for got in (eager, compiled, batched):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_results():
    with pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in log"):
        with jax.debug.nans():
            jnp.log(-X)
    assert not config.debug_nans.value
    assert np.isnan(jnp.log(-X)).any()


def test_programs_without_the_context_are_unchanged():
    before = str(jax.make_jaxpr(grad)(X))
    with jax.debug.nans(backward=True):
        inside = str(jax.make_jaxpr(lambda x: grad(x))(X))
    assert "backward_check" in inside and "backward_check" not in before
    assert str(jax.make_jaxpr(lambda x: grad(x))(X)) == before
    compiled = jax.jit(grad)
    assert np.isnan(compiled(X)[1])
    assert "sqrt" in hunt(compiled, X)
    assert np.isnan(compiled(X)[1])
    hunt(grad, X)
    with jax.debug.nans(backward=True):  # what was found before is not found again
        pass


def test_other_errors_pass():
    with pytest.raises(KeyError), jax.debug.nans(backward=True):
        raise KeyError
