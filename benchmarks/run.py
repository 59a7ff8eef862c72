"""Times this checkout's jax and PyPI's alternately, and prints the ratios.

Run it with `python3 build/build.py bench`.

Each side runs in its own process (worker.py), and only one of them works at a time. A row's ratio
is the median over the rounds of ours/oracle, and its spread is the middle half of the rounds'
ratios. A temporary slowdown of the machine affects both sides of a round. In some rows the oracle's
side runs NumPy; these rows are in a separate table.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tqdm import tqdm

HERE = pathlib.Path(__file__).absolute().parent
ROOT = HERE.parent
# The duration of a batch of calls: far above the clock's resolution, but short compared with
# fluctuations in the speed of the machine.
BATCH_SECONDS = 0.02
# How long --fastest calls one side in a round.
FASTEST_SECONDS = 0.1

STARTUP = """
import time
start = time.perf_counter()
import jax
seconds = time.perf_counter() - start
try:
    # the kernel's number for this program alone; ru_maxrss still has the parent's of before exec
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024
except OSError:
    import resource, sys
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(seconds, peak)
"""
STARTUP_GROUP = {"group": "start", "beside": "oracle", "new_workers": True}
STARTUP_ROWS = (
    {"name": "import jax", "mark": 0.5, "unit": "s"} | STARTUP_GROUP,
    {"name": "peak memory after import", "mark": 1.0, "unit": "B"} | STARTUP_GROUP,
)


class BenchError(Exception):
    """Raised if a side cannot be run."""


@dataclasses.dataclass(frozen=True)
class Row:
    """The outcome of one benchmark.

    `ours` and `oracle` are medians, and `ratios` has one number per round. `beside` is what the
    oracle's side ran: "oracle" or "NumPy". `new_workers` says that each round had workers of its
    own.
    """

    name: str
    group: str
    unit: str
    mark: float | None
    beside: str
    new_workers: bool
    ours: float | None
    oracle: float | None
    ratios: list[float]
    error: str | None = None

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def spread(self) -> tuple[float, float] | None:
        if len(self.ratios) < 2:
            return None
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high

    @property
    def verdict(self) -> str:
        if self.error is not None:
            return "failed"
        if self.mark is None:
            return ""
        return "met" if round(self.ratio, 3) <= self.mark else "missed"


class Side:
    """One implementation: its Python, the folders that it imports from, and its worker.

    A side without such folders is the oracle, and runs NumPy for benchmarks that define it.
    """

    def __init__(self, name: str, python: str, path: str | None, worker: str = "worker"):
        self.name, self.python, self.worker = name, python, worker
        self.is_oracle = path is None
        paths = ("PYTHONPATH", "PYTHONSAFEPATH")
        kept = {key: value for key, value in os.environ.items() if key not in paths}
        self.variables = kept | ({"PYTHONPATH": path} if path else {})
        self._worker = None

    def startup(self) -> tuple[float, float]:
        """Imports jax in a new process; returns the seconds it took and the peak memory in bytes."""
        with tempfile.TemporaryDirectory() as elsewhere:  # the current folder may contain a jax
            result = subprocess.run(
                [self.python, "-c", STARTUP],
                env=self.variables,
                cwd=elsewhere,
                capture_output=True,
                text=True,
                check=False,
            )
        if result.returncode:
            raise BenchError(f"{self.name}: {self.python} cannot import jax:\n{result.stderr}")
        seconds, peak = map(float, result.stdout.split())
        return seconds, peak

    def ask(self, do: str, **request) -> dict:
        if self._worker is None:
            # Run it as a module from its folder. Bazel links worker.py, and suite.py may not be
            # where the link points to.
            self._worker = subprocess.Popen(
                [self.python, "-m", self.worker],
                env=self.variables,
                cwd=HERE,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        try:
            print(json.dumps({"do": do, **request}), file=self._worker.stdin, flush=True)
            answer = self._worker.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            status = self._worker.wait()
            self._worker = None
            raise BenchError(f"{self.name}: its worker ended with status {status} (see above)")
        return json.loads(answer)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.stdin.close()
            try:
                self._worker.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._worker.kill()
                self._worker.wait()
            self._worker = None


def measure_startup(sides: list[Side], rounds: int, fastest: bool, bar: tqdm) -> list[Row]:
    for side in sides:
        side.startup()  # writes the bytecode and fills the disk cache
    samples = {side: [] for side in sides}
    for side in alternate(sides, rounds):
        samples[side].append(side.startup())
        bar.update(1 / (rounds * len(sides)) * len(STARTUP_ROWS))
    return [
        compare(row, *([sample[i] for sample in samples[side]] for side in sides), fastest)
        for i, row in enumerate(STARTUP_ROWS)
    ]


def measure(row: dict, sides: list[Side], rounds: int, fastest: bool = False) -> Row:
    try:
        if row["new_workers"]:
            samples = measure_in_new_workers(row, sides, rounds)
        else:
            samples = take_samples(row, sides, rounds, fastest)
        return compare(row, *(samples[side] for side in sides), fastest)
    except BenchError as error:
        return failed(row, str(error))


def prepare(row: dict, side: Side) -> dict:
    answer = side.ask("prepare", name=row["name"], as_oracle=side.is_oracle)
    if "error" in answer:
        raise BenchError(f"{side.name}: {answer['error']}")
    return answer


def take_samples(
    row: dict, sides: list[Side], rounds: int, fastest: bool
) -> dict[Side, list[float]]:
    answers = {side: prepare(row, side) for side in sides}
    if row["unit"] != "s":
        return {side: [answer["value"]] for side, answer in answers.items()}
    if fastest:
        request = {"do": "fastest", "seconds": FASTEST_SECONDS}
    else:
        # The first of these calls may still fill caches, so take the fastest.
        seconds = [
            [side.ask("time", name=row["name"], calls=3)["seconds"] for _ in range(3)]
            for side in sides
        ]
        calls = max(1, round(BATCH_SECONDS / max(min(times) for times in seconds)))
        request = {"do": "time", "calls": calls}
    samples = {side: [] for side in sides}
    for side in alternate(sides, rounds):
        samples[side].append(side.ask(**request, name=row["name"])["seconds"])
    for side in sides:
        side.ask("forget", name=row["name"])
    return samples


def measure_in_new_workers(row: dict, sides: list[Side], rounds: int) -> dict[Side, list[float]]:
    samples = {side: [] for side in sides}
    for side in sides:
        side.close()  # its memory may be needed
    for side in alternate(sides, rounds):
        try:
            prepare(row, side)
            samples[side].append(side.ask("time", name=row["name"], calls=1)["seconds"])
        finally:
            side.close()
    return samples


def alternate(sides: list[Side], rounds: int):
    """Yields each side once per round, in alternating order, so that neither has warmer caches."""
    for i in range(rounds):
        yield from sides if i % 2 == 0 else reversed(sides)


def compare(row: dict, ours: list[float], oracle: list[float], fastest: bool = False) -> Row:
    if fastest:
        ours, oracle = [min(ours)], [min(oracle)]
    ratios = [
        a / b if b else (1.0 if a == b else float("inf")) for a, b in zip(ours, oracle, strict=True)
    ]
    return Row(**row, ours=statistics.median(ours), oracle=statistics.median(oracle), ratios=ratios)


def failed(row: dict, error: str) -> Row:
    return Row(**row, ours=None, oracle=None, ratios=[], error=error)


# The table


def cells(row: Row) -> list[str]:
    if row.error is not None:
        return [row.name, "", "", "failed", "", format_mark(row.mark), row.verdict]
    spread = "" if row.spread is None else "{:.2f} – {:.2f}".format(*row.spread)
    return [
        row.name,
        format_quantity(row.ours, row.unit),
        format_quantity(row.oracle, row.unit),
        f"{row.ratio:.2f}",
        spread,
        format_mark(row.mark),
        row.verdict,
    ]


def headings(beside: str) -> tuple[str, ...]:
    return ("benchmark", "ours", beside, "ratio", "middle half", "mark", "")


def by_side(rows: list[Row]) -> dict[str, list[Row]]:
    """Splits the rows into tables: those compared with the oracle, then those with NumPy."""
    tables = {side: [r for r in rows if r.beside == side] for side in ("oracle", "NumPy")}
    return {side: rows for side, rows in tables.items() if rows}


def format_mark(mark: float | None) -> str:
    return "" if mark is None else f"≤ {mark:g}"


def format_quantity(value: float, unit: str) -> str:
    if unit == "s":
        for scale, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if value >= scale or name == "µs":
                return f"{value / scale:.3g} {name}"
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")):
        if value >= scale or scale == 1:
            return f"{value / scale:.4g} {prefix}{unit}"
    return ""


def print_table(rows: list[Row]) -> None:
    console = Console()
    if not console.is_terminal:
        print_plain(rows)
        return
    colors = {"met": "green", "missed": "red", "failed": "red bold"}
    for beside, some in by_side(rows).items():
        table = Table(title="this jax / " + ("NumPy" if beside == "NumPy" else "PyPI's jax"))
        for heading in headings(beside):
            table.add_column(heading, justify="left" if heading in ("benchmark", "") else "right")
        group = None
        for row in some:
            if group not in (None, row.group):
                table.add_section()
            group = row.group
            table.add_row(
                *map(escape, cells(row)),
                style=colors.get(row.verdict) if row.verdict != "met" else None,
            )
        console.print(table)


def print_plain(rows: list[Row]) -> None:
    tables = [[list(headings(beside)), *map(cells, some)] for beside, some in by_side(rows).items()]
    widths = [max(map(len, column)) for column in zip(*sum(tables, []), strict=True)]
    for i, lines in enumerate(tables):
        if i:
            print()
        for line in lines:
            first, *others = (
                cell.ljust(w) if i in (0, 6) else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            )
            print("  ".join([first, *others]).rstrip())


def print_markdown(rows: list[Row]) -> None:
    for i, (beside, some) in enumerate(by_side(rows).items()):
        if i:
            print()
        print("|", " | ".join(headings(beside)[:-1]), "|")
        print("| --- | ---: | ---: | ---: | ---: | ---: |")
        for row in some:
            name, *others, verdict = cells(row)
            if re.fullmatch(r"(jnp|jax|x)\b.*|import jax", name):
                name = f"`{name}`"
            if verdict not in ("met", ""):
                others[2] = f"**{others[2]}**"
            print("|", " | ".join([name, *others]), "|")


# Command line


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="build.py bench", description="Time this jax beside PyPI's."
    )
    parser.add_argument(
        "--filter",
        type=pattern,
        metavar="REGEX",
        help="only benchmarks whose name or group matches",
    )
    parser.add_argument(
        "--rounds", type=positive, default=15, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--fastest",
        action="store_true",
        help="compare the fastest call of each side: for a machine that does other work",
    )
    parser.add_argument(
        "--json", type=pathlib.Path, metavar="OUT", help="also write every number to OUT"
    )
    parser.add_argument("--markdown", action="store_true", help="print the README's table")
    parser.add_argument(
        "--list", action="store_true", help="print the names of the benchmarks and end"
    )
    parser.add_argument(
        "--check", action="store_true", help="exit with status 1 if a mark is missed"
    )
    parser.add_argument(
        "--noise",
        action="store_true",
        help="PyPI's jax on both sides: how far a ratio strays from 1",
    )
    arguments = parser.parse_args()
    if arguments.json is not None:
        try:
            arguments.json.open("a").close()
        except OSError as error:
            parser.error(f"argument --json: cannot write to {arguments.json}: {error.strerror}")
    return arguments


def pattern(text: str) -> re.Pattern:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more; got {text!r}")
    return number


def oracle_python() -> str:
    python = os.environ.get("JAX_ORACLE_PYTHON") or str(ROOT / ".oracle" / "bin" / "python")
    if not os.access(python, os.X_OK):
        raise BenchError(f"there is no oracle at {python}: run python3 build/build.py oracle")
    return os.path.abspath(python)  # workers run in another folder


def own_path() -> str:
    # Include the folders of this process's packages, since under Bazel each package has its own.
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def run(arguments) -> list[Row]:
    python = oracle_python()
    oracle = Side("oracle", python, None)
    ours = (
        Side("oracle again", python, None)
        if arguments.noise
        else Side("ours", sys.executable, own_path())
    )
    sides = [ours, oracle]
    try:
        suite = oracle.ask("list")["benchmarks"]
        wanted = [
            row
            for row in (*STARTUP_ROWS, *suite)
            if arguments.filter is None or arguments.filter.search(f"{row['group']}: {row['name']}")
        ]
        if not wanted:
            raise BenchError(
                f"no benchmark matches {arguments.filter.pattern!r} (--list shows them)"
            )
        if arguments.list:
            for row in wanted:
                print(f"{row['group']}: {row['name']}")
            return []
        ours.ask("list")  # reports once, not in every row, if our side cannot start
        rows = []
        with tqdm(
            total=len(wanted),
            bar_format="{l_bar}{bar}| {elapsed}<{remaining}",
            leave=False,
            disable=None,  # disables the bar without a terminal
        ) as bar:
            if wanted[0] in STARTUP_ROWS:
                bar.set_description("import jax")
                rows += [
                    row
                    for row in measure_startup(sides, arguments.rounds, arguments.fastest, bar)
                    if row.name in {w["name"] for w in wanted}
                ]
            for row in wanted:
                if row not in STARTUP_ROWS:
                    bar.set_description(row["name"])
                    rows.append(measure(row, sides, arguments.rounds, arguments.fastest))
                    bar.update(1)
        return rows
    finally:
        for side in sides:
            side.close()


@contextlib.contextmanager
def reported_errors():
    """Ends the program with one line for an error of the benchmarks, or when it is interrupted."""
    try:
        yield
    except BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        sys.exit(130)


def main() -> int:
    arguments = parse_arguments()
    with reported_errors():
        rows = run(arguments)
    if arguments.list:
        return 0
    if arguments.markdown:
        print_markdown(rows)
    else:
        print_table(rows)
    for row in rows:
        if row.error is not None:
            print(f"\n{row.name}: {row.error}", file=sys.stderr)
    if arguments.json is not None:
        record = {
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
            "rounds": arguments.rounds,
            "rows": [
                dataclasses.asdict(row) | {"ratio": row.ratio, "verdict": row.verdict}
                for row in rows
            ],
        }
        arguments.json.write_text(json.dumps(record, indent=1))
    bad = [
        row
        for row in rows
        if row.verdict == "failed" or (arguments.check and row.verdict == "missed")
    ]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
