"""Runs a command with exclusive use of an accelerator, for tests that run in parallel.

    accelerator_slot.py COMMAND [ARGS]        (bazel test --run_under=//build/bazel:accelerator_slot)

There are JAX_ACCELERATOR_COUNT accelerators, each with JAX_TESTS_PER_ACCELERATOR slots (1 by
default). A slot is taken by locking its file; if all are taken, the program waits. It passes the
accelerator to the command in CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or TPU_VISIBLE_CHIPS,
depending on JAX_ACCELERATOR_KIND (cuda, rocm, tpu). If such a variable is already set, only the
accelerators that it lists are used. The system releases the lock when the command and its child
processes have ended, even if they crash.
"""

import fcntl
import os
import sys
import time
from itertools import takewhile
from pathlib import Path

# The variables with the accelerators that a process may use. The first one is set for the command.
# For ROCm, the second one refers to entries of the first. For TPUs, the second one is another name
# of the first.
VARIABLES = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    "tpu": ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"),
}


class SlotError(Exception):
    """Raised if a setting is wrong; the message says which."""


def allocated(kind: str, environment: dict[str, str]) -> list[str] | None:
    """Returns the accelerators assigned to this process, or None if it may use all."""
    found = None
    for name in VARIABLES[kind]:
        if name not in environment or (found and kind != "rocm"):
            continue
        # Like the vendors' libraries, ignore entries from the first empty or negative one on.
        entries = map(str.strip, environment[name].split(","))
        entries = list(takewhile(lambda e: e and not e.startswith("-"), entries))
        if not entries:
            raise SlotError(f"{name} is {environment[name]!r}, which hides all accelerators")
        try:
            found = [found[int(e)] if found and e.isdigit() else e for e in entries]
        except IndexError:
            raise SlotError(
                f"{name} is {environment[name]!r}, and {VARIABLES[kind][0]} names {len(found)}"
            ) from None
    return found


def settings(environment: dict[str, str]) -> tuple[str, list[str], int]:
    """Returns the kind of accelerator, the accelerators, and how many tests share one."""
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
    count, per_accelerator = numbers
    accelerators = allocated(kind, environment)
    if accelerators is None:
        accelerators = [str(i) for i in range(count)]
    if count > len(accelerators):
        raise SlotError(
            f"JAX_ACCELERATOR_COUNT is {count}, and of them {', '.join(accelerators)} may be used here"
            f" ({' and '.join(VARIABLES[kind])})"
        )
    return kind, accelerators[:count], per_accelerator


def take_slot(folder: Path, accelerators: list[str], per_accelerator: int) -> str:
    """Returns an accelerator with a free slot, locked until the process and its children end."""
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        # Give each accelerator one test before giving any of them a second one.
        for slot in range(per_accelerator):
            for accelerator in accelerators:
                lock = folder / f"{accelerator.replace('/', '_')}.{slot}.lock"
                file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
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
        kind, accelerators, per_accelerator = settings(dict(os.environ))
    except SlotError as error:
        sys.exit(f"accelerator_slot: {error}")
    default = Path("/var/tmp", f"jax-accelerators-{os.getuid()}")
    folder = Path(os.environ.get("JAX_ACCELERATOR_LOCKS", default)) / kind
    accelerator = take_slot(folder, accelerators, per_accelerator)
    told, *others = VARIABLES[kind]
    os.environ[told] = accelerator
    for name in others:
        os.environ.pop(name, None)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
