"""Kernels of operations for GPUs take no more registers than those of the reference build."""

import pytest
from resource_testing import resource_tests

pytestmark = pytest.mark.aot("cuda")
WORSE = {"decode", "paged", "layer_and_derivative", "rms_and_derivative"}
reference, test_resources = resource_tests(__file__, WORSE)
