"""A program that is killed while it saves: see array_serialization_test.py.

`PYTHON checkpoint_crash.py FOLDER OPERATION [without_exchange]` saves twos over a checkpoint, and
is killed before the given operation that changes or syncs files of the folder. With `forever` as OPERATION, it saves
ones, twos, threes, and so on.
"""

import itertools
import os
import signal
import sys

import jax
import jax.numpy as jnp
from jax._src.array_serialization import directories
from jax.experimental.array_serialization import pytree_serialization
from jax.sharding import NamedSharding, PartitionSpec as P


def tree(number):
    """A tree full of a number; its structure depends on it too."""
    mesh = jax.make_mesh((8,), ("x",))
    x = jax.device_put(jnp.full((1024, 64), float(number)), NamedSharding(mesh, P("x")))
    return {"number": jnp.int32(number), "large": x, "more": [x] * (number % 3)}


def number_in(data):
    """The number of a checkpoint; fails if it is not whole."""
    number = int(data["number"])
    assert len(data["more"]) == number % 3
    for x in (data["large"], *data["more"]):
        assert x.shape == (1024, 64)
        assert bool((x == number).all())
    return number


def kill_before(operation, folder):
    """Kills this process before an operation on the folder's files."""
    count = itertools.count()
    anywhere = {"os.remove", "os.rmdir", "ctypes.dlsym"}  # relative paths, and the exchange
    inside = {"open", "os.mkdir", "os.rename"}

    def hook(event, args):
        if event in anywhere or (event in inside and folder in str(args[:2])):
            if next(count) == operation:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


if __name__ == "__main__":
    folder, operation, *options = sys.argv[1:]
    path = os.path.join(folder, "checkpoint")
    if options == ["without_exchange"]:
        directories._exchange = lambda *_: False
    if operation == "forever":
        for number in itertools.count(1):
            pytree_serialization.save(tree(number), path)
            print(number, flush=True)
    data = tree(2)
    kill_before(int(operation), folder)
    pytree_serialization.save(data, path)
