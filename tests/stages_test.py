"""The ahead-of-time stages of `jit`, beside the reference (stages_scenarios.py)."""

import numpy as np
from absl.testing import absltest
from op_testing import case_tests

import jax
from jax._src import test_util as jtu
from jax.experimental.layout import Format

jtu.request_cpu_devices(8)

reference, test_reference, _ = case_tests(__file__)


def test_formats_of_a_program_with_tokens():
    """PyPI's jax has no `out_info` and `output_formats` of programs with ordered effects."""

    def f(x):
        jax.debug.callback(lambda: None, ordered=True)
        return x, x.sum()

    compiled = jax.jit(f).lower(np.ones((2, 3), np.float32)).compile()
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    assert compiled.input_formats == ((Format(None, sharding),), {})
    assert compiled.output_formats == (Format(None, sharding),) * 2
    assert [(o.shape, o.sharding) for o in compiled.out_info] == [
        ((2, 3), sharding),
        ((), sharding),
    ]


if __name__ == "__main__":
    absltest.main()
