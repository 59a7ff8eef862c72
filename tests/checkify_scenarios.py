"""Programs with checks, transformed in many ways: see op_cases.py.

Each gives the messages of the errors that are found, which are values here, and the results.
"""

import contextlib
import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import checkify
from jax.experimental.checkify import check, check_error, debug_check
from jax.sharding import AxisType, PartitionSpec as P

with contextlib.suppress(RuntimeError):  # devices exist already
    jax.config.update("jax_num_cpu_devices", 8)

CASES = Programs()
F, I = np.float32, np.int32
X = np.array([0.5, 2.0, -1.5], F)
RAMP = np.arange(6, dtype=F)
BLOCK = np.arange(60, dtype=F).reshape(3, 4, 5)
NAN, INF = F(np.nan), F(np.inf)
CHECKS = {
    "user": checkify.user_checks,
    "nan": checkify.nan_checks,
    "div": checkify.div_checks,
    "index": checkify.index_checks,
    "float": checkify.float_checks,
    "auto": checkify.automatic_checks,
    "all": checkify.all_checks,
}


def run(f, *args, errors="all", eager=False):
    """The message, the class of the exception, and the result; compiled, and of some programs eagerly."""
    args = jax.tree.map(jnp.asarray, args)  # so that NumPy computes nothing
    checked = checkify.checkify(f, errors=CHECKS[errors])
    forms = [jax.jit(checked), checked] if eager else [jax.jit(checked)]
    outs = []
    for form in forms:
        error, out = form(*args)
        outs.append((str(error.get()), type(error.get_exception()).__name__, out))
    return outs


def group(prefix, errors="all", **programs):
    """Programs by name: a function and its arguments."""
    for name, (f, *args) in programs.items():
        eager = prefix == "check"
        CASES.add(f"{prefix}_{name}", functools.partial(run, f, *args, errors=errors, eager=eager))


def positive(x, name="x"):
    check(jnp.all(x > 0), name + " is {}", jnp.asarray(x))
    return 2 * x


def smap(f, sizes, ins, outs):
    def mapped(*args):
        mesh = jax.make_mesh(
            sizes, ("i", "j")[: len(sizes)], axis_types=(AxisType.Auto,) * len(sizes)
        )
        return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs))(*args)

    return mapped


# NaNs, by operation. Arguments are arrays, so that nothing is computed by Python.

UNARY = dict(
    sin=INF, cos=INF, tan=INF, log=F(-1), log1p=F(-2), sqrt=F(-1), rsqrt=F(-1), asin=F(2), acos=F(2),
    acosh=F(0.5), atanh=F(2), lgamma=NAN, digamma=F(-1), erf=NAN, erf_inv=F(2), exp=NAN, expm1=NAN,
    tanh=NAN, logistic=NAN, cbrt=NAN, bessel_i0e=NAN, bessel_i1e=NAN, sinh=NAN, cosh=NAN, asinh=NAN,
    atan=NAN, erfc=NAN, neg=NAN, abs=NAN, floor=NAN, sign=NAN,
)  # fmt: skip
for name, bad in UNARY.items():
    op = getattr(lax, name)
    CASES.add(f"nan_{name}", functools.partial(run, op, bad, errors="nan"))
BINARY = dict(
    add=(INF, -INF), sub=(INF, INF), mul=(INF, F(0)), div=(F(0), F(0)), rem=(F(1), F(0)), pow=(F(-1), F(0.5)),
    atan2=(NAN, F(1)), max=(NAN, F(1)), min=(NAN, F(1)), nextafter=(NAN, F(1)), igamma=(F(-1), F(1)),
    igammac=(F(-1), F(1)), complex=(NAN, F(1)),
)  # fmt: skip
for name, args in BINARY.items():
    op = getattr(lax, name)
    CASES.add(f"nan_{name}", functools.partial(run, op, *args, errors="nan"))
