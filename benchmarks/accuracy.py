"""Measures the errors of elementwise functions of this checkout's jax and of PyPI's, side by side.

    .venv/bin/python benchmarks/accuracy.py [--filter REGEX] [--limit SECONDS] [--markdown]

Each side evaluates the functions of jax.scipy.special, jax.numpy and jax.nn, in its own process, at
the points of accuracy_reference.npz. The error of a result is its distance from the exact value in
units of the last place of that value's nearest floating-point number; of a complex one, of the part
with the larger magnitude. As processors may flush numbers below the normal ones to zero, such results
count as zero, and at such arguments the function's value at zero is right, too. The file was made by
accuracy_reference.py, which needs mpmath, and has exact values as sums of two float64 numbers.

A side saves each function's results as soon as it has them. A function that takes longer than the
limit is ended, and its side goes on with the next one. With --answers FOLDER the results are kept
there, and the next run with that folder evaluates only what is missing from it.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

HERE = pathlib.Path(__file__).absolute().parent
ROOT = HERE.parent
REFERENCE = HERE / "accuracy_reference.npz"
INTEGERS = {"polygamma"}  # functions whose first argument has to be of integers


def evaluate(keys, folder):
    """Evaluates functions on this process's jax, and saves each one's results in a folder."""
    import jax
    import jax.scipy.special

    warnings.simplefilter("ignore")
    modules = [jax.scipy.special, jax.numpy, jax.nn]
    reference = np.load(REFERENCE)
    for key in keys:
        name, dtype = key.split(":")
        function = next(getattr(m, name) for m in modules if hasattr(m, name))
        jax.config.update("jax_enable_x64", dtype in ("float64", "complex128"))
        args = list(reference[f"{key}:arguments"])
        if name in INTEGERS:
            args[0] = args[0].astype(np.int32)
        result = jax.jit(function)(*args)
        out = np.stack(result if isinstance(result, tuple) else [result])
        unfinished = folder / "unfinished.npy"
        np.save(unfinished, out)
        unfinished.rename(folder / f"{key}.npy")


def errors(out, exact):
    """Returns errors in units of the last place; infinite where only one of the numbers is finite."""
    parts = np.concatenate([out.real, out.imag]) if np.iscomplexobj(out) else out
    high, low = exact
    info = np.finfo(parts.dtype)
    with np.errstate(all="ignore"):
        nearest = high.astype(parts.dtype)
        size = np.where(np.isfinite(nearest), np.abs(nearest), 0)
        if np.iscomplexobj(out):
            size = size.max(0)
        unit = np.maximum(np.spacing(size).astype(float), float(info.tiny * info.eps))
        error = np.abs((parts.astype(float) - high) - low) / unit
        same = (parts == nearest) | (np.isnan(parts) & np.isnan(nearest))
        error = np.where(np.isfinite(parts) & np.isfinite(nearest), error, np.inf)
        # Numbers below the normal ones may be flushed to zero.
        tiny = (np.abs(high) < float(info.tiny)) & (np.abs(parts) <= 2 * float(info.tiny))
    error = np.where(same & ~np.isfinite(nearest) | tiny, 0, error)
    return error.max(0) if np.iscomplexobj(out) else error


def smallest_errors(out, reference, key):
    """Returns errors in units of the last place, at flushed arguments the smaller one."""
    keys = [k for k in (f"{key}:values", f"{key}:flushed") if k in reference.files]
    return np.min([errors(out, reference[k]) for k in keys], axis=0)


def run(python, keys, environment, folder, limit):
    """Has a process of a side evaluate functions; starts another one after each that takes too long."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [python, str(pathlib.Path(__file__).absolute()), "--side", str(folder)]
    missing = [key for key in keys if not (folder / f"{key}.npy").exists()]
    while missing:
        # Not in the checkout, where PyPI's side would find this side's package.
        side = subprocess.Popen(
            [*command, *missing],
            cwd=folder,
            env=os.environ | {"JAX_PLATFORMS": "cpu"} | environment,
        )
        try:
            start = time.monotonic()
            while side.poll() is None and time.monotonic() - start < limit:
                time.sleep(0.05)
                if (folder / f"{missing[0]}.npy").exists():
                    missing.pop(0)
                    start = time.monotonic()
                    if not missing:
                        break
        finally:
            if missing and side.poll() is None:
                side.kill()
            side.wait()
        missing = [key for key in missing if not (folder / f"{key}.npy").exists()]
        if missing and side.returncode > 0:
            raise RuntimeError(f"{python} could not evaluate {missing[0]}")
        missing = missing[1:]


def table(pattern, folder, limit):
    """Yields rows: a function, and largest and mean errors of each side, None without an answer."""
    reference = np.load(REFERENCE)
    keys = [key.removesuffix(":values") for key in reference.files if key.endswith(":values")]
    keys = [key for key in keys if re.search(pattern, key.split(":")[0])]
    oracle_python = os.environ.get("JAX_ORACLE_PYTHON", str(ROOT / ".oracle" / "bin" / "python"))
    sides = {
        "ours": (sys.executable, {"PYTHONPATH": str(ROOT)}),
        "oracle": (oracle_python, {"PYTHONPATH": ""}),
    }
    for side, (python, environment) in sides.items():
        run(python, keys, environment, folder / side, limit)
    for key in keys:
        name, dtype = key.split(":")
        numbers = []
        for side in sides:
            path = folder / side / f"{key}.npy"
            if not path.exists():
                numbers += [None, None]
                continue
            error = smallest_errors(np.load(path), reference, key)
            numbers += [np.max(error), np.mean(error)]
        yield f"{name}, {dtype}", *numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="REGEX", help="functions to measure")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a function")
    parser.add_argument("--answers", metavar="FOLDER", help="keep the results there")
    parser.add_argument("--markdown", action="store_true", help="print a table in Markdown")
    parser.add_argument("--side", metavar="OUT", help=argparse.SUPPRESS)
    parser.add_argument("keys", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        evaluate(args.keys, pathlib.Path(args.side))
        return
    none = f"no answer in {args.limit:.0f} s"
    head = ["function", "ours: largest", "mean", "oracle: largest", "mean"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(args.answers or temporary).absolute()
        rows = [
            [name, *["" if x is None else f"{x:.3g}" for x in numbers]]
            for name, *numbers in table(args.filter, folder, args.limit)
        ]
    rows = [[x or (none if i in (1, 3) else "") for i, x in enumerate(row)] for row in rows]
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
