"""Functions mapped by pmap over eight CPU devices: see op_cases.py.

Each program gives the types, shardings and values of its results, a jaxpr, or the class of the error.
"""

import functools
import re

import numpy as np
import process_testing
from op_cases import Programs
from sharded_values import show

import jax
import jax.numpy as jnp
from jax import lax, pmap
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

CASES = Programs()
V2 = np.arange(2, dtype=np.float32) + 0.5
V4 = np.arange(4, dtype=np.float32) - 1.5
V8 = np.arange(8, dtype=np.float32)
M22 = np.arange(4, dtype=np.float32).reshape(2, 2)
M42 = np.arange(8, dtype=np.float32).reshape(4, 2)
X = np.arange(12, dtype=np.float32).reshape(2, 3, 2)


def case(name, fun, **options):
    CASES.add(name, lambda: re.sub(r"name=\S+", "name=NAME", show(fun())), **options)


def group(prefix, /, **funs):
    for name, fun in funs.items():
        case(f"{prefix}_{name}", fun)


def devices():
    return jax.devices("cpu")


# Axes of arguments and results

group(
    "axes",
    default=lambda: pmap(lambda x: x * 2)(V8),
    fewer=lambda: pmap(lambda x: x * 2)(V4),
    one_device=lambda: pmap(lambda x: x * 2)(V8[:1]),
    second=lambda: pmap(lambda x: x * 2, in_axes=1)(X),
    last=lambda: pmap(lambda x: x * 2, in_axes=2)(X),
    shared=lambda: pmap(lambda x, y: x + y, in_axes=(0, None))(V2, 3.0),
    shared_array=lambda: pmap(lambda x, y: x + y, in_axes=(None, 1))(V2, M22),
    trees=lambda: pmap(
        lambda d, y: d["a"] + d["b"].sum() + y, in_axes=({"a": 1, "b": None}, 0)
    )({"a": X, "b": V8}, V8[:3]),
    prefix=lambda: pmap(lambda d, y: d["a"] + d["b"] + y, in_axes=(1, None))({"a": X, "b": X[:1]}, 2.0),
    nested_containers=lambda: pmap(lambda t: t[0] + t[1][0]["z"])((V2, [{"z": V2}])),
    none_argument=lambda: pmap(lambda x, y: x)(V2, None),
    keywords=lambda: pmap(lambda x, *, k: x + k)(V2, k=V2),
    keywords_shared=lambda: pmap(lambda x, y, **k: (x + k["b"], y), in_axes=(0, None))(V2, 1.0, b=V2),
    only_keywords=lambda: pmap(lambda *, a: a * 2)(a=V2),
    keywords_and_none=lambda: pmap(lambda x, **k: (x, k), in_axes=None)(1.0, a=V2),
    many=lambda: pmap(lambda *a: sum(a))(*[V2] * 9),
    given_size=lambda: pmap(lambda x: x, axis_size=2)(V2),
    given_numpy_size=lambda: pmap(lambda x: x, axis_size=np.int32(2))(V2),
    out_second=lambda: pmap(lambda x: x, out_axes=1)(X),
    out_last=lambda: pmap(lambda x: x, in_axes=1, out_axes=2)(X),
    out_none=lambda: pmap(lambda x: lax.psum(x, "i"), "i", out_axes=None)(V2),
    out_none_of_constant=lambda: pmap(lambda x: 3.0, out_axes=None)(V2),
    out_none_of_varying=lambda: pmap(lambda x: x, out_axes=None)(V2),
    out_tree=lambda: pmap(
        lambda x: {"a": x, "b": (x, lax.psum(x, "i"))}, "i", out_axes={"a": 1, "b": (0, None)}
    )(X),
    out_prefix=lambda: pmap(lambda x: (x, {"k": (x, x * 2)}), out_axes=(0, 1))(X),
    out_list=lambda: pmap(lambda x: [x, x], out_axes=[0, 1])(X),
    out_none_leaf=lambda: pmap(lambda x: (None, x), out_axes=(None, 0))(V2),
    out_nothing=lambda: pmap(lambda x: None)(V2),
    out_constants=lambda: pmap(lambda x: (1, 2.0, np.arange(3), True))(V2),
)  # fmt: skip
group(
    "types",
    weak=lambda: pmap(lambda x, y: (x * y, y), in_axes=(0, None), out_axes=(0, 0))(np.arange(2), 3.0),
    integers=lambda: pmap(lambda x: x + 1)(np.arange(2)),
    booleans=lambda: pmap(lambda x: ~x)(np.array([True, False])),
    doubles=lambda: pmap(lambda x: x)(np.array([1.0, 2.0], np.float64)),
    complex=lambda: pmap(lambda x: x * 1j)(np.zeros(2, np.complex64)),
    halves=lambda: pmap(lambda x: x + 1)(jnp.zeros(2, jnp.bfloat16)),
    empty_shards=lambda: pmap(lambda x: x)(np.zeros((2, 0, 3), np.float32)),
    x64=lambda: jax.enable_x64(True)(lambda: pmap(lambda x: x + 1)(np.array([1.0, 2.0])))(),
    keys=lambda: pmap(lambda k: jax.random.key_data(k))(jax.random.split(jax.random.key(0), 2)),
    keys_out=lambda: pmap(lambda k: jax.random.fold_in(k, lax.axis_index("i")), "i")(jax.random.split(jax.random.key(0), 2)),
    keys_shared=lambda: pmap(lambda k, x: jax.random.normal(jax.random.fold_in(k, x)), in_axes=(None, 0))(jax.random.key(0), np.arange(2)),
    raw_keys=lambda: pmap(lambda k: jax.random.uniform(k))(jax.random.split(jax.random.PRNGKey(0), 2)),
    float0=lambda: str(pmap(lambda x: x)(np.zeros(2, jax.dtypes.float0)).dtype),
)  # fmt: skip
group(
    "static",
    number=lambda: pmap(lambda x, n: x * n, static_broadcasted_argnums=1)(V2, 3),
    text=lambda: pmap(lambda x, n: x * len(n), static_broadcasted_argnums=(1,))(V2, "abc"),
    first=lambda: pmap(lambda n, x: x * n, static_broadcasted_argnums=0)(3, V2),
    with_axes=lambda: pmap(lambda x, n, y: x * n + y, static_broadcasted_argnums=1, in_axes=(0, None, 0))(V2, 3, V2),
    with_axes_zero=lambda: pmap(lambda x, n, y: x * n + y, static_broadcasted_argnums=1, in_axes=(0, 0, 0))(V2, 3, V2),
    with_trees=lambda: pmap(lambda n, x, y: x * n + y["a"], static_broadcasted_argnums=0, in_axes=(None, 0, {"a": None}))(3, V2, {"a": 1.0}),
    with_keywords=lambda: pmap(lambda n, x: x * n, static_broadcasted_argnums=(0,))(3, x=V2),
    two=lambda: pmap(lambda a, x, b: x * len(a) + b, static_broadcasted_argnums=(0, 2))("ab", V2, 5),
    unhashable=lambda: pmap(lambda x, n: x * n[0], static_broadcasted_argnums=1)(V2, [3]),
    too_few=lambda: pmap(lambda x, n=1: x * n, static_broadcasted_argnums=1)(V2),
    by_keyword=lambda: pmap(lambda x, n: x * n, static_broadcasted_argnums=1)(V2, n=2),
    also_donated=lambda: pmap(lambda x, n: x * n, donate_argnums=1, static_broadcasted_argnums=1)(V2, 3),
    no_integer=lambda: pmap(lambda x, n: x * n, static_broadcasted_argnums="a")(V2, V2),
)  # fmt: skip