BAD = np.array([1.0, np.inf, -np.inf, 2.0], F)
group(
    "nan",
    "nan",
    none=(jnp.sin, X),
    argument=(lambda x: x + 1, NAN),
    integer=(lambda x: x + 1, I(3)),
    integer_pow=(lambda x: x**3, NAN),
    reduce_sum=(lambda x: lax.reduce_sum(x, (0,)), BAD),
    reduce_prod=(jnp.prod, np.array([np.inf, 0], F)),
    reduce_max=(jnp.max, np.array([np.nan, 0], F)),
    cumsum=(lax.cumsum, BAD),
    cumprod=(lax.cumprod, np.array([np.inf, 0], F)),
    cummax=(lax.cummax, np.array([np.nan, 0], F)),
    cumlogsumexp=(lax.cumlogsumexp, np.array([np.nan, 0], F)),
    dot=(jnp.dot, BAD, np.zeros(4, F)),
    conv=(lambda x: jnp.convolve(x, x[::-1]), BAD),
    fft=(jnp.fft.fft, BAD),
    pad=(lambda x: lax.pad(x, NAN, [(1, 0, 0)]), X),
    reduce_window=(lambda x: lax.reduce_window(x, F(0), lax.add, (2,), (1,), "VALID"), BAD),
    reshape=(lambda x: x.reshape(2, 2).T, np.full(4, NAN)),
    where=(lambda x: jnp.where(x > 0, jnp.log(x), 0), X),
    stack=(lambda x: jnp.stack([x, x]), np.full(4, NAN)),
    bfloat16=(lambda x: x - x, jnp.bfloat16(np.inf)),
    complex_mul=(lambda x: x * x, np.complex64(complex(np.inf, np.inf))),
    softmax=(jax.nn.softmax, np.array([np.inf, 1.0], F)),
    logaddexp=(jnp.logaddexp, NAN, F(1)),
    relu=(jax.nn.relu, NAN),
    mean=(jnp.mean, BAD),
    several=(lambda x: (jnp.log(x), jnp.sin(x * INF)), F(-1)),
    second=(lambda x: (jnp.log(-x), jnp.sin(x * INF)), F(-1)),
    custom_linear_solve=(
        lambda b: lax.custom_linear_solve(lambda x: x, b, lambda f, b: jnp.log(-jnp.abs(b))), X,
    ),
    of_two=(lambda x: [jnp.cos(x), jnp.sqrt(x)], F(-4)),
)  # fmt: skip
group(
    "div",
    "div",
    zero=(lambda x, y: x / y, F(1), F(0)),
    one=(lambda x, y: x / y, F(1), F(1)),
    vector=(lambda x, y: x / y, X, np.array([1, 0, 2], F)),
    integer=(lambda x, y: lax.div(x, y), I(1), I(0)),
    floor=(lambda x, y: x // y, np.arange(3), np.arange(3)),
    mod=(lambda x, y: jnp.mod(x, y), np.arange(3), np.arange(3)),
    nan=(lambda x: x / x, F(0)),
    complex=(lambda x, y: x / y, np.complex64(1j), np.complex64(0)),
    scalar=(lambda x: 1 / x, np.zeros(2, F)),
    grad_sqrt=(jax.grad(jnp.sqrt), F(0)),
    grad_norm=(jax.grad(jnp.linalg.norm), np.zeros(2, F)),
    reciprocal=(jnp.reciprocal, F(0)),
)
group(
    "float",
    "float",
    zero_by_zero=(lambda x: x / x, F(0)),
    nan_first=(lambda x: 1 / jnp.maximum(jnp.log(x), 0) * 0, F(-1)),
)

# Indices

DIMS = lax.GatherDimensionNumbers((1, 2), (0,), (0,))
WINDOW = lax.ScatterDimensionNumbers((1,), (), (0,))
MODES = ("clip", "fill", "promise_in_bounds")
for mode in MODES:
    index = np.array([1, 5, -7])
    group(
        f"index_{mode}",
        "index",
        get=(lambda x, i, mode=mode: x.at[i].get(mode=mode), X, index),
        set=(lambda x, i, mode=mode: x.at[i].set(2.0, mode=mode), X, index),
        add=(lambda x, i, mode=mode: x.at[i].add(2.0, mode=mode), X, index[::-1]),
    )
group(
    "index",
    "index",
    scalar=(lambda x, i: x[i], X, I(5)),
    inside=(lambda x, i: x[i], X, I(2)),
    negative=(lambda x, i: x[i], X, I(-1)),
    too_negative=(lambda x, i: x[i], X, I(-5)),
    static=(lambda x: x[5], X),
    static_negative=(lambda x: x[-5], X),
    static_inside=(lambda x: x[-3] + x[2], X),
    static_2d=(lambda x: x[1, 7], BLOCK[0]),
    static_set=(lambda x: x.at[5].set(1), X),
    array=(lambda x, i: x[i], X, np.array([0, 3])),
    two=(lambda x, i, j: x[i, :, j], BLOCK, np.array([1, 2]), np.array([1, 7])),
    two_bad=(lambda x, i, j: x[i, :, j], BLOCK, np.array([1, 9]), np.array([8, 7])),
    last=(lambda x, i: x[..., i], BLOCK, np.array([5, 0])),
    dynamic_slice=(lambda x, i: lax.dynamic_slice(x, (0, i, 0), (1, 2, 2)), BLOCK, I(3)),
    dynamic_slice_inside=(lambda x, i: lax.dynamic_slice(x, (0, i, 0), (1, 2, 2)), BLOCK, I(2)),
    dynamic_slice_axis=(lambda x, i: lax.dynamic_slice(x, (i, i, 0), (1, 2, 2)), BLOCK, I(6)),
    dynamic_slice_negative=(lambda x, i: lax.dynamic_slice(x, (0, i, 0), (1, 2, 2)), BLOCK, I(-7)),
    dynamic_update=(
        lambda x, i: lax.dynamic_update_slice(x, x[:1, :2], (0, i, 0)).sum(), BLOCK, I(3),
    ),
    dynamic_index=(lambda x, i: lax.dynamic_index_in_dim(x, i, 1).sum(), BLOCK, I(4)),
    uint8=(lambda x, i: x[i], np.arange(200), np.array([255, 3], np.uint8)),
    uint8_small=(lambda x, i: x[i], np.arange(300), np.array([255, 3], np.uint8)),
    take=(lambda x, i: jnp.take(x, i), X, np.array([[1, 5]])),
    take_along_axis=(lambda x, i: jnp.take_along_axis(x, i, 1), BLOCK[0], np.full((4, 1), 5)),
    gather=(lambda x, i: lax.gather(x, i, DIMS, (1, 4, 5), mode="clip").sum(), BLOCK, np.array([[7]])),
    scatter_window=(
        lambda x, i: lax.scatter(x, i, np.ones((1, 2), F), WINDOW, mode="clip"), X, np.array([[2]]),
    ),
    mul=(lambda x, i: x.at[i].mul(2), X, I(7)),
    min=(lambda x, i: x.at[i].min(2), X, I(7)),
    max=(lambda x, i: x.at[i].max(2), X, I(-7)),
    set_rows=(lambda x, i: x.at[:, i].set(0).sum(), BLOCK, np.array([1, 4])),
    empty=(lambda x, i: x[i], X, np.zeros(0, int)),
    grad=(jax.grad(lambda x, i: x[i]), X, I(5)),
    segment_sum=(lambda x: jax.ops.segment_sum(x, np.array([0, 1, 9]), 3), X),
    vmap_slice=(
        jax.vmap(lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 1))), BLOCK, np.array([1, 5, 6]),
    ),
    vmap_get=(jax.vmap(lambda x, i: x[i, 0]), BLOCK, np.array([1, 5, 6])),
    two_checks=(lambda x: x[5] + x[6], X),
    scatter_nan=(lambda x: x.at[0].add(np.nan), X),
)  # fmt: skip
CASES.add("index_no_nan_of_gather", lambda: run(lambda x, i: x[i], X * NAN, I(1), errors="nan"))

