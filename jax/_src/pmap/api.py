"""The public function `pmap`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from jax._src.api_util import check_callable
from jax._src.pmap import axes
from jax._src.pmap.mapped import make_pmap


def pmap(
    fun: Callable, axis_name: Hashable = None, *, in_axes: int | None | Sequence[Any] = 0,
    out_axes: Any = 0, static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Any] | None = None, backend: str | None = None, axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Any:  # fmt: skip
    """Map a function over an axis of its arguments, one position on each device.

    It is `jit` of a :func:`jax.shard_map` over a mesh with one axis. Prefer these in new programs.

    Args:
      fun: function of arrays and pytrees. All devices run it, each on its own part of the arguments.
      axis_name: a name for the axis, for collectives such as :func:`jax.lax.psum`.
      in_axes: the axis of each positional argument to map: an int, None for arguments that all
        devices take whole, or a tree prefix of the tuple of arguments. Keyword arguments are mapped
        over axis 0.
      out_axes: where the mapped axis is in the results: an int, None or a tree prefix of the result.
        For None, all devices should compute the same value; that of the first device is returned.
      static_broadcasted_argnums: positions of arguments that are hashable Python values, not arrays;
        the function is compiled again for each distinct value. They have to be passed by position.
      devices: the devices to use, in order; by default the first ones. With several processes, those
        of all processes.
      backend: the platform whose devices are used.
      axis_size: the size of the mapped axis; it must be that of the arguments.
      donate_argnums: positions of arguments whose memory may be reused for the results; they are
        deleted.

    Returns:
      A function of arguments with the mapped axis. Its results are sharded over the devices. It has
      `lower`, `eval_shape` and `clear_cache`, like a jitted function.

      Arrays that are on other devices, or are cut otherwise, are copied. Within the function that
      another `pmap` or `shard_map` maps, the devices are already in use: there, each device computes
      all positions, as with :func:`jax.vmap`.

      With several processes, each passes and receives the part of the axis that is on its own
      devices; its size is their number. Collectives are over the devices of all processes.

    Raises:
      ValueError: if sizes of mapped axes disagree, axes do not fit the arguments or the result, no
        argument is mapped, or there are too few devices.
      TypeError: if axes are no integers, or an argument is no array.

    >>> print(jax.pmap(lambda x, y: jax.lax.psum(x * y, "i"), "i", in_axes=(0, None))(jnp.ones((1, 3)), 2.0))
    [[2. 2. 2.]]
    """
    check_callable(fun)
    axes.check_axis_name(axis_name)
    in_axes = axes.check_axes(in_axes, out_axes)
    if devices is not None:
        devices = axes.check_devices(devices)
    return make_pmap(
        fun, axis_name, in_axes, out_axes, static_broadcasted_argnums, devices, backend, axis_size,
        donate_argnums,
    )  # fmt: skip
