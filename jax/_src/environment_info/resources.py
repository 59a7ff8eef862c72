"""Checks of what programs share with others on the machine: caches, threads, memory, and variables that set them."""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator

from jax._src import compilation_cache, config, cpu_threads, hardware_utils, xla_bridge
from jax._src.environment_info.findings import Finding, error, note, ok, warning

_GIGABYTE = 1e9
_OWN_FOLDER = "export JAX_COMPILATION_CACHE_DIR=auto"
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# Variables that the client of GPUs reads; the values that it accepts, or None for a number.
_ALLOCATORS = ("default", "platform", "bfc", "cuda_async", "vmm")
_MEMORY_VARIABLES = (
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
)


def check_cache() -> Iterator[Finding]:
    topic = "caches"
    folder = config.compilation_cache_dir.value
    if not folder:
        yield note(
            topic,
            "programs are compiled anew in each process: no compilation cache",
            _OWN_FOLDER,
        )
        return
    if not compilation_cache.is_persistent_cache_enabled():
        yield warning(
            topic,
            f"{folder} is not used: jax_enable_compilation_cache is False",
            "export JAX_ENABLE_COMPILATION_CACHE=1",
        )
        return
    if "://" in folder:
        yield ok(topic, f"compilation cache {folder}, not on this machine, was not looked at")
        return
    yield from _check_local_cache(topic, pathlib.Path(folder))


def _check_local_cache(topic: str, folder: pathlib.Path) -> Iterator[Finding]:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        yield error(
            topic,
            f"the compilation cache {folder} cannot be a folder: {there} is a file",
            _OWN_FOLDER,
        )
        return
    try:
        # Permissions do not tell all: not those of read-only disks and of folders such as /proc.
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as err:
        message = f"the compilation cache {folder} cannot be written to: {err.strerror}"
        yield error(topic, message, _OWN_FOLDER)
        return
    entries, size = _contents(folder)
    limit = compilation_cache.max_size(str(folder))
    bound = f" of at most {limit / _GIGABYTE:.3g} GB" if limit >= 0 else ""
    yield ok(
        topic, f"compilation cache {folder}: {entries} files, {size / _GIGABYTE:.3g} GB{bound}"
    )
    free = shutil.disk_usage(there).free
    if free < max(_GIGABYTE, limit - size):
        yield warning(
            topic,
            f"{free / _GIGABYTE:.3g} GB are free for the compilation cache {folder}",
            f"export JAX_COMPILATION_CACHE_MAX_SIZE={int((size + free) / 2)}",
        )


def _contents(folder: pathlib.Path) -> tuple[int, int]:
    """The number of files in a folder, and their bytes."""
    entries = size = 0
    for path, _, files in os.walk(folder):
        for name in files:
            try:
                size += os.stat(os.path.join(path, name)).st_size
            except OSError:  # removed by another process meanwhile
                continue
            entries += 1
    return entries, size


def check_threads() -> Iterator[Finding]:
    topic = "threads"
    cores = os.cpu_count() or 1
    usable = hardware_utils.num_cores_in_affinity()
    threads = cpu_threads.pool_size()
    found = f"{usable} of {cores} cores may be used, XLA makes {threads} threads"
    yield ok(topic, found) if usable == cores == threads else note(topic, found)
    quota = hardware_utils.cpu_quota()
    if quota is not None and quota < usable:
        usable = hardware_utils.num_usable_cores()
        yield note(topic, f"the container's limit is {quota:g} cores")
    if (chosen := config.cpu_num_threads.value) > usable:
        yield warning(
            topic,
            f"jax_cpu_num_threads={chosen} are more threads than cores, which wait for each other",
            f"export JAX_CPU_NUM_THREADS={usable}",
        )
    for name in _THREAD_VARIABLES:
        text = os.environ.get(name)
        if text is None:
            continue
        if not re.fullmatch(r"[1-9]\d*", text.strip()):
            yield warning(topic, f"{name}={text!r} is not a number of threads", f"unset {name}")
        elif int(text) > usable:
            yield warning(
                topic,
                f"{name}={text} are more threads than cores: linear algebra on the CPU is slow",
                f"export {name}={usable}",
            )
    flags = os.environ.get("XLA_FLAGS", "")
    if "--xla_cpu_multi_thread_eigen=false" in flags:
        yield note(
            topic, "--xla_cpu_multi_thread_eigen=false in XLA_FLAGS: products use one thread"
        )
    if xla_bridge.backends_are_initialized():
        devices = [d for d in xla_bridge.local_devices() if d.platform == "cpu"]
        if len(devices) > usable:
            yield note(
                topic, f"{len(devices)} CPU devices share {usable} cores: for tests, not for speed"
            )


