"""The registry of platforms, and the backends that have been started."""

from __future__ import annotations

import dataclasses
import functools
import gc
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from jax._src import config, hardware_utils, util
from jax._src.errors import ProcessesError
from jax._src.lib import Client, Device, _jax
from jax._src.xla_bridge.clients import (
    distributed_state,
    initialize_libtpu,
    make_cpu_client,
    make_tpu_client,
)
from jax._src.xla_bridge.libraries import PlatformUnavailable

logger = logging.getLogger("jax._src.xla_bridge")

BackendFactory = Callable[[], Client | None]
TopologyFactory = Callable[..., _jax.DeviceTopology]


@dataclasses.dataclass
class BackendRegistration:
    """How to make the backend of a platform, and its priority."""

    factory: BackendFactory
    # The platform with the highest priority among those that start is the default.
    priority: int
    # Whether a failure to start is only logged if the user did not ask for the platform.
    fail_quietly: bool = False
    experimental: bool = False
    c_api: Any | None = None


_platform_aliases = {"cuda": "gpu", "rocm": "gpu", "oneapi": "gpu"}
_alias_to_platforms = {"gpu": ["cuda", "rocm", "oneapi"]}
_nonexperimental_plugins = {"cuda", "rocm"}
_experimental_plugins = {"oneapi"}
# If one of these is absent, the rest of the list is used, like the CPU in JAX_PLATFORMS=cuda,cpu.
_OPTIONAL = _nonexperimental_plugins | _experimental_plugins

_backend_factories: dict[str, BackendRegistration] = {}
_topology_factories: dict[str, TopologyFactory] = {}
_backend_initialization_hooks: list[Callable[[Client], None]] = []
_plugin_discovery: list[Callable[[], None]] = []

_backend_lock = threading.RLock()
_backends: dict[str, Client] = {}
_backend_errors: dict[str, str] = {}
_default_backend: Client | None = None
_is_starting = False
_warns_of_forks = False


def register_backend_factory(
    name: str,
    factory: BackendFactory,
    *,
    priority: int = 0,
    fail_quietly: bool = True,
    experimental: bool = False,
    make_topology: TopologyFactory | None = None,
    c_api: Any | None = None,
) -> None:
    """Registers a platform.

    Args:
      name: the platform's name.
      factory: makes its client; returns None if there is no such hardware.
      priority: the platform with the highest priority is the default.
      fail_quietly: whether a failure to start is only logged, without a warning. It is an error if
        the option `jax_platforms` names the platform.
      experimental: whether to warn when it starts.
      make_topology: describes hardware that is not present, for ahead-of-time compilation.
      c_api: the PJRT C API of its plugin.

    Raises:
      RuntimeError: the backend has already started.
    """
    with _backend_lock:
        if name in _backends:
            raise RuntimeError(f"Backend {name} already initialized")
        _backend_factories[name] = BackendRegistration(
            factory, priority, fail_quietly, experimental, c_api
        )
        if make_topology is not None:
            _topology_factories[name] = make_topology


register_backend_factory("cpu", make_cpu_client, priority=0, fail_quietly=False)


def make_pjrt_topology(platform: str, topology_name="", **kwargs):
    """Describes hardware of a platform that need not be present.

    Args:
      platform: the platform's name.
      topology_name: the hardware, in the platform's own terms.
      **kwargs: options of the platform's plugin.

    Raises:
      NotImplementedError: the platform does not support this.
    """
    for discover in _plugin_discovery:
        discover()
    factory = _topology_factories.get(canonicalize_known_platform(platform))
    if factory is None:
        raise NotImplementedError(
            f"topology not implemented for {platform}: absent hardware can be described for the"
            f" platforms {sorted(_topology_factories)}"
        )
    return factory(topology_name, **kwargs)


def make_pjrt_tpu_topology(topology_name="", **kwargs):
    """Describes TPUs that need not be present; see `make_pjrt_topology`."""
    initialize_libtpu(for_devices=False)
    return _jax.get_default_c_api_topology("tpu", topology_name, dict(**kwargs))


