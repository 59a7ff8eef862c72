"""Memory spaces: the kinds of memory a value's type can name."""

import enum


class MemorySpace(enum.Enum):
    """Where a value lives: in the device's own memory, in the host's, or in either.

    Example:
      >>> import jax
      >>> jax.memory.Space.Device
      MemorySpace.Device
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()  # not committed to a space

    def __repr__(self):
        return f"MemorySpace.{self.name}"


Space = MemorySpace

# What devices call the memory spaces.
SPACE_OF_KIND = {
    "device": MemorySpace.Device,
    "pinned_host": MemorySpace.Host,
    "unpinned_host": MemorySpace.Device,  # where it is the device's own
}