# Checks of users

group(
    "check",
    passes=(positive, F(1)),
    fails=(positive, F(-1)),
    two=(lambda x: (positive(x, "a"), positive(x, "b")), F(-1)),
    second=(lambda x: (positive(-x, "a"), positive(x, "b")), F(-1)),
    other_payload=(lambda x: (positive(x, "a"), positive(x[:1], "b")), -X),
    positional=(lambda x: check(x > 0, "{} and {}", x, x + 1), F(-1)),
    keyword=(lambda x: check(x > 0, "{a} and {b}", b=x, a=x + 1), F(-1)),
    spec=(lambda x: check(x > 0, "{:.3f} {x:5.1f}", x, x=x), F(-1)),
    tree=(lambda x: check(x > 0, "{a}", a=None), F(-1)),
    array=(lambda x: check(jnp.all(x > 0), "{}", x), X),
    numpy=(lambda x: check(x > 0, "{}", np.arange(3)), F(-1)),
    no_payload=(lambda x: check(x > 0, "wrong"), F(-1)),
    true=(lambda x: check(True, "wrong"), F(-1)),
    false=(lambda x: check(False, "wrong"), F(-1)),
    boolean=(lambda x: check(x > 0, "{}", x > 0), F(-1)),
    integer=(lambda x: check(x > 0, "{}", x), I(-4)),
    bfloat16=(lambda x: check(x > 0, "{}", x), jnp.bfloat16(-4)),
    complex=(lambda x: check(x.real > 0, "{}", x), np.complex64(-1 + 2j)),
    debug=(lambda x: debug_check(x > 0, "{}", x), F(-1)),
    jit=(jax.jit(positive), F(-1)),
    jit_in_jit=(jax.jit(lambda x: jax.jit(positive)(x) + 1), F(-1)),
    jit_twice=(lambda x: (lambda f: (f(x), f(-x)))(jax.jit(positive)), F(-1)),
    jit_second=(lambda x: (lambda f: (f(-x), f(x)))(jax.jit(positive)), F(-1)),
    grad=(jax.grad(positive), F(-1)),
    value_and_grad=(jax.value_and_grad(positive), F(-1)),
    jvp=(lambda x: jax.jvp(positive, (x,), (x,)), F(-1)),
    vjp=(lambda x: jax.vjp(positive, x)[1](x), F(-1)),
    linearize=(lambda x: jax.linearize(positive, x)[1](x), F(-1)),
    hessian=(jax.hessian(lambda x: positive(x) ** 3), F(-1)),
    vmap=(jax.vmap(positive), X),
    vmap_ok=(jax.vmap(positive), np.abs(X)),
    vmap_unmapped=(lambda x: jax.vmap(lambda y: y * positive(x))(X), F(-1)),
    vmap_jit=(jax.vmap(jax.jit(positive)), -X),
    vmap_vmap=(jax.vmap(jax.vmap(positive)), BLOCK[0] - 10),
    vmap_grad=(jax.vmap(jax.grad(positive)), X),
    grad_vmap=(jax.grad(lambda x: jax.vmap(positive)(x).sum()), X),
    checkpoint=(jax.checkpoint(positive), F(-1)),
    grad_checkpoint=(jax.grad(jax.checkpoint(lambda x: jnp.sin(positive(x)))), F(-1)),
    pure_callback=(
        lambda x: positive(jax.pure_callback(lambda x: -x, jax.ShapeDtypeStruct((), F), x)), F(1),
    ),
    nested=(lambda x: checkify.checkify(positive)(x)[1], F(-1)),
)  # fmt: skip
for name in ("user", "nan", "index"):
    CASES.add(f"check_only_{name}", lambda name=name: run(positive, F(-1), errors=name))

