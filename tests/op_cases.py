"""Cases of operations, evaluated in the same way by this library and by the reference build.

A module of cases has a list `CASES`. `evaluate` runs one in all modes; `python op_cases.py MODULE OUT`
does so for all cases of a module with whatever `jax` is installed, and pickles the results.
"""

import ast
import functools
import hashlib
import importlib.util
import itertools
import os
import pickle
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

BATCH = 3
REFERENCE_PYTHON = Path(__file__).absolute().parent.parent / ".oracle" / "bin" / "python"
MADE_BEFOREHAND = os.environ.get("JAX_REFERENCE_RESULTS") and os.path.abspath(
    os.environ["JAX_REFERENCE_RESULTS"]
)


@dataclass
class Case:
    """One operation on operands of given shapes and dtypes.

    Attributes:
      name: unique among the cases of a module.
      fun: a function of arrays, in terms of `jax`.
      args: NumPy arrays.
      numpy: the same in NumPy, or None.
      diff: whether to differentiate, forward and (if "both") backward.
      vmap: whether to batch.
      x64: whether to run with 64-bit types.
      tol: relative and absolute tolerance, None for a default by dtype.
      ignore: modes that are left out.
      optimized: whether to compile as for users, where other cases are compiled quickly (see conftest.py).
    """

    name: str
    fun: Callable[..., Any]
    args: Sequence[np.ndarray]
    numpy: Callable[..., Any] | None = None
    diff: str = "both"
    vmap: bool = True
    x64: bool = False
    tol: float | None = None
    ignore: Sequence[str] = field(default_factory=tuple)
    optimized: bool = False


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def is_inexact(dtype: Any) -> bool:
    return np.issubdtype(dtype, np.inexact) or str(dtype).startswith(("bfloat", "float"))


