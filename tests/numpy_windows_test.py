"""The cases in numpy_windows_cases.py against the reference build and NumPy."""

import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import export
from jax.errors import InconclusiveDimensionOperation

reference, test_reference, test_numpy = case_tests(__file__)


def test_a_window_of_symbolic_size_is_refused():
    (size,) = export.symbolic_shape("n")
    with pytest.raises(InconclusiveDimensionOperation):
        jax.eval_shape(
            lambda x: jnp.hanning(x.shape[0]), jax.ShapeDtypeStruct((size,), jnp.float32)
        )
