"""Programs that use parts of libraries have the reference's results."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