def values(shape: Sequence[int], dtype: str, key: str, special: bool = False, ties: bool = False):
    """Random numbers that depend on `key` only; `special` puts infinities, NaN and zeros among them."""
    rng = np.random.RandomState(zlib.crc32(f"{key}{shape}{dtype}".encode()) % 2**31)
    dt = dtype_of(dtype)
    n = int(np.prod(shape, dtype=int))
    if dt == np.bool_:
        out = rng.rand(n) < 0.5
    elif is_inexact(dt):
        out = rng.randn(n) * 2
        if np.issubdtype(dt, np.complexfloating):
            out = out + 1j * rng.randn(n)
        if ties:
            out = np.round(out)
        if special and n:
            table = [np.inf, -np.inf, np.nan, 0.0, -0.0]
            for i in rng.permutation(n)[: max(1, n // 3)]:
                out[i] = table[rng.randint(5)]
    else:
        low = 0 if "uint" in dtype else -5
        out = rng.randint(low, 6, n) if "int2" not in dtype else rng.randint(low // 5, 2, n)
    return np.asarray(out).reshape(shape).astype(dt)


def evaluate(case: Case) -> dict[str, Any]:
    """The results in each mode: a list of NumPy arrays, or the error's class and text."""
    import jax

    quickly = jax.config.values["jax_disable_most_optimizations"]
    if case.optimized and quickly:
        jax.config.update("jax_disable_most_optimizations", False)
        try:
            return evaluate(case)
        finally:
            jax.config.update("jax_disable_most_optimizations", quickly)
    with jax.enable_x64(case.x64):
        modes = {m: f for m, f in _compiled_modes(jax, case).items() if m not in case.ignore}
        out = {} if "eager" in case.ignore else {"eager": _result(jax, case.fun, *case.args)}
        try:
            return out | _results_of_one_program(jax, modes)
        except Exception:  # one of them cannot be lowered, compiled or run
            return out | {m: _result(jax, jax.jit(f), *args) for m, (f, args) in modes.items()}


def _compiled_modes(jax, case):
    """Functions to compile, by mode, each with its arguments."""
    args = tuple(case.args)
    modes = {"jit": (jax.jit(case.fun), args)}
    inexact = [i for i, a in enumerate(args) if is_inexact(a.dtype)]
    if case.diff and inexact:
        tangents = tuple(_tangent(a, i) for i, a in enumerate(args))
        modes["jvp"] = lambda p, t: jax.jvp(case.fun, p, t)[1], (args, tangents)
        if case.diff == "both":
            modes["vjp"] = _pullback(jax, case.fun, args, inexact), [args[i] for i in inexact]
    if case.vmap and args:
        for i, axes in enumerate(_batchings(args)):
            batched = [_batch(a, d) for a, d in zip(args, axes)]
            modes[f"vmap{i}"] = jax.vmap(case.fun, axes), batched
    return modes


def _results_of_one_program(jax, modes):
    """Compiles all modes at once, which takes less time than one after the other.

    Where programs are compiled quickly, XLA's older emitters do so in half the time of those that it has for users'
    programs, which `eager` goes through.
    """
    errors = {}
    quickly = jax.config.values["jax_disable_most_optimizations"]
    options = {"xla_cpu_use_fusion_emitters": False} if quickly else None

    @functools.partial(jax.jit, compiler_options=options)
    def program(operands):
        outs = {}
        for mode, (fun, _) in modes.items():
            try:
                outs[mode] = jax.tree.leaves(fun(*operands[mode]))
            except Exception as err:
                errors[mode] = _error(err)
        return outs

    outs = program({mode: args for mode, (_, args) in modes.items()})
    return {m: errors[m] if m in errors else _arrays(outs[m]) for m in modes}


def _result(jax, fun, *args):
    try:
        return _arrays(jax.tree.leaves(fun(*args)))
    except Exception as err:
        return _error(err)


def _arrays(leaves):
    weak = [bool(getattr(getattr(x, "aval", None), "weak_type", False)) for x in leaves]
    return [np.asarray(x) for x in leaves], weak


def _error(err):
    return type(err).__name__, str(err)


def evaluate_eager(case: Case):
    """The results of the plain call; errors are raised."""
    import jax

    with jax.enable_x64(case.x64):
        leaves = jax.tree.leaves(case.fun(*case.args))
        return [np.asarray(x) for x in leaves], None


def _tangent(a, i):
    if not is_inexact(a.dtype):
        return np.zeros(a.shape, np.dtype([("float0", np.void, 0)]))
    return (np.cos(np.arange(a.size) + i).reshape(a.shape)).astype(a.dtype)


def _pullback(jax, fun, args, inexact):
    """Takes the inexact ones of `args`; its cotangents are made up."""

    def of_inexact(*xs):
        full = list(args)
        for i, x in zip(inexact, xs):
            full[i] = x
        return [o for o in jax.tree.leaves(fun(*full)) if is_inexact(o.dtype)]

    def run(*xs):
        outs, pull = jax.vjp(of_inexact, *xs)
        return pull([np.sin(np.arange(o.size) + 1).reshape(o.shape).astype(o.dtype) for o in outs])

    return run


def _batchings(args):
    """All operands along the first axis, along the last, and one after the other alone."""
    yield (0,) * len(args)
    yield (-1,) * len(args)
    if len(args) > 1:
        for i in range(len(args)):
            yield tuple(0 if j == i else None for j in range(len(args)))


def _batch(a, axis):
    if axis is None:
        return a
    rolled = [np.roll(a, k) if a.ndim else a + a.dtype.type(0) for k in range(BATCH)]
    return np.stack(rolled, axis)


def load(path: str | Path) -> list[Case]:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = [c.name for c in module.CASES]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
    return module.CASES


def reference_results(path: str | Path, evaluator: str = __file__) -> dict[str, Any] | None:
    """What the reference build gives for all cases of a module; None if it is not installed.

    The results are kept beside the build, until a source that has part in them changes; or they are in
    JAX_REFERENCE_RESULTS, a folder, made beforehand.

    Args:
      path: of the module of cases.
      evaluator: the program that evaluates them: `python evaluator PATH OUT` with the reference's Python.
    """
    if MADE_BEFOREHAND:
        return pickle.loads(Path(MADE_BEFOREHAND, f"{Path(path).stem}.pickle").read_bytes())
    if not REFERENCE_PYTHON.exists():
        return None
    sources = sorted(sources_of(path) | sources_of(evaluator))
    key = hashlib.sha256(b"".join(s.read_bytes() for s in sources)).hexdigest()[:24]
    cached = REFERENCE_PYTHON.parent.parent / "results" / f"{Path(path).stem}-{key}.pickle"
    if not cached.exists():
        cached.parent.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "PYTHONPATH"))}
        env["PYTHONPATH"] = str(Path(__file__).parent)
        env["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        with tempfile.TemporaryDirectory(dir=cached.parent) as tmp:
            out = Path(tmp) / "results.pickle"
            command = [str(REFERENCE_PYTHON), "-P", evaluator, str(path), str(out)]
            subprocess.run(command, check=True, env=env, cwd=tmp, stdout=subprocess.DEVNULL)
            out.rename(cached)
    return pickle.loads(cached.read_bytes())


def sources_of(path: str | Path) -> set[Path]:
    """A module and those beside it that it imports, at any depth."""
    found, waiting = set(), [Path(path).absolute()]
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


def assert_same(ours: Any, theirs: Any, tol: float | None = None) -> None:
    """Fails unless two results are equal up to rounding, with the same dtypes and weak types."""
    if isinstance(theirs[0], str):
        assert isinstance(ours[0], str), f"the reference raises {theirs}, we return {ours}"
        return
    assert not isinstance(ours[0], str), f"we raise {ours}, the reference returns {theirs}"
    assert len(ours[0]) == len(theirs[0])
    for x, y in zip(ours[0], theirs[0]):
        assert x.dtype == y.dtype, (x.dtype, y.dtype)
        assert x.shape == y.shape, (x.shape, y.shape)
        close(x, y, tol)
    assert ours[1] == theirs[1], f"weak types: {ours[1]} vs. {theirs[1]}"


def close(x: np.ndarray, y: np.ndarray, tol: float | None = None) -> None:
    if x.dtype.kind in "biu" or not is_inexact(x.dtype):
        if x.dtype.itemsize and x.dtype.names is None:
            np.testing.assert_array_equal(x, y)
        return
    wide = np.complex128 if np.issubdtype(x.dtype, np.complexfloating) else np.float64
    if tol is None:
        tol = {8: 1e-12, 4: 2e-5, 2: 2e-2, 1: 0.3}[
            x.dtype.itemsize // (2 if wide == np.complex128 else 1)
        ]
    np.testing.assert_allclose(x.astype(wide), y.astype(wide), rtol=tol, atol=tol)


def product(**choices: Sequence[Any]):
    """Dicts with one choice each, in all combinations."""
    for combination in itertools.product(*choices.values()):
        yield dict(zip(choices, combination))


if __name__ == "__main__":
    cases = load(sys.argv[1])
    Path(sys.argv[2]).write_bytes(pickle.dumps({c.name: evaluate(c) for c in cases}))
