"""Measures the errors of elementwise functions of this checkout's jax and of PyPI's, side by side.

    .venv/bin/python benchmarks/accuracy.py [--filter REGEX] [--limit SECONDS] [--answers FOLDER] [--publish]

Each side evaluates functions of jax.scipy.special, jax.scipy.stats (such as norm.pdf), jax.numpy,
jax.nn and jax.lax, in its own process, at the points of accuracy_reference.npz. The error of a result
is its distance from the exact value in units of the last place of that value's nearest floating-point
number; of a complex one, of the part with the larger magnitude. As processors may flush numbers below
the normal ones to zero, such results count as zero, and at such arguments the function's value at zero
is right, too. The file was made by accuracy_reference.py, which needs mpmath, and has exact values as
sums of two float64 numbers.

A side saves each function's results as soon as it has them. A function that takes longer than the
limit is ended, and its side goes on with the next one. With --answers FOLDER the results are kept
there, and the next run with that folder evaluates only what is missing from it. With --publish the
rows go to the tables of docs/accuracy.md instead of the terminal; with a filter, other rows stay.
"""

import argparse
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).absolute().parent
ROOT = HERE.parent
REFERENCE = HERE / "accuracy_reference.npz"
DOCUMENT = ROOT / "docs" / "accuracy.md"
DTYPES = ("float32", "float64", "complex64", "complex128", "float16", "bfloat16")
HALVES = DTYPES[4:]  # NumPy's files have no bfloat16, so these numbers are stored as float32
# Arguments that have to be of integers
INTEGERS = {"polygamma": [0], "ldexp": [1], "bernoulli": [0], "sph_harm_y": [0, 1]}
INTEGERS |= {f"multinomial.{kind}": [0, 1, 2] for kind in ("logpmf", "pmf")}


def functions():
    """Returns a dict of the functions that are not called by their names alone."""
    import jax
    import jax.numpy as jnp
    from jax.scipy import special, stats

    def dirichlet(function):
        return jax.vmap(lambda *args: function(jnp.stack(args[:3]), jnp.stack(args[3:])))

    def multivariate_normal(function):
        def of_numbers(x, y, mean_x, mean_y, xx, xy, yy):
            cov = jnp.stack([xx, xy, xy, yy]).reshape(2, 2)
            return function(jnp.stack([x, y]), jnp.stack([mean_x, mean_y]), cov)

        return jax.vmap(of_numbers)

    def multinomial(function):
        return jax.vmap(
            lambda *args: function(jnp.stack(args[:3]), sum(args[:3]), jnp.stack(args[3:]))
        )

    return {
        "bernoulli": lambda n: special.bernoulli(30)[n],
        "bessel_jn": lambda x: special.bessel_jn(x, v=4),
        "dirichlet.logpdf": dirichlet(stats.dirichlet.logpdf),
        "dirichlet.pdf": dirichlet(stats.dirichlet.pdf),
        "multivariate_normal.logpdf": multivariate_normal(stats.multivariate_normal.logpdf),
        "multivariate_normal.pdf": multivariate_normal(stats.multivariate_normal.pdf),
        "gelu_exact": lambda x: jax.nn.gelu(x, approximate=False),
        "glu": lambda *x: jax.nn.glu(jnp.stack(x), 0)[0],
        "integer_pow": lambda x: jax.lax.integer_pow(x, 7),
        "integer_pow_negative": lambda x: jax.lax.integer_pow(x, -3),
        "log_softmax": lambda *x: jax.nn.log_softmax(jnp.stack(x), 0)[0],
        "logmeanexp": lambda *x: jax.nn.logmeanexp(jnp.stack(x), 0),
        "logsumexp": lambda *x: jax.nn.logsumexp(jnp.stack(x), 0),
        "multigammaln": lambda x: special.multigammaln(x, 3),
        "multinomial.logpmf": multinomial(stats.multinomial.logpmf),
        "multinomial.pmf": multinomial(stats.multinomial.pmf),
        "softmax": lambda *x: jax.nn.softmax(jnp.stack(x), 0)[0],
        "sph_harm_y": lambda *x: special.sph_harm_y(*x, n_max=5),
    }


def evaluate(key, reference):
    """Returns the results of a function on this process's jax, one row each."""
    import jax
    import jax.scipy.special
    import jax.scipy.stats

    name, dtype = key.split(":")
    name = name.removesuffix("_at_cuts")
    modules = [jax.scipy.special, jax.numpy, jax.nn, jax.lax]
    attribute = name
    if "." in name:
        distribution, attribute = name.split(".")
        modules = [getattr(jax.scipy.stats, distribution)]
    function = functions().get(name) or next(
        getattr(m, attribute) for m in modules if hasattr(m, attribute)
    )
    with jax.enable_x64(dtype in ("float64", "complex128")):
        args = [
            x.astype(np.int32 if i in INTEGERS.get(name, ()) else dtype)
            for i, x in enumerate(reference[f"{key}:arguments"])
        ]
        out = jax.jit(function)(*args)
    out = np.asarray(out if isinstance(out, (tuple, list)) else [out])
    return out.astype(np.float32) if dtype in HALVES else out


