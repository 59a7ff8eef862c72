"""Programs that give NaNs, for `jax_debug_nans`: which of them raise FloatingPointError."""

import contextlib
import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import checkify, io_callback
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

with contextlib.suppress(RuntimeError):  # devices exist already
    jax.config.update("jax_num_cpu_devices", 8)

CASES = Programs()
OPERATIONS = {}  # name: the program, and the operation that the error names, or None
F = np.float32
S = jax.ShapeDtypeStruct
NAN = F(np.nan)
ZERO = F(0)
ZEROS = np.zeros(8, F)
NANS = np.full(8, NAN)


def add(operation, own=False, /, **programs):
    """Add programs to the table; `own` ones raise here only, or an error of another class there."""
    for name, fun in programs.items():
        OPERATIONS[name] = fun, operation
        if not own:
            CASES.add(name, functools.partial(outcome, fun))


def outcome(fun, debug=jax.debug_nans):
    """The class of the error, or an empty text."""
    try:
        with debug(True):
            jax.block_until_ready(fun())
    except FloatingPointError:
        return "FloatingPointError"
    return ""


def mesh():
    return jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))


def sharded(fun, out=P("x")):
    return jax.shard_map(fun, mesh=mesh(), in_specs=P("x"), out_specs=out)


def put(x):
    return jax.device_put(x, NamedSharding(mesh(), P("x")))


def log(x):
    return jnp.log(x - 1)


def log2(x):
    return log(x) * 2


add(
    "log",
    eager=lambda: jnp.log(jnp.float32(-1)),
    jit=lambda: jax.jit(lambda x: jnp.sin(log(x)))(ZERO),
    jit_single=lambda: jax.jit(lambda x: jnp.log(x))(F(-1)),
    jit_nested=lambda: jax.jit(lambda x: jax.jit(log)(x) + 1)(ZERO),
    jit_static=lambda: jax.jit(lambda n, x: jnp.log(x - n) * 2, static_argnums=0)(3, ZERO),
    jit_keyword=lambda: jax.jit(log2)(x=ZERO),
    jit_tree=lambda: jax.jit(lambda d: {"a": d["a"], "b": log(d["b"])})({"a": ZERO, "b": ZERO}),
    jit_sharded=lambda: jax.jit(log2)(put(ZEROS)),
    jit_prints=lambda: jax.jit(lambda x: (jax.debug.print("{}", x), log2(x))[1])(ZERO),
    disabled_jit=lambda: (jax.disable_jit()(lambda: 0), jax.jit(log2)(ZERO))[1],
    donated=lambda: jax.jit(log2, donate_argnums=0)(jnp.zeros(8)),
    bfloat16=lambda: jnp.log(-jnp.ones(2, jnp.bfloat16)),
    pmap=lambda: jax.pmap(log2)(ZEROS),
    pmap_psum=lambda: jax.pmap(lambda x: lax.psum(log(x), "i"), axis_name="i")(ZEROS),
    pmap_donated=lambda: jax.pmap(log2, donate_argnums=0)(jnp.zeros(8)),
    jit_of_pmap=lambda: jax.jit(jax.pmap(log2))(ZEROS),
    shard_map=lambda: sharded(log2)(ZEROS),
    jit_of_shard_map=lambda: jax.jit(sharded(log2))(ZEROS),
    jit_of_shard_map_psum=lambda: jax.jit(sharded(lambda x: lax.psum(log(x), "x"), P()))(ZEROS),
    vmap=lambda: jax.vmap(log)(ZEROS),
    vmap_of_jit=lambda: jax.vmap(jax.jit(log2))(ZEROS),
    jit_of_vmap=lambda: jax.jit(jax.vmap(log2))(ZEROS),
    scan=lambda: lax.scan(lambda c, x: (c + log(x), c), ZERO, ZEROS),
    scan_in_jit=lambda: jax.jit(lambda x: lax.scan(lambda c, x: (c + log(x), c), ZERO, x))(ZEROS),
    map=lambda: lax.map(log, ZEROS),
    while_loop=lambda: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, log(c[1])), (0, ZERO)),
    fori_loop=lambda: lax.fori_loop(0, 3, lambda i, c: log(c), ZERO),
    cond=lambda: lax.cond(True, log, lambda x: x, ZERO),
    cond_in_jit=lambda: jax.jit(lambda p, x: lax.cond(p, log, lambda x: x, x))(True, ZERO),
    switch=lambda: lax.switch(1, [lambda x: x, log], ZERO),
    cond_in_scan=lambda: jax.jit(
        lambda xs: lax.scan(lambda c, x: (lax.cond(x < 1, log, lambda x: x, c), x), ZERO, xs)
    )(ZEROS),
    associative_scan=lambda: lax.associative_scan(lambda a, b: log(a * b), jnp.zeros(4)),
    checkpoint=lambda: jax.checkpoint(log2)(ZERO),
    checkify=lambda: checkify.checkify(log, errors=checkify.nan_checks)(ZERO),
    eval_jaxpr=lambda: jax.core.eval_jaxpr(jax.make_jaxpr(log2)(ZERO).jaxpr, (), ZERO),
)  # fmt: skip
add(
    None,
    infinite=lambda: jnp.ones(()) / ZERO,
    only_inside=lambda: jax.jit(lambda x: jnp.where(True, x, log(x)))(ZERO),
    tested=lambda: jax.jit(lambda x: jnp.isnan(log(x)).astype(F))(ZERO),
    unused_argument=lambda: jax.jit(lambda x, y: y + 1)(NAN, ZERO),
    isnan=lambda: jnp.isnan(NANS),
    nansum=lambda: jnp.nansum(NANS),
    nan_to_num=lambda: jnp.nan_to_num(NANS),
    device_put=lambda: jax.device_put(NANS),
    device_put_sharded=lambda: put(NANS),
    device_get=lambda: jax.device_get(jax.device_put(NANS)),
    printed=lambda: str(jax.device_put(NANS)),
    asarray_of_array=lambda: jnp.asarray(jax.device_put(NANS)),
    eval_shape=lambda: jax.eval_shape(log, ZERO).dtype.type(0),
    condition=lambda: lax.while_loop(lambda c: jnp.isnan(log(c)), lambda c: c + 2, ZERO),
    maximum=lambda: jnp.max(jnp.arange(3.0)),
    softmax=lambda: jax.nn.softmax(jnp.arange(3.0)),
)
for name, make in dict(
    asarray=lambda: jnp.asarray(NANS),
    asarray_scalar=lambda: jnp.asarray(NAN),
    array=lambda: jnp.array(NANS),
    array_list=lambda: jnp.array([1.0, np.nan]),
    array_float=lambda: jnp.array(np.nan),
    array_complex=lambda: jnp.array(complex(0, np.nan)),
    array_bfloat16=lambda: jnp.array(NANS, jnp.bfloat16),
    scalar=lambda: jnp.float32(np.nan),
    frombuffer=lambda: jnp.frombuffer(NANS.tobytes(), F),
).items():
    add("array", **{name: make})