@CASES.define
def static_method():
    class A:
        @functools.partial(pmap, static_broadcasted_argnums=0)
        def double(self, x):
            return x * 2

    return show(A().double(V2))


# Errors

group(
    "errors",
    scalar=lambda: pmap(lambda x: x)(3.0),
    none_mapped=lambda: pmap(lambda x: x, in_axes=None)(X),
    none_mapped_size=lambda: pmap(lambda x: x, in_axes=None, axis_size=2)(X),
    no_arguments=lambda: pmap(lambda: 1.0)(),
    no_arguments_size=lambda: pmap(lambda: 1.0, axis_size=2)(),
    other_size=lambda: pmap(lambda x: x, axis_size=4)(V2),
    size_zero=lambda: pmap(lambda x: x)(jnp.zeros((0,))),
    in_axes_text=lambda: pmap(lambda x: x, in_axes="a"),
    in_axes_leaf=lambda: pmap(lambda x, y: x, in_axes=(0, "a")),
    in_axes_float=lambda: pmap(lambda x, y: x, in_axes=(0, 1.0)),
    in_axes_bool=lambda: pmap(lambda x: x, in_axes=True),
    in_axes_numpy=lambda: pmap(lambda x: x, in_axes=np.int64(1)),
    in_axes_short=lambda: pmap(lambda x, y: x, in_axes=(0,))(V2, V2),
    in_axes_no_prefix=lambda: pmap(lambda x: x, in_axes=({"a": 0},))({"b": V2}),
    in_axes_of_keyword=lambda: pmap(lambda x, y: x + y, in_axes=(0, None))(V2, y=V2),
    out_axes_text=lambda: pmap(lambda x: x, out_axes="a"),
    out_axes_bool=lambda: pmap(lambda x: x, out_axes=True),
    out_axes_no_prefix=lambda: pmap(lambda x: x, out_axes={"a": 0})(V2),
    out_axes_other_keys=lambda: pmap(lambda x: {"a": x}, out_axes={"b": 0})(V2),
    out_axes_short=lambda: pmap(lambda x: (x, x), out_axes=(0,))(V2),
    out_axes_tuple_for_list=lambda: pmap(lambda x: [x, x], out_axes=(0, 0))(V2),
    out_axes_too_large=lambda: pmap(lambda x: x, out_axes=1)(V2),
    object=lambda: pmap(lambda x, y: x)(V2, object()),
    shared_text=lambda: pmap(lambda x, y: x, in_axes=(0, None))(V2, "a"),
    type_only=lambda: pmap(lambda x: x)(jax.ShapeDtypeStruct((2,), np.float32)),
    result=lambda: pmap(lambda x: "a")(V2),
    no_function=lambda: pmap(3),
    generator=lambda: pmap(lambda x: (yield x))(V2),
    no_devices=lambda: pmap(lambda x: x, devices=[])(V2),
    devices_number=lambda: pmap(lambda x: x, devices=3),
    devices_twice=lambda: pmap(lambda x: x, devices=[devices()[0]] * 2)(V2),
    too_few_devices=lambda: pmap(lambda x: x, devices=devices()[:2])(np.zeros((4, 2))),
    backend=lambda: pmap(lambda x: x, backend="none")(V2),
    unhashable_name=lambda: pmap(lambda x: x, [1])(V2),
    name_of_a_dimension=lambda: pmap(lambda x: lax.psum(x, 3), 3)(V2),
    tuple_name=lambda: pmap(lambda x: lax.psum(x, ("a", "b")), ("a", "b"))(V2),
    unbound_name=lambda: pmap(lambda x: lax.psum(x, "z"), "i")(V2),
    unknown_option=lambda: pmap(lambda x: x, axis_sizes=3),
    in_axes_by_position=lambda: pmap(lambda x: x, "i", 0),
    other_device_in_jit=lambda: jax.jit(pmap(lambda x: x))(jax.device_put(V2, devices()[3])),
    ordered_effects=lambda: pmap(lambda x: jax.debug.print("{}", x, ordered=True))(V2),
    compiled_types=lambda: pmap(lambda x: x).lower(V2).compile()(V8),
)  # fmt: skip

