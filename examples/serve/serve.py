"""Runs what export_models.py has written, from the artifacts alone: no code of the models is imported.

python examples/serve/serve.py digits served/digits.jax served/images.f32
python examples/serve/serve.py text served/transformer.jax "The " 40
"""

import pathlib
import sys

import numpy as np

from jax import export


def load(path):
    return export.deserialize(pathlib.Path(path).read_bytes())


def digits(path, images):
    """The digit on each image, in one line."""
    model = load(path)
    shape = model.in_avals[0].shape[1:]
    logits = model.call(np.fromfile(images, np.float32).reshape(-1, *shape))
    print("".join(map(str, np.asarray(logits).argmax(1))))


def text(path, prompt, count):
    """The most likely character, one after the other."""
    model = load(path)
    length = model.in_avals[0].shape[1]
    characters = list(prompt.encode("ascii"))
    for _ in range(int(count)):
        window = characters[-length:]
        batch = np.array([window + [0] * (length - len(window))], np.int32)
        logits = np.asarray(model.call(batch))
        characters.append(int(logits[0, len(window) - 1].argmax()))
    print(bytes(characters).decode("ascii"))


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("digits", "text"):
        sys.exit(__doc__)
    {"digits": digits, "text": text}[sys.argv[1]](*sys.argv[2:])
