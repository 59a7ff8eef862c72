"""Levels and debug handlers of the `jax` and `jaxlib` loggers."""

from __future__ import annotations

import logging
import sys

from jax._src.lib import cpp_log_level_from_environment, utils

logger = logging.getLogger(__name__)

_FORMAT = "{levelname}:{asctime},{msecs:03.0f}:{name}:{lineno}: {message}"
_CPP_LEVELS = {
    "DEBUG": 0,
    "INFO": 0,
    "WARNING": 1,
    "WARN": 1,
    "ERROR": 2,
    "CRITICAL": 3,
    "FATAL": 3,
}

_handler: logging.StreamHandler | None = None
_debug_modules: list[str] = []
_initial_levels: dict[str, int] = {}


def update_debug_log_modules(module_names: str | None) -> None:
    """Logs everything from the comma-separated loggers to stderr; others are reset."""
    for name in _debug_modules:
        module_logger = logging.getLogger(name)
        module_logger.removeHandler(_stderr_handler())
        module_logger.setLevel(_initial_levels.get(name, logging.NOTSET))
    _debug_modules.clear()
    for name in filter(None, (part.strip() for part in (module_names or "").split(","))):
        module_logger = logging.getLogger(name)
        _initial_levels.setdefault(name, module_logger.level)
        module_logger.setLevel(logging.DEBUG)
        module_logger.addHandler(_stderr_handler())
        _debug_modules.append(name)


def update_logging_level_global(level: str | None) -> None:
    """Sets the level of the `jax` and `jaxlib` loggers and of the C++ log."""
    for name in ("jax", "jaxlib"):
        package_logger = logging.getLogger(name)
        _initial_levels.setdefault(name, package_logger.level)
        if level is None or level == "NOTSET":
            package_logger.setLevel(_initial_levels[name])
            if name not in _debug_modules:
                package_logger.removeHandler(_stderr_handler())
        else:
            package_logger.setLevel(level)
            package_logger.addHandler(_stderr_handler())
    if level is not None and level != "NOTSET" and cpp_log_level_from_environment is None:
        utils.absl_set_min_log_level(_CPP_LEVELS[level])


def _stderr_handler() -> logging.StreamHandler:
    global _handler
    if _handler is None:
        _handler = logging.StreamHandler(sys.stderr)
        _handler.setFormatter(logging.Formatter(_FORMAT, style="{"))
    return _handler
