"""Programs compiled for two hosts of eight GPUs cost what they cost in the reference build."""

import pytest
from op_testing import case_tests

pytestmark = pytest.mark.aot("cuda")
reference, test_reference, _ = case_tests(__file__)
