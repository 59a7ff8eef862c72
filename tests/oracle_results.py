"""What PyPI's jax, the oracle, answers to the tables of cases: files under tests/testdata, one for each table.

Run by the oracle's Python this file makes them anew (`build.py oracle --update`, `--verify`); the tests read them. A file
is two lines, the format and the fingerprint of the sources that it was made from, and then what LZMA makes of a line of
JSON and the bytes of all arrays that the JSON refers to by number. Of an exception only the class is kept.
"""

import argparse
import ast
import hashlib
import importlib.util
import json
import lzma
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import comparison
import numpy as np
import op_cases

HERE = Path(__file__).absolute().parent
LIBRARIES = HERE / "libraries"
FORMAT = b"oracle results 1"
# Tables that need packages which are installed with published libraries: absl.
WITH_LIBRARIES = ("harnesses_scenarios.py",)
FLOAT0 = np.dtype([("float0", np.void, 0)])


class ResultsError(Exception):
    """There are no results of the table as it is now."""


def tables() -> list[Path]:
    """All tables of cases that are compared with the oracle."""
    found = sorted([*HERE.glob("*_cases.py"), *HERE.glob("*_scenarios.py")])
    found += sorted(LIBRARIES.glob("*_scenarios.py"))
    return [p for p in found if p.stem not in ("op_cases", "formula_cases")]


def option_of(table: Path) -> str | None:
    """The option of build.py that provides packages which the table needs besides."""
    if table.parent == LIBRARIES or table.name in WITH_LIBRARIES:
        return "--libraries"
    return "--aot" if table.name.startswith("aot_") else None


def packages_of(option: str) -> Path | None:
    """The folder with the packages that an option of build.py provides, if they are installed."""
    spec = importlib.util.find_spec({"--aot": "libtpu", "--libraries": "flax"}[option])
    return None if spec is None else Path(spec.origin).parent.parent


def stored_at(table: Path) -> Path:
    return table.parent / "testdata" / f"{table.stem}.xz"


def read(table: str | Path) -> dict[str, Any]:
    """The oracle's results of all cases of a table, by name.

    Raises:
      ResultsError: if they are of other sources than the table and what it imports have now.
    """
    table = Path(table)
    path = stored_at(table)
    command = " ".join(filter(None, ["oracle", option_of(table), "--update"]))
    folder = "tests/libraries" if table.parent == LIBRARIES else "tests"
    remedy = f"make them with: python3 build/build.py {command} {folder}/{table.name}"
    if not path.exists():
        raise ResultsError(f"there are no results of the oracle for {table.name}; {remedy}")
    form, fingerprint_, data = path.read_bytes().split(b"\n", 2)
    if form != FORMAT or fingerprint_.decode() != fingerprint(table):
        raise ResultsError(
            f"{table.name}, a module it imports, or op_cases.py has changed since testdata/{path.name} was made; {remedy}"
        )
    return _decode(data)


def is_current(table: Path) -> bool:
    path = stored_at(table)
    if not path.exists():
        return False
    with path.open("rb") as file:
        return file.readline()[:-1] == FORMAT and file.readline()[:-1].decode() == fingerprint(
            table
        )


def write(table: Path, results: dict[str, Any], made_from: str) -> None:
    """Stores results of sources that had the fingerprint `made_from`."""
    path = stored_at(table)
    path.parent.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(b"\n".join([FORMAT, made_from.encode(), _encode(results)]))
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def fingerprint(table: Path) -> str:
    """A hash of all that decides the results: the table, what it imports from here, and how cases are evaluated."""
    sources = sorted(_sources(table) | _sources(HERE / "op_cases.py"), key=lambda p: p.name)
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:24]


