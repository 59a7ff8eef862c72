"""Makes pytest tests of a table of programs, `..._scenarios.py` (see op_testing.py)."""

from op_testing import case_tests


def scenario_tests(path: str):
    """A fixture and a test of all programs of the table beside the test module `path`."""
    reference, test_scenario, _ = case_tests(path)
    return reference, test_scenario
