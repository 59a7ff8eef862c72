"""A test that kernels take no more of a device's resources than those of the reference build."""

from pathlib import Path

import op_cases
import oracle_results
import pytest


def resource_tests(path, more=None):
    """A test of each case of a table whose functions return numbers by the names of resources.

    Args:
      path: of the test module; its table has `_scenarios` in place of `_test`.
      more: cases that still take more than the reference, with the numbers, in the order of the resources' names, that
        they may take. They have to take more, else they do not belong here.

    Returns:
      A fixture, and the test.
    """
    table = Path(path.replace("_test.py", "_scenarios.py"))
    cases = {case.name: case for case in op_cases.load(table)}

    @pytest.fixture(scope="module")
    def reference():
        return oracle_results.read(table)

    more = more or {}

    @pytest.mark.parametrize("name", cases)
    def test_resources(name, reference):
        # Leaves of dictionaries with the same keys, evaluated under the same options.
        theirs, _, _ = reference[name]["call"]
        result = op_cases.evaluate(cases[name])["call"]
        assert len(result) == 3, f"not compiled: {result}"
        ours, _, _ = result
        limits = more.get(name, theirs)
        assert [x <= most for x, most in zip(ours, limits, strict=True)] == [True] * len(ours), (
            f"takes {ours}, the reference {theirs}"
        )
        assert name not in more or any([x > y for x, y in zip(ours, theirs)])

    return reference, test_resources
