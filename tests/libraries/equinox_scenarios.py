"""Models of equinox, in training, and what is around them."""

import io
from typing import Any

import equinox as eqx
import numpy as np
import optax
from op_cases import Programs

import jax
import jax.numpy as jnp

CASES = Programs()
scenario = CASES.define


def rows(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def arrays(model):
    return jax.tree.leaves(eqx.filter(model, eqx.is_array))


class Layer(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    feed: eqx.nn.MLP
    norms: tuple[eqx.nn.LayerNorm, eqx.nn.RMSNorm]
    dropout: eqx.nn.Dropout

    def __init__(self, width, key):
        first, second = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(2, width, key=first)
        self.feed = eqx.nn.MLP(width, width, 2 * width, 1, jax.nn.gelu, key=second)
        self.norms = eqx.nn.LayerNorm(width), eqx.nn.RMSNorm(width)
        self.dropout = eqx.nn.Dropout(0.1)

    def __call__(self, x, key):
        before, after = self.norms
        y = jax.vmap(before)(x)
        causal = jnp.tril(jnp.ones((len(x), len(x)), bool))
        x = x + self.dropout(self.attention(y, y, y, mask=causal), key=key)
        return x + jax.vmap(self.feed)(jax.vmap(after)(x))


class Transformer(eqx.Module):
    embedding: eqx.nn.Embedding
    rotary: eqx.nn.RotaryPositionalEmbedding
    layers: list[Layer]
    head: eqx.nn.Linear

    def __init__(self, vocabulary, width, depth, key):
        keys = jax.random.split(key, depth + 2)
        self.embedding = eqx.nn.Embedding(vocabulary, width, key=keys[0])
        self.rotary = eqx.nn.RotaryPositionalEmbedding(width)
        self.layers = [Layer(width, k) for k in keys[2:]]
        self.head = eqx.nn.Linear(width, vocabulary, use_bias=False, key=keys[1])

    def __call__(self, tokens, key):
        x = self.rotary(jax.vmap(self.embedding)(tokens))
        for layer, k in zip(self.layers, jax.random.split(key, len(self.layers))):
            x = eqx.filter_checkpoint(layer)(x, k)
        return jax.vmap(self.head)(x)


@scenario
def transformer():
    model = Transformer(11, 8, 2, jax.random.key(0))
    tokens = (np.arange(7) ** 2 + np.arange(3)[:, None]) % 11
    optimizer = optax.adam(1e-2)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_value_and_grad
    def loss(model, key):
        keys = jax.random.split(key, len(tokens))
        logits = jax.vmap(model)(tokens[:, :-1], keys)
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    @eqx.filter_jit
    def step(model, state, key):
        value, grads = loss(model, key)
        updates, state = optimizer.update(grads, state)
        return eqx.apply_updates(model, updates), state, value

    losses = []
    for key in jax.random.split(jax.random.key(1), 4):
        model, state, value = step(model, state, key)
        losses.append(value)
    return losses, arrays(model.head)


class WithStatistics(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    head: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(2, 3, 3, key=first)
        self.norm = eqx.nn.BatchNorm(3, axis_name="batch", mode="batch")
        self.head = eqx.nn.Linear(3 * 4 * 4, 2, key=second)

    def __call__(self, x, state):
        x, state = self.norm(self.conv(x), state)
        return self.head(jax.nn.relu(x).ravel()), state


@scenario
def batch_statistics():
    model, state = eqx.nn.make_with_state(WithStatistics)(jax.random.key(2))
    images = rows(4, 2, 6, 6)

    @eqx.filter_jit
    def step(model, state):
        def loss(model, state):
            batched = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
            out, state = batched(images, state)
            return jnp.mean(out**2), state

        (value, state), grads = eqx.filter_value_and_grad(loss, has_aux=True)(model, state)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads)), state, value

    losses = []
    for _ in range(3):
        model, state, value = step(model, state)
        losses.append(value)
    out, _ = jax.vmap(eqx.nn.inference_mode(model), in_axes=(0, None), axis_name="batch")(
        images, state
    )
    return losses, out, jax.tree.leaves(state)


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    readout: eqx.nn.Linear

    def __call__(self, xs):
        step = lambda h, x: (self.cell(x, h), None)
        h, _ = jax.lax.scan(step, jnp.zeros(self.cell.hidden_size), xs)
        return self.readout(h)[0]


@scenario
def recurrent_classifier():
    first, second = jax.random.split(jax.random.key(3))
    model = Recurrent(eqx.nn.GRUCell(2, 5, key=first), eqx.nn.Linear(5, 1, key=second))
    x = rows(6, 4, 2, seed=3)
    loss = lambda m: jnp.mean(optax.sigmoid_binary_cross_entropy(jax.vmap(m)(x), x[:, 0, 0] > 0))
    value, grads = eqx.filter_jit(eqx.filter_value_and_grad(loss))(model)
    return value, arrays(grads)


@scenario
def ensemble():
    make = eqx.filter_vmap(lambda key: eqx.nn.MLP(3, 2, 4, 2, key=key))
    models = make(jax.random.split(jax.random.key(4), 5))
    x = rows(5, 3, seed=4)
    apart = eqx.filter_vmap(lambda m, x: m(x))(models, x)
    together = eqx.filter_vmap(lambda m, x: m(x), in_axes=(eqx.if_array(0), None))(models, x[0])
    return apart, together


class Counted(eqx.Module):
    weight: jax.Array
    name: str = eqx.field(static=True)
    scale: Any = 2.0

    def __check_init__(self):
        if self.weight.ndim != 2:
            raise ValueError("weight is no matrix")

    def __call__(self, x):
        return self.scale * self.weight @ x


@scenario
def surgery_and_serialization():
    model = Counted(jnp.asarray(rows(2, 3, seed=5)), "mine")
    changed = eqx.tree_at(lambda m: (m.weight, m.scale), model, (jnp.ones((2, 3)), 3.0))
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, model)
    file.seek(0)
    read = eqx.tree_deserialise_leaves(file, changed)
    dynamic, static = eqx.partition(model, eqx.is_array)
    whole = eqx.combine(dynamic, static)
    shapes = eqx.filter_eval_shape(model, jax.ShapeDtypeStruct((3,), jnp.float32))
    text = eqx.tree_pformat(model)
    x = rows(3, seed=6)
    return changed(x), read(x), whole(x), str(shapes), text, eqx.tree_equal(read, model)