# Control flow


def fori_body(i, x):
    check(i != 2, "at {}", i)
    return x + 1


def loop(cond, body):
    return lambda x: lax.while_loop(cond, body, x)


def below(limit, name="c"):
    def cond(x):
        check(x < limit, name + " {}", jnp.asarray(x))
        return x < 5

    return cond


def step(x, limit=3):
    check(x < limit, "b {}", jnp.asarray(x))
    return x + 1


branches = [jnp.sin, jnp.log, positive]
group(
    "flow",
    cond_true=(lambda p, x: lax.cond(p, jnp.log, positive, x), True, F(-1)),
    cond_false=(lambda p, x: lax.cond(p, jnp.log, positive, x), False, F(-1)),
    cond_ok=(lambda p, x: lax.cond(p, jnp.log, positive, x), False, F(1)),
    cond_one=(lambda p, x: lax.cond(p, positive, lambda x: x, x), True, F(-1)),
    cond_one_other=(lambda p, x: lax.cond(p, positive, lambda x: x, x), False, F(-1)),
    cond_grad=(jax.grad(lambda x: lax.cond(x < 0, positive, jnp.sin, x)), F(-1)),
    cond_vmap=(jax.vmap(lambda p, x: lax.cond(p, positive, jnp.sin, x)), X > 0, X),
    cond_vmap_operand=(lambda p: jax.vmap(lambda x: lax.cond(p, positive, jnp.sin, x))(X), True),
    switch=(lambda i, x: lax.switch(i, branches, x), I(2), F(-1)),
    switch_first=(lambda i, x: lax.switch(i, branches, x), I(0), INF),
    switch_clamped=(lambda i, x: lax.switch(i, branches, x), I(7), F(-1)),
    switch_ok=(lambda i, x: lax.switch(i, branches, x), I(1), F(1)),
    scan=(lambda x: lax.scan(lambda c, x: (c + positive(x), c), F(0), x), X),
    scan_first=(lambda x: lax.scan(lambda c, x: (c, check(x < 3, "{}", x)), 0, x)[0], RAMP),
    scan_reverse=(lambda x: lax.scan(lambda c, x: (c, check(x < 3, "{}", x)), 0, x, reverse=True)[0], RAMP),
    scan_carry=(lambda x: lax.scan(lambda c, _: (positive(c - 1), c), x, None, length=3), F(2)),
    scan_unroll=(lambda x: lax.scan(lambda c, x: (c + positive(x), c), F(0), x, unroll=2), X),
    scan_const=(lambda a, x: lax.scan(lambda c, x: (c + positive(a), x), F(0), x), F(-1), X),
    scan_vmap=(jax.vmap(lambda x: lax.scan(lambda c, x: (c + positive(x), c), F(0), x)[0]), BLOCK[0]),
    scan_nan=(lambda x: lax.scan(lambda c, x: (c + jnp.log(x), c), F(0), x)[0], X),
    scan_div=(lambda x: lax.scan(lambda c, x: (c, c / x), F(1), x)[1], RAMP[::-1]),
    scan_index=(lambda i: lax.scan(lambda c, i: (c, c[i]), X, i)[1], np.array([0, 2, 3, 4])),
    scan_in_scan=(
        lambda x: lax.scan(lambda c, r: lax.scan(lambda c, y: (c + positive(y), y), c, r), F(0), x)[0],
        BLOCK[0] - 7,
    ),
    map=(lambda x: lax.map(positive, x), X),
    map_batched=(lambda x: lax.map(positive, x, batch_size=2), np.abs(X)),
    fori=(lambda x: lax.fori_loop(0, 4, fori_body, x), F(1)),
    fori_dynamic=(lambda n, x: lax.fori_loop(0, n, fori_body, x), I(4), F(1)),
    fori_short=(lambda n, x: lax.fori_loop(0, n, fori_body, x), I(2), F(1)),
    while_body=(loop(lambda x: x < 5, step), I(0)),
    while_never=(loop(lambda x: x < 0, step), I(9)),
    while_cond=(loop(below(5), lambda x: x + 1), I(0)),
    while_cond_first=(loop(below(5), lambda x: x + 1), I(9)),
    while_both=(loop(below(2), step), I(0)),
    while_body_first=(loop(below(4), functools.partial(step, limit=1)), I(0)),
    while_nan=(loop(lambda x: x[0] < 5, lambda x: (x[0] + 1, jnp.sin(x[1]))), (I(0), INF)),
    while_nan_in_cond=(loop(lambda x: jnp.log(x) < 1, lambda x: x + 2), F(-1)),
    while_const=(lambda a, x: lax.while_loop(lambda x: x < a / 0, lambda x: x + a, x), F(-1), F(1)),
    while_vmap_body=(jax.vmap(lambda x: lax.fori_loop(0, 3, lambda i, x: positive(x) - 4, x)), X + 3),
    while_jvp=(
        lambda x: jax.jvp(loop(lambda x: x < 5, lambda x: positive(x + 2)), (x,), (x,)), F(-3),
    ),
    while_in_scan=(
        lambda x: lax.scan(lambda c, x: (c, lax.while_loop(lambda y: y < 3, step, x)), 0, x)[1],
        np.arange(5),
    ),
    cond_in_while=(
        loop(lambda x: x < 5, lambda x: lax.cond(x == 2, lambda x: step(x, 1), lambda x: x + 1, x)), I(0),
    ),
    associative_scan=(lambda x: lax.associative_scan(lambda a, b: a / b, x), np.array([1, 0, 2], F)),
    platform_dependent=(
        lambda x: lax.platform_dependent(x, cpu=jnp.log, default=positive), F(-1),
    ),
    custom_root=(
        lambda a: lax.custom_root(
            lambda x: x**2 - a, F(1), lambda f, x: jnp.log(x - 5), lambda g, y: y / g(F(1))
        ),
        F(4),
    ),
    batched_while=(jax.vmap(loop(lambda x: x < 3, step)), np.arange(4)),
)  # fmt: skip

