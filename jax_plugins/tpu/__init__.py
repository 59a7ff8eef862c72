"""Google's TPUs, through the library of the wheel libtpu.

`jax` itself can start a TPU if libtpu is installed. This package depends on a compatible libtpu,
and reports why a TPU cannot be used, where `jax` would silently use the CPU.
"""

from __future__ import annotations

import os

from jax._src import hardware_utils
from jax._src.lib import Client
from jax._src.xla_bridge import libraries, registry, vendors
from jax._src.xla_bridge.clients import make_tpu_client, tpu_is_asked_for
from jax._src.xla_bridge.vendors import PlatformUnavailable

# The first release with the PJRT C API of jaxlib 0.10.2.
_MINIMUM_LIBTPU = (0, 0, 42)
_VISIBLE = ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES")


def initialize() -> None:
    """Registers the platform "tpu", replacing that of `jax`."""
    registry.register_backend_factory(
        "tpu",
        make_client,
        priority=300,
        fail_quietly=False,
        make_topology=registry.make_pjrt_tpu_topology,
    )


def make_client() -> Client:
    """Creates the client.

    Raises:
      PlatformUnavailable: if there is no usable TPU, or no compatible libtpu.
    """
    num_chips, _ = hardware_utils.num_available_tpu_chips_and_device_id()
    found = vendors.find_libraries(libraries.TPU_LIBRARY_VARIABLE, [libraries.LIBTPU])
    if not tpu_is_asked_for() and not libraries.seems_to_have_tpus(num_chips):
        raise PlatformUnavailable(
            "No TPU is found: the PCI bus shows none, and there is no device file /dev/accel*"
            " (JAX_PLATFORMS=tpu or JAX_FORCE_TPU_INIT=1 starts libtpu all the same).",
            expected=not found,
        )
    library = found[0] if found else None  # may be installed by the system instead of a wheel
    version = library and library.version
    if version and vendors.version_numbers(version) < _MINIMUM_LIBTPU:
        needed = ".".join(map(str, _MINIMUM_LIBTPU))
        raise PlatformUnavailable(
            f"The installed libtpu {version} is too old: install one that fits with"
            f' `pip install "libtpu>={needed}"`.'
        )
    _check_devices(num_chips)
    return make_tpu_client(library and library.path)


def _check_devices(num_chips: int) -> None:
    files = libraries.tpu_device_files()
    if files and not any(os.access(f, os.R_OK | os.W_OK) for f in files):
        raise PlatformUnavailable(
            f"The TPU may not be used: {files[0]} cannot be opened; run as a user who may, or give the"
            " container its devices."
        )
    for name in _VISIBLE:
        value = os.environ.get(name)
        if value is None:
            continue
        chips = value.split(",")
        if not all(chip.strip().isdigit() for chip in chips):
            raise PlatformUnavailable(f"{name} must be numbers of chips like '0,1', got {value!r}.")
        if num_chips and max(map(int, chips)) >= num_chips:
            raise PlatformUnavailable(
                f"{name}={value!r} names a chip that is not there: this machine has {num_chips}."
            )
