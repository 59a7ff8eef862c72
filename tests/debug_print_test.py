"""What jax.debug.print prints under transformations, beside the reference."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
