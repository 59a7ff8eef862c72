"""Times the programs of benchmarks/cpu on the CPU: by this checkout's jax, by PyPI's, and by PyTorch, NumPy or Numba.

Run it with `python3 build/build.py bench --cpu`.

The sides run in processes of their own and take turns, as those of run.py do; of each the fastest
call counts. The share of the peak is that of the fastest large product, or copy, of any side. The
first call is the time to trace, lower and compile a program, the faster one of the rounds.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import sys

from run import (
    ROOT,
    BenchError,
    Side,
    alternate,
    format_quantity,
    oracle_python,
    own_path,
    pattern,
    positive,
    reported_errors,
)
from tqdm import tqdm

FIRST_CALLS = 2
HEADINGS = (
    *("program", "ours", "PyPI's", "ratio", "PyTorch, NumPy", "ratio"),
    *("of the peak", "first call", "PyPI's", "ratio"),
)


@dataclasses.dataclass
class Row:
    """What one program took: in seconds by side ("ours", "oracle", "other").

    `beside` is what the third side ran, or None, and `peak` the share of the peak that ours attains.
    """

    name: str
    beside: str | None
    seconds: dict[str, float]
    first: dict[str, float]
    peak: float | None

    def ratio(self, times: str, side: str) -> float | None:
        found = getattr(self, times)
        return found["ours"] / found[side] if side in found else None


def torch_python() -> str | None:
    """The Python with PyTorch and Numba, if there is one."""
    python = os.environ.get("JAX_TORCH_PYTHON") or str(ROOT / ".torch" / "bin" / "python")
    return os.path.abspath(python) if os.access(python, os.X_OK) else None


def ask(side: Side, do: str, **request) -> dict:
    answer = side.ask(do, **request)
    if "error" in answer:
        raise BenchError(f"{side.name}: {answer['error']}")
    return answer


def measure(program: dict, sides: list[Side], arguments, peaks: dict[str, float]) -> Row:
    name = program["name"]
    able = [s for s in sides if s.name != "other" or program["beside"]]
    first: dict[str, float] = {}
    for side in alternate(able, FIRST_CALLS):
        answer = ask(side, "prepare", name=name)
        if "first" in answer:
            first[side.name] = min(answer["first"], first.get(side.name, math.inf))
    seconds: dict[str, float] = {}
    for side in alternate(able, arguments.rounds):
        answer = ask(side, "fastest", name=name, seconds=arguments.seconds)
        seconds[side.name] = min(answer["seconds"], seconds.get(side.name, math.inf))
    for side in able:
        ask(side, "forget", name=name)
    shares = [
        program[unit] / seconds["ours"] / peaks[unit] for unit in peaks if program[unit] is not None
    ]
    return Row(name, program["beside"], seconds, first, shares[0] if shares else None)


def cells(row: Row) -> list[str]:
    other = "" if "other" not in row.seconds else format_quantity(row.seconds["other"], "s")
    return [
        row.name,
        *(format_quantity(row.seconds[side], "s") for side in ("ours", "oracle")),
        _ratio(row.ratio("seconds", "oracle")),
        f"{other} ({row.beside})" if other else "",
        _ratio(row.ratio("seconds", "other")),
        "" if row.peak is None else f"{100 * row.peak:.0f} %",
        *(format_quantity(row.first[side], "s") for side in ("ours", "oracle")),
        _ratio(row.ratio("first", "oracle")),
    ]


def means(rows: list[Row]) -> list[str]:
    """The last line: geometric means of the ratios."""
    found = [
        [ratio for row in rows if (ratio := row.ratio(*column)) is not None]
        for column in (("seconds", "oracle"), ("seconds", "other"), ("first", "oracle"))
    ]
    steady, beside, first = (
        _ratio(math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None)
        for ratios in found
    )
    return ["geometric mean", "", "", steady, "", beside, "", "", "", first]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def print_table(rows: list[Row]) -> None:
    """Prints the table in Markdown, its columns aligned."""
    lines = [list(HEADINGS), *map(cells, rows), means(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    for line in (lines[0], rule, *lines[1:]):
        padded = [
            cell.rjust(w) if i else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        print("|", " | ".join(padded), "|")


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="build.py bench --cpu",
        description="Time programs on the CPU by this jax, PyPI's, and PyTorch or NumPy.",
    )
    parser.add_argument("--filter", type=pattern, metavar="REGEX", help="only these programs")
    parser.add_argument(
        "--rounds", type=positive, default=4, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.1, help="of each side and round; default: %(default)s"
    )
    parser.add_argument("--json", type=pathlib.Path, metavar="OUT", help="also write the numbers")
    return parser.parse_args()


def run(arguments) -> list[Row]:
    other = torch_python()
    if other is None:
        print("bench: there is no PyTorch here (build.py torch makes it)", file=sys.stderr)
    sides = [
        Side("ours", sys.executable, own_path(), worker="cpu.worker"),
        Side("oracle", oracle_python(), None, worker="cpu.worker"),
        *([Side("other", other, None, worker="cpu.worker")] if other else []),
    ]
    try:
        programs = [
            program
            for program in ask(sides[0], "list")["programs"]
            if arguments.filter is None or arguments.filter.search(program["name"])
        ]
        if not programs:
            raise BenchError("no program matches")
        found = [ask(side, "peaks") for side in sides]
        peaks = {unit: max(peak[unit] for peak in found) for unit in ("flop", "byte")}
        rows = [
            measure(program, sides, arguments, peaks)
            for program in tqdm(programs, leave=False, disable=None)
        ]
    finally:
        for side in sides:
            side.close()
    print_table(rows)
    print(
        f"\nThe peak: {peaks['flop'] / 1e9:.0f} GFLOP/s (a product in float32) and "
        f"{peaks['byte'] / 1e9:.1f} GB/s (a copy), on {os.cpu_count()} CPUs."
    )
    return rows


def main() -> int:
    arguments = parse_arguments()
    with reported_errors():
        rows = run(arguments)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
