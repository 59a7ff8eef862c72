"""Sharded programs as users write them give what the reference build gives."""

from scenario_testing import scenario_tests

reference, test_scenario = scenario_tests(__file__)
