"""Operations of the library on several GPUs, with the types of their arguments and how these are divided."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu import (
    all_gather_mgpu,
    collective_matmul_mgpu,
    reduce_scatter_mgpu,
)
from jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu import MatmulDimension, TuningConfig
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

f32, f16, bf16, i32 = jnp.float32, jnp.float16, jnp.bfloat16, jnp.int32


@dataclasses.dataclass(frozen=True)
class Collective:
    """An operation on several devices.

    Attributes:
      call: function of a device's arrays, and of `interpret`.
      args: types of the arrays of all devices.
      in_specs, out_specs: how they and the result are divided.
      devices: how many devices there are.
    """

    call: Callable
    args: tuple
    in_specs: tuple
    out_specs: P
    devices: int = 2

    def on(self, devices, **options):
        """The function of the arrays of all devices, and their types with shardings."""
        chosen = np.array(devices[: self.devices])
        mesh = Mesh(chosen, ("x",), axis_types=(AxisType.Auto,))
        call = jax.shard_map(
            functools.partial(self.call, **options), mesh=mesh, in_specs=self.in_specs,
            out_specs=self.out_specs, check_vma=False,
        )  # fmt: skip
        shardings = [NamedSharding(mesh, spec) for spec in self.in_specs]
        types = [
            jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s) for a, s in zip(self.args, shardings)
        ]
        return call, types


def like(*shape, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype)


def along(dimension):
    return P() if dimension is None else P(*[None] * dimension, "x")


def gather(shape, dtype=f32, dimension=0, devices=2, **options):
    call = functools.partial(
        all_gather_mgpu.all_gather, axis_name="x", gather_dimension=dimension,
        **{"num_blocks": 4, **options},
    )  # fmt: skip
    spec = along(dimension % len(shape))
    return Collective(call, (like(*shape, dtype=dtype),), (spec,), P(), devices)


def reduce(shape, dtype=f32, dimension=0, devices=2, **options):
    call = functools.partial(
        reduce_scatter_mgpu.reduce_scatter, axis_name="x", scatter_dimension=dimension,
        **{"num_blocks": 4, **options},
    )  # fmt: skip
    spec = along(None if dimension is None else dimension % len(shape))
    return Collective(call, (like(*shape, dtype=dtype),), (P(),), spec, devices)


def product(rows=128, k=256, columns=128, dtype=f16, devices=2, **options):
    config = TuningConfig(**{"tile_m": 64, "tile_n": 64, "tile_k": 64, "max_concurrent_steps": 2, **options})  # fmt: skip
    call = functools.partial(
        collective_matmul_mgpu.all_gather_lhs_matmul, axis_name="x", config=config, dtype=dtype
    )
    args = like(devices * rows, k, dtype=dtype), like(k, devices * columns, dtype=dtype)
    return Collective(call, args, (P("x"), P(None, "x")), P(None, "x"), devices)


COLLECTIVES = {
    "gather": gather((128, 256)),
    "gather_of_four": gather((256, 256), devices=4),
    "gather_bfloat16": gather((128, 256), bf16),
    "gather_columns": gather((64, 512), bf16, 1),
    "reduce": reduce((128, 256)),
    "reduce_bfloat16": reduce((128, 256), bf16),
    "reduce_max": reduce((128, 256), f16, reduction="max"),
    "reduce_and": reduce((128, 256), i32, reduction="and"),
    "reduce_columns": reduce((64, 512), bf16, 1),
    "reduce_to_all": reduce((64, 512), f32, None),
    "reduce_to_all_of_few": reduce((3, 128), f32, None),
    "product": product(),
    "product_of_four": product(devices=4, dtype=bf16),
    "product_of_rows": product(wg_dimension=MatmulDimension.M, max_concurrent_steps=3),
}


def gradient(collective):
    """The cotangents of a device's arrays, where that of the result is the result itself."""

    def call(*args, **options):
        out, back = jax.vjp(functools.partial(collective.call, **options), *args)
        return back(out)

    return dataclasses.replace(collective, call=call, out_specs=collective.in_specs)


GRADIENTS = {
    f"{name}_gradient": gradient(COLLECTIVES[name])
    for name in (
        "gather",
        "gather_columns",
        "reduce_bfloat16",
        "reduce_max",
        "reduce_to_all",
        "product",
    )
}