def errors(out, exact):
    """Returns errors in units of the last place; infinite where only one of the numbers is finite."""
    parts = np.concatenate([out.real, out.imag]) if np.iscomplexobj(out) else out
    high, low = exact if len(exact) == 2 else (exact[0], 0)
    info = ml_dtypes.finfo(parts.dtype)
    with np.errstate(all="ignore"):
        nearest = high.astype(parts.dtype)
        size = np.where(np.isfinite(nearest), np.abs(nearest), parts.dtype.type(0))
        if np.iscomplexobj(out):
            size = size.max(0)
        unit = np.maximum(np.spacing(size).astype(float), float(info.tiny) * float(info.eps))
        error = np.abs((parts.astype(float) - high) - low) / unit
        same = (parts == nearest) | (np.isnan(parts) & np.isnan(nearest))
        error = np.where(np.isfinite(parts) & np.isfinite(nearest), error, np.inf)
        # Numbers below the normal ones may be flushed to zero.
        tiny = (np.abs(high) < float(info.tiny)) & (np.abs(parts) <= 2 * float(info.tiny))
    error = np.where(same & ~np.isfinite(nearest) | tiny, 0, error)
    return error.max(0) if np.iscomplexobj(out) else error


def smallest_errors(out, reference, key):
    """Returns errors in units of the last place, at flushed arguments the smaller one."""
    dtype = key.split(":")[1]
    out = out.astype(dtype) if dtype in HALVES else out
    error = errors(out, reference[f"{key}:values"])
    for flushed in itertools.takewhile(
        reference.files.__contains__, (f"{key}:flushed{i}" for i in itertools.count())
    ):
        exact = reference[flushed]
        is_there = ~np.isnan(exact[0]).any(0)
        error = np.where(is_there, np.minimum(error, errors(out, exact)), error)
    return error


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


def kind(dtype):
    """Returns the position of the table for a dtype."""
    return DTYPES.index(dtype) // 2


def ordered_keys(reference):
    """Returns the keys of the functions in the order of the tables."""
    keys = [key.removesuffix(":values") for key in reference.files if key.endswith(":values")]
    # A function's dtypes are next to each other.
    names = list(dict.fromkeys(key.split(":")[0] for key in keys))
    return sorted(keys, key=lambda k: (kind(k.split(":")[1]), names.index(k.split(":")[0])))


def table(pattern, folder, limit):
    """Yields rows: a function, and largest and mean errors of each side, None without an answer."""
    reference = np.load(REFERENCE)
    keys = [key for key in ordered_keys(reference) if re.search(pattern, key)]
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
    parser.add_argument(
        "--filter", default="", metavar="REGEX", help="functions to measure, as name:dtype"
    )
    parser.add_argument("--limit", type=float, default=60, help="seconds for a function")
    parser.add_argument("--answers", metavar="FOLDER", help="keep the results there")
    parser.add_argument("--publish", action="store_true", help="write the tables to the document")
    parser.add_argument("--side", metavar="OUT", help=argparse.SUPPRESS)
    parser.add_argument("keys", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        warnings.simplefilter("ignore")
        folder, reference = pathlib.Path(args.side), np.load(REFERENCE)
        unfinished = folder / "unfinished.npy"
        for key in args.keys:
            np.save(unfinished, evaluate(key, reference))
            unfinished.rename(folder / f"{key}.npy")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(args.answers or temporary).absolute()
        sections = formatted(table(args.filter, folder, args.limit), args.limit)
    if args.publish:
        publish(sections)
    else:
        show(sections)


HEAD = ["function", "ours: largest", "mean", "oracle: largest", "mean"]
TITLES = ("Real numbers", "Complex numbers", "float16 and bfloat16")


def formatted(rows, limit):
    """Returns a dict of tables of strings, one for each kind of dtypes."""
    sections = {title: [] for title in TITLES}
    for name, *numbers in rows:
        cells = ["" if x is None else f"{x:.3g}" for x in numbers]
        for i in (0, 2):
            cells[i] = cells[i] or f"no answer in {limit:.0f} s"
        sections[TITLES[kind(name.split(", ")[1])]].append([name, *cells])
    return {title: rows for title, rows in sections.items() if rows}


def publish(sections):
    """Writes rows to the document, whose other rows stay."""
    text = DOCUMENT.read_text()
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines()]
    rows = {row[0]: row for row in rows if row}
    rows |= {row[0]: row for new in sections.values() for row in new}
    out = {title: [] for title in TITLES}
    for key in ordered_keys(np.load(REFERENCE)):
        name, dtype = key.split(":")
        if row := rows.get(f"{name}, {dtype}"):
            out[TITLES[kind(dtype)]].append(row)
    DOCUMENT.write_text(text[: text.index("\n## ") + 1] + markdown(out))


def markdown(sections):
    lines = []
    for title, rows in sections.items():
        lines += [
            f"## {title}",
            "",
            f"| {' | '.join(HEAD)} |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        lines += [f"| {' | '.join(row)} |" for row in rows] + [""]
    return "\n".join(lines).strip() + "\n"


def show(sections):
    from rich.console import Console
    from rich.table import Table

    for title, rows in sections.items():
        out = Table(title=f"{title}: errors in units of the last place")
        for i, column in enumerate(HEAD):
            out.add_column(column, justify="right" if i else "left")
        for row in rows:
            out.add_row(*row)
        Console().print(out)


if __name__ == "__main__":
    main()
