"""Programs on several devices, meshes of one device and in host memory, beside the reference."""

from scenario_testing import scenario_tests

reference, test_scenario = scenario_tests(__file__)
