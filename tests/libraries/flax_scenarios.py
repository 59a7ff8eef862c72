"""Models of flax, linen and nnx, in training."""

import flax.linen as nn
import numpy as np
import optax
from flax import nnx, serialization, traverse_util
from flax.training import train_state
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 8)
CASES = Programs()
scenario = CASES.define


def rows(count, width, seed=0):
    return np.random.RandomState(seed).randn(count, width).astype(np.float32)


def descend(loss, params, optimizer, steps):
    """The parameters and losses after some steps."""

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    state, losses = optimizer.init(params), []
    for _ in range(steps):
        params, state, value = step(params, state)
        losses.append(value)
    return params, jnp.stack(losses)


# linen


class Regressor(nn.Module):
    widths: tuple[int, ...]

    @nn.compact
    def __call__(self, x):
        for width in self.widths:
            x = nn.gelu(nn.Dense(width)(x))
        return nn.Dense(1, use_bias=False)(x)


@scenario
def linen_regression():
    model, x = Regressor((16, 8)), rows(32, 5)
    y = np.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    params = model.init(jax.random.key(0), x)
    loss = lambda p: jnp.mean((model.apply(p, x) - y) ** 2)
    return descend(loss, params, optax.adam(1e-2), 10)


class Pictures(nn.Module):
    @nn.compact
    def __call__(self, x, training):
        x = nn.Conv(4, (3, 3), strides=2)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not training, momentum=0.9)(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2)).reshape(len(x), -1)
        x = nn.Dropout(0.3, deterministic=not training)(x)
        return nn.Dense(3)(x)


class StateWithStatistics(train_state.TrainState):
    batch_stats: dict


@scenario
def linen_convolutions_with_statistics():
    model = Pictures()
    images = rows(8, 8 * 8 * 2).reshape(8, 8, 8, 2)
    labels = np.arange(8) % 3
    variables = model.init(jax.random.key(1), images, training=False)
    state = StateWithStatistics.create(
        apply_fn=model.apply,
        params=variables["params"],
        batch_stats=variables["batch_stats"],
        tx=optax.sgd(0.05, momentum=0.9),
    )

    @jax.jit
    def step(state, key):
        def loss(params):
            logits, updates = state.apply_fn(
                {"params": params, "batch_stats": state.batch_stats},
                images,
                training=True,
                mutable=["batch_stats"],
                rngs={"dropout": key},
            )
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
            return losses.mean(), updates

        (value, updates), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        state = state.apply_gradients(grads=grads)
        return state.replace(batch_stats=updates["batch_stats"]), value

    losses = []
    for key in jax.random.split(jax.random.key(2), 4):
        state, value = step(state, key)
        losses.append(value)
    evaluated = model.apply(
        {"params": state.params, "batch_stats": state.batch_stats}, images, training=False
    )
    return losses, state.batch_stats, evaluated


class Layer(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x, mask):
        attention = nn.MultiHeadDotProductAttention(self.heads, use_bias=False)
        x = x + attention(nn.LayerNorm()(x), mask=mask)
        width = x.shape[-1]
        hidden = nn.silu(nn.Dense(2 * width)(nn.RMSNorm()(x)))
        return x + nn.Dense(width)(hidden)


class Language(nn.Module):
    vocabulary: int
    width: int
    depth: int

    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(self.vocabulary, self.width)
        positions = self.param(
            "positions", nn.initializers.normal(0.02), (tokens.shape[-1], self.width)
        )
        x, mask = embed(tokens) + positions, nn.make_causal_mask(tokens)
        for _ in range(self.depth):
            x = nn.remat(Layer)(2)(x, mask)
        return embed.attend(nn.LayerNorm()(x))


@scenario
def linen_transformer():
    model = Language(vocabulary=11, width=8, depth=2)
    tokens = (np.arange(7) ** 2 + np.arange(3)[:, None]) % 11
    params = model.init(jax.random.key(3), tokens[:, :-1])

    def loss(params):
        logits = model.apply(params, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 3, 10)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    params, losses = descend(loss, params, optimizer, 6)
    return losses, jax.tree.map(jnp.linalg.norm, params)


class Sequences(nn.Module):
    @nn.compact
    def __call__(self, x):
        forward, backward = nn.RNN(nn.LSTMCell(4)), nn.RNN(nn.GRUCell(4))
        return nn.Bidirectional(forward, backward)(x)


@scenario
def linen_recurrent():
    x = rows(6, 15, seed=4).reshape(6, 5, 3)
    model = Sequences()
    params = model.init(jax.random.key(4), x)
    loss = lambda p: jnp.mean(model.apply(p, x) ** 2)
    grads = jax.jit(jax.grad(loss))(params)
    return model.apply(params, x), grads


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        return x + nn.tanh(nn.Dense(x.shape[-1])(x)), x.mean()


class Deep(nn.Module):
    @nn.compact
    def __call__(self, x):
        layers = nn.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        return layers()(x, None)


