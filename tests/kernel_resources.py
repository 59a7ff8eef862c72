"""Tables of operations, forward and backward, by the resources that their kernels take on a device that is not there."""

import functools

import aot_programs
from op_cases import Programs

import jax
import jax.numpy as jnp


def like(*shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


class Operations(Programs):
    """A table of operations.

    Args:
      topology: the name of the device's topology.
      resources: function of an operation and its arguments that returns numbers by the names of resources.
    """

    def __init__(self, topology, resources):
        super().__init__()
        self._topology, self._resources = topology, resources

    def operation(self, *args, derivative=False, **options):
        """A decorator that adds an operation, and its derivative by the arguments that are floating-point numbers.

        Args:
          args: the types of the arguments.
          derivative: whether the derivative is added, too.
          options: of `resources`.
        """

        def add(f):
            run = functools.partial(self._resources_of, args, options)
            self.add(f.__name__, functools.partial(run, f))
            if derivative:
                total = lambda *args: f(*args).astype(jnp.float32).sum()
                by = [i for i, x in enumerate(args) if jnp.issubdtype(x.dtype, jnp.floating)]
                self.add(
                    f"{f.__name__}_and_derivative", functools.partial(run, jax.grad(total, by))
                )
            return f

        return add

    def _resources_of(self, args, options, f):
        device = aot_programs.topology(self._topology).devices[0]
        place = jax.sharding.SingleDeviceSharding(device)
        placed = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place) for x in args]
        return self._resources(f, *placed, **options)