# The reference finds out when it divides the arrays.
case("errors_too_many", lambda: pmap(lambda x: x)(np.arange(9.0)), any_error=True)
case("errors_too_many_twice", lambda: pmap(lambda x: x)(np.arange(16.0)), any_error=True)
case("errors_inconsistent", lambda: pmap(lambda x, y: x + y)(V8, V2), any_error=True)
case(
    "errors_inconsistent_axes",
    lambda: pmap(lambda x, y: x + y, in_axes=(1, 0))(X, V2),
    any_error=True,
)

# Devices

group(
    "devices",
    given=lambda: pmap(lambda x: x, devices=devices()[2:4])(V2),
    more_than_needed=lambda: pmap(lambda x: x, devices=devices()[2:5])(V2),
    reversed=lambda: pmap(lambda x: x * 2, devices=devices()[::-1])(V8),
    backend=lambda: pmap(lambda x: x, backend="cpu")(V2),
    both=lambda: pmap(lambda x: x, backend="cpu", devices=devices()[:2])(V2),
    collective=lambda: pmap(lambda x: lax.psum(x, "i"), "i", devices=devices()[5:8])(V8[:3]),
)


@CASES.define
def devices_default_device():
    with jax.default_device(devices()[3]):
        return show(pmap(lambda x: x)(jnp.arange(2.0)))


