"""Benchmarks of `jax.export`: exporting a transformer block, its bytes, and calls of what was read."""

import numpy as np
import transformer
from registry import timed

import jax
from jax import export

ALL = ("cpu", "cuda", "rocm", "tpu")


def _block(params, x):
    return transformer.block(params, x, lambda y: y)


def _arguments():
    mesh = transformer.new_mesh()
    params, x = transformer.arguments(mesh)
    return jax.tree.map(np.asarray, params), np.asarray(x)


def _export(platforms=None):
    args = _arguments()

    def call():
        fresh = lambda params, x: _block(params, x)  # traced again
        return export.export(jax.jit(fresh), platforms=platforms)(*args)

    return call


@timed("export", "export a transformer block", 0.5)
def export_block():
    return _export()


@timed("export", "export a transformer block for four platforms", 0.5)
def export_block_for_platforms():
    return _export(ALL)


@timed("export", "export a transformer block with a symbolic batch", 0.5)
def export_block_with_symbolic_batch():
    params, x = _arguments()

    def call():
        batch = export.symbolic_shape("batch")
        fresh = lambda params, x: _block(params, x)  # traced again
        specification = jax.ShapeDtypeStruct((*batch, *x.shape[1:]), x.dtype)
        return export.export(jax.jit(fresh))(params, specification)

    return call


@timed("export", "compare symbolic dimensions", 0.3)
def compare_dimensions():
    """What both decide, of dimensions that are new, so that nothing is remembered."""

    def call():
        a, b, c = export.symbolic_shape("a, b, c", constraints=["a >= 2", "b >= c"])
        return [
            (
                a * b + 3 >= 4 - k, a + b + k >= 3, b + k >= c, 2 * a + b >= c + 1 - k, a % (3 + k) < 3 + k,
                (a + 3 + k) // 4 * 4 >= a, (a - k) // 2 <= a, jax.core.max_dim(a + k, b) >= a,
                2 * a * b + c >= 3 - k, a * a + k >= 4,
            )
            for k in range(5)
        ]  # fmt: skip

    return call


@timed("export", "export a transformer block and its derivative as bytes", 0.5)
def export_derivative():
    exporting = _export()
    return lambda: exporting().serialize(vjp_order=1)


@timed("export", "read an exported transformer block", 0.7)
def read():
    data = bytes(_export()().serialize())
    return lambda: export.deserialize(data)


@timed("export", "read an exported transformer block and call it", 0.7)
def read_and_call():
    data, args = bytes(_export()().serialize()), _arguments()
    return lambda: jax.block_until_ready(export.deserialize(data).call(*args))


@timed("export", "jit call of an exported program", 1.05)
def jit_call():
    x = jax.numpy.ones((8,))
    call = jax.jit(export.deserialize(export.export(jax.jit(lambda x: x + 1))(x).serialize()).call)
    return lambda: call(x)


@timed("export", "call of an exported program", 1.05)
def eager_call():
    x = jax.numpy.ones((8,))
    call = export.deserialize(export.export(jax.jit(lambda x: x + 1))(x).serialize()).call
    return lambda: call(x)
