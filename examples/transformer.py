"""Trains a small transformer to write English, on many devices: real text, checkpoints, restarts.

    python examples/transformer.py                                  # 8 virtual devices of the CPU
    python -m jax.distributed.launch -n 4 --devices-per-process 2 examples/transformer.py --processes

The devices form a mesh with two axes. Each row of the mesh trains on a part of the batch (data
parallelism): `shard_map` averages the gradients over the rows. Within a row the matrices are split
(tensor parallelism, `--model-parallel`): there, shardings of the parameters are all that `jit` needs.

Every few steps the state is saved. A program that is stopped, or killed at any time, goes on from the last
checkpoint when it is started again, with the same losses as if nothing had happened.
"""

import argparse
import csv
import pathlib

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import jax
import jax.numpy as jnp
from jax import lax, nn, random
from jax.experimental.array_serialization import pytree_serialization as checkpoints
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

CHARACTERS = 128  # ASCII
LENGTH = 64
HEADS = 4
LEARNING_RATE = 2e-3


# Text


def load_text():
    """About 700,000 characters of the documentation that comes with Python, or else licenses."""
    try:
        from pydoc_data.topics import topics

        text = "\n\n".join(topics[name] for name in sorted(topics))
    except ImportError:
        folder = pathlib.Path("/usr/share/common-licenses")
        text = "\n\n".join(path.read_text() for path in sorted(folder.iterdir()))
    data = np.frombuffer(text.encode("ascii", "ignore"), np.uint8)
    return data.astype(np.int32)


def batch_of_step(text, seed, step, size):
    """Random pieces of the text. They depend on the step only, so that a restart gets the same."""
    rng = np.random.default_rng((seed, step))
    starts = rng.integers(len(text) - LENGTH, size=size)
    return text[starts[:, None] + np.arange(LENGTH + 1)]


# Model: how the parameters are split over the axis "model", and what they compute

LAYER = {
    "attention_in": P(None, None, "model"),  # query, key and value; columns are heads
    "attention_out": P("model", None),
    "mlp_in": P(None, "model"),
    "mlp_out": P("model", None),
    "attention_scale": P(),
    "mlp_scale": P(),
}


def specs(layers):
    return {"characters": P(), "positions": P(), "layers": [LAYER] * layers, "scale": P()}


def init(key, layers, width):
    def normal(key, *shape):
        return random.normal(key, shape) / np.sqrt(shape[-2])

    def init_layer(key):
        keys = random.split(key, 4)
        return {
            "attention_in": normal(keys[0], 3, width, width),
            "attention_out": normal(keys[1], width, width),
            "mlp_in": normal(keys[2], width, 4 * width),
            "mlp_out": normal(keys[3], 4 * width, width),
            "attention_scale": jnp.ones(width),
            "mlp_scale": jnp.ones(width),
        }

    first, second, *keys = random.split(key, 2 + layers)
    return {
        "characters": random.normal(first, (CHARACTERS, width)) * 0.02,
        "positions": random.normal(second, (LENGTH, width)) * 0.02,
        "layers": [init_layer(k) for k in keys],
        "scale": jnp.ones(width),
    }


