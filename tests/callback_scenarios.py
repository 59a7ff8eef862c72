"""Scenarios of callbacks and debugging output: results, what was called, and what was printed."""

import contextlib
import functools
import io
import logging

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import io_callback

CASES = Programs()
F = np.float32
X = np.arange(3, dtype=F)
S = jax.ShapeDtypeStruct
called: list = []


def add(prefix, **functions):
    for name, fun in functions.items():
        CASES.add(f"{prefix}_{name}", functools.partial(run, fun))


def run(fun):
    """The result, the calls of `record`, and the output."""
    called.clear()
    out = io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(out):
            result = fun()
            jax.effects_barrier()
    finally:
        logging.disable(logging.NOTSET)
        jax.effects_barrier()
    return result, str(called), out.getvalue()


def record(*tags, result=None):
    def callback(*args):
        called.append((*tags, *[np.asarray(a).tolist() for a in args]))
        return result

    return callback


def kinds(*args, **kwargs):
    leaves = jax.tree.leaves((args, kwargs))
    called.append([(type(x).__name__, np.shape(x), str(x.dtype)) for x in leaves])
    return leaves[0]


def pure(f, *args, like=None, **kwargs):
    return jax.pure_callback(f, S(np.shape(X), F) if like is None else like, *args, **kwargs)


def scalar(f, *args, **kwargs):
    return jax.pure_callback(f, S((), F), *args, **kwargs)


tree_callback = lambda a, b, c: {"o": a[0] + b + c["d"]}
add(
    "pure",
    eager=lambda: pure(kinds, X),
    jit=lambda: jax.jit(lambda x: pure(kinds, x))(X),
    trees=lambda: jax.jit(
        lambda x: pure(tree_callback, (x,), 2.0, c={"d": x}, like={"o": S((3,), F)})
    )(X),
    wider=lambda: jax.jit(lambda x: pure(lambda a: np.asarray(a, np.float64), x))(X),
    python_scalar=lambda: jax.jit(lambda x: scalar(lambda a: 1.5, x))(X),
    no_result=lambda: jax.jit(lambda x: jax.pure_callback(lambda a: None, None, x))(X),
    empty=lambda: jax.jit(
        lambda x: pure(lambda a: np.zeros((0, 2), F), x, like=S((0, 2), F))
    )(np.zeros((0, 3), F)),
    bfloat16=lambda: jax.jit(
        lambda x: pure(lambda a: a * 2, x, like=S((3,), jnp.bfloat16))
    )(X.astype(jnp.bfloat16)),
    integers=lambda: jax.jit(
        lambda x: pure(lambda a: a * 2, x, like=S((3,), np.int8))
    )(np.arange(3, dtype=np.int8)),
    key=lambda: jax.jit(lambda k: scalar(lambda k: kinds(k).sum().astype(F), k))(jax.random.key(0)),
    dropped=lambda: jax.jit(lambda x: (pure(record("no", result=X), x), x)[1])(X),
    wrong_shape=lambda: jax.jit(lambda x: pure(lambda a: np.ones(4, F), x))(X),
    wrong_dtype=lambda: jax.jit(lambda x: pure(lambda a: np.ones(3, np.int32), x))(X),
    wrong_count=lambda: jax.jit(lambda x: pure(lambda a: (a, a), x))(X),
    text=lambda: jax.jit(lambda x: pure(lambda a: "x", x))(X),
    raises=lambda: jax.jit(lambda x: pure(lambda a: 1 / 0, x))(X),
    raises_eagerly=lambda: pure(lambda a: 1 / 0, X),
    wide_result=lambda: pure(lambda a: a, X, like=S((3,), np.float64)),
    method=lambda: pure(lambda a: a, X, vmap_method="unknown"),
    grad=lambda: jax.grad(lambda x: scalar(lambda a: a.sum(), x))(X),
    grad_stopped=lambda: jax.grad(
        lambda x: scalar(lambda a: a.sum(), lax.stop_gradient(x)) * jnp.sum(x)
    )(X),
    scan=lambda: lax.scan(lambda c, a: (c + scalar(lambda v: v * 2, a), None), F(0), X)[0],
    while_loop=lambda: lax.while_loop(
        lambda c: jax.pure_callback(lambda v: v < 5, S((), np.bool_), c), lambda c: c + 2, F(0)
    ),
    remat=lambda: jax.grad(
        jax.checkpoint(lambda x: jnp.sum(pure(record("r", result=X), lax.stop_gradient(x)) * x))
    )(X),
)  # fmt: skip


