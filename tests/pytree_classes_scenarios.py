"""Scenarios of pytree classes whose constructors look at their children: see op_cases.py.

Their constructors need arrays, tracers or types; a placeholder in a child's place is an error. The names of
scenarios are the constructor's and the program's.
"""

import contextlib
import dataclasses
import functools

import numpy as np
from op_cases import Programs

import jax
import jax.ad_checkpoint
import jax.custom_batching
import jax.experimental
import jax.flatten_util
import jax.numpy as jnp
import jax.test_util
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

CASES = Programs()
F = np.float32
jtu = jax.tree_util
v3 = np.array([0.3, -1.2, 2.1], F)
w3 = np.array([1.5, 0.5, -0.7], F)
m23 = np.arange(6, dtype=F).reshape(2, 3) / 4 - 0.5
n23 = m23 + 1


# Constructors


class ByShape:
    """Takes its children's shapes."""

    def __init__(self, a, b):
        self.a, self.b = a, b
        self.shapes = (a.shape, b.shape)


class ByRank:
    """Compares its children's ranks."""

    def __init__(self, a, b):
        assert a.ndim == b.ndim and a.dtype == b.dtype
        self.a, self.b = a, b


class Converting:
    """Makes its children arrays."""

    def __init__(self, a, b):
        self.a, self.b = jnp.asarray(a), jnp.asarray(b)


class Computing:
    """Applies operations to its children."""

    def __init__(self, a, b):
        self.a, self.b = a, b
        self.total = jnp.sum(a) + jnp.sum(b)


class Checking:
    """Takes arrays and types alone."""

    def __init__(self, a, b):
        types = (jax.Array, np.ndarray, jax.core.ShapedArray, jax.ShapeDtypeStruct)
        for x in (a, b):
            if not isinstance(x, types):
                raise TypeError(f"an array, not {type(x)}")
        self.a, self.b = a, b


def register(cls):
    jtu.register_pytree_node(cls, lambda p: ((p.a, p.b), None), lambda _, xs: cls(*xs))
    return cls


def register_with_keys(cls):
    keyed = type("Keyed" + cls.__name__, (cls,), {})
    jtu.register_pytree_with_keys(
        keyed,
        lambda p: (((jtu.GetAttrKey("a"), p.a), (jtu.GetAttrKey("b"), p.b)), None),
        lambda _, xs: keyed(*xs),
    )
    return keyed


@jtu.register_dataclass
@dataclasses.dataclass
class Data:
    """A dataclass that checks what it gets."""

    a: jax.Array
    b: jax.Array

    def __post_init__(self):
        assert self.a.shape == self.b.shape


class Nested:
    """Has a pair of these classes and an array as children."""

    def __init__(self, pair, b):
        self.pair, self.b = pair, b
        self.shapes = (pair.a.shape, pair.b.shape, b.shape)

    @property
    def a(self):
        return self.pair.a


jtu.register_pytree_node(Nested, lambda p: ((p.pair, p.b), None), lambda _, xs: Nested(*xs))
KINDS = {
    cls.__name__: cls
    for cls in (
        register(ByShape),
        register(ByRank),
        register(Converting),
        register(Computing),
        register(Checking),
    )
}
KINDS |= {
    "KeyedByShape": register_with_keys(ByShape),
    "KeyedConverting": register_with_keys(Converting),
}
KINDS |= {"Data": Data, "Nested": lambda a, b: Nested(ByShape(a, b), b)}


# Programs: functions of a constructor

PROGRAMS = {}


def program(fun):
    PROGRAMS[fun.__name__.strip("_")] = fun
    return fun


def add(prefix, **programs):
    PROGRAMS.update({f"{prefix}_{name}": fun for name, fun in programs.items()})


def plus(p):
    """The same class with other values."""
    return jax.tree.map(lambda x: jnp.sin(x) + 1, p)


def dot(p):
    return jnp.sum(p.a * p.b)


one = lambda cls: cls(v3, w3)
rows = lambda cls: cls(m23, n23)
paths = lambda tree: "\n".join(jtu.keystr(p) for p, _ in jtu.tree_leaves_with_path(tree))


def names(jaxpr):
    info = jaxpr.jaxpr.debug_info
    return f"{info.arg_names} {info.result_paths}"


def error(fun, *args):
    """The class of what is raised."""
    try:
        fun(*args)
    except Exception as err:
        return type(err).__name__
    return "nothing"


