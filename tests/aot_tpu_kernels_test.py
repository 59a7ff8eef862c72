"""Kernels of operations for TPUs take no more memory than those of the reference build."""

import pytest
from resource_testing import resource_tests

pytestmark = pytest.mark.aot("tpu")
reference, test_resources = resource_tests(__file__)
