"""Transformations in all combinations, beside the reference build (see transforms_scenarios.py)."""

from scenario_testing import scenario_tests

reference, test_scenario = scenario_tests(__file__)
