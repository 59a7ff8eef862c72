"""Google's TPUs: runs the library of the wheel libtpu.

`jax` itself knows how to start a TPU where libtpu is installed. This package brings a libtpu that fits,
and says in a sentence why a TPU cannot be used, where otherwise the CPU is used without a word.
"""

from __future__ import annotations

import os

from jax._src import hardware_utils
from jax._src.lib import Client
from jax._src.xla_bridge import libraries, registry, vendors
from jax._src.xla_bridge.clients import make_tpu_client, tpu_is_asked_for
from jax._src.xla_bridge.vendors import PlatformUnavailable

# With 0.0.42 the PJRT C API of jaxlib 0.10.2 was released.
_MINIMUM_LIBTPU = (0, 0, 42)
_VISIBLE = ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES")


def initialize() -> None:
    """Registers the platform "tpu" in place of the one that `jax` has."""
    registry.register_backend_factory(
        "tpu",
        make_client,
        priority=300,
        fail_quietly=False,
        make_topology=registry.make_pjrt_tpu_topology,
    )


def make_client() -> Client:
    """Makes the client.

    Raises:
      PlatformUnavailable: there is no TPU that can be used, or no libtpu that fits.
    """
    num_chips, _ = hardware_utils.num_available_tpu_chips_and_device_id()
    found = vendors.find_libraries(libraries.TPU_LIBRARY_VARIABLE, [libraries.LIBTPU])
    if not tpu_is_asked_for() and not libraries.seems_to_have_tpus(num_chips):
        raise PlatformUnavailable(
            "No TPU is found: the PCI bus shows none, and there is no device file /dev/accel*"
            " (JAX_PLATFORMS=tpu or JAX_FORCE_TPU_INIT=1 starts libtpu all the same).",
            expected=not found,
        )
    library = found[0] if found else None  # which may be the system's
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