add(
    "jit",
    call=lambda cls: jax.jit(plus)(one(cls)),
    twice=lambda cls: (lambda f: (f(one(cls)), f(one(cls))))(jax.jit(plus)),
    nested=lambda cls: jax.jit(lambda p: jax.jit(plus)(jax.jit(plus)(p)))(one(cls)),
    keyword=lambda cls: jax.jit(lambda x, *, p: plus(p))(1.0, p=one(cls)),
    static=lambda cls: jax.jit(lambda n, p: jax.tree.map(lambda x: x * n, p), static_argnums=0)(3, one(cls)),
    static_name=lambda cls: jax.jit(lambda p, n: plus(p), static_argnames="n")(one(cls), n=3),
    donate=lambda cls: jax.jit(plus, donate_argnums=0)(jax.tree.map(jnp.array, one(cls))),
    donate_name=lambda cls: jax.jit(plus, donate_argnames="p")(p=jax.tree.map(jnp.array, one(cls))),
    keep_unused=lambda cls: jax.jit(lambda p, q: plus(p), keep_unused=True)(one(cls), one(cls)),
    inline=lambda cls: jax.jit(lambda p: jax.jit(plus, inline=True)(p))(one(cls)),
    closure=lambda cls: (lambda p: jax.jit(lambda: plus(p))())(one(cls)),
    nested_closure=lambda cls: jax.jit(lambda p: jax.jit(lambda: plus(p))())(one(cls)),
    in_dict=lambda cls: jax.jit(lambda d: {"r": [plus(d["x"]), d["y"]]})({"x": one(cls), "y": v3}),
    device=lambda cls: jax.jit(plus, device=jax.devices()[0])(one(cls)),
    disabled=lambda cls: disabled(lambda: jax.jit(plus)(one(cls))),
    make_jaxpr=lambda cls: str(jax.make_jaxpr(plus)(one(cls))),
    make_jaxpr_shape=lambda cls: paths(jax.make_jaxpr(plus, return_shape=True)(one(cls))[1]),
    make_jaxpr_nested=lambda cls: str(jax.make_jaxpr(jax.jit(plus))(one(cls))),
    names=lambda cls: names(jax.make_jaxpr(lambda p, q=None: {"r": plus(p)})(one(cls))),
    names_jit=lambda cls: names(jax.jit(lambda d, *r: plus(r[0])).trace({"k": one(cls)}, one(cls)).jaxpr),
    eval_shape=lambda cls: paths(jax.eval_shape(plus, one(cls))),
    eval_shape_structs=lambda cls: paths(jax.eval_shape(plus, jax.eval_shape(lambda: one(cls)))),
    bad_leaf=lambda cls: error(jax.jit(lambda p, x: plus(p)), one(cls), object()),
    no_positional=lambda cls: error(jax.jit(lambda p: p), one(cls), one(cls)),
)  # fmt: skip


@contextlib.contextmanager
def no_jit():
    with jax.disable_jit():
        yield


def disabled(fun):
    with no_jit():
        return fun()


def mesh():
    return Mesh(np.array(jax.devices()[:1]), ("x",))


def sharding(*spec):
    return NamedSharding(mesh(), PartitionSpec(*spec))


add(
    "shardings",
    out=lambda cls: jax.jit(plus, out_shardings=sharding())(one(cls)),
    out_tuple=lambda cls: jax.jit(lambda p: (plus(p), 1.0), out_shardings=(sharding(), None))(one(cls)),
    out_dict=lambda cls: jax.jit(lambda p: {"r": p}, out_shardings={"r": sharding()})(one(cls)),
    out_none=lambda cls: jax.jit(plus, out_shardings=None)(one(cls)),
    out_mismatch=lambda cls: error(jax.jit(plus, out_shardings=(sharding(), sharding())), one(cls)),
    in_=lambda cls: jax.jit(plus, in_shardings=sharding())(one(cls)),
    in_tuple=lambda cls: jax.jit(lambda p, x: plus(p), in_shardings=(sharding(), None))(one(cls), 1.0),
    in_dict=lambda cls: jax.jit(lambda d: plus(d["p"]), in_shardings=({"p": sharding()},))({"p": one(cls)}),
    in_mismatch=lambda cls: error(jax.jit(plus, in_shardings=((sharding(), sharding()),)), one(cls)),
    both_donated=lambda cls: jax.jit(
        plus, in_shardings=(sharding(),), out_shardings=sharding(), donate_argnums=0
    )(jax.tree.map(jnp.array, one(cls))),
    constraint=lambda cls: jax.jit(lambda p: lax.with_sharding_constraint(p, sharding()))(one(cls)),
    constraint_dict=lambda cls: jax.jit(
        lambda p: lax.with_sharding_constraint({"p": p}, {"p": sharding()})
    )(one(cls)),
    constraint_eager=lambda cls: lax.with_sharding_constraint(one(cls), sharding()),
    device_put=lambda cls: jax.device_put(one(cls)),
    device_put_device=lambda cls: jax.device_put(one(cls), jax.devices()[0]),
    device_put_prefix=lambda cls: jax.device_put({"p": one(cls), "x": v3}, {"p": sharding(), "x": None}),
    device_put_jit=lambda cls: jax.jit(lambda p: jax.device_put(p, sharding()))(one(cls)),
    device_get=lambda cls: jax.device_get(jax.device_put(one(cls))),
    device_put_mismatch=lambda cls: error(jax.device_put, one(cls), (sharding(), sharding())),
    block=lambda cls: jax.block_until_ready(jax.device_put(one(cls))),
    copy_async=lambda cls: jax.copy_to_host_async(jax.device_put(one(cls))),
)  # fmt: skip


@functools.cache
def stages(make, cls):
    traced = jax.jit(make, donate_argnums=1).trace(one(cls), one(cls))
    return traced, traced.lower(), traced.lower().compile()


both = lambda p, q: {"r": plus(p)}
for i, stage in enumerate(("traced", "lowered", "compiled")):
    get = lambda cls, i=i: stages(both, cls)[i]
    add(
        stage,
        args_info=lambda cls, get=get: paths(get(cls).args_info),
        donated=lambda cls, get=get: str(get(cls).donate_argnums),
        in_tree=lambda cls, get=get: str(get(cls).in_tree.num_leaves),
        in_avals=lambda cls, get=get: paths(get(cls).in_avals),
        out_tree=lambda cls, get=get: str(get(cls).out_tree.num_leaves),
        out_info=lambda cls, get=get: paths(get(cls).out_info),
        out_info_struct=lambda cls, get=get: str(jax.tree.leaves(get(cls).out_info)[0].shape),
    )
