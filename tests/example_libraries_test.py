"""Example libraries, `composite` and `scaled_dot`, beside the reference (example_libraries_scenarios.py)."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
