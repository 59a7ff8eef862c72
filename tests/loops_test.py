"""Types of control flow, and what its derivatives compute in loops, beside the reference build."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