add(
    "compiled",
    call=lambda cls: stages(both, cls)[2](one(cls), jax.tree.map(jnp.array, one(cls))),
    call_mismatch=lambda cls: error(stages(both, cls)[2], one(cls), (v3, w3)),
    call_types=lambda cls: error(stages(both, cls)[2], one(cls), rows(cls)),
    text=lambda cls: str(len(stages(both, cls)[1].as_text()) > 0),
    input_shardings=lambda cls: str(len(jax.tree.leaves(stages(both, cls)[2].input_shardings))),
    output_shardings=lambda cls: str(len(jax.tree.leaves(stages(both, cls)[2].output_shardings))),
    input_formats=lambda cls: str(len(jax.tree.leaves(stages(both, cls)[2].input_formats))),
    structs=lambda cls: str(
        jax.jit(plus).lower(jax.eval_shape(lambda: one(cls))).compile()(one(cls)).a
    ),
)
add(
    "vmap",
    call=lambda cls: jax.vmap(plus)(rows(cls)),
    in_prefix=lambda cls: jax.vmap(lambda p, x: plus(p), in_axes=(0, None))(rows(cls), 1.0),
    in_dict=lambda cls: jax.vmap(lambda d: plus(d["p"]), in_axes=({"p": 0, "x": None},))({"p": rows(cls), "x": 1.0}),
    in_axis1=lambda cls: jax.vmap(plus, in_axes=1)(rows(cls)),
    in_negative=lambda cls: jax.vmap(plus, in_axes=-1)(rows(cls)),
    out_axis1=lambda cls: jax.vmap(plus, out_axes=1)(rows(cls)),
    out_prefix=lambda cls: jax.vmap(lambda p: (plus(p), p), out_axes=(0, 1))(rows(cls)),
    out_dict=lambda cls: jax.vmap(lambda p: {"r": plus(p), "s": 1.0}, out_axes={"r": -1, "s": None})(rows(cls)),
    keyword=lambda cls: jax.vmap(lambda x, p: plus(p))(m23, p=rows(cls)),
    unmapped=lambda cls: jax.vmap(lambda p, x: jax.tree.map(lambda y: x * y, p), (None, 0))(one(cls), v3),
    out_none=lambda cls: jax.vmap(lambda p, x: p, (None, 0), None)(one(cls), v3),
    jit=lambda cls: jax.jit(jax.vmap(plus))(rows(cls)),
    of_jit=lambda cls: jax.vmap(jax.jit(plus))(rows(cls)),
    nested=lambda cls: jax.vmap(jax.vmap(dot))(jax.tree.map(lambda x: jnp.stack([x, x]), rows(cls))),
    axis_name=lambda cls: jax.vmap(lambda p: lax.psum(p, "i"), axis_name="i")(rows(cls)),
    pmean=lambda cls: jax.vmap(lambda p: lax.pmean(p, "i"), axis_name="i")(rows(cls)),
    all_gather=lambda cls: jax.vmap(lambda p: lax.all_gather(p, "i"), axis_name="i")(rows(cls)),
    ppermute=lambda cls: jax.vmap(lambda p: lax.ppermute(p, "i", [(0, 1), (1, 0)]), axis_name="i")(rows(cls)),
    vectorize=lambda cls: jnp.vectorize(lambda x: dot(cls(x, x)), signature="(n)->()")(m23),
    bad_in_axes=lambda cls: error(jax.vmap(plus, in_axes=((0, 0),)), rows(cls)),
    bad_out_axes=lambda cls: error(jax.vmap(plus, out_axes=(0, 0)), rows(cls)),
    bad_rank=lambda cls: error(jax.vmap(plus, in_axes=2), rows(cls)),
    bad_sizes=lambda cls: error(jax.vmap(lambda p, q: p), rows(cls), jax.tree.map(jnp.transpose, rows(cls))),
    bad_size_of_array=lambda cls: error(jax.vmap(lambda p, q: p), rows(cls), v3),
    bad_none=lambda cls: error(jax.vmap(plus, out_axes=None), rows(cls)),
)  # fmt: skip
step = lambda c, x: (plus(c), dot(c))
add(
    "scan",
    carry=lambda cls: lax.scan(step, one(cls), None, length=2),
    xs=lambda cls: lax.scan(lambda c, p: (c + dot(p), c), F(0), rows(cls)),
    ys=lambda cls: lax.scan(lambda c, x: (c, cls(x * c, x)), F(2), m23)[1],
    all=lambda cls: lax.scan(lambda c, p: (plus(c), plus(p)), one(cls), rows(cls)),
    closure=lambda cls: (lambda p: lax.scan(lambda c, x: (c + dot(p), None), F(0), v3))(one(cls)),
    unchanged=lambda cls: lax.scan(lambda c, p: (c, p), one(cls), rows(cls)),
    reverse=lambda cls: lax.scan(lambda c, p: (plus(c), dot(p)), one(cls), rows(cls), reverse=True),
    unroll=lambda cls: lax.scan(lambda c, p: (plus(c), dot(p)), one(cls), rows(cls), unroll=2),
    weak=lambda cls: lax.scan(lambda c, x: ((plus(c[0]), c[1] + x), None), (one(cls), 0), v3)[0],
    jit=lambda cls: jax.jit(lambda p: lax.scan(step, p, None, length=2))(one(cls)),
    grad=lambda cls: jax.grad(lambda p: dot(lax.scan(step, p, None, length=2)[0]))(one(cls)),
    vmap=lambda cls: jax.vmap(lambda p: lax.scan(step, p, None, length=2))(rows(cls)),
    jvp=lambda cls: jax.jvp(lambda p: lax.scan(step, p, None, length=2), (one(cls),), (one(cls),)),
    remat=lambda cls: jax.grad(lambda p: dot(lax.scan(jax.checkpoint(step), p, None, length=2)[0]))(one(cls)),
    disabled=lambda cls: disabled(lambda: lax.scan(step, one(cls), v3)),
    disabled_xs=lambda cls: disabled(lambda: lax.scan(lambda c, p: (c, plus(p)), 1.0, rows(cls))),
    bad_tree=lambda cls: error(lambda: lax.scan(lambda c, x: ((c.a, c.b), None), one(cls), v3)),
    bad_tree_in=lambda cls: error(lambda: lax.scan(lambda c, x: ((c[0], c[0]), None), (one(cls), 1.0), v3)),
    bad_type=lambda cls: error(lambda: lax.scan(lambda c, x: (jax.tree.map(jnp.sum, c), None), one(cls), v3)),
    bad_result=lambda cls: error(lambda: lax.scan(lambda c, x: c, one(cls), v3)),
    bad_length=lambda cls: error(lambda: lax.scan(lambda c, x: (c, None), one(cls), rows(cls), length=7)),
    map=lambda cls: lax.map(plus, rows(cls)),
    map_batches=lambda cls: lax.map(plus, rows(cls), batch_size=2),
    map_rest=lambda cls: lax.map(plus, cls(*[np.concatenate([m23, m23])[:3]] * 2), batch_size=2),
    map_result=lambda cls: lax.map(lambda x: cls(x, x), m23),
    associative=lambda cls: lax.associative_scan(lambda p, q: jax.tree.map(jnp.add, p, q), rows(cls)),
    associative_jit=lambda cls: jax.jit(
        lambda p: lax.associative_scan(lambda p, q: jax.tree.map(jnp.add, p, q), p)
    )(rows(cls)),
    associative_reverse=lambda cls: lax.associative_scan(
        lambda p, q: jax.tree.map(jnp.add, p, q), rows(cls), reverse=True, axis=1
    ),
    reduce=lambda cls: lax.reduce(
        cls(m23, n23), cls(np.zeros((), F), np.zeros((), F)), lambda p, q: jax.tree.map(jnp.add, p, q), (1,)
    ),
)  # fmt: skip
state = lambda cls: (0, one(cls))
add(
    "loop",
    while_=lambda cls: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, plus(s[1])), state(cls)),
    while_alone=lambda cls: lax.while_loop(lambda p: dot(p) < 2, plus, one(cls)),
    while_closure=lambda cls: (
        lambda q: lax.while_loop(lambda p: dot(p) < dot(q), lambda p: jax.tree.map(jnp.add, p, plus(q)), one(cls))
    )(plus(one(cls))),
    while_jit=lambda cls: jax.jit(
        lambda p: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, plus(s[1])), (0, p))
    )(one(cls)),
    while_jvp=lambda cls: jax.jvp(
        lambda p: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, plus(s[1])), (0, p))[1],
        (one(cls),), (one(cls),),
    ),
    while_vmap=lambda cls: jax.vmap(lambda p: lax.while_loop(lambda p: dot(p) < 2, plus, p))(rows(cls)),
    while_bad_tree=lambda cls: error(lambda: lax.while_loop(lambda p: True, lambda p: (p.a, p.b), one(cls))),
    while_bad_type=lambda cls: error(
        lambda: lax.while_loop(lambda p: True, lambda p: jax.tree.map(jnp.sum, p), one(cls))
    ),
    while_bad_cond=lambda cls: error(lambda: lax.while_loop(lambda p: p, lambda p: p, one(cls))),
    while_disabled=lambda cls: disabled(
        lambda: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, plus(s[1])), state(cls))
    ),
    fori=lambda cls: lax.fori_loop(0, 2, lambda i, p: plus(p), one(cls)),
    fori_traced=lambda cls: jax.jit(lambda n, p: lax.fori_loop(0, n, lambda i, p: plus(p), p))(2, one(cls)),
    fori_unroll=lambda cls: lax.fori_loop(0, 4, lambda i, p: plus(p), one(cls), unroll=2),
    fori_grad=lambda cls: jax.grad(lambda p: dot(lax.fori_loop(0, 2, lambda i, p: plus(p), p)))(one(cls)),
    fori_bad_tree=lambda cls: error(lambda: lax.fori_loop(0, 2, lambda i, p: (p.a, p.b), one(cls))),
    fori_bad_type=lambda cls: error(lambda: lax.fori_loop(0, 2, lambda i, p: jax.tree.map(jnp.sum, p), one(cls))),
    cond=lambda cls: lax.cond(True, plus, lambda p: p, one(cls)),
    cond_traced=lambda cls: jax.jit(lambda b, p: lax.cond(b, plus, lambda p: p, p))(True, one(cls)),
    cond_closure=lambda cls: jax.jit(lambda b, p: lax.cond(b, lambda: plus(p), lambda: p))(True, one(cls)),
    cond_grad=lambda cls: jax.grad(lambda p: dot(lax.cond(dot(p) > 0, plus, lambda p: p, p)))(one(cls)),
    cond_vmap=lambda cls: jax.vmap(lambda p: lax.cond(dot(p) > 0, plus, lambda p: p, p))(rows(cls)),
    cond_jvp=lambda cls: jax.jvp(
        jax.jit(lambda p: lax.cond(dot(p) > 0, plus, lambda p: p, p)), (one(cls),), (one(cls),)
    ),
    cond_bad_tree=lambda cls: error(lambda: lax.cond(True, plus, lambda p: (p.a, p.b), one(cls))),
    cond_bad_type=lambda cls: error(lambda: lax.cond(True, plus, lambda p: jax.tree.map(jnp.sum, p), one(cls))),
    cond_disabled=lambda cls: disabled(lambda: lax.cond(True, plus, lambda p: p, one(cls))),
    switch=lambda cls: lax.switch(1, [plus, lambda p: p, plus], one(cls)),
    switch_traced=lambda cls: jax.jit(lambda i, p: lax.switch(i, [plus, lambda p: p, plus], p))(2, one(cls)),
    switch_vmap=lambda cls: jax.vmap(lambda i, p: lax.switch(i, [plus, lambda p: p, plus], p))(
        np.array([0, 2]), rows(cls)
    ),
    switch_bad_type=lambda cls: error(
        lambda: lax.switch(1, [plus, lambda p: jax.tree.map(jnp.sum, p), plus], one(cls))
    ),
    select=lambda cls: jax.jit(lambda b, p: jax.tree.map(lambda x, y: jnp.where(b, x, y), p, plus(p)))(True, one(cls)),
    platform=lambda cls: lax.platform_dependent(one(cls), cpu=plus, default=lambda p: p),
)  # fmt: skip
pair_of = lambda cls: ((one(cls),), (one(cls),))
scaled = lambda p: jax.tree.map(lambda x: x * dot(p), p)
aux = lambda p: (dot(p), plus(p))
add(
    "derivatives",
    grad=lambda cls: jax.grad(dot)(one(cls)),
    grad_argnums=lambda cls: jax.grad(lambda x, p: x * dot(p), (0, 1))(F(2), one(cls)),
    grad_aux=lambda cls: jax.grad(aux, has_aux=True)(one(cls)),
    value_and_grad=lambda cls: jax.value_and_grad(dot)(one(cls)),
    value_and_grad_aux=lambda cls: jax.value_and_grad(aux, has_aux=True)(one(cls)),
    grad_unused=lambda cls: jax.grad(lambda p: jnp.sum(p.a))(one(cls)),
    grad_ints=lambda cls: error(jax.grad(dot), cls(np.arange(3), np.arange(3))),
    grad_allow_int=lambda cls: jax.grad(lambda p, x: dot(p) * x, allow_int=True)(
        cls(np.arange(3), np.arange(3)), F(2)
    ),
    grad_not_scalar=lambda cls: error(jax.grad(plus), one(cls)),
    grad_jit=lambda cls: jax.grad(jax.jit(dot))(one(cls)),
    jit_grad=lambda cls: jax.jit(jax.grad(dot))(one(cls)),
    vmap_grad=lambda cls: jax.vmap(jax.grad(dot))(rows(cls)),
    grad_grad=lambda cls: jax.grad(lambda p: dot(jax.grad(dot)(p)))(one(cls)),
    jvp=lambda cls: jax.jvp(scaled, *pair_of(cls)),
    jvp_aux=lambda cls: jax.jvp(aux, *pair_of(cls), has_aux=True),
    jvp_jit=lambda cls: jax.jvp(jax.jit(scaled), *pair_of(cls)),
    jit_jvp=lambda cls: jax.jit(lambda p: jax.jvp(scaled, (p,), (p,)))(one(cls)),
    jvp_unused=lambda cls: jax.jvp(lambda p: cls(p.a, np.zeros(3, F)), *pair_of(cls)),
    jvp_mismatch=lambda cls: error(jax.jvp, dot, (one(cls),), ((v3, w3),)),
    vjp=lambda cls: (lambda out, f: f(out))(*jax.vjp(scaled, one(cls))),
    vjp_aux=lambda cls: (lambda out, f, aux: (f(out), aux))(*jax.vjp(aux, one(cls), has_aux=True)),
    vjp_jit=lambda cls: (lambda out, f: jax.jit(lambda f, ct: f(ct))(f, out))(*jax.vjp(scaled, one(cls))),
    vjp_of_jit=lambda cls: (lambda out, f: f(out))(*jax.vjp(jax.jit(scaled), one(cls))),
    vjp_wrong_tree=lambda cls: error(jax.vjp(scaled, one(cls))[1], (v3, w3)),
    vjp_wrong_shape=lambda cls: error(jax.vjp(scaled, one(cls))[1], rows(cls)),
    linearize=lambda cls: (lambda out, f: (out, f(one(cls))))(*jax.linearize(scaled, one(cls))),
    linearize_jit=lambda cls: (lambda out, f: jax.jit(f)(one(cls)))(*jax.linearize(jax.jit(scaled), one(cls))),
    linearize_wrong_tree=lambda cls: error(jax.linearize(scaled, one(cls))[1], (v3, w3)),
    linear_transpose=lambda cls: jax.linear_transpose(lambda p: jax.tree.map(lambda x: 2 * x, p), one(cls))(one(cls)),
    linear_transpose_wrong=lambda cls: error(jax.linear_transpose(lambda p: p, one(cls)), (v3, w3)),
    linear_call=lambda cls: jax.custom_derivatives.linear_call(
        lambda r, x: jax.tree.map(jnp.multiply, r, x), lambda r, ct: jax.tree.map(jnp.multiply, r, ct), one(cls), one(cls)
    ),
    jacfwd=lambda cls: jax.tree.leaves(jax.jacfwd(dot)(one(cls))),
    jacfwd_from_array=lambda cls: error(jax.jacfwd(lambda x: cls(x, x * x)), v3),
    jacfwd_both=lambda cls: error(jax.jacfwd(plus), one(cls)),
    jacrev=lambda cls: jax.tree.leaves(jax.jacrev(dot)(one(cls))),
    jacrev_to_vector=lambda cls: jax.tree.leaves(jax.jacrev(lambda p: p.a * p.b)(one(cls))),
    jacfwd_to_vector=lambda cls: jax.tree.leaves(jax.jacfwd(lambda p: p.a * p.b)(one(cls))),
    jacrev_from_array=lambda cls: error(jax.jacrev(lambda x: cls(x, x * x)), v3),
    jacrev_both=lambda cls: error(jax.jacrev(plus), one(cls)),
    jacfwd_aux=lambda cls: jax.jacfwd(lambda x: (x * x, cls(x, x)), has_aux=True)(v3),
    jacrev_aux=lambda cls: jax.jacrev(lambda x: (x * x, cls(x, x)), has_aux=True)(v3),
    hessian=lambda cls: error(jax.hessian(dot), one(cls)),
    hessian_closure=lambda cls: jax.hessian(lambda x: dot(cls(x, x * x)))(v3),
    stop_gradient=lambda cls: jax.grad(lambda p: dot(lax.stop_gradient(p)) * dot(p))(one(cls)),
    checkpoint=lambda cls: jax.grad(jax.checkpoint(dot))(one(cls)),
    checkpoint_result=lambda cls: jax.grad(lambda p: dot(jax.checkpoint(plus)(p)))(one(cls)),
    checkpoint_eager=lambda cls: jax.checkpoint(plus)(one(cls)),
    checkpoint_jit=lambda cls: jax.jit(jax.grad(lambda p: dot(jax.checkpoint(plus)(p))))(one(cls)),
    checkpoint_static=lambda cls: jax.grad(
        lambda p: dot(jax.checkpoint(lambda n, p: plus(p), static_argnums=0)(3, p))
    )(one(cls)),
    checkpoint_policy=lambda cls: jax.grad(
        lambda p: dot(jax.checkpoint(plus, policy=jax.checkpoint_policies.everything_saveable)(p))
    )(one(cls)),
    checkpoint_name=lambda cls: jax.ad_checkpoint.checkpoint_name(one(cls), "p"),
    saved_residuals=lambda cls: str(len(jax.ad_checkpoint.saved_residuals(lambda p: dot(plus(p)), one(cls)))),
    closure_convert=lambda cls: jax.closure_convert(lambda p: plus(p), one(cls))[0](one(cls)),
    check_grads=lambda cls: jax.test_util.check_grads(dot, (one(cls),), 1),
    ravel=lambda cls: (lambda flat, un: (flat, un(flat * 2)))(*jax.flatten_util.ravel_pytree(one(cls))),
    fwd_and_bwd=lambda cls: error(lambda: jax.fwd_and_bwd(dot, 0)[0](one(cls))),
)  # fmt: skip


