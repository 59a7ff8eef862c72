"""Recurrent cells, and the layers around them: embeddings, norms, the loss over a large vocabulary, beam search."""

from cpu.frameworks import descended, functional, jax, jnp, lax, torch
from cpu.programs import normal, program

LENGTH, BATCH, WIDTH = 64, 32, 128


def cell(rng, gates):
    parameters = {
        "x": normal(rng, WIDTH, gates * WIDTH, scale=WIDTH**-0.5),
        "h": normal(rng, WIDTH, gates * WIDTH, scale=WIDTH**-0.5),
        "b": normal(rng, gates * WIDTH),
    }
    return parameters, normal(rng, LENGTH, BATCH, WIDTH)


def torch_recurrent(make, parameters, x):
    """PyTorch's own loop over a cell, which has no gradient by a second bias."""
    layer = make(WIDTH, WIDTH)
    layer.weight_ih_l0.data = parameters["x"].T.contiguous()
    layer.weight_hh_l0.data = parameters["h"].T.contiguous()
    leaves = list(layer.parameters())
    return lambda: torch.autograd.grad((layer(x)[0] ** 2).mean(), leaves)


@program("LSTM, train step", flop=6 * LENGTH * BATCH * 2 * WIDTH * 4 * WIDTH)
class LSTM:
    def inputs(rng):
        return cell(rng, 4)

    def jax(parameters, x):
        def loss(parameters, x):
            def step(state, x):
                h, c = state
                gates = x + h @ parameters["h"]
                i, f, g, o = jnp.split(gates, 4, axis=-1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h

            zero = jnp.zeros((BATCH, WIDTH))
            inputs = x @ parameters["x"] + parameters["b"]
            return jnp.mean(lax.scan(step, (zero, zero), inputs)[1] ** 2)

        return descended(loss)(parameters, x)

    def torch(parameters, x):
        return torch_recurrent(torch.nn.LSTM, parameters, x)


@program("GRU, train step", flop=6 * LENGTH * BATCH * 2 * WIDTH * 3 * WIDTH)
class GRU:
    def inputs(rng):
        return cell(rng, 3)

    def jax(parameters, x):
        def loss(parameters, x):
            def step(h, x):
                xr, xz, xn = jnp.split(x, 3, axis=-1)
                hr, hz, hn = jnp.split(h @ parameters["h"], 3, axis=-1)
                r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
                h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
                return h, h

            inputs = x @ parameters["x"] + parameters["b"]
            return jnp.mean(lax.scan(step, jnp.zeros((BATCH, WIDTH)), inputs)[1] ** 2)

        return descended(loss)(parameters, x)

    def torch(parameters, x):
        return torch_recurrent(torch.nn.GRU, parameters, x)


@program("layer norm, gradient", byte=4 * 4096 * 768 * 5)
class LayerNorm:
    def inputs(rng):
        return (
            normal(rng, 4096, 768),
            normal(rng, 768),
            normal(rng, 768),
            normal(rng, 4096, 768),
        )

    def jax(x, scale, bias, cotangent):
        def loss(x, scale, bias):
            mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
            return jnp.sum(((x - mean) * lax.rsqrt(var + 1e-5) * scale + bias) * cotangent)

        return jax.grad(loss, (0, 1, 2))(x, scale, bias)

    def torch(x, scale, bias, cotangent):
        leaves = [leaf.requires_grad_() for leaf in (x, scale, bias)]
        layer = lambda: functional.layer_norm(x, (768,), scale, bias)
        return lambda: torch.autograd.grad(layer(), leaves, cotangent)


@program("softmax, 50,000 classes, gradient", byte=4 * 128 * 50_000 * 3)
class CrossEntropy:
    def inputs(rng):
        return normal(rng, 128, 50_000), rng.integers(0, 50_000, 128)

    def jax(logits, labels):
        def loss(logits):
            likely = jax.nn.log_softmax(logits)
            return -jnp.take_along_axis(likely, labels[:, None], axis=1).mean()

        return jax.value_and_grad(loss)(logits)

    def torch(logits, labels):
        logits.requires_grad_()
        loss = lambda: functional.cross_entropy(logits, labels)
        return lambda: torch.autograd.grad(loss(), logits)


@program("embedding, gradient", byte=4 * (20_000 * 128 + 3 * 8192 * 128))
class Embedding:
    def inputs(rng):
        return normal(rng, 20_000, 128), rng.integers(0, 20_000, 8192), normal(rng, 8192, 128)

    def jax(table, tokens, cotangent):
        return jax.grad(lambda table: jnp.sum(table[tokens] * cotangent))(table)

    def torch(table, tokens, cotangent):
        table.requires_grad_()
        layer = lambda: functional.embedding(tokens, table)
        return lambda: torch.autograd.grad(layer(), table, cotangent)


@program("Adam, 100 leaves", byte=4 * 100 * 128 * 128 * 7)
class Adam:
    def inputs(rng):
        leaves = lambda: [normal(rng, 128, 128) for _ in range(100)]
        return leaves(), leaves(), [x**2 for x in leaves()], leaves()

    def jax(parameters, means, squares, gradients):
        def update(p, m, v, g):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            return p - 1e-3 * (m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-8), m, v

        return [update(*leaves) for leaves in zip(parameters, means, squares, gradients)]

    def torch(parameters, means, squares, gradients):
        for p, g in zip(parameters, gradients, strict=True):
            p.requires_grad_()
            p.grad = g
        return torch.optim.Adam(parameters, foreach=True).step


@program("beam search")
class BeamSearch:
    """20 steps of 8 beams over 10,000 words, with a model of one matrix."""

    def inputs(rng):
        return normal(rng, 64, 10_000, scale=0.1), normal(rng, 10_000, 64), normal(rng, 64, 64)

    def jax(out, embedding, recurrent):
        def step(carry, _):
            state, scores = carry
            likely = jax.nn.log_softmax(state @ out) + scores[:, None]
            scores, chosen = lax.top_k(likely.reshape(-1), 8)
            beams, words = chosen // 10_000, chosen % 10_000
            state = jnp.tanh(state[beams] @ recurrent + embedding[words])
            return (state, scores), (beams, words)

        return lax.scan(step, (jnp.ones((8, 64)), jnp.zeros(8)), None, length=20)

    def torch(out, embedding, recurrent):
        def call():
            state, scores, chosen = torch.ones(8, 64), torch.zeros(8), []
            for _ in range(20):
                likely = torch.log_softmax(state @ out, -1) + scores[:, None]
                scores, found = torch.topk(likely.flatten(), 8)
                beams, words = found // 10_000, found % 10_000
                state = torch.tanh(state[beams] @ recurrent + embedding[words])
                chosen.append((beams, words))
            return state, scores, chosen

        return call
