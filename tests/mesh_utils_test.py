"""The order of devices on meshes is that of the reference build, also of thousands of chips."""

import mesh_utils_scenarios as scenarios
import numpy as np
from op_testing import case_tests

from jax.experimental import mesh_utils

reference, test_reference, _ = case_tests(__file__)


def test_numbers_with_large_prime_factors():
    """The reference raises errors for these, since it takes 5 for the only factor of 10."""
    devices = scenarios.box("TPU v5", (4, 12, 20))
    for shape in [(30, 32), (15, 64), (96, 10)]:
        mesh = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
        assert mesh.shape == shape and len(set(mesh.flat)) == 960


def test_every_axis_of_4096_chips_is_whole_axes_of_the_network():
    mesh = mesh_utils.create_device_mesh((16, 256), scenarios.box("TPU v5", (16, 16, 16)))
    coords = np.array([d.coords for d in mesh.flat]).reshape(16, 256, 3)
    varying = [{i for i in range(3) if np.ptp(c[..., i])} for c in (coords[:, 0], coords[0])]
    assert [len(v) for v in varying] == [1, 2] and not varying[0] & varying[1]