register_backend_factory(
    "tpu",
    make_tpu_client,
    priority=300,
    fail_quietly=True,
    make_topology=make_pjrt_tpu_topology,
)


# Names


def expand_platform_alias(platform: str) -> list[str]:
    """The platforms that a name stands for; 'gpu' stands for those of all vendors."""
    return list(_alias_to_platforms.get(platform, [platform]))


def registered_platforms() -> list[str]:
    """The names of the platforms that something here can start."""
    return list(_backend_factories)


def backend_errors() -> dict[str, str]:
    """Why platforms have not started, by their names."""
    return dict(_backend_errors)


def known_platforms() -> set[str]:
    """The names of all platforms, installed or not."""
    return {*_nonexperimental_plugins, *_experimental_plugins, *_backend_factories} | {
        *_platform_aliases.values()
    }


def is_known_platform(platform: str) -> bool:
    """Whether a name is the name of a platform, installed or not."""
    return platform in known_platforms()


def canonicalize_known_platform(platform: str) -> str:
    """The registered platform that a name stands for."""
    for candidate in expand_platform_alias(platform):
        if candidate in _backend_factories:
            return candidate
    return platform


def canonicalize_platform(platform: str) -> str:
    """The started platform that a name stands for.

    Args:
      platform: a platform or an alias.

    Raises:
      RuntimeError: none of the platforms of an alias has started.
    """
    candidates = _alias_to_platforms.get(platform)
    if candidates is None:
        return platform
    running = backends()
    for candidate in candidates:
        if candidate in running:
            return candidate
    raise RuntimeError(
        f"Unknown backend: '{platform}' requested, but no platforms that are instances of {platform}"
        f" are present. Platforms present are: {','.join(running)}"
    )


# Starting


def backends_are_initialized() -> bool:
    """Whether backends have started."""
    with _backend_lock:
        return bool(_backends)


def register_backend_initialization_hook(hook: Callable[[Client], None]) -> None:
    """Registers a function to call for each backend, also for those that have already started."""
    with _backend_lock:
        _backend_initialization_hooks.append(hook)
        for backend in _backends.values():
            hook(backend)


def unregister_backend_initialization_hook(hook: Callable[[Client], None]) -> None:
    """Removes a function that `register_backend_initialization_hook` registered."""
    with _backend_lock:
        _backend_initialization_hooks.remove(hook)


def backends() -> dict[str, Client]:
    """Starts the platforms at the first call; returns their clients by name.

    These are the platforms of the option `jax_platforms`, in order of preference, or else all that
    are registered.

    Raises:
      RuntimeError: a requested platform does not start, or the call comes from code that starts
        one.
    """
    global _default_backend, _is_starting
    if _backends:
        return _backends
    with _backend_lock:
        if _backends:
            return _backends
        if _is_starting:
            raise RuntimeError(
                "The backends are asked for while they start: neither `initialize()` of a plugin nor what"
                " makes a backend's client may use devices or arrays."
            )
        _is_starting = True
        try:
            for discover in _plugin_discovery:
                discover()
            started, errors = _start_platforms(config.jax_platforms.value)
        finally:
            _is_starting = False
        _backend_errors.clear()
        _backend_errors.update(errors)
        _default_backend = next(iter(started.values()))
        # Readers do not acquire the lock, so all entries are added at once.
        in_registration_order = sorted(
            started.items(), key=lambda item: list(_backend_factories).index(item[0])
        )
        _backends.update(in_registration_order)
        _warn_of_forks()
        if not config.jax_platforms.value:
            _suggest_missing_backends(_default_backend.platform)
        for hook in _backend_initialization_hooks:
            for backend in started.values():
                hook(backend)
        return _backends


def _start_platforms(wanted: str | None) -> tuple[dict[str, Client], dict[str, str]]:
    """The clients by platform, preferred first, and the errors of platforms that may be absent."""
    return _start_wanted(wanted) if wanted else _start_all()


