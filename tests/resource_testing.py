"""A test that kernels take no more of a device's resources than those of the reference build."""

from pathlib import Path

import op_cases
import oracle_results
import pytest


def resource_tests(path):
    """A test of each case of a table whose functions return numbers by the names of resources.

    Args:
      path: of the test module; its table has `_scenarios` in place of `_test`.

    Returns:
      A fixture, and the test.
    """
    table = Path(path.replace("_test.py", "_scenarios.py"))
    cases = {case.name: case for case in op_cases.load(table)}

    @pytest.fixture(scope="module")
    def reference():
        return oracle_results.read(table)

    @pytest.mark.parametrize("name", cases)
    def test_resources(name, reference):
        limits, _, _ = reference[name]["call"]
        ours = cases[name].fun()
        assert len(ours) == len(limits)
        for what, limit in zip(sorted(ours), limits, strict=True):
            assert ours[what] <= limit, f"{what}: {ours[what]}, the reference has {limit}"

    return reference, test_resources
