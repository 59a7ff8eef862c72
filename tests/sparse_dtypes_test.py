"""Sparse arrays of all types beside the reference (sparse_dtypes_scenarios.py)."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