def jvp_fun(nondiff=False):
    if nondiff:
        f = jax.custom_jvp(lambda n, p: plus(p), nondiff_argnums=(0,))
        f.defjvp(lambda n, ps, ts: (plus(*ps), jax.tree.map(lambda t: n * t, *ts)))
    else:
        f = jax.custom_jvp(plus)
        f.defjvp(lambda ps, ts: (f(*ps), jax.tree.map(lambda t: 2 * t, *ts)))
    return f


def jvp_symbolic():
    f = jax.custom_jvp(lambda x, p: plus(p))
    f.defjvp(lambda ps, ts: (f(*ps), ts[1]), symbolic_zeros=True)
    return f


def vjp_fun(nondiff=False, residuals=lambda p: p):
    if nondiff:
        f = jax.custom_vjp(lambda n, p: plus(p), nondiff_argnums=(0,))
        f.defvjp(lambda n, p: (plus(p), p), lambda n, r, ct: (jax.tree.map(lambda x: n * x, ct),))
    else:
        f = jax.custom_vjp(plus)
        f.defvjp(
            lambda p: (plus(p), residuals(p)), lambda r, ct: (jax.tree.map(jnp.multiply, r, ct),)
        )
    return f


def vjp_none():
    f = jax.custom_vjp(lambda x, p: x * dot(p))
    f.defvjp(lambda x, p: (f(x, p), p), lambda r, ct: (ct, None))
    return f