def mapped(method, in_axes=(0, None)):
    def add_pair(a, b):
        kinds(a, b)
        return np.asarray(a) + np.asarray(b)

    f = lambda a, b: scalar(add_pair, a, b, vmap_method=method)
    return lambda: jax.vmap(f, in_axes)(X, F(2) if in_axes[1] is None else X[::-1].copy())


methods = "sequential sequential_unrolled expand_dims broadcast_all legacy_vectorized".split()
add("pure_vmap", none=mapped(None), **{m: mapped(m) for m in methods})
add("pure_vmap_both", **{m: mapped(m, (0, 0)) for m in ("sequential", "expand_dims")})
twice = lambda m: jax.vmap(jax.vmap(lambda a: scalar(lambda a: a * 2, a, vmap_method=m)))
add(
    "pure_vmap",
    scalar_twice=lambda: twice("sequential")(X[:, None] * X),
    unmapped=lambda: jax.vmap(lambda x: x + scalar(lambda a: a * 2, F(3)))(X),
)


def io_ordered(tag, *args):
    io_callback(record(tag), None, *args, ordered=True)


def then(effect, value):
    """`value`, for the effect of making the first argument."""
    return value


def loop(condition, x):
    return lax.while_loop(
        lambda c: then(condition("c", c), c < 2), lambda c: then(io_ordered("b", c), c + 1), x
    )


cj = jax.custom_jvp(lambda x: then(io_callback(record("primal"), None, x), x * 2))
cj.defjvp(
    lambda p, t: then(io_callback(record("rule"), None, p[0]), (p[0] * 2, t[0] * 2))
)  # fmt: skip
cv = jax.custom_vjp(lambda x: then(io_ordered("primal", x), x * 2))
cv.defvjp(
    lambda x: then(io_ordered("fwd", x), (x * 2, None)),
    lambda _, g: then(io_ordered("bwd", g), (g,)),
)
add(
    "io",
    eager=lambda: io_callback(record("a"), None, 1.0),
    jit=lambda: jax.jit(lambda x: then(io_callback(record("a"), None, x[0]), x))(X),
    result=lambda: jax.jit(lambda x: io_callback(lambda v: v + 1, S((), F), x[0]))(X),
    ordered=lambda: jax.jit(lambda x: then([io_ordered(i, x[i]) for i in range(3)], x))(X),
    ordered_programs=lambda: [jax.jit(lambda x: io_ordered(i, x))(F(i)) for i in range(3)],
    eager_after_program=lambda: then(jax.jit(lambda x: io_ordered("1", x))(F(1)), io_ordered("2", 2)),
    scan=lambda: jax.jit(lambda x: lax.scan(lambda c, v: (then(io_ordered("s", v), c), None), 0.0, x))(X),
    scan_result=lambda: lax.scan(
        lambda c, v: (io_callback(lambda c, v: c + v, S((), F), c, v, ordered=True), c), F(0), X
    ),
    map=lambda: lax.map(lambda v: io_ordered("m", v), X),
    while_loop=lambda: jax.jit(lambda x: loop(lambda *_: None, x))(F(0)),
    while_condition=lambda: jax.jit(lambda x: loop(io_ordered, x))(F(0)),
    while_unordered=lambda: jax.jit(
        lambda x: loop(lambda tag, c: io_callback(record(tag), None, c), x)
    )(F(0)),
    cond=lambda: [
        jax.jit(
            lambda x: lax.cond(x > 0, lambda v: io_ordered("t", v), lambda v: io_ordered("f", v), x)
        )(F(i)) for i in range(2)
    ],
    cond_one=lambda: jax.jit(
        lambda x: lax.cond(x > 0, lambda v: None, lambda v: io_ordered("f", v), x)
    )(F(0)),
    nested=lambda: jax.jit(
        lambda x: lax.fori_loop(
            0, 2, lambda i, c: lax.cond(i == 1, lambda: then(io_ordered("in", c), c), lambda: c), x
        )
    )(F(0)),
    inner_jit=lambda: jax.jit(
        lambda x: then(jax.jit(lambda y: io_ordered("in", y))(x), then(io_ordered("out", x), x))
    )(F(0)),
    vmap=lambda: jax.vmap(lambda v: io_callback(record("v"), None, v))(X),
    vmap_result=lambda: jax.vmap(lambda v: io_callback(lambda v: v * 2, S((), F), v))(X),
    vmap_ordered=lambda: jax.vmap(lambda v: io_ordered("v", v))(X),
    vmap_unmapped=lambda: jax.vmap(lambda v: then(io_ordered("v", 1.0), v))(X),
    vmap_cond=lambda: jax.vmap(
        lambda v: lax.cond(v > 0, lambda: io_callback(record("v"), None, v), lambda: None)
    )(X),
    vmap_cond_ordered=lambda: jax.vmap(
        lambda v: lax.cond(v > 0, lambda: io_ordered("v", 1.0), lambda: None)
    )(X),
    grad=lambda: jax.grad(lambda x: io_callback(lambda v: v, S((), F), x))(1.0),
    grad_unused=lambda: jax.grad(lambda x: then(io_callback(record("g"), None, x), x))(1.0),
    grad_constant=lambda: jax.grad(lambda x: then(io_callback(record("g"), None, 1.0), x))(1.0),
    remat=lambda: jax.jit(jax.checkpoint(lambda x: then(io_ordered("r", x), x)))(1.0),
    remat_grad=lambda: jax.grad(jax.checkpoint(lambda x: then(io_ordered("r", 1.0), x)))(1.0),
    remat_derivative=lambda: jax.grad(jax.checkpoint(lambda x: then(io_ordered("r", x), x)))(1.0),
    custom_jvp=lambda: jax.jit(cj)(1.0),
    custom_jvp_grad=lambda: jax.grad(cj)(1.0),
    custom_vjp=lambda: jax.jit(cv)(1.0),
    custom_vjp_grad=lambda: jax.grad(cv)(1.0),
    custom_vjp_grad_jit=lambda: jax.jit(jax.grad(cv))(1.0),
    linearize=lambda: jax.linearize(lambda x: then(io_ordered("l", 1.0), x * 2), 1.0)[1](1.0),
    jax_inside=lambda: jax.jit(
        lambda x: io_callback(lambda v: jnp.sin(v) + jax.jit(lambda y: y * 2)(v), S((), F), x)
    )(F(1)),
    raises=lambda: jax.jit(lambda x: io_callback(lambda v: 1 / 0, None, x))(1.0),
    raises_ordered=lambda: jax.jit(lambda x: io_callback(lambda v: 1 / 0, None, x, ordered=True))(1.0),
    after_error=lambda: jax.jit(lambda x: io_ordered("ok", x))(1.0),
    unexpected_result=lambda: jax.jit(lambda x: io_callback(lambda a: a, None, x))(X),
)  # fmt: skip

