"""Converts a profile of NVIDIA Nsight Systems to latencies that XLA reads.

    nsys profile -o profile python program.py
    python -m jax.tools.pgo_nsys_converter --profile_path profile.nsys-rep \\
        --pgle_output_path latencies.pbtxt
    XLA_FLAGS=--xla_gpu_pgle_profile_file_or_directory_path=latencies.pbtxt python program.py

An operation's latency is the mean time of the kernel that takes longest of those that it runs. With
`JAX_ENABLE_PGLE=1` a program measures latencies itself, without Nsight Systems.
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

_REPORTS = ("nvtx_kern_sum", "nvtxkernsum")  # the latter until Nsight Systems 2022
_OPERATION = re.compile(r"\bhlo_op=([^,#]+)")


def convert(profile: str, output: str) -> dict[str, float]:
    """Converts a profile.

    Args:
      profile: the file that `nsys profile` wrote.
      output: the file to write the latencies to.

    Returns:
      The latency of each operation in microseconds.

    Raises:
      FileNotFoundError: if there is no such profile, or `nsys` is not installed.
      ValueError: if the profile has no kernels of XLA's operations.
      subprocess.CalledProcessError: if `nsys` fails.
    """
    if not pathlib.Path(profile).is_file():
        raise FileNotFoundError(f"pgo_nsys_converter: there is no profile {profile}.")
    nsys = shutil.which("nsys")
    if nsys is None:
        raise FileNotFoundError(
            "pgo_nsys_converter: the program `nsys` is not on PATH: install NVIDIA Nsight Systems."
        )
    available = subprocess.run(
        [nsys, "stats", "--help-reports"], check=True, capture_output=True, text=True
    ).stdout
    report = next((name for name in _REPORTS if name in available), _REPORTS[0])
    exported = pathlib.Path(profile).with_suffix(".sqlite")
    was_there = exported.exists()
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder, "kernels")
        subprocess.run(
            [
                nsys, "stats", "--force-overwrite", "true", "--force-export", "true", "--report",
                report, profile, "-o", str(prefix),
            ],
            check=True,
        )  # fmt: skip
        if not was_there:
            exported.unlink(missing_ok=True)
        with open(f"{prefix}_{report}.csv", newline="") as file:
            costs = _costs(csv.DictReader(file))
    if not costs:
        raise ValueError(
            f"pgo_nsys_converter: {profile} has no kernels of XLA's operations: profile with "
            "`nsys profile --trace=cuda,nvtx`, and a GPU."
        )
    lines = [f'costs {{ name: "{name}" cost_us: {cost} }}\n' for name, cost in costs.items()]
    pathlib.Path(output).write_text("".join(lines))
    return costs


def _costs(rows: csv.DictReader[str]) -> dict[str, float]:
    """The greatest mean time in microseconds of each operation, in rows for its kernels."""
    costs: dict[str, float] = {}
    for row in rows:
        if match := _OPERATION.search(row["NVTX Range"]):
            name = match[1].strip()
            costs[name] = max(costs.get(name, 0.0), float(row["Avg (ns)"]) / 1000)
    return costs


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line program."""
    parser = argparse.ArgumentParser(
        prog="pgo_nsys_converter",
        description="Converts a profile of NVIDIA Nsight Systems to latencies that XLA reads.",
    )
    parser.add_argument("--profile_path", required=True, help="the file of `nsys profile`")
    parser.add_argument("--pgle_output_path", required=True, help="file for the latencies (.pbtxt)")
    parser.add_argument(
        "--post_process", action="store_true",
        help="write each operation once, with its greatest latency, as is also done without this",
    )  # fmt: skip
    args = parser.parse_args(argv)
    try:
        costs = convert(args.profile_path, args.pgle_output_path)
    except (OSError, ValueError, subprocess.CalledProcessError) as err:
        sys.exit(str(err))
    print(f"latencies of {len(costs)} operations: {args.pgle_output_path}")


if __name__ == "__main__":
    main()
