"""Measures the errors of special functions of this checkout's jax and of PyPI's, side by side.

    .venv/bin/python benchmarks/accuracy.py [--filter REGEX] [--markdown]

Each side evaluates the functions of jax.scipy.special, in its own process, at the points of
accuracy_reference.npz, in float32 and float64. The error of a result is its distance from the exact
value in units of the last place of that value's nearest floating-point number. The file was made by
accuracy_reference.py, which needs mpmath, and has exact values as sums of two float64 numbers.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np

HERE = pathlib.Path(__file__).absolute().parent
ROOT = HERE.parent
REFERENCE = HERE / "accuracy_reference.npz"
INTEGERS = {"polygamma"}  # functions whose first argument has to be of integers


def evaluate(pattern, path):
    """Evaluates the functions on this process's jax."""
    import jax
    import jax.scipy.special as special

    warnings.simplefilter("ignore")
    out = {}
    reference = np.load(REFERENCE)
    for key in reference.files:
        name, bits, kind = key.split(":")
        if kind != "arguments" or not re.search(pattern, name):
            continue
        jax.config.update("jax_enable_x64", bits == "64")
        args = list(reference[key])
        if name in INTEGERS:
            args[0] = args[0].astype(np.int32)
        result = jax.jit(getattr(special, name))(*args)
        out[f"{name}:{bits}"] = np.stack(result if isinstance(result, tuple) else [result])
    np.savez(path, **out)


def errors(out, exact):
    """Returns errors in units of the last place; infinite where only one of the numbers is finite."""
    high, low = exact
    info = np.finfo(out.dtype)
    with np.errstate(all="ignore"):
        nearest = high.astype(out.dtype)
        unit = np.maximum(np.spacing(np.abs(nearest)).astype(float), float(info.tiny * info.eps))
        error = np.abs((out.astype(float) - high) - low) / unit
        same = (out == nearest) | (np.isnan(out) & np.isnan(nearest))
        error = np.where(np.isfinite(out) & np.isfinite(nearest), error, np.inf)
        # Numbers below the normal ones may be flushed to zero.
        tiny = (np.abs(high) < float(info.tiny)) & (np.abs(out) <= 2 * float(info.tiny))
    return np.where(same & ~np.isfinite(nearest) | tiny, 0, error)


def run(python, pattern, environment):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out.npz")
        command = [python, str(pathlib.Path(__file__).absolute()), "--side", str(path)]
        # Not in the checkout, where PyPI's side would find this side's package.
        subprocess.run(
            [*command, "--filter", pattern],
            check=True,
            cwd=folder,
            env=os.environ | {"JAX_PLATFORMS": "cpu"} | environment,
        )
        with np.load(path) as file:
            return dict(file)


def table(pattern):
    ours = run(sys.executable, pattern, {"PYTHONPATH": str(ROOT)})
    oracle_python = os.environ.get("JAX_ORACLE_PYTHON", str(ROOT / ".oracle" / "bin" / "python"))
    oracle = run(oracle_python, pattern, {"PYTHONPATH": ""})
    reference = np.load(REFERENCE)
    for key in ours:
        exact = reference[f"{key}:values"]
        name, bits = key.split(":")
        sides = [errors(side[key], exact) for side in (ours, oracle)]
        yield f"{name}, float{bits}", *[f(e) for e in sides for f in (np.max, np.mean)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="REGEX", help="functions to measure")
    parser.add_argument("--markdown", action="store_true", help="print a table in Markdown")
    parser.add_argument("--side", metavar="OUT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        evaluate(args.filter, args.side)
        return
    head = ["function", "ours: largest", "mean", "oracle: largest", "mean"]
    rows = [[name, *[f"{x:.3g}" for x in numbers]] for name, *numbers in table(args.filter)]
    if args.markdown:
        print(f"| {' | '.join(head)} |\n| --- | ---: | ---: | ---: | ---: |")
        for row in rows:
            print(f"| {' | '.join(row)} |")
        return
    from rich.console import Console
    from rich.table import Table

    out = Table(title="Errors in units of the last place")
    for i, title in enumerate(head):
        out.add_column(title, justify="right" if i else "left")
    for row in rows:
        out.add_row(*row)
    Console().print(out)


if __name__ == "__main__":
    main()
