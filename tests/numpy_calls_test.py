"""The calls in numpy_calls_scenarios.py against the reference build."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
