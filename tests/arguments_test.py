"""Arguments and errors of the transformations, beside the reference build (see arguments_scenarios.py)."""

from scenario_testing import scenario_tests

reference, test_scenario = scenario_tests(__file__)
