"""Transfers under each guard: which directions are logged, or are an error."""

import contextlib
import copy
import io
import os
import re
import sys
import tempfile
import threading

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

with contextlib.suppress(RuntimeError):  # devices exist already
    jax.config.update("jax_num_cpu_devices", 8)

CASES = Programs()
F = np.float32
N = np.arange(8, dtype=F)
LEVELS = ("disallow", "disallow_explicit", "log", "log_explicit")
add_one = jax.jit(lambda a: a + 1)


def device(i=0):
    return jax.devices()[i]


def sharding(*spec):
    return NamedSharding(jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,)), P(*spec))


def put(*where):
    """An array that is not on the host's side of any guard."""
    with jax.transfer_guard("allow"):
        return jax.device_put(N, *where)


def logged(fun):
    """The directions of transfers that are logged, or that of the one that is an error."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            jax.block_until_ready(fun())
        except jax.errors.JaxRuntimeError as err:
            return "error: " + re.search(r"Disallowed (\S+) transfer", str(err))[1]
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        file.seek(0)
        found = re.findall(r"(\S+-to-\S+) transfer", file.read().decode(errors="replace"))
    return ", ".join(sorted(set(found)))


def with_output(fun):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        fun()
        jax.effects_barrier()
    return out.getvalue()


def under_guards(fun):
    """What happens at each level; and with guards of one direction only."""
    with jax.transfer_guard("allow"):
        jax.block_until_ready(fun())  # compile
    results = {}
    for level in LEVELS:
        with jax.transfer_guard(level):
            results[level] = logged(fun)
    for direction in ("host_to_device", "device_to_device", "device_to_host"):
        with getattr(jax, f"transfer_guard_{direction}")("disallow_explicit"):
            results[direction] = logged(fun)
    return str(results)


def group(**programs):
    for name, fun in programs.items():
        CASES.add(name, lambda fun=fun: under_guards(fun))


group(
    jit_numpy=lambda: add_one(N),
    jit_number=lambda: add_one(1.0),
    jit_array=lambda: add_one(put()),
    jit_sharded=lambda: add_one(put(sharding("x"))),
    jit_other_device=lambda: jax.jit(lambda a: a + 1, device=device(1))(put()),
    jit_in_shardings=lambda: jax.jit(lambda a: a + 1, in_shardings=sharding("x"))(put()),
    jit_in_shardings_numpy=lambda: jax.jit(lambda a: a + 1, in_shardings=sharding("x"))(N),
    compiled_numpy=lambda: add_one.lower(N).compile()(N),
    compiled_array=lambda: add_one.lower(N).compile()(put()),
    device_put=lambda: jax.device_put(N),
    device_put_device=lambda: jax.device_put(N, device(1)),
    device_put_sharded=lambda: jax.device_put(N, sharding("x")),
    device_put_array=lambda: jax.device_put(put()),
    device_put_array_device=lambda: jax.device_put(put(), device(1)),
    device_put_array_sharded=lambda: jax.device_put(put(), sharding("x")),
    device_put_gather=lambda: jax.device_put(put(sharding("x")), device()),
    asarray=lambda: jnp.asarray(N),
    asarray_number=lambda: jnp.asarray(1.0),
    asarray_array=lambda: jnp.asarray(put()),
    array=lambda: jnp.array(N),
    array_list=lambda: jnp.array([1.0, 2.0]),
    array_array=lambda: jnp.array(put()),
    float32=lambda: jnp.float32(1),
    zeros=lambda: jnp.zeros(3),
    full=lambda: jnp.full(3, 2.0),
    arange=lambda: jnp.arange(3),
    linspace=lambda: jnp.linspace(0, 1, 5),
    numpy_asarray=lambda: np.asarray(add_one(put())).shape,
    numpy_array=lambda: np.array(add_one(put())).shape,
    numpy_asarray_sharded=lambda: np.asarray(add_one(put(sharding("x")))).shape,
    device_get=lambda: jax.device_get(add_one(put())).shape,
    tolist=lambda: len(add_one(put()).tolist()),
    printed=lambda: len(repr(add_one(put()))),
    item=lambda: put()[0].item(),
    copied=lambda: copy.copy(put()),
    deep_copied=lambda: copy.deepcopy(put()),
    copied_sharded=lambda: copy.copy(put(sharding("x"))),
    iterate=lambda: list(put()),
    iterate_sharded=lambda: len(list(put(sharding("x")))),
    debug_print=lambda: with_output(lambda: jax.debug.print("{}", put())),
    debug_print_mapped=lambda: with_output(
        lambda: jax.vmap(lambda x: jax.debug.print("{}", x))(put())
    ),
    index=lambda: put()[2],
    index_slice=lambda: put()[1:3],
    index_numpy=lambda: put()[np.array([1, 2])],
    index_mask=lambda: put()[np.arange(8) > 2],
    index_set=lambda: put().at[0].set(1.0),
    add_number=lambda: put() + 1,
    add_numpy=lambda: put() + N,
    add_array=lambda: put() + put(),
    compare=lambda: put() > 1,
    where=lambda: jnp.where(put() > 1, put(), 0.0),
    sin=lambda: jnp.sin(put()),
    sin_numpy=lambda: jnp.sin(N),
    lax_add=lambda: lax.add(put(), put()),
    lax_add_numpy=lambda: lax.add(put(), N),
    reduce=lambda: put().sum(),
    reshape=lambda: put().reshape(2, 4),
    astype=lambda: put().astype(jnp.int32),
    pmap_numpy=lambda: jax.pmap(lambda a: a + 1)(N),
    pmap_array=lambda: jax.pmap(lambda a: a + 1)(put()),
    pmap_sharded=lambda: jax.pmap(lambda a: a + 1)(put(sharding("x"))),
    vmap_numpy=lambda: jax.vmap(lambda a: a + 1)(N),
    grad=lambda: jax.grad(lambda a: (a * a).sum())(put()),
    grad_number=lambda: jax.grad(lambda a: a * a)(1.0),
    scan_numpy=lambda: lax.scan(lambda c, a: (c + a, c), 0.0, N),
    cond_number=lambda: lax.cond(True, lambda a: a, lambda a: a, put()),
    key=lambda: jax.random.key(0),
    make_array_from_callback=lambda: jax.make_array_from_callback(
        (8,), sharding("x"), lambda i: N[i]
    ),
    new_ref=lambda: jax.new_ref(put())[...],
    write_ref=lambda: jax.new_ref(put()).__setitem__(0, 1.0),
    numpy_ufunc=lambda: np.sin(add_one(put())).shape,
    format=lambda: len(f"{add_one(put()).sum():.2f}"),
    eval_shape=lambda: jax.eval_shape(add_one, N).shape,
    lower=lambda: len(add_one.lower(N).as_text()[:5]),
)


@CASES.define
def options():
    """The global options, in this thread and another."""
    results = []
    try:
        jax.config.update("jax_transfer_guard", "disallow")
        results.append([logged(lambda: add_one(N)), logged(lambda: jax.device_put(N))])
        thread = threading.Thread(target=lambda: results.append(logged(lambda: add_one(N))))
        thread.start()
        thread.join()
        jax.config.update("jax_transfer_guard_host_to_device", "allow")
        results.append([logged(lambda: add_one(N)), jax.config.jax_transfer_guard_device_to_device])
    finally:
        jax.config.update("jax_transfer_guard", "allow")
    return str(results)


@CASES.define
def no_level():
    """Without a level there are no guards, whatever was set before."""
    names = ["jax_transfer_guard", "jax_transfer_guard_host_to_device"]
    results = []
    for name in names:
        try:
            jax.config.update(name, "disallow")
            jax.config.update("jax_transfer_guard", None)
            results.append([logged(lambda: add_one(N)), *[getattr(jax.config, n) for n in names]])
            jax.config.update(name, "disallow")
            with jax.transfer_guard(None):
                results.append(logged(lambda: add_one(N)))
        finally:
            jax.config.update("jax_transfer_guard", "allow")
    return str(results)


@CASES.define
def of_one_thread():
    results = []
    with jax.transfer_guard("disallow"):
        thread = threading.Thread(target=lambda: results.append(logged(lambda: add_one(N))))
        thread.start()
        thread.join()
        with jax.transfer_guard_host_to_device("allow"):
            results.append(logged(lambda: add_one(N)))
        results.append(logged(lambda: add_one(N)))
    results.append(logged(lambda: add_one(N)))
    return str(results)


@CASES.define
def unknown_level():
    with jax.transfer_guard("never"):
        pass
