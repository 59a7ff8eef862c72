"""Objects with `__jax_array__` in library functions, beside the reference build (see jax_array_scenarios.py).

What the reference accepts is accepted here with the same results; we may accept more.
"""

from pathlib import Path

import op_cases
import oracle_results
import pytest

MODULE = Path(__file__.replace("_test.py", "_scenarios.py"))
CASES = {case.name: case for case in op_cases.load(MODULE)}


@pytest.fixture(scope="module")
def reference():
    return oracle_results.read(MODULE)


@pytest.mark.parametrize("name", list(CASES))
def test_accepts_objects_with_jax_array(name, reference):
    ours = CASES[name].fun()
    theirs, *_ = reference[name]["call"]
    for x, y in zip(ours, theirs, strict=True):
        assert x == y or y.endswith("Error"), f"ours: {ours}\nreference: {theirs}"
