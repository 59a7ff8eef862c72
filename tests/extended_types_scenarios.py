"""Extended types (keys, types with tangents of their own) and float0 in all transformations."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax, random
from jax._src import core, dtypes

CASES = Programs()
convert = lax.convert_element_type


class Representation:
    """How arrays of an extended type are made of numbers (`up`), and numbers of them (`lo`)."""

    def __init__(self, name, data, up, lo):
        self.name, self.data, self.up, self.lo = name, data, up, lo

    def at(self, value):
        """The same, where the array is `value`."""
        return Representation(self.name, self.data, lambda _: value, self.lo)


def _represented(name, primal, tangent):
    extended = dtypes.primal_tangent_dtype(np.dtype(primal), np.dtype(tangent), name)
    up, lo = (lambda x: convert(x, extended)), (lambda y: convert(y, primal))
    return Representation(name, np.arange(6).astype(primal), up, lo)


KEYS = Representation(
    "keys", np.arange(12, dtype=np.uint32).reshape(6, 2), random.wrap_key_data, random.key_data
)
FIXED = _represented("fixed", "int8", "float32")
FLOAT = _represented("float", "float32", "bfloat16")
TYPES = (KEYS, FIXED, FLOAT)

# ---------------------------------------------------------------------------------------------------
# Programs of one array


def tangent_of(x):
    """A tangent of `x`: ones, or zeros of float0."""
    aval = core.typeof(x).to_tangent_aval()
    if aval.dtype == jax.dtypes.float0:
        return np.zeros(aval.shape, aval.dtype)
    return jnp.ones(aval.shape, aval.dtype)


def modes(fun, t, x):
    """The results of `fun`, its derivatives by the data and by the extended array, and batched."""
    y = t.up(x)
    by_array = lambda k: fun(t.at(k), x)
    out, pullback = jax.vjp(by_array, y)
    out2, data_pullback = jax.vjp(lambda x: fun(t, x), x)
    return dict(
        value=fun(t, x),
        jvp=jax.jvp(lambda x: fun(t, x), (x,), (tangent_of(x),)),
        vjp=data_pullback(jax.tree.map(tangent_of, out2)),
        array_jvp=jax.jvp(by_array, (y,), (tangent_of(y),)),
        array_vjp=pullback(jax.tree.map(tangent_of, out)),
        remat=jax.vjp(jax.checkpoint(by_array), y)[1](jax.tree.map(tangent_of, out)),
        linear=jax.linearize(by_array, y)[1](tangent_of(y)),
        vmap=jax.vmap(lambda x: fun(t, x))(jnp.stack([x, x[::-1]])),
    )


def shown(tree):
    return jax.tree.map(lambda x: f"float0 {x.shape}" if x.dtype == jax.dtypes.float0 else x, tree)


def program(fun, but=()):
    """A scenario for each type: all modes in one compiled program."""
    for t in TYPES:
        if t.name not in but:
            CASES.add(f"{fun.__name__}_{t.name}", functools.partial(_run, fun, t))
    return fun


def _run(fun, t):
    return shown(jax.jit(functools.partial(modes, fun, t))(jnp.asarray(t.data)))


def on_array(name, fun, but=()):
    """A program that is one function of the extended array."""

    def run(t, x):
        return jax.tree.map(t.lo, fun(t.up(x)))

    run.__name__ = name
    program(run, but)


MASK = np.array([1, 0, 1, 0, 1, 0], bool)
on_array("identity", lambda k: k)
on_array("scan_carry", lambda k: lax.scan(lambda c, _: (c, None), k, None, length=3)[0])
on_array("scan_xs", lambda k: lax.scan(lambda c, y: (y, c), k[0], k), but=("fixed",))
on_array("scan_unrolled", lambda k: lax.scan(lambda c, y: (y, c), k[0], k, unroll=2)[1])
on_array("fori", lambda k: lax.fori_loop(0, 4, lambda i, c: c.at[i].set(c[i + 1]), k))
on_array("map", lambda k: lax.map(lambda y: y, k))
on_array("map_batches", lambda k: lax.map(lambda y: y, k, batch_size=2))
on_array("vmap", lambda k: jax.vmap(lambda y: y, out_axes=1)(k.reshape(3, 2)))
on_array(
    "vmap_scan",
    lambda k: jax.vmap(lambda y: lax.scan(lambda c, _: (c, c), y, None, length=2)[1])(k),
)
on_array(
    "vmap_cond",
    lambda k: jax.vmap(lambda y, p: lax.cond(p, lambda y: y[0], lambda y: y[1], y))(
        k.reshape(3, 2), np.array([True, False, True])
    ),
)
on_array("jit", jax.jit(lambda k: k[::-1]))
on_array("checkpoint", jax.checkpoint(lambda k: k[::-1]))
on_array("associative_scan", lambda k: lax.associative_scan(lambda a, b: b, k))
on_array("where", lambda k: jnp.where(MASK, k, k[::-1]))
on_array("where_scalar", lambda k: jnp.where(True, k, k[0]))
on_array("select_n", lambda k: lax.select_n(MASK, k, k[::-1]))
on_array("stack", lambda k: jnp.stack([k, k], 1))
on_array("concatenate", lambda k: jnp.concatenate([k, k]))
on_array("dynamic_update", lambda k: lax.dynamic_update_slice(k, k[:2], (3,)))
on_array("gather", lambda k: k[np.array([0, 5])])
on_array("scatter", lambda k: k.at[np.array([0, 5])].set(k[1]))
on_array("broadcast", lambda k: jnp.broadcast_to(k, (2, 6)))
on_array("transpose", lambda k: k.reshape(2, 3).T)
on_array("expand", lambda k: jnp.expand_dims(k, 1).squeeze(1))
on_array("reverse", lambda k: lax.rev(k, (0,)))
on_array("repeat", lambda k: jnp.repeat(jnp.tile(k, 2), 2))
on_array("split", lambda k: jnp.split(k, 3))
on_array("barrier", lax.optimization_barrier)
on_array("stop_gradient", lax.stop_gradient)
on_array("copy", jnp.copy)


@program
def scan_ys(t, x):
    return t.lo(lax.scan(lambda c, k: (c + 1, k), 0, t.up(x))[1])


@program
def scan_constant(t, x):
    k = t.up(x)
    return lax.scan(lambda c, i: (c + 1, t.lo(k[i])), 0, jnp.arange(3))[1]


@functools.partial(program, but=("fixed",))
def scan_of_numbers_and_keys(t, x):
    body = lambda c, k: ((c[0] + 1.0, k), (t.lo(c[1]), k))
    (a, b), (p, q) = lax.scan(body, (x.astype("float32").sum(), t.up(x)[1]), t.up(x), reverse=True)
    return a, t.lo(b), p, t.lo(q)


@program
def cond(t, x):
    return t.lo(lax.cond(x.astype("float32").sum() > 1, lambda k: k[:2], lambda k: k[1:3], t.up(x)))


@program
def cond_closed_over(t, x):
    k = t.up(x)
    return t.lo(lax.cond(x.astype("float32").sum() > 1, lambda: k[:2], lambda: k[1:3]))


@program
def switch(t, x):
    branches = [lambda k: k, lambda k: k[::-1], lambda k: jnp.roll(k, 1)]
    return t.lo(lax.switch(x.astype("int32").sum() % 3, branches, t.up(x)))


@program
def checkpointed_conversion(t, x):
    policy = jax.checkpoint_policies.nothing_saveable
    return jax.checkpoint(lambda x: t.lo(t.up(x)[::-1]) * 2, policy=policy)(x)


@program
def custom_jvp(t, x):
    @jax.custom_jvp
    def f(k, y):
        return y * 2.0

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[1] * 3.0))
    return f(t.up(x), x.astype("float32"))


@program
def custom_jvp_out(t, x):
    @jax.custom_jvp
    def f(y):
        return t.up(y)

    f.defjvp(lambda primals, _: (f(*primals), tangent_of(f(*primals))))
    return t.lo(f(x))


@program
def custom_jvp_identity(t, x):
    f = jax.custom_jvp(lambda k: k)
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    return t.lo(f(t.up(x)))


@program
def custom_vjp(t, x):
    @jax.custom_vjp
    def f(k, y):
        return y * 2.0

    f.defvjp(lambda k, y: (f(k, y), k), lambda k, g: (tangent_of(k), g * 5))
    return f(t.up(x), x.astype("float32"))


@program
def custom_vjp_none(t, x):
    @jax.custom_vjp
    def f(k, y):
        return y * 2.0

    f.defvjp(lambda k, y: (f(k, y), k), lambda k, g: (None, g * 5))
    return f(t.up(x), x.astype("float32"))


@functools.partial(program, but=("fixed",))
def custom_vjp_identity(t, x):
    f = jax.custom_vjp(lambda k: k)
    f.defvjp(lambda k: (k, k), lambda k, g: (g,))
    return t.lo(f(t.up(x)))


@program
def custom_vjp_in_scan(t, x):
    @jax.custom_vjp
    def f(k, y):
        return k, y * 2.0

    f.defvjp(lambda k, y: (f(k, y), k), lambda k, g: (g[0], g[1] * 5))

    def body(c, k):
        k2, y = f(k, c)
        return y, k2

    y, ks = lax.scan(body, x.astype("float32").ravel()[0], t.up(x))
    return y, t.lo(ks)


@program
def ref(t, x):
    r = jax.new_ref(t.up(x))
    r[0] = r[1]
    r[2:4] = r[3:5]
    return t.lo(r[...])


@functools.partial(program, but=("keys", "fixed"))
def ref_in_scan(t, x):
    r = jax.new_ref(t.up(x))

    def body(c, i):
        r[i] = c
        return r[i + 1], None

    c, _ = lax.scan(body, r[5], jnp.arange(4))
    return t.lo(c), t.lo(r[...])


@program
def equal(t, x):
    return t.up(x) == t.up(x)[::-1], t.up(x) != t.up(x)


# ---------------------------------------------------------------------------------------------------
# Conversions

F32_BF16 = dtypes.primal_tangent_dtype(np.dtype("float32"), np.dtype("bfloat16"))
I8_F32 = dtypes.primal_tangent_dtype("int8", "float32")


class PairRules:
    allow_conversion = True

    @staticmethod
    def physical_element_aval(_):
        return core.ShapedArray((2,), np.dtype("float32"))

    @staticmethod
    def tangent_dtype(_):
        return np.dtype("float32")


class Pair(dtypes.ExtendedDType):
    _rules = PairRules
    type = jax.dtypes.extended
    name = "pair"

    def __repr__(self):
        return "pair"


PAIR = Pair()
KEY_TYPE = random.key(0).dtype
x3 = np.arange(3, dtype=np.float32)
x32 = np.zeros((3, 2), np.float32)
up = lambda x: convert(x, F32_BF16)


def text(name, fun, *args):
    """A scenario of a printed jaxpr."""
    CASES.add(f"jaxpr_{name}", lambda: str(jax.make_jaxpr(fun)(*args)))


text("there_and_back", lambda x: convert(up(x), "float32"), x3)
text("astype", lambda x: jnp.astype(x, F32_BF16).astype("float32"), x3)
text("method_astype", lambda x: x.astype(F32_BF16), x3)
text("asarray", lambda x: jnp.asarray(x, F32_BF16), x3)
text("same", lambda x: convert(up(x), F32_BF16), x3)
text("scalar", lambda: up(1.0))
text("weak", up, 1.0)
text("integer", up, 1)
text("other_extended", lambda x: convert(up(x), I8_F32), x3)
text("not_its_representation", lambda x: convert(up(x), "int32"), x3)
text("jvp", lambda x, t: jax.jvp(up, (x,), (t,)), x3, x3)
text(
    "jvp_there_and_back",
    lambda x, t: jax.jvp(lambda x: convert(up(x), "float32"), (x,), (t,)),
    x3,
    x3,
)
text("vjp", lambda x, ct: jax.vjp(up, x)[1](ct), x3, x3.astype(jnp.bfloat16))
text("vjp_of_another_type", lambda x, ct: jax.vjp(up, x)[1](ct), x3, x3)
text("grad", jax.grad(lambda x: convert(up(x), "float32").sum()), x3)
text("vmap", jax.vmap(up), x3)
text("slice", lambda x: up(x)[0], x3)
text("pad", lambda x: lax.pad(up(x), up(x)[0], [(1, 1, 0)]), x3)
text("struct", lambda y: convert(y, "float32"), jax.ShapeDtypeStruct((3,), F32_BF16))
text("add", lambda x: up(x) + up(x), x3)
text("negative", lambda x: -up(x), x3)
text("lt", lambda x: lax.lt(up(x), up(x)), x3)
text("bitcast", lambda x: lax.bitcast_convert_type(x, F32_BF16), x3)
text("view", lambda x: x.view(F32_BF16), x3)
text("zeros_like", lambda x: jnp.zeros_like(up(x)), x3)
text("pair", lambda x: convert(convert(x, PAIR), "float32"), x32)
text("pair_vmap", jax.vmap(lambda x: convert(x, PAIR)), x32)
text("pair_of_three", lambda x: convert(x, PAIR), np.zeros((3, 3), np.float32))
text("pair_of_scalar", lambda x: convert(x, PAIR), 1.0)
text("pair_to_key", lambda x: convert(convert(x, PAIR), KEY_TYPE), x32)
text("pair_tangent", lambda x: jax.jvp(lambda x: (x, convert(x32, PAIR)), (x,), (x,)), x32)
text("key", lambda x: convert(x, KEY_TYPE), np.zeros((3, 2), np.uint32))
text("of_key", lambda k: convert(k, "uint32"), random.key(0))
CASES.add("compared", lambda: jax.jit(lambda x: up(x) == up(x))(x3))
CASES.add(
    "names",
    lambda: [
        str(dtypes.primal_tangent_dtype("int8", "float32", "fixed8")),
        str(I8_F32),
        str(I8_F32 == dtypes.primal_tangent_dtype("int8", "float32")),
        str(core.primal_dtype_to_tangent_dtype(I8_F32)),
        str(jnp.issubdtype(I8_F32, jax.dtypes.extended)),
    ],
)
CASES.add("of_extended", lambda: dtypes.primal_tangent_dtype(I8_F32, "float32"))
CASES.add("tangent_of_keys", lambda: dtypes.primal_tangent_dtype("float32", KEY_TYPE))

# ---------------------------------------------------------------------------------------------------
# float0

Z = np.zeros(3, jax.dtypes.float0)
Z0 = np.zeros((), jax.dtypes.float0)


def outcome(fun, *args):
    """The types of the results, or the class of the exception."""
    try:
        out = fun(*args)
    except Exception as err:
        return type(err).__name__
    return [
        f"{'float0' if x.dtype == jax.dtypes.float0 else x.dtype} {x.shape}"
        for x in jax.tree.leaves(out)
    ]


def each(name, functions, *operands):
    """A scenario: the outcome of each function, as it is and compiled."""

    def run():
        return {
            n: [outcome(fun, *args) for args in operands]
            + [outcome(jax.jit(fun), *args) for args in operands]
            for n, fun in functions.items()
        }

    CASES.add(f"float0_{name}", run)


of = lambda module, names: {n: getattr(module, n) for n in names.split()}
each(
    "lax_binary",
    of(
        lax,
        "add sub mul div rem max min pow atan2 nextafter bitwise_and bitwise_or bitwise_xor shift_left "
        "lt le gt ge eq ne complex",
    ),
    (Z, Z),
    (Z, x3),
    (x3, Z),
)
each(
    "lax_unary",
    of(
        lax,
        "neg sign floor ceil round exp log sin cos tanh sqrt rsqrt abs is_finite bitwise_not erf lgamma "
        "digamma real imag conj square reciprocal population_count clz expm1 log1p cbrt logistic "
        "stop_gradient sort",
    ),
    (Z,),
    (Z0,),
)
each(
    "numpy_binary",
    of(
        jnp,
        "add subtract multiply divide floor_divide mod power float_power maximum minimum arctan2 hypot "
        "logaddexp copysign nextafter equal not_equal less greater_equal logical_and logical_xor "
        "bitwise_and left_shift divmod isclose",
    ),
    (Z, Z),
    (Z, x3),
    (x3, Z),
    (Z, 1),
)
each(
    "numpy_unary",
    of(
        jnp,
        "abs negative positive sign floor ceil rint trunc exp log sin tanh sqrt square reciprocal isnan "
        "logical_not invert conj real imag sinc nan_to_num sum mean prod max min any all cumsum var std "
        "ravel transpose flip copy asarray zeros_like ones_like "
        "atleast_2d sort argsort",
    ),
    (Z,),
)
MOVES = dict(
    where=lambda z: jnp.where(MASK[:3], z, z),
    where_scalar=lambda z: jnp.where(MASK[:3], z, Z0),
    select=lambda z: lax.select(MASK[:3], z, z),
    jnp_select=lambda z: jnp.select([MASK[:3]], [z], z),
    broadcast=lambda z: jnp.broadcast_to(z, (2, 3)),
    reshape=lambda z: jnp.reshape(z, (3, 1)),
    concatenate=lambda z: jnp.concatenate([z, z]),
    stack=lambda z: jnp.stack([z, z]),
    pad=lambda z: lax.pad(z, Z0, [(1, 1, 0)]),
    reverse=lambda z: lax.rev(z, (0,)),
    take=lambda z: lax.dynamic_slice(z, (0,), (2,)),
    update=lambda z: lax.dynamic_update_slice(z, z[:1], (0,)),
    full_like=lambda z: lax.full_like(z, 0),
    top_k=lambda z: lax.top_k(z, 1),
    scan_carry=lambda z: lax.scan(lambda c, _: (c, c), z, None, length=2),
    cond=lambda z: lax.cond(True, lambda z: z, lambda z: z, z),
    loop=lambda z: lax.fori_loop(0, 3, lambda i, c: c, z),
    vmap=jax.vmap(lambda z: z),
    vmap_add=jax.vmap(lambda z: z + 1),
    checkpoint=jax.checkpoint(lambda z: z),
    ref=lambda z: jax.new_ref(z)[...],
    barrier=lax.optimization_barrier,
    convert=lambda z: convert(z, "float32"),
    bitcast=lambda z: lax.bitcast_convert_type(z, "int8"),
    psum=lambda z: jax.vmap(lambda z: lax.psum(z, "i"), axis_name="i")(z),
    conv=lambda z: jnp.convolve(z, z),
    step=lambda z: x3 - 0.1 * z,
    gradient=jax.grad(lambda z: 1.0, allow_int=True),
    jvp=lambda z: jax.jvp(lambda z: z, (z,), (z,)),
    vjp=lambda z: jax.vjp(lambda z: z, z)[1](z),
)
each("moves", MOVES, (Z,))
