"""Sharded programs as users write them give what the reference build gives."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
