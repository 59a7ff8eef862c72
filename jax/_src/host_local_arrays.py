"""Arrays of one process as parts of arrays of all processes, and back."""

from __future__ import annotations

from typing import Any

from jax._src import core
from jax._src.array import make_array_from_single_device_arrays
from jax._src.core import Primitive, ShapedArray
from jax._src.device_put.functions import device_put
from jax._src.interpreters import ad, mlir
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.tree_util import (
    broadcast_prefix,
    prefix_errors,
    tree_flatten,
    tree_unflatten,
)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Makes arrays over all processes of those that each process has.

    Args:
      local_inputs: a pytree of arrays: what the devices of this process are to hold.
      global_mesh: the mesh of all devices. Those of each process must form a box in it.
      pspecs: how the results are sharded: a `PartitionSpec`, or a tree prefix of `local_inputs`
        with these as leaves. Where a dimension is split over processes, it becomes longer by their
        number; where it is not, all processes have to pass the same data.

    Returns:
      A pytree of arrays. Arrays whose shards are in several processes are returned unchanged.

    Raises:
      ValueError: a spec is None, or the specs do not fit the inputs.

    Example:
      >>> from jax.experimental import multihost_utils
      >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ('x',))
      >>> multihost_utils.host_local_array_to_global_array(np.arange(4), mesh, jax.P('x')).shape
      (4,)
    """
    specs = _flatten_pspecs("input pspecs", local_inputs, pspecs)
    return _convert(host_local_array_to_global_array_p, local_inputs, global_mesh, specs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Makes arrays of one process of the part that its devices hold of arrays over all processes.

    Args:
      global_inputs: a pytree of arrays.
      global_mesh: the mesh of all devices. Those of each process must form a box in it.
      pspecs: the sharding that the parts are those of: a `PartitionSpec`, or a tree prefix of
        `global_inputs` with these as leaves.

    Returns:
      A pytree of arrays on devices of this process. Inputs that are there are returned unchanged.

    Raises:
      ValueError: a spec is None, or the specs do not fit the inputs.

    Example:
      >>> from jax.experimental import multihost_utils
      >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ('x',))
      >>> multihost_utils.global_array_to_host_local_array(jnp.arange(4), mesh, jax.P('x'))
      Array([0, 1, 2, 3], dtype=int32)
    """
    specs = _flatten_pspecs("output pspecs", global_inputs, pspecs)
    return _convert(global_array_to_host_local_array_p, global_inputs, global_mesh, specs)


def _convert(primitive: Primitive, tree: Any, mesh: Mesh, specs: list[PartitionSpec]) -> Any:
    leaves, treedef = tree_flatten(tree)
    outs = [primitive.bind(x, global_mesh=mesh, pspec=s) for x, s in zip(leaves, specs)]
    return tree_unflatten(treedef, outs)


def _flatten_pspecs(name: str, tree: Any, pspecs: Any) -> list[PartitionSpec]:
    def is_leaf(x):
        return x is None or isinstance(x, PartitionSpec)

    try:
        specs = broadcast_prefix(pspecs, tree, is_leaf=is_leaf)
    except ValueError:
        errors = prefix_errors(pspecs, tree, is_leaf=is_leaf)
        if not errors:
            raise
        details = "\n".join(str(error(name)) for error in errors)
        raise ValueError(
            f"{name} specification must be a tree prefix of the arrays:\n{details}"
        ) from None
    for spec in specs:
        if spec is None:
            raise ValueError(
                "`None` is not a valid input to the pspecs argument. Please use"
                " jax.sharding.PartitionSpec() if you wanted to replicate your input."
            )
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"{name} must be PartitionSpecs, got {spec!r} of type {type(spec)}.")
    return specs


def scaled(shape: tuple[int, ...], mesh: Mesh, spec: PartitionSpec, up: bool) -> tuple[int, ...]:
    """The global shape for a local one (`up`), or the reverse."""
    out = list(shape)
    local = mesh.local_mesh.shape
    for i, axes in enumerate(spec):
        for axis in () if axes is None else axes if isinstance(axes, tuple) else (axes,):
            # Not all processes need have the same number of devices in the mesh.
            times, parts = mesh.shape[axis], local[axis]
            if not up:
                times, parts = parts, times
            if out[i] * times % parts:
                raise ValueError(
                    f"Dimension {i} of an array of shape {shape} is split by {spec} over"
                    f" {mesh.shape[axis]} devices, {local[axis]} of them in this process, which does"
                    " not divide its size."
                )
            out[i] = out[i] * times // parts
    return tuple(out)