def vmap_fun(cls):
    f = jax.custom_batching.custom_vmap(lambda x: plus(cls(x, x)))
    f.def_vmap(lambda n, batched, x: (jax.vmap(lambda x: plus(cls(x, x)))(x), True))
    return f


def each(prefix, make):
    add(
        prefix,
        call=lambda cls: make(cls)(one(cls)),
        jit=lambda cls: jax.jit(make(cls))(one(cls)),
        grad=lambda cls: jax.grad(lambda p: dot(make(cls)(p)))(one(cls)),
        grad_jit=lambda cls: jax.grad(jax.jit(lambda p: dot(make(cls)(p))))(one(cls)),
        vmap=lambda cls: jax.vmap(make(cls))(rows(cls)),
        vmap_grad=lambda cls: jax.vmap(jax.grad(lambda p: dot(make(cls)(p))))(rows(cls)),
        scan=lambda cls: jax.grad(
            lambda p: dot(lax.scan(lambda c, _: (make(cls)(c), None), p, None, length=2)[0])
        )(one(cls)),
        remat=lambda cls: jax.grad(jax.checkpoint(lambda p: dot(make(cls)(p))))(one(cls)),
    )


each("custom_jvp", lambda cls: jvp_fun())
each("custom_jvp_nondiff", lambda cls: functools.partial(jvp_fun(True), 3))
each("custom_jvp_symbolic", lambda cls: functools.partial(jvp_symbolic(), 3.0))
each("custom_vjp", lambda cls: vjp_fun())
each("custom_vjp_nondiff", lambda cls: functools.partial(vjp_fun(True), 3))
each("custom_vjp_residuals", lambda cls: vjp_fun(residuals=lambda p: cls(p.b, p.a)))
add(
    "custom",
    jvp_jvp=lambda cls: jax.jvp(jvp_fun(), (one(cls),), (one(cls),)),
    jvp_defjvps=lambda cls: error(lambda: jax.jvp(defjvps(), (one(cls),), (one(cls),))),
    jvp_bad_tree=lambda cls: error(lambda: jax.jvp(bad_jvp(lambda p: (p.a, p.b)), (one(cls),), (one(cls),))),
    jvp_bad_shape=lambda cls: error(
        lambda: jax.jvp(bad_jvp(lambda p: jax.tree.map(jnp.sum, p)), (one(cls),), (one(cls),))
    ),
    vjp_none=lambda cls: jax.grad(vjp_none(), 1)(F(2), one(cls)),
    vjp_bad_tree=lambda cls: error(lambda: jax.grad(bad_vjp(lambda p: (p.a, p.b)))(one(cls))),
    vjp_bad_shape=lambda cls: error(lambda: jax.grad(bad_vjp(lambda p: jax.tree.map(jnp.sum, p)))(one(cls))),
    vjp_bad_fwd=lambda cls: error(lambda: jax.grad(bad_fwd())(one(cls))),
    gradient=lambda cls: jax.grad(
        jax.custom_gradient(lambda p: (dot(p), lambda g: jax.tree.map(lambda x: g * x, p)))
    )(one(cls)),
    vmap_call=lambda cls: vmap_fun(cls)(v3),
    vmap_vmap=lambda cls: error(lambda: jax.vmap(vmap_fun(cls))(m23)),
    sequential_vmap=lambda cls: error(lambda: jax.vmap(jax.custom_batching.sequential_vmap(plus))(rows(cls))),
    root=lambda cls: lax.custom_root(
        lambda p: jax.tree.map(lambda x: x - 1, p), one(cls),
        lambda f, p: jax.tree.map(lambda x, y: x - y, p, f(p)), lambda g, y: y,
    ),
    linear_solve=lambda cls: lax.custom_linear_solve(
        lambda p: jax.tree.map(lambda x: 2 * x, p), one(cls), lambda mv, b: jax.tree.map(lambda x: x / 2, b),
        symmetric=True,
    ),
)  # fmt: skip