def named(shape, names, *spec, devices=8):
    array = np.array(jax.devices("cpu")[:devices]).reshape(shape)
    return NamedSharding(
        Mesh(array, tuple(names), axis_types=(AxisType.Auto,) * len(names)), P(*spec)
    )


def put(x, *args, **kwargs):
    return jax.device_put(x, named(*args, **kwargs))


group(
    "input",
    of_pmap=lambda: pmap(lambda x: x + 1)(pmap(lambda x: x * 2)(V8)),
    of_other_devices=lambda: pmap(lambda x: x, "i")(pmap(lambda x: x, devices=devices()[4:6])(V2)),
    same_shards=lambda: pmap(lambda x: x)(put(V8, (8,), "z", "z")),
    two_axes=lambda: pmap(lambda x: x)(put(V8, (4, 2), "zw", ("z", "w"))),
    shared_from_one_device=lambda: pmap(lambda x, y: x + y, in_axes=(0, None))(V2, jax.device_put(3.0, devices()[0])),
    shared_element=lambda: pmap(lambda x, y: x + y, in_axes=(0, None))(V8, pmap(lambda x: x)(V8)[3]),
    reduced=lambda: pmap(lambda x: x)(pmap(lambda x: x)(X).sum((1, 2))),
    jitted=lambda: pmap(lambda x: x)(jax.jit(jnp.sin)(V2)),
)  # fmt: skip
group(
    "result",
    element=lambda: pmap(lambda x: x)(V8)[3],
    elements=lambda: pmap(lambda x: x)(V8)[2:4],
    computed=lambda: pmap(lambda x: x)(X) + 1,
    summed=lambda: pmap(lambda x: x)(X).sum(),
    transposed=lambda: pmap(lambda x: x)(M22).T,
    shard=lambda: [str(s) for s in pmap(lambda x: x)(V2).addressable_shards],
    committed=lambda: pmap(lambda x: x)(V2).committed,
    moved=lambda: str(jax.device_put(pmap(lambda x: x)(V2), devices()[0]).sharding),
)

# Collectives

