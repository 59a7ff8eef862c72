"""At which points `check_grads` evaluates functions, beside the reference build."""

from scenario_testing import scenario_tests

reference, test_scenario = scenario_tests(__file__)
