"""Solutions of sparse systems in each type beside the reference (sparse_solutions_scenarios.py)."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
