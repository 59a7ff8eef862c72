"""Explicitly sharded arrays outside of `jax.set_mesh`: eager operations on constants find the devices."""

import threading
import time

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.interpreters.pxla import lowering
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

FUNCTIONS = {
    "where": lambda x: jnp.where(x > 0.5, x, 1.0),
    "clip": lambda x: jnp.clip(x, 0.2, 0.5),
    "clamp": lambda x: lax.clamp(0.2, x, 0.5),
    "maximum": lambda x: jnp.maximum(x, jnp.full(8, 0.3)),
    "relu": jax.nn.relu,
    "sign": jnp.sign,  # its tangent is zero
    "imag": jnp.imag,  # does not depend on the values of its argument
    "select": lambda x: jnp.select([x < 0.3, x < 0.6], [x, 2 * x], 0.0),
    "sum where": lambda x: jnp.sum(x, where=x > 0.5),
    "logsumexp": jax.nn.logsumexp,
    "checkpoint": jax.checkpoint(lambda x: jnp.where(x > 0.5, x, 1.0)),
    "jitted": jax.jit(lambda x: jnp.where(x > 0.5, x, 1.0)),
    "multigammaln": lambda x: jax.scipy.special.multigammaln(x + 2, 2),
}


def cotangent(y):
    return jax.device_put(jnp.ones_like(np.asarray(y)), y.sharding)


def vjp(f, x, t):
    y, pullback = jax.vjp(f, x)
    return y, *pullback(cotangent(y))


def linearize(f, x, t):
    y, f_jvp = jax.linearize(f, x)
    return y, f_jvp(t)


TRANSFORMATIONS = {
    "eager": lambda f, x, t: f(x),
    "jvp": lambda f, x, t: jax.jvp(f, (x,), (t,)),
    "vjp": vjp,
    "linearize": linearize,
    "grad": lambda f, x, t: jax.grad(lambda x: f(x).sum())(x),
    "vmap": lambda f, x, t: jax.vmap(f, in_axes=1, out_axes=-1)(jnp.stack([x, t], 1)),
    "jacfwd": lambda f, x, t: jax.jacfwd(f)(x),
    "jacrev": lambda f, x, t: jax.jacrev(f)(x),
    "hessian": lambda f, x, t: jax.hessian(lambda x: f(x).sum())(x),
    "jvp of grad": lambda f, x, t: jax.jvp(jax.grad(lambda x: f(x).sum()), (x,), (t,)),
}


def mesh_of(devices):
    return jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,), devices=devices)


@pytest.fixture(scope="module")
def values():
    return np.linspace(0.1, 0.9, 8, dtype=np.float32)


def put(x, mesh):
    return jax.device_put(x, NamedSharding(mesh, P("x")))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_on_the_devices_of_the_arguments(function, values):
    f, devices = FUNCTIONS[function], jax.devices()[4:8]
    x, t = (put(a, mesh_of(devices)) for a in (values, values / 2))
    for name, transform in TRANSFORMATIONS.items():
        expected = jax.tree.leaves(transform(f, jnp.asarray(values), jnp.asarray(values / 2)))
        got = jax.tree.leaves(transform(f, x, t))
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=name)
            assert a.sharding.device_set == set(devices), name
            if name not in ("jacfwd", "jacrev", "hessian"):  # one dimension of a matrix is split
                assert a.sharding.spec == P(*("x" if n == 8 else None for n in b.shape)), name


def test_an_array_of_the_outside_tells_the_devices(values):
    x = put(values, mesh_of(jax.devices()[:4]))
    y = jnp.ones(8)
    out, tangent = jax.jvp(lambda y: jnp.where(x > 0.5, y, 1.0), (y,), (y,))
    assert out.sharding == tangent.sharding == x.sharding
    np.testing.assert_array_equal(tangent, values > 0.5)


def test_each_call_uses_the_devices_of_its_own_arguments(values):
    for devices in (jax.devices()[:4], jax.devices()[4:8], jax.devices()[3::-1]) * 2:
        x = put(values, mesh_of(devices))
        for transform in ("jvp", "vjp", "vmap"):
            for out in jax.tree.leaves(TRANSFORMATIONS[transform](FUNCTIONS["where"], x, x)):
                assert list(out.sharding.mesh.devices.flat) == list(devices)


def test_each_thread_has_its_own_arguments(values):
    seen = {}

    def run(devices, start):
        x = put(values, mesh_of(devices))
        start.wait()
        outs = [jax.jvp(FUNCTIONS["relu"], (x,), (x,))[1] for _ in range(20)]
        seen[devices[0]] = {d for out in outs for d in out.sharding.device_set}

    halves, start = (jax.devices()[:4], jax.devices()[4:8]), threading.Barrier(2)
    threads = [threading.Thread(target=run, args=(h, start)) for h in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {h[0]: set(h) for h in halves}


def test_a_module_is_compiled_in_one_thread_at_a_time(values, monkeypatch):
    """The compiler changes the module's context, which has no locks."""
    compile_lowered, busy, overlaps = lowering.compile_lowered, set(), []

    def slowly(lowered, *args):
        overlaps.append(id(lowered) in busy)
        busy.add(id(lowered))
        time.sleep(0.05)
        out = compile_lowered(lowered, *args)
        busy.discard(id(lowered))
        return out

    double = jax.jit(lambda x: x * 2)
    double(put(values, mesh_of(jax.devices()[3::-1])))  # lowers the module that the others share
    monkeypatch.setattr(lowering, "compile_lowered", slowly)
    start = threading.Barrier(2)

    def run(devices):
        x = put(values, mesh_of(devices))
        start.wait()
        double(x).block_until_ready()

    threads = [threading.Thread(target=run, args=(jax.devices()[i : i + 4],)) for i in (0, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == [False, False]


def test_arguments_on_several_meshes_leave_it_open(values):
    x, y = (put(values, mesh_of(d)) for d in (jax.devices()[:4], jax.devices()[4:8]))
    constant = lambda x, y: lax.full_like(x, 1.0)
    with pytest.raises(ValueError, match="lowered for an abstract mesh"):
        jax.vjp(constant, x, y)
    assert jax.vjp(constant, x, x)[0].sharding == x.sharding


def test_no_devices_are_left_for_later_calls(values):
    x = put(values, mesh_of(jax.devices()[:4]))
    jax.vjp(FUNCTIONS["relu"], x)
    with pytest.raises(ZeroDivisionError):
        jax.vjp(lambda x: 1 / 0, x)
    with pytest.raises(ValueError, match="lowered for an abstract mesh"):
        lax.full((8,), 1.0, sharding=jax.typeof(x).sharding)