# Custom rules


@jax.custom_jvp
def with_jvp(x):
    return jnp.log(positive(x))


with_jvp.defjvp(lambda p, t: (p[0], jnp.log(p[0]) * t[0] * positive(p[0] - 2, "jvp")))


@jax.custom_vjp
def with_vjp(x):
    return jnp.log(positive(x))


with_vjp.defvjp(
    lambda x: (positive(x, "fwd"), x), lambda r, g: (g * jnp.log(positive(r - 2, "bwd")),)
)
group(
    "custom",
    jvp=(with_jvp, F(-1)),
    jvp_ok=(with_jvp, F(1)),
    jvp_jit=(jax.jit(with_jvp), F(-1)),
    jvp_grad=(jax.grad(with_jvp), F(1)),
    jvp_grad_ok=(jax.grad(with_jvp), F(3)),
    jvp_vmap=(jax.vmap(with_jvp), X),
    vjp=(with_vjp, F(-1)),
    vjp_grad=(jax.grad(with_vjp), F(1)),
    vjp_grad_fwd=(jax.grad(with_vjp), F(-1)),
    vjp_grad_ok=(jax.grad(with_vjp), F(3)),
    vjp_vmap=(jax.vmap(with_vjp), X),
    vjp_grad_jit=(jax.grad(lambda x: jax.jit(with_vjp)(x)), F(1)),
    vjp_scan=(lambda x: lax.scan(lambda c, x: (c, with_vjp(x)), 0, x)[1], X),
)

