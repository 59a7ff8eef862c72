"""Arguments and errors of the transformations, beside the reference build (see arguments_scenarios.py)."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