def defjvps():
    f = jax.custom_jvp(plus)
    f.defjvps(lambda t, ans, p: t)
    return f


def bad_jvp(wrong):
    f = jax.custom_jvp(plus)
    f.defjvp(lambda ps, ts: (f(*ps), wrong(*ts)))
    return f


def bad_vjp(wrong):
    f = jax.custom_vjp(dot)
    f.defvjp(lambda p: (dot(p), p), lambda r, ct: (wrong(r),))
    return f


def bad_fwd():
    f = jax.custom_vjp(dot)
    f.defvjp(lambda p: (p, p), lambda r, ct: (r,))
    return f


shapes = lambda tree: jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)
host = lambda p: jax.tree.map(lambda x: np.asarray(x) * 2, p)


def recorded(run):
    """What a callback saw: the number of leaves of its arguments."""
    seen = []
    run(lambda *args, **kwargs: seen.append(len(jax.tree.leaves((args, kwargs)))))
    jax.effects_barrier()
    return str(seen)


add(
    "callback",
    pure=lambda cls: jax.pure_callback(host, shapes(one(cls)), one(cls)),
    pure_jit=lambda cls: jax.jit(lambda p: jax.pure_callback(host, shapes(p), p))(one(cls)),
    pure_vmap=lambda cls: jax.vmap(
        lambda p: jax.pure_callback(host, shapes(p), p, vmap_method="sequential")
    )(rows(cls)),
    pure_expand=lambda cls: jax.vmap(
        lambda p: jax.pure_callback(host, shapes(p), p, vmap_method="expand_dims")
    )(rows(cls)),
    io=lambda cls: jax.experimental.io_callback(host, shapes(one(cls)), one(cls)),
    io_jit=lambda cls: jax.jit(lambda p: jax.experimental.io_callback(host, shapes(p), p, ordered=True))(one(cls)),
    debug=lambda cls: recorded(lambda put: jax.debug.callback(put, one(cls), x=one(cls))),
    debug_jit=lambda cls: recorded(lambda put: jax.jit(lambda p: jax.debug.callback(put, p))(one(cls))),
    debug_vmap=lambda cls: recorded(lambda put: jax.vmap(lambda p: jax.debug.callback(put, p))(rows(cls))),
    debug_ordered=lambda cls: recorded(
        lambda put: jax.jit(lambda p: jax.debug.callback(put, p, ordered=True))(one(cls))
    ),
    debug_print=lambda cls: str(jax.jit(lambda p: jax.debug.print("{p.a}", p=p))(one(cls))),
    pure_bad=lambda cls: error(lambda: jax.pure_callback(host, (v3, v3), one(cls))),
)  # fmt: skip


