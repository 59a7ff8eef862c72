"""Transformations in all combinations, beside the reference build (see transforms_scenarios.py)."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
