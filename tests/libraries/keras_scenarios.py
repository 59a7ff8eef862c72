"""Networks of keras, on its JAX back end: training, evaluation, prediction, and its attention."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from keras import layers
from op_cases import Programs

import jax

CASES = Programs()
scenario = CASES.define


def random(*shape):
    return np.random.RandomState(len(shape)).randn(*shape).astype(np.float32)


def history(model, x, y, epochs=2):
    fitted = model.fit(x, y, epochs=epochs, batch_size=32, verbose=0)
    return fitted.history


@scenario(tol=1e-4)
def classifier():
    keras.utils.set_random_seed(0)
    x = random(128, 8)
    y = (x[:, :2].sum(1) > 0).astype(np.int32)
    model = keras.Sequential(
        [
            layers.Input((8,)),
            layers.Dense(16, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.2),
            layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return history(model, x, y), model.evaluate(x, y, verbose=0), model.predict(x[:4], verbose=0)


@scenario(tol=1e-4)
def attention():
    keras.utils.set_random_seed(1)
    tokens = keras.Input((16, 8))
    x = layers.MultiHeadAttention(2, 4)(tokens, tokens)
    x = layers.LayerNormalization()(x + tokens)
    x = layers.GlobalAveragePooling1D()(x)
    model = keras.Model(tokens, layers.Dense(1)(x))
    model.compile("sgd", "mse")
    data = random(64, 16, 8)
    return history(model, data, data.mean((1, 2)))


@scenario(tol=1e-4)
def convolutions_and_recurrences():
    keras.utils.set_random_seed(2)
    model = keras.Sequential(
        [
            layers.Input((6, 12, 12, 1)),
            layers.TimeDistributed(layers.Conv2D(4, 3, activation="relu")),
            layers.TimeDistributed(layers.GlobalMaxPooling2D()),
            layers.LSTM(8),
            layers.Dense(3),
        ]
    )
    model.compile("rmsprop", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return history(model, random(32, 6, 12, 12, 1), np.arange(32) % 3)


@scenario(tol=1e-4)
def stateless_step():
    """keras's layers as pure functions, in a program of our own."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [layers.Input((4,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]
    )
    x = random(16, 4)
    weights = [v.value for v in model.trainable_variables]
    state = [v.value for v in model.non_trainable_variables]

    def loss(weights):
        out, _ = model.stateless_call(weights, state, x)
        return (out**2).mean()

    value, gradients = jax.jit(jax.value_and_grad(loss))(weights)
    return value, gradients