add(
    "other",
    optimization_barrier=lambda cls: lax.optimization_barrier(one(cls)),
    barrier_jit=lambda cls: jax.jit(lax.optimization_barrier)(one(cls)),
    composite=lambda cls: lax.composite(plus, "my.plus")(one(cls)),
    partial=lambda cls: jax.jit(lambda f: f(2.0))(jtu.Partial(lambda p, x: jax.tree.map(lambda y: x * y, p), one(cls))),
    typeof=lambda cls: str(jax.tree.leaves(jax.tree.map(jax.typeof, {"k": v3}))),
    named_scope=lambda cls: jax.jit(jax.named_scope("s")(plus))(one(cls)),
    named_call=lambda cls: jax.named_call(plus, name="s")(one(cls)),
    reduce_precision=lambda cls: jax.tree.map(lambda x: lax.reduce_precision(x, 5, 10), one(cls)),
    ensure_compile_time=lambda cls: jax.jit(lambda p: compile_time(p, cls))(one(cls)),
    tree_map=lambda cls: jax.tree.map(jnp.add, one(cls), one(cls)),
    tree_broadcast_prefix=lambda cls: str(jtu.tree_broadcast(1.0, {"a": 2, "b": 3})),
    tree_transpose=lambda cls: jax.tree.transpose(
        jax.tree.structure([0, 0]), jax.tree.structure(one(cls)), [one(cls), one(cls)]
    ),
    ref=lambda cls: jax.tree.map(lambda x: x[...], jax.tree.map(jax.new_ref, (v3, w3))),
    inner_jit_error=lambda cls: error(jax.jit(lambda p: p.a.nothing), one(cls)),
    concrete_error=lambda cls: error(jax.jit(lambda p: 1 if p.a[0] > 0 else 0), one(cls)),
    leaked=lambda cls: leaked(cls),
    clear=lambda cls: (jax.jit(plus).clear_cache(), jax.jit(plus)(one(cls)))[1],
    single_device=lambda cls: jax.device_put(one(cls), SingleDeviceSharding(jax.devices()[0])),
    explain=lambda cls: explained(cls),
    check_leaks=lambda cls: leaks_checked(cls),
    log_compiles=lambda cls: logged(cls),
)  # fmt: skip


