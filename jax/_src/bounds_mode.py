"""The debugging mode `jax.debug.bounds()`."""

from __future__ import annotations

from jax._src import config
from jax._src.device_reports import RaisedReports
from jax._src.lax.slicing.bounds import reports


def bounds() -> RaisedReports:
    """Context manager: indices out of bounds are errors.

    Outside of it they are clamped when elements are read, and ignored when they are written. The
    context looks at `x[i]`, `x.at[i].set()` and its relatives, `jnp.take`, `jnp.take_along_axis`,
    `lax.dynamic_slice`, `lax.dynamic_update_slice`, `lax.gather` and `lax.scatter`, eagerly and in
    compiled programs, loops, batches and shards. A `mode` that is given, such as `mode="drop"`, says
    what is to happen, so that it is no error.

    Raises:
      IndexError: there was such an index; it names it, the axis, its size and the line. For a
        compiled program it is raised no later than at the end of the context.

    >>> x = jnp.arange(5.0)
    >>> try:
    ...     with jax.debug.bounds():
    ...         jax.jit(lambda i: x[i])(7)
    ... except IndexError as err:
    ...     print(str(err).splitlines()[0])
    index 7 is out of bounds for axis 0 of size 5
    """
    return reports.raised(
        lambda: config.debug_bounds(True), lambda: config.check_static_indices(True)
    )
