"""The tests of the programs of SciPy's user guide (scipy_tutorial_*_scenarios.py)."""

import comparison
import numpy as np
import op_cases
import oracle_results
import pytest

import jax


def guide_tests(programs, answers):
    """A test of each program against the reference build, and one against SciPy.

    Args:
      programs: the module with the programs.
      answers: functions by the programs' names that compute SciPy's answers, in float64.

    Returns:
      A fixture, the test against the reference, and that against SciPy.
    """

    @pytest.fixture(scope="module")
    def reference():
        return oracle_results.read(programs.__file__)

    # These are the functions of test_scipy, which then need no second compilation; `case_tests` loads its own.
    @pytest.mark.parametrize("case", programs.CASES, ids=lambda case: case.name)
    def test_reference(case, reference):
        comparison.assert_same_results(case, op_cases.evaluate(case), reference[case.name])

    @pytest.mark.parametrize("case", [*programs.CASES, *programs.ALONE], ids=lambda case: case.name)
    def test_scipy(case):
        """SciPy's answers, in float64, to the program of the same name."""
        ours, want = case.fun(), answers[case.name]()
        assert jax.tree.structure(ours) == jax.tree.structure(want)
        for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(want)):
            np.testing.assert_allclose(x, y, rtol=case.tol, atol=case.tol)

    return reference, test_reference, test_scipy
