"""Random programs of jax.experimental.sparse beside the reference (sparse_programs_scenarios.py)."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
