"""Scenarios: functions without arguments, run by this library and by the reference build alike.

A module of scenarios has a dictionary `SCENARIOS` of functions by name. Their results, trees of arrays
and texts, must be the same; so must the class of an exception. `python scenario_testing.py MODULE OUT`
runs them with whatever `jax` is installed, and pickles the results.
"""

import importlib.util
import pickle
import sys
from pathlib import Path

import numpy as np
import op_cases


def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SCENARIOS


def evaluate(fun):
    """The leaves of the result, with types; or what was raised."""
    import jax

    try:
        leaves, tree = jax.tree.flatten(fun())
    except Exception as err:
        return "raised", type(err).__name__
    return "returned", str(tree), [_plain(x) for x in leaves]


def _plain(x):
    if isinstance(x, str):
        return x
    weak = bool(
        getattr(getattr(x, "aval", None), "weak_type", isinstance(x, (int, float, complex)))
    )
    array = np.asarray(x)
    if array.dtype in (np.float64, np.int64, np.complex128) and isinstance(
        x, (int, float, complex)
    ):
        array = array.astype({"f": np.float32, "i": np.int32, "c": np.complex64}[array.dtype.kind])
    return array, weak


def assert_same(ours, theirs, tol=None, weak_types=True):
    """Fails unless two results of `evaluate` are equal up to rounding."""
    assert ours[0] == theirs[0], f"we {ours}, the reference {theirs}"
    if ours[0] == "raised":
        assert ours[1] == theirs[1], f"we raise {ours[1]}, the reference {theirs[1]}"
        return
    assert ours[1] == theirs[1], f"trees differ: {ours[1]} and {theirs[1]}"
    for x, y in zip(ours[2], theirs[2]):
        if isinstance(x, str) or isinstance(y, str):
            assert x == y, f"ours:\n{x}\nreference:\n{y}"
            continue
        (x, x_weak), (y, y_weak) = x, y
        assert (x.dtype, x.shape) == (y.dtype, y.shape), f"{x!r} and {y!r}"
        op_cases.close(x, y, tol)
        assert x_weak == y_weak or not weak_types, f"weak types: {x_weak} and {y_weak} of {x!r}"


def scenario_tests(path):
    """A pytest fixture and a test of all scenarios of `..._scenarios.py` beside `..._test.py`."""
    import pytest  # which the reference build's environment does not have

    module = Path(path.replace("_test.py", "_scenarios.py"))
    scenarios = load(module)

    @pytest.fixture(scope="module")
    def reference():
        results = op_cases.reference_results(module, __file__)
        if results is None:
            pytest.skip("the reference build is not installed: python3 build/build.py oracle")
        return results

    @pytest.mark.parametrize("name", list(scenarios))
    def test_scenario(name, reference):
        # Gradients by Python scalars are weakly typed or not depending on the path taken.
        weak_types = not name.endswith("_weak") and "complex" not in name
        assert_same(evaluate(scenarios[name]), reference[name], weak_types=weak_types)

    return reference, test_scenario


if __name__ == "__main__":
    results = {name: evaluate(fun) for name, fun in load(sys.argv[1]).items()}
    Path(sys.argv[2]).write_bytes(pickle.dumps(results))
