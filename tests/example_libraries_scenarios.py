"""Scenarios of the example libraries and of `composite` and `scaled_dot`: see op_cases.py."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.example_libraries import optimizers, stax

CASES = Programs()
add = CASES.group
F = np.float32


# Optimizers

params = {"a": np.array([1, 2], F), "b": F(0.5), "m": np.ones((2, 3), F)}
o = optimizers


def optimize(make):
    init, update, get_params = make()
    state = init(params)
    for i in range(3):
        state = update(i, jax.tree.map(lambda x, i=i: x * (i + 0.3), get_params(state)), state)
    return get_params(state), state


add(
    "optimizer",
    **{
        name: functools.partial(optimize, make)
        for name, make in dict(
            adagrad=lambda: o.adagrad(0.1),
            adam=lambda: o.adam(0.1, b1=0.8),
            adamax=lambda: o.adamax(o.exponential_decay(0.1, 2, 0.5)),
            momentum=lambda: o.momentum(0.1, 0.9),
            nesterov=lambda: o.nesterov(0.1, 0.9),
            rmsprop=lambda: o.rmsprop(0.1),
            rmsprop_momentum=lambda: o.rmsprop_momentum(0.1, momentum=0.5),
            sgd=lambda: o.sgd(0.1),
            sm3=lambda: o.sm3(0.1),
        ).items()
    },
    wrong_tree=lambda: o.sgd(0.1).update_fn(0, {"a": 1.0}, o.sgd(0.1).init_fn(params)),
    unpacked=lambda: jax.tree.map(
        lambda j: j.subtree, o.unpack_optimizer_state(o.adam(1).init_fn(params))
    ),  # fmt: skip
    packed_again=lambda: o.pack_optimizer_state(
        o.unpack_optimizer_state(o.adam(1).init_fn(params))
    ),  # fmt: skip
    in_jit=lambda: jax.jit(lambda s: o.adam(0.1).update_fn(3, params, s))(
        o.adam(1).init_fn(params)
    ),  # fmt: skip
    schedules=lambda: [
        f(F(3))
        for f in (
            o.constant(2.0),
            o.exponential_decay(1.0, 2, 0.5),
            o.inverse_time_decay(1.0, 2, 0.5),
            o.inverse_time_decay(1.0, 2, 0.5, True),
            o.polynomial_decay(1.0, 10, 0.1),
            o.polynomial_decay(1.0, 10, 0.1, 2.0),
            o.polynomial_decay(1.0, 2, 0.1),
            o.piecewise_constant([1, 2, 4], [1.0, 2.0, 3.0, 4.0]),
            o.piecewise_constant([1, 2, 3], [1.0, 2.0, 3.0, 4.0]),
        )
    ],
    boundaries=lambda: o.piecewise_constant([1, 2], [1.0, 2.0]),
    not_sequences=lambda: o.piecewise_constant([1, 2], 3.0),
    not_schedule=lambda: o.sgd(jnp.ones(2)),
    l2_norm=lambda: o.l2_norm(params),
    clip=lambda: (o.clip_grads(params, 1.0), o.clip_grads(params, 100.0)),
)

# Layers

x = np.cos(np.arange(2 * 8 * 8 * 3, dtype=F)).reshape(2, 8, 8, 3)
dims = ("NHWC", "HWIO", "NHWC")


def layer(make, x=x, **kwargs):
    def run():
        init, apply = make()
        shape, params = init(jax.random.PRNGKey(0), x.shape)
        return tuple(map(int, shape)), params, apply(params, x, **kwargs)

    return run


key = np.array([0, 7], np.uint32)
fan = lambda last: (
    lambda: stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Relu), last)
)
add(
    "layer",
    avg_pool=layer(lambda: stax.AvgPool((3, 3), (2, 2), "SAME")),
    avg_pool_spec=layer(
        lambda: stax.AvgPool((2, 2), padding="SAME", spec="NCHW"), x.transpose(0, 3, 1, 2)
    ),  # fmt: skip
    batch_norm=layer(lambda: stax.BatchNorm()),
    batch_norm_no_center=layer(lambda: stax.BatchNorm(axis=(0, 1), center=False)),
    batch_norm_no_scale=layer(lambda: stax.BatchNorm(axis=0, scale=False)),
    conv=layer(lambda: stax.GeneralConv(dims, 4, (3, 3), (2, 2), "SAME")),
    conv_transpose=layer(lambda: stax.ConvTranspose(4, (3, 3))),
    dense=layer(lambda: stax.Dense(5)),
    dropout=layer(lambda: stax.Dropout(0.7), rng=key),
    dropout_test=layer(lambda: stax.Dropout(0.7, "test"), rng=key),
    dropout_without_key=layer(lambda: stax.Dropout(0.7)),
    fan_in_concat=layer(fan(stax.FanInConcat(1))),
    fan_in_sum=layer(fan(stax.FanInSum)),
    flatten=layer(lambda: stax.Flatten),
    max_pool=layer(lambda: stax.MaxPool((2, 2))),
    relus=layer(lambda: stax.serial(stax.Elu, stax.LeakyRelu, stax.Selu, stax.Gelu, stax.Relu)),
    serial_dropout=layer(lambda: stax.serial(stax.Dense(2), stax.Dropout(0.5)), rng=key),
    shape_dependent=layer(lambda: stax.shape_dependent(lambda s: stax.Dense(s[-1] * 2))),
    smooth=layer(lambda: stax.serial(stax.Tanh, stax.Exp, stax.Softplus, stax.Sigmoid)),
    softmax=layer(lambda: stax.serial(stax.Softmax, stax.LogSoftmax, stax.Identity)),
    sum_pool=layer(lambda: stax.SumPool((3, 2), (2, 2))),
)

# composite

v = np.arange(3, dtype=F)
scale = lax.composite(lambda x, /, *, k=2, name="a", none=None: x * k, name="my.scale", version=3)


def composite_text(fun, *args):
    return jax.jit(fun).lower(*args).as_text()


def attribute(value):
    text = composite_text(lambda x: lax.composite(lambda x, **_: x, "a.b")(x, k=value), v)
    return next(line for line in text.splitlines() if "composite" in line)


add(
    "composite",
    value=lambda: scale(v, k=3),
    jaxpr=lambda: str(jax.make_jaxpr(lambda x: scale(x, k=3, name="b"))(v)),
    text=lambda: composite_text(functools.partial(scale, k=3, name="b"), v),
    tree=lambda: jax.jit(lax.composite(lambda t: {"a": t["b"], "c": (1.0,)}, "c.d"))({"b": v}),
    inner_jit=lambda: composite_text(lax.composite(jax.jit(jnp.sin), "a.b"), v),
    constant=lambda: lax.composite(lambda x: x + v, "a.b")(v),
    jvp=lambda: jax.jvp(scale, (v,), (v,)),
    vmap=lambda: jax.vmap(scale)(v),
    tracer=lambda: jax.jit(lambda y: lax.composite(lambda x: x + y, "a.b")(v))(v),
    bad_name=lambda: composite_text(lax.composite(lambda x: x, "a"), v),
    bad_attribute=lambda: attribute(lambda: 1),
    attributes=lambda: [
        attribute(value)
        for value in (
            1.5, True, -2, 2**40, "é", b"a", (1, 2), [1, "a"], (), {"z": 1}, np.arange(3), F(2),
            np.int8(3), np.dtype("int8"), [1.0, 2.0],
        )
    ],
)  # fmt: skip

# scaled_dot

f8 = lambda a: jnp.asarray(a).astype(jnp.float8_e4m3fn)
e8 = lambda a: jnp.asarray(2.0 ** np.asarray(a)).astype(jnp.float8_e8m0fnu)
lhs, rhs = np.cos(np.arange(32.0)).reshape(4, 8), np.sin(np.arange(48.0)).reshape(8, 6)
lhs_scale, rhs_scale = np.arange(8).reshape(4, 2) - 4, np.arange(12).reshape(2, 6) - 5


def scaled(dtype=jnp.float32, lhs=lhs, rhs=rhs, l=lhs_scale, r=rhs_scale, dims=None):
    return lax.scaled_dot(
        f8(lhs), f8(rhs), lhs_scale=None if l is None else e8(l),
        rhs_scale=None if r is None else e8(r), dimension_numbers=dims,
        preferred_element_type=dtype,
    ).astype(F)  # fmt: skip


two = lambda x: np.stack([x, x[::-1]])
add(
    "scaled_dot",
    f32=lambda: scaled(),
    default=lambda: scaled(None),
    no_scales=lambda: scaled(l=None, r=None),
    one_scale=lambda: scaled(l=None),
    jit=lambda: jax.jit(scaled)(),
    batch=lambda: scaled(jnp.float32, two(lhs), two(rhs), two(lhs_scale), two(rhs_scale)),
    dims=lambda: scaled(rhs=rhs.T, r=rhs_scale.T, dims=(((1,), (1,)), ((), ()))),
    vmap=lambda: jax.vmap(
        lambda l, r: lax.scaled_dot(f8(l), f8(rhs), lhs_scale=e8(lhs_scale), rhs_scale=r).astype(F)
    )(  # fmt: skip
        two(lhs), e8(two(rhs_scale))
    ),
    vector=lambda: scaled(lhs=lhs[0], l=None),
    contracting=lambda: scaled(rhs=rhs[:4], r=None),
    scale_rank=lambda: scaled(l=lhs_scale[0]),
    scale_shape=lambda: scaled(l=lhs_scale[:2]),
    scale_multiple=lambda: scaled(l=np.ones((4, 3))),
    scale_of_each=lambda: scaled(l=np.ones((4, 8))),
    jvp=lambda: jax.jvp(lambda a: lax.scaled_dot(a, a.T), (lhs.astype(F),), (lhs.astype(F),)),
)