GROUPS = [[0, 2], [1, 3]]
group(
    "collective",
    psum=lambda: pmap(lambda x: lax.psum(x, "i"), "i")(V8),
    psum_unnamed=lambda: pmap(lambda x: lax.psum(x, "_internal_pmap_axis_name"))(V2),
    psum_tree=lambda: pmap(lambda t: lax.psum(t, "i"), "i")({"a": V2, "b": (V2, X)}),
    psum_constant=lambda: pmap(lambda x: (lax.psum(1, "i"), lax.axis_size("i")), "i")(V2),
    psum_groups=lambda: pmap(lambda x: lax.psum(x, "i", axis_index_groups=GROUPS), "i")(V4),
    pmean=lambda: pmap(lambda x: lax.pmean(x, "i"), "i")(V4),
    pmax_pmin=lambda: pmap(lambda x: (lax.pmax(x, "i"), lax.pmin(x, "i")), "i")(V8),
    axis_index=lambda: pmap(lambda x: lax.axis_index("i"), "i")(V8),
    all_gather=lambda: pmap(lambda x: lax.all_gather(x, "i"), "i")(V2),
    all_gather_tiled=lambda: pmap(lambda x: lax.all_gather(x, "i", tiled=True), "i")(M22),
    all_gather_groups=lambda: pmap(lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS), "i")(V4),
    ppermute=lambda: pmap(lambda x: lax.ppermute(x, "i", [(i, (i + 1) % 8) for i in range(8)]), "i")(V8),
    pshuffle=lambda: pmap(lambda x: lax.pshuffle(x, "i", [1, 0]), "i")(V2),
    pswapaxes=lambda: pmap(lambda x: lax.pswapaxes(x, "i", 0), "i")(M22),
    all_to_all=lambda: pmap(lambda x: lax.all_to_all(x, "i", 0, 0), "i")(M22),
    all_to_all_groups=lambda: pmap(lambda x: lax.all_to_all(x, "i", 0, 0, axis_index_groups=GROUPS), "i")(M42),
    psum_scatter=lambda: pmap(lambda x: lax.psum_scatter(x, "i"), "i")(M22),
    psum_scatter_groups=lambda: pmap(lambda x: lax.psum_scatter(x, "i", axis_index_groups=GROUPS), "i")(M42),
    in_cond=lambda: pmap(lambda x: lax.cond(lax.psum(x, "i") > 0, lambda x: lax.psum(x, "i"), lambda x: x, x), "i")(V2),
    in_scan=lambda: pmap(lambda x: lax.scan(lambda c, _: (lax.psum(c, "i"), c), x, None, length=3), "i")(V2),
    in_while=lambda: pmap(lambda x: lax.while_loop(lambda c: lax.pmax(c, "i") < 9, lambda c: lax.psum(c, "i"), x), "i")(V2),
    in_jit=lambda: pmap(jax.jit(lambda x: x / lax.psum(x, "i")), "i")(V4),
)  # fmt: skip

# Transformations


def total(f):
    return lambda *args: f(*args).sum()