add("copy", array_of_array=lambda: jnp.array(jax.device_put(NANS)))
add("broadcast_in_dim", full=lambda: jnp.full(3, np.nan))
add("add", argument=lambda: jax.jit(lambda x: x + 1)(NAN), argument_eager=lambda: jnp.add(NAN, 1))
add("<lambda>", identity=lambda: jax.jit(lambda x: x)(NAN))
add("dynamic_slice", index=lambda: jax.device_put(NANS)[0])
add("reduce_max", maximum_of_nans=lambda: jnp.max(NANS))
add("sort", sort=lambda: jnp.sort(jax.device_put(NANS)))
add("dot_general", dot=lambda: jnp.dot(F([np.inf, 1]), F([0, 1])))
add(
    "cholesky",
    cholesky=lambda: jnp.linalg.cholesky(-jnp.eye(2)),
    cholesky_in_jit=lambda: jax.jit(lambda x: jnp.linalg.cholesky(x))(-jnp.eye(2)),
)
callback = lambda call: call(lambda: NAN, S((), F))
add(
    "pure_callback",
    pure_callback=lambda: callback(jax.pure_callback),
    pure_callback_in_jit=lambda: jax.jit(lambda x: callback(jax.pure_callback) + x)(ZERO),
)
add("io_callback", io_callback=lambda: callback(io_callback))
add("new_ref", new_ref=lambda: jax.new_ref(NANS)[...])


def ref_of_zeros():
    return jax.new_ref(jnp.zeros(3))


def write(ref, index, value):
    ref[index] = value
    return ref[...]


add(
    "swap",
    write=lambda: write(ref_of_zeros(), 0, NAN),
    write_all=lambda: write(ref_of_zeros(), ..., jax.device_put(NANS[:3])),
)
add(
    "log",
    True,
    write_in_jit=lambda: jax.jit(lambda r: write(r, 0, log(r[0])).shape[0])(ref_of_zeros()),
)

# Derivatives


def root(x):
    return jnp.sqrt(x) * 0.0


@jax.custom_jvp
def jvp_log(x):
    return log(x)


jvp_log.defjvp(lambda p, t: (log(*p), *t))


@jax.custom_jvp
def bad_jvp(x):
    return x * 2


bad_jvp.defjvp(lambda p, t: (p[0] * 2, lax.div(t[0], p[0]) - lax.div(t[0], p[0])))


@jax.custom_vjp
def vjp_log(x):
    return log(x)


vjp_log.defvjp(lambda x: (log(x), None), lambda _, g: (g,))


@jax.custom_vjp
def bad_vjp(x):
    return x * 2


