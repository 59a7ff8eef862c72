"""Makes pytest tests of a module of cases (see op_cases.py)."""

import warnings
from pathlib import Path

import comparison
import numpy as np
import op_cases
import oracle_results
import pytest


def case_tests(path: str):
    """A test of each case against the reference build, and one against NumPy where there is a formula.

    Args:
      path: of the test module; its cases are in the file with `_cases` in place of `_test`.

    Returns:
      A fixture, the test against the reference, and that against NumPy (None if no case has a formula).
    """
    module = Path(path.replace("_test.py", "_cases.py"))
    cases = {c.name: c for c in op_cases.load(module)}

    @pytest.fixture(scope="module")
    def reference():
        return oracle_results.read(module)

    @pytest.mark.parametrize("name", list(cases))
    def test_reference(name, reference):
        case = cases[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = op_cases.evaluate(case)
        for mode, theirs in reference[name].items():
            try:
                comparison.assert_same(ours[mode], theirs, case.tol)
            except AssertionError as err:
                raise AssertionError(f"{name}, {mode}: {err}") from None
            if name.startswith("error_") and isinstance(theirs[0], str):
                assert ours[mode][0] == theirs[0], f"we raise {ours[mode]}, expected {theirs}"

    @pytest.mark.parametrize("name", [n for n, c in cases.items() if c.numpy])
    def test_numpy(name):
        case = cases[name]
        (outs, _) = op_cases.evaluate_eager(case)
        want = case.numpy(*case.args)
        want = want if isinstance(want, (tuple, list)) else [want]
        assert len(outs) == len(want)
        for x, y in zip(outs, want):
            comparison.close(x, np.asarray(y).astype(x.dtype), case.tol)

    with_formula = any(c.numpy for c in cases.values())
    return reference, test_reference, test_numpy if with_formula else None