SIN = pmap(jnp.sin)
NORM = pmap(lambda x: jnp.sin(x) / lax.psum(jnp.abs(x), "i"), "i")
WEIGHTED = pmap(lambda x, w: lax.psum(jnp.tanh(x * w), "i"), "i", in_axes=(0, None))
group(
    "transform",
    jit=lambda: jax.jit(NORM)(V2),
    jit_grad=lambda: jax.jit(jax.grad(total(NORM)))(V2),
    grad=lambda: jax.grad(total(SIN))(V2),
    grad_psum=lambda: jax.grad(total(NORM))(V2),
    grad_shared=lambda: jax.grad(total(WEIGHTED), (0, 1))(V2, 0.5),
    grad_custom=lambda: jax.grad(total(pmap(jax.nn.relu)))(V2),
    grad_index=lambda: jax.grad(total(pmap(lambda x: x * lax.axis_index("i"), "i")))(V2),
    grad_closure=lambda: jax.grad(lambda w: pmap(lambda y: y * w)(V2).sum())(3.0),
    grad_twice=lambda: jax.grad(total(jax.grad(total(SIN))))(V2),
    value_and_grad=lambda: jax.value_and_grad(total(NORM))(V2),
    hessian=lambda: jax.hessian(total(pmap(lambda x: x**3)))(V2),
    jacrev=lambda: jax.jacrev(pmap(lambda x: x**2))(V2),
    jacfwd=lambda: jax.jacfwd(pmap(lambda x: x**2))(V2),
    jvp=lambda: jax.jvp(NORM, (V2,), (V2,)),
    jvp_shared=lambda: jax.jvp(lambda w: WEIGHTED(V2, w), (0.5,), (1.0,)),
    linearize=lambda: jax.linearize(NORM, V2)[1](V2),
    vjp=lambda: jax.vjp(pmap(lambda x, y: jnp.sin(x) * y, in_axes=(0, None)), V2, 3.0)[1](V2),
    vjp_axes=lambda: jax.vjp(pmap(lambda x: x * 2, in_axes=1, out_axes=2), X)[1](np.ones((2, 2, 3), np.float32)),
    vjp_out_none=lambda: jax.vjp(pmap(lambda x, y: lax.pmean(x * y, "i"), "i", in_axes=(0, None), out_axes=None), V2, 3.0)[1](1.0),
    linear_transpose=lambda: jax.linear_transpose(pmap(lambda x: 2 * x), V2)(V2),
    checkpoint=lambda: jax.grad(total(jax.checkpoint(pmap(lambda x: jnp.sin(jnp.sin(x))))))(V2),
    checkpoint_inside=lambda: jax.grad(total(pmap(jax.checkpoint(lambda x: jnp.sin(lax.psum(jnp.sin(x), "i"))), "i")))(V2),
    pmap_grad=lambda: pmap(jax.grad(lambda x: jnp.sin(x)))(V2),
    pmap_grad_psum=lambda: pmap(jax.grad(lambda x: lax.psum(jnp.sin(x), "i")), "i")(V2),
    pmap_grad_pmean=lambda: pmap(jax.grad(lambda x: lax.pmean(x**2, "i")), "i")(V2),
    vmap=lambda: jax.vmap(NORM)(np.arange(6, dtype=np.float32).reshape(3, 2)),
    vmap_axes=lambda: jax.vmap(NORM, in_axes=1, out_axes=1)(np.arange(6, dtype=np.float32).reshape(2, 3)),
    vmap_shared=lambda: jax.vmap(WEIGHTED, in_axes=(None, 0))(V2, V4),
    vmap_grad=lambda: jax.vmap(jax.grad(total(NORM)))(M22),
    vmap_named=lambda: jax.vmap(pmap(lambda x: lax.psum(x, ("i", "v")), "i"), axis_name="v")(M22),
    pmap_vmap=lambda: pmap(jax.vmap(lambda x: lax.psum(x, ("i", "j")), axis_name="j"), "i")(M22),
    in_scan=lambda: lax.scan(lambda c, _: (pmap(lambda x: x + 1)(c), None), V2, None, length=3)[0],
    in_jit_with_closure=lambda: jax.jit(lambda x: pmap(lambda y: y + x.sum())(x))(V2),
    closure=lambda: pmap(lambda y: y * V8.sum() + jnp.asarray(V8)[0])(V2),
    in_jit_twice=lambda: jax.jit(lambda x: pmap(lambda x: x + 1)(pmap(lambda x: x * 2)(x)))(V2),
    eval_shape=lambda: jax.eval_shape(pmap(lambda x, y: x + y, in_axes=(1, None), out_axes=1), X, 1.0),
    eval_shape_of_type=lambda: jax.eval_shape(pmap(lambda x: x), jax.ShapeDtypeStruct((8, 3), np.float32)),
)  # fmt: skip
group(
    "jaxpr",
    plain=lambda: jax.make_jaxpr(pmap(lambda x: x * 2))(V8),
    axes=lambda: jax.make_jaxpr(pmap(lambda x, y: (x * 2, y + lax.psum(x, "i")), "i", in_axes=(1, None), out_axes=(1, None)))(X, 3),
    donated=lambda: jax.make_jaxpr(pmap(lambda x: x, donate_argnums=0))(V2),
)  # fmt: skip

# Donation


@CASES.define
def donation():
    x, y = [pmap(lambda x: x)(V2) for _ in range(2)]
    out = pmap(lambda x, y: x + y, donate_argnums=0)(x, y)
    return show((out, x.is_deleted(), y.is_deleted()))


@CASES.define
def donation_second():
    x, y = [pmap(lambda x: x)(V2) for _ in range(2)]
    out = pmap(lambda x, s, y: x + y, donate_argnums=(2,), static_broadcasted_argnums=1)(x, "s", y)
    return show((out, x.is_deleted(), y.is_deleted()))


@CASES.define
def donation_not_by_keyword():
    x = pmap(lambda x: x)(V2)
    return show((pmap(lambda x: x + 1, donate_argnums=0)(x=x), x.is_deleted()))


