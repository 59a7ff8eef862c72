"""Kernels of operations for GPUs take no more registers than those of the reference build, or than is said here."""

import pytest
from resource_testing import resource_tests

pytestmark = pytest.mark.aot("cuda")
# registers and bytes of them kept in memory
MORE = {
    "decode": (71, 0),
    "paged": (75, 0),
}
reference, test_resources = resource_tests(__file__, MORE)
