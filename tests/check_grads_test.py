"""At which points `check_grads` evaluates functions, beside the reference build."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