@CASES.define
def donation_of_array_on_one_device():
    x = jnp.arange(2.0)
    return show((pmap(lambda x: x + 1, donate_argnums=0)(x), x.is_deleted()))


@CASES.define
def donation_other_type():
    x = pmap(lambda x: x)(V2)
    return show((pmap(lambda x: x.astype(np.int32), donate_argnums=0)(x), x.is_deleted()))


# Stages, names, configuration

group(
    "stages",
    compiled=lambda: pmap(lambda x: x * 2).lower(V2).compile()(V2),
    of_type=lambda: pmap(lambda x: x * 2).lower(jax.ShapeDtypeStruct((8,), np.float32)).compile()(V8),
    static=lambda: pmap(lambda x, n: x * n, static_broadcasted_argnums=1).lower(V2, 3).compile()(V2),
    keyword=lambda: pmap(lambda x, n: x * n).lower(V2, n=V2).compile()(V2, n=V2),
    in_tree=lambda: pmap(lambda x, n: x).lower(V2, {"a": V2}).in_tree,
    args_info=lambda: pmap(lambda x, n: x, static_broadcasted_argnums=1, donate_argnums=0).lower(V2, 3).args_info,
    out_info=lambda: re.sub(", memory_kind=device", "", str(pmap(lambda x: x).lower(V2).out_info)),
    input_shardings=lambda: re.sub(", memory_kind=device", "", str(pmap(lambda x, n: x).lower(V2, n=V2).compile().input_shardings)),
    output_shardings=lambda: re.sub(", memory_kind=device", "", str(pmap(lambda x: x, out_axes=None).lower(V2).compile().output_shardings)),
)  # fmt: skip


@CASES.define
def stages_text():
    f = pmap(lambda x: lax.psum(x, "i"), "i", in_axes=1, out_axes=1)
    return re.sub(r"@jit_\w+", "@NAME", f.lower(X).as_text().replace("channel_handle", ""))


@CASES.define
def names():
    def foo(x, y=2):
        "The doc."
        return x

    import inspect

    f = pmap(foo)
    return f"{f.__name__} {f.__doc__} {inspect.signature(f)} {f.__wrapped__ is foo} {f.__module__ == __name__}"


@CASES.define
def disable_jit():
    seen = []

    def f(x):
        seen.append(str(x.shape))
        return x * lax.axis_size("i"), lax.psum(x, "i")

    with jax.disable_jit():
        out = pmap(f, "i", out_axes=(0, None))(V2)
    return show((*out, seen))


@CASES.define
def debug_nans():
    with jax.debug_nans(True):
        return show(pmap(lambda x: x / 0 * 0)(V2))


@CASES.define
def callbacks():
    def twice(v):
        return np.asarray(v) * 2

    shape = jax.ShapeDtypeStruct((), np.float32)
    return show(pmap(lambda x: jax.pure_callback(twice, shape, x))(V2))


@CASES.define
def debug_print():
    lines = []
    pmap(
        lambda x: jax.debug.callback(lambda v, i: lines.append(f"{v} {i}"), x, lax.axis_index("i")),
        "i",
    )(V4)
    jax.effects_barrier()
    return str(sorted(lines))


# Patterns of libraries


