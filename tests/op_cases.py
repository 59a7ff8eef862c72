"""Cases of operations and programs, evaluated in the same way by this library and by the reference build.

A table is a module with a list `CASES`. `evaluate` runs a case in all modes. The stored results of the reference build
depend on this file: what only compares or stores is elsewhere.
"""

import contextlib
import functools
import importlib.util
import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

BATCH = 3


@dataclass
class Case:
    """One operation on operands of given shapes and dtypes; or a program.

    Attributes:
      name: unique among the cases of a table. Nothing depends on it.
      fun: a function of arrays, in terms of `jax`.
      args: NumPy arrays.
      numpy: the same in NumPy, or None.
      diff: whether to differentiate, forward and (if "both") backward.
      vmap: whether to batch.
      x64: whether to run with 64-bit types.
      tol: relative and absolute tolerance, None for a default by dtype.
      ignore: modes that are left out.
      optimized: whether to compile as for users, where other cases are compiled quickly (see conftest.py).
      program: whether `fun`, which takes no arguments, is only called, and returns a tree of arrays, numbers and texts.
      weak_types: whether the results have to be weakly typed where the reference's are.
      any_error: whether exceptions may be of other classes than the reference's.
      warns: a regular expression, found in each warning that is given here, of which there is at least one. Without it,
        a warning is an error.
    """

    name: str
    fun: Callable[..., Any]
    args: Sequence[np.ndarray] = ()
    numpy: Callable[..., Any] | None = None
    diff: str = "both"
    vmap: bool = True
    x64: bool = False
    tol: float | None = None
    ignore: Sequence[str] = field(default_factory=tuple)
    optimized: bool = False
    program: bool = False
    weak_types: bool = True
    any_error: bool = False
    warns: str = ""


class Programs(list[Case]):
    """A table of programs."""

    def add(self, name: str, fun: Callable[[], Any], **options: Any) -> None:
        self.append(Case(name, fun, program=True, **options))

    def group(self, prefix: str, /, **funs: Callable[[], Any]) -> None:
        """Adds functions by the names `{prefix}_{keyword}`."""
        for name, fun in funs.items():
            self.add(f"{prefix}_{name}", fun)

    def define(self, fun: Any = None, /, **options: Any) -> Any:
        """A decorator, with options or without, that adds a function by its own name."""
        if fun is None:
            return lambda fun: self.define(fun, **options)
        self.add(fun.__name__, fun, **options)
        return fun


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
    """The results in each mode: NumPy arrays and which are weakly typed, or the error's class and text; see `_call`."""
    import jax

    if case.program:
        # Without x64 nothing is set here, which a program's own setting would not override.
        with jax.enable_x64(True) if case.x64 else contextlib.nullcontext():
            return {"call": _call(case.fun)}
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


def _call(fun):
    """Of a program: its leaves, arrays and texts; which are weakly typed; the tree."""
    import jax

    try:
        leaves, tree = jax.tree.flatten(fun())
    except Exception as err:
        return _error(err)
    weak = [
        bool(getattr(getattr(x, "aval", None), "weak_type", isinstance(x, (int, float, complex))))
        for x in leaves
    ]
    return [x if isinstance(x, str) else _array(x) for x in leaves], weak, str(tree)


def _array(x):
    array = np.asarray(x)
    if isinstance(x, (int, float, complex)) and array.dtype in (np.int64, np.float64, complex):
        array = array.astype({"f": np.float32, "i": np.int32, "c": np.complex64}[array.dtype.kind])
    return array


def load(path: str | Path) -> list[Case]:
    """The cases of a table."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = [c.name for c in module.CASES]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
    return module.CASES


def product(**choices: Sequence[Any]):
    """Dicts with one choice each, in all combinations."""
    for combination in itertools.product(*choices.values()):
        yield dict(zip(choices, combination))
