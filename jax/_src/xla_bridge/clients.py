"""Creation of platform clients from the configuration."""

from __future__ import annotations

import atexit
import dataclasses
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jax._src import config, cpu_threads, hardware_utils, lib
from jax._src.lib import Client, _jax
from jax._src.xla_bridge import libraries

logger = logging.getLogger("jax._src.xla_bridge")

OptionsDict = Mapping[str, "str | int | list[int] | float | bool"]


@dataclasses.dataclass
class DistributedState:
    """The role of this process in a multi-process program."""

    process_id: int = 0
    num_processes: int = 1
    client: Any = None
    service: Any = None
    coordinator_address: str | None = None
    partition_index: int | None = None
    # Called with name, devices and native executable of a program before it runs the first time;
    # returns None, or a function to call before each run.
    observe_program: Any = None
    # Called before this process waits for the others; raises an error if one of them has failed.
    check_processes: Any = None


distributed_state = DistributedState()  # `jax.distributed` fills it in


def make_cpu_client(collectives: Any = None) -> Client:
    """Makes the client of the CPU platform.

    Args:
      collectives: the implementation of communication between processes; by default, in
        multi-process runs, according to `jax_cpu_collectives_implementation`.

    Raises:
      RuntimeError: the implementation does not exist.
      ValueError: the option `jax_num_cpu_devices` is not a positive number, or `jax_cpu_num_threads` negative.
    """
    num_devices = config.num_cpu_devices.value
    if num_devices == 0 or num_devices < -1:
        raise ValueError(
            f"jax_num_cpu_devices must be a positive number (or -1, for the default), got {num_devices}"
        )
    if config.cpu_num_threads.value < 0:
        raise ValueError(
            f"jax_cpu_num_threads must be a positive number (or 0, for as many as the process has cores), got {config.cpu_num_threads.value}"
        )
    if collectives is None and distributed_state.client is not None:
        collectives = _make_cpu_collectives(config.cpu_collectives_implementation.value)
    with cpu_threads.of_new_client():
        return _jax.get_tfrt_cpu_client(
            asynchronous=config.cpu_enable_async_dispatch.value,
            distributed_client=distributed_state.client,
            node_id=distributed_state.process_id,
            num_nodes=distributed_state.num_processes,
            collectives=collectives,
            num_devices=None if num_devices < 0 else num_devices,
            get_local_topology_timeout_minutes=config.cpu_get_local_topology_timeout_minutes.value,
            get_global_topology_timeout_minutes=config.cpu_get_global_topology_timeout_minutes.value,
            transfer_server_factory=_make_transfer_server_factory(),
        )


def _make_cpu_collectives(name: str | None) -> Any:
    if name is None:
        return None
    if name == "gloo":
        return _jax.make_gloo_tcp_collectives(distributed_client=distributed_state.client)
    if name == "mpi":
        if not os.environ.get("MPITRAMPOLINE_LIB"):  # jaxlib would end the process
            raise RuntimeError(
                "The CPU collectives implementation 'mpi' uses the MPI library that $MPITRAMPOLINE_LIB"
                " names, wrapped by MPIwrapper, and the variable is not set. Set it, or set"
                " jax_cpu_collectives_implementation to 'gloo', which needs no library."
            )
        collectives = _jax.make_mpi_collectives()
        collectives.Init()
        atexit.register(collectives.Finalize)
        return collectives
    raise RuntimeError(
        f"CPU collectives implementation {name!r} is not available in this build; set"
        " jax_cpu_collectives_implementation to 'gloo' or 'mpi'."
    )


def _make_transfer_server_factory() -> Any:
    """A factory of the server for transfers between hosts, if the configuration enables it."""
    address = config.cross_host_transfer_socket_address.value
    if not address or distributed_state.client is None:
        return None
    options = dict(
        distributed_client=distributed_state.client,
        socket_address=address,
        transport_addresses=list(
            filter(None, config.cross_host_transport_addresses.value.split(","))
        ),
    )
    if (timeout := config.cross_host_transfer_timeout_seconds.value) is not None:
        options["cross_host_transfer_timeout_seconds"] = timeout
    if (size := config.cross_host_transfer_transfer_size.value) is not None:
        options["transfer_size"] = size
    return _jax.make_transfer_server_interface_factory(**options)


def make_pjrt_c_api_client(
    plugin_name: str, options: OptionsDict | Callable[[], OptionsDict] | None = None
) -> Client:
    """Makes the client of a PJRT plugin that has been loaded.

    Args:
      plugin_name: the name it was registered under.
      options: the plugin's options, or a function that returns them.
    """
    if not _jax.pjrt_plugin_initialized(plugin_name):
        _jax.initialize_pjrt_plugin(plugin_name)
    options = dict((options() if callable(options) else options) or {})
    options.update(_options_from_jax_configs(plugin_name))
    if distributed_state.client is not None:
        options.setdefault("node_id", distributed_state.process_id)
        options.setdefault("num_nodes", distributed_state.num_processes)
        if distributed_state.partition_index is not None:
            options.setdefault("partition_index", distributed_state.partition_index)
    return _jax.get_c_api_client(
        plugin_name,
        options,
        distributed_state.client,
        _make_transfer_server_factory(),
        config.force_dcn_cross_host_transfers.value,
        config.sort_devices_by_process_index.value,
    )


