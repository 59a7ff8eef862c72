"""When the results of a case are the oracle's."""

import ast
import difflib
import functools
import itertools
import re
from typing import Any

import ml_dtypes
import numpy as np
from op_cases import Case, is_inexact

# Units in the last place, by the size of a number, by which XLA's functions of different jaxlibs differ: log1p of
# float64 is 128 units off in some fused loops of jaxlib 0.10.2, and correct later; erf_inv is expanded otherwise.
ROUNDINGS = {8: 128, 4: 2, 2: 2, 1: 0}


def assert_same_results(
    case: Case, ours: dict[str, Any], theirs: dict[str, Any], exact: bool = True
) -> None:
    """Fails unless the results in all of the oracle's modes are equal up to rounding, with the same types.

    Args:
      case: the case, which says how exact they have to be.
      ours: what `op_cases.evaluate` gives here.
      theirs: what was stored of the oracle's.
      exact: whether a tolerance of 0 is one; else it is as many units in the last place as jaxlibs differ by.
    """
    for mode, result in theirs.items():
        try:
            _assert_same(case, ours[mode], result, exact)
        except AssertionError as err:
            raise AssertionError(f"{case.name}, {mode}: {err}") from None


def _assert_same(case, ours, theirs, exact):
    if isinstance(theirs[0], str) or isinstance(ours[0], str):  # an exception
        both = isinstance(ours[0], str) and isinstance(theirs[0], str)
        same = both if case.any_error else ours[0] == theirs[0]
        assert same, f"ours: {_outcome(ours)}\nthe reference: {_outcome(theirs)}"
        return
    (outs, weak, *tree), (their_outs, their_weak, *their_tree) = ours, theirs
    assert tree == their_tree, f"trees: {tree} and {their_tree}"
    assert len(outs) == len(their_outs)
    for x, y in zip(outs, their_outs):
        if isinstance(x, str) or isinstance(y, str):
            assert x == y, _difference(x, y)
            continue
        assert (x.dtype, x.shape) == (y.dtype, y.shape), f"{x!r} and {y!r}"
        close(x, y, case.tol if exact or case.tol != 0 else _units_in_the_last_place(x))
    if case.weak_types:
        assert weak == their_weak, f"weak types: {weak} and {their_weak} of {outs}"


def _outcome(result):
    return f"raises {': '.join(result)}" if isinstance(result[0], str) else f"returns {result[0]}"


def changed_counts(
    theirs: dict[str, Any], changes: dict[tuple[str | int, ...], int]
) -> dict[str, Any]:
    """Results of a program, in whose tree some counts of operations are other ones, absent where they become 0.

    Args:
      theirs: the results.
      changes: what is added to counts, by their places: the keys and indices that lead there.
    """
    import jax  # only once backends are set up

    leaves, _, structure = theirs["call"]
    number = itertools.count()
    literal = re.sub(r"\*", lambda _: str(next(number)), structure[len("PyTreeDef(") : -1])
    tree = jax.tree.map(leaves.__getitem__, ast.literal_eval(literal))
    for (*outer, name), change in changes.items():
        counts = functools.reduce(lambda inner, key: inner[key], outer, tree)
        counts[name] = np.int32(counts.get(name, 0) + change)
        if not counts[name]:
            del counts[name]
    leaves, changed = jax.tree.flatten(tree)
    are_numbers = [not isinstance(leaf, str) for leaf in leaves]  # Python's, which are weakly typed
    return {"call": (leaves, are_numbers, str(changed))}


def _difference(ours, theirs):
    lines = difflib.unified_diff(
        str(theirs).splitlines(), str(ours).splitlines(), "the reference", "ours", lineterm=""
    )
    return "\n".join(lines)


def _units_in_the_last_place(x):
    if not is_inexact(x.dtype):
        return 0
    dtype = x.real.dtype
    return ROUNDINGS[dtype.itemsize] * float(ml_dtypes.finfo(dtype).eps)


def close(x: np.ndarray, y: np.ndarray, tol: float | None = None) -> None:
    """Fails unless two arrays of one dtype are equal, up to rounding if they are inexact."""
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
