"""The cases in lax_elementwise_cases.py against the reference build, NumPy and SciPy."""

from op_testing import case_tests

reference, test_reference, test_numpy = case_tests(__file__)