def _options_from_jax_configs(plugin_name: str) -> dict[str, Any]:
    if plugin_name not in ("cuda", "rocm", "oneapi"):
        return _user_options()
    options: dict[str, Any] = {}
    visible = libraries.visible_devices(f"jax_{plugin_name}_visible_devices")
    if visible is not None:
        options["visible_devices"] = visible
    if plugin_name in ("cuda", "rocm"):
        topology = config.mock_gpu_topology.value or None
        num_processes = (
            get_num_nodes_from_gpu_topology(topology)
            if topology
            else config.mock_num_gpu_processes.value
        )
        options["enable_mock_nccl"] = num_processes > 0
        if num_processes > 0:
            options["num_nodes"] = num_processes
            if topology:
                options["mock_gpu_topology"] = topology
    return options | _user_options()


def _user_options() -> dict[str, Any]:
    """The option `jax_pjrt_client_create_options`, a dict or 'name:value;name:value', as a dict."""
    value = config.pjrt_client_create_options.value
    if not value:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    options = {}
    for pair in filter(None, value.split(";")):
        name, colon, option = pair.partition(":")
        if not colon:
            raise ValueError(
                f"jax_pjrt_client_create_options must be like 'name:value;name:value', got {value!r}"
            )
        options[name.strip()] = _parse_option(option.strip())
    return options


def _parse_option(text: str) -> Any:
    if text in ("true", "True", "false", "False"):
        return text in ("true", "True")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def get_num_nodes_from_gpu_topology(topology: str) -> int:
    """The number of hosts of a topology 'slices x hosts per slice x devices per host'."""
    try:
        slices, hosts, _ = (int(n) for n in topology.lower().split("x", 2))
    except ValueError as e:
        raise ValueError(
            f"A mock topology is like 'slices x hosts per slice x devices per host', got {topology!r}"
        ) from e
    return slices * hosts


def make_tpu_client(library_path: str | None = None, options: OptionsDict | None = None) -> Client:
    """Makes the client of the TPU platform with libtpu.

    Args:
      library_path: the library; by default $TPU_LIBRARY_PATH, that of the package libtpu, or the
        system's.
      options: the plugin's options.

    Raises:
      PlatformUnavailable: there is no library, or no TPU.
    """
    initialize_libtpu(library_path)
    options = {"max_inflight_computations": 32, **(options or {}), **_user_options()}
    with _hint_when_slow(60.0):
        return _jax.get_c_api_client("tpu", options, distributed_state.client)


def initialize_libtpu(library_path: str | None = None, *, for_devices: bool = True) -> None:
    """Loads libtpu.

    Args:
      library_path: the library; by default $TPU_LIBRARY_PATH, that of the package libtpu, or the
        system's.
      for_devices: whether devices are needed, not only their descriptions.

    Raises:
      PlatformUnavailable: there is no library, or no TPU.
    """
    if not _jax.pjrt_plugin_loaded("tpu"):
        found = libraries.find_libraries(libraries.TPU_LIBRARY_VARIABLE, [libraries.LIBTPU])
        path = library_path or (found[0].path if found else "libtpu.so")
        num_chips, _ = hardware_utils.num_available_tpu_chips_and_device_id()
        is_there = libraries.seems_to_have_tpus(num_chips)
        if not num_chips:
            # Without this, libtpu queries the cloud's metadata server for minutes,
            os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
            # and lets only one process of the machine compile for absent devices.
            os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
        if for_devices and not tpu_is_asked_for() and not is_there:
            raise libraries.PlatformUnavailable("No TPU is found on this machine.", expected=True)
        try:
            c_api = _jax.load_pjrt_plugin("tpu", path, None)
        except _jax.JaxRuntimeError as e:
            raise libraries.PlatformUnavailable(
                f"The TPU library {path} cannot be loaded ({e}): install it with `pip install libtpu`,"
                f" or name it in {libraries.TPU_LIBRARY_VARIABLE}.",
                expected=not is_there,
            ) from e
        lib.profiler.register_plugin_profiler(c_api)
    if not _jax.pjrt_plugin_initialized("tpu"):
        _jax.initialize_pjrt_plugin("tpu")


def tpu_is_asked_for() -> bool:
    """Whether `jax_platforms` names TPUs, so that libtpu should report what is wrong."""
    return "tpu" in map(str.strip, (config.jax_platforms.value or "").split(","))


@contextmanager
def _hint_when_slow(seconds: float) -> Iterator[None]:
    def hint():
        warnings.warn(
            f"TPU backend initialization is taking more than {seconds} seconds. In a multi-process"
            " run, is the same program running on all hosts? To use the CPU instead, set"
            " JAX_PLATFORMS=cpu.",
            stacklevel=1,
        )

    if not hardware_utils.transparent_hugepages_enabled():
        logger.info("Transparent hugepages are not enabled; with them, TPU programs start faster.")
    timer = threading.Timer(seconds, hint)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