def _start_all() -> tuple[dict[str, Client], dict[str, str]]:
    started: dict[str, Client] = {}
    errors: dict[str, str] = {}
    for name in sorted(_backend_factories, key=lambda n: -_backend_factories[n].priority):
        try:
            started[name] = _start(name)
        except PlatformUnavailable as e:
            errors[name] = str(e)
            _go_on_without(name, e)
        except ProcessesError:
            raise
        except Exception as e:
            problem = f"Unable to initialize backend '{name}': {e}"
            if name == "cpu":
                raise RuntimeError(problem) from e
            errors[name] = str(e)
            if _backend_factories[name].fail_quietly:
                logger.info(problem)
            else:
                warnings.warn(
                    f"{problem} (programs run without it; you may need to uninstall the failing"
                    " plugin package, or set JAX_PLATFORMS=cpu to skip this backend.)",
                    RuntimeWarning,
                    stacklevel=4,
                )
    if not started:
        raise RuntimeError(f"No backend could be initialized: {errors}")
    return started, errors


def _go_on_without(platform: str, reason: PlatformUnavailable) -> None:
    if reason.expected:
        logger.info("The platform '%s' is left out: %s", platform, reason)
    else:
        warnings.warn(
            f"JAX goes on without the platform '{platform}'. {reason}", RuntimeWarning, stacklevel=5
        )


def _start_wanted(wanted: str) -> tuple[dict[str, Client], dict[str, str]]:
    started: dict[str, Client] = {}
    errors: dict[str, Exception] = {}
    unknown: dict[str, str] = {}
    for name in filter(None, map(str.strip, wanted.split(","))):
        candidates = expand_platform_alias(name)
        for platform in candidates:
            if platform in started:
                continue
            problem = f"Unable to initialize backend '{platform}'"
            if platform not in _backend_factories:
                problem += (
                    f": Backend '{platform}' is not in the list of known backends:"
                    f" {list(_backend_factories)}."
                )
                if platform not in _OPTIONAL:
                    raise RuntimeError(problem + _CHOOSE)
                unknown[platform] = problem
                continue
            try:
                started[platform] = _start(platform)
            except ProcessesError:
                raise
            except Exception as e:
                absent = isinstance(e, PlatformUnavailable) and platform in _OPTIONAL
                if not absent and len(candidates) == 1:
                    raise RuntimeError(f"{problem}: {e}{_CHOOSE}") from e
                errors[platform] = e
    if not started:
        failed = [f"Unable to initialize backend '{p}': {e}" for p, e in errors.items()]
        text = (
            " ".join(failed or unknown.values()) or f"JAX_PLATFORMS={wanted!r} names no platform."
        )
        raise RuntimeError(text + _CHOOSE)
    for platform, e in errors.items():
        if isinstance(e, PlatformUnavailable):
            _go_on_without(platform, e)
        else:
            logger.info("Unable to initialize backend '%s': %s", platform, e)
    return started, {platform: str(e) for platform, e in errors.items()}


_CHOOSE = " (set JAX_PLATFORMS='' to automatically choose an available backend)"


def _start(platform: str) -> Client:
    registration = _backend_factories[platform]
    if registration.experimental:
        logger.warning(
            "Platform '%s' is experimental and not all JAX functionality may work.", platform
        )
    logger.debug("Initializing backend '%s'", platform)
    if (check := distributed_state.check_processes) is not None:
        check()  # clients of several processes wait for one another
    try:
        backend = registration.factory()
    except SystemExit as e:
        raise RuntimeError(f"the plugin of '{platform}' called sys.exit({e.code!r})") from e
    if backend is None:
        raise RuntimeError(f"Could not initialize backend '{platform}'")
    if backend.device_count() == 0:
        raise RuntimeError(f"Backend '{platform}' provides no devices.")
    logger.debug("Backend '%s' initialized", platform)
    return backend