bad_vjp.defvjp(lambda x: (x * 2, x), lambda x, g: ((g - g) / x,))
add(
    "mul",
    grad=lambda: jax.grad(root)(ZERO),
    jit_of_grad=lambda: jax.jit(jax.grad(root))(ZERO),
    grad_of_jit=lambda: jax.grad(jax.jit(root))(ZERO),
    grad_of_checkpoint=lambda: jax.grad(jax.checkpoint(root))(ZERO),
    grad_of_shard_map=lambda: jax.grad(lambda x: sharded(root)(x).sum())(ZEROS),
    pmap_of_grad=lambda: jax.pmap(jax.grad(root))(ZEROS),
    linearize=lambda: jax.linearize(root, ZERO)[1](ZERO),
    vjp=lambda: jax.vjp(root, ZERO)[1](ZERO),
    jvp=lambda: jax.jvp(root, (ZERO,), (ZERO,)),
)
add(
    "log",
    custom_jvp=lambda: jvp_log(ZERO),
    custom_jvp_in_jit=lambda: jax.jit(lambda x: jvp_log(x) * 2)(ZERO),
    custom_vjp=lambda: jax.grad(vjp_log)(ZERO),
)
add("sub", custom_jvp_rule=lambda: jax.jvp(bad_jvp, (ZERO,), (F(1),)))
add(
    "div",
    custom_vjp_rule=lambda: jax.grad(bad_vjp)(ZERO),
    custom_vjp_rule_in_jit=lambda: jax.jit(jax.grad(bad_vjp))(ZERO),
)

# Programs compiled ahead of time: the reference raises an error that is not a FloatingPointError.


def compiled(*args, **options):
    return jax.jit(log2, **options).lower(*args).compile()


add(
    "log",
    True,
    ahead_of_time=lambda: compiled(ZERO)(ZERO),
    ahead_of_time_second_call=lambda: [f(x) for f in [compiled(ZERO)] for x in (F(3), ZERO)],
    ahead_of_time_donated=lambda: compiled(ZEROS, donate_argnums=0)(jnp.zeros(8)),
)

# Infinities, for `jax_debug_infs`. The second set of programs raises no error.

ONES, INF = np.ones(8, F), F(np.inf)
INFINITE = {}


def inverse(x):
    return jnp.float32(1) / x * 2


def add_infinite(raises, own=False, /, **programs):
    for name, fun in programs.items():
        INFINITE[name] = fun, raises
        if not own:
            CASES.add(f"inf_{name}", functools.partial(outcome, fun, jax.debug_infs))


add_infinite(
    True,
    eager=lambda: jnp.log(jnp.float32(0)),
    overflow=lambda: jnp.exp(jnp.float32(100)),
    narrow=lambda: jnp.float32(1e6).astype(jnp.float16),
    complex=lambda: lax.complex(ZERO, ZERO + INF),
    jit=lambda: jax.jit(inverse)(ZERO),
    jit_nested=lambda: jax.jit(lambda x: jax.jit(inverse)(x) + 1)(ZERO),
    jit_sharded=lambda: jax.jit(inverse)(put(ZEROS)),
    pmap=lambda: jax.pmap(inverse)(ZEROS),
    pmap_donated=lambda: jax.pmap(inverse, donate_argnums=0)(jnp.zeros(8)),
    shard_map=lambda: sharded(inverse)(ZEROS),
    jit_of_shard_map=lambda: jax.jit(sharded(inverse))(ZEROS),
    vmap=lambda: jax.vmap(inverse)(ZEROS),
    scan=lambda: lax.scan(lambda c, x: (c + inverse(x), c), ZERO, ZEROS),
    while_loop=lambda: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, inverse(ZERO * c[0])), (0, ZERO)
    ),
    cond_in_jit=lambda: jax.jit(lambda p, x: lax.cond(p, inverse, lambda x: x, x))(True, ZERO),
    checkpoint=lambda: jax.checkpoint(inverse)(ZERO),
    grad=lambda: jax.grad(jnp.sqrt)(ZERO),
    jit_of_grad=lambda: jax.jit(jax.grad(jnp.sqrt))(ZERO),
    argument=lambda: jax.jit(lambda x: x + 1)(INF),
    pure_callback=lambda: jax.pure_callback(lambda: INF, S((), F)),
    disabled_jit=lambda: (jax.disable_jit()(lambda: 0), jax.jit(inverse)(ZERO))[1],
    asarray=lambda: jnp.asarray(np.full(3, INF)),
)
# The reference finds that the array to run the program again with is deleted.
add_infinite(True, True, donated=lambda: jax.jit(inverse, donate_argnums=0)(jnp.zeros(8)))
add_infinite(
    False,
    nan=lambda: jnp.log(jnp.float32(-1)),
    only_inside=lambda: jax.jit(lambda x: jnp.where(True, x, inverse(x)))(ZERO),
    tested=lambda: jnp.isinf(np.full(3, INF)),
    largest=lambda: jnp.asarray(np.finfo(F).max),
    integers=lambda: jnp.asarray(np.iinfo(np.int32).max) + 1,
    device_put=lambda: jax.device_put(np.full(3, INF)),
)
