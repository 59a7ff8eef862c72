"""PJRT plugins: packages that provide a platform.

A plugin is a module of the namespace package `jax_plugins`, or an entry point of the group
`jax_plugins`; its function `initialize()` calls `register_plugin`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from jax._src import lib
from jax._src.errors import ProcessesError
from jax._src.lib import Client, _jax
from jax._src.xla_bridge import registry
from jax._src.xla_bridge.clients import OptionsDict, make_pjrt_c_api_client

logger = logging.getLogger("jax._src.xla_bridge")

# The same lock as that of the backends, since each would be acquired inside the other.
_plugin_lock = registry._backend_lock
_plugins_registered = False
_is_discovering = False
_plugin_callbacks: list[Callable[..., None]] = []


def register_plugin(
    plugin_name: str,
    *,
    priority: int = 400,
    library_path: str | None = None,
    options: OptionsDict | Callable[[], OptionsDict] | None = None,
    c_api: Any | None = None,
    factory: Callable[[], Client] | None = None,
    make_topology: Callable[..., Any] | None = None,
) -> Any:
    """Registers the platform of a PJRT plugin, and loads the plugin.

    Args:
      plugin_name: the platform's name.
      priority: the platform with the highest priority is the default.
      library_path: the plugin's shared library.
      options: options of its client, or a function that returns them.
      c_api: a capsule with the plugin's PJRT C API, instead of a library.
      factory: makes the client; `make_pjrt_c_api_client` by default.
      make_topology: describes hardware that is not present; by default the plugin does.

    Returns:
      A capsule with the plugin's PJRT C API.

    Raises:
      ValueError: both or neither of ``library_path`` and ``c_api`` are given.
      RuntimeError: the library cannot be loaded.
    """
    if (library_path is None) == (c_api is None):
        raise ValueError(
            f"The plugin {plugin_name} needs either library_path or c_api, got"
            f" library_path={library_path!r} and c_api={c_api!r}."
        )
    if _jax.pjrt_plugin_loaded(plugin_name):
        logger.debug("The plugin %s is loaded already", plugin_name)
    elif c_api is not None:
        _jax.load_pjrt_plugin(plugin_name, None, c_api)
    else:
        logger.debug("Loading the plugin %s from %s", plugin_name, library_path)
        c_api = load_plugin(plugin_name, library_path)
    if make_topology is None and c_api is not None:
        make_topology = functools.partial(_make_topology, c_api)
    registry.register_backend_factory(
        plugin_name,
        factory or functools.partial(make_pjrt_c_api_client, plugin_name, options),
        priority=priority,
        fail_quietly=False,
        experimental=plugin_name in registry._experimental_plugins,
        make_topology=make_topology,
        c_api=c_api,
    )
    return c_api


def load_plugin(name: str, library_path: str) -> Any:
    """Loads a plugin's library; returns a capsule with its PJRT C API."""
    c_api = _jax.load_pjrt_plugin(name, library_path, None)
    lib.profiler.register_plugin_profiler(c_api)
    return c_api


def register_deferred_plugin(
    plugin_name: str,
    load: Callable[[bool], Any],
    *,
    priority: int = 500,
    options: OptionsDict | Callable[[], OptionsDict] | None = None,
) -> None:
    """Registers a platform whose plugin is not loaded until the platform starts.

    Args:
      plugin_name: the platform's name.
      load: loads the plugin unless it is loaded, and returns a capsule with its PJRT C API. Its
        argument is whether devices are needed, not only their descriptions. It raises
        `PlatformUnavailable` if the platform cannot be used.
      priority: the platform with the highest priority is the default.
      options: options of its client, or a function that returns them.
    """

    def loaded(for_devices):
        with _plugin_lock:
            c_api = load(for_devices)
            registration = registry._backend_factories[plugin_name]
            if registration.c_api is None:
                registration.c_api = c_api
                for callback in _plugin_callbacks:
                    callback(c_api=c_api)
            return c_api

    def make_client():
        loaded(for_devices=True)
        return make_pjrt_c_api_client(plugin_name, options)

    def make_topology(topology_name="", **kwargs):
        return _make_topology(loaded(for_devices=False), topology_name, **kwargs)

    registry.register_backend_factory(
        plugin_name,
        make_client,
        priority=priority,
        fail_quietly=False,
        make_topology=make_topology,
    )


