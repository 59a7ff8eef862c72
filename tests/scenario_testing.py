"""Makes pytest tests of a module of scenarios: functions without arguments, run by this library and by the reference build.

A module of scenarios has a dictionary `SCENARIOS` of functions by name. Their results, trees of arrays
and texts, must be the same; so must the class of an exception.
"""

from pathlib import Path

import comparison
import op_cases
import oracle_results
import pytest


def scenario_tests(path):
    """A pytest fixture and a test of all scenarios of `..._scenarios.py` beside `..._test.py`."""
    module = Path(path.replace("_test.py", "_scenarios.py"))
    scenarios = op_cases.load_scenarios(module)

    @pytest.fixture(scope="module")
    def reference():
        return oracle_results.read(module)

    @pytest.mark.parametrize("name", list(scenarios))
    def test_scenario(name, reference):
        # Gradients by Python scalars are weakly typed or not depending on the path taken.
        weak_types = not name.endswith("_weak") and "complex" not in name
        comparison.assert_same_scenario(
            op_cases.evaluate_scenario(scenarios[name]), reference[name], weak_types=weak_types
        )

    return reference, test_scenario
