"""The cases in numpy_setops_cases.py against the reference build and NumPy."""

from op_testing import case_tests

reference, test_reference, test_numpy = case_tests(__file__)