# Transformations of checked functions


def messages(error):
    return str(error.get())


checked = checkify.checkify(positive)
log = checkify.checkify(jnp.log, errors=checkify.all_checks)


def aux(f):
    """The function with its error as auxiliary data."""

    def swapped(*args):
        error, out = f(*args)
        return out, error

    return swapped


def with_message(result):
    *rest, error = result
    return [*rest, messages(error)]


def batch_of(f, *args, **kwargs):
    error, out = jax.vmap(f, **kwargs)(*args)
    return messages(error), type(error.get_exception()).__name__, out


CASES.group(
    "outside",
    vmap=lambda: batch_of(checked, X),
    vmap_ok=lambda: batch_of(checked, np.abs(X)),
    vmap_vmap=lambda: batch_of(jax.vmap(checked), BLOCK[0] - 10),
    vmap_nan=lambda: batch_of(log, X),
    vmap_two_kinds=lambda: batch_of(checkify.checkify(lambda x: positive(jnp.log(x)), errors=checkify.nan_checks), X),
    vmap_index=lambda: batch_of(
        checkify.checkify(lambda x, i: x[i], errors=checkify.index_checks), BLOCK[:, :, 0], np.array([5, 0, 100])
    ),
    vmap_cond=lambda: batch_of(
        checkify.checkify(lambda x: lax.cond(x > 0, jnp.sin, positive, x)), X
    ),
    vmap_scan=lambda: batch_of(checkify.checkify(lambda x: lax.map(positive, x)), BLOCK[0] - 7),
    vmap_out=lambda: batch_of(checked, BLOCK[0] - 7, in_axes=1),
    grad=lambda: with_message(jax.grad(aux(checked), has_aux=True)(F(-1))),
    value_and_grad=lambda: str(jax.value_and_grad(aux(log), has_aux=True)(F(-1))[0][1].get()),
    jit_grad=lambda: with_message(jax.jit(jax.grad(aux(checked), has_aux=True))(F(-1))),
    grad_scan=lambda: with_message(
        jax.grad(aux(checkify.checkify(lambda x: lax.map(positive, x).sum())), has_aux=True)(X)
    ),
    grad_custom_jvp=lambda: with_message(
        jax.grad(aux(checkify.checkify(lambda x: with_jvp(x) * x)), has_aux=True)(F(3))
    ),
    grad_custom_vjp=lambda: with_message(
        jax.grad(aux(checkify.checkify(lambda x: with_vjp(x) * x)), has_aux=True)(F(3))
    ),
    jvp=lambda: messages(jax.jvp(checked, (F(-1),), (F(1),))[0][0]),
    scan=lambda: lax.scan(lambda c, x: (c, aux(checked)(x)[0]), 0, X)[1],
    scan_errors=lambda: messages(lax.map(lambda x: checked(x)[0], X)),
    jit=lambda: messages(jax.jit(checked)(F(-1))[0]),
    jit_argument=lambda: messages(jax.jit(lambda e: e)(checked(F(-1))[0])),
    tree_map=lambda: messages(jax.tree.map(lambda x: x, checked(F(-1))[0])),
    checkify=lambda: [messages(e) for e in [*(lambda a: [a[0], a[1][0]])(
        checkify.checkify(log, errors=checkify.nan_checks)(F(-1)))]],
    kwargs=lambda: messages(checkify.checkify(lambda x, *, y: jnp.log(x - y), errors=checkify.nan_checks)(F(1), y=F(2))[0]),
    static=lambda: messages(checkify.checkify(lambda x, n: [positive(x) for _ in range(n)])(F(-1), 2)[0]),
)  # fmt: skip

# Errors as values


def rethrow(x):
    error, y = log(x)
    check_error(error)
    return y


def rethrow_in_scan(x):
    return lax.scan(lambda c, x: (c, rethrow(x)), 0, x)[1]


