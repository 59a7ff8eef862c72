"""When the results of a case are the oracle's."""

import difflib
from typing import Any

import numpy as np
from op_cases import Case, is_inexact


def assert_same_results(case: Case, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Fails unless the results in all of the oracle's modes are equal up to rounding, with the same types.

    Args:
      case: the case, which says how exact they have to be.
      ours: what `op_cases.evaluate` gives here.
      theirs: what was stored of the oracle's.
    """
    for mode, result in theirs.items():
        try:
            _assert_same(case, ours[mode], result)
        except AssertionError as err:
            raise AssertionError(f"{case.name}, {mode}: {err}") from None


def _assert_same(case, ours, theirs):
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
        close(x, y, case.tol)
    if case.weak_types:
        assert weak == their_weak, f"weak types: {weak} and {their_weak} of {outs}"


def _outcome(result):
    return f"raises {': '.join(result)}" if isinstance(result[0], str) else f"returns {result[0]}"


def _difference(ours, theirs):
    lines = difflib.unified_diff(
        str(theirs).splitlines(), str(ours).splitlines(), "the reference", "ours", lineterm=""
    )
    return "\n".join(lines)


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
