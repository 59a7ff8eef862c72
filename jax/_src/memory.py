"""Memory spaces that the type of a value can specify."""

import enum


class MemorySpace(enum.Enum):
    """Where a value is stored: in the device's own memory, in the host's, or in either.

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

# Memory spaces by the names that devices use for kinds of memory.
SPACE_OF_KIND: dict[str | None, MemorySpace] = {
    "device": MemorySpace.Device,
    "pinned_host": MemorySpace.Host,
    "unpinned_host": MemorySpace.Device,  # the CPU's own memory
}

DEVICE_KIND = "device"
KIND_OF_SPACE = {MemorySpace.Device: DEVICE_KIND, MemorySpace.Host: "pinned_host"}