@scenario
def errors_in_compiled_code():
    @eqx.filter_jit
    def positive(x):
        x = eqx.error_if(x, x < 0, "there is a negative number")
        return jnp.sqrt(x)

    try:
        positive(jnp.array([1.0, -1.0])).block_until_ready()
    except RuntimeError as error:
        return positive(jnp.array([4.0])), "negative number" in str(error)


@scenario
def loops_with_checkpoints():
    def run(x):
        step = lambda c: (c[0] * jnp.sin(c[1]) + 1, c[1] * 1.1)
        cond = lambda c: c[1] < 5
        out, _ = eqx.internal.while_loop(cond, step, (x, x), kind="checkpointed", max_steps=64)
        return out

    bounded = lambda x: eqx.internal.while_loop(
        lambda c: c < 9, lambda c: c * x, x, kind="bounded", max_steps=16
    )
    return jax.value_and_grad(run)(0.7), jax.jit(jax.value_and_grad(bounded))(1.4)


@scenario
def custom_derivatives_and_jaxprs():
    @eqx.filter_custom_vjp
    def clipped(x, bound):
        return x["a"] * bound

    clipped.def_fwd(lambda perturbed, x, bound: (clipped(x, bound), bound))
    clipped.def_bwd(lambda bound, g, perturbed, x, _: {"a": jnp.clip(g, -bound, bound)})
    grads = eqx.filter_grad(lambda x: jnp.sum(clipped(x, 0.5) * 3))({"a": jnp.arange(3.0)})
    out, tangent = eqx.filter_jvp(lambda x, n: x**n, (jnp.array(2.0), 3), (jnp.array(1.0), None))
    jaxpr, *_ = eqx.filter_make_jaxpr(lambda x, f: f(x))(jnp.ones(2), jnp.tanh)
    hessian = eqx.filter_hessian(lambda x: jnp.sum(x**3))(jnp.arange(3.0))
    return grads, out, tangent, str(jaxpr), hessian
