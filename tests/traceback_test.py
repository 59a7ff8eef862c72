"""Tracebacks of errors have frames of the user's code alone (`jax_traceback_filtering`)."""

import os.path

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax

PACKAGE = os.path.dirname(jax.__file__) + os.sep


def bad(x, *_):
    return jnp.reshape(x, (9, 9))


# What fails in a function of the user's, which something of ours calls.
CALLS_OF_USERS_FUNCTIONS = {
    "associative_scan": lambda x: lax.associative_scan(lambda a, b: bad(a), x),
    "scan": lambda x: lax.scan(lambda c, _: (bad(c), None), x, length=2),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 1, bad, x),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: bad(c), x),
    "map": lambda x: lax.map(bad, x),
    "cond": lambda x: lax.cond(True, bad, bad, x),
    "switch": lambda x: lax.switch(0, [bad, bad], x),
    "jit": lambda x: jax.jit(bad)(x),
    "lower": lambda x: jax.jit(bad).lower(x),
    "make_jaxpr": lambda x: jax.make_jaxpr(bad)(x),
    "eval_shape": lambda x: jax.eval_shape(bad, x),
    "grad": lambda x: jax.grad(bad)(x),
    "hessian": lambda x: jax.hessian(bad)(x),
    "jvp": lambda x: jax.jvp(bad, (x,), (x,)),
    "vjp": lambda x: jax.vjp(bad, x),
    "linearize": lambda x: jax.linearize(bad, x),
    "vmap": lambda x: jax.vmap(bad)(x),
    "checkpoint": lambda x: jax.checkpoint(bad)(x),
    "custom_vmap": lambda x: jax.custom_batching.custom_vmap(bad)(x),
    "vectorize": lambda x: jnp.vectorize(bad, signature="(n)->(n)")(x),
    "apply_along_axis": lambda x: jnp.apply_along_axis(bad, 0, x),
    "apply_over_axes": lambda x: jnp.apply_over_axes(bad, x, [0]),
    "piecewise": lambda x: jnp.piecewise(x, [x > 0], [bad, bad]),
    "named_call": lambda x: jax.named_call(bad)(x),
}

# What is refused for its arguments. Without a transformation around it only these are under a boundary:
# one at every function of `jax.numpy` would cost each call.
REFUSED = {
    "associative_scan": lambda x: lax.associative_scan(1, x),
    "pure_callback": lambda x: jax.pure_callback(bad, 3, x),
    "piecewise": lambda x: jnp.piecewise(x, [x > 0], [1, 2, 3, 4]),
    "make_mesh": lambda x: jax.make_mesh((7777,), ("x",)),
    "vmap": lambda x: jax.vmap(bad, in_axes=7)(x),
    "grad": lambda x: jax.grad(lambda x: x)(x),
}
REFUSED_UNDER_TRANSFORMATIONS = {
    **REFUSED,
    "reshape": bad,
    "method": lambda x: x.reshape(7),
    "operator": lambda x: x + jnp.ones(5),
    "index": lambda x: x[0, 0, 0],
    "at": lambda x: x.at[0].set(jnp.ones((4, 4))),
    "axis": lambda x: x.sum(axis=7),
    "concatenate": lambda x: jnp.concatenate([x, jnp.ones((2, 2))]),
    "dot": lambda x: x @ jnp.ones((7, 7)),
    "device_put": lambda x: jax.device_put(x, "nowhere"),
    "key": lambda x: jax.random.normal(3.5),
}

AROUND = {
    "eager": lambda f, x: f(x),
    "jit": lambda f, x: jax.jit(lambda x: (f(x), 0)[1])(x),
    "grad": lambda f, x: jax.grad(lambda x: (f(x), x.sum())[1])(x),
    "vmap": lambda f, x: jax.vmap(lambda x: (f(x), x)[1])(jnp.stack([x, x])),
    "scan": lambda f, x: lax.scan(lambda c, _: ((f(c), c)[1], None), x, length=2),
}


def frames_of_the_package(err):
    tb, found = err.__traceback__, []
    while tb is not None:
        code = tb.tb_frame.f_code
        hidden = tb.tb_frame.f_locals.get("__tracebackhide__")
        if code.co_filename.startswith(PACKAGE) and not hidden:
            found.append(f"{code.co_filename}:{tb.tb_lineno} {code.co_name}")
        tb = tb.tb_next
    return found


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("mode", ["remove_frames", "quiet_remove_frames", "tracebackhide", "auto"])
def test_frames_of_the_package_are_gone(mode, around):
    refused = REFUSED if around == "eager" else REFUSED_UNDER_TRANSFORMATIONS
    x = jnp.arange(3.0) + np.float32(0.5)
    with jax._src.config.traceback_filtering(mode):
        for table in (CALLS_OF_USERS_FUNCTIONS, refused):
            for name, call in table.items():
                with pytest.raises(Exception) as info:
                    AROUND[around](call, x)
                assert not frames_of_the_package(info.value), name
