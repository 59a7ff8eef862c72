"""Arguments and errors of the transformations: see op_cases.py."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.ad_checkpoint
import jax.numpy as jnp
from jax import lax

CASES = Programs()
scenario, add = CASES.define, CASES.group
F = np.float32
v3 = np.array([0.3, -1.2, 2.1], F)
m23 = np.arange(6, dtype=F).reshape(2, 3) / 4 - 0.5
float0 = np.zeros((), jax.dtypes.float0)
times = lambda x, y: x * y
square = lambda x: x * x


class OnlyShaped:
    shape, dtype = [2], "int8"


# jit

add(
    "jit",
    returned_path=lambda: jax.jit(lambda x: {"q": (x, object())})(1.0),
    large_integer=lambda: jax.jit(square)(2**40),
    type_for_value=lambda: jax.jit(square)(jax.ShapeDtypeStruct((3,), F)),
    device_and_none=lambda: jax.jit(square, device=jax.devices()[0], in_shardings=None)(F(2)),
    device_and_sharding=lambda: jax.jit(
        square, device=jax.devices()[0],
        in_shardings=jax.sharding.SingleDeviceSharding(jax.devices()[0]),
    )(F(2)),
    shaped_trace=lambda: str(jax.jit(square).trace(OnlyShaped()).jaxpr),
    shaped_lower=lambda: str(jax.jit(square).lower(OnlyShaped()).out_info),
    shaped_call=lambda: jax.jit(square)(OnlyShaped()),
    lowered_types=lambda: str(jax.jit(square).lower(1.0).out_info),
    traced_types=lambda: str(jax.jit(square).trace(1.0).out_info),
    same_argument_twice=lambda: str(jax.make_jaxpr(lambda x: jax.jit(times)(x, x))(F(2))),
)  # fmt: skip
add(
    "staging",
    shaped_jaxpr=lambda: str(jax.make_jaxpr(square)(OnlyShaped())),
    shaped_types=lambda: str(jax.eval_shape(jax.vmap(square), OnlyShaped())),
    array_of_objects=lambda: jax.eval_shape(square, np.array([object()])),
    static_position=lambda: jax.make_jaxpr(times, static_argnums=3)(1.0, 2.0),
    static_negative=lambda: str(jax.make_jaxpr(times, static_argnums=-1)(1.0, 2.0)),
)


@scenario
def constants_while_tracing():
    @jax.jit
    def f(x):
        with jax.ensure_compile_time_eval():
            y = jnp.sin(2.0)
            z = jax.grad(jnp.sin)(2.0) + jax.vmap(jnp.sin)(jnp.ones(2))[0] + jax.nn.relu(1.0)
            if y > 0:
                x = x + jax.jit(jnp.cos)(y)
        return x * float(z)

    return f(1.0)


@scenario
def traced_while_tracing():
    def f(x):
        with jax.ensure_compile_time_eval():
            return bool(x > 0)

    return jax.jit(f)(1.0)


@scenario
def scope():
    with jax.named_scope("outer"), jax.named_scope("inner") as stack:
        return str(stack)


@scenario
def constants_as_decorator():
    @jax.ensure_compile_time_eval()
    def two():
        return int(jnp.ones(2).sum())

    return jax.jit(lambda x: x * two())(F(3))


# Derivatives

add(
    "scalars",
    float=lambda: jax.grad(lambda x: float(x) * x)(3.0),
    complex=lambda: jax.grad(lambda x: complex(x).real * x)(3.0),
    math=lambda: jax.jvp(lambda x: float(x), (1.0,), (1.0,)),
    integer=lambda: jax.grad(lambda x: int(x) * x)(3.0),
    constant=lambda: jax.grad(lambda x: float(lax.stop_gradient(x)) * x)(3.0),
    item=lambda: jax.grad(lambda x: x.item() * x)(3.0),
    tolist=lambda: jax.grad(lambda x: x.tolist() * x)(3.0),
    mapped=lambda: jax.vmap(float)(v3),
)
add(
    "jvp",
    tuple_and_list=lambda: jax.jvp(jnp.sin, (F(1),), [F(2)]),
    lists=lambda: jax.jvp(jnp.sin, [F(1)], [F(2)]),
    lengths=lambda: jax.jvp(times, (F(1), F(2)), (F(1),)),
)
add(
    "vjp",
    float_for_integer=lambda: jax.vjp(lambda x: (x * 2, 3), F(2))[1]((F(1), 3.0)),
    shape_for_integer=lambda: jax.vjp(lambda x: (x * 2, 3), F(2))[1]((F(1), v3)),
    reduce_axes=lambda: jax.vjp(square, F(2), reduce_axes=("i",)),
    wanted=lambda: jax.tree.leaves(
        jax.vjp(lambda d, y: d["a"] * d["b"] * y, {"a": F(2), "b": F(5)}, F(3))[1].with_refs(
            {"a": jax.ad.GradValue(), "b": jax.ad.DontWant()}, jax.ad.GradValue()
        )(F(1))
    ),
)
add(
    "jacobian",
    forward_integers=lambda: jax.jacfwd(lambda x: (x, 3))(F(2)),
    backward_integers=lambda: jax.jacrev(lambda x: x * 2.0, allow_int=True)(np.arange(2)),
    aux=lambda: jax.jacfwd(lambda x: (square(x), {"a": x}), has_aux=True)(v3),
    backward_aux_text=lambda: jax.jacrev(lambda x: (square(x), "a"), has_aux=True)(v3),
)
add(
    "linear_transpose",
    not_callable=lambda: jax.linear_transpose(3, 1.0),
    shaped=lambda: jax.linear_transpose(lambda x: x + x, OnlyShaped())(np.ones(2, np.int8)),
)
add(
    "vmap",
    text=lambda: jax.vmap(lambda x: x)("abc"),
    scalar=lambda: jax.vmap(times)(v3, F(1)),
    transposed_cond=lambda: jax.vjp(
        lambda x: jax.jvp(
            jax.vmap(lambda i, x: lax.cond(i, jnp.sin, square, x), (0, 0)),
            (np.array([True, False, True]), x), (np.zeros(3, jax.dtypes.float0), x),
        )[1], v3,
    )[1](v3),
)  # fmt: skip


# custom_jvp, custom_vjp


def jvp_of(rule, fun=square, **options):
    f = jax.custom_jvp(fun)
    f.defjvp(rule, **options)
    return f


def vjp_of(fwd, bwd, fun=square, **options):
    f = jax.custom_vjp(fun, **options)
    f.defvjp(fwd, bwd)
    return f


keep = lambda x: (x * x, x)
pair = lambda x: (x, np.int32(3))
add(
    "custom_jvp",
    type_of_result=lambda: jax.jvp(
        jax.jit(jvp_of(lambda p, t: (p[0].astype("float16"), t[0].astype("float16")))), (F(2),), (F(1),)
    ),
    shape_of_result=lambda: jax.jvp(
        jax.jit(jvp_of(lambda p, t: (jnp.ones(3), jnp.ones(3)))), (F(2),), (F(1),)
    ),
    tree_of_result=lambda: jax.jvp(jax.jit(jvp_of(lambda p, t: (p, t))), (F(2),), (F(1),)),
    tangent_of_integer=lambda: jax.jvp(
        jvp_of(lambda p, t: (pair(p[0]), (t[0], F(1))), pair), (F(2),), (F(1),)
    ),
    float0_of_integer=lambda: jax.jvp(
        jvp_of(lambda p, t: (pair(p[0]), (t[0], float0)), pair), (F(2),), (F(1),)
    ),
    text=lambda: jvp_of(None, lambda x: "text")(F(1)),
    text_argument=lambda: jvp_of(lambda p, t: (p[0], t[0]))("a"),
    no_rule=lambda: jax.custom_jvp(square)(F(1)),
    too_many_arguments=lambda: jvp_of(lambda p, t: (p[0], t[0]))(F(1), F(2)),
    by_keyword=lambda: jvp_of(lambda p, t: (p[0] * p[1], t[0]), times)(y=F(2), x=F(3)),
    only_by_keyword=lambda: jvp_of(None, lambda x, *, y: x)(F(1), y=F(2)),
)  # fmt: skip


@scenario
def custom_jvp_number_of_rules():
    f = jax.custom_jvp(times)
    f.defjvps(lambda t, ans, x, y: t)
    return jax.grad(f)(2.0, 3.0)


@scenario
def custom_jvp_nondiff_traced():
    f = jax.custom_jvp(times, nondiff_argnums=(0,))
    f.defjvp(lambda a, p, t: (a * p[0], t[0] * 5))
    return jax.grad(lambda y: f(y, y))(F(3)), jax.jit(jax.grad(f, 1))(F(2), F(3))


add(
    "custom_vjp",
    shape_of_result=lambda: jax.grad(
        lambda x: jax.jit(vjp_of(lambda x: (jnp.ones(3), x), lambda r, g: (r,)))(x).sum()
    )(F(2)),
    tree_of_result=lambda: jax.grad(
        jax.jit(vjp_of(lambda x: ((x,), x), lambda r, g: (r,)))
    )(F(2)),
    cotangent_none=lambda: jax.grad(vjp_of(keep, lambda r, g: None))(F(2)),
    cotangent_in_tuple=lambda: jax.grad(vjp_of(keep, lambda r, g: ((g,),)))(F(2)),
    cotangent_text=lambda: jax.grad(vjp_of(keep, lambda r, g: ("a",)))(F(2)),
    cotangent_shape=lambda: jax.grad(vjp_of(keep, lambda r, g: (v3,)))(F(2)),
    no_rule=lambda: jax.custom_vjp(square)(F(1)),
    residual_text=lambda: jax.grad(vjp_of(lambda x: (x, "a"), lambda r, g: (g,)))(F(2)),
)  # fmt: skip

# checkpoint

named = lambda x: jax.ad_checkpoint.checkpoint_name(x, "a")
policies = jax.checkpoint_policies
offload = policies.save_and_offload_only_these_names(
    names_which_can_be_saved=["b"], names_which_can_be_offloaded=["a"], offload_src="device",
    offload_dst="pinned_host",
)  # fmt: skip


def looped(x):
    def step(c, y):
        z = named(jnp.sin(c * y))
        return jnp.cos(z) * c, z * jax.ad_checkpoint.checkpoint_name(y + c, "b")

    c, ys = lax.scan(step, x, m23)
    return c.sum() + ys.sum()


def stored(fun, *args):
    """Types of what is stored; text on where it is from differs."""
    return [str(a) for a, _ in jax._src.ad_checkpoint.saved_residuals(fun, *args)]


@scenario
def checkpoint_text_of_offloading():
    f = jax.checkpoint(lambda x: jnp.sin(named(jnp.cos(x))).sum(), policy=offload)
    return str(jax.make_jaxpr(jax.grad(f))(v3)).split("policy=")[0]


for _name, _policy in dict(
    none=None, everything=policies.everything_saveable, a=policies.save_only_these_names("a"),
    both=policies.save_only_these_names("a", "b"), offload=offload,
    but_a=policies.save_anything_except_these_names("a"),
).items():  # fmt: skip
    _f = jax.checkpoint(looped, policy=_policy)
    add(
        f"checkpoint_loop_{_name}",
        gradient=functools.partial(lambda f: jax.jit(jax.grad(f))(v3), _f),
        stored=functools.partial(lambda f: stored(f, v3), _f),
    )
add(
    "checkpoint",
    static_list=lambda: jax.checkpoint(lambda x, n: x * n[0], static_argnums=1)(F(2), [3]),
    static_position=lambda: jax.checkpoint(times, static_argnums=2)(F(2), F(3)),
    concrete=lambda: jax.checkpoint(square, concrete=False),
    name_of_text=lambda: named("text"),
    remat_static_argnames=lambda: jax.remat(times, static_argnames="y"),
)

# Control flow

add(
    "cond",
    two_operands=lambda: lax.cond(True, F(1), jnp.sin, F(2), jnp.cos),
    two_operands_false=lambda: lax.cond(False, F(1), jnp.sin, F(2), jnp.cos),
    operand=lambda: lax.cond(True, jnp.sin, jnp.cos, operand=F(2)),
    operand_twice=lambda: lax.cond(True, jnp.sin, jnp.cos, F(1), operand=F(2)),
    linear=lambda: lax.cond(True, jnp.sin, jnp.cos, F(1), linear=(False,)),
    switch_linear=lambda: lax.switch(0, [jnp.sin, jnp.cos], F(1), linear=(False,)),
)