def check_memory() -> Iterator[Finding]:
    topic = "memory"
    values = {name: os.environ[name] for name in _MEMORY_VARIABLES if name in os.environ}
    yield from _check_memory_values(topic, values)
    gpus = xla_bridge.backends_are_initialized() and any(
        d.platform == "gpu" for d in xla_bridge.local_devices()
    )
    if values and not gpus:
        yield note(topic, f"{', '.join(values)}: without effect, as programs do not run on GPUs")
    shared = hardware_utils.get_shm_size_in_mb()
    if gpus and len(xla_bridge.local_devices()) > 1 and 0 < shared < 1024:
        yield warning(
            topic,
            f"/dev/shm has {shared:.0f} MiB, by which GPUs of one machine exchange data",
            "docker run --shm-size=1g ...",
        )
    yield from _check_huge_pages(topic)
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return
    yield ok(topic, f"{total / _GIGABYTE:.3g} GB, of which {free / _GIGABYTE:.3g} GB are free")


def _check_huge_pages(topic: str) -> Iterator[Finding]:
    """Whether memory of programs on CPUs, which XLA allocates anew for each call, could have huge pages."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    if "glibc.malloc.hugetlb=" in tunables or not hardware_utils.transparent_hugepages_on_request():
        return
    if not (xla_bridge.backends_are_initialized() and xla_bridge.default_backend() == "cpu"):
        return
    name, _, version = (hardware_utils.c_library() or "").partition(" ")
    if name == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 35):
        wanted = ":".join(filter(None, [tunables, "glibc.malloc.hugetlb=1"]))
        yield note(
            topic,
            "the kernel has huge pages for programs that ask for them; large programs on CPUs are faster with them",
            f"export GLIBC_TUNABLES={wanted}",
        )


def _check_memory_values(topic: str, values: dict[str, str]) -> Iterator[Finding]:
    new, old = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
    if new in values and old in values:
        yield error(topic, f"{old} and {new} are both set: GPUs do not start", f"unset {old}")
    for name in (new, old):
        if name not in values:
            continue
        try:
            fraction = float(values[name])
        except ValueError:
            yield error(topic, f"{name}={values[name]!r} is not a number", f"export {name}=0.75")
            continue
        if not 0 < fraction <= 1:
            yield warning(
                topic,
                f"{name}={values[name]} is not a fraction of a GPU's memory",
                f"export {name}=0.75",
            )
    allocator = values.get("XLA_PYTHON_CLIENT_ALLOCATOR", "default")
    if allocator.lower() not in _ALLOCATORS:
        yield error(
            topic,
            f"XLA_PYTHON_CLIENT_ALLOCATOR={allocator!r} is none of {', '.join(_ALLOCATORS)}: GPUs do not start",
            "unset XLA_PYTHON_CLIENT_ALLOCATOR",
        )
    preallocate = values.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    if preallocate.lower() not in ("true", "false", "0", "1"):
        yield warning(
            topic,
            f"XLA_PYTHON_CLIENT_PREALLOCATE={preallocate!r} counts as true",
            "export XLA_PYTHON_CLIENT_PREALLOCATE=false",
        )


def check_variables() -> Iterator[Finding]:
    """Variables whose names look like misspelled options of jax or of the client of GPUs."""
    known = [name.upper() for name in config.config.values] + list(_MEMORY_VARIABLES)
    for name in os.environ:
        if not name.startswith(("JAX_", "XLA_PYTHON_", "XLA_CLIENT_")) or name in known:
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
        if close:
            yield warning(
                "variables",
                f"nothing reads {name}: is {close[0]} meant?",
                f'export {close[0]}="${name}"; unset {name}',
            )
