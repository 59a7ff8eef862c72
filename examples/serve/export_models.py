"""Trains a classifier of digits and a small transformer, and writes them for programs without them.

    python examples/serve/export_models.py --out served

For each model: `NAME.onnx` for onnxruntime, `NAME.jax` for `jax.export.deserialize`, in which the size of
the batch is open. Beside them are inputs, as bare numbers, and what the models give for them here.
"""

import argparse
import pathlib
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import jax
import jax.numpy as jnp
from jax import export, random

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent.parent))
import digits_classifier
import transformer


def train_digits(epochs):
    """The trained classifier of images, and images and labels that it has not seen."""
    digits = load_digits()
    images, unseen, labels, unseen_labels = train_test_split(
        (digits.images / 16).astype(np.float32),
        digits.target,
        train_size=digits_classifier.TRAIN_SIZE,
        stratify=digits.target,
        random_state=0,
    )
    init, predict = digits_classifier.MODELS["conv"]
    params = init(random.key(0))
    state = digits_classifier.adam_init(params)
    epoch = digits_classifier.make_epoch(predict, len(images) // 32, 32)
    for key in random.split(random.key(1), epochs):
        params, state, loss = epoch(params, state, key, 3e-3, images, labels)
    print(f"digits: loss {loss:.4f}")
    return lambda images: jax.vmap(predict, (None, 0))(params, images), unseen, unseen_labels


def train_transformer(steps):
    """The trained model of characters."""
    text = transformer.load_text()
    params = transformer.init(random.key(0), layers=2, width=64)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"params": params, "mean": zeros, "square": zeros, "step": jnp.int32(0)}

    @jax.jit
    def step(state, batch):
        loss, grads = jax.value_and_grad(transformer.mean_loss)(state["params"], batch)
        return transformer.adam(state, grads), loss

    loss = np.nan
    for i in range(steps):
        state, loss = step(state, transformer.batch_of_step(text, 0, i, 32))
    print(f"transformer: loss {loss:.4f}")
    params = state["params"]
    return lambda characters: jax.vmap(transformer.predict, (None, 0))(params, characters)


def write(folder, name, function, argument, shape, dtype):
    """Exports a function of one array whose first size is open."""
    (batch,) = export.symbolic_shape("batch")
    exported = export.export(jax.jit(function))(jax.ShapeDtypeStruct((batch, *shape), dtype))
    export.to_onnx(
        exported, folder / f"{name}.onnx", input_names=[argument], output_names=["logits"]
    )
    (folder / f"{name}.jax").write_bytes(exported.serialize())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default="served", help="default: %(default)s")
    parser.add_argument("--epochs", type=int, default=10, help="of digits; default: %(default)s")
    parser.add_argument(
        "--steps", type=int, default=300, help="of the transformer; default: %(default)s"
    )
    arguments = parser.parse_args()
    folder = arguments.out
    folder.mkdir(parents=True, exist_ok=True)

    classify, images, labels = train_digits(arguments.epochs)
    write(folder, "digits", classify, "images", images.shape[1:], jnp.float32)
    images.tofile(folder / "images.f32")
    np.asarray(classify(images).argmax(1), np.int32).tofile(folder / "digits.i32")
    print(f"digits: accuracy {np.mean(np.asarray(classify(images)).argmax(1) == labels):.4f}")

    complete = train_transformer(arguments.steps)
    write(folder, "transformer", complete, "characters", (transformer.LENGTH,), jnp.int32)
    print(f"written: {folder}")


if __name__ == "__main__":
    main()
