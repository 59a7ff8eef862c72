"""Makes pytest tests of a table of cases (see op_cases.py)."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import comparison
import numpy as np
import op_cases
import oracle_results
import pytest

Results = dict[str, Any]


def case_tests(
    path: str,
    later: Mapping[str, Callable[[Results], Results]] = MappingProxyType({}),
    rounded_otherwise: bool = False,
):
    """A test of each case against the reference build, and one against NumPy where there is a formula.

    Args:
      path: of the test module; its table is the file with `_cases` or `_scenarios` in place of `_test`.
      later: by cases' names, what makes of the stored results those that later jaxlibs give.
      rounded_otherwise: whether later jaxlibs round what has to be the same to the last bit with that of the results.

    Returns:
      A fixture, the test against the reference, and that against NumPy (None if no case has a formula).
    """
    names = [path.replace("_test.py", f"_{kind}.py") for kind in ("cases", "scenarios")]
    (table,) = filter(Path.exists, map(Path, names))
    cases = {c.name: c for c in op_cases.load(table)}

    @pytest.fixture(scope="module")
    def reference():
        return oracle_results.read(table)

    @pytest.mark.parametrize("name", list(cases))
    def test_reference(name, reference, fusion_emitters, jaxlib_of_results):
        case, theirs = cases[name], reference[name]
        if not jaxlib_of_results and name in later:
            theirs = later[name](theirs)
        with _expected_warnings(case):
            ours = op_cases.evaluate(case)
        exact = jaxlib_of_results or not rounded_otherwise
        comparison.assert_same_results(case, ours, theirs, exact)

    @pytest.mark.parametrize("name", [n for n, c in cases.items() if c.numpy])
    def test_numpy(name, fusion_emitters):
        case = cases[name]
        with _expected_warnings(case):
            (outs, _) = op_cases.evaluate_eager(case)
        want = case.numpy(*case.args)
        want = want if isinstance(want, (tuple, list)) else [want]
        assert len(outs) == len(want)
        for x, y in zip(outs, want):
            comparison.close(x, np.asarray(y).astype(x.dtype), case.tol)

    with_formula = any(c.numpy for c in cases.values())
    return reference, test_reference, test_numpy if with_formula else None


# Of a dtype's name that NumPy 2.5 no longer has.
DEPRECATED_NAME = "alias 'a' was deprecated"


def _expected_warnings(case):
    if case.warns == DEPRECATED_NAME and np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        return contextlib.nullcontext()
    return pytest.warns(Warning, match=case.warns) if case.warns else contextlib.nullcontext()
