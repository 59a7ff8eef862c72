"""The scenarios in random_keys_scenarios.py against the reference build."""

from scenario_testing import scenario_tests

reference, test_scenario = scenario_tests(__file__)