# Types. They say nothing of the sharding.


def ltg_abstract_eval(arr: ShapedArray, *, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    return ShapedArray(scaled(arr.shape, global_mesh, pspec, True), arr.dtype)


def gtl_abstract_eval(arr: ShapedArray, *, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    return ShapedArray(scaled(arr.shape, global_mesh, pspec, False), arr.dtype)


# Values


def host_local_array_to_global_array_impl(
    arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec
) -> Any:
    sharding = getattr(arr, "sharding", None)
    if sharding is not None and not sharding.is_fully_addressable:
        return arr
    local = device_put(arr, NamedSharding(global_mesh.local_mesh, pspec))
    shape = scaled(local.shape, global_mesh, pspec, True)
    shards = [shard.data for shard in local.addressable_shards]
    return make_array_from_single_device_arrays(shape, NamedSharding(global_mesh, pspec), shards)


def global_array_to_host_local_array_impl(
    arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec
) -> Any:
    sharding = getattr(arr, "sharding", None)
    if sharding is not None and sharding.is_fully_addressable:
        return arr
    target = NamedSharding(global_mesh, pspec)
    if sharding != target:
        arr = device_put(arr, target)
    shape = scaled(arr.shape, global_mesh, pspec, False)
    shards = [shard.data for shard in arr.addressable_shards]
    local = NamedSharding(global_mesh.local_mesh, pspec)
    return make_array_from_single_device_arrays(shape, local, shards)


# Rules


def ltg_batcher(
    insert_axis: bool, axis_data: Any, vals_in: Any, dims_in: Any, global_mesh: Mesh, pspec: Any
) -> Any:
    del insert_axis
    return _batch(
        host_local_array_to_global_array_p, axis_data, vals_in, dims_in, global_mesh, pspec
    )


def _batch(
    primitive: Primitive, axis_data: Any, args: Any, dims: Any, global_mesh: Mesh, pspec: Any
) -> Any:
    (x,), (dim,) = args, dims
    entries = [*pspec, *[None] * (core.typeof(x).ndim - 1 - len(pspec))]
    entries.insert(dim, axis_data.spmd_name)
    spec = PartitionSpec(*entries)
    return primitive.bind(x, global_mesh=global_mesh, pspec=spec), dim


def _lower(ctx: Any, x: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> Any:
    if ctx.avals_in[0].shape != ctx.avals_out[0].shape:
        raise ValueError(
            "host_local_array_to_global_array and global_array_to_host_local_array convert arrays"
            " between programs of one process and of all: call them outside of jitted functions. Got"
            f" an array of shape {ctx.avals_in[0].shape} with {pspec} over {global_mesh}."
        )
    return [x]


host_local_array_to_global_array_p = Primitive("host_local_array_to_global_array")
global_array_to_host_local_array_p = Primitive("global_array_to_host_local_array")


def _transpose_to_local(ct: Any, x: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> list[Any]:
    # The cotangent of a sum, for instance, is not yet an array of all processes.
    ct = device_put(ct, NamedSharding(global_mesh, pspec))
    return [global_array_to_host_local_array_p.bind(ct, global_mesh=global_mesh, pspec=pspec)]


def _transpose_to_global(ct: Any, x: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> list[Any]:
    return [host_local_array_to_global_array_p.bind(ct, global_mesh=global_mesh, pspec=pspec)]


def _define(primitive: Primitive, impl: Any, abstract_eval: Any, transpose: Any) -> None:
    def batch(axis_data, args, dims, **params):
        return _batch(primitive, axis_data, args, dims, **params)

    primitive.def_impl(impl)
    primitive.def_abstract_eval(abstract_eval)
    primitive.axis_batch = batch
    ad.deflinear2(primitive, transpose)
    mlir.register_lowering(primitive, _lower)


_define(
    host_local_array_to_global_array_p,
    host_local_array_to_global_array_impl,
    ltg_abstract_eval,
    _transpose_to_local,
)
_define(
    global_array_to_host_local_array_p,
    global_array_to_host_local_array_impl,
    gtl_abstract_eval,
    _transpose_to_global,
)
