"""Example libraries, `composite` and `scaled_dot`, beside the reference (example_libraries_scenarios.py)."""

from scenario_testing import scenario_tests

reference, test_scenario = scenario_tests(__file__)