P = jax.debug.print
C = jax.debug.callback


def jitted(*args, **kwargs):
    return lambda: jax.jit(lambda x: P(*args, x, **kwargs))(X)


add(
    "print",
    plain=lambda: P("hello"),
    eager=lambda: P("{}", X),
    names=lambda: jax.jit(lambda x: P("{} {y} {z:.2f}", x, y=x[0], z=x[1]))(X),
    positions=lambda: P("{0} {0} {1}", 1, 2),
    mixed=lambda: P("{0} {a} {a}", 1, a=2),
    nested=lambda: P("{:{w}}", 1.5, w=8),
    aligned=lambda: jax.jit(lambda x: P("[{:>10}] [{:5.1f}]", x[0], x[1]))(X),
    parts=lambda: jax.jit(lambda x: P("{x.shape} {x[1]}", x=x))(X),
    representation=jitted("{!r}"),
    tree=lambda: jax.jit(lambda x: P("{}", {"a": x, "b": (x, 1)}))(X),
    text=lambda: jax.jit(lambda x: P("{} {}", x, "text"))(X),
    objects=lambda: jax.jit(lambda x: P("{} {} {}", x, object, None))(X),
    dtypes=lambda: jax.jit(
        lambda x: P("{} {} {} {}", x > 0, x.astype(int), x.astype(jnp.bfloat16), x * 1j)
    )(X),
    missing=lambda: P("{} {}", X),
    missing_name=lambda: P("{a}"),
    unused=lambda: P("{}", X, X),
    unused_name=lambda: P("hi", a=X),
    unchecked=lambda: P("hi", X, skip_format_check=True),
    unchecked_unused=lambda: P("{}", X, X, skip_format_check=True),
    no_text=lambda: P(3),
    bad_format=jitted("{:.2f}"),
    two_calls=lambda: P(ordered=True)("a {}", 1),
    ordered=lambda: jax.jit(lambda x: [P("{}", x[i], ordered=True) for i in range(3)] and None)(X),
    vmap=lambda: jax.vmap(lambda x: P("v {}", x))(X),
    vmap_jit=lambda: jax.jit(jax.vmap(lambda x: P("v {}", x)))(X),
    vmap_two=lambda: jax.vmap(lambda x: then(P("a {}", x), P("b {}", x)))(X),
    vmap_ordered=lambda: jax.vmap(lambda x: P("v {}", x, ordered=True))(X),
    vmap_unmapped=lambda: jax.vmap(lambda x: then(P("v {}", 1.0), x))(X),
    grad=lambda: jax.grad(lambda x: then(P("g {}", x), x * 2))(1.0),
    grad_jit=lambda: jax.jit(jax.grad(lambda x: then(P("g {}", x), x * 2)))(1.0),
    jvp=lambda: jax.jvp(lambda x: then(P("g {}", x), x * 2), (1.0,), (1.0,)),
    linear_transpose=lambda: jax.linear_transpose(lambda x: then(P("t {}", x), x * 2), 1.0)(1.0),
    remat=lambda: jax.grad(jax.checkpoint(lambda x: then(P("r {}", x), jnp.sin(x))))(1.0),
    remat_jit=lambda: jax.jit(jax.grad(jax.checkpoint(lambda x: then(P("r {}", x), jnp.sin(x)))))(1.0),
    scan=lambda: lax.scan(lambda c, v: (then(P("s {} {}", c, v), c + v), None), F(0), X)[0],
    scan_grad=lambda: jax.grad(
        lambda y: lax.scan(lambda c, v: (then(P("s {}", c), c * v), None), y, X + 1)[0]
    )(F(1)),
    while_loop=lambda: lax.while_loop(lambda c: c < 2, lambda c: then(P("w {}", c), c + 1), 0),
    cond=lambda: jax.jit(lambda p: lax.cond(p, lambda: P("t"), lambda: P("f")))(False),
    cond_vmap=lambda: jax.vmap(
        lambda v: lax.cond(v > 0, lambda: P("t {}", v), lambda: P("f {}", v))
    )(X),
    while_vmap=lambda: jax.vmap(
        lambda v: lax.while_loop(lambda c: c < v, lambda c: then(P("w {}", c), c + 1), F(0))
    )(X),
    cond_vmap_ordered=lambda: jax.vmap(
        lambda v: lax.cond(v > 0, lambda: P("t {}", v, ordered=True), lambda: None)
    )(X),
    while_vmap_twice=lambda: jax.vmap(jax.vmap(
        lambda v, w: lax.while_loop(
            lambda c: c < v, lambda c: then(P("w {} {}", c, w, ordered=True), c + 1), F(0)
        ), (0, None)), (None, 0)
    )(X, X),
)  # fmt: skip
add(
    "debug_callback",
    jit=lambda: jax.jit(lambda x: C(lambda a, b: kinds(a, b) is None, x, b=2))(X),
    raises=lambda: jax.jit(lambda x: C(lambda a: 1 / 0, x))(X),
    raises_ordered=lambda: jax.jit(lambda x: C(lambda a: 1 / 0, x, ordered=True))(X),
    text=lambda: jax.jit(lambda x: C(lambda a, s: print(a, s), x, "text"))(X),
    two_calls=lambda: C(ordered=True)(lambda a: print("two", a), 1),
    tree=lambda: jax.jit(lambda x: C(lambda a: print(jax.tree.map(np.shape, a)), {"q": x}))(X),
    not_callable=lambda: C(3, X),
    sharding=lambda: jax.debug.inspect_array_sharding(jnp.ones(3), callback=print),
)
add(
    "jaxpr",
    print=lambda: str(jax.make_jaxpr(lambda x: P("a {} {} {}", x, 1, "s"))(X)),
    pure=lambda: str(jax.make_jaxpr(lambda x: pure(np.sin, x))(X)).split("callback=")[0],
    io=lambda: str(jax.make_jaxpr(lambda x: io_callback(print, None, x))(X)).split("callback=")[0],
)
