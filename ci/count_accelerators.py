"""Prints how many accelerators the tests may use here: count_accelerators.py cuda|rocm|tpu

Those that CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or TPU_VISIBLE_CHIPS name, else all of the machine. Needs no
more than Python; says what is missing, and fails, where there are none.
"""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT / "build" / "bazel"))
import accelerator_slot  # noqa: E402 (it is found through the line above)


def on_this_machine(kind: str) -> int:
    if kind == "cuda":
        if shutil.which("nvidia-smi") is None:
            raise SystemExit("there is no nvidia-smi: this takes an NVIDIA GPU and its driver")
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"], stdout=subprocess.PIPE, text=True, check=False
        )
        if listed.returncode or not listed.stdout.strip():
            raise SystemExit("nvidia-smi lists no GPU")
        return len(listed.stdout.splitlines())
    # the file stands on the standard library alone
    hardware = runpy.run_path(str(ROOT / "jax" / "_src" / "hardware_utils.py"))
    if kind == "rocm":
        if count := hardware["num_available_amd_gpus"]():
            return count
        raise SystemExit("there is no AMD GPU: the kernel's amdgpu driver lists none")
    count, _ = hardware["num_available_tpu_chips_and_device_id"]()
    if not count:
        raise SystemExit("there is no TPU: the PCI bus shows none")
    return count


def main(kind: str) -> int:
    there = on_this_machine(kind)
    try:
        given = accelerator_slot.allocated(kind, dict(os.environ))
    except accelerator_slot.SlotError as error:
        raise SystemExit(str(error)) from None
    return there if given is None else len(given)


if __name__ == "__main__":
    if sys.argv[1:] not in ([kind] for kind in accelerator_slot.VARIABLES):
        sys.exit(__doc__)
    print(main(sys.argv[1]))
