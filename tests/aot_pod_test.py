"""Programs compiled for 4,096 TPU chips cost what they cost in the reference build."""

import pytest
from op_testing import case_tests

pytestmark = pytest.mark.aot("tpu")
reference, test_reference, _ = case_tests(__file__)
