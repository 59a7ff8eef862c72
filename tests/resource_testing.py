"""A test that kernels take no more of a device's resources than those of the reference build."""

from pathlib import Path

import op_cases
import oracle_results
import pytest


def resource_tests(path, worse=()):
    """A test of each case of a table whose functions return numbers by the names of resources.

    Args:
      path: of the test module; its table has `_scenarios` in place of `_test`.
      worse: cases that still take more than the reference: once they do not, they fail until they are left out here.

    Returns:
      A fixture, and the test.
    """
    table = Path(path.replace("_test.py", "_scenarios.py"))
    cases = {case.name: case for case in op_cases.load(table)}

    @pytest.fixture(scope="module")
    def reference():
        return oracle_results.read(table)

    more = pytest.mark.xfail(raises=AssertionError, strict=True, reason="takes more")

    @pytest.mark.parametrize(
        "name", [pytest.param(n, marks=[more] if n in worse else []) for n in cases]
    )
    def test_resources(name, reference):
        # Leaves of dictionaries with the same keys, evaluated under the same options.
        limits, _, _ = reference[name]["call"]
        ours, _, _ = op_cases.evaluate(cases[name])["call"]
        assert len(ours) == len(limits)
        for number, limit in zip(ours, limits, strict=True):
            assert number <= limit

    return reference, test_resources
