"""The table of harnesses against the reference build's, and how it is found and extended."""

import subprocess
import sys

import numpy as np
import pytest
from op_testing import case_tests

from jax._src import test_util as jtu
from jax._src.internal_test_util import test_harnesses

reference, test_reference, _ = case_tests(__file__)


def test_suites_find_cases():
    name = "slice_shapes_a_float32_7_start_indices_4_limit_indices_7_strides_None"

    class Cases(jtu.JaxTestCase):
        @test_harnesses.parameterized(test_harnesses.all_harnesses, one_containing=name)
        def test_one(self, harness):
            assert harness.fullname == name

        @test_harnesses.parameterized(test_harnesses.all_harnesses)
        def test_all(self, harness):
            pass

    assert hasattr(Cases, f"test_all_{name}")
    tests = [test for test in dir(Cases) if test.startswith("test_all_")]
    assert len(tests) > 5000 and not any("svd_shape_bfloat16" in test for test in tests)
    Cases("test_one").test_one()


def test_harnesses_are_added_to_the_table():
    number = len(test_harnesses.all_harnesses)
    test_harnesses.define(
        "new", "x", np.sin, [test_harnesses.RandArg((2,), np.float32)], dtype=np.float32
    )
    try:
        assert len(test_harnesses.all_harnesses) == number + 1
        assert test_harnesses.all_harnesses[-1].fullname == "new_x"
    finally:
        test_harnesses.all_harnesses.pop()
    assert "all_harnesses" in dir(test_harnesses)
    with pytest.raises(AttributeError, match="no attribute 'lhs_dilation'"):
        test_harnesses.lhs_dilation  # noqa: B018


def test_the_table_is_made_late():
    program = (
        "import sys; from jax._src.internal_test_util import test_harnesses as t;"
        "assert not any(n.endswith('harness_tables.table') for n in sys.modules);"
        "from jax._src.internal_test_util.test_harnesses import all_harnesses;"
        "assert all_harnesses is t.all_harnesses and len(all_harnesses) > 5000"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
