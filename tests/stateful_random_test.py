"""`jax.experimental.random` beside the reference (stateful_random_scenarios.py)."""

import pytest
from op_testing import case_tests

from jax.experimental import random

reference, test_reference, _ = case_tests(__file__)


def test_split_generators_must_be_mapped_over():
    with pytest.raises(ValueError, match=r"jax.vmap.*shape is \(2,\)"):
        random.stateful_rng(0).split(2).random()