def _suggest_missing_backends(default_platform: str) -> None:
    if default_platform != "cpu":
        return
    if hardware_utils.has_visible_nvidia_gpu() and "cuda" not in _backend_factories:
        logger.warning(
            "An NVIDIA GPU may be present on this machine, but no CUDA plugin for JAX is installed:"
            " programs run on the CPU."
        )
    elif hardware_utils.num_available_amd_gpus(stop_at=1) and "rocm" not in _backend_factories:
        logger.warning(
            "An AMD GPU may be present on this machine, but no ROCm plugin for JAX is installed:"
            " programs run on the CPU."
        )
    elif hardware_utils.num_available_tpu_chips_and_device_id()[0] and "tpu" not in _backends:
        logger.warning(
            "A TPU may be present on this machine, but its backend did not start (%s): programs run"
            " on the CPU.",
            _backend_errors.get("tpu", "libtpu is not installed"),
        )


def _at_fork():
    if _backends:
        warnings.warn(
            "os.fork() was called, but JAX is multithreaded: the child process will likely deadlock"
            " when it uses JAX. Start processes with the method 'spawn' or 'forkserver'.",
            RuntimeWarning,
            stacklevel=2,
        )


def _warn_of_forks():
    global _warns_of_forks
    if not _warns_of_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_at_fork)
        _warns_of_forks = True


# Access


@functools.cache
def get_backend(platform: None | str | Client = None) -> Client:
    """The client of a platform.

    Args:
      platform: a platform's name, an alias, or a client, which is returned; by default the
        preferred one.

    Raises:
      RuntimeError: the platform does not exist, or did not start.
    """
    if platform is not None and not isinstance(platform, str):
        return platform
    running = backends()
    platform = platform or config.xla_backend.value or config.platform_name.value or None
    if platform is None:
        return _default_backend
    platform = canonicalize_platform(platform)
    backend = running.get(platform)
    if backend is not None:
        return backend
    if platform in _backend_errors:
        raise RuntimeError(
            f"Backend '{platform}' failed to initialize: {_backend_errors[platform].rstrip('.')}."
            f" Available backends are {list(running)}"
        )
    raise RuntimeError(f"Unknown backend {platform}. Available backends are {list(running)}")


def get_device_backend(device: Device | None = None) -> Client:
    """The client of a device, or the preferred one."""
    return get_backend() if device is None else device.client


def local_backend(name: str | None = None) -> Client:
    """The same as `get_backend`."""
    return get_backend(name)


def _clear_backends() -> None:
    """Removes all backends; the next use starts new ones."""
    global _default_backend
    clients = []
    with _backend_lock:
        if config.debug_leaked_clients_on_clear_backends.value:
            clients = [weakref.ref(client) for client in _backends.values()]
        _backends.clear()
        _backend_errors.clear()
        _default_backend = None
        get_backend.cache_clear()
        util.clear_all_caches()
    if clients:
        gc.collect()
        if any(client() is not None for client in clients):
            raise RuntimeError(
                "A jax.Client was leaked: arrays, devices or compiled functions of the backends that"
                " were cleared are still alive"
            )


def clear_backends(_crash: bool = False) -> None:
    """Removes all backends and compiled programs; the next use starts new backends.

    Arrays of the old backends can no longer be used.

    Args:
      _crash: has no effect, as in PyPI's jax, whose callers may give it.
    """
    _clear_backends()


def clear_in_memory_compilation_cache() -> None:
    """Removes compiled programs, and the traces that refer to them."""
    util.clear_all_caches()


def _fix_when_running(state):
    """Makes changing an option an error once backends have started with its value."""
    parse = state._parser

    def parse_if_not_running(name, value):
        value = parse(name, value)
        if _backends and value != state.value:
            raise RuntimeError(
                f"{name} config should be updated before backends are initialized i.e. before any JAX"
                " operation is executed. Set it right after `import jax`."
            )
        return value

    state._parser = parse_if_not_running


_fix_when_running(config.num_cpu_devices)
_fix_when_running(config.cpu_num_threads)
_fix_when_running(config.pjrt_client_create_options)
