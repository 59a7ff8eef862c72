"""Programs on several devices, meshes of one device and in host memory, beside the reference."""

from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)
