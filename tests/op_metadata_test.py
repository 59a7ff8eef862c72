"""Names and source lines of operations in lowered programs, beside the reference."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
