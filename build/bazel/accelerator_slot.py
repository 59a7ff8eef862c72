"""Runs a command with an accelerator of its own, for tests that run side by side.

    accelerator_slot.py COMMAND [ARGS]        (bazel test --run_under=//build/bazel:accelerator_slot)

Takes the first free slot of JAX_ACCELERATOR_COUNT accelerators, each with JAX_TESTS_PER_ACCELERATOR slots (1 by
default), by a lock on a file of its own, waits where all are taken, and tells the command which one it got:
CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or TPU_VISIBLE_CHIPS by JAX_ACCELERATOR_KIND (cuda, rocm, tpu). The
system frees the lock when the command and what it started have ended, however they end.
"""

import fcntl
import os
import sys
import time
from pathlib import Path

VARIABLES = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("ROCR_VISIBLE_DEVICES",),
    "tpu": ("TPU_VISIBLE_CHIPS",),
}


class SlotError(Exception):
    """The settings are wrong; the message names the one."""


def settings(environment: dict[str, str]) -> tuple[str, int, int]:
    """The kind of accelerator, how many there are, and how many tests share one."""
    kind = environment.get("JAX_ACCELERATOR_KIND", "cuda")
    if kind not in VARIABLES:
        raise SlotError(
            f"JAX_ACCELERATOR_KIND is {kind!r}: it should be one of {', '.join(VARIABLES)}"
        )
    numbers = []
    for name, default in (("JAX_ACCELERATOR_COUNT", None), ("JAX_TESTS_PER_ACCELERATOR", "1")):
        text = environment.get(name, default)
        if text is None:
            raise SlotError(f"{name} is not set: say how many accelerators there are")
        if not text.isdigit() or int(text) < 1:
            raise SlotError(f"{name} is {text!r}: it should be a positive number")
        numbers.append(int(text))
    return kind, *numbers


def take_slot(folder: Path, count: int, per_accelerator: int) -> int:
    """The number of an accelerator with a free slot. The lock lives as long as the process and its children."""
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        # all accelerators are filled once before one gets a second test
        for slot in range(per_accelerator):
            for accelerator in range(count):
                file = os.open(folder / f"{accelerator}.{slot}.lock", os.O_RDWR | os.O_CREAT, 0o666)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(file)
                    continue
                os.set_inheritable(file, True)
                return accelerator
        time.sleep(0.05)


def main(command: list[str]) -> None:
    if not command:
        sys.exit(__doc__)
    try:
        kind, count, per_accelerator = settings(dict(os.environ))
    except SlotError as error:
        sys.exit(f"accelerator_slot: {error}")
    default = Path("/var/tmp", f"jax-accelerators-{os.getuid()}")
    folder = Path(os.environ.get("JAX_ACCELERATOR_LOCKS", default)) / kind
    accelerator = take_slot(folder, count, per_accelerator)
    for name in VARIABLES[kind]:
        os.environ[name] = str(accelerator)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
