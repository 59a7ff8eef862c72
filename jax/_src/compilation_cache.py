"""The persistent compilation cache: compiled programs in a folder, for this and later processes.

It is used if `jax_compilation_cache_dir` names a folder. An entry is made of a checksum of its key and its
contents, and of the compressed program with the time that it took to compile. An entry that is
damaged, or was written for another key, is removed with a warning, and the program is compiled.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import threading
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import cache_key, cache_use, config, monitoring, user_cache
from jax._src.compilation_cache_interface import CacheInterface
from jax._src.lib import Client, CompileOptions, DeviceList, _jax, hlo
from jax._src.lru_cache import LRUCache
from jax._src.xla_bridge.clients import distributed_state

if TYPE_CHECKING:
    from jax._src.lib.mlir import ir

logger = logging.getLogger(__name__)

_TIME_BYTES = 4
_CHECKSUM_BYTES = 32

# XLA's own caches, each a file or folder beside the entries, and the values of
# jax_persistent_cache_enable_xla_caches.
_XLA_CACHES = ("xla_gpu_kernel_cache_file", "xla_gpu_per_fusion_autotune_cache_dir")

_lock = threading.Lock()
_settings: tuple[Any, ...] | None = None  # those that `_cache` was made with
_cache: CacheInterface | None = None
_warned: set[str] = set()  # reasons


@dataclasses.dataclass
class Counts:
    """How often this process has asked for programs, and what it found.

    Attributes:
      hits: programs that were in the cache.
      misses: programs that were compiled.
      written: programs that were compiled and put into the cache.
    """

    hits: int = 0
    misses: int = 0
    written: int = 0


counts = Counts()


class CacheVerificationError(Exception):
    """A program in the cache differs from the one that was compiled anew.

    Attributes:
      cache_key: the entry's key.
      executable_on_disk, executable_new: the two serialized programs.
    """

    def __init__(
        self, message: str, cache_key: str, executable_on_disk: bytes, executable_new: bytes
    ):
        super().__init__(message)
        self.cache_key = cache_key
        self.executable_on_disk = executable_on_disk
        self.executable_new = executable_new


# The folder


def set_cache_dir(path: str | None) -> None:
    """Sets the folder, like `jax.config.update("jax_compilation_cache_dir", path)`."""
    config.config.update("jax_compilation_cache_dir", None if path is None else str(path))


# For programs that were written for earlier releases.
initialize_cache = set_cache_dir


def default_min_cache_entry_size() -> int:
    """The size in bytes below which entries are not kept, where no option says so: any size is kept."""
    return 0


def reset_cache() -> None:
    """Closes the cache and sets its counts to zero. The next compilation opens it anew; entries stay."""
    global _settings, _cache
    with _lock:
        if _cache is not None:
            logger.info("Resetting cache at %s.", _cache._path)
        _settings = _cache = None
        cache_use.forget()
        _warned.clear()
        counts.hits = counts.misses = counts.written = 0


def is_persistent_cache_enabled() -> bool:
    """Whether a folder is set, and `jax_enable_compilation_cache` is not turned off."""
    return bool(config.compilation_cache_dir.value) and config.enable_compilation_cache.value


def is_initialized() -> bool:
    """Whether programs can be kept."""
    return is_persistent_cache_enabled()


def is_cache_used(backend: Client) -> bool:
    """Whether programs of this client are kept."""
    return is_persistent_cache_enabled() and not isinstance(backend, _jax.CompileOnlyPyClient)


def get_file_cache(path: str) -> tuple[CacheInterface, str] | None:
    """Returns the entries in a folder, up to `jax_compilation_cache_max_size` bytes, and its path."""
    if user_cache.is_folder(path):
        user_cache.make(Path(path))
    return LRUCache(path, max_size=max_size(path)), path


def max_size(path: str) -> int:
    """How many bytes are kept in a folder; -1 if there is no limit."""
    size = config.compilation_cache_max_size.value
    return user_cache.MAX_BYTES if size == -1 and user_cache.is_folder(path) else size


def _get_cache(backend: Client | None) -> CacheInterface | None:
    """The entries in the folder that is set now; None if none is.

    Raises:
      ValueError, OSError: if the folder cannot be used.
    """
    global _settings, _cache
    if not is_persistent_cache_enabled():
        return None
    path = config.compilation_cache_dir.value
    settings = (path, config.compilation_cache_max_size.value)
    with _lock:
        if settings != _settings:
            found = get_file_cache(path)
            _cache = None if found is None else found[0]
            _settings = settings
        return _cache


def use_xla_caches(options: CompileOptions) -> None:
    """Has XLA keep its own caches in the folder, those that `jax_persistent_cache_enable_xla_caches` names.

    Raises:
      ValueError: if it names something else.
    """
    chosen = config.persistent_cache_enable_xla_caches.value
    if not is_persistent_cache_enabled() or chosen in (None, "", "none"):
        return
    names = _XLA_CACHES if chosen == "all" else [name.strip() for name in chosen.split(",")]
    debug = options.executable_build_options.debug_options
    for name in names:
        if name not in _XLA_CACHES:
            raise ValueError(
                "jax_persistent_cache_enable_xla_caches must be 'all', 'none', or some of"
                f" {', '.join(_XLA_CACHES)} with commas between them, got {chosen!r}"
            )
        setattr(debug, name, f"{config.compilation_cache_dir.value.rstrip('/')}/{name}")
    # Newer versions of XLA always compile the parts of a program for this cache.
    parts = "xla_gpu_enable_llvm_module_compilation_parallelism"
    if "xla_gpu_kernel_cache_file" in names and hasattr(debug, parts):
        setattr(debug, parts, True)


# Compiling with the cache

_NOTHING = b"\0"  # sent instead of a program


def compile_or_get_cached(
    compile_module: Callable[[], _jax.LoadedExecutable],
    module: ir.Module,
    name: str,
    devices: np.ndarray,
    options: CompileOptions,
    backend: Client,
    executable_devices: DeviceList,
    has_host_callbacks: bool,
    pgle_profiler: Any = None,
) -> _jax.LoadedExecutable:
    """Returns a program from the cache; otherwise compiles it and keeps it there.

    Args:
      compile_module: compiles the module.
      name: the module's name.
      devices: the devices, in the shape of the device assignment.
      has_host_callbacks: whether the program calls functions of this process; it is not kept then.
      pgle_profiler: what measures its runs, for `jax_enable_pgle`.
      others: see `compiler.backend_compile_and_load`.

    Raises:
      CacheVerificationError: with `jax_compilation_cache_check_contents`, if the program found differs from
        the one that was compiled.
      Exception: errors of the cache itself, if `jax_raise_persistent_cache_errors` is set. Otherwise
        they give a warning.
    """
    ignored = cache_key.IgnoreCallbacks.NO
    if config.remove_custom_partitioning_ptr_from_cache_key.value:
        ignored = cache_key.IgnoreCallbacks.CUSTOM_PARTITIONING
    elif cache_key.uses_functions_of_this_process(module):
        logger.debug("%r is not looked for, since functions of this process partition it", name)
        counts.misses += 1
        return compile_module()
    key_options = options
    if pgle_profiler is not None and pgle_profiler.is_fdo_consumed():
        key_options = _measured(options)
    elif (
        config.enable_pgle.value or config.compilation_cache_expect_pgle.value
    ) and not has_host_callbacks:
        key = get_cache_key(module, devices, _measured(options), backend, ignored)
        found = _read(key, name, options, backend, executable_devices)
        if found is not None:
            if pgle_profiler is not None:
                pgle_profiler.disable()
            counts.hits += 1
            logger.debug("Persistent compilation cache hit for PGLE-optimized %r", name)
            return found
    key = get_cache_key(module, devices, key_options, backend, ignored)
    found = None if has_host_callbacks else _read(key, name, options, backend, executable_devices)
    if found is not None and config.compilation_cache_expect_pgle.value and key_options is options:
        warnings.warn(
            f"PERSISTENT CACHE MISS for PGLE-optimized {name} despite non-PGLE hit; it may not have been"
            " executed enough times when the cache was populated",
            stacklevel=4,
        )
    if found is not None and not config.compilation_cache_check_contents.value:
        counts.hits += 1
        logger.debug("Persistent compilation cache hit for %r with key %r", name, key)
        return found
    if found is None:
        counts.misses += 1
        logger.debug("PERSISTENT COMPILATION CACHE MISS for %r with key %r", name, key)
    start = time.monotonic()
    if config.share_binary_between_hosts.value and not has_host_callbacks:
        executable, is_own = _compile_in_one_process(
            compile_module, key, name, devices, options, backend, executable_devices
        )
        if not is_own:
            return executable
    else:
        executable = compile_module()
    seconds = time.monotonic() - start
    if found is not None:
        counts.hits += 1
        _verify(key, name, found, executable, backend)
    elif reason := _reason_not_to_keep(has_host_callbacks, seconds):
        logger.debug("Not writing persistent cache entry for %r because %s", name, reason)
    else:
        _write(key, name, executable, backend, seconds)
    return executable


def _measured(options: CompileOptions) -> CompileOptions:
    """Options that stand in keys for those with latencies, which differ from one measurement to the next."""
    copy = CompileOptions.ParseFromString(options.SerializeAsString())
    copy.executable_build_options.fdo_profile = b"measured by jax_enable_pgle"
    return copy


def _compile_in_one_process(
    compile_module: Callable[[], _jax.LoadedExecutable],
    key: str,
    name: str,
    devices: np.ndarray,
    options: CompileOptions,
    backend: Client,
    executable_devices: DeviceList,
) -> tuple[_jax.LoadedExecutable, bool]:
    """Compiles a program of several processes in the first of them, and sends it to the others.

    Returns:
      The program, and whether this process has compiled it.
    """
    processes = {device.process_index for device in devices.flat}
    client = distributed_state.client
    if client is None or len(processes) == 1:
        return compile_module(), True
    place = f"jax/compiled_programs/{key}"
    if backend.process_index() == min(processes):
        message = _NOTHING
        try:
            executable = compile_module()
            message = backend.serialize_executable(executable)
        finally:  # the others compile it themselves if it cannot be sent
            client.key_value_set_bytes(place, message, allow_overwrite=True)
        logger.debug("Sent the program %r to the other processes", name)
        return executable, True
    wait = config.share_binary_between_hosts_timeout_ms.value
    try:
        message = client.blocking_key_value_get_bytes(place, wait)
        if message != _NOTHING:
            loaded = backend.deserialize_executable(message, executable_devices, options)
            logger.debug("Received the program %r from process %d", name, min(processes))
            return loaded, False
        why = "it could not be compiled or sent there"
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    logger.warning(
        "jax_share_binary_between_hosts: the program %r did not come from process %d within %d ms, so"
        " this process compiles it: %s",
        name, min(processes), wait, why,
    )  # fmt: skip
    return compile_module(), True


def _reason_not_to_keep(has_host_callbacks: bool, seconds: float) -> str | None:
    if has_host_callbacks:
        return "it uses host callbacks (e.g. from jax.debug.print or breakpoint)"
    least = config.persistent_cache_min_compile_time_secs.value
    if seconds < least:
        return f"it took < {least:.2f} seconds to compile ({seconds:.2f}s)"
    return None


def _read(
    key: str, name: str, options: CompileOptions, backend: Client, executable_devices: DeviceList
) -> _jax.LoadedExecutable | None:
    start = time.monotonic()
    try:
        executable, compile_time = get_executable_and_time(
            key, options, backend, executable_devices
        )
    except Exception as error:
        _warn_or_raise(f"Error reading persistent compilation cache entry for {name!r}", error)
        return None
    if executable is None:
        return None
    seconds = time.monotonic() - start
    monitoring.record_event("/jax/compilation_cache/cache_hits")
    monitoring.record_event_duration_secs(
        "/jax/compilation_cache/compile_time_saved_sec", (compile_time or 0) - seconds
    )
    monitoring.record_event_duration_secs(
        "/jax/compilation_cache/cache_retrieval_time_sec", seconds
    )
    return executable


def _write(
    key: str, name: str, executable: _jax.LoadedExecutable, backend: Client, seconds: float
) -> None:
    try:
        put_executable_and_time(key, name, executable, backend, int(seconds))
    except Exception as error:
        if isinstance(error, _jax.JaxRuntimeError) and str(error).startswith("UNIMPLEMENTED"):
            logger.debug("Not writing persistent cache entry for %r because of %s", name, error)
            return  # some platforms cannot serialize programs, or not all of them
        _warn_or_raise(f"Error writing persistent compilation cache entry for {name!r}", error)


def _warn_or_raise(what: str, error: Exception) -> None:
    if config.raise_persistent_cache_errors.value:
        raise error
    reason = f"{type(error).__name__}: {error}"
    # A folder that cannot be used gives the same reason for each program: one warning is enough.
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(f"{what}: {reason}. The program is compiled.", stacklevel=4)


def _verify(key: str, name: str, found: Any, compiled: Any, backend: Client) -> None:
    """Raises an error if two programs differ. Their bytes may: these contain source locations."""
    if _operations(found) == _operations(compiled):
        return
    raise CacheVerificationError(
        f"Persistent compilation cache inconsistency for key {key}: the program {name!r} in the folder"
        f" {config.compilation_cache_dir.value} differs from what was compiled now. Remove the file"
        f" {key}-cache; if this happens again, the compiler's results vary from run to run.",
        key,
        backend.serialize_executable(found),
        backend.serialize_executable(compiled),
    )


def _operations(executable: _jax.LoadedExecutable) -> list[str]:
    options = hlo.HloPrintOptions.canonical()
    return [module.to_string(options) for module in executable.hlo_modules()]


# Entries


def get_cache_key(
    module: ir.Module,
    devices: np.ndarray,
    compile_options: CompileOptions,
    backend: Client,
    ignore_callbacks: cache_key.IgnoreCallbacks = cache_key.IgnoreCallbacks.NO,
) -> str:
    """Returns the key of a program; see `cache_key.get`."""
    return cache_key.get(module, devices, compile_options, backend, "zlib", ignore_callbacks)


def is_executable_in_cache(backend: Client, cache_key: str) -> bool:
    """Whether the cache has an entry of this key."""
    cache = _get_cache(backend)
    return cache is not None and cache.get(cache_key) is not None


def is_in_cache(
    module: ir.Module, devices: np.ndarray, options: CompileOptions, backend: Client
) -> bool:
    """Whether the cache has a program; False, with a warning, if it cannot be used."""
    try:
        key = get_cache_key(module, devices, options, backend)
        return is_executable_in_cache(backend, key)
    except Exception as error:
        _warn_or_raise("Error reading the persistent compilation cache", error)
        return False


def get_executable_and_time(
    cache_key: str,
    compile_options: CompileOptions,
    backend: Client,
    executable_devices: DeviceList,
) -> tuple[_jax.LoadedExecutable | None, int | None]:
    """Returns a program, loaded for devices, and the seconds it took to compile; (None, None) without one.

    Raises:
      ValueError: if the entry is damaged or is another key's. It is removed.
    """
    cache = _get_cache(backend)
    if cache is None:
        logger.debug("get_executable_and_time: cache is disabled/not initialized")
        return None, None
    entry = cache.get(cache_key)
    if entry is None:
        return None, None
    try:
        executable, compile_time = _unpacked(cache_key, entry)
        loaded = backend.deserialize_executable(executable, executable_devices, compile_options)
    except (ValueError, zlib.error, _jax.JaxRuntimeError) as error:
        cache.remove(cache_key)
        raise ValueError(
            f"the entry {cache_key} of {config.compilation_cache_dir.value} is damaged, or is another"
            f" program's ({error}); it is removed"
        ) from error
    return loaded, compile_time


def put_executable_and_time(
    cache_key: str,
    module_name: str,
    executable: _jax.LoadedExecutable,
    backend: Client,
    compile_time: int,
) -> None:
    """Keeps a program, unless the cache has it or it is smaller than those that are kept.

    Args:
      compile_time: the seconds that it took to compile.
    """
    cache = _get_cache(backend)
    if cache is None:
        logger.debug(
            "Not writing persistent cache entry with key %r since cache is disabled/not initialized",
            cache_key,
        )
        return
    entry = _packed(cache_key, backend.serialize_executable(executable), compile_time)
    least = config.persistent_cache_min_entry_size_bytes.value
    if len(entry) < least:
        logger.debug(
            "Not writing persistent cache entry with key %r since its size (%d bytes) is less than"
            " threshold (%d bytes)", cache_key, len(entry), least,
        )  # fmt: skip
        return
    logger.debug(
        "Writing %s to persistent compilation cache with key %r", module_name, cache_key
    )  # fmt: skip
    cache.put(cache_key, entry)
    counts.written += 1
    monitoring.record_event("/jax/compilation_cache/cache_misses")


def _packed(key: str, executable: bytes, compile_time: int) -> bytes:
    body = compress_executable(combine_executable_and_time(executable, compile_time))
    return _checksum(key, body) + body


def _unpacked(key: str, entry: bytes) -> tuple[bytes, int]:
    checksum, body = entry[:_CHECKSUM_BYTES], entry[_CHECKSUM_BYTES:]
    if checksum != _checksum(key, body):
        raise ValueError("its checksum is another one")
    return extract_executable_and_time(decompress_executable(body))


def _checksum(key: str, body: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + body).digest()


def compress_executable(executable: bytes) -> bytes:
    """Compresses a serialized program."""
    return zlib.compress(executable, level=1)  # the slower levels save little


def decompress_executable(executable: bytes) -> bytes:
    """The reverse of `compress_executable`."""
    return zlib.decompress(executable)


def combine_executable_and_time(serialized_executable: bytes, compile_time: int) -> bytes:
    """Puts the seconds of a compilation before the serialized program."""
    return compile_time.to_bytes(_TIME_BYTES, "big") + serialized_executable


def extract_executable_and_time(executable_and_time: bytes) -> tuple[bytes, int]:
    """The reverse of `combine_executable_and_time`."""
    seconds = int.from_bytes(executable_and_time[:_TIME_BYTES], "big")
    return executable_and_time[_TIME_BYTES:], seconds


# Names that outside code imports


class VerificationCache(CacheInterface):
    """Entries that are compared byte by byte when they are put again, for test suites that use it.

    Our own check (`jax_compilation_cache_check_contents`) compares programs, since the bytes of equal ones
    may differ.
    """

    def __init__(self, base_cache: CacheInterface):
        self._base_cache = base_cache
        self._path = base_cache._path

    def get(self, key: str) -> bytes | None:
        return None  # so that the program is compiled

    def put(self, key: str, value: bytes) -> None:
        found = self._base_cache.get(key)
        if found is not None and found != value:
            raise CacheVerificationError(
                f"Persistent compilation cache inconsistency for key {key}", key, found, value
            )
        self._base_cache.put(key, value)

    def remove(self, key: str) -> None:
        self._base_cache.remove(key)

    def clear(self) -> None:
        self._base_cache.clear()  # type: ignore[attr-defined]