@CASES.define
def train_step():
    @functools.partial(pmap, axis_name="batch", donate_argnums=0)
    def step(params, batch):
        def loss(w):
            return jnp.mean((batch @ w["a"] + w["b"]) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        grads = lax.pmean(grads, "batch")
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        return params, lax.pmean(value, "batch")

    params = {"a": np.ones((4, 3, 1), np.float32), "b": np.zeros((4, 1), np.float32)}
    batch = np.arange(24, dtype=np.float32).reshape(4, 2, 3) / 24
    losses = []
    for _ in range(3):
        params, value = step(params, batch)
        losses.append(value)
    return show((jax.tree.map(lambda x: x[0], params), losses))


@CASES.define
def replicate_and_unreplicate():
    tree = {"a": np.arange(3.0, dtype=np.float32), "b": 1}
    mesh = named((8,), "d", "d").mesh
    stacked = jax.tree.map(lambda x: jnp.broadcast_to(x, (8, *np.shape(x))), tree)
    replicated = jax.device_put(stacked, NamedSharding(mesh, P("d")))
    doubled = pmap(lambda t: jax.tree.map(lambda x: x * 2, t))(replicated)
    return show((doubled, jax.tree.map(lambda x: x[0], doubled)))


# Several processes

PROCESSES = """
import os, sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax, pmap

me = int(os.environ["JAX_LAUNCH_PROCESS_ID"])
jax.distributed.initialize(os.environ["JAX_LAUNCH_COORDINATOR"], 2, me, initialization_timeout=60)
x = np.arange(2, dtype=np.float32) + 10 * me
devices = jax.devices()
lines = []

def describe(x):
    if not isinstance(x, jax.Array):
        return str(x)
    shards = [(s.device.id, str(s.index), np.asarray(s.data).round(4).tolist()) for s in x.addressable_shards]
    return f"{x.aval.str_short()} {x.sharding} {shards}"

def show(name, fun):
    lines.append(f"{name}: {jax.tree.map(describe, fun())}")

def total(x):
    return lax.psum(x, "i")

y = pmap(lambda x: x * 2)(x)
z = jax.make_array_from_process_local_data(
    jax.NamedSharding(jax.make_mesh((4,), ("z",), axis_types=(jax.sharding.AxisType.Auto,)), jax.P("z")), x)
show("plain", lambda: y)
show("total", lambda: pmap(total, "i")(x))
show("again", lambda: pmap(total, "i")(y))
show("position", lambda: pmap(lambda x: lax.axis_index("i"), "i")(x))
show("shared", lambda: pmap(lambda x, w: total(x * w), "i", in_axes=(0, None))(x, 3.0))
show("shared element", lambda: pmap(lambda x, w: total(x * w), "i", in_axes=(0, None))(x, jnp.float32(3)))
show("static", lambda: pmap(lambda x, n: total(x) * n, "i", static_broadcasted_argnums=1)(x, 3))
show("keyword", lambda: pmap(lambda x, y: total(x) + y, "i")(x, y=x))
show("out none", lambda: pmap(total, "i", out_axes=None)(x))
show("axes", lambda: pmap(lambda x: x, "i", in_axes=1, out_axes=1)(np.ones((3, 2), np.float32) * me))
show("global size", lambda: pmap(total, "i", axis_size=4)(x))
show("local devices", lambda: pmap(total, "i", devices=jax.local_devices())(x))
show("reversed devices", lambda: pmap(lambda x: (x, lax.axis_index("i")), "i", devices=devices[::-1])(x))
show("two devices", lambda: pmap(total, "i", devices=[devices[0], devices[2]])(x[:1]))
show("global array", lambda: pmap(total, "i")(z))
show("tree", lambda: pmap(lambda d: {"a": d["a"], "b": lax.all_gather(d["b"], "i")}, "i")({"a": x, "b": x}))
show("keys", lambda: pmap(lambda k: jax.random.uniform(k))(jax.random.split(jax.random.key(me), 2)))
show("gradient", lambda: jax.grad(lambda x: pmap(lambda x: total(x * x), "i")(x).sum())(x))
show("jit", lambda: jax.jit(pmap(total, "i"))(x))
show("vmap", lambda: jax.vmap(pmap(total, "i"))(np.stack([x, x])))
show("type", lambda: jax.eval_shape(pmap(total, "i"), x))
show("lowered", lambda: (pmap(total, "i").lower(x).args_info, str(pmap(total, "i").lower(x).out_info)))
show("donated", lambda: (pmap(lambda x: x + 1, donate_argnums=0)(y), y.is_deleted()))
sys.stdout.write("\\n@@" + "\\n@@".join(lines) + "\\n")
"""


@CASES.define
def several_processes():
    outputs = process_testing.run(PROCESSES, 2, devices=2)
    return "\n".join(
        line for output in outputs for line in output.splitlines() if line.startswith("@@")
    )
