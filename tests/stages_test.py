"""The ahead-of-time stages of `jit`, beside the reference (stages_scenarios.py)."""

from absl.testing import absltest
from op_testing import case_tests

from jax._src import test_util as jtu

jtu.request_cpu_devices(8)

reference, test_reference, _ = case_tests(__file__)

if __name__ == "__main__":
    absltest.main()
