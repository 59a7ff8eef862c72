"""When a result is the same as the oracle's."""

import difflib
from typing import Any

import numpy as np
from op_cases import is_inexact


def assert_same_results(ours: Any, theirs: Any, what: str) -> None:
    """Fails unless the results of all modes of a case, or those of a scenario, are equal up to rounding."""
    try:
        if not isinstance(theirs, dict):
            return assert_same_scenario(ours, theirs)
        assert list(ours) == list(theirs), "the modes differ"
        for mode, result in theirs.items():
            what += f", {mode}"
            assert_same(ours[mode], result)
    except AssertionError as err:
        raise AssertionError(f"{what}: {err}") from None


def assert_same(ours: Any, theirs: Any, tol: float | None = None) -> None:
    """Fails unless the results of one mode of a case are equal up to rounding, with the same dtypes and weak types."""
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


def assert_same_scenario(
    ours: Any, theirs: Any, tol: float | None = None, weak_types: bool = True
) -> None:
    """Fails unless two results of a scenario are equal up to rounding."""
    assert ours[0] == theirs[0], f"we {ours}, the reference {theirs}"
    if ours[0] == "raised":
        assert ours[1] == theirs[1], f"we raise {ours[1]}, the reference {theirs[1]}"
        return
    assert ours[1] == theirs[1], f"trees differ: {ours[1]} and {theirs[1]}"
    for x, y in zip(ours[2], theirs[2]):
        if isinstance(x, str) or isinstance(y, str):
            assert x == y, _difference(x, y)
            continue
        (x, x_weak), (y, y_weak) = x, y
        assert (x.dtype, x.shape) == (y.dtype, y.shape), f"{x!r} and {y!r}"
        close(x, y, tol)
        assert x_weak == y_weak or not weak_types, f"weak types: {x_weak} and {y_weak} of {x!r}"


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