def normalize(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def predict(params, characters):
    """The logits of the character after each of `characters[length]`."""
    x = params["characters"][characters] + params["positions"]
    length, width = x.shape
    for layer in params["layers"]:
        y = normalize(x, layer["attention_scale"])
        q, k, v = (y @ w for w in layer["attention_in"])
        q, k, v = (a.reshape(length, HEADS, width // HEADS) for a in (q, k, v))
        y = nn.dot_product_attention(q, k, v, is_causal=True)
        x += y.reshape(length, width) @ layer["attention_out"]
        y = normalize(x, layer["mlp_scale"])
        x += nn.gelu(y @ layer["mlp_in"]) @ layer["mlp_out"]
    return normalize(x, params["scale"]) @ params["characters"].T


def mean_loss(params, batch):
    logits = jax.vmap(predict, (None, 0))(params, batch[:, :-1])
    return -jnp.take_along_axis(nn.log_softmax(logits), batch[:, 1:, None], axis=-1).mean()


# Training


def adam(state, grads, decay=(0.9, 0.99), epsilon=1e-8):
    """One step of Adam; the rate grows in the first steps."""
    step = state["step"] + 1
    mean = jax.tree.map(lambda m, g: decay[0] * m + (1 - decay[0]) * g, state["mean"], grads)
    square = jax.tree.map(
        lambda s, g: decay[1] * s + (1 - decay[1]) * g * g, state["square"], grads
    )
    rate = LEARNING_RATE * jnp.minimum(1, step / 20)
    scale = rate * jnp.sqrt(1 - decay[1] ** step) / (1 - decay[0] ** step)
    params = jax.tree.map(
        lambda p, m, s: p - scale * m / (jnp.sqrt(s) + epsilon), state["params"], mean, square
    )
    return {"params": params, "mean": mean, "square": square, "step": step}


def make_step(mesh):
    """The compiled step: takes and donates the state, returns the next one and the loss."""

    def average(params, batch):
        loss, grads = jax.value_and_grad(mean_loss)(params, batch)
        return lax.pmean((loss, grads), "data")

    # Manual over the rows of the mesh; the compiler splits the work within a row.
    loss_and_grads = jax.shard_map(
        average,
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=P(),
        axis_names={"data"},
        check_vma=False,
    )

    def step(state, batch):
        loss, grads = loss_and_grads(state["params"], batch)
        return adam(state, grads), loss

    return jax.jit(step, donate_argnums=0)


def train(arguments, folder, is_first):
    """Trains from the last checkpoint on; returns the loss of each step."""
    mesh = jax.make_mesh(
        (jax.device_count() // arguments.model_parallel, arguments.model_parallel),
        ("data", "model"),
        axis_types=(AxisType.Auto, AxisType.Auto),
    )
    everywhere, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    params = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs(arguments.layers))
    shardings = {"params": params, "mean": params, "square": params, "step": everywhere}

    def new_state():
        params = init(random.key(arguments.seed), arguments.layers, arguments.width)
        zeros = jax.tree.map(jnp.zeros_like, params)
        return {"params": params, "mean": zeros, "square": zeros, "step": jnp.int32(0)}

    path = folder / "checkpoint"
    if path.exists():
        saved = checkpoints.load(path, {"state": shardings, "losses": everywhere})
        state, losses = saved["state"], np.asarray(saved["losses"]).tolist()
        if is_first:
            print(f"goes on after step {len(losses)}", flush=True)
    else:
        state, losses = jax.jit(new_state, out_shardings=shardings)(), []

    def put(values, sharding):
        """An array of all processes, from values that each of them has."""
        return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])

    step, text, save = make_step(mesh), load_text(), None
    steps = range(len(losses), arguments.steps)
    # No bar if the output is not a terminal.
    with tqdm(
        total=arguments.steps, initial=len(losses), unit="step", disable=None if is_first else True
    ) as bar:
        for i in steps:
            batch = put(batch_of_step(text, arguments.seed, i, arguments.batch_size), rows)
            state, loss = step(state, batch)
            losses.append(float(loss))
            bar.update()
            bar.set_postfix(loss=f"{losses[-1]:.4f}")
            if len(losses) % arguments.save_every == 0 or i == steps[-1]:
                if save is not None:
                    save.result()  # the previous one
                saved = {"state": state, "losses": put(np.float32(losses), everywhere)}
                save = checkpoints.nonblocking_save(saved, path)
        if save is not None:
            save.result()
    return losses


def plot_losses(path, losses):
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, len(losses) + 1), losses, marker="." if len(losses) == 1 else None)
    axes.set(xlabel="step", ylabel="loss (nats per character)", title="Learning curve")
    figure.savefig(path, dpi=150)


# Command line


def parse_arguments():
    parser = argparse.ArgumentParser(description="Train a small transformer on many devices.")
    numbers = {
        "steps": (300, "of training, in all runs together"),
        "save-every": (50, "steps between checkpoints"),
        "batch-size": (32, "pieces of text, a multiple of the rows of the mesh"),
        "layers": (2, "of the transformer"),
        "width": (128, "of a layer, a multiple of 16"),
        "model-parallel": (2, "devices that share each matrix: 1, 2 or 4"),
        "devices": (8, "virtual devices, without --processes"),
    }
    for name, (default, meaning) in numbers.items():
        parser.add_argument(
            f"--{name}", type=positive, default=default, help=f"{meaning}; default: {default}"
        )
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument(
        "--out", type=pathlib.Path, default="transformer", help="folder for results"
    )
    parser.add_argument(
        "--processes", action="store_true", help="one of several processes: see the launcher above"
    )
    return parser, parser.parse_args()


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more; got {text!r}")
    return int(text)


def main():
    parser, arguments = parse_arguments()
    if arguments.processes:
        # The others end within seconds if one process is lost, or within a minute if it was lost
        # before it was connected, so that all can be started again.
        jax.distributed.initialize(initialization_timeout=60, heartbeat_timeout_seconds=10)
    else:
        jax.config.update("jax_num_cpu_devices", arguments.devices)
    columns = arguments.model_parallel
    if HEADS % columns or jax.device_count() % columns:
        parser.error(
            f"--model-parallel: {columns} does not divide {HEADS} heads and {jax.device_count()} devices"
        )
    if arguments.batch_size % (jax.device_count() // columns):
        parser.error(f"--batch-size: must be a multiple of {jax.device_count() // columns}")
    if arguments.width % 16:
        parser.error(f"--width: must be a multiple of 16; got {arguments.width}")
    is_first = jax.process_index() == 0
    folder = arguments.out.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    losses = train(arguments, folder, is_first)
    if is_first:
        with open(folder / "losses.csv", "w", newline="") as file:
            csv.writer(file).writerows([("step", "loss"), *enumerate(losses, 1)])
        plot_losses(folder / "losses.png", losses)
        print(f"losses: {folder / 'losses.csv'} {folder / 'losses.png'}")
        print(f"loss after {len(losses)} steps: {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