def _make_topology(c_api, topology_name="", **kwargs):
    return _jax.get_c_api_topology(c_api, topology_name, dict(**kwargs))


def register_plugin_callbacks(callback: Callable[..., None]) -> None:
    """Calls a function with `c_api=` for each plugin, including those that are loaded later."""
    with _plugin_lock:
        _plugin_callbacks.append(callback)
        if _plugins_registered:
            _call_back([callback])


def _call_back(callbacks):
    for registration in list(registry._backend_factories.values()):
        if registration.c_api is not None:
            for callback in callbacks:
                callback(c_api=registration.c_api)


def _discover_and_register_pjrt_plugins() -> None:
    """Finds and registers all plugins; only once."""
    global _plugins_registered, _is_discovering
    if _plugins_registered:
        return
    with _plugin_lock:
        if _plugins_registered or _is_discovering:  # the lock is reentrant
            return
        _is_discovering = True
        try:
            discover_pjrt_plugins()
            register_pjrt_plugin_factories_from_env()
            _plugins_registered = True
        finally:
            _is_discovering = False
        _call_back(_plugin_callbacks)


registry._plugin_discovery.append(_discover_and_register_pjrt_plugins)


def discover_pjrt_plugins() -> None:
    """Initializes all installed plugins. The failure of one, or its `sys.exit`, only causes a warning."""
    for name, load in find_plugins():
        try:
            load().initialize()
        except (ProcessesError, KeyboardInterrupt):
            raise
        except BaseException as e:
            logger.debug("JAX plugin %s failed", name, exc_info=True)
            warnings.warn(
                f"The JAX plugin {name} could not be initialized and is left out: {e!r}. To silence"
                " this, uninstall it, or update it to a version that fits this jax and jaxlib.",
                RuntimeWarning,
                stacklevel=2,
            )


def find_plugins() -> list[tuple[str, Callable[[], Any]]]:
    import pkgutil  # imported here, like importlib.metadata, since they are slow
    from importlib.metadata import entry_points

    found: dict[str, Callable[[], Any]] = {}
    spec = importlib.util.find_spec("jax_plugins")
    if spec is not None and spec.submodule_search_locations:
        for module in pkgutil.iter_modules(spec.submodule_search_locations, "jax_plugins."):
            found[module.name] = functools.partial(importlib.import_module, module.name)
    for entry_point in entry_points(group="jax_plugins"):
        found.setdefault(entry_point.value, entry_point.load)
    return [(name, load) for name, load in found.items() if _replacement(name) not in found]


def _replacement(module: str) -> str | None:
    """`jax_plugins.cuda` for `jax_plugins.xla_cuda13`, whose library the former uses."""
    match = re.fullmatch(r"jax_plugins\.xla_([a-z]+)\d*", module)
    return f"jax_plugins.{match.group(1)}" if match else None


def register_pjrt_plugin_factories_from_env() -> None:
    """Registers the plugins that $PJRT_NAMES_AND_LIBRARY_PATHS names.

    Its format is 'name1:path1,name2:path2', with ';' instead of ':' on Windows. A path to a .json
    file is replaced by its `library_path`; `create_options` are the client's options.
    """
    value = os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS")
    if not value:
        return
    for name, path in _get_pjrt_plugin_names_and_library_paths(value).items():
        options = None
        if path.endswith(".json"):
            path, options = _get_pjrt_plugin_config(path)
        register_plugin(name, library_path=path, options=options)


def _get_pjrt_plugin_names_and_library_paths(plugins_from_env: str) -> dict[str, str]:
    separator = ";" if sys.platform == "win32" else ":"
    out = {}
    for pair in filter(None, plugins_from_env.split(",")):
        name, found, path = pair.partition(separator)
        if not found or not name or not path:
            raise ValueError(
                "PJRT_NAMES_AND_LIBRARY_PATHS must be like"
                f" 'name1{separator}path1,name2{separator}path2', got {plugins_from_env!r}"
            )
        out[name] = path
    return out


def _get_pjrt_plugin_config(
    json_path: str,
) -> tuple[str, Mapping[str, str | int | list[int] | float | bool] | None]:
    """The library's path and the client's options, from a JSON file."""
    import json  # which few programs need

    with open(json_path) as file:
        content = json.load(file)
    if "library_path" not in content:
        raise ValueError(f"The PJRT plugin configuration {json_path} has no field library_path.")
    options = content.get("create_options", content.get("create_option"))
    return content["library_path"], options