def compile_time(p, cls):
    with jax.ensure_compile_time_eval():
        q = plus(one(cls))
    return jax.tree.map(jnp.add, p, q)


def leaked(cls):
    kept = []
    jax.jit(lambda p: kept.append(p))(one(cls))
    return error(lambda: kept[0].a + 1)


def explained(cls):
    with jax.explain_cache_misses(True):
        f = jax.jit(plus)
        return f(one(cls)), f(rows(cls))


def leaks_checked(cls):
    with jax.checking_leaks():
        return jax.jit(lambda p: jax.grad(dot)(p))(one(cls))


def logged(cls):
    with jax.log_compiles(True):
        return jax.jit(plus)(one(cls))


# What the reference gives placeholders to, and fails: see pytree_classes_test.py.
OURS = """
    shardings_out_mismatch shardings_in_mismatch shardings_device_put_mismatch compiled_call_mismatch
    vmap_bad_in_axes vmap_bad_out_axes vmap_bad_none loop_cond_bad_tree derivatives_vjp_wrong_tree
    derivatives_jacfwd derivatives_jacfwd_from_array derivatives_jacrev derivatives_jacrev_to_vector
    derivatives_jacfwd_to_vector derivatives_jacrev_from_array custom_jvp_grad_jit custom_jvp_scan
    custom_jvp_remat custom_jvp_nondiff_grad_jit custom_jvp_nondiff_scan custom_jvp_nondiff_remat
    custom_jvp_symbolic_grad_jit custom_jvp_symbolic_scan custom_jvp_symbolic_remat custom_vjp_grad
    custom_vjp_grad_jit custom_vjp_vmap_grad custom_vjp_scan custom_vjp_remat custom_vjp_nondiff_grad
    custom_vjp_nondiff_grad_jit custom_vjp_nondiff_vmap_grad custom_vjp_nondiff_scan
    custom_vjp_nondiff_remat custom_vjp_residuals_grad custom_vjp_residuals_grad_jit
    custom_vjp_residuals_vmap_grad custom_vjp_residuals_scan custom_vjp_residuals_remat custom_vjp_none
    custom_vjp_bad_tree custom_vjp_bad_shape custom_gradient callback_pure callback_pure_jit
    callback_pure_vmap callback_pure_expand callback_io callback_io_jit other_explain
""".split()
# Run for every constructor, the others for one of them.
FOR_ALL = """
    jit_call jit_nested jit_donate shardings_out shardings_in_dict shardings_device_put_prefix
    vmap_in_prefix vmap_out_dict scan_all scan_weak
    loop_while_vmap loop_fori loop_cond_grad loop_switch_traced loop_cond_bad_type derivatives_vmap_grad
    derivatives_jvp_aux derivatives_linearize derivatives_jacfwd_aux custom_jvp_call custom_vjp_jit
    callback_debug_jit
""".split()
for _name, _fun in PROGRAMS.items():
    for _kind, _cls in KINDS.items():
        if _name not in OURS and (_kind == "ByShape" or _name in FOR_ALL):
            CASES.add(f"{_kind}_{_name}", functools.partial(_fun, _cls))
