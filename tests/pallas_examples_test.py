"""The examples of docs/pallas_examples.md are compiled for TPUs that are not there."""

import doctest
import pathlib

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "pallas_examples.md"


def names_of_page():
    """What the page defines: its examples are run without a look at what they print."""
    names = {}
    for example in doctest.DocTestParser().get_examples(PAGE.read_text()):
        if not example.want:
            exec(compile(example.source, str(PAGE), "single"), names)
    return names


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("name", ["v5e:2x2", "v5p:2x2x1", "v6e:2x2"])
def test_compiled(name):
    page = names_of_page()
    devices = topologies.get_topology_desc(name, "tpu").devices

    def compiled(fun, *args, sharding=SingleDeviceSharding(devices[0])):
        args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
        return jax.jit(fun).lower(*args).compile().as_text()

    x = jnp.zeros((16, 256))
    for fun, args in (
        (page["by_rows"], (x, x)),
        (page["relu_of_product"], (jnp.zeros((256, 256), jnp.bfloat16),) * 2),
        (page["sum_of_blocks"], (jnp.zeros(2, jnp.int32), jnp.zeros((32, 128)))),
        (page["summed"], (jnp.zeros((32, 128)),)),
    ):
        assert "tpu_custom_call" in compiled(fun, *args)
    mesh = Mesh(np.array(devices), ("x",))
    ring = lambda x: page["shifted"](x, mesh)
    x = jnp.zeros((8 * len(devices), 128))
    assert "tpu_custom_call" in compiled(ring, x, sharding=NamedSharding(mesh, P("x")))
