"""Trains a classifier of handwritten digits: 1,797 real 8x8 images that scikit-learn ships.

    python3 build/build.py run examples/digits_classifier.py --model conv

Everything below `predict` is written for one image. `vmap` makes it work on a batch, `grad` gives the
direction to step in, `scan` runs the minibatches of an epoch, and `jit` compiles the epoch as one program.
"""

import argparse
import math
import pathlib
import tempfile

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import jax
import jax.numpy as jnp
from jax import lax, nn, random

TRAIN_SIZE = 1437
LEARNING_RATE = 3e-3


# Models: a function that makes parameters, and one that maps parameters and an image to 10 logits.


def init_dense(key, inputs, outputs):
    weights = nn.initializers.he_normal()(key, (inputs, outputs))
    return {"w": weights, "b": jnp.zeros(outputs)}


def init_filters(key, inputs, outputs):
    weights = nn.initializers.he_normal()(key, (3, 3, inputs, outputs))
    return {"w": weights, "b": jnp.zeros(outputs)}


def dense(layer, x):
    return x @ layer["w"] + layer["b"]


def convolve(layer, x):
    """Slides the filters over one image x[height, width, channel]."""
    y = lax.conv_general_dilated(
        x[None], layer["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y[0] + layer["b"]


def halve(x):
    """Keeps the greatest of every 2x2 pixels."""
    height, width, channels = x.shape
    return x.reshape(height // 2, 2, width // 2, 2, channels).max(axis=(1, 3))


def init_mlp(key):
    keys = random.split(key, 3)
    return [
        init_dense(k, m, n) for k, m, n in zip(keys, (64, 256, 128), (256, 128, 10), strict=True)
    ]


def predict_mlp(params, image):
    *hidden, last = params
    x = image.ravel()
    for layer in hidden:
        x = nn.relu(dense(layer, x))
    return dense(last, x)


def init_conv(key):
    keys = random.split(key, 3)
    return [
        init_filters(keys[0], 1, 16),
        init_filters(keys[1], 16, 32),
        init_dense(keys[2], 512, 10),
    ]


def predict_conv(params, image):
    first, second, last = params
    x = nn.relu(convolve(first, image[:, :, None]))
    x = nn.relu(convolve(second, halve(x)))
    return dense(last, x.ravel())


MODELS = {"mlp": (init_mlp, predict_mlp), "conv": (init_conv, predict_conv)}


# Training


def augment(key, image):
    """Moves an image by up to half a pixel, turns it a little and changes its ink."""
    shift_key, turn_key, ink_key = random.split(key, 3)
    down, right = random.uniform(shift_key, (2,), minval=-0.5, maxval=0.5)
    angle = random.uniform(turn_key, minval=-0.15, maxval=0.15)
    rows, columns = jnp.mgrid[:8, :8] - 3.5
    rows, columns = (
        rows * jnp.cos(angle) - columns * jnp.sin(angle) + 3.5 + down,
        rows * jnp.sin(angle) + columns * jnp.cos(angle) + 3.5 + right,
    )
    return bilinear(image, rows, columns) * random.uniform(ink_key, minval=0.8, maxval=1.2)


def bilinear(image, rows, columns):
    """Reads an image between its pixels; outside it there is no ink."""
    top, left = jnp.floor(rows), jnp.floor(columns)
    down, right = rows - top, columns - left
    i, j = top.astype(int) + 1, left.astype(int) + 1
    padded = jnp.pad(image, 1)

    def pixel(i, j):
        return padded[jnp.clip(i, 0, 9), jnp.clip(j, 0, 9)]

    upper = pixel(i, j) * (1 - right) + pixel(i, j + 1) * right
    lower = pixel(i + 1, j) * (1 - right) + pixel(i + 1, j + 1) * right
    return upper * (1 - down) + lower * down


def adam_init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return zeros, zeros, 0


def adam(params, state, grads, rate, decay=(0.9, 0.999), epsilon=1e-8):
    mean, square, step = state
    step += 1
    mean = jax.tree.map(lambda m, g: decay[0] * m + (1 - decay[0]) * g, mean, grads)
    square = jax.tree.map(lambda s, g: decay[1] * s + (1 - decay[1]) * g * g, square, grads)
    scale = rate * jnp.sqrt(1 - decay[1] ** step) / (1 - decay[0] ** step)
    params = jax.tree.map(
        lambda p, m, s: p - scale * m / (jnp.sqrt(s) + epsilon), params, mean, square
    )
    return params, (mean, square, step)


def make_epoch(predict, steps, batch_size):
    """Returns the function that trains for one epoch, over `steps` minibatches."""

    def example_loss(params, key, image, label):
        return -nn.log_softmax(predict(params, augment(key, image)))[label]

    def batch_loss(params, keys, images, labels):
        return jax.vmap(example_loss, (None, 0, 0, 0))(params, keys, images, labels).mean()

    @jax.jit
    def epoch(params, state, key, rate, images, labels):
        order_key, augment_key = random.split(key)
        order = random.permutation(order_key, len(images))[: steps * batch_size]

        def step(carry, batch):
            params, state = carry
            rows, key = batch
            keys = random.split(key, batch_size)
            loss, grads = jax.value_and_grad(batch_loss)(params, keys, images[rows], labels[rows])
            return adam(params, state, grads, rate), loss

        batches = order.reshape(steps, batch_size), random.split(augment_key, steps)
        (params, state), losses = lax.scan(step, (params, state), batches)
        return params, state, losses.mean()

    return epoch


def train(model, data, epochs, batch_size, seed):
    """Returns the predicted test labels, and the loss and the test accuracy of every epoch."""
    train_images, test_images, train_labels, test_labels = data
    init, predict = MODELS[model]
    init_key, train_key = random.split(random.key(seed))
    params = init(init_key)
    state = adam_init(params)
    epoch = make_epoch(predict, len(train_images) // batch_size, batch_size)

    @jax.jit
    def classify(params, images):
        return jax.vmap(predict, (None, 0))(params, images).argmax(axis=1)

    losses, accuracies = [], []
    with tqdm(random.split(train_key, epochs), desc=model, unit="epoch") as bar:
        for i, key in enumerate(bar):
            rate = LEARNING_RATE * (1 + math.cos(math.pi * i / epochs)) / 2
            params, state, loss = epoch(params, state, key, rate, train_images, train_labels)
            predicted = np.asarray(classify(params, test_images))
            losses.append(float(loss))
            accuracies.append(float((predicted == test_labels).mean()))
            bar.set_postfix(loss=f"{losses[-1]:.4f}", accuracy=f"{accuracies[-1]:.4f}")
    return predicted, losses, accuracies


# Pictures


def plot_learning_curve(path, losses, accuracies):
    figure = Figure(figsize=(7, 4), layout="constrained")
    loss_axes = figure.subplots()
    epochs = range(1, len(losses) + 1)
    marker = "." if len(losses) == 1 else None
    loss_axes.plot(epochs, losses, color="tab:blue", marker=marker)
    loss_axes.set(xlabel="epoch", yscale="log", title="Learning curve")
    loss_axes.xaxis.get_major_locator().set_params(integer=True)
    loss_axes.set_ylabel("training loss", color="tab:blue")
    accuracy_axes = loss_axes.twinx()
    accuracy_axes.plot(epochs, accuracies, color="tab:orange", marker=marker)
    accuracy_axes.set_ylabel("test accuracy", color="tab:orange")
    figure.savefig(path, dpi=150)


def plot_confusion_matrix(path, labels, predicted):
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, predicted), 1)
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    axes.imshow(counts, cmap="Blues")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            color = "white" if count > counts.max() / 2 else "black"
            axes.text(column, row, count, ha="center", va="center", color=color)
    axes.set(xlabel="predicted digit", ylabel="true digit", title="Confusion matrix")
    axes.set(xticks=range(10), yticks=range(10))
    figure.savefig(path, dpi=150)


# Command line


def parse_arguments():
    parser = argparse.ArgumentParser(description="Train a classifier of handwritten digits.")
    parser.add_argument("--model", choices=MODELS, default="mlp", help="default: %(default)s")
    parser.add_argument("--epochs", type=whole_number(1), default=30, help="default: %(default)s")
    parser.add_argument(
        "--batch-size", type=whole_number(1, TRAIN_SIZE), default=32, help="default: %(default)s"
    )
    parser.add_argument(
        "--seed", type=whole_number(0, 2**32 - 1), default=0, help="default: %(default)s"
    )
    parser.add_argument(
        "--out",
        type=writable_folder,
        default="digits",
        help="folder for the pictures; default: %(default)s",
    )
    return parser.parse_args()


def whole_number(least, most=None):
    def parse(text):
        limits = f"{least} or more" if most is None else f"between {least} and {most}"
        problem = argparse.ArgumentTypeError(f"must be a whole number, {limits}; got {text!r}")
        try:
            number = int(text)
        except ValueError:
            raise problem from None
        if number < least or (most is not None and number > most):
            raise problem
        return number

    return parse


def writable_folder(text):
    folder = pathlib.Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write to {text!r}: {error.strerror}") from None
    return folder


def main():
    arguments = parse_arguments()
    digits = load_digits()
    data = train_test_split(
        (digits.images / 16).astype(np.float32),
        digits.target,
        train_size=TRAIN_SIZE,
        stratify=digits.target,
        random_state=0,
    )
    predicted, losses, accuracies = train(
        arguments.model, data, arguments.epochs, arguments.batch_size, arguments.seed
    )
    curve, matrix = (
        arguments.out / f"{arguments.model}_{name}.png"
        for name in ("learning_curve", "confusion_matrix")
    )
    plot_learning_curve(curve, losses, accuracies)
    plot_confusion_matrix(matrix, data[3], predicted)
    print(f"pictures: {curve} {matrix}")
    print(f"test accuracy: {accuracies[-1]:.4f}")


if __name__ == "__main__":
    main()
