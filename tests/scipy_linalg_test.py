"""`jax.scipy.linalg`, compared with the reference build."""

from op_testing import case_tests

reference, test_reference, test_numpy = case_tests(__file__)
