"""jax.image against the reference build."""

import numpy as np
import pytest
from op_testing import case_tests

import jax

reference, test_reference, test_numpy = case_tests(__file__)


@pytest.mark.parametrize("name", ["bilinear", "trilinear", "triangle", "linear"])
def test_names(name):
    assert jax.image.ResizeMethod.from_string(name) is jax.image.ResizeMethod.LINEAR


def test_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match="no_such.*bicubic"):
        jax.image.resize(np.ones((2, 2)), (3, 3), "no_such")
    with pytest.raises(ValueError, match="no pixels"):
        jax.image.resize(np.ones((0, 2)), (3, 2), "linear")
    with pytest.raises(ValueError, match=r"scale must have shape \(2,\)"):
        jax.image.scale_and_translate(
            np.ones((2, 2)), (2, 2), (0, 1), np.ones(1), np.ones(2), "linear"
        )
