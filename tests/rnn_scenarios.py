"""Programs of `jax.experimental.rnn`: see op_cases.py. What cuDNN computes is in rnn_test.py."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.experimental import rnn

CASES = Programs()
add = functools.partial(CASES.add, tol=1e-5)
BATCH, LENGTH, INPUTS, HIDDEN = 2, 5, 3, 4
LENGTHS = np.array([5, 2], "int32")


def operands(layers, bidirectional, dtype="float32"):
    rng = np.random.default_rng(0)
    rows = layers * (2 if bidirectional else 1)
    size = rnn.get_num_params_in_lstm(INPUTS, HIDDEN, layers, bidirectional)
    shapes = (BATCH, LENGTH, INPUTS), (rows, BATCH, HIDDEN), (rows, BATCH, HIDDEN), (size,)
    return [jnp.asarray(rng.normal(size=s) / 2, dtype) for s in shapes]


def run(layers, bidirectional, lengths, x, h, c, w):
    weights = rnn.unpack_lstm_weights(w, INPUTS, HIDDEN, layers, bidirectional)
    sizes = (INPUTS, HIDDEN, layers, 0.0, bidirectional)
    return rnn.lstm_ref(x, h, c, *weights, lengths, *sizes)


def with_gradients(layers, bidirectional):
    @jax.jit
    def both(lengths, *args):
        outs, pullback = jax.vjp(functools.partial(run, layers, bidirectional, lengths), *args)
        return outs, pullback(outs)

    args = operands(layers, bidirectional)
    return [both(np.array(lengths, "int32"), *args) for lengths in ([5, 5], [3, 1], [0, 4])]


for layers, bidirectional in ((1, False), (1, True), (3, True)):
    add(f"layers{layers}_{bidirectional}", functools.partial(with_gradients, layers, bidirectional))


def in_float64():
    with jax.enable_x64(True):
        return run(1, False, LENGTHS, *operands(1, False, "float64"))


add("float16", lambda: run(2, True, LENGTHS, *operands(2, True, "float16")), tol=5e-3)
add("bfloat16", lambda: run(1, True, LENGTHS, *operands(1, True, "bfloat16")), tol=5e-2)
add("float64", in_float64)
add("jvp", lambda: jax.jvp(functools.partial(run, 1, True, LENGTHS), operands(1, True), operands(1, True)))  # fmt: skip
add("vmap", lambda: jax.vmap(functools.partial(run, 1, True, LENGTHS), (0, None, None, None))(*[jnp.stack([x, 2 * x]) if i == 0 else x for i, x in enumerate(operands(1, True))]))  # fmt: skip
add("unpack", lambda: [list(part.items()) for part in rnn.unpack_lstm_weights(jnp.arange(736.0), 3, 4, 2, True)])  # fmt: skip
add("swap", lambda: rnn.swap_lstm_gates(jnp.arange(736.0), 3, 4, 2, True))
add("swap_one", lambda: rnn.swap_lstm_gates(jnp.arange(144.0), 3, 4, 1, False))
add("init", lambda: rnn.init_lstm_weight(jax.random.key(1), 3, 4, 2, True), tol=0)
add("sizes", lambda: [rnn.get_num_params_in_lstm(3, 4, n, b) for n in range(4) for b in (False, True)])  # fmt: skip