group(
    "error",
    rethrow=(rethrow, F(-1)),
    rethrow_ok=(rethrow, F(1)),
    rethrow_after=(lambda x: positive(rethrow(jnp.abs(x)) - 5), F(-1)),
    rethrow_in_jit=(jax.jit(rethrow), F(-1)),
    rethrow_in_scan=(rethrow_in_scan, X),
    rethrow_of_batch=(lambda x: check_error(jax.vmap(checked)(x)[0]), X - 1),
    rethrow_throw=(lambda x: checked(x)[0].throw(), F(-1)),
    rethrow_grad=(jax.grad(rethrow), F(-1)),
    rethrow_vmap=(jax.vmap(rethrow), X),
    init=(lambda x: check_error(checkify.init_error), F(1)),
)
CASES.add("error_argument", lambda: run(check_error, checked(F(-1))[0]))
for name in ("user", "nan"):
    CASES.add(f"error_rethrow_only_{name}", lambda name=name: run(rethrow, F(-1), errors=name))


def raised(f, *args):
    """The class of the exception, of its cause, and the message."""
    try:
        f(*args)
    except ValueError as e:
        return [type(e).__name__, type(e.__cause__).__name__, str(e)]
    return ["nothing"]


CASES.group(
    "throw",
    user=lambda: raised(checked(F(-1))[0].throw),
    nothing=lambda: raised(checked(F(1))[0].throw),
    nan=lambda: raised(log(F(-1))[0].throw),
    batch=lambda: raised(jax.vmap(checked)(X)[0].throw),
    check_error=lambda: raised(check_error, log(F(-1))[0]),
    check_error_init=lambda: raised(check_error, checkify.init_error),
    eager=lambda: raised(positive, jnp.float32(-1)),
    eager_ok=lambda: raised(positive, jnp.float32(1)),
    eager_vmap=lambda: raised(jax.vmap(positive), jnp.array(X)),
    eager_grad=lambda: raised(jax.grad(positive), F(-1)),
    eager_debug=lambda: raised(lambda x: debug_check(x > 0, "wrong"), jnp.float32(-1)),
)

# Exceptions

CASES.group(
    "raises",
    jit=lambda: jax.jit(positive)(F(-1)),
    jit_ok=lambda: jax.jit(positive)(F(1)),
    scan=lambda: lax.map(positive, X),
    cond=lambda: lax.cond(True, positive, jnp.sin, F(1)),
    while_loop=lambda: lax.fori_loop(0, 3, fori_body, F(1)),
    checkpoint=lambda: jax.jit(jax.checkpoint(positive))(F(1)),
    check_error=lambda: jax.jit(check_error)(checked(F(1))[0]),
    throw=lambda: jax.jit(lambda x: checked(x)[0].throw())(F(1)),
    get=lambda: jax.jit(lambda x: checked(x)[0].get())(F(1)),
    vector=lambda: check(jnp.array([True]), "wrong"),
    vector_traced=lambda: checkify.checkify(lambda x: check(x > 0, "wrong"))(X),
    number=lambda: check(jnp.int32(1), "wrong"),
    not_array=lambda: check(1.0, "wrong"),
    numpy_bool=lambda: check(np.bool_(True), "wrong"),
    float_value=lambda: check(True, "{}", 3.0),
    numpy_scalar=lambda: check(True, "{}", np.float32(3)),
    text_value=lambda: check(True, "{}", "a"),
    missing_key=lambda: check(True, "{a}"),
    missing_position=lambda: check(True, "{} {}", jnp.ones(())),
    not_error=lambda: check_error(3),
    not_callable=lambda: checkify.checkify(3)(1.0),
)
CASES.group(
    "without",
    debug_jit=lambda: jax.jit(lambda x: (debug_check(x > 0, "wrong"), x)[1])(F(-1)),
    debug_scan=lambda: lax.map(lambda x: (debug_check(x > 0, "{}", x), x)[1], X),
    debug_grad=lambda: jax.grad(jax.jit(lambda x: (debug_check(x > 0, "wrong"), x)[1]))(F(-1)),
    debug_vmap=lambda: jax.vmap(lambda x: (debug_check(x > 0, "wrong"), x)[1])(X),
    debug_vmap_jit=lambda: jax.jit(jax.vmap(lambda x: (debug_check(x > 0, "{}", x), x)[1]))(X),
    debug_checkpoint=lambda: jax.grad(
        jax.checkpoint(lambda x: (debug_check(x > 0, "wrong"), jnp.sin(x))[1])
    )(F(-1)),
    debug_while=lambda: lax.fori_loop(
        0, 3, lambda i, x: (debug_check(i < 0, "no"), x + 1)[1], F(0)
    ),
    vmap=lambda: jax.vmap(positive)(np.abs(X)),
    jvp=lambda: jax.jvp(positive, (F(1),), (F(1),)),
)

