"""Perceptrons and transformers: what is mostly products of matrices."""

import math

from cpu.frameworks import descended, functional, jax, jnp, torch, trained
from cpu.programs import normal, program

LAYERS = (784, 512, 512, 10)


def perceptron(rng, dtype="float32"):
    layers = [
        {"w": normal(rng, n, m, scale=n**-0.5, dtype=dtype), "b": normal(rng, m, dtype=dtype)}
        for n, m in zip(LAYERS, LAYERS[1:])
    ]
    return layers, normal(rng, 128, LAYERS[0], dtype=dtype), rng.integers(0, 10, 128)


def jax_perceptron_loss(layers, x, labels):
    for layer in layers[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    logits = x @ layers[-1]["w"] + layers[-1]["b"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -chosen.mean()


def torch_perceptron_loss(layers, x, labels):
    for layer in layers[:-1]:
        x = torch.relu(torch.addmm(layer["b"], x, layer["w"]))
    return functional.cross_entropy(torch.addmm(layers[-1]["b"], x, layers[-1]["w"]), labels)


PERCEPTRON_FLOP = 6 * 128 * sum(n * m for n, m in zip(LAYERS, LAYERS[1:])) - 2 * 128 * 784 * 512


@program("MLP, train step", flop=PERCEPTRON_FLOP)
class Perceptron:
    inputs = perceptron

    def jax(layers, x, labels):
        return descended(jax_perceptron_loss)(layers, x, labels)

    def torch(layers, x, labels):
        return trained(torch_perceptron_loss, layers, x, labels)


@program("MLP in float64, train step", flop=PERCEPTRON_FLOP * 2, x64=True)
class DoublePerceptron:
    """Counted twice: the peak is float32's."""

    def inputs(rng):
        return perceptron(rng, "float64")

    def jax(layers, x, labels):
        return descended(jax_perceptron_loss)(layers, x, labels)

    def torch(layers, x, labels):
        return trained(torch_perceptron_loss, layers, x, labels)


@program("MLP in bfloat16 and float32, train step", flop=PERCEPTRON_FLOP)
class MixedPerceptron:
    """Parameters in float32, and products in bfloat16."""

    inputs = perceptron

    def jax(layers, x, labels):
        def loss(layers, x, labels):
            halves = jax.tree.map(lambda p: p.astype(jnp.bfloat16), layers)
            return jax_perceptron_loss(halves, x.astype(jnp.bfloat16), labels).astype("float32")

        return descended(loss)(layers, x, labels)

    def torch(layers, x, labels):
        def loss(layers, x, labels):
            with torch.autocast("cpu", torch.bfloat16):
                return torch_perceptron_loss(layers, x, labels)

        return trained(loss, layers, x, labels)


WIDTH, HEADS, LENGTH, BATCH, WORDS, DEPTH = 256, 4, 128, 8, 1000, 4


def transformer_parameters(rng):
    matrix = lambda n, m: normal(rng, n, m, scale=n**-0.5)
    block = lambda: {
        "qkv": matrix(WIDTH, 3 * WIDTH),
        "out": matrix(WIDTH, WIDTH),
        "up": matrix(WIDTH, 4 * WIDTH),
        "down": matrix(4 * WIDTH, WIDTH),
    }
    return {"embedding": matrix(WORDS, WIDTH), "blocks": [block() for _ in range(DEPTH)]}


def jax_normalized(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


@program(
    "transformer, train step",
    flop=6 * BATCH * LENGTH * (DEPTH * 12 * WIDTH**2 + WORDS * WIDTH)
    + DEPTH * 12 * BATCH * LENGTH**2 * WIDTH,
)
class Transformer:
    """4 layers of width 256, on 8 sequences of 128 tokens."""

    def inputs(rng):
        return transformer_parameters(rng), rng.integers(0, WORDS, (BATCH, LENGTH + 1))

    def jax(parameters, tokens):
        def loss(parameters, tokens):
            x = parameters["embedding"][tokens[:, :-1]]
            causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
            for block in parameters["blocks"]:
                qkv = (jax_normalized(x) @ block["qkv"]).reshape(BATCH, LENGTH, 3, HEADS, -1)
                q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
                scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(WIDTH // HEADS)
                weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
                mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
                x = x + mixed @ block["out"]
                x = x + jax.nn.gelu(jax_normalized(x) @ block["up"]) @ block["down"]
            logits = jax_normalized(x) @ parameters["embedding"].T
            likely = jax.nn.log_softmax(logits)
            return -jnp.take_along_axis(likely, tokens[:, 1:, None], axis=-1).mean()

        return descended(loss)(parameters, tokens)

    def torch(parameters, tokens):
        normalized = lambda x: functional.layer_norm(x, (WIDTH,))

        def loss(parameters, tokens):
            x = functional.embedding(tokens[:, :-1], parameters["embedding"])
            for block in parameters["blocks"]:
                qkv = (normalized(x) @ block["qkv"]).reshape(BATCH, LENGTH, 3, HEADS, -1)
                q, k, v = qkv.permute(2, 0, 3, 1, 4)
                mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + mixed.transpose(1, 2).reshape(x.shape) @ block["out"]
                hidden = functional.gelu(normalized(x) @ block["up"], approximate="tanh")
                x = x + hidden @ block["down"]
            logits = normalized(x) @ parameters["embedding"].T
            return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

        return trained(loss, parameters, tokens)


def attention_inputs(rng):
    return tuple(normal(rng, 4, 256, 8, 32) for _ in range(4))


ATTENTION_FLOP = 12 * 4 * 8 * 256 * 256 * 32


def jax_attention(q, k, v, cotangent, causal):
    loss = lambda q, k, v: jnp.sum(
        jax.nn.dot_product_attention(q, k, v, is_causal=causal) * cotangent
    )
    return jax.grad(loss, (0, 1, 2))(q, k, v)


def torch_attention(q, k, v, cotangent, causal):
    q, k, v = [x.clone().requires_grad_() for x in (q, k, v)]

    def call():
        heads = [x.transpose(1, 2) for x in (q, k, v)]
        out = functional.scaled_dot_product_attention(*heads, is_causal=causal)
        return torch.autograd.grad(out.transpose(1, 2), (q, k, v), cotangent)

    return call


@program("attention, gradient", flop=ATTENTION_FLOP)
class Attention:
    inputs = attention_inputs

    def jax(q, k, v, cotangent):
        return jax_attention(q, k, v, cotangent, False)

    def torch(q, k, v, cotangent):
        return torch_attention(q, k, v, cotangent, False)


@program("causal attention, gradient", flop=ATTENTION_FLOP / 2)
class CausalAttention:
    inputs = attention_inputs

    def jax(q, k, v, cotangent):
        return jax_attention(q, k, v, cotangent, True)

    def torch(q, k, v, cotangent):
        return torch_attention(q, k, v, cotangent, True)