@scenario
def linen_scan_over_layers_of_an_ensemble():
    ensemble = nn.vmap(
        Deep,
        variable_axes={"params": 0},
        split_rngs={"params": True},
        in_axes=None,
        axis_size=2,
    )
    model, x = ensemble(), rows(4, 3, seed=5)
    params = model.init(jax.random.key(5), x)
    out = jax.jit(model.apply)(params, x)
    grads = jax.grad(lambda p: model.apply(p, x)[0].sum())(params)
    return out, grads, jax.tree.map(lambda v: str(v.shape), params)


class Placed(nn.Module):
    @nn.compact
    def __call__(self, x):
        into = nn.with_partitioning(nn.initializers.lecun_normal(), (None, "model"))
        out = nn.with_partitioning(nn.initializers.lecun_normal(), ("model", None))
        return nn.Dense(4, kernel_init=out)(nn.relu(nn.Dense(8, kernel_init=into)(x)))


@scenario
def linen_partitioned_parameters():
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))
    model = Placed()
    x = jax.device_put(rows(4, 6, seed=6), NamedSharding(mesh, P("data")))
    shapes = jax.eval_shape(model.init, jax.random.key(6), x)
    specs = nn.get_partition_spec(shapes)
    shardings = nn.get_sharding(shapes, mesh)
    params = jax.jit(model.init, out_shardings=shardings)(jax.random.key(6), x)
    loss = lambda p: jnp.mean(model.apply(p, x) ** 2)
    trained, losses = descend(loss, params, optax.sgd(0.1), 3)
    kernels = [v for v in jax.tree.leaves(trained) if v.ndim == 2]
    text = str(traverse_util.flatten_dict(specs, sep="/"))
    return losses, nn.unbox(trained), text, [str(k.sharding.spec) for k in kernels]


@scenario
def linen_serialization_and_tables():
    model, x = Regressor((3,)), rows(2, 4, seed=7)
    params = model.init(jax.random.key(7), x)
    data = serialization.to_bytes(params)
    back = serialization.from_bytes(jax.tree.map(jnp.zeros_like, params), data)
    table = model.tabulate(jax.random.key(7), x, console_kwargs={"width": 100})
    return back, serialization.to_state_dict(params), table


# nnx


class Classifier(nnx.Module):
    def __init__(self, width, classes, *, rngs):
        # A bias before the norm would have gradients of rounding errors alone, of which Adam makes whole steps.
        self.first = nnx.Linear(4, width, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.last = nnx.Linear(width, classes, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))


@scenario
def nnx_training():
    model = Classifier(8, 3, rngs=nnx.Rngs(0, dropout=1))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))
    x, labels = rows(12, 4, seed=8), np.arange(12) % 3

    @nnx.jit
    def step(model, optimizer, metrics):
        def loss(model):
            logits = model(x)
            return optax.losses.softmax_cross_entropy_with_integer_labels(
                logits, labels
            ).mean(), logits

        (value, logits), grads = nnx.value_and_grad(loss, has_aux=True)(model)
        metrics.update(loss=value, logits=logits, labels=jnp.asarray(labels))
        optimizer.update(model, grads)
        return value

    losses = [step(model, optimizer, metrics) for _ in range(4)]
    model.eval()
    return losses, metrics.compute(), nnx.to_pure_dict(nnx.state(model, nnx.Param)), model(x)


@scenario
def nnx_functional_api():
    model = Classifier(5, 2, rngs=nnx.Rngs(2))
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    x = rows(3, 4, seed=9)

    @jax.jit
    def gradient(params, rest):
        def loss(params):
            model = nnx.merge(graph, params, rest, copy=True)
            return jnp.sum(model(x) ** 2), nnx.state(model, nnx.BatchStat)

        return jax.grad(loss, has_aux=True)(params)

    grads, statistics = gradient(params, rest)
    return nnx.to_pure_dict(grads), nnx.to_pure_dict(statistics)


class Residual(nnx.Module):
    def __init__(self, width, *, rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.linear = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, x):
        return x + nnx.gelu(self.linear(self.norm(x)))


@scenario
def nnx_scan_over_layers():
    @nnx.split_rngs(splits=3)
    @nnx.vmap(in_axes=0, out_axes=0)
    def create(rngs):
        return Residual(4, rngs=rngs)

    @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
    def through(layer, x):
        return layer(x)

    layers, x = create(nnx.Rngs(3)), rows(2, 4, seed=10)
    grads = nnx.grad(lambda layers: through(layers, x).sum())(layers)
    return through(layers, x), nnx.to_pure_dict(grads)


@scenario
def nnx_attention_and_decoding():
    attention = nnx.MultiHeadAttention(num_heads=2, in_features=6, decode=False, rngs=nnx.Rngs(4))
    x = rows(5, 6, seed=11)[None]
    whole = attention(x, mask=nnx.make_causal_mask(x[..., 0]))
    attention.init_cache(x.shape)
    stepwise = [attention(x[:, i : i + 1], decode=True) for i in range(x.shape[1])]
    return whole, jnp.concatenate(stepwise, 1)