def _sources(path: Path) -> set[Path]:
    """A module and those beside it that it imports, at any depth."""
    found, waiting = set(), [path.absolute()]
    while waiting:
        source = waiting.pop()
        if source in found:
            continue
        found.add(source)
        for node in ast.walk(ast.parse(source.read_bytes())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            beside = (source.parent / f"{name}.py" for name in names)
            waiting += (file for file in beside if file.exists())
    return found


def _encode(results: dict[str, Any]) -> bytes:
    numbers: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def pack(x):
        if isinstance(x, np.ndarray):
            key = (_dtype_name(x.dtype), x.shape, _planes(x.tobytes(), x.dtype.itemsize))
            return {"array": numbers.setdefault(key, len(numbers))}
        if isinstance(x, dict):
            return {"dict": {name: pack(value) for name, value in x.items()}}
        if isinstance(x, (list, tuple)):
            return [pack(value) for value in x]
        assert x is None or isinstance(x, (str, bool, int)), f"cannot be stored: {x!r}"
        return x

    packed = pack(results)
    arrays = [(dtype, shape) for dtype, shape, _ in numbers]
    text = json.dumps({"arrays": arrays, "results": packed}, separators=(",", ":"))
    blob = b"".join(data for *_, data in numbers)
    return lzma.compress(
        text.encode() + b"\n" + blob, preset=9 | lzma.PRESET_EXTREME, check=lzma.CHECK_CRC32
    )


def _decode(data: bytes) -> dict[str, Any]:
    text, blob = lzma.decompress(data).split(b"\n", 1)
    content = json.loads(text)
    arrays, start = [], 0
    for name, shape in content["arrays"]:
        dtype = FLOAT0 if name == "float0" else op_cases.dtype_of(name)
        size = dtype.itemsize * int(np.prod(shape, dtype=int))
        part = _planes(blob[start : start + size], -dtype.itemsize)
        array = np.frombuffer(part, dtype) if size else np.empty(shape, dtype)
        arrays.append(array.reshape(shape))
        start += size

    def unpack(x):
        if isinstance(x, dict):
            if "array" in x:
                return arrays[x["array"]]
            return {name: unpack(value) for name, value in x["dict"].items()}
        return [unpack(value) for value in x] if isinstance(x, list) else x

    return unpack(content["results"])


def _dtype_name(dtype: np.dtype) -> str:
    if dtype == FLOAT0:
        return "float0"
    assert not dtype.hasobject, "arrays of objects cannot be stored"
    return dtype.str if dtype.kind in "SU" else dtype.name


def _planes(data: bytes, itemsize: int) -> bytes:
    """The first bytes of all numbers, then the second ones, and so on, which repeat more often; back if negative."""
    if abs(itemsize) < 2:
        return data
    shape = (-1, itemsize) if itemsize > 0 else (-itemsize, -1)
    return np.frombuffer(data, np.uint8).reshape(shape).T.tobytes()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="oracle_results.py",
        description="What PyPI's jax answers to the tables of cases. The oracle's Python has to run this.",
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--update", action="store_true", help="store results of changed tables")
    mode.add_argument(
        "--verify", action="store_true", help="ask again, compare with what is stored"
    )
    mode.add_argument("--check", action="store_true", help="only say which tables have changed")
    mode.add_argument("--evaluate", type=Path, help=argparse.SUPPRESS)
    mode.add_argument("--compare", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("tables", nargs="*", type=Path, help="tests/*_cases.py; all by default")
    parser.add_argument("--all", action="store_true", help="update also what has not changed")
    parser.add_argument("--jobs", type=int, default=1, help="how many tables at a time")
    options = parser.parse_args(arguments)
    if options.evaluate:
        made_from = fingerprint(options.evaluate)
        write(options.evaluate, _evaluate(options.evaluate), made_from)
        return 0
    if options.compare:
        _compare(options.compare)
        return 0
    known = tables()
    folders = {path.name: path.parent for path in known}
    chosen = [folders.get(p.name, HERE) / p.name for p in options.tables] or known
    for option in () if options.check else ("--aot", "--libraries"):
        absent = [path for path in chosen if option_of(path) == option]
        if absent and packages_of(option) is None:
            names = ", ".join(path.name for path in absent)
            print(f"left out, since they need `oracle {option}`: {names}", file=sys.stderr)
            chosen = [path for path in chosen if path not in absent]
    if strangers := [path.name for path in chosen if path not in known]:
        parser.error(f"no table of cases: {', '.join(strangers)}")
    stale = [path for path in chosen if not is_current(path)]
    if options.check or options.verify:
        for path in stale:
            print(f"{path.name}: the stored results are of other sources", file=sys.stderr)
        if stale or options.check:
            return bool(stale)
    if not options.tables and not options.verify:
        _remove_unused(known)
    return _run_all(chosen if options.all or options.verify else stale, options)


def _run_all(chosen: Iterable[Path], options: argparse.Namespace) -> int:
    """Each table in a process of its own: some settings of jax hold for a process."""

    def run(path):
        action = "--compare" if options.verify else "--evaluate"
        command = [sys.executable, __file__, action, str(path)]
        unwanted = ("JAX_", "XLA_", "PYTHON")
        env = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
        env |= {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
        if option := option_of(path):
            env["PYTHONPATH"] = str(packages_of(option))
        return subprocess.run(
            command, env=env, cwd=HERE, capture_output=True, text=True, check=False
        )

    status = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        chosen = list(chosen)
        for path, done in zip(chosen, pool.map(run, chosen)):
            print(f"{path.name}: {'ok' if done.returncode == 0 else 'FAILED'}", flush=True)
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                status = 1
    return status


def _remove_unused(known: Iterable[Path]) -> None:
    wanted = {stored_at(path) for path in known}
    for folder in (HERE, LIBRARIES):
        for path in (folder / "testdata").glob("*.xz"):
            if path not in wanted:
                path.unlink()


def _evaluate(table: Path) -> dict[str, Any]:
    import jax

    if Path(jax.__file__).parent.parent == HERE.parent:
        sys.exit(
            f"{sys.executable} imports this checkout's jax: the oracle's Python has to run this"
        )
    results = {case.name: op_cases.evaluate(case) for case in op_cases.load(table)}
    return {name: _without_texts(result) for name, result in results.items()}


def _without_texts(results):
    """Of errors the classes only."""
    return {m: r[:1] if isinstance(r[0], str) else r for m, r in results.items()}


def _compare(table: Path) -> None:
    stored, results = read(table), _evaluate(table)
    assert list(stored) == list(results), "the names of the cases differ"
    for case in op_cases.load(table):
        assert list(stored[case.name]) == list(results[case.name]), f"{case.name}: the modes differ"
        comparison.assert_same_results(case, results[case.name], stored[case.name])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
