"""Descriptions of topologies, without packages of vendors; `aot_*_test.py` compile for them."""

import pytest

import jax
from jax._src import xla_bridge as xb
from jax.experimental import topologies


def test_attached():
    topo = topologies.get_attached_topology()
    assert topo.devices == jax.devices()
    assert topologies.get_attached_topology("cpu").devices == jax.devices("cpu")
    mesh = topologies.make_mesh(topo, (1, len(topo.devices)), ("x", "y"))
    assert mesh.axis_names == ("x", "y") and mesh.are_all_axes_auto
    assert list(mesh.devices.flat) == topo.devices
    assert repr(topo) == f"TopologyDescription({len(topo.devices)} x cpu, cpu)"
    assert repr(topologies.TopologyDescription([])) == "TopologyDescription([])"


def test_errors():
    with pytest.raises(NotImplementedError, match="topology not implemented for cpu.*tpu"):
        topologies.get_topology_desc("", "cpu")
    with pytest.raises(NotImplementedError, match="not implemented for abacus"):
        topologies.get_topology_desc("", "abacus")
    with pytest.raises(RuntimeError, match="abacus"):
        topologies.get_attached_topology("abacus")
    topo = topologies.get_attached_topology()
    with pytest.raises(ValueError, match="must equal the product of mesh_shape"):
        topologies.make_mesh(topo, (len(topo.devices) + 1,), ("x",))
    with pytest.raises(TypeError, match="topologies.make_mesh.*TopologyDescription"):
        topologies.make_mesh(topo.devices, (len(topo.devices),), ("x",))


def test_options(monkeypatch):
    seen = {}

    class Topology:
        def _make_compile_only_devices(self):
            return jax.devices()

    def make(name="", **options):
        seen.update(options, name=name)
        return Topology()

    monkeypatch.setitem(xb._topology_factories, "tpu", make)
    assert topologies.get_topology_desc("v5e:2x2", num_slices=2).devices == jax.devices()
    assert seen == {"name": "v5e:2x2", "num_slices": 2}
    with pytest.raises(TypeError, match="option 'bounds' .* got .* of type <class 'set'>"):
        topologies.get_topology_desc("v5e:2x2", "tpu", bounds={1})