# Several devices

one, two = (4,), (2, 2)
Q = np.arange(4, dtype=F)
group(
    "devices",
    shard_map=(smap(lambda x: 2 * positive(2 - x), one, P("i"), P("i")), Q),
    shard_map_ok=(smap(positive, one, P("i"), P("i")), Q + 1),
    shard_map_nan=(smap(lambda x: jnp.log(x), one, P("i"), P("i")), Q - 2),
    shard_map_replicated=(smap(positive, one, P(), P()), -X),
    shard_map_2d=(smap(lambda x: positive(2 - x), two, P("i", "j"), P("i", "j")), Q.reshape(2, 2)),
    shard_map_rows=(smap(lambda x: positive(2 - x), two, P("i"), P("i")), Q.reshape(2, 2)),
    shard_map_sum=(smap(lambda x: lax.psum(jnp.log(x), "i"), one, P("i"), P()), Q - 2),
    psum_axis=(jax.vmap(lambda x: lax.psum(jnp.log(x), "i") * x, axis_name="i"), Q - 1),
)  # fmt: skip


def pmapped(f, x):
    error, out = f(x)
    return messages(error), np.asarray(out)


CASES.group(
    "devices",
    pmap=lambda: pmapped(checkify.checkify(jax.pmap(lambda x: positive(2 - x))), Q),
    pmap_of_checkify=lambda: pmapped(jax.pmap(checkify.checkify(lambda x: positive(2 - x))), Q),
    pmap_nan=lambda: pmapped(
        checkify.checkify(jax.pmap(jnp.log), errors=checkify.nan_checks), Q - 2
    ),
)

# References


def with_ref(x):
    ref = jax.new_ref(x)
    ref[...] = ref[...] - 1
    check(ref[0] > 0, "ref {}", ref[0])
    return ref[...]


def ref_in_loop(x):
    ref = jax.new_ref(x)

    def body(i, _):
        check(ref[...] < 3, "{} at {}", ref[...], i)
        ref[...] = ref[...] + 1

    lax.fori_loop(0, 4, body, None)
    return ref[...]


group(
    "ref",
    local=(with_ref, X),
    jit=(jax.jit(with_ref), X),
    loop=(ref_in_loop, F(1)),
    ok=(with_ref, X + 3),
)


# Formatting arguments


def formatted(text, *args, **kwargs):
    def f(x):
        pick = lambda values: jax.tree.map(lambda i: x * i, values)
        check(jnp.all(x < 1), text, *pick(args), **pick(kwargs))
        return 2 * x

    return f


FORMATS = dict(
    positions=formatted("{} and {}", 1, 2),
    keywords=formatted("{b} {a}", a=1, b=2),
    both=formatted("{} {a}", 3, a=1),
    numbers=formatted("{1} {0} {1}", 1, 2),
    spec=formatted("{:.3f} {a:8.1e}|", 1, a=2),
    width=formatted("{a:>12}|", a=1),
    conversion=formatted("{!r} {a!s}", 1, a=2),
    element=formatted("{0[a]} {b[1]}", {"a": 1}, b=[2, 3]),
    attribute=formatted("{0.shape} {a.dtype}", 1, a=2),
    tree=formatted("{} {a}", (1, [2]), a={"k": 3}),
    escaped=formatted("{{}} {}", 1),
    unused=formatted("no values", 1, a=2),
    percent=formatted("100% {}\nline", 1),
)
for name, f in FORMATS.items():
    group(
        f"format_{name}",
        "user",
        scalar=(f, F(1.5)),
        vector=(f, X),
        vmap=(jax.vmap(f), X),
        scan=(lambda x, f=f: lax.scan(lambda c, x: (c, f(x)), 0.0, x)[1], X),
        while_=(lambda x, f=f: lax.while_loop(lambda x: x < 3, lambda x: f(x) + 1, x), F(0.25)),
        cond=(lambda x, f=f: lax.cond(x > 1, f, jnp.sin, x), F(1.5)),
        grad=(jax.grad(f), F(1.5)),
        checkpoint=(jax.grad(jax.checkpoint(f)), F(1.5)),
        pmap=(jax.pmap(f), X),
    )
